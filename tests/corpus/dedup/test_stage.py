from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.corpus.dedup import candidates
from korealbert.corpus.dedup.candidates import NEIGHBOURS, Instances, Partitions, near_duplicates, rank_documents
from korealbert.corpus.dedup.repeats import Repeats
from korealbert.corpus.dedup.signatures import (
    BANDS,
    Candidates,
    Compared,
    PrefixHashes,
    Signatures,
    SignatureWriter,
    band_hashes,
    fingerprint,
    jaccard,
    shingles,
    squeeze,
    write_candidates,
)
from korealbert.corpus.dedup.stage import STAGE, DedupSpec
from korealbert.documents.schema import Document
from tests.corpus.dedup.outcomes import outcome
from tests.corpus.documents_made import bytes_of, document, dropped, json_lines, kept, prose, ran, stored
from tests.report.conftest import made


def edited(text: str, every: int) -> str:
    """Exchange every n-th word for two."""
    words = text.split(" ")
    return " ".join(f"바뀐 말{number}" if number % every == 1 else word for number, word in enumerate(words))


def similarity(left: str, right: str) -> float:
    return jaccard(shingles(squeeze(left)), shingles(squeeze(right)))


BASE = prose(1, 40)
NEAR = edited(BASE, 60)
FAR = edited(BASE, 8)


def test_the_texts_of_these_tests_are_as_similar_as_expected() -> None:
    assert 0.85 < similarity(BASE, NEAR) < 1
    assert similarity(BASE, FAR) < 0.7
    assert similarity(BASE, prose(2, 40)) < 0.3


def test_spacing_and_punctuation_do_not_hide_a_copy(tmp_path: Path) -> None:
    copies = [
        document(1, "가을이 왔다. 바람이 분다!"),
        document(2, "가을이왔다\n바람이, 분다"),
        document(3, "가을이 갔다. 바람이 분다!"),
    ]
    survivors, gone = outcome(tmp_path, DedupSpec(), news=copies)
    longest = copies[0].id
    assert survivors == {longest, copies[2].id}
    assert gone == {copies[1].id: ("exact_duplicate", longest)}


def test_near_duplicates_are_dropped_and_less_similar_texts_kept(tmp_path: Path) -> None:
    base, near, far = document(1, BASE), document(2, NEAR), document(3, FAR)
    survivors, gone = outcome(tmp_path, DedupSpec(priority=("news",)), news=[near, far, base])
    better, worse = (base, near) if len(BASE) > len(NEAR) else (near, base)
    assert survivors == {better.id, far.id}
    reason, rule = gone[worse.id]
    assert reason == "near_duplicate"
    assert rule.split()[0] == better.id
    assert float(rule.split()[1]) == pytest.approx(similarity(BASE, NEAR), abs=1e-3)


def test_the_sample_pair_of_two_outlets_is_found(tmp_path: Path, sample_dir: Path) -> None:
    texts = {record["id"]: record["text"] for record in json_lines(sample_dir / "news.jsonl")}
    pair = [document(name, texts[name]) for name in ("yna-20110412-0031", "seoul-20110412-k77")]
    survivors, _ = outcome(tmp_path, DedupSpec(), news=pair)
    assert len(survivors) == 1


def test_the_better_source_wins_over_the_longer_text(tmp_path: Path) -> None:
    wiki, news = document(1, NEAR[: len(NEAR) - 30], "wiki"), document(2, BASE, "news")
    by_priority, _ = outcome(tmp_path / "a", DedupSpec(priority=("wiki", "news")), news=[news], wiki=[wiki])
    by_other, _ = outcome(tmp_path / "b", DedupSpec(priority=("news",)), news=[news], wiki=[wiki])
    assert (by_priority, by_other) == ({wiki.id}, {news.id})


