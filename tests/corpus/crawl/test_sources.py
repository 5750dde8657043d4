"""Source files fit their examples, mistakes are named, and addresses are normalised."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.corpus.crawl.client import is_public
from korealbert.corpus.crawl.source import ArticleUrl, Source, article_url, load_source, page_url
from korealbert.corpus.crawl.stage import CrawlSpec
from korealbert.documents.schema import CATEGORIES

FILES = sorted((Path(__file__).parents[3] / "data_specs" / "sources").glob("*.toml"))
DAILIES = {"조선일보", "중앙일보", "동아일보", "한겨레", "경향신문", "한국일보", "국민일보", "세계일보"}
MINIMAL = {
    "outlet": "시험일보",
    "hosts": ["a.example"],
    "article": r"https?://a\.example/\d+",
    "listing": [{"kind": "rss", "url": "http://a.example/feed"}],
}
SOURCE = Source.model_validate(MINIMAL)


def test_the_eight_dailies_are_there_and_say_that_they_are_untested() -> None:
    sources = [load_source(path) for path in FILES]
    assert {source.outlet for source in sources} >= DAILIES
    assert not any(source.tested for source in sources)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_source_keeps_its_own_examples(path: Path) -> None:
    source = load_source(path)
    assert source.examples
    for example in source.examples:
        page = page_url(example.url, source)
        assert page is not None and source.allows(page.host)
        assert article_url(page.url, source) == ArticleUrl(example.published, example.section)
    for address in source.counterexamples:
        page = page_url(address, source)
        assert page is not None and article_url(page.url, source) is None
    for listing in source.listing:
        for day in listing.days(date(2018, 12, 31), date(2019, 1, 1)):
            page = page_url(listing.address(day=day, section=next(iter(listing.sections), ""), page=1), source)
            assert page is not None and source.allows(page.host)
            assert article_url(page.url, source) is None
    assert set(source.categories) <= set(CATEGORIES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": ["http://a.example"]}, "(?s)hosts.0.*host name"),
        ({"article": "("}, "(?s)article.*regular expression"),
        ({"listing": [{"kind": "rss", "url": "http://a.example/{day}"}]}, "rss listings have no {day}"),
        ({"listing": [{"kind": "archive", "url": "http://a.example/{section}"}]}, "needs a table sections"),
        ({"listing": [{"kind": "archive", "url": "http://a.example/{month}"}]}, "unknown {month}"),
        ({"categories": {"정치": ["국회"], "사회": ["국회"]}}, "(?s)국회.*정치 and 사회"),
        ({"delay": 1}, "delay"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source.model_validate({**MINIMAL, **change})


def test_days_and_months_of_an_archive() -> None:
    archive = {"kind": "archive", "url": "http://a.example/{day:%Y%m}", "step": "month"}
    source = Source.model_validate(
        {**MINIMAL, "listing": [archive, {"kind": "archive", "url": "http://a.example/p{page}", "page_step": 20}]}
    )
    months = source.listing[0].days(date(2018, 11, 15), date(2019, 1, 2))
    assert [source.listing[0].address(day=month, section="", page=1)[-6:] for month in months] == ["201811", "201812", "201901"]
    assert source.listing[1].days(date(2018, 11, 15), date(2019, 1, 2)) == [None]
    assert source.listing[1].address(day=None, section="", page=3) == "http://a.example/p41"


@pytest.mark.parametrize(
    ("spelling", "url"),
    [
        ("HTTP://A.Example:80/x#part", "http://a.example/x"),
        ("http://a.example", "http://a.example/"),
        ("http://a.example/a/../b/./c", "http://a.example/b/c"),
        ("http://a.example/x?utm_source=mail&id=7&fbclid=9", "http://a.example/x?id=7"),
        ("http://a.example/%ea%b0%80%41", "http://a.example/%EA%B0%80A"),
        ("http://a.example/가?제목=나 다", "http://a.example/%EA%B0%80?%EC%A0%9C%EB%AA%A9=%EB%82%98%EB%8B%A4"),
        ("http://한국.example/", "http://xn--3e0b707e.example/"),
        ("//b.example/x", None),
        ("javascript:alert(1)", None),
        ("http://user:pass@a.example/", None),
        ("http://a.example:99999/", None),
        ("http://[broken/", None),
        ("http://a.example/" + "x" * 3000, None),
    ],
)
def test_one_form_of_an_address(spelling: str, url: str | None) -> None:
    page = page_url(spelling, SOURCE)
    assert (page and page.url) == url


def test_what_makes_two_addresses_one_page() -> None:
    keys = {
        page.key
        for spelling in ("http://a.example/x?a=1&b=2", "https://a.example/x?b=2&a=1#top")
        if (page := page_url(spelling, SOURCE))
    }
    assert len(keys) == 1
    other = page_url("http://a.example/x?a=1", SOURCE)
    assert other is not None and other.key not in keys


@given(st.text(max_size=60))
def test_an_address_is_in_its_one_form_already(tail: str) -> None:
    page = page_url("http://a.example/" + tail, SOURCE)
    if page is not None:
        assert page_url(page.url, SOURCE) == page


PRIVATE = """127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255 nonsense
    ::1 :: fe80::1 fe80::1%eth0 fc00::1 ::ffff:127.0.0.1 2002:7f00:1:: 64:ff9b::a00:1 ff02::1 fec0::1 64:ff9b:1::7f00:1"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "211.115.77.1", "2001:4860:4860::8888", "::ffff:8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


def test_dates_in_and_out_of_the_window() -> None:
    spec = CrawlSpec.model_validate({"source": "x.toml", "first_day": "2007-01-01", "last_day": "2019-12-31"})
    outside = {
        "2006-12-31": True,
        "2007-01-01": False,
        "2019-12-31T23:59": False,
        "2020-01-01": True,
        "2007": False,
        "2006-12": True,
        "": False,
    }
    assert {day: spec.outside_window(day) for day in outside} == outside
    assert spec.outside_window(modified="2006-05-01") and not spec.outside_window(modified="2024-05-01")
    for field, value in {"first_day": "2007-1-1", "last_day": "2006-01-01", "contact": "a\nb"}.items():
        with pytest.raises(ValueError, match=field.split("_")[0]):
            CrawlSpec.model_validate({"source": "x.toml", field: value})
