"""A new project from a look at files: formats, columns, encodings, and a recipe that runs as it is."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Runtime, Store, build
from korealbert.recipe import project
from korealbert.recipe.tables import RecipeError

SAMPLE = Path(__file__).parents[2] / "data_specs" / "sample"
WORDS = (
    "도서관",
    "바다가",
    "조용한",
    "노을",
    "기차는",
    "천천히",
    "학교에서",
    "우산을",
    "오래",
    "걸었다",
    "사람들은",
    "마을",
    "이야기",
)


def prose(number: int) -> str:
    """Some sentences, no two alike."""
    sentences = [" ".join(WORDS[(number * k + i * i) % len(WORDS)] for i in range(7)) + f" {number}번." for k in range(1, 9)]
    return " ".join(sentences)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Twenty text files in two folders, posts packed and not, a table in CP949, an article of a wiki, and what is no text."""
    root = tmp_path / "내 글"
    (root / "sub").mkdir(parents=True)
    for number in range(20):
        (root / ("sub" if number % 2 else ".") / f"글{number:02d}.txt").write_text(f"{prose(number)}\n\n{prose(number + 50)}\n")
    posts = [json.dumps({"no": n, "headline": f"글 {n}", "body": prose(n), "link": f"https://a.kr/{n}"}) for n in range(30)]
    (root / "posts.jsonl").write_text("\n".join(posts[:15]) + "\n")
    (root / "sub" / "older.jsonl.gz").write_bytes(gzip.compress(("\n".join(posts[15:]) + "\n").encode()))
    with (root / "책.csv").open("w", encoding="cp949", newline="") as stream:
        csv.writer(stream).writerows([["제목", "소개", "isbn"], *([f"책 {n}", prose(n), n] for n in range(5))])
    (root / "README.md").write_text("무엇이 여기 있는가")
    (root / "photo.jpg").write_bytes(b"\xff\xd8")
    return root


def built(recipe: Path, store: Path, until: str) -> dict[str, Artifact]:
    found: dict[str, Artifact] = {}
    for label, node in recipes.until(recipes.graph(recipes.load(recipe)), until).items():
        inputs = {role: found[other] for role, other in node.inputs.items()}
        found[label] = build(node.stage, node.spec, inputs, Runtime(store=store, workers=1), label=label).artifact
    return found


def test_each_format_of_a_directory_is_a_source_and_every_record_a_document(files: Path, tmp_path: Path) -> None:
    sources = project.write(tmp_path / "mine", [files])
    assert {(s.format, s.members) for s in sources} == {
        ("text", "*.txt"),
        ("jsonl", "*.jsonl"),
        ("jsonl", "*.jsonl.gz"),
        ("csv", "*.csv"),
    }
    by_members = {source.members: source for source in sources}
    assert by_members["*.jsonl"].fields["text"] == "body" and by_members["*.jsonl"].fields["url"] == "link"
    assert by_members["*.csv"].fields["text"] == "소개" and by_members["*.csv"].encoding == "auto"
    found = built(tmp_path / "mine" / "recipe.toml", tmp_path / "mine" / "store", "clean")
    counts = {label: artifact.stats["documents_out"] for label, artifact in found.items() if label.startswith("extract/")}
    assert {f"extract/{s.name}": counts[f"extract/{s.name}"] for s in sources} == {
        f"extract/{by_members['*.txt'].name}": 20,
        f"extract/{by_members['*.jsonl'].name}": 15,
        f"extract/{by_members['*.jsonl.gz'].name}": 15,
        f"extract/{by_members['*.csv'].name}": 5,
    }
    assert not any(artifact.stats["quarantined"] for artifact in found.values() if "quarantined" in artifact.stats)
    assert (tmp_path / "mine" / ".gitignore").read_text() == "store/\n"


def test_a_little_text_is_enough_for_rows_to_train_on(files: Path, tmp_path: Path) -> None:
    """The vocabulary takes as many pieces as there are."""
    project.write(tmp_path / "mine", [files])
    found = built(tmp_path / "mine" / "recipe.toml", tmp_path / "mine" / "store", "views")
    assert found["vocab"].stats["pieces"] < 500
    assert found["examples"].stats["rows"] > 0


def test_known_dumps_are_told_by_what_they_hold(tmp_path: Path) -> None:
    paths = [SAMPLE / name for name in ("namuwiki.json", "mediawiki.xml", "news.jsonl", "books.csv")]
    found = project.write(tmp_path / "mine", paths)
    assert [source.format for source in found] == ["namuwiki", "mediawiki", "jsonl", "csv"]
    assert found[3].fields["text"] == "introduction"
    planned = recipes.prepare(tmp_path / "mine" / "recipe.toml", Store(tmp_path / "store")).planned
    assert planned[-1].label == "report"


def test_more_text_makes_a_larger_vocabulary_and_more_steps(tmp_path: Path) -> None:
    for name, kilobytes in (("little", 50), ("much", 40_000)):
        (tmp_path / f"{name}.txt").write_bytes(b"x" * (kilobytes << 10))
        project.write(tmp_path / name, [tmp_path / f"{name}.txt"])
    little, much = (recipes.load(tmp_path / name / "recipe.toml") for name in ("little", "much"))
    assert little.vocab.size < much.vocab.size and little.pretrain.steps < much.pretrain.steps
    assert little.vocab.at_most and much.views.views < little.views.views


def test_files_are_documents_but_where_they_are_too_large_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text(prose(1))
    project.write(tmp_path / "small", [tmp_path / "texts"])
    (tmp_path / "texts" / "b.txt").write_bytes(b"x" * (5 << 20))
    project.write(tmp_path / "large", [tmp_path / "texts"])
    found = [recipes.load(tmp_path / name / "recipe.toml").extract["texts"].document for name in ("small", "large")]
    assert found == ["file", "record"]
    for name, told in (("small", '"record": a paragraph is'), ("large", "these files are large")):
        assert told in (tmp_path / name / "recipe.toml").read_text("utf-8")


def test_what_cannot_be_a_project_is_refused_and_nothing_is_written(files: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecipeError, match=r"nowhere: no such file or directory"):
        project.write(tmp_path / "mine", [tmp_path / "nowhere"])
    with pytest.raises(RecipeError, match=r"empty: holds no file of a known format; known are .*\.csv"):
        project.write(tmp_path / "mine", [tmp_path / "empty"])
    assert not (tmp_path / "mine").exists()
    project.write(tmp_path / "mine", [files])
    with pytest.raises(RecipeError, match=r"recipe\.toml exists; name another directory"):
        project.write(tmp_path / "mine", [files])


def test_names_and_titles_are_quoted_as_toml_wants_it(tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" \\ {{ 7 }}'
    odd.mkdir()
    (odd / "글.txt").write_text(prose(1))
    project.write(tmp_path / 'my "own"', [odd])
    recipe = recipes.load(tmp_path / 'my "own"' / "recipe.toml")
    assert recipe.name == 'my "own"'
    [source] = recipe.extract.values()
    assert source.paths[0].path == odd
