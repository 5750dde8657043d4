"""A file of another format than the recipe's is quarantined whole, with the format that reads it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import get_args

import pytest

from korealbert.corpus.html.encoding import is_html
from korealbert.corpus.readers.other_formats import remedy_for
from korealbert.corpus.readers.spec import Format
from tests.archives import zipped
from tests.corpus.extracting import extract
from tests.work import linear_work

SENTENCE = "봄이 오면 강가에 버들이 먼저 푸르러진다."
OBJECT = json.dumps({"title": "강", "text": SENTENCE}, ensure_ascii=False)
DUMP = '<?xml version="1.0"?>\n<mediawiki xml:lang="ko">\n<page></page>\n</mediawiki>\n'
ARTICLES = f'<doc id="1" url="" title="강">\n{SENTENCE}\n</doc>\n'


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (f"{OBJECT}\n{OBJECT}\n", "json"),
        (f"[\n  {OBJECT}\n]\n", "json"),
        (DUMP, "mediawiki"),
        (ARTICLES, "wikiextractor"),
        (f"\ufeff<!DOCTYPE html>\n<p>{SENTENCE}", "html"),
    ],
)
def test_markup_and_json_are_no_plain_text(text: str, format: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text, "utf-8")
    for document in ("file", "record", "line"):
        (bad,) = extract(tmp_path / "store", tmp_path / "a.txt", format="text", document=document).quarantined
        assert (bad.reason, bad.position) == ("other_format", "byte 0")
        assert f'set format = "{format}"' in bad.remedy


@pytest.mark.parametrize(
    "text",
    [
        *("{가} [나]", '{"인용"이라고 했다.', "<b>강</b>가에", "<document>의 뜻", "[1] 버들이다.", "HTML의 <html>은"),
        *("<HTML> 입문\n책이다.", "<html 기초> 강의", "<!DOCTYPE html> 선언은", "<mediawiki> 문서의 뜻"),
        *(f"{OBJECT}은 객체이다.", f"{OBJECT}\n위는 객체이다.", f"[{OBJECT}]\n위는 배열이다."),
    ],
)
def test_plain_text_with_such_marks_is_text(text: str) -> None:
    assert not remedy_for(text.encode(), "text")


@pytest.mark.parametrize("kind", ["text", "news_text"])
@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (f"title,text\n강,{SENTENCE}\n", ""),
        (f'\ufeff번호,제목,내용\r\n1,강,"버들이다.\r\n{SENTENCE}"\r\n2,산,{SENTENCE}\r\n', ""),
        (f"제목;본문\n강;{SENTENCE}\n", ";"),
        (f'id\tdocument\tlabel\n1\t{SENTENCE}\t0\n2\t"버들\t1\n', "\\t"),
        ("".join(f"나루 {number}\t물이 깊다\n고개 {number}\t{SENTENCE * 3}\n" for number in range(3)), "\\t"),
        ("번호,제목,내용\n" + f'1,강,"{SENTENCE * 100}\n{SENTENCE}"\n' * 20, ""),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "cp949"])
def test_a_table_is_no_plain_text(kind: str, text: str, delimiter: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode(encoding, "ignore"))
    (bad,) = extract(tmp_path / "store", tmp_path / "a.txt", format=kind).quarantined
    wanted = f' and delimiter = "{delimiter}"' if delimiter else ""
    assert bad.reason == "other_format"
    assert bad.remedy == f'these bytes are a table: set format = "csv"{wanted}'


@pytest.mark.parametrize(
    "text",
    [
        *(
            "봄,여름\n가을,겨울\n",
            f"강,산\n{SENTENCE}\n들,내\n{SENTENCE}\n",
            "제목, 본문, 날짜를 적는다.\n그러나, 이름은, 적지 않는다.\n",
        ),
        *(f"강의 이름\t{SENTENCE}", f"강의 이름\t{SENTENCE}\n{SENTENCE}\n", f" \t{SENTENCE}\n" * 9, f"봄,\n여름,\n{SENTENCE}"),
    ],
)
def test_prose_with_commas_and_tabs_is_text(text: str) -> None:
    assert not remedy_for(text.encode(), "text") and not remedy_for(text.encode(), "news_text")


@pytest.mark.parametrize(
    "text",
    [
        f"1.\t{SENTENCE}\n2.\t{SENTENCE}\n" * 5,
        f"•\t{SENTENCE}\n" * 9,
        "".join(f"제{number}조\t{SENTENCE}\n" for number in range(9)),
        f"철수\t안녕?\n영희\t{SENTENCE}\n" * 5,
        "봄\t3\n여름\t10\n",
        "".join(f"{number}장 강과 산\t{number}\n" for number in range(99)) + f"{SENTENCE}\n" * 99,
    ],
    ids=["numbered", "bullets", "law", "dialogue", "two lines", "contents of a book"],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lists_and_dialogues_with_tabs_are_text(text: str, line_end: str) -> None:
    text = text.replace("\n", line_end)
    assert not remedy_for(text.encode(), "text") and not remedy_for(text.encode(), "news_text")


@pytest.mark.parametrize("kind", ["text", "jsonl", "json", "csv", "news_text", "namuwiki", "mediawiki", "wikiextractor"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_its_mark_names_the_encoding(kind: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(f"\ufefftext\r\n{OBJECT}\r\n".encode(encoding))
    (bad,) = extract(tmp_path / "store", tmp_path / "a.txt", format=kind).quarantined
    assert (bad.reason, bad.remedy) == ("other_format", 'these bytes are UTF-16: set encoding = "utf-16"')


@pytest.mark.parametrize(("encoding", "name"), [("utf-32", "UTF-32"), ("iso2022_kr", "ISO-2022-KR")])
@pytest.mark.parametrize("kind", ["text", "csv", "jsonl"])
def test_encodings_that_are_not_read_are_named(kind: str, encoding: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(f"{SENTENCE}\n{OBJECT}\n".encode(encoding))
    (bad,) = extract(tmp_path / "store", tmp_path / "a.txt", format=kind).quarantined
    assert bad.reason == "other_format" and bad.remedy.startswith(f"these bytes are {name}, which is not read: convert ")


def test_a_table_in_utf_16_without_its_mark_has_nul_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(f"text,title\r\n{SENTENCE},강\r\n".encode("utf-16-be"))
    found = extract(tmp_path / "store", tmp_path / "a.csv", format="csv")
    assert set(found.reasons) == {"nul_bytes"} and "UTF-16" in found.quarantined[0].remedy


@pytest.mark.parametrize("text", [f"[{OBJECT}, {OBJECT}]", f"[{OBJECT},\n{OBJECT}]\n", f"\ufeff [\n {OBJECT}\n]\n"])
def test_an_array_read_as_json_lines_names_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, "utf-8")
    (bad,) = extract(tmp_path / "store", tmp_path / "a.json", format="jsonl").quarantined
    assert (bad.reason, bad.remedy) == ("other_format", 'these bytes are a JSON array: set format = "json"')


def test_a_list_among_json_lines_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"[{OBJECT}]\n{OBJECT}\n", "utf-8")
    found = extract(tmp_path / "store", tmp_path / "a.jsonl", format="jsonl")
    assert (found.texts, found.reasons) == ([SENTENCE], ["wrong_type"])


@pytest.mark.parametrize("kind", ["text", "csv", "jsonl", "parquet", "html"])
@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "PDF, which is not read"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
            "a document of an office program (HWP, DOC, XLS), which is not read",
        ),
        (b"{\\rtf1\\ansi " + SENTENCE.encode(), "RTF, which is not read"),
        (b"SQLite format 3\0" + bytes(84), "SQLite, which is not read"),
        (zipped({"[Content_Types].xml": "<x/>", "word/document.xml": "<x/>"}), "an office document (DOCX, HWPX, ODT)"),
        (
            zipped({"mimetype": "application/hwp+zip", "a.xml": "<x/>"}, zipfile.ZIP_STORED),
            "an office document (DOCX, HWPX, ODT)",
        ),
    ],
    ids=["pdf", "hwp", "rtf", "sqlite", "docx", "hwpx"],
)
def test_what_no_source_reads_is_named(kind: str, data: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.x").write_bytes(data)
    (bad,) = extract(tmp_path / "store", tmp_path / "a.x", format=kind).quarantined
    assert bad.reason == "other_format" and bad.remedy.startswith(f"these bytes are {name}: convert ")


@pytest.mark.parametrize(
    ("data", "format"),
    [(f"{OBJECT}\n{OBJECT}\n", "json"), (f"title,text\n강,{SENTENCE}\n", "csv"), (f"<!DOCTYPE html>\n<p>{SENTENCE}", "html")],
)
def test_what_is_no_parquet_names_its_format(data: str, format: str, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text(data, "utf-8")
    (bad,) = extract(tmp_path / "store", tmp_path / "a.parquet", format="parquet").quarantined
    assert bad.reason == "other_format" and bad.remedy.endswith(f': set format = "{format}"')


@pytest.mark.parametrize("kind", ["warc", "wet"])
@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (f"<!DOCTYPE html>\n<p>{SENTENCE}".encode(), 'these bytes are html: set format = "html"'),
        (f"{OBJECT}\n".encode(), 'these bytes are json: set format = "json"'),
        (f"title,text\n강,{SENTENCE}\n".encode(), 'these bytes are a table: set format = "csv"'),
        (b"PAR1" + bytes(99), 'these bytes are Parquet: set format = "parquet"'),
        (SENTENCE.encode(), 'these bytes are plain text: set format = "text", or leave the file out by `members`'),
        (b"\0" + SENTENCE.encode(), "set the format that it has, if the whole file is no WARC"),
    ],
)
def test_what_is_no_warc_names_its_format(kind: str, data: bytes, remedy: str, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(data)
    (bad,) = extract(tmp_path / "store", tmp_path / "a.warc", format=kind).quarantined
    assert (bad.reason, bad.remedy) == (
        "malformed_record",
        f"no WARC header: {remedy}; the bytes up to the next one were left out",
    )


def test_a_warc_that_ends_in_its_first_header_is_not_told_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(b"WARC/1.0\r\nWARC-Type: response\r\n")
    (bad,) = extract(tmp_path / "store", tmp_path / "a.warc", format="warc").quarantined
    assert bad.remedy == "no WARC header; the bytes up to the next one were left out"


@pytest.mark.parametrize("kind", ["json", "jsonl", "news", "namuwiki"])
def test_an_object_without_fields_is_to_be_removed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}\n{}\n", "utf-8")
    found = extract(tmp_path / "store", tmp_path / "a.json", format=kind).quarantined
    assert [(bad.reason, bad.remedy) for bad in found] == [("missing_field", "the record has no fields: remove it")] * 2


def test_other_files_in_utf_16_are_no_pages() -> None:
    assert is_html(f"<p>{SENTENCE}".encode("utf-16"))
    for text in (SENTENCE, OBJECT, DUMP, ARTICLES):
        assert not is_html(text.encode("utf-16")) and not is_html(text.encode())


def test_subtitles_are_text_without_their_times(tmp_path: Path) -> None:
    """SubRip and WebVTT; an arrow or a time within prose stays."""
    cues = "1\n00:00:01,000 --> 00:00:02,500\n<i>강은 길다.</i>\n\n2\n00:01:02,345 --> 00:01:04,000 X1:1\n- 새가 온다.\n배다.\n"
    prose = "가 --> 나\n00:00:01,000 --> 다\n12:30 <i>가</i>"
    sources = ["\ufeff" + cues.replace("\n", "\r\n"), "WEBVTT\n\n" + cues.replace(",", "."), prose]
    paths = [tmp_path / name for name in ("a.srt", "b.vtt", "c.txt")]
    for path, source in zip(paths, sources, strict=True):
        path.write_text(source, "utf-8")
    found = extract(tmp_path / "store", paths, format="text", document="file")
    spoken = "강은 길다.\n- 새가 온다.\n배다."
    assert found.texts == [spoken, spoken, prose]


def test_nothing_but_the_lines_of_webvtt_is_text(tmp_path: Path) -> None:
    source = (
        "WEBVTT - 강\nKind: captions\nLanguage: ko\n\nNOTE\n누가 썼다\n\nSTYLE\n::cue {\n  color: red;\n}\n\n"
        "00:00:01.000 --> 00:00:02.000 align:start\n강은<00:00:01.500><c> 길다.</c>\n\nNOTE 하나\n\n"
        "00:02.000 --> 00:03.000\n<v 이서온>NOTE는 말이다. <1994>\nNOTE\nKind: 이것도.\n"
    )
    (tmp_path / "a.vtt").write_text(source, "utf-8")
    found = extract(tmp_path / "store", tmp_path / "a.vtt", format="text", document="file")
    assert found.texts == ["강은 길다.\nNOTE는 말이다. <1994>\nNOTE\nKind: 이것도."]


def test_sami_subtitles_are_text_also_with_marks_that_are_not_closed(tmp_path: Path) -> None:
    style = '<STYLE TYPE="text/css">\n<!--\nP {margin: 1pt;}\n.KRCC {Name: 한국어;}\n-->\n</STYLE>'
    head = f"<SAMI>\n<HEAD>\n<TITLE>영화</TITLE>\n{style}\n</HEAD>\n<BODY>\n"
    cues = (
        "<SYNC Start=1000><P Class=KRCC>\n강은 <i>길다</i>.<br>새가 온다.\n<SYNC Start=2000><P Class=KRCC>&nbsp;\n"
        "<SYNC Start=3000\n<P Class=KRCC\n배가 5 < 6, 간다.\n<sync start='4000'><p>끝이다.\n</BODY>\n</SAMI>\n"
    )
    (tmp_path / "a.smi").write_bytes((head + cues).encode("cp949"))
    found = extract(tmp_path / "store", tmp_path / "a.smi", format="text", encoding="auto")
    assert found.texts == ["강은 길다.\n새가 온다.\n\n배가 5 < 6, 간다.\n\n끝이다."]
    refused = extract(tmp_path / "store", tmp_path / "a.smi", format="text")
    assert "CP949" in refused.quarantined[0].remedy


TABLE = "".join(f"{number},{SENTENCE}\n" for number in range(6))
KINDS = {
    "json": f"{OBJECT}\n",
    "mediawiki": DUMP,
    "wikiextractor": ARTICLES,
    "html": f"<!DOCTYPE html>\n<p>{SENTENCE}",
    "csv": f"kop,inhoud\n{TABLE}",
    "text": f"{SENTENCE}\n" * 3,
    "XML": f'<?xml version="1.0"?>\n<texts><t>{SENTENCE}</t></texts>\n',
}
READERS = ("mediawiki", "wikiextractor", "namuwiki", "news", "jsonl", "json", "csv", "parquet", "arrow", "html")
READ_ANYWAY = {*((each, "json") for each in ("namuwiki", "news", "jsonl", "json")), ("csv", "text"), ("csv", "XML")}
"""Pairs in which the reader finds something of its own, or an error of its own says what is missing."""


@pytest.mark.parametrize(
    ("reader", "kind"),
    [(r, k) for r in READERS for k in KINDS if r != k and (r, k) not in READ_ANYWAY | {("html", "text"), ("html", "XML")}],
)
def test_every_other_format_is_named(reader: str, kind: str) -> None:
    remedy = remedy_for(KINDS[kind].encode(), reader)
    assert "XML, which is not read" in remedy if kind == "XML" else f'set format = "{kind}"' in remedy


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ("jsonl", f'": 1}}\n{OBJECT}\n'),
        ("jsonl", f"{SENTENCE}\n{OBJECT}\n"),
        ("jsonl", '"가", "나"]\n'),
        ("json", "null\n"),
        ("news", f"1\n  {OBJECT}\n"),
        ("mediawiki", f"{SENTENCE}</text></revision></page>\n<page><title>가</title></page>\n"),
        ("mediawiki", '<?xml version="1.0"?>\n<!-- 나 -->\n<mediawiki>\n<page></page></mediawiki>\n'),
        ("wikiextractor", f"{SENTENCE}\n</doc>\n{ARTICLES}"),
        ("html", f"{SENTENCE},<b>강</b>\n" * 9),
        ("csv", f'{{"a": 1}}\t{SENTENCE}\n' * 9),
        ("parquet", "\0\1\2\3"),
    ],
)
def test_a_broken_first_record_is_no_other_format(reader: str, text: str) -> None:
    assert not remedy_for(text.encode(), reader)


@pytest.mark.parametrize(
    "unit", [b"\n", b" ", b" \n", b"}", b"} ,", b"}, {", b"<", b"a,", b"{", b'"', b"<?xml ", "가".encode(), b"1\t2\n"]
)
def test_recognition_takes_linear_time(unit: bytes) -> None:
    with linear_work():
        for format in ("", *get_args(Format)):
            remedy_for(unit * ((1 << 20) // len(unit)), format)
