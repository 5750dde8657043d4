"""A cross-lingual recipe: the TOML file of a post-training (XPT), which has a [transfer] table; how it is read, and its graph.

From raw text to balanced corpus it is a recipe like any other. Then its corpus is split into three parts, the source encoder is
transferred in one or more variants, each is trained in two phases, and the models are fine-tuned on Korean and English
benchmarks. Requirements between its tables are checked on reading, because they would otherwise fail hours later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import EACH_ONCE, Spec
from korealbert.corpus import balance
from korealbert.corpus.dedup import stage as dedup
from korealbert.examples import packing, views
from korealbert.formatting import nearest
from korealbert.huggingface import checkpoint, export
from korealbert.model.config import AnyConfig, ModernConfig
from korealbert.pretrain import cooccurrence, intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.pretrain.spec import ANY_VOCABULARY, PretrainSpec
from korealbert.recipe import registry
from korealbert.recipe.benchmarks import (
    Benchmark,
    Measured,
    PretrainedGrid,
    Seed,
    add_benchmark_of_encoders,
    add_summary,
    read_benchmarks,
    too_long,
)
from korealbert.recipe.dag import Node, Nodes, add_corpus, add_model
from korealbert.recipe.reading import CorpusRecipe, Model, Reader
from korealbert.recipe.tables import Problems, RecipeError
from korealbert.report.cross_lingual.stage import CrossLingualReportSpec
from korealbert.vocab import stage as vocab
from korealbert.xpt import phases, source, split, transfer, vocabulary_swap
from korealbert.xpt.phases import PHASES, Phase, PhaseSpec
from korealbert.xpt.split import SplitSpec
from korealbert.xpt.transfer import TransferSpec, target_config

Vocabulary = Literal["ko", "en"]


class SplitTable(Spec):
    """``[split]``: the three parts of the corpus, and the text of the vocabulary."""

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

    variants: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """Variants of the matrix; empty: all."""
    phases: Annotated[tuple[Phase, ...], EACH_ONCE] = Field(default=PHASES, min_length=1)
    """Phases of the matrix."""
    vocabularies: Annotated[tuple[Vocabulary, ...], EACH_ONCE] = Field(default=("ko", "en"), min_length=1)
    """``ko``: the model as it is; ``en``: with its source's vocabulary put back."""
    source: bool = True
    """The source itself, as the line to compare with."""
    curve_seeds: Annotated[tuple[Seed, ...], EACH_ONCE] = ()
    """Seeds under which every snapshot of the phases is fine-tuned too, with its source's vocabulary; empty: no curve."""


class KoreanGrid(PretrainedGrid):
    """The cells of one Korean benchmark, for each of its models."""

    models: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """Models that are fine-tuned: ``itl/phase2``, ``control/mlm``, ``source``; empty: every variant after each phase, and every
    control."""


@dataclass(frozen=True)
class _CrossLingualRecipe(CorpusRecipe):
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


_SINGLE = ("dedup", "balance", "split", "vocab", "examples", "views", "source", "transfer", *PHASES)
_PER_NAME = ("variants", "control", "finetune", "english")
_MASKED_WORDS_ONLY: Mapping[str, Any] = {
    "sentence_task": "none",
    "masking": {"unit": "token"},
    "word_order": {"portion": 0.0},
}
"""RoBERTa's noise: single pieces, no sentence task, nothing moved. A recipe's [views] goes before it."""

_TABLES: Mapping[str, tuple[type[Spec], Mapping[str, Any]]] = {
    "dedup": (dedup.DedupSpec, {}),
    "balance": (balance.BalanceSpec, {}),
    "split": (SplitTable, {}),
    "vocab": (vocab.VocabSpec, {}),
    "views": (views.ViewsSpec, _MASKED_WORDS_ONLY),
    "phase1": (PhaseSpec, {"freeze": "chameleon"}),
    "phase2": (PhaseSpec, {"freeze": "none"}),
    "export": (export.ExportSpec, {}),
    "language_loss": (LanguageLossTable, {}),
    "report": (CrossLingualReportSpec, {}),
}
"""The spec of a table, and what its fields are where it does not say otherwise."""

_RESERVED = ("source", "control", "language_loss")
"""Prefixes of labels of models that are not variants."""


