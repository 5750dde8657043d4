"""Token rows, precomputed noise, and batches: what pre-training reads instead of text."""
