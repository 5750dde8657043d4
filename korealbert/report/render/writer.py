"""One report as files: HTML, Markdown, drawings, and the numbers behind them as CSV."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from korealbert.artifact import Progress, Runtime
from korealbert.artifact.files import atomic_write
from korealbert.report.render.blocks import Section, figures_of
from korealbert.report.render.html import page
from korealbert.report.render.text import markdown, table_files


def write_report(
    out_dir: Path,
    title: str,
    lede: str,
    sections: Sequence[Section],
    numbers: Mapping[str, pl.DataFrame],
    runtime: Runtime,
    *,
    tables: bool = False,
) -> int:
    """Write ``report.html``, ``report.md``, ``figures/*.svg`` and ``numbers`` by file name; returns the number of figures.

    With ``tables`` every table of the report becomes a file under ``tables/`` as CSV, Markdown and LaTeX, too.
    """
    files = {"report.html": page(title, lede, sections).encode(), "report.md": markdown(title, lede, sections).encode()}
    figures = [figure for section in sections for figure in figures_of(section.blocks)]
    files |= {f"figures/{figure.name}.svg": figure.svg.standalone().encode() for figure in figures}
    if tables:
        files |= {f"tables/{name}": content for name, content in table_files(sections)}
    for name, frame in numbers.items():
        csv = io.BytesIO()
        frame.write_csv(csv)
        files[name] = csv.getvalue()
    for directory in ("figures", "tables")[: 1 + tables]:
        (out_dir / directory).mkdir(exist_ok=True)
    for name, content in files.items():
        atomic_write(out_dir / name, content)
    runtime.report(Progress(len(sections), len(sections), "sections"))
    return len(figures)
