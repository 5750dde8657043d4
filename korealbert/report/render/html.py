"""HTML files that need nothing else, from ``templates/``: no network, no script, no font."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any, get_args

from jinja2 import Environment, FunctionLoader, StrictUndefined

from korealbert.report.render.blocks import Block, Section
from korealbert.report.render.markup import escape, style_sheet


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
