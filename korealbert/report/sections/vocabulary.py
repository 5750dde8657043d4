"""What the vocabulary does to text, and what others of another size or kind would do to it."""

from __future__ import annotations

from collections.abc import Sequence

from korealbert.formatting import count, fixed, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text
from korealbert.vocab.sizes import TrialFacts, VocabSizesStats
from korealbert.vocab.stage import VocabStats, VocabularyFacts

_KINDS = {"unigram": "unigram", "bpe": "BPE"}


def section(artifacts: Artifacts) -> Section | None:
    """Facts, the words by their pieces, specimens, and the comparison of sizes where one was made."""
    stats, compared = artifacts.stats("vocab", VocabStats), artifacts.stats("vocab_sizes", VocabSizesStats)
    if stats is None:
        return None
    trials = compared.vocabularies if compared else []
    figures = [figure for figure in (_words(stats), _sizes(trials)) if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks.append(_facts(stats))
    if compared and trials:
        sample = f"{count(compared.sampled_sentences)} sentences, {count(compared.sampled_characters)} characters"
        blocks += [_comparison(compared), Text(f"All of them trained on the same {sample}.", quiet=True)]
    if stats.specimens:
        blocks.append(_specimens(stats, compared))
    blocks.append(Text(artifacts.origin("vocab", "vocab_sizes"), quiet=True))
    return Section("vocabulary", "Vocabulary", blocks)


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


def _facts(stats: VocabStats) -> Table:
    rows = [
        ("Pieces", count(stats.pieces)),
        ("Characters per piece", _fixed(stats.characters_per_piece)),
        ("Pieces per word", _fixed(stats.pieces_per_word)),
        ("Unknown pieces", _share(stats.unknown_share, 4)),
        ("Pieces that are single bytes", _share(stats.byte_share, 4)),
        ("Visible characters that have a piece", _share(stats.character_coverage, 3)),
        ("Hangul syllables that have a piece, of 11,172", _count(stats.hangul_syllables_covered)),
        ("Hangul syllables that have a piece, of those in the text", _in_text(stats)),
        ("Pieces that begin a word", _share(stats.word_start_share)),
        ("Sentences it was trained on", _count(stats.sampled_sentences)),
        ("Characters it was trained on", _count(stats.sampled_characters)),
    ]
    return Table("Vocabulary", ["Fact", "Value"], [[name, value] for name, value in rows if value is not None], frozenset({1}))


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
            _in_text(trial) or "",
        ]
        for trial in ordered
    ]
    chosen = (compared.chosen.model_type, compared.chosen.pieces)
    marked = {row for row, trial in enumerate(ordered) if (trial.model_type, trial.pieces) == chosen}
    measures = ["Characters per piece", "Pieces per word", "One-piece words", "Unknown", "Hangul syllables"]
    header = ["Pieces", "Kind", *measures]
    return Table("Other sizes and kinds", header, rows, frozenset({0, 2, 3, 4, 5, 6}), marked=frozenset(marked))


def _specimens(stats: VocabStats, compared: VocabSizesStats | None) -> Table:
    """How the vocabulary itself cuts sentences, then those of other sizes, and that of the other kind in its own size."""
    shown: list[tuple[str, VocabularyFacts]] = [("this one", stats)]
    for trial in compared.vocabularies if compared else []:
        same = (trial.model_type == compared.chosen.model_type, trial.pieces == compared.chosen.pieces) if compared else ()
        if same in ((True, False), (False, True)):
            shown.append((f"{_KINDS[trial.model_type]} {count(trial.pieces)}", trial))
    rows = [[name, facts.specimens[number]] for number in range(len(stats.specimens)) for name, facts in shown]
    title = "How it cuts sentences; spaces stand between pieces, ▁ begins a word"
    return Table(title, ["Vocabulary", "Pieces"], rows, prose=frozenset({1}))


def _in_text(stats: VocabularyFacts) -> str | None:
    if stats.hangul_syllables_in_text is None:
        return None
    return f"{count(stats.hangul_syllables_in_text_covered)} of {count(stats.hangul_syllables_in_text)}"


def _fixed(value: float | None) -> str | None:
    return None if value is None else fixed(value)


def _count(number: int | None) -> str | None:
    return None if number is None else count(number)


def _share(share: float | None, decimals: int = 1) -> str | None:
    return None if share is None else percent(share, decimals)
