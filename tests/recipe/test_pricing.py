"""Estimated costs of stages: by rates, corrected by stages that were built here, and on other machines."""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Runtime, Store, build
from korealbert.artifact.host import host_facts
from korealbert.corpus import extract
from korealbert.corpus.dedup import stage as dedup
from korealbert.model.parameters import training_flops
from korealbert.pretrain import cooccurrence
from korealbert.pretrain import stage as pretrain
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import registry
from korealbert.recipe.machines import Machine, figures, machine_named, matrix_rate
from korealbert.recipe.planning import _advice, _unshared, plan, total
from korealbert.recipe.pricing import Prices, _attended, _typical, _without_seed
from korealbert.recipe.tables import RecipeError
from korealbert.recipe.work import Volume, Work, _activations, estimate, unpacked
from tests.building import build_all

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"
SAMPLE = Path(__file__).parents[2] / "data_specs" / "recipes" / "sample.toml"


def test_the_sample_costs_by_rates_what_docs_results_says(tmp_path: Path) -> None:
    """192 s on two quiet cores of the reference machine, 110 s of them pretraining."""
    planned = recipes.prepare(SAMPLE, Store(tmp_path / "store"), machine="corex2").planned
    costs = {stage.label: stage.cost for stage in planned if stage.cost}
    assert len(costs) == len(planned) == 32
    assert {cost.basis for cost in costs.values()} == {"profile"}
    assert 96 < sum(cost.seconds or 0 for cost in costs.values()) < 384
    assert 55 < (costs["pretrain"].seconds or 0) < 220
    assert re.fullmatch(r"about \d+ min \d\d s, [\d.]+ MB on disk, [\d.]+ GB of memory", total(planned))


def test_co_occurrences_cost_no_more_than_the_tokens_that_are_read() -> None:
    def units(rows: float, **fields: int) -> float:
        spec = cooccurrence.CooccurrenceSpec.model_validate({"width": 8, **fields})
        return estimate(cooccurrence.STAGE, spec, {"examples": Volume(rows=rows, length=128, pieces=32_000)})[1].units

    assert units(1e7) == units(1e9) > units(1e5)
    assert units(1e5, max_tokens=1_000) < units(1e5)


def test_more_cores_and_gpus_take_less_time_and_no_less_disk(tmp_path: Path) -> None:
    two, many, gpus = (
        {s.label: s.cost for s in recipes.prepare(SAMPLE, Store(tmp_path), machine=machine).planned}
        for machine in ("corex2", "corex64", "h100x8")
    )
    assert many["pretrain"].seconds < two["pretrain"].seconds / 2
    assert gpus["pretrain"].seconds < two["pretrain"].seconds
    assert many["extract/news"].seconds == two["extract/news"].seconds, "one shard keeps one core busy"
    assert (
        [c.disk_bytes for c in many.values()] == [c.disk_bytes for c in two.values()] == [c.disk_bytes for c in gpus.values()]
    )


