from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.artifact import Artifact, Runtime
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality.models import Classifier, codes, train_classifier, train_language_model
from korealbert.corpus.quality.stage import STAGE, QualityError, QualitySpec, cluster_sizes, copies_found
from tests.corpus.documents_made import bytes_of, document, dropped, kept, prose, ran, stored

SALES = ["특가", "무료배송", "클릭", "이벤트", "당첨", "사은품", "즉시할인", "문의환영"]


def advertisement(seed: int) -> str:
    return "\n".join(f"{SALES[(seed + k) % 8]} {SALES[(seed * 3 + k * 5) % 8]} {seed * 7 + k}% ★ 지금 바로!" for k in range(12))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Forty articles of an encyclopedia, forty web pages, half of which are advertisements, and forty advertisements."""
    articles = [document(index, prose(index + 1, 12), "wiki") for index in range(40)]
    pages = [document(index, prose(index + 900, 12) if index % 2 else advertisement(index), "web") for index in range(40)]
    advertisements = [document(index, advertisement(index + 100), "spam") for index in range(40)]
    return stored(tmp_path_factory.mktemp("dedup") / "in", [*articles, *pages, *advertisements], per_shard=25)


def spec(**fields: Any) -> QualitySpec:
    classifier = {"good": ["wiki"], "bad": ["spam"]}
    return QualitySpec.model_validate({"classifier": classifier, "perplexity": {"reference": ["wiki"]}, **fields})


def scores(directory: Path) -> pl.DataFrame:
    return pl.concat([pl.read_ipc(path) for path in sorted(directory.glob("scores-*.arrow"))])


@pytest.fixture(scope="module")
def scored(corpus: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output for a spec without limits."""
    out = tmp_path_factory.mktemp("scored") / "out"
    ran(STAGE, spec(), {"documents": corpus}, out)
    return out


def test_advertisements_are_dropped_and_prose_is_kept(corpus: Artifact, tmp_path: Path) -> None:
    stats = ran(STAGE, spec(sources=["web"], min_quality=0.5), {"documents": corpus}, tmp_path / "out")
    assert stats["dropped"] == {"low_quality": 20}
    assert stats["trained_on"] == {"good": 40, "bad": 40, "reference": 40}
    web = [one for one in kept(tmp_path / "out") if one.source == "web"]
    assert len(web) == 20
    assert not any("특가" in one.text for one in web)
    assert all(rule.endswith("< 0.5") for _, rule in dropped(tmp_path / "out").values())
    found = scores(tmp_path / "out")
    assert found.height == 120
    assert found["quality"].is_between(0, 1).all()
    assert sum(stats["scores"]["web"]["quality"].values()) == 40


def test_one_reference_text_is_not_enough(tmp_path: Path) -> None:
    documents = stored(tmp_path / "in", [document(0, prose(1, 12), "wiki"), document(1, prose(2, 12), "web")])
    with pytest.raises(QualityError, match=r"wiki holds one reference text.*name sources that hold more"):
        ran(STAGE, spec(classifier=None), {"documents": documents}, tmp_path / "out")


def test_texts_of_high_perplexity_are_dropped(corpus: Artifact, scored: Path, tmp_path: Path) -> None:
    found = scores(scored)
    prose_like, other = (found.filter(pl.col("source") == name)["perplexity"] for name in ("wiki", "spam"))
    assert float(prose_like.max()) < float(other.min())  # type: ignore[arg-type]
    limit = (float(prose_like.max()) + float(other.min())) / 2  # type: ignore[arg-type]
    stats = ran(STAGE, spec(classifier=None, max_perplexity=limit), {"documents": corpus}, tmp_path / "out")
    assert stats["dropped"]["high_perplexity"] >= 40
    assert {one.source for one in kept(tmp_path / "out")} == {"wiki", "web"}


