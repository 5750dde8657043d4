"""Costs of stages before they are built: time, disk and memory, from units of work and rates.

The volumes of artifacts in the store are the counts of their manifests. The rates are those of ``data_specs/machines.toml``. On
this machine, two short probes scale them (text, and matrix products for training), and stages that were built here correct
them: those of the same label, or else of the same kind. Other kinds tell nothing, because a short stage mostly waits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median_low
from typing import Any, Literal

from korealbert.artifact import Artifact, ArtifactError, Stage
from korealbert.artifact.host import host_facts
from korealbert.recipe.machines import Machine, Rate, figures
from korealbert.recipe.work import Given, Volume, Work, estimate

_MAX_ARTIFACTS = {"label": 6, "kind": 12}
"""The newest artifacts of a label or kind that correct its rate."""
_PRIOR_SECONDS = 60
"""Weight of the rates for work beyond that of the measured stages: as much as that of stages of this length."""


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a stage."""

    seconds: float | None
    """None if it depends on the network."""
    disk_bytes: float
    memory_bytes: float
    """The peak."""
    operations: float
    """Floating-point operations of training; 0 for other stages."""
    basis: Literal["measured", "rates", "profile"]
    """Stages that were built here, the rates in the package, or the profile of another machine."""


def _counted(volume: Volume, artifact: Artifact) -> Volume:
    """Replace estimates of a volume by the counts of the artifact's manifest."""
    stats = artifact.stats
    found: dict[str, Any] = {}
    if (text := stats.get("bytes_out")) is not None:
        found["text"] = text
    if (documents := stats.get("documents_out")) is not None:
        found["documents"] = documents
    if "rows_train" in stats:
        found["rows"] = stats["rows_train"]
        if attended := _attended(stats.get("length_histogram", {})):
            found["attended"] = attended
    if artifact.manifest["recipe"]["stage"] == "vocab":
        found["pieces"] = stats["pieces"]
    return replace(volume, **found)


def _attended(histogram: Mapping[str, int]) -> float:
    """Return how many positions of its own row a token attends to on average, 0 without rows.

    ``histogram`` is that of ``ExamplesStats``. Its lengths are without ``[CLS]`` and ``[SEP]``.
    """
    rows = {sum(map(int, ends.split("-"))) / 2 + 2: number for ends, number in histogram.items()}
    tokens = sum(length * number for length, number in rows.items())
    return sum(length**2 * number for length, number in rows.items()) / max(1, tokens)


@dataclass(frozen=True)
class _Built:
    """Sums over stages that were built on this machine."""

    number: int
    seconds: float
    expected_seconds: float
    """By the rates."""
    disk_bytes: float
    expected_disk_bytes: float

    @property
    def disk_ratio(self) -> float:
        """Bytes on disk relative to the rates."""
        return self.disk_bytes / self.expected_disk_bytes if self.expected_disk_bytes else 1.0

    def corrected(self, seconds: float) -> float:
        """Return how long a stage will take that takes so many seconds by the rates.

        Up to the work of one measured stage, time is proportional to the measured one. Beyond it, short measured stages correct
        the rates little: little work shows how busy a machine was rather than how fast it is.
        """
        if not self.expected_seconds:
            return seconds
        alike = min(seconds, self.expected_seconds / self.number)
        slowdown = (self.seconds + _PRIOR_SECONDS) / (self.expected_seconds + _PRIOR_SECONDS)
        return alike * self.seconds / self.expected_seconds + (seconds - alike) * slowdown


def _without_seed(label: str) -> str:
    """Remove seed and initial weights from the label of a fine-tuning: those of one benchmark do equal work."""
    return re.sub(r"(/pretrained|/random)?/\d+$", "", label)


