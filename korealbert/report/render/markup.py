"""HTML and SVG elements in which plain text is always escaped; the styles that both share; one drawing.

Text becomes ``Markup`` only here: plain strings are escaped when they enter an element, Markup is not.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML document may hold, however written; text from a crawl has them."""


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Plain text as markup; what XML forbids becomes U+FFFD. Markup stays as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_NOT_IN_XML.sub("\ufffd", text), quote=True))


def join(*children: str) -> Markup:
    """The children one after the other."""
    return Markup("".join(escape(child) for child in children))


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element. ``class_`` names the attribute class, ``stroke_width`` is stroke-width; attributes of None are left out."""
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opening = "".join(f' {key}="{escape(number(value) if isinstance(value, int | float) else value)}"' for key, value in pairs)
    if not children:
        return Markup(f"<{name}{opening}/>" if name in _EMPTY else f"<{name}{opening}></{name}>")
    return Markup(f"<{name}{opening}>{join(*children)}</{name}>")


_EMPTY = frozenset({"br", "circle", "hr", "line", "meta", "path", "rect", "wbr"})
"""Elements that have no content, of HTML and of SVG."""


def number(value: float) -> str:
    """A coordinate with at most two decimals, and no more than it needs."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


PALETTE = """
:root{--ground:#fcfbf9;--raised:#f4f2ee;--rule:#e3dfd8;--ink:#22242a;--quiet:#6a6c74;
--one:#2b5d8f;--two:#b0702a;--three:#3c7a63;--wash:#e9eff5}
@media (prefers-color-scheme:dark){:root{--ground:#17191d;--raised:#1f2227;--rule:#343841;--ink:#e4e2dd;--quiet:#9b9da6;
--one:#7fb0de;--two:#d9a066;--three:#7fbf9f;--wash:#222c37}}
"""
"""Custom properties: ground to ink, then three colours that differ in lightness as well as in hue."""

COLOUR_OF_INIT = {"pretrained": 1, "random": 2}
"""Which of the three colours marks what fine-tuning started from, in every drawing."""

CHART = """
.chart text{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI","Noto Sans",Pretendard,"Apple SD Gothic Neo",
"Noto Sans KR","Noto Sans CJK KR","Malgun Gothic",sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
.chart .tick,.chart .axis{fill:var(--quiet);font-size:11px}
.chart .value{font-weight:600}
.ground{fill:var(--ground)}
.track{fill:var(--raised)}.ghost{fill:var(--quiet);opacity:.45}
.grid{stroke:var(--rule);stroke-width:1}.track-line{stroke:var(--rule);stroke-width:1}
.level-3{stroke:var(--three);stroke-width:1;stroke-opacity:.45}
.chart .over{fill:var(--ground);font-size:11px}
.level{stroke:var(--quiet);stroke-width:1;stroke-dasharray:3 4}
.mark-1{fill:var(--one)}.mark-2{fill:var(--two)}.mark-3{fill:var(--three)}
.line-1,.line-2,.line-3{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.line-1{stroke:var(--one)}.line-2{stroke:var(--two)}.line-3{stroke:var(--three)}
.dot-1,.dot-2,.dot-3{fill-opacity:.55;stroke:var(--ground);stroke-width:1}
.dot-1{fill:var(--one)}.dot-2{fill:var(--two)}.dot-3{fill:var(--three)}
.mean-1,.mean-2,.mean-3{stroke-width:2.5;stroke-linecap:round}
.mean-1{stroke:var(--one)}.mean-2{stroke:var(--two)}.mean-3{stroke:var(--three)}
"""
"""Marks and text of drawings."""

