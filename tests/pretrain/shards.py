"""A small real ancestry for pretraining: documents, vocabulary, examples and views, built by their own stages."""

from __future__ import annotations

import random
from pathlib import Path

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, Stats, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard
from korealbert.examples import packing, views
from korealbert.vocab import stage as vocab_stage

WHO = ["아이가", "어머니가", "선생님이", "친구가", "할아버지가", "이웃이"]
WHEN = ["아침에", "어제", "주말마다", "비가 오면", "해가 지고"]
WHERE = ["강가에서", "도서관에서", "시장에서", "마당에서", "학교 앞에서"]
WHAT = ["책을 읽었다.", "사과를 샀다.", "노래를 불렀다.", "나무를 심었다.", "편지를 썼다.", "빵을 나누어 먹었다."]


class TextSpec(Spec):
    """How many documents to make up."""

    documents: int


def write_documents(spec: TextSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    lot = random.Random(1)  # noqa: S311
    with DocumentShard(out_dir, 0) as shard:
        for number in range(spec.documents):
            parts = (" ".join(map(lot.choice, (WHO, WHEN, WHERE, WHAT))) for _ in range(lot.randint(4, 9)))
            shard.keep(Document(document_id("made-up", str(number)), "made-up", "\n".join(parts)))
    return shard.stats


def build_ancestry(store: Path) -> dict[str, Artifact]:
    """Artifacts by the roles of the pretraining stage: sequences of 32 tokens, two views."""
    runtime = Runtime(store=store, workers=1)
    documents = build(Stage("documents", 1, TextSpec, write_documents), TextSpec(documents=80), {}, runtime).artifact
    vocab_spec = vocab_stage.VocabSpec(size=65, character_coverage=1.0, training_threads=1)
    vocab = build(vocab_stage.STAGE, vocab_spec, {"documents": documents}, runtime).artifact
    rows_spec = packing.ExamplesSpec(sequence_length=32, heldout_share=0.2)
    rows = build(packing.STAGE, rows_spec, {"documents": documents, "vocab": vocab}, runtime).artifact
    noise = build(views.STAGE, views.ViewsSpec(views=2), {"examples": rows, "vocab": vocab}, runtime).artifact
    return {"vocab": vocab, "examples": rows, "views": noise}


def build_long(store: Path, ancestry: dict[str, Artifact]) -> dict[str, Artifact]:
    """The roles of the long phase, from the same documents: sequences of 64 tokens."""
    runtime = Runtime(store=store, workers=1)
    vocab = ancestry["vocab"]
    rows_spec = packing.ExamplesSpec(sequence_length=64, heldout_share=0.2)
    rows = build(
        packing.STAGE, rows_spec, {"documents": ancestry["examples"].inputs()["documents"], "vocab": vocab}, runtime
    ).artifact
    noise = build(views.STAGE, views.ViewsSpec(views=2), {"examples": rows, "vocab": vocab}, runtime).artifact
    return {"examples_long": rows, "views_long": noise}
