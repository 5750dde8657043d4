"""The examples stage: rows spell the documents, pieces are conserved, splits share no documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pydantic import ValidationError

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DROPPED_SCHEMA, DocumentShard, read_batches, read_documents
from korealbert.examples.packing import STAGE, ExamplesSpec, PackJob, pack_shards
from korealbert.examples.schema import Rows, id_type, open_rows, pieces_per_row, position_type
from korealbert.examples.table import RowTable
from korealbert.philox import Stream, draw_block, happens
from korealbert.vocab.tokenizer import Vocabulary
from tests.examples.made import SEQUENCE_LENGTH


def documents_of(artifact: Artifact) -> list[Document]:
    return [document for path in artifact.files("documents-*.arrow") for document in read_documents(path)]


def rows_of(artifact: Artifact) -> list[Rows]:
    return [open_rows(path)[0] for path in artifact.files("*-*.arrow") if not path.name.startswith("dropped")]


def one_shard(directory: Path, documents: list[Document]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    with DocumentShard(directory, 0) as shard:
        for document in documents:
            shard.keep(document)
    return directory / "documents-00000.arrow"


def test_rows_spell_their_documents_in_order(texts: Artifact, packed: Artifact, vocabulary: Vocabulary) -> None:
    spelt: dict[int, list[tuple[int, list[int]]]] = {}
    for rows in rows_of(packed):
        for i in range(len(rows)):
            pieces = rows.ids[i, : rows.length[i]].tolist()
            assert not rows.ids[i, rows.length[i] :].any()
            spelt.setdefault(int(rows.doc_id[i]), []).append((int(rows.example_id[i]), pieces))
    for document in documents_of(texts):
        expected = [int(i) for ids in vocabulary.encode(document.text.split("\n")) for i in ids]
        found = [piece for _, pieces in sorted(spelt.get(int(document.id, 16), [])) for piece in pieces]
        assert found == expected[: len(found)]
        assert len(expected) - len(found) < ExamplesSpec().min_pieces, "only a short end is missing"


def test_short_rows_are_drawn_for_whole_documents_on_request(runtime: Runtime, texts: Artifact, vocab: Artifact) -> None:
    """Drawn once per document, as the official code does, fewer documents have short rows than with a draw for each row."""
    with_short_rows = {}
    for scope in ("chunk", "document"):
        spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, short_seq_prob=0.5, short_seq_scope=scope, heldout_share=0)
        artifact = build(STAGE, spec, {"documents": texts, "vocab": vocab}, runtime).artifact
        full: dict[int, list[bool]] = {}
        for rows in rows_of(artifact):
            for document, length in zip(rows.doc_id.tolist(), rows.length.tolist(), strict=True):
                full.setdefault(document, []).append(length > 0.85 * pieces_per_row(SEQUENCE_LENGTH))
        long = [flags[:-1] for flags in full.values() if len(flags) > 2]  # The last row is what is left.
        with_short_rows[scope] = sum(not all(flags) for flags in long) / len(long)
    assert with_short_rows["document"] < with_short_rows["chunk"] - 0.1


def test_pieces_and_documents_are_conserved(texts: Artifact, packed: Artifact) -> None:
    stats = packed.stats
    lengths = np.concatenate([rows.length for rows in rows_of(packed)])
    assert stats["pieces_in"] == stats["pieces"] + sum(stats["dropped_pieces"].values())
    assert stats["pieces"] == lengths.sum()
    assert stats["rows_train"] + stats["rows_heldout"] == len(lengths) == sum(stats["length_histogram"].values())
    assert stats["documents_in"] == texts.stats["documents_out"] == stats["documents_out"] + sum(stats["dropped"].values())
    assert stats["fill"] == pytest.approx(lengths.mean() / pieces_per_row(SEQUENCE_LENGTH), abs=1e-4)
    assert stats["single_sentence_rows"] == sum(int((np.diff(rows.sentence_offsets) == 1).sum()) for rows in rows_of(packed))


def test_sentence_lengths_are_those_of_the_text(packed: Artifact, vocabulary: Vocabulary) -> None:
    words = vocabulary.words()
    for rows in rows_of(packed):
        for i in range(len(rows)):
            lengths = rows.sentence_lengths[rows.sentence_offsets[i] : rows.sentence_offsets[i + 1]]
            assert lengths.sum() == rows.length[i]
            begins = np.cumsum([0, *lengths[:-1].tolist()])
            assert words.spaced[rows.ids[i, begins]].all(), "sentences, and what is left of them, begin after a space"


def test_held_out_documents_are_not_trained_on(packed: Artifact) -> None:
    train, heldout = (RowTable(packed.path, split) for split in ("train", "heldout"))
    seen, held = (set(np.concatenate([rows.doc_id for rows in table.shards]).tolist()) for table in (train, heldout))
    assert len(held) == pytest.approx(0.1 * (len(seen) + len(held)), abs=10)
    assert not seen & held
    ids = np.concatenate([rows.example_id for rows in (*train.shards, *heldout.shards)])
    assert len(np.unique(ids)) == len(ids), "example ids are unique over both splits"


def test_the_cap_on_held_out_rows_gives_the_rest_to_training(
    runtime: Runtime, texts: Artifact, vocab: Artifact, packed: Artifact
) -> None:
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.5, heldout_max_rows=30)
    stats = build(STAGE, spec, {"documents": texts, "vocab": vocab}, runtime).artifact.stats
    assert 15 < stats["rows_heldout"] <= 30
    assert stats["pieces"] == packed.stats["pieces"]


def split_documents(artifact: Artifact, split: Literal["train", "heldout"]) -> set[int]:
    return set(np.concatenate([rows.doc_id for rows in RowTable(artifact.path, split).shards]).tolist())


def test_no_number_of_shards_and_no_further_text_moves_a_held_out_document_into_training(
    runtime: Runtime, texts: Artifact, vocab: Artifact
) -> None:
    def write(spec: Spec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, object]:
        one_shard(out_dir, documents_of(texts)[:60])
        return {}

    half = build(Stage("half", 1, Spec, write), Spec(), {}, runtime).artifact  # One shard; the whole has three.
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.2, heldout_max_rows=12, heldout_rest="unused")
    one, all_of_it = (build(STAGE, spec, {"documents": each, "vocab": vocab}, runtime).artifact for each in (half, texts))
    assert not split_documents(one, "heldout") & split_documents(all_of_it, "train")
    kept = {int(document.id, 16) for document in documents_of(half)}
    assert split_documents(one, "train") == split_documents(all_of_it, "train") & kept
    stats = all_of_it.stats
    assert stats["rows_unused"] > stats["dropped"]["heldout_unused"] > 0
    assert stats["rows_heldout"] <= 12
    assert stats["pieces_in"] == stats["pieces"] + sum(stats["dropped_pieces"].values())


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("unused", "heldout_max_rows = 1 allows at most 1 in each of 1 shards, and every held-out document has"),
        ("train", r"more than its shard's part of heldout_max_rows = 1, at most 1; raise"),
    ],
)
def test_held_out_documents_that_all_have_too_many_rows_are_an_error(
    runtime: Runtime, texts: Artifact, vocab: Artifact, rest: str, message: str
) -> None:
    def write(spec: Spec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, object]:
        one_shard(out_dir, [replace(document, text="\n".join([document.text] * 9)) for document in documents_of(texts)])
        return {}

    long = build(Stage("long", 1, Spec, write), Spec(), {}, runtime).artifact
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.2, heldout_max_rows=1, heldout_rest=rest)
    with pytest.raises(ValueError, match=message):
        build(STAGE, spec, {"documents": long, "vocab": vocab}, runtime)


def test_one_and_two_workers_give_the_same_bytes(tmp_path: Path, texts: Artifact, vocab: Artifact, packed: Artifact) -> None:
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1)
    again = build(STAGE, spec, {"documents": texts, "vocab": vocab}, Runtime(store=tmp_path, workers=2)).artifact
    assert again.output_digest == packed.output_digest


def test_documents_without_enough_text_are_dropped_with_a_reason(tmp_path: Path, vocab: Artifact) -> None:
    long = " ".join(["징검다리를 건너 강가에서 편지를 기다렸다."] * 4)
    texts = {
        "empty": " \n\n ",
        "controls": "\x07\x08\n\u200b",
        "short": "밥.",
        "signs": "!? … ※ 123 " * 4,
        "long": f"{long}\n{long}",
    }
    path = one_shard(
        tmp_path / "docs", [Document(document_id("s", name), "s", text, title=name) for name, text in texts.items()]
    )
    (tmp_path / "out").mkdir()
    job = PackJob((path,), vocab.path, ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.0), 10)
    stats = pack_shards(job, 0, tmp_path / "out")
    assert stats["dropped"] == {"no_text": 2, "too_short": 1}
    assert stats["documents_in"] == 5
    assert stats["documents_out"] == 2
    dropped = [row for b in read_batches(tmp_path / "out" / "dropped-00000.arrow", DROPPED_SCHEMA) for row in b.to_pylist()]
    assert {(row["title"], row["reason"]) for row in dropped} == {
        ("empty", "no_text"),
        ("controls", "no_text"),
        ("short", "too_short"),
    }


def test_sources_are_named_in_each_shard(packed: Artifact) -> None:
    headers = RowTable(packed.path, "train").headers
    assert [header.sources for header in headers] == [["stories"], ["letters"], ["stories"]]


def test_a_corpus_too_small_for_a_held_out_share_is_told_so(tmp_path: Path, vocab: Artifact) -> None:
    text = "\n".join(["도서관에서 지도를 살피다가 별자리를 헤아리기 시작했다."] * 5)

    def write(spec: Spec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, object]:
        one_shard(out_dir, [Document(document_id("s", "1"), "s", text)])
        return {}

    runtime = Runtime(store=tmp_path, workers=1)
    one = build(Stage("one", 1, Spec, write), Spec(), {}, runtime).artifact
    with pytest.raises(ValueError, match=r"of 1 documents none fell into heldout_share = 0\.01, or .*; raise heldout_share or"):
        build(STAGE, ExamplesSpec(sequence_length=SEQUENCE_LENGTH), {"documents": one, "vocab": vocab}, runtime)
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.0)
    assert build(STAGE, spec, {"documents": one, "vocab": vocab}, runtime).artifact.stats["rows_heldout"] == 0


def ready_documents(runtime: Runtime, shards: list[list[Document]], statistics: dict[str, object] | None = None) -> Artifact:
    def write(spec: Spec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, object]:
        for index, documents in enumerate(shards):
            with DocumentShard(out_dir, index) as shard:
                for document in documents:
                    shard.keep(document)
        return statistics or {}

    return build(Stage("ready", 1, Spec, write), Spec(), {}, runtime).artifact


ROW = "도서관에서 지도를 살피다가 별자리를 헤아리기 시작했다."


def test_held_out_rows_are_never_more_than_their_maximum(tmp_path: Path, vocab: Artifact) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    shards = [[Document(document_id("s", f"{shard}/{i}"), "s", ROW) for i in range(9)] for shard in range(3)]
    inputs = {"documents": ready_documents(runtime, shards), "vocab": vocab}
    for most in (4, 1):
        spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.9, heldout_max_rows=most)
        assert build(STAGE, spec, inputs, runtime).artifact.stats["rows_heldout"] == most


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_one_of_few_documents_that_give_rows_is_held_out(tmp_path: Path, vocab: Artifact, share: float) -> None:
    """The two documents that are drawn first give no row: the third one is held out."""
    runtime = Runtime(store=tmp_path, workers=1)
    ids = [document_id("s", str(number)) for number in range(9)]
    draws = draw_block(0, Stream.HELDOUT, [int(one, 16) for one in ids])[0]
    assert sum(happens(draws, 0.2)) == 2
    texts = dict(zip([ids[place] for place in np.argsort(draws)], ["밥.", ROW * 99, *[ROW] * 7], strict=True))
    documents = [Document(one, "s", texts[one]) for one in ids]
    inputs = {"documents": ready_documents(runtime, [documents[:5], documents[5:]], {"documents_out": 9}), "vocab": vocab}
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=share, max_characters=999)
    built = build(STAGE, spec, inputs, runtime).artifact
    assert built.stats["dropped"] == {"too_long": 1, "too_short": 1}
    assert split_documents(built, "heldout") == {int(ids[np.argsort(draws)[2]], 16)}


def test_truncating_drops_the_overhang_of_sentences(
    runtime: Runtime, texts: Artifact, vocab: Artifact, packed: Artifact
) -> None:
    spec = ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1, overflow="truncate")
    stats = build(STAGE, spec, {"documents": texts, "vocab": vocab}, runtime).artifact.stats
    assert stats["dropped_pieces"]["truncated"] > 0.03 * stats["pieces_in"]
    assert packed.stats["dropped_pieces"]["truncated"] == 0
    assert stats["pieces_in"] == packed.stats["pieces_in"] == stats["pieces"] + sum(stats["dropped_pieces"].values())


def test_impossible_specs_are_refused() -> None:
    with pytest.raises(ValidationError, match="min_pieces = 20 leaves nothing of sequence_length = 16"):
        ExamplesSpec(sequence_length=16, min_pieces=20)
    with pytest.raises(ValidationError, match="sequence_length"):
        ExamplesSpec(sequence_length=8)


def test_ids_and_positions_are_as_wide_as_they_must_be() -> None:
    assert [str(id_type(size)) for size in (32_000, 65_535, 65_536)] == ["uint16", "uint16", "uint32"]
    assert [str(position_type(length)) for length in (128, 256, 257)] == ["uint8", "uint8", "uint16"]


def test_rows_are_taken_in_the_order_asked_for(packed: Artifact) -> None:
    table = RowTable(packed.path, "train")
    numbers = np.random.default_rng(3).integers(0, len(table), 40)
    taken = table.take(numbers)
    for place, number in enumerate(numbers):
        shard = int(np.searchsorted(table.numbers.offsets, number, side="right")) - 1
        single = table.shards[shard].slice(number - table.numbers.offsets[shard], number - table.numbers.offsets[shard] + 1)
        mine = taken.slice(place, place + 1)
        for column in ("example_id", "doc_id", "source", "ids", "length", "sentence_lengths", "sentence_offsets"):
            assert np.array_equal(getattr(single, column), getattr(mine, column)), column
    with pytest.raises(IndexError, match="of a table of"):
        table.take(np.array([len(table)]))
    assert len(table.take(numbers[:0])) == 0
