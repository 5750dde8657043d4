"""What a crawl is: a source, a date window, and the name of the snapshot (the spec of the crawl stage)."""

from __future__ import annotations

import re
from datetime import date

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import InputPath, Spec


class CrawlSpec(Spec):
    """One pinned snapshot of one site."""

    source: InputPath
    """The source file (``data_specs/sources/*.toml``)."""
    snapshot: str = "1"
    """Name of the snapshot. The web changes and a recipe does not: another name crawls anew."""
    first_day: str = "2007-01-01"
    """Start of the date window, inclusive. KoreALBERT's news are of 2007–2019."""
    last_day: str = "2019-12-31"
    """End of the date window, inclusive. Articles whose date is known only from their text are sorted out by extraction."""
    contact: str = Field(default="", max_length=200)
    """An address (e-mail or page) that the crawler names to the site's operators."""
    max_pages: int | None = Field(default=None, ge=1)
    """Articles to store at most; the rest is logged as refused."""
    max_failed_share: float = Field(default=0.05, ge=0, le=1)
    """
    Largest share of articles, and of listings, that could not be had for a reason that may pass (timeouts, 403, 5xx …); above
    it the stage fails, and the next run tries them again. Pages that are gone (404) or broken are counted and logged, no more.
    """
    failed_share_applies_from: int = Field(default=20, ge=1)
    """Articles, or listings, below which no share is too large."""
    max_file_bytes: int = Field(default=256 << 20, ge=1 << 16)
    """Size from which the next WARC file is begun."""

    @field_validator("first_day", "last_day")
    @classmethod
    def _is_a_day(cls, value: str) -> str:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
            raise ValueError("expected a day as 2019-12-31")
        date.fromisoformat(value)
        return value

    @field_validator("contact")
    @classmethod
    def _is_one_line(cls, value: str) -> str:
        if not value.isascii() or not value.isprintable():
            raise ValueError("expected ASCII on one line: it stands in a request header")
        return value

    @model_validator(mode="after")
    def _is_a_window(self) -> CrawlSpec:
        if self.first_day > self.last_day:
            raise ValueError(f"first_day {self.first_day} lies after last_day {self.last_day}")
        return self

    @property
    def user_agent(self) -> str:
        """What the crawler calls itself."""
        return f"korealbert/0.1 ({self.contact or 'text corpus crawler'})"

    def outside_window(self, published: str = "", modified: str = "") -> bool:
        """Whether dates (ISO, as precise as known) place a page outside; what was last changed before the window is older."""
        if published:
            length = len(published[:10])
            return not self.first_day[:length] <= published[:10] <= self.last_day[:length]
        return bool(modified) and modified[:10] < self.first_day[: len(modified[:10])]
