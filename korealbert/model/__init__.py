"""Encoders in torch, of ALBERT's, BERT's, RoBERTa's, ELECTRA's and ModernBERT's shapes: configuration, encoder, pretraining heads.

Shapes: B batch, L sequence length, E embedding size, H hidden size, N heads, D = H / N, V vocabulary, P masked slots,
W word-order slots, C word-order classes.
"""
