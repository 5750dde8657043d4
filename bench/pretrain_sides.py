"""The two sides of `bench.pretrain`; each runs in a process of its own and prints one JSON object.

    python -m bench.pretrain_sides ours|theirs JOB

JOB is JSON: a case of `bench.pretrain` with the folders of vocabulary, examples and views, threads and word embeddings. The
module imports little, because the memory of its process is measured.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from korealbert.examples.batches import ExampleBatches
from korealbert.model.config import AnyConfig
from korealbert.pretrain.rows import open_batches
from korealbert.pretrain.spec import PretrainSpec


def now() -> float:
    """Return processor seconds on a CPU; on a GPU, seconds of the clock when it has done its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def peak_bytes() -> int:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def spec_of(job: dict[str, Any]) -> PretrainSpec:
    """Return the spec: dropout as in KoreALBERT, but like theirs none after the feed-forward block.

    ModernBERT has no dropout, and its rows are packed.
    """
    steps, modern = job["warm_up"] + job["steps"], is_modern(job)
    return PretrainSpec(
        model=job["model"] if modern else {**job["model"], "ffn_dropout": False},
        steps=steps,
        global_batch_size=job["batch"] * job["accumulation"],
        micro_batch_size=job["batch"],
        optimizer={"name": "adamw", "lr": 1e-4},
        schedule={"warmup_steps": 1},
        precision=job["precision"],
        packing="best_fit" if modern else "none",
        sop_weight=0 if modern else 1,
        wop_weight=0,
        log_every=1,
        heldout_every=steps,
        checkpoint_every=steps,
    )


def is_modern(job: dict[str, Any]) -> bool:
    return bool(job["model"].get("architecture") == "modern")


class Pieces:
    """Rows for a model that has more word embeddings than their vocabulary has pieces."""

    def __init__(self, source: ExampleBatches, pieces: int) -> None:
        self.num_rows, self.num_views = source.num_rows, source.num_views
        self.sequence_length, self.vocab_size = source.sequence_length, pieces
        self.gather, self.noised = source.gather, source.noised
        self.attended = getattr(source, "attended", None)


class Nothing:
    num_rows, vocab_size = 0, 0


