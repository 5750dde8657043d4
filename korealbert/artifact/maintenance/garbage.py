"""Garbage collection: finds artifacts that nothing refers to, and removes those that no builder holds."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

from korealbert.artifact import locks
from korealbert.artifact.files import OPENING
from korealbert.artifact.spec import ARTIFACT_NAME
from korealbert.artifact.store import Artifact, Store

_REMOVED = ".removed"
"""Directories are moved here before they are deleted, so that a killed removal leaves no partial artifact under its name."""


_ENDINGS = {
    "": "no recipe or run refers to it",
    "partial": "unfinished, and no recipe or run refers to it",
    "replaced": "left by a build that was killed while it replaced an artifact",
}
"""What may follow an artifact's name, and why such a directory can go: ``replaced`` always, others unless referred to."""


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
    unneeded = [(path, "left by a clean-up") for path in _inside(store.root / _REMOVED)]
    foreign = []
    for path in _inside(store.root):
        name, _, ending = path.name.partition(".")
        is_ours = path.is_dir() and not path.is_symlink() and ending in _ENDINGS and ARTIFACT_NAME.fullmatch(name)
        if is_ours and (why := _why_unneeded(path, kept, live)):
            unneeded.append((path, why))
        elif not is_ours and not path.name.startswith("."):
            foreign.append(path)
    for path in store.root.glob(".import-*"):
        if path.is_dir() and not locks.is_held(path.with_name(f"{path.name}.lock")):
            unneeded.append((path, "left by an import that was killed"))
    sizes = _freed([path for path, _ in unneeded])
    garbage = [Garbage(path, why, sizes[path]) for path, why in unneeded]
    return _Survey(sorted(garbage, key=lambda each: -each.size), kept, sorted(foreign))


def _why_unneeded(path: Path, kept: Container[str], live: Container[str]) -> str:
    """Return why the directory of an artifact or build can go, or "" if it stays. ``live``: names that a run needs now."""
    name, _, ending = path.name.partition(".")
    if ending == "replaced" or name not in kept:
        return _ENDINGS[ending]
    if ending == "partial" and path.with_name(name).exists() and name not in live:
        return "left by a second build of a finished artifact"
    return ""


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
