"""Near-deduplication beside datatrove's MinHash: documents per second, recall of planted copies, false merges.

python -m bench.dedup KOWIKI --peers PYTHON [--documents 6000] [--workers 2]: ``KOWIKI`` is WikiExtractor output (a folder or
archive), ``PYTHON`` an interpreter with datatrove 0.9.0 and kiwipiepy 0.20.4. Both sides read the same real documents from
disk, with edited copies of some of them planted, and write the documents that they keep to disk. Exits with 1 unless recall,
false merges and speed reach their goals.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench import common
from korealbert.artifact import Artifact, Runtime
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.dedup.signatures import SHINGLE_LETTERS, squeeze
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DROPPED_SCHEMA, DocumentShard, read_batches

SEED = 20_231_120
LETTERS_OF_BASES = (400, 8_000)
"""Length of the documents that are copied: one exchanged word changes a short document too much."""
EDITED_SHARES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.12, 0.16, 0.2, 0.3)
"""Shares of the words of a planted copy that are exchanged for words from elsewhere: similarities from 1 to about 0.3."""
PLANTED_PER_SHARE = 60
DOCUMENTS_PER_SHARD = 1_000
HIGH, LOW = 0.8, 0.6
"""Similarities above which a copy should be removed, and below which no document may be."""
GOAL_RATIO, GOAL_RECALL = 8.0, 0.95


@dataclass(frozen=True)
class Planted:
    """An edited copy and its original."""

    base: Document
    variant: Document


@dataclass(frozen=True)
class Outcome:
    """The result of one tool."""

    seconds: float
    removed: dict[str, str]
    """Id of each removed document → id of the one that was kept."""


def grams(text: str) -> set[str]:
    """Return the character 5-grams of the letters of a text, unhashed, so that no tool's hashing judges itself."""
    letters = squeeze(text)
    return {letters[at : at + SHINGLE_LETTERS] for at in range(len(letters) - SHINGLE_LETTERS + 1)}


def similarity(left: str, right: str) -> float:
    """Return the Jaccard similarity of two texts; 1 if they are equal, even if they are too short for a shingle."""
    one, other = grams(left), grams(right)
    return len(one & other) / len(one | other) if one or other else float(squeeze(left) == squeeze(right))


def planted_copies(documents: list[Document], chance: random.Random) -> Iterator[Planted]:
    """Yield copies with exchanged words, at most one of each document."""
    low, high = LETTERS_OF_BASES
    bases = [one for one in documents if low <= len(one.text) <= high]
    words = [word for one in documents[:200] for word in one.text.split()]
    chosen = iter(chance.sample(bases, len(EDITED_SHARES) * PLANTED_PER_SHARE))
    for share in EDITED_SHARES:
        for base in islice(chosen, PLANTED_PER_SHARE):
            parts = base.text.split(" ")
            for at in chance.sample(range(len(parts)), round(share * len(parts))):
                parts[at] = chance.choice(words)
            yield Planted(base, Document(document_id("planted", base.id), "kowiki", " ".join(parts)))


def ours(documents: list[Document], work: Path, workers: int) -> Outcome:
    """Run our stage over shards on disk."""
    source, out = work / "source", work / "ours"
    source.mkdir()
    out.mkdir()
    for index, start in enumerate(range(0, len(documents), DOCUMENTS_PER_SHARD)):
        with DocumentShard(source, index) as shard:
            for document in documents[start : start + DOCUMENTS_PER_SHARD]:
                shard.keep(document)
    begin = time.perf_counter()
    dedup.STAGE.run(dedup.DedupSpec(), {"kowiki": Artifact("source", source)}, out, Runtime(workers=workers))
    seconds = time.perf_counter() - begin
    return Outcome(seconds, dict(_survivors(out)))


