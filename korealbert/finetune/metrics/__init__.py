"""Scores of predictions, each times 100 as papers print them."""
