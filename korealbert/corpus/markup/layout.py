"""Layout of extracted wiki text, the repair of text around removed markup, and the names of namespaces.

Paragraphs are separated by one blank line. A heading comes after a blank line and directly before its text; the heading of a
section without text is left out. List items are lines.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

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


def protect(text: str) -> str:
    """Replace the characters of markup by stand-ins, which no parser reads as markup."""
    return text.translate(_PROTECTED)


def restore(text: str) -> str:
    """Replace stand-ins by their characters."""
    if text.isascii() or _LEAD_BYTES not in text.encode("utf-8", "surrogatepass"):  # three times as fast as a search
        return text
    return _ANY_STAND_IN.sub(lambda found: _RESTORED.get(found[0], ""), text)


def decode_entities(text: str) -> str:
    """Decode HTML entities once (``&amp;lt;`` is ``&lt;``), to characters that are not markup."""
    return _ENTITY.sub(_decoded, text) if "&" in text else text


def _decoded(entity: re.Match[str]) -> str:
    decoded = html.unescape(entity[0])
    if decoded == entity[0]:
        return decoded
    if decoded.isspace() and decoded != "\n":
        return " "
    return "" if "\0" in decoded or "\ufffd" in decoded else protect(decoded)


LETTER = re.compile(r"[^\W_]")

REDIRECT = rf"[\s\ufeff]*#(?:redirect|넘겨주기|{unicodedata.normalize('NFD', '넘겨주기')})"
"""Pattern of the word that makes a page a redirect, before ``prepare``."""

REMOVED = "\x00"
"""Put in the place of removed markup. A line with nothing else is not blank, so that it does not end a paragraph."""

LINE_BREAK = "\x05"
"""A line break within a list item or paragraph (``[br]``, ``<br />``)."""

FOOTNOTE_START, FOOTNOTE_END = "\x01", "\x02"
"""Marks around the text of a kept footnote, where it is cited."""

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
"""A bare address. It ends before Hangul, which may be a particle, unless a part of its path begins there."""

_SCHEME = re.compile("(?:https?|ftp|HTTPS?|Https?)$")
_UNWANTED_OR_BLANK = re.compile(f"[\t\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000{UNWANTED.pattern[1:-1]}]")
_PLAIN_ASCII = bytes(range(0x20, 0x7F))
_COMBINING = re.compile("[\u0300-\u036f]")
"""All marks that compose with an ASCII character before them."""
_BLANKS = re.compile("   *")
"""Two spaces and more; takes a quarter of the time of `` {2,}``, because it begins with a literal."""
# These begin with their last character, which is rarer than a space, and look back, because re searches for the first character
# of a pattern at the speed of C. Substring tests take two to four times as long.
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
    """Source characters that were removed, by construct: template, table, footnote, math, file, section, …"""
    redirect: bool = False
    disambiguation: bool = False


@lru_cache(maxsize=4)
def _without_blanks(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.replace(" ", "") for name in names)


class Prose:
    """Collects headings, lines and paragraph breaks in order."""

    def __init__(self, options: WikiOptions, lost: Counter[str]) -> None:
        self._lines: list[str] = []
        self._pending: list[tuple[int, str]] = []  # headings whose section has no text yet
        self._headings, self._lost = options.headings, lost
        self._dropped_sections = _without_blanks(options.dropped_sections)
        self._dropping_level = 0
        self._break = False
        self._footnotes: list[str] = []

    def heading(self, level: int, title: str) -> None:
        """Add a heading; level 1 is the highest."""
        self.paragraph_break()
        if self._dropping_level and level > self._dropping_level:
            return
        self._dropping_level = 0
        while self._pending and self._pending[-1][0] >= level:
            self._pending.pop()
        if title.replace(" ", "") in self._dropped_sections:  # 참고문헌 is 참고 문헌
            self._dropping_level = level
        elif title:
            self._pending.append((level, title))

    def line(self, text: str) -> None:
        """Add a line of a paragraph or list, stripped and not blank."""
        self.lines((text,))

    def lines(self, texts: Sequence[str]) -> None:
        """Add lines; empty ones separate paragraphs."""
        if self._dropping_level:
            self._lost["section"] += sum(map(len, texts))
            return
        if self._pending:
            self._add_headings()
        elif self._break and self._lines:
            self._lines.append("")
        self._break = False
        self._lines += texts

    def _add_headings(self) -> None:
        for _, title in self._pending if self._headings else ():
            if self._lines:
                self._lines.append("")
            self._lines.append(title)
        if not self._headings and self._lines:
            self._lines.append("")
        self._pending.clear()

    def hold_footnotes(self, line: str) -> str:
        """Return a line without its footnotes, which are kept until the end of the paragraph."""
        if FOOTNOTE_START in line or FOOTNOTE_END in line:
            self._footnotes += [note.strip() for note in _FOOTNOTE.findall(line) if LETTER.search(note)]
            line = _FOOTNOTE.sub("", line).replace(FOOTNOTE_START, "").replace(FOOTNOTE_END, "").strip()
        return line

    def paragraph_break(self) -> None:
        """Add the footnotes of the paragraph, and end it."""
        for text in self._footnotes:
            self._break = False
            self.line(text)
        self._footnotes.clear()
        self._break = True

    def text(self) -> str:
        """Return everything that was added."""
        self.paragraph_break()
        return "\n".join(self._lines)


def prepare(source: str) -> str:
    """Convert a source to NFC with line feeds and one kind of blank, without the characters that the parsers use as marks."""
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    begin = source[:500]
    if len(begin.encode("utf-8", "surrogatepass")) <= 1.1 * len(begin):
        return _prepare_latin(source)
    return composed(_UNWANTED_OR_BLANK.sub(_blank_or_nothing, source))


def _prepare_latin(source: str) -> str:
    """Prepare mostly ASCII text in a third of the time, by looking only at its other characters."""
    rest = source.encode("utf-8", "surrogatepass").translate(None, _PLAIN_ASCII).decode("utf-8", "surrogatepass")
    if _UNWANTED_OR_BLANK.search(rest):
        source, rest = (_UNWANTED_OR_BLANK.sub(_blank_or_nothing, text) for text in (source, rest))
    if _COMBINING.search(rest) or composed(rest) != rest:
        return "\n".join([composed(line) for line in source.split("\n")])
    return source


def _blank_or_nothing(found: re.Match[str]) -> str:
    return " " if found[0].isspace() else ""


def remove_addresses(text: str) -> str:
    """Replace bare addresses by ``REMOVED``."""
    parts, position = list[str](), 0
    colon = text.find("://")
    while colon >= 0:
        if scheme := _SCHEME.search(text, max(position, colon - len("https")), colon):
            parts += (text[position : scheme.start()], REMOVED)
            if address := URL.match(text, scheme.start()):
                position = address.end()
        colon = text.find("://", max(position, colon + 1))
    return "".join([*parts, text[position:]]) if parts else text


def collapse_blanks(text: str) -> str:
    """Replace each run of spaces by one; other blanks are spaces since ``prepare``."""
    return _BLANKS.sub(" ", text) if "  " in text else text


def repair(text: str) -> str:
    """Remove empty parentheses, empty parts of them, and separators that follow no word, which removed markup leaves.

    Blanks must be collapsed. Each step first checks whether it is needed, which is twice as fast, because most texts need none.
    """
    if _NAMELESS.search(text):
        text = _without_labels(text)
    if _EMPTY_START.search(text):
        text = _EMPTY.sub(_without_empty, text).replace(f" {REMOVED}", "").replace(REMOVED, "")
        text = _LEADING.sub("(", text)
    text = _cut_before(text, _TRAILING, _without_trailing)
    if any(separator.search(text) for separator in _DOUBLE_SEPARATORS):
        text = _DOUBLED.sub(r"\1", text)
    for stop in _LATE_STOPS:
        text = _cut_before(text, stop, lambda before: before[:-1])
    return _STRANDED.sub("\n", text).lstrip(",; ")


def _without_labels(text: str) -> str:
    """Remove the names of languages in parentheses whose words were removed: ``(영어:, 한자: 江)``."""
    parts, position = list[str](), 0
    for found in _NAMELESS.finditer(text):
        at = found.start()
        if label := _LABEL.search(text, max(position, at - _LABEL_CHARS), at):
            parts.append(text[position : label.start()])
            position = found.end()
    return "".join([*parts, text[position:]])


def _cut_before(text: str, mark: re.Pattern[str], cut: Callable[[str], str]) -> str:
    """Apply ``cut`` to each part of the text that is followed by a mark."""
    parts, position = list[str](), 0
    for found in mark.finditer(text):
        parts.append(cut(text[position : found.start()]))
        position = found.start()
    return "".join([*parts, text[position:]]) if parts else text


def _without_trailing(before_closing: str) -> str:
    """Return the text before a closing parenthesis, without separators at its end."""
    kept = before_closing.rstrip(" ,;")
    tail = before_closing[len(kept) :]
    return before_closing if len(tail) > 1 and not tail.strip(";") else kept  # (ㅋㅋ;;) is an emoticon


def _without_empty(found: re.Match[str]) -> str:
    """Remove balanced parentheses from a run of parentheses and separators, in linear time."""
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
    return "".join(kept) if kept and kept[0] == "(" else f"{REMOVED}{''.join(kept)}"


def finish(text: str) -> str:
    """Collapse blanks, repair the text, remove all paired marks, and restore protected characters."""
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
    """Remove paired marks, also those that become adjacent by removing others."""
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


INVISIBLE_LINKS = {
    **dict.fromkeys(("파일", "그림", "이미지", "미디어", "file", "image", "media"), "file"),
    **dict.fromkeys(("분류", "category"), "category"),
}
"""Prefix of a link that shows nothing in its place → its construct."""

WIKIPEDIA_NAMESPACES = _words(
    """
    파일 그림 이미지 미디어 분류 틀 위키백과 백 사용자 도움말 포털 들머리 모듈 미디어위키 초안 위키프로젝트 특수 토론
    file image media category template wikipedia project wp user help portal module mediawiki draft special talk
    """
)
NAMUWIKI_NAMESPACES = _words("파일 분류 틀 사용자 나무위키 휴지통 파일휴지통 투표 더미 토론")
"""A page of the wiki is not an article if its title has one of these before the first colon, whatever its namespace number."""

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
"""Prefixes of links to the same article in other languages: the names of Wikipedia's editions."""


def drop_namespace(title: str, namespaces: frozenset[str]) -> Drop | None:
    """Return the drop ``namespace`` if the title begins with the name of one of these namespaces, which have no articles."""
    prefix, colon, _ = title.partition(":")
    name = prefix.strip().lower()
    return Drop("namespace", f"title begins with {name}:") if colon and name in namespaces else None


def drop_pointer(title: str) -> Drop | None:
    """Return the drop ``disambiguation`` or ``list_page`` for pages that only point to others, or None."""
    if title.endswith("(동음이의)"):
        return Drop("disambiguation", "title")
    return Drop("list_page", "title") if title.endswith("의 목록") else None
