"""Removing evaluation texts from the corpus: whole paragraphs and lines that equal one, and what holds a long stretch of one.

Texts are compared as letters and digits only, after NFKC and in lower case. Guarantee: no paragraph of the corpus equals an
evaluation text, no line one of ``min_letters`` or more, and no document (or paragraph, as the benchmark says) shares a long
stretch with one, wherever it begins. Spacing, punctuation, line breaks, paragraphs, zero-width and full-width characters,
sentence splitting and syllables written as jamo, whether conjoining or typed one by one, do not hide a copy. Not detected:
shorter copies within other text, translations and paraphrases, and copies in which letters were changed or put in at least
every 40 letters. A long stretch is ``PASSAGE_LETTERS`` letters in a row, ``_MIN_DISTINCT_LETTERS`` of them different: 13 words,
the n-gram of GPT-3's decontamination (Brown et al. 2020, appendix C), at 3.1 letters per Korean word (4.1 characters with the
space).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from korealbert.artifact.files import note_written, write_json
from korealbert.corpus.dedup.benchmarks import EvaluationFile, read_texts
from korealbert.corpus.dedup.signatures import Hashes, fingerprint, squeeze, window_hashes
from korealbert.corpus.normalise import composed, normalise
from korealbert.documents.schema import Drop

PASSAGE_LETTERS = 40
_MIN_DISTINCT_LETTERS = 10
"""Stretches of fewer different letters (ㅋㅋㅋㅋ…) prove nothing and are not looked for."""
_TABLE_BITS = 24
_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by name that are drawn as blanks."""
# NFKC makes an initial of a consonant typed alone: ㅎ, ㅏ, ㄴ become 하 and an initial ᄂ.
_LONE_INITIAL = re.compile("[\u1100-\u1112]")
_UNCLOSED = re.compile("[가-힣][\u1100-\u1112]{1,2}")
_FINALS = dict(
    zip("ᄀᄁᄂᄃᄅᄆᄇᄉᄊᄋᄌᄎᄏᄐᄑᄒ", (1, 2, 4, 7, 8, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27), strict=True)
)
"""Initial consonant → number of the same consonant among the 28 finals of Unicode's syllables (0: none)."""
_CLUSTERS = {(1, 19): 3, (4, 22): 5, (4, 27): 6, (8, 1): 9, (8, 16): 10, (8, 17): 11, (8, 19): 12, (8, 25): 13} | {
    (8, 26): 14,
    (8, 27): 15,
    (17, 19): 18,
}
"""Numbers of two finals → number of the final that they make together (ㄱ and ㅅ: ㄳ)."""


@dataclass(frozen=True)
class Decontaminated:
    """A document's text without evaluation texts."""

    text: str
    drop: Drop | None = None
    """``contaminated``: it held a passage that condemns the document, or nothing is left of it."""
    paragraphs: Counter[str] = field(default_factory=Counter)
    """Removed paragraphs by benchmark."""
    lines: Counter[str] = field(default_factory=Counter)
    """Removed single lines of kept paragraphs, by benchmark."""

    @property
    def touched(self) -> bool:
        """Whether anything was removed or dropped."""
        return bool(self.drop or self.paragraphs or self.lines)


