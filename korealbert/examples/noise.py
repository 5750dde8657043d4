"""Draws all noise of some rows in a view; the same function serves stored views and views generated on the fly.

The order is that of the paper: split, swap, mask, move. Every draw is keyed by (seed, view, example, stream), so the noise of a
row does not depend on the rest of the batch, and rows without word-order noise equal those of a view without any.

Views are either stored, one noise file per shard and view, or generated when they are read, from one file of settings
(``noise.json``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from korealbert.artifact import Spec
from korealbert.artifact.files import atomic_write
from korealbert.documents.shards import ShardError
from korealbert.examples.masking import Masked, MaskingSpec, mask
from korealbert.examples.schema import Array, Rows, SentenceTask, View, ViewHeader, id_type, position_type
from korealbert.examples.segments import Ints, Layout, continue_with, lay_out, sentence_starts, slots, split_rows
from korealbert.examples.table import RowTable, check_belongs, check_complete
from korealbert.examples.word_order import Moved, WordOrderSpec, move
from korealbert.philox import RowDraws, Stream, below, happens
from korealbert.vocab.tokenizer import SPECIAL, WordTable

_REJECTIONS = 32
"""Draws that may hit a row of the same document, before the rows of other documents are listed and one of them is drawn."""


class NoiseSettings(Spec):
    """What ``draw`` needs besides the rows."""

    seed: int
    sentence_task: SentenceTask
    masking: MaskingSpec
    word_order: WordOrderSpec
    sequence_length: int
    vocab_size: int


@dataclass(frozen=True)
class GeneratedNoise:
    """The noise of R rows: as it is stored, and how it was generated."""

    view: View
    layout: Layout
    """The clean pieces in final order."""
    masked: Masked
    moved: Moved

    def counts(self) -> dict[str, int]:
        """Count the noise; the counts can be summed, and ``noise_rates`` turns them into shares.

        A random replacement equal to the original piece counts as kept. ``wop_rows`` counts rows drawn to have word-order
        noise, including the few in which no token could move. ``ngrams_3`` counts predicted n-grams of three words, after
        shortening; ``cut_words`` counts rows in which no word fits and part of one is predicted.
        """
        masked, lengths = self.masked, self.layout.length
        is_mask = masked.replacement == SPECIAL.mask
        kept = masked.replacement == self.layout.ids[masked.selected]
        return {
            "rows": len(lengths),
            "pieces": int(lengths.sum()),
            "mlm_targets": len(masked.rows),
            "masked": int(is_mask.sum()),
            "random": int((~is_mask & ~kept).sum()),
            "kept": int(kept.sum()),
            "wop_rows": int(self.moved.with_noise.sum()),
            "wop_pieces": int(lengths[self.moved.with_noise].sum()),
            "wop_targets": len(self.moved.rows),
            "sop_rows": int((self.view.sop >= 0).sum()),
            "sop_swapped": int((self.view.sop == 1).sum()),
            "single_segment": int((self.layout.first == lengths).sum()),
            "cut_words": int(masked.ngrams[0]),
            **{f"ngrams_{n}": int(count) for n, count in enumerate(masked.ngrams[1:], start=1)},
        }


def noise_rates(counts: dict[str, int]) -> dict[str, float]:
    """Return the shares realised in some rows of views, from summed counts of ``GeneratedNoise.counts``.

    ``mlm_rate`` is of all pieces; ``masked_share``, ``random_share``, ``kept_share`` are of MLM targets; ``wop_portion`` is of
    rows; ``wop_rate`` is of the pieces of rows with word-order noise; ``sop_swapped_share`` is of rows with a sentence label.
    """
    return {
        "mlm_rate": _share(counts["mlm_targets"], counts["pieces"]),
        "masked_share": _share(counts["masked"], counts["mlm_targets"]),
        "random_share": _share(counts["random"], counts["mlm_targets"]),
        "kept_share": _share(counts["kept"], counts["mlm_targets"]),
        "wop_portion": _share(counts["wop_rows"], counts["rows"]),
        "wop_rate": _share(counts["wop_targets"], counts["wop_pieces"]),
        "sop_swapped_share": _share(counts["sop_swapped"], counts["sop_rows"]),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 5) if whole else 0.0


@dataclass(frozen=True)
class _Continuation:
    """Second segments from other rows, for the rows of a batch that get one."""

    rows: Ints
    """Rows of the batch."""
    b_row: Ints
    b_start: Ints
    b_len: Ints


def draw(rows: Rows, words: WordTable, settings: NoiseSettings, view: int, pool: RowTable | None = None) -> GeneratedNoise:
    """Draw the noise of R rows in one view. ``pool`` has all rows of the split; only NSP needs it."""
    draws = RowDraws(settings.seed, view, rows.example_id)
    split = split_rows(rows, draws, settings.sentence_task)
    layout = lay_out(rows, split)
    label = split.label
    extra: dict[str, Array] = {}
    if settings.sentence_task == "nsp":
        assert pool is not None
        other = _draw_continuations(rows.doc_id, layout, label, draws, pool)
        layout = _with_continuations(layout, other, pool)
        label = label.copy()
        label[other.rows] = 1
        extra = _columns(other, len(rows))
    masking, word_order = settings.masking, settings.word_order
    prediction_slots, order_slots = masking.slots(settings.sequence_length), word_order.slots(settings.sequence_length)
    masked = mask(layout, words, masking, draws, vocab_size=settings.vocab_size, slots=prediction_slots)
    moved = move(layout, masked, words, word_order, draws)
    position = position_type(settings.sequence_length).to_pandas_dtype()
    piece = id_type(settings.vocab_size).to_pandas_dtype()

    mlm_count, wop_count = (np.bincount(of.rows, minlength=len(rows)) for of in (masked, moved))

    def positions(of: Masked | Moved, places: Ints, counts: Ints, width: int) -> Array:
        return slots(counts, layout.positions(of.rows, places), width, position)

    noise = View(
        a_len=layout.first.astype(position),
        sop=label.astype(np.int8),
        mlm_pos=positions(masked, masked.places, mlm_count, prediction_slots),
        mlm_id=slots(mlm_count, masked.replacement, prediction_slots, piece),
        mlm_count=mlm_count.astype(position),
        wop_pos=positions(moved, moved.places, wop_count, order_slots),
        wop_src=positions(moved, moved.origins, wop_count, order_slots),
        wop_count=wop_count.astype(position),
        **extra,
    )
    return GeneratedNoise(noise, layout, masked, moved)


def _draw_continuations(doc_id: Array, layout: Layout, label: Ints, draws: RowDraws, pool: RowTable) -> _Continuation:
    """For half of the pairs draw a second segment that begins at a sentence of another document's row."""
    lot = draws.block(Stream.NEXT_SENTENCE)[0]
    chosen = np.flatnonzero((label == 0) & happens(lot, 0.5))
    b_row = np.full(len(chosen), -1, dtype=np.int64)
    pending = np.arange(len(chosen))
    for attempt in range(1, _REJECTIONS):
        number = draws.block(Stream.NEXT_SENTENCE, chosen[pending], attempt=attempt)[0]
        b_row[pending] = below(number, len(pool))
        (owner,) = pool.columns(["doc_id"], b_row[pending])
        pending = pending[owner == doc_id[chosen[pending]]]
        if not pending.size:
            break
    for place in pending.tolist():  # Nearly all rows belong to this document.
        others = pool.rows_without(doc_id[chosen[place]])
        number = draws.block(Stream.NEXT_SENTENCE, chosen[[place]], attempt=_REJECTIONS)[0]
        b_row[place] = others[below(number, len(others))[0]]
    taken = pool.take(b_row)
    counts = np.diff(taken.sentence_offsets)
    sentence = draws.block(Stream.NEXT_SENTENCE, chosen, block=1)[0]
    sums = np.concatenate([[0], np.cumsum(taken.sentence_lengths, dtype=np.int64)])
    first = taken.sentence_offsets[:-1]
    b_start = sums[first + below(sentence, counts)] - sums[first]
    room = layout.ids.shape[1] - layout.first[chosen]
    return _Continuation(chosen, b_row, b_start, np.minimum(taken.length - b_start, room))


