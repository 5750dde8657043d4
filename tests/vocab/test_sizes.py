"""Vocabularies of other sizes next to the run's own, on the same sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from korealbert.artifact import Artifact, Runtime, build
from korealbert.vocab.sizes import STAGE, VocabSizesSpec
from korealbert.vocab.stage import STAGE as VOCAB
from korealbert.vocab.stage import VocabSpec
from korealbert.vocab.tokenizer import Vocabulary
from tests.vocab.conftest import SIZE


def test_every_size_and_kind_is_trained_and_measured_beside_the_chosen_one(
    tmp_path: Path, texts: Artifact, vocab: Artifact
) -> None:
    inputs = {"documents": texts, "vocab": vocab}
    artifact = build(STAGE, VocabSizesSpec(sizes=(220,)), inputs, Runtime(store=tmp_path, workers=2)).artifact
    found = {(facts["model_type"], facts["pieces"]): facts for facts in artifact.stats["vocabularies"]}
    assert set(found) == {(kind, size) for kind in ("unigram", "bpe") for size in (220, SIZE)}
    assert artifact.stats["chosen"] == {"model_type": "unigram", "pieces": SIZE}
    for (kind, size), facts in found.items():
        vocabulary = Vocabulary.load(artifact.path / f"{kind}-{size}")
        assert (vocabulary.size, vocabulary.sha256) == (size, facts["sha256"])
    assert found["unigram", SIZE]["sha256"] == vocab.stats["sha256"], "the sample is that of the vocabulary itself"
    for kind in ("unigram", "bpe"):
        assert found[kind, 220]["characters_per_piece"] < found[kind, SIZE]["characters_per_piece"]


def test_the_chosen_vocabulary_is_found_where_it_has_fewer_pieces_than_were_asked_for(tmp_path: Path, texts: Artifact) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    most = VocabSpec(size=9_000, model_type="bpe", at_most=True, training_threads=2)
    vocab = build(VOCAB, most, {"documents": texts}, runtime).artifact
    stats = build(STAGE, VocabSizesSpec(sizes=(220,)), {"documents": texts, "vocab": vocab}, runtime).artifact.stats
    assert stats["chosen"] == {"model_type": "bpe", "pieces": vocab.stats["pieces"]} != {"model_type": "bpe", "pieces": 9_000}
    (own,) = [each for each in stats["vocabularies"] if {**each, **stats["chosen"]} == each]
    assert own["sha256"] == vocab.stats["sha256"]
    others = VocabSizesSpec(sizes=(220,), model_types=("unigram",))
    apart = build(STAGE, others, {"documents": texts, "vocab": vocab}, runtime).artifact.stats
    assert apart["chosen"] == stats["chosen"], "also if its kind is not compared"


def test_a_size_that_the_corpus_cannot_give_is_named(tmp_path: Path, texts: Artifact, vocab: Artifact) -> None:
    spec = VocabSizesSpec(sizes=(9_000,), model_types=("bpe",))
    with pytest.raises(ValueError, match=r"vocab_sizes\.sizes, bpe of 9,000: .* the greatest size possible is \d+"):
        build(STAGE, spec, {"documents": texts, "vocab": vocab}, Runtime(store=tmp_path, workers=1))


def test_fewer_characters_give_fewer_pieces(tmp_path: Path, texts: Artifact, vocab: Artifact) -> None:
    greatest = []
    for characters in (2_000, 1_000_000):
        spec = VocabSizesSpec(sizes=(9_000,), model_types=("bpe",), sample_characters=characters)
        with pytest.raises(ValueError, match="greatest size possible") as error:
            build(STAGE, spec, {"documents": texts, "vocab": vocab}, Runtime(store=tmp_path, workers=1))
        greatest.append(int(str(error.value).rsplit("possible is ", 1)[1].split()[0].strip(".;,")))
    assert greatest[0] < greatest[1]


def test_sizes_that_make_no_sense_are_refused() -> None:
    for wrong, message in (
        ({"sizes": (300, 300)}, "named twice"),
        ({"sizes": (2,)}, "sizes: 2"),
        ({"model_types": ()}, "empty"),
    ):
        with pytest.raises(ValidationError, match=message):
            VocabSizesSpec(**wrong)  # type: ignore[arg-type]
