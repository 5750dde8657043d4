"""`inspect` shows the passages that rules matched and the changes of a stage, and its pages run no scripts."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

import korealbert
from korealbert.artifact import Artifact, ArtifactError, Runtime, Spec, Stage, build
from korealbert.corpus import extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.clean.news import Removal
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality import stage as quality
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard, sum_stats
from korealbert.inspection import differences, look
from korealbert.inspection.differences import Part, cleaning, difference, words
from korealbert.inspection.look import markup, page
from korealbert.recipe import registry
from tests.report.conftest import made

RULES = Path(__file__).parents[2] / "data_specs" / "rules"

BENCHMARK = "강을 따라 걷다 보면 누구나 한 번쯤 물소리에 걸음을 멈추고 지난봄의 버들과 나룻배를 떠올리게 된다고 사공은 말했다."
_SENTENCES = [
    "강가의 버들이 푸르러지자 마을 사람들이 나루터에 모였다.",
    "사공은 겨우내 손질한 배를 물에 띄우고 노를 다시 묶었다.",
    "아이들은 조약돌을 모아 작은 탑을 쌓고 소원을 빌었다.",
    "장터에서는 햇나물과 민물고기를 파는 소리가 늦게까지 들렸다.",
    "읍사무소는 나루터 옆에 의자 열두 개를 새로 놓았다고 밝혔다.",
]
BODY = "\n".join(_SENTENCES)
LATER = "\n".join(
    [
        "다리를 놓자는 의견과 나룻배를 지키자는 의견이 맞섰다.",
        "아침 배는 여섯 시에 떠나고 마지막 배는 해가 질 때 돌아온다.",
        "뱃삯은 다섯 해 동안 오르지 않았고 학생은 그 절반을 낸다.",
        "군은 내년까지 선착장 두 곳을 고치고 등불을 달기로 했다.",
    ]
)


def _article(title: str, text: str) -> dict[str, str]:
    return {"id": title, "title": title, "section": "사회", "text": text}


ARTICLES = [  # Each shows one decision of cleaning or deduplication.
    _article("강가의 봄", f"&quot;봄이다&quot;\n{BODY}\n<script>alert(1)</script>\n무단 전재 및 재배포 금지"),
    _article("나룻배", LATER),
    _article("나룻배 그대로", LATER),
    _article("나룻배 조금 다르게", LATER.replace("맞섰다", "갈렸다")),
    _article(
        "사공의 말", f"오래된 나루터에서 들은 이야기다.\n그는 이렇게 적었다. {BENCHMARK[:-1]}라며 배를 저었다.\n바람이 불었다."
    ),
    _article("[부고] 김강물씨 별세", BODY),
    _article("짧다", "짧은 글."),
    _article("A river", "The river was calm, and the willows were green. People came to see the boats every day. 강."),
    _article("표시", f"{_SENTENCES[0]} #강 #배 #봄 #물 #산 #들 끝이다."),
    _article("되풀이", "\n".join(["물이 맑다."] * 5 + [_SENTENCES[1]])),
    _article("줄임", "\n".join(f"{one} {other[:-1]}…" for one, other in pairwise([*_SENTENCES, *_SENTENCES[::-1]]))),
    _article(
        "꼬리뿐",
        f"{_SENTENCES[0]}\n무단 전재 및 재배포 금지\n"
        "ⓒ 강물일보, 무단전재 및 재배포 금지\n▶ 강물일보 바로가기\n▶ 강물일보 앱 내려받기",
    ),
]


def write_jsonl(path: Path, records: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return path


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Articles extracted, cleaned and deduplicated."""
    root = tmp_path_factory.mktemp("looking")
    runtime = Runtime(store=root / "store", workers=1)
    source = ExtractSpec.model_validate(
        {"source": "news", "format": "news", "paths": [str(write_jsonl(root / "news.jsonl", ARTICLES))]}
    )
    extracted = build(extract.STAGE, source, {}, runtime, label="extract/news").artifact
    rules = {"news_rules": str(RULES / "news.toml"), "title_rules": str(RULES / "titles.toml")}
    limits = {"min_characters": 40}
    spec = clean.CleanSpec.model_validate({**rules, "limits": limits})
    cleaned = build(clean.STAGE, spec, {"documents": extracted}, runtime, label="clean/news").artifact
    benchmark = root / "benchmark.tsv"
    benchmark.write_text(f"id\tdocument\n1\t{BENCHMARK}\n", "utf-8")
    evaluation = {"name": "강-test", "path": str(benchmark), "format": "tsv", "columns": ["document"]}
    unique = dedup.DedupSpec.model_validate({"decontaminate": [evaluation], "threshold": 0.6})
    deduplicated = build(dedup.STAGE, unique, {"news": cleaned}, runtime, label="dedup").artifact
    return {"extract": extracted, "clean": cleaned, "dedup": deduplicated}


