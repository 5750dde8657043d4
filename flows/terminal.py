"""What every command shares: the terminal it prints to, and errors without tracebacks."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup
from typer.exceptions import TyperException

from korealbert import shipped
from korealbert.artifact import Artifact, ArtifactError, Store, locks
from korealbert.artifact.files import MANIFEST, is_of_an_artifact
from korealbert.artifact.store import STORE_VARIABLE, default_store
from korealbert.formatting import nearest, without_controls
from korealbert.report.render import blocks
from korealbert.report.render.blocks import Section

_PIPED_WIDTH = 240
"""Columns of output that goes to a file or a program, so that no table cell is cut."""


class _PlainConsole(Console):
    """Prints what is not ours to write (names, texts, addresses) without the control characters in it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=without_controls(segment.text))


console = _PlainConsole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def _store(ctx: typer.Context, param: typer.CallbackParam, store: Path) -> Path:
    source = ctx.get_parameter_source(str(param.name))
    return default_store() if source is not None and source.name == "DEFAULT" else store


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
"""The recipe of the directory that a command runs in."""
DataDir = Annotated[Path | None, typer.Option("--data", help="directory that ${data} in the recipe stands for")]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="refuse a recipe that names a file outside this directory", file_okay=False)
]


class OneLine(TyperGroup):
    """Commands that report wrong arguments in one line, like all other mistakes.

    A value that is empty, as a variable of the shell that is not set, is refused by the name of its option or argument. Help
    shows no type of an option that takes no value, breaks paragraphs where the terminal ends, and lists each command with its
    whole first paragraph.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group."""
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.help:
            for param in _without_types(command.get_params(ctx)):
                param.consume_value = partial(_not_empty, param, param.consume_value)
            paragraphs = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
            command.help, command.short_help = "\n\n".join(paragraphs), paragraphs[0]
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; see typer."""
        try:
            done = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except TyperException as error:
            if not standalone_mode:
                raise
            message = error.format_message().replace("Value error, ", "")  # Which pydantic puts before it.
            if told := " ".join(message.split()).removesuffix("."):  # Nothing where help was printed.
                command = getattr(getattr(error, "ctx", None), "command_path", "korealbert")
                warn(f"{command}: {told}; see `{command} --help`", style="red")
            sys.exit(error.exit_code)
        if standalone_mode:
            sys.exit(done if isinstance(done, int) else 0)
        return done


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters, of which flags are shown without a type of values."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _not_empty(param: Any, consume: Callable[..., Any], ctx: typer.Context, opts: Mapping[str, Any]) -> Any:
    """The value of a parameter. Raises BadParameter where an empty one is given, which a path would take for the directory."""
    given = opts.get(param.name)
    if not ctx.resilient_parsing and "" in (given if isinstance(given, list | tuple) else [given]):
        remedy = "give a value" if param.required else "give a value, or leave it out"
        raise typer.BadParameter(f"it is empty, as a variable of the shell that is not set; {remedy}")
    return consume(ctx, opts)


def labels(ctx: typer.Context, incomplete: str) -> list[str]:
    """The labels of the store's artifacts that begin so, for the shell's completion."""
    store = Path(ctx.params.get("store") or default_store())
    found = Store(store).artifacts() if store.is_dir() else []
    return sorted({label for one in found if (label := str(one.manifest["label"])).startswith(incomplete)})


def recipe_names(incomplete: str) -> list[str]:
    """The recipes that begin so, for the shell's completion: files, and those that the package ships."""
    known = {str(path) for path in Path().glob("*.toml")} | {*shipped.names()}
    return sorted(name for name in known if name.startswith(incomplete))


def sides(ctx: typer.Context, incomplete: str) -> list[str]:
    """The labels and the recipes that begin so, for the shell's completion."""
    return sorted({*labels(ctx, incomplete), *recipe_names(incomplete)})


def stages(ctx: typer.Context, incomplete: str) -> list[str]:
    """The stages and labels of the command's recipe that begin so, for the shell's completion; none where it has errors."""
    from korealbert.recipe import planning  # noqa: PLC0415 (loads every package)

    # An option that lacks its value, the one that is completed, leaves arguments before it unread.
    recipe = shipped.shipped(Path(ctx.args[0] if ctx.args else ctx.params.get("recipe") or RECIPE_HERE))
    try:
        found = planning.labels(recipe, data=ctx.params.get("data"))
    except (ValueError, OSError):
        return []
    return sorted(name for name in {*found, *(label.split("/")[0] for label in found)} if name.startswith(incomplete))


def machines(incomplete: str) -> list[str]:
    """The machines of the profiles that begin so, for the shell's completion."""
    from korealbert.recipe.machines import figures  # noqa: PLC0415 (loads every package)

    return [name for name in figures().chips if name.startswith(incomplete)]


