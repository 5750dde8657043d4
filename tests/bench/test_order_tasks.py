"""Tasks that only the order of words decides, and shuffled test sets: what is changed, and that no words are lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from kiwipiepy import Kiwi

from bench.order_tasks import exchange_particles, scramble, shuffle_words, write

SENTENCE = "어제 학생들이 새로 지은 도서관에서 두꺼운 책을 빌렸다."


@pytest.mark.parametrize("seed", range(20))
def test_four_neighbouring_words_move_and_the_last_word_stays(seed: int) -> None:
    changed = scramble(SENTENCE, random.Random(seed))  # noqa: S311
    assert changed is not None
    words, moved = SENTENCE.split(), changed.split()
    assert sorted(moved) == sorted(words) and moved[-1] == words[-1]
    places = [place for place, word in enumerate(words) if moved[place] != word]
    assert len(places) == 4 and places[-1] - places[0] == 3


def test_a_sentence_of_four_words_stays() -> None:
    assert scramble("나는 어제 밥을 먹었다.", random.Random(1)) is None  # noqa: S311


def test_particles_change_places_in_the_form_that_fits() -> None:
    kiwi, draw = Kiwi(num_workers=1), random.Random(1)  # noqa: S311
    assert exchange_particles("고양이가 쥐를 잡았다.", kiwi, draw) == "고양이를 쥐가 잡았다."
    assert exchange_particles("형은 사과를 먹었다.", kiwi, draw) == "형을 사과는 먹었다."
    assert exchange_particles("형이 집에 갔다.", kiwi, draw) is None  # No object.


def test_half_of_the_sentences_are_changed_and_each_occurs_once(tmp_path: Path) -> None:
    sentences = [f"문장 {number}" for number in range(40)]
    sizes = write(sentences, lambda sentence: None if sentence == "문장 3" else sentence + " 뒤", str(tmp_path / "task"))
    rows = [
        line.split("\t") for split in sizes for line in (tmp_path / f"task-{split}.tsv").read_text("utf-8").splitlines()[1:]
    ]
    assert sizes == {"train": 25, "dev": 4, "test": 10} and len(rows) == 39
    assert sum(label == "changed" for _, label in rows) == 19
    assert all(text.endswith(" 뒤") == (label == "changed") for text, label in rows)
    assert len({text.removesuffix(" 뒤") for text, _ in rows}) == 39


def test_words_of_the_named_columns_are_shuffled_and_nothing_else() -> None:
    lines = ["id\tscore\tsentence1\tsentence2", f"1 a\t2.5\t{SENTENCE}\t책을 빌렸다.", '2 b\t0\t"인용 부호\t']
    shuffled = shuffle_words(lines, ("sentence1", "sentence2"), random.Random(1))  # noqa: S311
    rows, before = [line.split("\t") for line in shuffled], [line.split("\t") for line in lines]
    assert [row[:2] for row in rows] == [row[:2] for row in before] and rows[0] == before[0]
    assert rows[1][2] != SENTENCE
    assert [[sorted(text.split()) for text in row[2:]] for row in rows] == [
        [sorted(text.split()) for text in row[2:]] for row in before
    ]
