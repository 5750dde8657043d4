"""Specs and identities: an artifact is named before it is built, by the hash of its stage's spec and its inputs' names.

Also the base class of statistics, the other typed part of a manifest.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from korealbert.artifact.files import with_remedy
from korealbert.formatting import nearest

ARTIFACT_NAME = re.compile(r"[a-z][a-z0-9_-]*-[0-9a-f]{16}")
"""Matches ``Identity.name``. Other directories in a store are not artifacts."""


class Spec(BaseModel):
    """Everything that changes a stage's bytes. Unknown fields are errors; a spec is never mutated."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    later: ClassVar[frozenset[str]] = frozenset()
    """Fields added when artifacts already existed. At their default they are not part of the identity, so it stays the same."""

    beside: ClassVar[frozenset[str]] = frozenset()
    """Fields that change no output byte, such as the origin of a file; never part of the identity."""

    def as_before(self) -> dict[str, Any]:
        """Return the fields as JSON, without ``later`` ones at their default: what earlier versions wrote for this spec."""
        dumped = self.model_dump(mode="json", include=set(_identifying(self)))
        return dumped | {name: value.as_before() for name in dumped if isinstance(value := getattr(self, name), Spec)}


def refuse_repeats(field: str, values: Sequence[object]) -> None:
    """Raise ValueError with field and values if a value is given more than once."""
    repeated = [str(value) for value, times in Counter(values).items() if times > 1]
    if repeated:
        raise ValueError(f"{field}: {', '.join(sorted(repeated))} named twice; name each once")


_ValuesT = TypeVar("_ValuesT", bound=Sequence[object])


def _each_once(values: _ValuesT, info: ValidationInfo) -> _ValuesT:
    refuse_repeats(str(info.field_name), values)
    return values


EACH_ONCE = AfterValidator(_each_once)
"""Annotation of a field with several values: each may be given only once."""


def _several(value: object) -> object:
    """Turn one name, or a list, into a tuple: strict validation no longer sees JSON behind this validator."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_several),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""One name, or several."""


