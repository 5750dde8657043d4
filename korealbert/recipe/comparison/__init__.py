"""What differs between two runs, artifacts or recipes."""
