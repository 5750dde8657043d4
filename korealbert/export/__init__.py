"""A trained model in the format that Hugging Face's transformers load, with its model card."""
