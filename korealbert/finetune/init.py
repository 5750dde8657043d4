"""Which weights fine-tuning starts from."""

from __future__ import annotations

from typing import Literal, get_args

Init = Literal["pretrained", "random"]
"""``random``: the same architecture with fresh weights, which shows what pretraining adds."""

INITS: tuple[Init, ...] = get_args(Init)
