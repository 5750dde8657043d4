from __future__ import annotations
from pathlib import Path
from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import *


def test_x(tmp_path: Path) -> None:
    with running({}) as site:
        site.pages["/sitemap.xml"] = sitemap(*(f"{site.root}/news/{n}" for n in range(2000)))
        site.pages |= {f"/news/{n}": Answer(article(f"기사 {n}", f"<p>본문 {n}입니다.</p>" * 50)) for n in range(2000)}
        import time

        s = time.time()
        c = crawl(tmp_path, source_file(tmp_path, site))
        print(time.time() - s)
        print(c.artifact.stats)
        assert len(c.pages) == 2000
        print(c.log[:3])
