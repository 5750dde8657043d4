from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.corpus import balance
from korealbert.corpus.balance import STAGE, BalanceSpec, draw
from korealbert.documents.schema import CATEGORIES, Document
from tests.corpus.documents_made import document, kept, ran, stored

COUNTS = st.dictionaries(st.sampled_from(CATEGORIES), st.integers(0, 10**6), min_size=1).filter(lambda c: sum(c.values()) > 0)
UNIFORM = dict.fromkeys(CATEGORIES, 1.0)
ALPHA = st.floats(0.05, 20)


def distance(shares: dict[str, float], targets: dict[str, float]) -> float:
    """Return the total variation distance."""
    return sum(abs(shares.get(name, 0) - targets.get(name, 0)) for name in {*shares, *targets}) / 2


@settings(max_examples=60)
@given(COUNTS, ALPHA)
def test_capping_moves_the_whole_towards_the_targets(counts: dict[str, int], alpha: float) -> None:
    kept_characters = balance.cap(counts, UNIFORM, alpha)
    assume(sum(kept_characters.values()) > 1_000)
    targets = balance.present_targets(counts, UNIFORM)
    before = balance.shares({name: counts[name] for name in kept_characters})
    after = balance.shares(kept_characters)
    rounding = len(counts) / sum(kept_characters.values())
    assert all(kept_characters[name] <= counts[name] for name in kept_characters)
    assert distance(after, targets) <= distance(before, targets) + rounding
    greatest_before, greatest_after = (max(of[name] / targets[name] for name in targets) for of in (before, after))
    assert greatest_after <= greatest_before + rounding / min(targets.values())
    assert all(after[name] >= before[name] - rounding for name in targets if before[name] <= targets[name])


@settings(max_examples=40)
@given(COUNTS, ALPHA, ALPHA)
def test_a_larger_alpha_keeps_at_least_as_much_of_everything(counts: dict[str, int], one: float, other: float) -> None:
    small, large = (balance.cap(counts, UNIFORM, alpha) for alpha in sorted((one, other)))
    assert all(small[name] <= large[name] for name in small)
    assert balance.cap(counts, UNIFORM, 1e9) == {name: count for name, count in counts.items() if count}


@settings(max_examples=40)
@given(COUNTS, st.dictionaries(st.sampled_from(CATEGORIES), st.floats(0.1, 10), min_size=1))
def test_proportional_gives_the_target_shares(counts: dict[str, int], weights: dict[str, float]) -> None:
    kept_characters = balance.proportional(counts, weights)
    targets = balance.present_targets(counts, weights)
    assert all(kept_characters[name] <= counts[name] for name in kept_characters)
    total = sum(kept_characters.values())
    assume(total > 1_000)
    for name, share in balance.shares(kept_characters).items():
        assert share == pytest.approx(targets[name], abs=len(counts) / total)


@settings(max_examples=40)
@given(COUNTS, st.floats(1, 50))
def test_temperature_keeps_the_order_and_sums_to_one(counts: dict[str, int], value: float) -> None:
    natural, wanted = balance.shares(counts), balance.temperature_shares(counts, value)
    assert sum(wanted.values()) == pytest.approx(1)
    ordered = sorted(wanted, key=natural.__getitem__)
    assert all(wanted[low] <= wanted[high] + 1e-12 for low, high in pairwise(ordered))
    assert all(limit <= counts[name] for name, limit in balance.temperature(counts, value).items())


def test_temperature_one_is_natural_and_a_great_one_uniform() -> None:
    counts = {"정치": 700, "IT": 200, "문화": 100}
    assert balance.temperature(counts, 1) == counts
    assert balance.temperature_shares(counts, 1) == pytest.approx(balance.shares(counts))
    assert balance.temperature_shares(counts, 1e6) == pytest.approx(dict.fromkeys(counts, 1 / 3), abs=1e-5)


