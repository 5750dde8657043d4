"""`korealbert inspect`: documents, dropped documents with the reason, changes by cleaning, training examples with their noise.

Everything is a ``rich.text.Text`` in named styles (``look.py``), so terminal, pipe and HTML page show the same.
"""
