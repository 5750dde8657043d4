"""The graph of a cross-lingual recipe."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from korealbert.examples import packing, views
from korealbert.export import stage as export
from korealbert.finetune import distribution, features
from korealbert.finetune import stage as finetune
from korealbert.pretrain import intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import dag
from korealbert.recipe.cross_lingual import PHASES, Cells, CrossLingualRecipe
from korealbert.recipe.dag import Node, Nodes, add_corpus
from korealbert.recipe.finetuning import fetched_files
from korealbert.report.cross_lingual import stage as report
from korealbert.vocab import stage as vocab
from korealbert.xpt import phases, source, split, transfer, vocabulary_swap


def transfer_graph(recipe: CrossLingualRecipe) -> dict[str, Node]:
    """The DAG of a post-training by label, every stage after those it reads.

    ``source`` (below it ``source/…``, where it is another recipe's model), ``split/PART``, ``transfer/VARIANT``,
    ``phase1/VARIANT``, ``phase2/VARIANT``, ``control/NAME``; of every model ``intrinsic/MODEL``, ``export/MODEL``,
    ``finetune/MODEL/BENCHMARK/SEED`` (and the features that seeds share), ``english/MODEL`` (its source's vocabulary put back)
    and ``language_loss/{ko,en}/MODEL/BENCHMARK/SEED``. A MODEL is ``VARIANT/PHASE``, ``control/NAME`` or
    ``source``; a snapshot is
    ``VARIANT/PHASE/STEP``.
    """
    return _Graph(recipe).nodes.by_label


class _Graph:
    def __init__(self, recipe: CrossLingualRecipe) -> None:
        self.recipe, self.nodes = recipe, Nodes()
        self.source = self._source()
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
        for benchmark, cells in recipe.finetune.items():
            for model in cells.models or recipe.models:
                self._finetune(f"finetune/{model}/{benchmark}", benchmark, cells, self.models[model])
                self._distribution(f"{model}/{benchmark}", benchmark, cells)
        self._language_loss()
        self.nodes.add("report", report.STAGE, recipe.report, **{label: label for label in self.nodes.by_label})

    def _source(self) -> str:
        other, inputs = self.recipe.source_recipe, {}
        if other is not None:
            for label, node in dag.until(dag.graph(other), "export").items():
                read = {role: f"source/{name}" for role, name in node.inputs.items()}
                self.nodes.add(f"source/{label}", node.stage, node.spec, **read)
            inputs = {"model": "source/export"}
        return self.nodes.add("source", source.STAGE, self.recipe.source, **inputs)

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
            for phase, phase_spec in zip(PHASES, (recipe.phase1, recipe.phase2), strict=True):
                weights = add(f"{phase}/{name}", phases.STAGE, phase_spec, initial=weights, **self.data)
                self.weights[f"{name}/{phase}"] = weights
        for name, control in recipe.control.items():
            self.weights[f"control/{name}"] = add(f"control/{name}", pretrain.STAGE, control, **self.data)

    def _finetune(self, label: str, benchmark: str, cells: Cells, model: str, seeds: Sequence[int] = ()) -> None:
        first = cells.specs[0]
        inputs = {"model": model, **fetched_files(self.nodes.add, benchmark, first)}
        inputs["features"] = self.nodes.add(f"features/{label}", features.STAGE, first.features(), **inputs)
        for spec in cells.specs:
            if not seeds or spec.seed in seeds:
                self.nodes.add(f"{label}/{spec.seed}", finetune.STAGE, spec, **inputs)

    def _distribution(self, cell: str, benchmark: str, cells: Cells) -> None:
        """What was predicted for each gold label, of the tasks that have a table for it."""
        for spec in cells.specs:
            if spec.task in distribution.TASKS and spec.test is not None:
                where, files = f"{cell}/{spec.seed}", fetched_files(self.nodes.add, benchmark, spec)
                self.nodes.add(f"distribution/{where}", distribution.STAGE, spec, cell=f"finetune/{where}", **files)

    def _language_loss(self) -> None:
        """The matrix {source, vocab-ko, vocab-en} × variants × phases, and the curve over snapshots."""
        recipe, table = self.recipe, self.recipe.language_loss
        if not recipe.english:
            return
        variants = table.variants or tuple(recipe.variants)
        for benchmark, cells in recipe.english.items():
            if table.source:
                self._finetune(f"language_loss/en/source/{benchmark}", f"english/{benchmark}", cells, self.source)
            for variant, phase, words in product(variants, table.phases, table.vocabularies):
                model = f"{variant}/{phase}"
                directory = self.models[model] if words == "ko" else self._english(model, None)
                self._finetune(f"language_loss/{words}/{model}/{benchmark}", f"english/{benchmark}", cells, directory)
            if table.curve_seeds:
                for variant, phase in product(variants, PHASES):
                    for step in (recipe.phase1 if phase == "phase1" else recipe.phase2).snapshots:
                        model = f"{variant}/{phase}"
                        label = f"language_loss/en/{model}/{step}/{benchmark}"
                        directory = self._english(model, step)
                        self._finetune(label, f"english/{benchmark}", cells, directory, table.curve_seeds)

    def _english(self, model: str, step: int | None) -> str:
        label = f"english/{model}" if step is None else f"english/{model}/{step}"
        if label not in self.nodes.by_label:
            spec = vocabulary_swap.SwapSpec(snapshot=step)
            self.nodes.add(label, vocabulary_swap.STAGE, spec, source=self.source, model=self.weights[model])
        return label
