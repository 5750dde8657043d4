"""What ``korealbert new`` takes, and what it says, of files that are not as they look."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.recipe import project
from korealbert.recipe.sources import Source
from korealbert.recipe.tables import RecipeError
from tests.recipe.test_project import prose


def of_parquet(directory: Path, **columns: Any) -> Source:
    """The source that a Parquet file of these columns and one of titles becomes."""
    directory.mkdir()
    rows = max(map(len, columns.values()))
    pq.write_table(pa.table({"title": [f"조용한 마을 이야기 {n}" for n in range(rows)], **columns}), directory / "a.parquet")
    [source] = project.look([directory], directory / "mine").sources
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
    assert (source.fields["text"], source.fields["title"], source.further) == ("text", "title", ())
    assert len(source.read.lengths) >= 38


def test_an_id_of_bytes_that_are_no_characters_is_not_read(tmp_path: Path) -> None:
    texts = [prose(n).encode() for n in range(40)]
    source = of_parquet(tmp_path / "t", text=texts, id=[hashlib.sha256(text).digest() for text in texts])
    assert (source.fields["id"], len(source.read.lengths)) == ("", 40)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([prose(n).encode("cp949") for n in range(40)]), "row 1: invalid_utf8"),
        (pa.array([prose(n).encode()[:60] for n in range(40)], pa.binary(60)), "'text' is fixed_size_binary"),
        (pa.array([[prose(n).encode()] for n in range(40)]), "whose text is in 'text', a list"),
    ],
    ids=["cp949", "fixed", "list"],
)
def test_a_text_of_bytes_that_extraction_cannot_read_is_told(column: pa.Array, told: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=told):
        of_parquet(tmp_path / "t", text=column)
