"""The spec of the extract stage: the files of a source, their format, and how its records become documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import InputPath, Names, Spec
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
"""Places where the files of a format can be obtained, for messages about missing ones."""

_JSON = (".json", ".jsonl", ".ndjson")
_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    **dict.fromkeys(("json", "jsonl", "news", "namuwiki"), _JSON),
    **dict.fromkeys(("csv", "books"), (".csv", ".tsv", ".tab", ".txt")),
    "warc": (".warc",),
    "wet": (".wet", ".warc"),
}
"""Formats whose files have endings of their own. In a directory with such files all others are something else: README.md,
``.gitattributes``."""
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_DESCRIPTIONS = frozenset(("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"))
"""Files of the package datasets that describe the others."""


def has_ending(name: str, format: str) -> bool | None:
    """Whether a file, packed or not, is named as those of a format are; None for a format whose files may have any name."""
    if format not in _ENDINGS:
        return None
    bare = name.lower()
    packed = next((ending for ending in _PACKED if bare.endswith(ending)), "")
    return bare.removesuffix(packed).endswith(_ENDINGS[format]) and bare.rpartition("/")[2] not in _DESCRIPTIONS


_DROPPED_SECTIONS = (
    *("같이 보기", "함께 보기", "각주", "주석", "내용주"),
    *("각주와 참고 문헌", "각주 및 참고 문헌", "외부 링크", "바깥 고리", "외부 연결"),
    *("참고 문헌", "참고 자료", "참조", "출처", "관련 문서", "관련 항목"),
)


_Unit = Literal["record", "file", "line"]


class FieldMap(Spec):
    """The fields or columns of a record by meaning; an empty name means that the source has no such field.

    A field set in a recipe must occur in at least one record (a misspelt name is an error, not an empty column).
    """

    text: Names = ("text",)
    """The body. Several fields are joined as paragraphs; a record without the first one goes to quarantine."""
    title: str = "title"
    """The headline, or an article's name."""
    outlet: str = "outlet"
    """The newspaper, publisher or site."""
    category: str = "category"
    """The section as the source names it; ``category_map`` of the clean stage makes it one of ours."""
    url: str = "url"
    """The address."""
    published: str = "published"
    """Date or time of publication."""
    id: str = "id"
    """The source's own identifier; records without one are named by file and position. Records with one identifier share a
    document id, by which drops, removals and copies are listed."""
    required: tuple[str, ...] = ()
    """Names of this table (``title``, ``published``, …) without which a record goes to quarantine; ``text`` always is."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every field or column that is read."""
        return (*self.text, self.id, self.title, self.outlet, self.category, self.url, self.published)


class WikiOptions(Spec):
    """How wiki markup becomes text; meant for MediaWiki and NamuWiki alike unless said otherwise."""

    later: ClassVar[frozenset[str]] = frozenset({"expand_templates"})

    headings: bool = True
    """Keep headings of sections that have text as lines of their own; without, they are only paragraph boundaries."""
    dropped_sections: tuple[str, ...] = _DROPPED_SECTIONS
    """Headings whose section is left out, up to the next heading of the same or a higher level."""
    keep_tables: bool = False
    """Cells joined by a space, one row a line."""
    keep_strikethrough: bool = False
    """Struck text is deleted text or a joke (NamuWiki); by default it is removed."""
    keep_footnotes: bool = False
    """Footnotes as lines at the end of the paragraph that cites them."""
    math_placeholder: str = "{formula}"
    """Replacement of a formula; ``{formula}`` in it is its text (a/b for ``\\frac{a}{b}``). Empty: nothing."""
    inline_templates: dict[str, Annotated[int, Field(ge=1)] | str] = Field(default_factory=dict)
    """MediaWiki: further templates that show text, name → number of the argument that they show (from 1), or a pattern:
    ``{1}[ ({name})]``, in brackets what is shown only if the template has that argument."""
    expand_templates: bool = False
    """MediaWiki: expand templates within a line by the dump's own pages, which must be in it (``pages-articles``);
    the dump is read twice. Templates that need Lua, or show more than a line, stay out. ``{{KOR}}`` shows its country where the
    dump has no page for it, too."""


