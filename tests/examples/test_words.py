"""What was met before decides how long encoding takes, never what comes out."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from korealbert.examples import words
from korealbert.examples.encoding import DocumentEncoder
from korealbert.examples.words import PADDING, WordEncoder, longest_line
from korealbert.vocab.stage import SCORE_STEP, VocabSpec, train_model
from korealbert.vocab.tokenizer import SPACE, Vocabulary
from tests.vocab.korean import sentence, sentences

WORDS = st.text("가나다를0.🙂", min_size=1, max_size=10)
"""Few characters and lengths around that of a key, so that words share halves of keys and places."""


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
    monkeypatch.setattr(words, "PLACES_BITS", bits)
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
    some = [word for text in sentences(300) for word in text.split() if len(word) <= words.KEY_CHARACTERS]
    spelt, spell = [], encoder._spell
    monkeypatch.setattr(
        encoder, "_spell", lambda codes, begins, ends: (spelt.append(len(begins)), spell(codes, begins, ends))[1]
    )
    first, second = encode(encoder, some), encode(encoder, some)
    assert first == second
    different = len(set(some))
    assert len(some) > 2 * different
    # Two words may want one place: each is then asked for wherever it stands.
    assert different <= spelt[0] < 1.05 * different
    assert sum(spelt[1:]) < 0.1 * different


def test_words_in_a_place_that_is_wanted_often_are_the_ones_met(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "PLACES_BITS", 1)
    encoder = WordEncoder(vocabulary)
    dice = random.Random(5)  # noqa: S311
    for _ in range(40):
        some = [*sentence(dice).replace("…", "").split(), "그리고"]
        assert encode(encoder, some) == [ids.tolist() for ids in vocabulary.encode(some)]


def changed(vocabulary: Vocabulary, **normalizer: bool) -> Vocabulary:
    """The same pieces in a model that treats spaces otherwise."""
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    for name, value in normalizer.items():
        setattr(model.normalizer_spec, name, value)
    return loaded(vocabulary, model)


def loaded(vocabulary: Vocabulary, model: ModelProto) -> Vocabulary:
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return replace(vocabulary, processor=processor)


def test_lines_are_encoded_by_words_only_where_words_have_pieces_of_their_own(vocabulary: Vocabulary) -> None:
    assert longest_line(vocabulary) > words.BLOCK_CHARACTERS
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
    # Cuts of zeros tie; which one wins in a long line is a matter of how sums are rounded.
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
    lowest = min(piece.score for piece in model.pieces if piece.type == piece.NORMAL) - words.UNKNOWN_PENALTY
    reached = (longest_line(vocabulary) + words.BLOCK_CHARACTERS + 2) * lowest
    assert np.float32(reached) == reached
    assert np.float32(reached + SCORE_STEP) - np.float32(reached) == SCORE_STEP
