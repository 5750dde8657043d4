"""Stage `retrieval` (labels ``retrieval/COLLECTION/SYSTEM``): rank documents for queries with one system, and score it.

Input role ``model``: a directory in Hugging Face format, not needed for BM25 over morphemes; ``pretrain``: its training, for
fresh weights of models whose format cannot express how layers share parameters; ``data``: the downloaded collection, if the
spec names it by URL. A text's vector is the mean over all its pieces, including special ones, and documents are ranked by
cosine, as by ``SentenceTransformer(directory)`` with mean pooling.

Output: ``metrics.json`` (``official``: means over the judged queries like ``pytrec_eval``; ``corrected``: means over queries
with a relevant document; sizes and warnings), ``queries.arrow`` (scores of each query) and ``rankings.arrow`` (ranked documents
of each query, with the scores of the system).

Shapes: Q queries, N documents, C documents of a chunk, K documents found, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from korealbert.artifact import Deployment, Inputs, Progress, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.documents.shards import TableWriter
from korealbert.finetune.definition_file import DataFile, RemoteFile
from korealbert.finetune.features import local_path
from korealbert.finetune.retrieval.collection import Collection, read_collection
from korealbert.finetune.retrieval.ranking import METRIC, METRICS, Bm25, ranking_scores
from korealbert.finetune.spec import Init, Precision
from korealbert.finetune.task import Example
from korealbert.finetune.task_types.sequence import encode_sequences
from korealbert.pretrain.runtime import TrainingRuntime, check_device, pick_device
from korealbert.vocab.morphemes import morphemes

if TYPE_CHECKING:
    from korealbert.finetune.encoders.encoder import Encoder

System = Literal["vectors", "bm25-morphemes", "bm25-pieces"]

BASELINES: tuple[System, ...] = ("bm25-morphemes", "bm25-pieces")
"""Systems without training. Pieces are those of the encoder's tokenizer."""

_DOCUMENTS_PER_CHUNK = 20_000
"""Number of documents whose vectors are in memory at once."""
_Vectors = npt.NDArray[np.float32]


class CollectionSpec(Spec):
    """A collection in BEIR's format: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``."""

    path: DataFile
    """Directory or archive of the collection, whose files may be compressed; or a table with URL and checksum of an archive."""
    split: str = Field(default="test", pattern=r"^[\w.-]+$")
    """Judgements to score: the name of a file in ``qrels``."""

    def read(self, inputs: Inputs, role: str = "data") -> Collection:
        """Read the collection. Raises ValueError and FileNotFoundError as ``read_collection``."""
        return read_collection(local_path(self.path, inputs, role), self.split)

    @property
    def remote(self) -> RemoteFile | None:
        """The file to download, if the collection is named by URL."""
        return self.path if isinstance(self.path, RemoteFile) else None


class RetrievalSpec(CollectionSpec):
    """One system on one collection."""

    system: System = "vectors"
    """``vectors``: cosine of mean vectors. ``bm25-morphemes``, ``bm25-pieces``: BM25 over Kiwi's morphemes, or over the pieces
    of the model's tokenizer."""
    init: Init = "pretrained"
    """``pretrained``: the model's weights. ``random``: fresh weights."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of fresh weights."""
    depth: int = Field(default=1000, ge=1)
    """Number of documents per query."""
    max_length: int | None = Field(default=None, ge=8)
    """Longest text in pieces, with special pieces; longer ones are cut. None: the tokenizer's limit."""
    query_prefix: str = ""
    """Text before each query, such as ``query: `` for encoders that were trained with it."""
    document_prefix: str = ""
    """Text before each document."""
    ignore_identical_ids: bool = False
    """Leave out the document with the query's own id, as BEIR does for collections whose queries are also documents."""
    k1: float = Field(default=1.2, ge=0)
    """BM25's k1: saturation of repeated terms. Elasticsearch's default."""
    b: float = Field(default=0.75, ge=0, le=1)
    """BM25's b: normalisation by document length. Elasticsearch's default."""
    precision: Precision = "fp32"
    """``bf16`` is for GPUs and for CPUs with units for it."""


class RetrievalStats(Statistics):
    """The official mean scores, times 100, and the sizes of the collection."""

    scores: dict[str, float]
    documents: int
    queries: int
    judgements: int
    warnings: list[str]


