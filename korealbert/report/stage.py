"""Stage `report`: all artifacts of a run → a report of scores, published scores, and how everything was made.

Inputs: all artifacts of a run by label; none is required. Output: ``report.html`` (self-contained), ``report.md``,
``scores.csv``, ``tables/*`` (every table as CSV, Markdown and LaTeX), ``figures/*.svg``, and ``model-card.md`` if a model was
exported. Equal inputs give equal bytes, except for times and costs, which depend on when and where the inputs were built.
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
    """Title of the report. By default it names the result of the run."""
    note: str = Field(default="", max_length=1000)
    """A note above all numbers."""
    model_name: str = Field(default="korealbert", min_length=1, max_length=100)
    """Name of this run's model in ``scores.csv``."""
    published: tuple[str, ...] = ("korealbert", "koelectra_readme", "klue_readme", "xpt")
    """Tables of published scores to compare with: albert, ax_encoder, klue_readme, koelectra_readme, korealbert, xpt."""
    table: PrintedTable | None = None
    """A table of a paper to fill with our numbers: models are its rows, benchmarks its columns."""
    published_scores: tuple[OwnScore, ...] = ()
    """Further published scores. The recipe adds those in the TOML files of its benchmarks."""
    examples_per_reason: int = Field(default=2, ge=0, le=20)
    """Titles of dropped documents to quote per reason; 0 if the corpus must not be shown."""

    samples: int = Field(default=6, ge=0, le=100)
    """Documents of the corpus to quote the beginning of; 0 if the corpus must not be shown."""
    hardest_examples: int = Field(default=5, ge=0, le=20)
    """Test examples with the largest loss to quote per benchmark; 0 if the benchmark must not be shown."""

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
    """Mean test score times 100 by benchmark and initial weights; undefined ones are left out."""
    missing: list[str]
    """Stages that the run lacks."""


def run(spec: ReportSpec, inputs: Inputs, out_dir: Path, runtime: Runtime, stages: Sequence[Stage[Any]] = ()) -> ReportStats:
    """Write the report. ``stages``: all stages in the order of the report."""
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
    results = outcome.introduction(artifacts, benchmarks) if benchmarks or not searched else retrieval.introduction(searched)
    introduction = " ".join(filter(None, [spec.note, results]))
    table = scores.table(benchmarks, spec.model_name, compared, retrieval.csv_rows(searched, spec.model_name))
    scored, trained = benchmarks or searched, artifacts.one("pretrain")
    made = "from raw text to scores" if scored else "from raw text to a model" if trained else "a corpus"
    title = spec.title or f"korealbert: {made}"
    figures = write_report(out_dir, title, introduction, sections, {"scores.csv": table}, runtime)
    export, pretrain = artifacts.one("export"), artifacts.one("pretrain")
    if export is not None and pretrain is not None:
        atomic_write(out_dir / "model-card.md", card_with_scores(export, pretrain, benchmarks).encode())
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
    """Return a function from the label of a fine-tuning cell to that of its model."""

    def model_of(label: str) -> str:
        stage, *rest = label.split("/")
        encoder = "/".join(["encoder", *rest[:-3]])  # Benchmark, initial weights and seed follow its name.
        return "" if stage != "finetune" else encoder if encoder in artifacts.by_label else "export"

    return model_of


def card_with_scores(export: Artifact, pretrain: Artifact, benchmarks: Sequence[Benchmark]) -> str:
    """Return the card of an exported model with the scores of its own fine-tuning runs, not those of other encoders."""
    spec = export.manifest["spec"]
    cells = []
    for benchmark in benchmarks:
        for cell in benchmark.cells:
            if export.name not in cell.artifact.manifest["inputs"].values():
                continue
            name = ", ".join(filter(None, (benchmark.name, benchmark.head_of(cell.system))))
            name += f" ({benchmark.part})" if benchmark.part else ""
            dev = None if cell.undefined(benchmark.metric, "dev") else cell.dev
            test = None if cell.undefined(benchmark.metric) else cell.test
            cells.append(FinetunedScores(name, cell.init, benchmark.metric, dev, test))
    facts = ModelFacts.of(pretrain, title=spec["title"], license=spec["license"], snapshot=spec.get("snapshot"))
    return model_card(facts, pretrain, finetuned=cells, limits=untrained_parts(facts.config))


STAGE = Stage(
    "report",
    version=29,
    spec=ReportSpec,
    run=run,
    table="report",
    inputs={"LABEL": "LABEL"},
    deployment=Deployment("Draw up the report"),
    measured=MEASURED,
)
