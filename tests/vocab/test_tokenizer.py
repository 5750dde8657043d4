"""Every way to encode text gives the ids of SentencePiece itself; words."""

from __future__ import annotations

import itertools
import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from korealbert.artifact import Artifact
from korealbert.vocab.stage import VocabSpec, train_model
from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES, Vocabulary, fast_tokenizer
from tests.vocab.korean import sentences

ODD = (
    "", " ", "\t\n", "  앞뒤  빈칸  ", "한글\t탭\r\n줄", "\u200b폭\ufeff없는\u3000전각\xa0빈칸", "▁밑줄▁글자",
    "\x00제어\x1f문자", "ＡＢＣ １２３ ①②③ ㎏ ㏇ Ⅷ ﬁ ½ ﷺ", "ㅋㅋㅋㅎㅎ ㅠㅠ ㄱㅏ",
    unicodedata.normalize("NFD", "한글 각난닫 자모"),
    "각힣뷁", "漢字 大韓民國 豈羅來", "😀👍🏽 👨‍👩‍👧 🇰🇷", "ﾊﾝｸﾞﾙ がぎ", "café Å Ω", "0000 00000 1000000.000",
    "...!?~～〜―—", "\ud7a3" * 40,
    "ㅋㅋㅜㅜ ㄱㅏㄳ", "\u1161\u11a8 \u1112\u1161\u11ab\u11ab \u1112\u119e\u11ab",
    "\u0301e\u0302\u0323 ﬁ\u0301 か\u3099\u3099 ﾊﾞ", "¨ ´ \ufdfa",
    "\x00", "가\x00\x00나", "\x01\x01가\x02", "\u200b \ufeff",
    "\ufffd\ufffe\U0010ffff\ue000", "\u202e거꾸로\u202c", "\x85다음\u2028줄",
    "<0x41>", "바이트 <0xEA><0xB0><0x80>는 <<0x0A>>처럼 적고 <0x4 <0xfF>",
)  # fmt: skip
"""Characters that tend to cause errors."""

ALPHABET = st.sampled_from(
    [
        *"가나다각힣는을 \t\n.,()\"'0123aeB①㎏ﬁＡㅋㅜㅎㄳ漢国か゛ﾊﾞ😀¨\u200b\u200d\ufeff\u3000\xa0▁\x00\x01\x07\xad",
        *"\u1100\u1161\u11a8\u1113\u119e\u0301\u0302\u0323\u0345\u3099\u09c7\u09be",
        "\u1100\u1161\u11a8",
    ]
)
TEXTS = st.one_of(
    st.lists(st.one_of(ALPHABET, st.sampled_from(sentences(50, seed=9))), max_size=14).map("".join),
    st.text(),
)
"""Korean mixed with such characters, and any Unicode text."""


@pytest.fixture(scope="session")
def fast(vocab: Artifact) -> Tokenizer:
    return Tokenizer.from_file(str(vocab.path / "tokenizer.json"))


@pytest.fixture(scope="session")
def reference(vocab: Artifact) -> SentencePieceProcessor:
    """SentencePiece as anyone would use the model, without this project's code."""
    return SentencePieceProcessor(model_file=str(vocab.path / "spiece.model"))


def test_special_pieces_have_their_ids(vocabulary: Vocabulary, fast: Tokenizer) -> None:
    assert tuple(vocabulary.pieces(SPECIAL)) == SPECIAL_PIECES
    assert tuple(fast.token_to_id(piece) for piece in SPECIAL_PIECES) == tuple(SPECIAL) == (0, 1, 2, 3, 4)


def test_every_way_to_encode_gives_the_ids_of_sentencepiece(
    reference: SentencePieceProcessor, vocabulary: Vocabulary, fast: Tokenizer
) -> None:
    texts = [*sentences(4_000, seed=5), *(f"  {text.replace(' ', chr(9) + '  ')} " for text in sentences(200, seed=6)), *ODD]
    raw = reference.encode(texts)
    assert [ids.tolist() for ids in vocabulary.encode(texts)] == raw
    assert [encoded.ids for encoded in fast.encode_batch(texts, add_special_tokens=False)] == raw


