"""Damaged real documents for a parser: it must not raise, hang, lose a document or leave paired marks in the text.

python -m bench.mutations NAME [FILE ...] [--count 10000] [--seed 1] [--members PATTERN]: NAME is a key of ``SUBJECTS``; FILEs
hold documents in its format (default: the sample corpus or golden pages, if they have that format). Each document gets one to
eight edits: a span is deleted, doubled, moved or cut off, or a mark is inserted, once or up to a thousand times. Exits with 1
if a document raises, takes longer than 10 s, leaves a paired mark or is lost.
"""

from __future__ import annotations

import html
import io
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bench.common import files, options
from korealbert.corpus.extract import frame, parse
from korealbert.corpus.readers.records import Outcome, Tally
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document
from korealbert.documents.streams import RawFile, ReadLimits

ROOT = Path(__file__).parents[1]
MAX_SECONDS = 10
MAX_CHARS = 60_000
"""Longer documents are cut, so that ten thousand take minutes. Pages have another limit: their first half is not text."""
MAX_PAGE_CHARS = 400_000

PAIRS = ("[[", "]]", "{{", "}}", "'''", "||", "<ref")
WIKI_MARKS = (
    *("[[", "]]", "{{", "}}", "{{{", "}}}", "|", "||", "'''", "''", "[[파일:", "[[분류:", "{{lang|en|", "\n{|"),
    *("\n|-", "\n|}", "\n! "),
    *("<ref>", "</ref>", '<ref name="a"/>', "<ref", "<!--", "-->", "<nowiki>", "</nowiki>", "<math>", "</math>", "<s>", "<br>"),
    *("\n== 절 ==\n", "=", "\n* ", "\n", "\n\n", "-{", "}-", "[https://a.example ", "https://", "]", "("),
    *(")", "&amp;lt;", "&#0;", "__목차__"),
    *("\0", "\x01", "\ufdd0", "\ud800", "\u200b", "\r\n", "\u3000"),
)


NAMU_MARKS = (
    *("[[", "]]", "{{{", "}}}", "|", "||", "'''", "''", "~~", "--", "__", "^^", ",,", "[*", "[* ", "[", "]", "\\", "&lt;", ">"),
    *("[[파일:", "[[분류:", "[[https://a.example ", "{{{#red ", "{{{+1 ", "{{{#!html ", "{{{#!syntax a\n"),
    *("{{{#!folding 제목\n", '{{{#!wiki style="a"\n', "[include(", ")]", "[br]", "[math(", "<math>", "</math>", "[목차]"),
    *("[ruby(강,ruby=江)]", "<-2>"),
    *("\n||", "||\n", "\n|가||", "\n== 절 ==\n", "\n==# 접힌 절 #==\n", "\n * ", "\n> ", "\n## 주석\n", "\n----\n"),
)
HTML_MARKS = (
    *("<", ">", "</", "/>", "<p>", "</p>", "<div>", "</div>", '<div class="', "<br>", "<ul><li>"),
    *("</ul>", "<table><tr><td>", "</table>"),
    *("<article>", "</article>", "<body>", "</body>", "</html>", "<head>", "</head>", "<h1>"),
    *("<a href='", "<b>", "<blockquote>"),
    *("<!--", "-->", "<![CDATA[", "]]>", "<?xml version='1.0' encoding='euc-kr'?>", "<!DOCTYPE a>"),
    *("<svg>", "<noscript>", "<template>"),
    *("<script>", "</script>", '<script type="application/ld+json">', '{"@type":"NewsArticle",', "["),
    *("]", "{", "}", '"', "'", "\\"),
    *("<style>", "<textarea>", "<title>", "</title>", '<meta charset="euc-kr">'),
    *('<meta property="og:title" content="', "<iframe>"),
    *('<time datetime="', "입력 2019.13.45 25:61", "2019년", "&", "&amp;lt;", "&#0;", "&#x110000;"),
    *("&#xd800;", "&nbsp;", ":T", "self.__next_f.push("),
    *("Fusion.globalContent=", "\0", "\x01", "\ufdd0", "\ud800", "\u200b", "\r\n", "\u3000", "강"),
)


