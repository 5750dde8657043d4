"""Stage ``clean``: normalise the documents of one source, remove meta text, filter, and put one sentence on a line.

In addition to the usual shards it writes ``removals-*.arrow``, every span that a news rule deleted, and ``languages-*.arrow``,
the main language of each document, if the spec asks for languages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from korealbert.artifact import Deployment, InputPath, Inputs, Real, Runtime, Spec, Stage, Statistics, Stats
from korealbert.artifact.shards import map_shards
from korealbert.corpus.clean.filters import judge
from korealbert.corpus.clean.language import (
    Language,
    check_languages,
    is_other_than_korean,
    language_shares,
    wrong_language,
)
from korealbert.corpus.clean.limits import NOT_KOREAN, Limits
from korealbert.corpus.clean.lists import UrlList, WordList, without_entries
from korealbert.corpus.clean.news import MAX_REMOVALS, Cleaned, NewsRules, Removal
from korealbert.corpus.clean.personal_data import Kind, mask
from korealbert.corpus.clean.sentences import Method, SentenceSample, agreement, count_sentences, split_text
from korealbert.corpus.clean.titles import CategoryMap, TitleRules
from korealbert.corpus.normalise import normalise
from korealbert.documents.schema import Document, Drop
from korealbert.documents.shards import (
    NO_DOCUMENTS,
    DocumentShard,
    DocumentStats,
    TableWriter,
    read_documents,
    read_rows,
    sum_stats,
)

_REMOVALS_SCHEMA = pa.schema(
    [("id", pa.string()), ("rule", pa.string()), ("zone", pa.string()), ("start", pa.int64()), ("text", pa.string())]
)
"""Rows of ``removals-*.arrow`` in the order of deletion; undone from the last to the first, they restore the input."""

_LANGUAGES_SCHEMA = pa.schema([("id", pa.string()), ("language", pa.string()), ("share", pa.float64())])
"""Rows of ``languages-*.arrow``: the language of most of a document's letters and its share, or empty and 0 without letters.
Documents that the rules of addresses, titles and news dropped have no row."""


class CleanSpec(Spec):
    """How the documents of one source are cleaned."""

    later: ClassVar[frozenset[str]] = frozenset({"language", "url_lists", "word_lists", "max_listed_word_share"})

    news_rules: InputPath | None = None
    """Rules that remove meta text from newspaper articles; None for other sources."""
    title_rules: InputPath | None = None
    """Rules that drop articles by their title."""
    category_map: InputPath | None = None
    """Section names → categories; None keeps the source's names."""
    decode_entities: bool = True
    """Whether to decode ``&quot;`` and the like; false if extraction did so, because texts may be about markup."""
    limits: Limits = Limits()
    """Limits of the quality filters: a genre's name (``"law"``), or a table with or without ``preset``. A text beyond
    a limit is dropped for the reason that the limit names."""
    language: Language | None = None
    """Languages that documents must be in: ``{ keep = ["ko"], min_share = 0.5 }``; None: any. The output then has the
    language of each document with its share."""
    url_lists: tuple[InputPath, ...] = ()
    """Lists of hosts, sites and words of addresses; a document with such an address is ``listed_url``."""
    word_lists: tuple[InputPath, ...] = ()
    """Lists of words; a text with a larger share of them than ``max_listed_word_share`` is ``listed_word``."""
    max_listed_word_share: float = Field(default=0.0, ge=0, le=1)
    """Share of a text's words that may be in a list. 0: none; 0.02: only spam has more."""
    max_removed_share: float = Field(default=0.4, gt=0, le=1)
    """An article that loses a larger share of its characters to news rules is ``removed_share``."""
    personal_data: tuple[Kind, ...] = ()
    """Kinds of personal data to mask in the texts and titles of kept documents: resident_number, foreigner_number, card,
    business_number, email, phone, passport, account, driving_license, ip_address. Each is replaced by a word for its kind
    (``[전화번호]``)."""
    sentences: Method = "rules"
    """rules: fast, by punctuation and endings. kiwi: by morphology, about 100 times slower. none: keep the lines, for text
    with one sentence per line."""
    agreement_documents: int = Field(default=100, ge=0)
    """Documents on which rules and Kiwi are compared for ``sentence_agreement``, which takes about 4 s; 0: none."""


@dataclass(frozen=True, slots=True)
class CleanedDocument:
    """The result of cleaning one document."""

    document: Document
    """The cleaned document, or the input if it is dropped."""
    drop: Drop | None
    cleaned: Cleaned
    """Result of the news rules, for the log."""
    counts: dict[str, Any]
    """Statistics of this document, which can be summed."""
    language: tuple[str, float] | None = None
    """The main language and its share; None if languages were not detected."""


