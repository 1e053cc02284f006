"""Makes graphs.tar.xz: small networks as PyTorch's exporters write them, and which of their tensors are parameters.

usage: make.py [NAME...]    (needs torch and onnx; not part of the tests; NAME: only these, and prints what changes)

The truth is found without looking at names: a network is exported twice, the second time with all of its parameters
changed. A tensor of the file that changed comes from parameters; one that did not is a constant of the computation.
"""
import io
import json
import logging
import math
import os
import sys
import tarfile
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F
from onnx import numpy_helper

warnings.filterwarnings('ignore')
logging.disable(logging.CRITICAL)


def module(forward, **parts):
    """A module of named parts; a tensor among them is a buffer unless it is a Parameter."""
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            for k, v in parts.items():
                if isinstance(v, torch.Tensor) and not isinstance(v, nn.Parameter):
                    self.register_buffer(k, v)
                else:
                    setattr(self, k, v)

    M.forward = forward
    return M()


def P(*shape, fill=None):
    return nn.Parameter(torch.randn(*shape) if fill is None else torch.full(shape, float(fill)))


def attend(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return (s if mask is None else s + mask).softmax(-1) @ v


def causal_attention():
    def f(s, x):
        mask = torch.triu(torch.full((6, 6), -3.4e38), 1)[None]
        q, k, v = s.qkv(x).chunk(3, -1)
        return s.out(attend(q, k, v, mask)).mean(1)
    return module(f, qkv=nn.Linear(8, 24), out=nn.Linear(8, 4)), torch.randn(1, 6, 8)


def empty_mask():
    def f(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        return s.out(attend(q, k, v, torch.zeros(1, 6, 6))).mean(1)
    return module(f, qkv=nn.Linear(8, 24), out=nn.Linear(8, 4)), torch.randn(1, 6, 8)


def window_mask():
    m = torch.zeros(1, 6, 6)
    m[:, :3, 3:] = m[:, 3:, :3] = -100

    def f(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        return s.out(attend(q, k, v, s.attn_mask)).mean(1)
    return module(f, qkv=nn.Linear(8, 24), out=nn.Linear(8, 4), attn_mask=m), torch.randn(1, 6, 8)


def encoder():
    e = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0)
    for p in e.parameters(): # equal ones would become one tensor
        nn.init.normal_(p)
    return module(lambda s, x: s.head(s.e(x).mean(1)), e=e, head=nn.Linear(8, 3)), torch.randn(1, 5, 8)


def gpt():
    def f(s, i):
        x = s.wte(i) + s.wpe(torch.arange(6))
        q, k, v = s.qkv(s.ln(x)).chunk(3, -1)
        x = x + attend(q, k, v, torch.triu(torch.full((6, 6), float('-inf')), 1)[None])
        return s.head(x)
    return module(f, wte=nn.Embedding(20, 8), wpe=nn.Embedding(6, 8), ln=nn.LayerNorm(8), qkv=nn.Linear(8, 24),
                  head=nn.Linear(8, 20, bias=False)), torch.randint(20, (1, 6))


def groupnorm():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)), torch.randn(1, 3, 6, 6)


def layerscale():
    def f(s, x):
        x = s.c(x)
        return s.head((x + s.d(x) * s.gamma[:, None, None]).mean((2, 3)))
    return module(f, c=nn.Conv2d(3, 8, 3), d=nn.Conv2d(8, 8, 1), gamma=P(8, fill=1e-5), head=nn.Linear(8, 3)), torch.randn(1, 3, 6, 6)


def weight_norm():
    w = torch.nn.utils.parametrizations.weight_norm
    return nn.Sequential(w(nn.Conv1d(3, 8, 3)), nn.ReLU(), nn.Flatten(), w(nn.Linear(32, 3))), torch.randn(1, 3, 6)


def weight_standardisation():
    def f(s, x):
        w = s.c.weight
        v, m = torch.var_mean(w, dim=(1, 2, 3), keepdim=True, unbiased=False)
        x = F.conv2d(x, (w - m) / torch.sqrt(v + 1e-5) * s.gain, s.c.bias)
        return s.head(x.relu().mean((2, 3)))
    return module(f, c=nn.Conv2d(3, 8, 3), gain=P(8, 1, 1, 1), head=nn.Linear(8, 3)), torch.randn(1, 3, 6, 6)


