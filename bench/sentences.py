"""Speed of sentence splitting by rules, by Kiwi and by kss, and how far the rules agree with Kiwi.

python -m bench.sentences KOWIKI NEWS [--peers PYTHON]: ``KOWIKI`` is WikiExtractor output, ``NEWS`` a folder or archive of
``title<TAB>body`` files. PYTHON is an interpreter with kss; without it kss is not measured. Speeds are MB of UTF-8 per second
of processor time in one process. Exits with 1 unless the rules reach 20 MB/s on both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.common import answer, documents, kowiki, options, peer
from korealbert.artifact import InputPath
from korealbert.corpus.clean.sentences import compare, split_text
from korealbert.corpus.readers.spec import ExtractSpec

GOAL = 20.0
BYTES_FOR_RULES, BYTES_FOR_KIWI, BYTES_FOR_KSS = 20_000_000, 300_000, 20_000
ROUNDS = 3
KSS_SECONDS = 40
"""Time after which kss is given up."""


def megabytes(texts: list[str]) -> float:
    """Return the size in UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def seconds(work: Callable[[], object]) -> float:
    """Return the shortest time of a few rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def kss_seconds(python: Path, texts: list[str]) -> float:
    """Return the seconds that kss takes in its own interpreter; NaN if it does not run, infinity if it takes too long."""
    try:
        return float(answer(peer(python, "kss"), given=json.dumps(texts), seconds=KSS_SECONDS))
    except subprocess.TimeoutExpired:
        return float("inf")
    except RuntimeError:
        return float("nan")


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("kowiki", type=Path)
    parser.add_argument("news", type=Path)
    parser.add_argument("--peers", type=Path)
    arguments = parser.parse_args()
    split_text("먼저 한 번.", "kiwi")  # Loads its model.
    slowest = float("inf")
    print("source   rules MB/s  kiwi MB/s  kss MB/s  goal    boundary F1 rules / Kiwi")
    news = ExtractSpec(source="news", format="news_text", paths=(InputPath(path=arguments.news),))
    for spec in (kowiki(arguments.kowiki), news):
        texts = list(_up_to((document.text for document in documents(spec)), BYTES_FOR_RULES))
        few, fewer = (list(_up_to(texts, limit)) for limit in (BYTES_FOR_KIWI, BYTES_FOR_KSS))
        rules = megabytes(texts) / seconds(lambda texts=texts: [split_text(text, "rules") for text in texts])
        start = time.process_time()
        for text in few:
            split_text(text, "kiwi")
        kiwi = megabytes(few) / (time.process_time() - start)
        kss = megabytes(fewer) / kss_seconds(arguments.peers, fewer) if arguments.peers else float("nan")
        agreed = compare(few)
        slowest = min(slowest, rules)
        print(f"{spec.source:<8} {rules:>10.1f} {kiwi:>10.2f} {kss:>9.4f}  >= {GOAL:g}   {agreed['f1']:.3f} {agreed}")
    return 0 if slowest >= GOAL else 1


def _up_to(texts: Iterable[str], limit: int) -> Iterator[str]:
    """Yield the first texts, until they have reached a size in bytes."""
    size = 0
    for text in texts:
        if size >= limit:
            return
        size += len(text.encode())
        yield text


if __name__ == "__main__":
    sys.exit(main())
