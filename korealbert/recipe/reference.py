"""Generates the Markdown page and the JSON Schema of all tables and fields of recipes from the specs and their docstrings.

``python -m korealbert.recipe.reference`` prints the page, which is ``docs/recipes.md``.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from korealbert.artifact import InputPath
from korealbert.corpus.clean.stage import CleanSpec
from korealbert.corpus.crawl.fetch import FetchSpec
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.finetune import tasks
from korealbert.finetune.definition_file import BenchmarkTable
from korealbert.finetune.spec import FinetuneSpec
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import registry
from korealbert.recipe.ablation import AblationSpec, Cell, Level
from korealbert.recipe.benchmarks import FinetuneGrid
from korealbert.recipe.retrieval import BiEncoderTable, RetrievalTable
from korealbert.recipe.specs import KoreanGrid, LanguageLossTable, ModelTable, SplitTable
from korealbert.recipe.tables import TOP
from korealbert.report.cross_lingual.stage import CrossLingualReportSpec
from korealbert.report.paper_columns import Column
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PhaseSpec
from korealbert.xpt.transfer import TransferSpec

_PER_NAME: dict[str, tuple[type[BaseModel], ...]] = {
    "crawl": (CrawlSpec,),
    "fetch": (FetchSpec,),
    "extract": (ExtractSpec,),
    "clean": (CleanSpec,),
    "encoder": (ModelTable,),
    "finetune": (FinetuneGrid, FinetuneSpec),
    "retrieval": (RetrievalTable,),
    "bi_encoder": (BiEncoderTable,),
}
_OTHER_KINDS: dict[str, tuple[str, dict[str, type[BaseModel]]]] = {
    "Cross-lingual recipes": (
        "A recipe with a `[transfer]` table turns an encoder of one language into one of another. It has the tables of "
        "sources, `[dedup]`, `[balance]`, `[vocab]`, `[examples]`, `[views]` (by default only masked words), `[export]`, "
        "`[encoder.NAME]` and `[report]` (with a layout of its own) as above, and the tables below. `[english.NAME]` is a "
        "benchmark of the source's language, `[control.NAME]` a model from scratch with the fields of `[pretrain]`.",
        {
            "source": ModelTable,
            "split": SplitTable,
            "vocab": TokenizerSpec,
            "transfer], [variants.NAME": TransferSpec,
            "phase1], [phase2": PhaseSpec,
            "finetune.NAME": KoreanGrid,
            "language_loss": LanguageLossTable,
        },
    ),
    "A corpus alone": (
        "A recipe that has only tables of sources, `[dedup]`, `[balance]`, `[vocab]`, `[vocab_sizes]` and `[report]`, each as "
        "above, ends with the corpus and a report on it, and with a vocabulary if it has `[vocab]`.",
        {},
    ),
    "Evaluations": (
        "A recipe with `[encoder.NAME]` and no source compares these encoders on `[finetune.NAME]` and `[retrieval.NAME]`. "
        "`[speed]` and `[report]` are as above. Runs start from the weights of the encoders, and where `inits` of "
        "`[finetune.NAME]` has `random`, from random ones too.",
        {},
    ),
    "Ablations": (
        "A file with a top-level field `recipe` is a grid over that recipe. Each cell overrides some of its fields, each cell "
        "and seed is pretrained, and the results are shown in the layout of a paper's table.",
        {"": AblationSpec, "[cells]": Cell, "[axes.levels]": Level, "[columns]": Column},
    ),
    "Benchmarks": (
        "A file that defines a benchmark outside the package; `[finetune.NAME]` names it as `task`. [How to write "
        "one](adding-a-benchmark.md). `korealbert schema benchmark` prints its JSON Schema.",
        {"": BenchmarkTable},
    ),
}
"""Introduction and tables of each further kind of recipe."""
_LIKE: dict[type[BaseModel], tuple[type[BaseModel], str]] = {
    PhaseSpec: (PretrainSpec, "pretrain"),
    KoreanGrid: (FinetuneGrid, "finetune.NAME"),
}
"""Tables that list only the fields that differ from another one."""

_SET_BY_THE_RECIPE: dict[type[BaseModel], frozenset[str]] = {
    ExtractSpec: frozenset({"source"}),
    CleanSpec: frozenset({"source"}),
    FinetuneSpec: frozenset({"task", "init", "seed"}),
    RetrievalTable: frozenset({"system", "init", "seed"}),
    BiEncoderTable: frozenset({"init", "seed", "apart_from"}),
}
"""Fields that follow from the table's name or from a cell's place in its grid."""

_PLAIN: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "true or false", InputPath: "path"}

_HEAD = """# Recipes

A recipe is one TOML file. It has one table for each stage (`[vocab]`), and one for each source or benchmark (`[extract.NAME]`).
A table may be empty or missing unless one of its fields has no default. Unknown fields and values of a wrong type are errors
that name the nearest valid one. Paths are relative to the recipe's directory; `${data}` in a path is the directory that the
top-level field `data`, or `--data`, names, and `${shipped}` that of the rules, sources and benchmarks which the package ships:
`news_rules = "${shipped}/rules/news.toml"`. Top-level fields: `name`, `description`, `data`.

`korealbert plan RECIPE` says what a run would build and why; `--set pretrain.steps=200` changes a field for one run.
For completion and checks in VS Code (Even Better TOML) and in editors with taplo, run `korealbert schema >
recipe.schema.json` and begin the recipe with the line `#:schema ./recipe.schema.json`.

