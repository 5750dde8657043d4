"""A bench within namespaces of its own: a network that has nothing but loopback, mounts and processes that vanish with it."""

from __future__ import annotations

import os
import subprocess
import sys

INSIDE = "KOREALBERT_BENCH_INSIDE"


def enter() -> None:
    """Start this program anew inside, unless it runs there; nothing outside is touched, and nothing outlives it.

    Raises SystemExit where the kernel gives this user no namespaces.
    """
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    root = os.geteuid() == 0
    spaces = [] if root else ["--user", "--map-current-user", "--keep-caps"]  # PostgreSQL refuses to serve as root.
    command = ["unshare", *spaces, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise SystemExit(f"this kernel gives this user no namespaces, which the bench needs: {tried.stderr.strip()}")
    module = sys.modules["__main__"].__spec__
    assert module is not None, "run it as python -m bench.NAME"
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, "-m", module.name, *sys.argv[1:]])  # noqa: S606
