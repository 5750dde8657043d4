"""Texts with a tag for each of their units, characters or eojeols: one label per piece, aligned by character offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from korealbert.documents.benchmark_files import Line
from korealbert.finetune.encoders.alignment import Span, frame, owned_units, pieces, with_every_unit
from korealbert.finetune.files import Record, otherwise_composed
from korealbert.finetune.metrics.units import OUTSIDE, lenient_entities
from korealbert.finetune.task import Encoded, Example, Feature, Task

if TYPE_CHECKING:
    import torch
    from torch import nn

IGNORED = -100
"""Target of a piece whose label is not learnt."""


@dataclass(frozen=True, slots=True)
class Tagged(Example):
    """``target`` holds one tag per unit; ``spans`` the characters [begin, end) of ``text`` that each unit is."""

    spans: tuple[Span, ...] = ()

    @property
    def units(self) -> list[str]:
        """The tagged stretches of the text."""
        return [self.text[begin:end] for begin, end in self.spans]


class Tagging(Task):
    """One of ``tags`` for each unit. A prediction is a list of tags.

    A piece is labelled with the tag of the first unit whose first piece it is. It gives that unit its predicted tag, and an
    ``I`` of the same type to the others.
    """

    tags: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]
    """Name of the tagged units, in the plural: characters, eojeols."""
    hint: ClassVar[str] = ""
    """Units that are easily left out in counting, for error messages."""
    labels_every_piece: ClassVar[bool]
    """Pieces that are no unit's first, special ones too, learn ``O``; else they learn nothing."""
    needs_every_unit: ClassVar[bool]
    """A unit of which the tokenizer makes no piece becomes an unknown one."""
    prediction_type = pa.list_(pa.string())
    target_type = pa.list_(pa.int32())
    layout_type = pa.list_(pa.list_(pa.int32()))

    def tag(self, written: str, *, line: Line, field: str) -> str:
        """The one of ``tags`` that is written. Raises ValueError naming the known ones when it is none of them."""
        if written not in self.tags:
            problem = f"found {written!r}{otherwise_composed(written, self.tags)}"
            raise line.error(field, problem, f"a tag is one of {', '.join(self.tags)}")
        return written

    def prediction(self, record: Record, example: Example) -> list[str]:
        """The tags in ``tags``, one per unit, in any form that ``tag`` reads."""
        tags = record.texts("tags")
        if len(tags) != len(example.target):
            problem = f"{len(tags)} tags for the {len(example.target)} {self.unit} of example {example.id}"
            raise record.error("tags", problem, f"give one tag for each of the {self.unit}{self.hint}")
        return [self.tag(tag, line=record.line, field=f"tags[{index}]") for index, tag in enumerate(tags)]

    def fields(self, kept: Sequence[str]) -> dict[str, Any]:
        """The tags."""
        return {"tags": kept}

    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """The types of all units that are no spaces, ``B`` and ``I`` merged."""
        rows = zip(_tagged(example).units, example.target, predicted, strict=True)
        kinds = [(_type_of(gold), _type_of(tag)) for unit, gold, tag in rows if unit.strip()]
        return [gold for gold, _ in kinds], [tag for _, tag in kinds]

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """``[CLS] text [SEP]``, cut at the end. ``layout`` holds the units whose first piece each is."""
        special = frame(tokenizer, pair=False)
        features = []
        for index, (example, made) in enumerate(zip(examples, pieces([e.text for e in examples], tokenizer), strict=True)):
            units = _tagged(example).spans
            found = with_every_unit(made, units, tokenizer.unk_token_id) if self.needs_every_unit else made
            room = max_length - special.size
            owned = owned_units(found.spans[:room], units)
            input_ids, segments = special.around(found.ids[:room])
            layout: list[list[int]] = [[] for _ in special.before] + owned + [[] for _ in special.after]
            nothing = self.tags.index(OUTSIDE) if self.labels_every_piece else IGNORED
            labels = [self.tags.index(example.target[owns[0]]) if owns else nothing for owns in layout]
            features.append(Feature(input_ids, segments, labels, index, layout))
        return features

    def census(self, examples: Sequence[Example]) -> dict[str, dict[str, int]]:
        """By type of entity its ``tags``, ``B`` and ``I`` together, and its ``entities``: a ``B``, or an ``I`` that continues
        none of its type, with all that continue it."""
        tags = Counter(_type_of(tag) for example in examples for tag in example.target if tag != OUTSIDE)
        entities = Counter(kind for example in examples for kind, *_ in lenient_entities(example.target))
        return {"tags": dict(tags), "entities": dict(entities)}

    @property
    def outputs(self) -> tuple[str, ...]:
        """[B, L, tags]."""
        return ("logits",)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """One logit per tag and piece."""
        from korealbert.finetune.task_types.heads import PieceHead  # noqa: PLC0415 (planning does without)

        return PieceHead(hidden_size, len(self.tags), dropout)

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Cross-entropy over the labelled pieces; 0 where there is none, as in a sentence of spaces."""
        import torch  # noqa: PLC0415 (planning does without)

        if all(label == IGNORED for labels in targets for label in labels):
            return logits.sum() * 0.0
        width = logits.shape[1]
        padded = [[*labels, *[IGNORED] * (width - len(labels))] for labels in targets]
        wanted = torch.tensor(padded, device=logits.device)
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """The most probable tag's number for each piece."""
        numbers_BL = logits.argmax(dim=-1).tolist()
        return [row[: len(feature.input_ids)] for row, feature in zip(numbers_BL, features, strict=True)]

    def predictions(self, encoded: Encoded, decoded: Sequence[Any]) -> list[Any]:
        """The tags of all units of each example; beyond the length limit ``O``."""
        rows = zip(encoded.examples, encoded.features, decoded, strict=True)
        return [self._tags_of_units(_tagged(example), feature.layout, numbers) for example, feature, numbers in rows]

    def oracle(self, encoded: Encoded) -> list[Any]:
        """Predictions from the pieces' gold labels, which lose tags that change within a piece and the cut end of a text."""
        return self.predictions(encoded, [feature.target for feature in encoded.features])

    def _tags_of_units(self, example: Tagged, layout: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[str]:
        found: list[str | None] = [None] * len(example.spans)
        for owns, number in zip(layout, numbers, strict=True):
            if owns:
                for unit, tag in zip(owns, self._continued(self.tags[number], len(owns)), strict=True):
                    found[unit] = tag
        return _filled(found)

    @staticmethod
    def _continued(tag: str, count: int) -> list[str]:
        return [tag, *[tag if tag == OUTSIDE else f"I-{tag[2:]}"] * (count - 1)]


def entity_tags(kinds: Sequence[str]) -> tuple[str, ...]:
    """``B-X`` and ``I-X`` for each kind in order, then ``O``."""
    return (*(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"), OUTSIDE)


def _type_of(tag: str) -> str:
    """``PER`` of ``B-PER``; a type may hold hyphens itself."""
    return tag if tag == OUTSIDE else tag[2:]


def _tagged(example: Example) -> Tagged:
    assert isinstance(example, Tagged)
    return example


def _filled(found: Sequence[str | None]) -> list[str]:
    """Units in no piece (spaces) continue an entity that goes on behind them, and are ``O`` elsewhere."""
    tags: list[str] = []
    after: list[str] = [OUTSIDE] * len(found)
    following = OUTSIDE
    for position in range(len(found) - 1, -1, -1):
        after[position] = following
        following = found[position] or following
    for tag, next_tag in zip(found, after, strict=True):
        before = tags[-1] if tags else OUTSIDE
        inside = next_tag.startswith("I-") and before[2:] == next_tag[2:]
        tags.append(tag or (next_tag if inside else OUTSIDE))
    return tags
