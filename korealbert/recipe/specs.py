"""Recipes as read: the validated specs of the stages of each kind, and the models that other recipes may name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from korealbert.artifact import EACH_ONCE, Spec
from korealbert.corpus import balance
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.crawl.fetch import FetchSpec
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality.stage import QualitySpec
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.examples import packing
from korealbert.examples.views import ViewsSpec
from korealbert.finetune.encoders.speed import SpeedSpec
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import ModelPlace, longest_input_of, read_settings
from korealbert.huggingface.export import ExportSpec
from korealbert.huggingface.modern import CLASSIFIER, classifier_of
from korealbert.model.config import AnyConfig
from korealbert.pretrain.cooccurrence import CooccurrenceSpec
from korealbert.pretrain.spec import ANY_VOCABULARY, PretrainSpec
from korealbert.recipe.benchmarks import Benchmark, EncoderGrid, FinetuneGrid, PretrainedGrid, Seed
from korealbert.recipe.retrieval import Retrieval
from korealbert.report import stage as report
from korealbert.report.cross_lingual.stage import CrossLingualReportSpec
from korealbert.vocab import sizes
from korealbert.vocab import stage as vocab
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PHASES, Phase, PhaseSpec
from korealbert.xpt.split import SplitSpec
from korealbert.xpt.transfer import TransferSpec, target_config

Vocabulary = Literal["ko", "en"]


class ModelTable(ModelPlace):
    """Place of a model: ALBERT, BERT, RoBERTa, ELECTRA; only to be measured also XLM-R, BigBird, DeBERTa-v2, ModernBERT, …"""

    hub: str = Field(default="", pattern=r"^([\w.-]+/[\w.-]+)?$")
    """The Hugging Face repository that the directory is a copy of; an error names it if the directory is missing."""
    recipe: str | None = None
    """Instead of a place, the path of another recipe, relative to this one; its model is built as part of this graph."""
    model: str | None = None
    """The model of that recipe if it is a cross-lingual one: ``itl/phase2``, ``control/mlm``. By default the only variant after
    phase 2."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Fields to change in that recipe: ``set.pretrain.steps = 9_000``."""
    without: tuple[str, ...] = ()
    """Fields or tables of that recipe to remove before: ``["extract.news", "clean.news"]``."""

    @model_validator(mode="after")
    def _one_of_all(self) -> Self:
        if sum(place is not None for place in (self.path, self.package, self.recipe)) != 1:
            raise ValueError("give either path (a directory in Hugging Face format), package and folder, or recipe")
        if (self.set or self.without) and self.recipe is None:
            raise ValueError("set and without change fields of a recipe, and none is named; name it in recipe, or remove them")
        if self.model and self.recipe is None:
            raise ValueError("model chooses a model of a recipe, and none is named; name it in recipe, or remove model")
        return self

    def place(self) -> ModelPlace:
        """Return the spec of the stage that checks the model, without the recipe."""
        return ModelPlace(path=self.path, package=self.package, folder=self.folder)


class ProducedModel(NamedTuple):
    """A model that a recipe produces."""

    export: str
    """Label of its directory in Hugging Face format."""
    training: str
    """Label of its last training."""
    shape: AnyConfig | None
    """None if it is unknown before its source is read."""
    longest_input: int | None
    """Positions for tokens; None if unknown."""


@dataclass(frozen=True)
class Model:
    """A model that this recipe starts from or measures."""

    place: ModelPlace
    recipe: Recipe | CrossLingualRecipe | None = None
    """The recipe that makes it, if it has no place."""
    produced: ProducedModel | None = None
    """Which of that recipe's models it is."""

    def longest_input(self) -> int | None:
        """Return the number of its positions, or None if it has no limit or its package is not installed here.

        Raises ValueError if its configuration cannot be read.
        """
        if self.produced is not None:
            return self.produced.longest_input
        if self.place.path is not None:
            return longest_input_of(self.place.path.path)
        with suppress(ValueError):  # The stage that reads it from its package reports the fault.
            if (directory := self.place.directory()) is not None:
                return longest_input_of(directory)
        return None


