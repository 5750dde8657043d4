"""Certificates of scores: their content, verification by scoring again, and what a forger can try."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from korealbert.artifact import Artifact, ArtifactError, Identity
from korealbert.artifact.files import digest_of_listing, sha256_of_file
from korealbert.artifact.files import write_digested as write
from korealbert.finetune.scores.certificate import certify, read_certificate
from korealbert.finetune.scores.verification import verify
from tests.archives import zipped
from tests.finetune.scores.certifying import GOLD, PREDICTIONS, call, change, rewrite, score


def test_a_certificate_has_the_origin_of_a_score_and_is_reproducible(desk: Path) -> None:
    status, printed = score(desk)
    content = (desk / "score.json").read_bytes()
    found = json.loads(content)
    assert status == 0 and found["metrics"] == json.loads(printed[-1]) and found["metrics"]["accuracy"] == 75
    assert (found["task"], found["mode"], found["cell"], found["benchmark"]) == ("nsmc", "official", None, None)
    assert found["gold"] == {
        **{"path": "gold/test.txt", "member": "", "bytes": len(GOLD.encode())},
        "sha256": sha256_of_file(desk / "gold/test.txt"),
    }
    assert {"cpu", "blas", "packages", "python"} <= found["host"].keys() and "numpy" in found["host"]["packages"]
    assert str(desk) not in content.decode() and not (desk / "score.json.sig").exists()
    assert content == (json.dumps(found, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
    score(desk)
    assert (desk / "score.json").read_bytes() == content


def test_it_is_checked_by_scoring_again_in_any_directory(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    score(desk)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(desk, elsewhere)
    status, lines = call("verify-score", elsewhere / "score.json")
    assert status == 0, lines
    message = {line.split()[1].rstrip(":"): line.split()[0] for line in lines}
    assert message == {
        **dict.fromkeys(("gold", "predictions", "code", "machine", "accuracy"), "agrees"),
        **dict.fromkeys(("examples", "examples_official", "matched_by"), "agrees"),
        "signature": "note",
    }
    (elsewhere / "gold").rename(elsewhere / "moved")
    status, lines = call("verify-score", elsewhere / "score.json")
    assert status == 1 and any(line.startswith("differs gold: no file at") and "--gold" in line for line in lines)
    assert call("verify-score", elsewhere / "score.json", "--gold", elsewhere / "moved/test.txt")[0] == 0


def test_it_is_checked_in_a_directory_that_a_link_names(desk: Path) -> None:
    (desk / "real/deep").mkdir(parents=True)
    (desk / "link").symlink_to(desk / "real/deep")
    names = desk / "link/score.json", desk / "link/../score.json"
    for path in names:
        score(desk, "--certificate", path)
        status, lines = call("verify-score", path)
        assert status == 0, lines
    assert json.loads(names[0].read_bytes())["gold"]["path"] == "../../gold/test.txt"
    assert json.loads(names[1].read_bytes())["gold"]["path"] == "../gold/test.txt"
    assert (desk / "real/score.json").is_file() and not (desk / "score.json").exists()


def test_the_benchmark_is_named_by_its_own_name(desk: Path) -> None:
    score(desk, task="NSMC")
    assert json.loads((desk / "score.json").read_bytes())["task"] == "nsmc"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (change("metrics.accuracy", 76.0), "differs accuracy: the certificate has 76.0, scored again 75.0"),
        (change("metrics.examples", 4.0), "differs examples: the certificate has 4.0, scored again 4"),
        (change("metrics.f1", 75.0), "differs f1: the certificate has 75.0, scored again None"),
        (change("gold.sha256", "0" * 64), "differs gold: sha256 of "),
        (change("predictions.bytes", 7), "differs predictions: "),
        (change("task", "nsmk"), "differs metrics: they cannot be computed: there is no task 'nsmk'"),
        (change("host.python", "2.7\x1b[2J"), "note    machine: python '2.7\\x1b[2J', here "),
        (change("code.version", "0.0.1"), "note    code: scored with korealbert 0.0.1"),
    ],
)
def test_each_change_is_reported_in_a_line(desk: Path, changed: Callable[[dict[str, Any]], None], message: str) -> None:
    score(desk)
    rewrite(desk / "score.json", changed)
    status, lines = call("verify-score", desk / "score.json")
    assert any(line.startswith(message) for line in lines), lines
    assert status == (0 if message.startswith("note") else 1) and all(line.isprintable() for line in lines)


def test_changed_files_are_found(desk: Path) -> None:
    score(desk)
    (desk / "given.jsonl").write_text(PREDICTIONS.replace('"3", "label": 0', '"3", "label": 1'), "utf-8")
    findings = list(verify(desk / "score.json"))
    assert [f.text.split(":")[0] for f in findings if f.verdict == "differs"] == ["predictions", "metrics"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no certificate"),
        (b'{"task": "nsmc", "task": "pd"}', "'task' is given twice"),
        (b'{"task": "nsmc"}', "field 'gold' is missing"),
        (b'{"gold": {"path": "/", "bytes": 1, "sha256": "0"}}', "field 'gold.path': "),
        (None, "not the canonical JSON"),
    ],
)
def test_other_files_than_certificates_are_refused(desk: Path, content: bytes | None, message: str) -> None:
    score(desk)
    path = desk / "score.json"
    path.write_bytes(path.read_bytes().replace(b":", b": ", 1) if content is None else content)
    with pytest.raises(ValueError, match=message):
        read_certificate(path)
    assert call("verify-score", path)[0] == 2


def test_a_benchmark_of_a_toml_file_is_part_of_it(desk: Path) -> None:
    toml = desk / "mine.toml"
    toml.write_text(
        'name="mine"\ntitle="Mine"\norigin="o"\nkind="classification"\nformat="tsv"\nlabels=["a","b"]\nspellings=["0","1"]\n'
        '[columns]\nid="id"\ntext="document"\nlabel="label"\n'
    )
    assert score(desk, task=toml)[0] == 0 and call("verify-score", desk / "score.json")[0] == 0
    content = (desk / "score.json").read_bytes()
    for changed, message in (
        (change("task", "kobest_copa"), "task: the certificate has kobest_copa, the benchmark is mine"),
        (change("benchmark", None), "metrics: they cannot be computed: there is no task 'mine'"),
    ):
        rewrite(desk / "score.json", changed)
        status, lines = call("verify-score", desk / "score.json")
        assert status == 1 and any(line.startswith(f"differs {message}") for line in lines), lines
        (desk / "score.json").write_bytes(content)
    rewrite(desk / "score.json", change("benchmark", None))
    rewrite(desk / "score.json", change("task", str(toml)))
    status, lines = call("verify-score", desk / "score.json")
    assert status == 1 and any("without the digest of that file" in line for line in lines), lines
    (desk / "score.json").write_bytes(content)
    toml.write_text(toml.read_text().replace('["a","b"]', '["b","a"]'))
    status, lines = call("verify-score", desk / "score.json")
    assert status == 1 and any(line.startswith("differs benchmark: sha256") for line in lines)


def artifact(
    store: Path, stage: str, files: dict[str, bytes], inputs: dict[str, Artifact], *, seed: int = 1, **spec: Any
) -> Artifact:
    """Write an artifact's manifest like the store, for files that need no training."""
    named = Identity(stage, 1, {"seed": seed, **spec}, {role: each.name for role, each in inputs.items()})
    directory = store / named.name
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    digests = {name: sha256_of_file(directory / name) for name in files}
    facts = {
        **{"name": named.name, "label": stage, "recipe": named.document, "spec": {}, "inputs": dict(named.inputs)},
        "built_from": {role: each.output_digest for role, each in inputs.items()},
        "files": {name: {"sha256": digest, "size": len(files[name])} for name, digest in digests.items()},
        **{"output_digest": digest_of_listing(digests), "stats": {}, "wall_seconds": 0.0, "created": "", "host": {}},
    }
    write(directory / "manifest.json", facts, sort_keys=True)
    return Artifact(named.name, directory)