def corpus(sizes: dict[str, int], source: str = "news") -> list[Document]:
    """Documents of 100 letters each that have these sizes together, in mixed order."""
    made = [
        document(
            f"{category}{number}",
            "가" * 100,
            source,
            category=category,
            outlet=f"신문{number % 2}",
            published=f"20{10 + number % 3}-01-01",
        )
        for category, size in sizes.items()
        for number in range(size // 100)
    ]
    return sorted(made, key=lambda one: one.id)


UNEQUAL = {"정치": 4_000, "사회": 2_000, "IT": 500, "날씨와 생활": 600, "": 300}


def balanced(tmp_path: Path, documents: list[Document], per_shard: int = 9, **spec: Any) -> tuple[dict[str, Any], set[str]]:
    out = tmp_path / "out"
    stats = ran(STAGE, BalanceSpec(**spec), {"documents": stored(tmp_path / "in", documents, per_shard)}, out)
    return stats, {one.id for one in kept(out)}


def test_cap_cuts_the_largest_and_reports_before_and_after(tmp_path: Path) -> None:
    stats, _ = balanced(tmp_path, corpus(UNEQUAL), alpha=1.2)
    table = stats["categories"]
    allowed = 1.2 / 3 * 6_500
    assert table["정치"] == {
        "before_documents": 40,
        "before_characters": 4_000,
        "after_documents": 26,
        "after_characters": 2_600,
    }
    assert table["정치"]["after_characters"] <= allowed < table["정치"]["after_characters"] + 100
    for untouched in ("사회", "IT"):
        assert table[untouched]["before_characters"] == table[untouched]["after_characters"]
    assert stats["dropped"] == {"balanced_out": 14}


def test_a_store_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "[1]*").mkdir()
    assert len(balanced(tmp_path / "[1]*", corpus(UNEQUAL), alpha=1.2)[1]) == 60


def test_categories_without_a_target_pass_in_buckets_of_their_own(tmp_path: Path) -> None:
    stats, _ = balanced(tmp_path, corpus(UNEQUAL), alpha=0.5)
    for name in ("날씨와 생활", ""):
        assert stats["categories"][name]["after_documents"] == UNEQUAL[name] // 100


def test_shares_that_leave_nothing_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"balance: no document is left: .*0 of 60 documents kept: 60 balanced_out.*[Rr]aise alpha"
    ):
        balanced(tmp_path / "a", corpus({"정치": 4_000, "사회": 2_000}), alpha=0.001)


def test_raising_alpha_only_adds_articles(tmp_path: Path) -> None:
    survivors = [balanced(tmp_path / str(alpha), corpus(UNEQUAL), alpha=alpha)[1] for alpha in (0.3, 1.0, 100)]
    assert all(small <= large for small, large in pairwise(survivors))
    assert len(survivors[-1]) == len(corpus(UNEQUAL))


@settings(max_examples=40)
@given(COUNTS, st.floats(1.01, 100))
@example({"정치": 1000, "IT": 10}, 1.43)
def test_temperature_keeps_the_scarcest_category_whole(counts: dict[str, int], value: float) -> None:
    present = {name: count for name, count in counts.items() if count}
    scarcest = min(present, key=present.__getitem__)
    assert balance.temperature(counts, value)[scarcest] == counts[scarcest]


@pytest.mark.parametrize(("alpha", "kept"), [(1.1, 1100), (1.2, 1200), (1.5, 1500)])
def test_a_whole_number_of_characters_loses_none_to_rounding(alpha: float, kept: int) -> None:
    for others in range(1, 7):
        counts = {"정치": 1000 * (others + 1) - others, **{f"{number}": 1 for number in range(others)}}
        assert balance.cap(counts, dict.fromkeys(counts, 1.0), alpha)["정치"] == kept


@pytest.mark.parametrize("mode", ["cap", "temperature"])
def test_input_order_and_shards_do_not_matter(mode: str, tmp_path: Path) -> None:
    documents = corpus(UNEQUAL)
    one = balanced(tmp_path / "one", documents, mode=mode)
    other = balanced(tmp_path / "other", documents[::-1], per_shard=50, mode=mode)
    assert one == other


@pytest.mark.parametrize("spec", [{"mode": "none"}, {"mode": "temperature", "temperature": 1.0}, {"alpha": 1e6}])
def test_settings_that_keep_everything(spec: dict[str, Any], tmp_path: Path) -> None:
    stats, survivors = balanced(tmp_path, corpus(UNEQUAL), **spec)
    assert stats["dropped"] == {}
    assert survivors == {one.id for one in corpus(UNEQUAL)}


def test_other_sources_pass_untouched(tmp_path: Path) -> None:
    wiki = corpus({"정치": 3_000}, "kowiki")
    stats, survivors = balanced(tmp_path, [*corpus(UNEQUAL), *wiki], alpha=0.2)
    assert {one.id for one in wiki} <= survivors
    assert stats["sources"]["kowiki"]["after_documents"] == 30
    assert stats["categories"]["정치"]["before_documents"] == 40


