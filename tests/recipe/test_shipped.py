"""Every shipped recipe and ablation can be read and planned; the models of the papers have exactly their parameters."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import RobertaConfig

from bench.equal_time import text_of
from korealbert import recipe as recipes
from korealbert.artifact import Store
from korealbert.finetune.spec import FinetuneSpec
from korealbert.model.config import AnyConfig
from korealbert.model.encoder import TransformerEncoder
from korealbert.model.heads import PretrainingModel
from korealbert.model.parameters import count_parameters, expected_parameters
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe.dag import evaluation_graph
from korealbert.recipe.nodes import until
from korealbert.recipe.reading import load_cross_lingual, load_evaluation
from korealbert.recipe.tables import kind_of
from korealbert.report.ablation import table

SPECS = Path(__file__).parents[2] / "data_specs"
RECIPES = sorted((SPECS / "recipes").glob("*.toml"))
ABLATIONS = sorted((SPECS / "ablations").rglob("*.toml"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all that shipped recipes name in ``${data}``: tiny files, and configurations of models."""
    root = tmp_path_factory.mktemp("shipped") / "data"
    names = {name for path in (*RECIPES, *ABLATIONS) for name in re.findall(r"\$\{data\}/([^\"]+)", path.read_text("utf-8"))}
    for name in sorted(names, reverse=True):  # Files in a directory come before the directory.
        fake = root / name
        if name.startswith("models/"):
            RobertaConfig(max_position_embeddings=514).save_pretrained(fake)
        elif name.startswith("corpus/") and not fake.suffix:  # A directory, as `members` wants.
            fake.mkdir(parents=True, exist_ok=True)
        elif not fake.exists():
            fake.parent.mkdir(parents=True, exist_ok=True)
            fake.write_text("한 줄\n")
    return root


@pytest.fixture(scope="module")
def prepared(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Any]:
    """Plans a shipped recipe, each once for all tests."""
    store = Store(tmp_path_factory.mktemp("store"))

    @cache
    def prepare(path: Path) -> Any:
        uses_data = "${data}" in path.read_text("utf-8") or path in ABLATIONS
        return recipes.prepare(path, store, data=data if uses_data else None)

    return prepare


@pytest.fixture(scope="module")
def recipe_of(data: Path) -> Callable[[str], recipes.Recipe]:
    """Loads a shipped recipe of a model by name, each once for all tests."""
    return cache(lambda name: recipes.load(SPECS / "recipes" / f"{name}.toml", data=data))


@pytest.mark.parametrize("path", [*RECIPES, *ABLATIONS], ids=lambda path: str(path.relative_to(SPECS)))
def test_every_shipped_file_can_be_planned(path: Path, prepared: Callable[[Path], Any]) -> None:
    planned = prepared(path).planned
    assert planned[-1].label == ("ablation" if path in ABLATIONS else "report")
    assert all(stage.status == "new" for stage in planned)


@pytest.mark.parametrize(
    "name",
    [
        *("recipes/korealbert-table-3", "recipes/xpt-4m", "recipes/klue-re-xpt", "recipes/encoders-public"),
        *("recipes/kowiki-small", "ablations/albert-table-7", "ablations/albert-table-9"),
    ],
)
def test_a_plan_without_data_names_every_missing_file_and_where_it_is_to_be_had(name: str, tmp_path: Path) -> None:
    path = SPECS / f"{name}.toml"
    wanted = re.findall(r'(?m)^[^#]*?"\$\{data\}/([^"]+)"', path.read_text("utf-8"))
    with pytest.raises(recipes.RecipeError) as refused:
        recipes.prepare(path, Store(tmp_path / "store"), data=tmp_path)
    lines = str(refused.value).splitlines()
    assert all(any(f"{tmp_path}/{file}" in line for line in lines) for file in wanted) and wanted
    assert len(lines) == len(set(lines))
    for line in lines:
        if described := re.search(r"(/[^:,]+\.toml), \[.*: (/.+); the first lines of the recipe say what it is", line):
            head = Path(described[1]).read_text("utf-8").partition("\nname =")[0]
            assert str(Path(described[2]).relative_to(tmp_path)).partition(".")[0] in head, line
        elif not line.startswith("${data}"):
            assert re.search(r"; (dumps are at|it is at https|WikiExtractor|.* comes from|.*\[crawl)", line), line


