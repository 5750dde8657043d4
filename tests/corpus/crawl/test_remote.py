"""Fetches and sends files with fsspec's store in memory."""

from __future__ import annotations

import importlib.util
import json
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pydantic import ValidationError

from korealbert.artifact import Artifact, InputPath, Runtime, build
from korealbert.corpus.crawl import remote
from korealbert.corpus.crawl.fetch import STAGE, FetchError, FetchSpec, Interrupted
from korealbert.corpus.extract import STAGE as EXTRACT
from korealbert.corpus.extract import ExtractSpec
from tests.archives import zipped
from tests.corpus.extracting import read_back


@pytest.fixture
def bucket() -> str:
    """Return the address of an empty directory."""
    return f"memory://{uuid.uuid4().hex}"


def put(address: str, content: bytes) -> None:
    with fsspec.open(address, "wb") as sink:
        sink.write(content)


def fetch(directory: Path, url: str, **fields: Any) -> Artifact:
    spec = FetchSpec.model_validate({"url": url, "backoff_seconds": 0.0, "retries": 2, **fields})
    return build(STAGE, spec, {}, Runtime(store=directory / "store")).artifact


def record(text: str) -> bytes:
    return (json.dumps({"text": text}, ensure_ascii=False) + "\n").encode()


def test_a_directory_a_pattern_and_a_file(tmp_path: Path, bucket: str) -> None:
    for name, text in {"web/a.jsonl": "하나", "web/2024/b.jsonl": "둘", "web/README.md": "셋"}.items():
        put(f"{bucket}/{name}", record(text))
    everything = fetch(tmp_path, f"{bucket}/web")
    assert [file.name for file in everything.files("files/*")] == ["2024_b.jsonl", "README.md", "a.jsonl"]
    assert everything.stats == {"files": 3, "bytes": sum(file.stat().st_size for file in everything.files("files/*"))}
    found = fetch(tmp_path, f"{bucket}/web/**/*.jsonl")
    assert {file.name for file in found.files("files/*")} == {"2024_b.jsonl", "a.jsonl"}
    assert [file.name for file in fetch(tmp_path, f"{bucket}/web/a.jsonl", name="x.jsonl").files("files/*")] == ["x.jsonl"]
    spec = ExtractSpec.model_validate({"source": "web", "format": "jsonl"})
    documents = read_back(build(EXTRACT, spec, {"fetch": found}, Runtime(store=tmp_path / "store")).artifact).documents
    assert sorted(one.text for one in documents) == ["둘", "하나"]


def test_members_and_exclude_select_fetched_files(tmp_path: Path, bucket: str) -> None:
    """A test part that a recipe excludes must not be read."""
    for name in ("train.jsonl", "test.jsonl", "readme.txt"):
        put(f"{bucket}/{name}", record(name))
    put(f"{bucket}/more.zip", zipped({"train-2.jsonl": record("train-2.jsonl"), "test-2.jsonl": record("test-2.jsonl")}))
    fetched = {"fetch": fetch(tmp_path, bucket)}

    def texts(**fields: Any) -> list[str]:
        spec = ExtractSpec.model_validate({"source": "web", "format": "jsonl", **fields})
        return sorted(
            one.text for one in read_back(build(EXTRACT, spec, fetched, Runtime(store=tmp_path / "store")).artifact).documents
        )

    assert texts(exclude=["test*"]) == texts(members="train*") == ["train-2.jsonl", "train.jsonl"]
    assert texts(members="*.txt") == ["readme.txt"]


def test_a_hidden_file_is_not_lost(tmp_path: Path, bucket: str) -> None:
    """Hidden files of a stage are temporary, and are removed when it is sealed."""
    put(f"{bucket}/.a.jsonl", record("하나"))
    with pytest.raises(FetchError, match="set name"):
        fetch(tmp_path, f"{bucket}/.a.jsonl")
    assert [file.name for file in fetch(tmp_path, f"{bucket}/.a.jsonl", name="a.jsonl").files("files/*")] == ["a.jsonl"]


def test_hidden_files_below_a_directory_are_left_out_and_named_ones_are_not(tmp_path: Path, bucket: str) -> None:
    for name in (".gitattributes", "a.jsonl", "data/.hidden.jsonl", ".cache/b.jsonl"):
        put(f"{bucket}/{name}", record(name))
    assert [file.name for file in fetch(tmp_path, bucket).files("files/*")] == ["a.jsonl"]
    with pytest.raises(FetchError, match="hidden"):
        fetch(tmp_path, f"{bucket}/data/.*.jsonl")
    assert [file.name for file in fetch(tmp_path, f"{bucket}/.cache").files("files/*")] == ["b.jsonl"]


