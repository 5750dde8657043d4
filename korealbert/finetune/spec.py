"""Specs of fine-tuning: examples and their encoding, training on entailment triples, training on a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from korealbert.artifact import InputPath, Spec, refuse_repeats
from korealbert.artifact.spec import written_path
from korealbert.documents.benchmark_files import DataFile
from korealbert.finetune import tasks
from korealbert.finetune.definition import Definition
from korealbert.finetune.definition_file import is_file
from korealbert.finetune.task import Head, Task
from korealbert.huggingface.onnx import Form

Init = Literal["pretrained", "random"]
"""``random``: the same architecture with fresh weights, to show what pretraining contributes."""

INITS: tuple[Init, ...] = get_args(Init)


Precision = Literal["fp32", "bf16"]
"""``bf16``: the encoder computes in bf16 under autocast; weights, heads, losses and the optimiser stay fp32."""


def content_of_test(identified: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return checksum and archive member of the file with the test examples, or None without one.

    ``identified`` is the spec of a fine-tuning as it enters the identity, where files stand by their content.
    """
    split = "test" if identified.get("test_share") is None else "train"
    file = identified.get(split)
    return None if file is None else (file.get("sha256", ""), identified.get(f"{split}_member", ""))


class FeaturesSpec(Spec):
    """The examples of a benchmark as piece ids, shared by all its inits, seeds and settings."""

    later: ClassVar[frozenset[str]] = frozenset({"head"})

    task: str | Definition
    """Name of a benchmark (nsmc, klue_ner, glue_cola, …), or the path of a TOML file that defines one. The file's content is
    part of the identity, its path is not."""
    train: DataFile
    """Official training file, plain, compressed or in an archive."""
    train_member: str = ""
    """Name of the file in ``train``, if that is an archive."""
    dev: DataFile | None = None
    """Official dev file. If the benchmark has no dev set, 5 % of train are held out instead."""
    dev_member: str = ""
    """Name of the file in ``dev``, if that is an archive."""
    test: DataFile | None = None
    """Official test file. None: only dev is scored, as in a search, so that nothing can be selected on test."""
    test_member: str = ""
    """Name of the file in ``test``, if that is an archive."""
    test_share: float | None = Field(default=None, gt=0, lt=1)
    """Instead of a test file: test on this share of the training file's documents, which are then left out of train and dev.
    It is meant for benchmarks with only one public file; the scores are not comparable with published ones."""
    max_train_examples: int | None = Field(default=None, ge=2)
    """Train on a random subset of this size. None: on all examples."""
    max_dev_examples: int | None = Field(default=None, ge=2)
    """Select on a random subset of dev. None: on all examples."""
    max_test_examples: int | None = Field(default=None, ge=2)
    """Test on a random subset; such scores are not comparable with published ones. None: on all examples."""
    split_seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of held-out parts and random subsets. All runs share it, so that they see the same examples."""
    max_length: int = Field(default=128, ge=8)
    """Longest input in pieces, with special pieces; longer ones are cut."""
    head: Head = "own"
    """``own``: the task's default, a cross-encoder if it compares two sentences; an ELECTRA gets ``electra`` instead if the
    task offers it. ``electra``: a dense layer with GELU before the task's layer. ``mean``: the task's layer on the mean vector
    of all pieces. ``bi-encoder``: the two sentences are encoded separately; scores are comparable only with other bi-encoders.
    ``answerability``: spans, and a jointly trained classifier of whether there is an answer (squad2, klue_mrc)."""

    @model_validator(mode="before")
    @classmethod
    def _task_defaults(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, Mapping):
            return values
        task, files = values.get("task"), dict[str, Any]()
        if isinstance(task, str) and is_file(task):
            table = tasks.table_of(written_path(task, info), within=(info.context or {}).get("within"))
            splits = {split: table.files.of(split) for split in ("train", "dev", "test")}
            if values.get("test_share") is not None:
                splits.pop("test")
            files = {name: value for split, given in splits.items() if split not in values for name, value in given.items()}
            task = table.definition
        elif isinstance(task, Mapping):
            task = Definition.model_validate_json(json.dumps(task), strict=True)
        if not isinstance(task, Definition) and task not in tasks.names():
            return values
        defaults = {name: value for name, value in tasks.load(task).defaults.items() if name in cls.model_fields}
        tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}  # strict mode takes no list
        return {**defaults, **files, **values, **tuples, "task": task}

    @model_validator(mode="after")
    def _task_has_files_and_head(self) -> Self:
        if self.test is not None and self.test_share is not None:
            raise ValueError("test and test_share both say what is tested on; give one of them")
        task = tasks.load(self.task)
        if task.has_official_dev and self.dev is None:
            raise ValueError(f"{self.task_name} has an official dev set: name its file as dev")
        task.headed(self.head)
        return self

    @property
    def task_name(self) -> str:
        """Name of the benchmark in stores and tables."""
        return self.task.name if isinstance(self.task, Definition) else self.task

    @property
    def benchmark(self) -> Task:
        """The task with the chosen head."""
        return tasks.load(self.task).headed(self.head)

    @property
    def tested(self) -> bool:
        """Whether there is a test set."""
        return self.test is not None or self.test_share is not None

    def features(self) -> FeaturesSpec:
        """Return the part of the spec that determines the features."""
        fields = {name: getattr(self, name) for name in FeaturesSpec.model_fields}
        return FeaturesSpec(**fields | {"head": self.head if self.head == "bi-encoder" else "own"})


class ContrastSpec(Spec):
    """Contrastive training before the benchmark's own: find the hypothesis that follows from a premise.

    Negatives come from the batch, as in MultipleNegativesRanking of sentence-transformers and supervised SimCSE (Gao et al.
    2021): the hypothesis that contradicts the premise, and all hypotheses of other premises. Training continues from the epoch
    that is best on 5 % held-out triples. Triples with a sentence of the benchmark's dev or test set are left out; a run of a
    search reads no test set and leaves out those of dev alone.
    """

    task: str = "kornli"
    """Entailment benchmark of the file: kornli, klue_nli, glue_mnli or glue_mnli_mm."""
    train: InputPath
    """Official training file."""
    train_member: str = ""
    """Name of the file in ``train``, if that is an archive."""
    max_triples: int | None = Field(default=None, ge=2)
    """Size of a random subset of the triples. None: all of them."""
    epochs: int = Field(default=1, ge=1, le=1000)
    """Passes over the triples."""
    batch_size: int = Field(default=64, ge=2)
    """Triples per step. With n triples each premise has one positive and 2n - 1 negatives."""
    learning_rate: float = Field(default=5e-5, gt=0, le=1)
    """Peak of AdamW's learning rate."""
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises to its peak."""
    scale: float = Field(default=20.0, gt=0)
    """Factor of the cosines before the softmax: 1 / 0.05, the temperature of SimCSE."""

    @field_validator("task")
    @classmethod
    def _is_of_entailment(cls, task: str) -> str:
        labels = () if is_file(task) else getattr(tasks.load(task), "labels", ())
        if not {"entailment", "contradiction"} <= set(labels):
            raise ValueError(
                f"{task} has no pairs that entail and contradict; take kornli, klue_nli, glue_mnli or glue_mnli_mm"
            )
        return task

    def before(self, **settings: Any) -> FinetuneSpec:
        """Return the fine-tuning spec of a bi-encoder with this training; ``settings`` are its other fields."""
        contrast = ContrastSpec(**{name: getattr(self, name) for name in ContrastSpec.model_fields})
        return FinetuneSpec(task=self.task, train=self.train, dev=self.train, head="bi-encoder", contrast=contrast, **settings)


class FinetuneSpec(FeaturesSpec):
    """One fine-tuning run: task, init, seed and settings, with the same budget for every init.

    ``task`` is needed if the table is not named after the benchmark, or if a TOML file defines the benchmark. Files and
    settings of that file apply unless the table gives its own.

    ``epochs``, ``batch_size``, ``learning_rate``, ``warmup_ratio``, ``weight_decay``, ``dropout`` and ``max_length`` default to
    the task's own values if it has any.
    """

    later: ClassVar[frozenset[str]] = FeaturesSpec.later | {
        "contrast",
        "steps",
        "warmup_steps",
        "encoder_dropout",
        "embedding_lr_factor",
        "whiten",
        "evidence",
        "onnx",
    }

    init: Init = "pretrained"
    """``pretrained``: the model's weights. ``random``: fresh weights, to show what pretraining contributes."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of head, fresh weights, dropout and order of the examples. Which examples are used does not depend on it."""

    epochs: int = Field(default=3, ge=1, le=1000)
    """Passes over the training examples. The model is scored on dev after each, and the best one is tested."""
    steps: int | None = Field(default=None, ge=1)
    """Total optimiser steps, instead of ``epochs``."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many epochs without a better dev score. None: never. The learning rate still follows ``epochs``."""
    batch_size: int = Field(default=64, ge=1)
    """Examples per optimiser step."""
    micro_batch_size: int | None = Field(default=None, ge=1)
    """Examples per forward pass; gradients are accumulated over a step. None: a whole batch."""
    learning_rate: float = Field(default=5e-5, gt=0, le=1)
    """Peak learning rate of AdamW; from there it falls linearly to 0."""
    embedding_lr_factor: float = Field(default=1.0, ge=0, le=1)
    """Factor of the learning rate for the encoder's tables of embeddings; 0 freezes them. A small factor keeps the vectors of
    the training examples' words near those of similar words, which the examples do not contain."""
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises to its peak."""
    warmup_steps: int | None = Field(default=None, ge=0)
    """Number of these steps, instead of ``warmup_ratio``."""
    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    """Decoupled weight decay of matrices; biases and layer norms have none."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are clipped to this norm over all parameters."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout before the head."""
    encoder_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout within the encoder, including attention. None: as in its config.json."""
    whiten: bool = False
    """For the heads ``mean`` and ``bi-encoder``: put a trainable linear map before the head, which initially whitens the mean
    vectors of the training examples."""
    precision: Precision = "fp32"
    """``bf16`` is for GPUs and for CPUs with units for it; other CPUs emulate it slowly."""
    evidence: bool = False
    """Keep the evidence for each test prediction (probabilities of classes or spans), which ensembles average."""
    onnx: tuple[Form, ...] = ()
    """Export the fine-tuned model, encoder and head, as ONNX and also test it with onnxruntime: ``fp32``
    (``onnx/model.onnx``) and ``int8`` (``onnx/model_int8.onnx``, dynamically quantised). Needs the extra ``onnx``."""
    contrast: ContrastSpec | None = None
    """Train on entailment triples before the benchmark, for a bi-encoder."""

    @model_validator(mode="after")
    def _settings_fit_the_task(self) -> Self:
        if self.steps is not None and self.warmup_steps is not None and self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps = {self.warmup_steps} leaves no step of steps = {self.steps}; shorten the warm-up")
        if self.evidence and self.benchmark.evidence_type is None:
            raise ValueError(f"{self.task_name}: there are no ensembles of this benchmark; leave evidence out")
        refuse_repeats("onnx", self.onnx)
        if self.onnx and not self.benchmark.outputs:
            raise ValueError(f"{self.task_name}: its head ({self.head}) reads more than one sequence of pieces; leave onnx out")
        if self.whiten and not self.benchmark.pools_mean:
            raise ValueError(f"whiten is for mean vectors; set head = 'mean' or 'bi-encoder' (it is {self.head!r})")
        if self.contrast is not None and self.head != "bi-encoder":
            raise ValueError(f"contrast trains vectors of single sentences; set head = 'bi-encoder' (it is {self.head!r})")
        return self

    def of_architecture(self, architecture: str) -> FinetuneSpec:
        """Return the run with an ELECTRA head if ``architecture`` (``model_type`` of transformers) is one and none is named."""
        wanted = architecture == "electra" and self.head == "own" and "electra" in self.benchmark.heads
        return self.model_copy(update={"head": "electra"}) if wanted else self

    def with_settings(self, settings: Mapping[str, Any]) -> FinetuneSpec:
        """Return the run with other settings. Raises ValueError if one is out of its range."""
        return FinetuneSpec(**{name: getattr(self, name) for name in FinetuneSpec.model_fields} | dict(settings))
