"""Stage `export`: a pretrained model and its vocabulary → a directory that ``transformers`` loads offline, with a model card.

Input: roles ``pretrain`` and ``vocab``. Output: ``config.json``, ``model.safetensors``, ``tokenizer.json``,
``tokenizer_config.json``, ``special_tokens_map.json``, ``spiece.model`` and ``README.md``; ``morphemes.json`` if text is cut
into morphemes first, else the files with which ``SentenceTransformer(directory)`` uses mean pooling; and with ``onnx`` the
encoder as ONNX. The heads for masked tokens and sentence order are included (``AlbertForPreTraining``), the word-order head is
not. No custom code is needed to load it.

If the model keeps the tokenizer of another checkpoint, its files are copied unchanged, and word table and decoder bias are put
into its order of ids.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, field_validator, model_validator
from safetensors.numpy import load_file, save_file

from korealbert.artifact import EACH_ONCE, Deployment, Inputs, Progress, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import atomic_write, write_json
from korealbert.huggingface import checkpoint
from korealbert.huggingface.card import ModelFacts, model_card
from korealbert.huggingface.directory import TOKENIZER_FILES, copy_files, write_mean_pooling
from korealbert.huggingface.families import SpecialIds
from korealbert.huggingface.modern import CLASSIFIER
from korealbert.huggingface.onnx import Form, check_onnx, write_encoder
from korealbert.model.config import ModernConfig, read_config, weights_file
from korealbert.vocab.morphemes import MORPHEMES_FILE
from korealbert.vocab.tokenizer import KEPT_FOLDER, SPECIAL, SPECIAL_PIECES, KeptVocabulary, Vocabulary

SPECIAL_IDS = SpecialIds(SPECIAL.pad, SPECIAL.cls, SPECIAL.sep)

ANSWERS = 5
"""Number of pieces recorded for each mask."""


class ExportSpec(Spec):
    """Files and description of the exported model."""

    later: ClassVar[frozenset[str]] = frozenset({"prompts", "snapshot", "card", "onnx", *CLASSIFIER})

    title: str = Field(default="KoreALBERT", min_length=1)
    """Heading of the model card."""
    license: str = Field(default="other", pattern=r"^[a-z0-9.-]+$")
    """License of the weights, in the Hugging Face hub's spelling. ``other`` refers readers to the licenses of the corpora."""
    prompts: tuple[str, ...] = ()
    """Texts with one ``[MASK]`` each, which the model fills in; the report shows its answers."""

    snapshot: int | None = Field(default=None, ge=1)
    """Training step whose weights are exported, one of the training's ``snapshots``. None: the end of training."""
    card: Literal["end", "snapshot"] = "end"
    """Step whose tokens and scores are on the model card; set to ``snapshot`` if one is exported. Earlier versions always
    wrote those of the end. This field, which nobody has to set, gives exports of snapshots another identity."""

    onnx: Annotated[tuple[Form, ...], EACH_ONCE] = ()
    """ONNX files of the encoder to write: ``fp32`` is ``onnx/model.onnx``, ``int8`` is ``onnx/model_int8.onnx``, dynamically
    quantised. Both need the extra ``onnx``."""
    classifier_pooling: Literal["cls", "mean"] = "cls"
    """For modern encoders: vector that transformers' own classifiers read, of the first piece or the mean. Fine-tuning here
    ignores it. A post-training takes it and ``classifier_dropout`` from its source unless they are given."""
    classifier_dropout: float = Field(default=0.0, ge=0, lt=1)
    """For modern encoders: dropout in transformers' own classifiers."""

    @model_validator(mode="before")
    @classmethod
    def _set_card(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        arrays = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}  # Strict mode wants tuples.
        return {**fields, **arrays} | ({"card": "snapshot"} if fields.get("snapshot") is not None else {})

    @field_validator("prompts")
    @classmethod
    def _check_masks(cls, prompts: tuple[str, ...]) -> tuple[str, ...]:
        mask = SPECIAL_PIECES[SPECIAL.mask]
        for prompt in prompts:
            if prompt.count(mask) != 1:
                raise ValueError(f"{prompt!r} has {prompt.count(mask)} {mask}; write exactly one, in place of a word")
        return prompts


class _Filled(BaseModel):
    """A prompt and the most probable pieces for its mask, with their probabilities."""

    prompt: str
    answers: list[tuple[str, float]]


class ExportStats(Statistics):
    """The exported model."""

    parameters: int
    """Trained parameters that are exported; shared ones count once."""
    model_type: str
    sequence_length: int
    filled: list[_Filled] = Field(default_factory=list)


