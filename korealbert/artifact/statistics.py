"""What a stage counted and measured, as a class of its own whose fields type checkers know; in the manifest it is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

Real = int | float
"""A number that stays as it was written: 1 is not turned into 1.0."""


class Statistics(BaseModel):
    """Facts of a stage's run. Fields with a default are those that a run may leave out; they are then left out of the JSON too.

    A class with ``extra="allow"`` takes facts under names that only the run knows, all of one type. Data stages derive theirs
    from ``korealbert.documents.shards.DocumentStats``, whose counts the store checks.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """The statistics that a stage hands over. Raises TypeError naming facts without a field: they would be lost."""
        statistics = cls.model_validate(facts)
        if cls.model_config.get("extra") != "allow" and (lost := sorted(facts.keys() - cls.model_fields.keys())):
            raise TypeError(f"{cls.__name__} has no field {', '.join(lost)}; declare it, or do not count it")
        return statistics

    def facts(self) -> dict[str, Any]:
        """As the manifest holds them: JSON values of the fields that were given."""
        return self.model_dump(mode="json", exclude_unset=True)
