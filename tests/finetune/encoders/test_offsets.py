"""Every visible character of a text belongs to one piece, with any normalisation and any kind of vocabulary."""

from __future__ import annotations

import itertools
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from korealbert.finetune.encoders.alignment import pieces
from korealbert.vocab.morphemes import BOUNDARY, for_directory, split_morphemes
from korealbert.vocab.normalisation import SEPARATORS
from korealbert.vocab.stage import VocabSpec, train_model, write_vocabulary
from korealbert.vocab.tokenizer import SPECIAL_PIECES, Vocabulary, fast_tokenizer
from tests.vocab.korean import sentences

KINDS = {
    "unigram": VocabSpec(size=360, training_threads=1),
    "unigram-bytes": VocabSpec(size=600, byte_fallback=True, user_defined_pieces=("(", "."), training_threads=1),
    "bpe-bytes": VocabSpec(size=600, model_type="bpe", byte_fallback=True, training_threads=1),
    "morphemes": VocabSpec(size=480, byte_fallback=True, morphemes="everywhere", training_threads=1),
}
FRAGMENTS = [
    "㎏", "½", "ﬁ", "①", "Ⅷ", "ＡＢ", "３", "﹏", "ﷺ", "…", "é", "e\u0301", "e\u0302\u0323", "か\u3099", "ﾊﾞ", "漢字", "龘",
    unicodedata.normalize("NFD", "각난닫"), unicodedata.normalize("NFD", "동생은"), "\u1112\u119e\u11ab", "\u1161", "\u11a8",
    "😀", "👍🏽", "👨\u200d👩\u200d👧", "🇰🇷", "\u200b", "\ufeff", "\u200e", "\xad", "▁", "\t", "\r\n", "  ", "\u3000",
    "\x00", "ㅋㅋㅜㅜ", "\xa0", "\x85", "\u2063", "민지", "할머니는", "시장에서", "(", ".", "1,200", "Wi-Fi", " ", " ",
    "[MASK]", "[SEP]", "<unk>",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=10).map(lambda parts: unicodedata.normalize("NFD", "".join(parts))),
    st.text(st.characters(exclude_categories=["Cs"])),
)


def vocabulary_in(directory: Path, spec: VocabSpec) -> Path:
    """Train a small vocabulary on our own sentences, in the form of an exported model."""
    text = [*sentences(400), *["[ M A S K ] C L S E P < u n k p a d >"] * 20]
    model = train_model(spec, list(map(split_morphemes, text)) if spec.morphemes == "everywhere" else text)
    write_vocabulary(spec, model, directory)
    fast_tokenizer(model).save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vocabulary_in(tmp_path_factory.mktemp(request.param), KINDS[request.param])


@pytest.fixture(scope="module")
def tokenizer(directory: Path) -> Any:
    """The tokenizer that ``load_tokenizer`` would return."""
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_PIECES, strict=True))
    given = AutoTokenizer.from_pretrained(directory, split_special_tokens=True, **names)
    return for_directory(given, directory)


def shown(text: str) -> str:
    """Replace each character that a vocabulary reads as a space by a space."""
    return "".join(" " if character in SEPARATORS or character.isspace() else character for character in text)


def covered_by_pieces(text: str, tokenizer: Any) -> str:
    """Check that the spans of a text's pieces are in order and have no spaces around them; return the text within them."""
    (found,) = pieces([text], tokenizer)
    assert len(found.spans) == len(found.ids)
    assert all(0 <= begin <= end <= len(text) for begin, end in found.spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found.spans))
    slices = [text[begin:end] for begin, end in found.spans]
    assert all(part == part.strip() for part in map(shown, slices))
    return "".join(slices)


@settings(max_examples=100)
@given(TEXTS)
def test_each_visible_character_belongs_to_exactly_one_piece(tokenizer: Any, text: str) -> None:
    covered = shown(covered_by_pieces(text, tokenizer))
    # The mark between morphemes is a space for a vocabulary of morphemes, and a character for all others.
    assert "".join(covered.split()).replace(BOUNDARY, "") == "".join(shown(text).split()).replace(BOUNDARY, "")


@settings(max_examples=100)
@given(TEXTS)
def test_pretraining_and_fine_tuning_cut_any_text_alike(vocabulary: Vocabulary, tokenizer: Any, text: str) -> None:
    (ids,) = vocabulary.encode([text])
    assert pieces([text], tokenizer)[0].ids == ids.tolist()


@pytest.fixture(scope="module")
def vocabulary(directory: Path) -> Vocabulary:
    return Vocabulary.load(directory)


def spelt(text: str, tokenizer: Any) -> list[str]:
    (found,) = pieces([text], tokenizer)
    return [text[begin:end] for begin, end in found.spans if begin < end]


def test_each_character_without_a_piece_keeps_its_place_among_bytes(tmp_path: Path) -> None:
    names = dict(zip(("pad_token", "unk_token"), SPECIAL_PIECES, strict=False))
    found = AutoTokenizer.from_pretrained(vocabulary_in(tmp_path, KINDS["unigram-bytes"]), **names)
    assert spelt("漢字㎏😀당", found) == ["漢", "字", "㎏", "😀", "당"]
    decomposed = unicodedata.normalize("NFD", "뷁냥 쀍")
    assert spelt(decomposed, found) == [unicodedata.normalize("NFD", character) for character in "뷁냥쀍"]


def test_decomposed_hangul_is_covered_to_its_last_jamo(tokenizer: Any) -> None:
    text = unicodedata.normalize("NFD", " 할머니는 시장에서\t동생을 기다리겠습니다. ")
    slices = spelt(text, tokenizer)
    assert "".join(slices) == "".join(text.split())
    composed = [unicodedata.normalize("NFC", part) for part in slices]
    (expected,) = pieces([unicodedata.normalize("NFC", text)], tokenizer)
    plain = unicodedata.normalize("NFC", text)
    assert composed == [plain[begin:end] for begin, end in expected.spans if begin < end]
