"""Sentence splitting by rules or by Kiwi, and how far the two agree on a sample of the corpus (boundary F1).

The sample is the documents with the lowest hashed ids, so it does not depend on shards or workers. Only their first
``_CHARACTERS_PER_DOCUMENT`` characters are compared, so that Kiwi takes the same seconds for any corpus.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from korealbert.artifact import Stats
from korealbert.documents.shards import TableWriter, read_rows
from korealbert.philox import hash64

if TYPE_CHECKING:
    from kiwipiepy import Kiwi

Method = Literal["rules", "kiwi", "none"]

_MAX_QUOTE = 200
"""Characters of a quotation that is not split; in a longer one a quotation mark is probably missing."""

_CLOSERS = "\"'”’」』》〉)\\]}"
_OPENERS = {")": "(", "]": "[", "}": "{"}
_LAUGHS = "ㅋㅎㅠㅜ\\^~;♥♡"
_MARKS = ".!?。！？…"
_CANDIDATE = re.compile(
    # A single character class at the beginning makes the search run at the speed of C.
    rf"[{_MARKS}{_LAUGHS}](?:(?<=[{_MARKS}])[{_MARKS}]*(?P<close>[{_CLOSERS}]*)(?P<gap>\s*)"
    rf"|(?<=[{_LAUGHS}])(?P<laugh>[{_LAUGHS}.!?]+)\s+"
    # Laughter without a blank after it ends no sentence; it is skipped at once, because trying each letter is quadratic.
    rf"|(?<=[{_LAUGHS}])(?:[.!?]*[{_LAUGHS}])+)"
)
_CLOSE, _GAP, _LAUGH = 1, 2, 3
_QUOTED = re.compile(
    "|".join(
        f"{left}[^{left}{right}\n]{{0,{_MAX_QUOTE}}}{right}" for left, right in ("“”", "‘’", "「」", "『』", "《》", "〈〉")
    )
    # The look-behind comes after the quotation mark, because branches that begin with a literal are twice as fast.
    + rf"|\"(?<![^\s(\[‘“<·…,=:]\")(?=\S)[^\"\n]{{1,{_MAX_QUOTE}}}\""
    + rf"|'(?<![^\s(\[‘“<·…,=:\"]')(?=\S)[^'\n]{{1,{_MAX_QUOTE}}}(?<=\S)'(?![A-Za-z0-9])"
    + rf"|\([^()\n]{{0,{_MAX_QUOTE}}}\)|\[[^\[\]\n]{{0,{_MAX_QUOTE}}}\]"
)
# These continue the sentence after a closing quotation mark: "갔다." 라고 말했다.
_CONTINUES = re.compile(
    r"(?:하고|고|며|면서|는|은|이|가|을|를|의|에|도|로|으로|등|등의|이란|란|이라|라)(?![가-힣])|이?라[고며는면]"
)
_SYLLABLE_LABELS = "가나다라마바사아자차카타파하"
_LABEL = re.compile(rf"(?:^|[\s(【】\[\]<《『「“\"])(?:\d{{1,4}}|[{_SYLLABLE_LABELS}]|[ivxIVX]{{1,4}}|[A-Za-z])$")
"""The label of a list: ``1``, ``가``, also after a heading (【이 유】1) or at the beginning of a quotation."""
_ABBREVIATION = re.compile(
    r"(?:^|[^A-Za-z])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|Vol|Inc|Co|Corp|Ltd|Pte|Sdn|Bhd|etc|al|pp|ed|eds|cf|Fig|e\.g|i\.e"
    r"|U\.S|U\.K|INC|CO|CORP|LTD|PTE|SDN|BHD)$"
)
_DAY = re.compile(r"\d\.\s*\d{1,2}$")
"""The last part of ``2019. 12. 31`` and ``12. 31``."""
_FINAL = frozenset("다요까죠네")
"""Last syllables after which a sentence may begin without a space, and after which an ellipsis ends a sentence."""
_FINAL_BEFORE_LAUGHTER = frozenset("다요까죠네음임함지어아야냐듯.!?")


def split_line(line: str) -> list[str]:
    """Return the sentences of a line, stripped and not empty. Linear in the length."""
    line = line.strip()
    length = len(line)
    quoted: list[tuple[int, int]] | None = None
    sentences, begin = [], 0
    for match in _CANDIDATE.finditer(line):
        kind = match.lastindex
        if kind is None:
            continue
        cut = match.end(_CLOSE if kind == _GAP else _LAUGH)
        if cut == length:
            break
        if quoted is None:
            quoted = _quotations(line)
            starts = [start for start, _ in quoted]
        inside = bisect_right(starts, match.start()) - 1
        if inside >= 0 and starts[inside] < cut < quoted[inside][1]:
            continue
        if _ends_sentence(line, match):
            sentences.append(line[begin:cut].strip())
            begin = cut
    sentences.append(line[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _quotations(line: str) -> list[tuple[int, int]]:
    """Return the spans within which no sentence ends. Of a line that is a single quotation, those in it."""
    quoted = [match.span() for match in _QUOTED.finditer(line)]
    if quoted == [(0, len(line))]:
        quoted = [match.span() for match in _QUOTED.finditer(line, 1, len(line) - 1)]
    return quoted


def _ends_sentence(line: str, match: re.Match[str]) -> bool:
    start, end = match.span()
    before = line[start - 1] if start else ""
    if match.lastindex == _LAUGH:
        return before in _FINAL_BEFORE_LAUGHTER
    after, close, gap = line[end], match[_CLOSE], match[_GAP]
    if not gap:
        # 했다.그는 and 뭐야!진짜 are two sentences; 3.5, a.b, "갔다."며, Yahoo!는 are not
        if close or after.isascii() or not (after.isalpha() or after in "“‘"):
            return False
        shouted = "가" <= before <= "힣" and line[start] in "!?"
        return before in _FINAL or (shouted and not _CONTINUES.match(line, end))
    if close:
        return not (_CONTINUES.match(line, end) or _closes_within_sentence(line, match.end(_CLOSE) - 1))
    mark = line[start : match.start(_CLOSE)]
    if mark == ".":
        return _full_stop_ends_sentence(line, start, before, after)
    return before in _FINAL or not mark.startswith(("…", ".."))


def _closes_within_sentence(line: str, closer: int) -> bool:
    """Return whether a bracket was opened within a sentence, which goes on after it: 시행령(1992. 12. 31.) 제19조."""
    opener, start, depth = _OPENERS.get(line[closer], ""), closer, 1
    first = max(0, closer - _MAX_QUOTE) if opener else closer
    while depth and start > first:
        start -= 1
        depth += (line[start] == line[closer]) - (line[start] == opener)
    before = "" if depth else line[max(0, start - _MAX_QUOTE) : start].rstrip()
    if before.endswith(".") and _DAY.search(before[:-1]):
        return True
    return bool(before) and before[-1] not in _FINAL and before[-1] not in _MARKS + _CLOSERS + _LAUGHS


def _full_stop_ends_sentence(line: str, stop: int, before: str, after: str) -> bool:
    """Return whether a full stop with a blank after it is not part of a number, date, list label or abbreviation."""
    if before.isdigit():
        label = _LABEL.search(line, max(0, stop - 6), stop)
        in_date = _DAY.search(line, max(0, stop - 8), stop)
        return not (after.isdigit() or label or in_date)
    if before.isascii() and before.isalpha():
        return not (after.islower() or _ABBREVIATION.search(line, max(0, stop - 6), stop))
    if before not in _SYLLABLE_LABELS or (stop > 1 and not (line[stop - 2].isspace() or line[stop - 2] == "(")):
        return True
    return not _LABEL.search(line, max(0, stop - 3), stop)


@lru_cache(maxsize=1)
def _kiwi() -> Kiwi:
    from kiwipiepy import Kiwi  # noqa: PLC0415  (1 to 4 s and 0.5 GB: loaded only where used)

    return Kiwi(num_workers=1)


def _split_line_kiwi(line: str) -> list[str]:
    """Split a line by Kiwi, which is better on text without punctuation; about 0.2 MB/s on one core."""
    found = _kiwi().split_into_sents(line, return_sub_sents=False)
    starts = [0, *(sentence.start for sentence in found[1:]), len(line)]
    sentences = (line[start:end].strip() for start, end in pairwise(starts))
    return [sentence for sentence in sentences if sentence]


def split_text(text: str, method: Method) -> str:
    """Put each sentence on a line, and a blank line between paragraphs; ``none`` leaves the text as it is."""
    if method == "none":
        return text
    split: Callable[[str], list[str]] = split_line if method == "rules" else _split_line_kiwi
    paragraphs = []
    for paragraph in text.split("\n\n"):
        sentences = [sentence for line in paragraph.split("\n") if line for sentence in split(line)]
        if sentences:
            paragraphs.append("\n".join(sentences))
    return "\n\n".join(paragraphs)


def count_sentences(text: str) -> int:
    """Count the lines that are not blank, which are the sentences after ``split_text``."""
    return sum(1 for line in text.split("\n") if line)


_CHARACTERS_PER_DOCUMENT = 2_000
"""A sampled document is compared up to the end of the line in which this many characters are reached."""

_SAMPLE_SCHEMA = pa.schema([("draw", pa.uint64()), ("text", pa.string())])


class SentenceSample:
    """The documents of one shard that may be in the sample."""

    def __init__(self, out_dir: Path, index: int, size: int) -> None:
        self._path, self._size = out_dir / ".work" / f"sentences-{index:05d}.arrow", size
        self._lowest: list[tuple[int, str]] = []  # a heap by negative draw, so that its first entry has the highest draw

    def add(self, document_id: str, text: str) -> None:
        """Offer a document with its text before splitting."""
        entry = (-hash64(f"sentences\0{document_id}\0{text}"), text)
        if len(self._lowest) < self._size:
            heapq.heappush(self._lowest, entry)
        elif self._lowest and entry > self._lowest[0]:
            heapq.heapreplace(self._lowest, entry)

    def write(self) -> None:
        """Write the sampled documents; no file if there are none."""
        if self._lowest:
            self._path.parent.mkdir(exist_ok=True)
            with TableWriter(self._path, _SAMPLE_SCHEMA) as table:
                for draw, text in sorted(self._lowest):
                    table.append((-draw, _beginning(text)))


def _beginning(text: str) -> str:
    end = text.find("\n", _CHARACTERS_PER_DOCUMENT)
    return text if end < 0 else text[:end]


def agreement(size: int, index: int, out_dir: Path) -> Stats:
    """Compare both splitters on the ``size`` documents sampled from all shards; see ``compare``."""
    tables = sorted((out_dir / ".work").glob("sentences-*.arrow"))
    rows = heapq.nsmallest(size, (row for path in tables for row in read_rows(path, _SAMPLE_SCHEMA)))
    return compare(text for _, text in rows)


def compare(texts: Iterable[str]) -> dict[str, Any]:
    """Count the boundaries within lines that ``both`` splitters find, ``rules_only`` and ``kiwi_only``, and their ``f1``.

    ``f1`` = 2·both / (2·both + the others), or 1 without boundaries. Boundaries are counts of non-blank characters.
    """
    both = rules_only = kiwi_only = documents = 0
    for text in texts:
        documents += 1
        for line in text.split("\n"):
            rules, kiwi = _boundaries(split_line(line)), _boundaries(_split_line_kiwi(line))
            both += len(rules & kiwi)
            rules_only += len(rules - kiwi)
            kiwi_only += len(kiwi - rules)
    set_at_all = 2 * both + rules_only + kiwi_only
    counts = {"documents": documents, "both": both, "rules_only": rules_only, "kiwi_only": kiwi_only}
    return {**counts, "f1": round(2 * both / set_at_all, 4) if set_at_all else 1.0}


def _boundaries(sentences: list[str]) -> set[int]:
    places, place = set(), 0
    for sentence in sentences[:-1]:
        place += sum(map(len, sentence.split()))
        places.add(place)
    return places
