"""Particles and forms of 이다 (to be), 하다 (to do) and 되다 (to become) that follow a Korean noun.

A noun may have 들, postpositions (에서, 으로, 처럼) and delimiters (만, 까지, 조차), then a case particle (은, 가) or a verb:
카지노들에서까지도, 카지노뿐이었다면서요. ``lengths_before_particles`` knows only the frequent ones, for speed.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CASES = {True: ("은", "이", "을"), False: ("는", "가", "를")}
"""Case particles, which no other particle follows, by whether the word before them ends in a consonant."""
_AFTER_CONSONANT = ("과", "이나", "이랑", "이라도", "이든", "이야", "이란", "아")
_AFTER_VOWEL = ("와", "나", "랑", "라도", "든", "야", "며", "고", "라", "란", "다", "면")
_AFTER_BOTH = (
    *("의", "에", "에서", "에선", "에게", "에게서", "한테", "께", "께서", "도", "만", "까지", "부터", "보다", "처럼", "마다"),
    *("밖에", "조차", "마저", "하고", "뿐", "만큼", "같이", "이다", "입니다", "이에요", "예요", "인", "임"),
)
_DIRECTIONAL = ("으로", "로", "으로서", "로서", "으로써", "로써", "으로선", "로선")
_SECOND = ("", "는", "도", "만", "의", "까지", "은", "부터", "라도", "을", "를", "이", "와", "처럼", "조차")
"""Particles that may follow another one: 에서는, 까지도, 부터의, 만을."""
_COPULA = re.compile("이(?:었|라|지만|기|며|면|므로|자|던|니|고|든|건)|(?:였|라고|라는|라서|라면|라기|지만)|인(?:데|지|가)")
"""Beginnings of forms of 이다: 이라고, 이었던, 였으며, 이지만, 인데."""
_COPULA_FIRST_SYLLABLES = frozenset("이였라지인")


_COMITATIVE = {True: "과", False: "와", None: "[과와]"}
_LINKED = {True: "이", False: "이?", None: "이?"}
_POSTPOSITION = (
    "에게서?|에서|에다가?|에|한테서?|께서?|더러|보다|처럼|만큼|만치|대로|같이|마냥|치고서?"
    "|에겐|한텐|께선|보단|치곤|답(?:게|다|지|긴)|다운|다워"
    "|같(?:[은다네]|은데|아[요서]?|네요|음|지[도만는]?|습니다|았다)"
    "|(?:{comitative}|{linked}랑|하고|으?로[서써]?)(?![이가을를다])"
)
"""No subject or object particle follows those in the second row: 토토로가 is of 토토로, not of 토토."""
_DELIMITER = (
    "만|까지|까진|부터|부턴|마저|조차|마다|밖에|뿐|커녕|따라|따위|때문|정도|쯤|씩"
    "|{linked}(?:나마?|라도|든[지가]?|야말로|라야|란|야)"
)
_CASE = {True: "은(?:커녕)?|이|을|아|이여", False: "는(?:커녕)?|가|를|야|여"}
_SAID = (
    "(?:고(?:[는도만요]|까지)?|는(?:데요?|지도?|가|걸|게|군요?)?"
    "|며|면(?:서)?요?|던데요?|더라고?요?|니까?요?|네요?|지만?|든[지가])?"
)
"""What follows reported speech: 이라고, 한다는데, 이냐면서."""
_OPEN = (
    rf"[다라냐자]{_SAID}|다(?:가[도는]?|만|시피)|라(?:[도야오곤]|서[요는도야]?|긴|기(?:에는?|엔|보단|보다는?)?)"
    r"|[랄달]까요?|래(?:[요도다야]|서)?|랍니[다까]|잖아요?|거든요?"
    r"|고(?:[요는도선야만]|서야?|말고요?)?|구요?|며|면(?:[은요야]|서[도요는]?)?|니(?:까[는요]?|깐|라|만큼)?"
    r"|나(?:[요마]|보[다네])?|네요?"
    r"|지(?:[요는도를마]|만은?요?|라도)?|죠|로?(?:구나|군요?)|구[려만먼]요?"
    r"|로[다서]|올시다|던(?:데[요도]?|[지가]요?)?|더(?:라[고도는면]?요?|니|군요?|구나)"
    r"|든(?:[지가]|간에)?|거나|거니와|건(?:만|대|데)?|긴|기(?:까지|보단|보다|때문에?|[는도만를가에])*"
    r"|므로|자[면마니]|야(?:[지죠만]|말로)|요|오|어(?:[야서도요])?"
    r"|여(?:[야서도요])?|려(?:[고면는]|다가?)?|러|도록|게(?:[끔도는])?|세요?|소서|십시오|느라|듯이?"
    rf"|는(?:데[도요]?|지도?|가|걸요?|구나|군요?|다{_SAID}|바)?"
)
"""Endings of a stem that ends in a vowel: 이며, 하지만."""
_PAST = (
    rf"(?:었|겠)?(?:다{_SAID}|다[가만]|던(?:데|지|가)?요?|고[요도]?|구요?|으[며나]|으면서?|으니까?"
    r"|으므로|지만?요?|죠|는(?:데[도요]?|지도?|가)|나요?"
    rf"|냐{_SAID}|네요?|음(?:[을이은도]|에도)?|을(?:까요?|지도?|때|텐데)?|기(?:[에도]|때문에?)?"
    r"|거든요?|더(?:라[고도]?요?|니)|잖아요?|습니[다까]만?"
    "|어[요도서야]?|군요?|구나|건만)"
)
_AFTER_FINAL = {
    4: rf"(?:(?:데|가|지)[도요는라]?|걸요?|(?:것|거|건|게|줄)[가-힣]{{0,6}}|즉|양|듯|채|다{_SAID})?",
    8: "(?:까[요봐]?|지라?도?|수록|뿐|걸요?|게요?|망정|지언정|텐데요?|테니|거[야다]?|때|듯|진대|는지|래요?|만[한하])?",
    16: "(?:[을이은과도]|에도?|에는|으로써?|이다|이라[고는])?",
    17: "(?:니[다까][만요]?|디다|시다)",
}
"""Number of a final of Unicode's syllables (ㄴ, ㄹ, ㅁ, ㅂ) → endings of a stem with it: 인데, 일까, 임을, 입니다."""
_STEMS = ("이", "하", "되", "이시", "하시", "되시", "당하", "시키")
_PASTS = ("이었", "였", "하였", "했", "되었", "됐", "당했", "시켰", "이셨", "하셨", "되셨")
_CONTRACTED = "이(?:에요|여요|어요)|예요|에요|(?:해|돼|시켜|당해)(?:[서야도요라]|서는|야지)?"
_DROPPED = f"(?![자기게어여려도오듯느소십세는]|러|건|지[는도를마])(?:{_OPEN})"
"""Forms of 이다 without its stem, after a vowel: 카지노고, 카지노냐."""
_I = 20
"""Number of ㅣ among the vowels of Unicode's syllables."""
_MIN_JOINED = 3
"""Least syllables of a noun that is recognised with a particle's consonant: 돈 is not 도 with ㄴ."""


