"""64-bit hashes that decide what is kept and drawn: the same on every machine and in every release."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt


def hash64(text: str) -> int:
    """BLAKE2b of a text, with a digest of 64 bits; lone surrogates are encoded like other characters."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def mix64(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A bijection of 64-bit words in which every input bit reaches every output bit (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
