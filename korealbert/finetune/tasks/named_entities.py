"""Named entities: KLUE's over characters, and those of the Naver NLP challenge over eojeols."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import ClassCounts, accuracy, check_lengths
from korealbert.finetune.metrics.units import (
    OUTSIDE,
    challenge_f1,
    char_f1,
    entity_macro_f1,
    entity_micro_f1,
    lenient_counts,
    strict_counts,
    undefined_macro_f1,
)
from korealbert.finetune.records import check_width
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import Example, Scores, Task
from korealbert.finetune.task_types.tagged import Tagged, Tagging, entity_tags, unit_spans
from korealbert.finetune.tasks.klue import ORIGIN, Sentence, klue_defaults, sentences

_NAVER_KINDS = ("PER", "FLD", "AFW", "ORG", "LOC", "CVL", "DAT", "TIM", "NUM", "EVT", "ANM", "PLT", "MAT", "TRM")

_SUFFIXED = re.compile(r"([A-Z]{3})[-_]([BI])")


class NaverNer(Tagging):
    """Naver/Changwon NER: which eojeols name an entity of 14 types? F1 on the 9,000 sentences of KoELECTRA's test part.

    Two official forms. The challenge's: lines ``number<TAB>eojeol<TAB>TAG`` with tags ``PER_B``, ``PER_I`` and ``-``, an empty
    line after each of 90,000 sentences. KoELECTRA's: ``sentence<TAB>tags``, tags ``PER-B``, ``PER-I`` and ``O``, 81,000 /
    9,000. Here a tag is ``B-PER``; prediction files may use any of the three. KoreALBERT prints an undefined "acc" for this
    task, which probably is ``accuracy_entities`` or ``entity_micro_f1``.
    """

    title = "NaverNER"
    official_test_examples = 9_000
    origin = "github.com/naver/nlp-challenge (Changwon University), all rights reserved"
    has_official_dev = False
    metric = "entity_micro_f1"
    others = ("challenge_f1", "accuracy", "accuracy_entities")
    tags = entity_tags(_NAVER_KINDS)
    unit = counted = "eojeols"
    labels_every_piece = False
    needs_every_unit = True
    # KoreALBERT, section IV: batch 64 or 128, up to 7 epochs for this task, 2e-5 to 5e-5.
    defaults = {"epochs": 7, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all sentences of either form; ``spans`` are the eojeols. An id is the line number of the sentence."""
        first = next(file.lines(), None)
        is_challenge = first is not None and first.text.count("\t") == 2
        return list(self._challenge(file) if is_challenge else self._released(file))

    def _challenge(self, file: BenchmarkFile) -> Iterator[Example]:
        start, words, tags = 1, list[str](), list[str]()
        for line in file.lines():
            if not line.text:
                if words:
                    yield self._sentence(start, words, tags)
                start, words, tags = line.number + 1, [], []
                continue
            fields = line.text.split("\t")
            if len(fields) != 3 or fields[0] != str(len(words) + 1):
                problem = f"found {line.text[:40]!r} as eojeol {len(words) + 1} of its sentence"
                raise line.error("number", problem, "a line is number<TAB>eojeol<TAB>tag, numbers from 1")
            words.append(fields[1])
            tags.append(self.tag(fields[2], line=line, field="tag"))
        if words:
            yield self._sentence(start, words, tags)

    def _released(self, file: BenchmarkFile) -> Iterator[Example]:
        for line in file.lines():
            fields = line.text.split("\t")
            check_width(line, fields, ("sentence", "tags"), "a line is sentence<TAB>tags")
            words, tags = fields[0].split(" "), fields[1].split(" ")
            if len(words) != len(tags):
                raise line.error("tags", f"{len(tags)} tags for {len(words)} eojeols", "give one tag for each eojeol")
            yield self._sentence(line.number, words, [self.tag(tag, line=line, field="tags") for tag in tags])

    @staticmethod
    def _sentence(line_number: int, words: Sequence[str], tags: Sequence[str]) -> Tagged:
        return Tagged(str(line_number), " ".join(words), tuple(tags), spans=unit_spans(words))

    def tag(self, written: str, *, line: Line, field: str) -> str:
        """Convert a tag of either form to ``B-PER``. Raises ValueError naming the known tags if it is unknown."""
        suffixed = _SUFFIXED.fullmatch(written)
        plain = f"{suffixed[2]}-{suffixed[1]}" if suffixed else OUTSIDE if written == "-" else written
        return super().tag(plain, line=line, field=field)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute F1 of entities and accuracy of eojeols.

        ``challenge_f1`` counts entities like the challenge, in official mode with its quirks; ``entity_micro_f1`` like seqeval
        (KoELECTRA); ``accuracy`` is of all eojeols, ``accuracy_entities`` of those whose gold tag is not ``O``.
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
        """Compute entity micro F1 from counts."""
        rows = [lenient_counts(e.target, tags) for e, tags in zip(examples, predicted, strict=True)]
        return Additive.of_counts(rows, ClassCounts.micro_f1)


_KLUE_KINDS = ("PS", "LC", "OG", "DT", "TI", "QT")

_MARKUP = str.maketrans("", "", "<>:" + "".join(sorted({*"".join(_KLUE_KINDS)})))
"""Characters of the markup in titles, as in ``<김구:PS>``. In train some markup is malformed, and ``<`` may also be text."""


