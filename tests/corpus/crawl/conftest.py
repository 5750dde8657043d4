"""Crawls run in the process of the tests, because a process for each takes longer than most crawls."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.artifact import Runtime
from korealbert.corpus.crawl import spider, stage
from korealbert.corpus.crawl.stage import CrawlSpec


@pytest.fixture(autouse=True)
def crawl_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def crawl(spec: CrawlSpec, out_dir: Path, runtime: Runtime) -> None:
        spider.crawl(spec, out_dir)

    monkeypatch.setattr(stage, "_crawl", crawl)