def _with_continuations(layout: Layout, other: _Continuation, pool: RowTable) -> Layout:
    """Replace second segments by those of other rows."""
    if not other.rows.size:
        return layout
    taken = pool.take(other.b_row)
    first = layout.first[other.rows]
    length, ids, starts = layout.length.copy(), layout.ids.copy(), layout.sentence_first.copy()
    length[other.rows] = first + other.b_len
    ids[other.rows] = continue_with(ids[other.rows], first, taken.ids, other.b_start)
    foreign_starts = sentence_starts(taken, ids.shape[1], np.zeros(len(taken), dtype=np.int64))
    starts[other.rows] = continue_with(starts[other.rows], first, foreign_starts, other.b_start)
    result = replace(layout, ids=ids, length=length)
    return replace(
        result, ids=np.where(result.inside, ids, 0), sentence_first=(starts | result.segment_first()) & result.inside
    )


def _columns(other: _Continuation, count: int) -> dict[str, Array]:
    columns: dict[str, Array] = {
        "b_row": np.full(count, -1, dtype=np.int64),
        "b_start": np.zeros(count, dtype=np.uint16),
        "b_len": np.zeros(count, dtype=np.uint16),
    }
    for name, column in columns.items():
        column[other.rows] = getattr(other, name)
    return columns


