"""Whether two near-copies are about different subjects: two space probes, the men's and the women's race.

Names and numbers decide. A text is represented by the hashes of all occurrences of its words, those of the words of its title,
and, because titles may be equal or missing, those of the words of its opening that it repeats, and of the opening's
identifiers, which need not be repeated: 7호, 제3회, 2011년, A-10, 100미터 달리기, 김민수 씨, 여자, and the topic before its
first 은 or 는, with its number. Amounts and dates are none, nor is what a page counts (views, likes). Titles that are the same
except for their identifiers decide even if the texts have none of these; other words of titles count only where the text has
them, because headlines are reworded. Hangul words are stripped of particles and of endings of 하다 and 되다: 경상남도는 and
경상남도의 are one name, 경상남도 and 경상북도 are two. The end of a name may look like a particle, so 제주도는 counts as
제주도 and as 제주.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from korealbert.corpus.dedup.signatures import DECIMAL, THOUSANDS, Compared, Hashes, PrefixHashes, begins_run, packed, squeeze
from korealbert.corpus.normalise import composed
from korealbert.corpus.particles import is_particle, lengths_before_particles
from korealbert.philox import hash64

_VERB = re.compile(
    r"(?:하|되|시키)(?:[다고며면게지여자기던는나니]|면서|도록|려고?|지만|는데)?|(?:한|된|시킨)(?:다(?:고|는|며|면)?|데)?|(?:할|될|시킬)(?:까|듯|수록)?"
    r"|[함됨]|시킴|(?:해|돼|시켜)[야서도요라]?|(?:했|됐|하였|되었|시켰)(?:[다던고나]|다(?:고|는|며|면)|으며|으나|지만|는데|음)?"
)
"""Endings that make verbs of nouns of two syllables and more: 확정했다, 확정된."""
_VERB_SYLLABLES = frozenset("하되시한된할될함됨해돼했됐다요")
"""Every word with an ending of ``_VERB`` or ``_SENTENCE_END`` has one of these after its second syllable."""
_SENTENCE_END = re.compile(r"(?:다(?:고|는|며|면)?|요)$")
"""Endings of other verbs, whose first two syllables count: 알려졌다 and 알려진다 are not names."""
_MIN_DIFFERENT_NUMBERS, _MAX_COMMON_SHARE = 3, 0.5
"""Subjects differ if each text has this many numbers of its own, and less than this share of all numbers is in both."""
_MIN_NUMBERS = 2
"""Subjects also differ if each text has this many numbers and none is in both: the exchange rates of two days."""
_MIN_FREQUENCY_RATIO = 3
"""A name is specific to its text if that has it this many times as often as the other text."""

_OPENING_CHARACTERS, _MIN_SUBJECT_FREQUENCY = 200, 2
"""A text is about those words of its opening that it has this many times."""

_ORDINAL = (
    r"(?:제 ?(?P<after_je>\d+) ?(?P<any>[회차대호기부권편장조항과집군])"
    r"|(?<![\d.,])(?P<number>\d+)(?P<ordinal>호[선기실]?|회차|차전?|탄|학년|부|분기))"
)
"""A number that counts nothing. After 제 it never does; without it 3회 and 3대 may be amounts."""
_LABEL = r"(?<![a-z0-9])(?P<label>[a-z][조팀반])"
SURNAMES = (
    "강고곽구국권금기길김나남노도류마맹명모문민박반방배백변봉부서석선설성소손송신심안양엄여연염예오옥왕용우원위유육윤은이인임장전정제조주지진차채천최"
    "추탁태편표하한함허현홍황"
)
_PERSON = (
    rf"(?<![가-힣])(?P<person>[{SURNAMES}](?:[가-힣]{{2}}(?<![날솜글말맘저])|[가-힣]{{1,2}}(?=[ (])(?<![가-힣]모)))"
    r" ?(?:\([^()\n]{1,20}\) ?)?씨"
)
"""A name before 씨; 김모 씨 and A씨 name nobody, 가을날씨 is a word."""
_SEX = r"(?<![가-힣])(?P<sex>[남여])(?:자|성|학생)"
_YEAR = r"(?<![\d.,-])(?P<year>(?:1\d|20)\d\d)년(?! ?(?:\d|기준|현재|말|초|째|간|동안|만에|된|전|뒤|후|넘|이상|가까|역사|전통))"
"""A year that is no part of a date and no span of time."""
_EVENTS = (
    "달리기|계주|허들|장애물|경보|자유형|배영|평영|접영|혼영|개인|단체|종목|경기|경주|결[승선]|준결[승선]"
    "|예선|릴레이|스피드|쇼트|매스"
)
_EVENT = (
    rf"(?<![\d.,])(?P<distance>\d[\d,]*) ?(?:미터|킬로미터|k?m)(?= ?(?:{_EVENTS}))(?:{_EVENTS})?"
    r"|(?<![\d.,])(?P<weight>\d+) ?kg급"
)
"""What is raced over, not how long or heavy something is."""
_MODEL = r"(?<![a-z0-9./@_-])(?P<model>[a-z]{1,5}-?\d{1,4}[a-z]?)(?![a-z0-9._@/]|-\d)"
"""A-10, K2, U-20."""
_COUNTING = ("첫", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열")
_NUMERALS = {word: str(number) for number, word in enumerate(_COUNTING, start=1)}
_NUMBERED = rf"(?<![\d.,])(?P<century>\d{{1,2}})세기|(?P<nth>(?<![\d.,])\d{{1,4}}|{'|'.join(_COUNTING)}) ?번째"
_VARIANTS = {"차전": "차", "회차": "회", "km": "킬로미터", "m": "미터"}
"""Units in another spelling."""
_IDENTIFIER = re.compile(rf"(?:{_ORDINAL}|{_LABEL}|{_PERSON}|{_YEAR}|{_EVENT}|{_MODEL}|{_NUMBERED})(?P<rest>[가-힣]*)|{_SEX}")
"""Words that tell texts of one template apart: they number or name, where other words may be reworded and figures corrected."""
_NUMERIC = frozenset(("year", "distance", "weight", "model", "century", "nth"))
"""Groups whose values are numbers alone."""
_TOPIC = re.compile(r"\W{0,3}((?:[^\s.?!]{1,20} ){0,2}?[^\s.?!]{0,20}?[가-힣a-zA-Z0-9])(?:\([^()\n]{0,60}\))?[은는](?=[ ,])")
_NO_TOPIC = re.compile(r"(?:나|저|너|우리|저희|[이그저]것?|여기|오늘|어제|내일|지금|요즘|이번|지난|최근|올해)(?:에|에서|도)?")
"""Pronouns and times."""

_NAMED_NUMBER = re.compile(
    r"(?<![\d.,])(\d[\d,]*) ?(년|월|세기|세|미터|킬로미터|k?m|호선|번째|번|학년|분기|[회차대호기부권편장조항집])?(?![\d.])"
)
"""In the topic of a text it is rather a name than an amount: 2011년은, 100미터는."""
_COUNTED = re.compile(r"\d ?(?:명|건|개|곳|원|만|억|조|퍼센트|%|일|시|분|초|마리|대의|권의|차례|여)")

_CLOCK = r"(?:오[전후] ?)?\d{1,2}:\d\d(?::\d\d)?"
_DAY = r"(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2}(?!\d)\.?(?: ?\([가-힣]\))?"
_WRITTEN_DAY = r"(?:19|20)\d\d(?:년|\.) ?\d{1,2}(?:월|\.) ?\d{1,2}(?:일|\.)?(?: ?\([가-힣]\))?"
_BOILERPLATE = re.compile(
    "|".join(
        (
            r"(?<![가-힣a-z])(?:조회|추천|비추천|댓글|답글|공감|비공감|좋아요|싫어요|스크랩|등록|입력"
            r"|(?:최종 ?)?수정|작성|게시|승인|발행|hits?|views?|likes?|read)(?:수|일|일시|시간|일자|날짜)? ?[:|(\[]? ?"
            rf"(?:{_WRITTEN_DAY}(?: ?{_CLOCK})?|(?>\d[\d.,:/ -]*)(?![호차기편권]))",
            r"(?<![가-힣a-z])(?:작성자|글쓴이|닉네임|등록자|기자) ?[:=] ?[^\s|/]{1,20}",
            rf"(?<!\d)(?:{_DAY}(?: ?{_CLOCK})?|{_WRITTEN_DAY} ?{_CLOCK})",
            r"(?<!\d)(?:\(0\d{1,2}\)|0\d{1,2}) ?[-.)]? ?\d{3,4} ?[-.] ?\d{4}(?!\d)",
            r"(?<![\w.+-])[\w.+-]{1,64}+@[\w.-]{1,100}",
            r"(?<![a-z])(?:https?://|www\.)[^\s<>()]{1,1000}",
            r"[(\[][가-힣]{2,6}=[^()\[\]\n]{2,20}[)\]]",
            r"(?<![가-힣])[가-힣]{2,4} ?(?:기자|특파원)(?![가-힣])",
            r"[(\[](?:종합 ?(?:\d보)?|\d보)[)\]]",
            r"\[\d{1,3}\]|(?:copyrights?|[ⓒ©]) ?(?:\(c\)|[ⓒ©])? ?(?:19|20)\d\d",
            r"(?:^|(?<=\s))- ?\d{1,4} ?-(?=\n|$)|\n\d{1,4}\s*$|(?<!\d)\d{1,4} ?/ ?\d{1,4} ?(?:쪽|페이지|pages?(?![a-z]))",
        )
    )
)
"""What a page adds to a text, and its copies differ in: counts, when it was made and by whom (등록일 2012-03-04 10:22 |
조회 1,234, 홍길동 기자), the number of the version (2보), telephone numbers, addresses and page numbers. A date in words
without a label or time is the text's own."""

