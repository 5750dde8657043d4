"""`korealbert push` against a stand-in of the hub: files, card, license, privacy, and no upload twice."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from huggingface_hub import DatasetCard, ModelCard

from korealbert.artifact import Artifact
from korealbert.huggingface.dataset import write_dataset
from korealbert.huggingface.licenses import combined, identifier
from tests.flows.hub import TOKEN, Hub, Repo, hub
from tests.flows.test_names import cleaned

ROOT = Path(__file__).parents[2]


ONE_BY_ONE = """
import json, os, sys
from typer.testing import CliRunner
from korealbert.flows.cli import app
for line in sys.stdin:
    arguments, token, directory = json.loads(line)
    os.environ["HF_TOKEN"] = token
    os.chdir(directory)
    done = CliRunner().invoke(app, arguments)
    print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)
"""


@pytest.fixture(scope="module")
def one_hub() -> Iterator[Hub]:
    with hub() as known:
        yield known


@pytest.fixture
def server(one_hub: Hub) -> Hub:
    """Return the hub without repositories."""
    one_hub.forget()
    return one_hub


Call = Callable[..., str]


@pytest.fixture(scope="module")
def process(one_hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """Runs commands one by one: the library of the hub takes seconds to load and reads its address only then."""
    known = environment(one_hub, tmp_path_factory.mktemp("home"))
    with subprocess.Popen(
        [sys.executable, "-c", ONE_BY_ONE], env=known, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


@pytest.fixture
def call(process: subprocess.Popen[str], tmp_path: Path) -> Call:
    """Run a command in the test's directory; returns standard output, or the one line of an error if ``code`` is 2."""

    def ran(*arguments: object, token: str = TOKEN, code: int = 0) -> str:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([[*map(str, arguments)], token, str(tmp_path)]) + "\n")
        process.stdin.flush()
        status, out, err = json.loads(process.stdout.readline())
        assert status == code, out + err
        if code:
            assert err.count("\n") == 1, err
        return str(err.strip() if code else out)

    return ran


def environment(server: Hub, home: Path, token: str = "") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    kept |= {"HF_ENDPOINT": server.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "PYTHONPATH": str(ROOT)}
    return kept | ({"HF_TOKEN": token} if token else {})


def test_a_model_goes_with_its_card_license_and_scores(straight: dict[str, Artifact], server: Hub, call: Call) -> None:
    export, store = straight["export"], straight["export"].path.parent
    output = call("push", "export", "me/mine", "--store", store, "--dry-run", token="")
    assert not server.repos
    assert "license: apache-2.0\n" in output and "NSMC" in output and "model.safetensors" in output
    assert output.splitlines()[-1] == f"nothing was sent; it would be the private model, {server.url}/me/mine"

    output = call("push", "export", "mine", "--store", store, "--dry-run", token="")
    assert output.splitlines()[-1].endswith(f"the private model, {server.url}/USER/mine")
    assert "me/my model" in call("push", "export", "me/my model", "--store", store, "--dry-run", token="", code=2)

    address = call("push", "export", "me/mine", "--store", store).splitlines()[-1]
    repo = server.repos["model", "me/mine"]
    assert address == f"{server.url}/me/mine/commit/{1:040x}"
    assert repo.private and repo.commits == 1
    files = {path.relative_to(export.path).as_posix(): path for path in export.path.rglob("*") if path.is_file()}
    here = {name: path.read_bytes() for name, path in files.items() if name not in ("manifest.json", "README.md")}
    assert "1_Pooling/config.json" in here
    assert {name: content for name, content in repo.files.items() if name != "README.md"} == here
    card = ModelCard(repo.files["README.md"].decode())
    assert card.data.license == "apache-2.0" and card.data.get("license_name") is None
    assert card.data.eval_results
    results = {each.dataset_type: each for each in card.data.eval_results}
    assert results["heldout"].task_type == "fill-mask"
    cells = [one for label, one in straight.items() if label.startswith("finetune/nsmc/pretrained/")]
    scores = [pl.read_json(one.path / "metrics.json")["test"][0]["accuracy"] for one in cells]
    assert results["nsmc"].metric_value == pytest.approx(sum(scores) / len(scores), abs=1e-3)
    assert (results["nsmc"].task_type, results["nsmc"].metric_type) == ("text-classification", "accuracy")
    assert "## Fine-tuning" in card.text
    assert 'AutoModel.from_pretrained("me/mine")' in card.text

    call("push", "export", "mine", "--store", store)  # The user's name is the token's.
    assert repo.commits == 1, "nothing has changed"
    assert set(server.sent.values()) == {1}


