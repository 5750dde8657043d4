"""The frontier: every URL of a crawl and its outcome, in one SQLite file with one transaction for each answer.

A SIGKILL loses at most the answers in flight: a URL waits until the transaction that records its outcome, and a page is stored
in the same transaction as its place in the WARC files. Flipped bits are detected by a checksum of all rows, which triggers
update and ``open_checked`` compares, and by SQLite's own check of the indexes.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import math
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from korealbert.artifact.files import utc_now

Kind = Literal["sitemap", "rss", "archive", "article", "robots"]
State = Literal["waiting", "stored", "listed", "duplicate", "redirected", "refused", "failed"]

TRANSIENT = (
    *("unreachable", "timeout", "truncated", "bad_certificate", "robots_unreachable", "server_error", "too_many_requests"),
    *("status_401", "status_403"),
)
"""Reasons for failures that a later run retries; sites also answer 403 to a crawler that asks too often."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS urls (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, url TEXT NOT NULL, kind TEXT NOT NULL,
    listing INTEGER, page INTEGER NOT NULL DEFAULT 1, day TEXT NOT NULL DEFAULT '', section_key TEXT NOT NULL DEFAULT '',
    section TEXT NOT NULL DEFAULT '', published TEXT NOT NULL DEFAULT '', parent INTEGER,
    hops INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, not_before REAL NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'waiting', reason TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '',
    status INTEGER, other INTEGER, fetched TEXT NOT NULL DEFAULT '',
    file INTEGER, offset INTEGER, length INTEGER, sha256 TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_state ON urls (state, attempts, (kind = 'article'), id);
