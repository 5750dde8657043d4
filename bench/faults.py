"""Real faults of a running installation, and how they are ended, in the bench's own namespaces."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psutil

from bench.installation import Installation
from bench.ray_nodes import RayNode

JUMP_SECONDS = 3600


def clock(file: Path) -> dict[str, str]:
    """Return the environment of processes whose wall clock is shifted by the offset in ``file``, which is read every second.

    Like on a machine whose clock is set, monotonic time and the times of files are not shifted.
    """
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise SystemExit("a clock that jumps needs libfaketime: pip install 'korealbert[bench]'")
    library = Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    file.write_text("+0", "utf-8")
    file.chmod(0o644)  # PostgreSQL may be another user's process.
    own = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1"}
    return {**own, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}


@dataclass(frozen=True)
class Fault:
    """One kind of fault."""

    strike: Callable[[], None]
    ready: Callable[[], bool] | None = None
    """The fault comes soon after this first returns True; None: at any moment of the run."""
    end: Callable[[], None] | None = None
    """Ends the fault when the run has failed, or after a minute; None: the fault does not last."""
    engine: str = "local"
    trains: bool = False
    """Whether the fault needs a recipe that trains."""
    before: Callable[[], None] = field(default=lambda: None)
    after: Callable[[], None] = field(default=lambda: None)


@dataclass
class Faults:
    """The faults of one installation, by name."""

    here: Installation
    clock_file: Path
    nodes: list[RayNode] = field(default_factory=list)

    def by_name(self) -> Mapping[str, Fault]:
        kill = self.here.kill

        def trained() -> bool:
            return self._rank() is not None

        return {
            "SIGKILL of the data worker": Fault(lambda: kill("data worker")),
            "SIGKILL of the training worker": Fault(lambda: kill("training worker"), trains=True),
            "SIGKILL of the server": Fault(lambda: kill("server")),
            "SIGKILL of the database": Fault(lambda: kill("database")),
            "SIGKILL of the run's process": Fault(lambda: self._kill(self._engine()), lambda: self._engine() is not None),
            "SIGKILL of a rank": Fault(lambda: self._kill(self._rank()), trained, trains=True),
            "SIGKILL of the launcher": Fault(lambda: self._kill(self._launcher()), trained, trains=True),
            "SIGKILL of a Ray node": Fault(
                self._lose_node,
                self._second_node_works,
                engine="auto",
                before=self._start_nodes,
                after=self._stop_nodes,
            ),
            "full disk": Fault(self._fill, end=self._empty),
            "read-only store": Fault(self._protect, end=lambda: self._mount("umount", self.here.store)),
            "clock jumps forward": Fault(lambda: self._set_clock(JUMP_SECONDS), after=lambda: self._set_clock(0)),
            "clock jumps back": Fault(lambda: self._set_clock(-JUMP_SECONDS), after=lambda: self._set_clock(0)),
        }

    def _engine(self) -> psutil.Process | None:
        return self._first("prefect.engine")

    def _rank(self) -> psutil.Process | None:
        return self._first("korealbert.pretrain.worker")

    def _launcher(self) -> psutil.Process | None:
        agent = self._first("korealbert.pretrain.agent")
        return None if agent is None else agent.parent()

    def _first(self, module: str) -> psutil.Process | None:
        for process in self.here.processes():
            try:
                if module in process.cmdline()[:3]:  # An agent has the module of its ranks in later arguments.
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    @staticmethod
    def _kill(process: psutil.Process | None) -> None:
        if process is None:
            raise RuntimeError("the process to kill has ended before the fault")
        process.send_signal(signal.SIGKILL)

    def _start_nodes(self) -> None:
        temporary = self.here.home.parent / "ray"
        self.nodes = [RayNode(temporary, self.here.environment, head=head) for head in (True, False)]

    def _stop_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.kill()

    def _second_node_works(self) -> bool:
        return self.nodes[1].works()

    def _lose_node(self) -> None:
        self.nodes[1].kill()

    def _fill(self) -> None:
        with (self.here.store / "ballast").open("wb", buffering=0) as stream:
            for piece in (bytes(1 << 20), bytes(1 << 12)):
                try:
                    while stream.write(piece):
                        pass
                except OSError:
                    continue

    def _empty(self) -> None:
        (self.here.store / "ballast").unlink()

    def _protect(self) -> None:
        """Refuse to create, rename or open for writing anything in the store; files that are open stay usable."""
        store = self.here.store
        self._mount("mount", "--bind", store, store)
        self._mount("mount", "-o", "remount,bind,ro", store)

    @staticmethod
    def _mount(*command: str | Path) -> None:
        subprocess.run(command, check=True)

    def _set_clock(self, seconds: int) -> None:
        self.clock_file.write_text(f"{seconds:+d}", "utf-8")