def test_an_upload_that_was_killed_goes_on(straight: dict[str, Artifact], server: Hub, call: Call, tmp_path: Path) -> None:
    export = straight["export"]
    weights = hashlib.sha256((export.path / "model.safetensors").read_bytes()).hexdigest()
    server.held = weights
    program = [sys.executable, "-m", "korealbert", "push", "export", "me/mine", "--store", str(export.path.parent)]
    with subprocess.Popen(program, env=environment(server, tmp_path, TOKEN), cwd=tmp_path) as first:
        assert server.holding.wait(120)
        first.kill()
    server.released.set()
    server.held = ""
    assert not server.repos["model", "me/mine"].files
    call("push", "export", "me/mine", "--store", export.path.parent)
    assert server.repos["model", "me/mine"].files["model.safetensors"] == (export.path / "model.safetensors").read_bytes()
    assert set(server.sent.values()) == {1} and weights in server.sent


def test_a_corpus_goes_as_a_dataset(straight: dict[str, Artifact], server: Hub, call: Call, tmp_path: Path) -> None:
    store = straight["balance"].path.parent
    address = call("push", "balance", "me/texts", "--store", store, "--public").splitlines()[-1]
    assert address.startswith(f"{server.url}/datasets/me/texts/commit/")
    repo = server.repos["dataset", "me/texts"]
    assert not repo.private
    data = [content for name, content in repo.files.items() if name.startswith("data/")]
    assert sum(pl.read_parquet(content).height for content in data) == straight["balance"].stats["documents_out"]
    card = DatasetCard(repo.files["README.md"].decode())
    assert card.data.license == "apache-2.0" and "# texts\n" in card.text
    assert 'load_dataset("me/texts", split="train")' in card.text

    write_dataset([straight["dedup"]], tmp_path / "out", "jsonl")
    written = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    (tmp_path / "out" / ".env").write_text("secret")
    call("push", "out", "me/more")
    assert set(server.repos["dataset", "me/more"].files) == written


def test_a_corpus_is_exported_to_the_hub(server: Hub, call: Call, tmp_path: Path) -> None:
    cleaned(tmp_path / "store", "blog", 7)
    output = call("export-corpus", "clean/blog", "hf://datasets/me/texts", "--to", "jsonl", "--store", "store")
    assert f"7 documents: {server.url}/datasets/me/texts/commit/" in output
    repo = server.repos["dataset", "me/texts"]
    assert repo.private and set(repo.files) == {"README.md", "data/clean-blog-00000-of-00001.jsonl"}
    assert "# texts\n" in repo.files["README.md"].decode()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("hf")]


def test_what_cannot_go_is_told_in_one_line(straight: dict[str, Artifact], server: Hub, call: Call, tmp_path: Path) -> None:
    store = straight["export"].path.parent
    server.repos["model", "me/open"] = Repo(private=False)
    (tmp_path / "texts").mkdir()
    refused = {
        ("vocab", "me/x"): "neither a model nor a cleaned corpus; name export, bi_encoder, clean, dedup or balance",
        ("extract", "me/x"): "neither a model nor a cleaned corpus",
        ("texts", "me/x"): "neither an exported model (config.json, ",
        ("none", "me/x"): "no artifact 'none'",
        ("export", "a/b/c"): "'a/b/c' is not a valid name on the hub: write USER/NAME",
        ("export", "me/open"): "me/open is a public repository; add --public",
    }
    for arguments, message in refused.items():
        assert message in call("push", *arguments, "--store", store, code=2)
    signed_out, refused_by_hub = (
        call("push", "export", "me/x", "--store", store, token=token, code=2) for token in ("", TOKEN[::-1])
    )
    assert signed_out == "no token for the hub: run `hf auth login`, or set HF_TOKEN"
    assert "failed (" in refused_by_hub and "401" in refused_by_hub
    assert refused_by_hub.endswith("fix the problem and repeat the command")
    assert list(server.repos) == [("model", "me/open")]


