"""Stage ``xpt_tokenizer`` (label ``vocab``): the tokenizer of a source encoder as the vocabulary of its continued training.

Input: roles ``source`` and ``documents``, on which the tokenizer is measured. Output: ``kept_tokenizer.json`` (the tokenizer as
loaded by ``AutoTokenizer``, whose settings may differ from ``tokenizer.json``, its special ids and the rows of the word table),
and the folder ``tokenizer`` with the source's own files, which exports of the trained model contain unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from korealbert.artifact import Inputs, Runtime, Spec, Stage
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import TOKENIZER_FILES, copy_files
from korealbert.vocab.stage import KeptVocabStats, VocabSpec, training_sample, vocabulary_facts
from korealbert.vocab.tokenizer import KEPT_FILE, KEPT_FOLDER, SPECIAL, KeptVocabulary, Vocabulary
from korealbert.xpt.source import load_tokenizer

_MEASURED = VocabSpec(sample_sentences=20_000, sample_characters=10_000_000)
"""Size of the sample on which the tokenizer is measured."""


class TokenizerSpec(Spec):
    """Keep the source's tokenizer instead of training a vocabulary, to continue training in its language. Word embeddings and
    output bias are then the source's too; `itl = false` keeps the rest of the model. The exported directory has the source's
    tokenizer files, byte for byte."""

    tokenizer: Literal["source"]
    """``source``: the tokenizer of ``[source]``, which needs a ``tokenizer.json``."""


def run(spec: TokenizerSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> KeptVocabStats:
    """Keep the tokenizer. Raises ValueError naming file, field and remedy if example rows cannot be made with it."""
    source, directory = inputs["source"], inputs["source"].path
    where = f"the source ({source.name})"
    if not (directory / "tokenizer.json").is_file():
        raise ValueError(f"{where}, tokenizer.json: {NO_TOKENIZER_FILE}")
    if (directory / "morphemes.json").is_file():
        raise ValueError(f"{where}, morphemes.json: text is cut into morphemes, which cannot be kept; {_NEW_VOCABULARY}")
    tokenizer = load_tokenizer(directory)
    tokens = _special_tokens(where, tokenizer)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    special = tokenizer.convert_tokens_to_ids(list(tokens.values()))
    rows = checkpoint.read_config(directory).vocab_size
    KeptVocabulary.write(out_dir / KEPT_FILE, backend, special=special, rows=rows)
    (out_dir / KEPT_FOLDER).mkdir(exist_ok=True)
    copy_files(directory, out_dir / KEPT_FOLDER, TOKENIZER_FILES)
    sample = training_sample(_MEASURED, inputs["documents"], out_dir, runtime)
    facts = vocabulary_facts(Vocabulary.load(out_dir), sample.sentences)
    return KeptVocabStats.of({**facts.facts(), "tokens": tokens})


_NEW_VOCABULARY = "leave out tokenizer in [vocab] for a new vocabulary"
NO_TOKENIZER_FILE = (
    f"missing; save one with transformers (AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)), or {_NEW_VOCABULARY}"
)
"""What to do if a source only has the files of a slow tokenizer."""


def _special_tokens(where: str, tokenizer: Any) -> dict[str, str]:
    """Return the special pieces by role, in the order of ``SPECIAL``; ``eos_token`` may replace ``sep_token``."""
    tokens = {role: getattr(tokenizer, f"{role}_token") for role in SPECIAL._fields}
    tokens["sep"] = tokens["sep"] or tokenizer.eos_token
    for role, token in tokens.items():
        if token is None:
            raise ValueError(f"{where}, tokenizer_config.json: {role}_token is missing; name one")
    if len(set(tokens.values())) < len(tokens):
        shown = ", ".join(f"{role}_token = {token!r}" for role, token in tokens.items())
        raise ValueError(f"{where}, tokenizer_config.json: {shown} are not five pieces; name a piece of its own for each")
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("가")["input_ids"])
    if len(pieces) < 2 or [pieces[0], pieces[-1]] != [tokens["cls"], tokens["sep"]]:
        raise ValueError(
            f"{where}, tokenizer.json: its post_processor makes {pieces} of a text, without {tokens['cls']} and "
            f"{tokens['sep']} around it, which rows have; set one that puts them there"
        )
    return tokens


STAGE = Stage("xpt_tokenizer", version=1, spec=TokenizerSpec, run=run, needs=("transformers",))
