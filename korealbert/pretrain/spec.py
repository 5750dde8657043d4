"""What a recipe says about pretraining, and every contradiction that can be found before a process is started."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import Spec
from korealbert.model.config import AnyConfig, AnySpec, ModelConfig, ModelSpec, ModernConfig, ModernSpec, even_rows
from korealbert.pretrain.guard import GuardSpec
from korealbert.pretrain.optimizer_spec import AnyOptimizer, AnySchedule, OptimizerSpec, ScheduleSpec

ANY_VOCABULARY = 32
"""Pieces of a model of which only the architecture is asked."""


class BatchPhase(Spec):
    """A smaller global batch at the beginning of a run."""

    until_step: int = Field(ge=1)
    """Steps (from the start of the run) after which it ends."""
    global_batch_size: int = Field(ge=1)
    """Sequences per update until then."""


class LongPhase(Spec):
    """The end of a run on longer sequences, without which positions beyond the short ones stay untrained."""

    later: ClassVar[frozenset[str]] = frozenset({"global_theta"})

    from_step: int = Field(ge=1)
    """Steps on the short sequences; those after them take the long ones (BERT: the last 10 %)."""
    global_batch_size: int | None = Field(default=None, ge=1)
    """Sequences per update; by default as many as of the short ones."""
    micro_batch_size: int | None = Field(default=None, ge=1)
    """Sequences per forward pass of one rank, which a longer sequence's memory may bound; by default as many as of the short
    ones."""
    global_theta: float | None = Field(default=None, gt=0)
    """Base of the rotary frequencies in global layers from then on, and of the trained model; by default that of the model
    (ModernBERT: 10,000, then 160,000)."""


class ReplacedTokensSpec(Spec):
    """Replaced-token detection (ELECTRA)."""

    generator_hidden_size: int = Field(default=0, ge=0)
    """Width of the generator, a multiple of the width of the model's attention heads; 0 stands for the largest one within a
    third of hidden_size (ELECTRA-base: 256 of 768)."""
    weight: float = Field(default=50.0, ge=0)
    """Factor of the detection loss, beside 1 for the generator's."""

    def generator_size(self, model: ModelSpec) -> int:
        """Width of the generator beside this discriminator."""
        return self.generator_hidden_size or max(1, model.hidden_size // 3 // model.head_width) * model.head_width


_Task = Literal["mlm", "sop", "wop", "rtd", "replaced", "bow"]
"""What is predicted: masked pieces, sentence order, word order, which tokens are replaced, of the last those that are, and
masked pieces from the mean of the others."""


def tasks_of(objective: str, *, bag_of_words: bool) -> tuple[_Task, ...]:
    """The tasks of an objective: the order of every vector of counts, losses and weights."""
    if objective == "rtd":
        return "mlm", "rtd", "replaced"
    return ("mlm", "sop", "wop", "bow") if bag_of_words else ("mlm", "sop", "wop")


def _order_weight(given: dict[str, Any]) -> float:
    """Detection knows no order losses."""
    return 0.0 if given.get("objective") == "rtd" else 1.0


class PretrainSpec(Spec):
    """One pretraining run. Vocabulary size and sequence length come with the examples."""

    later: ClassVar[frozenset[str]] = frozenset(
        {
            "packing",
            "wop_target",
            "wop_reach",
            "embeddings",
            "dropout_until_step",
            "stop_after_seconds",
            "bow_weight",
        }
    )

    objective: Literal["mlm", "rtd"] = "mlm"
    """``mlm``: masked pieces, with sentence and word order (ALBERT, KoreALBERT). ``rtd``: a generator fills in the masked
    pieces, and the model predicts which tokens are not the original (ELECTRA)."""
    rtd: ReplacedTokensSpec = ReplacedTokensSpec()
    """The generator and its weight, under ``objective = "rtd"``."""
    model: AnySpec = ModelSpec()
    """The architecture; ``architecture = "modern"`` takes the second set of fields below. Left out where the run starts from
    weights of another stage, which bring their own; of one whose layers share everything their number may differ."""
    embeddings: Literal["random", "cooccurrence"] = "random"
    """Initial word embeddings: random numbers, or vectors from the co-occurrences of pieces, counted and decomposed
    as `[cooccurrence]` says and scaled to the size of the random ones."""
    frozen: tuple[str, ...] = ()
    """Tensors that stay as they are: patterns (``encoder.ffn.0.*``) of their names in ``model.safetensors``. They get no
    gradient, no decay and no moments."""
    steps: int = Field(ge=1)
    """Parameter updates (KoreALBERT: presumably 250,000, its ablations 125,000)."""
    stop_after_seconds: float | None = Field(default=None, gt=0)
    """Train for so much time, unless ``steps`` end before; the schedule follows. Such a run repeats no bytes."""
    dropout_until_step: int | None = Field(default=None, ge=0)
    """Steps with the model's dropout; those after them, and the trained model, have none (ALBERT-xxlarge). None: all."""
    global_batch_size: int = Field(default=2048, ge=1)
    """Sequences per update, over all ranks and accumulation steps."""
    micro_batch_size: int = Field(default=32, ge=1)
    """Sequences per forward pass of one rank, at most; the rest of the global batch is accumulated. Where a rank's share of the
    global batch is no multiple of it, the largest divisor below it is taken."""
    batch_warmup: tuple[BatchPhase, ...] = ()
    """Smaller batches first, in order of their ends; afterwards ``global_batch_size``."""
    long: LongPhase | None = None
    """The last steps on longer sequences, from examples and views of their own."""
    packing: Literal["none", "best_fit"] = "none"
    """``best_fit`` lays several rows of the examples into one sequence of their length, without padding between them, where a
    model of ``architecture = "modern"`` keeps them apart; batch sizes then count such sequences. ``none``: one row each."""
    optimizer: AnyOptimizer = OptimizerSpec()
    """The optimiser and its settings; ``name = "muon"`` takes the second set of fields below."""
    schedule: AnySchedule = ScheduleSpec()
    """The learning rate over the steps; a decay that begins with ``stable`` takes the second set of fields below."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the forward and backward pass; parameters, gradients and moments stay fp32. fp16 scales the loss.
    On GPUs fp32 products are TF32's."""
    zero_stage: Literal[0, 1, 2] = 0
    """What DeepSpeed's ZeRO divides among ranks: nothing, the moments, the gradients too. LAMB needs whole tensors."""
    compile: Literal["no", "kernels", "graphs"] = "no"
    """torch.compile: fused kernels, or besides captured in CUDA graphs. ``no`` asks for nothing: GPUs get fused kernels all the
    same, unless TORCH_COMPILE_DISABLE=1 is set. On CPUs they take a C++ compiler."""
    sop_weight: float = Field(default_factory=_order_weight, ge=0)
    """Factor of the sentence-order loss; there is none under ``objective = "rtd"``."""
    wop_weight: float = Field(default_factory=_order_weight, ge=0)
    """Factor of the word-order loss; 0 leaves its head out of the model. There is none under ``objective = "rtd"``."""
    wop_target: Literal["position", "offset"] = "position"
    """What the word-order head names of a moved token: the position where it was (KoreALBERT), or the offset to it, which needs
    no absolute positions."""
    wop_reach: int = Field(default=32, ge=1)
    """Largest offset: the head has a class for each from −wop_reach to wop_reach. What comes from farther away is no target."""
    order_from_step: int = Field(default=0, ge=0)
    """Step from which on the sentence-order and word-order losses count. From 0 they come in at once (KoreALBERT); in a narrow
    model their gradients then crowd out those of the masked words before these are learnt (docs/results.md)."""
    bow_weight: float = Field(default=0.0, ge=0)
    """Factor of the bag-of-words loss: a head of its own predicts the masked pieces of a sequence from the mean of its other
    pieces' vectors alone (after Ma et al. 2024, "Drop your Decoder"). This trains mean vectors, which fine-tuning with ``head =
    "mean"`` and bi-encoders read; the vectors of masked-token prediction alone say little of a whole sentence."""
    guard: GuardSpec = GuardSpec()
    """Detection of a collapse, and the reaction to it."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of initialisation, order of rows and dropout."""
    log_every: int = Field(default=50, ge=1)
    """Steps between two training lines of metrics.jsonl."""
    heldout_every: int = Field(default=1000, ge=1)
    """Steps between two scorings of the held-out rows; they are also scored before the first and after the last step."""
    checkpoint_every: int = Field(default=1000, ge=1)
    """Steps between two checkpoints; a killed run loses at most so many."""
    snapshots: tuple[int, ...] = ()
    """Steps after which the weights are kept as ``snapshots/step-….safetensors``, for analysis of the training."""
    tensorboard: bool = False
    """Write the metrics as TensorBoard's event files too; needs the extra ``tensorboard``."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if list(self.snapshots) != sorted({step for step in self.snapshots if 0 < step <= self.steps}):
            raise ValueError(f"snapshots = {list(self.snapshots)}: they must grow, and lie in 1 to steps = {self.steps}")
        for batch, micro_batch in self.batches:
            if batch % micro_batch:
                raise ValueError(
                    f"micro_batch_size = {micro_batch} does not divide global_batch_size = {batch}; change one of them"
                )
        self._check_long()
        if self.dropout_until_step is not None and self.dropout_until_step >= self.steps:
            raise ValueError(f"dropout_until_step = {self.dropout_until_step} is not below steps = {self.steps}; remove it")
        if self.stop_after_seconds is not None and (self.long or self.snapshots):
            raise ValueError("stop_after_seconds leaves open whether the steps of long and snapshots are reached; remove these")
        self._check_objective()
        self._check_zero()
        if self.packing != "none" and self.compile == "graphs":
            raise ValueError(
                "compile = 'graphs' needs batches of one shape, which packing = 'best_fit' has not; take 'kernels'"
            )
        ends = [phase.until_step for phase in self.batch_warmup]
        if ends != sorted(set(ends)) or (ends and ends[-1] >= self.steps):
            raise ValueError(f"batch_warmup ends at steps {ends}: they must grow, and end before steps = {self.steps}")
        warmup = self.schedule.warmup(self.steps)
        if warmup >= self.steps:
            raise ValueError(f"warmup_steps = {warmup} leaves no step of steps = {self.steps}; shorten the warm-up")
        if self.sop_weight and isinstance(self.model, ModelSpec) and not self.model.pooler:
            raise ValueError(
                f"sop_weight = {self.sop_weight} needs a pooler, but model.pooler = false; set sop_weight = 0 or pooler = true"
            )
        if self.order_from_step >= self.steps and (self.sop_weight or self.wop_weight):
            raise ValueError(
                f"order_from_step = {self.order_from_step} is not below steps = {self.steps}; lower it, or set sop_weight and "
                "wop_weight to 0"
            )
        return self

    def _check_long(self) -> None:
        if self.long is None:
            return
        if self.long.from_step >= self.steps:
            raise ValueError(f"long.from_step = {self.long.from_step} is not below steps = {self.steps}; lower it")
        if self.batch_warmup and self.batch_warmup[-1].until_step > self.long.from_step:
            raise ValueError(
                f"batch_warmup ends at step {self.batch_warmup[-1].until_step}, after long.from_step = {self.long.from_step}; "
                "end it before"
            )

    def _check_objective(self) -> None:
        if self.objective != "rtd":
            if self.rtd != ReplacedTokensSpec():
                raise ValueError(f"[rtd] belongs to objective = 'rtd', but objective = {self.objective!r}; remove it")
            return
        for name in ("sop_weight", "wop_weight"):
            if weight := getattr(self, name):
                raise ValueError(f"{name} = {weight}, but objective = 'rtd' has no order losses; remove it")
        if self.bow_weight:
            raise ValueError(f"bow_weight = {self.bow_weight} belongs to objective = 'mlm'; remove it")
        if self.wop_target != "position":
            raise ValueError("wop_target = 'offset', but objective = 'rtd' has no order losses; remove it")
        if isinstance(self.model, ModernSpec):
            raise ValueError("objective = 'rtd' has no generator of model.architecture = 'modern'; set objective = 'mlm'")
        if self.model.pooler:
            raise ValueError("model.pooler = true, but objective = 'rtd' trains none; set model.pooler = false")
        if (size := self.rtd.generator_size(self.model)) % self.model.head_width:
            raise ValueError(
                f"rtd.generator_hidden_size = {size} is not a multiple of hidden_size / num_heads = {self.model.head_width}; "
                "choose one that is"
            )

    def _check_zero(self) -> None:
        if not self.zero_stage:
            return
        if self.optimizer.name != "adamw":
            raise ValueError(
                f"zero_stage = {self.zero_stage} with optimizer.name = {self.optimizer.name!r}: ZeRO cuts all parameters into "
                "flat parts, over which trust ratios are not per tensor; set zero_stage = 0 or optimizer.name = 'adamw'"
            )
        if self.precision == "fp16":
            raise ValueError(
                f"zero_stage = {self.zero_stage} with precision = 'fp16': skipped updates are not counted there; set "
                "precision = 'bf16' or zero_stage = 0"
            )

    @property
    def tasks(self) -> tuple[_Task, ...]:
        """What the objective predicts."""
        return tasks_of(self.objective, bag_of_words=self.bow_weight > 0)

    def task_weights(self, step: int) -> tuple[float, ...]:
        """Factors of the tasks' losses at a step (from 0), in the order of ``tasks``."""
        if self.objective == "rtd":
            return 1.0, self.rtd.weight, 0.0
        order = (self.sop_weight, self.wop_weight) if step >= self.order_from_step else (0.0, 0.0)
        return (1.0, *order, self.bow_weight) if self.bow_weight else (1.0, *order)

    @property
    def batches(self) -> tuple[tuple[int, int], ...]:
        """Every pair of global batch size and micro-batch size that occurs, in order."""
        ends = [0, *(phase.until_step for phase in self.batch_warmup), *([self.long.from_step] if self.long else [])]
        return tuple((self.batch_at(step), self.micro_batch_at(step)) for step in ends)

    def is_long(self, step: int) -> bool:
        """Whether the update at a step (from 0) takes long sequences."""
        return self.long is not None and step >= self.long.from_step

    def drops_out(self, step: int) -> bool:
        """Whether the model's dropout is on at a step (from 0)."""
        return self.dropout_until_step is None or step < self.dropout_until_step

    def scheduled(self, updates: int, seconds: float) -> int:
        """The update that the schedule is at after so many updates, and seconds of a time budget."""
        return max(updates, int(self.steps * min(1.0, seconds / (self.stop_after_seconds or float("inf")))))

    def theta_at(self, step: int) -> float | None:
        """Base of the rotary frequencies in global layers at a step (from 0), where it is not the model's."""
        return self.long.global_theta if self.long is not None and self.is_long(step) else None

    def batch_at(self, step: int) -> int:
        """Sequences of the update at a step (from 0)."""
        if self.long is not None and self.is_long(step):
            return self.long.global_batch_size or self.global_batch_size
        return next((p.global_batch_size for p in self.batch_warmup if step < p.until_step), self.global_batch_size)

    def micro_batch_at(self, step: int) -> int:
        """Sequences per forward pass of one rank at a step (from 0)."""
        if self.long is not None and self.is_long(step):
            return self.long.micro_batch_size or self.micro_batch_size
        return self.micro_batch_size

    def micro_batches(self, ranks: int, batch: int, at_most: int | None = None) -> tuple[int, int]:
        """How each rank cuts its share of a global batch: sequences of a micro-batch, and number of micro-batches.

        The size is the largest that divides the share and is at most ``micro_batch_size`` (unless given), so that one recipe
        runs on 1 and on 64 ranks. Raises ValueError where ranks cannot share the batch.
        """
        share, rest = divmod(batch, ranks)
        if rest:
            raise ValueError(
                f"global_batch_size = {batch} is not divisible by the number of ranks = {ranks} (nodes × processes); "
                "change one of them"
            )
        most = min(at_most or self.micro_batch_size, share)
        size = next(size for size in range(most, 0, -1) if share % size == 0)
        return size, share // size

    def config_for(self, *, vocab_size: int, sequence_length: int, initial: AnyConfig | None = None) -> AnyConfig:
        """The complete model for this data; ``initial``: the shape of the weights that the run starts from.

        Raises ValueError where sequences are longer than the position table, or spec and weights contradict each other.
        """
        if initial is not None:
            self._check_initial(initial, vocab_size)
        model = self.model if initial is None or self._grows(initial) else initial.shape()
        if sequence_length > model.longest_sequence:
            longer = "" if initial is not None else "raise max_positions in [pretrain.model] or "
            raise ValueError(
                f"the examples are {sequence_length} tokens long, but {'the initial weights have ' if initial else ''}"
                f"max_positions = {model.max_positions}; {longer}pack shorter examples"
            )
        known = {
            **model.model_dump(),
            "vocab_size": vocab_size,
            "word_order_classes": self.word_order_classes(sequence_length),
            "bag_of_words": self.bow_weight > 0,
        }
        if isinstance(model, ModernSpec):
            rows = initial.word_rows if isinstance(initial, ModernConfig) else even_rows(vocab_size)
            return ModernConfig(**known, word_rows=rows, orders_sentences=self.sop_weight > 0)
        return ModelConfig(**known, generator_hidden_size=self.rtd.generator_size(model) if self.objective == "rtd" else 0)

    @property
    def reach(self) -> int:
        """Largest offset of a word-order target; 0 where targets are positions."""
        return self.wop_reach if self.wop_target == "offset" else 0

    def word_order_classes(self, sequence_length: int) -> int:
        """Classes of the word-order head, for sequences up to this length; 0 without one."""
        return 0 if not self.wop_weight else 2 * self.reach + 1 if self.reach else sequence_length

    @property
    def shape(self) -> AnyConfig:
        """The model that is trained from scratch, but for the sizes that the data decide."""
        return self.config_for(vocab_size=ANY_VOCABULARY, sequence_length=1)

    def _grows(self, initial: AnyConfig) -> bool:
        """Whether ``model`` is that of initial weights with another number of layers, which all have the same parameters."""
        own, other = self.model, initial.shape()
        if (
            not isinstance(own, ModelSpec)
            or not isinstance(other, ModelSpec)
            or own.share != "all"
            or own.num_groups > 1
            or own.edge_layers
        ):
            return False
        free = {name: getattr(own, name) for name in ("num_layers", "hidden_dropout", "attention_dropout")}
        return own == other.model_copy(update=free)

    def _check_initial(self, initial: AnyConfig, vocab_size: int) -> None:
        if self.model != ModelSpec() and not self._grows(initial):
            raise ValueError(
                "the initial weights bring their own architecture; remove [model], or let it differ in num_layers and dropout "
                "alone, with share = 'all'"
            )
        if initial.vocab_size != vocab_size:
            raise ValueError(
                f"the initial weights have {initial.vocab_size:,} word embeddings, but the examples were packed with "
                f"{vocab_size:,} pieces; transfer to the vocabulary of the examples"
            )
        if self.sop_weight and isinstance(initial, ModelConfig) and not initial.pooler:
            raise ValueError(
                f"sop_weight = {self.sop_weight} needs a pooler, which the initial weights do not have; set sop_weight = 0"
            )
