"""Extractive question answering: KorQuAD, KLUE-MRC and SQuAD, in SQuAD's JSON or nearly so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import (
    em_and_f1,
    korquad2_f1,
    korquad_f1,
    normalise_klue,
    normalise_korquad,
    normalise_korquad2,
    normalise_squad,
    rouge_w,
    squad_f1,
)
from korealbert.finetune.records import Identifiers, json_list, parts
from korealbert.finetune.task import Example, Scores, Task
from korealbert.finetune.task_types.questions import Answer, Question, QuestionAnswering, mean_in_groups
from korealbert.finetune.tasks.klue import ORIGIN, klue_defaults


class KorQuad(QuestionAnswering):
    """KorQuAD 1.0: which span of a Korean Wikipedia paragraph answers a question? EM and F1 on 5,774 dev questions.

    Official files ``KorQuAD_v1.0_{train,dev}.json`` (60,407 / 5,774). The test set is hidden, so dev is the test set, and a
    part of train is held out as dev. All offsets are exact. A particle directly follows 61 % of the dev answers.
    """

    title = "KorQuAD1.0"
    official_test_examples = 5_774
    origin = "korquad.github.io, CC BY-ND 2.0 KR"
    version = "KorQuAD_v1.0"
    scores_missing = True
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5, length up to 512. If 64 inputs of 512 pieces do not
    # fit in memory, set micro_batch_size.
    defaults = {"epochs": 3, "batch_size": 64, "learning_rate": 5e-5, "max_length": 512}  # noqa: RUF012 - read only
    compared_by = normalise_korquad, korquad_f1


class KorQuad2(QuestionAnswering):
    """KorQuAD 2: which part of a whole Wikipedia page, in HTML, answers a question? EM and F1 on 10,165 dev questions.

    Official files of version 2.1: ``KorQuAD_2.1_{train,dev}_NN.zip`` (83,486 / 10,165 questions); extract the JSON files of
    each split into a directory, and give the directory. The test set is hidden, so dev is the test set, and a part of train is
    held out as dev. A document is a ``context`` with ``qas``. Each has one ``answer`` in HTML, from a word to a table of
    thousands of characters; an answer that does not fit in a window cannot be found, which the best reachable score shows. A
    page may have 100 KB and very many windows, so consider ``max_train_examples``. ``raw_html`` is not read.
    """

    title = "KorQuAD2"
    official_test_examples = 10_165
    origin = "korquad.github.io, version 2.1, CC BY-ND 2.0 KR"
    directories = frozenset({"train", "dev", "test"})
    version = ("KorQuAD_v2", "KorQuAD_2")
    scores_missing = True
    max_answer_pieces = 512
    # The paper's settings are unknown; these are KorQuAD 1's.
    defaults = KorQuad.defaults
    compared_by = normalise_korquad2, korquad2_f1

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all questions of a file, or of all ``.json`` files of a directory."""
        examples: list[Example] = []
        seen = Identifiers()
        for part in parts(file, "*.json"):
            self.check_version(part)
            for number, document in enumerate(json_list(part, key="data")):
                context = document.text("context")
                for question in document.records("qas"):
                    answer = question.record("answer")
                    accepted = (Answer(answer.text("text"), answer.integer("answer_start")),)
                    name = seen.once(question.text("id"), line=question.line, field=f"{question.path}id")
                    page = f"{part.path.name}/{number}"
                    examples.append(Question(name, question.text("question"), accepted, pair=context, article=page))
        return examples


