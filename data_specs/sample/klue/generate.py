"""Writes the sample's KLUE files: ``python data_specs/sample/klue/generate.py`` rewrites them.

Every sentence is a template with words in its slots, so that labels, spans and trees are known. A slot is ``{PS}`` or
``{PS2}``: a kind of ``WORDS``, and a number where a sentence has several. The particle behind it, ``을/를``, follows its last
syllable. No sentence of a dev file is in a train file, and both hold the classes of a task in the same proportions.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

SEED = 20_221_201
_T = TypeVar("_T")
COUNTS = {
    "ynat": (56, 28),
    "sts": (96, 24),
    "nli": (48, 24),
    "ner": (48, 24),
    "re": (135, 45),
    "dp": (48, 24),
    "mrc": (12, 6),
}
"""Examples of the train and the dev file of each task; of MRC articles with four questions each."""

_WORDS = {
    "PS": "김나래, 이가람, 박다솜, 최하늘, 정한결, 오새롬, 윤슬기, 한바다, "
    "서도담, 강보라, 조아람, 임소라, 신마루, 장미르, 권나무, 문초롱",
    "LC": "가람시, 나래군, 솔향동, 다솜읍, 하늘마을, 미르산, 누리섬, 여울강, 단비항, 바람골",
    "OG": "가람전자, 누리은행, 미르건설, 다온식품, 새벽출판사, 한울자동차, 여울조선, 단비제약, 마루통신, 해솔항공",
    "SC": "가람대학교, 솔향고등학교, 누리중학교, 미르대학교",
    "UN": "가람상인회, 전국제빵협회, 누리경제연합, 해양산업협회",
    "DT": "1987년, 1994년 가을, 2003년 5월, 지난해 봄, 5월 4일, 지난 화요일, 2016년 3월, 이듬해 겨울",
    "TI": "오전 9시, 오후 3시 30분, 저녁 7시, 새벽 4시, 낮 12시, 밤 11시 10분",
    "QT": "28명, 320명, 1,500명, 열두 명, 스무 명, 86명, 7명, 450명",
    "PD": "달빛폰, 구름차, 햇살빵, 바람청소기, 은하수라면, 숲길비누",
    "BK": "겨울정원, 마지막우체국, 돌다리, 별의지도, 느린기차, 파란대문",
    "JB": "교수, 시장, 감독, 기자, 화가, 판사",
    "RL": "불교, 천주교, 개신교, 원불교",
    "NN": "달이, 들꽃, 작은새, 백로, 솔방울, 나그네",
    "TH": "사과, 편지, 그릇, 책, 우산, 지도, 감자, 모자, 사진, 빵",
    "RM": "마당, 시장, 부엌, 학교, 도서관, 강가, 역, 공원",
}
WORDS = {kind: words.split(", ") for kind, words in _WORDS.items()}
"""Words by kind: people, places, companies, schools, unions, dates, times, quantities, products, books, professions, religions,
pen names, things, places in a town."""

_PARTICLES = "은/는|이/가|을/를|과/와|으로/로|이다/다|이라고/라고"
_SLOT = re.compile(rf"\{{(\w+)\}}( ?)({_PARTICLES})?")


class Draw:
    """Random choices. Only ``random()`` of Python's generator gives the same numbers in every version."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(f"{SEED} {name}").random  # noqa: S311

    def one(self, of: Sequence[_T]) -> _T:
        """One of several."""
        return of[int(self._random() * len(of))]

    def other(self, than: _T, of: Sequence[_T]) -> _T:
        """One that is not ``than``."""
        return self.one([each for each in of if each != than])

    def words(self, template: str) -> dict[str, str]:
        """A word for each slot of a template, all of them different."""
        words: dict[str, str] = {}
        for slot, _, _ in _SLOT.findall(template):
            if slot not in words:
                words[slot] = self.one([word for word in WORDS[slot.rstrip("0123456789")] if word not in words.values()])
        return words


def with_particle(word: str, particles: str) -> str:
    """The form of ``particles`` ("을/를", after a consonant first) that ``word`` takes by its last syllable."""
    after_consonant, after_vowel = particles.split("/")
    final = (ord(word[-1]) - 0xAC00) % 28
    return after_vowel if final == 0 or (particles == "으로/로" and final == 8) else after_consonant


