"""What the report of a post-training shows."""

from __future__ import annotations

from pydantic import Field

from korealbert.artifact import Spec


class CrossLingualReportSpec(Spec):
    """Titles; all numbers come from the inputs."""

    title: str = Field(default="korealbert: an English encoder learns Korean", min_length=1, max_length=200)
    """Title of the report."""
    model_name: str = Field(default="ours", min_length=1, max_length=100)
    """What tables and ``scores.csv`` call this run's models, before the variant."""
