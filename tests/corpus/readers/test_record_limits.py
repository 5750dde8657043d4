"""The limit of a record's size is exact in every format, and damaged marks cost no more time than others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus.extracting import extract
from tests.work import linear_work


@pytest.mark.parametrize("kind", ["jsonl", "json", "news", "books", "text", "namuwiki"])
def test_the_limit_of_records_is_exact(tmp_path: Path, kind: str) -> None:
    """Framing sees only records that are longer than a batch of 1 MB."""
    limit, texts = 1_024, ["앞의 글이다.", "뒤의 글이다."]

    def one(text: str) -> str:
        return (
            text
            if kind in ("books", "text")
            else json.dumps({"namespace": 0, "title": "제목", "text": text}, ensure_ascii=False)
        )

    def written(size: int) -> bytes:
        middle = (
            one("") + "x" * (size - len(one("").encode()))
            if kind in ("books", "text")
            else one("x" * (size - len(one("").encode())))
        )
        records = [one(texts[0]), middle, one(texts[1])]
        data = {"books": "text\n" + "\n".join(records) + "\n", "text": "\n\n".join(records)}
        as_list = "[" + ",".join(records) + "]"
        return data.get(kind, "\n".join(records) if kind == "jsonl" else as_list).encode()

    for size, reasons in ((limit - 1, []), (limit + 1, ["record_too_long"])):
        path = tmp_path / f"{size}.txt"
        path.write_bytes(written(size))
        found = extract(tmp_path / "store", path, format=kind, document="record", limits={"max_record_bytes": limit})
        assert found.reasons == reasons and len(found.documents) == 3 - len(reasons)


@pytest.mark.parametrize("kind", ["mediawiki", "wikiextractor", "jsonl", "json", "text", "books", "csv"])
@pytest.mark.parametrize("limit", [5_000, 2_000_000])
def test_what_is_around_a_record_does_not_count(tmp_path: Path, kind: str, limit: int) -> None:
    begin, end, before, after = {
        "mediawiki": (
            "<page>\n<title>글</title>\n<revision><text>",
            "</text></revision>\n</page>",
            "<mediawiki>\n",
            "</mediawiki>",
        ),
        "wikiextractor": ('<doc id="1" url="" title="글">\n', "\n</doc>", "\n", "\n"),
        "jsonl": ('{"text": "', '"}', "", ""),
        "json": ('{"text": "', '"}', "[\n", "\n]"),
        "text": ("", "", "\n\n", ""),
        "books": ("", "", "text\r\n", ""),
        "csv": ('"', '"', "text\r\n", ""),
    }[kind]
    for size, reasons in ((limit, []), (limit + 1, ["record_too_long"])):
        record = begin.encode() + b"x" * (size - len((begin + end).encode())) + end.encode()
        blanks = b"" if kind in ("wikiextractor", "text", "books", "csv") else b" " * 1_000
        path = tmp_path / f"{size}.txt"
        path.write_bytes(before.encode() + blanks + record + b"\r\n" + after.encode())
        found = extract(tmp_path / "store", path, format=kind, document="record", limits={"max_record_bytes": limit})
        assert found.reasons == reasons and len(found.documents) == 1 - len(reasons)


@pytest.mark.parametrize(
    ("kind", "begin", "unit", "end"),
    [
        ("jsonl", "[" * 1_050_000, '\\"', ""),
        ("text", "<sync start=1><p>글", "<!--", ""),
        ("wikiextractor", "<doc ", 'a="', 'x">\n글\n</doc>'),
        ("wikiextractor", '<doc title="', '" ', 'x">\n글\n</doc>'),
        ("wikiextractor", '<doc title="', "  ", "x>\n글\n</doc>"),
        ("wikiextractor", "", "</doc> <doc a", ""),
        ("wikiextractor", "", '<doc title="a">\n', ""),
    ],
)
def test_damaged_marks_take_linear_time(tmp_path: Path, kind: str, begin: str, unit: str, end: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"{begin}{unit * ((1 << 20) // len(unit))}{end}", "utf-8")
    with linear_work():
        extract(tmp_path / "store", path, format=kind, document="record")


@pytest.mark.parametrize("blank", ["\n\n", "\n \n", "\r\n\r\n", "\n\t \r\n"])
def test_paragraphs_of_a_long_file_are_separated_by_any_blank_line(
    tmp_path: Path, blank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korealbert.corpus.readers.framing.RAW_RECORDS_BYTES", 64)
    monkeypatch.setattr("korealbert.corpus.readers.framing.BYTES_PER_READ", 7)
    path = tmp_path / "a.txt"
    path.write_text(f"첫째\n줄\r\n{blank.join(['글', '가나다라마' * 100, *['글'] * 200, '끝'])}", "utf-8", newline="")
    found = extract(tmp_path / "store", path, format="text", document="record", limits={"max_record_bytes": 1_024})
    assert found.reasons == ["record_too_long"]
    assert found.texts == ["첫째\n줄\n글", *["글"] * 200, "끝"]
