"""Training data: vocabulary, lengths of rows, and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.examples.masking import MaskingSpec
from korealbert.examples.packing import ExamplesStats
from korealbert.examples.views import ViewsStats
from korealbert.formatting import MISSING, count, fixed, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text
from korealbert.vocab.sizes import TrialFacts, VocabSizesStats
from korealbert.vocab.stage import VocabStats, VocabularyFacts


def section(artifacts: Artifacts) -> Section | None:
    """Show rows and views."""
    drawn: list[Figure | None] = []
    tables: list[Table] = []
    if (examples := artifacts.stats("examples", ExamplesStats)) is not None:
        drawn.append(_lengths(examples))
        tables.append(_rows(examples))
    if (views := artifacts.one("views")) is not None:
        noise, spec = views.stats_as(ViewsStats), views.manifest["spec"]
        drawn += [_amounts(noise, spec), _replacements(noise, spec), _ngrams(noise, spec)]
        tables.append(_noise(noise))
    figures = [figure for figure in drawn if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks += [table for table in tables if table.rows]
    return artifacts.section("training-data", "Rows and noise", blocks, "examples", "views")


def _lengths(stats: ExamplesStats) -> Figure | None:
    if not stats.length_histogram:
        return None
    ordered = sorted(stats.length_histogram.items(), key=lambda item: int(item[0].split("-")[0]))
    label = "Rows by length in pieces: " + "; ".join(f"{name} {count(number)}" for name, number in ordered)
    filled = f"; {percent(stats.fill)} of all positions are filled" if stats.fill is not None else ""
    caption = f"Rows by length in pieces, special pieces not counted{filled}"
    return Figure("lengths", caption, charts.histogram(ordered, label=label, unit="pieces"))


def _amounts(stats: ViewsStats, spec: Mapping[str, Any]) -> Figure | None:
    word_order = spec.get("word_order", {})
    dynamic = word_order.get("amount") == "dynamic"
    moved, swapped = None if stats.wop_rows == 0 else stats.wop_rate, None if stats.sop_rows == 0 else stats.sop_swapped_share
    return _compared_with_recipe(
        "noise-amounts",
        "How much noise",
        [
            ("Pieces to predict (MLM)", stats.mlm_rate, _mean_rate(spec)),
            ("Rows with moved words (WOP)", stats.wop_portion, word_order.get("portion")),
            # A dynamic amount is uniform between 0 and the rate. Measured shares are a little smaller: a word without another
            # one to swap with does not move.
            ("Pieces moved in those rows", moved, word_order["rate"] / (2 if dynamic else 1) if word_order else None),
            ("Segments swapped (SOP)", swapped, 0.5 if spec.get("sentence_task") == "sop" else None),
        ],
    )


def _mean_rate(spec: Mapping[str, Any]) -> float | None:
    """Return the recipe's share of pieces to predict, averaged over the views that were counted."""
    if "masking" not in spec:
        return None
    masking = MaskingSpec.model_validate(spec["masking"])
    counted = spec.get("views", 1) if spec.get("stored", True) else 1
    return sum(map(masking.rate_in, range(counted))) / counted


def _replacements(stats: ViewsStats, spec: Mapping[str, Any]) -> Figure | None:
    masking = spec.get("masking", {})
    masked, random = masking.get("mask_portion"), masking.get("random_portion")
    return _compared_with_recipe(
        "noise-replacements",
        "What replaces a piece to predict",
        [
            ("[MASK]", stats.masked_share, masked),
            ("a random piece", stats.random_share, random),
            ("the piece itself", stats.kept_share, None if masked is None else 1 - masked - random),
        ],
    )


