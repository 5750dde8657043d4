"""Stage `vocab_sizes`: vocabularies of other sizes and kinds, trained on one sample, to choose the vocabulary's size.

Inputs: roles ``documents`` and ``vocab``, whose spec gives everything except size and kind. Output:
``<kind>-<size>/spiece.model``; the statistics say how they encode text. No other stage depends on this one, so adding a size
retrains no model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from korealbert.artifact import Deployment, Inputs, Progress, Runtime, Spec, Stage, Statistics
from korealbert.artifact.shards import map_shards
from korealbert.vocab.stage import (
    VocabSpec,
    VocabularyFacts,
    train_model,
    training_sample,
    training_text,
    vocabulary_facts,
    write_vocabulary,
)
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, Vocabulary


class VocabSizesSpec(Spec):
    """Which vocabularies to compare; without sizes, none."""

    sizes: tuple[int, ...] = ()
    """Numbers of pieces, in addition to that of the run's vocabulary."""
    model_types: tuple[Literal["unigram", "bpe"], ...] = ("unigram", "bpe")
    """Each of them is trained with every size."""
    sample_characters: int = Field(default=30_000_000, ge=1)
    """Maximum of characters to train on, unless the vocabulary itself takes fewer: some minutes per size."""

    @model_validator(mode="after")
    def _each_once(self) -> VocabSizesSpec:
        for field, values in (("sizes", self.sizes), ("model_types", self.model_types)):
            if len(set(values)) < len(values):
                raise ValueError(f"{field} = {list(values)}: one is named twice; name each once")
        if not self.model_types:
            raise ValueError("model_types is empty; name unigram, bpe, or both")
        for size in self.sizes:
            if not FIRST_ORDINARY_ID + 3 <= size <= 1 << 20:
                raise ValueError(f"sizes: {size} is not between {FIRST_ORDINARY_ID + 3} and {1 << 20}")
        return self


@dataclass(frozen=True)
class _Trial:
    """A vocabulary to train."""

    spec: VocabSpec
    sentences: list[str]
    text: list[str]
    """The sentences as ``train_model`` takes them."""


class TrialFacts(VocabularyFacts):
    """How one of the vocabularies encodes text."""

    model_type: Literal["unigram", "bpe"]


class _Chosen(Statistics):
    """Kind and size of the run's vocabulary."""

    model_type: Literal["unigram", "bpe"]
    pieces: int


class VocabSizesStats(Statistics):
    """All vocabularies, measured on one sample."""

    vocabularies: list[TrialFacts]
    chosen: _Chosen
    sampled_sentences: int
    sampled_characters: int
    sampled_by_source: dict[str, int] = Field(default_factory=dict)
    sentences: int | None = None
    too_long_sentences: int = 0


def run(spec: VocabSizesSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> VocabSizesStats:
    """Train them one after the other. Raises ValueError naming the size if the corpus cannot give one."""
    chosen = VocabSpec.model_validate_json(json.dumps(inputs["vocab"].manifest["spec"]))
    drawn = chosen.model_copy(update={"sample_characters": min(chosen.sample_characters, spec.sample_characters)})
    sample = training_sample(drawn, inputs["documents"], out_dir, runtime)
    text = training_text(drawn, sample.sentences, out_dir, runtime)
    trials = [
        _Trial(drawn.model_copy(update={"size": size, "model_type": kind}), sample.sentences, text)
        for kind in spec.model_types
        for size in sorted({*spec.sizes, chosen.size})
    ]
    # One at a time: SentencePiece itself uses all cores, and each training needs the whole sample in memory.
    alone = runtime.model_copy(update={"workers": 1})
    facts = map_shards(_train, trials, out_dir=out_dir, runtime=alone, step="train")
    runtime.report(Progress(len(trials), len(trials), "vocabularies"))
    # It may have fewer pieces than were asked for (`at_most`), and is trained here only if its kind is asked for.
    pieces = {(trial.spec.model_type, trial.spec.size): fact["pieces"] for trial, fact in zip(trials, facts, strict=True)}
    own = pieces.get((chosen.model_type, chosen.size), inputs["vocab"].stats["pieces"])
    described = {"model_type": chosen.model_type, "pieces": own}
    return VocabSizesStats.of({"vocabularies": facts, "chosen": described, **sample.counts})


def _train(trial: _Trial, index: int, out_dir: Path) -> dict[str, Any]:
    directory = out_dir / f"{trial.spec.model_type}-{trial.spec.size}"
    directory.mkdir(exist_ok=True)
    try:
        model = train_model(trial.spec, trial.text)
    except ValueError as error:
        raise ValueError(f"vocab_sizes.sizes, {trial.spec.model_type} of {trial.spec.size:,}: {error}") from error
    write_vocabulary(trial.spec, model, directory)
    return {"model_type": trial.spec.model_type, **vocabulary_facts(Vocabulary.load(directory), trial.sentences).facts()}


STAGE = Stage(
    "vocab_sizes",
    version=3,
    spec=VocabSizesSpec,
    run=run,
    table="vocab_sizes",
    inputs={"documents": "balance", "vocab": "vocab"},
    deployment=Deployment("Compare vocabularies of other sizes", recipe="korealbert-web"),
)
