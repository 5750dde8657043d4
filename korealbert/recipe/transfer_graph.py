"""The graph of a cross-lingual recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from korealbert.examples import packing, views
from korealbert.huggingface import export
from korealbert.pretrain import intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import dag, finetuning
from korealbert.recipe.cross_lingual import CrossLingualRecipe
from korealbert.recipe.dag import Node, Nodes, add_corpus
from korealbert.report.cross_lingual import stage as report
from korealbert.vocab import stage as vocab
from korealbert.xpt import phases, source, split, transfer, vocabulary_swap
from korealbert.xpt.phases import PHASES, Phase, PhaseSpec


def transfer_graph(recipe: CrossLingualRecipe) -> dict[str, Node]:
    """The DAG of a post-training by label, every stage after those it reads.

    ``source`` (below it ``source/…``, where it is another recipe's model), ``split/PART``, ``transfer/VARIANT``,
    ``phase1/VARIANT``, ``phase2/VARIANT``, ``control/NAME``; of every model ``intrinsic/MODEL``, ``export/MODEL``,
    ``english/MODEL`` (its source's vocabulary put back), ``features/MODEL/BENCHMARK`` and
    ``finetune/MODEL/BENCHMARK/pretrained/SEED``; of every benchmark ``summary/BENCHMARK``. A MODEL is ``VARIANT/PHASE``,
    ``control/NAME`` or ``source``; a snapshot is ``VARIANT/PHASE/STEP``. On English benchmarks it is named
    ``language_loss/{ko,en}/MODEL``, by whose vocabulary it has.
    """
    return _Graph(recipe).nodes.by_label


class _Graph:
    def __init__(self, recipe: CrossLingualRecipe) -> None:
        self.recipe, self.nodes = recipe, Nodes()
        self.source = dag.add_model(self.nodes, "source", source.STAGE, recipe.source)
        self.data, self.test = self._data(add_corpus(self.nodes, recipe))
        self.weights: dict[str, str] = {}
        self.models = {"source": self.source}
        """Labels of directories in Hugging Face format, by model."""
        self._train()
        for model, weights in self.weights.items():
            scored = {"pretrain": weights, **self.test}
            self.nodes.add(f"intrinsic/{model}", intrinsic.STAGE, intrinsic.IntrinsicSpec(), **scored)
            self.models[model] = self.nodes.add(
                f"export/{model}", export.STAGE, recipe.export, pretrain=weights, vocab=self.data["vocab"]
            )
        add = self.nodes.add
        for name, benchmark in recipe.finetune.items():
            models = {model: self.models[model] for model in benchmark.grid.models or recipe.models}
            finetuning.add_summary(add, name, benchmark, finetuning.add_encoders(add, name, benchmark, models))
        self._language_loss()
        self.nodes.add("report", report.STAGE, recipe.report, **{label: label for label in self.nodes.by_label})

    def _data(self, corpus: str) -> tuple[dict[str, str], dict[str, str]]:
        """What training reads, with the valid part held out; and what models are tested on at the end."""
        recipe, table, add = self.recipe, self.recipe.split, self.nodes.add
        train_spec = table.part("train", train_sentences=table.train_sentences)
        train = add("split/train", split.STAGE, train_spec, documents=corpus)
        valid = add("split/valid", split.STAGE, table.part("valid"), documents=corpus)
        test = add("split/test", split.STAGE, table.part("test"), documents=corpus)
        learnt_from = train
        if table.vocabulary_sentences not in (None, table.train_sentences):
            spec = table.part("train", train_sentences=table.vocabulary_sentences)
            learnt_from = add("split/vocabulary", split.STAGE, spec, documents=corpus)
        words = add("vocab", vocab.STAGE, recipe.vocab, documents=learnt_from)
        rows = add("examples", packing.STAGE, recipe.examples, documents=train, heldout=valid, vocab=words)
        noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=words)
        # Rows want something to train on: here the valid part, which nobody reads.
        test_rows = add("examples/test", packing.STAGE, recipe.examples, documents=valid, heldout=test, vocab=words)
        one_view = recipe.views.model_copy(update={"views": 1})
        test_noise = add("views/test", views.STAGE, one_view, examples=test_rows, vocab=words)
        return {"vocab": words, "examples": rows, "views": noise}, {"examples": test_rows, "views": test_noise}

    def _train(self) -> None:
        recipe, add = self.recipe, self.nodes.add
        for name, spec in recipe.variants.items():
            weights = add(f"transfer/{name}", transfer.STAGE, spec, source=self.source, vocab=self.data["vocab"])
            for phase, phase_spec in self._phases():
                weights = add(f"{phase}/{name}", phases.STAGE, phase_spec, initial=weights, **self.data)
                self.weights[f"{name}/{phase}"] = weights
        for name, control in recipe.control.items():
            self.weights[f"control/{name}"] = add(f"control/{name}", pretrain.STAGE, control, **self.data)

    def _language_loss(self) -> None:
        """The matrix {source, vocab-ko, vocab-en} × variants × phases, compared in summaries, and the curve over snapshots."""
        add, curve_seeds = self.nodes.add, self.recipe.language_loss.curve_seeds
        for name, benchmark in self.recipe.english.items():
            finished = finetuning.add_encoders(add, name, benchmark, dict(self._matrix()))
            finetuning.add_summary(add, name, benchmark, finished)
            if curve := benchmark.only(seeds=curve_seeds):
                finetuning.add_encoders(add, name, curve, dict(self._snapshots()))

    def _matrix(self) -> Iterator[tuple[str, str]]:
        """Names and labels of the models that read English."""
        table = self.recipe.language_loss
        if table.source:
            yield "language_loss/en/source", self.source
        for variant, phase, words in product(self._variants(), table.phases, table.vocabularies):
            model = f"{variant}/{phase}"
            yield f"language_loss/{words}/{model}", self.models[model] if words == "ko" else self._english(model, None)

    def _snapshots(self) -> Iterator[tuple[str, str]]:
        """Names and labels of the models along the way, with their source's vocabulary put back."""
        for variant, (phase, spec) in product(self._variants(), self._phases()):
            for step in spec.snapshots:
                yield f"language_loss/en/{variant}/{phase}/{step}", self._english(f"{variant}/{phase}", step)

    def _variants(self) -> Sequence[str]:
        return self.recipe.language_loss.variants or tuple(self.recipe.variants)

    def _phases(self) -> list[tuple[Phase, PhaseSpec]]:
        return list(zip(PHASES, (self.recipe.phase1, self.recipe.phase2), strict=True))

    def _english(self, model: str, step: int | None) -> str:
        label = f"english/{model}" if step is None else f"english/{model}/{step}"
        if label not in self.nodes.by_label:
            spec = vocabulary_swap.SwapSpec(snapshot=step)
            self.nodes.add(label, vocabulary_swap.STAGE, spec, source=self.source, model=self.weights[model])
        return label
