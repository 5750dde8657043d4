"""OpenLineage events of a run and of each of its stages: when they start and end, and what they read and write.

They are appended to a file as JSON lines, or posted to an address one by one; ``OPENLINEAGE_API_KEY`` and
``OPENLINEAGE_NAMESPACE`` are those of OpenLineage's own clients. A catalogue that does not answer causes one warning and fails
no run. Datasets are artifact directories and the files that specs name, with versions (digests of their bytes) and sizes, and
with a schema if an artifact holds Arrow tables. Events follow version 2-0-2 of the specification.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from uuid import uuid4

import pyarrow as pa
from pyarrow import ipc

from korealbert.artifact import Artifact, ArtifactError, Built, Store
from korealbert.artifact.files import refuse_overwriting
from korealbert.artifact.spec import input_paths
from korealbert.artifact.subprocess_build import Job

_SCHEMAS = "https://openlineage.io/spec"
_EVENT = f"{_SCHEMAS}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "schema": ("1-2-0", "SchemaDatasetFacet"),
    "version": ("1-0-1", "DatasetVersionDatasetFacet"),
    "outputStatistics": ("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "parent": ("1-2-0", "ParentRunFacet"),
    "errorMessage": ("1-0-1", "ErrorMessageRunFacet"),
    "tags": ("1-0-0", "TagsRunFacet"),
    "jobType": ("2-0-4", "JobTypeJobFacet"),
}
"""Version and name of each facet's schema."""
_KEY = "OPENLINEAGE_API_KEY"
_TIMEOUT_SECONDS = 10.0
_MAX_TIMEOUTS = 3
"""After this many in a row nothing more is sent: each further event would cost the run as many seconds."""
_MAX_MESSAGE_CHARACTERS = 2_000

_EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]

log = logging.getLogger(__name__)


def _producer() -> str:
    return f"https://pypi.org/project/korealbert/{version('korealbert')}"