def _survivors(out: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(out.glob("dropped-*.arrow")):
        for batch in read_batches(path, DROPPED_SCHEMA):
            yield from ((row["id"], row["rule"].split()[0]) for row in batch.to_pylist())


def peers(
    documents: list[Document], planted: list[Planted], work: Path, workers: int, python: Path
) -> tuple[Outcome, dict[str, float]]:
    """Run datatrove over JSON lines on disk; also return the similarity of each planted copy by its own shingles."""
    (work / "in").mkdir()
    for index, start in enumerate(range(0, len(documents), DOCUMENTS_PER_SHARD)):
        rows = [{"id": one.id, "text": one.text} for one in documents[start : start + DOCUMENTS_PER_SHARD]]
        _write_lines(work / "in" / f"{index:05d}.jsonl", rows)
    pairs = [{"id": one.variant.id, "base": one.base.text, "variant": one.variant.text} for one in planted]
    _write_lines(work / "planted.jsonl", pairs)
    measured = common.answer(common.peer(python, "datatrove", work, str(workers)))
    kept = {row["metadata"]["minhash_cluster_id"]: row["id"] for row in _read_lines(work / "out")}
    removed = {row["id"]: kept[row["metadata"]["minhash_cluster_id"]] for row in _read_lines(work / "removed")}
    return Outcome(measured["seconds"], removed), measured["similarity"]


def _write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def _read_lines(directory: Path) -> Iterator[dict[str, object]]:
    for path in sorted(directory.glob("*.jsonl")):
        yield from map(json.loads, path.read_text("utf-8").splitlines())


def recall(planted: list[Planted], similarities: dict[str, float], outcome: Outcome) -> tuple[int, int]:
    """Return how many copies of at least ``HIGH`` similarity were removed, or their original was; and how many there are."""
    high = [one for one in planted if similarities[one.variant.id] >= HIGH]
    return sum(one.variant.id in outcome.removed or one.base.id in outcome.removed for one in high), len(high)


def false_merges(outcome: Outcome, texts: dict[str, str]) -> tuple[int, float]:
    """Return how many documents were removed for one less similar than ``LOW``, and the lowest similarity of all."""
    found = [similarity(texts[gone], texts[stays]) for gone, stays in outcome.removed.items()]
    return sum(one < LOW for one in found), min(found, default=1.0)


def main() -> int:
    parser = common.options(__doc__)
    parser.add_argument("kowiki", type=Path)
    parser.add_argument("--peers", type=Path, help="interpreter with datatrove; without it only ours is measured")
    parser.add_argument("--documents", type=int, default=6_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    chance = random.Random(SEED)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        real = list(islice(common.documents(common.kowiki(arguments.kowiki)), arguments.documents))
        planted = list(planted_copies(real, chance))
        documents = real + [one.variant for one in planted]
        chance.shuffle(documents)
        texts = {one.id: one.text for one in documents}
        by_grams = {one.variant.id: similarity(one.base.text, one.variant.text) for one in planted}
        our = ours(documents, work, arguments.workers)
        peer, by_shingles = Outcome(float("nan"), {}), by_grams
        if arguments.peers:
            peer, by_shingles = peers(documents, planted, work, arguments.workers, arguments.peers)

    megabytes = sum(len(text.encode()) for text in texts.values()) / 1e6
    print(f"{len(documents):,} documents, {megabytes:.1f} MB, {len(planted)} planted copies, {arguments.workers} processes")
    our_speed, peer_speed = (len(documents) / one.seconds for one in (our, peer))
    (our_found, our_high), (peer_found, peer_high) = recall(planted, by_grams, our), recall(planted, by_shingles, peer)
    (our_false, our_least), (peer_false, peer_least) = false_merges(our, texts), false_merges(peer, texts)
    rows = [
        ("what", "ours", "datatrove 0.9.0", "ratio", "goal"),
        ("documents/s", f"{our_speed:,.0f}", f"{peer_speed:,.0f}", f"{our_speed / peer_speed:.1f}", f">= {GOAL_RATIO:g}"),
        (
            f"planted, similarity >= {HIGH}, found",
            f"{our_found}/{our_high} = {our_found / our_high:.3f}",
            f"{peer_found}/{peer_high} = {peer_found / peer_high:.3f}",
            "",
            f">= {GOAL_RECALL}",
        ),
        (f"removed for one below {LOW}", f"{our_false} of {len(our.removed)}", f"{peer_false} of {len(peer.removed)}", "", "0"),
        ("least similarity of a removed one", f"{our_least:.3f}", f"{peer_least:.3f}", "", ""),
    ]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, (36, 18, 18, 6, 7))).rstrip())
    print("Similarity: Jaccard of character 5-grams; what the peer should find is told by its own 5-grams of words.")
    good = our_found >= GOAL_RECALL * our_high and not our_false and not our_speed < GOAL_RATIO * peer_speed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
