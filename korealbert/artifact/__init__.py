"""The stage contract: specs name artifacts before they are built, stages build them, the store keeps and verifies them."""

from korealbert.artifact.files import DiskFull
from korealbert.artifact.locks import ReadOnlyStore
from korealbert.artifact.spec import EACH_ONCE, Identity, InputPath, Names, Real, Spec, Statistics, canonical, refuse_repeats
from korealbert.artifact.stage import Built, Deployment, InputChanged, Inputs, Progress, Runtime, Stage, Stats, build, cached
from korealbert.artifact.store import Artifact, ArtifactError, Store, ancestors, check_conservation

__all__ = [
    "EACH_ONCE",
    "Artifact",
    "ArtifactError",
    "Built",
    "Deployment",
    "DiskFull",
    "Identity",
    "InputChanged",
    "InputPath",
    "Inputs",
    "Names",
    "Progress",
    "ReadOnlyStore",
    "Real",
    "Runtime",
    "Spec",
    "Stage",
    "Statistics",
    "Stats",
    "Store",
    "ancestors",
    "build",
    "cached",
    "canonical",
    "check_conservation",
    "refuse_repeats",
]
