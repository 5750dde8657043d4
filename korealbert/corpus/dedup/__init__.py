"""Deduplication (``candidates.py`` decides which copy stays), repeated passages, and decontamination."""
