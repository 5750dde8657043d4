"""Reads CSV with fields of any length."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any

_MAX_FIELD_CHARS = 2**31 - 1
"""The largest limit that ``csv`` accepts on every platform; files and records have limits of their own."""


def csv_reader(lines: Iterable[str], **dialect: Any) -> Any:
    """Return a ``csv.reader`` without the default limit of 131,072 characters a field, which is a setting of the process."""
    csv.field_size_limit(_MAX_FIELD_CHARS)
    return csv.reader(lines, **dialect)
