"""KLUE-RE: which of 30 relations holds between two entities of a sentence? Micro F1 and AUPRC on 7,765 dev sentences.

Official files ``klue-re-v1.1_{train,dev}.json`` (32,470 / 7,765): objects with ``sentence``, ``subject_entity`` and
``object_entity`` (``start_idx`` and the inclusive ``end_idx``), ``label``. The test set is not public. ``no_relation`` counts
for the AUPRC, but not for the F1.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.encoders.alignment import frame
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import ClassCounts, absent_classes, auprc, average_precision, check_lengths, micro_f1
from korealbert.finetune.records import Record, json_list
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import POOLING_HEADS, Example, Feature, Scores, Task, name_of, narrowed
from korealbert.finetune.tasks.klue import ORIGIN, klue_defaults

if TYPE_CHECKING:
    import torch
    from torch import nn

_RELATION_LIST = """
no_relation org:dissolved org:founded org:place_of_headquarters org:alternate_names org:member_of org:members
org:political/religious_affiliation org:product org:founded_by org:top_members/employees org:number_of_employees/members
per:date_of_birth per:date_of_death per:place_of_birth per:place_of_death per:place_of_residence per:origin per:employee_of
per:schools_attended per:alternate_names per:parents per:children per:siblings per:spouse per:other_family per:colleagues
per:product per:religion per:title
"""
RELATIONS = tuple(_RELATION_LIST.split())
"""The relations in the order of ``relation_list.json``, which is also the order of probabilities."""

_NO_RELATION = 0


class Relation(NamedTuple):
    """A prediction: a relation's number and the probabilities of all 30, or None if a system gives no probabilities."""

    label: int
    probs: Sequence[float] | None


@dataclass(frozen=True, slots=True)
class Related(Example):
    """A sentence with two entities, which are characters [begin, end) of ``text``."""

    subject_entity: tuple[int, int] = (0, 0)
    object_entity: tuple[int, int] = (0, 0)


