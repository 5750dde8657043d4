"""Finds where JSON records begin and end in a stream of bytes, without decoding them and in linear time.

Records are the elements of a top-level array, or top-level objects in a row. A dump of many GB that is one array on one line is
cut with a buffer of one record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection

import numpy as np

_TOP = re.compile(rb'["{\[]')
_ELEMENT = re.compile(rb'["{\[\]]|,(?>(?:[ \t\r\n]*+,)*)')
"""Marks between the elements of an array; commas in a row are one, because files may have millions."""
_INSIDE = re.compile(rb'["{}\[\]]')
_SHORT_STRINGS = re.compile(rb'(?>(?:[^"{}\[\]]*+"[^"\\]{0,64}+")+)')
"""Whole strings in a row, as in a list of names; long ones are found faster by their end."""

_MANY_STEPS = 1 << 10
"""Brackets and strings of one record from which on a whole stretch of it is looked at at once."""
_STRETCH_BYTES = 1 << 16
_STRING = re.compile(rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"', re.DOTALL)
_WHOLE_STRINGS = re.compile(rb'(?>(?:[^"]*+"[^"\\]*+(?>(?:\\.[^"\\]*+)*)")*)[^"]*+', re.DOTALL)
_SIGNS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_UNSIGNED = bytes(set(range(256)) - set(b"[{]}"))

_BLANK = b" \t\r\n,"
_BOUNDARY = re.compile(rb'(?:\A|[,\n\[])\s*(?=\{\s*"([^"]*))')
_FIRST_KEY = re.compile(rb'\s*\{\s*"([^"\\:,{}]+)"\s*:')
_FOLLOWING = re.compile(rb"\s*(?:[,\]{}]|\Z)")
_DECODER = json.JSONDecoder(strict=False)
_WINDOW_BYTES = 1 << 20
"""How far back the framing looks in a record that grows too long for another that begins within it."""
_BACKSLASH = 0x5C


def is_json_object(line: bytes) -> bool:
    """Whether a line is one whole JSON object: the mark of JSON Lines."""
    try:
        return line.lstrip().startswith(b"{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _first_key(record: bytes) -> bytes:
    """The name that an object begins with; empty if that is damaged."""
    found = _FIRST_KEY.match(record)
    return found[1] if found else b""


def resynchronised(data: bytes, like: Collection[str] = ()) -> list[tuple[int, int]]:
    """Extents of the whole objects and of the stretches between them in a record that a missing quote or brace made too long.

    An object begins after a comma or line feed, and has at least half of the ASCII names ``like``. If none are given, it
    begins with the same name as the record (or, if that is damaged, with the most frequent one) and has half as many as the
    largest. Others are taken for parts of a record. Linear: gives up where too much parses in vain.
    """
    text = data.decode("latin-1")  # one character a byte; neither UTF-8 nor CP949 uses ASCII punctuation within a character
    names = {name for name in like if name.isascii()}
    starts = [(found.end(), found[1]) for found in _BOUNDARY.finditer(data)]
    if not names and starts:
        key = _first_key(data) or Counter(name for _, name in starts).most_common(1)[0][0]
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
            extents += [*_stretch(data, position, start), (start, end)]
            position = end
    return extents + _stretch(data, position, len(data))


def _object_at(text: str, start: int) -> tuple[int, set[str]]:
    """Return the end of the object at ``start``, and its names; none, and where that showed, if it is no object."""
    size = 1 << 12  # not the whole text at once: an error counts all lines up to where it is
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


def _stretch(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    part = data[start:end]
    start += len(part) - len(part.lstrip(_BLANK))
    return [(start, start + len(part.strip(_BLANK)))] if part.strip(_BLANK + b"]") else []


class ValueScanner:
    """Feed blocks, take the records that are complete. Brackets are counted, their kinds are not compared."""

    def __init__(self) -> None:
        self.skipping = False
        """The current record was given up (too long); it is scanned to its end, but not kept."""
        self._buffer = bytearray()
        self._position = 0
        self._start = 0
        self._depth = 0
        self._steps = 0
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
        self._steps += 1
        if self._steps > _MANY_STEPS and self._depth > self._in_array and self._pass_stretch():
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

    def _pass_stretch(self) -> bool:
        """Go on behind a stretch of whole strings in which the open record does not end; False if it may, or there is none."""
        found = _WHOLE_STRINGS.match(self._buffer, self._position, self._position + _STRETCH_BYTES)
        assert found is not None
        signs = np.frombuffer(_STRING.sub(b"", found.group()).translate(_SIGNS, _UNSIGNED), dtype=np.int8)
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
            self._end_record(at, at)  # anything before is a separate record, and a bad one
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
        self._steps = 0

    def take(self) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """The bytes up to the end of the last complete record, and the records' extents in them; both may be empty."""
        size, cuts = self._start, tuple(self._cuts)
        data = bytes(self._buffer[:size])
        self._forget(size)
        self._cuts.clear()
        return data, cuts

    def resynchronise(self) -> bool:
        """End the open record where another begins within it, if one does: a quote or brace is missing then."""
        window = max(self._start, len(self._buffer) - _WINDOW_BYTES)
        data = bytes(self._buffer[window:])
        wholes = [start for start, end in resynchronised(data) if _object_at(data[start:end].decode("latin-1"), 0)[1]]
        if not wholes or window + wholes[-1] <= self._start:
            return False
        at = window + wholes[-1]
        self._cuts.append((self._start, at))
        self._start = self._position = at
        self._depth, self._steps, self._in_string = int(self._in_array), 0, False
        while self._step():
            pass
        return True

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
        """End of the stream: the rest becomes a last record. False if an array was left open without one."""
        open_array = self._depth > 0
        size = len(self._buffer)
        rest = bool(self._buffer[self._start :].strip(_BLANK))
        self._end_record(size, size)
        return rest or not open_array
