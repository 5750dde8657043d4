"""Raw sources to balanced documents: extract, clean, deduplicate, score, balance. Stages exchange Arrow shards of documents."""
