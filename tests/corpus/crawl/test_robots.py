"""robots.txt is obeyed from the first request on, whatever it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.corpus.crawl.stage import CrawlError
from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import Answer, Page, article, redirect, running, sitemap, text

SECTIONS = [f"s{number}" for number in range(40)]


def archive(root: str) -> str:
    names = ", ".join(f'{name} = "{name}"' for name in [*SECTIONS, "open"])
    return f'[[listing]]\nkind = "archive"\nurl = "{root}/list/{{section}}"\nsections = {{ {names} }}\n'


def test_forty_forbidden_start_requests_at_once_are_not_made(tmp_path: Path) -> None:
    forbidden = "".join(f"Disallow: /list/{name}$\n" for name in SECTIONS)
    with running({}) as site:
        site.pages |= {f"/list/{name}": text(f"<a href='/news/{name}'>기사</a>") for name in [*SECTIONS, "open"]}
        site.pages["/robots.txt"] = text(f"User-agent: KoreALBERT\n{forbidden}Crawl-delay: 0.05\n", delay_seconds=0.5)
        site.pages["/news/open"] = Answer(article("기사", "<p>본문</p>"))
        crawled = crawl(tmp_path, source_file(tmp_path, site, archive(site.root), concurrency=40))
    assert not [path for path in site.hits if path.startswith("/list/s")]
    assert site.hits["/robots.txt"] == 1
    assert crawled.artifact.stats["urls"]["archive"] == {"listed": 1, "refused: robots": 40}
    assert len(crawled.pages) == 1


@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        (text("", 404), 1),
        (text("", 403), 1),
        (redirect("/rules"), 0),
        (text("", 503), None),
        (text("User-agent: *\nDisallow: /news\nAllow: /news/1\n"), 1),
    ],
    ids=["missing", "forbidden", "redirected", "broken", "allowed by a longer rule"],
)
def test_by_rfc_9309(answer: Page, stored: int | None, tmp_path: Path) -> None:
    with running({"/robots.txt": answer, "/rules": text("User-agent: *\nDisallow: /news/1\n")}) as site:
        site.pages |= {"/sitemap.xml": sitemap(f"{site.root}/news/1"), "/news/1": Answer(article("기사", "<p>본문</p>"))}
        source = source_file(tmp_path, site)
        if stored is None:
            with pytest.raises(CrawlError, match="no listing could be read"):
                crawl(tmp_path, source)
            assert set(site.hits) == {"/robots.txt"}
        else:
            crawled = crawl(tmp_path, source)
            assert len(crawled.pages) == stored
            assert site.hits["/news/1"] == stored
