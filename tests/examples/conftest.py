"""Documents, vocabulary, rows and views of our own sentences, built by the stages themselves."""

from __future__ import annotations

import pytest

from korealbert.artifact import Artifact, Runtime, build
from korealbert.examples import packing, views
from korealbert.examples.batches import ExampleBatches
from korealbert.vocab import stage as vocab_stage
from korealbert.vocab.tokenizer import Vocabulary
from tests.examples.made import SEQUENCE_LENGTH
from tests.vocab.korean import TextSpec, text_artifact


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime(store=tmp_path_factory.mktemp("store"), workers=1)


@pytest.fixture(scope="session")
def texts(runtime: Runtime) -> Artifact:
    return text_artifact(runtime.store, TextSpec(shards=3, documents_per_shard=40))


@pytest.fixture(scope="session")
def vocab(runtime: Runtime, texts: Artifact) -> Artifact:
    return build(vocab_stage.STAGE, vocab_stage.VocabSpec(size=320), {"documents": texts}, runtime).artifact


@pytest.fixture(scope="session")
def vocabulary(vocab: Artifact) -> Vocabulary:
    return Vocabulary.load(vocab.path)


@pytest.fixture(scope="session")
def packed(runtime: Runtime, texts: Artifact, vocab: Artifact) -> Artifact:
    spec = packing.ExamplesSpec(sequence_length=SEQUENCE_LENGTH, heldout_share=0.1)
    return build(packing.STAGE, spec, {"documents": texts, "vocab": vocab}, runtime).artifact


@pytest.fixture(scope="session")
def viewed(runtime: Runtime, packed: Artifact, vocab: Artifact) -> Artifact:
    return build(views.STAGE, views.ViewsSpec(views=3), {"examples": packed, "vocab": vocab}, runtime).artifact


@pytest.fixture(scope="session")
def batches(packed: Artifact, viewed: Artifact) -> ExampleBatches:
    return ExampleBatches(packed.path, viewed.path, "train")
