"""Token rows, precomputed noise, and batches: the input of pretraining."""