def seen(artifact: Artifact, limit: int = 50, **what: Any) -> list[Text]:
    return list(
        look.items(artifact, look.Selection(**what), shows=registry.shows(artifact.manifest["recipe"]["stage"]), limit=limit)
    )


def evidence(text: Text) -> list[str]:
    return [text.plain[span.start : span.end] for span in text.spans if span.style == "evidence"]


@pytest.mark.parametrize(
    ("reason", "rule", "marked"),
    [
        ("title_rule", "notice", ["⟪[부고]⟫"]),
        ("too_short", "5 characters < 40", []),
        ("not_korean", "Hangul 0.", ["⟪The river was calm⟫", "⟪and the willows were green⟫"]),
        ("symbols", " > 0.1", ["⟪#⟫"] * 6),
        ("duplicate_lines", " > 0.3", ["⟪물이 맑다.⟫"] * 4),
        ("ellipsis_lines", " > 0.3", ["⟪…⟫"] * 3),
    ],
)
def test_a_dropped_document_shows_the_matched_passages(
    artifacts: dict[str, Artifact], reason: str, rule: str, marked: list[str]
) -> None:
    (text,) = seen(artifacts["clean"], dropped=reason)
    assert f"dropped: {reason}" in text.plain
    assert rule in text.plain
    found = evidence(text)
    assert found[: len(marked)] == marked and bool(found) == bool(marked)


def test_an_article_that_lost_too_much_shows_what_it_lost(artifacts: dict[str, Artifact]) -> None:
    (text,) = seen(artifacts["clean"], dropped="removed_share")
    assert "[-" in text.plain and "⟨T" in text.plain


def test_duplicates_name_the_kept_document_and_the_differences(artifacts: dict[str, Artifact]) -> None:
    (exact,) = seen(artifacts["dedup"], dropped="exact_duplicate")
    (near,) = seen(artifacts["dedup"], dropped="near_duplicate")
    for text in (exact, near):
        survivor = text.plain.split("kept: ")[1][:16]
        assert len(seen(artifacts["dedup"], wanted=survivor)) >= 1
    changed = {"[-맞섰다.-]", "{+갈렸다.+}"} if "{+갈렸다.+}" in near.plain else {"[-갈렸다.-]", "{+맞섰다.+}"}
    assert all(one in near.plain for one in changed)


def test_a_contaminated_document_shows_the_shared_passage(artifacts: dict[str, Artifact]) -> None:
    (text,) = seen(artifacts["dedup"], dropped="contaminated")
    assert "contaminated  강-test" in text.plain
    (stretch,) = evidence(text)
    assert stretch.strip("⟪⟫") in BENCHMARK


