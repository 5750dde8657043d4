"""Stage `pretrain`: vocabulary, examples and views → ``model.safetensors``, ``config.json`` and ``metrics.jsonl``.

Optional input roles: ``initial`` (an output of this stage), from whose weights training starts, with new schedule and moments;
``cooccurrence``, with initial word embeddings; ``examples_long`` and ``views_long``, the longer sequences of ``spec.long``.

This module imports neither torch nor DeepSpeed, except torch to check the names of frozen tensors. The ranks load both.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from korealbert.artifact import Artifact, Deployment, Inputs, Progress, Real, Runtime, Stage, Statistics
from korealbert.artifact.files import atomic_write
from korealbert.examples.schema import open_rows
from korealbert.model.config import AnyConfig, read_config
from korealbert.pretrain.job import Job, parse_event
from korealbert.pretrain.launch import RankFailed, RanksStopped, run_ranks
from korealbert.pretrain.machines import world_size
from korealbert.pretrain.rows import Rows, check_rows, open_batches
from korealbert.pretrain.runtime import TrainingRuntime, check_device
from korealbert.pretrain.spec import PretrainSpec
from korealbert.vocab.tokenizer import Vocabulary

_OPTIONAL = ("initial", "cooccurrence", "examples_long", "views_long")
"""Optional input roles."""

log = logging.getLogger(__name__)


class PretrainingStopped(RuntimeError):
    """The ranks were asked to stop from outside; the next build resumes from the checkpoint that they saved."""


class PretrainStats(Statistics):
    """Size, length and held-out scores of a training."""

    steps: int
    skipped_steps: int = 0
    """Steps whose update fp16 overflow skipped."""
    tokens: int
    sequences: int | None = None
    seconds: Real | None = None
    """Time of the steps, if there is a time budget."""
    epochs: Real
    """Passes over the rows, without the long ones."""
    rollbacks: int = 0
    """Returns to a checkpoint after a collapse."""
    parameters: int
    trainable_parameters: int | None = None
    frozen_tensors: int = 0
    frozen_sha256: str = ""
    sequence_length: int
    """Length of the last rows trained on."""
    heldout: dict[str, Real | None] | None = None
    """Scores on held-out rows by name (``mlm_accuracy``, ``sop_loss``); empty without held-out rows."""
    heldout_long: dict[str, Real | None] | None = None
    """The same on long rows."""
    long_epochs: Real | None = None
    processes: int = 1
    resumed_from_step: int = 0
    padding_share: Real | None = None
    tokens_per_second: Real | None = None
    loading_share: Real | None = None
    """Share of the time spent waiting for data."""
    model_flops_utilization: Real | None = None


@dataclass(frozen=True)
class Reached:
    """Progress and scores of a training at its end or at a snapshot, where None means unknown."""

    steps: int
    tokens: int | None
    epochs: float | None
    heldout: Mapping[str, Real | None] | None

    @classmethod
    def of(cls, pretrain: Artifact, snapshot: int | None) -> Self:
        """Return them at the end, or after a snapshot's step, from the lines of ``metrics.jsonl`` if it was logged or
        scored."""
        stats = pretrain.stats_as(PretrainStats)
        if snapshot is None or snapshot == stats.steps:
            return cls(stats.steps, stats.tokens, float(stats.epochs), stats.heldout)
        lines = pretrain.path.joinpath("metrics.jsonl").read_bytes().splitlines()
        logged = [line for line in map(json.loads, lines) if line["step"] == snapshot and "tokens" in line]
        scored = [line for line in logged if line["split"] == "heldout"]
        spec = pretrain.manifest["spec"]
        constant_batches = not (spec.get("batch_warmup") or spec.get("long") or stats.rollbacks)
        return cls(
            steps=snapshot,
            tokens=logged[-1]["tokens"] if logged else None,
            epochs=round(stats.epochs * snapshot / stats.steps, 3) if constant_batches else None,
            heldout=scored[-1] if scored else None,
        )


def run(spec: PretrainSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> PretrainStats:
    """Check everything, then train, resuming from a checkpoint in ``out_dir`` if there is one.

    Raises ValueError before any process starts if spec, data and runtime do not fit together, ``RankFailed`` with the traceback
    of the rank that failed, or ``PretrainingStopped``.
    """
    examples, views = inputs["examples"].path, inputs["views"].path
    check_runtime(spec, runtime)
    training = TrainingRuntime.of(runtime)
    optional = {role: inputs[role].path for role in _OPTIONAL if role in inputs}
    config = check(spec, vocab=inputs["vocab"].path, examples=examples, views=views, **optional)
    job = Job(spec=spec, config=config, examples=examples, views=views, **optional, out_dir=out_dir, device=training.device)
    clear_stale_locks(extension_directory(os.environ))
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
        run_ranks("korealbert.pretrain.worker", [str(job_file)], runtime=training, on_line=on_line)
    except RankFailed as failure:
        if "stopped" not in seen and isinstance(failure, RanksStopped):
            raise PretrainingStopped("pretraining was stopped; it resumes at its last checkpoint, if it has one") from failure
        if "stopped" not in seen:
            raise
        step = seen["stopped"]["step"]
        raise PretrainingStopped(
            f"pretraining was stopped after step {step:,} of {spec.steps:,}; it resumes there"
        ) from failure
    return PretrainStats.of(seen["stats"]["content"])


def check_runtime(spec: PretrainSpec, runtime: Runtime) -> None:
    """Raise ValueError if the ranks cannot share the global batches equally, or a device or a package is missing."""
    check_device(spec, runtime)
    ranks = world_size(TrainingRuntime.of(runtime))
    for batch, micro_batch in spec.batches:
        _, number = spec.micro_batches(ranks, batch, micro_batch)
        if number > 1 and spec.compile == "graphs":
            raise ValueError(
                "compile = 'graphs' needs updates of one micro-batch, since a captured graph writes each gradient over the one "
                f"before; {batch} sequences on {ranks} ranks are {number}: raise micro_batch_size or use 'kernels'"
            )
    if spec.tensorboard and find_spec("tensorboard") is None:
        raise ValueError(
            "tensorboard = true, but the package tensorboard is not installed; install korealbert[tensorboard] or leave it out"
        )


def check(
    spec: PretrainSpec,
    *,
    vocab: Path,
    examples: Path,
    views: Path,
    examples_long: Path | None = None,
    views_long: Path | None = None,
    initial: Path | None = None,
    cooccurrence: Path | None = None,
) -> AnyConfig:
    """Return the model that spec, data and initial weights define. Raises ValueError naming both sides of a contradiction."""
    if (cooccurrence is None) != (spec.embeddings == "random"):
        raise ValueError(
            f"embeddings = {spec.embeddings!r}, but there is {'no ' if cooccurrence is None else 'an '}input 'cooccurrence'; "
            "only the recipe of a model from raw text makes one"
        )
    short, long = _open(spec, vocab, examples, views), None
    if examples_long is not None and views_long is not None:
        long = _open(spec, vocab, examples_long, views_long)
    longest = (long if long and spec.long else short).train.sequence_length
    shape = None if initial is None else read_config(initial)
    config = spec.config_for(vocab_size=short.train.vocab_size, sequence_length=longest, initial=shape)
    check_rows(spec, config, short, long)
    for problem in frozen_problems(spec, config):
        raise ValueError(problem)
    return config


def frozen_problems(spec: PretrainSpec, model: AnyConfig) -> Iterator[str]:
    """Yield what is wrong with ``spec.frozen``: a pattern that matches no tensor, or patterns that match all."""
    if not spec.frozen:
        return
    from korealbert.pretrain.initial import frozen_names  # noqa: PLC0415 - loads torch
    from korealbert.pretrain.objective import parameter_names  # noqa: PLC0415

    try:
        frozen_names(parameter_names(model), spec.frozen)
    except ValueError as error:
        yield str(error)


def _open(spec: PretrainSpec, vocab: Path, examples: Path, views: Path) -> Rows:
    """Return training and held-out rows after checking their vocabulary, and that the objective can use their noise."""
    train = open_batches(spec, examples, views, "train")
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
    slots = train.header(0).word_order_slots
    if spec.objective == "rtd" and slots > 1:  # Without word-order noise there is one slot.
        raise ValueError(
            f"{views.name} moves tokens ({slots} word-order slots), but objective = 'rtd' restores masked ones only; "
            "set views.word_order.portion = 0"
        )
    return Rows(train, open_batches(spec, examples, views, "heldout"))


def extension_directory(environment: Mapping[str, str]) -> Path:
    """Return where torch compiles extensions of DeepSpeed: ``TORCH_EXTENSIONS_DIR``, or a directory in the user's cache."""
    given = environment.get("TORCH_EXTENSIONS_DIR")
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache")
    return Path(given) if given else cache / "torch_extensions"


def clear_stale_locks(directory: Path) -> list[Path]:
    """Remove and return the lock files, one or two folders deep, that no process has open; log each.

    torch keeps a lock file open while it compiles. One that a killed compilation left would block the next for ever.
    """
    found = [path for pattern in ("*/lock", "*/*/lock") for path in directory.glob(pattern)]
    stale = [path for path in found if path.is_file() and not _is_open(path)]
    for path in stale:
        path.unlink(missing_ok=True)
        log.warning("removed %s: a compilation that was killed left it, and the next one would wait for it", path)
    return stale


def _is_open(path: Path) -> bool:
    wanted = path.stat()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            seen = os.stat(descriptor)  # noqa: PTH116 - follows the link to the open file, even if it was deleted
        except OSError:  # Another user's process, or one that has just ended.
            continue
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


STAGE = Stage(
    "pretrain",
    version=10,
    spec=PretrainSpec,
    run=run,
    check=check_runtime,
    needs=("torch", "deepspeed"),
    table="pretrain",
    inputs={name: name.replace("_", "/") for name in ("vocab", "examples", "views", "examples_long", "views_long")}
    | {"cooccurrence": "cooccurrence"},
    required=True,
    deployment=Deployment("Pretrain with DeepSpeed", gpu=True),
)
