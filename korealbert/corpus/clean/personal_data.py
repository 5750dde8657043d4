"""Masking of personal data: numbers and addresses that identify a person are replaced by the name of their kind.

Years, prices, scores, dates, ISBNs, bar codes, versions and numbers of laws must stay, so most kinds need more than a pattern:
resident numbers a date and a check digit, cards an issuer's prefix and Luhn's check, businesses a check digit. Account,
license and passport numbers need a word next to them that names them, and so do telephone numbers without separators and
hotlines with a blank (1588 1234). After a label (``주민등록번호:``, ``카드번호``) neither date nor check digit must be right,
because people mistype. A number that its writer masked in part (900101-1******) stays as it is.

Datatrove's formatter for web text (used for FineWeb) replaces e-mail addresses and public IP addresses, too. The other kinds
are the unique identifiers of the Korean act on personal information (개인정보 보호법, articles 24 and 24-2), and those found
next to them in complaints and comments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from ipaddress import ip_address
from typing import Literal

from korealbert.corpus.normalise import HIDDEN_EMAIL, with_emails

Kind = Literal[
    "resident_number",
    "foreigner_number",
    "card",
    "business_number",
    "email",
    "phone",
    "passport",
    "account",
    "driving_license",
    "ip_address",
]
"""In the order of masking: numbers with a check digit before those recognised by form, addresses before numbers in them."""

PLACEHOLDERS: dict[Kind, str] = {
    "resident_number": "[주민등록번호]",
    "foreigner_number": "[외국인등록번호]",
    "card": "[카드번호]",
    "business_number": "[사업자등록번호]",
    "email": "[이메일]",
    "phone": "[전화번호]",
    "passport": "[여권번호]",
    "account": "[계좌번호]",
    "driving_license": "[운전면허번호]",
    "ip_address": "[IP주소]",
}

_RANDOM_NUMBERS_FROM = date(2020, 10, 5)
"""Resident numbers given since then have no check digit (주민등록법 시행규칙, in force 2020-10-05)."""
_BORN_BY = date(2030, 12, 31)
"""Resident numbers of later days of birth are none. A constant, so that a text is masked alike whenever that is done."""
_MAX_YEAR_RANGE = 300
"""``1588-1640`` is a range of years, not a hotline, if it is not longer than this (바로크 1600-1750, 청나라 1644-1912)."""
_YEARS = (2000, 2100)
"""``2001-2005`` is a range of years rather than a local number."""
_LAST_YEAR = 2030
"""In brackets a range of years up to this one may be longer: (1588-1969)."""

_CENTURY = {"9": 1800, "0": 1800, "1": 1900, "2": 1900, "3": 2000, "4": 2000, "5": 1900, "6": 1900, "7": 2000, "8": 2000}
_FOREIGN = "5678"
_RESIDENT_WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
_BUSINESS_WEIGHTS = (1, 3, 7, 1, 3, 7, 1, 3, 5)

_NOT_AFTER_NUMBER = r"(?<![0-9A-Za-z])(?<![0-9][-.,/])"
_NOT_BEFORE_NUMBER = r"(?![0-9])(?![-.,/][0-9])"
_MAYBE_AFTER_NUMBER = r"(?<![0-9A-Za-z])(?<![0-9][-.])(?:(?<![0-9][,/])|(?<=[0-9]{4}[,/]))"
_MAYBE_BEFORE_NUMBER = r"(?![0-9])(?![-.][0-9])(?![,/][0-9]{2,}+(?! ?[-–.)]))(?!(?:권|쪽|호(?!출|실|텔))(?![가-힣]{2}))"
"""These numbers may be listed with a comma or stroke and no blank, and end in an extension (``02-123-4567/8``) or in the last
digits of others (``02-123-4567/4568``)."""
_PERSON = re.compile(rf"{_MAYBE_AFTER_NUMBER}([0-9]{{6}})( ?[-–] ?|[ /._~]|)([0-9]{{7}}){_MAYBE_BEFORE_NUMBER}")
_PERSON_CUE = re.compile("(?:주민|외국인)(?: ?등록)?(?: ?번호)?[^0-9\n]{0,6}\\Z")
_OF_OWNER = r"(?:[ :=은는이가을를()\[\]<>,제]{0,4}| ?[:=(] ?[가-힣]{3}[ ,:)\]]{1,3})"
"""Between a label and its number: marks and a particle, or the owner's name behind a mark."""
_PERSON_LABEL = re.compile(
    rf"(?:주민 ?(?:등록)?|외국인 ?(?:등록)?|거소 ?(?:신고)?)(?:증)? ?(?:번호|No\.?)(?: ?13자리)?{_OF_OWNER}\Z"
)
_PERSON_AFTER = re.compile(r" ?[(/\[] ?(?:주민|외국인) ?(?:등록)? ?번호(?! ?[가-힣])")
_CARD_LABEL = re.compile(rf"카드 ?(?:번호|No\.?){_OF_OWNER}\Z")
_LABEL_REACH = 32
_CARD = re.compile(
    rf"{_NOT_AFTER_NUMBER}(?:[0-9]{{4}}([-– ])[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}|3[47][0-9]{{2}}([-– ])[0-9]{{6}}\2[0-9]{{5}}"
    rf"|[0-9]{{15,16}}){_NOT_BEFORE_NUMBER}"
)
_ISSUER = re.compile(r"3[47]\d{13}|(?=\d{16}\Z)(?:4|5[1-5]|2[2-7]|35|6[0-5]|9[0-9])\d+")
"""Only numbers of American Express have 15 digits; those of telephones (IMEI) have as many, and Luhn's check, too."""
_AREA = r"(?:02|0(?:3[1-3]|4[1-4]|5[1-5]|6[1-4])|070|080|050[2-8]?)"
_DAY = "(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-2][0-9]|3[01])"
_COUNTED = r"(?:명|원|개|년|여|만|억|대|건|가구|점|배|톤|평|주|달러|시간|km|m|kg|t|㎡|%)"
"""Units after a range of quantities (``1600-2000명``)."""
_WORD_END = r"(?:[은는이가을를의에로과와만씩]|으로|까지|부터|에서|정도|이상|이하)?(?![가-힣])"
_FIGURE_AFTER = re.compile(
    r"(?P<falling>번지| ?B\.? ?C(?![A-Za-z]| ?카드))|[%℃℉°˚Å㎀-㏟]"
    r"|(?:미터|킬로|센티|밀리|피트|인치|마일(?!리지)|리터|그램|헥타르|에이커|k?칼로리|와트|볼트|루멘|켈빈|헤르츠|마력|해리"
    r"|위안|유로|파운드|프랑(?!스)|마리|페이지|세대|세기|년대|자루|켤레|그루)"
    rf"|(?:쪽(?!으로)|회(?!의)|[석호척량병권편곡칸종급벌]){_WORD_END}|(?P<even>[엔도]{_WORD_END})"
    r"| ?(?:r/?min|rpm|[kMGT]?Hz|k?cal|cc|cm|[kmGM][gmWLlVA]|[MGT]B|[kM]?bps|mAh|[hkM]Pa|dpi|ppm|lm|fps|A\.?D|C\.?E|[KkgWVAJN])"
    r"(?![A-Za-z0-9]| ?(?:은행|뱅크|카드|쇼핑|보험|증권))| (?:미터|피트|칼로리|마리|루멘)"
)
_FIGURE_BEFORE = re.compile(
    r"(?:(?<![A-Za-z])(?:ISO|ASA|BC|B\.C\.|AD|A\.D\.)|기원전|서기|해발|고도|표고|수심|감도"
    r"|색온도|셔터(?: ?속도)?)[ :은는이가약]{0,4}\Z"
)
"""Units after, and words before, a range of quantities or years that a hotline has the form of. Such a range rises, except of
lots and years before Christ; units that may be particles (``1588-1234엔``) follow two even numbers."""
_NAME_BEFORE = re.compile(r"[가-힣A-Za-z0-9]['’\"”]? ?\(\Z")
_OLD = re.compile(
    r"(?:성성|교황청|[왕제공]국|왕[조가실]|가문|시대|수도회|선교회|교회|성당|의회|대학교?|학교|학[회파]"
    r"|인도 ?회사|도서관|극장|총독부|전쟁)['’\"”]? ?\(\Z"
)
"""What has a name and is old enough for a long range of years; of others it is a hotline (``대한항공(1588-2001)``)."""
_HOTLINE = "(?:15(?:22|33|44|51|55|66|77|88|99)|16(?:00|44|6[0168]|70|88)|18(?:00|11|33|55|77|99))"
_SPOKEN = "[공영일이삼사오육륙칠팔구]"
_PHONE = re.compile(
    rf"(?:{_MAYBE_AFTER_NUMBER}|(?<=[가-힣:]))(?:"
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
    rf"|(?P<bare>(?<![0-9] ){_AREA} ?[0-9]{{3,4}} ?[0-9]{{4}}(?! [0-9]))"  # but not a row of figures
    rf"|(?<![가-힣])[공영]일[공영일육칠팔구] ?[-–.]? ?{_SPOKEN}{{3,4}} ?[-–.]? ?{_SPOKEN}{{4}}"
    rf"|(?:{_HOTLINE}-|(?P<unsure>{_HOTLINE} ?))[0-9]{{4}}(?! ?{_COUNTED})"
    rf"|(?P<local>[2-9][0-9]{{2,3}}-[0-9]{{4}})(?! ?{_COUNTED})"
    rf")(?:~[0-9]{{1,4}}(?![0-9시])|(?:[/,][0-9]{{4}}(?![0-9])){{1,3}}(?! ?{_COUNTED}))?{_MAYBE_BEFORE_NUMBER}"
)
_PHONE_CUE = re.compile(
    r"(?:(?:전화(?!(?<=\[전화)번호\])|연락|휴대|핸드폰|팩스|대표|(?:고객|콜) ?센터|[☎☏℡]"
    r"|(?<![A-Za-z])(?i:tel|fax|phone|mobile|h\.?p))[^0-9\n]{0,10}"
    r"|(?:문의|상담|예약|신고|안내|사무실)(?:(?!번호)[^0-9\n]){0,10}|(?<![가-힣])번호[^0-9\n]{0,4})\Z"
)
_PHONE_CUE_REACH = 20
_AND = r"(?: ?[,/·] ?|[와과및 ]{1,3})"
_LOCAL_CUE = re.compile(
    r"(?:(?<![가-힣])(?:대표|사무실|안내|문의|상담|유선|직통)? ?(?:전화|팩스)(?: ?번호)?(?<!\[전화번호)|연락처|[☎☏℡]"
    rf"|(?<![A-Za-z])(?i:tel|fax))[ .:=)은는\])]{{0,4}}(?:[0-9)-]{{8,14}}{_AND}){{0,3}}\Z"
)
_LOCAL_AFTER = re.compile(
    rf"(?:{_AND}[2-9][0-9]{{2,3}}-[0-9]{{4}}){{0,3}}(?:번)?(?:으?로|에) ?(?:(?:문의|전화|연락|신고|예약|신청)(?!번호)|걸)"
)
"""What numbers without an area code, or the first or last of several, need before or after them."""
_TOTAL = "합계|소계|총계|누계|평균"
_FIGURE_CUE = re.compile(
    rf"(?:{_TOTAL}|인구|수치|값|숫자|점수|지수|좌표|코드|기록|표)[ :=은는이가의(]{{0,3}}(?:[가-힣]{{2,4}} )?\Z"
)
_FIGURE_UNIT = re.compile(rf" ?(?:{_TOTAL}|{_COUNTED})(?![가-힣])")
"""A word after a number that is a figure."""
_FIGURES_NEARBY = re.compile(rf"(?<![0-9])(?<![0-9] )(?!{_AREA} |01[016-9] )[0-9]{{2,3}} [0-9]{{3,4}} [0-9]{{4}}(?![0-9])")
"""A number of the same form that is none of a telephone: both are rows or columns of a table."""
_NEARBY_REACH = 60
_DOT = r"(?:\.| ?[(\[{<](?i:\.|dot|닷|점)[)\]}>] ?| (?i:dot) | ?[닷점] ?)"
_STOP = r" ?\. ?"
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63} ?@ ?(?:(?:naver|gmail|hotmail|outlook|kakao|nate|yahoo)"
    rf"{_STOP}com|(?:daum|hanmail){_STOP}net|(?:[a-z0-9-]+{_STOP}){{1,3}}(?:co|ac|go|re|or){_STOP}kr)(?![A-Za-z0-9])|"
    r"(?:(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}"
    r"(?:@| ?[(\[{<](?i:at|@|골뱅이)[)\]}>] ?| ?(?:골뱅이|앳) ?|(?P<word> (?:at|AT|@) |@ | @))|(?<![가-힣])[가-힣]{2,5}@)"
    rf"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?{_DOT}|[가-힣]{{2,20}}\.){{1,8}}"
    r"(?:[A-Za-z]{2,24}(?![A-Za-z0-9]|[.-][A-Za-z0-9])|한국)"
)
"""Includes forms that hide an address from programs: ``hong(at)press.example``, ``hong 골뱅이 press[dot]example``."""
_FILE = re.compile(r"\.(?i:png|jpe?g|gif|svg|webp|bmp|ico|pdf|css|js|mp[34])\Z")
"""``icon@2x.png`` is a file, not an address."""
_LATIN_WORD = re.compile(r"[A-Za-z][,.:;]? \Z")
_MAIL_CUE = re.compile(r"(?i:메일|mail|연락|문의|주소)[^A-Za-z0-9\n]{0,8}\Z")
_MAIL_HOST = re.compile(
    r"(?:naver|gmail|hotmail|outlook|kakao|nate)\.com|(?:daum|hanmail)\.net|yahoo\.(?:com|co\.kr)|(?:[a-z0-9-]+\.)+(?:ac|go|re)\.kr"
)
_PASSPORT_NUMBER = "[A-Z] ?(?:[0-9]{8}|[0-9]{3}[A-Z][0-9]{4})"
_PASSPORT = re.compile(
    r"(?:여권(?: ?번호)?|(?<![A-Za-z])(?i:passport(?: ?(?:number|no\.?|#))?))[ :=은는이가(]{0,3}"
    rf"({_PASSPORT_NUMBER})(?![0-9A-Za-z])"
    rf"|(?:여권 ?번호|(?<![A-Za-z])(?i:passport ?(?:number|no\.?|#))){_OF_OWNER}"
    rf"([A-Z]{{1,2}}[ -]?[0-9]{{7,8}}|{_PASSPORT_NUMBER})(?![0-9A-Za-z])"
    rf"|(?<![0-9A-Za-z])({_PASSPORT_NUMBER})(?= ?[(/]? ?여권(?: ?번호|\)|$))"
)
_BANK = "신한|국민|우리|하나|외환|기업|산업|제일|씨티|새마을|카카오|카뱅|토스|KB국민|IBK기업|KEB하나|[KS]B|NH|IBK|KDB|SC제일"
_BANK_WORDS = ("국민", "우리", "하나", "외환", "기업", "산업", "제일", "새마을")
"""Names of banks that are ordinary words: we, one, the nation."""
_LONG_ACCOUNT = re.compile("[0-9]{3}[0-9-]{11,}")
"""Account numbers of these banks: twelve digits and more, at least three before the first hyphen."""
_AMOUNT = re.compile("자산|자본|자금|잔액|예금(?!주)|대출|금액|총액|이익|이자|수익|매출|부채")
_OWNER = r"(?:(?:예금주[ :]{0,2})?[가-힣]{2,5}(?:은행|뱅크)?[ :)\],]{0,3})?"
_FIGURES = re.compile(
    r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:[0-2][0-9]|3[01])-[0-9]+|(?:(?:19|20)[0-9]{2}-?)+|[0-9]{2,3}(?:-[0-9]{1,3})+"
)
"""Not accounts: a date with digits after it, years, and groups without the four digits that a group of every account has."""
_ACCOUNT = re.compile(
    r"(?:(계좌(?: ?번호)?|은행|뱅크|농협|수협|신협|축협|우체국|새마을금고)"
    rf"((?:으?로|에)?[ :=은는이가()/\[\],]{{0,3}}{_OWNER})"
    rf"|(?<![가-힣A-Z])({_BANK})([ :()\]]{{1,2}})|{_NOT_AFTER_NUMBER})"
    r"([0-9]{2,6}(?:(?:[-–]| [-–] )[0-9]{1,8}){2,3}|[0-9]{10,14}"
    r"|(?P<parted>[0-9]{2,6}(?P<blank>[ .])[0-9]{1,8}(?:(?P=blank)[0-9]{1,8}){1,2}))"
    rf"{_NOT_BEFORE_NUMBER}(?! ?{_COUNTED})"
    rf"(?= ?[(/,]? ?(?P<after>[가-힣]{{2,6}}(?:은행|뱅크)|농협|수협|신협|축협|우체국|새마을금고|(?:{_BANK})(?![가-힣A-Z]))|)"
)
_ACCOUNT_DIGITS = range(10, 15)
_LONG_GROUP, _ACCOUNT_GROUPS = (
    6,
    ((3, 4, 4, 2), (4, 4, 4), (4, 4, 4, 1), (4, 4, 4, 2), (3, 2, 4, 3), (3, 5, 3), (3, 2, 5), (3, 2, 5, 1)),
)
"""Accounts have a group of so many digits, or are grouped so."""
_ROUND = re.compile("[0-9]+00(?![0-9]) ?[-–]|[-–] ?[0-9]+00(?![0-9])")
_PAID = re.compile("계좌|입금|송금|이체|예금주|후원|성금|모금|납부|보내")
_PAID_REACH = 30
_NAMED_OWNER = re.compile(r" ?\([가-힣]{3,4}\)")
"""Accounts without hyphens between groups (1002 123 456789) need such a word near the bank: they may be figures of a table."""
_BUSINESS = re.compile(
    rf"(?:(사업자 ?(?:등록)?(?:증)? ?(?:번호|No\.?){_OF_OWNER})|{_NOT_AFTER_NUMBER})"
    rf"([0-9]{{3}}( ?[-–] ?|[ .·])[0-9]{{2}}\3[0-9]{{5}}|[0-9]{{10}}){_NOT_BEFORE_NUMBER}"
)
_PROVINCE = "서울|부산|경기|강원|충북|충남|전북|전남|경북|경남|제주|대구|인천|광주|대전|울산"
_LICENSE = re.compile(
    rf"{_NOT_AFTER_NUMBER}(?:(?:(?:1[1-9]|2[0-8])-|(?:{_PROVINCE})[ -]?)[0-9]{{2}}-[0-9]{{6}}-[0-9]{{2}}"
    rf"|(?P<parted>(?:(?:1[1-9]|2[0-8])[ .]|(?:{_PROVINCE}) ?)[0-9]{{2}}(?P<blank>[ .])[0-9]{{6}}(?P=blank)[0-9]{{2}})"
    rf"|(?P<solid>[0-9]{{12}})){_NOT_BEFORE_NUMBER}"
)
"""Province, year, serial number and two check digits, whose rule is not public."""
_LICENSE_CUE = re.compile(r"(?:면허[^0-9\n]{0,16}|(?<![가-힣])번호[^0-9\n]{0,6})\Z")
_LICENSE_NAME = re.compile(r"면허[^0-9\n]{0,16}\Z")
"""What numbers with blanks or dots need: they may be figures of a table."""
_LICENSE_LABEL = re.compile(rf"면허(?:증)? ?(?:번호|No\.?){_OF_OWNER}\Z")
"""What twelve digits in a row need."""
_LICENSE_CUE_REACH = 24
_IP = re.compile(
    r"(?<![0-9A-Za-z:.])(?<![0-9],)(?:([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9A-Za-z:]*[0-9A-Za-z]\.|\.?[0-9])"
    r"|([0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]{3,34})(?![0-9A-Za-z:.]))"
)
_VERSION = re.compile(
    r"(?:버전|판|펌웨어|드라이버|플레이어|브라우저|크롬|빌드|패치|업데이트|비율|version|ver\.?|v|[A-Za-z]{3,})"
    r"[은는이가]?[ :]{0,2}\Z",
    re.IGNORECASE,
)
_MAX_MAJOR_VERSION = 32
"""Addresses whose first number is not above that of a version (Flash Player 32) need a word of networks next to them, or a
quotation mark."""
_NETWORK = re.compile(r"(?:접속(?:한 곳)?|서버|주소|호스트|게이트웨이|네임서버|로그인)[ :=은는이가의(]{0,3}\Z|[\"'“‘]\Z")
_NETWORK_AFTER = re.compile(r"[\"'”’]?(?:(?:에서|으?로) ?(?:접속|로그인)|님| ?\(토론)")
_IP_CUE = re.compile(r"(?:(?<![A-Za-z])(?i:IP)|아이피)(?i:v4)? ?(?:주소|번호)?[ :=은는이가(]{0,3}\Z")
_DIGITS_OR_AT = re.compile("[0-9@０-９＠]|[(\\[{<（［｛＜ ](?i:at)|골뱅이|앳|[공영]일[공영일육칠팔구]")
_OTHER_FORMS = "\u3000\u2010\u2011\u2212\u2012\u2014\u2015\u3161\u2027\u2219\u30fb\u318d"
_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | str.maketrans(_OTHER_FORMS, " ---––––····")
"""Translates full-width forms and other hyphens, dashes (also ㅡ) and middle dots to those of the patterns; offsets stay."""
_WIDE = re.compile(f"[\uff01-\uff5e{_OTHER_FORMS}]")


