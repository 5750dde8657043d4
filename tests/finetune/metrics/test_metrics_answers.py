"""Answers are compared like in the official scripts of KorQuAD, SQuAD and KLUE-MRC, or as their papers say."""

from __future__ import annotations

import string
from collections import Counter
from html.parser import HTMLParser

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.finetune import tasks
from korealbert.finetune.metrics.answers import (
    korquad_f1,
    normalise_klue,
    normalise_korquad,
    normalise_korquad2,
    normalise_squad,
    rouge_w,
    squad_f1,
)
from korealbert.finetune.task_types.questions import Answer, Question, mean_in_groups

answers = st.text(alphabet="대한민국 A(b)'《문》‘’.,", max_size=20)
english = st.lists(st.sampled_from(["the", "a", "The", "an", "cat", "dog's", "runs.", "-", "x"]), max_size=6).map(" ".join)


def question(name: str, *accepted: str, kind: int = 1) -> Question:
    return Question(name, "?", tuple(Answer(text, 0) for text in accepted), pair="", kind=kind)


def score(task: str, accepted: list[str], predicted: str, mode: str = "official") -> dict[str, float]:
    return dict(tasks.load(task).score([question("1", *accepted)], [predicted], mode).values)


def test_korquad_compares_characters_without_spaces_but_equality_with_them() -> None:
    assert score("korquad", ["대한민국"], "대한 민국") == {"em": 0.0, "f1": 100.0}
    assert score("korquad", ["문"], "《문》") == {"em": 100.0, "f1": 100.0}
    assert score("korquad", ["대한민국", "한국"], "한국은") == {"em": 0.0, "f1": pytest.approx(80.0)}


def test_two_answers_of_nothing_agree_but_the_official_f1_is_0() -> None:
    assert score("korquad", ["《》"], "") == {"em": 100.0, "f1": 0.0}
    assert score("korquad", ["《》"], "", "corrected") == {"em": 100.0, "f1": 100.0}
    assert score("squad1", ["the"], "a") == {"em": 100.0, "f1": 0.0}
    assert score("squad1", ["the"], "a", "corrected") == {"em": 100.0, "f1": 100.0}


TAGS = ["<td>", "</td>", "<p class='a'>", "<br/>", "<!-- 말 -->", "&amp;", "&nbsp;"]
WORDS = ["대한", " 민국", "\n", "Ab", "(주)", "3 "]
markup = st.lists(st.sampled_from([*TAGS, *WORDS]), min_size=1, max_size=12).map("".join)


@given(markup, markup)
def test_korquad2_compares_what_a_browser_shows(predicted: str, gold: str) -> None:
    """Its script takes Beautiful Soup's text, here lxml's, then does as KorQuAD 1's, and takes all spaces out."""

    def characters(text: str) -> str:
        shown = lxml.html.document_fromstring(f"<html><body><div>{text}</div></body></html>").text_content()
        kept = (" " if character in "'\"《》<>〈〉()‘’" else character for character in shown.lower())
        return "".join("".join(c for c in kept if c not in string.punctuation).split())

    left, right = characters(predicted), characters(gold)
    assert (normalise_korquad2(predicted), normalise_korquad2(gold)) == (left, right)
    same = sum((Counter(left) & Counter(right)).values())
    expected = {"em": 100.0 * (left == right), "f1": 200 * same / (len(left) + len(right)) if same else 0.0}
    assert score("korquad2", [gold], predicted) == {name: pytest.approx(value) for name, value in expected.items()}


@pytest.mark.skipif(hasattr(HTMLParser, "RCDATA_CONTENT_ELEMENTS"), reason="html.parser reads comments and cut tags otherwise")
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("가</td", "가td"),
        ('<td class="a', "tdclassa"),
        ("<!-- b", "b"),
        ("<!-->가", "가"),
        ("<!--가--!>나", "가나"),
        ("<![CDATA[가]]>", "가"),
        ("<rt><![CDATA[가]]></rt>", "가"),
        ("가<![x]>나", "가나"),
    ],
)
def test_what_is_no_whole_tag_is_as_beautiful_soup_takes_it(written: str, shown: str) -> None:
    """Recorded from 4.15 with Python's parser, which says of the last that it gives up."""
    assert normalise_korquad2(written) == shown


@given(answers, answers)
def test_character_f1_is_symmetric_and_1_where_the_answers_are_equal(left: str, right: str) -> None:
    assert korquad_f1(left, right, "official") == pytest.approx(korquad_f1(right, left, "official"))
    assert 0 <= korquad_f1(left, right, "official") <= 1
    assert korquad_f1(left, left, "corrected") == 1


