"""Renders a noised example as text: masked, replaced, kept, swapped and moved pieces are marked, below the original text.

Styles are names (masked, random, kept, moved, quiet, heading, reason); signs around each piece show the same without colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.text import Text

from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.examples.schema import SentenceTask
from korealbert.examples.table import RowTable
from korealbert.vocab.tokenizer import SPACE, SPECIAL, Vocabulary

_ORDER = {
    "sop": {0: "in order", 1: "swapped", IGNORED: "no label"},
    "nsp": {0: "in order", 1: "the second is another document's", IGNORED: "no label"},
    "none": {IGNORED: "no label"},
}
"""Meaning of the sentence label, by sentence task."""

_ENDS = (SPECIAL.cls, SPECIAL.sep)
_BLANK = "␣"
"""Shown for a piece that is only the space before a word."""
_CAME = {"first": " (came after the other)", "second": " (came before the other)"}
"""Note on swapped segments."""


def render_rows(examples: Path, views: Path, vocab: Path, view: int, *, offset: int = 0, wanted: str = "") -> Iterator[Text]:
    """Yield training rows under one view, from the ``offset``-th on; raises as ``ExampleBatches`` and ``Vocabulary`` do.

    ``wanted`` selects one example by number, or the rows of a document by its id.
    """
    batches, vocabulary, table = ExampleBatches(examples, views, "train"), Vocabulary.load(vocab), RowTable(examples, "train")
    if not 0 <= view < batches.num_views:
        raise IndexError(f"view {view} of {batches.num_views}")
    task = batches.header(view).sentence_task
    rows = np.arange(batches.num_rows)
    if wanted:
        names = table.columns(["example_id", "doc_id"], rows)
        rows = np.array([row for row, *own in zip(rows, *names) if wanted in (str(own[0]), f"{own[1]:016x}")], dtype=np.int64)
    for row in rows[offset:].tolist():
        facts = table.take(np.array([row]))
        name = f"row {row}, example {facts.example_id[0]} of document {facts.doc_id[0]:016x}"
        yield render(batches, view, row, vocabulary, task=task, name=name)


def legend() -> Text:
    """Return the legend of signs and colours."""
    return Text.assemble(
        ("⟦MASK|piece⟧", "masked"),
        " hidden, to be predicted   ",
        ("⟦other|piece⟧", "random"),
        " replaced by a random piece, to be predicted   ",
        ("⟦=piece⟧", "kept"),
        " left as it is, to be predicted\n",
        ("‹piece←2›", "moved"),
        " moved two places to the left, ",
        ("‹piece→2›", "moved"),
        " to the right; its old place is to be predicted   ",
        ("first:", "quiet"),
        " and ",
        ("second:", "quiet"),
        " the two segments, in the order that the model sees",
    )


def render(
    batches: ExampleBatches, view: int, row: int, vocabulary: Vocabulary, *, task: SentenceTask = "sop", name: str = ""
) -> Text:
    """Render one row under one view. Raises IndexError for a row or view that does not exist."""
    batch = batches.gather(view, np.array([row]))
    label, pieces = int(batch.sop_labels[0]), int(batch.lengths[0])
    masks, moves = _targets(batch.mlm_positions, batch.mlm_labels), _targets(batch.wop_positions, batch.wop_labels)
    kinds = [_kind(batch, position, masks) for position in masks]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("masked", "random", "kept"))
    text = Text.assemble((f"{name or f'row {row}'}, view {view}\n", "heading"))
    facts = f"{pieces} pieces with specials; {len(masks)} to predict ({counts}); {len(moves)} moved; segments: "
    text.append(facts, "quiet").append(_ORDER[task][label], "reason" if label == 1 else "quiet")
    clean = _clean(batch, masks, moves)
    segments = [[p for p in range(pieces) if batch.token_type_ids[0, p] == kind] for kind in (0, 1)]
    swapped = task == "sop" and label == 1
    written = segments[::-1] if swapped else segments
    spelt = [_spelt(int(clean[p]), vocabulary) for part in written for p in part if clean[p] not in _ENDS]
    text.append(f"\nas written: {''.join(spelt).strip()}", "quiet")
    for title, positions in zip(("first", "second"), segments):
        if positions:
            text.append(f"\n{title}{_CAME[title] if swapped else ''}:", "quiet")
            for position in positions:
                text.append_text(_token(batch, position, masks, moves, vocabulary))
    return text


def _targets(positions: np.ndarray, labels: np.ndarray) -> dict[int, int]:
    return {int(p): int(label) for p, label in zip(positions[0], labels[0], strict=True) if label != IGNORED}


def _clean(batch: Batch, masks: dict[int, int], moves: dict[int, int]) -> np.ndarray:
    """Return the pieces before masks and moves: int64 [L]."""
    clean: np.ndarray = batch.input_ids[0].copy()
    for position, original in masks.items():
        clean[position] = original
    for position, origin in moves.items():
        clean[origin] = batch.input_ids[0, position]
    return clean


def _kind(batch: Batch, position: int, masks: dict[int, int]) -> str:
    shown = int(batch.input_ids[0, position])
    return "masked" if shown == SPECIAL.mask else "kept" if shown == masks[position] else "random"


def _spelt(id_: int, vocabulary: Vocabulary) -> str:
    (piece,) = vocabulary.pieces([id_])
    return " " + piece.removeprefix(SPACE) if piece.startswith(SPACE) else piece


def _token(batch: Batch, position: int, masks: dict[int, int], moves: dict[int, int], vocabulary: Vocabulary) -> Text:
    id_ = int(batch.input_ids[0, position])
    spelt = _spelt(id_, vocabulary)
    if id_ in SPECIAL and position not in masks:
        return Text(f" {spelt.strip()}", "quiet")
    if position in masks:
        kind, original = _kind(batch, position, masks), _spelt(masks[position], vocabulary)
        space = " " if original.startswith(" ") else ""
        seen = {"masked": "MASK|", "random": f"{spelt.strip() or _BLANK}|", "kept": "="}[kind]
        return Text.assemble(space, (f"⟦{seen}{original.strip() or _BLANK}⟧", kind))
    if position in moves:
        way = moves[position] - position
        space = " " if spelt.startswith(" ") else ""
        return Text.assemble(space, (f"‹{spelt.strip() or _BLANK}{'←' if way > 0 else '→'}{abs(way)}›", "moved"))
    return Text(spelt)
