"""A crawl of the hostile test site that is killed again and again at random moments ends like an undisturbed one.

python -m bench.soak_crawl [--kills 20] [--seed 1]. Each SIGKILL hits the building process or its crawling child after a random
number of answers. No stored page may be lost, and after the last kill none may be requested again. At the end every good page
is stored once with its own bytes, and the log has the outcome of an undisturbed crawl for every hostile page. Exits with 1
otherwise.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.common import child_of, options
from tests.corpus.crawl import hostile
from tests.corpus.crawl.crawling import Crawled, crawl
from tests.corpus.crawl.hostile import HOSTILE
from tests.corpus.crawl.site import Answer, Site, running


def stored(store: Path) -> set[str]:
    """Return the addresses that are stored according to the frontier of the unfinished crawl."""
    found = list(store.glob("crawl-*.partial/.frontier.sqlite"))
    if not found:
        return set()
    with sqlite3.connect(f"file:{found[0]}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT url FROM urls WHERE state = 'stored'").fetchall()
    database.close()
    return {url for (url,) in rows}


def kill_once(site: Site, source: Path, store: Path, chance: random.Random) -> bool:
    """Crawl until the site has given a random number of answers, and kill; returns False if the crawl had ended before."""
    command = [sys.executable, "-m", "tests.corpus.crawl.crawling", str(source), str(store)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    aim = sum(site.hits.values()) + chance.randrange(1, 250)
    while sum(site.hits.values()) < aim and process.poll() is None:
        time.sleep(0.001)
    worker = child_of(process.pid) if process.poll() is None and chance.random() < 0.5 else None
    if process.poll() is None:
        os.kill(worker or process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.3)  # The kernel kills the child with its parent.
    return process.returncode != 0


def faults_of(crawled: Crawled, site: Site) -> Iterator[str]:
    """Yield what is wrong with a finished crawl."""
    bodies = [(url.removeprefix(site.root), body) for url, body in crawled.pages]
    times = Counter(path for path, _ in bodies)
    yield from (f"stored {times[path]} times: {path}" for path in hostile.stored_paths() | set(times) if times[path] != 1)
    for path, body in bodies:
        page = site.pages[path]
        if isinstance(page, Answer) and page.verbatim is None and body != page.body:
            yield f"other bytes: {path}"
    for path, expected in HOSTILE.items():
        if (found := crawled.outcome(path)) != expected:
            yield f"{path}: {found}, not {expected}"


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)  # noqa: S311
    faults: list[str] = []
    kills = 0
    with tempfile.TemporaryDirectory() as scratch, running({}) as site:
        directory = Path(scratch)
        hostile.GOOD = 2_000  # Enough for many kills.
        hostile.fill(site)
        source = hostile.source_of(site, directory)
        before: set[str] = set()
        while kills < arguments.kills and kill_once(site, source, directory / "store", chance):
            kills += 1
            now = stored(directory / "store")
            faults += [f"lost: {url}" for url in before - now]
            before = now
        hits = Counter(site.hits)
        crawled = crawl(directory, source)
        faults += [f"asked for again: {url}" for url in before if site.hits[path := url.removeprefix(site.root)] > hits[path]]
        faults += faults_of(crawled, site)
    print(
        f"{kills} kills, {len(before):,} pages stored before the last, {len(crawled.pages):,} in the end, {len(faults)} faults"
    )
    print("\n".join(faults[:20]), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
