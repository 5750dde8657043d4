"""Texts with a tag for each of their units, characters or eojeols: what reads predicted tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from korealbert.finetune.json_records import Record
from korealbert.finetune.reading import Line
from korealbert.finetune.task import Benchmark, Example


@dataclass(frozen=True, slots=True)
class Tagged(Example):
    """``target`` holds one tag per unit; ``spans`` the characters [begin, end) of ``text`` that each unit is."""

    spans: tuple[tuple[int, int], ...] = ()

    @property
    def units(self) -> list[str]:
        """The tagged stretches of the text."""
        return [self.text[begin:end] for begin, end in self.spans]


class Tagging(Benchmark):
    """One of ``tags`` for each unit. A prediction is a list of tags."""

    tags: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]
    """What a tag belongs to, in the plural: characters, eojeols."""

    def check_tag(self, tag: str, *, line: Line, field: str) -> str:
        """The tag itself. Raises ValueError naming the known ones when it is none of them."""
        if tag not in self.tags:
            raise line.error(field, f"found {tag!r}", f"a tag is one of {', '.join(self.tags)}")
        return tag

    def prediction(self, record: Record, example: Example) -> list[str]:
        """The tags in ``tags``, one per unit."""
        tags = record.texts("tags")
        if len(tags) != len(example.target):
            problem = f"{len(tags)} tags for the {len(example.target)} {self.unit} of example {example.id}"
            raise record.error("tags", problem, f"give one tag for each of the {self.unit}{self.hint}")
        for index, tag in enumerate(tags):
            self.check_tag(tag, line=record.line, field=f"tags[{index}]")
        return tags

    hint: ClassVar[str] = ""
    """What is easily forgotten when units are counted."""


def entity_tags(kinds: Sequence[str]) -> tuple[str, ...]:
    """``B-X`` and ``I-X`` for each kind in order, then ``O``."""
    return (*(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"), "O")
