"""The real corpora, if they are there, are extracted without markup and with hardly any bad record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.corpus.extracting import Extracted, extract

pytestmark = pytest.mark.real

MARKUP = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|'''|\|\||<ref|</ref|\( ?,|\(\)|__[A-Z가-힣]+__|&[a-z]+;"
    r"|\[(?:include|youtube|br|목차)\b"
)


def leftovers(found: Extracted) -> list[str]:
    return [match[0] for text in found.texts for match in MARKUP.finditer(text)]


def test_a_page_of_the_korean_wikipedia(tmp_path: Path, real_data: Path) -> None:
    found = extract(tmp_path, real_data / "corpus" / "wikipedia_xml.tar.zst", format="mediawiki", members="*ko.wiki*")
    (document,) = found.documents
    assert leftovers(found) == []
    assert len(document.text) > 3000
    assert document.text.count("\n\n") > 8


def test_dumps_in_six_other_languages_leave_no_marks(tmp_path: Path, real_data: Path) -> None:
    found = extract(tmp_path, real_data / "corpus" / "wikipedia_xml.tar.zst", format="mediawiki", members="*minidumps*")
    assert (found.stats["documents_in"], found.quarantined) == (36, [])
    assert len(leftovers(found)) <= 2  # examples of markup in <nowiki>


def test_namuwiki_documents(tmp_path: Path, real_data: Path) -> None:
    found = extract(tmp_path, real_data / "corpus" / "namuwiki.tar.zst", format="namuwiki", members="*.json")
    assert (found.stats["documents_in"], found.stats["dropped"], found.quarantined) == (7, {"redirect": 1}, [])
    assert found.stats["namespaces"] == {"0": 7}
    assert set(leftovers(found)) <= {"'''", "||", "[[", "]]"}  # the article on a programming language shows literals
    assert len([mark for text in found.texts for mark in MARKUP.findall(text)]) < 20


def test_wikiextractor_output_loses_its_empty_parentheses(tmp_path: Path, real_data: Path) -> None:
    found = extract(
        tmp_path, real_data / "corpus" / "kowiki_extracted_AA.tar.zst", format="wikiextractor", members="AA/wiki_93"
    )
    assert found.stats["documents_out"] > 300
    assert found.quarantined == []
    assert [mark for mark in leftovers(found) if not mark.startswith("&")] == []


def test_news_folders_and_leads(tmp_path: Path, real_data: Path) -> None:
    archive = real_data / "corpus" / "news_categories.tar.zst"
    found = extract(tmp_path, archive, format="news_text", category_by_folder={"0": "정치"})
    assert (found.stats["documents_in"], found.reasons) == (1200, ["missing_field"])
    assert {document.category for document in found.documents} == {"정치", *"1234567"}
    fields = {"text": "summary", "outlet": "source", "published": "date"}
    leads = extract(tmp_path, real_data / "corpus" / "news_leads.tar.zst", format="news", members="*-13/*", fields=fields)
    assert leads.stats["documents_out"] > 300
    assert {document.outlet for document in leads.documents} >= {"chosun"}


def test_books_and_petitions(tmp_path: Path, real_data: Path) -> None:
    fields = {"text": "introduction", "title": "title", "category": "categories", "id": "item_id"}
    books = extract(
        tmp_path, real_data / "corpus" / "books_introductions.tar.zst", format="books", members="*.csv", fields=fields
    )
    assert (books.stats["documents_in"], books.quarantined) == (820, [])
    fields = {"text": "content", "published": "begin", "id": "petition_idx"}
    archive = real_data / "corpus" / "petitions_2017_2019.tar.zst"
    petitions = extract(tmp_path, archive, format="jsonl", members="*/petitions_*", fields=fields)
    assert (petitions.stats["documents_in"], petitions.quarantined) == (3691, [])


@pytest.mark.parametrize(
    ("archive", "format", "members"),
    [
        ("wikipedia_xml", "mediawiki", "*minidumps*"),
        ("kowiki_extracted_AA", "wikiextractor", "*wiki_93"),
        ("namuwiki", "namuwiki", "*.json"),
    ],
)
def test_each_character_of_a_source_is_kept_or_accounted_for(
    tmp_path: Path, real_data: Path, archive: str, format: str, members: str
) -> None:
    found = extract(tmp_path, real_data / "corpus" / f"{archive}.tar.zst", format=format, members=members)
    lost = found.stats["lost_characters"]
    source = found.stats["source_characters"]
    assert source == sum(map(len, found.texts)) + sum(lost.values())
    assert 0 < lost["layout"] < 0.02 * source
    assert all(characters > 0 for characters in lost.values())
