"""Specs of fine-tuning: the examples and how they enter the encoder, then the training settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from korealbert.artifact import InputPath, Spec, refuse_repeats
from korealbert.finetune import tasks
from korealbert.finetune.definition import DataFile, Definition, is_file
from korealbert.finetune.task import Head, Task
from korealbert.huggingface.onnx import Form

Init = Literal["pretrained", "random"]
"""``random``: the same architecture with fresh weights, which shows what pretraining adds."""

INITS: tuple[Init, ...] = get_args(Init)


Precision = Literal["float32", "bfloat16"]
"""``bfloat16``: the encoder computes in bfloat16 under autocast; weights, heads, losses and the optimiser stay float32."""


class FeaturesSpec(Spec):
    """The examples of a benchmark as piece ids, shared by all its inits, seeds and settings."""

    later: ClassVar[frozenset[str]] = frozenset({"head"})

    task: str | Definition
    """Name of a benchmark (nsmc, klue_ner, glue_cola, …), or the path of a TOML file that defines one; what that file says is
    part of the identity, and where it is, is not."""
    train: DataFile
    """Official training file, in any form that ``benchmark_files`` reads: compressed or not, in a tar archive or not."""
    train_member: str = ""
    """Name of the file within ``train``, when that is an archive."""
    dev: DataFile | None = None
    """Official dev file. Without one, 5 % of train are held out, where the benchmark has no dev set."""
    dev_member: str = ""
    """Name of the file within ``dev``, when that is an archive."""
    test: DataFile | None = None
    """Official test file. None: only dev is scored, as in a search, so that nothing can be selected on test."""
    test_member: str = ""
    """Name of the file within ``test``, when that is an archive."""
    test_share: float | None = Field(default=None, gt=0, lt=1)
    """Instead of a test file: test on this share of the training file's documents, which are left out of train and dev. For
    benchmarks of which one part alone is public; such scores compare with no published ones."""
    max_train_examples: int | None = Field(default=None, ge=2)
    """Train on a random part of so many examples. None: on all."""
    max_dev_examples: int | None = Field(default=None, ge=2)
    """Select on a random part of dev. None: on all."""
    max_test_examples: int | None = Field(default=None, ge=2)
    """Test on a random part, which makes scores that compare with no published ones. None: on all."""
    split_seed: int = Field(default=0, ge=0, lt=2**63)
    """Seeds the held-out dev part and the random parts: one for all runs, so that they see the same examples."""
    max_length: int = Field(default=128, ge=8)
    """Longest input in pieces with special pieces; longer ones are cut."""
    head: Head = "own"
    """``own``: the task's, a cross-encoder where it compares two sentences; for an ELECTRA ``electra``, where the task has it.
    ``electra``: a dense layer with GELU before the task's. ``mean``: the task's on the mean vector of all pieces.
    ``bi-encoder``: both sentences are encoded apart; its scores compare with those of bi-encoders alone. ``answerability``:
    spans, and a classifier trained with them of whether there is an answer (squad2, klue_mrc)."""

    @model_validator(mode="before")
    @classmethod
    def _task_defaults(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, Mapping):
            return values
        task, files = values.get("task"), dict[str, Any]()
        if isinstance(task, str) and is_file(task):
            context = info.context or {}
            path = Path(os.path.normpath(Path(context.get("root", ".")) / Path(task).expanduser()))
            table = tasks.table_of(path, within=context.get("within"))
            splits = {split: table.files.of(split) for split in ("train", "dev", "test")}
            if values.get("test_share") is not None:
                splits.pop("test")
            files = {name: value for split, of in splits.items() if split not in values for name, value in of.items()}
            task = table.definition
        elif isinstance(task, Mapping):
            task = Definition.model_validate_json(json.dumps(task), strict=True)
        if not isinstance(task, Definition) and task not in tasks.names():
            return values
        defaults = {name: value for name, value in tasks.load(task).defaults.items() if name in cls.model_fields}
        arrays = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}  # as strict Python has them
        return {**defaults, **files, **values, **arrays, "task": task}

    @model_validator(mode="after")
    def _one_test_set(self) -> Self:
        if self.test is not None and self.test_share is not None:
            raise ValueError("test and test_share both say what is tested on; give one of them")
        return self

    @model_validator(mode="after")
    def _task_is_known_and_has_a_dev_set(self) -> Self:
        if tasks.load(self.task).has_official_dev and self.dev is None:
            raise ValueError(f"{self.task_name} has an official dev set: name its file as dev")
        return self

    @model_validator(mode="after")
    def _task_has_the_head(self) -> Self:
        tasks.load(self.task).headed(self.head)
        return self

    @property
    def task_name(self) -> str:
        """Name of the benchmark in stores and tables."""
        return self.task.name if isinstance(self.task, Definition) else self.task

    @property
    def benchmark(self) -> Task:
        """The task with its head."""
        return tasks.load(self.task).headed(self.head)

    @property
    def tested(self) -> bool:
        """Whether there is anything to test on."""
        return self.test is not None or self.test_share is not None

    def features(self) -> FeaturesSpec:
        """The part of the spec that determines the features."""
        fields = {name: getattr(self, name) for name in FeaturesSpec.model_fields}
        return FeaturesSpec(**fields | {"head": self.head if self.head == "bi-encoder" else "own"})


class ContrastSpec(Spec):
    """Training before the benchmark's own: among all hypotheses of a batch, find the one that follows from a premise.

    In-batch negatives, as MultipleNegativesRanking of sentence-transformers and supervised SimCSE (Gao et al. 2021): for each
    premise the hypothesis that it entails against the one that contradicts it and those of all other premises. The best epoch
    on a held-out twentieth of the triples goes on. Triples with a sentence of the benchmark's dev or test set are left out.
    """

    task: str = "kornli"
    """Benchmark of entailment whose file it is: kornli, klue_nli, glue_mnli, glue_mnli_mm."""
    train: InputPath
    """Official training file."""
    train_member: str = ""
    """Name of the file within ``train``, when that is an archive."""
    max_triples: int | None = Field(default=None, ge=2)
    """A random part of so many. None: all."""
    epochs: int = Field(default=1, ge=1, le=1000)
    """Passes over the triples."""
    batch_size: int = Field(default=64, ge=2)
    """Triples of one step; each premise has one positive and twice as many hypotheses less one to tell it from."""
    learning_rate: float = Field(default=5e-5, gt=0, le=1)
    """Peak of AdamW's learning rate."""
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises to its peak."""
    scale: float = Field(default=20.0, gt=0)
    """Factor of the cosines before the softmax: 1 / 0.05, the temperature of SimCSE."""

    @field_validator("task")
    @classmethod
    def _says_what_follows(cls, task: str) -> str:
        labels = () if is_file(task) else getattr(tasks.load(task), "labels", ())
        if not {"entailment", "contradiction"} <= set(labels):
            raise ValueError(
                f"{task} has no pairs that entail and contradict; take kornli, klue_nli, glue_mnli or glue_mnli_mm"
            )
        return task

    def before(self, **settings: Any) -> FinetuneSpec:
        """A bi-encoder's fine-tuning that has this training before it; ``settings`` are of its other fields."""
        contrast = ContrastSpec(**{name: getattr(self, name) for name in ContrastSpec.model_fields})
        return FinetuneSpec(task=self.task, train=self.train, dev=self.train, head="bi-encoder", contrast=contrast, **settings)


