"""Read retrieval collections in the format of BEIR and MTEB: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``.

The files are in a directory or an archive, compressed or not. Ids are strings or whole numbers. A document is its title and
text joined by a space, as BEIR encodes it. Judgements have a header that names their columns, or are three columns or TREC's
four.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from korealbert.artifact.files import files_of
from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.documents.containers import is_archive, member_of, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ReadLimits
from korealbert.finetune.records import Record, json_lines

_COMPRESSED = re.compile(r"\.(gz|bz2|xz|zst)$", re.IGNORECASE)
_COLUMNS = ("query-id", "corpus-id", "score")
_SCORE = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")
_SHOWN = 20


@dataclass(frozen=True)
class Collection:
    """Documents, queries and relevance judgements."""

    documents: Mapping[str, str]
    """Title and text by id."""
    queries: Mapping[str, str]
    """Text by id of the queries with judgements in the split."""
    judged: Mapping[str, Mapping[str, int]]
    """Judgements by query and document."""
    titled: Mapping[str, int]
    """Offset of the text in documents with a title, by id."""
    warnings: tuple[str, ...] = ()
    """Oddities of the files that were tolerated."""

    @property
    def judgements(self) -> int:
        """The number of judgements."""
        return sum(map(len, self.judged.values()))

    def texts(self) -> Iterator[str]:
        """Yield queries, documents, and documents without their titles, all without surrounding blanks."""
        yield from self.queries.values()
        yield from self.documents.values()
        yield from (self.documents[name][begin:].strip() for name, begin in self.titled.items())

    @property
    def without_relevant(self) -> set[str]:
        """The queries without a relevant document."""
        return {query for query, judged in self.judged.items() if max(judged.values()) <= 0}


def read_collection(path: Path, split: str) -> Collection:
    """Read a collection and the judgements of one split.

    Raises ValueError naming file, line, field and remedy, and FileNotFoundError.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or directory; give a directory or archive in BEIR's format")
    files = _Files(path)
    documents, titled, again = _texts(files.named("corpus.jsonl"), titled=True)
    asked, _, repeated = _texts(files.named("queries.jsonl"), titled=False)
    found = files.named(f"qrels/{split}.tsv")
    judged, same = _judgements(found, asked)
    if not judged:
        raise ValueError(f"{found}: holds no judgement; is the download complete?")
    queries = {query: asked[query] for query in judged}
    collection = Collection(documents, queries, judged, titled)
    unknown = {document for each in judged.values() for document in each if document not in documents}
    counted = {
        "{} documents stand in the corpus twice with the same text; each counts once": again,
        "{} queries stand in their file twice with the same text; each counts once": repeated,
        "{} judgements stand in their file twice; each counts once": same,
        "{} documents are empty": sum(1 for text in documents.values() if not text),
        "{} judged documents are not in the corpus; those that are relevant count as not found": len(unknown),
        "{} queries have no relevant document; official means count them as 0, corrected ones leave them out": len(
            collection.without_relevant
        ),
    }
    warnings = tuple(text.format(f"{number:,}") for text, number in counted.items() if number)
    return replace(collection, warnings=warnings)


class _Files:
    """Finds files of a directory or archive by name."""

    def __init__(self, path: Path) -> None:
        self.path, self.packed = path, path.is_file()
        if self.packed and not is_archive(path.name):
            remedy = "give the directory that holds corpus.jsonl, or an archive of it"
            raise ValueError(f"{path}: neither a directory nor an archive; {remedy}")
        self.names = [name for name in self._listed() if not re.search(r"(^|/)(\.|__MACOSX/)", name)]

    def _listed(self) -> Iterator[str]:
        if not self.packed:
            yield from (inner.relative_to(self.path).as_posix() for inner in files_of(self.path))
            return
        for raw in open_files([self.path], "*", ReadLimits()):
            if isinstance(raw, Quarantined):
                raise ValueError(f"{raw.file}: {raw.position}: {raw.reason}; {raw.remedy}")
            yield member_of(self.path, raw.name).removeprefix("./")

    def named(self, wanted: str) -> BenchmarkFile:
        """Return the only file of this name, at any depth and compressed or not. Raises ValueError if there is not one."""
        parts = PurePosixPath(wanted).parts
        found = [name for name in self.names if PurePosixPath(_COMPRESSED.sub("", name)).parts[-len(parts) :] == parts]
        if len(found) == 1:
            return BenchmarkFile(self.path, found[0]) if self.packed else BenchmarkFile(self.path / found[0])
        if found:
            raise ValueError(f"{self.path}: holds {wanted} {len(found)} times ({', '.join(found[:_SHOWN])}); keep one")
        splits = [PurePosixPath(_COMPRESSED.sub("", name)).stem for name in self.names if "qrels" in PurePosixPath(name).parts]
        if parts[0] == "qrels" and splits:
            raise ValueError(f"{self.path}: has no {wanted}; set split to one of {', '.join(sorted(splits))}")
        raise ValueError(f"{self.path}: has no {wanted}; it holds {', '.join(sorted(self.names)[:_SHOWN]) or 'nothing'}")