@dataclass(frozen=True)
class Rules:
    """The rule files that a spec names, read and compiled."""

    news: NewsRules | None
    titles: TitleRules | None
    categories: CategoryMap | None
    urls: UrlList | None = None
    words: WordList | None = None

    @classmethod
    def of(cls, spec: CleanSpec) -> Rules:
        """Read the files. Raises ValueError naming file, rule and field."""
        return cls(
            NewsRules(spec.news_rules.path) if spec.news_rules else None,
            TitleRules(spec.title_rules.path) if spec.title_rules else None,
            CategoryMap(spec.category_map.path) if spec.category_map else None,
            UrlList([path.path for path in spec.url_lists]) if spec.url_lists else None,
            WordList([path.path for path in spec.word_lists]) if spec.word_lists else None,
        )


def clean_document(document: Document, spec: CleanSpec, rules: Rules) -> CleanedDocument:
    """Normalise, drop by address and title, remove meta text, filter by language and limits, mask, and split sentences."""
    normalised = normalise(document.text, entities=spec.decode_entities)
    text = normalised.text
    title = normalise(document.title, entities=spec.decode_entities).text.replace("\n", " ")
    counts: dict[str, Any] = {"normalized": normalised.counts, "removed": {}, "removed_characters": 0, "masked": {}}
    counts["with_url"] = int(bool(document.url))
    drop = rules.urls.judge(document.url) if rules.urls else None
    if drop is None and rules.titles:
        drop = rules.titles.judge(title, text)
    cleaned = Cleaned(text)
    language: tuple[str, float] | None = None
    if drop is None and rules.news is not None:
        cleaned = rules.news.clean(text, document.outlet)
        removed = sum(len(removal.text) for removal in cleaned.removals)
        counts["removed"] = dict(Counter(removal.rule for removal in cleaned.removals))
        counts["removed_characters"] = removed
        if removed > spec.max_removed_share * len(text):
            drop = Drop("removed_share", f"{removed / len(text):.3f} > {spec.max_removed_share}")
        elif len(cleaned.removals) == MAX_REMOVALS:
            drop = Drop("removed_spans", f"{MAX_REMOVALS} meta tags and no end")
    limits = spec.limits
    if drop is None and spec.language:
        shares = language_shares(cleaned.text, by_script=spec.language.by_script)
        language = next(iter(shares.items()), ("", 0.0))
        counts["languages"] = {language[0]: 1}
        drop = wrong_language(shares, spec.language)
        limits = _limits_of(shares, spec.language, limits)
    drop = drop or judge(cleaned.text, limits)
    if drop is None and rules.words:
        drop = rules.words.judge(f"{title}\n{cleaned.text}", spec.max_listed_word_share)
    if drop is not None:
        return CleanedDocument(document, drop, cleaned, counts, language)
    masked, masked_title = mask(cleaned.text, spec.personal_data), mask(title, spec.personal_data)
    split = split_text(masked.text, spec.sentences)
    category, known = _category(document.category, rules.categories)
    counts |= {"sentences_out": count_sentences(split), "sections": {known: 1}}
    counts["masked"] = dict(Counter(masked.counts) + Counter(masked_title.counts))
    if known == "unmapped":
        counts["unmapped_sections"] = {category: 1}
    outcome = replace(document, text=split, title=masked_title.text, category=category)
    return CleanedDocument(outcome, None, cleaned, counts, language)


def _limits_of(shares: Mapping[str, float], language: Language, limits: Limits) -> Limits:
    """Return the limits of a document whose languages are known."""
    if is_other_than_korean(shares, language):
        return limits.model_copy(update=NOT_KOREAN)
    return limits.model_copy(update={"min_hangul_share": 0.0}) if limits.min_hangul_share is None else limits


def _category(section: str, categories: CategoryMap | None) -> tuple[str, str]:
    section = normalise(section).text.replace("\n", " ")
    if not section:
        return "", "missing"
    if categories is None:
        return section, "as_is"
    category = categories.category(section)
    return (section, "unmapped") if category is None else (category, "mapped")


