"""Cross-lingual recipes: their graph, what a change makes stale, and errors that name file, table, field and remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from korealbert.artifact import Identity, Store
from korealbert.examples.views import ViewsSpec
from korealbert.flows.corpus_to_model import flow_of
from korealbert.huggingface.export import ExportSpec
from korealbert.recipe import RecipeError, prepare
from korealbert.recipe.dag import transfer_graph
from korealbert.recipe.nodes import Node
from korealbert.recipe.reading import load_cross_lingual
from korealbert.xpt.phases import PHASES
from tests.editing import edit
from tests.xpt.kept import make_checkpoint
from tests.xpt.sources import make_source

ROOT = Path(__file__).parents[2]


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample recipe of a post-training, as a test may change it."""
    return specs / "recipes" / "xpt-sample.toml"


def without_klue(recipe: Path) -> None:
    """Leave NSMC as the one Korean benchmark."""
    text = recipe.read_text("utf-8")
    recipe.write_text(text[: text.index("[finetune.ynat]")] + text[text.index("[english.") :], "utf-8")


def identities(recipe: Path, store: Path) -> dict[str, str]:
    """Names of all artifacts by label."""
    names: dict[str, str] = {}
    nodes: dict[str, Node] = transfer_graph(load_cross_lingual(recipe))
    for label, node in nodes.items():
        found: Identity = node.stage.identity(node.spec, {r: names[other] for r, other in node.inputs.items()}, Store(store))
        names[label] = found.name
    return names


def test_every_stage_comes_after_those_it_reads(editable: Path) -> None:
    nodes = transfer_graph(load_cross_lingual(editable))
    seen: set[str] = set()
    for label, node in nodes.items():
        assert set(node.inputs.values()) <= seen, label
        seen.add(label)
    assert list(nodes)[-1] == "report"
    assert nodes["source"].inputs == {"model": "source/export"}
    assert nodes["phase2/itl"].inputs["initial"] == "phase1/itl"
    assert nodes["examples"].inputs == {"documents": "split/train", "heldout": "split/valid", "vocab": "vocab"}
    assert nodes["vocab"].inputs == {"documents": "split/train"}, "the vocabulary never sees valid and test"
    for cell, model in (
        ("itl/phase1/nsmc", "export/itl/phase1"),
        ("language_loss/en/source/glue_rte", "source"),
        ("language_loss/en/none/phase1/glue_rte", "english/none/phase1"),
        ("language_loss/ko/none/phase1/glue_rte", "export/none/phase1"),
        ("language_loss/en/itl/phase2/20/glue_rte", "english/itl/phase2/20"),
    ):
        assert nodes[f"finetune/{cell}/pretrained/1"].inputs == {"model": model, "features": f"features/{cell}"}


def test_a_modern_source_takes_no_translation_layers(editable: Path, tmp_path: Path) -> None:
    source = make_source("modernbert", tmp_path / "source", max_position_embeddings=130)
    edit(editable, 'recipe = "english-sample.toml"', f'path = "{source}"')
    with pytest.raises(RecipeError, match=r"\[variants.itl\], field 'itl'.*takes no translation layers; set itl = false"):
        load_cross_lingual(editable)
    edit(editable, "[variants.itl]\n", "[variants.itl]\nitl = false\n")
    edit(editable, 'encoder = "random"', 'encoder = "random"\nitl = false')
    assert list(transfer_graph(load_cross_lingual(editable)))[-1] == "report"


def test_classifiers_on_an_export_pool_as_those_on_its_modern_source(editable: Path, tmp_path: Path) -> None:
    source = make_source("modernbert", tmp_path / "source", max_position_embeddings=130)
    edit(editable, 'recipe = "english-sample.toml"', f'path = "{source}"')
    edit(editable, "[variants.itl]\n", "[variants.itl]\nitl = false\n")
    edit(editable, 'encoder = "random"', 'encoder = "random"\nitl = false')

    def specs() -> dict[str, ExportSpec]:
        nodes = transfer_graph(load_cross_lingual(editable))
        return {label: ExportSpec.model_validate(nodes[label].spec) for label in ("export/itl/phase2", "export/control/mlm")}

    before = specs()
    assert before["export/itl/phase2"] == before["export/control/mlm"], "what the recipe says, as before"
    config = source / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "classifier_pooling": "mean", "classifier_dropout": 0.3}))
    changed = {"classifier_pooling": "mean", "classifier_dropout": 0.3}
    itl = before["export/itl/phase2"]
    assert specs() == {**before, "export/itl/phase2": itl.model_copy(update=changed)}
    edit(editable, "[export]\n", '[export]\nclassifier_pooling = "cls"\n')
    assert specs()["export/itl/phase2"].classifier_pooling == "cls", "the recipe goes first"


