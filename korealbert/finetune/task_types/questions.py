"""Questions whose answer is a span of a context: SQuAD's JSON (also KorQuAD and KLUE-MRC), sliding windows, and scoring.

A long context becomes several overlapping inputs ``[CLS] question [SEP] window [SEP]``. The answer is the span of characters
with the best logits in any of these windows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.encoders.alignment import Frame, Pieces, Span, frame, pieces
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import em_and_f1
from korealbert.finetune.metrics.labels import check_lengths
from korealbert.finetune.records import Identifiers, Record, json_list
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import Encoded, Example, Feature, Scores, Spans, Task, narrowed

if TYPE_CHECKING:
    import torch
    from torch import nn

_MAX_QUESTION_PIECES = 64

STRIDE = 128
"""Distance between the beginnings of two windows in pieces, as in BERT and KLUE-baseline."""

_ANSWERABILITY_WEIGHT = 0.5
"""Weight of the classifier's loss relative to the span's loss, as in the official ALBERT's SQuAD 2.0."""

_N_BEST = 20
"""Number of best starts and of best ends that are combined, and of best spans that an ensemble averages."""


@dataclass(frozen=True)
class Window:
    """A part of a context: ``spans`` are the characters that the input's pieces from position ``first`` on cover."""

    first: int
    spans: Sequence[Span]

    def target(self, answer: Span | None) -> tuple[int, int]:
        """Return the positions of an answer's first and last piece; (0, 0), ``[CLS]``, if the window lacks part of it."""
        if answer is None or not self.spans or self.spans[0][0] > answer[0] or self.spans[-1][1] < answer[1]:
            return 0, 0
        inside = self.within(answer)
        if not inside or self.spans[inside[0]][0] > answer[0] or self.spans[inside[-1]][1] < answer[1]:
            return 0, 0
        return self.first + inside[0], self.first + inside[-1]

    def within(self, answer: Span) -> list[int]:
        """Return the numbers of the window's pieces that share a character with an answer."""
        return [n for n, (begin, end) in enumerate(self.spans) if max(begin, answer[0]) < min(end, answer[1])]

    def characters(self, start: int, end: int) -> Span:
        """Return the characters of the context from the piece at position ``start`` through the one at ``end``."""
        return self.spans[start - self.first][0], self.spans[end - self.first][1]


class BestSpan(NamedTuple):
    """The best span of a window with its score, and the score of "no answer"."""

    score: float
    span: Span
    null: float
    """Compared with ``score``; with a classifier of answerability it is the classifier's logit, which is compared with 0."""


def windows(
    question: Pieces, context: Pieces, special: Frame, max_length: int
) -> Iterator[tuple[list[int], list[int], Window]]:
    """Yield ids, segments and layout of each window. Raises ValueError if the question leaves no room for a context."""
    question_ids = question.ids[:_MAX_QUESTION_PIECES]
    room = max_length - special.size - len(question_ids)
    if room < 1:
        raise ValueError(f"max_length is {max_length}, but a question takes {len(question_ids)} pieces of it; raise max_length")
    first = len(special.before) + len(question_ids) + len(special.between)
    for begin in range(0, len(context.ids) or 1, min(STRIDE, room)):
        ids, segments = special.around(question_ids, context.ids[begin : begin + room])
        yield ids, segments, Window(first, context.spans[begin : begin + room])
        if begin + room >= len(context.ids):
            return


def best_span(logits_L2: npt.NDArray[Any], window: Window, max_pieces: int) -> BestSpan:
    """Return the span of at most ``max_pieces`` pieces with the largest sum of start and end logit."""
    best = best_spans(logits_L2, window, max_pieces, number=1)
    score, span = best[0] if best else (-np.inf, (0, 0))
    return BestSpan(score, span, float(logits_L2[0].sum()))


