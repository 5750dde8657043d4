"""Check that the sample's model learnt its language: ``python -m bench.sample_learns store/report-…/report.html``.

Fails if the pretrained model does not score far above chance on both benchmarks, or if random weights score as well: then
something between the text and the scores is wrong.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from korealbert.artifact import Artifact

MIN_PRETRAINED, MAX_RANDOM = 90.0, 60.0
"""Limits of score × 100. Pretrained models have scored 92 and more; random weights about 50 on NSMC and 0 on KorSTS."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    directory = parser.parse_args().report.resolve().parent
    means = Artifact(directory.name, directory).stats["means"]
    for benchmark, scores in means.items():
        print(f"{benchmark}: {scores['pretrained']:.2f} pretrained, {scores['random']:.2f} from random weights")
        if not (scores["pretrained"] >= MIN_PRETRAINED and scores["random"] <= MAX_RANDOM):
            raise SystemExit(f"{benchmark}: expected at least {MIN_PRETRAINED} pretrained and at most {MAX_RANDOM} at random")
    if set(means) != {"nsmc", "korsts"}:
        raise SystemExit(f"expected nsmc and korsts, found {', '.join(means) or 'no benchmark'}")


if __name__ == "__main__":
    main()
