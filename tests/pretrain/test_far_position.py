"""A run that has trained for very long goes on at once, and to the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from korealbert.artifact import Artifact
from korealbert.artifact.files import sha256_of_file
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import lines, same_bytes, train_here
from tests.pretrain.test_packing import packed_spec

FAR = 10**12
"""Packed rows that the run has trained on; each has 32 tokens. Work in proportion to them would never end."""


def move(checkpoint: Path, *, steps: int, sequences: int) -> None:
    """Make a checkpoint of step 0 one that was written after so many steps and sequences."""
    state = json.loads((checkpoint / "state.json").read_text())
    assert state["training"]["step"] == 0
    state["training"] |= {"step": steps, "updates": steps, "sequences": sequences, "position": sequences}
    state["training"] |= {"slots": 32 * sequences, "tokens": 31 * sequences}
    (checkpoint / "state.json").write_text(json.dumps(state))
    digests = json.loads((checkpoint / "sha256.json").read_text())
    digests["state.json"] = sha256_of_file(checkpoint / "state.json")
    (checkpoint / "sha256.json").write_text(json.dumps(digests))
    checkpoint.rename(checkpoint.with_name(f"step-{steps:08d}"))


@pytest.mark.parametrize("done", [FAR // 8, 10**8 - 1])
def test_the_first_step_at_position_10_12_comes_at_once(
    ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path, done: int
) -> None:
    """The checkpoint is that of step 0 with the counts of one at the position: tensors do not depend on it. At 10⁸ steps, the
    names of checkpoints become longer."""
    spec = packed_spec(steps=done + 3, checkpoint_every=1)
    stopped, straight = tmp_path / "stopped", tmp_path / "straight"
    with pytest.raises(Stopped):
        train_here(spec, ancestry, stopped, alone, stop_after=0)
    move(stopped / ".checkpoints" / "step-00000000", steps=done, sequences=FAR)
    shutil.copytree(stopped, straight)

    with pytest.raises(Stopped):
        train_here(spec, ancestry, stopped, alone, stop_after=done + 1)
    assert [line["step"] for line in lines(stopped)] == [done + 1]
    assert train_here(spec, ancestry, stopped, alone)["resumed_from_step"] == done + 1
    stats = train_here(spec, ancestry, straight, alone)
    assert (stats["resumed_from_step"], stats["sequences"]) == (done, FAR + 24)
    assert same_bytes(stopped, straight)
