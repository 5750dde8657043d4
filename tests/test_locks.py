"""locks/ fits pyproject.toml: a changed requirement needs `make lock`. The files are only read, without network."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
HASHED = ("build", "server", "worker", "dev", "corpus")


def _text(name: str) -> str:
    return (ROOT / f"locks/{name}.txt").read_text("utf-8")


def _pins(name: str) -> dict[str, set[str]]:
    """Return the versions of each package, which may differ by platform."""
    pins: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([^\s;]+)", _text(name), re.MULTILINE):
        pins.setdefault(canonicalize_name(package), set()).add(version)
    return pins


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])


def _extra(name: str) -> list[Requirement]:
    """Return the requirements of an extra, including those of our extras that it names."""
    project = _project()
    found = []
    for requirement in map(Requirement, project["optional-dependencies"][name]):
        if requirement.name == project["name"]:
            found += [inner for extra in sorted(requirement.extras) for inner in _extra(extra)]
        else:
            found.append(requirement)
    return found


def _unsatisfied(pins: dict[str, set[str]], requirements: list[Requirement]) -> list[str]:
    versions = [(requirement, pins.get(canonicalize_name(requirement.name), set())) for requirement in requirements]
    return [str(wanted) for wanted, found in versions if not found or not all(wanted.specifier.contains(one) for one in found)]


@pytest.mark.parametrize(("lock", "extras"), [("dev", ["dev"]), ("worker", ["crawl", "language"])])
def test_every_requirement_is_satisfied(lock: str, extras: list[str]) -> None:
    pins = _pins(lock) | _pins("torch")
    wanted = [*map(Requirement, _project()["dependencies"]), *(one for extra in extras for one in _extra(extra))]
    assert _unsatisfied(pins, wanted) == [], f"locks/{lock}.txt is stale: run `make lock`"
    named = re.findall(r"^([\w.-]+)==[^#]*# via [^\n]*korealbert", _text(lock), re.MULTILINE)
    asked = {canonicalize_name(requirement.name) for requirement in wanted} - {"torch"}
    assert {canonicalize_name(package) for package in named} == asked, f"locks/{lock}.txt is stale: run `make lock`"


def test_a_stale_lock_is_detected() -> None:
    pins = {"numpy": {"2.4.1"}, "torch": {"2.13.0", "2.14.0"}}
    wanted = [Requirement("numpy>=2.5"), Requirement("NumPy<3"), Requirement("torch<2.14"), Requirement("ray==2.60.0")]
    assert _unsatisfied(pins, wanted) == ["numpy>=2.5", "torch<2.14", "ray==2.60.0"]


def test_the_smaller_locks_are_subsets_of_the_largest() -> None:
    """Images run the versions that the tests ran."""
    tested = _pins("dev")
    for name in ("server", "worker"):
        assert {package: versions for package, versions in _pins(name).items() if tested.get(package) != versions} == {}, name
    server = [Requirement(line) for line in _project()["dependencies"] if re.match("prefect|fastapi|asyncpg", line)]
    assert len(server) == 3 and _unsatisfied(_pins("server"), server) == []
    build = [
        Requirement(line) for line in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    ]
    assert _unsatisfied(_pins("build"), build) == []


@pytest.mark.parametrize("name", HASHED)
def test_every_file_has_a_hash_and_no_host_is_named(name: str) -> None:
    text = _text(name)
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == sum(map(len, _pins(name).values())) > 2
    assert [entry.split()[0] for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)] == []
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    assert not any(package.startswith(("torch", "nvidia-", "cuda-", "triton")) for package in _pins(name)), (
        "builds of torch differ by platform"
    )


def test_torch_has_one_version_without_a_build() -> None:
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+\n", _text("torch"))


def test_make_installs_from_the_lock_on_request() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"^HASHED :=.* --no-deps --require-hashes --no-build-isolation ", text, re.MULTILINE)
    locked = text.split("ifdef LOCKED")[1].split("else")[0]
    assert "pip install" not in locked
    installs = re.findall(r"pip \$\(INSTALL\) (.*)", locked)
    assert installs == [
        "$(HASHED) locks/build.txt",
        "$(HASHED) locks/dev.txt",
        "--requirement locks/torch.txt",
        "--no-deps --no-build-isolation --editable .",
    ]
