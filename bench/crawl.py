"""Crawl pages a second beside bare Scrapy that stores the same pages as WARC, from the same loopback site, in one run.

python -m bench.crawl --peers PYTHON [--pages 2000] [--rounds 3]. The site is served by a process of its own. Bare Scrapy reads
the sitemap, obeys the same robots.txt with the same concurrency, and appends each response to one WARC file with the same
library and compression; it keeps no frontier and no log, checks no addresses, finds no duplicates. Rounds alternate; the wall
time is that of a whole crawl, process start and final log included. Exits with 1 below the goal.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from korealbert.artifact import Runtime, build
from korealbert.corpus.crawl.stage import STAGE, CrawlSpec
from tests.corpus.crawl.crawling import source_file
from tests.corpus.crawl.site import Answer, Site, article, sitemap, text

GOAL = 0.8
CONCURRENCY = 8
BARE = """
import io, sys, zlib
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.spiders import SitemapSpider
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

class Bare(SitemapSpider):
    name = "bare"

    def parse(self, response):
        writer = WARCWriter(buffer := io.BytesIO(), gzip=False, warc_version="1.1")
        headers = [(name.decode(), value.decode()) for name, values in response.headers.items() for value in values]
        http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
        body = io.BytesIO(response.body)
        writer.write_record(
            writer.create_warc_record(response.url, "response", payload=body, length=len(response.body), http_headers=http)
        )
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        self.file.write(packer.compress(buffer.getvalue()) + packer.flush())

concurrency = int(sys.argv[3])
settings = {"ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS": concurrency, "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
    "DOWNLOAD_DELAY": 0, "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, "COOKIES_ENABLED": False}
process = AsyncCrawlerProcess(settings)
with open(sys.argv[2], "wb") as Bare.file:
    process.crawl(Bare, sitemap_urls=[sys.argv[1]])
    process.start()
"""


def fill(site: Site, pages: int, page_bytes: int) -> None:
    """News-like pages: a third text, two thirds markup that repeats."""
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
    """Serve the site until the parent ends; tells it the port."""
    with Site() as site:
        fill(site, pages, page_bytes)
        ready.send(site.port)
        ready.recv()


def measured(run: Callable[[], None]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of this process and its children, of a call."""
    before, start = _cpu(), time.perf_counter()
    run()
    return time.perf_counter() - start, _cpu() - before


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def crawl(site: Site, directory: Path, pages: int) -> None:
    """The crawl stage."""
    directory.mkdir()
    spec = CrawlSpec.model_validate({"source": str(source_file(directory, site, concurrency=CONCURRENCY))})
    assert build(STAGE, spec, {}, Runtime(store=directory / "store", workers=1)).artifact.stats["documents_out"] == pages


def crawl_bare(peers: str, site: Site, directory: Path, pages: int) -> None:
    """Scrapy's own sitemap spider."""
    path = directory / "bare.warc.gz"
    command = [peers, "-c", BARE, f"{site.root}/sitemap.xml", str(path), str(CONCURRENCY)]
    subprocess.run(command, check=True)
    assert path.stat().st_size > pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="interpreter of the peers' environment, which has Scrapy and warcio")
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
    ours: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.rounds):
            for runs, run in ((ours, crawl), (bare, partial(crawl_bare, arguments.peers))):
                runs.append(measured(lambda: run(site, Path(scratch) / f"round{number}", arguments.pages)))  # noqa: B023
    here.send("end")
    server.join()
    for name, runs in (("korealbert", ours), ("bare Scrapy 2.19", bare)):
        wall, cpu = median(run[0] for run in runs), median(run[1] for run in runs)
        print(f"{name:16} {arguments.pages / wall:7.1f} pages/s  {1000 * cpu / arguments.pages:6.2f} CPU ms/page")
    by_wall = median(b[0] / o[0] for o, b in zip(ours, bare))
    by_cpu = median(b[1] / o[1] for o, b in zip(ours, bare))
    print(f"{'rounds':16} {'  '.join(f'{b[0] / o[0]:.2f}' for o, b in zip(ours, bare))} by wall time")
    print(f"{'ratio':16} {by_wall:7.2f} by wall time, {by_cpu:.2f} by CPU time; goal {GOAL} by wall time")
    return 0 if by_wall >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
