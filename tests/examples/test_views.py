"""The views stage and batches: stored noise equals drawn noise, and it belongs to its rows."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, build
from korealbert.documents.shards import ShardError
from korealbert.examples import packing
from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.examples.noise import draw
from korealbert.examples.schema import HELDOUT_VIEW, View, open_rows, open_view, write_rows, write_view
from korealbert.examples.table import RowTable
from korealbert.examples.views import STAGE, ViewJob, ViewsSpec, draw_shard
from korealbert.examples.word_order import WordOrderSpec
from korealbert.vocab import stage as vocab_stage
from korealbert.vocab.tokenizer import SPECIAL, Vocabulary
from tests.examples.made import SEQUENCE_LENGTH, noised, read


def all_rows(batches: ExampleBatches) -> np.ndarray:
    return np.arange(batches.num_rows)


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Batch))


def test_batches_have_the_shapes_and_types_promised(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    batch = batches.gather(1, np.array([3, 0, 3]))
    assert all(getattr(batch, f.name).dtype == np.int64 for f in fields(Batch))
    assert batch.input_ids.shape == batch.token_type_ids.shape == (3, SEQUENCE_LENGTH)
    assert batch.mlm_positions.shape == batch.mlm_labels.shape == (3, 9)
    assert batch.wop_positions.shape == batch.wop_labels.shape == (3, 9)
    assert batch.lengths.shape == batch.sop_labels.shape == (3,)
    assert (batches.sequence_length, batches.vocab_size, batches.num_views) == (SEQUENCE_LENGTH, vocabulary.size, 3)
    assert same(batches.gather(1, np.array([3, 3])), batches.gather(1, np.array([3, 3])))
    assert np.array_equal(batch.input_ids[0], batch.input_ids[2])


def test_a_batch_is_its_rows_one_by_one(batches: ExampleBatches) -> None:
    order = np.random.default_rng(1).permutation(batches.num_rows)[:50]
    together = batches.gather(2, order)
    for place, row in enumerate(order):
        alone = batches.gather(2, np.array([row]))
        assert all(np.array_equal(getattr(together, f.name)[place], getattr(alone, f.name)[0]) for f in fields(Batch))


def test_stored_noise_is_the_noise_drawn_on_the_fly(packed: Artifact, viewed: Artifact, vocabulary: Vocabulary) -> None:
    table, spec = RowTable(packed.path, "train"), ViewsSpec(views=3).noise(SEQUENCE_LENGTH, vocabulary.size)
    batches = ExampleBatches(packed.path, viewed.path, "train")
    some = np.random.default_rng(2).integers(0, len(table), 60)
    for view in range(3):
        drawn = draw(table.take(some), vocabulary.words(), spec, view)
        assert same(noised(drawn), batches.gather(view, some))


def test_every_view_restores_to_the_same_text(packed: Artifact, batches: ExampleBatches) -> None:
    table = RowTable(packed.path, "train")
    rows = table.take(all_rows(batches))
    for view in range(batches.num_views):
        batch = batches.gather(view, all_rows(batches))
        for row in range(len(rows)):
            assert read(batch, row).unswapped == rows.ids[row, : rows.length[row]].tolist()


def test_stats_give_the_realised_rates(viewed: Artifact, packed: Artifact) -> None:
    stats, heldout = viewed.stats, viewed.stats["heldout"]
    assert stats["views"] == 3
    assert stats["rows"] == 3 * packed.stats["rows_train"]
    assert heldout["rows"] == packed.stats["rows_heldout"]
    assert stats["pieces"] + 3 * heldout["pieces"] == 3 * packed.stats["pieces"]
    assert stats["mlm_targets"] == stats["masked"] + stats["random"] + stats["kept"]
    assert stats["mlm_rate"] == pytest.approx(0.15, abs=0.01)
    assert stats["wop_portion"] == pytest.approx(0.3, abs=3 * (0.21 / stats["rows"]) ** 0.5)
    assert 0.05 < stats["wop_rate"] < 0.15
    assert stats["sop_rows"] + stats["single_segment"] == stats["rows"]
    assert stats["sop_swapped_share"] == pytest.approx(0.5, abs=3 * (0.25 / stats["sop_rows"]) ** 0.5)


def test_held_out_noise_is_fixed_and_unlike_any_training_view(packed: Artifact, viewed: Artifact) -> None:
    heldout = ExampleBatches(packed.path, viewed.path, "heldout")
    assert heldout.num_views == 1
    assert heldout.num_rows == packed.stats["rows_heldout"]
    _, header = open_view(viewed.path / "heldout" / RowTable(packed.path, "heldout").paths[0].name)
    assert header.view == HELDOUT_VIEW


def test_two_workers_and_any_order_of_shards_give_the_same_bytes(
    tmp_path: Path, packed: Artifact, vocab: Artifact, viewed: Artifact
) -> None:
    spec = ViewsSpec(views=3)
    again = build(STAGE, spec, {"examples": packed, "vocab": vocab}, Runtime(store=tmp_path, workers=2)).artifact
    assert again.output_digest == viewed.output_digest
    (tmp_path / "late").mkdir()
    for path in reversed(packed.files("train-*.arrow")):
        draw_shard(ViewJob(path, 1, Path("late") / path.name, vocab.path, spec), tmp_path)
        assert (tmp_path / "late" / path.name).read_bytes() == (viewed.path / "view-001" / path.name).read_bytes()


def test_files_are_small(packed: Artifact, viewed: Artifact) -> None:
    rows, _ = open_rows(packed.files("train-*.arrow")[0])
    view, _ = open_view(viewed.files("view-000/*.arrow")[0])
    bytes_per_row = sum(getattr(view, f.name).nbytes for f in fields(View) if getattr(view, f.name) is not None) / len(rows)
    assert bytes_per_row == 1 + 1 + 9 * 3 + 1 + 9 * 2 + 1


def test_views_of_another_vocabulary_are_refused(tmp_path: Path, texts: Artifact, vocab: Artifact, viewed: Artifact) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    other = build(vocab_stage.STAGE, vocab_stage.VocabSpec(size=300), {"documents": texts}, runtime).artifact
    spec = packing.ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1)
    rows = build(packing.STAGE, spec, {"documents": texts, "vocab": other}, runtime).artifact
    mine, theirs = Vocabulary.load(vocab.path).sha256, Vocabulary.load(other.path).sha256
    with pytest.raises(ValueError, match=f"its vocabulary is {mine}, that of .* is {theirs}; build the views again"):
        ExampleBatches(rows.path, viewed.path, "train")
    with pytest.raises(ValueError, match=f"packed with the vocabulary {theirs}, but .* is {mine}"):
        build(STAGE, ViewsSpec(views=1), {"examples": rows, "vocab": vocab}, runtime)


def test_views_of_other_rows_are_refused(
    tmp_path: Path, texts: Artifact, vocab: Artifact, packed: Artifact, viewed: Artifact
) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    spec = packing.ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1, seed=9)
    other = build(packing.STAGE, spec, {"documents": texts, "vocab": vocab}, runtime).artifact
    digest = RowTable(packed.path, "train").headers[0].digest
    with pytest.raises(ValueError, match=f"rows digest is {digest}, that of"):
        ExampleBatches(other.path, viewed.path, "train")


@pytest.mark.parametrize("kind", ["rows", "view"])
@pytest.mark.parametrize("size", [0, 100, -200])
def test_a_truncated_shard_is_named(tmp_path: Path, packed: Artifact, viewed: Artifact, kind: str, size: int) -> None:
    rows, views = (Path(shutil.copytree(a.path, tmp_path / a.name)) for a in (packed, viewed))
    victim = sorted((rows if kind == "rows" else views / "view-002").glob("train-*.arrow"))[1]
    content = victim.read_bytes()
    victim.write_bytes(content[:size])
    with pytest.raises(ShardError, match=f"{victim.name}: not a whole Arrow file"):
        ExampleBatches(rows, views, "train")


def test_missing_and_foreign_files_are_named(tmp_path: Path, packed: Artifact, viewed: Artifact, texts: Artifact) -> None:
    views = Path(shutil.copytree(viewed.path, tmp_path / "views"))
    (views / "view-001" / "train-00001.arrow").unlink()
    with pytest.raises(ShardError, match=r"view-001/train-00001\.arrow"):
        ExampleBatches(packed.path, views, "train")
    shutil.copy(packed.path / "train-00001.arrow", views / "view-001" / "train-00001.arrow")
    with pytest.raises(ShardError, match=r"view-001/train-00001\.arrow: not a shard of views"):
        ExampleBatches(packed.path, views, "train")
    with pytest.raises(ShardError, match="holds no view-"):
        ExampleBatches(packed.path, tmp_path, "train")
    with pytest.raises(ShardError, match="holds no train-"):
        ExampleBatches(tmp_path, viewed.path, "train")


def copied(artifact: Artifact, to: Path) -> Path:
    return Path(shutil.copytree(artifact.path, to / artifact.name))


def test_views_out_of_place_are_refused(tmp_path: Path, packed: Artifact, vocab: Artifact, viewed: Artifact) -> None:
    views = copied(viewed, tmp_path)
    shard = views / "view-001" / "train-00001.arrow"
    shutil.copy(views / "view-002" / shard.name, shard)
    with pytest.raises(ValueError, match=r"view-001/train-00001\.arrow: holds view 2 .*, expected view 1"):
        ExampleBatches(packed.path, views, "train")
    spec = ViewsSpec(views=3, seed=5, sentence_task="none")
    path = packed.path / shard.name
    draw_shard(ViewJob(path, 1, Path("view-001") / path.name, vocab.path, spec), views)
    with pytest.raises(ValueError, match=r"view-001/train-00001\.arrow: holds view 1 of .*'none'.*'seed': 5.* of .*'sop'"):
        ExampleBatches(packed.path, views, "train")
    shutil.rmtree(views / "view-001")
    with pytest.raises(ShardError, match="view-001 is missing; rebuild the views"):
        ExampleBatches(packed.path, views, "train")


@pytest.mark.parametrize("stored", [True, False])
def test_rows_of_which_a_shard_is_gone_are_refused(
    tmp_path: Path, packed: Artifact, vocab: Artifact, viewed: Artifact, *, stored: bool
) -> None:
    inputs = {"examples": packed, "vocab": vocab}
    spec = ViewsSpec(views=3, stored=False)
    views = viewed if stored else build(STAGE, spec, inputs, Runtime(store=tmp_path, workers=1)).artifact
    rows = copied(packed, tmp_path)
    (rows / "train-00002.arrow").unlink()
    with pytest.raises(ShardError, match=r"noise for train-00002\.arrow, but .* has no such shard of rows"):
        ExampleBatches(rows, views.path, "train")


@pytest.mark.parametrize("kind", ["rows", "view"])
def test_a_shard_whose_description_is_damaged_is_named(tmp_path: Path, packed: Artifact, viewed: Artifact, kind: str) -> None:
    rows, views = copied(packed, tmp_path), copied(viewed, tmp_path)
    victim = (rows if kind == "rows" else views / "view-001") / "train-00001.arrow"
    content = victim.read_bytes()
    victim.write_bytes(content.replace(b'"vocab_sha256"', b'"vocab\xe5sha256"'))
    with pytest.raises(ShardError, match=rf"train-00001\.arrow: not a shard of {kind.rstrip('s')}s"):
        ExampleBatches(rows, views, "train")


def test_noise_that_points_outside_of_a_row_is_an_error_that_says_so(
    tmp_path: Path, packed: Artifact, viewed: Artifact
) -> None:
    views = copied(viewed, tmp_path)
    path = views / "view-001" / "train-00001.arrow"
    view, header = open_view(path)
    write_view(path, replace(view, mlm_pos=np.full_like(view.mlm_pos, 200)), header)
    batches = ExampleBatches(packed.path, views, "train")
    with pytest.raises(ShardError, match=r"view 1 refers to positions that its rows do not have .* run the recipe again"):
        batches.gather(1, all_rows(batches))


def test_rows_and_views_that_are_not_there_raise(batches: ExampleBatches) -> None:
    with pytest.raises(IndexError, match="view 3 of 3"):
        batches.gather(3, np.array([0]))
    with pytest.raises(IndexError, match="of a table of"):
        batches.gather(0, np.array([-1]))


def test_without_held_out_rows_the_held_out_split_is_empty(tmp_path: Path, texts: Artifact, vocab: Artifact) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    spec = packing.ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.0)
    rows = build(packing.STAGE, spec, {"documents": texts, "vocab": vocab}, runtime).artifact
    views = build(STAGE, ViewsSpec(views=1), {"examples": rows, "vocab": vocab}, runtime).artifact
    assert "heldout" not in views.stats
    empty = ExampleBatches(rows.path, views.path, "heldout")
    assert (empty.num_rows, empty.num_views, empty.sequence_length) == (0, 1, SEQUENCE_LENGTH)


def test_word_order_per_batch_is_all_or_nothing(tmp_path: Path, packed: Artifact, vocab: Artifact) -> None:
    spec = ViewsSpec(views=1, word_order=WordOrderSpec(scope="batch", portion=0.4))
    views = build(STAGE, spec, {"examples": packed, "vocab": vocab}, Runtime(store=tmp_path, workers=1)).artifact
    batches = ExampleBatches(packed.path, views.path, "train")
    drawn = np.concatenate([open_view(path)[0].wop_count for path in views.files("view-000/*.arrow")])
    assert np.mean(drawn > 0) > 0.8, "every row, but those in which no token can move"
    with_moves = []
    for start in range(batches.num_rows - 8):
        labels = batches.gather(0, np.arange(start, start + 8)).wop_labels
        counts = (labels != IGNORED).sum(axis=1)
        assert not counts.any() or np.array_equal(counts, drawn[start : start + 8])
        with_moves.append(counts.any())
    assert np.mean(with_moves) == pytest.approx(0.4, abs=4 * (0.24 / len(with_moves)) ** 0.5)


def test_next_sentence_pairs_half_of_the_rows_with_another_document(tmp_path: Path, packed: Artifact, vocab: Artifact) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    views = build(STAGE, ViewsSpec(views=2, sentence_task="nsp"), {"examples": packed, "vocab": vocab}, runtime).artifact
    batches, table = ExampleBatches(packed.path, views.path, "train"), RowTable(packed.path, "train")
    rows = table.take(all_rows(batches))
    batch = batches.gather(1, all_rows(batches))
    labelled = batch.sop_labels[batch.sop_labels != IGNORED]
    assert labelled.mean() == pytest.approx(0.5, abs=3 * (0.25 / len(labelled)) ** 0.5)
    noise = [open_view(path)[0] for path in sorted((views.path / "view-001").glob("*.arrow"))]
    b_row = np.concatenate([view.b_row for view in noise if view.b_row is not None])
    for row in range(len(rows)):
        reading = read(batch, row)
        pieces = rows.ids[row, : rows.length[row]].tolist()
        assert len(reading.tokens) <= SEQUENCE_LENGTH
        if reading.label == 1:
            assert rows.doc_id[b_row[row]] != rows.doc_id[row]
            first, second = reading.segments
            assert pieces[: len(first)] == first
            other = rows.ids[b_row[row], : rows.length[b_row[row]]].tolist()
            assert any(other[i : i + len(second)] == second for i in range(len(other)))
        else:
            assert [i for segment in reading.segments for i in segment] == pieces
        assert SPECIAL.pad not in reading.tokens


@pytest.mark.parametrize(
    ("split", "remedy"),
    [("train", "take more documents, or"), ("heldout", r"raise examples\.heldout_share, or set it to 0, or")],
)
def test_next_sentence_with_one_document_is_refused(
    tmp_path: Path, packed: Artifact, vocab: Artifact, split: str, remedy: str
) -> None:
    lone = tmp_path / "lone"
    lone.mkdir()
    rows, header = open_rows(packed.files("train-*.arrow")[0])
    first = int((rows.doc_id == rows.doc_id[0]).sum())
    write_rows(lone / f"{split}-00000.arrow", rows.slice(0, first), header)
    with pytest.raises(ValueError, match=f"needs two documents to draw from, the {split} rows come from one; {remedy} set"):
        STAGE.run(
            ViewsSpec(sentence_task="nsp"), {"examples": Artifact("lone", lone), "vocab": vocab}, tmp_path, Runtime(workers=1)
        )


def test_artifacts_that_came_back_with_other_bytes_are_read_again(
    tmp_path: Path, texts: Artifact, vocab: Artifact, vocabulary: Vocabulary
) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    other = build(vocab_stage.STAGE, vocab_stage.VocabSpec(size=300), {"documents": texts}, runtime).artifact
    sources = iter([vocab, other])

    def write(spec: Spec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, object]:
        shutil.copy(next(sources).path / "spiece.model", out_dir)
        return {}

    for loaded in (vocabulary, Vocabulary.load(other.path)):
        given = build(Stage("changing", 1, Spec, write), Spec(), {}, runtime, rerun=True).artifact
        spec = packing.ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1)
        rows = build(packing.STAGE, spec, {"documents": texts, "vocab": given}, runtime).artifact
        table = RowTable(rows.path, "train")
        assert table.headers[0].vocab_sha256 == loaded.sha256
        pairs = ViewsSpec(views=1, sentence_task="nsp")
        views = build(STAGE, pairs, {"examples": rows, "vocab": given}, runtime).artifact
        drawn = draw(table.shards[0], loaded.words(), pairs.noise(SEQUENCE_LENGTH, loaded.size), 0, table).view
        stored = open_view(views.path / "view-000" / table.paths[0].name)[0]
        assert np.array_equal(drawn.b_row, stored.b_row)
        assert np.array_equal(drawn.mlm_id, stored.mlm_id)


def test_noise_that_leaves_no_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="leave under a quarter of the text"):
        ViewsSpec.model_validate({"masking": {"rate": 0.5}, "word_order": {"rate": 0.5}})
    with pytest.raises(ValidationError, match="more than 1"):
        ViewsSpec.model_validate({"masking": {"mask_portion": 0.8, "random_portion": 0.3}})
    with pytest.raises(ValidationError, match=r"masking\.rate"):
        ViewsSpec.model_validate({"masking": {"rate": 0.6}})
