"""Wikipedia articles a second against wikiextractor, on one dump, with the same number of processes, in one run.

python -m bench.wikipedia DUMPS --peers PYTHON [--pages 10000] [--processes 1] [--rounds 3]: DUMPS is an archive or folder of
MediaWiki exports; PYTHON is the interpreter of an environment that has wikiextractor. Two inputs are made of their articles:
whole ones in turn, and excerpts (the lead and some sections that follow each other, 2,000 to 8,000 characters where the
article has them), whose length is that of a Korean Wikipedia article. wikiextractor reads line by line and needs its siteinfo
spread over lines; it runs without templates, its fastest way; beside each extracting process it has two that read and write.
Ours is the extract stage from the file to Arrow shards, which also keeps lists and inline templates.
"""

from __future__ import annotations

import argparse
import bz2
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from korealbert.artifact import build
from korealbert.corpus.extract import STAGE
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.containers import open_files
from korealbert.documents.streams import RawFile, ReadLimits
from korealbert.pretrain.runtime import TrainingRuntime

HEADER = """<mediawiki xml:lang="ko">
  <siteinfo>
    <base>https://ko.wiki.example/wiki/Main</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="10" case="first-letter">틀</namespace>
    </namespaces>
  </siteinfo>
"""
PAGE = """  <page>
    <title>{title}</title>
    <ns>0</ns>
    <id>{id}</id>
    <revision>
      <id>{id}</id>
      <timestamp>2019-10-01T00:00:00Z</timestamp>
      <text xml:space="preserve">{text}</text>
    </revision>
  </page>
"""
EXCERPT_CHARS = (2_000, 8_000)
WHOLE_SHARE = 20
"""One whole article for so many excerpts, in count: they are as much longer."""

_ARTICLE = re.compile(
    r"<page>\s*<title>([^<]*)</title>\s*<ns>0</ns>(?:(?!<redirect|</page>).)*?<text[^>]*>([^<]*)</text>", re.DOTALL
)
_SECTION = re.compile(r"(?m)^(?===[^=])")


def articles(dumps: Path) -> dict[str, list[str]]:
    """The escaped sources of all articles that are no redirects, by dump."""
    found: dict[str, list[str]] = {}
    for raw in open_files([dumps], "*.bz2", ReadLimits()):
        assert isinstance(raw, RawFile), raw
        data = b"".join(iter(lambda raw=raw: raw.read(1 << 20), b""))
        found[raw.name.rpartition("/")[2][:12]] = [text for _, text in _ARTICLE.findall(data.decode("utf-8", "replace"))]
    return found


def excerpts(source: str) -> list[str]:
    """The lead with the sections that follow, cut where a section begins, and where that would be too long, at a line."""
    least, most = EXCERPT_CHARS
    parts, found = _SECTION.split(source), [""]
    for part in parts:
        if len(found[-1]) >= least:
            found.append("")
        found[-1] += part if len(part) <= most else part[: part.find("\n", most) + 1 or None]
    return found


def write_dump(path: Path, sources: list[str], count: int) -> int:
    """``count`` pages of ``sources`` in turn, each with a title and an id of its own. Returns the file's bytes."""
    with path.open("w", encoding="utf-8") as out:
        out.write(HEADER)
        for number in range(count):
            out.write(PAGE.format(title=f"문서 {number}", id=number + 1, text=sources[number % len(sources)]))
        out.write("</mediawiki>\n")
    return path.stat().st_size


def theirs(python: str, dump: Path, processes: int, out: Path) -> tuple[float, float, int]:
    """Seconds, processor seconds and articles of wikiextractor."""
    command = [
        python,
        "-m",
        "wikiextractor.WikiExtractor",
        "--no-templates",
        "--quiet",
        "--processes",
        str(processes),
        "-o",
        str(out),
    ]
    before, begun = _child_seconds(), time.perf_counter()
    subprocess.run([*command, str(dump)], check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    return seconds, _child_seconds() - before, sum(path.read_bytes().count(b"<doc id=") for path in out.rglob("wiki_*"))


def ours(dump: Path, processes: int, store: Path) -> tuple[float, float, int]:
    """Seconds, processor seconds and articles of the extract stage."""
    spec = ExtractSpec.model_validate({"source": "kowiki", "format": "mediawiki", "paths": [str(dump)]})
    before, begun = _child_seconds() + time.process_time(), time.perf_counter()
    stats = build(STAGE, spec, {}, TrainingRuntime(store=store, workers=processes)).artifact.stats
    seconds = time.perf_counter() - begun
    return seconds, _child_seconds() + time.process_time() - before, stats["documents_out"] + sum(stats["dropped"].values())


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(name: str, dump: Path, count: int, given: argparse.Namespace) -> Iterator[tuple[str, str, str, str, str]]:
    size = dump.stat().st_size / 1e6
    runs: dict[str, list[tuple[float, float, int]]] = {"ours": [], "theirs": []}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            runs["theirs"].append(theirs(given.peers, dump, given.processes, Path(folder)))
        with tempfile.TemporaryDirectory() as folder:
            runs["ours"].append(ours(dump, given.processes, Path(folder)))
    read = {side: {run[2] for run in of} for side, of in runs.items()}
    assert read["ours"] == {count}, f"{name}: {read} articles of {count}"
    assert min(read["theirs"]) >= 0.99 * count, f"{name}: {read} articles of {count}"
    wall = {side: statistics.median(run[0] for run in of) for side, of in runs.items()}
    cpu = {side: statistics.median(run[1] for run in of) for side, of in runs.items()}
    rate = {side: count / seconds for side, seconds in wall.items()}
    yield (
        f"{name}, articles/s",
        f"{rate['ours']:,.0f}",
        f"{rate['theirs']:,.0f}",
        f"{rate['ours'] / rate['theirs']:.1f}",
        "≥ 3, aim 5",
    )
    yield (
        f"{name}, MB/s a core",
        f"{size / cpu['ours']:.1f}",
        f"{size / cpu['theirs']:.1f}",
        f"{cpu['theirs'] / cpu['ours']:.1f}",
        "",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", type=Path)
    parser.add_argument("--peers", required=True, help="interpreter of the environment that has wikiextractor 3.1.0")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    by_dump = articles(given.dumps)
    whole = [text for sources in by_dump.values() for text in sources]
    parts = [part for text in whole for part in excerpts(text)]
    print(
        f"{len(whole)} articles ({Counter({name: len(sources) for name, sources in by_dump.items()})}), {len(parts):,} excerpts"
    )
    table = [("what", "ours", "wikiextractor", "ratio", "goal")]
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "pages.xml"
        for name, sources, count in (("excerpts", parts, given.pages), ("whole articles", whole, given.pages // WHOLE_SHARE)):
            size = write_dump(dump, sources, count)
            print(f"{name}: {count:,} pages, {size / 1e6:.0f} MB")
            table += rows(name, dump, count, given)
        packed = Path(folder) / "pages.xml.bz2"
        packed.write_bytes(bz2.compress(dump.read_bytes()))
        with tempfile.TemporaryDirectory() as store:
            _, cpu, _ = ours(packed, given.processes, Path(store))
        table.append(("whole articles from bz2, MB/s a core", f"{dump.stat().st_size / 1e6 / cpu:.1f}", "", "", ""))
    for row in table:
        print("{:40}{:>10}{:>15}{:>8}  {}".format(*row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
