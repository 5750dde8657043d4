"""Pages per second of the crawler beside bare Scrapy that stores the same pages as WARC, from the same loopback site.

python -m bench.crawl --peers PYTHON [--pages 2000] [--rounds 3]. A process of its own serves the site. Bare Scrapy reads the
sitemap, obeys the same robots.txt with the same concurrency, and appends each response to one WARC file with the same library
and compression. It keeps no frontier and no log, does not check addresses and does not find duplicates. Rounds alternate; the
wall time is that of a whole crawl, including process start and final log. Exits with 1 below the goal.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.common import answer, cpu_seconds, in_turns, options, peer
from korealbert.artifact import Runtime, build
from korealbert.corpus.crawl.stage import STAGE, CrawlSpec
from tests.corpus.crawl.crawling import source_file
from tests.corpus.crawl.site import Answer, Site, article, sitemap, text

GOAL = 0.8
CONCURRENCY = 8


def fill(site: Site, pages: int, page_bytes: int) -> None:
    """Add pages like those of a newspaper: a third is text, two thirds are repeated markup."""
    chance = random.Random(3)  # noqa: S311
    syllables = [chr(code) for code in range(0xAC00, 0xB300)]
    vocabulary = ["".join(chance.choices(syllables, k=length)) for length in (2, 3, 4, 5) for _ in range(5000)]
    for number in range(pages):
        words = chance.choices(vocabulary, k=page_bytes // 30)
        body = "".join(f"<p>{' '.join(words[start : start + 40])}.</p>" for start in range(0, len(words), 40))
        markup = "<div class='list'><a href='/news/other'><img src='/i.png'></a></div>" * (page_bytes // 110)
        site.pages[f"/news/{number}"] = Answer(article(f"기사 {number}", body + markup))
    site.pages["/sitemap.xml"] = sitemap(*(f"{site.root}/news/{number}" for number in range(pages)))
    site.pages["/robots.txt"] = text("User-agent: *\nDisallow: /private/\n")


def serve(ready: Any, pages: int, page_bytes: int) -> None:
    """Send the port to the parent, and serve the site until it ends."""
    with Site() as site:
        fill(site, pages, page_bytes)
        ready.send(site.port)
        ready.recv()


def measured(run: Callable[[Path], None]) -> tuple[float, float]:
    """Return wall seconds, and processor seconds of this process and its children, of a crawl into an empty directory."""
    with tempfile.TemporaryDirectory() as directory:
        before, start = cpu_seconds(), time.perf_counter()
        run(Path(directory))
        return time.perf_counter() - start, cpu_seconds() - before


def crawl(site: Site, pages: int, directory: Path) -> None:
    """Run the crawl stage."""
    spec = CrawlSpec.model_validate({"source": str(source_file(directory, site, concurrency=CONCURRENCY))})
    assert build(STAGE, spec, {}, Runtime(store=directory / "store", workers=1)).artifact.stats["documents_out"] == pages


def crawl_bare(python: str, site: Site, pages: int, directory: Path) -> None:
    """Run Scrapy's sitemap spider."""
    path = directory / "bare.warc.gz"
    answer(peer(python, "scrapy", f"{site.root}/sitemap.xml", path, str(CONCURRENCY)))
    assert path.stat().st_size > pages


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--peers", required=True, help="interpreter with Scrapy and warcio")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--page-bytes", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(there, arguments.pages, arguments.page_bytes), daemon=True
    )
    server.start()
    site = Site(port=here.recv())
    sides = {
        "korealbert": partial(measured, partial(crawl, site, arguments.pages)),
        "bare Scrapy 2.19": partial(measured, partial(crawl_bare, arguments.peers, site, arguments.pages)),
    }
    found = in_turns(arguments.rounds, sides)
    here.send("end")
    server.join()
    ours, bare = found.values()
    for name, runs in found.items():
        wall, cpu = median(run[0] for run in runs), median(run[1] for run in runs)
        print(f"{name:16} {arguments.pages / wall:7.1f} pages/s  {1000 * cpu / arguments.pages:6.2f} CPU ms/page")
    by_wall = median(b[0] / o[0] for o, b in zip(ours, bare))
    by_cpu = median(b[1] / o[1] for o, b in zip(ours, bare))
    print(f"{'rounds':16} {'  '.join(f'{b[0] / o[0]:.2f}' for o, b in zip(ours, bare))} by wall time")
    print(f"{'ratio':16} {by_wall:7.2f} by wall time, {by_cpu:.2f} by CPU time; goal {GOAL} by wall time")
    return 0 if by_wall >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
