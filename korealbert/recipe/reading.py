"""Reading a recipe's TOML file into the validated specs of every stage: of a model from raw text, a corpus, a post-training and
an evaluation."""

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
from korealbert.finetune.spec import INITS
from korealbert.formatting import nearest
from korealbert.huggingface import export
from korealbert.huggingface.modern import CLASSIFIER
from korealbert.model.config import ModernSpec
from korealbert.pretrain.cooccurrence import CooccurrenceSpec
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import registry
from korealbert.recipe.benchmarks import (
    Benchmark,
    EncoderGrid,
    FinetuneGrid,
    PretrainedGrid,
    read_benchmarks,
    refuse_bi_encoders,
    too_long,
)
from korealbert.recipe.cross_lingual import problems_of
from korealbert.recipe.retrieval import read_retrieval
from korealbert.recipe.specs import (
    Corpus,
    CrossLingualRecipe,
    Evaluation,
    KoreanGrid,
    LanguageLossTable,
    Made,
    Model,
    ModelTable,
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
    merged,
    named_recipe,
    read_toml,
)
from korealbert.report import stage as report
from korealbert.report.cross_lingual.stage import CrossLingualReportSpec
from korealbert.report.sections.printed_table import OWN
from korealbert.vocab import stage as vocab
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PhaseSpec
from korealbert.xpt.transfer import TransferSpec

_OF_RETRIEVAL = ("retrieval", "bi_encoder")

_LONG: dict[str, type[Spec]] = {"examples_long": packing.ExamplesSpec, "views_long": ViewsSpec}


_MASKED_WORDS_ONLY: Mapping[str, Any] = {
    "sentence_task": "none",
    "masking": {"unit": "token"},
    "word_order": {"portion": 0.0},
}
"""RoBERTa's noise: single pieces, no sentence task, nothing moved. A recipe's [views] goes before it."""