@pytest.mark.parametrize(
    ("stated", "known"),
    [
        ("CC BY-SA 4.0", "cc-by-sa-4.0"),
        ("cc-by-nc-sa-2.0", "cc-by-nc-sa-2.0"),
        ("CC BY-NC-SA 2.0 KR", "cc-by-nc-sa-2.0"),
        ("CC0 1.0", "cc0-1.0"),
        ("public domain", "cc0-1.0"),
        ("Apache-2.0", "apache-2.0"),
        ("GPL-3.0-or-later", "gpl-3.0"),
        ("AGPL 3.0", "agpl-3.0"),
        ("GFDL 1.3", "gfdl"),
        ("GFDL-1.2-or-later", "gfdl"),
        ("ODbL-1.0", "odbl"),
        ("ODC-By 1.0", "odc-by"),
        ("CC BY-SA 7.0", None),
        ("press copyright; measurements only", None),
        ("", None),
    ],
)
def test_licenses_have_the_hubs_names(stated: str, known: str | None) -> None:
    assert identifier(stated) == known


@pytest.mark.parametrize(
    ("stated", "license"),
    [
        (["CC BY-SA 4.0"], "cc-by-sa-4.0"),
        (["CC BY-SA 3.0", "CC BY-SA 4.0", "CC0 1.0", "CC BY 4.0"], "cc-by-sa-4.0"),
        (["CC BY 4.0", "CC BY-NC 4.0"], "cc-by-nc-4.0"),
        (["CC BY 4.0", "CC BY-NC-SA 2.0 KR"], "cc-by-nc-sa-2.0"),
        (["CC0 1.0", "Apache-2.0"], "apache-2.0"),
        (["CC BY-SA 4.0", "CC BY-NC-SA 2.0 KR"], "other"),
        (["MIT", "MIT", "CC0 1.0", "Unlicense"], "mit"),
        (["Unlicense", "CC0 1.0"], "unlicense"),
        (["GFDL 1.3", "CC0 1.0"], "gfdl"),
        (["CC BY 4.0", "MIT"], "other"),
        (["CC BY-SA 4.0", "MIT"], "other"),
        (["CC BY 4.0", "ODC-By 1.0"], "other"),
        (["Apache-2.0", "MIT"], "other"),
        (["GPL-3.0", "GPL-2.0"], "other"),
        (["CC BY-ND 4.0"], "other"),
        (["CC BY-NC-ND 4.0", "CC0 1.0"], "other"),
        (["CC BY 4.0", "CC BY-ND 4.0"], "other"),
        (["CC BY-NC 4.0", "CC BY-SA 4.0"], "other"),
        (["CC BY 4.0", ""], "other"),
        ([], "other"),
    ],
)
def test_the_license_of_several_sources_is_other_only_where_none_fits_all(stated: list[str], license: str) -> None:
    found, why = combined({f"source{number}": each for number, each in enumerate(stated)})
    assert found == license and bool(why) == (license == "other")


def test_why_a_license_is_other_names_the_sources_at_fault() -> None:
    why = combined({"a": "CC BY 4.0", "b": "CC BY-ND 4.0"})[1]
    assert why == "changed texts may not be passed on, and cleaning changes texts: b CC BY-ND 4.0"
    assert combined({"a": "CC BY 4.0", "b": "MIT"})[1] == "these licenses cannot be combined: a CC BY 4.0, b MIT"
