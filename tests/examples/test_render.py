"""An example as text shows its noise."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np
import pytest

from korealbert.artifact import Artifact
from korealbert.examples.batches import IGNORED, ExampleBatches
from korealbert.examples.render import legend, render, render_rows
from korealbert.vocab.tokenizer import SPACE, SPECIAL, Vocabulary


def test_every_kind_of_noise_shows_in_its_style_and_in_its_sign(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    batch = batches.gather(0, np.arange(batches.num_rows))
    for row in range(20):
        text = render(batches, 0, row, vocabulary)
        styled = {kind: [text.plain[s.start : s.end] for s in text.spans if s.style == kind] for kind in ("masked", "moved")}
        ids, positions, labels = batch.input_ids[row], batch.mlm_positions[row], batch.mlm_labels[row]
        used = labels != IGNORED
        masked = int((ids[positions[used]] == SPECIAL.mask).sum())
        assert len(styled["masked"]) == masked == text.plain.count("⟦MASK|")
        moves = batch.wop_labels[row]
        distances = (moves - batch.wop_positions[row])[moves != IGNORED].tolist()
        shown = [re.fullmatch(r"‹.+([←→])(\d+)›", piece) for piece in styled["moved"]]
        assert [int(m[2]) * (1 if m[1] == "←" else -1) for m in shown if m] == distances


def test_the_text_as_it_was_written_stands_above(batches: ExampleBatches, vocabulary: Vocabulary, packed: Artifact) -> None:
    for row in range(20):
        text = render(batches, 0, row, vocabulary).plain
        written = next(line for line in text.splitlines() if line.startswith("as written: "))
        pieces = vocabulary.pieces(batches._rows.take(np.array([row])).ids[0].tolist())
        clean = "".join(piece.replace(SPACE, " ") for piece in pieces if piece not in {"[PAD]", "<pad>"})
        assert written.removeprefix("as written: ") == clean.strip()


def test_segments_are_told_apart_and_swapped_ones_say_so(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    labels = batches.gather(0, np.arange(batches.num_rows)).sop_labels
    swapped, ordered = int(np.flatnonzero(labels == 1)[0]), int(np.flatnonzero(labels == 0)[0])
    text = render(batches, 0, swapped, vocabulary).plain
    assert SPACE not in text
    assert text.count("[SEP]") == 2 and "[CLS]" in text
    assert "segments: swapped" in text and "\nfirst (came after the other): [CLS]" in text
    text = render(batches, 0, ordered, vocabulary).plain
    assert "segments: in order" in text and "\nsecond:" in text


def test_rows_are_found_by_place_by_number_and_by_document(packed: Artifact, viewed: Artifact, vocab: Artifact) -> None:
    where = packed.path, viewed.path, vocab.path
    shown = [text.plain for text in islice(render_rows(*where, 2), 8)]
    assert [text.plain for text in islice(render_rows(*where, 2, offset=3), 5)] == shown[3:]
    assert len(list(render_rows(*where, 2, offset=packed.stats["rows_train"] - 2))) == 2
    found = re.match(r"row 5, example (\d+) of document ([0-9a-f]{16})", shown[5])
    assert found
    assert [text.plain for text in render_rows(*where, 2, wanted=found[1])] == [shown[5]]
    of_document = [text.plain for text in render_rows(*where, 2, wanted=found[2])]
    assert shown[5] in of_document
    assert all(f"of document {found[2]}" in text for text in of_document)
    assert not list(render_rows(*where, 2, wanted="none"))
    with pytest.raises(IndexError, match="view 7 of 3"):
        list(render_rows(*where, 7))
    assert all(sign in legend().plain for sign in ("⟦MASK|piece⟧", "⟦other|piece⟧", "⟦=piece⟧", "‹piece←2›", "‹piece→2›"))
