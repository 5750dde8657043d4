"""Fixtures: a tiny encoder in Hugging Face format and toy benchmark files, all generated."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AlbertConfig, AlbertModel, PreTrainedTokenizerFast

from korealbert.artifact import Artifact
from korealbert.pretrain.runtime import TrainingRuntime
from tests.finetune.scores.certifying import GOLD, PREDICTIONS
from tests.finetune.toml_benchmarks import Bench

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
PRAISE = ("재밌다", "훌륭한", "최고의", "감동", "추천")
BLAME = ("지루한", "최악의", "돈아까운", "실망", "졸린")
NEUTRAL = ("이", "영화", "배우", "연기", "장면", "음악", "어제", "친구와", "봤는데", "정말")


def word_tokenizer(*, template: bool = True) -> PreTrainedTokenizerFast:
    words = [*SPECIAL, *PRAISE, *BLAME, *NEUTRAL]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=SPECIAL[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised ALBERT with two layers, in the form of an export."""
    directory = tmp_path_factory.mktemp("tiny-albert")
    config = AlbertConfig(
        vocab_size=32,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        AlbertModel(config).save_pretrained(directory)
    word_tokenizer().save_pretrained(directory)
    return directory


@pytest.fixture
def model(model_dir: Path) -> Artifact:
    return Artifact("export-0000", model_dir)


@pytest.fixture
def runtime() -> TrainingRuntime:
    return TrainingRuntime(threads=1, device="cpu")


def write_nsmc(path: Path, rows: int, seed: int) -> Path:
    """Write reviews whose label depends on one word."""
    random = np.random.default_rng(seed)
    lines = ["id\tdocument\tlabel"]
    for number in range(rows):
        label = int(random.integers(2))
        words = [*random.choice(NEUTRAL, random.integers(1, 9)), random.choice((BLAME, PRAISE)[label])]
        lines.append(f"{number}\t{' '.join(random.permutation(words))}\t{label}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def write_korsts(path: Path, rows: int, seed: int) -> Path:
    """Write pairs whose score is five times the share of common words; sentences begin with a literal quote."""
    random = np.random.default_rng(seed)
    lines = ["genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"]
    for number in range(rows):
        first = random.choice(NEUTRAL, 4, replace=False)
        shared = int(random.integers(5))
        second = [*first[:shared], *random.choice(PRAISE, 4 - shared)]
        lines.append(f'toy\tours\t2024\t{number:04d}\t{shared * 1.25:.3f}\t"{" ".join(first)}\t{" ".join(second)}')
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.fixture(scope="session")
def nsmc(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("nsmc")
    return {
        "task": "nsmc",
        "train": write_nsmc(directory / "train.txt", 600, 1),
        "test": write_nsmc(directory / "test.txt", 90, 2),
        "max_length": 16,
    }


@pytest.fixture(scope="session")
def korsts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("korsts")
    sizes = {"train": 200, "dev": 40, "test": 41}
    parts = {part: write_korsts(directory / f"{part}.tsv", rows, rows) for part, rows in sizes.items()}
    return {"task": "korsts", **parts, "max_length": 16}


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a new empty directory with a name."""

    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return make


@pytest.fixture
def tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    """Makes a fast tokenizer of whole words."""
    return word_tokenizer


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A directory for the TOML file of a benchmark and its official files."""
    return Bench(tmp_path)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory with gold and predictions of NSMC."""
    for name, text in (("gold/test.txt", GOLD), ("given.jsonl", PREDICTIONS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    for name in ("mine", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    return tmp_path
