"""How ``korealbert new`` reads archives and files of any content; what it reports as left out is not read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.documents.shards import read_documents
from korealbert.recipe.new import project, sources
from korealbert.recipe.new.delimited import table_of_csv, table_of_text
from korealbert.recipe.tables import RecipeError
from tests.archives import tar, zipped
from tests.corpus.extracting import PAGE, dump, extract
from tests.recipe.new.test_project import built, prose, records, table, written

TWIN = b"\0\5\x16\7\0\2\0\0Mac OS X        " + b"\0" * 60
"""The AppleDouble file that macOS writes beside each file."""


def packed(path: Path, members: dict[str, str | bytes]) -> Path:
    """Write a zip or tar archive of these members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {name: text if isinstance(text, bytes) else text.encode() for name, text in members.items()}
    path.write_bytes(zipped(data) if path.suffix == ".zip" else tar(data))
    return path


def texts_of(mine: Path) -> list[str]:
    """Extract all documents of a project, none of which may be quarantined."""
    stages = built(mine / "recipe.toml", mine / "store", "extract")
    assert not any(artifact.stats["quarantined"] for artifact in stages.values())
    return sorted(d.text for a in stages.values() for path in a.files("documents-*.arrow") for d in read_documents(path))


@pytest.mark.parametrize("place", ["a.zip", "d/a.zip", "a.tar"])
def test_members_of_archives_that_are_left_out_are_not_read(place: str, tmp_path: Path) -> None:
    below = "./" if place.endswith(".tar") else ""
    texts: dict[str, str | bytes] = {f"{below}t/{n}.txt": prose(n) for n in range(30)}
    other = {
        "README.txt": "무엇",
        "LICENSE.txt": "누구",
        "t/README.txt": "무엇",
        "t/.hidden.txt": prose(90),
        ".h.txt": prose(91),
    }
    texts |= {f"{below}{name}": text for name, text in other.items()} | {f"{below}t/.git/a.txt": prose(92)}
    archive = packed(tmp_path / place, texts)
    found = project.write(tmp_path / "mine", [archive.parent if "/" in place else archive])
    assert found.left_out == {"LICENSE.txt": 1, "README.txt": 2}
    assert [source.files for source in found.sources] == [30]
    assert texts_of(tmp_path / "mine") == sorted(map(prose, range(30)))


@pytest.mark.parametrize("place", ["a.zip", "a.tar", "d"])
def test_twins_that_macos_writes_are_not_read_and_are_counted(place: str, tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"t/{n}.txt": prose(n) for n in range(30)}
    texts |= {f"t/._{n}.txt": TWIN for n in range(30)} | {f"__MACOSX/t/._{n}.txt": TWIN for n in range(30)}
    here = packed(tmp_path / place, texts) if "." in place else written(tmp_path / place, texts)
    stats = extract(tmp_path / "store", here, format="text", members="*.txt").stats
    assert (stats["documents_out"], stats["quarantined"], stats["files"], stats["twins"]) == (30, 0, 30, 60)
    assert [source.files for source in project.write(tmp_path / "mine", [here]).sources] == [30]
    assert texts_of(tmp_path / "mine") == sorted(map(prose, range(30)))


@pytest.mark.parametrize("folders", [False, True])
def test_many_members_of_two_shapes_are_each_read_once(folders: bool, tmp_path: Path) -> None:
    commas = {f"{'a/' * folders}{n}.csv": table("n,text", rows=2, first=3 * n) for n in range(25)}
    others = {f"{'b/' * folders}x{n}.csv": table("n;body", rows=2, first=300 + 3 * n, delimiter=";") for n in range(25)}
    found = project.write(tmp_path / "mine", [packed(tmp_path / "a.zip", {**commas, **others})]).sources
    assert sorted((source.delimiter, source.files) for source in found) == [("", 25), (";", 25)]
    assert not folders or sorted(source.exclude for source in found) == [("a/*",), ("b/*",)]
    assert len(texts_of(tmp_path / "mine")) == 100


