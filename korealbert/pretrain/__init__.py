"""Pretraining: from example rows and their views to a trained ALBERT."""
