"""Finds the JSON records in a stream of bytes in linear time, without decoding them.

Records are the elements of a top-level array, or top-level objects in a row. The buffer holds one record, even if a dump of
many GB is one array on one line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection

import numpy as np

_TOP = re.compile(rb'["{\[]')
_ELEMENT = re.compile(rb'["{\[\]]|,(?>(?:[ \t\r\n]*+,)*)')
"""Matches the marks between the elements of an array; several commas match once, because files may have millions."""
_INSIDE = re.compile(rb'["{}\[\]]')
_SHORT_STRINGS = re.compile(rb'(?>(?:[^"{}\[\]]*+"[^"\\]{0,64}+")+)')
"""Matches several short strings, as in a list of names; for long strings it is faster to search for the end."""

_STEPS_BEFORE_SKIPPING = 1 << 10
"""Brackets and strings of one record after which ``_SKIP_BYTES`` of it are scanned at once with NumPy."""
_SKIP_BYTES = 1 << 16
_STRING = re.compile(rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"', re.DOTALL)
_WHOLE_STRINGS = re.compile(rb'(?>(?:[^"]*+"[^"\\]*+(?>(?:\\.[^"\\]*+)*)")*)[^"]*+', re.DOTALL)
_DEPTH_CHANGES = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_OTHER_BYTES = bytes(set(range(256)) - set(b"[{]}"))

_SEPARATORS = b" \t\r\n,"
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_BOUNDARY = re.compile(rb'(?:\A|[,\n\[])\s*+(?:(?=\{\s*"([^"]*))|)')
"""Where an object may begin, if it has a group: without the empty alternative, blank lines would take quadratic time."""
_FIRST_KEY = re.compile(rb'\s*\{\s*"([^"\\:,{}]+)"\s*:')
_FOLLOWING = re.compile(rb"\s*(?:[,\]{}]|\Z)")
_DECODER = json.JSONDecoder(strict=False)
UNCLOSED_REMEDY = "the array is not closed; its whole records are kept; fetch the file again"
_WINDOW_BYTES = 1 << 20
"""How far back another record is searched for in one that grows too long."""
_BACKSLASH = 0x5C


def is_json_object(line: bytes) -> bool:
    """Return whether a line is one whole JSON object, as in JSON Lines."""
    try:
        return line.lstrip().startswith(b"{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def is_json_list(line: bytes) -> bool:
    """Return whether a line is one whole JSON list."""
    try:
        return line.lstrip().startswith(b"[") and isinstance(json.loads(line), list)
    except (ValueError, RecursionError):
        return False


def resynchronised(data: bytes, expected_names: Collection[str] = ()) -> list[tuple[int, int]]:
    """Return the extents of whole objects, and of what is between them, in a record that lacks a quote or brace.

    A whole object begins after a comma or line feed, and has at least half of the ``expected_names`` that are ASCII. Without
    expected names, it begins with the same name as the record (or if that is damaged, with the most frequent one) and has half
    as many names as the largest object. All others are taken for parts of a record. Takes linear time, because it gives up when
    too much does not parse.
    """
    text = data.decode("latin-1")  # one character a byte; neither UTF-8 nor CP949 uses ASCII punctuation within a character
    names = {name for name in expected_names if name.isascii()}
    starts = [(found.end(), found[1]) for found in _BOUNDARY.finditer(data) if found[1] is not None]
    if not names and starts:
        first = _FIRST_KEY.match(data)
        key = first[1] if first else Counter(name for _, name in starts).most_common(1)[0][0]
        starts = [(start, name) for start, name in starts if name == key]
    found: list[tuple[int, int, int]] = []
    position, budget = 0, 4 * len(data) + _WINDOW_BYTES
    for start, _ in starts:
        if start < position:
            continue
        end, keys = _object_at(text, start)
        if keys and _FOLLOWING.match(data, end) and (not names or 2 * len(names & keys) >= len(names)):
            found.append((start, end, len(keys)))
            position = end
            continue
        budget -= end - start
        if budget < 0:
            break
    largest = 0 if names else max((count for *_, count in found), default=0)
    extents: list[tuple[int, int]] = []
    position = 0
    for start, end, count in found:
        if 2 * count >= largest:
            extents += [*_between(data, position, start), (start, end)]
            position = end
    return extents + _between(data, position, len(data))


def _object_at(text: str, start: int) -> tuple[int, set[str]]:
    """Return the end of the object at ``start``, and its names; if it is not an object, where parsing failed, and no names."""
    size = 1 << 12  # small at first, because a JSONDecodeError counts all lines before it
    while True:
        part = text[start : start + size]
        try:
            value, end = _DECODER.raw_decode(part)
            break
        except json.JSONDecodeError as error:
            cut_off = error.pos > len(part) - 16 or error.msg.startswith("Unterminated")
            if not cut_off or start + size >= len(text):
                return start + max(error.pos, 1), set()
        except (ValueError, RecursionError):
            return len(text), set()
        size *= 8
    return start + end, set(value) if isinstance(value, dict) else set()


def _between(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    part = data[start:end]
    start += len(part) - len(part.lstrip(_SEPARATORS))
    return [(start, start + len(part.strip(_SEPARATORS)))] if part.strip(_SEPARATORS + b"]") else []


class ValueScanner:
    """Takes blocks and returns complete records. It counts brackets, but does not compare their kinds."""

    def __init__(self) -> None:
        self.skipping = False
        """Whether the current record is too long, so that it is scanned to its end, but not kept."""
        self._buffer = bytearray()
        self._position = 0
        self._start = 0
        self._depth = 0
        self._steps = 0
        self._in_array = False
        self._in_string = False
        self._extents: list[tuple[int, int]] = []

    @property
    def complete_bytes(self) -> int:
        """Size of the complete records in the buffer."""
        return self._start

    @property
    def partial_bytes(self) -> int:
        """Size of the open record so far, without the blanks before it."""
        begin = _BLANKS.match(self._buffer, self._start)
        return len(self._buffer) - (begin.end() if begin else self._start)

    def feed(self, block: bytes) -> None:
        """Add bytes and scan them."""
        self._buffer += block
        while self._step():
            pass

    def _step(self) -> bool:
        if self._in_string:
            return self._leave_string()
        self._steps += 1
        if self._steps > _STEPS_BEFORE_SKIPPING and self._depth > self._in_array and self._skip_ahead():
            return True
        pattern = _TOP if self._depth == 0 else _ELEMENT if self._at_element else _INSIDE
        if pattern is _INSIDE and (strings := _SHORT_STRINGS.match(self._buffer, self._position)):
            self._position = strings.end()
        found = pattern.search(self._buffer, self._position)
        if found is None:
            self._position = len(self._buffer)
            return False
        at, mark = found.start(), found.group()[:1]
        self._position = found.end()
        if mark == b'"':
            self._in_string = True
            return self._leave_string()
        if mark == b",":
            self._end_record(at, found.end())
        elif mark in b"{[":
            self._open(at, mark)
        else:
            self._close(at)
        return True

    def _skip_ahead(self) -> bool:
        """Skip up to ``_SKIP_BYTES`` in which strings are whole and the record does not end; False if that is not possible."""
        found = _WHOLE_STRINGS.match(self._buffer, self._position, self._position + _SKIP_BYTES)
        assert found is not None
        signs = np.frombuffer(_STRING.sub(b"", found.group()).translate(_DEPTH_CHANGES, _OTHER_BYTES), dtype=np.int8)
        depths = self._depth + signs.cumsum(dtype=np.int64)
        if not signs.size or depths.min() <= self._in_array:
            self._steps = 0
            return False
        self._position, self._depth = found.end(), int(depths[-1])
        return True

    @property
    def _at_element(self) -> bool:
        return self._in_array and self._depth == 1

    def _leave_string(self) -> bool:
        end = self._buffer.find(b'"', self._position)
        if end < 0:
            self._position = len(self._buffer)
            return False
        first = end
        while first > 0 and self._buffer[first - 1] == _BACKSLASH:
            first -= 1
        self._in_string = (end - first) % 2 == 1
        self._position = end + 1
        return True

    def _open(self, at: int, mark: bytes) -> None:
        if self._depth == 0:
            self._end_record(at, at)  # anything before it is a record of its own, and a bad one
            if mark == b"[":
                self._in_array = True
                self._start = at + 1
        self._depth += 1

    def _close(self, at: int) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._end_record(at if self._in_array else at + 1, at + 1)
            self._in_array = False

    def _end_record(self, end: int, next_start: int) -> None:
        if self.skipping:
            self.skipping = False
            self._extents.clear()
        elif self._buffer[self._start : end].strip(_SEPARATORS):
            self._extents.append((self._start, end))
        self._start = next_start
        self._steps = 0

    def take(self) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """Return the complete records and their extents; both may be empty."""
        size, extents = self._start, tuple(self._extents)
        data = bytes(self._buffer[:size])
        self._forget(size)
        self._extents.clear()
        return data, extents

    def resynchronise(self) -> bool:
        """End the open record where another one begins within it; False if none does."""
        window = max(self._start, len(self._buffer) - _WINDOW_BYTES)
        data = bytes(self._buffer[window:])
        wholes = [start for start, end in resynchronised(data) if _object_at(data[start:end].decode("latin-1"), 0)[1]]
        if not wholes or window + wholes[-1] <= self._start:
            return False
        at = window + wholes[-1]
        self._extents.append((self._start, at))
        self._start = self._position = at
        self._depth, self._steps, self._in_string = int(self._in_array), 0, False
        while self._step():
            pass
        return True

    def give_up(self) -> None:
        """Stop keeping the open record, so that ``forget`` frees its bytes. Take the complete ones first."""
        self.skipping = True

    def forget(self) -> bytes:
        """Remove and return the bytes of a record that was given up, except those needed to find its end."""
        size = self._position
        run = size
        while run > 0 and self._buffer[run - 1] == _BACKSLASH:
            run -= 1
        if self._in_string and (size - run) % 2 == 1:
            size -= 1  # the backslash may escape the next quote
        data = bytes(self._buffer[:size])
        self._forget(size)
        return data

    def _forget(self, size: int) -> None:
        del self._buffer[:size]
        self._position -= size
        self._start = max(0, self._start - size)

    def finish(self) -> str:
        """Make the rest a last record at the end of the stream.

        Return a reason for the quarantine if an array is still open behind a whole record, else "". If the stream ends in a
        bracket, as arrays do, a brace is missing before it, and nothing at its end.
        """
        open_array = self._depth > 0
        size = len(self._buffer)
        rest = self._buffer[self._start :].strip(_SEPARATORS)
        has_end = self._buffer.rstrip().endswith(b"]")
        self._end_record(size, size)
        if not open_array or (rest and not is_json_object(bytes(rest))):
            return ""
        return "unclosed_json" if has_end else "truncated_json"
