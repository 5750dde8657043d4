"""Telephone numbers, and ranges, figures and other numbers that have their form. All numbers are invented."""

from __future__ import annotations

import pytest

from korealbert.corpus.clean.personal_data import mask


@pytest.mark.parametrize(
    "number",
    ["O1O-1234-5678", "ㅇ1ㅇ-1234-5678", "01O 1234 5678", "o1o12345678", "010,1234,5678", "010*1234*5678", "010 * 1234 * 5678"],
)
def test_mobile_numbers_in_disguise_are_masked(number: str) -> None:
    assert mask(f"표는 {number}로", ("phone",)).text == "표는 [전화번호]로"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "대한은행 {}이다.",
            "한빛카드({})로",
            "{} 고객센터",
            "{}번",
            "{} 번으로",
            "{}(ARS)",
            "전화 {}",
            "{}으로 문의",
            "☎ {}",
            "A/S는 {}.",
        ),
        *("신청은 {}으로 하면 된다.", "배달 {}", "한빛치킨 {}", "제보 {}"),
    ],
)
@pytest.mark.parametrize("number", ["1600-7000", "1800-2200", "1600-0600"])
def test_a_round_number_of_a_hotline_is_masked(text: str, number: str) -> None:
    assert mask(text.format(number), ("phone",)).text == text.format("[전화번호]")


@pytest.mark.parametrize("text", ["문의전화 {}", "☎ {}", "전화 {}", "(☎ {})", "{}으로 문의하면 된다"])
@pytest.mark.parametrize("number", ["2100-2200", "3000-4000"])
def test_a_round_local_number_is_masked(text: str, number: str) -> None:
    assert mask(text.format(number), ("phone",)).text == text.format("[전화번호]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("전화 3146-1316 /전송 3146-1319", "전화 [전화번호] /전송 [전화번호]"),
        ("전화 (02)3146-1316~7, 3146-1320", "전화 [전화번호], [전화번호]"),
        ("전화 500-1000으로 문의", "전화 [전화번호]으로 문의"),
        ("국번호 345-1234로 신고", "국번호 [전화번호]로 신고"),
    ],
)
def test_local_numbers_beside_others(text: str, expected: str) -> None:
    assert mask(text, ("phone",)).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "HANBIT 051649 2212P003",
        *(f"{said}이다." for said in ("코스피는 1800-2200 박스권", "Elo 1800-2400", "공격력 1600-2500", "연봉은 1800-2200")),
        *(f"값은 1600-2500{unit}" for unit in ("포인트", " RPM", " ℃", " 리터")),
        *("해상도 1600-1200", "근무 시간은 1800-0600", "점수는 1800-2450", "한빛 문명(1600-1100 BCE)", "1700-1100 B.C.E."),
        *("접수번호 2019-3456으로 문의", "사건번호 345-1234로 신고", "지번 233-1234에 신고된 건물", "233-1234에 신고된 일"),
        "파일 전송 345-6789",
        *("KO1O-1234-5678", "ISO1O12345678", "010,123,4567", "1,010,1234,5678", "010*123*45678"),
    ],
)
def test_ranges_figures_and_other_numbers_stay(text: str) -> None:
    assert mask(text, ("phone",)).text == text


@pytest.mark.parametrize("form", ["{}({})", "{} ({})", "{}[{}]", "‘{}’({})", "그때 {}({})은 나루를 건넜다."])
@pytest.mark.parametrize("name", ["오스만", "합스부르크", "홍길동", "나루 운하", "신고전주의", "동인도회사", "논문의 나루"])
@pytest.mark.parametrize("years", ["1522-1899", "1588-1969", "1644-2020", "1577-1900"])
def test_years_in_brackets_behind_a_name_stay(form: str, name: str, years: str) -> None:
    text = form.format(name, years)
    assert mask(text, ("phone",)).text == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "한빛항공({})",
            "한빛 서비스센터 ({})",
            "한빛렌터카[{}]는",
            "한빛은행(상담 {})",
            "전화(☎ {})",
            "상담 나루({})",
            "나루({})로 전화하면 된다.",
        ),
        *("나루({})에 문의하라.", "나루 ({}번)으로 연락", "{}"),
    ],
)
@pytest.mark.parametrize("number", ["1522-1899", "1588-2001"])
def test_hotlines_that_read_as_years_are_masked(text: str, number: str) -> None:
    assert mask(text.format(number), ("phone",)).text == text.format("[전화번호]")


@pytest.mark.parametrize("number", ["1522-9000", "1899-1522"])
def test_what_is_no_range_of_years_is_a_hotline_in_brackets_too(number: str) -> None:
    assert mask(f"나루({number})", ("phone",)).text == "나루([전화번호])"