def filled(template: str, words: Mapping[str, str]) -> tuple[str, dict[str, tuple[int, int]]]:
    """A template with its words, and the characters [begin, end) of each slot's first place."""
    text, end = "", 0
    spans: dict[str, tuple[int, int]] = {}
    for found in _SLOT.finditer(template):
        slot, space, particles = found.groups()
        word = words[slot]
        text += template[end : found.start()]
        spans.setdefault(slot, (len(text), len(text) + len(word)))
        text += word + space + (with_particle(word, particles) if particles else "")
        end = found.end()
    return text + template[end:], spans


def written(template: str, words: Mapping[str, str]) -> str:
    """A template with its words."""
    return filled(template, words)[0]


TOPICS = {
    "정치": ("여야 국회 정당 시의회", "예산안 선거법 공약 개정안", ["표결 앞두고 공방", "합의 처리", "두고 토론"]),
    "경제": ("은행 증시 수출 물가", "금리 환율 실적 투자", ["두 달째 상승", "전망 낮춰", "시장 기대 커져"]),
    "사회": ("경찰 법원 소방서 주민", "화재 사고 재판 신고", ["원인 조사 착수", "현장 점검", "피해자 지원"]),
    "생활문화": ("미술관 연극 요리 축제", "전시 공연 여행 봄나물", ["주말 나들이 인기", "관객 맞이", "즐기는 방법"]),
    "세계": ("유엔 이웃나라 해외 대사관", "정상회담 난민 국경 협정", ["외신 일제히 보도", "국제 사회 우려", "현지서 서명"]),
    "IT과학": ("스마트폰 인공지능 위성 반도체", "신기술 앱 연구 센서", ["개발 성공", "공개 시연", "논문 발표"]),
    "스포츠": ("축구 야구 배구 수영", "대표팀 결승전 선수 감독", ["역전승 거둬", "시즌 첫 우승", "부상 복귀"]),
}
"""Of each topic who, what and what about it."""


def ynat(number: int, draw: Draw) -> dict[str, Any]:
    """A headline."""
    topic = list(TOPICS)[number % len(TOPICS)]
    who, what, about = TOPICS[topic]
    title = f"{draw.one(who.split())} {draw.one(what.split())} {draw.one(about)}"
    return {"title": title, "predefined_news_category": topic, "label": topic, "annotations": {}}


ACTS = [
    ("사과를 땄다", "사과를 수확했다"),
    ("편지를 썼다", "편지를 적었다"),
    ("책을 샀다", "책을 구입했다"),
    ("벽을 칠했다", "벽에 페인트를 발랐다"),
    ("시계를 고쳤다", "시계를 수리했다"),
    ("노래를 불렀다", "노래를 들려주었다"),
    ("빵을 구웠다", "빵을 만들었다"),
    ("낡은 배를 팔았다", "낡은 배를 넘겼다"),
]
"""What somebody did, in two ways."""

RATINGS = ([0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 2, 2, 2, 2], [3, 3, 3, 3, 3, 4, 4], [4, 5, 5, 5, 5, 5, 5])
"""Seven ratings by the number of parts (who, where, what) that two sentences have in common."""


def sts(number: int, draw: Draw) -> dict[str, Any]:
    """Two sentences with 0 to 3 parts in common."""
    alike = number % 4
    ratings = RATINGS[alike]
    parts: tuple[Sequence[Any], ...] = (WORDS["PS"], WORDS["RM"], ACTS)
    first = [draw.one(of) for of in parts]
    common = sorted(range(3), key=lambda _: draw.one(range(1000)))[:alike]
    second = [one if part in common else draw.other(one, parts[part]) for part, one in enumerate(first)]
    texts = [
        written(template, {"PS": who, "RM": where}) + f" {what[way]}."
        for way, (template, (who, where, what)) in enumerate(
            zip(("{PS}은/는 어제 {RM}에서", "어제 {RM}에서 {PS}이/가"), (first, second), strict=True)
        )
    ]
    mean = sum(ratings) / len(ratings)
    return {
        "source": "sample",
        "sentence1": texts[0],
        "sentence2": texts[1],
        "labels": {"label": round(mean, 1), "real-label": mean, "binary-label": int(mean >= 3)},
        "annotations": {
            "agreement": ":".join(str(ratings.count(rating)) for rating in range(6)),
            "annotators": [f"{annotator:02d}" for annotator in range(1, 8)],
            "annotations": ratings,
        },
    }


