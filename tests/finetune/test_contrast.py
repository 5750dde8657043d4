"""Training on triples of entailment before a bi-encoder's own benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModel, AutoTokenizer

from korealbert.artifact import Artifact, Progress, Store
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import stage, tasks
from korealbert.finetune.encoders.encoder import load_encoder
from korealbert.finetune.encoders.tokenizer import copy_tokenizer, load_tokenizer
from korealbert.finetune.features import read_triples
from korealbert.finetune.model import FinetunedModel
from korealbert.finetune.retrieval import bi_encoder
from korealbert.finetune.retrieval.bi_encoder import BiEncoderSpec
from korealbert.finetune.retrieval.stage import CollectionSpec, unit_vectors
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task_types.sequence import EntailmentTriples, SequenceClassification, Triple
from korealbert.huggingface.directory import write_mean_pooling
from korealbert.pretrain.runtime import TrainingRuntime
from tests.finetune.conftest import BLAME, NEUTRAL
from tests.finetune.encoders.families import FAMILIES, write_family
from tests.finetune.encoders.test_as_trained import MODES, made

QUICK = {"epochs": 1, "batch_size": 32, "learning_rate": 1e-3, "head": "bi-encoder"}


def entailment() -> SequenceClassification:
    task = tasks.load("kornli")
    assert isinstance(task, SequenceClassification)
    return task


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Premises that entail some of their own words and contradict others."""
    random = np.random.default_rng(3)
    lines = ["sentence1\tsentence2\tgold_label"]
    for number in range(160):
        words = list(random.permutation(NEUTRAL)[:5])
        premise = " ".join([*words, f"{number}"])
        other = " ".join(random.choice(BLAME, 2))
        labels = {"entailment": " ".join(words[:3]), "contradiction": f"{words[0]} {other}", "neutral": other}
        lines += [f"{premise}\t{hypothesis}\t{label}" for label, hypothesis in sorted(labels.items())]
    lines += ["짝이 없다\t하나뿐이다\tentailment", f"{premise}\t두 번째\tentailment"]
    path = tmp_path_factory.mktemp("nli") / "train.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_a_premise_with_both_kinds_is_one_triple(nli: Path) -> None:
    triples = EntailmentTriples(entailment()).read(BenchmarkFile(nli))
    assert len(triples) == 160
    first = triples[0]
    assert isinstance(first, Triple)
    assert first.text.startswith(first.pair or "-")
    assert first.contrary.split()[1] in BLAME
    assert first.sentences == (first.text, first.pair, first.contrary)


def test_the_loss_is_that_of_multiple_negatives_ranking(model_dir: Path, nli: Path) -> None:
    """Cross-entropy of the scaled cosines with all positives and negatives, as sentence-transformers writes it."""
    triples, tokenizer = EntailmentTriples(entailment(), scale=20.0), load_tokenizer(model_dir)
    encoded = triples.encode(triples.read(BenchmarkFile(nli))[:7], tokenizer, max_length=16)
    encoder = load_encoder(model_dir, init="pretrained").eval()
    model = FinetunedModel(triples, encoder, triples.head(hidden_size=32, dropout=0.0, train=encoded), 0, torch.device("cpu"))
    vectors = []
    for feature in encoded:
        for side in feature.choices:
            ids = torch.tensor([list(side.input_ids)])
            vectors.append(encoder.transformer(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].mean(0))
    premises, positives, negatives = torch.stack(vectors).view(7, 3, -1).unbind(1)
    candidates = torch.cat([positives, negatives])
    scores = 20 * torch.nn.functional.cosine_similarity(premises[:, None], candidates[None], dim=2)
    expected = torch.nn.functional.cross_entropy(scores, torch.arange(7))
    weight = encoder.transformer.embeddings.word_embeddings.weight
    (wanted,) = torch.autograd.grad(expected, weight)
    logits, targets = model.logits(encoded)
    loss = triples.loss(logits, targets)
    torch.testing.assert_close(loss, expected)
    (found,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits.sort(dim=1).values, scores.sort(dim=1).values, atol=1e-4, rtol=1e-4)


