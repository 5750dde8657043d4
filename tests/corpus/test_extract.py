"""The extract stage reads every format, to the same bytes with any number of workers, and rejects sources that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from korealbert.artifact import Runtime, Store, build
from korealbert.corpus import extract as extract_module
from korealbert.corpus.extract import STAGE, ExtractionError, ExtractSpec
from korealbert.documents.schema import document_id
from tests.archives import compressed, tar
from tests.corpus.extracting import PAGE, dump, extract

SENTENCE = "봄이 오면 강가에 버들이 먼저 푸르러진다."


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def test_json_lines_with_a_field_map(tmp_path: Path) -> None:
    path = tmp_path / "petitions.jsonl"
    path.write_bytes(lines({"no": 7, "body": f"{SENTENCE}\r\n\r\n\r\n둘째\t문단", "when": "2019-05-01", "kind": "환경"}))
    fields = {"text": "body", "published": "when", "category": "kind", "id": "no"}
    (document,) = extract(tmp_path / "store", path, format="jsonl", fields=fields, outlet="광장").documents
    assert document.text == f"{SENTENCE}\n\n둘째 문단"
    assert (document.published, document.category, document.outlet) == ("2019-05-01", "환경", "광장")
    assert document.id == document_id("test", "7")


def test_several_text_fields_become_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "books.jsonl"
    path.write_bytes(lines({"intro": SENTENCE, "review": "서평이다."}, {"intro": SENTENCE}))
    found = extract(tmp_path / "store", path, format="jsonl", fields={"text": ["intro", "review"]})
    assert found.texts == [f"{SENTENCE}\n\n서평이다.", SENTENCE]


@pytest.mark.parametrize("shape", ["array", "pretty", "objects", "lines"])
def test_json_of_every_shape(tmp_path: Path, shape: str) -> None:
    records = [{"text": f'{SENTENCE} [{n}] "}}" \\'} for n in range(4)]
    text = {
        "array": json.dumps(records),
        "pretty": json.dumps(records, ensure_ascii=False, indent=2),
        "objects": "\n".join(json.dumps(record, indent=1) for record in records),
        "lines": "\n".join(json.dumps(record, ensure_ascii=False) for record in records),
    }[shape]
    path = tmp_path / "data.json"
    path.write_text(text, "utf-8")
    found = extract(tmp_path / "store", path, format="json")
    assert found.texts == [record["text"] for record in records]
    assert found.stats["records_in"] == 4


def test_news_takes_its_category_from_the_section(tmp_path: Path) -> None:
    path = tmp_path / "news.json"
    article = {
        "id": "a1",
        "title": "제목",
        "text": SENTENCE,
        "outlet": "가람일보",
        "section": "사회",
        "url": "https://n.example/1",
    }
    path.write_text(json.dumps([article, {**article, "id": "a2", "section": None}]), "utf-8")
    first, second = extract(tmp_path / "store", path, format="news", category="미분류").documents
    assert (first.category, second.category) == ("사회", "미분류")
    assert (first.outlet, first.url, first.title) == ("가람일보", "https://n.example/1", "제목")


def test_the_sample_news_is_read_whole(tmp_path: Path, sample_dir: Path) -> None:
    found = extract(tmp_path, sample_dir / "news.jsonl", format="news")
    assert (found.stats["documents_out"], found.quarantined) == (58, [])
    assert "정치" in {document.category for document in found.documents}


def test_titled_text_files_in_folders_by_category(tmp_path: Path) -> None:
    members = {"news/0/a.txt": f"제목\t{SENTENCE}\n\n끝.".encode(), "news/9/b.txt": f"제목\t{SENTENCE}".encode()}
    path = tmp_path / "news.tar"
    path.write_bytes(tar({**members, "news/0/c.txt": "탭이 없는 글".encode()}))
    found = extract(tmp_path / "store", path, format="news_text", category_by_folder={"0": "정치"})
    assert [(d.title, d.category) for d in found.documents] == [("제목", "정치"), ("제목", "9")]
    assert found.texts[0] == f"{SENTENCE}\n\n끝."
    (bad,) = found.quarantined
    assert (bad.file, bad.reason, bad.field) == ("news.tar::news/0/c.txt", "missing_field", "title")


def test_books_with_quoted_line_breaks_and_a_byte_order_mark(tmp_path: Path, sample_dir: Path) -> None:
    fields = {"text": "introduction", "title": "title", "category": "category", "id": "isbn"}
    found = extract(tmp_path, sample_dir / "books.csv", format="books", fields=fields)
    assert found.stats["documents_in"] == 24
    assert (found.stats["dropped"], found.quarantined) == ({"empty": 1}, [])
    assert any("\n" in text for text in found.texts)
    assert all("\xa0" not in document.category for document in found.documents)


def test_a_row_with_another_number_of_fields_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "books.csv"
    path.write_text(f'\ufefftitle,text\n가,"{SENTENCE}\n둘째 줄, ""인용"""\n나,다,라\n마,{SENTENCE}\n', "utf-8")
    found = extract(tmp_path / "store", path, format="books")
    assert found.texts == [f'{SENTENCE}\n둘째 줄, "인용"', SENTENCE]
    (bad,) = found.quarantined
    assert (bad.reason, bad.position) == ("wrong_number_of_fields", "line 4")
    assert "3 fields, the header 2" in bad.remedy


