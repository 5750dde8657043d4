"""Stage ``balance``: drop news articles until the categories are nearer to their target shares.

The first functions compute how many characters each category may keep; in their docstrings a category has n characters of N
in all, the share q = n / N, and the target t. Articles are then kept in the order of a hash of seed, id and text until the
characters of their category are used up. The choice depends on neither input order nor workers, and a larger ``alpha`` keeps
every article that a smaller one keeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
from pydantic import Field, model_validator

from korealbert.artifact import Deployment, Inputs, Runtime, Spec, Stage, Statistics, Stats
from korealbert.artifact.shards import map_shards
from korealbert.documents.schema import CATEGORIES, Document, Drop
from korealbert.documents.shards import (
    NO_DOCUMENTS,
    DocumentShard,
    DocumentStats,
    TableWriter,
    read_documents,
    read_rows,
    refuse_nothing_kept,
    sum_stats,
)
from korealbert.philox import hash64

Characters = Mapping[str, int]


def shares(characters: Characters) -> dict[str, float]:
    """Return each category's share of all characters, or nothing if there are no characters."""
    total = sum(characters.values())
    return {name: count / total for name, count in characters.items()} if total else {}


def present_targets(characters: Characters, targets: Mapping[str, float]) -> dict[str, float]:
    """Return the targets of the categories that have characters, scaled to sum to 1."""
    weights = {name: targets[name] for name, count in characters.items() if count and targets.get(name, 0) > 0}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _floor(exact: float) -> int:
    """Round down, but keep a whole number that came out a rounding error too small."""
    return math.floor(exact * (1 + 1e-12))


def cap(characters: Characters, targets: Mapping[str, float], alpha: float) -> dict[str, int]:
    """Return min(n, ⌊alpha · t · N⌋) for each category with a target; N counts these categories only.

    A category below its target share never loses share. The greatest share / target and the total variation distance to the
    targets never grow. A larger alpha keeps at least as much of every category. A single category's distance may grow:
    capped at a third, the shares (1/3, 5/9, 1/9) become (3/7, 3/7, 1/7).
    """
    wanted = present_targets(characters, targets)
    total = sum(characters[name] for name in wanted)
    return {name: min(characters[name], _floor(alpha * share * total)) for name, share in wanted.items()}


def proportional(characters: Characters, targets: Mapping[str, float]) -> dict[str, int]:
    """Return ⌊t · s⌋ with s = min n / t: exactly the target shares, limited by the scarcest category."""
    wanted = present_targets(characters, targets)
    scale = min((characters[name] / share for name, share in wanted.items()), default=0.0)
    return {name: min(characters[name], _floor(share * scale)) for name, share in wanted.items()}


def temperature_shares(characters: Characters, temperature: float) -> dict[str, float]:
    """Return p ∝ q^(1/T): T = 1 is the natural distribution, T → ∞ the uniform one. Empty categories are left out."""
    powers = {name: share ** (1 / temperature) for name, share in shares(characters).items() if share > 0}
    total = sum(powers.values())
    return {name: power / total for name, power in powers.items()}


def temperature(characters: Characters, value: float) -> dict[str, int]:
    """Return ⌊n · w / max w⌋ with w = p / q, p from ``temperature_shares``: the scarcest category is kept whole."""
    if value == 1:
        return dict(characters)
    natural, wanted = shares(characters), temperature_shares(characters, value)
    weights = {name: share / natural[name] for name, share in wanted.items()}
    greatest = max(weights.values(), default=1.0)
    return {name: math.floor(characters[name] * (weight / greatest)) for name, weight in weights.items()}


_INTERVAL = 1 << 56
"""Draws are first counted in intervals of this width, so that only a 256th of the documents is sorted in memory."""

_MEASURE_SCHEMA = pa.schema(
    [("stratum", pa.string()), ("category", pa.string()), ("draw", pa.uint64()), ("characters", pa.int64())]
)
_THRESHOLD_SCHEMA = pa.schema([("stratum", pa.string()), ("category", pa.string()), ("last_draw", pa.uint64())])


