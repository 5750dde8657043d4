"""One process group for all in-process runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from korealbert.pretrain.ranks import Ranks, join


@pytest.fixture(scope="session")
def alone() -> Iterator[Ranks]:
    """This process as the only rank, on one thread."""
    threads = torch.get_num_threads()
    before = dict(os.environ)
    torch.set_num_threads(1)
    yield join(rank=0, world_size=1, device=torch.device("cpu"))
    torch.distributed.destroy_process_group()
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)
