"""Programs of PyTorch operators, the memory they run in, and gradients through them."""
