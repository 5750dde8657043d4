"""Shared by the tasks of KLUE: origin, settings of KLUE's baselines for models of base size, TSV files of tagged sentences.

Those files have a line for each unit of a sentence. Comments begin with ``##``; one of them, ``## guid<TAB>text``, precedes
each sentence, and an empty line follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.files import Identifiers

ORIGIN = "github.com/KLUE-benchmark/KLUE (klue_benchmark), v1.1, CC BY-SA 4.0"


def klue_defaults(*, epochs: int, **other: float) -> Mapping[str, int | float]:
    """Fields of the fine-tuning spec as in KLUE-baseline's run_all.sh, of which ``other`` replaces some."""
    common = {"batch_size": 32, "learning_rate": 5e-5, "max_length": 128, "warmup_ratio": 0.1, "weight_decay": 0.0}
    return {"epochs": epochs, **common, **other}


_COMMENT = "##"

_TITLE = re.compile(r"##\s*(\S+)\t(.*)")
"""Comments at the top of a file hold tabs too, but spaces before them."""


@dataclass(frozen=True)
class Sentence:
    """The lines of a sentence's units, and the line before them."""

    guid: str
    text: str
    """As the title has it; empty without one."""
    title: Line
    """The first unit's line where there is none."""
    units: list[Line]


def sentences(file: BenchmarkFile) -> Iterator[Sentence]:
    """All sentences of a file, with numbers from 0 as guids where no sentence has a title.

    Raises ValueError naming file, line and remedy where some sentence lacks its title, or a title its sentence, and where two
    have one guid.
    """
    lines = list(file.lines())
    titled = any(_TITLE.fullmatch(line.text) for line in lines)
    seen, count = Identifiers(), 0
    title: Line | None = None
    units: list[Line] = []
    # An empty line behind the last one ends a sentence that the file does not end.
    for line in [*lines, Line(str(file), len(lines) + 1, "")]:
        is_comment = line.text.startswith(_COMMENT)
        if not is_comment and line.text.strip():
            units.append(line)
            continue
        if units:
            yield _sentence(title, units, titled, seen, count)
            title, units, count = None, [], count + 1
        if _TITLE.fullmatch(line.text):
            if title is not None:
                raise _bare(title)
            title = line
    if title is not None:
        raise _bare(title)


def _sentence(title: Line | None, units: list[Line], titled: bool, seen: Identifiers, count: int) -> Sentence:
    found = _TITLE.fullmatch(title.text) if title is not None else None
    if title is not None and found is not None:
        return Sentence(seen.once(found[1], line=title, field="guid"), found[2], title, units)
    if titled:
        problem = "a sentence without a line ## guid<TAB>text before it, which others of the file have"
        raise units[0].error("guid", problem, "restore the lines from the official file")
    return Sentence(str(count), "", units[0], units)


def _bare(title: Line) -> ValueError:
    return title.error("guid", "there is no sentence behind this line", "restore the lines from the official file")
