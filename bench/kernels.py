"""Compare ways to compute attention, dropout and GELU, forward and backward, on this machine's processor.

    python -m bench.kernels [--threads 1] [--repeats 15]

Prints the processor time of both and their ratio, for 2,048 tokens and four heads of width 64. ``attend`` of
``korealbert.model.attention`` takes the products in bf16 up to 1,024 positions. Then packed rows of 64 to 1,024: each sequence
by itself, and local layers by blocks, beside a mask over the row, which are the choices of ``korealbert.model.modern``. Last,
dropout and GELU of ``korealbert.model.elementwise`` beside torch's, in bf16.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.common import in_turns, options
from korealbert.model import attention, elementwise, modern

TOKENS, HEADS, WIDTH = 2048, 4, 64


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{'length':>6}  {'precision':9}  {'torch ms':>8}  {'products ms':>11}  {'ratio':>5}")
    for dtype in (torch.float32, torch.bfloat16):
        for length in (64, 128, 256, 512, 1024, 2048):
            shape = (TOKENS // length, HEADS, length, WIDTH)
            inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3)]
            visible = (torch.arange(length) < length - 4).expand(shape[0], 1, 1, length)
            sides = {name: partial(_attend_seconds, inputs, visible, name == "products") for name in ("torch", "products")}
            seconds = {name: min(runs) for name, runs in in_turns(arguments.repeats, sides).items()}
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
            ways = {
                "masked": partial(masked.attend, dropout=0.0),
                "alone": partial(alone.attend, dropout=0.0),
                "blocks": partial(alone.attend_nearby, dropout=0.0, half=64),
            }
            sides = {name: partial(_seconds, way, inputs) for name, way in ways.items()}
            seconds = {name: min(runs) for name, runs in in_turns(arguments.repeats, sides).items()}
            one, two = (f"{1e3 * seconds[n]:8.1f}  {seconds['masked'] / seconds[n]:5.2f}" for n in ("alone", "blocks"))
            what = f"{len(lengths)} of {min(lengths)}-{max(lengths)}"
            print(f"{what:>16}  {str(dtype).removeprefix('torch.'):9}  {1e3 * seconds['masked']:9.1f}  {one}   {two}")

    print(f"\n{'4,194,304 elements':>18}  {'torch ms':>8}  {'ours ms':>8}  {'ratio':>5}")
    elements = torch.randn(4096, 1024, dtype=torch.bfloat16, requires_grad=True)
    pairs: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "dropout": (partial(F.dropout, p=0.1), partial(elementwise.dropout, rate=0.1)),
        "GELU by tanh": (partial(F.gelu, approximate="tanh"), partial(elementwise.gelu, approximate="tanh")),
    }
    for name, functions in pairs.items():
        sides = {side: partial(_seconds, f, [elements]) for side, f in zip(("torch", "ours"), functions, strict=True)}
        seconds = {side: min(runs) for side, runs in in_turns(arguments.repeats, sides).items()}
        ratio = seconds["torch"] / seconds["ours"]
        print(f"{name:>18}  {1e3 * seconds['torch']:8.1f}  {1e3 * seconds['ours']:8.1f}  {ratio:5.2f}")


def _attend_seconds(inputs: Sequence[Tensor], visible: Tensor, by_products: bool) -> float:
    with patch.object(attention, "by_products", lambda *_: by_products):
        return _seconds(lambda query, key, value: attention.attend(query, key, value, visible, 0.0), inputs)


def _seconds(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> float:
    """Return the processor seconds of a forward and backward pass."""
    begin = time.process_time()
    result = function(*inputs)
    result.backward(result.detach())
    return time.process_time() - begin


if __name__ == "__main__":
    main()
