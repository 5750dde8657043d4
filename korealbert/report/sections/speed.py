"""The speed column: parameters of each shape, and how fast it trains beside M-BERT's, ours and as printed."""

from __future__ import annotations

import json

import polars as pl

from korealbert.formatting import compact, count
from korealbert.report import published
from korealbert.report.artifacts import Artifacts
from korealbert.report.render.blocks import Block, Section, Table, Text

_PRINTED_IN = "KoreALBERT Table III"

_PRINTED_NAMES = {
    "M-BERT": "mBERT",
    "XLM-R base": "XLM-R",
    "KoBERT": "KoBERT",
    "KoreALBERT base": "KoreALBERT-Base",
    "KoreALBERT large": "KoreALBERT-Large",
}
"""How the paper calls the shapes."""


def section(artifacts: Artifacts) -> Section | None:
    """The measured speeds, or None where there are none."""
    artifact = artifacts.one("speed")
    if artifact is None:
        return None
    found = json.loads((artifact.path / "speed.json").read_text("utf-8"))
    printed = _printed()
    rows = []
    for name, row in found["rows"].items():
        parameters, speedup, note = printed.get(_PRINTED_NAMES.get(name, ""), ("", "", ""))
        spread = f"{row['lowest']:.2f} to {row['highest']:.2f}" if name != found["baseline"] else ""
        measured = [f"{row['speedup']:.2f}×", spread, compact(row["pieces_per_second"])]
        rows.append([name, count(row["parameters"]), *measured, parameters, speedup, note])
    header = ["Shape", "Parameters", "Speed-up", "Over turns", "Pieces/s", "Parameters, printed", "Speed-up, printed", "Note"]
    blocks: list[Block] = [
        Text(
            f"Training steps from random weights, batch {found['batch_size']}, {found['sequence_length']} pieces, "
            f"{found['precision']} on {found['device']}, each shape in turns with {found['baseline']}'s; the median of "
            f"{found['steps']} turns."
            + (
                f" Widths and vocabularies are 1/{found['shrink']} of the shapes', parameters theirs."
                if found["shrink"] > 1
                else ""
            )
        ),
        Table(f"Training speed relative to {found['baseline']}", header, rows, frozenset(range(1, 7)), prose=frozenset({7})),
        Text(artifacts.origin("speed"), quiet=True),
    ]
    return Section("speed", "Speed of architectures", blocks)


def _printed() -> dict[str, tuple[str, str, str]]:
    """Parameters, speed-up and note of each model of the paper."""
    frame = published.load("korealbert").filter(pl.col("source") == _PRINTED_IN)
    columns: dict[str, dict[str, str]] = {"params": {}, "speed": {}, "note": {}}
    for model, task, value, note in frame.select("model", "task", "value", "note").iter_rows():
        if task in columns:
            columns[task][model] = value
            columns["note"][model] = " ".join(text for text in (columns["note"].get(model, ""), note) if text)
    return {
        model: (columns["params"].get(model, ""), columns["speed"].get(model, ""), note)
        for model, note in columns["note"].items()
    }
