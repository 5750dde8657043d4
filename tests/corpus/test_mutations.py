"""A few hundred damaged documents for each parser of ``bench.mutations``, which tries ten thousand; and hostile wikitext."""

from __future__ import annotations

import gc
import time

import pytest

from bench.mutations import ROOT, SUBJECTS, documents, fault, mutations
from korealbert.corpus.markup.wikitext import extract_wikitext
from korealbert.corpus.readers.spec import WikiOptions
from tests.work import linear_work

DOCS = [
    f'<doc id="{n}" url="u" title="강 {n}">\n강 {n}\n\n강(, 1924년 ~)은 [[길]]다. {"물이 흐른다. " * n}\n생애.\n</doc>'
    for n in range(9)
]
UNITS = (
    *("{{", "[[", "{|", "\n{|", "'", "<ref>", "<!--", "{{{", "<nowiki>", "<ref name=a", "[[파일:가|"),
    *("{{lang|en|", "{{틀|", "|", "\n|", "="),
    *("\n==", "\n== 절 ==", ":,", ":)", "(", "( ", "(:", "((,", ",", " ,", "&", "&lt;", "&amp;lt;", "-{"),
    *("__", "http://", "[http://a ", "~", "\n*", "\n\n"),
    *("<s>", "<math>", "<pre>", "}}", "]]", "|}", "\n|}", "{{}}", "[[]]", "{{a|{{", "[[a|[[", "{|\n{{"),
    *("{{{{{", "<ref>{{", "<!", "<ref><!--"),
    *("[[a\n", "{{a\n|b=", "<br/>", "(가:", ", 가어:", "\0", "{{lang|en|[[", "}}{{", "]][[", "''[["),
    *("{{\n=a=\n", "<table>", "<gallery>\n"),
)


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_damaged_documents(name: str) -> None:
    subject = SUBJECTS[name]
    sources = documents(subject, sorted(path for pattern in subject.sample for path in ROOT.glob(pattern)), "*") or DOCS
    assert [wrong for source in mutations(sources, subject.marks, count=200, seed=7) if (wrong := fault(subject, source))] == []


def seconds(source: str) -> float:
    """Processor time, without collections of the garbage that other tests have left."""
    gc.disable()
    try:
        begun = time.thread_time()
        extract_wikitext(source, WikiOptions())
        return time.thread_time() - begun
    finally:
        gc.enable()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("around", ["{}", "강 {}이다."])
def test_hostile_markup_takes_linear_time(unit: str, around: str) -> None:
    units = 5_000 // len(around.format(unit))
    eight_times = seconds(around.format(unit) * units * 8)
    # Quadratic work would take 64 times as long.
    assert eight_times < 0.2 or eight_times < 30 * seconds(around.format(unit) * units) + 0.2


def test_one_line_of_a_hundred_thousand_characters_around() -> None:
    for unit in UNITS:
        with linear_work():
            extract_wikitext("강" * 100_000 + unit * 20 + "강" * 100_000, WikiOptions())
