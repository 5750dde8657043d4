"""A store of three small artifacts, ``words`` → ``lines`` → ``book``, each built by a real stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, build
from korealbert.corpus import extract
from korealbert.corpus.readers.spec import ExtractSpec


class Text(Spec):
    text: str = "가나다"


def write(spec: Text, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
    before = "".join((each.path / "part" / "out.txt").read_text("utf-8") for each in inputs.values())
    (out_dir / "part").mkdir(exist_ok=True)
    (out_dir / "part" / "out.txt").write_text(before + spec.text, "utf-8")
    (out_dir / "한글 이름.txt").write_text(spec.text, "utf-8")
    return {}


DOCUMENTS, SHARDS = 200, 6
"""Size of ``raw``."""

WORDS, LINES, BOOK = (Stage(name, 1, Text, write) for name in ("words", "lines", "book"))


def three(store: Path, text: str = "가나다") -> dict[str, Artifact]:
    runtime = Runtime(store=store, workers=1)
    words = build(WORDS, Text(text=text), {}, runtime).artifact
    lines = build(LINES, Text(), {"words": words}, runtime).artifact
    return {"words": words, "lines": lines, "book": build(BOOK, Text(), {"lines": lines, "words": words}, runtime).artifact}


@pytest.fixture
def built(tmp_path: Path) -> dict[str, Artifact]:
    return three(tmp_path / "store")


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(store=tmp_path / "store", workers=1)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    directory = tmp_path / "raw"
    directory.mkdir()
    for number in range(SHARDS):
        lines = [
            json.dumps({"text": f"{n}번 문서의 본문이다. " * 40}, ensure_ascii=False) for n in range(number, DOCUMENTS, SHARDS)
        ]
        (directory / f"{number}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return directory


def source(raw: Path) -> ExtractSpec:
    return ExtractSpec.model_validate({"source": "raw", "format": "jsonl", "paths": [str(raw)], "shard_bytes": 1024})


@pytest.fixture
def documents(raw: Path, runtime: Runtime) -> Artifact:
    return build(extract.STAGE, source(raw), {}, runtime).artifact


@pytest.fixture
def straight(raw: Path, tmp_path: Path) -> Artifact:
    """Return the documents, built in another store without interruption."""
    return build(extract.STAGE, source(raw), {}, Runtime(store=tmp_path / "straight", workers=1)).artifact