@dataclass(frozen=True)
class Subject:
    """A parser and the documents that it is tested with."""

    format: str
    document: re.Pattern[bytes]
    """Finds the documents of a file; group 1 is what gets damaged."""
    read: Callable[[str], str]
    """Turns what is in the file into a document's source."""
    write: Callable[[str], bytes]
    """Turns a damaged source into a file."""
    marks: tuple[str, ...]
    exactly_one: bool
    """Whether damage never splits a document in two."""
    sample: tuple[str, ...]
    """Patterns of the project's files with such documents."""
    literal: re.Pattern[str] = re.compile("(?!)")
    """Finds syntax that shows marks literally; a source with it may leave paired marks."""
    pairs: tuple[str, ...] = PAIRS
    """Marks that no text may keep, however its source was damaged."""
    max_chars: int = MAX_CHARS


def _as_page(source: str) -> bytes:
    page = f"<page><title>강</title><ns>0</ns><id>1</id><revision><text>{html.escape(source)}</text></revision></page>"
    return f"<mediawiki>\n{_writable(page)}\n</mediawiki>\n".encode()


def _writable(text: str) -> str:
    """Remove characters that XML does not allow."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "", text)


def _as_it_is(source: str) -> str:
    return source


def _as_record(source: str) -> bytes:
    record = {"namespace": "0", "title": "강", "text": source, "contributors": []}
    return json.dumps([record], ensure_ascii=False).encode("utf-8", "surrogatepass")


_ESCAPES = re.compile(r"(?:<|&lt;)nowiki|&[#lrv]", re.IGNORECASE)

SUBJECTS = {
    "namuwiki": Subject(
        "namuwiki",
        re.compile(rb'"text": ?("(?:[^"\\]|\\.)*+")', re.DOTALL),
        lambda string: json.loads(string, strict=False),
        _as_record,
        NAMU_MARKS,
        True,
        ("data_specs/sample/namuwiki.json",),
        re.compile(r"\\|&#?\w+;|\{\{\{(?!#!(?:wiki|folding|html|syntax)\b|#[0-9A-Za-z]+ |[+-][1-5] )"),
        pairs=tuple(pair for pair in PAIRS if pair != "||"),  # which is text within a line
    ),
    "wikipedia": Subject(
        "mediawiki",
        re.compile(rb"<text[^>]*>([^<]*)</text>"),
        html.unescape,
        _as_page,
        WIKI_MARKS,
        True,
        ("data_specs/sample/mediawiki.xml",),
        _ESCAPES,
    ),
    "wikipedia_xml": Subject(
        "mediawiki",
        re.compile(rb"(<page>.*?</page>)", re.DOTALL),
        _as_it_is,
        lambda record: f"<mediawiki>\n{record}\n</mediawiki>\n".encode("utf-8", "surrogatepass"),
        (
            *WIKI_MARKS,
            "<page>",
            "</page>",
            "<text>",
            "</text>",
            "<![CDATA[",
            "]]>",
            "<!DOCTYPE a>",
            "&",
            "&nbsp;",
            "<title>",
            "<id/>",
        ),
        False,
        ("data_specs/sample/mediawiki.xml",),
        _ESCAPES,
    ),
    "wikiextractor": Subject(
        "wikiextractor",
        re.compile(rb"(<doc .*?</doc>)", re.DOTALL),
        _as_it_is,
        lambda record: record.encode("utf-8", "surrogatepass"),
        (*WIKI_MARKS, '<doc id="1" title="강">\n', "</doc>", '"', "(, ", "()"),
        False,
        (),
    ),
    "html": Subject(
        "html",
        re.compile(rb"\A(.+)\Z", re.DOTALL),
        _as_it_is,
        lambda page: page.encode("utf-8", "surrogatepass"),
        HTML_MARKS,
        True,
        ("tests/golden/html/**/*.html",),
        re.compile(""),  # Wiki markup in a page is text.
        max_chars=MAX_PAGE_CHARS,
    ),
}


def documents(subject: Subject, paths: list[Path], members: str) -> list[str]:
    """Return the sources of all documents in some files."""
    found = []
    for _, data in files(paths, members):
        found += [
            subject.read(match[1].decode("utf-8", "replace"))[: subject.max_chars] for match in subject.document.finditer(data)
        ]
    return found


def mutations(sources: list[str], marks: tuple[str, ...], *, count: int, seed: int) -> Iterator[str]:
    """Yield ``count`` damaged documents; the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311
    for _ in range(count):
        text = chance.choice(sources)
        for _ in range(chance.randint(1, 8)):
            text = _damaged(text, marks, chance)
        yield text


