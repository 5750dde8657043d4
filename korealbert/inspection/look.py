"""Items of an artifact as text in named styles, and a page of them as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Literal

from markupsafe import Markup
from rich.text import Text
from rich.theme import Theme

from korealbert.artifact import Artifact
from korealbert.corpus.crawl.stage import read_log
from korealbert.documents.shards import kept_nothing
from korealbert.examples.render import legend, render_rows
from korealbert.examples.views import ViewsStats
from korealbert.inspection import documents
from korealbert.report.render.markup import escape, join, style_sheet, tag
from korealbert.report.render.writer import document


def urls(artifact: Artifact, outcome: str | None) -> Iterator[Text]:
    """Yield the URLs that a crawl found; with ``outcome`` only those of this state or reason (``all``: any).

    Raises ValueError listing the outcomes if no URL has this one.
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
    details = (row.get(name) for name in ("section", "published", "fetched", "detail", "other"))
    facts = "  ".join(filter(None, (row["kind"], where, *details)))
    return Text.assemble((f"{row['url']}\n", "heading"), (f"{what}\n", "reason"), (facts, "quiet"))


# People who confuse red and green can distinguish orange, blue, pink and teal, and all are legible on light and dark grounds.
# Each style has a sign in the text too, for pipes and ``NO_COLOR``.
_STYLES = {
    "masked": "bold #c9680a",
    "random": "bold underline #b8559b",
    "kept": "underline #0f8f6e",
    "moved": "bold #2f84cf",
    "removed": "strike #c9680a",
    "added": "bold #2f84cf",
    "evidence": "bold underline #b8559b",
    "heading": "bold",
    "reason": "#c9680a",
    "quiet": "dim",
}
"""Styles in a terminal; those of pages are in ``items.css``."""

THEME = Theme(_STYLES)
_Shows = Literal["documents", "examples", "urls"]
_NOTHING_KEPT = "no document was kept; --dropped all shows those that were dropped, --quarantine what could not be read"


@dataclass(frozen=True)
class Selection:
    """The items of an artifact to show: by default its documents, or the examples of a views artifact."""

    dropped: str | None = None
    """Show documents dropped for this reason, or a crawl's URLs with this outcome."""
    quarantine: bool = False
    diff: bool = False
    """Show documents that the stage changed."""
    view: int = 0
    wanted: str = ""
    """Id of an example, or the beginning of a document's id."""
    whole: bool = False
    """Show long texts in full."""


def has_items(artifact: Artifact, shows: _Shows) -> bool:
    """Whether ``items`` shows something without further options, or names those that do; ``shows``: see ``Stage``."""
    return shows != "documents" or kept_nothing(artifact) or any(artifact.files("documents-*.arrow"))


def items(
    artifact: Artifact, selection: Selection, *, shows: _Shows = "documents", limit: int, offset: int = 0
) -> Iterator[Text]:
    """Yield ``limit`` items after the first ``offset``, or one that says that there are none; ``shows``: see ``Stage``.

    Raises ValueError for a stage, reason, view, id or comparison that has no items, and for options that exclude each other.
    """
    _check_compatible(selection, shows)
    stage = artifact.manifest["recipe"]["stage"]
    is_kept = not (selection.quarantine or selection.diff or selection.dropped)
    of_examples = shows == "examples" and is_kept
    if not (has_items(artifact, shows) if is_kept else shows == "urls" or "documents_out" in artifact.stats):
        raise ValueError(
            f"{artifact.name}: stage {stage} writes no documents; "
            f"`korealbert show {artifact.name}` prints its statistics, and its files are in {artifact.path}"
        )
    if of_examples:
        found = _examples(artifact, selection, offset)
        yield legend()
    else:
        found = islice(_documents(artifact, selection, shows), offset, None)
    shown = 0
    for shown, item in enumerate(islice(found, limit), start=1):  # noqa: B007
        yield item
    after = f" after the first {offset:,}" if offset else ""
    if not shown and selection.wanted:
        problem = f"nothing of this kind has the id {selection.wanted!r}{after}"
        raise ValueError(f"{artifact.name}: {problem}; leave out --id to see them all")
    if not shown:
        lost = shows == "documents" and is_kept and kept_nothing(artifact)
        yield Text(_NOTHING_KEPT if lost else f"nothing of this kind in the artifact{after}")


def _check_compatible(selection: Selection, shows: _Shows) -> None:
    options = {"--dropped": selection.dropped is not None, "--quarantine": selection.quarantine, "--diff": selection.diff}
    given = [option for option, is_given in options.items() if is_given]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other; give one of them")
    if selection.quarantine and selection.wanted:
        raise ValueError("--id names a document, and --quarantine shows input that is not one; give one of them")
    if shows == "urls" and (selection.diff or selection.wanted):
        option = "--diff" if selection.diff else "--id"
        raise ValueError(f"{option} is for documents, and a crawl has URLs; leave it out, or choose an outcome with --dropped")


def _documents(artifact: Artifact, selection: Selection, shows: _Shows) -> Iterator[Text]:
    if shows == "urls":
        return urls(artifact, "failed" if selection.quarantine else selection.dropped)
    if selection.quarantine:
        return documents.quarantined(artifact)
    if selection.diff:
        return documents.changes(artifact, whole=selection.whole, wanted=selection.wanted)
    if selection.dropped:
        return documents.dropped(artifact, selection.dropped, whole=selection.whole, wanted=selection.wanted)
    return documents.documents(artifact, whole=selection.whole, wanted=selection.wanted)


def _examples(artifact: Artifact, selection: Selection, offset: int) -> Iterator[Text]:
    views = artifact.stats_as(ViewsStats).views
    if not 0 <= selection.view < views:
        raise ValueError(f"{artifact.name} has views 0 to {views - 1}, not {selection.view}; choose one with --view")
    inputs = artifact.inputs()
    examples, vocab = inputs["examples"].path, inputs["vocab"].path
    return render_rows(examples, artifact.path, vocab, selection.view, offset=offset, wanted=selection.wanted)


def page(title: str, items: Iterable[Text]) -> str:
    """Return a complete HTML page."""
    return document("items.html", css=style_sheet("palette", "page", "items"), title=title, items=map(markup, items))


def markup(text: Text) -> Markup:
    """Return a text as HTML, with its styles as classes."""
    borders = sorted({0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))})
    parts = []
    for start, end in pairwise(borders):
        names = [str(span.style) for span in text.spans if span.start <= start and end <= span.end]
        piece, classes = text.plain[start:end], " ".join(name for name in names if name in _STYLES)
        parts.append(tag("span", piece, class_=classes) if classes else escape(piece))
    return join(*parts)
