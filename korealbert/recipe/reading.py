"""Reading a recipe's TOML file into the validated specs of its stages, for every kind but ablations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.corpus import balance
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.crawl.fetch import FetchSpec
from korealbert.corpus.crawl.source import load_source
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality.stage import QualitySpec
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.examples import packing
from korealbert.examples.views import ViewsSpec
from korealbert.finetune.encoders.speed import SpeedSpec
from korealbert.formatting import nearest
from korealbert.huggingface import export
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import registry
from korealbert.recipe.benchmarks import (
    Benchmark,
    EncoderGrid,
    FinetuneGrid,
    PretrainedGrid,
    read_benchmarks,
    refuse_bi_encoders,
    refuse_unclear,
    refuse_unknown_metrics,
    too_long,
)
from korealbert.recipe.cross_lingual import problems_of
from korealbert.recipe.retrieval import Retrieval, read_retrieval
from korealbert.recipe.specs import (
    Corpus,
    CrossLingualRecipe,
    Evaluation,
    KoreanGrid,
    LanguageLossTable,
    Model,
    ModelTable,
    ProducedModel,
    Recipe,
    SplitTable,
)
from korealbert.recipe.tables import (
    KINDS,
    TOP,
    Kind,
    Problems,
    RecipeError,
    Tables,
    data_root,
    flattened,
    kind_of,
    located,
    named_recipe,
    read_toml,
)
from korealbert.recipe.training import LONG_TABLES, training_specs
from korealbert.report import stage as report
from korealbert.report.cross_lingual.stage import CrossLingualReportSpec
from korealbert.report.sections.printed_table import OWN
from korealbert.vocab import stage as vocab
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PhaseSpec
from korealbert.xpt.transfer import TransferSpec

_RETRIEVAL_TABLES = ("retrieval", "bi_encoder")
_MASKED_WORDS_ONLY: Mapping[str, Any] = {
    "sentence_task": "none",
    "masking": {"unit": "token"},
    "word_order": {"portion": 0.0},
}
"""RoBERTa's noise: single pieces, no sentence task, nothing moved. [views] of a recipe overrides it."""
_CROSS_LINGUAL_TABLES: Mapping[str, tuple[type[Spec], Mapping[str, Any]]] = {
    "dedup": (dedup.DedupSpec, {}),
    "balance": (balance.BalanceSpec, {}),
    "split": (SplitTable, {}),
    "vocab": (vocab.VocabSpec, {}),
    "views": (ViewsSpec, _MASKED_WORDS_ONLY),
    "phase1": (PhaseSpec, {"freeze": "chameleon"}),
    "phase2": (PhaseSpec, {"freeze": "none"}),
    "export": (export.ExportSpec, {}),
    "language_loss": (LanguageLossTable, {}),
    "report": (CrossLingualReportSpec, {}),
}
"""The spec of each table of a cross-lingual recipe, with defaults of this kind of recipe."""
_OTHER_CROSS_LINGUAL_TABLES = ("examples", "source", "transfer", "variants", "control", "finetune", "english", "encoder")
_RESERVED_VARIANTS = ("source", "control", "encoder", "language_loss")
"""Names that begin the labels of other models."""
_MEASURING_TABLES: Mapping[Kind, Sequence[str]] = {
    "model": ("encoder", "report"),
    "cross-lingual": ("encoder", "finetune", "english", "language_loss", "report"),
}
"""Tables that are ignored when a recipe is read for its models; an encoder there may be a model of the recipe that names it."""


