"""Mends sentences in which removed markup was a word: ``그는 {{없는 틀}}에서 살았다.`` → 그는 살았다.

A particle whose word was removed goes, and so does the counter of a number: 주민 {{수}}명이 산다 → 주민이 산다.
Of a sentence that only says what something is called, what it is, or how many there are, nothing would be left to say: it goes.
None is mended if the markup may have been a mark within a word or before one (``나루시{{출처}}는``, ``{{국기}} 이라크``).
"""

from __future__ import annotations

import re

from korealbert.corpus.markup.layout import LINE_BREAK, REMOVED
from korealbert.corpus.particles import is_word_of

_GAP = rf"(?<=[^\s{LINE_BREAK}{REMOVED}] )(?:{REMOVED}[ {REMOVED}]*)(?<={REMOVED})"
"""Removed markup after a word and a blank."""
_SYMBOL = "[a-zA-Zμ²³㎢㎡/%°]{1,6}"
_GAP_END = re.compile(rf"{REMOVED}(?:[가-힣]|\(으\)| ?{_SYMBOL}인 )")
EITHER_FORM = (
    r"(?:은\(는\)|는\(은\)|은/는|이\(가\)|가\(이\)|이/가|을\(를\)|를\(을\)|을/를|과\(와\)|와\(과\)|와/과"
    r"|\(으\)로(?:는|서|써|부터)?)"
)
"""A particle in both forms, for a word of a template whose end is unknown."""
OF_A_SUBJECT = (
    "속(?:한|하는|해) |만든 |지은 |세운 |이끄는 |이끈 |맡은 |낳은 |태어난 |사는 |살던 |다스리는 |다스린 "
    "|(?:발견|발명|개발|설립|제작|창건|건립|통치|거주|소유|운영|관리)(?:한|하는|하던) "
)
"""Verbs that a subject must precede, so that 이 before them is its particle: in 이 작은 강 it is none."""
_PARTICLE = (
    rf"(?:{EITHER_FORM}|"
    r"에서(?:는|도|의|부터)?|에게서?|에(?!도)(?:는|서)?|을|를|의|[와과](?:는|의|도)?|으?로(?:는|서|써|부터|의)?|까지|부터|께서"
    r"|에 (?:대한|대해|따라|따르면|의해|의하면|관한)|는|가|은(?! (?:메달|화|상|색|반지|제))"
    r"|처럼|마다|이?라는|들(?:이|은|을|의|과|에|에게)"
    rf"|이(?= (?:{OF_A_SUBJECT})))"
)
_TO = "(?:대[하한해]|의[하한해]|관[하한해]|따[라르])"
_HANGING = re.compile(
    rf"{_GAP}(?:(?!에 {_TO})|(?<=[은는이가을를에의도로과와서고며면지,.] {REMOVED}))"
    rf"{_PARTICLE} +(?=\S)"
)
"""Not 보다, 조차, 이며 and 이고, without which the rest says something else; not 에 대하여 after a noun that the removed word
explained: 함수 {{식}}에 대하여."""
_COUNTER = "(?:명|개|마리|권|편|곳|채|대|척|그루|가구|세대|건|종|회|번|차례|점|호|동|층|량)"
_COUNTED = re.compile(
    rf"([가-힣])( )(?:{REMOVED}[ {REMOVED}]*)(?<={REMOVED}){_COUNTER}"
    r"((?:이|가|을|를|은|는|과|와|의|으로|로|에|에서|도|만)(?=[ ,])|(?=,| (?:및|또는|그리고) ))"
)
"""A noun, a number that was removed, and its counter, with a particle or before the next of a series."""
_COORDINATED = re.compile(
    rf"([가-힣])(이자| (?:겸|및|또는|혹은)) (?:{REMOVED}[ {REMOVED}]*)(?<={REMOVED})"
    r"(?:(이[며고자](?=[ ,])|(?:이다|이었다|였다)(?=\.)|(?<!및 \0)(?<!는 \0)(?<!은 \0)인(?= ))"
    r"|(?<!이자 \0)((?:은|는|이|가|을|를|의|으?로|에서?|에게)(?=[ ,])))"
)
"""A noun, and a word that was removed beside it: 시인이자 {{직업}}이며. Not 이자 before other particles, which is interest."""
_ATTRIBUTE = re.compile(
    rf"(?:^|(?<=[다요]\. )|(?<=[은는을를에서도로와과] )|(?<=[^고며], )|(?<={LINE_BREAK}))(?:(?:평균|최[대고소]|총|전체) )?"
    "(?:해발 고도|고도|높이|길이|넓이|면적|너비|폭|깊이|반지름|지름|직경|둘레|두께|무게|몸무게|체중|키|나이|인구|학생 수"
    "|이름|본명|별명|본관|직업|국적|크기|용량|속도|온도|질량|밀도|주기|반감기|가격|값|비율|확률)"
    rf"[이가] (?:(?:약|총|만|최[대소]) ?)?(?:{REMOVED}[ {REMOVED}]*)(?<={REMOVED})"
    " ?(?:(?:제곱)?(?:센티|킬로|밀리)?(?:미터|그램)|리터|톤|도|명|개|세|살|층|[만억]?원|[년분초]|시간|헤르츠|퍼센트|헥타르|배"
    rf"|{_SYMBOL})?"
    r"인 +(?!것|(?:줄|데|지|채|양|듯|만큼|경우|때|까닭)(?:[이을은에]|$| ))(?=\S)",
    re.MULTILINE,
)
"""A clause before a noun that says a number or name: 높이가 {{수}} m인 나무. Not after a word that belongs to it
(나무의 높이가), nor after another such clause (너비가 {{수}}이고)."""
_TOPIC_COUNTED = re.compile(rf"{_GAP}{_COUNTER}(?:으로|로|이며|이고),? +")
_DATED = re.compile(rf"(?<=\d[년월]) (?:{REMOVED}[ {REMOVED}]*)(?<={REMOVED})[월일](?=(?:에|부터|까지|의)[ ,])")
_WHEN = "(?:에|부터|까지)"
_UNDATED = re.compile(
    rf"(?:^{REMOVED}+년{_WHEN}?|(?<= ){REMOVED}+년(?:{_WHEN}|(?= {REMOVED}+월))) +(?!(?:한|두|세|네|몇) |\d)"
    rf"(?:{REMOVED}+월{_WHEN}? +(?:{REMOVED}+일{_WHEN}? +)?)?",
    re.MULTILINE,
)
"""A date whose year was removed, not a period: {{수}}년에 한 번."""
_BEGIN = rf"(?:^|(?<=[다요까죠][.?!] )|(?<={LINE_BREAK}))"
_WITHIN = rf"[^.?!,\d\"“”\n{LINE_BREAK}]"
_NAMED = (
    r"(?:이?라고?도?|으?로도?) (?:불[러렀리린렸]|부르|부른|일컫|칭|하였|알려)[^.?!,\n]{0,14}다\."
    r"|이?라고?도? (?:한다|했다)\.|이?라는 (?:뜻|이름)이?다\."
)
_NAMELESS = re.compile(rf"(?:\A|(?<=\n\n)|(?<=[다요까죠][.?!][ \n])){REMOVED}+(?:{_NAMED})(?:(?P<blank> ) *|$)", re.MULTILINE)
"""A sentence that begins with what something is called: {{이름}}이라고도 한다. Not after a line that may be what
it is called."""
_SAYS_NOTHING = re.compile(
    rf"{_BEGIN}{_WITHIN}{{1,30}}?{_GAP}(?:{_NAMED}|(?<=[은는이가도] {REMOVED})(?:이다|였다|이었다|입니다)\."
    rf"|(?<=의 {REMOVED})이(?:다|었다)\.|이 (?:되었|됐|된)[^.?!,\n]{{0,4}}다\."
    rf"|[를을] 뜻한다\.|(?<=[은는에] {REMOVED}){_COUNTER}(?:이|가)? [^.?!,\d\n]{{1,12}}다\."
    rf"|(?<=모두 {REMOVED}|전체 {REMOVED}){_COUNTER}"
    r"으?로 (?:이루어|구성)[^.?!,\n]{1,8}다\.)(?:(?P<blank> ) *|$)",
    re.MULTILINE,
)
"""A short sentence of one clause without other numbers."""


