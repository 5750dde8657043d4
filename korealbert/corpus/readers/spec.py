"""Defines the spec of the extract stage: the files of a source, their format, and how its records become documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import InputPath, Names, Spec
from korealbert.corpus.normalise import composed
from korealbert.documents.streams import ReadLimits

Format = Literal[
    "mediawiki",
    "wikiextractor",
    "namuwiki",
    "news",
    "news_text",
    "books",
    "csv",
    "jsonl",
    "json",
    "parquet",
    "arrow",
    "text",
    "html",
    "warc",
    "wet",
]

ORIGINS: Mapping[str, str] = {
    "mediawiki": "dumps are at https://dumps.wikimedia.org (kowiki: Korean, enwiki: English; …-pages-articles.xml.bz2)",
    "wikiextractor": "WikiExtractor makes such files of a dump from https://dumps.wikimedia.org",
    "namuwiki": "dumps are at https://archive.org/search?query=namuwiki",
    "news": "articles are the newspapers' own; [crawl.SOURCE] takes them from the web (korealbert-web.toml)",
    "books": "introductions are the publishers' own; [crawl.SOURCE] takes them from the web (korealbert-web.toml)",
    "warc": "[crawl.SOURCE] makes such files",
    "wet": "Common Crawl has them (https://commoncrawl.org/get-started, wet.paths.gz)",
}
"""Where files of a format can be obtained, for messages about missing files."""

_JSON = (".json", ".jsonl", ".ndjson")
_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    **dict.fromkeys(("json", "jsonl", "news", "namuwiki"), _JSON),
    **dict.fromkeys(("csv", "books"), (".csv", ".tsv", ".tab", ".txt")),
    "warc": (".warc",),
    "wet": (".wet", ".warc"),
}
"""Suffixes of a format. In a directory with such files, other files (README.md, ``.gitattributes``) are not read."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
DUMP_PART = r"-p\d+p\d+"
"""Pages in the name of a part of Wikipedia's dumps, between its format and packing: ``….xml-p1p82407.bz2``."""
_NOTES = re.compile(
    rf"(readme|licen[cs]e)([._-]?[a-z]{{2}})?(\.(txt|md|html?))?|copying|notice|changes|_success|checksums|(md5|sha(1|256|512))sums?"
    rf"|.*-multistream-index\d*\.txt({DUMP_PART})?(\.bz2)?|dataset_(infos?|dict)\.json|state\.json",
    re.IGNORECASE,
)


def is_note(name: str) -> bool:
    """Return whether a file describes others by its name: ``README.ko.md``, ``LICENSE``, ``MD5SUMS``, the index of a Wikipedia
    dump, ``dataset_info.json`` of the package datasets."""
    return _NOTES.fullmatch(name.rpartition("/")[2]) is not None


def has_ending(name: str, format: str) -> bool | None:
    """Return whether a file, compressed or not, has a suffix of the format; None if files of the format may have any name."""
    if format not in _ENDINGS:
        return None
    name = name.lower()
    compression = next((suffix for suffix in _COMPRESSED if name.endswith(suffix)), "")
    return name.removesuffix(compression).endswith(_ENDINGS[format]) and not is_note(name)


_DROPPED_SECTIONS = (
    *("같이 보기", "함께 보기", "각주", "주석", "내용주"),
    *("각주와 참고 문헌", "각주 및 참고 문헌", "외부 링크", "바깥 고리", "외부 연결"),
    *("참고 문헌", "참고 자료", "참조", "출처", "관련 문서", "관련 항목"),
)


