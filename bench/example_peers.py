"""What `bench.examples` runs in the peers' environment; prints one JSON object of counts and processor seconds."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def albert(text: str, model: str, out: str) -> dict[str, Any]:
    """google-research/albert's script as published: tokenise, pack and mask 40 times over, write TFRecords.

    Import and start are not timed.
    """
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
    """`datasets.map` tokenises and packs to 126 pieces, the whole-word collator masks batches of 32."""
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


def streaming(arrays: str, _: str, out: str) -> dict[str, Any]:
    """mosaicml-streaming: the same finished samples as MDS, read in order into torch batches of 256 (its quickest way)."""
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
    for _ in DataLoader(dataset, batch_size=256):  # Files in the page cache, as ours are.
        pass
    start = time.process_time()
    tokens = sum(int((batch["input_ids"] != 0).sum()) for batch in DataLoader(dataset, batch_size=256))
    size = sum(path.stat().st_size for path in Path(out).rglob("*.mds"))
    return {"seconds": time.process_time() - start, "examples": count, "tokens": tokens, "bytes": size}


if __name__ == "__main__":
    print(json.dumps({"albert": albert, "collator": collator, "streaming": streaming}[sys.argv[1]](*sys.argv[2:])))
