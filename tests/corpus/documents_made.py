"""Documents and artifacts for the tests of cleaning, deduplication and balancing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from korealbert.artifact import Artifact, Runtime, Spec, Stage, Statistics, check_conservation
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DROPPED_SCHEMA, DocumentShard, read_batches, read_documents

ROOT = Path(__file__).parents[2]
RULES = ROOT / "data_specs" / "rules"
GOLDEN = ROOT / "tests" / "golden" / "news"

NOUNS = [
    *("강물", "바람", "언덕", "마을", "우체국", "사과", "기차", "도서관", "항구", "저녁", "아침", "골목", "시장", "학교"),
    *("연필", "우산", "달력", "지도", "편지", "다리"),
]
VERBS = ["흐른다", "분다", "멈췄다", "열렸다", "자란다", "떠났다", "남았다", "웃었다", "길어졌다", "빛났다"]


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def document(number: int | str, text: str, source: str = "news", **fields: str) -> Document:
    """Make a document whose id comes from its source and number."""
    return Document(document_id(source, str(number)), source, text, **fields)


def prose(seed: int, sentences: int) -> str:
    """Make sentences that no other seed gives in the same order."""
    words = []
    state = seed * 2_654_435_761 % 2**32 + 1
    for _ in range(sentences):
        picked = []
        for _ in range(5):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            picked.append(f"{NOUNS[state // 65536 % len(NOUNS)]}{state // 7 % 89}")
        words.append(f"{' '.join(picked)} {VERBS[state // 131 % len(VERBS)]}.")
    return "\n".join(words)


def stored(directory: Path, documents: Iterable[Document], per_shard: int = 5) -> Artifact:
    """Write an artifact with these documents in shards of ``per_shard``."""
    directory.mkdir(parents=True)
    everything = list(documents)
    for index, start in enumerate(range(0, len(everything), per_shard)):
        with DocumentShard(directory, index) as shard:
            for one in everything[start : start + per_shard]:
                shard.keep(one)
    return Artifact(directory.name, directory)


def ran(stage: Stage[Any], spec: Spec, inputs: dict[str, Artifact], out_dir: Path, workers: int = 1) -> dict[str, Any]:
    """Run a stage outside the store, check that no document is lost, and return its statistics."""
    out_dir.mkdir(parents=True, exist_ok=True)
    stats = stage.run(spec, inputs, out_dir, Runtime(workers=workers))
    assert isinstance(stats, Statistics)
    check_conservation(stage.name, stats.facts())
    return stats.facts()


def kept(directory: Path) -> list[Document]:
    """All documents of a stage's output, in order."""
    return [one for path in sorted(directory.glob("documents-*.arrow")) for one in read_documents(path)]


def dropped(directory: Path) -> dict[str, tuple[str, str]]:
    """id → (reason, rule) of a stage's dropped documents."""
    return {row["id"]: (row["reason"], row["rule"]) for row in dropped_rows(directory)}


def dropped_rows(directory: Path) -> Iterator[dict[str, str]]:
    """The rows of a stage's ``dropped-*`` files."""
    for path in sorted(directory.glob("dropped-*.arrow")):
        for batch in read_batches(path, DROPPED_SCHEMA):
            yield from batch.to_pylist()


def bytes_of(directory: Path) -> dict[str, bytes]:
    """Name → content of every file that a finished stage leaves."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.arrow"))}
