"""KLUE-DST: what does a user of a booking service want by now? Joint goal accuracy on the turns of 1,000 dev dialogues.

Official files ``wos-v1.1_{train,dev}.json`` (8,000 / 1,000 dialogues; the test set is not public): a list of objects with
``guid``, ``domains`` and ``dialogue``, in which turns of ``user`` and ``sys`` follow each other. A user's turn has ``state``:
all that was asked for up to it, as ``domain-slot-value``. An example is a user's turn; KLUE-baseline names it ``GUID-N``.
States of dev and train have gaps and values that no turn mentions (KLUE issues 7 and 16): kept.

KLUE-baseline generates values piece by piece (TRADE), with the encoder's embeddings. Here each slot chooses among the values
that it has in training, from its own mean of the input's vectors; a value that training lacks is never predicted. Published
scores are of TRADE.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.encoders.alignment import frame, pieces
from korealbert.finetune.files import Record, json_list
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.units import joint_goal_accuracy, slot_micro_f1
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import Example, Feature, Scores, SlotScores, Task
from korealbert.finetune.tasks.klue import ORIGIN, klue_defaults

if TYPE_CHECKING:
    import torch
    from torch import nn

_NONE = "none"
"""Value of a slot that was not mentioned; a state does not list it."""

_DIALOGUES = 1_000
_DEV = "f0564e4c981ce85a4bd4b5cf1e211800211d8541"
"""git's id of ``wos-v1.1_dev.json`` in KLUE's repository, of which all 1,000 dialogues and all their turns are known."""


@dataclass(frozen=True, slots=True)
class Turn(Example):
    """``text`` is the user's turn, ``pair`` the system's turn before it; ``target`` is the state, a tuple."""

    dialogue: str = ""
    """Its ``guid``."""
    history: tuple[str, ...] = ()
    """Everything said before both."""
    official: int = 0
    """Turns of the whole official dev file, where it is of that."""


def slot_and_value(entry: str) -> tuple[str, str]:
    """``domain-slot`` and value of an entry of a state; a value may hold hyphens. Both are the entry where it has none."""
    domain, _, rest = entry.partition("-")
    slot, _, value = rest.partition("-")
    return (f"{domain}-{slot}", value) if slot else (entry, entry)


class KlueDst(Task):
    """Dialogue state tracking of Wizard of Seoul; see the module's docstring."""

    title = "KLUE-DST"
    id_fields = ("guid",)
    official_test_examples = _DIALOGUES
    official_unit = "dialogues"
    metric = "jga"
    dev_metric = "slot_micro_f1"
    origin = ORIGIN
    has_official_dev = False
    defaults = klue_defaults(epochs=5, batch_size=16, learning_rate=3e-5, max_length=510, weight_decay=0.01)
    prediction_type = pa.list_(pa.string())
    target_type = pa.list_(pa.string())
    counted = "slots"
    listed = 4

    def official_size(self, examples: Sequence[Example]) -> int | None:
        """The number of turns of the official file where they are of that, byte for byte."""
        return (_turn(examples[0]).official or None) if examples else None

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All turns of users."""
        turns = [turn for dialogue in json_list(file, unique="guid") for turn in _turns(dialogue)]
        official = len(turns) if _git_id(file.content()) == _DEV else 0
        return [replace(turn, official=official) for turn in turns]

    def document(self, example: Example) -> str:
        """The dialogue."""
        return _turn(example).dialogue

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """``[CLS] history [SEP] system [SEP] user [SEP]``, with ``[SEP]`` between the utterances of the history, cut at its
        beginning; one segment, as in KLUE-baseline."""
        special, separator = frame(tokenizer, pair=False), [tokenizer.sep_token_id]
        said = [(*_turn(e).history, e.pair or "", e.text) for e in examples]
        texts = sorted({text for utterances in said for text in utterances})
        known = {text: found.ids for text, found in zip(texts, pieces(texts, tokenizer), strict=True)}
        features = []
        for index, (example, utterances) in enumerate(zip(examples, said, strict=True)):
            ids = [piece for text in utterances for piece in (*separator, *known[text])]
            # The first turn has no history, and its separator stays.
            ids = ids[1:] if len(utterances) > 2 else ids
            input_ids, segments = special.around(ids[max(0, len(ids) - (max_length - special.size)) :])
            features.append(Feature(input_ids, segments, list(example.target), index))
        return features

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """For each slot the scores of the values that it has in ``train``, and of none."""
        from korealbert.finetune.task_types.heads import SlotHead  # noqa: PLC0415 (planning does without)

        values: dict[str, set[str]] = {}
        for feature in train:
            for slot, value in map(slot_and_value, feature.target):
                values.setdefault(slot, set()).add(value)
        if not values:
            raise ValueError("no turn of the training file has a state; give the official file")
        return SlotHead(hidden_size, {slot: (_NONE, *sorted(values[slot] - {_NONE})) for slot in sorted(values)}, dropout)

    def loss(self, logits: SlotScores, targets: Sequence[Any]) -> torch.Tensor:
        """Mean over turns of the sum over slots of the cross-entropy of values, but for those that training lacks."""
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
        """The best value of each slot; a slot whose best one is none is not listed."""
        best = [scores_BC.argmax(dim=-1).tolist() for scores_BC in logits.by_slot()]
        slots = list(logits.slots[0].items())
        return [
            [f"{slot}-{values[row[n]]}" for (slot, values), row in zip(slots, best, strict=True) if values[row[n]] != _NONE]
            for n in range(len(features))
        ]

    def kept(self, value: Any) -> list[str]:
        """A list."""
        return list(value)

    def prediction(self, record: Record, example: Example) -> list[str]:
        """``state``: all that was asked for so far, each as ``domain-slot-value``; an empty list where there is nothing.

        An example is a turn of the user, and its id ``GUID-N``: the N-th one of a dialogue, from 0.
        """
        return _state(record, "state")

    def fields(self, kept: Sequence[str]) -> dict[str, Any]:
        """The state."""
        return {"state": kept}

    def labelled(self, example: Example, predicted: Sequence[str]) -> tuple[list[str], list[str]]:
        """The name of every slot that is gold or predicted, ``none`` where it is missing; predicted also ``another value``."""
        gold, given = (dict(map(slot_and_value, state)) for state in (example.target, predicted))
        slots = sorted({*gold, *given})
        names = {True: "another value", False: _NONE}
        found = [slot if given.get(slot) == gold.get(slot, given.get(slot)) and slot in given else "" for slot in slots]
        return (
            [slot if slot in gold else _NONE for slot in slots],
            [name or names[slot in given] for slot, name in zip(slots, found, strict=True)],
        )

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``jga`` and ``slot_micro_f1``."""
        gold = [example.target for example in examples]
        warnings = () if any(map(len, predicted)) else ("every predicted state is empty",)
        values = {"jga": joint_goal_accuracy(gold, predicted), "slot_micro_f1": slot_micro_f1(gold, predicted, mode)}
        return Scores(values, warnings)

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Joint goal accuracy as a mean."""
        right_N = np.array([set(e.target) == set(state) for e, state in zip(examples, predicted, strict=True)], np.float64)
        return Additive(right_N[:, None], lambda sums_BK: 100 * sums_BK[:, 0] / len(right_N))


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


def _turn(example: Example) -> Turn:
    assert isinstance(example, Turn)
    return example


TASKS: dict[str, Task] = {"klue_dst": KlueDst()}