_Check = Callable[[re.Match[str]], int | None]
"""Returns where the number in a match begins (words before it stay), or None if it is not of the kind."""


@dataclass(frozen=True, slots=True)
class _Masked:
    text: str
    counts: dict[str, int]
    """Replaced spans by kind; no zeros."""


def mask(text: str, kinds: tuple[Kind, ...]) -> _Masked:
    """Replace personal data of these ``kinds`` by placeholders. Idempotent, linear in the text."""
    if not kinds or not (_DIGITS_OR_AT.search(text) or HIDDEN_EMAIL in text):
        return _Masked(text, {})
    counts: Counter[str] = Counter()
    view = with_emails(text.translate(_NARROW) if _WIDE.search(text) else text)
    for kind, (prefilter, pattern, check) in _KINDS.items():
        if kind not in kinds or not prefilter.search(view):
            continue
        matches = ((check(match), match.end()) for match in pattern.finditer(view))
        if spans := [(start, end) for start, end in matches if start is not None]:
            text, view = (_replace(whole, spans, PLACEHOLDERS[kind]) for whole in (text, view))
            counts[kind] += len(spans)
    return _Masked(text, dict(sorted(counts.items())))


def _replace(text: str, spans: list[tuple[int, int]], replacement: str) -> str:
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(text)]
    return replacement.join(text[end:begin] for end, begin in zip(ends, begins, strict=True))


