"""Benchmark files by URL are downloaded once and checked; a missing one is named with its origin and license."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Runtime, Store, build
from korealbert.corpus import extract
from korealbert.corpus.crawl.fetch import FetchError
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.benchmark_files import RemoteFile
from korealbert.finetune import features, stage, tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.spec import FinetuneSpec
from korealbert.inspection.evidence import text_spans
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import RecipeError
from korealbert.recipe.nodes import Node
from tests.corpus.documents_made import dropped_rows, prose
from tests.flows.conftest import TINY

DIGEST = "0" * 64
REVIEW = (
    "옛날에 우체국이 강가에 있었고 아침마다 배가 편지를 싣고 와서 마을 사람들이 종소리를 듣고 모두 강가로 나가 기다리는 영화"
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server of a directory on loopback."""
    root = tmp_path / "site"
    root.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", root
    server.shutdown()
    thread.join()
    server.server_close()


def recipe_with(tmp_path: Path, url: str, digests: dict[str, str]) -> dict[str, Node]:
    """The tiny recipe, its NSMC files by URL."""
    text = TINY.read_text("utf-8").replace("../../data_specs", str(TINY.parents[2] / "data_specs"))
    before, _, rest = text.partition("[finetune.nsmc]\n")
    rest = rest.split("seeds", maxsplit=1)[1]
    table = "[finetune.nsmc]\n" + "".join(
        f'{split} = {{ url = "{url}/ratings_{split}.txt", sha256 = "{digest}", private_hosts = ["127.0.0.1"] }}\n'
        for split, digest in digests.items()
    )
    (tmp_path / "remote.toml").write_text(f"{before}{table}seeds{rest}", "utf-8")
    return recipes.graph(recipes.load(tmp_path / "remote.toml"))


def test_files_by_url_are_stages_that_features_and_cells_read(
    site: tuple[str, Path], tmp_path: Path, model: Artifact, sample_dir: Path
) -> None:
    url, root = site
    digests = {}
    for split in ("train", "test"):
        shutil.copy(sample_dir / f"nsmc_{split}.txt", root / f"ratings_{split}.txt")
        digests[split] = hashlib.sha256((root / f"ratings_{split}.txt").read_bytes()).hexdigest()
    nodes = recipe_with(tmp_path, url, digests)
    roles = {"model": "export", "train": "benchmark/nsmc/train", "test": "benchmark/nsmc/test"}
    assert nodes["features/nsmc"].inputs == roles
    assert nodes["finetune/nsmc/pretrained/1"].inputs == {**roles, "features": "features/nsmc"}
    assert nodes["summary/nsmc"].inputs["test"] == "benchmark/nsmc/test"
    runtime = TrainingRuntime(store=tmp_path / "store", threads=1, device="cpu")
    inputs = {}
    for split in digests:
        node = nodes[f"benchmark/nsmc/{split}"]
        inputs[split] = build(node.stage, node.spec, {}, runtime).artifact
    spec = nodes["finetune/nsmc/pretrained/1"].spec
    assert isinstance(spec, FinetuneSpec)
    local = FinetuneSpec(task="nsmc", **{split: sample_dir / f"nsmc_{split}.txt" for split in digests})
    assert read_examples(tasks.load("nsmc"), spec, inputs) == read_examples(tasks.load("nsmc"), local)
    out = tmp_path / "out"
    out.mkdir()
    features.run(spec.features(), {"model": model, **inputs}, out, runtime)
    with pytest.raises(ValueError, match=r"ratings_train\.txt: not fetched"):
        stage.run(spec, {"model": model}, out, runtime)


def test_a_file_that_is_also_removed_from_the_corpus_is_fetched_once(site: tuple[str, Path], tmp_path: Path) -> None:
    url, root = site
    (root / "ratings_test.txt").write_text(f"id\tdocument\tlabel\n1\t{REVIEW}\t1\n", "utf-8")
    digest = hashlib.sha256((root / "ratings_test.txt").read_bytes()).hexdigest()
    recipe_with(tmp_path, url, {"train": DIGEST, "test": digest})
    recipe = tmp_path / "remote.toml"
    place = f'{{ url = "{url}/ratings_test.txt", sha256 = "{digest}", private_hosts = ["127.0.0.1"] }}'
    text, changed = re.subn(r'path = "[^"]*nsmc_test\.txt"', f"path = {place}", recipe.read_text("utf-8"))
    recipe.write_text(text, "utf-8")
    prepared = recipes.prepare(recipe, Store(tmp_path / "store"))
    nodes, (advice,) = prepared.nodes, [stage.advice for stage in prepared.planned if stage.label == "dedup"]
    label = nodes["dedup"].inputs["decontaminate.0"]
    assert changed == 1 and label == nodes["features/nsmc"].inputs["test"] and "benchmark/nsmc/test" not in nodes
    assert "nsmc" not in advice
    runtime = Runtime(store=tmp_path / "store", workers=1)
    fetched = build(nodes[label].stage, nodes[label].spec, {}, runtime).artifact
    pages = [{"text": f"{prose(1, 9)}\n누가 말했다. {REVIEW} 라고."}, {"text": prose(2, 9)}]
    (tmp_path / "pages.jsonl").write_text("".join(f"{json.dumps(page)}\n" for page in pages), "utf-8")
    source = ExtractSpec.model_validate({"source": "x", "format": "jsonl", "paths": [str(tmp_path / "pages.jsonl")]})
    documents = build(extract.STAGE, source, {}, runtime).artifact
    spec = nodes["dedup"].spec
    assert isinstance(spec, dedup.DedupSpec)
    built = build(dedup.STAGE, spec, {"x": documents, "decontaminate.0": fetched}, runtime).artifact
    (row,) = dropped_rows(built.path)
    assert row["rule"].startswith("nsmc-test: ") and built.stats["documents_out"] == 1
    assert [row["text"][start:end] for start, end in text_spans(built, row)] == [REVIEW]
    with pytest.raises(ValueError, match=r"ratings_test\.txt: not fetched"):
        dedup.run(spec, {"x": documents}, tmp_path, runtime)


