"""Predictions of cells that were tested on a part of a file are scored on the part that their recipe names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc

from korealbert.artifact.files import sha256_of_file, write_digested
from korealbert.artifact.spec import canonical
from korealbert.finetune import tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.scores.certificate import certify
from korealbert.finetune.scores.scoring import compare_files, score_file
from korealbert.finetune.scores.verification import verify
from korealbert.finetune.spec import FinetuneSpec
from tests.finetune.scores.test_certificate import artifact

Cell = Callable[..., tuple[str, str]]


def rows(first: int, count: int) -> str:
    return "id\tdocument\tlabel\n" + "".join(f"{n}\t말 {n}\t{n % 2}\n" for n in range(first, first + count))


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """A cell of NSMC whose answers are right but for the last: its gold file and its predictions."""
    files = {split: tmp_path / f"{split}.txt" for split in ("train", "test")}
    for (split, path), size in zip(files.items(), (60, 40), strict=True):
        path.write_text(rows(1000 if split == "train" else 0, size), "utf-8")

    def made(split: str = "test", **fields: Any) -> tuple[str, str]:
        named = {**files, **fields}
        spec = FinetuneSpec(task="nsmc", **{name: value for name, value in named.items() if value is not None})
        benchmark = tasks.load("nsmc")
        examples = read_examples(benchmark, spec)[split]
        gold = [example.target for example in examples]
        kind = benchmark.prediction_type
        table = pa.table(
            {
                "id": [example.id for example in examples],
                "gold": pa.array(gold, kind),
                "pred": pa.array([*gold[:-1], 1 - gold[-1]], kind),
            }
        )
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        name = "predictions.arrow" if split == "test" else "dev_predictions.arrow"
        recipe = canonical(spec, sha256_of_file)
        found = artifact(tmp_path / "store", "finetune", {name: sink.getvalue().to_pybytes()}, {}, **recipe)
        held_out = split == "dev" or spec.test is None
        return str(files["train" if held_out else "test"]), str(found.path / name)

    return made


@pytest.mark.parametrize(
    ("fields", "size", "whole"),
    [
        ({"max_test_examples": 30}, 30, 40),
        ({"max_test_examples": 30, "split_seed": 7}, 30, 40),
        ({"test": None, "test_share": 0.25}, 15, 60),
        ({"test": None, "test_share": 0.25, "max_test_examples": 4}, 4, 60),
        ({"split": "dev"}, 3, 60),
        ({"split": "dev", "max_dev_examples": 2}, 2, 60),
        ({"split": "dev", "test": None, "test_share": 0.25}, 2, 60),
    ],
)
def test_a_cell_is_scored_on_what_it_was_tested_on(
    cell: Cell, tmp_path: Path, fields: dict[str, Any], size: int, whole: int
) -> None:
    gold, predictions = cell(**fields)
    scored = score_file("nsmc", gold, predictions, "official")
    assert (scored.examples, scored.values["accuracy"]) == (size, pytest.approx(100 - 100 / size))
    assert any(f"of a part, {size} of the {whole} examples of {gold}" in warning for warning in scored.warnings)
    assert any(f"{size} of 50,000 examples of NSMC's official test set" in warning for warning in scored.warnings)
    out = tmp_path / "score.json"
    assert certify("nsmc", gold, predictions, "official", out).values == scored.values
    assert "differs" not in {finding.verdict for finding in verify(out)}
    # Outside of the store the recipe is read from the certificate.
    moved = tmp_path / Path(predictions).name
    moved.write_bytes(Path(predictions).read_bytes())
    assert "differs" not in {finding.verdict for finding in verify(out, predictions=moved)}
    with pytest.raises(ValueError, match=r"only one of them; .* in the cell's own directory, whose manifest says which"):
        score_file("nsmc", gold, str(moved), "official")


def test_a_cell_of_a_part_is_compared_on_that_part(cell: Cell, tmp_path: Path) -> None:
    gold, first = cell(max_test_examples=30)
    _, second = cell(max_test_examples=30, seed=2)
    _, other = cell(max_test_examples=30, split_seed=1)
    _, whole = cell()
    scored, against = compare_files("nsmc", gold, first, second, "official")
    assert (scored.examples, against["difference"]) == (30, 0)
    with ipc.open_file(first) as reader:
        records = reader.read_all().select(["id", "gold"]).to_pylist()
    given = tmp_path / "given.jsonl"
    given.write_text("".join(json.dumps({"id": row["id"], "label": row["gold"]}) + "\n" for row in records))
    scored, against = compare_files("nsmc", gold, first, str(given), "official")
    assert (scored.examples, against["scores"]["accuracy"]) == (30, 100)
    for stranger in (other, whole):
        with pytest.raises(ValueError, match="examples are not the 30 of the other system; compare systems that were tested"):
            compare_files("nsmc", gold, first, stranger, "official")


def test_answers_to_other_examples_than_the_recipe_names_are_refused(cell: Cell) -> None:
    gold, predictions = cell(max_test_examples=30)
    manifest = Path(predictions).parent / "manifest.json"
    facts = json.loads(manifest.read_bytes())
    del facts["digest"]
    for changed, message in ((29, "of other examples than the gold file's"), (-1, "the recipe of the cell has .* -1 examples")):
        facts["recipe"]["spec"]["max_test_examples"] = changed
        write_digested(manifest, facts)
        with pytest.raises(ValueError, match=message):
            score_file("nsmc", gold, predictions, "official")
