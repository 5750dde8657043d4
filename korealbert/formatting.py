"""Numbers and nested facts as people read them. Every figure of the report is written by one of these."""

from __future__ import annotations

import difflib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def flat(nested: Any, *, exact: bool = False, prefix: str = "") -> dict[str, Any]:
    """``{"limits": {"min": 3}}`` as ``{"limits.min": 3}``.

    ``exact`` opens lists too (``paths.0``) and keeps empty mappings and lists as values: only equal values become equal.
    """
    opened: Mapping[Any, Any]
    if isinstance(nested, Mapping) and (nested or not exact):
        opened = nested
    elif exact and isinstance(nested, list) and nested:
        opened = dict(enumerate(nested))
    else:
        return {prefix: nested}
    parts = (flat(item, exact=exact, prefix=f"{prefix}.{key}".lstrip(".")) for key, item in opened.items())
    return {name: value for part in parts for name, value in part.items()}


_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def without_controls(text: str) -> str:
    """``text`` with control characters replaced, all but tabs and line feeds: none of it can steer a terminal."""
    return text.translate(_CONTROLS)


MISSING = "–"
_MINUS = "\u2212"


def count(value: float | None) -> str:
    """A whole number with thousands separators: 1,234,567."""
    return MISSING if value is None else f"{round(value):,}".replace("-", _MINUS)


def compact(value: float) -> str:
    """Three significant digits with k, M, G, T: 1.23M. Exact below 1,000."""
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999,950 would otherwise become 1e+03k.
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def fixed(value: float | None, decimals: int = 2) -> str:
    """A number with so many decimals."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:,.{decimals}f}".replace("-", _MINUS)


def duration(seconds: float) -> str:
    """A time as people say it: 0.42 s, 47 s, 3 min 20 s, 2 h 05 min, 3 d 4 h."""
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def percent(share: float | None, decimals: int = 1) -> str:
    """A share between 0 and 1 as a percentage; a share that is not 0 is not written as 0."""
    if share is None or not math.isfinite(share):
        return MISSING
    smallest = 10.0**-decimals
    if 0 < share * 100 < smallest / 2:
        return f"<{smallest:g} %"
    return f"{share * 100:.{decimals}f} %"


def signed(value: float, decimals: int = 2) -> str:
    """A difference with its sign."""
    return f"{value:+.{decimals}f}".replace("-", _MINUS)


def size(number: float) -> str:
    """Bytes as people read them: ``120 MB``, ``2.1 GB``."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= limit:
            return f"{number / limit:.2g} {unit}" if number < 10 * limit else f"{number / limit:,.0f} {unit}"
    return f"{number / 1e3:,.0f} kB"


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (n − 1); no deviation for one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def spread(values: Sequence[float]) -> str:
    """``mean ± sd``, or the one value there is."""
    mean, deviation = mean_and_sd(values)
    return fixed(mean) if deviation is None else f"{fixed(mean)} ± {fixed(deviation)}"


def part_of(examples: int, official: int | None) -> str:
    """How many of a benchmark's official test examples these are, ``30 of 50,000 examples``.

    Nothing where it is all of them, or where there is no official number (0). None: the number is not known.
    """
    if official is None:
        return f"{examples:,} examples that are not known to be all"
    if not official or examples == official:
        return ""
    of = f" of {official:,} examples" if examples < official else f" examples instead of {official:,}"
    return f"{examples:,}{of}"


def by_number(numbers: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    """Names with the largest number first, equal ones by name."""
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def nearest(name: str, valid: Iterable[str]) -> str:
    """`` (did you mean …?)``, or nothing where no valid name is near."""
    close = closest(name, valid)
    return "" if close is None else f" (did you mean {close!r}?)"


def closest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that is nearest to a misspelt one; None where none is near."""
    return next(iter(difflib.get_close_matches(name, list(valid), n=1)), None)
