"""Tests: of `core`, which need no framework or take both, of `mxnet`, of `torch`; what they share is in `common`."""
