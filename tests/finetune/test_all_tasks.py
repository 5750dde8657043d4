"""Every kind of task runs from its official file through the stage to scores in both modes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from korealbert.artifact import Artifact, Runtime
from korealbert.finetune import stage, tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import EncoderOutput, Feature
from korealbert.finetune.task_types.heads import BiaffineParser, Bilinear, Words
from korealbert.finetune.tasks.klue_dp import KlueDp

PEOPLE = ("배우", "친구와")
THINGS = ("영화", "연기", "장면", "음악")
FILLERS = ("이", "정말", "어제")
Random = np.random.Generator


def draw(random: Random) -> tuple[str, str, str, str]:
    """A person, a thing, a filler, praise: words of the toy vocabulary."""
    return tuple(str(random.choice(words)) for words in (PEOPLE, THINGS, FILLERS, ("감동", "추천")))  # type: ignore[return-value]


def naver_ner(random: Random) -> str:
    person, thing, filler, verb = draw(random)
    return f"{filler} {person} {thing} {verb}\tO PER-B AFW-B O\n"


def klue_ner(random: Random) -> str:
    person, thing, filler, verb = draw(random)
    text, entities = f"{filler} {person} {thing} {verb}", {person: "PS", thing: "OG"}
    tags = ["O"] * len(text)
    for word, kind in entities.items():
        begin = text.index(word)
        tags[begin : begin + len(word)] = [f"B-{kind}", *[f"I-{kind}"] * (len(word) - 1)]
    return "## guid\t문장\n" + "".join(f"{c}\t{tag}\n" for c, tag in zip(text, tags, strict=True)) + "\n"


def klue_dp(random: Random) -> str:
    person, thing, filler, verb = draw(random)
    rows = [
        (filler, "NNG", 3, "NP_MOD"),
        (person, "NNP+JKS", 4, "NP_SBJ"),
        (thing, "NNG+JKO", 4, "NP_OBJ"),
        (verb, "VV", 0, "VP"),
    ]
    lines = (f"{n}\t{word}\t{word}\t{pos}\t{head}\t{label}\n" for n, (word, pos, head, label) in enumerate(rows, start=1))
    return "## guid\t문장\n" + "".join(lines) + "\n"


def klue_re(random: Random, number: int) -> dict[str, Any]:
    person, thing, filler, verb = draw(random)
    sentence = f"{filler} {person} {thing} {verb}"
    label = "per:title" if verb == "감동" else "no_relation"

    def entity(word: str) -> dict[str, Any]:
        return {"word": word, "start_idx": sentence.index(word), "end_idx": sentence.index(word) + len(word) - 1, "type": "PER"}

    return {
        "guid": str(number),
        "sentence": sentence,
        "subject_entity": entity(person),
        "object_entity": entity(thing),
        "label": label,
    }


def question(random: Random, number: int, identifier: str) -> dict[str, Any]:
    person, thing, filler, verb = draw(random)
    context = f"{filler} {person} {thing} {verb}"
    answer = {"text": thing, "answer_start": context.index(thing)}
    qas = [{identifier: str(number), "question": "최고의", "question_type": 1, "answers": [answer]}]
    return {"title": str(number), "paragraphs": [{"context": context, "qas": qas}]}


def page(random: Random, number: int) -> dict[str, Any]:
    """A document of KorQuAD 2: no paragraphs, one answer."""
    article = question(random, number, "id")
    (paragraph,) = article.pop("paragraphs")
    (asked,) = paragraph["qas"]
    asked["answer"] = asked.pop("answers")[0]
    return {**article, "context": paragraph["context"], "qas": [asked]}


def unanswerable(random: Random, number: int) -> dict[str, Any]:
    article = question(random, number, "id")
    if number % 2:
        article["paragraphs"][0]["qas"][0] |= {"question": "실망", "answers": [], "is_impossible": True}
    return article


def race(random: Random, number: int) -> dict[str, Any]:
    thing = str(random.choice(THINGS))
    answer = "ABCD"[THINGS.index(thing)]
    level = ("middle", "high")[number % 2]
    return {
        "article": thing,
        "questions": ["정말"],
        "options": [list(THINGS)],
        "answers": [answer],
        "id": f"{level}{number}.txt",
    }


def klue_dst(random: Random, number: int) -> dict[str, Any]:
    """A dialogue with two turns of a user; the second state extends the first."""
    person, thing, filler, verb = draw(random)
    first, second = [f"영화-제목-{thing}"], [f"영화-제목-{thing}", f"배우-이름-{person}"]
    turns = [("user", f"{filler} {thing}", first), ("sys", verb, None), ("user", person, second)]
    dialogue = [{"role": role, "text": text, **({"state": state} if state else {})} for role, text, state in turns]
    return {"guid": f"wos-{number}", "domains": ["영화"], "dialogue": dialogue}


def lines(make: Callable[[Random], str]) -> Callable[[Random, int], str]:
    return lambda random, rows: "".join(make(random).replace("## guid", f"## guid-{n}") for n in range(rows))


def dump(make: Callable[[Random, int], Any], wrap: Callable[[list[Any]], Any] = list) -> Callable[[Random, int], str]:
    return lambda random, rows: json.dumps(wrap([make(random, n) for n in range(rows)]), ensure_ascii=False)


def squad(make: Callable[[Random, int], Any], version: str) -> Callable[[Random, int], str]:
    return dump(make, lambda data: {"version": version, "data": data})


def copa(random: Random, number: int) -> str:
    """The alternative that names what the premise names."""
    thing, other = random.choice(THINGS, 2, replace=False)
    right = int(random.integers(2))
    asked, alternatives = ("원인", "결과")[number % 2], (thing, other)[:: -1 if right else 1]
    return "\t".join([str(number), f"정말 {thing}", asked, *alternatives, str(1 + right)]) + "\n"


def pairs(columns: str, labels: Sequence[str]) -> Callable[[Random, int], str]:
    """Lines of two texts and a label by turns."""

    def make(random: Random, rows: int) -> str:
        texts = ("\t".join(" ".join(draw(random)) for _ in range(2)) for _ in range(rows))
        return f"{columns}\n" + "".join(f"{two}\t{labels[n % len(labels)]}\n" for n, two in enumerate(texts))

    return make


FILES: dict[str, Callable[[Random, int], str]] = {
    "kornli": pairs("sentence1\tsentence2\tgold_label", ("entailment", "contradiction", "neutral")),
    "pd": pairs("question1\tquestion2\tis_duplicate", ("0", "1")),
    "naver_ner": lines(naver_ner),
    "klue_ner": lines(klue_ner),
    "klue_dp": lines(klue_dp),
    "klue_re": dump(klue_re),
    "klue_dst": dump(klue_dst),
    "korquad": squad(lambda random, n: question(random, n, "id"), "KorQuAD_v1.0_train"),
    "korquad2": squad(page, "KorQuAD_v2.0_train"),
    "klue_mrc": squad(lambda random, n: question(random, n, "guid"), "1.1"),
    "squad2": squad(unanswerable, "v2.0"),
    "kobest_copa": lambda random, rows: (
        "ID\tsentence\tquestion\t1\t2\tAnswer\n" + "".join(copa(random, n) for n in range(rows))
    ),
    "race": lambda random, rows: "".join(json.dumps(race(random, n), ensure_ascii=False) + "\n" for n in range(rows)),
}
REACHED = {"klue_dst": 90, "naver_ner": 99, "klue_ner": 99, "korquad": 90, "korquad2": 90, "klue_mrc": 90}
"""Scores that the toy encoder reaches in so few steps; chance is far below."""

EXAMPLES = {"klue_dst": 2}
"""Examples per record of a file, if more than one."""

BUDGETS: dict[str, dict[str, float]] = {
    "kornli": {"epochs": 1},
    "pd": {"epochs": 1},
    "klue_dp": {"epochs": 1, "max_train_examples": 32},
    "klue_dst": {"learning_rate": 5e-3},
}
"""Labels of pairs cannot be learnt, KLUE-DP's LSTMs always have 768 units, slots need larger steps to learn attention."""


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., FinetuneSpec]:
    """A spec on toy files of a task."""

    def make(task: str, **more: Any) -> FinetuneSpec:
        paths = {}
        for seed, (part, rows) in enumerate({"train": 160, "dev": 24, "test": 24}.items()):
            paths[part] = tmp_path / f"{task}-{part}"
            paths[part].write_text(FILES[task](np.random.default_rng(seed), rows), "utf-8")
        budget = {"epochs": 6, "batch_size": 8, "learning_rate": 2e-3, "max_length": 16, "dropout": 0.0}
        return FinetuneSpec.model_validate({"task": task, **paths, **budget, **more})

    return make


