"""Example rows as pretraining reads them, and checks of spec, model and noise before launch. Does not import torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.examples.best_fit import PackedBatches
from korealbert.examples.schema import pieces_per_row
from korealbert.examples.views import ViewsSpec
from korealbert.model.config import AnyConfig, AnySpec, ModernSpec
from korealbert.pretrain.spec import PretrainSpec


class BatchSource(Protocol):
    """Example rows as pretraining uses them; ``korealbert.examples.batches.ExampleBatches`` is one."""

    num_rows: int
    num_views: int
    sequence_length: int
    vocab_size: int

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        """Return the noised sequences of these rows in one view."""
        ...

    def noised(self, view: int) -> tuple[float, float]:
        """Return the shares of pieces that are predicted and moved in a view."""
        ...


class Rows(NamedTuple):
    """Rows of one sequence length. Without held-out rows there are no held-out scores."""

    train: BatchSource
    heldout: BatchSource


def check_rows(spec: PretrainSpec, config: AnyConfig, short: Rows, long: Rows | None) -> None:
    """Raise ValueError if spec, model and rows do not fit together."""
    if (spec.long is None) != (long is None):
        raise ValueError(
            f"long = {spec.long!r}, but {'there are' if long else 'there are no'} long examples; give both or neither"
        )
    rows = [short, *([long] if long else [])]
    if long is not None and long.train.sequence_length <= short.train.sequence_length:
        raise ValueError(
            f"the long examples are {long.train.sequence_length} tokens long, the short ones {short.train.sequence_length}; "
            "pack the long ones with a larger sequence_length"
        )
    for part in rows:
        if part.train.vocab_size != config.vocab_size:
            raise ValueError(
                f"the examples were packed with {part.train.vocab_size:,} pieces, but the model has {config.vocab_size:,}; "
                "pack them with the model's vocabulary"
            )
    longest = rows[-1].train.sequence_length
    if longest > config.longest_sequence:
        raise ValueError(
            f"the examples are {longest} tokens long, but max_positions = {config.max_positions}; "
            "raise max_positions in [pretrain.model] or pack shorter examples"
        )
    if config.word_order_classes not in {0, 2 * spec.reach + 1 if spec.reach else longest}:
        raise ValueError(
            f"word_order_classes = {config.word_order_classes}, but the examples are {longest} tokens long; "
            f"the word-order head needs a class per {'offset' if spec.reach else 'position'}"
        )
    for problem in model_problems(spec, config):
        raise ValueError(problem)


def model_problems(spec: PretrainSpec, model: AnySpec) -> Iterator[str]:
    """Yield the settings that have no meaning for a model of this architecture."""
    if isinstance(model, ModernSpec):
        return
    if spec.theta_at(spec.steps) is not None:
        yield "long.global_theta has no meaning in a model of learnt positions; remove it"
    if spec.packing != "none":
        yield (
            f"packing = {spec.packing!r} needs a model that keeps the sequences of a row apart; "
            "set packing = 'none' or architecture = 'modern' in [pretrain.model]"
        )


def noise_problems(spec: PretrainSpec, views: ViewsSpec, sequence_length: int) -> Iterator[str]:
    """Yield the kinds of noise that these settings cannot train on, with rows of this length."""
    if spec.packing != "none" and views.sentence_task == "nsp":
        yield (
            f"packing = {spec.packing!r}, but [views] sentence_task = 'nsp' continues rows with those of others, which cannot "
            "be packed; take 'sop' or 'none'"
        )
    if spec.objective == "rtd" and views.word_order.portion:
        yield "objective = 'rtd' restores masked tokens only, but [views] word_order moves some; set its portion = 0"
    order, pieces = views.word_order, pieces_per_row(sequence_length)
    if order.portion and order.budget(np.array([pieces]), order.rate)[0] < 2:
        yield (
            f"[views] word_order.rate = {order.rate} lets fewer than two of the {pieces} pieces of a row move, so none can "
            f"change places; raise it to {math.ceil(2e4 / pieces) / 1e4} or more, or set portion = 0"
        )


def target_problems(spec: PretrainSpec, short: ViewsSpec, long: ViewsSpec | None = None) -> Iterator[str]:
    """Yield the order losses that have a weight but no targets in any step, so that their heads would stay random.

    ``short`` is the noise of the short rows, ``long`` that of the rows of ``spec.long``.
    """
    end_of_short = spec.steps if spec.long is None else spec.long.from_step
    noise = {"[views]": short} if spec.order_from_step < end_of_short else {}
    if long is not None:
        noise["[views_long]"] = long
    where = " and ".join(noise)
    if spec.sop_weight and all(views.sentence_task == "none" for views in noise.values()):
        remedy = "set sop_weight = 0, or sentence_task = 'sop'"
        yield f"sop_weight = {spec.sop_weight}, but sentence_task = 'none' in {where} swaps nothing; {remedy}"
    if spec.wop_weight and not any(views.word_order.portion for views in noise.values()):
        remedy = "set wop_weight = 0, or a portion above 0"
        yield f"wop_weight = {spec.wop_weight}, but word_order.portion = 0 in {where} moves nothing; {remedy}"


def open_batches(spec: PretrainSpec, examples: Path, views: Path, split: Literal["train", "heldout"]) -> ExampleBatches:
    """Return the rows of a split, packed if the spec says so. Raises ValueError as ``ExampleBatches`` and ``PackedBatches``."""
    kind = ExampleBatches if spec.packing == "none" else PackedBatches
    return kind(examples, views, split, wop_reach=spec.reach)


def open_splits(spec: PretrainSpec, examples: Path, views: Path) -> Rows:
    """Return the rows of both splits, as ``open_batches``."""
    return Rows(open_batches(spec, examples, views, "train"), open_batches(spec, examples, views, "heldout"))
