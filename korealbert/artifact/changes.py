"""Whether a stage's inputs were changed since it began, judged by inodes and times.

A file that is changed and changed back has the same bytes in the end, but other times. The times are kept in the opening of a
partial directory, and compared when a killed stage resumes and when its output is sealed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from korealbert.artifact.files import entries_of, files_of, stamp
from korealbert.artifact.spec import Spec, input_paths
from korealbert.artifact.store import Artifact

_MOST_LINKS = 40
"""Links followed on the way to one path. The kernel gives up after as many."""

Times = dict[str, list[int]]
"""Sizes, inodes and times in nanoseconds, by path."""


def stamps_of_inputs(spec: Spec) -> dict[str, Times]:
    """Return the times of all that a spec names (``read``) and of the directories that lead there (``above``).

    ``read`` has size and times of each file, times of each directory (they change when a name in it does), and inode and times
    of each link. A file that is moved away and back keeps its size and mtime, but not its ctime; a link that pointed elsewhere
    for a while has another ctime itself.
    """
    read: Times = {}
    above: Times = {}
    for path in map(Path, input_paths(spec)):
        entries = [path, *entries_of(path)]
        read |= {str(file): stamp(file) for file in files_of(path)}
        read |= {str(each): stamp(each)[1:] for each in entries if each.is_dir()}
        ways = (_way(each) if each.exists() else (each,) for each in entries if each == path or each.is_symlink())
        for step in itertools.chain.from_iterable(ways):
            status = step.lstat()
            times = [status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
            if step.is_symlink():
                read[f"{step} (link)"] = times
            elif S_ISDIR(status.st_mode):
                above[str(step)] = times
    return {"read": read, "above": above}


def _way(path: Path) -> Iterator[Path]:
    """Yield each directory and link that the kernel passes on the way to a path."""
    place, rest, links = Path(path.anchor or "/"), [*reversed(path.absolute().parts[1:])], 0
    yield place
    while rest:
        part = rest.pop()
        if part == "..":
            place = place.parent
            continue
        yield (step := place / part)
        if step.is_symlink() and (links := links + 1) <= _MOST_LINKS:
            target = step.readlink()
            place = Path(target.anchor) if target.is_absolute() else place
            rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        else:
            place = step


def changed(before: Mapping[str, Any], after: Mapping[str, Times]) -> list[str]:
    """Return the files, directories and links of ``stamps_of_inputs`` that differ, or may have differed meanwhile.

    A directory above an input counts if it was moved: its ctime changed, but its mtime did not, or its inode did, and its
    parent's times changed too. Files that come and go beside an input (in /tmp, in a home directory) change mtime and ctime
    together and are ignored. If that happens in the moved directory itself, the move is missed; stages that fail next to busy
    directories would be worse.
    """
    then, now = before.get("read", {}), after["read"]
    touched = {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
    then, now = before.get("above", {}), after["above"]
    busy = {name for name in then.keys() & now.keys() if then[name][1:] != now[name][1:]}
    for name in busy:
        moved = then[name][0] != now[name][0] or then[name][1] == now[name][1]
        if moved and str(Path(name).parent) in busy - {name}:
            touched.add(f"{name} (moved)")
    return sorted(touched)


def stamps_of_artifacts(inputs: Mapping[str, Artifact]) -> dict[str, Times]:
    """Return size and mtime of each file, and inode and times of each directory, of each input by role.

    Files are without ctime, which changes when another artifact gets a hard link to the file. Replacing or removing a file
    changes the times of its directory.
    """
    stamps: dict[str, Times] = {}
    for role, artifact in inputs.items():
        entries = {each.relative_to(artifact.path): each.stat() for each in (artifact.path, *artifact.path.rglob("*"))}
        stamps[role] = {
            str(name): [found.st_ino, found.st_mtime_ns, found.st_ctime_ns]
            if S_ISDIR(found.st_mode)
            else [found.st_size, found.st_mtime_ns]
            for name, found in entries.items()
        }
    return stamps


def changed_artifacts(before: Mapping[str, Any], after: Mapping[str, Times]) -> dict[str, str]:
    """Return which file of each input artifact was written since ``before``, by role.

    A rebuilt artifact is not reported: it is another directory.
    """
    touched = {}
    for role, now in after.items():
        then = before.get(role, {})
        if then.get(".", [None])[0] == now["."][0] and (
            names := {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
        ):
            touched[role] = min(names - {"."}, default="its directory")
    return touched
