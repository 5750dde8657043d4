from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.artifact import Store
from korealbert.corpus.clean.filters import judge
from korealbert.corpus.clean.language import (
    _IDENTIFIED,
    Language,
    LanguageMissing,
    _identifier,
    check_languages,
    language_shares,
    without_addresses,
    wrong_language,
)
from korealbert.corpus.clean.limits import Limits
from korealbert.corpus.clean.stage import _LANGUAGES_SCHEMA, STAGE, CleanSpec
from korealbert.corpus.readers.spec import FieldMap
from korealbert.documents.shards import read_batches
from tests.corpus.documents_made import bytes_of, document, dropped, prose, ran, stored

KOREAN = "도서관은 삼 년 전에 문을 닫은 방앗간에 들어섰다."
ENGLISH = "The library opened in a disused mill three years ago and lends ladders."
HANJA = "吾等은 玆에 我 朝鮮의 獨立國임과 朝鮮人의 自主民임을 宣言하노라."
"""The first sentence of the declaration of 1919."""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (KOREAN, "ko"),
        (HANJA, "ko"),
        ("大韓民國憲法 第一條 ① 大韓民國은 民主共和國이다.", "ko"),
        ("第二條 大韓民國의 主權은 國民에게 있고 모든 權力은 國民으로부터 나온다.", "ko"),
        ("判決主文 原審判決을 破棄하고 本件을 大邱高等法院에 還送한다.", "ko"),
        ("首爾（서울）是韓國的首都，也是韓國最大的城市，位於漢江兩岸。", "zh"),
        ("韓語的主格助詞有이和가，賓格助詞有을和를，用法因前面的名詞而不同。", "zh"),
        ("ㅋㅋㅋ ㅠㅠ", "ko"),
        ("AI API를 쓰는 GPU 서버", "ko"),
        ("오늘 release 에서는 new feature 를 deploy 하고 bug 를 fix 했다. PR 을 review 하고 merge 했다.", "ko"),
        ("React component 를 render 할 때 props 를 pass 하는 방법", "ko"),
        ("The subject particles are 이 and 가, the object particles 을 and 를.", "other"),
        ("def open_mill(path):\n    return open(path)\n" * 3, "other"),
        ("図書館は三年前に閉鎖された製粉所に開館した。", "ja"),
        ("トヨタ自動車株式会社", "ja"),
        ("图书馆三年前在一座废弃的磨坊里开放。", "zh"),
        (ENGLISH, "other"),
        ("doseogwaneun sam nyeon jeone muneul dateun bangatgane deureoseotda.", "other"),
        ("Библиотека открылась три года назад.", "other"),
        ("The station 서울역 opened in 1925 and was designed by Tsukamoto Yasushi.", "other"),
    ],
)
def test_the_language_of_most_of_a_text(text: str, first: str) -> None:
    assert next(iter(language_shares(text))) == first


def test_shares_are_of_letters_in_lines() -> None:
    korean = "가나다라마바사아자차"
    shares = language_shares(f"{korean * 4}\n{korean * 2}\nabcdefghij abcdefghij\nabcdefghij\n123 --")
    assert shares == {"ko": pytest.approx(6 / 7), "other": pytest.approx(1 / 7)}
    assert language_shares("12345 --\n☎") == {}


PYTHON = """import numpy as np

def opened(path):
    # the mill
    with open(path) as mill:
        return np.asarray(mill)

for name in names:
    print(opened(name))"""
SHELL = """pip install mill
mill --lend ladder --days 14 > ladder.txt
cat ladder.txt | grep -c wood
export MILL=/opt/mill"""
C = """#include <stdio.h>

int main(void) {
    for (int i = 0; i < 10; i++)
        printf("%d", i);
    return 0;
}"""