NLI = {
    "entailment": ("{PS}은/는 {RM}에 있었다.", "{RM}에 간 사람이 있었다."),
    "contradiction": ("{PS}은/는 {RM}에 가지 않았다.", "{RM}에는 아무도 없었다."),
    "neutral": ("{PS}은/는 날마다 {RM}에 간다.", "{PS2}이/가 {PS}을/를 {RM}까지 따라갔다."),
}


def nli(number: int, draw: Draw) -> dict[str, Any]:
    """A premise and what follows from it, contradicts it, or neither."""
    label = list(NLI)[number % len(NLI)]
    words = draw.words("{PS}{PS2}{RM}{DT}")
    premise = written("{PS}은/는 {DT} {RM}에서", words) + f" {draw.one(ACTS)[0]}."
    votes = dict.fromkeys(("author", "label2", "label3", "label4", "label5"), label)
    hypothesis = written(draw.one(NLI[label]), words)
    return {"source": "sample", "premise": premise, "hypothesis": hypothesis, "gold_label": label, **votes}


NER = (
    "{OG} 대표 {PS}은/는 {DT} {LC}을/를 찾았다.",
    "행사는 {DT} {TI} {LC}에서 열렸고 {QT}이 참가했다.",
    "{PS} 교수와 {PS2} 연구원은 {TI}까지 자료를 살폈다.",
    "{OG}은/는 {LC}에 공장을 짓고 {QT}을 새로 뽑기로 했다.",
    "경찰은 {TI}쯤 {LC}에서 길을 잃은 {QT}을 구했다고 밝혔다.",
    "{SC} 학생 {QT}은 {DT} {OG}을/를 견학했다.",
    "비가 그치자 아이들은 마당으로 뛰어나갔다. {PS}도 따라 나갔다.",
    "{DT} 문을 연 {LC} 도서관에는 하루 {QT}이 드나든다.",
)
"""A slot's kind is its tag, but that a school is an organisation."""


def ner(number: int, draw: Draw) -> tuple[str, list[str]]:
    """A sentence with its entities marked, and its lines."""
    template = NER[number % len(NER)]
    text, spans = filled(template, draw.words(template))
    tags = ["O"] * len(text)
    marked = text
    for slot, (begin, end) in sorted(spans.items(), key=lambda item: -item[1][0]):
        kind = "OG" if slot == "SC" else slot[:2]
        tags[begin:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - begin - 1)]
        marked = f"{marked[:begin]}<{marked[begin:end]}:{kind}>{marked[end:]}"
    return marked, [f"{character}\t{tag}" for character, tag in zip(text, tags, strict=True)]


TYPES = {"PS": "PER", "LC": "LOC", "OG": "ORG", "SC": "ORG", "UN": "ORG", "DT": "DAT", "QT": "NOH"}
"""Types of entities in KLUE-RE by kind of slot; of all others POH."""

FREQUENT = (
    ("no_relation", "{PS:s}은/는 {LC:o} 소식을 신문에서 읽고 잠이 들었다."),
    ("per:title", "{PS:s} {JB:o}은/는 회의에서 인사말을 했다."),
    ("org:top_members/employees", "{OG:s} 대표이사 {PS:o}은/는 올해 실적을 발표했다."),
    ("per:employee_of", "{PS:s}은/는 {OG:o}에 입사하여 회사원으로 일한다."),
    ("org:product", "{OG:s}은/는 새 제품 {PD:o}을/를 출시했다."),
    ("no_relation", "{OG:s} 앞 길가에서 {PS:o}이/가 우산을 펼쳤다."),
    ("per:title", "{JB:o} {PS:s}은/는 질문에 짧게 대답했다."),
    ("org:top_members/employees", "{OG:s}의 사장으로 {PS:o}이/가 뽑혔다."),
    ("per:employee_of", "{OG:o} 직원 {PS:s}은/는 휴가를 떠났다."),
    ("org:product", "{PD:o}은/는 {OG:s}의 대표 상품이다."),
)
"""The classes of Chameleon's Table 10 and no_relation: subject ``:s``, object ``:o``."""

