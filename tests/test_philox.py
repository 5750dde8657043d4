"""Random numbers equal the published ones and depend only on their name; hashes, which decide the corpus, stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from korealbert.philox import RowDraws, Stream, below, draw_block, happens, hash64, mix64, philox4x32


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_answers_equal_those_of_the_random123_distribution(counter: str, key: str, expected: str) -> None:
    c0, c1, c2, c3 = (np.array([int(word, 16)], dtype=np.uint64) for word in counter.split())
    k0, k1 = (int(word, 16) for word in key.split())
    assert " ".join(f"{int(word[0]):08x}" for word in philox4x32((c0, c1, c2, c3), (k0, k1))) == expected


def test_a_draw_does_not_depend_on_its_neighbours() -> None:
    ids = np.array([7, 2**40 + 3, 7, 0], dtype=np.uint64)
    many, one = RowDraws(3, 5, ids), RowDraws(3, 5, ids[1:2])
    assert np.array_equal(many.matrix(Stream.MASK_ORDER, 9)[1, :6], one.matrix(Stream.MASK_ORDER, 6)[0])
    assert np.array_equal(many.matrix(Stream.MASK_ORDER, 9)[0], many.matrix(Stream.MASK_ORDER, 9)[2])


def test_every_part_of_the_name_changes_the_draw() -> None:
    name = {"seed": 1, "stream": Stream.MASK_ORDER, "ids": 1, "minor": 1, "block": 1, "attempt": 1}
    others = [{"seed": 2}, {"seed": 1 << 40 | 1}, {"stream": Stream.MASK_NGRAM}, {"ids": 2}, {"ids": 1 << 32 | 1}]
    others += [{"minor": 2}, {"block": 2}, {"attempt": 2}, {}]
    assert len({int(draw_block(**{**name, **other})[0]) for other in others}) == len(others)


def test_integers_are_uniform_and_events_have_their_probability() -> None:
    words = RowDraws(0, 0, np.arange(5_000, dtype=np.uint64)).matrix(Stream.MASK_ORDER, 20)
    counts = np.bincount(below(words, 7).ravel(), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert happens(words, 0.3).mean() == pytest.approx(0.3, abs=3 * (0.21 / words.size) ** 0.5)
    assert happens(words, 1.0).all()
    assert not happens(words, 0.0).any()


def test_a_seed_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        draw_block(1 << 64, Stream.MASK_ORDER, 1)


def test_blocks_and_attempts_stay_apart() -> None:
    with pytest.raises(AssertionError):
        draw_block(1, Stream.NEXT_SENTENCE, 1, block=1 << 12, attempt=1)
    with pytest.raises(AssertionError):
        draw_block(1, Stream.MASK_PIECE, 1, block=[0, 1 << 24])
    assert int(draw_block(1, Stream.MASK_PIECE, 1, block=8_188)[0]) == 2_564_262_972


def test_mixing_equals_splitmix64() -> None:
    gamma = np.uint64(0x9E3779B97F4A7C15)
    states = np.array([1, 2, 3], dtype=np.uint64) * gamma
    # The first outputs of the generator seeded with 0, as in Vigna's reference implementation.
    assert mix64(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_hashes_of_texts_never_change() -> None:
    assert hash64("서울") == 0xFA7F18E7FA86DF9B
    assert hash64("\ud800") != hash64("\ud801")
