"""Makes graphs.tar.xz: graphs whose sizes, iterations and branches depend on data, and what PyTorch says of them.

usage: make.py

Every graph is written once with onnx.helper and once in PyTorch.  Batches differ in what they decide, so a training
needs several plans over one set of weights.
"""
import io
import os
import tarfile

import numpy as np
import onnx
import torch
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

here = os.path.dirname(os.path.abspath(__file__))
cases = []
rng = np.random.default_rng(3)
KINDS = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int64): T.INT64, np.dtype(bool): T.BOOL}


def node(op, inputs, outputs='y', **attrs):
    return h.make_node(op, [i if i != '-' else '' for i in inputs.split()], outputs.split(), name=f'{op}_{outputs.split()[0]}', **attrs)


def info(name, dtype=T.FLOAT, shape=None):
    return h.make_tensor_value_info(name, dtype, shape)


def body(nodes, inputs=(), outputs=()):
    return h.make_graph(nodes, 'body', [i if not isinstance(i, str) else info(i) for i in inputs], [o if not isinstance(o, str) else info(o) for o in outputs])


def constants():
    ints = {'i0': 0, 'i1': 1, 'i2': 2, 'i9': 9, 'l0': [0], 'l1': [1], 'l2': [2], 'lm1': [-1], 'l01': [0, 1]}
    floats = {'f0': 0.0, 'f1': 1.0, 'half': 0.5, 'ten': 10.0}
    return [numpy_helper.from_array(np.asarray(v, np.int64), k) for k, v in ints.items()] + \
           [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in floats.items()]


def model(nodes, inputs, weights, y_shape):
    """`y` is what the nodes give; the loss is the sum of its squares."""
    nodes = nodes + [node('ReduceSumSquare', 'y', 'loss', keepdims=0)]
    used = {i for n in nodes for i in n.input} | {i for n in nodes for a in n.attribute if a.type == onnx.AttributeProto.GRAPH for i in names(a.g)}
    g = h.make_graph(nodes, 'g', [info(k, KINDS[v.dtype], [None] * v.ndim) for k, v in inputs.items()], [info('y', T.FLOAT, y_shape), info('loss', T.FLOAT, [])],
                     [c for c in constants() if c.name in used] + [numpy_helper.from_array(v, k) for k, v in weights.items()])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 21)], ir_version=10)
    return m


def names(g):
    out = {o.name for o in g.output}
    for n in g.node:
        out |= set(n.input)
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                out |= names(a.g)
    return out


def torch_side(fn, weights, batches, rate):
    """Outputs and gradients of each batch for the weights at the start; losses and weights of a step with each."""
    def once(w, x):
        y = fn({k: torch.tensor(v) for k, v in x.items()}, w)
        return y, (y ** 2).sum()
    first = []
    for x in batches:
        w = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
        y, loss = once(w, x)
        if loss.requires_grad:
            loss.backward()
        first.append((y.detach().numpy(), {k: (v.grad if v.grad is not None else torch.zeros_like(v)).numpy() for k, v in w.items()}))
    w = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
    losses = []
    for x in batches:
        _, loss = once(w, x)
        losses.append(float(loss.detach()))
        for v in w.values():
            v.grad = None
        if loss.requires_grad:
            loss.backward()
        with torch.no_grad():
            for v in w.values():
                if v.grad is not None:
                    v -= rate * v.grad
    return first, losses, {k: v.detach().numpy() for k, v in w.items()}


def check(what, nodes, fn, weights, batches, y_shape=None, rate=0.01):
    """Keeps the graph and, for each batch, a dict of inputs, what is right: x0.NAME, y0, g0.NAME ...; losses and weights of a step with each."""
    first, losses, after = torch_side(fn, weights, batches, rate)
    numbers = {'rate': np.float64(rate), 'losses': np.array(losses)} | {f'after.{k}': v for k, v in after.items()}
    for i, (x, (y, grads)) in enumerate(zip(batches, first)):
        numbers |= {f'x{i}.{k}': v for k, v in x.items()} | {f'y{i}': y} | {f'g{i}.{k}': v for k, v in grads.items()}
    cases.append((what, model(nodes, batches[0], weights, y_shape), numbers))


f32 = np.float32
w = (rng.standard_normal((3, 3)) * 0.5).astype(f32)
v = (rng.standard_normal((3, 3)) * 0.5).astype(f32)