@settings(max_examples=600)
@given(TEXTS)
@example("밥[MASK]을 <unk>")
def test_every_way_to_encode_agrees_on_any_text(
    reference: SentencePieceProcessor, vocabulary: Vocabulary, fast: Tokenizer, text: str
) -> None:
    raw = reference.encode(text)
    assert vocabulary.encode([text])[0].tolist() == raw
    # Hypothesis draws strings of the code itself too: the fast tokenizer reads a written special piece as that piece.
    if not any(piece in text for piece in SPECIAL_PIECES):
        assert fast.encode(text, add_special_tokens=False).ids == raw


def test_a_line_of_a_million_characters_is_cut_alike(reference: SentencePieceProcessor, fast: Tokenizer) -> None:
    line = " ".join(sentences(35_000, seed=8))
    assert len(line) > 1_000_000
    assert fast.encode(line, add_special_tokens=False).ids == reference.encode(line)


def test_half_a_character_is_refused_with_its_place(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match=r"text 1 holds half a character at 2: the lone surrogate U\+D83D"):
        vocabulary.encode(["온전한 글", "반쪽\ud83d"])


@pytest.mark.parametrize(
    "spec",
    [
        VocabSpec(size=600, byte_fallback=True),
        VocabSpec(size=330, user_defined_pieces=("(", ")", '"', ".", "-")),
        VocabSpec(size=300, model_type="bpe"),
        VocabSpec(size=600, model_type="bpe", byte_fallback=True, user_defined_pieces=("(", "."), split_digits=True),
    ],
    ids=["bytes", "user-defined", "bpe", "bpe-all"],
)
def test_the_fast_tokenizer_agrees_for_every_kind_of_model(spec: VocabSpec, tmp_path: Path) -> None:
    model = train_model(spec, sentences(800))
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    vocabulary, fast = Vocabulary.load(tmp_path), fast_tokenizer(model)
    texts = [*sentences(500, seed=5), *ODD]
    raw = SentencePieceProcessor(model_file=str(tmp_path / "spiece.model")).encode(texts)
    assert [ids.tolist() for ids in vocabulary.encode(texts)] == raw
    assert [encoded.ids for encoded in fast.encode_batch(texts, add_special_tokens=False)] == raw
    for character in spec.user_defined_pieces:
        assert {piece for piece in vocabulary.pieces(range(vocabulary.size)) if character in piece} == {character}
    if spec.byte_fallback:
        assert SPECIAL.unk not in vocabulary.encode(["뷁 漢 😀"])[0]


def test_fast_tokenizer_adds_specials_and_types_for_one_and_two_texts(fast: Tokenizer, vocabulary: Vocabulary) -> None:
    first, second = (ids.tolist() for ids in vocabulary.encode(["밥상도 찾었다.", "별자리를 그리겠습니다."]))
    pair = fast.encode("밥상도 찾었다.", "별자리를 그리겠습니다.")
    assert pair.ids == [SPECIAL.cls, *first, SPECIAL.sep, *second, SPECIAL.sep]
    assert pair.type_ids == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert fast.encode("밥상도 찾었다.").ids == [SPECIAL.cls, *first, SPECIAL.sep]
    assert fast.decode(pair.ids) == "밥상도 찾었다. 별자리를 그리겠습니다."


def test_mask_in_a_prompt_is_the_special_piece_but_plain_text_in_pretraining(vocabulary: Vocabulary, fast: Tokenizer) -> None:
    prompt = "민지는 [MASK] 기다리겠습니다."
    assert fast.encode(prompt, add_special_tokens=False).ids.count(SPECIAL.mask) == 1
    assert SPECIAL.mask not in vocabulary.encode([prompt])[0]
    around = fast.encode("동생과 [MASK]을 찾었다.", add_special_tokens=False)
    after = around.tokens[around.ids.index(SPECIAL.mask) + 1]
    assert not after.startswith("▁"), "what follows the mask without a space continues its word"


