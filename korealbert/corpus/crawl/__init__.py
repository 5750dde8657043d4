"""Crawls one site into a pinned snapshot: WARC files and a log that accounts for every URL. Needs the extra ``[crawl]``."""
