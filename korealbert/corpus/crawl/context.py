"""What the parts of one crawl share. Scrapy builds its components itself and hands them nothing but settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from korealbert.corpus.crawl.frontier import Frontier
from korealbert.corpus.crawl.source import Source
from korealbert.corpus.crawl.spec import CrawlSpec
from korealbert.corpus.crawl.warc_files import WarcFiles

SETTING = "SNAPSHOT"
"""The setting that holds it."""


@dataclass
class Snapshot:
    """One crawl in the making."""

    spec: CrawlSpec
    source: Source
    frontier: Frontier
    files: WarcFiles
    private: dict[str, str] = field(default_factory=dict)
    """Host → the private address that it was found to have."""
    complete: bool = False
    """Whether nothing waits any more."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Snapshot:
        return self  # Scrapy copies its settings deeply
