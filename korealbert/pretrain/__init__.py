"""Pretraining: from example rows and their views to trained weights."""