def test_film_reviews_are_one_document_per_file(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    reviews = [{"review": "재미있다\n\n정말로"}, {"review": ""}, {"review": 5}, {"review": "다시 볼 영화"}]
    (folder / "10.json").write_text(json.dumps(reviews, indent=2), "utf-8")
    (folder / "2.json").write_text("[]", "utf-8")
    found = extract(tmp_path / "store", folder, format="json", document="file", fields={"text": "review"}, category="영화")
    assert found.texts == ["재미있다\n정말로\n\n다시 볼 영화"]
    assert found.documents[0].id == document_id("test", "10.json")
    assert sorted(found.reasons) == ["no_records", "wrong_type"]
    assert found.stats["records_in"] == 4


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_plain_text_blocks_are_documents(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "글.txt"
    path.write_bytes(newline.join(["첫 문장.", "둘째 문장.", "", "다른 글.", " ", "셋째 글."]).encode())
    assert extract(tmp_path / "store", path, format="text", document="record").texts == [
        "첫 문장.\n둘째 문장.",
        "다른 글.",
        "셋째 글.",
    ]


def test_a_file_of_text_is_one_document_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("가", "나"):
        (tmp_path / "texts" / f"{name}.txt").write_text(f"{name} 첫 문단.\n\n{name} 둘째 문단.\n", "utf-8")
    (tmp_path / "long.txt").write_text("문단\n\n" * 300_000, "utf-8")
    found = extract(tmp_path / "store", tmp_path / "texts", format="text")
    assert found.stats["files"] == 2
    assert found.texts == ["가 첫 문단.\n\n가 둘째 문단.", "나 첫 문단.\n\n나 둘째 문단."]
    assert len(extract(tmp_path / "store", tmp_path / "texts", format="text", document="record").texts) == 4
    assert ExtractSpec(source="x", format="jsonl").document == "record"
    with pytest.raises(ExtractionError, match='or set document = "record", which makes a document of each paragraph'):
        extract(
            tmp_path / "store", tmp_path / "long.txt", format="text", max_bad_share=0.05, limits={"max_record_bytes": 300_000}
        )


def test_wikiextractor_output_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    path.write_text(
        '<doc id="5" url="https://w.example/?curid=5" title="한 "별" > 달">\n한 "별" &gt; 달\n\n'
        "마루한(, 1924년 ~)은 [[화가|그림쟁이]]이다 ().\n"
        '생애.\n글 &lt; 그림이다.\n를 그렸다.\n"참말이다."\n라고 했다.\n외부 링크.\n</doc>\n'
        '<doc id="6" url="" title="빈 글">\n빈 글\n\n</doc>\n'
        '<doc id="7" url="" title="분류:새">\n분류:새\n\n새.\n</doc>\n',
        "utf-8",
    )
    found = extract(tmp_path / "store", path, format="wikiextractor")
    (document,) = found.documents
    assert document.text == '마루한(1924년 ~)은 그림쟁이이다.\n생애.\n글 < 그림이다.\n그렸다.\n"참말이다."\n라고 했다.'
    assert (document.title, document.url) == ('한 "별" > 달', "https://w.example/?curid=5")
    assert found.stats["dropped"] == {"empty": 1, "namespace": 1}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "식은 다음과 같다.\n이다. 강은 길다.\n이고, 산은 높다.\n가 성립한다.\n의 물은 맑다.",
            "강은 길다.\n산은 높다.\n성립한다.\n물은 맑다.",
        ),
        ("식은 다음과 같다.\n강은 길다. 는 산이다. 의 물은 맑다. 에 대하여 말한다.", "강은 길다. 산이다. 물은 맑다. 말한다."),
        ("식은 다음과 같다.\nformula_1은 강이다. formula_12이 있다. 산은 formula_3이다.", "강이다. 있다."),
        ("은 일본의 역이다.\n은 을 뜻한다.", "일본의 역이다.\n뜻한다."),
        (
            "식은 다음과 같다.\n와 함께 살았다!\n가 봅슬레이를 탔다.\n가 보라색이다.",
            "함께 살았다!\n봅슬레이를 탔다.\n보라색이다.",
        ),
        (
            "식은 다음과 같다.\n갑 대표는 말했다.\n을 통해 밝혔다.\n가 드릴을 샀다.",
            "갑 대표는 말했다.\n통해 밝혔다.\n드릴을 샀다.",
        ),
        (
            "식은 다음과 같다.\n은 이온은 희다.\n이 강은 좋다. 라고 했다.\n가. 하나\n가 - 라.\n이다 씨.\n에도 시대이다.",
            "은 이온은 희다.\n이 강은 좋다. 라고 했다.\n가. 하나\n가 - 라.\n이다 씨.\n에도 시대이다.",
        ),
    ],
)
def test_particles_without_their_word_begin_nothing(body: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    path.write_text(f'<doc id="5" url="" title="강">\n강\n\n{body}\n</doc>\n', "utf-8")
    assert extract(tmp_path / "store", path, format="wikiextractor").texts == [
        text if body[0] == "은" else f"식은 다음과 같다.\n{text}"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "가 군은 1월에, 나 군은 2월에 뽑는다.\n가 등급은 300명이다.\n가 지구는 넓다.\n가 단조는 조성이다.",
        "값은 300 헤르츠이다. 가 음의 위에 마 음이 있다. 가 점에서 시작한다.",
        "배는 둘이다.\n가 바구니는 크다.\n나 바구니는 작다.",
        "차례는 이렇다.\n가 나다라 순으로 적는다.\n와, 정말 길다.\n와 진짜 크다.\n와 크기도 하다!\n와 보니 좋다.",
        "그가 말했다. 에, 그러니까 말이다.\n에 또 할 말이 있다.",
        "갑은 김철수이다.\n을 박영희는 집을 산다.\n을 은 값을 낸다.\n가 드리겠다. 가 볼 곳이 많다. 가 본 곳이다.",
        "그는 말했다.\n가 보라고 했다.\n가 드릴 수 있다.",
        "나누기\n가 군은 1월에 뽑는다.",
        "강가이다.\n가 마을과 나 마을은 이웃이다. 가 집단은 나 집단보다 크다.",
        "그들은 왔다.\n와 쉬었다. 와 살았다.\n와 묵었다.\n가 살았다. 가 앉았다.\n가 쉬어라.",
        "조사는 여럿이다. 은/는, 이/가, 을/를과 같다.\n은/는, 이/가의 경우에 그렇다.\n은(는) 조사이다.",
    ],
)
def test_words_like_particles_stay(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    path.write_text(f'<doc id="5" url="" title="강">\n강\n\n{text}\n</doc>\n', "utf-8")
    assert extract(tmp_path / "store", path, format="wikiextractor").texts == [text]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("그는 바보 이서온\n의 삶을 살았다. 전투기\n를 몰았다.", "그는 바보 이서온의 삶을 살았다. 전투기를 몰았다."),
        ("이는 그가 지은 함수\n가 존재한다.\n이는 이름\n이다. 길다.", "이는 그가 지은 함수가 존재한다.\n이는 이름이다. 길다."),
        ("이는 선형 사상\n가 있다.\n만약\n에 대하여 그렇다.", "이는 선형 사상\n있다.\n만약\n그렇다."),
        ("값은\n의 꼴이다.\n특히\n이므로, 같다.", "값은\n꼴이다.\n특히\n같다."),
        ("가네 가시네\n가 가셔\n히라가나\n에 (え)는 가나이다.", "가네 가시네\n가 가셔\n히라가나\n에 (え)는 가나이다."),
        (
            "옛 이름 '욱리하'\n의 '욱리'는 길다. 글 〈강〉\n에 대해 말한다.",
            "옛 이름 '욱리하'\n의 '욱리'는 길다. 글 〈강〉\n에 대해 말한다.",
        ),
    ],
)
def test_lines_that_break_before_a_particle_are_one(body: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    path.write_text(f'<doc id="5" url="" title="강">\n강\n\n{body}\n</doc>\n', "utf-8")
    assert extract(tmp_path / "store", path, format="wikiextractor").texts == [text]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("강은 영화 《》에 나온다.", "강은 영화에 나온다."),
        ("세 번째 영화인 《》과 앨범〈〉 속의 드라마 『』를 보았다.", "세 번째 영화와 앨범 속의 드라마를 보았다."),
        ("그는 음반 「」으로 알려졌다. 소설 《》, 《나루》를 썼다.", "그는 음반으로 알려졌다. 소설 《나루》를 썼다."),
        ("《》는 노래이다. 예를 들면, 《》, 《강》이 있다.", "노래이다. 예를 들면, 《강》이 있다."),
        ('《너울("")》과 나루(\n)와 나루（）이다.', "《너울》과 나루와 나루이다."),
        ("강은 길다. (). 산은 높다. .", "강은 길다. 산은 높다."),
        ("강은 길다.,.", "강은 길다."),
        # What the rest would not say, or what is shown as it is.
        ("그는 《》에서 보았다. 그의 《》에도 있다.", "그는 《》에서 보았다. 그의 《》에도 있다."),
        ("본명은 ‘’이다. 쌍점(:)과 （ ）안이다.", "본명은 ‘’이다. 쌍점(:)과 （ ）안이다."),
        ('print("") 영화 《》(2001)이다.', 'print("") 영화 《》(2001)이다.'),
        ("강은 영화 《》 가 크게 성공했다.", "강은 영화 《》 가 크게 성공했다."),
        ("강은 길다... 산은 높다.", "강은 길다... 산은 높다."),
    ],
)
def test_deleted_words_leave_nothing_where_the_sentence_is_sound(body: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    path.write_text(f'<doc id="5" url="" title="강">\n강\n\n{body}\n</doc>\n', "utf-8")
    assert extract(tmp_path / "store", path, format="wikiextractor").texts == [text]


@pytest.mark.parametrize(
    ("last", "is_sentence"),
    [
        *(
            (line, True)
            for line in ("조화 함수라고 하자.", "길이를 재어 보자.", "옆의 글을 참고하여라.", "알려지지 않음.", "Pentax Corp.")
        ),
        *(
            (line, False)
            for line in ("외부 링크.", "역대 수상자.", "후보자.", "고구려의 오페라.", "독도함.", "그의 죽음.", "KBS.")
        ),
    ],
)
def test_a_short_last_sentence_stays_and_the_title_of_an_empty_section_does_not(
    last: str, is_sentence: bool, tmp_path: Path
) -> None:
    path = tmp_path / "wiki_00"
    path.write_text(f'<doc id="5" url="" title="강">\n강\n\n강은 길다.\n{last}\n각주.\n</doc>\n', "utf-8")
    expected = f"강은 길다.\n{last}" if is_sentence else "강은 길다."
    assert extract(tmp_path / "store", path, format="wikiextractor").texts == [expected]


def test_one_and_two_workers_give_identical_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.corpus.readers.framing.RAW_RECORDS_BYTES", 10_000)
    monkeypatch.setattr("korealbert.corpus.readers.framing.BYTES_PER_READ", 10_000)
    options = {"format": "mediawiki", "shard_bytes": 1024}
    pages = [PAGE.format(title=f"강 {n}", id=n, text=f"'''강'''은 길다. [[산]]은 {n}번 높다.") for n in range(200)]
    path = tmp_path / "dump.xml"
    path.write_bytes(dump(*pages))
    alone = extract(tmp_path / "one", path, workers=1, **options)
    together = extract(tmp_path / "two", path, workers=2, **options)
    assert len(alone.artifact.files("documents-*.arrow")) > 2
    assert alone.artifact.output_digest == together.artifact.output_digest


def test_shard_size_does_not_change_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(*({"text": f"{SENTENCE} {n}"} for n in range(300))))
    whole = extract(tmp_path / "one", path, format="jsonl")
    monkeypatch.setattr("korealbert.corpus.readers.framing.RAW_RECORDS_BYTES", 500)
    monkeypatch.setattr("korealbert.corpus.readers.framing.BYTES_PER_READ", 333)
    cut = extract(tmp_path / "two", path, format="jsonl", shard_bytes=1024)
    assert len(cut.artifact.files("documents-*.arrow")) > 3
    assert cut.documents == whole.documents