def test_a_chain_of_edits_does_not_fall_as_a_whole(tmp_path: Path) -> None:
    """If A ~ B ~ C, but A and C are less similar than the threshold, only B is dropped."""
    words = BASE.split(" ")
    third = len(words) // 9
    new, other = ([f"{begin}{chr(ord('가') + 28 * n)}말" for n in range(len(words))] for begin in ("새", "딴"))
    middle = " ".join([new[n] if n < third else word for n, word in enumerate(words)])
    end = " ".join([new[n] if n < third else other[n] if n < 2 * third else word for n, word in enumerate(words)])
    assert similarity(BASE, middle) >= 0.75 > similarity(BASE, end)
    assert similarity(middle, end) >= 0.75
    chain = [document("a", BASE, "first"), document("b", middle, "second"), document("c", end, "third")]
    survivors, _ = outcome(
        tmp_path, DedupSpec(threshold=0.75, priority=("first", "second", "third")), **{one.source: [one] for one in chain}
    )
    assert survivors == {chain[0].id, chain[2].id}


def test_the_result_depends_on_neither_order_nor_shards_nor_workers(tmp_path: Path) -> None:
    (tmp_path / "set.txt").write_text(prose(3, 2), "utf-8")
    evaluation = {"name": "set", "path": tmp_path / "set.txt", "format": "lines", "passages": "paragraph"}
    spec = DedupSpec.model_validate({"decontaminate": [evaluation], "repeats": {"sentences": 1, "words": 9}})
    texts = [prose(number % 7, 10) + ("." if number > 7 else "") for number in range(14)]
    texts += [BASE, NEAR, FAR, "", "ㅋ", "!!", "! !", f"{prose(8, 3)}\n{prose(1, 2)}", f"{prose(9, 2)}\n\n{prose(3, 2)}"]
    documents = [document(number, text, ("news", "wiki")[number % 2]) for number, text in enumerate(texts)]
    results, stats = [], []
    for number, (order, per_shard, workers) in enumerate([(1, 5, 1), (1, 5, 2), (-1, 3, 1)]):
        out = tmp_path / f"out{number}"
        sources = {
            name: stored(tmp_path / f"{name}{number}", [one for one in documents[::order] if one.source == name], per_shard)
            for name in ("news", "wiki")
        }
        stats.append(ran(STAGE, spec, sources, out, workers))
        results.append(({one.id: one.text for one in kept(out)}, dropped(out)))
    assert results[0] == results[1] == results[2]
    assert stats[0] == stats[1] and bytes_of(tmp_path / "out0") == bytes_of(tmp_path / "out1")
    assert {reason for reason, _ in results[0][1].values()} >= {"exact_duplicate", "near_duplicate"}
    assert stats[0]["decontaminated"] and stats[0]["characters_repeated"]


