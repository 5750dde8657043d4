"""One report as files: HTML, Markdown, drawings, and the numbers behind them as CSV.

HTML comes from ``templates/`` and needs nothing else: no network, no script, no font.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import polars as pl
from jinja2 import Environment, FunctionLoader, StrictUndefined

from korealbert.artifact import Progress, Runtime
from korealbert.artifact.files import atomic_write
from korealbert.report.render.blocks import Block, Figures, Section, unfolded, without_empty_columns
from korealbert.report.render.markup import escape, style_sheet
from korealbert.report.render.text import markdown, table_files


def write_report(
    out_dir: Path,
    title: str,
    lede: str,
    sections: Sequence[Section],
    numbers: Mapping[str, pl.DataFrame],
    runtime: Runtime,
) -> int:
    """Write ``report.html``, ``report.md``, ``figures/*.svg`` and ``numbers`` by file name; returns the number of figures.

    Every table of the report becomes a file under ``tables/`` as CSV, Markdown and LaTeX, too. Columns in which no row has
    anything are left out everywhere.
    """
    sections = [Section(each.anchor, each.title, without_empty_columns(each.blocks)) for each in sections]
    contents = {"report.html": page(title, lede, sections).encode(), "report.md": markdown(title, lede, sections).encode()}
    blocks = [block for section in sections for block in unfolded(section.blocks)]
    figures = [figure for block in blocks if isinstance(block, Figures) for figure in block.figures]
    contents |= {f"figures/{figure.name}.svg": figure.svg.standalone(figure.caption).encode() for figure in figures}
    contents |= {f"tables/{name}": content for name, content in table_files(sections)}
    for name, frame in numbers.items():
        csv = io.BytesIO()
        frame.write_csv(csv)
        contents[name] = csv.getvalue()
    for directory in ("figures", "tables"):
        (out_dir / directory).mkdir(exist_ok=True)
    for name, content in contents.items():
        atomic_write(out_dir / name, content)
    runtime.report(Progress(len(sections), len(sections), "sections"))
    return len(figures)


def page(title: str, lede: str, sections: Sequence[Section]) -> str:
    """A complete report."""
    return document("report.html", css=style_sheet("palette", "chart", "page"), title=title, lede=lede, sections=sections)


def document(template: str, **values: Any) -> str:
    """A template filled in; every value but ``Markup`` is escaped."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    # `finalize` sees every value that a template prints: it replaces, as in drawings, what XML forbids.
    environment = Environment(loader=FunctionLoader(_source), autoescape=True, finalize=escape, undefined=StrictUndefined)
    environment.tests |= {kind.__name__: partial(lambda kind, block: isinstance(block, kind), kind) for kind in get_args(Block)}
    return environment


def _source(name: str) -> str:
    """A template without its line breaks and indentation, which would be spaces between elements."""
    return re.sub(r"\n\s*", "", (files(__package__) / "templates" / name).read_text("utf-8"))
