"""Removing evaluation texts from the corpus: whole ones at any place, and documents that contain a long part of one.

Texts are compared as letters and digits only, after NFKC and in lower case. Guarantee: no paragraph of the corpus equals an
evaluation text; no line or run of lines, also over paragraphs, equals one of ``min_letters`` or more; no line holds a whole one
of ``_WITHIN_LETTERS`` or more, laughter apart; and no document (or paragraph, as the benchmark says) shares a long stretch with
one, wherever it begins. Spacing, punctuation, line breaks, paragraphs, zero-width and full-width characters, sentence splitting
and syllables written as jamo, whether conjoining or typed one by one, do not hide a copy; nor do masked numbers and addresses,
because a text is looked for as the sources mask it, too. Not detected: shorter copies within other text, translations and
paraphrases, and copies in which letters were changed or put in at least every 40 letters. A long stretch is ``PASSAGE_LETTERS``
letters in a row, ``_MIN_DISTINCT_LETTERS`` of them different: 13 words, the n-gram of GPT-3's decontamination (Brown et al.
2020, appendix C), at 3.1 letters per Korean word (4.1 characters with the space).
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from korealbert.artifact.files import note_written, write_json
from korealbert.corpus.clean.personal_data import PLACEHOLDERS, Kind, mask
from korealbert.corpus.dedup.benchmarks import EvaluationFile, read_texts
from korealbert.corpus.dedup.signatures import Hashes, Positions, PrefixHashes, fingerprint, squeeze
from korealbert.corpus.normalise import composed, normalise
from korealbert.documents.schema import Drop

PASSAGE_LETTERS = 40
_MIN_DISTINCT_LETTERS = 6
"""Stretches of fewer different letters (ㅋㅋㅋㅋ…) prove nothing and are not looked for."""
_WITHIN_LETTERS = 20
"""Whole texts of fewer letters are ordinary phrases: within other text they prove nothing. Longer ones with a telling stretch
are found by that."""
_LAUGHTER_LETTERS = 2
"""Nor do whole texts of no more different letters."""
_STRICT = ("document", "paragraph", "ignore")
"""What a benchmark does with passages, the strictest first."""
_TABLE_BITS = 24
_HITS_AT_ONCE = 4096
"""Places compared at a time, so that memory is bounded whatever a document repeats."""
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

_PLACEHOLDER = re.compile("|".join(map(re.escape, PLACEHOLDERS.values())))

_Paragraph = list[tuple[str, str]]
"""Its lines, each with its letters."""
# A text that is looked for at any place: hash of its first ``min_letters``, its own, its length, its benchmark, and whether it
# is looked for within lines too.
_COPY = np.dtype([("opening", "<u8"), ("hash", "<u8"), ("letters", "<i8"), ("owner", "<i8"), ("within", "?")])


@dataclass(frozen=True)
class Decontaminated:
    """A document's text without evaluation texts."""

    text: str
    drop: Drop | None = None
    """``contaminated``: it held a passage that condemns the document, or nothing is left of it."""
    paragraphs: Counter[str] = field(default_factory=Counter)
    """Removed paragraphs by benchmark."""
    lines: Counter[str] = field(default_factory=Counter)
    """Removed lines of paragraphs that did not go as a whole, by benchmark."""

    @property
    def touched(self) -> bool:
        """Whether anything was removed or dropped."""
        return bool(self.drop or self.paragraphs or self.lines)


