"""The graphs of stages of recipes; the first is that of a model. Those of ablations are in ``grid``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.corpus import balance, extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.crawl import fetch
from korealbert.corpus.crawl import stage as crawl
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.dedup.evaluation_files import input_role
from korealbert.corpus.quality import stage as quality
from korealbert.documents.benchmark_files import RemoteFile
from korealbert.examples import packing, views
from korealbert.finetune.encoders import speed as speed_stage
from korealbert.finetune.encoders import stage as encoder_stage
from korealbert.finetune.encoders.speed import SpeedSpec
from korealbert.huggingface import export
from korealbert.huggingface.directory import ModelPlace
from korealbert.pretrain import cooccurrence, intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import registry
from korealbert.recipe.benchmarks import (
    Benchmark,
    Measured,
    add_benchmark,
    add_benchmark_of_encoders,
    add_file,
    add_summary,
    published_scores,
)
from korealbert.recipe.nodes import Node, Nodes, until
from korealbert.recipe.retrieval import add_retrieval
from korealbert.recipe.specs import Corpus, CorpusRecipe, CrossLingualRecipe, Evaluation, Model, Recipe
from korealbert.recipe.tables import RecipeError
from korealbert.report import stage as report
from korealbert.vocab import sizes
from korealbert.vocab import stage as vocab
from korealbert.xpt import kept_tokenizer, phases, split, transfer, vocabulary_swap
from korealbert.xpt import source as xpt_source
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PHASES, Phase, PhaseSpec


def graph(recipe: Recipe) -> dict[str, Node]:
    """Return the DAG of a recipe by label, every stage after its inputs."""
    nodes = Nodes()
    add = nodes.add
    corpus = _add_corpus(nodes, recipe)
    vocabulary = _add_vocabulary(nodes, corpus, recipe.vocab, recipe.vocab_sizes)
    rows = add("examples", packing.STAGE, recipe.examples, documents=corpus, vocab=vocabulary)
    noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=vocabulary)
    training = {"vocab": vocabulary, "examples": rows, "views": noise}
    if recipe.pretrain.embeddings == "cooccurrence":
        training["cooccurrence"] = add("cooccurrence", cooccurrence.STAGE, recipe.cooccurrence, examples=rows)
    if recipe.examples_long is not None and recipe.views_long is not None:
        rows = add("examples/long", packing.STAGE, recipe.examples_long, documents=corpus, vocab=vocabulary)
        noise = add("views/long", views.STAGE, recipe.views_long, examples=rows, vocab=vocabulary)
        training |= {"examples_long": rows, "views_long": noise}
    weights = add("pretrain", pretrain.STAGE, recipe.pretrain, **training)
    written = add("export", export.STAGE, recipe.export, pretrain=weights, vocab=vocabulary)
    model = Measured.of(written, weights, recipe.pretrain.shape)
    others = _add_encoders(nodes, recipe.encoder)
    for name, benchmark in recipe.finetune.items():
        finished = add_benchmark(nodes, name, benchmark, model)
        if (pretrained := benchmark.only(inits=["pretrained"])) is not None:
            finished |= add_benchmark_of_encoders(nodes, name, pretrained, others)
        add_summary(nodes, name, benchmark, finished)
    add_retrieval(nodes, recipe.retrieval, model, others)
    _add_further(nodes, recipe.further)
    _add_report(nodes, recipe.speed, recipe.report, recipe.finetune)
    return nodes.by_label


def corpus_graph(recipe: Corpus) -> dict[str, Node]:
    """Return the DAG of a corpus alone by label, every stage after its inputs."""
    nodes = Nodes()
    corpus = _add_corpus(nodes, recipe)
    if recipe.vocab is not None:
        _add_vocabulary(nodes, corpus, recipe.vocab, recipe.vocab_sizes)
    _add_further(nodes, recipe.further)
    nodes.add("report", registry.REPORT, recipe.report, **{label: label for label in nodes.by_label})
    return nodes.by_label


def _add_vocabulary(nodes: Nodes, corpus: str, spec: vocab.VocabSpec, compared: sizes.VocabSizesSpec) -> str:
    vocabulary = nodes.add("vocab", vocab.STAGE, spec, documents=corpus)
    if compared.sizes:
        nodes.add("vocab_sizes", sizes.STAGE, compared, documents=corpus, vocab=vocabulary)
    return vocabulary


def evaluation_graph(recipe: Evaluation) -> dict[str, Node]:
    """Return the DAG of an evaluation by label, every stage after its inputs."""
    nodes = Nodes()
    encoders = _add_encoders(nodes, recipe.encoder)
    for name, benchmark in recipe.finetune.items():
        add_summary(nodes, name, benchmark, add_benchmark_of_encoders(nodes, name, benchmark, encoders))
    add_retrieval(nodes, recipe.retrieval, None, encoders)
    _add_report(nodes, recipe.speed, recipe.report, recipe.finetune)
    return nodes.by_label


def _add_corpus(nodes: Nodes, recipe: CorpusRecipe) -> str:
    """Add the stages from raw text to one balanced corpus; return the label of the last."""
    cleaned = {}
    for source, spec in recipe.extract.items():
        inputs = {}
        if source in recipe.crawl:
            inputs["crawl"] = nodes.add(f"crawl/{source}", crawl.STAGE, recipe.crawl[source])
        if source in recipe.fetch:
            inputs["fetch"] = nodes.add(f"fetch/{source}", fetch.STAGE, recipe.fetch[source])
        documents = nodes.add(f"extract/{source}", extract.STAGE, spec, **inputs)
        cleaned[source] = nodes.add(f"clean/{source}", clean.STAGE, recipe.clean[source], documents=documents)
    fetched = {
        input_role(number): add_file(nodes, f"decontaminate/{one.name}", one.path)
        for number, one in enumerate(recipe.dedup.decontaminate)
        if isinstance(one.path, RemoteFile)
    }
    unique = nodes.add("dedup", dedup.STAGE, recipe.dedup, **cleaned, **fetched)
    if recipe.quality is not None:
        unique = nodes.add("quality", quality.STAGE, recipe.quality, documents=unique)
    return nodes.add("balance", balance.STAGE, recipe.balance, documents=unique)


def _add_encoders(nodes: Nodes, encoders: Mapping[str, Model]) -> dict[str, Measured]:
    """Add the stages that check encoders made elsewhere; return their labels by name."""
    found = {}
    for name, model in encoders.items():
        found[name] = measured = _measured(f"encoder/{name}", model)
        _add_model(nodes, measured.model, encoder_stage.STAGE, model, pretrain=measured.pretrain)
    return found


def _measured(label: str, model: Model) -> Measured:
    """Return the labels of a model whose stage has this label."""
    produced = model.produced
    return Measured.of(
        label, f"{label}/{produced.training if produced else ''}", produced.shape if produced else None, model.place
    )


def _add_model(nodes: Nodes, label: str, stage: Stage[ModelPlace], model: Model, *, pretrain: str | None = None) -> str:
    """Add the stage that checks a model, and below its label the stages of the recipe that makes it; return the label.

    ``pretrain`` is the label of the one of those stages that becomes a second input.
    """
    inputs = {} if pretrain is None else {"pretrain": pretrain}
    if model.recipe is not None and model.produced is not None:
        whole = graph(model.recipe) if isinstance(model.recipe, Recipe) else transfer_graph(model.recipe)
        for name, node in until(whole, model.produced.export).items():
            read = {role: f"{label}/{other}" for role, other in node.inputs.items()}
            inputs["model"] = nodes.add(f"{label}/{name}", node.stage, node.spec, **read)
    return nodes.add(label, stage, model.place, **inputs)


def _add_further(nodes: Nodes, further: Mapping[str, Spec]) -> None:
    """Add registered stages that this file does not name, given by table, with the inputs that they declare.

    Raises RecipeError if the recipe does not make one of these inputs.
    """
    for table, spec in further.items():
        stage = registry.tables()[table]
        for label in stage.inputs.values():
            if label not in nodes.by_label:
                raise RecipeError(f"[{table}]: it reads {label!r}, which this recipe does not make; remove the table")
        nodes.add(stage.label, stage, spec, **stage.inputs)


def _add_report(nodes: Nodes, speed: SpeedSpec, spec: report.ReportSpec, benchmarks: Mapping[str, Benchmark[Any]]) -> None:
    """Add the report of all stages, and the speed of architectures if any are named."""
    spec = spec.model_copy(update={"published_scores": (*spec.published_scores, *published_scores(benchmarks))})
    if speed.architectures:
        nodes.add("speed", speed_stage.STAGE, speed)
    nodes.add("report", registry.REPORT, spec, **{label: label for label in nodes.by_label})


def transfer_graph(recipe: CrossLingualRecipe) -> dict[str, Node]:
    """Return the DAG of a post-training by label, every stage after its inputs.

    Its labels are ``source`` (with ``source/…`` if another recipe makes it), ``split/PART``, ``transfer/VARIANT``,
    ``phase1/VARIANT``, ``phase2/VARIANT`` and ``control/NAME``; for each model ``intrinsic/MODEL``, ``export/MODEL``,
    ``english/MODEL`` (the model with the vocabulary of its source), ``features/MODEL/BENCHMARK`` and
    ``finetune/MODEL/BENCHMARK/pretrained/SEED``; for each benchmark ``summary/BENCHMARK``. A MODEL is ``VARIANT/PHASE``,
    ``control/NAME``, ``encoder/NAME`` or ``source``, a snapshot ``VARIANT/PHASE/STEP``. On English benchmarks its name is
    ``language_loss/ko/MODEL`` or, with the vocabulary of its source, ``language_loss/en/MODEL``.
    """
    return _TransferGraph(recipe).nodes.by_label


class _TransferGraph:
    def __init__(self, recipe: CrossLingualRecipe) -> None:
        self.recipe, self.nodes = recipe, Nodes()
        self.source = _add_model(self.nodes, "source", xpt_source.STAGE, recipe.source)
        self.data, self.test = self._data(_add_corpus(self.nodes, recipe))
        self.weights: dict[str, str] = {}
        self.models = {"source": _measured(self.source, recipe.source)}
        """Measured models, by name."""
        self._train()
        for model, weights in self.weights.items():
            scored = {"pretrain": weights, **self.test}
            self.nodes.add(f"intrinsic/{model}", intrinsic.STAGE, intrinsic.IntrinsicSpec(), **scored)
            spec = recipe.export if model.startswith("control/") else recipe.export_of_variants
            written = self.nodes.add(f"export/{model}", export.STAGE, spec, pretrain=weights, vocab=self.data["vocab"])
            self.models[model] = Measured.of(written, weights, recipe.produced(model).shape)
        self.models |= {measured.model: measured for measured in _add_encoders(self.nodes, recipe.encoder).values()}
        for name, benchmark in recipe.finetune.items():
            models = {model: self.models[model] for model in benchmark.grid.models or recipe.models}
            add_summary(self.nodes, name, benchmark, add_benchmark_of_encoders(self.nodes, name, benchmark, models))
        self._language_loss()
        self.nodes.add("report", registry.CROSS_LINGUAL, recipe.report, **{label: label for label in self.nodes.by_label})

    def _data(self, corpus: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the inputs of training, with the valid part held out, and the test data."""
        recipe, table, add = self.recipe, self.recipe.split, self.nodes.add
        train_spec = table.part("train", train_sentences=table.train_sentences)
        train = add("split/train", split.STAGE, train_spec, documents=corpus)
        valid = add("split/valid", split.STAGE, table.part("valid"), documents=corpus)
        test = add("split/test", split.STAGE, table.part("test"), documents=corpus)
        learnt_from = train
        if table.vocabulary_sentences not in (None, table.train_sentences):
            spec = table.part("train", train_sentences=table.vocabulary_sentences)
            learnt_from = add("split/vocabulary", split.STAGE, spec, documents=corpus)
        if isinstance(recipe.vocab, TokenizerSpec):
            words = add("vocab", kept_tokenizer.STAGE, recipe.vocab, source=self.source, documents=train)
        else:
            words = add("vocab", vocab.STAGE, recipe.vocab, documents=learnt_from)
        rows = add("examples", packing.STAGE, recipe.examples, documents=train, heldout=valid, vocab=words)
        noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=words)
        # The stage needs rows to train on. These, of the valid part, are never used.
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
            initial = {}
            if control.embeddings == "cooccurrence":
                vectors = cooccurrence.CooccurrenceSpec().of_width(control.shape.embedding_size)
                initial["cooccurrence"] = add(
                    f"cooccurrence/{name}", cooccurrence.STAGE, vectors, examples=self.data["examples"]
                )
            self.weights[f"control/{name}"] = add(f"control/{name}", pretrain.STAGE, control, **self.data, **initial)

    def _language_loss(self) -> None:
        """Add the matrix {source, vocab-ko, vocab-en} × variants × phases with its summaries, and the curve over snapshots."""
        curve_seeds = self.recipe.language_loss.curve_seeds
        for name, benchmark in self.recipe.english.items():
            finished = add_benchmark_of_encoders(self.nodes, name, benchmark, dict(self._matrix()))
            add_summary(self.nodes, name, benchmark, finished)
            if curve := benchmark.only(seeds=curve_seeds):
                add_benchmark_of_encoders(self.nodes, name, curve, dict(self._snapshots()))

    def _matrix(self) -> Iterator[tuple[str, Measured]]:
        """Yield the models of the matrix by name."""
        table = self.recipe.language_loss
        if table.source:
            yield "language_loss/en/source", self.models["source"]
        for variant, phase, words in product(self._variants(), table.phases, table.vocabularies):
            model = f"{variant}/{phase}"
            yield f"language_loss/{words}/{model}", self.models[model] if words == "ko" else self._english(model, None)

    def _snapshots(self) -> Iterator[tuple[str, Measured]]:
        """Yield the snapshots, each with the vocabulary of its source, by name."""
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
