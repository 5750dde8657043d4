"""An example as text shows what was done to it."""

from __future__ import annotations

import numpy as np
import pytest

from korealbert.artifact import Artifact
from korealbert.examples.batches import IGNORED, ExampleBatches
from korealbert.examples.render import STYLES, render, render_rows
from korealbert.vocab.tokenizer import SPECIAL, Vocabulary


def test_every_kind_of_noise_shows_in_its_style(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    batch = batches.gather(0, np.arange(batches.num_rows))
    for row in range(20):
        text = render(batches, 0, row, vocabulary)
        ids, positions, labels = batch.input_ids[row], batch.mlm_positions[row], batch.mlm_labels[row]
        used = labels != IGNORED
        masked = int((ids[positions[used]] == SPECIAL.mask).sum())
        shown = [span for span in text.spans if str(span.style).startswith(STYLES["masked"])]
        assert len(shown) == masked == text.plain.count("→[MASK]")
        moved = [span for span in text.spans if str(span.style).startswith(STYLES["moved"])]
        assert len(moved) == int((batch.wop_labels[row] != IGNORED).sum())


def test_unmarked_text_reads_as_korean(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    text = render(batches, 0, 0, vocabulary).plain
    assert "▁" not in text
    assert text.count("[SEP]") == 2
    assert "[CLS]" in text
    assert "swapped" in text or "in order" in text


def test_all_rows_come_after_a_legend(packed: Artifact, viewed: Artifact, vocab: Artifact) -> None:
    shown = list(render_rows(packed.path, viewed.path, vocab.path, 2))
    assert "hidden→[MASK]" in shown[0].plain
    assert len(shown) == 1 + packed.stats["rows_train"]
    with pytest.raises(IndexError, match="view 7 of 3"):
        list(render_rows(packed.path, viewed.path, vocab.path, 7))
