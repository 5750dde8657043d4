"""The peer's side of ``bench.dedup``, run by the peer's interpreter: datatrove's MinHash deduplication, all four steps.

python bench/dedup_datatrove.py WORK WORKERS: reads ``WORK/in/*.jsonl`` (id, text), writes ``WORK/out/*.jsonl`` (what stays) and
``WORK/removed/*.jsonl``, each with its cluster, and ``WORK/peer.json``: seconds, and the similarity of the planted pairs by the
peer's own shingles.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.typeshelper import Languages


def main(work: Path, workers: int) -> None:
    tasks = len(list((work / "in").glob("*.jsonl")))
    config = MinhashConfig()
    name = {part: str(work / part) for part in ("in", "out", "removed", "signatures", "buckets", "clusters")}

    def step(number: int, tasks: int, *pipeline: object) -> None:
        logs = str(work / f"logs{number}")
        LocalPipelineExecutor(list(pipeline), tasks=tasks, workers=min(workers, tasks), logging_dir=logs).run()

    def written(part: str) -> JsonlWriter:
        return JsonlWriter(name[part], compression=None)

    start = time.perf_counter()
    signature = MinhashDedupSignature(name["signatures"], config, language=Languages.korean)
    step(1, tasks, JsonlReader(name["in"]), signature)
    step(2, config.num_buckets, MinhashDedupBuckets(name["signatures"], name["buckets"], config=config))
    step(3, 1, MinhashDedupCluster(name["buckets"], name["clusters"], config=config, save_cluster_id=True))
    filtered = MinhashDedupFilter(name["clusters"], written("removed"), load_cluster_ids=True)
    step(4, tasks, JsonlReader(name["in"]), filtered, written("out"))
    seconds = time.perf_counter() - start

    similarity = {}
    for line in (work / "planted.jsonl").read_text("utf-8").splitlines():
        pair = json.loads(line)
        left, right = (set(signature.get_shingles(pair[side]).ravel().tolist()) for side in ("base", "variant"))
        similarity[pair["id"]] = len(left & right) / max(1, len(left | right))
    (work / "peer.json").write_text(json.dumps({"seconds": seconds, "similarity": similarity}), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
