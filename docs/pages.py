"""A hook of MkDocs: the pages of the site that are not files of docs/, and links that lead out of it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_PAGES = {"README.md": "index.md", "README.ko.md": "index.ko.md", "CONTRIBUTING.md": "contributing.md"}
_COMMANDS = ROOT / os.environ.get("COMMANDS", ".venv-docs/commands.md")
"""What ``make docs`` wrote of the command line."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie above docs/, and that of the commands."""
    for name, target in _PAGES.items():
        text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
        for other, place in _PAGES.items():
            text = text.replace(f"]({other}", f"]({place}")
        files.append(File.generated(config, target, content=text))
    files.append(File.generated(config, "commands.md", content=_COMMANDS.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to files that are no pages become the files' names."""
    return re.sub(r"\[([^\]]*)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", markdown)
