"""Every family of encoders works with its own tokenizer through one code path."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from hypothesis import given, settings
from pydantic import ValidationError
from transformers import AutoModel

from korealbert.artifact import InputPath, build
from korealbert.finetune import tasks
from korealbert.finetune.encoders.alignment import frame, pieces
from korealbert.finetune.encoders.encoder import Encoder, load_encoder, pad
from korealbert.finetune.encoders.stage import STAGE, EncoderStats, ModelPlace
from korealbert.finetune.encoders.tokenizer import load_tokenizer
from korealbert.finetune.features import task_tokenizer
from korealbert.finetune.task import Encoded, Example
from korealbert.finetune.task_types.questions import Answer, Question
from korealbert.finetune.task_types.tagged import Tagged
from korealbert.finetune.tasks.klue_dp import Parsed, Tree
from korealbert.finetune.tasks.klue_re import Related
from korealbert.pretrain.runtime import TrainingRuntime
from tests.finetune.encoders.families import FAMILIES, TEXT, write_family
from tests.finetune.encoders.test_offsets import TEXTS, covered_by_pieces, shown

CPU = torch.device("cpu")
SENTENCE = "할머니는 시장에서 동생을 기다렸다."
OTHER = "동생은 Wi-Fi를 켰다."


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: write_family(name, tmp_path_factory.mktemp(name)) for name in FAMILIES}


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, directories: dict[str, Path]) -> Path:
    return directories[request.param]


@functools.cache
def loaded(directory: Path) -> Any:
    """A tokenizer that tests must not change."""
    return load_tokenizer(directory)


def examples() -> dict[str, list[Example]]:
    """Two examples of each kind of task; the second input is longer, so that the first is padded."""
    words, spans = SENTENCE.split(" "), [(0, 4), (5, 9), (10, 13), (14, 19)]
    tags = ["B-PS", "I-PS", "I-PS", *["O"] * (len(SENTENCE) - 3)]
    characters = tuple((n, n + 1) for n in range(len(SENTENCE)))
    tree = Tree((4, 4, 4, 0), (3, 1, 5, 2))
    return {
        "nsmc": [Example("1", OTHER, 1), Example("2", SENTENCE, 0)],
        "korsts": [Example("1", OTHER, 1.5, pair=OTHER), Example("2", SENTENCE, 4.0, pair=OTHER)],
        "klue_ner": [Tagged(str(n), SENTENCE, tuple(tags), spans=characters) for n in (1, 2)],
        "naver_ner": [Tagged("1", SENTENCE, ("B-PER", "O", "B-PER", "O"), spans=tuple(spans))] * 2,
        "klue_dp": [Parsed(str(n), SENTENCE, tree, words=tuple(words), pos=("NNG+JX",) * 4) for n in (1, 2)],
        "klue_re": [Related(str(n), SENTENCE, 3, subject_entity=(0, 3), object_entity=(10, 12)) for n in (1, 2)],
        "korquad": [Question(str(n), "누가?", (Answer("할머니", 0),), pair=f"{SENTENCE} {OTHER}") for n in (1, 2)],
    }


TASKS = ("nsmc", "klue_re", "korquad")
"""One that reads the pooled vector, one that adds pieces to the vocabulary, one that reads offsets."""


@pytest.mark.parametrize(
    ("family", "name"),
    [*itertools.product(FAMILIES, TASKS), *(("bert", name) for name in examples() if name not in TASKS)],
    indirect=["family"],
)
def test_every_family_learns_and_predicts_every_kind_of_task(family: Path, name: str) -> None:
    torch.manual_seed(0)
    task, given = tasks.load(name), examples()[name]
    encoder, tokenizer = load_encoder(family, init="pretrained"), load_tokenizer(family)
    if task.markers:
        tokenizer.add_tokens(list(task.markers), special_tokens=True)
        encoder.make_room(len(tokenizer))
    features = task.encode(given, tokenizer, max_length=64)
    head = task.head(hidden_size=encoder.hidden_size, dropout=0.1, train=features)
    logits = head(encoder(pad(features, pad_id=tokenizer.pad_token_id, device=CPU)))
    loss = task.loss(logits, [feature.target for feature in features])
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(loss)
    assert float(encoder.transformer.get_input_embeddings().weight.grad.abs().sum()) > 0
    encoded = Encoded(given, features)
    encoder.eval(), head.eval()
    with torch.inference_mode():
        decoded = task.decode(head(encoder(pad(features, pad_id=tokenizer.pad_token_id, device=CPU))), features)
    predicted = task.predictions(encoded, decoded)
    assert len(predicted) == len(given)
    for mode in ("official", "corrected"):
        scores = task.score(given, predicted, mode)
        oracle = task.oracle(encoded)
        assert scores.values.keys() >= {task.metric}
        if oracle is not None:
            assert scores.values[task.metric] <= task.score(given, oracle, mode).values[task.metric] + 1e-9


def test_pretrained_weights_are_found_under_any_prefix(family: Path) -> None:
    encoder = load_encoder(family, init="pretrained").eval()
    theirs = AutoModel.from_pretrained(family, local_files_only=True).eval()
    ids = torch.tensor([[3, 9, 17, 8, 4]])
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        found = encoder.transformer(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    torch.testing.assert_close(found, expected)


def test_an_example_is_the_same_alone_and_padded_to_a_longer_one(family: Path) -> None:
    encoder, tokenizer = load_encoder(family, init="pretrained").eval(), loaded(family)
    task = tasks.load("nsmc")
    features = task.encode([Example("1", OTHER, 1), Example("2", " ".join(TEXT[:4]), 0)], tokenizer, max_length=96)
    assert len(features[1].input_ids) > 2 * len(features[0].input_ids)
    pad_id = tokenizer.pad_token_id
    with torch.inference_mode():
        together = encoder(pad(features, pad_id=pad_id, device=CPU))
        alone = encoder(pad(features[:1], pad_id=pad_id, device=CPU))
    torch.testing.assert_close(together.pooled_BH[:1], alone.pooled_BH, atol=1e-5, rtol=1e-4)


def test_the_longest_input_fits_and_no_longer_one_does(family: Path) -> None:
    encoder = load_encoder(family, init="pretrained").eval()
    pad_id = loaded(family).pad_token_id
    ids = torch.full((1, encoder.max_length), 9)
    assert pad_id != 9
    with torch.inference_mode():
        encoder.transformer(input_ids=ids, attention_mask=torch.ones_like(ids))
        if encoder.transformer.config.model_type in ("deberta-v2", "modernbert"):
            return  # Positions relative to each other have no table that ends.
        with pytest.raises((IndexError, RuntimeError, ValueError)):
            longer = torch.full((1, encoder.max_length + 1), 9)
            encoder.transformer(input_ids=longer, attention_mask=torch.ones_like(longer))


def test_pieces_are_those_of_the_familys_own_vocabulary(family: Path) -> None:
    tokenizer = loaded(family)
    found = pieces([SENTENCE, OTHER], tokenizer)
    for text, made in zip((SENTENCE, OTHER), found, strict=True):
        assert sum(piece == tokenizer.unk_token_id for piece in made.ids) <= 2
        slices = [text[begin:end] for begin, end in made.spans]
        assert "".join(slices) == text.replace(" ", "")
    single = frame(tokenizer, pair=False)
    assert single.before == [tokenizer.cls_token_id] and single.after == [tokenizer.sep_token_id]


@settings(max_examples=60)
@given(text=TEXTS)
def test_each_visible_character_belongs_to_one_piece_of_any_family(directories: dict[str, Path], text: str) -> None:
    for directory in directories.values():
        assert visible(covered_by_pieces(text, loaded(directory))) == visible(text)


def test_an_entity_without_pieces_keeps_its_markers(family: Path) -> None:
    task = tasks.load("klue_re")
    tokenizer = task_tokenizer(task, family)
    for nothing in ("\u0301", "\x07", "\u200b"):
        example = Related("1", f"도서관{nothing}과 학교{nothing}", 0, subject_entity=(3, 4), object_entity=(8, 9))
        (feature,) = task.encode([example], tokenizer, max_length=64)
        names = tokenizer.convert_ids_to_tokens(feature.input_ids)
        assert [name for name in names if name in task.markers] == list(task.markers)


def test_a_sentence_without_a_labelled_piece_has_no_loss(family: Path) -> None:
    task = tasks.load("naver_ner")
    (feature,) = task.encode([Tagged("1", " ", ("O", "O"), spans=((0, 0), (1, 1)))], loaded(family), max_length=16)
    logits = torch.randn(1, len(feature.input_ids), 29, requires_grad=True)
    loss = task.loss(logits, [feature.target])
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0 and logits.grad is not None and not logits.grad.any()


def visible(text: str) -> str:
    """Remove spaces, and what BERT's normaliser removes: control, format and unassigned characters."""
    removed = {ord(c): None for c in shown(text) if unicodedata.category(c)[0] == "C" or c == "\ufffd"}
    return "".join(shown(text).translate(removed).split())


