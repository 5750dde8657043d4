"""A site of more than 2,000 pages with everything that goes wrong in the wild, crawled once."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest

from tests.corpus.crawl.crawling import Crawled, crawl, source_file
from tests.corpus.crawl.site import Answer, Asked, Page, Site, article, redirect, running, sitemap, text

GOOD = 2000
HOSTILE = {
    "/news/slow": "stored",
    "/news/500-once": "stored",
    "/news/500-always": "failed: server_error",
    "/news/429-once": "stored",
    "/news/cut-once": "stored",
    "/news/cut-always": "failed: truncated",
    "/news/gzip": "stored",
    "/news/gzip-cut": "failed: truncated",
    "/news/gzip-broken": "failed: corrupt",
    "/news/brotli": "failed: unknown_encoding",
    "/news/bomb": "failed: too_large",
    "/news/large": "failed: too_large",
    "/news/missing": "failed: status_404",
    "/news/empty": "failed: empty",
    "/news/picture": "refused: not_html",
    "/news/untyped": "stored",
    "/news/euc-kr-as-utf-8": "stored",
    "/news/utf-8-as-euc-kr": "stored",
    "/news/moved": "redirected",
    "/news/moved-here": "stored",
    "/news/chain-1": "redirected",
    "/news/chain-2": "redirected",
    "/news/chain-end": "stored",
    "/news/self": "failed: redirect_loop",
    "/news/loop-a": "redirected",
    "/news/loop-b": "failed: redirect_loop",
    "/news/endless-0": "redirected",
    "/news/endless-3": "failed: too_many_redirects",
    "/news/offsite": "refused: offsite_redirect",
    "/news/inward": "redirected",
    "/news/inward-by-name": "redirected",
    "/news/to-mail": "failed: bad_redirect",
    "/news/withdrawn": "redirected",
    "/": "refused: no_article",
    "/news/secret/1": "refused: robots",
    "/news/secret/2": "refused: robots",
    "/news/mobile?id=7": "duplicate: same_page",
    "/news/copy-of-8": "duplicate: same_page",
    "/tag/politics": "refused: no_article",
}
"""Path → what the log must say of it."""

FOUND_BY_REDIRECT = ("/news/moved-here", "/news/chain-2", "/news/chain-end", "/news/loop-b", "/news/endless-3", "/")
LATE = ("/news/mobile?id=7", "/news/copy-of-8")


def paragraphs(name: object) -> str:
    return "".join(f"<p>{name}번 기사의 {line}번째 문단이다. 시의회는 이날 예산안을 의결했다.</p>" for line in range(8))


def good(name: object, head: str = "") -> Answer:
    return Answer(article(f"기사 {name}", paragraphs(name), head=head))


def hostile_pages(root: str) -> dict[str, Page]:
    body = article("압축 기사", paragraphs("압축"))

    def first(answer: Answer) -> Page:
        return lambda asked: answer if asked.times == 1 else good(asked.path)

    def endless(asked: Asked) -> Answer:
        return redirect(f"/news/endless-{int(asked.path.rpartition('-')[2]) + 1}")

    def packed(data: bytes, kind: str = "gzip") -> Answer:
        return Answer(data, headers=(("Content-Encoding", kind),))

    port = root.rpartition(":")[2]
    return {
        "/news/slow": Answer(article("느린 기사", paragraphs("느린")), delay_seconds=0.7),
        "/news/500-once": first(text("고장", 500)),
        "/news/500-always": text("고장", 500),
        "/news/429-once": first(Answer(b"", 429, headers=(("Retry-After", "1"),))),
        "/news/cut-once": first(Answer(body, sent_bytes=120)),
        "/news/cut-always": Answer(body, sent_bytes=120),
        "/news/gzip": packed(gzip.compress(body)),
        "/news/gzip-cut": packed(gzip.compress(body * 3)[:-200]),
        "/news/gzip-broken": packed(gzip.compress(body)[:12] + b"\xff" * 40),
        "/news/brotli": packed(body, "br"),
        "/news/bomb": packed(gzip.compress(bytes(128 << 20), 1)),
        "/news/large": Answer(b"<html>" + b"a" * (3 << 20)),
        "/news/empty": Answer(b"  \n"),
        "/news/picture": Answer(b"\x89PNG\r\n\x1a\n" + b"0" * 200, content_type="image/png"),
        "/news/untyped": Answer(article("형식 없는 기사", paragraphs("무형식")), content_type=""),
        "/news/euc-kr-as-utf-8": Answer(article("한글 기사", paragraphs("완성형"), charset="cp949", declared="utf-8")),
        "/news/utf-8-as-euc-kr": Answer(article("한글 기사", paragraphs("유니코드")), content_type="text/html; charset=euc-kr"),
        "/news/moved": redirect("/news/moved-here", 301),
        "/news/moved-here": good("옮긴"),
        "/news/chain-1": redirect("/news/chain-2"),
        "/news/chain-2": redirect("/news/chain-end", 307),
        "/news/chain-end": good("사슬"),
        "/news/self": redirect("/news/self"),
        "/news/loop-a": redirect("/news/loop-b"),
        "/news/loop-b": redirect("/news/loop-a"),
        **{f"/news/endless-{hop}": endless for hop in range(5)},
        "/news/offsite": redirect("http://elsewhere.example/news/1"),
        "/news/inward": redirect("http://127.0.0.3/news/literal"),
        "/news/inward-by-name": redirect(f"http://localhost:{port}/news/named"),
        "/news/to-mail": redirect("mailto:desk@example.org"),
        "/news/withdrawn": redirect("/"),
        "/news/secret/1": good("비밀 1"),
        "/news/secret/2": good("비밀 2"),
        "/news/7": good(7, head=f'<link rel="canonical" href="{root}/news/7">'),
        "/news/mobile?id=7": good("7의 모바일", head=f"<link href='{root}/news/7' rel='canonical'>"),
        "/news/copy-of-8": good(8),
        "/robots.txt": text("User-agent: *\nDisallow: /news/secret/\n", content_type="text/plain", delay_seconds=0.2),
    }


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawled, Site]:
    directory = tmp_path_factory.mktemp("crawl")
    with running({}) as site:
        site.pages |= {f"/news/{number}": good(number) for number in range(GOOD)}
        site.pages |= hostile_pages(site.root)
        early = [path for path in HOSTILE if path not in FOUND_BY_REDIRECT + LATE]
        spellings = ["/news/3?utm_source=mail", "/news/4#part", "/news/../news/5", "/news/%36", "//news/9"]
        paths = [*early, *(f"/news/{number}" for number in range(GOOD)), *spellings, *LATE]
        site.pages["/sitemap.xml"] = sitemap(*(site.root + path for path in paths))
        source = source_file(
            directory,
            site,
            hosts=["127.0.0.1", "127.0.0.3", "localhost"],
            private_hosts=["127.0.0.1"],
            article=r"http://[a-z0-9.]+(:\d+)?/news/.+",
            max_page_bytes=2 << 20,
            retries=2,
            max_redirects=3,
        )
        return crawl(directory, source), site


def test_every_good_page_is_stored_exactly_once(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    stored = Counter(url.removeprefix(site.root) for url, _ in snapshot.pages)
    expected = {f"/news/{number}" for number in range(GOOD)} | {
        path for path, outcome in HOSTILE.items() if outcome == "stored"
    }
    assert set(stored) == expected
    assert set(stored.values()) == {1}


def test_no_page_was_asked_for_twice_without_need(crawled: tuple[Crawled, Site]) -> None:
    _, site = crawled
    assert {path: site.hits[path] for path in site.completed if path.strip("/news").isdigit() and site.hits[path] > 1} == {}
    assert site.hits["/robots.txt"] == 1
    assert site.hits["/news/500-always"] == 3  # one try and two retries


def test_stored_bodies_are_those_of_the_site(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    bodies = {url.removeprefix(site.root): body for url, body in snapshot.pages}
    assert bodies["/news/12"] == good(12).body
    assert gzip.decompress(bodies["/news/gzip"]) == article("압축 기사", paragraphs("압축"))  # as it came off the wire


@pytest.mark.parametrize("path", HOSTILE)
def test_the_log_says_what_became_of_it(path: str, crawled: tuple[Crawled, Site]) -> None:
    assert crawled[0].outcome(path) == HOSTILE[path]


def test_disallowed_paths_were_not_asked_for(crawled: tuple[Crawled, Site]) -> None:
    assert not [path for path in crawled[1].hits if path.startswith("/news/secret")]


def test_nothing_was_asked_of_private_addresses(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    assert set(site.hosts) == {f"127.0.0.1:{site.port}"}
    refused = {row["url"]: row["detail"] for row in snapshot.log if row.get("reason") == "private_address"}
    assert refused == {"http://127.0.0.3/news/literal": "127.0.0.3", f"http://localhost:{site.port}/news/named": "127.0.0.1"}


def test_the_log_accounts_for_every_url(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    assert {row["state"] for row in snapshot.log} <= {"stored", "listed", "duplicate", "redirected", "refused", "failed"}
    asked = {row["url"].removeprefix(site.root) for row in snapshot.log}
    assert set(site.hits) <= asked
    assert len(snapshot.log) == sum(sum(kinds.values()) for kinds in snapshot.artifact.stats["urls"].values())
    articles = sum(row["kind"] == "article" for row in snapshot.log)
    assert snapshot.artifact.stats["documents_in"] == articles
    assert snapshot.artifact.stats["documents_out"] == len(snapshot.pages)


def test_the_log_tells_where_a_page_lies(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    row = next(row for row in snapshot.log if row["url"] == f"{site.root}/news/77")
    data = (snapshot.artifact.path / f"pages-{row['file']:05d}.warc.gz").read_bytes()
    record = gzip.decompress(data[row["offset"] : row["offset"] + row["length"]])
    assert record.startswith(b"WARC/1.1") and good(77).body in record


def test_only_what_extraction_needs_is_left(crawled: tuple[Crawled, Site]) -> None:
    names = sorted(path.name for path in crawled[0].artifact.path.iterdir())
    assert names == ["log.jsonl.gz", "manifest.json", "pages-00000.warc.gz", "snapshot.json"]
