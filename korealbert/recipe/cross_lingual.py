"""Checks between the tables of a cross-lingual recipe, which would otherwise fail after hours of training.

Such a recipe describes a post-training (XPT): it makes a balanced corpus like any other and splits it into three parts,
transfers the source encoder in one or more variants, trains each in two phases, and fine-tunes the models on Korean and English
benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator

from korealbert.examples.views import ViewsSpec
from korealbert.formatting import nearest
from korealbert.huggingface import checkpoint, export
from korealbert.model.config import ModernConfig
from korealbert.pretrain.rows import model_problems, noise_problems, target_problems
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import frozen_problems
from korealbert.recipe.benchmarks import too_long
from korealbert.recipe.specs import CrossLingualRecipe
from korealbert.xpt.kept_tokenizer import NO_TOKENIZER_FILE, TokenizerSpec


def problems_of(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Yield the mistakes in a recipe, each with its position in the file."""
    yield from _names(recipe)
    if recipe.phase2.freeze != "none":
        yield "[phase2], field 'freeze'", f"phase 2 trains everything (it is {recipe.phase2.freeze!r}); remove it"
    if recipe.phase1.dropout_until_step is not None:
        yield "[phase1], field 'dropout_until_step'", "phase 2 would go on without dropout; set it in [phase2] instead"
    source = recipe.shape_of_source
    for name, phase in (("phase1", recipe.phase1), ("phase2", recipe.phase2)):
        refused = noise_problems(phase, recipe.views, recipe.examples.sequence_length)
        problems = [*refused, *([] if source is None else model_problems(phase, source))]
        yield from ((f"[{name}]", problem) for problem in problems)
    for name, control in recipe.control.items():
        own = _control(control, recipe.views, recipe.examples.sequence_length)
        yield from ((f"[control.{name}]", problem) for problem in own)
    yield from _english(recipe)
    yield from _lengths(recipe)
    kept = isinstance(recipe.vocab, TokenizerSpec)
    if kept and recipe.split.vocabulary_sentences is not None:
        yield "[split], field 'vocabulary_sentences'", "the tokenizer is the source's and learns from none; remove it"
    place = recipe.source.place.path
    if kept and place is not None and not (place.path / "tokenizer.json").is_file():
        yield "[source], field 'path'", f"{place.path}/tokenizer.json: {NO_TOKENIZER_FILE}"
    for name, variant in recipe.variants.items():
        if variant.itl and (kept or isinstance(source, ModernConfig)):
            which = "a source whose tokenizer is kept" if kept else "a modern encoder"
            yield f"[variants.{name}], field 'itl'", f"{which} takes no translation layers; set itl = false in [transfer]"


def _names(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Check the names of models and variants."""
    known, measured = [*recipe.models, "source"], set()
    for name, benchmark in recipe.finetune.items():
        measured |= {*(benchmark.grid.models or known)}
        for model in benchmark.grid.models:
            if model not in known:
                there = f"no model {model!r}{nearest(model, known)}; there are {', '.join(known)}"
                yield f"[finetune.{name}], field 'models'", there
    for name in recipe.encoder:
        if f"encoder/{name}" not in measured:
            remedy = f"add 'encoder/{name}' to models of a [finetune.NAME], or remove the table"
            yield f"[encoder.{name}]", f"no Korean benchmark measures it; {remedy}"
    for variant in recipe.language_loss.variants:
        if variant not in recipe.variants:
            yield "[language_loss], field 'variants'", f"no variant {variant!r}{nearest(variant, recipe.variants)}"


def _control(control: PretrainSpec, views: ViewsSpec, sequence_length: int) -> Iterator[str]:
    """Check that a model from scratch has a task for each of its losses and can be exported."""
    if control.long is not None:
        yield "field 'long': these recipes have rows of one length; remove it"
    yield from noise_problems(control, views, sequence_length)
    yield from model_problems(control, control.model)
    yield from target_problems(control, views)
    yield from frozen_problems(control, control.shape)
    try:
        # Whether there is a format for the model does not depend on these sizes.
        checkpoint.settings(control.config_for(vocab_size=8, sequence_length=1), export.SPECIAL_IDS)
    except ValueError as error:
        yield f"field 'model': it could not be exported: {error}"


def _english(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Check the English benchmarks, and the curve over snapshots that is measured on them."""
    table = recipe.language_loss
    if table != type(table)() and not recipe.english:
        yield "[language_loss]", "no English benchmark measures it; add one as [english.NAME], or remove the table"
    for name, benchmark in recipe.english.items():
        if name in recipe.finetune:
            yield f"[english.{name}]", f"[finetune.{name}] has this name too; give one of them another, and name its task"
        for seed in table.curve_seeds:
            if seed not in benchmark.grid.seeds:
                there = f"[english.{name}] has no seed {seed}; it has {', '.join(map(str, benchmark.grid.seeds))}"
                yield "[language_loss], field 'curve_seeds'", there
    if table.curve_seeds and not (recipe.phase1.snapshots or recipe.phase2.snapshots):
        yield "[language_loss]", "curve_seeds need snapshots; name steps in snapshots of [phase1] or [phase2]"


def _lengths(recipe: CrossLingualRecipe) -> Iterator[tuple[str, str]]:
    """Check that every model has enough positions for its inputs."""
    controls = {f"control/{name}": control.model.longest_sequence for name, control in recipe.control.items()}
    try:
        source = recipe.positions_of_source()
    except ValueError as error:
        yield "[source], field 'path'", str(error)
        return
    models = {**dict.fromkeys(("source", *recipe.trained), source), **controls}
    rows = recipe.examples.sequence_length
    for model, positions in models.items():
        if positions is not None and rows > positions:
            owner = "the source" if model not in controls else f"[{model.replace('/', '.')}.model]"
            yield "[examples], field 'sequence_length'", f"{rows} exceeds the {positions} positions of {owner}; lower it"
    for name, encoder in recipe.encoder.items():
        try:
            models[f"encoder/{name}"] = encoder.longest_input()
        except ValueError as error:
            yield f"[encoder.{name}]", str(error)
    benchmarks = [(f"[finetune.{name}]", b.first, b.grid.models or recipe.models) for name, b in recipe.finetune.items()]
    benchmarks += [(f"[english.{name}]", b.first, ("source",)) for name, b in recipe.english.items()]
    for where, cell, measured in benchmarks:
        for problem in too_long(cell.max_length, {model: models[model] for model in measured if model in models}):
            yield f"{where}, field 'max_length'", problem
