"""Keeping a store in order: archives of artifacts, and the removal of what nothing refers to."""