def test_deduplicating_again_drops_nothing(tmp_path: Path) -> None:
    documents = [document(number, prose(number // 3, 8) + " 끝" * (number % 3)) for number in range(18)]
    ran(STAGE, DedupSpec(), {"news": stored(tmp_path / "in", documents)}, tmp_path / "once")
    again = ran(STAGE, DedupSpec(), {"news": stored(tmp_path / "mid", kept(tmp_path / "once"))}, tmp_path / "twice")
    assert again["dropped"] == {}
    assert again["documents_out"] == 6


def test_long_and_tiny_documents(tmp_path: Path) -> None:
    long = "".join(f"{number}번째 강물은 {number * 7} 마을로 흐른다. " for number in range(20_000))
    documents = [
        document(1, long),
        document(2, long[:-60]),
        document(3, "가"),
        document(4, "나"),
        document(5, "가!"),
        document(6, "?"),
    ]
    survivors, gone = outcome(tmp_path, DedupSpec(), news=documents)
    assert len(long) > 400_000
    assert gone[documents[1].id][0] == "near_duplicate"
    assert gone[documents[2].id] == ("exact_duplicate", documents[4].id)
    assert survivors == {documents[i].id for i in (0, 3, 4, 5)}


def test_near_copies_stay_if_only_exact_ones_are_dropped(tmp_path: Path) -> None:
    survivors, _ = outcome(tmp_path, DedupSpec(near=False), news=[document(1, BASE), document(2, NEAR), document(3, BASE)])
    assert len(survivors) == 2


def test_empty_inputs(tmp_path: Path) -> None:
    survivors, gone = outcome(tmp_path, DedupSpec(), news=[], wiki=[])
    assert (survivors, gone) == (set(), {})
    only, _ = outcome(tmp_path / "b", DedupSpec(), news=[], wiki=[document(1, BASE, "wiki")])
    assert len(only) == 1


def test_sources_that_cleaning_emptied_are_named_beside_an_evaluation_file(tmp_path: Path) -> None:
    emptied = {"documents_in": 10, "documents_out": 0, "dropped": {"too_short": 10}}
    inputs = {
        "decontaminate.0": made(tmp_path / "store", "fetch/nsmc", {"bytes": 1, "files": 1}),
        "news": made(tmp_path / "store", "clean/news", emptied),
    }
    with pytest.raises(ValueError, match=r"dedup: no document is left: news \(0 of 10 documents kept: 10 too_short\)"):
        ran(STAGE, DedupSpec(), inputs, tmp_path / "out")


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="priority: news named twice"):
        DedupSpec(priority=("news", "wiki", "news"))


@settings(max_examples=60)
@given(st.text(st.sampled_from("가나다abc한글12漢"), max_size=60), st.integers(1, 12))
def test_windows_have_equal_hashes_if_and_only_if_their_texts_are_equal(text: str, width: int) -> None:
    hashes = PrefixHashes(text).windows(width).tolist()
    runs = [text[i : i + width] for i in range(len(text) - width + 1)]
    assert len(hashes) == len(runs)
    assert len(set(hashes)) == len(set(runs)) == len(set(zip(hashes, runs)))


def test_squeezing_keeps_letters_and_digits_of_every_script() -> None:
    assert squeeze("가-나 Ab_3! 漢字ㅋㅋ😀") == "가나ab3漢字ㅋㅋ"
    assert fingerprint("", "! !") == fingerprint("", "!!") != fingerprint("", "??")


def test_bands_do_not_depend_on_other_texts() -> None:
    sets = [shingles(squeeze(prose(number, 5))) for number in range(9)]
    together = band_hashes(sets, seed=7)
    alone = np.concatenate([band_hashes([one], seed=7) for one in sets])
    assert together.shape == (9, BANDS)
    assert (together == alone).all()


def test_similar_texts_share_a_band_and_unlike_ones_do_not() -> None:
    shared = []
    for number in range(30):
        text = prose(number, 40)
        bands = band_hashes([shingles(squeeze(one)) for one in (text, edited(text, 60), prose(number + 500, 40))], seed=1)
        shared.append(((bands[0] == bands[1]).any(), (bands[0] == bands[2]).any()))
    assert sum(bool(near) for near, _ in shared) >= 28
    assert not any(unlike for _, unlike in shared)


def test_texts_just_as_similar_as_the_threshold_are_candidates() -> None:
    hashes = np.random.default_rng(5).integers(0, 1 << 64, (800, 500), dtype=np.uint64)
    left, right = hashes[:, :450], hashes[:, 50:]
    assert jaccard(np.sort(left[0]), np.sort(right[0])) == 0.8
    bands = band_hashes([*left, *right], seed=1)
    assert (bands[:800] == bands[800:]).any(axis=1).mean() >= 0.97


def test_a_text_is_dropped_only_for_a_near_copy_that_is_kept(tmp_path: Path) -> None:
    sets = [(start, np.arange(start, start + 10, dtype=np.uint64)) for start in (0, 1, 3, 4)]
    nothing = np.empty(0, dtype=np.uint64)
    write_candidates(tmp_path, 0, enumerate(Compared(hashes, nothing, nothing, nothing, nothing) for _, hashes in sets))
    gone = np.zeros(4, dtype=bool)
    pairs = [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2)]
    found = list(near_duplicates(pairs, gone, Candidates(tmp_path, np.array([0, 4])), 0.8, Instances()))
    assert [pairs[position] for position, _ in found] == [(1, 0), (3, 2)]
    assert gone.tolist() == [False, True, False, True]


_PROBE = (
    "매리너 {number}호는 미국의 {place} 탐사선이다. {year}년 {month}월 {day}일 발사되어 사진 {photos}장을 보내왔다. "
    "탐사선은 태양 전지판 네 개와 사진기 두 대, 적외선 분광계와 자외선 분광계를 싣고 대기의 밀도와 온도를 쟀다. "
    "자료는 아홉 달 뒤 공개되었고 뒤이은 탐사선의 설계에 쓰였다. 매리너 {number}호는 지금도 태양 둘레를 돈다."
)


def test_near_copies_about_different_subjects_stay(tmp_path: Path) -> None:
    """Texts stay if a name of the title or most numbers differ; with another title or one corrected number they are copies."""
    race = "{who} 100미터 달리기는 닷새 동안 열렸다. " + prose(9, 14).translate(str.maketrans("", "", "0123456789"))
    race += " 우승은 {who} 선수들이 본 적 없는 기록이었다."
    sixth = _PROBE.format(number=6, place="화성", year=1969, month=2, day=24, photos=75)
    seventh = _PROBE.format(number=7, place="화성", year=1969, month=3, day=27, photos=126)
    documents = [
        document(1, sixth, title="매리너 6호"),
        document(2, seventh, title="매리너 7호"),
        document(3, race.format(who="남자"), title="남자 100미터"),
        document(4, race.format(who="여자"), title="여자 100미터"),
        document(5, sixth.replace("75장", "76장") + " 끝.", title="화성 탐사선, 사진 보내와"),
    ]
    _, lost = outcome(tmp_path, DedupSpec(), news=documents)
    assert {one.title for one in kept(tmp_path / "out")} == {
        "매리너 7호",
        "남자 100미터",
        "여자 100미터",
        "화성 탐사선, 사진 보내와",
    }
    assert len(lost) == 1


def test_a_text_in_a_longer_one_is_dropped(tmp_path: Path) -> None:
    """The first version of a report, and a text that another quotes, are dropped whatever their sources."""
    first, other = prose(21, 4), prose(22, 8)
    grown = f"{first}\n{prose(23, 20)}"
    quoting = f"{prose(24, 10)}\n“{other}”\n{prose(25, 10)}"
    sharing = f"{prose(26, 6)}\n{prose(24, 10)[:60]}"
    part, whole = document(1, first, "news", title="속보"), document(2, grown, "wiki", title="속보")
    quoted, quotes, stays = document(3, other, "wiki"), document(4, quoting, "news"), document(5, sharing, "news")
    sources = {"news": [part, quotes, stays], "wiki": [whole, quoted]}
    survivors, lost = outcome(tmp_path, DedupSpec(priority=("news", "wiki")), **sources)
    assert survivors == {whole.id, quotes.id, stays.id}
    assert {one: (reason, rule.split()[0]) for one, (reason, rule) in lost.items()} == {
        part.id: ("contained", whole.id),
        quoted.id: ("contained", quotes.id),
    }
    assert all(float(rule.split()[1]) >= 0.9 for _, rule in lost.values())
    assert not outcome(tmp_path / "off", DedupSpec(contained=0), **sources)[1]
    assert not outcome(tmp_path / "exact", DedupSpec(near=False), **sources)[1]


def test_parts_of_parts_are_dropped_for_the_whole(tmp_path: Path) -> None:
    texts = [prose(31, 40)[:length] for length in (200, 500, 1200)]
    texts += [f"{prose(number, 12)}\n{texts[0]}" for number in range(40, 40 + 2 * NEIGHBOURS)]  # in more than are counted
    survivors, lost = outcome(tmp_path, DedupSpec(), news=[document(number, text) for number, text in enumerate(texts)])
    assert {document(number, "").id for number in (0, 1)} >= set(lost) >= {document(1, "").id}
    assert len(survivors) + len(lost) == len(texts)


def test_of_a_large_bucket_the_best_is_kept(tmp_path: Path) -> None:
    """It has more texts than are compared."""
    text = prose(3, 30)
    documents = [document(number, text + "\n" + "그만 " * number) for number in range(1, 3 * NEIGHBOURS)]
    survivors, _ = outcome(tmp_path, DedupSpec(), news=documents)
    assert len(survivors) == 1


def test_generated_instances_of_one_template_are_dropped_beyond_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_INSTANCES", 5)
    paid = "\n하루에 {0}만 원을, 이틀이면 또 {0}만 원을 드립니다."
    spam = [document(number, prose(3, 30) + paid.format(number + 10)) for number in range(3 * NEIGHBOURS)]
    others = [document(100 + number, prose(9, 30) + paid.format(number + 10)) for number in range(4)]
    survivors, lost = outcome(tmp_path, DedupSpec(), news=spam + others)
    assert len(survivors & {one.id for one in spam}) == 5
    assert survivors >= {one.id for one in others}
    assert {reason for reason, _ in lost.values()} == {"near_duplicate"}


def mixed_documents() -> list[Document]:
    """Exact and near copies, chains, templates and tiny texts of three sources."""
    texts = [prose(number % 20, 12) + f" 끝{number % 7}" * (number % 3) for number in range(60)]
    texts += [edited(prose(number, 30), 50 + number) for number in range(5)] + [prose(number, 30) for number in range(5)]
    texts += ["", "ㅋ", "!!", "! !", "가", "가."]
    return [document(number, text, ("book", "news", "wiki")[number % 3]) for number, text in enumerate(texts)]


def run_on(documents: list[Document], tmp_path: Path, name: str) -> Path:
    sources = {
        source: stored(tmp_path / f"{name}-{source}", [one for one in documents if one.source == source], 20)
        for source in ("book", "news", "wiki")
    }
    ran(STAGE, DedupSpec(priority=("wiki",)), sources, tmp_path / name)
    return tmp_path / name


def test_partitions_of_any_size_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes_of(run_on(mixed_documents(), tmp_path, "whole"))
    for rows, most in ((7, 1 << 10), (1, 2)):
        monkeypatch.setattr(candidates, "_MAX_BUCKET_PARTITIONS", most)
        monkeypatch.setattr(candidates, "ROWS_PER_PARTITION", rows)
        monkeypatch.setattr(candidates, "RANKS_PER_PARTITION", rows)
        assert bytes_of(run_on(mixed_documents(), tmp_path, f"rows{rows}-{most}")) == whole


@pytest.mark.parametrize(("documents", "ranks"), [(10, 1 << 12), (10_000_000, 9_765), (1 << 31, 1 << 16)])
def test_partitions_of_pairs_are_small_and_not_too_many(documents: int, ranks: int, tmp_path: Path) -> None:
    assert candidates._ranks_each(Signatures(tmp_path, [documents], [[]])) == ranks


@settings(max_examples=6)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["news", "wiki"])), max_size=25), st.randoms())
def test_copies_leave_one_whatever_the_order(made: list[tuple[int, int, str]], chance: Random) -> None:
    """Every dropped document has a similar survivor, and no two survivors are exact copies."""
    texts = [prose(seed, 12) + " 끝" * more for seed, more, _ in made]
    documents = [document(number, text, source) for number, (text, (_, _, source)) in enumerate(zip(texts, made))]
    outcomes = []
    for _ in range(2):
        chance.shuffle(documents)
        with TemporaryDirectory() as directory:
            outcomes.append(outcome(Path(directory), DedupSpec(), news=documents))
    assert outcomes[0] == outcomes[1]
    stays, gone = outcomes[0]
    text_of = {one.id: one.text for one in documents}
    assert stays | set(gone) == set(text_of)
    assert len({squeeze(text_of[one]) for one in stays}) == len(stays)
    for name, (reason, rule) in gone.items():
        survivor = rule.split()[0]
        if reason == "exact_duplicate" and survivor in gone:  # the best copy went for a near one
            assert gone[survivor][0] == "near_duplicate"
            survivor = gone[survivor][1].split()[0]
        assert survivor in stays
        assert similarity(text_of[name], text_of[survivor]) >= 0.8


