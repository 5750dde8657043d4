"""Retrieval: pytrec_eval's scores, BM25's formula, files in BEIR's format with their defects, and the stage."""

from __future__ import annotations

import gzip
import json
import math
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from korealbert.artifact import Artifact
from korealbert.finetune.retrieval import stage as retrieval
from korealbert.finetune.retrieval.collection import read_collection
from korealbert.finetune.retrieval.ranking import METRICS, Bm25, ranking_scores
from korealbert.finetune.retrieval.stage import RetrievalSpec, highest
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.vocab.morphemes import morphemes

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "pytrec_eval.json").read_text("utf-8"))

CORPUS = [
    {"_id": "d1", "title": "영화", "text": "배우 연기 장면"},
    {"_id": "d2", "title": "", "text": "음악 어제"},
    {"_id": "d3", "text": "친구와 봤는데"},
    {"_id": 4, "title": None, "text": "정말 재밌다 음악"},
]
QUERIES = [{"_id": "q1", "text": "배우 연기"}, {"_id": 2, "text": "음악"}, {"_id": "q3", "text": "이 영화"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\n2\td2\t2\n2\t4\t1\n"


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


@pytest.fixture
def collection(tmp_path: Path) -> Callable[..., Path]:
    """Writes a collection and returns its directory."""

    def write(corpus: str = lines(CORPUS), queries: str = lines(QUERIES), qrels: str = QRELS) -> Path:
        directory = tmp_path / "toy"
        (directory / "qrels").mkdir(parents=True, exist_ok=True)
        files = {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/test.tsv": qrels}
        for name, text in files.items():
            (directory / name).write_text(text, "utf-8")
        return directory

    return write


def trec_order(scores: dict[str, float]) -> list[str]:
    """Documents as ``trec_eval`` orders them: by score in single precision, equal scores by descending id."""
    return sorted(scores, key=lambda document: (np.float32(scores[document]), document), reverse=True)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["case"]))
def test_scores_are_those_of_pytrec_eval(case: dict[str, Any]) -> None:
    scores = ranking_scores(trec_order(case["found"]), case["judged"])
    assert scores == pytest.approx({name: 100 * value for name, value in case["scores"].items()}, abs=1e-10)


def test_the_best_are_those_of_a_full_sort_with_any_ties() -> None:
    random = np.random.default_rng(1)
    for depth in (1, 5, 40, 60):
        score_N = random.integers(0, 6, 40).astype(np.float32)
        expected = sorted(range(40), key=lambda place: (-score_N[place], place))[:depth]
        assert highest(score_N, depth).tolist() == expected


def test_bm25_is_its_formula() -> None:
    random = np.random.default_rng(2)
    texts = [random.choice(list("가나다라마바사아"), random.integers(0, 12)).tolist() for _ in range(30)]
    query, k1, b = list("가가나바없"), 1.2, 0.75
    mean = sum(map(len, texts)) / len(texts)
    expected = []
    for text in texts:
        score, counts = 0.0, Counter(text)
        for term in query:
            having = sum(term in other for other in texts)
            idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            score += idf * counts[term] * (k1 + 1) / (counts[term] + k1 * (1 - b + b * len(text) / mean))
        expected.append(score)
    found = Bm25(texts, k1=k1, b=b).scores(query)
    assert found.tolist() == pytest.approx(expected, rel=1e-6)
    assert [score == 0 for score in found] == [not {*query} & {*text} for text in texts]


def test_a_collection_is_read_with_ids_that_are_numbers_and_without_titles(collection: Callable[..., Path]) -> None:
    found = read_collection(collection(), "test")
    assert found.documents == {"d1": "영화 배우 연기 장면", "d2": "음악 어제", "d3": "친구와 봤는데", "4": "정말 재밌다 음악"}
    assert found.queries == {"q1": "배우 연기", "2": "음악"}, "q3 is not judged"
    assert found.judged == {"q1": {"d1": 1}, "2": {"d2": 2, "4": 1}}
    assert found.warnings == ()


@pytest.mark.parametrize(
    "qrels",
    [
        QRELS.partition("\n")[2],
        "q1 0 d1 1\n2 0 d2 2\n2 0 4 1\n",
        "corpus-id\tscore\tquery-id\nd1\t1\tq1\nd2\t2.0\t2\n4\t1\t2\n",
        "corpus-id\tscore\tannotators\tquery-id\nd1\t1\t5\tq1\nd2\t2\t5\t2\n4\t1\t5\t2\n",
        "query-id\tcorpus-id\tscore\tannotators\nq1\td1\t1\t5\n2\td2\t2\t5\n2\t4\t1\t5\n",
        "Query_ID\titeration\tcorpus_id\tscore\nq1\t0\td1\t1\n2\t0\td2\t2\n2\t0\t4\t1\n",
        QRELS.replace("\n", "\r\n"),
    ],
    ids=["no header", "TREC", "other columns", "four columns", "more at the end", "TREC's with a header", "carriage returns"],
)
def test_judgements_have_one_meaning_in_every_form(collection: Callable[..., Path], qrels: str) -> None:
    assert read_collection(collection(qrels=qrels), "test") == read_collection(collection(), "test")


def test_archives_and_compressed_files_are_the_directory(collection: Callable[..., Path], tmp_path: Path) -> None:
    directory = collection()
    expected = read_collection(directory, "test")
    with tarfile.open(tmp_path / "toy.tar.gz", "w:gz") as tar:
        tar.add(directory, "./toy")
    with zipfile.ZipFile(tmp_path / "toy.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("__MACOSX/toy/._corpus.jsonl", "x")
        for path in directory.rglob("*.*"):
            packed.write(path, f"toy/{path.relative_to(directory)}")
    for name in ("toy.tar.gz", "toy.zip"):
        assert read_collection(tmp_path / name, "test") == expected
    for name, ending, codec in (("corpus.jsonl", "gz", "gzip"), ("queries.jsonl", "zst", "zstd")):
        with pa.CompressedOutputStream(str(directory / f"{name}.{ending}"), codec) as stream:
            stream.write((directory / name).read_bytes())
        (directory / name).unlink()
    assert read_collection(directory, "test") == expected


def test_oddities_are_counted_in_warnings(collection: Callable[..., Path]) -> None:
    corpus = lines([*CORPUS, CORPUS[1], {"_id": "d6", "text": ""}])
    qrels = f"{QRELS}q1\td1\t1\nq3\td1\t0\nq1\tgone\t1\n"
    found = read_collection(collection(corpus=corpus, qrels=qrels), "test")
    assert [warning.partition(";")[0] for warning in found.warnings] == [
        "1 documents stand in the corpus twice with the same text",
        "1 judgements stand in their file twice",
        "1 documents are empty",
        "1 judged documents are not in the corpus",
        "1 queries have no relevant document",
    ]
    assert (len(found.documents), found.judgements, found.without_relevant) == (5, 5, {"q3"})


MISTAKES: dict[str, tuple[dict[str, str], str]] = {
    "two texts of one id": (
        {"corpus": lines([*CORPUS, {"_id": "d2", "text": "다른"}])},
        r"corpus.jsonl, line 5, field '_id': 'd2' is in line 2 too, with another text; keep one",
    ),
    "no id": ({"corpus": '{"text": "x"}\n'}, r"corpus.jsonl, line 1, field '_id': missing; the record has text"),
    "an empty id": ({"queries": '{"_id": "", "text": "x"}\n'}, "queries.jsonl, line 1, field '_id': is empty; give each"),
    "blanks around an id": (
        {"corpus": lines([*CORPUS, {"_id": " d9", "text": "x"}])},
        r"corpus.jsonl, line 5, field '_id': ' d9' has blanks around it; remove them",
    ),
    "no text": ({"queries": '{"_id": "q1"}\n'}, r"queries.jsonl, line 1, field 'text': missing"),
    "another queries file": ({"qrels": "q9\td1\t1\n"}, r"test.tsv, line 1, field 'query-id': no query 'q9' in queries.jsonl"),
    "no number": ({"qrels": QRELS + "q1\td2\thigh\n"}, "test.tsv, line 5, field 'score': found 'high'; a judgement is a whole"),
    "no number at first": ({"qrels": "q1\td2\thigh\n"}, "test.tsv, line 1, field 'score': found 'high'"),
    "a half": ({"qrels": "q1\td2\t0.5\n"}, "found '0.5'; a judgement is a whole number"),
    "too many digits": ({"qrels": f"q1\td1\t{'1' * 5000}\n"}, "line 1, field 'score': found '1{40}'; .* at most 18 digits"),
    "an empty line": ({"qrels": f"{QRELS}\n"}, "test.tsv, line 5, field 'score': the line is empty; remove it"),
    "two columns": ({"qrels": "q1\t1\n"}, "test.tsv, line 1, field 'score': 2 columns; a line holds query-id<TAB>corpus-id"),
    "two judgements": ({"qrels": QRELS + "q1\td1\t2\n"}, "line 5, field 'score': 'd1' was judged 1 for 'q1' above, here 2"),
    "other names": (
        {"qrels": "docid\tqid\trel\nd1\tq1\t1\n"},
        "line 1, field 'query-id': found .*name query-id, corpus-id, score",
    ),
    "a name twice": (
        {"qrels": "query-id\tcorpus-id\tscore\tscore\nq1\td1\t1\t0\n"},
        "line 1, field 'score': found .*does not name each column once",
    ),
    "another width": (
        {"qrels": "query-id\tcorpus-id\tscore\tannotators\nq1\td1\t1\n"},
        "line 2, field 'score': 3 columns; a line holds query-id<TAB>corpus-id<TAB>score<TAB>annotators",
    ),
    "nothing judged": ({"qrels": "query-id\tcorpus-id\tscore\n"}, "holds no judgement; is the download complete"),
    "no documents": ({"corpus": ""}, "corpus.jsonl: holds no record"),
}


@pytest.mark.parametrize(("files", "message"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_read_is_named(collection: Callable[..., Path], files: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_collection(collection(**files), "test")


def test_files_that_are_not_there_are_named(collection: Callable[..., Path], tmp_path: Path) -> None:
    directory = collection()
    with pytest.raises(ValueError, match=r"toy: has no qrels/dev.tsv; set split to one of test"):
        read_collection(directory, "dev")
    with pytest.raises(ValueError, match="neither a directory nor an archive; give the directory"):
        read_collection(directory / "corpus.jsonl", "test")
    with pytest.raises(FileNotFoundError, match="in BEIR's format"):
        read_collection(tmp_path / "nowhere", "test")
    (directory / "queries.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(ValueError, match=r"holds queries.jsonl 2 times \(queries.jsonl, queries.jsonl.gz\); keep one"):
        read_collection(directory, "test")
    for path in directory.glob("queries*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"has no queries.jsonl; it holds corpus.jsonl, qrels/test.tsv"):
        read_collection(directory, "test")


def test_morphemes_are_kiwis_without_punctuation() -> None:
    assert morphemes("어제 영화를 봤다! (KBS 2)") == ["어제", "영화", "를", "보", "었", "다", "kbs", "2"]


def rows(path: Path) -> list[dict[str, Any]]:
    with ipc.open_file(str(path)) as reader:
        found: list[dict[str, Any]] = reader.read_all().to_pylist()
    return found


@pytest.mark.torch
def test_vectors_are_searched_chunk_by_chunk_in_trec_order(
    model: Artifact,
    collection: Callable[..., Path],
    runtime: TrainingRuntime,
    fresh: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compared with vectors by transformers of one text at a time; equal documents come in descending order of ids."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    path = collection(corpus=lines([*CORPUS, {"_id": "d9", "text": "음악 어제"}]))
    monkeypatch.setattr(retrieval, "_DOCUMENTS_PER_CHUNK", 2)
    spec = RetrievalSpec(path=path, depth=4)
    stats = retrieval.run(spec, {"model": model}, fresh("out"), runtime)
    tokenizer, encoder = AutoTokenizer.from_pretrained(model.path), AutoModel.from_pretrained(model.path).eval()

    def vector(text: str) -> torch.Tensor:
        with torch.no_grad():
            return encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)

    texts = read_collection(path, "test").documents
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows(fresh("x").parent / "out" / "rankings.arrow"):
        found.setdefault(row["query"], []).append((row["document"], row["score"]))
    for query, text in {"q1": "배우 연기", "2": "음악"}.items():
        cosines = {name: torch.cosine_similarity(vector(text), vector(each), dim=0).item() for name, each in texts.items()}
        assert [name for name, _ in found[query]] == trec_order({name: round(c, 5) for name, c in cosines.items()})[:4]
        assert [score for _, score in found[query]] == pytest.approx([cosines[name] for name, _ in found[query]], abs=1e-5)
    metrics = json.loads((fresh("y").parent / "out" / "metrics.json").read_text())
    per_query = rows(fresh("z").parent / "out" / "queries.arrow")
    assert metrics["official"]["map"] == pytest.approx(sum(row["map"] for row in per_query) / 2)
    assert stats.scores == metrics["official"] == metrics["corrected"]
    assert list(metrics["official"]) == list(METRICS)
    assert (metrics["documents"], metrics["queries"], metrics["judgements"], metrics["max_length"]) == (5, 2, 3, 64)


@pytest.mark.torch
def test_baselines_find_what_shares_terms_and_means_know_who_has_none_to_find(
    model: Artifact, collection: Callable[..., Path], runtime: TrainingRuntime, fresh: Callable[[str], Path]
) -> None:
    path = collection(qrels=f"{QRELS}q3\td2\t0\n")
    for system in ("bm25-morphemes", "bm25-pieces"):
        out = fresh(system)
        retrieval.run(RetrievalSpec(path=path, system=system), {"model": model}, out, runtime)
        metrics = json.loads((out / "metrics.json").read_text())
        found = [(row["query"], row["document"]) for row in rows(out / "rankings.arrow")]
        assert found[:3] == [("q1", "d1"), ("2", "d2"), ("2", "4")]
        assert metrics["corrected"]["ndcg@10"] == pytest.approx(100)
        assert metrics["official"]["ndcg@10"] == pytest.approx(200 / 3)
        assert (metrics["queries"], metrics["without_relevant"]) == (3, 1)


@pytest.mark.torch
def test_prefixes_are_put_before_queries_and_documents(
    model: Artifact, collection: Callable[..., Path], runtime: TrainingRuntime, fresh: Callable[[str], Path]
) -> None:
    def scores(name: str, path: Path, **fields: str) -> dict[tuple[str, str], float]:
        out = fresh(name)
        retrieval.run(RetrievalSpec(path=path, depth=2, **fields), {"model": model}, out, runtime)
        return {(row["query"], row["document"]): row["score"] for row in rows(out / "rankings.arrow")}

    def texts(before_query: str, before_document: str) -> Path:
        documents = [{"_id": name, "text": before_document + text} for name, text in (("d1", "배우 연기"), ("d2", "음악"))]
        queries = lines([{"_id": "q1", "text": f"{before_query}영화 배우"}])
        return collection(corpus=lines(documents), queries=queries, qrels="q1\td1\t1\n")

    bare = scores("bare", texts("", ""))
    prefixed = scores("prefixed", texts("", ""), query_prefix="어제 ", document_prefix="오늘 영화 ")
    assert prefixed == pytest.approx(scores("written", texts("어제 ", "오늘 영화 ")), abs=1e-6)
    assert all(abs(prefixed[pair] - bare[pair]) > 1e-4 for pair in bare)


@pytest.mark.torch
def test_a_document_with_the_querys_own_id_is_left_out_if_wanted(
    model: Artifact, collection: Callable[..., Path], runtime: TrainingRuntime, fresh: Callable[[str], Path]
) -> None:
    path = collection(queries=lines([{"_id": "d1", "text": "영화 배우"}]), qrels="d1\td2\t1\n")
    spec = RetrievalSpec(path=path, depth=2)
    first = {}
    for name, leave_out in (("kept", False), ("left out", True)):
        retrieval.run(spec.model_copy(update={"ignore_identical_ids": leave_out}), {"model": model}, fresh(name), runtime)
        first[name] = [row["document"] for row in rows(fresh(f"{name}!").parent / name / "rankings.arrow")]
    assert len(first["kept"]) == len(first["left out"]) == 2
    assert "d1" in first["kept"] or first["kept"] == first["left out"]
    assert "d1" not in first["left out"]


@pytest.mark.torch
def test_inputs_that_are_too_long_for_the_encoder_are_refused(
    model: Artifact, collection: Callable[..., Path], runtime: TrainingRuntime, fresh: Callable[[str], Path]
) -> None:
    with pytest.raises(ValueError, match=r"max_length is 65, but .*config.json has positions for 64 pieces; lower it"):
        retrieval.run(RetrievalSpec(path=collection(), max_length=65), {"model": model}, fresh("out"), runtime)


@pytest.mark.torch
def test_vectors_that_are_not_finite_are_refused(
    model: Artifact,
    collection: Callable[..., Path],
    runtime: TrainingRuntime,
    fresh: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    monkeypatch.setattr("korealbert.finetune.encoders.encoder.mean_vectors", lambda hidden, mask: hidden[:, 0] * torch.nan)
    with pytest.raises(ValueError, match="the encoder's vectors are not finite, so nothing can be ranked"):
        retrieval.run(RetrievalSpec(path=collection(), depth=4), {"model": model}, fresh("out"), runtime)