class FieldMap(Spec):
    """Names of the fields or columns of a record; an empty name means that the source has no such field.

    A field within another has the names that lead to it, with dots: ``meta.title``; within a list, that of each record of the
    list (``turns.text``). A field that itself has a dot in its name comes first.

    A field that a recipe names must occur in at least one record; otherwise the name is misspelt, which is an error.
    """

    text: Names = Field(default=("text",), min_length=1)
    """The body. Several fields are joined as paragraphs, and so are the texts of a list; a record without the first one is
    quarantined."""
    title: str = "title"
    """The headline, or an article's name."""
    outlet: str = "outlet"
    """The newspaper, publisher or site."""
    category: str = "category"
    """The section as the source names it; ``category_map`` of the clean stage makes it one of ours."""
    url: str = "url"
    """The address."""
    published: str = "published"
    """Date or time of publication: 2020-03-03, 2020.03.03. 오후 3:10, 20200303, Tue, 03 Mar 2020 10:00:00 +0900 (RFC 2822), or
    a Unix time from 1990 to 2100 in seconds, milli-, micro- or nanoseconds, which is read as UTC."""
    id: str = "id"
    """The source's own identifier; by default file and position of the record. Records with the same identifier have the same
    document id, under which drops, removals and copies are listed."""
    required: tuple[str, ...] = ()
    """Fields of this table (``title``, ``published``, …) without which a record is quarantined; ``text`` is always required."""

    @field_validator("*")
    @classmethod
    def _composed(cls, given: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """Compose names, whose syllables some systems write as separate letters; those of records are composed too."""
        return composed(given) if isinstance(given, str) else tuple(map(composed, given))

    @property
    def names(self) -> tuple[str, ...]:
        """All fields or columns that are read."""
        named = (*self.text, self.id, self.title, self.outlet, self.category, self.url, self.published)
        return tuple(filter(None, named))


class WikiOptions(Spec):
    """How wiki markup becomes text, for MediaWiki and NamuWiki unless stated otherwise."""

    later: ClassVar[frozenset[str]] = frozenset({"expand_templates"})

    headings: bool = True
    """Keep headings of sections with text as separate lines. false: headings only separate paragraphs."""
    dropped_sections: tuple[str, ...] = _DROPPED_SECTIONS
    """Headings of sections that are removed, up to the next heading of the same or a higher level."""
    keep_tables: bool = False
    """Keep tables, with one line for each row and a space between cells."""
    keep_strikethrough: bool = False
    """Keep struck text, which is deleted text or a joke (NamuWiki)."""
    keep_footnotes: bool = False
    """Keep footnotes as lines at the end of the paragraph that cites them."""
    math_placeholder: str = "{formula}"
    """Replacement of a formula, in which ``{formula}`` is its text (a/b for ``\\frac{a}{b}``). Empty: formulas are removed."""
    inline_templates: dict[str, Annotated[int, Field(ge=1)] | str] = Field(default_factory=dict)
    """MediaWiki: further templates that show text. Name → number of the argument that is shown (from 1), or a pattern such as
    ``{1}[ ({name})]``, whose part in brackets is shown only if the template has that argument."""
    expand_templates: bool = False
    """MediaWiki: expand templates within a line from the template pages of the dump (``pages-articles`` has them); the dump is
    read twice. Templates that need Lua, or show more than a line, are removed. ``{{KOR}}`` shows its country even if the dump
    has no page for it."""


_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class ExtractSpec(Spec):
    """One source of raw text."""

    later: ClassVar[frozenset[str]] = frozenset({"columns", "quoted", "exclude", "skip_rows"})

    source: str
    """Name of the source in the recipe; part of every document's id."""
    format: Format
    """
    mediawiki: XML dump. wikiextractor: ``<doc …>`` files. namuwiki: JSON dump (one array, or one object in each file).
    news, json: one JSON array, one object, or one object in each line. jsonl: one object in each line. news_text:
    ``title<TAB>body`` files. csv, books: CSV with a header. parquet: one document in each row. arrow: the same in Arrow files,
    as ``save_to_disk`` of the package datasets writes them. text: plain text, Markdown, or subtitles (SubRip, WebVTT, SAMI),
    whose times are left out. html: one page in each file. warc: WARC files with the pages of a crawl. wet: Common Crawl's
    WET files, that is WARC files with the texts of pages (conversion records), whose fields are text, url, date, languages
    and id. Records of other types count as dropped (``other_record_type``), but for warcinfo, request and metadata.
    """
    paths: tuple[InputPath, ...] = ()
    """Files, archives and directories, read in this order; empty if a crawl or fetch of the same name provides the files. Links
    are followed in directories, but not in archives."""
    members: str = "*"
    """fnmatch pattern on paths within archives and directories, and on names of fetched files (``*`` also matches ``/``). In a
    directory or a fetch, ``*`` selects only files with a suffix of the format, if there are any (parquet, arrow, jsonl, csv,
    json, warc, wet), so not README.md. Hidden files and folders (``.part.parquet``, ``.ipynb_checkpoints/``) are read only if a
    part of the pattern begins with a dot; the files that macOS adds to archives (``._1.txt``, ``__MACOSX/``) never."""
    exclude: tuple[str, ...] = ()
    """fnmatch patterns of files that are not read although ``members`` matches them."""
    encoding: Literal["utf-8", "utf-8-sig", "utf-16", "cp949", "euc-kr", "auto"] = "utf-8"
    """
    A byte order mark is always skipped. auto: UTF-8, else CP949, decided for each file by its first non-ASCII bytes. utf-16:
    the byte order mark states the order; positions in messages are those of the same text in UTF-8. For html and warc, HTTP
    header, page and bytes decide; for html, an encoding that is set here counts as the header.
    """
    document: Literal["record", "file", "line"] = Field(
        default_factory=lambda data: "file" if data["format"] == "text" else "record"
    )
    """
    file: each file is one document; in json, jsonl and news each record is a paragraph of it (film reviews). record: each
    record is one document; in text, each paragraph. line: each line of text is one document. The default is file for text, and
    record for all other formats.
    """
    license: str = ""
    """Terms under which the text may be used; recorded in the manifest."""
    fields: FieldMap = FieldMap()
    """Columns of csv, books, parquet and arrow, fields of json, jsonl, wet and news (whose category is in ``section`` by
    default), entries of the front matter of text."""
    outlet: str = ""
    """Outlet of documents that do not name theirs."""
    category: str = ""
    """Category of documents that do not name theirs."""
    category_by_folder: dict[str, str] = Field(default_factory=dict)
    """Folder → category, if files are in folders by category; for other folders the category is the name of the folder."""
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    """Separates the columns of csv and books."""
    columns: tuple[str, ...] = ()
    """Names of the columns of csv and books whose files have no header line."""
    skip_rows: int = Field(default=0, ge=0)
    """Number of rows of csv and books to skip before the header or the first record: a title, or Excel's ``sep=;``. Empty lines
    do not count."""
    quoted: bool = True
    """Fields of csv and books in quotation marks may hold delimiters and line breaks (RFC 4180). false: quotation marks are
    text, and each line is a row, as in most .tsv files."""
    markdown: bool = False
    """Remove Markdown's marks; for format text."""
    wiki: WikiOptions = WikiOptions()
    """How wiki markup becomes text."""
    article_namespaces: tuple[str, ...] = ("0", "")
    """NamuWiki: values of ``namespace`` that mean an article. Which other codes exist is not documented, so it is an error if
    the most frequent value of a dump is not among these."""
    limits: ReadLimits = ReadLimits()
    """Limits of decompression, against archives made to exhaust memory or disk."""
    max_bad_share: float = Field(default=0.05, ge=0, le=1)
    """Largest share of quarantined records, and of files of which nothing can be read (empty ones aside); above it the stage
    fails and names the first five. A file that is seen to end within a record, or whose rest is damaged and not read, counts as
    half."""
    bad_share_applies_from: int = Field(default=20, ge=1)
    """With fewer records no share is too large, except that a source without any readable record fails unless ``max_bad_share``
    is 1."""
    shard_bytes: int = Field(default=8 << 20, ge=1024)
    """Raw bytes of one shard, the unit of parallel work and of resuming."""

    @field_validator("source")
    @classmethod
    def _source(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("a name has small Latin letters, digits and . _ -, because it is part of every document's id")
        return name

    @field_validator("category_by_folder")
    @classmethod
    def _composed_folders(cls, given: dict[str, str]) -> dict[str, str]:
        return {composed(folder): category for folder, category in given.items()}

    @field_validator("delimiter", mode="before")
    @classmethod
    def _one_character(cls, given: object) -> object:
        if isinstance(given, str) and (len(given) != 1 or not given.isascii()):
            raise ValueError(r'a delimiter is one ASCII character; a tab is "\t"')
        return given

    @model_validator(mode="after")
    def _fits_format(self) -> ExtractSpec:
        if self.document == "file" and self.format not in ("json", "jsonl", "news", "text"):
            raise ValueError(f'document = "file" needs format json, jsonl, news or text, not {self.format}')
        if self.document == "line" and self.format != "text":
            raise ValueError(f'document = "line" needs format text, not {self.format}')
        for name, is_set in (("columns", self.columns), ("skip_rows", self.skip_rows), ("quoted", not self.quoted)):
            if is_set and self.format not in ("csv", "books"):
                raise ValueError(f"{name} is about csv and books, not {self.format}")
        if self.markdown and self.format != "text":
            raise ValueError(f"markdown is about text, not {self.format}")
        if self.category_by_folder and self.category:
            raise ValueError("set category or category_by_folder, not both")
        if self.wiki.expand_templates and self.format != "mediawiki":
            raise ValueError(f"wiki.expand_templates needs the templates of a dump, format mediawiki, not {self.format}")
        known = set(FieldMap.model_fields) - {"required"}
        if unknown := sorted(set(self.fields.required) - known):
            raise ValueError(f"fields.required names {unknown}, known are {sorted(known)}")
        return self

    @property
    def field_map(self) -> FieldMap:
        """``fields`` with the format's own defaults."""
        if self.format == "news" and "category" not in self.fields.model_fields_set:
            return self.fields.model_copy(update={"category": "section"})
        return self.fields
