"""How many characters of each category stay: the arithmetic of rebalancing, without documents.

Notation: n characters of a category, N their sum, q = n / N its share, t its target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Characters = Mapping[str, int]


def shares(characters: Characters) -> dict[str, float]:
    """Each category's share of all characters; empty when there are none."""
    total = sum(characters.values())
    return {name: count / total for name, count in characters.items()} if total else {}


def present_targets(characters: Characters, targets: Mapping[str, float]) -> dict[str, float]:
    """Targets of the categories that have any characters, scaled to sum to 1."""
    weights = {name: targets[name] for name, count in characters.items() if count and targets.get(name, 0) > 0}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _floor(exact: float) -> int:
    """⌊exact⌋, where a whole number may have come out a rounding error too small."""
    return math.floor(exact * (1 + 1e-12))


def cap(characters: Characters, targets: Mapping[str, float], alpha: float) -> dict[str, int]:
    """min(n, ⌊alpha · t · N⌋) for each category with a target; N counts these categories alone.

    What holds: no category with less than its target share loses share; the greatest share / target falls or stays; the
    total variation distance to the targets falls or stays; a larger alpha keeps at least as much of every category. (One
    category's own distance may grow: shares (1/3, 5/9, 1/9) capped at a third become (3/7, 3/7, 1/7).)
    """
    wanted = present_targets(characters, targets)
    total = sum(characters[name] for name in wanted)
    return {name: min(characters[name], _floor(alpha * share * total)) for name, share in wanted.items()}


def proportional(characters: Characters, targets: Mapping[str, float]) -> dict[str, int]:
    """⌊t · s⌋ with s = min n / t: exactly the target shares, at the price of everything above the scarcest category."""
    wanted = present_targets(characters, targets)
    scale = min((characters[name] / share for name, share in wanted.items()), default=0.0)
    return {name: min(characters[name], _floor(share * scale)) for name, share in wanted.items()}


def temperature_shares(characters: Characters, temperature: float) -> dict[str, float]:
    """p ∝ q^(1/T): T = 1 is the natural distribution, T → ∞ the uniform one. Empty categories have no share."""
    powers = {name: share ** (1 / temperature) for name, share in shares(characters).items() if share > 0}
    total = sum(powers.values())
    return {name: power / total for name, power in powers.items()}


def temperature(characters: Characters, value: float) -> dict[str, int]:
    """⌊n · w / max w⌋ with weights w = p / q of ``temperature_shares``: the scarcest category stays whole."""
    if value == 1:
        return dict(characters)
    natural, wanted = shares(characters), temperature_shares(characters, value)
    weights = {name: share / natural[name] for name, share in wanted.items()}
    greatest = max(weights.values(), default=1.0)
    return {name: math.floor(characters[name] * (weight / greatest)) for name, weight in weights.items()}
