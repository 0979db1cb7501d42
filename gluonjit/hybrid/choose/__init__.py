"""Choices of how a flush is captured and scheduled, or whether calls run eagerly: measured, made and stored."""
