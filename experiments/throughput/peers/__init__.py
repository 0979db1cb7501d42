"""Other libraries on the same samples and weights, each in its own environment and process."""