NOISE_FILE = "noise.json"
_ROWS_AT_ONCE = 2_048
"""Rows whose noise is generated together: enough to hide numpy's overhead, few enough for the processor's cache."""


class _NoiseFile(NoiseSettings):
    """Content of ``noise.json``: everything that determines the noise of some rows."""

    views: int
    """Number of views."""
    vocab_sha256: str
    rows: dict[str, str]
    """Digest of each shard of training rows, by file name."""
    words: dict[str, str]
    """The word tables of the vocabulary, each as packed bits in hexadecimal."""

    @property
    def word_table(self) -> WordTable:
        """Return the word tables."""
        bits = {name: np.frombuffer(bytes.fromhex(packed), dtype=np.uint8) for name, packed in self.words.items()}
        return WordTable(**{name: np.unpackbits(b, count=self.vocab_size).astype(np.bool_) for name, b in bits.items()})


def view_header(settings: NoiseSettings, *, view: int, vocab_sha256: str, rows_digest: str) -> ViewHeader:
    """Return the header of one shard of this noise."""
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
    wanted = [f.name for f in fields(WordTable) if f.name != "ordinary" or settings.masking.random_of == "pieces"]
    packed = {name: np.packbits(getattr(words, name)).tobytes().hex() for name in wanted}
    digests = {path.name: header.digest for path, header in zip(table.paths, table.headers, strict=True)}
    vocab_sha256 = table.headers[0].vocab_sha256
    noise = _NoiseFile(**dict(settings), views=views, vocab_sha256=vocab_sha256, rows=digests, words=packed)
    content = {"views": views, **noise.as_before()}
    atomic_write(directory / NOISE_FILE, (json.dumps(content, indent=1) + "\n").encode())


class OnTheFlyView:
    """One view's noise, generated for the requested rows; the counterpart of ``table.ViewTable``."""

    def __init__(self, noise: _NoiseFile, words: WordTable, view: int, rows: RowTable) -> None:
        self._words, self._noise, self._view, self._rows = words, noise, view, rows
        self.header = view_header(noise, view=view, vocab_sha256=noise.vocab_sha256, rows_digest="")
        order = noise.word_order
        self.noised = noise.masking.rate_in(view), order.rate_in(view) * order.portion_in(view)

    def take(self, numbers: Ints) -> View:
        """Return the noise of some rows, in the order given."""
        return draw_view(self._rows.take(numbers), self._words, self._noise, self._view, self._rows)[0]

    def close(self) -> None:
        """Do nothing; there is nothing to release."""


def on_the_fly_views(directory: Path, rows: RowTable) -> list[OnTheFlyView]:
    """Return the views that ``noise.json`` describes. Raises ShardError if it is damaged, ValueError if it is for other
    rows."""
    path = directory / NOISE_FILE
    try:
        noise = _NoiseFile.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ShardError(f"{path}: not a description of noise; rebuild its stage ({error})") from error
    check_complete(path, noise.rows, rows)
    for rows_path, header in zip(rows.paths, rows.headers, strict=True):
        digest = noise.rows.get(rows_path.name, "missing")
        mine = view_header(noise, view=0, vocab_sha256=noise.vocab_sha256, rows_digest=digest)
        check_belongs(path, mine, rows_path, header)
    return [OnTheFlyView(noise, noise.word_table, view, rows) for view in range(noise.views)]


def draw_view(
    rows: Rows, words: WordTable, settings: NoiseSettings, view: int, pool: RowTable | None
) -> tuple[View, list[dict[str, int]]]:
    """Draw the noise of any number of rows in one view; returns it with its counts. ``pool`` as in ``draw``."""
    parts, counts = [], []
    for start in range(0, max(1, len(rows)), _ROWS_AT_ONCE):
        noise = draw(rows.slice(start, min(start + _ROWS_AT_ONCE, len(rows))), words, settings, view, pool)
        parts.append(noise.view)
        counts.append(noise.counts())
    names = [f.name for f in fields(View) if getattr(parts[0], f.name) is not None]
    return View(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}), counts
