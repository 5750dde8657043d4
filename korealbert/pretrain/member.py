"""A machine that runs ranks for the leader of a run: ``python -m korealbert.pretrain.member --store … --meeting … --node …``.

It stays until the leader lets it go. When the connection ends, however it ends, its ranks end too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from korealbert.pretrain.channel import Channel, ChannelClosed
from korealbert.pretrain.crew import JOIN_SECONDS, meeting_file, network
from korealbert.pretrain.processes import LocalRanks


class LeaderGone(ConnectionError):
    """The machine that leads the run cannot be reached, or has ended without a word, or with an error of its own."""


def serve(store: Path, meeting: str, *, node: int, processes: int, threads: int) -> None:
    """Join a run and start ranks whenever its leader says so, until it lets this machine go.

    Raises LeaderGone where it never comes, refuses this machine, or ends otherwise than well.
    """
    channel = _join(store, meeting)
    ranks: LocalRanks | None = None

    def terminate(number: int, frame: FrameType | None) -> None:
        if ranks is None or not ranks.running:
            raise SystemExit(128 + number)
        ranks.terminate()  # They save together with those of the other machines, and the leader lets us go.

    mine = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if mine else None
    try:
        channel.send({"node": node, "processes": processes, "name": socket.gethostname()})
        while True:
            order = channel.receive()
            match order.get("do"):
                case "start":
                    ranks = _start(order, threads, channel)
                case "terminate" if ranks:
                    ranks.terminate()
                case "kill" if ranks:
                    ranks.kill()
                case "leave":
                    return
                case "refuse":
                    raise LeaderGone(f"the leader refuses this machine: {order.get('why')}")
                case "fail":
                    raise LeaderGone("the run has failed; its leader says why")
    except ChannelClosed:
        raise LeaderGone("the leader has gone, or its machine cannot be reached; the next run resumes") from None
    finally:
        if ranks is not None:
            ranks.kill()
            ranks.join()
        channel.close()
        if mine:
            signal.signal(signal.SIGTERM, before)


def _start(order: dict[str, Any], threads: int, channel: Channel) -> LocalRanks:
    def tell(rank: int, what: str | int) -> None:
        with contextlib.suppress(ChannelClosed):
            channel.send({"rank": rank, "told": what})

    return LocalRanks(
        str(order["module"]),
        list(order["arguments"]),
        ranks=range(*order["ranks"]),
        world_size=int(order["world_size"]),
        threads=threads,
        environment={**network(channel.interface), **order["environment"]},
        tell=tell,
    )


def _join(store: Path, meeting: str) -> Channel:
    """Find the leader and connect. What an earlier run has left behind at its place is passed over."""
    path, deadline, tried = meeting_file(store, meeting), time.monotonic() + JOIN_SECONDS, "nothing is there"
    while time.monotonic() < deadline:
        try:
            found = json.loads(path.read_text("utf-8"))
            connection = socket.create_connection((found["address"], found["port"]), timeout=10)
            return Channel(connection, found["secret"], leader=False)
        except (OSError, ValueError, KeyError) as error:
            tried = str(error)
        time.sleep(0.2)
    raise LeaderGone(f"no leader within {JOIN_SECONDS:.0f} s at {path} ({tried}); do all machines see the same store?")


def main(arguments: Sequence[str] | None = None) -> int:
    """What the leader starts over ssh."""
    parser = argparse.ArgumentParser(description="Run training processes for another machine.")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--meeting", required=True)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    known = parser.parse_args(arguments)
    try:
        serve(known.store, known.meeting, node=known.node, processes=known.processes, threads=known.threads)
    except LeaderGone as gone:
        print(gone, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
