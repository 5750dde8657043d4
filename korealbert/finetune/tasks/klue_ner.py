"""KLUE-NER: which characters name a person, place, organisation, date, time or quantity? Macro F1 on 5,000 dev sentences.

Official files ``klue-ner-v1.1_{train,dev}.tsv`` (21,008 / 5,000): per sentence a line ``## guid<TAB>text``, then one line
``character<TAB>tag`` for every character, spaces too, then an empty line. Spaces are not scored. The test set is not public.

The official script scores one row of all sentences with a position for ``[CLS]`` and ``[SEP]`` around each; its F1 of
characters averages over all 13 labels, ``O`` too, where its docstring and its paper mean 12. Both are given, under two names.
Two entities of dev begin on a space: with the space the script drops their beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.classification import ClassCounts
from korealbert.finetune.metrics.entities import OUTSIDE, char_f1, entity_macro_f1, strict_counts
from korealbert.finetune.resampling import Additive
from korealbert.finetune.tagged import Tagged, Tagging, entity_tags
from korealbert.finetune.task import Example, Scores, Task
from korealbert.finetune.tasks._klue import ORIGIN, Sentence, klue_defaults, sentences

_KINDS = ("PS", "LC", "OG", "DT", "TI", "QT")

_MARKUP = str.maketrans("", "", "<>:" + "".join(sorted({*"".join(_KINDS)})))
"""What titles put around entities, as in ``<김구:PS>``. In train some of it is malformed, and a ``<`` may be the text's own."""


class KlueNer(Tagging):
    """Named entity recognition of KLUE."""

    title = "KLUE-NER"
    official_test_examples = 5_000
    origin = ORIGIN
    has_official_dev = False
    metric = "entity_macro_f1"
    dev_metric = "char_f1_all13"
    tags = entity_tags(_KINDS)
    unit = counted = "characters"
    hint = ", spaces too"
    labels_every_piece = True
    needs_every_unit = False
    # KLUE-baseline trains without warm-up here; 510 pieces hold every sentence.
    defaults = klue_defaults(epochs=3, max_length=510, warmup_ratio=0.0)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All sentences; ``spans`` are all single characters."""
        return [self._example(found) for found in sentences(file)]

    def _example(self, found: Sentence) -> Tagged:
        text, tags = "", list[str]()
        for line in found.units:
            character, tab, tag = line.text.partition("\t")
            if len(character) != 1 or not tab:
                raise line.error("char", f"found {line.text[:40]!r}", "a line is one character, a tab and its tag")
            text += character
            tags.append(self.check_tag(tag, line=line, field="tag"))
        if lost := _lost(found.text, text):
            problem = f"the sentence lacks {lost} of the characters that stand here"
            raise found.title.error("char", problem, "restore its lines from the official file")
        return Tagged(found.guid, text, tuple(tags), spans=tuple((n, n + 1) for n in range(len(text))))

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``entity_macro_f1`` of strict IOB2 entities, ``char_f1_all13`` over 13 labels and ``char_f1_no_O`` over 12.

        Official: with a position before and after each sentence, gold and predicted ``O``. Corrected: characters alone, and an
        entity that begins on a space begins on the character after it.
        """
        if len(examples) != len(predicted) or not examples:
            raise ValueError(f"F1 of {len(predicted):,} predictions for {len(examples):,} sentences is undefined")
        rows = list(zip((e.text for e in examples), (e.target for e in examples), predicted, strict=True))
        if mode == "official":
            gold, given = ([t for row in rows for t in (OUTSIDE, *_visible(row[0], row[n]), OUTSIDE)] for n in (1, 2))
            entity = entity_macro_f1([gold], [given])
        else:
            gold, given = ([t for row in rows for t in _visible(row[0], row[n])] for n in (1, 2))
            entity = entity_macro_f1(*([_visible(row[0], _begun(row[0], row[n])) for row in rows] for n in (1, 2)))
        values = {
            "entity_macro_f1": entity,
            "char_f1_all13": char_f1(gold, given, self.tags, mode),
            "char_f1_no_O": char_f1(gold, given, self.tags[:-1], mode),
        }
        return Scores(values, () if set(given) != {OUTSIDE} else ("no entity is predicted",))

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Entity macro F1 from the counts of each type."""

        def scored(text: str, tags: Sequence[str]) -> list[str]:
            return _visible(text, tags if mode == "official" else _begun(text, tags))

        pairs = zip(examples, predicted, strict=True)
        rows = [strict_counts(scored(e.text, e.target), scored(e.text, tags), _KINDS) for e, tags in pairs]
        return Additive(np.array(rows), lambda sums_BK: 100 * ClassCounts.joined(sums_BK).macro_f1())


def _lost(title: str, text: str) -> int:
    """How many characters of its title, markup and spaces aside, a sentence has lost: none unless the others are its text."""
    wanted, found = ("".join(written.translate(_MARKUP).split()) for written in (title, text))
    rest = iter(wanted)
    return len(wanted) - len(found) if all(character in rest for character in found) else 0


def _visible(text: str, tags: Sequence[str]) -> list[str]:
    return [tag for character, tag in zip(text, tags, strict=True) if character != " "]


def _begun(text: str, tags: Sequence[str]) -> list[str]:
    """The tags, with the beginning of an entity moved from a space to the character that continues it."""
    moved = list(tags)
    for n in range(len(text) - 1):
        if text[n] == " " and moved[n].startswith("B-") and moved[n + 1] == f"I-{moved[n][2:]}":
            moved[n + 1] = moved[n]
    return moved


TASKS: dict[str, Task] = {"klue_ner": KlueNer()}