class ExtractSpec(Spec):
    """One source of raw text."""

    later: ClassVar[frozenset[str]] = frozenset({"columns", "quoted", "exclude", "skip_rows"})

    source: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    """Name of the source in the recipe; part of every document's id."""
    format: Format
    """
    mediawiki: XML dump. wikiextractor: ``<doc …>`` files. namuwiki: JSON dump (one array, or one object a file).
    news, json: one JSON array, one object, or one object a line. jsonl: one object a line. news_text: ``title<TAB>body`` files.
    csv, books: CSV with a header. parquet: one document a row. text: plain text or Markdown. html: files of one page each.
    warc: pages of a crawl, WARC files. wet: texts of pages, conversion records of WARC files, as Common Crawl's WET files have
    them; their fields are text, url, date, languages and id.
    """
    paths: tuple[InputPath, ...] = ()
    """Files, archives and directories, read in this order; none for a source that a crawl or fetch of the same name brings. In
    directories links are followed; in archives they are not read."""
    members: str = "*"
    """fnmatch pattern on paths within archives and directories (``*`` also matches ``/``). Of a directory, or a fetch, ``*``
    means the files with the format's endings where there are any (parquet, jsonl, csv, json, warc, wet): not its README.md.
    What macOS packs beside each file (``._1.txt``, ``__MACOSX/``) is never read."""
    exclude: tuple[str, ...] = ()
    """Such patterns of files that ``members`` matches and that are not read."""
    encoding: Literal["utf-8", "utf-8-sig", "utf-16", "cp949", "euc-kr", "auto"] = "utf-8"
    """
    A byte order mark is always skipped. auto: UTF-8, else CP949, decided for each file by its first non-ASCII bytes. utf-16: in
    the order of its byte order mark; positions in messages are those of the same text in UTF-8. Pages of
    html and warc are each decoded by what header, page and bytes say; an encoding that is set counts as the header of html.
    """
    document: _Unit = Field(default_factory=lambda data: "file" if data["format"] == "text" else "record")
    """
    file: each file is one document; in json, jsonl and news each record is then a paragraph of it (film reviews). record: each
    record is one document; in text, each paragraph. line: each line of text is one document. The default is file for text, and
    record for all other formats.
    """
    license: str = ""
    """Terms under which the text may be used; recorded in the manifest."""
    fields: FieldMap = FieldMap()
    """Columns of csv, books and parquet, fields of json, jsonl, wet and news (whose category is in ``section`` unless set),
    front matter of text."""
    outlet: str = ""
    """Outlet of documents that do not name theirs."""
    category: str = ""
    """Category of documents that do not name theirs."""
    category_by_folder: dict[str, str] = Field(default_factory=dict)
    """Folder name → category, for files that are in folders by category; a folder not named here is its own category."""
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    """Between the columns of csv and books."""
    columns: tuple[str, ...] = ()
    """Names of the columns of csv and books whose files have no header line."""
    skip_rows: int = Field(default=0, ge=0)
    """Rows of csv and books before the header, or where there is none before the first record: a title, or Excel's ``sep=;``.
    Empty lines do not count."""
    quoted: bool = True
    """Fields of csv and books in quotation marks may hold delimiters and line breaks (RFC 4180). false: quotation marks are
    text, and each line is a row, as in most .tsv files."""
    markdown: bool = False
    """Strip Markdown's marks from text."""
    wiki: WikiOptions = WikiOptions()
    """How wiki markup becomes text."""
    article_namespaces: tuple[str, ...] = ("0", "")
    """NamuWiki: values of ``namespace`` that mean an article. Which other codes exist is not documented, so a dump whose most
    frequent value is none of these is an error rather than an empty corpus."""
    limits: ReadLimits = ReadLimits()
    """Limits of decompression, against archives made to exhaust memory or disk."""
    max_bad_share: float = Field(default=0.05, ge=0, le=1)
    """Largest share of quarantined records; above it the stage fails and names the first five."""
    bad_share_applies_from: int = Field(default=20, ge=1)
    """Records below which no share is too large, but for the whole: a source of which nothing can be read always fails."""
    shard_bytes: int = Field(default=8 << 20, ge=1024)
    """Raw bytes of one shard; the unit of parallel work and of resuming."""

    @field_validator("delimiter", mode="before")
    @classmethod
    def _one_character(cls, given: object) -> object:
        if isinstance(given, str) and len(given) != 1:
            raise ValueError(r'a delimiter is one character; a tab is "\t"')
        return given

    @model_validator(mode="after")
    def _fits_format(self) -> ExtractSpec:
        if self.document == "file" and self.format not in ("json", "jsonl", "news", "text"):
            raise ValueError(f'document = "file" needs format json, jsonl, news or text, not {self.format}')
        if self.document == "line" and self.format != "text":
            raise ValueError(f'document = "line" needs format text, not {self.format}')
        if self.columns and self.format not in ("csv", "books"):
            raise ValueError(f"columns names those of csv and books, not of {self.format}")
        if self.skip_rows and self.format not in ("csv", "books"):
            raise ValueError(f"skip_rows is about csv and books, not {self.format}")
        if not self.quoted and self.format not in ("csv", "books"):
            raise ValueError(f"quoted is about csv and books, not {self.format}")
        if self.category_by_folder and self.category:
            raise ValueError("set category or category_by_folder, not both")
        if self.wiki.expand_templates and self.format != "mediawiki":
            raise ValueError(f"wiki.expand_templates needs the templates of a dump, format mediawiki, not {self.format}")
        known = set(FieldMap.model_fields) - {"required"}
        unknown = sorted(set(self.fields.required) - known)
        if unknown:
            raise ValueError(f"fields.required names {unknown}, known are {sorted(known)}")
        return self

    @property
    def field_map(self) -> FieldMap:
        """``fields`` with the format's own defaults."""
        if self.format == "news" and "category" not in self.fields.model_fields_set:
            return self.fields.model_copy(update={"category": "section"})
        return self.fields
