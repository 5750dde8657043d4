"""Export and import give the same digests elsewhere, and a hostile archive can do nothing."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from korealbert.artifact import Artifact, ArtifactError, Store
from korealbert.artifact.files import digest_of_listing, digested_json, sha256_of_file, write_digested
from korealbert.artifact.maintenance import archive
from korealbert.flows.cli import app
from tests.artifact.conftest import three

EVIL = str(Path(tempfile.gettempdir()) / "evil.txt")
Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def packed(built: dict[str, Artifact], tmp_path: Path) -> bytes:
    stream = io.BytesIO()
    archive.export(built["book"], stream)
    return stream.getvalue()


def bring(content: bytes, store: Path) -> dict[str, bool]:
    return archive.import_archive(Store(store), io.BytesIO(content))


def test_an_artifact_travels_with_its_lineage_and_keeps_its_digests(
    built: dict[str, Artifact], packed: bytes, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    assert bring(packed, elsewhere) == {each.name: True for each in built.values()}
    assert bring(packed, elsewhere) == {each.name: False for each in built.values()}
    store = Store(elsewhere)
    for each in built.values():
        found = store.find(each.name)
        assert found is not None and found.output_digest == each.output_digest and store.verify(found) == []
        assert (found.path / "한글 이름.txt").read_bytes() == (each.path / "한글 이름.txt").read_bytes()
    assert {a.name for a in three(elsewhere).values()} == {a.name for a in built.values()}
    assert sorted(path.name for path in elsewhere.glob(".import*")) == []
    again = io.BytesIO()
    archive.export(Artifact(built["book"].name, elsewhere / built["book"].name), again)
    assert again.getvalue() == packed, "equal artifacts, equal archives"


def test_nothing_is_shown_before_all_of_it_was_right(built: dict[str, Artifact], packed: bytes, tmp_path: Path) -> None:
    for cut in (0, 100, 512, 3000, len(packed) // 2, len(packed) - 20000 if len(packed) > 30000 else len(packed) * 3 // 4):
        with pytest.raises(ArtifactError):
            bring(packed[:cut], tmp_path / "elsewhere")
        assert [p.name for p in (tmp_path / "elsewhere").iterdir() if not p.name.startswith(".")] == []


def repacked(content: bytes, change: Callable[[Members], Members | None]) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = [(member, (f.read() if (f := tar.extractfile(member)) else b"")) for member in tar]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for member, data in change(members) or members:
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def first_file(members: Members) -> tarfile.TarInfo:
    return next(member for member, _ in members if member.name.endswith("out.txt"))


def named(name: str) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        first_file(members).name = name

    return change


def of_type(kind: bytes, link: str = "") -> Callable[[Members], None]:
    def change(members: Members) -> None:
        member = first_file(members)
        member.type, member.linkname = kind, link

    return change


def exchange(members: Members, at: int, content: bytes) -> None:
    members[at][0].size = len(content)
    members[at] = (members[at][0], content)


def with_manifest(alter: Callable[[dict[str, Any]], object]) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        at = next(n for n, (member, _) in enumerate(members) if member.name.endswith("/manifest.json"))
        manifest = json.loads(members[at][1])
        alter(manifest)
        del manifest["digest"]
        exchange(members, at, digested_json(manifest))

    return change


def in_manifest(key: str, value: object) -> Callable[[Members], None]:
    return with_manifest(lambda manifest: manifest.update({key: value}))


def naming(*files: str) -> Callable[[Members], None]:
    return with_manifest(lambda manifest: manifest.update(files=dict.fromkeys(files, next(iter(manifest["files"].values())))))


def index(content: bytes) -> Callable[[Members], None]:
    return lambda members: exchange(members, 0, content)


HOSTILE = {
    "climbs out": named("../../evil.txt"),
    "is absolute": named(EVIL),
    "symbolic link": of_type(tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": of_type(tarfile.LNKTYPE, "../../evil.txt"),
    "device": of_type(tarfile.CHRTYPE),
    "fifo": of_type(tarfile.FIFOTYPE),
    "directory": of_type(tarfile.DIRTYPE),
    "manifest names a path above": naming("../../evil.txt"),
    "manifest names an absolute path": naming(EVIL),
    "manifest names itself": naming("manifest.json"),
    "manifest names a hidden file": naming(".opening.json"),
    "manifest names nothing": naming(""),
    "manifest names a new line": naming("a\nb"),
    "manifest names itself a directory": naming("manifest.json/x"),
    "manifest names too much": naming("가" * 86),
    "manifest names a path too deep": naming("/".join(["abc"] * 300)),
    "manifest names a file within a file": naming("a", "a/b"),
    "manifest of another recipe": in_manifest("recipe", {"stage": "x", "version": 1, "spec": {}, "inputs": {}}),
    "manifest without recipe": in_manifest("recipe", 3),
    "manifest of another name": in_manifest("name", "words-0123456789abcdef"),
    "manifest with inputs from elsewhere": in_manifest("inputs", {"x": "words-0123456789abcdef"}),
    "manifest of other statistics": in_manifest("stats", {"documents_in": 1, "dropped": []}),
    "manifest of words as statistics": in_manifest("stats", {"documents_in": "x", "documents_out": 1, "quarantined": None}),
    "manifest of lost documents": in_manifest("stats", {"documents_in": 2, "documents_out": 1}),
    "manifest of another digest": in_manifest("output_digest", "0" * 64),
    "index no JSON": index(b"{"),
    "index nested": index(b"[" * 100000),
    "index of another format": index(b'{"format": 2, "artifacts": {}}'),
    "index names a path": index(b'{"format": 1, "artifacts": {"../x": "0"}}'),
    "index lists too little": index(b'{"format": 1, "artifacts": {"words-0123456789abcdef": "0"}}'),
    "a file too many": lambda members: [*members, (tarfile.TarInfo("book-0123456789abcdef/more.txt"), b"")],
    "a file too few": lambda members: members[:-1],
    "files in another order": lambda members: [*members[:2], *members[3:1:-1], *members[4:]],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_leaves_nothing_anywhere(what: str, packed: bytes, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    store = tmp_path / "deep" / "er" / "elsewhere"
    with pytest.raises(ArtifactError, match=r"^not a whole archive .*; copy it again, or export again") as refused:
        bring(repacked(packed, HOSTILE[what]), store)
    assert ".import-" not in str(refused.value), "no path of the staging directory, which is gone"
    left = {path for path in set(tmp_path.rglob("*")) - before if path.is_file() or path.is_symlink()}
    assert left == set(), left
    assert not Path(EVIL).exists()


def test_an_index_that_gives_a_field_twice_is_refused(packed: bytes, tmp_path: Path) -> None:
    def doubled(members: Members) -> None:
        index(members[0][1].replace(b'"format": 1,', b'"format": 1, "format": 1,'))(members)

    with pytest.raises(ArtifactError, match="the field 'format' is given twice"):
        bring(repacked(packed, doubled), tmp_path / "elsewhere")


def test_a_flipped_byte_is_named(packed: bytes, tmp_path: Path) -> None:
    at = packed.rindex("가나다".encode())
    broken = packed[:at] + "나나다".encode() + packed[at + 9 :]
    with pytest.raises(ArtifactError, match="another sha256"):
        bring(broken, tmp_path / "elsewhere")


def test_a_promise_of_more_than_the_disk_holds_is_refused_before_it_is_read(packed: bytes, tmp_path: Path) -> None:
    huge = with_manifest(lambda manifest: next(iter(manifest["files"].values())).update(size=1 << 60))
    with pytest.raises(OSError, match="MB free"):
        bring(repacked(packed, huge), tmp_path / "elsewhere")
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    with pytest.raises(ArtifactError, match="header of"):
        bring(header.tobuf() + b"\0" * 1024, tmp_path / "elsewhere")
    common = tarfile.TarInfo("././@PaxHeader")
    common.type = tarfile.XGLTYPE
    with pytest.raises(ArtifactError, match="more than 16 extended headers in a row"):
        bring(common.tobuf() * 500, tmp_path / "elsewhere")
    sparse = tarfile.TarInfo("korealbert.json")
    sparse.type = tarfile.GNUTYPE_SPARSE
    with pytest.raises(ArtifactError):
        bring(sparse.tobuf() + b"\0" * 1024, tmp_path / "elsewhere")


def rebuilt(directory: Path) -> None:
    """Give an artifact other bytes, as another machine might."""
    manifest = dict(Artifact(directory.name, directory).manifest)
    (directory / "part" / "out.txt").write_text("다른 기계", "utf-8")
    for name, entry in manifest["files"].items():
        entry |= {"sha256": sha256_of_file(directory / name), "size": (directory / name).stat().st_size}
    manifest["output_digest"] = digest_of_listing({name: entry["sha256"] for name, entry in manifest["files"].items()})
    write_digested(directory / "manifest.json", manifest)


def test_other_bytes_under_one_name_are_neither_overwritten_nor_mixed(
    built: dict[str, Artifact], packed: bytes, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    bring(packed, elsewhere)
    words = elsewhere / built["words"].name
    rebuilt(words)
    with pytest.raises(ArtifactError, match="with other bytes"):
        bring(packed, elsewhere)
    (words / "part" / "out.txt").write_text("부서졌다", "utf-8")
    assert bring(packed, elsewhere)[built["words"].name], "a damaged one is replaced"


def test_an_export_of_a_damaged_or_broken_lineage_fails(built: dict[str, Artifact]) -> None:
    victim = built["lines"].path / "part" / "out.txt"
    whole = victim.read_bytes()
    for damage in (whole[:-1], whole + b"x", whole.replace("가".encode(), "나".encode())):
        victim.write_bytes(damage)
        with pytest.raises(ArtifactError, match="rebuild"):
            archive.export(built["book"], io.BytesIO())
    victim.write_bytes(whole)
    rebuilt(built["words"].path)
    book = Artifact(built["book"].name, built["book"].path)
    with pytest.raises(
        ArtifactError, match=r"lines-\w+: input words \(words-\w+\) was rebuilt with other bytes.*; run its stage again"
    ):
        archive.export(book, io.BytesIO())
    shutil.rmtree(built["words"].path)
    with pytest.raises(ArtifactError, match="needs all inputs; run its stage again"):
        archive.export(built["book"], io.BytesIO())


def test_the_commands(built: dict[str, Artifact], tmp_path: Path) -> None:
    store, other, file = str(tmp_path / "store"), str(tmp_path / "other"), str(tmp_path / "book.tar")
    run = CliRunner().invoke
    exported = run(app, ["export", "book", file, "--store", store])
    assert exported.exit_code == 0, exported.output
    assert run(app, ["export", "book", file, "--store", store]).exit_code == 2, "never overwrites"
    brought = run(app, ["import", file, "--store", other])
    assert brought.exit_code == 0 and brought.output.count("imported") == 3
    assert (tmp_path / "other" / ".digests").is_dir(), "as in any store"
    assert run(app, ["verify", "--store", other]).exit_code == 0
    wrong = run(app, ["import", __file__, "--store", other])
    assert wrong.exit_code == 2 and __file__ in wrong.output and "plain tar" in wrong.output
    assert run(app, ["import", str(tmp_path / "none.tar"), "--store", other]).exit_code == 2
    piped = [sys.executable, "-m", "korealbert"]
    packed = subprocess.run([*piped, "export", "book", "-", "--store", store], capture_output=True, check=True).stdout
    assert packed == Path(file).read_bytes()
    subprocess.run([*piped, "import", "-", "--store", str(tmp_path / "third")], input=packed, check=True)
