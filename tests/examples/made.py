"""Rows made without text, and a simple reading of noised rows to compare the vectorised code with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from korealbert.examples.batches import IGNORED, Batch, Clean, apply_noise
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import GeneratedNoise, NoiseSettings
from korealbert.examples.schema import Rows
from korealbert.examples.segments import with_specials
from korealbert.examples.word_order import WordOrderSpec
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, SPECIAL, WordTable

SEQUENCE_LENGTH = 64
VOCAB_SIZE = 97


def made_words(vocab_size: int = VOCAB_SIZE, period: int = 3) -> WordTable:
    """A word table in which every third id begins a word, with one bare space and one full stop."""
    ids = np.arange(vocab_size)
    ordinary = ids >= FIRST_ORDINARY_ID
    joins, alone = ids == FIRST_ORDINARY_ID, ids == FIRST_ORDINARY_ID + 1
    starts = ordinary & ((ids % period == 0) | joins | alone)
    return WordTable(starts=starts, alone=alone, joins=joins, spaced=starts & ~alone)


def made_rows(chunks: list[list[list[int]]], width: int = SEQUENCE_LENGTH - 3) -> Rows:
    """Rows from chunks of sentences of ids."""
    ids = np.zeros((len(chunks), width), dtype=np.uint16)
    for row, chunk in zip(ids, chunks, strict=True):
        flat = [i for sentence in chunk for i in sentence]
        row[: len(flat)] = flat
    return Rows(
        example_id=np.arange(len(chunks), dtype=np.uint64),
        doc_id=np.arange(len(chunks), dtype=np.uint64) // 2,
        source=np.zeros(len(chunks), dtype=np.uint8),
        ids=ids,
        length=np.array([sum(map(len, chunk)) for chunk in chunks], dtype=np.uint16),
        sentence_lengths=np.array([len(sentence) for chunk in chunks for sentence in chunk], dtype=np.uint16),
        sentence_offsets=np.cumsum([0, *map(len, chunks)]),
    )


def random_rows(count: int, *, width: int = SEQUENCE_LENGTH - 3, seed: int = 0) -> Rows:
    """Full rows of random sentences."""
    dice = np.random.default_rng(seed)
    chunks = []
    for _ in range(count):
        borders = np.unique(dice.integers(1, width, size=4))
        flat = dice.integers(FIRST_ORDINARY_ID, VOCAB_SIZE, size=width).tolist()
        chunks.append([flat[a:b] for a, b in itertools.pairwise([0, *borders.tolist(), width])])
    return made_rows(chunks, width)


@st.composite
def chunks_of(draw: st.DrawFn) -> list[list[int]]:
    """One chunk: sentences of ids, a few ids only, so that equal ones meet in one run."""
    lengths = draw(st.lists(st.integers(1, 25), min_size=1, max_size=6))
    while sum(lengths) > SEQUENCE_LENGTH - 3:
        lengths.pop()
    top = draw(st.sampled_from([FIRST_ORDINARY_ID + 2, 12, VOCAB_SIZE - 1]))
    one = st.integers(FIRST_ORDINARY_ID, top)
    return [draw(st.lists(one, min_size=n, max_size=n)) for n in lengths or [1]]


MASKINGS = st.builds(
    MaskingSpec,
    unit=st.sampled_from(["whole_word", "token"]),
    ngram_max=st.integers(1, 3),
    rate=st.sampled_from([0.15, 0.3, 0.5]),
    max_predictions=st.sampled_from([None, 3]),
)
WORD_ORDERS = st.builds(
    WordOrderSpec,
    portion=st.sampled_from([0.3, 1.0, 1.0]),
    rate=st.sampled_from([0.15, 0.25]),
    amount=st.sampled_from(["fixed", "dynamic"]),
    barrier=st.sampled_from(["mask", "all_mlm"]),
    within=st.sampled_from(["sentence", "segment"]),
    unit=st.sampled_from(["token", "word"]),
    window_words=st.integers(2, 4),
    top_up=st.booleans(),
)
NOISES = st.builds(
    NoiseSettings,
    seed=st.integers(0, 2**63 - 1),
    sentence_task=st.sampled_from(["sop", "sop", "none"]),
    masking=MASKINGS,
    word_order=WORD_ORDERS,
    sequence_length=st.just(SEQUENCE_LENGTH),
    vocab_size=st.just(VOCAB_SIZE),
)


def noise_settings(
    *,
    masking: MaskingSpec | None = None,
    word_order: WordOrderSpec | None = None,
    task: str = "sop",
    vocab_size: int = VOCAB_SIZE,
    sequence_length: int = SEQUENCE_LENGTH,
    seed: int = 7,
) -> NoiseSettings:
    """The default noise for made rows, with some of it replaced."""
    return NoiseSettings(
        seed=seed,
        sentence_task=task,  # type: ignore[arg-type]
        masking=masking or MaskingSpec(),
        word_order=word_order or WordOrderSpec(),
        sequence_length=sequence_length,
        vocab_size=vocab_size,
    )


def noised(noise: GeneratedNoise, sequence_length: int = SEQUENCE_LENGTH) -> Batch:
    """Return what training would see of rows with this noise."""
    layout = noise.layout
    clean = Clean(*with_specials(layout.ids, layout.first, layout.length, sequence_length))
    return apply_noise(clean, noise.view, noise.view.wop_count.astype(np.int64))


@dataclass(frozen=True)
class Reading:
    """One noised row, read slowly piece by piece."""

    tokens: list[int]
    """What training sees, without padding."""
    types: list[int]
    masks: dict[int, int]
    """Label by position."""
    moves: dict[int, int]
    """Origin by position."""
    label: int

    @property
    def restored(self) -> list[int]:
        """Return the row with masks filled in and moves undone."""
        clean = list(self.tokens)
        for position, label in self.masks.items():
            clean[position] = label
        for position, origin in self.moves.items():
            clean[origin] = self.tokens[position]
        return clean

    @property
    def segments(self) -> list[list[int]]:
        """Return the clean segments without special pieces; checks the positions of the special ones."""
        clean = self.restored
        assert clean[0] == SPECIAL.cls
        assert clean[-1] == SPECIAL.sep
        first_end = self.types.index(1) - 1 if 1 in self.types else len(clean) - 1
        assert clean[first_end] == SPECIAL.sep
        return [part for part in (clean[1:first_end], clean[first_end + 1 : -1]) if part]

    @property
    def unswapped(self) -> list[int]:
        """Return the clean pieces of both segments in the order of the text."""
        segments = self.segments[::-1] if self.label == 1 else self.segments
        return [piece for segment in segments for piece in segment]


def read(batch: Batch, row: int) -> Reading:
    """Read one row of a batch."""
    length = int(batch.lengths[row])
    assert not batch.input_ids[row, length:].any()
    assert not batch.token_type_ids[row, length:].any()
    masks = slots(batch.mlm_positions[row], batch.mlm_labels[row])
    moves = slots(batch.wop_positions[row], batch.wop_labels[row])
    tokens, types = batch.input_ids[row, :length].tolist(), batch.token_type_ids[row, :length].tolist()
    return Reading(tokens, types, masks, moves, int(batch.sop_labels[row]))


def slots(positions: np.ndarray, labels: np.ndarray) -> dict[int, int]:
    """Used slots as a mapping; checks that positions ascend and unused slots are empty."""
    used = labels != IGNORED
    assert not positions[~used].any()
    assert (np.diff(positions[used]) > 0).all()
    return dict(zip(positions[used].tolist(), labels[used].tolist(), strict=True))


def sentence_numbers(reading: Reading, chunk: list[list[int]]) -> list[int]:
    """The sentence that each token of the final layout belongs to, -1 for specials."""
    numbers = [number for number, sentence in enumerate(chunk) for _ in sentence]
    first = len(reading.segments[1]) if reading.label == 1 else 0
    numbers = numbers[first:] + numbers[:first]
    found = []
    for token in reading.restored:
        found.append(-1 if token in (SPECIAL.cls, SPECIAL.sep) else numbers.pop(0))
    return found


def words_in(ids: list[int], table: WordTable, sentence_firsts: set[int]) -> list[range]:
    """Return the words of one segment as ranges, by a loop over its pieces; sentences begin words."""
    borders = []
    for i, piece in enumerate(ids):
        before = ids[i - 1] if i else -1
        forced = i == 0 or i in sentence_firsts
        if forced or (table.starts[piece] and not table.joins[before]) or table.alone[before]:
            borders.append(i)
    return [range(a, b) for a, b in itertools.pairwise([*borders, len(ids)])]