def xs(n, *shape):
    return [rng.standard_normal(shape).astype(f32) for _ in range(n)]


# If: the sum of the batch decides; the branches have weights of their own
yes = body([node('MatMul', 'x w', 'a')], outputs=['a'])
no = body([node('MatMul', 'x v', 'b0'), node('Tanh', 'b0', 'b')], outputs=['b'])
check('If with weights in both branches', [node('ReduceSum', 'x', 's', keepdims=0), node('Greater', 's f0', 'c'), node('If', 'c', 'y', then_branch=yes, else_branch=no)],
      lambda x, p: x['x'] @ p['w'] if x['x'].sum() > 0 else torch.tanh(x['x'] @ p['v']), {'w': w, 'v': v}, [{'x': a} for a in xs(6, 2, 3)])

# statistics that change in one branch alone
yes = body([node('MatMul', 'x w', 'a0'), node('BatchNormalization', 'a0 gain bias mean var', 'a m1 v1', training_mode=1, momentum=0.9)], outputs=['a'])
no = body([node('MatMul', 'x v', 'b')], outputs=['b'])
NORM = {'gain': np.float32([1, 2, 0.5]), 'bias': np.float32([0.1, 0, -0.1])}
check('If with a BatchNormalization in one branch',
      [h.make_node('Constant', [], ['mean'], value=numpy_helper.from_array(np.zeros(3, f32))), h.make_node('Constant', [], ['var'], value=numpy_helper.from_array(np.ones(3, f32))),
       node('ReduceSum', 'x', 's', keepdims=0), node('Greater', 's f0', 'c'), node('If', 'c', 'y', then_branch=yes, else_branch=no)],
      lambda x, p: torch.nn.functional.batch_norm(x['x'] @ p['w'], None, None, p['gain'], p['bias'], True) if x['x'].sum() > 0 else x['x'] @ p['v'],
      {'w': w, 'v': v, **NORM}, [{'x': a - 0.3} for a in xs(6, 4, 3)])

# If whose other branch would fail or give NaN
yes = body([node('MatMul', 'x w', 'a0'), node('Sqrt', 'm', 'a1'), node('Mul', 'a0 a1', 'a')], outputs=['a'])
no = body([node('MatMul', 'x w', 'b')], outputs=['b'])
check('If whose other branch has no number', [node('ReduceSum', 'x', 's0', keepdims=0), node('ReduceSum', 'w', 'sw', keepdims=0), node('Mul', 's0 sw', 'm'),
                                           node('Greater', 'm f0', 'c'), node('If', 'c', 'y', then_branch=yes, else_branch=no)],
      lambda x, p: x['x'] @ p['w'] * torch.sqrt(x['x'].sum() * p['w'].sum()) if x['x'].sum() * p['w'].sum() > 0 else x['x'] @ p['w'], {'w': w}, [{'x': a} for a in xs(6, 2, 3)])

# If with branches of different shapes
yes = body([node('MatMul', 'x w', 'a')], outputs=['a'])
no = body([node('ReduceSum', 'x', 'b0', keepdims=0), node('Mul', 'b0 v', 'b')], outputs=['b'])
check('If with branches of two shapes', [node('ReduceSum', 'x', 's', keepdims=0), node('Greater', 's f0', 'c'), node('If', 'c', 'y', then_branch=yes, else_branch=no)],
      lambda x, p: x['x'] @ p['w'] if x['x'].sum() > 0 else x['x'].sum() * p['v'], {'w': w, 'v': v}, [{'x': a} for a in xs(5, 2, 3)])


# Loops
def loop_body(nodes, outs, state='h_in'):
    return body(nodes, [info('it', T.INT64, []), info('go_in', T.BOOL, []), info(state)], outs)


def rnn(x, w, n):
    for _ in range(n):
        x = torch.tanh(x @ w)
    return x


step = [node('MatMul', 'h_in w', 'h0'), node('Tanh', 'h0', 'h_out')]
keep = [node('Identity', 'go_in', 'go_out')]
GO = info('go_out', T.BOOL, [])
check('Loop whose count is fed', [node('Loop', 'n - x', 'y', body=loop_body(step + keep, [GO, 'h_out']))],
      lambda x, p: rnn(x['x'], p['w'], int(x['n'])), {'w': w}, [{'x': a, 'n': np.array(n)} for a, n in zip(xs(5, 2, 3), (3, 1, 0, 3, 5))])


