"""PyTorch as the engine sees it: its tensors, layers and functions, and what a program writes to."""
