"""New projects: formats, columns and encodings are found, and the recipe can be run at once."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import tomllib
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Runtime, Store
from korealbert.documents.shards import read_documents
from korealbert.recipe.new import project
from korealbert.recipe.planning import prepare
from korealbert.recipe.tables import RecipeError
from tests.archives import zipped
from tests.building import build_all
from tests.corpus.documents_made import prose as made

SAMPLE = Path(__file__).parents[3] / "data_specs" / "sample"
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


@cache
def prose(number: int) -> str:
    """Return some sentences that differ for each number."""
    sentences = [" ".join(WORDS[(number * k + i * i) % len(WORDS)] for i in range(7)) + f" {number}번." for k in range(1, 9)]
    return " ".join(sentences)


def varied(number: int) -> str:
    """Sentences of words that hardly occur twice, of 1,000 different syllables."""
    dice = random.Random(number)  # noqa: S311
    words = [
        "".join(chr(0xAC00 + 11 * dice.randrange(1000)) for _ in range(2)) + dice.choice("은는이가을를도") for _ in range(60)
    ]
    return " ".join(f"{word[:2]}다." if place % 8 == 7 else word for place, word in enumerate(words))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Twenty text files in two folders, posts with and without compression, a table in CP949, a README and a picture."""
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
    return build_all(recipes.until(recipes.graph(recipes.load(recipe)), until), Runtime(store=store, workers=1))


def test_each_format_of_a_directory_is_a_source_and_every_record_a_document(files: Path, tmp_path: Path) -> None:
    sources = project.write(tmp_path / "mine", [files]).sources
    assert {(s.format, s.members) for s in sources} == {
        ("text", "*.txt"),
        ("jsonl", "*.jsonl"),
        ("jsonl", "*.jsonl.gz"),
        ("csv", "*.csv"),
    }
    by_members = {source.members: source for source in sources}
    assert by_members["*.jsonl"].fields["text"] == "body" and by_members["*.jsonl"].fields["url"] == "link"
    assert by_members["*.csv"].fields["text"] == "소개" and by_members["*.csv"].encoding == "auto"
    found = built(tmp_path / "mine" / "recipe.toml", tmp_path / "mine" / "store", "examples")
    counts = {label: artifact.stats["documents_out"] for label, artifact in found.items() if label.startswith("extract/")}
    assert {f"extract/{s.name}": counts[f"extract/{s.name}"] for s in sources} == {
        f"extract/{by_members['*.txt'].name}": 20,
        f"extract/{by_members['*.jsonl'].name}": 15,
        f"extract/{by_members['*.jsonl.gz'].name}": 15,
        f"extract/{by_members['*.csv'].name}": 5,
    }
    assert not any(artifact.stats["quarantined"] for artifact in found.values() if "quarantined" in artifact.stats)
    assert (tmp_path / "mine" / ".gitignore").read_text() == "store/\n"
    wanted = recipes.load(tmp_path / "mine" / "recipe.toml").vocab.size
    assert found["vocab"].stats["pieces"] < wanted, "the vocabulary takes as many pieces as there are"
    assert found["examples"].stats["rows"] > 0, "a little text is enough for rows to train on"


def test_known_dumps_are_recognised_by_their_content(tmp_path: Path) -> None:
    paths = [SAMPLE / name for name in ("namuwiki.json", "mediawiki.xml", "news.jsonl", "books.csv")]
    found = project.write(tmp_path / "mine", paths).sources
    assert [source.format for source in found] == ["namuwiki", "mediawiki", "jsonl", "csv"]
    assert found[3].fields["text"] == "introduction"
    planned = recipes.prepare(tmp_path / "mine" / "recipe.toml", Store(tmp_path / "store")).planned
    assert planned[-1].label == "report"


