"""What PyTorch's exporters lose, a proof for each that a file cannot tell it.

usage: lost.py    (needs torch, onnx, onnxscript, transformers)
"""
import io
import logging
import math
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout

import onnx
import torch
import torch.nn as nn

warnings.filterwarnings('ignore')
logging.disable(logging.CRITICAL)


def exported(module, *x, **more):
    f = io.BytesIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        torch.onnx.export(module, x, f, **({'training': torch.onnx.TrainingMode.TRAINING, 'do_constant_folding': False} if not more.get('dynamo') else {'external_data': False, 'verbose': False}), **more)
    return f.getvalue()


class Added(nn.Module):
    def __init__(self, buffer):
        super().__init__()
        torch.manual_seed(0)
        self.fc, zeros = nn.Linear(4, 6), torch.zeros(1, 6)
        if buffer:
            self.register_buffer('final_logits_bias', zeros)
        else:
            self.final_logits_bias = nn.Parameter(zeros)

    def forward(self, x):
        return self.fc(x) + self.final_logits_bias


class Codes(nn.Module):
    def __init__(self, detached):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.detached = nn.Linear(4, 4), nn.Linear(4, 4), detached

    def forward(self, x):
        a, q = self.a(x), self.b(x)
        return torch.cat([q - a, q - (a.detach() if self.detached else a)], -1)


def buffer():
    """bart-tt: TorchScript's exporter writes a buffer and a parameter as the same bytes."""
    return exported(Added(True), torch.ones(2, 4), dynamo=False) == exported(Added(False), torch.ones(2, 4), dynamo=False)


def own_backward():
    """yoso-d1: the module's backward is not the derivative of its forward, and files hold the forward alone."""
    from transformers.models.yoso.modeling_yoso import YosoCumulation
    torch.manual_seed(0)
    q, k, v = (nn.functional.normalize(torch.randn(1, 3, 4, dtype=torch.float64), dim=-1).requires_grad_() for _ in range(3))
    m = torch.ones(1, 3, dtype=torch.float64)
    plain = lambda q, k, v: (1 - torch.acos(q @ k.transpose(-1, -2)) / math.pi) ** 9 @ v
    given = lambda q, k, v: YosoCumulation.apply(m, m, q, k, v, {'hash_code_len': 9})
    same = torch.allclose(plain(q, k, v), given(q, k, v))
    return same and torch.autograd.gradcheck(plain, (q, k, v)) and not torch.autograd.gradcheck(given, (q, k, v), raise_exception=False)


def merged():
    """Two equal nodes, one of which reads a detached value: the exporter's optimizer leaves one; optimize=False both."""
    subs = lambda **more: sum(n.op_type == 'Sub' for n in onnx.load_from_string(exported(Codes(True), torch.ones(2, 4), dynamo=True, **more)).graph.node)
    return subs() == 1 and subs(optimize=False) == 2


failed = 0
for proof in (buffer, own_backward, merged):
    holds = proof()
    failed += not holds
    print(f"{'proven' if holds else 'NOT SO'}: {proof.__doc__}")
sys.exit(failed > 0)