def test_one_and_two_workers_write_the_same_bytes(corpus: Artifact, tmp_path: Path) -> None:
    outputs = []
    few = stored(tmp_path / "in", kept(corpus.path)[::5], per_shard=10)
    for workers in (1, 2):
        stats = ran(STAGE, spec(min_quality=0.4, pareto=9), {"documents": few}, tmp_path / f"{workers}", workers)
        outputs.append((stats, bytes_of(tmp_path / f"{workers}")))
    assert outputs[0] == outputs[1]
    assert any(name.startswith("scores-") for name in outputs[0][1])


def test_a_pareto_draw_keeps_some_of_the_bad(corpus: Artifact, tmp_path: Path) -> None:
    stats = ran(STAGE, spec(pareto=3, perplexity=None), {"documents": corpus}, tmp_path / "out")
    left = [one.source for one in kept(tmp_path / "out")]
    assert left.count("wiki") > left.count("spam") > 0
    assert set(stats["dropped"]) == {"low_quality"}


def test_labelled_files(corpus: Artifact, tmp_path: Path) -> None:
    lines = [{"text": prose(index, 5), "label": True} for index in range(30)]
    lines += [{"text": advertisement(index), "label": 0.0} for index in range(30)]
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), "utf-8")
    labelled = spec(classifier={"labelled": [str(path)]}, perplexity=None, min_quality=0.5)
    assert ran(STAGE, labelled, {"documents": corpus}, tmp_path / "out")["dropped"] == {"low_quality": 60}
    for wrong in ('{"text": "b", "label": "fine"}', "[" * 100_000, '{"text": "b", "label": ' + "1" * 5_000 + "}"):
        path.write_text(f'{{"text": "a", "label": "good"}}\n{wrong}\n', "utf-8")
        with pytest.raises(ValueError, match=r"labels\.jsonl, line 2: expected"):
            ran(STAGE, labelled, {"documents": corpus}, tmp_path / "wrong")


def test_limits_that_leave_nothing_are_an_error(corpus: Artifact, tmp_path: Path) -> None:
    for name, limit in {"low_quality": {"min_quality": 1.0}, "high_perplexity": {"max_perplexity": 1.0001}}.items():
        with pytest.raises(
            ValueError, match=rf"quality: no document is left: .*0 of 120 documents kept: 120 {name}.*min_quality"
        ):
            ran(STAGE, spec(**limit), {"documents": corpus}, tmp_path / name)


def test_a_source_without_documents_is_named(corpus: Artifact, tmp_path: Path) -> None:
    with pytest.raises(QualityError, match="no bad text to train on in blogs"):
        ran(STAGE, spec(classifier={"good": ["wiki"], "bad": ["blogs"]}), {"documents": corpus}, tmp_path / "out")


def test_the_sizes_of_clusters_count_each_dropped_copy_once(tmp_path: Path) -> None:
    """Here an exact copy of a near-duplicate, an exact copy of a contained text, and copies that have one id."""
    near, within = prose(1, 30).replace("\n", " ", 1) + " 끝.", "\n".join(prose(2, 30).split("\n")[:9])
    texts = [prose(1, 30), prose(1, 30), near, near, prose(2, 30), within, within]
    documents = [document(str(number), text) for number, text in enumerate(texts)] + 3 * [document("same", prose(3, 30))]
    found = tmp_path / "dedup"
    stats = ran(dedup.STAGE, dedup.DedupSpec(), {"all": stored(tmp_path / "in", documents)}, found)
    assert stats["dropped"] == {"contained": 1, "exact_duplicate": 5, "near_duplicate": 1}
    assert cluster_sizes(Artifact("dedup", found)) == {3: 1, 4: 1}
    kept_ids = {one.id for one in kept(found)}
    assert copies_found(Artifact("dedup", found)).keys() <= kept_ids


