"""The engine for Apache MXNet 1.9.1: capture, operator rules, batched graphs. Importing it imports mxnet."""

import mxnet  # noqa: F401 - before the files here, which replace functions of it when its import has ended
