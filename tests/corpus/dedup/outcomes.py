"""What deduplication keeps and drops, for tests."""

from __future__ import annotations

from pathlib import Path

from korealbert.corpus.dedup.stage import STAGE, DedupSpec
from korealbert.documents.schema import Document
from tests.corpus.documents_made import dropped, kept, ran, stored


def outcome(tmp_path: Path, spec: DedupSpec, **sources: list[Document]) -> tuple[set[str], dict[str, tuple[str, str]]]:
    roles = {name: stored(tmp_path / name, documents) for name, documents in sources.items()}
    ran(STAGE, spec, roles, tmp_path / "out")
    return {one.id for one in kept(tmp_path / "out")}, dropped(tmp_path / "out")
