from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.step import _counted
from korealbert.artifact import InputPath, Runtime
from korealbert.corpus.clean.lists import UrlList, WordList, is_word_of
from korealbert.corpus.clean.stage import STAGE, CleanSpec
from tests.corpus.documents_made import RULES, document, dropped, prose, ran, stored


def listed(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("어제 카지노에 갔다.", True),
        ("카지노들에서는 돈을 잃는다.", True),
        ("카지노까지도 닫았다", True),
        ("「카지노」가 닫혔다", True),
        ("CASINO를 열었다", True),
        ("온라인카지노사이트", False),
        ("카지노은 없다", False),
        ("카지노학 개론", False),
        ("casinos", False),
        ("사설 토토 추천", True),
        ("사설토토 추천", False),
        ("사설\n토토로 번다", True),
        ("사설 토토로가 나오는 영화", False),
        ("최신무료쿠폰받기", True),
        ("무료쿠폰", True),
        ("도박은", True),
        ("도박는", False),
        ("도박이라고도 한다", True),
        ("카지노였으며", True),
        ("카지노인데", True),
        ("도박만을", True),
        ("카지노로서의", True),
        ("도박에선", True),
        ("카지노가의", False),
        *(
            (f"그건 {word}", True)
            for word in ("카지노야말로", "카지노뿐이다", "카지노냐", "카지노뿐이었다면서요", "카지노네요")
        ),
        *(
            (f"그건 {word}", True)
            for word in ("카지노들에서까지도", "카지노에서부터는", "카지노커녕", "카지노는커녕", "도박은커녕")
        ),
        *(
            (f"그건 {word}", True)
            for word in ("카지노라면서", "카지노랍니다", "카지노였더라", "카지노일까", "카지노인가요", "카지노임을")
        ),
        *(
            (f"그건 {word}", True)
            for word in ("카지논데", "카지놀", "카지논", "카지놉니다", "카지노입니까", "카지노예요", "도박이에요")
        ),
        *(
            (f"그건 {word}", True)
            for word in (
                "도박하는",
                "도박했다가",
                "도박한다며",
                "도박당했다",
                "도박이나마",
                "도박이셨다",
                "도박따위",
                "카지노같은데",
                "카지노랄까",
            )
        ),
        *(
            (f"그건 {word}", False)
            for word in ("카지노이", "카지노을", "카지노과", "도박야말로", "도박냐", "도박와", "카지노식", "도박꾼")
        ),
        *(
            (f"그건 {word}", False)
            for word in (
                "카지노기",
                "카지농",
                "도반",
                "카지노한국",
                "도박이야기",
                "도박장",
                "카지노지를",
                "카지노자",
                "도박있다",
            )
        ),
    ],
)
def test_words_are_found_between_boundaries_with_particles(tmp_path: Path, text: str, found: bool) -> None:
    path = listed(tmp_path / "spam.txt", "# spam", "", "카지노", "Casino  # English", "사설 토토", "*무료쿠폰*", "도박")
    assert (WordList([path]).judge(text, 0.0) is not None) == found


@pytest.mark.parametrize(
    ("entry", "text", "found"),
    [
        ("C++", "C 언어로 짠다", False),
        ("C++", "c++를 배운다", True),
        ("C++", "ｃ＋＋", True),
        ("C++", "C++11", False),
        ("C++", "ABC++", False),
        ("C+", "C++", False),
        (".NET", "NET", False),
        (".NET", "(.NET)", True),
        ("19+ 영상", "19 영상", False),
        ("19+ 영상", "19+ 영상들을", True),
        ("A/S 토토", "A/S\n토토로", True),
        ("A/S 토토", "A/S 토토로가", False),
        ("a_b", "a b", False),
        ("a_b", "a_b라고", True),
        ("*+카지노*", "온라인카지노사이트", False),
        ("*+카지노*", "온라인+카지노사이트", True),
        ("*토토!", "사설토토", False),
        ("*토토!", "사설토토! 하자", True),
    ],
)
def test_marks_of_an_entry_count(tmp_path: Path, entry: str, text: str, found: bool) -> None:
    drop = WordList([listed(tmp_path / "spam.txt", entry)]).judge(text, 0.0)
    assert (drop is not None) == found


def test_a_noun_that_ends_like_a_verb_has_no_contracted_forms(tmp_path: Path) -> None:
    words = WordList([listed(tmp_path / "spam.txt", "사다리", "조건")])
    for word in ("사다린", "사다릴", "사다립니다", "사다린데"):
        assert words.judge(f"옷을 {word}", 0.0) is None
    for word in ("사다리는", "사다리를", "사다리입니다", "조건이면"):
        assert words.judge(f"그건 {word}", 0.0) is not None


def test_particles_agree_with_the_last_letter() -> None:
    assert is_word_of("서울로", "서울")
    assert is_word_of("집으로는", "집")
    assert not is_word_of("토토로가", "토토")
    assert is_word_of("SNS는", "SNS")
    assert is_word_of("SNS은", "SNS")


def test_a_share_of_words_may_be_listed(tmp_path: Path) -> None:
    words = WordList([listed(tmp_path / "spam.txt", "카지노")])
    text = " ".join(["낱말"] * 48 + ["카지노를"] * 2)
    assert words.judge(text, 0.04) is None
    drop = words.judge(text, 0.03)
    assert drop is not None
    assert (drop.reason, drop.rule) == ("listed_word", "spam.txt: 카지노 (2 of 50 words > 0.03)")


