"""The vocab stage: its statistics, its determinism, and its errors for impossible specs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pydantic import ValidationError

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard
from korealbert.vocab.morphemes import MORPHEMES_FILE
from korealbert.vocab.sampling import MAX_SENTENCE_BYTES, Sample, SampleLimits, sample_sentences
from korealbert.vocab.stage import SCORE_STEP, STAGE, VocabSpec, train_model
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, Vocabulary
from tests.vocab.conftest import SIZE
from tests.vocab.korean import documents, sentences


def write(directory: Path, shards: list[list[Document]]) -> list[Path]:
    """Shards of documents in a new directory."""
    directory.mkdir()
    for index, group in enumerate(shards):
        with DocumentShard(directory, index) as shard:
            for document in group:
                shard.keep(document)
    return sorted(directory.glob("documents-*.arrow"))


def sample(
    shards: list[Path],
    out: Path,
    *,
    limit: int = 100,
    characters: int = 1_000_000,
    seed: int = 0,
    weights: dict[str, float] | None = None,
    workers: int = 1,
) -> Sample:
    out.mkdir()
    limits = SampleLimits(limit, characters)
    return sample_sentences(
        shards, seed=seed, weights=weights or {}, limits=limits, out_dir=out, runtime=Runtime(workers=workers)
    )


def one_document(store: Path, text: str) -> Artifact:
    def write(spec: Spec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, object]:
        with DocumentShard(out_dir, 0) as shard:
            shard.keep(Document(document_id("s", "1"), "s", text))
        return {}

    return build(Stage("one", 1, Spec, write), Spec(), {}, Runtime(store=store, workers=1)).artifact


def test_stats_tell_what_the_vocabulary_does(vocab: Artifact, texts: Artifact) -> None:
    stats = vocab.stats
    assert stats["pieces"] == SIZE == Vocabulary.load(vocab.path).size
    assert 1.0 < stats["characters_per_piece"] < 6.0
    assert stats["pieces_per_word"] > 1.0
    assert stats["unknown_share"] < 0.01
    assert 0 < stats["hangul_syllables_covered"] < SIZE
    assert stats["sampled_sentences"] == stats["sentences"] > 500
    assert sum(stats["words_by_pieces"].values()) > 3_000
    assert stats["hangul_syllables_in_text_covered"] <= min(
        stats["hangul_syllables_in_text"], stats["hangul_syllables_covered"]
    )
    assert 0.99 < stats["character_coverage"] <= 1.0
    assert all(specimen.startswith("▁") for specimen in stats["specimens"])


def test_the_bytes_are_the_same_with_one_and_two_workers(tmp_path: Path, texts: Artifact, vocab: Artifact) -> None:
    runtime = Runtime(store=tmp_path, workers=2)
    again = build(STAGE, VocabSpec(size=SIZE, training_threads=2), {"documents": texts}, runtime).artifact
    assert again.output_digest == vocab.output_digest


def test_the_sample_has_as_many_characters_as_the_recipe_allows(tmp_path: Path, texts: Artifact, vocab: Artifact) -> None:
    limit = vocab.stats["sampled_characters"] // 2
    spec = VocabSpec(size=SIZE, sample_characters=limit)
    stats = build(STAGE, spec, {"documents": texts}, Runtime(store=tmp_path, workers=1)).artifact.stats
    assert 0.9 * limit < stats["sampled_characters"] <= limit


def test_the_number_of_threads_is_part_of_the_recipe_and_repeats_exactly() -> None:
    text = sentences(400)
    one, two, again = (train_model(VocabSpec(size=250, training_threads=n), text) for n in (1, 2, 2))
    assert two.SerializeToString() == again.SerializeToString()
    assert one.trainer_spec.num_threads != two.trainer_spec.num_threads


def test_scores_are_exact_in_single_precision() -> None:
    scores = np.array([piece.score for piece in train_model(VocabSpec(size=250), sentences(400)).pieces])
    assert np.array_equal(scores / SCORE_STEP, np.round(scores / SCORE_STEP))
    assert len(np.unique(scores)) > 50


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_too_large_a_vocabulary_names_the_field_and_the_greatest_size_possible(kind: Literal["unigram", "bpe"]) -> None:
    text = sentences(30)
    with pytest.raises(
        ValueError, match=r"vocab\.size = 9,000 is more than 30 sentences give; the greatest size possible is \d+"
    ) as caught:
        train_model(VocabSpec(size=9_000, model_type=kind), text)
    greatest = int(str(caught.value).split("possible is ")[1].split(";")[0])
    assert len(train_model(VocabSpec(size=greatest, model_type=kind), text).pieces) == greatest
    taken = train_model(VocabSpec(size=9_000, model_type=kind, at_most=True), text)
    assert [piece.piece for piece in taken.pieces] == [
        piece.piece for piece in train_model(VocabSpec(size=greatest, model_type=kind), text).pieces
    ]


def test_too_small_a_vocabulary_names_the_size_that_covers_the_characters() -> None:
    with pytest.raises(ValueError, match=r"vocab\.size = 20 has no room for the characters to cover; take \d+ or more"):
        train_model(VocabSpec(size=20), sentences(300))


def test_no_sentences_is_an_error_that_names_the_remedy(tmp_path: Path, texts: Artifact) -> None:
    spec = VocabSpec(size=SIZE, source_weights={"stories": 0.0, "letters": 0.0})
    with pytest.raises(ValueError, match=r"no sentence to train on.*source_weights"):
        build(STAGE, spec, {"documents": texts}, Runtime(store=tmp_path, workers=1))


def test_a_corpus_without_a_visible_character_is_refused() -> None:
    with pytest.raises(ValueError, match="spaces and control characters only; look at the output of the clean stage"):
        train_model(VocabSpec(), ["\u200b\u200b", "\x01 \ufeff"])


def test_a_corpus_without_letters_gives_what_it_has() -> None:
    model = train_model(VocabSpec(size=12), ["...", "!!! ???"] * 50)
    assert {piece.piece for piece in model.pieces} >= {".", "!", "?", "▁"}


@pytest.mark.parametrize("piece", ["[MASK]", "<unk>", "\u2063", "ab", "①", " ", "\t", "▁", ""])
def test_user_defined_pieces_are_single_stable_characters(piece: str) -> None:
    with pytest.raises(ValidationError, match="one visible character"):
        VocabSpec(user_defined_pieces=(piece,))


def test_negative_weights_and_repeated_pieces_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"source_weights\.news = -1"):
        VocabSpec(source_weights={"news": -1})
    with pytest.raises(ValidationError, match="named twice"):
        VocabSpec(user_defined_pieces=(".", "."))
    with pytest.raises(ValidationError, match="size"):
        VocabSpec(size=FIRST_ORDINARY_ID)


def test_the_sample_depends_on_the_text_and_seed_not_on_shards_or_workers(tmp_path: Path) -> None:
    made = documents(40)
    together = write(tmp_path / "one", [made])
    apart = write(tmp_path / "three", [made[30:], made[:10], made[10:30]])
    first = sample(together, tmp_path / "a")
    assert first == sample(apart, tmp_path / "b") == sample(apart, tmp_path / "c", workers=2)
    assert len(first.sentences) == 100 < first.counts["sentences"]
    assert set(first.sentences) != set(sample(together, tmp_path / "d", seed=1).sentences)


def test_a_limit_above_the_corpus_takes_everything(tmp_path: Path) -> None:
    made = documents(10)
    taken = sample(write(tmp_path / "docs", [made]), tmp_path / "out", limit=10_000)
    lines = [line for document in made for line in document.text.split("\n") if line]
    assert sorted(taken.sentences) == sorted(lines)
    assert taken.counts == {
        "sentences": len(lines),
        "too_long_sentences": 0,
        "sampled_sentences": len(lines),
        "sampled_characters": sum(map(len, lines)),
        "sampled_by_source": {"stories": len(lines)},
    }


@pytest.mark.parametrize("characters", [1, 500, 2_000])
def test_the_sample_holds_no_more_characters_than_its_limit(tmp_path: Path, characters: int) -> None:
    shards = write(tmp_path / "docs", [documents(20), documents(20, seed=2)])
    whole = sample(shards, tmp_path / "whole", limit=10_000).sentences
    taken = sample(shards, tmp_path / "taken", limit=10_000, characters=characters)
    assert taken.sentences == whole[: len(taken.sentences)]
    assert taken.counts["sampled_characters"] == sum(map(len, taken.sentences))
    assert taken.counts["sampled_characters"] <= characters or len(taken.sentences) == 1
    assert sum(map(len, whole[: len(taken.sentences) + 1])) > characters


def test_source_weights_change_the_mixture(tmp_path: Path) -> None:
    def lines(source: str) -> Document:
        return Document(document_id(source, "1"), source, "\n".join(f"{source} {number}" for number in range(2_000)))

    shards = write(tmp_path / "docs", [[lines("a")], [lines("b")], [lines("c")]])
    taken = sample(shards, tmp_path / "out", limit=400, weights={"a": 3.0, "c": 0.0})
    share = np.mean([text.startswith("a") for text in taken.sentences])
    # 400 of 4,000 at odds of 3 : 1, nearly with replacement: 0.75 less a little, σ = 0.022.
    assert 0.66 < share < 0.80
    assert taken.counts["sampled_by_source"] == {"a": share * 400, "b": 400 - share * 400}


def test_a_weight_of_an_unknown_source_names_the_known_ones(tmp_path: Path) -> None:
    shards = write(tmp_path / "docs", [documents(3)])
    with pytest.raises(ValueError, match=r"vocab\.source_weights names novels, but the sources of the documents are stories"):
        sample(shards, tmp_path / "out", weights={"novels": 2.0})


def test_overlong_sentences_are_left_out_and_counted(tmp_path: Path) -> None:
    long = Document(document_id("a", "1"), "a", "가" * MAX_SENTENCE_BYTES + "\n짧은 문장이다.\n \t\n")
    taken = sample(write(tmp_path / "docs", [[long]]), tmp_path / "out")
    assert taken.sentences == ["짧은 문장이다."]
    assert taken.counts["too_long_sentences"] == taken.counts["sentences"] == 1


def test_sentences_with_reserved_characters_are_trained_on_without_them(tmp_path: Path) -> None:
    text = "\n".join([*sentences(200), *["퓂\u2585 퓂\u2063"] * 9])
    artifact = one_document(tmp_path, text)
    spec = VocabSpec(size=250, character_coverage=1.0, training_threads=1)
    built = build(STAGE, spec, {"documents": artifact}, Runtime(store=tmp_path, workers=1)).artifact
    vocabulary = Vocabulary.load(built.path)
    pieces = vocabulary.pieces(range(vocabulary.size))
    assert vocabulary.boundary is None and not (built.path / MORPHEMES_FILE).exists()
    assert any("퓂" in piece for piece in pieces)
    assert not any("\u2585" in piece or "\u2063" in piece for piece in pieces)


def test_a_coverage_that_sentencepiece_refuses_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="character_coverage"):
        VocabSpec(character_coverage=0.95)
    assert train_model(VocabSpec(size=300, character_coverage=0.98, training_threads=1), sentences(400)).pieces


def test_a_vocabulary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"spiece\.model: not there; pass the directory of a vocab artifact"):
        Vocabulary.load(tmp_path)
