"""Numbers by which people and businesses pay and are paid: cards, registered businesses and bank accounts."""

from __future__ import annotations

import re

from korealbert.corpus.clean.personal_data.phones import PHONE
from korealbert.corpus.clean.personal_data.recognizer import (
    COUNTED,
    LABEL_REACH,
    NOT_AFTER_NUMBER,
    NOT_BEFORE_NUMBER,
    OF_OWNER,
    Recognizer,
    is_specimen,
    text_before,
)

# Cards

_CARD = re.compile(
    rf"{NOT_AFTER_NUMBER}(?:[0-9]{{4}}([-– ])[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}|3[47][0-9]{{2}}([-– ])[0-9]{{6}}\2[0-9]{{5}}"
    rf"|[0-9]{{15,16}}){NOT_BEFORE_NUMBER}"
)
_CARD_LABEL = re.compile(rf"카드 ?(?:번호|No\.?){OF_OWNER}\Z")
_ISSUER = re.compile(r"3[47]\d{13}|(?=\d{16}\Z)(?:4|5[1-5]|2[2-7]|35|6[0-5]|9[0-9])\d+")
"""Only numbers of American Express have 15 digits; those of telephones (IMEI) have as many, and Luhn's check, too."""


def _card(match: re.Match[str]) -> int | None:
    """Check the label, or the issuer's prefix and the check digit (Luhn, ISO/IEC 7812)."""
    digits = re.sub(r"\D", "", match[0])
    if _CARD_LABEL.search(text_before(match, LABEL_REACH)):
        return None if is_specimen(digits) else match.start()
    doubled = (int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits)))
    valid = _ISSUER.fullmatch(digits) is not None and sum(one // 10 + one % 10 for one in doubled) % 10 == 0
    return match.start() if valid else None


CARD = Recognizer(re.compile("[0-9]{4}[-– ]?[0-9]{4,6}[-– ]?[0-9]{4}"), _CARD, _card)

# Businesses

_BUSINESS = re.compile(
    rf"(?:(사업자 ?(?:등록)?(?:증)? ?(?:번호|No\.?){OF_OWNER})|{NOT_AFTER_NUMBER})"
    rf"([0-9]{{3}}( ?[-–] ?|[ .·])[0-9]{{2}}\3[0-9]{{5}}|[0-9]{{10}}){NOT_BEFORE_NUMBER}"
)
_BUSINESS_WEIGHTS = (1, 3, 7, 1, 3, 7, 1, 3, 5)


def _business(match: re.Match[str]) -> int | None:
    """Check the label, or hyphens and the tax office's check digit: weighted digits, and the tens of the ninth."""
    if match[1]:
        return None if is_specimen(re.sub("[^0-9]", "", match[2])) else match.start(2)
    *nine, check = map(int, re.sub("[-–. ]", "", match[2]))
    total = sum(weight * digit for weight, digit in zip(_BUSINESS_WEIGHTS, nine, strict=True)) + nine[8] * 5 // 10
    hyphens = (match[3] or "").strip(" .")
    return match.start(2) if (total + check) % 10 == 0 and hyphens else None


BUSINESS_NUMBER = Recognizer(re.compile("[0-9]{3}[-–. ]{0,3}[0-9]{2}[-–. ]{0,3}[0-9]{5}"), _BUSINESS, _business)

# Accounts

_BANK = "신한|국민|우리|하나|외환|기업|산업|제일|씨티|새마을|카카오|카뱅|토스|KB국민|IBK기업|KEB하나|[KS]B|NH|IBK|KDB|SC제일"
_BANK_WORDS = ("국민", "우리", "하나", "외환", "기업", "산업", "제일", "새마을")
"""Names of banks that are ordinary words: we, one, the nation."""
_OWNER = r"(?:(?:예금주[ :]{0,2})?[가-힣]{2,5}(?:은행|뱅크)?[ :)\],]{0,3})?"
_ACCOUNT = re.compile(
    r"(?:(계좌(?: ?번호)?|은행|뱅크|농협|수협|신협|축협|우체국|새마을금고)"
    rf"((?:으?로|에)?[ :=은는이가()/\[\],]{{0,3}}{_OWNER})"
    rf"|(?<![가-힣A-Z])({_BANK})([ :()\]]{{1,2}})|{NOT_AFTER_NUMBER})"
    r"([0-9]{2,6}(?:(?:[-–]| [-–] )[0-9]{1,8}){2,3}|[0-9]{10,14}"
    r"|(?P<parted>[0-9]{2,6}(?P<blank>[ .])[0-9]{1,8}(?:(?P=blank)[0-9]{1,8}){1,2}))"
    rf"{NOT_BEFORE_NUMBER}(?! ?{COUNTED})"
    rf"(?= ?[(/,]? ?(?P<after>[가-힣]{{2,6}}(?:은행|뱅크)|농협|수협|신협|축협|우체국|새마을금고|(?:{_BANK})(?![가-힣A-Z]))|)"
)
_LONG_ACCOUNT = re.compile("[0-9]{3}[0-9-]{11,}")
"""Account numbers of the banks in ``_BANK_WORDS``: twelve digits and more, at least three before the first hyphen."""
_AMOUNT = re.compile("자산|자본|자금|잔액|예금(?!주)|대출|금액|총액|이익|이자|수익|매출|부채")
"""Words between a bank and a number that is an amount of money."""
_ROUND = re.compile("[0-9]+00(?![0-9]) ?[-–]|[-–] ?[0-9]+00(?![0-9])")
"""Round numbers beside a hyphen: with blanks around it they are figures."""
_PAID = re.compile("계좌|입금|송금|이체|예금주|후원|성금|모금|납부|보내")
_PAID_REACH = 30
_NAMED_OWNER = re.compile(r" ?\([가-힣]{3,4}\)")
"""Accounts without hyphens between groups (1002 123 456789) need a word of payments, or an owner in brackets, near the bank:
they may be figures of a table."""


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
    phone = "-" in number and not word.startswith("계좌") and PHONE.pattern.fullmatch(number)
    return None if phone else match.start(5)


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


_ACCOUNT_DIGITS = range(10, 15)
_MIN_LONG_GROUP = 6
_ACCOUNT_GROUPS = ((3, 4, 4, 2), (4, 4, 4), (4, 4, 4, 1), (4, 4, 4, 2), (3, 2, 4, 3), (3, 5, 3), (3, 2, 5), (3, 2, 5, 1))
"""Accounts have a group of at least ``_MIN_LONG_GROUP`` digits, or are grouped so."""
_FIGURES = re.compile(
    r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:[0-2][0-9]|3[01])-[0-9]+|(?:(?:19|20)[0-9]{2}-?)+|[0-9]{2,3}(?:-[0-9]{1,3})+"
)
"""Not accounts: a date with digits after it, years, and groups without the four digits that a group of every account has."""


def _is_grouped_account(number: str) -> bool:
    """Return whether a number has as many digits as accounts, is grouped as they are, and shows no date, years or its form."""
    groups = tuple(map(len, number.split("-")))
    usual = max(groups) >= _MIN_LONG_GROUP or groups in _ACCOUNT_GROUPS
    return (
        usual and sum(groups) in _ACCOUNT_DIGITS and not _FIGURES.fullmatch(number) and not is_specimen(number.replace("-", ""))
    )


ACCOUNT = Recognizer(re.compile("[0-9]{2}(?: ?[-–] ?[0-9]{1,8} ?[-–]|[ .][0-9]{1,8}[ .][0-9]|[0-9]{8})"), _ACCOUNT, _account)
