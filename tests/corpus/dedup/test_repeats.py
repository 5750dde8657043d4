from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.corpus.dedup import repeats
from korealbert.corpus.dedup.evaluation_files import EvaluationFile
from korealbert.corpus.dedup.repeats import Repeats
from korealbert.corpus.dedup.stage import STAGE, DedupSpec
from korealbert.documents.schema import Document
from tests.corpus.documents_made import document, dropped, kept, prose, ran, stored

NOTICE = "이 글의 저작권은 글쓴이에게 있으며 옮겨 실을 때에는 출처를 밝혀야 합니다."


def spec(**fields: Any) -> DedupSpec:
    return DedupSpec.model_validate({"near": False, "repeats": fields})


def out(tmp_path: Path, asked: DedupSpec, documents: list[Document], *, per_shard: int = 2) -> tuple[dict[str, Any], Path]:
    directory = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
    inputs = {"all": stored(directory / "in", documents, per_shard)}
    return ran(STAGE, asked, inputs, directory / "out"), directory / "out"


def texts(directory: Path) -> dict[str, str]:
    return {one.id: one.text for one in kept(directory)}


def logged(directory: Path) -> dict[str, list[tuple[str, int, str]]]:
    found: dict[str, list[tuple[str, int, str]]] = {}
    for path in sorted(directory.glob("repeats-*.arrow")):
        for name, *row in pl.read_ipc(path).iter_rows():
            found.setdefault(name, []).append(tuple(row))
    return found


def restored(directory: Path) -> dict[str, str]:
    whole = texts(directory)
    for name, rows in logged(directory).items():
        for _, start, text in rows:
            whole[name] = whole[name][:start] + text + whole[name][start:]
    return whole


def with_notice(seed: int, sentences: int, **fields: str) -> Document:
    first, _, rest = prose(seed, sentences).partition("\n")
    return document(seed, f"{first}\n{NOTICE}\n{rest}", **fields)


@pytest.mark.parametrize(("most", "stays"), [(1, ["long"]), (2, ["long", "middle"]), (3, ["long", "middle", "short"])])
def test_the_longest_documents_keep_a_limited_number_of_copies(most: int, stays: list[str], tmp_path: Path) -> None:
    names = {with_notice(1, 4).id: "short", with_notice(2, 9).id: "long", with_notice(3, 6).id: "middle"}
    documents = [with_notice(1, 4), with_notice(2, 9), with_notice(3, 6), document(4, prose(4, 5))]
    stats, directory = out(tmp_path, spec(sentences=most), documents)
    assert sorted(names[name] for name, text in texts(directory).items() if NOTICE in text) == stays
    assert restored(directory) == {one.id: one.text for one in documents}
    assert stats["characters_repeated"] == ({"sentences": (3 - most) * (len(NOTICE) + 1)} if most < 3 else {})
    assert stats["documents_out"] == 4
    assert all("\n\n" not in text for text in texts(directory).values())


def test_the_first_source_keeps_its_copy(tmp_path: Path) -> None:
    documents = [with_notice(1, 12, source="web"), with_notice(2, 3, source="wiki")]
    asked = spec(sentences=1).model_copy(update={"priority": ("wiki",)})
    _, directory = out(tmp_path, asked, documents)
    assert [one.source for one in kept(directory) if NOTICE in one.text] == ["wiki"]


def test_copies_in_documents_that_go_do_not_count(tmp_path: Path) -> None:
    twice = with_notice(1, 9).text
    documents = [document("a", twice), document("b", twice), with_notice(3, 4)]
    _, directory = out(tmp_path, spec(sentences=2), documents)
    assert sorted(reason for reason, _ in dropped(directory).values()) == ["exact_duplicate"]
    assert sum(NOTICE in text for text in texts(directory).values()) == 2


def test_short_lines_stay(tmp_path: Path) -> None:
    documents = [document(seed, f"생애\n{prose(seed, 5)}") for seed in range(4)]
    _, directory = out(tmp_path, spec(sentences=1), documents)
    assert {text.split("\n")[0] for text in texts(directory).values()} == {"생애"}


