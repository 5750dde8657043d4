"""Differences between two runs, artifacts or recipes: settings, corpora, scores and curves.

A side is a recipe with its artifacts in the store, the report of a run, or any artifact with its ancestors. Stages are matched
by label. Scores on the same test examples are compared in pairs, as a run's own summary does; without the examples, their
intervals are compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product, takewhile
from pathlib import Path
from typing import Any

from korealbert.artifact import Artifact, Store, ancestors
from korealbert.finetune import tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.scores.resampling import Draws
from korealbert.finetune.scores.statistics import compare as compare_answers
from korealbert.finetune.scores.statistics import is_clear
from korealbert.finetune.scores.summary import answers_of
from korealbert.finetune.spec import FinetuneSpec
from korealbert.formatting import MISSING, compact, count, duration, fixed, mean_and_sd, percent, signed
from korealbert.inspection.differences import words
from korealbert.recipe.planning import changed_fields, prepare
from korealbert.recipe.registry import ABLATION, CROSS_LINGUAL, REPORT
from korealbert.report import scores
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text
from korealbert.report.sections.benchmarks import about_seeds, about_undefined, p_value
from korealbert.report.sections.learning import OBJECTIVES, points, training_lines

_REPORTS = {REPORT.name, ABLATION.name, CROSS_LINGUAL.name}
_DRAWS, _CONFIDENCE = 1000, 0.95
_MAX_NAME_CHARACTERS = 14
"""Longer names do not fit above a column; the sides are then called A and B."""
_MAX_VALUE_CHARACTERS = 40
"""Of longer values, only the words that differ are shown."""
_CURVE_STEPS = 8
"""Steps of a curve that a table shows."""


@dataclass(frozen=True)
class ComparedStage:
    """One stage of a side."""

    recipe: Mapping[str, Any]
    """The document that its identity is the hash of: stage, version, spec, inputs."""
    spec: Mapping[str, Any]
    """Its settings in readable form."""
    artifact: Artifact | None


@dataclass(frozen=True)
class Side:
    """One of the two things that are compared."""

    name: str
    stages: Mapping[str, ComparedStage]
    """By label."""
    root: str = ""
    """The label of the given artifact; "" for a recipe."""
    store: Path | None = None
    """The directory of the store; None if the side is not a recipe."""

    def artifacts(self) -> dict[str, Artifact]:
        """Return the artifacts of the stages that are built, by label."""
        return {label: stage.artifact for label, stage in self.stages.items() if stage.artifact is not None}


def of_recipe(path: Path, store: Store, name: str = "", **asked: Any) -> Side:
    """Return a recipe with its artifacts in the store; ``asked`` goes to ``prepare``. Raises RecipeError."""
    prepared = prepare(path, store, **asked)
    stages, names = {}, {stage.label: stage.name for stage in prepared.planned}
    for label, node in prepared.nodes.items():
        inputs = {role: names[other] for role, other in node.inputs.items()}
        identity = node.stage.identity(node.spec, inputs, store)
        stages[label] = ComparedStage(identity.document, node.spec.model_dump(mode="json"), store.find(names[label]))
    return Side(name or path.stem, stages, store=store.root)


def of_artifact(artifact: Artifact, name: str = "") -> Side:
    """Return a run, given by its report, or an artifact with its ancestors. Raises ArtifactError for a damaged manifest."""
    root = str(artifact.manifest["label"])
    if artifact.manifest["recipe"]["stage"] in _REPORTS:
        found = {**artifact.inputs(), root: artifact}
    else:
        found = {str(one.manifest["label"]): one for one in ancestors({root: artifact}).values()}
    stages = {
        label: ComparedStage(one.manifest["recipe"], one.manifest["spec"], one)
        for label, one in found.items()
        if (one.path / "manifest.json").is_file()
    }
    return Side(name or artifact.name, stages, root)


def compare(first: Side, second: Side) -> list[Section]:
    """Return the differences as sections of a page, none if both sides are the same."""
    tested = second
    first, second = _renamed(first, _aligned(first, second))
    found = (
        ("settings", "Settings", _settings(first, second)),
        ("corpora", "Corpora", _corpora(first, second)),
        ("scores", "Scores", _scores(first, replace(tested, name=second.name))),
        ("curves", "Pretraining", _curves(first, second)),
    )
    return [Section(anchor, title, blocks) for anchor, title, blocks in found if blocks]


def _aligned(first: Side, second: Side) -> Side:
    """Relabel the root of the second side like that of the first if both are artifacts of the same stage."""
    if not _are_of_one_stage(first, second):
        return second
    stages = {first.root if label == second.root else label: stage for label, stage in second.stages.items()}
    return replace(second, stages=stages)


def _are_of_one_stage(first: Side, second: Side) -> bool:
    """Return whether the sides are artifacts of the same stage under two labels."""
    if first.root == second.root or not (first.root and second.root):
        return False
    return bool(first.stages[first.root].recipe["stage"] == second.stages[second.root].recipe["stage"])


def _renamed(first: Side, second: Side) -> tuple[Side, Side]:
    """Rename the sides A and B unless their own names differ and fit above a column."""
    if first.name == second.name or max(len(first.name), len(second.name)) > _MAX_NAME_CHARACTERS:
        return replace(first, name="A"), replace(second, name="B")
    return first, second


def introduction(first: Side, second: Side) -> str:
    """Return an introduction: which side is A and which is B, how many stages are equal, and what is not built."""
    second = _aligned(first, second)
    sides = [(renamed.name, side) for renamed, side in zip(_renamed(first, second), (first, second), strict=True)]
    named = [(short, f"{side.root} ({side.name})" if side.root else side.name) for short, side in sides if short != side.name]
    called = "".join(f"{short} is {name}. " for short, name in named)
    common = first.stages.keys() & second.stages.keys()
    same = [label for label in common if first.stages[label].recipe == second.stages[label].recipe]
    one, other = first.artifacts(), second.artifacts()
    differ = [label for label in one.keys() & other.keys() if one[label].output_digest != other[label].output_digest]
    text = f"{called}{count(len(same))} of {count(len(common))} common stages have the same recipe"
    text += f"; the bytes of {count(len(differ))} differ." if differ else "."
    return text + "".join(_unbuilt(short, side) for short, side in sides)


def _unbuilt(name: str, side: Side) -> str:
    """Say how much of a recipe is built, as only its settings are known otherwise; "" if all is, and for artifacts."""
    built, stages = len(side.artifacts()), len(side.stages)
    if side.store is None or built == stages:
        return ""
    if built:
        return f" {count(built)} of {count(stages)} stages of {name} are built in {side.store}."
    missing = f" No stage of {name} is built in {side.store}, so only settings are compared"
    return f"{missing}; if it was run into another store, name the directory of its report there."


def _settings(first: Side, second: Side) -> list[Block]:
    blocks: list[Block] = []
    labels_by_change: dict[tuple[str, str, str, str], list[str]] = {}
    follows = []
    for label in [label for label in first.stages if label in second.stages]:
        one, other = first.stages[label], second.stages[label]
        changes = _changes(one, other)
        for field, before, after in changes:
            labels_by_change.setdefault((label.split("/")[0], field, before, after), []).append(label)
        if not changes and one.recipe != other.recipe:
            follows.append(label)
    if labels_by_change:
        rows = [[_labels(labels), *change] for (_, *change), labels in labels_by_change.items()]
        blocks.append(Table("Fields that differ", ["Stage", "Field", first.name, second.name], rows, prose=frozenset({2, 3})))
    if follows:
        blocks.append(Text(f"Only the inputs of {_counted(follows)} differ.", quiet=True))
    for side, opposite in ((first, second), (second, first)):
        if alone := [label for label in side.stages if label not in opposite.stages]:
            blocks.append(Text(f"Only {side.name} has {_counted(alone)}."))
    return blocks


def _changes(one: ComparedStage, other: ComparedStage) -> list[tuple[str, str, str]]:
    """Return the fields in which two stages differ, each with both values as text."""
    fields = changed_fields(one.spec, one.recipe["spec"], other.spec, other.recipe["spec"])
    if one.recipe["version"] != other.recipe["version"]:
        fields = [("stage version", one.recipe["version"], other.recipe["version"]), *fields]
    return [(field, *_shown(before, after)) for field, before, after in fields]


def _shown(before: Any, after: Any) -> tuple[str, str]:
    """Format two values; of long texts only the words that differ. Equal values are paths of files whose content differs."""
    if before == after:
        return "content 1", "content 2"
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _MAX_VALUE_CHARACTERS:
        parts = words(before, after)
        old = " … ".join(part.text.strip() for part in parts if part.kind == "removed")
        new = " … ".join(part.text.strip() for part in parts if part.kind == "added")
        return old or MISSING, new or MISSING
    return str(before), str(after)


def _labels(labels: Sequence[str]) -> str:
    """Write one label, or the common beginning of several: ``finetune/nsmc (6 stages)``."""
    if len(labels) == 1:
        return labels[0]
    parts = takewhile(lambda words: len(set(words)) == 1, zip(*(label.split("/") for label in labels), strict=False))
    return f"{'/'.join(words[0] for words in parts)} ({len(labels)} stages)"


def _counted(labels: Iterable[str]) -> str:
    """List labels by kind of stage: ``vocab, examples, finetune (6 stages)``."""
    by_kind: dict[str, list[str]] = {}
    for label in labels:
        by_kind.setdefault(label.split("/")[0], []).append(label)
    return ", ".join(_labels(found) for found in by_kind.values())


def _corpora(first: Side, second: Side) -> list[Block]:
    sizes, reasons = [], []
    one, other = first.artifacts(), second.artifacts()
    for label in [label for label in one if label in other]:
        before, after = one[label].stats, other[label].stats
        if "documents_out" not in before or "documents_out" not in after:
            continue
        documents, characters = [[stats.get(name) for stats in (before, after)] for name in ("documents_out", "characters_out")]
        if documents[0] != documents[1] or characters[0] != characters[1]:
            change = signed(after["documents_out"] - before["documents_out"], 0)
            sizes.append([label, *map(count, documents), change, *map(count, characters)])
        for kind in ("dropped", "quarantine_reasons"):
            was, now = Counter(before.get(kind, {})), Counter(after.get(kind, {}))
            differing = [reason for reason in sorted(was.keys() | now.keys()) if was[reason] != now[reason]]
            reasons += [[label, reason, count(was[reason]), count(now[reason])] for reason in differing]
    blocks: list[Block] = []
    if sizes:
        names = [[f"{what}, {side.name}" for side in (first, second)] for what in ("Documents", "Characters")]
        header = ["Stage", *names[0], "Change", *names[1]]
        blocks.append(Table("Documents that come out", header, sizes, frozenset({1, 2, 3, 4, 5})))
    if reasons:
        header = ["Stage", "Reason", first.name, second.name]
        blocks.append(Table("Documents left out", header, reasons, frozenset({2, 3})))
    return blocks


def _scores(first: Side, second: Side) -> list[Block]:
    found = [_benchmarks(side) for side in (first, second)]
    if _are_of_one_stage(first, second) and len(found[0]) == len(found[1]) == 1:
        found = [[benchmark] for benchmark in _matched(found[0][0], found[1][0])]
    sides = [{benchmark.name: benchmark for benchmark in benchmarks} for benchmarks in found]
    rows, notes, seeds = [], [], set()
    for name in sorted(sides[0].keys() & sides[1].keys()):
        one, other = sides[0][name], sides[1][name]
        if (one.task, one.metric) != (other.task, other.metric):
            notes.append(f"{name}: {one.task} and {other.task} do not compare.")
            continue
        for system in one.systems:
            if system in other.systems:
                rows.append(_row(one, other, system))
                if not (one.undefined(system) or other.undefined(system)):
                    seeds.add((len(one.values(system)), len(other.values(system))))
        pairs = ((first, one), (second, other))
        parts: dict[str, list[str]] = {}
        for side, each in pairs:
            if each.part:
                parts.setdefault(f"{each.title}: {each.part} of the official test set.", []).append(side.name)
        notes += [f"{' and '.join(names)}, {part}" for part, names in parts.items()]
        notes += [f"{side.name}, {line.text}" for side, each in pairs for line in about_undefined(each)]
    interval = f"{percent(_CONFIDENCE, 0)} interval"
    header = ["Benchmark", "System", "Metric", first.name, second.name, "Change", interval, "p", "Verdict"]
    table = Table("Test scores", header, rows, frozenset({3, 4, 5, 6, 7}))
    note = f"Change is that of the mean over seeds. {about_seeds(seeds)}".strip()
    blocks: list[Block] = [table, Text(note, quiet=True)] if rows else []
    return [*blocks, *(Text(note) for note in notes)]


def _benchmarks(side: Side) -> list[scores.Benchmark]:
    found = side.artifacts()
    cells = {label: one for label, one in found.items() if label.startswith("finetune/") and one.stats.get("test")}
    tested = {label: one for label, one in cells.items() if (one.path / "metrics.json").is_file()}
    return scores.read(tested, {label: one for label, one in found.items() if label.startswith("summary/")})


def _matched(first: scores.Benchmark, second: scores.Benchmark) -> Iterator[scores.Benchmark]:
    """Yield two benchmarks under one name, and if each has one system, with these under one name: ``pretrained → random``."""
    both = (first, second)
    name = " → ".join(dict.fromkeys(each.name for each in both))
    system = " → ".join(dict.fromkeys(each.lead for each in both))
    for each in both:
        if len(first.systems) == len(second.systems) == 1:
            cells = [replace(cell, system=system) for cell in each.cells]
            known = each.summary.get("systems", {}).get(each.lead)
            summary = {**each.summary, "systems": {system: known} if known else {}}
            yield replace(each, name=name, cells=cells, summary=summary)
        else:
            yield replace(each, name=name)


def _row(one: scores.Benchmark, other: scores.Benchmark, system: str) -> list[str]:
    about = [one.name, system, one.metric_title]
    for benchmark in (one, other):
        ends = benchmark.intervals.get(system)
        about.append(benchmark.shown(system) + (f" ({fixed(ends[0])} to {fixed(ends[1])})" if ends else ""))
    if one.undefined(system) or other.undefined(system):
        return [*about, MISSING, MISSING, MISSING, "undefined"]
    means = [mean_and_sd(benchmark.values(system))[0] for benchmark in (one, other)]
    change, known = means[1] - means[0], _paired(one, other, system)
    if known is not None:
        beyond = is_clear(known[:2], known[2], _CONFIDENCE)
        tested = [f"{fixed(known[0])} to {fixed(known[1])}", p_value(known[2])]
    else:
        before, after = (benchmark.intervals.get(system) for benchmark in (one, other))
        if before is None or after is None:
            return [*about, signed(change), MISSING, MISSING, "no interval"]
        beyond = before[1] < after[0] or after[1] < before[0]
        tested = ["unpaired", MISSING]
    verdict = "beyond chance" if beyond else "within chance"
    return [*about, signed(change), *tested, verdict]


def _paired(one: scores.Benchmark, other: scores.Benchmark, system: str) -> tuple[float, float, float] | None:
    """Return interval and p-value of the second mean minus the first on the test examples; None if these are not available."""
    with suppress(ValueError, OSError, KeyError):
        cells = [benchmark.of(system) for benchmark in (one, other)]
        spec = FinetuneSpec.model_validate_json(json.dumps(cells[0][0].spec))
        task = tasks.load(spec.task)
        examples = read_examples(task, spec, {}, splits=("test",))["test"]
        answers = [
            [cell.answered for cell in answers_of(task, examples, {cell.seed: cell.artifact for cell in own}).values()]
            for own in reversed(cells)
        ]
        (found,) = compare_answers(answers, Draws(len(examples), _DRAWS, spec.split_seed), confidence=_CONFIDENCE)
        return *found.interval.of_difference(task.metric), found.p_value
    return None


_FACTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Parameters", "parameters", compact),
    ("Steps", "steps", count),
    ("Tokens", "tokens", compact),
    ("Tokens a second", "tokens_per_second", compact),
)


def _curves(first: Side, second: Side) -> list[Block]:
    blocks: list[Block] = []
    one, other = first.artifacts(), second.artifacts()
    for label in [label for label in one if label in other]:
        sides = [(first.name, one[label]), (second.name, other[label])]
        records = [training_lines(artifact) for _, artifact in sides]
        if not all(records) or one[label].output_digest == other[label].output_digest:
            continue
        rows = [[name, *(shown(a.stats.get(key) or 0) for _, a in sides)] for name, key, shown in _FACTS]
        rows.append(["Time", *(duration(artifact.manifest["wall_seconds"]) for _, artifact in sides)])
        figures, tables = _drawn(label, sides, records)
        blocks.append(Table(label, ["", first.name, second.name], rows, frozenset({1, 2})))
        blocks += [Figures(figures)] if figures else []
        blocks += tables
    return blocks


def _drawn(
    label: str, sides: Sequence[tuple[str, Artifact]], records: Sequence[Sequence[dict[str, Any]]]
) -> tuple[list[Figure], list[Table]]:
    """Plot the curves of both sides together for each objective, and tabulate the MLM ones."""
    figures, tables = [], []
    names = [name for name, _ in sides]
    for (key, title), kind in product(OBJECTIVES.items(), ("loss", "accuracy")):
        heldout, train = ([points(lines, split, f"{key}_{kind}") for lines in records] for split in ("heldout", "train"))
        curves, split = (heldout, "held out") if all(heldout) else (train, "training")
        if not all(curves):
            continue
        drawn = [charts.Line(name, curve, style) for style, (name, curve) in enumerate(zip(names, curves, strict=True), 1)]
        caption = f"{title}: {kind}, {split}"
        svg = charts.lines(drawn, label=f"{label}, {caption}", x_unit="steps", share=kind == "accuracy")
        figures.append(Figure(f"{label.replace('/', '-')}-{key}-{kind}", caption, svg))
        if key == "mlm":
            tables.append(_curve_table(caption, names, curves, percent if kind == "accuracy" else fixed))
    return figures, tables


def _curve_table(
    name: str, sides: Sequence[str], curves: Sequence[Sequence[tuple[float, float]]], shown: Callable[[float | None], str]
) -> Table:
    values = [dict(curve) for curve in curves]
    steps = sorted({step for curve in values for step in curve})
    chosen = sorted({steps[round(place * (len(steps) - 1) / (_CURVE_STEPS - 1))] for place in range(_CURVE_STEPS)})
    rows = [[count(step), *(shown(curve.get(step)) for curve in values)] for step in chosen]
    return Table(name, ["Step", *sides], rows, frozenset({1, 2}))
