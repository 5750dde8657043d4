"""Builds the extract stage in a temporary store and reads its output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from korealbert.artifact import Artifact, Runtime, build
from korealbert.corpus.extract import STAGE, ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined
from korealbert.documents.shards import DROPPED_SCHEMA, QUARANTINE_SCHEMA, read_batches, read_documents


@dataclass(frozen=True)
class Extracted:
    artifact: Artifact
    documents: list[Document]
    dropped: list[tuple[Document, Drop]]
    quarantined: list[Quarantined]

    @property
    def stats(self) -> dict[str, Any]:
        return self.artifact.stats

    @property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]

    @property
    def reasons(self) -> list[str]:
        return [entry.reason for entry in self.quarantined]


def extract(store: Path, paths: Path | list[Path], workers: int = 1, **fields: Any) -> Extracted:
    """Build the stage (which checks that no document is lost) and read everything that it wrote."""
    listed = paths if isinstance(paths, list) else [paths]
    given = {"source": "test", "paths": [str(path) for path in listed], "max_bad_share": 1, **fields}
    spec = ExtractSpec.model_validate(given)
    artifact = build(STAGE, spec, {}, Runtime(store=store, workers=workers)).artifact
    return read_back(artifact)


def read_back(artifact: Artifact) -> Extracted:
    documents = [document for path in artifact.files("documents-*.arrow") for document in read_documents(path)]
    dropped = []
    for row in rows(artifact, "dropped-*.arrow", DROPPED_SCHEMA):
        reason, rule = row.pop("reason"), row.pop("rule")
        dropped.append((Document(**row), Drop(reason, rule)))
    quarantined = [Quarantined(**row) for row in rows(artifact, "quarantine-*.arrow", QUARANTINE_SCHEMA)]
    return Extracted(artifact, documents, dropped, quarantined)


def rows(artifact: Artifact, pattern: str, schema: pa.Schema) -> list[dict[str, Any]]:
    return [row for path in artifact.files(pattern) for batch in read_batches(path, schema) for row in batch.to_pylist()]


PAGE = """  <page>
    <title>{title}</title>
    <ns>0</ns>
    <id>{id}</id>
    <revision><id>9{id}</id><timestamp>2019-10-01T00:00:00Z</timestamp><text xml:space="preserve">{text}</text></revision>
  </page>
"""


def dump(*pages: str) -> bytes:
    """Return a MediaWiki export of ``PAGE``s."""
    header = "<mediawiki>\n<siteinfo><base>https://wiki.example/wiki/대문</base></siteinfo>\n"
    return f"{header}{''.join(pages)}</mediawiki>\n".encode()
