"""The crawl stage: one site → a pinned snapshot of its articles.

Out: ``pages-*.warc.gz`` (the responses as they were received), ``log.jsonl.gz`` (every URL that was found, its outcome, and the
place of its record), ``snapshot.json`` (what extraction needs to know about the site). A killed crawl continues; no stored page
is fetched again.
"""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import IO, Any

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import Deployment, InputPath, Inputs, Progress, Runtime, Spec, Stage
from korealbert.artifact.files import atomic_path, atomic_write
from korealbert.corpus.crawl.frontier import TRANSIENT, Frontier, FrontierDamaged, discard, open_checked
from korealbert.corpus.crawl.source import Source, load_source
from korealbert.documents.shards import DocumentStats

_LOG = "log.jsonl.gz"
_SNAPSHOT = "snapshot.json"
_REQUIRED_PACKAGES = ("protego", "warcio")
_GRACE_SECONDS = 20.0
_MAX_ERROR_BYTES = 8000
_MAX_SHOWN_FAILURES = 5

log = logging.getLogger(__name__)


class CrawlSpec(Spec):
    """One pinned snapshot of one site."""

    source: InputPath
    """The source file (``data_specs/sources/*.toml``)."""
    snapshot: str = "1"
    """Name of the snapshot. Another name starts a new crawl, because the web may change while the recipe does not."""
    first_day: str = "2007-01-01"
    """Start of the date window, inclusive. KoreALBERT's news are from 2007–2019."""
    last_day: str = "2019-12-31"
    """End of the date window, inclusive. Extraction drops articles outside it whose date is only in their text."""
    contact: str = Field(default="", max_length=200)
    """An e-mail address or page that the crawler sends to the site's operators."""
    max_pages: int | None = Field(default=None, ge=1)
    """Largest number of articles to store; the rest is logged as refused."""
    max_failed_share: float = Field(default=0.05, ge=0, le=1)
    """
    Largest share of articles, and of listings, that could not be fetched for a temporary reason (timeouts, 403, 5xx …); above
    it the stage fails, and the next run retries them. Pages that are gone (404) or broken are only counted and logged.
    """
    failed_share_applies_from: int = Field(default=20, ge=1)
    """With fewer articles, or listings, no share is too large."""
    max_file_bytes: int = Field(default=256 << 20, ge=1 << 16)
    """Size at which the next WARC file begins."""

    @field_validator("first_day", "last_day")
    @classmethod
    def _check_day(cls, value: str) -> str:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
            raise ValueError("expected a day as 2019-12-31")
        date.fromisoformat(value)
        return value

    @field_validator("contact")
    @classmethod
    def _check_contact(cls, value: str) -> str:
        if not value.isascii() or not value.isprintable():
            raise ValueError("expected ASCII on one line: it is sent in a request header")
        return value

    @model_validator(mode="after")
    def _check_window(self) -> CrawlSpec:
        if self.first_day > self.last_day:
            raise ValueError(f"first_day {self.first_day} is after last_day {self.last_day}")
        return self

    @property
    def user_agent(self) -> str:
        """Name under which the crawler sends requests."""
        return f"korealbert/0.1 ({self.contact or 'text corpus crawler'})"

    def outside_window(self, published: str = "", modified: str = "") -> bool:
        """Return whether a page is outside the window by its ISO date of publication, or was last changed before the window."""
        if published:
            length = len(published[:10])
            return not self.first_day[:length] <= published[:10] <= self.last_day[:length]
        return bool(modified) and modified[:10] < self.first_day[: len(modified[:10])]


class CrawlError(RuntimeError):
    """The crawl failed, and another try would fail too."""


class CrawlInterrupted(ConnectionError):
    """The crawl is not complete; another try continues it."""


class CrawlStats(DocumentStats):
    """Counts of articles: ``documents_out`` are stored, duplicates and refused ones dropped, failed ones quarantined."""

    urls: dict[str, dict[str, int]] = Field(default_factory=dict)
    """URLs by kind (article, sitemap, rss, archive, …) and their outcome."""


def run(spec: CrawlSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> CrawlStats:
    """Crawl one site.

    Raises CrawlError for a source that does not fit the site, and CrawlInterrupted if the crawling process died or too many
    requests failed for a temporary reason; the next run keeps stored pages.
    """
    source = load_source(spec.source.path)
    missing = [name for name in _REQUIRED_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise CrawlError(f"crawling needs {', '.join(missing)}: install the extra with `pip install korealbert[crawl]`")
    if not source.tested:
        log.warning("%s: never tried against the live site; look at the first pages of the log", spec.source)
    try:
        open_checked(out_dir).close()
    except FrontierDamaged as error:
        log.warning("%s; the crawl begins anew", error)
        discard(out_dir)
    _crawl(spec, out_dir, runtime)
    try:
        frontier = open_checked(out_dir)
    except FrontierDamaged as error:
        raise CrawlInterrupted(f"{error}; run it again to crawl anew") from None
    try:
        stats = _stats(frontier)
        _check(spec, source, stats, frontier)
        _write_log(frontier, out_dir / _LOG)
        _check_files(frontier, out_dir)
    finally:
        frontier.close()
    atomic_write(out_dir / _SNAPSHOT, _snapshot(spec, source))
    return stats


def _crawl(spec: CrawlSpec, out_dir: Path, runtime: Runtime) -> None:
    command = [sys.executable, "-m", "korealbert.corpus.crawl.spider", spec.model_dump_json(), str(out_dir), str(os.getpid())]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True) as worker:
            try:
                for line in worker.stdout or ():
                    counts = json.loads(line)
                    done = counts["stored"] + counts["failed"]
                    runtime.report(Progress(done, done + counts["waiting"], "pages"))
                code = worker.wait()
            finally:
                _terminate(worker)
        if code:
            raise CrawlInterrupted(
                f"the crawl ended early (exit status {code}); run it again to continue\n{_last_output(errors)}"
            )


def _terminate(worker: subprocess.Popen[str]) -> None:
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _last_output(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _MAX_ERROR_BYTES))
    return stream.read().decode("utf-8", "replace").strip()


