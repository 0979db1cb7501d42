"""Cases of PyTorch's rules: calls of single operators, for one sample."""

from torch_rule_cases import layers, picking, pointwise, products, reductions, shaping
from torch_rule_cases.case import CASES, Arg, Case

__all__ = ["CASES", "Arg", "Case", "layers", "picking", "pointwise", "products", "reductions", "shaping"]
