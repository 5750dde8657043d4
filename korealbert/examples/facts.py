"""Realised figures of rows and noise, for statistics and the report."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from korealbert.examples.schema import pieces_per_row

LENGTH_CLASSES = 16


def length_histogram(lengths: npt.NDArray[Any], width: int) -> dict[str, int]:
    """Rows by length in pieces, in 16 classes of equal width named ``1-8``, ``9-16``, …"""
    step = -(-width // LENGTH_CLASSES)
    counts = np.bincount((lengths.astype(np.int64) - 1) // step, minlength=-(-width // step))
    return {f"{i * step + 1}-{min((i + 1) * step, width)}": int(count) for i, count in enumerate(counts)}


def fill_share(pieces: int, rows: int, sequence_length: int) -> float:
    """Pieces over the room for pieces."""
    return round(pieces / (rows * pieces_per_row(sequence_length)), 4)


def noise_rates(counts: dict[str, int]) -> dict[str, float]:
    """Shares realised in some rows of views, from the summed counts that ``noise.Drawn.counts`` gives.

    ``mlm_rate`` is of all pieces; ``masked_share``, ``random_share``, ``kept_share`` are of MLM targets; ``wop_portion`` is of
    rows; ``wop_rate`` is of the pieces of rows with word order noise; ``sop_swapped_share`` is of rows with a sentence label.
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
