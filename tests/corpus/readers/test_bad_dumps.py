"""A bad page of a wiki dump is named, and costs no other page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from korealbert.corpus.extract import ExtractionError, ExtractSpec
from korealbert.corpus.markup.mediawiki import parse_pages
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import Tally
from tests.corpus.extracting import PAGE, dump, extract

SENTENCE = "봄이 오면 강가에 버들이 먼저 푸르러진다."


def page(number: int, text: str = SENTENCE) -> str:
    return PAGE.format(title=f"강 {number}", id=number, text=text)


def test_a_malformed_page_names_line_and_column_and_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    path.write_bytes(dump(page(1), page(2, "a <b>글</c>"), page(3)))
    found = extract(tmp_path / "store", path, format="mediawiki")
    assert [document.title for document in found.documents] == ["강 1", "강 3"]
    (bad,) = found.quarantined
    lines = path.read_text("utf-8").split("\n")
    broken = next(index for index, line in enumerate(lines, 1) if "</c>" in line)
    assert (bad.reason, bad.position) == (
        "malformed_xml",
        f"line {broken}, column {lines[broken - 1].encode().index(b'</c>') + 1}",
    )


def test_a_truncated_dump_keeps_its_pages(tmp_path: Path) -> None:
    whole = dump(page(1), page(2), page(3))
    path = tmp_path / "dump.xml"
    path.write_bytes(whole[: whole.rindex(b"</text>")])
    found = extract(tmp_path / "store", path, format="mediawiki")
    assert ([d.title for d in found.documents], found.reasons) == (["강 1", "강 2"], ["truncated_xml"])
    path.write_bytes(whole[: whole.rindex(b"</mediawiki>")])
    found = extract(tmp_path / "store", path, format="mediawiki")
    assert (len(found.documents), found.reasons) == (3, ["truncated_xml"])
    for behind in (b"\0\0", b"\x1a", b"<!-- done -->"):
        path.write_bytes(whole + behind)
        found = extract(tmp_path / "store", path, format="mediawiki")
        assert (len(found.documents), found.reasons) == (3, [])


def test_entity_bombs_are_refused(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE x [<!ENTITY a "봄봄봄봄봄봄"><!ENTITY b "&a;&a;&a;&a;&a;">]>\n'
    path = tmp_path / "dump.xml"
    path.write_bytes(doctype.encode() + dump(page(1, "&b;"), page(2)))
    found = extract(tmp_path / "store", path, format="mediawiki")
    assert [document.title for document in found.documents] == ["강 2"]
    assert found.reasons == ["xml_declaration_refused", "malformed_xml"]


def test_files_that_are_no_page(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    for data, reason in (
        (b'{"text": "1 < 2"}', "other_format"),
        ("그냥 글이다.".encode(), "not_html"),
        (dump(page(1)), "other_format"),
        (b'<?xml version="1.0"?>\n<rss><channel/></rss>', "not_html"),
    ):
        path.write_bytes(data)
        assert extract(tmp_path / "store", path, format="html").reasons == [reason]
    path.write_text("<p>조각인 쪽이지만 글이 있다.", "utf-16")
    assert extract(tmp_path / "store", path, format="html").texts == ["조각인 쪽이지만 글이 있다."]


def test_files_that_are_no_dump(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    path.write_text("<html><body>글</body></html>", "utf-8")
    assert extract(tmp_path / "store", path, format="mediawiki").reasons == ["other_format"]
    path.write_bytes(dump(page(1)).decode().encode("utf-16"))
    assert extract(tmp_path / "store", path, format="mediawiki").reasons == ["other_format"]
    assert extract(tmp_path / "store", path, format="wikiextractor").reasons == ["other_format"]
    path.write_text("<html><body>글</body></html>", "utf-8")
    assert extract(tmp_path / "store", path, format="wikiextractor").reasons == ["other_format"]
    path.write_text('<doc id="1" url="" title="강">\n강\n\n글이다.\n</doc>\n', "utf-8")
    (bad,) = extract(tmp_path / "store", path, format="mediawiki").quarantined
    assert 'set format = "wikiextractor"' in bad.remedy
    path.write_text("<mediawiki>\n</mediawiki>\n")
    assert extract(tmp_path / "store", path, format="mediawiki").reasons == ["no_pages"]
    path.write_text("글이다.\n</doc>\n", "utf-8")
    assert extract(tmp_path / "store", path, format="wikiextractor").reasons == ["text_outside_doc"]
    path.write_bytes(dump(page(1).replace("<title>강 1</title>", "")))
    (bad,) = extract(tmp_path / "store", path, format="mediawiki").quarantined
    assert (bad.reason, bad.field) == ("missing_field", "title")


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"text": None}, "missing_field", "text"),
        ({"title": ["가"]}, "wrong_type", "title"),
        ({"namespace": 1.5}, "wrong_type", "namespace"),
    ],
)
def test_namuwiki_records_that_are_no_documents(tmp_path: Path, change: dict[str, Any], reason: str, field: str) -> None:
    path = tmp_path / "namu.json"
    good = {"namespace": "0", "title": "강", "text": SENTENCE}
    path.write_text(json.dumps([good, {**good, **change}]), "utf-8")
    found = extract(tmp_path / "store", path, format="namuwiki")
    assert (found.texts, [(bad.reason, bad.field) for bad in found.quarantined]) == ([SENTENCE], [(reason, field)])


def test_a_dump_whose_articles_have_another_namespace_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "namu.json"
    namespaces = ["문서", "문서", "틀"]
    path.write_text(
        json.dumps([{"namespace": n, "title": f"강 {i}", "text": SENTENCE} for i, n in enumerate(namespaces)]), "utf-8"
    )
    with pytest.raises(ExtractionError, match=r"namespace '문서' \(2 of 3\).*set article_namespaces"):
        extract(tmp_path / "store", path, format="namuwiki")
    assert len(extract(tmp_path / "store", path, format="namuwiki", article_namespaces=["문서"]).documents) == 2


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_doc_that_is_not_closed_does_not_swallow_the_next(tmp_path: Path, line_end: str) -> None:
    lines = ['<doc id="1" title="하나">', "첫째 글이다.", '<doc id="2" title="둘">', "둘째 글이다.", "</doc>"]
    path = tmp_path / "wiki_00"
    path.write_bytes(
        "".join(line + line_end for line in [*lines, '<doc id="3" title="셋">', "셋째 글이다.", "</doc>"]).encode()
    )
    found = extract(tmp_path / "store", path, format="wikiextractor")
    assert found.texts == ["둘째 글이다.", "셋째 글이다."]
    assert [(bad.reason, bad.position) for bad in found.quarantined] == [("unclosed_doc", "line 1, byte 0")]


def test_docs_with_windows_line_ends_need_no_more_memory(tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    path.write_bytes(b"".join(b'<doc id="%d" title="%d">\r\n%s\r\n</doc>\r\n' % (n, n, b"x" * 100_000) for n in range(30)))
    found = extract(tmp_path / "store", path, format="wikiextractor", limits={"max_record_bytes": 1_000_000})
    assert (len(found.documents) + len(found.dropped), found.reasons) == (30, [])


@pytest.mark.parametrize("first", [True, False])
def test_a_page_with_another_tag_is_reported_wherever_batches_begin(first: bool) -> None:
    """The rest of a page behind damage, which another entry reports, is not."""
    good = PAGE.format(title="가", id=1, text="글이다.").encode()
    other = good.replace(b"<page>", b"<pbge>")
    spec = ExtractSpec.model_validate({"source": "w", "format": "mediawiki", "paths": ["w.xml"]})

    def read(data: bytes, byte: int = 1 << 20) -> list[str]:
        batch = RawRecords("w.xml", "utf-8", line=1, byte=byte, data=data)
        return [getattr(one, "reason", "") for one in parse_pages(spec, batch, Tally())]

    assert sorted(read(other + good if first else good + other)) == ["", "malformed_xml"]
    assert read(b"rest</text></revision></page>\n" + good) == read(good) == [""]
    assert read(b"<mediawiki>\n" + good, byte=len(b"\xef\xbb\xbf")) == [""]


@pytest.mark.parametrize("kind", ["namuwiki", "mediawiki"])
def test_prefixes_are_namespaces_of_their_own_wiki_only(tmp_path: Path, kind: str) -> None:
    titles = ["파일:강", "Project: Playtime", "더미: 강"]
    path = tmp_path / "dump"
    records = [{"namespace": "0", "title": title, "text": SENTENCE} for title in titles]
    pages = [PAGE.format(title=title, id=number, text=SENTENCE) for number, title in enumerate(titles)]
    path.write_bytes(json.dumps(records).encode() if kind == "namuwiki" else dump(*pages))
    found = extract(tmp_path / "store", path, format=kind)
    kept = {"namuwiki": ["Project: Playtime"], "mediawiki": ["더미: 강"]}[kind]
    assert [document.title for document in found.documents] == kept
    assert found.stats["dropped"] == {"namespace": 2}
