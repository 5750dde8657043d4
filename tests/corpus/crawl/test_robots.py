"""robots.txt is obeyed from the first request on."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import Answer, Asked, Page, article, news, redirect, running, sitemap, text

SECTIONS = [f"s{number}" for number in range(40)]


def archive(root: str) -> str:
    names = ", ".join(f'{name} = "{name}"' for name in [*SECTIONS, "open"])
    return f'[[listing]]\nkind = "archive"\nurl = "{root}/list/{{section}}"\nsections = {{ {names} }}\n'


def test_forty_forbidden_start_requests_at_once_are_not_made(tmp_path: Path) -> None:
    forbidden = "".join(f"Disallow: /list/{name}$\n" for name in SECTIONS)
    with running({}) as site:
        site.pages |= {f"/list/{name}": text(f"<a href='/news/{name}'>기사</a>") for name in [*SECTIONS, "open"]}
        site.pages["/robots.txt"] = text(f"User-agent: KoreALBERT\n{forbidden}Crawl-delay: 0.05\n", delay_seconds=0.5)
        site.pages["/news/open"] = news(1)
        crawled = crawl(tmp_path, source_file(tmp_path, site, archive(site.root), concurrency=40))
    assert not [path for path in site.hits if path.startswith("/list/s")]
    assert site.hits["/robots.txt"] == 1
    assert crawled.artifact.stats["urls"]["archive"] == {"listed": 1, "refused: robots": 40}
    assert len(crawled.pages) == 1


RULES: dict[str, tuple[Page, int]] = {
    "missing": (text("", 404), 1),
    "forbidden": (text("", 403), 1),
    "redirected": (redirect("/rules"), 0),
    "broken": (text("", 503), 0),
    "allowed by a longer rule": (text("User-agent: *\nDisallow: /news\nAllow: /news/1\n"), 1),
    "of another crawler": (text("User-agent: Gobbler\nDisallow: /\n"), 1),
    "in EUC-KR with a mark": (Answer("\ufeff# 규칙\r\nUser-Agent: *\r\nDisallow: /news\r\n".encode()), 0),
    "endless": (text("User-agent: *\nDisallow: /news\n" + "# \n" * (300 << 10)), 0),
    "endless, its lines end in CR": (text("User-agent: *\rDisallow: /news\r" + "# \r" * (300 << 10)), 0),
}
"""The answer for robots.txt, and how many pages (0 or 1) may be stored."""


def test_by_rfc_9309(tmp_path: Path) -> None:
    with ExitStack() as stack:
        sites = {name: stack.enter_context(running({"/robots.txt": answer})) for name, (answer, _) in RULES.items()}
        for name, site in sites.items():
            site.pages["/rules"] = text("User-agent: *\nDisallow: /news/1\n")
            site.pages["/sitemap.xml"] = sitemap(f"{site.root}/news/1")
            site.pages["/news/1"] = Answer(article(name, f"<p>{name}</p>"))
        listing = "".join(f'[[listing]]\nkind = "sitemap"\nurl = "{site.root}/sitemap.xml"\n' for site in sites.values())
        any_port = r"http://127\.0\.0\.1:\d+/news/.+"
        crawled = crawl(tmp_path, source_file(tmp_path, next(iter(sites.values())), listing, article=any_port, retries=0))
    assert {name: site.hits["/news/1"] for name, site in sites.items()} == {name: count for name, (_, count) in RULES.items()}
    assert len(crawled.pages) == sum(count for _, count in RULES.values())
    assert set(sites["broken"].hits) == {"/robots.txt"}
    assert crawled.artifact.stats["urls"]["robots"] == {"failed: robots_unreachable": 1, "listed": 8}


def test_a_listing_that_moves_is_followed_only_where_host_and_rules_allow(tmp_path: Path) -> None:
    with running({}) as here, running({}) as there:
        here.pages |= {
            "/list/outside": redirect(f"http://elsewhere.example:{there.port}/list"),
            "/list/forbidden": redirect(f"{there.root}/private/list"),
            "/list/moved": redirect(f"{there.root}/list"),
        }
        there.pages |= {
            "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
            "/list": text(f"<a href='{here.root}/news/1'>기사</a>"),
        }
        here.pages["/news/1"] = news(1)
        listing = (
            f'[[listing]]\nkind = "archive"\nurl = "{here.root}/list/{{section}}"\n'
            'sections = { outside = "1", forbidden = "2", moved = "3" }\n'
        )
        crawled = crawl(tmp_path, source_file(tmp_path, here, listing))
    assert crawled.artifact.stats["urls"]["archive"] == {
        "listed": 1,
        "refused: offsite_redirect": 1,
        "refused: robots": 1,
    }
    assert set(there.hits) == {"/robots.txt", "/list"}
    assert len(crawled.pages) == 1


def test_delay_and_concurrency_are_kept_for_each_host(tmp_path: Path) -> None:
    """A busy machine may be slower than these bounds, and never faster."""
    rules: list[float] = []
    begun: list[float] = []
    open_now: list[int] = []

    def robots(_: Asked) -> Answer:
        rules.append(time.monotonic())
        return text("User-agent: *\nCrawl-delay: 0.2\n")

    def slow(asked: Asked) -> Answer:
        begun.append(time.monotonic())
        open_now.append(sum(begun[-1] - start < 0.5 for start in begun))
        return Answer(article(asked.path, f"<p>{asked.path}</p>"), delay_seconds=0.5)

    with running({"/robots.txt": robots}) as site:
        site.publish(*[slow] * 5)
        crawled = crawl(tmp_path, source_file(tmp_path, site, concurrency=2, delay_seconds=0.01))
    assert len(crawled.pages) == 5
    assert max(begun) - rules[0] >= 4 * 0.2
    assert max(open_now) <= 2
