"""Cells made from source: straight-line tensor code of methods, found once and captured as one node."""

from gluonjit.hybrid.capture.outlining.known import LAYER, LOOKUP, WEIGHT, Known
from gluonjit.hybrid.capture.outlining.outlines import outline_methods, restore

__all__ = ["LAYER", "LOOKUP", "WEIGHT", "Known", "outline_methods", "restore"]
