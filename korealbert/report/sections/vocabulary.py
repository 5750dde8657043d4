"""What the vocabulary does to text, and what others of another size or kind would do to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from korealbert.formatting import count, fixed, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text

KINDS = {"unigram": "unigram", "bpe": "BPE"}


def section(artifacts: Artifacts) -> Section | None:
    """Facts, the words by their pieces, specimens, and the comparison of sizes where one was made."""
    stats, compared = artifacts.stats("vocab"), artifacts.stats("vocab_sizes")
    if not stats:
        return None
    trials: list[dict[str, Any]] = compared.get("vocabularies", [])
    figures = [figure for figure in (_words(stats), _sizes(trials)) if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks.append(_facts(stats))
    if trials:
        sample = f"{count(compared['sampled_sentences'])} sentences, {count(compared['sampled_characters'])} characters"
        blocks += [_comparison(trials, compared["chosen"]), Text(f"All of them trained on the same {sample}.", quiet=True)]
    if stats.get("specimens"):
        blocks.append(_specimens(stats, compared))
    blocks.append(Text(artifacts.origin("vocab", "vocab_sizes"), quiet=True))
    return Section("vocabulary", "Vocabulary", blocks)


def _words(stats: Mapping[str, Any]) -> Figure | None:
    bins: dict[str, int] = stats.get("words_by_pieces") or {}
    if not bins:
        return None
    ordered = sorted(bins.items(), key=lambda item: int(item[0].rstrip("+")))
    label = "Words by their number of pieces: " + "; ".join(f"{name} {count(number)}" for name, number in ordered)
    return Figure("words-by-pieces", "Words by their number of pieces", charts.histogram(ordered, label=label, unit="pieces"))


def _sizes(trials: list[dict[str, Any]]) -> Figure | None:
    lines = []
    for style, (kind, name) in enumerate(KINDS.items(), start=1):
        points = sorted((trial["pieces"], trial["characters_per_piece"]) for trial in trials if trial["model_type"] == kind)
        if len(points) > 1:
            lines.append(charts.Line(name, points, style))
    if not lines:
        return None
    told = "; ".join(f"{line.name} {', '.join(f'{count(x)}: {fixed(y)}' for x, y in line.points)}" for line in lines)
    drawing = charts.lines(lines, label=f"Characters per piece by size: {told}", x_unit="pieces of the vocabulary")
    return Figure("vocabulary-sizes", "Characters per piece by size of the vocabulary", drawing)


def _facts(stats: Mapping[str, Any]) -> Table:
    rows = [
        ("Pieces", _written(stats, "pieces", count)),
        ("Characters per piece", _written(stats, "characters_per_piece", fixed)),
        ("Pieces per word", _written(stats, "pieces_per_word", fixed)),
        ("Unknown pieces", _share(stats, "unknown_share", 4)),
        ("Pieces that are single bytes", _share(stats, "byte_share", 4)),
        ("Visible characters that have a piece", _share(stats, "character_coverage", 3)),
        ("Hangul syllables that have a piece, of 11,172", _written(stats, "hangul_syllables_covered", count)),
        ("Hangul syllables that have a piece, of those in the text", _in_text(stats)),
        ("Pieces that begin a word", _share(stats, "word_start_share")),
        ("Sentences it was trained on", _written(stats, "sampled_sentences", count)),
        ("Characters it was trained on", _written(stats, "sampled_characters", count)),
    ]
    return Table("Vocabulary", ["Fact", "Value"], [[name, value] for name, value in rows if value is not None], frozenset({1}))


def _comparison(trials: list[dict[str, Any]], chosen: Mapping[str, Any]) -> Table:
    ordered = sorted(trials, key=lambda trial: (trial["pieces"], list(KINDS).index(trial["model_type"])))
    rows = [
        [
            count(trial["pieces"]),
            KINDS[trial["model_type"]],
            fixed(trial["characters_per_piece"]),
            fixed(trial["pieces_per_word"]),
            percent(trial["words_by_pieces"]["1"] / sum(trial["words_by_pieces"].values())),
            percent(trial["unknown_share"], 4),
            _in_text(trial) or "",
        ]
        for trial in ordered
    ]
    marked = {
        row
        for row, trial in enumerate(ordered)
        if (trial["model_type"], trial["pieces"]) == (chosen["model_type"], chosen["pieces"])
    }
    measures = ["Characters per piece", "Pieces per word", "One-piece words", "Unknown", "Hangul syllables"]
    header = ["Pieces", "Kind", *measures]
    return Table("Other sizes and kinds", header, rows, frozenset({0, 2, 3, 4, 5, 6}), marked=frozenset(marked))


def _specimens(stats: Mapping[str, Any], compared: Mapping[str, Any]) -> Table:
    """The cuts of the vocabulary itself, each followed by those of other sizes and of the other kind in its own size."""
    shown = [("this one", stats)]
    chosen = compared.get("chosen", {})
    for trial in compared.get("vocabularies", []):
        same = [trial[key] == chosen[key] for key in ("model_type", "pieces")]
        if same in ([True, False], [False, True]):
            shown.append((f"{KINDS[trial['model_type']]} {count(trial['pieces'])}", trial))
    rows = [[name, facts["specimens"][number]] for number in range(len(stats["specimens"])) for name, facts in shown]
    title = "How it cuts sentences; spaces stand between pieces, ▁ begins a word"
    return Table(title, ["Vocabulary", "Pieces"], rows, prose=frozenset({1}))


def _in_text(stats: Mapping[str, Any]) -> str | None:
    if "hangul_syllables_in_text" not in stats:
        return None
    covered, seen = stats["hangul_syllables_in_text_covered"], stats["hangul_syllables_in_text"]
    return f"{count(covered)} of {count(seen)}"


def _written(stats: Mapping[str, Any], key: str, write: Any) -> str | None:
    return str(write(stats[key])) if key in stats else None


def _share(stats: Mapping[str, Any], key: str, decimals: int = 1) -> str | None:
    return percent(stats[key], decimals) if key in stats else None