def test_what_changes_meanwhile_is_refused(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(f"{bucket}/a.jsonl", record("하나"))
    put(f"{bucket}/b.jsonl", record("둘"))
    copy = remote._copy

    def copy_and_change(system: Any, path: str, target: Path, most: int) -> None:
        copy(system, path, target, most)
        if path.endswith("b.jsonl"):
            put(f"{bucket}/a.jsonl", record("새로"))

    monkeypatch.setattr(remote, "_copy", copy_and_change)
    with pytest.raises(FetchError, match="files changed while they were fetched; run again"):
        fetch(tmp_path, bucket)
    monkeypatch.undo()
    assert "새로" in fetch(tmp_path, bucket).files("files/a.jsonl")[0].read_text("utf-8")


def test_it_goes_on_where_it_broke_off(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        put(f"{bucket}/{name}.jsonl", record(name))
    opened: list[str] = []
    real = MemoryFileSystem.open

    def open_unless(self: MemoryFileSystem, path: str, *arguments: Any, **named: Any) -> Any:
        opened.append(path[-7:])
        if path.endswith("b.jsonl") and len(opened) < 5:
            raise ConnectionResetError("https://secret:token@store")
        return real(self, path, *arguments, **named)

    monkeypatch.setattr(MemoryFileSystem, "open", open_unless)
    with pytest.raises(Interrupted, match="ConnectionResetError; 3 tries brought nothing") as failed:
        fetch(tmp_path, bucket)
    assert "token" not in str(failed.value)
    opened += ["x"]
    assert len(fetch(tmp_path, bucket).files("files/*")) == 3
    assert opened.count("a.jsonl") == 1


@pytest.mark.parametrize(
    "kind", ["ConnectError", "ConnectTimeout", "EndpointConnectionError", "gaierror", "ClientConnectorDNSError"]
)
def test_without_a_network_it_ends_soon_and_says_what_was_tried(
    kind: str, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    def fails(*_: object) -> None:
        wait(0.5)
        raise type(kind, (OSError,), {})("https://secret:token@store")

    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=wait))
    monkeypatch.setattr(remote, "_listed", fails)
    with pytest.raises(
        FetchError, match=rf"the store was not reached in \d tries \({kind}\): check the address, and"
    ) as failed:
        fetch(tmp_path, bucket, backoff_seconds=2.0, retries=8)
    assert clock[0] <= 15 and "token" not in str(failed.value)


def test_what_is_not_there_or_too_large(tmp_path: Path, bucket: str) -> None:
    with pytest.raises(FetchError, match="there is no such file, or none that the pattern matches"):
        fetch(tmp_path, f"{bucket}/none/*.jsonl")
    put(f"{bucket}/a.jsonl", record("하나") * 100)
    with pytest.raises(FetchError, match="more than max_bytes = 10"):
        fetch(tmp_path, bucket, max_bytes=10)
    put(f"{bucket}/b_c.jsonl", b"1")
    put(f"{bucket}/b/c.jsonl", b"1")
    with pytest.raises(FetchError, match="two files have one name"):
        fetch(tmp_path, bucket)


@pytest.mark.skipif(importlib.util.find_spec("s3fs") is not None, reason="s3fs is installed")
def test_a_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="s3:// needs s3fs, which is not installed: pip install s3fs"):
        fetch(tmp_path, "s3://bucket/a.jsonl")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "simplecache::s3://a/b", "s3://key:secret@bucket/a", "local://a"])
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        FetchSpec.model_validate({"url": url})


def test_an_address_is_no_path() -> None:
    with pytest.raises(ValidationError, match=r"an address is no path; name it as url in \[fetch.SOURCE\]"):
        ExtractSpec.model_validate({"source": "web", "format": "jsonl", "paths": ["s3://bucket/a.jsonl"]})
    assert InputPath("a/b").path == Path("a/b")


class NoCredentialsError(Exception):
    """Has the name of an error of botocore, which is no subclass of Python's errors."""


class RepositoryNotFoundError(OSError):
    """Has the name of an error of huggingface_hub."""


class HfHubHTTPError(OSError):
    """Is like the error of huggingface_hub after an invalid token."""

    response = SimpleNamespace(status_code=401)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            NoCredentialsError("key=secret"),
            r"access is denied \(NoCredentialsError\); check the credentials that fsspec finds",
        ),
        (FileNotFoundError("secret"), "there is no such file, or none that the pattern matches"),
        (RepositoryNotFoundError("secret"), "there is no such repository"),
        (caused(FileNotFoundError("secret"), RepositoryNotFoundError("secret")), "there is no such repository"),
        (HfHubHTTPError("secret"), r"access is denied \(HfHubHTTPError\); check the credentials that fsspec finds"),
        (NotImplementedError("secret"), r"fsspec cannot read this address \(NotImplementedError\); correct it"),
    ],
)
def test_what_no_retry_mends_is_told_at_once(
    error: Exception, message: str, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def failing(self: MemoryFileSystem, path: str, **named: Any) -> Any:
        tries.append(path)
        raise error

    monkeypatch.setattr(MemoryFileSystem, "find", failing)
    with pytest.raises(FetchError, match=message) as failed:
        fetch(tmp_path, bucket)
    assert len(tries) == 1 and "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("url", "hint"),
    [("hf://me/open", r"the address of a model: a dataset is hf://datasets/me/open$"), ("hf://datasets/me/open", "HF_TOKEN$")],
)
def test_an_address_of_the_hub_that_is_none_of_a_dataset_says_so(
    url: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_filesystem", lambda url: fsspec.filesystem("memory"))
    with pytest.raises(FetchError, match=f"there is no such file, or none that the pattern matches; .*{hint}"):
        fetch(tmp_path, url)


def test_a_directory_is_sent_again_after_a_broken_upload_and_over_nothing_else(tmp_path: Path) -> None:
    url = f"memory://{uuid.uuid4().hex}"
    (tmp_path / "data").mkdir()
    (tmp_path / "README.md").write_text("card")
    (tmp_path / "data" / "a.parquet").write_bytes(b"PAR1")
    for _ in range(2):
        remote.send(tmp_path, f"{url}/mine/")
    system = fsspec.filesystem("memory")
    assert sorted(one.partition("/mine/")[2] for one in system.find(f"{url}/mine")) == ["README.md", "data/a.parquet"]
    assert system.cat(f"{url}/mine/data/a.parquet") == b"PAR1"
    system.pipe(f"{url}/mine/theirs.txt", b"x")
    with pytest.raises(remote.FetchError, match=r"mine/ is there and holds other files .*theirs\.txt"):
        remote.send(tmp_path, f"{url}/mine/")
