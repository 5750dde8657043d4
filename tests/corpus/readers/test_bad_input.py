"""Bad input is quarantined with file, position, reason and remedy, and everything around it is kept."""

from __future__ import annotations

import json
import tracemalloc
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.archives import compressed, tar
from tests.corpus.extracting import PAGE, extract

SENTENCE = "봄이 오면 강가에 버들이 먼저 푸르러진다."


def record(text: str) -> str:
    return json.dumps({"text": text}, ensure_ascii=False)


def test_empty_files_of_every_format(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_bytes(b"")
    for kind in ("mediawiki", "wikiextractor", "namuwiki", "news", "news_text", "books", "jsonl", "json", "text"):
        found = extract(tmp_path / "store", path, format=kind)
        assert (found.reasons, found.quarantined[0].file) == (["empty_file"], "empty.json")


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_truncated_compression_keeps_what_was_read_before(tmp_path: Path, kind: str) -> None:
    noise = [
        f"{number * 2654435761 % 2**32:08x}" for number in range(120_000)
    ]  # hardly compressible, so that half of the file has records
    data = "".join(record(f"{SENTENCE} {' '.join(noise[n : n + 30])}") + "\n" for n in range(0, 120_000, 30)).encode()
    packed = compressed(kind, data)
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    found = extract(tmp_path / "store", path, format="jsonl")
    (bad,) = found.quarantined
    assert (bad.file, bad.reason) == (f"a.jsonl.{kind}", "truncated_file")
    assert int(bad.position.removeprefix("byte ")) > len(data) // 2 - (1 << 18)
    assert len(found.documents) > 1000


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_a_file_that_is_not_compressed_as_its_name_says(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_text(record(SENTENCE) * 50, "utf-8")
    found = extract(tmp_path / "store", path, format="jsonl")
    assert (found.reasons, found.quarantined[0].position) == (["corrupt_file"], "byte 0")
    assert "fetch the file again" in found.quarantined[0].remedy


def test_a_truncated_archive_keeps_its_whole_members(tmp_path: Path) -> None:
    archive = tar({f"{n}.jsonl": (record(SENTENCE) + "\n").encode() * 100 for n in range(4)})
    path = tmp_path / "a.tar"
    path.write_bytes(archive[:30_000])
    found = extract(tmp_path / "store", path, format="jsonl")
    assert len(found.quarantined) == 1
    assert found.quarantined[0].file.startswith("a.tar")
    assert len(found.documents) >= 200
    path.write_bytes(b"this is no archive" * 100)
    found = extract(tmp_path / "store", path, format="jsonl")
    assert (found.reasons, found.quarantined[0].file) == (["corrupt_archive"], "a.tar")


def test_an_archive_without_a_matching_member(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({"a.txt": b"x"}))
    found = extract(tmp_path / "store", path, format="jsonl", members="*.jsonl")
    assert found.reasons == ["no_members"]
    assert "'*.jsonl'" in found.quarantined[0].remedy


def test_an_archive_without_a_member(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({}))
    [bad] = extract(tmp_path / "store", tmp_path / "a.tar", format="text").quarantined
    assert (bad.reason, bad.remedy) == ("no_members", "it holds no file that is to be read: leave it out, or fetch it again")


def test_a_decompression_bomb_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(compressed("gz", b"a" * 30_000_000))
    limits = {"max_decompression_ratio": 100, "ratio_applies_above_bytes": 1_000_000}
    found = extract(tmp_path / "store", path, format="jsonl", limits=limits)
    assert found.reasons == ["decompression_bomb"]
    assert 500_000 <= int(found.quarantined[0].position.removeprefix("byte ")) <= 2_000_000


def test_a_line_of_60_mb_is_left_out_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    before, after = record("앞의 기록이다."), record("뒤의 기록이다.")
    path.write_bytes(compressed("gz", f"{before}\n{'x' * 60_000_000}\n{after}\n".encode()))
    tracemalloc.start()
    found = extract(tmp_path / "store", path, format="jsonl", limits={"max_record_bytes": 8_000_000})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.texts == ["앞의 기록이다.", "뒤의 기록이다."]
    (bad,) = found.quarantined
    assert (bad.reason, bad.position) == ("record_too_long", f"line 2, byte {len(before.encode()) + 1}")
    assert "limits.max_record_bytes (8,000,000)" in bad.remedy
    assert peak < 40_000_000


@pytest.mark.parametrize("kind", ["jsonl", "json", "books", "mediawiki", "wikiextractor", "text", "namuwiki", "news_text"])
def test_records_beyond_the_limit_cost_only_themselves(tmp_path: Path, kind: str) -> None:
    long = "가나다라 " * 200_000
    shapes: dict[str, list[str]] = {
        "jsonl": ["", record("앞의 글이다.") + "\n", record(long) + "\n", record("뒤의 글이다.") + "\n"],
        "json": ["[", record("앞의 글이다."), "," + record(long + '\\\\" }] '), "," + record("뒤의 글이다.") + "]"],
        "books": ["text\n", "앞의 글이다.\n", f'"{long}"\n', "뒤의 글이다.\n"],
        "mediawiki": [
            "<mediawiki>\n",
            *(PAGE.format(title=n, id=n, text=text) for n, text in enumerate(("앞의 글이다.", long, "뒤의 글이다."))),
        ],
        "wikiextractor": [
            "",
            *(f'<doc id="{n}" title="{n}">\n{t}\n</doc>\n' for n, t in enumerate(("앞의 글이다.", long, "뒤의 글이다."))),
        ],
        "text": ["", "앞의 글이다.\n\n", f"{long}\n\n", "뒤의 글이다.\n"],
        "namuwiki": [
            "[",
            *(
                json.dumps({"namespace": 0, "title": str(n), "text": text}) + end
                for n, (text, end) in enumerate((("앞의 글이다.", ","), (long, ","), ("뒤의 글이다.", "]")))
            ),
        ],
        "news_text": ["", f"제목\t{long}", "", ""],
    }
    path = tmp_path / "a.txt"
    path.write_text("".join(shapes[kind]) + ("</mediawiki>" if kind == "mediawiki" else ""), "utf-8")
    found = extract(tmp_path / "store", path, format=kind, document="record", limits={"max_record_bytes": 300_000})
    assert found.reasons == ["record_too_long"]
    assert found.texts == ([] if kind == "news_text" else ["앞의 글이다.", "뒤의 글이다."])


def test_invalid_utf8_names_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = record(SENTENCE).encode() + b"\n"
    path.write_bytes(good + b'{"text": "\xff\xfe\xea"}\n' + good)
    found = extract(tmp_path / "store", path, format="jsonl")
    assert found.texts == [SENTENCE, SENTENCE]
    (bad,) = found.quarantined
    assert (bad.reason, bad.position) == ("invalid_utf8", f"line 2, byte {len(good) + 10}")
    assert "byte 0xFF is not UTF-8" in bad.remedy


@pytest.mark.parametrize("kind", ["jsonl", "json", "books", "text", "news_text", "mediawiki", "wikiextractor", "namuwiki"])
def test_cp949_read_as_utf8_says_so(tmp_path: Path, kind: str) -> None:
    text = {
        "jsonl": record(SENTENCE),
        "json": f"[{record(SENTENCE)}]",
        "books": f"text\n{SENTENCE}\n",
        "text": SENTENCE,
        "news_text": f"제목\t{SENTENCE}",
        "mediawiki": f"<mediawiki>{PAGE.format(title='봄', id=1, text=SENTENCE)}</mediawiki>",
        "wikiextractor": f'<doc id="1" title="봄">\n봄\n\n{SENTENCE}\n</doc>\n',
        "namuwiki": json.dumps([{"namespace": 0, "title": "봄", "text": SENTENCE}], ensure_ascii=False),
    }[kind]
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode("cp949"))
    found = extract(tmp_path / "store", path, format=kind)
    assert found.reasons == ["invalid_utf8"]
    assert found.quarantined[0].remedy == 'the file looks like CP949: set encoding = "cp949"'
    for encoding in ("cp949", "auto"):
        assert extract(tmp_path / "store", path, format=kind, encoding=encoding).texts == [SENTENCE]


def test_automatic_encoding_is_decided_file_by_file(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"plain ascii " * 30_000 + SENTENCE.encode("cp949"))
    (folder / "b.txt").write_bytes(b"\xef\xbb\xbf" + SENTENCE.encode())
    (folder / "c.txt").write_bytes(SENTENCE.encode("cp949"))
    found = extract(tmp_path / "store", folder, format="text", document="file", encoding="auto")
    assert [text[-len(SENTENCE) :] for text in found.texts] == [SENTENCE] * 3


def test_nul_bytes_name_their_position(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(f"{record(SENTENCE)}\n".encode() + b'{"text": "ab\0c"}\n')
    (bad,) = extract(tmp_path / "store", path, format="jsonl").quarantined
    start = len(record(SENTENCE).encode()) + 1
    assert (bad.reason, bad.position) == ("nul_bytes", f"line 2, byte {start + 12}")
    utf16 = tmp_path / "b.jsonl"
    utf16.write_bytes(record(SENTENCE).encode("utf-16"))
    assert "UTF-16" in extract(tmp_path / "store", utf16, format="jsonl").quarantined[0].remedy


@pytest.mark.parametrize(
    ("line", "reason", "field"),
    [
        ('{"text": "끝이 없다', "malformed_json", ""),
        ("{'text': 1}", "malformed_json", ""),
        ('{"text": "하나.", "title": "가", "text": "둘."}', "duplicate_key", "text"),
        ('["text"]', "wrong_type", ""),
        ('{"text": 7}', "wrong_type", "text"),
        ('{"text": null}', "missing_field", "text"),
        ('{"body": "글"}', "missing_field", "text"),
        ("[" * 100_000, "malformed_json", ""),
        ('{"text": ' + "9" * 5000 + "}", "malformed_json", ""),
    ],
)
def test_records_that_are_no_documents(tmp_path: Path, line: str, reason: str, field: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{record(SENTENCE)}\n{line}\n{record(SENTENCE)}\n", "utf-8")
    found = extract(tmp_path / "store", path, format="jsonl")
    assert found.texts == [SENTENCE, SENTENCE]
    (bad,) = found.quarantined
    assert (bad.reason, bad.field, bad.position.split(",")[0]) == (reason, field, "line 2")
    assert len(bad.excerpt) <= 200


def test_lone_surrogates_and_controls_do_not_reach_a_document(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "가\\ud800나\\u0000다\\u200b라", "title": "\\udfff제목\\n둘째"}\n', "utf-8")
    (document,) = extract(tmp_path / "store", path, format="jsonl").documents
    assert (document.text, document.title) == ("가나다라", "제목 둘째")


def test_an_array_that_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f"[\n{record(SENTENCE)},\n", "utf-8")
    found = extract(tmp_path / "store", path, format="json")
    assert (found.texts, found.reasons) == ([SENTENCE], ["truncated_json"])
    path.write_text(f'[\n{record(SENTENCE)},\n{{"text": "잘', "utf-8")
    found = extract(tmp_path / "store", path, format="json")
    assert (found.texts, found.reasons) == ([SENTENCE], ["truncated_json"])


def test_a_last_line_that_is_cut_anywhere_is_no_malformed_one(tmp_path: Path) -> None:
    whole = r'{"text": "가\u00e9\n", "b": [true, false, null, -1.5e-10, 3E+5, NaN, -Infinity, {"c": {}}], "d":  7'
    ends = [end for end in range(1, len(whole) + 1) if not whole[:end].endswith("]")]
    (tmp_path / "cut").mkdir()
    for end in ends:
        (tmp_path / "cut" / f"{end}.jsonl").write_text(f"{record(SENTENCE)}\n{whole[:end]}", "utf-8")
    assert extract(tmp_path / "store", tmp_path / "cut", format="jsonl").reasons == ["truncated_json"] * len(ends)


@pytest.mark.parametrize(
    "line", ['{"text":"가",}', '{"text":tru}', '{"text":"가" "b":1}', '{"a":[1,}]}', '{"a":.5}', "{'a':1}", "{broken"]
)
def test_a_last_line_that_is_whole_is_not_cut(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{record(SENTENCE)}\n{line}\n", "utf-8")
    found = extract(tmp_path / "store", path, format="jsonl")
    assert (found.texts, found.reasons, found.stats["files_cut"]) == ([SENTENCE], ["malformed_json"], 0)


def test_an_array_that_is_cut_within_a_character_keeps_the_records_that_a_broken_one_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    broken = f"[{record(SENTENCE)},\n{record('빠진 괄호')[:-1]},\n{record(SENTENCE)},\n".encode()
    path.write_bytes(broken + '{"text": "잘'.encode()[:-1])
    found = extract(tmp_path / "store", path, format="json")
    assert (found.texts, found.reasons) == ([SENTENCE, SENTENCE], ["malformed_json", "truncated_text"])
    cut = found.quarantined[1]
    assert (cut.position, cut.remedy.split(":")[1]) == (f"line 4, byte {len(broken) + 10}", " fetch it again")
    path.write_bytes(broken + b'{"text": "\xff"}]')
    assert extract(tmp_path / "store", path, format="json").texts == [SENTENCE, SENTENCE]


def test_quotes_that_swallow_rows_are_told_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'text,n\n{SENTENCE},1\n"따옴표" 뒤의 글,2\n{SENTENCE},3\n"끝나지 않는 글,4\n', "utf-8")
    found = extract(tmp_path / "store", path, format="books", fields={"text": "text"})
    assert found.texts == [SENTENCE, SENTENCE]
    assert [(bad.reason, bad.position) for bad in found.quarantined] == [
        ("malformed_csv", "line 3"),
        ("malformed_csv", "line 5"),
    ]


@pytest.mark.parametrize("kind", ["json", "news", "namuwiki", "jsonl"])
def test_a_record_nested_100_000_deep_costs_itself(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.json"
    good = json.dumps({"namespace": "0", "title": "봄", "text": SENTENCE})
    path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000 + "\n" + good + "\n", "utf-8")
    found = extract(tmp_path / "store", path, format=kind)
    assert (found.texts, found.reasons) == ([SENTENCE], ["malformed_json"])


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (
            "jsonl",
            '{"text":"a","x":[' + "[]," * 1_100_000 + "[]]}\n" + json.dumps({"text": SENTENCE}) + "\n",
            "too_many_values",
        ),
        ("csv", "title,text\n" + "," * 3_000_000 + f"\na,{SENTENCE}\n", "malformed_csv"),
    ],
)
def test_a_record_of_millions_of_values_costs_little_memory(tmp_path: Path, kind: str, content: str, reason: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content, "utf-8")
    tracemalloc.start()
    found = extract(tmp_path / "store", path, format=kind)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.texts, found.reasons) == ([SENTENCE], [reason])
    assert peak < 40_000_000


