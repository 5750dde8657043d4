"""A corpus as a dataset: every document once with all columns; sources, licenses and drops on the card."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import yaml

from korealbert.artifact import Artifact, Runtime
from korealbert.artifact.files import write_digested
from korealbert.artifact.locks import exclusive
from korealbert.artifact.stage import build
from korealbert.corpus import balance, extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality import stage as quality
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.shards import DOCUMENT_SCHEMA, read_documents
from korealbert.flows.step import _took
from korealbert.huggingface import dataset
from korealbert.huggingface.card import _languages
from korealbert.huggingface.dataset import Form, write_dataset
from korealbert.report.artifacts import Artifacts
from korealbert.report.render.blocks import Table
from korealbert.report.sections.corpus import section
from tests.corpus.documents_made import prose


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    """Two cleaned sources, each with a text that is too short."""
    root = tmp_path_factory.mktemp("corpus")
    found = []
    for source, license in (("blog", "CC BY 4.0"), ("news", "")):
        texts = [*(prose(number, 12) for number in range(7)), "짧다"]
        rows = [{"title": f"{source} | {number}", "text": text} for number, text in enumerate(texts)]
        raw = root / f"{source}.jsonl"
        raw.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
        table = {"source": source, "format": "jsonl", "paths": [str(raw)], "license": license}
        runtime = Runtime(store=root / "store", workers=1)
        extracted = build(extract.STAGE, ExtractSpec.model_validate(table), {}, runtime, label=f"extract/{source}").artifact
        spec = clean.CleanSpec(agreement_documents=0)
        found.append(build(clean.STAGE, spec, {"documents": extracted}, runtime, label=f"clean/{source}").artifact)
    return found


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_dataset_has_every_document_once(corpus: list[Artifact], form: Form, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    assert write_dataset(corpus, out, form) == 14
    names = sorted(path.name for path in (out / "data").iterdir())
    assert names == [f"clean-blog-00000-of-00001.{form}", f"clean-news-00000-of-00001.{form}"]
    rows = []
    for name in names:
        path = out / "data" / name
        rows += (
            pq.read_table(path).to_pylist()
            if form == "parquet"
            else [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        )
    wanted = [
        document for artifact in corpus for shard in artifact.files("documents-*.arrow") for document in read_documents(shard)
    ]
    assert [row["id"] for row in rows] == [document.id for document in wanted]
    assert [row["text"] for row in rows] == [document.text for document in wanted]
    assert all(list(row) == DOCUMENT_SCHEMA.names for row in rows)
    header = yaml.safe_load((out / "README.md").read_text("utf-8").split("---")[1])
    assert header["configs"] == [{"config_name": "default", "data_files": [{"split": "train", "path": "data/*"}]}]
    again = tmp_path / "again" / "corpus"
    again.mkdir(parents=True)  # An empty directory is accepted.
    write_dataset(corpus, again, form)
    assert [path.read_bytes() for path in sorted(again.rglob("*.*"))] == [
        path.read_bytes() for path in sorted(out.rglob("*.*"))
    ]


def test_the_card_names_sources_licenses_and_drops(corpus: list[Artifact], tmp_path: Path) -> None:
    write_dataset(corpus, tmp_path / "my-corpus", "parquet")
    card = (tmp_path / "my-corpus" / "README.md").read_text("utf-8")
    assert card.startswith("---\nlanguage: ko\n") and "\n- n<1K\n" in card
    assert "# my-corpus\n\n14 documents, " in card
    assert "| blog | CC BY 4.0 | 8 |" in card and "| news | not stated | 8 |" in card
    assert "| documents | all | blog | news |" in card
    assert "| clean: too_short | -2 | -1 | -1 |\n| after cleaning | 14 | 7 | 7 |" in card
    assert all(artifact.name in card for artifact in corpus)


def assert_adds_up(card: str) -> None:
    """Check that after each stage a source has what it had before, with what was made and without what was left out."""
    table = card.partition("| documents | all |")[2].partition("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    before: list[int] = []
    for label, *cells in lines:
        numbers = [int(cell.replace(",", "")) for cell in cells]
        if label.startswith("after"):
            assert numbers == before
        elif label != "characters":
            before = [a + b for a, b in zip(before or [0] * len(numbers), numbers, strict=True)]
    assert before


@pytest.mark.parametrize(
    ("keep", "counted", "header"),
    [
        (["ko", "en"], {"ko": 600, "en": 80, "ja": 90, "": 9}, "language:\n- ko\n- en\n"),
        (["en"], {"ko": 600, "en": 80}, "language: en\n"),
        (None, {"ko": 600, "fr": 5, "other": 70}, "language: ko\n"),
        (None, {}, "language: ko\n"),
    ],
)
def test_the_card_has_the_languages_that_were_counted(keep: list[str] | None, counted: dict[str, int], header: str) -> None:
    stats = clean.CleanStats(documents_in=1, documents_out=1, languages=counted)
    spec = {"language": None if keep is None else {"keep": keep}}
    cleaned: Any = SimpleNamespace(manifest={"spec": spec}, stats_as=lambda _: stats)
    assert _languages({"clean": [cleaned]}) == header


def test_a_full_directory_and_an_artifact_without_documents_are_refused(corpus: list[Artifact], tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="full already exists and is not empty; name another directory"):
        write_dataset(corpus, tmp_path / "full", "parquet")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    empty = Artifact(corpus[0].name, tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    write_digested(tmp_path / "empty" / "manifest.json", corpus[0].manifest | {"files": {}, "label": "report"})
    with pytest.raises(ValueError, match=r"\(report\): it holds no documents; name clean, dedup or balance"):
        write_dataset([empty], tmp_path / "out", "jsonl")
    assert not (tmp_path / "out").exists()


def test_a_source_of_which_nothing_was_kept_is_on_the_card_and_stops_no_other(corpus: list[Artifact], tmp_path: Path) -> None:
    raw = tmp_path / "memo.jsonl"
    raw.write_text('{"text": "짧다"}\n', "utf-8")
    table = {"source": "memo", "format": "jsonl", "paths": [str(raw)]}
    runtime = Runtime(store=corpus[0].path.parent, workers=1)
    extracted = build(extract.STAGE, ExtractSpec.model_validate(table), {}, runtime, label="extract/memo").artifact
    spec = clean.CleanSpec(agreement_documents=0)
    empty = build(clean.STAGE, spec, {"documents": extracted}, runtime, label="clean/memo").artifact
    assert write_dataset([empty, *corpus], tmp_path / "out", "jsonl") == 14
    assert [path.name[:10] for path in sorted((tmp_path / "out" / "data").iterdir())] == ["clean-blog", "clean-news"]
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "| memo | not stated | 1 |" in card and "| clean: too_short | -3 | -1 | -1 | -1 |" in card and empty.name in card
    with pytest.raises(ValueError, match=r"\Aclean/memo: no document was kept \(dropped: too_short 1\); there is nothing to"):
        write_dataset([empty], tmp_path / "none", "jsonl")
    assert not (tmp_path / "none").exists()


def test_links_are_followed_and_files_are_named(corpus: list[Artifact], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    for _ in "there is no target yet", "it is an empty directory":
        write_dataset(corpus, tmp_path / "link", "jsonl")
        assert (tmp_path / "link").is_symlink() and len(list((tmp_path / "target" / "data").iterdir())) == 2
        assert "# link\n" in (tmp_path / "target" / "README.md").read_text("utf-8")
        shutil.rmtree(tmp_path / "target")
        (tmp_path / "target").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="file is a file; name another directory"):
        write_dataset(corpus, tmp_path / "file", "jsonl")


def test_the_working_directory_is_refused(corpus: list[Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", str(tmp_path)):
        with pytest.raises(ValueError, match="is the working directory; name another directory"):
            write_dataset(corpus, Path(name), "jsonl")
    assert not list(tmp_path.iterdir())


def test_the_first_of_two_exports_at_once_stays(
    corpus: list[Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def card(title: str, artifacts: list[Artifact], _: object) -> str:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "README.md").write_text("the first")
        return title

    monkeypatch.setattr(dataset, "dataset_card", card)
    with pytest.raises(ValueError, match="out already exists and is not empty"):
        write_dataset(corpus, tmp_path / "out", "jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "README.md").read_text() == "the first"


def test_other_directories_are_left_alone(corpus: list[Artifact], tmp_path: Path) -> None:
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial/mine").write_text("mine")
    write_dataset(corpus, tmp_path / "out", "jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.partial"]
    assert (tmp_path / "out.partial/mine").read_text() == "mine"


def test_what_a_killed_export_left_goes_with_the_next_one(corpus: list[Artifact], tmp_path: Path) -> None:
    killing = (
        "import os\nfrom korealbert.huggingface import dataset\ndataset.dataset_card = lambda *_: os.kill(os.getpid(), 9)\n"
    )
    export = f"from pathlib import Path\ndataset.write_dataset([], Path({str(tmp_path / 'out')!r}), 'jsonl')"
    assert subprocess.run([sys.executable, "-c", killing + export], check=False).returncode == -9
    (killed,) = tmp_path.iterdir()
    assert killed.name.startswith(".out.")
    (tmp_path / ".out.mine").mkdir()
    with exclusive(tmp_path / ".out.live" / "export.lock"):
        write_dataset(corpus, tmp_path / "other", "jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.live", ".out.mine", "other"]


def test_what_another_user_s_export_left_stays(corpus: list[Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".out.theirs").mkdir(mode=0)
    is_file = Path.is_file

    def refused(path: Path) -> bool:
        """Answer like the kernel, which lets root look into all directories."""
        if path.parent.name == ".out.theirs":
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    write_dataset(corpus, tmp_path / "out", "jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.theirs", "out"]


def test_the_card_counts_what_quality_left_out_and_copied(corpus: list[Artifact], tmp_path: Path) -> None:
    runtime = Runtime(store=tmp_path / "store", workers=1)
    strange = "".join(chr(0xAC00 + number * 7919 % 11172) for number in range(400))
    sources = {}
    for source, texts in {"blog": [prose(1, 30), prose(1, 30), prose(2, 30)], "web": [strange]}.items():
        raw = tmp_path / f"{source}.jsonl"
        raw.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
        table = {"source": source, "format": "jsonl", "paths": [str(raw)]}
        spec = ExtractSpec.model_validate(table)
        sources[source] = build(extract.STAGE, spec, {}, runtime, label=f"extract/{source}").artifact
    unique = build(dedup.STAGE, dedup.DedupSpec(), sources, runtime, label="dedup").artifact
    limits = {"copies": {"2": 3}, "perplexity": {"reference": ["blog"]}, "max_perplexity": 300.0}
    chosen = build(quality.STAGE, quality.QualitySpec.model_validate(limits), {"documents": unique}, runtime, label="quality")
    stats = chosen.artifact.stats
    assert stats["repeated"] and stats["dropped"]
    write_dataset([chosen.artifact], tmp_path / "out", "parquet")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert (
        f"After the choice by quality: {stats['documents_out']} documents, "
        f"{stats['repeated']} of them further copies, with the ids of the documents that they copy" in card
    )
    ids = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["id"]
    assert len(ids) - ids.n_unique() == stats["repeated"]
    assert "| dedup: exact_duplicate | -1 | -1 | 0 |\n| after deduplication | 3 | 2 | 1 |" in card
    assert f"| quality: high_perplexity | -{stats['dropped']['high_perplexity']} | 0 | -1 |" in card
    assert f"| quality: copies made | {stats['repeated']} | {stats['repeated']} | 0 |" in card
    assert_adds_up(card)
    kept = stats["documents_out"] - stats["repeated"]
    assert f", {kept} of 3 kept, 1 dropped, {stats['repeated']} further copies made" in _took(chosen)
    [table] = (
        block
        for block in section(Artifacts({"quality": chosen.artifact}, [quality.STAGE])).blocks
        if isinstance(block, Table) and block.title == "Every document is accounted for"
    )
    shown = dict(zip(table.header, table.rows[0], strict=True))
    assert (shown["Documents in"], shown["Dropped"], shown["Copies made"]) == ("3", "1", str(stats["repeated"]))
    assert (shown["Documents out"], shown["Kept"]) == (str(stats["documents_out"]), "66.7 %")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_what_stages_computed_is_in_columns_and_on_the_card(form: Form, tmp_path: Path) -> None:
    """A source whose languages were not detected has none, and a text without letters an empty one."""
    runtime = Runtime(store=tmp_path / "store [1]*", workers=1)
    sources = {}
    specs = {"blog": clean.CleanSpec(agreement_documents=0), "web": {"agreement_documents": 0, "language": {"keep": ["ko"]}}}
    texts = {"blog": [prose(number, 30) for number in range(3)], "web": [prose(0, 30), prose(0, 30), prose(7, 30)]}
    for source, spec in specs.items():
        raw = tmp_path / f"{source}.jsonl"
        raw.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts[source]), "utf-8")
        given = ExtractSpec.model_validate({"source": source, "format": "jsonl", "paths": [str(raw)]})
        read = build(extract.STAGE, given, {}, runtime, label=f"extract/{source}").artifact
        cleaning = clean.CleanSpec.model_validate(spec)
        sources[source] = build(clean.STAGE, cleaning, {"documents": read}, runtime, label=f"clean/{source}").artifact
    unique = build(dedup.STAGE, dedup.DedupSpec(priority=("blog",)), sources, runtime, label="dedup").artifact
    models = {"classifier": {"good": ["blog"], "bad": ["web"]}, "perplexity": {"reference": ["blog"]}}
    judged = quality.QualitySpec.model_validate(models)
    scored = build(quality.STAGE, judged, {"documents": unique}, runtime, label="quality").artifact
    spec = balance.BalanceSpec(mode="none")
    balanced = build(balance.STAGE, spec, {"documents": scored}, runtime, label="balance").artifact

    def rows(artifacts: list[Artifact], name: str) -> list[dict[str, object]]:
        write_dataset(artifacts, tmp_path / name, form)
        read = pl.read_parquet if form == "parquet" else pl.read_ndjson
        return [row for path in sorted((tmp_path / name / "data").iterdir()) for row in read(path).to_dicts()]

    every = {row["id"]: row for shard in scored.files("scores-*.arrow") for row in pl.read_ipc(shard.read_bytes()).to_dicts()}
    found = rows([balanced], "balanced")
    assert [row["copies"] for row in found] == [3, 1, 1, 1]
    assert [row["language"] for row in found] == [None, None, None, "ko"] and found[3]["language_share"] == 1.0
    for row in found:
        assert (row["quality"], row["perplexity"]) == (every[row["id"]]["quality"], every[row["id"]]["perplexity"])
        assert row["quality"] is not None and row["perplexity"] is not None
    card = (tmp_path / "balanced" / "README.md").read_text("utf-8")
    assert all(f"| `{name}` |" in card for name in ("language", "language_share", "quality", "perplexity", "copies"))
    of_clean = rows([sources["web"]], "web")
    assert list(of_clean[0]) == [*DOCUMENT_SCHEMA.names, "language", "language_share"]
    assert "`quality`" not in (tmp_path / "web" / "README.md").read_text("utf-8")
