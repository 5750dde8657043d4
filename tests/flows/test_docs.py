"""The documentation is right: its commands exist and run, its links lead somewhere, its generated page is current."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, locks
from korealbert.flows.cli import app
from korealbert.recipe import registry
from korealbert.recipe.reference import page
from tests.flows.conftest import TINY

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ELSEWHERE = {"cd", "docker", "export", "sbatch", "srun", "pre-commit", "unshare", "ray", "ssh", "deepspeed"}
"""Programs in the documentation that are not ours."""
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))["deployments"]


def blocks(path: Path, language: str) -> list[str]:
    fence = re.compile(rf"^( *)```{language}\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
    return [match[2] for match in fence.finditer(path.read_text("utf-8"))]


def commands() -> list[tuple[str, str]]:
    """Return every line of every shell block, with its page, without pipes, output files and comments."""
    found = []
    for path in PAGES:
        for block in blocks(path, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                command = re.split(r" +#|^#| \| | > ", line.strip())[0].strip()
                if command:
                    found.append((path.name, command))
    return found


def is_placeholder(word: str) -> bool:
    return "…" in word or word in ("RECIPE", "NAME", "FILE")


@pytest.mark.parametrize(("page_name", "command"), commands())
def test_a_command_exists_with_its_options(page_name: str, command: str) -> None:
    words = [
        word for word in shlex.split(command) if "=" not in word or word.startswith("-") or not word.split("=")[0].isupper()
    ]
    program = Path(words[0]).name if words else "export"
    if program == "korealbert":
        group: Any = get_command(app)
        name, *arguments = words[1:]
        assert name in group.commands, command
        if not any(is_placeholder(word) for word in arguments):
            group.commands[name].make_context(name, arguments).close()
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert set(words[1:]) <= set(targets), command
    elif program == "prefect" and words[1:3] == ["deployment", "run"]:
        matching = [d for d in DEPLOYMENTS if d["name"] == words[3].rpartition("/")[2]]
        flows = [d for d in DEPLOYMENTS if words[3].replace("-", "_") in d["entrypoint"].split(":")[1:]]
        assert matching or len(flows) == 1, command
        file, flow = (matching or flows)[0]["entrypoint"].split(":")
        parameters = getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), flow).parameters.properties
        given = {value.split("=")[0] for option, value in pairwise(words) if option in ("-p", "--param")}
        assert given <= set(parameters), command
    elif program == "prefect":
        assert words[1] in ("deployment", "automation", "deploy", "server", "worker", "config"), command
    elif program == "python":
        assert words[1] == "-m" and importlib.util.find_spec(words[2]) is not None, command
    elif program == "pip":
        assert "install" in words, command
    else:
        assert program in ELSEWHERE, f"{page_name}: {command}"


RUNNABLE = {"plan", "show", "inspect", "gc", "verify", "export", "import"}


@pytest.fixture(scope="module")
def desk(straight: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory like the project's root, whose store holds a finished run."""
    root = tmp_path_factory.mktemp("desk")
    shutil.copytree(straight["report"].path.parent, root / "store")
    (root / "data_specs").symlink_to(ROOT / "data_specs")
    (root / "recipe.toml").symlink_to(TINY)
    names = {stage.label: stage.name for stage in recipes.prepare(TINY, recipes_store(root)).planned}
    with locks.recorded(root / "store", TINY, None, names):
        pass
    return root


def recipes_store(root: Path) -> Any:
    from korealbert.artifact import Store

    return Store(root / "store")


def test_every_command_that_can_run_here_runs(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    ran = []
    for name, command in commands():
        words = shlex.split(command)
        if words[0] != "korealbert" or words[1] not in RUNNABLE or any(is_placeholder(word) for word in words):
            continue
        if any(gone in command for gone in ("texts", "my.toml", "blog", "crawl/", "report -")):
            continue
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{name}: {command}\n{result.output}"
        ran.append(words[1])
    assert set(ran) == RUNNABLE
    assert len(ran) > 12


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.name))
def test_links_and_tests_named_on_a_page_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"
    file = ""
    for named, name in re.findall(r"`(?=tests/|::)(tests/[\w/]+\.py)?(?:::(\w+))?`", text):
        file = named or file  # a name without a file is in the last file named
        assert (ROOT / file).is_file(), file
        assert not name or f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{file}::{name}"


class _AnyTag(yaml.SafeLoader):
    """For mkdocs.yml, which names Python objects."""


_AnyTag.add_multi_constructor("", lambda loader, suffix, node: None)


