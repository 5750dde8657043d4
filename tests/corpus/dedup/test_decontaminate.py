from __future__ import annotations

import json
import re
import tempfile
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.artifact import Artifact, InputPath, Runtime, build
from korealbert.corpus.clean.stage import STAGE as CLEAN
from korealbert.corpus.clean.stage import CleanSpec
from korealbert.corpus.dedup.decontaminate import (
    PASSAGE_LETTERS,
    EvaluationTexts,
    index_evaluation_texts,
    letters_of,
    load_evaluation_texts,
)
from korealbert.corpus.dedup.evaluation_files import EvaluationFile
from korealbert.corpus.dedup.stage import STAGE, DedupSpec
from tests.corpus.documents_made import document, dropped, kept, prose, ran, stored
from tests.corpus.extracting import extract
from tests.work import linear_work

REVIEWS = [
    '연기가 "정말" 좋았어요. 또 볼래요!',
    "굿",
    '"닫히지 않은 따옴표',
    "ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ",
    "",
]
PASSAGE = (
    "옛날에 우체국이 강가에 있었고 아침마다 배가 편지를 싣고 왔다. 마을 사람들은 종이 울리면 모두 강가로 나가 기다렸다고 한다."
)


@pytest.fixture
def nsmc(tmp_path: Path) -> EvaluationFile:
    path = tmp_path / "nsmc.txt"
    rows = [f"{number}\t{text}\t1" for number, text in enumerate(REVIEWS)]
    path.write_text("\n".join(["id\tdocument\tlabel", *rows]) + "\n", "utf-8")
    return EvaluationFile(name="nsmc", path=InputPath(path), format="tsv", columns=("document",), passages="paragraph")


def texts_of(tmp_path: Path, *benchmarks: EvaluationFile, min_letters: int = 8) -> EvaluationTexts:
    directory = tmp_path / "evaluation"
    index_evaluation_texts(benchmarks, min_letters, directory)
    return load_evaluation_texts(directory)


def lines_of(path: Path, *texts: str, passages: str = "document") -> EvaluationFile:
    path.write_text("\n".join(texts), "utf-8")
    return EvaluationFile.model_validate({"name": path.stem, "path": path, "format": "lines", "passages": passages})


def test_reviews_of_a_test_set_vanish_from_a_film_page(tmp_path: Path, nsmc: EvaluationFile) -> None:
    """The copies have other lines, spaces and punctuation, but the same letters."""
    page = "재미있게 봤다.\n\n연기가 정말 좋았어요.\n또 볼래요\n\n굿\n\n굿 무비\n\n닫히지않은 따옴표!\n\n지루했다."
    clean = texts_of(tmp_path, nsmc).decontaminate(page)
    assert clean.text == "재미있게 봤다.\n\n굿 무비\n\n지루했다."
    assert clean.paragraphs == {"nsmc": 3}
    assert clean.drop is None