@dataclass(frozen=True)
class CorpusRecipe:
    """The validated specs from raw text to one balanced corpus, with which recipes of several kinds begin."""

    name: str
    description: str
    crawl: Mapping[str, CrawlSpec]
    """By source, if its pages are crawled."""
    fetch: Mapping[str, FetchSpec]
    """By source, if its dump is fetched."""
    extract: Mapping[str, ExtractSpec]
    clean: Mapping[str, clean.CleanSpec]
    dedup: dedup.DedupSpec
    quality: QualitySpec | None
    balance: balance.BalanceSpec


@dataclass(frozen=True)
class Corpus(CorpusRecipe):
    """The validated specs of a corpus alone, with a vocabulary if it has the table."""

    vocab: vocab.VocabSpec | None
    vocab_sizes: sizes.VocabSizesSpec
    report: report.ReportSpec
    further: Mapping[str, Spec]
    """Specs of other registered stages, by table, if the recipe has their tables."""


@dataclass(frozen=True)
class Recipe(CorpusRecipe):
    """The validated specs of every stage, ready to form a graph."""

    vocab: vocab.VocabSpec
    vocab_sizes: sizes.VocabSizesSpec
    examples: packing.ExamplesSpec
    views: ViewsSpec
    examples_long: packing.ExamplesSpec | None
    """Rows of the phase of long sequences, if pretraining has one."""
    views_long: ViewsSpec | None
    cooccurrence: CooccurrenceSpec
    """Used if the word embeddings are initialised with its vectors."""
    pretrain: PretrainSpec
    export: ExportSpec
    finetune: Mapping[str, Benchmark[FinetuneGrid]]
    """Benchmarks by name."""
    retrieval: Retrieval
    encoder: Mapping[str, Model]
    """Other encoders, by name, that every benchmark measures too."""
    speed: SpeedSpec
    report: report.ReportSpec
    further: Mapping[str, Spec]
    """See ``Corpus``."""

    @property
    def produced(self) -> ProducedModel:
        """The model of the recipe."""
        return ProducedModel("export", "pretrain", self.pretrain.shape, self.pretrain.model.longest_sequence)


@dataclass(frozen=True)
class Evaluation:
    """The validated specs of every stage of an evaluation."""

    name: str
    description: str
    encoder: Mapping[str, Model]
    """Measured encoders, by name."""
    finetune: Mapping[str, Benchmark[EncoderGrid]]
    """Benchmarks by name."""
    retrieval: Retrieval
    speed: SpeedSpec
    report: report.ReportSpec


class SplitTable(Spec):
    """``[split]``: the three parts of the corpus, and the text of the vocabulary."""

    level: Literal["document", "sentence"] = "document"
    """See ``SplitSpec``, like all fields but one."""
    test_sentences: int = Field(default=88_000, ge=1)
    """Sentences of the test part."""
    valid_sentences: int = Field(default=100_000, ge=1)
    """Sentences of the valid part."""
    train_sentences: int | None = Field(default=None, ge=1)
    """Sentences that models are trained on; by default all that are left."""
    vocabulary_sentences: int | None = Field(default=None, ge=1)
    """Sentences of the train part that the vocabulary is learnt from, by default ``train_sentences``. With 4,000,000, models
    trained on 400,000 sentences have the vocabulary of those trained on 4,000,000."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of the shuffling before the corpus is split."""

    @model_validator(mode="after")
    def _vocabulary_holds_training(self) -> Self:
        vocabulary, train = self.vocabulary_sentences, self.train_sentences
        if vocabulary is not None and (train is None or vocabulary < train):
            raise ValueError(
                f"vocabulary_sentences = {vocabulary} is less than train_sentences = {train or 'all'}; raise it, or remove it"
            )
        return self

    def part(self, name: Literal["train", "valid", "test"], *, train_sentences: int | None = None) -> SplitSpec:
        """Return the spec of one part."""
        sizes = {"test_sentences": self.test_sentences, "valid_sentences": self.valid_sentences}
        return SplitSpec(part=name, level=self.level, **sizes, train_sentences=train_sentences, seed=self.seed)


