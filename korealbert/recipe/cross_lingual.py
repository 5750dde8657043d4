"""Reading a cross-lingual recipe: the TOML file of a post-training (XPT), which has a [transfer] table.

From raw text to balanced corpus it is a recipe like any other. Then its corpus is split into three parts, the source encoder is
transferred in one or more variants, each is trained in two phases, and the models are fine-tuned on Korean and English
benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from korealbert.artifact import Spec, refuse_repeats
from korealbert.corpus import balance
from korealbert.corpus.dedup import stage as dedup
from korealbert.examples import packing, views
from korealbert.huggingface import export
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe.benchmarks import Benchmark, PretrainedGrid, Seed, read_benchmarks
from korealbert.recipe.reading import CorpusRecipe, Model, Reader
from korealbert.recipe.tables import RecipeError
from korealbert.recipe.transfer_checks import check_whole
from korealbert.report.cross_lingual.spec import CrossLingualReportSpec
from korealbert.vocab import stage as vocab
from korealbert.xpt.phases import PHASES, Phase, PhaseSpec
from korealbert.xpt.split import SplitSpec
from korealbert.xpt.transfer import TransferSpec

Vocabulary = Literal["ko", "en"]


class SplitTable(Spec):
    """``[split]``: the three parts of the corpus, and what the vocabulary is learnt from."""

    level: Literal["document", "sentence"] = "document"
    """See ``SplitSpec``, like all fields but one."""
    test_sentences: int = Field(default=88_000, ge=1)
    """Sentences of the test part."""
    valid_sentences: int = Field(default=100_000, ge=1)
    """Sentences of the valid part."""
    train_sentences: int | None = Field(default=None, ge=1)
    """Sentences that models are trained on; None: all that are left."""
    vocabulary_sentences: int | None = Field(default=None, ge=1)
    """Sentences of the train part that the vocabulary is learnt from: 4,000,000 where models of 400,000 are to have the
    vocabulary of those of 4,000,000. None: ``train_sentences``."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of the order; with another one all three parts are others."""

    @model_validator(mode="after")
    def _vocabulary_holds_training(self) -> Self:
        vocabulary, train = self.vocabulary_sentences, self.train_sentences
        if vocabulary is not None and (train is None or vocabulary < train):
            raise ValueError(
                f"vocabulary_sentences = {vocabulary} lies below train_sentences = {train or 'all'}; leave it out, or raise it"
            )
        return self

    def part(self, name: Literal["train", "valid", "test"], *, train_sentences: int | None = None) -> SplitSpec:
        """The spec of one part."""
        sizes = {"test_sentences": self.test_sentences, "valid_sentences": self.valid_sentences}
        return SplitSpec(part=name, level=self.level, **sizes, train_sentences=train_sentences, seed=self.seed)


class LanguageLossTable(Spec):
    """``[language_loss]``: which models are fine-tuned on the English benchmarks of ``[english.NAME]``."""

    variants: tuple[str, ...] = ()
    """Variants of the matrix; empty: all."""
    phases: tuple[Phase, ...] = Field(default=PHASES, min_length=1)
    """Phases of the matrix."""
    vocabularies: tuple[Vocabulary, ...] = Field(default=("ko", "en"), min_length=1)
    """``ko``: the model as it is; ``en``: with its source's vocabulary put back."""
    source: bool = True
    """The source itself, as the line to compare with."""
    curve_seeds: tuple[Seed, ...] = ()
    """Seeds under which every snapshot of the phases is fine-tuned too, with its source's vocabulary; empty: no curve."""

    @field_validator("variants", "phases", "vocabularies", "curve_seeds")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        refuse_repeats(str(info.field_name), values)
        return values


