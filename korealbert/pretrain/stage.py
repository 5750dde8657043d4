"""Stage `pretrain`: vocabulary, examples and views → ``model.safetensors``, ``config.json`` and ``metrics.jsonl``.

With the optional input role ``initial`` (``model.safetensors`` and ``config.json`` as this stage writes them) training starts
from those weights, its schedule and its moments from nothing.

This module imports neither torch nor DeepSpeed; they are loaded by the processes that it starts.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from korealbert.artifact import Inputs, Progress, Runtime, Stage, Stats
from korealbert.examples.batches import ExampleBatches
from korealbert.examples.schema import open_rows
from korealbert.files import atomic_write
from korealbert.model.config import ModelConfig
from korealbert.pretrain.hosts import crew_of, ranks_of
from korealbert.pretrain.job import Job, parse_event
from korealbert.pretrain.launch import RankFailed, run_ranks
from korealbert.pretrain.spec import PretrainSpec
from korealbert.vocab.tokenizer import Vocabulary

log = logging.getLogger(__name__)


class PretrainingStopped(RuntimeError):
    """The processes were asked to stop from outside; the next build resumes from the checkpoint that they saved."""


def run(spec: PretrainSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Check everything that can be wrong, then train, resuming from a checkpoint in ``out_dir`` if there is one.

    Raises ValueError (before any process starts) when spec, data and runtime do not fit together, ``RankFailed`` with the
    failing process's own traceback, or ``PretrainingStopped``.
    """
    examples, views = inputs["examples"].path, inputs["views"].path
    processes, world_size = ranks_of(runtime)
    initial = inputs["initial"].path if "initial" in inputs else None
    data = {"vocab": inputs["vocab"].path, "examples": examples, "views": views}
    config = check(spec, **data, initial=initial, processes=world_size)
    job = Job(spec=spec, config=config, examples=examples, views=views, initial=initial, out_dir=out_dir, device=runtime.device)
    job_file = out_dir / ".job.json"
    atomic_write(job_file, job.model_dump_json(indent=1).encode())
    seen: dict[str, Any] = {}

    def on_line(line: str) -> None:
        event = parse_event(line)
        if event is None:
            log.info("%s", line)
        elif event["kind"] == "metrics":
            metrics = {name: value for name, value in event["content"].items() if value is not None}
            runtime.report(Progress(event["step"], spec.steps, "steps", metrics=metrics))
        else:
            seen[event["kind"]] = event

    try:
        with crew_of(runtime) as crew:
            run_ranks(
                "korealbert.pretrain.worker",
                [str(job_file)],
                processes=processes,
                threads=runtime.threads,
                on_line=on_line,
                crew=crew,
            )
    except RankFailed as failure:
        if "stopped" not in seen:
            raise
        step = seen["stopped"]["step"]
        raise PretrainingStopped(
            f"pretraining was stopped after step {step:,} of {spec.steps:,}; it resumes there"
        ) from failure
    stats: Stats = seen["stats"]["content"]
    return stats


def check(
    spec: PretrainSpec, *, vocab: Path, examples: Path, views: Path, processes: int, initial: Path | None = None
) -> ModelConfig:
    """The model that spec, data and initial weights make together. Raises ValueError naming both sides of a contradiction."""
    for batch in spec.batch_sizes:
        spec.accumulation(processes, batch)
    train = ExampleBatches(examples, views, "train")
    vocabulary, header = Vocabulary.load(vocab), open_rows(min(examples.glob("train-*.arrow")))[1]
    if (header.vocab_size, header.vocab_sha256) != (vocabulary.size, vocabulary.sha256):
        packed_with, given = (
            f"{size:,} pieces, sha256 {digest[:12]}…"
            for size, digest in ((header.vocab_size, header.vocab_sha256), (vocabulary.size, vocabulary.sha256))
        )
        raise ValueError(
            f"{examples.name} was packed with another vocabulary ({packed_with}) than {vocab.name} ({given}); "
            "rebuild the examples with this vocabulary"
        )
    shape = None if initial is None else ModelConfig.model_validate_json((initial / "config.json").read_bytes())
    return spec.config_for(vocab_size=train.vocab_size, sequence_length=train.sequence_length, initial=shape)


STAGE = Stage("pretrain", version=6, spec=PretrainSpec, run=run)
