"""Pieces are aligned with characters for SentencePiece, WordPiece and byte-level BPE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from korealbert.finetune import tasks
from korealbert.finetune.encoders.alignment import Pieces, frame, owned_units, pieces, with_every_unit
from korealbert.finetune.task import Encoded
from korealbert.finetune.task_types.tagged import Tagged
from korealbert.finetune.tasks.klue_re import KlueRe, Related, marked_ids

TEXT = [
    "김구 선생은 서울에서 태어났다고 한다.",
    "서울의 강은 넓고 김구의 뜻은 깊다.",
    "The river runs through Seoul, 3㎏ of rice in hand.",
    "나는 어제 서울에 갔다가 오늘 돌아왔다.",
]
UNKNOWN: dict[str, Any] = {"unk_token": "<unk>"}
NAMES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
ROLES = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), NAMES, strict=True))


def finished(tokenizer: Tokenizer, trainer: Any, *, doubled: bool = False) -> PreTrainedTokenizerFast:
    tokenizer.train_from_iterator(TEXT, trainer)
    between = "</s> </s>" if doubled else "</s>"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=f"<s> $A {between} $B:1 </s>:1", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ROLES)


def sentencepiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=list(NAMES), **UNKNOWN, show_progress=False)
    return finished(tokenizer, trainer, doubled=True)


def wordpiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(**UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return finished(tokenizer, trainers.WordPieceTrainer(vocab_size=160, special_tokens=list(NAMES), show_progress=False))


def byte_bpe() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=list(NAMES), initial_alphabet=alphabet, show_progress=False)
    return finished(tokenizer, trainer, doubled=True)


FAMILIES: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "sentencepiece": sentencepiece,
    "wordpiece": wordpiece,
    "byte-bpe": byte_bpe,
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return FAMILIES[request.param]()


texts = st.lists(st.sampled_from(["김구", "선생은", "서울에", "강", "㎏", "Seoul,", "\u200b", "龘", "é", "3"]), max_size=8).map(
    " ".join
)


@settings(max_examples=50)
@given(text=texts)
def test_spans_tile_the_text_without_overlap_or_space(family: Any, text: str) -> None:
    (found,) = pieces([text], family)
    assert len(found.ids) == len(found.spans)
    reached = 0
    for begin, end in found.spans:
        assert reached <= begin <= end <= len(text)
        assert text[begin:end] == text[begin:end].strip()
        reached = max(reached, end)
    covered = {position for begin, end in found.spans for position in range(begin, end)}
    assert all(position in covered for position, character in enumerate(text) if character in "김구선생은서울에강㎏3")


def test_the_frame_is_what_the_tokenizer_itself_builds(family: Any) -> None:
    first, second = "김구 선생은", "서울에 갔다"
    single, pair = frame(family, pair=False), frame(family, pair=True)
    a, b = (found.ids for found in pieces([first, second], family))
    whole = family(first, return_token_type_ids=True)
    assert single.around(a) == (whole["input_ids"], whole["token_type_ids"])
    assert single.size == len(whole["input_ids"]) - len(a)
    assert pair.around(a, b)[0] == family(first, second)["input_ids"]
    assert pair.around(a, b)[1][-len(b) - 1 :] == [1] * (len(b) + 1)


def test_a_unit_belongs_only_to_its_first_piece() -> None:
    assert owned_units([(0, 2), (2, 3), (3, 3), (4, 6)], [(0, 3), (4, 6)]) == [[0], [], [], [1]]
    assert owned_units([(0, 3), (3, 3), (4, 5)], [(n, n + 1) for n in range(5)]) == [[0, 1, 2], [], [4]]
    assert owned_units([(1, 3)], [(0, 3)]) == [[0]]


def test_a_word_without_pieces_becomes_an_unknown_one() -> None:
    made = with_every_unit(Pieces([7, 8], [(0, 2), (5, 7)]), [(0, 2), (3, 4), (5, 7)], unknown_id=1)
    assert made == Pieces([7, 1, 8], [(0, 2), (3, 4), (5, 7)])


def characters(text: str, tags: list[str]) -> Tagged:
    return Tagged("1", text, tuple(tags), spans=tuple((n, n + 1) for n in range(len(text))))


@st.composite
def tagged_text(draw: st.DrawFn) -> Tagged:
    """A text whose entities begin and end anywhere; a space within one belongs to it."""
    text = draw(texts.filter(lambda text: bool(text.strip())))
    tags: list[str] = []
    while len(tags) < len(text):
        kind, length = draw(st.sampled_from(["O", "PS", "QT"])), draw(st.integers(1, 6))
        tags += ["O"] * length if kind == "O" else [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
    return characters(text, tags[: len(text)])


def continuation(tag: str) -> str:
    """The tag of a unit that continues one with this tag."""
    return tag if tag == "O" else f"I-{tag[2:]}"


@settings(max_examples=60)
@given(example=tagged_text())
def test_gold_labels_of_pieces_give_gold_tags_unless_a_piece_straddles_them(family: Any, example: Tagged) -> None:
    task = tasks.load("klue_ner")
    encoded = Encoded([example], task.encode([example], family, max_length=512))
    (tags,), gold = task.oracle(encoded), example.target
    layout = encoded.features[0].layout
    wrong = any(tags[unit] != gold[unit] for owned in layout for unit in owned)
    straddled = any(gold[unit] != continuation(gold[owned[0]]) for owned in layout for unit in owned[1:])
    assert wrong == straddled


def test_gold_as_prediction_scores_100_unless_a_piece_has_two_tags(family: Any) -> None:
    task = tasks.load("naver_ner")
    words = ["김구", "선생은", "\u200b", "서울에", "갔다"]
    tags = ("B-PER", "B-CVL", "O", "B-LOC", "O")
    spans, begin = [], 0
    for word in words:
        spans.append((begin, begin + len(word)))
        begin += len(word) + 1
    example = Tagged("1", " ".join(words), tags, spans=tuple(spans))
    encoded = Encoded([example], task.encode([example], family, max_length=64))
    oracle = task.oracle(encoded)
    assert oracle == [list(tags)]
    labelled = [label for label in encoded.features[0].target if label != -100]
    assert [task.tags[label] for label in labelled] == list(tags)  # type: ignore[attr-defined]
    assert task.score([example], oracle, "official").values["entity_micro_f1"] == 100


def test_a_text_beyond_the_length_limit_is_outside(family: Any) -> None:
    task = tasks.load("klue_ner")
    example = characters("김구 선생은 서울에 갔다", ["B-PS"] * 13)
    encoded = Encoded([example], task.encode([example], family, max_length=5))
    assert len(encoded.features[0].input_ids) == 5
    (tags,) = task.oracle(encoded) or [[]]
    assert len(tags) == 13 and tags[-1] == "O"


@pytest.fixture
def marked(family: Any) -> Any:
    family.add_tokens(list(KlueRe.markers), special_tokens=True)
    return family


def test_markers_surround_the_entities_and_particles_continue_their_word(marked: Any) -> None:
    example = Related("1", "김구는 서울에 갔다", 0, subject_entity=(0, 2), object_entity=(4, 6))
    ids = marked_ids(example, marked)
    names = [marked.convert_ids_to_tokens(i) for i in ids]
    places = [names.index(marker) for marker in KlueRe.markers]
    assert places == sorted(places) and places[0] == 0
    for closing in ("</subj>", "</obj>"):
        following = names[names.index(closing) + 1]
        assert not following.startswith(("▁", "Ġ"))
    plain = [name for name in names if name not in KlueRe.markers]
    assert sum(name.startswith(("▁", "Ġ")) for name in plain) in (0, 2, 3)


def test_overlapping_or_missing_entities_are_refused(marked: Any) -> None:
    for spans in (((0, 3), (2, 4)), ((0, 2), (4, 99)), ((0, 0), (4, 6))):
        example = Related("re-7", "김구는 서울에 갔다", 0, subject_entity=spans[0], object_entity=spans[1])
        with pytest.raises(ValueError, match=r"example re-7: entities at .* of 10 characters; give two apart"):
            marked_ids(example, marked)


def test_a_tokenizer_that_knows_no_offsets_is_refused() -> None:
    class Slow:
        is_fast = False
        name_or_path = "theirs"

    with pytest.raises(ValueError, match=r"theirs: its tokenizer has no offsets; save it with a tokenizer.json"):
        pieces(["가"], Slow())