def until(x, p, most=None):
    n, outs = 0, []
    while most is None or n < most:
        x = x * 1.5 + x @ p['w'] * 0.1
        outs.append(x)
        n += 1
        if float((x.detach() ** 2).sum()) >= 10:
            break
    return x, outs


grow = [node('MatMul', 'h_in w', 'g0'), node('Mul', 'g0 tenth', 'g1'), node('Mul', 'h_in more', 'g2'), node('Add', 'g1 g2', 'h_out'),
        node('ReduceSumSquare', 'h_out', 'q', keepdims=0), node('Less', 'q ten', 'go_out')]
EXTRA = [h.make_node('Constant', [], ['tenth'], value=numpy_helper.from_array(f32(0.1))), h.make_node('Constant', [], ['more'], value=numpy_helper.from_array(f32(1.5)))]
check('Loop until a state is large', EXTRA + [node('Loop', '- - x', 'y', body=loop_body(grow, [GO, 'h_out']))],
      lambda x, p: until(x['x'], p)[0], {'w': w}, [{'x': a * s} for a, s in zip(xs(5, 2, 3), (1, 0.2, 3, 0.5, 1))], rate=1e-3)
check('Loop that ends early, with a count and scan outputs',
      EXTRA + [node('Loop', 'i9 - x', 'last all', body=loop_body(grow + [node('Mul', 'h_out half', 'o')], [GO, 'h_out', 'o'])), node('ReduceSum', 'all l0', 'y', keepdims=0)],
      lambda x, p: torch.stack(until(x['x'], p, 9)[1]).sum(0) * 0.5, {'w': w}, [{'x': a * s} for a, s in zip(xs(4, 2, 3), (1, 0.05, 3, 0.5))], rate=1e-4)

# a branch inside a loop, decided anew in each iteration
inner = node('If', 'c', 'h_out', then_branch=body([node('MatMul', 'h_in w', 'ia')], outputs=['ia']), else_branch=body([node('MatMul', 'h_in v', 'ib')], outputs=['ib']))


def zigzag(x, p):
    for _ in range(3):
        x = x @ p['w'] if x.sum() > 0 else x @ p['v']
    return x


THREE = [h.make_node('Constant', [], ['i3'], value=numpy_helper.from_array(np.int64(3)))]
check('If within a Loop', THREE + [node('Loop', 'i3 - x', 'y', body=loop_body([node('ReduceSum', 'h_in', 's', keepdims=0), node('Greater', 's f0', 'c'), inner] + keep, [GO, 'h_out']))],
      lambda x, p: zigzag(x['x'], p), {'w': w, 'v': v}, [{'x': a} for a in xs(6, 2, 3)])


# greedy search: the next row is looked up by the last scores, until row 0 is met
def greedy(x, p):
    h_, outs = x, []
    for _ in range(6):
        h_ = torch.tanh(h_ @ p['w'])
        best = int(h_.argmax())
        outs.append(h_)
        if best == 0:
            break
        h_ = h_ + p['v'][best]
    return torch.cat(outs).sum(0)


search = [node('MatMul', 'h_in w', 'h0'), node('Tanh', 'h0', 'h1'), node('ArgMax', 'h1', 'best', axis=1, keepdims=0), node('Gather', 'v best', 'row'), node('Add', 'h1 row', 'h_out'),
          node('ReduceSum', 'best', 'b0', keepdims=0), node('Greater', 'b0 i0', 'go_out')]
SIX = [h.make_node('Constant', [], ['i6'], value=numpy_helper.from_array(np.int64(6)))]
check('greedy search', SIX + [node('Loop', 'i6 - x', 'last all', body=loop_body(search, [GO, 'h_out', 'h1'])), node('ReduceSum', 'all l01', 'y', keepdims=0)],
      lambda x, p: greedy(x['x'], p), {'w': w, 'v': v}, [{'x': a} for a in xs(5, 1, 3)], rate=0.02)

# sizes
check('rows picked by NonZero', [node('MatMul', 'x w', 'xw'), node('ReduceSum', 'x lm1', 's', keepdims=0), node('Greater', 's f0', 'c'), node('NonZero', 'c', 'nz'),
                                 node('Squeeze', 'nz l0', 'rows'), node('Gather', 'xw rows', 'y')],
      lambda x, p: (x['x'] @ p['w'])[x['x'].sum(-1) > 0], {'w': w}, [{'x': a} for a in xs(6, 4, 3)])
