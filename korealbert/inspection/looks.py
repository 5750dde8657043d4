"""How renderings look: one name per meaning, with its colour in a terminal and on a page.

Orange, blue, pink and teal stay apart for people who confuse red and green, and are legible on light and dark grounds. No
meaning rests on colour: every one has a sign in the text as well, for pipes and ``NO_COLOR``.
"""

from __future__ import annotations

STYLES = {
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
"""What each style is in a terminal."""

CSS = """
.item .heading{font-weight:650}.item .quiet{color:var(--quiet)}.item .reason{color:var(--two)}
.item .masked{font-weight:650;color:var(--two)}
.item .random{font-weight:650;color:var(--four);text-decoration:underline wavy 1px}
.item .kept{color:var(--three);text-decoration:underline}
.item .moved{font-weight:650;color:var(--one)}
.item .removed{color:var(--two);text-decoration:line-through}
.item .added{font-weight:650;color:var(--one)}
.item .evidence{font-weight:650;color:var(--four);text-decoration:underline}
:root{--four:#a3387f}
@media (prefers-color-scheme:dark){:root{--four:#e08fc6}}
.item{white-space:pre-wrap;word-break:keep-all;overflow-wrap:anywhere;margin:0;padding:1.1rem 0;line-height:1.75;
border-bottom:1px solid var(--rule);max-width:none}
"""
"""What each style is on a page, upon the palette of reports."""

REMOVED = "[-{}-]"
"""Text that was taken out, as ``git diff --word-diff`` and ``wdiff`` write it."""
ADDED = "{{+{}+}}"
EVIDENCE = "⟪{}⟫"
"""The place that a rule matched."""
