"""The first section: scores of the model and the effect of pretraining."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

from korealbert.corpus.dedup.evaluation_files import contents_removed
from korealbert.documents.shards import DocumentStats
from korealbert.finetune.scores.statistics import is_clear
from korealbert.finetune.spec import INITS, content_of_test
from korealbert.formatting import MISSING, compact, count, fixed, mean_and_sd, percent, signed
from korealbert.huggingface.export import ExportStats
from korealbert.pretrain.stage import PretrainStats
from korealbert.report import published
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Card, Cards, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.render.markup import COLOUR_OF_INIT
from korealbert.report.scores import ONNX_SPLITS, Benchmark, metric_title, seeds
from korealbert.report.sections.benchmarks import about_few_seeds, about_undefined, entity_types, p_value, paired_differences
from korealbert.report.sections.learning import OBJECTIVES, heldout_targets

_REFERENCE = "KoreALBERT-Base"
"""The published model that this pipeline follows. It has a row of its own in figures."""

MARKS = "Dots are seeds or models, a tall mark is the mean over seeds"
"""Beginning of the key to the figures of scores."""
_PUBLISHED_MARKS = ", thin lines are published scores of the same task and metric"
_RANDOM = (
    "Random: the same architecture with random weights, fine-tuned on the same examples with the same settings{}; the gap "
    "is the effect of pretraining."
)
_SEARCHED = ", or where a search chose them, with those that are best on dev for these weights"


def introduction(artifacts: Artifacts, benchmarks: Sequence[Benchmark]) -> str:
    """Return the results in at most two sentences, with numbers of seeds and examples and with intervals.

    For more than two benchmarks they say how each differs from random weights.
    """
    compared = [(benchmark, found) for benchmark in benchmarks if (found := _compared_with_random(benchmark)) is not None]
    if len(benchmarks) > 2 and len(compared) == len(benchmarks):
        return _differences(compared)
    sentences = [sentence for benchmark in benchmarks if (sentence := _result(benchmark))]
    if not sentences and (accuracy := _heldout_scores(artifacts).get("mlm_accuracy")) is not None:
        pieces = _of_pieces(accuracy, artifacts)
        sentences.append(
            f"The pretrained model fills {percent(accuracy)} of the masked pieces of held-out text correctly"
            f"{f' ({pieces})' if pieces else ''}."
        )
    if not sentences:
        corpus = artifacts.stats("balance", DocumentStats)
        sentences.append(
            f"A corpus of {count(corpus.documents_out)} documents, {compact(corpus.characters_out or 0)} characters."
            if corpus and corpus.documents_out
            else "A run without scores so far."
        )
    return " ".join(sentences[:2])


def _differences(compared: Sequence[tuple[Benchmark, _Compared]]) -> str:
    """Say on which benchmarks pretraining is better than random weights, worse, or not clearly different."""
    verdicts: dict[str, list[str]] = {"better on": [], "worse on": [], "not clearly different on": []}
    for benchmark, found in compared:
        verdict = "not clearly different on" if not found.is_clear else "better on" if found.low > 0 else "worse on"
        measured = f"{signed(benchmark.gain or 0.0)}, {signed(found.low)} to {signed(found.high)}{found.doubt}"
        verdicts[verdict].append(f"{benchmark.title} ({benchmark.metric_title} {measured})")
    text = "; ".join(f"{verdict} {', '.join(names)}" for verdict, names in verdicts.items() if names)
    weights = _random_weights(*(benchmark for benchmark, _ in compared))
    return f"Against {weights} (difference, {compared[0][0].interval_title}), the pretrained model is {text}."


def _of_pieces(share: float, artifacts: Artifacts) -> str:
    """Return the number of held-out masked pieces and Wilson's interval of the share; "" if the number is unknown."""
    pieces = heldout_targets(artifacts).get("mlm")
    if not pieces:
        return ""
    z = NormalDist().inv_cdf(0.975)
    middle, width = share + z * z / (2 * pieces), z * math.sqrt(share * (1 - share) / pieces + (z / (2 * pieces)) ** 2)
    low, high = ((middle + side * width) / (1 + z * z / pieces) for side in (-1, 1))
    return f"{count(pieces)} pieces; 95 % interval {percent(low)} to {percent(high)}"


