"""KLUE: its tasks with one label for a sentence or a pair (YNAT, KLUE-NLI, KLUE-STS), and what all its tasks share.

The tasks share their origin, the settings of KLUE's baselines for models of base size, and TSV files of tagged sentences. These
have a line for each unit of a sentence; a comment ``## guid<TAB>text`` precedes each sentence, and an empty line follows it.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.documents.csv import csv_reader
from korealbert.finetune.metrics.labels import accuracy, binary_f1, macro_f1, pearson, spearman
from korealbert.finetune.records import Identifiers, check_width, json_list
from korealbert.finetune.task import PAIR_HEADS, Example, Task
from korealbert.finetune.task_types.sequence import SequenceClassification, SequenceRegression

ORIGIN = "github.com/KLUE-benchmark/KLUE (klue_benchmark), v1.1, CC BY-SA 4.0"


def klue_defaults(*, epochs: int, **other: float) -> Mapping[str, int | float]:
    """Return fields of the fine-tuning spec as in KLUE-baseline's run_all.sh, replaced and extended by ``other``."""
    common = {"batch_size": 32, "learning_rate": 5e-5, "max_length": 128, "warmup_ratio": 0.1, "weight_decay": 0.0}
    return {"epochs": epochs, **common, **other}


_COMMENT = "##"

_TITLE = re.compile(r"##\s*(\S+)\t(.*)")
"""Comments at the top of a file also have tabs, but with spaces before them."""


@dataclass(frozen=True)
class Sentence:
    """The title line of a sentence, and the lines of its units."""

    guid: str
    text: str
    """The text in the title; empty without a title."""
    title: Line
    """The title, or the first unit's line if there is none."""
    units: list[Line]


def sentences(file: BenchmarkFile) -> Iterator[Sentence]:
    """Yield all sentences of a file. If none has a title, their guids are numbers from 0.

    Raises ValueError naming file, line and remedy if only some sentences have a title, if a title has no sentence, or if a
    guid is repeated.
    """
    lines = list(file.lines())
    titled = any(_TITLE.fullmatch(line.text) for line in lines)
    seen, count = Identifiers(), 0
    title: Line | None = None
    units: list[Line] = []
    # The additional empty line ends the last sentence if the file does not.
    for line in [*lines, Line(str(file), len(lines) + 1, "")]:
        is_comment = line.text.startswith(_COMMENT)
        if not is_comment and not line.is_blank:
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


class Ynat(SequenceClassification):
    """KLUE YNAT: which of 7 topics is a headline about? Macro F1 on 9,107 dev headlines; the test set is not public.

    Official files ``ynat-v1.1_{train,dev}.json`` (45,678 / 9,107): a list of objects with ``guid``, ``title`` and ``label``.
    """

    title = "YNAT"
    id_fields = ("guid",)
    official_test_examples = 9_107
    origin = ORIGIN
    has_official_dev = False
    labels = ("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠")
    metric = "macro_f1"
    measures = {"macro_f1": macro_f1, "accuracy": accuracy}  # noqa: RUF012 - read only
    defaults = klue_defaults(epochs=4)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all headlines."""
        return [
            Example(item.text("guid"), item.text("title"), self.label(item.text("label"), line=item.line))
            for item in json_list(file, unique="guid")
        ]


_CSV_HEADER = ["index", "premise", "hypothesis", "label"]

_CSV_TRAIN_ROWS = 24_998


class KlueNli(SequenceClassification):
    """KLUE-NLI: does one sentence follow from another? Accuracy on 3,000 dev pairs; the test set is not public.

    Official files ``klue-nli-v1.1_{train,dev}.json`` (24,998 / 3,000), a list of objects. DACON's CSV file of
    the training set (``index,premise,hypothesis,label``, in CP949: convert it) is read too; the 3,000 rows of dev that follow
    its 24,998 rows are left out.
    """

    title = "KLUE-NLI"
    id_fields = ("guid", "index")
    heads = PAIR_HEADS
    official_test_examples = 3_000
    origin = ORIGIN
    has_official_dev = False
    labels = ("entailment", "contradiction", "neutral")
    defaults = klue_defaults(epochs=5)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs; of a CSV file the first 24,998."""
        first = next(file.lines(), None)
        if first is not None and first.text.split(",") == _CSV_HEADER:
            return list(self._csv(file))
        return [
            Example(
                item.text("guid"),
                item.text("premise"),
                self.label(item.text("gold_label"), line=item.line, field="gold_label"),
                pair=item.text("hypothesis"),
            )
            for item in json_list(file, unique="guid")
        ]

    def _csv(self, file: BenchmarkFile) -> Iterator[Example]:
        lines = list(file.lines())
        rows = csv_reader((f"{line.text}\n" for line in lines), strict=True)
        next(rows)
        try:
            for number, row in enumerate(itertools.islice(rows, _CSV_TRAIN_ROWS)):
                line = lines[rows.line_num - 1]
                check_width(line, row, _CSV_HEADER)
                if row[0] != str(number):
                    raise line.error("index", f"found {row[0][:40]!r} for row {number}", "restore the line")
                yield Example(row[0], row[1], self.label(row[3], line=line), pair=row[2])
        except csv.Error as error:
            raise lines[rows.line_num - 1].error("record", f"no CSV ({error})", "restore the quotation marks") from error


_THRESHOLD = 3
"""Pairs with at least this score count as paraphrases."""


def _threshold_f1(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """F1 of paraphrases, times 100."""
    return binary_f1([int(score >= _THRESHOLD) for score in gold], [int(score >= _THRESHOLD) for score in predicted])


class KlueSts(SequenceRegression):
    """KLUE-STS: how similar are two sentences, from 0 to 5? Pearson's correlation and F1 on 519 dev pairs; test is not public.

    Official files ``klue-sts-v1.1_{train,dev}.json`` (11,668 / 519). The target is ``labels.real-label``; the F1 asks both
    sides whether they reach 3, which on dev is ``labels.binary-label`` (220 do, 299 do not).
    """

    title = "KLUE-STS"
    id_fields = ("guid",)
    official_test_examples = 519
    origin = ORIGIN
    has_official_dev = False
    metric = "pearson"
    measures = {"pearson": pearson, "f1": _threshold_f1, "spearman": spearman}  # noqa: RUF012 - read only
    defaults = klue_defaults(epochs=4)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs; an id is ``guid``."""
        return [
            Example(
                item.text("guid"),
                item.text("sentence1"),
                self.gold_score(str(item.record("labels").number("real-label")), line=item.line),
                pair=item.text("sentence2"),
            )
            for item in json_list(file, unique="guid")
        ]


TASKS: dict[str, Task] = {
    "ynat": Ynat(),
    "klue_nli": KlueNli(),
    "klue_sts": KlueSts(),
}
