"""The commands of certificates over a small file of NSMC, and changes to what they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from korealbert.flows.cli import app

GOLD = "id\tdocument\tlabel\n1\t좋다\t1\n2\t싫다\t0\n3\t최고\t1\n4\t별로\t0\n"
PREDICTIONS = "".join(f'{{"id": "{n}", "label": {label}}}\n' for n, label in ((1, 1), (2, 0), (3, 0), (4, 0)))


def call(*arguments: object) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.output.splitlines()


def score(desk: Path, *more: object, task: object = "nsmc") -> tuple[int, list[str]]:
    certificate = () if "--certificate" in more else ("--certificate", desk / "score.json")
    return call("score", task, desk / "gold/test.txt", desk / "given.jsonl", *certificate, *more)


def change(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that changes a field of a certificate, given by its dotted name."""

    def changed(found: dict[str, Any]) -> None:
        *parents, last = field.split(".")
        for parent in parents:
            found = found[parent]
        found[last] = value

    return changed


def rewrite(path: Path, changed: Callable[[dict[str, Any]], None]) -> None:
    found = json.loads(path.read_bytes())
    changed(found)
    path.write_bytes((json.dumps(found, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