@pytest.fixture
def cell(desk: Path) -> Artifact:
    """A cell with its model, whose predictions ``score.json`` certifies."""
    model = artifact(desk / "store", "export", {"model.safetensors": b"weights"}, {})
    made = artifact(desk / "store", "finetune", {"given.jsonl": PREDICTIONS.encode()}, {"model": model})
    certify("nsmc", str(desk / "gold/test.txt"), str(made.path / "given.jsonl"), "official", desk / "score.json")
    return made


def verdicts(path: Path, **places: Path) -> dict[str, list[str]]:
    """The first words of the findings, by verdict."""
    found: dict[str, list[str]] = {"agrees": [], "differs": [], "note": []}
    for verdict, text in verify(path, **places):
        found[verdict].append(text.split(":")[0])
    return found


def test_a_cells_certificate_names_its_recipe_and_its_model(desk: Path, cell: Artifact) -> None:
    found = read_certificate(desk / "score.json").cell
    model = cell.inputs()["model"]
    assert found is not None and found.model is not None and found.recipe["spec"] == {"seed": 1}
    assert found.model.files == {"model.safetensors": sha256_of_file(model.path / "model.safetensors")}
    message = verdicts(desk / "score.json")
    assert {"cell", "model"} <= {*message["agrees"]} and not message["differs"]
    (model.path / "model.safetensors").write_bytes(b"other")
    assert verdicts(desk / "score.json")["differs"] == ["model"]
    rewrite(desk / "score.json", change("cell.recipe.spec.seed", 2))
    assert {"recipe", "model"} == {*verdicts(desk / "score.json")["differs"]}


