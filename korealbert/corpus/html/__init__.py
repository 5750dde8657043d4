"""News pages: text, metadata and encoding of HTML."""
