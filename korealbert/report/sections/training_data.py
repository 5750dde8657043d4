"""What the model was trained on: the lengths of the rows, and the noise."""

from __future__ import annotations

from typing import Any

from korealbert.examples.packing import ExamplesStats
from korealbert.examples.views import ViewsStats
from korealbert.formatting import count, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text


def section(artifacts: Artifacts) -> Section | None:
    """Rows and views, as far as they exist."""
    drawn = (_lengths(artifacts), _amounts(artifacts), _replacements(artifacts), _ngrams(artifacts))
    figures = [figure for figure in drawn if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks += [table for table in (_rows(artifacts), _noise(artifacts)) if table.rows]
    if not blocks:
        return None
    origin = Text(artifacts.origin("examples", "views"), quiet=True)
    return Section("training-data", "Rows and noise", [*blocks, origin])


def _lengths(artifacts: Artifacts) -> Figure | None:
    stats = artifacts.stats("examples", ExamplesStats)
    if stats is None or not stats.length_histogram:
        return None
    ordered = sorted(stats.length_histogram.items(), key=lambda item: int(item[0].split("-")[0]))
    label = "Rows by length in pieces: " + "; ".join(f"{name} {count(number)}" for name, number in ordered)
    filled = f"; {percent(stats.fill)} of all positions are filled" if stats.fill is not None else ""
    caption = f"Rows by length in pieces, special pieces not counted{filled}"
    return Figure("lengths", caption, charts.histogram(ordered, label=label, unit="pieces"))


def _amounts(artifacts: Artifacts) -> Figure | None:
    """How much was masked, moved and swapped, beside what the recipe asks for."""
    spec = _views_spec(artifacts)
    masking, word_order = spec.get("masking", {}), spec.get("word_order", {})
    stats = artifacts.stats("views", ViewsStats)
    if stats is None:
        return None
    dynamic = word_order.get("amount") == "dynamic"
    return _beside_asked(
        "noise-amounts",
        "How much noise",
        [
            ("Pieces to predict (MLM)", stats.mlm_rate, masking.get("rate")),
            ("Rows with moved words (WOP)", stats.wop_portion, word_order.get("portion")),
            # A little less than asked: a word stays that has none to change places with. Drawn from 0 to the rate, half of it.
            ("Pieces moved in those rows", stats.wop_rate, word_order["rate"] / (2 if dynamic else 1) if word_order else None),
            ("Segments swapped (SOP)", stats.sop_swapped_share, 0.5 if spec.get("sentence_task") == "sop" else None),
        ],
    )


def _replacements(artifacts: Artifacts) -> Figure | None:
    """What stands in place of the pieces to predict, beside what the recipe asks for."""
    masking = _views_spec(artifacts).get("masking", {})
    masked, random = masking.get("mask_portion"), masking.get("random_portion")
    stats = artifacts.stats("views", ViewsStats)
    if stats is None:
        return None
    return _beside_asked(
        "noise-replacements",
        "In place of a piece to predict",
        [
            ("[MASK]", stats.masked_share, masked),
            ("a random piece", stats.random_share, random),
            ("the piece itself", stats.kept_share, None if masked is None else 1 - masked - random),
        ],
    )


def _ngrams(artifacts: Artifacts) -> Figure | None:
    """How many words are predicted together, beside p(n) ∝ 1/n; nothing where n-grams are off."""
    stats, masking = artifacts.stats("views", ViewsStats), _views_spec(artifacts).get("masking", {})
    if stats is None:
        return None
    most, unit = masking.get("ngram_max", 1), "piece" if masking.get("unit") == "token" else "word"
    counts = [stats.ngrams_1, stats.ngrams_2, stats.ngrams_3, stats.ngrams_4, stats.ngrams_5][:most]
    if most == 1 or not sum(counts):
        return None
    asked = [1 / n / sum(1 / k for k in range(1, most + 1)) for n in range(1, most + 1)]
    rows = [
        charts.Bar(f"{n} {unit}{'s' * (n > 1)}", number / sum(counts), percent(number / sum(counts), 1), share)
        for n, (number, share) in enumerate(zip(counts, asked, strict=True), start=1)
    ]
    label = f"N-grams chosen for prediction, of {count(sum(counts))}: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    caption = f"N-grams of {unit}s predicted: ∝ 1/n (grey), and as chosen, shortened to the budget and at the end of segments"
    return Figure("noise-ngrams", caption, charts.bars(rows, label=label))


def _views_spec(artifacts: Artifacts) -> dict[str, Any]:
    views = artifacts.one("views")
    spec: dict[str, Any] = views.manifest["spec"] if views else {}
    return spec


def _beside_asked(name: str, what: str, shares: list[tuple[str, float | None, float | None]]) -> Figure | None:
    """Bars of realised shares; those that were asked for are the ghosts beneath."""
    rows = [
        charts.Bar(label, share, percent(share, 2) + (f", asked {percent(asked)}" if asked is not None else ""), asked)
        for label, share, asked in shares
        if share is not None
    ]
    if not rows:
        return None
    label = f"{what}, over all views: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    caption = f"{what}, over all views" + (": asked for (grey) and drawn" if any(row.before for row in rows) else "")
    return Figure(name, caption, charts.bars(rows, label=label))


def _facts(title: str, rows: list[tuple[str, str | None]]) -> Table:
    return Table(title, ["Fact", "Value"], [[name, value] for name, value in rows if value is not None], frozenset({1}))


def _rows(artifacts: Artifacts) -> Table:
    stats = artifacts.stats("examples", ExamplesStats)
    if stats is None:
        return _facts("Rows", [])
    return _facts(
        "Rows",
        [
            ("Rows for training", count(stats.rows_train)),
            ("Rows held out", count(stats.rows_heldout)),
            ("Pieces", _count(stats.pieces)),
            ("Sentences", _count(stats.sentences)),
            ("Share of positions filled", _percent(stats.fill)),
        ],
    )


def _noise(artifacts: Artifacts) -> Table:
    stats = artifacts.stats("views", ViewsStats)
    if stats is None:
        return _facts("Noise", [])
    return _facts(
        "Noise, as measured on all views",
        [
            ("Views, one per epoch", count(stats.views)),
            ("Rows with noise", _count(stats.rows)),
            ("Pieces to predict (MLM)", _percent_of(stats.mlm_rate, stats.pieces, "pieces", 2)),
            ("of these masked", _percent(stats.masked_share)),
            ("of these replaced by a random piece", _percent(stats.random_share)),
            ("of these left as they are", _percent(stats.kept_share)),
            ("Segments swapped (SOP)", _percent_of(stats.sop_swapped_share, stats.sop_rows, "rows")),
            ("Rows with moved words (WOP)", _count(stats.wop_rows)),
            ("Pieces moved in those rows (WOP)", _percent_of(stats.wop_rate, stats.wop_pieces, "pieces", 2)),
        ],
    )


def _count(number: int | None) -> str | None:
    return None if number is None else count(number)


def _percent(share: float | None, decimals: int = 1) -> str | None:
    return None if share is None else percent(share, decimals)


def _percent_of(share: float | None, total: int | None, what: str, decimals: int = 1) -> str | None:
    """A share with what it is a share of."""
    shown = _percent(share, decimals)
    return f"{shown} of {count(total)} {what}" if shown and total is not None else shown
