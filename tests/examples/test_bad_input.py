"""Bad input: each case is an error that names it, or a drop that is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from korealbert.artifact import Artifact, Runtime
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DROPPED_SCHEMA, DocumentShard, ShardError, read_batches, read_documents
from korealbert.examples import packing
from korealbert.examples.batches import ExampleBatches
from korealbert.examples.noise import draw
from korealbert.examples.packing import ExamplesSpec, PackJob, batches_of, pack_shards
from korealbert.examples.schema import RowsHeader, View, ViewHeader, open_rows, open_view, write_rows, write_view
from korealbert.examples.word_order import WordOrderSpec
from tests.examples.made import SEQUENCE_LENGTH, made_rows, made_words, noise_settings, noised, random_rows, read
from tests.vocab.korean import sentences


def pack(tmp_path: Path, vocab: Artifact, texts: list[str], **wishes: object) -> tuple[dict[str, object], list[str]]:
    """Pack some texts; returns the statistics, and the drop reasons by title."""
    with DocumentShard(tmp_path, 0) as shard:
        for number, text in enumerate(texts):
            shard.keep(Document(document_id("s", str(number)), "s", text, title=str(number)))
    spec = ExamplesSpec(**{"sequence_length": SEQUENCE_LENGTH, "heldout_share": 0.0, **wishes})  # type: ignore[arg-type]
    stats = pack_shards(PackJob((tmp_path / "documents-00000.arrow",), vocab.path, spec, 0), 0, tmp_path)
    path = tmp_path / "dropped-00000.arrow"
    dropped = [row for b in read_batches(path, DROPPED_SCHEMA) for row in b.to_pylist()] if path.exists() else []
    return stats, [f"{row['title']}: {row['reason']}, {row['rule']}" for row in dropped]


def test_text_without_letters_is_packed_as_the_signs_it_is_or_dropped(tmp_path: Path, vocab: Artifact) -> None:
    stats, dropped = pack(tmp_path, vocab, ["123 456 789\n3.14 × 2 = 6.28 !!! ??? …\n" * 3, "※", "\u200b \u200b"])
    assert stats["documents_out"] == 1
    assert [line.split(",")[0] for line in dropped] == ["1: too_short", "2: no_text"]
    rows = open_rows(tmp_path / "train-00000.arrow")[0]
    noise = noise_settings(word_order=WordOrderSpec(portion=1.0), vocab_size=320)
    batch = noised(draw(rows, made_words(320), noise, 0))
    assert all(len(read(batch, row).masks) >= 1 for row in range(len(rows)))


def test_a_document_of_one_sentence_is_one_segment_without_a_label(tmp_path: Path, vocab: Artifact) -> None:
    stats, dropped = pack(tmp_path, vocab, [sentences(1, seed=3)[0] + " " + sentences(1, seed=4)[0]])
    assert not dropped
    assert stats["single_sentence_rows"] == stats["rows_train"] == 1
    drawn = draw(open_rows(tmp_path / "train-00000.arrow")[0], made_words(320), noise_settings(vocab_size=320), 0)
    assert drawn.view.sop.tolist() == [-1]
    assert drawn.counts()["single_segment"] == 1


def test_a_document_too_long_to_hold_is_dropped_and_counted(tmp_path: Path, vocab: Artifact) -> None:
    line = sentences(1, seed=5)[0] + "\n"
    texts = [line * 3, line * 400, line * 2]
    limit = len(line) * 399
    stats, dropped = pack(tmp_path, vocab, texts, max_characters=limit)
    assert stats["dropped"] == {"too_long": 1}
    assert stats["documents_in"] == 3
    assert stats["documents_out"] == 2
    assert dropped == [f"1: too_long, {len(texts[1])} > {limit} characters"]


def test_long_documents_are_encoded_few_at_a_time() -> None:
    made = [Document(str(n), "s", "가" * size) for n, size in enumerate([10, 900_000, 200_000, 5, 3_000_000, 5])]
    assert [[d.id for d in batch] for batch in batches_of(made)] == [["0", "1", "2"], ["3", "4"], ["5"]]
    assert [len(batch) for batch in batches_of(made[:1] * 600)] == [256, 256, 88]


def test_a_line_of_700_000_characters_becomes_rows(tmp_path: Path, vocab: Artifact) -> None:
    text = " ".join(sentences(25_000, seed=6))
    assert len(text) > 700_000
    stats, dropped = pack(tmp_path, vocab, [text])
    assert not dropped
    assert stats["sentences"] == 1
    assert stats["pieces_in"] == stats["pieces"] + sum(stats["dropped_pieces"].values())  # type: ignore[attr-defined, operator]


def test_ids_above_65535_take_four_bytes_from_rows_to_batches(tmp_path: Path) -> None:
    size = 70_000
    rows = random_rows(40, seed=2)
    wide = type(rows)(**{**rows.__dict__, "ids": np.where(rows.ids > 0, rows.ids.astype(np.uint32) + 69_900, 0)})
    write_rows(tmp_path / "train-00000.arrow", wide, RowsHeader(SEQUENCE_LENGTH, size, "v"))
    stored, header = open_rows(tmp_path / "train-00000.arrow")
    assert stored.ids.dtype == np.uint32
    assert np.array_equal(stored.ids, wide.ids)
    noise = noise_settings(vocab_size=size, word_order=WordOrderSpec(portion=1.0))
    view = draw(stored, made_words(size), noise, 0).view
    (tmp_path / "view-000").mkdir()
    about = ViewHeader(SEQUENCE_LENGTH, size, "v", header.digest, 0, "sop", view.mlm_pos.shape[1], view.wop_pos.shape[1])
    write_view(tmp_path / "view-000" / "train-00000.arrow", view, about)
    assert open_view(tmp_path / "view-000" / "train-00000.arrow")[0].mlm_id.dtype == np.uint32
    batch = ExampleBatches(tmp_path, tmp_path, "train").gather(0, np.arange(40))
    assert batch.input_ids.max() > 65_535
    for row in range(40):
        segments = read(batch, row).segments
        whole = segments[::-1] if read(batch, row).label == 1 else segments
        assert [i for segment in whole for i in segment] == wide.ids[row, : wide.length[row]].tolist()


def test_an_id_that_the_vocabulary_does_not_have_is_refused(tmp_path: Path) -> None:
    rows = made_rows([[[9, 10], [65_000, 11]]])
    with pytest.raises(ValueError, match=r"train-00000\.arrow: holds the piece 65000, the vocabulary ends at 96"):
        write_rows(tmp_path / "train-00000.arrow", rows, RowsHeader(SEQUENCE_LENGTH, 97, "v"))
    assert not (tmp_path / "train-00000.arrow").exists()


def test_more_sources_than_a_shard_can_name_are_refused(
    tmp_path: Path, vocab: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MOST_SOURCES", 1)
    text = "\n".join(sentences(6, seed=8))
    with DocumentShard(tmp_path, 0) as shard:
        for source in ("a", "b", "c"):
            shard.keep(Document(document_id(source, "1"), source, text))
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.0)
    with pytest.raises(ValueError, match="more than 2 sources in one shard, 'c' is the next"):
        pack_shards(PackJob((tmp_path / "documents-00000.arrow",), vocab.path, spec, 0), 0, tmp_path)


@pytest.mark.parametrize("size", [0, 60, -100])
def test_a_truncated_shard_of_documents_is_named(tmp_path: Path, texts: Artifact, vocab: Artifact, size: int) -> None:
    cut = tmp_path / "documents-00000.arrow"
    cut.write_bytes(texts.files("documents-*.arrow")[0].read_bytes()[:size])
    with pytest.raises(ShardError, match=r"documents-00000\.arrow: not a whole Arrow file"):
        pack_shards(PackJob((cut,), vocab.path, ExamplesSpec(), 0), 0, tmp_path)


def test_several_shards_of_documents_become_one_of_rows(
    tmp_path: Path, texts: Artifact, vocab: Artifact, packed: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_SHARDS", 2)
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1)
    out = tmp_path / "out"
    out.mkdir()
    stats = packing.run(spec, {"documents": texts, "vocab": vocab}, out, Runtime(workers=1)).facts()
    assert len(list(out.glob("train-*.arrow"))) == 2
    assert {key: stats[key] for key in ("pieces", "rows_train", "rows_heldout", "documents_out", "length_histogram")} == {
        key: packed.stats[key] for key in ("pieces", "rows_train", "rows_heldout", "documents_out", "length_histogram")
    }
    doc_ids = [open_rows(path)[0].doc_id for path in sorted(out.glob("train-*.arrow"))]
    first = [open_rows(path)[0].doc_id for path in packed.files("train-*.arrow")]
    assert np.array_equal(np.concatenate(doc_ids), np.concatenate(first))
    assert sum(1 for path in texts.files("documents-*.arrow") for _ in read_documents(path)) == stats["documents_in"]


def test_a_view_of_other_types_than_its_header_says_is_refused(tmp_path: Path, viewed: Artifact) -> None:
    path = viewed.files("view-000/train-*.arrow")[0]
    view, header = open_view(path)
    narrow = View(**{name: column[:1] for name, column in view.__dict__.items() if column is not None})
    write_view(tmp_path / "a.arrow", narrow, header)
    content = (tmp_path / "a.arrow").read_bytes().replace(b'"prediction_slots": 9', b'"prediction_slots": 8')
    (tmp_path / "b.arrow").write_bytes(content)
    with pytest.raises(ShardError, match=r"b\.arrow: has columns .* of other types than its header declares"):
        open_view(tmp_path / "b.arrow")
