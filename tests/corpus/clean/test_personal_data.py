"""Personal data is masked; numbers that only look like it are kept. All numbers are invented; check digits are computed."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.clean.personal_data import PLACEHOLDERS, Kind, mask
from korealbert.corpus.clean.stage import STAGE, CleanSpec, Rules, clean_document
from tests.corpus.documents_made import document, kept, prose, ran, stored
from tests.work import linear_work

ALL: tuple[Kind, ...] = get_args(Kind)
WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)


def with_check(twelve: str) -> str:
    """The 13 digits of a resident or foreigner, hyphen behind the sixth."""
    base = 13 if twelve[6] in "5678" else 11
    check = (base - sum(weight * int(digit) for weight, digit in zip(WEIGHTS, twelve)) % 11) % 10
    return f"{twelve[:6]}-{twelve[6:]}{check}"


def luhn(fifteen: str) -> str:
    """Sixteen digits that pass Luhn's check."""
    return next(fifteen + str(last) for last in range(10) if passes_luhn(fifteen + str(last)))


def passes_luhn(digits: str) -> bool:
    total = 0
    for position, digit in enumerate(digits[::-1]):
        value = int(digit) * (2 if position % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def masked(text: str) -> tuple[str, dict[str, int]]:
    found = mask(text, ALL)
    return found.text, found.counts


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(
            (f"문의는 {number}번으로 했다.", "phone")
            for number in ("010-1234-5678", "011-234-5678", "010.1234.5678", "010 1234 5678")
        ),
        *(
            (f"문의는 {number} 이다.", "phone")
            for number in ("01023456789", "0112345678", "02-123-4567", "(02) 1234-5678", "031)123-4567")
        ),
        *(
            (f"전화:{number}", "phone")
            for number in ("064-123-4567", "070-1234-5678", "1588-1234", "1644-0000", "080-123-4567")
        ),
        *(
            (f"전화 {number}.", "phone")
            for number in ("+82-10-1234-5678", "+82 2 1234 5678", "+82 (0)10-1234-5678", "+821012345678")
        ),
        *(
            (f"전화 {number}로", "phone")
            for number in ("01012345678", "010–1234–5678", "010 - 1234 - 5678", "02–123–4567", "031 - 123 - 4567")
        ),
        ("글은hong.gil+dong@press.co.example로 보낸다.", "email"),
        ("<hong@press.example>", "email"),
        (f"번호는 {with_check('800101123456')}였다.", "resident_number"),
        (f"번호는 {with_check('991231223456').replace('-', '')}였다.", "resident_number"),
        (f"번호는 {with_check('850715523456')}였다.", "foreigner_number"),
        ("아이의 번호는 210304-3123456이다.", "resident_number"),
        ("카드 4111-1111-1111-1111로 냈다.", "card"),
        ("카드 4111 1111 1111 1111로 냈다.", "card"),
        (f"카드 {luhn('942000000000001')}로 냈다.", "card"),
        ("카드 3782-822463-10005로 냈다.", "card"),
        ("여권번호 M12345678을 적었다.", "passport"),
        ("여권 M123A4567", "passport"),
        ("계좌번호: 123-45-678910", "account"),
        ("한빛은행 110-123-456789로 보냈다.", "account"),
        *((f"전화 {number}로", "phone") for number in ("02 730 1234", "02 730-1234", "(02)730 1234", "031) 730 1234")),
        *((f"전화 {number}로", "phone") for number in ("010-1234 5678", "010 1234-5678")),
        *((f"편지는 {at}로", "email") for at in ("kim(at)daum.net", "kim [AT] daum[dot]net", "kim골뱅이daum.net")),
        *(
            (f"{said}로 보냈다.", "account")
            for said in ("신한 110-123-456789", "국민: 123456-04-123456", "계좌번호: 12345678901243", "한빛은행 110123456789")
        ),
        *((f"번호는 {number}이다.", "driving_license") for number in ("11-12-345678-90", "서울 12-345678-09")),
        ("운전면허(서울 12-345678-09)를 냈다.", "driving_license"),
        ("11-12-345678-90 면허", "driving_license"),
        *((f"문의 {number}.", "phone") for number in ("010-12345678", "010 12345678", "010)12345678", "011-2345678")),
        *((f"창구는 {number}이다.", "phone") for number in ("02-7301234", "02 7301234", "(02)7301234", "031-73012345")),
        *((f"{said}이다.", "phone") for said in ("전화 027301234", "전화번호: 0313456789", "TEL.0313456789", "(0313456789)")),
        *((f"편지는 {at}로", "email") for at in ("hong[@]naver[.]com", "kim at daum.net", "hong골뱅이naver점com")),
        *((f"글은 14.36.120.77{said}", "ip_address") for said in ("에서 접속해 썼다.", "님이 썼다.", " (토론)")),
        ('글쓴이 "14.36.120.77"', "ip_address"),
        ("메일: kim at press dot example", "email"),
        ("메일은 [email protected]로", "email"),
        *((f"전화 {said}번", "phone") for said in ("02-345-6789/6790", "031-123-4567,4568/4569")),
        *((f"사업자{said} 2208162517", "business_number") for said in (" 등록번호:", " 등록 번호는", "번호")),
        *((f"{said} 8.8.8.8에서", "ip_address") for said in ("IP주소", "IP:", "내 아이피는", "접속 ip")),
        *(
            (f"돈은 {said}로 보냈다.", "account")
            for said in (
                "110-123-456789 신한은행",
                "110-123-456789(신한)",
                "302-1234-5678-91 농협",
                "신한은행(홍길동) 110-123-456789",
                "신한은행 (예금주: 홍길동) 110-123-456789",
                "농협 예금주 홍길동 302-1234-5678-91",
                "우리 1002-123-456789",
                "우리: 10-20-1234567",
                "우리은행 10-20-1234567",
            )
        ),
        *(
            (f"{number} 홍길동", "account")
            for number in (
                "농협 3021234567891",
                "KB국민 123456-04-123456",
                "IBK기업 123-123456-12-123",
                "카뱅 3333-01-1234567",
                "신한 110–123–456789",
            )
        ),
        ("카드 4111–1111–1111–1111로", "card"),
        (f"주민등록번호 {with_check('900101123456').replace('-', ' ')}이다.", "resident_number"),
        ("고객센터 15881234", "phone"),
        *((f"가게는 {number}이다.", "business_number") for number in ("123-45-67891", "123 - 45 - 67891", "123–45–67891")),
        *(
            (f"전화 {said}로", "phone")
            for said in ("공일공 일이삼사 오육칠팔", "공일공-일이삼사-오육칠팔", "영일영일이삼사오육칠팔")
        ),
        *((f"전화 010{mark}1234{mark}5678로", "phone") for mark in "\u2014ㅡ·ㆍ/_~"),
        *((f"문의 {number}번", "phone") for number in ("82-10-1234-5678", "0082-10-1234-5678", "02-730-1234~5")),
        *((f"{said}이다.", "phone") for said in ("대표전화 15881234", "문의 1588 1234", "전화 1588-1640")),
        *((f"편지는 {at}로", "email") for at in ("kim @ naver.com", "kim@ naver.com", "kim@한국.kr", "홍길동@naver.com")),
        ("passport no. M12345678", "passport"),
        ("약속은 010-1234-5678호수공원에서", "phone"),
        ("우리은행 예금 1002-123-456789로", "account"),
        ("사업자등록번호: 1234567891", "business_number"),
        *(
            (said, "account")
            for said in (
                "계좌번호: 1002 123 456789 (우리)",
                "국민 계좌 123456 04 123456",
                "입금 계좌는 110.123.456789입니다",
                "성금은 한빛은행 110 123 456789로",
                "110 123 456789 한빛은행으로 송금",
            )
        ),
        *(
            (said, "passport")
            for said in ("M123A4567 여권번호", "M12345678(여권번호)", "여권 번호 M 12345678", "M12345678 (여권)")
        ),
        *(
            (f"편지는 {at}로", "email")
            for at in (
                "hong @ naver . com",
                "hong@naver . com",
                "hong @daum. net",
                "hong @ press . co . kr",
                "hong 앳 naver닷com",
            )
        ),
        *((f"접속 {address}에서", "ip_address") for address in ("121.130.45.200", "2001:2d8:e0::1", "2a00::12")),
        *((f"{said}14.36.120.77이다.", "ip_address") for said in ("서버 ", "접속한 곳: ", "호스트는 ", "주소(")),
        *(
            (f"돈은 {said}로", "account")
            for said in ("[농협] 351-1234-5678-13", "(신한) 110-123-456789", "[신한] 110-123-456789")
        ),
        *(
            (f"연락처 {number}로", "phone")
            for number in ("(010) 1234-5678", "(010)1234-5678", "(010) 12345678", "(011)234-5678")
        ),
        *((f"사업자등록번호 {number}이다.", "business_number") for number in ("220.81.62517", "220 81 62517")),
        ("900101-1234567 (주민등록번호)", "resident_number"),
        *(
            (said, "account")
            for said in (
                "우리은행 계좌 1002 123 456789",
                "1002 123 456789 우리은행 계좌로",
                "우리은행 1002 123 456789 (홍길동)",
                "국민은행 계좌번호 123456 04 123456",
                "농협 계좌 302 1234 5678 91",
                "신한 계좌로 110 123 456789",
                "계좌이체 신한 110123456789",
                "우리은행 계좌 1002 - 123 - 456789",
                "우리은행 계좌 1002.123.456789",
                "계좌는 하나 123 456789 12345 입니다",
            )
        ),
        *(
            (f"운전면허번호 {number}이다.", "driving_license")
            for number in ("21 12 123456 78", "21.12.123456.78", "서울 12 345678 09")
        ),
        *((f"편지는 kim{at}naver.com으로", "email") for at in ("{at}", " {AT} ", "<at>", "{골뱅이}")),
        *((f"주민번호: 900101{mark}1234567", "resident_number") for mark in "/._~"),
        *((f"{said} 730-1234로 문의", "phone") for said in ("전화", "전화번호는", "☎", "관리소 Tel.", "팩스:")),
        *((f"표는 {said} 바란다.", "phone") for said in ("3730-1234로 문의", "730-1234로 전화", "730-1234번으로 연락")),
        *((f"한빛은행({number})에서", "phone") for number in ("1588-1234", "1600-9800", "1577-2345, 평일")),
        *((f"상담은 {number}이다.", "phone") for number in ("1588-1234번", "1600-2400(ARS)", "1588-1234 회원 전용")),
        *((f"{name}에서", "phone") for name in ("대한항공(1588-2001)", "우체국 (1588-1900)", "‘한빛여행’(1577-1978)")),
        *(
            (f"표는 1588-1234{word}", "phone")
            for word in ("ARS", "쪽으로 물어라", "엔 사람이 없다", "편하게", "병원", "도에서", "층")
        ),
        *(
            (f"표는 1588-3456{word}", "phone")
            for word in ("ARS", "쪽으로 물어라", "엔 사람이 없다", "편하게", "병원", "도에서", " K 은행")
        ),
        *((f"표는 1588-4000{word}", "phone") for word in ("BC카드", "KT", "회사", "마일리지", "엔 없다", "도 있다")),
        ("전화 2010-2014로 문의", "phone"),
    ],
)
def test_personal_data_is_masked(text: str, kind: Kind) -> None:
    result, counts = masked(text)
    assert counts == {kind: 1}
    assert PLACEHOLDERS[kind] in result
    assert not any(character.isdigit() for character in result)
    assert masked(result) == (result, {})


