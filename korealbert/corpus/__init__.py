"""Raw sources to balanced documents: extract, clean, deduplicate, balance; Arrow shards of documents between them."""
