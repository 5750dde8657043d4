"""Every table and field of a recipe as a Markdown page, from the specs themselves: ``python -m korealbert.recipe.reference``.

A field's meaning is the docstring beneath it, its limits are the specification's own. ``docs/recipes.md`` is what it prints.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from korealbert.artifact import InputPath
from korealbert.corpus.clean.stage import CleanSpec
from korealbert.corpus.crawl.fetch import FetchSpec
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.finetune.spec import FinetuneSpec
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import registry
from korealbert.recipe.ablation import AblationSpec, Cell, Level
from korealbert.recipe.benchmarks import FinetuneGrid
from korealbert.recipe.cross_lingual import KoreanGrid, LanguageLossTable, SplitTable
from korealbert.recipe.reading import ModelTable
from korealbert.report.ablation.spec import Column
from korealbert.xpt.phases import PhaseSpec
from korealbert.xpt.transfer import TransferSpec

_PER_NAME: dict[str, tuple[type[BaseModel], ...]] = {
    "crawl": (CrawlSpec,),
    "fetch": (FetchSpec,),
    "extract": (ExtractSpec,),
    "clean": (CleanSpec,),
    "encoder": (ModelTable,),
    "finetune": (FinetuneGrid, FinetuneSpec),
}
_OTHER_KINDS: dict[str, tuple[str, dict[str, type[BaseModel]]]] = {
    "Cross-lingual recipes": (
        "A recipe with a `[transfer]` table turns an encoder of one language into one of another. Of the tables above it has "
        "those of sources, `[dedup]`, `[balance]`, `[vocab]`, `[examples]`, `[views]` (masked words alone unless it says "
        "more), `[export]` and `[report]` (in a layout of its own), and those below. `[english.NAME]` are benchmarks of the "
        "source's language, `[control.NAME]` models from scratch, each as `[pretrain]`.",
        {
            "source": ModelTable,
            "split": SplitTable,
            "transfer], [variants.NAME": TransferSpec,
            "phase1], [phase2": PhaseSpec,
            "finetune.NAME": KoreanGrid,
            "language_loss": LanguageLossTable,
        },
    ),
    "A corpus alone": (
        "A recipe that has tables of sources, `[dedup]`, `[balance]`, `[vocab]`, `[vocab_sizes]` and `[report]` alone, each as "
        "above, ends with the corpus and a report of it, and with a vocabulary where it has `[vocab]`.",
        {},
    ),
    "Evaluations": (
        "A recipe with `[encoder.NAME]` and no source measures these encoders on `[finetune.NAME]`, side by side. `[speed]` "
        "and `[report]` are as above. Cells start from the encoders' weights alone.",
        {},
    ),
    "Ablations": (
        "A file that names a `recipe` at its top is a grid over it: cells that set some of its fields otherwise, a pretraining "
        "for each cell and seed, and the table of a paper that they refill.",
        {"": AblationSpec, "[cells]": Cell, "[axes.levels]": Level, "[columns]": Column},
    ),
}
"""What is said of each further kind of recipe, and its own tables."""
_LIKE: dict[type[BaseModel], tuple[type[BaseModel], str]] = {
    PhaseSpec: (PretrainSpec, "pretrain"),
    KoreanGrid: (FinetuneGrid, "finetune.NAME"),
}
"""Tables that say in what they differ from another one."""

_SET_BY_THE_RECIPE: dict[type[BaseModel], frozenset[str]] = {
    ExtractSpec: frozenset({"source"}),
    CleanSpec: frozenset({"source"}),
    FinetuneSpec: frozenset({"task", "init", "seed"}),
}
"""Fields whose value is the table's name or a cell's place in its grid."""

_PLAIN: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "true or false", InputPath: "path"}

HEAD = """# Recipes

A recipe is one TOML file. Tables of one stage (`[vocab]`) stand once, those of a source or benchmark (`[extract.NAME]`) once a
name. Every table may be left out or empty unless a field has no default. Unknown fields, and values of another type, are errors
that name the nearest valid one. Paths start at the recipe's directory; `${data}` in a path stands for the directory that the
top-level `data`, or `--data`, names. Top-level fields: `name`, `description`, `data`.

