"""A full disk and a read-only store, on real small file systems mounted in the test's own namespace."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"

NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.fixture(scope="module", autouse=True)
def mounting() -> None:
    tried = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this kernel lets nobody mount in a user namespace: {tried.stderr.strip()}")


def in_namespace(tmp_path: Path, program: str) -> str:
    """Run a program on a tmpfs of 2 MB, ``disk``, which ``mount`` remounts."""
    (tmp_path / "disk").mkdir()
    file = tmp_path / "program.py"
    file.write_text(PREAMBLE + textwrap.dedent(program), "utf-8")
    mount = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" "$3" "$1"'
    command = [*NAMESPACE, "sh", "-c", mount, "sh", str(tmp_path / "disk"), sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


PREAMBLE = """
import subprocess, sys
from pathlib import Path
from korealbert.artifact import *
from korealbert.artifact.files import atomic_write
from korealbert.artifact.shards import map_shards

disk = Path(sys.argv[1])

class S(Spec):
    jobs: int = 20

done = []

def work(job, index, out_dir):
    done.append(job)
    atomic_write(out_dir / f"{index:05d}.bin", bytes([job]) * 90_000)
    return {"n": job}

def run(spec, inputs, out_dir, runtime):
    map_shards(work, range(spec.jobs), out_dir=out_dir, runtime=runtime, step="work")
    return {}

