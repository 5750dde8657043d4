"""Stage `bi_encoder` (labels ``bi_encoder/NAME/INIT/SEED``): train an encoder on entailment triples for comparing sentences.

Training is described in ``ContrastSpec``. Input role ``model``: a directory in Hugging Face format; ``pretrain``: its training,
if that format cannot express how layers share parameters; ``apart/NUMBER``: downloaded collections, for those of
``apart_from`` that are named by URL. Output: ``metrics.json``, and a directory that ``transformers`` and, with its pooling,
``SentenceTransformer(directory)`` can load. Shared parameters are trained as one and written as equal copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from korealbert.artifact import Deployment, Inputs, Progress, Runtime, Stage, Statistics
from korealbert.artifact.files import atomic_write, write_json
from korealbert.finetune.features import encode_triples
from korealbert.finetune.retrieval.stage import CollectionSpec
from korealbert.finetune.spec import ContrastSpec, Init
from korealbert.huggingface.checkpoint import repeats_blocks
from korealbert.huggingface.directory import write_mean_pooling
from korealbert.model.config import ModelConfig, read_config
from korealbert.pretrain.runtime import TrainingRuntime, check_device, pick_device
from korealbert.vocab.morphemes import MORPHEMES_FILE, needs_morphemes

if TYPE_CHECKING:
    from korealbert.finetune.encoders.encoder import Encoder


class BiEncoderSpec(ContrastSpec):
    """A bi-encoder trained on entailment triples, with mean pooling and cosine."""

    init: Init = "pretrained"
    """``pretrained``: the model's weights. ``random``: fresh weights."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of fresh weights, dropout and the order of the triples."""
    max_length: int = Field(default=64, ge=8)
    """Longest sentence of a triple in pieces, with special pieces; later inputs may be longer."""
    apart_from: tuple[CollectionSpec, ...] = ()
    """Triples that contain a query or document of these collections, with or without its title, are left out. Blanks at the
    ends are ignored."""


class BiEncoderStats(Statistics):
    """Numbers of triples, and the best epoch's accuracy on held-out triples."""

    title: str
    """The benchmark of the triples."""
    triples: int
    held_out: int
    left_out: int
    """Triples with a text of a collection in ``apart_from``."""
    accuracy: float
    """How often the right hypothesis was found among those of its batch (256, fewer in the last), times 100. Batches are by
    length in pieces, so encoders of other tokenizers do not compare."""
    best_epoch: int


def run(spec: BiEncoderSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> BiEncoderStats:
    """Train and write the directory. Raises ``Diverged`` if the loss becomes infinite or nan."""
    from korealbert.finetune.encoders.encoder import as_exported, load_input  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.encoders.tokenizer import copy_tokenizer, load_tokenizer  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.loop import contrast, repeatable  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.model import FinetunedModel  # noqa: PLC0415 (planning does without)

    training, directory = TrainingRuntime.of(runtime), inputs["model"].path
    device = pick_device(training.device)
    settings = spec.before(init=spec.init, seed=spec.seed, max_length=spec.max_length)
    collections = [each.read(inputs, f"apart/{number}") for number, each in enumerate(spec.apart_from)]
    excluded = {text for each in collections for text in each.texts() if text}
    tokenizer = load_tokenizer(directory)
    triples = encode_triples(settings, lambda sentence: sentence.strip() in excluded, tokenizer, out_dir)

    def report(step: int, total: int, metrics: Mapping[str, float]) -> None:
        training.report(Progress(step, total, "steps", metrics))

    with repeatable(seed=spec.seed, threads=training.threads, device=device):
        encoder = load_input(inputs, init=spec.init)
        encoder.check_length(spec.max_length, directory)
        model = FinetunedModel.of(settings, encoder, triples.train, pad_id=tokenizer.pad_token_id, device=device)
        history = contrast(model, triples, settings, report)
    _write_weights(as_exported(encoder, inputs), out_dir)
    copy_tokenizer(directory, out_dir)
    longest = min(tokenizer.model_max_length, encoder.max_length)
    write_mean_pooling(out_dir, hidden_size=encoder.hidden_size, longest=longest)
    card = _card(spec, triples.described["title"], inputs, morphemes=needs_morphemes(out_dir))
    atomic_write(out_dir / "README.md", card.encode())
    described = {**triples.described, "best_epoch": history.best_epoch}
    write_json(out_dir / "metrics.json", {**described, "init": spec.init, "seed": spec.seed, "epochs": history.epochs})
    return BiEncoderStats.of({**described, "accuracy": history.dev.values["accuracy"]})


def _write_weights(encoder: Encoder, out_dir: Path) -> None:
    """Write what ``save_pretrained`` writes, without its progress bar."""
    from safetensors.torch import save_file  # noqa: PLC0415 (planning does without)

    transformer = encoder.transformer
    weights = {name: tensor.cpu().contiguous() for name, tensor in transformer.state_dict().items()}
    save_file(weights, out_dir / "model.safetensors", metadata={"format": "pt"})
    transformer.config.architectures = [type(transformer).__name__]
    transformer.config.save_pretrained(out_dir)


def _card(spec: BiEncoderSpec, title: str, inputs: Inputs, *, morphemes: bool) -> str:
    """Return the model card, with front matter that names the library for the hub."""
    library = "transformers" if morphemes else "sentence-transformers"
    cut = (
        f"\nText is cut into morphemes first ({MORPHEMES_FILE}), which sentence-transformers does not do.\n"
        if morphemes
        else ""
    )
    config = read_config(inputs["pretrain"].path) if "pretrain" in inputs else None
    untied = (
        f"\nThis directory is untied. {config.sharing}, as in training, cannot be "
        "said in this format: the layers are written out as equal copies. Vectors are the same, but the file holds more "
        "parameters than were trained, and further training changes each copy on its own.\n"
        if isinstance(config, ModelConfig) and repeats_blocks(config)
        else ""
    )
    return (
        f"---\nlibrary_name: {library}\npipeline_tag: sentence-similarity\nlanguage: ko\nlicense: other\n---\n\n"
        "# Bi-encoder\n\n"
        f"Mean vectors of all pieces, compared by cosine; trained on triples of {title}, {spec.epochs} epochs in batches of "
        f"{spec.batch_size}, with the hypotheses of the batch as negatives (MultipleNegativesRanking).\n{cut}{untied}"
    )


def _memory_class(spec: BiEncoderSpec, inputs: Inputs) -> str:
    return f"{inputs['model'].name} {spec.task} {spec.max_triples} {spec.max_length} {spec.batch_size}"


STAGE = Stage(
    "bi_encoder",
    version=7,
    spec=BiEncoderSpec,
    run=run,
    memory_class=_memory_class,
    check=check_device,
    needs=("torch", "transformers"),
    table="bi_encoder.NAME",
    inputs={"model": "export"},
    deployment=Deployment("Bi-encoders trained on triples of entailment", gpu=True),
)
