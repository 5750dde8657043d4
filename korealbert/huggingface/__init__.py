"""The checkpoint formats of Hugging Face's ALBERT, BERT, ELECTRA, RoBERTa and ModernBERT, read and written without ``transformers``."""