def test_without_its_rule_file_a_document_is_shown_unmarked(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    moved = Artifact(artifacts["clean"].name, artifacts["clean"].path)
    moved.manifest["spec"]["title_rules"] = str(tmp_path / "gone.toml")
    (text,) = seen(moved, dropped="title_rule")
    assert "notice" in text.plain and not evidence(text)


def test_changes_are_shown_in_place_with_their_rule(artifacts: dict[str, Artifact]) -> None:
    shown = seen(artifacts["clean"], diff=True)
    (text,) = [text.plain for text in shown if "강가의 봄" in text.plain]
    assert "[-무단 전재 및 재배포 금지-] ⟨T4-words, tail⟩" in text
    assert '[-&quot;봄이다&quot;-]{+"봄이다"+}' in text
    assert "by rule: T4-words 1, T7-script 1" in text
    assert text.index("봄이다") < text.index("무단 전재")
    assert all("[-" in text.plain or "{+" in text.plain for text in shown)
    with pytest.raises(ValueError, match="was not built from documents"):
        seen(artifacts["extract"], diff=True)


NOTHING = ["nothing of this kind in the artifact"]


def of_one_id(store: Path, *texts: str) -> Artifact:
    """Documents that share an id."""

    def write(out: Path) -> dict[str, Any]:
        with DocumentShard(out, 0) as shard:
            for text in texts:
                shard.keep(Document(document_id("news", "1"), "news", text))
        return shard.stats

    return made(store, "extract", {}, write=write)


def test_repeated_documents_and_those_of_one_id_stand_beside_their_originals(artifacts: dict[str, Artifact]) -> None:
    runtime = Runtime(store=artifacts["dedup"].path.parent, workers=1)
    for unique, repeats in ((artifacts["dedup"], 1), (of_one_id(runtime.store, BODY, LATER), 0)):
        spec = quality.QualitySpec(copies={"2": 2})
        scored = build(quality.STAGE, spec, {"documents": unique}, runtime, label="quality").artifact
        assert (scored.stats["repeated"], scored.stats["dropped"]) == (repeats, {})
        assert [text.plain for text in seen(scored, diff=True)] == NOTHING


def in_shards(store: Path, *shards: list[str]) -> Artifact:
    """Documents in one shard for each list of texts."""

    def write(out: Path) -> dict[str, Any]:
        written = []
        for number, texts in enumerate(shards):
            with DocumentShard(out, number) as shard:
                for text in texts:
                    shard.keep(Document(document_id("news", text), "news", text))
            written.append(shard.stats)
        return sum_stats(written)

    return made(store, "extract", {}, write=write)


def test_changes_are_those_of_the_shard_that_a_document_came_from(tmp_path: Path) -> None:
    """Where all documents of a shard are dropped, its number is left out."""
    runtime = Runtime(store=tmp_path, workers=1)
    raw = in_shards(tmp_path, ["짧은 글."], [f"{BODY} &amp;"], ["또 짧은 글."], [f"{LATER} &amp;"])
    cleaned = build(clean.STAGE, clean.CleanSpec(), {"documents": raw}, runtime, label="clean").artifact
    assert [path.name for path in cleaned.files("documents-*")] == ["documents-00001.arrow", "documents-00003.arrow"]
    first, second = seen(cleaned, diff=True, whole=True)
    assert _SENTENCES[0][:9] in first.plain and "다리를 놓자는" in second.plain
    assert all("[-&amp;-]{+&+}" in text.plain for text in (first, second))
    shutil.rmtree(raw.path)
    with pytest.raises(ValueError, match="an input was removed, or rebuilt"):
        seen(cleaned, diff=True)


def test_only_the_wanted_document_is_compared(artifacts: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counting(before: str, after: str, *rest: Any, **more: Any) -> list[Part]:
        compared.append(after)
        return cleaning(before, after, *rest, **more)

    last = seen(artifacts["clean"], diff=True)[-1].plain
    monkeypatch.setattr(differences, "cleaning", counting)
    assert [text.plain for text in seen(artifacts["clean"], diff=True, wanted=last[:16])] == [last]
    assert len(compared) == 1


def test_an_artifact_that_kept_no_document_says_what_it_holds(tmp_path: Path) -> None:
    raw = in_shards(tmp_path, ["짧은 글."])
    cleaned = build(clean.STAGE, clean.CleanSpec(), {"documents": raw}, Runtime(store=tmp_path, workers=1)).artifact
    (text,) = seen(cleaned)
    assert text.plain == (
        "no document was kept; --dropped all shows those that were dropped, --quarantine what could not be read"
    )
    assert [len(seen(cleaned, dropped="all")), *(text.plain for text in seen(cleaned, quarantine=True))] == [1, *NOTHING]
    assert list(korealbert.read_documents(cleaned.path)) == []
    with pytest.raises(ArtifactError, match="holds no documents; name an artifact of extract"):
        list(korealbert.read_documents(made(tmp_path, "report", {})))


def test_deduplication_changes_no_text_whatever_cleaning_has_left_in_it(tmp_path: Path) -> None:
    """Here entities, and without cleaning also characters that normalisation removes."""
    runtime = Runtime(store=tmp_path, workers=1)
    raw = of_one_id(tmp_path, f"강\u200b가의\u00a0봄 &amp; {BODY}")
    cleaned = build(clean.STAGE, clean.CleanSpec(decode_entities=False), {"documents": raw}, runtime, label="clean").artifact
    for documents in (raw, cleaned):
        unique = build(dedup.STAGE, dedup.DedupSpec(), {"news": documents}, runtime, label="dedup").artifact
        assert any("&" in text.plain for text in seen(unique))
        assert [text.plain for text in seen(unique, diff=True)] == NOTHING


def test_changes_of_later_steps_are_shown_with_removals_by_rules() -> None:
    before = "홍길동 기자 = 문의는 02-123-4567로 하면 된다. 강물은 맑다."
    removal = Removal("H1-dateline", "head", 0, "홍길동 기자 = ")
    after = "문의는 [전화번호]로 하면 된다.\n강물은 맑다."
    text = difference(cleaning(before, after, [removal]), whole=True).plain
    assert text == "[-홍길동 기자 = -] ⟨H1-dateline, head⟩문의는 [-02-123-4567로-]{+[전화번호]로+} 하면 된다. 강물은 맑다."


@given(st.text(st.sampled_from("가나다 \n"), max_size=40), st.text(st.sampled_from("가나다 \n"), max_size=40))
def test_a_comparison_of_cleaning_contains_both_texts(before: str, after: str) -> None:
    parts = cleaning(before, after, [])
    start, end = ("".join(part.text for part in parts if part.kind in ("same", kind)) for kind in ("removed", "added"))
    assert "".join(start.split()) == "".join(before.split())
    assert "".join(end.split()) == "".join(after.split())


def test_pages_of_items_and_single_ones(artifacts: dict[str, Artifact]) -> None:
    every = [text.plain for text in seen(artifacts["clean"])]
    assert [text.plain for text in look.items(artifacts["clean"], look.Selection(), limit=1, offset=1)] == every[1:2]
    assert [text.plain for text in seen(artifacts["clean"], wanted=every[0][:16])] == every[:1]
    with pytest.raises(ValueError, match="nothing of this kind has the id 'zzz'"):
        list(seen(artifacts["clean"], wanted="zzz"))
    assert [text.plain for text in seen(artifacts["clean"], quarantine=True)] == ["nothing of this kind in the artifact"]
    [beyond] = [text.plain for text in look.items(artifacts["clean"], look.Selection(), limit=5, offset=1_000)]
    assert beyond == "nothing of this kind in the artifact after the first 1,000"


def test_a_stage_without_documents_is_named(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    stage = Stage("numbers", 1, Spec, lambda spec, inputs, out_dir, runtime: {"numbers": 1})
    artifact = build(stage, Spec(), {}, Runtime(store=tmp_path)).artifact
    assert not look.has_items(artifact, "documents"), "so the Prefect UI names `korealbert show`"
    assert look.has_items(artifacts["clean"], "documents") and look.has_items(artifact, "urls")
    with pytest.raises(ValueError, match=f"stage numbers writes no documents; `korealbert show {artifact.name}`"):
        list(seen(artifact))
    with pytest.raises(ValueError, match="stage numbers writes no documents"):
        list(look.items(artifact, look.Selection(dropped="all"), shows="examples", limit=1))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_page_shows_a_script_and_does_not_run_it(artifacts: dict[str, Artifact]) -> None:
    shown = seen(artifacts["extract"])
    html = page("<script>제목", shown)
    parser = Tags()
    parser.feed(html)
    assert "script" not in parser.tags
    assert "<script>alert(1)</script>" in "".join(parser.text)
    assert "default-src &#x27;none&#x27;" in html


@given(st.text(st.sampled_from("가나 <&\"'x\n"), max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_markup_holds_the_text_whatever_its_spans(plain: str, spans: list[tuple[int, int]]) -> None:
    text = Text(plain)
    for number, (start, end) in enumerate(spans):
        text.stylize(("masked", "quiet", "unknown")[number % 3], min(start, end), max(start, end))
    parser = Tags()
    parser.feed(str(markup(text)))
    parser.close()
    assert "".join(parser.text) == plain
    assert set(parser.tags) <= {"span"}


@given(st.text(st.sampled_from("가나다 \n"), max_size=60), st.text(st.sampled_from("가나다 \n"), max_size=60))
def test_a_comparison_holds_both_texts(before: str, after: str) -> None:
    parts = words(before, after)
    old = "".join(part.text for part in parts if part.kind != "added")
    assert "".join(part.text for part in parts if part.kind != "removed") == after
    assert "".join(old.split()) == "".join(before.split())
    same = "".join(before.split()) == "".join(after.split())
    assert same or any(part.kind != "same" for part in parts)
