"""The commands that show what was built: show, inspect, diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.rule import Rule
from rich.table import Column, Table

from korealbert.artifact import Store
from korealbert.artifact.files import atomic_write, refuse_overwriting
from korealbert.flows.options import (
    RECIPE_HERE,
    DataDir,
    StoreDir,
    existing_store,
    find,
    labels,
    labels_and_recipes,
    means_directory,
)
from korealbert.flows.terminal import clear_errors, console, megabytes, print_sections, warn
from korealbert.shipped import names, shipped

app = typer.Typer()
_WIDE = 80
"""Terminal width from which a list of artifacts shows when they were built."""

_MEASURED = 60
"""Terminal width from which it shows their size and time; a narrower one has room for names and stages only."""

_PAGE_BEGINS = b"<!doctype html>"


@app.command()
def show(
    artifact: Annotated[
        str | None, typer.Argument(help="name, or its beginning, or its label; all artifacts if omitted", autocompletion=labels)
    ] = None,
    store: StoreDir = Path("store"),
) -> None:
    """List the artifacts of a store, or print one manifest."""
    with clear_errors():
        if artifact is not None:
            console.print_json(json.dumps(find(store, artifact).manifest, ensure_ascii=False))
            return
        known = existing_store(store).artifacts()
    dated = console.width >= _WIDE
    measured = console.width >= _MEASURED
    name, *more = (Column(title, no_wrap=True) for title in ("artifact", "size", "took")[: 1 + 2 * measured])
    folded = [Column(title, overflow="fold") for title in ("stage", "created")[: 1 + dated]]
    table = Table(name, *folded, *more, box=None, pad_edge=False)
    for found in known:
        manifest = found.manifest
        created = [manifest["created"].replace("T", " ")] if dated else []
        sizes = [megabytes(found.size), f"{manifest['wall_seconds']:,.1f} s"] if measured else []
        table.add_row(found.name, manifest["label"], *created, *sizes)
    console.print(table)


@app.command()
def inspect(
    artifact: Annotated[str, typer.Argument(help="an artifact's name, or its beginning, or its label", autocompletion=labels)],
    dropped: Annotated[str | None, typer.Option("--dropped", help="show documents dropped for this reason (all: any)")] = None,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="show input that could not be read")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="show the text that the stage removed from and added to each document")
    ] = False,
    view: Annotated[int, typer.Option("--view", help="which view's noise to show on example rows")] = 0,
    wanted: Annotated[str, typer.Option("--id", help="show only this document or example")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="how many to show")] = 5,
    offset: Annotated[int, typer.Option("--offset", min=0, help="how many to skip first")] = 0,
    whole: Annotated[bool, typer.Option("--whole", help="do not shorten long texts")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="write a page to this file instead", dir_okay=False)] = None,
    store: StoreDir = Path("store"),
) -> None:
    """Show the contents of an artifact: documents, drops with their reasons, changes, or examples with the noise of a view."""
    from korealbert.inspection import look  # noqa: PLC0415 (loads every package)
    from korealbert.inspection.look import page  # noqa: PLC0415
    from korealbert.recipe import registry  # noqa: PLC0415

    with clear_errors():
        found = find(store, artifact)
        if html is not None:
            _check_target(html, found.path)
        selection = look.Selection(dropped=dropped, quarantine=quarantine, diff=diff, view=view, wanted=wanted, whole=whole)
        shows = registry.shows(found.manifest["recipe"]["stage"])
        shown = look.items(found, selection, shows=shows, limit=limit, offset=offset)
        if html is not None:
            _write_page(html, page(f"{found.manifest['label']} · {found.name}", shown))
            console.print(str(html), soft_wrap=True)
            return
        console.push_theme(look.THEME)
        for item in shown:
            console.print(item, soft_wrap=True)
            console.print(Rule(style="quiet") if console.is_terminal else "")


def _display_name(recipe: str) -> str:
    """Return the name of a recipe for people: a project is named by its directory."""
    path = Path(recipe)
    if path == Path():
        return Path.cwd().name
    return str(path.parent) if path.name == RECIPE_HERE.name and path.parent.name else recipe.removesuffix(".toml")


@app.command()
def diff(
    first: Annotated[
        str,
        typer.Argument(
            help="a recipe, the report of a run, or an artifact: name, beginning or label", autocompletion=labels_and_recipes
        ),
    ],
    second: Annotated[str, typer.Argument(help="what it is compared with", autocompletion=labels_and_recipes)],
    html: Annotated[Path | None, typer.Option("--html", help="write a page to this file instead", dir_okay=False)] = None,
    store: StoreDir = Path("store"),
    data: DataDir = None,
) -> None:
    """Compare two runs, artifacts or recipes: settings, corpora, scores and curves."""
    from korealbert.recipe.comparison import chapters, sides  # noqa: PLC0415 (loads every package)
    from korealbert.report.render.writer import page  # noqa: PLC0415

    places: list[Path] = []

    def side(name: str) -> sides.Side:
        recipe = shipped(Path(name))
        if means_directory(store, name, RECIPE_HERE.name):
            recipe /= RECIPE_HERE
        artifact = None if recipe.suffix == ".toml" else find(store, name, names())
        places.append((artifact.path if artifact else recipe).resolve())
        if html is not None:
            _check_target(html, artifact.path if artifact else recipe)
        if artifact is not None:
            return sides.of_artifact(artifact)
        return sides.of_recipe(recipe, Store(store), _display_name(name), data=data)

    with clear_errors():
        one, other = side(first), side(second)
        if len(set(places)) == 1:
            warn(f"{first} and {second} are the same, so nothing differs")
        sections, introduction = chapters.compare(one, other), chapters.introduction(one, other)
        if html is not None:
            _write_page(html, page(f"{one.name} and {other.name}", introduction, sections))
            console.print(str(html), soft_wrap=True)
            return
        console.print(introduction, soft_wrap=True)
        print_sections(sections)


def _check_target(path: Path, read: Path) -> None:
    """Raise ValueError if a page written there would replace what is read, a file of an artifact, or a file that is no page."""
    refuse_overwriting(path, [read])
    if path.is_file():
        with path.open("rb") as file:
            beginning = file.read(len(_PAGE_BEGINS))
        if beginning and beginning.lower() != _PAGE_BEGINS:
            raise ValueError(f"{path} exists and is no page; name another file to write")


def _write_page(path: Path, text: str) -> None:
    """Write a page as a whole or not at all, except into what is no file, such as a pipe."""
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
    else:
        atomic_write(path.resolve(), text.encode())
