"""Limits of the quality filters, and those of each genre.

Sources of the defaults, where they are not this project's own:

- Gopher (the filters of MassiveText): Rae et al. 2021, "Scaling Language Models" (arXiv 2112.11446), section A1.1 and table A1.
  Not used: 50 to 100,000 words (``min_characters`` instead) and a mean word length of 3 to 10 (which is for English).
- C4: Raffel et al. 2020 (arXiv 1910.10683), section 2.2.
- FineWeb: Penedo et al. 2024 (arXiv 2406.17557), section 3.6.

Datatrove 0.9 has the same defaults where it has the same filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from korealbert.artifact import Spec

MIN_HANGUL_SHARE = 0.3
"""The limit of texts whose language is not identified."""

NOT_KOREAN: dict[str, Any] = {"min_hangul_share": 0.0, "min_function_word_share": 0.0}
"""Limits of documents in other languages, where those of Korean do not apply."""

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
    "english": NOT_KOREAN,
}
"""Genre → limits that differ from the defaults, so that at most 1 in 200 human-written documents of the genre is dropped
(``bench/filters.py``; docs/results.md): a court's ruling repeats its summary, a review breaks off ("…"), up to
half of a song is its refrain."""


class Limits(Spec):
    """Limits of the filters. Shares are of the whole text, from 0 to 1; a minimum of 0 and a maximum of 1 are off.

    The limits of a genre are used by naming it instead of the table, or as its ``preset``: ``limits = "law"``,
    ``limits = { preset = "law", min_characters = 500 }``. The genres are news, novels, encyclopedia, books, petitions, law,
    leads, reviews, verse (poems, songs, hymns) and english. Limits that are about Korean do not apply to a document in another
    language that ``language.keep`` names.
    """

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        table = {"preset": given} if isinstance(given, str) else given
        if not isinstance(table, Mapping):
            return given
        preset = table.get("preset", "news")
        if not isinstance(preset, str) or preset not in PRESETS:
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
    min_hangul_share: float | None = Field(default=None, ge=0, le=1)
    """Share of Hangul among letters, without those of URLs; less is ``not_korean``. None: 0.3 (specification of this project,
    section 4), or 0 with ``language``, which judges line by line. Korean with most nouns in Hanja (大韓民國은 民主共和國이다)
    or English (PR 을 review 했다) has less than 0.3."""
    min_function_word_share: float = Field(default=0.1, ge=0, le=1)
    """Share of words with Hangul that end in a particle or verb ending, in texts of 50 words, 20 of them with Hangul, and more;
    less is ``no_sentences``. Replaces Gopher's 2 of 8 English function words. Prose has 0.3 to 0.6, menus and lists of names
    less than 0.1."""
    min_letter_words: float = Field(default=0.8, ge=0, le=1)
    """Share of words with at least one letter, in texts of 50 words and more; less is ``number_words`` (Gopher), unless 0.15 of
    the words end in a particle or verb ending and one in 100 ends a sentence, as in mathematical prose."""
    curly_brackets: bool = True
    """Whether curly brackets are allowed; if not, texts with any are ``curly_brackets`` (C4, against code). Allowed by default,
    because Korean news and wiki texts that have any are nearly always prose that quotes."""
    max_symbols_per_word: float = Field(default=0.1, ge=0)
    """Hashtags, or ellipses, per word; more of either, and at least 4, are ``symbols`` (Gopher). Chat and reviews have far
    more."""
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
