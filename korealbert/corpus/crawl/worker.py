"""The process that crawls: ``python -m korealbert.corpus.crawl.worker SPEC DIRECTORY PARENT``.

A process of its own, so that hostile pages meet neither the flow's memory nor its other stages, and a flow that is ended ends
the crawl at once, whatever its threads wait for.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path

from korealbert.artifact.shards import die_with_parent
from korealbert.corpus.crawl.frontier import Frontier
from korealbert.corpus.crawl.source import load_source
from korealbert.corpus.crawl.spec import CrawlSpec
from korealbert.corpus.crawl.spider import Spider
from korealbert.corpus.crawl.stage import FRONTIER
from korealbert.corpus.crawl.warc_files import WarcFiles, warc_files, whole_bytes


def open_frontier(out_dir: Path) -> tuple[Frontier, dict[int, int]]:
    """The frontier of an output directory in step with its WARC files, and the bytes of each that count.

    What lies behind a record that is not as it was written is fetched again.
    """
    frontier = Frontier(out_dir / FRONTIER)
    sizes = {number: whole_bytes(path) for number, path in warc_files(out_dir).items()}
    return frontier, frontier.heal(sizes)


def main(spec_json: str, out_dir: str, parent: str) -> int:
    """Crawl until nothing waits. Returns 1 when it was stopped before."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what is stored is stored at any moment
    if os.getppid() != int(parent):
        return 1  # it died before it could be watched
    spec = CrawlSpec.model_validate_json(spec_json)
    source = load_source(spec.source.path)
    frontier, ends = open_frontier(Path(out_dir))
    about = {"software": "korealbert", "format": "WARC File Format 1.1", "robots": "obey" if source.robots else "ignore"}
    files = WarcFiles(Path(out_dir), ends, spec.max_file_bytes, about)
    frontier.try_failed_again()
    try:
        Spider(spec, source, frontier, files).run()
    except (OSError, sqlite3.Error) as error:
        print(f"ERROR: {error}; the crawl stops here", file=sys.stderr, flush=True)
        os._exit(1)  # requests on their way are not waited for
    files.close()
    frontier.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
