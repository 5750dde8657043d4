"""The graph that a recipe's stages form, and the parts of it that names mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.corpus import balance, clean, dedup, extract, fetch
from korealbert.corpus.crawl import stage as crawl
from korealbert.examples import packing, views
from korealbert.export import stage as export
from korealbert.finetune import stage as finetune
from korealbert.pretrain import stage as pretrain
from korealbert.recipe.reading import Recipe, RecipeError, nearest
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
    """The DAG of a recipe by label, every stage after those it reads; up to the views where it does not say how to pretrain."""
    nodes: dict[str, Node] = {}

    def add(label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        nodes[label] = Node(label, stage, spec, inputs)
        return label

    cleaned = {}
    for source, spec in recipe.extract.items():
        brought = {}
        if source in recipe.crawl:
            brought["crawl"] = add(f"crawl/{source}", crawl.STAGE, recipe.crawl[source])
        if source in recipe.fetch:
            brought["fetch"] = add(f"fetch/{source}", fetch.STAGE, recipe.fetch[source])
        documents = add(f"extract/{source}", extract.STAGE, spec, **brought)
        cleaned[source] = add(f"clean/{source}", clean.STAGE, recipe.clean[source], documents=documents)
    unique = add("dedup", dedup.STAGE, recipe.dedup, **cleaned)
    corpus = add("balance", balance.STAGE, recipe.balance, documents=unique)
    vocabulary = add("vocab", vocab.STAGE, recipe.vocab, documents=corpus)
    if recipe.vocab_sizes.sizes:
        add("vocab_sizes", sizes.STAGE, recipe.vocab_sizes, documents=corpus, vocab=vocabulary)
    rows = add("examples", packing.STAGE, recipe.examples, documents=corpus, vocab=vocabulary)
    noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=vocabulary)
    if recipe.pretrain is None:
        return nodes
    weights = add("pretrain", pretrain.STAGE, recipe.pretrain, vocab=vocabulary, examples=rows, views=noise)
    model = add("export", export.STAGE, recipe.export, pretrain=weights, vocab=vocabulary)
    for cell, cell_spec in recipe.finetune.items():
        add(f"finetune/{cell}", finetune.STAGE, cell_spec, model=model)
    add("report", report.STAGE, recipe.report, **{label: label for label in nodes})
    return nodes


def select(nodes: Mapping[str, Node], name: str, *, option: str) -> list[str]:
    """The labels that a name means: a label itself, or all labels below it (``clean`` means every ``clean/…``).

    Raises RecipeError with the nearest valid name when it means nothing; ``option`` is named in the message.
    """
    labels = [label for label in nodes if label == name or label.startswith(f"{name}/")]
    if not labels:
        known = sorted({*nodes, *(label.split("/")[0] for label in nodes)})
        raise RecipeError(f"{option}: the recipe has no stage {name!r}{nearest(name, known)}; stages: {', '.join(known)}")
    return labels


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
