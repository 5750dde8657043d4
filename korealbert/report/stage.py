"""Stage `report`: every artifact of a run → its scores, published ones, and the lineage of both.

Inputs: every artifact of a run by its label; none is required. Output: ``report.html`` (self-contained), ``report.md``,
``scores.csv``, ``tables/*`` (every table as CSV, Markdown and LaTeX), ``figures/*.svg`` and, where a model was exported,
``model-card.md``. Only times and costs depend on when and where the inputs were built: equal inputs give equal
bytes of all else, and equal manifests of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from korealbert.artifact import Artifact, Deployment, Inputs, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import atomic_write
from korealbert.finetune.spec import INITS
from korealbert.huggingface.card import FinetunedScores, ModelFacts, model_card, untrained_parts
from korealbert.report import published, scores
from korealbert.report.artifacts import Artifacts, refuse_swapped
from korealbert.report.published import OwnScore, TableOrScore
from korealbert.report.render.blocks import Section, Text
from korealbert.report.render.writer import write_report
from korealbert.report.scores import Benchmark
from korealbert.report.sections import corpus, learning, outcome, printed_table, retrieval, texts, training_data
from korealbert.report.sections.benchmarks import comparison, errors
from korealbert.report.sections.lineage import MEASURED, closing
from korealbert.report.sections.printed_table import PrintedTable


class ReportSpec(Spec):
    """Contents of a report; all numbers come from its inputs."""

    later: ClassVar[frozenset[str]] = frozenset({"note", "table", "published_scores"})

    title: str = Field(default="", max_length=200)
    """Title of the report; empty: named after the result of the run."""
    note: str = Field(default="", max_length=1000)
    """A note above all numbers."""
    model_name: str = Field(default="korealbert", min_length=1, max_length=100)
    """Name of this run's model in ``scores.csv``."""
    published: tuple[str, ...] = ("korealbert", "koelectra_readme", "klue_readme", "xpt")
    """Tables of published scores to show next to ours: albert, ax_encoder, klue_readme, koelectra_readme, korealbert, xpt."""
    table: PrintedTable | None = None
    """A table of a paper to fill: models are its rows, benchmarks its columns."""
    published_scores: tuple[OwnScore, ...] = ()
    """Further published scores; the recipe takes those that the TOML files of its benchmarks name."""
    examples_per_reason: int = Field(default=2, ge=0, le=20)
    """Titles of dropped documents quoted per reason; 0 quotes none, where the corpus may not be shown."""

    samples: int = Field(default=6, ge=0, le=100)
    """Documents of the corpus whose beginning is quoted; 0 quotes none, where the corpus may not be shown."""
    hardest_examples: int = Field(default=5, ge=0, le=20)
    """Test examples with the largest loss quoted per benchmark; 0 quotes none, where the benchmark may not be shown."""

    @field_validator("published")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in published.tables():
                raise ValueError(f"there is no published table {name!r}; known are {', '.join(published.tables())}")
        return names


class ReportStats(Statistics):
    """Contents of the report."""

    sections: list[str]
    figures: int
    scores: int
    means: dict[str, dict[str, float]]
    """Mean test score times 100 by benchmark and initial weights, where it is defined."""
    missing: list[str]
    """Stages that the run does not have."""


