"""The graph that a recipe's stages form, and the parts of it that names mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.corpus import balance, extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.crawl import fetch
from korealbert.corpus.crawl import stage as crawl
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality import stage as quality
from korealbert.examples import packing, views
from korealbert.finetune import encoder_files
from korealbert.finetune import speed as speed_stage
from korealbert.finetune.speed import SpeedSpec
from korealbert.formatting import nearest
from korealbert.huggingface import export
from korealbert.huggingface.directory import ModelPlace
from korealbert.pretrain import cooccurrence
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import registry
from korealbert.recipe.benchmarks import (
    Benchmark,
    Measured,
    add_benchmark,
    add_benchmark_of_encoders,
    add_summary,
    published_scores,
)
from korealbert.recipe.reading import Corpus, CorpusRecipe, Evaluation, Model, Recipe
from korealbert.recipe.retrieval import add_retrieval
from korealbert.recipe.tables import RecipeError
from korealbert.report import stage as report
from korealbert.vocab import sizes
from korealbert.vocab import stage as vocab


@dataclass(frozen=True)
class Node:
    """One stage of a recipe's graph."""

    label: str
    """The stage's name within the recipe: ``extract/news``, ``vocab``, ``finetune/nsmc/random/2``."""
    stage: Stage[Any]
    spec: Spec
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Labels of the stages it reads, by role."""


def graph(recipe: Recipe) -> dict[str, Node]:
    """The DAG of a recipe by label, every stage after those it reads."""
    nodes = Nodes()
    add = nodes.add
    corpus = add_corpus(nodes, recipe)
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
        finished = add_benchmark(add, name, benchmark, model)
        if (pretrained := benchmark.only(init="pretrained")) is not None:
            finished |= add_benchmark_of_encoders(add, name, pretrained, others)
        add_summary(add, name, benchmark, finished)
    add_retrieval(add, recipe.retrieval, model.model, others)
    for table, spec in recipe.further.items():
        add_further(nodes, registry.tables()[table], spec)
    _add_report(nodes, recipe.speed, recipe.report, recipe.finetune)
    return nodes.by_label


def corpus_graph(recipe: Corpus) -> dict[str, Node]:
    """The DAG of a corpus alone by label, every stage after those it reads."""
    nodes = Nodes()
    corpus = add_corpus(nodes, recipe)
    if recipe.vocab is not None:
        _add_vocabulary(nodes, corpus, recipe.vocab, recipe.vocab_sizes)
    nodes.add("report", registry.REPORT, recipe.report, **{label: label for label in nodes.by_label})
    return nodes.by_label


def _add_vocabulary(nodes: Nodes, corpus: str, spec: vocab.VocabSpec, compared: sizes.VocabSizesSpec) -> str:
    vocabulary = nodes.add("vocab", vocab.STAGE, spec, documents=corpus)
    if compared.sizes:
        nodes.add("vocab_sizes", sizes.STAGE, compared, documents=corpus, vocab=vocabulary)
    return vocabulary


def evaluation_graph(recipe: Evaluation) -> dict[str, Node]:
    """The DAG of an evaluation by label, every stage after those it reads."""
    nodes = Nodes()
    encoders = _add_encoders(nodes, recipe.encoder)
    for name, benchmark in recipe.finetune.items():
        add_summary(nodes.add, name, benchmark, add_benchmark_of_encoders(nodes.add, name, benchmark, encoders))
    add_retrieval(nodes.add, recipe.retrieval, None, encoders)
    _add_report(nodes, recipe.speed, recipe.report, recipe.finetune)
    return nodes.by_label


class Nodes:
    """A graph that is being made, every stage after those it reads."""

    def __init__(self) -> None:
        self.by_label: dict[str, Node] = {}

    def add(self, label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        """Add one stage with the labels of its inputs by role; returns its label."""
        self.by_label[label] = Node(label, stage, spec, inputs)
        return label


def add_corpus(nodes: Nodes, recipe: CorpusRecipe) -> str:
    """Add the stages from raw text to one balanced corpus; returns the label of the last."""
    cleaned = {}
    for source, spec in recipe.extract.items():
        brought = {}
        if source in recipe.crawl:
            brought["crawl"] = nodes.add(f"crawl/{source}", crawl.STAGE, recipe.crawl[source])
        if source in recipe.fetch:
            brought["fetch"] = nodes.add(f"fetch/{source}", fetch.STAGE, recipe.fetch[source])
        documents = nodes.add(f"extract/{source}", extract.STAGE, spec, **brought)
        cleaned[source] = nodes.add(f"clean/{source}", clean.STAGE, recipe.clean[source], documents=documents)
    unique = nodes.add("dedup", dedup.STAGE, recipe.dedup, **cleaned)
    if recipe.quality is not None:
        unique = nodes.add("quality", quality.STAGE, recipe.quality, documents=unique)
    return nodes.add("balance", balance.STAGE, recipe.balance, documents=unique)


def _add_encoders(nodes: Nodes, encoders: Mapping[str, Model]) -> dict[str, Measured]:
    """Add the stages that check others' encoders; their labels by name."""
    found = {}
    for name, model in encoders.items():
        label = f"encoder/{name}"
        measured = Measured.of(label, f"{label}/pretrain", model.recipe.pretrain.shape if model.recipe else None, model.place)
        found[name] = measured
        add_model(nodes, label, encoder_files.STAGE, model, pretrain=measured.pretrain)
    return found


