"""Estimates the work of stages from their specs and the files that these name, before they are built.

Each stage turns the volumes of its inputs (bytes of text, rows, examples, the model's shape) into a volume of its own. Its work
is a number of units, operations and training steps; ``data_specs/machines.toml`` says what a unit of each stage is.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from korealbert.artifact import InputPath, Stage
from korealbert.artifact.files import files_of
from korealbert.documents.containers import MemberFilter, is_archive, member_of, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ReadFault, ReadLimits
from korealbert.finetune.features import SPLITS
from korealbert.huggingface import checkpoint
from korealbert.model.config import AnyConfig, ModernConfig
from korealbert.model.parameters import expected_parameters, training_flops
from korealbert.pretrain.optimizer_spec import MuonSpec
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe.machines import HALF, Rate, figures
from korealbert.xpt.transfer import target_config

PACKED = {".gz": 3, ".zst": 4, ".bz2": 4, ".xz": 4, ".zip": 3, ".tgz": 3}
"""Estimated compression ratio by the ending of packed files."""
_MAX_UNPACKED_BYTES = 16 << 20
"""Packed files up to this size are unpacked to measure their text. Of larger archives this much is unpacked, to estimate which
share of them is wanted."""
_BYTES_PER_SENTENCE = 90
"""Mean length of a Korean sentence in UTF-8, film reviews included."""
_BYTES_PER_EXAMPLE = 400
"""Assumed for benchmarks whose examples are not lines."""
_BYTES_PER_DOCUMENT = 3_000
"""Assumed where records have no marks that are quickly counted."""
_RECORD_MARKS = {"line": b"\n", "record": b"\n\n", "jsonl": b"\n", "csv": b"\n", "books": b"\n", "json": b"{", "news": b"{"}
"""What each record has once, by format, or for text by what a document is."""
_DEV_SHARE = 0.05
"""Share of a benchmark's training examples that become its dev part if it has none."""
_PAIRS_PER_TRIPLE = 3
"""Pairs of a file of entailment per triple: each premise has one hypothesis of each of the three labels."""
_PIECES_PER_PASSAGE = 512
"""Length to which encoders are assumed to cut the texts of a collection, unless the recipe says so."""
_FILLED_SHARE = 0.93
"""Estimated share of a row's positions that hold pieces."""
_PIECES_AROUND = 6_000
"""Pieces of the document that a piece is in, on average over pieces; long documents have most of them. Counted in 5,936
articles of Korean Wikipedia, at 5.3 bytes a piece."""
_BYTES_PER_TRAINED_PARAMETER = 16
"""The parameter, its gradient and two moments, each in fp32."""
_MAX_MATRIX_ATTENTION = 1024
"""Longest rows whose attention is computed as matrix products in 16 bits on a processor (``korealbert.model.attention``)."""
_MUON_OPERATIONS = 30
"""Operations of an update per parameter and row of a square matrix: five Newton-Schulz steps of three products each."""


@dataclass(frozen=True)
class Volume:
    """Estimated contents of an artifact; 0 for what it does not have."""

    text: float = 0.0
    """Bytes of documents or files."""
    documents: float = 0.0
    rows: float = 0.0
    length: int = 0
    """Positions of a row."""
    attended: float = 0.0
    """Positions of its own row that a token attends to, on average."""
    slots: tuple[int, int] = (0, 0)
    """Pieces to predict and moved pieces in a row."""
    pieces: int = 0
    """Size of the vocabulary."""
    examples: Mapping[str, float] = field(default_factory=dict)
    """Examples of a benchmark by split, in the order of ``SPLITS``."""
    example_length: float = 0.0
    """Mean number of pieces in an example."""
    config: AnyConfig | None = None


