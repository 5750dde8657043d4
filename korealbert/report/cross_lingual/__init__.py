"""The report of a cross-lingual post-training: Chameleon's tables and figure with our numbers."""
