"""Measure speed and memory of an encoder's forward passes on the CPU: in torch, and as ONNX in fp32 and int8.

Each backend runs in a process of its own that loads nothing else, so that its peak memory is what a user needs. Passes of the
backends alternate, so that other load on the machine slows all equally.
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
"""Title in tables by name in ``speed.json``."""


def measure_inference(
    encoder: Any, *, batch_size: int, length: int, steps: int, warmup_steps: int, threads: int
) -> dict[str, dict[str, float]]:
    """Return by backend ``examples_per_second`` and ``speedup`` over torch (medians), and ``peak_mb`` of its process.

    ``encoder``: a model of transformers. Inputs are random pieces without padding.
    """
    from korealbert.artifact.subprocess_build import peak_memory  # noqa: PLC0415 (not in the measured processes)

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
            process = subprocess.Popen([*command, backend, *shape], text=True, env=environment, **pipes)  # type: ignore[call-overload]
            runs[backend] = stack.enter_context(process)
            stack.callback(process.kill)
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
    with suppress(BrokenPipeError):  # The process has ended, and readline returns nothing.
        run.stdin.write("\n")
        run.stdin.flush()
    if answer := run.stdout.readline():
        return float(answer)
    code = run.wait()
    errors.seek(0)
    message = errors.read().decode("utf-8", "replace").strip() or "no message; it may have run out of memory"
    raise ChildProcessError(f"{BACKENDS[backend]}: its process ended with exit code {code}: {message}")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _forward_pass(
    directory: Path, backend: str, vocabulary: int, batch_size: int, length: int, threads: int
) -> Callable[[], object]:
    """Return a function that runs one forward pass."""
    ids_BL = np.random.Generator(np.random.Philox(1)).integers(5, vocabulary, (batch_size, length))
    arrays = {"input_ids": ids_BL, "attention_mask": np.ones_like(ids_BL), "token_type_ids": np.zeros_like(ids_BL)}
    if backend != "torch":
        session = Session(directory / FILES[backend], threads=threads)  # type: ignore[index]
        return lambda: session.run(arrays)
    import torch  # noqa: PLC0415 (not for the other backends)
    from transformers import AutoModel  # noqa: PLC0415 (not for the other backends)

    torch.set_num_threads(threads)
    model = AutoModel.from_pretrained(directory, local_files_only=True).eval()
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("input_ids", "attention_mask")}

    def forward() -> torch.Tensor:
        with torch.inference_mode():
            hidden_BLH: torch.Tensor = model(**tensors).last_hidden_state
            return hidden_BLH

    return forward


def main() -> None:
    """Run a forward pass for each line of the standard input, and print its seconds."""
    directory, backend, *numbers = sys.argv[1:]
    run = _forward_pass(Path(directory), backend, *map(int, numbers))
    for _ in sys.stdin:
        begin = time.perf_counter()
        run()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
