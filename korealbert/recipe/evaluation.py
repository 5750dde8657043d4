"""Reading an evaluation: the TOML file that measures encoders on benchmarks and trains none, and the graph it forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from korealbert.finetune import speed_column
from korealbert.recipe import dag, finetuning
from korealbert.recipe.benchmarks import Benchmark, PretrainedGrid, read_benchmarks
from korealbert.recipe.dag import Node, Nodes
from korealbert.recipe.reading import Model, Reader
from korealbert.recipe.tables import RecipeError
from korealbert.report import stage as report


@dataclass(frozen=True)
class Evaluation:
    """The validated specs of every stage of an evaluation."""

    name: str
    description: str
    encoder: Mapping[str, Model]
    """What is measured, by name."""
    finetune: Mapping[str, Benchmark[PretrainedGrid]]
    """Benchmarks by name."""
    speed: speed_column.SpeedSpec
    report: report.ReportSpec


def load_evaluation(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Evaluation:
    """Read and validate an evaluation; see ``reading.load``. Raises RecipeError for anything that could not run."""
    reader = Reader(path, data, overrides)
    reader.refuse_unknown(["encoder", "finetune", "speed", "report"])
    encoders, benchmarks = reader.encoders(), read_benchmarks(reader, "finetune", PretrainedGrid)
    if not benchmarks:
        raise RecipeError(f"{path}: no [finetune.NAME] table; name the benchmarks to measure [encoder.NAME] on")
    reader.check_lengths(benchmarks, encoders, {})
    return Evaluation(
        **reader.heading(),
        encoder=encoders,
        finetune=benchmarks,
        speed=reader.spec(speed_column.SpeedSpec, "speed"),
        report=reader.spec(report.ReportSpec, "report"),
    )


def evaluation_graph(recipe: Evaluation) -> dict[str, Node]:
    """The DAG of an evaluation by label, every stage after those it reads."""
    nodes = Nodes()
    encoders = dag.add_encoders(nodes, recipe.encoder)
    for name, benchmark in recipe.finetune.items():
        finetuning.add_summary(nodes.add, name, benchmark, finetuning.add_encoders(nodes.add, name, benchmark, encoders))
    dag.add_report(nodes, recipe.speed, recipe.report)
    return nodes.by_label
