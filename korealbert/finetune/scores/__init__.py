"""Scores of finished runs and of prediction files: kept predictions, error analysis, statistics, ensembles, certificates."""
