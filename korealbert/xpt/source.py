"""Stage ``xpt_source`` (label ``source``): the checked files of an English encoder, which all later stages read.

The encoder is a directory in Hugging Face format, or a package with one (named in the spec), or an export (input role
``model``). Output: its ``config.json``, safetensors and tokenizer files. Nothing else is copied, and nothing is executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from korealbert.artifact import Inputs, Runtime, Stage
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import TOKENIZER_FILES, WEIGHT_FILES, ModelPlace, copy_files
from korealbert.huggingface.families import SpecialIds

_VOCABULARIES = frozenset({"tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model"})
"""Without any of these files, transformers returns an empty tokenizer instead of an error."""


def run(spec: ModelPlace, inputs: Inputs, out_dir: Path, runtime: Runtime) -> checkpoint.SourceStats:
    """Check and copy. Raises ValueError naming the directory if its model or tokenizer cannot be used."""
    directory = spec.directory() or inputs["model"].path
    read = checkpoint.read(directory)
    try:
        checkpoint.family_of(read.config)
    except ValueError as error:
        raise ValueError(f"{directory}/config.json: it cannot be transferred: {error}") from None
    special = special_ids(directory, vocab_size=read.config.vocab_size, position_offset=read.config.position_offset)
    copy_files(directory, out_dir, (*WEIGHT_FILES, *TOKENIZER_FILES))
    return checkpoint.SourceStats(
        model_type=read.model_type,
        layers=read.config.num_layers,
        hidden_size=read.config.hidden_size,
        vocab_size=read.config.vocab_size,
        parameters=sum(int(np.prod(array.shape)) for array in read.weights.values()),
        fresh_heads=list(read.missing),
        special_ids=special._asdict(),
    )


def special_ids(directory: Path, *, vocab_size: int, position_offset: int) -> SpecialIds:
    """Return the special ids of a directory's tokenizer.

    Raises ValueError if there is no tokenizer, it has no mask or padding, or it does not belong to the model.
    """
    tokenizer = load_tokenizer(directory)
    where = f"{directory}/tokenizer_config.json"
    for role, what in (("mask", "masked-language training"), ("pad", "batches of several texts"), ("cls", "an encoder")):
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise ValueError(f"{where}: the tokenizer has no {role}_token, without which there is no {what}; name one")
    ids = {role: getattr(tokenizer, f"{role}_token_id") for role in ("mask", "pad", "unk", "cls", "sep")}
    for role in ("pad", "unk", "cls", "sep"):
        if ids[role] == ids["mask"]:
            raise ValueError(f"{where}: mask_token and {role}_token are one piece, id {ids['mask']}; name another mask_token")
    mismatch = "the two files do not belong together; copy both again"
    highest = max(tokenizer.get_vocab().values())
    if vocab_size < len(tokenizer) or vocab_size <= highest:
        found = f"has {len(tokenizer):,} pieces" if vocab_size < len(tokenizer) else f"gives ids up to {highest:,}"
        raise ValueError(f"{where}: the tokenizer {found}, but config.json says vocab_size = {vocab_size:,}; {mismatch}")
    if position_offset not in (0, (pad := tokenizer.pad_token_id) + 1):
        raise ValueError(
            f"{where}: the pad_token has id {pad}, but the model's positions begin at {position_offset}; {mismatch}"
        )
    separator = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    if separator is None:
        raise ValueError(f"{where}: the tokenizer has neither sep_token nor eos_token; name one")
    return SpecialIds(tokenizer.pad_token_id, tokenizer.cls_token_id, separator)


def load_tokenizer(directory: Path) -> Any:
    """Return the tokenizer of a directory in Hugging Face format. Raises ValueError naming the file if it cannot be read."""
    from tokenizers import Tokenizer  # noqa: PLC0415 (as the next)
    from transformers import AutoTokenizer  # noqa: PLC0415 (takes seconds to load)

    if (file := directory / "tokenizer.json").is_file():
        try:
            Tokenizer.from_file(str(file))
        except Exception as error:  # The library raises Exception itself.
            raise ValueError(f"{file}: damaged ({error}); copy it again") from error
    try:
        if not any((directory / name).is_file() for name in _VOCABULARIES):
            raise ValueError(f"none of {', '.join(sorted(_VOCABULARIES))}")
        return AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # For damaged files the libraries raise anything, including Exception itself.
        raise ValueError(
            f"{directory}: no tokenizer that can be read ({error}); put tokenizer.json beside config.json"
        ) from error


STAGE = Stage("xpt_source", version=1, spec=ModelPlace, run=run, needs=("transformers",))
