"""Captures of calls on lazy arrays: cells and operators."""
