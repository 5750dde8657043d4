"""Text cut into morphemes: where, that nothing else changes, and that every use of a vocabulary cuts it the same way."""

from __future__ import annotations

import copy
import json
import shutil
import unicodedata
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from korealbert.artifact import Artifact, Runtime, build
from korealbert.examples import packing
from korealbert.finetune.encoders.alignment import pieces
from korealbert.finetune.encoders.tokenizer import load_tokenizer
from korealbert.vocab.morphemes import BOUNDARY, MORPHEMES_FILE, cut_sentences, for_directory, split_morphemes
from korealbert.vocab.normalisation import normalizer
from korealbert.vocab.sampling import MAX_SENTENCE_BYTES
from korealbert.vocab.stage import STAGE, VocabSpec, train_model
from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES, Vocabulary
from tests.vocab.korean import sentences


def bars(text: str) -> str:
    return split_morphemes(text).replace(BOUNDARY, "|")


def test_particles_and_endings_stand_apart_but_syllables_stay_whole() -> None:
    assert bars("할머니는 시장에 갔다가 사과를 샀어요.") == "할머니|는 시장|에 갔|다가 사과|를 샀|어요|."
    assert bars("3㎏당  Wi-Fi").replace("|", "") == "3㎏당  Wi-Fi"
    assert bars("") == ""


def test_decomposed_text_is_cut_where_composed_text_is() -> None:
    text = "강아지는 골목길에서 손전등을 찾았다."
    assert unicodedata.normalize("NFC", bars(unicodedata.normalize("NFD", text))) == bars(text)


def test_a_word_is_cut_alike_in_every_context() -> None:
    first, second = sentences(2, seed=77)
    assert bars(f"{first} {second}") == f"{bars(first)} {bars(second)}"


def test_a_boundary_in_the_text_itself_is_a_space() -> None:
    assert split_morphemes(f"가{BOUNDARY}나").count(BOUNDARY) == 0


@settings(max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*sentences(30, seed=3), "㎏당", "각난", "e\u0301", "か\u3099", "ㅋㅋ", "😀은", "\u200b", " "]),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters=BOUNDARY), max_size=5),
        ),
        max_size=5,
    ).map("".join),
    st.sampled_from(["NFC", "NFD"]),
)
def test_boundaries_change_nothing_but_themselves(text: str, form: Any) -> None:
    text = unicodedata.normalize(form, text)
    cut = split_morphemes(text)
    assert cut.replace(BOUNDARY, "") == text
    assert normalizer().normalize_str(cut).replace(BOUNDARY, "") == normalizer().normalize_str(text)


