"""The command line: planning and running. It only parses and prints; library and flow do the work.

How a plan and a run look is in ``display``. Commands that show what was built are in ``look_commands``, those over single
files in ``file_commands``, and those that maintain a store in ``store_commands``.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from korealbert.artifact import Store, locks
from korealbert.artifact.files import refuse_overwriting
from korealbert.artifact.spec import input_paths
from korealbert.flows import file_commands, look_commands, store_commands
from korealbert.flows.display import (
    bars,
    dropped_lines,
    failure_lines,
    notes,
    plan_table,
    save_and_leave,
    would_run,
)
from korealbert.flows.failures import StagesFailed
from korealbert.flows.options import RECIPE_HERE, DataDir, DataRoot, StoreDir, machines, recipe_names, stages
from korealbert.flows.terminal import OneLine, clear_errors, console, numbered, warnings_of
from korealbert.formatting import duration
from korealbert.pretrain.runtime import Device, TrainingRuntime
from korealbert.report.render.text import unescaped
from korealbert.shipped import shipped

app = typer.Typer(cls=OneLine, no_args_is_help=True, pretty_exceptions_show_locals=False)
app.add_typer(look_commands.app)
app.add_typer(file_commands.app)
app.add_typer(store_commands.app)

_RecipeFile = Annotated[
    Path,
    typer.Argument(
        help="the recipe, or the ablation over one: a TOML file, or a shipped one's name",
        callback=shipped,
        autocompletion=recipe_names,
    ),
]
_Schema = Literal["recipe", "benchmark"]
_Until = Annotated[str | None, typer.Option("--until", help="last stage wanted", autocompletion=stages)]
_Rerun = Annotated[
    list[str] | None, typer.Option("--rerun", help="stage to build although it is cached; repeatable", autocompletion=stages)
]
From = Annotated[
    str | None,
    typer.Option("--from", help="stage to build with all downstream stages, although they are cached", autocompletion=stages),
]
_Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="a field of the recipe by dotted name; repeatable")
]
_Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="processes of the data stages", show_default="one for each core")
]
_Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads of training", show_default="one for each core")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"korealbert {version('korealbert')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="print the version and exit")
    ] = False,
) -> None:
    """Raw Korean text to an evaluated language model."""


def _new_directory(given: str) -> Path:
    if os.path.isfile(given):  # noqa: PTH113 (Path's raises PermissionError)
        raise typer.BadParameter(f"Directory {given!r} is a file; {_MANY_FILES}")
    return Path(given)


_MANY_FILES = "for several files name their directory after --from, or write --from before each of them"


def _no_more(given: Sequence[str]) -> None:
    """Refuse what the shell makes of ``--from texts/*.txt``."""
    if given:
        others = f" and {len(given) - 1:,} more" if given[1:] else ""
        raise typer.BadParameter(f"{given[0]!r}{others} after it; {_MANY_FILES}", param_hint="DIRECTORY")


@app.command(context_settings={"allow_extra_args": True})
def new(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(help="the directory to make", parser=_new_directory, metavar="DIRECTORY")],
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", help="a file, an archive or a directory of text; repeatable; default: the sample"),
    ] = None,
    corpus: Annotated[bool, typer.Option("--corpus", help="a clean corpus without a model, of any amount of text")] = False,
) -> None:
    """Make a directory with a recipe for your own files, chosen by looking at them; without any, for the sample."""
    from korealbert.recipe.new import project  # noqa: PLC0415 (loads every package)

    _no_more(ctx.args)
    with clear_errors():
        refuse_overwriting(directory)
        for line in project.summary(project.write(directory, sources or project.SAMPLE, corpus=corpus)):
            console.print(line, soft_wrap=True, markup=False)
    if not sources:
        hint = f"these sources are the sample that korealbert ships: put your own into {directory / project.RECIPE}, or make"
        console.print(f"{hint} a project of them with --from", soft_wrap=True, markup=False)
    enter = "" if directory.resolve() == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    console.print(f"{directory / project.RECIPE} is yours to change; then: {enter}korealbert run", soft_wrap=True, markup=False)


@app.command()
def schema(
    of: Annotated[_Schema, typer.Argument(help="what to check: recipes, or TOML files of benchmarks")] = "recipe",
) -> None:
    """Print a JSON Schema of recipes or of benchmarks' TOML files, with which editors complete and check them."""
    from korealbert.recipe.reference import benchmark_schema, json_schema  # noqa: PLC0415 (loads every package)

    found = json_schema() if of == "recipe" else benchmark_schema()
    typer.echo(json.dumps(found, ensure_ascii=False, indent=1))


@app.command()
def plan(
    recipe: _RecipeFile = RECIPE_HERE,
    store: StoreDir = Path("store"),
    until: _Until = None,
    from_stage: From = None,
    rerun: _Rerun = None,
    overrides: _Overrides = None,
    data: DataDir = None,
    data_root: DataRoot = None,
    machine: Annotated[
        str | None,
        typer.Option("--as", metavar="MACHINE", help="costs on another machine: h100, h100x8", autocompletion=machines),
    ] = None,
    workers: _Workers = None,
    threads: _Threads = None,
) -> None:
    """Print per stage whether it is cached, stale or new, why, and what it takes in time, disk and memory.

    A time with ~ is estimated from rates that korealbert ships, others from what was built on this machine.
    """
    from korealbert import recipe as recipes  # noqa: PLC0415 (loads every package)

    with clear_errors():
        changed = _fields(overrides)
        prepared = recipes.prepare(
            recipe,
            Store(store),
            until=until,
            from_stage=from_stage,
            rerun=rerun,
            overrides=changed,
            data=data,
            data_root=data_root,
            machine=machine,
            workers=workers,
            threads=threads,
        )
    console.print(f"{prepared.name}: {prepared.description}".removesuffix(": "), style="bold")
    for printed in plan_table(prepared.planned):
        console.print(printed, soft_wrap=isinstance(printed, str))
    for note, labels in notes(prepared.planned).items():
        others = f" and {numbered(len(labels) - 1, 'other stage')}" if labels[1:] else ""
        console.print(f"{labels[0]}{others}: {note}", soft_wrap=True)
    console.print(would_run(prepared.planned, "would run"), soft_wrap=True)


@app.command()
def run(
    recipe: _RecipeFile = RECIPE_HERE,
    store: StoreDir = Path("store"),
    until: _Until = None,
    from_stage: From = None,
    rerun: _Rerun = None,
    overrides: _Overrides = None,
    workers: _Workers = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="training processes")] = 1,
    threads: _Threads = None,
    device: Annotated[Device, typer.Option("--device", help="where training runs")] = "auto",
    cells: Annotated[
        int | None,
        typer.Option("--cells", min=1, help="fine-tuning cells at once", show_default="1, or one for each GPU"),
    ] = None,
    memory_gib: Annotated[
        float | None,
        typer.Option("--memory-gib", help="memory that cells may take together; as many run as fit", show_default="no limit"),
    ] = None,
    data: DataDir = None,
    data_root: DataRoot = None,
    hosts: Annotated[
        Path | None, typer.Option("--hosts", exists=True, dir_okay=False, help="train on these machines: DeepSpeed's hostfile")
    ] = None,
    remote_shell: Annotated[str, typer.Option("--remote-shell", help="command that reaches them")] = "ssh",
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="machines that run this same command", show_default="1")
    ] = None,
    node: Annotated[int, typer.Option("--node", min=0, help="number of this machine; 0 leads")] = 0,
    rendezvous: Annotated[str, typer.Option("--rendezvous", help="name of the run they share")] = "run",
    address: Annotated[
        str | None, typer.Option("--address", help="address of this machine for the others", show_default="its name")
    ] = None,
    lineage: Annotated[
        str | None,
        typer.Option("--lineage", metavar="FILE|URL", help="write OpenLineage events to a file, or post them to a URL"),
    ] = None,
) -> None:
    """Build every stage that is missing or stale and print the path of the report.

    srun and torchrun set --nodes and --node; see docs/several-machines.md.
    """
    from korealbert.pretrain import machines as training_machines  # noqa: PLC0415

    chosen: dict[str, Any] = {"store": store.resolve(), "workers": workers, "threads": threads, "processes": processes}
    chosen |= {"device": device, "hostfile": hosts and hosts.resolve(), "remote_shell": remote_shell}
    chosen |= {"cells": cells, "memory_gib": memory_gib}
    with clear_errors():
        if nodes is None and node:
            raise ValueError(f"--node {node}: say with --nodes how many machines run this command")
        if nodes is not None:
            chosen |= {"nodes": nodes, "node": node, "rendezvous": rendezvous}
        elif hosts is None:
            chosen |= training_machines.started_together(os.environ)
        chosen |= {} if address is None else {"address": address}
        runtime = TrainingRuntime.model_validate({name: value for name, value in chosen.items() if value is not None})
        if runtime.node:
            leader = f"machine 0, which runs the same command with the store {runtime.store}"
            console.print(f"machine {runtime.node} of {runtime.nodes} waits for the trainings of {leader}", soft_wrap=True)
            training_machines.serve(runtime)
            return
        Store(runtime.store).make()  # before planning, so that its digests of raw files are kept
        with training_machines.leading(runtime):
            request: dict[str, Any] = {
                "until": until,
                "from_stage": from_stage,
                "rerun": rerun,
                "overrides": _fields(overrides),
            }
            request |= {"data": data, "data_root": data_root}
            last = _build(recipe, runtime, request, lineage)
    if (summary := last / "report.md").is_file():
        console.print(_headline(summary), soft_wrap=True)
    report = last / "report.html"
    console.print(str(report if report.exists() else last), soft_wrap=True)


def _headline(report: Path) -> str:
    """Return the first sentences of a report below its title."""
    paragraphs = report.read_text("utf-8").split("\n\n")
    return unescaped(next((text.strip() for text in paragraphs if not text.startswith("#")), ""))


def _fields(given: list[str] | None) -> dict[str, Any]:
    """Parse ``--set`` options by dotted name; a value is TOML if it can be, else text. Raises ValueError without ``=``."""
    fields: dict[str, Any] = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"--set {each}: write FIELD=VALUE, as in --set pretrain.steps=200")
        try:
            read = tomllib.loads(f"value = {value}")
        except tomllib.TOMLDecodeError:
            read = {}
        fields[name] = read["value"] if len(read) == 1 else value  # A second line would be a second value.
    return fields


def _build(recipe: Path, runtime: TrainingRuntime, request: Mapping[str, Any], lineage: str | None) -> Path:
    """Build the missing and stale stages; returns the directory of the last artifact."""
    from korealbert import recipe as recipes  # noqa: PLC0415 (loads every package)
    from korealbert.flows.lineage import Lineage  # noqa: PLC0415 (loads pyarrow)

    prepared = recipes.prepare(recipe, Store(runtime.store), workers=runtime.workers, threads=runtime.threads, **request)
    prepared.check(runtime)
    planned = prepared.planned
    read = [path.path for node in prepared.nodes.values() for path in input_paths(node.spec)]
    Lineage(lineage, read=[recipe, *read])  # Refuse an invalid target now.
    if lineage is None and all(stage.status == "cached" for stage in planned):
        console.print(f"all {len(planned)} stages are cached", style="green")
        with locks.recorded(runtime.store, recipe, request["until"], {stage.label: stage.name for stage in planned}):
            return runtime.store / planned[-1].name
    console.print(would_run(planned, "to build"), soft_wrap=True)
    with locks.exclusively(runtime.store):
        pass  # Fail now if the store is read-only.
    # Prefect logs every error with its traceback. The API keeps these; the terminal shows only the message.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    signal.signal(signal.SIGINT, save_and_leave)
    signal.signal(signal.SIGTERM, save_and_leave)
    from korealbert.flows.corpus_to_model import flow_of  # noqa: PLC0415 (after the environment is set)
    from korealbert.flows.services.local_server import api_for_one_run  # noqa: PLC0415

    began = time.monotonic()
    found: set[str] = set()
    failure: StagesFailed | None = None
    try:
        with api_for_one_run(runtime.store), bars(found), warnings_of(Lineage.__module__):
            last = Path(flow_of(recipe)(recipe, runtime=runtime, lineage=lineage, **request))
    except StagesFailed as error:
        if error.defect is not None:
            raise error.defect from None
        failure = error
    finally:  # Also after a failure, often caused by too little text.
        built = (stage.name for stage in planned if stage.status != "cached" and stage.label not in found)
        for line in dropped_lines(filter(None, map(Store(runtime.store).find, built))):
            console.print(line, soft_wrap=True)
    spent = duration(time.monotonic() - began)
    missing = [] if failure is None else [*failure.errors, *failure.unstarted]
    outcome = f"{numbered(len(planned) - len(found) - len(missing), 'stage')} built in {spent}, {len(found)} cached"
    if failure is None:
        console.print(outcome, style="green")
        return last
    for line in failure_lines(failure, recipe, Store(runtime.store), request, prepared.nodes):
        console.print(line, soft_wrap=True)
    console.print(outcome, style="red")
    raise typer.Exit(2)