class LanguageLossTable(Spec):
    """``[language_loss]``: which models are fine-tuned on the English benchmarks of ``[english.NAME]``."""

    variants: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """Variants of the matrix; by default all."""
    phases: Annotated[tuple[Phase, ...], EACH_ONCE] = Field(default=PHASES, min_length=1)
    """Phases of the matrix."""
    vocabularies: Annotated[tuple[Vocabulary, ...], EACH_ONCE] = Field(default=("ko", "en"), min_length=1)
    """``ko``: the model as it is; ``en``: the model with the vocabulary of its source."""
    source: bool = True
    """Whether to measure the source itself as a baseline."""
    curve_seeds: Annotated[tuple[Seed, ...], EACH_ONCE] = ()
    """Seeds for fine-tuning every snapshot of the phases, with the vocabulary of its source; by default there are none."""


class KoreanGrid(PretrainedGrid):
    """The cells of one Korean benchmark, for each of its models."""

    models: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """Models to fine-tune: ``itl/phase2``, ``control/mlm``, ``encoder/NAME``, ``source``. By default every variant after each
    phase, every control and every encoder."""


@dataclass(frozen=True)
class CrossLingualRecipe(CorpusRecipe):
    """The validated specs of every stage of a post-training."""

    split: SplitTable
    vocab: vocab.VocabSpec | TokenizerSpec
    examples: packing.ExamplesSpec
    views: ViewsSpec
    source: Model
    """The encoder that learns Korean."""
    variants: Mapping[str, TransferSpec]
    phase1: PhaseSpec
    phase2: PhaseSpec
    control: Mapping[str, PretrainSpec]
    """Models trained from scratch on the same text, by name."""
    export: ExportSpec
    finetune: Mapping[str, Benchmark[KoreanGrid]]
    """Korean benchmarks by name."""
    english: Mapping[str, Benchmark[PretrainedGrid]]
    """English benchmarks by name."""
    encoder: Mapping[str, Model]
    """Other encoders, by name, that Korean benchmarks measure too."""
    language_loss: LanguageLossTable
    report: CrossLingualReportSpec

    @property
    def trained(self) -> list[str]:
        """The names of all models that it trains."""
        return [f"{name}/{phase}" for name in self.variants for phase in PHASES] + [f"control/{name}" for name in self.control]

    @property
    def models(self) -> list[str]:
        """The names of the models that a benchmark fine-tunes by default."""
        return [*self.trained, *(f"encoder/{name}" for name in self.encoder)]

    def produced(self, model: str) -> ProducedModel:
        """Return one of the ``trained`` models. Raises ValueError if the source's configuration cannot be read."""
        name, _, rest = model.partition("/")
        if name == "control":
            control = self.control[rest]
            return ProducedModel(f"export/{model}", model, control.shape, control.model.longest_sequence)
        source, shape = self.shape_of_source, None
        # An export that repeats shared layers is transferred without sharing, so the shape is not known from the recipe.
        if source is not None and not checkpoint.repeats_blocks(source):
            shape = target_config(source, self.variants[name], vocab_size=ANY_VOCABULARY)
        return ProducedModel(f"export/{model}", f"{rest}/{name}", shape, self.positions_of_source())

    @property
    def shape_of_source(self) -> AnyConfig | None:
        """The shape of the source, or None if it is unknown here."""
        if self.source.produced is not None:
            return self.source.produced.shape
        with suppress(ValueError):  # The stage that reads it from its package reports the fault.
            directory = self.source.place.directory()
            return None if directory is None else checkpoint.read_config(directory)
        return None

    @property
    def export_of_variants(self) -> ExportSpec:
        """The export of models trained from the source, whose classifiers are like the source's by default."""
        given = self.export.model_dump(include=self.export.model_fields_set)
        if isinstance(self.source.recipe, Recipe):
            theirs = self.source.recipe.export
            return ExportSpec(**{name: getattr(theirs, name) for name in CLASSIFIER} | given)
        with suppress(ValueError):  # The stage that reads it reports the fault.
            if (directory := self.source.place.directory()) is not None:
                return ExportSpec(**classifier_of(read_settings(directory)) | given)
        return self.export

    def positions_of_source(self) -> int | None:
        """Return the number of positions of the source, or None if it is in a package, which may not be installed here.

        Raises ValueError if its configuration cannot be read.
        """
        if self.source.produced is not None:
            return self.source.produced.longest_input
        path = self.source.place.path
        return None if path is None else checkpoint.read_config(path.path).longest_sequence
