"""Speed and memory of an encoder's forward passes on the processor: in torch, and as ONNX in fp32 and in 8 bits.

Each runs in a process of its own, which has loaded nothing else, so that its peak is what a user of that file needs. Passes
alternate, so that other load on the machine slows all equally.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from korealbert.huggingface.onnx import FILES, Session, write_encoder

if TYPE_CHECKING:
    import torch

BACKENDS = {"torch": "torch fp32", "fp32": "ONNX fp32", "int8": "ONNX int8"}
"""Titles in tables, by the name in ``speed.json``."""


def measure_inference(
    encoder: Any, *, batch_size: int, length: int, steps: int, warmup_steps: int, threads: int
) -> dict[str, dict[str, float]]:
    """By backend: ``examples_per_second`` and ``speedup`` over torch (medians over the turns), and ``peak_mb`` of its process.

    ``encoder``: a model of transformers. Inputs are random pieces without padding.
    """
    from korealbert.artifact.subprocess_build import peak_memory  # noqa: PLC0415 (not in the processes measured)

    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        encoder.save_pretrained(scratch)
        write_encoder(Path(scratch), ("fp32", "int8"))
        shape = [str(number) for number in (encoder.config.vocab_size, batch_size, length, threads)]
        command = [sys.executable, "-W", "ignore", "-m", __name__, scratch]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": str(threads)}
        errors = stack.enter_context((Path(scratch) / "errors.txt").open("w+b"))
        runs = {}
        for backend in BACKENDS:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            run = stack.enter_context(subprocess.Popen([*command, backend, *shape], text=True, env=environment, **pipes))  # type: ignore[call-overload]
            stack.callback(run.kill)
            runs[backend] = run
        turns = [
            {backend: _seconds_of_one_pass(backend, run, errors) for backend, run in runs.items()}
            for _ in range(warmup_steps + steps)
        ][warmup_steps:]
        peaks = {backend: peak_memory(run.pid) for backend, run in runs.items()}
    return {
        backend: {
            "examples_per_second": _rounded(batch_size / statistics.median(turn[backend] for turn in turns)),
            "speedup": _rounded(statistics.median(turn["torch"] / turn[backend] for turn in turns)),
            "peak_mb": round(peaks[backend] / 1e6),
        }
        for backend in BACKENDS
    }


def _seconds_of_one_pass(backend: str, run: Any, errors: IO[bytes]) -> float:
    with suppress(BrokenPipeError):  # It has ended: its answer is missing too.
        run.stdin.write("\n")
        run.stdin.flush()
    if answer := run.stdout.readline():
        return float(answer)
    code = run.wait()
    errors.seek(0)
    told = errors.read().decode("utf-8", "replace").strip() or "it said nothing; a process that lacks memory is killed so"
    raise ChildProcessError(f"{BACKENDS[backend]}: its process ended with exit code {code}: {told}")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _passes(directory: Path, backend: str, vocabulary: int, batch_size: int, length: int, threads: int) -> Callable[[], object]:
    """What runs one forward pass."""
    ids_BL = np.random.Generator(np.random.Philox(1)).integers(5, vocabulary, (batch_size, length))
    arrays = {"input_ids": ids_BL, "attention_mask": np.ones_like(ids_BL), "token_type_ids": np.zeros_like(ids_BL)}
    if backend != "torch":
        session = Session(directory / FILES[backend], threads=threads)  # type: ignore[index]
        return lambda: session.run(arrays)
    import torch  # noqa: PLC0415 (the others do without)
    from transformers import AutoModel  # noqa: PLC0415 (the others do without)

    torch.set_num_threads(threads)
    model = AutoModel.from_pretrained(directory, local_files_only=True).eval()
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("input_ids", "attention_mask")}

    def forward() -> torch.Tensor:
        with torch.inference_mode():
            hidden_BLH: torch.Tensor = model(**tensors).last_hidden_state
            return hidden_BLH

    return forward


def main() -> None:
    """For each line of the standard input, run a pass and print its seconds."""
    directory, backend, *numbers = sys.argv[1:]
    once = _passes(Path(directory), backend, *map(int, numbers))
    for _ in sys.stdin:
        begin = time.perf_counter()
        once()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
