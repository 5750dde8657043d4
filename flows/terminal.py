"""Output of all commands: the console, tables, mistakes in one line, errors without tracebacks."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup
from typer.exceptions import TyperException

from korealbert.artifact import ArtifactError, locks
from korealbert.artifact.files import disk_full, with_remedy
from korealbert.artifact.store import default_store
from korealbert.formatting import without_controls
from korealbert.report.render import blocks
from korealbert.report.render.blocks import Section

_PIPED_WIDTH = 240
"""Width of output to a file or a program, so that no table cell is cut."""


class _PlainConsole(Console):
    """A console that replaces control characters: names, texts and addresses are not ours."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=without_controls(segment.text))

    def on_broken_pipe(self) -> None:
        """Drop further output, as its reader (``| head``) has ended. The command goes on, and its exit status stays true."""
        self.quiet = True
        _give_up_output()


console = _PlainConsole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


class OneLine(TyperGroup):
    """Commands that report wrong arguments in one line, like all other mistakes.

    An empty value, often an unset variable of the shell, is refused with the name of its option or argument. Help shows no
    value type for flags, wraps paragraphs at the terminal's width, and lists each command with its whole first paragraph.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group."""
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.help:
            for param in _without_types(command.get_params(ctx)):
                param.consume_value = partial(_not_empty, param, param.consume_value)
            paragraphs = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
            command.help, command.short_help = "\n\n".join(paragraphs), paragraphs[0]
        return command

    def main(self, args: Any = None, *, standalone_mode: bool = True, **options: Any) -> Any:  # type: ignore[override]
        """Run a command; see typer."""
        try:
            done = super().main(args, standalone_mode=False, **options)
            sys.stdout.flush()
        except TyperException as error:
            if not standalone_mode:
                raise
            message = error.format_message().replace("Value error, ", "")  # pydantic's prefix.
            if line := " ".join(message.split()).removesuffix("."):  # Empty if help was printed.
                command = getattr(getattr(error, "ctx", None), "command_path", "korealbert")
                warn(f"{command}: {line}; see `{command} --help`", style="red")
            sys.exit(error.exit_code)
        except OSError as error:  # Of printing: commands explain their other errors themselves.
            _give_up_output()
            if isinstance(error, BrokenPipeError) and standalone_mode:
                sys.exit(0)
            if not standalone_mode or (full := disk_full(error, *_written())) is None:
                raise
            warn(full, style="red")
            sys.exit(2)
        if standalone_mode:
            sys.exit(done if isinstance(done, int) else 0)
        return done


def _without_types(params: list[Any]) -> list[Any]:
    """Remove the value type of flags from the help of these parameters."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _not_empty(param: Any, consume: Callable[..., Any], ctx: typer.Context, opts: Mapping[str, Any]) -> Any:
    """Return the value of a parameter. Raises BadParameter for an empty one, which as a path would be the current directory."""
    given = opts.get(param.name)
    if not ctx.resilient_parsing and "" in (given if isinstance(given, list | tuple) else [given]):
        remedy = "give a value" if param.required else "give a value, or leave it out"
        raise typer.BadParameter(f"it is empty, as an unset variable of the shell is; {remedy}")
    return consume(ctx, opts)


def numbered(number: int, what: str) -> str:
    """Format a count with its noun: ``1 artifact``, ``2 artifacts``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def megabytes(size: int) -> str:
    """Format bytes as ``1,234.50 MB``."""
    return f"{size / 1e6:,.2f} MB"


@contextmanager
def clear_errors() -> Iterator[None]:
    """Print errors that a user can fix without a traceback; a closed output pipe (``| head``) is no error."""
    try:
        yield
    except typer.Exit:  # A RuntimeError too
        raise
    except BrokenPipeError:
        _give_up_output()
        raise typer.Exit(0) from None
    except ModuleNotFoundError as error:
        if (error.name or "korealbert").startswith("korealbert"):
            raise
        warn(f"{error.name} is not installed here; install korealbert with its dependencies", style="red")
        raise typer.Exit(2) from None
    except (ValueError, OSError, RuntimeError, ArtifactError) as error:
        _give_up_output()
        warn(message_of(error), style="red")
        raise typer.Exit(2) from None


