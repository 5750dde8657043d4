"""Scores of a prediction file: predictions of any system against a benchmark's official file.

A prediction file is JSON Lines, one record per example. Where records carry the ``id`` of their example they may be in any
order; where none does, the order is that of the official file. Records of questions always carry it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyarrow import ipc

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune import tasks
from korealbert.finetune.definition import is_file
from korealbert.finetune.files import Record, json_lines
from korealbert.finetune.metrics import Mode
from korealbert.finetune.resampling import Draws
from korealbert.finetune.statistics import Comparison, answered, compare, mcnemar_of
from korealbert.finetune.task import Example, Task
from korealbert.finetune.task_types.sequence import SequenceClassification
from korealbert.finetune.task_types.tagged import Tagging
from korealbert.formatting import part_of

MEMBER_MARK = "::"
"""Between an archive and the name of a file in it."""


_OURS = re.compile(r".*\.arrow(\.(gz|bz2|xz|zst))?", re.DOTALL)
"""Names of ``predictions.arrow``, which a fine-tuning writes, compressed or not."""

_RESAMPLES = 1000
"""Draws of an interval and of a test; the smallest p-value is 1 / 1001."""

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Scored:
    """Scores of a prediction file."""

    values: Mapping[str, float | None]
    """Metrics by name, each times 100; None where the official script prints ``nan``."""
    warnings: tuple[str, ...]
    examples: int
    """Examples of the gold file; each was scored."""
    examples_official: int | None
    """Size of the official test set: scores over fewer are not comparable with published ones. None: unknown."""
    matched_by: Literal["id", "position"]
    """How predictions found their examples."""
    undefined: Mapping[str, str]
    """Why a metric has no official value."""
    corrected: Mapping[str, float]
    """The value of such a metric by its definition."""

    def facts(self) -> dict[str, Any]:
        """One JSON object: the metrics, then the other fields but warnings; of undefined metrics only where there are any."""
        fields = asdict(self)
        del fields["warnings"]
        if not self.undefined:
            del fields["undefined"], fields["corrected"]
        return {**fields.pop("values"), **fields}


def score_file(task: str, gold: str, predictions: str, mode: Mode) -> Scored:
    """Metrics of a prediction file.

    ``gold`` is the official file, or ``ARCHIVE::MEMBER``. Raises ValueError naming file, line, field and remedy, and
    FileNotFoundError naming a missing file and, for gold, where it comes from.
    """
    benchmark = tasks.find(task)
    examples = _read_gold(benchmark, gold)
    return _scored(task, benchmark, examples, predictions, mode)[0]


def compare_files(task: str, gold: str, first: str, second: str, mode: Mode) -> tuple[Scored, dict[str, Any]]:
    """Metrics of a prediction file, and tests of its difference from another one on the same examples.

    The comparison has the other file's ``scores`` and ``matched_by``; of the task's own ``metric`` the ``difference`` (first
    less second), its 95 % ``interval`` by paired bootstrap and the ``p_value`` of approximate randomisation; for accuracies
    also that of ``mcnemar``. Where either score is undefined, the three are None, and ``undefined`` has the reason by file.
    Raises as ``score_file`` does.
    """
    benchmark = tasks.find(task)
    examples = _read_gold(benchmark, gold)
    (scores, ours), (others, theirs) = (_scored(task, benchmark, examples, file, mode) for file in (first, second))
    result: dict[str, Any] = {"scores": dict(others.values), "matched_by": others.matched_by, "metric": benchmark.metric}
    undefined = {
        file: scored.undefined[benchmark.metric]
        for file, scored in ((first, scores), (second, others))
        if benchmark.metric in scored.undefined
    }
    if undefined:
        result |= {**dict.fromkeys(Comparison._fields), "undefined": undefined}
    else:
        systems = [[answered(benchmark, examples, predicted, mode)] for predicted in (ours, theirs)]
        (found,) = compare(systems, Draws(len(examples), _RESAMPLES, seed=0), confidence=_CONFIDENCE)
        result |= {**found._asdict(), "interval": list(found.interval)}
    if benchmark.metric == "accuracy":
        result["mcnemar"] = mcnemar_of(examples, ours, theirs)
    return replace(scores, warnings=tuple(dict.fromkeys((*scores.warnings, *others.warnings)))), result


def _read_gold(benchmark: Task, gold: str) -> list[Example]:
    file = _file(gold)
    if not file.path.exists():
        raise FileNotFoundError(f"{file}: no such file; {benchmark.title} comes from {benchmark.origin}")
    examples = benchmark.read(file)
    if not examples:
        raise ValueError(f"{file}: holds no example; give the official file of {benchmark.title}")
    return examples


def _scored(task: str, benchmark: Task, examples: Sequence[Example], predictions: str, mode: Mode) -> tuple[Scored, list[Any]]:
    """Metrics of a prediction file, and its predictions."""
    file = _file(predictions)
    if not file.path.is_file():
        raise FileNotFoundError(f"{file}: no such file; give JSON Lines, one record per example")
    if _OURS.fullmatch(file.member or file.path.name):
        predicted = _matched_to_ours(file, tasks.name_of(task), benchmark, examples)
        return _facts(benchmark, examples, predicted, mode, "id", []), predicted
    records = list(json_lines(file))
    by_id = benchmark.matches_by_id or any("id" in record.fields for record in records)
    predicted = (_matched_by_id if by_id else _matched_by_position)(file, records, benchmark, examples, mode)
    warnings = []
    if not by_id:
        warnings.append(f"{file}: records carry no ids; they are matched with the examples by position")
    missing = [example.id for example, value in zip(examples, predicted, strict=True) if value is None]
    if missing:
        named = f"{', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}"
        warnings.append(f"{file}: no prediction for {len(missing):,} of {len(examples):,} questions ({named}), which score 0")
    return _facts(benchmark, examples, predicted, mode, "id" if by_id else "position", warnings), predicted


def _facts(
    benchmark: Task,
    examples: Sequence[Example],
    predicted: Sequence[Any],
    mode: Mode,
    matched_by: Literal["id", "position"],
    further: Sequence[str],
) -> Scored:
    scores = benchmark.score(examples, predicted, mode)
    corrected = benchmark.score(examples, predicted, "corrected").values if scores.undefined else {}
    return Scored(
        {name: None if name in scores.undefined else value for name, value in scores.values.items()},
        (*scores.warnings, *_part(benchmark, examples), *further),
        len(examples),
        benchmark.official_size(examples) or None,
        matched_by,
        scores.undefined,
        {name: corrected[name] for name in scores.undefined},
    )


def _matched_to_ours(file: BenchmarkFile, task: str, benchmark: Task, examples: Sequence[Example]) -> list[Any]:
    """The predictions that a cell of ours has kept, one per example.

    Raises ValueError where they are of another task or of other examples, by their ids or their gold values, where an id is
    repeated, or a prediction is none of the benchmark's.
    """
    try:
        with ipc.open_file(pa.BufferReader(file.content())) as reader:
            table = reader.read_all()
        table.validate(full=True)
        ids, kept = table["id"].to_pylist(), table["pred"].to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        remedy = "name predictions.arrow of a fine-tuning, or a file of JSON Lines"
        raise ValueError(f"{file}: no predictions of ours ({error}); {remedy}") from None
    made_for = (table.schema.metadata or {}).get(b"task", task.encode()).decode(errors="replace")
    if made_for != task:
        raise ValueError(f"{file}: predictions of {made_for}, not of {task}; name the task that they are of")
    if table["pred"].type != benchmark.prediction_type:
        raise ValueError(f"{file}: predictions of another kind than those of {benchmark.title}; name the task that they are of")
    rows: dict[str, tuple[_Row, Any]] = {}
    for number, (name, value) in enumerate(zip(ids, kept, strict=True), start=1):
        row = _Row(str(file), number, "")
        if name in rows:
            raise row.error("id", f"{name!r} is in row {rows[name][0].number} too", "keep one of the two")
        if value is None:
            raise row.error("pred", "found null", "give a prediction of each example")
        rows[name] = row, value
    strange = next(iter({example.id: None for example in examples}.keys() ^ rows.keys()), None)
    if strange is not None:
        problem = f"the predictions are of other examples than the gold file's: {strange!r} is in one of them only"
        raise ValueError(f"{file}: {problem}; name the file that was the cell's test")
    _check_gold(file, table, benchmark, examples)
    matched = ((*rows[example.id], example) for example in examples)
    return [benchmark.prediction(Record(row, benchmark.fields(value)), example) for row, value, example in matched]


def _check_gold(file: BenchmarkFile, table: pa.Table, benchmark: Task, examples: Sequence[Example]) -> None:
    """Raise ValueError where the gold values that a cell has kept are not the gold file's: two sets may have the same ids."""
    if "gold" not in table.column_names:
        return
    kept = dict(zip(table["id"].to_pylist(), table["gold"].to_pylist(), strict=True))
    gold = pa.array([benchmark.kept(example.target) for example in examples], benchmark.prediction_type).to_pylist()
    for example, value in zip(examples, gold, strict=True):
        if kept[example.id] != value:
            found = f"for {example.id!r} they were made beside the gold value {kept[example.id]!r}, the gold file has {value!r}"
            problem = f"the predictions are of other examples than the gold file's: {found}"
            raise ValueError(f"{file}: {problem}; name the file that was the cell's test")


