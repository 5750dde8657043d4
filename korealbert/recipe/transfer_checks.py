"""What the tables of a cross-lingual recipe ask of each other: all that would otherwise fail hours later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from korealbert.examples.views import ViewsSpec
from korealbert.huggingface import checkpoint
from korealbert.huggingface.export import SPECIAL_IDS
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe.benchmarks import too_long
from korealbert.recipe.tables import RecipeError, nearest

if TYPE_CHECKING:
    from korealbert.recipe.cross_lingual import CrossLingualRecipe


def check_whole(path: Path, recipe: CrossLingualRecipe) -> None:
    """Raise RecipeError naming file, table, field and remedy where tables contradict each other."""
    for where, problem in _problems(recipe):
        raise RecipeError(f"{path}, {where}: {problem}")


def _problems(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Where in the file, and what is wrong there."""
    yield from _names(recipe)
    if recipe.phase2.freeze != "none":
        yield "[phase2], field 'freeze'", f"phase 2 trains everything (it is {recipe.phase2.freeze!r}); remove it"
    for name, control in recipe.control.items():
        yield from ((f"[control.{name}]", problem) for problem in _control(control, recipe.views))
    yield from _english(recipe)
    yield from _lengths(recipe)


def _names(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Models and variants that tables speak of."""
    known = [*recipe.models, "source"]
    for name, benchmark in recipe.finetune.items():
        for model in benchmark.grid.models:
            if model not in known:
                there = f"no model {model!r}{nearest(model, known)}; there are {', '.join(known)}"
                yield f"[finetune.{name}], field 'models'", there
    for variant in recipe.language_loss.variants:
        if variant not in recipe.variants:
            yield "[language_loss], field 'variants'", f"no variant {variant!r}{nearest(variant, recipe.variants)}"


def _control(control: PretrainSpec, views: ViewsSpec) -> Iterator[str]:
    """What a model from scratch asks of the noise, and of the formats that it is exported in."""
    if control.long is not None:
        yield "field 'long': these recipes have rows of one length; remove it"
    if control.objective == "rtd" and views.word_order.portion:
        yield "objective = 'rtd' restores masked tokens only, but [views] word_order moves some; set its portion = 0"
    if control.sop_weight and views.sentence_task == "none":
        yield f"sop_weight = {control.sop_weight}, but [views] sentence_task = 'none' swaps nothing; set sop_weight = 0"
    if control.wop_weight and not views.word_order.portion:
        yield f"wop_weight = {control.wop_weight}, but [views] word_order moves nothing; set wop_weight = 0"
    try:
        checkpoint.settings(control.config_for(vocab_size=8, sequence_length=1), SPECIAL_IDS)  # No format minds these sizes.
    except ValueError as error:
        yield f"field 'model': it could not be exported: {error}"


def _english(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """What the curve over snapshots and the English benchmarks ask of each other and of the rest."""
    table = recipe.language_loss
    if table != type(table)() and not recipe.english:
        yield "[language_loss]", "there is no benchmark to see it by; add one as [english.NAME], or remove the table"
    for name, benchmark in recipe.english.items():
        if name in recipe.finetune:
            yield f"[english.{name}]", f"[finetune.{name}] has this name too; give one of them another, and name its task"
        for seed in table.curve_seeds:
            if seed not in benchmark.grid.seeds:
                there = f"[english.{name}] has no seed {seed}; it has {', '.join(map(str, benchmark.grid.seeds))}"
                yield "[language_loss], field 'curve_seeds'", there
    if table.curve_seeds and not (recipe.phase1.snapshots or recipe.phase2.snapshots):
        yield "[language_loss]", "curve_seeds want snapshots; name steps in snapshots of [phase1] or [phase2]"


def _lengths(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Whether every model has positions for what it is to read."""
    controls = {f"control/{name}": control.model.longest_sequence for name, control in recipe.control.items()}
    try:
        source = _positions_of_source(recipe)
    except ValueError as error:
        yield "[source], field 'path'", str(error)
        return
    models = {**dict.fromkeys(("source", *recipe.models), source), **controls}
    rows = recipe.examples.sequence_length
    for model, positions in models.items():
        if positions is not None and rows > positions:
            owner = "the source" if model not in controls else f"[{model.replace('/', '.')}.model]"
            yield "[examples], field 'sequence_length'", f"{rows} exceeds the {positions} positions of {owner}; lower it"
    benchmarks = [(f"[finetune.{name}]", b.first, b.grid.models or recipe.models) for name, b in recipe.finetune.items()]
    benchmarks += [(f"[english.{name}]", b.first, ("source",)) for name, b in recipe.english.items()]
    for where, cell, measured in benchmarks:
        for problem in too_long(cell, {model: models[model] for model in measured}):
            yield f"{where}, field 'max_length'", problem


def _positions_of_source(recipe: CrossLingualRecipe) -> int | None:
    """Positions that tokens of the source can take; None where it is in a package, which may be installed elsewhere only."""
    if recipe.source.recipe is not None:
        return recipe.source.recipe.pretrain.model.longest_sequence
    path = recipe.source.place.path
    return None if path is None else checkpoint.read_config(path.path).longest_sequence