def add_model(nodes: Nodes, label: str, stage: Stage[ModelPlace], model: Model, *, pretrain: str | None = None) -> str:
    """Add the stage that checks a model, and below its label the stages of the recipe that makes it; returns the label.

    ``pretrain``: the label of one of those, which the stage reads too.
    """
    made = {} if pretrain is None else {"pretrain": pretrain}
    if model.recipe is not None:
        for name, node in until(graph(model.recipe), "export").items():
            inputs = {role: f"{label}/{other}" for role, other in node.inputs.items()}
            made["model"] = nodes.add(f"{label}/{name}", node.stage, node.spec, **inputs)
    return nodes.add(label, stage, model.place, **made)


def add_further(nodes: Nodes, stage: Stage[Any], spec: Spec) -> None:
    """Add a registered stage that this page does not name, from the inputs that it declares.

    Raises RecipeError where the recipe has none of the stages that it reads.
    """
    for label in stage.inputs.values():
        if label not in nodes.by_label:
            raise RecipeError(f"[{stage.table}]: it reads {label!r}, which this recipe does not make; remove the table")
    nodes.add(stage.label, stage, spec, **stage.inputs)


def _add_report(nodes: Nodes, speed: SpeedSpec, spec: report.ReportSpec, benchmarks: Mapping[str, Benchmark[Any]]) -> None:
    """Add the speed of architectures, where any are named, and the report of all that there is."""
    spec = spec.model_copy(update={"published_scores": (*spec.published_scores, *published_scores(benchmarks))})
    if speed.architectures:
        nodes.add("speed", speed_stage.STAGE, speed)
    nodes.add("report", registry.REPORT, spec, **{label: label for label in nodes.by_label})


def select(nodes: Mapping[str, Node], name: str, *, option: str) -> list[str]:
    """The labels that a name means: a label itself, or all labels below it (``clean`` means every ``clean/…``).

    Raises RecipeError with the nearest valid name when it means nothing; ``option`` is named in the message.
    """
    labels = [label for label in nodes if label == name or label.startswith(f"{name}/")]
    if not labels:
        known = sorted({*nodes, *(label.split("/")[0] for label in nodes)})
        raise RecipeError(f"{option}: the recipe has no stage {name!r}{nearest(name, known)}; stages: {', '.join(known)}")
    return labels


def onward(nodes: Mapping[str, Node], name: str) -> set[str]:
    """The labels that a name means, and those of all downstream stages. Raises RecipeError for an unknown name."""
    found = set(select(nodes, name, option="from"))
    for label, node in nodes.items():  # Inputs come before what reads them.
        if found & set(node.inputs.values()):
            found.add(label)
    return found


def until(nodes: Mapping[str, Node], target: str | None) -> dict[str, Node]:
    """The part of the graph that is needed to build ``target`` (all of it for None), in the same order.

    Raises RecipeError when ``target`` means nothing.
    """
    if target is None:
        return dict(nodes)
    needed: set[str] = set()
    frontier = select(nodes, target, option="until")
    while frontier:
        label = frontier.pop()
        if label not in needed:
            needed.add(label)
            frontier += nodes[label].inputs.values()
    return {label: node for label, node in nodes.items() if label in needed}
