"""The commands that clean, check and share a store: gc, verify, export, export-corpus, export-curves, push, import."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Annotated, Literal

import typer
from rich.table import Table

from korealbert.artifact import Artifact, ArtifactError, Store, locks
from korealbert.artifact.files import atomic_path, refuse_overwriting
from korealbert.artifact.maintenance import archive, garbage
from korealbert.flows.options import (
    DataDir,
    DataRoot,
    StoreDir,
    existing_store,
    find,
    labels,
    labels_of,
    means_directory,
    recipe_names,
)
from korealbert.flows.terminal import clear_errors, console, megabytes, numbered, warn
from korealbert.shipped import shipped

app = typer.Typer()

_STDIO = "-"


@app.command()
def gc(
    recipe: Annotated[
        list[Path] | None, typer.Option("--recipe", help="keep what this recipe names; repeatable", autocompletion=recipe_names)
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="remove the listed artifacts; without it nothing is changed")
    ] = False,
    store: StoreDir = Path("store"),
    data: DataDir = None,
    data_root: DataRoot = None,
) -> None:
    """List artifacts that no recipe and no run refers to, with sizes; remove them with --delete.

    Kept are the artifacts of the recipes named, those of each recipe's newest run and of all that are running, what living
    builders hold, and the lineage of all of these.
    """
    from korealbert import recipe as recipes  # noqa: PLC0415 (loads every package)

    with clear_errors():
        here = existing_store(store)
        wanted: dict[str, str] = {}
        for path in recipe or ():
            planned = recipes.prepare(shipped(path), here, data=data, data_root=data_root).planned
            wanted |= {stage.name: str(path) for stage in planned}
        found = garbage.survey(here, wanted)
        if not found.kept and found.garbage:
            raise ValueError(
                f"{store}: no run is recorded here, so everything would go; name the recipes to keep with --recipe"
            )
        if delete:
            _remove(here, wanted)
        else:
            _show(found.garbage)
        if found.foreign:
            warn(f"left alone, because no build made them: {', '.join(path.name for path in found.foreign)}")


def _show(found: list[garbage.Garbage]) -> None:
    table = Table("directory", "size", "why it can go", box=None, pad_edge=False)
    for each in found:
        table.add_row(each.path.name, megabytes(each.size), each.why)
    if found:
        console.print(table)
    total = sum(each.size for each in found)
    directories = "1 directory" if len(found) == 1 else f"{len(found):,} directories"
    console.print(f"{directories}, {megabytes(total)}; nothing was removed" + (", --delete does" if found else ""))


def _remove(store: Store, wanted: dict[str, str]) -> None:
    freed = 0
    for each, left in garbage.remove(store, wanted):
        console.print(f"{each.path.name}  {megabytes(each.size)}  {f'left: {left}' if left else 'removed'}")
        freed += 0 if left else each.size
    console.print(f"{megabytes(freed)} freed")


@app.command()
def verify(
    artifact: Annotated[
        list[str] | None,
        typer.Argument(help="names, beginnings of names, labels or stages; all artifacts if omitted", autocompletion=labels),
    ] = None,
    store: StoreDir = Path("store"),
) -> None:
    """Read every file of the artifacts again and compare it with its manifest. Exit status 1 if anything is wrong."""
    with clear_errors():
        here = existing_store(store)
        named = {found.name: found for name in artifact or () for found in _all_that_match(here, name)}
        checked = [*named.values()] or [Artifact(path.name, path) for path in here.directories()]
        faults = sum(_verify(here, each) for each in checked)
    console.print(
        f"{numbered(len(checked), 'artifact')}, {faults} damaged"
        + ("; the next run that needs them builds them again" if faults else "")
    )
    if faults:
        raise typer.Exit(1)


def _all_that_match(store: Store, name: str) -> list[Artifact]:
    """Return the artifacts of this label, below it, or whose names begin with it, even without a manifest.

    Raises ValueError as ``find`` does if there are none.
    """
    of_label = {one.name for one in store.artifacts() if f"{one.manifest['label']}/".startswith(f"{name}/")}
    found = [Artifact(path.name, path) for path in store.directories() if path.name.startswith(name) or path.name in of_label]
    return found or [find(store.root, name)]


def _verify(store: Store, artifact: Artifact) -> bool:
    """Print the faults of an artifact; returns whether it has any."""
    unreadable = store.unreadable(artifact)
    faults = [unreadable] if unreadable else store.verify(artifact)
    for fault in faults:
        warn(f"{artifact.name}: {fault}", style="red")
    if not faults:
        console.print(f"{artifact.name}  {numbered(len(artifact.manifest['files']), 'file')}  {megabytes(artifact.size)}  ok")
        inputs = artifact.inputs()
        if stale := store.outdated(artifact, {role: store.find(each.name) for role, each in inputs.items()}):
            warn(f"{artifact.name}: {stale}")
    return bool(faults)


@app.command()
def export(
    artifact: Annotated[str, typer.Argument(help="its name, its beginning, or its label", autocompletion=labels)],
    output: Annotated[Path, typer.Argument(help="the archive to write, a plain tar; - is standard output", allow_dash=True)],
    store: StoreDir = Path("store"),
) -> None:
    """Write an artifact and everything it was built from as one archive."""
    with clear_errors():
        found = find(existing_store(store).root, artifact)
        if str(output) == _STDIO:
            archive.export(found, sys.stdout.buffer)
            return
        if output.exists():
            raise ValueError(f"{output} exists; name another file")
        refuse_overwriting(output)
        with atomic_path(output) as temporary, temporary.open("wb") as stream:
            names = archive.export(found, stream)
        console.print(f"{numbered(len(names), 'artifact')}, {megabytes(output.stat().st_size)}: {output}", soft_wrap=True)


@app.command("export-corpus")
def export_corpus(
    artifact: Annotated[
        str,
        typer.Argument(
            help="balance, dedup, clean/NAME, …; clean means all sources of the newest run",
            autocompletion=labels_of("extract", "clean", "quality", "dedup", "balance"),
        ),
    ],
    output: Annotated[
        str,
        typer.Argument(help="the directory to make, or an address: hf://datasets/OWNER/NAME, s3://…, gs://…, az://…"),
    ],
    form: Annotated[Literal["parquet", "jsonl"], typer.Option("--to", help="form of the files")] = "parquet",
    public: Annotated[bool, typer.Option("--public", help="make the hub's repository public; private otherwise")] = False,
    store: StoreDir = Path("store"),
) -> None:
    """Write the documents of a stage as a dataset, with a card of sources, licenses, counts and drops.

    For an address it is uploaded; hf:// uses the token of `hf auth login`, or HF_TOKEN. To resume an interrupted upload, repeat
    the command.
    """
    from korealbert.documents.shards import kept_nothing  # noqa: PLC0415 (loads pyarrow)
    from korealbert.huggingface.dataset import why_nothing_kept, write_dataset  # noqa: PLC0415

    with clear_errors():
        found = _all_of(store, artifact)
        if "://" in output:
            documents, where = _export_to_address(found, output, form, public=public)
        else:
            refuse_overwriting(Path(output))
            documents, where = write_dataset(found, Path(output), form), output
        if empty := [one for one in found if kept_nothing(one)]:
            console.print(why_nothing_kept(empty), style="dim", soft_wrap=True)
    console.print(f"{numbered(documents, 'document')}: {where}", soft_wrap=True)


def _export_to_address(
    artifacts: Sequence[Artifact], address: str, form: Literal["parquet", "jsonl"], *, public: bool
) -> tuple[int, str]:
    """Upload the dataset of some artifacts; returns the number of documents and the final address.

    Raises ValueError before writing anything if a dataset cannot have this address.
    """
    from korealbert.corpus.crawl import remote  # noqa: PLC0415 (only needed for addresses)
    from korealbert.huggingface.dataset import write_dataset  # noqa: PLC0415 (loads pyarrow)

    scheme, _, place = address.partition("://")
    place = place.strip("/")
    if scheme not in remote.SCHEMES:
        raise ValueError(f"{address}: cannot write to {scheme}://; name a directory, or one of {', '.join(remote.SCHEMES)}")
    if scheme == "hf" and not re.fullmatch(r"datasets/[^/@]+/[^/@]+", place):
        raise ValueError(f"{address}: a dataset of the hub is hf://datasets/OWNER/NAME; for a model there is `korealbert push`")
    if not place:
        raise ValueError(f"{address}: add the name of a directory")
    with TemporaryDirectory() as scratch:
        directory = Path(scratch) / place.rpartition("/")[2]
        documents = write_dataset(artifacts, directory, form)
        if scheme != "hf":
            remote.send(directory, address)
            return documents, address
        from korealbert.report import hub_upload  # noqa: PLC0415 (loads huggingface_hub)

        prepared = hub_upload.prepare_directory(directory)
        return documents, hub_upload.upload(prepared, place.removeprefix("datasets/"), public=public)


@app.command("export-curves")
def export_curves(
    artifact: Annotated[
        str, typer.Argument(help="a pretraining: its name, beginning or label", autocompletion=labels_of("pretrain"))
    ],
    output: Annotated[Path, typer.Argument(help="the directory that files are written to", file_okay=False)],
    to: Annotated[
        Literal["tensorboard", "wandb", "mlflow"],
        typer.Option("--to", help="which tool shows them; wandb and mlflow are configured by their own variables"),
    ] = "tensorboard",
    store: StoreDir = Path("store"),
) -> None:
    """Export the curves of a finished training to TensorBoard (in OUTPUT/NAME), Weights & Biases or MLflow."""
    with clear_errors():
        from korealbert.pretrain.metrics import export_curves as give  # noqa: PLC0415 (loads torch)

        found = find(store, artifact)
        refuse_overwriting(output, [found.path])
        lines = give(found, to, output)
    console.print(f"{numbered(lines, 'line')} of metrics: {output}", soft_wrap=True)


def _all_of(store: Path, name: str) -> list[Artifact]:
    """Return the artifacts of all labels below a name (``clean``), else the one artifact that the name means.

    They are those of the newest run with such labels, since a store may hold several recipes and abandoned sources. If no run
    is recorded, as in an imported store, the newest of each label is taken. Raises ValueError for a label that the run did not
    build.
    """
    here = Store(store)
    newest = {str(artifact.manifest["label"]): artifact for artifact in here.artifacts()}
    below = sorted(label for label in newest if label.startswith(f"{name}/"))
    if name in newest or not below:
        return [find(store, name)]
    recorded = [run for run in locks.runs(here.root) if any(label.startswith(f"{name}/") for label in run.artifacts)]
    if not recorded:
        note = f"{name}: no run is recorded here; taking the newest of each label: {', '.join(below)}"
        console.print(note, style="dim", soft_wrap=True)
        return [newest[label] for label in below]
    recipe, names = recorded[-1].recipe, dict[str, str]()
    for run in recorded:
        names |= run.artifacts if run.recipe == recipe else {}  # Parts of a recipe may have been run one after another.
    of_run = {label: here.find(names[label]) for label in sorted(names) if label.startswith(f"{name}/")}
    if missing := [label for label, artifact in of_run.items() if artifact is None]:
        raise ValueError(
            f"{', '.join(missing)}: the newest run of {recipe} has not built it; run it, or name one of its sources"
        )
    others = [label for label in below if label not in of_run]
    note = f"{name}: taking {', '.join(of_run)} of the newest run of {recipe}"
    console.print(note + (f"; not in it: {', '.join(others)}" if others else ""), style="dim", soft_wrap=True)
    return [artifact for artifact in of_run.values() if artifact is not None]


@app.command()
def push(
    what: Annotated[
        str,
        typer.Argument(
            help="an export, a bi-encoder or a corpus: a name, its beginning or label, or a directory of `export-corpus`",
            autocompletion=labels_of("export", "bi_encoder", "clean", "dedup", "balance"),
        ),
    ],
    repository: Annotated[str, typer.Argument(help="USER/NAME on the hub, or NAME alone")],
    public: Annotated[bool, typer.Option("--public", help="make it public; private otherwise")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print what would be sent, and send nothing")] = False,
    store: StoreDir = Path("store"),
) -> None:
    """Upload a model or a cleaned corpus with its card to the Hugging Face hub.

    The token is that of `hf auth login`, or HF_TOKEN. To resume an interrupted upload, repeat the command.
    """
    from korealbert.report import hub_upload  # noqa: PLC0415 (loads huggingface_hub)

    with clear_errors(), ExitStack() as stack:
        hub_upload.check_name(repository)
        if means_directory(store, what, "README.md"):
            prepared = hub_upload.prepare_directory(Path(what))
        else:
            prepared = stack.enter_context(hub_upload.prepare_upload(_all_of(store, what), repository.rpartition("/")[2]))
        console.print(f"license: {prepared.license}" + (f" ({prepared.why})" if prepared.why else ""), soft_wrap=True)
        for measure in prepared.measures:
            console.print(measure, soft_wrap=True)
        if dry_run:
            table = Table("file", "size", box=None, pad_edge=False)
            for name, size in hub_upload.sizes(prepared).items():
                table.add_row(name, megabytes(size))
            console.print(table)
            target = f"{'public' if public else 'private'} {prepared.kind}, {hub_upload.address(prepared, repository)}"
            console.print(f"nothing was sent; it would be the {target}", soft_wrap=True)
            return
        console.print(hub_upload.upload(prepared, repository, public=public), soft_wrap=True)


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="an archive of `korealbert export`; - is standard input", allow_dash=True)],
    store: StoreDir = Path("store"),
) -> None:
    """Import an archive's artifacts into the store, all or none."""
    with clear_errors():
        if str(source) != _STDIO and not source.is_file():
            raise ValueError(f"{source}: no such file; name an archive that `korealbert export` wrote")
        target = Store(store).make()
        stream: IO[bytes]
        with nullcontext(sys.stdin.buffer) if str(source) == _STDIO else source.open("rb") as stream:
            try:
                imported = archive.import_archive(target, stream)
            except ArtifactError as error:
                raise ArtifactError(f"{source}: {error}") from None
        for name, new in imported.items():
            console.print(f"{name}  {'imported' if new else 'was here'}")
