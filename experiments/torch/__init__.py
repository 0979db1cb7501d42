"""The experiment's models in PyTorch, written for one sample, and the systems that run them."""
