"""Samples of a corpus come of all its sources."""

from __future__ import annotations

from korealbert.report.sections.texts import spread
from tests.corpus.documents_made import document


def test_samples_are_of_all_sources_and_from_all_over_each() -> None:
    documents = [
        document(f"{name}{number}", "글", name) for name, size in (("a", 800), ("b", 1), ("c", 110)) for number in range(size)
    ]
    chosen = [one.id for one in spread(documents, 6)]
    assert chosen == [documents[place].id for place in (0, 266, 533, 800, 801, 856)]
    assert spread(documents, 0) == spread([], 6) == []
    assert len(spread(documents[799:801], 6)) == 2
