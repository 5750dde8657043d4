"""What the data stages need for 10 TB of web text on Ray, calculated from rates that were measured on one core.

python -m bench.data_scale [--bytes 10e12] [--cores 1024] [--shard-bytes 8e6 64e6]: each stage is a chain of steps; some run on
all cores and some in one process. A step takes the longest of three times: processor time divided by the cores that share it,
bytes divided by the speed of the file system, and, if all bytes pass through one process, bytes divided by the speed of its
network. Rates are those of docs/scale.md; shares of text that is kept, of candidates and of pairs are assumptions and options.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from bench.common import options

READ_AND_FRAME = 171e6
"""Bytes of text per second that one process decompresses from gzip and cuts into records."""
PARSE_WET, WRITE_SHARDS = 74e6, 57e6
CLEAN, SIGN, DECONTAMINATE, BALANCE, SAMPLE = 9.7e6, 27.6e6, 7.1e6, 47e6, 47e6
"""Bytes of text per second and core."""
SCORE_DOCUMENTS = 7_300
"""Documents per second and core of the linear classifier."""
ROW_SECONDS = 156e-9
"""Time to partition, sort and join one row when deduplication reduces."""
APPEND_SECONDS = 61e-6
"""Time to open a partition's file and append to it."""
PAIR_SECONDS = 0.9e-3
SHA256 = 1.28e9
SUBMIT_SECONDS = 1e-3
"""Time of the driver to submit one job of Ray and take its result; an assumption."""

PACKED = 0.41
"""Bytes of a zstd shard per byte of text."""
LETTERS = 0.310
"""Letters and digits per byte of text."""
ROWS_PER_PARTITION, BUCKET_PARTITIONS, RANKS_PER_PARTITION = 1 << 19, 1 << 10, 1 << 16
ANCHOR_EVERY, BANDS = 8, 18
ROW_BYTES = 12
SIGNATURE_BYTES, SHINGLE_BYTES = 180, 8 + 3 + 3
"""Bytes per document, and per letter of a candidate (shingles, words and text)."""
COMPARED_BYTES, CANDIDATE_BYTES = 4, 56
"""Memory of comparing, per document and per candidate."""
ROWS_PER_BATCH = 2_000
FILES = {"extract": 3, "clean": 4, "dedup": 11, "quality": 6, "balance": 5, "vocab": 3}
"""Files that a stage writes per shard: documents, dropped documents and logs, work files, markers."""


@dataclass(frozen=True)
class Step:
    """Part of a stage, with what it computes and moves."""

    stage: str
    name: str
    core_seconds: float
    moved: float
    """Bytes read and written."""
    serial: bool = False
    through_one: bool = False
    """Whether all bytes pass through the network of one process."""
    memory: float = 0.0
    """Bytes in the process of a serial step."""
    shuffled: float = 0.0
    """Bytes that go from every shard to every partition."""


def hours(step: Step, given: argparse.Namespace) -> float:
    """Return the wall time of a step."""
    cores = 1 if step.serial else given.cores
    link = step.moved / given.link if step.serial or step.through_one else 0.0
    return max(step.core_seconds / cores, step.moved / given.files, link) / 3600


def bucketed(rows: float) -> float:
    """Return the seconds to partition rows in one process, with each flush into all partitions, and to sort and join them."""
    flushes = max(1.0, rows / ROWS_PER_PARTITION)
    return rows * ROW_SECONDS + flushes * min(flushes, BUCKET_PARTITIONS) * APPEND_SECONDS


