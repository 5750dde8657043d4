"""Contents of the corpus: lengths of documents, repeated phrases, samples, quality scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle, islice

from korealbert.artifact import Artifact
from korealbert.corpus.quality.stage import PERPLEXITY_EDGES, QualityStats
from korealbert.documents.schema import Document
from korealbert.documents.shards import read_documents
from korealbert.formatting import by_number, compact, count, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text
from korealbert.report.render.text import shortened

_SAMPLED_DOCUMENTS = 2_000
_SHORTEST_BIN, _BINS = 100, 11
"""Upper edge of the first bin of lengths in characters, which doubles from bin to bin; number of bins."""
_PHRASE_WORDS, _MAX_PHRASES, _MIN_DOCUMENTS = 5, 12, 3
"""Words of a phrase; how many phrases are shown; number of documents from which a phrase counts as repeated."""
_SEARCHED_WORDS = 400
"""Words of a document in which phrases are counted, half of them from its end: repeated phrases are at either end."""
_QUOTED_CHARACTERS = 160


def section(artifacts: Artifacts, samples: int) -> Section | None:
    """Show lengths, repeated phrases and ``samples`` quoted documents of the finished corpus."""
    corpus = artifacts.one("balance")
    documents = _sampled(corpus) if corpus is not None else []
    if not documents:
        return None
    blocks: list[Block] = [
        Text(f"These figures cover {count(len(documents))} documents, the first ones in files from all over the corpus."),
        Figures([_lengths(documents)]),
    ]
    blocks += [table for table in (_phrases(documents), _quoted(documents, samples)) if table.rows]
    return artifacts.section("texts", "What the corpus holds", blocks, "balance")


def _sampled(corpus: Artifact) -> list[Document]:
    shards = corpus.files("documents-*.arrow")
    if not shards:
        return []
    shards = shards[:: math.ceil(len(shards) / _SAMPLED_DOCUMENTS)]
    each = math.ceil(_SAMPLED_DOCUMENTS / len(shards))
    return [document for shard in shards for document in islice(read_documents(shard), each)]


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
        if len(words) > _SEARCHED_WORDS:
            words = words[: _SEARCHED_WORDS // 2] + words[-_SEARCHED_WORDS // 2 :]
        found.update({" ".join(words[start : start + _PHRASE_WORDS]) for start in range(len(words) - _PHRASE_WORDS + 1)})
    common = [(phrase, number) for phrase, number in by_number(found)[:_MAX_PHRASES] if number >= _MIN_DOCUMENTS]
    rows = [[phrase, count(number), percent(number / len(documents))] for phrase, number in common]
    title = f"Runs of {_PHRASE_WORDS} words in the most documents: what cleaning may have left"
    return Table(title, ["Words", "Documents", "Share"], rows, frozenset({1, 2}), prose=frozenset({0}))


def spread(documents: Sequence[Document], samples: int) -> list[Document]:
    """Return at most ``samples`` documents, as many of each source as of any other if it has them, from all over its own."""
    sources: dict[str, list[Document]] = {}
    for one in documents:
        sources.setdefault(one.source, []).append(one)
    chosen = dict.fromkeys(sources, 0)
    for name in islice(cycle(sources), samples * len(sources)):
        chosen[name] += chosen[name] < len(sources[name]) and sum(chosen.values()) < samples
    return [found[len(found) * place // chosen[name]] for name, found in sources.items() for place in range(chosen[name])]


def _quoted(documents: Sequence[Document], samples: int) -> Table:
    chosen = spread(documents, samples)
    rows = [[one.source, one.title, count(len(one.text)), shortened(one.text, _QUOTED_CHARACTERS)] for one in chosen]
    header = ["Source", "Title", "Characters", "Beginning"]
    return Table("Some documents", header, rows, frozenset({2}), prose=frozenset({1, 3}))


_BIN_NAMES: Mapping[str, Sequence[str]] = {
    "quality": [f"{tenth / 10:.1f}" for tenth in range(10)],
    "perplexity": [f"< {PERPLEXITY_EDGES[0]}", *map(str, PERPLEXITY_EDGES)],
}


def quality(artifacts: Artifacts) -> Section | None:
    """Show the scores of all documents, also dropped ones: as histograms, and by source as tables."""
    stats = artifacts.stats("quality", QualityStats)
    if stats is None:
        return None
    figures, tables = [], []
    for score, names in _BIN_NAMES.items():
        counts = {source: bins[score] for source, bins in sorted(stats.scores.items()) if bins.get(score)}
        if counts:
            figures.append(_scores_of_all(score, names, counts.values()))
            tables.append(_scores_by_source(score, names, counts))
    trained = ", ".join(f"{count(number)} {role}" for role, number in stats.trained_on.items())
    sentences = [f"Models were trained on {trained} texts."] if trained else []
    if "good" in stats.trained_on:
        sentences.append("The quality of good and bad texts among them is clearer than that of unseen texts of their sources.")
    if stats.repeated:
        sentences.append(
            f"{count(stats.repeated)} further copies of frequent documents were made; each has the id of its document."
        )
    blocks: list[Block] = [Text(" ".join(sentences))] if sentences else []
    blocks += [Figures(figures)] if figures else []
    return Section("quality", "Quality of the documents", [*blocks, *tables, Text(artifacts.origin("quality"), quiet=True)])


_Bins = Mapping[str, int]
"""Numbers of documents by bin."""


def _scores_of_all(score: str, names: Sequence[str], counts: Collection[_Bins]) -> Figure:
    bins = [(name, sum(one.get(str(number), 0) for one in counts)) for number, name in enumerate(names)]
    label = f"Documents by {score}: " + "; ".join(f"{name} {number}" for name, number in bins)
    caption = f"Documents by {score} (a bar begins at the number below it)"
    return Figure(f"document-{score}", caption, charts.histogram(bins, label=label, unit=score))


def _scores_by_source(score: str, names: Sequence[str], counts: Mapping[str, _Bins]) -> Table:
    rows = []
    for source, bins in counts.items():
        shares = (bins.get(str(number), 0) / sum(bins.values()) for number in range(len(names)))
        rows.append([source, *map(percent, shares)])
    return Table(f"Documents by {score} and source", ["Source", *names], rows, frozenset(range(1, len(names) + 1)))
