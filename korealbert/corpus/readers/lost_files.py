"""Counts the files of a source that are lost: each is a single record in quarantine, or a few, whatever it held."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import NUL_REMEDY
from korealbert.corpus.readers.spec import ExtractSpec, has_ending, is_note
from korealbert.documents.containers import is_archive
from korealbert.documents.schema import Quarantined

_MAX_SHOWN_FILES = 5
_NOTHING_TO_READ = frozenset(("empty_file", "no_records", "no_members"))
CUT = frozenset(("truncated_doc", "truncated_json", "truncated_text", "truncated_xml"))
"""Reasons of records within which a file ends, as only parsing shows."""
ENDS_READING = CUT | {
    *("truncated_file", "truncated_record", "corrupt_file", "decompression_bomb", "blank_bytes", "empty_records"),
    "invalid_utf16",
}
"""Reasons for which the rest of a file is not read."""
_OF_FORMAT, _NOTE = "of the format", "a note"
"""Kinds of files, by their names; the others are suffixes."""
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\v\f\r\x1b"))
_CONTROL = re.compile(rb"[%s]" % re.escape(_CONTROLS))
_MIN_CONTROL_SHARE = 0.05
"""Bytes that no text has, of what is none: a tenth of random bytes."""


class LostFiles:
    """The files of a source, those of which nothing is read, and those that are read in part.

    How much of the latter is missing is not known: half of a file that was cut at random, and so each counts as half. Empty
    files are no loss. If files have a suffix of the format, only they count, else those with a suffix that was read.
    """

    def __init__(self, spec: ExtractSpec) -> None:
        self._spec = spec
        self._name = ""
        self._is_read = False
        """Whether anything is read of the current file."""
        self._first_entry: Quarantined | None = None
        """The first entry of the current file if nothing is read of it so far."""
        self._end: Quarantined | None = None
        """The entry that ends the current file, if the rest is not read."""
        self._binary: Quarantined | None = None
        """The entry for the first batch of the current file that is no text."""
        self._files, self._lost, self._cut = Counter[str](), Counter[str](), Counter[str]()  # by the kind of their names
        self._faulty = set[str]()
        self._shown: dict[str, list[Quarantined]] = {}

    def add(self, part: RawRecords | Quarantined) -> None:
        """Count a part; the parts of a file come one after the other."""
        if part.file != self._name:
            self.close()
            ends_archive = self._name.startswith(f"{part.file}::")
            self._name = part.file
            self._files[self._kind_of(part.file)] += 1
            if ends_archive:
                return
        if isinstance(part, Quarantined):
            if not self._is_read and part.reason not in _NOTHING_TO_READ:
                self._first_entry = self._first_entry or part
            self._end = part if part.reason in ENDS_READING else None
        elif self._spec.format not in ("warc", "html") and is_binary(part.data):
            self._binary = self._binary or Quarantined(part.file, f"byte {part.byte}", "", "nul_bytes", NUL_REMEDY)
        elif part.extents or not part.others:
            self._is_read, self._end = True, None

    def close(self) -> None:
        """End the current file."""
        if fault := self._end or self._binary if self._is_read else self._first_entry or self._binary:
            self._count(self._cut if self._is_read else self._lost, fault)
        self._is_read, self._first_entry, self._end, self._binary = False, None, None, None

    def add_cut(self, entries: Iterable[Quarantined]) -> None:
        """Count the files that end within one of these records, which only parsing shows, after all parts."""
        for entry in entries:
            if entry.reason in CUT and entry.file not in self._faulty:
                self._count(self._cut, entry)

    def _count(self, files: Counter[str], fault: Quarantined) -> None:
        kind = self._kind_of(fault.file)
        files[kind] += 1
        self._faulty.add(fault.file)
        if len(shown := self._shown.setdefault(kind, [])) < _MAX_SHOWN_FILES:
            shown.append(fault)

    def _kind_of(self, file: str) -> str:
        name = file.rpartition("::")[2]
        if self._spec.members != "*" or has_ending(name, self._spec.format) or is_archive(name):
            return _OF_FORMAT
        return _NOTE if is_note(name) else Path(name).suffix

    @property
    def _judged(self) -> list[str]:
        """Kinds of files of which a loss counts."""
        if _OF_FORMAT in self._files:
            return [_OF_FORMAT]
        return [kind for kind, files in self._files.items() if kind != _NOTE and files > self._lost[kind]]

    @property
    def count(self) -> int:
        """Number of files."""
        return self._files.total()

    @property
    def unread(self) -> int:
        """Number of those of which nothing is read."""
        return sum(self._lost[kind] for kind in self._judged)

    @property
    def cut(self) -> int:
        """Number of those that are read in part."""
        return sum(self._cut[kind] for kind in self._judged)

    def fault(self) -> str:
        """Return the message if a larger share of the files is lost than ``max_bad_share``, else an empty string."""
        spec, files = self._spec, sum(self._files[kind] for kind in self._judged)
        lost = self.unread + self.cut / 2
        if lost <= spec.max_bad_share * files:
            return ""
        shown = [fault for kind in self._judged for fault in self._shown.get(kind, ())]
        examples = "".join(f"\n  {one}" for one in shown[:_MAX_SHOWN_FILES])
        share, of = f"({lost / files:.1%})", f"of {files:,} files"
        losses = [f"of {self.unread:,} {of}{'' if self.cut else f' {share}'}, nothing can be read"] if self.unread else []
        losses += [f"{self.cut:,} {of} can be read only in part, each of which counts as half {share}"] if self.cut else []
        return (
            f"source {spec.source}: {', and '.join(losses)}, more than max_bad_share = {spec.max_bad_share:.1%}. The first of"
            f" them:{examples}\nMend them, leave them out by `exclude`, or raise max_bad_share"
        )


def is_binary(data: bytes) -> bool:
    """Return whether most of the bytes are in lines that no text has: with NUL bytes, and control characters throughout."""
    if data.count(0) * 1_000 < len(data):
        return False
    if len(data) - len(data.translate(None, _CONTROLS)) < _MIN_CONTROL_SHARE * len(data):
        return False
    return 2 * sum(len(line) for line in data.split(b"\n") if not _CONTROL.search(line)) < len(data)