def test_a_forged_lineage_differs_from_the_manifest_beside_the_predictions(desk: Path, cell: Artifact) -> None:
    other = artifact(desk / "store", "export", {"model.safetensors": b"better"}, {}, seed=2)
    better = Identity("finetune", 1, {"seed": 3}, {"model": other.name})
    content = (desk / "score.json").read_bytes()
    files = {name: entry["sha256"] for name, entry in other.manifest["files"].items()}
    forged: list[tuple[str, Any, str]] = [
        ("cell.label", "finetune/best", "label"),
        ("cell.recipe", better.document, "recipe"),
        ("cell.name", better.name, "name"),
        ("cell.manifest_sha256", "0" * 64, "manifest"),
        ("cell.model", {"name": other.name, "output_digest": other.output_digest, "files": files}, "model"),
        ("cell.model", None, "model"),
        ("cell.model.files", files, "model"),
        ("cell.model.name", "../../etc", "model"),
    ]
    for field, value, message in forged:
        rewrite(desk / "score.json", change(field, value))
        assert message in verdicts(desk / "score.json")["differs"], field
        (desk / "score.json").write_bytes(content)
    # A name and a recipe that match each other are still another cell's.
    rewrite(desk / "score.json", change("cell.name", better.name))
    rewrite(desk / "score.json", change("cell.recipe", better.document))
    assert verdicts(desk / "score.json")["differs"] == ["name", "recipe"]
    (desk / "score.json").write_bytes(content)
    rewrite(desk / "score.json", change("cell", None))
    assert "cell" in verdicts(desk / "score.json")["note"]


@pytest.mark.parametrize("content", ['{"name": "App", "icons": [], "start_url": "."}', "[1]", "not JSON"])
def test_a_manifest_of_another_program_beside_the_predictions_is_no_cells(desk: Path, content: str) -> None:
    (desk / "manifest.json").write_text(content)
    status, lines = score(desk)
    assert status == 0 and read_certificate(desk / "score.json").cell is None, lines
    assert call("verify-score", desk / "score.json")[0] == 0
    made = packed_cell(desk, "test.txt", GOLD.encode(), task="nsmc").path / "predictions.arrow"
    shutil.copy(made, desk / "predictions.arrow")
    assert call("score", "nsmc", desk / "gold/test.txt", desk / "predictions.arrow")[0] == 0


def test_a_damaged_manifest_is_not_taken_for_another_programs(desk: Path, cell: Artifact) -> None:
    manifest = cell.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:200])
    with pytest.raises(ArtifactError, match="not a whole manifest"):
        certify("nsmc", str(desk / "gold/test.txt"), str(cell.path / "given.jsonl"), "official", desk / "again.json")


def test_a_directory_with_links_to_others_is_certified_as_it_is_read(desk: Path) -> None:
    gold, given = desk / "RACE", desk / "race.jsonl"
    gold.mkdir()
    for level in ("high", "middle"):
        (desk / level).mkdir()
        text = {"article": "A.", "questions": ["Why?"], "options": [["a", "b", "c", "d"]], "answers": ["A"]}
        (desk / level / "1.txt").write_text(json.dumps({**text, "id": f"{level}1.txt"}))
        (gold / level).symlink_to(desk / level)
    given.write_text("".join(json.dumps({"id": f"{level}1-0", "label": "A"}) + "\n" for level in ("high", "middle")))
    status, lines = call("score", "race", gold, given, "--certificate", desk / "score.json")
    assert status == 0, lines
    status, lines = call("verify-score", desk / "score.json")
    assert status == 0, lines
    (gold / "high/more.bin").write_bytes(b"0" * 5_000)
    assert call("verify-score", desk / "score.json")[0] == 1