@pytest.mark.parametrize("code", [PYTHON, SHELL, C, f"```\n{ENGLISH}\n```", f"~~~ text\n{ENGLISH}\n\n{ENGLISH}\n~~~"])
def test_code_is_in_no_language(code: str) -> None:
    assert language_shares(f"{KOREAN}\n{code}\n{KOREAN}") == {"ko": 1.0}
    assert language_shares(f"{ENGLISH}\n\n{code}") == {"other": 1.0}
    prose = f"{KOREAN}\n{ENGLISH}\n{ENGLISH}"
    assert language_shares(f"{prose}\n{code}\n{KOREAN}") == language_shares(f"{prose}\n{KOREAN}"), "prose beside code counts"


def test_fences_that_do_not_close_hide_nothing() -> None:
    assert language_shares(f"```\n{KOREAN}\n```") == {"ko": 1.0}
    for text in (f"```\n{ENGLISH}\n{KOREAN}", f"{ENGLISH}\n```\n{KOREAN}", f"```py\n```py\n{ENGLISH}\n{KOREAN}\n~~~"):
        assert language_shares(text) == language_shares(f"{ENGLISH}\n{KOREAN}")


def test_korean_with_its_translation_is_half_korean() -> None:
    assert language_shares(f"{KOREAN}\nThe library moved three years ago into a mill that had closed.")["ko"] > 0.5


def test_the_share_of_korean_does_not_depend_on_the_languages_that_are_kept() -> None:
    pytest.importorskip("py3langid")
    mixed = (
        f"{KOREAN}\n{ENGLISH}\n서울 release notes are written in English by people in this office every Friday morning\nHello"
    )
    by_name = language_shares(mixed, by_script=False)
    assert by_name["ko"] == language_shares(mixed)["ko"] and set(by_name) == {"ko", "en"}


def test_a_word_of_another_script_weighs_within_its_line() -> None:
    line = "The station 서울역 opened in 1925 and was designed by Tsukamoto Yasushi."
    assert language_shares(f"{line}\n{'가' * 20}")["other"] == pytest.approx(59 / 119)


def test_short_lines_are_identified_together() -> None:
    pytest.importorskip("py3langid")
    assert language_shares(f"{KOREAN}\nHello\n{KOREAN}\nBye", by_script=False) == {"ko": 1.0}, "too few to know"
    words = ["Hello", "Where is it?", "I do not know", "See you tomorrow", "Thank you", "Good morning"]
    glossary = "\n".join(f"{KOREAN}\n{word}" for word in words)
    assert set(language_shares(glossary, by_script=False)) == {"ko", "en"}
    russian = "Здравствуйте\nГде библиотека?\nЯ не знаю, спасибо"
    assert set(language_shares(f"{glossary}\n{russian}", by_script=False)) == {"ko", "en", "ru"}
    assert set(language_shares("Good morning", by_script=False)) == {"en"}, "there is nothing else"


@settings(deadline=None)
@given(st.text())
def test_shares_sum_to_one_whatever_comes(text: str) -> None:
    shares = language_shares(text)
    assert not shares or sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_a_drop_names_language_share_and_limit() -> None:
    drop = wrong_language(language_shares(ENGLISH), Language())
    assert drop is not None
    assert (drop.reason, drop.rule) == ("language", "other: ko 0.000 of letters < 0.5")
    assert wrong_language({}, Language()) is not None
    assert wrong_language({"ko": 0.3, "zh": 0.3, "other": 0.4}, Language(keep=("ko", "zh"))) is None


def test_a_document_wholly_in_kept_languages_stays_whatever_is_rounded() -> None:
    shares = language_shares("가" * 97 + "\nあ\n中")
    assert sum(shares.values()) < 1
    assert wrong_language(shares, Language(keep=("ko", "ja", "zh"), min_share=1.0)) is None


