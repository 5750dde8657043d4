"""`korealbert extract`: extracts files without a recipe, one JSON-able record for each document.

Files are read and parsed as in the extract stage. Only the current batch is held in memory, and the templates of a dump if they
are expanded. News articles are also cleaned, because their meta tags are usually unwanted.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from korealbert.artifact import InputPath
from korealbert.corpus.clean.stage import CleanSpec, Rules, clean_document
from korealbert.corpus.extract import ExtractionError, check_installed, check_namespaces, parse, raw_parts
from korealbert.corpus.markup.expansion import TemplatePages
from korealbert.corpus.markup.mediawiki import read_templates
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import Dropped, Tally
from korealbert.corpus.readers.spec import ExtractSpec, Format, WikiOptions
from korealbert.documents.schema import Document, Drop, Quarantined

Kind = Literal["wikipedia", "namuwiki", "html", "news"]

_FORMATS: dict[Kind, Format] = {"wikipedia": "mediawiki", "namuwiki": "namuwiki", "html": "html", "news": "news"}

RULES = Path(__file__).parents[1] / "data_specs" / "rules"
"""The rule files of the package."""

_STDIN = Path("/dev/stdin")


@dataclass(frozen=True)
class _Extractor:
    """A source, and the cleaning of its articles if they are news."""

    source: ExtractSpec
    cleaning: CleanSpec | None = None

    def records(self, tally: Tally) -> Iterator[dict[str, Any] | Quarantined]:
        """Yield a record of ``id``, ``title``, ``category``, ``text``, ``dropped`` and ``removed`` for each document.

        ``dropped`` is None, or ``reason`` and ``rule`` if the pipeline would drop the document. ``removed`` lists what its text
        lacks: characters by construct for wiki markup, each span with rule and zone for news.
        """
        check_installed(self.source)
        rules = Rules.of(self.cleaning) if self.cleaning else None
        templates = self._templates() if self.source.wiki.expand_templates else None
        for part in raw_parts(self.source):
            batch = Tally()
            for outcome in parse(self.source, part, batch, templates):
                if isinstance(outcome, Quarantined):
                    yield outcome
                    continue
                document, drop = (outcome.document, outcome.drop) if isinstance(outcome, Dropped) else (outcome, None)
                lost, batch.lost_characters = batch.lost_characters, Counter()
                tally.lost_characters.update(lost)
                if self.cleaning and rules and drop is None:
                    yield _cleaned(document, self.cleaning, rules)
                else:
                    removed = [{"rule": name, "characters": count} for name, count in sorted(lost.items()) if count]
                    yield _record(document, drop, removed)
            tally.namespaces.update(batch.namespaces)

    def _templates(self) -> TemplatePages:
        """Read the templates of the whole dump."""
        parts = (part for part in raw_parts(self.source) if isinstance(part, RawRecords))
        return TemplatePages(dict(pair for part in parts for pair in read_templates(part)))

    def misfit(self, tally: Tally) -> str | None:
        """Return why the options do not fit the source, or None; call it after all records were read."""
        try:
            check_namespaces(self.source, tally.namespaces)
        except ExtractionError as error:
            return str(error)
        return None


def _record(document: Document, drop: Drop | None, removed: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": document.id,
        "title": document.title,
        "category": document.category,
        "text": document.text,
        "dropped": {"reason": drop.reason, "rule": drop.rule} if drop else None,
        "removed": removed,
    }


def _cleaned(document: Document, spec: CleanSpec, rules: Rules) -> dict[str, Any]:
    """Return the record of an article without its meta tags, even if it is dropped, so that ``removed`` fits the text."""
    outcome = clean_document(document, spec, rules)
    removed = [
        {"rule": one.rule, "characters": len(one.text), "zone": one.zone, "text": one.text} for one in outcome.cleaned.removals
    ]
    record = _record(outcome.document, outcome.drop, removed)
    return {**record, "text": outcome.cleaned.text} if outcome.drop else record


def extractor(
    kind: Kind, files: Sequence[Path], *, source: str | None = None, rules: Path = RULES, options: Sequence[str] = ()
) -> _Extractor:
    """Return the extractor of a kind of source.

    The file ``-`` is standard input. ``source`` is part of the documents' ids, which are those of a recipe if its source has
    the same name. ``rules`` is the folder of ``news.toml``, ``titles.toml`` and ``categories.toml``. ``options`` are
    ``KEY=VALUE`` for fields of the extract spec (``encoding=cp949``, ``fields.text=body``), of its ``wiki`` table
    (``keep_tables=true``) and, after ``clean.``, of the clean spec; values are TOML, or else text. Raises ValueError naming a
    wrong option or file, an option that has no effect on this kind of source, and a pipe that would be read twice.
    """
    given: dict[str, Any] = {"source": source or kind, "format": _FORMATS[kind]}
    # As InputPath they may be pipes, which recipes cannot name.
    given["paths"] = [InputPath(_STDIN if str(file) == "-" else file) for file in files]
    cleaning: dict[str, Any] = {"sentences": "none"}
    if kind == "news":
        names = {"news_rules": "news.toml", "title_rules": "titles.toml", "category_map": "categories.toml"}
        cleaning |= {role: str(rules / name) for role, name in names.items()}
        if missing := [path for role in names if not (path := Path(cleaning[role])).is_file()]:
            raise ValueError(f"{missing[0]}: no such file; --rules names the folder of {', '.join(names.values())}")
    for option in options:
        _set_option({"": given, "clean": cleaning}, option)
        _check_option(kind, option.partition("=")[0])
    try:
        spec = ExtractSpec.model_validate(given)
        built = _Extractor(spec, CleanSpec.model_validate(cleaning) if kind == "news" else None)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        message = "there is no such option" if first["type"] == "extra_forbidden" else first["msg"]
        raise ValueError(f"option {name}: {message.removeprefix('Value error, ')}" if name else message) from None
    for one in spec.paths if spec.wiki.expand_templates else ():
        if one.path.exists() and not (one.path.is_file() or one.path.is_dir()):
            raise ValueError(f"{one.path}: expand_templates reads a dump twice, this input can be read once; save it to a file")
    return built


def _check_option(kind: Kind, key: str) -> None:
    """Raise ValueError if an option has no effect on this kind of source."""
    name = key.removeprefix("wiki.").partition(".")[0]
    uses: Sequence[str] = (kind,)
    if name in WikiOptions.model_fields:
        uses = ("wikipedia",) if name == "inline_templates" else ("wikipedia", "namuwiki")
    elif key.startswith("clean."):
        uses = ("news",)
    if kind not in uses:
        raise ValueError(f"option {key}: it is about {' and '.join(uses)}, and has no effect on {kind}")


def _set_option(tables: dict[str, dict[str, Any]], option: str) -> None:
    key, equals, written = option.partition("=")
    if not equals or not key:
        raise ValueError(f"option {option!r}: expected KEY=VALUE, for instance keep_tables=true")
    try:
        value = tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        value = written
    if key in WikiOptions.model_fields:
        key = f"wiki.{key}"
    first, _, rest = key.partition(".")
    table, path = (tables["clean"], rest) if first == "clean" and rest else (tables[""], key)
    *parents, name = path.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ValueError(f"option {option!r}: {parent!r} has no fields")
    table[name] = value