def test_what_was_built_here_sets_the_rates(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").make()
    nodes = recipes.until(recipes.graph(recipes.load(TINY)), "clean/news")
    built = build_all(nodes, Runtime(store=store.root, workers=1))
    manifests = {label: artifact.manifest for label, artifact in built.items()}
    planned = {stage.label: stage.cost for stage in plan(nodes, store, rerun=nodes)}
    for label, cost in planned.items():
        assert cost is not None and cost.basis == "measured"
        assert cost.seconds == pytest.approx(manifests[label]["wall_seconds"])
        assert cost.disk_bytes == pytest.approx(sum(file["size"] for file in manifests[label]["files"].values()))
    whole = {stage.label: stage.cost for stage in recipes.prepare(TINY, store).planned}
    assert whole["clean/news"] is None, "it is cached"
    assert whole["clean/wikipedia"].basis == "measured", "of the same kind"
    assert whole["pretrain"].basis == "rates", "no training was built here"
    elsewhere = {stage.label: stage.cost for stage in plan(nodes, store, rerun=nodes, machine="corex2")}
    assert elsewhere["clean/news"].seconds == pytest.approx(figures().rates["clean"].fixed_seconds, rel=0.2)


def test_a_short_stage_that_waited_says_nothing_of_long_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a clean stage of a few kB took 40 s on a busy machine, pretraining was once estimated as 20 times as long."""
    machine = Machine("two cores", figures().chips["core"], 2, 2)
    store, nodes = Store(tmp_path / "store").make(), recipes.graph(recipes.load(TINY))
    extract, clean = nodes["extract/news"], nodes["clean/news"]
    runtime = Runtime(store=store.root, workers=1)
    documents = build(extract.stage, extract.spec, {}, runtime, label=extract.label).artifact
    artifact = build(clean.stage, clean.spec, {"documents": documents}, runtime, label=clean.label).artifact
    monkeypatch.setitem(vars(artifact), "manifest", artifact.manifest | {"wall_seconds": 40.0})
    here, unmeasured = (Prices(history, registry.by_name(), machine) for history in ([artifact], []))
    ten_minutes = Work(operations=machine.chip.operations_fp32 * machine.chips * 600)
    trained = here.cost("pretrain", "pretrain", ten_minutes, training=True)
    assert trained == unmeasured.cost("pretrain", "pretrain", ten_minutes, training=True)
    little, much = Work(units=0.01), Work(units=30_000)
    assert here.cost("clean/wikipedia", "clean", little, training=False).seconds == pytest.approx(40, rel=0.2)
    assert here.cost("clean/news", "clean", much, training=False).seconds < 2 * (
        unmeasured.cost("clean/news", "clean", much, training=False).seconds or 0
    )


def test_stages_that_waited_on_a_busy_machine_do_not_set_the_price_of_their_kind() -> None:
    """Each stage is given by its seconds, the seconds by the rates, and the same for bytes."""
    quiet, waited = (600.0, 500.0, 1.0, 1.0), (9_000.0, 500.0, 1.0, 1.0)
    assert _typical([waited, quiet, quiet]) == _typical([quiet, waited, quiet]) == [quiet, quiet]
    assert _typical([waited]) == [waited] and _typical([quiet, quiet]) == [quiet, quiet]
    short = (40.0, 2.0, 1.0, 1.0)
    assert _typical([short, quiet]) == [short, quiet], "seconds more or less tell nothing"


def test_seeds_and_weights_of_one_task_are_priced_without_seed() -> None:
    cells = ["finetune/nsmc/pretrained/1", "finetune/nsmc/random/12", "finetune/nsmc/3"]
    assert {_without_seed(label) for label in cells} == {"finetune/nsmc"}
    others = ["finetune/nsmc-v2/pretrained/1", "summary/nsmc", "extract/random"]
    assert [_without_seed(label) for label in others] == ["finetune/nsmc-v2", "summary/nsmc", "extract/random"]


def test_what_another_machine_built_says_nothing_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store").make()
    nodes = recipes.until(recipes.graph(recipes.load(TINY)), "extract/news")
    (node,) = nodes.values()
    with monkeypatch.context() as patched:
        patched.setattr("korealbert.artifact.host._cpu", lambda: "another processor")
        build(node.stage, node.spec, {}, Runtime(store=store.root, workers=1), label=node.label)
    (stage,) = plan(nodes, store, rerun=nodes)
    assert stage.cost is not None and stage.cost.basis == "rates"


def test_training_follows_the_rate_of_matrix_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """363 s of pretraining with Muon in bf16 on two cores without it, with 76 G operations a second of products in fp32
    (docs/results.md)."""

    def costs(recipe: Path = SAMPLE, *, precision: str = "fp32", muon: str = "bf16", **probed: Any) -> dict[str, float]:
        machine = Machine("two cores", figures().chips["core"], 2, 2, **probed)
        monkeypatch.setattr("korealbert.recipe.planning.this_machine", lambda: machine)
        overrides = {"pretrain.precision": precision} | ({"pretrain.optimizer.arithmetic": muon} if recipe == SAMPLE else {})
        planned = recipes.prepare(recipe, Store(tmp_path / "store"), overrides=overrides).planned
        return {stage.label: stage.cost.seconds or 0.0 for stage in planned if stage.cost is not None}

    seen = costs(matrix_rate=76e9, emulated=True)
    assert 363 / 1.5 < seen["pretrain"] < 363 * 1.5
    assert seen["pretrain"] > 3 * costs(matrix_rate=76e9)["pretrain"]
    assert seen["pretrain"] > 3 * costs(muon="fp32", matrix_rate=76e9, emulated=True)["pretrain"]
    faster, slower_text = (costs(matrix_rate=rate, emulated=True, slowness=by) for rate, by in ((152e9, 1.0), (76e9, 3.0)))
    assert 1.5 < seen["pretrain"] / faster["pretrain"] < 2, "steps and the start of the stage take as long"
    assert slower_text["clean/news"] == pytest.approx(3 * seen["clean/news"]) == pytest.approx(3 * faster["clean/news"])
    assert slower_text["pretrain"] - seen["pretrain"] == pytest.approx(2 * figures().rates["pretrain"].fixed_seconds)
    assert costs(TINY, matrix_rate=76e9, precision="bf16") == costs(TINY, matrix_rate=76e9)
    emulated = costs(TINY, matrix_rate=76e9, precision="bf16", emulated=True)
    assert emulated["pretrain"] > costs(TINY, matrix_rate=76e9, emulated=True)["pretrain"]


@pytest.mark.parametrize(
    ("probed", "speedup", "width", "reached"),
    [(93e9, 2.0, 256, 105e9), (93e9, 2.0, 768, 147e9), (130e9, 7.0, 256, 156e9)],
)
def test_training_in_bf16_is_priced_by_its_faster_products(probed: float, speedup: float, width: int, reached: float) -> None:
    """Operations per second on a core, by the shares of the matrix rate in docs/results.md, "Pretraining beside transformers'
    Trainer"."""
    machine = Machine("", figures().chips["core"], matrix_rate=probed, faster_precision="bf16", speedup=speedup)
    names = ("bf16", "fp32", "fp16")
    rates = {name: 1e15 / machine.training_seconds(1e15, 0, width=width, precision=name) for name in names}
    assert rates["bf16"] == pytest.approx(reached, rel=0.35)
    assert rates["bf16"] > 1.4 * rates["fp32"]
    assert rates["fp32"] == rates["fp16"] == pytest.approx(probed * width / (width + 128))


@pytest.mark.parametrize(
    ("flags", "precision", "message"),
    [
        ({"avx512f", "avx512_bf16"}, "fp32", '; this machine multiplies about 2 times as fast in bf16: set precision = "bf16"'),
        ({"avx512f", "amx_bf16"}, "bf16", ""),
        ({"avx512_bf16", "amx_bf16"}, "fp16", 'this machine multiplies about 7 times as fast in bf16: set precision = "bf16"'),
        ({"avx2"}, "bf16", 'it trains in bf16; this machine multiplies about 12 times as fast in fp32: set precision = "fp32"'),
        ({"avx2"}, "fp32", ""),
        ({"avx512f"}, "fp32", ""),
        ({"avx512f"}, "bf16", ""),
    ],
)
def test_a_plan_says_which_precision_is_faster_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: set[str], precision: str, message: str
) -> None:
    monkeypatch.setattr("korealbert.recipe.machines._processor_flags", lambda: frozenset(flags))
    planned = recipes.prepare(TINY, Store(tmp_path), overrides={"pretrain.precision": precision}).planned
    (advice,) = (stage.advice for stage in planned if stage.label == "pretrain")
    assert advice.endswith(message) and bool(advice) == bool(message)


