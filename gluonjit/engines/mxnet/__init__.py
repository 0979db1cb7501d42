"""The engine for Apache MXNet 1.9.1: capture, operator rules, batched graphs. Importing it imports mxnet."""