class FinetuneSpec(FeaturesSpec):
    """One fine-tuning run: task, init, seed and settings, the same budget for every init.

    ``task`` names the benchmark where the table has another name than it, or the TOML file that defines one; what that file
    says of files and settings holds where the table says nothing.

    ``epochs``, ``batch_size``, ``learning_rate``, ``warmup_ratio``, ``weight_decay``, ``dropout`` and ``max_length`` default to
    the task's own values where it has some.
    """

    later: ClassVar[frozenset[str]] = FeaturesSpec.later | {
        "contrast",
        "steps",
        "warmup_steps",
        "encoder_dropout",
        "whiten",
        "evidence",
        "onnx",
    }

    init: Init = "pretrained"
    """The weights of the model, or ``random``: the same architecture with fresh ones, which shows what pretraining adds."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seeds head, fresh weights, dropout and the order of the examples. The examples themselves do not depend on it."""

    epochs: int = Field(default=3, ge=1, le=1000)
    """Passes over the training examples; after each the model is scored on dev, and the best one is tested."""
    steps: int | None = Field(default=None, ge=1)
    """Optimiser steps in all, in the place of ``epochs``; the last pass ends with them."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after so many epochs in a row that were not better on dev. None: never. The schedule is that of ``epochs``."""
    batch_size: int = Field(default=64, ge=1)
    """Examples of one optimiser step."""
    micro_batch_size: int | None = Field(default=None, ge=1)
    """Examples that pass the encoder at once; gradients add up to a step's. None: all of a batch."""
    learning_rate: float = Field(default=5e-5, gt=0, le=1)
    """Peak of AdamW's learning rate; from there it falls linearly to 0."""
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises to its peak."""
    warmup_steps: int | None = Field(default=None, ge=0)
    """The same in steps, in the place of ``warmup_ratio``."""
    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    """Decoupled weight decay of matrices; biases and layer norms are spared."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient over all parameters."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout before the head."""
    encoder_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout within the encoder, of attention too. None: that of its config.json."""
    whiten: bool = False
    """Put a linear map before the head, which at first whitens the mean vectors of the training examples and is trained with
    the rest: for the heads ``mean`` and ``bi-encoder``."""
    precision: Precision = "float32"
    """``bfloat16`` is for GPUs; a CPU without bfloat16 units emulates it slowly."""
    evidence: bool = False
    """Keep what each test prediction is weighed by (probabilities of classes or spans), which ensembles average."""
    onnx: tuple[Form, ...] = ()
    """Keep the fine-tuned model, encoder and head, as ONNX and test it with onnxruntime too: ``fp32`` (``onnx/model.onnx``) and
    ``int8`` (``onnx/model_int8.onnx``, dynamically quantised). Needs the extra ``onnx``."""
    contrast: ContrastSpec | None = None
    """Training on triples of entailment before the benchmark's own, for a bi-encoder."""

    @model_validator(mode="after")
    def _warm_up_ends(self) -> Self:
        if self.steps is not None and self.warmup_steps is not None and self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps = {self.warmup_steps} leaves no step of steps = {self.steps}; shorten the warm-up")
        return self

    @model_validator(mode="after")
    def _evidence_is_known(self) -> Self:
        if self.evidence and self.benchmark.evidence_type is None:
            raise ValueError(f"{self.task}: there are no ensembles of this benchmark; leave evidence out")
        return self

    @model_validator(mode="after")
    def _onnx_is_of_pieces(self) -> Self:
        refuse_repeats("onnx", self.onnx)
        if self.onnx and not self.benchmark.outputs:
            raise ValueError(f"{self.task_name}: its head ({self.head}) reads more than one sequence of pieces; leave onnx out")
        return self

    @model_validator(mode="after")
    def _whitened_are_mean_vectors(self) -> Self:
        if self.whiten and not self.benchmark.pools_mean:
            raise ValueError(f"whiten is for mean vectors; set head = 'mean' or 'bi-encoder' (it is {self.head!r})")
        return self

    @model_validator(mode="after")
    def _contrast_is_of_vectors(self) -> Self:
        if self.contrast is not None and self.head != "bi-encoder":
            raise ValueError(f"contrast trains vectors of single sentences; set head = 'bi-encoder' (it is {self.head!r})")
        return self

    def of_architecture(self, architecture: str) -> FinetuneSpec:
        """The run with the head that this architecture (``model_type`` of transformers) has, unless another one is named."""
        wanted = architecture == "electra" and self.head == "own" and "electra" in self.benchmark.heads
        return self.model_copy(update={"head": "electra"}) if wanted else self

    def with_settings(self, settings: Mapping[str, Any]) -> FinetuneSpec:
        """The same run with other settings. Raises ValueError where one is out of its range."""
        return FinetuneSpec(**{name: getattr(self, name) for name in FinetuneSpec.model_fields} | dict(settings))