def test_archives_that_exclude_what_another_has_are_sources_of_their_own(tmp_path: Path) -> None:
    first = {f"{n}.csv": table("n,text" if n < 25 else "n,body", rows=2, first=3 * n) for n in range(50)}
    second = {f"{n}.csv": table("n,text" if n >= 25 else "n,body", rows=2, first=200 + 3 * n) for n in range(50)}
    packed(tmp_path / "d" / "a.zip", {**first})
    packed(tmp_path / "d" / "b.zip", {**second})
    found = project.write(tmp_path / "mine", [tmp_path / "d"]).sources
    assert sorted((source.fields["text"], source.files) for source in found) == [*[("body", 25)] * 2, *[("text", 25)] * 2]
    assert len(texts_of(tmp_path / "mine")) == 200


def test_files_beside_an_archive_are_one_source_whatever_is_excluded_there(tmp_path: Path) -> None:
    here = written(tmp_path / "d", {f"x/{n}.csv": table("n,text", rows=2, first=3 * n) for n in range(30)})
    inside = {f"{n}.csv": table("n;body", rows=2, first=200 + 3 * n, delimiter=";") for n in range(30)}
    packed(here / "a.zip", {**inside, "t.csv": table("n,text", rows=2, first=400)})
    found = project.write(tmp_path / "mine", [here]).sources
    assert sorted((source.delimiter, source.files) for source in found) == [("", 1), ("", 30), (";", 30)]
    assert len(texts_of(tmp_path / "mine")) == 122


DOC = '<doc id="{0}" url="https://ko.wikipedia.org/wiki?curid={0}" title="글 {0}">\n글 {0}\n\n{1}\n\n</doc>\n'


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ({"a.txt": "".join(json.dumps({"text": prose(n)}) + "\n" for n in range(30))}, "jsonl"),
        ({f"{n}.txt": json.dumps({"text": prose(n)}, indent=1) for n in range(30)}, "json"),
        ({"a.txt": json.dumps([{"text": prose(n)} for n in range(30)])}, "json"),
        ({"a.txt": table("번호,내용", rows=30)}, "csv"),
        ({"a.txt": "".join(DOC.format(n, prose(n)) for n in range(30))}, "wikiextractor"),
        ({"a.txt": dump(*(PAGE.format(id=n, title=f"글 {n}", text=prose(n)) for n in range(30))).decode()}, "mediawiki"),
        (
            {f"{n}.txt": f"<!DOCTYPE html><html><body><article><p>{prose(n)}</p></article></body></html>" for n in range(30)},
            "html",
        ),
    ],
    ids=["lines of JSON", "an object a file", "a list", "CSV", "WikiExtractor", "a dump", "HTML"],
)
def test_text_files_that_hold_another_format_are_read_as_that(texts: dict[str, str], kind: str, tmp_path: Path) -> None:
    here = written(tmp_path / "t", {**texts, "z.txt": "\n\n".join(map(prose, range(50, 80)))})
    found = project.write(tmp_path / "mine", [here]).sources
    assert sorted(source.format for source in found) == sorted([kind, "text"])
    read = texts_of(tmp_path / "mine")
    assert len(read) == 60 and not any(mark in text for text in read for mark in '{<"')


@pytest.mark.parametrize(
    "text",
    [
        "봄이 오면, 꽃이 핀다\n" * 9,
        "[앵커] 오늘 소식, 전합니다\n첫째, 날씨입니다\n" * 9,
        "{머리말} 어느 날, 길에서\n" * 9,
        "<봄> 시 한 편\n" * 9,
        "1, 2, 3\n" * 9,
    ],
)
def test_prose_is_no_table_and_no_markup(text: str, tmp_path: Path) -> None:
    assert not table_of_text(text.encode(), cut=False).records
    here = written(tmp_path / "t", {f"{n}.txt": text + prose(n) for n in range(30)})
    assert [source.format for source in project.find_sources([here], tmp_path / "mine").sources] == ["text"]


