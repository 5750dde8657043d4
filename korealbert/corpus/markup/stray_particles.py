"""Removal of particles whose word was removed, at the beginning of lines and sentences: ``{{없는 틀}}은 강이다.`` → 강이다.

What stood around removed markup alone is removed first: brackets ``《{{없는 틀}}》``, separators, units ``(만 {{나이|…}}세)``,
and within a sentence the phrase or clause that says nothing without its number.

Directly after removed markup all particles are removed, except 이 before a possible noun (이 강은), and those that begin names
as often (에도, 이란). Elsewhere only particles are removed that never begin a sentence: in 105,000 articles of Korean Wikipedia
in the output of WikiExtractor these are 의, and 가 before a longer word, but not 은 (silver) and 로 (a name).
가 and 을 stay where they name the first or second of several (가 등급, 갑 and 을), 와 and 에 where they exclaim.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from korealbert.corpus.markup.holes import EITHER_FORM, OF_A_SUBJECT, mend_holes
from korealbert.corpus.markup.layout import LINE_BREAK, REMOVED
from korealbert.corpus.particles import is_particle, is_word_of

_END = r"(?:, *| +(?!\([^\W\d가-힣])|$)"
"""Not before a parenthesis with other letters, which explains a name: 의 (義)는 성씨이다."""
_COMPOUND = "(?:대하|대해|대한|따라|따르|따른|의하|의해|의한|관하|관한|비하|비해)[가-힣]*"
_STAYS = "살[아았]|앉[아았]|쉬[어었]|쉰|묵[어었]|놀았|머[물무]|숨[어었]|누[웠워]|잤|잠들"
"""Verbs that follow 오다 and 가다: 와 쉬었다, 가 살았다."""
_EXCLAIMED = (
    rf"(?:와(?=, *| +(?:진짜|정말|너무|완전|대박|역시|이[거건게]|[저그]거|[보봐봤주줘줬있계]|{_STAYS})"
    r"|(?! *(?:함께|같[은이]|달리|더불어|비슷|마찬가지))[^.?!\n]{0,60}!)|에(?=,| +또[ ,]))"
)
"""와 and 에 as exclamations, and 와 as a form of 오다 (to come): 와 진짜 크다. 와 보니"""
_BEGINS_NONE = (
    rf"(?:(?:는|를|을(?! +[은이의과] )|[와과] 같[은이]|와|의|에서는?|에는|으로|에(?: {_COMPOUND})?){_END}"
    r"|이(?:며|고|지만|라면|면|므로)(?:, *|$)|(?:이다|이었다|입니다)\.(?: +|$))"
)
"""Words that begin no sentence."""
_CERTAIN = rf"(?!{_EXCLAIMED}){_BEGINS_NONE}"
_MORE = rf"(?!{_EXCLAIMED})(?>{_BEGINS_NONE}*)"
_SAID = r"이?라[고는] +"
"""Words that begin no line, but a sentence after a quotation without marks: 좋다. 라고 했다."""
_ATTACHED = (
    r"(?:은|가|과|도|로|에게서?|에게는|까지|부터|처럼|께서|[과와로]의|으?로[는서써]|에[서게]도|이(?:며|고|지만|라면|면|므로))"
    rf"{_END}|였다\.(?: +|$)"
    rf"|이 +(?={OF_A_SUBJECT})"
    r"|이 +(?=있|없|아니|되|된 |됐|나[오온타]|[가-힣]{1,7}[했었았였됐겠렸졌섰갔왔났켰쳤혔한된진린른는간온난]다[.,])"
)
"""Particles that begin sentences only as other words: silver, to go, names, the province."""
_AFTER_MARK = re.compile(rf"{REMOVED}(?: *(?:{_CERTAIN}|{_SAID})|{_ATTACHED}|{EITHER_FORM} +){_MORE}", re.MULTILINE)
_SKIPPED = f" \t*#:;>'\"“‘{REMOVED}"
# A pattern whose name ends in ``_END`` matches the end of each match of another. It is searched first, fifty times as fast,
# because it begins with a literal; few texts have a match.
_EMPTIED = re.compile(
    "|".join(
        f"{re.escape(left)} *{REMOVED}[ {REMOVED}]*{re.escape(right)}"
        for left, right in ("《》", "〈〉", "「」", "『』", "“”", "‘’", "[]", "（）")
    )
)
_EMPTIED_END = re.compile(rf"{REMOVED} *[》〉」』”’\]）]")
_EMPTY_QUOTES_END = re.compile(rf"{REMOVED}(?:\"|')")
_EMPTY_QUOTES = re.compile(rf"(?<![^\s(,{REMOVED}])(\"|'){REMOVED}+\1")
_STOP_ALONE = rf"[ {REMOVED}]*\.(?![\w.]) *"
_ALONE = re.compile(rf"{REMOVED}(?<=[다요까죠]\. {REMOVED}){_STOP_ALONE}(?:{REMOVED}{_STOP_ALONE})*")
"""Full stops of sentences that were removed."""
_BETWEEN = "·ㆍ・•→"
"""Marks between words; blanks before them stay."""
_DASH = "[-–—|]"
"""Marks that separate if blanks are around them; the blanks before them stay too."""
_SEPARATED_END = re.compile(rf"{REMOVED}(?: *(?=[,;、]|\.(?![.\w]))|(?= *[/{_BETWEEN}]| +{_DASH} ))")
_SEPARATED = re.compile(rf"[,;、/{_BETWEEN}–—|-](?<![^ ]{_DASH})[ {REMOVED}]*{_SEPARATED_END.pattern}")
_SEPARATOR_FIRST = re.compile(rf"{REMOVED} *(?:[{_BETWEEN}]|{_DASH}(?= )|/(?! *\d)) *")
_SEPARATOR_LAST_END = re.compile(
    rf"{REMOVED}(?:(?<=[/{_BETWEEN}].)|(?<=[/{_BETWEEN}] .)|(?<= {_DASH}.)|(?<= {_DASH} .))", re.DOTALL
)
_SEPARATOR_LAST = re.compile(
    rf"(?:[{_BETWEEN}]|(?<!\d)(?<!\d )/|(?<= )(?<![\d년월일] ){_DASH})[ {REMOVED}]*{REMOVED}(?= *(?:[)\n{LINE_BREAK}]|\Z))"
)
"""A separator at the end of a line or of parentheses. Between numbers a slash is none: ``({{점수}}/10)``; a dash after a date
says that something lasts."""
_UNIT = "세|살|년|월|일|개월|시간|분|초|개|명|인|번|회|위|원|달러|엔|유로| ?(?:[kcm]?m[²³2]?|ha|k?g|t|L|%|°C?)"
_MEASURED_END = re.compile(rf"{REMOVED}(?:{_UNIT}|(?<=[만약총].)|(?<=[만약총] .))(?= *[),;/])")
_MEASURED = re.compile(rf"(?<=[(,;/])(?: *(?:만|약|총|향년)(?= ?{REMOVED}))? *{REMOVED}*{_MEASURED_END.pattern}")
"""A unit whose number was removed, alone between brackets and separators, and what says that a number follows."""
_NUMBER = rf"(?<![^\s{LINE_BREAK}])(?:(?:향년|만|약|총) *)?{REMOVED}*"
_AGE = re.compile(rf"{REMOVED}[세살](?:(?:의 나이)?(?:로|에(?! {_COMPOUND}))|이[고며],?) +")
_AT_AN_AGE = re.compile(_NUMBER + _AGE.pattern)
_PERIOD = "(?:년|개월|주|일)"
_TIMES_END = re.compile(rf"{REMOVED}{_PERIOD}째 +")
_TIMES = re.compile(rf"(?<![^\s{LINE_BREAK}])(?:올해로 )?(?:약 )?{REMOVED}*{_TIMES_END.pattern}")
"""How long something has lasted: 올해로 {{수}}년째 살고 있다."""
_COUNTER = "(?:명|개| ?(?:[ck]?m²?|㎢|kg|%)|달러)"
_MEASURED_NOUN = "해발 고도|해발|고도|높이|길이|넓이|면적|너비|폭|깊이|반지름|지름|직경|무게"
_LEAD = rf"(?:(?:{_MEASURED_NOUN}|[시초]속|섭씨|영하|기원전|서기|[북남]위|[동서]경)(?: (?:약|총|최[대소]))?|만|약|총|최[대소])"
"""Words after which a number follows."""
_AFTER_LEAD = (
    rf"(?:(?<=[만약총폭] {REMOVED})(?<![가-힣][만약총폭] {REMOVED})|(?<=기원전 {REMOVED})|(?<="
    rf"(?:해발|고도|[높길]이|넓이|면적|너비|깊이|지름|직경|무게|[시초]속|섭씨|영하|서기|[북남]위|[동서]경|최[대소]) {REMOVED}))"
)
_LED_END = re.compile(REMOVED + _AFTER_LEAD)
_REMOVED_NUMBER = rf"{REMOVED}[ {REMOVED}]*(?:(?<= )[명개](?![가-힣]{{2}})|{_UNIT}|도|톤)?+"
_LED = rf"(?<![^\s{LINE_BREAK}]){_LEAD} {_REMOVED_NUMBER}"
"""Such a word before a number that was removed, and its unit; between a word and its footnote is no blank."""
_LED_PHRASE = re.compile(
    rf"(?>(?:{_LED}(?:(?:[의로에쯤이가은는을를]|으로|에서|까지|부터|가량|정도)?(?: 동안)? +(?![-\d])"
    rf"|, (?={_LEAD} {REMOVED})))+)"
)
"""An amount within a sentence: 해발 {{높이}} m의 산이다."""
_ORDINAL_END = re.compile(rf"{REMOVED}(?:(?<=제{REMOVED})|(?<=제 {REMOVED}))")
_ORDINAL = re.compile(rf"제(?<![가-힣]제) ?{REMOVED}+(?:대|회|차|호|기|권|세기|장|조|항|사단|연대|여단|군단)의? +")
_AMOUNT = rf"(?:{_LED}|(?:인구|학생 수|{_MEASURED_NOUN})[은는] (?:(?:약|총) )?{_REMOVED_NUMBER}|{_NUMBER}{REMOVED}{_COUNTER})"
_BEGIN = rf"(?:^|(?<=[다요까죠][.?!] )|(?<={LINE_BREAK}))"
_AFTER_TOPIC = rf"(?<=[구적이수비폭도름경게][은는] {REMOVED})"
_AFTER_AMOUNT = rf"{REMOVED}(?:{_COUNTER}|[세살]|(?:{_AFTER_LEAD}|{_AFTER_TOPIC})[ {REMOVED}]*(?:{_UNIT}|도|톤)?+)"
_COUNTS_END = re.compile(rf"{_AFTER_AMOUNT}이[고며],? +")
_COUNTS = re.compile(
    rf"(?:{_BEGIN}|(?<=[가-힣], ))[^.?!,\"“”\n{LINE_BREAK}]*?{_AMOUNT}이[고며],? +",
    re.MULTILINE,
)
"""A clause that says a number, which was removed: 학생은 {{수}}명이고, 교사는 5명이다."""
_WAS = "(?:이다|이었다|였다|입니다)"
_IS = f"(?:{_WAS}|다)"
_STOP = r"\.(?:(?P<blank> ) *|$)"
_LASTED = rf"{_PERIOD}(?:째{_IS}|(?:이|째가) (?:되었|됐|지났|넘었|흘렀)다)"
_IS_A_NUMBER_END = re.compile(
    rf"(?:{_AFTER_AMOUNT}{_IS}|{REMOVED}{_LASTED}|{REMOVED}(?<=향년 {REMOVED})세){_STOP}", re.MULTILINE
)
_IS_A_NUMBER = re.compile(
    rf"{_BEGIN}(?P<before>[^.?!\"“”\n{LINE_BREAK}]*?)"
    rf"(?:{_AMOUNT}{_IS}|{_NUMBER}{REMOVED}[세살]{_WAS}"
    rf"|(?:올해로|지) {_NUMBER}{REMOVED}(?P<lasted>{_LASTED})|향년 {REMOVED}+세){_STOP}",
    re.MULTILINE,
)
"""A sentence that says a number, which was removed: 그는 {{나이}}세이다. None is removed that quotes."""
_DIGIT = re.compile(r"\d")
_ENDED = re.compile(f"[^\n]*[이{''.join(map(chr, range(ord('갔'), ord('힣'), 28)))}](?=(?:으며|며|고), )")
"""Clauses that are a sentence with 다 at their end: 태어났고, 화가이며."""
_REACH = 64
"""Maximum of characters between the beginning of a line and a particle."""

_NOT_GO = (
    f"(?!{_STAYS}|가셔|보(?:[니면고았아자려기세십]|라(?![색빛]))|봤|봐|봅(?!슬)|본[ 다]|볼[ 까]|버[리린려렸]"
    "|줘|주(?:기로|겠|었|세|십)"
    "|드(?:[리린렸려립]|릴(?![을이은로]))|계[시신셨]|달라고)"
)
"""Not before verbs that follow 가 as a form of 가다 (to go): 가 보니, 가 드리겠다."""
_SUBJECT = rf"가 +{_NOT_GO}(?=[가-힣]{{2}}|\d)|은 +(?=(?:에서|으로|[을를로의과와는가에]) )"
_LINE = re.compile(rf"\n(?<![\"”'’」』》〉>]\n)(?:{_CERTAIN}|{_SAID}|{_SUBJECT}){_MORE}", re.MULTILINE)
"""Not after a quotation or title, whose particle may begin the next line: ``"정말이다."`` and 라고 그는 말했다."""
_BROKEN = re.compile(
    rf"\n(?<=[가-힣]\n)(?=(의|에|에서|에는|[는를와을과]|가(?= +{_NOT_GO})){_END}"
    r"|(이(?:다|었다|며|고|지만|라면|면|므로))[ ,.\n])"
)
_NO_NOUN = re.compile(
    r"(?:[은는이가을를의에와과도로면서고며나다데때즉해라여어아만지한터닌인게각히및]"
    r"|경우|하자|만약|우선|물론|대략|항상|달리| 약)\Z"
)
"""The last two syllables of lines that do not end in a noun."""
_LETTERED = re.compile(
    "(?:등급|[군급형조음점동항목호반팀안부층열]|[구권]역|지[구역점]|구간|[장단]조|그룹|유형|코스|단계|선거구|계열)"
    "(?P<particle>[가-힣]*)|나(?:다|[ ,])"
)
"""What the first letter of the alphabet numbers, and the note A: 가 등급, 가 음. Also 가 나다라."""
_TOGETHER = re.compile("을 (?:통[하해한]|위[하해한]|비롯|포함|중심|대상|계기|바탕)")
_FIRST_PARTY = re.compile(r"(?:^|[.?!] )[\"'“‘「(]?갑[은이의과]?[ \"'”’」),:]", re.MULTILINE)
_HANGUL = re.compile("[가-힣]+")
_PARTY_REACH = 200
"""Maximum of characters between 갑 and 을 of a contract, which are in one line or in two that follow each other."""
_NEAR = 1_000
"""Maximum of characters between 가 and 나 of an enumeration."""
_SENTENCE = re.compile(rf"\. (?<=다\. )(?:{_CERTAIN}|{_SUBJECT}){_MORE}", re.MULTILINE)


def without_particles_after_marks(text: str, lost: Counter[str]) -> str:
    """Remove what stood around ``REMOVED`` alone, and particles after it that begin a line or sentence, which are counted."""

    def replacement(found: re.Match[str]) -> str:
        if not _begins(found.string, found.start()):
            return found[0]
        lost["line"] += len(found[0]) - len(REMOVED)
        return REMOVED

    if REMOVED not in text:
        return text
    text = _without_what_stood_alone(text)
    before = len(text)
    if _AGE.search(text):
        text = _AT_AN_AGE.sub(REMOVED, text)
    if _TIMES_END.search(text):
        text = _TIMES.sub(REMOVED, text)
    if _COUNTS_END.search(text):
        text = _COUNTS.sub(REMOVED, text)
    if _IS_A_NUMBER_END.search(text):
        text = _IS_A_NUMBER.sub(_without_number, text)
    if _LED_END.search(text):
        text = _LED_PHRASE.sub(REMOVED, text)
    if _ORDINAL_END.search(text):
        text = _ORDINAL.sub(REMOVED, text)
    text = mend_holes(text)
    lost["line"] += before - len(text)
    return _AFTER_MARK.sub(replacement, text)


def _without_what_stood_alone(text: str) -> str:
    """Remove brackets, units and separators that stood around ``REMOVED`` alone."""
    text = _ALONE.sub(REMOVED, text)
    if _EMPTIED_END.search(text):
        text = _EMPTIED.sub(REMOVED, text)
    if _EMPTY_QUOTES_END.search(text):
        text = _EMPTY_QUOTES.sub(REMOVED, text)
    if _MEASURED_END.search(text):
        text = _MEASURED.sub(REMOVED, text)
    if _SEPARATED_END.search(text):
        parts = _SEPARATED.split(text)
        kept = [part if after[:1] in f" /{_BETWEEN}" else part.rstrip(" ") for part, after in pairwise(parts)]
        text = REMOVED.join([*kept, parts[-1]])
    if _SEPARATOR_FIRST.search(text):
        text = _SEPARATOR_FIRST.sub(_without_first_separator, text)
    if _SEPARATOR_LAST_END.search(text):
        text = _SEPARATOR_LAST.sub(REMOVED, text)
    return text


def _without_first_separator(found: re.Match[str]) -> str:
    """Remove a separator where a line, a sentence, or the content of parentheses or after a colon begins."""
    at = found.start()
    before = found.string[max(0, at - _REACH) : at].rstrip(f" {REMOVED}")
    return REMOVED if before.endswith(("(", ":")) or _begins(found.string, at) else found[0]


def _without_number(sentence: re.Match[str]) -> str:
    ended = _ENDED.match(sentence["before"])
    if sentence["lasted"] and not ended and _DIGIT.search(sentence["before"]):
        return sentence[0]  # It also says when something began.
    blank = sentence["blank"] or ""  # The next sentence may begin with 들은 or 보다, no particles there.
    return f"{ended[0]}다. {REMOVED}{blank}" if ended else f"{REMOVED}{blank}"


def _begins(text: str, at: int) -> bool:
    """Return whether a line or sentence begins at a position, apart from marks; after ``"좋다."`` the sentence goes on."""
    before = text[max(0, at - _REACH) : at]
    rest = before.rstrip(_SKIPPED)
    if not rest:
        return at <= _REACH
    skipped = before[len(rest) :].lstrip(REMOVED)
    return rest[-1] in f"\n{LINE_BREAK}" or (rest[-1] in ".?!" and skipped[:1] == " ")


def without_stray_particles(text: str, title: str) -> str:
    """Remove such particles from an article without marks of removals.

    If a particle fits the noun at the end of the line above, the lines are joined instead: 바보 노무현, 의 삶.
    """
    text = _LINE.sub(_without_particle, f"\n{_BROKEN.sub(_joined, text)}")[1:]
    text = _SENTENCE.sub(_without_particle, text)
    return text.removeprefix("은 ") if not title.startswith("은") else text


def _without_particle(found: re.Match[str]) -> str:
    mark = found[0][: 2 if found[0].startswith(".") else 1]
    return found[0] if _is_letter(found.string, found.start() + len(mark)) else mark


def _is_letter(text: str, at: int) -> bool:
    """Return whether 가 or 을 at a position names the first or second of several: 가 등급; 을 below or behind 갑."""
    if text.startswith("을 ", at):
        if _TOGETHER.match(text, at):
            return False
        last_lines = text[max(0, at - _PARTY_REACH) : at].rsplit("\n", 2)[-2:]
        return _FIRST_PARTY.search("\n".join(last_lines)) is not None
    if not text.startswith("가 ", at):
        return False
    at += len("가 ")
    if (lettered := _LETTERED.match(text, at)) and (not lettered["particle"] or is_particle(lettered["particle"])):
        return True
    word = _HANGUL.match(text, at)
    if word is None:
        return False
    noun = word[0][:2] if len(word[0]) > 2 else word[0][:1]
    second = text.find(f"나 {noun}", at, at + _NEAR)
    return second >= 0 and text[second - 1] in " \n"


def _joined(line_break: re.Match[str]) -> str:
    at = line_break.start()
    if _is_letter(line_break.string, at + 1):
        return "\n"
    noun, particle = line_break.string[max(0, at - 2) : at], line_break[1] or line_break[2]
    return "" if is_word_of(noun[-1] + particle, noun[-1]) and not _NO_NOUN.search(noun) else "\n"
