"""Titles of the tables in a report's outcome."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from korealbert.formatting import MISSING
from korealbert.report.render.blocks import Table, Text, without_empty_columns
from korealbert.report.scores import Benchmark, Cell
from korealbert.report.sections.outcome import (
    _about_random,
    _left_in_the_corpus,
    _random_weights,
    _scores_table,
    _settings_table,
)


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        ({}, "official ones"),
        ({"test_corrected": [0.7]}, "official ones and corrected ones"),
        ({"test_corrected": [0.7], "test_oracle": [0.9]}, "official ones, corrected ones, and the best reachable"),
    ],
)
def test_the_title_of_the_scores_names_the_columns_that_are_shown(further: Mapping[str, list[float]], expected: str) -> None:
    benchmark: Any = SimpleNamespace(
        title="NSMC",
        metrics=["accuracy"],
        metric="accuracy",
        systems=["pretrained"],
        lead="pretrained",
        values=lambda *_, kind="test": further.get(kind, [0.8] if kind == "test" else []),
        undefined=lambda *_: {},
        shown=lambda *_, kind="test": "80.00" if kind == "test" or kind in further else MISSING,
    )
    assert _scores_table([benchmark]).title == f"Test scores over seeds, times 100: {expected}"


def cell(system: str, rate: float, *, searched: bool) -> Cell:
    artifact: Any = SimpleNamespace(
        manifest={"spec": {"learning_rate": 5e-5, "max_length": 64}, "inputs": {"settings": "s-1"} if searched else {}}
    )
    settings = {"learning_rate": rate, "embedding_lr_factor": 0.1 if searched else 1.0}
    sizes = {"examples_train": 900, "examples_dev": 50, "examples_test": 1000}
    return Cell(artifact, {"title": "NSMC", "task": "nsmc", "init": system, "seed": 1, "settings": settings, **sizes}, system)


def test_searched_settings_are_shown_as_selected_for_each_weights() -> None:
    alike = Benchmark("nsmc", [cell("pretrained", 1e-3, searched=False), cell("random", 1e-3, searched=False)], {})
    apart = Benchmark("nsmc", [cell("pretrained", 1e-3, searched=True), cell("random", 2e-3, searched=True)], {})
    table = _settings_table([alike, apart])
    assert table.header[5:8] == ["Batch size", "Learning rate", "Embedding lr factor"]
    assert [(row[0], row[6], row[7], row[10]) for row in table.rows] == [
        ("NSMC", "0.001", "1", "64"),
        ("NSMC, pretrained", "0.001", "0.1", "64"),
        ("NSMC, random", "0.002", "0.1", "64"),
    ]
    assert _random_weights(alike) == "random weights fine-tuned the same way"
    assert _random_weights(apart) == "random weights fine-tuned with their own best settings on dev"
    for benchmarks, is_said in (([alike], False), ([alike, apart], True), ([], False)):
        assert any("a search chose them" in block.text for block in _about_random(benchmarks)) == is_said  # type: ignore[attr-defined]


def test_settings_in_steps_take_the_place_of_others_and_settings_that_no_run_set_are_left_out() -> None:
    def shown(**changes: Any) -> dict[str, list[str]]:
        plain = {"epochs": 3, "warmup_ratio": 0.1, "encoder_dropout": None, "whiten": False}
        artifacts: list[Any] = [SimpleNamespace(manifest={"spec": spec, "inputs": {}}) for spec in (plain, plain | changes)]
        metrics = {"title": "NSMC", "task": "nsmc", "init": "pretrained", "seed": 1}
        benchmarks = [Benchmark("nsmc", [Cell(artifact, metrics, "pretrained")], {}) for artifact in artifacts]
        table = without_empty_columns(_settings_table(benchmarks))
        assert isinstance(table, Table)
        return {title: [row[place] for row in table.rows] for place, title in enumerate(table.header) if place}

    assert shown(steps=1200, warmup_steps=0) == {"Epochs": ["3", "1,200 steps"], "Warmup ratio": ["0.1", "0 steps"]}
    others = {"Epochs": ["3", "3"], "Warmup ratio": ["0.1", "0.1"]}
    assert shown() == others
    assert shown(encoder_dropout=0.0, whiten=True) == {**others, "Encoder dropout": ["–", "0"], "Whiten": ["–", "yes"]}


def test_benchmarks_that_the_corpus_may_contain_are_named() -> None:
    def artifact(**spec: Any) -> Any:
        return SimpleNamespace(manifest={"recipe": {"spec": spec}})

    def benchmark(title: str, **files: Any) -> Any:
        return SimpleNamespace(title=title, cells=[SimpleNamespace(artifact=artifact(**files))])

    def file(name: str, sha256: str) -> dict[str, str]:
        return {"name": name, "sha256": sha256}

    removed = [{"path": file("nsmc.txt", "a"), "member": ""}, {"path": file("klue.tar", "b"), "member": "ner.tsv"}]
    artifacts: Any = SimpleNamespace(one={"dedup": artifact(decontaminate=removed)}.get)
    nsmc = benchmark("NSMC", train=file("train.txt", "c"), test=file("copied.txt", "a"))
    entities = benchmark("KLUE-NER", train=file("klue.tar", "b"), train_member="ner.tsv", test_share=0.2, test=None)
    relations = benchmark("KLUE-RE", train=file("klue.tar", "b"), train_member="re.json", test_share=0.2, test=None)
    fetched = benchmark("KorSTS", train=file("t.tsv", "c"), test={"url": "https://example.org/t.tsv", "sha256": "d"})
    (said,) = _left_in_the_corpus(artifacts, [nsmc, entities, relations, fetched])
    assert isinstance(said, Text)
    assert said.text == "Not removed from the corpus, which may contain them: the test texts of KLUE-RE, KorSTS."
    assert not [*_left_in_the_corpus(artifacts, [nsmc, entities])]
    without_corpus: Any = SimpleNamespace(one={}.get)
    assert not [*_left_in_the_corpus(without_corpus, [relations])], "encoders of others"
