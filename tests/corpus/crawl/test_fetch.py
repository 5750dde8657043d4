"""A dump is resumed, verified, and fetched from a private address only if it is named."""

from __future__ import annotations

import errno
import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from korealbert.artifact import Artifact, DiskFull, Runtime, build
from korealbert.corpus.crawl import fetch as fetching
from korealbert.corpus.crawl.client import NoAnswer
from korealbert.corpus.crawl.fetch import STAGE, FetchError, FetchSpec, Interrupted
from korealbert.corpus.extract import STAGE as EXTRACT
from korealbert.corpus.extract import ExtractSpec
from korealbert.documents.benchmark_files import RemoteFile
from tests.artifact.test_trust import Stopped, flip, stop_before_the_manifest
from tests.corpus.crawl.site import Answer, Asked, Page, Site, redirect, running, text
from tests.corpus.extracting import read_back

DATA = random.Random(5).randbytes(300_000)  # noqa: S311
SHA256 = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


def fetch(directory: Path, site: Site, path: str = "/dump.bin", **fields: Any) -> Artifact:
    spec = {"url": site.root + path, "private_hosts": ["127.0.0.1"], "backoff_seconds": 0.0, "timeout_seconds": 5.0, **fields}
    return build(STAGE, FetchSpec.model_validate(spec), {}, Runtime(store=directory / "store")).artifact


def fetched(directory: Path, site: Site, **fields: Any) -> bytes:
    return fetch(directory, site, **fields).files("files/*")[0].read_bytes()


def serving(
    data: bytes = DATA, *, etag: str | None = '"v1"', cut_at: int | None = None, ranges: bool = True
) -> Callable[[Asked], Answer]:
    """A server of one file, which closes the first connection after ``cut_at`` bytes."""

    def answer(asked: Asked) -> Answer:
        headers = (("ETag", etag),) if etag else ()
        start = 0
        wanted = asked.headers.get("range")
        if wanted and ranges and asked.headers.get("if-range") == etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                return Answer(b"", 416, headers=(("Content-Range", f"bytes */{len(data)}"),))
            headers += (("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}"),)
        cut = cut_at if asked.times == 1 else None
        return Answer(data[start:], 206 if start else 200, "application/octet-stream", headers, sent_bytes=cut)

    return answer


def break_off(directory: Path, site: Site) -> None:
    """Run a fetch that stops after 100,000 bytes."""
    page = serving(cut_at=100_000)
    site.pages["/dump.bin"] = lambda asked: page(asked) if asked.times == 1 else text("", 503)
    with pytest.raises(Interrupted, match="2 tries in a row"):
        fetch(directory, site, retries=1)
    site.pages["/dump.bin"] = serving()


def test_it_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    asked: list[str | None] = []

    def recording(request: Asked) -> Answer:
        asked.append(request.headers.get("range"))
        return serving(cut_at=100_000)(request)

    with running({"/dump.bin": recording}) as site:
        artifact = fetch(tmp_path, site, checksum=SHA256)
    assert artifact.files("files/*")[0].name == "dump.bin"
    assert artifact.files("files/*")[0].read_bytes() == DATA
    assert asked == [None, "bytes=100000-"]


@pytest.mark.parametrize(
    "page", [serving(cut_at=100_000, etag=None), serving(cut_at=100_000, ranges=False), serving(cut_at=9, etag='W/"v1"')]
)
def test_it_begins_anew_where_it_cannot_go_on(page: Page, tmp_path: Path) -> None:
    with running({"/dump.bin": page}) as site:
        assert fetched(tmp_path, site) == DATA


def test_another_edition_is_not_glued_to_the_first(tmp_path: Path) -> None:
    new = DATA[::-1]

    def changing(asked: Asked) -> Answer:
        page = serving(cut_at=100_000) if asked.times == 1 else serving(new, etag='"v2"')
        return page(asked)

    with running({"/dump.bin": changing}) as site:
        assert fetched(tmp_path, site) == new


