"""On real Korean Wikipedia: the fast tokenizer gives the ids of SentencePiece, and offsets lead back into the text."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from korealbert.vocab.fast_tokenizer import fast_tokenizer
from korealbert.vocab.tokenizer import Vocabulary
from korealbert.vocab.training import VocabSpec, train_model

LINES = 10_000


@pytest.fixture(scope="module")
def lines(real_data: Path) -> list[str]:
    """The first lines of the corpus as they stand, markup and odd spaces included."""
    found: list[str] = []
    path = real_data / "corpus" / "kowiki_extracted_AA.tar.zst"
    with pa.input_stream(str(path), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if (content := archive.extractfile(member)) is not None:
                found += [line for line in content.read().decode("utf-8").split("\n") if line]
            if len(found) >= LINES:
                break
    return found[:LINES]


@pytest.mark.real
def test_ids_agree_on_wikipedia(lines: list[str], tmp_path: Path) -> None:
    model = train_model(VocabSpec(size=3_000, user_defined_pieces=("(", ")", '"')), lines[:1_500])
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    vocabulary, fast = Vocabulary.load(tmp_path), fast_tokenizer(model)
    encoded = fast.encode_batch(lines, add_special_tokens=False)
    different = [
        line for line, ours, theirs in zip(lines, vocabulary.encode(lines), encoded, strict=True) if ours.tolist() != theirs.ids
    ]
    assert different == []
    for line in lines[:500]:
        pieces = vocabulary.encode_with_offsets(line)
        assert "".join(line[piece.begin : piece.end] for piece in pieces).split() == line.split()