_OF_CROSS_LINGUAL: Mapping[str, tuple[type[Spec], Mapping[str, Any]]] = {
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
"""The spec of a table, and what its fields are where it does not say otherwise."""

_RESERVED = ("source", "control", "encoder", "language_loss")
"""Prefixes of labels of models that are not variants."""

_FURTHER = ("examples", "source", "transfer", "variants", "control", "finetune", "english", "encoder")
"""Its other tables."""

_BESIDE: Mapping[Kind, Sequence[str]] = {
    "model": ("encoder",),
    "cross-lingual": ("encoder", "finetune", "english", "language_loss"),
}
"""Tables of a recipe that its models are made without; an encoder could be the model of the very recipe that names this one."""


def load(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> Recipe:
    """Read and validate a recipe.

    Relative paths in it start at the recipe's directory; ``${data}`` in a path stands for the directory that the
    recipe's top-level ``data`` names, or for the argument ``data``, and ``${shipped}`` for that of the rules, sources and
    benchmarks which the package ships. ``overrides`` holds fields or whole tables by dotted name (``pretrain.model.share``)
    that take the place of the recipe's, ``without`` names some that are taken out before. Raises RecipeError for anything that
    could not run.
    """
    reader = Reader(Path(path), data, overrides, without)
    with Problems() as problems:
        tables = [*registry.tables(), *_LONG, "encoder", "finetune", *_OF_RETRIEVAL]
        sources = problems.of(partial(reader.sources, tables))
        single, further = _once(reader, registry.STAGES, Recipe, problems)
        benchmarks = problems.of(partial(read_benchmarks, reader, "finetune", FinetuneGrid))
        encoders = problems.of(reader.encoders)
        retrieval = problems.of(partial(read_retrieval, reader, reader.tables.get("encoder", ())))
    reader.check_sources(sources, **single)
    single["cooccurrence"] = _cooccurrence(reader, single["cooccurrence"], single["pretrain"])
    length, model = single["examples"].sequence_length, single["pretrain"].model
    if length > model.longest_sequence:
        offset = f" less position_offset = {model.position_offset}" if model.position_offset else ""
        raise RecipeError(
            f"{reader.path}: [examples] sequence_length = {length} exceeds [pretrain.model] max_positions = "
            f"{model.max_positions}{offset}; shorten the examples or raise max_positions"
        )
    step, kept = single["export"].snapshot, single["pretrain"].snapshots
    if step is not None and step not in kept:
        raise RecipeError(
            f"{reader.path}, [export]: snapshot = {step} is none of snapshots = {list(kept)} of [pretrain]; add it there"
        )
    if not isinstance(model, ModernSpec) and (given := CLASSIFIER.keys() & single["export"].model_fields_set):
        raise RecipeError(
            f"{reader.path}, [export]: {min(given)} is a setting of modern encoders, which [pretrain.model] is not; remove it"
        )
    reader.check_lengths(benchmarks, encoders, {"[pretrain.model]": model.longest_sequence})
    reader.check_table(single["report"], benchmarks, [OWN, *encoders], single["speed"])
    return Recipe(
        **reader.brought(sources),
        finetune=benchmarks,
        retrieval=retrieval,
        encoder=encoders,
        further=further,
        **single,
        **_long(reader, single["examples"], single["pretrain"]),
    )


def _once(
    reader: Reader, stages: Sequence[Stage[Any]], kind: type[Recipe | Corpus], problems: Problems
) -> tuple[dict[str, Any], dict[str, Spec]]:
    """The specs of the stages with one table by its name: fields of the recipe, and those of further stages that it names."""
    own, further = {}, {}
    known = {field.name for field in fields(kind)}
    for name, stage in registry.tables(stages).items():
        if name == "quality":  # It names sources, and a recipe may be without it.
            continue
        if name in known:
            own[name] = problems.of(partial(reader.spec, stage.spec, name))
        elif name in reader.tables:
            further[name] = problems.of(partial(reader.spec, stage.spec, name))
    return own, further


def _cooccurrence(reader: Reader, spec: CooccurrenceSpec, pretrain: PretrainSpec) -> CooccurrenceSpec:
    """With the width of the model. Raises RecipeError where the table is given and not used."""
    if "cooccurrence" in reader.tables and pretrain.embeddings == "random":
        remedy = "set embeddings = 'cooccurrence' in [pretrain], or remove the table"
        raise RecipeError(f"{reader.path}, [cooccurrence]: the model's word embeddings begin at random; {remedy}")
    return spec.of_width(pretrain.shape.embedding_size)


def _long(reader: Reader, examples: packing.ExamplesSpec, pretrain: PretrainSpec) -> dict[str, Any]:
    """The specs of the long rows and their views: as those of the short ones, where they do not say otherwise."""
    given = [name for name in _LONG if name in reader.tables]
    if pretrain.long is None:
        if given:
            remedy = "say from which step on in [pretrain.long], or remove the table"
            raise RecipeError(f"{reader.path}, [{given[0]}]: [pretrain] has no phase of long sequences; {remedy}")
        return dict.fromkeys(_LONG)
    length, short = pretrain.model.longest_sequence, examples.sequence_length
    # A document gives up to 2 + length / short times as many short rows as long ones: so the documents that are held out
    # of the long rows have been held out of the short ones.
    held_out = max(1, examples.heldout_max_rows * short // (length + 2 * short))
    inherited = {**reader.table("examples"), "sequence_length": length, "heldout_max_rows": held_out}
    rows = reader.validate(packing.ExamplesSpec, "examples_long", {**inherited, **reader.table("examples_long")})
    if not short < rows.sequence_length <= length:
        raise RecipeError(
            f"{reader.path}, [examples_long]: sequence_length = {rows.sequence_length} must lie above {short} of [examples] "
            f"and not above {length} positions of [pretrain.model]"
        )
    noise = merged(reader.table("views"), reader.table("views_long"))
    return {"examples_long": rows, "views_long": reader.validate(ViewsSpec, "views_long", noise)}


def load_evaluation(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Evaluation:
    """Read and validate an evaluation; see ``reading.load``. Raises RecipeError for anything that could not run."""
    reader = Reader(path, data, overrides)
    reader.refuse_unknown(["encoder", "finetune", *_OF_RETRIEVAL, "speed", "report"])
    with Problems() as problems:
        encoders = problems.of(reader.encoders)
        benchmarks = problems.of(partial(read_benchmarks, reader, "finetune", EncoderGrid))
        retrieval = problems.of(partial(read_retrieval, reader, reader.tables.get("encoder", ()), own=False))
    if not benchmarks and not retrieval.collections:
        raise RecipeError(
            f"{path}: no [finetune.NAME] table, nor [retrieval.NAME]; name the benchmarks to measure [encoder.NAME] on"
        )
    reader.check_lengths(benchmarks, encoders, {})
    speed, layout = reader.spec(SpeedSpec, "speed"), reader.spec(report.ReportSpec, "report")
    reader.check_table(layout, benchmarks, list(encoders), speed)
    return Evaluation(
        **reader.heading(), encoder=encoders, finetune=benchmarks, retrieval=retrieval, speed=speed, report=layout
    )


def load_corpus(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Corpus:
    """Read and validate a recipe of a corpus alone; see ``load``. Raises RecipeError for anything that could not run."""
    reader = Reader(path, data, overrides)
    with Problems() as problems:
        sources = problems.of(partial(reader.sources, registry.tables(registry.CORPUS)))
        single, further = _once(reader, registry.CORPUS, Corpus, problems)
    reader.check_sources(sources, **single)
    if not {"vocab", "vocab_sizes"} & reader.tables.keys():
        single["vocab"] = None
    return Corpus(**reader.brought(sources), further=further, **single)


def load_cross_lingual(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> CrossLingualRecipe:
    """Read and validate a cross-lingual recipe; see ``load``. Raises RecipeError for anything that could not run."""
    reader = Reader(path, data, overrides, without)
    tables = dict(_OF_CROSS_LINGUAL)
    if "tokenizer" in reader.table("vocab"):
        tables["vocab"] = TokenizerSpec, {}
    with Problems() as problems:
        sources = problems.of(partial(reader.sources, [*_OF_CROSS_LINGUAL, *_FURTHER]))
        single: dict[str, Any] = {
            name: problems.of(partial(reader.validate, kind, name, {**before, **reader.table(name)}))
            for name, (kind, before) in tables.items()
        }
        single["examples"] = problems.of(partial(reader.spec, packing.ExamplesSpec, "examples", heldout_share=0.0))
        single["encoder"] = problems.of(reader.encoders)
        single["source"] = problems.of(partial(reader.model, "source"))
        single["variants"] = problems.of(partial(_variants, reader))
        names = reader.names("control")
        single["control"] = {name: problems.of(partial(reader.spec, PretrainSpec, f"control.{name}")) for name in names}
        single["finetune"] = problems.of(partial(read_benchmarks, reader, "finetune", KoreanGrid))
        single["english"] = problems.of(partial(read_benchmarks, reader, "english", PretrainedGrid))
    reader.check_sources(sources, **single)
    if isinstance(single["vocab"], TokenizerSpec) and "random_of" not in single["views"].masking.model_fields_set:
        pieces = single["views"].masking.model_copy(update={"random_of": "pieces"})
        single["views"] = single["views"].model_copy(update={"masking": pieces})
    recipe = CrossLingualRecipe(**reader.brought(sources), **single)
    wrong = [f"{path}, {where}: {problem}" for where, problem in problems_of(recipe)]
    if wrong:
        raise RecipeError("\n".join(wrong))
    return recipe


def _variants(reader: Reader) -> dict[str, TransferSpec]:
    """Every variant is [transfer] with some fields set otherwise; without any there is one, named ``xpt``."""
    common = reader.table("transfer")
    names = reader.names("variants") or ["xpt"]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name in _RESERVED:
            reserved = ", ".join(map(repr, _RESERVED))
            raise RecipeError(
                f"{reader.path}, [variants.{name}]: use lower-case letters, digits, - and _, and none of {reserved}"
            )
    return {
        name: reader.validate(TransferSpec, f"variants.{name}", {**common, **reader.table(f"variants.{name}")})
        for name in names
    }


class Reader(Tables):
    """The tables of a recipe."""

    def sources(self, tables: Iterable[str]) -> dict[str, ExtractSpec]:
        """The sources by name, once it is clear that the file has no table but those of sources and ``tables``."""
        with Problems() as problems:
            problems.of(partial(self.refuse_unknown, [*registry.per_source(), "quality", *tables]))
            found = problems.of(partial(self.names, "extract"))
            if found == []:
                problems.add(f"{self.path}: no [extract.NAME] table; a recipe needs at least one source")
            names = found or []
            sources = {name: problems.of(partial(self.spec, ExtractSpec, f"extract.{name}", source=name)) for name in names}
            for name in names:
                problems.of(partial(self.spec, clean.CleanSpec, f"clean.{name}"))
            for table in ("crawl", "fetch", "clean") if found is not None else ():
                problems.of(partial(self._refuse_strays, table, names))
            brought = [name for table in ("crawl", "fetch") for name in problems.of(partial(self.names, table)) or ()]
            for name, source in sources.items():
                if source is not None and not source.paths and name not in brought:
                    remedy = f"name files in paths, or add [crawl.{name}] or [fetch.{name}]"
                    problems.add(f"{self.path}, [extract.{name}]: nothing to extract; {remedy}")
        return sources

    def _refuse_strays(self, table: str, sources: Collection[str]) -> None:
        """Raise RecipeError where a table of this kind names no source."""
        strays = [name for name in self.names(table) if name not in sources]
        if strays:
            message = f"{self.path}, [{table}.{{}}]: no source of this name{{}}; a source begins with [extract.{{}}]"
            raise RecipeError("\n".join(message.format(name, nearest(name, sources), name) for name in strays))

    def refuse_unknown(self, tables: Iterable[str]) -> None:
        """Raise RecipeError where the file has a table or field that is none of these, nor one of every recipe."""
        known = [*TOP, *tables]
        unknown = [name for name in self.tables if name not in known]
        if unknown:
            raise RecipeError("\n".join(f"{self.path}: unknown table or field [{n}]{nearest(n, known)}" for n in unknown))

    def brought(self, sources: Mapping[str, ExtractSpec]) -> dict[str, Any]:
        """Name and description of the recipe, and what its sources are made of."""
        return {
            **self.heading(),
            "crawl": {name: self._crawl(name, sources[name]) for name in self.names("crawl")},
            "fetch": {name: self.spec(FetchSpec, f"fetch.{name}") for name in self.names("fetch")},
            "extract": sources,
            "clean": {name: self.spec(clean.CleanSpec, f"clean.{name}") for name in sources},
            "quality": self._quality(sources),
        }

    def _quality(self, sources: Iterable[str]) -> QualitySpec | None:
        """None without a table. Raises RecipeError for a source that the recipe does not have."""
        if "quality" not in self.tables:
            return None
        spec, known = self.spec(QualitySpec, "quality"), list(sources)
        for name in spec.named_sources():
            if name not in known:
                raise RecipeError(f"{self.path}, [quality]: no source {name!r}{nearest(name, known)}")
        return spec

    def _crawl(self, name: str, extract: ExtractSpec) -> CrawlSpec:
        spec = self.spec(CrawlSpec, f"crawl.{name}")
        if extract.format != "warc":
            raise RecipeError(f'{self.path}, [extract.{name}]: a crawl stores WARC files; set format = "warc"')
        try:
            load_source(spec.source.path, within=data_root())
        except ValueError as error:
            raise RecipeError(f"{self.path}, [crawl.{name}], field 'source': {error}") from None
        return spec

    def check_sources(self, sources: Iterable[str], **specs: Any) -> None:
        """Checks across tables: the names of sources that ``balance``, ``dedup`` and ``vocab`` speak of."""
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
        """Name and description of the recipe."""
        return {
            "name": str(self.tables.get("name", self.path.stem)),
            "description": str(self.tables.get("description", "")),
        }

    def encoders(self) -> dict[str, Model]:
        """The models of ``[encoder.NAME]`` by name."""
        for name in self.names("encoder"):
            if name in INITS:
                raise RecipeError(f"{self.path}, [encoder.{name}]: this name says what fine-tuning starts from; choose another")
        with Problems() as problems:
            return {
                name: problems.of(partial(self.model, f"encoder.{name}", post_trained=True)) for name in self.names("encoder")
            }

    def check_lengths(
        self, benchmarks: Mapping[str, Benchmark[Any]], encoders: Mapping[str, Model], others: Mapping[str, int | None]
    ) -> None:
        """Raise RecipeError where a benchmark's inputs may be longer than one of the models that read them has positions."""
        positions = dict(others)
        for name, encoder in encoders.items():
            try:
                positions[f"[encoder.{name}]"] = encoder.longest_input()
            except ValueError as error:
                raise RecipeError(f"{self.path}, [encoder.{name}]: {error}") from None
        for name, benchmark in benchmarks.items():
            for problem in too_long(benchmark.first, positions):
                raise RecipeError(f"{self.path}, [finetune.{name}], field 'max_length': {problem}")

    def check_table(
        self,
        layout: report.ReportSpec,
        benchmarks: Mapping[str, Benchmark[Any]],
        encoders: Collection[str],
        speed: SpeedSpec,
    ) -> None:
        """Raise RecipeError where the table of a report names something that the recipe does not measure as printed."""
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
        refuse_bi_encoders(f"{self.path}, [report.table]", layout.table.columns, benchmarks)

    def model(self, name: str, *, post_trained: bool = False) -> Model:
        """The model of the table of this dotted name; ``post_trained``: a cross-lingual recipe may make it too.

        Raises RecipeError where neither it nor what makes it could be had.
        """
        table, where = self.spec(ModelTable, name), f"{self.path}, [{name}]"
        if table.recipe is None:
            return Model(table.place())
        other = named_recipe(where, self.path.parent / table.recipe)
        try:
            kind = kind_of(other)
            if kind not in (_BESIDE if post_trained else ("model",)):
                raise RecipeError(f"{other} is itself a recipe of {KINDS[kind]}; name one of a model")
            without = [beside for beside in _BESIDE[kind] if beside in read_toml(other)]
            read = load if kind == "model" else load_cross_lingual
            recipe = read(other, data=self.data_given, overrides=flattened(table.set), without=without)
        except ValueError as error:
            raise RecipeError(f"{where}, field 'recipe': {error}") from None
        try:
            return Model(table.place(), recipe, _made_by(recipe, table.model))
        except ValueError as error:
            raise RecipeError(f"{where}, field 'model': {error}") from None


def _made_by(recipe: Recipe | CrossLingualRecipe, model: str | None) -> Made:
    """The model of this name. Raises ValueError where there is none, or several and no name."""
    if isinstance(recipe, Recipe):
        if model is not None:
            raise ValueError("that recipe makes one model; remove it")
        return recipe.made
    known = ", ".join(recipe.trained)
    if model is None:
        if recipe.control or len(recipe.variants) > 1:
            raise ValueError(f"missing; that recipe makes {known}")
        model = recipe.trained[-1]
    if model not in recipe.trained:
        raise ValueError(f"no model {model!r}{nearest(model, recipe.trained)}; that recipe makes {known}")
    return recipe.made(model)
