"""Quality filters: functions ``(Parts, Limits) -> Drop | None``; the drop names the metric, its value and the limit.

They run on normalised text before sentence splitting. Sources of the default limits, where they are not this project's own:

- Gopher (the filters of MassiveText): Rae et al. 2021, "Scaling Language Models" (arXiv 2112.11446), section A1.1 and table A1.
  Not used: 50 to 100,000 words (``min_characters`` instead) and a mean word length of 3 to 10 (which is for English).
- C4: Raffel et al. 2020 (arXiv 1910.10683), section 2.2.
- FineWeb: Penedo et al. 2024 (arXiv 2406.17557), section 3.6.

Datatrove 0.9 has the same defaults where it has the same filter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from korealbert.artifact import Spec
from korealbert.documents.schema import Drop

_MAX_TIED_NGRAMS = 20
"""The longest of the most frequent n-grams is looked for among this many equally frequent ones."""


def _ngram_hashes(word_ids: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.uint64]:
    """uint64 [words - n + 1]: a hash of each n-gram; two different ones are equal with a chance of about 2^-64."""
    count = len(word_ids) - n + 1
    mixed = (word_ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(n):
        hashes = (hashes ^ mixed[offset : offset + count]) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _top_ngram_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Count the characters of all occurrences of the most frequent n-gram (of several, the longest); 0 if none repeats."""
    hashes = _ngram_hashes(word_ids, n)
    ordered = np.sort(hashes)
    edges = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True])))
    counts = np.diff(edges)
    top = int(counts.max())
    if top < 2:
        return 0
    ends = np.cumsum(lengths)
    widths = ends[n - 1 :] - ends[: len(hashes)] + lengths[: len(hashes)]
    most_frequent = ordered[edges[:-1][counts == top]]
    return top * max(int(widths[np.argmax(hashes == one)]) for one in most_frequent[:_MAX_TIED_NGRAMS])


def _duplicate_characters(word_ids: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], n: int) -> int:
    """Count the characters of the words that are covered by repetitions of earlier n-grams."""
    hashes = _ngram_hashes(word_ids, n)
    order = np.argsort(hashes, kind="stable")
    again = hashes[order[1:]] == hashes[order[:-1]]
    if not again.any():
        return 0
    repeated = np.zeros(len(hashes), dtype=bool)
    repeated[order[1:][again]] = True
    edges = np.zeros(len(word_ids) + 1, dtype=np.int64)
    edges[: len(hashes)] += repeated
    edges[n : n + len(hashes)] -= repeated
    return int(lengths[np.cumsum(edges[:-1]) > 0].sum())


ELLIPSIS = re.compile(r"(?:…|\.\.\.)[….]*")
HASHTAG = re.compile(r"#(?=[^\W\d])")
ENDS_IN_ELLIPSIS = re.compile(r"(?:…|\.\.\.)[\"'”’)\]]*$")
BULLETS = tuple("•●○■□◆◇▶▷▲△▪▫‣⁃-*·ㆍ※")

_MIN_WORDS = 50
"""Shares of words and n-grams of words are not judged in texts of fewer words, which Gopher drops."""
_TIMES_IN_A_ROW, _MIN_IN_A_ROW, _MAX_UNIT = 3, 30, 300
"""Words are spam that stand so often in a row and have so many letters together; longer units are not looked for."""

_MIN_LINES = 5
"""Shares of lines are not judged in texts of fewer lines: a petition is often one line."""

_REPEATING_FROM, _MIN_DIFFERENT = 200, 5
"""A text of so many characters has at least this many different ones. All of 30,200 by people, in seven genres, have ten."""

_HANGUL = re.compile("[가-힣]")
_SYLLABLES_PER_WORD = 3.1
"""Of Korean prose: 4.1 characters a word with the blank."""

_FUNCTION_WORD = re.compile("[가-힣A-Za-z0-9][은는이가을를의에서와과로도만다요고며][.,!?…\"'”’)\\]]*(?!\\S)")
"""A word that ends like a particle (은, 가, 를, 에서, 도) or a verb ending (다, 요, 고, 며, 지만)."""
TERMINAL = re.compile(r"[.!?。…][\"'”’)\]」』]*$")
PARAGRAPH_BREAK = re.compile(r"\n{2,}")


