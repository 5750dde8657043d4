"""Reading CSV: fields of any length, wherever a table comes from."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any

_LONGEST_FIELD = 2**31 - 1
"""In characters; the largest number that ``csv`` takes on every platform. Files and records have limits of their own."""


def csv_reader(lines: Iterable[str], **form: Any) -> Any:
    """``csv.reader``, whose limit of 131,072 characters a field is one for the whole process, without that limit."""
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(lines, **form)
