"""Programs of MXNet operators, the memory they run in, and gradients through them."""
