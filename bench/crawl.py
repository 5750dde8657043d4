"""Crawl pages a second beside bare Scrapy that stores the same pages, from the same loopback site, in one run.

python -m bench.crawl [--pages 1000] [--rounds 3]. Bare Scrapy reads the same sitemap, obeys the same robots.txt with the same
concurrency, and appends each body to one file as a gzip member; it keeps no frontier, no log and no WARC headers. Rounds
alternate. Prints pages per second of wall time and CPU milliseconds per page, less those of a crawl of one page (process start,
imports); exits with 1 below 0.8 of bare Scrapy's rate by CPU time.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from korealbert.artifact import Runtime, build
from korealbert.corpus.crawl.stage import STAGE, CrawlSpec
from tests.corpus.crawl.crawling import source_file
from tests.corpus.crawl.site import Answer, Site, article, sitemap, text

GOAL = 0.8
BARE = """
import sys, zlib
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.spiders import SitemapSpider

class Bare(SitemapSpider):
    name = "bare"
    def parse(self, response):
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        self.file.write(packer.compress(response.body) + packer.flush())

settings = {"ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, "COOKIES_ENABLED": False}
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
    for listed in (1, pages):
        site.pages[f"/sitemap-{listed}.xml"] = sitemap(*(f"{site.root}/news/{number}" for number in range(listed)))
    site.pages["/robots.txt"] = text("User-agent: *\nDisallow: /private/\n")


def measured(run: object) -> tuple[float, float]:
    """Wall and child CPU seconds of a call."""
    assert callable(run)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def crawl(site: Site, directory: Path, pages: int) -> None:
    directory.mkdir()
    listing = f'[[listing]]\nkind = "sitemap"\nurl = "{site.root}/sitemap-{pages}.xml"\n'
    spec = CrawlSpec.model_validate({"source": str(source_file(directory, site, listing))})
    assert build(STAGE, spec, {}, Runtime(store=directory / "store", workers=1)).artifact.stats["documents_out"] == pages


def crawl_bare(site: Site, directory: Path, pages: int) -> None:
    command = [sys.executable, "-c", BARE, f"{site.root}/sitemap-{pages}.xml", str(directory / "bare.gz")]
    subprocess.run(command, check=True, env=dict(os.environ))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--page-bytes", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ours: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    with Site() as site, tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        fill(site, arguments.pages, arguments.page_bytes)
        for number in range(arguments.rounds):
            for runs, run in ((ours, crawl), (bare, crawl_bare)):
                start_wall, start_cpu = measured(lambda: run(site, directory / f"start{number}", 1))  # noqa: B023
                wall, cpu = measured(lambda: run(site, directory / f"all{number}", arguments.pages))  # noqa: B023
                runs.append((wall - start_wall, cpu - start_cpu))
    for name, runs in (("korealbert", ours), ("bare Scrapy", bare)):
        wall, cpu = median(run[0] for run in runs), median(run[1] for run in runs)
        print(f"{name:12} {arguments.pages / wall:7.1f} pages/s  {1000 * cpu / arguments.pages:6.2f} CPU ms/page")
    by_wall = median(b[0] / o[0] for o, b in zip(ours, bare))
    by_cpu = median(b[1] / o[1] for o, b in zip(ours, bare))
    print(f"ratio        {by_wall:.2f} by wall time, {by_cpu:.2f} by CPU time (goal {GOAL})")
    return 0 if by_cpu >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