DISGUISES = {
    "as it is": lambda text: text,
    "without spaces": lambda text: text.replace(" ", ""),
    "spaced out": " ".join,
    "with other punctuation": lambda text: text.replace(" ", " · ").replace(".", "…"),
    "over lines": lambda text: text.replace(" ", "\n"),
    "over paragraphs": lambda text: text.replace(" ", "\n\n"),
    "zero-width": "\u200b".join,
    "fillers": "\u3164".join,
    "jamo": lambda text: unicodedata.normalize("NFD", text),
    "full width": lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    "capitals": str.upper,
    "tags": lambda text: f'<p class="a"><b>{text.replace(" ", "<br/>")}</b></p>',
    "its middle": lambda text: text[9:-9],
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_of_spelling_hides_a_long_copy(tmp_path: Path, disguise: str) -> None:
    passage = f"{PASSAGE} No. 12 ABC abc"
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", passage))
    assert evaluation.decontaminate(f"들머리 문장이다. {DISGUISES[disguise](passage)} 끝 문장이다.").drop is not None


@pytest.mark.parametrize(
    "disguise", ["spaced out", "with other punctuation", "zero-width", "fillers", "jamo", "full width", "capitals", "tags"]
)
def test_no_disguise_of_spelling_hides_a_short_paragraph(tmp_path: Path, disguise: str) -> None:
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", "연기가 정말 Good!"))
    assert evaluation.decontaminate(f"첫 글이다.\n\n{DISGUISES[disguise]('연기가 정말 Good!')}").text == "첫 글이다."


def test_a_long_text_goes_also_as_one_line_of_a_paragraph_a_short_one_does_not(tmp_path: Path, nsmc: EvaluationFile) -> None:
    clean = texts_of(tmp_path, nsmc).decontaminate("첫 줄이다.\n연기가 정말 좋았어요 또 볼래요\n굿\n끝 줄이다.")
    assert clean.text == "첫 줄이다.\n굿\n끝 줄이다."
    assert clean.lines == {"nsmc": 1}


@pytest.mark.parametrize(
    ("page", "left"),
    [
        ("앞 줄이다.\n연기가 정말 좋았어요.\n또 볼래요\n뒤 줄이다.", "앞 줄이다.\n뒤 줄이다."),
        ("연기가 정말\n…\n좋았어요.\n또 볼래요\n뒤 줄이다.", "뒤 줄이다."),
        ("앞 줄이다.\n연기가 정말 좋았어요.\n\n또 볼래요\n뒤 줄이다.", "앞 줄이다.\n\n뒤 줄이다."),
        ("앞 줄이다.\n\n연기가 정말 좋았어요.\n\n또 볼래요", "앞 줄이다."),
        ("연기가 정말 좋았어요.\n또 볼래요 친구야", "연기가 정말 좋았어요.\n또 볼래요 친구야"),
        ("앞 줄. 연기가 정말 좋았어요.\n또 볼래요", "앞 줄. 연기가 정말 좋았어요.\n또 볼래요"),
        ("굿\n연기가 정말 좋았어요.\n또 볼래요", ""),
        ("앞 줄이다.\n닫히지 않은 따옴표 연기가 정말 좋았어요. 또 볼래요\n뒤 줄이다.", "앞 줄이다.\n뒤 줄이다."),
        ("앞 줄이다.\n닫히지 않은 따옴표 연기가\n정말 좋았어요. 또 볼래요\n뒤 줄이다.", "앞 줄이다.\n뒤 줄이다."),
        ("① 닫히지 않은 따옴표\n12닫히지 않은 따옴표 2019.01.02\n뒤 줄이다.", "뒤 줄이다."),
        ("닫히지 않은 따옴표 굿\n뒤 줄이다.", "닫히지 않은 따옴표 굿\n뒤 줄이다."),
    ],
    ids=[
        "lines",
        "a line without letters",
        "over paragraphs",
        "paragraphs",
        "more behind",
        "more before",
        "what is left again",
        "two in a line",
        "two over lines",
        "numbers and a date",
        "a word that is too short",
    ],
)
def test_lines_that_are_a_text_together_are_removed(tmp_path: Path, nsmc: EvaluationFile, page: str, left: str) -> None:
    """Cleaning breaks a review of two sentences into two lines."""
    assert texts_of(tmp_path, nsmc).decontaminate(page).text == left


BESIDE = (
    *("{} (10점)", "(10점) {}", "★★★★★ {}", "{} ☆☆☆", "{} 10/10", "평점 10 {}", "{} 별점 5점", "10점 {}", "{} 9.5점"),
    *("{} ㅋㅋㅋㅋ", "ㅎㅎ {}", "{}ㅋㅋㅋㅋㅋ", "{} ㅠㅠㅠ", "{} 하하하", "크크크 {}", "{} ㅋㅋㅋㅋ^^", "ㅇㅇ {} ㅡㅡ"),
    *(
        "{} - 홍길동",
        "홍길동: {}",
        "[홍길동] {}",
        "{} (hong****)",
        "hong**** | {}",
        "홍길동님 : {}",
        "{} — 영화광",
        "> 홍길동 > {}",
    ),
    *("2019.01.02 {}", "{} 2019-01-02", "{} 2019년 1월 2일", "[2019.01.02 10:30] {}", "{} (19.01.02)", "홍길동 2019.01.02 {}"),
    *("{} 신고", "{} 공감 3 비공감 1", "관람객 {}", "{} #영화 #추천", "@hong {}", "작성자: 홍길동 2019.01.02 {} 추천 3 신고"),
    *(
        "1. {}",
        "No.3 {}",
        "① {}",
        "{} / 홍길동 / 10점",
        "{} 홍길동(hong****) 2019.01.02 10:30",
        *(
            "{} 3일 전",
            "{} 1시간 전",
            "{} 3시간전",
            "{} 방금 전",
            "{} 신고하기",
            "{} 수정 삭제",
            "삭제 {}",
            "{} 공유",
            "{} edited",
        ),
        *(
            "홍길동\t{}",
            "회원 hong123 님 {}",
            "{} by 홍길동",
            "{} from 부산",
            "hong@naver: {}",
            "@hong: {}",
            "hong@naver.com {}",
        ),
        *("{} hong@naver", "네이버 {}", "{} 왓챠피디아 ★4.5", "[네이버] {}", "{} - CGV", "{} (네이버 영화)"),
        *("{} | 답변 2", "답변 3 | {}", "답변: 3 | {}", "{} (질문 0)", "[질문] {}", "{} [답변]", "{} - 명언", "{} (질문)"),
        *("Q: {}", "Q. {}", "A: {}", "Q1. {}", "B : {}", "김: {}", "갑 : {}", "질문: {}", "답변: {}", "“A: {}”", "1. A: {}"),
        *(
            "ID:abc {}",
            "ID: abc {}",
            "닉네임 : 홍길동 {}",
            "Q: {} (10점)",
            "표어: {}",
            "- 대사 : {} 3",
            "속담 | {} | 뜻풀이",
            "{} (속담)",
        ),
        *("문장1: {}", "Sentence 2: {}", "가. {}", "Ⅳ. {}", "{} 긍정", "{} negative", '{{"document": "{}", "label": 1}}'),
        *("제목 | {} | A : 5 | 추천 3", "글쓴이 : B : {}", "ID: k: {}", "{} | 작성자 : 김 : 3", "{} | A : 5"),
        "작성자 : 홍길동 | 작성일 : 2019-01-02 10:30:25 | 조회 : 10 | 추천 : 3 | {}",
        "{} | 작성자 : 홍길동 | 작성일 : 2019-01-02 10:30:25 | 조회 : 10 | 추천 : 3",
    ),
)
REVIEW = "정말 재미있게 봤습니다"


@pytest.mark.parametrize("beside", BESIDE)
def test_what_stands_beside_a_comment_in_its_line_does_not_hide_it(tmp_path: Path, beside: str) -> None:
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", REVIEW, "그 감독의 다음 작품"))
    assert evaluation.decontaminate(f"앞 줄이다.\n{beside.format(REVIEW)}\n뒤 줄이다.").text == "앞 줄이다.\n뒤 줄이다."
    both = f"앞 줄이다.\n{beside.format('정말 재미있게')}\n"
    assert not evaluation.decontaminate(f"{both}뒤 줄이다.").changed


@pytest.mark.parametrize(
    "line",
    [
        *(
            f"그는 “{REVIEW}”라고 말했다.",
            f"{REVIEW}만 그렇다",
            f"그 영화 {REVIEW}",
            f"‘{REVIEW}’는 말",
            f"{REVIEW}, 그리고 잤습니다",
        ),
        *(f"{REVIEW} 1~3 + 나루 세트 - 전4권", f"나루 & {REVIEW}"),
        *(f"네이버에서 {REVIEW}", f"{REVIEW} 왓챠에서"),
        *(f"그 가을에 부산에서 열린 영화제에서 본 영화를 말하자면: {REVIEW}", f"결론은 {REVIEW} (끝까지)다", f"가-나{REVIEW}"),
    ],
)
def test_a_sentence_around_a_short_text_keeps_it(tmp_path: Path, line: str) -> None:
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", REVIEW, "ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ"))
    assert not evaluation.decontaminate(f"앞 줄이다.\n{line}\n뒤 줄이다.").changed
    assert not evaluation.decontaminate("앞 줄이다.\n홍길동: ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ\n뒤 줄이다.").changed


@pytest.mark.parametrize(
    "line",
    [
        "행사일: {}",
        "{} - 부산",
        "창립 : {}",
        "생일 {} (서울)",
        "답글 {} 10:30",
        "{} 추천",
        "{} by {}",
        "선생님 정말 재미있게 봤습니다",
    ],
)
@pytest.mark.parametrize("figure", ["2010년 3월 5일", "2010-03-05", "12,345,678"])
def test_a_date_or_number_is_an_evaluation_text_only_as_a_whole_line(tmp_path: Path, line: str, figure: str) -> None:
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", figure, REVIEW))
    assert not evaluation.decontaminate(f"앞 줄이다.\n{line.replace('{}', figure)}\n뒤 줄이다.").changed
    assert evaluation.decontaminate(f"앞 줄이다.\n{figure}\n뒤 줄이다.").text == "앞 줄이다.\n뒤 줄이다."


def test_a_whole_text_goes_from_within_a_line_unless_it_is_a_phrase(tmp_path: Path) -> None:
    review, phrase = "배우들의 눈빛이 좋아서 두 번이나 극장에서 봤네요", "정말 재미있게 봤습니다"
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", review, phrase))
    page = "앞 줄이다.\n누가 {} 하고 적었다.\n뒤 줄이다."
    assert evaluation.decontaminate(page.format(review)).text == "앞 줄이다.\n뒤 줄이다."
    assert not evaluation.decontaminate(page.format(review[:-1])).changed
    assert not evaluation.decontaminate(page.format(phrase)).changed
    ignoring = texts_of(tmp_path / "ignore", lines_of(tmp_path / "ignore.txt", review, passages="ignore"))
    assert not ignoring.decontaminate(page.format(review)).changed
    assert ignoring.decontaminate(f"앞 줄이다.\n{review}\n뒤 줄이다.").text == "앞 줄이다.\n뒤 줄이다."


_NOUNS = ("배우", "연기", "눈빛", "극장", "음악", "결말", "감독", "화면")
_WORDS = st.lists(st.sampled_from(_NOUNS), min_size=1, max_size=6)


@settings(max_examples=40)
@given(st.lists(_WORDS, min_size=1, max_size=4), st.lists(_WORDS, max_size=8), st.data())
def test_no_planted_text_survives_in_any_context(texts: list[list[str]], around: list[list[str]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        written = lines_of(Path(directory) / "set.txt", *(" ".join(text) for text in texts))
        evaluation = texts_of(Path(directory), written, min_letters=6)
    lines = [" ".join(line) for line in around]
    planted = [text for text in texts if len("".join(text)) >= 6]
    for text in planted:
        broken = data.draw(st.lists(st.sampled_from([" ", "\n", "\n\n"]), min_size=len(text), max_size=len(text)))
        lines.insert(data.draw(st.integers(0, len(lines))), "".join(map("".join, zip(text, broken, strict=True))).strip())
    outcome = evaluation.decontaminate("\n".join(lines))
    left = [line.replace(" ", "") for line in outcome.text.split("\n") if line]
    runs = {"".join(left[start:end]) for start in range(len(left)) for end in range(start + 1, len(left) + 1)}
    assert not runs & {"".join(text) for text in planted}
    assert not evaluation.decontaminate(outcome.text).changed


def test_memory_is_bounded_if_a_document_repeats_itself(tmp_path: Path) -> None:
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", *("ㅋ" * count for count in range(8, 400))))
    tracemalloc.start()
    assert evaluation.decontaminate(f"참 {'ㅋ' * 10_000} 웃겼다").text
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6


def test_what_is_left_of_a_paragraph_is_judged_again(tmp_path: Path, nsmc: EvaluationFile) -> None:
    clean = texts_of(tmp_path, nsmc).decontaminate("굿\n연기가 정말 좋았어요 또 볼래요\n\n끝이다.")
    assert clean.text == "끝이다."


def test_line_breaks_inside_an_evaluation_text_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"text": "가을이 왔다.\n바람이 분다.\r\n강이 흐른다."}, ensure_ascii=False), "utf-8")
    benchmark = EvaluationFile(name="set", path=InputPath(path), format="jsonl", columns=("text",))
    clean = texts_of(tmp_path, benchmark).decontaminate("시작이다.\n\n가을이 왔다. 바람이 분다.\n강이 흐른다.\n\n끝이다.")
    assert clean.text == "시작이다.\n\n끝이다."


