"""One crawl, in a process of its own, of a site with everything that goes wrong on the web."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest

from korealbert.inspection import look
from korealbert.recipe import registry
from tests.corpus.crawl import hostile
from tests.corpus.crawl.crawling import Crawled, crawl
from tests.corpus.crawl.hostile import HOSTILE, INWARD, good, paragraphs
from tests.corpus.crawl.site import Site, article, running


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawled, Site]:
    directory = tmp_path_factory.mktemp("crawl")
    with running({}) as site:
        hostile.fill(site)
        return crawl(directory, hostile.source_of(site, directory)), site


def test_every_good_page_is_stored_exactly_once(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    stored = Counter(url.removeprefix(site.root) for url, _ in snapshot.pages)
    assert set(stored) == hostile.stored_paths()
    assert set(stored.values()) == {1}


def test_no_page_was_asked_for_twice_without_need(crawled: tuple[Crawled, Site]) -> None:
    _, site = crawled
    assert {path: site.hits[path] for path in site.completed if path.strip("/news").isdigit() and site.hits[path] > 1} == {}
    assert site.hits["/robots.txt"] == 1
    assert site.hits["/news/500-always"] == 2  # one try and one retry


def test_stored_bodies_are_those_of_the_site(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    bodies = {url.removeprefix(site.root): body for url, body in snapshot.pages}
    assert bodies["/news/12"] == good(12).body
    assert gzip.decompress(bodies["/news/gzip"]) == article("압축 기사", paragraphs("압축"))  # as it was received


@pytest.mark.parametrize("path", HOSTILE)
def test_the_log_says_what_became_of_it(path: str, crawled: tuple[Crawled, Site]) -> None:
    assert crawled[0].outcome(path) == HOSTILE[path]


def test_disallowed_paths_were_not_asked_for(crawled: tuple[Crawled, Site]) -> None:
    assert not [path for path in crawled[1].hits if path.startswith("/news/secret")]


def test_nothing_was_asked_of_private_addresses(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    assert set(site.hosts) == {f"127.0.0.1:{site.port}"}
    assert snapshot.outcome("/news/private") == "refused: private_address"
    refused = {row["url"]: row["detail"] for row in snapshot.log if row.get("reason") == "private_address"}
    assert len(refused) == 2 * len(INWARD)
    assert set(refused.values()) == {"127.0.0.3", "127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_the_log_accounts_for_every_url(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    assert {row["state"] for row in snapshot.log} <= {"stored", "listed", "duplicate", "redirected", "refused", "failed"}
    asked = {row["url"].removeprefix(site.root) for row in snapshot.log}
    assert set(site.hits) <= asked
    assert len(snapshot.log) == sum(sum(kinds.values()) for kinds in snapshot.artifact.stats["urls"].values())
    articles = sum(row["kind"] == "article" for row in snapshot.log)
    assert snapshot.artifact.stats["documents_in"] == articles
    assert snapshot.artifact.stats["documents_out"] == len(snapshot.pages)
    assert [row["url"] for row in snapshot.log if row.get("reason") == "no_address"] == ["mailto:desk@example.org"]


def test_the_log_tells_where_a_page_lies(crawled: tuple[Crawled, Site]) -> None:
    snapshot, site = crawled
    row = next(row for row in snapshot.log if row["url"] == f"{site.root}/news/77")
    data = (snapshot.artifact.path / f"pages-{row['file']:05d}.warc.gz").read_bytes()
    record = gzip.decompress(data[row["offset"] : row["offset"] + row["length"]])
    assert record.startswith(b"WARC/1.1") and good(77).body in record


def test_people_can_look_into_it(crawled: tuple[Crawled, Site]) -> None:
    artifact = crawled[0].artifact
    assert len(list(look.urls(artifact, "private_address"))) == 2 * len(INWARD)
    assert len(list(look.urls(artifact, None))) == len(crawled[0].log)
    with pytest.raises(ValueError, match=r"no URL was 'private'; outcomes: .*private_address"):
        list(look.urls(artifact, "private"))
    for option, chosen in (("--id", look.Selection(wanted="0")), ("--diff", look.Selection(diff=True))):
        with pytest.raises(ValueError, match=f"{option} is for documents, and a crawl has URLs; leave it out"):
            list(look.items(artifact, chosen, shows=registry.shows("crawl"), limit=1))


def test_only_what_extraction_needs_is_left(crawled: tuple[Crawled, Site]) -> None:
    names = sorted(path.name for path in crawled[0].artifact.path.iterdir())
    assert names == ["log.jsonl.gz", "manifest.json", "pages-00000.warc.gz", "snapshot.json"]
