"""Plain text and Markdown: which marks go, and what front matter is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.extracting import extract


def test_markdown_files_with_front_matter(tmp_path: Path) -> None:
    path = tmp_path / "판결.md"
    path.write_text(
        "---\n사건명: '손해: 배상'\n선고일자: 2003-11-14\n---\n\n# 손해배상\n\n"
        "## 이유\n**원고**는 [법](https://law.example)을 들었다.\n- 첫째\n",
        "utf-8",
    )
    fields = {"title": "사건명", "published": "선고일자"}
    found = extract(tmp_path / "store", path, format="text", document="file", markdown=True, fields=fields)
    (document,) = found.documents
    assert (document.title, document.published) == ("손해: 배상", "2003-11-14")
    assert document.text == "손해배상\n\n이유\n원고는 법을 들었다.\n첫째"


@pytest.mark.parametrize("document", ["file", "record", "line"])
@pytest.mark.parametrize("markdown", [True, False])
@pytest.mark.parametrize(
    "beginning", ["---\n봄이 왔다.\n---\n", "---\n제목: 봄\n봄이 왔다.\n---\n", "---\n- 봄이 왔다.\n---\n"]
)
def test_text_between_two_rules_is_no_front_matter(tmp_path: Path, document: str, markdown: bool, beginning: str) -> None:
    path = tmp_path / "글.md"
    path.write_text(f"{beginning}여름도 온다.\n", "utf-8")
    found = extract(tmp_path / "store", path, format="text", document=document, markdown=markdown)
    together = "\n".join(found.texts)
    assert "봄이 왔다." in together
    assert "여름도 온다." in together


@pytest.mark.parametrize("document", ["file", "record"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_front_matter_is_a_mapping(tmp_path: Path, document: str, newline: str) -> None:
    path = tmp_path / "글.md"
    front = ["---", "# 머리", 'title: "봄"', "", "tags:", "- 가", "-", "meta:", "  수: 1", "요약: >", "  길다", "---"]
    path.write_bytes(newline.join([*front, "여름도 온다."]).encode())
    found = extract(tmp_path / "store", path, format="text", document=document)
    assert found.texts == ["여름도 온다."]
    assert found.documents[0].title == ("봄" if document == "file" else "")


@pytest.mark.parametrize("mark", ["|", ">", ">-", "|2"])
def test_the_mark_of_a_text_below_an_entry_is_no_title(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "글.md"
    path.write_text(f"---\ntitle: {mark}\n  봄\nurl: https://봄.example\n---\n글\n", "utf-8")
    found = extract(tmp_path / "store", path, format="text", document="file")
    assert (found.documents[0].title, found.documents[0].url) == ("", "https://봄.example")
    assert found.stats["missing_fields"]["title"] == 1


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[강](https://a.example/b_(c)) ![그림](x.png) 둑", "강 둑"),
        ("| 이름 | 값 |\n|:---|---:|\n| 강 | 3 |\n\n뒤", "이름 값\n강 3\n\n뒤"),
        ("머리\n====\n\n<b>굵은</b> 글<br/>과 <사진> 하나", "머리\n\n굵은 글\n과 <사진> 하나"),
        ("1. 하나\n- 둘\n> 셋\n\n***\n\n`넷` **다섯**", "1. 하나\n둘\n셋\n\n넷 다섯"),
        ("별은 10<sup>13</sup>개, 물은 H<sub>2</sub>O", "별은 10^13개, 물은 H2O"),
        (
            "제***-****-****4호 255-***-****-****8과 그**굵은**글 *기운* ***둘***",
            "제***-****-****4호 255-***-****-****8과 그굵은글 기운 둘",
        ),
        ("축(2)(2`)과 기어(5)(5`)는 `코드`", "축(2)(2`)과 기어(5)(5`)는 코드"),
        ("함수`foo`와 ``bar``", "함수foo와 bar"),
        ("첫 쪽\f둘째 쪽\x85셋째\u2028넷째", "첫 쪽\n둘째 쪽\n셋째\n넷째"),
        ("```npm install``` 로 설치한다.\n\n뒤", "npm install 로 설치한다.\n\n뒤"),
        ("- 하나\n  ```python\n  print()\n  ```\n- 둘", "하나\n\n둘"),
        ("앞\n````\n```\n안\n```\n````\n뒤\n~~~\n끝없는", "앞\n\n뒤"),
        ("앞\n\n* * *\n\n뒤", "앞\n\n뒤"),
        ("> - 항목\n> > 인용\n> # 제목", "항목\n인용\n제목"),
        ("앞<!--more-->뒤 `<!-- 주석 -->`과 `*a*`", "앞뒤 <!-- 주석 -->과 *a*"),
        ("[![빌드](a.png)](http://a.b/c)[![로고](a.png) 집](http://a.b/c)", "집"),
        (r"\*별표\* \# \[1\](2) `\*` C:\가", r"*별표* # [1](2) \* C:\가"),
        ("| 가 \\| 나 | 다 |", "가 | 나 다"),
        ("---\ntitle: 봄\n...\n글", "글"),
        ("---\ntitle: 봄\n---\n글\n\n---\n\n뒤", "글\n\n뒤"),
    ],
)
def test_marks_of_markdown_go_and_its_words_stay(tmp_path: Path, written: str, text: str) -> None:
    path = tmp_path / "a.md"
    path.write_text(written, "utf-8")
    found = extract(tmp_path / "store", path, format="text", document="file", markdown=True)
    assert found.texts == [text]
