"""Makes graphs.tar.xz: networks that detach values or look up padding, as PyTorch's exporter writes them, and the losses that PyTorch has.

usage: make.py    (needs torch, onnx and onnxscript; not part of the tests)

Each is exported with the exporter's optimizer, which takes the Identity of a detach away, and without. Of what the exporter says of
each node only the traced node is kept: the rest names files of the machine.
"""
import io
import json
import logging
import os
import tarfile
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings('ignore')
logging.disable(logging.CRITICAL)
SAMPLES, BATCH, STEPS = 8, 4, 4


def module(forward, **parts):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            for k, v in parts.items():
                setattr(self, k, v)

    M.forward = forward
    return M()


def L(i, o, **k):
    return nn.Linear(i, o, **k)


def product(s, x):
    a = s.w(x)
    return s.h(torch.relu(a) * a.detach())


def square(s, x): # one value, read as it is and detached
    a = s.w(x)
    return s.h(a * a.detach())


def straight_through(s, x):
    a = s.w(x)
    return s.h(a + (torch.round(a) - a).detach())


def codebook(s, x): # as a VQ-VAE: the codes train by the commitment alone
    a = s.w(x)
    q = F.embedding((a[:, None] - s.codes).square().sum(-1).argmin(-1), s.codes)
    return torch.cat([s.h(a + (q - a).detach()), a.detach() - q], -1) # q - a.detach() would be merged with q - a


def held_weight(s, x): # a weight that trains where it is not detached
    return s.h(F.linear(torch.tanh(s.w(x)), s.w.weight.detach()))


def turned(s, x): # operands in another order than PyTorch's
    a, b = s.w(x), s.v(x)
    return s.h(torch.addmm(s.w.bias, (1 - a).detach() * torch.tanh(b), s.v.weight)) + torch.rsub(torch.tanh(b).detach(), a).sum(-1, keepdim=True)


def boxes(s, x): # refined in steps that do not see each other's gradients; what is detached is an output too
    b = s.w(x)
    first = b.detach()
    for layer in (s.v, s.u):
        b = torch.sigmoid(layer(b.detach()) + torch.logit(torch.sigmoid(b.detach())))
    return s.h(b), first


def chosen(s, x): # a gate that no gradient moves, reshaped on its way
    g = torch.softmax(s.v(x), -1).detach()
    return s.h(torch.where(g > 0.1, s.w(x), torch.stack([g, g], -1).sum(-1)))


def padded(s, i): # its rows move as those of the head, but for padding
    return F.linear(torch.tanh(s.w(s.e(i))).mean(1), s.e.weight)


def positions(s, i): # of tokens that are no padding, as in RoBERTa
    m = (i != 1).long()
    e = s.e(i) + s.p(torch.cumsum(m, 1) * m + 1)
    return s.h(torch.tanh(s.w(e)).mean(1))


W = lambda: dict(w=L(6, 6), h=L(6, 3))
networks = {
    'product': (product, W), 'square': (square, W), 'straight_through': (straight_through, W), 'held_weight': (held_weight, W),
    'codebook': (codebook, lambda: dict(W(), codes=nn.Parameter(torch.randn(5, 6)))),
    'turned': (turned, lambda: dict(W(), v=L(6, 6))), 'boxes': (boxes, lambda: dict(W(), v=L(6, 6), u=L(6, 6))), 'chosen': (chosen, lambda: dict(W(), v=L(6, 6))),
    'padded': (padded, lambda: dict(e=nn.Embedding(9, 6, padding_idx=2), w=L(6, 6))),
    'positions': (positions, lambda: dict(W(), e=nn.Embedding(9, 6, padding_idx=1), p=nn.Embedding(9, 6, padding_idx=1))),
}


def train(m, x, target):
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        at = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
        y = m(x[at])
        loss = F.mse_loss(y[0] if isinstance(y, tuple) else y, target[at])
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(loss.item())
    return losses


facts, files = {}, {}
for name, (forward, parts) in networks.items():
    torch.manual_seed(2)
    m = module(forward, **parts()).eval()
    x = torch.randint(9, (SAMPLES, 5)) if hasattr(m, 'e') else torch.randn(SAMPLES, 6)
    x = torch.where(torch.arange(5)[None] < 3 + torch.arange(SAMPLES)[:, None] % 3, x, m.e.padding_idx) if hasattr(m, 'e') else x
    y = m(x)
    target = torch.randn_like(y[0] if isinstance(y, tuple) else y)
    for optimized in (True, False):
        with tempfile.TemporaryDirectory() as d, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            torch.onnx.export(m, (x[:2],), d + '/m.onnx', input_names=['x'], dynamo=True, external_data=False, verbose=False, optimize=optimized,
                              dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
            model = onnx.load(d + '/m.onnx')
        for n in model.graph.node:
            kept = [(p.key, p.value) for p in n.metadata_props if p.key == 'pkg.torch.onnx.fx_node']
            del n.metadata_props[:]
            for k, v in kept:
                n.metadata_props.add(key=k, value=v)
        del model.graph.value_info[:]
        onnx.checker.check_model(model)
        files[f'{name}{"" if optimized else "-plain"}.onnx'] = model.SerializeToString()
    files[name + '.npz'] = io.BytesIO()
    np.savez(files[name + '.npz'], x=x.numpy(), target=target.numpy())
    files[name + '.npz'] = files[name + '.npz'].getvalue()
    losses = train(m, x, target)
    facts[name] = losses
files['losses.json'] = json.dumps(facts).encode()
with tarfile.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'graphs.tar.xz'), 'w:xz') as t:
    for n, b in sorted(files.items()):
        i = tarfile.TarInfo(n)
        i.size = len(b)
        t.addfile(i, io.BytesIO(b))
print(facts)
