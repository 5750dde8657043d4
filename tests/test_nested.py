"""Nested facts as dotted names."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from korealbert.nested import flat

NAMES = st.sampled_from(["가", "나", "paths"])
VALUES = st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
FACTS = st.dictionaries(NAMES, VALUES, max_size=2)


def test_mappings_are_opened_and_lists_are_values() -> None:
    assert flat({"limits": {"min": 3, "max": {}}, "paths": [1, 2]}) == {"limits.min": 3, "paths": [1, 2]}
    assert flat({"paths": [{"name": "a"}], "none": []}, exact=True) == {"paths.0.name": "a", "none": []}


@given(FACTS)
def test_exactly_flattened_every_value_is_found_at_its_name(facts: dict[str, Any]) -> None:
    for name, value in flat(facts, exact=True).items():
        found: Any = facts
        for part in name.split(".") if facts else ():
            found = found[int(part)] if isinstance(found, list) else found[part]
        assert found == value and (not isinstance(value, dict | list) or not value)
