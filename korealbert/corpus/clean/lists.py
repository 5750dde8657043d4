"""Lists of addresses and words whose documents go: advertisements, pornography, gambling.

A list is a text file in UTF-8: one entry a line; blank lines do not count, nor what follows a ``#`` at the beginning of a
line or after a blank. There is a short example of each kind in ``data_specs/rules``.

An entry of a URL list is a host (``spam.example``: it and every host below it), a host with the beginning of a path
(``blog.example/ads``: whole parts of it), or a word (``casino``: a whole word of the address, between characters that are no
letters or digits). An entry of a word list is a word or several in a row; case does not count. It is found where a word begins
and ends, also with particles behind it (카지노를, 카지노들에서는); ``*`` at one of its ends finds it within longer words there
(``*카지노*``: 온라인카지노사이트).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from korealbert.corpus.particles import is_word_of
from korealbert.documents.schema import Drop

_COMMENT = re.compile(r"(?:^|\s)#.*")
_WORD = re.compile(r"[^\W_]+")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _read_entries(path: Path) -> Iterator[tuple[int, str]]:
    """Number of the line and entry, for every entry of a list. Raises ValueError naming the file where it is no UTF-8."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: not a list, it is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    for number, line in enumerate(lines, 1):
        if entry := _COMMENT.sub("", line).strip():
            yield number, entry


@dataclass
class UrlList:
    """The entries of URL lists, each with the name of its file."""

    hosts: dict[str, str] = field(default_factory=dict)
    paths: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Host → beginnings of paths, without slashes around them."""
    words: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Sequence[Path]) -> UrlList:
        """The lists of some files. Raises ValueError naming file and line of an entry that is none."""
        found = cls()
        for path in files:
            for number, entry in _read_entries(path):
                bare = re.sub(r"^[a-z][a-z0-9+.-]*://", "", _folded(entry))
                host, slash, rest = bare.partition("/")
                if "." not in host and not slash and _WORD.fullmatch(host):
                    found.words.setdefault(host, path.name)
                elif "." not in host or re.search(r"[\s@*?]", host):
                    raise ValueError(f"{path}, line {number}: {entry!r} is no host, host with a path, or word; correct it")
                elif rest.strip("/"):
                    found.paths.setdefault(_host(host), []).append((unquote(rest).strip("/"), path.name))
                else:
                    found.hosts.setdefault(_host(host), path.name)
        return found

    def judge(self, url: str) -> Drop | None:
        """``listed_url`` with the list's name and the entry that an address matches, or None."""
        if not url:
            return None
        try:
            parts = urlsplit(url if "//" in url else f"//{url}")
            host, path = _host(parts.hostname or ""), unquote(f"{parts.path}?{parts.query}")
        except ValueError:  # "[" that never ends: it has no host
            host, path = "", url
        labels = host.split(".")
        for start in range(len(labels)):
            parent = ".".join(labels[start:])
            if parent in self.hosts:
                return Drop("listed_url", f"{self.hosts[parent]}: {parent}")
            for beginning, name in self.paths.get(parent, ()):
                if re.match(re.escape(beginning) + r"(?![^/?])", _folded(path).lstrip("/")):
                    return Drop("listed_url", f"{name}: {parent}/{beginning}")
        if self.words:
            for word in _WORD.findall(_folded(f"{host} {path}")):
                if word in self.words:
                    return Drop("listed_url", f"{self.words[word]}: {word}")
        return None


def _host(host: str) -> str:
    """In lower case, without port, ``www.`` and final dot, international names as in DNS."""
    name = _folded(host).partition(":")[0].rstrip(".").removeprefix("www.")
    try:
        return name.encode("idna").decode() if not name.isascii() else name
    except UnicodeError:
        return name


@dataclass
class WordList:
    """The entries of word lists, each with the name of its file."""

    _by_first: dict[str, list[tuple[tuple[str, ...], str]]] = field(default_factory=dict)
    """First word → the words of entries that begin with it; a single word for most."""
    _within: list[tuple[re.Pattern[str], str, str]] = field(default_factory=list)
    """Patterns of entries with ``*``, the entry, its file."""
    _marked: list[tuple[re.Pattern[str], str, str]] = field(default_factory=list)
    """Patterns of other entries with marks, which capture the word characters behind; the entry, its file."""
    _longest: int = 0

    @classmethod
    def read(cls, files: Sequence[Path]) -> WordList:
        """The lists of some files. Raises ValueError naming file and line of an entry that is none."""
        found = cls()
        for path in files:
            for number, entry in _read_entries(path):
                found._add(_folded(entry), path, number)
        return found

    def _add(self, entry: str, path: Path, number: int) -> None:
        words = tuple(_WORD.findall(entry))
        if not words or "*" in entry.strip("*"):
            raise ValueError(f"{path}, line {number}: {entry!r} is no word; * may be only at its ends")
        bare = entry.strip("*")
        pattern = r"[\W_]+".join(map(re.escape, bare.split()))
        begin = "" if entry.startswith("*") else rf"(?<![^\W_]){_not_again('<', bare[0])}"
        if "*" in entry:
            end = "" if entry.endswith("*") else rf"(?![^\W_]){_not_again('', bare[-1])}"
            self._within.append((re.compile(begin + pattern + end), entry, path.name))
        elif bare.split() != list(words):
            self._marked.append((re.compile(rf"{begin}{pattern}{_not_again('', bare[-1])}([^\W_]*)"), entry, path.name))
        else:
            key = words[0]
            self._by_first.setdefault(key, []).append((words, path.name))
            self._longest = max(self._longest, len(key))

    def found(self, text: str) -> Iterator[tuple[str, str]]:
        """The entry and its file, for every place where one is found; at one word no more than one."""
        folded = _folded(text)
        words = _WORD.findall(folded)
        for index, word in enumerate(words):
            for length in range(1, min(len(word), self._longest) + 1):
                if hit := next((hit for hit in self._by_first.get(word[:length], ()) if _follows(words, index, hit[0])), None):
                    yield " ".join(hit[0]), hit[1]
                    break
        for pattern, entry, name in self._within:
            yield from ((entry, name) for _ in pattern.finditer(folded))
        for pattern, entry, name in self._marked:
            yield from ((entry, name) for found in pattern.finditer(folded) if is_word_of(entry + found[1], entry))

    def judge(self, text: str, max_share: float) -> Drop | None:
        """``listed_word`` with list, entry and numbers, where more than a share of the words is listed; or None."""
        hits = list(self.found(text))
        if not hits:
            return None
        words = max(1, len(text.split()))
        if len(hits) <= max_share * words:
            return None
        entry, name = hits[0]
        return Drop("listed_word", f"{name}: {entry} ({len(hits)} of {words} words > {max_share})")


def _not_again(behind: str, character: str) -> str:
    """Pattern of no further mark of the kind that an entry begins or ends with: ``C+`` is not in ``C++``."""
    return "" if _WORD.fullmatch(character) else rf"(?{behind}!{re.escape(character)})"


def _follows(words: Sequence[str], index: int, entry: tuple[str, ...]) -> bool:
    """Whether the words from a place on are those of an entry, the last one with particles behind it or without."""
    last = index + len(entry) - 1
    if last >= len(words) or tuple(words[index:last]) != entry[:-1]:
        return False
    return is_word_of(words[last], entry[-1])