def test_ranks_and_numbers_are_inverse_and_follow_priority_then_length(tmp_path: Path) -> None:
    documents = mixed_documents()
    writer = SignatureWriter(tmp_path, 0, 1, near=False, contained=False)
    for ordinal, one in enumerate(documents):
        writer.add(ordinal, one, one.text)
    writer.finish()
    ranking = rank_documents(Signatures(tmp_path, [len(documents)], [list(writer.sources)]), ("wiki",), tmp_path)
    ranks = ranking.ranks(0, len(documents))
    assert (ranking.numbers(np.arange(len(documents), dtype=np.uint32))[ranks] == np.arange(len(documents))).all()
    in_order = sorted(documents, key=lambda one: (one.source != "wiki", one.source, -len(one.text), one.id))
    ids = ranking.ids(np.arange(len(documents), dtype=np.uint32)).tolist()
    assert [f"{one:016x}" for one in ids] == [one.id for one in in_order]


def test_an_id_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'first' is not 16 hex digits"):
        outcome(tmp_path, DedupSpec(), news=[Document("first", "news", BASE)])


def test_files_of_interrupted_tries_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are appended to, so that rows of an earlier try would count twice; tests/flows kills the stage itself."""
    source = stored(tmp_path / "in", mixed_documents(), 20)
    ran(STAGE, DedupSpec(), {"news": source}, tmp_path / "straight")
    append, left = Partitions.append, 0

    def interrupted(self: Partitions, *rows: Any) -> None:
        nonlocal left
        append(self, *rows)
        left -= 1
        if not left:
            raise InterruptedError

    monkeypatch.setattr(Partitions, "append", interrupted)
    for writes in (2, 5, 30, 43):
        left = writes
        with pytest.raises(InterruptedError):
            ran(STAGE, DedupSpec(), {"news": source}, tmp_path / "interrupted")
    ran(STAGE, DedupSpec(), {"news": source}, tmp_path / "interrupted")
    assert bytes_of(tmp_path / "interrupted") == bytes_of(tmp_path / "straight")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("이익은 1.5조 원", "이익은 15조 원", False),
        ("-5도에서 5도", "5도에서 -5도", False),
        ("기온은 -5도", "기온은 5도", False),
        ("기온은 −5도", "기온은 -5도", True),
        ("2 0억", "20억", False),
        ("2 0억", "2.0억", False),
        ("1,000원", "1000원", True),
        ("12,345,678원", "12345678원", True),
        ("제1,2항", "제12항", False),
        ("3:2로", "32로", False),
        ("3:2로", "3-2로", True),
        ("2019.10.1 발표", "2019. 10. 1. 발표", True),
        ("2019-10-01 발표", "2019/10/01 발표", True),
        ("- 5명", "5명", True),
        ("글\n-5층 건물", "글\n5층 건물", True),
        ("A-10 공격기", "A10 공격기", True),
        ("3~4일", "3 ~ 4일", True),
        ("3 -4도", "3 4도", False),
        ("１．５조", "１５조", False),
        ("가. 나, 다-라!", "가나다라", True),
    ],
)
def test_exact_copies_and_repeated_lines_have_the_same_figures(one: str, other: str, equal: bool, tmp_path: Path) -> None:
    """Other punctuation, spaces and the marks of thousands are ignored."""
    documents = [document(1, one), document(2, other)]
    assert len(outcome(tmp_path / "copies", DedupSpec(near=False), news=documents)[0]) == 2 - equal
    lines = [document(number, f"{prose(number, 3)}\n{text}") for number, text in enumerate((one, other), start=1)]
    repeats = Repeats(sentences=1, min_letters=1)
    ran(STAGE, DedupSpec(near=False, repeats=repeats), {"news": stored(tmp_path / "in", lines)}, tmp_path / "out")
    assert len(list(kept(tmp_path / "out"))) == 2
    whole, left = ([len(one.text) for one in texts] for texts in (lines, kept(tmp_path / "out")))
    assert (sum(left) < sum(whole)) == (equal or "\n" in one)
