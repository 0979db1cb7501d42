"""Tests that need no framework, or take either."""
