"""Examples, views and loader beside their peers, on one core each, with the same Korean Wikipedia and vocabulary.

    python -m bench.examples CORPUS --peers PYTHON --albert CHECKOUT

CORPUS holds ``kowiki_extracted_AA.tar.zst``, ``…_AB`` and ``…_AC``. PYTHON is an interpreter with tensorflow-cpu,
tensorflow-hub, sentencepiece, datasets, transformers and mosaicml-streaming; CHECKOUT is a checkout of google-research/albert
in a folder named ``albert``. Without them their rows are left out. All times are processor seconds, so that other work on the
machine matters little; the two sides of a row ran in turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from bench import common
from korealbert.artifact import Artifact, InputPath, Runtime, build
from korealbert.corpus import extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.clean.sentences import split_text
from korealbert.documents.schema import Document
from korealbert.documents.shards import DROPPED_SCHEMA, TableWriter, read_documents
from korealbert.examples import packing, views
from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.examples.best_fit import PackedBatches
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.schema import HELDOUT_VIEW, open_rows, write_rows
from korealbert.examples.views import ViewJob, ViewsSpec, draw_shard
from korealbert.examples.word_order import WordOrderSpec
from korealbert.pretrain.data import on_host, permute
from korealbert.vocab import stage as vocab
from korealbert.vocab.tokenizer import Vocabulary

TURNS = 3
"""Measurements of each side, whose medians are shown."""
ALBERT_DOCUMENTS, COLLATOR_DOCUMENTS = 40, 1_500
"""Documents for the peers that would need minutes for all of them."""
OUR_DOCUMENTS = 600
"""Documents for our side of the same rows: enough that starting hardly matters, and different ones in each turn, because words
that were met before are encoded faster."""
ALBERT_COPIES = 40
"""Copies that the script makes by default, and views that we draw."""
STREAMED_ROWS = 20_000
PACKED_ROWS, PACKED_BATCH = 4_000, 32
BATCH = 256
MANY_SHARDS = 256
"""Shards of a large corpus (``packing.MAX_SHARDS``): the rows of a batch may lie in as many files."""


MEMORY_PROGRAM = """
import sys, tempfile
from pathlib import Path
from korealbert.artifact import Artifact, Runtime, build
from korealbert.examples import packing, views

texts, vocab = (Artifact(Path(path).name, Path(path)) for path in sys.argv[1:])
with tempfile.TemporaryDirectory() as store:
    runtime = Runtime(store=store, workers=1)
    rows = build(packing.STAGE, packing.ExamplesSpec(), {"documents": texts, "vocab": vocab}, runtime).artifact
    build(views.STAGE, views.ViewsSpec(views=1), {"examples": rows, "vocab": vocab}, runtime)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
"""Packs and draws a view, and prints its peak memory in KiB. It does not import torch, like the stages."""


