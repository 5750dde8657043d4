"""The graph of an ablation, in which cells share equal stages, and other stages are named after their cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.examples import packing, views
from korealbert.huggingface import export
from korealbert.pretrain import intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import dag, registry
from korealbert.recipe.ablation import Ablation, key_of
from korealbert.recipe.benchmarks import Measured, add_benchmark, add_ensemble
from korealbert.recipe.nodes import Node, Nodes
from korealbert.recipe.tables import RecipeError


def ablation_graph(ablation: Ablation) -> dict[str, Node]:
    """Return the DAG of an ablation by label, every stage after its inputs. Raises RecipeError if two cells are equal.

    Stages before pretraining keep their labels if all cells have them in common (``vocab``); otherwise the name of the first
    cell that needs them is appended (``views/wop30``). Those of a cell are ``pretrain/CELL/SEED``,
    ``intrinsic/CELL/SEED/NOISE``, ``export/CELL/SEED``, ``features/CELL/SEED/BENCHMARK`` and
    ``finetune/CELL/SEED/BENCHMARK/pretrained/SEED``. Ensembles are ``ensemble/CELL/BENCHMARK``. The last stage is ``ablation``.
    """
    nodes = _Nodes()
    data = _data_stages(ablation, nodes)
    first = data[next(iter(ablation.cells))]
    noise = {
        name: nodes.add(f"views/noise-{name}", views.STAGE, recipe.views, examples=first["examples"], vocab=first["vocab"])
        for name, recipe in ablation.noise.items()
    }
    corpus = {label: label for label in nodes.by_label}
    benchmarks = {column.benchmark for column in ablation.report.columns}
    runs: dict[str, str] = {}
    of_key = {key_of(cell.label): cell for cell in ablation.spec.grid}
    asked = {key_of(label) for cell in ablation.spec.grid for label in cell.ensemble}
    answers: dict[tuple[str, str], dict[str, str]] = {}
    for cell, recipe in ablation.cells.items():
        for seed in ablation.spec.seeds:
            own = f"{cell}/{seed}"
            spec = recipe.pretrain.model_copy(update={"seed": seed})
            inputs = dict(data[cell])
            if of_key[cell].starts_from:
                inputs["initial"] = runs[f"pretrain/{key_of(of_key[cell].starts_from)}/{seed}"]
            runs[f"pretrain/{own}"] = weights = nodes.add(f"pretrain/{own}", pretrain.STAGE, spec, **inputs)
            for name, noised in noise.items():
                inputs = {"pretrain": weights, "examples": first["examples"], "views": noised}
                label = f"intrinsic/{own}/{name}"
                scored = intrinsic.IntrinsicSpec(
                    snapshot=recipe.export.snapshot, layers=ablation.spec.layers and name == next(iter(noise))
                )
                runs[label] = nodes.add(label, intrinsic.STAGE, scored, **inputs)
            chosen = {name: benchmark for name, benchmark in recipe.finetune.items() if name in benchmarks}
            # Pretrained weights are what an ablation compares.
            tuned = {name: some for name, benchmark in chosen.items() if (some := benchmark.only(init="pretrained"))}
            if tuned:
                inputs = {"pretrain": weights, "vocab": data[cell]["vocab"]}
                runs[f"export/{own}"] = written = nodes.add(f"export/{own}", export.STAGE, recipe.export, **inputs)
                model = Measured.of(written, weights, spec.shape)
                for name, benchmark in tuned.items():
                    kept = benchmark.with_evidence() if cell in asked else benchmark
                    made = add_benchmark(nodes.add, name, kept, model, root=f"{own}/")
                    runs |= {f"finetune/{own}/{name}/{each}": label for each, label in made.items()}
                    answers.setdefault((cell, name), {}).update({f"{own}/{each}": label for each, label in made.items()})
    for key, row in of_key.items():
        parts = [key_of(label) for label in row.ensemble]
        for name in sorted(benchmarks - {""}) if parts else ():
            benchmark, label = ablation.cells[parts[0]].finetune[name], f"ensemble/{key}/{name}"
            members = {role: made for part in parts for role, made in answers[part, name].items()}
            runs[label] = add_ensemble(nodes.add, label, name, benchmark, members, row.members)
    _refuse_twins(ablation, runs)
    nodes.add("ablation", registry.ABLATION, ablation.report, **corpus, **runs)
    return nodes.by_label


def _refuse_twins(ablation: Ablation, runs: Mapping[str, str]) -> None:
    """Raise RecipeError if two cells have all stages in common, so that their labels claim a difference that is not there."""
    known: dict[frozenset[str], str] = {}
    for cell in ablation.spec.grid:
        key = key_of(cell.label)
        built = frozenset(label for run, label in runs.items() if run.split("/")[1] == key)
        twin = known.setdefault(built, cell.label)
        if twin != cell.label:
            raise RecipeError(
                f"{ablation.name}: cells {twin!r} and {cell.label!r} are one training, scored alike: what they set makes no "
                "difference; correct `set`, or remove one"
            )


def _data_stages(ablation: Ablation, nodes: _Nodes) -> dict[str, dict[str, str]]:
    """Add all inputs of pretraining of every cell; return their labels by cell and role."""
    graphs = {cell: dag.graph(recipe) for cell, recipe in ablation.cells.items()}
    first = next(iter(graphs))

    def whose(cell: str, label: str) -> str:
        return first if label in ablation.spec.shared else cell

    @cache
    def content(cell: str, label: str) -> tuple[object, ...]:
        node = graphs[whose(cell, label)][label]
        inputs = tuple((role, content(whose(cell, label), other)) for role, other in node.inputs.items())
        return node.stage.name, node.spec.model_dump_json(), inputs

    @cache
    def place(cell: str, label: str) -> str:
        owner = whose(cell, label)
        node = graphs[owner][label]
        inputs = {role: place(owner, other) for role, other in node.inputs.items()}
        alike = all(label in graph and content(each, label) == content(first, label) for each, graph in graphs.items())
        return nodes.add(label if alike else f"{label}/{owner}", node.stage, node.spec, **inputs)

    if ablation.noise and len({content(cell, graph["examples"].inputs["documents"]) for cell, graph in graphs.items()}) > 1:
        # All cells are scored on the held-out rows of the first one, so no cell may train on these documents.
        for graph in graphs.values():
            read = graph["pretrain"].inputs
            graph |= {read[role]: _without_rest(graph[read[role]]) for role in ("examples", "examples_long") if role in read}
    return {
        cell: {role: place(cell, label) for role, label in graph["pretrain"].inputs.items()} for cell, graph in graphs.items()
    }


def _without_rest(node: Node) -> Node:
    """Change a stage of rows so that no part of a held-out document is trained on."""
    assert isinstance(node.spec, packing.ExamplesSpec)
    return replace(node, spec=node.spec.model_copy(update={"heldout_rest": "unused"})) if node.spec.heldout_share else node


class _Nodes(Nodes):
    """Merges the nodes of many graphs, equal ones as one."""

    def __init__(self) -> None:
        super().__init__()
        self._labels: dict[tuple[object, ...], str] = {}

    def add(self, label: str, stage: Stage[Any], spec: Spec, /, **inputs: str) -> str:
        """Add a stage unless there is one with its spec and inputs; return the label of either."""
        content = (stage.name, spec.model_dump_json(), *inputs.items())
        if content not in self._labels:
            self._labels[content] = super().add(label, stage, spec, **inputs)
        return self._labels[content]
