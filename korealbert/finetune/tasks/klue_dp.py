"""KLUE-DP: on which word of its sentence does each word depend, and how? UAS and LAS on 2,000 dev sentences.

Official files ``klue-dp-v1.1_{train,dev}.tsv`` (10,000 / 2,000): per sentence a line ``## guid<TAB>text``, then a line ``INDEX
WORD_FORM LEMMA POS HEAD DEPREL`` for each eojeol, then an empty line. Head 0 is the root. Heads are right of their words. The
test set is not public.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.encoders.alignment import Pieces, Span, frame, pieces, with_every_unit
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import ClassCounts
from korealbert.finetune.metrics.units import las, las_counts, uas
from korealbert.finetune.records import Record, check_width
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import Encoded, Example, Feature, Parse, Scores, Task, Words, name_of, narrowed
from korealbert.finetune.task_types.tagged import IGNORED, unit_spans
from korealbert.finetune.tasks.klue import ORIGIN, klue_defaults, sentences

if TYPE_CHECKING:
    import torch
    from torch import nn

_COLUMNS = ("INDEX", "WORD_FORM", "LEMMA", "POS", "HEAD", "DEPREL")

_RELATION_LIST = """
NP NP_AJT VP NP_SBJ VP_MOD NP_OBJ AP NP_CNJ NP_MOD VNP DP VP_AJT VNP_MOD NP_CMP VP_SBJ VP_CMP VP_OBJ VNP_CMP AP_MOD X_AJT VP_CNJ
VNP_AJT IP X X_SBJ VNP_OBJ VNP_SBJ X_OBJ AP_AJT L X_MOD X_CNJ VNP_CNJ X_CMP AP_CMP AP_SBJ R NP_SVJ
"""
RELATIONS = tuple(_RELATION_LIST.split())
"""The relations in the order of KLUE-baseline; LAS merges those from ``VP_CMP`` (number 15) on into one class."""

_POS_LIST = """
NNG NNP NNB NP NR VV VA VX VCP VCN MMA MMD MMN MAG MAJ JC IC JKS JKC JKG JKO JKB JKV JKQ JX EP EF EC ETN ETM XPN XSN XSV XSA XR
SF SP SS SE SO SL SH SW SN NA
"""
_PARTS_OF_SPEECH = tuple(_POS_LIST.split())


class Tree(NamedTuple):
    """The head of each word, counted from 1 (0 is the root), and the number of the relation to it."""

    heads: tuple[int, ...]
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parsed(Example):
    """A sentence of ``words``, joined by spaces in ``text``; ``target`` is a ``Tree``."""

    words: tuple[str, ...] = ()
    pos: tuple[str, ...] = ()
    """The parts of speech of each word's morphemes, joined by ``+``."""


