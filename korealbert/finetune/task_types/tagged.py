"""Texts with a tag for each unit (character or eojeol): one label per piece, aligned by character offsets."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from korealbert.documents.benchmark_files import Line
from korealbert.finetune.encoders.alignment import Span, frame, owned_units, pieces, with_every_unit
from korealbert.finetune.metrics.units import OUTSIDE, lenient_entities
from korealbert.finetune.records import Record, normalisation_hint
from korealbert.finetune.task import Encoded, Example, Feature, Task, narrowed

if TYPE_CHECKING:
    import torch
    from torch import nn

IGNORED = -100
"""Target of a piece without a label to learn."""


@dataclass(frozen=True, slots=True)
class Tagged(Example):
    """A text with tagged units. ``target`` has a tag for each unit, ``spans`` its characters [begin, end) of ``text``."""

    spans: tuple[Span, ...] = ()

    @property
    def units(self) -> list[str]:
        """The texts of the units."""
        return [self.text[begin:end] for begin, end in self.spans]


class Tagging(Task):
    """Predict one of ``tags`` for each unit. A prediction is a list of tags.

    A piece owns the units whose first piece it is. Its label is the tag of the first of them; this unit gets the predicted
    tag, and the others an ``I`` of the same type.
    """

    tags: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]
    """Name of the tagged units, in the plural: characters, eojeols."""
    hint: ClassVar[str] = ""
    """Units that are easily overlooked in counting, for error messages."""
    labels_every_piece: ClassVar[bool]
    """Whether pieces that own no unit, including special ones, learn ``O`` instead of nothing."""
    needs_every_unit: ClassVar[bool]
    """Whether a unit for which the tokenizer makes no piece becomes an unknown piece."""
    prediction_type = pa.list_(pa.string())
    target_type = pa.list_(pa.int32())
    layout_type = pa.list_(pa.list_(pa.int32()))

    def tag(self, written: str, *, line: Line, field: str) -> str:
        """Return a tag of a file. Raises ValueError naming the known tags if it is not one of ``tags``."""
        if written not in self.tags:
            problem = f"found {written!r}{normalisation_hint(written, self.tags)}"
            raise line.error(field, problem, f"a tag is one of {', '.join(self.tags)}")
        return written

    def prediction(self, record: Record, example: Example) -> list[str]:
        """`tags`: a list of tags, one per unit, written as in the official files."""
        tags = record.texts("tags")
        if len(tags) != len(example.target):
            problem = f"{len(tags)} tags for the {len(example.target)} {self.unit} of example {example.id}"
            raise record.error("tags", problem, f"give one tag for each of the {self.unit}{self.hint}")
        return [self.tag(tag, line=record.line, field=f"tags[{index}]") for index, tag in enumerate(tags)]

    def fields(self, stored: Sequence[str]) -> dict[str, Any]:
        """Return the tags."""
        return {"tags": stored}

    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """Return the types of all units that are not spaces, with ``B`` and ``I`` merged."""
        rows = zip(narrowed(example, Tagged).units, example.target, predicted, strict=True)
        kinds = [(_type_of(gold), _type_of(tag)) for unit, gold, tag in rows if unit.strip()]
        return [gold for gold, _ in kinds], [tag for _, tag in kinds]

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode ``[CLS] text [SEP]``, cut at the end. ``layout`` has the units that each piece owns."""
        special = frame(tokenizer, pair=False)
        features = []
        for index, (example, made) in enumerate(zip(examples, pieces([e.text for e in examples], tokenizer), strict=True)):
            units = narrowed(example, Tagged).spans
            found = with_every_unit(made, units, tokenizer.unk_token_id) if self.needs_every_unit else made
            room = max_length - special.size
            owned = owned_units(found.spans[:room], units)
            input_ids, segments = special.around(found.ids[:room])
            layout: list[list[int]] = [[] for _ in special.before] + owned + [[] for _ in special.after]
            default = self.tags.index(OUTSIDE) if self.labels_every_piece else IGNORED
            labels = [self.tags.index(example.target[owns[0]]) if owns else default for owns in layout]
            features.append(Feature(input_ids, segments, labels, index, layout))
        return features

    def gold_counts(self, examples: Sequence[Example]) -> dict[str, dict[str, int]]:
        """Count ``tags`` (``B`` and ``I`` together) and lenient ``entities`` by type."""
        tags = Counter(_type_of(tag) for example in examples for tag in example.target if tag != OUTSIDE)
        entities = Counter(kind for example in examples for kind, *_ in lenient_entities(example.target))
        return {"tags": dict(tags), "entities": dict(entities)}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Logits [B, L, tags]."""
        return ("logits",)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head with one logit per tag and piece."""
        from korealbert.finetune.task_types.heads import PieceHead  # noqa: PLC0415 (planning does without)

        return PieceHead(hidden_size, len(self.tags), dropout)

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Return the cross-entropy over the labelled pieces; 0 if there is none, as in a sentence of spaces."""
        import torch  # noqa: PLC0415 (planning does without)

        if all(label == IGNORED for labels in targets for label in labels):
            return logits.sum() * 0.0
        width = logits.shape[1]
        padded = [[*labels, *[IGNORED] * (width - len(labels))] for labels in targets]
        wanted = torch.tensor(padded, device=logits.device)
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)

    def terms(self, targets: Sequence[Any]) -> int:
        """Return the number of labelled pieces."""
        return sum(label != IGNORED for labels in targets for label in labels)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """Return the position of the most probable tag for each piece."""
        numbers_BL = logits.argmax(dim=-1).tolist()
        return [row[: len(feature.input_ids)] for row, feature in zip(numbers_BL, features, strict=True)]

    def predictions(self, encoded: Encoded, decoded: Sequence[Any]) -> list[Any]:
        """Return the tags of all units of each example; units beyond the length limit get ``O``."""
        rows = zip(encoded.examples, encoded.features, decoded, strict=True)
        return [self._tags_of_units(narrowed(example, Tagged), feature.layout, numbers) for example, feature, numbers in rows]

    def oracle(self, encoded: Encoded) -> list[Any]:
        """Predict from the pieces' gold labels, which lack tags that change within a piece, and the cut end of a text."""
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


def unit_spans(units: Sequence[str], gap: int = 1) -> tuple[Span, ...]:
    """Return the characters of each unit in a text of units with ``gap`` characters between them."""
    ends = itertools.accumulate(len(unit) + gap for unit in units)
    return tuple((end - gap - len(unit), end - gap) for unit, end in zip(units, ends, strict=True))


def entity_tags(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return ``B-X`` and ``I-X`` for each kind in order, then ``O``."""
    return (*(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"), OUTSIDE)


def _type_of(tag: str) -> str:
    """Return ``PER`` for ``B-PER``; a type may contain hyphens."""
    return tag if tag == OUTSIDE else tag[2:]


def _filled(found: Sequence[str | None]) -> list[str]:
    """Give units without a piece (spaces) an ``I`` inside an entity, and ``O`` elsewhere."""
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
