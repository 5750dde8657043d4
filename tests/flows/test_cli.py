"""The command line: its output when all is well and when it is not."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from korealbert import recipe as recipes
from korealbert.artifact import Progress, Runtime, Store
from korealbert.flows.cli import app
from korealbert.flows.display import bars, notes, plan_table
from korealbert.flows.step import CACHED, _counted, scored, watcher
from korealbert.flows.terminal import console, print_sections
from korealbert.recipe.planning import Planned
from korealbert.report.render import blocks
from tests.building import build_all

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the tiny recipe up to clean/news, in a directory whose name looks like markup."""
    root = tmp_path_factory.mktemp("cli") / "스토어 [red] 1"
    build_all(recipes.until(recipes.graph(recipes.load(TINY)), "clean/news"), Runtime(store=root, workers=1))
    return root


def test_plan_says_what_is_cached_and_what_would_run(store: Path) -> None:
    lines = call("plan", TINY, "--store", store).splitlines()
    status = {line.split()[0]: line.split()[1] for line in lines if re.match(r"\S+ +(cached|new|stale)", line)}
    assert status["clean/news"] == "cached" and status["vocab"] == "new"
    assert "would run" in lines[-1]


@pytest.mark.parametrize("width", [80, 140])
def test_a_plan_fits_the_terminal_and_ends_with_what_it_costs(width: int, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", width)
    *lines, last = call("plan", TINY, "--store", store, "--as", "h100").splitlines()
    assert max(len(line.rstrip()) for line in lines if not line.startswith("tiny")) <= width
    assert re.fullmatch(r"\d+ of \d+ stages would run: about .*, .* on disk, .* of memory", last)
    assert "no machine 'h101'" in call("plan", TINY, "--store", store, "--as", "h101", code=2)


def test_a_narrow_plan_breaks_no_name(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 40)
    lines = call("plan", TINY, "--store", store).splitlines()
    assert {"finetune/korsts/pretrained/1  new", "clean/news  cached"} <= {*lines}
    assert any(line.startswith("  memory: ") for line in lines)


def test_a_wide_plan_whose_table_does_not_fit_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 140)
    planned = Planned("clean/news", "clean-0", "stale", ("/" + "d" * 140,))
    assert f"clean/news: /{'d' * 140}" in [*plan_table([planned])]


def test_a_note_of_several_stages_is_printed_once() -> None:
    planned = [Planned(f"pretrain/{cell}", cell, "new", (), advice="lower it" if cell != "b" else "") for cell in "abc"]
    assert notes(planned) == {"lower it": ["pretrain/a", "pretrain/c"]}


def test_output_whose_reader_has_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        ours = type(console)()
        ours.print("the first line")
        ours.print("the last line")


def test_an_ended_stage_tells_its_newest_metrics() -> None:
    tuned = {"metric": "accuracy", "dev": {"accuracy": 81.5}, "test": {"accuracy": 80.25}}
    assert scored(tuned) == ", accuracy 81.50 on dev, accuracy 80.25 on test"
    correlations = {"pearson": 0.0, "spearman": 0.0}
    warnings = ["dev: every prediction is the same: correlations are set to 0"]
    constant = {"metric": "pearson", "dev": correlations, "test": {"pearson": 1.0, "spearman": 1.0}, "warnings": warnings}
    assert scored(constant) == ", pearson undefined on dev, pearson 1.00 on test"
    trained = {"heldout": {"mlm_loss": 2.0514, "mlm_accuracy": 0.698, "mlm_perplexity": 7.8}, "tokens_per_second": 1234.4}
    assert scored(trained) == ", mlm_loss 2.051, mlm_accuracy 69.8%, 1,234 tokens a second"
    assert scored({"documents_out": 3}) == scored({"heldout": None}) == ""


def test_an_ended_stage_tells_what_it_kept_and_cries_where_that_is_nothing() -> None:
    assert _counted({"documents_in": 9, "documents_out": 8, "dropped": {"empty": 1}}) == ", 8 of 9 kept, 1 dropped"
    assert _counted({"documents_in": 9, "documents_out": 0, "dropped": {"empty": 9}}) == ", NOTHING KEPT of 9, 9 dropped"
    all_bad = {"files": 2, "documents_in": 3, "documents_out": 0, "quarantined": 3}
    assert _counted(all_bad) == ", 2 files → NOTHING KEPT of 3, 3 quarantined"
    assert _counted({"files": 1, "documents_in": 3, "documents_out": 3}) == ", 1 file → 3 of 3 kept"


