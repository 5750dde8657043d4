"""The graph of an ablation: what cells have in common is one stage, what differs has the name of its cell."""

from __future__ import annotations

from functools import cache
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.examples import views
from korealbert.huggingface import export
from korealbert.pretrain import intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import dag, finetuning
from korealbert.recipe.ablation import Ablation
from korealbert.recipe.dag import Node
from korealbert.report.ablation import stage as report


def grid(ablation: Ablation) -> dict[str, Node]:
    """The DAG of an ablation by label, every stage after those it reads.

    Stages before pretraining keep their labels where all cells agree on them (``vocab``); else they get the name of the first
    cell that needs them (``views/wop30``). What each cell adds is named by it and by the seed: ``pretrain/CELL/SEED``,
    ``intrinsic/CELL/SEED/NOISE``, ``export/CELL/SEED``, ``features/CELL/SEED/BENCHMARK`` and
    ``finetune/CELL/SEED/BENCHMARK/pretrained/SEED``. The last stage is ``ablation``.
    """
    nodes = _Nodes()
    data = _data_stages(ablation, nodes)
    first = data[next(iter(ablation.cells))]
    noise = {
        name: nodes.add(
            f"views/noise-{name}", Node("", views.STAGE, recipe.views, {role: first[role] for role in ("examples", "vocab")})
        )
        for name, recipe in ablation.noise.items()
    }
    corpus = {label: label for label in nodes.by_label}
    benchmarks = {column.benchmark for column in ablation.report.columns}
    runs: dict[str, str] = {}
    for cell, recipe in ablation.cells.items():
        for seed in ablation.spec.seeds:
            own = f"{cell}/{seed}"
            spec = recipe.pretrain.model_copy(update={"seed": seed})
            weights = nodes.add(f"pretrain/{own}", Node("", pretrain.STAGE, spec, data[cell]))
            runs[f"pretrain/{own}"] = weights
            for name, noised in noise.items():
                inputs = {"pretrain": weights, "examples": first["examples"], "views": noised}
                label = f"intrinsic/{own}/{name}"
                runs[label] = nodes.add(label, Node("", intrinsic.STAGE, intrinsic.IntrinsicSpec(), inputs))
            chosen = {name: benchmark for name, benchmark in recipe.finetune.items() if name in benchmarks}
            # Pretrained weights are what an ablation compares.
            tuned = {name: some for name, benchmark in chosen.items() if (some := benchmark.only(init="pretrained"))}
            if tuned:
                inputs = {"pretrain": weights, "vocab": data[cell]["vocab"]}
                model = nodes.add(f"export/{own}", Node("", export.STAGE, recipe.export, inputs))
                for name, benchmark in tuned.items():
                    made = finetuning.add_benchmark(nodes.add_stage, name, benchmark, model=model, root=f"{own}/")
                    runs |= {f"finetune/{own}/{name}/{each}": label for each, label in made.items()}
    nodes.add("ablation", Node("", report.STAGE, ablation.report, {**corpus, **runs}))
    return nodes.by_label


def _data_stages(ablation: Ablation, nodes: _Nodes) -> dict[str, dict[str, str]]:
    """Add all stages that pretraining reads of every cell; their labels by cell and role."""
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
        return nodes.add(label if alike else f"{label}/{owner}", Node("", node.stage, node.spec, inputs))

    return {
        cell: {role: place(cell, label) for role, label in graph["pretrain"].inputs.items()} for cell, graph in graphs.items()
    }


class _Nodes:
    """Nodes of many graphs as one graph, each once."""

    def __init__(self) -> None:
        self.by_label: dict[str, Node] = {}
        self._labels: dict[tuple[object, ...], str] = {}

    def add(self, label: str, node: Node) -> str:
        """Add a node under this label, unless one with its spec and inputs is there; returns the label of either."""
        content = (node.stage.name, node.spec.model_dump_json(), *node.inputs.items())
        if content not in self._labels:
            self._labels[content] = label
            self.by_label[label] = Node(label, node.stage, node.spec, node.inputs)
        return self._labels[content]

    def add_stage(self, label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        """Add a stage as a recipe's graph does."""
        return self.add(label, Node("", stage, spec, inputs))