def test_a_killed_extraction_resumes_and_equals_a_straight_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.corpus.readers.framing.RAW_RECORDS_BYTES", 500)
    monkeypatch.setattr("korealbert.corpus.readers.framing.BYTES_PER_READ", 333)
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(*({"text": f"{SENTENCE} {n}"} for n in range(100))))
    spec = ExtractSpec.model_validate({"source": "a", "format": "jsonl", "paths": [str(path)], "shard_bytes": 1024})
    straight = build(STAGE, spec, {}, Runtime(store=tmp_path / "straight", workers=1)).artifact
    real, done = extract_module.extract_shard, list[int]()

    def dying(job: Any, index: int, out_dir: Path) -> Any:
        if index == 3 and len(done) == 3:
            raise KeyboardInterrupt
        done.append(index)
        return real(job, index, out_dir)

    monkeypatch.setattr(extract_module, "extract_shard", dying)
    with pytest.raises(KeyboardInterrupt):
        build(STAGE, spec, {}, Runtime(store=tmp_path / "killed", workers=1))
    done.append(-1)
    resumed = build(STAGE, spec, {}, Runtime(store=tmp_path / "killed", workers=1)).artifact
    assert done[:5] == [0, 1, 2, -1, 3]
    assert resumed.output_digest == straight.output_digest


