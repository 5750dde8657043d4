"""The graph of an ablation: those of its cells, in which equal stages are one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.examples import packing, views
from korealbert.huggingface import export
from korealbert.pretrain import intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import registry
from korealbert.recipe.ablation import Ablation, key_of
from korealbert.recipe.benchmarks import (
    Measured,
    add_benchmark,
    add_ensemble,
)
from korealbert.recipe.dag import graph
from korealbert.recipe.nodes import Node, Nodes
from korealbert.recipe.specs import Recipe
from korealbert.recipe.tables import RecipeError


def ablation_graph(ablation: Ablation) -> dict[str, Node]:
    """Return the DAG of an ablation by label, every stage after its inputs. Raises RecipeError if two cells are equal.

    Stages before pretraining keep their labels if all cells have them in common (``vocab``); otherwise the name of the first
    cell that needs them is appended (``views/wop30``). Those of a cell are ``pretrain/CELL/SEED``,
    ``intrinsic/CELL/SEED/NOISE``, ``export/CELL/SEED``, ``features/CELL/SEED/BENCHMARK`` and
    ``finetune/CELL/SEED/BENCHMARK/INIT/SEED``. Ensembles are ``ensemble/CELL/BENCHMARK``. The last stage is ``ablation``.
    """
    return _AblationGraph(ablation).nodes.by_label


class _AblationGraph:
    def __init__(self, ablation: Ablation) -> None:
        self.ablation, self.nodes = ablation, _UniqueNodes()
        self.data = _data_stages(ablation, self.nodes)
        """Labels of the inputs of pretraining, by cell and role."""
        self.first = self.data[next(iter(ablation.cells))]
        self._check_heldout()
        self.noises = {name: self._add_noise(name, recipe) for name, recipe in ablation.noise.items()}
        corpus = {label: label for label in self.nodes.by_label}
        self.rows = {key_of(cell.label): cell for cell in ablation.spec.grid}
        scored = [(column.benchmark, column.init) for column in ablation.report.columns if column.benchmark]
        self.inits = {name: {init for other, init in scored if other == name} for name, _ in scored}
        """Initial weights that the columns compare, by benchmark."""
        self.in_ensembles = {key_of(label) for row in self.rows.values() for label in row.ensemble}
        self.runs: dict[str, str] = {}
        """Labels of stages by the label that each would have if cells shared none."""
        self.tuned: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        """Labels of the pretrained fine-tuning runs of each cell and benchmark, by CELL/SEED/pretrained/SEED."""
        for cell, seed in product(ablation.cells, ablation.spec.seeds):
            weights = self._pretrain(cell, seed)
            self._score_heldout(cell, seed, weights)
            self._finetune(cell, seed, weights)
        for key in self.rows:
            self._add_ensembles(key)
        _refuse_twins(ablation, self.runs)
        self.nodes.add("ablation", registry.ABLATION, ablation.report, **corpus, **self.runs)

    def _check_heldout(self) -> None:
        """Raise RecipeError for a cell whose model cannot read the held-out rows of the first cell, on which all are scored."""
        recipes, noises = self.ablation.cells, self.ablation.noise.values()
        length = next(iter(recipes.values())).examples.sequence_length
        for cell, recipe in recipes.items() if noises else ():
            longest = recipe.pretrain.model.longest_sequence
            by_position = recipe.pretrain.wop_weight and recipe.pretrain.wop_target == "position"
            if by_position and any(noise.views.word_order.portion for noise in noises):
                longest = min(longest, (recipe.examples_long or recipe.examples).sequence_length)
            if length > longest:
                raise RecipeError(
                    f"{self.ablation.name}: [noise] scores all cells on the first one's held-out rows of {length} tokens, but "
                    f"the model of cell {cell!r} reads {longest}; put the cell with the shortest rows first"
                )

    def _add_noise(self, name: str, recipe: Recipe) -> str:
        rows, words = self.first["examples"], self.first["vocab"]
        return self.nodes.add(f"views/noise-{name}", views.STAGE, recipe.views, examples=rows, vocab=words)

    def _pretrain(self, cell: str, seed: int) -> str:
        """Add the training of a cell; return the label of its weights."""
        row, inputs = self.rows[cell], dict(self.data[cell])
        if row.starts_from:
            start = key_of(row.starts_from)
            if inputs["vocab"] != self.data[start]["vocab"]:
                raise RecipeError(
                    f"{self.ablation.name}: cell {row.label!r} starts from {row.starts_from!r}, whose vocabulary is another; "
                    "their word embeddings mean other pieces: add vocab to `shared`, or start from a cell of the same text"
                )
            inputs["initial"] = self.runs[f"pretrain/{start}/{seed}"]
        spec = self.ablation.cells[cell].pretrain.model_copy(update={"seed": seed})
        return self._run(f"pretrain/{cell}/{seed}", pretrain.STAGE, spec, **inputs)

    def _score_heldout(self, cell: str, seed: int, weights: str) -> None:
        """Score a training on the held-out rows under every noise. Layers are scored under the first noise alone."""
        snapshot = self.ablation.cells[cell].export.snapshot
        for index, (name, noise) in enumerate(self.noises.items()):
            spec = intrinsic.IntrinsicSpec(snapshot=snapshot, layers=self.ablation.spec.layers and index == 0)
            inputs = {"pretrain": weights, "examples": self.first["examples"], "views": noise}
            self._run(f"intrinsic/{cell}/{seed}/{name}", intrinsic.STAGE, spec, **inputs)

    def _finetune(self, cell: str, seed: int, weights: str) -> None:
        """Fine-tune a training on the benchmarks of the columns, and the first one of each cell also from random weights."""
        recipe, own = self.ablation.cells[cell], f"{cell}/{seed}"
        first = seed == self.ablation.spec.seeds[0]
        inits = {name: inits if first else inits - {"random"} for name, inits in self.inits.items()}
        measured = ((name, grid.only(inits=inits[name])) for name, grid in recipe.finetune.items() if name in inits)
        benchmarks = {name: benchmark for name, benchmark in measured if benchmark is not None}
        if not benchmarks:
            return
        written = self._run(f"export/{own}", export.STAGE, recipe.export, pretrain=weights, vocab=self.data[cell]["vocab"])
        model = Measured.of(written, weights, recipe.pretrain.shape)
        for name, benchmark in benchmarks.items():
            cells = benchmark.with_evidence() if cell in self.in_ensembles else benchmark
            for run, label in add_benchmark(self.nodes, name, cells, model, root=f"{own}/").items():
                self.runs[f"finetune/{own}/{name}/{run}"] = label
                if run.startswith("pretrained/"):
                    self.tuned[cell, name][f"{own}/{run}"] = label

    def _add_ensembles(self, key: str) -> None:
        """Add the ensemble of a row on every benchmark, if it is one."""
        row = self.rows[key]
        parts = [key_of(label) for label in row.ensemble]
        for name in sorted(self.inits) if parts else ():
            members = {role: label for part in parts for role, label in self.tuned[part, name].items()}
            benchmark, label = self.ablation.cells[parts[0]].finetune[name], f"ensemble/{key}/{name}"
            self.runs[label] = add_ensemble(self.nodes, label, name, benchmark, members, row.members)

    def _run(self, label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        """Add a stage of one cell; return its label, which is another cell's if the two stages are equal."""
        self.runs[label] = self.nodes.add(label, stage, spec, **inputs)
        return self.runs[label]


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


