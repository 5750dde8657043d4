"""A stage that pretrains masked language models of transformers with its ``Trainer`` on our rows, for a given time.

Input: roles ``vocab`` and ``examples``. Output: a directory in Hugging Face format with our tokenizer, like that of stage
`export`. Each peer runs in its best form on a processor: batches padded to their longest row, special pieces marked beforehand,
logits of masked pieces alone if the class supports it (ModernBERT), fused AdamW, no dropout, the faster precision of fp32 and
bf16 by a few steps of each, and a learning rate that follows the time. A killed run starts over.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from korealbert.artifact import Inputs, Progress, Runtime, Spec, Stage, Stats
from korealbert.examples.schema import open_rows
from korealbert.examples.table import RowTable
from korealbert.huggingface.checkpoint import settings
from korealbert.huggingface.export import SPECIAL_IDS, write_tokenizer
from korealbert.model.config import AnyConfig, ModelConfig, ModernConfig
from korealbert.model.parameters import count_parameters
from korealbert.pretrain.optimizer_spec import ScheduleSpec
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.vocab.tokenizer import SPECIAL

Family = Literal["albert", "bert", "modernbert"]

SHAPE = ("hidden_size", "num_layers", "num_heads", "max_positions")
"""Fields that our models have too."""
_SCHEDULE_STEPS = 1_000_000
"""Steps of the schedule that the time is divided into."""


class PeerSpec(Spec):
    """Spec of one pretraining."""

    family: Family
    """Class of transformers: ``AlbertForMaskedLM``, ``BertForMaskedLM`` or ``ModernBertForMaskedLM``."""
    seconds: float = Field(gt=0)
    """Time of training, with loading but without start and end."""
    hidden_size: int = Field(ge=1)
    num_layers: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    max_positions: int = Field(ge=4)
    batch_size: int = Field(default=32, ge=1)
    """Rows per update."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Peak learning rate of AdamW; it rises for 5 % of the time, then falls linearly to 0."""
    masking_rate: float = Field(default=0.15, gt=0, lt=1)
    """Share of pieces that are predicted."""
    seed: int = 1


class Rows(torch.utils.data.Dataset[dict[str, list[int]]]):
    """Training rows of an ``examples`` artifact like those of a tokenizer: ``[CLS]`` pieces ``[SEP]``, without padding."""

    def __init__(self, examples: Path) -> None:
        self.table = RowTable(examples, "train")

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, number: int) -> dict[str, list[int]]:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, list[int]]]:
        """Return a batch from one read; torch's loader calls this."""
        rows = zip(*self.table.columns(["ids", "length"], np.array(numbers, dtype=np.int64)), strict=True)
        pieces = [ids[:length].tolist() for ids, length in rows]
        return [
            {"input_ids": [SPECIAL.cls, *ids, SPECIAL.sep], "special_tokens_mask": [1, *[0] * len(ids), 1]} for ids in pieces
        ]


class Budget(TrainerCallback):  # type: ignore[misc]
    """Ends training when its time is over."""

    def __init__(self, seconds: float, runtime: Runtime) -> None:
        self.seconds, self.runtime, self.began = seconds, runtime, 0.0

    @property
    def spent(self) -> float:
        """Return the seconds since training began; 0 before."""
        return time.monotonic() - self.began if self.began else 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = self.spent >= self.seconds
        if state.global_step % 100 == 0:
            self.runtime.report(Progress(int(self.spent), int(self.seconds), "seconds"))


def shape(spec: PeerSpec, vocab_size: int) -> AnyConfig:
    """Return the model's configuration without dropout; ALBERT has embeddings of at most 128 and shares its layers."""
    common = {name: getattr(spec, name) for name in SHAPE} | {"vocab_size": vocab_size}
    if spec.family == "modernbert":
        return ModernConfig(architecture="modern", **common)
    common |= {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    if spec.family == "bert":
        return ModelConfig(**common, embedding_size=spec.hidden_size, share="none", activation="gelu")
    return ModelConfig(**common, embedding_size=min(128, spec.hidden_size), ffn_dropout=False)


def run(spec: PeerSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Train, and write the directory."""
    examples = inputs["examples"].path
    header = open_rows(min(examples.glob("train-*.arrow")))[1]
    write_tokenizer(inputs["vocab"].path, out_dir, longest=header.sequence_length, segments=spec.family != "modernbert")
    torch.set_num_threads(TrainingRuntime.of(runtime).threads)
    set_seed(spec.seed)
    described = settings(shape(spec, header.vocab_size), SPECIAL_IDS)
    if spec.family == "modernbert":
        described["sparse_prediction"] = True
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(**described))
    tokenizer = AutoTokenizer.from_pretrained(out_dir, local_files_only=True)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=spec.masking_rate)
    rows, budget = Rows(examples), Budget(spec.seconds, runtime)
    precision = faster_precision(model, collator([rows[n % len(rows)] for n in range(spec.batch_size)]))
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            max_steps=_SCHEDULE_STEPS * 1000,  # The budget ends training.
            per_device_train_batch_size=spec.batch_size,
            learning_rate=spec.learning_rate,
            weight_decay=0.01,
            adam_beta2=0.98,
            adam_epsilon=1e-6,
            optim="adamw_torch_fused",
            bf16=precision == "bf16",
            use_cpu=True,
            seed=spec.seed,
            include_num_input_tokens_seen="non_padding",
            remove_unused_columns=False,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator, callbacks=[budget])
        trainer.remove_callback(PrinterCallback)
        optimizer, schedule = trainer.create_optimizer(), ScheduleSpec(warmup_ratio=0.05)

        def factor(_: int) -> float:
            share = min(1.0, budget.spent / spec.seconds)
            return schedule.learning_rate(int(share * _SCHEDULE_STEPS), peak=1.0, steps=_SCHEDULE_STEPS)

        trainer.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        trainer.train()
    seconds = budget.spent
    model.save_pretrained(out_dir)
    return {
        "model_type": model.config.model_type,
        "parameters": count_parameters(model),
        "steps": trainer.state.global_step,
        "tokens": int(trainer.state.num_input_tokens_seen),
        "seconds": round(seconds, 3),
        "precision": precision,
    }


def faster_precision(model: Any, batch: Any) -> Literal["fp32", "bf16"]:
    """Return the faster precision by three training steps of each, without the first; leaves no gradients."""
    taken = {}
    for precision in ("bf16", "fp32"):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = model(**batch).loss
            loss.backward()
            times.append(time.perf_counter() - start)
        taken[precision] = min(times[1:])
    model.zero_grad()
    return "fp32" if taken["fp32"] <= taken["bf16"] else "bf16"


STAGE = Stage("trainer_peer", 1, PeerSpec, run)