CREATE TABLE IF NOT EXISTS claims (claim TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sums (id INTEGER PRIMARY KEY, total INTEGER NOT NULL);
INSERT OR IGNORE INTO sums VALUES (1, 0);
"""

_TABLES = ("urls", "claims")
_FILE = ".frontier.sqlite"
_SQLITE_MAGIC = b"SQLite format 3\0"
_WAL_VERSIONS = b"\2\2"
"""Bytes 18 and 19 of a SQLite file in WAL mode."""

_ENVIRONMENT_ERRORS = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


class FrontierDamaged(ValueError):
    """A file that does not hold what was written to it."""


@dataclass(frozen=True, slots=True)
class KnownUrl:
    """A URL of the frontier."""

    id: int
    key: str
    url: str
    kind: Kind
    listing: int | None
    page: int
    day: str
    section_key: str
    section: str
    published: str
    hops: int
    attempts: int


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a record in the WARC files, in compressed bytes."""

    file: int
    offset: int
    length: int


_SELECT = f"SELECT {', '.join(field.name for field in fields(KnownUrl))} FROM urls"  # noqa: S608


class Frontier:
    """The URLs of one crawl; not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._db = sqlite3.connect(directory / _FILE, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # survives a kill of the process; heal() is for that of the machine
        self._db.execute("PRAGMA wal_autocheckpoint = 0")  # only after the WARC files, see checkpoint()
        self._db.executescript(_SCHEMA)
        self._create_triggers()
        self._last_taken = {True: 0, False: 0}
        """Ids of the last article (True) and of the last other URL (False) that were taken for the first time."""
        self._retries: list[tuple[float, int]] = self._db.execute(
            "SELECT not_before, id FROM urls WHERE state = 'waiting' AND attempts > 0"
        ).fetchall()
        heapq.heapify(self._retries)
        self._counts: dict[str, int] = dict(self._db.execute("SELECT state, count(*) FROM urls GROUP BY state").fetchall())
        self.in_flight = 0

    def _create_triggers(self) -> None:
        """Update the checksum in the transaction of each change."""
        self._db.create_function("xor_row", -1, _xor_row, deterministic=True)
        for table in _TABLES:
            names = [row[1] for row in self._db.execute(f"PRAGMA table_info({table})")]
            old, new = (", ".join(f"{version}.{name}" for name in names) for version in ("OLD", "NEW"))
            for event, sums in (
                ("INSERT", f"xor_row(total, '{table}', {new})"),
                ("DELETE", f"xor_row(total, '{table}', {old})"),
                ("UPDATE", f"xor_row(xor_row(total, '{table}', {old}), '{table}', {new})"),
            ):
                trigger = f"CREATE TEMP TRIGGER {table}_{event.lower()} AFTER {event} ON main.{table}"
                self._db.execute(f"{trigger} BEGIN UPDATE sums SET total = {sums}; END")  # noqa: S608 (our own names)

    def fault(self) -> str | None:
        """Read the whole file and return what is damaged, or None."""
        with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
            fresh.executescript(_SCHEMA)
            schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
            if self._db.execute(schema).fetchall() != fresh.execute(schema).fetchall():
                return "its tables are not those of a frontier"
        wrong = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if wrong != "ok":
            return str(wrong)
        total = 0
        for table in _TABLES:
            for row in self._db.execute(f"SELECT * FROM {table}"):  # noqa: S608
                total = _xor_row(total, table, *row)
        is_whole = self._db.execute("SELECT total FROM sums").fetchall() == [(total,)]
        return None if is_whole else "its rows have another check sum"

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the changes made inside, or undo them if an exception is raised."""
        self._db.execute("BEGIN IMMEDIATE")
        counts = dict(self._counts)
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            self._counts = counts
            raise
        self._db.execute("COMMIT")

    # --- what waits --------------------------------------------------------------------------------------------------------

    def add(self, key: str, url: str, kind: Kind, **facts: Any) -> int | None:
        """Add a URL and return its id, or None if it is already known."""
        names = ", ".join(["key", "url", "kind", *facts])
        marks = ", ".join("?" * (3 + len(facts)))
        sql = f"INSERT INTO urls ({names}) VALUES ({marks}) ON CONFLICT (key) DO NOTHING"  # noqa: S608
        cursor = self._db.execute(sql, (key, url, kind, *facts.values()))
        if not cursor.rowcount:
            return None
        self._count(str(facts.get("state", "waiting")), 1)
        return cursor.lastrowid

    def take(self) -> KnownUrl | None:
        """Return the next URL to request (due retries, then articles, then listings), or None if nothing is due.

        Articles come first, so that a crawl of a few pages need not read thousands of listings before.
        """
        known = self._due_retry() or self._next_untried(True) or self._next_untried(False)
        self.in_flight += known is not None
        return known

    def _due_retry(self) -> KnownUrl | None:
        while self._retries and self._retries[0][0] <= time.time():
            _, id_ = heapq.heappop(self._retries)
            row = self._db.execute(f"{_SELECT} WHERE id = ? AND state = 'waiting'", (id_,)).fetchone()
            if row is not None:
                return KnownUrl(*row)
        return None

    def _next_untried(self, articles: bool) -> KnownUrl | None:
        row = self._db.execute(
            f"{_SELECT} WHERE state = 'waiting' AND attempts = 0 AND (kind = 'article') = ? AND id > ? ORDER BY id LIMIT 1",
            (articles, self._last_taken[articles]),
        ).fetchone()
        if row is None:
            return None
        known = KnownUrl(*row)
        self._last_taken[articles] = known.id
        return known

    def seconds_until_due(self) -> float:
        """Return the time until the first retry is due, or infinity."""
        return max(0.0, self._retries[0][0] - time.time()) if self._retries else math.inf

    def count(self, state: State) -> int:
        """Return the number of URLs in a state; those in flight are ``waiting``."""
        return self._counts.get(state, 0)

    # --- the outcome of a URL ----------------------------------------------------------------------------------------------

    def finish(self, known: KnownUrl, state: State, reason: str = "", **facts: Any) -> None:
        """Record the outcome of a URL that was taken."""
        self._set(known.id, "waiting", state, reason=reason, fetched=utc_now(), **facts)

    def store(self, known: KnownUrl, place: RecordPosition, sha256: str, claims: tuple[str, ...]) -> None:
        """Record a page of the WARC files, and its ``claims``, by any of which another page is a duplicate."""
        self.finish(known, "stored", status=200, sha256=sha256, file=place.file, offset=place.offset, length=place.length)
        self._db.executemany("INSERT OR IGNORE INTO claims VALUES (?, ?)", [(claim, known.id) for claim in claims])

    def owner_of(self, claims: tuple[str, ...]) -> int | None:
        """Return the id of the stored page that has one of these claims, or None."""
        for claim in claims:
            found = self._db.execute("SELECT id FROM claims WHERE claim = ?", (claim,)).fetchone()
            if found:
                return int(found[0])
        return None

    def retry(self, known: KnownUrl, wait_seconds: float, reason: str, detail: str, status: int | None) -> None:
        """Queue a URL for another try."""
        due = time.time() + wait_seconds
        self._db.execute(
            "UPDATE urls SET attempts = attempts + 1, not_before = ?, reason = ?, detail = ?, status = ? WHERE id = ?",
            (due, reason, detail, status, known.id),
        )
        heapq.heappush(self._retries, (due, known.id))

    def move(self, known: KnownUrl, url: str) -> None:
        """Follow a redirect to another address of the same page, at once."""
        self._db.execute(
            "UPDATE urls SET url = ?, hops = hops + 1, attempts = max(attempts, 1), not_before = 0 WHERE id = ?",
            (url, known.id),
        )
        heapq.heappush(self._retries, (0.0, known.id))

    def release(self) -> None:
        """Note that a URL which was taken is no longer in flight."""
        self.in_flight -= 1

    def leads_to(self, start: str, goal: int) -> bool:
        """Return whether redirects lead from the page with key ``start`` to the page ``goal``."""
        row = self._db.execute("SELECT id, other FROM urls WHERE key = ?", (start,)).fetchone()
        seen: set[int] = set()
        while row is not None and row[0] not in seen:
            if goal in row:
                return True
            seen.add(row[0])
            row = self._db.execute("SELECT id, other FROM urls WHERE id = ? AND state = 'redirected'", (row[1],)).fetchone()
        return False

    def id_of(self, key: str) -> int | None:
        """Return the id of a page, or None if it is not known."""
        row = self._db.execute("SELECT id FROM urls WHERE key = ?", (key,)).fetchone()
        return int(row[0]) if row else None

    def note_robots(self, key: str, url: str, state: State, reason: str, status: int | None) -> None:
        """Record the latest answer to the request of a robots.txt."""
        with self.transaction():
            if self.add(key, url, "robots", state=state, reason=reason, status=status, fetched=utc_now()) is None:
                old = self._db.execute("SELECT id, state FROM urls WHERE key = ?", (key,)).fetchone()
                self._set(old[0], old[1], state, reason=reason, status=status, fetched=utc_now())

    def refuse_waiting(self, reason: str) -> None:
        """Refuse all waiting URLs."""
        with self.transaction():
            self._db.execute("UPDATE urls SET state = 'refused', reason = ? WHERE state = 'waiting'", (reason,))
            self._count("refused", self._counts.pop("waiting", 0))

    def try_failed_again(self) -> int:
        """Queue temporary failures again; return their number."""
        marks = ", ".join("?" * len(TRANSIENT))
        sql = f"UPDATE urls SET state = 'waiting', attempts = 0, not_before = 0 WHERE state = 'failed' AND reason IN ({marks})"  # noqa: S608
        with self.transaction():
            moved = self._db.execute(f"{sql} AND kind != 'robots'", TRANSIENT).rowcount
            self._count("failed", -moved)
            self._count("waiting", moved)
        return moved

    def _set(self, id_: int, before: str, state: State, **facts: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in ["state", *facts])
        self._db.execute(f"UPDATE urls SET {names} WHERE id = ?", (state, *facts.values(), id_))  # noqa: S608
        self._count(before, -1)
        self._count(state, 1)

    def _count(self, state: str, change: int) -> None:
        self._counts[state] = self._counts.get(state, 0) + change

    # --- after a kill, and at the end ---------------------------------------------------------------------------------------

    def heal(self, sizes: dict[int, int]) -> dict[int, int]:
        """Queue again the pages whose record is not whole, because the machine went down after their transaction.

        ``sizes`` are the valid bytes of each WARC file by number. Returns ``ends``, after which the caller truncates the files.
        """
        with self.transaction():
            for file, end in self._db.execute("SELECT file, max(offset + length) FROM urls GROUP BY file").fetchall():
                if file is None or end <= sizes.get(file, 0):
                    continue
                lost = self._db.execute(
                    "SELECT id FROM urls WHERE file = ? AND offset + length > ?", (file, sizes.get(file, 0))
                ).fetchall()
                for (id_,) in lost:
                    self._set(id_, "stored", "waiting", file=None, offset=None, length=None, sha256="", attempts=0)
                    self._db.execute("DELETE FROM claims WHERE id = ?", (id_,))
        return self.ends()

    def ends(self) -> dict[int, int]:
        """Return the end of the last stored page in each WARC file, by number."""
        ends = self._db.execute("SELECT file, max(offset + length) FROM urls WHERE file IS NOT NULL GROUP BY file").fetchall()
        return {int(file): int(end) for file, end in ends}

    def checkpoint(self) -> None:
        """Write the journal into the file; the WARC files must have been synced before."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def log(self) -> Iterator[dict[str, Any]]:
        """Yield every URL and its outcome, in the order in which they were found."""
        cursor = self._db.execute(
            "SELECT u.id, u.url, u.kind, u.state, u.reason, u.detail, u.status, u.attempts, u.fetched, u.section, u.published,"
            " p.url AS found_on, o.url AS other, u.file, u.offset, u.length, u.sha256"
            " FROM urls u LEFT JOIN urls p ON p.id = u.parent LEFT JOIN urls o ON o.id = u.other ORDER BY u.id"
        )
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield {name: value for name, value in zip(names, row) if value not in (None, "")}

    def outcomes(self) -> dict[str, dict[str, int]]:
        """Return the number of URLs by kind, and then by state and reason (``refused: robots``)."""
        found: dict[str, dict[str, int]] = {}
        sql = "SELECT kind, state, reason, count(*) FROM urls GROUP BY kind, state, reason ORDER BY kind, state, reason"
        for kind, state, reason, count in self._db.execute(sql):
            outcome = f"{state}: {reason}" if reason and state in ("refused", "failed", "waiting") else state
            found.setdefault(kind, {})
            found[kind][outcome] = found[kind].get(outcome, 0) + count
        return found


def open_checked(directory: Path) -> Frontier:
    """Open a frontier and read all of it. Raises FrontierDamaged, and sqlite3.Error for errors other than damage."""
    path = directory / _FILE
    if path.exists():
        with path.open("rb") as file:
            head = file.read(20)
        if head and (head[:16] != _SQLITE_MAGIC or head[18:] != _WAL_VERSIONS):
            raise FrontierDamaged(f"{path}: it is no SQLite file with a journal")
    frontier = None
    try:
        frontier = Frontier(directory)
        fault = frontier.fault()
    except (sqlite3.Error, UnicodeError) as error:  # SQLite's message may contain damaged text.
        fault = str(error)
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _ENVIRONMENT_ERRORS:
            raise
    if fault is not None or frontier is None:
        if frontier is not None:
            frontier.close()
        raise FrontierDamaged(f"{path}: {fault}")
    return frontier


def discard(directory: Path) -> None:
    """Delete a frontier; the WARC files will be truncated when it is opened next."""
    for end in ("", "-wal", "-shm"):
        (directory / f"{_FILE}{end}").unlink(missing_ok=True)


def _xor_row(total: int, *row: Any) -> int:
    """Add a row to a checksum of 64 bits, or remove it."""
    return total ^ int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), signed=True)
