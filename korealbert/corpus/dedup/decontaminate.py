"""Removal of evaluation texts from the corpus: of whole texts, and of documents that contain a long passage of one.

Texts are compared by their letters and digits, after NFKC and in lower case. Guarantees for the cleaned corpus:

- No paragraph equals an evaluation text.
- No run of lines, also over paragraphs, equals one of ``min_letters`` or more, or several of these in a row; what a page
  puts beside a comment in its line (score, date, name, label, laughter; see ``_comment_edges``) does not count.
  A date or numbers must be whole lines.
- No line contains a whole one of ``_WITHIN_LETTERS`` or more, except laughter.
- No document (or paragraph, as the benchmark says) shares a passage with one: ``PASSAGE_LETTERS`` letters in a row,
  ``_MIN_DISTINCT_LETTERS`` of them different. These are 13 words, the n-gram of GPT-3's decontamination (Brown et al. 2020,
  appendix C), at 3.1 letters per Korean word (4.1 characters with the space).

Spacing, punctuation, line breaks, tags of HTML, zero-width and full-width characters, sentence splitting and syllables written
as jamo (conjoining or typed one by one) do not hide a copy. Neither do masked numbers and addresses, because each text is also
looked for as the sources mask it. Not detected: shorter copies within other text, translations and paraphrases, and copies with
a letter changed or inserted at least every 40 letters.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import digits
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from korealbert.artifact.files import note_written, write_json
from korealbert.corpus.clean.personal_data import PLACEHOLDERS, Kind, mask
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, read_texts
from korealbert.corpus.dedup.signatures import Hashes, Positions, PrefixHashes, fingerprint, squeeze
from korealbert.corpus.normalise import composed, normalise
from korealbert.documents.schema import Drop

PASSAGE_LETTERS = 40
_MIN_DISTINCT_LETTERS = 6
"""Passages with fewer different letters (ㅋㅋㅋㅋ…) are ignored."""
_WITHIN_LETTERS = 20
"""Shorter texts are not looked for within lines, because they are ordinary phrases. Texts with passages are found by these."""
_LAUGHTER_LETTERS = 2
"""Texts with at most this many different letters are not looked for within lines, nor beside other texts."""
_STRICTNESS = ("document", "paragraph", "ignore")
"""The values of ``passages``, the strictest first."""
_TABLE_BITS = 24
_HITS_PER_BATCH = 4096
"""Places that are compared at once; limits memory if a document repeats itself."""
_TAG = re.compile("</?[A-Za-z][A-Za-z0-9]{0,9}(?:[ \t]*|[ \t][^<>\n=]*=[^<>\n]*)/?>")
"""A tag of HTML, which plain text from the web may have kept; titles in angle brackets (<기생충>, <KBS 뉴스>) are not tags."""
_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters of Unicode that are drawn as blanks."""
# NFKC turns a consonant that is typed alone into an initial: ㅎ, ㅏ, ㄴ become 하 and an initial ᄂ.
_TYPED = re.compile("[ㄱ-ㅣ\u1100-\u11ff\uffa1-\uffdc]{3,}")
"""Syllables typed as letters. Consonants after a written syllable are laughter (은ㅎㅎ), with or without a blank between."""
_UNCLOSED = re.compile("[가-힣][\u1100-\u1112]{1,2}")
_FINALS = dict(
    zip("ᄀᄁᄂᄃᄅᄆᄇᄉᄊᄋᄌᄎᄏᄐᄑᄒ", (1, 2, 4, 7, 8, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27), strict=True)
)
"""Initial consonant → number of the same consonant among the 28 finals of Unicode's syllables (0: none)."""
_CLUSTERS = {
    **{(1, 19): 3, (4, 22): 5, (4, 27): 6, (8, 1): 9, (8, 16): 10, (8, 17): 11},
    **{(8, 19): 12, (8, 25): 13, (8, 26): 14, (8, 27): 15, (17, 19): 18},
}
"""Numbers of two finals → number of their cluster (ㄱ and ㅅ: ㄳ)."""