def test_proportional_reaches_the_targets(tmp_path: Path) -> None:
    stats, _ = balanced(tmp_path, corpus(UNEQUAL), mode="proportional", targets={"정치": 2.0, "사회": 1.0, "IT": 1.0})
    after = {name: row["after_characters"] for name, row in stats["categories"].items()}
    assert (after["정치"], after["사회"], after["IT"]) == (1_000, 500, 500)


def test_stratified_balancing_keeps_each_outlet_and_year(tmp_path: Path) -> None:
    documents = corpus({"정치": 6_000, "사회": 1_800, "IT": 1_200})
    _, survivors = balanced(tmp_path, documents, mode="proportional", stratify=True)
    mix: dict[tuple[str, str, str], int] = {}
    for one in documents:
        if one.id in survivors:
            key = (one.outlet, one.published[:4], one.category)
            mix[key] = mix.get(key, 0) + 1
    assert len(mix) == 2 * 3 * 3
    assert set(mix.values()) == {2}


def test_an_article_larger_than_its_quota_goes(tmp_path: Path) -> None:
    documents = [document(1, "가" * 1_000, category="정치"), document(2, "가" * 100, category="사회")]
    stats, survivors = balanced(tmp_path, documents, alpha=1.0)
    assert survivors == {documents[1].id}
    assert stats["categories"]["정치"]["after_documents"] == 0


def test_an_empty_input(tmp_path: Path) -> None:
    stats, survivors = balanced(tmp_path, [])
    assert (stats["documents_in"], survivors) == (0, set())


def test_targets_must_be_weights() -> None:
    with pytest.raises(ValidationError, match="name at least one category, each with a weight above 0"):
        BalanceSpec(targets={"정치": 0.0})


def test_documents_of_one_id_are_drawn_apart() -> None:
    """Rows of files that each count from 0 have the same ids; a tenth of each file is kept, not the same tenth."""
    files = [[document(row, f"{file}의 {row}번째 글이다.") for row in range(1000)] for file in "가나다라"]
    lowest = [sorted(range(1000), key=lambda row, rows=rows: draw(1, rows[row]))[:100] for rows in files]
    for number, one in enumerate(lowest):
        for other in lowest[number + 1 :]:
            assert len(set(one) & set(other)) < 30, "10 are expected by chance, 100 if ids decide"


def test_draws_are_uniform_where_ids_repeat() -> None:
    draws = [draw(1, document(row % 10, f"{row}번째 글이다.")) >> 60 for row in range(8000)]
    counts = [draws.count(sixteenth) for sixteenth in range(16)]
    assert sum((count - 500) ** 2 / 500 for count in counts) < 45, "chi-squared with 15 degrees of freedom, p = 0.0001"


def test_the_same_id_in_two_sources_is_two_documents() -> None:
    one, other = document(7, "글이다.", "news"), document(7, "글이다.", "leads")
    assert one.id != other.id and draw(1, one) != draw(1, other)


def test_which_of_repeated_ids_stay_does_not_depend_on_order(tmp_path: Path) -> None:
    rows = [document(row % 20, f"{row}번째 글이다.", category="정치" if row % 4 else "경제") for row in range(400)]
    found = set()
    for number, order in enumerate((rows, rows[::-1], sorted(rows, key=lambda one: one.text))):
        (tmp_path / str(number)).mkdir()
        balanced(tmp_path / str(number), order, alpha=0.5)
        found.add(frozenset(one.text for one in kept(tmp_path / str(number) / "out")))
    (texts,) = found
    groups = [sum(f"{row}번째 글이다." in texts for row in range(first, 400, 20)) for first in range(20)]
    assert any(0 < group < 20 for group in groups), "not all documents of an id or none"


@pytest.mark.parametrize("alpha", [0.02, 0.9])
def test_articles_stay_in_the_order_of_their_draws_until_the_quota_is_spent(alpha: float, tmp_path: Path) -> None:
    documents = [
        document(number, "가" * (1 + number * 7919 % 61), category=("정치", "경제", "IT")[min(2, number % 5)])
        for number in range(900)
    ]
    _, stays = balanced(tmp_path, documents, alpha=alpha, per_shard=300)
    sizes = {name: sum(len(one.text) for one in documents if one.category == name) for name in ("정치", "경제", "IT")}
    limits = balance.cap(sizes, BalanceSpec().targets, alpha)
    expected = set()
    for name, limit in limits.items():
        spent = 0
        for one in sorted((one for one in documents if one.category == name), key=lambda one: draw(1, one)):
            spent += len(one.text)
            if spent <= limit:
                expected.add(one.id)
    assert stays == expected
