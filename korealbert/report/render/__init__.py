"""Blocks of a report and their renderings: HTML, Markdown, LaTeX, CSV and SVG."""