def test_texts_with_many_copies_are_repeated(tmp_path: Path) -> None:
    texts = {"thrice": prose(1, 30), "once": prose(2, 30), "twice": prose(3, 30)}
    changed = prose(3, 30).replace("\n", " ", 1) + " 끝."
    documents = [document("a", texts["thrice"]), document("b", texts["thrice"]), document("c", texts["thrice"])]
    documents += [document("d", texts["once"]), document("e", texts["twice"]), document("f", changed)]
    found = tmp_path / "dedup [1]*"
    ran(dedup.STAGE, dedup.DedupSpec(), {"all": stored(tmp_path / "in", documents)}, found)
    artifact = Artifact("dedup", found)
    assert sorted(copies_found(artifact).values()) == [2, 3]
    copied = QualitySpec.model_validate({"copies": {"2": 2, "3": 4}})
    stats = ran(STAGE, copied, {"documents": artifact}, tmp_path / "out")
    assert (stats["documents_in"], stats["documents_out"], stats["repeated"]) == (3, 7, 4)
    times = [one.text for one in kept(tmp_path / "out")]
    assert [times.count(text) for text in (texts["thrice"], texts["once"])] == [4, 1]


def test_documents_that_share_an_id_are_judged_on_their_own(tmp_path: Path) -> None:
    documents = [document(index % 200, prose(index, 12), "wiki") for index in range(400)]
    documents += [document(0, prose(0, 12), "wiki"), document("many", prose(900, 12)), document("more", prose(900, 12))]
    ran(dedup.STAGE, dedup.DedupSpec(), {"all": stored(tmp_path / "in", documents, per_shard=150)}, tmp_path / "dedup")
    artifact = Artifact("dedup", tmp_path / "dedup")
    stats = ran(STAGE, QualitySpec.model_validate({"copies": {"2": 2}}), {"documents": artifact}, tmp_path / "copied")
    assert stats["repeated"] == 1, "of two documents with id 0 one had a copy, nobody knows which"
    labels = tmp_path / "labels.jsonl"  # equal texts of both labels: every quality is near a half
    lines = [{"text": prose(index, 12), "label": label} for index in range(2) for label in ("good", "bad")]
    labels.write_text("\n".join(json.dumps(line) for line in lines))
    drawn = QualitySpec.model_validate({"classifier": {"labelled": [str(labels)]}, "pareto": 1.5})
    ran(STAGE, drawn, {"documents": artifact}, tmp_path / "drawn")
    times = Counter(one.id for one in kept(tmp_path / "drawn") if one.source == "wiki")
    assert {*times.values()} == {1, 2}, "of two documents with one id, one may be kept and the other dropped"
    assert times.total() < 400, "some are dropped"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classifier": {"good": ["wiki"]}}, "name good and bad sources, or files in labelled"),
        ({"classifier": {"good": ["wiki"], "bad": ["wiki"]}}, "wiki is good and bad"),
        ({"min_quality": 0.5}, "need a classifier"),
        ({"max_perplexity": 50}, "needs a reference"),
        ({"copies": {"1": 2}}, "a number of copies above 1"),
    ],
)
def test_inconsistent_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        QualitySpec.model_validate(fields)


TRAINED = train_classifier([codes(prose(k, 5), 500) for k in range(20)], [codes(advertisement(k), 500) for k in range(20)], 1)
MODEL = train_language_model(codes(prose(k, 5), 500) for k in range(20))


@settings(max_examples=50)
@given(st.text())
def test_every_text_has_finite_scores(text: str) -> None:
    letters = codes(text, 200)
    assert 0 <= TRAINED.score(letters) < 1
    perplexity = MODEL.perplexity(letters)
    assert perplexity >= 1
    assert math.isfinite(perplexity)


def test_an_empty_text_has_the_worst_scores() -> None:
    empty = [codes(text, 500) for text in ("", " \n ", "\u3000")]
    classifier = train_classifier([*empty, codes(prose(1, 5), 500)], [codes(advertisement(k), 500) for k in range(4)], 1)
    model = train_language_model([*empty, codes(prose(1, 5), 500)])
    assert {classifier.score(letters) for letters in empty} == {0.0}
    assert {model.perplexity(letters) for letters in empty} == {1e6}


