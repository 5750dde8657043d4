"""The report: scores first, then everything that explains them, as HTML, Markdown, CSV and SVG."""
