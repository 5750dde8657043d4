"""Accuracy and speed of the language identifier of stage `clean`, beside the packages that are installed.

python -m bench.language DATA [--texts 400] [--catalogs /usr/share/locale]: ``DATA`` is the folder of the real corpora. The
texts have about 300 or about 60 characters. They are Korean (encyclopedia, reviews, sentences with many Hanja), Japanese,
Chinese, English, German and French (Wikipedia), Korean in Latin letters (Revised Romanisation), and messages from the system's
catalogs. Accuracy is the share of texts whose first language is right. ``scripts`` knows ko, ja and zh; for other languages it
is right to say that it is another. For romanised Korean, accuracy is the share that is not taken for Korean. Then the mean
error of the share of Korean in texts of Korean and English paragraphs, the documents of each genre that ``keep = ["ko"]``
drops, and documents of 1,500 characters per second on one core. Packages that are not installed are left out.
"""

from __future__ import annotations

import gettext
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.common import documents, options
from bench.filters import GENRES, prose
from korealbert.corpus.clean.filters import hangul_share
from korealbert.corpus.clean.language import Language, language_shares, wrong_language
from korealbert.corpus.readers.spec import ExtractSpec

LANGUAGES = ("ja", "zh", "en", "de", "fr")
CATALOGS = ("es", "pt", "it", "nl", "pl", "cs", "ru", "uk", "tr", "vi", "id", "sv", "fi", "hu", "el", "ar", "th", "he")
Identify = Callable[[str], str]


def texts_in(data: Path, archive: str, **table: Any) -> list[str]:
    """Return the texts of one archive of the real corpora."""
    paths = [str(data / "corpus" / f"{archive}.tar.zst")]
    spec = ExtractSpec.model_validate({"source": "bench", "paths": paths, **table})
    return [document.text for document in documents(spec)]


def pieces(texts: Iterable[str], characters: int) -> Iterable[str]:
    """Yield the lines of each text, joined until they reach a length."""
    for text in texts:
        piece = ""
        for line in text.split("\n"):
            if sum(map(str.isalpha, line)) < 0.6 * len(line) or len(line) < min(characters, 30):
                continue
            piece = f"{piece}\n{line}".strip()
            if len(piece) >= characters:
                yield piece[: characters + 50]
                piece = ""


def catalog(folder: Path, language: str) -> list[str]:
    """Return the messages of a language, one text for each catalog."""
    texts = []
    for path in sorted((folder / language / "LC_MESSAGES").glob("*.mo")):
        try:
            with path.open("rb") as file:
                found = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        except (OSError, ValueError, UnicodeDecodeError):
            continue
        lines = [
            str(message).replace("\n", " ") for key, message in found.items() if key and key != message and "%" not in message
        ]
        texts.append("\n".join(line for line in lines if len(line) >= 30))
    return texts


_INITIALS = "g kk n d tt r m b pp s ss - j jj ch k t p h".replace("-", "").split(" ")
_VOWELS = "a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i".split(" ")  # noqa: SIM905
_FINALS = " k k k n n n t l k m l l l p l m p p t t ng t t k t p t".split(" ")  # noqa: SIM905