def test_layers_of_an_albert_stay_shared_between_its_translation_layers(editable: Path, tmp_path: Path) -> None:
    source = make_source("albert", tmp_path / "source", max_position_embeddings=130)
    edit(editable, 'recipe = "english-sample.toml"', f'path = "{source}"')
    nodes = transfer_graph(load_cross_lingual(editable))
    for cell, training in (
        ("itl/phase1/nsmc", "phase1/itl"),
        ("none/phase2/nsmc", None),  # As its source: one group of layers.
        ("control/mlm/nsmc", None),
        ("language_loss/en/source/glue_rte", None),
        ("language_loss/en/itl/phase2/20/glue_rte", "phase2/itl"),
    ):
        assert nodes[f"finetune/{cell}/pretrained/1"].inputs.get("pretrain") == training, cell


def test_encoders_of_others_are_measured_on_korean_benchmarks(editable: Path, tmp_path: Path) -> None:
    theirs = make_source("bert", tmp_path / "theirs", max_position_embeddings=130)
    others = f'[encoder.theirs]\npath = "{theirs}"\n[encoder.english]\nrecipe = "english-sample.toml"\n'
    edit(editable, "[export]\n", f"{others}[export]\n")
    edit(editable, '"control/electra"]', '"control/electra", "encoder/theirs", "encoder/english"]')
    nodes = transfer_graph(load_cross_lingual(editable))
    assert nodes["encoder/theirs"].inputs == {}
    assert nodes["encoder/english"].inputs == {"model": "encoder/english/export"}
    assert nodes["encoder/english/export"].spec == nodes["source/export"].spec
    for name in ("theirs", "english"):
        cell = nodes[f"finetune/encoder/{name}/nsmc/pretrained/1"]
        assert cell.inputs == {"model": f"encoder/{name}", "features": f"features/encoder/{name}/nsmc"}
        assert nodes["summary/nsmc"].inputs[f"encoder/{name}/pretrained/1"] == cell.label
    assert not any("glue_rte" in label and "encoder/" in label for label in nodes), "English is the source's"
    edit(editable, 'models = ["itl/phase1", ', "# models = [")
    default = transfer_graph(load_cross_lingual(editable))
    assert "finetune/encoder/theirs/nsmc/pretrained/1" in default, "every benchmark measures every encoder"


def test_a_post_training_makes_an_encoder_of_other_recipes(editable: Path, tmp_path: Path) -> None:
    file = tmp_path / "encoders.toml"
    benchmark = f'[finetune.nsmc]\ntrain = "{editable.parent}/../sample/nsmc_train.txt"\ntest_share = 0.5\n'

    def planned(model: str, max_length: int = 64) -> dict[str, str]:
        text = f'[encoder.ko]\nrecipe = "{editable}"\n{model}\n{benchmark}max_length = {max_length}\n'
        file.write_text(text, "utf-8")
        return {stage.label: stage.name for stage in prepare(file, Store(tmp_path / "store")).planned}

    for model, training in (("itl/phase2", "phase2/itl"), ("none/phase1", "phase1/none"), ("control/mlm", "control/mlm")):
        found = planned(f'model = "{model}"')
        itself = {s.label: s.name for s in prepare(editable, Store(tmp_path / "store"), until=f"export/{model}").planned}
        assert {f"encoder/ko/{label}": name for label, name in itself.items()}.items() <= found.items()
        assert f"encoder/ko/{training}" in found
        assert "finetune/ko/nsmc/pretrained/1" in found
        assert "encoder/ko/english/itl/phase1" not in found
    with pytest.raises(RecipeError, match=r"\[encoder.ko\], field 'model': missing; that recipe makes itl/phase1, itl/phase2"):
        planned("")
    with pytest.raises(RecipeError, match=r"field 'model': no model 'itl/phase3' \(did you mean 'itl/phase"):
        planned('model = "itl/phase3"')
    with pytest.raises(RecipeError, match=r"field 'max_length': 200 exceeds the \d+ positions of \[encoder.ko\]"):
        planned('model = "itl/phase2"', max_length=200)
    edit(editable, "[control.mlm]\n", f'[encoder.again]\nrecipe = "{editable.name}"\nmodel = "itl/phase2"\n\n[control.mlm]\n')
    edit(editable, '"control/electra"]', '"control/electra", "encoder/again"]')
    nodes = transfer_graph(load_cross_lingual(editable))
    assert nodes["encoder/again/phase2/itl"].spec == nodes["phase2/itl"].spec, "its own model under a name"


