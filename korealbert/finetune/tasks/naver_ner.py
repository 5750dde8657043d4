"""Naver/Changwon NER: which eojeols name an entity of 14 types? F1 on the 9,000 sentences of KoELECTRA's test part.

Two official forms. The challenge's: lines ``number<TAB>eojeol<TAB>TAG`` with tags ``PER_B``, ``PER_I`` and ``-``, an empty line
after each of 90,000 sentences. KoELECTRA's: ``sentence<TAB>tags``, tags ``PER-B``, ``PER-I`` and ``O``, 81,000 / 9,000. Here a
tag is ``B-PER``; prediction files may write any of the three. KoreALBERT prints an undefined "acc" for this task, of which
``accuracy_entities`` and ``entity_micro_f1`` are the likely meanings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.files import Record
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.classification import ClassCounts, accuracy
from korealbert.finetune.metrics.entities import OUTSIDE, challenge_f1, entity_micro_f1, lenient_counts
from korealbert.finetune.resampling import Additive
from korealbert.finetune.tagged import Tagged, Tagging, entity_tags
from korealbert.finetune.task import Example, Scores, Task

_KINDS = ("PER", "FLD", "AFW", "ORG", "LOC", "CVL", "DAT", "TIM", "NUM", "EVT", "ANM", "PLT", "MAT", "TRM")

_SUFFIXED = re.compile(r"([A-Z]{3})[-_]([BI])")


class NaverNer(Tagging):
    """Named entities of the Naver NLP challenge 2018, by Changwon University."""

    title = "NaverNER"
    official_test_examples = 9_000
    origin = "github.com/naver/nlp-challenge (Changwon University), all rights reserved"
    has_official_dev = False
    metric = "entity_micro_f1"
    tags = entity_tags(_KINDS)
    unit = counted = "eojeols"
    labels_every_piece = False
    needs_every_unit = True
    # KoreALBERT, section IV: batch 64 or 128, up to 7 epochs for this task, 2e-5 to 5e-5.
    defaults = {"epochs": 7, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All sentences of either form; ``spans`` are the eojeols. An id is the line number of the sentence."""
        first = next(file.lines(), None)
        is_challenge = first is not None and first.text.count("\t") == 2
        return list(self._challenge(file) if is_challenge else self._released(file))

    def _challenge(self, file: BenchmarkFile) -> Iterator[Example]:
        start, words, tags = 1, list[str](), list[str]()
        for line in file.lines():
            if not line.text:
                if words:
                    yield _sentence(start, words, tags)
                start, words, tags = line.number + 1, [], []
                continue
            fields = line.text.split("\t")
            if len(fields) != 3 or fields[0] != str(len(words) + 1):
                problem = f"found {line.text[:40]!r} as eojeol {len(words) + 1} of its sentence"
                raise line.error("number", problem, "a line is number<TAB>eojeol<TAB>tag, numbers from 1")
            words.append(fields[1])
            tags.append(self.tag(fields[2], line=line, field="tag"))
        if words:
            yield _sentence(start, words, tags)

    def _released(self, file: BenchmarkFile) -> Iterator[Example]:
        for line in file.lines():
            fields = line.text.split("\t")
            if len(fields) != 2:
                raise line.error("tags", f"{len(fields)} fields instead of 2", "a line is sentence<TAB>tags")
            words, tags = fields[0].split(" "), fields[1].split(" ")
            if len(words) != len(tags):
                raise line.error("tags", f"{len(tags)} tags for {len(words)} eojeols", "give one tag for each eojeol")
            yield _sentence(line.number, words, [self.tag(tag, line=line, field="tags") for tag in tags])

    def tag(self, written: str, *, line: Line, field: str) -> str:
        """A tag of either form as ``B-PER``. Raises ValueError naming the known ones when it is none."""
        suffixed = _SUFFIXED.fullmatch(written)
        plain = f"{suffixed[2]}-{suffixed[1]}" if suffixed else OUTSIDE if written == "-" else written
        return self.check_tag(plain, line=line, field=field)

    def prediction(self, record: Record, example: Example) -> list[str]:
        """The tags in ``tags``, one per eojeol, in either form."""
        plain = [self.tag(tag, line=record.line, field=f"tags[{n}]") for n, tag in enumerate(record.texts("tags"))]
        return super().prediction(Record(record.line, {"tags": plain}), example)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """F1 of entities and accuracy of eojeols.

        ``challenge_f1`` as the challenge counts entities, in the official mode with its quirks; ``entity_micro_f1`` as
        seqeval does (KoELECTRA); ``accuracy`` of all eojeols, ``accuracy_entities`` of those whose gold tag is not ``O``.
        """
        gold = [example.target for example in examples]
        pairs = [pair for g, p in zip(gold, predicted, strict=True) for pair in zip(g, p, strict=True)]
        named = [pair for pair in pairs if pair[0] != OUTSIDE]
        values = {
            "entity_micro_f1": entity_micro_f1(gold, predicted),
            "challenge_f1": challenge_f1(gold, predicted, mode),
            "accuracy": accuracy(*zip(*pairs, strict=True)),
        }
        if named:
            values["accuracy_entities"] = accuracy(*zip(*named, strict=True))
        found = any(tag != OUTSIDE for tags in predicted for tag in tags)
        return Scores(values, () if found else ("no entity is predicted",))

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Entity micro F1 from counts."""
        rows = [lenient_counts(e.target, tags) for e, tags in zip(examples, predicted, strict=True)]
        return Additive(np.array(rows), lambda sums_BK: 100 * ClassCounts.joined(sums_BK).micro_f1())


def _sentence(line_number: int, words: Sequence[str], tags: Sequence[str]) -> Tagged:
    spans, begin = [], 0
    for word in words:
        spans.append((begin, begin + len(word)))
        begin += len(word) + 1
    return Tagged(str(line_number), " ".join(words), tuple(tags), spans=tuple(spans))


TASKS: dict[str, Task] = {"naver_ner": NaverNer()}
