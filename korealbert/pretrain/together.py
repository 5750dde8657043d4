"""Which machines a command was started on together, read from the variables of srun and torchrun."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def found_in(environment: Mapping[str, str]) -> dict[str, Any]:
    """``nodes``, ``node``, ``meeting`` and ``address`` of TrainingRuntime; nothing where one machine was started.

    Raises ValueError naming the variable that is no number, or where several processes were started on one machine: ranks are
    started by the command itself.
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        if _number(environment, "LOCAL_WORLD_SIZE", 1) > 1:
            raise ValueError(
                f"torchrun has started {environment['LOCAL_WORLD_SIZE']} processes on this machine; let it start one "
                "(--nproc-per-node 1), and say with --processes how many ranks there are to be"
            )
        nodes, node = _number(environment, "GROUP_WORLD_SIZE", 1), _number(environment, "GROUP_RANK", 0)
        meeting, address = f"torchrun-{environment['TORCHELASTIC_RUN_ID']}", environment.get("MASTER_ADDR", "")
    elif "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment:
        nodes, node = _number(environment, "SLURM_STEP_NUM_NODES", 1), _number(environment, "SLURM_NODEID", 0)
        if _number(environment, "SLURM_STEP_NUM_TASKS", nodes) != nodes:
            raise ValueError(
                f"srun has started {environment['SLURM_STEP_NUM_TASKS']} tasks on {nodes} machines; let it start one on each "
                "(--ntasks-per-node=1), and say with --processes how many ranks there are to be"
            )
        meeting = f"slurm-{environment.get('SLURM_JOB_ID', '')}.{environment['SLURM_STEP_ID']}"
        address = environment.get("SLURMD_NODENAME", "")
    else:
        return {}
    if nodes == 1:
        return {}
    return {"nodes": nodes, "node": node, "meeting": re.sub(r"[^A-Za-z0-9_.-]", "-", meeting), "address": address}


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, str(default))
    if not (value.isascii() and value.isdigit()):
        raise ValueError(
            f"{name} = {value!r} in the environment is no number; start with srun or torchrun, or give --nodes and --node"
        )
    return int(value)