def test_models_are_compared_benchmark_by_benchmark_and_snapshots_are_not(editable: Path) -> None:
    edit(editable, "[finetune.nsmc]\n", "[finetune.nsmc]\nresamples = 200\n")
    edit(editable, "seeds = [1]", "seeds = [1, 2]")
    nodes = transfer_graph(load_cross_lingual(editable))
    models = ("itl/phase1", "itl/phase2", "none/phase2", "random/phase2", "control/mlm", "control/electra")
    cells = [f"{model}/pretrained/{seed}" for model in models for seed in (1, 2)]
    assert list(nodes["summary/nsmc"].inputs) == cells
    assert nodes["summary/nsmc"].inputs["none/phase2/pretrained/2"] == "finetune/none/phase2/nsmc/pretrained/2"
    assert nodes["summary/nsmc"].spec.model_dump()["resamples"] == 200
    matrix = [f"{words}/{variant}/{phase}" for variant in ("itl", "none") for phase in PHASES for words in ("ko", "en")]
    assert list(nodes["summary/glue_rte"].inputs) == [f"language_loss/{name}/pretrained/1" for name in ["en/source", *matrix]]
    edit(editable, "resamples = 200", "resamples = 0")
    assert "summary/nsmc" not in transfer_graph(load_cross_lingual(editable))


def test_a_control_may_start_from_co_occurrences(editable: Path) -> None:
    edit(editable, "[control.electra]\n", '[control.electra]\nembeddings = "cooccurrence"\n')
    nodes = transfer_graph(load_cross_lingual(editable))
    assert nodes["control/electra"].inputs["cooccurrence"] == "cooccurrence/electra"
    assert nodes["cooccurrence/electra"].inputs == {"examples": "examples"}
    assert nodes["cooccurrence/electra"].spec.width == nodes["control/electra"].spec.shape.embedding_size  # type: ignore[attr-defined]
    assert [label for label in nodes if label.startswith("cooccurrence")] == ["cooccurrence/electra"]


def test_settings_are_searched_for_each_model_on_dev(editable: Path) -> None:
    edit(editable, "learning_rate = 1e-3", 'search = { method = "grid", learning_rate = [1e-4, 5e-4], seeds = [1] }')
    nodes = transfer_graph(load_cross_lingual(editable))
    for model in ("itl/phase1", "control/mlm"):
        found = f"search/{model}/nsmc/pretrained/selection"
        assert nodes[f"finetune/{model}/nsmc/pretrained/1"].inputs["settings"] == found
        assert nodes[found].inputs.keys() == {"0/1", "1/1"}


def test_a_change_of_the_phase_2_rate_leaves_phase_1_cached(editable: Path, tmp_path: Path) -> None:
    before = identities(editable, tmp_path / "store")
    text = editable.read_text("utf-8")
    at = text.index("[phase2]")
    editable.write_text(text[:at] + text[at:].replace("lr = 1e-3", "lr = 5e-4", 1), "utf-8")
    after = identities(editable, tmp_path / "store")
    changed = {label for label in before if before[label] != after[label]}
    assert {"phase2/itl", "phase2/none", "export/itl/phase2", "english/none/phase2", "report"} <= changed
    assert not any(label.startswith(("phase1/", "transfer/", "source", "examples", "vocab", "control/")) for label in changed)
    assert not any("/phase1" in label for label in changed)