def best_spans(logits_L2: npt.NDArray[Any], window: Window, max_pieces: int, *, number: int) -> list[tuple[float, Span]]:
    """Return up to ``number`` spans of at most ``max_pieces`` pieces, with their sums of start and end logit, largest first.

    There are none if the window has no visible character of the context.
    """
    visible = [window.first + n for n, (begin, end) in enumerate(window.spans) if begin < end]
    if not visible:
        return []
    positions_C = np.array(visible)
    starts = positions_C[np.argsort(-logits_L2[positions_C, 0], kind="stable")[:_N_BEST]]
    ends = positions_C[np.argsort(-logits_L2[positions_C, 1], kind="stable")[:_N_BEST]]
    allowed_SE = (ends[None, :] >= starts[:, None]) & (ends[None, :] < starts[:, None] + max_pieces)
    if not allowed_SE.any():
        starts, ends, allowed_SE = starts[:1], starts[:1], np.ones((1, 1), dtype=bool)
    scores_SE = np.where(allowed_SE, logits_L2[starts, 0][:, None] + logits_L2[ends, 1][None, :], -np.inf)
    flat = scores_SE.ravel()
    order = [int(flat.argmax())] if number == 1 else np.argsort(-flat, kind="stable")[:number].tolist()
    places = [divmod(place, scores_SE.shape[1]) for place in order if flat[place] > -np.inf]
    return [(float(scores_SE[s, e]), window.characters(int(starts[s]), int(ends[e]))) for s, e in places]


def near_spans(window: Window, answer: Span, max_pieces: int) -> list[Span]:
    """Return the span of whole pieces that covers the answer within the window, and those one piece shorter at either end."""
    inside = window.within(answer)
    if not inside:
        return []
    ranges = [(a, b) for a in inside[:2] for b in inside[-2:] if a <= b < a + max_pieces]
    ranges += [(inside[0], inside[min(len(inside), max_pieces) - 1])] if not ranges else []
    return [(window.spans[a][0], window.spans[b][1]) for a, b in ranges]


_VERSION_BYTES = 500
"""``version`` is searched in this many bytes at the beginning and the end of a file."""

_KNOWN_VERSIONS = ("KorQuAD_v1", "KorQuAD_v2", "KorQuAD_2", "1.1", "v2.0")
"""Prefixes of ``version`` in data sets of this form."""

