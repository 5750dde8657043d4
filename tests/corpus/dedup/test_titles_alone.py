"""Texts that differ in their headline alone are copies, unless the headline numbers or names another subject."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.corpus.dedup.stage import STAGE, DedupSpec
from korealbert.documents.schema import Document
from tests.corpus.documents_made import document, kept, prose, ran, stored

BODY = prose(3, 25)
REWORDED = [("나루에 새 다리", "강 건너는 길 열렸다"), ("[단독] 새 다리", "새 다리(종합)"), ("", "새 다리")]
OTHERS = [("매리너 6호", "매리너 7호"), ("남자 100m 결승", "여자 100m 결승"), ("제3회 나루 잔치", "제4회 나루 잔치")]


def stay(tmp_path: Path, *documents: Document) -> int:
    ran(STAGE, DedupSpec(), {"documents": stored(tmp_path / "in", list(documents), 9)}, tmp_path / "out")
    return len(list(kept(tmp_path / "out")))


@pytest.mark.parametrize(("one", "other"), REWORDED)
@pytest.mark.parametrize("end", ["", " 끝났다."])
def test_another_headline_makes_no_other_text(one: str, other: str, end: str, tmp_path: Path) -> None:
    titled = document(1, BODY, title=one), document(2, BODY + end, title=other)
    assert stay(tmp_path / "field", *titled) == 1
    lines = document(1, f"{one}\n{BODY}"), document(2, f"{other}\n{BODY}{end}")
    assert stay(tmp_path / "line", *lines) == 1


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_near_copies_whose_headlines_number_their_subjects_stay(one: str, other: str, tmp_path: Path) -> None:
    titled = document(1, BODY, title=one), document(2, BODY + " 끝났다.", title=other)
    assert stay(tmp_path / "field", *titled) == 2
    lines = document(1, f"{one}\n{BODY}"), document(2, f"{other}\n{BODY}")
    assert stay(tmp_path / "line", *lines) == 2


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_of_equal_texts_one_stays_whatever_their_titles(one: str, other: str, tmp_path: Path) -> None:
    """The title is no part of what is trained on."""
    assert stay(tmp_path, document(1, BODY, title=one), document(2, BODY, title=other)) == 1