@pytest.mark.parametrize("name", ["kobert", "kobert-xlnet"])
def test_bert_over_sentencepiece_has_the_pieces_of_its_model_and_the_numbers_of_its_vocab(
    name: str, directories: dict[str, Path]
) -> None:
    directory = directories[name]
    model = sentencepiece.SentencePieceProcessor(model_file=str(next(directory.glob("*.model"))))
    listed = directory / "vocab.txt"
    names = listed.read_text("utf-8").splitlines() if listed.exists() else model.id_to_piece(list(range(len(model))))
    tokenizer = load_tokenizer(directory)
    for text in (*TEXT[:60], "㎏ ½ ＡＢ", "  두   칸 ", "모르는 龘 글자"):
        expected = [model.id_to_piece(number) for number in model.encode(text)]
        (made,) = pieces([text], tokenizer)
        assert [names[number] for number in made.ids] == expected
    assert tokenizer("가", "나").input_ids[0] == names.index("[CLS]")
    assert tokenizer("가", "나", return_token_type_ids=True).token_type_ids[-1] == 1


@pytest.fixture
def copied(directories: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A family's directory that a test may damage."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(directories[name], tmp_path / name))

    return copy


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_vocabulary_beyond_the_embeddings_is_refused(copied: Callable[[str], Path]) -> None:
    directory = copied("bert")
    lines = (directory / "vocab.txt").read_text("utf-8")
    (directory / "vocab.txt").write_text(f"{lines}하나\n둘둘\n", "utf-8")
    with pytest.raises(ValueError, match=r"bert: the tokenizer has a piece number \d+, config.json a vocab_size of \d+"):
        load_tokenizer(directory)


def test_weights_of_other_sizes_than_the_config_are_refused(copied: Callable[[str], Path]) -> None:
    directory = copied("bert")
    edit(directory / "config.json", hidden_size=32)
    with pytest.raises(ValueError, match=r"bert: no encoder that can be loaded .*give a directory with config.json"):
        load_encoder(directory, init="pretrained")
    edit(directory / "config.json", hidden_size=16, num_hidden_layers=2)
    with pytest.raises(ValueError, match=r"lacks \d+ weights of its config.json"):
        load_encoder(directory, init="pretrained")


def test_another_padding_piece_than_positions_are_counted_from_is_refused(copied: Callable[[str], Path]) -> None:
    directory = copied("klue-roberta")
    edit(directory / "config.json", pad_token_id=0)
    with pytest.raises(ValueError, match=r"pads with 1, config.json has pad_token_id 0, from which positions are counted"):
        load_tokenizer(directory)


@pytest.mark.parametrize(("name", "remedy"), [("bert", "do_lower_case to false"), ("albert", "keep_accents to true")])
def test_a_tokenizer_that_takes_hangul_apart_is_refused(copied: Callable[[str], Path], name: str, remedy: str) -> None:
    directory = copied(name)
    (directory / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    with pytest.raises(ValueError, match=rf"tokenizer_config.json: .* Korean pieces of its vocabulary come out as .*{remedy}"):
        load_tokenizer(directory)


def test_pickled_weights_are_refused_with_the_way_to_convert_them(copied: Callable[[str], Path]) -> None:
    directory = copied("bert")
    torch.save(Encoder(AutoModel.from_pretrained(directory)).transformer.state_dict(), directory / "pytorch_model.bin")
    load_encoder(directory, init="pretrained")
    (directory / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"pytorch_model.bin is a pickle, which can run code .*save_pretrained"):
        load_encoder(directory, init="pretrained")
    load_encoder(directory, init="random")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{]"),
        ("model.safetensors", b""),
        ("config.json", b"{"),
        ("config.json", b"[]"),
        ("config.json", b'{"model_type": "t5"}'),
        ("config.json", b'{"model_type": "bert", "hidden_size": "wide"}'),
    ],
)
def test_damaged_directories_are_named(copied: Callable[[str], Path], file: str, content: bytes) -> None:
    directory = copied("bert")
    (directory / file).write_bytes(content)
    with pytest.raises(ValueError, match="bert: no encoder that can be loaded"):
        load_encoder(directory, init="pretrained")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": "1.0"}'])
