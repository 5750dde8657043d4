"""Why a benchmark's official script prints ``nan`` for a score in ``metrics.json`` of a cell or an ensemble.

Cells keep the reasons for ``test`` as ``undefined``. Those for dev, and for test of cells older than that field, are in their
warnings. Of the model as ONNX they keep the scores alone: all correlations of constant predictions are 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CORRELATIONS = ("pearson", "spearman")

_WARNING = re.compile(r"(dev|test): (.+): (?:(correlations are set to 0)|each counts 50 in (\w+))")


def why_undefined(metrics: Mapping[str, Any], metric: str, split: str = "test") -> str:
    """The reason, in words; nothing where the script prints a number. ``split``: ``dev``, ``test``, ``test_onnx_fp32`` …

    ``metrics[split]`` then holds our value. ``test_corrected`` is no official score and always defined.
    """
    scores = metrics.get(split) or {}
    if metric not in scores or split == "test_corrected":
        return ""
    if split == "test":
        return str(metrics.get("undefined", {}).get(metric) or _warned(metrics, metric, split))
    if split == "dev" and (of_dev := _warned(metrics, metric, split)):
        return of_dev
    of_test = why_undefined(metrics, metric) if split != "dev" else ""
    if of_test and ("prediction" not in of_test or scores[metric] == metrics["test"][metric]):
        return of_test
    constant = metric in _CORRELATIONS and not any(scores.get(name) for name in _CORRELATIONS)
    return "every prediction is the same" if constant else ""


def _warned(metrics: Mapping[str, Any], metric: str, split: str) -> str:
    """The reason in a warning of ``dev`` or ``test``."""
    for found in filter(None, map(_WARNING.fullmatch, metrics.get("warnings", ()))):
        if found[1] == split and metric in (_CORRELATIONS if found[3] else (found[4],)):
            return found[2]
    return ""