def _ngrams(stats: ViewsStats, spec: Mapping[str, Any]) -> Figure | None:
    """Compare the lengths of n-grams with p(n) ∝ 1/n; None if n-grams are off."""
    masking = spec.get("masking", {})
    most, unit = masking.get("ngram_max", 1), "piece" if masking.get("unit") == "token" else "word"
    counts = [stats.ngrams_1, stats.ngrams_2, stats.ngrams_3, stats.ngrams_4, stats.ngrams_5][:most]
    if most == 1 or not sum(counts):
        return None
    asked = [1 / n / sum(1 / k for k in range(1, most + 1)) for n in range(1, most + 1)]
    rows = [
        charts.Bar(f"{n} {unit}{'s' * (n > 1)}", number / sum(counts), percent(number / sum(counts), 1), share)
        for n, (number, share) in enumerate(zip(counts, asked, strict=True), start=1)
    ]
    label = f"N-grams chosen for prediction, of {count(sum(counts))}"
    caption = f"N-grams of {unit}s predicted: ∝ 1/n (grey), and as chosen, cut at the budget and at the end of segments"
    return Figure("noise-ngrams", caption, charts.bars(rows, label=label))


def _compared_with_recipe(name: str, what: str, shares: list[tuple[str, float | None, float | None]]) -> Figure | None:
    """Draw bars of measured shares, with those of the recipe in grey below them."""
    rows = [
        charts.Bar(label, share, percent(share, 2) + (f", recipe {percent(asked)}" if asked is not None else ""), asked)
        for label, share, asked in shares
        if share is not None
    ]
    if not rows:
        return None
    label = f"{what}, over all views"
    caption = label + (": recipe (grey) and measured" if any(row.before for row in rows) else "")
    return Figure(name, caption, charts.bars(rows, label=label))


def _facts(title: str, rows: list[tuple[str, str]]) -> Table:
    return Table(title, ["Fact", "Value"], [row for row in rows if row[1] != MISSING], frozenset({1}))


def _rows(stats: ExamplesStats) -> Table:
    return _facts(
        "Rows",
        [
            ("Rows for training", count(stats.rows_train)),
            ("Rows held out", count(stats.rows_heldout)),
            ("Held out, not scored either", count(stats.rows_unused)),
            ("Pieces", count(stats.pieces)),
            ("Sentences", count(stats.sentences)),
            ("Share of positions filled", percent(stats.fill)),
        ],
    )


def _noise(stats: ViewsStats) -> Table:
    return _facts(
        "Noise, as measured on all views",
        [
            ("Views, one per epoch", count(stats.views)),
            ("Rows with noise", count(stats.rows)),
            ("Pieces to predict (MLM)", _percent_of(stats.mlm_rate, stats.pieces, "pieces", 2)),
            ("of these masked", percent(stats.masked_share)),
            ("of these replaced by a random piece", percent(stats.random_share)),
            ("of these left as they are", percent(stats.kept_share)),
            ("Segments swapped (SOP)", _percent_of(stats.sop_swapped_share, stats.sop_rows, "rows")),
            ("Rows with moved words (WOP)", count(stats.wop_rows)),
            ("Pieces moved in those rows (WOP)", _percent_of(stats.wop_rate, stats.wop_pieces, "pieces", 2)),
        ],
    )


def _percent_of(share: float | None, total: int | None, what: str, decimals: int = 1) -> str:
    """Return ``15.0 % of 4,000 pieces``; a share of nothing is missing."""
    if total == 0:
        return MISSING
    shown = percent(share, decimals)
    return shown if share is None or total is None else f"{shown} of {count(total)} {what}"


_KINDS = {"unigram": "unigram", "bpe": "BPE"}


