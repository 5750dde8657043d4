"""Our training loop beside Hugging Face's `Trainer`, data loading included: tokens/s, memory, time outside the model, MFU.

    python -m bench.pretrain [--cases small base modern-small] [--threads 1] [--peers PYTHON]

Both sides use the same rows of the shipped sample (cut at each case's length), the same shape with 32,000 word embeddings, and
the same batch size, AdamW and threads, each in the precision that is faster for it. Our modern encoder packs several rows into
one, as in every shipped recipe of it; each side counts the tokens that it was trained on, without padding. Theirs is
`AlbertForPreTraining`, or `ModernBertForMaskedLM` with logits of masked pieces alone, with `DataCollatorForLanguageModeling`.
PYTHON is an interpreter with transformers and accelerate, by default this one, so that both use the same torch. Each side runs
in a process of its own, in turns, and the better turn counts; both keep the memory of a step for the next one, like our stage.
On a CPU, seconds are those of the processor, so that other work on the machine matters little. If torch finds a GPU, the cases
are those of the GPU, in bf16, and seconds are those of the clock.

MFU is computed like published figures: operations on real tokens, without padding, divided by the nominal peak of the GPU in
bf16 (`korealbert/data_specs/machines.toml`). The share of the rate of a large matrix product on the device is shown as well.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import korealbert
from bench.common import answer, options
from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, Stats, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard, read_documents
from korealbert.examples import packing, views
from korealbert.recipe.machines import figures

SAMPLE = Path("data_specs/recipes/small-sample.toml")
TURNS = 2
COPIES = 20
"""Repetitions of the sample's text, which make an epoch of a few thousand rows."""
JOINED = 5
"""Documents of the sample that are joined into one."""
LARGE = {"hidden_size": 1024, "num_layers": 24}


@dataclass(frozen=True)
class Case:
    """One comparison."""

    model: dict[str, Any]
    length: int
    batch: int
    """Sequences per forward pass."""
    steps: int
    """Steps that are timed, after ``warm_up`` others."""
    goals: dict[str, float]
    """Minimum speed ratio, share of the matrix rate and MFU; maximum memory ratio and share of time outside the model."""
    warm_up: int = 1
    accumulation: int = 1
    precisions: tuple[str, ...] = ("fp32", "bf16")


MODERN = {"architecture": "modern", "hidden_size": 256, "num_layers": 4, "num_heads": 4, "max_positions": 128}
ON_CPU = {
    "small": Case(
        {"hidden_size": 256, "num_layers": 4}, 128, 32, 6, {"speed": 2.5, "memory": 0.7, "outside": 0.03, "products": 0.45}
    ),
    "base": Case({}, 128, 16, 2, {"speed": 1.5, "memory": 0.7, "outside": 0.03, "products": 0.7}),
    "modern-small": Case(MODERN, 128, 32, 6, {"speed": 2.0, "memory": 0.7, "outside": 0.03}),
}
_GPU: dict[str, Any] = {"warm_up": 15, "precisions": ("bf16",)}
ON_GPU = {
    "base-128": Case({}, 128, 512, 30, {"speed": 2.0, "memory": 0.7, "mfu": 0.55}, **_GPU),
    "base-512": Case({}, 512, 128, 30, {"speed": 2.0, "memory": 0.7}, **_GPU),
    "large-128": Case(LARGE, 128, 256, 20, {"speed": 2.0, "memory": 0.7}, **_GPU),
    "large-512": Case(LARGE, 512, 64, 20, {"speed": 2.0, "memory": 0.7}, **_GPU),
    "modern-base-1024": Case({"architecture": "modern"}, 1024, 64, 20, {"speed": 2.0, "memory": 0.7}, **_GPU),
}


class LongTextSpec(Spec):
    """Spec of ``long_text``."""

    copies: int


