"""The commands over single files and models: extract, fill-mask, score."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from korealbert.flows.options import StoreDir, find, labels_of, means_directory
from korealbert.flows.terminal import clear_errors, console, warn
from korealbert.formatting import by_number

_FAULTS_SHOWN = 100
"""Unreadable records that are reported one by one. A file of another format has one on every line."""

_ExtractorKind = Literal["wikipedia", "namuwiki", "html", "news"]
_ScoringMode = Literal["official", "corrected"]

app = typer.Typer()


@app.command()
def extract(
    kind: Annotated[_ExtractorKind, typer.Argument(help="format of the files")],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="files, archives, directories; - is standard input, decompressed")
    ],
    keep_tables: Annotated[bool, typer.Option("--keep-tables", help="wiki: cells joined by a space, one row a line")] = False,
    keep_footnotes: Annotated[bool, typer.Option("--keep-footnotes", help="wiki: below the paragraph that cites them")] = False,
    keep_strikethrough: Annotated[bool, typer.Option("--keep-strikethrough", help="wiki: keep struck text")] = False,
    no_headings: Annotated[bool, typer.Option("--no-headings", help="wiki: leave section titles out")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="a field of the extract spec, or clean.FIELD for news; repeatable"),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="news: folder of news.toml, titles.toml, categories.toml")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="name that ids are made with; default: the kind")] = None,
    only_kept: Annotated[bool, typer.Option("--only-kept", help="leave dropped documents out")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="print counts of documents and drops to standard error")] = False,
) -> None:
    """Print the documents of raw files as JSON Lines: id, title, category, text, dropped, removed.

    dropped is null, or why the pipeline would not keep the document. Unreadable records are reported on standard error, and
    make the exit status 1.
    """
    from korealbert.corpus import standalone  # noqa: PLC0415 (loads pyarrow)
    from korealbert.corpus.readers.records import Tally  # noqa: PLC0415

    flags = {"keep_tables": keep_tables, "keep_footnotes": keep_footnotes, "keep_strikethrough": keep_strikethrough}
    options = [f"{name}=true" for name, is_set in flags.items() if is_set]
    if no_headings:
        options.append("headings=false")
    counts, reasons, tally = Counter[str](), Counter[str](), Tally()
    with clear_errors():
        extractor = standalone.extractor(
            kind, files, source=source, rules=rules or standalone.RULES, options=[*options, *(option or [])]
        )
        for record in extractor.records(tally):
            if not isinstance(record, dict):
                counts["unreadable"] += 1
                if counts["unreadable"] <= _FAULTS_SHOWN:
                    warn(record, style="")
                continue
            counts["dropped" if record["dropped"] else "kept"] += 1
            if record["dropped"]:
                reasons[record["dropped"]["reason"]] += 1
                if only_kept:
                    continue
            # UTF-8 cannot encode a lone surrogate, so it becomes its JSON escape.
            line = json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace")
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.flush()
    if counts["unreadable"] > _FAULTS_SHOWN:
        typer.echo(f"and {counts['unreadable'] - _FAULTS_SHOWN:,} more records that cannot be read", err=True)
    if fault := extractor.misfit(tally):
        warn(fault, style="")
    if summary:
        for name, table in (("documents", counts), ("dropped", reasons), ("characters left out", tally.lost_characters)):
            typer.echo(f"{name}: {', '.join(f'{key} {n:,}' for key, n in by_number(table)) or 'none'}", err=True)
    if counts["unreadable"]:
        raise typer.Exit(1)


@app.command("fill-mask")
def fill_mask(
    model: Annotated[
        str,
        typer.Argument(
            help="a directory in Hugging Face format, or an export's name, beginning or label",
            autocompletion=labels_of("export"),
        ),
    ],
    text: Annotated[str, typer.Argument(help="text with one or more [MASK]")],
    top: Annotated[int, typer.Option("--top", min=1, help="candidates per mask")] = 5,
    store: StoreDir = Path("store"),
) -> None:
    """Print a model's predictions for [MASK]."""
    with clear_errors():
        directory = Path(model) if means_directory(store, model, "config.json") else find(store, model).path
        _refuse_no_mask(directory, text)
        from korealbert.huggingface.fill import fill  # noqa: PLC0415 (loads torch)

        for number, candidates in enumerate(fill(directory, [text], top)[0], start=1):
            table = Table(f"mask {number}", "probability", box=None, pad_edge=False)
            for piece, probability in candidates:
                table.add_row(piece, f"{probability:.4f}")
            console.print(table)


def _refuse_no_mask(directory: Path, text: str) -> None:
    """Raise ValueError if the text lacks the mask of the tokenizer there, before the model is loaded."""
    mask = None
    with suppress(OSError, ValueError, AttributeError):
        mask = json.loads((directory / "tokenizer_config.json").read_bytes()).get("mask_token")
    mask = mask.get("content") if isinstance(mask, dict) else mask
    if isinstance(mask, str) and mask not in text:
        raise ValueError(f"the text has no {mask}; write it in place of a word")