def test_there_is_no_advice_for_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.recipe.machines._processor_flags", lambda: frozenset({"avx512f", "avx512_bf16"}))
    assert not any(stage.advice for stage in recipes.prepare(TINY, Store(tmp_path), machine="corex2").planned)


def test_advice_on_precision_names_the_arithmetic_of_muon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.recipe.machines._processor_flags", lambda: frozenset({"amx_bf16"}))
    overrides = {"pretrain.precision": "fp32", "pretrain.optimizer.arithmetic": "fp32"}
    planned = recipes.prepare(SAMPLE, Store(tmp_path), overrides=overrides).planned
    (advice,) = (stage.advice for stage in planned if stage.label == "pretrain")
    assert advice.endswith('set precision = "bf16" and optimizer.arithmetic = "bf16"')
    overrides["pretrain.precision"] = "bf16"
    planned = recipes.prepare(SAMPLE, Store(tmp_path), overrides=overrides).planned
    (advice,) = (stage.advice for stage in planned if stage.label == "pretrain")
    fast = "this machine multiplies about 7 times as fast in bf16"
    assert advice == f'Muon computes in fp32; {fast}: set optimizer.arithmetic = "bf16"'


def test_products_of_matrices_are_probed_once() -> None:
    assert 1e8 < matrix_rate() < 1e13
    assert matrix_rate() == matrix_rate(), "or two plans of one process would differ"


