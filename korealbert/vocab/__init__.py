"""The vocabulary: a SentencePiece model, the same as a fast tokenizer, and what the other packages ask of them."""
