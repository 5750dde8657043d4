"""Without the extra [crawl] other stages work, and those that need it raise an error that names it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from korealbert.artifact import Runtime
from korealbert.corpus.crawl.stage import CrawlError
from korealbert.corpus.extract import STAGE, ExtractionError, ExtractSpec
from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import Site
from tests.corpus.extracting import extract

EXTRA = ("fastwarc", "lxml", "protego", "trafilatura", "warcio")


def test_the_stages_import_none_of_it() -> None:
    stages = "import sys, korealbert.corpus.extract, korealbert.corpus.crawl.fetch, korealbert.corpus.crawl.stage"
    command = [sys.executable, "-c", f"{stages}; print([name for name in {EXTRA} if name in sys.modules])"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "[]"


def test_what_needs_it_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in EXTRA else real(name, *rest))
    (tmp_path / "a.html").write_text("<p>본문</p>", "utf-8")
    with pytest.raises(ExtractionError, match=r"html needs lxml, trafilatura: .*korealbert\[crawl\]"):
        extract(tmp_path / "store", tmp_path / "a.html", format="html")
    spec = ExtractSpec.model_validate({"source": "a", "format": "html"})
    with pytest.raises(ExtractionError, match="html needs lxml"):
        STAGE.check(spec, Runtime())  # asked before any stage of a recipe is built
    with pytest.raises(CrawlError, match=r"needs protego, warcio: .*korealbert\[crawl\]"):
        crawl(tmp_path, source_file(tmp_path, Site(port=1)))