def _give_up_output() -> None:
    """Write buffered output; if that is impossible (a closed pipe, a full disk), drop it, or Python would try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _written() -> tuple[str, list[Path]]:
    """Return the name of the command, and the places that it may have written to."""
    command, *arguments = [*sys.argv[1:], ""]
    given = [Path(each.rpartition("=")[2]) for each in arguments]
    return f"korealbert {command}".strip(), [*given, default_store(), Path(tempfile.gettempdir())]


def message_of(error: Exception) -> str:
    """Return the message of an error; of pydantic's errors only field and message."""
    if full := disk_full(error, *_written()):
        return str(full)
    if isinstance(error, OSError) and error.filename is not None:
        return with_remedy(error)
    if not isinstance(error, ValidationError):
        return str(error.strerror if isinstance(error, locks.ReadOnlyStore) else error)
    found = ((".".join(map(str, each["loc"])), each["msg"].removeprefix("Value error, ")) for each in error.errors())
    return "\n".join(f"{field}: {message}" if field else message for field, message in found)


def print_sections(sections: Iterable[Section]) -> None:
    """Print sections of a report as text. Drawings are left out, because tables have the same content."""
    for section in sections:
        console.print(f"\n{section.title}", style="bold")
        for block in section.blocks:
            if isinstance(block, blocks.Text):
                console.print(block.text, style="dim" if block.quiet else "", soft_wrap=not console.is_terminal)
            elif isinstance(block, blocks.Table):
                _print_table(block, None if block.title == section.title else Text(block.title))


def _print_table(table: blocks.Table, title: Text | None) -> None:
    columns = [
        Column(name, justify="right", overflow="fold", min_width=max((cell_len(row[place]) for row in table.rows), default=0))
        if place in table.numeric  # Parts of a number with its interval on several lines cannot be read.
        else Column(name, overflow="fold")
        for place, name in enumerate(table.header)
    ]
    drawn = Table(*columns, box=None, pad_edge=False)
    for row in table.rows:
        drawn.add_row(*row)
    if title:  # Rich would break its own at the table's width.
        console.print(title, soft_wrap=not console.is_terminal)
    if fits(drawn):
        console.print(drawn)
    else:
        _print_in_lines(table)


_ANY_WIDTH = 100_000
"""Width in which a table's longest words are measured. By default the result is limited to the terminal's width."""


def fits(table: Table) -> bool:
    """Whether the terminal is wide enough for a table without breaking a word."""
    return Measurement.get(console, console.options.update(width=_ANY_WIDTH), table).minimum <= console.width


def _print_in_lines(table: blocks.Table) -> None:
    """Print a table whose words are too long for this terminal: each row as lines, one per non-empty cell."""
    before = ""
    for first, *others in table.rows:
        if first != before:
            console.print(first, style="bold", soft_wrap=True)
        before = first
        for name, cell in zip(table.header[1:], others, strict=True):
            if cell:
                console.print(f"  {name}: {cell}", soft_wrap=True)


def warn(message: object, *, style: str = "yellow") -> None:
    """Print to standard error."""
    _PlainConsole(stderr=True, highlight=False, markup=False, emoji=False).print(str(message), style=style, soft_wrap=True)


@contextmanager
def warnings_of(module: str) -> Iterator[None]:
    """Print a module's logged warnings to standard error, because Prefect's console shows none."""
    shown = logging.Handler(logging.WARNING)
    shown.emit = lambda record: warn(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(module).addHandler(shown)
    try:
        yield
    finally:
        logging.getLogger(module).removeHandler(shown)
