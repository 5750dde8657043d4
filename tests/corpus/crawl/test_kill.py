"""A crawl killed at random moments loses and fetches no stored page again, and stores every page once."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from korealbert.corpus.crawl import stage
from korealbert.corpus.crawl.frontier import Frontier
from korealbert.corpus.crawl.stage import CrawlInterrupted
from korealbert.corpus.crawl.warc_files import open_frontier, whole_bytes
from tests.artifact.test_trust import flip
from tests.corpus.crawl.crawling import broken_off, crawl, pages_of, source_file
from tests.corpus.crawl.site import Answer, Asked, article, news, running

PAGES = 120
KILLS = 2


def stored(store: Path) -> set[str]:
    """Return the URLs that the frontier of the unfinished crawl has as stored."""
    path = next(store.glob("crawl-*.partial/.frontier.sqlite"))
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT url FROM urls WHERE state = 'stored'").fetchall()
    database.close()
    return {url for (url,) in rows}


def test_killed_at_random_moments_it_stores_every_page_once(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311
    store = tmp_path / "store"
    with running({}) as site:
        site.publish(*map(news, range(PAGES)))
        source = source_file(tmp_path, site, concurrency=4)
        before: set[str] = set()
        for kill in range(KILLS):
            command = [sys.executable, "-m", "tests.corpus.crawl.crawling", str(source), str(store)]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            aim = sum(site.hits.values()) + chance.randrange(20, 45)
            while sum(site.hits.values()) < aim and process.poll() is None:
                time.sleep(0.001)
            workers = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            assert process.wait() == -signal.SIGKILL, "the crawl was faster than the kill"
            psutil.wait_procs(workers)  # The kernel kills them with their parent.
            now = stored(store)
            assert before < now, f"kill {kill}: pages were lost, or nothing was stored"
            before = now
            hits = Counter(site.hits)
        crawled = crawl(tmp_path, source)
        again = {url for url in before if site.hits[url.removeprefix(site.root)] != hits[url.removeprefix(site.root)]}
    assert not again, "stored pages were fetched again"
    urls = Counter(url for url, _ in crawled.pages)
    assert urls == Counter(f"{site.root}/news/{number}" for number in range(PAGES))
    assert all(body == news(int(url.rpartition("/")[2])).body for url, body in crawled.pages)
    assert crawled.artifact.stats["documents_in"] == PAGES


def test_a_record_without_its_row_is_cut_off_and_a_row_without_its_record_waits_again(tmp_path: Path) -> None:
    with running({}) as site:
        source = broken_off(tmp_path, site)
        partial = next((tmp_path / "store").glob("*.partial"))
        warc = partial / "pages-00000.warc.gz"
        whole = warc.read_bytes()
        warc.write_bytes(whole + whole[:100])  # killed while writing a record
        frontier, ends = open_frontier(partial)
        assert ends == {0: len(whole)}
        frontier.close()
        warc.write_bytes(whole[:-10])  # the machine went down before the last record reached the disk
        frontier, ends = open_frontier(partial)
        assert frontier.count("waiting") == 1 and ends[0] < len(whole) - 10
        frontier.close()
        crawled = crawl(tmp_path, source, failed_share_applies_from=1)
    assert sorted(Counter(url for url, _ in crawled.pages).values()) == [1] * 12
    assert site.hits["/news/0"] == 2  # the next run retried it


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_pages_that_changed_on_the_disk_are_fetched_again(share: float, tmp_path: Path) -> None:
    with running({}) as site:
        source = broken_off(tmp_path, site)
        warc = next((tmp_path / "store").glob("*.partial")) / "pages-00000.warc.gz"
        whole, size = warc.read_bytes(), warc.stat().st_size
        assert whole_bytes(warc) == size
        for each in (0.3, 0.999, share):
            warc.write_bytes(whole)
            flip(warc, int(each * size))
            assert whole_bytes(warc) <= each * size
        crawled = crawl(tmp_path, source, failed_share_applies_from=1)
    assert sorted(Counter(url for url, _ in crawled.pages).values()) == [1] * 12
    assert all(body == news(int(url.rpartition("/")[2])).body for url, body in crawled.pages)


def test_pages_that_change_before_the_seal_are_not_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running({}) as site:
        site.publish(*map(news, range(12)))
        source = source_file(tmp_path, site)

        def flip_after(*arguments: Any) -> None:
            really(*arguments)
            flip(next((tmp_path / "store").glob("*.partial")) / "pages-00000.warc.gz")

        really = stage._crawl
        with monkeypatch.context() as patch, pytest.raises(CrawlInterrupted, match="changed on the disk after byte"):
            patch.setattr(stage, "_crawl", flip_after)
            crawl(tmp_path, source)
        crawled = crawl(tmp_path, source)
    assert sorted(Counter(url for url, _ in crawled.pages).values()) == [1] * 12


def test_only_a_transaction_changes_the_frontier(tmp_path: Path) -> None:
    frontier = Frontier(tmp_path)
    with pytest.raises(KeyError), frontier.transaction():
        frontier.add("a", "http://a.example/", "article")
        raise KeyError
    assert (frontier.count("waiting"), frontier.id_of("a")) == (0, None)
    with frontier.transaction():
        assert frontier.add("a", "http://a.example/", "article") is not None
        assert frontier.add("a", "http://a.example/", "article") is None
    frontier.close()
    again = Frontier(tmp_path)
    known = again.take()
    assert known is not None and known.url == "http://a.example/"
    again.close()


def test_a_server_that_asks_for_a_pause_gets_it(tmp_path: Path) -> None:
    times: list[float] = []

    def busy(asked: Asked) -> Answer:
        times.append(time.monotonic())
        if asked.times == 1:
            return Answer(b"", 503, headers=(("Retry-After", "1"),))
        return news(0)

    with running({}) as site:
        site.publish(busy, news(1))
        crawled = crawl(tmp_path, source_file(tmp_path, site, concurrency=1))
    assert len(crawled.pages) == 2
    assert times[1] - times[0] >= 0.95


def test_files_are_begun_anew_when_they_are_large(tmp_path: Path) -> None:
    noise = random.Random(1)  # noqa: S311
    bodies = ["".join(chr(noise.randrange(0xAC00, 0xD7A4)) for _ in range(20_000)) for _ in range(6)]
    with running({}) as site:
        site.publish(*(Answer(article("기사", f"<p>{body}</p>")) for body in bodies))
        crawled = crawl(tmp_path, source_file(tmp_path, site), max_file_bytes=1 << 16)
    assert len(crawled.artifact.files("pages-*.warc.gz")) > 2
    assert len(crawled.pages) == 6
    assert all(len(list(pages_of(path))) >= 1 for path in crawled.artifact.files("pages-*.warc.gz"))
