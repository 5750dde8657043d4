"""The URLs of a crawl as text, with what became of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from korealbert.artifact import Artifact
from korealbert.corpus.crawl.stage import read_log


def urls(artifact: Artifact, outcome: str | None) -> Iterator[Text]:
    """URLs that a crawl came to know; with ``outcome`` those of this state or reason (all: any).

    Raises ValueError naming the outcomes that occur when none is the one asked for.
    """
    found: set[str] = set()
    shown = False
    for row in read_log(artifact.path):
        words = {row["state"], row.get("reason", "")} - {""}
        found |= words
        if outcome in (None, "all", *words):
            shown = True
            yield _url(row)
    if outcome is not None and not shown:
        raise ValueError(f"{artifact.name}: no URL was {outcome!r}; outcomes: {', '.join(sorted(found))}")


def _url(row: dict[str, Any]) -> Text:
    what = ": ".join(row[name] for name in ("state", "reason") if name in row)
    where = f"page {row['file']}, byte {row['offset']}" if "offset" in row else ""
    told = (row.get(name) for name in ("section", "published", "fetched", "detail", "other"))
    facts = "  ".join(filter(None, (row["kind"], where, *told)))
    return Text.assemble((f"{row['url']}\n", "heading"), (f"{what}\n", "reason"), (facts, "quiet"))