def test_damaged_tokenizers_are_named(copied: Callable[[str], Path], content: bytes) -> None:
    directory = copied("bert")
    (directory / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match="bert: no tokenizer that can be loaded"):
        load_tokenizer(directory)


def test_a_model_and_a_vocab_of_different_pieces_do_not_belong_together(copied: Callable[[str], Path]) -> None:
    directory = copied("kobert")
    lines = (directory / "vocab.txt").read_text("utf-8").splitlines()
    (directory / "vocab.txt").write_text("\n".join([*lines[:-1], "없는조각"]), "utf-8")
    with pytest.raises(
        ValueError, match=r"vocab.txt: other pieces than tokenizer_78b3.model .*없는조각.*do not belong together"
    ):
        load_tokenizer(directory)
    next(directory.glob("*.model")).write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"tokenizer_78b3.model: not a SentencePiece model"):
        load_tokenizer(directory)


def test_big_bird_attends_to_everything_at_any_length(directories: dict[str, Path]) -> None:
    encoder = load_encoder(directories["big-bird"], init="pretrained").eval()
    for length in (12, 200, 12):
        ids = torch.full((1, length), 9)
        encoder.transformer(input_ids=ids, attention_mask=torch.ones_like(ids))
        assert encoder.transformer.attention_type == "original_full"


