"""Score a prediction file of any system against a benchmark's official file.

A prediction file is JSON Lines, one record per example. Records are matched by the id of their example if they have one: in
``id``, in the official file's id field, or in any field whose values are exactly the ids. Otherwise they must be in the order
of the official file; this is not allowed for questions.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.definition_file import is_file
from korealbert.finetune.metrics import Mode
from korealbert.finetune.records import Record, json_lines, normalisation_hint
from korealbert.finetune.scores.predictions import differences, read_predictions, recipe_beside, tested_examples
from korealbert.finetune.scores.resampling import Draws
from korealbert.finetune.scores.statistics import Comparison, answered, compare, mcnemar_of
from korealbert.finetune.task import Example, Task
from korealbert.finetune.task_types.sequence import SequenceClassification
from korealbert.finetune.task_types.tagged import Tagging
from korealbert.formatting import nearest, part_of

MEMBER_MARK = "::"
"""Separates an archive from the name of a file in it."""


_CELL_FILE = re.compile(r".*\.arrow(\.(gz|bz2|xz|zst))?", re.DOTALL)
"""File name of predictions that a fine-tuning wrote, compressed or not."""

_ID_NAME = re.compile(
    r"(?i:(?:.*[^a-z])?(?:id|idx|index|guid|uu?id|qid|docid|no|row|line|key|번호)[0-9]*)|.*[a-z0-9]I(?:d|D|dx|ndex)"
    r"|__index_level_0__|Unnamed: 0",  # pandas' names for the index of a frame
    re.DOTALL,
)
"""Names of fields that probably hold ids."""

_RESAMPLES = 1000
"""Resamples per interval and per test; the smallest p-value is then 1 / 1001."""

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Scored:
    """Scores of a prediction file."""

    values: Mapping[str, float | None]
    """Metrics by name, times 100; None if the official script prints ``nan``."""
    warnings: tuple[str, ...]
    examples: int
    """Number of scored examples: the gold file's, or those of the part that a cell was tested on."""
    examples_official: int | None
    """Size of the official test set. Scores over fewer examples are not comparable with published ones. None: unknown."""
    matched_by: str
    """The field with the examples' ids by which predictions were matched, or ``position``."""
    undefined: Mapping[str, str]
    """The reason for each metric without an official value."""
    corrected: Mapping[str, float]
    """The value of these metrics by their definition."""

    def facts(self) -> dict[str, Any]:
        """Return the metrics and all other fields but warnings, for JSON; ``undefined`` and ``corrected`` only if not empty."""
        fields = asdict(self)
        del fields["warnings"]
        if not self.undefined:
            del fields["undefined"], fields["corrected"]
        return {**fields.pop("values"), **fields}


def score_file(task: str, gold: str, predictions: str, mode: Mode, *, recipe: Mapping[str, Any] | None = None) -> Scored:
    """Score a prediction file.

    ``gold`` is the official file, or ``ARCHIVE::MEMBER``. ``recipe`` is the recipe of the cell that made the predictions, in
    case there is no manifest beside them. Raises ValueError naming file, line, field and remedy, and FileNotFoundError naming
    a missing file and, for gold, its origin.
    """
    benchmark = tasks.find(task)
    examples = _read_gold(benchmark, gold)
    tested = _tested(benchmark, examples, predictions, recipe)
    return _scored(benchmark, gold, examples, tested, predictions, mode)[0]


