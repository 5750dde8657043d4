"""What pretraining scores on the documents held out of it."""

from __future__ import annotations

from collections.abc import Mapping

from korealbert.report.blocks import Table
from korealbert.report.numbers import fixed, percent
from korealbert.report.run import Run

OBJECTIVES = {"mlm": "Masked pieces (MLM)", "sop": "Sentence order (SOP)", "wop": "Word order (WOP)"}
"""What pretraining predicts, by the key that its figures begin with."""


def heldout_scores(run: Run) -> Mapping[str, float | None]:
    """The scores at the end of pretraining, or none."""
    heldout: Mapping[str, float | None] = run.stats("pretrain").get("heldout") or {}
    return heldout


def heldout_table(heldout: Mapping[str, float | None]) -> Table:
    """Accuracy and loss by objective."""
    rows = [
        [name, percent(heldout[f"{key}_accuracy"], 2), fixed(heldout.get(f"{key}_loss"), 3)]
        for key, name in OBJECTIVES.items()
        if heldout.get(f"{key}_accuracy") is not None
    ]
    return Table("Held-out scores at the end of pretraining", ["Objective", "Accuracy", "Loss"], rows, frozenset({1, 2}))