def test_a_text_of_millions_of_commas_is_one_value(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": 'a,"[' * 600_000}) + "\n", "utf-8")
    assert [len(text) for text in extract(tmp_path / "store", path, format="jsonl").texts] == [2_400_000]


def test_lone_surrogates_in_names_can_be_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(r'{"\ud800":"a","titel":"x"}' + "\n", "utf-8")
    found = extract(tmp_path / "store", path, format="json")
    assert found.reasons == ["missing_field"]
    assert r"\ud800, titel" in found.quarantined[0].remedy
    good = json.dumps({"namespace": "0", "title": "봄", "text": SENTENCE})
    path.write_text(f'[{{"namespace":"\\ud800","title":"x","text":"y"}},{good},{good}]', "utf-8")
    found = extract(tmp_path / "store", path, format="namuwiki")
    assert found.stats["namespaces"] == {"0": 2, "\\ud800": 1}
    path.write_text('[{"\\ud800":"","title":"x","text":"y"}]', "utf-8")
    assert extract(tmp_path / "store", path, format="namuwiki").reasons == ["missing_field"]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0c", "\x1c"])
def test_only_line_feeds_end_the_rows_of_a_table(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"\r\ntitle,text\r\n봄,강가에{mark}버들이 푸르다.\r\n".encode())
    found = extract(tmp_path / "store", path, format="books")
    assert (found.reasons, [document.title for document in found.documents]) == ([], ["봄"])
    assert found.texts[0].endswith("버들이 푸르다.")


def test_a_long_field_of_a_table_is_a_field(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"text\n{'봄이 오면 ' * 40_000}\n", "utf-8")
    assert [len(text) for text in extract(tmp_path / "store", path, format="books").texts] == [239_999]


def numbered(count: int) -> list[str]:
    return [json.dumps({"id": str(n), "text": f"{n}째 {SENTENCE}", "more": [{"id": 1}, {"id": 2}]}) for n in range(count)]


@pytest.mark.parametrize(("between", "limit"), [(",", 2000), (",\n", 1 << 20), (",\n", 2000), ("\n", 1 << 20)])
@pytest.mark.parametrize("damaged", [0, 7, 49])
@pytest.mark.parametrize("damage", [('"text"', 'text"'), ('"more"', '"more'), ('"id"', '"id'), ("}]}", "}]"), ("}]}", "}]}}")])
def test_a_missing_quote_or_brace_costs_its_record_alone(
    tmp_path: Path, between: str, damaged: int, damage: tuple[str, str], limit: int
) -> None:
    written = numbered(50)
    written[damaged] = written[damaged].replace(*damage, 1)
    data = between.join(written) if between == "\n" else f"[{between.join(written)}]"
    path = tmp_path / "a.json"
    path.write_text(data, "utf-8")
    found = extract(tmp_path / "store", path, format="json", max_bad_share=0.2, limits={"max_record_bytes": limit})
    lost = set(range(50)) - {int(text.partition("째")[0]) for text in found.texts}
    assert lost <= {damaged, damaged + 1}
    assert damaged in lost or damage[1] == "}]}}"
    assert 1 <= len(found.quarantined) <= 4
    assert all(reason in ("malformed_json", "unclosed_json") for reason in found.reasons)
    if between != "\n" and damage[1] != "}]}}":
        begin = data.encode().index(written[damaged].encode())
        places = [int(bad.position.rpartition("byte ")[2]) for bad in found.quarantined]
        assert any(begin <= place <= begin + len(written[damaged]) + 40 for place in places)


@pytest.mark.parametrize("broken", ['나,"열린 글', '"나,열린 글', '나,"열린 글\n그다음 줄'])
def test_an_unclosed_quote_does_not_swallow_the_rows_behind_it(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "a.csv"
    rows = [f"글 {number},{number}째 {SENTENCE}" for number in range(40)]
    path.write_text("\n".join(["title,text", *rows[:20], broken, *rows[20:]]) + "\n", "utf-8")
    found = extract(tmp_path / "store", path, format="books")
    assert [document.title for document in found.documents] == [f"글 {number}" for number in range(40)]
    assert [(bad.reason, bad.position) for bad in found.quarantined] == [("malformed_csv", "line 22")]


def test_a_column_that_the_header_names_twice_is_refused_if_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"title,text,text\n봄,{SENTENCE},다른 글\n", "utf-8")
    (bad,) = extract(tmp_path / "store", path, format="books").quarantined
    assert (bad.reason, bad.field) == ("duplicate_column", "text")
    path.write_text(f"title,x,text,x,,\n봄,1,{SENTENCE},2,,\n", "utf-8")
    assert extract(tmp_path / "store", path, format="books").texts == [SENTENCE]
    assert extract(tmp_path / "store", path, format="books", fields={"id": "", "outlet": ""}).texts == [SENTENCE]


def test_the_text_may_be_named_as_required_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "{SENTENCE}"}}\n{{"title": "제목"}}\n', "utf-8")
    found = extract(tmp_path / "store", path, format="jsonl", fields={"required": ["text"]}, max_bad_share=1.0)
    assert found.texts == [SENTENCE]
    assert [(bad.reason, bad.field) for bad in found.quarantined] == [("missing_field", "text")]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "text"])