def _tasks(incomplete: str) -> list[str]:
    """Complete the name of a benchmark."""
    from korealbert.finetune import tasks  # noqa: PLC0415 (loads the tasks)

    return [name for name in tasks.names() if name.startswith(incomplete)]


@app.command()
def score(
    task: Annotated[
        str, typer.Argument(help="the benchmark: klue_ner, korquad, glue_cola, …; or its TOML file", autocompletion=_tasks)
    ],
    gold: Annotated[str, typer.Argument(help="its official file, or ARCHIVE::MEMBER", show_default=False)] = "",
    predictions: Annotated[
        str,
        typer.Argument(
            help="JSON Lines, one record per example of GOLD; or predictions of ours: predictions.arrow, or a cell's name",
            show_default=False,
            autocompletion=labels_of("finetune"),
        ),
    ] = "",
    mode: Annotated[
        _ScoringMode, typer.Option("--mode", help="as the official script prints, or as its text defines")
    ] = "official",
    against: Annotated[
        str | None, typer.Option("--against", help="predictions of a second system: test the difference")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="write what the score was computed from to this file", dir_okay=False)
    ] = None,
    sign: Annotated[
        Path | None, typer.Option("--sign", help="sign the certificate with this private key of ssh or minisign")
    ] = None,
    show_format: Annotated[bool, typer.Option("--format", help="print what records of predictions hold, and exit")] = False,
    store: StoreDir = Path("store"),
) -> None:
    """Score a prediction file of any system and print one JSON object of metrics, each times 100."""
    from korealbert.finetune.scores.certificate import certify  # noqa: PLC0415 (loads the tasks)
    from korealbert.finetune.scores.scoring import compare_files, record_format, score_file  # noqa: PLC0415 (loads torch)

    comparison: dict[str, Any] = {}
    with clear_errors():
        records = record_format(task)
        if show_format:
            typer.echo(records)
            return
        if not gold or not predictions:
            raise ValueError("name the official file and the predictions; --format prints their format")
        own = _predictions(predictions, store)
        if sign is not None and certificate is None:
            raise ValueError("--sign signs a certificate; name its file with --certificate")
        if certificate is not None:
            if against is not None:
                raise ValueError("a certificate is for one system; leave out --against")
            scores = certify(task, gold, own, mode, certificate, key=sign)
        elif against is None:
            scores = score_file(task, gold, own, mode)
        else:
            scores, comparison["against"] = compare_files(task, gold, own, _predictions(against, store), mode)
    for warning in scores.warnings:
        warn(warning)
    typer.echo(json.dumps({**scores.facts(), **comparison}, allow_nan=False))


@app.command("verify-score")
def verify_score(
    certificate: Annotated[Path, typer.Argument(help="what `score --certificate` wrote")],
    key: Annotated[Path | None, typer.Option("--key", help="the public key (.pub) that must have signed it")] = None,
    gold: Annotated[Path | None, typer.Option("--gold", help="the official file, if it has moved")] = None,
    predictions: Annotated[Path | None, typer.Option("--predictions", help="the predictions, if they have moved")] = None,
    benchmark: Annotated[
        Path | None, typer.Option("--benchmark", help="the TOML file of the benchmark, if it has moved")
    ] = None,
) -> None:
    """Check a certificate of a score and score again; prints a line for everything that agrees or differs.

    The exit status is 1 if anything differs, 2 if the file is no certificate.
    """
    from korealbert.finetune.scores.verification import verify  # noqa: PLC0415 (loads the tasks)

    differs = False
    with clear_errors():
        for finding in verify(certificate, gold=gold, predictions=predictions, benchmark=benchmark, key=key):
            differs = differs or finding.verdict == "differs"
            # The certificate is someone else's file and must not control the terminal.
            typer.echo("".join(c if c.isprintable() else "\ufffd" for c in f"{finding.verdict:8}{finding.text}"))
    if differs:
        raise typer.Exit(1)


def _predictions(named: str, store: Path) -> str:
    """Return the file of predictions that a name means: that file, or the predictions of a cell in the store."""
    path = Path(named)
    # Names and labels of artifacts have no suffix, are not absolute and do not begin with a dot.
    is_file = path.is_file() or path.suffix or path.is_absolute() or named.startswith(".") or not store.is_dir()
    if is_file and not path.is_dir():
        return named
    found = find(store, named).path / "predictions.arrow"
    if not found.is_file():
        raise ValueError(f"{named}: it holds no predictions; name a cell (finetune/nsmc/pretrained/1) or a file of predictions")
    return str(found)
