"""Telephone numbers, and what has their form: ranges of years and quantities, and figures of a table."""

from __future__ import annotations

import re

from korealbert.corpus.clean.personal_data.recognizer import (
    COUNTED,
    MAYBE_AFTER_NUMBER,
    MAYBE_BEFORE_NUMBER,
    Recognizer,
    text_before,
)

_AREA = r"(?:02|0(?:3[1-3]|4[1-4]|5[1-5]|6[1-4])|070|080|050[2-8]?)"
_HOTLINE = "(?:15(?:22|33|44|51|55|66|77|88|99)|16(?:00|44|6[0168]|70|88)|18(?:00|11|33|55|77|99))"
_SPOKEN = "[공영일이삼사오육륙칠팔구]"
_DAY = "(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-2][0-9]|3[01])"
"""``02-20240315`` is no number of Seoul."""
_PHONE = re.compile(
    rf"(?:{MAYBE_AFTER_NUMBER}|(?<=[가-힣:]))(?:"
    r"(?:\+ ?82|\(\+82\)|(?:00)?82(?=[-–]\(?0?\)?1[016-9][-–]))"
    r"[-–. ]{0,2}\(?0?\)?(?:1[016-9]|2|[3-6][1-5]|70|50[2-8]?)[-–. )]{0,2}[0-9]{3,4}[-–. ]?[0-9]{4}"
    r"|01[016-9](?: ?[-–.·/_~] ?[0-9]{3,4} ?[-–.·/_~ ] ?[0-9]{4}|\)[0-9]{3,4}-[0-9]{4}|[2-9][0-9]{6,7})"
    r"|\(01[016-9]\) ?[0-9]{3,4}[-–. ]?[0-9]{4}"
    r"|(?P<parted>01[016-9] [0-9]{3,4}[- ][0-9]{4})"
    r"|010(?: ?[-–.] ?|\) ?|(?<![0-9] 010) |)(?![01]{8})[0-9]{8}"  # unassigned numbers (010-1…) too, which people write
    r"|01[16-9](?: ?[-–] ?|\) ?|(?<![0-9] ...) )[2-9][0-9]{6,7}"
    rf"|(?:\({_AREA}\) ?|{_AREA}(?:\) ?| ?[-–] ?|\.))[0-9]{{3,4}}(?: ?[-–] ?|\.| )[0-9]{{4}}"
    rf"|(?:\({_AREA}\) ?|{_AREA}(?:\) ?| ?[-–] ?))(?!{_DAY}(?![0-9]))[2-9][0-9]{{6,7}}(?! ?호)"
    rf"|(?<![0-9] ){_AREA} [0-9]{{3,4}}-[0-9]{{4}}"
    rf"|(?P<bare>(?<![0-9] ){_AREA} ?[0-9]{{3,4}} ?[0-9]{{4}}(?! [0-9]|[A-Za-z]))"  # no row of figures, no code
    r"|(?!010)[0OoㅇО]1[0OoㅇО][-–. ]?[0-9]{4}[-–. ]?[0-9]{4}|010(?:,[0-9]{4}){2}|010(?: ?\* ?[0-9]{4}){2}"
    rf"|(?<![가-힣])[공영]일[공영일육칠팔구] ?[-–.]? ?{_SPOKEN}{{3,4}} ?[-–.]? ?{_SPOKEN}{{4}}"
    rf"|(?:{_HOTLINE}-|(?P<unsure>{_HOTLINE} ?))[0-9]{{4}}(?! ?{COUNTED})"
    rf"|(?P<local>[2-9][0-9]{{2,3}}-[0-9]{{4}})(?! ?{COUNTED})"
    rf")(?:~[0-9]{{1,4}}(?![0-9시])|(?:[/,][0-9]{{4}}(?![0-9])){{1,3}}(?! ?{COUNTED}))?{MAYBE_BEFORE_NUMBER}"
)
_INQUIRY = "(?<!논)(?<![ (][전주산])문의"
"""Not of 논문의, 전문의, 주문의, 산문의; but 안전문의."""
_PHONE_CUE = re.compile(
    r"(?:(?:전화(?!(?<=\[전화)번호\])|연락|휴대|핸드폰|팩스|대표|(?:고객|콜) ?센터|[☎☏℡]"
    r"|(?<![A-Za-z])(?i:tel|fax|phone|mobile|h\.?p))[^0-9\n]{0,10}"
    rf"|(?:{_INQUIRY}|상담|예약|신고(?!전[주파])|안내|사무실)(?:(?!번호)[^0-9\n]){{0,10}}|(?<![가-힣])번호[^0-9\n]{{0,4}})\Z"
)
_PHONE_CUE_REACH = 20