def test_a_first_cell_of_any_length_is_looked_at(tmp_path: Path) -> None:
    long = " ".join(map(prose, range(300)))
    assert len(long.encode()) > 1 << 17
    rows = "text,n\n" + "".join(f'"{text}",{n}\n' for n, text in enumerate([long, *map(prose, range(300, 340))]))
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", {"a.csv": rows})])
    assert found.sources[0].fields["text"] == "text" and len(texts_of(tmp_path / "mine")) == 41


def test_files_that_no_reader_can_read_are_left_out_and_reported(tmp_path: Path) -> None:
    feed = f'<?xml version="1.0"?><rss version="2.0"><channel><item><title>{prose(1)}</title></item></channel></rss>'
    texts: dict[str, str | bytes] = {f"{n}.txt": prose(n) for n in range(30)} | {"feed.xml": feed}
    texts |= {"u32.txt": prose(40).encode("utf-32"), "u16.txt": prose(41).encode("utf-16-le"), "p.parquet": b"PAR1"}
    texts |= {
        "gz.jsonl": b"\x1f\x8b\x08" + b"\0" * 40,
        "list.json": json.dumps(["문장", "글"]),
        "bad.md": b"\xff\xfe" + b"\0\xd8",
    }
    texts |= {"squad.json": json.dumps({"data": [{"context": prose(1)}]})}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", texts)])
    message = " ".join(line for line in project.summary(found) if line.startswith("left out"))
    for each in (
        "1 .xml that is no dump of MediaWiki",
        "1 .txt in UTF-32",
        "1 .txt with NUL bytes: in UTF-16 without a byte order mark, or no text",
        "1 .parquet that cannot be read as Parquet",
        "1 .jsonl that cannot be read (packed_file: these bytes are gzip",
        "1 .json that is a list, and not of objects",
        "1 .json whose text is in 'data', a list",
        "1 .md of which nothing can be read (bad.md",
    ):
        assert each in message, message
    assert texts_of(tmp_path / "mine") == sorted(map(prose, range(30)))


def test_more_unreadable_files_than_a_run_bears_are_reported_as_that(tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"{n}.txt": prose(n) for n in range(30)}
    texts |= {f"x{n}.txt": prose(n).encode() + b"\xff\xfe\xff" for n in range(10)}
    found = project.find_sources([written(tmp_path / "t", texts)], tmp_path / "mine")
    assert any(
        "a run stops at 25% of such records or files: mend them or raise max_bad_share" in line
        for line in project.summary(found)
    )


def test_titles_above_a_header_and_the_line_of_excel_are_skipped(tmp_path: Path) -> None:
    lines = "".join(f"{n},{prose(n)}\n" for n in range(30))
    texts = {"a.csv": f"2020년 민원 목록\n\n기준일: 2020-12-31,\n번호,내용\n{lines}"}
    texts |= {"b.csv": "sep=;\n번호;내용\n" + lines.replace(",", ";"), "c.csv": f"번호,내용\n{lines}"}
    texts |= {"d.csv": "sep=;\n2020년 민원 목록;\n번호;내용\n" + lines.replace(",", ";")}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", texts)]).sources
    assert sorted((source.fields["text"], source.delimiter, source.skip_rows) for source in found) == [
        ("내용", "", 0),
        ("내용", "", 2),
        ("내용", ";", 1),
        ("내용", ";", 2),
    ]
    assert texts_of(tmp_path / "mine") == sorted([*map(prose, range(30))] * 4)
    bare = table_of_csv(f"민원 목록\n{lines}".encode(), preferred=",", cut=False)
    assert (bare.delimiter, bare.columns, bare.skipped) == (",", ("column1", "column2"), 1)
    one = "문장\n" + "".join(f"바다가 {n}번, 조용하다\n" for n in range(30))
    assert table_of_csv(one.encode(), preferred=",", cut=False).skipped == 0