def test_compression_and_archives_change_no_document(tmp_path: Path) -> None:
    data = lines({"text": SENTENCE, "id": "1"}, {"text": "끝.", "id": "2"})
    plain = tmp_path / "a.jsonl"
    plain.write_bytes(data)
    expected = extract(tmp_path / "store", plain, format="jsonl").documents
    for kind in ("gz", "bz2", "xz", "zst"):
        packed = tmp_path / f"a.jsonl.{kind}"
        packed.write_bytes(compressed(kind, data))
        archive = tmp_path / f"a.tar.{kind}"
        archive.write_bytes(
            compressed(kind, tar({"AA/a.jsonl": data, "AA/b.jsonl.gz": compressed("gz", data), "README": b"x"}))
        )
        assert extract(tmp_path / "store", packed, format="jsonl").documents == expected
        assert extract(tmp_path / "store", archive, format="jsonl", members="AA/*").documents == expected * 2


def test_a_missing_file_is_known_when_planning(tmp_path: Path) -> None:
    spec = ExtractSpec.model_validate({"source": "a", "format": "text", "paths": [str(tmp_path / "없다.txt")]})
    with pytest.raises(FileNotFoundError, match=r"없다\.txt"):
        STAGE.identity(spec, {}, Store(tmp_path / "store"))
    with pytest.raises(FileNotFoundError, match=r"없다\.txt: no such file"):
        list(extract_module.shard_inputs(spec))


