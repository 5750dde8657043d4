"""The official data sets beside the project have the counted rows, labels, balance and defects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune import tasks
from korealbert.finetune.metrics.units import OUTSIDE, strict_entities
from korealbert.finetune.task import Example
from korealbert.finetune.task_types.questions import Question
from korealbert.finetune.tasks import klue_dp

pytestmark = pytest.mark.real

KLUE = "klue_dev.tar.zst::klue/klue-{0}-v1.1/klue-{0}-v1.1_dev.{1}"


def read(real_data: Path, task: str, archive: str) -> list[Example]:
    path, _, member = archive.partition("::")
    examples = tasks.load(task).read(BenchmarkFile(real_data / "benchmarks" / path, member))
    assert len({example.id for example in examples}) == len(examples)
    return examples


@pytest.mark.parametrize(
    ("task", "archive", "balance"),
    [
        ("kornli", "kornlu.tar.zst::kornlu/xnli.dev.ko.tsv", [830, 830, 830]),
        ("kornli", "kornlu.tar.zst::kornlu/xnli.test.ko.tsv", [1_670, 1_670, 1_670]),
        ("pd", "question_pair.tar.zst::question_pair/train.txt", [4_169, 1_967]),
        ("pd", "question_pair.tar.zst::question_pair/validation.txt", [432, 250]),
        ("pd", "question_pair.tar.zst::question_pair/test.txt", [508, 250]),
        ("klue_nli", KLUE.format("nli", "json"), [1_000, 1_000, 1_000]),
        ("glue_cola", "glue_small.tar.zst::CoLA/train.tsv", [2_528, 6_023]),
        ("glue_cola", "glue_small.tar.zst::CoLA/dev.tsv", [322, 721]),
        ("glue_sst2", "glue_small.tar.zst::SST-2/train.tsv", [29_780, 37_569]),
        ("glue_sst2", "glue_small.tar.zst::SST-2/dev.tsv", [428, 444]),
        # One row short of the official 3,668: pair 2750203, 2750153 is missing from this copy.
        ("glue_mrpc", "glue_small.tar.zst::MRPC/train.tsv", [1_194, 2_473]),
        ("glue_mrpc", "glue_small.tar.zst::MRPC/msr_paraphrase_train.txt", [1_323, 2_753]),
        ("glue_mrpc", "glue_small.tar.zst::MRPC/dev.tsv", [129, 279]),
        ("glue_rte", "glue_small.tar.zst::RTE/train.tsv", [1_249, 1_241]),
        ("glue_rte", "glue_small.tar.zst::RTE/dev.tsv", [146, 131]),
        ("glue_wnli", "glue_small.tar.zst::WNLI/train.tsv", [323, 312]),
        ("glue_wnli", "glue_small.tar.zst::WNLI/dev.tsv", [40, 31]),
        ("glue_qnli", "glue_small.tar.zst::QNLI/dev.tsv", [2_702, 2_761]),
    ],
)
def test_rows_and_balance_of_labelled_sets(real_data: Path, task: str, archive: str, balance: list[int]) -> None:
    examples = read(real_data, task, archive)
    counts = Counter(example.target for example in examples)
    assert [counts[label] for label in range(len(tasks.load(task).labels))] == balance  # type: ignore[attr-defined]
    assert all(example.text for example in examples)
    if sum(balance) == tasks.load(task).official_test_examples:
        majority = max(counts, key=lambda label: counts[label])
        scores = tasks.load(task).score(examples, [majority] * len(examples), "official").values
        assert scores["accuracy"] == pytest.approx(100 * max(balance) / sum(balance))


@pytest.mark.parametrize(("part", "rows"), [("train", 5_749), ("dev", 1_500)])
def test_rows_of_sts_b(real_data: Path, part: str, rows: int) -> None:
    examples = read(real_data, "glue_stsb", f"glue_small.tar.zst::STS-B/{part}.tsv")
    assert len(examples) == rows
    assert all(0 <= example.target <= 5 for example in examples)


def test_kornli_keeps_its_literal_quotes(real_data: Path) -> None:
    for part, odd in (("dev", 8), ("test", 6)):
        examples = read(real_data, "kornli", f"kornlu.tar.zst::kornlu/xnli.{part}.ko.tsv")
        assert sum(f"{example.text}{example.pair}".count('"') % 2 for example in examples) == odd
        pairs = Counter((example.text, example.pair) for example in examples)
        assert sum(count - 1 for count in pairs.values()) == 1


def test_zero_means_the_same_question(real_data: Path) -> None:
    parts = {
        part: read(real_data, "pd", f"question_pair.tar.zst::question_pair/{part}.txt")
        for part in ("train", "validation", "test")
    }
    identical = {part: [e for e in examples if e.text == e.pair] for part, examples in parts.items()}
    assert {part: len(examples) for part, examples in identical.items()} == {"train": 760, "validation": 78, "test": 108}
    same = tasks.load("pd").label("0", line=Line("", 0, ""))  # type: ignore[attr-defined]
    # All but two: lines 904 of train and 589 of test call one question different from itself.
    assert {(part, e.id) for part, rows in identical.items() for e in rows if e.target != same} == {
        ("train", "904"),
        ("test", "589"),
    }
    pairs = {part: {(e.text, e.pair) for e in examples} for part, examples in parts.items()}
    shared = [len(pairs[a] & pairs[b]) for a, b in (("test", "train"), ("train", "validation"), ("validation", "test"))]
    assert shared == [2, 1, 1]


def test_the_other_split_of_question_pairs_is_refused(real_data: Path) -> None:
    with pytest.raises(ValueError, match=r"kor_pair_train.csv, line 1, field 'header'"):
        read(real_data, "pd", "question_pair.tar.zst::question_pair/kor_pair_train.csv")


def test_cp949_is_refused_and_the_converted_file_is_cut_to_train(real_data: Path, tmp_path: Path) -> None:
    archive = "klue_nli_dacon.tar.zst::klue_nli_dacon/benchmark_train_data.csv"
    with pytest.raises(ValueError, match=r"benchmark_train_data.csv, line 2, field .*no UTF-8; .* iconv -f CP949"):
        read(real_data, "klue_nli", archive)
    path, _, member = archive.partition("::")
    content = BenchmarkFile(real_data / "benchmarks" / path, member).content()
    (tmp_path / "train.csv").write_bytes(content.decode("cp949").encode())
    examples = tasks.load("klue_nli").read(BenchmarkFile(tmp_path / "train.csv"))
    assert len(examples) == 24_998
    dev = {(e.text, e.pair) for e in read(real_data, "klue_nli", KLUE.format("nli", "json"))}
    assert not dev & {(e.text, e.pair) for e in examples}


def test_klue_sts_calls_paraphrase_what_reaches_3(real_data: Path) -> None:
    examples = read(real_data, "klue_sts", KLUE.format("sts", "json"))
    assert len(examples) == 519
    assert sum(example.target >= 3 for example in examples) == 220


def test_klue_ner_has_its_entities(real_data: Path) -> None:
    examples = read(real_data, "klue_ner", KLUE.format("ner", "tsv"))
    assert len(examples) == 5_000
    assert max(len(example.text) for example in examples) == 145
    kinds = Counter(kind for example in examples for kind, _, _ in strict_entities(example.target))
    assert kinds == {"PS": 4_418, "QT": 3_151, "DT": 2_312, "OG": 2_182, "LC": 1_649, "TI": 545}
    orphans = sum(
        tag.startswith("I-") and before[2:] != tag[2:]
        for example in examples
        for before, tag in zip((OUTSIDE, *example.target), example.target, strict=False)
    )
    assert orphans == 0
    on_a_space = [t for e in examples for c, t in zip(e.text, e.target, strict=True) if c == " " and t.startswith("B-")]
    assert len(on_a_space) == 2
    task = tasks.load("klue_ner")
    gold = [list(example.target) for example in examples]
    for mode in ("official", "corrected"):
        assert set(task.score(examples, gold, mode).values.values()) == {100.0}
    nothing = task.score(examples, [[OUTSIDE] * len(tags) for tags in gold], "official").values
    assert nothing["char_f1_no_O"] == nothing["entity_macro_f1"] == 0
    assert nothing["char_f1_all13"] == pytest.approx(6.8, abs=0.05)


def test_klue_dp_has_one_root_and_heads_to_the_right(real_data: Path) -> None:
    examples = read(real_data, "klue_dp", KLUE.format("dp", "tsv"))
    assert len(examples) == 2_000
    trees = [example.target for example in examples]
    assert sum(len(tree.heads) for tree in trees) == 22_496
    assert all(tree.heads.count(0) == 1 for tree in trees)
    assert all(head == 0 or head > word for tree in trees for word, head in enumerate(tree.heads, start=1))
    assert len({relation for tree in trees for relation in tree.relations}) == 32
    assert len(klue_dp.RELATIONS) == 38
    task = tasks.load("klue_dp")
    assert set(task.score(examples, trees, "official").values.values()) == {100.0}
    heads = (trees[0].heads[0] + 1, *trees[0].heads[1:])
    wrong = [klue_dp.Tree(heads, trees[0].relations), *trees[1:]]
    assert task.score(examples, wrong, "official").values["las_macro"] == pytest.approx(100 * 16 / 17, abs=0.05)
    assert task.score(examples, wrong, "corrected").values["las_macro"] > 99.9


def test_naver_ner_has_its_tags_and_orphans(real_data: Path) -> None:
    examples = read(real_data, "naver_ner", "naver_ner.tar.zst::naver_ner/test.tsv")
    assert len(examples) == 9_000
    assert all(" ".join(e.units) == e.text for e in examples)  # type: ignore[attr-defined]
    kinds = Counter(tag[2:] for example in examples for tag in example.target if tag != OUTSIDE)
    assert (len(kinds), kinds["NUM"], kinds["EVT"]) == (14, 6_562, 1_738)
    orphans = sum(
        tag.startswith("I-") and before[2:] != tag[2:]
        for example in examples
        for before, tag in zip((OUTSIDE, *example.target), example.target, strict=False)
    )
    assert orphans == 86


def test_korquad_dev_has_exact_offsets_and_particles_behind_its_answers(real_data: Path) -> None:
    examples = read(real_data, "korquad", "korquad_v1.0_dev.tar.zst::korquad/KorQuAD_v1.0_dev.json")
    assert len(examples) == 5_774
    questions = [example for example in examples if isinstance(example, Question)]
    particles = long = 0
    for question in questions:
        assert question.pair is not None
        (answer,) = question.target
        end = answer.begin + len(answer.text)
        assert question.pair[answer.begin : end] == answer.text
        particles += "가" <= question.pair[end : end + 1] <= "힣"
        long += len(answer.text) > 30
    assert (particles, long) == (3_522, 3)
    assert max(len(question.pair or "") for question in questions) == 2_946
    scores = tasks.load("korquad").score(examples, [q.target[0].text for q in questions], "official").values
    assert scores == {"em": 100.0, "f1": 100.0}


def test_relations_stand_in_the_official_order(real_data: Path) -> None:
    import json

    from korealbert.finetune.tasks.klue_re import RELATIONS

    file = BenchmarkFile(real_data / "benchmarks" / "klue_dev.tar.zst", "klue/klue-re-v1.1/relation_list.json")
    assert tuple(json.loads(file.content())["relations"]) == RELATIONS
