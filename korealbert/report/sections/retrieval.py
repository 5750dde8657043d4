"""Retrieval: a table of all systems for each collection, BM25 among them, and their rows of ``scores.csv``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import ipc

from korealbert.artifact import Artifact
from korealbert.finetune.metrics import Interval
from korealbert.finetune.retrieval.bi_encoder import BiEncoderStats
from korealbert.finetune.retrieval.ranking import METRIC, METRICS
from korealbert.finetune.retrieval.stage import BASELINES
from korealbert.finetune.scores.resampling import Additive, Draws
from korealbert.finetune.scores.statistics import Comparison, compare, intervals
from korealbert.finetune.spec import INITS
from korealbert.formatting import count, fixed, mean_and_sd, signed, spread
from korealbert.report.artifacts import Artifacts
from korealbert.report.render.blocks import Block, Section, Table, Text

_RESAMPLES, _CONFIDENCE = 1000, 0.95

_TITLES = {"ndcg@10": "nDCG@10", "map": "MAP", "mrr": "MRR"}


@dataclass(frozen=True)
class _Run:
    """One system with one seed."""

    artifact: Artifact
    seed: int | None
    """None if nothing in the system depends on a seed."""
    metrics: Mapping[str, Any]

    @property
    def per_query(self) -> Additive:
        """Main scores by query."""
        with ipc.open_file(str(self.artifact.path / "queries.arrow")) as reader:
            score_N = reader.read_all()[METRIC].to_numpy()
        return Additive(score_N[:, None], lambda sums_BK: sums_BK[:, 0] / len(score_N))


@dataclass(frozen=True)
class _Searched:
    """A collection and its runs by system."""

    name: str
    systems: Mapping[str, Sequence[_Run]]
    """Runs by the system's name in labels."""
    trained_on: Mapping[str, str]
    """Note on each system that was trained on triples."""

    @property
    def first(self) -> Mapping[str, Any]:
        """Metrics of the first run, for facts that all runs share."""
        return next(iter(self.systems.values()))[0].metrics

    def mean(self, system: str) -> float:
        """Return the mean of the main score over a system's seeds."""
        return mean_and_sd(self.values(system))[0]

    def values(self, system: str, metric: str = METRIC, kind: str = "official") -> list[float]:
        """Return the scores of a system by seed; none if no query has a relevant document."""
        return [run.metrics[kind][metric] for run in self.systems[system] if run.metrics[kind]]

    @property
    def ordered(self) -> list[str]:
        """Names of the systems, the best first."""
        return sorted(self.systems, key=lambda system: (-self.mean(system), system))

    @property
    def baseline(self) -> str | None:
        """Name of the better BM25 system."""
        return next((system for system in self.ordered if system.endswith(BASELINES)), None)


def read(artifacts: Artifacts) -> list[_Searched]:
    """Return the collections of all ``retrieval/COLLECTION/SYSTEM[/SEED]`` artifacts."""
    trainings = {
        label.split("/", 1)[1].rpartition("/")[0]: made.stats_as(BiEncoderStats)
        for label, made in artifacts.of("bi_encoder").items()
    }
    notes = {system: f"{count(made.triples)} triples of {made.title}" for system, made in trainings.items()}
    found: dict[str, dict[str, list[_Run]]] = {}
    for label, artifact in artifacts.of("retrieval").items():
        _, name, *rest = label.split("/")
        seed = int(rest.pop()) if rest[-1].isdecimal() else None
        metrics = artifact.read_json("metrics.json")
        found.setdefault(name, {}).setdefault("/".join(rest), []).append(_Run(artifact, seed, metrics))
    return [_Searched(name, systems, notes) for name, systems in found.items()]


def introduction(found: Sequence[_Searched]) -> str:
    """Return a sentence on the best system on the first collection, or "" without any."""
    if not found:
        return ""
    searched = found[0]
    best, baseline = searched.ordered[0], searched.baseline
    against = f"; {_title(baseline)} {fixed(searched.mean(baseline))}" if baseline not in (None, best) else ""
    return f"{searched.name}: {fixed(searched.mean(best))} {_TITLES[METRIC]} by {_title(best)}{against}."