def load(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> Recipe:
    """Read and validate a recipe.

    Relative paths start at the recipe's directory. ``${data}`` in a path stands for ``data``, by default for the directory that
    the recipe's top-level ``data`` names, and ``${shipped}`` for the directory of rules, sources and benchmarks in the package.
    ``overrides`` replace fields or whole tables by dotted name (``pretrain.model.share``) after those named by ``without`` are
    removed. Raises RecipeError if the recipe could not run.
    """
    reader = Reader(Path(path), data, overrides, without)
    with Problems() as problems:
        tables = [*registry.tables(), *LONG_TABLES, "encoder", "finetune", *_RETRIEVAL_TABLES]
        corpus = problems.of(partial(reader.corpus, tables))
        single, further = _single_tables(reader, registry.STAGES, Recipe, problems)
        benchmarks = problems.of(partial(read_benchmarks, reader, "finetune", FinetuneGrid))
        encoders = problems.of(reader.encoders)
        retrieval = problems.of(partial(read_retrieval, reader))
    reader.check_sources(corpus["extract"], **single)
    single |= training_specs(reader, single)
    reader.check_lengths(benchmarks, retrieval, encoders, {"[pretrain.model]": single["pretrain"].model.longest_sequence})
    reader.check_table(single["report"], benchmarks, [OWN, *encoders], single["speed"])
    return Recipe(
        **corpus,
        finetune=benchmarks,
        retrieval=retrieval,
        encoder=encoders,
        further=further,
        **single,
    )


def _single_tables(
    reader: Reader, stages: Sequence[Stage[Any]], kind: type[Recipe | Corpus], problems: Problems
) -> tuple[dict[str, Any], dict[str, Spec]]:
    """Read the stages with a single table: those that are fields of the recipe, and further ones if it has their tables."""
    own, further = {}, {}
    known = {field.name for field in fields(kind)}
    for name, stage in registry.tables(stages).items():
        if name == "quality":  # It is optional, and read with the sources that it names.
            continue
        if name in known:
            own[name] = problems.of(partial(reader.spec, stage.spec, name))
        elif name in reader.tables:
            further[name] = problems.of(partial(reader.spec, stage.spec, name))
    return own, further


def load_evaluation(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Evaluation:
    """Read and validate an evaluation; see ``load``. Raises RecipeError if it could not run."""
    reader = Reader(path, data, overrides)
    with Problems() as problems:
        problems.of(partial(reader.refuse_unknown, ["encoder", "finetune", *_RETRIEVAL_TABLES, "speed", "report"]))
        encoders = problems.of(reader.encoders)
        benchmarks = problems.of(partial(read_benchmarks, reader, "finetune", EncoderGrid))
        retrieval = problems.of(partial(read_retrieval, reader, own=False))
        speed = problems.of(partial(reader.spec, SpeedSpec, "speed"))
        layout = problems.of(partial(reader.spec, report.ReportSpec, "report"))
    if not benchmarks and not retrieval.collections:
        raise RecipeError(
            f"{path}: no [finetune.NAME] table, nor [retrieval.NAME]; name the benchmarks to measure [encoder.NAME] on"
        )
    reader.check_lengths(benchmarks, retrieval, encoders, {})
    reader.check_table(layout, benchmarks, list(encoders), speed)
    return Evaluation(
        **reader.heading(), encoder=encoders, finetune=benchmarks, retrieval=retrieval, speed=speed, report=layout
    )


def load_corpus(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Corpus:
    """Read and validate a recipe of a corpus alone; see ``load``. Raises RecipeError if it could not run."""
    reader = Reader(path, data, overrides)
    with Problems() as problems:
        corpus = problems.of(partial(reader.corpus, registry.tables(registry.CORPUS)))
        single, further = _single_tables(reader, registry.CORPUS, Corpus, problems)
    reader.check_sources(corpus["extract"], **single)
    if not {"vocab", "vocab_sizes"} & reader.tables.keys():
        single["vocab"] = None
    return Corpus(**corpus, further=further, **single)


def load_cross_lingual(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> CrossLingualRecipe:
    """Read and validate a cross-lingual recipe; see ``load``. Raises RecipeError if it could not run."""
    reader = Reader(path, data, overrides, without)
    tables = dict(_CROSS_LINGUAL_TABLES)
    if "tokenizer" in reader.table("vocab"):
        tables["vocab"] = TokenizerSpec, {}
    with Problems() as problems:
        corpus = problems.of(partial(reader.corpus, [*tables, *_OTHER_CROSS_LINGUAL_TABLES]))
        single: dict[str, Any] = {
            name: problems.of(partial(reader.validate, kind, name, {**defaults, **reader.table(name)}))
            for name, (kind, defaults) in tables.items()
        }
        single["examples"] = problems.of(partial(reader.spec, packing.ExamplesSpec, "examples", heldout_share=0.0))
        single["encoder"] = problems.of(reader.encoders)
        single["source"] = problems.of(partial(reader.model, "source"))
        single["variants"] = problems.of(partial(_variants, reader))
        names = problems.of(partial(reader.names, "control")) or ()
        single["control"] = {name: problems.of(partial(reader.spec, PretrainSpec, f"control.{name}")) for name in names}
        single["finetune"] = problems.of(partial(read_benchmarks, reader, "finetune", KoreanGrid))
        single["english"] = problems.of(partial(read_benchmarks, reader, "english", PretrainedGrid))
    reader.check_sources(corpus["extract"], **single)
    if isinstance(single["vocab"], TokenizerSpec) and "random_of" not in single["views"].masking.model_fields_set:
        pieces = single["views"].masking.model_copy(update={"random_of": "pieces"})
        single["views"] = single["views"].model_copy(update={"masking": pieces})
    recipe = CrossLingualRecipe(**corpus, **single)
    wrong = [f"{path}, {where}: {problem}" for where, problem in problems_of(recipe)]
    if wrong:
        raise RecipeError("\n".join(wrong))
    return recipe


def _variants(reader: Reader) -> dict[str, TransferSpec]:
    """Read the variants, whose defaults are [transfer]; without a table there is one, named ``xpt``."""
    common = reader.table("transfer")
    names = reader.names("variants") or ["xpt"]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name in _RESERVED_VARIANTS:
            reserved = ", ".join(map(repr, _RESERVED_VARIANTS))
            raise RecipeError(
                f"{reader.path}, [variants.{name}]: use lower-case letters, digits, - and _, and none of {reserved}"
            )
    return {
        name: reader.validate(TransferSpec, f"variants.{name}", {**common, **reader.table(f"variants.{name}")})
        for name in names
    }


class Reader(Tables):
    """Reads the tables that recipes of several kinds have, and checks them against each other."""

    def corpus(self, tables: Iterable[str]) -> dict[str, Any]:
        """Read the fields of a ``CorpusRecipe`` that concern sources, with name and description of the recipe.

        Raises RecipeError with all mistakes in their tables, and if the file has tables other than these and ``tables``.
        """
        with Problems() as problems:
            problems.of(partial(self.refuse_unknown, [*registry.per_source(), "quality", *tables]))
            found = problems.of(partial(self.names, "extract"))
            if found == []:
                problems.add(f"{self.path}: no [extract.NAME] table; a recipe needs at least one source")
            names = found or []
            sources = {name: problems.of(partial(self.spec, ExtractSpec, f"extract.{name}", source=name)) for name in names}
            cleaning = {name: problems.of(partial(self.spec, clean.CleanSpec, f"clean.{name}")) for name in names}
            for table in ("crawl", "fetch", "clean") if found is not None else ():
                problems.of(partial(self._refuse_strays, table, names))
            crawled, fetched = (problems.of(partial(self.names, table)) or () for table in ("crawl", "fetch"))
            for name, source in sources.items():
                if source is not None and not source.paths and name not in (*crawled, *fetched):
                    remedy = f"name files in paths, or add [crawl.{name}] or [fetch.{name}]"
                    problems.add(f"{self.path}, [extract.{name}]: nothing to extract; {remedy}")
            crawls = {name: problems.of(partial(self._crawl, name, sources.get(name))) for name in crawled}
            fetches = {name: problems.of(partial(self.spec, FetchSpec, f"fetch.{name}")) for name in fetched}
            quality = problems.of(partial(self._quality, names)) if found is not None else None
        return {
            **self.heading(),
            "crawl": crawls,
            "fetch": fetches,
            "extract": sources,
            "clean": cleaning,
            "quality": quality,
        }

    def _refuse_strays(self, table: str, sources: Collection[str]) -> None:
        """Raise RecipeError if a table of this kind names no source."""
        strays = [name for name in self.names(table) if name not in sources]
        if strays:
            message = f"{self.path}, [{table}.{{}}]: no source of this name{{}}; a source begins with [extract.{{}}]"
            raise RecipeError("\n".join(message.format(name, nearest(name, sources), name) for name in strays))

    def refuse_unknown(self, tables: Iterable[str]) -> None:
        """Raise RecipeError if the file has a table other than these, or an unknown field at the top."""
        known = [*TOP, *tables]
        unknown = [name for name in self.tables if name not in known]
        if unknown:
            raise RecipeError("\n".join(f"{self.path}: unknown table or field [{n}]{nearest(n, known)}" for n in unknown))

    def _quality(self, sources: Iterable[str]) -> QualitySpec | None:
        """Read [quality], if there is one. Raises RecipeError if it names a source that the recipe does not have."""
        if "quality" not in self.tables:
            return None
        spec, known = self.spec(QualitySpec, "quality"), list(sources)
        for name in spec.named_sources():
            if name not in known:
                raise RecipeError(
                    f"{self.path}, [quality]: no source {name!r}{nearest(name, known)}; there are {', '.join(known)}"
                )
        return spec

    def _crawl(self, name: str, extract: ExtractSpec | None) -> CrawlSpec:
        spec = self.spec(CrawlSpec, f"crawl.{name}")
        if extract is not None and extract.format != "warc":
            raise RecipeError(f'{self.path}, [extract.{name}]: a crawl stores WARC files; set format = "warc"')
        with located(f"{self.path}, [crawl.{name}], field 'source'"):
            load_source(spec.source.path, within=data_root())
        return spec

    def check_sources(self, sources: Iterable[str], **specs: Any) -> None:
        """Raise RecipeError if [balance], [dedup] or [vocab] names a source that the recipe does not have."""
        named = {
            "[balance], field 'sources'": specs["balance"].sources if self.table("balance") else (),
            "[dedup], field 'priority'": specs["dedup"].priority,
            "[vocab], field 'source_weights'": getattr(specs["vocab"], "source_weights", ()),
        }
        known = ", ".join(sources)
        with Problems() as problems:
            for where, names in named.items():
                for name in names:
                    if name not in sources:
                        problems.add(f"{self.path}, {where}: no source {name!r}{nearest(name, sources)}; there are {known}")

    def heading(self) -> dict[str, str]:
        """Return the name and the description of the recipe."""
        return {
            "name": str(self.tables.get("name", self.path.stem)),
            "description": str(self.tables.get("description", "")),
        }

    def encoders(self) -> dict[str, Model]:
        """Read the models of ``[encoder.NAME]`` by name."""
        with Problems() as problems:
            for name in self.names("encoder"):
                problems.of(partial(refuse_unclear, self, f"encoder.{name}", name))
            return {
                name: problems.of(partial(self.model, f"encoder.{name}", post_trained=True)) for name in self.names("encoder")
            }

    def check_lengths(
        self,
        benchmarks: Mapping[str, Benchmark[Any]],
        retrieval: Retrieval,
        encoders: Mapping[str, Model],
        others: Mapping[str, int | None],
    ) -> None:
        """Raise RecipeError if inputs may be longer than the positions of a model; ``others`` are the recipe's own models."""
        positions = dict(others)
        for name, encoder in encoders.items():
            with located(f"{self.path}, [encoder.{name}]"):
                positions[f"[encoder.{name}]"] = encoder.longest_input()
        wanted = {f"finetune.{name}": benchmark.first.max_length for name, benchmark in benchmarks.items()}
        wanted |= {f"bi_encoder.{name}": table.max_length for name, table in retrieval.bi_encoders.items()}
        wanted |= {f"retrieval.{name}": table.max_length or 0 for name, table in retrieval.collections.items()}
        for table, max_length in wanted.items():
            for problem in too_long(max_length, positions):
                raise RecipeError(f"{self.path}, [{table}], field 'max_length': {problem}")

    def check_table(
        self,
        layout: report.ReportSpec,
        benchmarks: Mapping[str, Benchmark[Any]],
        encoders: Collection[str],
        speed: SpeedSpec,
    ) -> None:
        """Raise RecipeError if the table of the report names something that the recipe does not measure as printed."""
        if layout.table is None:
            return
        wanted: list[tuple[str, str, Collection[str]]] = [
            ("benchmark", column.benchmark, benchmarks) for column in layout.table.columns
        ]
        wanted += [("encoder", row.encoder, encoders) for row in layout.table.rows]
        wanted += [("shape", row.shape, speed.architectures) for row in layout.table.rows]
        for kind, name, known in wanted:
            if name and name not in known:
                there = ", ".join(known) or "none"
                raise RecipeError(
                    f"{self.path}, [report.table]: no {kind} {name!r}{nearest(name, known)}; the recipe has {there}"
                )
        for column in layout.table.columns:
            if column.benchmark and column.init not in benchmarks[column.benchmark].grid.inits:
                raise RecipeError(
                    f"{self.path}, [report.table], column {column.title!r}: [finetune.{column.benchmark}] has no init "
                    f"{column.init!r}; add it to inits, or remove the column"
                )
        refuse_bi_encoders(f"{self.path}, [report.table]", layout.table.columns, benchmarks)
        refuse_unknown_metrics(f"{self.path}, [report.table]", layout.table.columns, benchmarks)

    def model(self, name: str, *, post_trained: bool = False) -> Model:
        """Read the model of a table; if ``post_trained``, a cross-lingual recipe may make it too.

        Raises RecipeError if the model cannot be found and the recipe that makes it could not run.
        """
        table, where = self.spec(ModelTable, name), f"{self.path}, [{name}]"
        if table.recipe is None:
            return Model(table.place())
        other = named_recipe(where, self.path, table.recipe)
        with located(f"{where}, field 'recipe'"):
            kind = kind_of(other)
            if kind not in (_MEASURING_TABLES if post_trained else ("model",)):
                raise RecipeError(f"{other} is itself a recipe of {KINDS[kind]}; name one of a model")
            without = [ignored for ignored in _MEASURING_TABLES[kind] if ignored in read_toml(other)]
            without += [removed for removed in table.without if removed.split(".")[0] not in without]
            read = load if kind == "model" else load_cross_lingual
            recipe = read(other, data=self.data_given, overrides=flattened(table.set), without=without)
        with located(f"{where}, field 'model'"):
            produced = _produced_by(recipe, table.model)
        return Model(table.place(), recipe, produced)


def _produced_by(recipe: Recipe | CrossLingualRecipe, model: str | None) -> ProducedModel:
    """Return the model of this name. Raises ValueError if there is none, or if there are several and no name is given."""
    if isinstance(recipe, Recipe):
        if model is not None:
            raise ValueError("that recipe makes one model; remove it")
        return recipe.produced
    known = ", ".join(recipe.trained)
    if model is None:
        if recipe.control or len(recipe.variants) > 1:
            raise ValueError(f"missing; that recipe makes {known}")
        model = recipe.trained[-1]
    if model not in recipe.trained:
        raise ValueError(f"no model {model!r}{nearest(model, recipe.trained)}; that recipe makes {known}")
    return recipe.produced(model)