def _is_specimen(digits: str) -> bool:
    """Return whether a number shows its form only: one digit throughout, or each digit one more than that before (789012)."""
    return len({(int(digit) - place) % 10 for place, digit in enumerate(digits)}) == 1 or len(set(digits)) == 1


def _is_bar_code(digits: str) -> bool:
    weighted = sum(int(digit) * (1 + 2 * (position % 2)) for position, digit in enumerate(digits))
    return digits.startswith("880") and weighted % 10 == 0


def _person(wanted: Kind, match: re.Match[str]) -> int | None:
    """Check the number of a resident or registered foreigner: its date must exist and its check digit be right.

    Numbers given since ``_RANDOM_NUMBERS_FROM`` have no check digit and need a hyphen. Two numbers with a blank between need a
    cue word, with another mark a label. A number without a hyphen that is also a valid Korean bar code is taken for one.
    """
    digits, foreign = match[1] + match[3], match[3][0] in _FOREIGN
    labelled = _PERSON_LABEL.search(_before(match, _LABEL_REACH)) or _PERSON_AFTER.match(match.string, match.end())
    try:
        born = date(_CENTURY[digits[6]] + int(digits[:2]), int(digits[2:4]), int(digits[4:6]))
    except ValueError:
        born = date.min
        if not labelled or _is_specimen(digits):
            return None
    weighted = sum(weight * int(digit) for weight, digit in zip(_RESIDENT_WEIGHTS, digits))
    checked = ((13 if foreign else 11) - weighted % 11) % 10 == int(digits[12])
    if labelled:
        valid = True
    elif born > _BORN_BY or match[2] in {*"/._~"}:
        valid = False
    elif match[2].strip():
        valid = checked or born >= _RANDOM_NUMBERS_FROM
    elif match[2]:
        valid = checked and _PERSON_CUE.search(_before(match, 16)) is not None
    else:
        valid = checked and not _is_bar_code(digits)
    return match.start() if valid and foreign == (wanted == "foreigner_number") else None


