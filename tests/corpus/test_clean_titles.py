from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.corpus.categories import CategoryFile, CategoryMap, load_category_map
from korealbert.corpus.titles import TitleRule, load_title_rules
from tests.corpus.documents_made import GOLDEN, RULES, json_lines

TITLES = load_title_rules(RULES / "titles.toml")
CATEGORIES = load_category_map(RULES / "categories.toml")
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


@pytest.mark.parametrize(
    ("section", "category"),
    [
        ("정치", "정치"),
        ("국회 · 정당", "정치"),
        ("사회 > 법원·검찰", "사회"),
        ("뉴스/스포츠/프로야구", "스포츠"),
        ("it 과학", "IT"),
        ("사설·칼럼", "오피니언"),
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


def test_one_section_under_two_categories_is_refused() -> None:
    with pytest.raises(ValueError, match="'국회' is under 정치 and 사회"):
        CategoryMap(CategoryFile(categories={"정치": ("국회",), "사회": ("국회",)}))


@pytest.mark.parametrize(
    ("load", "content"), [(load_title_rules, "[[rule]]\nid = 'X'\npattern = '('"), (load_category_map, "x = 1")]
)
def test_a_bad_file_is_named(load: object, content: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=r"rules\.toml"):
        load(path)  # type: ignore[operator]