def test_transformers_loads_the_fast_tokenizer(vocab: Artifact, vocabulary: Vocabulary) -> None:
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_PIECES, strict=True))
    loaded = PreTrainedTokenizerFast(tokenizer_file=str(vocab.path / "tokenizer.json"), **names)
    text = "3일 강가에서 별자리를 살피지 않았다."
    assert loaded(text, add_special_tokens=False)["input_ids"] == vocabulary.encode([text])[0].tolist()
    assert loaded.mask_token_id == SPECIAL.mask


def words_of(vocabulary: Vocabulary, text: str) -> list[str]:
    """Return the words of a text according to the word table."""
    ids = vocabulary.encode([text])[0]
    starts = vocabulary.words().mark(ids, np.arange(len(ids)) == 0)
    pieces = vocabulary.pieces(ids)
    borders = [*np.flatnonzero(starts), len(pieces)]
    return ["".join(pieces[a:b]) for a, b in itertools.pairwise(borders)]


def test_korean_words_are_what_spaces_and_punctuation_separate(vocabulary: Vocabulary) -> None:
    text = "연구원은 바닷가에서 나침반보다 지도를 살피겠습니다."
    words = words_of(vocabulary, text)
    assert [word.replace("▁", "") for word in words if word != "."] == text.removesuffix(".").split()
    assert len(vocabulary.encode([text])[0]) > len(words), "some words have several pieces"


def test_punctuation_stands_alone_wherever_it_is_its_own_piece(tmp_path: Path) -> None:
    model = train_model(VocabSpec(size=300, split_digits=True, user_defined_pieces=("(", ")", '"', ".", ",")), sentences(800))
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    words = words_of(Vocabulary.load(tmp_path), '축제(祝祭) 동생에게 "봄노래"를 1,200 찾었다.')
    bare = [word.replace("▁", "") for word in words]
    assert bare[1] == "("
    assert bare.count('"') == 2
    assert bare[-1] == "."
    assert "를" in bare
    assert [bare[i + 1] for i, word in enumerate(bare) if word == "1"] == [","]


def test_not_every_hangul_piece_begins_a_word(vocabulary: Vocabulary) -> None:
    table = vocabulary.words()
    hangul = [i for i, piece in enumerate(vocabulary.pieces(range(vocabulary.size))) if "\uac00" <= piece[-1] <= "\ud7a3"]
    assert 0.2 < table.starts[hangul].mean() < 0.8


def test_special_pieces_begin_no_word(vocabulary: Vocabulary) -> None:
    table = vocabulary.words()
    assert not table.starts[list(SPECIAL)].any()
    assert not table.alone[list(SPECIAL)].any()


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"spiece\.model: not a SentencePiece model"):
        Vocabulary.load(tmp_path)
    whole = train_model(VocabSpec(size=300), sentences(500)).SerializeToString()
    for size in (0, len(whole) // 2, len(whole) - 1):
        (tmp_path / "spiece.model").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"spiece\.model: not a SentencePiece model .* copy it again"):
            Vocabulary.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Vocabulary.load(tmp_path / "nowhere")


def test_a_vocabulary_with_other_special_pieces_is_refused(tmp_path: Path) -> None:
    model = train_model(VocabSpec(size=300), sentences(500))
    model.pieces[4].piece = "<mask>"
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=r"ids 0\.\.4 are .*<mask>"):
        Vocabulary.load(tmp_path)


def test_the_vocab_listing_names_every_piece(vocab: Artifact, vocabulary: Vocabulary) -> None:
    lines = (vocab.path / "spiece.vocab").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == vocabulary.pieces(range(vocabulary.size))
    assert json.loads((vocab.path / "tokenizer.json").read_text("utf-8"))["model"]["type"] == "Unigram"