def test_a_long_stretch_drops_the_document_or_the_paragraph_or_nothing(tmp_path: Path) -> None:
    article = f"앞글이다.\n\n그때 {PASSAGE[:60]} 그런 이야기였다.\n\n뒷글이다."
    assert len("".join(PASSAGE[:60].split())) > PASSAGE_LETTERS
    for action, text, reason in [
        ("document", article, "contaminated"),
        ("paragraph", "앞글이다.\n\n뒷글이다.", None),
        ("ignore", article, None),
    ]:
        clean = texts_of(tmp_path / action, lines_of(tmp_path / f"{action}.txt", PASSAGE, passages=action)).decontaminate(
            article
        )
        assert (clean.drop and clean.drop.reason) == reason
        assert clean.drop or clean.text == text


def test_a_long_text_in_a_line_of_its_own_takes_no_other_line(tmp_path: Path) -> None:
    long = "조선 시대의 학자 이황은 안동에서 태어나 도산 서원을 세우고 많은 제자를 길러 냈으며 여러 책을 남겼다."
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set", long, passages="paragraph"))
    clean = evaluation.decontaminate(f"가을이 왔다.\n{long}\n비가 내렸다.")
    assert (clean.text, clean.drop, clean.lines.total()) == ("가을이 왔다.\n비가 내렸다.", None, 1)
    part = long[:-2]
    assert evaluation.decontaminate(f"가을이 왔다.\n{part}\n비가 내렸다.").drop is not None, "a passage takes its paragraph"


