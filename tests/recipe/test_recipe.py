"""Recipes: errors name file, table, field and remedy; plans say what would run and why."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Store
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import RecipeError
from korealbert.recipe.dag import corpus_graph
from korealbert.recipe.reading import load_corpus
from tests.building import build_all
from tests.editing import edit

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data_specs" / "recipes" / "small-sample.toml"


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample recipe, as a test may change it."""
    return specs / "recipes" / "small-sample.toml"


def test_all_shipped_recipes_that_find_their_data_form_a_graph_whose_inputs_come_first() -> None:
    nodes = recipes.graph(recipes.load(SAMPLE))
    seen: set[str] = set()
    for label, node in nodes.items():
        assert set(node.inputs.values()) <= seen, label
        seen.add(label)
    assert list(nodes)[-1] == "report"


def test_an_unknown_field_names_file_table_field_and_nearest(editable: Path) -> None:
    edit(editable, "[vocab]\n", "[vocab]\nsizee = 3\n")
    with pytest.raises(RecipeError, match=r"sample\.toml, \[vocab\]: unknown field 'sizee' \(did you mean 'size'\?\)"):
        recipes.load(editable)


def test_an_unknown_nested_field_is_named_with_its_table(editable: Path) -> None:
    edit(editable, "[pretrain.model]\n", "[pretrain.model]\nhiden_size = 3\n")
    with pytest.raises(RecipeError, match=r"\[pretrain\]: unknown field 'model\.hiden_size' \(did you mean 'hidden_size'\?\)"):
        recipes.load(editable)


def test_the_fields_of_another_form_of_a_table_are_unknown_and_its_own_are_listed(editable: Path) -> None:
    edit(editable, "[pretrain.model]\nembedding_size = 64\n", '[pretrain.model]\narchitecture = "modern"\nshare = "all"\n')
    with pytest.raises(RecipeError, match=r"\[pretrain\]: unknown field 'model\.share'; valid: architecture, hidden_size, "):
        recipes.load(editable)
    edit(editable, 'share = "all"\n', "")
    edit(editable, 'name = "lamb"\n', 'name = "muon"\nmax_trust_ratio = 3.0\n')
    with pytest.raises(RecipeError, match=r"unknown field 'optimizer\.max_trust_ratio'.*; valid: name, lr, adamw_lr_factor, "):
        recipes.load(editable)


def test_settings_of_classifiers_are_of_modern_encoders(editable: Path) -> None:
    edit(editable, "[export]\n", '[export]\nclassifier_pooling = "mean"\n')
    with pytest.raises(
        RecipeError, match=r"\[export\]: classifier_pooling is a setting of modern encoders, which .* remove it"
    ):
        recipes.load(editable)


def test_precisions_of_pretraining_and_fine_tuning_have_the_same_names(editable: Path) -> None:
    table, ours = recipes.load(editable).finetune, {"pretrain.precision": "bf16"}
    recipes.load(editable, overrides=ours | {f"finetune.{name}.precision": "bf16" for name in table})
    (name, *_) = table
    for other in ("float32", "bfloat16"):
        with pytest.raises(RecipeError, match=rf"field 'precision': Input should be 'fp32' or 'bf16' .*'{other}'"):
            recipes.load(editable, overrides={f"finetune.{name}.precision": other})


def test_an_unknown_table_and_an_ill_typed_field_are_named(editable: Path) -> None:
    with pytest.raises(RecipeError, match=r"unknown table or field \[vocabb\] \(did you mean 'vocab'\?\)"):
        recipes.load(edit(editable, "[vocab]\n", "[vocabb]\n"))
    edit(editable, "[vocabb]\n", '[vocab]\nseed = "three"\n')
    with pytest.raises(RecipeError, match=r"\[vocab\], field 'seed': .*integer.*'three'"):
        recipes.load(editable)


def test_a_missing_field_is_the_only_one_named(editable: Path) -> None:
    with pytest.raises(RecipeError, match=r"\A[^\n]*sample\.toml, \[pretrain\]: field 'steps' is missing\Z"):
        recipes.load(edit(editable, "steps = 60\n", ""))