PRESETS: dict[str, dict[str, Any]] = {
    "news": {},
    "novels": {"max_duplicate_line_characters": 0.3},
    "encyclopedia": {"min_letter_words": 0.7, "max_duplicate_ngrams": (0.2,) * 6},
    "books": {"max_top_ngrams": (0.25, 0.23, 0.21)},
    "petitions": {"max_top_ngrams": (0.25, 0.23, 0.21), "max_duplicate_ngrams": (0.3,) * 6},
    "law": {"max_duplicate_ngrams": (0.45,) * 6},
    "leads": {"min_characters": 40, "max_ellipsis_lines": 1.0},
    "reviews": {
        "min_characters": 20,
        "max_ellipsis_lines": 0.9,
        "max_symbols_per_word": 0.4,
        "max_short_runs": 1.0,
        "max_duplicate_line_characters": 0.3,
    },
    "verse": {
        "min_characters": 40,
        "max_ellipsis_lines": 0.6,
        "max_duplicate_lines": 0.5,
        "max_duplicate_line_characters": 0.5,
        "max_duplicate_paragraphs": 0.5,
        "max_duplicate_paragraph_characters": 0.5,
        "max_short_repeats": 1.0,
        "max_short_runs": 1.0,
        "max_top_ngrams": (0.55, 0.55, 0.55),
        "max_duplicate_ngrams": (0.5,) * 6,
    },
    "english": {"min_hangul_share": 0.0, "min_function_word_share": 0.0},
}
"""Genre → limits that differ from the defaults, so that at most 1 in 200 human-written documents of the genre is dropped
(``bench/filters.py``; docs/results.md): a court's ruling repeats its summary, a review breaks off ("…"), up to
half of a song is its refrain."""


