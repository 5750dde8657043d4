"""What data rooms hand to each other: documents, their Arrow files and shards, and official benchmark files."""
