"""Raw Korean text in, an evaluated language model in Hugging Face format out."""