def _clean_shard(spec: CleanSpec, path: Path, index: int, out_dir: Path) -> Stats:
    totals: Stats = {}
    rules = Rules.of(spec)
    log = TableWriter(out_dir / f"removals-{index:05d}.arrow", _REMOVALS_SCHEMA)
    languages = TableWriter(out_dir / f"languages-{index:05d}.arrow", _LANGUAGES_SCHEMA)
    sample = SentenceSample(out_dir, index, spec.agreement_documents if spec.sentences != "none" else 0)
    with DocumentShard(out_dir, index) as shard, log, languages:
        for document in read_documents(path):
            outcome = clean_document(document, spec, rules)
            totals = sum_stats([totals, outcome.counts])
            for removal in outcome.cleaned.removals:
                log.append((document.id, removal.rule, removal.zone, removal.start, removal.text))
            if outcome.language is not None:
                languages.append((document.id, *outcome.language))
            if outcome.drop is None:
                shard.keep(outcome.document)
                sample.add(document.id, outcome.cleaned.text)
            else:
                shard.drop(document, outcome.drop)
    sample.write()
    return {**shard.stats, **totals}


def read_removals(path: Path) -> dict[str, list[Removal]]:
    """Return the removals of each document id, in the order of deletion; empty if there is no file."""
    found: dict[str, list[Removal]] = {}
    for name, *removal in read_rows(path, _REMOVALS_SCHEMA) if path.exists() else ():
        found.setdefault(name, []).append(Removal(*removal))
    return found


class _SentenceAgreement(Statistics):
    """How far the sentence rules and Kiwi agree on a sample; see ``sentences.compare``."""

    documents: int
    both: int
    """Boundaries that both find."""
    rules_only: int
    kiwi_only: int
    f1: Real


class CleanStats(DocumentStats):
    """Statistics of cleaning."""

    removed: dict[str, int] = Field(default_factory=dict)
    """Spans that the news rules removed, by rule."""
    removed_characters: int = 0
    normalized: dict[str, int] = Field(default_factory=dict)
    """Characters, by kind."""
    masked: dict[str, int] = Field(default_factory=dict)
    """Spans, by kind of personal data."""
    sentences_out: int = 0
    languages: dict[str, int] = Field(default_factory=dict)
    """Documents by main language, if languages are detected: those kept, and those dropped by their language or by what comes
    after it."""
    sentence_agreement: _SentenceAgreement | None = None
    """None if sentences are not split, or no sample is requested."""
    sections: dict[str, int] = Field(default_factory=dict)
    """Documents whose section is ``mapped``, ``unmapped``, ``missing`` or kept ``as_is``."""
    unmapped_sections: dict[str, int] = Field(default_factory=dict)
    """Documents by the name of the section."""
    with_url: int | None = None
    """Documents with an address; None in artifacts of earlier versions."""


def run(spec: CleanSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> CleanStats:
    """Clean ``documents`` shard by shard.

    Drop reasons: ``listed_url``, ``title_rule``, ``removed_share``, ``removed_spans``, ``language``, those of ``filters``,
    ``listed_word``.
    """
    shards = inputs["documents"].files("documents-*.arrow")
    parts = map_shards(partial(_clean_shard, spec), shards, out_dir=out_dir, runtime=runtime, step="clean")
    nothing = {**NO_DOCUMENTS, "removed": {}, "removed_characters": 0, "normalized": {}}
    nothing |= {"masked": {}, "sentences_out": 0, "sections": {}, "with_url": 0}
    stats = sum_stats([nothing, *parts])
    if spec.agreement_documents and spec.sentences != "none" and stats["documents_out"]:
        sampled = [spec.agreement_documents]
        [stats["sentence_agreement"]] = map_shards(agreement, sampled, out_dir=out_dir, runtime=runtime, step="agreement")
    if warnings := tuple(_warnings(spec, stats)):
        stats["warnings"] = warnings
    return CleanStats.of(stats)


def _warnings(spec: CleanSpec, stats: Stats) -> Iterator[str]:
    if spec.url_lists and stats["documents_in"] and not stats["with_url"]:
        remedy = 'name the field that has it as fields.url in the [extract] table of the source ("metadata.url", for example)'
        yield f"url_lists drop nothing, because no document has a URL: {remedy}"
    for path in without_entries([path.path for path in (*spec.url_lists, *spec.word_lists)]):
        yield f"{path.name} lists nothing: write one entry a line, outside of comments"


def _check(spec: CleanSpec, runtime: Runtime) -> None:
    """Raise ValueError if a language cannot be recognised, a rules file or list cannot be read, or a rule might never end."""
    check_languages(spec.language)
    rules = Rules.of(spec)
    for file in (rules.news, rules.titles):
        if file is not None:
            file.refuse_ruinous()


STAGE = Stage(
    "clean",
    version=29,
    spec=CleanSpec,
    run=run,
    table="clean.SOURCE",
    inputs={"documents": "extract/SOURCE"},
    required=True,
    check=_check,
    deployment=Deployment("Normalise; strip meta tags; filter; split sentences"),
)
