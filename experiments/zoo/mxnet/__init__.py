"""The models in MXNet."""
