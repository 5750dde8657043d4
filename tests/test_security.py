"""Threats of docs/security.md that concern the whole project; others are tested in their rooms."""

from __future__ import annotations

import ast
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from korealbert.artifact import Runtime, Spec, build
from korealbert.corpus.crawl.fetch import FetchSpec
from korealbert.flows.cli import app
from korealbert.flows.services.local_server import credentials
from tests.artifact.conftest import WORDS, Text
from tests.building import build_all

ROOT = Path(__file__).parents[1]
MODULES = [path for folder in ("korealbert", "flows", "bench") for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.AST]:
    """Parse every module of the project."""
    return {path: ast.parse(path.read_text("utf-8")) for path in MODULES}


FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "torch.jit.load"}
FORBIDDEN_CALLS |= {"torch.hub.load", "pandas.read_pickle", "pd.read_pickle"}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(tree: ast.AST) -> Iterator[str]:
    """Yield what a module does that could run other people's code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"line {node.lineno}: imports {name}" for name in names if name.split(".")[0] in FORBIDDEN_MODULES)
        if not isinstance(node, ast.Call):
            continue
        name, given = dotted(node.func), {word.arg: word.value for word in node.keywords}
        if name in FORBIDDEN_CALLS:
            yield f"line {node.lineno}: calls {name}"
        if name == "torch.load" and not (isinstance(w := given.get("weights_only"), ast.Constant) and w.value is True):
            yield f"line {node.lineno}: torch.load without weights_only=True"
        if name in ("np.load", "numpy.load") and "allow_pickle" in given:
            yield f"line {node.lineno}: {name} with allow_pickle"
        for option in ("shell", "trust_remote_code", "allow_dangerous_deserialization"):
            value = given.get(option)
            if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
                yield f"line {node.lineno}: {name} with {option}"


def test_nothing_loads_code(trees: dict[Path, ast.AST]) -> None:
    found = [f"{path.relative_to(ROOT)} {fault}" for path, tree in trees.items() for fault in faults(tree)]
    assert found == []
    assert len(MODULES) > 200


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=flag)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader=yaml.Loader)",
    ],
)
def test_the_check_finds_faults(code: str) -> None:
    assert list(faults(ast.parse(code)))


def test_weights_and_arrays_may_be_loaded() -> None:
    assert list(faults(ast.parse("torch.load(p, weights_only=True); re.compile('x'); model.eval(); np.load(p)"))) == []


CLIENTS = {"aiohttp", "ftplib", "http.client", "httpcore", "httpx", "requests", "scrapy", "urllib.request", "urllib3"}


def test_only_the_client_that_checks_addresses_sends_requests(trees: dict[Path, ast.AST]) -> None:
    found = set()
    for path, tree in trees.items():
        if not path.is_relative_to(ROOT / "korealbert"):
            continue
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {(path.name, name) for name in names if name in CLIENTS}
    assert found == {("client.py", "httpcore")}


def specs(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in kind.__subclasses__():
        yield child
        yield from specs(child)


def test_no_spec_has_a_field_for_a_secret() -> None:
    import korealbert.recipe  # noqa: F401 (declares every spec)

    secret = re.compile(r"(^|_)(password|passwd|secret|credentials?|auth|api_key|access_key|private_key)(_|$)")
    fields = [f"{spec.__name__}.{name}" for spec in specs(Spec) for name in spec.model_fields]
    assert len(fields) > 100
    assert [field for field in fields if secret.search(field.split(".")[1])] == []


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(ValidationError, match="manifest"):
        FetchSpec.model_validate({"url": "https://somebody:pw@example.org/dump.xml.bz2"})


def test_no_file_of_a_store_has_variables_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "someone:very-secret-indeed")
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "very-secret-too")
    artifact = build(WORDS, Text(), {}, Runtime(store=tmp_path / "store", workers=1)).artifact
    written = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert artifact.name.encode() in written and b"very-secret" not in written


def test_credentials_are_created_once_and_only_their_owner_can_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / ".env"
    file.write_text("# mine\nCORPUS=/corpora\n", "utf-8")
    made = credentials(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made == credentials(file), "once"
    user, password = made["PREFECT_SERVER_API_AUTH_STRING"].split(":")
    assert user and len(password) >= 32
    assert file.read_text("utf-8").startswith("# mine\nCORPUS=/corpora\n")
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "me:chosen")
    assert credentials(file)["PREFECT_API_AUTH_STRING"] == "me:chosen"
    assert ".env" in (ROOT / ".gitignore").read_text("utf-8") and ".env" in (ROOT / ".dockerignore").read_text("utf-8").split()


RECIPE = """
name = "hostile"
[extract.web]
format = "jsonl"
paths = ["documents.jsonl"]
license = "none"
[pretrain]
steps = 1
[clean.web]
limits = { min_characters = 0 }
"""


def test_a_hostile_document_stays_text(tmp_path: Path) -> None:
    """It is followed from the raw file to the page that the command line writes."""
    nasty = "<script>alert('본문')</script> 이 글에는 스크립트가 들어 있다. \"><img src=x onerror=alert(1)>\n\n"
    nasty += "\n\n".join(
        f"강가에서 {n}번째 배가 떠났고 사람들은 손을 흔들며 오래도록 그 뒤를 바라보았다." for n in range(1, 12)
    )
    document: dict[str, Any] = {"id": "1", "title": "<img src=x onerror=alert(2)>", "text": nasty, "category": "<b>사회</b>"}
    (tmp_path / "documents.jsonl").write_text(json.dumps(document, ensure_ascii=False) + "\n", "utf-8")
    recipe, store, page = tmp_path / "r.toml", str(tmp_path / "store"), tmp_path / "page.html"
    recipe.write_text(RECIPE, "utf-8")
    from korealbert import recipe as recipes

    nodes = recipes.until(recipes.graph(recipes.load(recipe)), "clean/web")
    for label, artifact in build_all(nodes, Runtime(store=Path(store), workers=1)).items():
        dropped = [] if artifact.stats["documents_out"] else ["--dropped", "all"]
        shown = CliRunner().invoke(app, ["inspect", label, "--store", store, "--html", str(page), *dropped])
        assert shown.exit_code == 0, shown.output
        html = page.read_text("utf-8")
        assert "alert" in html, "the text is on the page"
        assert "스크립트가 들어 있다" in html
        assert "<script" not in html.lower() and "<img" not in html.lower() and "<b>" not in html
