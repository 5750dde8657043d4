"""The languages of a text, by shares of its letters.

Korean, Japanese and Chinese are recognised by their script, line by line: only they have Hangul or kana, and Hanja among
Hangul, or with Korean particles and endings, are Korean. Lines in other scripts are ``other``, or identified by py3langid
(BSD license; 142 languages) if the recipe names one of their languages. Accuracy: ``bench/language.py``, docs/results.md.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

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
_ENDING = re.compile(f"(?<={_HAN.pattern})[가-힣]++(?!{_HAN.pattern})")
_VERB = re.compile("[하되한할된될함됨]")
_MIN_ENDING_SHARE = 0.6
"""A line with any number of Hanja is Korean if this share of its Hangul are particles and endings after Hanja
(大韓民國은 民主共和國이다). In Chinese that quotes Korean, most Hangul are words."""
_SCRIPTS = ("ko", "ja", "zh", "other")
_IDENTIFIED = (
    "af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr ht"
    " hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl nn no oc om or pa"
    " pl ps pt qu ro ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo wa xh yo zh zu"
)
"""Codes of two letters that py3langid 0.4.0 knows."""
_MIN_SCRIPT_SHARE = 0.3
"""Share of a line's letters in a script that makes the line Korean, Japanese or Chinese: "AI API를 쓴다" is Korean, an English
sentence that quotes one Korean name is not. A word takes about three times as many Latin letters as Hangul or kana."""


class Language(Spec):
    """The languages that a document must be in."""

    keep: Names = Field(default=("ko",), min_length=1)
    """ISO 639-1 codes; ``other`` is every script but those of ko, ja and zh. Any other code (``en``) needs py3langid."""
    min_share: float = Field(default=0.5, gt=0, le=1)
    """Minimum share of a document's letters in lines of these languages. Other documents, also those without letters, are
    dropped as ``language``."""

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
    """Return the share of the text's letters in lines of each language; empty for a text without letters.

    A Hangul syllable or Han character counts as one letter; those of addresses do not count. Without ``by_script``, py3langid
    identifies ``other``.
    """
    letters: Counter[str] = Counter()
    for line in without_addresses(text).split("\n"):
        hangul, kana, han = (len(script.findall(line)) for script in (_HANGUL, _KANA, _HAN))
        total = hangul + kana + han + sum(map(len, _OTHER.findall(line)))
        if not total:
            continue
        korean = hangul >= kana and hangul + han >= _MIN_SCRIPT_SHARE * total
        if hangul and korean and (hangul >= _MIN_SCRIPT_SHARE * (hangul + han) or _is_mixed(line, hangul)):
            language = "ko"
        elif kana and kana + han >= _MIN_SCRIPT_SHARE * total and kana >= 0.05 * (kana + han):
            language = "ja"
        elif han and han >= _MIN_SCRIPT_SHARE * total:
            language = "zh"
        else:
            language = "other" if by_script else str(_identifier().classify(line)[0])
        letters[language] += total
    every = letters.total()
    return {language: count / every for language, count in sorted(letters.items(), key=lambda item: (-item[1], item[0]))}


def _is_mixed(line: str, hangul: int) -> bool:
    """Return whether enough of a line's Hangul are particles and endings after Hanja."""
    endings = (ending for ending in _ENDING.findall(line) if _VERB.match(ending) or is_particle(ending))
    return sum(map(len, endings)) >= _MIN_ENDING_SHARE * hangul


def is_other_than_korean(shares: Mapping[str, float], spec: Language) -> bool:
    """Return whether most letters of a document are in another language that is kept: limits of Korean do not apply to it."""
    first = next(iter(shares), "ko")
    return first != "ko" and first in spec.keep


def wrong_language(shares: Mapping[str, float], spec: Language) -> Drop | None:
    """Return the drop ``language``, which names the most frequent language, or None."""
    share = sum(shares.get(language, 0.0) for language in spec.keep)
    if shares and share >= spec.min_share:
        return None
    first = next(iter(shares), "no letters")
    return Drop("language", f"{first}: {'+'.join(spec.keep)} {share:.3f} of letters < {spec.min_share}")


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 (an extra)

    return LanguageIdentifier.from_model_file(MODEL_FILE)