_COMPOUND_PART = 2
"""Syllables of most words that compounds are made of."""

_DIGIT, _HANGUL, _LETTER = 1, 2, 3
_NO_HASHES: Hashes = np.empty(0, dtype=np.uint64)


def compared(title: str, text: str, shingles: Hashes) -> Compared:
    """Return the hashes by which a text is compared with others, and its words."""
    text = _BOILERPLATE.sub(" ", composed(text, "NFKC").lower())
    words, names = _hashes(text, of_title=False), _hashes(title, of_title=True)
    opening = text[:_OPENING_CHARACTERS]
    named = _hashes(opening, of_title=True)
    repeated = named[_occurrences(named, words) >= _MIN_SUBJECT_FREQUENCY]
    titled = _identifiers(title)
    identified = np.concatenate((_identifiers(opening), _topic(text), titled, _numbered_topic(text)))
    words = np.sort(np.concatenate((words, _identifiers(text), _named_numbers(text))))
    subject = np.union1d(names, np.union1d(repeated, identified))
    return Compared(shingles, words, subject, _numbered(title, titled), packed(text))


def different_subjects(one: Compared, other: Compared) -> bool:
    """Return whether two near-copies differ in most of their numbers, or each is about a name of its own."""
    numbers, others = (each.words[(each.words & np.uint64(1) == 1) & begins_run(each.words)] for each in (one, other))
    common = len(np.intersect1d(numbers, others, assume_unique=True))
    different = min(len(numbers), len(others)) - common
    if not common and different >= _MIN_NUMBERS:
        return True
    if different >= _MIN_DIFFERENT_NUMBERS and common < _MAX_COMMON_SHARE * (len(numbers) + len(others) - common):
        return True
    return _differ_in_number(one.numbered, other.numbered) or (_has_own_subject(one, other) and _has_own_subject(other, one))


