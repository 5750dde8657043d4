"""Scores and their intervals have the same digits on every processor: OpenBLAS picks another kernel on each, which sums in
another order."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys

import numpy as np

from korealbert.artifact.host import host_facts
from korealbert.finetune.metrics.labels import mean_ranks, pearson, spearman
from korealbert.finetune.scores.resampling import exact_sums

KERNELS = ("Haswell", "SkylakeX", "Prescott")
SCRIPT = """
import numpy as np
from korealbert.finetune.scores.resampling import Correlated
from korealbert.finetune.metrics.labels import pearson, spearman
from korealbert.finetune.scores.resampling import Additive, Draws
from korealbert.finetune.scores.statistics import compare

generator = np.random.Generator(np.random.Philox(key=[1, 2]))
for count in (97, 1379, 5000):
    gold = np.round(generator.random(count) * 5, 1)
    systems = [gold + generator.normal(size=count) for _ in range(2)]
    print(*(repr(measure(gold, each)) for measure in (pearson, spearman) for each in systems))
    draws = Draws(examples=count, resamples=40, seed=3)
    for by_rank in (False, True):
        print(compare([[Correlated(gold, each, by_rank)] for each in systems], draws, confidence=0.95))
    f1 = [[Additive(generator.random((count, 3)) / 3, lambda sums: 100 * sums[:, 0] / (sums[:, 1] + sums[:, 2]))] for _ in "ab"]
    print(compare(f1, draws, confidence=0.95))
"""


def test_every_digit_is_the_same_with_any_kernel_of_blas() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "OPENBLAS_CORETYPE": kernel}, capture_output=True, check=False
        )
        for kernel in KERNELS
    ]
    # Kernels whose instructions this processor lacks do not run.
    answers = [run.stdout for run in runs if run.returncode != -signal.SIGILL]
    assert all(run.returncode in (0, -signal.SIGILL) for run in runs), [run.stderr for run in runs]
    assert len(answers) >= 2 and answers[0].count(b"\n") == 12 and set(answers) == {answers[0]}


def test_sums_of_fractions_are_those_of_exact_arithmetic() -> None:
    generator = np.random.Generator(np.random.Philox(key=[1, 2]))
    counts_NB = generator.integers(0, 5, size=(3000, 7)).astype(np.float64)
    quantities_NK = generator.random((3000, 4)) * np.array([1e-9, 1.0, 1e12, 0.0])
    sums_BK = exact_sums(counts_NB, quantities_NK)
    for b, k in np.ndindex(sums_BK.shape):
        exact = math.fsum((counts_NB[:, b] * quantities_NK[:, k]).tolist())
        assert math.isclose(sums_BK[b, k], exact, rel_tol=1e-15)
    whole_NK = generator.integers(0, 1 << 30, size=(3000, 2)).astype(np.float64)
    assert np.array_equal(exact_sums(counts_NB, whole_NK), counts_NB.astype(np.int64).T @ whole_NK.astype(np.int64))
    assert exact_sums(np.zeros((0, 2)), np.zeros((0, 3))).shape == (2, 3)


def test_rank_correlation_is_that_of_the_ranks() -> None:
    generator = np.random.Generator(np.random.Philox(key=[5, 2]))
    left, right = generator.integers(0, 9, size=(2, 400)).astype(np.float64)
    assert math.isclose(spearman(left, right), pearson(mean_ranks(left), mean_ranks(right)), rel_tol=1e-13)
    assert spearman(left, left) == 100.0 and spearman(left, -left) == -100.0
    assert spearman(left, np.zeros(400)) == 0.0


def test_what_built_an_artifact_names_processor_and_blas() -> None:
    facts = host_facts()
    assert isinstance(facts["cpu"], str) and facts["cpu"]
    assert any("openblas" in name for name in facts["blas"])