class KlueRe(Task):
    """Relation extraction of KLUE."""

    title = "KLUE-RE"
    id_fields = ("guid",)
    heads = POOLING_HEADS
    official_test_examples = 7_765
    origin = ORIGIN
    has_official_dev = False
    metric = "micro_f1"
    others = ("auprc", "average_precision")
    prediction_type = pa.struct([("label", pa.int64()), ("probs", pa.list_(pa.float64()))])
    target_type = pa.int64()
    listed = 4
    markers = ("<subj>", "</subj>", "<obj>", "</obj>")
    defaults = klue_defaults(epochs=3, max_length=256)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all sentences."""
        examples: list[Example] = []
        for item in json_list(file, unique="guid"):
            sentence = item.text("sentence")
            subject, object_ = (_span(item.record(name), sentence) for name in ("subject_entity", "object_entity"))
            label = _relation(item)
            examples.append(Related(item.text("guid"), sentence, label, subject_entity=subject, object_entity=object_))
        return examples

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode ``[CLS] sentence [SEP]`` with markers around the entities, cut at the end.

        Raises ValueError if the entities overlap or are not in the sentence.
        """
        special = frame(tokenizer, pair=False)
        room = max_length - special.size
        marked = [marked_ids(narrowed(example, Related), tokenizer)[:room] for example in examples]
        inputs = [special.around(ids) for ids in marked]
        return [
            Feature(ids, segments, example.target, index)
            for index, ((ids, segments), example) in enumerate(zip(inputs, examples, strict=True))
        ]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Logits [B, relations]."""
        return ("logits",)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head on the pooled vector with one logit per relation."""
        from korealbert.finetune.task_types.heads import PooledHead  # noqa: PLC0415 (planning does without)

        return PooledHead(hidden_size, len(RELATIONS), dropout, hidden=self.chosen == "electra")

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Return the cross-entropy over the relations."""
        import torch  # noqa: PLC0415 (planning does without)

        wanted = torch.tensor(targets, device=logits.device)
        return torch.nn.functional.cross_entropy(logits.float(), wanted)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """Return the most probable relation and all probabilities."""
        probabilities_BC = logits.double().softmax(dim=-1)
        labels = probabilities_BC.argmax(dim=-1).tolist()
        return [Relation(label, probs) for label, probs in zip(labels, probabilities_BC.tolist(), strict=True)]

    def stored(self, value: Any) -> dict[str, Any]:
        """Return a relation with its probabilities; gold relations have none."""
        return value._asdict() if isinstance(value, Relation) else {"label": value, "probs": None}

    def restored(self, stored: Any) -> Relation:
        """Restore the relation with its probabilities."""
        return Relation(stored["label"], stored["probs"])

    def prediction(self, record: Record, example: Example) -> Relation:
        """`label`: the relation's name; `probs` (optional): 30 numbers from 0 to 1 in the official order."""
        if "probs" not in record:
            return Relation(_relation(record), None)
        probs = record.numbers("probs")
        if len(probs) != len(RELATIONS):
            raise record.error("probs", f"{len(probs)} numbers", f"give {len(RELATIONS)}, in the order of relation_list.json")
        if not all(0 <= value <= 1 for value in probs):
            raise record.error("probs", f"lie between {min(probs):g} and {max(probs):g}", "give probabilities from 0 to 1")
        return Relation(_relation(record), probs)

    def fields(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Return the relation's name and the probabilities."""
        return {**stored, "label": name_of(RELATIONS, stored["label"])}

    def labelled(self, example: Example, predicted: Relation) -> tuple[list[str], list[str]]:
        """Return the names of both relations."""
        return [RELATIONS[example.target]], [RELATIONS[predicted.label]]

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``micro_f1``, and with probabilities ``auprc`` and ``average_precision``."""
        check_lengths(examples, predicted, "F1")
        gold = [example.target for example in examples]
        labels = [prediction.label for prediction in predicted]
        values = {"micro_f1": micro_f1(gold, labels, classes=len(RELATIONS), without=_NO_RELATION)}
        warnings = [f"every prediction is {RELATIONS[labels[0]]!r}"] if len(set(labels)) == 1 < len(set(gold)) else []
        unknown = sum(prediction.probs is None for prediction in predicted)
        if unknown:
            warnings.append(f"{unknown:,} of {len(predicted):,} predictions have no probs: there is no auprc")
            return Scores(values, tuple(warnings))
        probs = [prediction.probs for prediction in predicted]
        values |= {"auprc": auprc(gold, probs, mode), "average_precision": average_precision(gold, probs)}
        undefined = {}
        if absent := absent_classes(gold, len(RELATIONS)):
            counted = "each counts 50 in auprc" if mode == "official" else "auprc leaves them out"
            why = f"{len(absent)} of {len(RELATIONS)} relations do not occur in gold"
            warnings.append(f"{why}: {counted}")
            undefined = {"auprc": why} if mode == "official" else {}
        return Scores(values, tuple(warnings), undefined)

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Compute micro F1 from counts of all relations but ``no_relation``."""
        rows = [(e.target, p.label) for e, p in zip(examples, predicted, strict=True)]
        counts = [(g == p != _NO_RELATION, g != _NO_RELATION, p != _NO_RELATION) for g, p in rows]
        return Additive.of_counts(counts, ClassCounts.micro_f1)


def marked_ids(example: Related, tokenizer: Any) -> list[int]:
    """Return the pieces of the sentence with the four markers.

    The parts between markers are tokenized separately, so that no piece crosses an entity's boundary. The first piece after a
    marker within a word is written as a continuation of the word.
    """
    spans = {"subj": example.subject_entity, "obj": example.object_entity}
    (first, (first_begin, first_end)), (second, (second_begin, second_end)) = sorted(spans.items(), key=lambda item: item[1])
    if not 0 <= first_begin < first_end <= second_begin < second_end <= len(example.text):
        problem = f"example {example.id}: entities at [{first_begin}, {first_end}) and [{second_begin}, {second_end})"
        raise ValueError(f"{problem} of {len(example.text)} characters; give two apart, end_idx being the last character's")
    cuts = [0, first_begin, first_end, second_begin, second_end, len(example.text)]
    markers = [f"<{first}>", f"</{first}>", f"<{second}>", f"</{second}>"]
    ids: list[int] = []
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        ids += _part_ids(example.text, begin, end, tokenizer)
        if number < len(markers):
            ids.append(tokenizer.convert_tokens_to_ids(markers[number]))
    return ids


def _part_ids(text: str, begin: int, end: int, tokenizer: Any) -> list[int]:
    """Return the ids of ``text[begin:end]`` as part of the text."""
    visible = text[begin:end].strip()
    if not visible:
        return []
    within_word = begin > 0 and not text[begin - 1].isspace() and not text[begin].isspace()
    bytewise = begin > 0 and not within_word and tokenizer.convert_tokens_to_ids("Ġ") != tokenizer.unk_token_id
    ids: list[int] = tokenizer(f" {visible}" if bytewise else visible, add_special_tokens=False)["input_ids"]
    # Some tokenizers return no piece for a control character or a single accent.
    if not within_word or not ids:
        return ids
    written = tokenizer.convert_ids_to_tokens(ids[0])
    if written == "▁":
        return ids[1:]
    # SentencePiece marks the beginning of a word, WordPiece its continuation unless that is punctuation.
    continued = written[1:] if written.startswith("▁") else f"##{written}" if written[0].isalnum() else written
    known = tokenizer.get_vocab().get(continued)
    return ids if known is None else [known, *ids[1:]]


def _relation(record: Record) -> int:
    label = record.text("label")
    if label not in RELATIONS:
        raise record.error("label", f"found {label!r}", "a label is one of relation_list.json")
    return RELATIONS.index(label)


def _span(entity: Record, sentence: str) -> tuple[int, int]:
    """Return the entity's characters. Raises ValueError if they are not its word, ignoring white space and normalisation."""
    begin, last, word = entity.integer("start_idx"), entity.integer("end_idx"), entity.text("word")
    if not 0 <= begin <= last < len(sentence):
        problem = f"characters {begin} to {last} of a sentence of {len(sentence)}"
        raise entity.error("start_idx", problem, "count from 0, and end_idx to the entity's last character")
    spelt = sentence[begin : last + 1]
    if _letters(spelt) != _letters(word):
        problem = f"the sentence has {spelt[:40]!r} at {begin} to {last}, not {word[:40]!r}"
        raise entity.error("start_idx", problem, "count characters from 0, and end_idx to the entity's last one")
    return begin, last + 1


def _letters(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


TASKS: dict[str, Task] = {"klue_re": KlueRe()}
