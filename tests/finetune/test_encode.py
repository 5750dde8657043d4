"""Piece ids, padding and the order of batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.finetune.encoders.encoder import pad
from korealbert.finetune.loop import training_batches
from korealbert.finetune.model import evaluation_batches
from korealbert.finetune.task import Example, Feature
from korealbert.finetune.task_types.sequence import encode_sequences

lengths = st.lists(st.integers(2, 60), min_size=1, max_size=300)


def test_one_sentence_and_a_pair_get_their_special_pieces_and_segments(tokenizer: Callable[..., Any]) -> None:
    single = encode_sequences([Example("1", "이 영화", 1), Example("2", "", 0)], tokenizer(), max_length=8)
    assert [feature.input_ids for feature in single] == [[2, 15, 16, 3], [2, 3]]
    (pair,) = encode_sequences([Example("1", "이 영화", 2.5, pair="배우")], tokenizer(), max_length=8)
    assert (pair.input_ids, pair.token_type_ids, pair.target) == ([2, 15, 16, 3, 17, 3], [0, 0, 0, 0, 1, 1], 2.5)


def test_the_longer_sentence_of_a_pair_is_cut_first(tokenizer: Callable[..., Any]) -> None:
    (pair,) = encode_sequences([Example("1", "이 이 이 이 이 이 이", 0, pair="배우 연기")], tokenizer(), max_length=8)
    assert pair.input_ids == [2, 15, 15, 15, 3, 17, 18, 3]


def test_a_tokenizer_without_cls_is_refused(tokenizer: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"tokenizer.json: puts no \[CLS\] before a sentence; give it a post-processor"):
        encode_sequences([Example("1", "이 영화", 1)], tokenizer(template=False), max_length=8)


def test_padding_reaches_the_longest_of_the_batch_and_no_further() -> None:
    batch = pad([Feature([2, 9, 3], [0, 1, 1], 1), Feature([2, 3], [0, 0], 0)], pad_id=7, device=torch.device("cpu"))
    assert batch.input_ids_BL.tolist() == [[2, 9, 3], [2, 3, 7]]
    assert batch.attention_mask_BL.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch.targets == [1, 0]
    assert batch.token_type_ids_BL.tolist() == [[0, 1, 1], [0, 0, 0]]


@given(lengths, st.integers(1, 32), st.integers(0, 2**63 - 1), st.integers(0, 9))
def test_every_epoch_sees_each_example_once_in_an_order_of_seed_and_epoch(
    lengths: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    batches = training_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)
    again = training_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in again]
    assert sum(len(batch) < batch_size for batch in batches) <= 1


def test_epochs_and_seeds_differ_and_batches_hold_like_lengths() -> None:
    random = np.random.default_rng(3)
    lengths = random.integers(4, 100, 4000).tolist()
    first = training_batches(lengths, batch_size=16, seed=1, epoch=0)
    assert first[0].tolist() != training_batches(lengths, batch_size=16, seed=1, epoch=1)[0].tolist()
    assert first[0].tolist() != training_batches(lengths, batch_size=16, seed=2, epoch=0)[0].tolist()
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in first)
    assert padded < 1.05 * sum(lengths)
    widths = [max(lengths[i] for i in batch) for batch in first]
    assert widths != sorted(widths)


@settings(max_examples=30)
@given(lengths, st.integers(1, 32))
def test_evaluation_takes_each_example_once_longest_first(lengths: list[int], batch_size: int) -> None:
    order = np.concatenate(evaluation_batches(lengths, batch_size=batch_size))
    assert sorted(order.tolist()) == list(range(len(lengths)))
    assert all(lengths[a] >= lengths[b] for a, b in itertools.pairwise(order))
