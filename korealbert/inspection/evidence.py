"""Find the passages of a dropped document that the deciding rule matched.

Spans are computed again from the artifact's spec. There are none if a rule file or benchmark has been moved.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from korealbert.artifact import Artifact
from korealbert.corpus.clean.filters import BULLETS, ELLIPSIS, ENDS_IN_ELLIPSIS, HASHTAG, PARAGRAPH_BREAK, TERMINAL
from korealbert.corpus.clean.personal_data import Kind
from korealbert.corpus.clean.titles import END_CHARACTERS, TitleRules
from korealbert.corpus.dedup.decontaminate import PASSAGE_LETTERS, index_evaluation_texts
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, downloaded
from korealbert.corpus.dedup.signatures import PrefixHashes, squeeze
from korealbert.corpus.dedup.stage import masked_kinds
from korealbert.corpus.normalise import matching_view

Spans = list[tuple[int, int]]

_LINE = re.compile(r"[^\n]+")
_WORD = re.compile(r"\S+")
_OTHER_LETTERS = re.compile(r"[^\W\d_가-힣ㄱ-ㆎ]+(?: +[^\W\d_가-힣ㄱ-ㆎ]+)*")


def title_spans(artifact: Artifact, row: dict[str, Any]) -> Spans:
    """Return the matched spans in the title of a dropped document."""
    title, reason, rule = row["title"], row["reason"], row["rule"]
    if reason == "title_rule":
        return _matches_of_title_rule(artifact, rule, "title", title)
    if reason == "namespace" and "title" in rule:
        return [(0, title.find(":") + 1)]
    if reason == "list_page" or (reason == "disambiguation" and rule == "title"):
        ending = "의 목록" if reason == "list_page" else "(동음이의)"
        return [(len(title) - len(ending), len(title))]
    return []


def text_spans(artifact: Artifact, row: dict[str, Any]) -> Spans:
    """Return the matched spans in the text of a dropped document; none if the rule is about the whole text (its length)."""
    text, reason, rule = row["text"], row["reason"], row["rule"]
    if reason == "title_rule":
        start = max(0, len(text) - END_CHARACTERS)
        return [(a + start, b + start) for a, b in _matches_of_title_rule(artifact, rule, "end", text[start:])]
    if reason == "contaminated":
        masked = tuple(masked_kinds(artifact.inputs()))
        return [span for file in _benchmarks(artifact, rule) for span in _passages(text, file, masked)]
    if reason in ("top_ngram", "duplicate_ngrams"):
        return _repeated_ngrams(text, int(rule.partition("-")[0]), most_frequent=reason == "top_ngram")
    return list(_FINDERS[reason](text, artifact)) if reason in _FINDERS else []


def _matches_of_title_rule(artifact: Artifact, rule_id: str, field: str, text: str) -> Spans:
    path = Path(artifact.manifest["spec"].get("title_rules") or "")
    if not path.is_file():
        return []
    rules = [rule for rule in TitleRules(path).rules if rule.id == rule_id and rule.field == field]
    found = [re.search(rule.pattern, matching_view(text)) for rule in rules]
    return [match.span() for match in found if match]


def _lines(text: str, matches: Callable[[str], bool]) -> Spans:
    return [match.span() for match in _LINE.finditer(text) if matches(match.group())]


def _ellipses(text: str, artifact: Artifact) -> Iterable[tuple[int, int]]:
    for line in _LINE.finditer(text):
        if match := ENDS_IN_ELLIPSIS.search(line.group()):
            yield line.start() + match.start(), line.start() + match.end()


def _short_lines(text: str, artifact: Artifact) -> Spans:
    limit = int(artifact.manifest["spec"]["limits"]["short_line_characters"])
    return _lines(text, lambda line: len(line) < limit)


def _duplicate_paragraphs(text: str, artifact: Artifact) -> Spans:
    edges = [0, *(edge for match in PARAGRAPH_BREAK.finditer(text) for edge in match.span()), len(text)]
    return _repetitions(list(zip(edges[::2], edges[1::2])), text)


def _repetitions(spans: Spans, text: str) -> Spans:
    """Return the spans whose text is that of an earlier span."""
    seen = set[str]()
    found: Spans = []
    for start, end in spans:
        if text[start:end] in seen:
            found.append((start, end))
        seen.add(text[start:end])
    return found


def _all(pattern: re.Pattern[str]) -> Callable[[str, Artifact], Spans]:
    return lambda text, artifact: [match.span() for match in pattern.finditer(text)]


_FINDERS: dict[str, Callable[[str, Artifact], Iterable[tuple[int, int]]]] = {
    "not_korean": _all(_OTHER_LETTERS),
    "curly_brackets": _all(re.compile(r"[{}]")),
    "symbols": _all(re.compile(f"{HASHTAG.pattern}|{ELLIPSIS.pattern}")),
    "bullet_lines": lambda text, _: [(start, start + 1) for start, _ in _lines(text, lambda line: line.startswith(BULLETS))],
    "ellipsis_lines": _ellipses,
    "short_lines": _short_lines,
    "unpunctuated_lines": lambda text, _: _lines(text, lambda line: TERMINAL.search(line) is None),
    "number_words": _all(re.compile(r"(?<!\S)(?:[\W\d_](?<!\s))+(?!\S)")),
    "duplicate_lines": lambda text, _: _repetitions([match.span() for match in _LINE.finditer(text)], text),
    "duplicate_paragraphs": _duplicate_paragraphs,
    "redirect": _all(re.compile(r"\A\s*#[^\n]+")),
}


def _repeated_ngrams(text: str, n: int, *, most_frequent: bool) -> Spans:
    """Return the spans of n-grams that occurred before, or of the most frequent n-gram."""
    words = list(_WORD.finditer(text))
    ngrams = [tuple(word.group() for word in words[start : start + n]) for start in range(len(words) - n + 1)]
    counts = Counter(ngrams)
    if not counts:
        return []
    top = max(counts, key=lambda ngram: (counts[ngram], sum(map(len, ngram))))
    seen = set[tuple[str, ...]]()
    spans: Spans = []
    for start, ngram in enumerate(ngrams):
        if ngram == top if most_frequent else ngram in seen:
            spans.append((words[start].start(), words[start + n - 1].end()))
        seen.add(ngram)
    return _merged(spans)


def _benchmarks(artifact: Artifact, rule: str) -> list[EvaluationFile]:
    """Return the evaluation files that a rule names, if they still exist."""
    names = rule.partition(":")[0].split(", ")
    files = [EvaluationFile.model_validate(one) for one in artifact.manifest["spec"].get("decontaminate", [])]
    with suppress(ValueError):  # a downloaded file is gone from the store
        return [one for one in downloaded(files, artifact.inputs()) if one.name in names and one.file.path.is_file()]
    return []


def _passages(text: str, file: EvaluationFile, masked: tuple[tuple[Kind, ...], ...]) -> Spans:
    """Return the passages of at least ``PASSAGE_LETTERS`` letters that a text shares with an evaluation file."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for letter in squeeze(character):
            letters.append(letter)
            places.append(place)
    hits = np.flatnonzero(np.isin(PrefixHashes("".join(letters)).windows(PASSAGE_LETTERS), _windows(file, masked)))
    return _merged([(places[hit], places[hit + PASSAGE_LETTERS - 1] + 1) for hit in hits.tolist()])


@lru_cache(maxsize=8)
def _windows(file: EvaluationFile, masked: tuple[tuple[Kind, ...], ...]) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        index_evaluation_texts([file.model_copy(update={"passages": "document"})], 1, Path(directory), masked)
        return np.load(Path(directory) / "windows.npy")[:, 0]


def _merged(spans: Spans) -> Spans:
    merged: Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
