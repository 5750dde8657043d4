"""Which field or column of records holds the text, and which ones title, date and the like."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from korealbert.corpus.readers.records import field_of

NAMUWIKI = {"namespace", "title", "text"}
"""Fields that identify the records of NamuWiki's dumps."""
TEXT_NAMES = ("text", "본문")
"""A column of this name is the text unless another one has ten times as much prose (``_MIN_TEXT_SHARE``)."""
_NAMES_BY_ROLE: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "headline", "subject", "제목", "기사제목"),
    "outlet": ("outlet", "publisher", "source", "언론사"),
    "category": ("category", "section", "topic", "분류"),
    "url": ("url", "link", "주소"),
    "published": ("published", "date", "created_at", "작성일", "날짜"),
    "id": ("id", "doc_id"),
}
_MIN_DIFFERENT_IDS = 0.9
"""Share of the ids of the records looked at; a few records may stand twice."""
_CONTAINERS = ("metadata", "meta")
"""Names of objects whose ``id`` is that of the document; another object's is its own (``author.id``)."""
METADATA_NAMES = {name for names in _NAMES_BY_ROLE.values() for name in names}
BODY_NAMES = {*TEXT_NAMES, "내용", "문장", "기사", "content", "body", "document", "article", "sentence", "review", "comment"}
"""Names of columns that may hold the text. If one is empty in the first records, more records are read."""
KNOWN_NAMES = METADATA_NAMES | BODY_NAMES
NUMBER = re.compile(r"[+-]?[\d.,:/%-]*\d[\d.,:/%-]*")
_HANGUL = re.compile("[가-힣]")
_LETTERS_PER_SYLLABLE = 10
"""A Hangul syllable counts as this many letters of other scripts. So the Korean side of a translation is the text, but a
category in Korean beside an English article is not."""
_MIN_TEXT_SHARE = 0.1
"""A field with a smaller share of another field's prose is not the text."""
_MAX_PROSE_FIELDS = 20
"""Fields with prose in one record. A JSON object with more of them may hold texts by their ids."""
_MIN_PROSE_SHARE = 0.2
"""Columns with a larger share of the text's prose are reported too; an English translation of Korean has about this share."""
_WORDS = re.compile(r"(?<!\S)[^\W\d_]+[.,!?]?(?!\S)")
"""Words of prose; addresses, codes and numbers have none."""


def text_column(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the field or column of strings with the most prose, or "" if none has a word."""
    prose = _prose(records, str)
    if not prose:
        return ""
    name, most = prose.most_common(1)[0]
    named = (name for name in prose if name.lower() in TEXT_NAMES and prose[name] > _MIN_TEXT_SHARE * most)
    return next(named, name if most else "")


def nested_text(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """Find a list or object with more prose than the field of the text, from which no text is taken.

    Returns its name and kind, or "", and whether the field of the text has little prose beside it. Fields of titles, addresses
    and the like always count as little.
    """
    own, nested = _prose(records, (str, list))[text], _prose(records, (list, dict))
    nested.pop(text, None)
    name, amount = next(iter(nested.most_common(1)), ("", 0.0))
    if amount <= own:
        return "", False
    kind = "a list" if any(isinstance(record.get(name), list) for record in records) else "an object"
    return f"{name!r}, {kind}", own < _MIN_TEXT_SHARE * amount or normalized(text) in METADATA_NAMES


def list_of_texts(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the field with the most prose if its values are lists of strings, which are read as paragraphs; else ""."""
    name, amount = next(iter(_prose(records, (str, list, dict)).most_common(1)), ("", 0.0))
    values = [value for record in records if (value := record.get(name)) is not None]
    are_texts = all(isinstance(value, list) and all(isinstance(one, str) for one in value) for value in values)
    return name if amount and are_texts else ""


def further_columns(text: str, records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the other fields or columns that have prose, except those with a role of their own."""
    taken, prose = set(fields_of(text, records).values()), _prose(records, str)
    least = _MIN_PROSE_SHARE * (prose[text] or max(prose.values(), default=0.0))
    return tuple(name for name in prose if name not in taken and prose[name] > least)


def is_one_object(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether JSON objects hold texts by their ids instead of being records.

    Such objects have many fields with prose, more than there are objects, and none of a known name or with most of the prose.
    Their names are numbers, or mostly occur in one object only.
    """
    prose = _prose(records, (str, list, dict))
    if len(prose) <= max(_MAX_PROSE_FIELDS, len(records)) or 2 * max(prose.values()) >= prose.total():
        return False
    are_ids = sum(map(len, records)) < 2 * len(prose) or all(map(NUMBER.fullmatch, prose))
    return are_ids and not any(normalized(name) in KNOWN_NAMES for name in prose)


def _prose(records: Iterable[Mapping[str, Any]], kind: type | tuple[type, ...]) -> Counter[str]:
    """Count the letters of prose in the values of a kind, by field. A syllable counts as ``_LETTERS_PER_SYLLABLE``."""
    found: Counter[str] = Counter()
    for record in records:
        for key, value in record.items():
            if isinstance(value, kind):
                for text in _strings(value):
                    syllables = len(_HANGUL.findall(text))
                    letters = sum(len(word) for word in _WORDS.findall(text) if not _HANGUL.search(word))
                    found[str(key)] += _LETTERS_PER_SYLLABLE * syllables + letters
    return found


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value. The parser limits how deeply it is nested."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def fields_of(text: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the field or column of each role, "" if there is none; ``Doc ID`` matches ``doc_id``. Fields of objects come after
    those of records: ``metadata.url``.

    A column that mostly holds bytes which are not characters, as binary ids are, has no role, nor have ids that repeat, as
    those of files that each count from 0.
    """
    balance: Counter[str] = Counter()
    for record in records:
        balance.update({str(key): -1 if isinstance(value, bytes) else 1 for key, value in record.items()})
    columns: dict[str, str] = {}
    for key, more in balance.items():
        if key != text and more > 0:
            columns.setdefault(normalized(key), key)
    roles = {role: next((columns[name] for name in names if name in columns), "") for role, names in _NAMES_BY_ROLE.items()}
    within = list(dict.fromkeys(_fields_within(records)))
    within.sort(key=lambda pair: normalized(pair[0]) not in _CONTAINERS)
    for role, names in _NAMES_BY_ROLE.items():
        found = (f"{outer}.{inner}" for name in names for outer, inner in within if normalized(inner) == name)
        allowed = (path for path in found if role != "id" or normalized(path.partition(".")[0]) in _CONTAINERS)
        roles[role] = roles[role] or next((path for path in allowed if path != text), "")
    ids = [str(one) for record in records if (one := field_of(dict(record), roles["id"])) is not None]
    if len(set(ids)) < _MIN_DIFFERENT_IDS * len(ids):
        roles["id"] = ""
    return {"text": text} | roles


def _fields_within(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the names of each text or number within an object of a record."""
    for record in records:
        for outer, value in record.items():
            if isinstance(value, dict):
                yield from ((str(outer), str(inner)) for inner, one in value.items() if isinstance(one, str | int | float))


def normalized(name: str) -> str:
    """Return the name of a field in the form of known names: ``doc_id`` for ``Doc ID``."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())