def temperature():
    def f(s, x):
        a = F.normalize(s.a(x), dim=-1)
        return a @ F.normalize(s.text, dim=-1).t() * s.logit_scale.exp().clamp(max=100)
    return module(f, a=nn.Linear(8, 6), text=P(5, 6), logit_scale=nn.Parameter(torch.tensor(2.6))), torch.randn(1, 8)


def gates():
    def f(s, x):
        a = torch.sigmoid(s.alpha)
        return s.head(a * s.a(x) + (1 - a) * s.b(x) * s.residual)
    return module(f, a=nn.Linear(8, 6), b=nn.Linear(8, 6), alpha=P(6), residual=nn.Parameter(torch.tensor(0.5)), head=nn.Linear(6, 3)), torch.randn(1, 8)


def lstm_cell():
    def f(s, x):
        h, c = torch.zeros(1, 6), torch.zeros(1, 6)
        for t in range(3):
            h, c = s.cell(x[:, t], (h, c))
        return s.head(h)
    return module(f, cell=nn.LSTMCell(4, 6), head=nn.Linear(6, 3)), torch.randn(1, 3, 4)


def state_space():
    def f(s, x):
        state, y = torch.zeros(1, 6, 4), []
        for t in range(3):
            state = torch.exp(-torch.exp(s.A_log)) * state + x[:, t, :, None] * s.b(x[:, t])[:, None, :]
            y.append((state * s.c(x[:, t])[:, None, :]).sum(-1) + s.D * x[:, t])
        return s.head(torch.stack(y, 1).mean(1))
    return module(f, A_log=P(6, 4), b=nn.Linear(6, 4), c=nn.Linear(6, 4), D=P(6), head=nn.Linear(6, 3)), torch.randn(1, 3, 6)


def sinusoids():
    p = torch.arange(6.)[:, None] * torch.exp(torch.arange(0, 8, 2) * (-math.log(1e4) / 8))
    pe = torch.stack((p.sin(), p.cos()), -1).flatten(1)[None]
    return module(lambda s, x: s.head((s.a(x) + s.pe).relu().mean(1)), a=nn.Linear(8, 8), head=nn.Linear(8, 3), pe=pe), torch.randn(1, 6, 8)


