"""Write two benchmarks that only the order of words decides, and test sets of two others whose words are shuffled.

    python -m bench.order_tasks DATA

DATA/benchmarks has klue_nli_dacon.tar.zst, nsmc_test.txt.zst and kornlu.tar.zst. DATA/order gets ``scrambled-SPLIT.tsv``
and ``particles-SPLIT.tsv`` of the premises of KLUE-NLI's training set (CC BY-SA 4.0), each sentence once. Half of them are
unchanged. In the others four neighbouring words stand in another order, each in another place (``scrambled``), or a subject
or topic and an object have exchanged their particles, in the form that fits the letter before them (``particles``).
`data_specs/benchmarks/scrambled.toml` and `particles.toml` read the files. ``nsmc-shuffled.tsv`` and
``korsts-shuffled.tsv`` are the test sets of NSMC and KorSTS, all words of each text in an order drawn at random.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
from collections.abc import Callable
from pathlib import Path

from kiwipiepy import Kiwi

from bench.common import files

_ROWS = 24_998
"""Rows of the archive's file that are KLUE-NLI's training set; the others are its dev set."""
_WINDOW = 4
_SEED = 1
_FORMS = {"JKS": ("이", "가"), "JX": ("은", "는"), "JKO": ("을", "를")}
"""Particles of subject, topic and object after a consonant and after a vowel, by Kiwi's tag."""

_SHUFFLED = (
    ("nsmc", "nsmc_test.txt.zst", "*", ("document",)),
    ("korsts", "kornlu.tar.zst", "kornlu/sts-test.tsv", ("sentence1", "sentence2")),
)


def scramble(sentence: str, draw: random.Random) -> str | None:
    """Move four neighbouring words, none of them the last; None if there are too few or if nothing changes."""
    words = sentence.split()
    if len(words) <= _WINDOW:
        return None
    first = draw.randrange(len(words) - _WINDOW)
    window = words[first : first + _WINDOW]
    order = list(range(_WINDOW))
    while any(place == origin for place, origin in enumerate(order)):
        draw.shuffle(order)
    moved = [window[origin] for origin in order]
    return None if moved == window else " ".join([*words[:first], *moved, *words[first + _WINDOW :]])


def exchange_particles(sentence: str, kiwi: Kiwi, draw: random.Random) -> str | None:
    """Exchange the particles of a subject or topic and an object; None if the sentence has no such pair of words."""
    found: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    for token in kiwi.tokenize(sentence):
        before, after = sentence[max(0, token.start - 1) : token.start], sentence[token.end : token.end + 1]
        whole = sentence[token.start : token.end] == token.form and "가" <= before <= "힣" and after in ("", " ")
        if whole and token.form in _FORMS.get(token.tag, ()):
            found[token.tag == "JKO"].append((token.start, token.tag))
    if not all(found.values()):
        return None
    (one, tag), (other, other_tag) = (draw.choice(found[is_object]) for is_object in (False, True))
    letters = list(sentence)
    for place, new in ((one, other_tag), (other, tag)):
        ends_in_vowel = (ord(letters[place - 1]) - ord("가")) % 28 == 0
        letters[place] = _FORMS[new][ends_in_vowel]
    return "".join(letters)


def write(sentences: list[str], change: Callable[[str], str | None], path: str) -> dict[str, int]:
    """Write train, dev and test (65, 10 and 25 %) of the sentences that can be changed; returns their sizes."""
    pairs = [(sentence, changed) for sentence in sentences if (changed := change(sentence)) is not None]
    labelled = [(pair[number % 2], ("original", "changed")[number % 2]) for number, pair in enumerate(pairs)]
    ends = [len(labelled) * share // 100 for share in (65, 75, 100)]
    sizes = {}
    for split, first, last in zip(("train", "dev", "test"), (0, *ends), ends, strict=False):
        lines = ["sentence\tlabel", *("\t".join(row) for row in labelled[first:last])]
        Path(f"{path}-{split}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        sizes[split] = last - first
    return sizes


def shuffle_words(lines: list[str], columns: tuple[str, ...], draw: random.Random) -> list[str]:
    """Shuffle the words of some columns of a table with tabs; its first line names the columns."""
    places = [lines[0].split("\t").index(column) for column in columns]
    shuffled = lines[:1]
    for line in lines[1:]:
        fields = line.split("\t")
        for place in places:
            words = fields[place].split()
            draw.shuffle(words)
            fields[place] = " ".join(words)
        shuffled.append("\t".join(fields))
    return shuffled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    [(_, content)] = files([data / "benchmarks" / "klue_nli_dacon.tar.zst"], "*.csv")
    rows = csv.DictReader(io.StringIO(content.decode("cp949")))
    sentences = list(dict.fromkeys(" ".join(row["premise"].split()) for row in rows if int(row["index"]) < _ROWS))
    draw, kiwi = random.Random(_SEED), Kiwi(num_workers=1)  # noqa: S311
    draw.shuffle(sentences)
    (data / "order").mkdir(exist_ok=True)
    print("scrambled", write(sentences, lambda sentence: scramble(sentence, draw), str(data / "order" / "scrambled")))
    exchanged = write(sentences, lambda sentence: exchange_particles(sentence, kiwi, draw), str(data / "order" / "particles"))
    print("particles", exchanged)
    for name, archive, member, columns in _SHUFFLED:
        [(_, content)] = files([data / "benchmarks" / archive], member)
        lines = shuffle_words(content.decode("utf-8").rstrip("\n").split("\n"), columns, draw)
        (data / "order" / f"{name}-shuffled.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        print(f"{name}-shuffled", len(lines) - 1)


if __name__ == "__main__":
    main()
