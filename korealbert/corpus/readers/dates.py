"""Reads the dates of metadata: Korean and ISO forms, those of mail and feeds (RFC 2822), Unix times.

Only fields that are meant as dates come here. A number is a Unix time if it is one between 1990 and 2100 in seconds, milli-,
micro- or nanoseconds. These ranges do not overlap, and 20200303, 202003031000 and 20200303100000 are in none of them.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from email.utils import parsedate_to_datetime

_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?"
_DATE = re.compile(
    r"(\d{4})(?: ?[-./년] ?(\d{1,2}) ?[-./월] ?(\d{1,2})(?:일|\.)?|(\d{2})(\d{2}))(?: ?\([월화수목금토일](?:요일)?\))?"
    rf"(?:[T ] ?(?:(오전|오후|AM|PM) ?)?{_CLOCK} ?(Z|[+-]\d{{2}}:?\d{{2}})?)?"
)
_YEAR_OR_MONTH = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2]))?")
_PACKED = re.compile(r"(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})?")
_UNIX = re.compile(r"(\d{9,19})(?:\.\d+)?")
_EARLIEST, _LATEST = 631_152_000, 4_102_444_800
"""1990 and 2100 as Unix times."""


def iso_date(value: str) -> str:
    """Return a date of a usual form in ISO 8601, as precise as it is and in the zone that it states; else an empty string."""
    try:
        if found := _DATE.fullmatch(value):
            year, month, day, packed_month, packed_day, half, hour, minute, second, zone = found.groups()
            return _iso((year, month or packed_month, day or packed_day), (hour, minute, second), zone or "", half or "")
        if found := _UNIX.fullmatch(value):
            return _of_number(found[1])
        if _YEAR_OR_MONTH.fullmatch(value):
            return value
        # Korean feeds write KST, although RFC 2822 has no such name.
        return parsedate_to_datetime(value.replace("KST", "+0900")).isoformat()
    except (ValueError, OverflowError):
        return ""


def _of_number(digits: str) -> str:
    """Return the time of a number: a Unix time, or year to minute or second without marks. Raises ValueError."""
    for unit in (1, 1_000, 1_000_000, 1_000_000_000):
        if _EARLIEST * unit <= int(digits) < _LATEST * unit:
            return datetime.fromtimestamp(int(digits) // unit, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = _PACKED.fullmatch(digits)
    if found is None:
        return ""
    year, month, day, hour, minute, second = found.groups()
    return _iso((year, month, day), (hour, minute, second), "")


def _iso(day: tuple[str, str, str], clock: tuple[str | None, str, str | None], zone: str, half: str = "") -> str:
    """Return a day, and a time if there is one, in ISO 8601; ``half`` is 오전 or 오후. Raises ValueError."""
    day_only = date(*map(int, day)).isoformat()
    hour, minute, second = clock
    if hour is None:
        return day_only
    hours = int(hour)
    if half in ("오후", "PM") and hours < 12:
        hours += 12
    elif half in ("오전", "AM") and hours == 12:
        hours = 0
    return f"{day_only}T{time(hours, int(minute), int(second or 0)).isoformat('seconds' if second else 'minutes')}{zone}"