check('rows picked by what the weights give', [node('MatMul', 'x w', 'xw'), node('ReduceSum', 'xw lm1', 's', keepdims=0), node('Greater', 's f0', 'c'), node('Compress', 'xw c', 'y', axis=0)],
      lambda x, p: (x['x'] @ p['w'])[(x['x'] @ p['w']).sum(-1) > 0], {'w': w}, [{'x': a} for a in xs(6, 4, 3)])


def experts(x, p):
    y = torch.zeros_like(x)
    gate = (x @ p['v']).argmax(-1)
    for e in range(3):
        y = y.index_add(0, (gate == e).nonzero()[:, 0], x[gate == e] @ p['w'] * (e + 1))
    return y


moe = [node('MatMul', 'x v', 'gs'), node('ArgMax', 'gs', 'gate', axis=1, keepdims=0), node('Mul', 'x f0', 'y0')]
for e in range(3):
    moe += [h.make_node('Constant', [], [f'e{e}'], value=numpy_helper.from_array(np.int64(e))), h.make_node('Constant', [], [f'k{e}'], value=numpy_helper.from_array(f32(e + 1))),
            node('Equal', f'gate e{e}', f'm{e}'), node('NonZero', f'm{e}', f'nz{e}'), node('Transpose', f'nz{e}', f'at{e}'), node('Squeeze', f'nz{e} l0', f'r{e}'),
            node('Gather', f'x r{e}', f'x{e}'), node('MatMul', f'x{e} w', f'z{e}'), node('Mul', f'z{e} k{e}', f't{e}'),
            node('ScatterND', f'y{e} at{e} t{e}', f'y{e + 1}' if e < 2 else 'y', reduction='add')]
check('experts', moe, lambda x, p: experts(x['x'], p), {'w': w, 'v': v}, [{'x': a} for a in xs(5, 4, 3)])
check('Slice up to a length that is fed', [node('MatMul', 'x w', 'xw'), node('Slice', 'xw l0 n', 'y')],
      lambda x, p: (x['x'] @ p['w'])[:int(x['n'][0])], {'w': w}, [{'x': a, 'n': np.array([n])} for a, n in zip(xs(4, 4, 3), (2, 4, 2, 1))])
check('Range and Expand by data', [node('ReduceMax', 'k', 'top', keepdims=0), node('Range', 'i0 top i1', 'r'), node('Cast', 'r', 'rf', to=T.FLOAT), node('Unsqueeze', 'rf lm1', 'rc'),
                                   node('MatMul', 'x w', 'xw'), node('Mul', 'rc xw', 'y')],
      lambda x, p: torch.arange(int(x['k'].max()), dtype=torch.float32)[:, None] * (x['x'] @ p['w']), {'w': w},
      [{'x': a, 'k': rng.integers(1, 5, 3)} for a in xs(4, 1, 3)])
check('Resize by data', [node('Unsqueeze', 'x l01', 'x4'), node('Cast', 'n', 'n64', to=T.INT64), node('Concat', 'l1 l1 n64', 'sizes', axis=0), node('MatMul', 'x4 w', 'xw'),
                         node('Resize', 'xw - - sizes', 'y', mode='nearest', coordinate_transformation_mode='asymmetric', nearest_mode='floor')],
      lambda x, p: torch.nn.functional.interpolate((x['x'] @ p['w'])[None, None], size=tuple(int(i) for i in x['n']), mode='nearest'), {'w': w},
      [{'x': a, 'n': np.array(n)} for a, n in zip(xs(3, 2, 3), ([4, 6], [2, 3], [4, 6]))])
check('as many rows as there are different numbers', [node('Unique', 'k', 'u', sorted=1), node('Gather', 'w u', 'y')],
      lambda x, p: p['w'][torch.unique(x['k'])], {'w': w}, [{'k': rng.integers(0, 3, 4)} for _ in range(4)])


def add(tar, name, data):
    i = tarfile.TarInfo(name)
    i.size = len(data)
    tar.addfile(i, io.BytesIO(data))


with tarfile.open(here + '/graphs.tar.xz', 'w:xz') as tar:
    for what, m, numbers in cases:
        packed = io.BytesIO()
        np.savez(packed, **numbers)
        add(tar, what + '/m.onnx', m.SerializeToString())
        add(tar, what + '/numbers.npz', packed.getvalue())
print(f'{len(cases)} graphs')
