"""The shape that extracted wiki text has in the corpus: headings, paragraphs, lists; and the repair of what removals leave.

Paragraphs are separated by one blank line. A heading comes after a blank line and directly before its text; a section
without text loses its heading. List items are lines. Also what both wikis share of page names.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from korealbert.corpus.normalise import composed
from korealbert.corpus.readers.records import UNWANTED
from korealbert.corpus.readers.spec import WikiOptions
from korealbert.documents.schema import Drop

_MARKUP = "[]{}|<>'=*#:;&-_~^,\\$!\""
_STAND_INS = "".join(chr(0xFDD0 + index) for index in range(len(_MARKUP)))
_PROTECTED = str.maketrans(_MARKUP, _STAND_INS)
_RESTORED = dict(zip(_STAND_INS, _MARKUP))
_LEAD_BYTES = _STAND_INS[0].encode()[:2]
_ANY_STAND_IN = re.compile("[\ufdd0-\ufdef]")
_ENTITY = re.compile(r"&#?[0-9A-Za-z]{1,32};")


def literal(text: str) -> str:
    """Text that no parser reads as markup."""
    return text.translate(_PROTECTED)


def restore(text: str) -> str:
    """The literal characters themselves again."""
    if text.isascii() or _LEAD_BYTES not in text.encode("utf-8", "surrogatepass"):  # a third of the time of a search for them
        return text
    return _ANY_STAND_IN.sub(lambda found: _RESTORED.get(found[0], ""), text)


def decode_entities(text: str) -> str:
    """HTML entities as literal characters, decoded once (``&amp;lt;`` is ``&lt;``)."""
    return _ENTITY.sub(_decoded, text) if "&" in text else text


def _decoded(entity: re.Match[str]) -> str:
    decoded = html.unescape(entity[0])
    if decoded == entity[0]:
        return decoded
    if decoded.isspace() and decoded != "\n":
        return " "
    return "" if "\0" in decoded or "\ufffd" in decoded else literal(decoded)


LETTER = re.compile(r"[^\W_]")
"""A letter, digit or Hangul."""

GONE = "\x00"
"""Stands where markup was removed: a line of nothing else is not a blank line, so it does not end a paragraph."""

LINE_BREAK = "\x05"
"""A line break within a list item or paragraph (``[br]``, ``<br />``)."""

FOOTNOTE_START, FOOTNOTE_END = "\x01", "\x02"
"""Around the text of a footnote that is kept, where it is cited."""

_PARTICLES = "에서는?|에는?|에도|으?로|을|를|이나?|이다|입니다|가|은|는|와|과|의|도|까지|부터|라고|이라고|처럼|및|등"
_NOT_IN_URL = r"\s<>\[\]{}|\"'()（）〈〉《》「」\0"
_MARK = "[.,;:!?]"
_PLAIN = rf"[^{_NOT_IN_URL}.,;:!?ㄱ-ㆎ가-힣]"
_ANY = rf"[^{_NOT_IN_URL}.,;:!?]"
_HANGUL_PART = (
    rf"(?<=[^/][/=?#&_:])(?!(?:{_PARTICLES})(?![가-힣]))[가-힣](?>(?:{_ANY}++|{_MARK}++(?={_ANY})|(?<=_)\([^\s()]*+\))*)"
)
URL = re.compile(
    rf"(?:https?|ftp|HTTPS?|Https?)://(?>(?:{_PLAIN}++|{_MARK}++(?={_PLAIN})|[?:](?=[가-힣])|(?<=_)\([^\s()]*+\)|{_HANGUL_PART})*)"
)
"""A bare address; it ends before Hangul, because particles follow without a space, unless a part of its path begins there."""

_SCHEME = re.compile("(?:https?|ftp|HTTPS?|Https?)$")
_UNWANTED_OR_BLANK = re.compile(f"[\t\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000{UNWANTED.pattern[1:-1]}]")
_PLAIN_ASCII = bytes(range(0x20, 0x7F))
_COMBINING = re.compile("[\u0300-\u036f]")
"""All that compose with an ASCII character before them."""
_BLANKS = re.compile("   *")
"""Two spaces and more; written so, it begins with a literal of two, which takes a quarter of the time of `` {2,}``."""
# A search for a pattern that begins with one character runs as fast as C finds that character, which is rarer than a space: so
# these begin with their last character and look back. A substring test takes two to four times as long.
_EMPTY_START = re.compile(r"\([ ,;:()]")
_TRAILING = re.compile(r"\)(?<=[ ,;]\))")
_DOUBLE_SEPARATORS = (re.compile(",(?<=[,;] ,)"), re.compile(";(?<=[,;] ;)"))
_LATE_STOPS = (re.compile(r",(?<= ,)(?=[ \n]|\Z)"), re.compile(r"\.(?<= \.)(?=[ \n]|\Z)"))
_EDGE = re.compile(r"\n(?:(?<= \n)|(?= ))")
_EMPTY = re.compile(r"\([ ,;()]+")
_LEADING = re.compile(r"\((?:[ ,;]|:(?=[ ,;:][^()\n]*+\)))+")
_NAMELESS = re.compile(r": ?(?=[,;)])")
_LABEL = re.compile(r"(?:(?<=\()(?: ?[^\s(),;:.]{1,14}){1,2}|(?<=[,;]) ?[가-힣]{1,8}(?:어|자|음|체|말|명)) ?$")
_LABEL_CHARS = 34
_STRANDED = re.compile(r"\n[,;] ?(?=\S)")
_DOUBLED = re.compile(r"([,;])(?>(?: [,;])+)")
_MARKS = re.compile(r"[\[\]{}|']{2,}")
_PAIRS = ("[[", "]]", "{{", "}}", "||", "'''", "<ref")
_FOOTNOTE = re.compile(f"{FOOTNOTE_START}([^{FOOTNOTE_START}{FOOTNOTE_END}]*){FOOTNOTE_END}")


@dataclass(frozen=True, slots=True)
class WikiText:
    """The text of a wiki page and facts about it."""

    text: str
    lost: Counter[str]
    """Source characters left out, by construct: template, table, footnote, math, file, section, …"""
    redirect: bool = False
    disambiguation: bool = False


class Prose:
    """Takes headings, lines and paragraph breaks in order, gives the text."""

    def __init__(self, options: WikiOptions, lost: Counter[str]) -> None:
        self._lines: list[str] = []
        self._waiting: list[tuple[int, str]] = []  # headings whose section has no text yet
        self._headings, self._lost = options.headings, lost
        self._dropped_sections = {name.replace(" ", "") for name in options.dropped_sections}
        self._dropping_level = 0
        self._break = False
        self._footnotes: list[str] = []

    def heading(self, level: int, title: str) -> None:
        """A heading of a level from 1 (highest)."""
        self.paragraph_break()
        if self._dropping_level and level > self._dropping_level:
            return
        self._dropping_level = 0
        while self._waiting and self._waiting[-1][0] >= level:
            self._waiting.pop()
        if title.replace(" ", "") in self._dropped_sections:  # 참고문헌 is 참고 문헌
            self._dropping_level = level
        elif title:
            self._waiting.append((level, title))

    def line(self, text: str) -> None:
        """A line of a paragraph or list, trimmed and not blank."""
        self.lines((text,))

    def lines(self, texts: Sequence[str]) -> None:
        """Lines in a row, or paragraphs with an empty line between them."""
        if self._dropping_level:
            self._lost["section"] += sum(map(len, texts))
            return
        if self._waiting:
            self._open_sections()
        elif self._break and self._lines:
            self._lines.append("")
        self._break = False
        self._lines += texts

    def _open_sections(self) -> None:
        for _, title in self._waiting if self._headings else ():
            if self._lines:
                self._lines.append("")
            self._lines.append(title)
        if not self._headings and self._lines:
            self._lines.append("")
        self._waiting.clear()

    def hold_footnotes(self, line: str) -> str:
        """A line without the footnotes in it, which are held back to the end of the paragraph."""
        if FOOTNOTE_START in line or FOOTNOTE_END in line:
            self._footnotes += [note.strip() for note in _FOOTNOTE.findall(line) if LETTER.search(note)]
            line = _FOOTNOTE.sub("", line).replace(FOOTNOTE_START, "").replace(FOOTNOTE_END, "").strip()
        return line

    def paragraph_break(self) -> None:
        """A blank line in the source."""
        for text in self._footnotes:
            self._break = False
            self.line(text)
        self._footnotes.clear()
        self._break = True

    def text(self) -> str:
        """Everything, lines joined."""
        self.paragraph_break()
        return "\n".join(self._lines)


def prepare(source: str) -> str:
    """Markup as the parsers want it: NFC, line feeds, one kind of blank, none of the characters that the parsers use as
    marks."""
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    begin = source[:500]
    if len(begin.encode("utf-8", "surrogatepass")) <= 1.1 * len(begin):
        return _prepare_latin(source)
    return composed(_UNWANTED_OR_BLANK.sub(_blank_or_nothing, source))


def _prepare_latin(source: str) -> str:
    """Decide by the characters outside ASCII whether there is anything to do, and then line by line: a third of the time."""
    rest = source.encode("utf-8", "surrogatepass").translate(None, _PLAIN_ASCII).decode("utf-8", "surrogatepass")
    if _UNWANTED_OR_BLANK.search(rest):
        source, rest = (_UNWANTED_OR_BLANK.sub(_blank_or_nothing, text) for text in (source, rest))
    if _COMBINING.search(rest) or composed(rest) != rest:
        return "\n".join([composed(line) for line in source.split("\n")])
    return source


def _blank_or_nothing(found: re.Match[str]) -> str:
    return " " if found[0].isspace() else ""


def remove_addresses(text: str) -> str:
    """``text`` with ``GONE`` in the place of bare addresses."""
    parts, position = list[str](), 0
    colon = text.find("://")
    while colon >= 0:
        if scheme := _SCHEME.search(text, max(position, colon - len("https")), colon):
            parts += (text[position : scheme.start()], GONE)
            if address := URL.match(text, scheme.start()):
                position = address.end()
        colon = text.find("://", max(position, colon + 1))
    return "".join([*parts, text[position:]]) if parts else text


def collapse_blanks(text: str) -> str:
    """Every run of spaces becomes one; ``prepare`` has made spaces of other blanks."""
    return _BLANKS.sub(" ", text) if "  " in text else text


def repair(text: str) -> str:
    """Heal what removed markup leaves: empty parentheses with the space before, empty parts, separators without a word before.

    Blanks must be collapsed. Most texts need none of this, so each step looks first whether it has work (twice as fast).
    """
    if _NAMELESS.search(text):
        text = _without_labels(text)
    if _EMPTY_START.search(text):
        text = _EMPTY.sub(_without_empty, text).replace(f" {GONE}", "").replace(GONE, "")
        text = _LEADING.sub("(", text)
    text = _cut_before(text, _TRAILING, _without_trailing)
    if any(separator.search(text) for separator in _DOUBLE_SEPARATORS):
        text = _DOUBLED.sub(r"\1", text)
    for stop in _LATE_STOPS:
        text = _cut_before(text, stop, lambda before: before[:-1])
    return _STRANDED.sub("\n", text).lstrip(",; ")


def _without_labels(text: str) -> str:
    """Delete, in parentheses, the name of a language whose word was removed: ``(영어:, 한자: 江)``."""
    parts, position = list[str](), 0
    for found in _NAMELESS.finditer(text):
        at = found.start()
        if label := _LABEL.search(text, max(position, at - _LABEL_CHARS), at):
            parts.append(text[position : label.start()])
            position = found.end()
    return "".join([*parts, text[position:]])


def _cut_before(text: str, mark: re.Pattern[str], cut: Callable[[str], str]) -> str:
    """Cut the end of the text before each mark; the same string if there is none."""
    parts, position = list[str](), 0
    for found in mark.finditer(text):
        parts.append(cut(text[position : found.start()]))
        position = found.start()
    return "".join([*parts, text[position:]]) if parts else text


def _without_trailing(before_closing: str) -> str:
    """Return the text before a closing parenthesis, without separators at its end."""
    kept = before_closing.rstrip(" ,;")
    tail = before_closing[len(kept) :]
    return before_closing if len(tail) > 1 and not tail.strip(";") else kept  # (ㅋㅋ;;) is a face, not a rest


def _without_empty(found: re.Match[str]) -> str:
    """Delete balanced parentheses of a run that holds nothing but separators; stack-based, so that nesting costs nothing."""
    run = found[0]
    if ")" not in run:
        return run
    kept: list[str] = []
    opened: list[int] = []
    for character in run:
        if character == "(":
            opened.append(len(kept))
        elif character == ")" and opened:
            at = opened.pop()
            del kept[at - 1 if at and kept[at - 1] == " " else at :]
            continue
        kept.append(character)
    return "".join(kept) if kept and kept[0] == "(" else f"{GONE}{''.join(kept)}"


def finish(text: str) -> str:
    """The last steps on laid-out text: blanks, repair, and the promise that no paired mark is left."""
    done = repair(collapse_blanks(text))
    for _ in range(4):
        if not any(pair[0] in done and pair in done for pair in _PAIRS):
            break
        done = repair(collapse_blanks(_without_pairs(done)))
    else:
        done = _without_pairs(done)
    if _EDGE.search(done):
        done = done.replace("\n ", "\n").replace(" \n", "\n")
    return restore(done.strip(" "))


def _without_pairs(text: str) -> str:
    """Delete paired marks that stayed or that removals brought together, and those that deleting brings together."""
    return _MARKS.sub(_unpaired, re.sub("<+(?=ref)", "", text))


def _unpaired(run: re.Match[str]) -> str:
    kept: list[str] = []
    for character in run[0]:
        if character != "'" and kept and kept[-1] == character:
            kept.pop()
        elif character == "'" and kept[-2:] == ["'", "'"]:
            del kept[-2:]
        else:
            kept.append(character)
    return "".join(kept)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILE_NAMESPACES = frozenset({"파일", "그림", "이미지", "미디어", "file", "image", "media"})

_CATEGORY_NAMESPACES = frozenset({"분류", "category"})

UNSEEN_LINKS = dict.fromkeys(_FILE_NAMESPACES, "file") | dict.fromkeys(_CATEGORY_NAMESPACES, "category")
"""Prefix of a link that shows nothing in its place → the construct that it is."""

_OTHER_NAMESPACES = _words(
    """
    틀 위키백과 백 사용자 도움말 포털 들머리 모듈 미디어위키 초안 위키프로젝트 특수 토론
    template wikipedia project wp user help portal module mediawiki draft special talk
    """
)

_NON_ARTICLE_PREFIXES = (
    _FILE_NAMESPACES | _CATEGORY_NAMESPACES | _OTHER_NAMESPACES | {"나무위키", "휴지통", "파일휴지통", "투표", "더미"}
)
"""A title with one of these before its first colon is no article, whatever its namespace number says."""

SISTER_PROJECTS = _words(
    """
    b c commons d f m media mediawikiwiki meta mw n oldwikisource phab phabricator q s species tools toollabs v voy w wikibooks
    wikidata wikimedia wikinews wikipedia wikiquote wikisource wikispecies wikiversity wikivoyage wikt wiktionary wmf
    """
)

LANGUAGES = _words(
    """
    aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg
    bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo ce ceb ch cho
    chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff
    fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw
    he hi hif ho hr hsb ht hu hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp
    kcg kg kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln lo
    lrc lt ltg lv lzh mad mai map-bms mdf mg mh mhr mi min mk ml mn mni mnw mo mos mr mrj ms mt mus mwl my myv mzn na
    nah nan nap nb nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm
    pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rki rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco
    sd se sg sgs sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy ta tay tcy tdd te
    tet tg th ti tig tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo vro wa war wo
    wuu xal xh xmf yi yo yue za zea zgh zh zh-classical zh-min-nan zh-yue zu
    """
)
"""Prefixes of links to the same article in another language, as Wikipedia's editions are named."""


def other_namespace(title: str) -> Drop | None:
    """``namespace`` for a page that is no article by the prefix of its title, whatever its namespace number says."""
    prefix, colon, _ = title.partition(":")
    name = prefix.strip().lower()
    return Drop("namespace", f"title begins with {name}:") if colon and name in _NON_ARTICLE_PREFIXES else None


def no_prose(title: str) -> Drop | None:
    """``disambiguation`` or ``list_page`` for an article that only points to others."""
    if title.endswith("(동음이의)"):
        return Drop("disambiguation", "title")
    return Drop("list_page", "title") if title.endswith("의 목록") else None
