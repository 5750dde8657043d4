"""Whether the sample's model learnt its language: ``python -m bench.sample_learns store/report-…/report.html``.

Fails where pretraining does not lift both benchmarks far above chance, or where random weights know what only the corpus tells:
then something between the text and the scores is wrong.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from korealbert.artifact import Artifact

LEAST, MOST_BY_CHANCE = 80.0, 75.0
"""Score × 100 of pretrained and of random weights; seen were 92 and more, and some 50 and 0."""


def main() -> None:
    """Exit with a message naming benchmark and score where it did not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    directory = parser.parse_args().report.resolve().parent
    means = Artifact(directory.name, directory).stats["means"]
    for benchmark, of in means.items():
        print(f"{benchmark}: {of['pretrained']:.2f} pretrained, {of['random']:.2f} from random weights")
        if not (of["pretrained"] >= LEAST and of["random"] <= MOST_BY_CHANCE):
            raise SystemExit(f"{benchmark}: at least {LEAST} pretrained and at most {MOST_BY_CHANCE} at random are expected")
    if set(means) != {"nsmc", "korsts"}:
        raise SystemExit(f"nsmc and korsts are expected, found {', '.join(means) or 'no benchmark'}")


if __name__ == "__main__":
    main()