_BESIDE = re.compile(
    r"(?P<whole>(?<!\w)(?:(?:[QAqa][0-9]{0,2}|[가나다라마바사아자차카타파하]|[Ⅰ-ⅿ]{1,4})[.)](?=\s)"
    r"|(?:ID|id|아이디|닉네임) ?[:：] ?\w{1,20}(?= )"
    r"|(?:[#@]|[A-Za-z0-9][A-Za-z0-9._+-]{0,20}@)[^\s#@:|/()\[\]<>]+)"
    r"|(?<![\w.,:])[0-9]{1,3} ?(?:초|분|시간|일|주일?|개월|달|년) ?전(?![가-힣])"
    r"|\b\w{1,12}(?=\()(?P<id>\(\w{1,16}\*+\)))"
    r"|(?P<mark>(?:19|20)?[0-9]{2} ?[./-] ?[0-9]{1,2} ?[./-] ?[0-9]{1,2}\.?|[0-9]{4}년 ?[0-9]{1,2}월 ?[0-9]{1,2}일"
    r"|(?<=\s)[-–—](?=\S)|(?:(?<=\S)|^)[-–—](?=\s)|(?<=\s)[-–—](?=\s)|[^\w\s.,!?…'\"“”‘’%~^;♥♡+=&–—-]|[_\t]|(?<=[\"'”’]),"
    r"|(?:(?<=[A-Za-z0-9*])|(?<=[A-Za-z0-9*] ))님(?=\s)|(?<=\s)(?:by|from)(?= \S{1,20}\Z))"
    r"|(?P<loose>[0-9](?:[0-9.,:]*[0-9])?|[ㄱ-ㅎㅏ-ㅣ]+|(?:하하|호호|히히|헤헤|흐흐|크크|키키|푸하)[하호히헤흐크키]*)"
    r"|(?<![가-힣])(?P<word>(?:만?점|[년월일시분초번위회개명건전]|오전|오후|오늘|어제|방금|AM|PM|NO|No|평점|별점|점수|추천|비추천|공감|비공감|좋아요"
    r"|싫어요|신고|답글|댓글|덧글|더보기|조회|조회수|작성자|글쓴이|작성일|등록일|관람객|네티즌|회원|익명|리뷰|한줄평|후기|스포일러|BEST|베스트"
    r"|방금|신고하기|답글달기|수정|수정됨|삭제|삭제하기|공유|공유하기|스크랩|[Ee]dited|네이버|카카오|왓챠|왓챠피디아|씨네21|유튜브|인스타그램"
    r"|트위터|페이스북|CGV|메가박스|롯데시네마|예스24|긍정|부정|중립|[Pp]ositive|[Nn]egative|[Nn]eutral)(?:님|수|순)?)"
    r"(?![가-힣])"
    r"|(?P<blank>[\W]+?)|(?P<letter>\w)",
)
"""What may stand beside a comment. A mark closes a name or label before it (``홍길동:``, ``질문:``, ``A:`` of a dialogue) or
opens one behind it (``- 홍길동``)."""
_BESIDE_CHARACTERS, _BESIDE_LETTERS = 48, 20
"""Characters from either end of a line in which such are looked for; more letters of names and words are no boilerplate."""
_FIELDS = re.compile(r"(?:[^|]{0,32}\|){1,6}")
"""Fields of a header (``작성자 : 홍길동 | 조회 : 10 |``), or of a footer turned round, which may be longer."""
_HEADER_CHARACTERS = 6 * 33
_FIGURES = re.compile("(?:[0-9]++(?:년|월|일|시|분|초|점|회|명|원|개|위)?|오전|오후)+")
"""Letters of texts that are a date or numbers, which are evaluation texts only if they are whole lines."""

_PLACEHOLDER = re.compile("|".join(map(re.escape, PLACEHOLDERS.values())))

_Paragraph = list[tuple[str, str]]
"""Lines, each with its letters."""
_COPY_ROW = np.dtype(
    [
        ("opening", "<u8"),
        ("hash", "<u8"),
        ("letters", "<i8"),
        ("owner", "<i8"),
        ("within", "?"),
        ("laughter", "?"),
        ("figures", "?"),
    ]
)
"""An evaluation text to look for in runs of lines: hash of its first ``min_letters``, hash and number of all its letters,
number of its benchmark, and whether it is also looked for within lines, is laughter, and is a date or numbers."""
_Hits = tuple[Positions, Positions, Positions]
"""Positions in a text where evaluation texts open, and the first row and the end of the rows of each."""
_Copy = tuple[int, int, int]
"""Begin and end of a copy, and the number of its benchmark."""


