"""Reading rules that are data (``data_specs/rules``)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from korealbert.artifact import Spec

S = TypeVar("S", bound=Spec)


def read_rules(path: Path, kind: type[S]) -> S:
    """The content of a TOML file of rules. Raises ValueError naming file and field."""
    try:
        return kind.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise ValueError(f"{path}: not a rules file: {error}") from error
