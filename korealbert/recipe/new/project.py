"""A new project: a recipe for the user's own files, made by looking at them.

The user is asked nothing. Formats follow from names and first bytes, columns from the first records, vocabulary, batches and
steps from the amount of text and the speed of this machine. The recipe can be run at once; its comments explain each choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import jinja2

from korealbert.artifact import Store
from korealbert.artifact.files import atomic_write
from korealbert.corpus.readers.records import one_line, writable
from korealbert.formatting import size as formatted
from korealbert.recipe.new.files import MAX_ARTICLE_LINES, MIN_DOCUMENTS, RENAME, SCHEMA, STORE
from korealbert.recipe.new.sources import CONVERT, FoundSources, Source, common_directory, find_sources, listed
from korealbert.recipe.planning import prepare
from korealbert.recipe.reference import json_schema
from korealbert.recipe.tables import DATA, SHIPPED, RecipeError
from korealbert.shipped import SPECS

RECIPE = "recipe.toml"
"""The file that ``korealbert run`` reads by default."""
SAMPLE = tuple(SPECS / "sample" / name for name in ("news.jsonl", "mediawiki.xml", "namuwiki.json", "books.csv"))
"""Text that the package ships, for a project without files of its own."""
_BYTES_PER_PIECE = 4.5
"""Bytes of Korean text in UTF-8 for each piece of a vocabulary of 8,000 (``work.py``)."""
_VOCABULARIES = ((3e8, 32_000), (3e7, 16_000), (4e6, 8_000), (1e6, 4_000), (3e5, 2_000))
"""Minimum bytes of text, and the vocabulary for so much."""
_PIECES_BESIDES = 500
"""Minimum number of pieces in addition to one for each character: 200 Korean texts of 129 kB have 848."""
_MIN_CORPUS_DOCUMENTS, _MIN_CORPUS_CHARACTERS = 3, 2_000
"""Less text leaves nothing to train on or nothing to hold out."""
_MAX_NAME_CHARACTERS = 20
"""Columns with shorter texts are rather names or titles. Film reviews of NSMC have 26 characters."""
_MAX_SECONDS, _MAX_EPOCHS = 600, 20
"""Limits of pretraining a first model on this machine."""
_SEQUENCE_LENGTH = 64


def summary(found: FoundSources) -> Iterator[str]:
    """Yield lines for people: each source, with what is not read of it, and then what is left out."""
    for source in found.sources:
        yield _summary_of(source)
        yield from (f"  {remark}" for remark in _remarks(source))
    for path in found.repeated:
        yield f"{path}: is another given path or lies within one, and is read once"
    if found.left_out:
        yield f"left out: {listed(found.left_out)}; {CONVERT}"


def _summary_of(source: Source) -> str:
    """Return the format, place and size of a source, and what a document is in it."""
    first, *others = source.paths
    place = f"{common_directory(source.paths)}: {len(source.paths)} of its files and directories" if others else str(first)
    count = f"{source.files:,} file{'s' * (source.files != 1)}, {formatted(source.size)}"
    unit = {"record": "a paragraph", "line": "a line", "file": "a file"}.get(source.document, "")
    each = f", a document is {unit}" if unit else f", the text is in {source.fields['text']!r}" if source.fields else ""
    return f"{source.name}: {source.format}, {place}: {count}{each}"


def _remarks(source: Source) -> Iterator[str]:
    """Yield what is not read or looks wrong in a source, with the remedy."""
    sample = source.sample
    if source.empty_files:
        yield f"{source.empty_files:,} of its files {'is' if source.empty_files == 1 else 'are'} empty"
    if sample.bad > sample.blank_files or (sample.bad and not source.empty_files):
        stops = f"; a run stops at {source.bad_share:.0%} of such records or files: mend them or raise max_bad_share"
        yield f"not everything can be read: {sample.fault}{'' if source.tolerates_bad else stops}"
    if source.fields.get("text") in source.uncertain_header:
        header = source.uncertain_header
        columns = [f"column{number}" for number in range(1, len(header) + 1)]
        row, made_up = (", ".join(map(_quoted, each)) for each in (header, columns))
        remedy = f"set columns = [{made_up}] and fields.text = {_quoted(columns[header.index(source.fields['text'])])}"
        yield f"its first row, {row}, is taken for the names of its columns; if it is a record, {remedy}"
    if source.unread_nested:
        yield f"{source.unread_nested}, has more text but is not read"
    if source.unread_columns:
        have, both = _several(source)
        empty = f" ({source.blank_share:.0%} of the first records have no other)" if source.blank_share else ""
        yield f"{have} too{empty}, which is not read; fields.text = {both} reads them together"
    if source.columns_instead:
        names = ", ".join(map(_quoted, source.columns_instead))
        text = _quoted(source.fields["text"])
        yield f"the text of records without {text} is in {names}, which is not read: write it into {text}"
    if source.tag:
        remedy = "markdown = true strips those of HTML" if source.format == "text" and not source.markdown else "strip them"
        yield f"many of its texts contain {source.tag}; tags of HTML or XML are kept: {remedy}"
    if source.fields and sample.lengths and (usual := median(sample.lengths)) < _MAX_NAME_CHARACTERS:
        remedy = f"if these are no texts, delete [extract.{source.name}] and [clean.{source.name}.limits] of the recipe"
        yield f"half of its texts have at most {usual:.0f} characters; {remedy}"


def _settings(sources: Sequence[Source], share: float) -> dict[str, Any]:
    """Return the settings for this amount of text, with ``share`` of the steps that it would be worth."""
    size = sum(source.sample.size for source in sources)
    characters = len(frozenset[str]().union(*(source.sample.characters for source in sources)))
    usual = next((pieces for least, pieces in _VOCABULARIES if size >= least), 0)
    batch = 16 if size < 1e6 else 32
    per_step, pieces = batch * _SEQUENCE_LENGTH, max(1.0, size / _BYTES_PER_PIECE)
    steps = max(50, round(share * _MAX_EPOCHS * pieces / per_step))
    epochs = steps * per_step / pieces
    return {
        "size": formatted(size),
        "characters": characters,
        "vocabulary": max(usual, characters + _PIECES_BESIDES),
        "heldout": 0.05 if size < 1e6 else 0.005,
        "length": _SEQUENCE_LENGTH,
        "batch": batch,
        "steps": steps,
        "epochs": f"{epochs:,.1f}",
        "views": max(1, min(4, round(epochs))),
    }


def _quoted(value: str) -> str:
    """Quote a string for TOML, whose basic strings are JSON's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


