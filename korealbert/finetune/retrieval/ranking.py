"""Rank documents with BM25, and score rankings as ``trec_eval`` and ``pytrec_eval`` do, times 100.

BM25 (Robertson and Zaragoza 2009) has Lucene's inverse document frequency, which is never negative. The score is a sum over the
query's terms (repeated terms count each time): idf × tf × (k1 + 1) / (tf + k1 × (1 − b + b × length / mean length)), with idf =
ln(1 + (N − df + 0.5) / (df + 0.5)).

A document is relevant if its judgement is above 0. nDCG's gain is the judgement, or 0 if it is negative or missing.

Shapes: N documents, P pairs of a term and a document that has it.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

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


_Scores = npt.NDArray[np.float32]


class Bm25:
    """An index of documents, each a list of terms."""

    def __init__(self, documents: Iterable[Iterable[Hashable]], *, k1: float, b: float) -> None:
        numbers: dict[Hashable, int] = {}
        terms, owners, times, lengths = array("i"), array("i"), array("i"), array("i")
        for place, document in enumerate(documents):
            counted = Counter(document)
            terms.extend(numbers.setdefault(term, len(numbers)) for term in counted)
            owners.extend([place] * len(counted))
            times.extend(counted.values())
            lengths.append(counted.total())
        self.size = len(lengths)
        """Number of documents."""
        self._numbers = numbers
        length_N = np.array(lengths, dtype=np.float64)
        term_P = np.array(terms, dtype=np.int32)
        order_P = np.argsort(term_P, kind="stable")
        self._owner_P = np.array(owners, dtype=np.int32)[order_P]
        frequency_P = np.array(times, dtype=np.float64)[order_P]
        having = np.bincount(term_P, minlength=len(numbers))
        self._ends = np.concatenate([[0], np.cumsum(having)])
        idf = np.log1p((self.size - having + 0.5) / (having + 0.5))
        norm_N = k1 * (1 - b + b * length_N / (length_N.mean() or 1.0 if self.size else 1.0))
        weight_P = frequency_P * (k1 + 1) / (frequency_P + norm_N[self._owner_P])
        self._weight_P = np.repeat(idf, having) * weight_P

    def scores(self, query: Iterable[Hashable]) -> _Scores:
        """Return the scores of all documents [N]; 0 exactly for documents without a term of the query."""
        sums_N = np.zeros(self.size)
        for term, times in Counter(query).items():
            if (number := self._numbers.get(term)) is not None:
                part = slice(self._ends[number], self._ends[number + 1])
                sums_N[self._owner_P[part]] += times * self._weight_P[part]
        return sums_N.astype(np.float32)