def _phone(match: re.Match[str]) -> int | None:
    """Check numbers without hyphens and brackets, or without an area code: they need a cue, or blanks and none of a figure."""
    before = text_before(match, _PHONE_CUE_REACH)
    if match["local"]:
        return match.start() if _is_local(match) else None
    if _PHONE_CUE.search(before):
        return match.start()
    figure = _is_figure(match, before) if match["bare"] or match["parted"] else False
    if match["unsure"] or (figure and match["parted"]):
        return None
    if bare := match["bare"]:
        in_brackets = before.rstrip(" ").endswith("(") and match.string[match.end() : match.end() + 2].strip(" ")[:1] == ")"
        number = re.sub(rf"^{_AREA} ?", "", bare)
        return match.start() if number[0] not in "01" and (" " in bare or in_brackets) and not figure else None
    if match[0].startswith("1") and re.search("[/,]", match[0]):  # 1588-1234/1640
        return None
    return None if match[0].startswith("1") and _is_range(match) else match.start()


# Numbers of three parts that may be figures of a table

_TOTAL = "합계|소계|총계|누계|평균"
_FIGURE_CUE = re.compile(
    rf"(?:{_TOTAL}|인구|수치|값|숫자|점수|지수|좌표|코드|기록|표)[ :=은는이가의(]{{0,3}}(?:[가-힣]{{2,4}} )?\Z"
)
"""A word before a number that is a figure."""
_FIGURE_UNIT = re.compile(rf" ?(?:{_TOTAL}|{COUNTED})(?![가-힣])")
"""A word after a number that is a figure."""
_FIGURES_NEARBY = re.compile(rf"(?<![0-9])(?<![0-9] )(?!{_AREA} |01[016-9] )[0-9]{{2,3}} [0-9]{{3,4}} [0-9]{{4}}(?![0-9])")
"""A number of the same form that is none of a telephone: both are rows or columns of a table."""
_NEARBY_REACH = 60


def _is_figure(match: re.Match[str], before: str) -> bool:
    """Return whether a number of three parts is a figure, by words next to it or, except for mobile numbers, others near it."""
    if _FIGURE_CUE.search(before):
        return True
    start, end = max(0, match.start() - _NEARBY_REACH), match.end() + _NEARBY_REACH
    nearby = _FIGURE_UNIT.match(match.string, match.end()) or _FIGURES_NEARBY.search(match.string, start, end)
    return match["bare"] is not None and nearby is not None


# Hotlines that may be a range of years or quantities

_MAX_YEAR_RANGE = 300
"""``1588-1640`` is a range of years, not a hotline, if it is not longer than this (바로크 1600-1750, 청나라 1644-1912)."""
_LAST_YEAR = 2100
"""In brackets a range of years up to this one may be longer: 합스부르크(1522-1899)."""
_BRACKETS = {"(": ")", "[": "]"}
_SERVICE_BEFORE = re.compile(
    r"(?:항공|은행|뱅크|금고|카드|캐피탈|보험|화재|생명|손보|증권|페이|저축|대부|통신|텔레콤|모바일|전자|서비스|택배|물류|배송|운송|버스|택시|터미널|렌[터트]카"
    r"|여행사?|투어|관광|호텔|리조트|콘도|쇼핑|마트|마켓|몰|백화점|면세점|프라자|플라자|매장|대리점|영업[점소]|지점|본점|지사|본사"
    r"|(?<![동서남북])센터|공사|공단|공제회?|진흥원|관리원|정보원|연금|재단|협회|조합|주식회사|㈜|컴퍼니|코리아|그룹|산업|병원|의원|클리닉|치과|약국"
    r"|우체국|세무서|소방서|경찰서|보건소|구청|시청|군청|도청|국세청|코레일|철도|상조|렌탈|보안|캡스|에스원|학원|에듀|스쿨|치킨|피자|반점|식당"
    r"|(?<![가-힣])(?:KT|SKT?|LGU?|LG유플러스|S-?OIL|신한|국민|농협|수협|신협|우리은|하나은|삼성|현대|롯데|한국가스|한국전력|한전))"
    r"[가-힣]{0,3}['’\"”]? ?[(\[]\Z"
)
"""Businesses and authorities that have a hotline; behind other names a range of years is likelier (``대한항공(1588-2001)``)."""
_CUE_NEARBY = re.compile(
    rf"(?:전화(?!위복)|{_INQUIRY}|상담|예약|(?<![가-힣])신고(?!전[주파])|고객|콜 ?센터|핫라인|연락처|대표 ?번호|[☎☏℡]"
    r"|(?<![A-Za-z])(?i:tel|fax|ars))[^.?!\n]{0,20}\Z"
)
_CUE_AFTER = re.compile(r"[^()\[\]\n]{0,10}[)\]] ?(?:번 ?)?(?:으?로|에|에서) ?(?:전화|문의|상담|예약|신고|연락|신청|접수|걸)")
"""Words of telephone near a number in brackets."""
_FIGURE_BEFORE = re.compile(
    r"(?:(?<![A-Za-z])(?:ISO|ASA|BC|B\.C\.|AD|A\.D\.)|기원전|서기|해발|고도|표고|수심|감도"
    r"|색온도|셔터(?: ?속도)?|코스[피닥]|지수|점수|해상도|공격력|연봉|시간|(?<![A-Za-z])Elo)[ :은는이가약]{0,4}\Z"
)
"""Words before a range of quantities or years."""


