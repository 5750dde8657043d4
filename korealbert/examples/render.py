"""A noised example as coloured text: what was masked, replaced, swapped and moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.text import Text

from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.vocab.tokenizer import SPACE, SPECIAL, Vocabulary

STYLES = {
    "masked": "bold yellow",
    "random": "bold red",
    "kept": "bold green",
    "moved": "bold cyan",
    "special": "dim",
    "second": "italic",
}
"""How each kind of noise is shown; ``second`` is the second segment."""

ORDER = {0: "in order", 1: "swapped, or not the continuation", IGNORED: "no label"}


def render_rows(examples: Path, views: Path, vocab: Path, view: int) -> Iterator[Text]:
    """All training rows under one view, with a legend first; errors as those of ``ExampleBatches`` and ``Vocabulary``."""
    batches, vocabulary = ExampleBatches(examples, views, "train"), Vocabulary.load(vocab)
    yield legend()
    for row in range(batches.num_rows):
        yield render(batches, view, row, vocabulary)


def legend() -> Text:
    """What the colours mean."""
    text = Text()
    text.append("hidden→[MASK]", STYLES["masked"]).append("  ")
    text.append("original→random", STYLES["random"]).append("  ")
    text.append("predicted as it is", STYLES["kept"]).append("  ")
    text.append("moved token←position it came from", STYLES["moved"]).append("  ")
    return text.append("second segment", STYLES["second"])


def render(batches: ExampleBatches, view: int, row: int, vocabulary: Vocabulary) -> Text:
    """One row under one view. Raises IndexError for a row or view that is not there."""
    batch = batches.gather(view, np.array([row]))
    label = ORDER[int(batch.sop_labels[0])]
    pieces = int(batch.lengths[0])
    masks, moves = _targets(batch.mlm_positions, batch.mlm_labels), _targets(batch.wop_positions, batch.wop_labels)
    head = f"row {row}, view {view}: {pieces} tokens, {len(masks)} predicted, {len(moves)} moved, segments {label}\n"
    text = Text(head, "bold")
    for position in range(pieces):
        text.append_text(_token(batch, position, masks, moves, vocabulary))
    return text


def _targets(positions: np.ndarray, labels: np.ndarray) -> dict[int, int]:
    return {int(p): int(label) for p, label in zip(positions[0], labels[0], strict=True) if label != IGNORED}


def _token(batch: Batch, position: int, masks: dict[int, int], moves: dict[int, int], vocabulary: Vocabulary) -> Text:
    id_ = int(batch.input_ids[0, position])
    (piece,) = vocabulary.pieces([id_])
    space, shown = (" ", piece.removeprefix(SPACE)) if piece.startswith(SPACE) else ("", piece)
    kind = ""
    if position in masks:
        (original,) = vocabulary.pieces([masks[position]])
        kind = "masked" if id_ == SPECIAL.mask else "kept" if id_ == masks[position] else "random"
        space = " " if original.startswith(SPACE) else space
        shown = shown if kind == "kept" else f"{original.removeprefix(SPACE)}→{shown}"
    elif position in moves:
        kind, shown = "moved", f"{shown}←{moves[position]}"
    elif id_ in SPECIAL:
        kind, space, shown = "special", " ", f"{shown} " if id_ == SPECIAL.cls else shown
    styles = [STYLES[kind]] if kind else []
    if batch.token_type_ids[0, position]:
        styles.append(STYLES["second"])
    return Text(space).append(shown, " ".join(styles))