class Limits(Spec):
    """Limits of the filters. Shares are of the whole text, from 0 to 1; a minimum of 0 and a maximum of 1 are off.

    The limits of a genre are used by naming it instead of the table, or as its ``preset``: ``limits = "law"``,
    ``limits = { preset = "law", min_characters = 500 }``. The genres are news, novels, encyclopedia, books, petitions, law,
    leads, reviews, verse (poems, songs, hymns) and english.
    """

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        table = {"preset": given} if isinstance(given, str) else given
        if not isinstance(table, Mapping):
            return given
        preset = table.get("preset", "news")
        if preset not in PRESETS:
            raise ValueError(f"no preset {preset!r}; there are {', '.join(PRESETS)}")
        own = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items() if name != "preset"}
        return PRESETS[preset] | own

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        table = handler.resolve_ref_schema(handler(core))
        name = {"enum": list(PRESETS), "description": "A genre, whose limits these are."}
        table["properties"]["preset"] = name
        return {"anyOf": [name, table]}

    min_characters: int = Field(default=100, ge=0)
    """Shorter texts are ``too_short``."""
    max_characters: int | None = Field(default=None, ge=1)
    """Longer texts are ``too_long``."""
    min_hangul_share: float = Field(default=0.3, ge=0, le=1)
    """Share of Hangul among letters; less is ``not_korean`` (specification of this project, section 4: 0.3). Korean with
    most nouns in Hanja has less (大韓民國은 民主共和國이다: 0.27)."""
    min_function_word_share: float = Field(default=0.1, ge=0, le=1)
    """Share of words that end in a Korean particle or verb ending, in texts of 50 words and more; less is ``no_sentences``.
    Replaces Gopher's 2 of 8 English function words. Prose has 0.3 to 0.6, menus and lists of names have less than 0.1."""
    min_letter_words: float = Field(default=0.8, ge=0, le=1)
    """Share of words with at least one letter, in texts of 50 words and more; less is ``number_words`` (Gopher)."""
    curly_brackets: bool = True
    """Whether curly brackets are allowed; if not, texts with any are ``curly_brackets`` (C4, against code). Allowed by default,
    because Korean news and wiki texts that have any are nearly always prose that quotes."""
    max_symbols_per_word: float = Field(default=0.1, ge=0)
    """Hashtags, or ellipses, per word; more of either is ``symbols`` (Gopher). Chat and reviews have far more."""
    max_bullet_lines: float = Field(default=0.9, ge=0, le=1)
    """Share of lines that begin with a bullet, in texts of 5 lines and more; more is ``bullet_lines`` (Gopher)."""
    max_ellipsis_lines: float = Field(default=0.3, ge=0, le=1)
    """Share of lines that end in an ellipsis, in texts of 5 lines and more; more is ``ellipsis_lines`` (Gopher)."""
    max_short_lines: float = Field(default=1.0, ge=0, le=1)
    """Share of lines shorter than ``short_line_characters``; more is ``short_lines``. FineWeb: 0.67. Off by default, because it
    drops dialogue."""
    short_line_characters: int = Field(default=15, ge=1)
    """FineWeb's 30 English characters are about 6 words; 6 Korean words without their spaces have about 15 to 20."""
    min_punctuated_lines: float = Field(default=0.0, ge=0, le=1)
    """Share of lines that end in a full stop, question or exclamation mark; less is ``unpunctuated_lines``. FineWeb: 0.12. Off
    by default, because wikis have headings and lists."""
    max_duplicate_lines: float = Field(default=0.3, ge=0, le=1)
    """Share of lines that repeat an earlier one; more is ``duplicate_lines`` (Gopher)."""
    max_duplicate_line_characters: float = Field(default=0.2, ge=0, le=1)
    """Share of characters in lines that repeat an earlier one; more is ``duplicate_lines`` (Gopher)."""
    max_duplicate_paragraphs: float = Field(default=0.3, ge=0, le=1)
    """Share of paragraphs that repeat an earlier one; more is ``duplicate_paragraphs`` (Gopher)."""
    max_duplicate_paragraph_characters: float = Field(default=0.2, ge=0, le=1)
    """Share of characters in paragraphs that repeat an earlier one; more is ``duplicate_paragraphs`` (Gopher)."""
    max_short_repeats: float = Field(default=0.6, ge=0, le=1)
    """Share of letters and digits in words that stand three times and more in a row, and have 30 of them together, in texts
    of fewer than 50 words; more is ``short_repeats``. Blanks, marks, and how often a letter is held (ㅋㅋㅋㅋ) do not count."""
    max_short_runs: float = Field(default=0.6, ge=0, le=1)
    """Share of letters that equal the one before, in such texts; more is ``short_repeats``, too. Off in reviews (laughter)."""
    max_top_ngrams: tuple[float, float, float] = (0.20, 0.18, 0.16)
    """Share of characters in the most frequent 2-, 3- and 4-gram of words; more is ``top_ngram`` (Gopher)."""
    max_duplicate_ngrams: tuple[float, float, float, float, float, float] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
    """Share of characters in repeated 5- to 10-grams of words; more is ``duplicate_ngrams`` (Gopher)."""


class Parts:
    """A text with its lines and words, which all filters share."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """Non-empty lines."""
        return [line for line in self.text.split("\n") if line]

    @cached_property
    def words(self) -> list[str]:
        """The text split at white space. Most texts are judged by ``spans`` alone, which takes a quarter of the time."""
        return self.text.split()

    @cached_property
    def codes(self) -> npt.NDArray[np.uint16]:
        """The text in UTF-16."""
        return _utf16(self.text)

    @cached_property
    def spans(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the words begin and end in ``codes``."""
        blank = np.concatenate(([True], _blanks()[self.codes], [True]))
        edges = np.flatnonzero(blank[1:] != blank[:-1])
        return edges[::2], edges[1::2]

    @cached_property
    def word_count(self) -> int:
        """Number of words."""
        return len(self.spans[0])

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of characters of each word."""
        if len(self.codes) != len(self.text):  # it has characters that take two codes
            return np.fromiter(map(len, self.words), dtype=np.int64, count=self.word_count)
        starts, ends = self.spans
        return ends - starts


def length(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts of fewer or more characters than the limits."""
    characters = len(parts.text)
    if characters < limits.min_characters:
        return Drop("too_short", f"{characters} characters < {limits.min_characters}")
    if limits.max_characters is not None and characters > limits.max_characters:
        return Drop("too_long", f"{characters} characters > {limits.max_characters}")
    return None