def rotary():
    def f(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        a = torch.outer(torch.arange(6.), s.inv_freq)
        a = torch.cat((a, a), -1)
        turn = lambda z: z * a.cos() + torch.cat((-z[..., 4:], z[..., :4]), -1) * a.sin()
        return s.head(attend(turn(q), turn(k), v).mean(1))
    return module(f, qkv=nn.Linear(8, 24), inv_freq=1 / 1e4 ** (torch.arange(0, 8, 2) / 8), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def anchors():
    def f(s, x):
        y = s.c(x).flatten(2)
        g = torch.meshgrid(torch.arange(4.) + 0.5, torch.arange(4.) + 0.5, indexing='ij')
        at, stride = torch.stack((g[1], g[0])).flatten(1)[None], torch.full((1, 16), 8.)
        stride[:, 8:] = 16
        low, high = at - y[:, :2], at + y[:, 2:4]
        return torch.cat(((low + high) / 2 * stride, (high - low) * stride, y[:, 4:].sigmoid()), 1)
    return module(f, c=nn.Conv2d(3, 7, 3)), torch.randn(1, 3, 6, 6)


def attention_biases():
    i = torch.randint(9, (6, 6))

    def f(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        return s.head(attend(q, k, v, s.attention_biases[:, i]).mean(1))
    return module(f, qkv=nn.Linear(8, 24), attention_biases=P(1, 9), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def relative_embeddings():
    def f(s, x):
        r = s.q(s.ln(s.rel_embeddings.weight))
        return s.head((s.q(x) @ r.t()).softmax(-1) @ r).mean(1)
    return module(f, q=nn.Linear(8, 8), ln=nn.LayerNorm(8), rel_embeddings=nn.Embedding(5, 8), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def actnorm():
    return module(lambda s, x: s.head(((s.a(x) - s.shift) / s.scale).tanh()), a=nn.Linear(8, 6), shift=P(6), scale=P(6), head=nn.Linear(6, 3)), torch.randn(1, 8)


def gem():
    def f(s, x):
        return s.head(s.c(x).clamp(min=1e-6).pow(s.p).mean((2, 3)).pow(1 / s.p))
    return module(f, c=nn.Conv2d(3, 8, 3), p=P(1, fill=3), head=nn.Linear(8, 3)), torch.randn(1, 3, 6, 6)


def mask_token():
    def f(s, x):
        hide = torch.arange(6) % 2 == 0
        return s.head(torch.where(hide[None, :, None], s.mask_token, s.a(x)).tanh().mean(1))
    return module(f, a=nn.Linear(8, 8), mask_token=P(1, 1, 8), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def class_token():
    def f(s, x):
        x = torch.cat((s.cls_token.expand(x.shape[0], -1, -1), s.a(x)), 1) + s.pos_embed
        return s.head(s.e(x)[:, 0])
    return module(f, a=nn.Linear(8, 8), cls_token=P(1, 1, 8, fill=0), pos_embed=P(1, 7, 8), e=nn.Linear(8, 8), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def prelu():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.PReLU(), nn.Conv2d(8, 8, 3), nn.PReLU(8), nn.Flatten(), nn.Linear(32, 3)), torch.randn(1, 3, 6, 6)


def normalised_pictures():
    m, d = torch.tensor([.485, .456, .406])[:, None, None], torch.tensor([.229, .224, .225])[:, None, None]
    return module(lambda s, x: s.head(s.c((x - s.m) / s.d).mean((2, 3))), c=nn.Conv2d(3, 8, 3), head=nn.Linear(8, 3), m=m, d=d), torch.rand(1, 3, 6, 6)


def lora():
    def f(s, x):
        return s.head(F.linear(x, s.a.weight + s.up @ s.down * 0.5, s.a.bias))
    return module(f, a=nn.Linear(8, 6), up=P(6, 2), down=P(2, 8), head=nn.Linear(6, 3)), torch.randn(1, 8)


def upsampled():
    def f(s, x):
        return s.d(F.interpolate(s.c(x), size=(7, 7), mode='bilinear', align_corners=False)).mean((2, 3))
    return module(f, c=nn.Conv2d(3, 8, 3), d=nn.Conv2d(8, 3, 3)), torch.randn(1, 3, 6, 6)


def queries():
    def f(s, x):
        return s.head(s.ln(attend(s.ln(s.query), s.k(x), x)))
    return module(f, query=P(1, 4, 8), k=nn.Linear(8, 8), ln=nn.LayerNorm(8), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def told():
    """What only the file's own list of parameters and buffers tells apart."""
    def f(s, x):
        w = s.experts[(x[:, 0] > 0).long()]
        return s.head((s.a(x * s.gain) + s.noise) @ s.basis + torch.einsum('bi,bij->bj', x, w))
    return module(f, a=nn.Linear(8, 6), gain=P(8), noise=torch.randn(6), basis=torch.randn(6, 6), experts=P(2, 8, 6), head=nn.Linear(6, 3)), torch.randn(1, 8)


def validity():
    """What the exporter computed as numbers of another type: which positions are inside, how many a window holds."""
    def f(s, x):
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing='ij'), -1).view(1, 16, 2)
        inside = ((at >= 0) & (at < 4)).all(-1, keepdim=True)
        pooled = F.adaptive_avg_pool2d(s.c(x.transpose(1, 2).reshape(-1, 6, 4, 4)), 3).flatten(1)
        return s.head(inside.to(x.dtype) * s.a(x).relu()).mean(1) + s.b(pooled)
    return module(f, a=nn.Linear(6, 8), c=nn.Conv2d(6, 2, 2, 2), b=nn.Linear(18, 3), head=nn.Linear(8, 3)), torch.randn(1, 16, 6)


def normed_queries():
    """A parameter that a norm reads first."""
    def f(s, x):
        return s.head(attend(s.q(s.ln(s.query.expand(x.shape[0], -1, -1))), s.k(x), x))
    return module(f, query=P(1, 4, 8), q=nn.Linear(8, 8), k=nn.Linear(8, 8), ln=nn.LayerNorm(8), head=nn.Linear(8, 3)), torch.randn(1, 6, 8)


def experts():
    """Weights that each sample looks up by two numbers, as mixtures of experts do."""
    def f(s, x):
        to = (x[:, :2] > 0).long()
        w = s.w[to[:, 0], to[:, 1]]
        return s.head(torch.bmm(w, x[:, :, None])[..., 0])
    return module(f, w=P(2, 2, 6, 8), head=nn.Linear(6, 3)), torch.randn(1, 8)


def frozen_norms():
    """torchvision's FrozenBatchNorm2d, all of buffers, and a norm of own making, whose weight and bias are parameters."""
    def frozen(s, x):
        w, b, v, m = (t.reshape(1, -1, 1, 1) for t in (s.weight, s.bias, s.running_var, s.running_mean))
        scale = w * (v + 1e-5).rsqrt()
        return x * scale + (b - m * scale)

    def own(s, x):
        m, v, w, b = (t[None, :, None, None] for t in (s.running_mean, s.running_var, s.weight, s.bias))
        return (x - m) / torch.sqrt(v + 1e-5) * w + b
    parts = lambda made: dict(weight=made(torch.rand(8) + 0.5), bias=made(torch.randn(8)), running_mean=torch.randn(8), running_var=torch.rand(8) + 0.5)
    return module(lambda s, x: s.head(s.own(s.d(s.bn(s.c(x)).relu())).mean((2, 3))), c=nn.Conv2d(3, 8, 3, bias=False), d=nn.Conv2d(8, 8, 1, bias=False),
                  bn=module(frozen, **parts(lambda t: t)), own=module(own, **parts(nn.Parameter)), head=nn.Linear(8, 3)), torch.randn(1, 3, 6, 6)


networks = [causal_attention, empty_mask, window_mask, encoder, gpt, groupnorm, layerscale, weight_norm, weight_standardisation, temperature,
            gates, lstm_cell, state_space, sinusoids, rotary, anchors, attention_biases, relative_embeddings, actnorm, gem, mask_token, class_token,
            prelu, normalised_pictures, lora, upsampled, queries, told, validity, normed_queries, experts, frozen_norms]
forms = {'dynamo': dict(dynamo=True, opset_version=20, external_data=False),
         'plain': dict(dynamo=True, optimize=False, opset_version=20, external_data=False),
         'script': dict(dynamo=False, opset_version=17), 'unfolded': dict(dynamo=False, opset_version=17, do_constant_folding=False)}
# with the metadata of the graph, which the others lose so that the file alone is judged
forms['told'], forms['listed'] = forms['plain'], forms['dynamo']


def forms_of(make):
    return {told: ['told'], validity: ['listed'], frozen_norms: ['plain', 'unfolded']}.get(make, ['dynamo', 'plain', 'script'])


def export(net, x, form):
    with tempfile.TemporaryDirectory() as d, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        torch.onnx.export(net, (x,), d + '/m.onnx', **forms[form])
        m = onnx.load(d + '/m.onnx')
    for n in m.graph.node:
        del n.metadata_props[:]
        n.doc_string = ''
    for v in m.graph.value_info:
        del v.metadata_props[:]
    for t in m.graph.initializer:
        del t.metadata_props[:]
    del m.metadata_props[:], m.graph.value_info[:]
    if form not in ('told', 'listed'):
        del m.graph.metadata_props[:]
    return m


def tensors(m):
    t = {i.name: numpy_helper.to_array(i) for i in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type == 'Constant':
            t.update({n.output[0]: numpy_helper.to_array(a.t) for a in n.attribute if a.name == 'value'})
    return {k: v for k, v in t.items() if v.dtype == np.float32}


def truth(make, form):
    torch.manual_seed(0)
    net, x = make()
    net.eval()
    m = export(net, x, form)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    a, b = tensors(m), tensors(export(net, x, form))
    assert set(a) == set(b), set(a) ^ set(b)
    return m, sorted(k for k in a if not np.array_equal(a[k], b[k]))


if __name__ == '__main__':
    here = os.path.dirname(os.path.abspath(__file__))
    out = {}
    with tarfile.open(here + '/graphs.tar.xz', 'w:xz') if not sys.argv[1:] else tempfile.TemporaryFile() as tar:
        def put(name, data):
            if sys.argv[1:]:
                return open('/tmp/' + name, 'wb').write(data)
            i = tarfile.TarInfo(name)
            i.size = len(data)
            tar.addfile(i, io.BytesIO(data))
        for make in networks:
            for form in forms_of(make):
                if sys.argv[1:] and make.__name__ not in sys.argv[1:]:
                    continue
                try:
                    m, trained = truth(make, form)
                except Exception as e:
                    print(f'{make.__name__} {form}: {type(e).__name__}: {str(e)[:100]}')
                    continue
                name = f'{make.__name__}-{form}.onnx'
                out[name] = trained
                put(name, m.SerializeToString())
        put('trained.json', json.dumps(out, indent=1).encode())
    print(len(out), 'graphs')