def _result(benchmark: Benchmark) -> str | None:
    lead = benchmark.lead
    if lead == "random":
        return None
    of = "" if lead in INITS else f" by {lead}"
    on = f"{benchmark.part} of the test set" if benchmark.part else "test"
    if benchmark.undefined(lead):
        return f"{benchmark.title}: {benchmark.metric_title} {benchmark.shown(lead)} on {on}{of}."
    values = benchmark.values(lead)
    number = seeds(len(values)) + _TOO_FEW.get(len(values), "")
    facts = "; ".join(filter(None, (number, _interval_of(benchmark, lead), _one_answer(benchmark, lead))))
    score = f"{fixed(mean_and_sd(values)[0])} {benchmark.metric_title} on {on}{of} ({facts})"
    return f"{benchmark.title}: {score}{_against_random(benchmark)}."


_TOO_FEW = {1: ", which says nothing about other seeds", 2: ", too few to know their spread"}
"""Remarks on the number of seeds in the headline."""


def _interval_of(benchmark: Benchmark, system: str) -> str:
    """Return ``95 % interval 83.10 to 87.50``, or "" if there is none or its width is 0."""
    low, high = benchmark.intervals.get(system, (0.0, 0.0))
    return f"{benchmark.interval_title} {fixed(low)} to {fixed(high)}" if low < high else ""


def _one_answer(benchmark: Benchmark, system: str) -> str:
    warnings_by_cell = [cell.metrics.get("warnings", []) for cell in benchmark.of(system)]
    constant = all(any(warning.startswith(_CONSTANT) for warning in warnings) for warnings in warnings_by_cell)
    return "every example gets the same answer" if constant else ""


_CONSTANT = "test: every prediction is "
"""Beginning of the warning that a model gives all test examples the same answer."""

_FINETUNED = {False: "the same way", True: "with their own best settings on dev"}
"""How random weights were fine-tuned, by whether settings were searched."""


def _random_weights(*benchmarks: Benchmark) -> str:
    ways = sorted({benchmark.is_searched for benchmark in benchmarks})
    return f"random weights fine-tuned {' or '.join(_FINETUNED[way] for way in ways)}"


def _against_random(benchmark: Benchmark) -> str:
    """Return the difference from random weights with its interval, and whether it is clear."""
    gain = benchmark.gain
    if gain is None:
        return ""
    compared, random_weights = _compared_with_random(benchmark), _random_weights(benchmark)
    if compared is None:
        side = "above" if gain >= 0 else "below"
        return f", {fixed(abs(gain))} points {side} {random_weights}, a difference without an interval"
    ends = f", {benchmark.interval_title} {signed(compared.low)} to {signed(compared.high)}"
    measured = f"{signed(gain)}{ends if compared.low < compared.high else ''}{compared.doubt}"
    if not compared.is_clear:
        return f", no clear difference from {random_weights} ({measured})"
    return f", {'better' if gain > 0 else 'worse'} than {random_weights} ({measured})"


class _Compared(NamedTuple):
    """The interval of pretrained minus random, and what it proves."""

    low: float
    high: float
    is_clear: bool
    doubt: str
    """The p-value, where it alone speaks against a difference: ``, p = 0.125``."""


def _compared_with_random(benchmark: Benchmark) -> _Compared | None:
    """Return how the pretrained model compares, or None if the summary does not say or a score is undefined."""
    if any(benchmark.undefined(init) for init in INITS):
        return None
    for pair in benchmark.summary.get("comparisons", []):
        if {pair["first"], pair["second"]} == set(INITS):
            low, high = sorted(float(end) if pair["first"] == INITS[0] else -float(end) for end in pair["interval"])
            clear = is_clear((low, high), pair["p_value"], benchmark.confidence)
            doubt = "" if clear or low <= 0 <= high else f", p = {p_value(pair['p_value'])}"
            return _Compared(low, high, clear, doubt)
    return None