def _damaged(text: str, marks: tuple[str, ...], chance: random.Random) -> str:
    at, to = chance.randint(0, len(text)), chance.randint(0, len(text))
    length, mark = chance.randint(1, 60), chance.choice(marks)
    span, rest = text[at : at + length], text[:at] + text[at + length :]
    match chance.choice(("delete", "double", "move", "mark", "mark", "mark", "many", "cut")):
        case "delete":
            return rest
        case "double":
            return text[:to] + span + text[to:]
        case "move":
            return rest[:to] + span + rest[to:]
        case "mark":
            return text[:at] + mark + text[at:]
        case "many":
            return text[:at] + mark * chance.choice((10, 1000)) + text[at:] if chance.random() < 0.2 else rest
        case _:
            return text[: max(at, 1)] if chance.random() < 0.2 else rest


def outcomes(subject: Subject, source: str) -> list[Outcome]:
    """Return what the parser makes of one damaged document."""
    spec = ExtractSpec.model_validate({"source": "a", "format": subject.format, "paths": ["a"]})
    tally, found = Tally(), list[Outcome]()
    for part in frame(spec, RawFile("a", io.BytesIO(subject.write(source)), ReadLimits())):
        found += parse(spec, part, tally)
    return found


def fault(subject: Subject, source: str) -> str:
    """Return what a parser does wrong with a damaged document, or "" if nothing."""
    found = outcomes(subject, source)
    if not found or (subject.exactly_one and len(found) != 1):
        return f"{len(found)} outcomes"
    for outcome in found:
        if isinstance(outcome, Document):
            outcome.text.encode("utf-8")  # A lone surrogate could not be stored.
            if (marks := [mark for mark in subject.pairs if mark in outcome.text]) and not subject.literal.search(source):
                return f"left {marks}"
    return ""


def _too_slow(signal_number: int, where: FrameType | None) -> NoReturn:
    raise TimeoutError(f"longer than {MAX_SECONDS} s")


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("name", choices=sorted(SUBJECTS))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--members", default="*")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    subject = SUBJECTS[given.name]
    paths = given.files or [path for pattern in subject.sample for path in sorted(ROOT.glob(pattern))]
    if not (sources := documents(subject, paths, given.members)):
        parser.error(f"no {subject.format} documents in {[str(path) for path in paths]}: name a file with some")
    print(f"{given.name}: {given.count:,} mutations of {len(sources):,} documents")
    signal.signal(signal.SIGALRM, _too_slow)
    faults, slowest, begun = Counter[str](), (0.0, 0), time.perf_counter()
    for source in mutations(sources, subject.marks, count=given.count, seed=given.seed):
        started = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        try:
            wrong = fault(subject, source)
        except Exception as error:  # Any exception is a fault of the parser.
            wrong = f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = time.perf_counter() - started
        if seconds >= MAX_SECONDS:  # The parser may have caught the error.
            wrong = f"longer than {MAX_SECONDS} s"
        slowest = max(slowest, (seconds, len(source)))
        if wrong:
            faults[wrong] += 1
            if faults[wrong] == 1:
                print(f"{wrong}: {source[:2000]!r}")
    seconds, characters = slowest
    print(f"{sum(faults.values()):,} faults; slowest {seconds * 1000:,.0f} ms ({characters:,} characters)", end="")
    print(f"; {time.perf_counter() - begun:.0f} s in all")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
