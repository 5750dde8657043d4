"""Failed stages of a run: the error that it ends with, which errors are expected, and what a report could still be made of."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from korealbert.artifact import ArtifactError

if TYPE_CHECKING:  # The command line loads this file before it has chosen Prefect's settings.
    from prefect.client.schemas.objects import State

EXPECTED = (ValueError, OSError, RuntimeError, MemoryError, ArtifactError)
"""Errors whose message says what is wrong and what to do; any other is a defect of ours, and its traceback is shown."""


class StagesFailed(RuntimeError):
    """Stages of a run have failed. The message gives the reason of each, and the stages not started for lack of them."""

    def __init__(self, errors: Mapping[str, BaseException], unstarted: Sequence[str]) -> None:
        self.errors, self.unstarted = errors, unstarted
        told = [f"{label}: {reason(error)}" for label, error in errors.items()]
        super().__init__("\n".join([*told, *([f"not started: {', '.join(unstarted)}"] if unstarted else [])]))

    @classmethod
    def of(cls, states: Mapping[str, State[Any]]) -> StagesFailed | None:
        """Return the failure of a run by the states of its stages at its end, or None if all stages are there."""
        errors = {label: error for label, state in states.items() if (error := error_of(state)) is not None}
        unstarted = [label for label, state in states.items() if label not in errors and not state.is_completed()]
        return cls(errors, unstarted) if errors else None

    @property
    def defect(self) -> BaseException | None:
        """The first error that is not ``EXPECTED``."""
        return next((error for error in self.errors.values() if not isinstance(error, EXPECTED)), None)


def error_of(state: State[Any]) -> BaseException | None:
    """Return why a stage has failed, or None if it has not."""
    if not (state.is_failed() or state.is_crashed()):
        return None
    error = state.result(raise_on_failure=False)
    return error if isinstance(error, BaseException) else RuntimeError(state.message or "")


def seeds_left(failed: Collection[str], labels: Iterable[str]) -> dict[str, list[int]]:
    """Return the seeds of each benchmark with failed cells that a report could be of, with the field of the recipe as key.

    Empty if a failed stage is no cell, or a benchmark would be left with no seed.
    """
    cells = [label.split("/") for label in labels if label.startswith("finetune/")]
    lost = {(label.split("/")[-3], label.split("/")[-1]) for label in failed if label.startswith("finetune/")}
    left = {
        f"finetune.{name}.seeds": sorted({int(cell[-1]) for cell in cells if cell[-3] == name and (name, cell[-1]) not in lost})
        for name, _ in sorted(lost)
    }
    return left if all(left.values()) and all(label.startswith("finetune/") for label in failed) else {}


def reason(error: BaseException) -> str:
    """Return an error's message; that of a defect begins with its type."""
    return str(error) if isinstance(error, EXPECTED) else f"{type(error).__name__}: {error}"


def has_news(record: logging.LogRecord) -> bool:
    """Filter the logs of runs and stages. Prefect logs each stage that cannot start, and the traceback of a run's error.

    The run's final state names both.
    """
    error = record.exc_info[1] if record.exc_info else None
    repeated = isinstance(error, StagesFailed) and error.defect is None
    return not repeated and "NotReady(" not in record.getMessage()
