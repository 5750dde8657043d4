"""Wikipedia articles per second beside wikiextractor, on one dump and with the same number of processes.

python -m bench.wikipedia DUMPS --peers PYTHON [--pages 10000] [--processes 1] [--rounds 3]: DUMPS is an archive or folder of
MediaWiki exports; PYTHON is an interpreter with wikiextractor. Two inputs are made of their articles: whole articles in turn,
and excerpts (the lead and consecutive sections, 2,000 to 8,000 characters if the article is long enough), which are as long as
articles of the Korean Wikipedia. wikiextractor reads line by line, so the siteinfo is written on several lines. It runs without
templates, its fastest way, and has two processes that read and write beside each extracting process. Ours is the extract stage
from the file to Arrow shards, which also keeps lists and inline templates.
"""

from __future__ import annotations

import argparse
import bz2
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from bench.common import cpu_seconds, files, in_turns, options
from korealbert.artifact import build
from korealbert.corpus.extract import STAGE
from korealbert.corpus.readers.spec import ExtractSpec
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
EXCERPTS_PER_ARTICLE = 20
"""There are this many excerpts for each whole article, because a whole article is this much longer."""

_ARTICLE = re.compile(
    r"<page>\s*<title>([^<]*)</title>\s*<ns>0</ns>(?:(?!<redirect|</page>).)*?<text[^>]*>([^<]*)</text>", re.DOTALL
)
_SECTION = re.compile(r"(?m)^(?===[^=])")


def articles(dumps: Path) -> dict[str, list[str]]:
    """Return the escaped sources of all articles without redirects, by dump."""
    found: dict[str, list[str]] = {}
    for name, data in files([dumps], "*.bz2"):
        found[name.rpartition("/")[2][:12]] = [text for _, text in _ARTICLE.findall(data.decode("utf-8", "replace"))]
    return found


def excerpts(source: str) -> list[str]:
    """Cut an article into excerpts where sections begin, and sections that are too long at the end of a line."""
    least, most = EXCERPT_CHARS
    parts, found = _SECTION.split(source), [""]
    for part in parts:
        if len(found[-1]) >= least:
            found.append("")
        found[-1] += part if len(part) <= most else part[: part.find("\n", most) + 1 or None]
    return found


def write_dump(path: Path, sources: list[str], count: int) -> int:
    """Write ``count`` pages of ``sources`` in turn, with distinct titles and ids. Returns the size in bytes."""
    with path.open("w", encoding="utf-8") as out:
        out.write(HEADER)
        for number in range(count):
            out.write(PAGE.format(title=f"문서 {number}", id=number + 1, text=sources[number % len(sources)]))
        out.write("</mediawiki>\n")
    return path.stat().st_size


def theirs(python: str, dump: Path, processes: int, out: Path) -> tuple[float, float, int]:
    """Return seconds, processor seconds and articles of wikiextractor."""
    module = [python, "-m", "wikiextractor.WikiExtractor"]
    arguments = ["--no-templates", "--quiet", "--processes", str(processes), "-o", str(out), str(dump)]
    before, begun = cpu_seconds(), time.perf_counter()
    subprocess.run([*module, *arguments], check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    return seconds, cpu_seconds() - before, sum(path.read_bytes().count(b"<doc id=") for path in out.rglob("wiki_*"))


def ours(dump: Path, processes: int, store: Path) -> tuple[float, float, int]:
    """Return seconds, processor seconds and articles of the extract stage."""
    spec = ExtractSpec.model_validate({"source": "kowiki", "format": "mediawiki", "paths": [str(dump)]})
    before, begun = cpu_seconds(), time.perf_counter()
    stats = build(STAGE, spec, {}, TrainingRuntime(store=store, workers=processes)).artifact.stats
    seconds = time.perf_counter() - begun
    return seconds, cpu_seconds() - before, stats["documents_out"] + sum(stats["dropped"].values())


def into_a_new_folder(measure: Callable[[Path], tuple[float, float, int]]) -> tuple[float, float, int]:
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder))


def rows(name: str, dump: Path, count: int, given: argparse.Namespace) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the rows of one dump."""
    size = dump.stat().st_size / 1e6
    sides = {
        "theirs": partial(into_a_new_folder, partial(theirs, given.peers, dump, given.processes)),
        "ours": partial(into_a_new_folder, partial(ours, dump, given.processes)),
    }
    runs = in_turns(given.rounds, sides)
    read = {side: {run[2] for run in of} for side, of in runs.items()}
    assert read["ours"] == {count}, f"{name}: {read} articles of {count}"
    assert min(read["theirs"]) >= 0.99 * count, f"{name}: {read} articles of {count}"
    our_rate, their_rate = (count / median(run[0] for run in runs[side]) for side in ("ours", "theirs"))
    yield f"{name}, articles/s", f"{our_rate:,.0f}", f"{their_rate:,.0f}", f"{our_rate / their_rate:.1f}", "≥ 3, aim 5"
    our_rate, their_rate = (size / median(run[1] for run in runs[side]) for side in ("ours", "theirs"))
    yield f"{name}, MB/s a core", f"{our_rate:.1f}", f"{their_rate:.1f}", f"{our_rate / their_rate:.1f}", ""


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("dumps", type=Path)
    parser.add_argument("--peers", required=True, help="interpreter with wikiextractor 3.1.0")
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
        for name, sources, count in (
            ("excerpts", parts, given.pages),
            ("whole articles", whole, given.pages // EXCERPTS_PER_ARTICLE),
        ):
            size = write_dump(dump, sources, count)
            print(f"{name}: {count:,} pages, {size / 1e6:.0f} MB")
            table += rows(name, dump, count, given)
        packed = Path(folder) / "pages.xml.bz2"
        packed.write_bytes(bz2.compress(dump.read_bytes()))
        _, cpu, _ = into_a_new_folder(partial(ours, packed, given.processes))
        table.append(("whole articles from bz2, MB/s a core", f"{dump.stat().st_size / 1e6 / cpu:.1f}", "", "", ""))
    for row in table:
        print("{:40}{:>10}{:>15}{:>8}  {}".format(*row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