def test_a_server_that_ignores_if_range_gets_no_edition_glued_to_another(tmp_path: Path) -> None:
    new = DATA[::-1]

    def careless(asked: Asked) -> Answer:
        if asked.times == 1:
            return serving(cut_at=100_000)(asked)
        start = int(asked.headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        headers = (("ETag", '"v2"'), ("Content-Range", f"bytes {start}-{len(new) - 1}/{len(new)}"))
        return Answer(new[start:], 206 if start else 200, "application/octet-stream", headers)

    with running({"/dump.bin": careless}) as site:
        assert fetched(tmp_path, site) == new


def test_a_killed_fetch_is_resumed_by_the_next_run(tmp_path: Path) -> None:
    with running({}) as site:
        break_off(tmp_path, site)
        assert fetched(tmp_path, site, retries=1) == DATA


@pytest.mark.parametrize("victim", [".download", ".download.json"])
def test_a_part_that_changed_on_the_disk_is_fetched_again(victim: str, tmp_path: Path) -> None:
    with running({}) as site:
        break_off(tmp_path, site)
        [part] = tmp_path.glob(f"store/fetch-*.partial/{victim}")
        flip(part)
        assert fetched(tmp_path, site, retries=1) == DATA


def test_a_fetched_file_that_changed_before_the_seal_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running({"/dump.bin": serving()}) as site:
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            stop_before_the_manifest(patch)
            fetch(tmp_path, site)
        [came] = tmp_path.glob("store/fetch-*.partial/files/dump.bin")
        flip(came)
        assert fetched(tmp_path, site) == DATA


def test_killed_at_a_new_edition_it_keeps_nothing_of_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = DATA[::-1]
    with running({}) as site:
        break_off(tmp_path, site)
        site.pages["/dump.bin"] = serving(new, etag='"v2"')
        write = fetching.atomic_write

        def killed(path: Path, data: bytes) -> None:
            write(path, data)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(fetching, "atomic_write", killed)
            fetch(tmp_path, site, retries=1)
        assert fetched(tmp_path, site, retries=1) == new


def test_a_full_disk_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def failing(*_: object) -> bool:
        tries.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetching, "_transfer", failing)
    with running({}) as site, pytest.raises(DiskFull, match=r"fetch: the file system .* is full"):
        fetch(tmp_path, site)
    assert len(tries) == 1


def test_a_wrong_checksum_is_an_error(tmp_path: Path) -> None:
    with running({"/dump.bin": serving()}) as site:
        with pytest.raises(FetchError, match=r"md5 is .* over 300,000 bytes, expected 0000"):
            fetch(tmp_path, site, checksum="md5:" + "0" * 32)
        assert fetch(tmp_path, site, checksum="md5:" + hashlib.md5(DATA).hexdigest()).stats["bytes"] == len(DATA)  # noqa: S324


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (text("", 404), "answers 404"),
        (serving(), "more than max_bytes"),
        (redirect("ftp://a.example/x"), "less secure"),
        (redirect("http://[broken/"), "no address"),
        (redirect("http://a.example:99999/"), "no address"),
    ],
)
def test_what_no_retry_mends_is_an_error_at_once(page: Page, message: str, tmp_path: Path) -> None:
    with running({"/dump.bin": page}) as site:
        with pytest.raises(FetchError, match=message):
            fetch(tmp_path, site, max_bytes=1000)
        assert site.hits["/dump.bin"] == 1


def test_limits_hold_for_a_path_and_those_of_http_are_refused_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "dump.bin").write_bytes(DATA)
    spec = FetchSpec.model_validate({"path": str(tmp_path / "dump.bin"), "max_bytes": 1})
    with pytest.raises(FetchError, match="more than max_bytes = 1"):
        build(STAGE, spec, {}, Runtime(store=tmp_path / "store"))
    for place in ({"path": str(tmp_path / "dump.bin")}, {"url": "hf://datasets/a/b/c.txt"}):
        for limit in ({"timeout_seconds": 5.0}, {"private_hosts": ["a.example"]}):
            with pytest.raises(ValidationError, match="is for http:// and https:// alone"):
                FetchSpec.model_validate({**place, **limit})
    written = FetchSpec.model_validate({"url": "hf://datasets/a/b/c.txt"}).model_dump(mode="json")
    assert FetchSpec.model_validate(written).url == "hf://datasets/a/b/c.txt"  # a manifest names all fields


