"""Seeds of what a micro-batch draws while it is computed: dropout, and a generator's guesses."""

from __future__ import annotations

from hashlib import blake2b


def dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    """Seed of torch's generator for one micro-batch of the global batch: the same whichever rank computes it."""
    digest = blake2b(f"dropout/{seed}/{step}/{micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