@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_of_fields_may_be_decomposed(tmp_path: Path, kind: str, forms: tuple[str, str]) -> None:
    text, title = (unicodedata.normalize(forms[0], name) for name in ("본문", "제목"))
    path = tmp_path / "a"
    if kind == "parquet":
        pq.write_table(pa.table({title: ["봄"], text: [SENTENCE]}), path)
    else:
        row = json.dumps({title: "봄", text: SENTENCE}, ensure_ascii=False)
        front = f"---\n{title}: 봄\n---\n{SENTENCE}"
        path.write_text({"csv": f"{title},{text}\n봄,{SENTENCE}\n", "text": front}.get(kind, row), "utf-8")
    fields = {"text": unicodedata.normalize(forms[1], "본문"), "title": unicodedata.normalize(forms[1], "제목")}
    (found,) = extract(tmp_path / "store", path, format=kind, fields=fields).documents
    assert (found.title, found.text) == ("봄", SENTENCE)


def test_a_table_without_a_header_is_told_to_name_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"봄,{SENTENCE}\n여름,{SENTENCE}\n", "utf-8")
    (bad,) = extract(tmp_path / "store", path, format="csv").quarantined
    assert (bad.reason, "without a header, set columns" in bad.remedy) == ("missing_field", True)


@pytest.mark.parametrize("header", ["\ufeff\ufefftitle,text", " title , text ", '\ufeff"title",text\u00a0'])
def test_marks_and_blanks_around_column_names_do_not_count(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n봄,\ufeff{SENTENCE}\n", "utf-8")
    (document,) = extract(tmp_path / "store", path, format="books").documents
    assert (document.title, document.text) == ("봄", SENTENCE)


@pytest.mark.parametrize("kind", ["books", "jsonl", "text", "json"])
def test_lines_may_end_in_carriage_returns_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.txt"
    lines = {
        "books": ["title,text", f"봄,{SENTENCE}", f"봄,{SENTENCE}"],
        "jsonl": [record(SENTENCE)] * 2,
        "json": [record(SENTENCE)] * 2,
        "text": [SENTENCE, "", SENTENCE],
    }[kind]
    path.write_bytes("".join(f"{line}\r" for line in lines).encode())
    found = extract(tmp_path / "store", path, format=kind, document="record")
    assert (found.texts, found.reasons) == ([SENTENCE, SENTENCE], [])


def test_joined_files_may_have_byte_order_marks_between_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"\ufeff{record(SENTENCE)}\n\ufeff{record(SENTENCE)}\n\ufeff{{'text': 1}}\n", "utf-8")
    found = extract(tmp_path / "store", path, format="jsonl")
    assert (found.texts, found.reasons) == ([SENTENCE, SENTENCE], ["malformed_json"])


@pytest.mark.parametrize(("kind", "name"), [("text", "a.txt"), ("csv", "a.csv"), ("jsonl", "a.jsonl"), ("json", "a.json")])
def test_utf_16_without_its_mark_is_quarantined_by_name(kind: str, name: str, tmp_path: Path) -> None:
    bare, marked = tmp_path / name, tmp_path / f"b{name}"
    text = {"text": SENTENCE, "csv": f"text\n{SENTENCE}\n"}.get(kind, record(SENTENCE))
    bare.write_bytes(text.encode("utf-16-le"))
    marked.write_text(text, "utf-16")
    found = extract(tmp_path / "store", [bare, marked], format=kind, encoding="utf-16")
    assert [document.text for document in found.documents] == [SENTENCE]
    (entry,) = found.quarantined
    assert (entry.file, entry.reason) == (name, "invalid_utf16") and "convert it to UTF-8" in entry.remedy