def mend_holes(text: str) -> str:
    """Mend the sentences of a text with marks of removals, which stay."""
    if _GAP_END.search(text) is None:
        return text
    for sentence in (_SAYS_NOTHING, _NAMELESS):
        text = sentence.sub(rf"{REMOVED}\g<blank>", text)  # The next sentence may begin with 들은 or 보다, no particles there.
    text = _ATTRIBUTE.sub(REMOVED, text)
    text = _COORDINATED.sub(_joined_alone, _COUNTED.sub(_joined, text))
    if f"{REMOVED}년" in text:
        text = _UNDATED.sub(REMOVED, text)
    text = _DATED.sub(REMOVED, text)
    return _HANGING.sub(REMOVED, _TOPIC_COUNTED.sub(REMOVED, text))


_PAIRS = {one: pair for pair in (("이", "가"), ("을", "를"), ("은", "는"), ("과", "와"), ("이었다", "였다")) for one in pair}
_FINAL_L = 8
"""Number of ㄹ among the finals of Unicode's syllables."""
_NO_NOUN = "은는이가을를에의도로과와고며면진친한된인난운른간온던할될해돼약총만"
"""Last syllables of words that may be no noun: 숨진 {{수}}명이."""


def _joined(found: re.Match[str]) -> str:
    """Put a particle to the noun before the number, in the form that follows it; after another particle nothing is mended."""
    noun, _, particle = found.groups()
    word = found.string[max(0, found.start() - 1) : found.end(1)]
    if noun in _NO_NOUN or word.lstrip() in ("제", "에서", "모두", "전체", "각각", "운데", "현재"):
        return found[0]
    return f"{noun}{REMOVED}{fitting(noun, particle)}"


def _joined_alone(found: re.Match[str]) -> str:
    """Put a verb or particle to the noun before a word that was removed, without what joined them."""
    noun, _, verb, particle = found.groups()
    return f"{noun}{REMOVED}{fitting(noun, verb or particle)}"


def fitting(noun: str, particle: str) -> str:
    """Return a particle in the form that follows a noun."""
    if particle in ("으로", "로"):
        return "로" if (ord(noun) - ord("가")) % 28 in (0, _FINAL_L) else "으로"
    return next((one for one in _PAIRS.get(particle, (particle,)) if is_word_of(noun + one, noun)), particle)
