"""Encoders in torch (ALBERT, BERT, RoBERTa, ELECTRA, ModernBERT): configuration, encoder, pretraining heads.

Shapes: B batch, L sequence length, E embedding size, H hidden size, N heads, D = H / N, V vocabulary, P masked slots,
W word-order slots, C word-order classes, S sequences in a packed row.
"""
