"""What the news rules remove from real articles and what they leave: counts, and the passages for a person to judge.

python -m bench.news_residue DATA_DIR [--sample 1000] [--seed 1] [--held-out] [--out DIR]: DATA_DIR holds
``corpus/news_categories.tar.zst`` and ``corpus/news_leads.tar.zst``. The sample is the articles with the smallest hashes of
seed and name; ``--held-out`` takes the other articles and as many leads instead. It prints removed spans and dropped articles
by rule, and the articles whose cleaned text still matches a pattern of residue. With ``--out`` it writes ``removed.txt`` (each
distinct span with its context), ``zones.txt`` (first and last lines of every cleaned article) and ``lines.txt`` (lines that are
not sentences). ``news_verdicts.toml`` says what a reader found in them. It contains no text of the articles, and holds for as
long as the digest of the outcomes is the one that it names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.common import outcomes
from korealbert.artifact import InputPath
from korealbert.corpus.clean.news import Cleaned
from korealbert.corpus.clean.stage import CleanedDocument, CleanSpec, Rules, clean_document
from korealbert.corpus.readers.spec import ExtractSpec, FieldMap
from korealbert.documents.schema import Document
from korealbert.philox import hash64

VERDICTS = Path(__file__).with_suffix("").parent / "news_verdicts.toml"
RULES = Path(__file__).parents[1] / "data_specs" / "rules"

RESIDUE = {
    "byline": r"(?m)(?:^|[.다]\s?|[\[(</=])[가-힣]{2,4}(?:·[가-힣]{2,4})* ?(?:[가-힣]{2,4} ?)?"
    r"(?:기자|특파원|통신원|논설위원)\s*[\])>]?$",
    "address": r"[\w.+-]+@(?:[\w-]+\.[\w.-]+)?\s*[\])>]?\s*\Z",
    "notice": r"무단 ?(?:전재|복제|배포)|재배포 ?금지|[ⓒ©]|저작권자|Copyright",
    "promotion": r"(?m)^[▶☞▷★◎►☎✔]|제보(?:하기|를 기다립니다|는 카카오톡)|구독(?:하기|하세요)|바로가기\]?$|관련 ?기사\]?$",
    "dateline": r"\A[^\n]{0,80}(?:[\[(<【][^\])>】\n]{0,30}=[^\])>】\n]{0,20}(?:연합뉴스|뉴시스|뉴스1)[^\n]{0,3}[\])>】])",
    "label": r"(?m)^[\[(<【◀]\s?(?:앵커|기자|리포트|인터뷰|앵커멘트)\s?[\])>】▶]",
    "credit": r"(?m)(?:^|[\[(</]\s?)(?:사진|그래픽|자료사진|사진제공|사진출처)\s?(?:[=:]|제공\s?=)[^\n]{0,40}$",
}
"""Patterns of what a reader would call residue, by kind."""

CONTEXT_CHARS = 40
SHOWN_CHARS = 160


@dataclass(frozen=True)
class Article:
    """One real article and the outcome of cleaning it."""

    name: str
    """Folder and number of an article, or day and position of a lead."""
    before: str
    outcome: CleanedDocument

    @property
    def cleaned(self) -> Cleaned:
        return self.outcome.cleaned

    @property
    def title_drop(self) -> bool:
        return self.outcome.drop is not None and self.outcome.drop.reason == "title_rule"


def documents(spec: ExtractSpec) -> Iterator[tuple[str, Document]]:
    """Yield the documents of a raw source, named by file within the archive and position in it."""
    for name, outcome in outcomes(spec):
        if isinstance(outcome, Document):
            yield name.partition("::")[2], outcome


def articles(data: Path) -> Iterator[tuple[str, Document]]:
    """Yield the whole articles."""
    path = InputPath(data / "corpus" / "news_categories.tar.zst")
    spec = ExtractSpec(source="news", format="news_text", paths=(path,), members="*NewsData.txt")
    for name, document in documents(spec):
        found = re.search(r"(\d)/(\d{4})NewsData", name)
        if found:
            yield f"{found[1]}/{found[2]}", document


def leads(data: Path) -> Iterator[tuple[str, Document]]:
    """Yield titles with the beginnings of articles."""
    path = InputPath(data / "corpus" / "news_leads.tar.zst")
    fields = FieldMap(text="summary", outlet="source", published="date")  # type: ignore[arg-type]
    spec = ExtractSpec(source="leads", format="news", paths=(path,), members="*.json", fields=fields)
    for name, document in documents(spec):
        day, _, number = name.partition("/kr_articles.json#")
        yield f"{day[-10:]}#{number}", document


def articles_of(path: Path) -> Iterator[tuple[str, Document]]:
    """Yield the records of a JSON Lines file with ``title`` and ``text``, named by file and ``id``."""
    spec = ExtractSpec(source="articles", format="jsonl", paths=(InputPath(path),))
    for line, (_, document) in zip(path.open(encoding="utf-8"), documents(spec), strict=True):
        yield f"{path.stem}/{json.loads(line)['id']}", document


def ordered(named: Iterator[tuple[str, Document]], seed: int) -> list[tuple[str, Document]]:
    """Return documents in the order of the hash of seed and name."""
    return sorted(named, key=lambda one: hash64(f"{seed}:{one[0]}"))


def surroundings(article: Article) -> Iterator[tuple[str, str, str, str]]:
    """Yield (rule, text before, removed span, text after) of each removal, in the text as it was then."""
    text = article.cleaned.restored()
    for removal in article.cleaned.removals:
        end = removal.start + len(removal.text)
        yield (
            removal.rule,
            text[max(0, removal.start - CONTEXT_CHARS) : removal.start],
            removal.text,
            text[end : end + CONTEXT_CHARS],
        )
        text = text[: removal.start] + text[end:]


def residue(text: str) -> dict[str, str]:
    """Return what matches a pattern of residue, by its kind."""
    found = {kind: re.search(pattern, text) for kind, pattern in RESIDUE.items()}
    return {kind: match[0] for kind, match in found.items() if match}


def digest(cleaned: list[Article]) -> str:
    """Return a digest that changes with anything that a reader judged."""
    total = hashlib.sha256()
    for one in cleaned:
        total.update(f"{one.name}\0{one.title_drop}\0{one.cleaned.text}\0".encode())
    return total.hexdigest()[:16]


def write_passages(cleaned: list[Article], out: Path) -> None:
    """Write the three files to read."""
    out.mkdir(parents=True, exist_ok=True)
    spans: dict[str, dict[str, list[tuple[str, str, str]]]] = defaultdict(lambda: defaultdict(list))
    for one in cleaned:
        for rule, before, text, behind in surroundings(one):
            spans[rule][text.strip()].append((one.name, before, behind))
    with (out / "removed.txt").open("w", encoding="utf-8") as file:
        for rule, found in sorted(spans.items()):
            file.write(f"## {rule}: {sum(map(len, found.values()))} spans, {len(found)} distinct\n")
            for text, places in sorted(found.items()):
                name, before, behind = places[0]
                file.write(f"{len(places)} {name} {before!r} [[{text}]] {behind!r}\n")
    kept = [one for one in cleaned if not one.title_drop]
    with (out / "zones.txt").open("w", encoding="utf-8") as file:
        for one in kept:
            lines = [line for line in one.cleaned.text.split("\n") if line]
            head = " / ".join(lines[:3])[:SHOWN_CHARS]
            tail = " / ".join(lines[-3:])[-SHOWN_CHARS:]
            file.write(f"{one.name} {head}\n     ...{tail}\n")
    with (out / "lines.txt").open("w", encoding="utf-8") as file:
        for one in kept:
            for line in one.cleaned.text.split("\n"):
                if line and not re.search(r"[다요까죠자라네지][.?!…]?[\"'”’」』)\]>]*[.]?$", line):
                    file.write(f"{one.name} {line[-SHOWN_CHARS:]}\n")


def verdict(part: str, seed: int, cleaned: list[Article]) -> str:
    """Return what the committed verdicts say about these outcomes."""
    judged = tomllib.loads(VERDICTS.read_text("utf-8")) if VERDICTS.exists() else {}
    for one in judged.get("judged", ()):
        if (one["part"], one["seed"], one["articles"]) == (part, seed, len(cleaned)):
            if one["digest"] != digest(cleaned):
                return f"judged before the rules changed (digest {one['digest']}); read the passages again"
            share = 100 / len(cleaned)
            return (
                f"judged by reading: residue in {len(one['residue'])} articles ({share * len(one['residue']):.2f} %), false"
                f" deletions in {len(one['false_deletions'])} ({share * len(one['false_deletions']):.2f} %)"
            )
    return "not judged by a reader yet"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--articles", type=Path, help="JSON Lines of whole articles (id, title, text, outlet) to judge instead")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.articles:
        picked = list(articles_of(options.articles))
    else:
        picked = ordered(articles(options.data), options.seed)
        if options.held_out:
            picked = picked[options.sample :] + ordered(leads(options.data), options.seed)[: options.sample]
        else:
            picked = picked[: options.sample]
    spec = CleanSpec(news_rules=InputPath(RULES / "news.toml"), title_rules=InputPath(RULES / "titles.toml"), sentences="none")
    rules = Rules.of(spec)
    cleaned = [Article(name, document.text, clean_document(document, spec, rules)) for name, document in picked]
    part = options.articles.stem if options.articles else "held-out" if options.held_out else "sample"
    drops = Counter(str(one.outcome.drop.rule) for one in cleaned if one.outcome.drop and one.title_drop)
    removed = Counter(removal.rule for one in cleaned for removal in one.cleaned.removals)
    kept = [one for one in cleaned if not one.title_drop]
    matches = {one.name: residue(one.cleaned.text) for one in kept}
    print(f"{part}, seed {options.seed}: {len(cleaned)} articles, digest {digest(cleaned)}")
    print(f"dropped whole: {sum(drops.values())} {dict(drops.most_common())}")
    print(f"removed: {removed.total()} spans in {sum(bool(one.cleaned.removals) for one in cleaned)} articles")
    for rule, count in removed.most_common():
        print(f"  {rule:<16}{count:>6}")
    suspicious = {name: found for name, found in matches.items() if found}
    print(f"patterns of a residue: {len(suspicious)} articles ({100 * len(suspicious) / len(cleaned):.2f} %)")
    for name, found in suspicious.items():
        print(f"  {name}: {', '.join(sorted(found))}")
    print(verdict(part, options.seed, cleaned))
    if options.out:
        write_passages(cleaned, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
