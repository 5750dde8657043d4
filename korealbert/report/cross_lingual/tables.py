"""Chameleon's tables with our rows below the printed ones."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import product

from korealbert.finetune import tasks
from korealbert.finetune.scores.analysis import Distribution
from korealbert.formatting import MISSING, by_number, count, fixed, percent
from korealbert.pretrain.intrinsic import IntrinsicStats
from korealbert.pretrain.stage import PretrainStats
from korealbert.report.cross_lingual import printed
from korealbert.report.cross_lingual.models import ENCODER, PHASE_TITLES, Results, distributions, mean, shown
from korealbert.report.cross_lingual.printed import GLUE, KLUE, Column
from korealbert.report.render.blocks import Block, Section, Table, Text
from korealbert.report.sections.benchmarks import about_undefined, paired_differences
from korealbert.xpt.phases import PHASES

_COMPARED = (
    "Printed rows are as in the paper. Rows of this run are marked and have means over seeds with standard deviations. Models "
    "differ in size, corpus and budget."
)

_DISTRIBUTIONS = {
    "klue_sts": (8, "STS predictions by gold label; 1: paraphrase (3 or more of 5)"),
    "klue_ner": (9, "NER predictions by gold label, in characters without spaces"),
    "klue_re": (10, "RE predictions by gold label"),
}
_MAX_LABELS = 8


def korean(results: Results) -> Section | None:
    """Show all Korean benchmarks, tables 1 to 3, and KLUE-RE of the Korean paper."""
    if not results.models:
        return None
    blocks: list[Block] = [Text(_COMPARED), _every_benchmark(results)]
    controls = [model for model in results.models if model.startswith("control/")]
    random = [name for name in results.variants if results.transfer_of(name)["encoder"] == "random"]
    transferred = [name for name in results.variants if name not in random]
    others = [model for model in results.models if model.startswith(ENCODER)]
    blocks += [
        _klue(1, "Table 1: KLUE dev", results, [*_models(transferred), *others]),
        _klue(2, "Table 2: models from scratch on the same text", results, controls),
        _klue(3, "Table 3: a source encoder of random weights", results, _models([*transferred, *random])),
    ]
    scored = [(model, shown(results.values(model, "klue_re", "micro_f1"))) for model in results.models]
    rows = [*printed.klue_re(), *((results.title(model), value) for model, value in scored if value != MISSING)]
    blocks.append(_marked("KLUE-RE of the Korean XPT paper, micro F1", ["Model", "F1"], rows, len(printed.klue_re())))
    blocks += _compared(results, english=False)
    return Section("korean", "Korean benchmarks", blocks)


def _models(variants: Iterable[str]) -> list[str]:
    return [f"{variant}/{phase}" for variant, phase in product(variants, PHASES)]


def _every_benchmark(results: Results) -> Table:
    own = dict(reversed(results.korean_benchmarks))
    columns = [(benchmark, own[benchmark]) for benchmark in dict.fromkeys(name for name, _ in results.korean_benchmarks)]
    rows = [
        [results.title(model), *(shown(results.of_benchmark(model, *column)) for column in columns)] for model in results.models
    ]
    header = ["Model", *(f"{benchmark} {metric.replace('_', ' ')}" for benchmark, metric in columns)]
    return Table("This run: every model on every Korean benchmark", header, rows, frozenset(range(1, len(header))))


def _klue(number: int, title: str, results: Results, models: Sequence[str]) -> Table:
    rows = [[model, *values] for model, values in printed.rows(number, KLUE).items()]
    if number == 3:  # The printed table repeats its control.
        rows.insert(0, ["XPT-4M", *printed.rows(1, KLUE)["XPT-4M"]])
    ours = [[results.title(model), *(shown(results.values(model, *column.ours)) for column in KLUE)] for model in models]
    own = [row for row in ours if set(row[1:]) != {MISSING}]
    return _marked(title, ["Model", *(column.title for column in KLUE)], [*rows, *own], len(rows))


def language_loss(results: Results) -> Section | None:
    """Show table 4: scores on English after post-training."""
    english = [score for score in results.scores if score.english]
    if not english:
        return None
    theirs = printed.rows(4, GLUE)
    rows = [[model, *values] for model, values in theirs.items()]
    source = [shown(results.values("source", *column.ours, english=True)) for column in GLUE]
    own = [["source", *source]]
    for words, phase, variant in product(("ko", "en"), PHASES, results.variants):
        model = f"{variant}/{phase}"
        found = [shown(results.values(model, *column.ours, english=True, vocabulary=words)) for column in GLUE]
        itl = "w/ ITL" if results.transfer_of(variant)["itl"] else "w/o ITL"
        own.append([f"{variant}: Vocab-{words.title()}, {PHASE_TITLES[phase]}, {itl}", *found])
    own = [row for row in own if set(row[1:]) != {MISSING}]
    head = [column for index, column in enumerate(GLUE, start=1) if any(row[index] != MISSING for row in own)]
    keeps_tokenizer = any(artifact.manifest["recipe"]["stage"] == "xpt_tokenizer" for artifact in results.artifacts.values())
    own_words = "the source's vocabulary and the model's" if keeps_tokenizer else "the Korean vocabulary and"
    blocks: list[Block] = [
        Text(
            f"Vocab-Ko: English with {own_words} embeddings. Vocab-En: vocabulary and word embeddings are the source's; "
            "everything else, including positions, is that of the model after post-training."
        ),
        _marked("Table 4: GLUE dev", ["Model", *(c.title for c in GLUE)], [*rows, *own], len(rows)),
    ]
    if shares := _shares_of_source(results, head):
        blocks.append(shares)
    blocks += _compared(results, english=True)
    return Section("language-loss", "English after post-training", blocks)


def _shares_of_source(results: Results, columns: Sequence[Column]) -> Table | None:
    source = {column.title: mean(results.values("source", *column.ours, english=True)) for column in columns}
    if not all(results.values("source", *column.ours, english=True) for column in columns):
        return None
    rows = []
    for words, phase, variant in product(("ko", "en"), PHASES, results.variants):
        cells = []
        for column in columns:
            own = mean(results.values(f"{variant}/{phase}", *column.ours, english=True, vocabulary=words))
            base = source[column.title]
            cells.append(MISSING if own is None or base is None or base <= 0 else percent(own / base))
        if set(cells) != {MISSING}:
            rows.append([f"{variant}: Vocab-{words.title()}, {PHASE_TITLES[phase]}", *cells])
    header = ["Model", *(column.title for column in columns)]
    return Table("Shares of the source's scores", header, rows, frozenset(range(1, len(header))))


def _compared(results: Results, *, english: bool) -> list[Block]:
    """Show notes on parts and undefined scores, and from the summaries intervals and differences between models."""
    benchmarks = results.of_language(english=english)
    notes: list[Block] = [
        Text(f"{benchmark.title}: tested on {benchmark.part} of the official test set.", quiet=True)
        for benchmark in benchmarks
        if benchmark.part
    ]
    notes += [line for benchmark in benchmarks for line in about_undefined(benchmark, results.system_title)]
    rows = [
        [
            f"{benchmark.title}, {benchmark.metric_title}",
            results.system_title(system),
            benchmark.shown(system),
            *(fixed(of(values)) if len(values) > 1 else "" for of in (statistics.median, max)),
            f"{fixed(low)} to {fixed(high)}",
        ]
        for benchmark in benchmarks
        for system, (low, high) in benchmark.intervals.items()
        for values in [benchmark.values(system)]
    ]
    if not rows:
        return [*notes, *paired_differences(benchmarks, results.system_title)]
    header = ["Benchmark", "Model", "Mean ± sd", "Median", "Best", next(b.interval_title for b in benchmarks if b.intervals)]
    table = Table("Means over seeds, and their intervals over test examples", header, rows, frozenset({2, 3, 4, 5}))
    return [*notes, table, *paired_differences(benchmarks, results.system_title)]


def intrinsic(results: Results) -> Section | None:
    """Show perplexity and accuracy of masked words on the valid and test parts."""
    rows = []
    for label, artifact in results.artifacts.items():
        stage, _, model = label.partition("/")
        if stage != "intrinsic":
            continue
        stats = artifact.inputs()["pretrain"].stats_as(PretrainStats)
        valid, test = stats.heldout or {}, artifact.stats_as(IntrinsicStats).heldout
        perplexity = [fixed(part.get("mlm_perplexity")) for part in (valid, test)]
        accuracy = [percent(part.get("mlm_accuracy")) for part in (valid, test)]
        trainable = stats.parameters if stats.trainable_parameters is None else stats.trainable_parameters
        sizes = map(count, (stats.parameters, trainable, stats.steps))
        rows.append([results.title(model), *sizes, *perplexity, *accuracy])
    if not rows:
        return None
    measures = ["Perplexity, valid", "Perplexity, test", "Accuracy, valid", "Accuracy, test"]
    header = ["Model", "Parameters", "Trained parameters", "Steps", *measures]
    text = (
        "Masked pieces with one fixed noise; perplexity is exp of the mean cross-entropy. For ELECTRA, the generator is scored."
    )
    return Section("intrinsic", "Masked words", [Text(text), Table("", header, rows, frozenset(range(1, 8)))])


def errors(results: Results) -> Section:
    """Show tables 8 to 10: distributions of predictions by gold label."""
    blocks: list[Block] = []
    for task, (number, title) in _DISTRIBUTIONS.items():
        theirs, ours = printed.distribution(number), distributions(results, task)
        listed = tasks.load(task).listed
        rows = [row for model, found in theirs.items() for row in _distribution_rows(model, found, listed)]
        own = [row for model, found in ours.items() for row in _distribution_rows(results.title(model), found, listed)]
        header = ["Model", "Gold", "Number", "Predicted"]
        blocks.append(_marked(f"Table {number}: {title}", header, [*rows, *own], len(rows), numeric=frozenset({2})))
    note = (
        "Printed rows are as in the paper, which for the classes of Table 10 lists only the most frequent predictions, so its "
        "numbers may be too small. Rows of this run are summed over seeds."
    )
    return Section("errors", "Predictions by gold label", [*blocks, Text(note, quiet=True)])


def _distribution_rows(model: str, distribution: Distribution, listed: int | None) -> list[list[str]]:
    """Return the most frequent gold labels with their number, and the labels most often predicted for them."""
    frequent = by_number({gold: sum(row.values()) for gold, row in distribution.items()})[:_MAX_LABELS]
    return [
        [model, gold, count(number), ", ".join(f"{label}: {count(n)}" for label, n in by_number(distribution[gold])[:listed])]
        for gold, number in frequent
    ]


def _marked(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    printed_rows: int,
    *,
    numeric: frozenset[int] | None = None,
) -> Table:
    """Return a table whose rows from ``printed_rows`` on are ours and marked; its second column says so in files too."""
    columns = frozenset(range(1, len(header))) if numeric is None else numeric
    body = [[row[0], "printed" if number < printed_rows else "ours", *row[1:]] for number, row in enumerate(rows)]
    shifted = frozenset(column + 1 for column in columns)
    return Table(title, [header[0], "From", *header[1:]], body, shifted, frozenset(range(printed_rows, len(rows))))
