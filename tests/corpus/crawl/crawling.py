"""Builds the crawl stage for a site on loopback, and reads its log and pages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from fastwarc import ArchiveIterator, WarcRecordType

from korealbert.artifact import Artifact, Runtime, build
from korealbert.corpus.crawl.stage import STAGE, CrawlInterrupted, CrawlSpec, read_log
from tests.corpus.crawl.site import Site, news, text


def source_file(directory: Path, site: Site, listing: str = "", **fields: Any) -> Path:
    """Write a source file for a site on loopback, in which all paths below ``/news/`` are articles."""
    values: dict[str, Any] = {
        "outlet": "시험일보",
        "tested": True,
        "hosts": ["127.0.0.1"],
        "private_hosts": ["127.0.0.1"],
        "article": rf"http://127\.0\.0\.1:{site.port}/news/.+",
        "delay_seconds": 0.0,
        "concurrency": 8,
        "backoff_seconds": 0.05,
        "timeout_seconds": 5.0,
        **fields,
    }
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    listing = listing or f'[[listing]]\nkind = "sitemap"\nurl = "{site.root}/sitemap.xml"\n'
    path = directory / "source.toml"
    path.write_text("\n".join([*lines, "", listing]), "utf-8")
    return path


@dataclass(frozen=True)
class Crawled:
    artifact: Artifact

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        return list(read_log(self.artifact.path))

    def outcome(self, path: str) -> str:
        """Return ``state: reason`` of the URL with this path and query."""
        wanted = ("/", path.lstrip("/"))
        row = next(row for row in self.log if row["url"].partition("://")[2].partition("/")[1:] == wanted)
        return f"{row['state']}: {row['reason']}" if "reason" in row else str(row["state"])

    @cached_property
    def pages(self) -> list[tuple[str, bytes]]:
        """Address and body of each stored page, in the order of the files."""
        return [page for path in self.artifact.files("pages-*.warc.gz") for page in pages_of(path)]


def pages_of(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
            yield record.headers["WARC-Target-URI"], record.reader.read()


def crawl(directory: Path, source: Path, **fields: Any) -> Crawled:
    spec = CrawlSpec.model_validate({"source": str(source), **fields})
    return Crawled(build(STAGE, spec, {}, Runtime(store=directory / "store", workers=1)).artifact)


def broken_off(directory: Path, site: Site) -> Path:
    """Run a crawl of twelve pages that fails because of the first one; afterwards the site has it."""
    source = source_file(directory, site, retries=0)
    site.publish(text("고장", 500), *map(news, range(1, 12)))
    with pytest.raises(CrawlInterrupted, match="1 of 12 articles"):
        crawl(directory, source, failed_share_applies_from=1)
    site.pages["/news/0"] = news(0)
    return source


def main(source: str, store: str) -> None:
    """Build the stage in the process that the kill test kills."""
    crawl(Path(store).parent, Path(source))


if __name__ == "__main__":
    main(*sys.argv[1:])
