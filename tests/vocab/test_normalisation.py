"""One table, two libraries: both normalise every text the same way, and Korean as intended."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers.normalizers import Normalizer

from korealbert.vocab.normalisation import SEPARATORS, joining_characters, normalizer, rules, rules_tsv
from korealbert.vocab.tokenizer import Vocabulary


def test_the_characters_that_join_are_those_behind_another_one(vocabulary: Vocabulary) -> None:
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    expected = {character for sequence in rules() for character in sequence[1:]}
    assert joining_characters(model.normalizer_spec.precompiled_charsmap) == expected


def test_a_model_without_a_table_joins_nothing() -> None:
    assert joining_characters(b"") == set()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceNormalizer:
    path: Path = tmp_path_factory.mktemp("rules") / "rules.tsv"
    path.write_text(rules_tsv(), "ascii")
    return SentencePieceNormalizer(rule_tsv=str(path), escape_whitespaces=False, add_dummy_prefix=False)


@pytest.fixture(scope="module")
def fast() -> Normalizer:
    return normalizer()


@pytest.mark.parametrize("plane", range(17))
def test_both_libraries_normalise_every_character_alike(
    compiled: SentencePieceNormalizer, fast: Normalizer, plane: int
) -> None:
    codes = [code for code in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= code < 0xE000]
    # Between letters, so that no two are adjacent and spaces can be counted.
    text = "".join(f"a{chr(code)}b" for code in codes)
    assert compiled.normalize(text) == fast.normalize_str(text)


@settings(max_examples=1_000)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(sorted(rules())),
            st.sampled_from([chr(code) for first in (0x1100, 0x0300, 0x3130) for code in range(first, first + 0x100)]),
            st.sampled_from(["e", "が", "か", "α", "가", " ", "\x00", "\u0345", "\u09c7"]),
            st.characters(exclude_categories=["Cs"]),
        ),
        max_size=8,
    ).map("".join)
)
def test_both_libraries_normalise_what_could_compose_alike(
    compiled: SentencePieceNormalizer, fast: Normalizer, text: str
) -> None:
    assert compiled.normalize(text) == fast.normalize_str(text).lstrip(" ")


def test_decomposed_hangul_composes_and_stays_as_it_is(fast: Normalizer) -> None:
    syllables = "".join(map(chr, range(0xAC00, 0xD7A4)))
    assert fast.normalize_str(unicodedata.normalize("NFD", syllables)) == syllables
    assert fast.normalize_str(syllables) == syllables
    assert fast.normalize_str("가\u11a8") == "각"


def test_jamo_written_alone_do_not_become_syllables(fast: Normalizer) -> None:
    laughing_and_crying = fast.normalize_str("ㅋㅋㅜㅜ")
    assert len(laughing_and_crying) == 4
    assert not any("가" <= character <= "힣" for character in laughing_and_crying)


def test_old_hangul_keeps_its_jamo(fast: Normalizer) -> None:
    assert fast.normalize_str("\u1112\u119e\u11ab") == "\u1112\u119e\u11ab"
    assert fast.normalize_str("나랏말\u110a\u119e미") == "나랏말\u110a\u119e미"


def test_text_in_composed_form_gets_the_form_of_nfkc(fast: Normalizer) -> None:
    text = "㎏당 ①②③ ＡＢＣ１２３ ㈜가나다 café がぎ ½ ﬁ 豈羅"
    assert fast.normalize_str(text) == unicodedata.normalize("NFKC", text)
    assert fast.normalize_str(unicodedata.normalize("NFD", "café がぎ 뷁")) == "café がぎ 뷁"


def test_separators_are_spaces(fast: Normalizer, compiled: SentencePieceNormalizer) -> None:
    for character in SEPARATORS | {"\xa0", "\u3000", "\u2003"}:
        assert fast.normalize_str(f"앞{character}뒤") == compiled.normalize(f"앞{character}뒤") == "앞 뒤"
