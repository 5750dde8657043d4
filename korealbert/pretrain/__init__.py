"""Pretraining: from example rows and their views to trained weights.

The flow's process (``stage.py``) sends a ``Job`` to the ranks (``worker.py``), whose loop is ``trainer.py``.
"""
