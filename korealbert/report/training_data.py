"""What the model was trained on: the lengths of the rows, and the noise."""

from __future__ import annotations

from typing import Any

from korealbert.numbers import count, percent
from korealbert.report import charts
from korealbert.report.artifacts import Artifacts
from korealbert.report.blocks import Block, Figure, Figures, Section, Table, Text


def section(artifacts: Artifacts) -> Section | None:
    """Rows and views, as far as they exist."""
    blocks: list[Block] = [Figures([figure])] if (figure := _lengths(artifacts)) else []
    blocks += [table for table in (_rows(artifacts), _noise(artifacts)) if table.rows]
    if not blocks:
        return None
    origin = Text(artifacts.origin("examples", "views"), quiet=True)
    return Section("training-data", "Rows and noise", [*blocks, origin])


def _lengths(artifacts: Artifacts) -> Figure | None:
    bins: dict[str, int] = artifacts.stats("examples").get("length_histogram") or {}
    if not bins:
        return None
    ordered = sorted(bins.items(), key=lambda item: int(item[0].split("-")[0]))
    label = "Rows by length in pieces: " + "; ".join(f"{name} {count(number)}" for name, number in ordered)
    caption = "Rows by length in pieces, special pieces not counted"
    return Figure("lengths", caption, charts.histogram(ordered, label=label, unit="pieces"))


def _facts(title: str, rows: list[tuple[str, str | None]]) -> Table:
    return Table(title, ["Fact", "Value"], [[name, value] for name, value in rows if value is not None], frozenset({1}))


def _rows(artifacts: Artifacts) -> Table:
    stats = artifacts.stats("examples")
    return _facts(
        "Rows",
        [
            ("Rows for training", _count(stats, "rows_train")),
            ("Rows held out", _count(stats, "rows_heldout")),
            ("Pieces", _count(stats, "pieces")),
            ("Sentences", _count(stats, "sentences")),
            ("Share of positions filled", _percent(stats, "fill")),
        ],
    )


def _noise(artifacts: Artifacts) -> Table:
    stats = artifacts.stats("views")
    return _facts(
        "Noise, as measured on all views",
        [
            ("Views, one per epoch", _count(stats, "views")),
            ("Rows with noise", _count(stats, "rows")),
            ("Pieces to predict (MLM)", _percent(stats, "mlm_rate", 2)),
            ("of these masked", _percent(stats, "masked_share")),
            ("of these replaced by a random piece", _percent(stats, "random_share")),
            ("of these left as they are", _percent(stats, "kept_share")),
            ("Segments swapped (SOP)", _percent(stats, "sop_swapped_share")),
            ("Rows with moved words (WOP)", _count(stats, "wop_rows")),
            ("Pieces moved in those rows (WOP)", _percent(stats, "wop_rate", 2)),
        ],
    )


def _count(stats: dict[str, Any], key: str) -> str | None:
    return count(stats[key]) if key in stats else None


def _percent(stats: dict[str, Any], key: str, decimals: int = 1) -> str | None:
    return percent(stats[key], decimals) if key in stats else None
