"""A site with everything that goes wrong on the web, and the outcome that a crawl must log for each page."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from tests.corpus.crawl.crawling import source_file
from tests.corpus.crawl.site import Answer, Asked, Page, Site, article, redirect, sitemap, text

GOOD = 300
HOSTILE = {
    "/news/slow": "stored",
    "/news/500-once": "stored",
    "/news/500-always": "failed: server_error",
    "/news/429-once": "stored",
    "/news/cut-once": "stored",
    "/news/cut-always": "failed: truncated",
    "/news/gzip": "stored",
    "/news/gzip-cut": "failed: truncated",
    "/news/gzip-broken": "failed: corrupt",
    "/news/gzip-thrice-and-more": "failed: unknown_encoding",
    "/news/deflate": "stored",
    "/news/raw-deflate": "stored",
    "/news/brotli": "failed: unknown_encoding",
    "/news/never": "failed: timeout",
    "/news/chunks": "stored",
    "/news/chunks-cut": "failed: truncated",
    "/news/bomb": "failed: too_large",
    "/news/deflate-bomb": "failed: too_large",
    "/news/large": "failed: too_large",
    "/news/large-unannounced": "failed: too_large",
    "/news/missing": "failed: status_404",
    "/news/empty": "failed: empty",
    "/news/picture": "refused: not_html",
    "/news/untyped": "stored",
    "/news/euc-kr-as-utf-8": "stored",
    "/news/utf-8-as-euc-kr": "stored",
    "/news/moved": "redirected",
    "/news/moved-here": "stored",
    "/news/chain-1": "redirected",
    "/news/chain-2": "redirected",
    "/news/chain-end": "stored",
    "/news/self": "failed: redirect_loop",
    "/news/loop-a": "redirected",
    "/news/loop-b": "failed: redirect_loop",
    "/news/endless-0": "redirected",
    "/news/endless-3": "failed: too_many_redirects",
    "/news/offsite": "refused: offsite_redirect",
    **{f"/news/inward-{number}": "redirected" for number in range(7)},
    "/news/to-mail": "failed: bad_redirect",
    "/news/withdrawn": "redirected",
    "/": "refused: no_article",
    "/news/secret/1": "refused: robots",
    "/news/secret/2": "refused: robots",
    "/news/mobile?id=7": "duplicate: same_page",
    "/news/copy-of-8": "duplicate: same_page",
    "/tag/politics": "refused: no_article",
}
"""Path → outcome in the log."""

INWARD = ("127.0.0.3", "localhost", "2130706433", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "[::1]")
"""Hosts of this machine that the source allows, but does not allow to be private."""

BOMB = gzip.compress(bytes(32 << 20), 1)

FOUND_BY_REDIRECT = ("/news/moved-here", "/news/chain-2", "/news/chain-end", "/news/loop-b", "/news/endless-3", "/")
LATE = ("/news/mobile?id=7", "/news/copy-of-8")


def paragraphs(name: object) -> str:
    return "".join(f"<p>{name}번 기사의 {line}번째 문단이다. 시의회는 이날 예산안을 의결했다.</p>" for line in range(8))


def good(name: object, head: str = "") -> Answer:
    return Answer(article(f"기사 {name}", paragraphs(name), head=head))


def hostile_pages(root: str) -> dict[str, Page]:
    body = article("압축 기사", paragraphs("압축"))

    def first(answer: Answer) -> Page:
        return lambda asked: answer if asked.times == 1 else good(asked.path)

    def endless(asked: Asked) -> Answer:
        return redirect(f"/news/endless-{int(asked.path.rpartition('-')[2]) + 1}")

    def chunked(data: bytes, *, whole: bool) -> Answer:
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[:700], data[700:]))
        head = b"HTTP/1.1 200 X\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        return Answer(verbatim=head + chunks + (b"0\r\n\r\n" if whole else b""))

    def packed(data: bytes, kind: str = "gzip") -> Answer:
        return Answer(data, headers=(("Content-Encoding", kind),))

    port = root.rpartition(":")[2]
    return {
        "/news/slow": Answer(article("느린 기사", paragraphs("느린")), delay_seconds=0.4),
        "/news/500-once": first(text("고장", 500)),
        "/news/500-always": text("고장", 500),
        "/news/429-once": first(Answer(b"", 429, headers=(("Retry-After", "1"),))),
        "/news/cut-once": first(Answer(body, sent_bytes=120)),
        "/news/cut-always": Answer(body, sent_bytes=120),
        "/news/gzip": packed(gzip.compress(body)),
        "/news/gzip-cut": packed(gzip.compress(body * 3)[:-200]),
        "/news/gzip-broken": packed(gzip.compress(body)[:12] + b"\xff" * 40),
        "/news/gzip-thrice-and-more": packed(body, "gzip, gzip, gzip, gzip"),
        "/news/deflate": packed(zlib.compress(article("압축 기사 둘", paragraphs("deflate"))), "deflate"),
        "/news/raw-deflate": packed(zlib.compress(article("압축 기사 셋", paragraphs("raw")))[2:-4], "deflate"),
        "/news/brotli": packed(body, "br"),
        "/news/bomb": packed(BOMB),
        "/news/deflate-bomb": packed(zlib.compress(bytes(16 << 20), 1), "deflate"),
        "/news/never": Answer(body, delay_seconds=60.0),
        "/news/chunks": chunked(article("조각 기사", paragraphs("조각")), whole=True),
        "/news/chunks-cut": chunked(body, whole=False),
        "/news/large": Answer(b"<html>" + b"a" * (3 << 20)),
        "/news/large-unannounced": Answer(verbatim=b"HTTP/1.1 200 X\r\n\r\n<html>" + b"a" * (3 << 20)),
        "/news/empty": Answer(b"  \n"),
        "/news/picture": Answer(b"\x89PNG\r\n\x1a\n" + b"0" * 200, content_type="image/png"),
        "/news/untyped": Answer(article("형식 없는 기사", paragraphs("무형식")), content_type=""),
        "/news/euc-kr-as-utf-8": Answer(article("한글 기사", paragraphs("완성형"), charset="cp949", declared="utf-8")),
        "/news/utf-8-as-euc-kr": Answer(article("한글 기사", paragraphs("유니코드")), content_type="text/html; charset=euc-kr"),
        "/news/moved": redirect("/news/moved-here", 301),
        "/news/moved-here": good("옮긴"),
        "/news/chain-1": redirect("/news/chain-2"),
        "/news/chain-2": redirect("/news/chain-end", 307),
        "/news/chain-end": good("사슬"),
        "/news/self": redirect("/news/self"),
        "/news/loop-a": redirect("/news/loop-b"),
        "/news/loop-b": redirect("/news/loop-a"),
        **{f"/news/endless-{hop}": endless for hop in range(5)},
        "/news/offsite": redirect("http://elsewhere.example/news/1"),
        **{f"/news/inward-{number}": redirect(f"http://{host}:{port}/news/private") for number, host in enumerate(INWARD)},
        "/news/to-mail": redirect("mailto:desk@example.org"),
        "/news/withdrawn": redirect("/"),
        "/news/secret/1": good("비밀 1"),
        "/news/secret/2": good("비밀 2"),
        "/news/7": good(7, head=f'<link rel="canonical" href="{root}/news/7">'),
        "/news/mobile?id=7": good("7의 모바일", head=f"<link href='{root}/news/7' rel='canonical'>"),
        "/news/copy-of-8": good(8),
        "/robots.txt": text("User-agent: *\nDisallow: /news/secret/\n", content_type="text/plain", delay_seconds=0.2),
    }


def fill(site: Site) -> None:
    """Give a site its pages, and a sitemap with several spellings of them."""
    site.pages |= {f"/news/{number}": good(number) for number in range(GOOD)}
    site.pages |= hostile_pages(site.root)
    early = [path for path in HOSTILE if path not in FOUND_BY_REDIRECT + LATE]
    spellings = ["/news/3?utm_source=mail", "/news/4#part", "/news/../news/5", "/news/%36", "//news/9"]
    paths = [*early, *(f"/news/{number}" for number in range(GOOD)), *spellings, *LATE]
    direct = [f"http://{host}:{site.port}/news/named" for host in INWARD]
    site.pages["/sitemap.xml"] = sitemap(*(site.root + path for path in paths), *direct, "mailto:desk@example.org")


def source_of(site: Site, directory: Path) -> Path:
    """Write the source file of the site."""
    return source_file(
        directory,
        site,
        hosts=["127.0.0.1", *(host.strip("[]") for host in INWARD), "::ffff:7f00:1"],
        private_hosts=["127.0.0.1"],
        article=r"http://[a-z0-9.:\[\]]+/news/.+",
        max_page_bytes=2 << 20,
        retries=1,
        max_redirects=3,
        timeout_seconds=2.0,
    )


def stored_paths() -> set[str]:
    """Return the paths of all pages that must be stored."""
    return {f"/news/{number}" for number in range(GOOD)} | {path for path, outcome in HOSTILE.items() if outcome == "stored"}