def _stats(frontier: Frontier) -> CrawlStats:
    outcomes = frontier.outcomes()
    articles = outcomes.get("article", {})
    failed, dropped = Counter[str](), Counter[str]()
    for outcome, count in articles.items():
        state, _, reason = outcome.partition(": ")
        if state == "failed":
            failed[reason] += count
        elif state != "stored":
            dropped[reason or state] += count
    return CrawlStats(
        documents_in=sum(articles.values()),
        documents_out=articles.get("stored", 0),
        dropped=dict(sorted(dropped.items())),
        quarantined=sum(failed.values()),
        quarantine_reasons=dict(sorted(failed.items())),
        urls=outcomes,
    )


def _check(spec: CrawlSpec, source: Source, stats: CrawlStats, frontier: Frontier) -> None:
    listings = {kind: counts for kind, counts in stats.urls.items() if kind in ("sitemap", "rss", "archive")}
    if not any(counts.get("listed") for counts in listings.values()):
        shown = _first_failed(frontier, tuple(listings), ("failed", "refused"))
        message = f"{spec.source}: no listing could be read; is the site reachable, are its addresses right?\n{shown}"
        passing = any(name == f"failed: {reason}" for counts in listings.values() for name in counts for reason in TRANSIENT)
        raise CrawlInterrupted(message) if passing else CrawlError(message)
    if not stats.documents_in:
        raise CrawlError(f"{spec.source}: the listings name no address that matches article = {source.article!r}; correct it")
    for what, kinds, fetched in (("listings", tuple(listings), "listed"), ("articles", ("article",), "stored")):
        counts = sum((Counter(stats.urls[kind]) for kind in kinds), Counter[str]())
        failed = sum(counts[f"failed: {reason}"] for reason in TRANSIENT)
        tried = counts[fetched] + failed
        share = failed / max(1, tried)
        problem = f"{spec.source}: {failed:,} of {tried:,} {what} ({share:.1%}) could not be fetched"
        if tried >= spec.failed_share_applies_from and share > spec.max_failed_share:
            raise CrawlInterrupted(
                f"{problem}, more than max_failed_share = {spec.max_failed_share:.1%}; run it again later to retry them."
                f" The first of them:\n{_first_failed(frontier, kinds)}"
            )
        if failed and what == "listings":
            log.warning("%s; articles that only they name are missing:\n%s", problem, _first_failed(frontier, kinds))


def _check_files(frontier: Frontier, out_dir: Path) -> None:
    """Raise CrawlInterrupted if the files lack a page that the frontier has as stored; the next run fetches it again."""
    from korealbert.corpus.crawl.warc_files import warc_files, whole_bytes  # noqa: PLC0415 (needs the extra)

    ends = frontier.ends()
    for number, path in warc_files(out_dir).items():
        if (whole := whole_bytes(path)) < max(path.stat().st_size, ends.get(number, 0)):
            raise CrawlInterrupted(f"{path}: changed on the disk after byte {whole:,}; run it again to fetch those pages anew")


def _first_failed(frontier: Frontier, kinds: tuple[str, ...], states: tuple[str, ...] = ("failed",)) -> str:
    failed = (row for row in frontier.log() if row["state"] in states and row["kind"] in kinds)
    shown = itertools.islice(failed, _MAX_SHOWN_FAILURES)
    return "\n".join(f"  {row['url']}: {row['state']}, {row['reason']} {row.get('detail', '')}".rstrip() for row in shown)


def _write_log(frontier: Frontier, path: Path) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        for row in frontier.log():
            packed.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def read_log(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield every URL of a finished crawl and its outcome, in the order in which they were found."""
    with gzip.open(directory / _LOG, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _snapshot(spec: CrawlSpec, source: Source) -> bytes:
    known: dict[str, Any] = {
        "outlet": source.outlet,
        "categories": {category: list(names) for category, names in source.categories.items()},
        "first_day": spec.first_day,
        "last_day": spec.last_day,
    }
    return (json.dumps(known, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


STAGE = Stage(
    "crawl",
    version=1,
    spec=CrawlSpec,
    run=run,
    table="crawl.SOURCE",
    shows="urls",
    continued=("pages-*.warc.gz",),
    deployment=Deployment(
        "Newspapers to pinned WARC snapshots; goes on where it was stopped",
        queue="crawl",
        nightly="0 1 * * *",
        recipe="korealbert-web",
    ),
)