def test_replaced_predictions_are_not_those_of_the_cell(desk: Path, cell: Artifact) -> None:
    """Digest, size and metrics in the certificate are changed with them, and are right."""
    forged = PREDICTIONS.replace('"3", "label": 0', '"3", "label": 1')
    path = cell.path / "given.jsonl"
    path.write_text(forged)
    rewrite(desk / "score.json", change("predictions.sha256", sha256_of_file(path)))
    rewrite(desk / "score.json", change("predictions.bytes", len(forged)))
    rewrite(desk / "score.json", change("metrics.accuracy", 100.0))
    message = verdicts(desk / "score.json")
    assert message["differs"] == ["cell"] and {"predictions", "accuracy"} <= {*message["agrees"]}
    assert not {"recipe", "model", "cell"} & {*message["agrees"]}


def test_a_manifest_that_is_not_its_artifacts_is_none(desk: Path, cell: Artifact) -> None:
    facts = {**cell.manifest, "recipe": {**cell.manifest["recipe"], "spec": {"seed": 9}}}
    write(cell.path / "manifest.json", facts, sort_keys=True)
    assert verdicts(desk / "score.json")["differs"] == ["cell"]
    with pytest.raises(ArtifactError, match="its recipe is that of another artifact"):
        certify("nsmc", str(desk / "gold/test.txt"), str(cell.path / "given.jsonl"), "official", desk / "again.json")


def test_what_cannot_be_checked_without_the_artifact_is_not_checked(desk: Path, cell: Artifact) -> None:
    message = verdicts(desk / "score.json", predictions=desk / "given.jsonl")
    assert "cell" in message["note"] and not message["differs"] and not {"cell", "recipe", "model"} & {*message["agrees"]}
    rewrite(desk / "score.json", change("cell.recipe.spec.seed", 2))
    assert verdicts(desk / "score.json", predictions=desk / "given.jsonl")["differs"] == ["recipe"]
    rewrite(desk / "score.json", change("cell.recipe.spec.seed", 1))
    shutil.rmtree(cell.inputs()["model"].path)
    (line,) = (text for verdict, text in verify(desk / "score.json") if text.startswith("model"))
    assert "not checked" in line
    message = verdicts(desk / "score.json")
    assert "model" in message["note"] and "cell" in message["agrees"] and not message["differs"]


def test_a_score_of_another_task_or_gold_file_than_the_cells_is_refused_and_differs(desk: Path) -> None:
    gold, out = desk / "gold/test.txt", desk / "score.json"
    digest = sha256_of_file(gold)
    recipes: list[tuple[dict[str, Any], str]] = [
        ({"task": "nsmc", "test": {"name": "t", "sha256": digest}}, ""),
        ({"task": {"name": "nsmc"}, "test": None}, ""),
        ({"task": "hate_speech", "test": {"name": "t", "sha256": digest}}, "task"),
        ({"task": "nsmc", "test": {"name": "t", "sha256": "0" * 64}}, "gold"),
    ]
    for number, (spec, message) in enumerate(recipes):
        made = artifact(desk / "store", "finetune", {"given.jsonl": PREDICTIONS.encode()}, {}, seed=number, **spec)
        if message:
            with pytest.raises(ValueError, match=rf"given\.jsonl: {message}: .*the recipe of the cell has"):
                certify("nsmc", str(gold), str(made.path / "given.jsonl"), "official", out)
            rewrite(out, change("cell.recipe.spec", made.manifest["recipe"]["spec"]))
            assert message in verdicts(out)["differs"]
        else:
            certify("nsmc", str(gold), str(made.path / "given.jsonl"), "official", out)
            assert not verdicts(out)["differs"]


@pytest.mark.parametrize("name", ["given.jsonl", "gold/test.txt", "hard", "soft"])
def test_a_certificate_or_its_signature_overwrites_none_of_its_files(desk: Path, name: str) -> None:
    (desk / "hard").hardlink_to(desk / "given.jsonl")
    (desk / "soft").symlink_to(desk / "gold/test.txt")
    status, lines = score(desk, "--certificate", desk / name)
    assert status == 2 and any("which is read; name another file" in line for line in lines)
    shutil.copy(desk / "given.jsonl", desk / "x.sig")
    assert call("score", "nsmc", desk / "gold/test.txt", desk / "x.sig", "--certificate", desk / "x")[0] == 2
    assert (desk / "given.jsonl").read_text() == (desk / "x.sig").read_text() == PREDICTIONS
    assert (desk / "gold/test.txt").read_text() == GOLD


