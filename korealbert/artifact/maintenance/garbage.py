"""Garbage collection: finds artifacts that nothing refers to, and removes those that no builder holds."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

from korealbert.artifact import locks
from korealbert.artifact.files import OPENING
from korealbert.artifact.spec import ARTIFACT_NAME
from korealbert.artifact.store import Artifact, Store

_REMOVED = ".removed"
"""Directories are moved here before they are deleted, so that a killed removal leaves no partial artifact under its name."""


_ENDINGS = {"": "no recipe or run refers to it", "partial": "unfinished, and no recipe or run refers to it", "replaced": ""}
"""What may follow an artifact's name, and why a directory can go if nothing refers to that name."""


@dataclass(frozen=True)
class Garbage:
    """A directory that can be removed."""

    path: Path
    why: str
    size: int
    """Bytes that its removal frees. Files shared with kept artifacts do not count."""


@dataclass(frozen=True)
class _Survey:
    """Everything in a store's directory, sorted by whether it is still needed."""

    garbage: list[Garbage]
    kept: dict[str, str]
    """Why each artifact stays, by name."""
    foreign: list[Path]
    """Neither artifacts nor left by a build; never touched."""


def survey(store: Store, wanted: Mapping[str, str]) -> _Survey:
    """Sort everything in the store's directory.

    ``wanted`` has names of artifacts to keep, each with a reason. Recorded runs, live builders and the ancestors of all of
    these are kept too.
    """
    builders, recorded = _of_builders(store), locks.runs(store.root)
    kept = _with_lineage(store, {**builders, **_of_runs(recorded), **wanted})
    live = {*builders, *(name for run in recorded if run.live for name in run.artifacts.values())}
    found: list[tuple[Path, str]] = [(path, "left by a clean-up") for path in _inside(store.root / _REMOVED)]
    foreign = []
    for path in _inside(store.root):
        name, _, ending = path.name.partition(".")
        if path.is_symlink() or not path.is_dir() or not ARTIFACT_NAME.fullmatch(name) or ending not in _ENDINGS:
            if not path.name.startswith("."):
                foreign.append(path)
        elif ending == "replaced":
            found.append((path, "left by a build that was killed while it replaced an artifact"))
        elif name not in kept:
            found.append((path, _ENDINGS[ending]))
        elif ending == "partial" and (store.root / name).exists() and name not in live:
            found.append((path, "left by a second build of a finished artifact"))
    for path in store.root.glob(".import-*"):
        if path.is_dir() and not locks.is_held(path.with_name(f"{path.name}.lock")):
            found.append((path, "left by an import that was killed"))
    sizes = _freed([path for path, _ in found])
    garbage = [Garbage(path, why, sizes[path]) for path, why in found]
    return _Survey(sorted(garbage, key=lambda each: -each.size), kept, sorted(foreign))


def remove(store: Store, wanted: Mapping[str, str]) -> Iterator[tuple[Garbage, str | None]]:
    """Remove what ``survey`` finds; yields each with None, or with the reason why it was left.

    No run can start meanwhile. Artifacts that a builder holds at that moment stay. Raises ReadOnlyStore.
    """
    with locks.exclusively(store.root):
        for each in survey(store, wanted).garbage:
            name = each.path.name.partition(".")[0]
            if each.path.parent.name == _REMOVED or not ARTIFACT_NAME.fullmatch(name):
                shutil.rmtree(each.path)
                each.path.with_name(f"{each.path.name}.lock").unlink(missing_ok=True)
                yield each, None
                continue
            with locks.if_free(store.lock_file(name)) as free:
                if not free or name in _of_builders(store, but=name):
                    yield each, "a build holds it"
                    continue
                aside = store.root / _REMOVED / each.path.name
                aside.parent.mkdir(exist_ok=True)
                shutil.rmtree(aside, ignore_errors=True)
                each.path.rename(aside)
                if not any((store.root / f"{name}{ending}").exists() for ending in ("", ".partial", ".replaced")):
                    store.lock_file(name).unlink(missing_ok=True)
            shutil.rmtree(aside)
            yield each, None
        store.digests.forget_missing()


def _inside(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _of_builders(store: Store, but: str = "") -> dict[str, str]:
    """Return what live builders hold (except the builder of ``but``): the artifact that each builds, and its inputs."""
    held: dict[str, str] = {}
    for lock in (store.root / ".locks").glob("*.lock"):
        if lock.stem != but and locks.is_held(lock):
            why = f"{locks.holder(lock)} builds {lock.stem}"
            held[lock.stem] = why
            with contextlib.suppress(OSError, ValueError, KeyError):  # The builder has not started to write.
                opening = json.loads((store.root / f"{lock.stem}.partial" / OPENING).read_text("utf-8"))
                held |= {str(name): why for name in opening["recipe"]["inputs"].values()}
    return held


def _of_runs(recorded: Iterable[locks.Run]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for run in recorded:
        part = f" up to {run.until}" if run.until else ""
        wanted |= dict.fromkeys(run.artifacts.values(), f"{'running' if run.live else 'run'} {run.began}: {run.recipe}{part}")
    return wanted


def _with_lineage(store: Store, wanted: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    frontier = dict(wanted)
    while frontier:
        name, why = frontier.popitem()
        if name not in kept:
            kept[name] = why
            artifact = Artifact(name, store.root / name)
            if artifact.path.is_dir() and store.unreadable(artifact) is None:
                frontier |= {each: why for each in artifact.manifest["inputs"].values() if each not in kept}
    return kept


def _freed(paths: Iterable[Path]) -> dict[Path, int]:
    """Return the bytes that removing each directory frees. A file counts once, and only if all its links are removed."""
    links: Counter[tuple[int, int]] = Counter()
    files = {path: [status for file in path.rglob("*") if not S_ISDIR((status := file.lstat()).st_mode)] for path in paths}
    for statuses in files.values():
        links.update((status.st_dev, status.st_ino) for status in statuses)
    counted: set[tuple[int, int]] = set()
    sizes = {}
    for path, statuses in files.items():
        sizes[path] = 0
        for status in statuses:
            inode = (status.st_dev, status.st_ino)
            if inode not in counted and links[inode] >= status.st_nlink:
                counted.add(inode)
                sizes[path] += status.st_size
    return sizes