class KlueMrc(QuestionAnswering):
    """KLUE-MRC: which span of a Korean text answers a question, if any? EM and ROUGE-W on 5,841 dev questions.

    Official files ``klue-mrc-v1.1_{train,dev}.json`` (17,554 / 5,841), like SQuAD 2.0 with ``guid`` and ``question_type``; the
    test set is not public. Version 1.1 corrected the offsets of answers. ``plausible_answers`` are not read.
    """

    title = "KLUE-MRC"
    official_test_examples = 5_841
    origin = ORIGIN
    has_official_dev = False
    metric = "rouge_w"
    others = ("em", *(f"{name}_type{kind}" for kind in (1, 2, 3) for name in ("em", "rouge_w")))
    id_fields = ("guid",)
    defaults = klue_defaults(epochs=5, batch_size=16, learning_rate=3e-5, max_length=510, warmup_ratio=0.0)
    answerable = False
    heads = ("own", "answerability")

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Return exact match and F1 of the longest common substring; without an accepted answer "" is right."""
        accepted = [normalise_klue(text, mode) for text in question.accepted] or [""]
        given = normalise_klue(predicted, mode)
        return {"em": float(given in accepted), "rouge_w": max(rouge_w(given, text, mode) for text in accepted)}

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``em`` and ``rouge_w`` over all questions, and by type of question."""
        rows = self.rows(examples, predicted, mode)
        kinds = [getattr(example, "kind", 1) for example in examples]
        values = {name: mean_in_groups([row[name] for row in rows], kinds) for name in ("em", "rouge_w")}
        for kind in sorted(set(kinds)):
            for name in ("em", "rouge_w"):
                part = [row[name] for row, k in zip(rows, kinds, strict=True) if k == kind]
                values[f"{name}_type{kind}"] = mean_in_groups(part, [0] * len(part))
        warnings = () if any(predicted) else ("every prediction is empty",)
        return Scores(values, warnings)


class Squad1(QuestionAnswering):
    """SQuAD 1.1: which span of an English Wikipedia paragraph answers a question? EM and F1 on 10,570 dev questions.

    Official files ``{train,dev}-v1.1.json`` (87,599 / 10,570). The test set is hidden, so dev is the test set, and a part of
    train is held out as dev.
    """

    title = "SQuAD1.1"
    official_test_examples = 10_570
    origin = "rajpurkar.github.io/SQuAD-explorer, CC BY-SA 4.0"
    version = "1.1"
    scores_missing = True
    # ALBERT, appendix: 3,649 steps of batch 48 (2 epochs), 5e-5, length 384.
    defaults = {"epochs": 2, "batch_size": 48, "learning_rate": 5e-5, "max_length": 384}  # noqa: RUF012 - read only
    compared_by = normalise_squad, squad_f1


class Squad2(QuestionAnswering):
    """SQuAD 2.0: which span answers a question, if any? EM and F1 on 11,873 dev questions, half of them unanswerable.

    Official files ``{train,dev}-v2.0.json`` (130,319 / 11,873). The test set is hidden, so dev is the test set, and a part of
    train is held out as dev. In the official script two empty answers are equal, so that both modes are the same.
    """

    title = "SQuAD2.0"
    official_test_examples = 11_873
    origin = "rajpurkar.github.io/SQuAD-explorer, CC BY-SA 4.0"
    version = "v2.0"
    others = ("em", *(f"{part}_{name}" for part in ("has_answer", "no_answer") for name in ("em", "f1")))
    # ALBERT, appendix: 8,144 steps of batch 48 (3 epochs), 3e-5, length 512.
    defaults = {"epochs": 3, "batch_size": 48, "learning_rate": 3e-5, "max_length": 512}  # noqa: RUF012 - read only
    answerable = False
    heads = ("own", "answerability")

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Return exact match of normalised answers, and F1 of their words; without an accepted answer "" is right."""
        accepted = [text for text in question.accepted if normalise_squad(text)] or [""]
        return em_and_f1(predicted, accepted, normalise=normalise_squad, f1=squad_f1, mode="corrected")

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``em`` and ``f1`` over all questions, and over those with and without an answer."""
        scores = super().score(examples, predicted, mode)
        values = dict(scores.values)
        for name, answerable in (("has_answer", True), ("no_answer", False)):
            part = [(e, p) for e, p in zip(examples, predicted, strict=True) if bool(e.target) is answerable]
            if part:
                part_examples, part_predicted = zip(*part, strict=True)
                part_scores = super().score(part_examples, part_predicted, mode).values
                values |= {f"{name}_{metric}": value for metric, value in part_scores.items()}
        return Scores(values, scores.warnings)


TASKS: dict[str, Task] = {
    "korquad": KorQuad(),
    "korquad2": KorQuad2(),
    "klue_mrc": KlueMrc(),
    "squad1": Squad1(),
    "squad2": Squad2(),
}
