"""Views whose noise is generated when they are read, the same as in stored views.

One file of settings replaces one file of noise per shard and view.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from korealbert.artifact.files import atomic_write
from korealbert.documents.shards import ShardError
from korealbert.examples.noise import NoiseSettings, draw
from korealbert.examples.schema import Rows, View, ViewHeader
from korealbert.examples.segments import Ints
from korealbert.examples.table import RowTable, check_belongs, check_complete
from korealbert.vocab.tokenizer import WordTable

NOISE_FILE = "noise.json"
_ROWS_AT_ONCE = 2_048
"""Rows whose noise is generated together: enough to hide numpy's overhead, few enough to stay in the processor's cache."""


class DrawnNoise(NoiseSettings):
    """Content of ``noise.json``: everything that the noise of some rows follows from."""

    views: int
    """Views there are."""
    vocab_sha256: str
    rows: dict[str, str]
    """Digest of each shard of training rows, by file name."""
    words: dict[str, str]
    """The word tables of the vocabulary, each as the hexadecimal digits of its packed bits."""

    @property
    def word_table(self) -> WordTable:
        """The word tables."""
        bits = {name: np.frombuffer(bytes.fromhex(packed), dtype=np.uint8) for name, packed in self.words.items()}
        return WordTable(**{name: np.unpackbits(b, count=self.vocab_size).astype(np.bool_) for name, b in bits.items()})


def view_header(settings: NoiseSettings, *, view: int, vocab_sha256: str, rows_digest: str) -> ViewHeader:
    """The header of one shard of this noise."""
    order = settings.word_order
    return ViewHeader(
        sequence_length=settings.sequence_length,
        vocab_size=settings.vocab_size,
        vocab_sha256=vocab_sha256,
        rows_digest=rows_digest,
        view=view,
        sentence_task=settings.sentence_task,
        prediction_slots=settings.masking.slots(settings.sequence_length),
        word_order_slots=order.slots(settings.sequence_length),
        batch_portion=order.portion_in(view) if order.scope == "batch" else None,
        seed=settings.seed,
    )


def write_noise(directory: Path, settings: NoiseSettings, views: int, table: RowTable, words: WordTable) -> None:
    """Write the settings that determine the noise of these rows, atomically."""
    packed = {f.name: np.packbits(getattr(words, f.name)).tobytes().hex() for f in fields(WordTable)}
    digests = {path.name: header.digest for path, header in zip(table.paths, table.headers, strict=True)}
    vocab_sha256 = table.headers[0].vocab_sha256
    noise = DrawnNoise(**dict(settings), views=views, vocab_sha256=vocab_sha256, rows=digests, words=packed)
    content = {"views": views, **noise.model_dump(mode="json")}
    atomic_write(directory / NOISE_FILE, (json.dumps(content, indent=1) + "\n").encode())


class _DrawnView:
    """One view's noise, generated for the requested rows; the counterpart of ``table.ViewTable``."""

    def __init__(self, noise: DrawnNoise, words: WordTable, view: int, rows: RowTable) -> None:
        self._words, self._noise, self._view, self._rows = words, noise, view, rows
        self.header = view_header(noise, view=view, vocab_sha256=noise.vocab_sha256, rows_digest="")

    def take(self, numbers: Ints) -> View:
        """Noise of some rows, in the order asked for."""
        return draw_view(self._rows.take(numbers), self._words, self._noise, self._view, self._rows)[0]

    def close(self) -> None:
        """There is nothing to let go of."""


def drawn_views(directory: Path, rows: RowTable) -> list[_DrawnView]:
    """The views that ``noise.json`` describes. Raises ShardError when it is damaged, ValueError when it is for other rows."""
    path = directory / NOISE_FILE
    try:
        noise = DrawnNoise.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ShardError(f"{path}: not a description of noise; rebuild its stage ({error})") from error
    check_complete(path, noise.rows, rows)
    for rows_path, header in zip(rows.paths, rows.headers, strict=True):
        digest = noise.rows.get(rows_path.name, "missing")
        mine = view_header(noise, view=0, vocab_sha256=noise.vocab_sha256, rows_digest=digest)
        check_belongs(path, mine, rows_path, header)
    return [_DrawnView(noise, noise.word_table, view, rows) for view in range(noise.views)]


def draw_view(
    rows: Rows, words: WordTable, settings: NoiseSettings, view: int, pool: RowTable | None
) -> tuple[View, list[dict[str, int]]]:
    """The noise of any number of rows in one view, and its counts, summable. ``pool`` as in ``draw``."""
    parts, counts = [], []
    for start in range(0, max(1, len(rows)), _ROWS_AT_ONCE):
        drawn = draw(rows.slice(start, min(start + _ROWS_AT_ONCE, len(rows))), words, settings, view, pool)
        parts.append(drawn.view)
        counts.append(drawn.counts())
    names = [f.name for f in fields(View) if getattr(parts[0], f.name) is not None]
    return View(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}), counts
