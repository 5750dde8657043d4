"""Small runs of the trainer within the test process."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from korealbert.artifact import Artifact
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.rows import Rows, open_batches
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import check
from korealbert.pretrain.trainer import Trainer
from tests.pretrain.synthetic import SyntheticBatches

TINY_MODEL = {"hidden_size": 16, "embedding_size": 8, "num_heads": 2, "num_layers": 2, "max_positions": 16}


def spec(**fields: Any) -> PretrainSpec:
    """A few steps of a tiny model with dropout."""
    settings: dict[str, Any] = {
        "model": TINY_MODEL,
        "steps": 6,
        "global_batch_size": 8,
        "micro_batch_size": 4,
        "schedule": {"warmup_steps": 1},
        "optimizer": {"lr": 0.02},
        "log_every": 1,
        "heldout_every": 3,
        "checkpoint_every": 2,
    }
    return PretrainSpec(**{**settings, **fields})


def no_dropout(**fields: Any) -> dict[str, Any]:
    """Return ``TINY_MODEL`` without dropout."""
    return {**TINY_MODEL, "hidden_dropout": 0.0, "attention_dropout": 0.0, **fields}


def trainer(
    run_spec: PretrainSpec,
    out_dir: Path,
    ranks: Ranks,
    *,
    stop_after: int | None = None,
    initial: Path | None = None,
    **data: Any,
) -> Trainer:
    """Return a trainer on synthetic rows, which is asked to stop after step ``stop_after``.

    If the spec has a phase of long sequences, they are twice as long.
    """
    out_dir.mkdir(exist_ok=True)
    train = data.pop("train", None) or SyntheticBatches(24, **data)
    heldout = SyntheticBatches(10, num_views=1, seed=9)
    long = None
    if run_spec.long is not None:
        wide = {"length": 2 * train.sequence_length, "slots": 5}
        long = Rows(SyntheticBatches(20, seed=5, **wide), SyntheticBatches(6, num_views=1, seed=7, **wide))
    longest = (long.train if long else train).sequence_length
    config = run_spec.config_for(vocab_size=train.vocab_size, sequence_length=longest)
    made: list[Trainer] = []

    def stop() -> bool:
        return stop_after is not None and made[0].state.step >= stop_after

    rows = {"train": train, "heldout": heldout, "long": long, "initial": initial}
    made.append(Trainer(run_spec, config, **rows, ranks=ranks, out_dir=out_dir, stop_requested=stop))
    return made[0]


def train_here(
    run_spec: PretrainSpec, ancestry: dict[str, Artifact], out_dir: Path, ranks: Ranks, *, stop_after: int | None = None
) -> dict[str, Any]:
    """Train on the stage's inputs within this process; return the statistics."""
    out_dir.mkdir(exist_ok=True)
    paths = {role: artifact.path for role, artifact in ancestry.items()}
    config = check(run_spec, **paths)
    source = partial(open_batches, run_spec, paths["examples"], paths["views"])
    long = None
    if "examples_long" in paths:
        of_long = partial(open_batches, run_spec, paths["examples_long"], paths["views_long"])
        long = Rows(of_long("train"), of_long("heldout"))
    made: list[Trainer] = []

    def stop() -> bool:
        return made[0].state.step == stop_after

    inputs = {"train": source("train"), "heldout": source("heldout"), "long": long, "cooccurrence": paths.get("cooccurrence")}
    made.append(Trainer(run_spec, config, **inputs, ranks=ranks, out_dir=out_dir, stop_requested=stop))
    return made[0].run()


def lines(out_dir: Path, split: str = "train") -> list[dict[str, Any]]:
    """Return the parsed lines of a split of metrics.jsonl."""
    parsed = map(json.loads, (out_dir / "metrics.jsonl").read_text("utf-8").splitlines())
    return [line for line in parsed if line["split"] == split]


def weights(out_dir: Path) -> dict[str, Tensor]:
    """Return the trained tensors."""
    loaded: dict[str, Tensor] = load_file(out_dir / "model.safetensors")
    return loaded


def same_bytes(a: Path, b: Path) -> bool:
    """Return whether two runs wrote the same weights, configuration and metrics."""
    return all(
        (a / name).read_bytes() == (b / name).read_bytes() for name in ("model.safetensors", "config.json", "metrics.jsonl")
    )


def ranks_using(store: Path) -> list[int]:
    """Return the process ids of the ranks that train in this store."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[1:3] == [b"-m", b"korealbert.pretrain.worker"] and any(str(store).encode() in word for word in words):
            found.append(int(path.parent.name))
    return found


CPU = torch.device("cpu")