class _Table:
    """Sorted hashes, looked up by many."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        self._leading: npt.NDArray[np.bool_] = np.zeros(1 << _TABLE_BITS, dtype=bool)
        self._leading[hashes >> np.uint64(64 - _TABLE_BITS)] = True

    def hits(self, hashes: Hashes) -> tuple[Positions, Positions, Positions]:
        """Positions of those ``hashes`` that are in the table, and the first and last row of each."""
        where = np.flatnonzero(self._leading[hashes >> np.uint64(64 - _TABLE_BITS)])
        first, end = (np.searchsorted(self._hashes, hashes[where], side) for side in ("left", "right"))
        found = first < end
        return where[found], first[found], end[found]


class EvaluationTexts:
    """Hashes of all benchmark texts and of their long stretches, read from where ``index_evaluation_texts`` wrote them."""

    def __init__(self, directory: Path) -> None:
        header = json.loads((directory / "header.json").read_text("utf-8"))
        self.names, self.actions, self.min_letters = header["names"], header["actions"], header["min_letters"]
        self._texts = {int(key): int(owner) for key, owner in np.load(directory / "texts.npy")}
        self._copies = np.load(directory / "copies.npy")
        windows = np.load(directory / "windows.npy")
        self._openings, self._windows, self._owners = _Table(self._copies["opening"]), _Table(windows[:, 0]), windows[:, 1]

    def decontaminate(self, text: str) -> Decontaminated:
        """Remove what equals an evaluation text.

        A paragraph goes when it equals one of any length; lines when together they are one of ``min_letters`` letters, or hold
        one of ``_WITHIN_LETTERS``. A long stretch of one drops the document or the paragraph, as its benchmark says.
        """
        counts = Counter[str](), Counter[str]()
        before: list[_Paragraph] = []
        paragraphs = [[(line, letters_of(line)) for line in paragraph.split("\n")] for paragraph in text.split("\n\n")]
        while paragraphs != before:  # the rest may itself be an evaluation text
            before, paragraphs = paragraphs, self._without_copies(paragraphs, *counts)
        drop = None
        condemning = self._owner_of_stretch("".join(letters for lines in paragraphs for _, letters in lines), "document")
        if condemning is not None:
            drop = Drop("contaminated", f"{self.names[condemning]}: a stretch of {PASSAGE_LETTERS} letters or more")
        elif text and not paragraphs:
            drop = Drop("contaminated", f"{', '.join(sorted(counts[0] | counts[1]))}: nothing else in it")
        return Decontaminated("\n\n".join("\n".join(line for line, _ in lines) for lines in paragraphs), drop, *counts)

    def _without_copies(self, paragraphs: list[_Paragraph], whole: Counter[str], lines: Counter[str]) -> list[_Paragraph]:
        """Return the rest of a document's paragraphs. Counts the paragraphs that go as a whole, and other lines."""
        owners = iter(self._owners_of_lines([letters for paragraph in paragraphs for _, letters in paragraph]))
        left = []
        for paragraph in paragraphs:
            of_lines = [next(owners) for _ in paragraph]
            owner = self._owner_of_paragraph(paragraph)
            if owner is not None:
                whole[self.names[owner]] += 1
                continue
            lines.update(self.names[one] for one in of_lines if one is not None)
            if kept := [line for line, one in zip(paragraph, of_lines) if one is None]:
                left.append(kept)
        return left

    def _owner_of_paragraph(self, paragraph: _Paragraph) -> int | None:
        """The benchmark of which it is a text, or holds a long stretch where that removes paragraphs."""
        squeezed, text = "".join(letters for _, letters in paragraph), "\n".join(line for line, _ in paragraph)
        owner = self._texts.get(fingerprint(squeezed, text)) if text else None
        return owner if owner is not None else self._owner_of_stretch(squeezed, "paragraph")

    def _owners_of_lines(self, lines: Sequence[str]) -> list[int | None]:
        """For the letters of each line: the benchmark of which it holds a text, or is one together with neighbouring lines."""
        owners: list[int | None] = [None] * len(lines)
        hashes = PrefixHashes("".join(lines))
        ends = np.cumsum([len(letters) for letters in lines])
        starts = ends - [len(letters) for letters in lines]
        where, first, end = self._openings.hits(hashes.windows(self.min_letters))
        for begin in range(0, len(where), _HITS_AT_ONCE):
            some = slice(begin, begin + _HITS_AT_ONCE)
            rows = np.concatenate([np.arange(*bounds) for bounds in zip(first[some], end[some])])
            places = np.repeat(where[some], end[some] - first[some])
            copies = self._copies[rows]
            over = places + copies["letters"]
            wanted = copies["within"] | (np.isin(places, starts) & np.isin(over, ends))
            wanted[wanted] = hashes.runs(places[wanted], copies["letters"][wanted]) == copies["hash"][wanted]
            begins, after = np.searchsorted(ends, places[wanted], "right"), np.searchsorted(ends, over[wanted]) + 1
            for start, stop, owner in zip(begins.tolist(), after.tolist(), copies["owner"][wanted].tolist()):
                owners[start:stop] = [owner] * (stop - start)
        return owners

    def _owner_of_stretch(self, squeezed: str, action: str) -> int | None:
        if action not in self.actions or len(squeezed) < PASSAGE_LETTERS:
            return None
        _, first, _ = self._windows.hits(PrefixHashes(squeezed).windows(PASSAGE_LETTERS))
        return min((owner for owner in self._owners[first].tolist() if self.actions[owner] == action), default=None)