def test_more_text_makes_a_larger_vocabulary_and_more_steps(tmp_path: Path) -> None:
    for name, kilobytes in (("little", 50), ("much", 10_000)):
        (tmp_path / f"{name}.txt").write_bytes((b"two words " * 20 + b"\n\n") * (5 * kilobytes))
        project.write(tmp_path / name, [tmp_path / f"{name}.txt"])
    little, much = (recipes.load(tmp_path / name / "recipe.toml") for name in ("little", "much"))
    assert little.vocab.size < much.vocab.size and little.pretrain.steps < much.pretrain.steps
    assert little.vocab.at_most and much.views.views <= little.views.views == 4


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        ([prose(n) for n in range(25)], "file"),
        ([f"{varied(n)}\n\n{varied(n + 30)}" for n in range(25)], "file"),
        (["\n\n".join(map(prose, range(60)))], "record"),
        (["\n\n".join(map(prose, range(50 * n, 50 * n + 50))) for n in range(4)], "record"),
        (["\n\n".join(map(prose, range(n, n + 120))) for n in range(20)], "record"),
        (["\r\n\r\n".join(map(prose, range(60)))], "record"),
        (["\n".join(prose(n)[: 40 + n] for n in range(80))], "line"),
        (["\n".join(f"{prose(n)[:40]}다.”" for n in range(80))], "line"),
        (["\n".join(f"{prose(n)[: 40 + n]}다." for n in range(80))] * 3, "line"),
    ],
    ids=[
        "files",
        "files of paragraphs",
        "one large",
        "four",
        "large ones",
        "line ends of Windows",
        "lines",
        "equal lines",
        "three",
    ],
)
def test_files_are_documents_unless_they_are_few_or_large(texts: list[str], unit: str, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "texts" / f"{number}.txt").write_text(text, newline="")
    found = project.write(tmp_path / "mine", [tmp_path / "texts"])
    recipe = tmp_path / "mine" / "recipe.toml"
    assert recipes.load(recipe).extract["texts"].document == unit
    phrase = {"file": '"record": a paragraph is', "record": "a paragraph is a document", "line": "a line is a document"}[unit]
    assert phrase in recipe.read_text("utf-8")
    assert f"a document is a {unit.replace('record', 'paragraph')}" in "".join(project.summary(found))
    [source] = found.sources
    long_enough = sum(length >= source.min_characters for length in source.sample.lengths)
    assert long_enough > 0.8 * len(source.sample.lengths) > 10


