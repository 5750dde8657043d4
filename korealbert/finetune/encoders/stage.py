"""Stage `encoder` (labels ``encoder/NAME``): import any encoder as a baseline for every benchmark.

The spec names a directory in Hugging Face format or an installed package that contains one, or the input role ``model`` is an
export artifact (and ``pretrain`` its training, if the export cannot express how layers share parameters). Encoder and tokenizer
are loaded once, so that mistakes show before anything is trained. Output: ``config.json``, safetensors and tokenizer files;
nothing else is copied, and no code is executed.
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


class EncoderStats(Statistics):
    """Family and sizes of an encoder."""

    model_type: str
    """The family, as in ``config.json``."""
    parameters: int
    """Number of parameters; shared ones count once."""
    pieces: int
    """Size of the vocabulary with added pieces."""
    longest_input: int
    """Longest input in pieces."""


def run(spec: ModelPlace, inputs: Inputs, out_dir: Path, runtime: Runtime) -> EncoderStats:
    """Check and copy an encoder. Raises ValueError naming the directory if encoder or tokenizer cannot be used."""
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