def main() -> None:
    parser = common.options(__doc__)
    parser.add_argument("corpus", type=Path, help="folder of kowiki_extracted_*.tar.zst")
    parser.add_argument("--peers", type=Path, help="interpreter of the peers' environment")
    parser.add_argument("--albert", type=Path, help="checkout of google-research/albert, a folder named albert")
    parser.add_argument("--store", type=Path, default=Path("store/bench-examples"), help="store of the prepared text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runtime = Runtime(store=arguments.store, workers=1)
    texts = documents(arguments.corpus, ["AA"], runtime)
    spec = vocab.VocabSpec(size=32_000, sample_sentences=200_000, training_threads=1)
    vocabulary = build(vocab.STAGE, spec, {"documents": texts}, runtime).artifact
    print(f"{'what':<58}{'ours':>12}{'peer':>12}{'ratio':>9}  goal")
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(texts, vocabulary, arguments.peers, arguments.albert, Path(scratch))
        bench.packing()
        bench.one_view()
        bench.masked_examples()
        bench.loader()
        bench.packed_rows()
        bench.sizes()
    memory(arguments.corpus, runtime, vocabulary)


def documents(corpus: Path, parts: list[str], runtime: Runtime) -> Artifact:
    """Return Korean Wikipedia with one sentence per line."""
    paths = tuple(InputPath(corpus.resolve() / f"kowiki_extracted_{part}.tar.zst") for part in parts)
    raw = extract.STAGE.spec(format="wikiextractor", paths=paths, source="kowiki", license="CC BY-SA 3.0")
    extracted = build(extract.STAGE, raw, {}, runtime).artifact
    return build(clean.STAGE, clean.CleanSpec(), {"documents": extracted}, runtime).artifact


def row(what: str, ours: str, peer: str = "", ratio: float | None = None, goal: str = "") -> None:
    print(f"{what:<58}{ours:>12}{peer:>12}{'' if ratio is None else f'{ratio:.2f}':>9}  {goal}", flush=True)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Bench:
    """The rows of the table; later ones use the files of earlier ones."""

    def __init__(self, texts: Artifact, vocab: Artifact, peers: Path | None, albert: Path | None, scratch: Path) -> None:
        self.texts, self.vocab, self.peers, self.albert, self.scratch = texts, vocab, peers, albert, scratch
        self.vocabulary = Vocabulary.load(vocab.path)
        self.shards = texts.files("documents-*.arrow")
        self.examples = self._folder("examples")
        self.views = self._folder("views")
        self.albert_bytes = 0.0

    def _folder(self, name: str) -> Path:
        folder = self.scratch / name
        folder.mkdir()
        return folder

    def documents(self, count: int | None = None) -> Iterator[Document]:
        return islice((document for path in self.shards for document in read_documents(path)), count)

    def pack(self, out_dir: Path, **fields: Any) -> dict[str, Any]:
        """Run the examples stage; returns its statistics."""
        inputs = {"documents": self.texts, "vocab": self.vocab}
        return packing.run(packing.ExamplesSpec(**fields), inputs, out_dir, Runtime(workers=1))

    def draw(self, examples: Path, out_dir: Path, spec: ViewsSpec, view: int = 0) -> int:
        """Draw one view of packed rows; returns the number of their pieces."""
        split, name = ("heldout", "heldout") if view == HELDOUT_VIEW else ("train", f"view-{view:03d}")
        (out_dir / name).mkdir()
        jobs = (
            ViewJob(path, view, Path(name) / path.name, self.vocab.path, spec)
            for path in sorted(examples.glob(f"{split}-*.arrow"))
        )
        return sum(draw_shard(job, out_dir)["pieces"] for job in jobs)

    def packing(self) -> None:
        sentences = [line for document in self.documents() for line in document.text.split("\n") if line]
        whole = [
            "\n\n".join(paragraph.replace("\n", " ") for paragraph in document.text.split("\n\n"))
            for document in self.documents()
        ]
        bare, stage, split = [], [], []
        self.packed: dict[str, Any] = {}
        for turn in range(TURNS):
            bare.append(seconds(lambda: self.vocabulary.processor.Encode(sentences, num_threads=1)))
            out_dir = self.examples if turn == 0 else self._folder(f"again-{turn}")
            packing.encoder_of.cache_clear()  # It caches words.
            stage.append(seconds(lambda to=out_dir: self.packed.update(self.pack(to))))
            split.append(seconds(lambda: [split_text(text, "rules") for text in whole]))
        peer = median(bare)
        size = sum(len(sentence.encode()) for sentence in sentences) / 1e6
        row("(a) examples stage / bare SentencePiece, s", f"{median(stage):.2f}", f"{peer:.2f}", median(stage) / peer, "≤ 1.3")
        both = median(stage) + median(split)
        row("(a) with rule-based sentence splitting, s", f"{both:.2f}", f"{peer:.2f}", both / peer, "≤ 2.2")
        row("    MB/s of text", f"{size / median(stage):.1f}", f"{size / peer:.1f}")
        pieces = self.packed["pieces_in"] / 1e6
        row("    M pieces/s", f"{pieces / median(stage):.2f}", f"{pieces / peer:.2f}")

    def one_view(self) -> None:
        start = time.process_time()
        pieces = sum(self.draw(self.examples, self.views, ViewsSpec(), view) for view in (0, HELDOUT_VIEW))
        taken = time.process_time() - start
        row("(c) drawing one view, M tokens/s", f"{pieces / taken / 1e6:.2f}", goal="≥ 3")

    def masked_examples(self) -> None:
        """Compare everything from text to masked tensors: examples stage, views, loader."""
        if self.peers is None:
            return
        if self.albert is not None:
            self._beside(
                "albert",
                "(b) masked examples / create_pretraining_data.py, k tokens/s",
                ALBERT_DOCUMENTS,
                ALBERT_COPIES,
                "≥ 100",
            )
        self._beside("collator", "(b) masked examples / datasets.map + collator, k tokens/s", COLLATOR_DOCUMENTS, 1, "≥ 20")

    def _beside(self, peer: str, what: str, count: int, copies: int, goal: str) -> None:
        text = self.scratch / f"{peer}.txt"
        some = list(self.documents(count))
        text.write_text("\n\n".join(document.text.replace("\n\n", "\n") for document in some) + "\n", "utf-8")
        model = "tokenizer.json" if peer == "collator" else "spiece.model"
        theirs = self.peer(peer, text, self.vocab.path / model, self.scratch / f"{peer}.out")
        ours = self._finished(list(self.documents((TURNS + 1) * OUR_DOCUMENTS)), copies)
        their_rate = theirs["tokens"] / theirs["seconds"] / 1e3
        row(what, f"{ours / 1e3:.0f}", f"{their_rate:.1f}", ours / their_rate / 1e3, goal)
        if peer == "albert":
            self.albert_bytes = theirs["bytes"] / theirs["examples"]
            row("    instances/s of the script", "", f"{theirs['examples'] / theirs['seconds']:.0f}")

    def _finished(self, some: list[Document], copies: int) -> float:
        """Return our tokens per second from documents to tensors of all views: the median of runs, after one that loads."""
        rates = []
        packing.encoder_of.cache_clear()  # It caches words of earlier documents.
        for turn in range(TURNS + 1):
            folder = self._folder(f"finished-{copies}-{turn}")
            job = packing.PackJob((), self.vocab.path, packing.ExamplesSpec(heldout_share=0.0), 0)
            start = time.process_time()
            packer = packing.ShardPacker(job, 0)
            with TableWriter(folder / "dropped-00000.arrow", DROPPED_SCHEMA) as dropped:
                for batch in packing.batches_of(some[turn :: TURNS + 1]):
                    packer.add(batch, dropped)
            packer.write(folder)
            for view in range(copies):
                self.draw(folder, folder, ViewsSpec(), view)
            source = ExampleBatches(folder, folder, "train")
            tokens = sum(read_all(source, source.num_rows, view) for view in range(copies))
            rates.append(tokens / (time.process_time() - start))
        return median(rates[1:])

    def loader(self) -> None:
        source = ExampleBatches(self.examples, self.views, "train")
        count = min(STREAMED_ROWS, source.num_rows)
        spread = ExampleBatches(*self._spread(), "train")
        read_all(source, count)
        read_all(spread, count)
        few, many = (median(rate(one, count) for _ in range(TURNS)) for one in (source, spread))
        peer, ratio = "", None
        if self.peers is not None:
            batch = source.gather(0, np.arange(count))
            arrays = {name: getattr(batch, name).reshape(count, -1) for name in Batch.__dataclass_fields__}
            np.savez(self.scratch / "samples.npz", **{name: a.astype(np.int32) for name, a in arrays.items()})
            theirs = self.peer("streaming", self.scratch / "samples.npz", self.scratch / "mds")
            their_rate = theirs["tokens"] / theirs["seconds"]
            peer, ratio = f"{their_rate / 1e6:.2f}", few / their_rate
            row("    samples/s of streaming, in order", "", f"{theirs['examples'] / theirs['seconds']:.0f}")
        row("(d) loader, random order, M tokens/s", f"{few / 1e6:.1f}", peer, ratio, "≥ 10, ≥ 50 ×")
        row(f"    the same from {MANY_SHARDS} shards", f"{many / 1e6:.1f}", goal="≥ 10")

    def packed_rows(self) -> None:
        """Measure rows of 1,024 tokens that hold several documents each."""
        folder = self._folder("long")
        self.pack(folder, sequence_length=1024, short_seq_prob=0.0)
        noise = ViewsSpec(sentence_task="none", masking=MaskingSpec(rate=0.3), word_order=WordOrderSpec(portion=0.0))
        self.draw(folder, folder, noise)
        start = time.process_time()
        source = PackedBatches(folder, folder, "train")
        opened = time.process_time() - start
        single = ExampleBatches(folder, folder, "train").num_rows
        row(f"(d) fill of {source.num_rows:,} packed rows of 1,024", f"{source.fill:.4f}", goal="≥ 0.99")
        row(f"    opening and laying out {single:,} sequences, s", f"{opened:.2f}")
        count = min(PACKED_ROWS, source.num_rows)
        read_all(source, count, batch=PACKED_BATCH)
        fast = median(rate(source, count, batch=PACKED_BATCH) for _ in range(TURNS))
        row("(d) loader of packed rows, M tokens/s", f"{fast / 1e6:.1f}", goal="≥ 10")
        drawn = self._folder("drawn")
        pieces = noise.model_copy(update={"stored": False, "masking": MaskingSpec(unit="token", rate=0.3)})
        views.run(pieces, {"examples": Artifact("examples", folder), "vocab": self.vocab}, drawn, Runtime(workers=1))
        source = PackedBatches(folder, drawn, "train")
        fly = median(rate(source, count, batch=PACKED_BATCH) for _ in range(TURNS))
        row("    the same with noise of pieces drawn on the fly", f"{fly / 1e6:.1f}")

    def _spread(self) -> tuple[Path, Path]:
        """Return folders of examples and views with some of the rows in many small shards."""
        folder = self._folder("spread")
        rows, header = open_rows(sorted(self.examples.glob("train-*.arrow"))[0])
        size = len(rows) // MANY_SHARDS
        for number in range(MANY_SHARDS):
            write_rows(folder / f"train-{number:05d}.arrow", rows.slice(number * size, (number + 1) * size), header)
        self.draw(folder, folder, ViewsSpec())
        return folder, folder

    def sizes(self) -> None:
        rows = self.packed["rows_train"]
        stored = {name: sum(path.stat().st_size for path in self.scratch.glob(pattern)) / rows
                  for name, pattern in (("rows", "examples/train-*"), ("view", "views/view-000/*"))}  # fmt: skip
        plain = 8 * (3 * 128 + 3 * 20 + 1)
        row("(e) bytes of a clean row / of int64 columns", f"{stored['rows']:.0f}", f"{plain}", plain / stored["rows"])
        row("(e) bytes of a view's row / of int64 columns", f"{stored['view']:.0f}", f"{plain}", plain / stored["view"])
        forty = stored["rows"] + 40 * stored["view"]
        row("(e) 40 views, bytes a row / 40 int64 copies", f"{forty:.0f}", f"{40 * plain}", 40 * plain / forty)
        if self.albert_bytes:
            copies = 40 * self.albert_bytes
            row("(e) 40 views, bytes a row / 40 TFRecords of the script", f"{forty:.0f}", f"{copies:.0f}", copies / forty)

    def peer(self, name: str, *arguments: Path) -> dict[str, Any]:
        """Run one peer in its own environment."""
        assert self.peers is not None
        folders = [Path(__file__).parents[1], *([self.albert.resolve().parent] if self.albert else [])]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "USE_TF": "0", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
        result: dict[str, Any] = common.answer(common.peer(self.peers, name, *arguments), environment=environment)
        return result


def read_all(source: ExampleBatches, count: int, view: int = 0, *, batch: int = BATCH) -> int:
    """Read rows of a view in training order as tensors, in batches; returns their tokens."""
    tokens = 0
    for begin in range(0, count, batch):
        places = np.arange(begin, min(begin + batch, count))
        numbers = permute(places % source.num_rows, source.num_rows, seed=1, epoch=view)
        tokens += int(on_host(source.gather(view, numbers), pinned=False).lengths.sum())
    return tokens


def rate(source: ExampleBatches, count: int, *, batch: int = BATCH) -> float:
    start = time.process_time()
    tokens = read_all(source, count, batch=batch)
    return tokens / (time.process_time() - start)


def memory(corpus: Path, runtime: Runtime, vocabulary: Artifact) -> None:
    """Print the peak memory of the stages on one archive, and on three times as much text."""
    for parts in (["AA"], ["AA", "AB", "AC"]):
        texts = documents(corpus, parts, runtime)
        kibibytes = common.answer([sys.executable, "-c", MEMORY_PROGRAM, texts.path, vocabulary.path])
        size = texts.stats["bytes_out"] / 1e9
        row(f"(e) peak memory over {size:.2f} GB of text, MB", f"{kibibytes / 1024:.0f}", goal="flat")


if __name__ == "__main__":
    main()