def test_codes_are_checked() -> None:
    with pytest.raises(ValidationError, match="'korean' is no ISO 639-1 code"):
        Language.model_validate({"keep": ["korean"]})
    with pytest.raises(ValidationError, match="'xx' is no language that py3langid identifies: af am"):
        Language.model_validate({"keep": ["ko", "xx"]})
    with pytest.raises(ValidationError, match="means all languages but ko, ja and zh"):
        Language.model_validate({"keep": ["en", "other"]})
    assert Language.model_validate({"keep": "ko"}) == Language()


@pytest.mark.skipif(importlib.util.find_spec("py3langid") is not None, reason="py3langid is installed")
def test_languages_of_one_script_need_a_package() -> None:
    with pytest.raises(LanguageMissing, match=r"pip install 'korealbert\[language\]'"):
        check_languages(Language(keep=("ko", "en")))
    check_languages(Language(keep=("ko", "other")))
    check_languages(None)


def test_languages_of_one_script() -> None:
    pytest.importorskip("py3langid")
    assert next(iter(language_shares(ENGLISH, by_script=False))) == "en"
    assert next(iter(language_shares("Die Bibliothek wurde vor drei Jahren in einer Mühle eröffnet.", by_script=False))) == "de"
    assert {code for code in _identifier().nb_classes if len(code) == 2} == {*_IDENTIFIED.split()} - {"ko", "ja", "zh"}


def test_the_stage_drops_counts_and_keeps_languages(tmp_path: Path) -> None:
    texts = [prose(1, 12), f"{prose(2, 12)}\n{ENGLISH}", "\n".join([ENGLISH] * 3), HANJA * 5]
    inputs = {"documents": stored(tmp_path / "in", [document(f"d{index}", text) for index, text in enumerate(texts)])}
    off = {"max_duplicate_lines": 1, "max_duplicate_line_characters": 1, "max_short_repeats": 1}
    everything = Limits.model_validate({"min_hangul_share": 0, **off})
    spec = CleanSpec(limits=everything, sentences="none", language=Language(min_share=0.6))
    stats = ran(STAGE, spec, inputs, tmp_path / "out")
    assert stats["languages"] == {"ko": 3, "other": 1}
    assert stats["dropped"] == {"language": 1}
    [rule] = [rule for _, rule in dropped(tmp_path / "out").values()]
    assert rule.startswith("other: ko 0.000")
    [batch] = read_batches(tmp_path / "out" / "languages-00000.arrow", _LANGUAGES_SCHEMA)
    assert batch["language"].to_pylist() == ["ko", "ko", "other", "ko"]
    assert 0.7 < batch["share"].to_pylist()[1] < 1
    without = spec.model_copy(update={"language": None})
    assert "languages" not in ran(STAGE, without, inputs, tmp_path / "plain")
    assert not [name for name in bytes_of(tmp_path / "plain") if name.startswith("languages")]


def test_limits_of_korean_do_not_apply_to_other_languages_that_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    english = (
        f"{ENGLISH} Farmers bring apples there every autumn, while children paint the walls with animals nobody has ever seen."
        " Since last winter a retired sailor repairs clocks beside the entrance. He charges nothing, drinks tea from a mug,"
        " and tells visitors how storms once carried his boat past three lighthouses without anyone noticing."
    )
    german = (
        "Die Bibliothek wurde vor drei Jahren in einer alten Mühle eröffnet und verleiht Leitern, Bohrer und Bücher. Im Herbst"
        " bringen Bauern Äpfel, während Kinder die Wände bemalen."
    )
    menu = " ".join(["홈 뉴스 연예 스포츠 로그인 날씨 증권 웹툰 지식 쇼핑"] * 2 + [f"항목{number}" for number in range(60)])
    texts = {"ko": prose(1, 12), "en": english, "de": german, "menu": menu}
    inputs = {"documents": stored(tmp_path / "in", [document(name, text) for name, text in texts.items()])}
    spec = CleanSpec.model_validate({"sentences": "none", "language": {"keep": ("ko", "en")}})
    stats = ran(STAGE, spec, inputs, tmp_path / "out")
    assert stats["dropped"] == {"language": 1, "no_sentences": 1} and stats["languages"] == {"de": 1, "en": 1, "ko": 2}
    korean = spec.model_copy(update={"language": Language()})
    assert ran(STAGE, korean, inputs, tmp_path / "korean")["dropped"] == {"language": 2, "no_sentences": 1}
    without = CleanSpec(sentences="none")
    assert ran(STAGE, without, inputs, tmp_path / "without")["dropped"] == {"not_korean": 2, "no_sentences": 1}
    by_script = spec.model_copy(update={"language": Language(keep=("ko", "other"))})
    assert ran(STAGE, by_script, inputs, tmp_path / "scripts")["dropped"] == {"no_sentences": 1}