def test_triples_with_a_sentence_that_is_scored_are_left_out(nli: Path, korsts: dict[str, Any]) -> None:
    spec = FinetuneSpec(**{**korsts, **QUICK, "contrast": {"train": nli}})
    _, whole, none = read_triples(spec, set().__contains__)
    triple = whole["train"][0]
    assert isinstance(triple, Triple)
    _, parts, left_out = read_triples(spec, {triple.text, "다른 문장"}.__contains__)
    assert (none, left_out) == (0, 1)
    assert len(whole["train"]) + len(whole["dev"]) == 160 == len(parts["train"]) + len(parts["dev"]) + 1
    assert triple.id not in {kept.id for part in parts.values() for kept in part}
    small = FinetuneSpec(**{**korsts, **QUICK, "contrast": {"train": nli, "max_triples": 40}})
    assert sum(len(part) for part in read_triples(small, set().__contains__)[1].values()) == 40
    with pytest.raises(ValueError, match=r"train.tsv: 0 premises .* give a training file"):
        read_triples(spec, {kept.text for part in whole.values() for kept in part}.__contains__)


def test_a_cell_learns_from_triples_first_and_is_reproducible(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], nli: Path, fresh: Callable[[str], Path]
) -> None:
    trained = {"train": nli, "epochs": 3, "batch_size": 16, "learning_rate": 5e-3}
    spec = FinetuneSpec(**{**korsts, **QUICK, "contrast": trained, "micro_batch_size": 8})
    first, second, without = fresh("first"), fresh("second"), fresh("without")
    stage.run(spec, {"model": model}, first, runtime)
    stage.run(spec, {"model": model}, second, runtime)
    stage.run(spec.model_copy(update={"contrast": None}), {"model": model}, without, runtime)
    for name in ("metrics.json", "predictions.arrow", "curve.jsonl"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert (first / "predictions.arrow").read_bytes() != (without / "predictions.arrow").read_bytes()
    metrics = json.loads((first / "metrics.json").read_text())
    before = metrics["contrast"]
    assert (before["title"], before["triples"], before["held_out"], before["left_out"]) == ("KorNLI", 152, 8, 0)
    assert [epoch["epoch"] for epoch in before["epochs"]] == [1, 2, 3]
    assert before["epochs"][before["best_epoch"] - 1]["accuracy"] >= 50, "chance is 1 in 16"
    assert metrics["settings"]["batch_size"] == 32, "those of the benchmark"
    assert "contrast" not in json.loads((without / "metrics.json").read_text())


def test_the_warm_up_of_the_benchmark_is_not_that_of_the_triples_and_is_checked_before_them(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], nli: Path, fresh: Callable[[str], Path]
) -> None:
    asked = {**korsts, **QUICK, "contrast": {"train": nli, "max_triples": 20}, "max_train_examples": 96}
    reports: list[Progress] = []
    watched = runtime.reporting_to(reports.append)
    with pytest.raises(ValueError, match="warmup_steps = 3 leaves no step of 3"):
        stage.run(FinetuneSpec(**asked, warmup_steps=3), {"model": model}, fresh("long"), watched)
    assert not reports
    stage.run(FinetuneSpec(**asked, warmup_steps=2), {"model": model}, fresh("short"), watched)
    assert [report.total for report in reports if report.done == 1] == [1, 3], "the triples take a step alone"