class KlueDp(Task):
    """Dependency parsing of KLUE."""

    title = "KLUE-DP"
    id_fields = ("guid",)
    official_test_examples = 2_000
    origin = ORIGIN
    has_official_dev = False
    metric = "las_macro"
    others = ("las_micro", "uas_macro", "uas_micro")
    prediction_type = pa.struct([("heads", pa.list_(pa.int64())), ("relations", pa.list_(pa.int64()))])
    counted = "words"
    target_type = layout_type = pa.list_(pa.list_(pa.int32()))
    defaults = klue_defaults(epochs=10, max_length=256)
    uses_pos: ClassVar[bool] = True
    """Whether the parser sees the gold part of speech of each word's last morpheme, like KLUE-baseline without ``--no_pos``."""

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all sentences."""
        return [self._sentence(found.guid, [_row(line) for line in found.units]) for found in sentences(file)]

    def _sentence(self, guid: str, rows: Sequence[tuple[Line, list[str]]]) -> Parsed:
        for line, fields in rows if self.uses_pos else ():
            if fields[3].split("+")[-1] not in _PARTS_OF_SPEECH:
                remedy = "parts of speech are those of the Sejong corpus, joined by +; restore the line from the official file"
                raise line.error("POS", f"found {fields[3][:40]!r}", remedy)
        return _sentence(guid, rows)

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode ``[CLS] words [SEP]``, cut after the last word that fits. ``layout`` has the positions of the words."""
        special = frame(tokenizer, pair=False)
        room = max_length - special.size
        features = []
        for index, (example, made) in enumerate(zip(examples, pieces([e.text for e in examples], tokenizer), strict=True)):
            parsed = narrowed(example, Parsed)
            units = unit_spans(parsed.words)
            found = with_every_unit(made, units, tokenizer.unk_token_id)
            words = _layout(found, units, parsed, room, len(special.before))
            size = words.last[-1] + 1 - len(special.before)
            input_ids, segments = special.around(found.ids[:size])
            count = len(words.first)
            tree = example.target
            heads = [head if head <= count else IGNORED for head in tree.heads[:count]]
            relations = [r if head != IGNORED else IGNORED for r, head in zip(tree.relations, heads, strict=False)]
            features.append(Feature(input_ids, segments, (heads, relations), index, words))
        return features

    def restored_layout(self, stored: Any) -> Words:
        """Restore the positions of the words."""
        return Words(*stored)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build the biaffine parser; its dropout is that of KLUE-baseline, not ``dropout``."""
        from korealbert.finetune.task_types.heads import BiaffineParser  # noqa: PLC0415 (planning does without)

        return BiaffineParser(hidden_size, len(RELATIONS), len(_PARTS_OF_SPEECH) if self.uses_pos else None)

    def loss(self, logits: Parse, targets: Sequence[Any]) -> torch.Tensor:
        """Return the cross-entropy over heads plus that over relations to the gold heads, each a mean over words."""
        import torch  # noqa: PLC0415 (planning does without)

        device, width = logits.arcs_BWP.device, logits.arcs_BWP.shape[1]
        losses = []
        for scores_BWX, rows in zip(logits, zip(*targets, strict=True), strict=True):
            padded = torch.tensor([[*row, *[IGNORED] * (width - len(row))] for row in rows], device=device)
            known = padded.flatten() != IGNORED
            scores_KX = scores_BWX.float().flatten(0, 1)[known]
            loss = torch.nn.functional.cross_entropy(scores_KX, padded.flatten()[known], reduction="sum")
            losses.append(loss / known.sum().clamp(min=1))
        return losses[0] + losses[1]

    def terms(self, targets: Sequence[Any]) -> int:
        """Return the number of words."""
        return sum(head != IGNORED for heads, _ in targets for head in heads)

    def decode(self, logits: Parse, features: Sequence[Feature]) -> list[Any]:
        """Return the best head of each word that fits, and the best relation to it."""
        heads_BW, relations_BW = logits.arcs_BWP.argmax(-1).tolist(), logits.relations_BWR.argmax(-1).tolist()
        counts = [len(feature.layout.first) for feature in features]
        rows = zip(heads_BW, relations_BW, counts, strict=True)
        return [Tree(tuple(heads[:count]), tuple(relations[:count])) for heads, relations, count in rows]

    def predictions(self, encoded: Encoded, decoded: Sequence[Any]) -> list[Any]:
        """Complete the trees: a word beyond the length limit depends on the next word, with the frequent relation ``NP``."""
        trees = []
        for example, tree in zip(encoded.examples, decoded, strict=True):
            total, count = len(example.target.heads), len(tree.heads)
            next_words = [number + 1 if number < total else 0 for number in range(count + 1, total + 1)]
            trees.append(Tree((*tree.heads, *next_words), (*tree.relations, *[RELATIONS.index("NP")] * (total - count))))
        return trees

    def oracle(self, encoded: Encoded) -> list[Any]:
        """Return the gold trees of the words within the length limit."""
        seen = [
            Tree(tuple(e.target.heads[: len(f.layout.first)]), tuple(e.target.relations[: len(f.layout.first)]))
            for e, f in zip(encoded.examples, encoded.features, strict=True)
        ]
        return self.predictions(encoded, seen)

    def stored(self, value: Any) -> dict[str, Any]:
        """Return heads and numbers of relations."""
        return dict(value._asdict())

    def restored(self, stored: Any) -> Tree:
        """Restore the tree."""
        return Tree(tuple(stored["heads"]), tuple(stored["relations"]))

    def prediction(self, record: Record, example: Example) -> Tree:
        """`heads` (numbers of words from 1, 0 for the root) and `deprels` (names), one of each per word."""
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

    def fields(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Return the heads and the names of the relations."""
        numbers = stored["relations"]
        return {"heads": stored["heads"], "deprels": numbers and [name_of(RELATIONS, number) for number in numbers]}

    def labelled(self, example: Example, predicted: Tree) -> tuple[list[str], list[str]]:
        """Return the names of the relations of all words, whatever their heads."""
        gold, given = ([RELATIONS[number] for number in tree.relations] for tree in (example.target, predicted))
        return gold, given

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``uas_macro``, ``uas_micro``, ``las_macro`` and ``las_micro`` over the words of all sentences."""
        gold_heads, gold_relations = _of_all_words([example.target for example in examples])
        heads, relations = _of_all_words(predicted)
        return Scores({**uas(gold_heads, heads), **las(gold_heads, gold_relations, heads, relations, mode)})

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Compute LAS macro from counts of each class."""
        pairs = [(example.target, tree) for example, tree in zip(examples, predicted, strict=True)]
        rows = [las_counts(gold.heads, gold.relations, tree.heads, tree.relations, mode) for gold, tree in pairs]
        return Additive.of_counts(rows, ClassCounts.macro_f1)


