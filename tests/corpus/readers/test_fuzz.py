"""Damaged files of every format are read or quarantined; extraction never raises."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.extract import PARSERS, ExtractSpec, frame
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import Dropped, Tally
from korealbert.documents.schema import Document, Quarantined
from korealbert.documents.streams import RawFile, ReadLimits

SAMPLE = Path(__file__).parents[3] / "data_specs" / "sample"
DOCS = "".join(
    f'<doc id="{n}" url="u" title="강 {n}">\n강 {n}\n\n강(, 1924년 ~)은 {{{{길}}}}다.\n</doc>\n' for n in range(20)
).encode()
FILES = {
    "mediawiki": (SAMPLE / "mediawiki.xml").read_bytes()[:12_000],
    "namuwiki": (SAMPLE / "namuwiki.json").read_bytes()[:12_000],
    "news": (SAMPLE / "news.jsonl").read_bytes()[:8_000],
    "books": (SAMPLE / "books.csv").read_bytes()[:8_000],
    "wikiextractor": DOCS,
    "text": b"---\ntitle: a\n---\n" + (SAMPLE / "README.md").read_bytes()[:4_000],
    "news_text": "제목\t봄이 온다.".encode(),
}
DAMAGE = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 30),
        st.sampled_from([b"", b"\0", b"\xff", b'"', b"<", b"[", b"{", b"\n", b"</page>", b"\\"]),
    ),
    max_size=6,
)


@settings(max_examples=25)
@pytest.mark.parametrize("kind", sorted(FILES))
@given(DAMAGE, st.sampled_from(["utf-8", "cp949", "auto"]), st.sampled_from(["record", "file"]))
def test_damage_is_sorted_out(kind: str, damage: list[tuple[float, int, bytes]], encoding: str, document: str) -> None:
    data = FILES[kind]
    for place, length, instead in damage:
        at = int(place * len(data))
        data = data[:at] + instead + data[at + length :]
    if kind not in ("news", "text"):
        document = "record"
    spec = ExtractSpec.model_validate(
        {
            "source": "a",
            "format": kind,
            "paths": ["a"],
            "encoding": encoding,
            "document": document,
            "limits": {"max_record_bytes": 20_000},
        }
    )
    tally = Tally()
    outcomes = 0
    for batch in frame(spec, RawFile("a", io.BytesIO(data), ReadLimits())):
        if isinstance(batch, RawRecords):
            for outcome in PARSERS[spec.format, spec.document](spec, batch, tally):
                assert isinstance(outcome, Document | Dropped | Quarantined)
                text = outcome.text if isinstance(outcome, Document) else str(outcome)
                text.encode("utf-8")  # no lone surrogates, which shards cannot hold
                outcomes += 1
        else:
            outcomes += 1
    assert outcomes > 0