@given(answers)
def test_normalised_answers_hold_no_mark_no_capital_and_no_double_space(text: str) -> None:
    normalised = normalise_korquad(text)
    assert not set(normalised) & {*string.punctuation, *"《》〈〉‘’", *string.ascii_uppercase}
    assert normalised == " ".join(normalised.split()) == normalise_korquad(normalised)


def test_squad_drops_articles_punctuation_and_case_but_no_article_within_a_word() -> None:
    assert normalise_squad("The cat's  An-them, a THEORY") == "cats anthem theory"
    assert score("squad1", ["the black cat"], "Black cat.") == {"em": 100.0, "f1": 100.0}
    assert score("squad1", ["black cat", "cat"], "a black dog") == {"em": 0.0, "f1": 50.0}


@given(english, english)
def test_squad_f1_is_twice_the_shared_words_over_all_words(predicted: str, gold: str) -> None:
    left, right = normalise_squad(predicted).split(), normalise_squad(gold).split()
    shared = sum(min(left.count(word), count) for word, count in Counter(right).items())
    expected = 2 * shared / (len(left) + len(right)) if left or right else 1.0
    assert squad_f1(predicted, gold, "corrected") == pytest.approx(expected)
    assert squad_f1(predicted, gold, "official") == pytest.approx(expected if left or right else 0.0)


def test_squad_2_wants_an_empty_answer_for_no_answer() -> None:
    examples = [question("1", "cat"), question("2"), question("3")]
    scores = tasks.load("squad2").score(examples, ["The cat!", "", "dog"], "official").values
    assert scores["em"] == scores["f1"] == pytest.approx(200 / 3)
    assert scores["has_answer_em"] == 100 and scores["no_answer_f1"] == 50


def test_klue_means_to_blank_quotes_and_brackets_but_keeps_them() -> None:
    assert normalise_klue("《문》 ‘Go’", "official") == "《문》 ‘go’"
    assert normalise_klue("《문》 ‘Go’", "corrected") == "문 go"
    assert score("klue_mrc", ["문"], "《문》")["em"] == 0
    assert score("klue_mrc", ["문"], "《문》", "corrected")["em"] == 100


@given(answers, answers)
def test_rouge_w_is_a_share_that_is_1_for_equal_answers_only(predicted: str, gold: str) -> None:
    predicted, gold = normalise_klue(predicted, "official"), normalise_klue(gold, "official")
    value = rouge_w(predicted, gold, "official")
    assert 0 <= value <= 1
    assert (value == 1) == (predicted == gold)


@given(answers, answers)
def test_rouge_w_knows_the_longest_common_run(predicted: str, gold: str) -> None:
    runs = {predicted[i:j] for i in range(len(predicted)) for j in range(i + 1, len(predicted) + 1)}
    longest = max((len(run) for run in runs if run in gold), default=0)
    expected = 2 * longest / (len(predicted) + len(gold)) if gold else float(not predicted)
    assert rouge_w(predicted, gold, "corrected") == pytest.approx(expected)


def test_long_gold_answers_lose_their_frequent_characters_to_difflib() -> None:
    gold = "가나" * 100
    assert rouge_w("나가나", gold, "official") == 0
    assert rouge_w("나가나", gold, "corrected") == pytest.approx(2 * 3 / 203)


def test_klue_mrc_reports_each_type_of_question_too() -> None:
    examples = [question("1", "서울", kind=1), question("2", kind=3), question("3", "부산 앞바다", kind=2)]
    scores = tasks.load("klue_mrc").score(examples, ["서울", "대구", "부산"], "official").values
    assert scores["em"] == pytest.approx(100 / 3)
    assert scores["em_type1"] == scores["rouge_w_type1"] == 100
    assert scores["em_type3"] == scores["rouge_w_type3"] == 0
    assert scores["rouge_w_type2"] == pytest.approx(100 * 2 * 2 / 8)
    assert mean_in_groups([1.0, 0.0, 1.0], [2, 1, 2]) == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('<a title="x>y">z</a>', "z"),
        ('<img alt="a>b"/>그림', "그림"),
        ("a<script>var b=1;</script>c", "ac"),
        ("<style>.x{}</style>가<p>나", "가나"),
        ("<ruby>漢<rt>한<b>자</b></rt></ruby>字", "漢字"),
        ("가<![if x]>나", "가나"),
        ("&region=끝", "region끝"),
        ("가&notit;나", "가notit나"),
        ("&copy가 &copy;나", "©가©나"),
        ("<br><rt>가</br>나</rt>다", "다"),
        ("1 &lt; 2 &amp; A&B", "12ab"),
    ],
)
def test_korquad2_reads_attributes_scripts_and_declarations_as_html(written: str, shown: str) -> None:
    assert normalise_korquad2(written) == shown
