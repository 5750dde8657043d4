"""Texts reduced to letters and digits, and hashes of all their character windows: how duplicates and contamination are found.

Spacing and punctuation differ between copies of one Korean text more than anything else, so neither counts.
"""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from korealbert.hashing import hash64, mix64

Hashes = npt.NDArray[np.uint64]

SHINGLE_LETTERS = 5
"""Letters per shingle."""

_BASE = np.uint64(0x5851F42D4C957F2D)


def squeeze(text: str) -> str:
    """Only the letters and digits of a text, in lower case."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return codes[_letters_and_digits()[codes]].tobytes().decode("utf-32-le", "surrogatepass").lower()


def fingerprint(squeezed: str, text: str) -> int:
    """64-bit hash of a squeezed text; of a text without letters and digits its other characters count.

    Among 40 million different texts the chance of any two alike is about 4e-5.
    """
    return hash64(squeezed or "".join(text.split()))


def window_hashes(squeezed: str, width: int) -> Hashes:
    """uint64 [len - width + 1]: a hash of each run of ``width`` characters, equal for equal runs; empty for shorter texts.

    A polynomial modulo 2^64 over mixed code points, by prefix sums: linear in the length, whatever the width.
    """
    count = len(squeezed) - width + 1
    if count <= 0:
        return np.empty(0, dtype=np.uint64)
    codes = np.frombuffer(squeezed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    powers, inverses = _powers(1 << (len(squeezed) - 1).bit_length())
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(_mix(codes.astype(np.uint64)) * powers[: len(codes)], out=sums[1:])
    return _mix((sums[width:] - sums[:-width]) * inverses[:count])


def shingles(squeezed: str) -> Hashes:
    """Sorted distinct hashes of the 5-letter shingles; empty for texts of fewer letters."""
    hashes = np.sort(window_hashes(squeezed, SHINGLE_LETTERS))  # np.unique takes ten times as long
    distinct: Hashes = hashes[begins_run(hashes)]
    return distinct


def begins_run(ordered: Hashes) -> npt.NDArray[np.bool_]:
    """bool [values]: which ones differ from the one before."""
    begins = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def jaccard(left: Hashes, right: Hashes) -> float:
    """Common shingles over all shingles of two sorted sets without repetition; 0 for two empty ones."""
    common = len(np.intersect1d(left, right, assume_unique=True))
    union = len(left) + len(right) - common
    return common / union if union else 0.0


def _mix(values: Hashes) -> Hashes:
    """One output of splitmix64 for each state."""
    return mix64(values + np.uint64(0x9E3779B97F4A7C15))


@lru_cache(maxsize=1)
def _letters_and_digits() -> npt.NDArray[np.bool_]:
    """bool [1114112]: which code points are letters or digits; a look-up is five times as fast as a regular expression.

    Unicode has none beyond plane 3.
    """
    table = np.zeros(sys.maxunicode + 1, dtype=bool)
    table[:0x40000] = [chr(code).isalnum() for code in range(0x40000)]
    return table


@lru_cache(maxsize=32)
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """The base to the powers 0 … count - 1, and their inverses, modulo 2^64 (an odd base has one)."""
    inverse = np.uint64(pow(int(_BASE), -1, 1 << 64))
    both = []
    for factor in (_BASE, inverse):
        powers = np.full(count, factor, dtype=np.uint64)
        powers[0] = 1
        both.append(np.cumprod(powers, dtype=np.uint64))
    return both[0], both[1]
