"""Input of all commands: common options with their completion, and the artifacts and stores that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from korealbert import shipped
from korealbert.artifact import Artifact, Store, locks
from korealbert.artifact.files import MANIFEST, expanded, is_of_an_artifact
from korealbert.artifact.store import STORE_VARIABLE, default_store
from korealbert.flows.terminal import warn
from korealbert.formatting import nearest


def _store(ctx: typer.Context, param: typer.CallbackParam, store: Path) -> Path:
    source = ctx.get_parameter_source(str(param.name))
    return default_store() if source is not None and source.name == "DEFAULT" else expanded(store)


def _directory(given: Path | None) -> Path | None:
    return None if given is None else expanded(given)


StoreDir = Annotated[
    Path,
    typer.Option(
        "--store",
        envvar=STORE_VARIABLE,
        show_envvar=False,
        help="directory of the artifacts",
        file_okay=False,
        callback=_store,
    ),
]
RECIPE_HERE = Path("recipe.toml")
"""The default recipe: that of the current directory."""
DataDir = Annotated[
    Path | None, typer.Option("--data", help="directory that ${data} in the recipe stands for", callback=_directory)
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root", help="refuse a recipe that names a file outside this directory", file_okay=False, callback=_directory
    ),
]


def labels(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the label of an artifact in the store."""
    return sorted({label for _, label in _labels(ctx) if label.startswith(incomplete)})


def labels_of(*stages: str) -> Callable[[typer.Context, str], list[str]]:
    """Return the completion of the label of an artifact that one of these stages built."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return sorted({label for stage, label in _labels(ctx) if stage in stages and label.startswith(incomplete)})

    return complete


def _labels(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return stage and label of all artifacts in the store."""
    store = Path(ctx.params.get("store") or default_store())
    found = Store(store).artifacts() if store.is_dir() else []
    return [(str(one.manifest["recipe"]["stage"]), str(one.manifest["label"])) for one in found]


def recipe_names(incomplete: str) -> list[str]:
    """Complete a recipe: a file here, or the name of a shipped one."""
    known = {str(path) for path in Path().glob("*.toml")} | {*shipped.names()}
    return sorted(name for name in known if name.startswith(incomplete))


def labels_and_recipes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a label or a recipe."""
    return sorted({*labels(ctx, incomplete), *recipe_names(incomplete)})


def stages(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a stage or label of the command's recipe; nothing if the recipe has errors."""
    from korealbert.recipe import planning  # noqa: PLC0415 (loads every package)

    # The option being completed still lacks its value, so the arguments before it are not parsed yet.
    recipe = shipped.shipped(Path(ctx.args[0] if ctx.args else ctx.params.get("recipe") or RECIPE_HERE))
    try:
        found = planning.labels(recipe, data=ctx.params.get("data"))
    except (ValueError, OSError):
        return []
    return sorted(name for name in {*found, *(label.split("/")[0] for label in found)} if name.startswith(incomplete))


def machines(incomplete: str) -> list[str]:
    """Complete the name of a machine with a cost profile."""
    from korealbert.recipe.machines import figures  # noqa: PLC0415 (loads every package)

    return [name for name in figures().chips if name.startswith(incomplete)]


def find(store: Path, name: str, others: Iterable[str] = ()) -> Artifact:
    """Return the artifact of this name; else of this label, as the newest run needed it; else the newest whose name begins so.

    Raises ValueError with the nearest name, possibly one of ``others``, if there is none.
    """
    path = Path(name)
    if (path / MANIFEST).is_file():
        return Artifact(path.resolve().name, path.resolve())
    if not store.is_dir():
        near = nearest(name, others)
        raise ValueError(f"{store}: no artifact {name!r}{near}, nor a store; `korealbert run RECIPE --store {store}` makes one")
    known = Store(store).artifacts()
    matching = (
        [a for a in known if a.name == name]
        or [a for a in known if a.manifest["label"] == name]
        or [a for a in known if a.name.startswith(name)]
    )
    if len(matching) > 1:
        return _newest(store, name, matching)
    if matching:
        return matching[0]
    begun = name.removesuffix(".partial")
    if unfinished := sorted(path for path in store.glob("*.partial") if path.name.startswith(begun)):
        raise ValueError(f"{unfinished[-1]} is unfinished; the next `korealbert run` of its recipe continues it")
    valid = {word for artifact in known for word in (artifact.name, artifact.manifest["label"])}.union(others)
    raise ValueError(f"{store}: no artifact {name!r}{nearest(name, sorted(valid))}; `korealbert show` lists them")


def _newest(store: Path, name: str, matching: Sequence[Artifact]) -> Artifact:
    """Return the artifact that the newest run needed under this label, or else the newest; print which one it is."""
    by_name = {artifact.name: artifact for artifact in matching}
    needed = [run.artifacts[name] for run in locks.runs(store) if run.artifacts.get(name) in by_name]
    chosen, which = (by_name[needed[-1]], "that of the newest run") if needed else (matching[-1], "the newest")
    description = f"{chosen.name} ({chosen.manifest['label']}), built {chosen.manifest['created']}"
    warn(f"{len(matching)} artifacts match {name!r}; taking {which}, {description}", style="dim")
    return chosen


def means_directory(store: Path, name: str, holds: str) -> bool:
    """Whether a name means a directory that a command reads, rather than an artifact.

    That is so if the directory ``holds`` the command's file, or no artifact has this name, beginning or label. The directory of
    an artifact is an artifact.
    """
    directory = Path(name)
    if not directory.is_dir() or is_of_an_artifact(directory):
        return False
    known = ((artifact.name, str(artifact.manifest["label"])) for artifact in Store(store).artifacts())
    return (directory / holds).is_file() or not any(
        own.startswith(name) or label == name or label.startswith(f"{name}/") for own, label in known
    )


def existing_store(store: Path) -> Store:
    """Return the store in a directory. Raises ValueError if there is none."""
    if not store.is_dir():
        raise ValueError(f"{store}: no store here; `korealbert run RECIPE --store {store}` makes one")
    return Store(store)