def test_the_site_has_every_page_once() -> None:
    nav = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _AnyTag)["nav"]  # noqa: S506 (a safe loader)
    named = [page for part in nav for one in part.values() for page in ([one] if isinstance(one, str) else _values(one))]
    above = ["index.md", "index.ko.md", "contributing.md", "commands.md"]  # docs/pages.py brings them
    assert sorted(named) == sorted([*above, *(path.name for path in (ROOT / "docs").glob("*.md"))])


@pytest.fixture
def pages_of_the_site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/pages.py, which is only run by MkDocs."""
    for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(File=None, Files=None))
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("pages_of_the_site", ROOT / "docs" / "pages.py")
    assert spec is not None and spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    return pages


def test_diagrams_are_drawn_where_the_site_is_built(pages_of_the_site: ModuleType) -> None:
    """A reader without network could not load mermaid's script."""
    for path in (path for path in PAGES if "```mermaid" in path.read_text("utf-8")):
        shown = pages_of_the_site.on_page_markdown(path.read_text("utf-8"))
        drawn = {re.sub("<[^>]+>", "", text) for text in re.findall(r"<text .*?</text>", shown)}
        for block in blocks(path, "mermaid"):
            arrows = "\n".join(line for line in block.splitlines() if "-->" in line)
            assert set(re.findall(r"\b[a-z]+\b(?=\[| *(?:-->|&|$))", arrows, re.MULTILINE)) <= drawn
        assert "mermaid" not in shown and "</svg></div>" in shown


def test_long_code_and_names_in_tables_may_be_broken(pages_of_the_site: ModuleType) -> None:
    """Otherwise a command runs out of the page, and a narrow screen cuts a field's name anywhere."""
    command = "korealbert run sample " + "--set 'pretrain.steps=1' " * 3
    row = "<tr>\n<td><code>max_failed_share</code></td>\n<td><code>a_b</code></td>\n</tr>"
    assert pages_of_the_site.on_page_content(f"<p><code>{command}</code> <code>plan</code></p>{row}") == (
        f'<p><code class="long">{command}</code> <code>plan</code></p>'
        + row.replace("max_failed_share", "max_<wbr>failed_<wbr>share")
    )


def _values(entries: list[dict[str, str]]) -> list[str]:
    return [page for entry in entries for page in entry.values()]


@pytest.mark.parametrize("name", ["quick-start", "own-corpus"])
def test_the_korean_page_has_the_commands_of_the_english_one(name: str) -> None:
    english, korean = ([command for page, command in commands() if page == f"{name}{ending}"] for ending in (".md", ".ko.md"))
    english = english[: len(korean)]  # What follows is in English alone.
    assert korean and korean == english


def test_what_the_page_of_python_shows_is_there() -> None:
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "python-api.md").read_text("utf-8"), re.MULTILINE)
    assert len(names) > 10
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__, name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.name))
def test_tables_shown_on_a_page_are_toml(path: Path) -> None:
    for block in blocks(path, "toml"):
        tomllib.loads(block)


def test_the_recipe_reference_is_current_and_whole() -> None:
    text = page()
    assert (ROOT / "docs" / "recipes.md").read_text("utf-8") == text, "python -m korealbert.recipe.reference > docs/recipes.md"
    for table, stage in registry.tables().items():
        section = text.split(f"## [{table}]")[1].split("\n## ")[0]
        assert all(f"| `{field}` |" in section for field in stage.spec.model_fields), table
    assert "|  |\n" not in text, "every field has its meaning beneath it"


def test_the_changelog_has_the_version_of_every_stage() -> None:
    section = (ROOT / "CHANGELOG.md").read_text("utf-8").split("### Stage versions")[1]
    versions = {name: str(stage.version) for name, stage in registry.by_name().items()}
    assert dict(re.findall(r"`(\w+)` (\d+)", section)) == versions


def test_the_automations_are_ones_that_prefect_takes() -> None:
    from prefect.automations import Automation

    for each in yaml.safe_load((ROOT / "docs" / "automations.yaml").read_text("utf-8"))["automations"]:
        assert Automation.model_validate(each).description


def test_the_korean_readme_has_the_results_of_the_english_one() -> None:
    english, korean = (
        re.findall(r"[+−]?\d+\.\d+", text[text.index(heading) :].split("\n## ")[0])
        for text, heading in (
            ((ROOT / "README.md").read_text("utf-8"), "\n## Results"),
            ((ROOT / "README.ko.md").read_text("utf-8"), "\n## 결과"),
        )
    )
    assert set(english) - {"2.4"} <= set(korean)  # 2.4 M parameters are 240만 there.
