"""WARC files of a crawl and of other programs become documents."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from korealbert.artifact import Runtime, build
from korealbert.corpus.extract import STAGE, ExtractionError, ExtractSpec, frame, parse
from korealbert.corpus.readers.records import Dropped, Tally
from korealbert.documents.schema import Document, Quarantined, document_id
from korealbert.documents.streams import RawFile, ReadLimits
from tests.corpus.crawl.crawling import crawl, source_file
from tests.corpus.crawl.site import Answer, running, sitemap
from tests.corpus.extracting import extract, read_back
from tests.corpus.html.test_pages import BODY, linked, page


def warc(*pages: tuple[str, int, str, bytes], compress: bool = True, chunked: bool = False) -> bytes:
    """Write a WARC file of requests and responses (address, status, content type, body)."""
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
    (tmp_path / "killed.warc").write_bytes(whole[:-40] + whole)
    (tmp_path / "cut.warc.gz").write_bytes(gzip.compress(whole)[:-40])
    (tmp_path / "none.warc").write_bytes(b"<html>no archive</html>")
    results = {path.name: extract(tmp_path / "store", path, format="warc") for path in sorted(tmp_path.glob("*.warc*"))}
    assert [document.title for document in results["broken.warc"].documents] == ["하나", "셋"]
    assert results["broken.warc"].reasons == ["malformed_record"]
    assert f"byte {header}" in results["broken.warc"].quarantined[0].position
    assert [document.title for document in results["cut.warc"].documents] == ["하나", "둘"]
    assert results["cut.warc"].reasons == ["truncated_record"]
    assert [document.title for document in results["killed.warc"].documents] == ["하나", "둘", "하나", "둘", "셋"]
    assert results["killed.warc"].reasons == ["malformed_record"]
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
    """Write a WET file as Common Crawl does: a warcinfo record and a conversion record for each page, each in a gzip member."""
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
    assert found.documents[0].id == document_id("test", "<urn:uuid:0>")
    assert found.documents[1].id == document_id("test", "<urn:uuid:2>")
    assert found.reasons == ["invalid_utf8"]
    assert extract(tmp_path / "pages", path, format="warc", bad_share_applies_from=1).documents == []


def test_records_of_another_type_name_the_format_that_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(warc(*THREE, compress=False))
    (tmp_path / "a.wet").write_bytes(wet(("https://a.example/1", b"text"), compress=False))
    writer = WARCWriter(buffer := io.BytesIO(), gzip=False)
    writer.write_record(writer.create_warc_record("file:///a", "resource", payload=io.BytesIO(b"text"), length=4))
    (tmp_path / "b.warc").write_bytes(buffer.getvalue())
    for name, format, remedy in (
        ("a.warc", "wet", r'set format = "warc"'),
        ("a.wet", "warc", r'set format = "wet"'),
        ("b.warc", "warc", r"they hold files \(resource\), which are not read"),
    ):
        with pytest.raises(ExtractionError, match=rf"no_records; no record is of type \w+: .*{remedy}"):
            extract(tmp_path / "store", tmp_path / name, format=format, max_bad_share=0)


@pytest.mark.parametrize("format", ["warc", "wet"])
def test_records_of_another_type_are_counted(format: str, tmp_path: Path) -> None:
    """Those that only describe others are not: a request, a description of the file."""
    texts = [(f"https://a.example/{name}", f"글 {name}".encode()) for name in "ab"]
    revisit = b"WARC/1.0\r\nWARC-Type: revisit\r\nWARC-Target-URI: http://a.example/c\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    bare = b"WARC/1.0\r\nWARC-Target-URI: http://a.example/d\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    whole = warc(*THREE, compress=False) + wet(*texts, compress=False) + revisit + bare
    (tmp_path / "a.warc").write_bytes(whole)
    found = extract(tmp_path / "store", tmp_path / "a.warc", format=format)
    pages, words = [url for url, *_ in THREE], [url for url, _ in texts]
    read, other, kind = (pages, words, "conversion") if format == "warc" else (words, pages, "response")
    assert [document.url for document in found.documents] == read
    assert [(one.url, drop.reason, drop.rule) for one, drop in found.dropped] == [
        *((url, "other_record_type", kind) for url in other),
        ("http://a.example/c", "other_record_type", "revisit"),
        ("http://a.example/d", "other_record_type", "none"),
    ]
    assert len({one.id for one, _ in found.dropped}) == len(found.dropped)
    assert found.stats["documents_in"] == len(read) + len(found.dropped) and not found.quarantined


def test_a_source_of_other_records_alone_is_an_error_however_many_they_are(tmp_path: Path) -> None:
    texts = wet(*((f"https://a.example/{n}", f"글 {n}".encode()) for n in range(100)), compress=False)
    (folder := tmp_path / "in").mkdir()
    (folder / "a.warc").write_bytes(texts)
    with pytest.raises(ExtractionError, match=r"1 of 1 records \(100\.0%\) cannot be read.*no_records.*set format = \"wet\""):
        extract(tmp_path / "store", folder, format="warc", max_bad_share=0.05)
    (folder / "b.warc").write_bytes(warc(*THREE * 20, compress=False))
    found = extract(tmp_path / "store", folder, format="warc", max_bad_share=0.05)
    assert len(found.documents) == 60 and found.reasons == ["no_records"]
    assert found.stats["dropped"] == {"other_record_type": 100}


def test_damage_of_a_text_costs_that_text(tmp_path: Path) -> None:
    whole = wet(*((f"https://a.example/{name}", f"글 {name}".encode()) for name in "abc"), compress=False)
    second = whole.index(b"https://a.example/b")
    header = whole.rindex(b"WARC/1.0", 0, second)
    (tmp_path / "a.wet").write_bytes(whole[:header] + b"JUNK" + whole[header + 4 :])
    found = extract(tmp_path / "store", tmp_path / "a.wet", format="wet")
    assert found.texts == ["글 a", "글 c"]
    assert found.reasons == ["malformed_record"]


def test_two_records_of_one_address_are_two_documents(tmp_path: Path) -> None:
    pages = [("https://a.example/1", text.encode()) for text in ("첫 글", "다른 글")]
    (tmp_path / "a.wet").write_bytes(wet(*pages, compress=False))
    (tmp_path / "a.warc").write_bytes(warc(THREE[0], THREE[0], compress=False))
    for format in ("wet", "warc"):
        found = extract(tmp_path / "store", tmp_path / f"a.{format}", format=format)
        assert len({document.id for document in found.documents}) == 2
        assert len({document.url for document in found.documents}) == 1


def test_records_without_an_identifier_are_known_by_their_addresses(tmp_path: Path) -> None:
    blank = response(b"", ODD, more=b"WARC-Record-ID: \r\n")
    (tmp_path / "a.warc").write_bytes(b"".join(blank.replace(b"e/odd", b"e/%d" % number) for number in range(3)))
    found = extract(tmp_path / "store", tmp_path / "a.warc", format="warc")
    assert [document.id for document in found.documents] == [document_id("test", f"http://a.example/{n}") for n in range(3)]


@pytest.mark.parametrize("format", ["text", "jsonl", "csv", "html"])
def test_warc_read_as_something_else_is_named(format: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.wet").write_bytes(warc(*THREE, compress=False))
    (entry,) = extract(tmp_path / "store", path, format=format).quarantined
    assert 'these bytes are WARC: set format = "warc", or format = "wet"' in entry.remedy


@pytest.mark.parametrize("format", ["wet", "warc"])
def test_line_feeds_alone_end_lines(format: str, tmp_path: Path) -> None:
    if format == "wet":
        whole = wet(*((f"https://a.example/{name}", f"글 {name}".encode()) for name in "abc"), compress=False)
        whole = whole.replace(b"\r\n", b"\n")
    else:
        http = b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n" + ODD
        head = b"WARC/1.0\nWARC-Type: response\nWARC-Target-URI: http://a.example/%d\nContent-Length: %d\n\n%s\n\n"
        kind = b"Content-Type: application/http; msgtype=response\n"
        whole = b"".join(head.replace(b"Content-L", kind + b"Content-L") % (number, len(http), http) for number in range(3))
    (tmp_path / f"a.{format}").write_bytes(whole)
    found = extract(tmp_path / "store", tmp_path / f"a.{format}", format=format)
    assert len(found.documents) == 3 and not found.quarantined


def test_damage_is_weighed_by_what_is_lost(tmp_path: Path) -> None:
    """Bytes between records lose no record; each lost record counts, and so does a long part without records."""
    records = [wet((f"https://a.example/{name}", f"글 {name}".encode()), compress=False) for name in "abcdef"]
    texts = [f"글 {name}" for name in "abcdef"]
    length = b"Content-Length: 5"
    large, larger = b"Content-Length: 150", b"Content-Length: 9999999999"
    cases = {
        "before": (b"garbage\r\n" + b"".join(records), texts, ["malformed_record"]),
        "between": (b"garbage\r\n".join(records), texts, ["malformed_record"] * 5),
        "short": (records[0].replace(length, b"Content-Length: 3") + records[1], texts[1:2], ["malformed_record"]),
        "long": (records[0].replace(length, large) + records[1] + records[2], texts[1:3], ["malformed_record"]),
        "beyond": (records[0] + records[1].replace(length, larger) + records[2], ["글 a", "글 c"], ["record_too_long"]),
        "end": (records[0].replace(length, b"Content-Length: 9999") + records[1], texts[1:2], ["truncated_record"]),
        "none": (records[0] + b"x" * 600_000 + b"\r\n" + records[1], texts[:2], ["malformed_record"] * 10),
        "nowhere": (b"no record\n" * 60_000, [], ["malformed_record"] * 10),
    }
    for name, (whole, kept, reasons) in cases.items():
        (tmp_path / f"{name}.wet").write_bytes(whole)
        found = extract(tmp_path / name, tmp_path / f"{name}.wet", format="wet", bad_share_applies_from=100)
        assert (found.texts, found.reasons) == (kept, reasons), name


def response(headers: bytes, body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    """Return a response record with any headers."""
    http = b"HTTP/1.1 " + status + b"\r\nContent-Type: text/html\r\n" + headers + b"\r\n" + body
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/odd\r\n" + more
    kind = b"Content-Type: application/http; msgtype=response\r\n"
    return head + kind + b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(http), http)


CHUNKED = b"Transfer-Encoding: chunked\r\n"
ODD = page("<title>odd</title>")


@pytest.mark.parametrize(
    ("record", "fate"),
    [
        (response(CHUNKED, ODD), "odd"),  # the crawler joined the chunks and kept the header
        (response(CHUNKED + b"Content-Encoding: gzip\r\n", gzip.compress(ODD)), "odd"),
        (response(CHUNKED, b"%x;a=b\r\n%s\r\n0\r\nTrailer: 1\r\n\r\n" % (len(ODD), ODD)), "odd"),
        (response(b"X-Long: " + b"y" * 90_000 + b"\r\n", ODD), "odd"),
        (response(b"X-Many: yyyyyyyy\r\n" * 5_000, ODD), "odd"),
        (response(b"", ODD, more=b"X-Long: " + b"y" * 60_000 + b"\r\n"), "odd"),
        (response(CHUNKED, b"%x\r\n%s" % (len(ODD) + 1, ODD)), "truncated_body"),
        (response(CHUNKED, b"7fffffffffffffff\r\n" + ODD), "truncated_body"),
        (response(CHUNKED, b"5\r\n<html\r\n-5\r\nabc"), "corrupt_body"),
        (response(CHUNKED, b"zz\r\n" + ODD), "corrupt_body"),
        (response(CHUNKED, b"f" * 18 + b"\r\n" + ODD), "corrupt_body"),
        (response(CHUNKED, b"1" * 70_000), "corrupt_body"),
        (response(b"Transfer-Encoding: gzip, chunked\r\n", ODD), "corrupt_body"),
        (response(b"", ODD, status=b"9" * 20), "malformed_record"),
        (response(CHUNKED, b"zz", status=b"404 Not Found"), "not_a_page"),
    ],
)
def test_a_damaged_response_costs_no_other(record: bytes, fate: str, tmp_path: Path) -> None:
    before, after = (warc(one, compress=False) for one in THREE[:2])
    (tmp_path / "a.warc").write_bytes(before + record + after)
    found = extract(tmp_path / "store", tmp_path / "a.warc", format="warc")
    outcomes = [document.title for document in found.documents if document.title not in ("하나", "둘")]
    assert len(found.documents) - len(outcomes) == 2
    assert outcomes + [drop.reason for _, drop in found.dropped] + found.reasons == [fate]
    for entry in found.quarantined:
        assert f"byte {len(before)}" in entry.position and entry.remedy.startswith("http://a.example/odd: ")


@settings(max_examples=70)
@given(st.data())
def test_damaged_records_never_raise(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["warc", "wet"]))
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ODD), ODD)
    damaged = bytearray(response(data.draw(st.sampled_from([b"", CHUNKED, b"Transfer-Encoding: gzip\r\n"])), body))
    if kind == "wet":
        damaged = damaged.replace(b"WARC-Type: response", b"WARC-Type: conversion")
    pieces = [b"", b"\r\n", b":", b"\xff", b"\0", b"-1", b"9" * 30, b"\r\n\r\n", CHUNKED, b"HTTP/1.1", b"zz"]
    pieces.append(b"Content-Length: 5\r\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 350))
        damaged[at : at + data.draw(st.sampled_from([0, 1, 3, 20]))] = data.draw(st.sampled_from(pieces))
    raw = RawFile("a.warc", io.BytesIO(bytes(damaged) + response(b"", ODD)), ReadLimits())
    spec = ExtractSpec.model_validate({"source": "test", "format": kind})
    for part in frame(spec, raw):
        for outcome in parse(spec, part, Tally()):
            assert isinstance(outcome, Document | Dropped | Quarantined)


@pytest.mark.parametrize("damage", ["cut", "changed", "first", "last"])
def test_a_damaged_gzip_member_costs_no_other(damage: str, tmp_path: Path) -> None:
    first, second, third = (gzip.compress(warc(one, compress=False)) for one in THREE)
    whole, names = {
        "cut": (first + second[:150] + third, ["하나", "셋"]),
        "changed": (first + second[:100] + bytes([second[100] ^ 255]) + second[101:] + third, ["하나", "셋"]),
        "first": (first[:90] + second + third, ["둘", "셋"]),
        "last": (first + second + third[:150], ["하나", "둘"]),
    }[damage]
    (tmp_path / "a.warc.gz").write_bytes(whole)
    found = extract(tmp_path / "store", tmp_path / "a.warc.gz", format="warc")
    assert [document.title for document in found.documents] == names
    assert found.reasons in (["corrupt_file"], ["truncated_file"])


def test_a_cut_record_that_ends_at_a_line_end_of_the_next_costs_no_other(tmp_path: Path) -> None:
    first, second, third = (wet((f"https://a.example/{name}", f"글 {name}".encode()), compress=False) for name in "abc")
    length = len("글 b".encode()) + len(b"\r\n\r\n") + third.index(b"\r\n", third.rindex(b"WARC/1.0") + 40)
    cut = second.replace(b"Content-Length: 5", b"Content-Length: %d" % length)
    (tmp_path / "a.wet").write_bytes(first + cut + third)
    found = extract(tmp_path / "store", tmp_path / "a.wet", format="wet")
    assert (found.texts, found.reasons) == (["글 a", "글 c"], ["malformed_record"])