def test_parts_of_a_dump_of_wikipedia_are_one_source(tmp_path: Path) -> None:
    stem = "kowiki-20240101-pages-articles-multistream"
    texts: dict[str, str | bytes] = {
        f"{stem}{part}.xml-p{part}p{part}99": dump(PAGE.format(id=part, title=f"글 {part}", text=prose(part)))
        for part in range(1, 41)
    }
    texts |= {f"{stem}-index1.txt-p1p199": "600:1:글 1\n", f"{stem}-index.txt": "600:1:글 1\n"}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", texts)])
    assert [(source.format, source.files) for source in found.sources] == [("mediawiki", 40)]
    assert len(texts_of(tmp_path / "mine")) == 40


def test_a_first_row_with_a_label_is_no_header(tmp_path: Path) -> None:
    rows = {f"{k}.csv": "".join(f"{prose(n)[:30]},{'긍정' if n % 3 else '부정'}\n" for n in range(k, 200 + k)) for k in (1, 50)}
    [source] = project.write(tmp_path / "mine", [written(tmp_path / "t", rows)]).sources
    assert source.columns == ("column1", "column2") and len(texts_of(tmp_path / "mine")) == 400


def test_a_first_row_of_phrases_like_those_below_is_no_header(tmp_path: Path) -> None:
    values = "".join(f"바다가 조용한 마을 {n}\n" for n in range(400))
    [source] = project.write(tmp_path / "mine", [written(tmp_path / "t", {"a.csv": values})]).sources
    assert source.columns == ("column1",) and len(texts_of(tmp_path / "mine")) == 400
    [source] = project.find_sources([written(tmp_path / "u", {"a.csv": f"글쓴이의 긴 이야기\n{values * 2}"})], tmp_path).sources
    assert source.columns == ("column1",)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_first_row_as_long_as_the_others_is_no_header(ending: str, tmp_path: Path) -> None:
    mark = {"csv": ",", "tsv": "\t"}[ending]
    rows = "".join(f"{prose(n)[:18].strip()}{mark}{prose(n + 9)[:12].strip()}\n" for n in range(200))
    [source] = project.write(tmp_path / "mine", [written(tmp_path / "t", {f"a.{ending}": rows})]).sources
    assert (source.columns, len(texts_of(tmp_path / "mine"))) == (("column1", "column2"), 200)


def test_a_header_without_a_usual_name_is_reported(tmp_path: Path) -> None:
    rows = "".join(f"{prose(n)[:30]},{n}\n" for n in range(200))
    here = written(tmp_path / "t", {"a/평.csv": "평,점수\n" + rows, "b/글.csv": "내용,점수\n" + rows})
    lines = "\n".join(project.summary(project.write(tmp_path / "mine", [here / "a"])))
    assert 'its first row, "평", "점수", is taken for the names' in lines
    assert 'set columns = ["column1", "column2"] and fields.text = "column1"' in lines
    assert "first row" not in "\n".join(project.summary(project.write(tmp_path / "other", [here / "b"])))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_text_that_the_first_records_lack_is_found(kind: str, tmp_path: Path) -> None:
    late = [{"title": f"조용한 마을 이야기 {n} " * 20, "text": None if n < 150 else prose(n)} for n in range(400)]
    (tmp_path / "t").mkdir()
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(late), tmp_path / "t" / "a.parquet")
    else:
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in late)
        (tmp_path / "t" / "a.jsonl").write_text("".join(lines), "utf-8")
    [source] = project.find_sources([tmp_path / "t"], tmp_path / "mine").sources
    assert (source.fields["text"], source.fields["title"]) == ("text", "title")


def test_the_schema_of_an_older_project_is_none_of_the_files(tmp_path: Path) -> None:
    here = written(tmp_path / "t", {"old/recipe.schema.json": '{"$defs": {"a": "b"}}', **records("a.jsonl", text=prose)})
    assert project.find_sources([here], here / "mine").left_out == {}