def test_too_many_bad_records_fail_the_stage_and_name_the_first_five(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(*({"text": SENTENCE} for _ in range(90))) + b"{broken\n" * 10)
    with pytest.raises(ExtractionError, match=r"10 of 100 records \(10\.0%\)") as raised:
        extract(tmp_path / "store", path, format="jsonl", max_bad_share=0.05)
    assert str(raised.value).count("malformed_json") == 5
    assert "a.jsonl, line 91" in str(raised.value)
    assert extract(tmp_path / "store", path, format="jsonl", max_bad_share=0.1).stats["quarantined"] == 10


def test_a_source_of_which_nothing_can_be_read_fails_however_small_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{broken\n" * 3)
    with pytest.raises(ExtractionError, match=r"3 of 3 records \(100\.0%\) cannot be read(.|\n)*a\.jsonl, line 1"):
        extract(tmp_path / "store", path, format="jsonl", max_bad_share=0.05)
    path.write_bytes(b"{broken\n" * 3 + lines({"text": SENTENCE}))
    assert extract(tmp_path / "store", path, format="jsonl", max_bad_share=0.05).stats["quarantined"] == 3


def test_a_misspelt_field_is_an_error_and_a_sometimes_missing_one_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines({"text": SENTENCE, "date": "2019"}, {"text": SENTENCE}))
    with pytest.raises(ExtractionError, match=r"no record has the field 'datum' that fields\.published names"):
        extract(tmp_path / "store", path, format="jsonl", fields={"published": "datum"})
    assert (
        extract(tmp_path / "store", path, format="jsonl", fields={"published": "date"}).stats["missing_fields"]["published"]
        == 1
    )