def _facets(**facets: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return facets by name with the metadata that each must have; facets that are None are left out."""
    found = {}
    for name, content in facets.items():
        if content is not None:
            number, kind = _FACETS[name]
            schema = f"{_SCHEMAS}/facets/{number}/{kind}.json#/$defs/{kind}"
            found[name] = {"_producer": _producer(), "_schemaURL": schema, **content}
    return found


def _takes_events(path: Path) -> bool:
    """Whether a file is empty or begins with an event."""
    with path.open("rb") as file:
        first = file.readline(1 << 20)
    return not first or (first.startswith(b"{") and b'"eventType"' in first)


class Lineage:
    """Where the events of one run go: a file, an address, or nowhere (None).

    Raises ValueError for an invalid address, a key that a header cannot hold, a file that cannot be written or that begins with
    something else than an event, and a file that is in ``read`` or belongs to an artifact.
    """

    def __init__(self, target: str | None, recipe: str = "", *, read: Iterable[Path] = ()) -> None:
        self.target, self.recipe, self.run_id = target, recipe, str(uuid4())
        self._writing, self._warned, self._timeouts = threading.Lock(), False, 0
        if target is None:
            return
        if target.startswith(("http://", "https://")):
            _check_address(target)
            if not re.fullmatch(r"[!-~]*", os.environ.get(_KEY, "")):  # It is never printed, not even in an error.
                raise ValueError(f"{_KEY} has blanks, line breaks or characters beyond ASCII in it; set only the key")
            return
        if "://" in target:
            raise ValueError(
                f"--lineage {target}: is neither a file nor an address that begins with http:// or https://; name one"
            )
        refuse_overwriting(Path(target), read)
        try:
            with Path(target).open("a", encoding="utf-8"):
                pass
            # /dev/stdout may be a file in which the run prints other lines, too.
            if Path(target).is_file() and not target.startswith("/dev/") and not _takes_events(Path(target)):
                raise ValueError(f"--lineage {target}: the file exists and has other content than events; name another file")
        except OSError as error:
            raise ValueError(
                f"--lineage {target}: no events can be written here ({error.strerror}); name another file"
            ) from None

    @contextmanager
    def of_run(self) -> Iterator[None]:
        """Send the events of the whole run, the parent of its stages."""
        self.send("START", self.run_id, self.recipe, "RUN")
        try:
            yield
        except BaseException as error:
            self.send(_ending(error), self.run_id, self.recipe, "RUN", errorMessage=_error_facet(error))
            raise
        self.send("COMPLETE", self.run_id, self.recipe, "RUN")

    def of_stage(self, job: Job, store: Path) -> StageEvents:
        """Return the events of one try at a stage of the run."""
        return StageEvents(self, job, Store(store))

    def send(
        self,
        kind: _EventType,
        run_id: str,
        job: str,
        job_type: str,
        datasets: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], []),
        **facets: Mapping[str, Any] | None,
    ) -> None:
        """Send one event."""
        if self.target is None:
            return
        inputs, outputs = datasets
        event = {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "run": {"runId": run_id, "facets": _facets(**facets)},
            "job": {
                "namespace": self.namespace,
                "name": job,
                "facets": _facets(jobType={"processingType": "BATCH", "integration": "KOREALBERT", "jobType": job_type}),
            },
            "inputs": inputs,
            "outputs": outputs,
            "producer": _producer(),
            "schemaURL": _EVENT,
        }
        with self._writing:
            self._deliver(self.target, event)

    @property
    def namespace(self) -> str:
        """Return the namespace of all jobs."""
        return os.environ.get("OPENLINEAGE_NAMESPACE") or "korealbert"

    def _deliver(self, target: str, event: Mapping[str, Any]) -> None:
        if self._timeouts == _MAX_TIMEOUTS:
            return
        try:
            if "://" not in target:
                with Path(target).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(event, ensure_ascii=False) + "\n")
                return
            key = os.environ.get(_KEY)
            headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
            request = Request(target, json.dumps(event).encode(), headers)  # noqa: S310 (http alone)
            urlopen(request, timeout=_TIMEOUT_SECONDS).close()  # noqa: S310
            self._timeouts = 0
        except (OSError, HTTPException, ValueError) as error:
            # A ValueError quotes the invalid value, which may be the header with the key.
            why = type(error).__name__ if isinstance(error, ValueError) else str(error)
            if isinstance(error, HTTPError):
                error.close()
            self._timeouts = self._timeouts + 1 if isinstance(getattr(error, "reason", error), TimeoutError) else 0
            if self._timeouts == _MAX_TIMEOUTS:
                log.warning("lineage: %s did not answer %d times; it is sent no further events", target, _MAX_TIMEOUTS)
            elif not self._warned:
                log.warning("lineage: %s takes no events (%s); the run goes on", target, why)
            self._warned = True


def _check_address(target: str) -> None:
    """Raise ValueError if no request can be sent to an address."""
    if not re.fullmatch(r"[!-~]+", target):
        raise ValueError(
            f"--lineage {target}: an address has only ASCII and no blanks; write other characters in its path as %EA%B2%BD"
        )
    try:
        parts = urlsplit(target)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"--lineage {target}: is not an address ({error}); write http://HOST:PORT/PATH") from None
    if "@" in parts.netloc:
        raise ValueError(f"--lineage: the address contains a user; remove it, and pass the key as {_KEY}")
    if not host:
        raise ValueError(f"--lineage {target}: is not an address (it names no host); write http://HOST:PORT/PATH")


@dataclass
class StageEvents:
    """The events of one try at a stage: ``start``, then ``complete`` or ``fail``."""

    lineage: Lineage
    job: Job
    store: Store
    run_id: str = field(default_factory=lambda: str(uuid4()))
    _started: bool = False
    _known: tuple[list[dict[str, Any]], Path] | None = None
    """Inputs, and the place of the artifact: those at the start, whatever becomes of the files."""

    def start(self) -> None:
        """Send the event of its start, once."""
        if not self._started:
            self._started = True
            self._send("START")

    def complete(self, built: Built) -> None:
        """Send that the stage was built, or found in the store."""
        self.start()
        tags = {"tags": [{"key": "cached", "value": str(built.cached).lower(), "source": "KOREALBERT"}]}
        self._send("COMPLETE", built.artifact, tags=tags)

    def fail(self, error: BaseException) -> None:
        """Send that the stage ended without an artifact."""
        self.start()
        self._send(_ending(error), errorMessage=_error_facet(error))

    def _send(self, kind: _EventType, built: Artifact | None = None, **facets: Mapping[str, Any] | None) -> None:
        if self.lineage.target is None:
            return
        lineage = self.lineage
        label = f"{lineage.recipe}.{self.job.label}"
        try:
            self._known = inputs, place = self._known or self._read()
            output = _dataset(place) if built is None else _of_built(built)
        except (OSError, ValueError, ArtifactError) as error:  # An input vanished, changes or is damaged; the stage tells it.
            log.warning("lineage: no %s event of %s (%s)", kind, label, error)
            return
        parent = {"run": {"runId": lineage.run_id}, "job": {"namespace": lineage.namespace, "name": lineage.recipe}}
        lineage.send(kind, self.run_id, label, "STAGE", (inputs, [output]), parent=parent, **facets)

    def _read(self) -> tuple[list[dict[str, Any]], Path]:
        job = self.job
        inputs = [_of_artifact(artifact) for artifact in job.inputs.values()]
        read = [path.path for path in input_paths(job.spec) if path.path.exists()]
        inputs += [_dataset(path, version={"datasetVersion": self.store.digests.of(path)}) for path in read]
        names = {role: artifact.name for role, artifact in job.inputs.items()}
        return inputs, self.store.root / job.stage.identity(job.spec, names, self.store).name


def _ending(error: BaseException) -> _EventType:
    """Return FAIL for an error, ABORT if someone stopped the run."""
    return "FAIL" if isinstance(error, Exception) else "ABORT"


def _error_facet(error: BaseException) -> dict[str, str]:
    message = str(error)[:_MAX_MESSAGE_CHARACTERS] or type(error).__name__
    return {"message": message, "programmingLanguage": "PYTHON"}


def _dataset(path: Path, **facets: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"namespace": "file", "name": str(path.resolve()), "facets": _facets(**facets)}


def _of_artifact(artifact: Artifact) -> dict[str, Any]:
    fields = [{"name": column.name, "type": str(column.type)} for column in _schema(artifact)]
    schema = {"fields": fields} if fields else None
    return _dataset(artifact.path, version={"datasetVersion": artifact.output_digest}, schema=schema)


def _of_built(artifact: Artifact) -> dict[str, Any]:
    rows = artifact.stats.get("documents_out", artifact.stats.get("rows_train"))
    sizes = {"size": artifact.size, "fileCount": len(artifact.manifest["files"])}
    statistics = {**sizes, **({"rowCount": rows} if rows is not None else {})}
    return {**_of_artifact(artifact), "outputFacets": _facets(outputStatistics=statistics)}


def _schema(artifact: Artifact) -> Iterable[pa.Field]:
    """Return the columns of the artifact's documents, else of its first Arrow file; none if it has no Arrow file."""
    tables = artifact.files("documents-*.arrow") or sorted(artifact.path.rglob("*.arrow"))
    for path in tables[:1]:
        with pa.memory_map(str(path)) as source:
            return list(ipc.open_file(source).schema)
    return ()