def test_stages_that_another_run_has_built_meanwhile_count_as_cached(capsys: pytest.CaptureFixture[str]) -> None:
    """Also: a pipe gets a line for each stage, another before it if it waits for another run, and no bars."""
    found: set[str] = set()
    with bars(found):
        watch = watcher.get()
        assert watch is not None
        watch("extract/a", Progress(1, 1, "stages", message=CACHED))
        watch(
            "clean/a",
            Progress(0, None, "stages", message="clean/a: waiting for process 7 on a since 2026, which builds clean-0"),
        )
        watch("clean/a", Progress(1, 2, "shards"))
        watch("clean/a", Progress(1, 1, "stages", message="built in 0.1 s"))
        watch("pretrain", Progress(3, 9, "steps"))
    assert found == {"extract/a"}
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "extract/a cached",
        "clean/a: waiting for process 7 on a since 2026, which builds clean-0",
        "clean/a built in 0.1 s",
    ]


def test_an_unfinished_artifact_is_said_to_be_one(store: Path) -> None:
    (store / "vocab-0123456789abcdef.partial").mkdir()
    for name in ("vocab", "vocab-0123", "vocab-0123456789abcdef.partial"):
        output = call("show", name, "--store", store, code=2).replace("\n", "")
        assert output.endswith("is unfinished; the next `korealbert run` of its recipe continues it"), name
    assert "no artifact '/elsewhere/vocab'" in call("show", "/elsewhere/vocab", "--store", store, code=2).replace("\n", "")


def test_ablations_have_names_too(store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("plan", "sample/albert-table-2", "--store", store).startswith("albert-table-2: ")
    assert "(did you mean 'albert-table-2'?)" in call("plan", "albert-tabel-2", "--store", store, code=2)


def test_what_is_to_be_typed_after_new_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for number in range(25):
        (tmp_path / "texts" / f"{number}.txt").write_text(f"{number}번 글은 바다와 등대를 이야기한다. " * 9, "utf-8")
    assert call("new", "새 책", "--from", "texts").endswith("then: cd '새 책' && korealbert run\n")


def test_the_version_is_that_of_the_package() -> None:
    assert call("--version").split() == ["korealbert", version("korealbert")]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("korealbert ru", ["run"]),
        ("korealbert run --until vocab --st", ["--store"]),
        ("korealbert plan kowiki-s", ["kowiki-small"]),
        ("korealbert inspect clean/n", ["clean/news"]),
        ("korealbert push cl", ["clean/news"]),
        ("korealbert push voc", []),
        ("korealbert score klue_dp_", ["klue_dp_no_pos"]),
        ("korealbert diff kowiki-s", ["kowiki-small"]),
        ("korealbert diff sample cl", ["clean/news"]),
    ],
)
def test_shells_complete_commands_options_recipes_and_artifacts(store: Path, typed: str, offered: list[str]) -> None:
    assert completions(typed, KOREALBERT_STORE=str(store)) == offered