def test_gpus_pretrain_in_tf32_where_a_recipe_says_fp32() -> None:
    gpu = machine_named("h100")
    half, tf32 = (gpu.training_seconds(1e18, 0, width=768, precision=name, tf32=True) for name in ("bf16", "fp32"))
    assert tf32 == pytest.approx(2 * half, rel=0.01)
    assert gpu.training_seconds(1e18, 0, width=768, precision="fp32") > 10 * half
    nodes = recipes.graph(recipes.load(TINY))
    volumes: dict[str, Volume] = {}
    in_tf32 = set()
    for label, node in nodes.items():
        volumes[label], work = estimate(node.stage, node.spec, {role: volumes[one] for role, one in node.inputs.items()})
        in_tf32 |= {label} if work.tf32 else set()
    assert in_tf32 == {"pretrain"} and any(label.startswith("finetune/") for label in nodes), "fine-tuning has no TF32"


@pytest.mark.parametrize("name", ["h10", "h100x0", "h100x", "", "8"])
def test_an_unknown_machine_names_those_that_there_are(name: str) -> None:
    with pytest.raises(RecipeError, match=r"as: no machine .*known are core, h100"):
        machine_named(name)


def test_only_the_members_of_a_directory_or_archive_that_are_read_are_priced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A film of 3 GB beside 33 texts once counted as 41 minutes of extraction."""
    (tmp_path / "all" / "sub").mkdir(parents=True)
    for number in range(10):
        (tmp_path / "all" / "sub" / f"{number}.txt").write_bytes(b"a" * 1000)
    (tmp_path / "all" / "film.mkv").write_bytes(random.Random(1).randbytes(2_000_000))  # noqa: S311
    for kind in ("zip", "gztar"):
        shutil.make_archive(str(tmp_path / kind), kind, tmp_path / "all")
    places = [tmp_path / "all", tmp_path / "zip.zip", tmp_path / "gztar.tar.gz"]
    assert [unpacked(place, "*.txt") for place in places] == [10_000] * 3
    assert [unpacked(place) for place in places] == [2_010_000] * 3
    monkeypatch.setattr("korealbert.recipe.work._MAX_UNPACKED_BYTES", 1_000_000)
    unpacked.cache_clear()
    assert unpacked(places[1], "*.txt") == 10_000
    assert unpacked(places[2], "*.txt") < 100_000


def test_short_documents_cost_more_than_long_ones_of_the_same_size(tmp_path: Path) -> None:
    """Deduplication of 665,000 film reviews took ten times what their 60 MB alone would."""
    (tmp_path / "short.jsonl").write_text('{"text": "재미있다."}\n' * 10_000, "utf-8")
    (tmp_path / "long.jsonl").write_text((tmp_path / "short.jsonl").read_text("utf-8").replace("\n", " ") + "\n", "utf-8")
    work = {}
    for name in ("short", "long"):
        spec = extract.ExtractSpec.model_validate(
            {"source": name, "format": "jsonl", "paths": [str(tmp_path / f"{name}.jsonl")]}
        )
        read, _ = estimate(extract.STAGE, spec, {})
        _, work[name] = estimate(dedup.STAGE, dedup.DedupSpec(), {name: read})
    assert work["short"].units > 10 * work["long"].units


def seconds_beyond_the_start(tmp_path: Path, machine: str = "corex2", **tables: dict[str, Any]) -> dict[str, float]:
    """Return what the stages of the sample with these tables take, without the fixed seconds of their kind."""
    planned = recipes.prepare(SAMPLE, Store(tmp_path / "store"), machine=machine, overrides=tables).planned
    fixed = {kind: rate.fixed_seconds for kind, rate in figures().rates.items()}
    return {
        stage.label: (stage.cost.seconds or 0.0) - fixed[stage.label.split("/")[0]]
        for stage in planned
        if stage.cost and stage.label.startswith(("bi_encoder/", "retrieval/"))
    }


def test_a_bi_encoder_costs_what_its_triples_do(tmp_path: Path) -> None:
    """One of 500,000 triples once cost the two seconds of an unknown stage."""
    pairs = {"train": str(SAMPLE.parents[1] / "sample" / "korsts_train.tsv"), "epochs": 100}
    changes: tuple[dict[str, int], ...] = ({}, {"epochs": 300}, {"max_triples": 10})
    found = [seconds_beyond_the_start(tmp_path, **{"bi_encoder.nli": pairs | change}) for change in changes]
    whole, thrice, few = (costs["bi_encoder/nli/pretrained/1"] for costs in found)
    assert thrice == pytest.approx(3 * whole) and 0 < few < whole


def test_a_search_costs_what_the_text_of_its_collection_does(tmp_path: Path) -> None:
    line = json.dumps({"_id": "1", "title": "", "text": "조용한 마을 " * 60}, ensure_ascii=False) + "\n"
    for name, number in (("small", 1_000), ("large", 3_000)):
        (tmp_path / name / "qrels").mkdir(parents=True)
        (tmp_path / name / "corpus.jsonl").write_text(line * number, "utf-8")
        for empty in ("queries.jsonl", "qrels/test.tsv"):
            (tmp_path / name / empty).touch()
    tables = {f"retrieval.{name}": {"path": str(tmp_path / name)} for name in ("small", "large")}
    costs, on_eight = (seconds_beyond_the_start(tmp_path, machine, **tables) for machine in ("corex2", "corex8"))
    for system in ("bm25-morphemes", "pretrained"):
        assert costs[f"retrieval/large/{system}"] == pytest.approx(3 * costs[f"retrieval/small/{system}"]) != 0
    assert costs["retrieval/large/bm25-pieces"] == 0
    assert on_eight["retrieval/large/bm25-morphemes"] == costs["retrieval/large/bm25-morphemes"], "one process analyses"
    assert on_eight["retrieval/large/pretrained"] < costs["retrieval/large/pretrained"]


def test_every_chip_names_its_source_and_every_rate_a_stage() -> None:
    assert all(chip.source for chip in figures().chips.values())
    assert figures().rates.keys() <= registry.by_name().keys()


@pytest.mark.parametrize(
    ("model", "pieces", "shape", "precision", "measured"),
    [
        ({"architecture": "modern", "hidden_size": 256, "num_layers": 4, "num_heads": 4}, 8000, (64, 64), "bf16", 257),
        ({"architecture": "modern", "hidden_size": 256, "num_layers": 4, "num_heads": 4}, 8000, (64, 64), "fp32", 395),
        ({"architecture": "modern", "hidden_size": 256, "num_layers": 12, "num_heads": 4}, 8000, (32, 512), "bf16", 3454),
        ({"architecture": "modern", "hidden_size": 256, "num_layers": 8, "num_heads": 4}, 8000, (4, 4096), "bf16", 2598),
        ({"hidden_size": 768, "num_layers": 4, "num_heads": 12}, 8000, (8, 512), "fp32", 2308),
        ({"hidden_size": 768, "num_layers": 4, "num_heads": 12}, 8000, (8, 512), "bf16", 1300),
    ],
)
def test_activations_are_those_that_a_step_was_seen_to_keep(
    model: dict[str, Any], pieces: int, shape: tuple[int, int], precision: str, measured: float
) -> None:
    """``shape`` is rows and tokens of a step, ``measured`` the MB by which it raised a process's peak (docs/results.md)."""
    rows, length = shape
    spec = PretrainSpec(model={**model, "max_positions": 4096}, steps=1)
    config = spec.config_for(vocab_size=pieces, sequence_length=length)
    assert _activations(config, rows, length, precision) / 1e6 == pytest.approx(measured, rel=0.25)


