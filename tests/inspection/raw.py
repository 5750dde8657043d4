"""Articles of which each shows one decision of cleaning or deduplication."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

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


ARTICLES = [
    _article("강가의 봄", f"&quot;봄이다&quot;\n{BODY}\n<script>alert(1)</script>\n무단 전재 및 재배포 금지"),
    _article("나룻배", LATER),
    _article("나룻배 그대로", LATER),
    _article("나룻배 조금 다르게", LATER.replace("아침", "저녁")),
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
