"""A worker of one work pool, which also reschedules the runs of workers that died (``recovery.py``).

Usage: python -m korealbert.flows.worker POOL [--store DIR]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import get_current_settings

from korealbert.artifact.files import expanded
from korealbert.artifact.shards import die_with_parent
from korealbert.artifact.store import STORE_VARIABLE, default_store
from korealbert.flows.recovery import Claimed, recover
from korealbert.flows.services.port_owner import other_owner

_POLL_SECONDS = 10.0


def main() -> None:
    """Run the worker until it ends or this process is told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool")
    parser.add_argument(
        "--store",
        type=expanded,
        default=default_store(),
        help="where its runs keep artifacts, and where it looks for lost runs",
    )
    options = parser.parse_args()
    server = str(get_current_settings().api.url or "")
    if other := other_owner(server):
        raise SystemExit(f"the server at {server} is not ours: {other}; no password is sent to it. Set PREFECT_API_URL to ours")
    # When Prefect cancels a run it loads its plugins again inside an event loop and prints a traceback. Workers need no plugin.
    environment = os.environ | {"PREFECT_PLUGINS_ENABLED": "false", STORE_VARIABLE: str(options.store.resolve())}
    pool = ["--type", "process", "--pool", options.pool]
    command = [sys.executable, "-m", "korealbert.flows.process_worker", "worker", "start", *pool]
    worker = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent)  # noqa: PLW1509
    signal.signal(signal.SIGTERM, lambda number, frame: worker.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the worker directly.
    claimed = Claimed(options.pool)
    while worker.poll() is None:
        _recover_runs(options.store, claimed)
        try:
            worker.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    sys.exit(worker.returncode if worker.returncode >= 0 else 128 - worker.returncode)


def _recover_runs(store: Path, claimed: Claimed) -> None:
    """Recover lost runs. If the server does not answer, the next call tries again."""
    try:
        with get_client(sync_client=True) as client:
            for name in [*recover(client, store), *claimed.recover(client, store)]:
                print(f"{time.strftime('%H:%M:%S')} run {name} lost its process and is scheduled again", flush=True)
    except (httpx.HTTPError, PrefectHTTPStatusError, OSError) as error:
        print(f"{time.strftime('%H:%M:%S')} lost runs: the server did not answer ({error!r})", flush=True)


if __name__ == "__main__":
    main()
