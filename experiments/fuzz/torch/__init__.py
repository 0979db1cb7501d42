"""Programs of PyTorch."""