def test_packed_rows_cost_what_tokens_attend_to_in_their_own_documents() -> None:
    """Of Korean Wikipedia's pieces, those of rows of 8,192 are in documents, or parts of them, of 3,539 pieces on average."""
    vocab, rows_of = Volume(pieces=50_000), registry.by_name()["examples"]
    settings: dict[str, Any] = {"steps": 2, "sop_weight": 0.0, "wop_weight": 0.0, "model": {"architecture": "modern"}}

    def operations(length: int, packing: str, histogram: dict[str, int] | None = None) -> float:
        documents = {"documents": Volume(text=1e9), "vocab": vocab}
        rows, _ = estimate(rows_of, rows_of.spec(sequence_length=length), documents)
        if histogram is not None:
            rows = replace(rows, attended=_attended(histogram))
        given = {"vocab": vocab, "examples": rows, "views": replace(rows, slots=(length // 20, 0))}
        return estimate(pretrain.STAGE, PretrainSpec(**settings | {"packing": packing}), given)[1].operations

    config = PretrainSpec(**settings).config_for(vocab_size=50_000, sequence_length=8192)
    counted = 2 * 2048 * training_flops(config, length=8192, mlm_slots=409, wop_slots=0, seen=3539)
    assert operations(8192, "best_fit") == pytest.approx(counted, rel=0.02)
    assert counted < 0.8 * operations(8192, "none")
    assert operations(128, "best_fit") > 0.99 * operations(128, "none")
    short = operations(8192, "best_fit", {"1-512": 1_000, "513-1024": 0})
    assert short < 0.6 * operations(8192, "none"), "counted, once the rows are built"
    assert operations(8192, "best_fit", {"7681-8189": 5}) == pytest.approx(operations(8192, "none"), rel=0.02)


def test_a_plan_says_what_does_not_fit_into_a_chip() -> None:
    (message,) = _advice(Work(memory=95e9), machine_named("h100x8"))
    assert message == "it needs about 95 GB of the 80 GB that a chip has: lower micro_batch_size"
    assert not list(_advice(Work(memory=70e9), machine_named("h100")))
    assert not list(_advice(Work(memory=95e9), machine_named("corex2"))), "of processors the memory is not known"


def test_a_plan_names_the_batch_that_gpus_cannot_share_and_how_many_could(tmp_path: Path) -> None:
    long = {"from_step": 10, "global_batch_size": 4, "micro_batch_size": 4}
    phased = PretrainSpec(steps=20, global_batch_size=32, micro_batch_size=8, long=long)  # type: ignore[arg-type]
    (refused,) = _unshared(phased, machine_named("h100x8"))
    assert refused == (
        "long.global_batch_size = 4 is not divisible by the number of ranks = 8 (nodes × processes); use 4 of them, or make it "
        "a multiple of 8"
    )
    assert not [*_unshared(phased, machine_named("h100x4")), *_unshared(phased, machine_named("corex8"))], "cores are no ranks"
    planned = recipes.prepare(SAMPLE, Store(tmp_path), until="pretrain", machine="h100x64").planned
    assert planned[-1].advice.startswith("global_batch_size = 16 is not divisible by the number of ranks = 64 ")


def test_what_the_network_takes_is_left_open(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    text = TINY.read_text("utf-8").replace("../../data_specs", str(Path(__file__).parents[2] / "data_specs"))
    recipe.write_text(text + '\n[fetch.news]\nurl = "https://example.org/news.jsonl"\n', "utf-8")
    planned = recipes.prepare(recipe, Store(tmp_path / "store")).planned
    fetched = next(stage for stage in planned if stage.label == "fetch/news")
    assert fetched.cost is not None and fetched.cost.seconds is None
    assert "and what the network takes" in total(planned)


def test_specs_of_a_store_can_be_read_back(tmp_path: Path) -> None:
    """Measured costs are compared with estimates from the specs in manifests."""
    for label, node in recipes.graph(recipes.load(SAMPLE)).items():
        again = type(node.spec).model_validate_json(json.dumps(json.loads(node.spec.model_dump_json())))
        assert again == node.spec, label


def test_threads_and_workers_of_the_run_set_its_price(tmp_path: Path) -> None:
    def costs(**limits: Any) -> dict[str, float]:
        planned = recipes.prepare(SAMPLE, Store(tmp_path), **limits).planned
        return {stage.label: stage.cost.seconds or 0.0 for stage in planned if stage.cost is not None}

    whole, limited = costs(machine="corex8"), costs(machine="corex8", threads=1)
    assert limited["pretrain"] > 3 * whole["pretrain"] and limited["clean/news"] == whole["clean/news"]
    assert costs(machine="corex8", threads=99, workers=99) == whole
    assert costs(machine="h100", threads=1) == costs(machine="h100")
    machine, much = Machine("eight cores", figures().chips["core"], 8, 8), Work(units=30_000)
    eight, one = (
        Prices([], registry.by_name(), machine, workers=n).cost("clean/news", "clean", much, training=False) for n in (8, 1)
    )
    assert (one.seconds or 0) > 4 * (eight.seconds or 0)


@pytest.mark.parametrize("noted", [{"threads": 1}, {}])
def test_what_was_built_with_one_thread_prices_any_number(tmp_path: Path, noted: dict[str, int]) -> None:
    """A manifest from before threads were noted has the processor time of a thread."""
    machine, work = Machine("two cores", figures().chips["core"], 2, 2), Work(operations=1e15)
    rates = {
        n: Prices([], registry.by_name(), machine, threads=n).cost("pretrain", "pretrain", work, training=True) for n in (1, 2)
    }
    seconds = rates[1].seconds or 0
    host = host_facts() | noted
    manifest = {"label": "pretrain", "recipe": {"stage": "pretrain"}, "host": host, "wall_seconds": seconds}
    manifest |= {} if noted else {"processor_seconds": seconds}
    built: Any = SimpleNamespace(name="pretrain-0", manifest=manifest, stats={}, size=1)
    for threads, rate in rates.items():
        prices = Prices([built], registry.by_name(), machine, threads=threads)
        prices._known["pretrain-0"] = Volume(), work
        assert prices.cost("pretrain", "pretrain", work, training=True).seconds == pytest.approx(rate.seconds)


def test_an_artifact_notes_the_threads_of_its_build(tmp_path: Path) -> None:
    (node,) = recipes.until(recipes.graph(recipes.load(TINY)), "extract/news").values()
    runtime = TrainingRuntime(store=tmp_path / "store", workers=1, threads=3)
    host = build(node.stage, node.spec, {}, runtime, label=node.label).artifact.manifest["host"]
    assert (host["workers"], host["threads"]) == (1, 3)


def test_a_plan_names_benchmarks_whose_test_texts_may_be_in_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def advice(recipe: Path) -> list[str]:
        planned = recipes.prepare(recipe, Store(tmp_path / "store")).planned
        return [stage.advice for stage in planned if stage.label == "dedup"]

    whole = SAMPLE.read_text("utf-8").replace('"../', f'"{SAMPLE.parent.parent}/')
    tables = re.split(r"(?=\[\[dedup\.decontaminate\]\]\n|\[balance\])", whole)
    assert len(tables) == 4, "two benchmarks are removed"
    (tmp_path / "whole.toml").write_text(whole, "utf-8")
    assert advice(tmp_path / "whole.toml") == [""]
    (tmp_path / "one.toml").write_text(tables[0] + tables[2] + tables[3], "utf-8")
    left = "test texts of nsmc may be in the corpus: name their files in [[dedup.decontaminate]]"
    assert advice(tmp_path / "one.toml") == [left]
    store = Store(tmp_path / "store")
    build_all(recipes.prepare(tmp_path / "one.toml", store, until="dedup").nodes, Runtime(store=store.root, workers=1))
    assert advice(tmp_path / "one.toml") == [left], "the corpus is cached, but not all of the run"
    copied = shutil.copy(SAMPLE.parents[1] / "sample" / "artificial" / "nsmc_test.txt", tmp_path / "other name.txt")
    (tmp_path / "copy.toml").write_text(
        whole.replace(f'test = "{SAMPLE.parents[1]}/sample/artificial/nsmc', f'test = "{copied}" # nsmc'), "utf-8"
    )
    assert advice(tmp_path / "copy.toml") == [""], "files are compared by their content"
    other = tables[0] + tables[2] + tables[3].replace("[finetune.nsmc]", '[finetune.reviews]\ntask = "nsmc"')
    (tmp_path / "other.toml").write_text(other, "utf-8")
    assert advice(tmp_path / "other.toml") == [left.replace("nsmc", "reviews")], "benchmarks have the names of their tables"
    monkeypatch.setattr(Store, "find", lambda *_: object())
    monkeypatch.setattr(Store, "fault", lambda *_: None)
    assert {stage.status for stage in recipes.prepare(tmp_path / "one.toml", store).planned} == {"cached"}
    assert advice(tmp_path / "one.toml") == [left], "all is cached"


def test_weights_that_a_deeper_model_starts_from_do_not_make_it_cheaper(tmp_path: Path) -> None:
    path = SAMPLE.parents[1] / "ablations" / "sample" / "albert-table-11.toml"
    planned = recipes.prepare(path, Store(tmp_path / "store"), machine="corex2").planned
    seconds = {stage.label: stage.cost.seconds or 0.0 for stage in planned if stage.cost}
    three, six, twelve = (seconds[f"pretrain/layers-{layers}/1"] for layers in (3, 6, 12))
    assert twelve - six == pytest.approx(2 * (six - three), rel=0.05)
