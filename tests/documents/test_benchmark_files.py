"""A benchmark file is the one that is named, exactly, and there is only one of it."""

from __future__ import annotations

import tarfile
import unicodedata
from pathlib import Path

import pytest

from korealbert.documents.benchmark_files import BenchmarkFile
from tests.archives import tar, zipped


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_member_is_found_by_its_exact_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a::b.{kind}"
    members = {".hidden/dev.tsv": b"one", "./[1] *.tsv": b"two", "c::d.tsv": b"three", "._dev.tsv": b"finder"}
    path.write_bytes(tar(members) if kind == "tar" else zipped(members))
    for name, content in list(members.items())[:3]:
        assert BenchmarkFile(path, name).content() == content
        assert BenchmarkFile(path, name.removeprefix("./")).content() == content
    with pytest.raises(ValueError, match=r"e\.tsv: the archive has no such member; it holds \[1\] \*\.tsv, c::d\.tsv\Z"):
        BenchmarkFile(path, "e.tsv").content()


def test_a_plain_file_may_have_the_mark_of_members_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a::b.tsv").write_bytes(b"one")
    assert BenchmarkFile(tmp_path / "a::b.tsv").content() == b"one"


def test_a_member_that_an_archive_holds_twice_is_refused(tmp_path: Path) -> None:
    """`tar -r` adds the new version of a file behind the old one."""
    path, new = tmp_path / "a.tar", tmp_path / "new"
    path.write_bytes(tar({"dev.tsv": b"old", "test.tsv": b"one"}))
    new.write_bytes(b"new")
    with tarfile.open(path, "a") as archive:
        archive.add(new, "./dev.tsv")
    with pytest.raises(ValueError, match=r"a\.tar::dev\.tsv: the archive holds this member twice"):
        BenchmarkFile(path, "dev.tsv").content()
    assert BenchmarkFile(path, "test.tsv").content() == b"one"


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("typed", ["NFC", "NFD"])
def test_a_member_is_found_however_its_syllables_are_written(stored: str, typed: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({unicodedata.normalize(stored, "감정/시험.tsv"): b"one"}))  # type: ignore[arg-type]
    assert BenchmarkFile(path, unicodedata.normalize(typed, "감정/시험.tsv")).content() == b"one"  # type: ignore[arg-type]
