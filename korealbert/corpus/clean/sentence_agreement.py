"""How far the sentence rules and Kiwi agree on the corpus at hand: boundary F1 over a small sample of its documents.

The sample is those documents whose hashed ids are least, so it depends on neither shards nor workers, and their first
``CHARACTERS_PER_DOCUMENT`` characters: Kiwi's slowness costs the same seconds for any corpus.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from korealbert.artifact import Stats
from korealbert.corpus.clean.sentences import split_line, split_line_kiwi
from korealbert.documents.arrow import TableWriter, read_batches
from korealbert.hashing import hash64

CHARACTERS_PER_DOCUMENT = 2_000
"""A sampled document counts up to the end of the line in which this many are reached."""

SAMPLE_SCHEMA = pa.schema([("draw", pa.uint64()), ("text", pa.string())])


class SentenceSample:
    """The documents of one shard that may belong to the sample; its file is written at the end of the context."""

    def __init__(self, out_dir: Path, index: int, size: int) -> None:
        self._path, self._size = out_dir / ".work" / f"sentences-{index:05d}.arrow", size
        self._least: list[tuple[int, str]] = []  # a heap by negative draw: the greatest goes first

    def add(self, document_id: str, text: str) -> None:
        """Offer a document with its text before splitting."""
        entry = (-hash64(f"sentences\0{document_id}"), text)
        if len(self._least) < self._size:
            heapq.heappush(self._least, entry)
        elif self._least and entry > self._least[0]:
            heapq.heapreplace(self._least, entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._least:
            self._path.parent.mkdir(exist_ok=True)
            with TableWriter(self._path, SAMPLE_SCHEMA) as table:
                for draw, text in sorted(self._least):
                    table.append((-draw, _beginning(text)))


def _beginning(text: str) -> str:
    end = text.find("\n", CHARACTERS_PER_DOCUMENT)
    return text if end < 0 else text[:end]


def agreement(size: int, index: int, out_dir: Path) -> Stats:
    """Compare both splitters on the ``size`` documents sampled from all shards; see ``compare``."""
    rows: list[tuple[int, str]] = []
    for path in sorted((out_dir / ".work").glob("sentences-*.arrow")):
        for batch in read_batches(path, SAMPLE_SCHEMA):
            rows = heapq.nsmallest(size, [*rows, *zip(*(column.to_pylist() for column in batch.columns))])
    return compare(text for _, text in rows)


def compare(texts: Iterable[str]) -> dict[str, Any]:
    """Boundaries within lines: those that ``both`` set, ``rules_only``, ``kiwi_only``; ``f1`` = 2·both / (2·both + the others).

    ``f1`` is 1 where neither sets any. A boundary's place is the number of non-blank characters before it.
    """
    both = rules_only = kiwi_only = documents = 0
    for text in texts:
        documents += 1
        for line in text.split("\n"):
            rules, kiwi = _boundaries(split_line(line)), _boundaries(split_line_kiwi(line))
            both += len(rules & kiwi)
            rules_only += len(rules - kiwi)
            kiwi_only += len(kiwi - rules)
    set_at_all = 2 * both + rules_only + kiwi_only
    counts = {"documents": documents, "both": both, "rules_only": rules_only, "kiwi_only": kiwi_only}
    return {**counts, "f1": round(2 * both / set_at_all, 4) if set_at_all else 1.0}


def _boundaries(sentences: list[str]) -> set[int]:
    places, place = set(), 0
    for sentence in sentences[:-1]:
        place += sum(map(len, sentence.split()))
        places.add(place)
    return places
