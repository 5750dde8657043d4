"""Stage `vocab`: documents → a SentencePiece vocabulary, and the same vocabulary as a fast tokenizer.

Input: role ``documents`` (one sentence a line). Output: ``spiece.model``, ``spiece.vocab`` (piece and score on each line),
``tokenizer.json``, and ``morphemes.json`` if text is cut into morphemes before it is encoded.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator
from sentencepiece import SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from korealbert.artifact import Artifact, Deployment, Inputs, Progress, Real, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import atomic_write
from korealbert.vocab.morphemes import BOUNDARY, cut_sentences, write_analyser
from korealbert.vocab.normalisation import rules, rules_tsv
from korealbert.vocab.sampling import MAX_SENTENCE_BYTES, Sample, SampleLimits, sample_sentences
from korealbert.vocab.tokenizer import (
    FIRST_ORDINARY_ID,
    MODEL_FILE,
    SPECIAL,
    SPECIAL_PIECES,
    Vocabulary,
    fast_tokenizer,
)

SCORE_STEP = 2.0**-6
"""Scores are rounded to multiples of this, so that float32 sums of up to about 29,000 of them are exact.

Then pieces that can be combined in two ways (``0`` ``00``) tie exactly, and every library cuts them the same way in every
context. Unrounded, ``tokenizers`` cut 2 of 21,623 Wikipedia paragraphs differently from SentencePiece. With 2⁻¹⁰ 9 of 30 texts
of 53,000 pieces still differed, with 2⁻⁶ none, nor any of 278,000 pieces; it changes 51 of 30,000 paragraphs.
"""


class VocabSpec(Spec):
    """Contents of the vocabulary and its training text."""

    later: ClassVar[frozenset[str]] = frozenset({"at_most"})

    model_type: Literal["unigram", "bpe"] = "unigram"
    """How pieces are chosen."""
    size: int = Field(default=32_000, ge=FIRST_ORDINARY_ID + 3, le=1 << 20)
    """Number of pieces, including the five special ones."""
    at_most: bool = False
    """If the text gives fewer pieces than ``size``, take those instead of failing."""
    character_coverage: float = Field(default=0.9995, ge=0.98, le=1.0)
    """Share of all characters in the text that get a piece of their own; the rest becomes ``<unk>`` (or bytes).
    SentencePiece accepts 0.98 and more."""
    byte_fallback: bool = False
    """Write characters without a piece as bytes (256 more pieces) instead of ``<unk>``."""
    user_defined_pieces: tuple[str, ...] = ()
    """Single characters that are always separate pieces, such as ``( ) " - .`` in the official ALBERT vocabularies."""
    morphemes: Literal["none", "vocabulary", "everywhere"] = "none"
    """``vocabulary``: pieces are learnt from text that Kiwi has cut into morphemes, and used on uncut text, as KLUE-BERT
    does. ``everywhere``: text is cut wherever it is encoded, in pretraining, fine-tuning and ``fill-mask``; users of the
    exported model must do so too. Kiwi takes about 3 core seconds per megabyte."""
    split_digits: bool = False
    """Make every digit a separate piece."""
    sample_sentences: int = Field(default=5_000_000, ge=1)
    """Maximum of sentences to train on."""
    sample_characters: int = Field(default=300_000_000, ge=1)
    """Maximum of characters to train on. They determine the memory of training, about 50 bytes each."""
    source_weights: dict[str, float] = Field(default_factory=dict)
    """Relative probability of a sentence by source, 10⁻⁶ to 10⁶; 1 for sources not named, 0 excludes a source."""
    training_threads: int = Field(default=16, ge=1, le=1024)
    """Part of the recipe, because it determines the order of float sums: each number gives other scores, on every machine."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of the sample of sentences."""

    @field_validator("user_defined_pieces")
    @classmethod
    def _single_characters(cls, pieces: tuple[str, ...]) -> tuple[str, ...]:
        for piece in pieces:
            if len(piece) != 1 or piece.isspace() or piece in ("\x00", BOUNDARY) or piece in rules():
                raise ValueError(f"{piece!r}: a user-defined piece is one visible character that normalisation leaves as it is")
        if len(set(pieces)) < len(pieces):
            raise ValueError("a user-defined piece is named twice; name each once")
        return pieces

    @model_validator(mode="after")
    def _weights_are_weights(self) -> VocabSpec:
        for source, weight in self.source_weights.items():
            if weight != 0 and not 1e-6 <= weight <= 1e6:
                raise ValueError(f"source_weights.{source} = {weight}: a weight is 0, or between 0.000001 and 1,000,000")
        return self