def steps(given: argparse.Namespace) -> list[Step]:
    """Return all steps of all stages."""
    raw = given.bytes
    cleaned = raw * given.kept_by_clean
    unique = cleaned * given.kept_by_dedup
    read = cleaned / given.document_bytes  # Documents that deduplication reads.
    anchors = cleaned * LETTERS / ANCHOR_EVERY
    candidates = given.candidates * read
    shingles = candidates * given.document_bytes * LETTERS * SHINGLE_BYTES
    shards = raw / given.shard_bytes[-1]
    parts = read / ROWS_PER_PARTITION
    ranking = read * 3 * ROW_SECONDS + shards * min(parts, read / shards) * APPEND_SECONDS
    opened = min(parts, BUCKET_PARTITIONS) * min(read / RANKS_PER_PARTITION, ROWS_PER_PARTITION * given.candidates)
    bands = (1 + BANDS) * bucketed(read) + BANDS * opened * APPEND_SECONDS
    banded, anchored = (1 + BANDS) * ROW_BYTES * read, ROW_BYTES * anchors
    largest = 12 * read + 3 * ROW_BYTES * max(anchors / BUCKET_PARTITIONS, ROWS_PER_PARTITION)
    stages = [
        Step(
            "extract",
            "read, unpack, frame",
            raw / READ_AND_FRAME,
            raw,
            serial=True,
            through_one=True,
            memory=2 * given.cores * given.shard_bytes[-1],
        ),
        Step("extract", "parse, write", raw / PARSE_WET + raw / WRITE_SHARDS, raw * PACKED),
        Step("clean", "clean", raw / CLEAN, 2 * raw * PACKED),
        Step("dedup", "decontaminate", cleaned / DECONTAMINATE, 0),
        Step("dedup", "sign", cleaned / SIGN, cleaned * PACKED + SIGNATURE_BYTES * read + ROW_BYTES * anchors),
        Step("dedup", "find: rank", ranking, 2 * 40 * read, serial=True, memory=12 * read, shuffled=40 * read),
        Step("dedup", "find: exact, bands", bands, 2 * banded, serial=True, memory=12 * read, shuffled=banded),
        Step("dedup", "find: anchors", bucketed(anchors), 2 * anchored, serial=True, memory=largest, shuffled=anchored),
        Step("dedup", "prepare candidates", given.candidates * cleaned / SIGN, cleaned * PACKED + shingles),
        Step(
            "dedup",
            "compare",
            given.pairs * candidates * PAIR_SECONDS,
            given.pairs * shingles,
            serial=True,
            memory=COMPARED_BYTES * read + CANDIDATE_BYTES * candidates,
            shuffled=given.pairs * shingles,
        ),
        Step("dedup", "write", cleaned / WRITE_SHARDS, 2 * cleaned * PACKED),
        Step(
            "quality",
            "sample, score, write",
            unique / given.document_bytes / SCORE_DOCUMENTS + unique / WRITE_SHARDS,
            3 * unique * PACKED,
        ),
        Step("balance", "measure, write", unique / BALANCE, 3 * unique * PACKED),
        Step("vocab", "sample sentences", unique / SAMPLE, 2 * unique * PACKED),
    ]
    scratch = SIGNATURE_BYTES * read + 2 * ROW_BYTES * anchors + shingles
    sealed = {"extract": raw * PACKED, "clean": raw * PACKED, "dedup": cleaned * PACKED + scratch}
    sealed |= dict.fromkeys(("quality", "balance"), unique * PACKED)
    stages += [Step(name, "seal: sha256 of all", size / SHA256, size, serial=True) for name, size in sealed.items()]
    return stages


def requests(given: argparse.Namespace, shard_bytes: float) -> str:
    """Return the row of files and requests of all stages if each file is an object of a cloud store."""
    shards = given.bytes / shard_bytes
    batches = max(1.0, shard_bytes / given.document_bytes / ROWS_PER_BATCH)
    written = shards * sum(FILES.values())
    got = shards * 8 * (3 + batches) + shards * BANDS * 2  # Eight readings, and each band of every shard.
    manifest = shards * 4 * 150
    return (
        f"{shard_bytes / 1e6:>6.0f} MB {shards:>11,.0f} {written:>13,.0f} {got:>13,.0f}"
        f" {manifest / 1e6:>11,.0f} {7 * shards * SUBMIT_SECONDS / 3600:>9.1f}"
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--bytes", type=float, default=10e12, help="of text, as UTF-8")
    parser.add_argument("--document-bytes", type=float, default=4_000)
    parser.add_argument("--kept-by-clean", type=float, default=0.5)
    parser.add_argument("--kept-by-dedup", type=float, default=0.6)
    parser.add_argument(
        "--candidates", type=float, default=0.3, help="share of documents with a candidate for a near or containing copy"
    )
    parser.add_argument("--pairs", type=float, default=2.0, help="compared pairs per candidate")
    parser.add_argument("--cores", type=int, default=1_024)
    parser.add_argument("--link", type=float, default=1.25e9, help="bytes per second of one machine's network")
    parser.add_argument("--files", type=float, default=20e9, help="bytes per second of the shared file system")
    parser.add_argument("--shard-bytes", type=float, nargs="+", default=[8e6, 64e6])
    given = parser.parse_args()
    table = steps(given)
    print(f"{'stage':<8} {'step':<26} {'core-hours':>10} {'hours':>8} {'moved TB':>9} {'shuffled TB':>12}  memory")
    for one in table:
        memory = f"{one.memory / 1e9:.0f} GB in one process" if one.memory else "one process" if one.serial else ""
        numbers = (
            f"{one.core_seconds / 3600:>10,.1f} {hours(one, given):>8.2f} {one.moved / 1e12:>9.2f} {one.shuffled / 1e12:>12.2f}"
        )
        print(f"{one.stage:<8} {one.name:<26} {numbers}  {memory}")
    for name, some in (
        ("on all cores", [one for one in table if not one.serial]),
        ("in one process", [one for one in table if one.serial]),
    ):
        core = sum(one.core_seconds for one in some) / 3600
        print(f"{name:<35} {core:>10,.1f} {sum(hours(one, given) for one in some):>8.2f}")
    print(f"\n{'shard':>9} {'shards':>11} {'files, puts':>13} {'gets':>13} {'manifest MB':>11} {'driver h':>9}")
    for size in given.shard_bytes:
        print(requests(given, size))


if __name__ == "__main__":
    main()
