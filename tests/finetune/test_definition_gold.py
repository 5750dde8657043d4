"""Gold of TOML benchmarks is refused if it would lose text or be compared with a wrong answer."""

from __future__ import annotations

import json
from typing import Any
from unicodedata import normalize

import pytest

from tests.finetune.toml_benchmarks import Bench, kind

PLACE = 'labels = ["LOC"]'
SPANS = 'text = "c"\npair = "q"\nanswer = "a"'


def test_blanks_beyond_ascii_are_text_of_a_unit(bench: Bench) -> None:
    nbsp, wide = "\u00a0", "\u3000"
    toml = kind("tagging", "conll", "", PLACE)
    (found,) = bench.read(toml, f"3{nbsp}km O\n서울{wide}시  B-LOC\n")
    assert found.units == [f"3{nbsp}km", f"서울{wide}시"] and found.target == ("O", "B-LOC")  # type: ignore[attr-defined]
    letters = kind("tagging", "conll", "", f'{PLACE}\nunit = "characters"')
    (found,) = bench.read(letters, f"서 B-LOC\n{wide} I-LOC\n시 I-LOC\n")
    assert (found.text, found.target) == (f"서{wide}시", ("B-LOC", "I-LOC", "I-LOC"))
    with pytest.raises(ValueError, match=r"line 2, field 'column 1': the line has 1 columns, the first one 2"):
        bench.read(letters, f"서 B-LOC\n{wide}\n시 I-LOC\n")
    with pytest.raises(ValueError, match=r"line 3, field 'column 2': the line has 3 columns, the first one 2; .*put tabs"):
        bench.read(toml, "나 O\n\n서울 시 B-LOC\n")


def test_comments_of_conll_u_are_no_tokens_and_a_number_sign_is_one(bench: Bench) -> None:
    toml = kind("tagging", "conll", "", PLACE)
    (found,) = bench.read(toml, "# text = 서울 #\n서울\tB-LOC\n#\tO\n")
    assert found.units == ["서울", "#"]  # type: ignore[attr-defined]
    (found,) = bench.read(toml, "# O\n서울 B-LOC\n")
    assert found.units == ["#", "서울"]  # type: ignore[attr-defined]


def test_tags_and_columns_in_another_unicode_normalisation_are_reported(bench: Bench) -> None:
    person, review = (normalize("NFD", name) for name in ("사람", "평"))
    with pytest.raises(ValueError, match=r"found 'B-.*', which is known only in another Unicode normalisation"):
        bench.read(kind("tagging", "conll", "", 'labels = ["사람"]'), f"나\tB-{person}\n")
    columns = 'text = "평"\nlabel = "l"'
    with pytest.raises(ValueError, match="no such column, which is known only in another Unicode normalisation"):
        bench.read(kind("classification", "tsv", columns, 'labels = ["a", "b"]'), f"{review}\tl\n글\ta\n")
    with pytest.raises(ValueError, match="missing, which is known only in another Unicode normalisation"):
        bench.read(kind("classification", "jsonl", columns, 'labels = ["a", "b"]'), json.dumps({review: "글", "l": "a"}))


def asked(*answers: dict[str, Any]) -> str:
    """A question of SQuAD's form about 서울은 서울이다."""
    qas = [{"id": "1", "question": "?", "answers": list(answers)}]
    return json.dumps({"data": [{"paragraphs": [{"context": "서울은 서울이다", "qas": qas}]}]})


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            [{"text": "서울", "answer_start": 4}, {"text": "서울", "answer_start": 1}],
            r"answers\[1\].answer_start': the context .* at 1",
        ),
        ([{"text": "부산"}], r"answers\[0\].text': '부산' is in the context 0 times; an answer is a part"),
        ([{"text": "서울"}], r"answers\[0\].text': '서울' is in the context 2 times; say where"),
        ([{"text": "서울", "answer_start": 4}, {"text": "부산"}], r"answers\[1\].text': '부산' is in the context 0 times"),
        ([{"text": " ", "answer_start": 3}], r"answers\[0\].text': found ' ', which has no character that can be seen"),
    ],
)
def test_no_answer_of_squads_form_is_outside_its_context(bench: Bench, answers: list[dict[str, Any]], message: str) -> None:
    toml = kind("spans", "squad", "")
    with pytest.raises(ValueError, match=message):
        bench.read(toml, asked(*answers))
    (found,) = bench.read(toml, asked({"text": "은"}, {"text": "서울"}, {"text": "서울", "answer_start": 4}))
    assert [(answer.text, answer.begin) for answer in found.target] == [("은", 2), ("서울", 0), ("서울", 4)]


def test_places_of_an_answer_may_overlap(bench: Bench) -> None:
    with pytest.raises(ValueError, match="field 'a': '하하' is in the context 2 times; say where it begins"):
        bench.read(kind("spans", "jsonl", SPANS), json.dumps({"c": "그는 하하하 웃었다", "q": "?", "a": "하하"}))


def test_a_blank_answer_of_a_table_is_refused(bench: Bench) -> None:
    for more in ("", "answerable = false"):
        with pytest.raises(ValueError, match=r"field 'a': found '  ', which has no character that can be seen"):
            bench.read(kind("spans", "jsonl", SPANS, more), json.dumps({"c": "서울  은", "q": "?", "a": "  "}))
