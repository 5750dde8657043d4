"""Stage `cooccurrence`: vectors of all pieces from their co-occurrences, as initial word embeddings of a model.

Counts of pieces within a window of each other give their positive pointwise mutual information, whose truncated singular value
decomposition U S Vᵀ gives the vectors U S^½ (Levy, Goldberg and Dagan 2015, "Improving Distributional Similarity with Lessons
Learned from Word Embeddings"). A masked language model with random embeddings needs its first millions of tokens to learn
similar vectors; this stage takes seconds.

Input: role ``examples``. Output: ``vectors.safetensors`` with ``vectors``, fp32 [V, E], which have variance 1 over all pieces
that occur. Rows of special pieces and of pieces that do not occur are 0.

Shapes: V pieces, C context pieces, E width of the vectors, R rows of a block, L their length, N neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors.numpy import save_file

from korealbert.artifact import Deployment, Inputs, Progress, Real, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import atomic_path
from korealbert.examples.table import RowTable
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID

VECTORS = "vectors.safetensors"
"""The output file."""

_BLOCK_TOKENS = 1 << 22
"""Tokens whose neighbours are counted at once."""
_OVERSAMPLED = 32
"""Additional dimensions of the random projection, which make the last kept ones exact."""


class CooccurrenceSpec(Spec):
    """Which neighbours count, and over how much text."""

    width: int = Field(default=0, ge=0)
    """E: dimensions of the vectors; 0 means the width of the model's word embeddings."""
    window: int = Field(default=5, ge=1, le=64)
    """Distance in pieces up to which neighbours count; the nearest counts ``window`` times, the farthest once (as in
    word2vec)."""
    contexts: int = Field(default=4096, ge=1)
    """C: the most frequent pieces, which are counted as neighbours. The counts take 4 · V · C bytes."""
    smoothing: float = Field(default=0.75, gt=0, le=1)
    """Exponent of the contexts' frequencies; values below 1 lower the weight of rare contexts."""
    max_tokens: int = Field(default=100_000_000, ge=1)
    """Most tokens that are read, from rows evenly spread over all."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of the random projection of the decomposition."""

    def of_width(self, width: int) -> CooccurrenceSpec:
        """Return the spec with this width if it has none of its own."""
        return self.model_copy(update={"width": self.width or width})


class CooccurrenceStats(Statistics):
    """Size of the counts and the vectors."""

    tokens: int
    """Tokens read."""
    pieces: int
    """Pieces that have a vector."""
    unseen_pieces: int
    """Ordinary pieces without a neighbour in the rows read, whose embeddings start with random values."""
    contexts: int
    width: int
    kept: Real
    """Share of the squared mutual information that the vectors keep."""


