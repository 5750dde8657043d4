"""The extract stage: one raw source → documents.

In: files, archives and directories in one of fifteen formats, or the output of a crawl or fetch. Out: ``documents-*``,
``dropped-*``, ``quarantine-*`` shards. This process reads and decompresses the files and cuts them into batches of whole
records; workers parse the batches, one shard at a time. Shards depend only on the raw bytes and ``shard_bytes``, so any number
of workers gives the same bytes.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from korealbert.artifact import Deployment, Inputs, Runtime, Stage, Stats
from korealbert.artifact.files import files_of, write_json
from korealbert.artifact.shards import map_shards
from korealbert.corpus.html.pages import OTHER_TYPE, frame_warc, parse_html, parse_warc, parse_wet
from korealbert.corpus.markup.expansion import TemplatePages, load_template_pages
from korealbert.corpus.markup.mediawiki import BASE, DOC, DOC_END, PAGE, PAGE_END, parse_docs, parse_pages, read_templates
from korealbert.corpus.markup.namumark import parse_namuwiki
from korealbert.corpus.readers.arrow import caches, frame_arrow
from korealbert.corpus.readers.columns import parse_columns
from korealbert.corpus.readers.csv import frame_csv, parse_rows
from korealbert.corpus.readers.framing import RawRecords, frame_delimited, frame_json, frame_paragraphs, frame_whole
from korealbert.corpus.readers.json import parse_json, parse_json_file
from korealbert.corpus.readers.lost_files import CUT, LostFiles
from korealbert.corpus.readers.parquet import frame_parquet
from korealbert.corpus.readers.records import Dropped, Outcome, Parser, Tally
from korealbert.corpus.readers.spec import ExtractSpec, has_ending
from korealbert.corpus.readers.text import parse_text_blocks, parse_text_file, parse_titled_text
from korealbert.documents.containers import MemberFilter, is_archive, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.shards import (
    DOCUMENT_SCHEMA,
    QUARANTINE_SCHEMA,
    DocumentShard,
    DocumentStats,
    read_column,
    read_rows,
    sum_stats,
)
from korealbert.documents.streams import RawFile

_MAX_SHOWN_RECORDS = 5
_TEMPLATES = "templates.json"

_REQUIRED_PACKAGES = {"html": ("lxml", "trafilatura"), "warc": ("lxml", "trafilatura", "fastwarc")}
"""Packages of the extra ``[crawl]`` that a format requires."""

PARSERS: dict[tuple[str, str], Parser] = {
    ("mediawiki", "record"): parse_pages,
    ("wikiextractor", "record"): parse_docs,
    ("namuwiki", "record"): parse_namuwiki,
    ("news_text", "record"): parse_titled_text,
    ("books", "record"): parse_rows,
    ("csv", "record"): parse_rows,
    ("parquet", "record"): parse_columns,
    ("arrow", "record"): parse_columns,
    ("text", "record"): parse_text_blocks,
    ("text", "line"): parse_text_blocks,
    ("text", "file"): parse_text_file,
    ("html", "record"): parse_html,
    ("warc", "record"): parse_warc,
    ("wet", "record"): parse_wet,
    **{(name, "record"): parse_json for name in ("news", "json", "jsonl")},
    **{(name, "file"): parse_json_file for name in ("news", "json", "jsonl")},
}
"""Parsers by format and by what becomes a document."""


class ExtractionError(ValueError):
    """A source that does not fit its spec: too many bad records, a field that no record has, another namespace for articles."""


@dataclass(frozen=True, slots=True)
class _ShardInput:
    """The raw material of one shard."""

    spec: ExtractSpec
    parts: tuple[RawRecords | Quarantined, ...]


class ExtractStats(DocumentStats):
    """Counts of files and records, and of what was lost; the last seven are those of ``Tally``."""

    records_in: int = 0
    files: int | None = None
    """Files that were opened, including members of archives; None in artifacts of earlier versions."""
    files_unread: int = 0
    """Those of them of which nothing could be read."""
    files_cut: int = 0
    """Those that could be read only in part."""
    files_left_aside: dict[str, int] = Field(default_factory=dict)
    """Files that were not read because others in their directory have a suffix of the format, by their own suffix."""
    twins: int = 0
    """Hidden files, and those that macOS adds to archives (``._1.txt``), which are not read."""
    repeated_ids: int = 0
    """Documents with the id of an earlier one, where the recipe names a field with ids; of more than a million an estimate."""
    missing_fields: dict[str, int] = Field(default_factory=dict)
    unread_fields: dict[str, int] = Field(default_factory=dict)
    unread_dates: int = 0
    source_characters: int = 0
    lost_characters: dict[str, int] = Field(default_factory=dict)
    namespaces: dict[str, int] = Field(default_factory=dict)
    rows_in_quotes: dict[str, int] = Field(default_factory=dict)


def run(spec: ExtractSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> ExtractStats:
    """Extract one source. Raises ExtractionError when the source and the spec do not fit together."""
    check_installed(spec)
    files, members = LostFiles(spec), MemberFilter(spec.members, spec.exclude)

    def counted() -> Iterator[_ShardInput]:
        for shard in shard_inputs(spec, inputs, members):
            for part in shard.parts:
                files.add(part)
            yield shard

    if spec.wiki.expand_templates:
        found = map_shards(_find_templates, shard_inputs(spec, inputs), out_dir=out_dir, runtime=runtime, step="templates")
        map_shards(_gather_templates, [len(found)], out_dir=out_dir, runtime=runtime, step="template-pages")
    stats = sum_stats(map_shards(extract_shard, counted(), out_dir=out_dir, runtime=runtime, step="extract"))
    files.close()
    files.add_cut(_quarantined(out_dir, CUT))
    _check_bad_share(spec, stats, out_dir)
    if stats["documents_in"] >= spec.bad_share_applies_from and (fault := files.fault()):
        raise ExtractionError(fault)
    _check_fields(spec, stats)
    check_namespaces(spec, stats["namespaces"])
    if spec.field_map.id:
        stats["repeated_ids"] = repeated_ids(sorted(out_dir.glob("documents-*.arrow")))
    if warnings := tuple(_warnings(spec, stats)):
        stats["warnings"] = warnings
    if others := Counter(Path(name).suffix or Path(name).name for name in _files_of_other_formats(spec, inputs)):
        stats["files_left_aside"] = dict(sorted(others.items()))
    return ExtractStats.of(
        {**stats, "files": files.count, "files_unread": files.unread, "files_cut": files.cut, "twins": members.hidden}
    )


def check_installed(spec: ExtractSpec) -> None:
    """Raise ExtractionError naming the packages that a format requires and this environment lacks."""
    missing = [name for name in _REQUIRED_PACKAGES.get(spec.format, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise ExtractionError(
            f"{spec.format} needs {', '.join(missing)}: install the extra with `pip install korealbert[crawl]`"
        )


def raw_parts(
    spec: ExtractSpec, inputs: Inputs = MappingProxyType({}), members: MemberFilter | None = None
) -> Iterator[RawRecords | Quarantined]:
    """Yield batches of whole records from the paths of a source, then from the output of its crawl or fetch.

    ``members`` is the filter of the spec, passed to count what it skips. Raises ExtractionError if there is no file.
    """
    members = members or MemberFilter(spec.members, spec.exclude)
    input_files = _input_files(inputs)
    fetched = bool(input_files)
    if "fetch" in inputs:
        input_files = [path for path in input_files if members.opens(path.name)]
    context = (inputs["crawl"].path / "snapshot.json").read_text("utf-8") if "crawl" in inputs else ""
    if not spec.paths and not fetched:
        raise ExtractionError(f"source {spec.source}: it has no `paths`, and no crawl or fetch of its name brings any files")
    found = False
    other_files = _files_of_other_formats(spec, inputs)
    paths = [path.path for path in spec.paths] + [path for path in input_files if path.name not in other_files]
    for raw in open_files(paths, members, spec.limits, left_out=other_files):
        found = True
        for part in [raw] if isinstance(raw, Quarantined) else frame(spec, raw):
            yield replace(part, context=context) if context and isinstance(part, RawRecords) else part
    if not found:
        excluded = f" and none of exclude = {list(spec.exclude)}" if spec.exclude else ""
        where = "the fetch has" if "fetch" in inputs and not spec.paths else "`paths` hold"
        raise ExtractionError(f"source {spec.source}: {where} no file that matches members = {spec.members!r}{excluded}")


def _files_of_other_formats(spec: ExtractSpec, inputs: Inputs) -> frozenset[str]:
    """Return the files of directories and of a fetch that are not read because others have a suffix of the format, or for
    Arrow because they are caches."""
    folders = [path.path for path in spec.paths if path.path.is_dir()]
    files = {file.relative_to(folder).as_posix(): file for folder in folders for file in files_of(folder)}
    files |= {path.name: path for path in _input_files(inputs)}
    made = caches(files) if spec.format == "arrow" else set()
    if spec.members != "*":
        return frozenset(made)
    takes = MemberFilter(exclude=spec.exclude).takes
    fits = {name: has_ending(name, spec.format) for name in files if takes(name) and not is_archive(name)}
    others = (name for name, fitting in fits.items() if fitting is False) if any(fits.values()) else ()
    return frozenset((*others, *made))


def _input_files(inputs: Inputs) -> list[Path]:
    """Return the raw files of the input artifacts."""
    patterns = {"crawl": "pages-*.warc.gz", "fetch": "files/*"}
    if unknown := sorted(inputs.keys() - patterns.keys()):
        raise ExtractionError(f"extraction has no input {unknown[0]!r}; it takes {' and '.join(patterns)}")
    return [path for role in sorted(inputs) for path in inputs[role].files(patterns[role])]


def shard_inputs(
    spec: ExtractSpec, inputs: Inputs = MappingProxyType({}), members: MemberFilter | None = None
) -> Iterator[_ShardInput]:
    """Yield the raw records of each shard; ``members`` as of ``raw_parts``.

    Raises ExtractionError if there are none: Parquet files may be whole and have no rows.
    """
    parts: list[RawRecords | Quarantined] = []
    size, found = 0, False
    for part in raw_parts(spec, inputs, members):
        parts.append(part)
        found = True
        size += len(part.data) if isinstance(part, RawRecords) else 0
        if size >= spec.shard_bytes:
            yield _ShardInput(spec, tuple(parts))
            parts, size = [], 0
    if parts:
        yield _ShardInput(spec, tuple(parts))
    if not found:
        raise ExtractionError(
            f"source {spec.source}: its files are whole, but have no rows: remove the source, or fetch it again"
        )


def _find_templates(job: _ShardInput, index: int, out_dir: Path) -> Stats:
    """Write the templates of one shard."""
    found = dict(pair for part in job.parts if isinstance(part, RawRecords) for pair in read_templates(part))
    (out_dir / ".work").mkdir(exist_ok=True)
    write_json(out_dir / ".work" / f"templates-{index:05d}.json", found)
    return {}


def _gather_templates(shards: int, index: int, out_dir: Path) -> Stats:
    """Join the templates of all shards; the last of two pages with the same name counts, as in a wiki."""
    found: dict[str, str] = {}
    for shard in range(shards):
        found |= json.loads((out_dir / ".work" / f"templates-{shard:05d}.json").read_bytes())
    write_json(out_dir / ".work" / _TEMPLATES, found)
    return {}


def parse(
    spec: ExtractSpec, part: RawRecords | Quarantined, tally: Tally, templates: TemplatePages | None = None
) -> Iterator[Outcome]:
    """Yield the outcomes of the records of one batch, expanding calls of ``templates``."""
    if isinstance(part, Quarantined):
        return iter([part])
    return parse_pages(spec, part, tally, templates) if templates else PARSERS[spec.format, spec.document](spec, part, tally)


def frame(spec: ExtractSpec, raw: RawFile) -> Iterator[RawRecords | Quarantined]:
    """Yield the records of one file in batches."""
    raw.format = spec.format
    options: dict[str, Any] = {"encoding": spec.encoding, "max_record_bytes": spec.limits.max_record_bytes}
    if spec.document == "file":
        return frame_whole(raw, **options, is_json=spec.format != "text")
    framer: Callable[..., Iterator[RawRecords | Quarantined]]
    match spec.format:
        case "mediawiki":
            framer = partial(frame_delimited, delimiter=PAGE_END, record_mark=PAGE, header=BASE, closing=True)
        case "wikiextractor":
            framer = partial(frame_delimited, delimiter=DOC_END, record_mark=DOC)  # any kind of line end follows
        case "jsonl":
            framer = partial(frame_delimited, delimiter=b"\n")
        case "warc":
            framer = frame_warc
        case "wet":
            framer = partial(frame_warc, kind=b"conversion")
        case "text":
            framer = partial(frame_delimited, delimiter=b"\n") if spec.document == "line" else frame_paragraphs
        case "books" | "csv":
            framer = partial(
                frame_csv, delimiter=spec.delimiter, columns=len(spec.columns), skip=spec.skip_rows, quoted=spec.quoted
            )
        case "news_text" | "html":
            framer = frame_whole
        case "namuwiki" | "news" | "json":
            framer = frame_json
        case "parquet" | "arrow":
            columnar = frame_parquet if spec.format == "parquet" else frame_arrow
            return columnar(raw, fields=spec.field_map, max_record_bytes=spec.limits.max_record_bytes)
        case _:
            assert_never(spec.format)
    return framer(raw, **options)


def extract_shard(job: _ShardInput, index: int, out_dir: Path) -> Stats:
    """Parse the raw records of one shard."""
    tally = Tally()
    templates = load_template_pages(out_dir / ".work" / _TEMPLATES) if job.spec.wiki.expand_templates else None
    with DocumentShard(out_dir, index) as shard:
        for part in job.parts:
            for outcome in parse(job.spec, part, tally, templates):
                if isinstance(outcome, Quarantined):
                    shard.quarantine(outcome)
                elif isinstance(outcome, Dropped):
                    shard.drop(outcome.document, outcome.drop)
                else:
                    shard.keep(outcome)
    return {**shard.stats, **tally.stats()}


def _quarantined(out_dir: Path, reasons: Collection[str] = ()) -> Iterator[Quarantined]:
    """Yield the quarantined records, or those with one of these reasons."""
    for path in sorted(out_dir.glob("quarantine-*.arrow")):
        if reasons:
            columns = read_column(path, QUARANTINE_SCHEMA, "reason")
            if not any(pc.any(pc.is_in(each, pa.array(sorted(reasons)))).as_py() for each in columns):
                continue
        for row in read_rows(path, QUARANTINE_SCHEMA):
            entry = Quarantined(*row)
            if not reasons or entry.reason in reasons:
                yield entry


def _check_bad_share(spec: ExtractSpec, stats: Stats, out_dir: Path) -> None:
    bad, total = stats["quarantined"], stats["documents_in"] - stats["dropped"].get(OTHER_TYPE, 0)
    if bad <= spec.max_bad_share * total or bad < total < spec.bad_share_applies_from:
        return
    first = list(islice(_quarantined(out_dir), _MAX_SHOWN_RECORDS))
    same_reason = bad == total and len({(entry.reason, entry.remedy) for entry in first}) == 1
    examples = f" {first[0]}" if same_reason else "".join(f"\n  {entry}" for entry in first)
    hint = f"; or are these files no {spec.format}? [extract.{spec.source}] format names their format" if bad == total else ""
    if stats.get("rows_in_quotes"):
        hint = "; or set quoted = false, by which quotation marks are text"
    if spec.format == "text" and spec.document == "file" and "record_too_long" in {entry.reason for entry in first}:
        hint = '; or set document = "record", which makes a document of each paragraph'
    raise ExtractionError(
        f"source {spec.source}: {bad:,} of {total:,} records ({bad / total:.1%}) cannot be read, more than"
        f" max_bad_share = {spec.max_bad_share:.1%}. The first of them:{examples}{hint}"
    )


def _check_fields(spec: ExtractSpec, stats: Stats) -> None:
    """Raise ExtractionError for a field that the recipe names and no record has, or none as text: the name is misspelt."""
    records = stats["records_in"]
    for role in sorted(spec.fields.model_fields_set - {"required", "text"}):
        name = getattr(spec.fields, role)
        if name and records and stats["missing_fields"].get(role, 0) >= records:
            raise ExtractionError(
                f"source {spec.source}: no record has the field {name!r} that fields.{role} names; correct it, or set it to an"
                " empty string if the source has no such field"
            )


def repeated_ids(shards: Iterable[Path], *, most: int = 1_000_000) -> int:
    """Return how many documents have the id of an earlier one.

    Ids are hashes, so those below a limit are a random sample, in which equal ids stay together. The limit is halved whenever
    there are more than ``most`` of them, and the number that is found multiplied accordingly.
    """
    counted, times, limit = Counter[str](), 1, "g"  # hexadecimal digits are smaller
    for shard in shards:
        for ids in read_column(shard, DOCUMENT_SCHEMA, "id"):
            counted.update(ids.filter(pc.less(ids, limit)).to_pylist())
            while len(counted) > most:
                times *= 2
                limit = f"{(1 << 64) // times:016x}"
                counted = Counter({one: number for one, number in counted.items() if one < limit})
    return times * (counted.total() - len(counted))


def _warnings(spec: ExtractSpec, stats: Stats) -> Iterator[str]:
    """Yield what of the records' metadata is not read, and whether ids are none."""
    if (repeated := stats.get("repeated_ids", 0)) > spec.max_bad_share * stats["documents_out"]:
        yield (
            f"{repeated:,} documents have the {spec.field_map.id!r} of an earlier one, as in files that each count from 0:"
            ' they are drawn together (balance, held-out rows); fields.id = "" makes ids of files and positions'
        )
    for role, count in stats["unread_fields"].items():
        name = getattr(spec.field_map, role)
        remedy = (
            f'if it is an object, name a field within it ({name}.name, for example) as fields.{role}, else fields.{role} = ""'
        )
        yield f"{name!r} of {count:,} records is an object or a list of several values, and not read as {role}: {remedy}"
    if spec.field_map.published and stats["unread_dates"] > spec.max_bad_share * stats["records_in"]:
        name, count = spec.field_map.published, stats["unread_dates"]
        yield f"{name!r} of {count:,} records is no date of a known form (2024-01-15, RFC 2822, a Unix time), and not read"


def check_namespaces(spec: ExtractSpec, counts: Mapping[str, int]) -> None:
    """Raise ExtractionError if the most frequent namespace of a NamuWiki dump is not that of articles."""
    if spec.format != "namuwiki" or not counts:
        return
    modal = max(sorted(counts), key=counts.__getitem__)
    if modal not in spec.article_namespaces:
        raise ExtractionError(
            f"source {spec.source}: most records have namespace {modal!r} ({counts[modal]:,} of {sum(counts.values()):,});"
            f" article_namespaces {spec.article_namespaces} does not name it: look at their titles and set article_namespaces"
        )


STAGE = Stage(
    "extract",
    version=30,
    spec=ExtractSpec,
    run=run,
    check=lambda spec, _: check_installed(spec),
    table="extract.SOURCE",
    inputs={"crawl": "crawl/SOURCE", "fetch": "fetch/SOURCE"},
    required=True,
    deployment=Deployment("Sources to documents"),
)
