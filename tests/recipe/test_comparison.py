"""`korealbert diff` compares the settings, corpora, scores and curves of two sides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc
from typer.testing import CliRunner

from korealbert.artifact import Artifact, Inputs, Runtime, Stage, Store, build
from korealbert.finetune.scores import summary
from korealbert.finetune.spec import FinetuneSpec
from korealbert.flows.cli import app
from korealbert.recipe.comparison.chapters import compare, introduction
from korealbert.recipe.comparison.sides import of_artifact, of_recipe
from korealbert.recipe.planning import changed_fields
from korealbert.report.render.blocks import Figures, Section, Table, Text
from tests.report.conftest import made, write_documents, write_metrics

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"


def table(sections: Sequence[Section], title: str) -> list[Sequence[str]]:
    (found,) = (block for section in sections for block in section.blocks if isinstance(block, Table) and block.title == title)
    return list(found.rows)


def test_recipes_differ_in_the_fields_that_were_changed_and_the_rest_follows(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    one = of_recipe(TINY, store)
    other = of_recipe(TINY, store, overrides={"vocab.size": 400, "pretrain.steps": 7})
    (section,) = compare(one, other)
    rows = {(row[0], row[1]): tuple(row[2:]) for row in table([section], "Fields that differ")}
    assert set(rows) == {("vocab", "size"), ("pretrain", "steps")}
    assert rows["vocab", "size"][1] == "400" and rows["pretrain", "steps"][1] == "7"
    follows = str(section.blocks[1])
    assert "examples, views, export" in follows and "vocab" not in follows
    assert not compare(one, one) and f"{len(one.stages)} of {len(one.stages)} common" in introduction(one, one)


def test_values_are_written_as_in_a_recipe() -> None:
    old = {"bf16": True, "limit": None, "noise": None, "title": "", "words": 3}
    new = {"bf16": False, "limit": 2, "noise": {"portion": 0.5}, "title": "a"}
    fields = [
        ("bf16", "true", "false"),
        ("limit", "unset", 2),
        ("noise.portion", "unset", 0.5),
        ("title", '""', "a"),
        ("words", 3, "unset"),
    ]
    assert changed_fields(old, old, new, new) == fields
    assert changed_fields(new, new, old, old) == [(name, after, before) for name, before, after in fields]


def test_fields_called_name_are_reported_by_their_values(tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text('{"text": "글"}\n', "utf-8")
    (tmp_path / "gold.jsonl").write_text('{"text": "글"}\n', "utf-8")
    sides = []
    for number, name in ((1, "lamb"), (2, "adamw")):
        decontaminate = f'[[dedup.decontaminate]]\nname = "{name}"\nformat = "jsonl"\npath = "gold.jsonl"\ncolumns = ["text"]\n'
        tables = f'[extract.x]\nformat = "jsonl"\npaths = ["text.jsonl"]\n{decontaminate}'
        (tmp_path / f"{number}.toml").write_text(
            f'{tables}[pretrain]\nsteps = 9\n[pretrain.optimizer]\nname = "{name}"\nlr = 1e-3\n', "utf-8"
        )
        sides.append(of_recipe(tmp_path / f"{number}.toml", Store(tmp_path / "store")))
    rows = {(row[0], row[1]): tuple(row[2:]) for row in table(compare(*sides), "Fields that differ")}
    assert rows["pretrain", "optimizer.name"] == ("lamb", "adamw")
    assert rows["dedup", "decontaminate.0.name"] == ("lamb", "adamw")
    assert not any(field in ("optimizer", "decontaminate.0") for _, field in rows)


def test_a_file_of_the_same_name_and_other_content_is_reported_as_that(tmp_path: Path) -> None:
    sides = []
    for number in (1, 2):
        root = tmp_path / str(number)
        (root / "data").mkdir(parents=True)
        (root / "data" / "text.jsonl").write_text(f'{{"text": "{number}"}}\n', "utf-8")
        (root / "r.toml").write_text('name = "r"\n[extract.a]\nformat = "jsonl"\npaths = ["data/text.jsonl"]\n', "utf-8")
        sides.append(of_recipe(root / "r.toml", Store(tmp_path / "store")))
    rows = table(compare(*sides), "Fields that differ")
    assert [row[:2] for row in rows] == [["extract/a", "paths.0"]]


def test_two_projects_are_distinguished_and_what_is_not_built_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text.jsonl").write_text(f'{{"text": "{name}"}}\n', "utf-8")
        (tmp_path / name / "recipe.toml").write_text('[extract.x]\nformat = "jsonl"\npaths = ["text.jsonl"]\n', "utf-8")
    done = CliRunner().invoke(app, ["diff", "a/recipe.toml", "b", "--store", "store"])
    assert done.exit_code == 0, done.output
    for name in ("a", "b"):
        assert f"No stage of {name} is built in {tmp_path / 'store'}, so only settings are compared" in done.output


def run_with(store: Path, kept: int, speed: float) -> Artifact:
    """Build a corpus of ``kept`` documents and a training on it whose held-out loss is ``speed`` times the usual one."""

    def write(out: Path) -> None:
        write_metrics(out)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        changed = [line | {"mlm_loss": line["mlm_loss"] * speed} for line in lines]
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))

    corpus = made(store, "clean/news", {}, write=write_documents(kept, {"too_short": ["가"] * (9 - kept)}))
    facts = {"steps": 2000, "tokens": 16_000_000, "parameters": 4_950_000, "tokens_per_second": 900.0}
    return made(store, "pretrain", facts, {"documents": corpus}, write)


def test_corpora_and_curves_of_two_trainings_stand_side_by_side(tmp_path: Path) -> None:
    one, other = (
        of_artifact(run_with(tmp_path / str(kept), kept, speed), name) for kept, speed, name in ((8, 1, "A"), (5, 2, "B"))
    )
    sections = compare(one, other)
    assert table(sections, "Documents that come out") == [["clean/news", "8", "5", "−3", "2,560", "1,600"]]
    assert table(sections, "Documents left out") == [["clean/news", "too_short", "1", "4"]]
    along = table(sections, "Masked pieces (MLM): loss, held out")
    assert along[0] == ["0", "9.36", "18.72"] and [row[0] for row in along] == ["0", "500", "1,000", "1,500", "2,000"]
    (figures,) = (block for section in sections for block in section.blocks if isinstance(block, Figures))
    drawing = figures.figures[0].svg.standalone()
    assert "line-1" in drawing and "line-2" in drawing and ">A<" in drawing and ">B<" in drawing


def cell(
    store: Path, test: Path, right: Sequence[bool], seed: int, *, system: str = "nsmc", init: str = "pretrained"
) -> Artifact:
    """Build a fine-tuning run of NSMC with these right and wrong answers."""

    def run(spec: FinetuneSpec, inputs: Inputs, out: Path, runtime: Runtime) -> dict[str, object]:
        gold = [int(line.split("\t")[2]) for line in test.read_text("utf-8").splitlines()[1:]]
        pred = [value if hit else 1 - value for value, hit in zip(gold, right, strict=True)]
        ids = [line.split("\t")[0] for line in test.read_text("utf-8").splitlines()[1:]]
        with ipc.new_file(
            str(out / "predictions.arrow"), (found := pa.table({"id": ids, "gold": gold, "pred": pred})).schema
        ) as sink:
            sink.write_table(found)
        score = 100 * sum(right) / len(right)
        metrics = {"task": "nsmc", "title": "NSMC", "init": init, "seed": seed, "metric": "accuracy"}
        metrics |= {"selected_by": "accuracy", "dev": {"accuracy": score}, "test": {"accuracy": score}}
        (out / "metrics.json").write_text(json.dumps({**metrics, "examples_test": 400, "examples_test_official": 400}))
        return {"test": {"accuracy": score}}

    spec = FinetuneSpec(task="nsmc", train=test, test=test, seed=seed, init=init)  # type: ignore[arg-type]
    stage = Stage("finetune", 1, FinetuneSpec, run)
    return build(stage, spec, {}, Runtime(store=store), label=f"finetune/{system}/{init}/{seed}").artifact


@pytest.mark.parametrize(("wrong", "verdict"), [(40, "within chance"), (160, "beyond chance")])
def test_scores_are_compared_in_pairs_as_a_summary_does(tmp_path: Path, wrong: int, verdict: str) -> None:
    test = tmp_path / "test.txt"
    lines = [f"{number}\t영화 {number}\t{number % 2}" for number in range(400)]
    test.write_text("\n".join(["id\tdocument\tlabel", *lines, ""]), "utf-8")
    first = cell(tmp_path / "a", test, [number >= 40 for number in range(400)], 1)
    second = cell(tmp_path / "b", test, [not 20 <= number < 20 + wrong for number in range(400)], 1)
    (row,) = table(compare(of_artifact(first, "A"), of_artifact(second, "B")), "Test scores")
    assert row[3:6] == ["90.00", f"{100 - wrong / 4:.2f}", f"{10 - wrong / 4:+.2f}".replace("-", "−")]
    assert row[-1] == verdict
    spec = summary.SummarySpec(task="nsmc", train=test, test=test)  # type: ignore[arg-type]
    summary.run(spec, {"b/1": second, "a/1": first}, tmp_path, Runtime(store=tmp_path))
    (known,) = json.loads((tmp_path / "summary.json").read_text())["comparisons"]
    ends = [end if known["first"] == "b" else -end for end in known["interval"]]
    assert row[6].replace("−", "-") == " to ".join(f"{end:.2f}" for end in sorted(ends))


@pytest.mark.parametrize(
    ("other", "init", "shown"),
    [
        ("nsmc", "random", ["nsmc", "pretrained → random"]),
        ("bert/small", "pretrained", ["nsmc → small", "pretrained → bert/pretrained"]),
    ],
)
def test_two_fine_tuning_runs_of_a_task_are_compared_whatever_they_started_from(
    tmp_path: Path, other: str, init: str, shown: list[str]
) -> None:
    test = tmp_path / "test.txt"
    lines = [f"{number}\t영화 {number}\t{number % 2}" for number in range(10)]
    test.write_text("\n".join(["id\tdocument\tlabel", *lines, ""]), "utf-8")
    first = cell(tmp_path, test, [True] * 10, 1)
    second = cell(tmp_path / "b", test, [number >= 4 for number in range(10)], 1, system=other, init=init)
    (row,) = table(compare(of_artifact(first, "A"), of_artifact(second, "B")), "Test scores")
    assert row[:2] == shown and row[3:7] == ["100.00", "60.00", "−40.00", "−70.00 to −10.00"]


def test_four_of_ten_examples_may_be_chance(tmp_path: Path) -> None:
    test = tmp_path / "test.txt"
    lines = [f"{number}\t영화 {number}\t{number % 2}" for number in range(10)]
    test.write_text("\n".join(["id\tdocument\tlabel", *lines, ""]), "utf-8")
    sides = [cell(tmp_path / name, test, [number >= wrong for number in range(10)], 1) for name, wrong in (("a", 4), ("b", 0))]
    (row,) = table(compare(*map(of_artifact, sides, "AB")), "Test scores")
    assert row[6] == "10.00 to 70.00" and float(row[7]) > 0.1 and row[-1] == "within chance"


def test_the_command_prints_tables_and_writes_a_page(tmp_path: Path) -> None:
    store = tmp_path / "store"
    one, other = run_with(store, 8, 1), run_with(tmp_path / "other", 5, 2)
    printed = CliRunner().invoke(app, ["diff", "pretrain", str(other.path), "--store", str(store)])
    assert printed.exit_code == 0 and "too_short" in printed.output and "Masked pieces" in printed.output
    page = tmp_path / "비교.html"
    assert CliRunner().invoke(app, ["diff", str(one.path), str(other.path), "--html", str(page)]).exit_code == 0
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>") and "http://" not in text.replace("http://www.w3.org", "") and "<svg" in text
    manifest = one.path / "manifest.json"
    before = manifest.read_bytes()
    refused = CliRunner().invoke(app, ["diff", str(one.path), str(other.path), "--html", str(manifest)])
    assert refused.exit_code == 2 and "which is read; name another file" in refused.output.replace("\n", " ")
    recipe = tmp_path / "mine.toml"
    recipe.write_text("seed = 1\n")
    assert CliRunner().invoke(app, ["diff", str(recipe), str(other.path), "--html", str(recipe)]).exit_code == 2
    assert (recipe.read_text(), manifest.read_bytes()) == ("seed = 1\n", before)
    missing = CliRunner().invoke(app, ["diff", one.name, "nothing", "--store", str(store)])
    assert missing.exit_code == 2 and "no artifact 'nothing'" in missing.output


def test_a_change_from_an_undefined_score_is_absent_and_a_part_of_the_examples_is_reported(tmp_path: Path) -> None:
    why = "every prediction is the same"
    sides = []
    for name, score in (("A", 0.0), ("B", 80.0)):
        metrics: dict[str, object] = {
            "task": "korsts",
            "title": "KorSTS",
            "init": "pretrained",
            "seed": 1,
            "metric": "spearman",
        }
        metrics |= {"dev": {"spearman": 1.0}, "test": {"spearman": score}, "examples_test": 5, "examples_test_official": 1379}
        metrics |= {"undefined": {} if score else {"spearman": why}}

        def write(out: Path, content: str = json.dumps(metrics)) -> None:
            (out / "metrics.json").write_text(content)

        one = made(tmp_path / name, "finetune/korsts/pretrained/1", {"test": {"spearman": score}}, write=write)
        sides.append(of_artifact(one, name))
    sections = compare(*sides)
    (row,) = table(sections, "Test scores")
    assert row == ["korsts", "pretrained", "Spearman", "undefined", "80.00", "–", "–", "–", "undefined"]
    message = [block.text for section in sections for block in section.blocks if isinstance(block, Text)]
    assert f"A, KorSTS, Spearman: undefined by the official script, pretrained, seed 1: {why}." in message
    assert "A and B, KorSTS: 5 of 1,379 examples of the official test set." in message


def test_artifacts_of_one_stage_under_two_labels_have_it_in_common(tmp_path: Path) -> None:
    sides = [of_artifact(made(tmp_path, f"clean/{name}", {}, write=write_documents(3, {}))) for name in ("news", "books")]
    assert " of 1 common stages " in introduction(*sides)
    assert f"A is {sides[0].root} ({sides[0].name}). B is {sides[1].root} ({sides[1].name}). " in introduction(*sides)
