"""A flipped bit in the file of the frontier is detected, or does not change what the crawl reads."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from korealbert.corpus.crawl import stage
from korealbert.corpus.crawl.frontier import Frontier, FrontierDamaged, RecordPosition, open_checked
from korealbert.corpus.crawl.stage import CrawlInterrupted
from tests.corpus.crawl.crawling import broken_off, crawl, source_file
from tests.corpus.crawl.site import news, running

FILE = ".frontier.sqlite"
FLIPS = 80


def steps(frontier: Frontier) -> list[Callable[[], Any]]:
    """The transactions of a small crawl, in which URLs are found, stored, refused, retried and moved."""

    def whole(change: Callable[[int], None], number: int) -> None:
        with frontier.transaction():
            change(number)

    def found(first: int) -> None:
        for number in range(first, first + 40):
            frontier.add(f"key {number}", f"http://a.example/news/{number}", "article", section="정치", published="2019-01-02")

    def stored(number: int) -> None:
        if known := frontier.take():
            frontier.store(known, RecordPosition(0, 100 * number, 100), f"{number:064x}", (known.key, f"hash {number}"))

    def ended(number: int) -> None:
        if known := frontier.take():
            if number % 3 == 0:
                frontier.finish(known, "refused", "robots")
            elif number % 3 == 1:
                frontier.retry(known, 1e6, "timeout", "slow", None)
            else:
                frontier.move(known, known.url + "?moved")

    return [
        lambda: whole(found, 0),
        *(partial(whole, stored, number) for number in range(20)),
        *(partial(whole, ended, number) for number in range(9)),
        lambda: frontier.heal({0: 1850}),
        lambda: whole(found, 60),
        *(partial(whole, stored, number) for number in range(20, 30)),
    ]


def content(directory: Path) -> list[Any]:
    """Everything that a crawl can read, from the tables and from each index."""
    frontier = open_checked(directory)
    try:
        rows = list(frontier.log())
        claims = frontier._db.execute("SELECT * FROM claims").fetchall()
        keys = frontier._db.execute("SELECT key, id FROM urls ORDER BY key").fetchall()
        taken = []
        while known := frontier.take():
            taken.append(known)
        return [rows, claims, keys, taken, sorted(frontier._retries), frontier._counts]
    finally:
        frontier.close()


@pytest.mark.parametrize("in_journal", [False, True])
def test_no_flip_changes_what_a_crawl_reads(in_journal: bool, tmp_path: Path) -> None:
    """A flip in the journal may lose the last transactions, as a kill does, but not change others."""
    whole, states = tmp_path / "whole", []
    whole.mkdir()
    frontier = Frontier(whole)
    shutil.copytree(whole, tmp_path / "begun")
    states.append(content(tmp_path / "begun"))
    for number, step in enumerate(steps(frontier)):
        step()
        if number == 15 and in_journal:  # the rest stays in the journal, behind frames that are in the file already
            frontier.checkpoint()
        shutil.copytree(whole, tmp_path / f"state-{number}")
        states.append(content(tmp_path / f"state-{number}"))
    if in_journal:
        shutil.copytree(whole, tmp_path / "kept")
    frontier.close()
    kept = tmp_path / "kept" if in_journal else whole
    found, lot = 0, random.Random(16)  # noqa: S311
    path = kept / (f"{FILE}-wal" if in_journal else FILE)
    for number in range(FLIPS):
        damaged = tmp_path / f"flip-{number}"
        shutil.copytree(kept, damaged)
        flipped = bytearray(path.read_bytes())
        flipped[lot.randrange(len(flipped))] ^= 1 << lot.randrange(8)
        (damaged / path.name).write_bytes(flipped)
        try:
            assert content(damaged) in (states if in_journal else states[-1:]), f"flip {number} went unseen"
        except FrontierDamaged:
            found += 1
        shutil.rmtree(damaged)
    assert found > FLIPS // 10 or in_journal, "most bytes are in use"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE urls SET state = 'failed' WHERE id = 5",
        "UPDATE urls SET url = url || 'x' WHERE id = 3",
        "DELETE FROM urls WHERE id = 7",
        "DELETE FROM claims",
        "UPDATE sums SET total = total + 1",
        "CREATE TABLE other (a)",
    ],
)
def test_rows_that_nobody_wrote_are_found(change: str, tmp_path: Path) -> None:
    frontier = Frontier(tmp_path)
    for step in steps(frontier):
        step()
    frontier.close()
    open_checked(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute(change)
    database.close()
    with pytest.raises(FrontierDamaged, match=FILE):
        open_checked(tmp_path)


def test_a_full_or_locked_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Frontier(tmp_path).close()
    monkeypatch.setattr("korealbert.corpus.crawl.frontier.sqlite3.connect", partial(sqlite3.connect, timeout=0.1))
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            open_checked(tmp_path)
    database.close()


def lose_a_row(store: Path) -> None:
    """Remove a page from the frontier, so that the rest is still consistent."""
    path = next(store.glob("*.partial")) / FILE
    with sqlite3.connect(path) as database:
        assert database.execute("DELETE FROM urls WHERE url LIKE '%/news/7'").rowcount == 1
    database.close()


@pytest.mark.parametrize("moment", ["between two tries", "before the seal"])
def test_a_damaged_frontier_is_named_and_the_crawl_begins_anew(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with running({}) as site:
        if moment == "between two tries":
            source = broken_off(tmp_path, site)
            lose_a_row(tmp_path / "store")
        else:
            site.publish(*map(news, range(12)))
            source = source_file(tmp_path, site, retries=0)
            really = stage._crawl

            def lose_after(*arguments: Any) -> None:
                really(*arguments)
                lose_a_row(tmp_path / "store")

            with monkeypatch.context() as patch, pytest.raises(CrawlInterrupted, match="another check sum; run it again"):
                patch.setattr(stage, "_crawl", lose_after)
                crawl(tmp_path, source, failed_share_applies_from=1)
        crawled = crawl(tmp_path, source, failed_share_applies_from=1)
    assert sorted(url.rpartition("/")[2] for url, _ in crawled.pages) == sorted(map(str, range(12)))
    assert crawled.artifact.stats["documents_out"] == 12
    assert "another check sum; the crawl begins anew" in caplog.text