def letters_of(text: str) -> str:
    """Return the part by which texts are compared: letters and digits, in lower case and one spelling."""
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


def index_evaluation_texts(
    files: Sequence[EvaluationFile], min_letters: int, directory: Path, masked: Sequence[tuple[Kind, ...]] = ()
) -> None:
    """Hash all benchmark texts into ``directory``, as they are and with each of these sets of kinds of personal data masked.

    The owner of a text or stretch in two benchmarks is the stricter one (``document``, ``paragraph``, ``ignore``), of equally
    strict ones that named first.
    """
    texts: dict[int, int] = {}
    copies: dict[tuple[int, int, int], tuple[int, bool]] = {}
    windows: list[Hashes] = []
    for owner, file in sorted(enumerate(files), key=lambda each: _STRICT.index(each[1].passages)):
        for text in (form for raw in read_texts(file) for form in _forms(normalise(raw).text, masked)):
            squeezed = letters_of(text)
            hashes, letters = PrefixHashes(squeezed), len(squeezed)
            if text:
                texts.setdefault(fingerprint(squeezed, text), owner)
            telling = _telling(squeezed) if file.passages != "ignore" else np.empty(0, dtype=np.int64)
            if letters >= min_letters:
                key = int(hashes.windows(min_letters)[0]), int(hashes.windows(letters)[0]), letters
                whole = file.passages != "ignore" and letters >= _WITHIN_LETTERS and len(set(squeezed)) > _LAUGHTER_LETTERS
                copies.setdefault(key, (owner, whole and not len(telling)))
            if len(telling):
                found = hashes.windows(PASSAGE_LETTERS)[telling]
                windows.append(np.stack([found, np.full(len(found), owner, dtype=np.uint64)], axis=1))
    shutil.rmtree(directory, ignore_errors=True)  # A file of an earlier try may share its bytes with another name.
    directory.mkdir(parents=True)
    np.save(directory / "texts.npy", np.array(sorted(texts.items()), dtype=np.uint64).reshape(-1, 2))
    np.save(directory / "copies.npy", np.array([key + value for key, value in sorted(copies.items())], dtype=_COPY))
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


def _forms(text: str, masked: Sequence[tuple[Kind, ...]]) -> set[str]:
    """A text as it is, and as sources hold it that mask personal data, unless it is nothing else."""
    forms = {mask(text, kinds).text for kinds in masked}
    return {text, *(form for form in forms if squeeze(_PLACEHOLDER.sub("", form)))}


def _telling(squeezed: str) -> Positions:
    """Return the beginnings of stretches that have enough different letters."""
    if len(squeezed) < PASSAGE_LETTERS:
        return np.empty(0, dtype=np.int64)
    codes = np.frombuffer(squeezed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(codes, PASSAGE_LETTERS), axis=1)
    return np.flatnonzero(1 + (np.diff(ordered, axis=1) != 0).sum(axis=1) >= _MIN_DISTINCT_LETTERS)


@lru_cache(maxsize=2)
def load_evaluation_texts(directory: Path) -> EvaluationTexts:
    """Return the output of ``index_evaluation_texts``, which is read once per process."""
    return EvaluationTexts(directory)
