"""On unmodified real Korean text ``transformers`` gives the ids of SentencePiece, and offsets lead back into the text."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

from korealbert.examples.encoding import DocumentEncoder
from korealbert.finetune.encoders.alignment import Span, pieces
from korealbert.vocab.normalisation import SEPARATORS
from korealbert.vocab.stage import VocabSpec, train_model
from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES, Vocabulary, fast_tokenizer

LINES = 4_000
"""Lines of each source, divided among the kinds of vocabulary."""


def lines_of(content: bytes) -> list[str]:
    """Read plain text."""
    return content.decode("utf-8").split("\n")


def fields_of(content: bytes) -> list[str]:
    """Return the values of a list of JSON objects, with line ends and markup."""
    records = json.loads(content)
    return [str(value) for record in (records if isinstance(records, list) else [records]) for value in record.values()]


def wikitext_of(content: bytes) -> list[str]:
    """Return lines and whole texts of JSON objects with wikitext. ``test_tokenizer`` has a line of a million characters."""
    fields = fields_of(content)
    whole = [text for text in fields if len(text) < 100_000]
    return [*whole, *(line for text in fields for line in text.split("\n"))]


SOURCES: dict[str, tuple[str, str, Callable[[bytes], list[str]]]] = {
    "wikipedia": ("kowiki_extracted_AA", "", lines_of),
    "news": ("news_categories", ".txt", lines_of),
    "news-leads": ("news_leads", ".json", fields_of),
    "namuwiki": ("namuwiki", ".json", wikitext_of),
    "reviews": ("reviews_nsmc_raw", ".json", fields_of),
}
"""Archive, suffix of the files to read, and how to read one."""


def read(archive: Path, ending: str, reader: Callable[[bytes], list[str]]) -> Iterator[str]:
    """Yield the non-empty texts of an archive."""
    with pa.input_stream(str(archive), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as members:
        for member in members:
            if member.name.endswith(ending) and (content := members.extractfile(member)) is not None:
                yield from filter(None, reader(content.read()))


KINDS = {
    "unigram": VocabSpec(size=3_000, user_defined_pieces=("(", ")", '"')),
    "unigram-bytes": VocabSpec(size=3_000, byte_fallback=True),
    "bpe": VocabSpec(size=3_000, model_type="bpe"),
    "bpe-bytes": VocabSpec(size=3_000, model_type="bpe", byte_fallback=True, user_defined_pieces=("(", "."), split_digits=True),
}


@pytest.fixture(scope="module", params=KINDS)
def exported(request: pytest.FixtureRequest, real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a vocabulary on Wikipedia's first lines, and write the files that the export stage adds."""
    directory = tmp_path_factory.mktemp("exported") / str(request.param)
    directory.mkdir()
    archive, ending, reader = SOURCES["wikipedia"]
    sentences = list(islice(read(real_data / "corpus" / f"{archive}.tar.zst", ending, reader), 1_500))
    model = train_model(KINDS[request.param], sentences)
    (directory / "spiece.model").write_bytes(model.SerializeToString())
    fast_tokenizer(model).save(str(directory / "tokenizer.json"))
    special = {f"{role}_token": SPECIAL_PIECES[index] for role, index in SPECIAL._asdict().items()}
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}))
    return directory


@pytest.mark.real
@pytest.mark.parametrize("source", SOURCES)
def test_ids_are_those_of_sentencepiece_and_spans_cover_the_text(source: str, exported: Path, real_data: Path) -> None:
    archive, ending, reader = SOURCES[source]
    texts = read(real_data / "corpus" / f"{archive}.tar.zst", ending, reader)
    lines = list(islice(texts, list(KINDS).index(exported.name), LINES, len(KINDS)))  # Each kind has lines of its own.
    assert len(lines) > 500
    raw = SentencePieceProcessor(model_file=str(exported / "spiece.model")).encode(lines)
    vocabulary = Vocabulary.load(exported)
    ours = [ids.tolist() for ids in vocabulary.encode(lines)]
    found = pieces(lines, AutoTokenizer.from_pretrained(exported))
    assert [line for line, a, b in zip(lines, raw, ours, strict=True) if a != b] == []
    assert [line for line, a, b in zip(lines, raw, found, strict=True) if a != b.ids] == []
    assert by_words(vocabulary, lines) == [
        ids for line in lines for ids in vocabulary.processor.Encode(line.split("\n")) if ids
    ]
    assert [line for line, b in zip(lines, found, strict=True) if not covers(line, b.spans)] == []


def by_words(vocabulary: Vocabulary, lines: list[str]) -> list[list[int]]:
    """Return the ids of sentences as the examples stage encodes them, 300 lines at a time; words are remembered in between."""
    encoder, found = DocumentEncoder(vocabulary), []
    for begin in range(0, len(lines), 300):
        encoded = encoder.encode(lines[begin : begin + 300])
        found += np.split(encoded.pieces, np.cumsum(encoded.sentence_lengths)[:-1])
    return [ids.tolist() for ids in found]


def covers(text: str, spans: list[Span]) -> bool:
    """Whether spans ascend, and together contain exactly the visible characters of a text."""
    shown = "".join(text[begin:end] for begin, end in spans)
    ascending = all(a[1] <= b[0] for a, b in pairwise(spans))
    return ascending and "".join(shown.split()) == "".join("".join(map(space_or_itself, text)).split())


def space_or_itself(character: str) -> str:
    return " " if character in SEPARATORS else character
