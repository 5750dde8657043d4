"""BM25 (Robertson and Zaragoza 2009), with Lucene's inverse document frequency, which is never negative.

The score is a sum over the query's terms (repeated terms count each time): idf × tf × (k1 + 1) / (tf + k1 × (1 − b + b ×
length / mean length)), with idf = ln(1 + (N − df + 0.5) / (df + 0.5)).

Shapes: N documents, P pairs of a term and a document that has it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

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
