"""E-mail addresses and public IP addresses."""

from __future__ import annotations

import re
from ipaddress import ip_address

from korealbert.corpus.clean.personal_data.recognizer import Recognizer, text_before

# E-mail

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


def _email(match: re.Match[str]) -> int | None:
    """Check ``at`` or ``@`` with blanks: a cue word or a mail host is needed, and English (``look at daum.net``) refused."""
    if not (word := match["word"]):
        return None if _FILE.search(match[0]) else match.start()
    local, _, host = match[0].partition(word)
    english = local[0].isupper() or local == "look" or _LATIN_WORD.search(text_before(match, 3))
    mail = _MAIL_CUE.search(text_before(match, 16)) or _MAIL_HOST.fullmatch(re.sub(_DOT, ".", host).lower())
    return match.start() if mail and not english else None


EMAIL = Recognizer(re.compile("[@골앳([{<]| (?:at|AT) "), _EMAIL, _email)

# IP

_IP = re.compile(
    r"(?<![0-9A-Za-z:.])(?<![0-9],)(?:([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9A-Za-z:]*[0-9A-Za-z]\.|\.?[0-9])"
    r"|([0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]{3,34})(?![0-9A-Za-z:.]))"
)
_IP_CUE = re.compile(r"(?:(?<![A-Za-z])(?i:IP)|아이피)(?i:v4)? ?(?:주소|번호)?[ :=은는이가(]{0,3}\Z")
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


def _ip_address(match: re.Match[str]) -> int | None:
    """Accept public addresses only; small numbers without a cue word are a version, a section or dates (5.18.10.26)."""
    try:
        public = ip_address(match[0]).is_global
    except ValueError:
        return None
    before = text_before(match, 12)
    if match[1] and not _IP_CUE.search(before):
        parts = [int(part) for part in match[1].split(".")]
        small = max(parts) < 32 or sum(part > 9 for part in parts) < 2
        version = parts[0] <= _MAX_MAJOR_VERSION and not (
            _NETWORK.search(before) or _NETWORK_AFTER.match(match.string, match.end())
        )
        public = public and not (small or version)
    return match.start() if public and (_IP_CUE.search(before) or not _VERSION.search(before)) else None


IP_ADDRESS = Recognizer(re.compile(r"[0-9A-Fa-f](?:\.[0-9.]{5}|:[0-9A-Fa-f:]{3})"), _IP, _ip_address)
