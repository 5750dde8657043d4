"""Whether what a stage reads was changed since it began, judged by inodes and times.

A file that is changed and changed back has the bytes of its digest at the end, but other times. These are kept in the opening
of a partial directory and compared when a killed stage goes on and when its output is sealed.
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
"""Links on the way to one path; the kernel gives up beyond as many."""

Times = dict[str, list[int]]
"""By path: sizes, inodes and times in nanoseconds."""


def stamps_of_inputs(spec: Spec) -> dict[str, Times]:
    """What tells of changes to the files that a spec names: ``read`` of these, and ``above`` of all directories on their way.

    ``read`` has size and times of each file, times of each directory, whose names change with it, and inode and times of each
    link on the way. A file that is moved away and back keeps its size and mtime, but not its ctime; a link that points
    elsewhere for a while has another one itself.
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
    """Each directory and link that the kernel passes on the way to a path, and what it leads to."""
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
    """Which files, directories and links of ``stamps_of_inputs`` are others than before, or may have been others meanwhile.

    A directory above an input counts where it was moved: it has another ctime, but the same mtime or another inode, and the
    directory that holds it has other times too, as after every move. Files that come and go beside an input (in /tmp, in a home
    directory) change mtime and ctime alike and are no alarm; where they do so in the moved directory itself they hide the move,
    which is accepted, because stages that fail beside busy directories would be worse.
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
    """Of each input, by role and name within it: size and mtime of a file, inode and times of a directory.

    Files are without ctime, which changes where another artifact comes to share one by a hard link. A name that is given to
    another file, or taken away, shows in the times of its directory.
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
    """By role, what of an input artifact was written since ``before``; one that was built anew is another directory."""
    touched = {}
    for role, now in after.items():
        then = before.get(role, {})
        if then.get(".", [None])[0] == now["."][0] and (
            names := {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
        ):
            touched[role] = min(names - {"."}, default="its directory")
    return touched