def _typical(built: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Drop stages whose slowdown is more than twice the median: they waited on a busy machine."""
    slowdowns = [(seconds + _PRIOR_SECONDS) / (expected + _PRIOR_SECONDS) for seconds, expected, *_ in built]
    most = 2 * median_low(slowdowns)
    return [one for one, slowdown in zip(built, slowdowns, strict=True) if slowdown <= most]


def _by_rate(machine: Machine, kind: str, work: Work) -> tuple[float, float, float]:
    """Return the seconds, bytes on disk and bytes of memory of a stage by the rates."""
    rate, cores = figures().rates.get(kind, Rate()), machine.cores
    used = max(1, min(cores, rate.cores_used or cores, math.ceil(work.units / rate.units_per_job)))
    each = rate.core_seconds_by_format.get(work.format, rate.core_seconds)
    seconds = (rate.fixed_seconds + work.units * each / used) * machine.slowness
    training = partial(machine.training_seconds, width=work.width, tf32=work.tf32)
    seconds += training(work.operations, work.steps, precision=work.precision)
    seconds += training(work.muon_operations, 0, precision=work.muon_arithmetic)
    memory = rate.memory_bytes + rate.memory_bytes_per_core * used + rate.memory_bytes_per_unit * work.units + work.memory
    return seconds, work.written * rate.disk_bytes, memory


def _as_used(machine: Machine, manifest: Mapping[str, Any]) -> Machine:
    """Return the machine with the workers and threads that built an artifact.

    Earlier manifests do not name the threads. Then processor time tells how many were busy.
    """
    host, seconds = manifest["host"], manifest["wall_seconds"]
    busy = round(manifest["processor_seconds"] / seconds) if seconds and "processor_seconds" in manifest else None
    return machine.limited(workers=host.get("workers"), threads=host.get("threads") or busy)


class Prices:
    """Costs of stages on a machine, with rates corrected by earlier builds there, whatever workers and threads they had."""

    def __init__(
        self,
        history: Iterable[Artifact],
        stages: Mapping[str, Stage[Any]],
        machine: Machine,
        *,
        workers: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._whole = machine
        self.machine = machine.limited(workers=workers, threads=threads)
        self._stages = stages
        self._known: dict[str, tuple[Volume, Work | None]] = {}
        self._history = [] if machine.profile else list(history)

    def volume(self, stage: Stage[Any], spec: Any, given: Given, built: Artifact | None) -> tuple[Volume, Work]:
        """Estimate the volume of an artifact and the work for it. Specs that contradict their data cost nothing."""
        try:
            volume, work = estimate(stage, spec, given)
        except (ValueError, KeyError, OSError):
            volume, work = Volume(), Work()
        return (volume if built is None else _counted(volume, built)), work

    def cost(self, label: str, kind: str, work: Work, *, training: bool) -> Cost:
        """Estimate the cost of a stage."""
        seconds, disk, memory = _by_rate(self.machine, kind, work)
        basis: Literal["measured", "rates", "profile"] = "profile" if self.machine.profile else "rates"
        if (built := self._built.get(("label", _without_seed(label))) or self._built.get(("kind", kind))) is not None:
            seconds, disk, basis = built.corrected(seconds), disk * built.disk_ratio, "measured"
        time = None if work.network else min(seconds, work.at_most_seconds)
        return Cost(time, disk, memory, work.operations + work.muon_operations if training else 0.0, basis)

    @cached_property
    def _built(self) -> dict[tuple[str, str], _Built]:
        """Sums over the stages built on this machine, by label and by kind."""
        here = host_facts()
        sums: dict[tuple[str, str], list[tuple[float, ...]]] = {}
        for artifact in reversed(self._history):
            manifest = artifact.manifest
            same = all(manifest["host"].get(name) == here[name] for name in ("cpu", "cores", "machine"))
            if not same or artifact.stats.get("resumed_from_step") or (work := self._of(artifact)[1]) is None or work.network:
                continue
            kind = manifest["recipe"]["stage"]
            seconds, disk, _ = _by_rate(_as_used(self._whole, manifest), kind, work)
            for key in (("label", _without_seed(manifest["label"])), ("kind", kind)):
                seen = sums.setdefault(key, [])
                if len(seen) < _MAX_ARTIFACTS[key[0]]:
                    seen.append((manifest["wall_seconds"], seconds, artifact.size, disk))
        typical = {key: _typical(seen) for key, seen in sums.items()}
        return {key: _Built(len(some), *map(sum, zip(*some, strict=True))) for key, some in typical.items()}

    def _of(self, artifact: Artifact) -> tuple[Volume, Work | None]:
        """Return the volume of an artifact in the store and its work, which is None if its spec is no longer valid."""
        if artifact.name not in self._known:
            self._known[artifact.name] = Volume(), None
            with suppress(ArtifactError, ValueError, KeyError, OSError):
                manifest = artifact.manifest
                stage = self._stages[manifest["recipe"]["stage"]]
                spec = stage.spec.model_validate_json(json.dumps(manifest["spec"]))
                given = {role: self._of(other)[0] for role, other in artifact.inputs().items()}
                self._known[artifact.name] = self.volume(stage, spec, given, artifact)
        return self._known[artifact.name]