def _several(source: Source) -> tuple[str, str]:
    """Say which other columns have prose, and give the value of ``fields.text`` that reads all of them."""
    names = ", ".join(map(_quoted, source.unread_columns))
    columns = ", ".join(map(_quoted, (source.fields["text"], *source.unread_columns)))
    return f"{names} {'has' if len(source.unread_columns) == 1 else 'have'} prose", f"[{columns}]"


def write(directory: Path, paths: Sequence[Path], *, corpus: bool = False) -> FoundSources:
    """Make a directory with a recipe for these files and a ``.gitignore``; return the sources found and what is left out.

    ``corpus``: the recipe ends in a corpus, for which any text is enough. Raises RecipeError if the directory already holds a
    recipe, nothing can be read, or there is too little text.
    """
    if (directory / RECIPE).exists():
        raise RecipeError(f"{directory / RECIPE} exists; name another directory")
    found = find_sources(paths, directory)
    for source in found.sources:
        for each in (*map(str, source.paths), source.members, *source.exclude):
            for place in (DATA, SHIPPED):
                if place in each:
                    raise RecipeError(f"{each}: {place} stands for another directory in recipes; rename it")
    if not corpus:
        _refuse_too_little(found)
    loader = jinja2.PackageLoader(__package__)
    layout = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    templates = jinja2.Environment(loader=loader, autoescape=False, **layout)  # type: ignore[arg-type]  # noqa: S701 (TOML)
    templates.filters |= {"quoted": _quoted, "one_line": one_line, "several": _several}
    template = templates.get_template(RECIPE)

    def recipe(share: float) -> bytes:
        text = template.render(
            name=directory.resolve().name, sources=found.sources, corpus=corpus, **_settings(found.sources, share)
        )
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            line = text[: error.start].count("\n")
            remedy = f"a recipe is UTF-8 and cannot name it; {RENAME}"
            raise RecipeError(f"{writable(text.splitlines()[line].strip())}: this name is not UTF-8; {remedy}") from None

    written = recipe(1.0)
    directory.mkdir(parents=True, exist_ok=True)
    atomic_write(directory / SCHEMA, json.dumps(json_schema(), ensure_ascii=False).encode())
    if not (directory / ".gitignore").exists():
        atomic_write(directory / ".gitignore", f"{STORE}/\n".encode())
    atomic_write(directory / RECIPE, written)
    planned = prepare(directory / RECIPE, Store(directory / STORE)).planned
    costs = [stage.cost for stage in planned if stage.label == "pretrain" and stage.cost is not None]
    if costs and (seconds := costs[0].seconds or 0.0) > _MAX_SECONDS:
        atomic_write(directory / RECIPE, recipe(_MAX_SECONDS / seconds))
    return found


def _refuse_too_little(found: FoundSources) -> None:
    """Raise RecipeError if there is too little text to train on, with what might be the reason."""
    lengths = [length for source in found.sources for length in source.sample.lengths if length >= source.min_characters]
    if len(lengths) >= _MIN_CORPUS_DOCUMENTS and sum(lengths) >= _MIN_CORPUS_CHARACTERS:
        return
    columns = "".join(
        f"; of {source.name} the text is in {source.fields['text']!r}"
        + (f", but {source.unread_nested}, has more and is not read" if source.unread_nested else "")
        for source in found.sources
        if source.fields
    )
    faults = "".join(f"; {source.sample.fault}" for source in found.sources if source.sample.fault)
    left_out = f"; left out: {listed(found.left_out)}" if found.left_out else ""
    whole = ""
    if any(source.document == "file" and source.files < MIN_DOCUMENTS for source in found.sources):
        whole = (
            f"; fewer than {MIN_DOCUMENTS} files of text are split into paragraphs or lines only if there are at least"
            f" {MIN_DOCUMENTS} of these, or {MAX_ARTICLE_LINES} in each of several files, and lines only if they do not look"
            " wrapped (of about equal length, most without the end of a sentence): put each text into a file of its own, or"
            " blank lines between texts"
        )
    elif any(source.document == "record" for source in found.sources):
        whole = "; a document is a paragraph, as a file is so large: put blank lines between texts"
    raise RecipeError(
        f"too little text for a model: {len(lengths):,} document{'s' * (len(lengths) != 1)} with {sum(lengths):,} characters;"
        f" at least {_MIN_CORPUS_DOCUMENTS} with {_MIN_CORPUS_CHARACTERS:,} are needed{whole}{columns}{faults}{left_out};"
        " for a corpus without a model, --corpus takes any text"
    )
