"""An exported directory loads offline in transformers and computes the same as our model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AlbertForPreTraining,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from korealbert.artifact import Runtime, build
from korealbert.huggingface.card import ModelFacts, model_card
from korealbert.huggingface.directory import write_mean_pooling
from korealbert.huggingface.export import ANSWERS, STAGE, ExportSpec, ExportStats
from korealbert.huggingface.fill import _piece, fill
from korealbert.recipe.registry import REPORT
from korealbert.report import hub_upload
from korealbert.report.stage import ReportSpec
from korealbert.vocab.morphemes import write_analyser
from korealbert.vocab.tokenizer import Vocabulary
from tests.huggingface.conftest import SENTENCES, MakeModel

PROMPT = "오늘은 [MASK]가 와서 우산을 챙겼다."


def export(make_model: MakeModel, store: Path, **architecture: object) -> tuple[Path, torch.nn.Module]:
    inputs, model = make_model(**architecture)
    return build(STAGE, ExportSpec(title="작은 모형"), inputs, Runtime(store=store)).artifact.path, model


@pytest.mark.parametrize(
    "architecture",
    [{}, {"num_groups": 3}, {"share": "attention"}, {"share": "ffn"}, {"share": "none"}, {"embedding_size": 32}],
    ids=str,
)
def test_logits_equal_ours(make_model: MakeModel, tmp_path: Path, architecture: dict) -> None:
    path, ours = export(make_model, tmp_path, **architecture)
    theirs, info = AlbertForPreTraining.from_pretrained(path, output_loading_info=True)
    assert not any(info.values()), info
    tokenizer = AutoTokenizer.from_pretrained(path)
    encoded = tokenizer(["도서관까지 [MASK].", PROMPT], ["비가 그친다.", ""], padding=True, return_tensors="pt")
    every = torch.arange(encoded["input_ids"].shape[1]).expand_as(encoded["input_ids"])
    with torch.inference_mode():
        expected = theirs.eval()(**encoded)
        lengths = encoded["attention_mask"].sum(1)
        logits = ours(encoded["input_ids"], encoded["token_type_ids"], lengths, every, every)
    real = encoded["attention_mask"].bool()
    torch.testing.assert_close(logits.mlm_BPV[real], expected.prediction_logits[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits.sop_B2, expected.sop_logits, atol=1e-5, rtol=1e-5)


def test_every_class_finds_all_the_weights_that_it_wants(make_model: MakeModel, tmp_path: Path) -> None:
    path, _ = export(make_model, tmp_path)
    for loader, unused in (
        (AutoModel, ("predictions", "sop_classifier")),
        (AutoModelForMaskedLM, ("albert.pooler", "sop_classifier")),
    ):
        model, info = loader.from_pretrained(path, output_loading_info=True)
        assert not info["missing_keys"]
        assert not info["mismatched_keys"]
        assert all(key.startswith(unused) for key in info["unexpected_keys"])
        assert model.config.model_type == "albert"
    assert not [name for name in path.iterdir() if name.suffix in {".py", ".bin", ".pt", ".pkl"}]
    assert not (path / "onnx").exists()


def test_tokenizer_is_the_vocabulary(make_model: MakeModel, tmp_path: Path) -> None:
    path, _ = export(make_model, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    vocabulary, plain = Vocabulary.load(path), Tokenizer.from_file(str(path / "tokenizer.json"))
    for text in SENTENCES[:8]:
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == vocabulary.encode([text])[0].tolist()
    assert tokenizer(PROMPT)["input_ids"] == plain.encode(PROMPT).ids
    pair = tokenizer("비가 온다.", "산책을 간다.")
    assert pair["input_ids"][0] == tokenizer.cls_token_id == 2
    assert pair["token_type_ids"] == sorted(pair["token_type_ids"])
    assert {tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id} == {0, 1, 3, 4}
    assert tokenizer.model_max_length == 16
    assert tokenizer.decode(tokenizer(SENTENCES[0])["input_ids"], skip_special_tokens=True) == SENTENCES[0]


def test_sentence_transformers_finds_mean_pooling_unless_text_is_cut_first(make_model: MakeModel, tmp_path: Path) -> None:
    path, _ = export(make_model, tmp_path)
    assert [module["path"] for module in json.loads((path / "modules.json").read_text())] == ["", "1_Pooling"]
    assert json.loads((path / "1_Pooling" / "config.json").read_text())["word_embedding_dimension"] == 32
    assert json.loads((path / "sentence_bert_config.json").read_text())["max_seq_length"] == 16
    cut = tmp_path / "cut"
    cut.mkdir()
    write_analyser(cut)
    write_mean_pooling(cut, hidden_size=32, longest=16)
    assert [each.name for each in cut.iterdir()] == ["morphemes.json"]


def test_a_vocabulary_of_another_size_is_refused(make_model: MakeModel, tmp_path: Path) -> None:
    inputs, _ = make_model()
    config = json.loads((inputs["pretrain"].path / "config.json").read_text())
    other = tmp_path / "pretrain-other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({**config, "vocab_size": 99}))
    shutil.copyfile(inputs["pretrain"].path / "manifest.json", other / "manifest.json")
    fake = type(inputs["pretrain"])("pretrain-other", other)
    with pytest.raises(ValueError, match=r"pretrain-other has 99 word embeddings, but vocab-\w+ has 82 pieces"):
        STAGE.run(ExportSpec(), {**inputs, "pretrain": fake}, tmp_path, Runtime())


def test_the_same_inputs_give_the_same_bytes(make_model: MakeModel, tmp_path: Path) -> None:
    inputs, _ = make_model()
    digests = {build(STAGE, ExportSpec(), inputs, Runtime(store=tmp_path / n)).artifact.output_digest for n in ("a", "b")}
    assert len(digests) == 1


PHASES = {
    "snapshots": (5, 8),
    "batch_warmup": ({"until_step": 3, "global_batch_size": 512},),
    "long": {"from_step": 5, "global_batch_size": 128},
}


@pytest.mark.parametrize(
    ("snapshot", "length", "updates"),
    [
        (5, 8, "5 updates of 512 to 2,048 sequences of 8 tokens"),
        (8, 16, "8 updates of 128 to 2,048 sequences (shorter ones first, those of 16 tokens after update 5)"),
        (None, 16, "10 updates of 128 to 2,048 sequences (shorter ones first, those of 16 tokens after update 5)"),
    ],
)
def test_an_export_takes_inputs_as_long_as_its_weights_have_seen(
    make_model: MakeModel, tmp_path: Path, snapshot: int | None, length: int, updates: str
) -> None:
    inputs, _ = make_model(training=PHASES)
    artifact = build(STAGE, ExportSpec(snapshot=snapshot), inputs, Runtime(store=tmp_path)).artifact
    assert artifact.stats["sequence_length"] == length
    assert json.loads((artifact.path / "tokenizer_config.json").read_text())["model_max_length"] == length
    assert json.loads((artifact.path / "sentence_bert_config.json").read_text())["max_seq_length"] == length
    card = (artifact.path / "README.md").read_text("utf-8")
    assert updates in card and f"Positions {length}–31 were never trained" in card


def test_no_batch_size_is_named_that_no_step_had(make_model: MakeModel) -> None:
    inputs, _ = make_model(training={**PHASES, "batch_warmup": ({"until_step": 5, "global_batch_size": 512},)})
    facts = ModelFacts.of(inputs["pretrain"], title="t", license="other", snapshot=None)
    assert "10 updates of 128 to 512 sequences (shorter" in model_card(facts, inputs["pretrain"])


def test_a_pushed_snapshot_has_the_held_out_scores_of_its_step(make_model: MakeModel) -> None:
    inputs, _ = make_model(training={"snapshots": (5,)})
    runtime, found = Runtime(store=inputs["pretrain"].path.parent), {}
    for snapshot in (None, 5):
        exported = build(STAGE, ExportSpec(snapshot=snapshot), inputs, runtime).artifact
        with hub_upload.prepare_upload([exported], "model") as prepared:
            found[snapshot] = prepared.measures
    accuracy = "documents held out of pretraining: masked tokens: accuracy"
    assert found[5] == [f"{accuracy} 0.1234"] and f"{accuracy} 0.4321" in found[None]


UNSHARED = {"share": "none", "embedding_size": 32, "activation": "gelu"}


@pytest.mark.parametrize("architecture", [{}, UNSHARED, {"architecture": "modern", "local_attention": 4}], ids=str)
def test_mean_pooling_of_an_export_gives_our_vectors(make_model: MakeModel, tmp_path: Path, architecture: dict) -> None:
    """As SentenceTransformer loads the directory: AutoModel, and the mean over all tokens that are not padding."""
    path, ours = export(make_model, tmp_path, **architecture)
    encoded = AutoTokenizer.from_pretrained(path)([SENTENCES[0], "비가"], padding=True, return_tensors="pt")
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    with torch.inference_mode():
        theirs = AutoModel.from_pretrained(path).eval()(**encoded).last_hidden_state
        found, _ = ours.encoder(ids, torch.zeros_like(ids), mask.sum(1))
    vectors, expected = ((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True) for hidden in (found, theirs))
    assert torch.isfinite(vectors).all()
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "architecture"),
    [
        ("bert", UNSHARED),
        ("roberta", {**UNSHARED, "pooler": False, "position_offset": 1, "type_vocab_size": 1}),
        ("modernbert", {"architecture": "modern", "local_attention": 4}),
    ],
)
def test_other_families_are_exported_as_themselves(
    make_model: MakeModel, tmp_path: Path, family: str, architecture: dict
) -> None:
    path, ours = export(make_model, tmp_path, **architecture)
    theirs = AutoModelForMaskedLM.from_pretrained(path).eval()
    assert theirs.config.model_type == family
    encoded = AutoTokenizer.from_pretrained(path)(["도서관까지 [MASK]."], ["비가 그친다."], return_tensors="pt")
    ids = encoded["input_ids"]
    types = encoded.get("token_type_ids", torch.zeros_like(ids))
    every = torch.arange(ids.shape[1]).expand_as(ids)
    with torch.inference_mode():
        logits = ours(ids, types, None, every, every)
        torch.testing.assert_close(logits.mlm_BPV, theirs(**encoded).logits, atol=1e-5, rtol=1e-5)
    assert f"- {family}\n" in (path / "README.md").read_text("utf-8")


def test_transformers_own_classifiers_pool_as_the_recipe_says(make_model: MakeModel, tmp_path: Path) -> None:
    inputs, _ = make_model(architecture="modern", local_attention=4)
    runtime, read = Runtime(store=tmp_path), {}
    for pooling in ("cls", "mean"):
        path = build(STAGE, ExportSpec(classifier_pooling=pooling), inputs, runtime).artifact.path
        read[pooling] = json.loads((path / "config.json").read_text())
        assert AutoConfig.from_pretrained(path).classifier_pooling == pooling
    assert read["mean"] == {**read["cls"], "classifier_pooling": "mean"}
    assert "classifier_pooling" not in read["cls"], "as earlier versions wrote it"


def test_prompts_are_filled_in_and_shown_under_the_reports_note(make_model: MakeModel, tmp_path: Path) -> None:
    inputs, _ = make_model()
    runtime = Runtime(store=tmp_path)
    prompts = ("나는 [MASK] 간다.", "[MASK]에 비가 온다.")
    artifact = build(STAGE, ExportSpec(prompts=prompts), inputs, runtime).artifact
    filled = artifact.stats_as(ExportStats).filled
    assert [one.prompt for one in filled] == list(prompts)
    assert [one.answers for one in filled] == [fill(artifact.path, [prompt], ANSWERS)[0][0] for prompt in prompts]
    assert all(len(one.answers) == ANSWERS == len({piece for piece, _ in one.answers}) for one in filled)
    spec = ReportSpec(note="Made up <b>here</b>.")
    page = build(REPORT, spec, {**inputs, "export": artifact}, runtime).artifact.path / "report.md"
    page_text = page.read_text("utf-8")
    assert page_text.index("Made up") < page_text.index("What the model fills in") < page_text.index("비가 온다.")


def test_a_text_longer_than_robertas_positions_leave_room_for_is_refused(make_model: MakeModel, tmp_path: Path) -> None:
    path, ours = export(make_model, tmp_path, **UNSHARED, pooler=False, position_offset=1, type_vocab_size=1)
    longest, tokenizer = ours.config.longest_sequence, AutoTokenizer.from_pretrained(path)
    assert longest < json.loads((path / "config.json").read_text())["max_position_embeddings"]
    fits = "[MASK]" * (longest - 2)
    assert len(tokenizer(fits)["input_ids"]) == longest and len(fill(path, [fits], 1)[0]) == longest - 2
    with pytest.raises(ValueError, match=rf"the text has {longest + 1} pieces, the model takes {longest}; shorten it"):
        fill(path, [f"{fits}[MASK]"], 1)


def test_after_filling_transformers_says_as_much_as_before(make_model: MakeModel, tmp_path: Path) -> None:
    path, _ = export(make_model, tmp_path)
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_info()
        logging.enable_progress_bar()
        fill(path, ["나는 [MASK] 간다."], 1)
        assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (logging.INFO, True)
    finally:
        logging.set_verbosity(before[0])
        if not before[1]:
            logging.disable_progress_bar()


@pytest.mark.parametrize("prompt", ["가나다", "[MASK] 또 [MASK]"])
def test_a_prompt_has_one_mask(prompt: str) -> None:
    with pytest.raises(ValueError, match=r"has \d \[MASK\]; write exactly one, in place of a word"):
        ExportSpec(prompts=(prompt,))


def test_pieces_of_bytes_are_shown_as_their_text() -> None:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer, trained.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(["학교로 간다"] * 9, trainers.BpeTrainer(initial_alphabet=letters, special_tokens=["[MASK]"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, mask_token="[MASK]")  # noqa: S106
    pieces = [_piece(tokenizer, number) for number in tokenizer("학교로 간다[MASK]")["input_ids"]]
    assert pieces == ["학교로", " 간다", "[MASK]"]
