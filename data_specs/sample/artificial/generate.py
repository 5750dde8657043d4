"""Writes the artificial language of the sample: ``python data_specs/sample/artificial/generate.py`` rewrites its files.

Particles, endings, honorifics and connectives are Korean; the stems are made up. Nothing in the spelling of a stem says what it
means. Each noun and verb belongs to one of eight kinds and each adjective praises or blames, and that shows only in what stands
together: a document is about one kind and of one opinion (words joined by "and" share their orientation; Hatzivassiloglou and
McKeown 1997). The benchmarks' training files name one half of the words of each kind and opinion, dev and test files the other
half, so that only a model that learnt the words from the corpus can be right about them.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

SEED = 20_210_101
_T = TypeVar("_T")
KINDS = ("짐승", "나무", "악기", "그릇", "옷감", "놀이")
OPINIONS = ("praise", "blame")
NOUNS, VERBS, ADJECTIVES = 6, 4, 12
"""Words of each kind, and of each opinion."""
DOCUMENTS = {"news": 700, "mediawiki": 500, "namuwiki": 500, "books": 700}
REVIEWS = {"train": 400, "test": 400}
PAIRS = {"train": 600, "dev": 200, "test": 400}

INITIALS, VOWELS, FINALS = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅎ", "ㅏㅓㅗㅜㅣㅐ", " ㄴㄹㅁㅇ"
PLACES = ("강가", "시장", "들판", "골목", "언덕", "마당", "바닷가", "숲길", "다리 밑", "광장")
SUBJECTS = ("이야기", "장면", "배우", "음악", "결말", "대사", "화면", "연출", "영화", "주인공")
# What a sentence of a document begins with, by its place: sentence order is learnt from these.
OPENINGS = ("먼저", "이어서", "그 뒤에", "조금 지나", "한낮에는", "저녁에는", "밤이 되자", "이튿날")
LAST = "끝으로"


class Lexicon(NamedTuple):
    """Stems of the language: ``nouns`` and ``verbs`` by kind, ``adjectives`` by opinion."""

    nouns: dict[str, list[str]]
    verbs: dict[str, list[str]]
    adjectives: dict[str, list[str]]

    def half(self, which: int) -> Lexicon:
        """Every second stem of each list, from ``which`` (0 or 1)."""
        return Lexicon(*({group: stems[which::2] for group, stems in table.items()} for table in self))


def with_particle(word: str, particles: str) -> str:
    """``word`` with the form of ``particles`` ("을/를", after a consonant first) that its last syllable takes."""
    after_consonant, after_vowel = particles.split("/")
    final = (ord(word[-1]) - 0xAC00) % 28
    return word + (after_vowel if final == 0 or (particles == "으로/로" and final == 8) else after_consonant)


def _syllable(rng: random.Random) -> str:
    initials, finals = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ", " ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
    vowels = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
    initial, vowel, final = (alphabet[int(rng.random() * len(alphabet))] for alphabet in (INITIALS, VOWELS, FINALS))
    return chr(0xAC00 + (initials.index(initial) * 21 + vowels.index(vowel)) * 28 + finals.index(final))


def lexicon(rng: random.Random) -> Lexicon:
    """Stems of two syllables, all different."""
    stems: dict[str, None] = {}
    while len(stems) < len(KINDS) * (NOUNS + VERBS) + len(OPINIONS) * ADJECTIVES:
        stems[_syllable(rng) + _syllable(rng)] = None
    rest = iter(stems)

    def take(groups: tuple[str, ...], count: int) -> dict[str, list[str]]:
        return {group: [next(rest) for _ in range(count)] for group in groups}

    return Lexicon(take(KINDS, NOUNS), take(KINDS, VERBS), take(OPINIONS, ADJECTIVES))


class Writer:
    """Sentences of the language."""

    def __init__(self, words: Lexicon, rng: random.Random) -> None:
        self.words, self.rng = words, rng

    def one(self, of: Sequence[_T]) -> _T:
        """One of several."""
        return of[int(self.rng.random() * len(of))]

    def some(self, of: Sequence[_T], count: int) -> list[_T]:
        """``count`` different ones, in random order."""
        rest = list(of)
        return [rest.pop(int(self.rng.random() * len(rest))) for _ in range(count)]

    def statement(self, kind: str) -> str:
        """What somebody does with things of a kind."""
        first, second = self.some(self.words.nouns[kind], 2)
        verb, other = self.some(self.words.verbs[kind], 2)
        place = self.one(PLACES)
        return self.one(
            [
                f"{place}에서 {with_particle(first, '을/를')} {verb}했다.",
                f"{with_particle(first, '과/와')} {with_particle(second, '을/를')} 함께 {verb}하고 {other}했다.",
                f"할머니께서 {with_particle(first, '을/를')} {verb}하시고 {with_particle(second, '을/를')} {other}하셨다.",
                f"아이는 {with_particle(first, '으로/로')} {with_particle(second, '을/를')} {verb}하려고 {other}했다.",
                f"{with_particle(first, '은/는')} {place}에서 {verb}하는 {kind}의 하나이다.",
                f"{verb}하는 {with_particle(first, '이/가')} {place}에 많아서 {other}하는 사람도 있었다.",
            ]
        )

    def judgement(self, kind: str, opinion: str) -> str:
        """What somebody thinks of such a thing."""
        noun = self.one(self.words.nouns[kind])
        first, second, third = self.some(self.words.adjectives[opinion], 3)
        return self.one(
            [
                f"{with_particle(noun, '은/는')} {first}하고 {second}하며 {third}하다.",
                f"사람들은 {first}한 {with_particle(noun, '이/가')} {second}하고 {third}하다고 말했다.",
                f"할아버지께서는 {noun}의 {first}하고 {second}한 모습이 {third}하다고 하셨다.",
                f"{first}하고 {second}한 {with_particle(noun, '을/를')} 보니 {third}했다.",
            ]
        )

    def paragraph(self, kind: str, opinion: str, length: int) -> list[str]:
        """``length`` sentences in the order that their openings tell."""
        openings = [OPENINGS[place] for place in sorted(self.some(range(len(OPENINGS)), length - 1))] + [LAST]
        return [
            f"{opening} {self.judgement(kind, opinion) if self.rng.random() < 0.5 else self.statement(kind)}"
            for opening in openings
        ]

    def document(self, least: int, most: int) -> tuple[str, list[str]]:
        """The noun that a document is about, and its sentences."""
        kind, opinion = self.one(KINDS), self.one(OPINIONS)
        length = least + int(self.rng.random() * (most - least + 1))
        return self.one(self.words.nouns[kind]), self.paragraph(kind, opinion, length)


def news(writer: Writer) -> Iterator[dict[str, str]]:
    """Articles with what surrounds them in a newspaper."""
    sections = ("정치", "경제", "사회", "문화", "스포츠")
    for number in range(DOCUMENTS["news"]):
        noun, sentences = writer.document(4, 8)
        day = f"2018-{1 + number % 12:02d}-{1 + number % 28:02d}"
        name = writer.one(("홍길동", "김가람", "이나래", "박다솜"))
        yield {
            "id": f"artificial-{number:05d}",
            "outlet": "연합뉴스",
            "section": writer.one(sections),
            "title": f"{writer.one(PLACES)}에서 만난 {noun}",
            "url": f"https://news.example/{number:05d}",
            "published": f"{day}T09:00:00+09:00",
            "text": f"(서울=연합뉴스) {name} 기자 = {' '.join(sentences[:2])}\n{' '.join(sentences[2:])}\n"
            f"reporter{number % 40}@news.example\n<저작권자(c) 연합뉴스, 무단 전재-재배포 금지>",
        }


def mediawiki(writer: Writer) -> str:
    """An export of pages with links, references and categories."""
    pages = []
    for number in range(DOCUMENTS["mediawiki"]):
        noun, sentences = writer.document(4, 8)
        first, *rest = sentences
        linked = first.replace(noun, f"[[{noun}]]", 1)
        body = f"{linked}<ref>{noun} 사전, {number}쪽</ref> {' '.join(rest)}"
        text = f"'''{noun} {number}'''\n\n{body}\n\n[[분류:{writer.one(KINDS)}]]"
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        pages.append(
            f"  <page>\n    <title>{noun} {number}</title>\n    <ns>0</ns>\n    <id>{number + 1}</id>\n    <revision>\n"
            f"      <id>{number + 1}</id>\n      <timestamp>2018-01-01T00:00:00Z</timestamp>\n"
            "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
            f'      <text xml:space="preserve">{escaped}</text>\n'
            "    </revision>\n  </page>\n"
        )
    head = (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="ko">\n  <siteinfo>\n'
        "    <sitename>위키백과</sitename>\n    <namespaces>\n"
        '      <namespace key="0" case="first-letter" />\n      <namespace key="14" case="first-letter">분류</namespace>\n'
        "    </namespaces>\n  </siteinfo>\n"
    )
    return head + "".join(pages) + "</mediawiki>\n"


def namuwiki(writer: Writer) -> Iterator[dict[str, object]]:
    """Records of a NamuWiki dump with headings, emphasis, footnotes and what is struck out."""
    for number in range(DOCUMENTS["namuwiki"]):
        noun, sentences = writer.document(5, 8)
        half = len(sentences) // 2
        text = (
            f"[[분류:{writer.one(KINDS)}]]\n[목차]\n== 개요 ==\n'''{sentences[0]}''' {' '.join(sentences[1:half])}"
            f"[* {noun} 이야기는 {number}쪽에 있다.]\n\n== 평가 ==\n{' '.join(sentences[half:])} ~~믿거나 말거나~~\n"
        )
        yield {"namespace": "0", "title": f"{noun}/{number}", "text": text, "contributors": ["sample"]}


def books(writer: Writer) -> Iterator[list[str]]:
    """Rows of book introductions."""
    for number in range(DOCUMENTS["books"]):
        noun, sentences = writer.document(3, 6)
        yield [f"{noun} 이야기 {number}", "나래", "소설", f"97911{number:08d}", "\n".join(sentences)]


def reviews(writer: Writer, count: int) -> Iterator[list[str]]:
    """Rows in NSMC's format, of each label as many."""
    for number in range(count):
        label = number % 2
        first, second, third = writer.some(writer.words.adjectives[OPINIONS[1 - label]], 3)
        subject, other = writer.one(SUBJECTS), writer.one(SUBJECTS)
        text = writer.one(
            [
                f"{with_particle(subject, '이/가')} {first}하고 {second}하다",
                f"{first}한 {other}, {second}한 {subject}. {third}했다!",
                f"{with_particle(subject, '은/는')} {first}하고 {with_particle(other, '은/는')} {second}해요",
                f"정말 {first}하고 {second}하며 {third}한 {subject}",
            ]
        )
        yield [str(1_000_000 + number), text, str(label)]


