"""Scores of two sides on the test sets that both have.

Scores on the same test examples are compared in pairs, as a run's own summary does; without the examples, by their intervals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from korealbert.finetune import tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.scores.resampling import Draws
from korealbert.finetune.scores.statistics import compare as compare_answers
from korealbert.finetune.scores.statistics import is_clear
from korealbert.finetune.scores.summary import answers_of
from korealbert.finetune.spec import FeaturesSpec
from korealbert.formatting import MISSING, fixed, mean_and_sd, percent, signed
from korealbert.recipe.comparison.sides import Side, are_of_one_stage
from korealbert.report.render.blocks import Block, Table, Text
from korealbert.report.scores import Benchmark, read
from korealbert.report.sections.benchmarks import about_seeds, about_undefined, p_value

_DRAWS, _CONFIDENCE = 1000, 0.95


def scores(first: Side, second: Side) -> list[Block]:
    """Return a table of the test scores with their differences, and notes on them."""
    rows: list[list[str]] = []
    notes: list[str] = []
    seeds: set[tuple[int, int]] = set()
    for one, other in _in_both(first, second):
        if (one.task, one.metric) != (other.task, other.metric):
            notes.append(f"{one.name}: {one.task} and {other.task} do not compare.")
            continue
        for system in (system for system in one.systems if system in other.systems):
            rows.append(_row(one, other, system))
            if not (one.undefined(system) or other.undefined(system)):
                seeds.add((len(one.values(system)), len(other.values(system))))
        notes += _notes({first.name: one, second.name: other})
    below = [Text(note) for note in notes]
    if not rows:
        return [*below]
    interval = f"{percent(_CONFIDENCE, 0)} interval"
    header = ["Benchmark", "System", "Metric", first.name, second.name, "Change", interval, "p", "Verdict"]
    about = f"Change is that of the mean over seeds. {about_seeds(seeds)}".strip()
    return [Table("Test scores", header, rows, frozenset({3, 4, 5, 6, 7})), Text(about, quiet=True), *below]


def _in_both(first: Side, second: Side) -> Iterator[tuple[Benchmark, Benchmark]]:
    """Yield the benchmarks that both sides have, by name. Of two fine-tuning runs the names may differ."""
    found = [_benchmarks(side) for side in (first, second)]
    if are_of_one_stage(first, second) and len(found[0]) == len(found[1]) == 1:
        yield _under_one_name(found[0][0], found[1][0])
        return
    one, other = ({benchmark.name: benchmark for benchmark in benchmarks} for benchmarks in found)
    for name in sorted(one.keys() & other.keys()):
        yield one[name], other[name]


def _benchmarks(side: Side) -> list[Benchmark]:
    """Return the benchmarks that a side was tested on."""
    built = side.artifacts()
    tested = {
        label: artifact
        for label, artifact in built.items()
        if label.startswith("finetune/") and artifact.stats.get("test") and (artifact.path / "metrics.json").is_file()
    }
    return read(tested, {label: artifact for label, artifact in built.items() if label.startswith("summary/")})


def _under_one_name(first: Benchmark, second: Benchmark) -> tuple[Benchmark, Benchmark]:
    """Give two benchmarks one name, and if each has one system, give these one name too: ``pretrained → random``."""
    both = (first, second)
    name = " → ".join(dict.fromkeys(each.name for each in both))
    if not len(first.systems) == len(second.systems) == 1:
        return replace(first, name=name), replace(second, name=name)
    system = " → ".join(dict.fromkeys(each.lead for each in both))

    def renamed(each: Benchmark) -> Benchmark:
        known = each.summary.get("systems", {}).get(each.lead)
        summary = {**each.summary, "systems": {system: known} if known else {}}
        return replace(each, name=name, cells=[replace(cell, system=system) for cell in each.cells], summary=summary)

    return renamed(first), renamed(second)


def _row(one: Benchmark, other: Benchmark, system: str) -> list[str]:
    """Return the line of a system: its scores with their intervals, and their difference."""
    shown = []
    for benchmark in (one, other):
        ends = benchmark.intervals.get(system)
        shown.append(benchmark.shown(system) + (f" ({fixed(ends[0])} to {fixed(ends[1])})" if ends else ""))
    return [one.name, system, one.metric_title, *shown, *_difference(one, other, system)]


def _difference(one: Benchmark, other: Benchmark, system: str) -> tuple[str, str, str, str]:
    """Return the change of a system's mean score, its interval, its p-value and the verdict."""
    if one.undefined(system) or other.undefined(system):
        return MISSING, MISSING, MISSING, "undefined"
    before, after = (mean_and_sd(benchmark.values(system))[0] for benchmark in (one, other))
    change = signed(after - before)
    if (tested := _tested_in_pairs(one, other, system)) is not None:
        low, high, p = tested
        return change, f"{fixed(low)} to {fixed(high)}", p_value(p), _verdict(is_clear((low, high), p, _CONFIDENCE))
    own, others = one.intervals.get(system), other.intervals.get(system)
    if own is None or others is None:
        return change, MISSING, MISSING, "no interval"
    return change, "unpaired", MISSING, _verdict(own[1] < others[0] or others[1] < own[0])


def _verdict(is_beyond: bool) -> str:
    return "beyond chance" if is_beyond else "within chance"


def _tested_in_pairs(one: Benchmark, other: Benchmark, system: str) -> tuple[float, float, float] | None:
    """Return interval and p-value of the second mean minus the first on the test examples; None if these are not available."""
    with suppress(ValueError, OSError, KeyError):
        fields = one.of(system)[0].spec
        examples_of = {name: fields[name] for name in FeaturesSpec.model_fields if name in fields}
        spec = FeaturesSpec.model_validate_json(json.dumps(examples_of))
        task = tasks.load(spec.task)
        examples = read_examples(task, spec, {}, splits=("test",))["test"]
        answers = []
        for benchmark in (other, one):  # The difference is that of the first minus the second.
            artifacts = {cell.seed: cell.artifact for cell in benchmark.of(system)}
            answers.append([cell.answered for cell in answers_of(task, examples, artifacts).values()])
        (found,) = compare_answers(answers, Draws(len(examples), _DRAWS, spec.split_seed), confidence=_CONFIDENCE)
        return *found.interval.of_difference(task.metric), found.p_value
    return None


def _notes(by_side: dict[str, Benchmark]) -> list[str]:
    """Return notes on test sets that were scored in part, and on undefined scores; ``by_side``: a benchmark by side's name."""
    sides: dict[str, list[str]] = {}
    for name, benchmark in by_side.items():
        if benchmark.part:
            sides.setdefault(f"{benchmark.title}: {benchmark.part} of the official test set.", []).append(name)
    notes = [f"{' and '.join(names)}, {part}" for part, names in sides.items()]
    return notes + [f"{name}, {line.text}" for name, benchmark in by_side.items() for line in about_undefined(benchmark)]