def compare_files(task: str, gold: str, first: str, second: str, mode: Mode) -> tuple[Scored, dict[str, Any]]:
    """Score a prediction file, and test its difference from another one on the same examples.

    The comparison has the second file's ``scores`` and ``matched_by``, and for the task's main ``metric`` the ``difference``
    (first minus second), its 95 % ``interval`` by paired bootstrap, and the ``p_value`` of approximate randomisation; for
    accuracies also the p-value of ``mcnemar``. If a score is undefined, these are None and ``undefined`` has the reason by
    file. Raises as ``score_file`` does.
    """
    benchmark = tasks.find(task)
    examples = _read_gold(benchmark, gold)
    parts = {file: _tested(benchmark, examples, file) for file in (first, second)}
    both = min(parts.values(), key=len)
    for file, part in parts.items():
        if _is_of_cell(file) and [example.id for example in part] != [example.id for example in both]:
            problem = f"its {len(part):,} examples are not the {len(both):,} of the other system"
            raise ValueError(f"{file}: {problem}; compare systems that were tested on the same part")
    (scores, ours), (others, theirs) = (_scored(benchmark, gold, examples, both, file, mode) for file in (first, second))
    result: dict[str, Any] = {"scores": dict(others.values), "matched_by": others.matched_by, "metric": benchmark.metric}
    undefined = {
        file: scored.undefined[benchmark.metric]
        for file, scored in ((first, scores), (second, others))
        if benchmark.metric in scored.undefined
    }
    if undefined:
        result |= {**dict.fromkeys(Comparison._fields), "undefined": undefined}
    else:
        systems = [[answered(benchmark, both, predicted, mode)] for predicted in (ours, theirs)]
        (found,) = compare(systems, Draws(len(both), _RESAMPLES, seed=0), confidence=_CONFIDENCE)
        result |= {**found._asdict(), "interval": list(found.interval.of_difference(benchmark.metric))}
    if benchmark.metric == "accuracy":
        result["mcnemar"] = mcnemar_of(both, ours, theirs)
    return replace(scores, warnings=tuple(dict.fromkeys((*scores.warnings, *others.warnings)))), result


def _read_gold(benchmark: Task, gold: str) -> list[Example]:
    file = named_file(gold)
    if not file.path.exists():
        raise FileNotFoundError(f"{file}: no such file; {benchmark.title} comes from {benchmark.origin}")
    examples = benchmark.read(file)
    if not examples:
        raise ValueError(f"{file}: holds no example; give the official file of {benchmark.title}")
    return examples


def _scored(
    benchmark: Task, gold: str, whole: Sequence[Example], examples: Sequence[Example], predictions: str, mode: Mode
) -> tuple[Scored, list[Any]]:
    """Return the scores of a prediction file on some examples of the whole gold file, and its predictions."""
    if mode not in (modes := get_args(Mode)):
        raise ValueError(f"mode: {mode!r} is none of {', '.join(map(repr, modes))}{nearest(str(mode), modes)}")
    file = named_file(predictions)
    if not file.path.is_file():
        raise FileNotFoundError(f"{file}: no such file; give JSON Lines, one record per example")
    warnings = []
    if len(examples) < len(whole):
        warnings.append(f"{file}: of a part, {len(examples):,} of the {len(whole):,} examples of {gold}")
    if _is_of_cell(predictions):
        predicted, matched_by = _predictions_of_cell(file, benchmark, examples), "id"
        warnings += _gold_warnings(file, tasks.name_of_task(benchmark), gold)
    else:
        predicted, matched_by, further = _matched(file, benchmark, examples, mode)
        warnings += further
    scores = benchmark.score(examples, predicted, mode)
    corrected = benchmark.score(examples, predicted, "corrected").values if scores.undefined else {}
    official = benchmark.official_size(whole)
    scored = Scored(
        values={name: None if name in scores.undefined else value for name, value in scores.values.items()},
        warnings=(*scores.warnings, *_part(benchmark, len(examples), official), *warnings),
        examples=len(examples),
        examples_official=official or None,
        matched_by=matched_by,
        undefined=scores.undefined,
        corrected={name: corrected[name] for name in scores.undefined},
    )
    return scored, predicted


