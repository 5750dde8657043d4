"""Many lines at once give the ids that SentencePiece gives for each line alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from korealbert.artifact import Artifact, InputPath, Runtime, build
from korealbert.corpus import extract
from korealbert.documents.shards import read_documents
from korealbert.examples import words
from korealbert.examples.encoding import DocumentEncoder
from korealbert.vocab import stage as vocab_stage
from korealbert.vocab.tokenizer import SPECIAL_PIECES, Vocabulary
from tests.vocab.korean import documents, sentences

ODD = [
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "\u3000",
    "\xa0",
    "\u200b",
    "\x07",
    "\u2028",
    "\x1c",
    "▁",
    "¨",
    "…",
    "㎏",
    "①",
    "\u0301",
    "龘",
]
ODD += [
    "ﬁ",
    "가",
    "각",
    "\u1100\u1161",
    "\u11a8",
    "ㅋㅋㅜㅜ",
    "🙂",
    "👩\u200d👩",
    "e\u0301",
    "ｶﾞ",
    "[MASK]",
    "<unk>",
    "(",
    "1,234",
    "\x00",
]
TEXTS = st.lists(st.one_of(st.sampled_from(ODD), st.sampled_from(sentences(40)), st.text(max_size=6)), max_size=25).map("".join)


def check(encoder: DocumentEncoder, vocabulary: Vocabulary, texts: list[str]) -> None:
    found = encoder.encode(texts)
    alone = [(place, ids) for place, text in enumerate(texts) for ids in vocabulary.encode(text.split("\n")) if len(ids)]
    assert found.pieces.tolist() == [i for _, ids in alone for i in ids]
    assert found.sentence_lengths.tolist() == [len(ids) for _, ids in alone]
    assert found.documents.tolist() == [place for place, _ in alone]


@pytest.fixture(scope="module", params=["unigram", "bpe", "bytes", "user-defined"])
def any_vocabulary(request: pytest.FixtureRequest, runtime: Runtime, texts: Artifact) -> Vocabulary:
    wishes = {
        "unigram": {},
        "bpe": {"model_type": "bpe"},
        "bytes": {"byte_fallback": True, "size": 560, "character_coverage": 0.98},
        "user-defined": {"user_defined_pieces": ("(", '"', "."), "character_coverage": 0.99},
    }[request.param]
    spec = vocab_stage.VocabSpec(**{"size": 320, "training_threads": 1, **wishes})  # type: ignore[arg-type]
    return Vocabulary.load(build(vocab_stage.STAGE, spec, {"documents": texts}, runtime).artifact.path)


def test_any_text_gives_the_ids_of_its_lines(any_vocabulary: Vocabulary) -> None:
    encoder = DocumentEncoder(any_vocabulary)

    @settings(max_examples=60)
    @given(st.lists(TEXTS, min_size=1, max_size=4))
    def holds(texts: list[str]) -> None:
        check(encoder, any_vocabulary, [text.encode("utf-8", "replace").decode() for text in texts])

    holds()


@pytest.mark.parametrize("size", [1, 40, 4_096])
def test_blocks_of_any_size_give_the_same(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(words, "BLOCK_CHARACTERS", size)
    check(DocumentEncoder(vocabulary), vocabulary, [document.text for document in documents(30, seed=9)] + ["", "\n", "밥"])


def of_another_tool(directory: Path, **options: Any) -> Vocabulary:
    """A vocabulary that the vocab stage would not train."""
    model = io.BytesIO()
    SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences(400)),
        model_writer=model,
        vocab_size=300,
        character_coverage=0.99,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece=SPECIAL_PIECES[0],
        unk_piece=SPECIAL_PIECES[1],
        control_symbols=list(SPECIAL_PIECES[2:]),
        minloglevel=2,
        **options,
    )
    (directory / "spiece.model").write_bytes(model.getvalue())
    return Vocabulary.load(directory)


def test_words_without_a_space_before_the_first_are_encoded_line_by_line(tmp_path: Path) -> None:
    # Without a dummy prefix the first word of a line has no ▁.
    plain = of_another_tool(tmp_path, add_dummy_prefix=False)
    check(DocumentEncoder(plain), plain, [document.text for document in documents(20, seed=4)])


@pytest.mark.parametrize("rules", ["AC00 B098\tB2E4", "61 20 62\t63", "20\t5F", "78 79 7A\t20", "AC00\tAC00 20 AC00"])
def test_rules_for_sequences_are_followed(tmp_path: Path, rules: str) -> None:
    table = tmp_path / "rules.tsv"
    table.write_text(rules + "\n")
    plain = of_another_tool(tmp_path, model_type="bpe", normalization_rule_tsv=str(table))
    texts = ["가 나 가나 나가나 가가", "a b ab  a  b", "xyz 밥 xyzxyz", *(document.text for document in documents(5, seed=4))]
    check(DocumentEncoder(plain), plain, texts)


def test_no_documents_and_no_text(vocabulary: Vocabulary) -> None:
    encoder = DocumentEncoder(vocabulary)
    for texts in ([""], ["", " \n", "\x07"], []):
        found = encoder.encode(texts)
        assert len(found.pieces) == len(found.sentence_lengths) == len(found.documents) == 0


@pytest.mark.real
def test_real_text_gives_the_ids_of_its_lines(real_data: Path, tmp_path: Path, vocabulary: Vocabulary) -> None:
    paths = (InputPath(real_data / "corpus" / "news_categories.tar.zst"),)
    spec = extract.STAGE.spec(format="news_text", paths=paths, source="news", max_bad_share=0.05)
    news = build(extract.STAGE, spec, {}, Runtime(store=tmp_path, workers=1)).artifact
    texts = [document.text for path in news.files("documents-*.arrow") for document in read_documents(path)]
    assert len(texts) > 1_000
    check(DocumentEncoder(vocabulary), vocabulary, texts)
