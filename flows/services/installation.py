"""Set-up of a Prefect server: work pools, their queues with limits, and the deployments.

Usage: python -m korealbert.flows.services.installation   (for the configured server)
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectAlreadyExists
from prefect.settings import get_current_settings
from prefect.workers.process import ProcessWorker

from korealbert.flows.services.port_owner import other_owner

POOLS: dict[str, dict[str, int]] = {
    "data": {"build": 1, "crawl": 1},
    "gpu": {"train": 1},
}
"""Queues by pool, each with its limit of concurrent runs. A build uses all cores it is given and training all GPUs; a crawl
waits for the network and blocks nothing."""


def main() -> None:
    """Create or update everything. It can be run again at any time."""
    url = str(get_current_settings().api.url)
    if other := other_owner(url):
        raise SystemExit(f"the server at {url} is not ours: {other}; no password is sent to it")
    with get_client(sync_client=True) as client:
        for pool, queues in POOLS.items():
            _pool(client, pool, queues)
    root = Path.cwd()
    if not (root / "prefect.yaml").exists():
        raise SystemExit(f"{root}: no prefect.yaml with the deployments here; run this in the project's root")
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    # Deployments work in $PWD (prefect.yaml), which subprocess does not set to the working directory.
    status = subprocess.run(command, cwd=root, env={**os.environ, "PWD": str(root)}, check=False).returncode
    if status:
        raise SystemExit(f"`prefect deploy --all` ended with exit status {status}: see its message above")


def _pool(client: SyncPrefectClient, pool: str, queues: dict[str, int]) -> None:
    template = ProcessWorker.get_default_base_job_template()
    limit = sum(queues.values())
    try:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=template, concurrency_limit=limit))
    except ObjectAlreadyExists:
        client.update_work_pool(pool, WorkPoolUpdate(concurrency_limit=limit))
    known = {queue.name: queue for queue in client.read_work_queues(work_pool_name=pool)}
    for name, at_once in queues.items():
        if name not in known:
            client.create_work_queue(name, work_pool_name=pool, concurrency_limit=at_once)
        else:
            client.update_work_queue(known[name].id, concurrency_limit=at_once)


if __name__ == "__main__":
    main()
