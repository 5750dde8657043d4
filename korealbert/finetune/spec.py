"""What one fine-tuning cell is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from korealbert.artifact import InputPath, Spec
from korealbert.finetune import tasks
from korealbert.finetune.init import Init


class FinetuneSpec(Spec):
    """One cell of the evaluation: task, init and seed, with the same budget for every init.

    ``epochs``, ``batch_size``, ``learning_rate`` and ``max_length`` default to the task's own values.
    """

    task: str
    """Name of a module in ``korealbert/finetune/tasks``: nsmc, klue_ner, glue_cola, …"""
    init: Init = "pretrained"
    """The weights of the model, or ``random``: the same architecture with fresh ones, which shows what pretraining adds."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seeds head, fresh weights, dropout and the order of the examples. The examples themselves do not depend on it."""

    train: InputPath
    """Official training file, in any form that ``benchmark_files`` reads: compressed or not, in a tar archive or not."""
    train_member: str = ""
    """Name of the file within ``train``, when that is an archive."""
    dev: InputPath | None = None
    """Official dev file. Without one, 5 % of train are held out, where the benchmark has no dev set."""
    dev_member: str = ""
    """Name of the file within ``dev``, when that is an archive."""
    test: InputPath
    """Official test file."""
    test_member: str = ""
    """Name of the file within ``test``, when that is an archive."""
    max_train_examples: int | None = Field(default=None, ge=2)
    """Train on a random part of so many examples. None: on all."""
    max_dev_examples: int | None = Field(default=None, ge=2)
    """Select on a random part of dev. None: on all."""
    max_test_examples: int | None = Field(default=None, ge=2)
    """Test on a random part, which makes scores that compare with no published ones. None: on all."""
    split_seed: int = Field(default=0, ge=0, lt=2**63)
    """Seeds the held-out dev part and the random parts: one for all cells, so that they see the same examples."""

    epochs: int = Field(default=3, ge=1, le=1000)
    """Passes over the training examples; after each the model is scored on dev, and the best one is tested."""
    batch_size: int = Field(default=64, ge=1)
    """Examples of one optimiser step."""
    learning_rate: float = Field(default=5e-5, gt=0, le=1)
    """Peak of AdamW's learning rate; from there it falls linearly to 0."""
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises to its peak."""
    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    """Decoupled weight decay of matrices; biases and layer norms are spared."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient over all parameters."""
    max_length: int = Field(default=128, ge=8)
    """Longest input in pieces with special pieces; longer ones are cut."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout before the head; the encoder keeps that of its own config.json."""

    @model_validator(mode="before")
    @classmethod
    def _task_defaults(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("task") in tasks.names():
            return {**tasks.load(values["task"]).defaults, **values}
        return values

    @model_validator(mode="after")
    def _task_is_known_and_has_a_dev_set(self) -> Self:
        if tasks.load(self.task).has_official_dev and self.dev is None:
            raise ValueError(f"{self.task} has an official dev set: name its file as dev")
        return self