def test_the_random_encoder_shares_everything_but_its_transfer(editable: Path) -> None:
    nodes = transfer_graph(load_cross_lingual(editable))
    itl, random = nodes["transfer/itl"], nodes["transfer/random"]
    assert itl.inputs == random.inputs
    differing = {name for name, value in itl.spec.model_dump().items() if value != random.spec.model_dump()[name]}
    assert differing == {"encoder"}
    for phase in ("phase1", "phase2"):
        assert nodes[f"{phase}/itl"].spec == nodes[f"{phase}/random"].spec


def test_a_smaller_corpus_has_the_vocabulary_and_the_valid_part_of_the_larger(editable: Path, tmp_path: Path) -> None:
    large = identities(editable, tmp_path / "store")
    edit(editable, "train_sentences = 500", "train_sentences = 100\nvocabulary_sentences = 500")
    small = identities(editable, tmp_path / "store")
    assert {label for label in ("vocab", "split/valid", "split/test", "examples/test") if large[label] == small[label]} == {
        "vocab",
        "split/valid",
        "split/test",
        "examples/test",
    }
    assert small["split/vocabulary"] == large["split/train"]
    assert small["split/train"] != large["split/train"]
    assert small["phase1/itl"] != large["phase1/itl"]


def test_the_sample_is_planned_by_the_same_command(editable: Path, tmp_path: Path) -> None:
    prepared = prepare(editable, Store(tmp_path / "store"), until="phase1")
    labels = [stage.label for stage in prepared.planned]
    assert {"phase1/itl", "phase1/none", "phase1/random"} <= set(labels)
    assert not any(label.startswith(("phase2", "control", "finetune")) for label in labels)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("recipes/xpt-sample.toml", "cross-lingual"),
        ("recipes/klue-re-xpt.toml", "cross-lingual"),
        ("recipes/sample.toml", "corpus-to-model"),
        ("ablations/sample/korealbert-table-2.toml", "corpus-to-model"),
    ],
)
def test_a_file_runs_as_the_flow_of_its_kind(file: str, name: str) -> None:
    assert flow_of(ROOT / "data_specs" / file).name == name


