"""Other libraries on the same samples and weights, each in an environment and a process of its own."""