def _matched(file: BenchmarkFile, benchmark: Task, examples: Sequence[Example], mode: Mode) -> tuple[list[Any], str, list[str]]:
    """Match the records of a prediction file with the examples.

    Returns one predicted value per example (None: there is none, and it scores 0), the field of the ids or ``position``, and
    warnings.
    """
    records, warnings = list(json_lines(file)), list[str]()
    fields, others = _id_fields(records, benchmark, examples)
    field = fields[0] if fields else "id" if benchmark.matches_by_id else None
    if field is not None:
        by_id = _by_id(records, field)
        ids = _ids(examples, by_id, field)
        predicted = _matched_by_id(file, by_id, ids, field, benchmark, examples, mode)
        for other in fields[1:]:
            _check_same(records, field, other, benchmark, examples)
        if not any(ids == kind for kind in _kinds(examples)):
            warnings.append(f"{file}: {field!r} is taken for the number of the example in the official file, from {min(ids)}")
    else:
        predicted = _matched_by_position(file, records, benchmark, examples)
        named = ", ".join(map(repr, others))
        reason = f"the values of {named} are not ids of the gold file; records" if others else "records carry no ids; they"
        warnings.append(f"{file}: {reason} are matched with the examples by position")
    missing = [example.id for example, value in zip(examples, predicted, strict=True) if value is None]
    if missing:
        named = f"{', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}"
        warnings.append(f"{file}: no prediction for {len(missing):,} of {len(examples):,} questions ({named}), which score 0")
    return predicted, field or "position", warnings


def _is_of_cell(predictions: str) -> bool:
    file = named_file(predictions)
    return _CELL_FILE.fullmatch(file.member or file.path.name) is not None


def _tested(
    benchmark: Task, examples: Sequence[Example], predictions: str, recipe: Mapping[str, Any] | None = None
) -> Sequence[Example]:
    """Return the examples of the gold file that were predicted: a cell may have been tested on a part."""
    if not _is_of_cell(predictions):
        return examples
    file = named_file(predictions)
    return tested_examples(recipe_beside(file.path) or recipe or {}, benchmark, examples, file.path.name)


def _predictions_of_cell(file: BenchmarkFile, benchmark: Task, examples: Sequence[Example]) -> list[Any]:
    """Return the predictions that a cell wrote, one per example. Raises ValueError for invalid ones."""
    predictions = zip(read_predictions(file, benchmark, examples), examples, strict=True)
    return [benchmark.prediction(Record(row, benchmark.fields(value)), example) for (row, value), example in predictions]


def _gold_warnings(file: BenchmarkFile, task: str, gold: str) -> list[str]:
    """Warn if the gold file may not be the cell's. Raises ValueError if it certainly is not."""
    found = list(differences(recipe_beside(file.path), task, named_file(gold), file.path.name))
    for other in found:
        if other.certain:
            raise ValueError(f"{file}: {other.text}; name the task and the gold file of the cell")
    return [f"{file}: {other.text}; it was packed, so that its content is not known" for other in found]


def record_format(task: str) -> str:
    """Describe the fields of a prediction file of this benchmark.

    For a benchmark that a TOML file defines, the text also has the table of ``[dedup]`` that removes its test texts from a
    corpus.
    """
    benchmark = tasks.find(task)
    meaning = " ".join((benchmark.prediction.__doc__ or "").replace("``", "`").split())
    labels = f" Labels: {benchmark.meanings}." if isinstance(benchmark, SequenceClassification) else ""
    needed = "needed" if benchmark.matches_by_id else "optional; without it records are in the order of the official file"
    if isinstance(benchmark, Tagging):
        labels = f" Tags: {', '.join(benchmark.tags)}."
    count = f"{benchmark.official_test_examples:,} " if benchmark.official_test_examples else ""
    each = f"each of the {count}official test {benchmark.official_unit}"
    if benchmark.official_unit != "examples":
        each = f"each example of the {count}official test {benchmark.official_unit}"
    text = f"{benchmark.title}: JSON Lines, an object for {each}."
    name = " or ".join(f"`{field.replace(_AND, f'`{_AND}`')}`" for field in dict.fromkeys(("id", *benchmark.id_fields)))
    text += f"\n{name}: the example's ({needed}).\n{meaning}{labels}"
    if is_file(task):
        text += f"\n\nKeeps its test texts out of a corpus:\n{tasks.table_of(Path(task)).decontamination}"
    return text


def _part(benchmark: Task, examples: int, official: int | None) -> list[str]:
    """Warn if the number of examples is not that of the official test set."""
    size = part_of(examples, official)
    return [f"{size} of {benchmark.title}'s official test set: the scores compare with no published ones"] if size else []


