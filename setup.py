"""For tools that still call setup.py; everything about the package is in pyproject.toml."""

from setuptools import setup

setup()
