"""Types of tasks, each with the head on top of the encoder that it needs: one answer for an input, tags, spans."""
