"""Our training loop beside Hugging Face's `Trainer`, data loading included: tokens/s, peak memory, time outside the model, MFU.

    python -m bench.pretrain [--cases small base modern-small] [--threads 1] [--peers PYTHON]

Both sides take the same rows of the shipped sample (packed at each case's length), the same shape with 32,000 word embeddings,
the same batch, AdamW and threads, each in the precision that is faster for it. Theirs is `AlbertForPreTraining`, or
`ModernBertForMaskedLM` with logits of masked pieces alone, with `DataCollatorForLanguageModeling`; PYTHON is
an interpreter with transformers and accelerate, by default this one, so that both compute with one torch. Each side runs in a
process of its own, in turns, and the better turn counts; both keep the memory of a step for the next one, as our stage does.
On a CPU seconds are processor seconds, so that other work on the machine counts little; where torch finds a GPU the cases are
those of the GPU, in bf16, and seconds are those of the clock.

MFU is as published figures are: operations of real tokens, padding left out, by the nominal peak of the GPU in bf16
(`korealbert/data_specs/machines.toml`). Beside it stands the share of what a large matrix product reaches on the device.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, Stats, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard, read_documents
from korealbert.examples import packing, views
from korealbert.recipe.dag import graph
from korealbert.recipe.machines import figures
from korealbert.recipe.nodes import until
from korealbert.recipe.reading import load

SAMPLE = Path("data_specs/recipes/small-sample.toml")
TURNS = 2
COPIES = 20
"""Times that the sample's text is repeated, so that an epoch is some thousand rows."""
JOINED = 5
"""Documents of the sample that make one."""
LARGE = {"hidden_size": 1024, "num_layers": 24}


@dataclass(frozen=True)
class Case:
    """One comparison."""

    model: dict[str, Any]
    length: int
    batch: int
    """Sequences per forward pass."""
    steps: int
    """Timed, after those of ``warm_up``."""
    goals: dict[str, float]
    """Least speed ratio, largest memory ratio, largest share of time outside the model, least share of matrix products, MFU."""
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
    """How often the text is repeated."""

    copies: int


def long_text(spec: LongTextSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """The corpus in documents of five of its own, some times over: rows are then as full as those of a large corpus."""
    texts = [d.text for path in inputs["documents"].files("documents-*.arrow") for d in read_documents(path)]
    joined = ["\n".join(texts[first : first + JOINED]) for first in range(0, len(texts), JOINED)]
    with DocumentShard(out_dir, 0) as shard:
        for number, text in enumerate(joined * spec.copies):
            shard.keep(Document(document_id("sample", str(number)), "sample", text))
    return shard.stats


def rows(length: int, store: Path, *, copies: int = COPIES, heldout_share: float = 0.0) -> tuple[Artifact, Artifact, Artifact]:
    """Vocabulary, examples and views of the sample at a length."""
    runtime = Runtime(store=store, workers=1)
    built: dict[str, Artifact] = {}
    for label, node in until(graph(load(SAMPLE)), "vocab").items():
        inputs = {role: built[name] for role, name in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, runtime).artifact
    spec = LongTextSpec(copies=copies)
    documents = build(Stage("long_text", 1, LongTextSpec, long_text), spec, {"documents": built["balance"]}, runtime).artifact
    made = {"vocab": built["vocab"]}
    packed = packing.ExamplesSpec(sequence_length=length, heldout_share=heldout_share)
    made["examples"] = build(packing.STAGE, packed, {"documents": documents, **made}, runtime).artifact
    noise = views.ViewsSpec(views=1, word_order={"portion": 0.0})
    return *made.values(), build(views.STAGE, noise, made, runtime).artifact  # type: ignore[return-value]


def side(python: str, name: str, job: dict[str, Any]) -> dict[str, float]:
    """Seconds and peak memory of one side in a process of its own; raises with its words where it fails."""
    command = [python, "-m", "bench.pretrain_sides", name, json.dumps(job)]
    kept = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **kept})
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-4000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(name: str, case: Case, job: dict[str, Any], peers: str) -> bool:
    """Run both sides in turns and print their rows; whether every goal is met."""
    turns = [
        (side(sys.executable, "ours", {**job, "precision": p}), side(peers, "theirs", {**job, "precision": p}))
        for p in case.precisions * TURNS
    ]
    ours, theirs = (min(runs, key=lambda run: run["seconds"]) for runs in zip(*turns, strict=True))
    tokens = case.steps * case.batch * case.accumulation * ours["tokens_per_sequence"]
    speeds = [tokens / run["seconds"] for run in (ours, theirs)]
    name = f"{name}, {ours['precision']} beside {theirs['precision']}"
    met = [row(f"{name}: tokens/s", *speeds, speeds[0] / speeds[1], at_least=case.goals["speed"])]
    memory = [run["peak_bytes"] / 2**20 for run in (ours, theirs)]
    met.append(row(f"{name}: peak memory, MiB", *memory, memory[0] / memory[1], at_most=case.goals["memory"]))
    if "outside" in case.goals:
        outside = min(run["outside"] for run, _ in turns)
        met.append(row(f"{name}: share of the step outside the model", None, None, outside, at_most=case.goals["outside"]))
    products = ours["operations_per_second"] / ours["matrix_rate"]
    met.append(row(f"{name}: share of the matrix rate", None, None, products, at_least=case.goals.get("products")))
    if peak := nominal_peak():
        real = ours["operations_per_second"] * ours["tokens_per_sequence"] / case.length
        met.append(row(f"{name}: MFU, without padding", None, None, real / peak, at_least=case.goals.get("mfu")))
    return all(met)


def nominal_peak() -> float | None:
    """Operations a second of this machine's GPU in bf16, by its data sheet; None where it is not known, and without one."""
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
    """Print one line; whether its goal is met."""
    shown = ["" if value is None else f"{value:,.0f}" for value in (ours, peer)]
    goal = f"≥ {at_least}" if at_least is not None else f"≤ {at_most}" if at_most is not None else ""
    met = (at_least is None or ratio >= at_least) and (at_most is None or ratio <= at_most)
    print(f"{what:<64}{shown[0]:>12}{shown[1]:>12}{ratio:>9.3f}  {goal}{'' if met else '  MISSED'}", flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = ON_GPU if torch.cuda.is_available() else ON_CPU
    parser.add_argument("--cases", nargs="+", choices=cases, default=list(cases))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pieces", type=int, default=32_000, help="word embeddings of the model; the sample uses the first")
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
