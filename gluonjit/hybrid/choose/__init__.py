"""Choices of how a flush is captured and scheduled, or that calls run eagerly: measured, made and kept."""
