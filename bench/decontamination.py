"""Check that no evaluation text survives in a corpus, and print what else decontamination removes.

python -m bench.decontamination CORPUS BENCHMARKS [--planted 1000] [--documents 10000]: ``CORPUS`` is WikiExtractor output (a
folder or archive), ``BENCHMARKS`` the folder of the NSMC test set and KorQuAD 1.0. Texts of both are planted in real documents:
as a paragraph, as a line among others, with a line break after each sentence, beside what pages put in a comment's line (name,
score, date, laughter, buttons), and within a line (texts of at least 20 letters). The last two leave out numbers and laughter,
which decontamination removes as whole lines only.
The documents are cleaned, which splits sentences, and decontaminated. A text survives if the result contains its letters in a
row. Then the same documents without planted texts: the lines that they lose to NSMC are printed, for a person to read;
KorQuAD's paragraphs are from Wikipedia. Exits with 1 if a text survives.
"""

from __future__ import annotations

import re
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.common import documents, kowiki, options
from korealbert.artifact import InputPath
from korealbert.corpus.clean.stage import CleanSpec, Rules, clean_document
from korealbert.corpus.dedup.decontaminate import EvaluationTexts, index_evaluation_texts, letters_of, load_evaluation_texts
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, read_texts
from korealbert.corpus.dedup.stage import DedupSpec
from korealbert.documents.schema import Document

KORQUAD_MEMBER = "korquad/KorQuAD_v1.0_dev.json"

Planting = Callable[[list[str], int, str], list[str]]
"""Takes lines, a place among them and a text; returns the lines with the text."""


def _within_a_line(lines: list[str], place: int, text: str) -> list[str]:
    words = lines[place].split(" ")
    middle = len(words) // 2
    return [*lines[:place], " ".join([*words[:middle], text, *words[middle:]]), *lines[place + 1 :]]


_BESIDE = (
    *(
        "{} (10점)",
        "★★★★★ {}",
        "평점 10 {}",
        "{} ㅋㅋㅋㅋ",
        "ㅎㅎ {}",
        "{} 하하하",
        "{} - 홍길동",
        "홍길동: {}",
        "[홍길동] {}",
        "{} (hong****)",
    ),
    *(
        "2019.01.02 {}",
        "{} 2019-01-02",
        "홍길동 2019.01.02 {} 추천 3 신고",
        "{} 홍길동(hong****) 2019.01.02 10:30",
        "관람객 {}",
        "{} #영화",
    ),
)


def _beside(lines: list[str], place: int, text: str) -> list[str]:
    return [*lines[:place], _BESIDE[len(text) % len(_BESIDE)].format(text), *lines[place:]]


PLANTINGS: dict[str, Planting] = {
    "a paragraph": lambda lines, place, text: [*lines[:place], f"\n{text}\n", *lines[place:]],
    "a line": lambda lines, place, text: [*lines[:place], text, *lines[place:]],
    "broken after sentences": lambda lines, place, text: [*lines[:place], re.sub(r"(?<=[.!?]) +", "\n", text), *lines[place:]],
    "beside a name or score": _beside,
    "within a line": _within_a_line,
}


def _can_stand(planting: Planting, text: str) -> bool:
    """Return whether decontamination looks for a text where it is planted."""
    characters = letters_of(text)
    if planting not in (_beside, _within_a_line):
        return True
    is_whole_line = characters.isdigit() or len(set(characters)) <= 2
    return not is_whole_line and (planting is _beside or len(characters) >= 20)


def letters(text: str) -> str:
    """Return the letters and digits of a text."""
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", text)).lower()


def cleaned(raw: list[Document]) -> Iterator[str]:
    """Yield the texts of the documents that cleaning keeps."""
    spec = CleanSpec()
    rules = Rules.of(spec)
    for document in raw:
        outcome = clean_document(document, spec, rules)
        if outcome.drop is None:
            yield outcome.document.text


def survivors(planting: Planting, texts: list[str], hosts: list[Document], evaluation: EvaluationTexts) -> tuple[int, int]:
    """Return how many planted texts survive, and how many cleaning leaves."""
    planted = survived = 0
    for text, host in zip(texts, hosts, strict=True):
        lines = host.text.split("\n")
        inside = planting(lines, len(lines) // 2, text)
        for clean in cleaned([replace(host, text="\n".join(inside))]):
            planted += letters(text) in letters(clean)
            outcome = evaluation.decontaminate(clean)
            if outcome.drop is None and letters(text) in letters(outcome.text):
                survived += 1
                print(f"  {text}")
    return survived, planted


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("benchmarks", type=Path)
    parser.add_argument("--planted", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=10_000)
    arguments = parser.parse_args()
    nsmc = InputPath(arguments.benchmarks / "nsmc_test.txt.zst")
    korquad = InputPath(arguments.benchmarks / "korquad_v1.0_dev.tar.zst")
    sets = [
        EvaluationFile(name="NSMC", path=nsmc, format="tsv", columns=("document",), passages="paragraph"),
        EvaluationFile(name="KorQuAD", path=korquad, member=KORQUAD_MEMBER, format="korquad", columns=("context",)),
    ]
    long_enough = (document for document in documents(kowiki(arguments.corpus)) if document.text.count("\n") > 4)
    pages = list(islice(long_enough, arguments.documents))
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        index_evaluation_texts(sets, DedupSpec().min_letters, Path(directory) / "index")
        evaluation = load_evaluation_texts(Path(directory) / "index")
        for one in sets:
            texts = [text for text in read_texts(one) if len(letters_of(text)) >= evaluation.min_letters]
            chosen = texts[:: max(1, len(texts) // arguments.planted)][: arguments.planted]
            for name, planting in PLANTINGS.items():
                some = [text for text in chosen if _can_stand(planting, text)]
                survived, planted = survivors(planting, some, pages[: len(some)], evaluation)
                print(f"{one.name:8} as {name:24} {survived:5} of {planted} survive", flush=True)
                failed |= survived > 0
        every = list(cleaned(pages))
        print(f"\n{len(every)} documents without planted texts:")
        index_evaluation_texts(sets[:1], DedupSpec().min_letters, Path(directory) / "nsmc")
        for evaluation in (load_evaluation_texts(Path(directory) / "nsmc"), load_evaluation_texts(Path(directory) / "index")):
            outcomes = [(text, evaluation.decontaminate(text)) for text in every]
            changed, gone = (
                sum(map(bool, some)) for some in zip(*((one.changed, one.drop) for _, one in outcomes), strict=True)
            )
            print(f"{' and '.join(evaluation.names)}: {changed} lose text, {gone} of them all of it")
            if len(evaluation.names) == 1:
                lost = [line for text, one in outcomes for line in set(text.split("\n")) - set(one.text.split("\n"))]
                print("".join(f"  {line}\n" for line in lost[:50]), end="")
    sys.exit(failed)


if __name__ == "__main__":
    main()