@pytest.mark.parametrize("place", ["${data}", "t/${data}", "${shipped}"])
def test_a_path_with_the_mark_of_a_place_is_refused_before_anything_is_written(place: str, tmp_path: Path) -> None:
    here = written(tmp_path / place, {f"{n}.txt": prose(n) for n in range(30)})
    here = written(here.parent, {"README.txt": "무엇"}) if "/" in place else here
    with pytest.raises(RecipeError, match=r"\$\{(data|shipped)\} stands for another directory in recipes; rename it"):
        project.write(tmp_path / "mine", [here])
    assert not (tmp_path / "mine").exists()


def test_blank_files_beside_others_in_utf_16_are_no_error(tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"{n}.txt": prose(n).encode("utf-16") for n in range(30)} | {"e.txt": " \n"}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", texts)])
    assert tomllib.loads((tmp_path / "mine" / "recipe.toml").read_text("utf-8"))["extract"]["t"]["encoding"] == "utf-16"
    artifact = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")["extract/t"]
    assert artifact.stats["documents_out"] == 30 and artifact.stats["quarantine_reasons"] == {"invalid_utf16": 1}
    assert found.sources[0].empty_files == 1


def long_text(number: int) -> str:
    """An article of several lines, some 4,000 characters."""
    return "\n".join(prose(number + 100 * k) for k in range(20))


@pytest.mark.parametrize(
    ("text", "unit", "documents"),
    [
        ("\n".join(long_text(n).replace("\n", " ") for n in range(40)), "line", 40),
        ("\n".join(long_text(n).replace("\n", " ") for n in range(300)), "line", 300),
        ("\n\n".join(long_text(n) for n in range(40)), "record", 40),
        ("\r\r".join(long_text(n).replace("\n", "\r") for n in range(40)), "record", 40),
        ("\n".join(prose(n)[: 40 + n % 60] + "\n" * (n % 500 == 0) for n in range(12_000)), "line", 12_000),
    ],
    ids=["lines", "lines of much text", "paragraphs", "carriage returns", "few blank lines"],
)
def test_long_lines_and_paragraphs_are_documents(text: str, unit: str, documents: int, tmp_path: Path) -> None:
    here = written(tmp_path / "t", {"all.txt": text})
    [source] = project.find_sources([here], tmp_path / "mine").sources
    assert (source.document, len(source.sample.lengths)) == (unit, documents)
    beside = [written(here, records("b.jsonl", text=prose))] if documents == 40 else []
    for source in project.find_sources(beside, tmp_path / "mine").sources:
        assert source.document == (unit if source.format == "text" else ""), "also beside files of another format"


def test_files_named_one_by_one_are_taken_together(tmp_path: Path) -> None:
    here = written(tmp_path / "t", {f"{n:02}.txt": prose(n) for n in range(30)} | {"b.csv": table("n,text", first=50)})
    packed(tmp_path / "a.zip", {f"{n}.txt": prose(n) for n in range(90, 95)})
    written(here, {"left.txt": prose(200)})
    paths = [*(here / f"{n:02}.txt" for n in range(30)), tmp_path / "a.zip", here / "b.csv"]
    found = project.write(tmp_path / "mine", paths).sources
    assert [(source.format, source.files, source.document) for source in found] == [("text", 35, "file"), ("csv", 1, "")]
    assert texts_of(tmp_path / "mine") == sorted(map(prose, [*range(30), *range(90, 95), *range(50, 90)]))


def test_files_named_one_by_one_that_are_not_read_are_reported(tmp_path: Path) -> None:
    here = written(tmp_path / "t", {f"{n}.txt": prose(n) for n in range(30)} | {".a.txt": prose(90), "b.pdf": "%PDF"})
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), here / "c.parquet")
    found = project.find_sources(sorted(here.iterdir()), tmp_path / "mine")
    assert found.left_out == {".a.txt": 1, ".pdf": 1, ".parquet without a row": 1}


