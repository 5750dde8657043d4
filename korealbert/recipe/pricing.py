"""Costs of stages before they are built: time, disk and memory, from units of work and rates.

Of artifacts in the store the volumes are the counts of the manifest. Rates are those of ``data_specs/machines.toml``, on this
machine scaled by two short probes (text, and matrix products for training), and corrected by the measured costs, relative to
the rates, of stages of the same label, else of the same kind. What other kinds took says nothing: a short stage mostly waits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median_low
from typing import Any, Literal

from korealbert.artifact import Artifact, Stage
from korealbert.artifact.stage import host_facts
from korealbert.recipe.machines import Machine, Rate, figures
from korealbert.recipe.work import Given, Volume, Work, estimate

_NEWEST = {"label": 6, "kind": 12}
"""Artifacts of a label and of a kind that its rate follows, at most."""
_TELLING_SECONDS = 60
"""Of measured stages, by the rates: what they took beside the rates counts by half for work beyond theirs."""


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a stage."""

    seconds: float | None
    """None: it depends on the network."""
    disk_bytes: float
    memory_bytes: float
    """The most at one time."""
    operations: float
    """Floating-point operations of training; 0 of other stages."""
    basis: Literal["measured", "rates", "profile"]
    """Stages that were built here, the rates that korealbert ships, or the profile of another machine."""


def _counted(volume: Volume, artifact: Artifact) -> Volume:
    """A volume with the counts of the artifact's manifest."""
    stats = artifact.stats
    found: dict[str, Any] = {}
    if (text := stats.get("bytes_out")) is not None:
        found["text"] = text
    if "rows_train" in stats:
        found["rows"] = stats["rows_train"]
    if artifact.manifest["recipe"]["stage"] == "vocab":
        found["pieces"] = stats["pieces"]
    return replace(volume, **found)


@dataclass(frozen=True)
class _Built:
    """Stages that were built on this machine, together."""

    number: int
    took: float
    """Seconds."""
    expected: float
    """Seconds by the rates."""
    size: float
    """Bytes on disk."""
    predicted: float
    """Bytes on disk by the rates."""

    @property
    def larger(self) -> float:
        """Bytes on disk relative to the rates."""
        return self.size / self.predicted if self.predicted else 1.0

    def seconds(self, by_rate: float) -> float:
        """Time of a stage that takes so many seconds by the rates.

        Up to the work of a measured stage in proportion to what it took; beyond it the less beside the rates the shorter the
        measured ones were, because little work tells how long a machine was busy and not how fast it is.
        """
        if not self.expected:
            return by_rate
        alike = min(by_rate, self.expected / self.number)
        slower = (self.took + _TELLING_SECONDS) / (self.expected + _TELLING_SECONDS)
        return alike * self.took / self.expected + (by_rate - alike) * slower


def _alike(label: str) -> str:
    """Of a fine-tuning of one seed, what it has in common with those of other seeds and other weights: they do equal work."""
    return re.sub(r"(/pretrained|/random)?/\d+$", "", label)


def _typical(built: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Those that took at most twice as long beside the rates as the median; others waited on a busy machine."""
    slower = [(took + _TELLING_SECONDS) / (expected + _TELLING_SECONDS) for took, expected, *_ in built]
    most = 2 * median_low(slower)
    return [one for one, ratio in zip(built, slower, strict=True) if ratio <= most]


class Prices:
    """Costs of stages on a machine; rates are corrected by earlier builds there."""

    def __init__(self, history: Iterable[Artifact], stages: Mapping[str, Stage[Any]], machine: Machine) -> None:
        self.machine = machine
        self._stages = stages
        self._known: dict[str, tuple[Volume, Work | None]] = {}
        self._history = [] if machine.profile else list(history)

    def volume(self, stage: Stage[Any], spec: Any, given: Given, built: Artifact | None) -> tuple[Volume, Work]:
        """Output of an artifact, built or not, and the work for it. Specs that contradict their data cost nothing."""
        try:
            volume, work = estimate(stage, spec, given)
        except (ValueError, KeyError, OSError):
            volume, work = Volume(), Work()
        return (volume if built is None else _counted(volume, built)), work

    def cost(self, label: str, kind: str, work: Work, *, training: bool) -> Cost:
        """Cost of a stage here."""
        seconds, disk, memory = self._by_rate(kind, work)
        basis: Literal["measured", "rates", "profile"] = "profile" if self.machine.profile else "rates"
        if (built := self._built.get(("label", _alike(label))) or self._built.get(("kind", kind))) is not None:
            seconds, disk, basis = built.seconds(seconds), disk * built.larger, "measured"
        took = None if work.network else min(seconds, work.at_most_seconds)
        return Cost(took, disk, memory, work.operations + work.muon_operations if training else 0.0, basis)

    def _by_rate(self, kind: str, work: Work) -> tuple[float, float, float]:
        rate, cores = figures().rates.get(kind, Rate()), self.machine.cores
        used = max(1, min(cores, rate.cores_used or cores, math.ceil(work.units / rate.units_per_job)))
        each = rate.core_seconds_by_format.get(work.format, rate.core_seconds)
        seconds = (rate.fixed_seconds + work.units * each / used) * self.machine.slowness
        seconds += self.machine.training_seconds(work.operations, work.steps, width=work.width, precision=work.precision)
        seconds += self.machine.training_seconds(work.muon_operations, 0, width=work.width, precision=work.muon_arithmetic)
        memory = rate.memory_bytes + rate.memory_bytes_per_core * used + rate.memory_bytes_per_unit * work.units + work.memory
        return seconds, work.written * rate.disk_bytes, memory

    @cached_property
    def _built(self) -> dict[tuple[str, str], _Built]:
        """Stages built on this machine, by label and by kind."""
        here = host_facts()
        sums: dict[tuple[str, str], list[tuple[float, ...]]] = {}
        for artifact in reversed(self._history):
            manifest = artifact.manifest
            same = all(manifest["host"].get(name) == here[name] for name in ("cpu", "cores", "machine"))
            if not same or artifact.stats.get("resumed_from_step") or (work := self._of(artifact)[1]) is None or work.network:
                continue
            kind = manifest["recipe"]["stage"]
            seconds, disk, _ = self._by_rate(kind, work)
            for key in (("label", _alike(manifest["label"])), ("kind", kind)):
                seen = sums.setdefault(key, [])
                if len(seen) < _NEWEST[key[0]]:
                    seen.append((manifest["wall_seconds"], seconds, artifact.size, disk))
        typical = {key: _typical(seen) for key, seen in sums.items()}
        return {key: _Built(len(some), *map(sum, zip(*some, strict=True))) for key, some in typical.items()}

    def _of(self, artifact: Artifact) -> tuple[Volume, Work | None]:
        """The volume of an artifact in the store and its work; None where its spec is no longer valid."""
        if artifact.name not in self._known:
            self._known[artifact.name] = Volume(), None
            with suppress(ValueError, KeyError, OSError):
                manifest = artifact.manifest
                stage = self._stages[manifest["recipe"]["stage"]]
                spec = stage.spec.model_validate_json(json.dumps(manifest["spec"]))
                given = {role: self._of(other)[0] for role, other in artifact.inputs().items()}
                self._known[artifact.name] = self.volume(stage, spec, given, artifact)
        return self._known[artifact.name]