def _matched_by_position(
    file: BenchmarkFile, records: Sequence[Record], benchmark: Task, examples: Sequence[Example]
) -> list[Any]:
    """Return one predicted value per example. Raises ValueError if a record is wrong, or their number is not the examples'."""
    if len(records) != len(examples):
        problem = f"the file ends after {len(records):,} predictions for {len(examples):,} examples of {benchmark.title}"
        raise file.error(max(len(records), 1), "record", problem, "give one line per example")
    return [benchmark.prediction(record, example) for record, example in zip(records, examples, strict=True)]


def _id_fields(records: Sequence[Record], benchmark: Task, examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    """Return the fields that hold the examples' ids, declared ones first, and other fields with a name like an id's."""
    declared = [name for name in dict.fromkeys(("id", *benchmark.id_fields)) if any(_has(record, name) for record in records)]
    if declared:
        return _declared_id_fields(declared, records, benchmark, examples), []
    return _likely_id_fields(records, benchmark, examples)


def _declared_id_fields(
    declared: Sequence[str], records: Sequence[Record], benchmark: Task, examples: Sequence[Example]
) -> list[str]:
    """Return those of the declared id fields that hold ids, or else all, so that their values are errors."""
    own, official = _kinds(examples)
    known = {*own, *official, *map(benchmark.document, examples)}
    values = {name: [_id(record, name) for record in records if _given(record, name)] for name in declared}
    with_ids = [name for name in declared if not known.isdisjoint(values[name])]
    if not with_ids:
        return list(declared)
    # Beside ids, running numbers just count the records; any other values are unknown ids.
    others = [name for name in declared if name not in with_ids and values[name] and not _numbers(examples, values[name])]
    return with_ids + others


def _likely_id_fields(records: Sequence[Record], benchmark: Task, examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    """Return the fields that hold ids without being declared, and other fields with a name like an id's.

    A field is taken if its values are exactly the ids; if the ids are running numbers, its name must look like an id's too. If
    there is no such field, those are taken whose names look like an id's and whose values number the examples from 0 or 1, or
    are ids of different examples in more than half of the records, so that the other values are errors.
    """
    own, official = map(set, _kinds(examples))
    values: defaultdict[str, list[str]] = defaultdict(list)
    answers = benchmark.fields(benchmark.stored(examples[0].target))
    for record in records:
        for name, value in record.fields.items():
            if name not in answers and isinstance(value, str | int | float):
                values[name].append(record.written(name))
    likely = [name for name in values if _ID_NAME.fullmatch(name)]
    distinctive = [ids for ids in (own, official) if not _numbers(examples, ids)]
    taken = [name for name in likely if set(values[name]) in (own, official)]
    taken += [name for name in values if name not in likely and set(values[name]) in distinctive]
    if not taken:
        shares = {name: len({*values[name]} & (own | official)) / len(records) for name in likely}
        taken = [name for name in likely if _numbers(examples, values[name]) or shares[name] > 0.5]
    return taken, [name for name in likely if name not in taken]


def _matched_by_id(
    file: BenchmarkFile,
    by_id: Mapping[str, Record],
    ids: Sequence[str],
    field: str,
    benchmark: Task,
    examples: Sequence[Example],
    mode: Mode,
) -> list[Any]:
    """Return one predicted value per example; None if the official script scores a missing prediction as 0.

    Raises ValueError if a record is wrong or has an unknown id, or if an example has no record.
    """
    known = set(ids)
    if len(known) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        first = next(iter(by_id.values()))
        raise first.error(field, f"two examples of the official file have the id {twice!r}", "leave all ids out")
    unknown = next((name for name in by_id if name not in known), None)
    if unknown is not None:
        remedy = "take the ids from the official file"
        if not (hint := normalisation_hint(unknown, ids)):
            remedy += f"; the first are {', '.join(map(repr, ids[:3]))}"
        raise by_id[unknown].error(field, f"no example has the id {unknown!r}{hint}", remedy)
    if len(by_id) < len(examples) and not (benchmark.scores_missing and mode == "official"):
        absent = next(name for name in ids if name not in by_id)
        counted = "questions" if benchmark.matches_by_id else f"examples of {benchmark.title}"
        problem = f"the file ends after {len(by_id):,} predictions for {len(examples):,} {counted}, without {absent!r}"
        remedy = "give an answer to each, an empty one where there is none" if benchmark.matches_by_id else "give one for each"
        raise file.error(max(len(by_id), 1), field, problem, remedy)
    pairs = zip(ids, examples, strict=True)
    return [benchmark.prediction(by_id[name], example) if name in by_id else None for name, example in pairs]


def _by_id(records: Sequence[Record], field: str) -> dict[str, Record]:
    """Return the records by id. Raises ValueError if an id is missing or repeated."""
    by_id: dict[str, Record] = {}
    for record in records:
        name = _id(record, field)
        if name in by_id:
            raise record.error(field, f"{name!r} is in {by_id[name].line.position} too", "keep one of the two")
        by_id[name] = record
    return by_id


def _check_same(records: Sequence[Record], field: str, other: str, benchmark: Task, examples: Sequence[Example]) -> None:
    """Raise ValueError if the id in field ``other`` is of another example than that in ``field``, by which all were matched."""
    by_field, named = _by_id(records, field), [record for record in records if _given(record, other)]
    ids, others = _ids(examples, by_field, field), _ids(examples, {_id(record, other) for record in named}, other)
    allowed = {name: (its, benchmark.document(example)) for name, its, example in zip(ids, others, examples, strict=True)}
    for record in named:
        name, written = _id(record, field), _id(record, other)
        if written not in allowed[name]:
            problem = f"{written!r} is not the example that {field!r} names, {name!r}"
            raise record.error(other, problem, "correct one of the two, or leave it out of all records")


def _ids(examples: Sequence[Example], written: Collection[str], field: str) -> list[str]:
    """Return the examples' ids; if a benchmark has two kinds, the kind that more records use.

    If the values of a field other than ``id`` are exactly the examples' numbers and not ids, return the numbers.
    """
    own, official = _kinds(examples)
    used = [len(set(written).intersection(ids)) for ids in (own, official)]
    if field != "id" and max(used) < len(examples) and (numbers := _numbers(examples, written)):
        return numbers
    return official if len(set(official)) == len(official) and used[1] >= used[0] else own


def _kinds(examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    """Return the examples' ids: our own, and the official file's if they differ."""
    return [example.id for example in examples], [example.official_id or example.id for example in examples]


def _numbers(examples: Sequence[Example], written: Collection[str]) -> list[str]:
    """Return the numbers of all examples, from 0 or 1, if these are exactly the written values, else []."""
    ranges = ([str(number + first) for number in range(len(examples))] for first in (0, 1))
    return next((numbers for numbers in ranges if set(numbers) == set(written)), [])


_AND = " + "
"""Joins the names of fields that form an id together."""


def _has(record: Record, field: str) -> bool:
    if field in record.fields or _AND not in field:
        return field in record.fields or field.partition(".")[0] in record.fields  # Dots lead into objects.
    return all(_has(record, part) for part in field.split(_AND))


def _given(record: Record, field: str) -> bool:
    if field not in record.fields and _AND in field:
        return all(_given(record, part) for part in field.split(_AND))
    first, _, rest = field.partition(".")
    inner = record.fields.get(first)
    return field in record or (bool(rest) and isinstance(inner, dict) and _given(record.record(first), rest))


def _id(record: Record, field: str) -> str:
    """Return an id as a string; some official files have numbers. The parts of a joint id are joined by slashes."""
    if field not in record.fields and _AND in field:
        return "/".join(_id(record, part) for part in field.split(_AND))
    first, _, rest = field.partition(".")
    if rest and field not in record.fields:
        return _id(record.record(first), rest)
    return record.written(field)


def named_file(written: str) -> BenchmarkFile:
    """Return the file of this path, else the member ``PATH::MEMBER`` of an archive."""
    if os.path.exists(written):  # noqa: PTH110 (Path's raises PermissionError)
        return BenchmarkFile(Path(written))
    path, _, member = written.partition(MEMBER_MARK)
    return BenchmarkFile(Path(path), member)
