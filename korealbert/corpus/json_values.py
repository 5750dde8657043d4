"""Finds where JSON records begin and end in a stream of bytes, without decoding them and in linear time.

Records are the elements of a top-level array, or top-level objects in a row. A dump of many GB that is one array on one line is
cut with a buffer of one record.
"""

from __future__ import annotations

import json
import re

_TOP = re.compile(rb'["{\[]')
_ELEMENT = re.compile(rb'["{\[\],]')
_INSIDE = re.compile(rb'["{}\[\]]')
_BLANK = b" \t\r\n,"
_BACKSLASH = 0x5C


def is_json_object(line: bytes) -> bool:
    """Whether a line is one whole JSON object: the mark of JSON Lines."""
    try:
        return line.lstrip().startswith(b"{") and isinstance(json.loads(line), dict)
    except ValueError:
        return False


class ValueScanner:
    """Feed blocks, take the records that are complete. Brackets are counted, their kinds are not compared."""

    def __init__(self) -> None:
        self.skipping = False
        """The current record was given up (too long); it is scanned to its end, but not kept."""
        self._buffer = bytearray()
        self._position = 0
        self._start = 0
        self._depth = 0
        self._in_array = False
        self._in_string = False
        self._cuts: list[tuple[int, int]] = []

    @property
    def complete_bytes(self) -> int:
        """Bytes of the buffer up to the end of the last complete record."""
        return self._start

    @property
    def partial_bytes(self) -> int:
        """Bytes of the record that is still open."""
        return len(self._buffer) - self._start

    def feed(self, block: bytes) -> None:
        """Add bytes and scan them."""
        self._buffer += block
        while self._step():
            pass

    def _step(self) -> bool:
        if self._in_string:
            return self._leave_string()
        pattern = _TOP if self._depth == 0 else _ELEMENT if self._at_element else _INSIDE
        found = pattern.search(self._buffer, self._position)
        if found is None:
            self._position = len(self._buffer)
            return False
        at, mark = found.start(), found.group()
        self._position = at + 1
        if mark == b'"':
            self._in_string = True
        elif mark == b",":
            self._end_record(at, at + 1)
        elif mark in b"{[":
            self._open(at, mark)
        else:
            self._close(at)
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
            self._end_record(at, at)  # whatever stands before is a record of its own, and not a good one
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
            self._cuts.clear()
        elif self._buffer[self._start : end].strip(_BLANK):
            self._cuts.append((self._start, end))
        self._start = next_start

    def take(self) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """The bytes up to the end of the last complete record, and the records' extents in them; both may be empty."""
        size, cuts = self._start, tuple(self._cuts)
        data = bytes(self._buffer[:size])
        self._forget(size)
        self._cuts.clear()
        return data, cuts

    def give_up(self) -> None:
        """Stop keeping the open record; ``forget`` then frees its bytes. Take the complete ones first."""
        self.skipping = True

    def forget(self) -> bytes:
        """Drop and return the bytes of a given-up record that are not needed to find its end."""
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

    def finish(self) -> bool:
        """End of the stream: what is left becomes a last record. False if an array was left open without one."""
        open_array = self._depth > 0
        size = len(self._buffer)
        rest = bool(self._buffer[self._start :].strip(_BLANK))
        self._end_record(size, size)
        return rest or not open_array
