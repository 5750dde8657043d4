"""How much the quality filters drop of real Korean prose, and of junk.

python -m bench.filters DATA [--documents 2000]: ``DATA`` is the folder of the real corpora. For eight genres that people wrote,
and for songs made of novels, it prints the share of documents and characters that the genre's preset drops, and by which
filters. For eight kinds of junk, made from that prose or from templates, it prints the share that each preset catches. Then
the same for texts of fewer than 50 words (single reviews, not films' pages) and six kinds of short spam. Exits with 1 if more
than 0.5 % of the Korean documents of a genre are dropped, of short ones for repetition, or less than 95 % of a kind of junk is
caught (of short junk that data prose does not resemble).
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.common import documents, options
from korealbert.corpus.clean.filters import judge
from korealbert.corpus.clean.limits import Limits
from korealbert.corpus.clean.sentences import split_line
from korealbert.corpus.normalise import normalise
from korealbert.corpus.readers.spec import ExtractSpec

Table = dict[str, Any]
_NAMELESS = {"title": "", "outlet": "", "category": "", "url": "", "published": "", "id": ""}

GENRES: dict[str, tuple[str, Table]] = {
    "news": ("news", {"format": "news_text", "paths": "news_categories"}),
    "encyclopedia": ("encyclopedia", {"format": "wikiextractor", "paths": "kowiki_extracted_AA", "members": "*/wiki_[0-1]?"}),
    "law": ("law", {"format": "text", "paths": "legal_precedents", "members": "*.md", "document": "file", "markdown": True}),
    "petitions": ("petitions", {"format": "json", "paths": "petitions_2017_2019", "fields": {**_NAMELESS, "text": "content"}}),
    "novels": ("novels", {"format": "json", "paths": "novels_koconovel", "members": "*.jsonl", "fields": _NAMELESS}),
    "books": ("books", {"format": "books", "paths": "books_introductions", "members": "*.csv"}),
    "leads": ("leads", {"format": "json", "paths": "news_leads", "members": "*/kr_articles.json"}),
    "reviews": ("reviews", {"format": "json", "paths": "reviews_nsmc_raw", "members": "*.json", "document": "file"}),
    "verse": ("verse", {"format": "json", "paths": "novels_koconovel", "members": "*.jsonl", "fields": _NAMELESS}),
}
"""Preset and table of each genre; ``_FIELDS`` has the names of fields that differ from the defaults."""
_FIELDS: dict[str, Table] = {
    "books": {"text": "introduction", "category": "categories", "id": "item_id", "outlet": "", "url": "", "published": ""},
    "leads": {"text": "summary", "outlet": "source", "published": "date", "category": "", "id": ""},
    "reviews": {**_NAMELESS, "text": "review"},
}


def _split(*lines: str) -> list[str]:
    return " ".join(lines).split()


_MENU = _split(
    "로그인 회원가입 장바구니 고객센터 이용약관 개인정보처리방침 회사소개 제휴문의 사이트맵 공지사항 이벤트 마이페이지",
    "주문조회 이전글 다음글 목록 인쇄 공유 댓글 추천 신고 스크랩 전체메뉴 통합검색 베스트 신상품 할인 쿠폰 배송조회 채용",
    "보도자료 갤러리 자료실 커뮤니티 문의하기 영문 모바일 더보기 자주묻는질문",
)
_PLACES = _split("강남 홍대 부산 대구 인천 수원 분당 일산 제주 대전 광주 울산 청주 천안 전주 포항")
_TRADES = _split("맛집 대출 성형외과 부동산 렌트카 펜션 꽃배달 이사 중고차 다이어트 카지노 토토 출장 마사지 임플란트 학원")
_MIN_SHORT_TEXTS = 100
"""A genre with fewer short texts is not judged by them."""
_PRAISE = ("추천", "1위", "저렴한곳", "후기", "가격", "예약", "상담", "24시")


def _loop(prose: str, chance: random.Random) -> str:
    """Return prose that ends in one sentence repeated over and over, at least half of the text."""
    sentences = [one for one in split_line(prose.replace("\n", " ")) if len(one.split()) > 3] or [prose]
    beginning = " ".join(sentences[: max(3, len(sentences) // 3)])
    sentence = chance.choice(sentences)
    return beginning + f" {sentence}" * (5 + len(beginning) // len(sentence))


def _paragraphs(prose: str, chance: random.Random) -> str:
    """Return the whole text three times."""
    return "\n\n".join([prose] * 3)


def _words(prose: str, chance: random.Random) -> str:
    """Return four words over and over, like spam comments and the output of broken models."""
    return " ".join(chance.sample(prose.split(), 4) * chance.randint(20, 60))


def _keywords(prose: str, chance: random.Random) -> str:
    """Return places, trades and praise for search engines."""
    place, trade = chance.choice(_PLACES), chance.choice(_TRADES)
    parts = [f"{place} {trade} {chance.choice(_PRAISE)}" for _ in range(chance.randint(30, 80))]
    return chance.choice([" ", ", ", "\n", " ♥ ", " | "]).join(parts)


def _menus(prose: str, chance: random.Random) -> str:
    """Return items of the menus that surround an article on its page."""
    items = [chance.choice(_MENU) for _ in range(chance.randint(60, 200))]
    return chance.choice(["\n", " ", " | "]).join(items)


def _figures(prose: str, chance: random.Random) -> str:
    """Return a table of numbers below a line of text."""
    rows = [" ".join(f"{chance.randint(0, 99999):,}" for _ in range(8)) for _ in range(chance.randint(20, 60))]
    return "\n".join([prose[:60].replace("\n", " "), *rows])


def _teasers(prose: str, chance: random.Random) -> str:
    """Return beginnings of sentences that break off."""
    words = prose.split()
    return "\n".join(" ".join(words[start : start + 7]) + "…" for start in range(0, max(70, len(words) - 7), 7))


def _hashtags(prose: str, chance: random.Random) -> str:
    """Return the beginning of a text and hashtags."""
    return f"{prose[:80]} " + " ".join(f"#{word}" for word in prose.split()[:60])


def _song(prose: str, chance: random.Random) -> str:
    """Return the words of a text as three to six stanzas of four lines, with a refrain of one to four lines after each.

    There is no corpus of verse here; this has the form of one, with more prose in its lines.
    """
    words = iter(prose.split())
    lines = iter(lambda: " ".join(islice(words, chance.randint(2, 5))), "")
    refrain = list(islice(lines, chance.randint(1, 4)))
    between = chance.choice(["\n", "\n\n"])
    stanzas = ["\n".join(islice(lines, 4)) for _ in range(chance.randint(3, 6))]
    return "\n\n".join(between.join([stanza, "\n".join(refrain)]) for stanza in stanzas if stanza)


JUNK: dict[str, Callable[[str, random.Random], str]] = {
    "one sentence again and again": _loop,
    "the whole text three times": _paragraphs,
    "four words again and again": _words,
    "keywords for search engines": _keywords,
    "menus": _menus,
    "tables of figures": _figures,
    "beginnings that break off": _teasers,
    "hashtags": _hashtags,
}


_ADVERTS = (
    "첫충 30% 꽁머니 지급 온라인카지노 상담 {phone}",
    "무직자 당일대출 급전 {phone} 24시간 친절상담",
    "사설토토 추천인 코드 {word} 가입시 3만 지급 {url}",
    "최저가 명품 레플리카 {url} 카톡 {word}",
    "강남 출장마사지 후불제 {phone}",
    "비아그라 정품 구매는 여기 {url}",
    "고수익 재택알바 하루 20만원 텔레 {word}",
    "바카라 슬롯 먹튀검증 안전놀이터 {url} 코드 {word}",
)


def _advert(chance: random.Random) -> str:
    number, word = chance.randint(1000, 9999), "".join(chance.choices("abcdefghjkmnpqrst", k=5))
    return chance.choice(_ADVERTS).format(phone=f"010-{number}-{number}", word=word, url=f"http://{word}.example")


def _repeated(unit: str, chance: random.Random, most: int = 10) -> str:
    """Return a text three times or more, in fewer than 50 words if possible."""
    times = chance.randint(3, most)
    while times > 3 and times * (len(unit.split()) + 1) >= _SHORT_WORDS:
        times -= 1
    return chance.choice([" ", "\n", " ★ ", "!! ", " / "]).join([unit] * times)


def _short_sentence(text: str, chance: random.Random) -> str:
    words = [one for one in split_line(text.replace("\n", " ")) if 3 <= len(one.split()) <= 15]
    return chance.choice(words) if words else " ".join(text.split()[:8])


def _numbered(text: str, chance: random.Random) -> str:
    unit = chance.choice(_ADVERTS)
    numbers = [f"010-{chance.randint(1000, 9999)}-{chance.randint(1000, 9999)}" for _ in range(chance.randint(3, 5))]
    return "\n".join(f"{n}. {unit.format(phone=one, word='kk1', url='kk1.example')}" for n, one in enumerate(numbers, 1))


def _short_keywords(text: str, chance: random.Random) -> str:
    place, trade = chance.choice(_PLACES), chance.choice(_TRADES)
    return chance.choice([" ", ", ", "\n", " | "]).join(
        f"{place} {trade} {chance.choice(_PRAISE)}" for _ in range(chance.randint(5, 14))
    )


_SHORT_WORDS = 50
SHORT_JUNK: dict[str, Callable[[str, random.Random], str]] = {
    "an advertisement 3 to 10 times": lambda text, chance: _repeated(_advert(chance), chance),
    "an advertisement, other numbers": _numbered,
    "prose and an advertisement": lambda text, chance: (
        f"{_short_sentence(text, chance)[:30]} {_repeated(_advert(chance), chance)}"
    ),
    "one sentence 3 to 10 times": lambda text, chance: _repeated(_short_sentence(text, chance), chance),
    "keywords": _short_keywords,
    "two words again and again": lambda text, chance: " ".join(chance.sample(text.split(), 2) * chance.randint(8, 20)),
}
_LIKE_PROSE = ("an advertisement, other numbers", "keywords")
"""Scores, weather and lists have the same form, so these need not be caught."""


def short_texts(data: Path, genre: str, limits: Limits) -> Iterator[str]:
    """Yield a genre's texts of fewer than 50 words that are long enough for its preset; of reviews, each by itself."""
    for text in _texts(data, genre):
        for one in text.split("\n") if genre == "reviews" else [text]:
            if len(one) >= limits.min_characters and len(one.split()) < _SHORT_WORDS:
                yield one