def not_korean(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts with too small a share of Hangul among their letters, and texts without letters."""
    codes = parts.codes
    # Quick check: if the share among all characters is enough, so is the share among letters. Subtraction wraps around.
    syllables = int(np.count_nonzero(codes - np.uint16(0xAC00) < np.uint16(0xD7A4 - 0xAC00)))
    if syllables and syllables / len(codes) >= limits.min_hangul_share:
        return None
    share = hangul_share(parts.text)
    if share < limits.min_hangul_share:
        return Drop("not_korean", f"Hangul {share:.3f} of letters < {limits.min_hangul_share}")
    return None


def hangul_share(text: str) -> float:
    """Return the share of Hangul among the letters of a text; 0 without letters. Only the basic plane counts."""
    codes = _utf16(text)
    letters, hangul = (int(np.count_nonzero(table[codes])) for table in _letters()[:2])
    return hangul / letters if letters else 0.0


def _utf16(text: str) -> npt.NDArray[np.uint16]:
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype=np.uint16)


@lru_cache(maxsize=1)
def _blanks() -> npt.NDArray[np.bool_]:
    """Return which characters of the basic plane are white space: bool [65536]."""
    return np.array([chr(code).isspace() for code in range(0x10000)])


@lru_cache(maxsize=1)
def _code_hashes() -> npt.NDArray[np.uint64]:
    """Return a random number for each character of the basic plane, 0 for white space: uint64 [65536]."""
    numbers = np.random.default_rng(1).integers(1 << 64, size=0x10000, dtype=np.uint64)
    numbers[_blanks()] = 0
    return numbers


@lru_cache(maxsize=1)
def _letters() -> tuple[npt.NDArray[np.bool_], ...]:
    """Return which characters of the basic plane are letters, Hangul, and letters or digits: three arrays, bool [65536]."""
    codes = np.arange(0x10000)
    hangul = ((codes >= 0xAC00) & (codes <= 0xD7A4)) | ((codes >= 0x3131) & (codes <= 0x318E))
    alpha, alnum = (np.array([is_one(chr(code)) for code in range(0x10000)]) for is_one in (str.isalpha, str.isalnum))
    return alpha, hangul, alnum


def curly_brackets(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts with curly brackets (code and templates), if they are not allowed."""
    if not limits.curly_brackets and (found := parts.text.count("{") + parts.text.count("}")):
        return Drop("curly_brackets", f"{found} curly brackets > 0")
    return None


def no_sentences(parts: Parts, limits: Limits) -> Drop | None:
    """Drop lists of names and keywords: Hangul with few particles and verbs."""
    words, limit = parts.word_count, limits.min_function_word_share
    if words < _MIN_WORDS:
        return None
    enough = int(limit * words) + 2
    found = sum(1 for _ in islice(_FUNCTION_WORD.finditer(parts.text), enough))
    return Drop("no_sentences", f"{found / words:.3f} of words < {limit}") if found / words < limit else None


def number_words(parts: Parts, limits: Limits) -> Drop | None:
    """Drop tables of numbers: too few words have a letter."""
    words, limit = parts.word_count, limits.min_letter_words
    if words < _MIN_WORDS:
        return None
    # Quick check: most words begin with a letter.
    if np.count_nonzero(_letters()[0][parts.codes[parts.spans[0]]]) / words >= limit:
        return None
    share = sum(any(map(str.isalpha, word)) for word in parts.words) / words
    return Drop("number_words", f"{share:.3f} of words < {limit}") if share < limit else None


def symbols(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts with too many hashtags or ellipses. Markdown headings and numbers (#1) are not hashtags."""
    text = parts.text
    hashtags = len(HASHTAG.findall(text)) if "#" in text else 0
    most = max(hashtags, text.count("…") + text.count("..."))
    words = max(1, parts.word_count)
    if most / words > limits.max_symbols_per_word:
        most = max(hashtags, len(ELLIPSIS.findall(text)))  # a row of dots is one
    if most / words > limits.max_symbols_per_word:  # a few people write without blanks between words
        words = max(words, round(len(_HANGUL.findall(text)) / _SYLLABLES_PER_WORD))
    return _above("symbols", most / words, limits.max_symbols_per_word)


def _line_shares(parts: Parts, limits: Limits) -> Drop | None:
    """Drop lists, teasers, whose lines break off, menus, and texts in which too few lines end as sentences do."""
    lines = parts.lines
    if len(lines) < _MIN_LINES:
        return None

    def share(predicate: Callable[[str], object]) -> float:
        return sum(map(bool, map(predicate, lines))) / len(lines)

    drop = _above("bullet_lines", share(lambda line: line.startswith(BULLETS)), limits.max_bullet_lines)
    if drop is None and ("…" in parts.text or "..." in parts.text):
        drop = _above("ellipsis_lines", share(ENDS_IN_ELLIPSIS.search), limits.max_ellipsis_lines)
    if drop is None and limits.max_short_lines < 1:
        drop = _above("short_lines", share(lambda line: len(line) < limits.short_line_characters), limits.max_short_lines)
    if drop is None and limits.min_punctuated_lines > 0:
        punctuated = share(TERMINAL.search)
        if punctuated < limits.min_punctuated_lines:
            drop = Drop("unpunctuated_lines", f"{punctuated:.3f} < {limits.min_punctuated_lines}")
    return drop


def duplicates(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts in which too many lines or paragraphs, or characters in them, repeat earlier ones."""
    lines = parts.lines
    if len(set(lines)) == len(lines):  # then no paragraph is repeated either
        return None
    paragraphs = PARAGRAPH_BREAK.split(parts.text.strip("\n"))
    limit, limit_characters = limits.max_duplicate_paragraphs, limits.max_duplicate_paragraph_characters
    drop = _repeated("duplicate_lines", lines, limits.max_duplicate_lines, limits.max_duplicate_line_characters)
    return drop or _repeated("duplicate_paragraphs", paragraphs, limit, limit_characters)


def repeated_characters(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts of a few characters over and over (ㅋㅋㅋ…), which may be one word on one line."""
    text = parts.text
    if len(text) < _REPEATING_FROM or len(set(text[:500])) >= _MIN_DIFFERENT:
        return None
    different = len(set(text))
    return Drop("repeated_characters", f"{different} different < {_MIN_DIFFERENT}") if different < _MIN_DIFFERENT else None


def _repeated(reason: str, parts: list[str], limit: float, limit_characters: float) -> Drop | None:
    repeated = [part for part, count in Counter(parts).items() for _ in range(count - 1)]
    by_number = _above(reason, len(repeated) / max(1, len(parts)), limit)
    share = sum(map(len, repeated)) / max(1, sum(map(len, parts)))
    return by_number or _above(reason, share, limit_characters, "characters ")


def _repeated_ngrams(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts with too frequent 2- to 4-grams of words, or too many repeated 5- to 10-grams.

    Bounds that are quick to compute show that most texts are below the limits.
    """
    if parts.word_count < _MIN_WORDS or min(*limits.max_top_ngrams, *limits.max_duplicate_ngrams) >= 1:
        return None
    lengths = parts.lengths
    total = int(lengths.sum())
    top_word, repeated = _ngram_bounds(parts)
    tops = [(n, limit) for n, limit in zip(range(2, 5), limits.max_top_ngrams) if n * top_word / total > limit]
    lowest = min(limits.max_duplicate_ngrams)
    duplicates = lowest < 0 or repeated / total > lowest
    if not tops and not duplicates:
        return None
    numbers: dict[str, int] = {}
    word_ids = np.array([numbers.setdefault(word, len(numbers)) for word in parts.words], dtype=np.uint64)
    for n, limit in tops:
        if found := _above("top_ngram", _top_ngram_characters(word_ids, lengths, n) / total, limit, f"{n}-gram "):
            return found
    for n, limit in zip(range(5, 11), limits.max_duplicate_ngrams if duplicates else ()):
        # Longer n-grams cover fewer words, so most texts are done after the first n.
        share = _duplicate_characters(word_ids, lengths, n) / total
        if found := _above("duplicate_ngrams", share, limit, f"{n}-grams "):
            return found
        if share <= lowest:
            break
    return None


def _ngram_bounds(parts: Parts) -> tuple[int, int]:
    """Return upper bounds for the characters that n-grams cover.

    The first is the greatest sum of characters of all occurrences of one word: those of an n-gram have at most n times as many.
    The second counts the characters of words in runs of five and more that all occurred before: every word of a repeated
    n-gram is in one. Colliding hashes, also those of words with the same letters, only make the bounds greater.
    """
    lengths = parts.lengths
    hashes = np.add.reduceat(_code_hashes()[parts.codes], parts.spans[0])
    order = np.argsort(hashes)
    ordered = hashes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    most = int(np.add.reduceat(lengths[order], starts).max())
    new = np.append(np.sort(np.minimum.reduceat(order, starts)), len(lengths))  # first occurrences, and the end
    runs = np.flatnonzero(np.diff(new) > 5)
    ends = np.cumsum(lengths)
    return most, int((ends[new[runs + 1] - 1] - ends[new[runs]]).sum())


def _short_repeats(parts: Parts, limits: Limits) -> Drop | None:
    """Drop short texts that say the same words over and over; other numbers make others of them (scores, weather, lists)."""
    if parts.word_count >= _MIN_WORDS or min(limits.max_short_repeats, limits.max_short_runs) >= 1:
        return None
    letters = parts.codes[_letters()[0][parts.codes]]
    repeats = np.count_nonzero(letters[1:] == letters[:-1]) / max(len(letters), _MIN_IN_A_ROW)
    if found := _above("short_repeats", repeats, limits.max_short_runs, "runs "):
        return found
    codes = parts.codes[_letters()[2][parts.codes]]
    once = codes[~np.append(False, (codes[1:] == codes[:-1]) & _letters()[0][codes[1:]])[: len(codes)]]
    return _above("short_repeats", _in_a_row(once) / max(1, len(once)), limits.max_short_repeats, "in a row ")


def _in_a_row(codes: npt.NDArray[np.uint16]) -> int:
    """Return how many characters the longest part has that is one unit again and again."""
    hashes = _ngram_hashes(codes.astype(np.uint64), 4) if len(codes) >= _MIN_IN_A_ROW else codes[:0]
    if len(hashes) - len(np.unique(hashes)) < _MIN_IN_A_ROW // 2:  # Little is repeated, as in most texts.
        return 0
    longest = 0
    for unit in range(1, min(len(codes) // _TIMES_IN_A_ROW, _MAX_UNIT) + 1):
        different = np.flatnonzero(codes[unit:] != codes[:-unit])
        same = int(np.diff(different, prepend=-1, append=len(codes) - unit).max()) - 1
        if same >= (_TIMES_IN_A_ROW - 1) * unit:
            longest = max(longest, same + unit)
    return longest if longest >= _MIN_IN_A_ROW else 0


FILTERS: tuple[Callable[[Parts, Limits], Drop | None], ...] = (
    length,
    not_korean,
    curly_brackets,
    symbols,
    _line_shares,
    number_words,
    no_sentences,
    duplicates,
    _repeated_ngrams,
    repeated_characters,
    _short_repeats,
)
"""In the order in which they run: cheap ones first; the last two find what the others leave, mostly on one line."""


def judge(text: str, limits: Limits) -> Drop | None:
    """Return the drop of the first filter that a text fails, or None."""
    parts = Parts(text)
    return next((drop for one in FILTERS if (drop := one(parts, limits))), None)


def _above(reason: str, value: float, limit: float, measured: str = "") -> Drop | None:
    return Drop(reason, f"{measured}{value:.3f} > {limit}") if value > limit else None
