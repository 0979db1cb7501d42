"""Random programs on sentences of any length, with values and gradients of the eager program."""

from __future__ import annotations

import copy
import importlib.util
import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import gluonjit
from gluonjit.engines.torch.lengths.program import Ragged

PROGRAMS, MOST_ROWS, TOLERANCE = 25, 8, 2e-4
HEADER = """
import torch
from torch import nn

C = 8


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.p = nn.Embedding(9, C), nn.Parameter(torch.randn(16, C) * 0.3)
        self.l1, self.l2, self.ln, self.o = nn.Linear(C, C), nn.Linear(C, C), nn.LayerNorm(C), nn.Linear(C, 1)
        self.cv = nn.Conv1d(C, C, 3, padding=1)
        self.at = nn.MultiheadAttention(C, 2, batch_first=True)

    def attended(self, x, y):
        return self.at(x[None], y[None], y[None], need_weights=False)[0][0]
"""
OPERATORS = {  # by what they give: expressions, each with what it takes
    "r": """torch.tanh({0})|r  self.l1({0})|r  self.ln({0})|r  {0}+{1}|rr  {0}*{1}|rr  {0}*{1}|rf
        {0}+{1}|rk  {1}-{0}|rf
        torch.softmax({0},-1)|r  {0}@{1}|nr  {0}@{1}|ms  torch.cat([{0}[1:],{0}[:1]])|r  {0}.flip(0)|r  {0}.cumsum(0)|r
        {0}*{1}[:,None]|rv  {0}/len({0})|r  {0}.expand(len(t),-1)|k  {0}.unsqueeze(0).expand(len(t),C)|f
        {0}.squeeze(0)|b
        self.cv({0}.t()[None])[0].t()|r  {0}.view(len(t),2,4).transpose(1,2).reshape(len(t),C)|r
        {0}*torch.arange(len(t))[:,None].float().cos()|r  {0}+self.p[:len(t)]|r  {0}.masked_fill((t>4)[:,None],0.)|r
        torch.where((t%2==0)[:,None],{0},{1})|rr  self.attended({0},{1})|rr  self.attended({0},{1})|rs
        {0}-{0}.mean(1,keepdim=True)|r  {0}[torch.arange(len(t)-1,-1,-1)]|r  {0}.roll(1,0)|r
        torch.stack([{0},{1}],1).mean(1)|rr  torch.stack([{0},{1}],0).sum(0)|rr  {0}*(len(t)+1)|r
        torch.relu(torch.cat([{0},{1}],1)[:,3:3+C])|rr  {0}.chunk(2,1)[0].repeat(1,2)|r""",
    "s": "self.l2({0})|s  torch.sigmoid({0})|s  {0}*{1}|sf  {0}.t()@{1}|mr  {0}+{1}|ss",
    "f": """{0}.mean(0)|r  {0}.sum(0)|s  {0}.amax(0)|r  torch.tanh({0})|f  self.l1({0})|f  {0}@{1}|vr  {0}/len(t)|f
        {0}*{1}|ff
        {0}[0]|k  {0}[0]|r  {0}[-1]|r  {0}[len(t)//2]|r  {0}.logsumexp(0)|r  {0}*len(t)|f  {0}*(0.1*len(t))|f
        {0}.topk(max(1,int(0.3*len(t))),0)[0].sum(0)|r  {0}[min(3,len(t)-1)]|r  {0}[:len(t)//2+1].sum(0)|r""",
    "k": "{0}.mean(0,keepdim=True)|r  {0}.unsqueeze(0)|f  self.l2({0})|k  {0}[:1]|r  {0}.mean(1)|b",
    "n": """{0}@{1}.t()|rr  torch.softmax({0},-1)|n  torch.softmax({0},0)|n  {0}*0.3|n  {0}.tril()|n
        {0}+torch.triu(torch.full((len(t),len(t)),-9.),1)|n  ({0}[:,None]-{1}[None]).pow(2).sum(-1).neg()|rr""",
    "m": "{0}@{1}.t()|rs  torch.softmax({0},-1)|m  torch.softmax({0},0)|m  torch.tanh({0}*0.2)|m",
    "v": """{0}.sum(1)|r  torch.softmax({0},0)|v  {0}@{1}|rf  {0}.mean(1)|n  {0}.amax(1)|m  torch.diagonal({0})|n
        self.o({0}).squeeze(-1)|r  {0}+{0}.mean()|v""",
    "b": """{0}.unsqueeze(0)|r  self.l1({0})|b  self.ln({0}+1)|b  {0}*{1}|bb  {0}.transpose(0,1).tanh().transpose(0,1)|b
        self.cv({0}.transpose(1,2)).transpose(1,2)|b  {0}+{1}|bf  {0}*torch.softmax({0},1)|b
        {0}.permute(2,0,1).permute(1,2,0)|b""",
}
TABLE = {kind: [text.rsplit("|", 1) for text in texts.split()] for kind, texts in OPERATORS.items()}


