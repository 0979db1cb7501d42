"""Cases of PyTorch's rules: calls of single operators, for one sample."""

from torch_rule_cases import layers, pointwise, products, reductions, shaping
from torch_rule_cases.case import CASES, Arg, Case

__all__ = ["CASES", "Arg", "Case", "layers", "pointwise", "products", "reductions", "shaping"]
