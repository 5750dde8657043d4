"""The vocabulary: a SentencePiece model, the same as a fast tokenizer, and the interface of both."""
