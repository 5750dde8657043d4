"""Views are added to finished ones or generated on the fly: the noise is always the same."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from korealbert.artifact import Artifact, Runtime, Store, build
from korealbert.documents.shards import ShardError
from korealbert.examples import batches as batches_module
from korealbert.examples import packing, views
from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import NOISE_FILE
from korealbert.examples.views import STAGE, ViewsSpec
from korealbert.examples.word_order import WordOrderSpec
from tests.artifact.test_trust import flip
from tests.examples.made import SEQUENCE_LENGTH


@pytest.fixture
def shop(tmp_path: Path, packed: Artifact, vocab: Artifact) -> tuple[Runtime, dict[str, Artifact]]:
    """Return a separate store for views of the packed rows."""
    return Runtime(store=tmp_path / "store", workers=1), {"examples": packed, "vocab": vocab}


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Batch))


def test_more_views_leave_the_finished_ones_as_they_are(
    shop: tuple[Runtime, dict[str, Artifact]], monkeypatch: pytest.MonkeyPatch, viewed: Artifact
) -> None:
    runtime, inputs = shop
    two = build(STAGE, ViewsSpec(views=2), inputs, runtime).artifact
    drawn: list[int] = []

    def counting(job: views.ViewJob, out_dir: Path, draw: object = views.draw_shard) -> dict[str, object]:
        drawn.append(job.view)
        return draw(job, out_dir)  # type: ignore[operator, no-any-return]

    monkeypatch.setattr(views, "draw_shard", counting)
    three = build(STAGE, ViewsSpec(views=3), inputs, runtime).artifact
    assert set(drawn) == {2}
    assert three.output_digest == viewed.output_digest, "as if all had been drawn at once"
    assert three.stats == viewed.stats
    for path in two.files("*/*.arrow"):
        assert (three.path / path.relative_to(two.path)).samefile(path), "no second copy on disk"
    drawn.clear()
    one = build(STAGE, ViewsSpec(views=1), inputs, runtime).artifact
    assert not drawn
    assert (one.path / "view-000" / "train-00000.arrow").exists()
    assert not (one.path / "view-001").exists()


@pytest.mark.parametrize("stored", [True, False])
def test_the_masking_rate_changes_from_view_to_view(shop: tuple[Runtime, dict[str, Artifact]], stored: bool) -> None:
    """0.3, 0.2, and then 0.1; held-out rows have 0.1, and adding views changes none of them."""
    runtime, inputs = shop
    masking = MaskingSpec(rate=0.1, rate_from=0.3, rate_views=3, unit="token")
    built = build(STAGE, ViewsSpec(views=4, masking=masking, stored=stored), inputs, runtime).artifact
    source = ExampleBatches(inputs["examples"].path, built.path, "train")
    rows, shares = np.arange(source.num_rows), []
    for view in range(4):
        batch = source.gather(view, rows)
        shares.append((batch.mlm_labels != IGNORED).sum() / (batch.lengths - 3).sum())
    assert shares == pytest.approx([0.3, 0.2, 0.1, 0.1], abs=0.02)
    heldout = ExampleBatches(inputs["examples"].path, built.path, "heldout")
    scored = heldout.gather(0, np.arange(heldout.num_rows))
    assert (scored.mlm_labels != IGNORED).sum() / (scored.lengths - 3).sum() == pytest.approx(0.1, abs=0.03)
    constant = ViewsSpec(views=1, masking=MaskingSpec(rate=0.3, unit="token"), stored=stored)
    alike = ExampleBatches(inputs["examples"].path, build(STAGE, constant, inputs, runtime).artifact.path, "train")
    assert same(source.gather(0, rows), alike.gather(0, rows))


def test_a_rate_of_the_first_view_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"masking.rate_from 0.5 \+ word_order.rate 0.3 leave under a quarter"):
        ViewsSpec(masking=MaskingSpec(rate=0.1, rate_from=0.5), word_order=WordOrderSpec(rate=0.3))
    with pytest.raises(ValueError, match="rate_views = 5 has no meaning without rate_from"):
        MaskingSpec(rate_views=5)


def test_a_last_rate_that_no_view_has_is_refused_unless_it_is_meant() -> None:
    falling = {"rate": 0.1, "rate_from": 0.3}
    with pytest.raises(ValueError, match=r"would come in view 10 of views = 3; set masking\.rate_views = 3"):
        ViewsSpec.model_validate({"views": 3, "masking": falling})
    assert ViewsSpec.model_validate({"views": 10, "masking": falling}).masking.rate_in(9) == 0.1
    meant = ViewsSpec.model_validate({"views": 3, "masking": {**falling, "rate_views": 10}})
    assert ViewsSpec.model_validate_json(meant.model_dump_json()) == meant


def test_the_last_rate_is_exact() -> None:
    masking = MaskingSpec(rate=0.15, rate_from=0.4)
    assert 0.4 + (0.15 - 0.4) != 0.15 == masking.rate_in(9) == masking.rate_in(10) < masking.rate_in(8)


def test_noise_without_a_changing_rate_is_described_as_it_was(shop: tuple[Runtime, dict[str, Artifact]]) -> None:
    runtime, inputs = shop
    built = build(STAGE, ViewsSpec(views=1, stored=False), inputs, runtime).artifact
    assert set(json.loads((built.path / NOISE_FILE).read_bytes())["masking"]) == {
        "unit",
        "ngram_max",
        "rate",
        "max_predictions",
        "mask_portion",
        "random_portion",
    }


def test_only_the_same_noise_of_the_same_rows_is_taken_over(shop: tuple[Runtime, dict[str, Artifact]], texts: Artifact) -> None:
    runtime, inputs = shop
    two = build(STAGE, ViewsSpec(views=2), inputs, runtime).artifact
    spec = packing.ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1, seed=5)
    other_rows = build(packing.STAGE, spec, {"documents": texts, "vocab": inputs["vocab"]}, runtime).artifact
    assert views._same_noise(ViewsSpec(views=4), inputs, runtime) is not None
    assert views._same_noise(ViewsSpec(views=4, seed=1), inputs, runtime) is None
    assert views._same_noise(ViewsSpec(views=4, word_order=WordOrderSpec(portion=0.5)), inputs, runtime) is None
    assert views._same_noise(ViewsSpec(views=4), {**inputs, "examples": other_rows}, runtime) is None
    assert views._same_noise(ViewsSpec(views=2), inputs, runtime) is None, "building anew draws anew"
    flip(two.path / "view-001" / "train-00001.arrow")
    assert views._same_noise(ViewsSpec(views=4), inputs, runtime) is None, "nothing is taken over from a damaged one"


def test_what_is_taken_over_is_found_by_its_name(
    shop: tuple[Runtime, dict[str, Artifact]], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, inputs = shop
    few, many = (build(STAGE, ViewsSpec(views=views), inputs, runtime).artifact for views in (1, 2))
    monkeypatch.setattr(Store, "artifacts", lambda _: pytest.fail("other artifacts are looked into"))
    assert views._same_noise(ViewsSpec(views=4), inputs, runtime) == many
    assert views._same_noise(ViewsSpec(views=2), inputs, runtime) == few


def test_drawing_on_the_fly_gives_the_stored_noise(
    shop: tuple[Runtime, dict[str, Artifact]], packed: Artifact, viewed: Artifact
) -> None:
    runtime, inputs = shop
    drawn = build(STAGE, ViewsSpec(views=3, stored=False), inputs, runtime).artifact
    assert not drawn.files("view-*")
    assert drawn.stats["views"] == 3
    assert drawn.stats["mlm_rate"] == pytest.approx(viewed.stats["mlm_rate"], abs=0.005)
    for split in ("train", "heldout"):
        on_the_fly = ExampleBatches(packed.path, drawn.path, split)  # type: ignore[arg-type]
        stored = ExampleBatches(packed.path, viewed.path, split)  # type: ignore[arg-type]
        assert on_the_fly.num_views == stored.num_views
        if split == "train":
            assert on_the_fly.noised(1) == pytest.approx(stored.noised(1), abs=0.02), "moves find no place in short runs"
        for view in range(stored.num_views):
            numbers = np.random.default_rng(view).permutation(stored.num_rows)
            assert same(on_the_fly.gather(view, numbers), stored.gather(view, numbers))


@pytest.mark.parametrize("wishes", [{"sentence_task": "nsp"}, {"word_order": {"scope": "batch", "portion": 0.5}}])
def test_so_it_is_with_next_sentences_and_with_moves_per_batch(
    shop: tuple[Runtime, dict[str, Artifact]], packed: Artifact, wishes: dict[str, object]
) -> None:
    runtime, inputs = shop
    both = [
        build(STAGE, ViewsSpec.model_validate({"views": 1, "stored": stored, **wishes}), inputs, runtime).artifact
        for stored in (True, False)
    ]
    stored, drawn = (ExampleBatches(packed.path, artifact.path, "train") for artifact in both)
    for begin in range(0, stored.num_rows, 16):
        numbers = np.arange(begin, min(begin + 16, stored.num_rows))
        assert same(stored.gather(0, numbers), drawn.gather(0, numbers))


def test_a_description_of_other_noise_is_refused(
    tmp_path: Path, shop: tuple[Runtime, dict[str, Artifact]], packed: Artifact
) -> None:
    runtime, inputs = shop
    drawn = build(STAGE, ViewsSpec(views=1, stored=False), inputs, runtime).artifact
    described = json.loads((drawn.path / NOISE_FILE).read_text())
    for change, message in (
        ({"rows": {**described["rows"], "train-00001.arrow": "0" * 32}}, "rows digest is 0"),
        ({"vocab_sha256": "1" * 64}, "its vocabulary is 1"),
        ({"rows": {}}, "rows digest is missing"),
    ):
        (tmp_path / NOISE_FILE).write_text(json.dumps({**described, **change}))
        with pytest.raises(ValueError, match=message):
            ExampleBatches(packed.path, tmp_path, "train")
    (tmp_path / NOISE_FILE).write_text(json.dumps(described)[:-40])
    with pytest.raises(ShardError, match=r"noise\.json: not a description of noise"):
        ExampleBatches(packed.path, tmp_path, "train")


def test_few_views_are_mapped_at_once(packed: Artifact, viewed: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "VIEWS_IN_USE", 1)
    source = ExampleBatches(packed.path, viewed.path, "train")
    before = [source.gather(view, np.arange(9)) for view in (0, 1, 2)]
    assert [bool(table._columns) for table in source._views] == [False, False, True]  # type: ignore[attr-defined]
    assert all(same(source.gather(view, np.arange(9)), batch) for view, batch in enumerate(before))


def test_a_thousand_views_keep_their_order(tmp_path: Path) -> None:
    names = ["view-000", "view-101", "view-999", "view-1000", "view-1010"]
    assert sorted((tmp_path / name for name in reversed(names)), key=batches_module.view_number)[-1].name == "view-1010"
