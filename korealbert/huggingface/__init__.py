"""Hugging Face's checkpoints of ALBERT, BERT, ELECTRA, RoBERTa and ModernBERT, read and written without ``transformers``."""
