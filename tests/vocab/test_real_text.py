"""On real Korean text, as it is: ``transformers`` gives the ids of SentencePiece, and offsets lead back into the text."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

from korealbert.vocab.fast_tokenizer import fast_tokenizer
from korealbert.vocab.stage import VocabSpec, train_model
from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES, Vocabulary

LINES = 10_000


def lines_of(content: bytes) -> list[str]:
    """Plain text."""
    return content.decode("utf-8").split("\n")


def fields_of(content: bytes) -> list[str]:
    """The values of a list of JSON objects, title and body apart, line ends and markup left in."""
    records = json.loads(content)
    return [str(value) for record in (records if isinstance(records, list) else [records]) for value in record.values()]


def wikitext_of(content: bytes) -> list[str]:
    """The lines of the first values of JSON objects: wikitext, and the articles whole as well, up to 520 k characters."""
    fields = fields_of(content)
    return [*fields, *(line for text in fields for line in text.split("\n"))]


SOURCES: dict[str, tuple[str, str, Callable[[bytes], list[str]]]] = {
    "wikipedia": ("kowiki_extracted_AA", "", lines_of),
    "news": ("news_categories", ".txt", lines_of),
    "news-leads": ("news_leads", ".json", fields_of),
    "namuwiki": ("namuwiki", ".json", wikitext_of),
    "reviews": ("reviews_nsmc_raw", ".json", fields_of),
}
"""Archive, ending of the files to read, and how to read one."""


def read(archive: Path, ending: str, reader: Callable[[bytes], list[str]]) -> Iterator[str]:
    """The texts of an archive, empty ones left out."""
    with pa.input_stream(str(archive), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as members:
        for member in members:
            if member.name.endswith(ending) and (content := members.extractfile(member)) is not None:
                yield from filter(None, reader(content.read()))


@pytest.fixture(scope="module")
def exported(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of Wikipedia's first lines, with the files that the export stage writes beside a model."""
    directory = tmp_path_factory.mktemp("exported")
    archive, ending, reader = SOURCES["wikipedia"]
    sentences = list(islice(read(real_data / "corpus" / f"{archive}.tar.zst", ending, reader), 1_500))
    model = train_model(VocabSpec(size=3_000, user_defined_pieces=("(", ")", '"')), sentences)
    (directory / "spiece.model").write_bytes(model.SerializeToString())
    fast_tokenizer(model).save(str(directory / "tokenizer.json"))
    special = {f"{role}_token": SPECIAL_PIECES[index] for role, index in SPECIAL._asdict().items()}
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}))
    return directory


@pytest.mark.real
@pytest.mark.parametrize("source", SOURCES)
def test_ids_are_those_of_sentencepiece(source: str, exported: Path, real_data: Path) -> None:
    archive, ending, reader = SOURCES[source]
    lines = list(islice(read(real_data / "corpus" / f"{archive}.tar.zst", ending, reader), LINES))
    assert len(lines) > 5_000
    raw = SentencePieceProcessor(model_file=str(exported / "spiece.model")).encode(lines)
    vocabulary, loaded = Vocabulary.load(exported), AutoTokenizer.from_pretrained(exported)
    ours = [ids.tolist() for ids in vocabulary.encode(lines)]
    theirs = loaded(lines, add_special_tokens=False)["input_ids"]
    assert [line for line, a, b in zip(lines, raw, ours, strict=True) if a != b] == []
    assert [line for line, a, b in zip(lines, raw, theirs, strict=True) if a != b] == []


@pytest.mark.real
def test_offsets_lead_back_into_the_text(exported: Path, real_data: Path) -> None:
    archive, ending, reader = SOURCES["wikipedia"]
    vocabulary = Vocabulary.load(exported)
    for line in islice(read(real_data / "corpus" / f"{archive}.tar.zst", ending, reader), 500):
        pieces = vocabulary.encode_with_offsets(line)
        assert "".join(line[piece.begin : piece.end] for piece in pieces).split() == line.split()
