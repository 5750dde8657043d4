"""Typical mistakes on the real command line: each gets one line that says what is wrong and what to do."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from korealbert import recipe as recipes
from korealbert.artifact import Runtime, build
from korealbert.corpus import extract
from korealbert.flows.cli import app
from tests.archives import zipped
from tests.building import build_all

RECIPE = """
[extract.x]
format = "{format}"
paths = ["{path}"]
{more}
[clean.x]
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a project, files of several formats, and a store that holds a corpus."""
    root = tmp_path_factory.mktemp("desk")
    (root / "texts").mkdir()
    for number in range(3):
        (root / "texts" / f"{number}.txt").write_text(f"도서관에서 책을 {number}권 읽었다. 바다가 조용하다.\n")
    pq.write_table(pa.table({"body": ["가나다"] * 30}), root / "a.parquet")
    (root / "a.jsonl").write_text('{"body": "가나다"}\n' * 30)
    (root / "a.csv").write_text("title,body\n" + "제목,본문\n" * 30)
    (root / "cp949.txt").write_bytes("도서관".encode("cp949"))
    (root / "plain").touch()
    (root / "capitals.toml").write_text('[Extract.x]\nformat = "text"\npaths = ["texts"]\n[clean.x]\n')
    training = root / "pretrain-0123456789abcdef"
    training.mkdir()
    (training / "config.json").write_text("{}")
    (root / "recipe.toml").write_text(RECIPE.format(format="text", path="texts", more=""))
    graph = recipes.dag.corpus_graph(recipes.reading.load_corpus(root / "recipe.toml"))
    build_all(recipes.until(graph, "clean/x"), Runtime(store=root / "store", workers=1))
    return root


def of_recipe(format_: str, path: str, more: str = "") -> Callable[[Path], list[str]]:
    """Return a run of extraction of a recipe with one source."""

    def arguments(root: Path) -> list[str]:
        (root / "other.toml").write_text(RECIPE.format(format=format_, path=path, more=more))
        return ["run", "other.toml", "--until", "extract", "--store", "other-store"]

    return arguments


MISTAKES: dict[str, tuple[str | Callable[[Path], list[str]], str]] = {
    "a command": ("rnu", r"No such command 'rnu'. Did you mean 'run'"),
    "an option": ("run --stor x", r"No such option: --stor \(Possible options: .*--store\)"),
    "a folder that is not there": ("new mine --from textz", r"textz: no such file or directory"),
    "nothing to read": (
        "new mine --from plain",
        r"plain: holds no file of a known format that has text in it, only 1 without an ending \(add \.txt .*; known are \.txt",
    ),
    "two directories": ("new mine texts", r"Invalid value for DIRECTORY: 'texts' after it; for several files name their dir"),
    "a project where none can be": ("new /proc/x", r"/proc/x: No such file or directory; check its path, or name another"),
    "a name that no file can have": (f"run {'a' * 300}", r"^a{300}: File name too long; name a shorter one$"),
    "a project of such a name": (f"new {'a' * 300}", r"a{300}.*: File name too long; name a shorter one$"),
    "a project below a file": ("new a.csv/x", r"a.csv/x: Not a directory; a part of its path is a file; name an"),
    "a certificate": ("verify-score a.jsonl", r"a.jsonl: no certificate \(.*\); name the file that --certificate wrote"),
    "a project twice": ("new . --from texts", r"recipe\.toml exists; name another directory"),
    "a shipped recipe": ("plan smaple", r"smaple: no such recipe \(did you mean 'sample'\?\)"),
    "a recipe's file": ("plan recpie.toml", r"no such recipe \(did you mean 'recipe.toml'\?\)"),
    "no recipe anywhere": ("plan texts/none.toml", r"no such recipe; `korealbert new DIR --from FILES` makes one"),
    "a directory for a recipe": ("run .", r"is a directory; name a recipe's TOML file \(did you mean 'recipe.toml'\?\)"),
    "a project for a recipe": (
        lambda root: ["plan", f"../{root.name}"],
        r"is a directory; name a recipe's TOML file \(did you mean '../desk\d+/recipe.toml'\?\)",
    ),
    "lineage to an address": (
        "run --lineage ftp://x",
        r"--lineage ftp://x: is neither a file nor an address that begins with http",
    ),
    "lineage to nowhere": (
        "run --lineage no/where",
        r"--lineage no/where: no events can be written here \(No such file.*; name",
    ),
    "a machine of a plan without costs": ("plan --until clean --as nothing", r"no machine 'nothing'.*known are core, h100"),
    "a stage beyond the last": (
        "plan --from dedup --until clean",
        r"from: the recipe has 'dedup', but outside .* up to 'clean'",
    ),
    "a stage": ("plan --until cleen", r"no stage 'cleen' \(did you mean 'clean'\?\)"),
    "a field": ("plan --set extract.x.pahts=1", r"unknown field 'pahts' \(did you mean 'paths'\?\)"),
    "no value": ("plan --set vocab.size", r"write FIELD=VALUE, as in --set pretrain.steps=200"),
    "a type": ("plan --set vocab.size=many", r"\[vocab\], field 'size': .*valid integer \(it is 'many'\)"),
    "a path for a list": ("plan --set extract.x.paths=texts", r'field .paths.: .*; write paths = \["texts"\]'),
    "a format": ("plan --set extract.x.format=cvs", r"field 'format': .*\(it is 'cvs'\) \(did you mean 'csv'\?\)"),
    "a pattern for a path": (
        of_recipe("text", "texts/*.txt"),
        r"no such file or directory: .*; patterns are not expanded here: name the directory .*/texts and set members .+\.txt",
    ),
    "a path": (of_recipe("text", "textz"), r"no such file or directory: .*textz \(did you mean 'texts'\?\)"),
    "a delimiter by name": (
        of_recipe("csv", "a.csv", 'delimiter = "tab"'),
        r"field 'delimiter': a delimiter is one ASCII character; a tab is \"\\t\" \(it is 'tab'\)",
    ),
    "a value for a table": ("plan --set clean.x=news", r"\[clean\.x\] must be a table, it is a str"),
    "a table in capitals": ("plan --set x=1 capitals.toml", r"\[Extract\]: write it in lower case, \[extract\]"),
    "a stray table": ("plan --set clean.y.source_kind=1", r"\[clean.y\]: no source of this name.*begins with \[extract.y\]"),
    "a source's name": ('plan --set dedup.priority=["y"]', r"\[dedup\], field 'priority': no source 'y'; there are x"),
    "forgotten --data": (
        'plan --set extract.x.paths=["${data}/a.txt"]',
        r"no such file or directory: .*a.txt \(did you mean .texts.\?\); \$\{data\} stands for .*; name the directory of your "
        r"data with --data",
    ),
    "a data directory": (
        "plan --data nowhere",
        r"--data nowhere: no such directory; name the one that holds the recipe's data",
    ),
    "parquet as jsonl": (of_recipe("jsonl", "a.parquet"), r'these bytes are Parquet: set format = "parquet"'),
    "csv as jsonl": (of_recipe("jsonl", "a.csv"), r"or are these files no jsonl\? \[extract.x\] format names their format"),
    "jsonl as parquet": (of_recipe("parquet", "a.jsonl"), r'these bytes are json: set format = "json"'),
    "csv as a dump": (of_recipe("mediawiki", "a.csv"), r'these bytes are a table: set format = "csv"'),
    "a column": (of_recipe("csv", "a.csv", 'fields.text = "bdy"'), r"the record has the fields title, body: set fields.text"),
    "a field that no record has": (
        of_recipe("jsonl", "a.jsonl", 'fields = { text = "body", title = "titel" }'),
        r"no record has the field 'titel' that fields.title names; correct it, or set it to an empty string",
    ),
    "an encoding": (of_recipe("text", "cp949.txt"), r'the file looks like CP949: set encoding = "cp949"'),
    "a pattern": (of_recipe("text", "texts", 'members = "*.md"'), r"hold no file that matches members = '\*.md'"),
    "half a table": (of_recipe("text", 'texts"', ""), r"not valid TOML: .*line 4"),
    "a store that is a file": ("plan --store plain", r"Invalid value for '--store': dir 'plain' is a file"),
    "a store that cannot be": ("run --store plain/store", r"no store can be made here \(.*\); name another directory"),
    "no store": (
        "show clean --store nowhere",
        r"no artifact 'clean', nor a store; `korealbert run RECIPE --store nowhere` makes one",
    ),
    "an artifact": ("inspect clean/z", r"no artifact 'clean/z' \(did you mean 'clean/x'\?\)"),
    "a recipe to compare": ("diff recipe.toml smallsample", r"no artifact 'smallsample' \(did you mean 'small-sample'\?\)"),
    "a table of a corpus": (
        of_recipe("text", "texts", "[vocab]\nsize = 300\n[claen.x]"),
        r"\[claen\] \(did you mean 'clean'\?\)",
    ),
    "a table that is near to none": (
        of_recipe("text", "texts", "[deduplication]"),
        r"unknown table or field \[deduplication\]",
    ),
    "an artifact to export": ("export-corpus claen out", r"no artifact 'claen' \(did you mean 'clean/x'\?\)"),
    "an address to export to": (
        "export-corpus clean/x ftp://host/x",
        r"cannot write to ftp://; name a directory, or one of hf",
    ),
    "a model to export to": ("export-corpus clean/x hf://me/x", r"a dataset of the hub is hf://datasets/OWNER/NAME"),
    "a reason": ("inspect clean/x --dropped short", r"did you mean 'too_short'|nothing.*short"),
    "a training for a model": (
        "fill-mask pretrain-0123456789abcdef [MASK]",
        r"no exported model here \(tokenizer_config\.json is missing\); name an artifact",
    ),
    "a text without a mask": ("fill-mask", r"Missing argument 'model'"),
    "a file to extract": ("extract news none.json", r"none\.json: no such file or directory"),
    "a kind to extract": ("extract wiki a.jsonl", r"'wiki' is not one of 'wikipedia', 'namuwiki'"),
    "a task": ("score nsmcc gold predictions", r"no task 'nsmcc' \(did you mean 'nsmc'\?\)"),
    "gold that is not there": ("score nsmc none.txt none.jsonl", r"none.txt: no such file; NSMC comes from"),
    "an archive": ("import none.tar", r"none.tar: no such file; name an archive that `korealbert export` wrote"),
    "an archive of others": ("import a.csv", r"a.csv: not a whole archive of `korealbert export`"),
    "a device": ("run --device gpu", r"Invalid value for '--device': 'gpu' is not one of 'auto', 'cpu', 'cuda'"),
    "a hostfile": ("run --hosts none", r"Invalid value for '--hosts': file 'none' does not exist"),
    "a machine of an unknown number": ("run --node 3", r"--node 3: say with --nodes how many machines run this command"),
    "a machine": ("run --nodes 2 --node 2", r"node = 2 is not below nodes = 2; machines count from 0"),
}


EMPTY = {
    "new ''": "'DIRECTORY'",
    "new mine --from ''": "'--from'",
    "new mine --from=": "'--from'",
    "plan ''": "'recipe'",
    "plan --as ''": "'--as'",
    "plan --set ''": "'--set'",
    "run --store ''": "'--store'",
    "run --data ''": "'--data'",
    "run --data-root ''": "'--data-root'",
    "run --lineage ''": "'--lineage'",
    "run --until clean --rerun extract --rerun ''": "'--rerun'",
    "show ''": "'artifact'",
    "inspect ''": "'artifact'",
    "inspect clean/x --id ''": "'--id'",
    "diff recipe.toml ''": "'second'",
    "verify clean ''": "'artifact'",
    "gc --recipe ''": "'--recipe'",
    "export-corpus clean/x ''": "'output'",
    "push '' me/x": "'what'",
    "import ''": "'source'",
    "fill-mask '' [MASK]": "'model'",
    "extract news ''": r"'FILE\.\.\.'",
}
"""Calls with an empty option or argument, and its name in the message."""
MISTAKES |= {
    asked: (
        lambda _, asked=asked: shlex.split(asked),
        rf"Invalid value for {name}: it is empty, as an unset variable of the shell",
    )
    for asked, name in EMPTY.items()
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("one_server")
def test_a_mistake_is_told_in_one_line_with_a_remedy(mistake: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    asked, expected = MISTAKES[mistake]
    arguments = asked.split(" ") if isinstance(asked, str) else asked(desk)
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.output
    assert re.search(expected, lines[0]), lines[0]


def test_a_wrong_target_of_lineage_is_refused_before_the_run_is_announced(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    assert CliRunner().invoke(app, ["run", "--lineage", "ftp://x"]).stdout == ""


def test_a_project_without_files_of_ones_own_is_one_of_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "."])
    assert done.exit_code == 0, done.output
    assert "these sources are the sample that korealbert ships: put your own into recipe.toml" in done.stdout
    assert done.stdout.endswith("recipe.toml is yours to change; then: korealbert run\n")


def test_all_that_is_wrong_with_a_recipe_is_told_at_once(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    (desk / "wrong.toml").write_text(
        '[extract.x]\nformat = "cvs"\npath = ["texts"]\n[clean.y]\n[crawl.z]\n[vocab]\nsiz = 3\n[extrct]\n[pretrain]\n'
    )
    output = CliRunner().invoke(app, ["plan", "wrong.toml"]).stderr
    for expected in ("'cvs'", "'path'", "[clean.y]", "[crawl.z]", "'siz'", "[extrct]", "'steps' is missing"):
        assert expected in output, output


def test_names_of_members_cannot_steer_the_terminal(tmp_path: Path) -> None:
    steering = "\x1b]0;title\x07\x1b[2J\x9b31m"
    readable = json.dumps({"text": f"도서관에서 {steering} 책을 읽었다."})
    (tmp_path / "a.zip").write_bytes(zipped({f"{steering}.jsonl": '{"text": \n', "b.jsonl": readable}))
    spec = {"source": "x", "format": "jsonl", "paths": (tmp_path / "a.zip",), "max_bad_share": 1.0}
    artifact = build(
        extract.STAGE, extract.ExtractSpec.model_validate(spec), {}, Runtime(store=tmp_path / "store", workers=1)
    ).artifact
    for shown in (["--quarantine"], []):
        done = CliRunner().invoke(app, ["inspect", artifact.name, *shown, "--store", str(tmp_path / "store")])
        assert done.exit_code == 0 and "]0;title" in done.output, done.output
        assert not [c for c in done.output if unicodedata.category(c) == "Cc" and c != "\n"]
    done = CliRunner().invoke(app, ["extract", "news", str(tmp_path / "a.zip")])
    assert done.exit_code == 1 and "]0;title" in done.stderr and "\x1b" not in done.stderr
