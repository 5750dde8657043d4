"""Ablations one after the other: every table of the papers, refilled over one cached corpus."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from flows.by_kind import flow_of
from korealbert.pretrain.runtime import TrainingRuntime

SAMPLE = (Path("data_specs/ablations/sample/korealbert-table-2.toml"),)


@flow(name="ablations", persist_result=False)
def ablations(
    files: list[Path] = list(SAMPLE),  # noqa: B006 (never changed)
    runtime: TrainingRuntime = TrainingRuntime(),  # noqa: B008 (frozen)
    data: Path | None = None,
) -> list[str]:
    """Build every stage of some ablations that is missing or stale; what they share is built once.

    Args:
        files: The ablations' TOML files.
        runtime: Store, workers, training processes; not part of any identity.
        data: Directory that ``${data}`` in the recipes stands for.

    Returns:
        The paths of the reports, in the order of ``files``.
    """
    return [flow_of(file)(file, runtime=runtime, data=data) for file in files]
