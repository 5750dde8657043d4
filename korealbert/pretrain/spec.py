"""The table `[pretrain]` of a recipe, with the checks that need neither data nor processes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import Spec
from korealbert.model.config import AnyConfig, AnySpec, ModelConfig, ModelSpec, ModernConfig, ModernSpec, even_rows
from korealbert.pretrain.guard import GuardSpec
from korealbert.pretrain.optimizer_spec import AnyOptimizer, AnySchedule, OptimizerSpec, ScheduleSpec

ANY_VOCABULARY = 32
"""Vocabulary size of a model of which only the architecture matters."""


class BatchPhase(Spec):
    """A smaller global batch at the beginning of a run."""

    until_step: int = Field(ge=1)
    """Step, counted from the start of the run, after which this phase ends."""
    global_batch_size: int = Field(ge=1)
    """Sequences per update until then."""


class LongPhase(Spec):
    """The last steps of a run on longer sequences, which train the positions that short ones do not reach."""

    later: ClassVar[frozenset[str]] = frozenset({"global_theta"})

    from_step: int = Field(ge=1)
    """Steps on short sequences; the steps after them use long ones (BERT: the last 10 %)."""
    global_batch_size: int | None = Field(default=None, ge=1)
    """Sequences per update; by default as for short sequences."""
    micro_batch_size: int | None = Field(default=None, ge=1)
    """Sequences per forward pass of one rank, which memory may limit; by default as for short sequences."""
    global_theta: float | None = Field(default=None, ge=1)
    """Base of the rotary frequencies in global layers from then on and in the trained model; by default that of the model
    (ModernBERT: 10,000, then 160,000)."""


class ReplacedTokensSpec(Spec):
    """Replaced-token detection (ELECTRA)."""

    generator_hidden_size: int = Field(default=0, ge=0)
    """Width of the generator, a multiple of the width of the model's attention heads; 0 means the largest one up to a third of
    hidden_size (ELECTRA-base: 256 of 768)."""
    weight: float = Field(default=50.0, gt=0)
    """Weight of the detection loss; that of the generator's loss is 1."""

    def generator_size(self, model: ModelSpec) -> int:
        """Return the width of the generator for this discriminator."""
        return self.generator_hidden_size or max(1, model.hidden_size // 3 // model.head_width) * model.head_width


_Task = Literal["mlm", "sop", "wop", "rtd", "replaced", "bow"]
"""Tasks: masked pieces, sentence order, word order; which tokens are replaced, and those of them that are; and masked pieces
from the mean of the other pieces' vectors."""


def tasks_of(objective: str, *, bag_of_words: bool) -> tuple[_Task, ...]:
    """Return the tasks of an objective, in the order of all vectors of counts, losses and weights."""
    if objective == "rtd":
        return "mlm", "rtd", "replaced"
    return ("mlm", "sop", "wop", "bow") if bag_of_words else ("mlm", "sop", "wop")


def _order_weight(given: dict[str, Any]) -> float:
    return 0.0 if given.get("objective") == "rtd" else 1.0


class PretrainSpec(Spec):
    """One pretraining run. Vocabulary size and sequence length are those of the examples."""

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
    """``mlm``: masked pieces, with sentence order and word order (ALBERT, KoreALBERT). ``rtd``: a generator fills in the masked
    pieces, and the model predicts which tokens are not the original (ELECTRA)."""
    rtd: ReplacedTokensSpec = ReplacedTokensSpec()
    """The generator and the weight of detection, for ``objective = "rtd"``."""
    model: AnySpec = ModelSpec()
    """The architecture; ``architecture = "modern"`` has the second set of fields below. Omit it if the run starts from weights
    of another stage, which have their own; only if their layers share all parameters may it be given, with another number of
    layers."""
    embeddings: Literal["random", "cooccurrence"] = "random"
    """Initial word embeddings: random numbers, or vectors of the co-occurrences of pieces (table `[cooccurrence]`), scaled to
    the standard deviation of the random ones."""
    frozen: tuple[str, ...] = ()
    """Tensors that are not trained: patterns (``encoder.ffn.0.*``) of their names in ``model.safetensors``. They get no
    gradient, no weight decay and no moments."""
    steps: int = Field(ge=1)
    """Parameter updates (KoreALBERT: presumably 250,000, its ablations 125,000)."""
    stop_after_seconds: float | None = Field(default=None, gt=0)
    """Time budget in seconds, which the schedule follows too; ``steps`` still end the run. Its results are not reproducible."""
    dropout_until_step: int | None = Field(default=None, ge=0)
    """Steps with dropout; later steps and the trained model have none (ALBERT-xxlarge). None: dropout in all steps."""
    global_batch_size: int = Field(default=2048, ge=1)
    """Sequences per update, over all ranks and accumulation steps."""
    micro_batch_size: int = Field(default=32, ge=1)
    """Most sequences per forward pass of one rank; gradients are accumulated over the global batch. If a rank's share of the
    global batch is not a multiple of it, the largest divisor below it is used."""
    batch_warmup: tuple[BatchPhase, ...] = ()
    """Phases with smaller batches at the start, in order; afterwards ``global_batch_size`` applies."""
    long: LongPhase | None = None
    """Train the last steps on longer sequences, from their own examples and views. Tables ``[examples_long]`` and
    ``[views_long]`` change what they inherit: ``[examples]``, with rows of all positions of the model, and ``[views]``, whose
    ramps have ended (each long view has ``masking.rate``) and without ``masking.max_predictions``."""
    packing: Literal["none", "best_fit"] = "none"
    """``best_fit`` puts several rows of the examples into one sequence, without padding between them; batch sizes then count
    such sequences. It needs ``architecture = "modern"``, whose attention keeps the rows apart. ``none``: one row per
    sequence."""
    optimizer: AnyOptimizer = OptimizerSpec()
    """The optimiser and its settings; ``name = "muon"`` has the second set of fields below."""
    schedule: AnySchedule = ScheduleSpec()
    """The learning rate over the steps; a decay whose name begins with ``stable`` has the second set of fields below."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Type of the forward and backward pass; parameters, gradients and moments are always fp32. fp16 scales the loss. On GPUs
    fp32 products use TF32."""
    zero_stage: Literal[0, 1, 2] = 0
    """What DeepSpeed's ZeRO shards over ranks: 0 nothing, 1 the moments, 2 also the gradients. LAMB and Muon need 0."""
    compile: Literal["no", "kernels", "graphs"] = "no"
    """torch.compile: fused ``kernels``, or kernels captured in CUDA ``graphs``. With ``no``, GPUs still use fused kernels
    unless TORCH_COMPILE_DISABLE=1 is set. On CPUs they need a C++ compiler, and a killed run on packed rows goes on with other
    last bits, because kernels depend on the shapes of the batches that a process has seen."""
    sop_weight: float = Field(default_factory=_order_weight, ge=0)
    """Weight of the sentence-order loss; 0 under ``objective = "rtd"``."""
    wop_weight: float = Field(default_factory=_order_weight, ge=0)
    """Weight of the word-order loss; 0 removes its head from the model, and is required under ``objective = "rtd"``."""
    wop_target: Literal["position", "offset"] = "position"
    """What the word-order head predicts for a moved token: its original position (KoreALBERT), or the offset to it, which needs
    no absolute positions."""
    wop_reach: int = Field(default=32, ge=1)
    """Largest offset: the head has a class for each from −wop_reach to wop_reach. Tokens from farther away are not
    predicted."""
    order_from_step: int = Field(default=0, ge=0)
    """First step with sentence-order and word-order losses. KoreALBERT has them from the start; in a narrow model their
    gradients then dominate those of masked words before these are learnt (docs/results.md)."""
    bow_weight: float = Field(default=0.0, ge=0)
    """Weight of the bag-of-words loss: a head of its own predicts the masked pieces of a sequence from the mean of its other
    pieces' vectors (after Ma et al. 2024, "Drop your Decoder"). This trains mean vectors, which fine-tuning with ``head =
    "mean"`` and bi-encoders use; with masked-token prediction alone they represent whole sentences poorly."""
    guard: GuardSpec = GuardSpec()
    """Detection of a collapse, and what follows it."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of initial weights, order of rows and dropout."""
    log_every: int = Field(default=50, ge=1)
    """Steps between two training lines of metrics.jsonl."""
    heldout_every: int = Field(default=1000, ge=1)
    """Steps between two scorings of held-out rows, which are also scored before the first and after the last step."""
    checkpoint_every: int = Field(default=1000, ge=1)
    """Steps between two checkpoints, at most as many as a killed run loses."""
    snapshots: tuple[int, ...] = ()
    """Steps whose weights are kept as ``snapshots/step-….safetensors``, for analysis."""
    tensorboard: bool = False
    """Also write a TensorBoard event file; needs the extra ``tensorboard``."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if list(self.snapshots) != sorted({step for step in self.snapshots if 0 < step <= self.steps}):
            raise ValueError(
                f"snapshots = {list(self.snapshots)}: they must grow, and lie in 1 to steps = {self.steps}; sort or change them"
            )
        for step in self._begins:
            batch, micro_batch = self.batch_at(step), self.micro_batch_at(step)
            if batch % micro_batch:
                of_long = self.long is not None and self.is_long(step) and self.long.micro_batch_size is not None
                raise ValueError(
                    f"{'long.' if of_long else ''}micro_batch_size = {micro_batch} does not divide {self._field_at(step)} = "
                    f"{batch}; change one of them"
                )
        self._check_long()
        if self.dropout_until_step is not None and self.dropout_until_step >= self.steps:
            raise ValueError(f"dropout_until_step = {self.dropout_until_step} is not below steps = {self.steps}; remove it")
        if self.stop_after_seconds is not None and (self.long or self.snapshots or self.order_from_step):
            raise ValueError(
                "stop_after_seconds may end training before the steps of long, snapshots and order_from_step; remove these"
            )
        self._check_objective()
        self._check_zero()
        if self.packing != "none" and self.compile == "graphs":
            raise ValueError(
                "compile = 'graphs' needs batches of one shape, which packing = 'best_fit' does not give; use 'kernels'"
            )
        ends = [phase.until_step for phase in self.batch_warmup]
        if ends != sorted(set(ends)) or (ends and ends[-1] >= self.steps):
            raise ValueError(
                f"batch_warmup ends at steps {ends}: they must grow, and end before steps = {self.steps}; lower them"
            )
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
        """The tasks of the objective."""
        return tasks_of(self.objective, bag_of_words=self.bow_weight > 0)

    def task_weights(self, step: int) -> tuple[float, ...]:
        """Return the weights of the tasks' losses at a step (from 0), in the order of ``tasks``."""
        if self.objective == "rtd":
            return 1.0, self.rtd.weight, 0.0
        order = (self.sop_weight, self.wop_weight) if step >= self.order_from_step else (0.0, 0.0)
        return (1.0, *order, self.bow_weight) if self.bow_weight else (1.0, *order)

    @property
    def batches(self) -> tuple[tuple[int, int], ...]:
        """All pairs of global batch size and micro-batch size, in the order of the steps."""
        return tuple((self.batch_at(step), self.micro_batch_at(step)) for step in self._begins)

    @property
    def _begins(self) -> list[int]:
        """The steps (from 0) at which the batches may change."""
        return [0, *(phase.until_step for phase in self.batch_warmup), *([self.long.from_step] if self.long else [])]

    def is_long(self, step: int) -> bool:
        """Return whether a step (from 0) uses long sequences."""
        return self.long is not None and step >= self.long.from_step

    def drops_out(self, step: int) -> bool:
        """Return whether a step (from 0) uses dropout."""
        return self.dropout_until_step is None or step < self.dropout_until_step

    def scheduled(self, updates: int, seconds: float) -> int:
        """Return the update number for the schedule, which a time budget may advance."""
        return max(updates, int(self.steps * min(1.0, seconds / (self.stop_after_seconds or float("inf")))))

    def theta_at(self, step: int) -> float | None:
        """Return the rotary base of global layers at a step (from 0), or None for that of the model."""
        return self.long.global_theta if self.long is not None and self.is_long(step) else None

    def batch_at(self, step: int) -> int:
        """Return the global batch size of a step (from 0)."""
        if self.long is not None and self.is_long(step):
            return self.long.global_batch_size or self.global_batch_size
        return next((p.global_batch_size for p in self.batch_warmup if step < p.until_step), self.global_batch_size)

    def micro_batch_at(self, step: int) -> int:
        """Return the largest micro-batch size of a step (from 0)."""
        if self.long is not None and self.is_long(step):
            return self.long.micro_batch_size or self.micro_batch_size
        return self.micro_batch_size

    def micro_batches(self, ranks: int, batch: int, at_most: int | None = None) -> tuple[int, int]:
        """Return the size and the number of a rank's micro-batches of a global batch.

        The size is the largest divisor of the rank's share that is at most ``at_most`` (default: ``micro_batch_size``), so that
        one recipe runs on 1 and on 64 ranks. Raises ValueError if the ranks cannot share the batch equally.
        """
        share, rest = divmod(batch, ranks)
        if rest:
            fewer = next(number for number in range(ranks, 0, -1) if all(size % number == 0 for size, _ in self.batches))
            raise ValueError(
                f"{self._field_of(batch)} = {batch} is not divisible by the number of ranks = {ranks} (nodes × processes); "
                f"use {fewer} of them, or make it a multiple of {ranks}"
            )
        most = min(at_most or self.micro_batch_size, share)
        size = next(size for size in range(most, 0, -1) if share % size == 0)
        return size, share // size

    def _field_of(self, batch: int) -> str:
        """Return the name of a field that sets this global batch size."""
        return next((self._field_at(step) for step in self._begins if self.batch_at(step) == batch), "the batch")

    def _field_at(self, step: int) -> str:
        """Return the name of the field that sets the global batch size of a step (from 0)."""
        if self.long is not None and self.is_long(step):
            return "long.global_batch_size" if self.long.global_batch_size is not None else "global_batch_size"
        number = next((n for n, phase in enumerate(self.batch_warmup) if step < phase.until_step), None)
        return "global_batch_size" if number is None else f"batch_warmup.{number}.global_batch_size"

    def config_for(self, *, vocab_size: int, sequence_length: int, initial: AnyConfig | None = None) -> AnyConfig:
        """Return the complete model for this data; ``initial`` is the shape of the weights that the run starts from.

        Raises ValueError if sequences are longer than the position table, or spec and weights contradict each other.
        """
        if initial is not None:
            self._check_initial(initial, vocab_size)
        model = self.model if initial is None or self.fits(initial) else initial.shape()
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
        """Largest offset of a word-order target; 0 if targets are positions."""
        return self.wop_reach if self.wop_target == "offset" else 0

    def word_order_classes(self, sequence_length: int) -> int:
        """Return the classes of the word-order head for sequences up to this length; 0 without a head."""
        if not self.wop_weight:
            return 0
        return 2 * self.reach + 1 if self.reach else sequence_length

    @property
    def shape(self) -> AnyConfig:
        """The model that is trained from scratch, with arbitrary values for the sizes that depend on data."""
        return self.config_for(vocab_size=ANY_VOCABULARY, sequence_length=1)

    def fits(self, initial: AnyConfig) -> bool:
        """Return whether ``model`` differs from the initial one only in dropout and in the number of layers, which share all
        weights."""
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
        if self.model != ModelSpec() and not self.fits(initial):
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