def program(draw: random.Random, two: bool) -> str:
    """The source of a module that calls operators at random."""
    known: dict[str, list[str]] = {kind: [] for kind in TABLE}
    lines = ["        x = self.e(t)"] + ["        y = self.e(u)"] * two
    known["r"], known["s"] = ["x"], ["y"] * two
    for number in range(draw.randint(3, 10)):
        kind = draw.choice(list(TABLE))
        usable = [(text, takes) for text, takes in TABLE[kind] if all(known[one] for one in takes)]
        if usable:
            text, takes = draw.choice(usable)
            lines.append(f"        v{number} = {text.format(*[draw.choice(known[one][-3:]) for one in takes])}")
            known[kind].append(f"v{number}")
    results = [known[kind][-1] for kind in "rfkv" if known[kind] and known[kind][-1].startswith("v")] or ["x * 2"]
    return "\n".join([f"    def forward(self, t{', u' * two}):", *lines, f"        return ({', '.join(results[:3])},)"])


def outcome(net: Any, samples: list[list[Any]]) -> list[Any]:
    """All results and gradients of a minibatch, which runs eagerly if the model is not hybridized."""
    net.zero_grad()
    with gluonjit.batching(granularity="cell") if "_gluonjit" in net.__dict__ else nullcontext() as batch:
        found = [item for sample in samples for item in net(*sample)]
        sum((item * torch.linspace(0.5, 1, item.numel()).view(item.shape)).sum() for item in found).backward()
    assert batch is None or not batch.report.distrusted
    weights = [torch.zeros(()) if weight.grad is None else weight.grad for weight in net.parameters()]
    return [item.detach().clone() for item in (*found, *weights)]


@pytest.mark.parametrize("seed", [1, 2])
def test_programs_agree(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    twos = [draw.random() < 0.5 for _ in range(PROGRAMS)]
    file = tmp_path / f"programs{seed}.py"
    classes = [f"\n\nclass Program{number}(Base):\n{program(draw, two)}\n" for number, two in enumerate(twos)]
    file.write_text(HEADER + "".join(classes))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    joined = 0
    for number, two in enumerate(twos):
        torch.manual_seed(number)
        eager = getattr(module, f"Program{number}")()
        net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
        for _ in range(4):
            lengths = [[draw.randint(1 + (draw.random() < 0.9), MOST_ROWS) for _ in range(1 + two)] for _ in range(5)]
            samples = [[torch.randint(0, 9, (length,)) for length in each] for each in lengths]
            wanted, found = outcome(eager, samples), outcome(net, samples)
            scale = max(float(item.abs().max()) for item in wanted)
            for one, other in zip(wanted, found):
                assert one.shape == other.shape, classes[number]
                limit = TOLERANCE * max(float(one.abs().max()), 0.03 * scale, 1e-2)
                assert float((one - other).abs().max()) <= limit, classes[number]
        joined += any(isinstance(kind.program, Ragged) for kind in net.__dict__["_gluonjit"].kinds.values())
    assert joined > PROGRAMS * 0.7