def long_text(spec: LongTextSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Write documents of five documents of the corpus, repeatedly, so that rows are as full as those of a large corpus."""
    texts = [d.text for path in inputs["documents"].files("documents-*.arrow") for d in read_documents(path)]
    joined = ["\n".join(texts[first : first + JOINED]) for first in range(0, len(texts), JOINED)]
    with DocumentShard(out_dir, 0) as shard:
        for number, text in enumerate(joined * spec.copies):
            shard.keep(Document(document_id("sample", str(number)), "sample", text))
    return shard.stats


def rows(length: int, store: Path, *, copies: int = COPIES, heldout_share: float = 0.0) -> tuple[Artifact, Artifact, Artifact]:
    """Return vocabulary, examples and views of the sample at a sequence length."""
    built = korealbert.run(SAMPLE, store, until="vocab", workers=1)
    runtime = Runtime(store=store, workers=1)
    spec = LongTextSpec(copies=copies)
    documents = build(Stage("long_text", 1, LongTextSpec, long_text), spec, {"documents": built["balance"]}, runtime).artifact
    made = {"vocab": built["vocab"]}
    packed = packing.ExamplesSpec(sequence_length=length, heldout_share=heldout_share)
    made["examples"] = build(packing.STAGE, packed, {"documents": documents, **made}, runtime).artifact
    noise = views.ViewsSpec(views=1, word_order={"portion": 0.0})
    return *made.values(), build(views.STAGE, noise, made, runtime).artifact  # type: ignore[return-value]


def side(python: str, name: str, job: dict[str, Any]) -> dict[str, float]:
    """Run one side in a process of its own, which keeps freed memory; returns its seconds, peak memory and so on."""
    command = [python, "-m", "bench.pretrain_sides", name, json.dumps(job)]
    keeps_memory = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
    result: dict[str, float] = answer(command, environment=keeps_memory)
    return result


def compare(name: str, case: Case, job: dict[str, Any], peers: str) -> bool:
    """Run both sides in turns and print their rows; returns whether every goal is met."""
    turns = [
        (side(sys.executable, "ours", {**job, "precision": p}), side(peers, "theirs", {**job, "precision": p}))
        for p in case.precisions * TURNS
    ]
    ours, theirs = (max(runs, key=speed) for runs in zip(*turns, strict=True))
    speeds = [speed(run) for run in (ours, theirs)]
    name = f"{name}, {ours['precision']} beside {theirs['precision']}"
    met = [row(f"{name}: tokens/s", *speeds, speeds[0] / speeds[1], at_least=case.goals["speed"])]
    memory = [run["peak_bytes"] / 2**20 for run in (ours, theirs)]
    met.append(row(f"{name}: peak memory, MiB", *memory, memory[0] / memory[1], at_most=case.goals["memory"]))
    if "outside" in case.goals:
        outside = min(run["outside"] for run, _ in turns if run["precision"] == ours["precision"])
        met.append(row(f"{name}: share of the step outside the model", None, None, outside, at_most=case.goals["outside"]))
    products = ours["operations_per_second"] / ours["matrix_rate"]
    met.append(row(f"{name}: share of the matrix rate", None, None, products, at_least=case.goals.get("products")))
    if peak := nominal_peak():
        positions = case.steps * case.batch * case.accumulation * case.length
        real = ours["operations_per_second"] * ours["tokens"] / positions
        met.append(row(f"{name}: MFU, without padding", None, None, real / peak, at_least=case.goals.get("mfu")))
    return all(met)


def speed(run: dict[str, float]) -> float:
    """Return the tokens per second of a side."""
    return run["tokens"] / run["seconds"]


def nominal_peak() -> float | None:
    """Return the operations per second of this machine's GPU in bf16 by its data sheet, or None if it is not known."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    found = (chip for key, chip in figures().chips.items() if chip.memory_gb and re.search(rf"\b{key}\b", name, re.IGNORECASE))
    return max((chip.operations for chip in found), default=None)


def row(
    what: str,
    ours: float | None,
    peer: float | None,
    ratio: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> bool:
    """Print one row; returns whether its goal is met."""
    shown = ["" if value is None else f"{value:,.0f}" for value in (ours, peer)]
    goal = f"≥ {at_least}" if at_least is not None else f"≤ {at_most}" if at_most is not None else ""
    met = (at_least is None or ratio >= at_least) and (at_most is None or ratio <= at_most)
    print(f"{what:<64}{shown[0]:>12}{shown[1]:>12}{ratio:>9.3f}  {goal}{'' if met else '  MISSED'}", flush=True)
    return met


def main() -> int:
    parser = options(__doc__)
    cases = ON_GPU if torch.cuda.is_available() else ON_CPU
    parser.add_argument("--cases", nargs="+", choices=cases, default=list(cases))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--pieces", type=int, default=32_000, help="word embeddings of the model; the sample uses the first ones"
    )
    parser.add_argument("--peers", default=sys.executable, help="interpreter with transformers and accelerate")
    parser.add_argument("--store", type=Path, default=Path("store/bench-pretrain"))
    arguments = parser.parse_args()
    print(f"{'what':<64}{'ours':>12}{'peer':>12}{'ratio':>9}  goal", flush=True)
    met = []
    for name in arguments.cases:
        vocab, examples, noise = (str(artifact.path.resolve()) for artifact in rows(cases[name].length, arguments.store))
        data = {"vocab": vocab, "examples": examples, "views": noise}
        job = {**asdict(cases[name]), **data, "threads": arguments.threads, "pieces": arguments.pieces}
        met.append(compare(name, cases[name], job, arguments.peers))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
