"""Official files are read exactly; damaged ones are refused with a remedy."""

from __future__ import annotations

import gzip
import json
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import accuracy_score, f1_score

from korealbert.documents import benchmark_files
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.task import Example
from korealbert.finetune.task_types.questions import Answer, Question
from korealbert.finetune.task_types.sequence import SequenceClassification
from tests.archives import tar, zipped

NSMC_HEADER = "id\tdocument\tlabel\n"
STS_HEADER = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"


def read(task: str, path: Path, content: str | bytes) -> list[Example]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return tasks.load(task).read(BenchmarkFile(path))


def test_quotes_are_literal_and_words_that_look_missing_stay_words(tmp_path: Path) -> None:
    reviews = ['"이게 영화냐', "null", "NA", '말"그대로" 걸작"', "두 줄\u2028아님", ""]
    rows = "".join(f"{n}\t{review}\t{n % 2}\n" for n, review in enumerate(reviews))
    examples = read("nsmc", tmp_path / "a.txt", NSMC_HEADER + rows)
    assert [example.text for example in examples] == reviews
    assert [example.target for example in examples] == [0, 1, 0, 1, 0, 1]
    assert all(example.pair is None for example in examples)


def test_korsts_pairs_keep_quotes_and_the_last_line_needs_no_line_feed(tmp_path: Path) -> None:
    row = '뉴스\t우리\t2024\t0007\t3.800\t"비가 온다.\t눈이 "온다'
    (example,) = read("korsts", tmp_path / "a.tsv", STS_HEADER + row)
    assert example == Example("뉴스/우리/2024/0007", '"비가 온다.', 3.8, pair='눈이 "온다')


def test_untranslated_sentences_of_paws_are_kept_and_scored_separately(tmp_path: Path) -> None:
    rows = '4\t"가 나\t나 가\t1\n157\tNS\t라\t0\n6\t마 바\t바 "마\t0\n'
    examples = read("paws_ko", tmp_path / "test_2k.tsv", "id\tsentence1\tsentence2\tlabel\n" + rows)
    assert examples[0] == Example("4", '"가 나', 1, pair="나 가") and examples[1].text == "NS"
    scores = tasks.load("paws_ko").score(examples, [1, 0, 1], "official").values
    assert scores == {"accuracy": pytest.approx(200 / 3), "accuracy_translated": 50.0}


def test_a_comment_has_three_labels(tmp_path: Path) -> None:
    header, row = "comments\tcontain_gender_bias\tbias\thate\n", '"말 많다\tTrue\tgender\toffensive\n'
    for task, target in {"hate_speech": 1, "social_bias": 2, "gender_bias": 1}.items():
        assert read(task, tmp_path / "dev.tsv", header + row) == [Example("2", '"말 많다', target)]
    with pytest.raises(
        ValueError, match=r"line 1, field 'header': found 'comments'; the official file begins with comments<TAB>"
    ):
        read("hate_speech", tmp_path / "test.no_label.tsv", "comments\n말\n")


def test_intents_have_no_header_and_their_last_line_no_end(tmp_path: Path) -> None:
    examples = read("3i4k", tmp_path / "fci_test.txt", "0\t만화\r\n6\t취소해")
    assert examples == [Example("1", "만화", 0), Example("2", "취소해", 6)]
    with pytest.raises(ValueError, match=r"line 2, field 'label': 1 fields instead of 2; give fci_train_val"):
        read("3i4k", tmp_path / "fci_test.txt", "0\t만화\r\n취소해")


@pytest.mark.parametrize("task", ["hate_speech", "social_bias", "gender_bias", "3i4k", "paws_ko"])
def test_their_scores_are_scikit_learn_s(task: str) -> None:
    benchmark, random = tasks.load(task), np.random.default_rng(0)
    assert isinstance(benchmark, SequenceClassification)
    for count in (3, 40, 2_000):
        gold, given = random.integers(len(benchmark.labels), size=(2, count)).tolist()
        examples = [Example(str(n), "말", target, pair="글") for n, target in enumerate(gold)]
        expected = {
            "accuracy": accuracy_score(gold, given),
            "macro_f1": f1_score(gold, given, average="macro"),
            "f1": f1_score(gold, given, zero_division=0) if len(benchmark.labels) == 2 else 0,
        }
        found = benchmark.score(examples, given, "official").values
        assert {n: found[n] for n in benchmark.measures} == {n: pytest.approx(100 * expected[n]) for n in benchmark.measures}