def test_short_stretches_and_laughter_are_ignored(tmp_path: Path, nsmc: EvaluationFile) -> None:
    texts = texts_of(tmp_path, nsmc, lines_of(tmp_path / "wiki.txt", PASSAGE))
    innocent = f"그때 {PASSAGE[:35]} 그런 이야기였다.\n\n와 {'ㅋ' * 60} 웃겼다"
    assert not texts.decontaminate(innocent).changed


def test_a_document_of_evaluation_texts_only_is_dropped(tmp_path: Path, nsmc: EvaluationFile) -> None:
    drop = texts_of(tmp_path, nsmc).decontaminate("굿\n\n닫히지 않은 따옴표").drop
    assert drop is not None
    assert (drop.reason, drop.rule) == ("contaminated", "nsmc: nothing else in it")


def test_a_corpus_of_evaluation_texts_only_is_an_error(tmp_path: Path) -> None:
    spec = DedupSpec(decontaminate=(lines_of(tmp_path / "test.txt", PASSAGE),))
    inputs = {"web": stored(tmp_path / "in", [document("a", PASSAGE), document("b", f"{PASSAGE}\n")])}
    with pytest.raises(ValueError, match=r"dedup: no document is left: .*0 of 2 documents kept: .*contaminated.*decontaminate"):
        ran(STAGE, spec, inputs, tmp_path / "out")


