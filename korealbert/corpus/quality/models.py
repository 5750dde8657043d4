"""A classifier and a language model, both of hashed n-grams of characters in numpy; they read the beginning of a text only.

The classifier is a logistic regression like fastText (Joulin et al. 2016, arXiv 1607.01759), but over characters, which suit
Korean better than words. The language model interpolates its orders by Dirichlet smoothing (MacKay and Peto 1995).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from korealbert.philox import hash64, mix64

_Codes = npt.NDArray[np.uint64]
_Floats = npt.NDArray[np.float64]
_Counted = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""The distinct n-grams of a text, and the share of each."""

_FEATURES = 1 << 18
_ORDERS = (2, 3, 4)
"""Lengths of the classifier's n-grams."""
_WEIGHT_STEP = 2.0**-10
"""Weights are rounded to multiples of this, so that rounding errors, which differ between processors, change no score."""
_EPOCHS, _BATCH, _RATE, _DECAY = 5, 64, 1.0, 1e-7
_HELD_OUT = 5
"""Every fifth text calibrates."""
_SCALE_PENALTY, _NEWTON_STEPS = 0.03, 50
"""Ridge penalty, without which separable texts give an infinite scale. Between 0.01 and 0.1 the log loss on unseen texts was
smallest, for 120 to 1,500 texts of five pairs of genres (python -m bench.quality)."""

_COUNTS = 1 << 22
"""Entries of the language model's table of one order. A few n-grams share an entry, which acts as smoothing."""
_ORDER = 4
_PRIOR = 2.0
"""Weight of the lower order, as a number of characters."""
_ALPHABET = 1 << 14
"""The model of order 0 gives this many characters the same probability."""
_MAX_PERPLEXITY = 1e6
"""Perplexity of an empty text, and the highest of any."""


def codes(text: str, max_characters: int) -> _Codes:
    """Return the beginning of a text in lower case, white space as one blank, digits as 0: uint64 [characters]."""
    text = " ".join(text[: 2 * max_characters].lower().split())[:max_characters]
    found = np.frombuffer(f" {text} ".encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    found[(found >= 48) & (found <= 57)] = 48
    return found


def _is_empty(letters: _Codes) -> bool:
    """Return whether a text has nothing but blanks, of which ``codes`` leaves those around it."""
    return len(letters) <= 2


def _hashes(letters: _Codes, order: int, size: int) -> npt.NDArray[np.int64]:
    """Return a number below ``size``, a power of two, for each n-gram: int64 [characters - order + 1]."""
    count = len(letters) - order + 1
    if count <= 0:
        return np.zeros(0, dtype=np.int64)
    mixed = np.full(count, order, dtype=np.uint64)
    for offset in range(order):
        mixed = (mixed ^ letters[offset : offset + count]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed & np.uint64(size - 1)).astype(np.int64)


@dataclass(frozen=True)
class Classifier:
    """A logistic regression over the mean of a text's n-grams."""

    values: npt.NDArray[np.float32]
    """The weights [features], then the bias; all are multiples of ``_WEIGHT_STEP``."""

    def score(self, letters: _Codes) -> float:
        """Return the probability that a text is good; 0 if it is empty."""
        if _is_empty(letters):
            return 0.0
        features = _features(letters)
        total = float(self.values[features].sum(dtype=np.float64))  # exact, because weights are multiples of a step
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total / len(features) + float(self.values[-1])))))


def _features(letters: _Codes) -> npt.NDArray[np.int64]:
    return np.concatenate([_hashes(letters, order, _FEATURES) for order in _ORDERS])


def train_classifier(good: Sequence[_Codes], bad: Sequence[_Codes], seed: int) -> Classifier:
    """Fit good against bad texts, with equal weight of both classes; deterministic.

    A few epochs leave probabilities near a half, so logits are calibrated on every fifth text, by a classifier of the others.
    Takes 8 bytes of memory for each distinct n-gram of each text.
    """
    good_counts, bad_counts = ([_counted(letters) for letters in texts] for texts in (good, bad))
    weights, bias = _fit(good_counts, bad_counts, seed)
    scale, shift = 1.0, 0.0
    if min(len(good), len(bad)) >= _HELD_OUT:
        others = [[text for index, text in enumerate(texts) if index % _HELD_OUT] for texts in (good_counts, bad_counts)]
        judge = _fit(others[0], others[1], seed)
        scale, shift = _calibrate(*(_logits(*judge, texts[::_HELD_OUT]) for texts in (good_counts, bad_counts)))
    rounded = np.round(np.append(weights * scale, bias * scale + shift) / _WEIGHT_STEP) * _WEIGHT_STEP
    return Classifier(rounded.astype(np.float32))


def _counted(letters: _Codes) -> _Counted:
    features, counts = np.unique(_features(letters).astype(np.int32), return_counts=True)
    return features, (counts / counts.sum()).astype(np.float32)


