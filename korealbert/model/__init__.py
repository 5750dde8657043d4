"""ALBERT in torch: configuration, encoder with parameter sharing, pre-training heads."""
