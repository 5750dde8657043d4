"""Ablations: cells share equal stages; errors name file, cell and field."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Store
from korealbert.examples.packing import ExamplesSpec
from korealbert.recipe import RecipeError
from korealbert.recipe.tables import read_toml
from tests.editing import edit

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data_specs" / "ablations" / "sample"


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample's table II, as a test may change it."""
    return specs / "ablations" / "sample" / "korealbert-table-2.toml"


def graph_of(path: Path) -> dict[str, recipes.Node]:
    return recipes.ablation_graph(recipes.load_ablation(path))


@cache
def shipped(name: str) -> dict[str, recipes.Node]:
    """The graph of an ablation of the sample, made once."""
    return graph_of(SAMPLE / f"{name}.toml")


def test_cells_share_what_they_agree_on_and_inputs_come_first() -> None:
    nodes = shipped("korealbert-table-2")
    seen: set[str] = set()
    for label, node in nodes.items():
        assert set(node.inputs.values()) <= seen, label
        assert node.label == label
        seen.add(label)
    assert {label for label in nodes if label.split("/")[0] in ("vocab", "examples", "views")} == {
        *("vocab", "examples", "views/mlm-sop", "views/mlm-sop-wop", "views/mlm-wop", "views/noise-order")
    }
    assert [label for label in nodes if label.startswith("pretrain/")] == [
        f"pretrain/{cell}/{seed}" for cell in ("mlm-sop", "mlm-sop-wop", "mlm-wop") for seed in (1, 2)
    ]
    assert nodes["pretrain/mlm-wop/2"].spec.seed == 2  # type: ignore[attr-defined]
    assert nodes["pretrain/mlm-wop/2"].inputs["views"] == "views/mlm-wop"
    assert not any("/random/" in label for label in nodes)  # It would not tell the cells apart.


def test_random_weights_are_a_column_of_their_own_and_tuned_once(editable: Path) -> None:
    known = {label for label in graph_of(editable) if label.startswith("finetune/")}
    column = '\n[[columns]]\ntitle = "KorSTS, random"\nbenchmark = "korsts"\ninit = "random"\n'
    editable.write_text(editable.read_text("utf-8") + column, "utf-8")
    added = {label for label in graph_of(editable) if label.startswith("finetune/")} - known
    assert added == {
        f"finetune/{cell}/1/korsts/random/{seed}" for cell in ("mlm-sop", "mlm-sop-wop", "mlm-wop") for seed in (1, 2)
    }
    edit(editable, 'benchmark = "korsts"\ninit = "random"', 'heldout = "mlm"\ninit = "random"')
    with pytest.raises(RecipeError, match=r"'KorSTS, random': init = 'random' belongs to a benchmark"):
        graph_of(editable)


def test_what_an_ablation_shares_with_its_recipe_is_the_same_artifact(tmp_path: Path) -> None:
    store = Store(tmp_path)
    table = {p.label: p.name for p in recipes.prepare(SAMPLE / "korealbert-table-1.toml", store).planned}
    other = {p.label: p.name for p in recipes.prepare(SAMPLE / "korealbert-table-2.toml", store).planned}
    assert table["examples"] == other["examples"]
    assert table["views/wop30"] == other["views/mlm-sop-wop"]
    assert table["pretrain/wop30/1"] == other["pretrain/mlm-sop-wop/1"]


def test_cells_that_nothing_tells_apart_are_refused(editable: Path) -> None:
    editable.write_text(editable.read_text("utf-8") + '\n[[cells]]\nlabel = "another"\nprinted = ""\n', "utf-8")
    with pytest.raises(RecipeError, match=r"cells 'MLM\+SOP\+WOP' and 'another' are one training"):
        graph_of(editable)


def test_cells_read_the_training_where_the_export_cannot_say_what_layers_share() -> None:
    nodes = shipped("albert-table-4")
    cells = {label: node.inputs for label, node in nodes.items() if label.startswith("finetune/")}
    assert len(cells) == 2 * 4 * 2 * 2 * 2
    for label, inputs in cells.items():
        row = "/".join(label.split("/")[1:3])
        # Wide embeddings have no projection, and ALBERT's format has no model without one.
        less = "shared-attention" in row or "shared-ffn" in row or "e-768" in row
        assert inputs.get("pretrain") == (f"pretrain/{row}" if less else None), label