@pytest.mark.parametrize("task", FILES)
def test_a_task_runs_to_scores_in_both_modes_and_keeps_all_predictions(
    task: str, spec: Callable[..., FinetuneSpec], model: Artifact, runtime: Runtime, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stage.run(spec(task, **BUDGETS.get(task, {})), {"model": model}, out, runtime)
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    name = tasks.load(task).metric
    assert metrics["test"].keys() == metrics["test_corrected"].keys()
    assert metrics["test"].keys() <= set(tasks.load(task).metrics)
    assert metrics["test"][name] >= REACHED.get(task, 0)
    if metrics["test_oracle"] is not None:
        assert metrics["test_oracle"][name] == 100
    with pa.memory_map(str(out / "predictions.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.num_rows == 24 * EXAMPLES.get(task, 1)
    assert table.schema.field("pred").type == tasks.load(task).prediction_type


def test_dev_is_held_out_by_article(spec: Callable[..., FinetuneSpec], tmp_path: Path) -> None:
    task = tasks.load("korquad")
    made = spec("korquad")
    document = json.loads(made.train.path.read_text("utf-8"))
    for article in document["data"]:
        (qas,) = (paragraph["qas"] for paragraph in article["paragraphs"])
        qas.append({**qas[0], "id": f"{qas[0]['id']}-again"})
    (tmp_path / "twice").write_text(json.dumps(document, ensure_ascii=False), "utf-8")
    made = FinetuneSpec.model_validate({"task": "korquad", "train": tmp_path / "twice", "test": made.test.path})
    examples = read_examples(task, made)
    articles = [{task.document(example) for example in examples[part]} for part in ("train", "dev")]
    assert not articles[0] & articles[1]
    assert [len(articles[0]), len(articles[1])] == [152, 8]
    assert [len(examples["train"]), len(examples["dev"])] == [304, 16]


@pytest.mark.parametrize(
    ("articles", "more", "problem"),
    [
        (1, {"test": "test"}, r"documents \(1\) would all be held out as dev, .*; name a file as dev"),
        (2, {"test_share": 0.9}, r"documents \(2\) would all be held out as test, .*; lower test_share"),
    ],
)
def test_documents_that_leave_none_to_train_on_are_counted(
    spec: Callable[..., FinetuneSpec], tmp_path: Path, articles: int, more: dict[str, Any], problem: str
) -> None:
    document = json.loads(spec("korquad").train.path.read_text("utf-8"))
    (kept, *_) = document["data"]
    (qas,) = (paragraph["qas"] for paragraph in kept["paragraphs"])
    kept["paragraphs"][0]["qas"] = [qas[0], {**qas[0], "id": "again"}]
    document["data"] = [kept, *document["data"][1:articles]]
    (tmp_path / "few").write_text(json.dumps(document, ensure_ascii=False), "utf-8")
    made = FinetuneSpec.model_validate({"task": "korquad", "train": tmp_path / "few", **more})
    with pytest.raises(ValueError, match=f"few: its {problem}"):
        read_examples(tasks.load("korquad"), made, splits=("train", "dev"))


def test_a_share_of_the_only_file_is_tested_on_by_article(spec: Callable[..., FinetuneSpec]) -> None:
    task, made = tasks.load("korquad"), spec("korquad")
    settings = {"task": "korquad", "train": made.train.path, "test_share": 0.25}
    examples = read_examples(task, FinetuneSpec.model_validate(settings))
    articles = {part: {task.document(example) for example in examples[part]} for part in ("train", "dev", "test")}
    assert not any(articles[a] & articles[b] for a, b in itertools.combinations(articles, 2))
    assert {part: len(found) for part, found in articles.items()} == {"train": 114, "dev": 6, "test": 40}
    again = read_examples(task, FinetuneSpec.model_validate({**settings, "seed": 5}), splits=("test",))
    assert again == {"test": examples["test"]}


def features(*layouts: Words) -> list[Feature]:
    return [
        Feature([2, 5, 6, 7, 3], [0] * 5, (words.heads, [0] * len(words.heads)), n, words) for n, words in enumerate(layouts)
    ]


def test_a_parse_does_not_depend_on_the_other_sentences_of_its_batch() -> None:
    torch.manual_seed(0)
    parser = BiaffineParser(8, relations=4, parts_of_speech=3).eval()
    short, long = Words([1], [1], [0], [0]), Words([1, 2, 3], [1, 2, 4], [0, 1, 2], [2, 3, 0])
    hidden = torch.randn(2, 5, 8)
    together = parser(EncoderOutput(hidden, hidden[:, 0], features(short, long)))
    alone = parser(EncoderOutput(hidden[:1], hidden[:1, 0], features(short)))
    torch.testing.assert_close(together.arcs_BWP[:1, :1, :2], alone.arcs_BWP)
    torch.testing.assert_close(together.relations_BWR[:1, :1], alone.relations_BWR)
    assert torch.isinf(together.arcs_BWP[0, 0, 2:]).all()
    (short_tree, long_tree) = KlueDp().decode(together, features(short, long))
    assert [len(tree.heads) for tree in (short_tree, long_tree)] == [1, 3]
    assert all(0 <= head <= 3 for head in long_tree.heads) and short_tree.heads[0] in (0, 1)
    loss = KlueDp().loss(together, [([0], [1]), ([2, 3, 0], [0, 1, 2])])
    assert torch.isfinite(loss)


def test_only_a_parser_with_parts_of_speech_uses_them() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(1, 5, 8)
    for known, differs in ((3, True), (None, False)):
        parser = BiaffineParser(8, relations=4, parts_of_speech=known).eval()
        scores = [
            parser(EncoderOutput(hidden, hidden[:, 0], features(Words([1, 2], [1, 2], pos, [2, 0])))).arcs_BWP
            for pos in ([0, 1], [1, 0])
        ]
        assert torch.equal(*scores) is not differs


def test_the_bilinear_scores_are_those_of_torch() -> None:
    scorer, left, right = Bilinear(5, 7, 3), torch.randn(2, 4, 5, requires_grad=True), torch.randn(2, 4, 7, requires_grad=True)
    of = (left, right, scorer.weight, scorer.bias)
    ours, theirs = scorer(left, right), torch.nn.functional.bilinear(*of)
    torch.testing.assert_close(ours, theirs)
    up = torch.randn_like(ours)
    torch.testing.assert_close(torch.autograd.grad(ours, of, up), torch.autograd.grad(theirs, of, up))