class _Found(NamedTuple):
    """Documents of one query as positions in the list of all, best first, and their scores."""

    place_K: npt.NDArray[np.int64]
    score_K: _Vectors


def highest(score_N: _Vectors, depth: int) -> npt.NDArray[np.int64]:
    """Return the positions of the ``depth`` highest scores, highest first; equal scores by position."""
    kept = np.arange(len(score_N))
    if depth < len(score_N):
        least = np.partition(score_N, -depth)[-depth]
        above = np.flatnonzero(score_N > least)
        kept = np.sort(np.concatenate([above, np.flatnonzero(score_N == least)[: depth - len(above)]]))
    ordered: npt.NDArray[np.int64] = kept[np.argsort(-score_N[kept], kind="stable")]
    return ordered


def run(spec: RetrievalSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> RetrievalStats:
    """Rank the documents of each query, and score the rankings."""
    collection = spec.read(inputs)
    # In reverse order of ids, equal scores are ranked as in trec_eval.
    names = sorted(collection.documents, reverse=True)
    own = {name: place for place, name in enumerate(names) if spec.ignore_identical_ids and name in collection.queries}
    depth = spec.depth + bool(own)
    if spec.system == "vectors":
        found, how = _by_vectors(spec, inputs, collection, names, depth, TrainingRuntime.of(runtime))
    else:
        found, how = _by_terms(spec, inputs, collection, names, depth, runtime), {"k1": spec.k1, "b": spec.b}
    scores = {}
    with TableWriter(out_dir / "rankings.arrow", _RANKINGS) as table:
        for query, (place_K, score_K) in zip(collection.queries, found, strict=True):
            kept = [n for n, place in enumerate(place_K) if place != own.get(query)][: spec.depth]
            ranked = [names[place_K[n]] for n in kept]
            for rank, (document, n) in enumerate(zip(ranked, kept, strict=True), start=1):
                table.append((query, rank, document, float(score_K[n])))
            scores[query] = ranking_scores(ranked, collection.judged[query])
    with TableWriter(out_dir / "queries.arrow", _QUERIES) as table:
        for query, values in scores.items():
            table.append((query, query not in collection.without_relevant, *values.values()))
    sizes = {
        "documents": len(names),
        "queries": len(collection.queries),
        "judgements": collection.judgements,
        "without_relevant": len(collection.without_relevant),
    }
    official = _means(list(scores.values()))
    corrected = _means([values for query, values in scores.items() if query not in collection.without_relevant])
    described = {"system": spec.system, "init": spec.init, "seed": spec.seed, **how, "depth": spec.depth, "split": spec.split}
    measured = {"metric": METRIC, "official": official, "corrected": corrected, **sizes, "warnings": list(collection.warnings)}
    write_json(out_dir / "metrics.json", {**described, **measured})
    del sizes["without_relevant"]
    return RetrievalStats.of({"scores": official, **sizes, "warnings": list(collection.warnings)})


_RANKINGS = pa.schema(
    [("query", pa.string()), ("rank", pa.int32()), ("document", pa.string()), ("score", pa.float32())],
)
_QUERIES = pa.schema([("query", pa.string()), ("has_relevant", pa.bool_()), *((name, pa.float64()) for name in METRICS)])


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in scores])) for name in METRICS} if scores else {}


def _by_terms(
    spec: RetrievalSpec, inputs: Inputs, collection: Collection, names: Sequence[str], depth: int, runtime: Runtime
) -> list[_Found]:
    terms = _terms(spec, inputs)

    def documents() -> Iterator[Sequence[Any]]:
        for number, name in enumerate(names, start=1):
            yield terms(collection.documents[name])
            if number % _DOCUMENTS_PER_CHUNK == 0 or number == len(names):
                runtime.report(Progress(number, len(names), "documents"))

    index = Bm25(documents(), k1=spec.k1, b=spec.b)
    found = []
    for text in collection.queries.values():
        score_N = index.scores(terms(text))
        places = highest(score_N, depth)
        places = places[score_N[places] > 0]
        found.append(_Found(places, score_N[places]))
    return found