def model_of(nodes: Mapping[str, recipes.Node], label: str) -> str:
    """Return the training that a cell depends on."""
    while not label.startswith("pretrain/"):
        inputs = nodes[label].inputs
        label = inputs.get("pretrain") or inputs["model"]
    return label


@pytest.mark.parametrize("file", sorted(SAMPLE.glob("*.toml")), ids=lambda path: path.stem)
def test_every_cell_is_wired_to_the_model_of_its_own_row_and_seed(file: Path) -> None:
    nodes = shipped(file.stem)
    cells = [label for label in nodes if label.startswith(("finetune/", "intrinsic/"))]
    wired = {label: "/".join(["pretrain", *label.split("/")[1:3]]) for label in cells}
    # Rows that are snapshots of one training share it; each has an export of its own.
    exported = {
        label: nodes[label].inputs["model"] for label in cells if wired[label] not in nodes and "model" in nodes[label].inputs
    }
    assert exported == {label: "/".join(["export", *label.split("/")[1:3]]) for label in exported}
    wired = {label: training if training in nodes else model_of(nodes, label) for label, training in wired.items()}
    assert cells and {label: model_of(nodes, label) for label in cells} == wired


def test_cells_of_other_rows_are_other_artifacts(tmp_path: Path) -> None:
    nodes = shipped("korealbert-table-2")
    cells = [label for label in nodes if label.startswith(("finetune/", "intrinsic/"))]
    one, other = list({_row(label): label for label in reversed(cells) if label.split("/")[2] == "1"}.values())[:2]
    exchanged = {one: other, other: one}
    rest = {
        label: node for label, node in nodes.items() if label not in (*cells, "ablation") and not label.startswith("ensemble/")
    }
    swapped = rest | {label: replace(nodes[label], inputs=nodes[exchanged.get(label, label)].inputs) for label in cells}
    store = Store(tmp_path)
    right, wrong = ({stage.label: stage.name for stage in recipes.plan(each, store)} for each in (nodes, swapped))
    assert {label for label in cells if right[label] != wrong[label]} == {one, other}, "and each would be another artifact"


@pytest.mark.parametrize("path", sorted(SAMPLE.glob("*.toml")), ids=lambda path: path.stem)
def test_rows_of_the_sample_are_fine_tuned_until_they_differ(path: Path) -> None:
    """With fewer epochs or the head of the first piece every row gives one class to all sentences: 50.00."""
    nsmc = read_toml(path)["set"]["finetune"]["nsmc"]
    assert (nsmc["head"], nsmc["epochs"], nsmc["batch_size"], nsmc["learning_rate"]) == ("mean", 6, 8, 1e-3)


def _row(label: str) -> str:
    return label.split("/")[1]


def test_a_bi_encoder_stands_beside_no_printed_score_and_is_named(editable: Path) -> None:
    set_head = 'set.finetune.korsts.head = "bi-encoder"\nset.finetune.korsts.seeds'
    edit(editable, "set.finetune.korsts.seeds", set_head)
    with pytest.raises(RecipeError, match=r"column 'KorSTS spearman': the printed scores are of cross-encoders"):
        graph_of(editable)
    edit(editable, 'printed = ["KorSTS", "spearman"]\n', "")
    layout = graph_of(editable)["ablation"].spec.model_dump()
    assert "Head bi-encoder: KorSTS spearman." in layout["notes"]


def test_next_sentences_in_the_place_of_sentence_order_are_named(editable: Path) -> None:
    edit(editable, 'heldout = "sop"\nnoise = "order"\n', 'heldout = "sop"\n')
    recipe = recipes.load_ablation(editable, overrides={"views.sentence_task": "nsp"})
    notes = [note for note in recipe.report.notes if "NSP" in note]
    assert notes == [f"SOP acc: accuracy of NSP in {', '.join(row.label for row in recipe.report.rows)}."]
    asked = recipes.load_ablation(editable.with_name("albert-table-5.toml")).report
    assert not any("accuracy of NSP" in note for note in asked.notes), (
        "every column names the noise that all rows are scored on"
    )
    assert asked.noises["nsp"]["sentence_task"] == "nsp"


def test_heads_of_losses_may_be_frozen_where_all_rows_are_scored_on_one_noise(editable: Path) -> None:
    asked = {"pretrain.frozen": ["sop.*", "wop.*"], "pretrain.wop_weight": 1.0, "views.word_order.portion": 0.15}
    assert recipes.load_ablation(editable, overrides=asked).noise["order"]


