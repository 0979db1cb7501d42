"""The engine for PyTorch: capture, operator rules, batched programs. Importing it imports torch."""
