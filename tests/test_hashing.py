"""The hashes that decide what a corpus holds: known values, since other ones would be another corpus."""

from __future__ import annotations

import numpy as np

from korealbert.hashing import hash64, mix64


def test_mixing_is_that_of_splitmix64() -> None:
    gamma = np.uint64(0x9E3779B97F4A7C15)
    states = np.array([1, 2, 3], dtype=np.uint64) * gamma
    # The first outputs of the generator seeded with 0, as in Vigna's reference implementation.
    assert mix64(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_texts_have_the_hashes_that_they_always_had() -> None:
    assert hash64("서울") == 0xFA7F18E7FA86DF9B
    assert hash64("\ud800") != hash64("\ud801")
