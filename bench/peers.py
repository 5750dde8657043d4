"""What runs in the peers' environment: `python -m bench.peers NAME ARGUMENT...` calls a function and prints its result as JSON.

Seconds are processor seconds unless a docstring says otherwise; loading a package is not timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any


def namuwiki(dump: str, out: str) -> list[float]:
    """Extract a NamuWiki dump with namu-wiki-extractor, one JSON line per document.

    Returns the seconds from opening the dump to the last line, and how many of them extraction took. The package does not read
    dumps, so the standard library loads the dump.
    """
    from namuwiki.extractor import extract_text

    begun = time.process_time()
    extracting = 0.0
    with Path(dump).open(encoding="utf-8") as source, Path(out).open("w", encoding="utf-8") as target:
        for record in json.load(source):
            started = time.process_time()
            text = extract_text(record["text"])
            extracting += time.process_time() - started
            target.write(json.dumps({"title": record["title"], "text": text}, ensure_ascii=False) + "\n")
    return [time.process_time() - begun, extracting]


def datatrove(folder: str, workers: str) -> dict[str, Any]:
    """Deduplicate with datatrove's MinHash, all four steps.

    Reads ``in/*.jsonl`` (id, text) of the folder; writes kept documents to ``out/*.jsonl`` and removed ones to
    ``removed/*.jsonl``, each with its cluster. Returns seconds by the clock, and the similarity of each pair in
    ``planted.jsonl`` by datatrove's own shingles.
    """
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.typeshelper import Languages

    work = Path(folder)
    shards = len(list((work / "in").glob("*.jsonl")))
    config = MinhashConfig()
    name = {part: str(work / part) for part in ("in", "out", "removed", "signatures", "buckets", "clusters")}

    def step(number: int, tasks: int, *pipeline: object) -> None:
        logs = str(work / f"logs{number}")
        LocalPipelineExecutor(list(pipeline), tasks=tasks, workers=min(int(workers), tasks), logging_dir=logs).run()

    def written(part: str) -> JsonlWriter:
        return JsonlWriter(name[part], compression=None)

    start = time.perf_counter()
    signature = MinhashDedupSignature(name["signatures"], config, language=Languages.korean)
    step(1, shards, JsonlReader(name["in"]), signature)
    step(2, config.num_buckets, MinhashDedupBuckets(name["signatures"], name["buckets"], config=config))
    step(3, 1, MinhashDedupCluster(name["buckets"], name["clusters"], config=config, save_cluster_id=True))
    filtered = MinhashDedupFilter(name["clusters"], written("removed"), load_cluster_ids=True)
    step(4, shards, JsonlReader(name["in"]), filtered, written("out"))
    seconds = time.perf_counter() - start

    similarity = {}
    for line in (work / "planted.jsonl").read_text("utf-8").splitlines():
        pair = json.loads(line)
        left, right = (set(signature.get_shingles(pair[side]).ravel().tolist()) for side in ("base", "variant"))
        similarity[pair["id"]] = len(left & right) / max(1, len(left | right))
    return {"seconds": seconds, "similarity": similarity}


def scrapy(sitemap: str, out: str, concurrency: str) -> None:
    """Crawl the pages of a sitemap with Scrapy, and append each response to one WARC file."""
    import io
    import zlib

    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.spiders import SitemapSpider
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    class Bare(SitemapSpider):
        name = "bare"

        def parse(self, response: Any) -> None:
            writer = WARCWriter(buffer := io.BytesIO(), gzip=False, warc_version="1.1")
            headers = [(name.decode(), value.decode()) for name, values in response.headers.items() for value in values]
            http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
            body = io.BytesIO(response.body)
            record = writer.create_warc_record(
                response.url, "response", payload=body, length=len(response.body), http_headers=http
            )
            writer.write_record(record)
            packer = zlib.compressobj(6, zlib.DEFLATED, 31)
            warc.write(packer.compress(buffer.getvalue()) + packer.flush())

    settings = {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": int(concurrency),
        "CONCURRENT_REQUESTS_PER_DOMAIN": int(concurrency),
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "COOKIES_ENABLED": False,
    }
    process = AsyncCrawlerProcess(settings)
    with Path(out).open("wb") as warc:
        process.crawl(Bare, sitemap_urls=[sitemap])
        process.start()


def kss() -> float:
    """Split the texts of a JSON list on standard input into sentences with kss."""
    from kss import split_sentences

    texts = json.load(sys.stdin)
    split_sentences("문장을 나눈다. 처음에는 느리다.")
    start = time.process_time()
    for text in texts:
        split_sentences([line for line in text.split("\n") if line], backend="auto", num_workers=1)
    return time.process_time() - start


def trainer(path: str) -> dict[str, float]:
    """Train one epoch with Hugging Face Trainer, and return its seconds and the percentage of dev targets that are hit.

    The job is a JSON file that `bench.finetune` writes.
    """
    import numpy as np
    import torch
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        PreTrainedTokenizerFast,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    job = json.loads(Path(path).read_text("utf-8"))
    torch.set_num_threads(job["threads"])
    set_seed(job["seed"])
    tokenizer = PreTrainedTokenizerFast.from_pretrained(job["model"])
    if job["task"] == "nsmc":
        model = AutoModelForSequenceClassification.from_pretrained(job["model"], num_labels=2)
    else:
        model = AutoModelForQuestionAnswering.from_pretrained(job["model"])

    def rows(part: list[Any]) -> list[dict[str, Any]]:
        made = []
        for ids, segments, target in part:
            row = {"input_ids": ids, "token_type_ids": segments, "attention_mask": [1] * len(ids)}
            if job["way"] == "padded":
                row = dict(tokenizer.pad(row, padding="max_length", max_length=job["max_length"]))
            row |= {"labels": target} if job["task"] == "nsmc" else {"start_positions": target[0], "end_positions": target[1]}
            made.append(row)
        return made

    arguments = TrainingArguments(
        output_dir=job["out"],
        per_device_train_batch_size=job["batch_size"],
        per_device_eval_batch_size=128,
        num_train_epochs=1,
        learning_rate=job["learning_rate"],
        bf16=job["precision"] == "bf16",
        warmup_ratio=0.1,
        weight_decay=0.01,
        lr_scheduler_type="linear",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=job["seed"],
        group_by_length=job["way"] == "grouped",
        logging_strategy="no",
    )
    side = Trainer(model=model, args=arguments, train_dataset=rows(job["train"]), processing_class=tokenizer)
    start = time.process_time()
    side.train()
    seconds = time.process_time() - start
    found = side.predict(rows(job["dev"]))
    targets = [target for *_, target in job["dev"]]
    if job["task"] == "nsmc":
        right = np.argmax(found.predictions, axis=-1) == np.array(targets)
    else:
        starts, ends = (np.argmax(found.predictions[n], axis=-1) for n in (0, 1))
        right = [(s, e) == tuple(target) for s, e, target in zip(starts, ends, targets, strict=True)]
    return {"seconds": seconds, "accuracy": 100 * float(np.mean(right))}


def albert(text: str, model: str, out: str) -> dict[str, Any]:
    """Run google-research/albert's script as published: tokenise, pack and mask 40 times, write TFRecords."""
    import tensorflow.compat.v1 as tf
    from albert import create_pretraining_data as script

    flags = {
        "input_file": text,
        "output_file": out,
        "vocab_file": Path(model).with_suffix(".vocab"),
        "spm_model_file": model,
        "do_lower_case": False,
        "max_seq_length": 128,
    }
    script.FLAGS([sys.argv[0], *(f"--{name}={value}" for name, value in flags.items())])
    tf.logging.set_verbosity(tf.logging.ERROR)
    start = time.process_time()
    script.main(None)
    seconds = time.process_time() - start
    instances = tokens = targets = 0
    for record in tf.python_io.tf_record_iterator(out):
        feature = tf.train.Example.FromString(record).features.feature
        instances += 1
        tokens += sum(feature["input_mask"].int64_list.value)
        targets += sum(weight > 0 for weight in feature["masked_lm_weights"].float_list.value)
    size = Path(out).stat().st_size
    return {"seconds": seconds, "examples": instances, "tokens": tokens, "targets": targets, "bytes": size}


def collator(text: str, tokenizer_file: str, out: str) -> dict[str, Any]:
    """Tokenise and pack to 126 pieces with `datasets.map`, and mask batches of 32 with the whole-word collator."""
    import warnings

    import datasets
    from transformers import DataCollatorForWholeWordMask, PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    datasets.disable_caching()
    warnings.simplefilter("ignore")
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file, **names)
    lines = [line for line in Path(text).read_text("utf-8").split("\n") if line]
    table = datasets.Dataset.from_dict({"text": lines})
    collate = DataCollatorForWholeWordMask(tokenizer, mlm_probability=0.15)

    def tokenise(batch: dict[str, list[str]]) -> dict[str, Any]:
        return {"input_ids": tokenizer(batch["text"], add_special_tokens=False)["input_ids"]}

    def pack(batch: dict[str, list[list[int]]]) -> dict[str, Any]:
        ids = [i for sentence in batch["input_ids"] for i in sentence]
        return {"input_ids": [[2, *ids[i : i + 126], 3] for i in range(0, len(ids), 126)]}

    start = time.process_time()
    table = table.map(tokenise, batched=True, remove_columns=["text"], keep_in_memory=True)
    table = table.map(pack, batched=True, keep_in_memory=True)
    tokens = 0
    for begin in range(0, len(table), 32):
        batch = collate([{"input_ids": ids} for ids in table[begin : begin + 32]["input_ids"]])
        tokens += int((batch["input_ids"] != 0).sum())
    return {"seconds": time.process_time() - start, "examples": len(table), "tokens": tokens}


def streaming(arrays: str, out: str) -> dict[str, Any]:
    """Read finished samples with mosaicml-streaming, in order into torch batches of 256, which is its fastest way."""
    import numpy as np
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    samples = np.load(arrays)
    columns = {name: f"ndarray:{samples[name].dtype}:{samples[name].shape[1]}" for name in samples.files}
    loaded = {name: samples[name] for name in samples.files}
    count = len(next(iter(loaded.values())))
    with MDSWriter(out=out, columns=columns) as writer:
        for row in range(count):
            writer.write({name: values[row] for name, values in loaded.items()})
    dataset = StreamingDataset(local=out, shuffle=False, batch_size=256)
    for _ in DataLoader(dataset, batch_size=256):  # Loads the files into the page cache, where ours are.
        pass
    start = time.process_time()
    tokens = sum(int((batch["input_ids"] != 0).sum()) for batch in DataLoader(dataset, batch_size=256))
    size = sum(path.stat().st_size for path in Path(out).rglob("*.mds"))
    return {"seconds": time.process_time() - start, "examples": count, "tokens": tokens, "bytes": size}


PEERS = (namuwiki, datatrove, scrapy, kss, trainer, albert, collator, streaming)


def main() -> None:
    named = {peer.__name__: peer for peer in PEERS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=named, metavar="NAME", help=", ".join(named))
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="those of the function")
    given = parser.parse_args()
    print(json.dumps(named[given.name](*given.arguments)))


if __name__ == "__main__":
    main()
