"""Programs of MXNet."""
