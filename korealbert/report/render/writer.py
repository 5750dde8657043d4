"""Write a report as HTML and Markdown, with its drawings, tables and numbers as files.

HTML is rendered from ``templates/`` and needs no network, scripts or fonts.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from korealbert.report.render.text import markdown, table_files, with_file_names


def write_report(
    out_dir: Path,
    title: str,
    introduction: str,
    sections: Sequence[Section],
    numbers: Mapping[str, pl.DataFrame],
    runtime: Runtime,
) -> int:
    """Write ``report.html``, ``report.md``, ``figures/*.svg`` and ``numbers`` by file name; returns the number of figures.

    Every table of the report is also written to ``tables/`` as CSV, Markdown and LaTeX. Empty columns are left out everywhere.
    Names of figures are shortened to ASCII letters, digits and hyphens, and numbered if several are equal.
    """
    sections = [replace(section, blocks=[without_empty_columns(block) for block in section.blocks]) for section in sections]
    sections = with_file_names(sections)
    contents = {
        "report.html": page(title, introduction, sections).encode(),
        "report.md": markdown(title, introduction, sections).encode(),
    }
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


def page(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """Return a complete report as HTML."""
    return document(
        "report.html", css=style_sheet("palette", "chart", "page"), title=title, introduction=introduction, sections=sections
    )


def document(template: str, **values: Any) -> str:
    """Render a template; all values except ``Markup`` are escaped."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    # `finalize` gets every value that a template prints, and replaces characters that XML forbids, as in drawings.
    environment = Environment(loader=FunctionLoader(_source), autoescape=True, finalize=escape, undefined=StrictUndefined)
    environment.tests |= {kind.__name__: partial(lambda kind, block: isinstance(block, kind), kind) for kind in get_args(Block)}
    return environment


def _source(name: str) -> str:
    """Read a template without line breaks and indentation, which browsers would show as spaces between elements."""
    return re.sub(r"\n\s*", "", (files(__package__) / "templates" / name).read_text("utf-8"))
