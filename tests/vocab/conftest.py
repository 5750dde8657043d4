"""One small vocabulary, trained on our own sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.artifact import Artifact, Runtime, build
from korealbert.vocab.stage import STAGE, VocabSpec
from korealbert.vocab.tokenizer import Vocabulary
from tests.vocab.korean import text_artifact

SIZE = 320


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def texts(store: Path) -> Artifact:
    return text_artifact(store)


@pytest.fixture(scope="session")
def vocab(store: Path, texts: Artifact) -> Artifact:
    spec = VocabSpec(size=SIZE, training_threads=2)
    return build(STAGE, spec, {"documents": texts}, Runtime(store=store, workers=1)).artifact


@pytest.fixture(scope="session")
def vocabulary(vocab: Artifact) -> Vocabulary:
    return Vocabulary.load(vocab.path)