PAGE = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:smooth}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.6 ui-sans-serif,system-ui,-apple-system,"Segoe UI",
"Noto Sans",Pretendard,"Apple SD Gothic Neo","Noto Sans KR","Noto Sans CJK KR","Malgun Gothic",sans-serif;
word-break:keep-all;overflow-wrap:anywhere}
main,header{max-width:50rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:4rem;padding-bottom:.5rem}
h1{font-size:clamp(1.7rem,1.2rem + 2.4vw,2.5rem);line-height:1.15;letter-spacing:-.02em;font-weight:650;margin:0 0 1rem;
text-wrap:balance}
.lede{font-size:1.125rem;color:var(--quiet);margin:0;max-width:38rem}
nav{margin-top:1.75rem;padding:.7rem 0;border-block:1px solid var(--rule);font-size:.875rem;display:flex;flex-wrap:wrap;
gap:.25rem 1.25rem}
a{color:var(--one);text-decoration:none}a:hover{text-decoration:underline}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--one);outline-offset:3px;border-radius:2px}
section{padding-top:3.25rem}
h2{font-size:1.375rem;line-height:1.25;letter-spacing:-.01em;font-weight:650;margin:0 0 1rem}
p{margin:0 0 1rem;max-width:42rem}
.quiet{color:var(--quiet);font-size:.875rem;line-height:1.55}
code{font:.86em ui-monospace,SFMono-Regular,Menlo,Consolas,"Noto Sans Mono",monospace}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:1px;margin:0 0 1.75rem;
background:var(--rule);border:1px solid var(--rule);border-radius:10px;overflow:hidden}
.card{background:var(--ground);padding:1.1rem 1.25rem 1.15rem}
.card .title{font-size:.8125rem;color:var(--quiet);margin:0}
.card .number{font-size:1.875rem;line-height:1.25;letter-spacing:-.02em;font-weight:650;font-variant-numeric:tabular-nums;
margin:.1rem 0 .2rem}
.card .detail{font-size:.875rem;line-height:1.5;margin:0;color:var(--quiet)}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:2rem 2.5rem;margin:0 0 1.75rem}
figure{margin:0;max-width:30rem}
figcaption{font-size:.9375rem;font-weight:600;line-height:1.4;margin-bottom:.8rem;text-wrap:balance}
.chart{display:block;width:100%;height:auto;overflow:visible}
.scroll{overflow-x:auto;margin:0 0 1.75rem;background:
linear-gradient(to right,var(--ground) 1rem,transparent 2rem) left/2rem 100% no-repeat local,
linear-gradient(to left,var(--ground) 1rem,transparent 2rem) right/2rem 100% no-repeat local,
linear-gradient(to right,var(--rule),transparent) left/.75rem 100% no-repeat scroll,
linear-gradient(to left,var(--rule),transparent) right/.75rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.875rem;line-height:1.45;width:100%;font-variant-numeric:tabular-nums}
.caption{font-weight:600;font-size:.9375rem;line-height:1.4;margin:0 0 .35rem}
th,td{text-align:left;vertical-align:top;padding:.42rem 1.1rem .42rem 0;border-bottom:1px solid var(--rule)}
th:last-child,td:last-child{padding-right:0}
thead th{font-weight:500;color:var(--quiet);font-size:.8125rem;vertical-align:bottom}
.n{text-align:right;white-space:nowrap}
table{word-break:normal;overflow-wrap:normal}
td:first-child:not(.n){min-width:9.5rem}
td.prose{min-width:10rem;overflow-wrap:anywhere}
@media (max-width:40rem){table{font-size:.8125rem}th,td{padding-right:.75rem}td:first-child:not(.n){min-width:7.5rem}}
tr.marked td{background:var(--wash);font-weight:600}
tr.marked td:first-child{box-shadow:-.5rem 0 0 var(--wash)}
details{margin:0 0 1.25rem;border-top:1px solid var(--rule);padding-top:.75rem}
summary{cursor:pointer;font-size:.9375rem;font-weight:600;margin-bottom:.25rem}
details[open]>summary{margin-bottom:1rem}
main{padding-bottom:4rem}
@media print{details::details-content{content-visibility:visible}nav{display:none}}
"""
"""The page around the drawings."""


WIDTH = 360
_FONT_SIZE = 12


@dataclass(frozen=True)
class Svg:
    """Elements on a canvas ``WIDTH`` wide; ``label`` says to those who cannot see it what it shows."""

    height: float
    label: str
    body: Markup

    def inline(self) -> Markup:
        """For a page that carries the style sheet."""
        return self._element(self.body)

    def standalone(self) -> Markup:
        """A file of its own, light or dark as its reader."""
        style = tag("style", Markup(PALETTE + CHART))
        ground = tag("rect", class_="ground", width=WIDTH + 24, height=self.height + 24, x=-12, y=-12)
        return self._element(join(style, ground, self.body), xmlns="http://www.w3.org/2000/svg", margin=12)

    def _element(self, body: Markup, *, xmlns: str | None = None, margin: int = 0) -> Markup:
        view = f"{-margin} {-margin} {WIDTH + 2 * margin} {self.height + 2 * margin:g}"
        return tag("svg", body, xmlns=xmlns, viewBox=view, class_="chart", role="img", aria_label=self.label)


def text(x: float, y: float, content: str, *, kind: str = "", anchor: str | None = None, width: float = WIDTH) -> Markup:
    """A line of text at its baseline; what does not fit into ``width`` is cut, and whole as a tooltip."""
    shown = fitted(content, width)
    tooltip = () if shown == content else (tag("title", content),)
    return tag("text", *tooltip, shown, x=x, y=y, class_=kind or None, text_anchor=anchor)


def fitted(content: str, width: float) -> str:
    """The text, or as much of it with an ellipsis as ``width`` units hold."""
    if text_width(content) <= width:
        return content
    while content and text_width(content + "…") > width:
        content = content[:-1]
    return content.rstrip() + "…"


def text_width(content: str) -> float:
    """Estimated width in units: Hangul and Han are as wide as high, other letters a little over half."""
    ems = sum(0.0 if unicodedata.combining(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.56 for c in content)
    return ems * _FONT_SIZE
