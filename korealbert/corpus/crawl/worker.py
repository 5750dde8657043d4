"""The process that crawls: ``python -m korealbert.corpus.crawl.worker SPEC DIRECTORY PARENT``.

A process of its own, because Twisted's reactor runs once per process. Prints one line of JSON per second about its progress.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess

from korealbert.artifact.shards import die_with_parent
from korealbert.corpus.crawl.context import SETTING, Snapshot
from korealbert.corpus.crawl.frontier import Frontier, State
from korealbert.corpus.crawl.source import load_source
from korealbert.corpus.crawl.spec import CrawlSpec
from korealbert.corpus.crawl.spider import SnapshotSpider
from korealbert.corpus.crawl.stage import FRONTIER
from korealbert.corpus.crawl.warc_files import WarcFiles, warc_files

SECONDS_BETWEEN_REPORTS = 1.0
REPORTED: tuple[State, ...] = ("waiting", "stored", "failed")

_UNUSED_MIDDLEWARES = (
    "offsite.OffsiteMiddleware",
    "robotstxt.RobotsTxtMiddleware",
    "httpauth.HttpAuthMiddleware",
    "retry.RetryMiddleware",
    "redirect.MetaRefreshMiddleware",
    "redirect.RedirectMiddleware",
    "httpcompression.HttpCompressionMiddleware",
    "cookies.CookiesMiddleware",
    "httpproxy.HttpProxyMiddleware",
    "httpcache.HttpCacheMiddleware",
)


def open_frontier(out_dir: Path) -> tuple[Frontier, dict[int, int]]:
    """The frontier of an output directory in step with its WARC files, and the bytes of each that count."""
    frontier = Frontier(out_dir / FRONTIER)
    sizes = {number: path.stat().st_size for number, path in warc_files(out_dir).items()}
    return frontier, frontier.heal(sizes)


def settings(snapshot: Snapshot) -> dict[str, Any]:
    """Scrapy's settings. A proxy of the environment is not used: it would resolve names behind the back of the address rule."""
    spec, source = snapshot.spec, snapshot.source
    unused: dict[Any, Any] = {f"scrapy.downloadermiddlewares.{name}": None for name in _UNUSED_MIDDLEWARES}
    return {
        SETTING: snapshot,
        "USER_AGENT": spec.user_agent,
        "CONCURRENT_REQUESTS": 0,  # the spider hands out no more than there is room for
        "CONCURRENT_ITEMS": 1,  # callbacks yield nothing, and Scrapy starts so many tasks for each answer: 100 cost 1 ms
        "CONCURRENT_REQUESTS_PER_DOMAIN": source.concurrency,
        "DOWNLOAD_DELAY": source.delay_seconds,
        "DOWNLOAD_DELAY_JITTER": 0,
        "DOWNLOAD_TIMEOUT": source.timeout_seconds,
        "DOWNLOAD_MAXSIZE": source.max_page_bytes,
        "DOWNLOAD_WARNSIZE": 0,
        "DOWNLOAD_FAIL_ON_DATALOSS": True,
        "DOWNLOAD_VERIFY_CERTIFICATES": source.verify_certificates,
        "DOWNLOADER_MIDDLEWARES": {**unused, "korealbert.corpus.crawl.robots.RobotsMiddleware": 100},
        "SPIDER_MIDDLEWARES_BASE": {},
        "TWISTED_DNS_RESOLVER": "korealbert.corpus.crawl.addresses.PublicResolver",
        "URLLENGTH_LIMIT": 0,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "ERROR",
        "LOG_FORMAT": "%(levelname)s: %(message)s",
        "STATS_DUMP": False,
    }


async def report(frontier: Frontier) -> None:
    """Tell the parent how far the crawl is."""
    while True:
        counts = {state: frontier.count(state) for state in REPORTED}
        print(json.dumps(counts), flush=True)
        await asyncio.sleep(SECONDS_BETWEEN_REPORTS)


class ReportingSpider(SnapshotSpider):
    """Reports while it crawls."""

    async def start(self) -> Any:
        """For Scrapy."""
        reporting = asyncio.ensure_future(report(self._frontier))
        try:
            async for request in super().start():
                yield request
        finally:
            reporting.cancel()


def main(spec_json: str, out_dir: str, parent: str) -> int:
    """Crawl until nothing waits. Returns 1 when it was stopped before."""
    die_with_parent()
    if os.getppid() != int(parent):
        return 1  # it died before it could be watched
    spec = CrawlSpec.model_validate_json(spec_json)
    source = load_source(spec.source.path)
    frontier, ends = open_frontier(Path(out_dir))
    about = {"software": "korealbert", "format": "WARC File Format 1.1", "robots": "obey" if source.robots else "ignore"}
    files = WarcFiles(Path(out_dir), ends, spec.max_file_bytes, about)
    frontier.try_failed_again()
    snapshot = Snapshot(spec, source, frontier, files)
    process = AsyncCrawlerProcess(settings(snapshot))
    process.crawl(ReportingSpider, snapshot)
    process.start()
    files.close()
    frontier.close()
    return 0 if snapshot.complete else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