def test_mixed_korean_is_kept_whatever_else_is(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    mixed = "오늘 release 에서는 new feature 를 deploy 하고 bug 를 fix 했다. PR 을 review 하고 merge 했다."
    english = "It stands beside the river Nakdong.", "Children paint its walls in autumn.", "A sailor repairs the clock."
    translated = [f"{prose(n, 1)}\n{line}" for n, line in enumerate(english)] + [prose(5, 6)]
    texts = {"mixed": f"{mixed}\n내일은 staging server 를 restart 하고 log 를 check 한다.", "both": "\n".join(translated)}
    texts["code"] = f"{prose(9, 4)}\n{PYTHON}\n{C}"
    inputs = {"documents": stored(tmp_path / "in", [document(name, text) for name, text in texts.items()])}
    for keep in (("ko",), ("ko", "en"), ("ko", "other")):
        spec = CleanSpec(sentences="none", language=Language(keep=keep))
        stats = ran(STAGE, spec, inputs, tmp_path / "-".join(keep))
        assert not stats["dropped"] and stats["languages"] == {"ko": 3}
    strict = CleanSpec.model_validate({"sentences": "none", "language": {}, "limits": {"min_hangul_share": 0.3}})
    assert ran(STAGE, strict, inputs, tmp_path / "strict")["dropped"] == {"not_korean": 2}, "a limit of one's own holds"


LINK = "https://www.example.com/articles/2024/01/15/why-the-library-in-the-old-mill-lends-ladders-and-not-only-books.html?utm=a"


@pytest.mark.parametrize(
    "address", [LINK, LINK[8:], LINK[12:], "library.of.the.disused.mill.which.lends.ladders@post.example.co.kr"]
)
def test_addresses_are_in_no_language(address: str) -> None:
    assert language_shares(f"도서관은 삼 년 전에 방앗간에 들어섰다({address})를 보라.") == {"ko": 1.0}
    assert language_shares(address) == {}
    assert language_shares(f"{ENGLISH} {address}") == {"other": 1.0}
    assert judge(f"도서관은 삼 년 전에 문을 닫은 방앗간에 들어섰다. {address}", Limits(min_characters=20)) is None
    rest = without_addresses(f"그는 {address}에서 읽었다. 1/2 and/or, e.g. this, a@ 5.5/10 km/h")
    assert rest == "그는 에서 읽었다. 1/2 and/or, e.g. this, a@ 5.5/10 km/h"


def test_absent_fields_leave_the_identity(tmp_path: Path) -> None:
    fields = STAGE.identity(CleanSpec(), {}, Store(tmp_path)).spec
    assert not {"language", "url_lists", "word_lists", "max_listed_word_share"} & fields.keys()
    assert "language" in STAGE.identity(CleanSpec(language=Language()), {}, Store(tmp_path)).spec


@pytest.mark.parametrize("given", ['"ko"', '["ko", "other"]'])
def test_a_recipe_names_one_language_or_several(given: str) -> None:
    kept = Language.model_validate_json(f'{{"keep": {given}}}', strict=True).keep
    assert kept == tuple(given.strip('[]"').split('", "'))
    assert FieldMap.model_validate_json(f'{{"text": {given}}}', strict=True).text == kept
