"""What ``korealbert new`` reads and reports of bytes, packed files and files with faults."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.recipe.new import project
from korealbert.recipe.new.sources import Source
from korealbert.recipe.tables import RecipeError
from tests.archives import compressed, zipped
from tests.recipe.new.test_looks import packed
from tests.recipe.new.test_project import prose, written


def of_parquet(directory: Path, **columns: Any) -> Source:
    """Return the source of a Parquet file with these columns and one of titles."""
    directory.mkdir()
    rows = max(map(len, columns.values()))
    pq.write_table(pa.table({"title": [f"조용한 마을 이야기 {n}" for n in range(rows)], **columns}), directory / "a.parquet")
    [source] = project.find_sources([directory], directory / "mine").sources
    return source


@pytest.mark.parametrize(
    "column",
    [
        lambda texts: pa.array(texts, pa.binary()),
        lambda texts: pa.array(texts, pa.large_binary()),
        lambda texts: pa.array(texts, pa.binary_view()),
        lambda texts: pa.array(texts, pa.binary()).dictionary_encode(),
        lambda texts: pa.array([b"\xff\xfe\0" if n == 3 else None if n == 4 else text for n, text in enumerate(texts)]),
    ],
    ids=["binary", "large", "view", "dictionary", "broken"],
)
def test_a_text_of_bytes_is_the_text(column: Callable[[list[bytes]], pa.Array], tmp_path: Path) -> None:
    pictures = [random.Random(n).randbytes(20_000) for n in range(40)]  # noqa: S311
    source = of_parquet(tmp_path / "t", picture=pictures, text=column([prose(n).encode() for n in range(40)]))
    assert (source.fields["text"], source.fields["title"], source.unread_columns) == ("text", "title", ())
    assert len(source.sample.lengths) >= 38


def test_an_id_of_bytes_that_are_no_characters_is_not_read(tmp_path: Path) -> None:
    texts = [prose(n).encode() for n in range(40)]
    source = of_parquet(tmp_path / "t", text=texts, id=[hashlib.sha256(text).digest() for text in texts])
    assert (source.fields["id"], len(source.sample.lengths)) == ("", 40)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.array([prose(n).encode("cp949") for n in range(40)]),
            "row 1: invalid_utf8; a column that is read holds bytes that are not UTF-8: write it as",
        ),
        (pa.array([prose(n).encode()[:60] for n in range(40)], pa.binary(60)), "'text' is fixed_size_binary"),
    ],
    ids=["cp949", "fixed"],
)
def test_a_text_of_bytes_that_extraction_cannot_read_is_reported(column: pa.Array, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        of_parquet(tmp_path / "t", text=column)


def refused(directory: Path, texts: dict[str, str | bytes]) -> str:
    """Return the error for files that no project can be made of."""
    with pytest.raises(RecipeError) as refusal:
        project.write(directory / "mine", [written(directory / "t", texts)])
    return str(refusal.value)


def test_a_file_of_few_paragraphs_is_refused_with_the_remedy(tmp_path: Path) -> None:
    paragraphs = [prose(n) * 4 for n in range(3)]
    message = refused(tmp_path, {"a.txt": "\n\n".join(paragraphs)})
    assert (
        "split into paragraphs or lines only if there are at least 20 of these, or 40 in each of several files, and lines"
        in message
    )
    apart = {f"{n}.txt": paragraph for n, paragraph in enumerate(paragraphs)}
    assert len(project.find_sources([written(tmp_path / "apart", {**apart})], tmp_path / "mine").sources[0].sample.lengths) == 3


def test_a_wrapped_page_and_a_large_paragraph_are_refused_with_the_reason(tmp_path: Path) -> None:
    page = refused(tmp_path, {"a.txt": "\n".join(prose(n)[:40] for n in range(90))})
    assert "they do not look wrapped (of about equal length, most without the end of a sentence): put each text into" in page
    (tmp_path / "t" / "a.txt").write_text(" ".join(prose(n) for n in range(200)) * 200, "utf-8")
    with pytest.raises(RecipeError, match="a document is a paragraph, as a file is so large: put blank lines between"):
        project.write(tmp_path / "mine", [tmp_path / "t"])


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_a_file_of_a_byte_order_mark_is_empty(mark: str, tmp_path: Path) -> None:
    assert "text in it, only 1 empty .txt; known" in refused(tmp_path, {"a.txt": "\r\n".encode(mark)})


def test_the_error_for_too_few_records_does_not_mention_paragraphs(tmp_path: Path) -> None:
    assert "paragraph" not in refused(tmp_path, {"a.jsonl": json.dumps({"text": prose(1)})})


def test_hidden_files_alone_are_reported(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {".a.txt": prose(1), ".b/c.txt": prose(2)}
    assert "only 2 hidden, as their names or folders begin with a dot; known are" in refused(tmp_path, files)


def test_an_archive_of_hidden_files_alone_is_reported(tmp_path: Path) -> None:
    assert "only 1 .zip without a file, apart from hidden ones" in refused(
        tmp_path, {"a.zip": zipped({".a.txt": "", ".b/c": ""})}
    )


@pytest.mark.parametrize("beside", [{"a.txt": prose(1)}, {}])
def test_archives_in_archives_are_reported(beside: dict[str, str | bytes], tmp_path: Path) -> None:
    packed(tmp_path / "t" / "a.zip", {"in.zip": zipped({"a.txt": prose(1)}), "in.tar.gz": b""})
    message = refused(tmp_path, beside)
    assert "1 .gz in an archive, which must be unpacked first, 1 .zip in an archive, which must be unpacked first" in message


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        (
            "a.jsonl.gz",
            b"{}",
            "incorrect header check; if it is no .gz file, give it the ending of what it is; otherwise fetch",
        ),
        (
            "a.zip",
            prose(1).encode(),
            "corrupt_archive: File is not a zip file; if it is none, give it the ending of what it is",
        ),
        ("a.zip", zipped({}), r".zip without a file"),
        ("a.zip", zipped({"a.txt": prose(1)}).replace(b"\x14\0\0\0", b"\x14\0\1\0"), "it needs a password: unpack the archive"),
    ],
    ids=["gzip", "zip", "nothing", "password"],
)
def test_packed_files_that_cannot_be_read_are_reported(name: str, data: bytes, why: str, tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"{n}.txt": prose(n) for n in range(30)}
    found = project.find_sources([written(tmp_path / "t", texts | {name: data})], tmp_path / "mine")
    assert found.sources[0].files == 30
    assert [line for line in project.summary(found) if line.startswith("left out: 1 .") and why in line], [
        *project.summary(found)
    ]


def test_an_empty_file_hides_no_fault_and_bears_none(tmp_path: Path) -> None:
    lines = [json.dumps({"text": prose(n)}, ensure_ascii=False) for n in range(90)]
    cut = [line[:40] if n % 3 else line for n, line in enumerate(lines)]
    found = project.find_sources([written(tmp_path / "t", {"b.jsonl": "\n".join(cut), "a.jsonl": ""})], tmp_path / "mine")
    message = [*project.summary(found)]
    assert "  1 of its files is empty" in message
    assert any(
        line.startswith("  not everything can be read: b.jsonl, line 2") and "a run stops at 67%" in line for line in message
    )


@pytest.mark.parametrize("where", ["t/{}", "{}/t"])
def test_names_that_are_not_utf_8_are_refused_with_a_remedy(where: str, tmp_path: Path) -> None:
    """Archives from Korean Windows unpack to such names."""
    below = where.format("글".encode("cp949").decode("utf-8", "surrogateescape"))
    written(tmp_path / below, {f"{n}.txt": prose(n) for n in range(30)})
    with pytest.raises(RecipeError, match=r"udcb1.*: this name is not UTF-8, .*; rename it \(convmv"):
        project.write(tmp_path / "mine", [tmp_path / below.split("/")[0]])
    assert not (tmp_path / "mine").exists()


def test_a_file_that_was_cut_stops_a_run_as_half_a_file_does(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": prose(n)}, ensure_ascii=False) + "\n" for n in range(300)).encode()
    whole = compressed("gz", rows)
    found = project.find_sources([written(tmp_path / "t", {"a.jsonl.gz": whole[: len(whole) // 2]})], tmp_path / "mine")
    assert any("a run stops at 50% of such records or files" in line for line in project.summary(found))
