"""The graphs of stages of all kinds of recipes; the first is that of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.corpus import balance, extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.crawl import fetch
from korealbert.corpus.crawl import stage as crawl
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality import stage as quality
from korealbert.examples import packing, views
from korealbert.finetune.encoders import speed as speed_stage
from korealbert.finetune.encoders import stage as encoder_stage
from korealbert.finetune.encoders.speed import SpeedSpec
from korealbert.huggingface import export
from korealbert.huggingface.directory import ModelPlace
from korealbert.pretrain import cooccurrence, intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.recipe import registry
from korealbert.recipe.ablation import Ablation, key_of
from korealbert.recipe.benchmarks import (
    Benchmark,
    Measured,
    add_benchmark,
    add_benchmark_of_encoders,
    add_ensemble,
    add_summary,
    published_scores,
)
from korealbert.recipe.nodes import Node, Nodes, until
from korealbert.recipe.retrieval import add_retrieval
from korealbert.recipe.specs import Corpus, CorpusRecipe, CrossLingualRecipe, Evaluation, Model, Recipe
from korealbert.recipe.tables import RecipeError
from korealbert.report import stage as report
from korealbert.vocab import sizes
from korealbert.vocab import stage as vocab
from korealbert.xpt import kept_tokenizer, phases, split, transfer, vocabulary_swap
from korealbert.xpt import source as xpt_source
from korealbert.xpt.kept_tokenizer import TokenizerSpec
from korealbert.xpt.phases import PHASES, Phase, PhaseSpec


def graph(recipe: Recipe) -> dict[str, Node]:
    """Return the DAG of a recipe by label, every stage after its inputs."""
    nodes = Nodes()
    add = nodes.add
    corpus = _add_corpus(nodes, recipe)
    vocabulary = _add_vocabulary(nodes, corpus, recipe.vocab, recipe.vocab_sizes)
    rows = add("examples", packing.STAGE, recipe.examples, documents=corpus, vocab=vocabulary)
    noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=vocabulary)
    training = {"vocab": vocabulary, "examples": rows, "views": noise}
    if recipe.pretrain.embeddings == "cooccurrence":
        training["cooccurrence"] = add("cooccurrence", cooccurrence.STAGE, recipe.cooccurrence, examples=rows)
    if recipe.examples_long is not None and recipe.views_long is not None:
        rows = add("examples/long", packing.STAGE, recipe.examples_long, documents=corpus, vocab=vocabulary)
        noise = add("views/long", views.STAGE, recipe.views_long, examples=rows, vocab=vocabulary)
        training |= {"examples_long": rows, "views_long": noise}
    weights = add("pretrain", pretrain.STAGE, recipe.pretrain, **training)
    written = add("export", export.STAGE, recipe.export, pretrain=weights, vocab=vocabulary)
    model = Measured.of(written, weights, recipe.pretrain.shape)
    others = _add_encoders(nodes, recipe.encoder)
    for name, benchmark in recipe.finetune.items():
        finished = add_benchmark(nodes, name, benchmark, model)
        if (pretrained := benchmark.only(inits=["pretrained"])) is not None:
            finished |= add_benchmark_of_encoders(nodes, name, pretrained, others)
        add_summary(nodes, name, benchmark, finished)
    add_retrieval(nodes, recipe.retrieval, model, others)
    _add_further(nodes, recipe.further)
    _add_report(nodes, recipe.speed, recipe.report, recipe.finetune)
    return nodes.by_label


def corpus_graph(recipe: Corpus) -> dict[str, Node]:
    """Return the DAG of a corpus alone by label, every stage after its inputs."""
    nodes = Nodes()
    corpus = _add_corpus(nodes, recipe)
    if recipe.vocab is not None:
        _add_vocabulary(nodes, corpus, recipe.vocab, recipe.vocab_sizes)
    _add_further(nodes, recipe.further)
    nodes.add("report", registry.REPORT, recipe.report, **{label: label for label in nodes.by_label})
    return nodes.by_label


def _add_vocabulary(nodes: Nodes, corpus: str, spec: vocab.VocabSpec, compared: sizes.VocabSizesSpec) -> str:
    vocabulary = nodes.add("vocab", vocab.STAGE, spec, documents=corpus)
    if compared.sizes:
        nodes.add("vocab_sizes", sizes.STAGE, compared, documents=corpus, vocab=vocabulary)
    return vocabulary


def evaluation_graph(recipe: Evaluation) -> dict[str, Node]:
    """Return the DAG of an evaluation by label, every stage after its inputs."""
    nodes = Nodes()
    encoders = _add_encoders(nodes, recipe.encoder)
    for name, benchmark in recipe.finetune.items():
        add_summary(nodes, name, benchmark, add_benchmark_of_encoders(nodes, name, benchmark, encoders))
    add_retrieval(nodes, recipe.retrieval, None, encoders)
    _add_report(nodes, recipe.speed, recipe.report, recipe.finetune)
    return nodes.by_label


def _add_corpus(nodes: Nodes, recipe: CorpusRecipe) -> str:
    """Add the stages from raw text to one balanced corpus; return the label of the last."""
    cleaned = {}
    for source, spec in recipe.extract.items():
        inputs = {}
        if source in recipe.crawl:
            inputs["crawl"] = nodes.add(f"crawl/{source}", crawl.STAGE, recipe.crawl[source])
        if source in recipe.fetch:
            inputs["fetch"] = nodes.add(f"fetch/{source}", fetch.STAGE, recipe.fetch[source])
        documents = nodes.add(f"extract/{source}", extract.STAGE, spec, **inputs)
        cleaned[source] = nodes.add(f"clean/{source}", clean.STAGE, recipe.clean[source], documents=documents)
    unique = nodes.add("dedup", dedup.STAGE, recipe.dedup, **cleaned)
    if recipe.quality is not None:
        unique = nodes.add("quality", quality.STAGE, recipe.quality, documents=unique)
    return nodes.add("balance", balance.STAGE, recipe.balance, documents=unique)


def _add_encoders(nodes: Nodes, encoders: Mapping[str, Model]) -> dict[str, Measured]:
    """Add the stages that check encoders made elsewhere; return their labels by name."""
    found = {}
    for name, model in encoders.items():
        found[name] = measured = _measured(f"encoder/{name}", model)
        _add_model(nodes, measured.model, encoder_stage.STAGE, model, pretrain=measured.pretrain)
    return found


def _measured(label: str, model: Model) -> Measured:
    """Return the labels of a model whose stage has this label."""
    produced = model.produced
    return Measured.of(
        label, f"{label}/{produced.training if produced else ''}", produced.shape if produced else None, model.place
    )


def _add_model(nodes: Nodes, label: str, stage: Stage[ModelPlace], model: Model, *, pretrain: str | None = None) -> str:
    """Add the stage that checks a model, and below its label the stages of the recipe that makes it; return the label.

    ``pretrain`` is the label of the one of those stages that becomes a second input.
    """
    inputs = {} if pretrain is None else {"pretrain": pretrain}
    if model.recipe is not None and model.produced is not None:
        whole = graph(model.recipe) if isinstance(model.recipe, Recipe) else transfer_graph(model.recipe)
        for name, node in until(whole, model.produced.export).items():
            read = {role: f"{label}/{other}" for role, other in node.inputs.items()}
            inputs["model"] = nodes.add(f"{label}/{name}", node.stage, node.spec, **read)
    return nodes.add(label, stage, model.place, **inputs)


def _add_further(nodes: Nodes, further: Mapping[str, Spec]) -> None:
    """Add registered stages that this file does not name, given by table, with the inputs that they declare.

    Raises RecipeError if the recipe does not make one of these inputs.
    """
    for table, spec in further.items():
        stage = registry.tables()[table]
        for label in stage.inputs.values():
            if label not in nodes.by_label:
                raise RecipeError(f"[{table}]: it reads {label!r}, which this recipe does not make; remove the table")
        nodes.add(stage.label, stage, spec, **stage.inputs)


def _add_report(nodes: Nodes, speed: SpeedSpec, spec: report.ReportSpec, benchmarks: Mapping[str, Benchmark[Any]]) -> None:
    """Add the report of all stages, and the speed of architectures if any are named."""
    spec = spec.model_copy(update={"published_scores": (*spec.published_scores, *published_scores(benchmarks))})
    if speed.architectures:
        nodes.add("speed", speed_stage.STAGE, speed)
    nodes.add("report", registry.REPORT, spec, **{label: label for label in nodes.by_label})


def transfer_graph(recipe: CrossLingualRecipe) -> dict[str, Node]:
    """Return the DAG of a post-training by label, every stage after its inputs.

    Its labels are ``source`` (with ``source/…`` if another recipe makes it), ``split/PART``, ``transfer/VARIANT``,
    ``phase1/VARIANT``, ``phase2/VARIANT`` and ``control/NAME``; for each model ``intrinsic/MODEL``, ``export/MODEL``,
    ``english/MODEL`` (the model with the vocabulary of its source), ``features/MODEL/BENCHMARK`` and
    ``finetune/MODEL/BENCHMARK/pretrained/SEED``; for each benchmark ``summary/BENCHMARK``. A MODEL is ``VARIANT/PHASE``,
    ``control/NAME``, ``encoder/NAME`` or ``source``, a snapshot ``VARIANT/PHASE/STEP``. On English benchmarks its name is
    ``language_loss/ko/MODEL`` or, with the vocabulary of its source, ``language_loss/en/MODEL``.
    """
    return _TransferGraph(recipe).nodes.by_label


class _TransferGraph:
    def __init__(self, recipe: CrossLingualRecipe) -> None:
        self.recipe, self.nodes = recipe, Nodes()
        self.source = _add_model(self.nodes, "source", xpt_source.STAGE, recipe.source)
        self.data, self.test = self._data(_add_corpus(self.nodes, recipe))
        self.weights: dict[str, str] = {}
        self.models = {"source": _measured(self.source, recipe.source)}
        """Measured models, by name."""
        self._train()
        for model, weights in self.weights.items():
            scored = {"pretrain": weights, **self.test}
            self.nodes.add(f"intrinsic/{model}", intrinsic.STAGE, intrinsic.IntrinsicSpec(), **scored)
            spec = recipe.export if model.startswith("control/") else recipe.export_of_variants
            written = self.nodes.add(f"export/{model}", export.STAGE, spec, pretrain=weights, vocab=self.data["vocab"])
            self.models[model] = Measured.of(written, weights, recipe.produced(model).shape)
        self.models |= {measured.model: measured for measured in _add_encoders(self.nodes, recipe.encoder).values()}
        for name, benchmark in recipe.finetune.items():
            models = {model: self.models[model] for model in benchmark.grid.models or recipe.models}
            add_summary(self.nodes, name, benchmark, add_benchmark_of_encoders(self.nodes, name, benchmark, models))
        self._language_loss()
        self.nodes.add("report", registry.CROSS_LINGUAL, recipe.report, **{label: label for label in self.nodes.by_label})

    def _data(self, corpus: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the inputs of training, with the valid part held out, and the test data."""
        recipe, table, add = self.recipe, self.recipe.split, self.nodes.add
        train_spec = table.part("train", train_sentences=table.train_sentences)
        train = add("split/train", split.STAGE, train_spec, documents=corpus)
        valid = add("split/valid", split.STAGE, table.part("valid"), documents=corpus)
        test = add("split/test", split.STAGE, table.part("test"), documents=corpus)
        learnt_from = train
        if table.vocabulary_sentences not in (None, table.train_sentences):
            spec = table.part("train", train_sentences=table.vocabulary_sentences)
            learnt_from = add("split/vocabulary", split.STAGE, spec, documents=corpus)
        if isinstance(recipe.vocab, TokenizerSpec):
            words = add("vocab", kept_tokenizer.STAGE, recipe.vocab, source=self.source, documents=train)
        else:
            words = add("vocab", vocab.STAGE, recipe.vocab, documents=learnt_from)
        rows = add("examples", packing.STAGE, recipe.examples, documents=train, heldout=valid, vocab=words)
        noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=words)
        # The stage needs rows to train on. These, of the valid part, are never used.
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
            initial = {}
            if control.embeddings == "cooccurrence":
                vectors = cooccurrence.CooccurrenceSpec().of_width(control.shape.embedding_size)
                initial["cooccurrence"] = add(
                    f"cooccurrence/{name}", cooccurrence.STAGE, vectors, examples=self.data["examples"]
                )
            self.weights[f"control/{name}"] = add(f"control/{name}", pretrain.STAGE, control, **self.data, **initial)

    def _language_loss(self) -> None:
        """Add the matrix {source, vocab-ko, vocab-en} × variants × phases with its summaries, and the curve over snapshots."""
        curve_seeds = self.recipe.language_loss.curve_seeds
        for name, benchmark in self.recipe.english.items():
            finished = add_benchmark_of_encoders(self.nodes, name, benchmark, dict(self._matrix()))
            add_summary(self.nodes, name, benchmark, finished)
            if curve := benchmark.only(seeds=curve_seeds):
                add_benchmark_of_encoders(self.nodes, name, curve, dict(self._snapshots()))

    def _matrix(self) -> Iterator[tuple[str, Measured]]:
        """Yield the models of the matrix by name."""
        table = self.recipe.language_loss
        if table.source:
            yield "language_loss/en/source", self.models["source"]
        for variant, phase, words in product(self._variants(), table.phases, table.vocabularies):
            model = f"{variant}/{phase}"
            yield f"language_loss/{words}/{model}", self.models[model] if words == "ko" else self._english(model, None)

    def _snapshots(self) -> Iterator[tuple[str, Measured]]:
        """Yield the snapshots, each with the vocabulary of its source, by name."""
        for variant, (phase, spec) in product(self._variants(), self._phases()):
            for step in spec.snapshots:
                yield f"language_loss/en/{variant}/{phase}/{step}", self._english(f"{variant}/{phase}", step)

    def _variants(self) -> Sequence[str]:
        return self.recipe.language_loss.variants or tuple(self.recipe.variants)

    def _phases(self) -> list[tuple[Phase, PhaseSpec]]:
        return list(zip(PHASES, (self.recipe.phase1, self.recipe.phase2), strict=True))

    def _english(self, model: str, step: int | None) -> Measured:
        label = f"english/{model}" if step is None else f"english/{model}/{step}"
        if label not in self.nodes.by_label:
            spec = vocabulary_swap.SwapSpec(snapshot=step)
            self.nodes.add(label, vocabulary_swap.STAGE, spec, source=self.source, model=self.weights[model])
        return self.models[model]._replace(model=label)


