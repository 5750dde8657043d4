"""The table of an ablation as its paper prints it: our means with intervals above the printed numbers."""
