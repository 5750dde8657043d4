from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import InputPath
from korealbert.corpus.clean import news, sentences, stage
from korealbert.corpus.clean.limits import Limits
from korealbert.corpus.clean.stage import STAGE, CleanedDocument, CleanSpec, Rules, clean_document, read_removals
from korealbert.documents.schema import Document
from tests.corpus.documents_made import GOLDEN, RULES, bytes_of, document, dropped, json_lines, kept, prose, ran, stored

NEWS = CleanSpec(
    news_rules=InputPath(RULES / "news.toml"),
    title_rules=InputPath(RULES / "titles.toml"),
    category_map=InputPath(RULES / "categories.toml"),
    sentences="none",
)
EXPECTED = {case["id"]: case for case in json_lines(GOLDEN / "expected.jsonl")}


def cleaned(one: Document, spec: CleanSpec) -> CleanedDocument:
    return clean_document(one, spec, Rules.of(spec))


def article(record: dict[str, Any]) -> Document:
    return document(
        record["id"], record["text"], title=record["title"], outlet=record["outlet"], category=record.get("section") or ""
    )


@pytest.fixture(scope="module")
def sample(sample_dir: Path) -> list[Document]:
    return [article(record) for record in json_lines(sample_dir / "news.jsonl")]


def test_the_sample_articles_come_out_as_a_person_would_clean_them(sample: list[Document]) -> None:
    """And cleaning them again changes nothing."""
    rules = Rules.of(NEWS)
    for one, case in zip(sample, EXPECTED.values(), strict=True):
        outcome = clean_document(one, NEWS, rules)
        assert (outcome.drop and outcome.drop.reason) == case.get("drop"), case["id"]
        if "text" in case:
            assert outcome.document.text == case["text"], case["id"]
            assert clean_document(outcome.document, NEWS, rules).document.text == case["text"], case["id"]


def test_the_stage_writes_documents_drops_and_removals(
    sample: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences, "_split_line_kiwi", sentences.split_line)  # Kiwi takes seconds to load
    spec = NEWS.model_copy(update={"sentences": "rules", "agreement_documents": 2})
    stats = ran(STAGE, spec, {"documents": stored(tmp_path / "in", sample, per_shard=20)}, tmp_path / "out")
    assert (stats["sentence_agreement"]["documents"], stats["sentence_agreement"]["f1"]) == (2, 1.0)
    notice = next(one for one in sample if one.title.startswith("[인사]"))
    assert dropped(tmp_path / "out")[notice.id] == ("title_rule", "notice")
    reasons = {case["drop"] for case in EXPECTED.values() if "drop" in case}
    assert set(stats["dropped"]) == reasons
    assert stats["documents_out"] == len(kept(tmp_path / "out")) == sum("text" in case for case in EXPECTED.values())
    assert stats["sections"]["mapped"] >= 30
    assert stats["unmapped_sections"] == {"기획연재": 1}
    assert stats["sentences_out"] > 5 * stats["documents_out"]
    spans = [
        span
        for path in sorted((tmp_path / "out").glob("removals-*.arrow"))
        for document_spans in read_removals(path).values()
        for span in document_spans
    ]
    assert Counter(span.rule for span in spans) == stats["removed"]
    assert sum(len(span.text) for span in spans) == stats["removed_characters"]
    assert read_removals(tmp_path / "out" / "removals-00099.arrow") == {}


def test_an_input_without_documents_gives_an_empty_output(tmp_path: Path) -> None:
    stats = ran(STAGE, NEWS, {"documents": stored(tmp_path / "in", [])}, tmp_path / "out")
    assert stats["documents_in"] == stats["documents_out"] == 0
    assert bytes_of(tmp_path / "out") == {}


def test_a_source_without_news_rules_keeps_its_by_lines_and_sections() -> None:
    text = f"{prose(3, 6)}\n홍길동 기자"
    outcome = cleaned(document(1, text, source="kowiki", category="국회"), CleanSpec(sentences="none"))
    assert outcome.document.text == text
    assert outcome.document.category == "국회"


def test_reviews_may_have_their_own_limits() -> None:
    review = document(1, "재밌다ㅋㅋ 또 봐야지...", source="nsmc")
    assert cleaned(review, CleanSpec()).drop is not None
    short = CleanSpec(limits=Limits(min_characters=5, max_symbols_per_word=10, max_ellipsis_lines=1))
    assert cleaned(review, short).document.text == "재밌다ㅋㅋ\n또 봐야지..."


def test_mostly_meta_text_is_dropped_with_its_share() -> None:
    text = f"{prose(5, 1)}\n" + "\n".join(f"▶ 오늘의 추천 뉴스 {number}" for number in range(12))
    outcome = cleaned(document(1, text), NEWS)
    assert outcome.drop is not None
    assert outcome.drop.reason == "removed_share"
    assert float(outcome.drop.rule.split()[0]) > 0.4


def test_a_text_with_too_many_removals_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (news, stage):
        monkeypatch.setattr(module, "MAX_REMOVALS", 20)
    text = f"{prose(7, 20)}\n" + "\n".join(f"홍길동 기자 {'가나다라마바사아'[number % 8]}" for number in range(8))
    assert cleaned(document(1, text), NEWS).drop is None
    endless = f"{prose(7, 30)}\n" + "홍길동 기자\n" * 25
    outcome = cleaned(document(1, endless), NEWS)
    assert outcome.drop is not None and outcome.drop.reason == "removed_spans"