def test_the_stage_counts_what_it_removes_and_compares_what_is_left(tmp_path: Path, nsmc: EvaluationFile) -> None:
    left = prose(1, 3)
    films = [
        document(1, f"{left}\n\n굿", "nsmc"),
        document(2, left, "nsmc"),
        document(3, "굿", "nsmc"),
        document(4, prose(9, 4), "nsmc"),
    ]
    out = tmp_path / "out"
    stats = ran(STAGE, DedupSpec(decontaminate=(nsmc,)), {"nsmc": stored(tmp_path / "in", films, 2)}, out)
    assert sorted(one.text for one in kept(out)) == sorted([left, prose(9, 4)])
    assert {reason for reason, _ in dropped(out).values()} == {"exact_duplicate", "contaminated"}
    assert stats["dropped"] == {"contaminated": 1, "exact_duplicate": 1}
    survivor = next(one for one in kept(out) if one.text == left)
    assert stats["paragraphs_decontaminated"] == (1 if survivor.id == films[0].id else 0)


@pytest.mark.parametrize("sentences", [1, 40])
@pytest.mark.parametrize("passages", ["document", "paragraph"])
def test_removed_characters_are_counted_by_benchmark(sentences: int, passages: str, tmp_path: Path) -> None:
    """A quotation within a line takes the line, however long it is."""
    quoted = "스무 글자가 넘는 평가용 문장이 여기에 하나 있다"
    one = lines_of(tmp_path / "one.txt", quoted, passages=passages)
    other = lines_of(tmp_path / "other.txt", "또 다른 평가의 글이다", passages=passages)
    line = " ".join(prose(1, sentences).split("\n"))
    text = f"{prose(2, 3)}\n{line} {quoted} {line}\n\n또 다른 평가의 글이다\n\n{prose(3, 3)}\n또 다른 평가의 글이다"
    text += f"\n\n{quoted}\n또 다른 평가의 글이다"
    found = texts_of(tmp_path, one, other).decontaminate(text)
    assert found.drop is None and found.text == f"{prose(2, 3)}\n\n{prose(3, 3)}"
    assert found.characters.total() == len(text) - len(found.text)
    assert found.characters["one"] > 2 * len(line) + len(quoted)
    inputs = {"news": stored(tmp_path / "in", [document(1, text), document(2, quoted)])}
    stats = ran(STAGE, DedupSpec(decontaminate=(one, other), min_letters=8), inputs, tmp_path / "out")
    assert stats["characters_decontaminated"] == dict(found.characters)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("ㅎㅏㄴㄱㅡㄹ", "한글"),
        ("ㄴㅓㄱㅅㅇㅡㄹ ㅇㅣㄹㄱㄷㅏ", "넋을 읽다"),
        ("ㄴㅓㄳ", "넋"),
        (unicodedata.normalize("NFD", "넋을 읽다"), "넋을 읽다"),
        ("ㅇㅏㄴㄴㅕㅇ", "안녕"),
        ("ㅂㅏㅂㅗ", "바보"),
        ("김성은 ㅎㅎ화이팅 갔다 ㅋㅋ", "김성은ㅎㅎ화이팅갔다ㅋㅋ"),
    ],
)
def test_syllables_typed_as_jamo_are_the_syllables(written: str, read: str) -> None:
    assert letters_of(written) == letters_of(read)