def test_thousands_of_named_files_are_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = written(tmp_path / "t", {f"{n:03}.txt": prose(n) for n in range(300)})
    compared = []
    kind = type(here)
    was = kind.__eq__
    monkeypatch.setattr(kind, "__eq__", lambda one, other: compared.append(1) or was(one, other))
    assert project.find_sources(sorted(here.iterdir()), tmp_path / "mine").sources[0].files == 300
    assert len(compared) < 20_000


@pytest.mark.parametrize("kind", ["txt", "csv"])
def test_cp949_behind_much_ascii_is_found(kind: str, tmp_path: Path) -> None:
    english = "the quiet harbour was full of small boats " * 10 + "\n"
    texts = {f"{n}.txt": (english * 160 + prose(n)).encode("cp949") for n in range(20)}
    rows = "n,text\n" + "".join(f'{n},"{english.strip() * 3}"\n' for n in range(80)) + table("", rows=100, first=80)
    here = written(tmp_path / "t", {**texts} if kind == "txt" else {"a.csv": rows.encode("cp949")})
    [source] = project.write(tmp_path / "mine", [here]).sources
    assert (source.encoding, source.sample.bad) == ("auto", 0)
    assert any(prose(19 if kind == "txt" else 179) in text for text in texts_of(tmp_path / "mine"))


@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize("first", ['{"text": "잘린 줄', '", "meta": {"n": 1}}', '{"text": "글\ttab"}'])
def test_records_behind_a_broken_line_are_found(first: str, kind: str, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": prose(n), "n": {"a": 1}}, ensure_ascii=False) + "\n" for n in range(60))
    [source] = project.find_sources([written(tmp_path / "t", {f"a.{kind}": f"{first}\n{lines}"})], tmp_path / "mine").sources
    assert source.fields["text"] == "text" and len(source.sample.lengths) >= 60


@pytest.mark.parametrize("above", ["# exported\n# in 2024\n\n", "cut"])
@pytest.mark.parametrize("shape", ["lines", "a list by line", "a list on a line", "a list over lines"])
def test_objects_behind_a_heading_or_a_cut_record_are_records(shape: str, above: str, tmp_path: Path) -> None:
    objects = [{"id": n, "text": prose(n)} for n in range(40)]
    lines = [json.dumps(one, ensure_ascii=False) for one in objects]
    whole = {
        "lines": "\n".join(lines),
        "a list by line": "[\n" + ",\n".join(lines) + "\n]",
        "a list on a line": json.dumps(objects, ensure_ascii=False),
        "a list over lines": json.dumps(objects, ensure_ascii=False, indent=1),
    }[shape]
    cut = "가".encode()[1:] * (shape == "lines") + whole[30:].encode()  # Of lines within a character.
    broken = cut if above == "cut" else (above + whole).encode()
    for ending in ("txt", "jsonl"):
        texts: dict[str, str | bytes] = {f"{n}.{ending}": whole for n in range(4)} | {f"9.{ending}": broken}
        [source] = project.find_sources([written(tmp_path / ending, texts)], tmp_path / "mine").sources
        assert (source.format, source.fields["text"], source.encoding) == (
            "jsonl" if shape == "lines" else "json",
            "text",
            "utf-8",
        )
        assert len(source.sample.lengths) == (199 if above == "cut" else 200)


@pytest.mark.parametrize(
    "text",
    [
        f'{prose(1)}\n\n{{"id": 1, "text": "보기"}}\n',
        f"{prose(2)}\n{{\n}}\n",
        f"# 쓰임\n\n{{}}\n{prose(3)}",
        f'{{"강"이라는 글}}\n{prose(4) * 500}',
    ],
    ids=["an example", "a brace", "an empty one", "a quotation in braces"],
)
def test_prose_with_an_object_of_json_is_prose(text: str, tmp_path: Path) -> None:
    texts = {f"{n}.txt": f"{text}{prose(n)}" if n % 2 else text for n in range(30)}
    assert {s.format for s in project.find_sources([written(tmp_path / "t", texts)], tmp_path / "mine").sources} == {"text"}


def test_the_rest_of_a_long_record_is_no_text(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"text": prose(n)}, ensure_ascii=False) for n in range(60))
    [source] = project.find_sources(
        [written(tmp_path / "t", {"a.txt": f'{"가" * 30_000}"}}\n{lines}'})], tmp_path / "mine"
    ).sources
    assert (source.format, len(source.sample.lengths)) == ("jsonl", 60)


