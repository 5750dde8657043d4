"""How good a text is: classifier, perplexity, and what follows for the corpus."""
