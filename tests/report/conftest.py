"""A small whole run: artifacts that the real store built, with the statistics that the stages return."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, build
from korealbert.documents.schema import Document, Drop, Quarantined, document_id
from korealbert.documents.shards import DocumentShard
from korealbert.finetune.stage import FinetuneStats

SCRIPT = "<script>alert('제목')</script>"


class AnySpec(Spec):
    seed: int = 1
    init: str = "pretrained"
    task: str = ""
    source: str = ""
    title: str = "KoreALBERT"
    license: str = "other"
    global_batch_size: int = 64
    wop_weight: float = 1.0
    heldout_rest: str = "train"
    epochs: int = 3
    learning_rate: float = 5e-5
    masking: dict[str, Any] = Field(default_factory=dict)
    model: dict[str, Any] = Field(default_factory=dict)
    sentence_task: str = "sop"
    itl: bool = True
    encoder: str = "source"
    itl_init: str = "random"
    max_train_examples: int | None = None


def made(
    store: Path,
    label: str,
    stats: dict[str, Any],
    inputs: Inputs | None = None,
    write: Callable[[Path], dict[str, Any] | None] = lambda out: None,
    **spec: Any,
) -> Artifact:
    """Build an artifact with these statistics."""

    def run(_: AnySpec, __: Inputs, out: Path, ___: Runtime) -> dict[str, Any]:
        return {**stats, **(write(out) or {})}

    stage = Stage(label.split("/", maxsplit=1)[0], 1, AnySpec, run)
    values = {"source": label, **spec}
    return build(stage, AnySpec(**values), inputs or {}, Runtime(store=store), label=label).artifact


def content(name: str, value: Any) -> Callable[[Path], None]:
    """Return a function that writes a value as a JSON file of an artifact."""

    def write(out: Path) -> None:
        (out / name).write_text(json.dumps(value))

    return write


def write_documents(kept: int, dropped: dict[str, list[str]], unreadable: int = 0) -> Callable[[Path], dict[str, Any]]:
    """Return a function that writes documents, dropped ones with the given titles, and quarantined records."""

    def write(out: Path) -> dict[str, Any]:
        with DocumentShard(out, 0) as shard:
            for number in range(kept):
                shard.keep(Document(document_id("t", str(number)), "t", "하늘이 맑다. " * 40, title=f"글 {number}"))
            for reason, titles in dropped.items():
                for title in titles:
                    shard.drop(Document(document_id(reason, title), "t", "짧은 글", title=title), Drop(reason, "rule"))
            for number in range(unreadable):
                shard.quarantine(
                    Quarantined(f"/secret/place/dump.tar::AA/{number}", f"line {number}", "text", "invalid_utf8", "고치세요")
                )
        return shard.stats

    return write


def write_metrics(out: Path) -> None:
    lines = []
    for step in range(0, 2001, 50):
        done = step / 2000
        figures: dict[str, float | None] = {
            "mlm_loss": 9 * math.exp(-2 * done),
            "mlm_accuracy": 0.4 * done,
            "sop_loss": 0.7 - 0.3 * done,
        }
        figures |= {
            "sop_accuracy": 0.5 + 0.3 * done,
            "wop_loss": None if step < 100 else 4 - 2 * done,
            "wop_accuracy": 0.5 * done,
        }
        if step:
            lines.append({"split": "train", "step": step, "tokens": step * 8000, "loss": 1.0, **figures})
        if step % 500 == 0:
            worse = {key: value if value is None else value * 1.04 for key, value in figures.items()}
            lines.append({"split": "heldout", "step": step, "tokens": step * 8000, **worse})
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "config.json").write_text(
        json.dumps({"vocab_size": 8000, "word_order_classes": 128, "num_layers": 4, "hidden_size": 256})
    )


def cell(
    store: Path, model: Artifact, task: str, init: str, seed: int, *, trained_epochs: int = 3, root: str = "", **changes: Any
) -> Artifact:
    """Build a fine-tuning cell whose score follows from its seed; ``changes`` replace metrics."""
    classification = task == "nsmc"
    metric = "accuracy" if classification else "spearman"
    score = (84.0 if classification else 61.0) + 0.3 * seed - (6.5 if init == "random" else 0)
    scores = {metric: score} if classification else {metric: score, "pearson": score + 0.125}
    metrics = {
        "task": task,
        "init": init,
        "seed": seed,
        "metric": metric,
        "title": {"nsmc": "NSMC", "korsts": "KorSTS"}[task],
        "dev": {name: value + 1 for name, value in scores.items()},
        "test": scores,
        "epochs": [{"epoch": epoch, **{name: value + epoch - 2 for name, value in scores.items()}} for epoch in (1, 2, 3)],
        "best_epoch": 3,
        "parameters": 4_860_000,
        "examples_train": 142_500,
        "examples_dev": 7_500,
        "examples_test": 50_000 if classification else 1_379,
        "examples_test_official": 50_000 if classification else 1_379,
        "warnings": [],
        **changes,
    }
    spec = {"source": "", "task": task, "init": init, "seed": seed, "epochs": trained_epochs}
    stats = FinetuneStats.within(metrics).facts()
    return made(
        store, f"finetune/{root}{task}/{init}/{seed}", stats, {"model": model}, content("metrics.json", metrics), **spec
    )


def whole_run(store: Path) -> dict[str, Artifact]:
    """Build all artifacts of a run, by label."""
    run: dict[str, Artifact] = {}
    titles = {"disambiguation": [SCRIPT, "가|나 *다*"], "redirect": ["넘겨주기"]}
    for source, kept in (("news", 30), ("kowiki", 50)):
        run[f"extract/{source}"] = made(
            store,
            f"extract/{source}",
            {"lost_characters": {"table": 1200, "media": 0}},
            write=write_documents(kept + 3, titles, unreadable=2),
        )
        removed = {"H1-dateline": 120, "T1-email": 80, SCRIPT: 3} if source == "news" else {"T7-empty": 240}
        more = {
            "normalized": {"space": 77},
            "masked": {"phone": 41} if source == "news" else {},
            "unmapped_sections": {f"분야 {n}": n for n in range(1, 60)} if source == "news" else {},
        }
        run[f"clean/{source}"] = made(
            store,
            f"clean/{source}",
            {"removed": removed, "removed_characters": 4321, "sentences_out": 900, **more},
            {"documents": run[f"extract/{source}"]},
            write_documents(kept, {"too_short": ["셋", "넷", "다섯"]}),
        )
    cleaned = {"news": run["clean/news"], "kowiki": run["clean/kowiki"]}
    sources = {
        "news": {"documents_in": 30, "documents_out": 28, "characters_out": 9_000, "exact_duplicate": 2},
        "kowiki": {"documents_in": 50, "documents_out": 47, "characters_out": 15_000, "exact_duplicate": 3},
    }
    unique = {"sources": sources, "decontaminated": {"nsmc-test": 12, "korsts-test": 3}}
    unique |= {"characters_decontaminated": {"nsmc-test": 2_345, "korsts-test": 67}}
    run["dedup"] = made(
        store, "dedup", unique, cleaned, write_documents(75, {"exact_duplicate": ["가", "나", "다", "라", "마"]})
    )
    sizes = {"정치": (900_000, 400_000), "문화": (300_000, 300_000), "과학": (120_000, 120_000), SCRIPT: (10_000, 10_000)}
    categories = {
        name: {"before_characters": a, "after_characters": b, "before_documents": a // 1000, "after_documents": b // 1000}
        for name, (a, b) in sizes.items()
    }
    balanced = write_documents(70, {"balanced_out": ["가", "나", "다", "라", "마"]})
    run["balance"] = made(store, "balance", {"categories": categories}, {"documents": run["dedup"]}, balanced)
    facts = {"pieces": 8000, "characters_per_piece": 1.93, "pieces_per_word": 2.1, "unknown_share": 0.00012}
    facts |= {"hangul_syllables_covered": 1873, "sampled_sentences": 123_456, "word_start_share": 0.43}
    run["vocab"] = made(store, "vocab", facts, {"documents": run["balance"]})
    bins = {f"{8 * i + 1}-{min(8 * i + 8, 125)}": 20 * (i + 1) ** 2 for i in range(16)}
    rows = {
        "documents_in": 70,
        "documents_out": 70,
        "dropped": {},
        "rows_train": 29_000,
        "rows_heldout": 920,
        "pieces": 3_000_000,
    }
    rows |= {"fill": 0.87, "length_histogram": bins, "sentences": 91_000}
    run["examples"] = made(store, "examples", rows, {"documents": run["balance"], "vocab": run["vocab"]})
    noise = {"views": 10, "rows": 290_000, "mlm_targets": 4_400_000, "mlm_rate": 0.1502, "masked": 3_520_000, "random": 440_000}
    noise |= {"kept": 440_000, "masked_share": 0.8, "random_share": 0.1, "kept_share": 0.1}
    noise |= {"wop_rows": 87_000, "wop_rate": 0.148, "sop_rows": 281_000, "sop_swapped": 140_000, "sop_swapped_share": 0.49822}
    run["views"] = made(store, "views", noise, {"examples": run["examples"], "vocab": run["vocab"]})
    heldout: dict[str, float | None] = {
        "mlm_accuracy": 0.4123,
        "mlm_loss": 3.21,
        "mlm_perplexity": 24.8,
        "sop_accuracy": 0.801,
        "sop_loss": 0.44,
    }
    heldout |= {"wop_accuracy": None, "wop_loss": None}
    training = {"steps": 2000, "tokens": 16_000_000, "parameters": 4_950_000, "heldout": heldout, "epochs": 2.1}
    training |= {"sequence_length": 128, "tokens_per_second": 987.6}
    trained_on = {"vocab": run["vocab"], "examples": run["examples"], "views": run["views"]}
    run["pretrain"] = made(store, "pretrain", training, trained_on, write_metrics)
    exported = {"model_type": "albert", "sequence_length": 128, "parameters": 4_900_000}
    run["export"] = made(store, "export", exported, {"pretrain": run["pretrain"], "vocab": run["vocab"]})
    for task in ("nsmc", "korsts"):
        for init in ("pretrained", "random"):
            for seed in (1, 2, 10):
                run[f"finetune/{task}/{init}/{seed}"] = cell(store, run["export"], task, init, seed)
    return run


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    return whole_run(tmp_path_factory.mktemp("store"))
