"""WARC files → documents: those of a crawl, and anyone's."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from korealbert.artifact import Runtime, build
from korealbert.corpus.extract import STAGE, ExtractionError, ExtractSpec
from korealbert.documents.schema import document_id
from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import Answer, running, sitemap
from tests.corpus.extracting import extract, read_back
from tests.corpus.html.test_pages import BODY, linked, page


def warc(*pages: tuple[str, int, str, bytes], compress: bool = True, chunked: bool = False) -> bytes:
    """Records of (address, status, content type, body), each after its request."""
    writer = WARCWriter(buffer := io.BytesIO(), gzip=compress)
    writer.write_record(writer.create_warcinfo_record("test.warc", {"software": "test"}))
    for url, status, kind, page_body in pages:
        headers, body = [("Content-Type", kind)], page_body
        if chunked:
            headers.append(("Transfer-Encoding", "chunked"))
            body = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
        http = StatusAndHeaders(f"{status} OK", headers, protocol="HTTP/1.1")
        request = StatusAndHeaders("GET / HTTP/1.1", [("Host", "a.example")], is_http_request=True)
        writer.write_record(writer.create_warc_record(url, "request", http_headers=request))
        writer.write_record(
            writer.create_warc_record(url, "response", payload=io.BytesIO(body), length=len(body), http_headers=http)
        )
    return buffer.getvalue()


THREE = [(f"http://a.example/{name}", 200, "text/html", page(f"<title>{name}</title>")) for name in ("하나", "둘", "셋")]


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("chunked", [True, False])
def test_pages_of_any_warc(compress: bool, chunked: bool, tmp_path: Path) -> None:
    path = tmp_path / ("a.warc.gz" if compress else "a.warc")
    pages = [*THREE, ("http://a.example/x", 404, "text/html", page()), ("http://a.example/y", 200, "image/png", page())]
    path.write_bytes(warc(*pages, compress=compress, chunked=chunked))
    found = extract(tmp_path / "store", path, format="warc")
    assert [(document.title, document.url) for document in found.documents] == [(url[-2:].strip("/"), url) for url, *_ in THREE]
    assert all(document.text.split("\n\n") == BODY for document in found.documents)
    assert [(drop.reason, drop.rule) for _, drop in found.dropped] == [("not_a_page", "status 404"), ("not_html", "image/png")]


def test_the_same_documents_for_any_shard_size_and_workers(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(warc(*THREE, compress=False))
    first, second = (
        extract(tmp_path / f"store{size}", path, workers=1 + size // 1024 % 2, format="warc", shard_bytes=size)
        for size in (1024, 8 << 20)
    )
    assert [document.id for document in first.documents] == [document.id for document in second.documents]


def test_damage_costs_only_the_record_it_lies_in(tmp_path: Path) -> None:
    whole = warc(*THREE, compress=False)
    second = whole.index("둘".encode())
    header = whole.rindex(b"WARC/1.0", 0, whole.index(b"WARC-Type: response", second - 600))
    broken = whole[:header] + b"JUNK" + whole[header + 4 :]
    (tmp_path / "broken.warc").write_bytes(broken)
    (tmp_path / "cut.warc").write_bytes(whole[:-40])
    (tmp_path / "cut.warc.gz").write_bytes(gzip.compress(whole)[:-40])
    (tmp_path / "none.warc").write_bytes(b"<html>no archive</html>")
    results = {path.name: extract(tmp_path / "store", path, format="warc") for path in sorted(tmp_path.glob("*.warc*"))}
    assert [document.title for document in results["broken.warc"].documents] == ["하나", "셋"]
    assert results["broken.warc"].reasons == ["malformed_record"]
    assert f"byte {header}" in results["broken.warc"].quarantined[0].position
    assert [document.title for document in results["cut.warc"].documents] == ["하나", "둘"]
    assert results["cut.warc"].reasons == ["truncated_record"]
    assert results["cut.warc.gz"].reasons == ["truncated_file"]
    assert results["none.warc"].reasons == ["malformed_record"]


def test_a_record_beyond_the_limit_is_passed_over(tmp_path: Path) -> None:
    large = ("http://a.example/large", 200, "text/html", page(body="<p>" + "가" * 40_000 + "</p>"))
    (tmp_path / "a.warc").write_bytes(warc(THREE[0], large, THREE[1], compress=False))
    found = extract(tmp_path / "store", tmp_path / "a.warc", format="warc", limits={"max_record_bytes": 50_000})
    assert [document.title for document in found.documents] == ["하나", "둘"]
    assert found.reasons == ["record_too_long"]


def test_a_crawl_becomes_documents(tmp_path: Path) -> None:
    dated = {f"/news/{year}": linked(headline=f"{year}년", datePublished=f"{year}-05-05") for year in (2005, 2015)}
    with running({path: Answer(page(head)) for path, head in dated.items()}) as site:
        tag = '<meta property="article:section" content="국회">'
        site.pages["/news/euc-kr"] = Answer(
            page(f"<title>완성형</title>{tag}", charset="euc-kr"), content_type="text/html; charset=utf-8"
        )
        site.pages["/news/packed"] = Answer(gzip.compress(page("<title>압축</title>")), headers=(("Content-Encoding", "gzip"),))
        site.pages["/sitemap.xml"] = sitemap(*(f"{site.root}{path}" for path in (*dated, "/news/euc-kr", "/news/packed")))
        listing = f'[[listing]]\nkind = "sitemap"\nurl = "{site.root}/sitemap.xml"\n[categories]\n"정치" = ["국회"]\n'
        snapshot = crawl(tmp_path, source_file(tmp_path, site, listing, concurrency=1)).artifact
    spec = ExtractSpec.model_validate({"source": "daily", "format": "warc"})
    runtime = Runtime(store=tmp_path / "store", workers=1)
    found = read_back(build(STAGE, spec, {"crawl": snapshot}, runtime).artifact)
    assert [(document.title, document.category) for document in found.documents] == [
        ("2015년", ""),
        ("완성형", "정치"),
        ("압축", ""),
    ]
    assert {document.outlet for document in found.documents} == {"시험일보"}
    assert all(document.text.split("\n\n") == BODY for document in found.documents)
    assert [(document.title, drop.reason, drop.rule) for document, drop in found.dropped] == [
        ("2005년", "outside_window", "2005-05-05")
    ]


def test_a_source_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="no `paths`, and no crawl or fetch"):
        extract(tmp_path / "store", [], format="warc")


def wet(*pages: tuple[str, bytes], compress: bool = True) -> bytes:
    """A WET file as Common Crawl writes it: a warcinfo record, then a conversion record for each page, members of their own."""
    records = [b"WARC-Type: warcinfo\r\nContent-Type: application/warc-fields\r\nContent-Length: 11\r\n\r\nrobots: no\n"]
    for number, (url, body) in enumerate(pages):
        head = [
            "WARC-Type: conversion",
            f"WARC-Target-URI: {url}",
            "WARC-Date: 2024-03-01T12:00:00Z",
            f"WARC-Record-ID: <urn:uuid:{number}>",
            "WARC-Identified-Content-Language: kor,eng",
            "Content-Type: text/plain",
            f"Content-Length: {len(body)}",
        ]
        records.append("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    whole = [b"WARC/1.0\r\n" + record + b"\r\n\r\n" for record in records]
    return b"".join(gzip.compress(one) if compress else one for one in whole)


@pytest.mark.parametrize("compress", [True, False])
def test_texts_of_common_crawl(compress: bool, tmp_path: Path) -> None:
    path = tmp_path / ("CC-MAIN-1.warc.wet.gz" if compress else "CC-MAIN-1.warc.wet")
    pages = [
        ("https://a.example/1", "도서관\n첫 문단이다.\n".encode()),
        ("https://a.example/2", b"\xff\xfe"),
        ("", "둘".encode()),
    ]
    path.write_bytes(wet(*pages, compress=compress))
    found = extract(tmp_path / "store", path, format="wet", fields={"published": "date"})
    assert [(one.text, one.url) for one in found.documents] == [("도서관\n첫 문단이다.", "https://a.example/1"), ("둘", "")]
    assert found.documents[0].published == "2024-03-01T12:00:00Z"
    assert found.documents[0].id == document_id("test", "https://a.example/1")
    assert found.documents[1].id == document_id("test", "<urn:uuid:2>")
    assert found.reasons == ["invalid_utf8"]
    assert extract(tmp_path / "pages", path, format="warc", bad_share_applies_from=1).documents == []


def test_damage_of_a_text_costs_that_text(tmp_path: Path) -> None:
    whole = wet(*((f"https://a.example/{name}", f"글 {name}".encode()) for name in "abc"), compress=False)
    second = whole.index(b"https://a.example/b")
    header = whole.rindex(b"WARC/1.0", 0, second)
    (tmp_path / "a.wet").write_bytes(whole[:header] + b"JUNK" + whole[header + 4 :])
    found = extract(tmp_path / "store", tmp_path / "a.wet", format="wet")
    assert found.texts == ["글 a", "글 c"]
    assert found.reasons == ["malformed_record"]
