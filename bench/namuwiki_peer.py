"""Runs in the peer's environment: extracts a NamuWiki dump with namu-wiki-extractor, one JSON line a document.

python -P namuwiki_peer.py DUMP OUT (-P: its neighbour has the name of the package): prints the seconds from opening the dump to
the last line, and how many of them its extraction took. The package reads no dumps itself, so the dump is loaded by the
standard library.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from namuwiki.extractor import extract_text  # type: ignore[import-not-found]

dump, out = sys.argv[1:]
begun = time.process_time()
extracting = 0.0
with Path(dump).open(encoding="utf-8") as source, Path(out).open("w", encoding="utf-8") as target:
    for record in json.load(source):
        started = time.process_time()
        text = extract_text(record["text"])
        extracting += time.process_time() - started
        target.write(json.dumps({"title": record["title"], "text": text}, ensure_ascii=False) + "\n")
print(json.dumps([time.process_time() - begun, extracting]))
