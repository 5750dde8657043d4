"""Looking into artifacts: documents, what was dropped and why, what cleaning changed, examples under noise.

Everything is a ``rich.text.Text`` in named styles (``look.py``), so that terminal, pipe and HTML page show the same.
"""