@pytest.fixture
def artifacts(prepared: Callable[[Path], Any]) -> Callable[[str], dict[str, str]]:
    """Returns the names of a recipe's artifacts by label. Equal names mean equal specs and inputs, all the way up."""
    return lambda name: {stage.label: stage.name for stage in prepared(SPECS / "recipes" / f"{name}.toml").planned}


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("xpt-4m", "xpt-400k"), ("vocab", "split/valid", "views/test", "transfer/itl", "transfer/none")),
        (("xpt-4m", "klue-re-xpt"), ("views", "views/test", "transfer/itl")),
        (("korealbert-base", "korealbert-large"), ("views",)),
        (("korealbert-base", "modern-base"), ("balance",)),
        (("albert-base", "albert-large", "albert-xlarge", "albert-xxlarge"), ("views",)),
    ],
)
def test_recipes_that_are_compared_read_the_same_artifacts(
    names: tuple[str, ...], labels: tuple[str, ...], artifacts: Callable[[str], dict[str, str]]
) -> None:
    first, *others = map(artifacts, names)
    for other in others:
        assert [other[label] for label in labels] == [first[label] for label in labels]


def test_the_two_korealberts_of_table_iii_are_trained_on_the_same_rows(artifacts: Callable[[str], dict[str, str]]) -> None:
    found = artifacts("korealbert-table-3")
    assert found["encoder/korealbert-base/views"] == found["encoder/korealbert-large/views"]


def test_the_baselines_of_klue_re_are_fine_tuned_beside_the_post_training(prepared: Callable[[Path], Any]) -> None:
    nodes = prepared(SPECS / "recipes" / "klue-re-xpt.toml").nodes
    systems = ("itl/phase2", "encoder/klue-bert", "encoder/mbert")
    assert list(nodes["summary/klue_re"].inputs) == [f"{system}/pretrained/{seed}" for system in systems for seed in (1, 2, 3)]
    cells = [nodes[f"finetune/{system}/klue_re/pretrained/1"] for system in systems]
    assert all(cell.spec == cells[0].spec for cell in cells), "the same settings"


def test_the_public_models_of_chameleons_table_1_are_fine_tuned_as_xpt_is(prepared: Callable[[Path], Any]) -> None:
    nodes = prepared(SPECS / "recipes" / "xpt-4m.toml").nodes
    for task in ("ynat", "klue_sts", "klue_nli", "klue_ner", "klue_re", "klue_dp", "klue_mrc"):
        for encoder in ("mbert", "xlm-r", "koelectra", "klue-bert", "klue-roberta"):
            ours, theirs = (nodes[f"finetune/{m}/{task}/pretrained/1"].spec for m in ("itl/phase2", f"encoder/{encoder}"))
            assert ours == theirs


def test_encoders_compared_after_the_same_time_read_the_same_files_and_all_but_the_packed_one_the_same_rows(data: Path) -> None:
    evaluation = load_evaluation(SPECS / "recipes" / "encoders-equal-time.toml", data=data)
    nodes = evaluation_graph(evaluation)
    texts = [text_of(nodes, name) for name in evaluation.encoder]
    assert len(texts) == 4 and all(len(text) == 7 and text == texts[0] for text in texts)
    unpacked = [name for name, encoder in evaluation.encoder.items() if encoder.recipe.pretrain.packing == "none"]  # type: ignore[union-attr]
    before_the_rows = [
        {label.removeprefix(f"encoder/{name}/"): node.spec for label, node in until(nodes, f"encoder/{name}/examples").items()}
        for name in unpacked
    ]
    assert unpacked == ["korealbert", "electra", "ltg-bert"] and all(specs == before_the_rows[0] for specs in before_the_rows)


MACHINES = [
    path
    for path in (*RECIPES, *ABLATIONS)
    if not re.search("sample|small|kowiki|encoders|minilm", str(path.relative_to(SPECS)))
]
"""Recipes and ablations that train models of a paper's size."""


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: str(path.relative_to(SPECS)))
def test_recipes_of_the_papers_run_on_1_to_64_ranks(path: Path, prepared: Callable[[Path], Any]) -> None:
    pretraining = [node.spec for node in prepared(path).nodes.values() if isinstance(node.spec, PretrainSpec)]
    assert pretraining
    for ranks, spec in itertools.product((1, 2, 4, 8, 16, 64), pretraining):
        for batch, micro_batch in spec.batches:
            size, number = spec.micro_batches(ranks, batch, micro_batch)
            assert ranks * size * number == batch and size <= micro_batch
            assert size == micro_batch or number == 1, "as large as it may be"