def section(artifacts: Artifacts, benchmarks: Sequence[Benchmark], tables: Sequence[published.TableOrScore]) -> Section | None:
    """Show scores over seeds from pretrained and random weights, and held-out scores of pretraining."""
    cards = [_card(benchmark) for benchmark in benchmarks]
    heldout = _heldout_scores(artifacts)
    if (accuracy := heldout.get("mlm_accuracy")) is not None:
        perplexity = heldout.get("mlm_perplexity")
        pieces = _of_pieces(accuracy, artifacts)
        detail = "; ".join(filter(None, (pieces, f"perplexity {fixed(perplexity)}" if perplexity is not None else "")))
        cards.append(Card("Masked pieces, held out", percent(accuracy), detail or "of masked pieces"))
    if not cards:
        return None
    blocks: list[Block] = [Cards(cards)]
    if benchmarks:
        blocks += [
            Figures([_strip(benchmark, tables) for benchmark in benchmarks]),
            Text(f"{MARKS}{_PUBLISHED_MARKS if tables else ''}.", quiet=True),
            *_about_random(benchmarks),
            _scores_table(benchmarks),
            *_onnx_table(benchmarks),
            *about_few_seeds(benchmarks),
            *paired_differences(benchmarks),
            *_caveats(benchmarks, tables),
            *_left_in_the_corpus(artifacts, benchmarks),
            *entity_types(artifacts),
            Fold("Fine-tuning settings", [_settings_table(benchmarks)]),
        ]
    if heldout:
        blocks.append(_heldout_table(heldout, heldout_targets(artifacts)))
    if table := _filled_table(artifacts):
        blocks.append(table)
    return artifacts.section("outcome", "Outcome", blocks, "pretrain", "finetune")


def _about_random(benchmarks: Sequence[Benchmark]) -> Iterator[Block]:
    """Yield what random weights are, and how they were fine-tuned, if there are any."""
    compared = [benchmark for benchmark in benchmarks if benchmark.of("random")]
    if compared:
        yield Text(_RANDOM.format(_SEARCHED if any(benchmark.is_searched for benchmark in compared) else ""), quiet=True)


def _filled_table(artifacts: Artifacts) -> Table | None:
    exported = artifacts.stats("export", ExportStats)
    if exported is None or not exported.filled:
        return None
    rows = [
        [one.prompt, ", ".join(f"{piece.replace('▁', '') or piece} {percent(share)}" for piece, share in one.answers)]
        for one in exported.filled
    ]
    columns = ["Prompt", "Most probable pieces"]
    return Table("What the model fills in", columns, rows, frozenset(), prose=frozenset({0, 1}))


def _card(benchmark: Benchmark) -> Card:
    values = benchmark.values(benchmark.lead)
    detail = f"{benchmark.lead}, {seeds(len(values))}"
    if not benchmark.undefined(benchmark.lead):
        detail += f", best {fixed(max(values))}" if len(values) > 1 else ""
        detail += f"; {interval}" if (interval := _interval_of(benchmark, benchmark.lead)) else ""
    if benchmark.lead == INITS[0] and benchmark.of("random"):
        detail += f"; random {benchmark.shown('random')}"
    if benchmark.gain is not None:
        compared = _compared_with_random(benchmark)
        unclear = ", which may be chance" if compared is not None and not compared.is_clear else ""
        detail += f", gain {signed(benchmark.gain)}{unclear}"
    detail += f"; {benchmark.part}" if benchmark.part else ""
    return Card(f"{benchmark.title}, {benchmark.metric_title}", benchmark.shown(benchmark.lead), detail)


def _strip(benchmark: Benchmark, tables: Sequence[published.TableOrScore]) -> Figure:
    rows = []
    for system in benchmark.systems:
        cells = benchmark.of(system)
        undefined = {cell.seed: "undefined, corrected " if cell.undefined(benchmark.metric) else "" for cell in cells}
        values = [(cell.test, f"seed {cell.seed}: {undefined[cell.seed]}{fixed(cell.test)}") for cell in cells]
        style = COLOUR_OF_INIT[cells[0].init]
        head = benchmark.head_of(system)
        named = system if head in ("", benchmark.head_title) else f"{system}, {head}"  # The title has the benchmark's head.
        rows.append(charts.Strip(f"{named}, {seeds(len(values))}", values, benchmark.shown(system), style))
    printed = published.comparable(benchmark.compared_with, benchmark.metric, tables)
    entries = list(printed.select("model", "number", "value", "source").iter_rows())
    for model, number, value, source in entries:
        if model == _REFERENCE:
            rows.append(charts.Strip(f"{model}, published", [(number, f"{value}, {source}")], value, 3))
    if entries:
        models = [(number, f"{model}: {value}, {source}") for model, number, value, source in entries]
        low, high = printed["value"][-1], printed["value"][0]
        rows.append(charts.Strip(f"all published, {len(models)} scores", models, f"{low} to {high}", 3, mean_mark=False))
    levels = [(number, f"{model}: {value}, {source}") for model, number, value, source in entries]
    label = f"{benchmark.title}: {'; '.join(f'{row.label} {row.text}' for row in rows)}"
    caption = f"{benchmark.title}, {benchmark.metric_title} on test"
    return Figure(
        f"scores-{benchmark.name}",
        caption,
        charts.strips(rows, label=label, x_unit=f"{benchmark.metric_title} × 100", levels=levels),
    )


