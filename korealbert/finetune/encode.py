"""From examples to padded batches: piece ids, and batches of examples of similar length.

Shapes: B = examples of a batch, L = longest of them in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from korealbert.finetune.task import Example, Feature

if TYPE_CHECKING:
    import torch

_BATCHES_PER_BUCKET = 50
"""Training batches are cut from stretches of this many shuffled batches, each sorted by length."""

_Indices = npt.NDArray[np.int64]


def encode_sequences(examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
    """Whole inputs, ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]`` with segment ids 0 and 1, the longer part cut first.

    Raises ValueError when the tokenizer adds no ``[CLS]``: the pooled vector would be that of an arbitrary piece.
    """
    if not examples:
        return []
    texts = [example.text for example in examples]
    pairs = [example.pair or "" for example in examples] if examples[0].pair is not None else None
    # Segment ids are asked for: a tokenizer whose model_input_names forgets them would hide which sentence is which.
    encoded = tokenizer(
        texts,
        pairs,
        truncation="longest_first",
        max_length=max_length,
        return_token_type_ids=True,
        return_attention_mask=False,
    )
    if encoded["input_ids"][0][:1] != [tokenizer.cls_token_id]:
        where = f"{tokenizer.name_or_path}/tokenizer.json"
        raise ValueError(f"{where}: puts no {tokenizer.cls_token} before a sentence; give it a post-processor")
    rows = zip(encoded["input_ids"], encoded["token_type_ids"], examples, strict=True)
    return [Feature(ids, segment_ids, example.target, index) for index, (ids, segment_ids, example) in enumerate(rows)]


@dataclass(frozen=True)
class PaddedBatch:
    """Features of one batch, padded to its longest: int64 [B, L], the mask 1 at real pieces."""

    input_ids_BL: torch.Tensor
    attention_mask_BL: torch.Tensor
    token_type_ids_BL: torch.Tensor
    features: Sequence[Feature]

    @property
    def targets(self) -> list[Any]:
        """Targets of the features."""
        return [feature.target for feature in self.features]


def pad(features: Sequence[Feature], *, pad_id: int, device: torch.device) -> PaddedBatch:
    """Pad on the right to the longest of the features; each of a feature's choices is a row."""
    import torch  # noqa: PLC0415 (planning does without)

    inputs = [part for feature in features for part in (feature.choices or (feature,))]
    width = max(len(feature.input_ids) for feature in inputs)
    ids_BL = np.full((len(inputs), width), pad_id, dtype=np.int64)
    mask_BL = np.zeros_like(ids_BL)
    types_BL = np.zeros_like(ids_BL)
    for row, feature in enumerate(inputs):
        length = len(feature.input_ids)
        ids_BL[row, :length] = feature.input_ids
        mask_BL[row, :length] = 1
        types_BL[row, :length] = feature.token_type_ids

    def tensor(array: _Indices) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    return PaddedBatch(tensor(ids_BL), tensor(mask_BL), tensor(types_BL), features)


def lengths_of(features: Sequence[Feature]) -> _Indices:
    """Pieces of each feature: at once where a ``FeatureTable`` knows them."""
    known = getattr(features, "lengths", None)
    return np.array([len(feature.input_ids) for feature in features]) if known is None else known


def training_batches(lengths: Sequence[int] | _Indices, *, batch_size: int, seed: int, epoch: int) -> list[_Indices]:
    """Every example once, in batches of similar length and random order: a function of seed and epoch alone.

    All batches are full but one.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    order = random.permutation(len(lengths))
    length_N = np.asarray(lengths)
    bucket = batch_size * _BATCHES_PER_BUCKET
    batches = []
    for start in range(0, len(order), bucket):
        stretch = order[start : start + bucket]
        by_length = stretch[np.argsort(length_N[stretch], kind="stable")]
        batches += [by_length[at : at + batch_size] for at in range(0, len(by_length), batch_size)]
    return [batches[index] for index in random.permutation(len(batches))]


def evaluation_batches(lengths: Sequence[int] | _Indices, *, batch_size: int) -> list[_Indices]:
    """Every example once, longest first: the first batch shows whether memory suffices."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
