"""The defects of google-research/albert's ``create_pretraining_data.py``, and what we do instead: D1 to D15."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from korealbert.artifact import Artifact, Runtime, build
from korealbert.examples.batches import IGNORED, ExampleBatches
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import draw
from korealbert.examples.schema import HELDOUT_VIEW
from korealbert.examples.segments import cut_document
from korealbert.examples.table import Column, RowTable
from korealbert.examples.views import STAGE, ViewsSpec
from korealbert.examples.word_order import WordOrderSpec
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, SPECIAL, Vocabulary
from tests.examples.made import (
    made_rows,
    made_words,
    noise_settings,
    noised,
    random_rows,
    read,
    sentence_numbers,
    words_in,
)

WORDS = made_words()


def test_d1_a_lone_sentence_takes_another_and_else_stays_unlabelled() -> None:
    # The script takes a second segment from another document and labels it, in SOP mode too (google-research/albert#234).
    chunks = cut_document([9, 3, 4], bytes(17), lambda chunk: 8, max_pieces=24, min_pieces=2, carry=True).chunks
    assert [chunk.sentence_lengths for chunk in chunks] == [(9, 3), (4,)]
    reading = read(noised(draw(made_rows([[[9, 10, 11, 12]]]), WORDS, noise_settings(), 0)), 0)
    assert reading.label == IGNORED
    assert reading.segments == [[9, 10, 11, 12]]
    assert draw(made_rows([[[9, 10]]] * 3), WORDS, noise_settings(), 0).counts()["single_segment"] == 3


def test_d2_the_sentence_task_has_a_name() -> None:
    # random_next_sentence=True is NSP although its help says otherwise (google-research/albert#102).
    assert ViewsSpec().sentence_task == "sop"
    for task in ("none", "nsp", "sop"):
        assert ViewsSpec(sentence_task=task).sentence_task == task  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sentence_task"):
        ViewsSpec(sentence_task="random")  # type: ignore[arg-type]


def test_d3_a_random_second_segment_never_comes_from_the_same_document(
    tmp_path: Path, packed: Artifact, vocab: Artifact
) -> None:
    # The script gives up after ten tries. Here all rows but three belong to one document.
    table = RowTable(packed.path, "train")
    rows = table.take(np.arange(len(table)))
    owner = np.where(np.arange(len(rows)) < len(rows) - 3, 1, 2 + np.arange(len(rows)))
    for shard, begin in zip(table.shards, table.numbers.offsets, strict=False):
        object.__setattr__(shard, "doc_id", owner[begin : begin + len(shard)].astype(np.uint64))
    table._columns["doc_id"] = Column([shard.doc_id for shard in table.shards])
    mine = table.take(np.arange(len(table)))
    words, size = Vocabulary.load(vocab.path).words(), table.headers[0].vocab_size
    view = draw(mine, words, noise_settings(task="nsp", vocab_size=size), 0, table).view
    assert view.b_row is not None
    foreign = view.sop == 1
    assert foreign.sum() > 100
    assert (owner[view.b_row[foreign]] != owner[foreign]).all()
    assert len(set(view.b_row[foreign][owner[foreign] == 1].tolist())) == 3, "each of the three others"


def test_d4_korean_words_begin_with_a_space_or_are_punctuation(vocabulary: Vocabulary) -> None:
    # The script takes every piece with a letter beyond a-z for a word's start: all of Hangul (google-research/albert#161).
    words = vocabulary.words()
    hangul = [i for i, piece in enumerate(vocabulary.pieces(np.arange(vocabulary.size))) if "가" <= piece[-1:] <= "힣"]
    inside = [i for i in hangul if not words.starts[i]]
    assert len(inside) > 50
    assert all(not piece.startswith("▁") for piece in vocabulary.pieces(inside))
    (ids,) = vocabulary.encode(["고양이를 징검다리에서 기다렸다."])
    forced = np.arange(len(ids)) == 0
    assert int(words.mark(ids, forced).sum()) == 4, "three words and a full stop"


def test_d5_a_segment_begins_a_word_even_inside_one() -> None:
    # 10 and 11 never begin a word, so the script would join them to the word before, across [SEP].
    rows = made_rows([[[9, 10, 11], [10, 11, 10]]] * 200)
    batch = noised(draw(rows, WORDS, noise_settings(masking=MaskingSpec(rate=0.5)), 0))
    for row in range(200):
        reading = read(batch, row)
        position = 1
        for segment in reading.segments:
            assert len(words_in(segment, WORDS, set())) == 1
            assert sum(position + i in reading.masks for i in range(len(segment))) in (0, len(segment))
            position += len(segment) + 1


def test_d6_ngrams_end_with_their_segment() -> None:
    # Ten words in two segments, three to predict in n-grams of three: three in a row, but never around [SEP].
    rows = made_rows([[[9, 10, 11, 12, 13], [14, 15, 16, 17, 18]]] * 4_000)
    masking = MaskingSpec(unit="token", ngram_max=3, rate=0.3)
    places = draw(rows, WORDS, noise_settings(masking=masking), 0).masked.places.reshape(-1, 3)
    first = places[(np.diff(places, axis=1) == 1).all(axis=1)][:, 0]
    starts = np.bincount(first, minlength=8)
    across, within = starts[[3, 4]], np.delete(starts, [3, 4])
    assert across.max() < 0.75 * within.min(), "three neighbours across [SEP] are chance, not an n-gram"


def test_d7_no_piece_is_chosen_twice() -> None:
    masked = draw(random_rows(300), WORDS, noise_settings(masking=MaskingSpec(ngram_max=3, rate=0.4)), 0).masked
    assert len(np.unique(masked.rows * 1_000 + masked.places)) == len(masked.rows)


def test_d8_all_draws_follow_from_the_seed() -> None:
    # The script draws the length of n-grams from an unseeded generator.
    noise = noise_settings(masking=MaskingSpec(ngram_max=3))
    np.random.seed(1)
    first = draw(random_rows(50), WORDS, noise, 0).view
    np.random.seed(2)
    again = draw(random_rows(50), WORDS, noise, 0).view
    assert np.array_equal(first.mlm_pos, again.mlm_pos)
    assert np.array_equal(first.mlm_id, again.mlm_id)


def test_d9_random_pieces_are_never_special() -> None:
    noise = noise_settings(masking=MaskingSpec(mask_portion=0.0, random_portion=1.0, rate=0.5))
    replaced = draw(random_rows(500), WORDS, noise, 0).masked.replacement
    assert replaced.min() == FIRST_ORDINARY_ID
    assert len(np.unique(replaced)) == noise.vocab_size - FIRST_ORDINARY_ID, "every ordinary piece comes"


def test_d10_the_budget_counts_ordinary_pieces_and_grows_with_the_length() -> None:
    assert [MaskingSpec().slots(length) for length in (128, 256, 512)] == [19, 38, 76]
    noise = noise_settings(masking=MaskingSpec(unit="token"), sequence_length=512)
    assert (draw(random_rows(40, width=509), WORDS, noise, 0).view.mlm_count == round(0.15 * 509)).all()


def test_d11_both_orders_lose_the_same_pieces() -> None:
    # Rows are cut before they are split and swapped, so nothing is lost after the label is drawn.
    rows = random_rows(400)
    drawn = draw(rows, WORDS, noise_settings(), 0)
    assert {int(label) for label in drawn.view.sop} == {0, 1}
    assert np.array_equal(np.sort(drawn.layout.ids, axis=1), np.sort(rows.ids.astype(np.int64), axis=1))


def test_d12_unused_slots_are_ignored_by_their_label() -> None:
    batch = noised(draw(made_rows([[[9, 12, 15], [18, 21]]]), WORDS, noise_settings(), 0))
    used = batch.mlm_labels[0] != IGNORED
    assert used.sum() == 1
    assert (batch.mlm_labels[0][~used] == -100).all()
    assert (batch.mlm_positions[0][~used] == 0).all()
    assert batch.input_ids[0, 0] == SPECIAL.cls


def test_d13_another_view_splits_swaps_and_masks_anew_without_another_copy_of_the_text(
    packed: Artifact, viewed: Artifact
) -> None:
    batches = ExampleBatches(packed.path, viewed.path, "train")
    first, second = (batches.gather(view, np.arange(batches.num_rows)) for view in (0, 1))
    assert (first.sop_labels != second.sop_labels).mean() > 0.3
    assert (first.mlm_positions != second.mlm_positions).mean() > 0.5
    view_bytes = sum(path.stat().st_size for path in viewed.files("view-001/*"))
    assert view_bytes < 0.7 * sum(path.stat().st_size for path in packed.files("train-*"))


def test_d14_text_keeps_its_case(vocabulary: Vocabulary) -> None:
    assert vocabulary.processor.Normalize("Wi-Fi") == "▁Wi-Fi"


def test_d15_words_are_moved_by_their_own_task_not_by_mlm() -> None:
    # The script's do_permutation asks the MLM head for tokens that were moved. Here moves have slots and labels of their own.
    batch = noised(draw(random_rows(100), WORDS, noise_settings(word_order=WordOrderSpec(portion=1.0)), 0))
    for row in range(100):
        reading = read(batch, row)
        assert not set(reading.masks) & set(reading.moves)


@pytest.mark.parametrize("length", [16, 128, 256, 300, 512])
def test_every_length_has_room_for_its_positions(length: int) -> None:
    rows = random_rows(30, width=length - 3)
    word_order = WordOrderSpec(portion=1.0, within="segment", top_up=True)
    drawn = draw(rows, WORDS, noise_settings(word_order=word_order, sequence_length=length), 0)
    batch = noised(drawn, length)
    for row in range(30):
        reading = read(batch, row)
        assert reading.unswapped == rows.ids[row, : rows.length[row]].tolist()
        assert len(sentence_numbers(reading, [rows.ids[row].tolist()])) == length


def test_plain_dynamic_masking_has_no_other_task(tmp_path: Path, packed: Artifact, vocab: Artifact) -> None:
    # What cross-lingual post-training (XPT) trains on: single pieces, masked anew each epoch, nothing else.
    plain = ViewsSpec.model_validate(
        {"views": 2, "sentence_task": "none", "masking": {"unit": "token"}, "word_order": {"portion": 0.0}}
    )
    noise = build(STAGE, plain, {"examples": packed, "vocab": vocab}, Runtime(store=tmp_path, workers=1)).artifact
    batches = ExampleBatches(packed.path, noise.path, "train")
    first, second = (batches.gather(view, np.arange(batches.num_rows)) for view in (0, 1))
    for batch in (first, second):
        assert (batch.sop_labels == IGNORED).all()
        assert (batch.wop_labels == IGNORED).all()
    assert (first.mlm_positions != second.mlm_positions).any(axis=1).mean() > 0.95
    expected = np.minimum(np.maximum(np.rint(0.15 * (first.lengths - 3)), 1), 9)
    assert np.abs((first.mlm_labels != IGNORED).sum(axis=1) - expected).max() <= 1


def test_a_batch_holds_all_that_replaced_token_detection_needs() -> None:
    # ELECTRA masks 85 % of the chosen pieces and leaves 15 %; its generator's samples go into the clean text.
    masking = MaskingSpec(unit="token", mask_portion=0.85, random_portion=0.0)
    drawn = draw(random_rows(800), WORDS, noise_settings(masking=masking, word_order=WordOrderSpec(portion=0.0)), 0)
    counts, batch = drawn.counts(), noised(drawn)
    targets = counts["mlm_targets"]
    assert counts["random"] == 0
    assert counts["masked"] / targets == pytest.approx(0.85, abs=3 * (0.85 * 0.15 / targets) ** 0.5)
    used = batch.mlm_labels != IGNORED
    rows = np.nonzero(used)[0]
    clean = batch.input_ids.copy()
    clean[rows, batch.mlm_positions[used]] = batch.mlm_labels[used]
    assert not (clean == SPECIAL.mask).any()
    samples = np.random.default_rng(0).integers(FIRST_ORDINARY_ID, 97, int(used.sum()))
    noisy = clean.copy()
    noisy[rows, batch.mlm_positions[used]] = samples
    replaced = noisy != clean
    assert np.array_equal(replaced[rows, batch.mlm_positions[used]], samples != batch.mlm_labels[used])
    assert replaced.sum() == (samples != batch.mlm_labels[used]).sum(), "nothing else is replaced"


def test_rates_and_portions_rise_over_the_views() -> None:
    order = WordOrderSpec(portion=0.8, portion_ramp_views=4, amount="ramp", ramp_views=8, within="segment")
    assert [order.portion_in(view) for view in (0, 1, 3, 9, HELDOUT_VIEW)] == pytest.approx([0.2, 0.4, 0.8, 0.8, 0.8])
    assert [order.rate_in(view) for view in (0, 3, 7, 50)] == pytest.approx([0.15 / 8, 0.075, 0.15, 0.15])
    rows, counts = random_rows(1_500), []
    for view in (0, 3, 9):
        counts.append(draw(rows, WORDS, noise_settings(word_order=order), view).counts())
    for count, portion in zip(counts, (0.2, 0.8, 0.8), strict=True):
        assert count["wop_rows"] / 1_500 == pytest.approx(portion, abs=3 * (portion * (1 - portion) / 1_500) ** 0.5)
    rates = [count["wop_targets"] / max(1, count["wop_pieces"]) for count in counts]
    assert rates[0] < 0.02 < rates[1] < 0.075 < rates[2]
