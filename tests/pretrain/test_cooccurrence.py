"""Word embeddings that are initialised from co-occurrences of pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from korealbert.artifact import Artifact, build
from korealbert.examples.schema import Rows, RowsHeader, write_rows
from korealbert.pretrain import cooccurrence
from korealbert.pretrain.cooccurrence import VECTORS, CooccurrenceSpec, count_neighbours, mutual_information
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.initial import set_word_embeddings
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.stage import STAGE, check
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID
from tests.pretrain.runs import TINY_MODEL, same_bytes, spec, train_here, trainer

VOCAB = 40
LENGTH = 29


def rows_of(texts: list[list[int]], directory: Path, shards: int = 1) -> Path:
    directory.mkdir(exist_ok=True)
    for shard in range(shards):
        part = texts[shard::shards]
        ids = np.zeros((len(part), LENGTH), dtype=np.uint16)
        for row, text in enumerate(part):
            ids[row, : len(text)] = text
        lengths = np.array([len(text) for text in part], dtype=np.uint16)
        number = np.arange(len(part), dtype=np.uint64)
        rows = Rows(
            number, number, np.zeros(len(part), np.uint8), ids, lengths, lengths, np.arange(len(part) + 1, dtype=np.int64)
        )
        write_rows(directory / f"train-{shard:05d}.arrow", rows, RowsHeader(LENGTH + 3, VOCAB, "0" * 64, ["made-up"]))
    return directory


def run(texts: list[list[int]], directory: Path, shards: int = 1, threads: int = 1, **fields: Any) -> tuple[Any, np.ndarray]:
    """Return statistics and vectors of made-up rows."""
    examples = rows_of(texts, directory / "examples", shards)
    stats = cooccurrence.run(
        CooccurrenceSpec(**{"width": 8, **fields}),
        {"examples": Artifact("examples", examples)},
        directory,
        TrainingRuntime(store=directory, threads=threads),
    )
    return stats, load_file(directory / VECTORS)["vectors"]


ids = st.integers(0, 11)
some_rows = st.lists(st.lists(ids, min_size=1, max_size=12), min_size=1, max_size=6)


@settings(deadline=None)
@given(texts=some_rows, window=st.integers(1, 15), contexts=st.lists(ids, min_size=1, max_size=8, unique=True))
def test_counts_are_those_of_a_plain_loop(texts: list[list[int]], window: int, contexts: list[int]) -> None:
    width = max(map(len, texts))
    table = np.array([text + [0] * (width - len(text)) for text in texts])
    real = (np.arange(width) < np.array([[len(text)] for text in texts])) & (table >= 5)
    expected = np.zeros((12, len(contexts)), dtype=np.uint32)
    for text in texts:
        for i, word in enumerate(text):
            for j, context in enumerate(text):
                if i != j and abs(i - j) <= window and min(word, context) >= 5 and context in contexts:
                    expected[word, contexts.index(context)] += window + 1 - abs(i - j)
    counts = np.zeros_like(expected)
    count_neighbours(counts, np.array(contexts), table, real, window)
    np.testing.assert_array_equal(counts, expected)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=2, max_size=6).filter(lambda c: bool(np.any(c))),
    st.sampled_from([0.75, 1.0]),
)
def test_mutual_information_is_that_of_its_formula(counts: list[list[int]], smoothing: float) -> None:
    table = np.array(counts, dtype=np.uint32)
    total, words, contexts = table.sum(), table.sum(1), table.sum(0) ** smoothing
    found = mutual_information(table, smoothing)
    for word in range(table.shape[0]):
        for context in range(table.shape[1]):
            expected = 0.0
            if number := int(table[word, context]):
                chance = words[word] / total * contexts[context] / contexts.sum()
                expected = max(0.0, float(np.log(number / total / chance)))
            assert found[word, context] == pytest.approx(expected, abs=1e-5)


def test_pieces_in_the_same_contexts_get_similar_vectors(tmp_path: Path) -> None:
    lot = np.random.default_rng(1)
    first, second = range(10, 14), range(20, 24)
    texts = []
    for _ in range(400):
        side = lot.integers(2)
        texts.append([[30, 31][side], int(lot.choice([first, second][side])), [32, 33][side], 6])
    stats, vectors = run(texts, tmp_path, width=6)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    within = min(float(unit[a] @ unit[b]) for group in (first, second) for a in group for b in group)
    across = max(float(unit[a] @ unit[b]) for a in first for b in second)
    assert within > 0.9
    assert across < 0.5
    assert (stats.pieces, stats.unseen_pieces) == (13, VOCAB - FIRST_ORDINARY_ID - 13)
    assert stats.tokens == 1600
    seen = vectors.any(axis=1)
    assert set(np.flatnonzero(seen)) == {6, *first, *second, 30, 31, 32, 33}
    assert float(vectors[seen].std()) == pytest.approx(1, abs=1e-5)


def test_shards_threads_and_repetition_change_nothing(tmp_path: Path) -> None:
    lot = np.random.default_rng(2)
    texts = [lot.integers(5, VOCAB, lot.integers(2, LENGTH)).tolist() for _ in range(200)]
    found = []
    for number, (shards, threads) in enumerate([(1, 1), (3, 1), (3, 2)]):
        (directory := tmp_path / str(number)).mkdir()
        found.append(run(texts, directory, shards, threads)[1])
        torch.manual_seed(number)
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)
    np.testing.assert_allclose(found[2], found[1], atol=1e-3)


def test_a_part_of_the_rows_is_spread_over_all(tmp_path: Path) -> None:
    texts = [[7, 8, 9]] * 50 + [[17, 18, 19]] * 50
    stats, vectors = run(texts, tmp_path, max_tokens=10 * (LENGTH + 3))
    assert stats.tokens == 30
    assert vectors[[7, 8, 9, 17, 18, 19]].any(axis=1).all()


def test_contexts_are_smoothed_as_the_recipe_says(tmp_path: Path) -> None:
    lot = np.random.default_rng(3)
    texts = [lot.integers(5, 12, 6).tolist() for _ in range(40)] + [[7, 8]] * 40
    vectors = []
    for smoothing in (0.75, 0.2):
        (directory := tmp_path / str(smoothing)).mkdir()
        vectors.append(run(texts, directory, smoothing=smoothing)[1])
    assert not np.allclose(*vectors, atol=1e-2)


def test_rows_without_neighbours_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no two pieces of the examples are neighbours; set pretrain\.embeddings = 'random'"):
        run([[7], [8], [2, 3]], tmp_path)


def test_neighbours_that_say_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="no two pieces are neighbours more often than by chance; take more text or more `contexts`"
    ):
        run([[7, 8, 9]] * 40, tmp_path, contexts=1)


def test_embeddings_start_from_the_vectors_with_the_standard_deviation_of_random_ones(
    alone: Ranks, ancestry: dict[str, Artifact], tmp_path: Path
) -> None:
    drawn = trainer(spec(seed=5), tmp_path / "drawn", alone).model
    before = drawn.encoder.embeddings.word.weight.detach().clone()
    vectors = np.zeros((before.shape[0], before.shape[1] - 3), dtype=np.float32)
    vectors[7:] = np.random.default_rng(1).standard_normal(vectors[7:].shape)
    save_file({"vectors": vectors}, tmp_path / VECTORS)
    set_word_embeddings(drawn, tmp_path)
    after = drawn.encoder.embeddings.word.weight.detach()
    np.testing.assert_allclose(after[7:, :-3], vectors[7:] * float(before.std()), rtol=1e-5)
    assert torch.equal(after[:7], before[:7])
    assert torch.equal(after[:, -3:], before[:, -3:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no vectors that can be read"),
        ({"others": np.zeros((3, 3), np.float32)}, "no vectors that can be read"),
        ({"vectors": np.zeros((3, 4096), np.float32)}, r"vectors of shape \[3, 4096\] for a word table of .*; build them from"),
    ],
)
def test_vectors_that_do_not_fit_are_named(alone: Ranks, tmp_path: Path, content: Any, message: str) -> None:
    if content is not None:
        save_file(content, tmp_path / VECTORS)
    model = trainer(spec(), tmp_path / "run", alone).model
    with pytest.raises(ValueError, match=message):
        set_word_embeddings(model, tmp_path)


def test_spec_and_input_must_agree(ancestry: dict[str, Artifact]) -> None:
    places = {role: artifact.path for role, artifact in ancestry.items()}
    with pytest.raises(ValueError, match="embeddings = 'cooccurrence', but there is no input 'cooccurrence'"):
        check(spec(embeddings="cooccurrence"), **places)
    with pytest.raises(ValueError, match="embeddings = 'random', but there is an input 'cooccurrence'"):
        check(spec(), **places, cooccurrence=Path())


@pytest.mark.usefixtures("trains_here")
def test_the_stage_trains_from_them(ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path) -> None:
    runtime = TrainingRuntime(store=tmp_path, threads=1, device="cpu")
    model = {**TINY_MODEL, "max_positions": 32}
    wanted = spec(embeddings="cooccurrence", model=model)
    given_width = CooccurrenceSpec().of_width(wanted.shape.embedding_size)
    vectors = build(cooccurrence.STAGE, given_width, {"examples": ancestry["examples"]}, runtime).artifact
    inputs = {**ancestry, "cooccurrence": vectors}
    built = build(STAGE, wanted, inputs, runtime).artifact
    train_here(wanted, inputs, tmp_path / "from-them", alone)
    train_here(spec(model=model), ancestry, tmp_path / "plain", alone)
    assert same_bytes(built.path, tmp_path / "from-them") and not same_bytes(built.path, tmp_path / "plain")