class EvaluationTexts:
    """Hashes of all benchmark texts and of their long stretches."""

    def __init__(self, names: Sequence[str], actions: Sequence[str], min_letters: int, texts: Hashes, windows: Hashes) -> None:
        self.names, self.actions, self.min_letters = names, actions, min_letters
        self._texts = {int(key): (int(owner), int(length)) for key, owner, length in texts}
        self._windows, self._owners = windows[:, 0], windows[:, 1]
        self._table: npt.NDArray[np.bool_] = np.zeros(1 << _TABLE_BITS, dtype=bool)
        self._table[self._windows >> np.uint64(64 - _TABLE_BITS)] = True

    def decontaminate(self, text: str) -> Decontaminated:
        """Remove what equals an evaluation text.

        A paragraph goes when it equals one of any length; a line within a paragraph when that one has ``min_letters`` letters.
        A passage inside other text drops the document or the paragraph, as its benchmark says.
        """
        counts = Counter[str](), Counter[str]()
        kept = [left for paragraph in text.split("\n\n") if (left := self._paragraph(paragraph, *counts)) is not None]
        drop = None
        condemning = self._owner_of_passage("".join(squeezed for _, squeezed in kept), "document")
        if condemning is not None:
            drop = Drop("contaminated", f"{self.names[condemning]}: a stretch of {PASSAGE_LETTERS} letters or more")
        elif text and not kept:
            drop = Drop("contaminated", f"{', '.join(sorted(counts[0] | counts[1]))}: nothing else in it")
        return Decontaminated("\n\n".join(paragraph for paragraph, _ in kept), drop, *counts)

    def _paragraph(self, paragraph: str, paragraphs: Counter[str], lines: Counter[str]) -> tuple[str, str] | None:
        """What stays of a paragraph, and its letters; None if nothing does. Counts what goes."""
        parts = [(line, letters_of(line)) for line in paragraph.split("\n")]
        while parts:
            squeezed, left = "".join(letters for _, letters in parts), "\n".join(line for line, _ in parts)
            owner = self._owner_of_text(squeezed, left, 0)
            if owner is None:
                owner = self._owner_of_passage(squeezed, "paragraph")
            if owner is not None:
                paragraphs[self.names[owner]] += 1
                return None
            owners = [self._owner_of_text(letters, line, self.min_letters) for line, letters in parts]
            if all(one is None for one in owners):
                return left, squeezed
            lines.update(self.names[one] for one in owners if one is not None)
            # Once more: what is left may itself be a short evaluation text.
            parts = [part for part, one in zip(parts, owners) if one is None]
        return None

    def _owner_of_text(self, squeezed: str, text: str, at_least: int) -> int | None:
        found = self._texts.get(fingerprint(squeezed, text)) if text else None
        return found[0] if found is not None and found[1] >= at_least else None

    def _owner_of_passage(self, squeezed: str, action: str) -> int | None:
        if action not in self.actions or len(squeezed) < PASSAGE_LETTERS or not len(self._windows):
            return None
        hashes = window_hashes(squeezed, PASSAGE_LETTERS)
        hits = hashes[self._table[hashes >> np.uint64(64 - _TABLE_BITS)]]
        where = np.minimum(np.searchsorted(self._windows, hits), len(self._windows) - 1)
        owners = self._owners[where[self._windows[where] == hits]]
        return min((int(owner) for owner in owners if self.actions[int(owner)] == action), default=None)


def letters_of(text: str) -> str:
    """What texts are compared by: letters and digits, in lower case and one spelling."""
    text = composed(text, "NFKC")
    if _LONE_INITIAL.search(text):
        text = _UNCLOSED.sub(_closed, text)
    return squeeze(_FILLERS.sub("", text))


def _closed(found: re.Match[str]) -> str:
    """A syllable with the consonants after it as its final, as far as they make one."""
    syllable, consonants = found.group()[0], found.group()[1:]
    code = ord(syllable)
    for number, consonant in enumerate(consonants):
        before, alone = (code - 0xAC00) % 28, _FINALS.get(consonant, 0)
        final = _CLUSTERS.get((before, alone), 0) if before else alone
        if not final:
            return chr(code) + consonants[number:]
        code += final - before
    return chr(code)


def index_evaluation_texts(files: Sequence[EvaluationFile], min_letters: int, directory: Path) -> None:
    """Hash all benchmark texts into ``directory``; of a text in two benchmarks, the one named first is the owner."""
    texts: dict[int, tuple[int, int]] = {}
    windows: list[Hashes] = []
    for owner, file in enumerate(files):
        for raw in read_texts(file):
            text = normalise(raw).text
            squeezed = letters_of(text)
            if text:
                texts.setdefault(fingerprint(squeezed, text), (owner, len(squeezed)))
            if file.passages != "ignore" and len(squeezed) >= PASSAGE_LETTERS:
                found = _telling_windows(squeezed)
                windows.append(np.stack([found, np.full(len(found), owner, dtype=np.uint64)], axis=1))
    directory.mkdir(parents=True, exist_ok=True)
    rows = [(key, *values) for key, values in sorted(texts.items())]
    np.save(directory / "texts.npy", np.array(rows, dtype=np.uint64).reshape(-1, 3))
    pairs = np.concatenate([np.empty((0, 2), dtype=np.uint64), *windows])
    _, first = np.unique(pairs[:, 0], return_index=True)
    np.save(directory / "windows.npy", pairs[first])
    header = {
        "names": [file.name for file in files],
        "actions": [file.passages for file in files],
        "min_letters": min_letters,
    }
    write_json(directory / "header.json", header)
    note_written(directory)


def _telling_windows(squeezed: str) -> Hashes:
    hashes = window_hashes(squeezed, PASSAGE_LETTERS)
    codes = np.frombuffer(squeezed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(codes, PASSAGE_LETTERS), axis=1)
    distinct = 1 + (np.diff(ordered, axis=1) != 0).sum(axis=1)
    telling: Hashes = hashes[distinct >= _MIN_DISTINCT_LETTERS]
    return telling


@lru_cache(maxsize=2)
def load_evaluation_texts(directory: Path) -> EvaluationTexts:
    """What ``index_evaluation_texts`` wrote; read once per process."""
    header = json.loads((directory / "header.json").read_text("utf-8"))
    texts, windows = np.load(directory / "texts.npy"), np.load(directory / "windows.npy")
    return EvaluationTexts(header["names"], header["actions"], header["min_letters"], texts, windows)
