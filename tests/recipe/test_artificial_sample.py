"""The artificial language of the sample: the files match their generator, and the test words occur only in the corpus."""

from __future__ import annotations

import csv
import importlib.util
import random
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data_specs" / "sample" / "artificial"


@pytest.fixture(scope="module")
def words(language: ModuleType) -> Any:
    return language.lexicon(random.Random(language.SEED))  # noqa: S311


@pytest.fixture(scope="module")
def language() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", FOLDER / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module  # where dataclasses and named tuples look for their own
    spec.loader.exec_module(module)
    return module


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def stems(text: str, words: dict[str, list[str]]) -> list[str]:
    """Return the groups of the stems in a text, in order."""
    group_of = {stem: group for group, of in words.items() for stem in of}
    return [group_of[found] for found in re.findall("|".join(group_of), text)]


def test_the_files_are_what_the_generator_writes(language: ModuleType) -> None:
    written = language.files()
    assert sorted(written) == sorted(path.name for path in FOLDER.iterdir() if path.suffix not in (".py", ".md", ""))
    for name, content in written.items():
        assert (FOLDER / name).read_text("utf-8") == content, name


def test_no_stem_of_the_training_files_is_tested(words: Any) -> None:
    halves = [{stem for table in words.half(which) for of in table.values() for stem in of} for which in (0, 1)]
    assert not halves[0] & halves[1]
    texts = {part: "\n".join(row["document"] for row in rows(f"nsmc_{part}.txt")) for part in ("train", "test")}
    for part in ("train", "dev", "test"):
        pairs = "\n".join(f"{row['sentence1']} {row['sentence2']}" for row in rows(f"korsts_{part}.tsv"))
        texts[part] = f"{texts.get(part, '')}\n{pairs}"
    for part, text in texts.items():
        words_of = set(re.findall(r"[가-힣]+", text))
        foreign = halves[1] if part == "train" else halves[0]
        assert not {word for word in words_of if word[:2] in foreign and len(word) > 2}, part


def test_a_review_says_one_opinion_and_half_of_them_praise(language: ModuleType, words: Any) -> None:
    for part in ("train", "test"):
        reviews = rows(f"nsmc_{part}.txt")
        assert sum(row["label"] == "1" for row in reviews) * 2 == len(reviews) == language.REVIEWS[part]
        for row in reviews:
            assert set(stems(row["document"], words.adjectives)) == {"praise" if row["label"] == "1" else "blame"}, row


def test_the_score_of_a_pair_counts_shared_kinds_and_no_word_is_shared(language: ModuleType, words: Any) -> None:
    for part in ("train", "dev", "test"):
        pairs = rows(f"korsts_{part}.tsv")
        assert len(pairs) == language.PAIRS[part]
        for row in pairs:
            kinds = [stems(row[name], words.nouns) + stems(row[name], words.verbs) for name in ("sentence1", "sentence2")]
            assert [len(each) for each in kinds] == [3, 3], row
            assert row["score"] == f"{5 * sum(a == b for a, b in zip(*kinds, strict=True)) / 3:.3f}", row
            content = [set(re.findall(r"[가-힣]{2}(?=[을를으로하]|로\b)", row[name])) for name in ("sentence1", "sentence2")]
            assert not (content[0] & content[1]) - {"할머", "다리"}, row


@pytest.mark.parametrize(
    ("word", "particles", "expected"),
    [
        ("손", "을/를", "손을"),
        ("나", "을/를", "나를"),
        ("말", "으로/로", "말로"),
        ("손", "으로/로", "손으로"),
        ("나", "과/와", "나와"),
    ],
)
def test_particles_follow_the_last_syllable(language: ModuleType, word: str, particles: str, expected: str) -> None:
    assert language.with_particle(word, particles) == expected


def test_the_prompts_are_in_the_language(words: Any) -> None:
    known = {stem for table in words for of in table.values() for stem in of}
    recipe = tomllib.loads((ROOT / "data_specs/recipes/sample.toml").read_text("utf-8"))
    for prompt in recipe["export"]["prompts"]:
        assert {word[:2] for word in re.findall(r"[가-힣]{3,}", prompt)} - {"할머", "함께"} <= known, prompt