def completions(line: str, **variables: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    shell = {"_KOREALBERT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    return CliRunner().invoke(app, [], prog_name="korealbert", env=shell | variables).output.split()


def test_planning_leaves_no_trace_where_there_is_no_store(tmp_path: Path) -> None:
    assert "stages would run" in call("plan", TINY, "--store", tmp_path / "none")
    assert not list(tmp_path.iterdir())


def test_run_ends_at_once_and_prints_the_path_as_it_is_when_all_is_cached(store: Path) -> None:
    output = call("run", TINY, "--store", store, "--until", "clean/news")
    assert "all 2 stages are cached" in output
    assert Path(output.splitlines()[-1]).is_dir()


def test_ranks_that_batches_do_not_fit_leave_no_stage_behind(tmp_path: Path) -> None:
    assert "pretrain: global_batch_size = " in call("run", TINY, "--store", tmp_path, "--processes", 7, code=2)
    assert not list(tmp_path.glob("*-*"))


def test_show_lists_artifacts_and_prints_a_manifest(store: Path) -> None:
    assert "clean/news" in call("show", "--store", store)
    assert '"documents_in"' in call("show", "clean/news", "--store", store)


def test_inspect_shows_documents_drops_with_their_reason_and_removals(store: Path) -> None:
    assert "dropped: title_rule" in call("inspect", "clean/news", "--dropped", "title_rule", "--store", store)
    assert re.search(r"^\[-.*-\] ⟨\S+, tail⟩$", call("inspect", "clean/news", "--diff", "--store", store), re.MULTILINE)
    assert "nothing of this kind" in call("inspect", "clean/news", "--quarantine", "--store", store)


def test_inspect_refuses_what_it_cannot_show(store: Path) -> None:
    assert "has the id 'ffff0000ffff0000'" in call(
        "inspect", "clean/news", "--id", "ffff0000ffff0000", "--store", store, code=2
    )
    output = call("inspect", "clean/news", "--diff", "--quarantine", "--store", store, code=2)
    assert "--quarantine and --diff exclude each other" in output


def test_inspect_writes_a_page_and_turns_it(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "쪽.html"
    assert call("inspect", "clean/news", "--html", page, "--store", store).strip() == str(page)
    assert page.read_text("utf-8").startswith("<!doctype html>")
    every = call("inspect", "clean/news", "-n", 4, "--store", store)
    assert call("inspect", "clean/news", "-n", 2, "--offset", 2, "--store", store) in every


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_list_of_artifacts_names_each_whole_with_its_stage(width: int, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", width)
    listed = call("show", "--store", store)
    for artifact in Store(store).artifacts():
        [line] = [line for line in listed.splitlines() if artifact.name in line]
        assert str(artifact.manifest["label"])[:4] in line.replace(artifact.name, "")


def test_a_page_replaces_a_page_but_no_other_file(store: Path, tmp_path: Path) -> None:
    text, page = tmp_path / "my text.txt", tmp_path / "page.html"
    text.write_text("도서관에서 책을 읽었다.", "utf-8")
    page.write_text("<!DOCTYPE html> an older one", "utf-8")
    for command in (("inspect", "clean/news"), ("diff", TINY, TINY)):
        refused = call(*command, "--html", text, "--store", store, code=2)
        assert refused.replace("\n", "").endswith("my text.txt exists and is no page; name another file to write")
        call(*command, "--html", page, "--store", store)
        assert "older" not in page.read_text("utf-8")
    assert text.read_text("utf-8") == "도서관에서 책을 읽었다."


def test_a_comparison_with_itself_is_said_to_be_one(store: Path) -> None:
    assert "clean/news and clean/news are the same" in call("diff", "clean/news", "clean/news", "--store", store)
    assert "are the same" not in call("diff", "clean/news", "extract/news", "--store", store)


def test_a_prompt_without_a_mask_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": {"content": "<mask>"}}', "utf-8")
    assert "the text has no <mask>" in call("fill-mask", tmp_path, "봄이 [MASK].", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "missing.toml"), "missing.toml: no such recipe"),
        (("plan", TINY, "--until", "vocab", "--rerun", "pretrain"), "rerun: the recipe has 'pretrain', but outside the part"),
        (("plan", TINY, "--set", "pretrain.steps=1\npretrain.seed=2"), "[pretrain], field 'steps'"),
        (("show", "--store", "nowhere"), "nowhere: no store here"),
        (("fill-mask", "nowhere", "[MASK]"), "no artifact 'nowhere'"),
    ],
)
def test_errors_say_what_is_wrong_and_end_with_2(arguments: tuple[object, ...], message: str) -> None:
    assert message in call(*arguments, code=2)


def test_one_wrong_field_is_one_line() -> None:
    output = call("plan", TINY, "--set", "pretrain.steps=abc", code=2)
    assert "'steps'" in output and "default factory" not in output, output


def test_a_reason_that_did_not_occur_names_those_that_did(store: Path) -> None:
    output = call("inspect", "clean/news", "--dropped", "too_shrt", "--store", store, code=2)
    assert "too_short" in output and "title_rule" in output


def test_a_foreign_or_damaged_manifest_does_not_stop_the_others(store: Path) -> None:
    foreign = store / "notes" / "manifest.json"
    foreign.parent.mkdir()
    foreign.write_text("{}")
    try:
        assert "clean/news" in call("show", "--store", store)
        assert "lacks" in call("show", store / "notes", code=2)
    finally:
        foreign.unlink()
        foreign.parent.rmdir()


def test_several_paths_after_one_from_have_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "0.txt").write_text("글")
    for arguments in (("mine", "--from", "a.txt", "b.txt", "c.txt"), ("--from", "a.txt", tmp_path / "0.txt", "mine")):
        output = " ".join(call("new", *arguments, code=2).split())
        assert "name their directory after --from" in output.replace("│ ", "")