BROKEN = {
    "unknown field": (
        "[transfer]\n",
        "[transfer]\nitll = true\n",
        r"\[variants\.itl\]: unknown field 'itll' \(did you mean 'itl'",
    ),
    "unknown table": ("[split]", "[spilt]", r"unknown table or field \[spilt\] \(did you mean 'split'"),
    "no source": ('recipe = "english-sample.toml"', "", r"\[source\]: give either path .*, package and folder, or recipe"),
    "no such recipe": ("english-sample.toml", "english-sampel.toml", r"no such recipe \(did you mean 'english-sample\.toml'"),
    "no such directory": ('recipe = "english-sample.toml"', 'path = "nowhere"', r"field 'path': no such file or directory"),
    "itself": ('"english-sample.toml"', '"xpt-sample.toml"', "is itself a recipe of a cross-lingual post-training"),
    "no such model": ('models = ["itl/phase1"', 'models = ["itl/phase3"', r"no model 'itl/phase3' \(did you mean 'itl/phase"),
    "an encoder that nothing measures": (
        "[export]\n",
        '[encoder.sample]\nrecipe = "small-sample.toml"\n\n[export]\n',
        r"\[encoder\.sample\]: no Korean benchmark measures it; add 'encoder/sample' to models",
    ),
    "a model of a directory": (
        'recipe = "english-sample.toml"',
        'path = "."\nmodel = "itl/phase2"',
        r"\[source\]: model chooses a model of a recipe, and none is named",
    ),
    "a model of a recipe that makes one": (
        'recipe = "english-sample.toml"',
        'recipe = "english-sample.toml"\nmodel = "itl/phase2"',
        r"\[source\], field 'model': that recipe makes one model; remove it",
    ),
    "no such variant": (
        'variants = ["itl", "none"]',
        'variants = ["itl", "nonne"]',
        r"no variant 'nonne' \(did you mean 'none'",
    ),
    "held-out share": (
        "sequence_length = 64",
        "sequence_length = 64\nheldout_share = 0.1",
        "'heldout_share' is set by the recipe",
    ),
    "a phase with a model": (
        "[phase2]\n",
        "[phase2]\nmodel = { num_layers = 3 }\n",
        "a phase trains the model that was transferred",
    ),
    "other preset": ("[phase1]\n", '[phase1]\nfreeze = "all"\n', r"\[phase1\], field 'freeze': .*'chameleon', 'l21' or 'none'"),
    "phase 2 frozen": (
        "[phase2]\n",
        '[phase2]\nfreeze = "chameleon"\n',
        r"\[phase2\], field 'freeze': phase 2 trains everything",
    ),
    "phase 1 that ends dropout": (
        "[phase1]\n",
        "[phase1]\ndropout_until_step = 2\n",
        r"\[phase1\], field 'dropout_until_step': phase 2 would go on without dropout",
    ),
    "other objective": ("[phase1]\n", '[phase1]\nobjective = "rtd"\n', r"\[phase1\], field 'objective': Input should be 'mlm'"),
    "embeddings of their own": (
        "[phase1]\n",
        '[phase1]\nembeddings = "cooccurrence"\n',
        "a phase has those that were transferred; remove it",
    ),
    "long": ("[phase1]\n", "[phase1]\nlong = { from_step = 30 }\n", "a phase has sequences of one length"),
    "vocabulary": (
        "train_sentences = 500",
        "train_sentences = 500\nvocabulary_sentences = 400",
        "is less than train_sentences = 500",
    ),
    "upper case": ("[variants.itl]", "[variants.ITL]", r"\[variants\.ITL\]: use lower-case letters"),
    "reserved": ("[variants.itl]", "[variants.language_loss]", r"none of 'source', 'control', 'encoder', 'language_loss'"),
    "random weights": ("models = [", 'inits = ["random"]\nmodels = [', r"\[finetune\.nsmc\], field 'inits\.0': .*'pretrained'"),
    "no test": ('test = "../sample/rte_dev.tsv"\n', "", r"\[english\.glue_rte\]: field 'test' is missing"),
    "one name twice": ("[english.glue_rte]", "[english.nsmc]", r"\[english\.nsmc\]: \[finetune\.nsmc\] has this name too"),
    "a curve of another seed": ("curve_seeds = [1]", "curve_seeds = [2]", r"\[english\.glue_rte\] has no seed 2; it has 1"),
    "models of english": ("[english.glue_rte]\n", '[english.glue_rte]\nmodels = ["source"]\n', r"unknown field 'models'"),
    "rows longer than the source": (
        "sequence_length = 64",
        "sequence_length = 4096",
        r"\[examples\], field 'sequence_length': 4096 exceeds the \d+ positions of the source; lower it",
    ),
    "rows longer than a control": (
        "max_positions = 129",
        "max_positions = 33",
        r"\[examples\], field 'sequence_length': 64 exceeds the 32 positions of \[control\.mlm\.model\]",
    ),
    "inputs longer than a model": (
        "max_length = 64",
        "max_length = 4096",
        r"\[finetune\.nsmc\], field 'max_length': 4096 exceeds the \d+ positions of itl/phase1",
    ),
    "a control of long rows": (
        "[control.mlm]\n",
        "[control.mlm]\nlong = { from_step = 40 }\n",
        r"\[control\.mlm\]: field 'long'",
    ),
    "sentence order that is not there": (
        "type_vocab_size = 1\npooler = false\nposition_offset = 1\n",
        "",
        r"\[control\.mlm\]: sop_weight = 1\.0, but sentence_task = 'none' in \[views\]",
    ),
    "moved words under detection": (
        "views = 4",
        "views = 4\nword_order = { portion = 0.15 }",
        r"\[control\.electra\]: objective = 'rtd' restores masked tokens only",
    ),
    "packed rows of learnt positions": (
        "[phase1]\n",
        '[phase1]\npacking = "best_fit"\n',
        r"\[phase1\]: packing = 'best_fit' needs a model that keeps the sequences of a row apart",
    ),
    "a packed control of learnt positions": (
        "[control.mlm]\n",
        '[control.mlm]\npacking = "best_fit"\n',
        r"\[control\.mlm\]: packing = 'best_fit' needs a model that keeps",
    ),
    "a control that has no format": (
        "position_offset = 1\nmax_positions = 129",
        "position_offset = 2\nmax_positions = 130",
        r"\[control\.mlm\]: field 'model': it could not be exported: position_offset = 2",
    ),
    "no model in the directory": (
        'recipe = "english-sample.toml"',
        'path = "../sample"',
        r"\[source\], field 'path': .*sample: has no config\.json",
    ),
    "a loss without benchmarks": ("[english.glue_rte]", "[finetune.glue_rte]", r"\[language_loss\]: no English benchmark"),
    "an empty matrix": ("curve_seeds = [1]", "vocabularies = []", r"\[language_loss\], field 'vocabularies': .* at least 1"),
    "curve without snapshots": ("snapshots = [20]\n\n[phase2]", "\n[phase2]", None),
}