def test_a_missing_input_file_and_a_missing_recipe_are_named(editable: Path) -> None:
    (editable.parents[1] / "sample" / "books.csv").unlink()
    with pytest.raises(RecipeError, match=r"\[extract\.books\], field 'paths\.0': no such file or directory: .*books\.csv"):
        recipes.load(editable)
    with pytest.raises(RecipeError, match=r"no such recipe \(did you mean 'sample\.toml'\?\)"):
        recipes.load(editable.with_name("sampel.toml"))


@pytest.mark.parametrize("pattern", ['members = ""', 'exclude = ["*"]'])
def test_patterns_that_select_nothing_are_refused(editable: Path, pattern: str) -> None:
    edit(editable, "[extract.books]\n", f"[extract.books]\n{pattern}\n")
    name = pattern.partition(" ")[0]
    with pytest.raises(RecipeError, match=rf"\[extract\.books\], field '{name}': it selects files of directories and archives"):
        recipes.load(editable)


def test_patterns_may_select_fetched_files_beside_single_ones(editable: Path) -> None:
    edit(
        editable,
        "[extract.books]\n",
        '[fetch.books]\nurl = "https://files.example/books.zip"\n\n[extract.books]\nmembers = "a*"\n',
    )
    assert recipes.load(editable).extract["books"].members == "a*"


def test_all_that_is_wrong_is_listed_at_once_also_every_missing_file(editable: Path) -> None:
    edit(editable, "[vocab]\n", "[vocabb]\n")
    edit(editable, "steps = 60\n", 'steps = "many"\n')
    edit(editable, "[extract.books]\n", "[extract.books]\nencodings = 3\n")
    (editable.parents[1] / "sample" / "nsmc_test.txt").unlink()
    (editable.parents[1] / "sample" / "news.jsonl").unlink()
    edit(editable, '"../sample/namuwiki.json"', '"${data}/none.json"')
    with pytest.raises(RecipeError) as refusal:
        recipes.load(editable)
    message = str(refusal.value).splitlines()
    for part in (
        "unknown table or field [vocabb]",
        "[pretrain], field 'steps'",
        "[extract.books]: unknown field 'encodings' (did you mean 'encoding'?)",
        "[extract.news], field 'paths.0': no such file or directory",
        "[extract.namuwiki], field 'paths.0': no such file or directory: ",
        "[finetune.nsmc], field 'test': no such file or directory",
    ):
        assert len([line for line in message if part in line]) == 1, (part, message)
    assert "archive.org" in next(line for line in message if "[extract.namuwiki]" in line), "where it is to be had"
    assert "github.com/e9t/nsmc" in next(line for line in message if "finetune.nsmc" in line)
    assert message[-1] == f"${{data}} stands for {editable.parent}; name the directory of your data with --data"
    assert all(line.startswith(f"{editable}") for line in message[:-1])


def test_a_directory_is_no_file_of_a_benchmark_but_of_those_that_come_in_many(editable: Path, tmp_path: Path) -> None:
    text = editable.read_text("utf-8")
    edit(editable, 'test = "../sample/nsmc_test.txt"', f'test = "{tmp_path}"')
    decontaminated = text.partition("[[dedup.decontaminate]]")[2].split('path = "')[1].partition('"')[0]
    edit(editable, f'path = "{decontaminated}"', f'path = "{tmp_path}"')
    with pytest.raises(RecipeError) as refusal:
        recipes.load(editable)
    for field in ("[dedup], field 'decontaminate.0.path'", "[finetune.nsmc], field 'test'"):
        assert f"{field}: {tmp_path} is a directory; name the file in it" in str(refusal.value)
    editable.write_text(text, "utf-8")
    race = {f"finetune.race.{split}": str(tmp_path) for split in ("train", "dev", "test")} | {"finetune.race.max_length": 64}
    assert recipes.load(editable, overrides=race).finetune["race"]


def test_a_missing_directory_of_data_is_one_line_that_names_the_option(editable: Path) -> None:
    """Such a recipe once had an error for each of its files."""
    text = editable.read_text("utf-8")
    editable.write_text('data = "../../data"\n' + text.replace('"../sample/', '"${data}/corpus/'), "utf-8")
    with pytest.raises(RecipeError) as refusal:
        recipes.load(editable)
    data = editable.parents[2] / "data"
    assert str(refusal.value) == (
        f"{editable}, field 'data': no such directory: {data}; ${{data}} stands for {data}; "
        "name the directory of your data with --data"
    )