@pytest.mark.parametrize("between", ["번호: ", "번호는 ", "번호(", "번호 : 홍길동 ", " 번호=", " 번호 "])
@pytest.mark.parametrize(
    ("label", "number", "kind"),
    [
        ("주민등록", "900101-1234567", "resident_number"),
        ("주민등록", "901301 1234567", "resident_number"),
        ("주민", "9001011234567", "resident_number"),
        ("외국인등록", "850715-5234560", "foreigner_number"),
        ("여권", "AB1234567", "passport"),
        ("여권", "M1234567", "passport"),
        ("운전면허", "111234567890", "driving_license"),
        ("면허증", "11-12-345678-90", "driving_license"),
        ("카드", "1234-5678-9012-3465", "card"),
        ("신용카드", "1234567890124365", "card"),
        ("사업자등록", "123-45-67809", "business_number"),
        ("사업자", "1234567809", "business_number"),
    ],
)
def test_a_label_makes_a_number_personal_data(label: str, number: str, kind: Kind, between: str) -> None:
    """Its check digit may be wrong."""
    assert masked(f"{label}{between}{number} 끝") == (f"{label}{between}{PLACEHOLDERS[kind]} 끝", {kind: 1})


@pytest.mark.parametrize(
    "text",
    [
        "그해는 1592-1598년이었다.",
        "홍길동(1588-1640)은 의병이었다.",
        "두 팀은 3-2로, 다음 날은 10-11로 비겼다.",
        "2019-12-31에 끝나 2020.01.02에 시작했다.",
        "값은 1,234,567원이고 12,000~15,000원이다.",
        "ISBN 978-89-1234-567-8, ISBN 979-11-970000-1-2, ISBN 89-1234-567-X",
        "국토교통부고시 제2019-123호, 대통령령 제12345호, 제2019-1234호",
        "사건번호 2018도1234, 2018-가합-123456",
        "비율은 02:13, 시각은 02:30, 좌표는 37.5665, 126.9780이다.",
        "사업자 123-45-67890, 등록번호 123-45-67890",
        "상품번호 8801234567893, 운송장 1234-5678-9012",
        "번호는 800101-1234567이라 적혀 있었다.",
        "번호는 801301-1234567, 800230-2345678이다.",
        "일련번호 1234-5678-9012-3456",
        "일련 번호 900101-1234567, 주민 900101-1234567명, 카드 1234-5678-9012-3456, 면허 111234567890, 품번 AB1234567",
        "은행 계좌 수 2019 2020 2021",
        "우리은행 1002 123 456789 (서울)",
        "버전 1.2.3.4와 192.168.0.1",
        "5.18.10.26 사건과 조항 4.15.12.13",
        "1600-1700/1800, 1588-1640,1700",
        "인구는 51,829,136명, 면적은 100,210이다.",
        "우편번호 03000, 지번 12-34, 2-1번지",
        "골뱅이 @ 하나, @hong 둘, a@b 셋",
        "M12345678 모델과 S123B4567 부품",
        "은행 2019-12-31 마감",
        "1950-1953, 1800-1899, 1592~1598",
        "길이 1500-2000, 사람 1600-2400명, 1588-9999 원",
        "이진수 0101010101과 01010101010",
        "관련 기사 010-12-3456",
        "전화 02-13",
        "학번 20190112345 기록 0101234",
        "우체국 1234567890123번 편지, 번호 1234567891",
        "우리 2019-12-31, 하나 12-34-56",
        "버전 121.130.45.200, Chrome 121.130.45.200, 2.1.3.4 절, 10.20.30.40, 999.130.45.200",
        "표 02 100 2000 30 그리고 3 02 100 2000",
        "어도비 플래시 플레이어 11.2.202.233을, 펌웨어 7.14.52.101을, 비율은 12.5.33.40, 서버 버전 14.36.120.77을",
        "펌웨어 121.130.45.200을, 비율은 55.130.45.20, 드라이버 121.130.45.200 설치",
        "서버 펌웨어 7.14.52.101, 서버당 12.5.33.40",
        "번호 220.81.62517, 값은 220 81 62517",
        "번호 21 12 123456 78, 값은 21.12.123456.78",
        "함수 f{at}x.y, 집합 {at} 가",
        "12:30:45에 std::vector를, 2001:db8::1은 본보기다.",
        "골뱅이 무침 (at) 시장",
        "광주 18-051801-11",
        "11-11-111111-11",
        "접수번호 11-12-345678-90",
        "수치는 044 123 4567 이다",
        "값은 044 223 4567 이다",
        "상품번호 0212345678, 접수번호 0312345678",
        "품번 02-20190112, 031-2345678호",
        *(f"{bank} 10-20-1234567" for bank in ("우리", "하나", "국민", "기업")),
        "10-20-1234567 우리",
        "사업자 123-45-67890 한빛은행",
        "서버 running at press.example",
        "Look at daum.net and find us at daum.net",
        "x.Exception at com.example.Main",
        "hong@press 점심",
        "은행 자산 110123456789원, 계좌 잔액은 10000000000원이다, 신한은행 자산 110123456789",
        *(
            f"{bank} {number}"
            for bank in ("수협", "우리 은행은")
            for number in ("2010-12-31-00", "2019-2020-2021", "100-200-300-400")
        ),
        "계좌 2010-12-31-001, 201920202021 농협",
        "인구 010 1234 5678, 인구는 서울 02 730 1234",
        "02 345 6789 합계, 서울 02 345 6789 명, 소계: 02 345 6789",
        "01 234 5678\n02 345 6789\n03 456 7890",
        "남자 02 345 6789, 여자 03 456 7890",
        "삼국사기 02-1234-5678권",
        "바로크(1600-1750) 음악, 1588 1234, 15881234",
        "icon@2x.png",
        "청(淸, 1644-1912)과 1600-1868의 에도",
        f"점수 {with_check('900101123456').replace('-', ' ')} 점",
        "합계 2019–2020–2021",
        "보상(4,14; 5,9.10.11.12)",
        "우리 1002 123 456789, 표 1002 123 456789 12 30, 한빛은행 1002 123 456789",
        "계좌 수는 2019 2020 2021 2022, 계좌는 2019 12 31 기준 100 200, 계좌 1002 123 456789명",
        "은행별 입금 한빛은행 1002 123 456789 1003 124 456790",
        "은행 계좌 잔액은 110 123 456789",
        "여권지수 A12345678, A12345678 여권사진, 품번 M123A4567",
        "값 a @ b . c, x @ y . com, hong @ press. The end",
        "카드번호는 0000-0000-0000-0000 형식, 카드번호 1234-5678-9012-3456처럼, 사업자등록번호 123-45-67890 (예)",
        "주민등록번호는 000000-0000000 형식으로, 면허번호 123456789012, 농협 계좌 1234567890",
        "접수번호 900101-1234567 (주민번호 아님), 접수번호 900101-1234567 / 주민번호 없이",
        "사업자 등록 번호 없는 123 45 67890, 주민번호 아닌 991332-1234567, 카드번호 없이 9876-1234-5678-9012",
        "은행으로 100 - 200 - 3000 단계로, 은행 100 - 200 - 300 - 4000 순으로, 은행 1000 - 2000 - 300000원씩",
        "제2중간기(1800-1550 B.C), 1600-1046 BC, 기원전 1600-1046, 전례성성(1588-1969)에서, 식물지(홍길동, 1577-1910)는",
        "최대토크는 1600-4000rpm에서, 36.0kg·m/1800-4500 rpm, LTE는 1800-2600MHz, 1800-2600 MHz 대역",
        "해발 1600-2400미터, 1600-2400kcal, 1600-2400칼로리, 1800-6500K, 1600-2400℃, 1899-2400cc, 1600-2400 cc",
        "1600-2000엔, 1600-2100마리, 1600-2000회, 1800-3000석, 1800-2700피트, 1800-2200루멘, 1566-2345쪽, 1577-1234번지",
        "ISO 1600-3200으로, 감도 1600-6400, 고도는 1800-2700, 셔터 1600-8000, 흡수 1600-3500cm-1, 1600-3200W",
        "관리번호 550101-3123456, 접수번호 701231-4123456, 코드 991231-3000000, 제품번호 880123-4567890",
        f"모델 651010-7654321, 번호 8801234567890, 번호 {with_check('550101312345')}",
        "값은 900101/1234567, 품번 900101.1234567, 전화 모델 730-1234, 좌석 730-1234, 전화 730-1234대",
        "전화: 2000-2010 통계, 팩스 2001-2005 판매량, 연락처 2012-2013 회계연도, 전화 2006-2007시즌, ☎ 2020-2050 전망",
        "2010-2014로 연락이 끊겼다. 2010-2015에 신청한 사람, 전화 300-3400Hz 대역, 팩스 2400-9600bps, 전화 230-1234번지",
        "‘한빛회(Hanbit)’ (1588-1969)에서, 한빛왕국(1588-1969), 1600-2400도에서, 1600-2400석의, 1800-3000회 돌린, 1600-2400GB",
        "IMEI 356938035643809, IMEI: 490154203237518",
        "계좌로 2012-2013-12 시즌, 국민은행 성금 2010 2011 20121 (홍길동)",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert masked(text) == (text, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02-123-4567,010-1234-5678", "[전화번호],[전화번호]"),
        ("02-123-4567/010-1234-5678/02)333-4444", "[전화번호]/[전화번호]/[전화번호]"),
        ("1588-1234,1577-1234", "[전화번호],[전화번호]"),
        ("02-2100-1234/5", "[전화번호]/5"),
        ("210304-3123456,210305-4123456", "[주민등록번호],[주민등록번호]"),
        ("210304-3123456/010-1234-5678", "[주민등록번호]/[전화번호]"),
        ("1588-1234/1640", "1588-1234/1640"),
        ("tel 345-6789, 345-6780", "tel [전화번호], [전화번호]"),
        ("전화 02-345-6789, 345-6780", "전화 [전화번호], [전화번호]"),
        ("345-6789,345-6780으로 문의", "[전화번호],[전화번호]으로 문의"),
        ("02-345-6789 345-6780", "[전화번호] 345-6780"),
        ("02-345-6789 1588 1234", "[전화번호] 1588 1234"),
        ("01012345678@press.example", "[이메일]"),
        ("1,588-1234원과 1,010-1234", "1,588-1234원과 1,010-1234"),
    ],
)
def test_numbers_in_a_row_without_blanks(text: str, expected: str) -> None:
    assert masked(text)[0] == expected
    assert masked(expected) == (expected, {})


@pytest.mark.parametrize("number", ["02-1234-5678", "031-123-4567", "010-1234-5678"])
def test_a_bank_s_telephone_is_no_account(number: str) -> None:
    assert mask(f"한빛은행 {number}, {number} 신한은행", ("account",)).counts == {}


def test_brackets_around_a_number_stay() -> None:
    assert masked("한빛센터(070-4159-8886)와 (02) 123-4567")[0] == "한빛센터([전화번호])와 [전화번호]"
    assert (
        masked("(010)1234-5678, (010-1234-5678), [농협] 351-1234-5678-13")[0] == "[전화번호], ([전화번호]), [농협] [계좌번호]"
    )


@pytest.mark.parametrize("kind", ALL)
def test_only_the_asked_kinds_are_masked(kind: Kind) -> None:
    parts: dict[Kind, str] = {
        "resident_number": with_check("800101123456"),
        "foreigner_number": with_check("850715523456"),
        "card": "4111-1111-1111-1111",
        "phone": "010-1234-5678",
        "email": "hong@press.example",
        "passport": "여권번호 M12345678",
        "account": "한빛은행 110-123-456789",
        "driving_license": "면허 11-12-345678-90",
        "business_number": "123-45-67891",
        "ip_address": "121.130.45.200",
    }
    found = mask(" / ".join(parts.values()), (kind,))
    assert found.counts == {kind: 1}
    assert all(parts[other] in found.text for other in parts if other != kind)


DIGITS = st.text("0123456789", min_size=6, max_size=6)


@settings(max_examples=50)
@given(st.dates(date(1900, 1, 1), date(2030, 12, 31)), st.sampled_from([0, 1, 4, 5]), DIGITS)
def test_every_valid_resident_number_is_found_and_a_wrong_check_digit_is_not(born: date, offset: int, rest: str) -> None:
    code = {0: 1, 1: 2, 4: 5, 5: 6}[offset] + (2 if born.year >= 2000 else 0)
    number = with_check(f"{born:%y%m%d}{code}{rest[:5]}")
    kind = "foreigner_number" if code in (5, 6, 7, 8) else "resident_number"
    assert masked(f"번호 {number}이다") == (f"번호 {PLACEHOLDERS[kind]}이다", {kind: 1})
    wrong = number[:-1] + str((int(number[-1]) + 1) % 10)
    assert masked(wrong)[1] == ({kind: 1} if born >= date(2020, 10, 5) else {})


@given(st.text("0123456789", min_size=12, max_size=12), st.sampled_from("-  "))
def test_cards_need_their_check(rest: str, separator: str) -> None:
    number = luhn("455" + rest)
    groups = separator.join(number[start : start + 4] for start in range(0, 16, 4))
    assert masked(f"카드 {groups} 끝")[1] == {"card": 1}
    wrong = groups[:-1] + str((int(groups[-1]) + 1) % 10)
    assert "card" not in masked(f"카드 {wrong} 끝")[1]


@settings(max_examples=40)
@given(st.from_regex(r"\A01[016789]-[0-9]{3,4}-[0-9]{4}\Z"), st.text("가나다 .,\n", max_size=20))
def test_mobile_numbers_are_found_anywhere(number: str, around: str) -> None:
    assert masked(f"{around} {number}{around}") == (f"{around} [전화번호]{around}", {"phone": 1})


@given(st.text("0123456789-.:@ ()+aMt가여권은행계좌신한골뱅이\n", max_size=120))
def test_masking_twice_changes_nothing_and_letters_stay(text: str) -> None:
    once, counts = masked(text)
    assert masked(once) == (once, {})
    assert (once == text) == (not counts)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "1", "1-", "010-", "a@", "a.", "계좌 12-", "여권", "1234 ", "+82 ", "@a.", "a(at)", "골뱅이", "02 ", "1.1."),
        *("a:", "a at ", "전화 02", "02 2", "12-34567-", "은행(가나) "),
    ],
)
def test_repetitive_input_takes_linear_time(unit: str) -> None:
    with linear_work():
        masked(unit * (200_000 // len(unit)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("연락처 ０１０－１２３４－５６７８이다", "연락처 [전화번호]이다"),
        ("연락처 010\u20111234\u20115678이다", "연락처 [전화번호]이다"),
        ("편지는 ｈｏｎｇ＠ｐｒｅｓｓ．ｅｘａｍｐｌｅ로", "편지는 [이메일]로"),
        ("（０２）１２３－４５６７", "[전화번호]"),
        ("계좌번호：１２３－４５６－７８９０２１", "계좌번호：[계좌번호]"),
        ("２０１４년 ５월 １일 （목）", "２０１４년 ５월 １일 （목）"),
    ],
)
def test_full_width_forms_are_read_alike_and_stay_elsewhere(text: str, expected: str) -> None:
    assert masked(text)[0] == expected


