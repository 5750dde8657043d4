"""KLUE-DST: what has a user of a booking service asked for so far? Joint goal accuracy on the turns of 1,000 dev dialogues.

Official files ``wos-v1.1_{train,dev}.json`` (8,000 / 1,000 dialogues; the test set is not public): a list of objects with
``guid``, ``domains`` and ``dialogue``, in which turns of ``user`` and ``sys`` alternate. A user's turn has ``state``:
everything asked for so far, as ``domain-slot-value``. An example is a user's turn; KLUE-baseline names it ``GUID-N``. States of
dev and train have gaps, and values that no turn mentions (KLUE issues 7 and 16), which are kept.

KLUE-baseline generates values piece by piece (TRADE), with the encoder's embeddings; published scores are TRADE's. Here each
slot chooses among the values that it has in training, from its own weighted mean of the input's vectors; other values are never
predicted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.encoders.alignment import frame, pieces
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.units import joint_goal_accuracy, slot_micro_f1
from korealbert.finetune.records import Record, json_list
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import Example, Feature, Scores, SlotScores, Task, narrowed
from korealbert.finetune.tasks.klue import ORIGIN, klue_defaults

if TYPE_CHECKING:
    import torch
    from torch import nn

_NONE = "none"
"""Value of a slot that was not mentioned; states omit such slots."""

_DIALOGUES = 1_000
_DEV = "f0564e4c981ce85a4bd4b5cf1e211800211d8541"
"""git's id of the official ``wos-v1.1_dev.json``, which has all 1,000 dialogues."""


@dataclass(frozen=True, slots=True)
class Turn(Example):
    """A user's turn (``text``) after a turn of the system (``pair``); ``target`` is the state, a tuple."""

    dialogue: str = ""
    """The ``guid`` of the dialogue."""
    history: tuple[str, ...] = ()
    """All earlier turns."""
    official: int = 0
    """Number of turns in the official dev file, if the turn is from that file, else 0."""


def slot_and_value(entry: str) -> tuple[str, str]:
    """Split an entry into ``domain-slot`` and value, which may contain hyphens; without hyphens both are the entry."""
    domain, _, rest = entry.partition("-")
    slot, _, value = rest.partition("-")
    return (f"{domain}-{slot}", value) if slot else (entry, entry)


