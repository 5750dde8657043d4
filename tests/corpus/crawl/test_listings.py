"""The entries of sitemaps, feeds and archive pages, and which of them are crawled."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from korealbert.corpus.crawl.discovery import Entry, UnreadableListing, feed_entries, page_links, sitemap_entries
from korealbert.corpus.crawl.stage import CrawlError, CrawlInterrupted
from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import Answer, news, running, sitemap, text

SITEMAP = """<?xml version="1.0" encoding="EUC-KR"?><!-- 주석 -->
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">
<url><loc> http://a.example/1 </loc><lastmod>2015-03-01T09:00:00+09:00</lastmod></url>
<url><loc>http://a.example/2</loc><news:news><news:publication_date>2016-05-02</news:publication_date></news:news></url>
<url><lastmod>2015-03-01</lastmod></url></urlset>"""

FEED = """<rss version="2.0"><channel><title>새 소식</title><link>http://a.example/</link>
<item><title>하나</title><link>http://a.example/1</link><pubDate>Mon, 02 May 2016 10:00:00 +0900</pubDate>
<category>정치</category></item>
<item><title>둘</title><guid>http://a.example/2</guid></item></channel></rss>"""

ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><entry><link rel="self" href="http://a.example/self"/>
<link href="http://a.example/1"/><published>2016-05-02T10:00:00Z</published><category term="경제"/></entry></feed>"""


def test_sitemap() -> None:
    entries = list(sitemap_entries(SITEMAP.encode()))  # the declaration is wrong, the bytes are right
    assert entries == [Entry("http://a.example/1", modified="2015-03-01"), Entry("http://a.example/2", published="2016-05-02")]


def test_images_and_videos_of_a_sitemap_are_not_its_pages() -> None:
    listing = (
        '<urlset xmlns:image="i" xmlns:video="v"><url><image:image><image:loc>http://a.example/0.jpg</image:loc></image:image>'
        "<loc>http://a.example/1</loc><image:image><image:loc>http://a.example/1.jpg</image:loc></image:image>"
        "<video:video><video:publication_date>2020-01-01</video:publication_date></video:video></url></urlset>"
    )
    assert list(sitemap_entries(listing.encode())) == [Entry("http://a.example/1")]


def test_a_prefix_that_is_not_declared_costs_nothing() -> None:
    dated = "<news:news><news:publication_date>2016-05-02</news:publication_date></news:news>"
    listing = f"<urlset><url><loc>http://a.example/1</loc>{dated}</url></urlset>"
    assert list(sitemap_entries(listing.encode())) == [Entry("http://a.example/1", published="2016-05-02")]
    feed = (
        "<rss><item><media:link>http://a.example/1.mp4</media:link><link>http://a.example/1</link>"
        "<dc:date>2016-05-02</dc:date></item></rss>"
    )
    assert list(feed_entries(feed.encode())) == [Entry("http://a.example/1", published="2016-05-02")]


def test_ampersands_that_a_site_forgot_to_escape_stay_in_its_addresses() -> None:
    addresses = [
        "http://a.example/v?id=1&code=2&copy=3",
        "http://a.example/v?id=1&amp;code=2",
        "<![CDATA[http://a.example/v?a&b]]>",
    ]
    wanted = ["http://a.example/v?id=1&code=2&copy=3", "http://a.example/v?id=1&code=2", "http://a.example/v?a&b"]
    feed = "".join(f"<item><title>가 & 나</title><link>{address}</link></item>" for address in addresses)
    assert [entry.url for entry in feed_entries(f"<rss><channel>{feed}</channel></rss>".encode())] == wanted
    urls = "".join(f"<url><loc>{address}</loc></url>" for address in addresses)
    assert [entry.url for entry in sitemap_entries(f"<urlset>{urls}</urlset>".encode())] == wanted


def test_a_sitemap_in_utf_16() -> None:
    assert list(sitemap_entries("<urlset><url><loc>http://a.example/1</loc></url></urlset>".encode("utf-16"))) == [
        Entry("http://a.example/1")
    ]


def test_sitemap_index_and_plain_list() -> None:
    index = b"<sitemapindex><sitemap><loc>http://a.example/s.xml</loc></sitemap></sitemapindex>"
    assert list(sitemap_entries(index)) == [Entry("http://a.example/s.xml", index=True)]
    assert [entry.url for entry in sitemap_entries(b"http://a.example/1\nhttp://a.example/2\n")] == [
        "http://a.example/1",
        "http://a.example/2",
    ]
    assert list(sitemap_entries(b"<urlset></urlset>")) == []


def test_a_damaged_sitemap_gives_what_stands_before_the_damage() -> None:
    assert [entry.url for entry in sitemap_entries(SITEMAP.encode()[:-60])] == ["http://a.example/1", "http://a.example/2"]


def test_feeds() -> None:
    assert list(feed_entries(FEED.encode())) == [
        Entry("http://a.example/1", published="2016-05-02", section="정치"),
        Entry("http://a.example/2"),
    ]
    assert list(feed_entries(ATOM.encode())) == [Entry("http://a.example/1", published="2016-05-02", section="경제")]


def test_entities_are_not_expanded() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>http://a.example/&b;</loc></url></urlset>'
    assert all("aaaa" not in entry.url for entry in sitemap_entries(bomb))


@pytest.mark.parametrize("data", [b"<html><body>404</body></html>", b"not a listing", b"", b"<", b"\xff\xfe\x00"])
def test_what_is_no_listing_says_so(data: bytes) -> None:
    for read in (sitemap_entries, feed_entries):
        if data or read is feed_entries:
            with pytest.raises(UnreadableListing):
                list(read(data))


def test_links_of_a_page_in_euc_kr() -> None:
    page = '<meta charset="euc-kr"><base href="http://a.example/b/"><a href="c?제목=가">기사</a><a href="/d">둘</a>'.encode(
        "cp949"
    )
    assert page_links(page, "", "http://a.example/") == ["http://a.example/b/c?제목=가", "http://a.example/d"]


def test_archives_feeds_and_nested_sitemaps_in_one_crawl(tmp_path: Path) -> None:
    def listed(*paths: str) -> Answer:
        return text("".join(f"<a href='{path}'>기사</a>" for path in ("/about", *paths)))

    with running({}) as site:
        root = site.root
        paths = ["2015/politics/1", "2015/politics/2", "2015/life/3", "2015/politics/4", "2015/x/5"]
        paths = [f"/news/{path}" for path in paths]
        site.pages |= {path: news(number) for number, path in enumerate(paths)}
        site.pages |= {
            "/list?d=20150130&s=pol&p=1": listed(paths[0], "/news/2006/politics/9"),
            "/list?d=20150130&s=pol&p=2": listed(paths[1]),
            "/list?d=20150130&s=pol&p=3": listed(paths[1]),
            "/list?d=20150131&s=pol&p=1": listed(),
            "/feed": text(f"<rss><channel><item><link>{root}{paths[2]}</link></item></channel></rss>"),
            "/index.xml": text(
                f"<sitemapindex><sitemap><loc>{root}/2015.xml.gz</loc></sitemap><sitemap><loc>{root}/videos.xml</loc></sitemap>"
                f"<sitemap><loc>{root}/2005.xml</loc><lastmod>2006-01-01</lastmod></sitemap></sitemapindex>"
            ),
            "/2015.xml.gz": Answer(
                gzip.compress(sitemap(f"{root}{paths[3]}", f"{root}{paths[4]}").body), content_type="application/gzip"
            ),
        }
        listings = f"""
            [[listing]]
            kind = "archive"
            url = "{root}/list?d={{day:%Y%m%d}}&s={{section}}&p={{page}}"
            sections = {{ pol = "정치" }}
            [[listing]]
            kind = "rss"
            url = "{root}/feed"
            [[listing]]
            kind = "sitemap"
            url = "{root}/index.xml"
            follow = "/\\\\d+\\\\.xml"
            [sections]
            life = "생활"
            """
        source = source_file(
            tmp_path, site, listings, article=rf"{root}/news/(?P<year>\d{{4}})/(?P<section>\w+)/\d+", concurrency=1
        )
        crawled = crawl(tmp_path, source, first_day="2015-01-30", last_day="2015-01-31")
    assert {url.removeprefix(root) for url, _ in crawled.pages} == set(paths)
    sections = {row["url"].removeprefix(root): row.get("section") for row in crawled.log if row["kind"] == "article"}
    assert [sections[path] for path in paths] == ["정치", "정치", "생활", "politics", "x"]
    assert crawled.outcome("/news/2006/politics/9") == "refused: outside_window"
    assert crawled.outcome("/2005.xml") == "refused: outside_window"
    assert site.hits["/videos.xml"] == 0
    assert site.hits["/list?d=20150130&s=pol&p=4"] == 0  # page 3 lists nothing new


def test_limits(tmp_path: Path) -> None:
    with running({}) as site:
        site.publish(*map(news, range(9)))
        crawled = crawl(tmp_path, source_file(tmp_path, site), max_pages=4, contact="desk@example.org")
    assert len(crawled.pages) == 4
    assert crawled.artifact.stats["dropped"] == {"max_pages": 5}
    assert site.agents == {"korealbert/0.1 (desk@example.org)"}


def test_a_first_look_does_not_read_every_day_of_the_window_first(tmp_path: Path) -> None:
    with running({}) as site:
        site.publish(*map(news, range(9)))
        site.pages["/list/20150101"] = text("".join(f"<a href='/news/{number}'>기사</a>" for number in range(9)))
        listing = f'[[listing]]\nkind = "archive"\nurl = "{site.root}/list/{{day:%Y%m%d}}"\n'
        source = source_file(tmp_path, site, listing, concurrency=1)  # one at a time, however slow an answer is
        crawled = crawl(tmp_path, source, first_day="2015-01-01", last_day="2015-12-31", max_pages=4)
    assert len(crawled.pages) == 4
    assert [path for path in site.hits if path.startswith("/list/")] == ["/list/20150101"]


def test_listings_that_could_not_be_had_are_not_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def listings(number: int) -> str:
        return "".join(f'[[listing]]\nkind = "rss"\nurl = "{site.root}/feed/{n}"\n' for n in range(number))

    with running({}) as site:
        site.pages |= {f"/feed/{n}": text("", 500) for n in range(24)}
        site.pages["/feed/0"] = text(f"<rss><channel><item><link>{site.root}/news/1</link></item></channel></rss>")
        site.pages["/news/1"] = news(1)
        with pytest.raises(CrawlInterrupted, match=r"(?s)23 of 24 listings \(95\.8%\) could not be fetched.*/feed/1: failed"):
            crawl(tmp_path, source_file(tmp_path, site, listings(24), retries=0))
        assert len(crawl(tmp_path, source_file(tmp_path, site, listings(2), retries=0)).pages) == 1
    assert "1 of 2 listings (50.0%) could not be fetched; articles that only they name are missing" in caplog.text


def test_a_pattern_that_fits_nothing_is_an_error(tmp_path: Path) -> None:
    with running({}) as site:
        site.pages["/list"] = text("<a href='/story/1'>기사</a>")
        listing = f'[[listing]]\nkind = "archive"\nurl = "{site.root}/list"\n'
        with pytest.raises(CrawlError, match="no address that matches article ="):
            crawl(tmp_path, source_file(tmp_path, site, listing))


def test_a_site_that_does_not_answer_is_worth_another_try_and_one_without_listing_is_not(tmp_path: Path) -> None:
    with running({}) as site:
        with pytest.raises(CrawlError, match=r"(?s)no listing could be read.*sitemap\.xml: failed, status_404"):
            crawl(tmp_path, source_file(tmp_path, site))
        source = source_file(tmp_path, site, retries=0)
    with pytest.raises(CrawlInterrupted, match=r"(?s)no listing could be read.*robots_unreachable") as caught:
        crawl(tmp_path, source)
    assert isinstance(caught.value, ConnectionError)  # which a flow retries