def test_runs_that_train_on_triples_or_export_onnx_need_memory_of_their_own(
    model: Artifact, korsts: dict[str, Any], nsmc: dict[str, Any], nli: Path
) -> None:
    def kind(benchmark: dict[str, Any], **fields: Any) -> str:
        return stage.STAGE.kind(FinetuneSpec(**benchmark, **fields), {"model": model})

    bi_encoder = {"head": "bi-encoder"}
    sizes: list[dict[str, int]] = [{}, {"batch_size": 16}, {"max_triples": 40}]
    contrasts = {kind(korsts, **bi_encoder, contrast={"train": nli, **size}) for size in sizes}
    assert len({kind(korsts, **bi_encoder), *contrasts}) == 4
    assert len({kind(nsmc), kind(nsmc, onnx=("int8",)), kind(nsmc, onnx=("fp32", "int8"))}) == 3
    once, again = ({"contrast": {"train": nli, "learning_rate": rate}, "seed": seed} for rate, seed in ((1e-4, 1), (1e-3, 2)))
    assert kind(korsts, **bi_encoder, **once) == kind(korsts, **bi_encoder, **again)


def test_a_cell_without_it_keeps_its_name(korsts: dict[str, Any], nli: Path, tmp_path: Path) -> None:
    def fields(**more: Any) -> dict[str, Any]:
        spec = FinetuneSpec(**{**korsts, "head": "bi-encoder", **more})
        found: dict[str, Any] = stage.STAGE.identity(spec, {}, Store(tmp_path)).spec
        return found

    assert "contrast" not in fields()
    assert fields(contrast={"train": nli})["contrast"]["train"]["name"] == "train.tsv"


def test_contradictions_are_refused(korsts: dict[str, Any], nli: Path) -> None:
    with pytest.raises(ValidationError, match=r"set head = 'bi-encoder' \(it is 'own'\)"):
        FinetuneSpec(**korsts, contrast={"train": nli})
    with pytest.raises(ValidationError, match="nsmc has no pairs that entail and contradict; take kornli, klue_nli"):
        FinetuneSpec(**{**korsts, "head": "bi-encoder", "contrast": {"train": nli, "task": "nsmc"}})


