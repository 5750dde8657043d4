"""Recognises files that are in another format, or another encoding, than the recipe states, by their first bytes."""

import codecs
import json
import re

from korealbert.corpus.readers.json_values import is_json_list

ARROW_REMEDY = (
    "these bytes are Arrow, as save_to_disk of the package datasets writes them, which is not read: write them as Parquet"
    ' (datasets.load_from_disk(DIRECTORY).to_parquet(FILE)) and set format = "parquet"'
)

_WARC = re.compile(rb"WARC/\d\.\d\r?\n")
_PROLOGUE = rb"\s*(?:<\?xml[^>]{0,200}>\s*)?"
_MARKUP = {
    "wikiextractor": re.compile(rb'\s*<doc\s[^>\n]{0,1000}\b(?:id|title|url)="'),
    "mediawiki": re.compile(_PROLOGUE + rb"<mediawiki(?:\s[^>]{0,2000})?>\s*<"),
    "html": re.compile(_PROLOGUE + rb"<(?:!doctype\s+html|html)(?:\s[^>]{0,2000})?>\s*<", re.IGNORECASE),
    "json": re.compile(rb'\s*(?:\[\s*)?\{\s*"[^"\n]{1,200}"\s*:'),
}
"""Beginnings of files that are not plain text, by their format; ``json`` reads JSON Lines too."""
_JSON_ARRAY = re.compile(rb"\s*\[\s*\{")


def looks_like_arrow(first_bytes: bytes) -> bool:
    """Return whether a file begins like an Arrow file or an Arrow stream."""
    return first_bytes.startswith((b"ARROW1", b"\xff\xff\xff\xff"))


def remedy_for(block: bytes, format: str) -> str:
    """Return what to do with a file that begins with ``block`` and is not in this format; empty if it may be.

    The format is empty if it is unknown.
    """
    block = block.removeprefix(codecs.BOM_UTF8)
    first_line, _, others = block.partition(b"\n")
    remedy = ""
    if block.startswith(b"PAR1"):
        remedy = 'these bytes are Parquet: set format = "parquet"'
    elif format in ("warc", "wet"):
        pass
    elif looks_like_arrow(block):
        remedy = ARROW_REMEDY
    elif _WARC.match(block):
        remedy = 'these bytes are WARC: set format = "warc", or format = "wet" if its records are texts (conversion)'
    elif format not in ("", "html") and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        remedy = 'these bytes are UTF-16: set encoding = "utf-16"'
    elif format == "jsonl" and _JSON_ARRAY.match(block) and not (others.strip() and is_json_list(first_line)):
        remedy = 'these bytes are a JSON array: set format = "json"'
    elif format == "text" and (found := next((name for name, begin in _MARKUP.items() if begin.match(block)), "")):
        about_json = found == "json" and _is_text_about_json(block)
        remedy = "" if about_json else f'these bytes are {found}, not plain text: set format = "{found}"'
    return remedy


def _is_text_about_json(block: bytes) -> bool:
    """Return whether a JSON value at the beginning of a file is followed by something else than JSON."""
    text = block.decode("utf-8", "replace").lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # The value is longer than the block, or broken.
        return False
    rest = text[end:].lstrip()
    return bool(rest) and rest[0] not in "{[,"