@pytest.mark.parametrize("width", [80, 60])
def test_a_list_of_artifacts_and_a_comparison_fold_and_cut_no_name(
    width: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", width)
    listed, found = call("show", "--store", store), Store(store).artifacts()
    assert "…" not in listed and all(artifact.name in listed for artifact in found)
    assert max(len(line.rstrip()) for line in listed.splitlines()) <= width
    path = "/a/path/that/is/long/and/without/any/blank/so/that/it/is/one/word.tar"
    table = blocks.Table(
        "Settings", ["Stage", "Field", "A"], [["finetune/nsmc/pretrained/1", "paths", path], ["clean", "n", ""]]
    )
    with console.capture() as printed:
        print_sections([blocks.Section("s", "Settings", [table])])
    lines = printed.get().splitlines()
    assert {"finetune/nsmc/pretrained/1", "  Field: paths", f"  A: {path}"} <= {*lines} and lines[-1] == "  Field: n"
    assert lines.count("Settings") == 1, "the table has its section's title"
    score = "13.12 ± 62.82 (−100.00 to 100.00), and more of it"
    rows = [["a" * 30, score], ["a" * 30, score]]
    with console.capture() as printed:
        print_sections([blocks.Section("s", "S", [blocks.Table("T", ["Stage", "Score"], rows, numeric=frozenset({1}))])])
    found = printed.get()
    assert found.count(score) == 2, "a number and its interval stay on one line"
    assert found.count("a" * 30) == 1, "lines do not repeat a name"
    title = "Masked pieces (MLM): loss, held out"
    with console.capture() as printed:
        print_sections([blocks.Section("s", "Pretraining", [blocks.Table(title, ["Step", "A"], [["0", "7.48"]])])])
    assert title in printed.get(), "not broken at the table's width"


def test_verify_takes_all_that_a_name_means_and_counts_in_words(store: Path) -> None:
    output = call("verify", "extract", "clean", "--store", store)
    number = sum(artifact.name.startswith(("extract", "clean")) for artifact in Store(store).artifacts())
    assert f"{number} artifact{'s' if number > 1 else ''}, 0 damaged" in output
    assert call("verify", "clean/news", "clean", "--store", store).endswith("\n1 artifact, 0 damaged\n")


def test_verify_of_a_stage_takes_what_has_no_manifest(tmp_path: Path) -> None:
    (tmp_path / f"clean-{'0' * 16}").mkdir()
    output = call("verify", "clean", "--store", tmp_path, code=1)
    assert "manifest.json is missing" in output and "1 artifact, 1 damaged" in output


def test_help_of_run_shows_the_defaults_that_depend_on_the_machine() -> None:
    shown = " ".join(re.sub("[^-a-zA-Z0-9,:()]+", " ", call("run", "--help")).split())
    assert shown.count("default: (one for each core)") == 2, "of workers and threads"
    assert "default: (1, or one for each GPU)" in shown and "default: (no limit)" in shown


def test_help_shows_no_value_of_flags_and_paragraphs_whole() -> None:
    assert not re.search(r"--(dry-run|public|help) +<bool>", call("push", "--help"))
    sentence = "what living builders hold, and the lineage of all of these."
    assert sentence in " ".join(call("gc", "--help").split())
    group, context = get_command(app), typer.Context(get_command(app))
    assert group.get_command(context, "plan").get_short_help_str().endswith("what it takes in time, disk and memory.")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("plan sample --as h", {"h100"}),
        ("plan sample --until pre", {"pretrain"}),
        ("run sample --rerun fi", {"finetune", "finetune/nsmc/pretrained/1"}),
        ("run sample --from fi", {"finetune"}),
        ("plan nothing --until pre", set()),
        ("gc --recipe samp", {"sample"}),
    ],
)
def test_the_shell_completes_stages_machines_and_recipes(words: str, found: set[str]) -> None:
    output = completions(f"korealbert {words}")
    assert found <= set(output) and (found or not output), output
