"""Main text, titles and authors of pages beside plain trafilatura: how much of the expected text is found, and how little else.

python -m bench.html_text [FOLDER]. Reads the pages of ``tests/golden/html``. FOLDER adds real pages, ``OUTLET_DATE.html.gz``,
and what a person expects of them, ``OUTLET.json``: title, sections of the body, authors and time, by version. Exits with 1 if
ours finds less than trafilatura on any page.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trafilatura

from bench.common import options
from korealbert.corpus.html.article import read_article

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "html"


@dataclass(frozen=True)
class Page:
    name: str
    data: bytes
    outlet: str
    title: str
    authors: frozenset[str]
    paragraphs: frozenset[str]


def one_line(text: str) -> str:
    return " ".join(text.split())


def golden_pages() -> Iterator[Page]:
    expected = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
    for name, facts in expected["pages"].items():
        data = (GOLDEN / f"{name}.html").read_bytes()
        yield Page(name, data, facts["outlet"], facts["title"], frozenset(facts["authors"]), frozenset(expected["paragraphs"]))


def real_pages(folder: Path) -> Iterator[Page]:
    """Yield each page with the newest version of its outlet's expected fields from the month of its publication."""
    for path in sorted(folder.rglob("*.html.gz")):
        data = gzip.decompress(path.read_bytes())
        versions = json.loads(path.with_name(f"{path.name.partition('_')[0]}.json").read_text("utf-8"))
        # Versions are told apart by the month of publication, which is in the file's name.
        found = [v for v in versions.values() if v["publishing_date"][:10].replace("-", "_")[:7] in path.name]
        wanted: dict[str, Any] = found[-1]
        body = [text for part in wanted["body"]["sections"] for text in (*part["headline"], *part["paragraphs"])]
        authors = frozenset(author.split()[0] for author in wanted["authors"])
        yield Page(path.name[:-8], data, "", one_line(wanted["title"]), authors, frozenset(map(one_line, body)))


def ours(page: Page) -> tuple[list[str], str, set[str]]:
    article = read_article(page.data, outlet=page.outlet)
    return article.text.split("\n\n"), article.title, set(article.authors)


def plain(page: Page) -> tuple[list[str], str, set[str]]:
    text = trafilatura.extract(page.data, output_format="json", with_metadata=True, include_comments=False)
    found = json.loads(text) if text else {}
    authors = {name.strip() for name in (found.get("author") or "").split(";")} - {""}
    return (found.get("text") or "").split("\n"), one_line(found.get("title") or ""), authors


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    arguments = parser.parse_args()
    pages = [*golden_pages(), *(real_pages(arguments.folder) if arguments.folder else ())]
    for page in pages:  # Loads modules and fills caches.
        ours(page), plain(page)
    worse = False
    print(
        "          found: share of the expected characters; wanted: share of the text that is expected; each ours, trafilatura"
    )
    print(f"{'page':24}{'found':>14}{'wanted':>14}{'title':>10}{'authors':>10}")
    seconds = dict.fromkeys((ours, plain), 0.0)
    for page in pages:
        cells: list[list[float | bool]] = []
        for read in (ours, plain):
            start = time.perf_counter()
            lines, title, authors = read(page)
            seconds[read] += time.perf_counter() - start
            lines = [one_line(line) for line in lines]
            found = sum(len(paragraph) for paragraph in page.paragraphs if paragraph in lines) / sum(map(len, page.paragraphs))
            wanted = sum(len(line) for line in lines if line in page.paragraphs) / max(1, sum(map(len, lines)))
            cells.append([found, wanted, title == page.title, authors >= page.authors])
        worse |= cells[0][0] < cells[1][0]
        (found, wanted, *right), (found_plain, wanted_plain, *right_plain) = cells
        facts = "".join(f"{' '.join('yes' if right else 'no' for right in pair):>10}" for pair in zip(right, right_plain))
        print(f"{page.name:24}{found:8.3f} {found_plain:.3f}{wanted:8.3f} {wanted_plain:.3f}{facts}")
    print(f"pages/s: {len(pages) / seconds[ours]:.0f}, trafilatura {len(pages) / seconds[plain]:.0f}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
