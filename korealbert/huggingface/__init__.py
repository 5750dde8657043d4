"""The checkpoint formats of Hugging Face's ALBERT, BERT and RoBERTa, read and written without ``transformers``."""
