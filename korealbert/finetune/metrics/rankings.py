"""Scores of ranked documents as ``trec_eval`` and ``pytrec_eval`` compute them, times 100.

A document is relevant if its judgement is above 0. nDCG's gain is the judgement, or 0 if it is negative or missing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

_CUT = 10
"""Cutoff of nDCG, by which BEIR and MTEB rank systems."""
_RECALLS = (1, 10, 100)

METRIC = "ndcg@10"
"""Systems are compared by this score."""
METRICS = (METRIC, "map", "mrr", *(f"recall@{cut}" for cut in _RECALLS))


def ranking_scores(ranked: Sequence[str], judged: Mapping[str, int]) -> dict[str, float]:
    """Return ``METRICS`` of the documents found for one query, best first; ``judged`` are its judgements by document.

    Without a relevant document all scores are 0, as in ``trec_eval``.
    """
    ideal = sorted((gain for gain in judged.values() if gain > 0), reverse=True)
    if not ideal:
        return dict.fromkeys(METRICS, 0.0)
    gains = [max(0, judged.get(document, 0)) for document in ranked]
    found_at = [rank for rank, gain in enumerate(gains, start=1) if gain]
    precisions = [found / rank for found, rank in enumerate(found_at, start=1)]
    recalls = [sum(1 for rank in found_at if rank <= cut) / len(ideal) for cut in _RECALLS]
    scores = (_gain(gains) / _gain(ideal), sum(precisions) / len(ideal), 1 / found_at[0] if found_at else 0.0, *recalls)
    return {name: 100 * score for name, score in zip(METRICS, scores, strict=True)}


def _gain(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(itertools.islice(gains, _CUT), start=1))
