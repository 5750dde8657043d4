"""Any number of Korean sentences and documents, put together from our own words."""

from __future__ import annotations

import random
from pathlib import Path

from korealbert.artifact import Artifact, Runtime, Spec, Stage, build
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard, sum_stats

NOUNS = (
    *("민지", "할머니", "목수", "시장", "연구원", "고양이", "선생님", "동생", "기관사", "아이들", "학교", "강가", "도서관"),
    *("광장", "부엌", "바닷가", "기차", "뒷산", "편지", "지도", "사과", "공유기", "자전거", "봄노래", "밥상", "그림책"),
    *("별자리", "씨앗", "우체국", "은하수", "빨래터", "골목길", "손전등", "나침반", "항아리", "축제(祝祭)", "Wi-Fi", "빗소리"),
    *("다락방", "징검다리"),
)
PARTICLES = ("은", "를", "에서", "에게", "까지", "처럼", "의", "도", "만", "부터", "과", "보다")
STEMS = (
    *("찾", "고치", "나누", "그리", "잃", "살피", "보내", "기다리", "심", "빌리", "씻", "접", "두드리", "헤아리", "묶", "펼치"),
)
ENDINGS = (
    *("었다", "고 말았다", "지 않았다", "겠습니다", "는 중이다", "자마자 웃었다", "려고 했다", "던 참이었다", "기 시작했다"),
    "느라 늦었다",
)
CLOSINGS = (".", ".", ".", "!", "?", "…", ", 그랬다고 한다.")


def sentence(dice: random.Random) -> str:
    """Return one sentence of our own words; its grammar may be odd."""
    words = [dice.choice(NOUNS) + dice.choice(PARTICLES) for _ in range(dice.randint(1, 6))]
    if dice.random() < 0.3:
        words.insert(
            0, dice.choice((f"{dice.randint(1, 31)}일", f"{dice.randint(1990, 2024)}년에", f"1,{dice.randint(100, 999)}개"))
        )
    if dice.random() < 0.2:
        words.append(f'"{dice.choice(NOUNS)}"')
    return " ".join(words) + f" {dice.choice(STEMS)}{dice.choice(ENDINGS)}{dice.choice(CLOSINGS)}"


def sentences(count: int, seed: int = 1) -> list[str]:
    """Return some sentences, the same for the same seed."""
    dice = random.Random(seed)  # noqa: S311
    return [sentence(dice) for _ in range(count)]


def documents(count: int, seed: int = 1, source: str = "stories") -> list[Document]:
    """Documents of 1 to 25 sentences, one a line, some lines blank."""
    dice = random.Random(seed)  # noqa: S311
    made = []
    for number in range(count):
        lines = [sentence(dice) + "\n" * dice.choice((0, 0, 0, 1)) for _ in range(dice.randint(1, 25))]
        made.append(Document(document_id(source, f"{seed}/{number}"), source, "\n".join(lines).strip(), title=f"{number}"))
    return made


class TextSpec(Spec):
    """How many documents to make."""

    shards: int = 2
    documents_per_shard: int = 60


def _write(spec: TextSpec, inputs: object, out_dir: Path, runtime: Runtime) -> dict[str, object]:
    parts = []
    for index in range(spec.shards):
        with DocumentShard(out_dir, index) as shard:
            for document in documents(spec.documents_per_shard, seed=index, source=("stories", "letters")[index % 2]):
                shard.keep(document)
        parts.append(shard.stats)
    return sum_stats(parts)


TEXTS = Stage("texts", version=1, spec=TextSpec, run=_write)


def text_artifact(store: Path, spec: TextSpec | None = None) -> Artifact:
    """Build documents as the stage before the vocabulary would."""
    return build(TEXTS, spec or TextSpec(), {}, Runtime(store=store, workers=1)).artifact
