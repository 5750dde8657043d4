"""The languages of a text, by shares of its letters; one of Hangul, kana or Han weighs as much as three others.

Korean, Japanese and Chinese are recognised by their script, line by line: only they have Hangul or kana, and Hanja among
Hangul, or foreign words with Korean particles and endings, are Korean. Lines in other scripts are code, or ``other``, or
identified by py3langid (BSD license; 142 languages) if the recipe names one of their languages. Accuracy:
``bench/language.py``, docs/results.md.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from korealbert.artifact import Names, Spec
from korealbert.corpus.particles import is_particle
from korealbert.documents.schema import Drop

_HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]")
_KANA = re.compile("[\u3041-\u309f\u30a1-\u30fa\uff66-\uff9d]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_OTHER = re.compile("[^\\W\\d_\u1100-\u11ff\u3041-\u30fa\u3131-\u318e\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]+")
_ADDRESS = re.compile(
    r"(?:(?:https?|ftp)://|www\.)[!-~]*+|(?<![\w.-])(?>(?:[A-Za-z0-9-]++\.)+)[A-Za-z]{2,}/[!-~]*+"
    r"|(?<![\w.%+-])[A-Za-z0-9._%+-]++@(?>(?:[A-Za-z0-9-]++\.?)+)",
    re.IGNORECASE,
)
"""Matches URLs, hosts with a path, and e-mail addresses, up to the particle that may follow."""
_ENDING = re.compile(f"(?:(?<={_HAN.pattern})|(?<=[A-Za-z])|(?<=[A-Za-z] ))[가-힣]++(?!{_HAN.pattern})")
_VERB = re.compile("[하되한할해했된될돼됐함됨]")
_MIN_ENDING_SHARE = 0.6
"""A line with any number of Hanja or Latin words is Korean if this share of its Hangul are particles and endings after them
(大韓民國은 民主共和國이다; PR 을 review 했다). In Chinese and English that quote Korean, most Hangul are words."""
_SCRIPTS = ("ko", "ja", "zh", "other")
_IDENTIFIED = (
    "af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr ht"
    " hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl nn no oc om or pa"
    " pl ps pt qu ro ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo wa xh yo zh zu"
)
"""Codes of two letters that py3langid 0.4.0 knows."""
_SYLLABLE_WEIGHT = 3
"""Weight of a Hangul syllable, kana or Han character; a letter of an alphabet weighs 1. These are the bytes of Korean and
English in UTF-8. A Korean sentence of KorSTS has 2.2 letters a syllable in English (median of 14,497; 93 % have fewer than 3),
so Korean with its English translation is Korean to more than a half."""
_MIN_SCRIPT_SHARE, _MIN_MIXED_SHARE = 0.5, 0.3
"""Share of a line's weight in a script that makes the line Korean, Japanese or Chinese: "AI API를 쓴다" is Korean, an English
sentence that quotes a Korean name is not. The second is for lines with Korean particles and endings after foreign words."""
_MIN_HANGUL_AMONG_HANJA = 0.3
"""Share of Hangul among Hangul and Hanja that makes a line Korean."""
_MIN_LINE, _MIN_KNOWN = 40, 20
"""Lines in other scripts with fewer letters are identified together, those of one script; if they have fewer than the second
number together, they do not count. py3langid takes "Hello" for Breton."""
_FENCE = re.compile(r"\s*(```|~~~)([^`~]*)")
_CODE_MARK = re.compile(r"[{}\[\]<>=;_|\\*+~^@#`]|\((?<=\w\()")
_MIN_CODE_MARKS = 0.05
"""Share of these marks among a line's characters, without blanks, that makes it code: 0.1 % of English lines have it, and about
80 % of lines of C, without comments. Where half of the short lines of a run have any, all of these are code."""


class Language(Spec):
    """The languages that a document must be in."""

    keep: Names = Field(default=("ko",), min_length=1)
    """ISO 639-1 codes; ``other`` is every script but those of ko, ja and zh. Any other code (``en``) needs py3langid."""
    min_share: float = Field(default=0.5, gt=0, le=1)
    """Minimum share of a document's letters in lines of these languages. A syllable of Hangul or kana and a Han character weigh
    as much as three letters; code and addresses do not count. Other documents, also those without letters, are dropped as
    ``language``."""

    @field_validator("keep")
    @classmethod
    def _codes(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for code in codes:
            if code not in _SCRIPTS and not re.fullmatch("[a-z]{2}", code):
                raise ValueError(f"{code!r} is no ISO 639-1 code in lower case (ko, en, …), nor 'other'")
            if code not in _SCRIPTS and code not in _IDENTIFIED.split():
                raise ValueError(f"{code!r} is no language that py3langid identifies: {_IDENTIFIED}")
        if "other" in codes and not set(codes) <= set(_SCRIPTS):
            raise ValueError("'other' means all languages but ko, ja and zh; name it, or single ones of them")
        return codes

    @property
    def by_script(self) -> bool:
        """Whether scripts alone distinguish these languages from others."""
        return set(self.keep) <= set(_SCRIPTS)


class LanguageMissing(ValueError):
    """py3langid is not installed."""


def check_languages(spec: Language | None) -> None:
    """Raise LanguageMissing if a spec needs py3langid and it is not installed."""
    if spec is None or spec.by_script:
        return
    if importlib.util.find_spec("py3langid") is None:
        raise LanguageMissing(
            f"language.keep = {list(spec.keep)}: py3langid distinguishes languages of one script, and is not installed; install"
            " the extra with `pip install 'korealbert[language]'`, or keep only ko, ja, zh and other"
        )


def without_addresses(text: str) -> str:
    """Return the text without URLs and e-mail addresses, which are in no language."""
    return _ADDRESS.sub("", text) if "/" in text or "@" in text or "www." in text else text


def language_shares(text: str, *, by_script: bool = True) -> dict[str, float]:
    """Return the share of each language in a text, by the weights of the letters of its lines; empty without letters.

    Addresses do not count. Code, and a few words whose language cannot be known, do not count if there is anything else.
    Without ``by_script``, py3langid identifies ``other``; the shares of ko, ja and zh are the same.
    """
    lines = [_by_script(line) for line in without_addresses(text).split("\n")]
    weights, foreign, code = Counter[str](), list[_Line](), 0
    for line in lines:
        if line.language not in ("", "other"):
            weights[line.language] += line.weight
    for fenced, run in _runs(lines):
        marks = [_code_marks(line.text) for line in run]
        short = [share > 0 for line, share in zip(run, marks) if line.letters < _MIN_LINE]
        among_code = 2 * sum(short) >= len(short)
        for line, share in zip(run, marks):
            if fenced or share >= _MIN_CODE_MARKS or (among_code and line.letters < _MIN_LINE):
                code += line.weight
            else:
                foreign.append(line)
    known, unknown = _groups(foreign)
    for group in known or ([] if weights else unknown):
        language = "other" if by_script else str(_identifier().classify("\n".join(line.text for line in group))[0])
        weights[language] += sum(line.weight for line in group)
    if not weights and code:
        weights["other"] = code
    every = weights.total()
    return {language: count / every for language, count in sorted(weights.items(), key=lambda item: (-item[1], item[0]))}


class _Line(NamedTuple):
    text: str
    language: str
    """ko, ja, zh or other by its script, or an empty string without letters."""
    letters: int
    """Number of letters of other scripts."""
    weight: int
    """Weight of all letters."""


def _runs(lines: Sequence[_Line]) -> Iterator[tuple[bool, list[_Line]]]:
    """Yield whether lines are fenced, and runs of those that their script does not identify."""
    marks = [_FENCE.fullmatch(line.text) for line in lines]
    last_fence = {mark[1]: number for number, mark in enumerate(marks) if mark and not mark[2].strip()}
    fence, run = "", list[_Line]()
    for number, (line, mark) in enumerate(zip(lines, marks if last_fence else repeat(None))):
        if line.language == "other" and not mark:
            run.append(line)
            continue
        if run and (line.weight or mark):  # blank lines and lines of brackets are within code
            yield bool(fence), run
            run = []
        if mark and fence:
            fence = "" if mark[1] == fence and not mark[2].strip() else fence
        elif mark and number < last_fence.get(mark[1], -1):
            fence = mark[1]
    if run:
        yield bool(fence), run


def _by_script(line: str) -> _Line:
    hangul, kana, han = (len(script.findall(line)) for script in (_HANGUL, _KANA, _HAN))
    letters = sum(map(len, _OTHER.findall(line)))
    weight = _SYLLABLE_WEIGHT * (hangul + kana + han) + letters
    korean = _SYLLABLE_WEIGHT * (hangul + han) / weight if hangul >= kana and hangul else 0.0
    language = "other" if weight else ""
    mostly = korean >= _MIN_SCRIPT_SHARE and hangul >= _MIN_HANGUL_AMONG_HANJA * (hangul + han)
    if mostly or (korean >= _MIN_MIXED_SHARE and _is_mixed(line, hangul)):
        language = "ko"
    elif kana and _SYLLABLE_WEIGHT * (kana + han) >= _MIN_SCRIPT_SHARE * weight and kana >= 0.05 * (kana + han):
        language = "ja"
    elif han and _SYLLABLE_WEIGHT * han >= _MIN_SCRIPT_SHARE * weight:
        language = "zh"
    return _Line(line, language, letters, weight)


def _is_mixed(line: str, hangul: int) -> bool:
    """Return whether enough of a line's Hangul are particles and endings after Hanja and Latin letters."""
    endings = (ending for ending in _ENDING.findall(line) if _VERB.match(ending) or is_particle(ending))
    return sum(map(len, endings)) >= _MIN_ENDING_SHARE * hangul