def test_another_file_behind_the_url_is_refused(site: tuple[str, Path], tmp_path: Path, sample_dir: Path) -> None:
    url, root = site
    shutil.copy(sample_dir / "nsmc_test.txt", root / "ratings_train.txt")
    node = recipe_with(tmp_path, url, {"train": DIGEST, "test": DIGEST})["benchmark/nsmc/train"]
    with pytest.raises(FetchError, match=rf"ratings_train\.txt: sha256 is [0-9a-f]+ .* expected {DIGEST}"):
        build(node.stage, node.spec, {}, TrainingRuntime(store=tmp_path / "store"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('{ url = "https://a.example/x.txt" }', r"field 'train.sha256' is missing"),
        ('{ url = "https://a.example/x.txt", sha256 = "12" }', r"field 'train.sha256': String should match"),
        ('{ url = "ftp://a.example/x.txt", sha256 = "%s" }', r"field 'train.url': String should match"),
        ('{ url = "https://a.example/x", sha256 = "%s", md5 = "" }', r"unknown field 'train.md5'.*valid: url, sha256, name"),
        ("5", r"field 'train': expected the path"),
        ('"none.txt"', r"no such file or directory: .*none\.txt; NSMC comes from github.com/e9t/nsmc, CC0 1\.0"),
    ],
)
def test_a_wrong_path_is_reported_with_table_and_field(tmp_path: Path, sample_dir: Path, table: str, message: str) -> None:
    text = TINY.read_text("utf-8").replace("../../data_specs", str(TINY.parents[2] / "data_specs"))
    wanted = f'train = "{sample_dir}/nsmc_train.txt"'
    assert wanted in text
    (tmp_path / "wrong.toml").write_text(text.replace(wanted, f"train = {table.replace('%s', DIGEST)}"), "utf-8")
    with pytest.raises(RecipeError, match=rf"\[finetune\.nsmc\].*{message}"):
        recipes.load(tmp_path / "wrong.toml")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ('{ url = "https://a.example/x.txt" }', r"field 'decontaminate\.0\.path\.sha256' is missing"),
        ('{ url = "https://a.example/x", sha256 = "%s", md5 = "" }', r"unknown field .*path\.md5'.*valid: url, sha256, name"),
        ("5", r"field 'decontaminate\.0\.path': expected the path"),
        ('"none.txt"', r"none\.txt; NSMC comes from github.com/e9t/nsmc, CC0 1\.0; name a URL with its sha256"),
    ],
)
def test_a_wrong_path_of_a_removed_file_is_reported_likewise(tmp_path: Path, path: str, message: str) -> None:
    text = TINY.read_text("utf-8").replace("../../data_specs", str(TINY.parents[2] / "data_specs"))
    text, changed = re.subn(r'path = "[^"]*nsmc_test\.txt"', f"path = {path.replace('%s', DIGEST)}", text)
    (tmp_path / "wrong.toml").write_text(text, "utf-8")
    with pytest.raises(RecipeError, match=rf"\[dedup\].*{message}"):
        recipes.load(tmp_path / "wrong.toml")
    assert changed == 1


def test_a_missing_file_is_named_with_its_origin(tmp_path: Path) -> None:
    spec = FinetuneSpec(task="korquad", train=tmp_path / "gone.json", test=tmp_path / "gone.json")
    with pytest.raises(FileNotFoundError, match=r"gone\.json: no such file; KorQuAD1\.0 comes from korquad.*CC BY-ND 2\.0 KR"):
        read_examples(tasks.load("korquad"), spec)


@pytest.mark.parametrize("name", tasks.names())
def test_every_task_names_origin_and_license_of_its_files(name: str) -> None:
    origin = tasks.load(name).origin
    assert "." in origin.split(",")[0].split(";")[0]
    assert any(word in origin for word in ("CC", "MIT", "license", "rights", "research"))


def test_a_checksum_has_the_digits_of_sha256() -> None:
    with pytest.raises(ValidationError, match="sha256"):
        RemoteFile(url="https://a.example/x", sha256="f" * 63)
