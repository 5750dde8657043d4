"""The other machines of a training run, as the one that leads it sees them.

The leader listens at an address that it writes into the store (``.hosts/MEETING.json``, readable by its owner alone, with a
secret). Members read it there and connect. When a connection ends, the member ends its ranks, and the leader the run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from korealbert.artifact.files import atomic_write
from korealbert.pretrain.channel import Channel, ChannelClosed, interface_of
from korealbert.pretrain.processes import Tell

LOST = -1000
"""Exit status of the ranks of a machine that is gone."""

JOIN_SECONDS = 600.0
"""How long machines may take to meet."""

TELL_SECONDS = 10.0
"""How long a member may take to tell that ranks have ended which were killed."""

LATE_SECONDS = 30.0
"""How long a run that is over waits for machines that have not come yet."""

log = logging.getLogger(__name__)


@dataclass
class _Member:
    """A machine that has joined."""

    name: str
    channel: Channel
    processes: int
    ranks: range = range(0)


class Crew:
    """The other machines of a run, as the leader sees them."""

    def __init__(self, store: Path, meeting: str, address: str, others: Sequence[int]) -> None:
        """Listen for ``others``: the number of ranks of each further machine. Raises ValueError for a bad address."""
        self._others = others
        self._members: dict[int, _Member] = {}
        self._joined = threading.Condition()
        self._jobs: list[threading.Thread] = []
        self._host = _address(address)
        self._listener = socket.create_server((self._host, 0), backlog=64)
        self._secret = secrets.token_hex(32)
        self.file = meeting_file(store, meeting)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = {"address": self._host, "port": self._listener.getsockname()[1], "secret": self._secret}
        with _umask(0o077):
            atomic_write(self.file, json.dumps(content).encode())
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def processes(self) -> int:
        """Ranks on the other machines."""
        return sum(self._others)

    @property
    def names(self) -> dict[int, str]:
        """Names of the machines by rank, of those that are elsewhere."""
        return {rank: member.name for member in self._members.values() for rank in member.ranks}

    @property
    def environment(self) -> dict[str, str]:
        """What makes gloo and NCCL of this machine's ranks use the network on which the machines meet."""
        return network(interface_of(self._host))

    def meeting_point(self) -> str:
        """A free port of this machine for the rendezvous of the ranks."""
        with socket.create_server((self._host, 0)) as probe:
            return f"tcp://{self._host}:{probe.getsockname()[1]}"

    def gather(self, first_rank: int, waiting_for: Sequence[subprocess.Popen[bytes]] = ()) -> None:
        """Wait until all machines are there and give them their ranks, from ``first_rank`` on.

        Raises ConnectionError naming the machine that is gone, or how many have not come.
        """
        deadline = time.monotonic() + JOIN_SECONDS
        with self._joined:
            while len(self._members) < len(self._others):
                failed = [process for process in waiting_for if process.poll()]
                if failed or time.monotonic() > deadline:
                    came = ", ".join(member.name for member in self._members.values()) or "none"
                    why = (
                        f"a remote shell ended with status {failed[0].returncode}, see above"
                        if failed
                        else f"within {JOIN_SECONDS:.0f} s"
                    )
                    raise ConnectionError(
                        f"{len(self._others) + 1} machines should meet; the leader was joined by {came}; {why}"
                    )
                self._joined.wait(0.2)
        for node, member in sorted(self._members.items()):
            member.ranks = range(first_rank, first_rank + member.processes)
            first_rank += member.processes
            assert node

    def start(
        self, module: str, arguments: Sequence[str], *, world_size: int, environment: Mapping[str, str], tell: Tell
    ) -> None:
        """Start the ranks of all members. Raises ConnectionError where one has gone meanwhile."""
        self._jobs = []
        for member in self._members.values():
            job = {
                "do": "start",
                "module": module,
                "arguments": list(arguments),
                "ranks": [member.ranks.start, member.ranks.stop],
                "world_size": world_size,
                "environment": dict(environment),
            }
            try:
                member.channel.send(job)
            except ChannelClosed:
                raise ConnectionError(f"{member.name} has left the run; start it again") from None
            self._jobs.append(threading.Thread(target=self._listen, args=(member, tell), daemon=True))
            self._jobs[-1].start()

    def terminate(self) -> None:
        """Ask all ranks of the members to save and end."""
        self._order("terminate")

    def kill(self) -> None:
        """End them at once."""
        self._order("kill")

    def join(self) -> None:
        """Wait until the members have told the end of their ranks; who does not within ``TELL_SECONDS`` is given up."""
        for member, job in zip(self._members.values(), self._jobs):
            job.join(TELL_SECONDS)
            if job.is_alive():
                member.channel.close()
                job.join()

    def await_late_ones(self) -> None:
        """Wait ``LATE_SECONDS`` at most for machines that have not joined so far."""
        with self._joined:
            self._joined.wait_for(lambda: len(self._members) == len(self._others), LATE_SECONDS)

    def close(self, *, well: bool) -> None:
        """Let the members go; they end with status 0 where all went ``well``."""
        self._order("leave" if well else "fail")
        self.file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for member in self._members.values():
            member.channel.close()

    def _order(self, what: str) -> None:
        for member in self._members.values():
            with contextlib.suppress(ChannelClosed):
                member.channel.send({"do": what})

    def _listen(self, member: _Member, tell: Tell) -> None:
        """Pass on what a member tells of its ranks until all of them have ended."""
        running = set(member.ranks)
        try:
            while running:
                told = member.channel.receive()
                rank, what = told.get("rank"), told.get("told")
                if rank not in running or not isinstance(what, str | int):
                    raise ChannelClosed(f"told {told}")
                if isinstance(what, int):
                    running.discard(rank)
                tell(rank, what)
        except ChannelClosed:
            member.channel.close()
            for rank in sorted(running):
                tell(rank, LOST)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        """Let a machine join that knows the secret and whose place is free."""
        try:
            channel = Channel(connection, self._secret, leader=True)
            hello = channel.receive()
        except ChannelClosed as closed:
            connection.close()
            log.warning("a machine could not join: %s", closed)
            return
        node, name, processes = hello.get("node"), str(hello.get("name")), hello.get("processes")
        fault = None
        with self._joined:
            if not isinstance(node, int) or not 1 <= node <= len(self._others):
                fault = f"node {node} is none of 1 to {len(self._others)}; give every machine a number of its own"
            elif node in self._members:
                fault = f"node {node} has joined already, from {self._members[node].name}; give every machine its own number"
            elif processes != self._others[node - 1]:
                fault = f"node {node} has {processes} processes, the leader wants {self._others[node - 1]}; start all alike"
            else:
                self._members[node] = _Member(name, channel, self._others[node - 1])
                self._joined.notify_all()
        if fault is not None:
            log.warning("%s could not join: %s", name, fault)
            with contextlib.suppress(ChannelClosed):
                channel.send({"do": "refuse", "why": fault})
            channel.close()


def meeting_file(store: Path, meeting: str) -> Path:
    """Where the leader of a meeting says how to reach it."""
    return store.resolve() / ".hosts" / f"{meeting}.json"


def network(interface: str | None) -> dict[str, str]:
    """Environment for ranks that are to use this interface; what the user has set stays."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    return {name: interface for name in names if interface and name not in os.environ}


def _address(name: str) -> str:
    """The IPv4 address to listen at. Raises ValueError for an unknown name, or one that other machines could not reach."""
    try:
        found = socket.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f"address {name!r} cannot be resolved ({error}); name this machine as others reach it") from None
    address = str(found[0][4][0])
    if address.startswith("127.") and name not in ("localhost", address):
        raise ValueError(
            f"address {name!r} means {address}, which no other machine reaches; give the name that others reach it by (address)"
        )
    return address


@contextlib.contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