def _layout(found: Pieces, units: Sequence[Span], example: Parsed, room: int, shift: int) -> Words:
    """Return the words whose pieces all fit into ``room`` (the first is cut if none fits), with positions shifted."""
    begins = [begin for begin, _ in units]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, (begin, end) in enumerate(found.spans):
        if begin < end:
            word = bisect.bisect_right(begins, begin) - 1
            first.setdefault(word, position)
            last[word] = position
    fitting = [word for word in sorted(first) if last[word] < room] or [0]
    root = len(_PARTS_OF_SPEECH)
    tags = [example.pos[word].split("+")[-1] for word in fitting]
    heads = [example.target.heads[word] for word in fitting]
    return Words(
        [first[word] + shift for word in fitting],
        [min(last[word], room - 1) + shift for word in fitting],
        [_PARTS_OF_SPEECH.index(tag) if tag in _PARTS_OF_SPEECH else root for tag in tags],
        [head if head <= len(fitting) else 0 for head in heads],
    )


def _of_all_words(trees: Sequence[Tree]) -> tuple[list[int], list[int]]:
    """Return the heads and the relations of the words of all sentences."""
    return [head for tree in trees for head in tree.heads], [number for tree in trees for number in tree.relations]


def _row(line: Line) -> tuple[Line, list[str]]:
    fields = line.text.split("\t")
    check_width(line, fields, _COLUMNS)
    return line, fields


def _sentence(guid: str, rows: Sequence[tuple[Line, list[str]]]) -> Parsed:
    heads, relations = [], []
    for number, (line, (index, word, _, _, head, relation)) in enumerate(rows, start=1):
        if index != str(number):
            raise line.error("INDEX", f"found {index!r} for word {number}", "restore the line from the official file")
        if not word.strip():
            raise line.error("WORD_FORM", "there is none", "restore the line from the official file")
        if not (head.isascii() and head.isdecimal()):
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


class KlueDpNoPos(KlueDp):
    """KLUE-DP without gold parts of speech, which raw text does not have: KLUE-baseline's option ``--no_pos``."""

    title = "KLUE-DP no POS"
    uses_pos = False


TASKS: dict[str, Task] = {
    "klue_dp": KlueDp(),
    "klue_dp_no_pos": KlueDpNoPos(),
}
