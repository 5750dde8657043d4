"""Find out why a benchmark's official script prints ``nan`` for a score in ``metrics.json`` of a cell or an ensemble.

Cells keep the reasons for ``test`` in ``undefined``. Reasons for dev, and for test in cells older than that field, are in the
warnings. For ONNX models only scores are kept: if all correlations are 0, the predictions are constant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CORRELATIONS = ("pearson", "spearman")

_WARNING = re.compile(r"(dev|test): (.+): (?:(correlations are set to 0)|each counts 50 in (\w+))")


def why_undefined(metrics: Mapping[str, Any], metric: str, split: str = "test") -> str:
    """Return the reason for a ``nan``, or "" if the script prints a number. ``split``: ``dev``, ``test``, ``test_onnx_fp32`` …

    ``test_corrected`` is not an official score and always defined.
    """
    scores = metrics.get(split) or {}
    if metric not in scores or split == "test_corrected":
        return ""
    if split == "test":
        return str(metrics.get("undefined", {}).get(metric) or _warned(metrics, metric, split))
    if split == "dev" and (dev_reason := _warned(metrics, metric, split)):
        return dev_reason
    test_reason = why_undefined(metrics, metric) if split != "dev" else ""
    if test_reason and ("prediction" not in test_reason or scores[metric] == metrics["test"][metric]):
        return test_reason
    constant = metric in _CORRELATIONS and not any(scores.get(name) for name in _CORRELATIONS)
    return "every prediction is the same" if constant else ""


def _warned(metrics: Mapping[str, Any], metric: str, split: str) -> str:
    """Return the reason in a warning about ``dev`` or ``test``, else ""."""
    for found in filter(None, map(_WARNING.fullmatch, metrics.get("warnings", ()))):
        if found[1] == split and metric in (_CORRELATIONS if found[3] else (found[4],)):
            return found[2]
    return ""
