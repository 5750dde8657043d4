"""The model card states the facts in the manifests."""

from __future__ import annotations

import pytest

from korealbert.huggingface.card import FinetunedScores, ModelFacts, model_card
from korealbert.huggingface.export import ExportSpec
from korealbert.report.stage import card_with_scores
from tests.huggingface.conftest import MakeModel, ancestor


def card(make_model: MakeModel, *, finetuned: tuple = (), license: str = "other", **architecture: object) -> str:
    inputs, model = make_model(**architecture)
    facts = ModelFacts(title="작은 모형", license=license, config=model.config, sequence_length=16)
    return model_card(facts, inputs["pretrain"], finetuned=finetuned)


def test_the_header_is_what_the_hub_reads(make_model: MakeModel) -> None:
    yaml = pytest.importorskip("yaml")
    header = yaml.safe_load(card(make_model).split("---")[1])
    assert header["language"] == "ko"
    assert header["pipeline_tag"] == "fill-mask"
    assert (header["license"], header["license_name"]) == ("other", "corpora")
    assert "license_name" not in card(make_model, license="cc-by-sa-4.0")


@pytest.mark.parametrize(
    "expected",
    [
        "# 작은 모형",
        "| news | CC BY 4.0 | 12 | 50,000 | 120,000 | 9 | 50,000 |",
        "| books | not stated | 5 | 50,000 | 120,000 |",
        "After deduplication: 11 documents, 50,000 characters",
        "| clean | too_short | 2 |",
        "| dedup | exact_duplicate | 3 |",
        "pieces 82, characters per piece 1.7.",
        "views 3, mlm rate 0.149.",
        "10 updates of 2,048 sequences of 16 tokens: 123,456 tokens, 1.5 epochs.",
        "| optimizer.name | `lamb` |",
        "| masked tokens: accuracy | 0.4321 |",
        "Positions 16–31 were never trained",
        "does not apply when it is fine-tuned",
        "`pretrain-",
    ],
)
def test_the_card_states(make_model: MakeModel, expected: str) -> None:
    assert expected in card(make_model)


def test_the_card_names_the_objectives(make_model: MakeModel) -> None:
    assert "pretrained on masked tokens (MLM) and sentence order (SOP) and word order (WOP) " in card(make_model)
    assert "word order (WOP) and bags of masked tokens (BoW) " in card(make_model, bow_weight=1.0)


@pytest.mark.parametrize(
    ("noise", "tasks"),
    [
        ({"sentence_task": "nsp"}, "masked tokens (MLM) and next sentences (NSP) and word order (WOP)"),
        ({"sentence_task": "none", "word_order": {"portion": 0.3}}, "masked tokens (MLM) and word order (WOP)"),
        ({"word_order": {"portion": 0.0}}, "masked tokens (MLM) and sentence order (SOP)"),
    ],
)
def test_the_card_names_no_objective_that_the_noise_has_no_targets_for(make_model: MakeModel, noise: dict, tasks: str) -> None:
    assert f"pretrained on {tasks} after" in card(make_model, noise=noise)


def test_the_card_of_a_snapshot_is_about_the_training_up_to_its_step(make_model: MakeModel) -> None:
    inputs, _ = make_model()
    scored, unscored = (
        model_card(ModelFacts.of(inputs["pretrain"], title="t", license="other", snapshot=step), inputs["pretrain"])
        for step in (5, 4)
    )
    assert "5 updates of 2,048 sequences of 16 tokens: 61,111 tokens, 0.75 epochs. These are the weights" in scored
    assert "| masked tokens: accuracy | 0.1234 |" in scored
    assert "4 updates of 2,048 sequences of 16 tokens: 0.6 epochs. These are" in unscored
    assert "The training did not score its held-out documents after step 4." in unscored
    assert not any(end in shown for shown in (scored, unscored) for end in ("123,456", "1.5 epochs", "0.4321"))


def test_only_exports_of_snapshots_got_another_identity() -> None:
    assert "card" not in ExportSpec().as_before()
    assert ExportSpec(snapshot=5).as_before()["card"] == "snapshot"


def test_the_card_of_a_report_mentions_an_untrained_projection(make_model: MakeModel) -> None:
    inputs, _ = make_model(embedding_size=32)
    export = ancestor(inputs["pretrain"].path.parent, "export", {}, title="t", license="other")
    expected = "Other programs train its 1,056 parameters with the rest"
    assert expected in card_with_scores(export, inputs["pretrain"], [])
    inputs, _ = make_model()
    assert expected.split(" its", maxsplit=1)[0] not in card_with_scores(export, inputs["pretrain"], [])


def test_markup_in_titles_is_escaped(make_model: MakeModel) -> None:
    inputs, model = make_model()
    facts = ModelFacts("<script>alert(1)</script>\n\n[a](javascript:b) & c", "other", model.config, 16)
    shown = model_card(facts, inputs["pretrain"])
    assert "<script" not in shown
    assert "# &lt;script&gt;alert(1)&lt;/script&gt; \\[a\\](javascript:b) &amp; c\n" in shown


def test_missing_scores_are_left_out(make_model: MakeModel) -> None:
    text = card(make_model)
    assert "word order: accuracy" not in text
    assert "## Fine-tuning" not in text


def test_fine_tuning_scores_are_means_over_seeds(make_model: MakeModel) -> None:
    cells = [
        FinetunedScores("nsmc", init, "accuracy", dev=80.0 + seed, test=test)
        for init, seed, test in (("pretrained", 1, 81.0), ("pretrained", 2, 83.0), ("random", 1, 70.0))
    ]
    cells.append(FinetunedScores("nsmc_short", "pretrained", "accuracy", dev=60.0, test=61.0))
    cells.append(FinetunedScores("korsts", "pretrained", "spearman", dev=None, test=61.0))
    text = card(make_model, finetuned=tuple(cells))
    assert "| nsmc | pretrained | accuracy | 2 | 81.50 ± 0.71 | 82.00 ± 1.41 |" in text
    assert "| nsmc | random | accuracy | 1 | 81.00 | 70.00 |" in text
    assert "| korsts | pretrained | spearman | 1 | undefined | 61.00 |" in text
    assert "| nsmc_short | pretrained | accuracy | 1 | 60.00 | 61.00 |" in text


def test_the_card_mentions_sharing_that_the_format_cannot_express(make_model: MakeModel) -> None:
    assert "Sharing `attention` with 1 group(s) cannot be said in this format" in card(make_model, share="attention")
    between = (
        "Sharing `all` with 1 group(s) between 1 layer at either end that share with no other cannot be said in this format"
    )
    assert between in card(make_model, edge_layers=1, num_layers=4)
    assert "cannot be said in this format" not in card(make_model)
