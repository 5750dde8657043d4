"""KLUE-DP: on which word of its sentence does each word depend, and how? UAS and LAS on 2,000 dev sentences.

Official files ``klue-dp-v1.1_{train,dev}.tsv`` (10,000 / 2,000): per sentence a line ``## guid<TAB>text``, then a line ``INDEX
WORD_FORM LEMMA POS HEAD DEPREL`` for each eojeol, then an empty line. Head 0 is the root. Heads stand right of their words. The
test set is not public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from korealbert.finetune import klue
from korealbert.finetune.json_records import Record
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.parsing import las, uas
from korealbert.finetune.reading import BenchmarkFile, Line
from korealbert.finetune.task import Benchmark, Example, Scores

COLUMNS = ("INDEX", "WORD_FORM", "LEMMA", "POS", "HEAD", "DEPREL")

RELATIONS = (
    *("NP", "NP_AJT", "VP", "NP_SBJ", "VP_MOD", "NP_OBJ", "AP", "NP_CNJ", "NP_MOD", "VNP", "DP", "VP_AJT", "VNP_MOD", "NP_CMP"),
    *(
        "VP_SBJ",
        "VP_CMP",
        "VP_OBJ",
        "VNP_CMP",
        "AP_MOD",
        "X_AJT",
        "VP_CNJ",
        "VNP_AJT",
        "IP",
        "X",
        "X_SBJ",
        "VNP_OBJ",
        "VNP_SBJ",
    ),
    *("X_OBJ", "AP_AJT", "L", "X_MOD", "X_CNJ", "VNP_CNJ", "X_CMP", "AP_CMP", "AP_SBJ", "R", "NP_SVJ"),
)
"""In the order of KLUE-baseline: from ``VP_CMP`` (number 15) on, LAS takes them for one."""


class Tree(NamedTuple):
    """Of each word: its head, counted from 1 (0: the root), and its relation's number."""

    heads: tuple[int, ...]
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parsed(Example):
    """``text`` is the words with spaces between, ``target`` a ``Tree``."""

    words: tuple[str, ...] = ()
    pos: tuple[str, ...] = ()
    """The parts of speech of each word's morphemes, joined by ``+``."""


class KlueDp(Benchmark):
    """Dependency parsing of KLUE."""

    name = "klue_dp"
    title = "KLUE-DP"
    official_test_examples = 2_000
    origin = klue.ORIGIN
    has_official_dev = True
    metric = "las_macro"

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All sentences."""
        examples: list[Example] = []
        guid, rows = "", list[tuple[Line, list[str]]]()
        for line in file.lines():
            if line.text.startswith("##") or not line.text.strip():
                if rows:
                    examples.append(_sentence(guid or str(len(examples)), rows))
                guid, rows = line.text.removeprefix("##").split("\t")[0].strip(), []
                continue
            fields = line.text.split("\t")
            if len(fields) != len(COLUMNS):
                problem = f"{len(fields)} fields instead of {len(COLUMNS)}"
                raise line.error(
                    COLUMNS[min(len(fields), len(COLUMNS)) - 1], problem, "restore the line from the official file"
                )
            rows.append((line, fields))
        if rows:
            examples.append(_sentence(guid or str(len(examples)), rows))
        return examples

    def prediction(self, record: Record, example: Example) -> Tree:
        """``heads`` (numbers of words from 1, 0 for the root) and ``deprels`` (names), one of each per word."""
        heads, names = record.integers("heads"), record.texts("deprels")
        count = len(example.target.heads)
        for field, values in (("heads", heads), ("deprels", names)):
            if len(values) != count:
                problem = f"{len(values)} values for the {count} words of example {example.id}"
                raise record.error(field, problem, "give one for each word")
        return Tree(
            tuple(_head(head, count, record.line, f"heads[{n}]") for n, head in enumerate(heads)),
            tuple(_relation(name, record.line, f"deprels[{n}]") for n, name in enumerate(names)),
        )

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``uas_macro``, ``uas_micro``, ``las_macro`` and ``las_micro`` over the words of all sentences."""
        gold = [example.target for example in examples]
        gold_heads, gold_relations = ([value for tree in gold for value in tree[part]] for part in (0, 1))
        heads, relations = ([value for tree in predicted for value in tree[part]] for part in (0, 1))
        return Scores({**uas(gold_heads, heads), **las(gold_heads, gold_relations, heads, relations, mode)})


def _sentence(guid: str, rows: Sequence[tuple[Line, list[str]]]) -> Parsed:
    heads, relations = [], []
    for number, (line, (index, _, _, _, head, relation)) in enumerate(rows, start=1):
        if index != str(number):
            raise line.error("INDEX", f"found {index!r} for word {number}", "restore the line from the official file")
        if not head.isdecimal():
            raise line.error("HEAD", f"found {head!r}", "a head is the number of a word, or 0")
        heads.append(_head(int(head), len(rows), line, "HEAD"))
        relations.append(_relation(relation, line, "DEPREL"))
    words, pos = (tuple(fields[column] for _, fields in rows) for column in (1, 3))
    return Parsed(guid, " ".join(words), Tree(tuple(heads), tuple(relations)), words=words, pos=pos)


def _head(head: int, count: int, line: Line, field: str) -> int:
    if not 0 <= head <= count:
        raise line.error(field, f"found {head} in a sentence of {count} words", f"a head is a number from 0 to {count}")
    return head


def _relation(name: str, line: Line, field: str) -> int:
    if name not in RELATIONS:
        raise line.error(field, f"found {name!r}", f"a relation is one of {', '.join(RELATIONS)}")
    return RELATIONS.index(name)


TASK = KlueDp()
