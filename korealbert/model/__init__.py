"""Encoders in torch, shaped as ALBERT, BERT, RoBERTa, ELECTRA and ModernBERT: configuration, encoder, pretraining heads.

Shapes: B batch, L sequence length, E embedding size, H hidden size, N heads, D = H / N, V vocabulary, P masked slots,
W word-order slots, C word-order classes.
"""