RARE = (
    ("org:dissolved", "{OG:s}은/는 {DT:o} 문을 닫고 해산했다."),
    ("org:founded", "{OG:s}은/는 {DT:o} 처음 설립되었다."),
    ("org:place_of_headquarters", "{OG:s}의 본사는 {LC:o}에 있다."),
    ("org:alternate_names", "{OG:s}은/는 예전에 {OG2:o}이라고/라고 불렸다."),
    ("org:member_of", "{OG:s}은/는 {UN:o}에 회원사로 가입했다."),
    ("org:members", "{UN:s}에는 {OG:o}을/를 비롯한 여러 회사가 속해 있다."),
    ("org:political/religious_affiliation", "{SC:s}은/는 {RL:o} 재단이 세운 학교이다."),
    ("org:founded_by", "{OG:s}은/는 {PS:o}이/가 창립한 회사이다."),
    ("org:number_of_employees/members", "{OG:s}의 직원은 모두 {QT:o}이다."),
    ("per:date_of_birth", "{PS:s}은/는 {DT:o}에 태어났다."),
    ("per:date_of_death", "{PS:s}은/는 {DT:o}에 세상을 떠났다."),
    ("per:place_of_birth", "{PS:s}이/가 태어난 곳은 {LC:o}이다/다."),
    ("per:place_of_death", "{PS:s}은/는 {LC:o}에서 숨을 거두었다."),
    ("per:place_of_residence", "{PS:s}은/는 지금 {LC:o}에 살고 있다."),
    ("per:origin", "{PS:s}은/는 {LC:o} 출신으로 알려져 있다."),
    ("per:schools_attended", "{PS:s}은/는 {SC:o}을/를 졸업했다."),
    ("per:alternate_names", "{PS:s}의 필명은 {NN:o}이다/다."),
    ("per:parents", "{PS:s}의 아버지는 {PS2:o}이다/다."),
    ("per:children", "{PS:s}의 딸 {PS2:o}은/는 올해 학교에 들어갔다."),
    ("per:siblings", "{PS:s}의 동생은 {PS2:o}이다/다."),
    ("per:spouse", "{PS:s}은/는 {PS2:o}과/와 결혼했다."),
    ("per:other_family", "{PS:s}의 고모 {PS2:o}은/는 과일 가게를 한다."),
    ("per:colleagues", "{PS:s}은/는 동료 {PS2:o}과/와 함께 논문을 썼다."),
    ("per:product", "{PS:s}은/는 장편 소설 {BK:o}을/를 썼다."),
    ("per:religion", "{PS:s}은/는 {RL:o} 신자이다."),
)
RELATIONS = [*FREQUENT * 2, *RARE]


def relation(number: int, draw: Draw) -> dict[str, Any]:
    """A sentence with two entities and their relation."""
    label, roles = RELATIONS[number % len(RELATIONS)]
    template = re.sub(r":[so]\}", "}", roles)
    text, spans = filled(template, draw.words(template))
    entities = {}
    for field, role in (("subject_entity", "s"), ("object_entity", "o")):
        [slot] = re.findall(rf"\{{(\w+):{role}\}}", roles)
        begin, end = spans[slot]
        named = {"word": text[begin:end], "start_idx": begin, "end_idx": end - 1, "type": TYPES.get(slot[:2], "POH")}
        entities[field] = named
    return {"sentence": text, **entities, "label": label, "source": "sample"}


