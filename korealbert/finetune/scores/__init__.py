"""Scores of finished runs and of prediction files: stored predictions, error analysis, statistics, ensembles, certificates."""
