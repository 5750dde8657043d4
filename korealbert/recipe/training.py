"""Settings of a training that depend on several tables of a recipe: checks between them, and the phase of long rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from korealbert.examples import packing
from korealbert.examples.views import ViewsSpec
from korealbert.huggingface import export
from korealbert.huggingface.modern import CLASSIFIER
from korealbert.model.config import ModernSpec
from korealbert.pretrain.cooccurrence import CooccurrenceSpec
from korealbert.pretrain.rows import model_problems, noise_problems, target_problems
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import frozen_problems
from korealbert.recipe.tables import RecipeError, Tables, merged

LONG_TABLES = ("examples_long", "views_long")
_NOT_IN_LONG_VIEWS: Mapping[str, Collection[str]] = {
    "masking": ("rate_from", "rate_views", "max_predictions"),
    "word_order": ("portion_ramp_views", "ramp_views"),
}
"""Fields of the tables in [views] that [views_long] does not inherit: the slots of a short row, and ramps, which end with the
short rows instead of beginning anew."""


def training_specs(tables: Tables, read: Mapping[str, Any]) -> dict[str, Any]:
    """Return those specs that follow from several tables: ``cooccurrence``, ``examples_long``, ``views_long``.

    ``read`` are the specs of single tables by name. Raises RecipeError if the model could not be trained or exported.
    """
    examples, pretrain = read["examples"], read["pretrain"]
    found: dict[str, Any] = {"cooccurrence": _cooccurrence(tables, read["cooccurrence"], pretrain)}
    _check_model(tables.path, examples, pretrain, read["export"])
    found |= _long_specs(tables, examples, pretrain)
    _check_training(tables.path, {**read, **found})
    return found


def _check_model(path: Path, examples: packing.ExamplesSpec, pretrain: PretrainSpec, written: export.ExportSpec) -> None:
    """Raise RecipeError if [examples] or [export] does not fit [pretrain]."""
    length, model = examples.sequence_length, pretrain.model
    if length > model.longest_sequence:
        offset = getattr(model, "position_offset", 0)  # Modern encoders have none.
        less = f" less position_offset = {offset}" if offset else ""
        raise RecipeError(
            f"{path}: [examples] sequence_length = {length} exceeds [pretrain.model] max_positions = "
            f"{model.max_positions}{less}; shorten the examples or raise max_positions"
        )
    step, snapshots = written.snapshot, list(pretrain.snapshots)
    if step is not None and step not in snapshots:
        raise RecipeError(
            f"{path}, [export]: snapshot = {step} is not among snapshots = {snapshots} of [pretrain]; add it there"
        )
    if not isinstance(model, ModernSpec) and (given := CLASSIFIER.keys() & written.model_fields_set):
        remedy = "is a setting of modern encoders, which [pretrain.model] is not; remove it"
        raise RecipeError(f"{path}, [export]: {min(given)} {remedy}")


def _check_training(path: Path, specs: Mapping[str, Any]) -> None:
    """Raise RecipeError if [pretrain] does not fit its model, or cannot train on the noise of [views] or [views_long]."""
    pretrain: PretrainSpec = specs["pretrain"]
    problems = [*model_problems(pretrain, pretrain.model), *frozen_problems(pretrain, pretrain.shape)]
    for rows, noise in (("examples", "views"), ("examples_long", "views_long")):
        if specs[rows] is not None:
            problems += noise_problems(pretrain, specs[noise], specs[rows].sequence_length)
    problems += target_problems(pretrain, specs["views"], specs["views_long"])
    if problems:
        raise RecipeError("\n".join(f"{path}, [pretrain]: {problem}" for problem in dict.fromkeys(problems)))


def _cooccurrence(tables: Tables, spec: CooccurrenceSpec, pretrain: PretrainSpec) -> CooccurrenceSpec:
    """Set the width to that of the model. Raises RecipeError if the table is given and not used."""
    if "cooccurrence" in tables.tables and pretrain.embeddings == "random":
        remedy = "set embeddings = 'cooccurrence' in [pretrain], or remove the table"
        raise RecipeError(f"{tables.path}, [cooccurrence]: the model's word embeddings are initialised at random; {remedy}")
    return spec.of_width(pretrain.shape.embedding_size)


def _long_specs(tables: Tables, examples: packing.ExamplesSpec, pretrain: PretrainSpec) -> dict[str, Any]:
    """Read the specs of the long rows and their views, whose defaults are the specs of the short ones."""
    given = [name for name in LONG_TABLES if name in tables.tables]
    if pretrain.long is None:
        if given:
            remedy = "set from_step in [pretrain.long], or remove the table"
            raise RecipeError(f"{tables.path}, [{given[0]}]: [pretrain] has no phase of long sequences; {remedy}")
        return dict.fromkeys(LONG_TABLES)
    length, short = pretrain.model.longest_sequence, examples.sequence_length
    # A document gives up to 2 + length / short times as many short rows as long ones. With so many fewer rows, the documents
    # that are held out of the long rows are held out of the short ones too.
    held_out = max(1, examples.heldout_max_rows * short // (length + 2 * short))
    inherited = {**tables.table("examples"), "sequence_length": length, "heldout_max_rows": held_out}
    changed = tables.table("examples_long")
    if length > packing.LONGEST_ROW and "sequence_length" not in changed:
        raise RecipeError(
            f"{tables.path}, [pretrain.long]: by default its rows have all {length} positions of [pretrain.model], but a row "
            f"has at most {packing.LONGEST_ROW} tokens; set sequence_length in [examples_long], or lower max_positions"
        )
    rows = tables.validate(packing.ExamplesSpec, "examples_long", {**inherited, **changed})
    if not short < rows.sequence_length <= length:
        raise RecipeError(
            f"{tables.path}, [examples_long]: sequence_length = {rows.sequence_length} must exceed {short} of [examples], and "
            f"must not exceed the {length} positions of [pretrain.model]"
        )
    noise = merged(_lasting(tables.table("views")), tables.table("views_long"))
    return {"examples_long": rows, "views_long": tables.validate(ViewsSpec, "views_long", noise)}


def _lasting(views: Mapping[str, Any]) -> dict[str, Any]:
    """Return what [views_long] inherits of [views]: all but ``_NOT_IN_LONG_VIEWS``, and an amount that rises is fixed."""
    inherited = dict(views)
    for name, left_out in _NOT_IN_LONG_VIEWS.items():
        if isinstance(table := views.get(name), dict):
            inherited[name] = {key: value for key, value in table.items() if key not in left_out and value != "ramp"}
    return inherited