_VERSION = re.compile(rb'"version"\s*:\s*"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer: the context's ``text`` from character ``begin`` on, or -1 if the file has no offset."""

    text: str
    begin: int


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question (``text``) about a context (``pair``); ``target`` is the tuple of accepted answers, which may be empty."""

    article: str = ""
    """Name of the document that contains the context."""
    kind: int = 1
    """KLUE-MRC's type of question: 1 paraphrase, 2 several sentences, 3 unanswerable."""

    @property
    def accepted(self) -> list[str]:
        """The texts of the accepted answers."""
        return [answer.text for answer in self.target]


_WEIGHED_SPAN = pa.struct([("begin", pa.int32()), ("end", pa.int32()), ("probability", pa.float64())])


class QuestionAnswering(Task):
    """Find spans of a context. A prediction is the answer's text, or "" for no answer.

    A long context has several features; one without the answer is trained to point at ``[CLS]``.
    """

    metric = "f1"
    others: ClassVar[tuple[str, ...]] = ("em",)
    matches_by_id = True
    prediction_type = pa.string()
    target_type = pa.list_(pa.int32())
    layout_type = pa.struct([("first", pa.int32()), ("begins", pa.list_(pa.int32())), ("ends", pa.list_(pa.int32()))])
    evidence_type = pa.struct([("spans", pa.list_(_WEIGHED_SPAN)), ("none", pa.float64())])
    max_answer_pieces: ClassVar[int] = 30
    """Longest predicted answer, as in the baselines of SQuAD and KLUE-MRC."""
    has_official_dev = False
    answerable: ClassVar[bool] = True
    """Whether every question has an answer."""
    compared_by: ClassVar[tuple[Callable[[str], str], Callable[[str, str, Mode], float]]]
    """Normalisation of answers, and F1 of two of them, for ``measures``."""
    version: ClassVar[str | tuple[str, ...]] = ""
    """Prefixes of ``version`` in the official files, if it distinguishes them from other data sets."""

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all questions, in the order of the file."""
        self.check_version(file)
        examples: list[Example] = []
        seen = Identifiers()
        for number, article in enumerate(json_list(file, key="data")):
            for paragraph in article.records("paragraphs"):
                context = paragraph.text("context")
                for question in paragraph.records("qas"):
                    example = self.question(question, context, str(number))
                    seen.once(example.id, line=question.line, field=f"{question.path}{self.id_fields[0]}")
                    examples.append(example)
        return examples

    def check_version(self, file: BenchmarkFile) -> None:
        """Raise ValueError if ``version`` is that of another known data set; any other value may be a user's own."""
        content = file.content()
        found = _VERSION.search(content[:_VERSION_BYTES]) or _VERSION.search(content[-_VERSION_BYTES:])
        written = found[1].decode(errors="replace") if found else ""
        if self.version and written.startswith(_KNOWN_VERSIONS) and not written.startswith(self.version):
            problem = f"found {written!r}"
            raise file.error(1, "version", problem, f"{self.title} comes from {self.origin}")

    def document(self, example: Example) -> str:
        """Return the article."""
        return narrowed(example, Question).article

    def question(self, record: Record, context: str, article: str) -> Question:
        """Read a question with its accepted answers; one with ``is_impossible`` need not have the field."""
        listed = "answers" in record or record.fields.get("is_impossible") is not True
        answers = tuple(self._answer(answer) for answer in record.records("answers")) if listed else ()
        if self.answerable and not answers:
            raise record.error("answers", "there is none", f"every question of {self.title} has an answer")
        kind = record.integer("question_type") if "question_type" in record else 1
        question_id, text = record.written(self.id_fields[0]), record.text("question")
        return Question(question_id, text, answers, pair=context, article=article, kind=kind)

    def _answer(self, record: Record) -> Answer:
        return Answer(record.text("text"), record.integer("answer_start") if "answer_start" in record else -1)

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode every window of every context. Raises ValueError if the first answer is not at its offset."""
        special = frame(tokenizer, pair=True)
        contexts = sorted({example.pair or "" for example in examples})
        known = dict(zip(contexts, pieces(contexts, tokenizer), strict=True))
        questions = pieces([example.text for example in examples], tokenizer)
        features = []
        for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
            answer = _covered(_first_answer(example), known[example.pair or ""].spans, example)
            for ids, segments, window in windows(question, known[example.pair or ""], special, max_length):
                features.append(Feature(ids, segments, window.target(answer), index, window))
        return features

    def stored_layout(self, layout: Any) -> dict[str, Any]:
        """Store a window as its first position, and begins and ends of its spans."""
        return {"first": layout.first, "begins": [b for b, _ in layout.spans], "ends": [e for _, e in layout.spans]}

    def restored_layout(self, stored: Any) -> Window:
        """Restore the window."""
        return Window(stored["first"], list(zip(stored["begins"], stored["ends"], strict=True)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Starts and ends [B, L, 2], and with a classifier "no answer" [B]."""
        return ("positions", "unanswerable") if self.chosen == "answerability" else ("logits",)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head with two logits per piece, for an answer's start and end. It has no dropout, as in BERT."""
        from korealbert.finetune.task_types.heads import PieceHead, SpanHead  # noqa: PLC0415 (planning does without)

        return SpanHead(hidden_size, dropout) if self.chosen == "answerability" else PieceHead(hidden_size, 2, 0.0)

    def loss(self, logits: torch.Tensor | Spans, targets: Sequence[Any]) -> torch.Tensor:
        """Return the mean cross-entropy of start and end over positions, plus half the loss of a classifier."""
        import torch  # noqa: PLC0415 (planning does without)

        positions_BL2, unanswerable_B = logits if isinstance(logits, Spans) else (logits, None)
        cross_entropy = torch.nn.functional.cross_entropy
        start_B, end_B = torch.tensor(targets, device=positions_BL2.device).unbind(-1)
        start_BL, end_BL = positions_BL2.float().unbind(-1)
        loss = (cross_entropy(start_BL, start_B) + cross_entropy(end_BL, end_B)) / 2
        if unanswerable_B is None:
            return loss
        none_B = (start_B == 0) & (end_B == 0)
        classified = torch.nn.functional.binary_cross_entropy_with_logits(unanswerable_B.float(), none_B.float())
        return loss + _ANSWERABILITY_WEIGHT * classified

    def decode(self, logits: torch.Tensor | Spans, features: Sequence[Feature]) -> list[Any]:
        """Return the best span of each window."""
        positions_BL2, unanswerable_B = logits if isinstance(logits, Spans) else (logits, None)
        arrays = positions_BL2.float().cpu().numpy()
        found = [best_span(row, f.layout, self.max_answer_pieces) for row, f in zip(arrays, features, strict=True)]
        if unanswerable_B is None:
            return found
        nulls = unanswerable_B.float().cpu().tolist()
        return [one._replace(null=null) for one, null in zip(found, nulls, strict=True)]

    def predictions(self, encoded: Encoded, decoded: Sequence[Any]) -> list[Any]:
        """Return the text of the best span over all windows; "" if "no answer" scores higher and the benchmark allows that."""
        best: dict[int, BestSpan] = {}
        null: dict[int, float] = {}
        for feature, found in zip(encoded.features, decoded, strict=True):
            if feature.example not in best or found.score > best[feature.example].score:
                best[feature.example] = found
            null[feature.example] = min(found.null, null.get(feature.example, found.null))
        texts = []
        for index, example in enumerate(encoded.examples):
            begin, end = best[index].span
            least = 0.0 if self.chosen == "answerability" else best[index].score
            none = not self.answerable and null[index] > least
            texts.append("" if none else (example.pair or "")[begin:end])
        return texts

    def feature_evidence(self, logits: torch.Tensor | Spans, features: Sequence[Feature]) -> list[Any]:
        """Return the best spans of each window with their scores, and the window's score of "no answer"."""
        positions_BL2, unanswerable_B = logits if isinstance(logits, Spans) else (logits, None)
        arrays = positions_BL2.float().cpu().numpy()
        nulls = [float(row[0].sum()) for row in arrays] if unanswerable_B is None else unanswerable_B.float().cpu().tolist()
        pieces = self.max_answer_pieces
        spans = [best_spans(row, f.layout, pieces, number=_N_BEST) for row, f in zip(arrays, features, strict=True)]
        return list(zip(spans, nulls, strict=True))

    def example_evidence(self, encoded: Encoded, by_feature: Sequence[Any]) -> list[Any]:
        """Return the 20 best spans over all windows with their relative probabilities, and a score of "no answer".

        The score is above 0 if a model alone would predict no answer.
        """
        scores: list[dict[Span, float]] = [{} for _ in encoded.examples]
        nulls = [math.inf for _ in encoded.examples]
        for feature, (spans, null) in zip(encoded.features, by_feature, strict=True):
            own = scores[feature.example]
            for score, span in spans:
                own[span] = max(score, own.get(span, score))
            nulls[feature.example] = min(null, nulls[feature.example])
        found = []
        for own, null in zip(scores, nulls, strict=True):
            best = sorted(own.items(), key=lambda item: -item[1])[:_N_BEST]
            top = best[0][1] if best else -math.inf
            shares = [math.exp(score - top) for _, score in best]
            spans = [
                {"begin": begin, "end": end, "probability": share / sum(shares)}
                for ((begin, end), _), share in zip(best, shares, strict=True)
            ]
            none = null
            if self.chosen != "answerability":
                none = null - top if best else math.inf
            found.append({"spans": spans, "none": none})
        return found

    def joint_prediction(self, example: Example, evidence: Sequence[Any]) -> str:
        """Return the span with the largest mean probability, which is 0 for models that do not have it among their best.

        "" if the mean score of "no answer" is above 0 and the benchmark allows that.
        """
        if not self.answerable and sum(one["none"] for one in evidence) > 0:
            return ""
        totals: dict[Span, float] = {}
        for one in evidence:
            for span in one["spans"]:
                place = span["begin"], span["end"]
                totals[place] = totals.get(place, 0.0) + span["probability"]
        begin, end = max(totals, key=lambda place: totals[place], default=(0, 0))
        return (example.pair or "")[begin:end]

    def oracle(self, encoded: Encoded) -> list[Any]:
        """Return the best answers that are spans of whole pieces: a particle in the last piece cannot be cut off."""
        texts = [""] * len(encoded.examples)
        best: dict[int, tuple[float, ...]] = {}
        for feature in encoded.features:
            question = narrowed(encoded.examples[feature.example], Question)
            for answer in question.target:
                wanted = (answer.begin, answer.begin + len(answer.text))
                for begin, end in near_spans(feature.layout, wanted, self.max_answer_pieces):
                    text = (question.pair or "")[begin:end]
                    value = tuple(self.measures(question, text, "official").values())
                    if value > best.get(feature.example, ()):
                        best[feature.example], texts[feature.example] = value, text
        return texts

    def stored(self, value: Any) -> str:
        """Return a predicted text, or the first of the accepted answers ("" if there is none)."""
        if isinstance(value, str):
            return value
        return value[0].text if value else ""

    def prediction(self, record: Record, example: Example) -> str:
        """`answer`: the answer's text."""
        return record.text("answer")

    def fields(self, stored: str) -> dict[str, Any]:
        """Return the text."""
        return {"answer": stored}

    def labelled(self, example: Example, predicted: str) -> tuple[list[str], list[str]]:
        """Return ``answer`` or ``no answer`` as gold label, and ``exact``, ``overlaps``, ``wrong`` or ``no answer``."""
        if not example.target:
            return ["no answer"], ["wrong" if predicted else "no answer"]
        values = self.measures(narrowed(example, Question), predicted, "corrected")
        if values["em"]:
            return ["answer"], ["exact"]
        if values[self.metric]:
            return ["answer"], ["overlaps"]
        return ["answer"], ["wrong" if predicted else "no answer"]

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Return the scores of one answer by name, from 0 to 1: exact match of normalised answers, and F1 of their parts."""
        normalise, f1 = self.compared_by
        return em_and_f1(predicted, question.accepted, normalise=normalise, f1=f1, mode=mode)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute the mean of ``measures`` over all questions, times 100."""
        rows = self.rows(examples, predicted, mode)
        total = len(rows)
        warnings = () if any(predicted) else ("every prediction is empty",)
        return Scores({name: 100.0 * sum(row[name] for row in rows) / total for name in rows[0]}, warnings)

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Compute the main metric as a mean."""
        return Additive.mean([row[self.metric] for row in self.rows(examples, predicted, mode)])

    def rows(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> list[Mapping[str, float]]:
        """Return ``measures`` of each question; they are 0 without a prediction.

        Raises ValueError if there are no questions, or another number of predictions.
        """
        check_lengths(examples, predicted, self.metric)
        questions = [narrowed(example, Question) for example in examples]
        zeros = dict.fromkeys(self.measures(questions[0], "", mode), 0.0)
        pairs = zip(questions, predicted, strict=True)
        return [zeros if answer is None else self.measures(question, answer, mode) for question, answer in pairs]


def _covered(answer: Span | None, spans: Sequence[Span], example: Example) -> Span | None:
    """Return the part of an answer that pieces of its context cover, which is all but blanks at its ends.

    Raises ValueError if no piece covers any of it.
    """
    if answer is None:
        return None
    covered = [(begin, end) for begin, end in spans if max(begin, answer[0]) < min(end, answer[1])]
    if not covered:
        text = (example.pair or "")[answer[0] : answer[1]]
        problem = f"question {example.id}, field 'answers': the gold answer {text!r} has no character that can be seen"
        raise ValueError(f"{problem}; leave the question out, or give it the answer that it has")
    return max(answer[0], covered[0][0]), min(answer[1], covered[-1][1])


def _first_answer(example: Example) -> Span | None:
    question = narrowed(example, Question)
    if not question.target:
        return None
    text, begin = question.target[0].text, question.target[0].begin
    found = (question.pair or "")[begin : begin + len(text)] if begin >= 0 else ""
    if found != text:
        problem = f"question {example.id}, field 'answer_start': the context has {found!r} at {begin}, not {text!r}"
        raise ValueError(f"{problem}; count it in characters of the context")
    return begin, begin + len(text)


def mean_in_groups(values: Sequence[float], groups: Sequence[int]) -> float:
    """Return the mean times 100, summed group by group as in KLUE-MRC's script: the order decides the last digit."""
    order = np.argsort(np.asarray(groups), kind="stable")
    return float(np.mean(np.asarray(values, dtype=np.float64)[order]) * 100.0)