def _card(match: re.Match[str]) -> int | None:
    """Check the label, or the issuer's prefix and the check digit (Luhn, ISO/IEC 7812)."""
    digits = re.sub(r"\D", "", match[0])
    if _CARD_LABEL.search(_before(match, _LABEL_REACH)):
        return None if _is_specimen(digits) else match.start()
    doubled = (int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits)))
    valid = _ISSUER.fullmatch(digits) is not None and sum(one // 10 + one % 10 for one in doubled) % 10 == 0
    return match.start() if valid else None


def _before(match: re.Match[str], characters: int) -> str:
    return match.string[max(0, match.start() - characters) : match.start()]


def _email(match: re.Match[str]) -> int | None:
    """Check ``at`` or ``@`` with blanks: a cue word or a mail host is needed, and English (``look at daum.net``) refused."""
    if not (word := match["word"]):
        return None if _FILE.search(match[0]) else match.start()
    local, _, host = match[0].partition(word)
    english = local[0].isupper() or local == "look" or _LATIN_WORD.search(_before(match, 3))
    mail = _MAIL_CUE.search(_before(match, 16)) or _MAIL_HOST.fullmatch(re.sub(_DOT, ".", host).lower())
    return match.start() if mail and not english else None


def _is_figure(match: re.Match[str], before: str) -> bool:
    """Return whether a number of three parts is a figure, by words next to it or, except for mobile numbers, others near it."""
    if _FIGURE_CUE.search(before):
        return True
    start, end = max(0, match.start() - _NEARBY_REACH), match.end() + _NEARBY_REACH
    nearby = _FIGURE_UNIT.match(match.string, match.end()) or _FIGURES_NEARBY.search(match.string, start, end)
    return match["bare"] is not None and nearby is not None


def _phone(match: re.Match[str]) -> int | None:
    """Check numbers without hyphens and brackets, or without an area code: they need a cue, or blanks and none of a figure."""
    before = _before(match, _PHONE_CUE_REACH)
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


def _is_range(match: re.Match[str]) -> bool:
    """Return whether a number in the form of a hotline is a range of years or quantities (1600-2400rpm)."""
    first, last = int(match[0][:4]), int(match[0][5:9])
    if 0 <= last - first <= _MAX_YEAR_RANGE or _is_counted(match, first, last):
        return True
    before, after = _before(match, _NEARBY_REACH), match.string[match.end() : match.end() + _NEARBY_REACH]
    if re.search(r"\([^()\n]*\Z", before) and re.match(r"[^()\n]*\)", after) and first < last <= _LAST_YEAR:
        return not _NAME_BEFORE.search(before) or _OLD.search(before) is not None
    return _FIGURE_BEFORE.search(before) is not None


def _is_counted(match: re.Match[str], first: int, last: int) -> bool:
    """Return whether a unit stands behind two numbers that may be a range."""
    if not (unit := _FIGURE_AFTER.match(match.string, match.end())):
        return False
    return bool(unit["falling"]) or (first < last and not (unit["even"] and (first % 10 or last % 10)))


def _is_local(match: re.Match[str]) -> bool:
    """Return whether a number without an area code is one; in the form of years it needs a word before and one after it."""
    first, last = map(int, match["local"].split("-"))
    label = _LOCAL_CUE.search(_before(match, _NEARBY_REACH)) is not None
    asked = _LOCAL_AFTER.match(match.string, match.end()) is not None
    years = _YEARS[0] <= first <= last <= _YEARS[1]
    return ((label and asked) if years else (label or asked)) and not _is_counted(match, first, last)


def _account(match: re.Match[str]) -> int | None:
    number, word, bank = re.sub(" ?[-–] ?", "-", match[5]), match[1] or "", match[3]
    if match["parted"]:
        return match.start(5) if _is_parted_account(match, word) else None
    paid = _PAID.search(match.string, max(0, match.start() - _PAID_REACH), match.start(5))
    named = "-" in number or word not in ("", "우체국") or (bank and paid)  # 우체국 1234567890123 is a letter
    if bank in _BANK_WORDS and ":" not in match[4]:
        named = named and _LONG_ACCOUNT.fullmatch(number) is not None
    elif not (word or bank):
        named = match["after"] not in (None, *_BANK_WORDS) and "-" in number and not _BUSINESS.fullmatch(number)
    if not named or not _is_grouped_account(number) or (" " in match[5] and _ROUND.search(match[5])):
        return None
    if "-" not in number and _AMOUNT.search(match[2] or ""):
        return None
    phone = "-" in number and not word.startswith("계좌") and _PHONE.fullmatch(number)
    return None if phone else match.start(5)


def _is_grouped_account(number: str) -> bool:
    """Return whether a number has as many digits as accounts, is grouped as they are, and shows no date, years or its form."""
    groups = tuple(map(len, number.split("-")))
    usual = max(groups) >= _LONG_GROUP or groups in _ACCOUNT_GROUPS
    return (
        usual
        and sum(groups) in _ACCOUNT_DIGITS
        and not _FIGURES.fullmatch(number)
        and not _is_specimen(number.replace("-", ""))
    )


def _is_parted_account(match: re.Match[str], word: str) -> bool:
    """Return whether a number with blanks or dots is named an account, or is a bank's near a payment, and no row of figures."""
    number, after = re.sub("[ .]", "-", match[5]), match.string[match.end() : match.end() + _PAID_REACH]
    figures = not _is_grouped_account(number) or re.match(r"[ ,]{1,2}\d", after)
    begin = match.start(5)
    paid = (
        _PAID.search(match.string, max(0, match.start() - _PAID_REACH), begin)
        or _PAID.search(after)
        or _NAMED_OWNER.match(after)
    )
    return not figures and bool(paid) and bool(match[3] or word or match["after"]) and not _AMOUNT.search(match[2] or "")


def _business(match: re.Match[str]) -> int | None:
    """Check the label, or hyphens and the tax office's check digit: weighted digits, and the tens of the ninth."""
    if match[1]:
        return None if _is_specimen(re.sub("[^0-9]", "", match[2])) else match.start(2)
    *nine, check = map(int, re.sub("[-–. ]", "", match[2]))
    total = sum(weight * digit for weight, digit in zip(_BUSINESS_WEIGHTS, nine, strict=True)) + nine[8] * 5 // 10
    hyphens = (match[3] or "").strip(" .")
    return match.start(2) if (total + check) % 10 == 0 and hyphens else None


def _ip_address(match: re.Match[str]) -> int | None:
    """Accept public addresses only; small numbers without a cue word are a version, a section or dates (5.18.10.26)."""
    try:
        public = ip_address(match[0]).is_global
    except ValueError:
        return None
    before = _before(match, 12)
    if match[1] and not _IP_CUE.search(before):
        parts = [int(part) for part in match[1].split(".")]
        small = max(parts) < 32 or sum(part > 9 for part in parts) < 2
        version = parts[0] <= _MAX_MAJOR_VERSION and not (
            _NETWORK.search(before) or _NETWORK_AFTER.match(match.string, match.end())
        )
        public = public and not (small or version)
    return match.start() if public and (_IP_CUE.search(before) or not _VERSION.search(before)) else None


def _license(match: re.Match[str]) -> int | None:
    """Require a cue word, because lots, tenders and files are numbered in the same form."""
    after = match.string[match.end() : match.end() + 8]
    cue = _LICENSE_LABEL if match["solid"] else _LICENSE_NAME if match["parted"] else _LICENSE_CUE
    named = cue.search(_before(match, _LICENSE_CUE_REACH)) or ("면허" in after and not match["solid"])
    return match.start() if named and not _is_specimen(re.sub("[^0-9]", "", match[0])) else None


_PERSONS = re.compile("[0-9]{6}[-– /._~]{0,3}[0-9]{7}")
_KINDS: dict[Kind, tuple[re.Pattern[str], re.Pattern[str], _Check]] = {
    "resident_number": (_PERSONS, _PERSON, partial(_person, "resident_number")),
    "foreigner_number": (_PERSONS, _PERSON, partial(_person, "foreigner_number")),
    "card": (re.compile("[0-9]{4}[-– ]?[0-9]{4,6}[-– ]?[0-9]{4}"), _CARD, _card),
    "business_number": (re.compile("[0-9]{3}[-–. ]{0,3}[0-9]{2}[-–. ]{0,3}[0-9]{5}"), _BUSINESS, _business),
    "email": (re.compile("[@골앳([{<]| (?:at|AT) "), _EMAIL, _email),
    "phone": (re.compile("[0-9]{3}[-–.·/_~ ]{0,3}[0-9]{4}|[공영]일[공영일육칠팔구]"), _PHONE, _phone),
    "passport": (re.compile("여권|(?i:passport)"), _PASSPORT, lambda match: match.start(match.lastindex or 0)),
    "account": (re.compile("[0-9]{2}(?: ?[-–] ?[0-9]{1,8} ?[-–]|[ .][0-9]{1,8}[ .][0-9]|[0-9]{8})"), _ACCOUNT, _account),
    "driving_license": (re.compile("[0-9]{2}[-. ][0-9]{6}[-. ][0-9]{2}|[0-9]{12}"), _LICENSE, _license),
    "ip_address": (re.compile(r"[0-9A-Fa-f](?:\.[0-9.]{5}|:[0-9A-Fa-f:]{3})"), _IP, _ip_address),
}
"""Kind → a fast pattern that finds any text with such numbers; the exact pattern; and the check of a match."""