def numbered(number: int, what: str) -> str:
    """``1 artifact``, ``2 artifacts``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors that a user can mend are printed as they are, without a traceback; a reader that leaves (``| head``) is none."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # buffered output goes there
        raise typer.Exit(0) from None
    except ModuleNotFoundError as error:
        if (error.name or "korealbert").startswith("korealbert"):
            raise
        warn(f"{error.name} is not installed here; install korealbert with its dependencies", style="red")
        raise typer.Exit(2) from None
    except (ValueError, OSError, RuntimeError, ArtifactError) as error:
        warn(_sentences(error), style="red")
        raise typer.Exit(2) from None


def _sentences(error: Exception) -> str:
    """What an error says; of pydantic's, field and message alone."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if not isinstance(error, ValidationError):
        return str(error)
    found = ((".".join(map(str, each["loc"])), each["msg"].removeprefix("Value error, ")) for each in error.errors())
    return "\n".join(f"{field}: {message}" if field else message for field, message in found)


def print_sections(sections: Iterable[Section]) -> None:
    """Sections of a page as text; drawings are left out, since tables have what they show."""
    for section in sections:
        console.print(f"\n{section.title}", style="bold")
        for block in section.blocks:
            if isinstance(block, blocks.Text):
                console.print(block.text, style="dim" if block.quiet else "", soft_wrap=not console.is_terminal)
            elif isinstance(block, blocks.Table):
                columns = [
                    Column(name, justify="right" if place in block.numeric else "left", overflow="fold")
                    for place, name in enumerate(block.header)
                ]
                title = None if block.title == section.title else Text(block.title)
                table = Table(*columns, title=title, title_justify="left", title_style="", box=None, pad_edge=False)
                for row in block.rows:
                    table.add_row(*row)
                if Measurement.get(console, console.options.update(width=_ANY_WIDTH), table).minimum <= console.width:
                    console.print(table)
                else:
                    _print_in_lines(block, title)


_ANY_WIDTH = 100_000
"""Columns in which a table measures what its longest words need, which is otherwise at most the terminal's width."""


def _print_in_lines(table: blocks.Table, title: Text | None) -> None:
    """A table whose words are too long for this terminal: each row as lines, one for each cell that holds something."""
    if title:
        console.print(title, soft_wrap=True)
    for first, *others in table.rows:
        console.print(first, style="bold", soft_wrap=True)
        for name, cell in zip(table.header[1:], others, strict=True):
            if cell:
                console.print(f"  {name}: {cell}", soft_wrap=True)


def warn(told: object, *, style: str = "yellow") -> None:
    """Print to standard error."""
    _PlainConsole(stderr=True, highlight=False, markup=False, emoji=False).print(str(told), style=style, soft_wrap=True)


@contextmanager
def warnings_of(module: str) -> Iterator[None]:
    """Print what a module logs as a warning to standard error, although Prefect's console shows none."""
    shown = logging.Handler(logging.WARNING)
    shown.emit = lambda record: warn(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(module).addHandler(shown)
    try:
        yield
    finally:
        logging.getLogger(module).removeHandler(shown)


def find(store: Path, name: str, others: Iterable[str] = ()) -> Artifact:
    """The artifact of this name, else that of this label which the newest run needed, else the newest whose name begins so.

    Raises ValueError when there is none, with the nearest name, which may be one of the caller's ``others``.
    """
    path = Path(name)
    if (path / MANIFEST).is_file():
        return Artifact(path.resolve().name, path.resolve())
    if not store.is_dir():
        near = nearest(name, others)
        raise ValueError(f"{store}: no artifact {name!r}{near}, nor a store; `korealbert run RECIPE --store {store}` makes one")
    known = Store(store).artifacts()
    found = (
        [a for a in known if a.name == name]
        or [a for a in known if a.manifest["label"] == name]
        or [a for a in known if a.name.startswith(name)]
    )
    if len(found) == 1:
        return found[0]
    if not found:
        begun = name.removesuffix(".partial")
        if unfinished := sorted(path for path in store.glob("*.partial") if path.name.startswith(begun)):
            raise ValueError(f"{unfinished[-1]} is unfinished; the next `korealbert run` of its recipe goes on with it")
        valid = {word for artifact in known for word in (artifact.name, artifact.manifest["label"])}.union(others)
        raise ValueError(f"{store}: no artifact {name!r}{nearest(name, sorted(valid))}; `korealbert show` lists them")
    needed = (run.artifacts.get(name) for run in reversed(locks.runs(store)))
    by_name = {artifact.name: artifact for artifact in found}
    of_run = next((by_name[each] for each in needed if each in by_name), None)
    taken, which = (found[-1], "the newest") if of_run is None else (of_run, "that of the newest run")
    told = f"{taken.name} ({taken.manifest['label']}), built {taken.manifest['created']}"
    warn(f"{len(found)} artifacts match {name!r}; taking {which}, {told}", style="dim")
    return taken


def means_directory(store: Path, name: str, holds: str) -> bool:
    """Whether a name means a directory that a command reads, and no artifact: it ``holds`` the command's file, or there is no
    artifact of this name, beginning or label. The directory of an artifact is an artifact."""
    directory = Path(name)
    if not directory.is_dir() or is_of_an_artifact(directory):
        return False
    known = ((artifact.name, str(artifact.manifest["label"])) for artifact in Store(store).artifacts())
    return (directory / holds).is_file() or not any(
        own.startswith(name) or label == name or label.startswith(f"{name}/") for own, label in known
    )


def existing(store: Path) -> Store:
    """The store in a directory. Raises ValueError where there is none."""
    if not store.is_dir():
        raise ValueError(f"{store}: no store here; `korealbert run RECIPE --store {store}` makes one")
    return Store(store)