def test_uncased_wordpiece_covers_accents_and_jamo(directories: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(directories["bert-uncased"])
    for text in ("Café NAÏVE Zürich", unicodedata.normalize("NFD", "할머니는 Café"), "할머니는 시장에서"):
        (made,) = pieces([text], tokenizer)
        assert "".join(text[begin:end] for begin, end in made.spans) == text.replace(" ", "")


def test_an_encoder_becomes_an_artifact_of_what_it_needs_and_nothing_else(
    copied: Callable[[str], Path], tmp_path: Path
) -> None:
    directory = copied("kobert")
    (directory / "tokenization_theirs.py").write_text("raise SystemExit('executed')")
    runtime = TrainingRuntime(store=tmp_path / "store", device="cpu")
    built = build(STAGE, ModelPlace(path=InputPath(directory)), {}, runtime, label="encoder/kobert").artifact
    kept = {path.name for path in built.path.iterdir()} - {"manifest.json"}
    assert kept == {"config.json", "model.safetensors", "tokenizer_config.json", "tokenizer_78b3.model", "vocab.txt"}
    stats = built.stats_as(EncoderStats)
    assert (stats.model_type, stats.longest_input) == ("bert", 512)
    assert load_tokenizer(built.path)(SENTENCE).input_ids == load_tokenizer(directory)(SENTENCE).input_ids
    load_encoder(built.path, init="pretrained")


def test_an_encoder_is_named_in_one_place() -> None:
    for fields in ({"path": "a", "package": "a==1", "folder": "b"}, {"package": "a==1"}, {"path": "a", "folder": "b"}):
        with pytest.raises(ValidationError, match=r"path and package exclude each other; remove one|belong together"):
            ModelPlace.model_validate(fields)