def test_files_of_one_name_give_documents_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "a.jsonl" for folder in "xy"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(lines({"text": SENTENCE}))
    found = extract(tmp_path / "store", paths, format="jsonl")
    assert len({document.id for document in found.documents}) == 2


def test_required_fields_send_a_record_to_quarantine(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines({"text": SENTENCE, "title": "가"}, {"text": SENTENCE}, {"title": "나"}))
    found = extract(tmp_path / "store", path, format="jsonl", fields={"required": ["title"]})
    assert [(bad.field, bad.position.split(",")[0]) for bad in found.quarantined] == [("title", "line 2"), ("text", "line 3")]
    assert "the record has the fields title" in found.quarantined[1].remedy


def test_a_source_without_matching_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(ExtractionError, match="members = '\\*'"):
        extract(tmp_path / "store", tmp_path / "raw", format="text")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "mediawiki", "document": "file"}, 'document = "file" needs format'),
        ({"format": "jsonl", "markdown": True}, "markdown is about text, not jsonl"),
        ({"format": "jsonl", "fields": {"text": []}}, "fields.text"),
        ({"format": "news", "category": "a", "category_by_folder": {"0": "b"}}, "not both"),
        ({"format": "json", "fields": {"required": ["titel"]}}, "titel"),
        ({"format": "json", "max_bad_share": 1.5}, "max_bad_share"),
        ({"format": "pdf"}, "format"),
        ({"format": "json", "source": "Not a name"}, "source"),
        ({"format": "json", "unknown": 1}, "unknown"),
    ],
)
def test_specs_that_make_no_sense_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ExtractSpec.model_validate({"source": "a", "paths": ["x"], **fields})
