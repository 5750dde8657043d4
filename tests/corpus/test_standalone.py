"""``korealbert extract`` prints documents as JSON Lines with what was removed, and faults on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from korealbert.flows.cli import app
from tests.archives import compressed, tar
from tests.corpus.documents_made import prose
from tests.corpus.extracting import PAGE, dump, extract

SENTENCE = "봄이 오면 강가에 버들이 먼저 푸르러진다."
TABLE = "{|\n| 갈대 || 버들\n|}"
FOOTNOTE = "물이 맑다.<ref>강 이야기에 나온다.</ref>"
COMMAND = [sys.executable, "-m", "korealbert", "extract"]


def pages() -> bytes:
    articles = [PAGE.format(title=f"강 {n}", id=n, text=f"{SENTENCE} {n}번째 강이다.") for n in range(3)]
    return dump(*articles, PAGE.format(title="개울", id=900, text="#넘겨주기 [[강 0]]"))


def call(*arguments: object, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    result = CliRunner().invoke(app, ["extract", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize("kind", ["", "bz2", "tar"])
def test_it_prints_the_documents_of_the_extract_stage_whatever_the_file_is_packed_in(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"dump.xml{'.' * bool(kind)}{kind}"
    path.write_bytes(pages() if not kind else tar({"a.xml": pages()}) if kind == "tar" else compressed(kind, pages()))
    staged = extract(tmp_path / "store", path, source="kowiki", format="mediawiki")
    records, errors = call("wikipedia", path, "--source", "kowiki")
    assert errors == ""
    assert [set(record) for record in records] == [{"id", "title", "category", "text", "dropped", "removed"}] * 4
    kept = [record for record in records if record["dropped"] is None]
    assert [(r["id"], r["title"], r["text"]) for r in kept] == [(d.id, d.title, d.text) for d in staged.documents]
    dropped = [(r["id"], r["dropped"]["reason"]) for r in records if r["dropped"]]
    assert dropped == [(document.id, drop.reason) for document, drop in staged.dropped]
    assert [r["id"] for r in call("wikipedia", path, "--source", "kowiki", "--only-kept")[0]] == [
        d.id for d in staged.documents
    ]


def test_what_wiki_markup_loses_is_counted_with_its_document_and_kept_by_options(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    path.write_bytes(
        dump(
            PAGE.format(title="표", id=1, text=f"{SENTENCE}\n{TABLE}"),
            PAGE.format(title="주", id=2, text=FOOTNOTE.replace("<", "&lt;").replace(">", "&gt;")),
        )
    )
    table, note = call("wikipedia", path)[0]
    lost = [{one["rule"]: one["characters"] for one in record["removed"]} for record in (table, note)]
    line_break = 1
    assert lost == [{"layout": line_break, "table": len(TABLE)}, {"footnote": len(FOOTNOTE) - len("물이 맑다.")}]
    table, note = call("wikipedia", path, "--keep-tables", "--option", "keep_footnotes=true")[0]
    assert "갈대 버들" in table["text"]
    assert "강 이야기에 나온다." in note["text"]
    for record, source in ((table, f"{SENTENCE}\n{TABLE}"), (note, FOOTNOTE)):
        assert record["removed"] == [{"rule": "layout", "characters": len(source) - len(record["text"])}]  # the marks alone
    assert "characters left out: " in call("wikipedia", path, "--summary")[1]


def test_templates_are_expanded_as_by_the_stage(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    article = PAGE.format(title="강", id=1, text=f"강은 {{{{길이|3}}}}이다. {SENTENCE}")
    template = PAGE.format(title="틀:길이", id=2, text="{{{1}}} 킬로미터").replace("<ns>0</ns>", "<ns>10</ns>")
    path.write_bytes(dump(article, template))
    wiki = {"expand_templates": True}
    (staged,) = extract(tmp_path / "store", path, source="kowiki", format="mediawiki", wiki=wiki).texts
    record, _ = call("wikipedia", path, "--option", "expand_templates=true")[0]
    assert record["text"] == staged == f"강은 3 킬로미터이다. {SENTENCE}"


def test_templates_of_a_pipe_cannot_be_expanded(tmp_path: Path) -> None:
    pipe = tmp_path / "dump.xml"
    os.mkfifo(pipe)
    errors = call("wikipedia", pipe, "--option", "expand_templates=true", code=2)[1]
    assert "dump.xml: expand_templates reads a dump twice, this input can be read once; save it to a file" in errors


def test_news_loses_its_meta_tags_and_says_which_rule_took_what(tmp_path: Path) -> None:
    body = prose(1, 8)
    path = tmp_path / "news.jsonl"
    articles = [
        {"id": "1", "title": "강가의 봄", "section": "사회", "text": f"{body}\n무단 전재 및 재배포 금지"},
        {"id": "2", "title": "[부고] 김강물씨 별세", "section": "사회", "text": body},
        {"id": "3", "title": "짧다", "section": "사회", "text": "짧다."},
    ]
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in articles), "utf-8")
    first, obituary, short = call("news", path)[0]
    assert (first["dropped"], first["category"], first["text"]) == (None, "사회", body.strip())
    (removed,) = first["removed"]
    assert (removed["zone"], removed["text"].strip()) == ("tail", "무단 전재 및 재배포 금지")
    assert removed["characters"] == len(removed["text"])
    assert obituary["dropped"]["reason"] == "title_rule"
    assert short["dropped"]["reason"] == "too_short"
    assert call("news", path, "--option", "clean.limits.min_characters=0")[0][2]["dropped"] is None


def test_namuwiki_and_a_dump_whose_articles_have_another_namespace(tmp_path: Path) -> None:
    path = tmp_path / "namu.json"
    path.write_text(json.dumps([{"namespace": "문서", "title": "강", "text": f"'''{SENTENCE}'''"}]), "utf-8")
    (record,), errors = call("namuwiki", path)
    assert record["dropped"]["reason"] == "namespace"
    assert "set article_namespaces" in errors
    (record,), errors = call("namuwiki", path, "--option", 'article_namespaces=["문서"]')
    assert (record["dropped"], record["text"], errors) == (None, SENTENCE, "")


def test_only_what_cannot_be_read_makes_the_exit_status_1(tmp_path: Path) -> None:
    path = tmp_path / "news.jsonl"
    good = json.dumps({"text": SENTENCE}, ensure_ascii=False)
    path.write_text(f"{good}\n{{broken\n{good}\n", "utf-8")
    records, errors = call("news", path, code=1)
    assert len(records) == 2
    assert errors.startswith("news.jsonl, line 2, byte ") and "malformed_json" in errors
    path.write_text(good + "\n" + "{broken\n" * 150, "utf-8")
    errors = call("news", path, code=1)[1]
    assert len(errors.splitlines()) == 101
    assert "and 50 more records that cannot be read" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("news", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("wikipedia", ".", "--option", "keep_tabels=true"), "option keep_tabels: there is no such option"),
        (("wikipedia", ".", "--option", "keep_tables"), "expected KEY=VALUE"),
        (("news", ".", "--keep-tables"), "option keep_tables: it is about wikipedia and namuwiki, and has no effect on news"),
        (("namuwiki", ".", "--option", "wiki.inline_templates.별=2"), "it is about wikipedia, and has no effect on namuwiki"),
        (("wikipedia", ".", "--option", "clean.max_removed_share=1"), "it is about news, and has no effect on wikipedia"),
        (("wikipedia", ".", "--option", "max_bad_share=7"), "option max_bad_share: Input should be less than or equal to 1"),
        (("wikipedia", ".", "--option", "format.a=7"), "'format' has no fields"),
        (("wikipedia", ".", "--option", "members=*.none"), "no file that matches members"),
        (("news", ".", "--rules", "nowhere"), "news.toml: no such file; --rules names the folder"),
        (("books", "."), "'books' is not one of"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    records, errors = call(*arguments, code=2)
    assert not records
    assert message in errors


def test_standard_input_streams_and_a_reader_that_leaves_is_no_error() -> None:
    page = PAGE.format(title="강", id=1, text=SENTENCE * 40).encode()
    with subprocess.Popen(
        [*COMMAND, "wikipedia", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        feed = process.stdin

        def write() -> None:  # endless, so that documents come while the input is still open
            with contextlib.suppress(BrokenPipeError):
                while process.poll() is None:
                    feed.write(page * 100)

        feeder = threading.Thread(target=write, daemon=True)
        feeder.start()
        assert json.loads(process.stdout.readline())["text"].startswith(SENTENCE)
        process.stdout.close()
        assert process.wait(timeout=600) == 0
        feeder.join(timeout=600)
        assert process.stderr.read() == b""
        with contextlib.suppress(BrokenPipeError):
            feed.close()


def test_it_loads_neither_torch_nor_prefect() -> None:
    code = (
        "import sys; sys.argv = ['korealbert', 'extract', 'news', '/dev/null']\n"
        "from korealbert.flows.cli import app\n"
        "try: app()\nexcept SystemExit as end: print(end.code, [m for m in ('torch', 'prefect', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 []\n"
    assert "empty_file" in done.stderr


def test_html_pages_become_articles(tmp_path: Path) -> None:
    path = tmp_path / "강.html"
    body = "".join(f"<p>{SENTENCE} 강가에는 {n}번째 의자가 놓였다.</p>" for n in range(12))
    head = '<meta property="og:title" content="강가의 봄"><meta property="og:type" content="article">'
    path.write_text(
        f"<!doctype html><html><head><meta charset=utf-8>{head}</head><body><article>{body}</article></body></html>", "utf-8"
    )
    ((record,), errors) = call("html", path)
    assert (record["title"], record["dropped"], errors) == ("강가의 봄", None, "")
    assert "5번째 의자" in record["text"]
    assert "<" not in record["text"]