@dataclass(frozen=True)
class Work:
    """The work of a stage."""

    units: float = 0.0
    """In the unit of its kind of stage."""
    written: float = 0.0
    """Output, in its own unit."""
    operations: float = 0.0
    """Floating-point operations of training, in ``precision``."""
    muon_operations: float = 0.0
    """Operations of Muon's updates, in ``muon_arithmetic``."""
    muon_arithmetic: str = "fp32"
    steps: float = 0.0
    width: int = 0
    precision: str = "fp32"
    tf32: bool = False
    """Whether GPUs multiply in TF32 where the precision is fp32, as in pretraining alone."""
    memory: float = 0.0
    """Bytes in addition to those of the rate."""
    format: str = ""
    at_most_seconds: float = math.inf
    network: bool = False
    """Whether it waits for remote servers, so its time is unknown."""


Given = Mapping[str, Volume]
"""Volumes of inputs by role."""


def estimate(stage: Stage[Any], spec: Any, given: Given) -> tuple[Volume, Work]:
    """Estimate the volume of an artifact of a stage and the work to build it."""
    return _KINDS.get(stage.name, _plain)(spec, given, figures().rates.get(stage.name, Rate()))


def _plain(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    """Any other stage: the more inputs, the more work."""
    return Volume(), Work(units=len(given), written=1)


def _downloaded(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    path = getattr(spec, "path", None)
    size = unpacked(path.path) if isinstance(path, InputPath) else 0.0
    return Volume(text=size), Work(units=size / 1e6, written=size, network=path is None)


def _extract(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    raw = sum(unpacked(path.path, spec.members, spec.exclude) for path in spec.paths) + _text(given)
    text = raw * rate.kept_by_format.get(spec.format, rate.kept)
    documents = text / _bytes_per_document(spec)
    return Volume(text=text, documents=documents), Work(units=raw / 1e6, written=text, format=spec.format)


def _bytes_per_document(spec: Any) -> float:
    """Return the mean size of a source's records, by the beginning of its first file if these have marks."""
    mark = _RECORD_MARKS.get(spec.document if spec.format == "text" else spec.format)
    if spec.document != "file" and mark is not None:
        for path in spec.paths:
            _, block = next(_blocks(path.path), ("", b""))
            if found := block.count(mark):
                return len(block) / found
    return _BYTES_PER_DOCUMENT


def _corpus(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    text, documents = _text(given), sum(volume.documents for volume in given.values())
    made = Volume(text=text * rate.kept, documents=documents * rate.kept)
    return made, Work(units=text / 1e6 + documents * rate.units_per_document, written=made.text)


def _split(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    text = _text(given)
    wanted = {"test": spec.test_sentences, "valid": spec.valid_sentences, "train": spec.train_sentences}[spec.part]
    kept = text if wanted is None else min(text, wanted * _BYTES_PER_SENTENCE)
    return Volume(text=kept), Work(units=text / 1e6, written=kept)


def _text(given: Given) -> float:
    return float(sum(volume.text for volume in given.values()))


def _vocab(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    sampled = min(_text(given), spec.sample_sentences * _BYTES_PER_SENTENCE)
    return Volume(pieces=spec.size), Work(units=sampled / 1e6, written=spec.size)


def _kept_tokenizer(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    return Volume(pieces=given["source"].pieces), Work(units=given["documents"].text / 1e6, written=given["source"].pieces)


def _vocab_sizes(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    return Volume(), Work(units=given["documents"].text / 1e6 * len(spec.sizes), written=sum(spec.sizes))


def _bytes_per_piece(pieces: int) -> float:
    """Return bytes of Korean text for each piece of a vocabulary: 4.45 at 8,000, 5.3 at 32,000 (docs/results.md, scale.md)."""
    return float(4.45 * (max(pieces, 256) / 8_000) ** 0.126)


def _examples(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    text, pieces = given["documents"].text, given["vocab"].pieces
    rows = text / _bytes_per_piece(pieces) / (_FILLED_SHARE * spec.sequence_length)
    # Of the articles, cut into rows of 64 to 16,384 pieces, this is within 3 % of the count.
    attended = 1 / (1 / spec.sequence_length + 1 / _PIECES_AROUND)
    made = Volume(rows=rows, length=spec.sequence_length, attended=attended, pieces=pieces)
    return made, Work(units=text / 1e6, written=rows * spec.sequence_length)


def _views(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    rows = given["examples"]
    positions = rows.rows * rows.length * (spec.views if spec.stored else 0.01)
    slots = spec.masking.slots(rows.length), spec.word_order.slots(rows.length)
    return replace(rows, slots=slots), Work(units=positions / 1e6, written=positions)


def _cooccurrence(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    rows = given["examples"]
    # Counting 12,000 positions takes as long as computing the vector of one piece.
    counted = min(spec.max_tokens, rows.rows * rows.length) / 12_000
    return Volume(), Work(units=(rows.pieces + counted) / 1e3, written=rows.pieces * 512)


def _pretrain(spec: PretrainSpec, given: Given, rate: Rate) -> tuple[Volume, Work]:
    long = "_long" if spec.long else ""
    initial = given["initial"].config if "initial" in given else None
    length, pieces = given["examples" + long].length, given["vocab"].pieces
    config = initial
    if config is None or spec.fits(config):
        config = spec.config_for(vocab_size=pieces, sequence_length=length)
    starts = sorted({0, *(phase.until_step for phase in spec.batch_warmup), *([spec.long.from_step] if spec.long else [])})
    operations, activations = 0, 0.0
    for start, end in pairwise([*starts, spec.steps]):
        noise = given["views" + (long if spec.is_long(start) else "")]
        mlm, wop = noise.slots
        seen = None if spec.packing == "none" else round(noise.attended)
        each = training_flops(config, length=noise.length, mlm_slots=mlm, wop_slots=wop, seen=seen)
        operations += (end - start) * spec.batch_at(start) * each
        activations = max(activations, _activations(config, spec.micro_batch_at(start), noise.length, spec.precision))
    parameters = expected_parameters(config)
    muon, arithmetic = 0, "fp32"
    if isinstance(spec.optimizer, MuonSpec):
        arithmetic = spec.optimizer.arithmetic
        muon = spec.steps * _MUON_OPERATIONS * config.hidden_size * (parameters - config.table_rows * config.embedding_size)
    memory = parameters * _BYTES_PER_TRAINED_PARAMETER + activations
    return Volume(config=config, pieces=pieces), Work(
        written=parameters * (1 + len(spec.snapshots)),
        operations=operations,
        muon_operations=muon,
        muon_arithmetic=arithmetic,
        steps=spec.steps,
        width=config.hidden_size,
        precision=spec.precision,
        tf32=True,
        memory=memory,
        at_most_seconds=spec.stop_after_seconds or math.inf,
    )


def _activations(config: AnyConfig, sequences: float, length: int, precision: str) -> float:
    """Return the bytes that a forward pass keeps for the backward pass, as measured on a processor (docs/results.md).

    Attention scores are kept if they are computed as matrix products or with dropout; fused kernels keep none.
    """
    half = precision in HALF
    keeps_scores = config.attention_dropout or (half and length <= _MAX_MATRIX_ATTENTION)
    seen = float(length if keeps_scores else 0)
    each = 50 if half else 120
    if isinstance(config, ModernConfig):
        each = 50 if half else 85
        globally = -(-config.num_layers // config.global_every) / config.num_layers
        seen = globally * seen + (1 - globally) * (min(length, 1.5 * config.local_attention) if half else 0)
    layer = each * config.hidden_size + (5 if half else 8) * config.num_heads * seen
    logits = (0.3 if half else 1.2) * config.vocab_size
    return sequences * length * (config.num_layers * layer + logits)


def _model(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    """A stage that writes the model that it reads as input or from a directory."""
    made = given.get("model") or given.get("pretrain") or given.get("source") or Volume()
    directory = spec.directory() if hasattr(spec, "directory") else None
    if directory is not None:
        config = checkpoint.read_config(directory)
        made = Volume(config=config, pieces=config.vocab_size)
    return made, Work(written=expected_parameters(made.config) if made.config else 0)


def _transfer(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    source, pieces = given["source"].config, given["vocab"].pieces
    if source is None:
        return Volume(), Work()
    config = target_config(source, spec, vocab_size=pieces)
    return Volume(config=config, pieces=pieces), Work(written=expected_parameters(config))


def _features(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    model = given["model"]
    counts, pieces = dict.fromkeys(SPLITS, 0.0), 0.0
    for split in SPLITS:
        place, member = getattr(spec, split), getattr(spec, f"{split}_member")
        if isinstance(place, InputPath):
            counts[split], size = _benchmark(place.path, member)
            pieces += size / _bytes_per_piece(model.pieces)
    read = sum(counts.values())
    length = min(spec.max_length, pieces / read + 2) if read else spec.max_length
    counts["test"] = counts["test"] or counts["train"] * (spec.test_share or 0)
    counts["dev"] = counts["dev"] or counts["train"] * _DEV_SHARE
    for split in SPLITS:
        counts[split] = min(counts[split], getattr(spec, f"max_{split}_examples") or math.inf)
    positions = sum(counts.values()) * length
    made = replace(model, examples=counts, example_length=length)
    return made, Work(units=pieces / 1e6, written=positions)


def _finetune(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    data = given.get("features") or _features(spec, given, rate)[0]
    train, dev, test = (data.examples[split] for split in SPLITS)
    steps = spec.steps or spec.epochs * max(1.0, train / spec.batch_size)
    epochs = steps * spec.batch_size / train if spec.steps and train else spec.epochs
    written = dev + test * spec.tested
    config = given["model"].config
    if config is None:
        return Volume(), Work(written=written, steps=steps)
    each = training_flops(config, length=round(data.example_length), mlm_slots=0, wop_slots=0)
    passes = epochs * (train + dev / 3) + (dev + test * spec.tested) / 3
    at_once = spec.micro_batch_size or spec.batch_size
    memory = expected_parameters(config) * _BYTES_PER_TRAINED_PARAMETER + _activations(
        config, at_once, spec.max_length, spec.precision
    )
    work = Work(
        written=written,
        operations=passes * each,
        steps=steps + (epochs * dev + test) / 64 / 3,
        width=config.hidden_size,
        precision=spec.precision,
        memory=memory,
    )
    return Volume(examples={"test": test}), work


def _bi_encoder(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    model = given["model"]
    if model.config is None:
        return model, Work()
    pairs, size = _benchmark(spec.train.path, spec.train_member)
    triples = min(pairs / _PAIRS_PER_TRIPLE, spec.max_triples or math.inf)
    length = round(min(spec.max_length, size / max(1, pairs) / 2 / _bytes_per_piece(model.pieces) + 2))
    each = training_flops(model.config, length=length, mlm_slots=0, wop_slots=0)
    parameters, sentences = expected_parameters(model.config), 3 * triples * spec.epochs
    activations = _activations(model.config, 3 * spec.batch_size, spec.max_length, "fp32")
    work = Work(
        written=parameters,
        operations=sentences * each,
        steps=sentences / 3 / spec.batch_size,
        width=model.config.hidden_size,
        precision="fp32",
        memory=parameters * _BYTES_PER_TRAINED_PARAMETER + activations,
    )
    return model, work


def _retrieve(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    size = unpacked(spec.path.path) if isinstance(spec.path, InputPath) else 0.0
    model = given.get("model")
    if spec.system != "vectors" or model is None or model.config is None:
        return Volume(), Work(units=size / 1e6 if spec.system == "bm25-morphemes" else 0.0, written=1)
    pieces = size / _bytes_per_piece(model.pieces)
    each = training_flops(model.config, length=spec.max_length or _PIECES_PER_PASSAGE, mlm_slots=0, wop_slots=0)
    operations = pieces / (spec.max_length or _PIECES_PER_PASSAGE) * each / 3
    return Volume(), Work(written=1, operations=operations, width=model.config.hidden_size, precision=spec.precision)


def _summary(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    tested = sum(cell.examples.get("test", 0.0) for cell in given.values())
    return Volume(), Work(units=tested * spec.resamples / 1e6, written=1)


def _speed(spec: Any, given: Given, rate: Rate) -> tuple[Volume, Work]:
    # Inference is about as much work as training: three forward passes instead of one with a backward pass.
    turns = (spec.steps + spec.warmup_steps) * len(spec.architectures) * (1 + spec.inference)
    return Volume(), Work(units=turns * spec.batch_size * spec.sequence_length / 4096 / spec.shrink**1.5, written=1)


_KINDS: Mapping[str, Callable[[Any, Given, Rate], tuple[Volume, Work]]] = {
    **dict.fromkeys(("crawl", "fetch"), _downloaded),
    "extract": _extract,
    **dict.fromkeys(("clean", "dedup", "quality", "balance"), _corpus),
    "xpt_split": _split,
    "vocab": _vocab,
    "vocab_sizes": _vocab_sizes,
    "examples": _examples,
    "views": _views,
    "cooccurrence": _cooccurrence,
    **dict.fromkeys(("pretrain", "xpt_phase"), _pretrain),
    **dict.fromkeys(("export", "encoder", "xpt_source", "xpt_swap"), _model),
    "xpt_tokenizer": _kept_tokenizer,
    "xpt_transfer": _transfer,
    "features": _features,
    "finetune": _finetune,
    "bi_encoder": _bi_encoder,
    "retrieval": _retrieve,
    "summary": _summary,
    "speed": _speed,
}
"""Estimators by the name of the stage."""


@lru_cache(maxsize=256)
def unpacked(path: Path, members: str = "*", exclude: tuple[str, ...] = ()) -> float:
    """Estimate the unpacked bytes of a file, directory or archive; 0 if it does not exist.

    Files within count if they match ``members`` and not ``exclude``, with the patterns of the extract stage.
    """
    wanted = MemberFilter(members, exclude)
    if path.is_dir():
        inside = ((file, file.relative_to(path).as_posix()) for file in files_of(path))
        return float(sum(unpacked(one, members, exclude) for one, name in inside if wanted.opens(name)))
    if not path.is_file():
        return 0.0
    if is_archive(path.name):
        return _unpacked_archive(path, wanted)
    size, packing = path.stat().st_size, PACKED.get(path.suffix.lower())
    if packing is None or size > _MAX_UNPACKED_BYTES:
        return size * (packing or 1)
    return float(sum(len(block) for _, block in _blocks(path)))


def _unpacked_archive(path: Path, members: MemberFilter) -> float:
    size = path.stat().st_size
    if size > _MAX_UNPACKED_BYTES and path.suffix.lower() == ".zip":
        with suppress(zipfile.BadZipFile, OSError):
            return float(sum(one.file_size for one in zipfile.ZipFile(path).infolist() if members.takes(one.filename)))
    wanted = total = 0
    for member, block in _blocks(path):
        wanted, total = wanted + len(block) * members.takes(member), total + len(block)
        if total >= _MAX_UNPACKED_BYTES < size:
            return size * PACKED.get(path.suffix.lower(), 1) * wanted / total
    return wanted


def _blocks(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the unpacked blocks of a file or archive, each with the name of its member, up to the first unreadable one."""
    with suppress(ReadFault, OSError):
        for raw in open_files([path], "*", ReadLimits()):
            while not isinstance(raw, Quarantined) and (block := raw.read()):
                yield member_of(path, raw.name), block


@lru_cache(maxsize=256)
def _benchmark(path: Path, member: str) -> tuple[float, float]:
    """Estimate the number of examples and of bytes in a benchmark file."""
    size = unpacked(path, f"*{member}" if member else "*")
    if (member or path.name).split(".", 1)[-1].startswith("json"):
        return size / _BYTES_PER_EXAMPLE, size
    with suppress(ReadFault, OSError):
        for raw in open_files([path], f"*{member}" if member else "*", ReadLimits()):
            if not isinstance(raw, Quarantined):
                begin = raw.read(1 << 18)
                return size * begin.count(b"\n") / max(1, len(begin)), size
    return size / _BYTES_PER_EXAMPLE, size
