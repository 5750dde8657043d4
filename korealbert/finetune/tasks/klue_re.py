"""KLUE-RE: which of 30 relations holds between two entities of a sentence? Micro F1 and AUPRC on 7,765 dev sentences.

Official files ``klue-re-v1.1_{train,dev}.json`` (32,470 / 7,765): objects with ``sentence``, ``subject_entity`` and
``object_entity`` (``start_idx`` and the inclusive ``end_idx``), ``label``. The test set is not public. ``no_relation`` is left
out of the F1 and part of the AUPRC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from korealbert.finetune import klue
from korealbert.finetune.json_records import Record, json_list
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.classification import check_lengths
from korealbert.finetune.metrics.relations import absent_classes, auprc, average_precision, micro_f1
from korealbert.finetune.reading import BenchmarkFile
from korealbert.finetune.task import Benchmark, Example, Scores

RELATIONS = (
    "no_relation",
    "org:dissolved",
    "org:founded",
    "org:place_of_headquarters",
    "org:alternate_names",
    "org:member_of",
    "org:members",
    "org:political/religious_affiliation",
    "org:product",
    "org:founded_by",
    "org:top_members/employees",
    "org:number_of_employees/members",
    "per:date_of_birth",
    "per:date_of_death",
    "per:place_of_birth",
    "per:place_of_death",
    "per:place_of_residence",
    "per:origin",
    "per:employee_of",
    "per:schools_attended",
    "per:alternate_names",
    "per:parents",
    "per:children",
    "per:siblings",
    "per:spouse",
    "per:other_family",
    "per:colleagues",
    "per:product",
    "per:religion",
    "per:title",
)
"""In the order of ``relation_list.json``, which is the order of probabilities."""

NO_RELATION = 0


class Relation(NamedTuple):
    """A prediction: a relation's number, and a probability for each of the 30, or None where a system gives none."""

    label: int
    probs: Sequence[float] | None


@dataclass(frozen=True, slots=True)
class Related(Example):
    """``text`` is the sentence; the entities are its characters [begin, end)."""

    subject_entity: tuple[int, int] = (0, 0)
    object_entity: tuple[int, int] = (0, 0)


class KlueRe(Benchmark):
    """Relation extraction of KLUE."""

    name = "klue_re"
    title = "KLUE-RE"
    official_test_examples = 7_765
    origin = klue.ORIGIN
    has_official_dev = True
    metric = "micro_f1"

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All sentences."""
        examples: list[Example] = []
        for item in json_list(file):
            sentence = item.text("sentence")
            subject, object_ = (_span(item.record(name)) for name in ("subject_entity", "object_entity"))
            label = _relation(item)
            examples.append(Related(item.text("guid"), sentence, label, subject_entity=subject, object_entity=object_))
        return examples

    def prediction(self, record: Record, example: Example) -> Relation:
        """The relation's name in ``label``, and in ``probs`` 30 numbers from 0 to 1 in the official order, or nothing."""
        if "probs" not in record:
            return Relation(_relation(record), None)
        probs = record.numbers("probs")
        if len(probs) != len(RELATIONS):
            raise record.error("probs", f"{len(probs)} numbers", f"give {len(RELATIONS)}, in the order of relation_list.json")
        if not all(0 <= value <= 1 for value in probs):
            raise record.error("probs", f"lie between {min(probs):g} and {max(probs):g}", "give probabilities from 0 to 1")
        return Relation(_relation(record), probs)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``micro_f1``, and with probabilities ``auprc`` and ``average_precision``."""
        check_lengths(examples, predicted, "F1")
        gold = [example.target for example in examples]
        labels = [prediction.label for prediction in predicted]
        values = {"micro_f1": micro_f1(gold, labels, classes=len(RELATIONS), without=NO_RELATION)}
        warnings = [f"every prediction is {RELATIONS[labels[0]]!r}"] if len(set(labels)) == 1 < len(set(gold)) else []
        unknown = sum(prediction.probs is None for prediction in predicted)
        if unknown:
            warnings.append(f"{unknown:,} of {len(predicted):,} predictions have no probs: there is no auprc")
            return Scores(values, tuple(warnings))
        probs = [prediction.probs for prediction in predicted]
        values |= {"auprc": auprc(gold, probs, mode), "average_precision": average_precision(gold, probs)}
        if absent := absent_classes(gold, len(RELATIONS)):
            counted = "each counts 50 in auprc" if mode == "official" else "auprc leaves them out"
            warnings.append(f"{len(absent)} of {len(RELATIONS)} relations do not occur in gold: {counted}")
        return Scores(values, tuple(warnings))


def _relation(record: Record) -> int:
    label = record.text("label")
    if label not in RELATIONS:
        raise record.error("label", f"found {label!r}", "a label is one of relation_list.json")
    return RELATIONS.index(label)


def _span(entity: Record) -> tuple[int, int]:
    return entity.integer("start_idx"), entity.integer("end_idx") + 1


TASK = KlueRe()
