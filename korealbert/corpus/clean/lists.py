"""Lists of addresses and words that drop documents: advertisements, pornography, gambling.

A list is a UTF-8 text file with one entry per line. Blank lines are ignored, and so is a comment from a ``#`` at the beginning
of a line or after a blank. ``data_specs/rules`` has a short example of each kind.

An entry of a URL list is a host (``spam.example``, which includes all hosts below it), a host with the beginning of a path
(``blog.example/ads``, in whole path segments), or a whole word of the address (``casino``). An entry of a word list is one or
several words in a row, in any case. It matches whole words, with or without particles (카지노를, 카지노들에서는); a ``*`` at an
end lets the word go on there (``*카지노*`` matches 온라인카지노사이트).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from korealbert.corpus.particles import is_word_of, with_joined_particles
from korealbert.documents.schema import Drop

_COMMENT = re.compile(r"(?:^|\s)#.*")
_WORD = re.compile(r"[^\W_]+")
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _read_entries(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each entry. Raises ValueError naming a file that is not UTF-8."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: not a list, it is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    for number, line in enumerate(lines, 1):
        if entry := _COMMENT.sub("", line).strip():
            yield number, entry


def without_entries(files: Sequence[Path]) -> list[Path]:
    """Return the lists that have only comments and blank lines, or nothing."""
    return [path for path in files if not any(_read_entries(path))]


class UrlList:
    """The entries of URL lists. Raises ValueError naming file and line of an invalid entry."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._hosts: dict[str, str] = {}  # host, file
        self._paths: dict[str, list[tuple[str, str]]] = {}  # host, beginnings of paths without slashes around them, files
        self._words: dict[str, str] = {}  # word, file
        for path in files:
            for number, entry in _read_entries(path):
                bare = re.sub(r"^[a-z][a-z0-9+.-]*://", "", _folded(entry))
                host, slash, rest = bare.partition("/")
                if "." not in host and not slash and _WORD.fullmatch(host):
                    self._words.setdefault(host, path.name)
                elif "." not in host or re.search(r"[\s@*?]", host):
                    raise ValueError(f"{path}, line {number}: {entry!r} is no host, host with a path, or word; correct it")
                elif rest.strip("/"):
                    self._paths.setdefault(_host(host), []).append((_folded(unquote(rest)).strip("/"), path.name))
                else:
                    self._hosts.setdefault(_host(host), path.name)

    def judge(self, url: str) -> Drop | None:
        """Return the drop ``listed_url``, which names list and entry, if an address is listed."""
        if not url:
            return None
        try:
            parts = urlsplit(url if _SCHEME.match(url) else f"//{url}")
            host, path = _host(parts.hostname or ""), unquote(f"{parts.path}?{parts.query}")
        except ValueError:  # an unclosed "[": there is no host
            host, path = "", url
        labels = host.split(".")
        for start in range(len(labels)):
            parent = ".".join(labels[start:])
            if parent in self._hosts:
                return Drop("listed_url", f"{self._hosts[parent]}: {parent}")
            for beginning, name in self._paths.get(parent, ()):
                if re.match(re.escape(beginning) + r"(?![^/?])", _folded(path).lstrip("/")):
                    return Drop("listed_url", f"{name}: {parent}/{beginning}")
        if self._words:
            for word in _WORD.findall(_folded(f"{_as_shown(host)} {path}")):
                if word in self._words:
                    return Drop("listed_url", f"{self._words[word]}: {word}")
        return None


def _host(host: str) -> str:
    """Return a host in lower case, without port, ``www.`` and final dot, and in its ASCII form as in DNS."""
    name = _folded(host).partition(":")[0].rstrip(".").removeprefix("www.")
    try:
        return name.encode("idna").decode() if not name.isascii() else name
    except UnicodeError:
        return name


def _as_shown(host: str) -> str:
    """Return a host with its letters outside ASCII."""
    try:
        return host.encode().decode("idna")
    except UnicodeError:
        return host


class WordList:
    """The entries of word lists. Raises ValueError naming file and line of an invalid entry."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}  # first word, all words of entries, files
        self._within: list[tuple[re.Pattern[str], str, str]] = []  # entries with ``*``: patterns, entries, files
        self._marked: list[tuple[re.Pattern[str], str, str]] = []  # entries with other marks; group 1 is the letters after them
        self._longest = 0
        for path in files:
            for number, entry in _read_entries(path):
                self._add(_folded(entry), path, number)

    def _add(self, entry: str, path: Path, number: int) -> None:
        words = tuple(_WORD.findall(entry))
        if not words or "*" in entry.strip("*"):
            raise ValueError(f"{path}, line {number}: {entry!r} is no word; * may be only at its ends")
        bare = entry.strip("*")
        pattern = r"[\W_]+".join(map(re.escape, bare.split()))
        begin = "" if entry.startswith("*") else rf"(?<![^\W_]){_no_same_mark('<', bare[0])}"
        if "*" in entry:
            end = "" if entry.endswith("*") else rf"(?![^\W_]){_no_same_mark('', bare[-1])}"
            self._within.append((re.compile(begin + pattern + end), entry, path.name))
        elif bare.split() != list(words):
            self._marked.append((re.compile(rf"{begin}{pattern}{_no_same_mark('', bare[-1])}([^\W_]*)"), entry, path.name))
        else:
            for key in (words[0], *(with_joined_particles(words[0]) if len(words) == 1 else ())):
                self._by_first.setdefault(key, []).append((words, path.name))
            self._longest = max(self._longest, len(words[0]))

    def found(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield entry and file of each match, at most one for each word of the text."""
        folded = _folded(text)
        places = list(_WORD.finditer(folded))
        words, ends = [place[0] for place in places], [place.end() for place in places]
        hits: dict[int, tuple[str, str]] = {}
        for index, word in enumerate(words):
            for length in range(1, min(len(word), self._longest) + 1):
                if hit := next((hit for hit in self._by_first.get(word[:length], ()) if _follows(words, index, hit[0])), None):
                    hits[index] = " ".join(hit[0]), hit[1]
                    break
        for pattern, entry, name in self._within:
            for found in pattern.finditer(folded):
                hits.setdefault(bisect_right(ends, found.start()), (entry, name))
        for pattern, entry, name in self._marked:
            for found in pattern.finditer(folded):
                if is_word_of(entry + found[1], entry):
                    hits.setdefault(bisect_right(ends, found.start()), (entry, name))
        yield from (hits[index] for index in sorted(hits))

    def judge(self, text: str, max_share: float) -> Drop | None:
        """Return the drop ``listed_word``, which names list, entry and counts, if too large a share of words is listed."""
        hits = list(self.found(text))
        if not hits:
            return None
        words = max(1, len(text.split()))
        if len(hits) <= max_share * words:
            return None
        entry, name = hits[0]
        return Drop("listed_word", f"{name}: {entry} ({len(hits)} of {words} words > {max_share})")


def _no_same_mark(look_behind: str, character: str) -> str:
    """Return a look-around that refuses another mark like the first or last of an entry: ``C+`` does not match ``C++``."""
    return "" if _WORD.fullmatch(character) else rf"(?{look_behind}!{re.escape(character)})"


def _follows(words: Sequence[str], index: int, entry: tuple[str, ...]) -> bool:
    """Return whether the words from an index on are those of an entry; the last one may have particles."""
    last = index + len(entry) - 1
    if last >= len(words) or tuple(words[index:last]) != entry[:-1]:
        return False
    return is_word_of(words[last], entry[-1])