def test_sentences_come_back_in_order_from_several_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [*sentences(60), "줄\r바꿈", "마지막\u2028문장"]
    expected = [split_morphemes(sentence) for sentence in text]
    monkeypatch.setattr("korealbert.vocab.morphemes.SENTENCES_PER_SHARD", 40)
    messages: list[str] = []
    runtime = Runtime(store=tmp_path, workers=1).reporting_to(lambda progress: messages.append(progress.message))
    assert cut_sentences(text, tmp_path, runtime) == expected
    assert "MB/s" in messages[-1]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def morphemic(request: pytest.FixtureRequest, texts: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    spec = VocabSpec(size=260, model_type=request.param, morphemes="everywhere", training_threads=1)
    return build(STAGE, spec, {"documents": texts}, Runtime(store=tmp_path_factory.mktemp("store"), workers=1)).artifact


@pytest.fixture(scope="module")
def exported(morphemic: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the directory and add what the export stage adds, except the weights."""
    directory = Path(shutil.copytree(morphemic.path, tmp_path_factory.mktemp("exported") / morphemic.name))
    special = {f"{role}_token": SPECIAL_PIECES[index] for role, index in SPECIAL._asdict().items()}
    described = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
    (directory / "tokenizer_config.json").write_text(json.dumps(described), "utf-8")
    config = {"model_type": "albert", "vocab_size": Vocabulary.load(morphemic.path).size, "pad_token_id": SPECIAL.pad}
    (directory / "config.json").write_text(json.dumps(config), "utf-8")
    return directory


def test_pretraining_fine_tuning_and_prompts_give_the_same_ids(exported: Path) -> None:
    text = [*sentences(200, seed=8), "[MASK]라고 적힌 [SEP] 편지를", "㎏당 \t 값은"]
    pretraining = [ids.tolist() for ids in Vocabulary.load(exported).encode(text)]
    fine_tuning = [found.ids for found in pieces(text, load_tokenizer(exported))]
    prompts = for_directory(AutoTokenizer.from_pretrained(exported), exported)
    plain = AutoTokenizer.from_pretrained(exported)
    cut_by_hand = plain(list(map(split_morphemes, text[:200])), add_special_tokens=False)
    assert pretraining == fine_tuning
    assert pretraining[:200] == [prompts(line, add_special_tokens=False)["input_ids"] for line in text[:200]]
    assert pretraining[:200] == cut_by_hand["input_ids"]
    uncut = plain(text[:200], add_special_tokens=False)["input_ids"]
    assert pretraining[:200] != uncut, "the analyser makes a difference, or there is nothing to test here"


def test_a_mask_in_a_prompt_stays_whole(exported: Path) -> None:
    prompts = for_directory(AutoTokenizer.from_pretrained(exported), exported)
    ids = prompts("민지는 [MASK]을 기다리겠습니다.")["input_ids"]
    assert ids.count(SPECIAL.mask) == 1 and ids[0] == SPECIAL.cls and ids[-1] == SPECIAL.sep
    assert Vocabulary.load(exported).boundary not in ids


def test_pieces_of_both_texts_of_a_pair_lead_back_into_them(exported: Path) -> None:
    first, second = sentences(2, seed=21)
    tokenizer = load_tokenizer(exported)
    encoded = tokenizer(first, second, return_offsets_mapping=True)
    for text, number in ((first, 0), (second, 1)):
        spans = [
            span for span, owner in zip(encoded["offset_mapping"], encoded.sequence_ids(0), strict=True) if owner == number
        ]
        names = [name for name, owner in zip(encoded.tokens(), encoded.sequence_ids(0), strict=True) if owner == number]
        for (begin, end), name in zip(spans, names, strict=True):
            if name not in ("▁", "<unk>"):
                assert text[begin:end].strip() == name.lstrip("▁")


def test_no_piece_reaches_over_a_boundary(exported: Path) -> None:
    vocabulary, checked = Vocabulary.load(exported), 0
    for sentence in sentences(100, seed=31):
        names = vocabulary.pieces(vocabulary.encode([sentence])[0])
        if "<unk>" not in names and "…" not in sentence:  # which becomes three full stops
            ends = set(accumulate(map(len, names)))
            # The ▁ of the first word comes before its first character.
            assert {1 + end for end in accumulate(map(len, split_morphemes(sentence).split(BOUNDARY)))} <= ends
            checked += 1
    assert checked > 50


def test_a_vocabulary_without_its_analyser_or_with_another_is_refused(
    exported: Path, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    (tmp_path / "spiece.model").write_bytes((exported / "spiece.model").read_bytes())
    with pytest.raises(
        ValueError, match=r"text for this vocabulary is cut into morphemes, which contradicts the morphemes\.json"
    ):
        Vocabulary.load(tmp_path)
    wanted = json.loads((exported / MORPHEMES_FILE).read_text("utf-8"))
    (tmp_path / MORPHEMES_FILE).write_text(json.dumps({**wanted, "version": "0.1"}), "utf-8")
    with pytest.raises(ValueError, match=r"morphemes\.json: text was cut by .*'0\.1'.* install that version"):
        Vocabulary.load(tmp_path)
    (tmp_path / MORPHEMES_FILE).write_text("{", "utf-8")
    with pytest.raises(ValueError, match=r"morphemes\.json: not JSON"):
        Vocabulary.load(tmp_path)
    (tmp_path / MORPHEMES_FILE).write_text(json.dumps(wanted), "utf-8")
    (tmp_path / "spiece.model").write_bytes(vocabulary.path.read_bytes())
    with pytest.raises(ValueError, match=r"text for this vocabulary is not cut into morphemes"):
        Vocabulary.load(tmp_path)


def test_packing_tells_how_fast_text_was_cut(morphemic: Artifact, texts: Artifact, tmp_path: Path) -> None:
    messages: list[str] = []
    runtime = Runtime(store=tmp_path, workers=1).reporting_to(lambda progress: messages.append(progress.message))
    spec = packing.ExamplesSpec(sequence_length=64, heldout_share=0.0)
    artifact = build(packing.STAGE, spec, {"documents": texts, "vocab": morphemic}, runtime).artifact
    assert "morphemes" not in artifact.stats
    assert [message for message in messages if "cut text into morphemes" in message and "MB/s a core" in message]


def test_morphemes_may_shape_the_vocabulary_alone(texts: Artifact, tmp_path: Path) -> None:
    spec = VocabSpec(size=240, morphemes="vocabulary", training_threads=1)
    artifact = build(STAGE, spec, {"documents": texts}, Runtime(store=tmp_path, workers=1)).artifact
    vocabulary = Vocabulary.load(artifact.path)
    assert vocabulary.boundary is None and not (artifact.path / MORPHEMES_FILE).exists()
    assert not any(BOUNDARY in piece for piece in vocabulary.pieces(range(vocabulary.size)))
    plain = PreTrainedTokenizerFast(tokenizer_file=str(artifact.path / "tokenizer.json"))
    text = sentences(100, seed=5)
    assert plain(text, add_special_tokens=False)["input_ids"] == [ids.tolist() for ids in vocabulary.encode(text)]


def test_windows_of_long_texts_lead_back_into_their_texts(exported: Path) -> None:
    texts = [" ".join(sentences(6, seed=41)), sentences(1, seed=42)[0], " ".join(sentences(4, seed=43))]
    tokenizer = load_tokenizer(exported)
    options = {"truncation": True, "max_length": 16, "stride": 4, "return_overflowing_tokens": True}
    windows = tokenizer(texts, return_offsets_mapping=True, **options)
    owners = windows["overflow_to_sample_mapping"]
    assert len(owners) > len(set(owners)) == len(texts)
    for row, owner in enumerate(owners):
        whole = tokenizer(texts[owner], return_offsets_mapping=True)["offset_mapping"]
        assert set(map(tuple, windows["offset_mapping"][row])) <= {(0, 0), *whole}
    alone = tokenizer(texts[0], return_offsets_mapping=True, **options)
    assert alone["offset_mapping"] == windows["offset_mapping"][: owners.count(0)]
    assert alone["input_ids"] == windows["input_ids"][: owners.count(0)]


@pytest.mark.parametrize("alone", [True, False])
def test_offsets_are_the_same_as_a_tensor(exported: Path, alone: bool) -> None:
    tokenizer, texts = load_tokenizer(exported), sentences(3, seed=44)
    given = texts[0] if alone else texts
    lists = tokenizer(given, padding=True, return_offsets_mapping=True)["offset_mapping"]
    tensor = tokenizer(given, padding=True, return_offsets_mapping=True, return_tensors="np")["offset_mapping"]
    assert [[tuple(span) for span in row] for row in tensor.tolist()] == ([lists] if alone else lists)


def test_every_way_to_encode_a_text_cuts_it(exported: Path) -> None:
    tokenizer = load_tokenizer(exported)
    for texts in pairwise(sentences(100, seed=8)):
        assert tokenizer.encode(*texts) == tokenizer(*texts)["input_ids"]
        assert tokenizer.encode(texts[0], add_special_tokens=False) == tokenizer(texts[0])["input_ids"][1:-1]
        assert tokenizer.tokenize(*texts, add_special_tokens=True) == tokenizer(*texts).tokens()
        assert tokenizer.tokenize(texts[0]) == tokenizer(texts[0]).tokens()[1:-1]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])  # deepcopy restores an object as pickle does
def test_a_copy_cuts_texts_too(exported: Path, copied: Callable[[Any], Any]) -> None:
    tokenizer, text = load_tokenizer(exported), sentences(1, seed=46)[0]
    assert copied(tokenizer)(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert copied(tokenizer).pad_token_id == SPECIAL.pad
    with pytest.raises(AttributeError, match="_nothing"):
        _ = tokenizer._nothing


@pytest.mark.parametrize("morphemes", ["vocabulary", "everywhere"])
def test_a_sentence_that_is_long_only_when_cut_is_trained_on(morphemes: Literal["vocabulary", "everywhere"]) -> None:
    words = " ".join(["할머니는 시장에 갔다가 사과를 샀어요."] * 90)[:1390]
    line = split_morphemes(f"{words} 퓂")
    assert len(line.replace(BOUNDARY, "").encode()) <= MAX_SENTENCE_BYTES < len(line.encode())
    spec = VocabSpec(size=200, character_coverage=1.0, morphemes=morphemes, training_threads=1)
    model = train_model(spec, [*map(split_morphemes, sentences(400)), line])
    assert any("퓂" in piece.piece for piece in model.pieces)
