"""Stage ``intrinsic``: a pretrained model → its held-out scores under other noise than that of its own views.

This scores models that were trained on different noise or tasks on the same targets (ALBERT, table 5); an untrained head scores
like guessing. Input: roles ``pretrain``, ``examples`` and ``views``. Output: ``metrics.json`` and, with ``layers``,
``layers.json``: for each layer the mean distance ``l2`` between a token's vectors before and after it, and the mean angle
between them in ``degrees`` (ALBERT, figure 1).

Shapes: B rows, L pieces, H hidden size.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import Field

from korealbert.artifact import Inputs, Real, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.examples.batches import ExampleBatches
from korealbert.model.config import read_config, weights_file
from korealbert.pretrain.runtime import TrainingRuntime, check_device, pick_device
from korealbert.pretrain.spec import tasks_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from korealbert.model.encoder import TransformerEncoder
    from korealbert.model.modern import ModernEncoder


class IntrinsicSpec(Spec):
    """How held-out rows are scored."""

    later: ClassVar[frozenset[str]] = frozenset({"snapshot", "layers"})

    batch_size: int = Field(default=32, ge=1)
    """Rows of one forward pass."""
    snapshot: int | None = Field(default=None, ge=1)
    """Step of the snapshot that is scored. None: the final weights."""
    layers: bool = False
    """Also measure how far each layer moves the vectors of its tokens."""


class IntrinsicStats(Statistics):
    """Scores of a model on held-out rows."""

    rows: int
    heldout: dict[str, Real | None]
    """Scores by name (``mlm_accuracy``, ``sop_loss``)."""


def run(spec: IntrinsicSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> IntrinsicStats:
    """Score the held-out rows. Raises ValueError if there are none, or their vocabulary is not that of the model."""
    import torch  # noqa: PLC0415 (the graph of a recipe is made without it)
    from safetensors.torch import load_file  # noqa: PLC0415

    from korealbert.pretrain.engine import Ranks  # noqa: PLC0415
    from korealbert.pretrain.objective import evaluate, make_objective  # noqa: PLC0415

    weights = inputs["pretrain"].path
    config = read_config(weights, spec.snapshot)
    offsets = inputs["pretrain"].manifest["recipe"]["spec"].get("wop_target") == "offset"
    reach = config.word_order_classes // 2 if offsets else 0
    heldout = ExampleBatches(inputs["examples"].path, inputs["views"].path, "heldout", wop_reach=reach)
    if not heldout.num_rows:
        raise ValueError(f"{inputs['examples'].name} has no held-out rows to score; raise heldout_share in [examples]")
    if heldout.vocab_size != config.vocab_size:
        raise ValueError(
            f"{inputs['examples'].name} has {heldout.vocab_size:,} pieces, but {weights.name} was trained with "
            f'{config.vocab_size:,}; let all share one vocabulary (shared = ["vocab"])'
        )
    training = TrainingRuntime.of(runtime)
    device = pick_device(training.device)
    objective = make_objective(config, seed=0)
    objective.model.load_state_dict(load_file(weights_file(weights, spec.snapshot)))
    tasks = tasks_of("rtd" if config.generator_hidden_size else "mlm", bag_of_words=config.bag_of_words)
    ranks = Ranks(0, 1, device)
    threads = torch.get_num_threads()
    torch.set_num_threads(training.threads)
    moved = LayerMoves(objective.model.encoder) if spec.layers else None
    try:
        scores = evaluate(objective.to(device), heldout, ranks, tasks=tasks, batch_size=spec.batch_size, autocast=None)
    finally:
        torch.set_num_threads(threads)
    if moved is not None:
        write_json(out_dir / "layers.json", moved.means())
    write_json(out_dir / "metrics.json", scores, sort_keys=True)
    return IntrinsicStats.of({"rows": heldout.num_rows, "heldout": scores})


class LayerMoves:
    """Sums how far each layer of an encoder moves the vectors of real tokens, over all inputs from now on.

    A layer begins with the input of its first block and ends with the output of its last. Layers that share a block each call
    it once, so the number of calls tells the layers apart.
    """

    def __init__(self, encoder: TransformerEncoder | ModernEncoder) -> None:
        layers = encoder.config.num_layers
        self.l2, self.degrees, self.tokens = [0.0] * layers, [0.0] * layers, 0
        self._layer = 0
        self._real_BL: Tensor | None = None
        self._before_BLH: Tensor | None = None
        encoder.register_forward_pre_hook(self._begin)
        whole = hasattr(encoder, "layers")
        first, last = (cast("nn.ModuleList", getattr(encoder, "layers" if whole else name)) for name in ("attention", "ffn"))
        for block in first:
            block.register_forward_pre_hook(self._enter)
        for block in last:
            block.register_forward_hook(self._leave)

    def means(self) -> dict[str, list[float]]:
        """Return the means ``l2`` and ``degrees`` of each layer."""
        tokens = max(1, self.tokens)
        return {"l2": [total / tokens for total in self.l2], "degrees": [total / tokens for total in self.degrees]}

    def _begin(self, _: nn.Module, given: tuple[Any, ...]) -> None:
        ids_BL, _types, lengths_B = given
        self._layer = 0
        self._real_BL = None if lengths_B is None else (lengths_B.new_ones(ids_BL.shape).cumsum(1) <= lengths_B[:, None])
        self.tokens += ids_BL.numel() if self._real_BL is None else int(self._real_BL.sum())

    def _enter(self, _: nn.Module, given: tuple[Any, ...]) -> None:
        self._before_BLH = given[0]

    def _leave(self, _: nn.Module, given: tuple[Any, ...], after_BLH: Tensor) -> None:
        assert self._before_BLH is not None
        before_BLH, after_BLH = self._before_BLH.double(), after_BLH.double()
        dot_BL = (before_BLH * after_BLH).sum(-1)
        cosine_BL = dot_BL / (before_BLH.norm(dim=-1) * after_BLH.norm(dim=-1)).clamp_min(1e-12)
        angle_BL = cosine_BL.clamp(-1, 1).arccos().rad2deg()
        for sums, values_BL in ((self.l2, (after_BLH - before_BLH).norm(dim=-1)), (self.degrees, angle_BL)):
            sums[self._layer] += float((values_BL if self._real_BL is None else values_BL[self._real_BL]).sum())
        self._layer += 1


STAGE = Stage("intrinsic", version=1, spec=IntrinsicSpec, run=run, check=check_device, needs=("torch",))