class KlueNer(Tagging):
    """KLUE-NER: which characters name a person, place, organisation, date, time or quantity? Macro F1 on 5,000 dev sentences.

    Official files ``klue-ner-v1.1_{train,dev}.tsv`` (21,008 / 5,000): per sentence a line ``## guid<TAB>text``, then one line
    ``character<TAB>tag`` for every character, spaces too, then an empty line. Spaces are not scored. The test set is not
    public.

    The official script scores all sentences as one sequence, with a position for ``[CLS]`` and ``[SEP]`` around each. Its F1 of
    characters averages over all 13 labels including ``O``, although its docstring and the paper say 12; both versions are
    computed. Two entities of dev begin with a space, and the script drops their beginning with the space.
    """

    title = "KLUE-NER"
    id_fields = ("guid",)
    official_test_examples = 5_000
    origin = ORIGIN
    has_official_dev = False
    metric = "entity_macro_f1"
    others = ("char_f1_all13", "char_f1_no_O")
    dev_metric = "char_f1_all13"
    tags = entity_tags(_KLUE_KINDS)
    unit = counted = "characters"
    hint = ", spaces too"
    labels_every_piece = True
    needs_every_unit = False
    # KLUE-baseline trains without warm-up here; 510 pieces hold every sentence.
    defaults = klue_defaults(epochs=3, max_length=510, warmup_ratio=0.0)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all sentences; ``spans`` are all single characters."""
        return [self._example(found) for found in sentences(file)]

    def _example(self, found: Sentence) -> Tagged:
        text, tags = "", list[str]()
        for line in found.units:
            character, tab, tag = line.text.partition("\t")
            if len(character) != 1 or not tab:
                raise line.error("char", f"found {line.text[:40]!r}", "a line is one character, a tab and its tag")
            text += character
            tags.append(self.tag(tag, line=line, field="tag"))
        if lost := _lost(found.text, text):
            problem = f"the sentence lacks {lost} of the characters in this line"
            raise found.title.error("char", problem, "restore its lines from the official file")
        return Tagged(found.guid, text, tuple(tags), spans=tuple((n, n + 1) for n in range(len(text))))

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``entity_macro_f1`` of strict IOB2 entities, ``char_f1_all13`` over 13 labels and ``char_f1_no_O`` over 12.

        Official: with a gold and predicted ``O`` before and after each sentence. Corrected: without them, and an entity that
        begins with a space begins at the character after it.
        """
        check_lengths(examples, predicted, "F1")
        texts = [example.text for example in examples]
        sides = [example.target for example in examples], predicted
        gold, given = ([_visible(text, tags) for text, tags in zip(texts, side, strict=True)] for side in sides)
        if mode == "official":
            gold, given = [_as_one(gold)], [_as_one(given)]
            entity, undefined = entity_macro_f1(gold, given), undefined_macro_f1(gold, given)
        else:
            begun = ([_visible(text, _begun(text, tags)) for text, tags in zip(texts, side, strict=True)] for side in sides)
            entity, undefined = entity_macro_f1(*begun), {}
        gold_tags, given_tags = (list(chain.from_iterable(side)) for side in (gold, given))
        values = {
            "entity_macro_f1": entity,
            "char_f1_all13": char_f1(gold_tags, given_tags, self.tags, mode),
            "char_f1_no_O": char_f1(gold_tags, given_tags, self.tags[:-1], mode),
        }
        return Scores(values, () if set(given_tags) != {OUTSIDE} else ("no entity is predicted",), undefined)

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Compute entity macro F1 from the counts of each type."""

        def scored(text: str, tags: Sequence[str]) -> list[str]:
            return _visible(text, tags if mode == "official" else _begun(text, tags))

        pairs = zip(examples, predicted, strict=True)
        rows = [strict_counts(scored(e.text, e.target), scored(e.text, tags), _KLUE_KINDS) for e, tags in pairs]
        return Additive.of_counts(rows, ClassCounts.macro_f1)


def _lost(title: str, text: str) -> int:
    """Count the characters of a title, without markup and spaces, that its sentence lacks; 0 if it is another text."""
    wanted, found = ("".join(written.translate(_MARKUP).split()) for written in (title, text))
    rest = iter(wanted)
    return len(wanted) - len(found) if all(character in rest for character in found) else 0


def _as_one(sentences: Iterable[Sequence[str]]) -> list[str]:
    """Return the tags of all sentences, with ``O`` before and after each sentence."""
    return [tag for tags in sentences for tag in (OUTSIDE, *tags, OUTSIDE)]


def _visible(text: str, tags: Sequence[str]) -> list[str]:
    return [tag for character, tag in zip(text, tags, strict=True) if character != " "]


def _begun(text: str, tags: Sequence[str]) -> list[str]:
    """Move the beginning of an entity from a space to the character that continues it."""
    moved = list(tags)
    for n in range(len(text) - 1):
        if text[n] == " " and moved[n].startswith("B-") and moved[n + 1] == f"I-{moved[n][2:]}":
            moved[n + 1] = moved[n]
    return moved


TASKS: dict[str, Task] = {"klue_ner": KlueNer(), "naver_ner": NaverNer()}
