"""Contents of the corpus: lengths of documents, repeated phrases, samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from korealbert.artifact import Artifact
from korealbert.corpus.quality.stage import PERPLEXITY_EDGES, QualityStats
from korealbert.documents.schema import Document
from korealbert.documents.shards import read_documents
from korealbert.formatting import by_number, compact, count, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text

_SAMPLED = 2_000
"""Documents looked at, the first ones of all shards."""
_SHORTEST_BIN, _BINS = 100, 11
"""Characters of the first bin of lengths, each other one being twice as wide; and how many there are."""
_PHRASE_WORDS, _PHRASES, _LEAST_DOCUMENTS = 5, 12, 3
_WORDS_LOOKED_AT = 400
"""Of each document: repeated phrases are at its beginning or end."""
_CHARACTERS_SHOWN = 160


def section(artifacts: Artifacts, samples: int) -> Section | None:
    """Of the last stage of the corpus; ``samples`` documents are quoted."""
    corpus = artifacts.one("balance")
    documents = _sampled(corpus) if corpus is not None else []
    if not documents:
        return None
    blocks: list[Block] = [
        Text(f"These figures are of {count(len(documents))} documents: the first ones in each file of the corpus."),
        Figures([_lengths(documents)]),
    ]
    blocks += [table for table in (_phrases(documents), _quoted(documents, samples)) if table.rows]
    return Section("texts", "What the corpus holds", [*blocks, Text(artifacts.origin("balance"), quiet=True)])


def _sampled(corpus: Artifact) -> list[Document]:
    shards = corpus.files("documents-*.arrow")
    if not shards:
        return []
    shards = shards[:: -(-len(shards) // _SAMPLED)]
    each = -(-_SAMPLED // len(shards))
    return [document for shard in shards for document in islice(read_documents(shard), each)][:_SAMPLED]


def _lengths(documents: Sequence[Document]) -> Figure:
    edges = [_SHORTEST_BIN << doubled for doubled in range(_BINS - 1)]
    found = Counter(sum(len(document.text) >= edge for edge in edges) for document in documents)
    names = [f"< {compact(edges[0])}", *(compact(edge) for edge in edges)]
    bins = [(name, found[index]) for index, name in enumerate(names)]
    ordered = sorted(len(document.text) for document in documents)
    middle = ordered[len(ordered) // 2]
    label = f"Characters of documents, median {count(middle)}: " + "; ".join(f"{name} {number}" for name, number in bins)
    caption = f"Length of documents in characters (a bar begins at the number below it); median {count(middle)}"
    return Figure("document-lengths", caption, charts.histogram(bins, label=label, unit="characters"))


def _phrases(documents: Sequence[Document]) -> Table:
    found: Counter[str] = Counter()
    for document in documents:
        words = document.text.split()
        words = words if len(words) <= _WORDS_LOOKED_AT else words[: _WORDS_LOOKED_AT // 2] + words[-_WORDS_LOOKED_AT // 2 :]
        found.update({" ".join(words[start : start + _PHRASE_WORDS]) for start in range(len(words) - _PHRASE_WORDS + 1)})
    common = [(phrase, number) for phrase, number in by_number(found)[:_PHRASES] if number >= _LEAST_DOCUMENTS]
    rows = [[phrase, count(number), percent(number / len(documents))] for phrase, number in common]
    title = f"Runs of {_PHRASE_WORDS} words in the most documents: what cleaning may have left"
    return Table(title, ["Words", "Documents", "Share"], rows, frozenset({1, 2}), prose=frozenset({0}))


def _quoted(documents: Sequence[Document], samples: int) -> Table:
    chosen = documents[:: max(1, len(documents) // samples)][:samples] if samples else []
    rows = [[one.source, one.title, count(len(one.text)), _beginning(one.text)] for one in chosen]
    return Table(
        "Some documents", ["Source", "Title", "Characters", "Beginning"], rows, frozenset({2}), prose=frozenset({1, 3})
    )


def _beginning(text: str) -> str:
    line = " ".join(text[: 2 * _CHARACTERS_SHOWN].split())
    return line if len(line) <= _CHARACTERS_SHOWN else f"{line[: _CHARACTERS_SHOWN - 1].rstrip()}…"


_BIN_NAMES: Mapping[str, Sequence[str]] = {
    "quality": [f"{tenth / 10:.1f}" for tenth in range(10)],
    "perplexity": [f"< {PERPLEXITY_EDGES[0]}", *map(str, PERPLEXITY_EDGES)],
}


def quality(artifacts: Artifacts) -> Section | None:
    """Scores of the documents, dropped ones too: all together as histograms, and by source."""
    stats = artifacts.stats("quality", QualityStats)
    if stats is None:
        return None
    figures, tables = [], []
    for score, names in _BIN_NAMES.items():
        counts = {source: bins[score] for source, bins in sorted(stats.scores.items()) if bins.get(score)}
        if not counts:
            continue
        bins = [(name, sum(one.get(str(place), 0) for one in counts.values())) for place, name in enumerate(names)]
        label = f"Documents by {score}: " + "; ".join(f"{name} {number}" for name, number in bins)
        caption = f"Documents by {score} (a bar begins at the number below it)"
        figures.append(Figure(f"document-{score}", caption, charts.histogram(bins, label=label, unit=score)))
        rows = [
            [source, *(percent(one.get(str(place), 0) / sum(one.values())) for place in range(len(names)))]
            for source, one in counts.items()
        ]
        tables.append(Table(f"Documents by {score} and source", ["Source", *names], rows, frozenset(range(1, len(names) + 1))))
    trained = ", ".join(f"{count(number)} {role}" for role, number in stats.trained_on.items())
    sentences = [f"Models were trained on {trained} texts."] if trained else []
    if stats.repeated:
        sentences.append(
            f"{count(stats.repeated)} further copies were made of documents that occurred often; each has its document's id."
        )
    blocks: list[Block] = [Text(" ".join(sentences))] if sentences else []
    blocks += [Figures(figures)] if figures else []
    return Section("quality", "Quality of the documents", [*blocks, *tables, Text(artifacts.origin("quality"), quiet=True)])