def memory_of(cell: FinetuneSpec, config: AnyConfig) -> float:
    """Bytes of a fine-tuning step: weights, gradients and AdamW's moments in fp32, and what the backward pass needs.

    That is 34 bytes for each position and width in 16 bits and 5 for each pair of positions and head, twice as much in fp32
    (Korthikanti et al. 2022, table 2, without recomputation).
    """
    choices = 4 if cell.task == "race" else 1
    rows = choices * (cell.micro_batch_size or cell.batch_size)
    per_layer = rows * cell.max_length * (34 * config.hidden_size + 5 * config.num_heads * cell.max_length)
    return 16 * expected_parameters(config) + config.num_layers * per_layer * (1 if cell.precision == "bf16" else 2)


def fine_tuned(path: Path, data: Path) -> Iterator[tuple[FinetuneSpec, AnyConfig]]:
    """Yield a cell of each benchmark with the shape of each model of a paper's size that it measures."""
    kind = kind_of(path)
    if kind == "cross-lingual":
        post_training = load_cross_lingual(path, data=data)
        shapes = [shape for model in post_training.trained if (shape := post_training.produced(model).shape)]
        for benchmark in (*post_training.finetune.values(), *post_training.english.values()):
            for shape in shapes:
                yield benchmark.first, shape.model_copy(update={"vocab_size": post_training.vocab.size})
        return
    evaluation = load_evaluation(path, data=data) if kind == "evaluation" else None
    if evaluation is not None:
        models = [found for model in evaluation.encoder.values() if (found := model.recipe)]
    else:
        models = (
            list(recipes.load_ablation(path, data=data).cells.values())
            if kind == "ablation"
            else [recipes.load(path, data=data)]
        )
    for recipe in models:
        for benchmark in (evaluation or recipe).finetune.values():
            yield benchmark.first, config_of(recipe)


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: str(path.relative_to(SPECS)))
def test_fine_tuning_is_in_bf16_and_fits_80_gb(path: Path, data: Path) -> None:
    """For GPUs of 80 GB, of which a tenth is left to the framework."""
    cells = list(fine_tuned(path, data))
    assert cells
    for cell, config in cells:
        assert cell.precision == "bf16", cell.task
        assert memory_of(cell, config) < 0.9 * 80e9, cell.task


# V = 32,000: core, with MLM and SOP, and with WOP over 128 positions; V = 30,000: core (specification of the model, 1.2).
KOREALBERT = {"base": (11_939_584, 12_071_810, 12_170_242), "large": (17_939_968, 18_105_474, 18_236_674)}
ALBERT = {"base": 11_683_584, "large": 17_683_968, "xlarge": 58_724_864, "xxlarge": 222_595_584}


def config_of(recipe: recipes.Recipe) -> AnyConfig:
    return recipe.pretrain.config_for(vocab_size=recipe.vocab.size, sequence_length=recipe.examples.sequence_length)


def sizes(config: AnyConfig) -> tuple[int, int]:
    """Return the parameters of the encoder without and with the heads."""
    with torch.device("meta"):
        return count_parameters(TransformerEncoder(config)), count_parameters(PretrainingModel(config))


@pytest.mark.parametrize("number", [3, 4])
def test_rows_of_other_sharing_and_embeddings_have_the_papers_parameters(number: int, data: Path) -> None:
    ablation = recipes.load_ablation(SPECS / "ablations" / f"albert-table-{number}.toml", data=data)
    assert ablation.report.columns[0].training == "parameters", "the first column of the printed table"
    for row in ablation.report.rows:
        printed, _ = table.printed(ablation.report, row)["Parameters"]
        encoder, _ = sizes(config_of(ablation.cells[row.key]))
        assert encoder / 1e6 == pytest.approx(float(printed.removesuffix("M")), abs=1.5), row.label


@pytest.mark.parametrize("size", KOREALBERT)
def test_korealbert_is_the_papers(size: str, recipe_of: Callable[[str], recipes.Recipe]) -> None:
    recipe = recipe_of(f"korealbert-{size}")
    core, with_sop, with_wop = KOREALBERT[size]
    assert sizes(config_of(recipe)) == (core, with_wop)
    assert sizes(config_of(recipe).model_copy(update={"word_order_classes": 0})) == (core, with_sop)
    pretrain = recipe.pretrain
    assert (pretrain.steps, pretrain.global_batch_size, recipe.examples.sequence_length) == (250_000, 2048, 128)
    assert (pretrain.optimizer.name, pretrain.optimizer.lr, pretrain.schedule.warmup(pretrain.steps)) == ("lamb", 1.25e-3, 3125)
    assert (recipe.views.word_order.portion, recipe.views.views) == (0.3, 40)
    assert (pretrain.model.hidden_dropout, pretrain.model.attention_dropout) == (0.1, 0.1)