class KoreanGrid(PretrainedGrid):
    """The cells of one Korean benchmark, for each of its models."""

    models: tuple[str, ...] = ()
    """Models that are fine-tuned: ``itl/phase2``, ``control/mlm``, ``source``; empty: every variant after each phase, and every
    control."""

    @field_validator("models")
    @classmethod
    def _models_once(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("models", values)
        return values


@dataclass(frozen=True)
class CrossLingualRecipe(CorpusRecipe):
    """The validated specs of every stage of a post-training."""

    split: SplitTable
    vocab: vocab.VocabSpec
    examples: packing.ExamplesSpec
    views: views.ViewsSpec
    source: Model
    """The encoder that learns Korean."""
    variants: Mapping[str, TransferSpec]
    phase1: PhaseSpec
    phase2: PhaseSpec
    control: Mapping[str, PretrainSpec]
    """Models of the same text from scratch, by name."""
    export: export.ExportSpec
    finetune: Mapping[str, Benchmark[KoreanGrid]]
    """Korean benchmarks by name."""
    english: Mapping[str, Benchmark[PretrainedGrid]]
    """English benchmarks by name."""
    language_loss: LanguageLossTable
    report: CrossLingualReportSpec

    @property
    def models(self) -> list[str]:
        """Every model that is fine-tuned unless a benchmark names others."""
        return [f"{name}/{phase}" for name in self.variants for phase in PHASES] + [f"control/{name}" for name in self.control]


SINGLE = ("dedup", "balance", "split", "vocab", "examples", "views", "source", "transfer", *PHASES)
PER_NAME = ("variants", "control", "finetune", "english")
MASKED_WORDS_ONLY: Mapping[str, Any] = {
    "sentence_task": "none",
    "masking": {"unit": "token"},
    "word_order": {"portion": 0.0},
}
"""RoBERTa's noise: single pieces, no sentence task, nothing moved. A recipe's [views] goes before it."""


RESERVED = ("source", "control", "language_loss")
"""What labels of models begin with that are no variant."""


def load_cross_lingual(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> CrossLingualRecipe:
    """Read and validate a cross-lingual recipe; see ``reading.load``. Raises RecipeError for anything that could not run."""
    reader = Reader(path, data, overrides)
    sources = reader.sources([*SINGLE, *PER_NAME, "export", "language_loss", "report"])
    single: dict[str, Any] = {
        "dedup": reader.spec(dedup.DedupSpec, "dedup"),
        "balance": reader.spec(balance.BalanceSpec, "balance"),
        "split": reader.spec(SplitTable, "split"),
        "vocab": reader.spec(vocab.VocabSpec, "vocab"),
        "examples": reader.spec(packing.ExamplesSpec, "examples", heldout_share=0.0),
        "views": reader.validate(views.ViewsSpec, "views", {**MASKED_WORDS_ONLY, **reader.table("views")}),
        "phase1": _phase(reader, "phase1", "chameleon"),
        "phase2": _phase(reader, "phase2", "none"),
        "export": reader.spec(export.ExportSpec, "export"),
        "language_loss": reader.spec(LanguageLossTable, "language_loss"),
        "report": reader.spec(CrossLingualReportSpec, "report"),
    }
    reader.check_sources(sources, **single)
    variants = _variants(reader)
    control = {name: reader.spec(PretrainSpec, f"control.{name}") for name in reader.names("control")}
    recipe = CrossLingualRecipe(
        **reader.brought(sources),
        **single,
        source=reader.model("source"),
        variants=variants,
        control=control,
        finetune=read_benchmarks(reader, "finetune", KoreanGrid),
        english=read_benchmarks(reader, "english", PretrainedGrid),
    )
    check_whole(path, recipe)
    return recipe


def _phase(reader: Reader, name: str, freeze: str) -> PhaseSpec:
    return reader.validate(PhaseSpec, name, {"freeze": freeze, **reader.table(name)})


def _variants(reader: Reader) -> dict[str, TransferSpec]:
    """Every variant is [transfer] with some fields set otherwise; without any there is one, named ``xpt``."""
    common = reader.table("transfer")
    names = reader.names("variants") or ["xpt"]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name in RESERVED:
            reserved = ", ".join(map(repr, RESERVED))
            raise RecipeError(
                f"{reader.path}, [variants.{name}]: use lower-case letters, digits, - and _, and none of {reserved}"
            )
    return {
        name: reader.validate(TransferSpec, f"variants.{name}", {**common, **reader.table(f"variants.{name}")})
        for name in names
    }