def _public(hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if hosts and (info.context or {}).get("within"):
        raise ValueError("under a data root nothing is fetched from private addresses; remove it, or name no data root")
    return hosts


PRIVATE_HOSTS = AfterValidator(_public)
"""Annotation of a field with hosts that may have private addresses: refused if the context has ``within``."""


def written_path(written: str | os.PathLike[str], info: ValidationInfo) -> Path:
    """Return the path that a spec's file names: from the context's ``root`` on, ``~`` for a home directory.

    Unlike ``expanded``, raises ValueError for the home directory of an unknown user.
    """
    try:
        return Path(os.path.normpath(Path((info.context or {}).get("root", ".")) / Path(written).expanduser()))
    except RuntimeError:
        raise ValueError(f"{Path(written).parts[0]} is no home directory of this machine; write the whole path") from None


@contextmanager
def _reached() -> Iterator[None]:
    """Raise an OSError of the block, such as that of a directory that may not be entered, as a ValueError."""
    try:
        yield
    except OSError as error:
        raise ValueError(with_remedy(error)) from None


def refuse_special(path: Path) -> None:
    """Raise ValueError for a pipe, socket or device, because reading it may never end, and for what cannot be reached."""
    with _reached():
        special = path.exists() and not (path.is_file() or path.is_dir())
    if special:
        raise ValueError(f"{path} is neither a regular file nor a directory; name one that is")


def refuse_outside(path: Path, within: Path) -> None:
    """Raise ValueError if a file, or anything in a directory, is outside ``within`` after links are resolved.

    Also if a directory cannot be searched for links.
    """
    within = within.resolve()
    waiting, seen = [path], set[Path]()
    while waiting:
        each = waiting.pop()
        real = Path(os.path.realpath(each))  # Path.resolve raises for circular links.
        if not real.is_relative_to(within):
            through = "" if each == path else f" by the link {each}"
            raise ValueError(
                f"{path} leads out of the data root {within}{through}; move the file into it, or name another root"
            )
        with _reached():
            if real not in seen and real.is_dir():
                seen.add(real)
                with os.scandir(real) as entries:
                    waiting += [Path(entry) for entry in entries if entry.is_symlink() or entry.is_dir()]


class InputPath(os.PathLike[str]):
    """A regular file or a directory that a spec names.

    Its name and content are part of the identity, so moving it elsewhere rebuilds nothing. Relative paths start at ``root`` of
    the validation context (a recipe passes its own directory), else at the working directory. If the context has ``within``, a
    path that leaves that directory is an error.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"InputPath({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputPath) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def parse(value: Any, info: ValidationInfo) -> InputPath:
            if isinstance(value, InputPath):
                return value
            if not isinstance(value, str | os.PathLike) or not str(value):
                raise ValueError("expected the path of a file or directory")
            if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", str(value)):
                raise ValueError("an address is no path; name it as url in [fetch.SOURCE], and leave paths out")
            path = written_path(value, info)
            if within := (info.context or {}).get("within"):
                refuse_outside(path, within)
            refuse_special(path)
            return cls(path)

        return core_schema.with_info_plain_validator_function(
            parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Identity:
    """The recipe of one artifact: canonical, hashable, comparable field by field."""

    stage: str
    version: int
    spec: Any
    inputs: Mapping[str, str]

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the canonical JSON document whose hash is the key."""
        return {"stage": self.stage, "version": self.version, "spec": self.spec, "inputs": dict(self.inputs)}

    @cached_property
    def name(self) -> str:
        """Return ``<stage>-<first 16 hex digits of the document's sha256>``."""
        canonical_bytes = json.dumps(self.document, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
        return f"{self.stage}-{sha256(canonical_bytes).hexdigest()[:16]}"


def canonical(value: Any, digest: Callable[[Path], str]) -> Any:
    """Return the JSON value of ``value`` in an identity. Raises TypeError if it has no unique canonical form."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, InputPath):
        # The name counts too: its suffix says how to read the file, and some documents' ids contain it.
        return {"name": value.path.name, "sha256": digest(value.path)}
    if isinstance(value, BaseModel):
        return {name: canonical(getattr(value, name), digest) for name in _identifying(value)}
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key], digest) for key in sorted(value)}
    if isinstance(value, tuple | list):
        return [canonical(item, digest) for item in value]
    raise TypeError(f"a spec cannot hold a {type(value).__name__}: it has no canonical form")


def _identifying(value: BaseModel) -> list[str]:
    """Return the names of the fields that are part of an identity."""
    kind = type(value)
    later, beside = (kind.later, kind.beside) if issubclass(kind, Spec) else (frozenset[str](), frozenset[str]())
    fields = {name: field for name, field in kind.model_fields.items() if name not in beside}
    return [name for name, field in fields.items() if name not in later or getattr(value, name) != field.default]


def input_paths(value: Any) -> list[InputPath]:
    """Return all files and directories that a spec names."""
    if isinstance(value, InputPath):
        return [value]
    if isinstance(value, BaseModel):
        return [path for name in type(value).model_fields for path in input_paths(getattr(value, name))]
    if isinstance(value, Mapping):
        return [path for item in value.values() for path in input_paths(item)]
    if isinstance(value, tuple | list):
        return [path for item in value for path in input_paths(item)]
    return []


_SpecT = TypeVar("_SpecT", bound=Spec)


def read_toml(path: Path, kind: type[_SpecT], what: str, *, within: Path | None = None) -> _SpecT:
    """Return the content of a TOML file; ``what`` it should be (``a source file``), ``within`` as for ``InputPath``.

    Raises ValueError with the file and every field that is wrong.
    """
    try:
        return kind.model_validate(tomllib.loads(path.read_text("utf-8-sig")), context={"within": within})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not {what}: {error}") from error
    except ValidationError as error:
        raise ValueError(explained(str(path), kind, error)) from error


def explained(where: str, kind: type[BaseModel], error: ValidationError, variants: Collection[str] = ()) -> str:
    """Return all problems that pydantic found, one per line with place, field and remedy.

    Defaults that could not be derived from wrong fields are left out. ``where`` names the file and, if it has several, the
    table; ``variants`` are names that tell the forms of a value apart.
    """
    problems = [problem for problem in error.errors() if problem["type"] != "default_factory_not_called"]
    return "\n".join(_explain(where, kind, problem, variants) for problem in problems)


def _explain(where: str, kind: type[BaseModel], problem: Any, variants: Collection[str]) -> str:
    location = [str(part) for part in problem["loc"] if part not in variants]
    if problem["type"] == "extra_forbidden":
        name = location[-1]
        valid = _fields_at(kind, list(map(str, problem["loc"][:-1])), variants)
        return f"{where}: unknown field {'.'.join(location)!r}{nearest(name, valid)}; valid: {', '.join(valid)}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{where}: field {'.'.join(location)!r} is missing"
    if not location:
        return "\n".join(f"{where}: {line}" for line in message.splitlines())
    got = "" if isinstance(problem["input"], dict) else f" (it is {problem['input']!r})"
    if problem["type"] == "literal_error":
        got += nearest(str(problem["input"]), re.findall(r"'([^']*)'", problem["ctx"]["expected"]))
    elif problem["type"] in ("tuple_type", "list_type"):
        got = f"; write {location[-1]} = [{json.dumps(problem['input'], ensure_ascii=False, default=str)}]"
    return f"{where}, field {'.'.join(location)!r}: {message}{got}"


def _fields_at(kind: Any, parents: list[str], variants: Collection[str]) -> list[str]:
    """Return the field names of the model at ``parents``, a path through nested annotations of ``kind``."""
    for parent in parents:
        if parent in variants:
            tagged = (part for part in _inside(kind) if get_origin(part) is Annotated and Tag(parent) in get_args(part))
            kind = next(tagged, kind)
        elif parent in (fields := _fields_of(kind)):
            kind = fields[parent].annotation
    return list(_fields_of(kind))


def _fields_of(kind: Any) -> dict[str, FieldInfo]:
    """Return the fields of the first model within an annotation."""
    models = (part for part in _inside(kind) if isinstance(part, type) and issubclass(part, BaseModel))
    return next((model.model_fields for model in models), {})


def _inside(kind: Any) -> Iterable[Any]:
    """Yield an annotation and all its parts."""
    yield kind
    for part in get_args(kind):
        yield from _inside(part)


Real = int | float
"""A number that keeps its form: 1 is not turned into 1.0."""


class Statistics(BaseModel):
    """Facts of a stage's run. Fields with a default may be left out by a run; they are then left out of the JSON too.

    A class with ``extra="allow"`` takes facts of one type under names that only the run knows. Statistics of data stages derive
    from ``korealbert.documents.shards.DocumentStats``, whose counts the store checks.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Return the statistics of a stage. Raises TypeError naming facts without a field: they would be lost."""
        statistics = cls.model_validate(facts)
        if cls.model_config.get("extra") != "allow" and (lost := sorted(facts.keys() - cls.model_fields.keys())):
            raise TypeError(f"{cls.__name__} has no field {', '.join(lost)}; declare it, or do not count it")
        return statistics

    def facts(self) -> dict[str, Any]:
        """Return the JSON values of the given fields, as the manifest stores them."""
        return self.model_dump(mode="json", exclude_unset=True)