def test_a_bi_encoder_is_a_directory_that_sentence_transformers_pools(
    model: Artifact, runtime: TrainingRuntime, nli: Path, fresh: Callable[[str], Path], tmp_path: Path
) -> None:
    """It has the files that SentenceTransformer reads (6.2.0 gave these vectors); texts of a collection are left out."""
    collection = tmp_path / "toy"
    (collection / "qrels").mkdir(parents=True)
    whole = EntailmentTriples(entailment()).read(BenchmarkFile(nli))
    titled = {"_id": "e", "title": "제목", "text": f" {whole[8].text} "}
    written = [json.dumps(each) for each in ({"_id": "d", "text": whole[3].text}, titled)]
    (collection / "corpus.jsonl").write_text("\n".join(written), "utf-8")
    (collection / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": whole[5].pair}), "utf-8")
    (collection / "qrels" / "test.tsv").write_text("q\td\t1\n", "utf-8")
    more = tmp_path / "more.tsv"  # With a premise that differs from a document by a blank at its end.
    further = (f"{whole[3].text} \t{hypothesis}\n" for hypothesis in ("더 하나\tentailment", "더 둘\tcontradiction"))
    more.write_text("".join([nli.read_text("utf-8"), *further]), "utf-8")
    trained = {"train": more, "epochs": 2, "batch_size": 16, "learning_rate": 5e-3, "max_length": 16}
    spec = BiEncoderSpec(**trained, apart_from=(CollectionSpec(path=collection),))
    first, second, random = fresh("first"), fresh("second"), fresh("random")
    stats = bi_encoder.run(spec, {"model": model}, first, runtime)
    bi_encoder.run(spec, {"model": model}, second, runtime)
    assert "untied" not in (first / "README.md").read_text("utf-8")
    bi_encoder.run(spec.model_copy(update={"init": "random"}), {"model": model}, random, runtime)
    weights = [(out / "model.safetensors").read_bytes() for out in (model.path, first, second, random)]
    assert weights[1] == weights[2]
    assert len({*weights}) == 3
    assert (stats.title, stats.triples + stats.held_out + stats.left_out) == ("KorNLI", 161)
    excluded = {whole[3].text, whole[5].pair, whole[8].text}
    within = sum(not excluded.isdisjoint(triple.sentences) for triple in whole if isinstance(triple, Triple))
    assert stats.left_out == within + 1 >= 4

    modules = json.loads((first / "modules.json").read_text())
    assert [(module["path"], module["type"].rpartition(".")[2]) for module in modules] == [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
    ]
    pooling = json.loads((first / "1_Pooling" / "config.json").read_text())
    assert pooling == {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    assert json.loads((first / "config_sentence_transformers.json").read_text())["similarity_fn_name"] == "cosine"

    encoder, tokenizer = load_encoder(first, init="pretrained").eval(), load_tokenizer(first)
    texts = ["영화 배우", "어제 [SEP] 음악", "", "친구와 봤는데 " * 60]
    np.testing.assert_allclose(unit_vectors(encoder, texts, tokenizer, max_length=64), pooled(first, texts), atol=1e-5)


def test_layers_that_share_in_pretraining_share_in_a_bi_encoder(
    runtime: TrainingRuntime, nli: Path, fresh: Callable[[str], Path], tmp_path: Path
) -> None:
    spec = BiEncoderSpec(train=nli, epochs=1, batch_size=16, learning_rate=5e-3, max_length=16)
    mode, out = made(MODES["attention"], tmp_path), fresh("out")
    bi_encoder.run(spec, mode.inputs, out, runtime)
    message = "untied. Sharing `attention` with 1 group(s), as in training, cannot be said in this format"
    assert message in (out / "README.md").read_text("utf-8")
    first, second = blocks(out)[:2]
    assert torch.equal(first.attention.query.weight, second.attention.query.weight)
    assert not torch.equal(first.ffn.weight, second.ffn.weight)
    assert not torch.equal(first.attention.query.weight, blocks(mode.inputs["model"].path)[0].attention.query.weight), "trained"


def blocks(directory: Path) -> list[Any]:
    """The layers of an ALBERT."""
    encoder = AutoModel.from_pretrained(directory, local_files_only=True).encoder
    return [group.albert_layers[0] for group in encoder.albert_layer_groups]


def pooled(directory: Path, texts: list[str]) -> Any:
    """Mean vectors [N, H] of length 1 of a directory, loaded as SentenceTransformer loads it."""
    message = json.loads((directory / "sentence_bert_config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, **message["tokenizer_args"])
    encoder = AutoModel.from_pretrained(directory, local_files_only=True).eval()
    vectors = []
    for text in texts:
        inputs = tokenizer(text, truncation=True, max_length=message["max_seq_length"], return_tensors="pt")
        with torch.no_grad():
            vectors.append(encoder(**inputs).last_hidden_state[0].mean(0))
    return torch.nn.functional.normalize(torch.stack(vectors), dim=1).numpy()


@pytest.mark.parametrize("name", FAMILIES)
def test_sentence_transformers_gives_the_same_vectors_for_any_family(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir(), out.mkdir()
    encoder = load_encoder(write_family(name, source), init="pretrained").eval()
    tokenizer = load_tokenizer(source)
    bi_encoder._write_weights(encoder, out)
    copy_tokenizer(source, out)
    longest = min(tokenizer.model_max_length, encoder.max_length)
    write_mean_pooling(out, hidden_size=encoder.hidden_size, longest=longest)
    texts = [
        "할머니는 시장에서 동생을 기다렸다.",
        "The café [SEP] </s> at Naïve Street",
        "ＡＢＣ ① 龘 é",
        "",
        "밥 [MASK] 😀",
        "가 " * 600,
    ]
    found = unit_vectors(encoder, texts, tokenizer, max_length=longest)
    np.testing.assert_allclose(pooled(out, texts), found, atol=1e-5)
    assert load_tokenizer(out)(texts, truncation=True, max_length=longest) == tokenizer(
        texts, truncation=True, max_length=longest
    )