STAGE = Stage("fills", 1, S, run)
"""


def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    output = in_namespace(
        tmp_path,
        """
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_500_000))
        runtime = Runtime(store=disk / "store", workers=1)
        for attempt in range(2):
            try:
                build(STAGE, S(), {}, runtime, label="fills/here")
                raise SystemExit("there was room")
            except DiskFull as error:
                print(error)
        first = list(done)
        [partial] = (disk / "store").glob("*.partial")
        kept = sorted(p.name for p in partial.glob("*.bin"))
        assert len(kept) == 6, kept
        assert not list((disk / "store").rglob(".*.tmp")), "no half file"
        assert len(first) == 8, "the second try began where the first one ended"
        ballast.unlink()
        built = build(STAGE, S(), {}, runtime)
        assert done == [*first, *range(6, 20)]
        straight = build(STAGE, S(), {}, Runtime(store=Path(sys.argv[1]).parent / "other", workers=1)).artifact
        assert built.artifact.output_digest == straight.output_digest
        """,
    )
    for part in ("fills/here: the file system", str(tmp_path / "disk"), "is full", "korealbert gc", ".partial", "continues"):
        assert output.count(part) in (2, 4), output


def test_a_disk_that_is_full_to_the_last_block_is_named_too(tmp_path: Path) -> None:
    output = in_namespace(
        tmp_path,
        """
        import io
        from korealbert.artifact.maintenance import archive
        runtime = Runtime(store=disk / "store", workers=1)
        made = build(STAGE, S(jobs=3), {}, runtime).artifact
        packed = io.BytesIO()
        archive.export(made, packed)
        packed.seek(0)
        try:
            with (disk / "ballast").open("wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
        except OSError:
            pass
        assert build(STAGE, S(jobs=3), {}, runtime).cached
        other = Store(disk / "other")
        for write in (lambda: build(STAGE, S(jobs=4), {}, runtime), lambda: archive.import_archive(other, packed)):
            try:
                write()
                raise SystemExit("there was room")
            except DiskFull as error:
                print(error)
        (disk / "ballast").unlink()
        assert not build(STAGE, S(jobs=4), {}, runtime).cached
        """,
    )
    assert output.count("is full") == 2, output


def test_every_command_names_the_full_disk_and_spoils_no_page(tmp_path: Path) -> None:
    output = in_namespace(
        tmp_path,
        """
        from typer.testing import CliRunner
        from korealbert.flows.cli import app
        page = disk / "page.html"
        page.write_text("<!doctype html> an older page")
        made = build(STAGE, S(jobs=1), {}, Runtime(store=disk / "store", workers=1)).artifact
        with (disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                pass
        store = ["--store", str(disk / "store")]
        for arguments in (
            ["export", made.name, str(disk / "a.tar"), *store],
            ["new", str(disk / "mine")],
            ["diff", RECIPE, "small-sample", "--html", str(page), *store],
        ):
            sys.argv = ["korealbert", *arguments]
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 2, (arguments, result.output)
            print(result.output)
        assert page.read_text() == "<!doctype html> an older page"
        with (disk / "shown").open("wb") as shown:
            done = subprocess.run([sys.executable, "-m", "korealbert", "show", *store], stdout=shown, stderr=subprocess.PIPE)
        assert done.returncode == 2 and done.stderr.decode().startswith("korealbert show: "), done.stderr.decode()
        """.replace("RECIPE", repr(str(TINY))),
    )
    named = [f"korealbert {command}: the file system {tmp_path / 'disk'} is full" for command in ("export", "new", "diff")]
    assert [line.partition(" (")[0] for line in output.split("\n") if line] == named, output


def test_every_library_that_writes_is_understood(tmp_path: Path) -> None:
    output = in_namespace(
        tmp_path,
        """
        import sqlite3
        import numpy as np, polars as pl, pyarrow as pa, pyarrow.ipc, torch
        from safetensors.torch import save_file
        from korealbert.artifact.files import explaining_full_disk

        many = np.random.default_rng(0).integers(0, 1 << 60, 600_000)

        def arrow(path):
            table = pa.table({"x": many})
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)

        def database(path):
            with sqlite3.connect(path) as base:
                base.execute("create table t (x blob)")
                base.execute("insert into t values (?)", (many.tobytes(),))

        writers = {
            "python": lambda path: path.write_bytes(many.tobytes()),
            "arrow": arrow,
            "polars": lambda path: pl.LazyFrame({"x": many}).sink_ipc(path),
            "sqlite": database,
            "safetensors": lambda path: save_file({"x": torch.from_numpy(many)}, path),
            "torch": lambda path: torch.save(torch.from_numpy(many), path),
            "child": lambda path: (_ for _ in ()).throw(RuntimeError("rank 0: OSError: [Errno 28] No space left on device")),
        }
        for name, write in writers.items():
            try:
                with explaining_full_disk(name, disk):
                    write(disk / name)
                print(name, "wrote")
            except DiskFull as error:
                print(str(error)[:40])
            (disk / name).unlink(missing_ok=True)
        try:
            with explaining_full_disk("other", disk):
                raise ValueError("a bad value")
        except ValueError as error:
            assert not isinstance(error, DiskFull)
        """,
    )
    lines = output.splitlines()
    parts = ["python", "arrow", "polars", "sqlite", "safetensors", "torch", "child"]
    assert [line.partition(":")[0] for line in lines] == parts, output
    assert all("the file system" in line for line in lines), output


def test_a_run_that_cannot_be_recorded_names_the_full_disk(tmp_path: Path) -> None:
    output = in_namespace(
        tmp_path,
        """
        from korealbert.artifact import locks
        store = Store(disk / "store").make()
        with open(disk / "ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                pass
        try:
            with locks.recorded(store.root, Path("x.toml"), None, {}):
                raise SystemExit("recorded on a full disk")
        except DiskFull as error:
            print(error)
        """,
    )
    assert output.startswith("run: the file system") and "korealbert gc" in output, output


def test_a_store_that_may_only_be_read_serves_what_it_holds(tmp_path: Path) -> None:
    output = in_namespace(
        tmp_path,
        """
        import io
        from korealbert.artifact import locks
        from typer.testing import CliRunner
        from korealbert.artifact.maintenance import archive, garbage
        from korealbert.flows.cli import app
        runtime = Runtime(store=disk / "store", workers=1)
        made = build(STAGE, S(jobs=3), {}, runtime).artifact
        with locks.recorded(disk / "store", Path("x.toml"), None, {"fills": made.name}):
            pass
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert build(STAGE, S(jobs=3), {}, runtime).cached
        with locks.recorded(disk / "store", Path("y.toml"), None, {"fills": made.name}):
            pass
        archive.export(made, io.BytesIO())
        for rerun, jobs in ((True, 3), (False, 4)):
            try:
                build(STAGE, S(jobs=jobs), {}, runtime, rerun=rerun)
                raise SystemExit("wrote to a read-only store")
            except ReadOnlyStore as error:
                print(error)
        for command, status in (("verify", 0), ("show", 0), ("gc", 0), ("import", 2)):
            arguments = [command, "--store", str(disk / "store")] + ([__file__] if command == "import" else [])
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == status, (command, result.output)
        refused = CliRunner().invoke(app, ["gc", "--delete", "--store", str(disk / "store")])
        assert refused.exit_code == 2 and "may only be read" in refused.output, refused.output
        refused = CliRunner().invoke(app, ["run", RECIPE, "--until", "extract", "--store", str(disk / "store")])
        assert refused.exit_code == 2 and "store may only be read" in refused.output, refused.output
        """.replace("RECIPE", repr(str(TINY))),
    )
    assert output.count("store may only be read (Read-only file system); mount it writable") == 2, output