def _numbered(title: str, identifiers: Hashes) -> Hashes:
    """Return ``Compared.numbered``."""
    if not len(identifiers):
        return _NO_HASHES
    rest = hash64(squeeze(_IDENTIFIER.sub(_other_letters, composed(title, "NFKC").lower())))
    return np.concatenate((np.array([rest], dtype=np.uint64), np.unique(identifiers)))


def _other_letters(found: re.Match[str]) -> str:
    """Return the particle after an identifier, or all of a word that is none."""
    rest = found["rest"] or ""
    return rest if not rest or is_particle(rest) else found[0]


def _differ_in_number(one: Hashes, other: Hashes) -> bool:
    """Return whether two titles are the same except for identifiers, of which each has its own."""
    if not (len(one) and len(other)) or one[0] != other[0]:
        return False
    return bool(len(np.setdiff1d(one[1:], other[1:])) and len(np.setdiff1d(other[1:], one[1:])))


def _has_own_subject(one: Compared, other: Compared) -> bool:
    """Return whether a name of this subject is not one of the other, and much more frequent here than in its text."""
    names = np.setdiff1d(one.title, other.title, assume_unique=True)
    here, there = _occurrences(names, one.words), _occurrences(names, other.words)
    return bool(np.any((here > 0) & (here >= _MIN_FREQUENCY_RATIO * there)))


def _occurrences(wanted: Hashes, words: Hashes) -> npt.NDArray[np.int64]:
    return np.searchsorted(words, wanted, side="right") - np.searchsorted(words, wanted, side="left")


def _topic(text: str) -> Hashes:
    """Return the hashes of the words with which a text begins, up to 은 or 는, without numbers."""
    found = _TOPIC.match(text)
    if found is None or _NO_TOPIC.fullmatch(found[1]):
        return _NO_HASHES
    hashes = _hashes(found[1], of_title=True)
    words: Hashes = hashes[hashes & np.uint64(1) == 0]
    return words


def _numbered_topic(text: str) -> Hashes:
    """Return the hash of the last number in the words with which a text begins, up to 은 or 는, unless it counts something."""
    found = _TOPIC.match(composed(text[:_OPENING_CHARACTERS], "NFKC").lower())
    return _NO_HASHES if found is None or _COUNTED.search(found[1]) else _named_numbers(found[1])[-1:]