class KlueDst(Task):
    """Dialogue state tracking of Wizard of Seoul."""

    title = "KLUE-DST"
    id_fields = ("guid",)
    official_test_examples = _DIALOGUES
    official_unit = "dialogues"
    metric = "jga"
    others = ("slot_micro_f1",)
    dev_metric = "slot_micro_f1"
    origin = ORIGIN
    has_official_dev = False
    defaults = klue_defaults(epochs=5, batch_size=16, learning_rate=3e-5, max_length=510, weight_decay=0.01)
    prediction_type = pa.list_(pa.string())
    target_type = pa.list_(pa.string())
    counted = "slots"
    listed = 4

    def official_size(self, examples: Sequence[Example]) -> int | None:
        """Return the number of turns of the official file if the examples are from that file, byte for byte."""
        return (narrowed(examples[0], Turn).official or None) if examples else None

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all turns of users."""
        turns = [turn for dialogue in json_list(file, unique="guid") for turn in _turns(dialogue)]
        official = len(turns) if _git_id(file.content()) == _DEV else 0
        return [replace(turn, official=official) for turn in turns]

    def document(self, example: Example) -> str:
        """Return the dialogue."""
        return narrowed(example, Turn).dialogue

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode ``[CLS] history [SEP] system [SEP] user [SEP]`` as one segment, as in KLUE-baseline.

        ``[SEP]`` separates the turns of the history, which is cut at its beginning.
        """
        special, separator = frame(tokenizer, pair=False), [tokenizer.sep_token_id]
        dialogues = [(*narrowed(e, Turn).history, e.pair or "", e.text) for e in examples]
        texts = sorted({text for turns in dialogues for text in turns})
        known = {text: found.ids for text, found in zip(texts, pieces(texts, tokenizer), strict=True)}
        features = []
        for index, (example, turns) in enumerate(zip(examples, dialogues, strict=True)):
            ids = [piece for text in turns for piece in (*separator, *known[text])]
            # The first turn has no history, and keeps the separator after it.
            ids = ids[1:] if len(turns) > 2 else ids
            input_ids, segments = special.around(ids[max(0, len(ids) - (max_length - special.size)) :])
            features.append(Feature(input_ids, segments, list(example.target), index))
        return features

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head that scores, for each slot, its values in ``train`` and none."""
        from korealbert.finetune.task_types.heads import SlotHead  # noqa: PLC0415 (planning does without)

        values: dict[str, set[str]] = {}
        for feature in train:
            for slot, value in map(slot_and_value, feature.target):
                values.setdefault(slot, set()).add(value)
        if not values:
            raise ValueError("no turn of the training file has a state; give the official file")
        return SlotHead(hidden_size, {slot: (_NONE, *sorted(values[slot] - {_NONE})) for slot in sorted(values)}, dropout)

    def loss(self, logits: SlotScores, targets: Sequence[Any]) -> torch.Tensor:
        """Return the mean over turns of the summed cross-entropies of slots; values that training lacks are ignored."""
        import torch  # noqa: PLC0415 (planning does without)

        slots, states = logits.slots[0], [dict(map(slot_and_value, target)) for target in targets]
        total = logits.scores_BV.new_zeros((), dtype=torch.float32)
        for (slot, values), scores_BC in zip(slots.items(), logits.by_slot(), strict=True):
            number = {value: index for index, value in enumerate(values)}
            wanted = [number.get(state.get(slot, _NONE), -1) for state in states]
            wanted_B = torch.tensor(wanted, device=scores_BC.device)
            total = total + torch.nn.functional.cross_entropy(scores_BC.float(), wanted_B, ignore_index=-1, reduction="sum")
        return total / len(states)

    def decode(self, logits: SlotScores, features: Sequence[Feature]) -> list[Any]:
        """Return the best value of each slot, except slots whose best value is none."""
        best = [scores_BC.argmax(dim=-1).tolist() for scores_BC in logits.by_slot()]
        slots = list(logits.slots[0].items())
        return [
            [f"{slot}-{values[row[n]]}" for (slot, values), row in zip(slots, best, strict=True) if values[row[n]] != _NONE]
            for n in range(len(features))
        ]

    def stored(self, value: Any) -> list[str]:
        """Return the state as a list."""
        return list(value)

    def prediction(self, record: Record, example: Example) -> list[str]:
        """`state`: a list of everything asked for so far, each as `domain-slot-value`; it may be empty.

        An example is a turn of the user, and its id `GUID-N`: the N-th turn of the user in a dialogue, from 0.
        """
        return _state(record, "state")

    def fields(self, stored: Sequence[str]) -> dict[str, Any]:
        """Return the state."""
        return {"state": stored}

    def labelled(self, example: Example, predicted: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the name of every gold or predicted slot, ``none`` if a side lacks it, ``another value`` if it is wrong."""
        gold, given = (dict(map(slot_and_value, state)) for state in (example.target, predicted))
        slots = sorted({*gold, *given})

        def predicted_label(slot: str) -> str:
            if slot not in given:
                return _NONE
            return "another value" if slot in gold and given[slot] != gold[slot] else slot

        return [slot if slot in gold else _NONE for slot in slots], [predicted_label(slot) for slot in slots]

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``jga`` and ``slot_micro_f1``."""
        gold = [example.target for example in examples]
        warnings = () if any(map(len, predicted)) else ("every predicted state is empty",)
        values = {"jga": joint_goal_accuracy(gold, predicted), "slot_micro_f1": slot_micro_f1(gold, predicted, mode)}
        return Scores(values, warnings)

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Compute joint goal accuracy as a mean."""
        return Additive.mean([set(e.target) == set(state) for e, state in zip(examples, predicted, strict=True)])


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _turns(dialogue: Record) -> Iterator[Turn]:
    guid, said = dialogue.text("guid"), dialogue.records("dialogue")
    history: list[str] = []
    for number, turn in enumerate(said):
        role = turn.text("role")
        if role not in ("user", "sys"):
            raise turn.error("role", f"found {role!r}", "a turn is of user or sys")
        if role == "user":
            before, text = said[number - 1].text("text") if number else "", turn.text("text")
            name = f"{guid}-{len(history) // 2}"
            yield Turn(name, text, tuple(_state(turn, "state")), before, dialogue=guid, history=tuple(history))
            history += [before, text]


def _state(record: Record, field: str) -> list[str]:
    entries = record.texts(field)
    for number, entry in enumerate(entries):
        if entry.count("-") < 2:
            raise record.error(f"{field}[{number}]", f"found {entry[:40]!r}", "an entry is domain-slot-value")
    return entries


TASKS: dict[str, Task] = {"klue_dst": KlueDst()}