class _Row(Line):
    """A row of a table."""

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for this row, naming file, row, field and remedy."""
        return ValueError(f"{self.file}, row {self.number}, field {field!r}: {problem}; {remedy}")


def record_format(task: str) -> str:
    """The fields of a prediction file of this benchmark, for people.

    Of a benchmark that a TOML file defines also the table of ``[dedup]`` that keeps its test texts out of a corpus.
    """
    benchmark = tasks.find(task)
    meaning = " ".join((benchmark.prediction.__doc__ or "").replace("``", "`").split())
    labels = f" Labels: {benchmark.meanings}." if isinstance(benchmark, SequenceClassification) else ""
    needed = "needed" if benchmark.matches_by_id else "optional; without it records stand in the order of the official file"
    if isinstance(benchmark, Tagging):
        labels = f" Tags: {', '.join(benchmark.tags)}."
    count = f"{benchmark.official_test_examples:,} " if benchmark.official_test_examples else ""
    text = f"{benchmark.title}: JSON Lines, an object for each of the {count}official test {benchmark.official_unit}."
    text += f"\n`id`: the example's ({needed}).\n{meaning}{labels}"
    if is_file(task):
        text += f"\n\nKeeps its test texts out of a corpus:\n{tasks.table_of(Path(task)).decontamination}"
    return text


def _part(benchmark: Task, gold: Sequence[Example]) -> list[str]:
    """A warning where the gold file has another size than the official test set."""
    size = part_of(len(gold), benchmark.official_size(gold))
    return [f"{size} of {benchmark.title}'s official test set: the scores compare with no published ones"] if size else []


def _matched_by_position(
    file: BenchmarkFile, records: Sequence[Record], benchmark: Task, examples: Sequence[Example], mode: Mode
) -> list[Any]:
    """One predicted value per example. Raises ValueError where a record is wrong, or there are more or fewer than examples."""
    if len(records) != len(examples):
        problem = f"the file ends after {len(records):,} predictions for {len(examples):,} examples of {benchmark.title}"
        raise file.error(max(len(records), 1), "record", problem, "give one line per example")
    return [benchmark.prediction(record, example) for record, example in zip(records, examples, strict=True)]


def _matched_by_id(
    file: BenchmarkFile, records: Sequence[Record], benchmark: Task, examples: Sequence[Example], mode: Mode
) -> list[Any]:
    """One predicted value per example, in their order; None where the official script counts a missing one as 0.

    Raises ValueError where a record is wrong or has no id, an unknown one or one that another has, and where an example has no
    record.
    """
    by_id = _by_id(records)
    ids = _ids(examples, by_id)
    known = set(ids)
    if len(known) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise records[0].error("id", f"two examples of the official file have the id {twice!r}", "leave all ids out")
    unknown = next((name for name in by_id if name not in known), None)
    if unknown is not None:
        remedy = f"take the ids from the official file; the first are {', '.join(map(repr, ids[:3]))}"
        raise by_id[unknown].error("id", f"no example has the id {unknown!r}", remedy)
    if len(by_id) < len(examples) and not (benchmark.scores_missing and mode == "official"):
        absent = next(name for name in ids if name not in by_id)
        counted = "questions" if benchmark.matches_by_id else f"examples of {benchmark.title}"
        problem = f"the file ends after {len(records):,} predictions for {len(examples):,} {counted}, without {absent!r}"
        remedy = "give an answer to each, an empty one where there is none" if benchmark.matches_by_id else "give one for each"
        raise file.error(max(len(records), 1), "id", problem, remedy)
    pairs = zip(ids, examples, strict=True)
    return [benchmark.prediction(by_id[name], example) if name in by_id else None for name, example in pairs]


def _by_id(records: Sequence[Record]) -> dict[str, Record]:
    """The records by their ids. Raises ValueError where one has none, or one that another has."""
    by_id: dict[str, Record] = {}
    for record in records:
        name = _id(record)
        if name in by_id:
            raise record.error("id", f"{name!r} is in line {by_id[name].line.number} too", "keep one of the two")
        by_id[name] = record
    return by_id


def _ids(examples: Sequence[Example], written: Mapping[str, Record]) -> list[str]:
    """The examples' ids; where a benchmark has two kinds, those that the records use."""
    official = [example.official_id or example.id for example in examples]
    fits = len(set(official)) == len(official) and written.keys() <= set(official)
    return official if fits else [example.id for example in examples]


def _id(record: Record) -> str:
    """A string; a number is taken for its digits, for some official files number their examples."""
    return record.written("id")


def _file(written: str) -> BenchmarkFile:
    path, _, member = written.partition(MEMBER_MARK)
    return BenchmarkFile(Path(path), member)
