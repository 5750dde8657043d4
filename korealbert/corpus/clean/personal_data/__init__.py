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
from dataclasses import dataclass
from typing import Literal

from korealbert.corpus.clean.personal_data.addresses import EMAIL, IP_ADDRESS
from korealbert.corpus.clean.personal_data.identity_numbers import DRIVING_LICENSE, FOREIGNER_NUMBER, PASSPORT, RESIDENT_NUMBER
from korealbert.corpus.clean.personal_data.payment_numbers import ACCOUNT, BUSINESS_NUMBER, CARD
from korealbert.corpus.clean.personal_data.phones import PHONE
from korealbert.corpus.clean.personal_data.recognizer import Recognizer
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

_RECOGNIZERS: dict[Kind, Recognizer] = {
    "resident_number": RESIDENT_NUMBER,
    "foreigner_number": FOREIGNER_NUMBER,
    "card": CARD,
    "business_number": BUSINESS_NUMBER,
    "email": EMAIL,
    "phone": PHONE,
    "passport": PASSPORT,
    "account": ACCOUNT,
    "driving_license": DRIVING_LICENSE,
    "ip_address": IP_ADDRESS,
}
"""In the order of masking: numbers with a check digit before those recognised by form, addresses before numbers in them."""

_DIGITS_OR_AT = re.compile("[0-9@０-９＠]|[(\\[{<（［｛＜ ](?i:at)|골뱅이|앳|[공영]일[공영일육칠팔구]")
"""A text without any of these has nothing to mask."""
_OTHER_FORMS = "\u3000\u2010\u2011\u2212\u2012\u2014\u2015\u3161\u2027\u2219\u30fb\u318d"
_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | str.maketrans(_OTHER_FORMS, " ---––––····")
"""Translates full-width forms and other hyphens, dashes (also ㅡ) and middle dots to those of the patterns; offsets stay."""
_WIDE = re.compile(f"[\uff01-\uff5e{_OTHER_FORMS}]")


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
    for kind, (prefilter, pattern, check) in _RECOGNIZERS.items():
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