def _texts(file: BenchmarkFile, *, titled: bool) -> tuple[dict[str, str], dict[str, int], int]:
    """Return texts by id, the offsets of texts after a title, and the number of repeated lines."""
    texts: dict[str, str] = {}
    begins: dict[str, int] = {}
    lines: dict[str, Line] = {}
    again = 0
    for record in json_lines(file):
        number = _id(record)
        text = record.text("text") if "text" in record or "text" not in record.fields else ""
        title = record.text("title") if titled and "title" in record else ""
        whole = f"{title} {text}".strip()
        if number in texts:
            again += 1
            if texts[number] != whole:
                problem = f"{number!r} is in line {lines[number].number} too, with another text"
                raise record.error("_id", problem, "keep one of the two, or fetch the official file again")
        if begin := len(f"{title} ".lstrip()):
            begins[number] = begin
        texts[number], lines[number] = whole, lines.get(number, record.line)
    if not texts:
        raise ValueError(f"{file}: holds no record; is the download complete?")
    return texts, begins, again


def _id(record: Record) -> str:
    name = "id" if "_id" not in record.fields and "id" in record.fields else "_id"
    value = record.fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not (text := record.text(name)):
        raise record.error(name, "is empty", "give each record an id")
    if text != text.strip():
        raise record.error(name, f"{text!r} has blanks around it", "remove them; ids of judgements are read without")
    return text


def _judgements(file: BenchmarkFile, queries: Mapping[str, str]) -> tuple[dict[str, dict[str, int]], int]:
    """Return judgements by query and document, and the number of repeated lines."""
    judged: dict[str, dict[str, int]] = {}
    repeated, header = 0, list[str]()
    for line in file.lines():
        if not line.text.strip():
            raise line.error("score", "the line is empty", "remove it")
        fields = [field.strip() for field in (line.text.split("\t") if "\t" in line.text else line.text.split())]
        if line.number == 1 and (header := _header(line, fields, queries)):
            continue
        query, document, score = _judgement(line, fields, header)
        if query not in queries:
            raise line.error("query-id", f"no query {query!r} in queries.jsonl", "give both files of one collection")
        scores = judged.setdefault(query, {})
        if document in scores:
            repeated += 1
            if scores[document] != score:
                problem = f"{document!r} was judged {scores[document]} for {query!r} above, here {score}"
                raise line.error("score", problem, "keep one of the two lines")
        scores[document] = score
    return judged, repeated


def _judgement(line: Line, fields: list[str], header: Sequence[str]) -> tuple[str, str, int]:
    """Return query, document and score of a line."""
    if not header and len(fields) == len(_COLUMNS) + 1:
        fields.pop(1)  # TREC's unused column of iterations.
    columns = header or _COLUMNS
    if len(fields) != len(columns):
        raise line.error("score", f"{len(fields)} columns", f"a line holds {'<TAB>'.join(columns)}")
    query, document, written = (fields[columns.index(name)] for name in _COLUMNS)
    score = _SCORE.fullmatch(written)
    if score is None:
        raise line.error("score", f"found {written[:40]!r}", "a judgement is a whole number, of at most 18 digits")
    return query, document, int(score[1])


def _header(line: Line, fields: Sequence[str], queries: Mapping[str, str]) -> list[str]:
    """Return the names of the columns if the first line is a header, else [].

    Raises ValueError if a header does not name the three columns.
    """
    names = [field.lower().replace("_", "-") for field in fields]
    missing = [name for name in _COLUMNS if names.count(name) != 1]
    if not missing:
        return names
    if not names or fields[0] in queries or _SCORE.fullmatch(fields[-1]):
        return []
    problem = f"found {'<TAB>'.join(fields)[:80]!r}, which does not name each column once"
    raise line.error(missing[0], problem, f"name {', '.join(_COLUMNS)}, or remove the header")
