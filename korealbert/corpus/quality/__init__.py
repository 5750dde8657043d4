"""Quality of documents: a classifier and a language model score them, and limits drop or repeat them."""
