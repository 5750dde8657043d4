"""A recipe of KoreALBERT's six tasks on toy files: the smallest that uses every task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.flows.conftest import TINY

ROWS = {"train": 24, "dev": 8, "test": 10}
WORDS = ("도서관", "바다가", "조용한", "노을", "기차는", "천천히", "학교", "우산을", "오래", "걸었다")
LABELS = ("entailment", "contradiction", "neutral")
MAX_LENGTH = 32

Rows = list[str]


def _pairs(random: np.random.Generator, count: int) -> list[tuple[str, str]]:
    return [(" ".join(random.choice(WORDS, 4)), " ".join(random.choice(WORDS, 3))) for _ in range(count)]


def kornli(random: np.random.Generator, count: int) -> Rows:
    rows = [f"{a}\t{b}\t{LABELS[n % 3]}" for n, (a, b) in enumerate(_pairs(random, count))]
    return ["sentence1\tsentence2\tgold_label", *rows]


def korsts(random: np.random.Generator, count: int) -> Rows:
    rows = [f"toy\tours\t2024\t{n:04d}\t{n % 6}.000\t{a}\t{b}" for n, (a, b) in enumerate(_pairs(random, count))]
    return ["genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2", *rows]


def nsmc(random: np.random.Generator, count: int) -> Rows:
    return ["id\tdocument\tlabel", *(f"{n}\t{a}\t{n % 2}" for n, (a, _) in enumerate(_pairs(random, count)))]


def pd(random: np.random.Generator, count: int) -> Rows:
    return ["question1\tquestion2\tis_duplicate", *(f"{a}\t{b}\t{n % 2}" for n, (a, b) in enumerate(_pairs(random, count)))]


def naver_ner(random: np.random.Generator, count: int) -> Rows:
    return [f"{a}\tLOC-B O O AFW-B" for a, _ in _pairs(random, count)]


def korquad(random: np.random.Generator, count: int) -> Rows:
    articles = []
    for n, (context, asked) in enumerate(_pairs(random, count)):
        answer = {"text": context.split()[1], "answer_start": len(context.split()[0]) + 1}
        qas = [{"id": str(n), "question": asked, "answers": [answer]}]
        articles.append({"title": str(n), "paragraphs": [{"context": context, "qas": qas}]})
    return [json.dumps({"version": "KorQuAD_v1.0_train", "data": articles}, ensure_ascii=False)]


TASKS = {make.__name__: make for make in (kornli, korsts, nsmc, pd, naver_ner, korquad)}


def write_recipe(directory: Path, seeds: Sequence[int], tasks: Sequence[str] = tuple(TASKS)) -> Path:
    """Write the tiny recipe with tables for the six tasks, or some of them, instead of its own."""
    tables = []
    for name, make in ((name, TASKS[name]) for name in tasks):
        for number, (split, rows) in enumerate(ROWS.items()):
            text = "\n".join(make(np.random.default_rng(number), rows)) + "\n"
            (directory / f"{name}-{split}").write_text(text, "utf-8")
        files = "".join(f'{split} = "{name}-{split}"\n' for split in ROWS)
        cells = f'seeds = {list(seeds)}\ninits = ["pretrained"]\nresamples = 20\n'
        budget = f"epochs = 1\nbatch_size = 8\nmax_length = {MAX_LENGTH}\n"
        tables.append(f"[finetune.{name}]\n{files}{cells}{budget}")
    tiny = TINY.read_text("utf-8").replace("../../data_specs", str(TINY.parents[2] / "data_specs"))
    before, after = tiny.partition("[finetune.")[0], "[report]\n"
    path = directory / "six.toml"
    path.write_text(before + "\n".join(tables) + after, "utf-8")
    return path
