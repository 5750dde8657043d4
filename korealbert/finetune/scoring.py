"""Scores of a prediction file: predictions of any system against a benchmark's official file.

A prediction file is JSON Lines, one record per example in the order of the official file. Records of questions carry the ``id``
of theirs, and may stand in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.files import Record, json_lines
from korealbert.finetune.metrics import Mode
from korealbert.finetune.resampling import Draws
from korealbert.finetune.statistics import answered, compare, mcnemar_of
from korealbert.finetune.task import Example, Scores, Task

_MEMBER_MARK = "::"
"""Between an archive and the name of a file in it."""


_RESAMPLES = 1000
"""Draws of an interval and of a test; the smallest p-value is 1 / 1001."""

_CONFIDENCE = 0.95


def score_file(task: str, gold: str, predictions: str, mode: Mode) -> Scores:
    """Metrics of a prediction file.

    ``gold`` is the official file, or ``ARCHIVE::MEMBER``. Raises ValueError naming file, line, field and remedy, and
    FileNotFoundError naming a missing file and, for gold, where it comes from.
    """
    benchmark = tasks.find(task)
    examples = _read_gold(benchmark, gold)
    return _scores(benchmark, examples, predictions, mode)[0]


def compare_files(task: str, gold: str, first: str, second: str, mode: Mode) -> tuple[Scores, dict[str, Any]]:
    """Metrics of a prediction file, and how surely it differs from another one on the same examples.

    The comparison has the other file's ``scores``; of the task's own ``metric`` the ``difference`` (first less second), its
    95 % ``interval`` by paired bootstrap and the ``p_value`` of approximate randomisation; for accuracies also that of
    ``mcnemar``. Raises as ``score_file`` does.
    """
    benchmark = tasks.find(task)
    examples = _read_gold(benchmark, gold)
    (scores, ours), (others, theirs) = (_scores(benchmark, examples, file, mode) for file in (first, second))
    systems = [[answered(benchmark, examples, predicted, mode)] for predicted in (ours, theirs)]
    (found,) = compare(systems, Draws(len(examples), _RESAMPLES, seed=0), confidence=_CONFIDENCE)
    result = {"scores": dict(others.values), "metric": benchmark.metric, **found._asdict(), "interval": list(found.interval)}
    if benchmark.metric == "accuracy":
        result["mcnemar"] = mcnemar_of(examples, ours, theirs)
    return Scores(scores.values, (*scores.warnings, *others.warnings)), result


def _read_gold(benchmark: Task, gold: str) -> list[Example]:
    file = _file(gold)
    if not file.path.exists():
        raise FileNotFoundError(f"{file}: no such file; {benchmark.title} comes from {benchmark.origin}")
    examples = benchmark.read(file)
    if not examples:
        raise ValueError(f"{file}: holds no example; give the official file of {benchmark.title}")
    return examples


def _scores(benchmark: Task, examples: Sequence[Example], predictions: str, mode: Mode) -> tuple[Scores, list[Any]]:
    """Metrics of a prediction file, and its predictions."""
    file = _file(predictions)
    if not file.path.is_file():
        raise FileNotFoundError(f"{file}: no such file; give JSON Lines, one record per example")
    predicted = _read_predictions(file, benchmark, examples, mode)
    scores = benchmark.score(examples, predicted, mode)
    missing = [example.id for example, value in zip(examples, predicted, strict=True) if value is None]
    if not missing:
        return scores, predicted
    named = f"{', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}"
    warning = f"{file}: no prediction for {len(missing):,} of {len(examples):,} questions ({named}), which score 0"
    return Scores(scores.values, (*scores.warnings, warning)), predicted


def _read_predictions(file: BenchmarkFile, benchmark: Task, examples: Sequence[Example], mode: Mode) -> list[Any]:
    """One predicted value per example, in the order of the examples; None where the official script counts a missing one as 0.

    Raises ValueError where a record is wrong, and when there are not as many records as examples.
    """
    records = list(json_lines(file))
    if benchmark.matches_by_id:
        by_id = _by_id(records, examples)
        if len(by_id) < len(examples) and not (benchmark.scores_missing and mode == "official"):
            absent = next(example.id for example in examples if example.id not in by_id)
            problem = f"the file ends after {len(records):,} predictions for {len(examples):,} questions, without {absent!r}"
            raise file.error(max(len(records), 1), "id", problem, "give an answer to each, an empty one where there is none")
        return [benchmark.prediction(by_id[e.id], e) if e.id in by_id else None for e in examples]
    if len(records) != len(examples):
        problem = f"the file ends after {len(records):,} predictions for {len(examples):,} examples of {benchmark.title}"
        raise file.error(max(len(records), 1), "record", problem, "give one line per example")
    return [benchmark.prediction(record, example) for record, example in zip(records, examples, strict=True)]


def _by_id(records: Sequence[Record], examples: Sequence[Example]) -> dict[str, Record]:
    known = {example.id for example in examples}
    by_id: dict[str, Record] = {}
    for record in records:
        example_id = record.text("id")
        if example_id not in known:
            raise record.error("id", f"no example has the id {example_id!r}", "take the ids from the official file")
        if example_id in by_id:
            raise record.error(
                "id", f"{example_id!r} stands in line {by_id[example_id].line.number} too", "keep one of the two"
            )
        by_id[example_id] = record
    return by_id


def _file(written: str) -> BenchmarkFile:
    path, _, member = written.partition(_MEMBER_MARK)
    return BenchmarkFile(Path(path), member)