TREES = (
    """{PS}은/는 | {PS} 은/는 | NNP+JX | 3 | NP_SBJ
    {TH}을/를 | {TH} 을/를 | NNG+JKO | 3 | NP_OBJ
    찾았다. | 찾 았 다 . | VV+EP+EF+SF | 0 | VP""",
    """작은 | 작 은 | VA+ETM | 2 | VP_MOD
    아이가 | 아이 가 | NNG+JKS | 5 | NP_SBJ
    새 | 새 | MMA | 4 | DP
    {TH}을/를 | {TH} 을/를 | NNG+JKO | 5 | NP_OBJ
    골랐다. | 고르 았 다 . | VV+EP+EF+SF | 0 | VP""",
    """{PS}이/가 | {PS} 이/가 | NNP+JKS | 4 | NP_SBJ
    {RM}에서 | {RM} 에서 | NNG+JKB | 4 | NP_AJT
    {TH}을/를 | {TH} 을/를 | NNG+JKO | 4 | NP_OBJ
    씻었다. | 씻 었 다 . | VV+EP+EF+SF | 0 | VP""",
    """{PS}의 | {PS} 의 | NNP+JKG | 2 | NP_MOD
    형은 | 형 은 | NNG+JX | 3 | NP_SBJ
    의사이다. | 의사 이 다 . | NNG+VCP+EF+SF | 0 | VNP""",
    """{PS}과/와 | {PS} 과/와 | NNP+JC | 2 | NP_CNJ
    {PS2}은/는 | {PS2} 은/는 | NNP+JX | 5 | NP_SBJ
    매우 | 매우 | MAG | 4 | AP
    빨리 | 빨리 | MAG | 5 | AP
    걸었다. | 걷 었 다 . | VV+EP+EF+SF | 0 | VP""",
    """비가 | 비 가 | NNG+JKS | 2 | NP_SBJ
    와서 | 오 아서 | VV+EC | 5 | VP
    {RM}의 | {RM} 의 | NNG+JKG | 4 | NP_MOD
    {TH}이/가 | {TH} 이/가 | NNG+JKS | 5 | NP_SBJ
    젖었다. | 젖 었 다 . | VV+EP+EF+SF | 0 | VP""",
    """할머니가 | 할머니 가 | NNG+JKS | 2 | NP_SBJ
    만든 | 만들 ㄴ | VV+ETM | 3 | VP_MOD
    {TH}은/는 | {TH} 은/는 | NNG+JX | 5 | NP_SBJ
    {RM}에 | {RM} 에 | NNG+JKB | 5 | NP_AJT
    있다. | 있 다 . | VA+EF+SF | 0 | VP""",
    """의사인 | 의사 이 ㄴ | NNG+VCP+ETM | 2 | VNP_MOD
    {PS}은/는 | {PS} 은/는 | NNP+JX | 4 | NP_SBJ
    {LC}에 | {LC} 에 | NNP+JKB | 4 | NP_AJT
    산다. | 살 ㄴ다 . | VV+EF+SF | 0 | VP""",
    """{PS}은/는 | {PS} 은/는 | NNP+JX | 4 | NP_SBJ
    눈이 | 눈 이 | NNG+JKS | 3 | NP_SBJ
    온다고 | 오 ㄴ다고 | VV+EC | 4 | VP_CMP
    말했다. | 말하 았 다 . | VV+EP+EF+SF | 0 | VP""",
    """{PS}은/는 | {PS} 은/는 | NNP+JX | 3 | NP_SBJ
    선생님이 | 선생님 이 | NNG+JKC | 3 | NP_CMP
    되었다. | 되 었 다 . | VV+EP+EF+SF | 0 | VP""",
    """그 | 그 | MMD | 2 | DP
    {TH}과/와 | {TH} 과/와 | NNG+JC | 3 | NP_CNJ
    {TH2}은/는 | {TH2} 은/는 | NNG+JX | 5 | NP_SBJ
    {PS}의 | {PS} 의 | NNP+JKG | 5 | NP_MOD
    것이다. | 것 이 다 . | NNB+VCP+EF+SF | 0 | VNP""",
    """{PS}이/가 | {PS} 이/가 | NNP+JKS | 4 | NP_SBJ
    {LC}으로/로 | {LC} 으로/로 | NNP+JKB | 3 | NP_AJT
    떠났음을 | 떠나 았 음 을 | VV+EP+ETN+JKO | 4 | VP_OBJ
    알렸다. | 알리 었 다 . | VV+EP+EF+SF | 0 | VP""",
)
"""Of each word WORD_FORM, LEMMA, POS, HEAD and DEPREL."""