@pytest.mark.parametrize("ending", ["txt", "xml"])
def test_pages_behind_a_cut_one_are_pages(ending: str, tmp_path: Path) -> None:
    whole = dump("".join(PAGE.format(id=n, title=f"글 {n}", text=prose(n)) for n in range(1, 41)))
    wiki = "\n".join(f'<doc id="{n}" url="" title="글">\n글\n\n{prose(n)}\n</doc>' for n in range(40))
    texts: dict[str, str | bytes] = {
        f"a.{ending}": whole[whole.index(b"<id>") :],
        **({"b.txt": wiki[40:]} if ending == "txt" else {}),
    }
    for name, text in texts.items():
        [source] = project.find_sources([written(tmp_path / name[0], {name: text})], tmp_path / "mine").sources
        assert (source.format, len(source.sample.lengths)) == ("mediawiki" if name[0] == "a" else "wikiextractor", 39)


@pytest.mark.parametrize(
    ("ending", "delimiter", "above"),
    [
        *((*kind, above) for kind in (("txt", "\t"), ("tsv", "\t"), ("csv", ",")) for above in ("제목 한 줄\n", "cut")),
        ("txt", ",", "제목 한 줄\n"),  # Without a header, rows with commas cannot be told from prose.
    ],
)
def test_rows_below_a_heading_or_a_cut_row_are_a_table(ending: str, delimiter: str, above: str, tmp_path: Path) -> None:
    rows = "".join(f'{n}{delimiter}"{prose(n)}"{delimiter}{n % 2}\n' for n in range(40))
    text = rows[30:] if above == "cut" else f"{above}id{delimiter}text{delimiter}label\n{rows}"
    [source] = project.find_sources([written(tmp_path / "t", {f"a.{ending}": text})], tmp_path / "mine").sources
    expected = ("csv", 1, "column2", 39) if above == "cut" else ("csv", 1, "text", 40)
    assert (source.format, source.skip_rows, source.fields["text"], len(source.sample.lengths)) == expected


def test_a_heading_above_quoted_rows_of_several_lines_is_skipped(tmp_path: Path) -> None:
    rows = "".join(f'{n}\t"{prose(n)}\n\n{prose(n + 1)}\n{prose(n + 2)}"\t{n % 2}\n' for n in range(40))
    for ending in ("tsv", "txt"):
        here = written(tmp_path / ending, {f"a.{ending}": f"제목 한 줄\nid\ttext\tlabel\n{rows}"})
        [source] = project.find_sources([here], tmp_path / "mine").sources
        assert (source.delimiter, source.quoted, source.skip_rows, len(source.sample.lengths)) == ("\t", True, 1, 40)


@pytest.mark.parametrize("blank", ["{0}{0}\n", " \n"])
@pytest.mark.parametrize(("ending", "delimiter"), [("txt", "\t"), ("tsv", "\t"), ("csv", ","), ("txt", ",")])
def test_a_blank_row_below_a_title_is_no_header(ending: str, delimiter: str, blank: str, tmp_path: Path) -> None:
    rows = "".join(f'{n}{delimiter}"{prose(n)}"{delimiter}{n % 2}\n' for n in range(40))
    text = f"제목 한 줄\n{blank.format(delimiter)}id{delimiter}text{delimiter}label\n{rows}"
    [source] = project.find_sources([written(tmp_path / "t", {f"a.{ending}": text})], tmp_path / "mine").sources
    assert (source.format, source.skip_rows, source.fields["text"], len(source.sample.lengths)) == ("csv", 1, "text", 40)


