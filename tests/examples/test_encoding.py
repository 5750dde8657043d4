"""Encoding many lines at once gives the ids that SentencePiece gives for each line alone."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from korealbert.artifact import Artifact, InputPath, Runtime, build
from korealbert.corpus import extract
from korealbert.documents.shards import read_documents
from korealbert.examples import encoding
from korealbert.examples.encoding import PADDING, DocumentEncoder, WordEncoder, longest_line
from korealbert.vocab import stage as vocab_stage
from korealbert.vocab.stage import SCORE_STEP, VocabSpec, train_model
from korealbert.vocab.tokenizer import SPACE, SPECIAL_PIECES, Vocabulary
from tests.vocab.korean import documents, sentence, sentences

ODD = [
    *(" ", "  ", "\n", "\n\n", "\t", "\u3000", "\xa0", "\u200b", "\x07", "\u2028", "\x1c", "▁", "¨", "…", "㎏", "①", "\u0301"),
    *("龘", "ﬁ", "가", "각", "\u1100\u1161", "\u11a8", "ㅋㅋㅜㅜ", "🙂", "👩\u200d👩", "e\u0301", "ｶﾞ", "[MASK]", "<unk>", "("),
    *("1,234", "\x00"),
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
    monkeypatch.setattr(encoding, "BLOCK_CHARACTERS", size)
    check(DocumentEncoder(vocabulary), vocabulary, [document.text for document in documents(30, seed=9)] + ["", "\n", "밥"])


def of_another_tool(directory: Path, **options: Any) -> Vocabulary:
    """Return a vocabulary that the vocab stage would not train."""
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


WORDS = st.text("가나다를0.🙂", min_size=1, max_size=10)
"""Words of few characters and about a key's length, so that they share halves of keys and table entries."""


def encode(encoder: WordEncoder, some: list[str]) -> list[list[int]]:
    text = " ".join(some) + "\n" * PADDING
    wide = any(ord(character) > 0xFFFF for character in text)
    codes = np.frombuffer(text.encode("utf-32-le" if wide else "utf-16-le"), dtype="<u4" if wide else "<u2")
    ends = np.cumsum([len(word) + 1 for word in some], dtype=np.int64) - 1
    begins = np.append(0, ends[:-1] + 1)[: len(some)]
    pieces, counts = encoder.encode(codes, begins, ends)
    return [ids.tolist() for ids in np.split(pieces, np.cumsum(counts))[:-1]]


@pytest.mark.parametrize("bits", [1, 4, 18])
def test_a_word_has_the_pieces_it_has_alone(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(encoding, "PLACES_BITS", bits)
    encoder = WordEncoder(vocabulary)

    @settings(max_examples=80)
    @given(st.lists(WORDS, max_size=40))
    def holds(some: list[str]) -> None:
        assert encode(encoder, some) == [ids.tolist() for ids in vocabulary.encode(some)]

    holds()


def test_words_that_agree_in_a_half_of_their_keys_are_told_apart(vocabulary: Vocabulary) -> None:
    some = ["가나다라", "가나다라마", "가나다라마바사아", "가나다라마바사아자", "마바사아", "마바사아가나다라", "가", "가나"]
    encoder = WordEncoder(vocabulary)
    for order in (some, some[::-1], some * 3):
        assert encode(encoder, order) == [ids.tolist() for ids in vocabulary.encode(order)]


def test_sentencepiece_sees_a_word_once(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = WordEncoder(vocabulary)
    some = [word for text in sentences(300) for word in text.split() if len(word) <= encoding.KEY_CHARACTERS]
    spelt, spell = [], encoder._spell
    monkeypatch.setattr(
        encoder, "_spell", lambda codes, begins, ends: (spelt.append(len(begins)), spell(codes, begins, ends))[1]
    )
    first, second = encode(encoder, some), encode(encoder, some)
    assert first == second
    different = len(set(some))
    assert len(some) > 2 * different
    # Two words may share an entry, so each is looked up in every position.
    assert different <= spelt[0] < 1.05 * different
    assert sum(spelt[1:]) < 0.1 * different


def test_words_in_a_place_that_is_wanted_often_are_the_ones_met(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PLACES_BITS", 1)
    encoder = WordEncoder(vocabulary)
    dice = random.Random(5)  # noqa: S311
    for _ in range(40):
        some = [*sentence(dice).replace("…", "").split(), "그리고"]
        assert encode(encoder, some) == [ids.tolist() for ids in vocabulary.encode(some)]


def changed(vocabulary: Vocabulary, **normalizer: bool) -> Vocabulary:
    """Return the same pieces in a model that treats spaces differently."""
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    for name, value in normalizer.items():
        setattr(model.normalizer_spec, name, value)
    return loaded(vocabulary, model)


def loaded(vocabulary: Vocabulary, model: ModelProto) -> Vocabulary:
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return replace(vocabulary, processor=processor)


def test_lines_are_encoded_by_words_only_where_words_have_pieces_of_their_own(vocabulary: Vocabulary) -> None:
    assert longest_line(vocabulary) > encoding.BLOCK_CHARACTERS
    assert longest_line(changed(vocabulary, add_dummy_prefix=False)) == 0
    assert longest_line(changed(vocabulary, remove_extra_whitespaces=False)) == 0
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.pieces[-1].piece = "다▁가"
    assert longest_line(loaded(vocabulary, model)) == 0
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.pieces[-1].score += SCORE_STEP / 3
    assert longest_line(loaded(vocabulary, model)) == 0
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.pieces[-1].type = ModelProto.SentencePiece.USER_DEFINED
    assert longest_line(loaded(vocabulary, model)) == 0
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.pieces[vocabulary.processor.PieceToId(SPACE)].type = ModelProto.SentencePiece.CONTROL
    assert longest_line(loaded(vocabulary, model)) == 0


def test_a_line_too_long_for_exact_sums_is_encoded_whole(tmp_path: Path) -> None:
    # Cuts of zeros tie; in a long line the rounding of sums decides which one wins.
    model = train_model(VocabSpec(size=300, training_threads=1), [f"{text} 0 00 000 0000" for text in sentences(300)])
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    vocabulary = Vocabulary.load(tmp_path)
    limit = longest_line(vocabulary)
    dice = random.Random(3)  # noqa: S311
    for size in (limit - 9, limit + 9, 8 * limit):
        line = "".join(dice.choice("0000 가龘") for _ in range(size))
        found = DocumentEncoder(vocabulary).encode(["밥 " + line[:50], line])
        assert np.array_equal(found.pieces, np.concatenate(vocabulary.encode(["밥 " + line[:50], line])))


def test_sums_of_the_longest_line_are_exact(vocabulary: Vocabulary) -> None:
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    lowest = min(piece.score for piece in model.pieces if piece.type == piece.NORMAL) - encoding.UNKNOWN_PENALTY
    reached = (longest_line(vocabulary) + encoding.BLOCK_CHARACTERS + 2) * lowest
    assert np.float32(reached) == reached
    assert np.float32(reached + SCORE_STEP) - np.float32(reached) == SCORE_STEP
