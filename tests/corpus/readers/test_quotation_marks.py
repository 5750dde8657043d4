"""Tables in which quotation marks are text, or enclose fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.artifact.spec import canonical
from korealbert.corpus.extract import ExtractionError, ExtractSpec
from tests.corpus.extracting import extract

SENTENCE = "봄이 오면 강가에 버들이 먼저 푸르러진다."
TABLE = {"format": "csv", "delimiter": "\t", "fields": {"text": "sentence"}}


def table(path: Path) -> Path:
    """Return six rows: the second text begins with a quotation mark, the fourth ends with one."""
    texts = [SENTENCE, '"봄"이 오면', '"버들이 푸르다', SENTENCE, '강가에 "버들"', '그가 말했다: "봄"']
    path.write_text("id\tsentence\tlabel\n" + "".join(f"{n}\t{text}\t1\n" for n, text in enumerate(texts)), "utf-8")
    return path


def test_quotation_marks_are_text_where_the_source_says_so(tmp_path: Path) -> None:
    found = extract(tmp_path / "store", table(tmp_path / "a.tsv"), **TABLE, quoted=False)
    assert (len(found.texts), found.reasons, found.stats["rows_in_quotes"]) == (6, [], {})
    assert found.texts[1:3] == ['"봄"이 오면', '"버들이 푸르다']


def test_rows_within_an_open_quote_are_counted_by_place(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f'id\tsentence\n0\t{SENTENCE}\n1\t"봄\n2\t{SENTENCE}\n3\t여름"\n4\t{SENTENCE}\n', "utf-8")
    found = extract(tmp_path / "store", path, **TABLE)
    assert (len(found.texts), found.reasons) == (3, [])
    assert found.stats["rows_in_quotes"] == {"a.tsv, line 3": 2}


def test_fields_over_several_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'title,sentence\n봄,"{SENTENCE}\n강가에, 버들이"\n여름,"{SENTENCE}\n푸르다"\n', "utf-8")
    found = extract(tmp_path / "store", path, format="csv", fields={"text": "sentence"})
    assert (len(found.texts), found.stats["rows_in_quotes"]) == (2, {})


def test_too_many_unread_rows_name_the_field_that_makes_quotation_marks_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    rows = "".join(f'{n}\t"봄이\t오면\n{n}\t강가에\t푸르다"\n' for n in range(20))
    path.write_text("id\tsentence\tnote\n" + rows, "utf-8")
    with pytest.raises(ExtractionError, match="or set quoted = false"):
        extract(tmp_path / "store", path, **TABLE, max_bad_share=0.05)


def test_a_recipe_of_before_keeps_its_key_and_other_formats_have_no_quotes(tmp_path: Path) -> None:
    given = {"source": "a", "format": "csv", "paths": [str(table(tmp_path / "a.tsv"))]}
    assert "quoted" not in canonical(ExtractSpec.model_validate(given), str)
    assert "quoted" in canonical(ExtractSpec.model_validate({**given, "quoted": False}), str)
    with pytest.raises(ValueError, match="quoted is about csv and books, not text"):
        ExtractSpec.model_validate({**given, "format": "text", "quoted": False})