def test_a_cell_that_sets_what_all_take_from_the_first_is_refused(editable: Path) -> None:
    edit(editable, "seeds = ", 'shared = ["vocab"]\nseeds = ')
    edit(editable, 'label = "MLM+SOP+WOP"\n', 'label = "MLM+SOP+WOP"\nset.vocab.size = 500\n')
    with pytest.raises(RecipeError, match=r"cell 'MLM\+SOP\+WOP': its \[vocab\] is not that of 'MLM\+SOP', which `shared`"):
        recipes.load_ablation(editable)


def test_a_column_beside_another_metric_or_task_says_so(editable: Path) -> None:
    before = graph_of(editable)["ablation"].spec.model_dump()["notes"]
    assert not any("printed number" in note for note in before), "the same, under other names"
    edit(editable, 'printed = ["WOP", "intrinsic_acc"]\n', 'printed = ["SOP", "intrinsic_acc"]\n')
    edit(editable, 'printed = ["KorSTS", "spearman"]\n', 'printed = ["KorSTS", "spearman"]\nmetric = "pearson"\n')
    edit(editable, 'printed = ["NSMC", "acc"]\n', 'printed = ["NER", "acc"]\n')
    notes = [note for note in graph_of(editable)["ablation"].spec.model_dump()["notes"] if note not in before]
    assert notes == [
        "WOP acc: ours is accuracy of WOP on held-out rows, the printed number is called 'intrinsic_acc' of 'SOP'.",
        "KorSTS spearman: ours is Pearson of KorSTS, the printed number is called 'spearman' of 'KorSTS'.",
        "NSMC acc: ours is accuracy of NSMC, the printed number is called 'acc' of 'NER'.",
    ]


def test_axes_make_every_combination_and_equal_cells_are_one() -> None:
    third, fourth = (recipes.load_ablation(SAMPLE / f"albert-table-{number}.toml") for number in (3, 4))
    assert list(third.cells)[:2] == ["not-shared-e-64", "not-shared-e-128"]
    assert [row.model for row in third.report.rows][-1] == "ALBERT-base all-shared E=768 (31M)"
    assert fourth.cells["e-128-shared-ffn"].pretrain.model.share == "ffn"
    assert len({label for label in recipes.ablation_graph(third) if label.startswith("pretrain/")}) == 16


def test_two_axes_cannot_set_one_field(specs: Path) -> None:
    path = specs / "ablations" / "sample" / "albert-table-3.toml"
    with pytest.raises(RecipeError, match=r"fields set by axes: pretrain\.model\.embedding_size named twice"):
        recipes.load_ablation(edit(path, 'set.pretrain.model.share = "none"', "set.pretrain.model.embedding_size = 4"))


def test_shared_stages_are_those_of_the_first_cell() -> None:
    nodes = shipped("albert-table-7")
    assert [label for label in nodes if label.startswith("vocab")] == ["vocab"]
    assert nodes["vocab"].inputs == {"documents": "balance/no-additional-data"}
    assert nodes["examples/with-additional-data"].inputs == {"documents": "balance/with-additional-data", "vocab": "vocab"}
    assert "extract/news" not in str(nodes["dedup/no-additional-data"].inputs)


def test_where_cells_differ_in_their_documents_none_trains_on_the_held_out_ones_of_another() -> None:
    def rests(number: int) -> set[str]:
        nodes = shipped(f"albert-table-{number}").values()
        return {node.spec.heldout_rest for node in nodes if isinstance(node.spec, ExamplesSpec)}

    assert rests(7) == {"unused"}
    assert rests(3) == {"train"}, "cells of one corpus keep their artifacts"


def test_nor_do_their_long_rows(specs: Path) -> None:
    path = specs / "ablations" / "sample" / "albert-table-7.toml"
    edit(
        path,
        "[printed]",
        'set.views.masking.unit = "token"\nset.pretrain.long = { from_step = 20, micro_batch_size = 4 }\n\n[printed]',
    )
    examples = {label: node.spec for label, node in graph_of(path).items() if isinstance(node.spec, ExamplesSpec)}
    assert sum("long" in label for label in examples) == len(examples) // 2 == 2
    assert {spec.heldout_rest for spec in examples.values()} == {"unused"}