def test_paragraphs(tmp_path: Path) -> None:
    common = prose(50, 3)
    documents = [document(seed, f"{prose(seed, 3 + seed)}\n\n{common}\n\n{prose(seed + 20, 2)}") for seed in range(3)]
    documents.append(document(9, f"{common.splitlines()[0]}\n{prose(9, 3)}"))
    stats, directory = out(tmp_path, spec(paragraphs=1), documents)
    held = [one for one in kept(directory) if common in one.text]
    assert [one.id for one in held] == [documents[2].id]
    assert texts(directory)[documents[0].id] == f"{prose(0, 3)}\n\n{prose(20, 2)}"
    assert texts(directory)[documents[3].id] == documents[3].text
    assert restored(directory) == {one.id: one.text for one in documents}
    assert set(stats["characters_repeated"]) == {"paragraphs"}


def test_runs_of_words_are_removed_wherever_sentences_end(tmp_path: Path) -> None:
    words = prose(70, 4).replace("\n", " ").split()
    run = " ".join(words[:20])
    better = document(1, f"{prose(1, 8)}\n{run}\n{prose(2, 3)}")
    around = "앞에 서서 오래 기다리던 사람들이 모두", "이렇게 길게 이어지는 말까지 다 들었다고 한다."
    worse = document(2, f"{around[0]} {' '.join(words[:9])}\n{' '.join(words[9:20])} {around[1]}")
    stats, directory = out(tmp_path, spec(words=15, min_letters=10), [worse, better])
    assert texts(directory) == {better.id: better.text, worse.id: "\n".join(around)}
    assert restored(directory)[worse.id] == worse.text
    assert stats["characters_repeated"] == {"words": len(worse.text) - len("\n".join(around))}


def test_neighbouring_lines_are_logged_by_what_repeats_in_them(tmp_path: Path) -> None:
    sentence, run = prose(71, 1), prose(70, 2).replace("\n", " ")
    before, behind = document(1, f"{prose(1, 4)}\n{sentence}\n{prose(2, 3)}"), document(2, f"{prose(3, 4)} {run} {prose(4, 3)}")
    worse = document(3, f"{prose(5, 1)}\n{sentence}\n{run}")
    stats, directory = out(tmp_path, spec(sentences=1, words=8, min_letters=10), [before, behind, worse])
    assert texts(directory)[worse.id] == prose(5, 1)
    assert restored(directory)[worse.id] == worse.text
    kinds = [(kind, len(text)) for kind, _, text in logged(directory)[worse.id]]
    assert stats["characters_repeated"] == {kind: sum(n for other, n in kinds if other == kind) for kind, _ in kinds}
    assert {kind for kind, _ in kinds} == {"sentences", "words"}


def test_a_short_rest_of_a_line_is_removed(tmp_path: Path) -> None:
    run = prose(70, 4).replace("\n", " ")
    documents = [document(1, f"{prose(1, 8)}\n{run}"), document(2, f"{prose(3, 2)}\n그리고 {run}")]
    _, directory = out(tmp_path, spec(words=12), documents)
    assert texts(directory)[documents[1].id] == prose(3, 2)


def test_one_repetition_of_a_refrain_is_kept(tmp_path: Path) -> None:
    refrain = "바람이 분다 강물이 흐른다 언덕을 넘어 마을로 간다 그리고 다시 돌아온다"
    text = " ".join([refrain] * 12)
    _, directory = out(tmp_path, spec(words=11, min_letters=1), [document(1, text)])
    [left] = texts(directory).values()
    assert left == refrain


def test_a_document_of_repeats_only_is_dropped(tmp_path: Path) -> None:
    documents = [document(1, prose(1, 9)), document(2, "\n".join(prose(1, 9).split("\n")[2:5]))]
    stats, directory = out(tmp_path, spec(sentences=1), documents)
    assert dropped(directory) == {documents[1].id: ("repeated", "sentences: nothing else in it")}
    assert stats["characters_repeated"] == {}