def _code_marks(line: str) -> float:
    """Return the share of code's marks among a line's characters without blanks; 0 if it has other letters than ASCII."""
    marks = len(_CODE_MARK.findall(line))
    return marks / len("".join(line.split())) if marks and "".join(_OTHER.findall(line)).isascii() else 0.0


def _groups(lines: Iterable[_Line]) -> tuple[list[list[_Line]], list[list[_Line]]]:
    """Return long lines by themselves and short ones by script, those of known and those of unknown language."""
    known, short = list[list[_Line]](), dict[str, list[_Line]]()
    for line in lines:
        if line.letters >= _MIN_LINE:
            known.append([line])
        else:
            found = _OTHER.search(line.text)
            script = unicodedata.name(found[0][0], "").partition(" ")[0] if found else ""
            short.setdefault(script, []).append(line)
    unknown = list[list[_Line]]()
    for group in short.values():
        (known if sum(line.letters for line in group) >= _MIN_KNOWN else unknown).append(group)
    return known, unknown


def is_other_than_korean(shares: Mapping[str, float], spec: Language) -> bool:
    """Return whether most letters of a document are in another language that is kept: limits of Korean do not apply to it."""
    first = next(iter(shares), "ko")
    return first != "ko" and first in spec.keep


_ROUNDING = 1e-9
"""Error of a sum of shares."""


def wrong_language(shares: Mapping[str, float], spec: Language) -> Drop | None:
    """Return the drop ``language``, which names the most frequent language, or None."""
    share = sum(shares.get(language, 0.0) for language in spec.keep)
    if shares and share >= spec.min_share - _ROUNDING:
        return None
    first = next(iter(shares), "no letters")
    return Drop("language", f"{first}: {'+'.join(spec.keep)} {share:.3f} of letters < {spec.min_share}")


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 (an extra)

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(set(identifier.nb_classes) - {"ko", "ja", "zh"})  # which scripts identify
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc)  # Rows are read: a third faster.
    return identifier
