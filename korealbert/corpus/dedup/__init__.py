"""Deduplication and decontamination."""