def _scores_table(benchmarks: Sequence[Benchmark]) -> Table:
    rows: list[list[str]] = []
    marked = set()
    for benchmark in benchmarks:
        for metric, system in product(benchmark.metrics, benchmark.systems):
            values = benchmark.values(system, metric)
            if not values:
                continue
            if system == benchmark.lead and metric == benchmark.metric:
                marked.add(len(rows))
            undefined = bool(benchmark.undefined(system, metric))
            best = (MISSING if undefined else fixed(statistic(values)) for statistic in (statistics.median, max))
            figures = (benchmark.shown(system, metric), *best, str(len(values)))
            others = (benchmark.shown(system, metric, kind=kind) for kind in ("test_corrected", "test_oracle"))
            rows.append([f"{benchmark.title}, {metric_title(metric)}", system, *figures, *others])
    header = ["Benchmark", "Weights", "Mean ± sd", "Median", "Best", "Seeds", "Corrected", "Oracle"]
    corrected, oracle = (any(row[column] != MISSING for row in rows) for column in (6, 7))
    return Table(
        f"Test scores over seeds, times 100: {_KINDS[corrected, oracle]}",
        header,
        rows,
        frozenset(range(2, 8)),
        frozenset(marked),
    )


_KINDS = {
    (False, False): "official ones",
    (True, False): "official ones and corrected ones",
    (False, True): "official ones and the best reachable",
    (True, True): "official ones, corrected ones, and the best reachable",
}
"""Which scores a table has, by whether there are corrected ones, and those of the best reachable predictions."""


def _onnx_table(benchmarks: Sequence[Benchmark]) -> list[Table]:
    """Compare the scores of ONNX models with torch's, if any were tested."""
    rows = []
    for benchmark in benchmarks:
        for system in benchmark.systems:
            if any(benchmark.values(system, kind=split) for split in ONNX_SPLITS):
                row = [f"{benchmark.title}, {benchmark.metric_title}", system, benchmark.shown(system)]
                for split in ONNX_SPLITS:
                    row += [benchmark.shown(system, kind=split), _onnx_change(benchmark, system, split)]
                rows.append(row)
    titles = [title for name in ONNX_SPLITS.values() for title in (name, "Change")]
    header = ["Benchmark", "Weights", "torch", *titles]
    title = "Test scores of the fine-tuned models as ONNX, by onnxruntime"
    return [Table(title, header, rows, frozenset(range(2, len(header))))] if rows else []


def _onnx_change(benchmark: Benchmark, system: str, split: str) -> str:
    torch, onnx = benchmark.values(system), benchmark.values(system, kind=split)
    if not onnx or benchmark.undefined(system) or benchmark.undefined(system, kind=split):
        return MISSING
    return signed(statistics.fmean(onnx) - statistics.fmean(torch))


def _caveats(benchmarks: Sequence[Benchmark], tables: Sequence[published.TableOrScore]) -> list[Block]:
    caveat = "; published scores are shown for orientation only" if tables else ""
    blocks: list[Block] = []
    for benchmark in benchmarks:
        if benchmark.part:
            blocks.append(Text(f"{benchmark.title}: tested on {benchmark.part} of the official test set{caveat}.", quiet=True))
        blocks += about_undefined(benchmark, after=_CORRECTED)
        for split, title in ONNX_SPLITS.items():
            blocks += about_undefined(benchmark, split=split, form=f", {title}")
    warnings = _warnings_table(benchmarks)
    if number := len(warnings.rows):
        blocks.append(Fold(f"{number} warning{'s' if number > 1 else ''} of fine-tuning", [warnings]))
    return blocks


def _left_in_the_corpus(artifacts: Artifacts, benchmarks: Sequence[Benchmark]) -> Iterator[Block]:
    """Yield a caveat that names the benchmarks whose test texts the run's deduplication did not look for."""
    dedup = artifacts.one("dedup")
    if dedup is None:
        return
    removed = contents_removed(dedup.manifest["recipe"]["spec"])
    tests = [
        (benchmark.title, content_of_test(benchmark.cells[0].artifact.manifest["recipe"]["spec"])) for benchmark in benchmarks
    ]
    left = [title for title, content in tests if content is not None and content not in removed]
    if left:
        yield Text(f"Not removed from the corpus, which may contain them: the test texts of {', '.join(left)}.", quiet=True)


