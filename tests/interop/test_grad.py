"""Gradients of whole networks against PyTorch.

usage: test_grad.py PROGRAM

`onnxtrain grad` and PyTorch's autograd on the same graph, weights and batch; per tensor, the norm of
the difference over the norm of PyTorch's gradient in float64 is at most 1e-4.  A gradient that is
zero but for rounding (a bias whose shift a BatchNormalization takes away again) has no relative error:
there ours is small beside the gradient of the whole network.

An element that rounding carries over the kink of a rectifier makes a gradient jump, PyTorch's in f32
as ours.  So each network is also made smooth (Relu becomes Softplus, Clip a Sigmoid): then every batch
must pass.  As it is, it has a few batches to pass with: a wrong rule is wrong on all of them.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    import onnx
except ImportError as e:
    print(f'skipped: {e}')
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_graph

LIMIT = 1e-4
CASES = [  # kind, options, input shape, loss
    ('lenet', [], (1, 28, 28), 'cross_entropy'),
    ('mlp', [], (784,), 'cross_entropy'),
    ('vgg', [], (3, 32, 32), 'cross_entropy'),
    ('resnet18', ['--scale', '0.25'], (3, 32, 32), 'cross_entropy'),
    ('mobilenet', ['--scale', '0.25'], (3, 32, 32), 'cross_entropy'),
    ('autoencoder', [], (1, 28, 28), 'mse'),
    ('lenet', ['--opset', '7'], (1, 28, 28), 'cross_entropy'),
]
SAMPLES, BATCHES, SMOOTH_BATCHES = 8, 4, 2


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()}')


def gradients(path, x, target, loss, dtype):
    g, values = torch_graph.load(path, dtype)
    y = torch_graph.run(g, values, torch.tensor(x, dtype=dtype))
    if loss == 'mse':
        value = F.mse_loss(y, torch.tensor(target, dtype=dtype))
    else:
        value = F.cross_entropy(y, torch.tensor(target))
    value.backward()
    return {n: v.grad.numpy() for n, v in values.items() if v.grad is not None}, value.item()


def distances(got, exact):
    """Per tensor; relative to the whole gradient where the exact one vanishes."""
    whole = np.sqrt(sum(np.linalg.norm(b) ** 2 for b in exact.values()))
    off = {}
    for n, b in exact.items():
        size = np.linalg.norm(b)
        off[n] = float(np.linalg.norm(got[n].astype(np.float64) - b) / (size if size > 1e-9 * whole else whole))
    return off


def unsettle(path, rng):
    """Norms away from 1 and 0: at these a rectifier and the next norm cancel the scale, and what is
    left of its gradient is rounding."""
    m = onnx.load(path)
    for node in m.graph.node:
        if node.op_type != 'BatchNormalization':
            continue
        for t in m.graph.initializer:
            if t.name in node.input[1:3]:
                a = rng.uniform(0.5, 1.5, t.dims) if t.name == node.input[1] else rng.normal(0, 0.5, t.dims)
                t.raw_data = a.astype(np.float32).tobytes()
    onnx.save(m, path)


def smooth(path):
    m = onnx.load(path)
    for node in m.graph.node:
        if node.op_type in ('Relu', 'Clip'):
            node.op_type = 'Softplus' if node.op_type == 'Relu' else 'Sigmoid'
            del node.input[1:], node.attribute[:]
    onnx.save(m, path)


def compare(program, folder, kind, options, shape, loss, seed, is_smooth):
    model, data, out = (f'{folder}/{n}' for n in ('m.onnx', 'x.npz', 'g.npz'))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, *shape)).astype(np.float32)
    target = rng.random((SAMPLES, *shape)).astype(np.float32) if loss == 'mse' else rng.integers(0, 10, SAMPLES)
    np.savez(data, input=x, target=target)
    call(program, 'new', kind, '-o', model, *options)
    unsettle(model, rng)
    if is_smooth:
        smooth(model)
    call(program, 'grad', model, '--data', data, '-o', out, '--loss', loss, '--device', 'cpu')
    ours = dict(np.load(out))
    value = float(ours.pop('loss'))
    exact, want = gradients(model, x, target, loss, torch.float64)
    single, _ = gradients(model, x, target, loss, torch.float32)
    assert set(ours) == set(exact), f'{kind}: gradients of {sorted(set(ours) ^ set(exact))}'
    assert abs(value - want) <= 1e-5 * abs(want), f'{kind}: loss {value} where PyTorch has {want}'
    off = distances(ours, exact)
    worst = max(off, key=off.get)
    torchs = max(distances(single, exact).values())
    print(f'{kind}{" ".join(["", *options])}{", smooth" if is_smooth else ""}: {len(off)} tensors, worst {off[worst]:.1e} ({worst}); PyTorch in f32 {torchs:.1e}')
    return off[worst] <= LIMIT


def main():
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        good = [any(compare(sys.argv[1], folder, *case, seed, False) for seed in range(BATCHES)) and
                all(compare(sys.argv[1], folder, *case, seed, True) for seed in range(SMOOTH_BATCHES)) for case in CASES]
    print(f'{sum(good)} of {len(good)} networks within {LIMIT:g}')
    sys.exit(0 if all(good) else 1)


main()