def _logits(weights: _Floats, bias: float, texts: Sequence[_Counted]) -> _Floats:
    starts = np.cumsum([0, *(len(features) for features, _ in texts[:-1])])
    features, share = (np.concatenate(parts) for parts in zip(*texts, strict=True))
    return np.add.reduceat(weights[features] * share, starts) + bias


def _fit(good: Sequence[_Counted], bad: Sequence[_Counted], seed: int) -> tuple[_Floats, float]:
    """Return weights [features] and bias, fitted by AdaGrad."""
    texts = [*good, *bad]
    labels = np.array([1.0] * len(good) + [0.0] * len(bad))
    weight_of = np.where(labels == 1, len(labels) / (2 * len(good)), len(labels) / (2 * len(bad)))
    weights, seen, bias = np.zeros(_FEATURES), np.full(_FEATURES, 1e-8), 0.0
    for epoch in range(_EPOCHS):
        order = np.argsort(
            mix64(np.arange(len(texts), dtype=np.uint64) + np.uint64(hash64(f"{seed}\0{epoch}") >> 1)), kind="stable"
        )
        for batch in np.split(order, range(_BATCH, len(order), _BATCH)):
            chosen = [texts[index] for index in batch]
            logits = _logits(weights, bias, chosen)
            errors = (1 / (1 + np.exp(-np.clip(logits, -30, 30))) - labels[batch]) * weight_of[batch] / len(batch)
            features, share = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
            lengths = [len(features) for features, _ in chosen]
            gradient = np.bincount(features, np.repeat(errors, lengths) * share, _FEATURES) + _DECAY * weights
            seen += gradient * gradient
            weights -= _RATE * gradient / np.sqrt(seen)
            bias -= float(errors.sum())
    return weights, bias


def _calibrate(good: _Floats, bad: _Floats) -> tuple[float, float]:
    """Return the scale and shift of logits that predict the labels best (Platt 1999), with equal weight of both classes.

    A positive scale keeps the order of scores; logits that say nothing about the labels stay as they are.
    """
    inputs = np.stack([np.concatenate([good, bad]), np.ones(len(good) + len(bad))], axis=1)
    labels = np.repeat([1.0, 0.0], [len(good), len(bad)])
    weight_of = np.repeat(len(labels) / 2 / np.array([len(good), len(bad)]), [len(good), len(bad)])
    penalty, found = np.array([_SCALE_PENALTY, 0.0]), np.zeros(2)
    for _ in range(_NEWTON_STEPS):
        likely = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
        gradient = inputs.T @ (weight_of * (likely - labels)) + penalty * found
        curvature = (inputs.T * (weight_of * likely * (1 - likely))) @ inputs + np.diag(penalty)
        found = found - np.linalg.solve(curvature, gradient)
    scale, shift = found.tolist()
    return (scale, shift) if scale > 0 else (1.0, 0.0)


@dataclass(frozen=True)
class LanguageModel:
    """Counts of n-grams of characters."""

    tables: npt.NDArray[np.uint32]
    """[orders, entries]; order 1 first."""

    @cached_property
    def _characters(self) -> float:
        return float(self.tables[0].sum(dtype=np.int64))

    def perplexity(self, letters: _Codes, *, seen: bool = False) -> float:
        """Return the perplexity per character; 20 to 60 for prose like the reference, the highest for an empty text.

        ``seen``: the model was trained on this text, whose n-grams are subtracted, because it would know the text by heart.
        """
        if _is_empty(letters):
            return _MAX_PERPLEXITY
        likely = np.full(len(letters) - 1, 1 / _ALPHABET)
        before = np.full(len(letters) - 1, self._characters - seen * len(letters))
        for order, table in enumerate(self.tables, 1):
            hashes = _hashes(letters, order, _COUNTS)
            found = table[hashes].astype(np.float64)
            if seen:
                _, places, own = np.unique(hashes, return_inverse=True, return_counts=True)
                found -= own[places]
            counts = found[1:] if order == 1 else found
            missing = len(likely) - len(counts)  # the first characters have no context of this length
            likely[missing:] = (counts + _PRIOR * likely[missing:]) / (before[-len(counts) :] + _PRIOR) if len(counts) else 1.0
            before = found[:-1]
        return min(_MAX_PERPLEXITY, float(f"{math.exp(-np.log(np.minimum(likely, 1.0)).mean()):.4g}"))


def train_language_model(texts: Iterable[_Codes]) -> LanguageModel:
    """Count the n-grams of reference texts."""
    tables = np.zeros((_ORDER, _COUNTS), dtype=np.uint32)
    for letters in texts:
        for order, table in enumerate(tables, 1):
            np.add.at(table, _hashes(letters, order, _COUNTS), np.uint32(1))
    return LanguageModel(tables)