@pytest.mark.parametrize("written", ["<KBS 뉴스>에서 본 <기생충>", "<The River Runs>를 본다", "a <b 이고 강은 길다 c> d"])
def test_titles_in_brackets_and_comparisons_are_no_tags(written: str) -> None:
    assert letters_of(written) == letters_of(re.sub("[<>]", "", written))


def test_tags_cost_linear_time() -> None:
    with linear_work():
        for begin in ("<a ", "<a =b", "<a"):
            letters_of(begin + " " * 200_000 + "c")
            letters_of(begin * 200_000)


@pytest.mark.parametrize("unit", ["20190102", "2019.01.02 ", "2019.01.02|", "정말 재미있게 봤습니다 "])
def test_a_long_line_of_texts_costs_linear_time(tmp_path: Path, unit: str) -> None:
    evaluation = texts_of(tmp_path, lines_of(tmp_path / "set.txt", "2019.01.02", REVIEW))
    with linear_work():
        evaluation.decontaminate(unit * (1_000_000 // len(unit)))


@pytest.mark.parametrize("first", ["ignore", "document"])
def test_of_two_benchmarks_with_one_text_the_stricter_decides(first: str, tmp_path: Path) -> None:
    short, long = "배가 편지를 싣고 강가의 우체국으로 왔다고 한다", PASSAGE
    second = "document" if first == "ignore" else "ignore"
    files = [lines_of(tmp_path / f"{each}.txt", short, long, passages=each) for each in (first, second)]
    texts = texts_of(tmp_path, *files)
    assert texts.decontaminate(f"그는 말했다. {short} 라고.\n다음 줄이다.").text == "다음 줄이다."
    assert texts.decontaminate(f"앞말 {long} 뒷말").drop is not None


def test_a_stretch_of_two_benchmarks_drops_the_document_if_one_says_so(tmp_path: Path) -> None:
    files = [lines_of(tmp_path / f"{each}.txt", PASSAGE, passages=each) for each in ("paragraph", "document")]
    assert texts_of(tmp_path, *files).decontaminate(f"첫 문단이다.\n\n앞말 {PASSAGE[5:]}").drop is not None


def test_a_title_that_is_a_benchmark_text_is_emptied(tmp_path: Path) -> None:
    headline = "우체국, 강가에 새 건물 짓는다"
    spec = DedupSpec(decontaminate=(lines_of(tmp_path / "ynat.txt", headline, "강가"),), min_letters=8)
    documents = [
        document(1, prose(1, 9), title="우체국 강가에 새 건물 짓는다"),
        document(2, prose(2, 9), title="강가"),
        document(3, prose(3, 9), title="우체국 강가"),
    ]
    stats = ran(STAGE, spec, {"news": stored(tmp_path / "in", documents)}, tmp_path / "out")
    assert [one.title for one in kept(tmp_path / "out")] == ["", "강가", "우체국 강가"]
    assert stats["decontaminated"] == {"ynat": 1} and stats["lines_decontaminated"] == 1


def test_masked_personal_data_does_not_hide_a_copy(tmp_path: Path) -> None:
    """Sources mask different kinds, or none. Nothing is removed for a placeholder alone, which stands for any address."""
    texts = [
        "정말 최고였어요 문의는 010-1234-5678 또는 hong@press.example 로",
        "hong@press.example",
        f"{PASSAGE} 전화 02-123-4567",
    ]
    benchmark = lines_of(tmp_path / "set.txt", *texts, passages="paragraph")
    kinds = {"phones": ["phone"], "both": ["email", "phone"], "none": []}
    inputs: dict[str, Artifact] = {}
    for number, (source, masked) in enumerate(kinds.items()):
        page = [{"text": "\n\n".join((prose(number, 4), text, "이메일"))} for text in (texts[0], texts[2])]
        raw = tmp_path / f"{source}.jsonl"
        raw.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in page), "utf-8")
        extracted = extract(tmp_path / "store", raw, source=source, format="jsonl").artifact
        spec = CleanSpec.model_validate({"limits": "reviews", "personal_data": masked, "agreement_documents": 0})
        inputs[source] = build(CLEAN, spec, {"documents": extracted}, Runtime(store=tmp_path / "store")).artifact
    spec = DedupSpec(decontaminate=(benchmark,))
    ran(STAGE, spec, inputs, tmp_path / "out")
    assert {one.text for one in kept(tmp_path / "out")} == {f"{prose(number, 4)}\n\n이메일" for number in range(3)}