def run(spec: CooccurrenceSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> CooccurrenceStats:
    """Count neighbours, compute their mutual information, decompose it. Raises ValueError if no two pieces are neighbours."""
    rows = RowTable(inputs["examples"].path, "train")
    vocab_size = rows.headers[0].vocab_size
    numbers = _spread(rows, spec.max_tokens)
    frequencies_V = np.zeros(vocab_size, dtype=np.int64)
    for ids_RL, real_RL in _blocks(rows, numbers):
        frequencies_V += np.bincount(ids_RL[real_RL], minlength=vocab_size)
    contexts_C = np.argsort(-frequencies_V, kind="stable")[: min(spec.contexts, int(np.count_nonzero(frequencies_V)))]
    counts_VC = np.zeros((vocab_size, len(contexts_C)), dtype=_counter(int(frequencies_V.sum()), spec.window))
    read = 0
    for ids_RL, real_RL in _blocks(rows, numbers):
        count_neighbours(counts_VC, contexts_C, ids_RL, real_RL, spec.window)
        read += len(ids_RL)
        runtime.report(Progress(read, len(numbers), "rows"))
    if not counts_VC.any():
        raise ValueError("cooccurrence: no two pieces of the examples are neighbours; set pretrain.embeddings = 'random'")
    information_VC = mutual_information(counts_VC, spec.smoothing)
    seen_V = information_VC.max(axis=1) > 0
    if not seen_V.any():
        raise ValueError(
            "cooccurrence: no two pieces are neighbours more often than by chance; take more text or more `contexts`,"
            " or set pretrain.embeddings = 'random'"
        )
    vectors_VE, kept = _decompose(information_VC, spec, TrainingRuntime.of(runtime).threads)
    with atomic_path(out_dir / VECTORS) as path:
        save_file({"vectors": _standardised(vectors_VE, seen_V)}, path)
    return CooccurrenceStats(
        tokens=int(frequencies_V.sum()),
        pieces=int(seen_V.sum()),
        unseen_pieces=vocab_size - FIRST_ORDINARY_ID - int(seen_V.sum()),
        contexts=len(contexts_C),
        width=vectors_VE.shape[1],
        kept=kept,
    )


def _spread(rows: RowTable, max_tokens: int) -> NDArray[np.int64]:
    """Return numbers of evenly spread rows that have ``max_tokens`` at most."""
    wanted = max(1, min(len(rows), max_tokens // rows.headers[0].sequence_length))
    return np.linspace(0, len(rows), wanted, endpoint=False).astype(np.int64)


def _blocks(rows: RowTable, numbers: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield ids [R, L] of blocks of rows, and which of them are ordinary pieces."""
    size = max(1, _BLOCK_TOKENS // rows.headers[0].sequence_length)
    for begin in range(0, len(numbers), size):
        ids_RL, lengths_R = rows.columns(["ids", "length"], numbers[begin : begin + size])
        inside_RL = np.arange(ids_RL.shape[1]) < lengths_R[:, None]
        yield ids_RL.astype(np.int64), inside_RL & (ids_RL >= FIRST_ORDINARY_ID)


def _counter(tokens: int, window: int) -> type[np.uint32 | np.uint64]:
    """Return the narrowest type that no count overflows: each token adds at most 2 · (1 + … + window)."""
    return np.uint32 if tokens * window * (window + 1) < 1 << 32 else np.uint64


def count_neighbours(
    counts_VC: NDArray[Any],
    contexts_C: NDArray[np.int64],
    ids_RL: NDArray[np.int64],
    real_RL: NDArray[np.bool_],
    window: int,
) -> None:
    """Add all pairs of neighbours within rows to ``counts_VC``; those at distance d add ``window + 1 - d``."""
    column_V = np.full(len(counts_VC), -1, dtype=np.int64)
    column_V[contexts_C] = np.arange(len(contexts_C))
    flat = counts_VC.reshape(-1)
    for distance in range(1, min(window, ids_RL.shape[1] - 1) + 1):
        both_RL = real_RL[:, :-distance] & real_RL[:, distance:]
        left_N, right_N = ids_RL[:, :-distance][both_RL], ids_RL[:, distance:][both_RL]
        for word_N, context_N in ((left_N, right_N), (right_N, left_N)):
            place_N = column_V[context_N]
            known_N = place_N >= 0
            np.add.at(flat, word_N[known_N] * len(contexts_C) + place_N[known_N], flat.dtype.type(window + 1 - distance))


def mutual_information(counts_VC: NDArray[Any], smoothing: float) -> NDArray[np.float32]:
    """Return max(0, log(p(v, c) / (p(v) p'(c)))), [V, C]: the positive pointwise mutual information, with p' the smoothed p."""
    words_V, contexts_C = (counts_VC.sum(axis=axis, dtype=np.float64) for axis in (1, 0))
    smoothed_C = contexts_C**smoothing
    expected_V, expected_C = np.maximum(words_V, 1), np.maximum(smoothed_C, 1) / smoothed_C.sum()
    information_VC = counts_VC.astype(np.float32)
    information_VC /= expected_V[:, None].astype(np.float32)
    information_VC /= expected_C.astype(np.float32)
    np.maximum(information_VC, 1, out=information_VC)
    return np.log(information_VC, out=information_VC)


def _decompose(information_VC: NDArray[np.float32], spec: CooccurrenceSpec, threads: int) -> tuple[NDArray[np.float32], float]:
    """Return U S^½ [V, E] of the truncated decomposition, and the share of the squares that it keeps.

    torch implements Halko, Martinsson and Tropp 2011 (algorithm 5.1). E is at most the number of rows and columns.
    """
    import torch  # noqa: PLC0415 (planning does without)

    width = min(spec.width, *information_VC.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            sampled = min(width + _OVERSAMPLED, *information_VC.shape)
            left_VS, scale_S, _ = torch.svd_lowrank(torch.from_numpy(information_VC), q=sampled, niter=4)
        finally:
            torch.set_num_threads(before)
    vectors_VE = (left_VS[:, :width] * scale_S[:width].sqrt()).numpy()
    held = float((scale_S[:width].double() ** 2).sum()) / float(np.square(information_VC, dtype=np.float64).sum())
    return np.ascontiguousarray(vectors_VE), held


def _standardised(vectors_VE: NDArray[np.float32], seen_V: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Scale the vectors to variance 1 over all pieces that occur; the others become 0."""
    scaled: NDArray[np.float32] = vectors_VE / vectors_VE[seen_V].std(dtype=np.float64).astype(np.float32)
    scaled[~seen_V] = 0
    return scaled


STAGE = Stage(
    "cooccurrence",
    version=1,
    spec=CooccurrenceSpec,
    run=run,
    needs=("torch",),
    table="cooccurrence",
    inputs={"examples": "examples"},
    deployment=Deployment("Vectors of pieces from their co-occurrences"),
)