def romanised(text: str) -> str:
    """Return a text in Revised Romanisation, syllable by syllable."""
    parts = []
    for letter in text:
        code = ord(letter) - 0xAC00
        if 0 <= code < 11172:
            parts.append(_INITIALS[code // 588] + _VOWELS[code % 588 // 28] + _FINALS[code % 28])
        else:
            parts.append(letter)
    return "".join(parts)


def many_hanja(texts: Iterable[str]) -> list[str]:
    """Return the lines of Korean articles that end like sentences and in which more than a fifth of the letters are Hanja."""
    found = []
    for text in texts:
        for line in text.split("\n"):
            han = sum("\u4e00" <= letter <= "\u9fff" for letter in line)
            if len(line) > 40 and line.endswith("다.") and han > 0.2 * sum(map(str.isalpha, line)):
                found.append(line)
    return found


def peers() -> dict[str, Identify]:
    """Return the identifiers that are installed, by name."""
    found: dict[str, Identify] = {"scripts": lambda text: next(iter(language_shares(text)), "und")}
    try:
        import pycld2

        def cld2(text: str) -> str:
            clean = "".join(letter for letter in text if letter.isprintable() or letter == "\n")  # It raises for others.
            return {"iw": "he"}.get(code := str(pycld2.detect(clean.encode(), bestEffort=True)[2][0][1])[:2], code)

        found["pycld2"] = cld2
    except ImportError:
        pass
    try:
        import py3langid

        found["ours"] = lambda text: next(iter(language_shares(text, by_script=False)), "und")
        found["py3langid"] = lambda text: str(py3langid.classify(text)[0])
    except ImportError:
        pass
    try:
        from lingua import LanguageDetectorBuilder

        def lingua(detector: Any, text: str) -> str:
            language = detector.detect_language_of(text)
            return language.iso_code_639_1.name.lower() if language else "und"

        everything = LanguageDetectorBuilder.from_all_languages()
        found["lingua, high"] = partial(lingua, everything.with_preloaded_language_models().build())
        everything = LanguageDetectorBuilder.from_all_languages()
        found["lingua, low"] = partial(lingua, everything.with_low_accuracy_mode().with_preloaded_language_models().build())
    except ImportError:
        pass
    return found


def texts_of(data: Path, catalogs: Path) -> dict[str, list[str]]:
    """Return documents by language and kind."""
    whole = {name: texts_in(data, "wikipedia_xml", format="mediawiki", members=f"*/{name}.wiki.xml.bz2") for name in LANGUAGES}
    whole["ko, encyclopedia"] = texts_in(data, "kowiki_extracted_AA", format="wikiextractor", members="*/wiki_[0-3]?")
    fields = {"title": "", "outlet": "", "category": "", "url": "", "published": "", "id": "", "text": "review"}
    whole["ko, reviews"] = texts_in(data, "reviews_nsmc_raw", format="json", members="*/1000*.json", fields=fields)
    whole["ko, many Hanja"] = many_hanja(whole["ko, encyclopedia"])
    catalog_texts = {f"{name}, messages": catalog(catalogs, name) for name in CATALOGS}
    return whole | {name: texts for name, texts in catalog_texts.items() if texts}


def sampled(whole: dict[str, list[str]], most: int) -> dict[tuple[str, int], list[str]]:
    """Return texts of two lengths by language and kind."""
    chance = random.Random(1)  # noqa: S311
    samples: dict[tuple[str, int], list[str]] = {}
    for name, texts in whole.items():
        for length in (300, 60):
            if name == "ko, reviews":
                found = ["\n".join(texts[i : i + length // 30]) for i in range(0, len(texts), length // 30)]
                found = [one for one in found if hangul_share(one) > 0.3]
            else:
                found = texts if name == "ko, many Hanja" else list(pieces(texts, length))
            samples[name, length] = chance.sample(found, min(most, len(found)))
    for length in (300, 60):
        samples["ko, romanised", length] = [romanised(one) for one in samples["ko, encyclopedia", length]]
    return samples


def error_of_shares(samples: dict[tuple[str, int], list[str]]) -> float:
    """Return the mean error of the share of Korean, in bytes, in texts of Korean and English paragraphs in random order."""
    chance, errors = random.Random(2), []  # noqa: S311
    pools = [samples["ko, encyclopedia", 60], samples["en", 60]]
    for _ in range(300):
        parts = [(side, chance.choice(pools[side])) for side in chance.choices((0, 1), k=8)]
        letters = [sum(len("".join(filter(str.isalpha, text)).encode()) for at, text in parts if at == side) for side in (0, 1)]
        share = language_shares("\n".join(text for _, text in parts)).get("ko", 0.0)
        errors.append(abs(share - letters[0] / sum(letters)))
    return fmean(errors)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--catalogs", type=Path, default=Path("/usr/share/locale"))
    arguments = parser.parse_args()
    whole = texts_of(arguments.data, arguments.catalogs)
    samples, identifiers = sampled(whole, arguments.texts), peers()
    print(f"{'':18}{'texts':>11}" + "".join(f"{name:>15}" for name in identifiers))
    for (name, length), texts in sorted(samples.items()):
        if texts:
            guesses = [[identify(text) for text in texts] for identify in identifiers.values()]
            code = name.split(",")[0]
            wanted = {code} if code in ("ko", "ja", "zh") else {code, "other"}
            right = [sum((one in wanted) != (name == "ko, romanised") for one in row) / len(texts) for row in guesses]
            print(f"{name:18}{length:5}{len(texts):6}" + "".join(f"{share:15.1%}" for share in right), flush=True)
    print(f"mean error of the share of Korean in mixed texts: {error_of_shares(samples):.4f}")
    for genre in GENRES:
        judged = [wrong_language(language_shares(text), Language()) for text in islice(prose(arguments.data, genre), 4000)]
        print(f"dropped of {genre:13}{sum(map(bool, judged)):5} of {len(judged):5}", flush=True)
    for what in ("ko, encyclopedia", "en"):
        long = list(islice(pieces(whole[what], 1500), 200))
        speeds = []
        for identify in identifiers.values():
            start = time.process_time()
            for text in long:
                identify(text)
            speeds.append(len(long) / (time.process_time() - start))
        print(f"{'documents/s, ' + what:29}" + "".join(f"{speed:15,.0f}" for speed in speeds), flush=True)


if __name__ == "__main__":
    main()