def section(found: Sequence[_Searched]) -> Section | None:
    """Show a table for each collection, with warnings about its files."""
    if not found:
        return None
    blocks: list[Block] = [Text(_EXPLANATION)]
    for searched in found:
        blocks.append(_table(searched))
        blocks += [Text(f"{searched.name}: {warning}.", quiet=True) for warning in searched.first["warnings"]]
    return Section("retrieval", "Retrieval", blocks)


_EXPLANATION = (
    "Scores are times 100 and as pytrec_eval computes them; systems with several seeds have mean ± sd. Vectors are the mean of "
    "an encoder's last layer over all pieces, compared by cosine. Pretrained and random weights are measured without further "
    "training, bi-encoders after training on entailment triples. Intervals, also of the difference from the better BM25, cover "
    "other queries (and seeds). Documents without a judgement count as not relevant."
)


def _table(searched: _Searched) -> Table:
    first, ordered = searched.first, searched.ordered
    ends, against = _uncertainty(searched)
    rows = []
    for system in ordered:
        low, high = ends[system]
        corrected = searched.values(system, kind="corrected") if first["without_relevant"] else []
        row = [_title(system), spread(searched.values(system)), f"{fixed(low)} to {fixed(high)}"]
        row.append(spread(corrected) if corrected else "")
        row += [spread(searched.values(system, metric)) for metric in METRICS[1:]]
        difference = ""
        if (found := against.get(system)) is not None:
            left, right = found.interval.of_difference(METRIC)
            difference = f"{signed(found.difference)} ({signed(left)} to {signed(right)})"
        rows.append([*row, difference, str(len(searched.systems[system])), searched.trained_on.get(system, "")])
    recalls = [_TITLES.get(metric, metric.capitalize()) for metric in METRICS[1:]]
    difference_from = "Difference from the better BM25"
    header = ["System", _TITLES[METRIC], "95 % interval", "Corrected", *recalls, difference_from, "Runs", "Trained on"]
    sizes = f"{count(first['documents'])} documents, {count(first['queries'])} queries, {count(first['judgements'])} judgements"
    return Table(
        f"{searched.name} ({first['split']}): {sizes}",
        header,
        rows,
        frozenset(range(1, len(header) - 1)),
        frozenset(n for n, system in enumerate(ordered) if not system.endswith(BASELINES)),
    )


def _uncertainty(searched: _Searched) -> tuple[dict[str, Interval], dict[str, Comparison]]:
    """Return the interval of each system's main score, and the comparison of each with the better BM25."""
    answers = {system: [run.per_query for run in runs] for system, runs in searched.systems.items()}
    draws = Draws(searched.first["queries"], _RESAMPLES, 0)
    found = intervals(list(answers.values()), draws, confidence=_CONFIDENCE)
    ends = {system: each.of_score(METRIC) for system, each in zip(answers, found, strict=True)}
    against: dict[str, Comparison] = {}
    if (baseline := searched.baseline) is not None:
        for system in answers.keys() - {baseline}:
            # BM25 has no seed: its answers are the same for every seed of the other system.
            repeated = answers[baseline] * len(answers[system])
            (against[system],) = compare([answers[system], repeated], draws, confidence=_CONFIDENCE)
    return ends, against


def _title(system: str | None) -> str:
    root, _, name = str(system).rpartition("/")
    if name not in BASELINES:
        return str(system)
    return f"BM25, {name.partition('-')[2]}{f' of {root}' if root else ''}"


def csv_rows(found: Sequence[_Searched], model: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows of ``scores.CSV_COLUMNS``: official means, and as ``SPLIT_corrected`` means over queries with relevant
    documents."""
    for searched in found:
        for system, runs in searched.systems.items():
            root, _, name = system.rpartition("/")
            own = name in INITS and not root
            trained_on = searched.trained_on.get(system, "")
            for run in runs:
                facts = (model if own else system, searched.name, "retrieval", run.metrics["init"] if own else "", run.seed)
                for kind, suffix in (("official", ""), ("corrected", "_corrected")):
                    split = f"{run.metrics['split']}{suffix}"
                    rows = run.metrics[kind].items()
                    yield from ((*facts, split, metric, value, run.artifact.name, trained_on) for metric, value in rows)