def tree(number: int, draw: Draw) -> tuple[str, list[str]]:
    """A sentence, and a line for each of its words."""
    template = TREES[number % len(TREES)]
    words = draw.words(template)
    lines = [
        "\t".join([str(index), *(written(field, words) for field in row.strip().split(" | "))])
        for index, row in enumerate(template.split("\n"), start=1)
    ]
    return " ".join(line.split("\t")[1] for line in lines), lines


ARTICLES = (
    (
        "{OG}은/는 {DT} {LC}에 세워졌다. 이 회사를 세운 사람은 {PS}이다/다. 지금은 직원 {QT}이 일하고, 문은 {TI}에 연다.",
        (1, "{OG}이/가 세워진 때는 언제인가?", "DT"),
        (2, "{LC}에 세워진 회사를 창립한 사람은 누구인가?", "PS"),
        (1, "{OG}에서 일하는 직원은 몇 명인가?", "QT"),
        (3, "{OG}이/가 올해 번 돈은 얼마인가?", "QT"),
    ),
    (
        "{PS}은/는 {LC}에서 태어나 {SC}을/를 졸업했다. {DT}에 소설 {BK}을/를 펴냈고, 출판 행사에는 독자 {QT}이 왔다.",
        (1, "{PS}이/가 태어난 곳은 어디인가?", "LC"),
        (1, "{PS}이/가 졸업한 학교는 어디인가?", "SC"),
        (2, "{LC}에서 태어난 작가가 펴낸 소설은 무엇인가?", "BK"),
        (3, "{PS}의 배우자는 누구인가?", "SC"),
    ),
)
"""A context, and questions of three types about it: paraphrased, of several sentences, without any but a plausible answer."""


def article(number: int, draw: Draw) -> dict[str, Any]:
    """A context with its questions."""
    template, *asked = ARTICLES[number % len(ARTICLES)]
    words = draw.words(template)
    context, spans = filled(template, words)
    questions = []
    for kind, question, slot in asked:
        begin, end = spans[slot]
        answers, none = [{"text": context[begin:end], "answer_start": begin}], kind == 3
        found = {"question": written(question, words), "question_type": kind, "is_impossible": none}
        answered = {"answers": [], "plausible_answers": answers} if none else {"answers": answers}
        questions.append(found | answered)
    return {"title": words[next(iter(spans))], "source": "sample", "paragraphs": [{"context": context, "qas": questions}]}


def numbered(task: str, make: Callable[[int, Draw], Any]) -> Iterator[tuple[str, list[Any]]]:
    """The parts of a task with their examples, no two of them alike."""
    draw = Draw(task)
    seen: set[str] = set()
    for part, count in zip(("train", "dev"), COUNTS[task], strict=True):
        examples: list[Any] = []
        while len(examples) < count:
            example = make(len(examples), draw)
            if str(example) not in seen:
                seen.add(str(example))
                examples.append(example)
        yield part, examples


def _listed(records: Sequence[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "\n]\n"


def files() -> dict[str, str]:
    """Name → content of every file."""
    made = {}
    for task, make in (("ynat", ynat), ("sts", sts), ("nli", nli), ("re", relation)):
        for part, records in numbered(task, make):
            named = [{"guid": f"sample-{task}_{part}_{number:05d}"} | record for number, record in enumerate(records)]
            made[f"{task}_{part}.json"] = _listed(named)
    for task, units, columns in (("ner", ner, "CHAR\tNE_TAG"), ("dp", tree, "INDEX\tWORD_FORM\tLEMMA\tPOS\tHEAD\tDEPREL")):
        for part, sentences in numbered(task, units):
            blocks = [f"## 컬럼명 : {columns}\n"]
            for number, (title, lines) in enumerate(sentences):
                blocks.append("\n".join([f"## sample-{task}_{part}_{number:05d}\t{title}", *lines]) + "\n\n")
            made[f"{task}_{part}.tsv"] = "".join(blocks)
    for part, articles in numbered("mrc", article):
        questions = [question for found in articles for question in found["paragraphs"][0]["qas"]]
        for number, question in enumerate(questions):
            question["guid"] = f"sample-mrc_{part}_{number:05d}"
        made[f"mrc_{part}.json"] = f'{{"version": "sample-mrc_{part}", "data": {_listed(articles).rstrip()}}}\n'
    return made


if __name__ == "__main__":
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content, encoding="utf-8")