_CORRECTED = "; the corrected value is shown next to it, and figures show the corrected value."


def _warnings_table(benchmarks: Sequence[Benchmark]) -> Table:
    """Show each warning once, with the seeds of the runs that gave it."""
    systems = list(dict.fromkeys(system for benchmark in benchmarks for system in benchmark.systems))
    rows: list[list[str]] = []
    for benchmark in benchmarks:
        seeds_of: dict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for cell in (cell for system in benchmark.systems for cell in benchmark.of(system)):
            for warning in cell.metrics.get("warnings", []):
                seeds_of[warning][cell.system].append(str(cell.seed))
        for warning, seeds_by_system in seeds_of.items():
            columns = (", ".join(seeds_by_system[system]) or MISSING for system in systems)
            rows.append([benchmark.title, warning, *columns])
    header = ["Benchmark", "Warning", *(f"Seeds, {system}" for system in systems)]
    return Table("Warnings, and the seeds whose runs gave them", header, rows, prose=frozenset({1}))


def _heldout_scores(artifacts: Artifacts) -> Mapping[str, float | None]:
    """Return the scores at the end of pretraining; none without a pretraining."""
    pretrain = artifacts.stats("pretrain", PretrainStats)
    return (pretrain.heldout or {}) if pretrain else {}


def _heldout_table(heldout: Mapping[str, float | None], targets: Mapping[str, int | None]) -> Table:
    rows = [
        [
            name,
            percent(heldout[f"{key}_accuracy"], 2),
            count(targets.get(key)),
            fixed(heldout.get(f"{key}_loss"), 3),
            fixed(heldout.get(f"{key}_perplexity")),
        ]
        for key, name in OBJECTIVES.items()
        if heldout.get(f"{key}_accuracy") is not None
    ]
    header = ["Objective", "Accuracy", "Targets", "Loss", "Perplexity"]
    return Table("Held-out scores at the end of pretraining", header, rows, frozenset({1, 2, 3, 4}))


_SETTINGS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "embedding_lr_factor",
    "warmup_ratio",
    "weight_decay",
    "max_length",
    "dropout",
    "encoder_dropout",
    "whiten",
)
"""Settings of fine-tuning. A report has no empty columns, so those that no run has set are left out."""

_IN_STEPS = {"epochs": "steps", "warmup_ratio": "warmup_steps"}
"""Settings that another one replaces."""


def _settings_table(benchmarks: Sequence[Benchmark]) -> Table:
    """Return a row for each benchmark, or for each weights whose settings differ because they were searched."""

    def settings(benchmark: Benchmark, system: str) -> tuple[str, ...]:
        cell = benchmark.of(system)[0]
        known = {**cell.spec, **cell.metrics.get("settings", {})}
        return tuple(_setting(known, name) for name in _SETTINGS)

    rows = []
    for benchmark in benchmarks:
        sizes = [count(benchmark.cells[0].metrics.get(f"examples_{part}")) for part in ("train", "dev", "test")]
        systems_with = defaultdict[tuple[str, ...], list[str]](list)
        for system in benchmark.systems:
            systems_with[settings(benchmark, system)].append(system)
        for values, systems in systems_with.items():
            whose = f"{benchmark.title}, {', '.join(systems)}" if len(systems_with) > 1 else benchmark.title
            heads = dict.fromkeys(benchmark.head_of(system) or "own" for system in systems)
            rows.append([whose, *sizes, *values, ", ".join(heads)])
    header = ["Benchmark", "Train", "Dev", "Test", *(name.replace("_", " ").capitalize() for name in _SETTINGS), "Head"]
    if all(row[-1] == "own" for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return Table("Examples and settings, the same for every seed", header, rows, frozenset(range(1, len(_SETTINGS) + 4)))


def _setting(known: Mapping[str, Any], name: str) -> str:
    """Return a setting as it applied: a number of steps in the place of epochs or of a share of them."""
    if (steps := known.get(_IN_STEPS.get(name, ""))) is not None:
        return f"{count(steps)} steps"
    if name == "whiten":
        return "yes" if known.get(name) else MISSING
    return MISSING if known.get(name) is None else f"{known[name]:g}"
