"""Contents of an artifact as text in named styles, limited to a page, and that page as HTML."""

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
from korealbert.examples.render import legend, render_rows
from korealbert.examples.views import ViewsStats
from korealbert.inspection import documents
from korealbert.report.render.markup import escape, join, style_sheet, tag
from korealbert.report.render.writer import document


def urls(artifact: Artifact, outcome: str | None) -> Iterator[Text]:
    """URLs that a crawl found; with ``outcome`` only those of this state or reason (all: any).

    Raises ValueError naming the outcomes that occur when no URL has this one.
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


# Orange, blue, pink and teal can be told apart by people who confuse red and green, and are legible on light and dark grounds.
# No meaning rests on colour: each has a sign in the text as well, for pipes and ``NO_COLOR``.
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
"""What each style is in a terminal; on a page, ``items.css``."""

THEME = Theme(_STYLES)
_Shows = Literal["documents", "examples", "urls"]


@dataclass(frozen=True)
class What:
    """What to show of an artifact; by default its documents, or the examples of a views artifact."""

    dropped: str | None = None
    """Documents dropped for this reason; of a crawl, URLs of this outcome."""
    quarantine: bool = False
    diff: bool = False
    """Documents that the stage changed."""
    view: int = 0
    wanted: str = ""
    """The id of a document or example, or the beginning of a document's."""
    whole: bool = False
    """Show long texts in full."""


def items(artifact: Artifact, what: What, *, shows: _Shows = "documents", limit: int, offset: int = 0) -> Iterator[Text]:
    """``limit`` items after the first ``offset``, or one that says that there are none; ``shows``: see ``Stage``.

    Raises ValueError where the stage, reason, view, id or comparison has nothing to show, and for options that exclude each
    other.
    """
    _check_compatible(what)
    stage = artifact.manifest["recipe"]["stage"]
    of_examples = shows == "examples" and not (what.quarantine or what.diff or what.dropped)
    if shows != "urls" and not of_examples and "documents_out" not in artifact.stats:
        raise ValueError(
            f"{artifact.name}: stage {stage} writes no documents; "
            f"`korealbert show {artifact.name}` prints its statistics, and its files are in {artifact.path}"
        )
    if of_examples:
        found = _examples(artifact, what, offset)
        yield legend()
    else:
        found = islice(_documents(artifact, what, shows), offset, None)
    shown = 0
    for shown, item in enumerate(islice(found, limit), start=1):  # noqa: B007
        yield item
    after = f" after the first {offset:,}" if offset else ""
    if not shown and what.wanted:
        problem = f"nothing of this kind has the id {what.wanted!r}{after}"
        raise ValueError(f"{artifact.name}: {problem}; leave out --id to see them all")
    if not shown:
        yield Text(f"nothing of this kind in the artifact{after}")


def _check_compatible(what: What) -> None:
    kinds = {"--dropped": what.dropped is not None, "--quarantine": what.quarantine, "--diff": what.diff}
    given = [option for option, wanted in kinds.items() if wanted]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other; give one of them")
    if what.quarantine and what.wanted:
        raise ValueError("--id names a document, and --quarantine shows input that is not one; give one of them")


def _documents(artifact: Artifact, what: What, shows: _Shows) -> Iterator[Text]:
    if shows == "urls":
        return urls(artifact, "failed" if what.quarantine else what.dropped)
    if what.quarantine:
        return documents.quarantined(artifact)
    if what.diff:
        return documents.changes(artifact, whole=what.whole, wanted=what.wanted)
    if what.dropped:
        return documents.dropped(artifact, what.dropped, whole=what.whole, wanted=what.wanted)
    return documents.documents(artifact, whole=what.whole, wanted=what.wanted)


def _examples(artifact: Artifact, what: What, offset: int) -> Iterator[Text]:
    views = artifact.stats_as(ViewsStats).views
    if not 0 <= what.view < views:
        raise ValueError(f"{artifact.name} has views 0 to {views - 1}, not {what.view}")
    inputs = artifact.inputs()
    examples, vocab = inputs["examples"].path, inputs["vocab"].path
    return render_rows(examples, artifact.path, vocab, what.view, offset=offset, wanted=what.wanted)


def page(title: str, items: Iterable[Text]) -> str:
    """The complete document."""
    return document("items.html", css=style_sheet("palette", "page", "items"), title=title, items=map(markup, items))


def markup(text: Text) -> Markup:
    """A text as HTML, with a class for each of its styles."""
    borders = sorted({0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))})
    parts = []
    for start, end in pairwise(borders):
        names = [str(span.style) for span in text.spans if span.start <= start and end <= span.end]
        piece, classes = text.plain[start:end], " ".join(name for name in names if name in _STYLES)
        parts.append(tag("span", piece, class_=classes) if classes else escape(piece))
    return join(*parts)
