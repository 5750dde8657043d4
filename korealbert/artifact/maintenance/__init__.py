"""Maintenance of a store: archives of artifacts, and garbage collection."""
