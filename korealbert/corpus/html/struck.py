"""Struck text of HTML pages: what a correction replaces goes, jokes, old prices and parts of sentences stay."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import Any

_STRUCK = ("del", "s", "strike")
_TAG = re.compile(rf"<(/?)({'|'.join(_STRUCK)})(?=[\s/>])", re.IGNORECASE)
_PARAGRAPHS = frozenset(("p", "li", "dd", "blockquote"))


def show_struck(tree: Any, source: str) -> None:
    """Remove struck text beside the ``ins`` that corrects it and paragraphs that are ``del`` as a whole; show the rest as text.

    Nothing goes if one of the source's tags of that name is not closed, because such an element reaches to the end of the page.
    """
    if not (tags := Counter((close, name.lower()) for close, name in _TAG.findall(source))):
        return
    closed = {name for name in _STRUCK if tags["", name] == tags["/", name]}
    struck = list(tree.iter(*_STRUCK))
    deleted = [one for one in struck if one.tag in closed and (_is_corrected(one) or (one.tag == "del" and _is_block(one)))]
    for one in deleted:
        one.drop_tree()
    for one in struck:
        if one.getparent() is not None:
            one.drop_tag()


def _is_corrected(struck: Any) -> bool:
    after, before = struck.getnext(), struck.getprevious()
    corrections = (
        after if not (struck.tail or "").strip() else None,
        before if before is not None and not before.tail else None,
    )
    return any(one is not None and one.tag == "ins" and one.text_content().strip() for one in corrections)


def _is_block(deleted: Any) -> bool:
    """Return whether an element holds paragraphs, or is all of one."""
    block = deleted.getparent()
    alone = block is not None and len(block) == 1 and not f"{block.text or ''}{deleted.tail or ''}".strip()
    return (alone and block.tag in _PARAGRAPHS) or any(node.tag in _PARAGRAPHS for node in islice(deleted.iter(), 1, None))
