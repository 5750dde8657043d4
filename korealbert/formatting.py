"""Formats numbers and nested facts for people. Every figure of the report is formatted here."""

from __future__ import annotations

import difflib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def flat(nested: Any, *, exact: bool = False, prefix: str = "") -> dict[str, Any]:
    """Flatten ``{"limits": {"min": 3}}`` to ``{"limits.min": 3}``; an empty key, such as no category, becomes ``(none)``.

    ``exact`` also flattens lists (``paths.0``) and keeps empty mappings and lists as values, so that only equal values give
    equal results.
    """
    opened: Mapping[Any, Any]
    if isinstance(nested, Mapping) and (nested or not exact):
        opened = nested
    elif exact and isinstance(nested, list) and nested:
        opened = dict(enumerate(nested))
    else:
        return {prefix: nested}
    names = {key: str(key) or "(none)" for key in opened}
    parts = (flat(item, exact=exact, prefix=f"{prefix}.{names[key]}" if prefix else names[key]) for key, item in opened.items())
    return {name: value for part in parts for name, value in part.items()}


_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def without_controls(text: str) -> str:
    """Replace control characters, except tabs and line feeds, so that text cannot control a terminal."""
    return text.translate(_CONTROLS)


MISSING = "–"
_MINUS = "\u2212"


def count(value: float | None) -> str:
    """Format a whole number with thousands separators: 1,234,567."""
    return MISSING if value is None else f"{round(value):,}".replace("-", _MINUS)


def compact(value: float) -> str:
    """Format with three significant digits and k, M, G, T: 1.23M. Exact below 1,000."""
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999,950 would otherwise become 1e+03k.
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def fixed(value: float | None, decimals: int = 2) -> str:
    """Format a number with a fixed number of decimals."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:,.{decimals}f}".replace("-", _MINUS)


def duration(seconds: float) -> str:
    """Format a time for people: 0.42 s, 47 s, 3 min 20 s, 2 h 05 min, 3 d 4 h."""
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def percent(share: float | None, decimals: int = 1) -> str:
    """Format a share between 0 and 1 as a percentage; a share that is not 0 is never shown as 0."""
    if share is None or not math.isfinite(share):
        return MISSING
    smallest = 10.0**-decimals
    if 0 < share * 100 < smallest / 2:
        return f"<{smallest:g} %"
    return f"{share * 100:.{decimals}f} %"


def signed(value: float, decimals: int = 2) -> str:
    """Format a difference with its sign."""
    return f"{value:+.{decimals}f}".replace("-", _MINUS)


def size(number: float) -> str:
    """Format bytes for people: ``120 MB``, ``2.1 GB``."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= limit:
            return f"{number / limit:.2g} {unit}" if number < 10 * limit else f"{number / limit:,.0f} {unit}"
    return f"{number / 1e3:,.0f} kB"


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation (n − 1), which is None for one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def spread(values: Sequence[float]) -> str:
    """Format values as ``mean ± sd``, or as the only value."""
    mean, deviation = mean_and_sd(values)
    return fixed(mean) if deviation is None else f"{fixed(mean)} ± {fixed(deviation)}"


def part_of(examples: int, official: int | None) -> str:
    """Say how many of a benchmark's official test examples these are: ``30 of 50,000 examples``.

    Empty if it is all of them, or if there is no official number (0). None means that the number is unknown.
    """
    if official is None:
        return f"{examples:,} examples that are not known to be all"
    if not official or examples == official:
        return ""
    of = f" of {official:,} examples" if examples < official else f" examples instead of {official:,}"
    return f"{examples:,}{of}"


def by_number(numbers: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    """Sort names by number, largest first, then by name."""
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return `` (did you mean …?)``, or an empty string if no valid name is near."""
    close = closest(name, valid)
    return "" if close is None else f" (did you mean {close!r}?)"


def closest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name nearest to a misspelt one, or None if none is near."""
    return next(iter(difflib.get_close_matches(name, list(valid), n=1)), None)