def share_kept(classifier: Classifier, texts: list[str]) -> float:
    """Return the share of texts that GPT-3's rule with shape 9 keeps."""
    return float(np.mean([(2 - classifier.score(codes(text, 500))) ** -9 for text in texts]))


def test_gpt3s_rule_keeps_nearly_all_good_texts() -> None:
    classifier = train_classifier(
        [codes(prose(k, 5), 500) for k in range(300)], [codes(advertisement(k), 500) for k in range(300)], 1
    )
    assert share_kept(classifier, [prose(k, 5) for k in range(1000, 1100)]) > 0.95
    assert share_kept(classifier, [advertisement(k) for k in range(1000, 1100)]) < 0.02


def test_a_score_is_the_share_of_good_texts_among_those_like_it() -> None:
    texts = [[codes(make(k), 500) for k in range(300)] for make in (lambda k: prose(k, 5), advertisement)]
    wrong = [[text for k, text in enumerate(found) if k % 7 in (0, 3)] for found in texts]  # two of seven labels
    right = [[text for k, text in enumerate(found) if k % 7 not in (0, 3)] for found in texts]
    classifier = train_classifier(right[0] + wrong[1], right[1] + wrong[0], 1)
    for make, share in ((lambda k: prose(k, 5), 5 / 7), (advertisement, 2 / 7)):
        mean = np.mean([classifier.score(codes(make(k), 500)) for k in range(1000, 1100)])
        assert mean == pytest.approx(share, abs=0.07)


def test_scores_that_no_label_follows_do_not_turn_around() -> None:
    texts = [codes(prose(k, 5), 500) for k in range(30)]
    classifier = train_classifier(texts[:15], texts[15:], 1)
    assert np.mean([classifier.score(text) for text in texts[:15]]) > np.mean([classifier.score(text) for text in texts[15:]])


def test_known_text_surprises_less_the_more_of_it_is_known() -> None:
    text = codes(prose(500, 5), 500)
    assert train_language_model([text] * 3).perplexity(text) < MODEL.perplexity(text)
    assert np.array_equal(codes("A  1\n가", 10), codes("a 7 가", 10))


def test_texts_that_the_model_read_are_scored_as_if_it_had_not() -> None:
    texts = [codes(prose(k, 5), 500) for k in range(20)]
    without = train_language_model(texts[1:])
    assert MODEL.perplexity(texts[0], seen=True) == pytest.approx(without.perplexity(texts[0]))
    assert MODEL.perplexity(texts[0]) < without.perplexity(texts[0])


def test_chosen_and_other_texts_of_a_reference_have_like_perplexities(corpus: Artifact, tmp_path: Path) -> None:
    half = {"reference": ["wiki"], "documents": 20}
    ran(STAGE, spec(classifier=None, perplexity=half), {"documents": corpus}, tmp_path / "out")
    found = scores(tmp_path / "out").filter(pl.col("source") == "wiki")["perplexity"].sort()
    assert float(found[19]) / float(found[0]) < 2 and float(found[39]) / float(found[20]) < 2
    assert float(found[20]) / float(found[19]) < 1.2


def test_without_limits_all_documents_stay(corpus: Artifact, scored: Path) -> None:
    assert kept(scored) == kept(corpus.path)


def test_a_missing_label_is_reported_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"text": "a", "label": "good"}\n', "utf-8")
    assert STAGE.check is not None
    STAGE.check(spec(classifier={"labelled": [str(path)], "bad": ["spam"]}), Runtime(store=tmp_path))
    with pytest.raises(ValueError, match=r"labels\.jsonl: no bad text, and no source of bad texts is named"):
        STAGE.check(spec(classifier={"labelled": [str(path)]}), Runtime(store=tmp_path))
