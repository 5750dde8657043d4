"""How well and how fast the classifier and the language model of stage `quality` tell real sources apart.

python -m bench.quality DATA [--documents 3000] [--bad reviews]: ``DATA`` is the folder of the real corpora. The models are
trained on half of the articles of an encyclopedia (good) and of the texts of another genre (bad). For the other half, and for
genres that no model saw, it prints mean quality, the share that ``pareto = 9`` keeps, the probability that an article has the
better score (area under the curve) and median perplexity; then documents per second on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import fmean, median

from sklearn.metrics import roc_auc_score

from bench.common import options
from bench.filters import prose
from korealbert.corpus.quality.models import codes, train_classifier, train_language_model

CHARACTERS = 3_000
GENRES = ("encyclopedia", "reviews", "news", "law", "petitions", "novels", "books")


def area(good: list[float], bad: list[float]) -> float:
    """Return the probability that a good text has a higher score than a bad one; ties count half."""
    return float(roc_auc_score([1] * len(good) + [0] * len(bad), good + bad))


def timed(score: Callable[[str], float], texts: list[str]) -> float:
    """Return documents per second."""
    start = time.process_time()
    for text in texts:
        score(text)
    return len(texts) / (time.process_time() - start)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=3_000)
    parser.add_argument("--bad", choices=GENRES[1:], default="reviews")
    arguments = parser.parse_args()
    texts = {genre: list(islice(prose(arguments.data, genre), arguments.documents)) for genre in GENRES}
    train = {genre: [codes(text, CHARACTERS) for text in found[::2]] for genre, found in texts.items()}
    held = {genre: found[1::2] for genre, found in texts.items()}
    start = time.process_time()
    classifier = train_classifier(train["encyclopedia"], train[arguments.bad], 1)
    print(
        f"classifier trained in {time.process_time() - start:.1f} s on {len(train['encyclopedia'])}+{len(train[arguments.bad])}"
    )
    start = time.process_time()
    model = train_language_model(train["encyclopedia"])
    print(f"language model trained in {time.process_time() - start:.1f} s")
    quality = {genre: [classifier.score(codes(text, CHARACTERS)) for text in found] for genre, found in held.items()}
    surprise = {genre: [model.perplexity(codes(text, CHARACTERS)) for text in found] for genre, found in held.items()}
    print(f"{'genre':14} {'texts':>6} {'quality':>8} {'kept':>7} {'area':>7} {'perplexity':>11} {'area':>7}")
    for genre in GENRES:
        areas = [area(quality["encyclopedia"], quality[genre]), area(surprise[genre], surprise["encyclopedia"])]
        kept = fmean((2 - score) ** -9 for score in quality[genre])
        row = f"{genre:14} {len(held[genre]):6} {fmean(quality[genre]):8.3f} {kept:7.1%} {areas[0]:7.4f}"
        print(f"{row} {median(surprise[genre]):11.1f} {areas[1]:7.4f}")
    for genre in ("encyclopedia", "news", "reviews"):
        fast = timed(lambda text: classifier.score(codes(text, CHARACTERS)), held[genre])
        slow = timed(lambda text: model.perplexity(codes(text, CHARACTERS)), held[genre])
        size = fmean(map(len, held[genre]))
        print(f"{genre:14} {size:7.0f} characters a document: classifier {fast:8,.0f}, language model {slow:8,.0f} documents/s")


if __name__ == "__main__":
    main()
