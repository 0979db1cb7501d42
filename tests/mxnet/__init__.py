"""Tests of programs in MXNet."""