def test_an_empty_file_does_not_decide_what_a_document_is(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("\n\n".join(f"{prose(n)}\n{prose(n + 40)}" for n in range(30)))
    (tmp_path / "texts" / "b.txt").touch()
    project.write(tmp_path / "mine", [tmp_path / "texts"])
    assert recipes.load(tmp_path / "mine" / "recipe.toml").extract["texts"].document == "record"


@pytest.mark.parametrize("end", ["\n", "\n\n"])
def test_each_of_a_few_short_files_is_a_document(end: str, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for number, lines in enumerate((5, 9, 15)):
        sentences = "\n".join(made(100 * number + n, 3) for n in range(1, 20)).splitlines()
        text = end.join(" ".join(sentences[n::15]) for n in range(lines))
        (tmp_path / "texts" / f"{number}.txt").write_text(text, "utf-8")
    [source] = project.write(tmp_path / "mine", [tmp_path / "texts"]).sources
    assert (source.document, len(source.sample.lengths)) == ("file", 3)
    stats = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "clean/texts")["clean/texts"].stats
    assert stats["documents_in"] == stats["documents_out"] == 3, stats["dropped"]


def test_what_cannot_be_a_project_is_refused_and_nothing_is_written(files: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecipeError, match=r"nowhere: no such file or directory"):
        project.write(tmp_path / "mine", [tmp_path / "nowhere"])
    with pytest.raises(RecipeError, match=r"empty: holds no file; known are .*\.csv"):
        project.write(tmp_path / "mine", [tmp_path / "empty"])
    assert not (tmp_path / "mine").exists()
    project.write(tmp_path / "mine", [files])
    with pytest.raises(RecipeError, match=r"recipe\.toml exists; name another directory"):
        project.write(tmp_path / "mine", [files])


@pytest.mark.parametrize("name", ["-", "pipe", "/dev/null"])
def test_what_can_be_read_only_once_is_refused_with_the_remedy(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name if name == "pipe" else Path(name)
    with pytest.raises(RecipeError, match="this is no file, and every run reads its files anew; write it to one and name that"):
        project.write(tmp_path / "mine", [path])
    assert not (tmp_path / "mine").exists()


def test_names_and_titles_are_quoted_as_toml_wants_it(tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" \\ {{ 7 }}'
    odd.mkdir()
    for number in range(20):
        (odd / f"글{number}.txt").write_text(prose(number))
    project.write(tmp_path / 'my "own"', [odd])
    recipe = recipes.load(tmp_path / 'my "own"' / "recipe.toml")
    assert recipe.name == 'my "own"'
    [source] = recipe.extract.values()
    assert source.paths[0].path == odd


def written(directory: Path, texts: dict[str, str | bytes]) -> Path:
    """Write files into a directory and its subdirectories."""
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return directory


def table(header: str, rows: int = 40, first: int = 0, delimiter: str = ",") -> str:
    """Return a table with a column of numbers and one of text."""
    lines = [f'{n}{delimiter}"{prose(n)}"' for n in range(first, first + rows)]
    return "\n".join([header] * bool(header) + lines) + "\n"


@pytest.mark.parametrize("documents", [12, 200])
def test_any_amount_of_text_gives_a_vocabulary_and_rows(documents: int, tmp_path: Path) -> None:
    """With up to 1,000 different syllables, in JSON that writes each of them as ``\\uXXXX``."""
    texts = map(varied, range(documents))
    (tmp_path / "posts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    project.write(tmp_path / "mine", [tmp_path / "posts.jsonl"])
    found = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "examples")
    assert found["examples"].stats["rows_train"] > 0 < found["examples"].stats["rows_heldout"]
    assert found["vocab"].stats["character_coverage"] > 0.99


@pytest.mark.parametrize(
    "texts", [["바다가 조용하다."], [prose(1)], [prose(1)[:90]] * 2], ids=["a sentence", "a text", "short"]
)
def test_too_little_text_is_refused_with_what_is_needed(texts: list[str], tmp_path: Path) -> None:
    here = written(tmp_path / "texts", {f"{n}.txt": text for n, text in enumerate(texts)})
    with pytest.raises(
        RecipeError, match=r"too little text for a model: \d documents? with .* at least 3 with 2,000 are needed"
    ):
        project.write(tmp_path / "mine", [here])
    assert not (tmp_path / "mine").exists()


def test_a_corpus_alone_may_be_of_little_text(tmp_path: Path) -> None:
    here = written(tmp_path / "texts", {f"{n}.txt": prose(n)[:150] for n in range(2)})
    project.write(tmp_path / "mine", [here], corpus=True)
    tables = tomllib.loads((tmp_path / "mine" / "recipe.toml").read_text("utf-8"))
    assert sorted(tables) == ["balance", "clean", "dedup", "extract", "name"]
    planned = prepare(tmp_path / "mine" / "recipe.toml", Store(tmp_path / "store")).planned
    assert {stage.label for stage in planned} >= {"extract/texts", "clean/texts", "dedup", "balance"}
    assert "pretrain" not in {stage.label for stage in planned}


@pytest.mark.parametrize("endings", [["TXT"], ["TXT", "txt", "Txt"]])
def test_endings_may_be_in_capitals(endings: list[str], tmp_path: Path) -> None:
    here = written(tmp_path / "t", {f"A{n}.{endings[n % len(endings)]}": prose(n) for n in range(24)})
    [source] = project.write(tmp_path / "mine", [here]).sources
    assert source.files == 24
    found = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    assert found["extract/t"].stats["documents_out"] == 24


@pytest.mark.parametrize("first", ["a", "z"])
def test_every_file_is_looked_at_for_its_encoding(first: str, tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"m{n:02d}.txt": prose(n) for n in range(20)}
    texts |= {f"{first}{n}.txt": prose(n + 50).encode("cp949") for n in range(5)}
    texts |= {f"{first}u{n}.txt": prose(n + 70).encode("utf-16") for n in range(5)}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", texts)]).sources
    assert sorted((source.encoding, source.files) for source in found) == [("auto", 25), ("utf-16", 5)]
    stages = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    read = [d.text for a in stages.values() for path in a.files("documents-*.arrow") for d in read_documents(path)]
    assert sorted(read) == sorted(map(prose, [*range(20), *range(50, 55), *range(70, 75)]))


def test_files_with_other_columns_or_delimiters_are_other_sources(tmp_path: Path) -> None:
    texts = {"a.csv": table("id,본문"), "b.csv": table("id,내용", first=50), "d.csv": table("id,본문", first=100)}
    texts |= {"c.csv": table("번호;본문", first=150, delimiter=";"), "e.csv": table("", first=200)}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", {**texts})]).sources
    assert sorted((source.fields["text"], source.delimiter, source.files) for source in found) == [
        ("column2", "", 1),
        ("내용", "", 1),
        ("본문", "", 2),
        ("본문", ";", 1),
    ]
    stages = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    assert sum(artifact.stats["documents_out"] for artifact in stages.values()) == 200
    assert not any(artifact.stats["quarantined"] for artifact in stages.values())


def test_members_of_an_archive_with_other_columns_are_sources_of_their_own(tmp_path: Path) -> None:
    members = {"a[1].csv": table("id,본문"), "b.csv": table("id,내용", first=50), "__MACOSX/._a.csv": b"\0\5\x16\7"}
    (tmp_path / "two.zip").write_bytes(zipped(members))
    found = project.write(tmp_path / "mine", [tmp_path / "two.zip"])
    assert {(source.fields["text"], source.members) for source in found.sources} == {("본문", "a[[]1].csv"), ("내용", "b.csv")}
    stages = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    assert [artifact.stats["documents_out"] for artifact in stages.values()] == [40, 40]


def test_files_are_looked_at_however_many_and_those_left_out_are_reported(tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"a{n:03d}.txt": prose(n) for n in range(230)}
    nested = json.dumps({"data": [{"paragraphs": [{"context": prose(n)}]} for n in range(9)]})
    texts |= {"z.csv": table("id,text"), "b.pdf": b"%PDF-1.4", "c.PDF": b"%PDF-1.4", "d.hwp": b"\xd0\xcf", "squad.json": nested}
    found = project.find_sources([written(tmp_path / "t", texts)], tmp_path / "mine")
    assert {(source.format, source.files) for source in found.sources} == {("text", 230), ("csv", 1)}
    assert found.left_out == {".pdf": 2, ".hwp": 1, ".json whose text is in 'data', a list": 1}
    assert list(project.summary(found))[-1].startswith(
        "left out: 2 .pdf, 1 .hwp, 1 .json whose text is in 'data', a list; convert"
    )


@pytest.mark.parametrize("where", [".", "mine"])
def test_a_project_does_not_read_what_it_writes(where: str, tmp_path: Path) -> None:
    """Hidden files, READMEs and the stores of other projects are not read either."""
    posts = json.dumps([{"title": f"글 {n}", "body": prose(n)} for n in range(30)], ensure_ascii=False)
    old = {"older/store/.digests/a.json": posts, "older/store/clean-1/b.json": posts, "sub/.c.json": posts}
    here = written(tmp_path / "t", {"list.json": posts, "sub/d.json": posts, "README.md": prose(1), **old})
    project.write(here / where, [here])
    recipe = here / where / "recipe.toml"
    for _ in range(2):
        artifact = built(recipe, here / where / "store", "extract")["extract/t"]
        assert artifact.stats["documents_out"] == 60
        assert artifact.stats["files"] == 2
    assert len(list((here / where / "store").glob("extract-*"))) == 1


@pytest.mark.parametrize("empty", [1, 2, 40])
def test_empty_files_are_reported_and_do_not_stop_a_run(empty: int, tmp_path: Path) -> None:
    texts = {f"{n}.txt": prose(n) for n in range(30)} | {f"empty{n}.txt": "" for n in range(empty)}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", {**texts})])
    assert f"  {empty} of its files {'is' if empty == 1 else 'are'} empty" in project.summary(found)
    stages = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    assert (stages["extract/t"].stats["documents_out"], stages["extract/t"].stats["quarantined"]) == (30, empty)


def test_empty_files_alone_and_records_without_text_are_refused(tmp_path: Path) -> None:
    here = written(tmp_path / "t", {f"{n}.txt": "" for n in range(3)})
    with pytest.raises(RecipeError, match=r"only 3 empty \.txt; known are"):
        project.find_sources([here], tmp_path / "mine")
    numbers = written(tmp_path / "n", {"n.jsonl": '{"a": 1}\n{"a": 2}\n'})
    with pytest.raises(
        RecipeError, match=r"only 1 \.jsonl whose records have no field of text;.* to \.jsonl with the field text"
    ):
        project.find_sources([numbers], tmp_path / "mine")


def test_archives_have_files_and_a_size(tmp_path: Path) -> None:
    (tmp_path / "zips").mkdir()
    (tmp_path / "zips" / "글.zip").write_bytes(zipped({f"폴더/글{number}.txt": prose(number) for number in range(40)}))
    lines = "\n".join(json.dumps({"text": prose(n + 50)}) for n in range(40))
    (tmp_path / "zips" / "b.zip").write_bytes(zipped({"a.jsonl": lines}))
    found = project.write(tmp_path / "mine", [tmp_path / "zips"]).sources
    text = next(source for source in found if source.format == "text")
    assert text.files == 40 and text.size == sum(len(prose(number).encode()) for number in range(40))
    stages = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")
    assert not any(artifact.stats["quarantined"] for artifact in stages.values())


def test_a_corpus_of_which_nothing_is_left_is_an_error_that_names_the_source(tmp_path: Path) -> None:
    project.write(tmp_path / "mine", [written(tmp_path / "t", {f"{n}.txt": prose(n) for n in range(30)})])
    recipe = tmp_path / "mine" / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace("min_characters = 100", "min_characters = 10000"))
    with pytest.raises(ValueError, match=r"no document is left: t \(0 of 30 documents kept: 30 too_short\).*inspect clean/t"):
        built(recipe, tmp_path / "store", "dedup")


def records(name: str, amount: int = 60, **fields: object) -> dict[str, str]:
    """Return a JSONL file of records with these fields; functions get the number of the record."""
    rows = [{key: value(n) if callable(value) else value for key, value in fields.items()} for n in range(amount)]
    return {name: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)}


def test_a_document_is_the_same_in_files_of_all_encodings(tmp_path: Path) -> None:
    lines = [" ".join(prose(n).split()[:9]) + "\n" + prose(n)[:40] + "\n" + prose(n) for n in range(60)]
    texts = {f"{n:02}.txt": text.encode("utf-16" if n % 4 == 0 else "cp949") for n, text in enumerate(lines)}
    found = project.find_sources([written(tmp_path / "t", {**texts})], tmp_path / "mine").sources
    assert sorted((source.document, source.files) for source in found) == [("file", 15), ("file", 45)]


@pytest.mark.parametrize("ending", [".txt.gz", ".md"])
def test_a_few_files_beside_many_short_ones_are_documents_too(ending: str, tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"{n:02}.txt": prose(n) for n in range(25)}
    lines = ["\n".join(prose(n + k)[-40 - k :] for k in range(60)).encode() for n in (30, 40, 50)]
    texts |= {f"a{n}{ending}": gzip.compress(text) if ending.endswith("gz") else text for n, text in enumerate(lines)}
    found = project.find_sources([written(tmp_path / "t", texts)], tmp_path / "mine").sources
    assert sorted((source.document, source.files) for source in found) == [("file", 3), ("file", 25)]
    texts["corpus.md"] = "\n\n".join(map(prose, range(60))) * 200
    found = project.find_sources([written(tmp_path / "large", texts)], tmp_path / "mine").sources
    assert [source.document for source in found if source.name == "large-txt"] == ["file"], (
        "each ending by itself, if one is large"
    )


def test_paths_in_others_are_taken_once(tmp_path: Path) -> None:
    here = written(tmp_path / "home", {f"texts/{n}.txt": prose(n) for n in range(30)})
    found = project.find_sources(
        [here / "texts", here, here / "texts" / "1.txt", here / "texts" / ".." / "texts"], tmp_path / "mine"
    )
    assert [source.files for source in found.sources] == [30]
    assert (
        sum(line.endswith("is another given path or lies within one, and is read once") for line in project.summary(found)) == 3
    )


def test_lists_in_jsonl_are_read_and_packed_files_without_their_ending_say_so(tmp_path: Path) -> None:
    posts = json.dumps([{"body": prose(n)} for n in range(30)], ensure_ascii=False)
    project.write(tmp_path / "mine", [written(tmp_path / "t", {"a.jsonl": posts})])
    artifact = built(tmp_path / "mine" / "recipe.toml", tmp_path / "store", "extract")["extract/t"]
    assert artifact.stats["documents_out"] == 30
    packed = {f"{n}.txt": gzip.compress(prose(n).encode()) for n in range(60)}
    with pytest.raises(RecipeError, match=r"only 60 \.txt that cannot be read \(packed_file: these bytes are gzip"):
        project.write(tmp_path / "other", [written(tmp_path / "p", {**packed})])


def test_files_about_the_others_are_known_by_their_whole_name(tmp_path: Path) -> None:
    texts = {f"license_{n}.txt": prose(n) for n in range(30)} | {"README.ko.md": prose(1), "LICENSE.txt": prose(2)}
    found = project.find_sources([written(tmp_path / "t", {**texts})], tmp_path / "mine")
    assert [source.files for source in found.sources] == [30]
    assert found.left_out == {"README.ko.md": 1, "LICENSE.txt": 1}
    assert list(project.summary(found))[-1].startswith("left out: 1 LICENSE.txt (by its name, notes on other files;")
    with pytest.raises(RecipeError, match=r"only 1 README\.ko\.md \(by its name, .*; read under another name\)"):
        project.find_sources([tmp_path / "t" / "README.ko.md"], tmp_path / "mine")


def test_a_project_without_files_has_the_sample(tmp_path: Path) -> None:
    found = project.write(tmp_path / "mine", project.SAMPLE)
    assert [source.format for source in found.sources] == ["jsonl", "mediawiki", "namuwiki", "csv"]
    assert recipes.prepare(tmp_path / "mine" / "recipe.toml", Store(tmp_path / "store")).planned[-1].label == "report"


def test_descriptions_of_saved_datasets_are_no_source(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    table = pa.table({"text": [prose(n) for n in range(50)]})
    with pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (folder / "dataset_info.json").write_text(json.dumps({"description": prose(1), "features": {}}), "utf-8")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}), "utf-8")
    found = project.find_sources([folder], tmp_path / "mine")
    assert [source.format for source in found.sources] == ["arrow"]
    assert found.left_out == {"dataset_info.json": 1, "state.json": 1}
