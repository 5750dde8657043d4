"""What is read off a compiled table of normalisation is what the table was compiled from."""

from __future__ import annotations

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from korealbert.vocab.compiled_rules import joining_characters
from korealbert.vocab.normalisation import rules
from korealbert.vocab.tokenizer import Vocabulary


def test_the_characters_that_join_are_those_behind_another_one(vocabulary: Vocabulary) -> None:
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    expected = {character for sequence in rules() for character in sequence[1:]}
    assert joining_characters(model.normalizer_spec.precompiled_charsmap) == expected


def test_a_model_without_a_table_joins_nothing() -> None:
    assert joining_characters(b"") == set()