def test_a_shortened_document_is_decontaminated_again(tmp_path: Path) -> None:
    question = "마을의 우체국은 언제 문을 여는가 하는 물음이다."
    (tmp_path / "set.jsonl").write_text(f'{{"text": "{question}"}}\n', "utf-8")
    halves = question.split(" ", 4)
    first = f"{' '.join(halves[:4])}\n{NOTICE}\n{halves[4]}"
    evaluation = EvaluationFile.model_validate(
        {"name": "set", "path": str(tmp_path / "set.jsonl"), "format": "jsonl", "columns": ["text"]}
    )
    asked = spec(sentences=1).model_copy(update={"decontaminate": (evaluation,)})
    documents = [with_notice(1, 9), document(2, f"{first}\n\n{prose(3, 2)}")]
    _, directory = out(tmp_path, asked, documents)
    assert texts(directory)[documents[1].id] == prose(3, 2)


WORDS = st.sampled_from(["강물이", "바람이", "분다.", "언덕을", "넘어", "마을로", "간다.", "다시"])
DOCUMENTS = st.lists(
    st.lists(st.lists(WORDS, min_size=1, max_size=14).map(" ".join), min_size=1, max_size=5), min_size=1, max_size=7
)


def windows_that_go(ordered: list[str], width: int) -> list[set[int]]:
    """Return the removed words of each text, found by looking at one window after the other."""
    first: dict[tuple[str, ...], tuple[int, int]] = {}
    goes: list[set[int]] = []
    for number, text in enumerate(ordered):
        words, gone = text.split(), set[int]()
        for place in range(len(words) - width + 1):
            where = first.setdefault(tuple(words[place : place + width]), (number, place))
            if where[0] != number or place - where[1] >= width:
                gone |= set(range(place, place + width))
        goes.append(gone)
    return goes


@settings(max_examples=12)
@given(DOCUMENTS, st.integers(1, 3), st.integers(1, 3))
def test_the_result_equals_that_of_a_loop_over_windows(lines: list[list[str]], per_shard: int, rows: int) -> None:
    documents = [document(number, "\n".join(one)) for number, one in enumerate(lines)]
    ordered = sorted(documents, key=lambda one: (-len(one.text), one.id))
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "ROWS_PER_RANGE", rows * 3)
        asked = DedupSpec.model_validate({"near": False, "repeats": {"words": 8, "min_letters": 1}})
        _, directory = out(Path(name), asked, documents, per_shard=per_shard)
        gone = dropped(directory)
        ordered = [one for one in ordered if gone.get(one.id, ("",))[0] != "exact_duplicate"]
        left, whole = texts(directory), restored(directory)
    for one, places in zip(ordered, windows_that_go([one.text for one in ordered], 8), strict=True):
        words = [word for place, word in enumerate(one.text.split()) if place not in places]
        if not words:
            assert gone[one.id][0] == "repeated"
        else:
            assert left[one.id].split() == words
            assert whole[one.id] == one.text
            assert left[one.id] == left[one.id].strip() and "\n\n" not in left[one.id] and "  " not in left[one.id]


def test_shards_order_and_ranges_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [with_notice(seed, 3 + seed % 5) for seed in range(12)]
    documents += [document(f"p{seed}", f"{prose(seed, 2)}\n\n{prose(60, 3)}") for seed in range(20, 26)]
    asked = spec(sentences=2, paragraphs=1, words=12)
    expected = texts(out(tmp_path, asked, documents)[1])
    monkeypatch.setattr(repeats, "ROWS_PER_RANGE", 7)
    assert texts(out(tmp_path, asked, documents[::-1], per_shard=5)[1]) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [({}, "set sentences, paragraphs or words"), ({"words": 3}, "runs of 3 words are ordinary phrases; set 8 or more")],
)
def test_inconsistent_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Repeats.model_validate(fields)


def test_without_repeats_the_identity_is_as_before() -> None:
    assert "repeats" not in DedupSpec().as_before()