`korealbert plan RECIPE` says what a run would build and why; `--set pretrain.steps=200` changes a field for one run.

This page is generated: `python -m korealbert.recipe.reference > docs/recipes.md`.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for table, kinds in {f"{name}.NAME": kinds for name, kinds in _PER_NAME.items()}.items():
        parts.append(_section(table, kinds))
    parts += [_section(table, (stage.spec,)) for table, stage in registry.tables().items()]
    for title, (text, tables) in _OTHER_KINDS.items():
        parts += [f"# {title}\n\n{text}\n", *(_section(table, (kind,)) for table, kind in tables.items())]
    return "\n".join(parts)


def _section(table: str, kinds: tuple[type[BaseModel], ...]) -> str:
    lines = [f"## [{table}]" if table else "## At the top", ""]
    for kind in kinds:
        lines += [_paragraph(inspect.cleandoc(kind.__doc__ or "")), ""]
        if kind in _LIKE:
            lines += [f"Fields are those of `[{_LIKE[kind][1]}]`, but for:", ""]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    for kind in kinds:
        lines += [f"| {' | '.join(row)} |" for row in _rows(kind, "")]
    return "\n".join([*lines, ""])


def _rows(kind: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    meanings = _field_meanings(kind)
    others = _LIKE[kind][0].model_fields if kind in _LIKE else {}
    for name, field in kind.model_fields.items():
        if name in _SET_BY_THE_RECIPE.get(kind, ()) or (name in others and repr(others[name]) == repr(field)):
            continue
        default = "**required**" if field.is_required() else _default(field)
        yield f"`{prefix}{name}`", _type(field.annotation) + _limits(field), default, _cell(meanings.get(name, ""))
        for inner in _models(field.annotation) if kind not in _LIKE else ():
            yield from _rows(inner, f"{prefix}{name}.")


def _field_meanings(kind: type[BaseModel]) -> dict[str, str]:
    """The docstring beneath each field of a model, its parents' included."""
    found: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if not issubclass(parent, BaseModel) or parent is BaseModel:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, beneath in zip(body.body, body.body[1:]):
            told = beneath.value if isinstance(beneath, ast.Expr) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(told, ast.Constant):
                found[field.target.id] = inspect.cleandoc(str(told.value))
    return found


def _paragraph(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", _paragraph(text)).replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.default_factory_takes_validated_data:
        return "by other fields"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, BaseModel):
        return "see below" if value == type(value)() else f"`{_short(repr(value))}`"
    shown = repr(value) if not isinstance(value, tuple | list | dict) else _short(repr(value))
    return f"`{shown}`".replace("|", "\\|")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        shown = _type(inner[0])
    elif origin is Literal:
        shown = " ".join(f"`{value}`" for value in inner)
    elif origin in (Union, UnionType):
        shown = " or ".join(dict.fromkeys(_type(each) for each in inner if each is not NoneType))
    elif origin in (tuple, list):
        shown = f"list of {_type(inner[0])}"
    elif inner:
        shown = f"table of {_type(inner[-1])}"
    else:
        is_table = isinstance(kind, type) and issubclass(kind, BaseModel)
        shown = "table" if is_table else _PLAIN.get(kind, getattr(kind, "__name__", str(kind)))
    return shown


def _limits(field: FieldInfo) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "at least", "max_length": "at most"}
    found = [f"{signs[n]} {getattr(m, n):,}" for m in field.metadata for n in signs if getattr(m, n, None) is not None]
    return f", {', '.join(found)}" if found else ""


def _models(kind: Any) -> list[type[BaseModel]]:
    """Models that a field's value is, or may be."""
    inner = [kind, *(part for part in get_args(kind) if get_origin(kind) in (Union, UnionType, Annotated))]
    if all(get_origin(part) is Annotated for part in inner[1:]):  # Each variant has a tag, by which it is chosen.
        inner = [get_args(part)[0] for part in inner[1:]] or inner
    found = [part for part in inner if isinstance(part, type) and issubclass(part, BaseModel)]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    sys.stdout.write(page())