def test_masking_is_off_by_default_and_counted() -> None:
    text = f"{prose(3, 8)}\n연락은 010-1234-5678, hong@press.example로 한다.\n{prose(4, 3)}"
    one = document(1, text, title="전화 010-1234-5678")
    plain = clean_document(one, CleanSpec(sentences="none"), Rules(None, None, None))
    assert "010-1234-5678" in plain.document.text
    assert plain.counts["masked"] == {}
    asked = CleanSpec(sentences="none", personal_data=("phone", "email"))
    found = clean_document(one, asked, Rules(None, None, None))
    assert found.counts["masked"] == {"phone": 2, "email": 1}
    assert "연락은 [전화번호], [이메일]로 한다." in found.document.text
    assert found.document.title == "전화 [전화번호]"


def test_the_stage_adds_up_what_it_masked(tmp_path: Path) -> None:
    documents = [document(n, f"{prose(n, 8)}\n전화 010-1234-567{n}.") for n in range(6)]
    spec = CleanSpec(sentences="none", personal_data=("phone",))
    stats = ran(STAGE, spec, {"documents": stored(tmp_path / "in", documents)}, tmp_path / "out")
    assert stats["masked"] == {"phone": 6}
    assert all("010" not in one.text for one in kept(tmp_path / "out"))