def _data_stages(ablation: Ablation, nodes: _UniqueNodes) -> dict[str, dict[str, str]]:
    """Add all inputs of pretraining of every cell; return their labels by cell and role."""
    graphs = {cell: graph(recipe) for cell, recipe in ablation.cells.items()}
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
        alike = all(label in own and content(each, label) == content(first, label) for each, own in graphs.items())
        return nodes.add(label if alike else f"{label}/{owner}", node.stage, node.spec, **inputs)

    if ablation.noise and len({content(cell, own["examples"].inputs["documents"]) for cell, own in graphs.items()}) > 1:
        # All cells are scored on the held-out rows of the first one, so no cell may train on these documents.
        for own in graphs.values():
            read = own["pretrain"].inputs
            own |= {read[role]: _without_rest(own[read[role]]) for role in ("examples", "examples_long") if role in read}
    return {cell: {role: place(cell, label) for role, label in own["pretrain"].inputs.items()} for cell, own in graphs.items()}


def _without_rest(node: Node) -> Node:
    """Change a stage of rows so that no part of a held-out document is trained on."""
    assert isinstance(node.spec, packing.ExamplesSpec)
    return replace(node, spec=node.spec.model_copy(update={"heldout_rest": "unused"})) if node.spec.heldout_share else node


class _UniqueNodes(Nodes):
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