def test_a_word_counts_once_however_many_entries_match_it(tmp_path: Path) -> None:
    words = WordList([listed(tmp_path / "spam.txt", "카지노", "*카지노*", "*지노*", "[카지노]", "바다 이야기")])
    assert list(words.found("카지노에서 온라인카지노사이트로 [카지노] 바다 이야기")) == [
        ("카지노", "spam.txt"),
        ("*카지노*", "spam.txt"),
        ("카지노", "spam.txt"),
        ("바다 이야기", "spam.txt"),
    ]


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://spam.example/a", "spam.example"),
        ("https://www.Spam.Example:8080/a?b=c", "spam.example"),
        ("http://m.spam.example.", "spam.example"),
        ("https://notspam.example/", None),
        ("https://spam.example.org/", None),
        ("https://blog.example/ads", "blog.example/ads"),
        ("https://blog.example/ads/1?x", "blog.example/ads"),
        ("https://blog.example/adsorption", None),
        ("https://other.example/best-casino-2020", "casino"),
        ("https://other.example/casinos", None),
        ("https://도박.example/x", "xn--hq1bt1n.example"),
        ("https://xn--hq1bt1n.example/x", "xn--hq1bt1n.example"),
        ("http://www.도박.other/x", "도박"),
        ("http://xn--hq1bt1n.other/x", "도박"),
        ("http://other.example/도박", "도박"),
        ("spam.example/go?to=https://a.example", "spam.example"),
        ("//spam.example/", "spam.example"),
        ("", None),
        ("http://[bad", None),
    ],
)
def test_addresses_are_found_at_boundaries(tmp_path: Path, url: str, entry: str | None) -> None:
    urls = UrlList(
        [listed(tmp_path / "urls.txt", "https://spam.example/", "blog.example/ads", "casino", "도박", "도박.example")]
    )
    drop = urls.judge(url)
    assert (drop and drop.rule) == (entry and f"urls.txt: {entry}")


def test_paths_match_in_any_case_and_coding(tmp_path: Path) -> None:
    urls = UrlList([listed(tmp_path / "urls.txt", "blog.example/%41DS", "site.example/도박")])
    for url in ("https://blog.example/ads", "https://BLOG.example/%61ds", "https://site.example/%EB%8F%84%EB%B0%95/1"):
        assert urls.judge(url) is not None


def test_an_invalid_entry_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"u\.txt, line 2: 'two words' is no host"):
        UrlList([listed(tmp_path / "u.txt", "ok.example", "two words")])
    with pytest.raises(ValueError, match=r"w\.txt, line 1: 'a\*b' is no word"):
        WordList([listed(tmp_path / "w.txt", "a*b")])
    (tmp_path / "x.txt").write_bytes("카지노".encode("cp949"))
    with pytest.raises(ValueError, match=r"x\.txt: not a list, it is not UTF-8"):
        WordList([tmp_path / "x.txt"])


URLS, WORDS = UrlList([RULES / "urls-example.txt"]), WordList([RULES / "words-example.txt"])


@given(st.text(), st.text())
def test_nothing_raises(text: str, url: str) -> None:
    URLS.judge(url)
    list(WORDS.found(text))


def test_the_stage_counts_both(tmp_path: Path) -> None:
    documents = [
        document("good", prose(1, 12)),
        document("host", prose(2, 12), url="https://a.casino-spam.example/1"),
        document("word", f"{prose(3, 12)}\n온라인카지노사이트를 추천한다."),
    ]
    lists = {kind: (InputPath(RULES / f"{kind}-example.txt"),) for kind in ("urls", "words")}
    spec = CleanSpec(sentences="none", url_lists=lists["urls"], word_lists=lists["words"])
    stats = ran(STAGE, spec, {"documents": stored(tmp_path / "in", documents)}, tmp_path / "out")
    assert stats["dropped"] == {"listed_url": 1, "listed_word": 1}
    assert {rule.partition(":")[0] for _, rule in dropped(tmp_path / "out").values()} == {
        "urls-example.txt",
        "words-example.txt",
    }


def test_an_invalid_list_is_reported_before_the_run(tmp_path: Path) -> None:
    assert STAGE.check is not None
    path = listed(tmp_path / "words.txt", "카지노", "카*지노")
    with pytest.raises(ValueError, match=r"words\.txt, line 2: '카\*지노' is no word; \* may be only at its ends"):
        STAGE.check(CleanSpec(word_lists=(InputPath(path),)), Runtime(store=tmp_path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"words\.txt: not a list, it is not UTF-8"):
        STAGE.check(CleanSpec(url_lists=(InputPath(path),)), Runtime(store=tmp_path))


def test_lists_that_have_no_effect_are_named(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("spam.example\n")
    (tmp_path / "empty.txt").write_text("# nothing yet\n\n")
    inputs = {"documents": stored(tmp_path / "in", [document(1, prose(1, 12)), document(2, prose(2, 12))])}
    spec = CleanSpec.model_validate({"url_lists": [str(tmp_path / "urls.txt"), str(tmp_path / "empty.txt")]})
    stats = ran(STAGE, spec, inputs, tmp_path / "out")
    assert "no document has a URL" in stats["warnings"][0] and "fields.url" in stats["warnings"][0]
    assert "empty.txt lists nothing" in stats["warnings"][1] and len(stats["warnings"]) == 2
    assert "\n  WARNING: url_lists drop nothing" in _counted(stats)
    some = {
        "documents": stored(
            tmp_path / "some", [document(1, prose(1, 12), url="https://a.example/1"), document(2, prose(2, 12))]
        )
    }
    spec = CleanSpec.model_validate({"url_lists": [str(tmp_path / "urls.txt")]})
    assert "warnings" not in ran(STAGE, spec, some, tmp_path / "fine")
    assert "warnings" not in ran(STAGE, CleanSpec(), inputs, tmp_path / "none")
