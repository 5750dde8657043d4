"""How ``korealbert new`` reads tables: quotation marks, tabs in text files, several columns of prose, lists."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.documents.shards import read_documents
from korealbert.recipe.new import project
from korealbert.recipe.new.delimited import table_of_csv, table_of_text
from korealbert.recipe.tables import RecipeError
from tests.recipe.new.test_project import built, prose, records, written


def rows(header: str, *, text: str = "{}", count: int = 40) -> str:
    """Return a table with tabs whose second column is prose."""
    return "\n".join([header, *(f"{n}\t{text.format(prose(n))}\t{n % 2}" for n in range(count))]) + "\n"


@pytest.mark.parametrize("text", ["{}", '"{}', '{}"', '"인용" {}'])
def test_quotation_marks_of_tables_with_tabs_are_text(text: str, tmp_path: Path) -> None:
    here = written(tmp_path / "t", {"a.tsv": rows("id\tdocument\tlabel", text=text)})
    [source] = project.write(tmp_path / "mine", [here]).sources
    assert (source.delimiter, source.quoted) == ("\t", False)
    assert tomllib.loads((tmp_path / "mine" / "recipe.toml").read_text("utf-8"))["extract"]["t"]["quoted"] is False
    artifact = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")["extract/t"]
    assert (artifact.stats["documents_out"], artifact.stats["quarantined"]) == (40, 0)


@pytest.mark.parametrize("more", ["\t", "\n", '"'])
def test_quoted_tables_with_tabs_are_read_as_such(more: str) -> None:
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t").writerows([["id", "text"], *([n, f"글{more} {prose(n)}"] for n in range(30))])
    table = table_of_csv(stream.getvalue().encode(), preferred="\t", cut=False)
    assert (table.delimiter, table.quoted, len(table.records)) == ("\t", True, 30)


def test_stray_quotation_marks_of_other_tables_are_text() -> None:
    stray = "id;text\n" + "".join(f'{n};"바다가" 조용하다\n{n};도서관에서"\n' for n in range(20))
    assert not table_of_csv(stray.encode(), preferred=",", cut=False).quoted
    inches = "id,text\n" + "".join(f'{n},"5"" 화면, 도서관"\n{n},5" 화면\n' for n in range(20))
    assert table_of_csv(inches.encode(), preferred=",", cut=False).quoted


def test_text_files_that_are_tables_with_tabs_are_read_as_tables(tmp_path: Path) -> None:
    here = written(tmp_path / "t", {"ratings.txt": rows("id\tdocument\tlabel"), "글.txt": "\n\n".join(map(prose, range(30)))})
    found = project.write(tmp_path / "mine", [here]).sources
    assert sorted((source.format, source.fields.get("text", "")) for source in found) == [("csv", "document"), ("text", "")]
    stages = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    assert sorted(artifact.stats["documents_out"] for artifact in stages.values()) == [30, 40]
    assert not table_of_text("\t바다가\n도서관에서\n\t마을\n걸었다\n오래\n".encode(), cut=False).records


def test_columns_of_prose_that_are_not_read_are_reported(tmp_path: Path) -> None:
    pairs = records("a.jsonl", title=prose, question=prose, answer=lambda n: prose(n) + prose(n + 1), label="긍정")
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", pairs)])
    assert found.sources[0].unread_columns == ("question",)
    message = [line for line in project.summary(found) if "too, which" in line]
    assert message == [
        '  "question" has prose too, which is not read; fields.text = ["answer", "question"] reads them together'
    ]
    recipe = (tmp_path / "mine" / "recipe.toml").read_text("utf-8")
    assert '# "question" has prose too: text = ["answer", "question"] reads them together.\n' in recipe


def test_text_in_lists_is_read_unless_there_is_other(tmp_path: Path) -> None:
    sentences = [[prose(n)[:30], prose(n)[30:60]] for n in range(50)]
    (tmp_path / "p").mkdir()
    pq.write_table(pa.table({"id": list(range(50)), "text": sentences}), tmp_path / "p" / "a.parquet")
    [source] = project.find_sources([tmp_path / "p"], tmp_path / "mine").sources
    assert source.fields["text"] == "text" and len(source.sample.lengths) == 50
    titled = records("a.jsonl", title=lambda n: prose(n)[:40], text=lambda n: [prose(n)[:40]] * 4)
    [source] = project.find_sources([written(tmp_path / "t", titled)], tmp_path / "mine").sources
    assert (source.fields["text"], source.fields["title"]) == ("text", "title")
    few = records("a.jsonl", 5, post="바다가 조용하다", comments=lambda n: ["도서관", "바다가 오래"])
    with pytest.raises(RecipeError, match=r"the text is in 'post', but 'comments', a list, has more and is not read"):
        project.write(tmp_path / "mine", [written(tmp_path / "f", few)])


def test_pipes_and_links_to_nothing_are_left_out(tmp_path: Path) -> None:
    here = written(tmp_path / "t", {f"{n}.txt": prose(n) for n in range(30)})
    os.mkfifo(here / "pipe.txt")
    (here / "gone.txt").symlink_to(tmp_path / "nowhere")
    found = project.find_sources([here], tmp_path / "mine")
    assert found.left_out == {".txt that is no regular file": 1, ".txt that links to nothing": 1}


@pytest.mark.parametrize("name", ["두 줄\n글", "글\x7f", 'a"b\\'])
def test_a_recipe_is_toml_whatever_the_names_of_directories(name: str, tmp_path: Path) -> None:
    here = written(tmp_path / name / "t", {"a.jsonl": "".join(json.dumps({"글\x7f": prose(n)}) + "\n" for n in range(30))})
    project.write(tmp_path / name / "mine" / name, [here])
    recipe = (tmp_path / name / "mine" / name / "recipe.toml").read_bytes()
    assert tomllib.loads(recipe.decode())["extract"]["t"]["paths"] == [str(here)]
    assert recipe.endswith(b"\n")


def test_tables_with_escaped_quotation_marks_are_reported() -> None:
    lines = [f'그는 "{prose(n)[:20]}", 말했다.\n{prose(n)}, 끝' for n in range(30)]
    escaped = "id,text\n" + "".join('{},"{}"\n'.format(n, text.replace('"', '\\"')) for n, text in enumerate(lines))
    assert table_of_csv(escaped.encode(), preferred=",", cut=False).escaped
    doubled = "id,text\n" + "".join('{},"{}"\n'.format(n, text.replace('"', '""') + "\\") for n, text in enumerate(lines))
    table = table_of_csv(doubled.encode(), preferred=",", cut=False)
    assert table.quoted and not table.escaped and len(table.records) == 30


@pytest.mark.parametrize(("delimiter", "ending"), [(",", "csv"), ("\t", "tsv"), ("\t", "txt")])
def test_escaped_quotation_marks_are_reported_where_fields_hold_nothing_else(
    delimiter: str, ending: str, tmp_path: Path
) -> None:
    rows = [f'{n}{delimiter}"그는 \\"{prose(n)}\\" 하고 말했다."' for n in range(60)]
    here = written(tmp_path / "t", {f"a.{ending}": "\n".join([f"id{delimiter}text", *rows])})
    with pytest.raises(RecipeError, match=r'whose quotation marks within fields are escaped \(\\"\)'):
        project.find_sources([here], tmp_path / "mine")
    bare = written(
        tmp_path / "b", {f"a.{ending}": "\n".join([f"id{delimiter}text", *rows]).replace(f'{delimiter}"', delimiter)}
    )
    assert len(project.find_sources([bare], tmp_path / "other").sources[0].sample.lengths) == 60


def test_quotation_marks_quote_fields_in_a_txt_of_tabs_too(tmp_path: Path) -> None:
    rows = "".join(f'{n}\t"그는 ""{prose(n)}"" 하고 말했다."\n' for n in range(60))
    [source] = project.write(tmp_path / "mine", [written(tmp_path / "t", {"a.txt": f"id\ttext\n{rows}"})]).sources
    assert source.quoted and len(source.sample.lengths) == 60
    read = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")["extract/t"]
    assert '그는 "' in next(d.text for path in read.files("documents-*.arrow") for d in read_documents(path))[:4]


def test_a_stray_quotation_mark_in_rows_of_several_lines_is_reported_by_its_row(tmp_path: Path) -> None:
    stream = io.StringIO()
    several = [[n, f"제목 {n}", f"첫 줄 {n}.\n둘째 줄, {prose(n)}\n셋째 줄 {n}."] for n in range(300)]
    csv.writer(stream, lineterminator="\n").writerows([["id", "title", "text"], *several])
    here = written(tmp_path / "t", {"a.csv": stream.getvalue().replace("둘째", '5" 둘째', 1)})
    [source] = project.find_sources([here], tmp_path / "mine").sources
    assert source.quoted and len(source.sample.lengths) > 290 and "line 2: malformed_csv" in source.sample.fault


@pytest.mark.parametrize(
    ("first", "beside"),
    [(0, {}), (1, {}), (400, {}), (1, {"text": None}), (1, {"text": math.nan})],
    ids=["first", "second", "late", "null", "NaN"],
)
def test_text_in_another_field_of_other_records_is_reported(first: int, beside: dict[str, Any], tmp_path: Path) -> None:
    of_body = [n >= first and (n % 2 == 0 or first > 1) for n in range(600)]
    mixed = [{**beside, "body": prose(n)} if of_body[n] else {"text": prose(n)} for n in range(600)]
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in mixed)
    found = project.find_sources([written(tmp_path / "t", {"a.jsonl": lines})], tmp_path / "mine")
    message = "\n".join(project.summary(found))
    assert 'the text of records without "text" is in "body", which is not read: write it into "text"' in message
    assert "reads them together" not in message
    assert ("it is null here" if beside else "and rename it text where some do") in found.sources[0].sample.fault


def test_a_text_that_is_empty_where_another_field_has_it_is_reported(tmp_path: Path) -> None:
    rows = "id,text,body\n" + "".join(f"{n},{f',{prose(n)}' if n % 2 else f'{prose(n)},'}\n" for n in range(60))
    found = project.find_sources([written(tmp_path / "t", {"a.csv": rows})], tmp_path / "mine")
    assert '"body" has prose too (50% of the first records have no other), which is not read; ' in "\n".join(
        project.summary(found)
    )