def test_a_text_that_ends_in_rows_of_tabs_is_a_text(tmp_path: Path) -> None:
    text = "".join(f"{prose(n)}\n" for n in range(7)) + "".join(f"{n}\t{prose(n)[:20]}\t{n % 2}\n" for n in range(300))
    [source] = project.find_sources([written(tmp_path / "t", {"a.txt": text})], tmp_path / "mine").sources
    assert (source.format, source.sample.bad) == ("text", 0)


def test_objects_of_texts_by_their_ids_are_reported(tmp_path: Path) -> None:
    for number, value in enumerate((prose, lambda n: {"text": prose(n)})):
        whole = json.dumps({str(n): value(n) for n in range(40)}, ensure_ascii=False)
        with pytest.raises(RecipeError, match=r"only 1 \.json that is one object of texts by their ids, and not of records"):
            project.find_sources([written(tmp_path / f"t{number}", {"a.json": whole})], tmp_path / "mine")
    numbered = {f"{n}.json": json.dumps({str(k): prose(40 * n + k) for k in range(40)}) for n in range(3)}
    with pytest.raises(RecipeError, match=r"only 3 \.json that is one object of texts by their ids, and not of records"):
        project.find_sources([written(tmp_path / "numbered", numbered)], tmp_path / "mine")
    many = json.dumps({"본문": prose(1) * 30, **{f"note{n}": "two words" for n in range(40)}})
    here = written(tmp_path / "many", {f"{n}.json": many for n in range(5)})
    assert project.find_sources([here], tmp_path / "mine").sources[0].fields["text"] == "본문"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_tables_of_many_columns_and_few_rows_are_tables(kind: str, tmp_path: Path) -> None:
    rows = [{f"질문{k}": prose(30 * n + k) for k in range(30)} for n in range(10)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    as_csv = "\n".join(",".join(f'"{field}"' for field in row) for row in (rows[0], *(row.values() for row in rows)))
    text = {"csv": as_csv, "jsonl": "\n".join(lines), "json": f"[{','.join(lines)}]"}[kind]
    [source] = project.find_sources([written(tmp_path / "t", {f"a.{kind}": text})], tmp_path / "mine").sources
    assert source.fields["text"].startswith("질문") and len(source.sample.lengths) == 10


def test_bytes_are_read_as_cp949_only_where_some_are_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(
        sources, "_outcomes", lambda source, *more, was=sources._outcomes: read.append(source.encoding) or was(source, *more)
    )
    project.find_sources([written(tmp_path / "t", records("a.jsonl", text=prose))], tmp_path / "mine")
    assert read == ["utf-8"]


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_tags_that_stay_in_texts_are_reported(ending: str, tmp_path: Path) -> None:
    texts = [f'<div class="a"><p>{prose(n)}</p></div>' for n in range(30)]
    files = {f"{n}.txt": text for n, text in enumerate(texts)}
    here = written(tmp_path / "t", files if ending == "txt" else records("a.jsonl", 30, text=texts.__getitem__))
    message = " ".join(project.summary(project.find_sources([here], tmp_path / "mine")))
    assert re.search("many of its texts contain </(p|div)>; tags of HTML or XML are kept: ", message)
    assert ("markdown = true strips those of HTML" in message) == (ending == "txt")
    plain = written(tmp_path / "p", {f"{n}.txt": f"1 < 2 > 0 <앵커> {prose(n)}" for n in range(30)})
    assert not any("tags of HTML" in line for line in project.summary(project.find_sources([plain], tmp_path / "other")))
