"""Input and output of a dependency parser: positions of words, scores of heads and relations.

Shapes: B sentences, W words, P = W + 1 possible heads (the root first), R relations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Words(NamedTuple):
    """Where the words of a sentence are: positions of the first and last piece of each, their gold tags and heads."""

    first: list[int]
    last: list[int]
    pos: list[int]
    """Number of each word's last part of speech."""
    heads: list[int]
    """Gold head of each, counted from 1, 0 for the root; the relation is trained on it. 0 also where the head is cut off."""


class Parse(NamedTuple):
    """Scores of heads [B, W, P], minus infinity where there is no word, and of relations to one head of each word [B, W, R]."""

    arcs_BWP: torch.Tensor
    relations_BWR: torch.Tensor