def test_kornli_trains_on_both_files_of_its_directory_and_on_nothing_else_there(tmp_path: Path) -> None:
    header, korean = "sentence1\tsentence2\tgold_label\n", tmp_path / "KorNLI"
    korean.mkdir()
    for name, text in {"multinli.train": "가", "snli_1.0_train": "나", "xnli.dev": "다", "xnli.test": "라"}.items():
        (korean / f"{name}.ko.tsv").write_text(f"{header}{text}\t마\tneutral\n", "utf-8")
    train = tasks.load("kornli").read(BenchmarkFile(korean))
    assert [(e.id, e.text) for e in train] == [("multinli.train.ko.tsv:2", "가"), ("snli_1.0_train.ko.tsv:2", "나")]
    assert [e.id for e in tasks.load("kornli").read(BenchmarkFile(korean / "xnli.dev.ko.tsv"))] == ["2"]


def test_korquad2_is_a_directory_of_pages(tmp_path: Path) -> None:
    def write(name: str, identifier: str, version: str = "KorQuAD_v2.1_dev") -> None:
        asked = {"id": identifier, "question": "?", "answer": {"text": "<b>나</b>", "answer_start": 2, "html_answer_start": 9}}
        page = {"title": "수", "url": "", "context": "가 <b>나</b>", "raw_html": "<html>", "qas": [asked]}
        (tmp_path / name).write_text(json.dumps({"version": version, "data": [page]}, ensure_ascii=False), "utf-8")

    write("korquad2.1_dev_10.json", "b")
    write("korquad2.1_dev_9.json", "a")
    first, second = tasks.load("korquad2").read(BenchmarkFile(tmp_path))
    assert first == Question("a", "?", (Answer("<b>나</b>", 2),), pair="가 <b>나</b>", article="korquad2.1_dev_9.json/0")
    assert second.id == "b"
    write("korquad2.1_dev_11.json", "a")
    with pytest.raises(ValueError, match=r"dev_11.json, line 1, field 'qas.0..id': 'a' is in .*dev_9.json, line 1 too"):
        tasks.load("korquad2").read(BenchmarkFile(tmp_path))
    write("korquad2.1_dev_11.json", "c", version="KorQuAD_v1.0_dev")
    with pytest.raises(
        ValueError, match=r"dev_11.json, line 1, field 'version': found 'KorQuAD_v1.0_dev'; KorQuAD2 comes from"
    ):
        tasks.load("korquad2").read(BenchmarkFile(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty: holds no .json file"):
        tasks.load("korquad2").read(BenchmarkFile(tmp_path / "empty"))


def test_linked_directories_are_read_as_they_are_digested(tmp_path: Path) -> None:
    header, kornli = "sentence1\tsentence2\tgold_label\n", tmp_path / "KorNLI"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kornli.mkdir()
    for directory, name in ((kornli, "multinli"), (elsewhere, "snli_1.0")):
        (directory / f"{name}.train.ko.tsv").write_text(f"{header}{name}\t마\tneutral\n", "utf-8")
    (kornli / "more").symlink_to(elsewhere)
    assert {e.text for e in tasks.load("kornli").read(BenchmarkFile(kornli))} == {"multinli", "snli_1.0"}
    (kornli / "again").symlink_to(elsewhere)
    with pytest.raises(ValueError, match=r"more/snli_1.0.train.ko.tsv: .*again/snli_1.0.train.ko.tsv has the same name; keep"):
        tasks.load("kornli").read(BenchmarkFile(kornli))
    race = tmp_path / "RACE"
    race.mkdir()
    for level in ("high", "middle"):
        (tmp_path / level).mkdir()
        text = {"article": "A.", "questions": ["Why?"], "options": [["a", "b", "c", "d"]], "answers": ["A"]}
        (tmp_path / level / "1.txt").write_text(json.dumps({**text, "id": f"{level}1.txt"}))
        (race / level).symlink_to(tmp_path / level)
    (race / "high" / "self").symlink_to(race)
    assert [e.id for e in tasks.load("race").read(BenchmarkFile(race))] == ["high1-0", "middle1-0"]
    (race / "lost.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        tasks.load("race").read(BenchmarkFile(race))


def test_files_in_utf_16_are_recognised_by_their_byte_order_mark(tmp_path: Path) -> None:
    for encoding, named in (("utf-16", "UTF-16"), ("utf-32", "UTF-32")):
        with pytest.raises(
            ValueError, match=f"the file is in {named}, as its byte order mark says: .*iconv -f {named} -t"
        ) as raised:
            read("nsmc", tmp_path / "a.txt", f"{NSMC_HEADER}1\t좋다\t1\n".encode(encoding))
        assert "CP949" not in str(raised.value)


def test_labels_in_another_unicode_normalisation_are_reported_as_such(tmp_path: Path) -> None:
    headline = {"guid": "y0", "title": "말", "label": unicodedata.normalize("NFD", "정치")}
    with pytest.raises(ValueError, match=r"field 'label': found .*, which is known only in another Unicode normalisation"):
        read("ynat", tmp_path / "a.json", json.dumps([headline]))
    with pytest.raises(ValueError, match=r"field 'label': found '정칙'; a label is one of"):
        read("ynat", tmp_path / "a.json", json.dumps([{**headline, "label": "정칙"}]))


def test_a_wide_blank_ends_no_sentence_of_klue(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2, field 'char': found '\\u3000'; a line is one character, a tab and its tag"):
        read("klue_ner", tmp_path / "a.tsv", "나\tO\n\u3000\n너\tO\n")


def test_questions_of_copa_in_another_unicode_normalisation_are_reported(tmp_path: Path) -> None:
    asked = unicodedata.normalize("NFD", "원인")
    with pytest.raises(ValueError, match=r"field 'question': found .*, which is known only in another Unicode normalisation"):
        read("kobest_copa", tmp_path / "a.tsv", f"ID\tsentence\tquestion\t1\t2\tAnswer\n0\t말\t{asked}\t가\t나\t1\n")


def test_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    content = "\ufeff" + (NSMC_HEADER + "1\t좋다\t1\n2\t별로\t0\n").replace("\n", "\r\n")
    assert [(e.text, e.target) for e in read("nsmc", tmp_path / "a.txt", content)] == [("좋다", 1), ("별로", 0)]


@pytest.mark.parametrize(
    ("task", "content", "message"),
    [
        ("nsmc", "document\tlabel\n", "line 1, field 'header': found 'document.tlabel'; the official file begins with id<TAB>"),
        ("nsmc", "", "line 1, field 'header'"),
        ("nsmc", NSMC_HEADER + "1\t좋다\t1\n2\t탭이\t둘\t0\n", "line 3, field 'label': 4 fields instead of 3; restore"),
        ("nsmc", NSMC_HEADER + "1\t좋다\n", "line 2, field 'document': 2 fields instead of 3"),
        ("nsmc", NSMC_HEADER + "1\t좋다\t1\n\n2\t별로\t0\n", "line 3, field 'id': the line is blank; remove it, or restore"),
        ("glue_cola", "gj04\t1\t\tA cat sat.\n\n", "line 2, field 'source': the line is blank; remove it, or give train.tsv"),
        ("3i4k", "0\t말\n \n", "line 2, field 'label': the line is blank; remove it, or give fci_train_val"),
        ("nsmc", NSMC_HEADER + "좋다\t1\t1\n", "line 2, field 'id': found '좋다' in place of a whole number; the columns"),
        ("glue_rte", "index\tsentence1\tsentence2\tlabel\n가\t0\t나\tentailment\n", "line 2, field 'index': found '가'"),
        ("nsmc", NSMC_HEADER + "1\t좋다\t긍정\n", "line 2, field 'label': found '긍정'; a label is one of 0 .negative."),
        ("nsmc", (NSMC_HEADER + "1\t좋다\t1\n").encode("cp949"), "line 2, field 'column 2': byte 0xc1 is no UTF-8; .*iconv"),
        ("nsmc", NSMC_HEADER + "1\t좋다\t1\n2\t별\0로\t0\n", "line 3, field 'column 2': holds a NUL byte.*; .*fetch it again"),
        ("korsts", STS_HEADER + "a\tb\t2012test\t0007\t0_3\te\tf\n", "line 2, field 'score': found '0_3'; a score is a number"),
        ("korsts", STS_HEADER + "a\tb\t2012test\t0007\t٣\te\tf\n", "line 2, field 'score': found '٣'; a score is a number"),
        ("korsts", STS_HEADER + "a\tb\t2012test\t0007\t5.1\te\tf\n", "line 2, field 'score': found '5.1'; a score is a number"),
        ("korsts", STS_HEADER + "a\tb\t2012test\t0007\tnan\te\tf\n", "field 'score': found 'nan'"),
        ("korsts", STS_HEADER + "a\tb\t2012test\t0007\t\te\tf\n", "field 'score': found ''"),
        ("korsts", STS_HEADER + "a\tb\t2012test\t0007\t1.0\te\n", "field 'sentence1': 6 fields instead of 7"),
    ],
)  # fmt: skip
def test_bad_lines_are_errors_that_name_file_line_field_and_remedy(
    tmp_path: Path, task: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(task, tmp_path / "bad.tsv", content)
    assert str(caught.value).startswith(str(tmp_path / "bad.tsv"))


def test_compressed_files_and_archive_members_read_like_plain_ones(tmp_path: Path) -> None:
    content = (NSMC_HEADER + "1\t좋다\t1\n").encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    with pa.output_stream(tmp_path / "a.txt.zst", compression="zstd") as stream:
        stream.write(content)
    with pa.output_stream(tmp_path / "all.tar.zst", compression="zstd") as stream:
        stream.write(tar({"nsmc/README": b"read me", "nsmc/a.txt": content}))
    files = [BenchmarkFile(tmp_path / name) for name in ("a.txt", "a.txt.gz", "a.txt.zst")]
    for file in [*files, BenchmarkFile(tmp_path / "all.tar.zst", "nsmc/a.txt")]:
        assert tasks.load("nsmc").read(file) == [Example("1", "좋다", 1)]
    with pytest.raises(ValueError, match=r"all.tar.zst::b: the archive has no such member; it holds nsmc/README, nsmc/a.txt"):
        BenchmarkFile(tmp_path / "all.tar.zst", "b").content()
    with pytest.raises(ValueError, match="an archive; name its member in the spec"):
        BenchmarkFile(tmp_path / "all.tar.zst").content()
    with pytest.raises(ValueError, match="not an archive; leave the member empty"):
        BenchmarkFile(tmp_path / "a.txt", "nsmc/a.txt").content()


@pytest.mark.parametrize("name", ["a.txt.zst", "a.txt.gz"])
def test_a_damaged_archive_is_reported_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this was never compressed")
    with pytest.raises(ValueError, match=f"{name}: cannot be read .* is the download complete"):
        BenchmarkFile(tmp_path / name).content()


def test_a_decompression_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_files, "MAX_BYTES", 1 << 20)
    (tmp_path / "bomb.txt.gz").write_bytes(gzip.compress(bytes(3 << 20)))
    with pytest.raises(ValueError, match="more than 1,048,576 bytes when decompressed"):
        BenchmarkFile(tmp_path / "bomb.txt.gz").content()


def test_archives_that_unfold_to_much_are_stopped_and_truncated_ones_say_where(tmp_path: Path) -> None:
    """A header of 3 GB was read into memory; members before the wanted one unfolded without a limit."""
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 3 << 30
    (tmp_path / "header.tar.gz").write_bytes(gzip.compress(header.tobuf() + bytes(1 << 20)))
    entry = tarfile.TarInfo("large")
    entry.size = 4 << 30
    with pa.output_stream(tmp_path / "large.tar.zst", compression="zstd") as stream:
        stream.write(entry.tobuf())
        for _ in range(20):
            stream.write(bytes(1 << 20))
    packed = zipped({"a.txt": "본문" * 1000}, zipfile.ZIP_STORED)
    (tmp_path / "whole.zip").write_bytes(packed)
    (tmp_path / "cut.zip").write_bytes(packed[:3000])
    assert BenchmarkFile(tmp_path / "whole.zip", "a.txt").text() == "본문" * 1000
    for name, message in (
        ("header.tar.gz", "byte 0: header_too_long; a header of 3,221,225,472 bytes"),
        ("large.tar.zst", "decompression_bomb; .* the limit is 8,000-fold"),
        ("cut.zip", "byte 29..: truncated_file"),
    ):
        with pytest.raises(ValueError, match=f"{name}::a.txt: cannot be read .*{message}"):
            BenchmarkFile(tmp_path / name, "a.txt").content()


def test_an_unknown_task_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no task 'klue' .*; known are 3i4k, .*, nsmc"):
        tasks.load("klue")


@pytest.mark.real
@pytest.mark.parametrize(("part", "rows", "empty", "positive"), [("train", 150_000, 5, 74_827), ("test", 50_000, 3, 25_173)])
def test_the_official_nsmc_has_its_rows_and_its_empty_reviews(
    real_data: Path, part: str, rows: int, empty: int, positive: int
) -> None:
    examples = tasks.load("nsmc").read(BenchmarkFile(real_data / f"benchmarks/nsmc_{part}.txt.zst"))
    assert len(examples) == rows == len({example.id for example in examples})
    assert sum(not example.text for example in examples) == empty
    assert {example.target for example in examples} == {0, 1}
    assert sum(example.target for example in examples) == positive
    assert max(len(example.text) for example in examples) < 160


@pytest.mark.real
def test_the_official_korsts_has_its_rows_quotes_and_repeated_pairs(real_data: Path) -> None:
    archive = real_data / "benchmarks/kornlu.tar.zst"
    parts = {
        part: tasks.load("korsts").read(BenchmarkFile(archive, f"kornlu/sts-{part}.tsv")) for part in ("train", "dev", "test")
    }
    assert [len(part) for part in parts.values()] == [5749, 1500, 1379]
    pairs = {part: [(e.text, e.pair) for e in examples] for part, examples in parts.items()}
    assert len(pairs["train"]) - len(set(pairs["train"])) == 49
    assert len(set(pairs["train"]) & set(pairs["dev"])) == 3
    assert len(set(pairs["dev"]) & set(pairs["test"])) == 3
    sentences = [sentence for part in pairs.values() for pair in part for sentence in pair]
    assert sum(str(sentence).startswith('"') for sentence in sentences) == 315
    for examples in parts.values():
        assert len({example.id for example in examples}) == len(examples)
        assert all(0 <= example.target <= 5 and example.text and example.pair for example in examples)