def _with_final(word: str, number: int) -> str:
    return word[:-1] + chr(ord(word[-1]) + number)


@lru_cache(maxsize=2)
def _grammar(final: bool) -> re.Pattern[str]:
    """Return the pattern of what follows a noun that ends in a consonant (``final``) or in a vowel."""
    verbs = [_CONTRACTED, f"(?:{'|'.join(_PASTS)}){_PAST}"]
    for stem in _STEMS:
        verbs.append(f"{stem}(?:{_OPEN})")
        verbs += [_with_final(stem, number) + ends for number, ends in _AFTER_FINAL.items()]
    verb = "|".join(verbs)

    def particle(before: bool | None) -> str:
        forms = {"comitative": _COMITATIVE[before], "linked": _LINKED[before]}
        return f"(?:{_POSTPOSITION}|{_DELIMITER})".format(**forms)

    after = f"(?:{particle(None)}){{0,3}}(?:{_CASE[True]}|{_CASE[False]}|의|도|요|{_DROPPED}|{verb})?"

    def noun(before: bool) -> str:
        dropped = "" if before else f"|{_DROPPED}"
        return f"(?:(?:{_CASE[before]}|의|도)요?|{verb}{dropped}|{particle(before)}(?:{after})요?|엔|에[선겐]|으?론)"

    return re.compile(f"{noun(final)}|들{noun(True)}?")


