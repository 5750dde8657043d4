"""A ``transformers`` tokenizer for a vocabulary of morphemes: texts are cut as in pretraining, offsets are those before it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from korealbert.vocab.morphemes import BOUNDARY, needs_morphemes, split_morphemes


def for_directory(tokenizer: Any, directory: Path) -> Any:
    """The tokenizer as the vocabulary of its directory needs it: itself, or one that cuts texts into morphemes first.

    Raises ValueError when another analyser cut the texts of pretraining.
    """
    return _MorphemeTokenizer(tokenizer) if needs_morphemes(directory) else tokenizer


class _MorphemeTokenizer:
    """Called like the tokenizer that it stands before; offsets are those of the texts as they were given."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str | Sequence[str], text_pair: str | Sequence[str] | None = None, **options: Any) -> Any:
        """The tokenizer's output for the cut texts; a special piece is cut only where the tokenizer reads it as text."""
        texts = [self._split(text), self._split(text_pair)]
        encoded = self._tokenizer(*texts, **options)
        if "offset_mapping" in encoded:
            alone = isinstance(text, str)
            rows = [encoded["offset_mapping"]] if alone else encoded["offset_mapping"]
            shifted = []
            for row, offsets in enumerate(rows):
                places = [_places(part if alone or part is None else part[row]) for part in texts]
                owners = encoded.sequence_ids(row)
                shifted.append([_before(places[owner or 0], span) for owner, span in zip(owners, offsets, strict=True)])
            encoded["offset_mapping"] = shifted[0] if alone else shifted
        return encoded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __len__(self) -> int:
        return len(self._tokenizer)

    def _split(self, text: str | Sequence[str] | None) -> Any:
        if text is None:
            return None
        if not isinstance(text, str):
            return [self._split(one) for one in text]
        if self._tokenizer.split_special_tokens:
            return split_morphemes(text)
        special = "|".join(map(re.escape, self._tokenizer.all_special_tokens))
        parts = re.split(f"({special})", text)
        return "".join(part if number % 2 else split_morphemes(part) for number, part in enumerate(parts))


def _places(text: str | None) -> list[int]:
    """Where a cut text has boundaries."""
    return [found.start() for found in re.finditer(BOUNDARY, text or "")]


def _before(places: Sequence[int], span: Sequence[int]) -> tuple[int, int]:
    """A span of the cut text as one of the text before."""
    begin, end = span
    return begin - bisect_left(places, begin), end - bisect_left(places, end)