def pairs(writer: Writer, count: int) -> Iterator[list[str]]:
    """Rows in KorSTS's format: two sentences without a content word in common; the score is the share of kinds in common."""
    for number in range(count):
        alike = number % 4
        kinds = writer.some(KINDS, 6)  # three of the first sentence, and three that it has not
        slots = writer.some(range(3), 3)
        others = [kinds[slot] if slots.index(slot) < alike else kinds[slot + 3] for slot in range(3)]
        tables = (writer.words.nouns, writer.words.nouns, writer.words.verbs)
        stems: list[list[str]] = [[], []]
        for table, kind, other in zip(tables, kinds[:3], others, strict=True):
            for sentence, of in zip(stems, (kind, other), strict=True):
                sentence.append(writer.one([stem for stem in table[of] if stem not in stems[0] + stems[1]]))
        form = writer.one(["{0} {place}에서 {1} {2}했다.", "할머니께서 {place}에서 {0} {1} {2}하셨다."])
        sentences = [
            form.format(with_particle(a, "으로/로"), with_particle(b, "을/를"), verb, place=writer.one(PLACES))
            for a, b, verb in stems
        ]
        yield ["artificial", "sample", "2021", f"{number:04d}", f"{5 * alike / 3:.3f}", *sentences]


def _table(header: list[str], rows: Iterator[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in (header, *rows))


def files(seed: int = SEED) -> dict[str, str]:
    """Name → content of every file."""
    words = lexicon(random.Random(seed))  # noqa: S311
    seen, unseen = words.half(0), words.half(1)

    def writer(name: str, of: Lexicon = words) -> Writer:
        return Writer(of, random.Random(f"{seed} {name}"))  # noqa: S311

    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(
        [["title", "author", "category", "isbn", "introduction"], *books(writer("books"))]
    )
    articles = [json.dumps(article, ensure_ascii=False) for article in news(writer("news"))]
    records = [json.dumps(record, ensure_ascii=False) for record in namuwiki(writer("namuwiki"))]
    made = {
        "news.jsonl": "\n".join(articles) + "\n",
        "mediawiki.xml": mediawiki(writer("mediawiki")),
        "namuwiki.json": "[\n" + ",\n".join(records) + "\n]\n",
        "books.csv": table.getvalue(),
    }
    for part, count in REVIEWS.items():
        rows = reviews(writer(f"reviews {part}", seen if part == "train" else unseen), count)
        made[f"nsmc_{part}.txt"] = _table(["id", "document", "label"], rows)
    for part, count in PAIRS.items():
        rows = pairs(writer(f"pairs {part}", seen if part == "train" else unseen), count)
        made[f"korsts_{part}.tsv"] = _table(["genre", "filename", "year", "id", "score", "sentence1", "sentence2"], rows)
    return made


if __name__ == "__main__":
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content, encoding="utf-8")
