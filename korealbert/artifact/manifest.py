"""What every ``manifest.json`` holds, and the check that one does: a store or an archive may be somebody else's.

A manifest begins with ``digest``, the sha256 of all bytes behind it. One without was written before manifests had it; it holds
exactly the fields of ``Manifest``, so that no damage to the digest makes one of the two kinds of the other.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from korealbert.artifact.spec import ARTIFACT_NAME

_ArtifactName = Annotated[str, StringConstraints(pattern=rf"^{ARTIFACT_NAME.pattern}\z")]


def _within(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("not the name of a file within the artifact")
    return name


class _Fact(BaseModel):
    model_config = ConfigDict(strict=True)


class _File(_Fact):
    sha256: str
    size: Annotated[int, Field(ge=0)]


class _Recipe(_Fact):
    stage: str
    version: int
    spec: Any
    inputs: dict[str, _ArtifactName]


class Manifest(_Fact):
    """The fields of a manifest. Fields beyond them do no harm beside a digest."""

    name: str
    label: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*\z")]
    recipe: _Recipe
    spec: dict[str, Any]
    inputs: dict[str, _ArtifactName]
    built_from: dict[str, str]
    stats: dict[str, Any]
    files: dict[Annotated[str, AfterValidator(_within)], _File]
    output_digest: str
    wall_seconds: Annotated[float, Field(ge=0)]
    created: str
    host: dict[str, Any]


def misfit(loaded: object, *, digested: bool) -> str | None:
    """What keeps a JSON value, with a digest or without, from being a manifest, or None."""
    try:
        Manifest.model_validate(loaded)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        lacking = sorted(".".join(map(str, each["loc"])) for each in found if each["type"] == "missing")
        if lacking:
            return f"it lacks {', '.join(lacking)}"
        return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all of it'}: {each['msg']}" for each in found[:3])
    if not digested and isinstance(loaded, dict) and (more := sorted(loaded.keys() - Manifest.model_fields.keys())):
        return f"it has {', '.join(map(repr, more))} and no whole digest before it"
    return None
