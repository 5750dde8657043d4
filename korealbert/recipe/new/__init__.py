"""`korealbert new`: examines a user's files and writes a recipe for them."""