def test_a_certificate_is_not_written_into_the_artifact_of_its_predictions(desk: Path, cell: Artifact) -> None:
    manifest = (cell.path / "manifest.json").read_bytes()
    with pytest.raises(ValueError, match="is the directory of an artifact"):
        certify("nsmc", str(desk / "gold/test.txt"), str(cell.path / "given.jsonl"), "official", cell.path / "manifest.json")
    assert (cell.path / "manifest.json").read_bytes() == manifest


def test_names_that_are_not_utf8_and_paths_that_are_too_long_are_refused(desk: Path) -> None:
    strange = Path(os.fsdecode(bytes(desk) + b"/\xbf\xb9.jsonl"))
    shutil.copy(desk / "given.jsonl", strange)
    with pytest.raises(ValueError, match=r"udcbf.*a certificate holds names in UTF-8; rename the file"):
        certify("nsmc", str(desk / "gold/test.txt"), str(strange), "official", desk / "score.json")
    score(desk)
    rewrite(desk / "score.json", change("gold.path", "x" * 5000))
    status, lines = call("verify-score", desk / "score.json")
    assert status == 1 and any(line.startswith("differs gold:") and "cannot be read" in line for line in lines)


def test_neither_artifacts_nor_keys_are_overwritten(desk: Path, cell: Artifact, keys: Path) -> None:
    weights = cell.inputs()["model"].path / "model.safetensors"
    (desk / "link").symlink_to(weights)
    (desk / "store/finetune-0.partial").mkdir()
    (desk / "store/finetune-0.partial/.opening.json").write_text("{}")
    for place in (weights, weights.parent / "deep/er/c.json", desk / "link", desk / "store/finetune-0.partial/c.json"):
        status, lines = score(desk, "--certificate", place)
        assert status == 2 and any("is the directory of an artifact" in line for line in lines), lines
    assert weights.read_bytes() == b"weights"
    public = (keys / "mine.pub").read_bytes()
    for name in ("mine", "mine.pub"):
        status, lines = score(desk, "--sign", keys / "mine", "--certificate", keys / name)
        message = {"mine": "which is read", "mine.pub": "not a certificate that this command wrote"}[name]
        assert status == 2 and any(message in line for line in lines), lines
    assert (keys / "mine.pub").read_bytes() == public
    (desk / "site").mkdir()
    (desk / "site/manifest.json").write_text('{"name": "a web page"}')
    assert score(desk, "--certificate", desk / "site/score.json")[0] == 0


def test_only_a_certificate_and_its_signature_are_replaced(desk: Path, keys: Path) -> None:
    secret = b"untrusted comment: minisign encrypted secret key\nRWRTY0Iyff\n"
    others = {"c.json": b'{"notes": 1}\n', "empty": b"", "s.sig": (keys / "mine").read_bytes(), "t.minisig": secret}
    for name, content in others.items():
        (desk / name).write_bytes(content)
    (desk / "dangling").symlink_to(desk / "nowhere")
    private = (keys / "other").read_bytes()
    for place in (keys / "other", keys / "other.pub", *(desk / name for name in ("c.json", "empty", "s", "t", "dangling"))):
        for more in ((), ("--sign", keys / "mine")):
            status, lines = score(desk, "--certificate", place, *more)
            assert status == 2 and any("it exists already" in line and "name another" in line for line in lines), lines
    assert (keys / "other").read_bytes() == private
    assert {name: (desk / name).read_bytes() for name in others} == others
    for more in (("--sign", keys / "mine"), ("--sign", keys / "mine"), ()):
        assert score(desk, *more)[0] == 0
    rewrite(desk / "score.json", change("korealbert_certificate", 0))
    (desk / "score.json.minisig").write_text("untrusted comment: x\nRWQf\ntrusted comment: timestamp:1\nabc\n")
    assert score(desk)[0] == 0 and not (desk / "score.json.minisig").exists()


def test_a_directory_that_is_not_there_is_named(desk: Path) -> None:
    status, lines = score(desk, "--certificate", desk / "no/such/c.json")
    assert status == 2 and lines[-1].endswith(f"{desk / 'no/such'}: No such file or directory; check its path, or name another")


