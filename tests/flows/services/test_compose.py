"""docker-compose.yml and the Dockerfile, read as the specification says; Docker itself is not needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from korealbert.flows.services.installation import POOLS
from korealbert.flows.services.local_server import listen, stop, wait_until_healthy
from tests.flows.services.test_local_server import status

ROOT = Path(__file__).parents[3]
TEMPORARY = "/tmp"  # noqa: S108 (a mount in a container)
VARIABLES = {"POSTGRES_PASSWORD": "p", "PREFECT_AUTH": "user:password"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")

    def value(match: re.Match[str]) -> str:
        name, operator, rest = match[1], match[2] or "", match[3] or ""
        assert name in VARIABLES or operator == ":-", f"{name} needs a default"
        return VARIABLES.get(name, rest)

    merged = yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?])?([^}]*)\}", value, text))
    parsed = PyCompose.from_yaml(yaml.safe_dump(merged))
    parsed.validate()
    return dict(merged)


def test_it_asks_for_credentials_instead_of_having_any() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    for name in VARIABLES:
        assert set(re.findall(rf"\${{{name}(:.)", text)) == {":?"}, f"{name} must be asked for"


def test_it_is_the_topology_of_make_up(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"database", "server", "installation", "data-worker", "training-worker"}
    assert services["training-worker"]["profiles"] == ["gpu"]
    stages = re.findall(r"^FROM .* AS (.*)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    for name, service in services.items():
        if "build" in service:
            assert service["build"]["target"] in stages, name
    commands = re.findall(r'flows\.worker", "(\w+)"', (ROOT / "Dockerfile").read_text("utf-8"))
    assert commands == list(POOLS)


def test_ports_are_published_on_loopback_alone(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:4200:4200"]


def test_what_runs_is_pinned_confined_and_watched(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        pinned = r"korealbert-[a-z-]+:\d+\.\d+\.\d+" if "build" in service else r"[a-z]+@sha256:[0-9a-f]{64}"
        assert re.fullmatch(pinned, service["image"]), f"{name}: {service['image']} is not pinned"
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        assert "healthcheck" in service or service["restart"] == "no", name
        assert not service.get("privileged") and "network_mode" not in service, name
    assert compose["services"]["database"]["user"] == "postgres"
    assert set(compose["volumes"]) == {"database", "store"}


def test_roots_are_read_only_and_memory_and_processes_are_limited(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert re.fullmatch(r"\d+g", service["mem_limit"]) and 0 < service["pids_limit"] <= 4096, name
        mounts = dict(mount.split(":", 1) for mount in service["tmpfs"])
        assert TEMPORARY in mounts and all("size=" in options for options in mounts.values()), name
        executable = [path for path, options in mounts.items() if "noexec" not in options]
        assert executable == ([TEMPORARY] if name == "training-worker" else []), name
        if "build" in service:
            assert service["environment"]["HOME"] == TEMPORARY, f"{name} writes into its home, which is read-only"
    pages = compose["services"]["server"]["environment"]["PREFECT_SERVER_UI_STATIC_DIRECTORY"]
    assert Path(pages).is_relative_to(TEMPORARY), "beside its own code Prefect can write no pages, and starts without any"


def test_no_image_runs_as_root_or_floats() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    for stage in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]:
        name = stage.split("\n")[0].split(" AS ")[1]
        if name in ("server", "data-worker", "training-worker"):
            assert re.findall(r"^USER (\w+)$", stage, re.MULTILINE) == ["korealbert"], name
    bases = re.findall(r"^(?:ARG PYTHON=|FROM )(\S+)", text, re.MULTILINE)
    named = re.findall(r"^FROM .* AS (\S+)$", text, re.MULTILINE)
    assert [
        base for base in bases if base not in named and not re.fullmatch(r"python:3\.11\.\d+-\S+@sha256:[0-9a-f]{64}", base)
    ] == ["${PYTHON}"]
    copied = {part for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for part in line.split()[:-1]}
    for path in copied - {"--chown=korealbert"}:
        assert (ROOT / path).exists(), path


def test_images_install_by_hash_and_torch_by_version() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    installed = re.findall(r"pip install ([^&\n]+)", text)
    for arguments in installed:
        if "/locks/torch.txt" in arguments:
            assert "--extra-index-url" not in arguments, "a second index may answer for any name"
        elif "--requirement" in arguments:
            assert "--require-hashes" in arguments and "--no-deps" in arguments, arguments
        else:
            assert arguments.strip() == "--no-deps /wheels/*.whl", arguments
    read = {name for arguments in installed for name in re.findall(r"/locks/(\w+)\.txt", arguments)}
    assert read == {"build", "server", "worker", "torch"}
    builds = [
        arguments
        for arguments in (*installed, *re.findall(r"pip wheel ([^&\n]+)", text))
        if "worker.txt" in arguments or "/source" in arguments
    ]
    assert len(builds) == 2 and all("--no-build-isolation" in arguments for arguments in builds), (
        "a build would fetch its tools unhashed"
    )


@pytest.mark.soak
def test_the_servers_container_has_no_documentation_pages_and_answers_its_own_pages_alone(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    """The image's files and command with the settings of its service, on a free port and over SQLite."""
    stage = next(
        part
        for part in re.split(r"^FROM ", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
        if "AS server" in part
    )
    for copied, place in re.findall(r"^COPY (?!--from|locks)(\S+) (\S+)$", stage, re.MULTILINE):
        shutil.copy(ROOT / copied, tmp_path / place)
    service = compose["services"]["server"]
    assert "command" not in service, "the image's own command is the one that hides the pages"
    (command,) = (json.loads(line) for line in re.findall(r"^CMD (.*)$", stage, re.MULTILINE))
    assert command[0] == "python" and command[command.index("--host") + 1] == "0.0.0.0"  # noqa: S104 (within a container)
    listener = listen("127.0.0.1", 0)
    command = [sys.executable, *command[1:], "--socket", str(listener.fileno())]
    own = {
        "HOME": str(tmp_path / "home"),
        "PREFECT_HOME": str(tmp_path / "home"),
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(tmp_path / "ui"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}",
    }
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "PYTHONPATH"))}
    root = f"http://127.0.0.1:{listener.getsockname()[1]}"
    options = {"env": clean | service["environment"] | own, "pass_fds": [listener.fileno()]}
    with listener, (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT, **options)
    try:
        wait_until_healthy(f"{root}/api/health", server, remedy=f"see {tmp_path / 'log'}")
        assert [status(f"{root}/{page}") for page in ("docs", "redoc", "openapi.json")] == [404, 404, 404]
        assert status(f"{root}/api/flow_runs/count") == 401
        assert status(f"{root}/api/flow_runs/count", VARIABLES["PREFECT_AUTH"]) == 200
        allowed = {
            origin: allowed_origin(f"{root}/api/health", origin) for origin in ("http://127.0.0.1:4200", "http://evil.example")
        }
        assert allowed == {"http://127.0.0.1:4200": "http://127.0.0.1:4200", "http://evil.example": None}
    finally:
        stop(server)


def allowed_origin(url: str, origin: str) -> str | None:
    """The origin whose pages may read what the server answers to one of ``origin``."""
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Origin": origin}), timeout=300) as answer:  # noqa: S310
        return answer.headers.get("Access-Control-Allow-Origin")
