"""Retrieval in a recipe: the tables `[retrieval.NAME]` and `[bi_encoder.NAME]`, and the stages that they form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from korealbert.artifact import EACH_ONCE, Spec
from korealbert.finetune.retrieval import bi_encoder
from korealbert.finetune.retrieval import stage as retrieval_stage
from korealbert.finetune.retrieval.bi_encoder import BiEncoderSpec
from korealbert.finetune.retrieval.stage import BASELINES, CollectionSpec, RetrievalSpec
from korealbert.finetune.spec import INITS, Init
from korealbert.huggingface.modern import ModernBert
from korealbert.recipe.benchmarks import Measured, Seed, add_file
from korealbert.recipe.nodes import Nodes
from korealbert.recipe.tables import Problems, Tables


class BiEncoderTable(BiEncoderSpec):
    """A bi-encoder trained on triples of entailment; every `[retrieval.NAME]` measures it."""

    seeds: Annotated[tuple[Seed, ...], EACH_ONCE] = Field(default=(1, 2, 3), min_length=1)
    """One training per seed."""
    inits: Annotated[tuple[Init, ...], EACH_ONCE] = Field(default=INITS, min_length=1)
    """Initial weights: pretrained, and random ones as a baseline; other encoders start from their own weights only."""

    def cell(self, init: Init, seed: int, apart_from: tuple[CollectionSpec, ...]) -> BiEncoderSpec:
        """Return the spec of one training."""
        return BiEncoderSpec(**_fields(self, BiEncoderSpec) | {"init": init, "seed": seed, "apart_from": apart_from})


class RetrievalTable(RetrievalSpec):
    """A collection in BEIR's format, searched by BM25, by the encoder's mean vectors, and by every `[bi_encoder.NAME]`."""

    seeds: Annotated[tuple[Seed, ...], EACH_ONCE] = Field(default=(1, 2, 3), min_length=1)
    """Seeds of random weights, one run each."""
    inits: Annotated[tuple[Init, ...], EACH_ONCE] = Field(default=INITS, min_length=1)
    """Weights to search with: pretrained, and random ones as a baseline; of other encoders only their own."""

    def cell(self, **fields: Any) -> RetrievalSpec:
        """Return the spec of one system. Fields that do not affect it are left at their default, so equal runs are cached."""
        given = _fields(self, RetrievalSpec) | fields
        of_others = ("init", "seed", "max_length", "query_prefix", "document_prefix", "precision")
        dropped = ("k1", "b") if given["system"] == "vectors" else of_others
        return RetrievalSpec(**{name: value for name, value in given.items() if name not in dropped})

    @property
    def collection(self) -> CollectionSpec:
        """The spec of the collection alone."""
        return CollectionSpec(**_fields(self, CollectionSpec))


def _fields(table: Spec, kind: type[Spec]) -> dict[str, Any]:
    return {name: getattr(table, name) for name in kind.model_fields}


class Retrieval(NamedTuple):
    """The tables of a recipe by name."""

    collections: Mapping[str, RetrievalTable]
    bi_encoders: Mapping[str, BiEncoderTable]


def read_retrieval(tables: Tables, *, own: bool = True) -> Retrieval:
    """Read both kinds of tables; ``own``: the recipe makes a model itself. Raises RecipeError if one could not run."""
    reserved = ("system", "init", "seed", "apart_from")
    others = {"retrieval": ("inits", "seeds"), "bi_encoder": ("inits",)} if not own else {}
    with Problems() as problems:
        found = Retrieval(
            *(
                {
                    name: problems.of(partial(_read, tables, f"{table}.{name}", kind, (*reserved, *others.get(table, ()))))
                    for name in tables.names(table)
                }
                for table, kind in (("retrieval", RetrievalTable), ("bi_encoder", BiEncoderTable))
            )
        )
        encoders = problems.of(partial(tables.names, "encoder")) or ()
        for name in found.bi_encoders:
            if name in (*INITS, *BASELINES, *encoders):
                problems.add(f"{tables.path}, [bi_encoder.{name}]: another system has this name; choose another")
    return found


def _read(tables: Tables, where: str, kind: type[Any], reserved: Iterable[str]) -> Any:
    tables.refuse_reserved(where, tables.table(where), reserved)
    return tables.spec(kind, where)


def add_retrieval(nodes: Nodes, retrieval: Retrieval, own: Measured | None, others: Mapping[str, Measured]) -> None:
    """Add all bi-encoders, and all systems on all collections.

    ``own`` is the recipe's model, ``others`` are encoders by name. Labels are ``bi_encoder/NAME/[ENCODER/]INIT/SEED`` and
    ``retrieval/COLLECTION/SYSTEM``. Systems are ``bm25-morphemes``, and for each model ``[ENCODER/]bm25-pieces``,
    ``[ENCODER/]pretrained``, ``random/SEED`` and ``BI_ENCODER/[ENCODER/]INIT/SEED``.
    """
    files = {}
    for name, table in retrieval.collections.items():
        if table.remote is not None:
            files[name] = add_file(nodes, f"benchmark/{name}/data", table.remote)
    models = {"": own} if own is not None else {}
    models |= {f"{name}/": measured for name, measured in others.items()}
    trained = dict(_add_bi_encoders(nodes, retrieval, models, files))
    for name, table in retrieval.collections.items():
        data = {"data": files[name]} if name in files else {}
        for system, inputs, spec in _systems(table, models, trained):
            nodes.add(f"retrieval/{name}/{system}", retrieval_stage.STAGE, spec, **data, **inputs)


def _systems(
    table: RetrievalTable, models: Mapping[str, Measured], trained: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, str], RetrievalSpec]]:
    """Yield the systems that search a collection, each with its inputs and spec."""
    yield "bm25-morphemes", {}, table.cell(system="bm25-morphemes")
    vectors = table.cell(system="vectors")
    for root, measured in models.items():
        yield f"{root}bm25-pieces", {"model": measured.model}, table.cell(system="bm25-pieces")
        if root or "pretrained" in table.inits:
            yield f"{root}pretrained", {"model": measured.model}, vectors
        for seed in table.seeds if not root and "random" in table.inits else ():
            yield f"random/{seed}", _trained(measured), table.cell(system="vectors", init="random", seed=seed)
    for system, label in trained.items():
        yield system, {"model": label}, vectors


def _add_bi_encoders(
    nodes: Nodes, retrieval: Retrieval, models: Mapping[str, Measured], files: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Add the bi-encoders; yield the name of the system and the label of each."""
    apart = tuple(table.collection for table in retrieval.collections.values())
    fetched = {f"apart/{n}": files[name] for n, name in enumerate(retrieval.collections) if name in files}
    for name, table in retrieval.bi_encoders.items():
        for root, measured in models.items():
            inputs = _trained(measured)
            for init in ("pretrained",) if root else table.inits:
                for seed in table.seeds:
                    where = f"{name}/{root}{init}/{seed}"
                    spec = table.cell(init, seed, apart)
                    yield where, nodes.add(f"bi_encoder/{where}", bi_encoder.STAGE, spec, **inputs, **fetched)


def _trained(measured: Measured) -> dict[str, str]:
    """Return the inputs, by role, of a stage that trains an encoder or draws fresh weights for it."""
    # Layers of modern encoders share no weights, so the export alone is enough.
    return {"model": measured.model} if measured.architecture == ModernBert.model_type else measured.inputs
