"""Sentence splitting: MB/s of the rules, of Kiwi and, where an environment with kss is given, of kss; agreement with Kiwi.

python -m bench.sentences KOWIKI NEWS [--peers PYTHON]: ``KOWIKI`` is WikiExtractor output, ``NEWS`` a folder or archive of
``title<TAB>body`` files; one process, MB of UTF-8, seconds of processor time. Exits with 1 unless the rules reach
20 MB/s on both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from korealbert.artifact import InputPath
from korealbert.corpus.clean.sentences import compare, split_text
from korealbert.corpus.extract import PARSERS, shard_inputs
from korealbert.corpus.readers.records import RawRecords, Tally
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document

GOAL = 20.0
BYTES_FOR_RULES, BYTES_FOR_KIWI, BYTES_FOR_KSS = 20_000_000, 300_000, 20_000
ROUNDS = 3
PATIENCE_SECONDS = 40
KSS = """
import json, sys, time
from kss import split_sentences
texts = json.load(sys.stdin)
split_sentences("문장을 나눈다. 처음에는 느리다.")
start = time.process_time()
for text in texts:
    split_sentences([line for line in text.split("\\n") if line], backend="auto", num_workers=1)
print(json.dumps(time.process_time() - start))
"""


def texts_of(source: str, format_name: str, path: Path, limit: int) -> list[str]:
    """The texts of a source, about ``limit`` bytes of them."""
    spec = ExtractSpec(source=source, format=format_name, paths=(InputPath(path=path),))
    texts, size = [], 0
    for document in _documents(spec):
        texts.append(document.text)
        size += len(document.text.encode())
        if size >= limit:
            break
    return texts


def _documents(spec: ExtractSpec) -> Iterator[Document]:
    for shard in shard_inputs(spec):
        for part in shard.parts:
            if isinstance(part, RawRecords):
                for outcome in PARSERS[spec.format, spec.document](spec, part, Tally()):
                    if isinstance(outcome, Document):
                        yield outcome


def megabytes(texts: list[str]) -> float:
    """Size in UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def seconds(work: Callable[[], object]) -> float:
    """The least time of a few rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def kss_seconds(python: Path, texts: list[str]) -> float:
    """What kss takes, in its own interpreter; nan where it does not run, infinite where it does not come to an end."""
    command = [str(python), "-c", KSS]
    try:
        done = subprocess.run(
            command, input=json.dumps(texts), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return float("inf")
    return float(done.stdout.splitlines()[-1]) if done.returncode == 0 else float("nan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kowiki", type=Path)
    parser.add_argument("news", type=Path)
    parser.add_argument("--peers", type=Path)
    arguments = parser.parse_args()
    split_text("먼저 한 번.", "kiwi")
    slowest = float("inf")
    print("source   rules MB/s  kiwi MB/s  kss MB/s  goal    boundary F1 rules / Kiwi")
    for source, format_name, path in (("kowiki", "wikiextractor", arguments.kowiki), ("news", "news_text", arguments.news)):
        texts = texts_of(source, format_name, path, BYTES_FOR_RULES)
        few, fewer = (list(_up_to(texts, limit)) for limit in (BYTES_FOR_KIWI, BYTES_FOR_KSS))
        rules = megabytes(texts) / seconds(lambda texts=texts: [split_text(text, "rules") for text in texts])
        start = time.process_time()
        for text in few:
            split_text(text, "kiwi")
        kiwi = megabytes(few) / (time.process_time() - start)
        kss = megabytes(fewer) / kss_seconds(arguments.peers, fewer) if arguments.peers else float("nan")
        agreed = compare(few)
        slowest = min(slowest, rules)
        print(f"{source:<8} {rules:>10.1f} {kiwi:>10.2f} {kss:>9.4f}  >= {GOAL:g}   {agreed['f1']:.3f} {agreed}")
    return 0 if slowest >= GOAL else 1


def _up_to(texts: list[str], limit: int) -> Iterator[str]:
    size = 0
    for text in texts:
        if size >= limit:
            return
        size += len(text.encode())
        yield text


if __name__ == "__main__":
    sys.exit(main())
