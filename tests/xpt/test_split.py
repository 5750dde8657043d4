"""Three parts of a corpus: disjoint, of the requested sizes, nested, and the same for any number of workers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, Stats, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard, read_documents
from korealbert.xpt.split import MEASURED, STAGE, START, WHOLE, Border, SplitSpec, find_border, sentences_after

NAMES = ("산", "강", "바다", "들판", "마을", "학교", "시장", "절", "섬", "호수")
VERBS = ("넓다.", "조용하다.", "오래되었다.", "북쪽에 있다.", "사람이 많다.")


class TextSpec(Spec):
    documents: int


def write_documents(spec: TextSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    lot = random.Random(3)  # noqa: S311
    numbers = iter(range(spec.documents))
    for index in range(3):
        with DocumentShard(out_dir, index) as shard:
            for _ in range(spec.documents // 3):
                number = next(numbers)
                lines = [f"{lot.choice(NAMES)} {lot.randint(1, 400)}번은 {lot.choice(VERBS)}" for _ in range(lot.randint(1, 9))]
                lines.insert(lot.randint(0, len(lines)), "같이 보기")  # A line that many documents have.
                text = "\n".join(lines[:4]) + ("\n\n" + "\n".join(lines[4:]) if lines[4:] else "")
                shard.keep(Document(document_id("made-up", str(number)), "made-up", text))
    return {}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def documents(store: Path) -> Artifact:
    return build(Stage("documents", 1, TextSpec, write_documents), TextSpec(documents=120), {}, Runtime(store=store)).artifact


def part(documents: Artifact, store: Path, name: str, *, workers: int = 1, **fields: Any) -> Artifact:
    sizes = {"test_sentences": 60, "valid_sentences": 70}
    spec = SplitSpec.model_validate({"part": name, **sizes, **fields})
    return build(STAGE, spec, {"documents": documents}, Runtime(store=store, workers=workers)).artifact


def texts(artifact: Artifact) -> dict[str, list[str]]:
    found = (document for path in artifact.files("documents-*.arrow") for document in read_documents(path))
    return {document.id: [line for line in document.text.split("\n") if line] for document in found}


def sentences(artifact: Artifact) -> set[str]:
    return {line for lines in texts(artifact).values() for line in lines}


@pytest.mark.parametrize("level", ["document", "sentence"])
def test_parts_are_disjoint_and_of_their_sizes(documents: Artifact, store: Path, level: str) -> None:
    parts = {name: part(documents, store, name, level=level) for name in ("train", "valid", "test")}
    kept = {name: sentences(artifact) for name, artifact in parts.items()}
    assert not kept["train"] & kept["valid"]
    assert not kept["train"] & kept["test"]
    assert not kept["valid"] & kept["test"]
    whole = texts(documents)
    for artifact in parts.values():
        for name, lines in texts(artifact).items():
            remaining = iter(whole[name])
            assert all(line in remaining for line in lines), "a part holds a document's lines in their order"
        assert sum(map(len, texts(artifact).values())) == artifact.stats["sentences_out"]
    if level == "document":
        documents_of = {name: set(texts(artifact)) for name, artifact in parts.items()}
        assert not documents_of["train"] & (documents_of["valid"] | documents_of["test"])
        assert parts["test"].stats["sentences_out"] == 60
        assert 40 < parts["valid"].stats["sentences_out"] <= 70
    else:
        # Copies of a sentence fall together, so a part is at most as large as asked for.
        assert parts["test"].stats["sentences_out"] <= 60
        assert kept["train"] | kept["valid"] | kept["test"] == {line for lines in whole.values() for line in lines}


class CopiesSpec(Spec):
    seed: int


def write_copies(spec: CopiesSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Write documents of one to nine sentences, of which only 61 differ."""
    lot = random.Random(spec.seed)  # noqa: S311
    with DocumentShard(out_dir, 0) as shard:
        for number in range(80):
            lines = [f"{lot.randint(0, 60)}번 집." for _ in range(lot.choice([1, 1, 2, 3, 6, 9]))]
            shard.keep(Document(document_id("copies", str(number)), "copies", "\n".join(lines)))
    return {}


