"""Which fields and columns ``korealbert new`` takes for the text and its metadata."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.documents.shards import read_documents
from korealbert.recipe.new import project
from korealbert.recipe.tables import RecipeError
from tests.recipe.new.test_project import WORDS, built, prose, records, written

ENGLISH = "the quiet harbour was full of small boats and their owners talked about the weather of last winter "


@pytest.mark.parametrize(
    ("header", "other", "expected"),
    [
        ("img,댓글", "https://example.com/" + "a" * 300, "댓글"),
        ("text,댓글", "7f3a" * 90, "댓글"),
        ("keywords,body", "wort " * 90, "body"),
    ],
)
def test_the_column_of_text_is_the_one_of_korean_prose(header: str, other: str, expected: str, tmp_path: Path) -> None:
    rows = "\n".join([header, *(f'{other},"{prose(n)}"' for n in range(30))])
    [source] = project.find_sources([written(tmp_path / "t", {"x.csv": rows})], tmp_path / "mine").sources
    assert source.fields["text"] == expected


def test_text_in_lists_is_read_and_titles_are_not_taken_for_it(tmp_path: Path) -> None:
    """Records of a title and a list of paragraphs were once read as a corpus of titles, without a warning."""
    here = written(
        tmp_path / "a", records("a.jsonl", title=lambda n: f"조용한 {n}번 마을", paragraphs=lambda n: [prose(n)] * 3)
    )
    [source] = project.find_sources([here], tmp_path / "mine").sources
    assert source.fields["text"] == "paragraphs" and source.fields["title"] == "title"
    assert (source.unread_nested, source.unread_columns) == ("", ()) and min(source.sample.lengths) > 100
    nested = records("b.jsonl", title="마을", body=lambda n: {"ko": prose(n)})
    with pytest.raises(RecipeError, match=r"whose text is in 'body', an object"):
        project.find_sources([written(tmp_path / "b", nested)], tmp_path / "mine")
    both = records("c.jsonl", post=prose, comments=lambda n: [prose(n + k) for k in range(3)])
    found = project.find_sources([written(tmp_path / "c", both)], tmp_path / "mine")
    assert found.sources[0].fields["text"] == "post"
    assert "  'comments', a list, has more text but is not read" in project.summary(found)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"category": "경제", "body": ENGLISH * 5}, "body"),
        ({"Title": "A review", "reviewer": "홍길동", "Review": ENGLISH * 3}, "Review"),
        ({"한국어": prose, "english": ENGLISH * 4}, "한국어"),
        ({"text": "긍정", "Review": prose}, "Review"),
        ({"Summary": prose, "Text": ENGLISH * 5}, "Text"),
    ],
    ids=["a category in Korean", "a name in Korean", "a translation", "a label called text", "another spelling"],
)
def test_of_columns_in_several_scripts_the_one_with_the_text_is_taken(
    fields: dict[str, object], expected: str, tmp_path: Path
) -> None:
    [source] = project.find_sources([written(tmp_path / "t", {**records("a.jsonl", **fields)})], tmp_path / "mine").sources
    assert source.fields["text"] == expected


def test_columns_of_metadata_are_known_in_any_spelling(tmp_path: Path) -> None:
    rows = "\n".join(["Doc ID,Title,Text,DATE", *(f'{n},제목 {n},"{prose(n)}",2020-01-{n % 28 + 1:02}' for n in range(30))])
    [source] = project.write(tmp_path / "mine", [written(tmp_path / "t", {"x.csv": rows})]).sources
    assert {role: name for role, name in source.fields.items() if name} == {
        "text": "Text",
        "title": "Title",
        "published": "DATE",
        "id": "Doc ID",
    }
    artifact = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")["extract/t"]
    document = next(read_documents(artifact.files("documents-*.arrow")[0]))
    assert (document.title, document.published) == ("제목 0", "2020-01-01")


def test_a_column_of_names_is_reported_and_too_little_text_names_its_column(tmp_path: Path) -> None:
    index = "\n".join(["No,Korean Title", *(f"{n},{WORDS[n % 13]} {WORDS[n % 7]}" for n in range(600))])
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", {"index.csv": index})])
    message = "\n".join(project.summary(found))
    assert re.search(r"half of its texts have at most \d characters; if these are no texts, delete \[extract\.t\]", message)
    few = "\n".join(["No,Korean Title", "1,바다가 조용하다"])
    with pytest.raises(RecipeError, match=r"too little text for a model: .*; of f the text is in 'Korean Title'"):
        project.write(tmp_path / "other", [written(tmp_path / "f", {"index.csv": few})])


@pytest.mark.parametrize(("second", "expected"), [(0, ""), (100, "id"), (58, "id")])
def test_ids_that_begin_anew_in_each_file_are_none(second: int, expected: str, tmp_path: Path) -> None:
    texts = records("a.jsonl", id=lambda n: n, text=prose) | records("b.jsonl", id=lambda n: n + second, text=prose)
    [source] = project.find_sources([written(tmp_path / "t", {**texts})], tmp_path / "mine").sources
    assert source.fields["id"] == expected


def test_metadata_in_objects_is_named_by_its_path(tmp_path: Path) -> None:
    """Datatrove writes the address into ``metadata``."""

    def nested(number: int) -> dict[str, Any]:
        return {
            "author": {"id": 7, "name": "기자"},
            "metadata": {"url": "https://a.example/1", "date": "2024-01-15", "id": f"a{number}"},
            "more": {"url": "https://b.example", "title": "제목", "list": [{"url": ""}]},
        }

    rows = [{"text": prose(number), **nested(number)} for number in range(50)]
    here = written(tmp_path / "t", {"a.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)})
    (tmp_path / "p").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p" / "a.parquet")
    for folder in (here, tmp_path / "p"):
        [source] = project.find_sources([folder], tmp_path / "mine").sources
        assert {role: name for role, name in source.fields.items() if name} == {
            "text": "text",
            "url": "metadata.url",
            "published": "metadata.date",
            "id": "metadata.id",
            "title": "more.title",
        }
