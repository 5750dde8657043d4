from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.corpus.clean.titles import CategoryMap, TitleRule, TitleRules
from tests.corpus.documents_made import GOLDEN, RULES, json_lines

TITLES = TitleRules(RULES / "titles.toml")
CATEGORIES = CategoryMap(RULES / "categories.toml")
EXAMPLES = [
    pytest.param(rule, text, wanted, id=f"{rule.id}-{text[:12]}")
    for rule in TITLES.rules
    for wanted, texts in ((True, rule.positive), (False, rule.negative))
    for text in texts
]


@pytest.mark.parametrize(("rule", "text", "wanted"), EXAMPLES)
def test_examples_of_the_titles_file(rule: TitleRule, text: str, wanted: bool) -> None:
    drop = TITLES.judge(text, "") if rule.field == "title" else TITLES.judge("", text)
    assert (drop is not None and drop.rule == rule.id) if wanted else drop is None


REPORT = (
    "나루교 위에서 버스와 화물차가 부딪쳤다. 다친 사람은 없었다. 다리는 두 시간 막혔다. "
    "시는 난간을 고치기로 했다. 공사는 내년에 끝난다."
)
CAPTION = "두루미가 논 위를 날고 있다. 한빛시가 17일 찍었다."
NOTICE = (
    "한빛마라톤 참가자를 모십니다. 신청은 누리집에서 받습니다. 많이 참여하시기 바랍니다. "
    "상품을 드립니다. 문의는 사무국으로 하시면 됩니다."
)


@pytest.mark.parametrize(
    "title",
    ["[영상] 나루교가 막힌 두 시간", "[사고] 나루교 충돌", "<그래픽> 막힌 다리", "[데이터] 다리의 하루", "[사진] 두루미"],
)
def test_a_label_drops_no_running_text(title: str) -> None:
    assert TITLES.judge(title, REPORT) is None
    assert TITLES.judge(title, CAPTION) is not None and TITLES.judge(title, NOTICE) is not None


@pytest.mark.parametrize("style", ["{}다.", "{}습니다.", "{}어요."])
def test_a_forecast_in_sentences_is_text_in_either_style(style: str) -> None:
    stems = ("전국이 흐리겠", "남쪽에는 비가 내리겠", "낮에는 어제보다 춥겠", "바다에는 물결이 높겠", "모레는 맑겠")
    text = " ".join(style.format(stem) for stem in stems)
    assert TITLES.judge("[날씨] 전국 흐리고 비", text) is None
    assert TITLES.judge("[날씨] 전국 흐리고 비", "나루 12/19 비 60\n너울 10/17 흐림 30\n전국이 흐리겠다.") is not None


@pytest.mark.parametrize("title", ["[부고] 홍길동 씨 별세", "[포토] 두루미", "[화보] 막힌 다리", "[한빛포토] 두 시간"])
def test_some_labels_drop_whatever_follows(title: str) -> None:
    assert TITLES.judge(title, REPORT) is not None


@pytest.mark.parametrize(
    ("section", "category"),
    [
        ("정치", "정치"),
        ("국회 · 정당", "정치"),
        ("사회 > 법원·검찰", "사회"),
        ("뉴스/스포츠/프로야구", "스포츠"),
        ("it 과학", "IT"),
        ("뉴스／ＩＴ", "IT"),
        ("사설·칼럼", "오피니언"),
        *((f"IT{dot}과학", "IT") for dot in "·ㆍ・･‧∙•"),
        *((f"새 소식{mark}정치", "정치") for mark in "ㆍ･∙〉》＞"),
        ("정치ㆍ외교", "정치"),
        ("기획연재", None),
    ],
)
def test_sections_are_mapped(section: str, category: str | None) -> None:
    assert CATEGORIES.category(section) == category


def test_the_map_covers_the_sample(sample_dir: Path) -> None:
    """At least 95 % of the kept articles that name a section (specification, section 5)."""
    dropped = {case["id"] for case in json_lines(GOLDEN / "expected.jsonl") if "drop" in case}
    articles = json_lines(sample_dir / "news.jsonl")
    sections = [one["section"] for one in articles if one["id"] not in dropped and one.get("section")]
    assert sum(CATEGORIES.category(section) is not None for section in sections) >= 0.95 * len(sections)


def test_one_section_under_two_categories_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[categories]\n"정치" = ["국회"]\n"사회" = ["국회"]', "utf-8")
    with pytest.raises(ValueError, match=r"rules\.toml: section '국회' is under 정치 and 사회"):
        CategoryMap(path)


@pytest.mark.parametrize(("load", "content"), [(TitleRules, "[[rule]]\nid = 'X'\npattern = '('"), (CategoryMap, "x = 1")])
def test_a_bad_file_is_named(load: object, content: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=r"rules\.toml"):
        load(path)  # type: ignore[operator]