@pytest.mark.parametrize("seed", [4, 9])
def test_copies_at_a_border_that_cuts_a_document_stay_in_one_part(tmp_path: Path, seed: int) -> None:
    copies = build(Stage("copies", 1, CopiesSpec, write_copies), CopiesSpec(seed=seed), {}, Runtime(store=tmp_path)).artifact
    sizes = {"test_sentences": 13, "valid_sentences": 17}
    train, valid, test = (sentences(part(copies, tmp_path, name, **sizes)) for name in ("train", "valid", "test"))
    assert not train & valid
    assert not (train | valid) & test


@pytest.mark.parametrize("level", ["document", "sentence"])
def test_a_smaller_train_part_lies_within_a_larger_one(documents: Artifact, store: Path, level: str) -> None:
    small, large = (part(documents, store, "train", level=level, train_sentences=n) for n in (50, 200))
    inside = texts(large)
    for name, lines in texts(small).items():
        remaining = iter(inside[name])
        assert all(line in remaining for line in lines)
    if level == "document":
        assert (small.stats["sentences_out"], large.stats["sentences_out"]) == (50, 200)
    assert small.stats["sentences_out"] <= 50 < large.stats["sentences_out"] <= 200


def test_paragraphs_stay_apart(documents: Artifact, store: Path) -> None:
    train = part(documents, store, "train")
    whole = {d.id: d.text for path in documents.files("documents-*.arrow") for d in read_documents(path)}
    for path in train.files("documents-*.arrow"):
        for document in read_documents(path):
            assert document.text.count("\n\n") <= whole[document.id].count("\n\n")
            assert "\n\n\n" not in document.text
            assert document.text == document.text.strip("\n")


def test_workers_and_seed(documents: Artifact, store: Path, tmp_path: Path) -> None:
    one = part(documents, store, "train", train_sentences=100)
    two = part(documents, tmp_path, "train", train_sentences=100, workers=2)
    assert one.output_digest == two.output_digest
    assert sentences(part(documents, store, "test", seed=1)) != sentences(part(documents, store, "test"))


def test_a_corpus_that_is_too_small_is_refused_with_its_numbers(documents: Artifact, store: Path) -> None:
    with pytest.raises(ValueError, match="leave none to train on"):
        part(documents, store, "test", test_sentences=100_000)
    with pytest.raises(ValueError, match="sentences are left to train on, but train_sentences = 100,000"):
        part(documents, store, "train", train_sentences=100_000)
    with pytest.raises(ValueError, match="remove it"):
        SplitSpec(part="valid", train_sentences=3)


def test_documents_of_one_id_are_not_cut(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([(3, 2), (5, 4), (5, 0)], dtype=MEASURED))
    np.save(tmp_path / "b.npy", np.array([(9, 9)], dtype=MEASURED))
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    assert find_border(files, after=START, sentences=3, divisible=True) == Border(5, 1)
    np.save(tmp_path / "b.npy", np.array([(5, 4), (9, 9)], dtype=MEASURED))
    assert find_border(files, after=START, sentences=3, divisible=True) == Border(4, WHOLE), "each would give its first line"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 5)), min_size=1, max_size=60, unique_by=lambda row: row[0]
    ),
    share=st.floats(0, 0.999),
    near=st.booleans(),
)
def test_a_border_is_that_of_the_sorted_order(tmp_path: Path, rows: list[tuple[int, int]], share: float, *, near: bool) -> None:
    rows = [(draw >> 40, n) for draw, n in rows] if near else rows  # All in one interval.
    rows = list({draw: (draw, n) for draw, n in rows}.values())
    np.save(tmp_path / "a.npy", np.array(rows[::2], dtype=MEASURED))
    np.save(tmp_path / "b.npy", np.array(rows[1::2], dtype=MEASURED))
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    total = sum(n for _, n in rows)
    assert sentences_after(files, START) == total
    wanted = int(total * share)
    if wanted >= total:
        return
    border = find_border(files, after=START, sentences=wanted, divisible=True)
    inside = sum(n for draw, n in rows if draw < border.draw) + sum(
        min(n, border.sentences) for draw, n in rows if draw == border.draw
    )
    assert inside == wanted
    whole = find_border(files, after=START, sentences=wanted, divisible=False)
    assert sum(n for draw, n in rows if draw <= whole.draw) <= wanted
    behind = [n for draw, n in sorted(rows) if draw > whole.draw]
    assert sum(n for draw, n in rows if draw <= whole.draw) + behind[0] > wanted