def _terms(spec: RetrievalSpec, inputs: Inputs) -> Callable[[str], Sequence[Any]]:
    """Return the function that splits a text into BM25's terms."""
    if spec.system == "bm25-morphemes":
        return morphemes
    from korealbert.finetune.encoders.tokenizer import load_tokenizer  # noqa: PLC0415 (planning does without)

    tokenizer = load_tokenizer(inputs["model"].path)

    def pieces(text: str) -> Sequence[int]:
        ids: Sequence[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    return pieces


def _by_vectors(
    spec: RetrievalSpec, inputs: Inputs, collection: Collection, names: Sequence[str], depth: int, runtime: TrainingRuntime
) -> tuple[list[_Found], dict[str, Any]]:
    from korealbert.finetune.encoders.encoder import load_input  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.encoders.tokenizer import load_tokenizer  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.loop import repeatable  # noqa: PLC0415 (planning does without)

    device, directory = pick_device(runtime.device), inputs["model"].path
    tokenizer = load_tokenizer(directory)
    with repeatable(seed=spec.seed, threads=runtime.threads, device=device):
        encoder = load_input(inputs, init=spec.init).to(device).eval()
        longest = spec.max_length or min(tokenizer.model_max_length, encoder.max_length)
        encoder.check_length(longest, directory)

        def vectors(texts: Sequence[str]) -> _Vectors:
            return unit_vectors(encoder, texts, tokenizer, max_length=longest, precision=spec.precision)

        query_QH = vectors([spec.query_prefix + text for text in collection.queries.values()])
        found = [_Found(np.empty(0, np.int64), np.empty(0, np.float32))] * len(query_QH)
        for start in range(0, len(names), _DOCUMENTS_PER_CHUNK):
            chunk = names[start : start + _DOCUMENTS_PER_CHUNK]
            score_QC = query_QH @ vectors([spec.document_prefix + collection.documents[name] for name in chunk]).T
            place_C = np.arange(start, start + len(chunk))
            found = [_better(before, place_C, score_C, depth) for before, score_C in zip(found, score_QC, strict=True)]
            runtime.report(Progress(start + len(chunk), len(names), "documents"))
    return found, {"max_length": longest}


def _better(before: _Found, place_C: npt.NDArray[np.int64], score_C: _Vectors, depth: int) -> _Found:
    """Merge the best documents so far with those of a chunk, whose positions are all higher."""
    order = np.argsort(before.place_K)
    place_M = np.concatenate([before.place_K[order], place_C])
    score_M = np.concatenate([before.score_K[order], score_C])
    chosen = highest(score_M, depth)
    return _Found(place_M[chosen], score_M[chosen])


def unit_vectors(
    encoder: Encoder, texts: Sequence[str], tokenizer: Any, *, max_length: int, precision: Precision = "fp32"
) -> _Vectors:
    """Return the mean vectors of texts [N, H], scaled to length 1. Raises ValueError if one is not finite."""
    import torch  # noqa: PLC0415 (planning does without)

    from korealbert.finetune.encoders.encoder import mean_vectors, pad  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.model import EVALUATION_BATCH_SIZE, evaluation_batches  # noqa: PLC0415 (planning does without)

    features = encode_sequences([Example("", text, None) for text in texts], tokenizer, max_length=max_length)
    device = next(encoder.parameters()).device
    vector_NH = np.empty((len(texts), encoder.hidden_size), np.float32)
    with torch.inference_mode():
        for rows in evaluation_batches([len(each.input_ids) for each in features], batch_size=EVALUATION_BATCH_SIZE):
            batch = pad([features[row] for row in rows], pad_id=tokenizer.pad_token_id, device=device)
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                hidden_BLH = encoder(batch).hidden_BLH
            mean_BH = mean_vectors(hidden_BLH.float(), batch.attention_mask_BL)
            vector_NH[rows] = torch.nn.functional.normalize(mean_BH, dim=1).cpu().numpy()
    if not np.isfinite(vector_NH).all():
        raise ValueError("the encoder's vectors are not finite, so nothing can be ranked; look for damaged weights")
    return vector_NH


def _memory_class(spec: RetrievalSpec, inputs: Inputs) -> str:
    return f"{inputs['model'].name if 'model' in inputs else ''} {spec.system} {spec.path} {spec.max_length}"


STAGE = Stage(
    "retrieval",
    version=1,
    spec=RetrievalSpec,
    run=run,
    memory_class=_memory_class,
    check=check_device,
    needs=("torch", "transformers"),
    table="retrieval.NAME",
    inputs={"model": "export"},
    deployment=Deployment("Documents found for queries, beside BM25", gpu=True),
)
