"""Nested facts as dotted names, and numbers for people."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert import formatting
from korealbert.formatting import flat

NAMES = st.sampled_from(["가", "나", "paths"])
VALUES = st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
FACTS = st.dictionaries(NAMES, VALUES, max_size=2)


def test_mappings_become_dotted_names_and_lists_stay_values() -> None:
    assert flat({"limits": {"min": 3, "max": {}}, "paths": [1, 2]}) == {"limits.min": 3, "paths": [1, 2]}
    assert flat({"categories": {"": 2, ".x": 1}}) == {"categories.(none)": 2, "categories..x": 1}
    assert flat({"paths": [{"name": "a"}], "none": []}, exact=True) == {"paths.0.name": "a", "none": []}


@given(FACTS)
def test_with_exact_names_every_value_is_found_at_its_name(facts: dict[str, Any]) -> None:
    for name, value in flat(facts, exact=True).items():
        found: Any = facts
        for part in name.split(".") if facts else ():
            found = found[int(part)] if isinstance(found, list) else found[part]
        assert found == value and (not isinstance(value, dict | list) or not value)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formatting.count(1234567), "1,234,567"),
        (formatting.count(None), "–"),
        (formatting.compact(999_950), "1M"),
        (formatting.compact(1_234_000), "1.23M"),
        (formatting.compact(42), "42"),
        (formatting.fixed(-1.234), "−1.23"),
        (formatting.fixed(float("nan")), "–"),
        (formatting.percent(0.5), "50.0 %"),
        (formatting.percent(0.00001), "<0.1 %"),
        (formatting.percent(0.0), "0.0 %"),
        (formatting.signed(2.0), "+2.00"),
        (formatting.spread([80.0]), "80.00"),
        (formatting.spread([80.0, 82.0]), "81.00 ± 1.41"),
    ],
)
def test_numbers_read_well(shown: str, expected: str) -> None:
    assert shown == expected