@pytest.mark.parametrize("size", ALBERT)
def test_albert_is_the_papers(size: str, recipe_of: Callable[[str], recipes.Recipe]) -> None:
    recipe = recipe_of(f"albert-{size}")
    assert sizes(config_of(recipe))[0] == ALBERT[size]
    pretrain = recipe.pretrain
    assert (pretrain.steps, pretrain.global_batch_size, recipe.examples.sequence_length) == (125_000, 4096, 512)
    assert (pretrain.optimizer.lr, pretrain.schedule.warmup(pretrain.steps), recipe.vocab.size) == (1.76e-3, 3125, 30_000)
    assert recipe.views.masking.ngram_max == 3
    assert config_of(recipe).word_order_classes == 0


TABLE_14 = {
    "glue_mnli": (3e-5, 128, 0.0, 10_000, 1_000, 512),
    "glue_sst2": (1e-5, 32, 0.0, 20_935, 1_256, 512),
    "squad1": (5e-5, 48, 0.0, 3_649, 365, 384),
    "squad2": (3e-5, 48, 0.0, 8_144, 814, 512),
    "race": (2e-5, 32, 0.1, 12_000, 1_000, 512),
}
"""ALBERT, appendix A.4: rate, batch, dropout of the encoder, steps, warm-up, length; dropout of the classifier is 0.1."""


@pytest.mark.parametrize("size", ALBERT)
def test_albert_is_fine_tuned_with_the_settings_of_its_table_14(size: str, recipe_of: Callable[[str], recipes.Recipe]) -> None:
    recipe = recipe_of(f"albert-{size}")
    found = {}
    for name, benchmark in recipe.finetune.items():
        cell = benchmark.first
        rates = cell.learning_rate, cell.batch_size, cell.encoder_dropout
        found[name] = (*rates, cell.steps, cell.warmup_steps, cell.max_length)
        assert (cell.dropout, cell.precision, benchmark.grid.seeds) == (0.1, "bf16", (1, 2, 3, 4, 5))
    assert found == TABLE_14
    assert recipe.finetune["squad2"].first.head == "answerability"
    race = recipe.finetune["race"].first
    assert race.dev == race.test, "the paper selects on dev, and reports it"
    assert recipe.pretrain.model.num_heads == recipe.pretrain.model.hidden_size // 64
    assert recipe.pretrain.model.hidden_dropout == 0.1


@pytest.mark.parametrize("size", KOREALBERT)
def test_korealbert_chooses_its_rates_on_dev(size: str, recipe_of: Callable[[str], recipes.Recipe]) -> None:
    recipe = recipe_of(f"korealbert-{size}")
    assert len(recipe.finetune) == 6
    for benchmark in recipe.finetune.values():
        assert benchmark.grid.search is not None
        assert benchmark.grid.search.learning_rate == (2e-5, 3e-5, 4e-5, 5e-5)
        assert benchmark.first.batch_size in (64, 128) and 3 <= benchmark.first.epochs <= 7
    assert recipe.views.word_order.scope == "batch", "30 % of all batches"


@pytest.mark.parametrize("name", ["xpt-4m", "xpt-400k", "klue-re-xpt"])
def test_post_training_reads_no_dev_set_of_klue(name: str, prepared: Callable[[Path], Any]) -> None:
    nodes = prepared(SPECS / "recipes" / f"{name}.toml").nodes
    kept_out = {file.path.path for file in nodes["dedup"].spec.decontaminate}  # type: ignore[attr-defined]
    tested = {n.spec.test.path for label, n in nodes.items() if label.startswith("finetune/") and "klue" in str(n.spec.test)}  # type: ignore[attr-defined]
    assert len(kept_out) == 7 and tested and tested <= kept_out