def run(spec: ExportSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> ExportStats:
    """Write the directory. Raises ValueError if model and vocabulary differ in size."""
    pretrain, vocab = inputs["pretrain"], inputs["vocab"]
    facts = ModelFacts.of(pretrain, title=spec.title, license=spec.license, snapshot=spec.snapshot)
    config = read_config(pretrain.path, spec.snapshot)
    vocabulary = Vocabulary.load(vocab.path)
    if vocabulary.size != config.vocab_size:
        raise ValueError(
            f"{pretrain.name} has {config.vocab_size:,} word embeddings, but {vocab.name} has {vocabulary.size:,} pieces; "
            "export with the vocabulary that the model was trained with"
        )
    trained = load_file(weights_file(pretrain.path, spec.snapshot))
    special, renumbered, mask = SPECIAL_IDS, trained, SPECIAL_PIECES[SPECIAL.mask]
    if isinstance(vocabulary, KeptVocabulary):
        special = SpecialIds(*vocabulary.theirs[list(SPECIAL_IDS)].tolist())
        renumbered = checkpoint.renumbered(trained, vocabulary.ours)
        mask = vocabulary.processor.id_to_token(int(vocabulary.theirs[SPECIAL.mask]))
        copy_files(vocab.path / KEPT_FOLDER, out_dir, TOKENIZER_FILES)
    else:
        write_tokenizer(vocab.path, out_dir, longest=facts.sequence_length, segments=config.type_vocab_size > 1)
    weights = checkpoint.to_huggingface(config, renumbered)
    save_file(weights, out_dir / "model.safetensors", metadata={"format": "pt"})
    settings = checkpoint.settings(config, special)
    if isinstance(config, ModernConfig):
        settings |= {name: value for name, default in CLASSIFIER.items() if (value := getattr(spec, name)) != default}
    _write_settings(out_dir / "config.json", settings)
    write_mean_pooling(out_dir, hidden_size=config.hidden_size, longest=facts.sequence_length)
    atomic_write(out_dir / "README.md", model_card(facts, pretrain).encode())
    if spec.onnx:
        write_encoder(out_dir, spec.onnx)
    runtime.report(Progress(1, 1, "models"))
    stats: dict[str, Any] = {
        "parameters": sum(trained[name].size for name in checkpoint.exported(config)),
        "model_type": checkpoint.family_of(config).model_type,
        "sequence_length": facts.sequence_length,
    }
    if spec.prompts:
        stats["filled"] = _filled(out_dir, [prompt.replace(SPECIAL_PIECES[SPECIAL.mask], mask) for prompt in spec.prompts])
    return ExportStats.of(stats)


def _filled(model: Path, prompts: Sequence[str]) -> list[_Filled]:
    from korealbert.huggingface.fill import fill  # noqa: PLC0415 (loads torch)

    filled = fill(model, prompts, ANSWERS)
    return [_Filled(prompt=prompt, answers=answers) for prompt, [answers] in zip(prompts, filled, strict=True)]


def write_tokenizer(vocab: Path, out_dir: Path, *, longest: int, segments: bool) -> None:
    """Copy the vocabulary and write its settings as a plain fast tokenizer for inputs of at most ``longest`` pieces.

    ``AlbertTokenizer`` would lower-case, decompose and strip accents, which makes most Korean words unknown. ``segments``:
    whether the model has several segment types.
    """
    for name in ("spiece.model", "tokenizer.json", MORPHEMES_FILE):
        if (vocab / name).is_file():
            shutil.copyfile(vocab / name, out_dir / name)
    special = {f"{role}_token": SPECIAL_PIECES[index] for role, index in SPECIAL._asdict().items()}
    _write_settings(out_dir / "special_tokens_map.json", special)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    if not segments:  # The type of the second text would be outside of the model's table.
        inputs.remove("token_type_ids")
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": inputs,
        "padding_side": "right",
        "truncation_side": "right",
        "clean_up_tokenization_spaces": False,
        **special,
    }
    _write_settings(out_dir / "tokenizer_config.json", settings)


def _write_settings(path: Path, content: Mapping[str, Any]) -> None:
    """Write settings in the format of ``transformers``."""
    write_json(path, content, indent=2, sort_keys=True)


def _check(spec: ExportSpec, _: Runtime) -> None:
    check_onnx(bool(spec.onnx), "[export] onnx")


STAGE = Stage(
    "export",
    version=6,
    spec=ExportSpec,
    run=run,
    check=_check,
    needs=("torch", "transformers"),
    table="export",
    inputs={"pretrain": "pretrain", "vocab": "vocab"},
    required=True,
    deployment=Deployment("Write the Hugging Face directory"),
)
