"""NamuWiki documents per second beside namu-wiki-extractor, on the same dumps and with the same number of processes.

python -m bench.namuwiki RECORDS --peers PYTHON [--documents 4000] [--processes 1] [--rounds 3]: RECORDS is an archive or folder
of real dump records; PYTHON is an interpreter with namu-wiki-extractor 0.3.0. Dumps in the original format (one array on one
line, with contributors) are made of them, each document with shuffled paragraphs: short articles alone; a mix with one of
58,000 characters in 50 and one of 521,000 in 500; and all records in turn, a twentieth as many. Each process reads a dump of
its own and writes JSON lines; ours reads it as a stream, the peer loads it whole. Rates are by processor time, which other work
on the machine hardly changes. --memory adds the peak memory of ours over one array, at two sizes. Fails if a document is lost.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.common import files, in_turns, options, outcomes, peer
from korealbert.corpus.markup.namumark import extract_namumark
from korealbert.corpus.readers.records import Dropped
from korealbert.corpus.readers.spec import ExtractSpec, WikiOptions
from korealbert.documents.schema import Document

SHORT_CHARS = 10_000
LONG_RECORDS = ((58_000, 50), (521_000, 500))
"""Characters of a long record, and how many documents of the mix there are for each such record."""
MEMORY_DOCUMENTS = (10_000, 40_000)
OURS = [sys.executable, "-m", "bench.namuwiki", "--child"]
ROW = "{:62}{:>12}{:>12}{:>8}  {}"


def records_in(paths: Path) -> list[dict[str, Any]]:
    """Return the dump records of some files, which hold one object or one array each."""
    found: list[dict[str, Any]] = []
    for _, content in files([paths], "*.json"):
        value = json.loads(content)
        found += value if isinstance(value, list) else [value]
    return found


def chosen(records: list[dict[str, Any]], number: int, mix: str) -> dict[str, Any]:
    """Return the record that document ``number`` is made of."""
    if mix == "all in turn":
        return records[number % len(records)]
    for characters, among in LONG_RECORDS if mix == "mix" else ():
        longer = [record for record in records if abs(len(record["text"]) - characters) < 0.05 * characters]
        if longer and number % among == among - 1:
            return longer[0]
    short = [record for record in records if len(record["text"]) < SHORT_CHARS]
    return short[number % len(short)]


def write_dump(path: Path, records: list[dict[str, Any]], count: int, mix: str) -> int:
    """Write a dump of ``count`` documents; returns its characters of markup."""
    chance, characters = random.Random(1), 0  # noqa: S311
    with path.open("w", encoding="utf-8") as out:
        for number in range(count):
            record = chosen(records, number, mix)
            paragraphs = record["text"].split("\n\n")
            if len(paragraphs) > 2:
                chance.shuffle(paragraphs)
            text = "\n\n".join(paragraphs)
            characters += len(text)
            varied = {**record, "namespace": "0", "title": f"{record['title']} {number}", "text": text}
            out.write(("[" if number == 0 else ",") + json.dumps(varied, ensure_ascii=False, separators=(",", ":")))
        out.write("]")
    return characters


def extract(dump: Path, out: Path) -> tuple[float, int]:
    """Write the documents of a dump as JSON lines; returns the processor seconds of that and the number of documents."""
    begun, count = time.process_time(), 0
    spec = ExtractSpec.model_validate({"source": "namuwiki", "format": "namuwiki", "paths": [str(dump)]})
    with out.open("w", encoding="utf-8") as target:
        for _, outcome in outcomes(spec):
            count += 1
            document = outcome.document if isinstance(outcome, Dropped) else outcome
            assert isinstance(document, Document), document
            target.write(json.dumps({"title": document.title, "text": document.text}, ensure_ascii=False) + "\n")
    return time.process_time() - begun, count


def child(dump: Path, out: Path) -> None:
    """Extract a dump in this process; prints seconds, seconds of extraction alone, documents and peak memory."""
    seconds, count = extract(dump, out)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    alone = 0.0
    if dump.stat().st_size < 200e6:
        texts = [record["text"] for record in json.loads(dump.read_text("utf-8"))]
        begun, options = time.process_time(), WikiOptions()
        for text in texts:
            extract_namumark(text, options)
        alone = time.process_time() - begun
    print(json.dumps([seconds, alone, count, peak]))


def run(command: list[str], dumps: list[Path], folder: Path) -> list[list[float]]:
    """Start one process for each dump, all at once; returns what each printed."""
    children = [
        subprocess.Popen([*command, str(dump), str(folder / f"{dump.stem}.jsonl")], stdout=subprocess.PIPE, text=True)
        for dump in dumps
    ]
    printed = [process.communicate()[0] for process in children]
    assert not any(process.returncode for process in children), "a child process failed: see above"
    return [json.loads(line) for line in printed]


def compare(
    name: str, records: list[dict[str, Any]], documents: int, given: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one mix."""
    dumps = [folder / f"dump{number}.json" for number in range(given.processes)]
    characters = sum(write_dump(dump, records, documents, name) for dump in dumps)
    count = documents * given.processes
    size = sum(dump.stat().st_size for dump in dumps) / 1e6
    print(f"{name}: {count:,} documents, {size:.0f} MB, {characters / count:,.0f} characters on average")
    commands = {"theirs": peer(given.peers, "namuwiki"), "ours": OURS}
    runs = in_turns(given.rounds, {side: partial(run, command, dumps, folder) for side, command in commands.items()})
    for found in runs["ours"]:
        read = sum(line[2] for line in found)
        assert read == count, f"{name}: {read:,.0f} documents of {count:,}"
    for index, what in enumerate(("from dump to JSON lines", "markup to text alone")):
        ours, theirs = (
            documents / median(max(line[index] for line in found) for found in runs[side]) for side in ("ours", "theirs")
        )
        title = f"{name}, {what}, documents/s a core"
        yield title, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f}", "≥ 3, aim 5"


def memory(records: list[dict[str, Any]], folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the rows of peak memory over one array, at two sizes."""
    dump = folder / "array.json"
    for count in MEMORY_DOCUMENTS:
        write_dump(dump, records, count, "mix")
        size = dump.stat().st_size / 1e6
        ((seconds, _, _, peak),) = run(OURS, [dump], folder)
        yield f"one array of {size:,.0f} MB: peak MB, MB/s", f"{peak / 1024:,.0f}, {size / seconds:.1f}", "", "", "flat"


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(*map(Path, sys.argv[2:]))
        return 0
    parser = options(__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("--peers", required=True, help="interpreter with namu-wiki-extractor 0.3.0")
    parser.add_argument("--documents", type=int, default=4_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="measure peak memory too: a minute")
    given = parser.parse_args()
    records = records_in(given.records)
    print(f"{len(records)} records of {', '.join(str(len(record['text'])) for record in records)} characters")
    table: list[tuple[str, ...]] = [("what", "ours", "peer", "ratio", "goal")]
    with tempfile.TemporaryDirectory() as folder:
        for name, fewer in (("short articles", 1), ("mix", 1), ("all in turn", 20)):
            table += compare(name, records, given.documents // fewer, given, Path(folder))
        if given.memory:
            table += memory(records, Path(folder))
    for row in table:
        print(ROW.format(*row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
