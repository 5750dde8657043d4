"""The report of a cross-lingual post-training: the tables and the figure of Chameleon in their layout, with ours."""