def _is_range(match: re.Match[str]) -> bool:
    """Return whether a number in the form of a hotline is a range of years or quantities (1600-2400rpm)."""
    first, last = int(match[0][:4]), int(match[0][5:9])
    if 0 <= last - first <= _MAX_YEAR_RANGE or _is_counted(match, first, last):
        return True
    before, after = text_before(match, _NEARBY_REACH), match.string[match.end() : match.end() + _NEARBY_REACH]
    if first < last <= _LAST_YEAR and _in_brackets(before, after):
        return not (_SERVICE_BEFORE.search(before) or _CUE_NEARBY.search(before) or _CUE_AFTER.match(after))
    return _FIGURE_BEFORE.search(before) is not None


def _in_brackets(before: str, after: str) -> bool:
    opened = re.search(r"[(\[](?=[^()\[\]\n]*\Z)", before)
    closed = re.match(r"[^()\[\]\n]*([)\]])", after)
    return opened is not None and closed is not None and _BRACKETS[opened[0]] == closed[1]


_WORD_END = r"(?:[은는이가을를의에로과와만씩]|으로|까지|부터|에서|정도|이상|이하)?(?![가-힣])"
_FIGURE_AFTER = re.compile(
    r"(?P<falling>번지| ?B\.? ?C(?:\.? ?E)?(?![A-Za-z]| ?카드))| ?[%℃℉°˚Å㎀-㏟]"
    r"| ?(?:포인트|박스권)"
    r"|(?:미터|킬로|센티|밀리|피트|인치|마일(?!리지)|리터|그램|헥타르|에이커|k?칼로리|와트|볼트|루멘|켈빈|헤르츠|마력|해리"
    r"|위안|유로|파운드|프랑(?!스)|마리|페이지|세대|세기|년대|자루|켤레|그루)"
    rf"|(?:쪽(?!으로)|회(?!의)|[석호척량병권편곡칸종급벌]){_WORD_END}|(?P<even>[엔도]{_WORD_END})"
    r"| ?(?:r/?min|rpm|RPM|[kMGT]?Hz|k?cal|cc|cm|[kmGM][gmWLlVA]|[MGT]B|[kM]?bps|mAh|[hkM]Pa|dpi|ppm"
    r"|lm|fps|A\.?D|C\.?E|[KkgWVAJN])"
    r"(?![A-Za-z0-9]| ?(?:은행|뱅크|카드|쇼핑|보험|증권))| (?:미터|리터|피트|칼로리|마리|루멘)"
)
"""Units after a range of quantities or years. Such a range rises, except of lots and years before Christ; units that may be
particles (``1588-1234엔``) follow two even numbers."""


def _is_counted(match: re.Match[str], first: int, last: int) -> bool:
    """Return whether a unit stands behind two numbers that may be a range."""
    if not (unit := _FIGURE_AFTER.match(match.string, match.end())):
        return False
    return bool(unit["falling"]) or (first < last and not (unit["even"] and (first % 10 or last % 10)))


# Numbers without an area code

_AND = r"(?: ?[,/·] ?|[와과및 ]{1,3})"
_LOCAL_CUE = re.compile(
    r"(?:(?<![가-힣])(?:대표|사무실|안내|문의|상담|유선|직통)? ?(?:전화|팩스)(?: ?번호)?(?<!\[전화번호)|연락처|[☎☏℡]"
    rf"|[/,·|] ?전송"  # of faxes
    rf"|(?<![A-Za-z])(?i:tel|fax))[ .:=)은는\])]{{0,4}}(?:[0-9()-]{{8,15}}(?:~[0-9]{{1,4}})?{_AND}){{0,3}}\Z"
)
_LOCAL_AFTER = re.compile(
    rf"(?:{_AND}[2-9][0-9]{{2,3}}-[0-9]{{4}}){{0,3}}(?:번)?(?:으?로|에) ?"
    "(?:(?:문의|전화|연락|신고|예약|신청)(?!번호|[된되])|걸)"
)
"""What numbers without an area code, or the first or last of several, need before or after them."""
_OTHER_NUMBER = re.compile(r"[가-힣](?<!전화)(?<!연락)(?<!팩스)(?<!국)번호[ :은는이가의]{0,3}\Z|지번[ :은는이가의]{0,3}\Z")
"""The name of another number before one in the form of a local number (접수번호, 지번)."""
_YEARS = (2000, 2100)
"""``2001-2005`` is a range of years rather than a local number."""


def _is_local(match: re.Match[str]) -> bool:
    """Return whether a number without an area code is one; in the form of a range it needs a word before and one after it."""
    first, last = map(int, match["local"].split("-"))
    before = text_before(match, _NEARBY_REACH)
    label = _LOCAL_CUE.search(before) is not None
    asked = _LOCAL_AFTER.match(match.string, match.end()) is not None and not _OTHER_NUMBER.search(before)
    years = _YEARS[0] <= first <= last <= _YEARS[1]
    certain = (label and asked) if years else (label or asked)
    return certain and not _is_counted(match, first, last)


PHONE = Recognizer(re.compile("[0-9]{3}[-–.·/_~,* ]{0,3}[0-9]{4}|[공영]일[공영일육칠팔구]"), _PHONE, _phone)
