"""Mistakes in TOML files of benchmarks are all reported at once, each with file, field and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from korealbert.finetune import tasks
from korealbert.finetune.spec import FinetuneSpec
from tests.finetune.toml_benchmarks import REVIEWS, Bench, kind

WRONG: list[tuple[str, Callable[[str], str], list[str]]] = [
    ("name", lambda t: t.replace('name = "mine"\n', ""), ["mine.toml, field 'name' is missing"]),
    ("kind", lambda t: t.replace('"classification"', '"clasification"'), ["field 'kind'", "did you mean 'classification'?"]),
    ("taken", lambda t: t.replace('name = "mine"', 'name = "nsmc"'), ["field 'name': 'nsmc' is a benchmark of korealbert"]),
    ("unknown", lambda t: f"lables = ['a']\n{t}", ["unknown field 'lables' (did you mean 'labels'?)"]),
    ("column", lambda t: t.replace('text = "review"\n', ""), ["field 'columns.text' is missing; kind classification needs"]),
    ("unused", lambda t: t.replace('text = "review"', 'text = "review"\ntags = "x"'), ["field 'columns.tags'", "remove it"]),
    ("metric", lambda t: t.replace("macro_f1", "makro_f1"), ["field 'metric'", "did you mean 'macro_f1'?"]),
    ("spelling", lambda t: t.replace('["0", "1"]', '["0"]'), ["field 'spellings': 1 for 2 labels; give one for each"]),
    ("mixed", lambda t: t.replace('label = "stars"', "label = 2"), ["field 'columns': names and positions"]),
    ("type", lambda t: t.replace('["bad", "good"]', '"bad"'), ["field 'labels'", 'write labels = ["bad"]']),
    ("format", lambda t: t.replace('"tsv"', '"conll"'), ["field 'format': kind classification has no 'conll'"]),
    (
        "ambiguous",
        lambda t: t.replace('["bad", "good"]', '["1", "2"]'),
        ["field 'spellings': '1' is the name of another label too; rename the labels"],
    ),
    (
        "exchanged",
        lambda t: t.replace('["bad", "good"]', '["1", "0"]'),
        ["field 'spellings': '1', '0' is the name of another label too"],
    ),
    ("toml", lambda t: t.replace("[columns]", "[columns"), ["not valid TOML"]),
    ("range", lambda t: f"{t}[defaults]\nepochs = 0\n", ["field 'defaults.epochs'", "greater than or equal to 1"]),
    ("score", lambda t: f"{t}[[published]]\nmodel='m'\nvalue='high'\nsource='s'\n", ["field 'published.0.value'", "'high'"]),
    (
        "other",
        lambda t: f"{t}[[published]]\nmodel='m'\nmetric='em'\nvalue=1\nsource='s'\n",
        ["field 'published.0.metric': 'em'"],
    ),
    ("file", lambda t: f"{t}[files]\ntest = {{url = 'https://a.org/t.tsv'}}\n", ["field 'files.test.sha256' is missing"]),
]


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_mistake_is_named_with_file_field_and_remedy(bench: Bench, change: Callable[[str], str], message: list[str]) -> None:
    lines = bench.wrong(change(REVIEWS))
    assert all(line.startswith(str(bench.directory / "mine.toml")) for line in lines)
    assert all(part in "\n".join(lines) for part in message), lines


def test_all_mistakes_are_reported_at_once(bench: Bench) -> None:
    changed = REVIEWS.replace('label = "stars"\n', "").replace('"macro_f1"', '"em"').replace('["0", "1"]', '["0"]')
    assert len(bench.wrong(changed)) == 3


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (
            {'"classification"': '"classify"', "label =": "lable =", '"macro_f1"': '"macrof1"'},
            ["kind", "columns.lable", "metric"],
        ),
        ({'"mine"': '"nsmc"', '"macro_f1"': '"macrof1"'}, ["metric", "name"]),
        ({'title = "Mine"': "", '["0", "1"]': '["0"]'}, ["title", "spellings"]),
        ({'["bad", "good"]': "7", '"macro_f1"': '"f1"', 'text = "review"': ""}, ["labels", "columns.text"]),
        ({'["bad", "good"]': "[7, 8]", '["0", "1"]': '["0"]'}, ["labels.0", "labels.1", "spellings"]),
        ({'"tsv"': '"TSV"', '"macro_f1"': '"em"'}, ["format", "metric"]),
        ({'"tsv"': '"conll"', 'text = "review"': 'tags = "review"'}, ["format", "columns.text", "columns.tags"]),
        (
            {"[columns]": "[[published]]\nmodel = 'm'\nmetric = 'em'\nvalue = 'high'\nsource = 's'\n[columns]"},
            ["published.0.value", "published.0.metric"],
        ),
        (
            {'"macro_f1"': '"f2"', "[columns]": "[[published]]\nmodel='m'\nmetric='em'\nvalue=1\nsource='s'\n[columns]"},
            ["metric", "published.0.metric"],
        ),
        (
            {'"tsv"': '"xml"', "[columns]": "[files]\ntest = {url = 'https://a.org/t', private_hosts = [1]}\n[columns]"},
            ["format", "files.test.sha256", "files.test.private_hosts.0"],
        ),
        ({"[columns]": "[files]\ntrain_member = 'a'\ndev_member = 'b'\n[columns]", '"macro_f1"': '"em"'}, ["files", "metric"]),
    ],
)
def test_mistakes_of_each_kind_are_reported_together(bench: Bench, changes: dict[str, str], fields: list[str]) -> None:
    text = REVIEWS
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    message = [re.search(r"mine\.toml.*?'([^']*)'", line) for line in bench.wrong(text)]
    assert [found and found[1] for found in message] == fields


def test_types_of_entities_that_make_a_tag_ambiguous_are_refused(bench: Bench) -> None:
    columns = 'text = "t"\ntags = "g"'
    (line,) = bench.wrong(kind("tagging", "jsonl", columns, 'labels = ["B", "I"]'))
    assert "field 'labels': with types B and I the tag B-I is ambiguous" in line
    assert bench.task(kind("tagging", "jsonl", columns, 'labels = ["B", "PER"]'))


def test_a_kind_that_is_a_list_is_reported(bench: Bench) -> None:
    message = bench.wrong(REVIEWS.replace('kind = "classification"', 'kinds = ["classification"]'))
    assert any("'kinds'" in line for line in message)


@pytest.mark.parametrize("field", ["task", "train"])
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("~nobody-here/x.toml", "~nobody-here is no home directory of this machine; write the whole path"),
        (f"{'가' * 100}.toml", "가.toml: File name too long; name a shorter one"),
    ],
)
def test_a_path_that_cannot_exist_is_named(field: str, path: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(problem)):
        FinetuneSpec.model_validate({"task": "nsmc", "train": "a", "test": "b", field: path})


def test_a_benchmark_whose_file_has_too_long_a_name_is_named() -> None:
    with pytest.raises(ValueError, match=r"가\.toml: File name too long; name a shorter one"):
        tasks.find(f"{'가' * 100}.toml")