def test_broken_toml_and_a_clean_table_without_source_are_named(editable: Path) -> None:
    text = editable.read_text("utf-8")
    editable.write_text(text + "\n[clean.newz]\n", "utf-8")
    with pytest.raises(RecipeError, match=r"\[clean\.newz\]: no source of this name \(did you mean 'news'\?\)"):
        recipes.load(editable)
    editable.write_text(text + "\n[extract.소식]\n", "utf-8")
    with pytest.raises(RecipeError, match=r"not valid TOML: .*; put names that are not in Latin letters in quotes"):
        recipes.load(editable)
    editable.write_text(text + '\n[extract."소식"]\nformat = "text"\npaths = ["a"]\n', "utf-8")
    with pytest.raises(RecipeError, match=r"\[extract\.소식\], field 'source': a name has small Latin letters"):
        recipes.load(editable)
    editable.write_text(text + "\n[clean.", "utf-8")
    with pytest.raises(RecipeError, match="not valid TOML"):
        recipes.load(editable)


def test_until_takes_labels_and_groups_and_name_the_nearest() -> None:
    nodes = recipes.graph(recipes.load(SAMPLE))
    part = recipes.until(nodes, "clean/news")
    assert list(part) == ["extract/news", "clean/news"]
    assert {label.split("/")[0] for label in recipes.until(nodes, "clean")} == {"extract", "clean"}
    with pytest.raises(RecipeError, match="no stage 'vocabs' \\(did you mean 'vocab'\\?\\)"):
        recipes.until(nodes, "vocabs")


