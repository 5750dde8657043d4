"""Retrieval: collections in BEIR's format, BM25, bi-encoders, and the stage that scores them."""