def test_rerun_and_until_name_cells(tmp_path: Path) -> None:
    prepared = recipes.prepare(SAMPLE / "korealbert-table-2.toml", Store(tmp_path), until="pretrain/mlm-wop")
    assert [p.label for p in prepared.planned][-2:] == ["pretrain/mlm-wop/1", "pretrain/mlm-wop/2"]
    assert not any("mlm-sop/" in p.label for p in prepared.planned)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[cells]]", "[[cell]]", r"table-2\.toml: unknown field 'cell' \(did you mean 'cells'\?\)"),
        ("seeds = [1, 2]", 'seeds = ["1", 2]', r"field 'seeds\.0': .*integer.*'1'"),
        ("seeds = [1, 2]", "seeds = [1, 1]", r"seeds: 1 named twice"),
        ("seeds = [1, 2]", "seeds = []", r"field 'seeds': .*at least 1"),
        ("views.word_order.portion", "views.word_ordr.portion", r"cell 'MLM\+SOP': .*\[views\]: unknown field 'word_ordr'"),
        ("set.pretrain.wop_weight = 0.0", "set.pretrain.wop_weight = -1", r"cell 'MLM\+SOP': .*'wop_weight'.*\(it is -1\)"),
        ("set.pretrain.wop_weight = 0.0", "set.pretrian.steps = 9", r"cell 'MLM\+SOP': .*\[pretrian\].*'pretrain'"),
        ("set.pretrain.wop_weight = 0.0", "set.pretrain.seed = 3", r"'pretrain\.seed' cannot be set here: seeds are"),
        (
            "set.pretrain.wop_weight = 0.0",
            "set.pretrain.steps.few = 3",
            r"'pretrain\.steps\.few' goes through 'pretrain\.steps'",
        ),
        (
            "set.pretrain.wop_weight = 0.0",
            'set."views.word_order".portion = 0.1',
            r"'views\.word_order\.portion' is given twice",
        ),
        ("set.pretrain.wop_weight = 0.0", 'without = ["extract.newz"]', r"no 'extract\.newz' to remove"),
        ('label = "MLM+WOP"', 'label = "MLM+SOP"', r"cells: MLM\+SOP named twice"),
        ('label = "MLM+WOP"', 'label = "MLM-SOP"', r"names of cells: mlm-sop named twice"),
        ('label = "MLM+WOP"', 'label = "WOP"', r"cell 'WOP': .*matches 0 models of KoreALBERT Table II"),
        (
            'baseline = "MLM+SOP"',
            'baseline = "MLM"',
            r"baseline = 'MLM' is no cell \(did you mean 'MLM\+.OP'\?\); name one of ",
        ),
        ('source = "KoreALBERT Table II"', 'source = "Table II"', r"'Table II' is not in published/korealbert\.csv"),
        ('benchmark = "nsmc"', 'benchmark = "nsmcc"', r"column 'NSMC acc': no benchmark 'nsmcc'.*did you mean 'nsmc'"),
        (
            'benchmark = "nsmc"',
            'benchmark = "nsmc"\nmetric = "acuracy"',
            r"column 'NSMC acc': nsmc has no metric 'acuracy' \(did you mean 'accuracy'\?\); it has accuracy$",
        ),
        ('noise = "order"', 'noise = "ordr"', r"column 'MLM acc': no table \[noise\.ordr\] \(did you mean 'order'\?\)"),
        (
            'printed = ["NSMC", "acc"]',
            'printed = ["NSMC", "acc"]\nsource = "KoreALBERT Tabel II"',
            r"column 'NSMC acc': .*'KoreALBERT Tabel II' is not in published/korealbert\.csv; known are KoreALBERT Table I,",
        ),
        ('printed = ["NSMC", "acc"]', 'printed = ["NSMC", "f1"]', r"\['NSMC', 'f1'\] is not in the published table"),
        (
            'recipe = "../../recipes/small-sample.toml"',
            'recipe = "../../recipes/small-sampel.toml"',
            r"did you mean 'small-sample\.toml'",
        ),
        (
            'recipe = "../../recipes/small-sample.toml"',
            'recipe = "korealbert-table-1.toml"',
            r"is itself a recipe of an ablation; name one of a model",
        ),
        ('sentence_task = "sop"', 'sentence_task = "spo"', r"\[noise\.order\]"),
    ],
)
def test_errors_name_file_cell_and_field(editable: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        recipes.load_ablation(edit(editable, old, new))


@pytest.mark.parametrize("of_others", ["pretrain.model.max_positions = 128", "pretrain.wop_target = 'position'"])
def test_held_out_rows_that_another_cell_cannot_read_are_refused(editable: Path, of_others: str) -> None:
    head, *cells = editable.read_text("utf-8").split("[[cells]]\n")
    long, *short = (
        f"set.{field}\n{cell}"
        for field, cell in zip(["examples.sequence_length = 256", of_others, of_others], cells, strict=True)
    )
    message = r"\[noise\] scores all cells on the first one's held-out rows of 256 tokens, but .* reads 128; put the cell with"
    for order in ([long, *short], [*short, long]):
        editable.write_text("[[cells]]\n".join([head, *order]), "utf-8")
        with pytest.raises(RecipeError, match=message) if order[0] == long else nullcontext():
            graph_of(editable)


def test_without_columns_there_are_those_of_the_recipe(editable: Path) -> None:
    text = editable.read_text("utf-8")
    editable.write_text(text[: text.index("[noise.order]")], "utf-8")
    columns = recipes.load_ablation(editable).report.columns
    assert [column.title for column in columns] == ["MLM held out", "SOP held out", "WOP held out", "nsmc", "korsts"]


def test_no_cell_has_what_the_ablation_takes_out(editable: Path) -> None:
    text = editable.read_text("utf-8")
    editable.write_text(text[: text.index("[noise.order]")], "utf-8")
    before = graph_of(editable)
    after = graph_of(edit(editable, "set.finetune.korsts.seeds = [1, 2]", 'without = ["finetune.korsts"]'))
    assert before.keys() - after.keys() == {label for label in before if "/korsts" in label} != set()
    assert {label: after[label].spec for label in after if label != "ablation"} == {
        label: before[label].spec for label in after if label != "ablation"
    }
    assert not any("without" in setting for row in recipes.load_ablation(editable).report.rows for setting in row.settings)


def test_rows_of_one_training_are_its_snapshots_and_members_keep_their_evidence() -> None:
    nodes = shipped("albert-table-9")
    assert [label for label in nodes if label.startswith("pretrain/")] == [
        *(f"pretrain/albert-1m/{seed}" for seed in (1, 2)),
        *(f"pretrain/24-layers/{seed}" for seed in (1, 2)),
    ]
    report = nodes["ablation"].inputs
    assert report["pretrain/albert-1-5m/2"] == "pretrain/albert-1m/2"
    snapshots = {
        label: node.spec.snapshot for label, node in nodes.items() if label.endswith("/order") and "intrinsic" in label
    }  # type: ignore[attr-defined]
    assert set(snapshots.items()) == {
        *((f"intrinsic/albert-1m/{s}/order", 20) for s in (1, 2)),
        *((f"intrinsic/{row}/{s}/order", None) for row in ("albert-1-5m", "24-layers") for s in (1, 2)),
    }
    ensemble = nodes["ensemble/ensemble/nsmc"]
    assert len(ensemble.inputs) == 3 * 2 * 2 and ensemble.spec.members == 4  # type: ignore[attr-defined]
    assert all(nodes[label].spec.evidence for label in ensemble.inputs.values())  # type: ignore[attr-defined]
    assert report["ensemble/ensemble/nsmc"] == "ensemble/ensemble/nsmc"
    others = shipped("albert-table-8").values()
    assert not any(getattr(node.spec, "evidence", False) for node in others)


_CHANGES = {
    "no such snapshot": (
        "set.export.snapshot = 20",
        "set.export.snapshot = 7",
        r"snapshot = 7 is not among snapshots = \[20\]",
    ),
    "too many members": ("members = 4", "members = 99", "12 runs of korsts cannot make an ensemble of 99; add seeds"),
    "other examples": (
        'label = "24 layers"',
        'label = "24 layers"\nset.finetune.nsmc.max_test_examples = 10',
        "'ALBERT-1M' and '24 layers' are tested on other examples of nsmc: 'max_test_examples' differs",
    ),
    "from a snapshot": (
        'label = "ALBERT-1.5M"',
        'label = "ALBERT-1.5M"\nstarts_from = "ALBERT-1M"',
        "starts from the end of another, and 'ALBERT-1M' is its snapshot of step 20; name a cell without",
    ),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_what_would_fail_after_all_trainings_is_an_error_of_the_file(specs: Path, change: str) -> None:
    old, new, message = _CHANGES[change]
    path = specs / "ablations" / "sample" / "albert-table-9.toml"
    with pytest.raises(RecipeError, match=rf"albert-table-9\.toml, cell '.*{message}"):
        recipes.load_ablation(edit(path, old, new))


def test_a_benchmark_without_ensembles_is_refused_for_one(specs: Path) -> None:
    path = specs / "ablations" / "sample" / "albert-table-9.toml"
    ner = "\n".join(f'set.finetune.klue_ner.{part} = "../sample/klue/ner_{file}.tsv"' for part, file in _NER.items())
    edit(path, "set.pretrain.steps = 30", f"set.pretrain.steps = 30\n{ner}")
    path.write_text(path.read_text("utf-8") + '\n[[columns]]\ntitle = "NER"\nbenchmark = "klue_ner"\n', "utf-8")
    with pytest.raises(RecipeError, match="klue_ner has no ensembles; leave it out of the columns"):
        recipes.load_ablation(path)


_NER = {"train": "train", "test": "dev"}


def test_tables_9_and_10_of_albert_are_over_the_same_trainings(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ninth, tenth = (
        {p.name for p in recipes.prepare(SAMPLE / f"albert-table-{n}.toml", store).planned if p.label.startswith("pretrain/")}
        for n in (9, 10)
    )
    assert ninth == tenth


def test_each_depth_starts_from_the_one_before_it_seed_by_seed() -> None:
    nodes = shipped("albert-table-11")
    assert "initial" not in nodes["pretrain/layers-1/2"].inputs
    assert nodes["pretrain/layers-48/2"].inputs["initial"] == "pretrain/layers-24/2"
    assert nodes["pretrain/layers-48/2"].spec.model.num_layers == 48  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change",
    [
        'set.pretrain.model.share = "attention"',
        "set.pretrain.model.edge_layers = 1",
        "set.pretrain.model.hidden_size = 96",
        "set.pretrain.model.embedding_size = 128\nset.pretrain.model.hidden_size = 768\n"
        "set.pretrain.model.intermediate_size = 3072\nset.pretrain.model.num_heads = 12",  # ALBERT-base, the default
    ],
)
def test_a_cell_whose_weights_fit_no_other_is_refused_before_the_other_is_trained(specs: Path, change: str) -> None:
    path = specs / "ablations" / "sample" / "albert-table-11.toml"
    edit(path, "set.pretrain.model.num_layers = 12", f"set.pretrain.model.num_layers = 12\n{change}")
    with pytest.raises(RecipeError, match=r"cell 'layers=12': the weights of 'layers=6' do not fit its \[pretrain\.model\]"):
        recipes.load_ablation(path)


def test_a_cell_of_another_vocabulary_does_not_start_from_the_words_of_the_first(specs: Path) -> None:
    path = specs / "ablations" / "sample" / "albert-table-11.toml"
    edit(path, "set.pretrain.model.num_layers = 3", "set.pretrain.model.num_layers = 3\nset.balance.seed = 7")
    with pytest.raises(RecipeError, match="cell 'layers=3' starts from 'layers=1', whose vocabulary is another"):
        recipes.ablation_graph(recipes.load_ablation(path))


def test_layers_are_measured_under_the_first_noise() -> None:
    nodes = shipped("albert-table-2")
    measured = [label for label, node in nodes.items() if getattr(node.spec, "layers", False) is True]
    assert measured == [
        f"intrinsic/{row}/{seed}/order"
        for row in recipes.load_ablation(SAMPLE / "albert-table-2.toml").cells
        for seed in (1, 2)
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'ensemble = ["ALBERT-1M", ',
            'ensemble = ["ALBERT-2M", ',
            r"cell 'Ensemble': no cell 'ALBERT-2M' is trained before it \(did",
        ),
        ("members = 4", "members = 4\nset.pretrain.steps = 3", r"an ensemble trains nothing; remove set"),
        ('label = "ALBERT-1.5M"', 'label = "ALBERT-1.5M"\nmembers = 3', r"members belongs to an ensemble"),
        ('label = "ALBERT-1M"', 'label = "ALBERT-1M"\nstarts_from = "24 layers"', r"no cell '24 layers' is trained before it"),
        ('metric = "loss"\nnoise = "order"', 'metric = "loss"', r"column 'MLM loss': it is measured at the end of a training"),
        ("set.pretrain.steps = 30", "set.pretrain.steps = 30\nlayers = true", None),
    ],
)
def test_rows_that_read_other_rows_are_checked(specs: Path, old: str, new: str, message: str | None) -> None:
    path = edit(specs / "ablations" / "sample" / "albert-table-9.toml", old, new)
    if message is None:
        assert recipes.load_ablation(path).spec.layers
        return
    with pytest.raises(RecipeError, match=message):
        recipes.load_ablation(path)
