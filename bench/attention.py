"""Attention by matrix products beside torch's kernel, forward and backward, on this machine's processor.

    python -m bench.attention [--threads 1] [--repeats 15]

Prints processor seconds of both and their ratio, at 2,048 tokens of four heads of width 64. ``attend`` of
``korealbert.model.attention`` takes the products in bf16 up to 1,024 positions. Then packed rows of 64 to 1,024: each sequence
by itself, and local layers by blocks, beside a mask over the row, as ``korealbert.model.modern`` chooses.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor

from korealbert.model import attention, modern

TOKENS, HEADS, WIDTH = 2048, 4, 64


def main() -> None:
    """One row per length and precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'length':>6}  {'precision':9}  {'torch ms':>8}  {'products ms':>11}  {'ratio':>5}")
    for dtype in (torch.float32, torch.bfloat16):
        for length in (64, 128, 256, 512, 1024, 2048):
            shape = (TOKENS // length, HEADS, length, WIDTH)
            inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3)]
            visible = (torch.arange(length) < length - 4).expand(shape[0], 1, 1, length)
            seconds = dict.fromkeys(("torch", "products"), float("inf"))
            for _ in range(options.repeats):  # In turn, so that a busy machine slows both.
                for name in seconds:
                    with patch.object(attention, "_by_products", lambda *_, name=name: name == "products"):
                        seconds[name] = min(seconds[name], _timed(inputs, visible))
            ratio = seconds["torch"] / seconds["products"]
            row = f"{1e3 * seconds['torch']:8.1f}  {1e3 * seconds['products']:11.1f}  {ratio:5.2f}"
            print(f"{length:6}  {str(dtype).removeprefix('torch.'):9}  {row}")

    print(
        f"\n{'sequences':>16}  {'precision':9}  {'masked ms':>9}  {'alone ms':>8}  {'ratio':>5}  {'blocks ms':>9}  {'ratio':>5}"
    )
    for lengths in ([16] * 4, [64] * 4, [128] * 4, [700, 324], [300, 200, 180, 150, 100, 94], [40] * 25):
        length = next(each for each in (64, 256, 512, 1024) if sum(lengths) <= each)
        counts = torch.tensor([lengths] * (TOKENS // length))
        for dtype in (torch.float32, torch.bfloat16):
            inputs = [torch.randn(len(counts), HEADS, length, WIDTH, dtype=dtype, requires_grad=True) for _ in range(3)]
            with patch.object(modern, "_MASKED_LENGTH", 0):
                alone = modern._Sequences(counts, length)
            with patch.object(modern, "_MASKED_LENGTH", length):
                masked = modern._Sequences(counts, length)
            ways = {"masked": masked.attend, "alone": alone.attend, "blocks": partial(alone.attend_nearby, half=64)}
            seconds = dict.fromkeys(ways, float("inf"))
            for _ in range(options.repeats):
                for name, way in ways.items():
                    seconds[name] = min(seconds[name], _timed(inputs, way=way))
            one, two = (f"{1e3 * seconds[n]:8.1f}  {seconds['masked'] / seconds[n]:5.2f}" for n in ("alone", "blocks"))
            what = f"{len(lengths)} of {min(lengths)}-{max(lengths)}"
            print(f"{what:>16}  {str(dtype).removeprefix('torch.'):9}  {1e3 * seconds['masked']:9.1f}  {one}   {two}")


def _timed(inputs: Sequence[Tensor], visible: Tensor | None = None, way: Callable[..., Tensor] | None = None) -> float:
    begin = time.process_time()
    mixed = way(*inputs, 0.0) if way else attention.attend(*inputs, visible, 0.0)
    mixed.backward(mixed.detach())
    return time.process_time() - begin


if __name__ == "__main__":
    main()