class _Edges(NamedTuple):
    """Where copies may begin and end in a text: bool [letters + 1] each."""

    begins: npt.NDArray[np.bool_]
    ends: npt.NDArray[np.bool_]

    @classmethod
    def at(cls, begins: Sequence[int] | Positions, ends: Sequence[int] | Positions, *, length: int) -> _Edges:
        """Return edges in a text of ``length`` letters."""
        edges = cls(np.zeros(length + 1, dtype=bool), np.zeros(length + 1, dtype=bool))
        edges.begins[begins], edges.ends[ends] = True, True
        return edges

    def enclose(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        """Return which runs of letters reach from an edge to an edge; ends beyond the text count as its end."""
        enclosed: npt.NDArray[np.bool_] = self.begins[begins] & self.ends[np.minimum(ends, len(self.ends) - 1)]
        return enclosed


@dataclass(frozen=True)
class Decontaminated:
    """A document's text without evaluation texts."""

    text: str
    drop: Drop | None = None
    """``contaminated``: the text has a passage for which the document is dropped, or nothing is left of it."""
    paragraphs: Counter[str] = field(default_factory=Counter)
    """Removed paragraphs by benchmark."""
    lines: Counter[str] = field(default_factory=Counter)
    """Lines removed from other paragraphs, by benchmark."""
    characters: Counter[str] = field(default_factory=Counter)
    """Characters of both with the line breaks, by benchmark."""
    dropped_for: str = ""
    """The benchmark of the passage for which the document is dropped."""

    @property
    def changed(self) -> bool:
        """Whether anything was removed or dropped."""
        return bool(self.drop or self.paragraphs or self.lines)


class _Table:
    """Sorted hashes, for looking up many at once."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = np.ascontiguousarray(hashes)  # Otherwise every search copies them.
        self._prefixes: npt.NDArray[np.bool_] = np.zeros(1 << _TABLE_BITS, dtype=bool)
        self._prefixes[hashes >> np.uint64(64 - _TABLE_BITS)] = True

    def hits(self, hashes: Hashes) -> _Hits:
        """Return the positions of the ``hashes`` in the table, and the first row and the end of the rows of each."""
        where = np.flatnonzero(self._prefixes[hashes >> np.uint64(64 - _TABLE_BITS)])
        first, end = (np.searchsorted(self._hashes, hashes[where], side) for side in ("left", "right"))
        found = first < end
        return where[found], first[found], end[found]


def _chosen(hits: _Hits, chosen: npt.NDArray[np.bool_]) -> _Hits:
    return hits[0][chosen], hits[1][chosen], hits[2][chosen]


class EvaluationTexts:
    """Hashes of all benchmark texts and of their passages, as ``index_evaluation_texts`` wrote them."""

    def __init__(self, directory: Path) -> None:
        header = json.loads((directory / "header.json").read_text("utf-8"))
        self.names, self.actions, self.min_letters = header["names"], header["actions"], header["min_letters"]
        self._texts = {int(key): int(owner) for key, owner in np.load(directory / "texts.npy")}
        self._copies = np.load(directory / "copies.npy")
        self._words, self._all = ~self._copies["laughter"], np.ones(len(self._copies), dtype=bool)
        windows = np.load(directory / "windows.npy")
        self._openings, self._windows, self._owners = _Table(self._copies["opening"]), _Table(windows[:, 0]), windows[:, 1]

    def decontaminate(self, text: str) -> Decontaminated:
        """Remove paragraphs and lines that are evaluation texts, or drop the document; see the module for what is compared."""
        counts = Counter[str](), Counter[str](), Counter[str]()
        before: list[_Paragraph] = []
        paragraphs = [[(line, letters_of(line)) for line in paragraph.split("\n")] for paragraph in text.split("\n\n")]
        while paragraphs != before:  # what is left may be an evaluation text again
            before, paragraphs = paragraphs, self._without_copies(paragraphs, *counts)
        drop = None
        owner = self._passage_owner("".join(letters for lines in paragraphs for _, letters in lines), "document")
        if owner is not None:
            drop = Drop("contaminated", f"{self.names[owner]}: a stretch of {PASSAGE_LETTERS} letters or more")
        elif text and not paragraphs:
            drop = Drop("contaminated", f"{', '.join(sorted(counts[0] | counts[1]))}: nothing else in it")
        left = "\n\n".join("\n".join(line for line, _ in lines) for lines in paragraphs)
        return Decontaminated(left, drop, *counts, dropped_for="" if owner is None else self.names[owner])

    def _without_copies(
        self, paragraphs: list[_Paragraph], whole: Counter[str], lines: Counter[str], characters: Counter[str]
    ) -> list[_Paragraph]:
        """Remove paragraphs and lines once; count the removed paragraphs, the lines removed from others, and characters."""
        owners = iter(self._line_owners([line for paragraph in paragraphs for line in paragraph]))
        left = []
        for paragraph in paragraphs:
            line_owners = [next(owners) for _ in paragraph]
            kept = [line for line, one in zip(paragraph, line_owners) if one is None]
            owner = self._paragraph_owner(paragraph, kept)
            if owner is not None:
                whole[self.names[owner]] += 1
                characters[self.names[owner]] += sum(len(line) + 1 for line, _ in paragraph) + 1
                continue
            for (line, _), one in zip(paragraph, line_owners):
                if one is not None:
                    lines[self.names[one]] += 1
                    characters[self.names[one]] += len(line) + 1
            if kept:
                left.append(kept)
            elif line_owners[-1] is not None:
                characters[self.names[line_owners[-1]]] += 1  # the blank line
        return left

    def _paragraph_owner(self, paragraph: _Paragraph, kept: _Paragraph) -> int | None:
        """Return the benchmark for which a paragraph is removed: as one of its texts, or for a passage in the lines to keep."""
        squeezed, text = "".join(letters for _, letters in paragraph), "\n".join(line for line, _ in paragraph)
        owner = self._texts.get(fingerprint(squeezed, text)) if text else None
        return owner if owner is not None else self._passage_owner("".join(letters for _, letters in kept), "paragraph")

    def _line_owners(self, lines: Sequence[tuple[str, str]]) -> list[int | None]:
        """Return the benchmark for which each line is removed: it contains a text, or is made of texts with its neighbours."""
        hashes = PrefixHashes("".join(letters for _, letters in lines))
        hits = self._openings.hits(hashes.windows(self.min_letters))
        if not len(hits[0]):
            return [None] * len(lines)
        lengths = np.array([len(letters) for _, letters in lines])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        whole = _Edges.at(starts, ends, length=int(lengths.sum()))
        copies = [copy for batch in self._copies_at(hits, hashes, self._copies["within"], whole) for copy in batch]
        near = hits[0] - starts[np.searchsorted(ends, hits[0], "right")] <= _HEADER_CHARACTERS
        some = any(self._copies_at(_chosen(hits, near), hashes, self._all, whole))
        bare, wide = _line_edges(lines, starts.tolist(), beside=some)
        copies += self._joined(hits, hashes, wide, bare, whole)
        owners: list[int | None] = [None] * len(lines)
        for start, stop, owner in copies:
            first, after = np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop) + 1
            owners[first:after] = [owner] * int(after - first)
        return owners

    def _joined(self, hits: _Hits, hashes: PrefixHashes, wide: _Edges, bare: _Edges, whole: _Edges) -> list[_Copy]:
        """Return the copies that lie end to end between ``wide`` edges (begins and ends); laughter alone, between ``bare``."""
        reached, closed = wide.begins.copy(), wide.ends.copy()
        first = reached[hits[0]]
        found = self._copies_at(_chosen(hits, first), hashes, self._all, whole, bare)
        copies = [copy for batch in found for copy in batch]
        if copies:  # behind these may be others, but no laughter begins within a line
            found = self._copies_at(_chosen(hits, ~first), hashes, self._words, whole)
            copies = sorted(copies + [copy for batch in found for copy in batch])
        connected = []
        for copy in copies:
            if reached[copy[0]]:
                reached[copy[1]] = True
                connected.append(copy)
        joined = []
        for copy in reversed(connected):
            if closed[copy[1]]:
                closed[copy[0]] = True
                joined.append(copy)
        return joined

    def _copies_at(
        self,
        hits: _Hits,
        hashes: PrefixHashes,
        wanted: npt.NDArray[np.bool_],
        whole: _Edges,
        bare: _Edges | None = None,
    ) -> Iterator[list[_Copy]]:
        """Yield the copies of ``wanted`` texts that begin at the hits; those of laughter only between ``bare`` edges.

        Dates and numbers must reach from one edge of ``whole`` lines to another.
        """
        where, first, end = hits
        for begin in range(0, len(where), _HITS_PER_BATCH):
            batch = slice(begin, begin + _HITS_PER_BATCH)
            rows = np.concatenate([np.arange(*bounds) for bounds in zip(first[batch], end[batch])])
            places = np.repeat(where[batch], end[batch] - first[batch])
            rows, places = rows[wanted[rows]], places[wanted[rows]]
            copies = self._copies[rows]
            stops = places + copies["letters"]
            found = np.ones(len(rows), dtype=bool)
            if bare is not None:
                found &= ~copies["laughter"] | bare.enclose(places, stops)
            found &= ~copies["figures"] | whole.enclose(places, stops)
            found[found] = hashes.runs(places[found], copies["letters"][found]) == copies["hash"][found]
            yield list(zip(places[found].tolist(), stops[found].tolist(), copies["owner"][found].tolist()))

    def _passage_owner(self, squeezed: str, action: str) -> int | None:
        if action not in self.actions or len(squeezed) < PASSAGE_LETTERS:
            return None
        _, first, _ = self._windows.hits(PrefixHashes(squeezed).windows(PASSAGE_LETTERS))
        return min((owner for owner in self._owners[first].tolist() if self.actions[owner] == action), default=None)


def _comment_edges(line: str, letters: str) -> tuple[list[int], ...]:
    """Return where in a line's letters a comment may begin, where it may end, and such places within laughter and numbers.

    Before and behind it may be scores, dates, counts, laughter, hashtags, accounts, portals and words of a page's buttons, and
    names or other short words that a mark (colon, dash, bracket, stroke, star) sets off. Marks of sentences and quotation marks
    do not.
    """
    fields, behind_fields = _FIELDS.match(line), _FIELDS.match(line[: -_HEADER_CHARACTERS - 1 : -1])
    head = line[: max(_BESIDE_CHARACTERS, fields.end() if fields else 0)]
    tail = line[-max(_BESIDE_CHARACTERS, behind_fields.end() if behind_fields else 0) :]
    before = _boilerplate_ends(list(_BESIDE.finditer(head)), forward=True)
    behind = _boilerplate_ends(list(_BESIDE.finditer(tail))[::-1], forward=False)
    begins, inner_begins = ([len(letters_of(head[:end])) for end in side] for side in before)
    ends, inner_ends = ([len(letters) - len(letters_of(tail[end:])) for end in side] for side in behind)
    return begins, ends, inner_begins, inner_ends


def _boilerplate_ends(parts: list[re.Match[str]], *, forward: bool) -> tuple[list[int], list[int]]:
    """Return the offsets up to which parts from one end of a line belong to no comment, and such offsets within parts."""
    found: list[int] = []
    inner: list[int] = []
    words = open_letters = 0
    for part in parts:
        start, end = part.span()
        if part["letter"]:
            words, open_letters = words + end - start, open_letters + end - start
            if words > _BESIDE_LETTERS:
                break
        elif part["mark"]:
            open_letters = 0
        if not open_letters and not part["blank"]:
            found.append(end if forward else start)
            inner += range(start + 1, end) if part["loose"] else ()
            inner += [part.start("id")] if part["id"] else ()
    return found, inner


def _line_edges(lines: Sequence[tuple[str, str]], starts: Sequence[int], *, beside: bool) -> tuple[_Edges, _Edges]:
    """Return where comments may begin and end in the letters of all lines, and these with places within laughter and numbers.

    These are the edges of lines, places within numbers there and, if ``beside``, ``_comment_edges``, which take time.
    """
    length = starts[-1] + len(lines[-1][1])
    bare, wide = _Edges.at([], [], length=length), _Edges.at([], [], length=length)
    for start, (line, letters) in zip(starts, lines):
        end = start + len(letters)
        for edges in (bare, wide):
            edges.begins[start : end - len(letters.lstrip(digits)) + 1] = True
            edges.ends[start + len(letters.rstrip(digits)) : end + 1] = True
        if beside:
            begins, ends, inner_begins, inner_ends = (
                [start + offset for offset in side] for side in _comment_edges(line, letters)
            )
            bare.begins[begins], bare.ends[ends] = True, True
            wide.begins[begins + inner_begins], wide.ends[ends + inner_ends] = True, True
    return bare, wide


def letters_of(text: str) -> str:
    """Return the letters and digits by which texts are compared, in lower case and one spelling."""
    text = _TAG.sub("", text) if "<" in text else text
    text = _TYPED.sub(lambda typed: _UNCLOSED.sub(_with_final, composed(typed[0], "NFKC")), text)
    return squeeze(_FILLERS.sub("", composed(text, "NFKC")))


def _with_final(found: re.Match[str]) -> str:
    """Compose a syllable with the consonants after it, as far as they can be its final."""
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
    """Write the hashes of all benchmark texts to ``directory``, unmasked and with each set of kinds in ``masked`` masked.

    A text or passage of two benchmarks counts for the one that is stricter about passages, or else for the first.
    """
    texts: dict[int, int] = {}
    copies: dict[tuple[int, int, int], tuple[int, bool, bool, bool]] = {}
    windows: list[Hashes] = []
    for owner, file in sorted(enumerate(files), key=lambda each: _STRICTNESS.index(each[1].passages)):
        for text in (form for raw in read_texts(file) for form in _forms(normalise(raw).text, masked)):
            squeezed = letters_of(text)
            hashes, letters = PrefixHashes(squeezed), len(squeezed)
            if text:
                texts.setdefault(fingerprint(squeezed, text), owner)
            passages = _passages(squeezed) if file.passages != "ignore" else np.empty(0, dtype=np.int64)
            if letters >= min_letters:
                key = int(hashes.windows(min_letters)[0]), int(hashes.windows(letters)[0]), letters
                laughter = len(set(squeezed)) <= _LAUGHTER_LETTERS
                figures = _FIGURES.fullmatch(squeezed) is not None
                within = file.passages != "ignore" and letters >= _WITHIN_LETTERS and not (laughter or figures or len(passages))
                copies.setdefault(key, (owner, within, laughter, figures))
            if len(passages):
                found = hashes.windows(PASSAGE_LETTERS)[passages]
                windows.append(np.stack([found, np.full(len(found), owner, dtype=np.uint64)], axis=1))
    shutil.rmtree(directory, ignore_errors=True)  # a file of an earlier try may be a hard link
    directory.mkdir(parents=True)
    np.save(directory / "texts.npy", np.array(sorted(texts.items()), dtype=np.uint64).reshape(-1, 2))
    np.save(directory / "copies.npy", np.array([key + value for key, value in sorted(copies.items())], dtype=_COPY_ROW))
    pairs = np.concatenate([np.empty((0, 2), dtype=np.uint64), *windows])
    _, first = np.unique(pairs[:, 0], return_index=True)
    np.save(directory / "windows.npy", pairs[first])
    header = {"names": [file.name for file in files], "actions": [file.passages for file in files], "min_letters": min_letters}
    write_json(directory / "header.json", header)
    note_written(directory)


def _forms(text: str, masked: Sequence[tuple[Kind, ...]]) -> set[str]:
    """Return a text and its masked forms, without those that consist of placeholders only."""
    forms = {mask(text, kinds).text for kinds in masked}
    return {text, *(form for form in forms if squeeze(_PLACEHOLDER.sub("", form)))}


def _passages(squeezed: str) -> Positions:
    """Return the beginnings of the passages that have enough different letters."""
    if len(squeezed) < PASSAGE_LETTERS:
        return np.empty(0, dtype=np.int64)
    codes = np.frombuffer(squeezed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(codes, PASSAGE_LETTERS), axis=1)
    return np.flatnonzero(1 + (np.diff(ordered, axis=1) != 0).sum(axis=1) >= _MIN_DISTINCT_LETTERS)


@lru_cache(maxsize=2)
def load_evaluation_texts(directory: Path) -> EvaluationTexts:
    """Read the output of ``index_evaluation_texts``, once per process."""
    return EvaluationTexts(directory)
