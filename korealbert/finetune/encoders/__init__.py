"""Encoders in Hugging Face format: loading them with their tokenizers, pieces and characters, ONNX, and their speed."""
