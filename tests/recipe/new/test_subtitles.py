"""Which names ``korealbert new`` takes for text, and that each file of subtitles is a document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.recipe.new import project
from korealbert.recipe.tables import RecipeError
from tests.recipe.new.test_looks import packed, texts_of
from tests.recipe.new.test_project import prose, written


def srt(number: int, *, mark: str = ",") -> str:
    """Return subtitles of some sentences, each between blank lines."""
    sentences = prose(number).split(". ")
    return "".join(
        f"{n}\n00:00:{n:02d}{mark}000 --> 00:00:{n:02d}{mark}900\n{line.rstrip('.')}.\n\n"
        for n, line in enumerate(sentences, 1)
    )


def sami(number: int) -> str:
    cues = "".join(f"<SYNC Start={n}000><P Class=KRCC>\n{line}\n" for n, line in enumerate(prose(number).split(". ")))
    return f"<SAMI>\n<HEAD>\n<TITLE>영화</TITLE>\n</HEAD>\n<BODY>\n{cues}</BODY>\n</SAMI>\n"


SUBTITLES = {
    "srt": srt,
    "SRT": srt,
    "ko.srt": srt,
    "vtt": lambda n: f"WEBVTT\n\n{srt(n, mark='.')}",
    "smi": sami,
    "sami": lambda n: sami(n).encode("cp949"),
}


@pytest.mark.parametrize("ending", SUBTITLES)
@pytest.mark.parametrize("count", [1, 3, 30])
def test_a_file_of_subtitles_is_a_document_however_few_there_are(ending: str, count: int, tmp_path: Path) -> None:
    here = written(tmp_path / "t", {f"{n}.{ending}": SUBTITLES[ending](n) for n in range(count)})
    [source] = project.find_sources([here], tmp_path / "mine").sources
    assert (source.format, source.document, source.files, len(source.sample.lengths)) == ("text", "file", count, count)
    assert not {*"<>", ":"} & source.sample.characters


def test_subtitles_are_extracted_without_times(tmp_path: Path) -> None:
    here = tmp_path / "t"
    for place, (ending, subtitles) in enumerate(SUBTITLES.items()):
        written(here, {f"{n}.{ending}": subtitles(n) for n in range(10 * place, 10 * place + 10)})
    project.write(tmp_path / "mine", [here])
    extracted = recipes.load(tmp_path / "mine" / "recipe.toml").extract
    assert {spec.document for spec in extracted.values()} == {"file"}
    read = texts_of(tmp_path / "mine")
    spoken = [re.sub(r"\W+", " ", text).strip() for text in read]
    assert sorted(spoken) == sorted(re.sub(r"\W+", " ", prose(n)).strip() for n in range(60))


def test_subtitles_in_archives_are_read(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", {f"{n}.srt": srt(n) for n in range(30)})
    project.write(tmp_path / "mine", [archive])
    assert len(texts_of(tmp_path / "mine")) == 30


def test_many_short_subtitles_beside_a_book_leave_its_paragraphs_apart(tmp_path: Path) -> None:
    book = {"book.txt": "\n\n".join(map(prose, range(60)))}
    found = project.find_sources(
        [written(tmp_path / "t", {**book, **{f"{n}.srt": srt(n) for n in range(40)}})], tmp_path / "mine"
    )
    assert {(source.members, source.document) for source in found.sources} == {("*.txt", "record"), ("*.srt", "file")}


@pytest.mark.parametrize("ending", ["smi", "srt", "vtt"])
def test_what_is_no_subtitles_despite_its_ending_is_left_out(ending: str, tmp_path: Path) -> None:
    """Chemical formulas (SMILES) are .smi files too."""
    texts: dict[str, str | bytes] = {f"{n}.txt": prose(n) for n in range(30)}
    found = project.find_sources([written(tmp_path / "t", {**texts, f"a.{ending}": "CCO ethanol\nCC(=O)O acid\n"})], tmp_path)
    assert [source.files for source in found.sources] == [30]
    assert found.left_out == {f".{ending} without times of subtitles": 1}


def test_text_with_other_endings_of_text_and_markdown_is_read(tmp_path: Path) -> None:
    texts = {f"{n}.text": prose(n) for n in range(30)} | {f"{n}.markdown": f"# 글\n\n**가** {prose(n)}" for n in range(30, 60)}
    found = project.write(tmp_path / "mine", [written(tmp_path / "t", {**texts})]).sources
    assert {(source.members, source.markdown) for source in found} == {("*.text", False), ("*.markdown", True)}
    read = texts_of(tmp_path / "mine")
    assert len(read) == 60 and not any(mark in text for text in read for mark in "#*")


def test_a_table_named_text_is_read_as_a_table(tmp_path: Path) -> None:
    table = "번호,내용\n" + "".join(f'{n},"{prose(n)}"\n' for n in range(30))
    [source] = project.find_sources([written(tmp_path / "t", {"a.text": table})], tmp_path / "mine").sources
    assert (source.format, source.fields["text"]) == ("csv", "내용")


def test_logs_and_files_without_an_ending_are_left_out_with_how_to_name_them(tmp_path: Path) -> None:
    texts: dict[str, str | bytes] = {f"{n}.txt": prose(n) for n in range(30)}
    here = written(tmp_path / "t", {**texts, "a.log": prose(90), "글": prose(91), "나": prose(92)})
    found = project.find_sources([here], tmp_path / "mine")
    assert [source.files for source in found.sources] == [30]
    assert list(project.summary(found))[-1].startswith(
        "left out: 2 without an ending (add .txt to the names of texts), 1 .log (messages of programs; name texts .txt);"
    )
    with pytest.raises(RecipeError, match=r"only 1 without an ending \(add \.txt to the names of texts\); known"):
        project.find_sources([here / "글"], tmp_path / "mine")
