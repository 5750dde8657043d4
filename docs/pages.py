"""A hook of MkDocs: the pages of the site that are not files of docs/, and links that lead out of it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from korealbert.report.render.graph import Box, layered  # noqa: E402 (not installed where the site is built)
from korealbert.report.render.markup import style_sheet  # noqa: E402

_PAGES = {"README.md": "index.md", "README.ko.md": "index.ko.md", "CONTRIBUTING.md": "contributing.md"}
_COMMANDS = ROOT / os.environ.get("COMMANDS", ".venv-docs/commands.md")
"""What ``make docs`` wrote of the command line."""


def on_files(files: Files, config: Any) -> Files:
    """Add the style of drawings and the pages that lie above docs/, and that of the commands."""
    for name, target in _PAGES.items():
        text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
        for other, place in _PAGES.items():
            text = text.replace(f"]({other}", f"]({place}")
        files.append(File.generated(config, target, content=text))
    files.append(File.generated(config, "commands.md", content=_COMMANDS.read_text("utf-8")))
    files.append(File.generated(config, "chart.css", content=str(style_sheet("chart"))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files that are no pages by the files' names, and diagrams by drawings."""
    markdown = re.sub(r"^```mermaid\n(.*?)^```$", lambda found: diagram(found[1]), markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\[([^\]]*)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Let code longer than a line be broken within a sentence, and a row's name after ``_``, ``.`` and ``/``."""
    html = re.sub(r"<code>([^<]{60,})</code>", r'<code class="long">\1</code>', html)
    return re.sub(r"(?<=<tr>\n<td><code>)[^<]+", lambda name: re.sub(r"(?<=[_./])(?=\w)", "<wbr>", name[0]), html)


def diagram(source: str) -> str:
    """Draw a flowchart of mermaid (``a --> b & c["c<br/>more"]``), whose own script a reader without network would lack."""
    boxes: dict[str, Box] = {}
    above: dict[str, set[str]] = {}
    for line in source.splitlines():
        before: set[str] = set()
        for part in line.split("-->") if "-->" in line else ():
            here = set()
            for node in part.split("&"):
                name, _, shown = node.strip().partition("[")
                if shown or name not in boxes:
                    label, *more = (shown.strip('"]') or name).split("<br/>")
                    boxes[name] = Box(label, more)
                here.add(boxes[name].label)
            for each in here:
                above.setdefault(each, set()).update(before)
            before = here
    drawing = layered([*boxes.values()], above, label=", ".join(box.label for box in boxes.values()))
    return f'<div class="diagram" style="max-width:{drawing.width:.0f}px">{drawing.inline()}</div>\n'