def test_redirects_without_end_are_given_up(tmp_path: Path) -> None:
    with running({"/dump.bin": redirect("/dump.bin")}) as site, pytest.raises(FetchError, match="more than 10 redirects"):
        fetch(tmp_path, site)


def test_private_addresses_must_be_named(tmp_path: Path) -> None:
    with running({"/dump.bin": serving()}) as site:
        site.pages["/moved"] = redirect(f"http://localhost:{site.port}/dump.bin")
        with pytest.raises(FetchError, match=r"127\.0\.0\.1 lies at the private address"):
            fetch(tmp_path, site, private_hosts=[])
        with pytest.raises(FetchError, match="localhost lies at the private address"):
            fetch(tmp_path, site, "/moved", name="dump.bin")
        assert not site.hits["/dump.bin"]
        assert fetch(tmp_path, site, "/moved", name="dump.bin", private_hosts=["127.0.0.1", "localhost"]).stats["bytes"] == len(
            DATA
        )


def test_a_local_file_takes_the_same_way_to_documents(tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text('{"title": "제목", "text": "본문이다."}\n', "utf-8")
    spec = FetchSpec.model_validate({"path": str(tmp_path / "news.jsonl")})
    runtime = Runtime(store=tmp_path / "store", workers=1)
    dump = build(STAGE, spec, {}, runtime).artifact
    extract = ExtractSpec.model_validate({"source": "news", "format": "news"})
    found = read_back(build(EXTRACT, extract, {"fetch": dump}, runtime).artifact)
    assert [document.text for document in found.documents] == ["본문이다."]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    spec = FetchSpec.model_validate({"path": str(tmp_path), "name": "x"})
    with pytest.raises(FetchError, match="names a directory; name one file"):
        build(STAGE, spec, {}, Runtime(store=tmp_path.parent / "store"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "url or path"),
        ({"url": "http://a.example/x", "path": "x"}, "url or path"),
        ({"url": "http://a.example/"}, "set name"),
        ({"url": "http://a.example/x", "checksum": "sha256:12"}, "hex digits"),
        ({"url": "ftp://a.example/x"}, "url"),
        ({"url": "http://a.example:99999/x"}, "Port out of range"),
        ({"url": "http://:80/x"}, "no host"),
    ],
)
def test_mistakes_are_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FetchSpec.model_validate(fields)


def test_without_a_network_it_ends_soon_and_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    def unreached(*_: object) -> None:
        wait(0.5)
        raise NoAnswer("unreachable", "Name or service not known")

    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=wait))
    monkeypatch.setattr(fetching, "_transfer", unreached)
    spec = FetchSpec.model_validate({"url": "https://dumps.example/a.xml.bz2"})
    with pytest.raises(FetchError, match=r"dumps\.example was not reached in \d tries \(.*Name or service not known\): check"):
        build(STAGE, spec, {}, Runtime(store=tmp_path / "store"))
    assert clock[0] <= 15


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///data/a.jsonl", r"file:// is a file of this machine: set path = \"…\" in place of url"),
        ("ftp://a.example/a.jsonl", "ftp:// is not fetched, but http, https"),
    ],
)
def test_an_address_that_is_not_fetched_is_told_what_to_do(url: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FetchSpec.model_validate({"url": url})


def test_a_benchmark_on_this_machine_is_a_path() -> None:
    with pytest.raises(ValidationError, match="write its path in place of the table"):
        RemoteFile.model_validate({"url": "file:///data/a.tsv", "sha256": "0" * 64})