def vocabulary(artifacts: Artifacts) -> Section | None:
    """Show statistics, words by their number of pieces, examples, and a comparison of sizes if the run has one."""
    stats, compared = artifacts.stats("vocab", VocabStats), artifacts.stats("vocab_sizes", VocabSizesStats)
    if stats is None:
        return None
    trials = compared.vocabularies if compared else []
    figures = [figure for figure in (_words(stats), _sizes(trials)) if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks.append(_vocabulary_facts(stats))
    if compared and trials:
        sample = f"{count(compared.sampled_sentences)} sentences, {count(compared.sampled_characters)} characters"
        blocks += [_comparison(compared), Text(f"All were trained on the same {sample}.", quiet=True)]
    if stats.specimens:
        blocks.append(_specimens(stats, compared))
    return artifacts.section("vocabulary", "Vocabulary", blocks, "vocab", "vocab_sizes")


def _words(stats: VocabStats) -> Figure | None:
    if not stats.words_by_pieces:
        return None
    ordered = sorted(stats.words_by_pieces.items(), key=lambda item: int(item[0].rstrip("+")))
    label = "Words by their number of pieces: " + "; ".join(f"{name} {count(number)}" for name, number in ordered)
    return Figure("words-by-pieces", "Words by their number of pieces", charts.histogram(ordered, label=label, unit="pieces"))


def _sizes(trials: Sequence[TrialFacts]) -> Figure | None:
    lines = []
    for style, (kind, name) in enumerate(_KINDS.items(), start=1):
        points = sorted((float(t.pieces), float(t.characters_per_piece or 0)) for t in trials if t.model_type == kind)
        if len(points) > 1:
            lines.append(charts.Line(name, points, style))
    if not lines:
        return None
    values = "; ".join(f"{line.name} {', '.join(f'{count(x)}: {fixed(y)}' for x, y in line.points)}" for line in lines)
    drawing = charts.lines(lines, label=f"Characters per piece by size: {values}", x_unit="pieces of the vocabulary")
    return Figure("vocabulary-sizes", "Characters per piece by size of the vocabulary", drawing)


def _vocabulary_facts(stats: VocabStats) -> Table:
    rows = [
        ("Pieces", count(stats.pieces)),
        ("Characters per piece", fixed(stats.characters_per_piece)),
        ("Pieces per word", fixed(stats.pieces_per_word)),
        ("Unknown pieces", percent(stats.unknown_share, 4)),
        ("Pieces that are single bytes", percent(stats.byte_share, 4)),
        ("Visible characters that have a piece", percent(stats.character_coverage, 3)),
        ("Hangul syllables that have a piece, of 11,172", count(stats.hangul_syllables_covered)),
        ("Hangul syllables that have a piece, of those in the text", _in_text(stats)),
        ("Pieces that begin a word", percent(stats.word_start_share)),
        ("Sentences it was trained on", count(stats.sampled_sentences)),
        ("Characters it was trained on", count(stats.sampled_characters)),
    ]
    return _facts("Vocabulary", rows)


def _comparison(compared: VocabSizesStats) -> Table:
    ordered = sorted(compared.vocabularies, key=lambda trial: (trial.pieces, list(_KINDS).index(trial.model_type)))
    rows = [
        [
            count(trial.pieces),
            _KINDS[trial.model_type],
            fixed(trial.characters_per_piece),
            fixed(trial.pieces_per_word),
            percent(trial.words_by_pieces["1"] / sum(trial.words_by_pieces.values())),
            percent(trial.unknown_share, 4),
            _in_text(trial),
        ]
        for trial in ordered
    ]
    chosen = (compared.chosen.model_type, compared.chosen.pieces)
    marked = {row for row, trial in enumerate(ordered) if (trial.model_type, trial.pieces) == chosen}
    measures = ["Characters per piece", "Pieces per word", "One-piece words", "Unknown", "Hangul syllables"]
    header = ["Pieces", "Kind", *measures]
    return Table("Other sizes and kinds", header, rows, frozenset({0, 2, 3, 4, 5, 6}), marked=frozenset(marked))


def _specimens(stats: VocabStats, compared: VocabSizesStats | None) -> Table:
    """Show sentences as pieces of this vocabulary, of its other sizes, and of the other kind at the same size."""
    shown: list[tuple[str, VocabularyFacts]] = [("this one", stats)]
    if compared:
        for trial in compared.vocabularies:
            if (trial.model_type == compared.chosen.model_type) != (trial.pieces == compared.chosen.pieces):
                shown.append((f"{_KINDS[trial.model_type]} {count(trial.pieces)}", trial))
    rows = [[name, facts.specimens[number]] for number in range(len(stats.specimens)) for name, facts in shown]
    title = "Segmentation of some sentences: spaces separate pieces, ▁ begins a word"
    return Table(title, ["Vocabulary", "Pieces"], rows, prose=frozenset({1}))


def _in_text(stats: VocabularyFacts) -> str:
    if stats.hangul_syllables_in_text is None:
        return MISSING
    return f"{count(stats.hangul_syllables_in_text_covered)} of {count(stats.hangul_syllables_in_text)}"
