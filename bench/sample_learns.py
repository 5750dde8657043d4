"""Check that the sample's model learnt its language: ``python -m bench.sample_learns store/report-…/report.html``.

Fails if the pretrained model does not score far above chance on both benchmarks, on held-out text and on the recipe's prompts,
or if random weights score as well on the benchmarks: then something between the text and the scores is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from korealbert.artifact import Artifact

MIN_PRETRAINED, MAX_RANDOM = 90.0, 60.0
"""Limits of score × 100. Pretrained models have scored 90 and more; random weights about 50 on NSMC and 0 on KorSTS."""
MIN_HELD_OUT = {"mlm_accuracy": 0.6, "sop_accuracy": 0.75, "wop_accuracy": 0.25}
"""Seen: .70, .91 and .43. A guess has one half of the sentence orders and one of 65 offsets."""
FIRST_ANSWERS = {2: "과", 3: "할머니", 4: "시고"}
"""Ends of the first answers by the prompt's number. The answers to the first two, after praise and blame, share nothing."""


def check_benchmarks(means: Mapping[str, Mapping[str, float]]) -> None:
    """Raise SystemExit unless each benchmark tells pretrained from random weights; means are score × 100."""
    for benchmark, scores in means.items():
        print(f"{benchmark}: {scores['pretrained']:.2f} pretrained, {scores['random']:.2f} from random weights")
        if not (scores["pretrained"] >= MIN_PRETRAINED and scores["random"] <= MAX_RANDOM):
            raise SystemExit(f"{benchmark}: expected at least {MIN_PRETRAINED} pretrained and at most {MAX_RANDOM} at random")
    if set(means) != {"nsmc", "korsts"}:
        raise SystemExit(f"expected nsmc and korsts, found {', '.join(means) or 'no benchmark'}")


def check_held_out(heldout: Mapping[str, float]) -> None:
    """Raise SystemExit unless masked pieces, sentence order and offsets were learnt; accuracies are shares of 1."""
    for measure, least in MIN_HELD_OUT.items():
        print(f"{measure} of held-out text: {heldout[measure]:.3f}")
        if not heldout[measure] >= least:
            raise SystemExit(f"{measure}: expected at least {least}")


def check_prompts(filled: Sequence[Mapping[str, Any]]) -> None:
    """Raise SystemExit unless the answers to the recipe's prompts are words of the right kind."""
    answers = [[piece for piece, _ in prompt["answers"]] for prompt in filled]
    for prompt, pieces in zip(filled, answers, strict=True):
        print(f"{prompt['prompt']}  {' '.join(pieces)}")
    if common := set(answers[0]) & set(answers[1]):
        raise SystemExit(f"{', '.join(sorted(common))}: found after praise and after blame")
    for place, end in FIRST_ANSWERS.items():
        if not answers[place][0].endswith(end):
            raise SystemExit(f"{filled[place]['prompt']}: expected {end} first, found {answers[place][0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    directory = parser.parse_args().report.resolve().parent
    report = Artifact(directory.name, directory)
    pretrain, export = (
        Artifact(name, directory.with_name(name)) for name in map(report.manifest["inputs"].get, ("pretrain", "export"))
    )
    check_benchmarks(report.stats["means"])
    check_held_out(pretrain.stats["heldout"])
    check_prompts(export.stats["filled"])


if __name__ == "__main__":
    main()