class VocabularyFacts(Statistics):
    """How a vocabulary encodes text. A character is covered if proper pieces can encode it on its own."""

    pieces: int
    characters_per_piece: Real | None = None
    """Including spaces."""
    pieces_per_word: Real | None = None
    """Words are separated by spaces."""
    words_by_pieces: dict[str, int] = Field(default_factory=dict)
    """Number of words with 1, 2, … pieces."""
    unknown_share: Real | None = None
    """Share of pieces, like the next."""
    byte_share: Real | None = None
    character_coverage: Real | None = None
    """Share of visible characters that are covered."""
    hangul_syllables_covered: int | None = None
    """Of all 11,172."""
    hangul_syllables_in_text: int | None = None
    hangul_syllables_in_text_covered: int | None = None
    """Of those in the text."""
    word_start_share: Real | None = None
    """Share of pieces: 0.63 in Korean Wikipedia with 32,000 pieces; the official ALBERT rule finds 0.98."""
    specimens: list[str] = Field(default_factory=list)
    """``_SPECIMENS`` cut into pieces, separated by spaces."""
    sha256: str = ""
    """Digest of the vocabulary."""


class VocabStats(VocabularyFacts):
    """Statistics of the vocabulary and of its training text."""

    sampled_sentences: int | None = None
    sampled_characters: int | None = None
    sampled_by_source: dict[str, int] = Field(default_factory=dict)
    """Sentences by source."""
    sentences: int | None = None
    """Number of sentences that could be sampled: without too long ones, and without those of sources of weight 0."""
    too_long_sentences: int = 0


class KeptVocabStats(VocabularyFacts):
    """The tokenizer of a checkpoint, measured on sentences of the corpus. Pieces are the rows of the checkpoint's word
    table."""

    tokens: dict[str, str]
    """The special pieces by role: ``mask`` is ``[MASK]`` or ``<mask>``."""