def _has_final(letter: str) -> bool | None:
    """Return whether a letter ends in a consonant; None if unknown (Latin letters, digits)."""
    code = ord(letter) - 0xAC00
    return code % 28 > 0 if 0 <= code < 11172 else None


@lru_cache(maxsize=4)
def _particles(final: bool | None) -> frozenset[str]:
    ends = [final] if final is not None else [True, False]
    cases = [one for end in ends for one in _CASES[end]]
    first = [*_AFTER_BOTH, *_DIRECTIONAL, *(one for end in ends for one in (_AFTER_CONSONANT if end else _AFTER_VOWEL))]
    return frozenset([*cases, *(one + second for one in first for second in _SECOND)])


@lru_cache(maxsize=1)
def _after_syllables() -> tuple[frozenset[str], ...]:
    """Return the particles, 들, and 들 with particles that may follow a vowel, and those that may follow a consonant."""
    plural = frozenset(("들", *("들" + one for one in _particles(True))))
    return _particles(False) | plural, _particles(True) | plural


def lengths_before_particles(word: str) -> list[int]:
    """Return the possible lengths of a Hangul word without its particles: [2, 3] for 제주도는, which is 제주 or 제주도."""
    after = _after_syllables()
    return [
        length
        for length in range(1, len(word))
        if word[length:] in after[(ord(word[length - 1]) - 0xAC00) % 28 > 0]
        or (word[length] in _COPULA_FIRST_SYLLABLES and _COPULA.match(word, length))
        or (word[length] == "들" and _COPULA.match(word, length + 1))
    ]


def is_word_of(word: str, entry: str) -> bool:
    """Return whether a word is an entry with or without particles: 카지노들에서는 is of 카지노, 카지노은 is not."""
    if word.startswith(entry):
        return word == entry or is_particle(word[len(entry) :], _has_final(entry[-1]))
    joined = with_joined_particles(entry).get(word[: len(entry)])
    return joined is not None and re.fullmatch(joined, word[len(entry) :]) is not None


def with_joined_particles(noun: str) -> dict[str, str]:
    """Return the forms of a noun whose last vowel takes a particle's consonant, each with the pattern of what follows it.

    They are 카지논 (카지노는), 카지놀 (카지노를) and 카지놉니다 (카지노입니다). There are none of nouns of less than three
    syllables, nor of those in ㅣ, with which most stems of verbs end: 사다릴 and 사다립니다 may be verbs.
    """
    vowel = (ord(noun[-1]) - 0xAC00) // 28 % 21
    if len(noun) < _MIN_JOINED or _has_final(noun[-1]) is not False or vowel == _I:
        return {}
    return {_with_final(noun, number): _AFTER_FINAL[number] for number in (4, 8, 17)}


@lru_cache(maxsize=1 << 14)
def is_particle(ending: str, final: bool | None = None) -> bool:
    """Return whether an ending is particles or a verb; ``final``: whether the noun before it ends in a consonant."""
    return any(_grammar(one).fullmatch(ending) is not None for one in ((True, False) if final is None else (final,)))