def test_a_recipe_without_a_transfer_table_is_still_cross_lingual(editable: Path) -> None:
    edit(editable, "[transfer]\nseed = 1\n", "")
    assert load_cross_lingual(editable).variants["itl"].seed == 1
    assert flow_of(editable).name == "cross-lingual"


@pytest.mark.parametrize("case", BROKEN)
def test_errors_name_file_table_and_remedy(editable: Path, case: str) -> None:
    old, new, message = BROKEN[case]
    edit(editable, old, new)
    if case == "an encoder that nothing measures":
        without_klue(editable)
    if case == "sentence order that is not there":
        edit(editable, "sop_weight = 0.0\n", "")
    if message is None:  # One phase with snapshots is enough for a curve.
        assert load_cross_lingual(editable).phase2.snapshots
        edit(editable, "snapshots = [20]", "")
        message = "curve_seeds need snapshots"
    with pytest.raises(RecipeError, match=message) as caught:
        load_cross_lingual(editable)
    assert re.search(r"xpt-sample\.toml", str(caught.value))


def test_the_tokenizer_of_the_source_takes_the_place_of_a_vocabulary(editable: Path, tmp_path: Path) -> None:
    without_klue(editable)  # A question with its context is longer than this source's inputs.
    source = make_checkpoint("modernbert", tmp_path / "source")
    edit(editable, 'recipe = "english-sample.toml"', f'path = "{source}"')
    edit(editable, "[vocab]\nsize = 1200", '[vocab]\ntokenizer = "source"')
    edit(editable, "train_sentences = 500", "train_sentences = 500\nvocabulary_sentences = 600")
    with pytest.raises(RecipeError) as refused:
        load_cross_lingual(editable)
    for name in ("itl", "random"):
        remedy = "a source whose tokenizer is kept takes no translation layers; set itl = false in [transfer]"
        assert f"[variants.{name}], field 'itl': {remedy}" in str(refused.value)
    assert "[split], field 'vocabulary_sentences': the tokenizer is the source's" in str(refused.value)
    edit(editable, "\nvocabulary_sentences = 600", "")
    edit(editable, "[variants.itl]\n", "[variants.itl]\nitl = false\n")
    edit(editable, 'encoder = "random"', 'encoder = "random"\nitl = false')
    nodes = transfer_graph(load_cross_lingual(editable))
    assert nodes["vocab"].stage.name == "xpt_tokenizer"
    assert nodes["vocab"].inputs == {"source": "source", "documents": "split/train"}
    for label in ("views", "views/test"):
        assert ViewsSpec.model_validate(nodes[label].spec).masking.random_of == "pieces", "its table has further rows"
    planned = {stage.label: stage for stage in prepare(editable, Store(tmp_path / "store")).planned}
    assert planned["vocab"].name.startswith("xpt_tokenizer-")
    (source / "tokenizer.json").rename(source / "tokenizer.bak")
    with pytest.raises(RecipeError, match=r"\[source\], field 'path': .*tokenizer\.json: missing; save one with transformers"):
        load_cross_lingual(editable)
    edit(editable, 'tokenizer = "source"', 'tokenizer = "source"\nsize = 1200')
    with pytest.raises(RecipeError, match=r"\[vocab\]: unknown field 'size'; valid: tokenizer"):
        load_cross_lingual(editable)