def test_recipes_remove_the_test_texts_of_their_benchmarks() -> None:
    """Those of ALBERT are as its paper, which removed none."""
    left, read = set(), 0
    for path in RECIPES:
        recipe = tomllib.loads(path.read_text("utf-8"))
        if {"extract", "finetune"} <= recipe.keys():
            read += 1
            removed = [(file["path"], file.get("member", "")) for file in recipe.get("dedup", {}).get("decontaminate", [])]
            for name, table in recipe["finetune"].items():
                split = "train" if "test_share" in table else "test"
                if (table[split], table.get(f"{split}_member", "")) not in removed:
                    left.add((path.stem.partition("-")[0], name))
    assert read > 10
    assert left == {("albert", name) for name in ("glue_mnli", "glue_sst2", "squad1", "squad2", "race")}


def test_a_plan_says_what_a_pretraining_costs(prepared: Callable[[Path], Any]) -> None:
    """6 operations for each parameter of a layer and token, and those of attention and head: about 4e19, some 28 GPU hours."""
    planned = prepared(SPECS / "recipes" / "modern-base.toml").planned
    prices = {stage.label: stage for stage in planned if stage.price}
    assert list(prices) == ["pretrain"]
    tokens = (5_000 * 256 + 95_000 * 512) * 1024 + 10_000 * 64 * 8192
    layers = 22 * (4 * 768**2 + 3 * 768 * 1152)
    assert prices["pretrain"].cost is not None
    assert 1.05 < prices["pretrain"].cost.operations / (6 * tokens * layers) < 1.5
    assert re.fullmatch(
        r"\d\.\de\+19 operations, about \d\d hours of an H100 that is utilised at 40%", prices["pretrain"].price
    )


@pytest.mark.parametrize("name", ["albert-xxlarge", "korealbert-base", "modern-base", "kowiki-small", "sample"])
def test_parameters_follow_from_the_shape(name: str, recipe_of: Callable[[str], recipes.Recipe]) -> None:
    config = config_of(recipe_of(name))
    with torch.device("meta"):
        counted = count_parameters(PretrainingModel(config))
    assert expected_parameters(config) == pytest.approx(counted, rel=0.01)


def test_memory_is_that_of_the_largest_forward_pass_of_each_phase(tmp_path: Path, data: Path) -> None:
    base = SPECS / "recipes" / "modern-base.toml"

    def memory(**sizes: int) -> float:
        overrides = {f"pretrain.{name.replace('__', '.')}": size for name, size in sizes.items()}
        planned = recipes.prepare(base, Store(tmp_path), data=data, overrides=overrides, machine="h100x8").planned
        (found,) = (stage.cost.memory_bytes for stage in planned if stage.label == "pretrain" and stage.cost)
        return found

    both = memory()
    assert memory(long__micro_batch_size=1) == both, "the short phase takes most"
    assert memory(micro_batch_size=16, long__micro_batch_size=1) < memory(micro_batch_size=16) < both


def test_modern_base_has_modernberts_layers_and_a_word_table_of_even_rows(recipe_of: Callable[[str], recipes.Recipe]) -> None:
    recipe = recipe_of("modern-base")
    config = config_of(recipe)
    assert (config.vocab_size, config.table_rows) == (50_000, 50_048)
    with torch.device("meta"):
        parameters = count_parameters(PretrainingModel(config))
    assert parameters == 149_655_232 - (50_368 - 50_048) * (768 + 1)


@pytest.mark.parametrize("average", [False, True])
def test_printed_scores_of_a_report_stand_beside_no_bi_encoder(average: bool) -> None:
    head = {"finetune.korsts.head": "bi-encoder"}
    column = {"title": "Mean", "average": [["KorSTS"], ["NSMC"]], "printed": ["avg6", "avg"]}
    columns = [{"title": "KorSTS", "benchmark": "korsts"}, {"title": "NSMC", "benchmark": "nsmc"}, column]
    changed = head | ({"report.table.columns": columns} if average else {})
    wanted = rf"\[report\.table\], column '{'Mean' if average else 'KorSTS'}': .* cross-encoders, and 'KorSTS' has head = 'bi-"
    with pytest.raises(recipes.RecipeError, match=wanted):
        load_evaluation(SPECS / "recipes" / "encoders.toml", overrides=changed)


def test_a_column_of_random_weights_needs_runs_from_them() -> None:
    columns = [{"title": "NSMC", "benchmark": "nsmc", "init": "random"}]
    path, changed = SPECS / "recipes" / "encoders.toml", {"report.table.columns": columns}
    with pytest.raises(recipes.RecipeError, match=r"column 'NSMC': \[finetune\.nsmc\] has no init 'random'; add it to inits"):
        load_evaluation(path, overrides=changed)
    load_evaluation(path, overrides={**changed, "finetune.nsmc.inits": ["random"]})
