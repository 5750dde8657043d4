"""TOML files of benchmarks, and official files beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.task import Example, Task

HEAD = 'name = "mine"\ntitle = "Mine"\norigin = "example.org, CC BY 4.0"\n'

REVIEWS = f"""{HEAD}
kind = "classification"
format = "tsv"
labels = ["bad", "good"]
spellings = ["0", "1"]
metric = "macro_f1"
[columns]
id = "number"
text = "review"
label = "stars"
"""


class Bench:
    """The TOML file of a benchmark, and files beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, text: str, name: str = "mine.toml") -> Path:
        path = self.directory / name
        path.write_text(text, "utf-8")
        return path

    def task(self, toml: str) -> Task:
        return tasks.find(str(self.write(toml)))

    def read(self, toml: str, content: str, name: str = "test.txt") -> list[Example]:
        return self.task(toml).read(BenchmarkFile(self.write(content, name)))

    def wrong(self, toml: str) -> list[str]:
        with pytest.raises(ValueError, match=r"mine\.toml") as raised:
            self.task(toml)
        return str(raised.value).splitlines()


def kind(name: str, form: str, columns: str, more: str = "") -> str:
    return f'{HEAD}kind = "{name}"\nformat = "{form}"\n{more}\n[columns]\n{columns}\n'
