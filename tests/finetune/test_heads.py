"""Heads that a recipe can choose: mean vectors, bi-encoders and ELECTRA's, named beside their scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError
from transformers import ElectraForMultipleChoice, ElectraForSequenceClassification

from korealbert.artifact import Artifact, Store
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import features, stage, tasks
from korealbert.finetune.encoders.encoder import load_encoder, pad
from korealbert.finetune.encoders.tokenizer import load_tokenizer
from korealbert.finetune.metrics.labels import spearman
from korealbert.finetune.model import FinetunedModel
from korealbert.finetune.spec import FeaturesSpec, FinetuneSpec
from korealbert.finetune.task import EncoderOutput, Example, Feature, Head
from korealbert.finetune.task_types.heads import CosineHead, PooledHead, WhitenedHead
from korealbert.finetune.task_types.sequence import Choice
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe.dag import evaluation_graph
from korealbert.recipe.reading import load_evaluation
from korealbert.report.render.text import markdown
from korealbert.report.scores import Benchmark, Cell
from korealbert.report.sections.benchmarks import comparison
from tests.finetune.encoders.families import write_family

CPU = torch.device("cpu")
QUICK = {"epochs": 4, "batch_size": 16, "learning_rate": 5e-3}
PAIRS = [
    Example("1", "사과를 먹는 사람이 웃는다", 4.0, "사람이 사과를 먹는다"),
    Example("2", "비가 온다", 0.5, "정부는 어제 새로운 정책을 발표했다고 밝혔다"),
    Example("3", "학생이 도서관에서 책을 오래 읽었다", 3.0, "책"),
]


# With segments; without them; without a pooler either; with relative positions.
@pytest.fixture(scope="module", params=["albert", "roberta", "distilbert", "ax-encoder"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(request.param, tmp_path_factory.mktemp("family"))


def model_of(directory: Path, task: str, head: Head, examples: Sequence[Example]) -> tuple[FinetunedModel, list[Feature]]:
    torch.manual_seed(4)
    chosen, tokenizer = tasks.load(task).headed(head), load_tokenizer(directory)
    encoded = chosen.encode(examples, tokenizer, max_length=128)
    encoder = load_encoder(directory, init="pretrained")
    module = chosen.head(hidden_size=encoder.hidden_size, dropout=0.1, train=encoded)
    model = FinetunedModel(chosen, encoder, module, tokenizer.pad_token_id, CPU)
    model.modules.eval()
    return model, encoded


def vectors(directory: Path, texts: Sequence[str | tuple[str, str]]) -> torch.Tensor:
    """Mean vectors of texts that transformers encodes one by one, without padding."""
    tokenizer, transformer = load_tokenizer(directory), load_encoder(directory, init="pretrained").transformer.eval()
    rows = []
    for text in texts:
        parts = text if isinstance(text, tuple) else (text,)
        encoded = tokenizer(*parts, return_tensors="pt", return_token_type_ids=True)
        if getattr(transformer.config, "type_vocab_size", 0) < 2:
            del encoded["token_type_ids"]
        rows.append(transformer(**encoded).last_hidden_state[0].mean(0))
    return torch.stack(rows)


@torch.no_grad()
def test_a_bi_encoder_of_any_family_is_the_cosine_of_mean_vectors(family: Path) -> None:
    model, encoded = model_of(family, "korsts", "bi-encoder", PAIRS)
    left, right = (vectors(family, [getattr(example, side) for example in PAIRS]) for side in ("text", "pair"))
    expected = 5 * (left * right).sum(1) / (left.norm(dim=1) * right.norm(dim=1))
    found, targets = model.logits(encoded)
    torch.testing.assert_close(found[:, 0], expected, atol=2e-5, rtol=2e-5)
    assert targets == [4.0, 0.5, 3.0]
    assert model.task.decode(found, encoded) == pytest.approx(expected.tolist(), abs=1e-4)


@torch.no_grad()
def test_classes_of_a_pair_are_of_both_vectors_and_their_distance(family: Path) -> None:
    model, encoded = model_of(family, "kornli", "bi-encoder", PAIRS)
    left, right = (vectors(family, [getattr(example, side) for example in PAIRS]) for side in ("text", "pair"))
    weights = dict(model.head.named_parameters())
    joined = torch.cat([left, right, (left - right).abs()], dim=1)
    expected = joined @ weights["dense.weight"].T + weights["dense.bias"]
    torch.testing.assert_close(model.logits(encoded)[0], expected, atol=2e-5, rtol=2e-5)


@torch.no_grad()
@pytest.mark.parametrize("paired", [False, True])
def test_the_mean_head_is_a_layer_on_the_mean_of_all_pieces(family: Path, paired: bool) -> None:
    task = "kornli" if paired else "nsmc"
    examples = PAIRS if paired else [Example(e.id, e.text, 1) for e in PAIRS]
    model, encoded = model_of(family, task, "mean", examples)
    texts = [(e.text, e.pair or "") if paired else e.text for e in examples]
    weights = dict(model.head.named_parameters())
    expected = vectors(family, texts) @ weights["dense.weight"].T + weights["dense.bias"]
    torch.testing.assert_close(model.logits(encoded)[0], expected, atol=2e-5, rtol=2e-5)


@torch.no_grad()
@pytest.mark.parametrize(("task", "head"), [("korsts", "bi-encoder"), ("kornli", "bi-encoder"), ("kornli", "mean")])
def test_padding_and_neighbours_change_nothing(family: Path, task: str, head: Head) -> None:
    model, encoded = model_of(family, task, head, PAIRS)
    alone = torch.cat([model.logits([feature])[0] for feature in encoded])
    torch.testing.assert_close(model.logits(encoded)[0], alone, atol=2e-5, rtol=2e-5)
    backwards = model.logits(encoded[::-1])[0].flip(0)
    torch.testing.assert_close(backwards, alone, atol=2e-5, rtol=2e-5)


@torch.no_grad()
def test_whitened_vectors_are_compared_in_the_metric_of_the_inverse_covariance() -> None:
    torch.manual_seed(3)
    seen, pair = torch.randn(500, 6) @ torch.randn(6, 6) + 4, torch.randn(2, 6) + 4
    head = WhitenedHead(CosineHead(0.0, 1.0), 6)
    feature = Feature([1], [0], 0.0)
    before = head(EncoderOutput(pair[:, None], pair, [feature]))
    torch.testing.assert_close(before[0, 0], torch.nn.functional.cosine_similarity(*pair, dim=0))
    head.whiten(seen)
    covariance = torch.cov(seen.double().T, correction=0)
    metric = (covariance + 0.1 * covariance.trace() / 6 * torch.eye(6)).inverse()
    left, right = pair.double() - seen.double().mean(0)
    expected = left @ metric @ right / (left @ metric @ left).sqrt() / (right @ metric @ right).sqrt()
    assert head(EncoderOutput(pair[:, None], pair, [feature])).item() == pytest.approx(expected.item(), abs=1e-5)
    mapped = head.map(seen)
    assert mapped.mean(0).abs().max() < 1e-4
    assert mapped.var(0, correction=0).sum() == pytest.approx(seen.var(0, correction=0).sum().item(), rel=1e-4)


def test_a_run_begins_with_whitened_training_vectors(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    scores = {}
    for whiten in (False, True):
        spec = FinetuneSpec(**{**korsts, **QUICK, "head": "bi-encoder", "learning_rate": 1e-12, "epochs": 1, "whiten": whiten})
        out = fresh(f"whiten-{whiten}")
        stage.run(spec, {"model": model}, out, runtime)
        metrics = json.loads((out / "metrics.json").read_text())
        assert metrics["settings"].get("whiten", False) is whiten
        scores[whiten] = metrics["dev"]["spearman"]
    directory, task = model.path, tasks.load("korsts").headed("bi-encoder")
    train, dev = (task.read(BenchmarkFile(korsts[split])) for split in ("train", "dev"))
    sides = {
        split: [vectors(directory, [getattr(e, side) for e in part]) for side in ("text", "pair")]
        for split, part in (("train", train), ("dev", dev))
    }
    whitened = WhitenedHead(CosineHead(0.0, 1.0), sides["dev"][0].shape[1])
    whitened.whiten(torch.cat(sides["train"]).detach())
    for whiten, of in ((False, torch.nn.Identity()), (True, whitened.map)):
        cosines = torch.nn.functional.cosine_similarity(*(of(side) for side in sides["dev"]))
        assert scores[whiten] == pytest.approx(spearman([e.target for e in dev], cosines.tolist()), abs=0.5)
    assert scores[True] != scores[False]


def test_only_mean_vectors_can_be_whitened(korsts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="set head = 'mean' or 'bi-encoder'"):
        FinetuneSpec(**korsts, whiten=True)


def test_a_pair_is_two_inputs_of_at_most_the_length_and_as_long_as_the_longer(model_dir: Path) -> None:
    tokenizer = load_tokenizer(model_dir)
    pairs = [Example("1", "이 영화 정말 재밌다", 1.0, "배우"), Example("2", "음악", 2.0, "이 영화 배우 연기 장면 음악 어제")]
    found = tasks.load("korsts").headed("bi-encoder").encode(pairs, tokenizer, max_length=6)
    assert [[len(side.input_ids) for side in feature.choices] for feature in found] == [[6, 3], [3, 6]]
    assert [len(feature.input_ids) for feature in found] == [6, 6]
    assert all(side.input_ids[0] == tokenizer.cls_token_id for feature in found for side in feature.choices)
    batch = pad(found, pad_id=0, device=CPU)
    assert batch.attention_mask_BL.sum(1).tolist() == [6, 3, 3, 6]
    assert batch.targets == [1.0, 2.0]


def test_a_bi_encoder_learns_and_names_itself(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    spec = FinetuneSpec(**{**korsts, **QUICK, "head": "bi-encoder"})
    out, kept = fresh("out"), fresh("features")
    stats = stage.run(spec, {"model": model}, out, runtime)
    assert stats.test["spearman"] > 70
    assert json.loads((out / "metrics.json").read_text())["head"] == stats.facts()["head"] == "bi-encoder"
    for name in ("predictions.arrow", "dev_predictions.arrow"):
        with pa.ipc.open_file(out / name) as reader:
            assert reader.schema.metadata == {b"task": b"korsts", b"head": b"bi-encoder"}
    # Cached features give the same; so do small forward passes.
    features.run(spec.features(), {"model": model}, kept, runtime)
    cached, parts = fresh("cached"), fresh("parts")
    inputs = {"model": model, "features": Artifact("features-1", kept)}
    stage.run(spec, inputs, cached, runtime)
    assert (cached / "predictions.arrow").read_bytes() == (out / "predictions.arrow").read_bytes()
    small = spec.model_copy(update={"micro_batch_size": 4, "epochs": 1})
    assert stage.run(small, inputs, parts, runtime).test


def test_mean_vectors_classify(
    model: Artifact, runtime: TrainingRuntime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    spec = FinetuneSpec(**{**nsmc, **QUICK, "head": "mean"})
    stats = stage.run(spec, {"model": model}, fresh("out"), runtime)
    assert stats.test["accuracy"] > 90
    assert stats.head == "mean"


def test_scores_of_the_tasks_own_heads_are_named_as_they_were(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    out = fresh("out")
    stats = stage.run(FinetuneSpec(**{**korsts, **QUICK, "epochs": 1}), {"model": model}, out, runtime)
    assert "head" not in stats.facts()
    assert "head" not in json.loads((out / "metrics.json").read_text())
    with pa.ipc.open_file(out / "predictions.arrow") as reader:
        assert reader.schema.metadata == {b"task": b"korsts"}


def test_the_own_head_leaves_identities_as_they_were_and_mean_vectors_share_features(
    korsts: dict[str, Any], tmp_path: Path
) -> None:
    specs = {head: FinetuneSpec(**{**korsts, "head": head}) for head in ("own", "mean", "bi-encoder")}

    def spec_of(spec: FeaturesSpec) -> dict[str, Any]:
        found: dict[str, Any] = features.STAGE.identity(spec, {}, Store(tmp_path)).spec
        return found

    assert spec_of(specs["own"]) == spec_of(FinetuneSpec(**korsts))
    assert "head" not in spec_of(specs["own"]).keys() | spec_of(specs["mean"].features()).keys()
    assert spec_of(specs["mean"].features()) == spec_of(specs["own"].features())
    assert spec_of(specs["mean"])["head"] == "mean"
    assert spec_of(specs["bi-encoder"].features())["head"] == spec_of(specs["bi-encoder"])["head"] == "bi-encoder"


def test_an_unknown_head_is_refused_with_a_list_of_the_tasks_heads(nsmc: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="NSMC has no head 'bi-encoder'; it has own, mean"):
        FinetuneSpec(**{**nsmc, "head": "bi-encoder"})
    with pytest.raises(ValidationError, match="KLUE-DP has no head 'mean'; it has own "):
        FinetuneSpec(task="klue_dp", train=nsmc["train"], head="mean")
    paired = {name for name in tasks.names() if "bi-encoder" in tasks.load(name).heads}
    assert {"kornli", "korsts", "pd", "klue_nli", "klue_sts", "glue_rte", "glue_mnli_mm"} <= paired
    assert not paired & {"nsmc", "ynat", "glue_cola", "glue_sst2", "race", "klue_re", "klue_ner"}


CLASSIFIED = {"electra.": "", "classifier.dense": "hidden", "classifier.out_proj": "dense"}
CHOSEN = {"electra.": "", "sequence_summary.summary": "hidden", "classifier": "dense"}


@pytest.mark.parametrize(
    ("task", "kind", "names"), [("kornli", 3, CLASSIFIED), ("korsts", 1, CLASSIFIED), ("kobest_copa", 0, CHOSEN)]
)
def test_electras_head_computes_what_transformers_does_with_its_weights(
    tmp_path: Path, task: str, kind: int, names: dict[str, str]
) -> None:
    directory = write_family("electra", tmp_path)
    examples: list[Example] = [Example("1", "사과를 먹는다", 0, "비가 온다"), Example("2", "비", 0, "학생이 책을 오래 읽었다")]
    if task == "kobest_copa":
        examples = [Choice(e.id, e.text, 0, "원인", options=(e.text, e.pair or "")) for e in examples]
    model, encoded = model_of(directory, task, "electra", examples)
    model_class = ElectraForSequenceClassification if kind else ElectraForMultipleChoice
    theirs = model_class.from_pretrained(directory, **({"num_labels": kind} if kind else {})).eval()
    with torch.no_grad():  # Large weights, so that the GELU and its layer count.
        for parameter in theirs.parameters():
            parameter.normal_(std=0.5)
    loaded = {"encoder": model.encoder.transformer.state_dict(), "head": model.head.state_dict()}
    for name, tensor in theirs.state_dict().items():
        prefix = next(each for each in names if name.startswith(each))
        part = "head" if names[prefix] else "encoder"
        loaded[part][names[prefix] + name.removeprefix(prefix)].copy_(tensor)
    batch = pad(encoded, pad_id=model.pad_id, device=CPU)
    inputs = {
        "input_ids": batch.input_ids_BL,
        "attention_mask": batch.attention_mask_BL,
        "token_type_ids": batch.token_type_ids_BL,
    }
    if not kind:
        inputs = {name: value.view(len(examples), -1, value.shape[-1]) for name, value in inputs.items()}
    with torch.no_grad():
        wanted, (found, _) = theirs(**inputs).logits, model.logits(encoded)
    assert wanted.std() > 0.1
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_both_layers_of_electras_head_have_dropout_before_them() -> None:
    head = PooledHead(4, 2, 0.5, hidden=True)
    seen: list[torch.Size] = []
    head.dropout.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    assert head(EncoderOutput(torch.zeros(3, 1, 4), torch.ones(3, 4), [])).shape == (3, 2)
    assert seen == [(3, 4), (3, 4)] and head.hidden is not None


def test_a_recipe_gives_an_electra_its_head_and_leaves_all_others_as_they_were(tmp_path: Path, nsmc: dict[str, Any]) -> None:
    for name, kind in (("koelectra", "electra"), ("klue-bert", "bert")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": kind}))
    tables = "".join(f'[encoder.{name}]\npath = "{name}"\n' for name in ("koelectra", "klue-bert"))
    files = "".join(f'{split} = "{nsmc[split]}"\n' for split in ("train", "test"))
    more = f'[finetune.nsmc]\n{files}seeds = [1]\n[finetune.mean]\ntask = "nsmc"\nhead = "mean"\n{files}seeds = [1]\n'
    (tmp_path / "recipe.toml").write_text(tables + more)
    nodes = evaluation_graph(load_evaluation(tmp_path / "recipe.toml"))
    heads = {label: node.spec.head for label, node in nodes.items() if isinstance(node.spec, FinetuneSpec)}
    assert heads == {
        "finetune/koelectra/nsmc/pretrained/1": "electra",
        "finetune/klue-bert/nsmc/pretrained/1": "own",
        "finetune/koelectra/mean/pretrained/1": "mean",
        "finetune/klue-bert/mean/pretrained/1": "mean",
    }
    features_of = [nodes[f"features/{name}/nsmc"].spec for name in ("koelectra", "klue-bert")]
    assert features_of[0] == features_of[1]


def test_electras_head_is_named_in_its_row(report_of_heads: str) -> None:
    rows = [line for line in report_of_heads.splitlines() if line.startswith("| ")]
    assert "ELECTRA's head" in next(row for row in rows if "koelectra/pretrained" in row)
    assert "ELECTRA's head" not in next(row for row in rows if "klue-bert/pretrained" in row)


@pytest.fixture
def report_of_heads() -> str:
    """The leaderboard of a benchmark whose systems have heads of their own."""
    shared = {"task": "nsmc", "title": "NSMC", "init": "pretrained", "seed": 1, "metric": "accuracy"}
    scores = {"dev": {"accuracy": 90.0}, "test": {"accuracy": 90.0}, "examples_test": 9, "examples_test_official": 9}
    cells = [
        Cell(Artifact("finetune-0", Path()), {**shared, **scores, **more}, f"{name}/pretrained")
        for name, more in (("koelectra", {"head": "electra"}), ("klue-bert", {}))
    ]
    section = comparison([Benchmark("nsmc", cells, {})], ["korealbert"])
    assert section is not None and section.blocks
    return markdown("", "", [section])
