"""Stage `encoder` (labels ``encoder/NAME``): any encoder → a baseline for every benchmark, next to the run's own model.

The spec names a directory in Hugging Face format or an installed package that has one, or the input role ``model`` is an export
artifact (and ``pretrain`` its training, where the export says less). It is loaded once with its tokenizer, so that what is
wrong with it shows before anything is trained. Output: its ``config.json``, safetensors and tokenizer files; nothing else of it
is copied, and nothing in it is executed.
"""

from __future__ import annotations

from pathlib import Path

from korealbert.artifact import Deployment, Inputs, Runtime, Stage, Statistics
from korealbert.huggingface.directory import (
    SENTENCEPIECE_FILES,
    TOKENIZER_FILES,
    WEIGHT_FILES,
    ModelPlace,
    copy_files,
    read_settings,
)

_FILES = (*WEIGHT_FILES, *TOKENIZER_FILES, SENTENCEPIECE_FILES)
"""Files that are copied."""


class EncoderStats(Statistics):
    """An encoder as it was loaded."""

    model_type: str
    """The family, as ``config.json`` names it."""
    parameters: int
    """Number in the trained model: shared layers count once."""
    pieces: int
    """Size of its vocabulary, with added pieces."""
    longest_input: int
    """In pieces."""


def run(spec: ModelPlace, inputs: Inputs, out_dir: Path, runtime: Runtime) -> EncoderStats:
    """Check and copy. Raises ValueError naming the directory where encoder or tokenizer cannot be used."""
    from korealbert.finetune.encoders.encoder import load_encoder, load_input  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.encoders.tokenizer import load_tokenizer  # noqa: PLC0415 (planning does without)
    from korealbert.model.parameters import count_parameters  # noqa: PLC0415 (planning does without)

    place = spec.directory()
    directory = place or inputs["model"].path
    tokenizer = load_tokenizer(directory)
    encoder = load_input(inputs, init="pretrained") if place is None else load_encoder(place, init="pretrained")
    copy_files(directory, out_dir, _FILES)
    return EncoderStats(
        model_type=read_settings(directory)["model_type"],
        parameters=count_parameters(encoder),
        pieces=len(tokenizer),
        longest_input=encoder.max_length,
    )


STAGE = Stage(
    "encoder",
    version=1,
    spec=ModelPlace,
    run=run,
    needs=("torch", "transformers"),
    table="encoder.NAME",
    deployment=Deployment("Others' encoders to measure too", recipe="encoders"),
)
