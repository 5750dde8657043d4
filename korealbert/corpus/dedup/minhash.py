"""MinHash signatures and their bands: texts that share a band are candidates for near-duplicates.

126 permutations in 18 bands of 7 rows: two texts of Jaccard similarity s share a band with probability 1 - (1 - s^7)^18, that
is 0.986 at 0.8, 0.79 at 0.7 and 0.13 at 0.5 (Leskovec et al., Mining of Massive Datasets, section 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rensa import RMinHash

from korealbert.corpus.dedup.shingles import Hashes

BANDS = 18
ROWS_PER_BAND = 7
PERMUTATIONS = BANDS * ROWS_PER_BAND


def band_hashes(shingle_sets: Sequence[Hashes], seed: int) -> npt.NDArray[np.uint64]:
    """uint64 [texts, 18]: one hash per band. Rows of texts without shingles mean nothing.

    The same in every process and on every machine: rensa is pinned to the version whose permutations these are.
    """
    if not shingle_sets:
        return np.empty((0, BANDS), dtype=np.uint64)
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in shingle_sets]))).astype(np.uint64)
    flat = np.concatenate(shingle_sets) if offsets[-1] else np.empty(0, dtype=np.uint64)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, PERMUTATIONS, seed)
    digests = np.array(matrix.to_rows(), dtype=np.uint64).reshape(len(shingle_sets), BANDS, ROWS_PER_BAND)
    hashes = np.broadcast_to(np.arange(BANDS, dtype=np.uint64), (len(shingle_sets), BANDS)).copy()
    for row in range(ROWS_PER_BAND):
        hashes = (hashes ^ digests[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(32)
    return hashes
