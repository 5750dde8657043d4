"""Quality filters: functions ``(Parts, Limits) -> Drop | None``; the drop names the metric, its value and the limit.

They run on normalised text before sentence splitting. ``limits.py`` has the limits and their sources.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from korealbert.corpus.clean.language import without_addresses
from korealbert.corpus.clean.limits import MIN_HANGUL_SHARE, Limits
from korealbert.corpus.clean.repetition import (
    MIN_IN_A_ROW,
    characters_in_a_row,
    duplicate_characters,
    ngram_bounds,
    top_ngram_characters,
)
from korealbert.documents.schema import Drop

ELLIPSIS = re.compile(r"(?:…|\.\.\.)[….]*")
HASHTAG = re.compile(r"#(?=[^\W\d])")
_LEADER = re.compile(rf"\s{ELLIPSIS.pattern}\s?\d")
"""The dots between a title and its page in a table of contents."""
ENDS_IN_ELLIPSIS = re.compile(r"(?:…|\.\.\.)[\"'”’)\]]*$")
BULLETS = tuple("•●○■□◆◇▶▷▲△▪▫‣⁃-*·ㆍ※")

_MIN_WORDS = 50
"""Shares of words and n-grams of words are not judged in texts of fewer words, which Gopher drops."""
_PROSE, _WORDS_PER_SENTENCE = 0.15, 100
"""Share of words that end like a particle or verb, and number of words for each end of a sentence, that make a text with many
numbers prose. Mathematical articles have a share of 0.16 to 0.48, most tables 0 to 0.12 (경기도 ends so, too)."""
_MIN_HANGUL_WORDS = 20
"""Particles and verbs are not looked for among fewer words with Hangul."""
_MIN_SYMBOLS = 4
"""Fewer hashtags or ellipses are no spam, however short the text."""
_MIN_LINES = 5
"""Shares of lines are not judged in texts of fewer lines: a petition is often one line."""

_REPEATING_FROM, _MIN_DIFFERENT = 200, 5
"""A text of so many characters has at least this many different ones. All of 30,200 by people, in seven genres, have ten."""

_HANGUL = re.compile("[가-힣]")
_SYLLABLES_PER_WORD = 3.1
"""Of Korean prose: 4.1 characters a word with the blank."""

_FUNCTION_WORD = re.compile("[가-힣A-Za-z0-9][은는이가을를의에서와과로도만다요고며][.,!?…\"'”’)\\]]*(?!\\S)")
"""A word that ends like a particle (은, 가, 를, 에서, 도) or a verb ending (다, 요, 고, 며, 지만)."""
_SENTENCE_END = re.compile("[다요죠까][.?!]")
TERMINAL = re.compile(r"[.!?。…][\"'”’)\]」』]*$")
PARAGRAPH_BREAK = re.compile(r"\n{2,}")


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

    @cached_property
    def word_hashes(self) -> npt.NDArray[np.uint64]:
        """A hash of each word, the same for words of the same letters."""
        return np.add.reduceat(_code_hashes()[self.codes], self.spans[0])


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
    codes, limit = parts.codes, MIN_HANGUL_SHARE if limits.min_hangul_share is None else limits.min_hangul_share
    # Quick check: if the share among all characters is enough, so is the share among letters. Subtraction wraps around.
    syllables = int(np.count_nonzero(codes - np.uint16(0xAC00) < np.uint16(0xD7A4 - 0xAC00)))
    if syllables and syllables / len(codes) >= limit:
        return None
    share = hangul_share(without_addresses(parts.text))
    return Drop("not_korean", f"Hangul {share:.3f} of letters < {limit}") if share < limit else None


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
    """Drop lists of names and keywords: words of Hangul with few particles and verbs."""
    words, limit = parts.word_count, limits.min_function_word_share
    if words < _MIN_WORDS:
        return None
    enough = int(limit * words) + 2
    found = sum(1 for _ in islice(_FUNCTION_WORD.finditer(parts.text), enough))
    if found / words >= limit:
        return None
    words = sum(map(bool, map(_HANGUL.search, parts.words)))
    if words < _MIN_HANGUL_WORDS or found / words >= limit:
        return None
    return Drop("no_sentences", f"{found / words:.3f} of words with Hangul < {limit}")


def number_words(parts: Parts, limits: Limits) -> Drop | None:
    """Drop tables of numbers: too few words have a letter, and few end as in Korean prose (mathematics has figures, too)."""
    words, limit = parts.word_count, limits.min_letter_words
    if words < _MIN_WORDS:
        return None
    # Quick check: most words begin with a letter.
    if np.count_nonzero(_letters()[0][parts.codes[parts.spans[0]]]) / words >= limit:
        return None
    share = sum(any(map(str.isalpha, word)) for word in parts.words) / words
    is_prose = len(_SENTENCE_END.findall(parts.text)) * _WORDS_PER_SENTENCE >= words
    if share >= limit or (is_prose and len(_FUNCTION_WORD.findall(parts.text)) >= _PROSE * words):
        return None
    return Drop("number_words", f"{share:.3f} of words < {limit}")


def symbols(parts: Parts, limits: Limits) -> Drop | None:
    """Drop texts with too many hashtags or ellipses. Markdown headings and numbers (#1) are not hashtags."""
    text = parts.text
    hashtags = len(HASHTAG.findall(text)) if "#" in text else 0
    most = max(hashtags, text.count("…") + text.count("..."))
    words = max(1, parts.word_count)
    if most / words > limits.max_symbols_per_word:
        most = max(hashtags, len(ELLIPSIS.findall(text)) - len(_LEADER.findall(text)))  # a row of dots is one
    if most < _MIN_SYMBOLS:
        return None
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
    top_word, repeated = ngram_bounds(parts.word_hashes, lengths)
    tops = [(n, limit) for n, limit in zip(range(2, 5), limits.max_top_ngrams) if n * top_word / total > limit]
    lowest = min(limits.max_duplicate_ngrams)
    duplicates = lowest < 0 or repeated / total > lowest
    if not tops and not duplicates:
        return None
    numbers: dict[str, int] = {}
    word_ids = np.array([numbers.setdefault(word, len(numbers)) for word in parts.words], dtype=np.uint64)
    for n, limit in tops:
        if found := _above("top_ngram", top_ngram_characters(word_ids, lengths, n) / total, limit, f"{n}-gram "):
            return found
    for n, limit in zip(range(5, 11), limits.max_duplicate_ngrams if duplicates else ()):
        # Longer n-grams cover fewer words, so most texts are done after the first n.
        share = duplicate_characters(word_ids, lengths, n) / total
        if found := _above("duplicate_ngrams", share, limit, f"{n}-grams "):
            return found
        if share <= lowest:
            break
    return None


def _short_repeats(parts: Parts, limits: Limits) -> Drop | None:
    """Drop short texts that say the same words over and over; other numbers make others of them (scores, weather, lists)."""
    if parts.word_count >= _MIN_WORDS or min(limits.max_short_repeats, limits.max_short_runs) >= 1:
        return None
    letters = parts.codes[_letters()[0][parts.codes]]
    repeats = np.count_nonzero(letters[1:] == letters[:-1]) / max(len(letters), MIN_IN_A_ROW)
    if found := _above("short_repeats", repeats, limits.max_short_runs, "runs "):
        return found
    codes = parts.codes[_letters()[2][parts.codes]]
    once = codes[~np.append(False, (codes[1:] == codes[:-1]) & _letters()[0][codes[1:]])[: len(codes)]]
    return _above("short_repeats", characters_in_a_row(once) / max(1, len(once)), limits.max_short_repeats, "in a row ")


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