class BalanceSpec(Spec):
    """Which sources are balanced, towards which shares, and how."""

    mode: Literal["cap", "proportional", "temperature", "none"] = "cap"
    """cap: keep at most alpha · target · total characters of a category. proportional: exactly the target shares, which drops
    the most. temperature: shares ∝ natural share^(1/T). none: keep everything."""
    sources: tuple[str, ...] = ("news",)
    """Sources whose documents are balanced together; other sources are kept as they are."""
    targets: dict[str, float] = Field(default_factory=lambda: dict.fromkeys(CATEGORIES, 1.0))
    """cap, proportional: target weight of each category; those of the present categories are scaled to sum to 1. The default
    is uniform over the seven categories. A category without a target is kept whole. temperature uses all categories."""
    alpha: float = Field(default=1.5, gt=0)
    """cap: the multiple of its target that a category may reach."""
    temperature: float = Field(default=1.43, ge=1)
    """temperature: T; 1.43 corresponds to the exponent 0.7 of multilingual BERT's sampling."""
    stratify: bool = False
    """Balance within each outlet and year, which keeps the mix of outlets and years."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """Seed of the hash that orders articles."""

    @model_validator(mode="after")
    def _targets_are_weights(self) -> BalanceSpec:
        if self.mode in ("cap", "proportional") and (not self.targets or min(self.targets.values()) <= 0):
            raise ValueError(f"targets: {self.targets}: name at least one category, each with a weight above 0")
        return self


def draw(seed: int, document: Document) -> int:
    """Return the hash that orders documents; those with low draws are kept longest.

    The text is hashed, too: ids that begin anew in each file of a source repeat, and by them alone the same lines of all files
    would be kept.
    """
    return hash64(f"{seed}\0{document.id}\0{document.text}")


def _stratum(document: Document, spec: BalanceSpec) -> str:
    """Return the group within which a document is balanced: its outlet and year, or "" for all documents."""
    return f"{document.outlet}\0{document.published[:4]}" if spec.stratify else ""


def _keep_characters(characters: Mapping[str, int], spec: BalanceSpec) -> dict[str, int]:
    """Return how many characters each category may keep; a category that is not in the result keeps all."""
    if spec.mode == "cap":
        return cap(characters, spec.targets, spec.alpha)
    if spec.mode == "proportional":
        return proportional(characters, spec.targets)
    if spec.mode == "temperature":
        return temperature(characters, spec.temperature)
    return {}


def _measure_shard(spec: BalanceSpec, shard: Path, index: int, out_dir: Path) -> Stats:
    """Write the stratum, category, draw and size of each document that is balanced."""
    with TableWriter(out_dir / ".work" / f"measure-{index:05d}.arrow", _MEASURE_SCHEMA) as table:
        for document in read_documents(shard):
            if document.source in spec.sources:
                row = (_stratum(document, spec), document.category, draw(spec.seed, document), len(document.text))
                table.append(row)
    return {}


def _decide(spec: BalanceSpec, index: int, out_dir: Path) -> Stats:
    """Find the last draw that is kept of each stratum and category that is cut."""
    tables = sorted((out_dir / ".work").glob("measure-*.arrow"))
    if not tables:
        return {}
    groups = ["stratum", "category"]
    sizes = (
        pl.scan_ipc(tables, glob=False)
        .group_by(groups)
        .agg(pl.col("characters").sum())
        .sort(groups)
        .collect(engine="streaming")
    )
    limits = []
    for (name,), part in sizes.partition_by("stratum", as_dict=True, maintain_order=True).items():
        counts = dict(zip(part["category"].to_list(), part["characters"].to_list()))
        limits += [
            (name, category, limit) for category, limit in _keep_characters(counts, spec).items() if limit < counts[category]
        ]
    limit_table = pl.DataFrame(limits, schema={"stratum": pl.String, "category": pl.String, "limit": pl.Int64}, orient="row")
    # Find the interval in which each limit is reached, then sort the draws of that interval only.
    cut = pl.scan_ipc(tables, glob=False).join(limit_table.lazy(), on=groups).with_columns(interval=pl.col("draw") // _INTERVAL)
    upto = pl.col("characters").cum_sum().over(groups)
    edges = (
        cut.group_by([*groups, "interval"])
        .agg(pl.col("characters").sum(), pl.col("limit").first())
        .sort([*groups, "interval"])
        .collect(engine="streaming")
        .with_columns(before=upto - pl.col("characters"))
        .filter(upto > pl.col("limit"))
        .group_by(groups)
        .agg(pl.col("interval").first(), pl.col("before").first())
    )
    # Equal draws (the same document twice) are kept or dropped together.
    by_draw = (
        cut.join(edges.lazy(), on=[*groups, "interval"])
        .group_by([*groups, "draw"])
        .agg(pl.col("characters").sum(), pl.col("limit", "before").first())
        .sort([*groups, "draw"])
        .collect(engine="streaming")
    )
    kept = by_draw.filter(upto + pl.col("before") <= pl.col("limit"))
    below = edges.filter(pl.col("interval") > 0).select(*groups, draw=pl.col("interval") * _INTERVAL - 1)
    last = pl.concat([kept.select(*groups, "draw"), below]).group_by(groups).agg(last_draw=pl.col("draw").max())
    thresholds = limit_table.join(last, on=groups, how="left").sort(groups).select(*groups, "last_draw")
    with TableWriter(out_dir / ".work" / "thresholds.arrow", _THRESHOLD_SCHEMA) as table:
        for row in thresholds.iter_rows():
            table.append(row)
    return {}


def _thresholds(out_dir: Path) -> dict[tuple[str, str], int]:
    """Return the last draw that is kept by stratum and category, -1 for none; those that are absent keep everything."""
    path = out_dir / ".work" / "thresholds.arrow"
    rows = read_rows(path, _THRESHOLD_SCHEMA) if path.exists() else ()
    return {(name, category): -1 if last is None else last for name, category, last in rows}


def _write_shard(spec: BalanceSpec, path: Path, index: int, out_dir: Path) -> Stats:
    """Write the documents of one shard that are kept, and count before and after."""
    thresholds = _thresholds(out_dir)
    categories: dict[str, dict[str, int]] = {}
    sources: dict[str, dict[str, int]] = {}
    with DocumentShard(out_dir, index) as shard:
        for document in read_documents(path):
            balanced = document.source in spec.sources
            last = thresholds.get((_stratum(document, spec), document.category)) if balanced else None
            keep = last is None or draw(spec.seed, document) <= last
            if keep:
                shard.keep(document)
            else:
                shard.drop(document, Drop("balanced_out", document.category))
            _tally(sources, document.source, document, keep)
            if balanced:
                _tally(categories, document.category, document, keep)
    return {**shard.stats, "categories": categories, "sources": sources}


def _tally(table: dict[str, dict[str, int]], name: str, document: Document, keep: bool) -> None:
    row = table.setdefault(name, {"before_documents": 0, "before_characters": 0, "after_documents": 0, "after_characters": 0})
    for when in ("before", "after") if keep else ("before",):
        row[f"{when}_documents"] += 1
        row[f"{when}_characters"] += len(document.text)


class BeforeAndAfter(Statistics):
    """Sizes of one category or source."""

    before_documents: int = 0
    before_characters: int = 0
    after_documents: int = 0
    after_characters: int = 0


class BalanceStats(DocumentStats):
    """Statistics of balancing."""

    categories: dict[str, BeforeAndAfter] = Field(default_factory=dict)
    """Counts the balanced sources only."""
    sources: dict[str, BeforeAndAfter] = Field(default_factory=dict)


def run(spec: BalanceSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> BalanceStats:
    """Balance ``documents``. Drop reason: ``balanced_out`` (rule: the category).

    Raises ValueError if no document is left.
    """
    (out_dir / ".work").mkdir(exist_ok=True)
    shards = inputs["documents"].files("documents-*.arrow")
    if spec.mode != "none":
        map_shards(partial(_measure_shard, spec), shards, out_dir=out_dir, runtime=runtime, step="measure")
        map_shards(_decide, [spec], out_dir=out_dir, runtime=runtime, step="decide")
    parts = map_shards(partial(_write_shard, spec), shards, out_dir=out_dir, runtime=runtime, step="write")
    stats = sum_stats([{**NO_DOCUMENTS, "categories": {}, "sources": {}}, *parts])
    refuse_nothing_kept(
        "balance", {"all sources": stats}, 'Raise alpha in [balance], or set mode = "none", which keeps everything'
    )
    return BalanceStats.of(stats)


STAGE = Stage(
    "balance",
    version=4,
    spec=BalanceSpec,
    run=run,
    table="balance",
    inputs={"documents": "dedup"},
    required=True,
    deployment=Deployment("Rebalance news categories"),
)