def test_a_stage_to_rerun_is_looked_for_in_the_recipe_and_must_lie_within_the_part_wanted(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    prepared = recipes.prepare(SAMPLE, store, until="clean/news", rerun=["clean"])
    assert list(prepared.nodes) == ["extract/news", "clean/news"] == [stage.label for stage in prepared.planned]
    assert prepared.rerun == {"clean/news"}
    with pytest.raises(RecipeError, match=r"^rerun: .* 'pretrain', but outside the part up to 'vocab'; drop until"):
        recipes.prepare(SAMPLE, store, until="vocab", rerun=["pretrain"])
    with pytest.raises(RecipeError, match=r"^rerun: the recipe has no stage 'pretrian' \(did you mean 'pretrain'\?\)"):
        recipes.prepare(SAMPLE, store, until="vocab", rerun=["pretrian"])


def test_a_device_that_is_not_there_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("CUDA is there")
    runtime = TrainingRuntime(store=tmp_path / "store", device="cuda")
    prepared = recipes.prepare(SAMPLE, Store(runtime.store))
    with pytest.raises(
        RecipeError, match=r"^small-sample, pretrain: runtime.device = 'cuda', but torch finds no CUDA device here"
    ):
        prepared.check(runtime)
    training = {label for label in prepared.nodes if label.split("/")[0] in {"pretrain", "finetune"}}
    with pytest.raises(RecipeError, match=r"^small-sample, finetune/nsmc/"):
        prepared.check(runtime, elsewhere=["pretrain"])
    prepared.check(runtime, elsewhere=training)
    recipes.prepare(SAMPLE, Store(runtime.store), until="vocab").check(runtime)


def build_until(recipe: Path, target: str, runtime: TrainingRuntime) -> dict[str, Artifact]:
    return build_all(recipes.until(recipes.graph(recipes.load(recipe)), target), runtime)


def statuses(recipe: Path, target: str, store: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    nodes = recipes.until(recipes.graph(recipes.load(recipe)), target)
    return {p.label: (p.status, p.reasons) for p in recipes.plan(nodes, Store(store))}


def test_the_plan_names_exactly_what_a_changed_field_and_a_changed_file_make_stale(editable: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    runtime = TrainingRuntime(store=store, workers=1)
    assert {status for status, _ in statuses(editable, "dedup", store).values()} == {"new"}
    build_until(editable, "dedup", runtime)
    assert {status for status, _ in statuses(editable, "dedup", store).values()} == {"cached"}

    edit(editable, "min_characters = 30", "min_characters = 31")
    after = statuses(editable, "dedup", store)
    assert [label for label, (status, _) in after.items() if status != "cached"] == ["clean/books", "dedup"]
    assert after["clean/books"][1] == ("limits.min_characters: 30 → 31",)
    assert after["dedup"][1] == ("inputs: books",)

    with (editable.parents[1] / "sample" / "news.jsonl").open("a", encoding="utf-8") as handle:
        handle.write("\n")
    after = statuses(editable, "dedup", store)
    assert [label for label, (status, _) in after.items() if status != "cached"] == [
        "extract/news", "clean/news", "clean/books", "dedup",
    ]  # fmt: skip
    assert "content of" in after["extract/news"][1][0]


def test_a_lost_and_a_corrupted_artifact_are_planned_by_name(editable: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    built = build_until(editable, "clean/books", TrainingRuntime(store=store, workers=1))
    victim = built["clean/books"].files("documents-*.arrow")[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    status, reasons = statuses(editable, "clean/books", store)["clean/books"]
    assert status == "stale" and victim.name in reasons[0]
    shutil.rmtree(built["clean/books"].path)
    assert statuses(editable, "clean/books", store)["clean/books"][0] == "new"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 60\n", 'steps = "60"\n', r"\[pretrain\], field 'steps': .*integer"),
        ("steps = 60\n", "steps = true\n", r"\[pretrain\], field 'steps': .*integer"),
        ('name = "small-sample"', "name = 5", r"field 'name' must be a string, it is 5"),
        ("[finetune.nsmc]\n", "[finetune.nsmc]\nseed = 7\n", r"\[finetune\.nsmc\]: field 'seed' is set by the recipe itself"),
        ("[extract.books]\n", '[extract.books]\nsource = "c"\n', r"\[extract\.books\]: field 'source' is set by the recipe"),
        (
            'sources = ["news"]',
            'sources = ["newz"]',
            r"\[balance\], field 'sources': no source 'newz' \(did you mean 'news'\?\)",
        ),
        ("sequence_length = 128", "sequence_length = 1024", r"sequence_length = 1024 exceeds .* max_positions = 512"),
    ],
)
def test_what_could_not_run_is_refused_at_once(editable: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        recipes.load(edit(editable, old, new))


@pytest.mark.parametrize("seeds", ["[1, 1]", "[-1]"])
def test_seeds_are_whole_and_each_once(editable: Path, seeds: str) -> None:
    with pytest.raises(RecipeError, match=r"\[finetune\.\w+\], field 'seeds"):
        recipes.load(edit(editable, "seeds = [1, 2, 3]", f"seeds = {seeds}"))


def test_a_recipe_anywhere_names_what_the_package_ships(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("나루시는 새 도서관을 열었다.", "utf-8")
    shutil.copytree(ROOT / "data_specs" / "rules", tmp_path / "rules")
    names = set()
    for place in ("${shipped}/rules", "rules"):
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(
            f'[extract.a]\nformat = "text"\npaths = ["a.txt"]\n[clean.a]\nnews_rules = "{place}/news.toml"\n', "utf-8"
        )
        nodes = corpus_graph(load_corpus(recipe))
        names |= {stage.name for stage in recipes.plan(nodes, Store(tmp_path / "store")) if stage.label == "clean/a"}
    assert len(names) == 1, "it has one identity, wherever it is read from"


def test_a_byte_order_mark_is_no_part_of_a_recipe(editable: Path) -> None:
    plain = recipes.load(editable)
    editable.write_text(editable.read_text("utf-8"), "utf-8-sig")
    assert recipes.load(editable) == plain


def test_a_directory_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is a directory"):
        recipes.load(tmp_path)


def test_embeddings_may_begin_with_what_stands_beside_each_piece(editable: Path) -> None:
    plain = recipes.graph(recipes.load(editable))
    edit(editable, "[pretrain]\n", '[pretrain]\nembeddings = "cooccurrence"\n')
    nodes = recipes.graph(recipes.load(editable))
    assert set(nodes) - set(plain) == {"cooccurrence"}
    assert nodes["cooccurrence"].inputs == {"examples": "examples"}
    assert nodes["cooccurrence"].spec.width == plain["pretrain"].spec.shape.embedding_size  # type: ignore[attr-defined]
    assert nodes["pretrain"].inputs == {**plain["pretrain"].inputs, "cooccurrence": "cooccurrence"}
    editable.write_text(editable.read_text() + "\n[cooccurrence]\nwindow = 2\nwidth = 7\n")
    assert recipes.graph(recipes.load(editable))["cooccurrence"].spec.model_dump().items() >= {"window": 2, "width": 7}.items()
    edit(editable, 'embeddings = "cooccurrence"', 'embeddings = "random"')
    with pytest.raises(
        RecipeError, match=r"\[cooccurrence\]: the model's word embeddings are initialised at random; set embeddings"
    ):
        recipes.load(editable)


PACKED = ("[pretrain]\n", '[pretrain]\npacking = "best_fit"\n')
MODERN = ("embedding_size = 64\n", 'architecture = "modern"\n')
NSP = ("[views]\n", '[views]\nsentence_task = "nsp"\n')
THETA = ("[pretrain]\n", "[pretrain]\nlong = { from_step = 50, global_theta = 160_000.0 }\n")
RTD = ("[pretrain]\n", '[pretrain]\nobjective = "rtd"\n')
NO_POOLER = ("[pretrain.model]\n", "[pretrain.model]\npooler = false\n")
NO_PAIRS = ("[views]\n", '[views]\nsentence_task = "none"\n')
FEW_MOVES = ("[views]\n", "[views]\nword_order.rate = 0.01\n")
NO_MOVES = ("[views]\n", "[views]\nword_order.portion = 0.0\n")
FROZEN = ("[pretrain]\n", '[pretrain]\nfrozen = ["encoder.layers.*"]\n')


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([PACKED], r"\[pretrain\]: packing = 'best_fit' needs a model that keeps the sequences of a row apart"),
        ([PACKED, MODERN, NSP], r"\[pretrain\]: packing = 'best_fit', but \[views\] sentence_task = 'nsp'"),
        ([THETA], r"\[pretrain\]: long.global_theta has no meaning in a model of learnt positions"),
        ([RTD, NO_POOLER], r"\[pretrain\]: objective = 'rtd' restores masked tokens only"),
        ([NO_PAIRS], r"sop_weight = 1.0, but sentence_task = 'none' in \[views\] swaps nothing; set sop_weight = 0"),
        ([NO_MOVES], r"wop_weight = 1.0, but word_order.portion = 0 in \[views\] moves nothing; set wop_weight = 0"),
        (
            [FROZEN],
            r"\[pretrain\]: frozen: no tensor of the model matches 'encoder.layers.\*'; patterns that match some: encoder\.",
        ),
        ([FEW_MOVES], r"word_order.rate = 0.01 lets fewer than two of the 125 pieces of a row move.*raise it to 0.016 or more"),
    ],
)
def test_training_that_model_or_noise_rule_out_is_refused_before_any_stage(
    editable: Path, edits: list[tuple[str, str]], message: str
) -> None:
    for old, new in edits:
        edit(editable, old, new)
    with pytest.raises(RecipeError, match=message):
        recipes.load(editable)


def test_one_mistake_is_reported_once(editable: Path) -> None:
    """Defaults that depend on the wrong field are no further errors."""
    with pytest.raises(RecipeError) as refusal:
        recipes.load(edit(editable, "num_heads = 4", "num_heads = 3"))
    (message,) = str(refusal.value).splitlines()
    assert message.endswith("num_heads = 3 does not divide hidden_size = 128; choose a number of heads that does")


def test_rows_before_the_first_position_take_no_tokens(editable: Path) -> None:
    edit(editable, "[pretrain.model]\n", "[pretrain.model]\nmax_positions = 129\nposition_offset = 2\n")
    with pytest.raises(RecipeError, match=r"sequence_length = 128 exceeds .* max_positions = 129 less position_offset = 2"):
        recipes.load(editable)


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ({"processes": 3}, "sample, pretrain: global_batch_size = 16 is not divisible by the number of ranks = 3"),
        ({"nodes": 2, "processes": 3}, "not divisible by the number of ranks = 6"),
        ({"hostfile": "hosts"}, "hosts: no hostfile that can be read"),
    ],
)
def test_ranks_that_batches_do_not_fit_are_refused_before_any_stage(tmp_path: Path, runtime: dict, message: str) -> None:
    prepared = recipes.prepare(SAMPLE, Store(tmp_path))
    with pytest.raises(RecipeError, match=message):
        prepared.check(TrainingRuntime(store=tmp_path, **runtime))
    prepared.check(TrainingRuntime(store=tmp_path))
    recipes.prepare(SAMPLE, Store(tmp_path), until="vocab").check(TrainingRuntime(store=tmp_path, processes=3))


def test_rows_longer_than_a_modern_encoder_takes_are_refused_too() -> None:
    with pytest.raises(RecipeError, match=r"sequence_length = 4096 exceeds \[pretrain\.model\] max_positions = 128; shorten"):
        recipes.load(SAMPLE.with_name("sample.toml"), overrides={"examples.sequence_length": 4096})


DAILY = """
[crawl.daily]
source = "../sources/hani.toml"

[extract.daily]
format = "warc"

[fetch.dump]
url = "https://dumps.example/kowiki.xml.bz2"

[extract.dump]
format = "mediawiki"
"""


def test_a_crawl_and_a_fetch_are_inputs_of_the_extraction_of_their_source(editable: Path) -> None:
    editable.write_text(editable.read_text("utf-8") + DAILY, "utf-8")
    nodes = recipes.graph(recipes.load(editable))
    assert nodes["extract/daily"].inputs == {"crawl": "crawl/daily"}
    assert nodes["extract/dump"].inputs == {"fetch": "fetch/dump"}
    assert nodes["extract/news"].inputs == {}
    order = list(nodes)
    assert order.index("crawl/daily") < order.index("extract/daily") < order.index("clean/daily")
    assert list(recipes.until(nodes, "crawl")) == ["crawl/daily"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[extract.daily]", "[extract.daly]", r"[crawl.daily]: no source of this name (did you mean 'daly'?); a source begins"),
        ("[fetch.dump]", "[fetch.dumps]", "[fetch.dumps]: no source of this name (did you mean 'dump'?)"),
        ('"warc"', '"html"', '[extract.daily]: a crawl stores WARC files; set format = "warc"'),
        ('[fetch.dump]\nurl = "https://dumps.example/kowiki.xml.bz2"', "", "add [crawl.dump] or [fetch.dump]"),
        ("sources/hani.toml", "sources/hany.toml", "[crawl.daily], field 'source': no such file"),
        ("sources/hani.toml", "sources/README.md", "README.md: not a source file"),
        ("[crawl.daily]", '[crawl.daily]\nfirst_day = "2007-1-1"', "[crawl.daily], field 'first_day': expected a day"),
        ("[crawl.daily]", "[crawl.daily]\nlast_day = 2006-01-01", "[crawl.daily]: first_day 2007-01-01 is after"),
        ("[crawl.daily]", "[crawl.daily]\nmax_page = 3", "unknown field 'max_page' (did you mean 'max_pages'?)"),
        ("url = ", 'checksum = "md5:1"\nurl = ', "[fetch.dump], field 'checksum': expected one of"),
    ],
)
def test_mistakes_about_crawls_and_fetches_are_named(editable: Path, old: str, new: str, message: str) -> None:
    text = editable.read_text("utf-8") + DAILY
    head, tail = text.split("\n[crawl.daily]", 1)
    tail = ("\n[crawl.daily]" + tail).replace(old, new, 1)
    editable.write_text(head + tail, "utf-8")
    with pytest.raises(RecipeError, match=re.escape(message)):
        recipes.load(editable)


def test_mistakes_about_crawls_fetches_and_quality_are_listed_with_all_others(editable: Path) -> None:
    daily = DAILY.replace("[crawl.daily]", "[crawl.daily]\nmax_page = 3").replace("[fetch.dump]", "[fetch.dump]\nname = 1")
    wrong = f'{daily}\n[quality]\nsources = ["nowhere"]\nclassifier = {{ good = ["news"], bad = ["books"] }}\n'
    editable.write_text(editable.read_text("utf-8") + wrong, "utf-8")
    with pytest.raises(RecipeError) as error:
        recipes.load(editable, overrides={"vocab.size": "many"})
    for where in ("[crawl.daily]", "[fetch.dump]", "[quality]", "[vocab]"):
        assert where in str(error.value)