def ablation_graph(ablation: Ablation) -> dict[str, Node]:
    """Return the DAG of an ablation by label, every stage after its inputs. Raises RecipeError if two cells are equal.

    Stages before pretraining keep their labels if all cells have them in common (``vocab``); otherwise the name of the first
    cell that needs them is appended (``views/wop30``). Those of a cell are ``pretrain/CELL/SEED``,
    ``intrinsic/CELL/SEED/NOISE``, ``export/CELL/SEED``, ``features/CELL/SEED/BENCHMARK`` and
    ``finetune/CELL/SEED/BENCHMARK/INIT/SEED``. Ensembles are ``ensemble/CELL/BENCHMARK``. The last stage is ``ablation``.
    """
    return _AblationGraph(ablation).nodes.by_label


class _AblationGraph:
    def __init__(self, ablation: Ablation) -> None:
        self.ablation, self.nodes = ablation, _UniqueNodes()
        self.data = _data_stages(ablation, self.nodes)
        """Labels of the inputs of pretraining, by cell and role."""
        self.first = self.data[next(iter(ablation.cells))]
        self.noises = {name: self._add_noise(name, recipe) for name, recipe in ablation.noise.items()}
        corpus = {label: label for label in self.nodes.by_label}
        self.rows = {key_of(cell.label): cell for cell in ablation.spec.grid}
        scored = [(column.benchmark, column.init) for column in ablation.report.columns if column.benchmark]
        self.inits = {name: {init for other, init in scored if other == name} for name, _ in scored}
        """Initial weights that the columns compare, by benchmark."""
        self.in_ensembles = {key_of(label) for row in self.rows.values() for label in row.ensemble}
        self.runs: dict[str, str] = {}
        """Labels of stages by the label that each would have if cells shared none."""
        self.tuned: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        """Labels of the pretrained fine-tuning runs of each cell and benchmark, by CELL/SEED/pretrained/SEED."""
        for cell, seed in product(ablation.cells, ablation.spec.seeds):
            weights = self._pretrain(cell, seed)
            self._score_heldout(cell, seed, weights)
            self._finetune(cell, seed, weights)
        for key in self.rows:
            self._add_ensembles(key)
        _refuse_twins(ablation, self.runs)
        self.nodes.add("ablation", registry.ABLATION, ablation.report, **corpus, **self.runs)

    def _add_noise(self, name: str, recipe: Recipe) -> str:
        rows, words = self.first["examples"], self.first["vocab"]
        return self.nodes.add(f"views/noise-{name}", views.STAGE, recipe.views, examples=rows, vocab=words)

    def _pretrain(self, cell: str, seed: int) -> str:
        """Add the training of a cell; return the label of its weights."""
        row, inputs = self.rows[cell], dict(self.data[cell])
        if row.starts_from:
            start = key_of(row.starts_from)
            if inputs["vocab"] != self.data[start]["vocab"]:
                raise RecipeError(
                    f"{self.ablation.name}: cell {row.label!r} starts from {row.starts_from!r}, whose vocabulary is another; "
                    "their word embeddings mean other pieces: add vocab to `shared`, or start from a cell of the same text"
                )
            inputs["initial"] = self.runs[f"pretrain/{start}/{seed}"]
        spec = self.ablation.cells[cell].pretrain.model_copy(update={"seed": seed})
        return self._run(f"pretrain/{cell}/{seed}", pretrain.STAGE, spec, **inputs)

    def _score_heldout(self, cell: str, seed: int, weights: str) -> None:
        """Score a training on the held-out rows under every noise. Layers are scored under the first noise alone."""
        snapshot = self.ablation.cells[cell].export.snapshot
        for index, (name, noise) in enumerate(self.noises.items()):
            spec = intrinsic.IntrinsicSpec(snapshot=snapshot, layers=self.ablation.spec.layers and index == 0)
            inputs = {"pretrain": weights, "examples": self.first["examples"], "views": noise}
            self._run(f"intrinsic/{cell}/{seed}/{name}", intrinsic.STAGE, spec, **inputs)

    def _finetune(self, cell: str, seed: int, weights: str) -> None:
        """Fine-tune a training on the benchmarks of the columns, and the first one of each cell also from random weights."""
        recipe, own = self.ablation.cells[cell], f"{cell}/{seed}"
        first = seed == self.ablation.spec.seeds[0]
        inits = {name: inits if first else inits - {"random"} for name, inits in self.inits.items()}
        measured = ((name, grid.only(inits=inits[name])) for name, grid in recipe.finetune.items() if name in inits)
        benchmarks = {name: benchmark for name, benchmark in measured if benchmark is not None}
        if not benchmarks:
            return
        written = self._run(f"export/{own}", export.STAGE, recipe.export, pretrain=weights, vocab=self.data[cell]["vocab"])
        model = Measured.of(written, weights, recipe.pretrain.shape)
        for name, benchmark in benchmarks.items():
            cells = benchmark.with_evidence() if cell in self.in_ensembles else benchmark
            for run, label in add_benchmark(self.nodes, name, cells, model, root=f"{own}/").items():
                self.runs[f"finetune/{own}/{name}/{run}"] = label
                if run.startswith("pretrained/"):
                    self.tuned[cell, name][f"{own}/{run}"] = label

    def _add_ensembles(self, key: str) -> None:
        """Add the ensemble of a row on every benchmark, if it is one."""
        row = self.rows[key]
        parts = [key_of(label) for label in row.ensemble]
        for name in sorted(self.inits) if parts else ():
            members = {role: label for part in parts for role, label in self.tuned[part, name].items()}
            benchmark, label = self.ablation.cells[parts[0]].finetune[name], f"ensemble/{key}/{name}"
            self.runs[label] = add_ensemble(self.nodes, label, name, benchmark, members, row.members)

    def _run(self, label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        """Add a stage of one cell; return its label, which is another cell's if the two stages are equal."""
        self.runs[label] = self.nodes.add(label, stage, spec, **inputs)
        return self.runs[label]


def _refuse_twins(ablation: Ablation, runs: Mapping[str, str]) -> None:
    """Raise RecipeError if two cells have all stages in common, so that their labels claim a difference that is not there."""
    known: dict[frozenset[str], str] = {}
    for cell in ablation.spec.grid:
        key = key_of(cell.label)
        built = frozenset(label for run, label in runs.items() if run.split("/")[1] == key)
        twin = known.setdefault(built, cell.label)
        if twin != cell.label:
            raise RecipeError(
                f"{ablation.name}: cells {twin!r} and {cell.label!r} are one training, scored alike: what they set makes no "
                "difference; correct `set`, or remove one"
            )


def _data_stages(ablation: Ablation, nodes: _UniqueNodes) -> dict[str, dict[str, str]]:
    """Add all inputs of pretraining of every cell; return their labels by cell and role."""
    graphs = {cell: graph(recipe) for cell, recipe in ablation.cells.items()}
    first = next(iter(graphs))

    def whose(cell: str, label: str) -> str:
        return first if label in ablation.spec.shared else cell

    @cache
    def content(cell: str, label: str) -> tuple[object, ...]:
        node = graphs[whose(cell, label)][label]
        inputs = tuple((role, content(whose(cell, label), other)) for role, other in node.inputs.items())
        return node.stage.name, node.spec.model_dump_json(), inputs

    @cache
    def place(cell: str, label: str) -> str:
        owner = whose(cell, label)
        node = graphs[owner][label]
        inputs = {role: place(owner, other) for role, other in node.inputs.items()}
        alike = all(label in own and content(each, label) == content(first, label) for each, own in graphs.items())
        return nodes.add(label if alike else f"{label}/{owner}", node.stage, node.spec, **inputs)

    if ablation.noise and len({content(cell, own["examples"].inputs["documents"]) for cell, own in graphs.items()}) > 1:
        # All cells are scored on the held-out rows of the first one, so no cell may train on these documents.
        for own in graphs.values():
            read = own["pretrain"].inputs
            own |= {read[role]: _without_rest(own[read[role]]) for role in ("examples", "examples_long") if role in read}
    return {cell: {role: place(cell, label) for role, label in own["pretrain"].inputs.items()} for cell, own in graphs.items()}


def _without_rest(node: Node) -> Node:
    """Change a stage of rows so that no part of a held-out document is trained on."""
    assert isinstance(node.spec, packing.ExamplesSpec)
    return replace(node, spec=node.spec.model_copy(update={"heldout_rest": "unused"})) if node.spec.heldout_share else node


class _UniqueNodes(Nodes):
    """Merges the nodes of many graphs, equal ones as one."""

    def __init__(self) -> None:
        super().__init__()
        self._labels: dict[tuple[object, ...], str] = {}

    def add(self, label: str, stage: Stage[Any], spec: Spec, /, **inputs: str) -> str:
        """Add a stage unless there is one with its spec and inputs; return the label of either."""
        content = (stage.name, spec.model_dump_json(), *inputs.items())
        if content not in self._labels:
            self._labels[content] = super().add(label, stage, spec, **inputs)
        return self._labels[content]