def _named_numbers(text: str) -> Hashes:
    """Return the even hashes of all occurrences of numbers with their units."""
    found = [
        hash64(f"number {_in_one_spelling(one[1])}{_in_one_spelling(one[2] or '')}")
        for one in _NAMED_NUMBER.finditer(composed(text, "NFKC").lower())
    ]
    return np.array(found, dtype=np.uint64) & ~np.uint64(1)


def _identifiers(text: str) -> Hashes:
    """Return the even hashes of all occurrences of identifiers."""
    found = []
    for match in _IDENTIFIER.finditer(composed(text, "NFKC").lower()):
        if match["rest"] and not is_particle(match["rest"]):
            continue
        parts = {name: part for name, part in match.groupdict().items() if part and name != "rest"}
        kind = parts.keys() & _NUMERIC
        found.append(hash64(f"identifier {''.join(kind)} {''.join(map(_in_one_spelling, parts.values()))}"))
    return np.array(found, dtype=np.uint64) & ~np.uint64(1)


def _in_one_spelling(part: str) -> str:
    """Return a number, model or unit without its comma or hyphen and in digits: 1,000, K-9, 두 번째, 차전."""
    part = part.replace(",", "").replace("-", "")
    return _NUMERALS.get(part) or _VARIANTS.get(part, part)


def _hashes(text: str, *, of_title: bool) -> Hashes:
    """Return the sorted hashes of all occurrences of words and numbers; those of numbers are odd, all others even.

    Words of a title are also hashed with their endings. Words of a text with four and more syllables are also hashed as their
    first and last two, because 무단횡단 may be written 무단 횡단.
    """
    lowered = THOUSANDS.sub("", composed(text, "NFKC").lower())
    kinds = _kinds()[np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)]
    kinds[[point.start() for point in DECIMAL.finditer(lowered)]] = _DIGIT
    edges = np.flatnonzero(np.diff(kinds, prepend=0, append=0))
    starts, widths, kind = edges[:-1], np.diff(edges), kinds[edges[:-1]]
    hangul, others = kind == _HANGUL, (kind == _DIGIT) | (kind == _LETTER)
    follows = np.append(False, kind[:-1] > 0)[hangul]
    begins: list[int] = []
    lengths: list[int] = []
    for start, width, after in zip(starts[hangul].tolist(), widths[hangul].tolist(), follows.tolist()):
        for begin, length in _forms(lowered[start : start + width], after, of_title):
            begins.append(start + begin)
            lengths.append(length)
    places = np.concatenate((starts[others], np.array(begins, dtype=np.int64)))
    hashes = PrefixHashes(lowered).runs(places, np.concatenate((widths[others], np.array(lengths, dtype=np.int64))))
    hashes &= ~np.uint64(1)
    hashes[: others.sum()] |= (kind[others] == _DIGIT).astype(np.uint64)
    return np.sort(hashes)


@lru_cache(maxsize=1 << 15)  # 15 MB; eight times as many words took 120 MB and hardly saved time
def _forms(word: str, follows: bool, of_title: bool) -> tuple[tuple[int, int], ...]:
    """Return begin and length of the hashed parts of a Hangul word; none for a particle after Latin letters or digits."""
    if follows and is_particle(word):
        return ()
    cut = _cut(word)
    if of_title:
        return tuple((0, length) for length in {*cut, len(word)})
    parts = [
        (begin, _COMPOUND_PART) for length in cut if length >= 2 * _COMPOUND_PART for begin in (0, length - _COMPOUND_PART)
    ]
    return (*((0, length) for length in cut), *parts)


def is_verb(word: str) -> bool:
    """Return whether a Hangul word ends like a verb."""
    lengths = range(1, len(word))
    return any(_VERB.fullmatch(word, length) for length in lengths) or _SENTENCE_END.search(word, 1) is not None


def _cut(word: str) -> list[int]:
    """Return the possible lengths of a word without its endings."""
    if not _VERB_SYLLABLES.isdisjoint(word[2:]):
        if verb := [length for length in range(2, len(word)) if _VERB.fullmatch(word, length)]:
            return verb
        if _SENTENCE_END.search(word, 2):
            return [2]
    return lengths_before_particles(word) or [len(word)]


@lru_cache(maxsize=1)
def _kinds() -> npt.NDArray[np.uint8]:
    """Return the kind of word that each code point belongs to, 0 for none: uint8 [1114112]."""
    table = np.zeros(0x110000, dtype=np.uint8)
    characters = [chr(code) for code in range(0x40000)]
    table[:0x40000] = [_LETTER if one.isalpha() else _DIGIT if one.isdecimal() else 0 for one in characters]
    table[0xAC00:0xD7A4] = _HANGUL
    return table