This page is generated: `python -m korealbert.recipe.reference > docs/recipes.md`.
"""


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
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
            lines += [f"Fields are those of `[{_LIKE[kind][1]}]`, except:", ""]
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


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """Parse the classes of a module, by name."""
    written = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    return {node.name: node for node in written if isinstance(node, ast.ClassDef)}


def _field_meanings(kind: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field of a model and its parents."""
    found: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if not issubclass(parent, BaseModel) or parent is BaseModel:
            continue
        body = _classes(parent.__module__)[parent.__name__].body
        for field, beneath in itertools.pairwise(body):
            meaning = beneath.value if isinstance(beneath, ast.Expr) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(meaning, ast.Constant):
                found[field.target.id] = inspect.cleandoc(str(meaning.value))
    return found


def _paragraph(text: str) -> str:
    return text.replace("``", "`")


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", _paragraph(text))


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


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
    """Return the models that the value of a field may be."""
    inner = [kind, *(part for part in get_args(kind) if get_origin(kind) in (Union, UnionType, Annotated))]
    if all(get_origin(part) is Annotated for part in inner[1:]):  # Variants of a tagged union.
        inner = [get_args(part)[0] for part in inner[1:]] or inner
    found = [part for part in inner if isinstance(part, type) and issubclass(part, BaseModel)]
    return list(dict.fromkeys(found))


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class _JsonSchema(GenerateJsonSchema):
    """Adds the meaning of each field, and omits fields that the recipe sets itself."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Omit titles, which would repeat the names."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a table."""
        found, kind = super().model_schema(schema), schema["cls"]
        fields, meanings = found.get("properties", {}), _field_meanings(kind)
        for name in _SET_BY_THE_RECIPE.get(kind, frozenset()) & fields.keys():
            del fields[name]
            if name in found.get("required", ()):
                found["required"].remove(name)
        for name, field in fields.items():
            field["description"] = _line(meanings.get(name, ""))
        return {**found, "description": _line(inspect.cleandoc(kind.__doc__ or "")), "title": kind.__name__}

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Allow tables that fit several variants because the field that chooses one has a default."""
        found = super().tagged_union_schema(schema)
        return {"anyOf": found["oneOf"]} if "oneOf" in found else found


def json_schema() -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of all kinds of recipes, with types, limits, defaults and meanings, for editors."""
    once, per_name = _kinds_of_tables()
    kinds = {kind for kinds in (*once.values(), *per_name.values()) for kind in kinds} | {AblationSpec}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    references, rest = models_json_schema([(kind, "validation") for kind in ordered], schema_generator=_JsonSchema)
    definitions: dict[str, Any] = rest["$defs"]

    def form(kinds: tuple[type[BaseModel], ...]) -> dict[str, Any]:
        found = [references[kind, "validation"] for kind in dict.fromkeys(kinds)]
        if FinetuneSpec in kinds:
            return _benchmark_form([_resolved(reference, definitions) for reference in found])
        return found[0] if len(found) == 1 else {"anyOf": found}

    tables = {name: {"type": "object", "additionalProperties": form(kinds)} for name, kinds in per_name.items()}
    tables |= {name: form(kinds) for name, kinds in once.items()}
    top = {name: {"type": "string"} for name in TOP}
    ablation = _resolved(references[AblationSpec, "validation"], definitions)["properties"]
    return {
        "$schema": _DRAFT,
        "title": "korealbert recipe",
        "type": "object",
        "additionalProperties": False,
        "properties": {**top, **ablation, **tables},
        "$defs": definitions,
    }


_Kinds = dict[str, tuple[type[BaseModel], ...]]


def _kinds_of_tables() -> tuple[_Kinds, _Kinds]:
    """Return the models of all tables of recipes: of those that occur once, and of those that have a name."""
    once: _Kinds = {name: (stage.spec,) for name, stage in registry.tables().items()}
    once |= {"examples_long": once["examples"], "views_long": once["views"]}
    per_name = dict(_PER_NAME)
    for names, kind in _OTHER_KINDS["Cross-lingual recipes"][1].items():
        for name in names.split("], ["):
            stem, dot, _ = name.partition(".")
            tables = per_name if dot else once
            tables[stem] = (*tables.get(stem, ()), kind)
    per_name |= {"finetune": (*per_name["finetune"], KoreanGrid), "control": (PretrainSpec,), "english": per_name["finetune"]}
    once["report"] = (*once["report"], CrossLingualReportSpec)
    return once, per_name


def _resolved(reference: JsonSchemaValue, definitions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definitions[reference["$ref"].rpartition("/")[2]]
    return found


def _benchmark_form(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a table of a benchmark, which has the fields of several models; the first one's come first."""
    required = {name for part in parts for name in part.get("required", ())}
    fields = {name: field for part in reversed(parts) for name, field in part["properties"].items()}
    meaning = "The benchmark, if the table has another name, or the TOML file that defines it."
    named = [{"enum": list(tasks.names())}, {"type": "string", "pattern": r"\.toml$"}]
    fields["task"] = {"anyOf": named, "description": meaning}
    required.discard("train")  # The benchmark's file may name it.
    return {"type": "object", "additionalProperties": False, "properties": fields, "required": sorted(required)}


def benchmark_schema() -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of the TOML file of a benchmark, for editors."""
    return {"$schema": _DRAFT, **BenchmarkTable.model_json_schema(schema_generator=_JsonSchema)}


if __name__ == "__main__":
    sys.stdout.write(page())
