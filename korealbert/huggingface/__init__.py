"""The checkpoint formats of Hugging Face's ALBERT, BERT, ELECTRA and RoBERTa, read and written without ``transformers``."""
