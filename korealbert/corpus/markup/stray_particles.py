"""Particles whose word was left out, at the beginning of lines and sentences: ``{{없는 틀}}은 강이다.`` becomes 강이다.

Right behind the mark of a removal every particle goes, but for 이 before what may be its noun (이 강은), and for those that
begin names as often (에도, 이란). Without a mark only what begins no sentence goes. In 105,000 articles of Korean Wikipedia, as
WikiExtractor wrote them, that is so of 의 and of 가 before a longer word, but not of 은 (silver) and 로 (a name).
"""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.markup.layout import GONE, LINE_BREAK
from korealbert.corpus.particles import is_word_of

_END = r"(?:, *| +(?!\([^\W\d가-힣])|$)"
"""Not before a parenthesis with other letters, which explains a name: 의 (義)는 성씨이다."""
_COMPOUND = "(?:대하|대해|대한|따라|따르|따른|의하|의해|의한|관하|관한|비하|비해)[가-힣]*"
_CERTAIN = (
    rf"(?:(?:는|를|을|[와과] 같[은이]|와|의|에서는?|에는|으로|에(?: {_COMPOUND})?){_END}"
    r"|이(?:며|고|지만|라면|면|므로)(?:, *|$)|(?:이다|이었다|입니다)\.(?: +|$))"
)
"""What begins no sentence."""
_SAID = r"이?라[고는] +"
"""Begins no line; a sentence it does, behind a quotation without marks: 좋다. 라고 했다."""
_ATTACHED = (
    r"(?:은|가|과|도|로|에게서?|에게는|까지|부터|처럼|께서|[과와로]의|으?로[는서써]|에[서게]도|이(?:며|고|지만|라면|면|므로))"
    rf"{_END}|였다\.(?: +|$)"
    r"|이 +(?=있|없|아니|되|된 |됐|나[오온타]|[가-힣]{1,7}[했었았였됐겠렸졌섰갔왔났켰쳤혔한된진린른는간온난]다[.,])"
)
"""What begins sentences as another word too: silver, to go, names, the province."""
_BEHIND_MARK = re.compile(rf"{GONE}(?: *(?:{_CERTAIN}|{_SAID})|{_ATTACHED}){_CERTAIN}*", re.MULTILINE)
_SKIPPED = f" \t*#:;>'\"“‘{GONE}"
_REACH = 64
"""Characters of marks between the beginning of a line and a particle."""

_NOT_GO = "(?!가셔|보[니면고았아자]|버[리린려렸]|줘)"
_SUBJECT = rf"가 +{_NOT_GO}(?=[가-힣]{{2}}|\d)|은 +(?=(?:에서|으로|[을를로의과와는가에]) )"
_LINE = re.compile(rf"(?<![\"”'’」』》〉>])\n(?:{_CERTAIN}|{_SAID}|{_SUBJECT}){_CERTAIN}*", re.MULTILINE)
"""Not behind a quotation or title, whose particle may begin the line below: ``"정말이다."`` and 라고 그는 말했다."""
_BROKEN = re.compile(
    rf"(?<=[가-힣])\n(?=(의|에|에서|에는|[는를와을과]|가(?= +{_NOT_GO})){_END}|(이(?:다|었다|며|고|지만|라면|면|므로))[ ,.\n])"
)
_NO_NOUN = re.compile(
    r"(?:[은는이가을를의에와과도로면서고며나다데때즉해라여어아만지한터닌인게각히및]"
    r"|경우|하자|만약|우선|물론|대략|항상|달리| 약)\Z"
)
"""Ends a line that ends in no noun, as far as two syllables tell."""
_SENTENCE = re.compile(rf"(?<=다\. )(?:{_CERTAIN}|{_SUBJECT}){_CERTAIN}*", re.MULTILINE)


def without_particles_behind_marks(text: str, lost: Counter[str]) -> str:
    """Text without the particles that follow ``GONE`` at the beginning of a line or sentence; their letters are counted."""

    def instead(found: re.Match[str]) -> str:
        if not _begins(found.string, found.start()):
            return found[0]
        lost["line"] += len(found[0]) - len(GONE)
        return GONE

    return _BEHIND_MARK.sub(instead, text) if GONE in text else text


def _begins(text: str, at: int) -> bool:
    """Whether a line or sentence begins at a position, marks left aside; behind ``"좋다."`` the sentence goes on."""
    before = text[max(0, at - _REACH) : at]
    rest = before.rstrip(_SKIPPED)
    if not rest:
        return at <= _REACH
    skipped = before[len(rest) :].lstrip(GONE)
    return rest[-1] in f"\n{LINE_BREAK}" or (rest[-1] in ".?!" and skipped[:1] == " ")


def without_stray_particles(text: str, title: str) -> str:
    """The same for an article of a program that left no marks of what it removed.

    Where a particle fits the noun at the end of the line above, it is that noun's, and the lines are one: 바보 노무현, 의 삶.
    """
    text = _SENTENCE.sub("", _LINE.sub("\n", f"\n{_BROKEN.sub(_joined, text)}")[1:])
    return text.removeprefix("은 ") if not title.startswith("은") else text


def _joined(line_break: re.Match[str]) -> str:
    at = line_break.start()
    noun, particle = line_break.string[max(0, at - 2) : at], line_break[1] or line_break[2]
    return "" if is_word_of(noun[-1] + particle, noun[-1]) and not _NO_NOUN.search(noun) else "\n"
