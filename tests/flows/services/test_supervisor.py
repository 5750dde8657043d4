"""The supervisor of a topology: what it restarts, what it keeps trying, and which records it does not trust."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from korealbert.artifact import Store
from korealbert.artifact.store import STORE_VARIABLE, default_store
from korealbert.flows.cli import app
from korealbert.flows.services.local_server import listen, name_services
from korealbert.flows.services.topology import ROOT, Service, Topology, down, up


@pytest.fixture
def topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Topology]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # before a service is started again
    with listen("127.0.0.1", 0) as listener:
        yield Topology(tmp_path, listener, tmp_path / "store")


@pytest.fixture
def services() -> Iterator[list[Service]]:
    """A database and its server, which do nothing."""
    database = Service("database", sleeper)
    made = [database, Service("server", sleeper, depends_on=database)]
    yield made
    for service in made:
        service.end()


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"])


def noted(topology: Topology) -> dict[str, int]:
    processes = json.loads((topology.home / "processes.json").read_text("utf-8"))
    return {name: processes[name] for name in ("database", "server")}


def died(service: Service) -> None:
    assert service.process is not None
    service.process.kill()
    service.process.wait()


def test_a_server_is_started_again_with_its_database_and_not_the_other_way_round(
    topology: Topology, services: list[Service]
) -> None:
    topology.tend(services)
    first = noted(topology)
    topology.tend(services)
    assert noted(topology) == first
    died(services[1])
    topology.tend(services)
    second = noted(topology)
    assert second["database"] == first["database"] and second["server"] != first["server"]
    died(services[0])
    topology.tend(services)
    assert not set(noted(topology).values()) & {*first.values(), *second.values()}


def test_what_cannot_be_started_or_noted_now_is_tried_again(
    topology: Topology, services: list[Service], capsys: pytest.CaptureFixture[str]
) -> None:
    topology.tend(services)
    first = noted(topology)
    start: Callable[[], subprocess.Popen[bytes]] = services[1].start

    def refused() -> subprocess.Popen[bytes]:
        raise BlockingIOError("Resource temporarily unavailable")

    services[1].start = refused
    died(services[0])
    topology.tend(services)
    assert "not everything could be started again: Resource temporarily unavailable" in capsys.readouterr().out
    services[1].start = start
    in_the_way = topology.home / "processes.json"
    in_the_way.unlink()
    in_the_way.mkdir()
    topology.tend(services)
    in_the_way.rmdir()
    topology.tend(services)
    assert not set(noted(topology).values()) & set(first.values())


def test_what_a_killed_supervisor_noted_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    home = tmp_path / "service"
    home.mkdir()
    (home / "processes.json").write_text('{"supervisor": 1}', "utf-8")
    (home / "database").write_text("no directory", "utf-8")
    with pytest.raises(SystemExit, match="the services did not start"):
        up(home, 0, tmp_path / "store")


def test_a_second_signal_while_services_end_leaves_none_of_them(
    topology: Topology, services: list[Service], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)

    def come_up(services: list[Service]) -> None:
        topology.tend(services)
        name_services(Path(".env"), topology.facts)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(topology, "_services", lambda: services)
    monkeypatch.setattr(topology, "_come_up", come_up)
    services[-1].stop = stopped
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with pytest.raises(SystemExit):
            topology.serve()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert all(service.process is not None and service.process.poll() is not None for service in services)
    assert not Path(".env").read_text("utf-8") and not (topology.home / "processes.json").exists()


def test_a_supervisor_that_fails_while_it_starts_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "supervisor.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            fcntl.flock(lock, fcntl.LOCK_UN)

        monkeypatch.setattr("time.sleep", sleep)
        down(tmp_path)
    assert slept == [1] and "nothing is up" in capsys.readouterr().out


def test_a_port_that_anything_listens_on_is_told_before_something_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            SystemExit, match=rf"port {port} of 127.0.0.1: it is taken by another program; name another one \(--port"
        ):
            up(tmp_path / "home", port, tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_commands_find_the_store_of_the_services_of_their_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    store, file = tmp_path / "저장소 1", tmp_path / ".env"
    Store(store).make()
    file.write_text("# mine\nCORPUS=/corpora", "utf-8")
    name_services(file, {STORE_VARIABLE: str(tmp_path / "another")})
    name_services(file, {STORE_VARIABLE: str(store)})
    assert file.read_text("utf-8") == f"# mine\nCORPUS=/corpora\n{STORE_VARIABLE}={store}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it holds a password beside"
    assert default_store() == store
    for written, meant in (('"/my store"', "/my store"), ("'a b'", "a b"), ("~/st", str(Path("~/st").expanduser()))):
        file.write_text(f"{STORE_VARIABLE}=/elsewhere\n{STORE_VARIABLE}={written}\nCORPUS=x\n", "utf-8")
        assert default_store() == Path(meant), "a shell reads the last line, without quotation marks"
    file.write_text(f"# mine\nCORPUS=/corpora\n{STORE_VARIABLE}={store}\n", "utf-8")

    def shown(*options: str, **environment: str) -> str:
        return CliRunner().invoke(app, ["show", *options], env=environment).output

    assert "no store" not in shown()
    assert shown("--store", "other").startswith("other: no store here")
    assert shown("--store", "store").startswith("store: no store here"), "also where that is the default"
    assert shown(KOREALBERT_STORE="third").startswith("third: no store here")
    down(tmp_path / "another installation, which is not up")
    assert default_store() == store
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / "processes.json").write_text(json.dumps({"supervisor": 1, "up": {STORE_VARIABLE: str(store)}}), "utf-8")
    down(killed)
    assert file.read_text("utf-8") == "# mine\nCORPUS=/corpora\n"
    assert shown().startswith("store: no store here")