def _judge_short(data: Path, documents: int) -> bool:
    """Print what is dropped of short texts, and what is caught of short spam. Return whether a goal is missed."""
    missed = False
    hosts: dict[str, list[str]] = {}
    print("\ngenre: dropped texts of fewer than 50 words (Korean), by reason")
    for genre, (preset, _) in GENRES.items():
        limits, reasons = Limits.model_validate(preset), Counter[str]()
        texts = list(islice(short_texts(data, genre, limits), documents)) if genre not in ("verse", "law") else []
        drops = [judge(text, limits) for text in texts]
        reasons.update(drop.reason for drop in drops if drop)
        hosts[genre] = [text for text, drop in zip(texts, drops) if drop is None and len(text.split()) > 3]
        if len(texts) >= _MIN_SHORT_TEXTS:
            count = len(texts) - reasons["not_korean"]
            share = (reasons.total() - reasons["not_korean"]) / count
            repeats = reasons["short_repeats"] / count
            missed |= repeats > 0.005
            print(f"{genre:13} {share:7.2%} of {count:5}, short_repeats {repeats:.2%} {dict(reasons)}", flush=True)
    every = [text for texts in hosts.values() for text in texts][:: max(1, sum(map(len, hosts.values())) // 300)]
    presets = [preset for preset, _ in GENRES.values() if preset != "verse"]  # a poem repeats itself likewise
    print(f"\nshort spam caught: {' '.join(presets)}")
    for kind, make in SHORT_JUNK.items():
        caught = []
        for preset in presets:
            limits, chance = Limits.model_validate(preset), random.Random(1)  # noqa: S311
            junk = [make(text, chance) for text in every]
            caught.append(sum(judge(text, limits) is not None for text in junk) / len(junk))
        missed |= kind not in _LIKE_PROSE and min(caught) < 0.95
        print(f"{kind:32} {' '.join(f'{share:6.1%}' for share in caught)}", flush=True)
    return missed


def _texts(data: Path, genre: str) -> Iterator[str]:
    """Yield the normalised texts of a genre."""
    table = dict(GENRES[genre][1])
    table["paths"] = [str(data / "corpus" / f"{table['paths']}.tar.zst")]
    table["fields"] = _FIELDS.get(genre, table.get("fields", {}))
    texts = (normalise(document.text).text for document in documents(ExtractSpec.model_validate({"source": genre, **table})))
    if genre == "verse":
        chance = random.Random(1)  # noqa: S311
        texts = (_song(text, chance) for text in texts)
    return texts


def prose(data: Path, genre: str) -> Iterator[str]:
    """Yield the normalised texts of a genre that have 100 characters or more."""
    return (text for text in _texts(data, genre) if len(text) >= 100)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=2000)
    arguments = parser.parse_args()
    missed = False
    hosts: dict[str, list[str]] = {}
    print("genre: dropped documents, characters (Korean documents of 100 characters and more), by reason, of the defaults")
    for genre, (preset, _) in GENRES.items():
        limits, reasons, characters, by_default = Limits.model_validate(preset), Counter[str](), 0, 0
        hosts[genre] = []
        for text in islice(prose(arguments.data, genre), arguments.documents):
            drop = judge(text, limits)
            default_drop = judge(text, Limits())
            by_default += default_drop is not None and default_drop.reason != "not_korean"
            if drop is None or drop.reason != "not_korean":
                hosts[genre].append(text)
            if drop is not None:
                reasons[drop.reason] += 1
                characters += (drop.reason != "not_korean") * len(text)
        count, all_characters = len(hosts[genre]), sum(map(len, hosts[genre]))
        share = (reasons.total() - reasons["not_korean"]) / count
        missed |= share > 0.005
        print(f"{genre:13} {share:7.2%} of {count:5} {characters / all_characters:7.2%} {dict(reasons)}", end=" ")
        print(f"defaults {by_default / count:.2%}", flush=True)
    print(f"\njunk caught: {' '.join(GENRES)}")
    for kind, make in JUNK.items():
        caught = []
        for genre, (preset, _) in GENRES.items():
            limits, chance = Limits.model_validate(preset), random.Random(1)  # noqa: S311
            junk = [make(text, chance) for text in hosts[genre] if len(text.split()) > 50][:300]
            caught.append(sum(judge(text, limits) is not None for text in junk) / len(junk))
        missed |= min(caught) < 0.95
        print(f"{kind:30} {' '.join(f'{share:6.1%}' for share in caught)}", flush=True)
    missed |= _judge_short(arguments.data, arguments.documents)
    sys.exit(missed)


if __name__ == "__main__":
    main()