def run(spec: VocabSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> VocabStats:
    """Train the vocabulary. Raises ValueError naming the field if the corpus is too small for the spec."""
    sample = training_sample(spec, inputs["documents"], out_dir, runtime)
    runtime.report(Progress(0, None, "sentences", message=f"training on {len(sample.sentences):,} sentences"))
    model = train_model(spec, training_text(spec, sample.sentences, out_dir, runtime))
    write_vocabulary(spec, model, out_dir)
    listing = "".join(f"{piece.piece}\t{piece.score:g}\n" for piece in model.pieces)
    atomic_write(out_dir / "spiece.vocab", listing.encode("utf-8"))
    atomic_write(out_dir / "tokenizer.json", fast_tokenizer(model).to_str(pretty=True).encode("utf-8"))
    facts = vocabulary_facts(Vocabulary.load(out_dir), sample.sentences)
    return VocabStats.of({**facts.facts(), **sample.counts})


def training_sample(spec: VocabSpec, documents: Artifact, out_dir: Path, runtime: Runtime) -> Sample:
    """Return the sentences that a vocabulary is trained on. Raises ValueError if there are none."""
    shards = documents.files("documents-*.arrow")
    sample = sample_sentences(
        shards,
        seed=spec.seed,
        weights=dict(spec.source_weights),
        limits=SampleLimits(spec.sample_sentences, spec.sample_characters),
        out_dir=out_dir,
        runtime=runtime,
    )
    if not sample.sentences:
        raise ValueError(
            f"vocab: no sentence to train on in {len(shards)} shards of {documents.name}; "
            "look at source_weights and at the documents that the corpus stages dropped"
        )
    return sample


_RESERVED = re.compile(f"[\u2585{BOUNDARY}]")
"""SentencePiece ignores sentences with U+2585, its mark of unknown characters. No text gives a piece for the boundary."""


def training_text(spec: VocabSpec, sentences: list[str], out_dir: Path, runtime: Runtime) -> list[str]:
    """Return the sentences as ``train_model`` takes them: with spaces in place of reserved characters, and cut into morphemes
    if the spec says so, on all cores."""
    readable = [_RESERVED.sub(" ", sentence) for sentence in sentences]
    return readable if spec.morphemes == "none" else cut_sentences(readable, out_dir, runtime)


def write_vocabulary(spec: VocabSpec, model: Any, directory: Path) -> None:
    """Write what ``Vocabulary.load`` reads."""
    atomic_write(directory / MODEL_FILE, model.SerializeToString(deterministic=True))
    if spec.morphemes == "everywhere":
        write_analyser(directory)


def train_model(spec: VocabSpec, sentences: list[str]) -> Any:
    """Train on sentences in the given order, already cut into morphemes if the spec says so; returns the ``ModelProto``.

    If SentencePiece refuses, raises ValueError naming the field and a value that works.
    """
    written = io.BytesIO()
    with NamedTemporaryFile("w", suffix=".tsv", encoding="ascii") as table:
        table.write(rules_tsv())
        table.flush()
        try:
            _train(spec, sentences, Path(table.name), written)
        except _TooManyPieces as error:
            if not spec.at_most:
                raise ValueError(str(error)) from error  # ValueError can be pickled
            written.seek(0)
            written.truncate()
            _train(spec.model_copy(update={"size": error.possible}), sentences, Path(table.name), written)
    model = ModelProto.FromString(written.getvalue())
    # The model contains the compiled table. The path of its source would change the model's bytes.
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    return _with_exact_scores(model)


_BYTES_WHEN_CUT = 4
"""Most bytes of a sentence cut into morphemes for each byte before: a boundary has three, and one follows at most each byte."""


def _train(spec: VocabSpec, sentences: list[str], rules_file: Path, written: io.BytesIO) -> None:
    limit: dict[str, Any] = {} if spec.morphemes == "none" else {"max_sentence_length": MAX_SENTENCE_BYTES * _BYTES_WHEN_CUT}
    try:
        SentencePieceTrainer.Train(
            sentence_iterator=iter(sentences),
            model_writer=written,
            model_type=spec.model_type,
            vocab_size=spec.size,
            character_coverage=spec.character_coverage,
            byte_fallback=spec.byte_fallback,
            user_defined_symbols=[*[BOUNDARY] * (spec.morphemes == "everywhere"), *spec.user_defined_pieces],
            pretokenization_delimiter=BOUNDARY if spec.morphemes == "vocabulary" else "",
            split_digits=spec.split_digits,
            normalization_rule_tsv=str(rules_file),
            pad_id=SPECIAL.pad,
            unk_id=SPECIAL.unk,
            bos_id=-1,
            eos_id=-1,
            pad_piece=SPECIAL_PIECES[SPECIAL.pad],
            unk_piece=SPECIAL_PIECES[SPECIAL.unk],
            control_symbols=list(SPECIAL_PIECES[SPECIAL.cls :]),
            num_threads=spec.training_threads,
            minloglevel=2,
            **limit,
        )
    except (RuntimeError, ValueError) as error:
        raise _explained(error, spec, len(sentences)) from error


def _with_exact_scores(model: Any) -> Any:
    """Make scores exact (see ``SCORE_STEP``) and user-defined pieces ordinary ones.

    Their characters occur in no other piece, so every text is still cut the same way. The ``tokenizers`` library would split
    text at user-defined pieces before normalising it.
    """
    is_unigram = model.trainer_spec.model_type == TrainerSpec.UNIGRAM
    lowest = min(piece.score for piece in model.pieces if piece.type == piece.NORMAL)
    for piece in model.pieces:
        if piece.type == piece.USER_DEFINED:
            piece.type, piece.score = piece.NORMAL, lowest
        if piece.type == piece.NORMAL and is_unigram:
            piece.score = round(piece.score / SCORE_STEP) * SCORE_STEP
    return model


class _TooManyPieces(ValueError):
    """The text gives fewer pieces than the spec asks for: only ``possible``."""

    def __init__(self, size: int, sentences: int, possible: int) -> None:
        remedy = f"the greatest size possible is {possible}; take that, set at_most = true, or train on more text"
        super().__init__(f"vocab.size = {size:,} is more than {sentences:,} sentences give; {remedy}")
        self.possible = possible


def _explained(error: Exception, spec: VocabSpec, sentences: int) -> ValueError:
    """Turn SentencePiece's error into one that names the field of the spec and a value that works."""
    text = str(error)
    if found := re.search(r"Vocabulary size too high \(\d+\).*<= (\d+)", text):
        return _TooManyPieces(spec.size, sentences, int(found[1]))
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", text):
        return ValueError(
            f"vocab.size = {spec.size:,} has no room for the characters to cover; take {found[1]} or more, "
            f"or lower vocab.character_coverage (now {spec.character_coverage})"
        )
    if "all_chars_count" in text:
        return ValueError(
            f"vocab: the {sentences:,} sentences to train on hold spaces and control characters only; "
            "look at the output of the clean stage for the sources"
        )
    return ValueError(f"vocab: SentencePiece refused to train on {sentences:,} sentences: {text}")


_SENTENCES_MEASURED = 20_000
_SYLLABLES = frozenset(map(chr, range(0xAC00, 0xD7A4)))
"""The 11,172 modern Hangul syllables of Unicode."""

_MAX_PIECES_PER_WORD = 8
"""Words with this many pieces or more are one class of the histogram."""

_SPECIMENS = (
    "할머니께서는 장터에서 사 오신 복숭아를 손주들에게 나누어 주셨다.",
    "연구진이 개발한 초소형 관측기는 내년 봄부터 시험가동에 들어갈 예정입니다.",
    "그 영화 진짜 꿀잼이었음ㅋㅋㅋ 두 번 봐도 안 질려요!!",
    "2023년 4분기 매출은 1조 2,400억원으로, 전년 동기 대비 8.7% 늘었다.",
    "AlbertModel의 config.json에는 hidden_size=768이라고 적혀 있다.",
    "조선 후기의 실학자 정약용(丁若鏞)은 『목민심서』를 남겼다.",
)
"""Sentences of our own, in several registers, shown cut into pieces. They are the same for every corpus, so vocabularies can
be compared."""


def vocabulary_facts(vocabulary: Vocabulary, sentences: Sequence[str]) -> VocabularyFacts:
    """Measure facts on the first sentences of the training sample, which is in random order."""
    measured = list(sentences[:_SENTENCES_MEASURED])
    encoded = vocabulary.encode(measured)
    ids = np.concatenate([*encoded, np.empty(0, dtype=np.int32)])
    if not len(ids):
        raise ValueError(f"vocab: {len(measured):,} sentences contain no character to make pieces of; look at the corpus")
    first = np.zeros(len(ids), dtype=np.bool_)
    first[np.cumsum([0, *map(len, encoded)])[:-1][[len(sentence) > 0 for sentence in encoded]]] = True
    proper = vocabulary.proper()
    characters = Counter("".join(measured))
    words = np.diff(np.flatnonzero([*(vocabulary.words().spaced[ids] | first), True]))
    covered = _covered_characters(vocabulary, sorted(_SYLLABLES | characters.keys()))
    visible = {character: count for character, count in characters.items() if not character.isspace()}
    seen = _SYLLABLES & characters.keys()
    return VocabularyFacts(
        pieces=vocabulary.size,
        characters_per_piece=round(sum(characters.values()) / len(ids), 4),
        pieces_per_word=round(float(words.mean()), 4),
        words_by_pieces=_histogram(words),
        unknown_share=round(float(np.mean(ids == SPECIAL.unk)), 6),
        byte_share=round(float(np.mean(~proper[ids] & (ids != SPECIAL.unk))), 6),
        character_coverage=round(sum(n for c, n in visible.items() if c in covered) / max(1, sum(visible.values())), 6),
        hangul_syllables_covered=len(_SYLLABLES & covered),
        hangul_syllables_in_text=len(seen),
        hangul_syllables_in_text_covered=len(seen & covered),
        word_start_share=round(float(np.mean(vocabulary.words().mark(ids, first))), 4),
        specimens=[" ".join(vocabulary.pieces(pieces)) for pieces in vocabulary.encode(_SPECIMENS)],
        sha256=vocabulary.sha256,
    )


def _covered_characters(vocabulary: Vocabulary, characters: Sequence[str]) -> set[str]:
    """Return those characters that the vocabulary can encode on their own, without ``<unk>`` or bytes."""
    proper = vocabulary.proper()
    encoded = vocabulary.encode(characters)
    return {character for character, ids in zip(characters, encoded, strict=True) if len(ids) and proper[ids].all()}


def _histogram(pieces_per_word: Any) -> dict[str, int]:
    """Count words by number of pieces; the last class, ``8+``, is open."""
    counts = np.bincount(np.minimum(pieces_per_word, _MAX_PIECES_PER_WORD), minlength=_MAX_PIECES_PER_WORD + 1)[1:]
    names = [*map(str, range(1, _MAX_PIECES_PER_WORD)), f"{_MAX_PIECES_PER_WORD}+"]
    return {name: int(count) for name, count in zip(names, counts, strict=True)}


STAGE = Stage(
    "vocab",
    version=5,
    spec=VocabSpec,
    run=run,
    table="vocab",
    inputs={"documents": "balance"},
    required=True,
    deployment=Deployment("Train the SentencePiece vocabulary"),
)