def load_cross_lingual(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> _CrossLingualRecipe:
    """Read and validate a cross-lingual recipe; see ``reading.load``. Raises RecipeError for anything that could not run."""
    reader = Reader(path, data, overrides)
    with Problems() as problems:
        sources = problems.of(partial(reader.sources, [*_SINGLE, *_PER_NAME, "export", "language_loss", "report"]))
        single: dict[str, Any] = {
            name: problems.of(partial(reader.validate, kind, name, {**before, **reader.table(name)}))
            for name, (kind, before) in _TABLES.items()
        }
        single["examples"] = problems.of(partial(reader.spec, packing.ExamplesSpec, "examples", heldout_share=0.0))
        single["source"] = problems.of(partial(reader.model, "source"))
        single["variants"] = problems.of(partial(_variants, reader))
        names = reader.names("control")
        single["control"] = {name: problems.of(partial(reader.spec, PretrainSpec, f"control.{name}")) for name in names}
        single["finetune"] = problems.of(partial(read_benchmarks, reader, "finetune", KoreanGrid))
        single["english"] = problems.of(partial(read_benchmarks, reader, "english", PretrainedGrid))
    reader.check_sources(sources, **single)
    recipe = _CrossLingualRecipe(**reader.brought(sources), **single)
    wrong = [f"{path}, {where}: {problem}" for where, problem in _problems(recipe)]
    if wrong:
        raise RecipeError("\n".join(wrong))
    return recipe


def _variants(reader: Reader) -> dict[str, TransferSpec]:
    """Every variant is [transfer] with some fields set otherwise; without any there is one, named ``xpt``."""
    common = reader.table("transfer")
    names = reader.names("variants") or ["xpt"]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name in _RESERVED:
            reserved = ", ".join(map(repr, _RESERVED))
            raise RecipeError(
                f"{reader.path}, [variants.{name}]: use lower-case letters, digits, - and _, and none of {reserved}"
            )
    return {
        name: reader.validate(TransferSpec, f"variants.{name}", {**common, **reader.table(f"variants.{name}")})
        for name in names
    }


def _problems(recipe: _CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Position in the file and the mistake there."""
    yield from _names(recipe)
    if recipe.phase2.freeze != "none":
        yield "[phase2], field 'freeze'", f"phase 2 trains everything (it is {recipe.phase2.freeze!r}); remove it"
    for name, control in recipe.control.items():
        yield from ((f"[control.{name}]", problem) for problem in _control(control, recipe.views))
    yield from _english(recipe)
    yield from _lengths(recipe)
    for name, variant in recipe.variants.items():
        if variant.itl and isinstance(_shape_of_source(recipe), ModernConfig):
            yield (
                f"[variants.{name}], field 'itl'",
                "a modern encoder takes no translation layers; set itl = false in [transfer]",
            )


def _names(recipe: _CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Models and variants that tables speak of."""
    known = [*recipe.models, "source"]
    for name, benchmark in recipe.finetune.items():
        for model in benchmark.grid.models:
            if model not in known:
                there = f"no model {model!r}{nearest(model, known)}; there are {', '.join(known)}"
                yield f"[finetune.{name}], field 'models'", there
    for variant in recipe.language_loss.variants:
        if variant not in recipe.variants:
            yield "[language_loss], field 'variants'", f"no variant {variant!r}{nearest(variant, recipe.variants)}"


def _control(control: PretrainSpec, views: views.ViewsSpec) -> Iterator[str]:
    """Check the noise and the export formats for a model from scratch."""
    if control.long is not None:
        yield "field 'long': these recipes have rows of one length; remove it"
    if control.objective == "rtd" and views.word_order.portion:
        yield "objective = 'rtd' restores masked tokens only, but [views] word_order moves some; set its portion = 0"
    if control.sop_weight and views.sentence_task == "none":
        yield f"sop_weight = {control.sop_weight}, but [views] sentence_task = 'none' swaps nothing; set sop_weight = 0"
    if control.wop_weight and not views.word_order.portion:
        yield f"wop_weight = {control.wop_weight}, but [views] word_order moves nothing; set wop_weight = 0"
    try:
        checkpoint.settings(
            control.config_for(vocab_size=8, sequence_length=1), export.SPECIAL_IDS
        )  # No format minds these sizes.
    except ValueError as error:
        yield f"field 'model': it could not be exported: {error}"


def _english(recipe: _CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Check the curve over snapshots and the English benchmarks against each other and the rest."""
    table = recipe.language_loss
    if table != type(table)() and not recipe.english:
        yield "[language_loss]", "there is no benchmark to see it by; add one as [english.NAME], or remove the table"
    for name, benchmark in recipe.english.items():
        if name in recipe.finetune:
            yield f"[english.{name}]", f"[finetune.{name}] has this name too; give one of them another, and name its task"
        for seed in table.curve_seeds:
            if seed not in benchmark.grid.seeds:
                there = f"[english.{name}] has no seed {seed}; it has {', '.join(map(str, benchmark.grid.seeds))}"
                yield "[language_loss], field 'curve_seeds'", there
    if table.curve_seeds and not (recipe.phase1.snapshots or recipe.phase2.snapshots):
        yield "[language_loss]", "curve_seeds want snapshots; name steps in snapshots of [phase1] or [phase2]"


def _lengths(recipe: _CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Check that every model has positions for its inputs."""
    controls = {f"control/{name}": control.model.longest_sequence for name, control in recipe.control.items()}
    try:
        source = _positions_of_source(recipe)
    except ValueError as error:
        yield "[source], field 'path'", str(error)
        return
    models = {**dict.fromkeys(("source", *recipe.models), source), **controls}
    rows = recipe.examples.sequence_length
    for model, positions in models.items():
        if positions is not None and rows > positions:
            owner = "the source" if model not in controls else f"[{model.replace('/', '.')}.model]"
            yield "[examples], field 'sequence_length'", f"{rows} exceeds the {positions} positions of {owner}; lower it"
    benchmarks = [(f"[finetune.{name}]", b.first, b.grid.models or recipe.models) for name, b in recipe.finetune.items()]
    benchmarks += [(f"[english.{name}]", b.first, ("source",)) for name, b in recipe.english.items()]
    for where, cell, measured in benchmarks:
        for problem in too_long(cell, {model: models[model] for model in measured if model in models}):
            yield f"{where}, field 'max_length'", problem


def _positions_of_source(recipe: _CrossLingualRecipe) -> int | None:
    """Positions that tokens of the source can take; None where it is in a package, which may be installed elsewhere only."""
    if recipe.source.recipe is not None:
        return recipe.source.recipe.pretrain.model.longest_sequence
    path = recipe.source.place.path
    return None if path is None else checkpoint.read_config(path.path).longest_sequence


def _shape(recipe: _CrossLingualRecipe, model: str) -> AnyConfig | None:
    """The shape of a variant after a phase, or of a control; None where its source's is not known here."""
    name, _, rest = model.partition("/")
    if name == "control":
        return recipe.control[rest].shape
    source = _shape_of_source(recipe)
    # From an export that does not say which layers share weights, a transfer takes each layer separately.
    if source is None or checkpoint.repeats_blocks(source):
        return None
    return target_config(source, recipe.variants[name], vocab_size=ANY_VOCABULARY)


def _shape_of_source(recipe: _CrossLingualRecipe) -> AnyConfig | None:
    """None where it is not known here."""
    if recipe.source.recipe is not None:
        return recipe.source.recipe.pretrain.shape
    with suppress(ValueError):  # The stage that reads it from its package reports the fault.
        directory = recipe.source.place.directory()
        return None if directory is None else checkpoint.read_config(directory)
    return None


def transfer_graph(recipe: _CrossLingualRecipe) -> dict[str, Node]:
    """The DAG of a post-training by label, every stage after those it reads.

    ``source`` (below it ``source/…``, where it is another recipe's model), ``split/PART``, ``transfer/VARIANT``,
    ``phase1/VARIANT``, ``phase2/VARIANT``, ``control/NAME``; of every model ``intrinsic/MODEL``, ``export/MODEL``,
    ``english/MODEL`` (its source's vocabulary put back), ``features/MODEL/BENCHMARK`` and
    ``finetune/MODEL/BENCHMARK/pretrained/SEED``; of every benchmark ``summary/BENCHMARK``. A MODEL is ``VARIANT/PHASE``,
    ``control/NAME`` or ``source``; a snapshot is ``VARIANT/PHASE/STEP``. On English benchmarks it is named
    ``language_loss/{ko,en}/MODEL``, by whose vocabulary it has.
    """
    return _Graph(recipe).nodes.by_label


class _Graph:
    def __init__(self, recipe: _CrossLingualRecipe) -> None:
        self.recipe, self.nodes = recipe, Nodes()
        self.source = add_model(self.nodes, "source", source.STAGE, recipe.source)
        self.data, self.test = self._data(add_corpus(self.nodes, recipe))
        self.weights: dict[str, str] = {}
        made = recipe.source.recipe
        self.models = {
            "source": Measured.of(self.source, "source/pretrain", made.pretrain.shape if made else None, recipe.source.place)
        }
        """Measured models, by name."""
        self._train()
        for model, weights in self.weights.items():
            scored = {"pretrain": weights, **self.test}
            self.nodes.add(f"intrinsic/{model}", intrinsic.STAGE, intrinsic.IntrinsicSpec(), **scored)
            written = self.nodes.add(f"export/{model}", export.STAGE, recipe.export, pretrain=weights, vocab=self.data["vocab"])
            self.models[model] = Measured.of(written, weights, _shape(recipe, model))
        add = self.nodes.add
        for name, benchmark in recipe.finetune.items():
            models = {model: self.models[model] for model in benchmark.grid.models or recipe.models}
            add_summary(add, name, benchmark, add_benchmark_of_encoders(add, name, benchmark, models))
        self._language_loss()
        self.nodes.add("report", registry.CROSS_LINGUAL, recipe.report, **{label: label for label in self.nodes.by_label})

    def _data(self, corpus: str) -> tuple[dict[str, str], dict[str, str]]:
        """Inputs of training, with the valid part held out; and the test data at the end."""
        recipe, table, add = self.recipe, self.recipe.split, self.nodes.add
        train_spec = table.part("train", train_sentences=table.train_sentences)
        train = add("split/train", split.STAGE, train_spec, documents=corpus)
        valid = add("split/valid", split.STAGE, table.part("valid"), documents=corpus)
        test = add("split/test", split.STAGE, table.part("test"), documents=corpus)
        learnt_from = train
        if table.vocabulary_sentences not in (None, table.train_sentences):
            spec = table.part("train", train_sentences=table.vocabulary_sentences)
            learnt_from = add("split/vocabulary", split.STAGE, spec, documents=corpus)
        words = add("vocab", vocab.STAGE, recipe.vocab, documents=learnt_from)
        rows = add("examples", packing.STAGE, recipe.examples, documents=train, heldout=valid, vocab=words)
        noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=words)
        # Rows want something to train on: here the valid part, which nobody reads.
        test_rows = add("examples/test", packing.STAGE, recipe.examples, documents=valid, heldout=test, vocab=words)
        one_view = recipe.views.model_copy(update={"views": 1})
        test_noise = add("views/test", views.STAGE, one_view, examples=test_rows, vocab=words)
        return {"vocab": words, "examples": rows, "views": noise}, {"examples": test_rows, "views": test_noise}

    def _train(self) -> None:
        recipe, add = self.recipe, self.nodes.add
        for name, spec in recipe.variants.items():
            weights = add(f"transfer/{name}", transfer.STAGE, spec, source=self.source, vocab=self.data["vocab"])
            for phase, phase_spec in self._phases():
                weights = add(f"{phase}/{name}", phases.STAGE, phase_spec, initial=weights, **self.data)
                self.weights[f"{name}/{phase}"] = weights
        for name, control in recipe.control.items():
            begun = {}
            if control.embeddings == "cooccurrence":
                vectors = cooccurrence.CooccurrenceSpec().of_width(control.shape.embedding_size)
                begun["cooccurrence"] = add(f"cooccurrence/{name}", cooccurrence.STAGE, vectors, examples=self.data["examples"])
            self.weights[f"control/{name}"] = add(f"control/{name}", pretrain.STAGE, control, **self.data, **begun)

    def _language_loss(self) -> None:
        """The matrix {source, vocab-ko, vocab-en} × variants × phases, compared in summaries, and the curve over snapshots."""
        add, curve_seeds = self.nodes.add, self.recipe.language_loss.curve_seeds
        for name, benchmark in self.recipe.english.items():
            finished = add_benchmark_of_encoders(add, name, benchmark, dict(self._matrix()))
            add_summary(add, name, benchmark, finished)
            if curve := benchmark.only(seeds=curve_seeds):
                add_benchmark_of_encoders(add, name, curve, dict(self._snapshots()))

    def _matrix(self) -> Iterator[tuple[str, Measured]]:
        """The models that read English, by name."""
        table = self.recipe.language_loss
        if table.source:
            yield "language_loss/en/source", self.models["source"]
        for variant, phase, words in product(self._variants(), table.phases, table.vocabularies):
            model = f"{variant}/{phase}"
            yield f"language_loss/{words}/{model}", self.models[model] if words == "ko" else self._english(model, None)

    def _snapshots(self) -> Iterator[tuple[str, Measured]]:
        """The models along the way, with their source's vocabulary put back, by name."""
        for variant, (phase, spec) in product(self._variants(), self._phases()):
            for step in spec.snapshots:
                yield f"language_loss/en/{variant}/{phase}/{step}", self._english(f"{variant}/{phase}", step)

    def _variants(self) -> Sequence[str]:
        return self.recipe.language_loss.variants or tuple(self.recipe.variants)

    def _phases(self) -> list[tuple[Phase, PhaseSpec]]:
        return list(zip(PHASES, (self.recipe.phase1, self.recipe.phase2), strict=True))

    def _english(self, model: str, step: int | None) -> Measured:
        label = f"english/{model}" if step is None else f"english/{model}/{step}"
        if label not in self.nodes.by_label:
            spec = vocabulary_swap.SwapSpec(snapshot=step)
            self.nodes.add(label, vocabulary_swap.STAGE, spec, source=self.source, model=self.weights[model])
        return self.models[model]._replace(model=label)