def run(spec: ReportSpec, inputs: Inputs, out_dir: Path, runtime: Runtime, stages: Sequence[Stage[Any]] = ()) -> ReportStats:
    """Write the report; see the module's docstring. ``stages``: all stages in the order of the report."""
    artifacts = Artifacts(inputs, stages)
    refuse_swapped(artifacts.by_label, _model_of(artifacts))
    compared: list[TableOrScore] = [*spec.published, *spec.published_scores]
    benchmarks = scores.read(artifacts.of("finetune"), artifacts.of("summary"))
    searched = retrieval.read(artifacts)
    chapters = [
        printed_table.section(spec.table, artifacts, benchmarks) if spec.table is not None else None,
        outcome.section(artifacts, benchmarks, compared),
        comparison(benchmarks, compared) if benchmarks else None,
        retrieval.section(searched),
        errors(benchmarks, spec.hardest_examples),
        learning.speed(artifacts),
        learning.section(artifacts, benchmarks),
        corpus.section(artifacts),
        texts.quality(artifacts),
        texts.section(artifacts, spec.samples),
        corpus.dropped(artifacts, spec.examples_per_reason),
        corpus.removed(artifacts),
        training_data.vocabulary(artifacts),
        training_data.section(artifacts),
    ]
    sections = closing(artifacts, chapters)
    if absent := artifacts.missing:
        note = Text(f"Not part of this run: {', '.join(absent)}.", quiet=True)
        sections[-1] = Section(sections[-1].anchor, sections[-1].title, [*sections[-1].blocks, note])
    results = outcome.lede(artifacts, benchmarks) if benchmarks or not searched else retrieval.lede(searched)
    lede = " ".join(filter(None, [spec.note, results]))
    table = scores.table(benchmarks, spec.model_name, compared, retrieval.csv_rows(searched, spec.model_name))
    scored, trained = benchmarks or searched, artifacts.one("pretrain")
    made = "from raw text to scores" if scored else "from raw text to a model" if trained else "a corpus"
    title = spec.title or f"korealbert: {made}"
    figures = write_report(out_dir, title, lede, sections, {"scores.csv": table}, runtime)
    if (card := _card_with_scores(artifacts, benchmarks)) is not None:
        atomic_write(out_dir / "model-card.md", card.encode())
    return ReportStats(
        sections=[section.anchor for section in sections],
        figures=figures,
        scores=table.height,
        means={
            b.name: {init: sum(v) / len(v) for init in INITS if (v := b.values(init)) and not b.undefined(init)}
            for b in benchmarks
        },
        missing=absent,
    )


def _model_of(artifacts: Artifacts) -> Callable[[str], str]:
    """The label of the model of ``finetune/BENCHMARK/INIT/SEED`` or ``finetune/ENCODER/BENCHMARK/INIT/SEED``."""

    def model_of(label: str) -> str:
        stage, *rest = label.split("/")
        encoder = f"encoder/{rest[0]}" if rest else ""
        return "" if stage != "finetune" else encoder if encoder in artifacts.by_label else "export"

    return model_of


def _card_with_scores(artifacts: Artifacts, benchmarks: Sequence[Benchmark]) -> str | None:
    """The exported model's card with the scores of all fine-tuning runs, or None where no model was exported."""
    export, pretrain = artifacts.one("export"), artifacts.one("pretrain")
    return None if export is None or pretrain is None else card_with_scores(export, pretrain, benchmarks)


def card_with_scores(export: Artifact, pretrain: Artifact, benchmarks: Sequence[Benchmark]) -> str:
    """The card of an exported model with the scores of fine-tuning runs."""
    spec = export.manifest["spec"]
    cells = [
        FinetunedScores(
            name,
            cell.init,
            benchmark.metric,
            None if cell.undefined(benchmark.metric, "dev") else cell.dev,
            None if cell.undefined(benchmark.metric) else cell.test,
        )
        for benchmark in benchmarks
        for cell in benchmark.cells
        for name in [", ".join(filter(None, (benchmark.name, benchmark.head_of(cell.system))))]
        for name in [f"{name} ({benchmark.part})" if benchmark.part else name]
    ]
    facts = ModelFacts.of(pretrain, title=spec["title"], license=spec["license"], snapshot=spec.get("snapshot"))
    return model_card(facts, pretrain, finetuned=cells, limits=untrained_parts(facts.config))


STAGE = Stage(
    "report",
    version=17,
    spec=ReportSpec,
    run=run,
    table="report",
    inputs={"LABEL": "LABEL"},
    deployment=Deployment("Draw up the report"),
    measured=MEASURED,
)
