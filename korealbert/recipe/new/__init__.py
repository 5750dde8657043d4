"""`korealbert new`: files that a user has, examined, to a recipe of their own."""