class Stopwatch:
    """Adds up the seconds of calls; nested calls count once."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            self._depth += 1
            start = now()
            try:
                return call(*arguments, **options)
            finally:
                self._depth -= 1
                self.seconds += now() - start if not self._depth else 0.0

        return timed


def ours(job: dict[str, Any], config: AnyConfig) -> dict[str, float]:
    """Train with our loop. Time outside the model is that of the steps without forward and backward passes and updates."""
    from korealbert.pretrain.engine import join
    from korealbert.pretrain.trainer import Trainer

    spec = spec_of(job)
    source = Pieces(open_batches(spec, Path(job["examples"]), Path(job["views"]), "train"), job["pieces"])
    marks: dict[int, tuple[float, float, int]] = {}
    model = Stopwatch()

    def report(step: int, metrics: dict[str, float | None]) -> None:
        marks[step] = (now(), model.seconds, trainer.state.tokens)

    with tempfile.TemporaryDirectory() as directory:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        ranks = join(rank=0, world_size=1, device=device)
        nothing: Any = Nothing()
        trainer = Trainer(spec, config, train=source, heldout=nothing, ranks=ranks, out_dir=Path(directory), report=report)
        if device.type == "cpu":  # On a GPU each reading of the clock would wait for it.
            trainer.objective.forward = model.around(trainer.objective.forward)  # type: ignore[method-assign]
            torch.autograd.backward = model.around(torch.autograd.backward)
            trainer.optimizer.step = model.around(trainer.optimizer.step)  # type: ignore[method-assign]
        trainer.run()
    (start, inside_at_start, tokens_at_start), (end, inside_at_end, tokens_at_end) = marks[job["warm_up"]], marks[spec.steps]
    trained = job["steps"] * job["batch"] * job["accumulation"]
    return {
        "seconds": end - start,
        "outside": 1 - (inside_at_end - inside_at_start) / (end - start),
        "operations_per_second": trained * trainer.operations[0] / (end - start),
        "matrix_rate": trainer.speed.peak,
        "tokens": tokens_at_end - tokens_at_start,
    }


def theirs(job: dict[str, Any], config: AnyConfig) -> dict[str, float]:
    """Train with `Trainer` and the collator that masks, on the rows without their noise."""
    from transformers import (
        AlbertConfig,
        AlbertForPreTraining,
        DataCollatorForLanguageModeling,
        ModernBertConfig,
        ModernBertForMaskedLM,
        PreTrainedTokenizerFast,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    from korealbert.huggingface import checkpoint
    from korealbert.huggingface.families import SpecialIds
    from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES

    names = {f"{role}_token": SPECIAL_PIECES[index] for role, index in SPECIAL._asdict().items()}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(job["vocab"]) / "tokenizer.json"), **names)
    special = SpecialIds(SPECIAL.pad, SPECIAL.cls, SPECIAL.sep)
    marks: dict[int, float] = {}
    tokens: list[int] = []  # Of each batch, in the order of training.

    class Collator(DataCollatorForLanguageModeling):
        def __call__(self, features: Any, return_tensors: str | None = None) -> Any:
            batch = super().__call__(features, return_tensors)
            tokens.append(int(batch["attention_mask"].sum()))
            return batch

    class Clock(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            marks[state.global_step] = now()

    described = checkpoint.settings(config, special)
    if is_modern(job):
        model = ModernBertForMaskedLM(ModernBertConfig(**described, sparse_prediction=True))
    else:
        model = AlbertForPreTraining(AlbertConfig(**described))
    steps = job["warm_up"] + job["steps"]
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            max_steps=steps,
            per_device_train_batch_size=job["batch"],
            gradient_accumulation_steps=job["accumulation"],
            learning_rate=1e-4,
            weight_decay=0.01,
            warmup_steps=1,
            bf16=job["precision"] == "bf16",
            use_cpu=not torch.cuda.is_available(),
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=clean_rows(job),
            data_collator=Collator(tokenizer, mlm_probability=0.15),
            callbacks=[Clock()],
        )
        trainer.train()
    begin, end = (count * job["accumulation"] for count in (job["warm_up"], steps))
    return {"seconds": marks[steps] - marks[job["warm_up"]], "tokens": sum(tokens[begin:end])}


def clean_rows(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows as a tokeniser would return them, padded to the length of the case."""
    source = ExampleBatches(Path(job["examples"]), Path(job["views"]), "train")
    batch = source.gather(0, np.arange(source.num_rows))
    ids = batch.input_ids.copy()
    used = batch.mlm_labels >= 0
    ids[used.nonzero()[0], batch.mlm_positions[used]] = batch.mlm_labels[used]
    visible = np.arange(ids.shape[1]) < batch.lengths[:, None]
    columns = (ids, batch.token_type_ids, visible.astype(np.int64), np.maximum(batch.sop_labels, 0))
    fields = ("input_ids", "token_type_ids", "attention_mask", "sentence_order_label")
    if is_modern(job):
        columns, fields = columns[::2], fields[::2]
    return [dict(zip(fields, row, strict=True)) for row in zip(*(column.tolist() for column in columns), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("ours", "theirs"))
    parser.add_argument("job", type=json.loads)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    job = given.job
    torch.set_num_threads(job["threads"])
    config = spec_of(job).config_for(vocab_size=job["pieces"], sequence_length=job["length"])
    result = {"ours": ours, "theirs": theirs}[given.name](job, config)
    print(json.dumps({**result, "peak_bytes": peak_bytes(), "precision": job["precision"]}))


if __name__ == "__main__":
    main()