def test_a_machine_that_a_certificate_does_not_name_does_not_agree(desk: Path) -> None:
    score(desk)
    for host in ({}, {"python": json.loads((desk / "score.json").read_bytes())["host"]["python"]}):
        rewrite(desk / "score.json", change("host", host))
        status, lines = call("verify-score", desk / "score.json")
        assert status == 0 and any(line.startswith("note    machine:") and "cpu not named, here " in line for line in lines), (
            lines
        )


def test_a_toml_file_for_a_shipped_benchmark_and_a_member_of_one_are_reported(desk: Path) -> None:
    score(desk)
    status, lines = call("verify-score", desk / "score.json", "--benchmark", desk / "none.toml")
    assert status == 2 and "leave --benchmark" in " ".join(lines)
    toml = desk / "mine.toml"
    toml.write_text(
        'name="mine"\ntitle="Mine"\norigin="o"\nkind="classification"\nformat="tsv"\nlabels=["a","b"]\nspellings=["0","1"]\n'
        '[columns]\nid="id"\ntext="document"\nlabel="label"\n'
    )
    score(desk, task=toml)
    rewrite(desk / "score.json", change("benchmark.member", "x"))
    status, lines = call("verify-score", desk / "score.json")
    assert status == 1 and any(line.startswith("differs benchmark: the certificate has the member 'x'") for line in lines)


def packed_cell(desk: Path, name: str, content: bytes, **spec: Any) -> Artifact:
    """A cell whose recipe names a test file, with predictions as a fine-tuning writes them."""
    table = pa.table({"id": ["1", "2", "3", "4"], "gold": [1, 0, 1, 0], "pred": [1, 0, 0, 0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata({"task": "nsmc"})) as writer:
        writer.write_table(table.replace_schema_metadata({"task": "nsmc"}))
    test = {"name": name, "sha256": hashlib.sha256(content).hexdigest()}
    return artifact(desk / "store", "finetune", {"predictions.arrow": sink.getvalue().to_pybytes()}, {}, test=test, **spec)


def test_the_gold_file_of_a_cell_may_be_packed(desk: Path) -> None:
    made, packed = packed_cell(desk, "test.txt", GOLD.encode(), task="nsmc"), desk / "gold/test.txt.gz"
    packed.write_bytes(gzip.compress(GOLD.encode()))
    status, lines = call("score", "nsmc", packed, made.path / "predictions.arrow", "--certificate", desk / "score.json")
    assert status == 0, lines
    assert call("verify-score", desk / "score.json")[0] == 0
    packed.write_bytes(gzip.compress(GOLD.replace("좋다", "좋아").encode()))
    status, lines = call("score", "nsmc", packed, made.path / "predictions.arrow", "--certificate", desk / "score.json")
    assert status == 2 and any("name the task and the gold file of the cell" in line for line in lines)


def test_predictions_in_a_store_are_scored_only_with_the_gold_file_of_their_cell(desk: Path) -> None:
    """Ids and labels of another file may be the same."""
    made = packed_cell(desk, "test.txt", GOLD.encode(), task="nsmc")
    other = desk / "gold/dev.txt"
    other.write_text(GOLD.replace("좋다", "다른 글"), "utf-8")
    assert call("score", "nsmc", desk / "gold/test.txt", made.path / "predictions.arrow")[0] == 0
    status, lines = call("score", "nsmc", other, made.path / "predictions.arrow")
    assert status == 2 and any("as its test file; name the task and the gold file of the cell" in line for line in lines)
    # The digest of a packed file does not tell its content.
    packed = packed_cell(desk, "test.txt.gz", gzip.compress(GOLD.encode()), task="nsmc")
    status, lines = call("score", "nsmc", desk / "gold/test.txt", packed.path / "predictions.arrow")
    assert status == 0 and any("its content is not known" in line for line in lines)
    content = zipped({"test.txt": GOLD, "dev.txt": GOLD.replace("좋다", "다른 글")})
    (desk / "a.zip").write_bytes(content)
    member = packed_cell(desk, "a.zip", content, task="nsmc", test_member="test.txt")
    for name, wanted in (("test.txt", 0), ("dev.txt", 2)):
        given = f"{desk}/a.zip::{name}", member.path / "predictions.arrow"
        assert call("score", "nsmc", *given, "--certificate", desk / "z.json")[0] == wanted
