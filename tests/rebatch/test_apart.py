"""Graphs that tell batches apart, against ONNX Runtime: a larger batch gives what one batch of the file's own size after the
other gives, and the loss trains as it follows from that.

usage: test_apart.py PROGRAM [--only TEXT] [-v]
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

from graphs import TensorProto, graphs, loss_model, losses, mixing, model, numpy_helper, opset, repeated

onnxruntime.set_default_logger_severity(4)


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)
    assert not r.returncode, f"{arguments[0]}: exit {r.returncode}: {' / '.join(r.stderr.strip().splitlines()[-3:])}"
    return r.stdout + r.stderr


def apart(m, x, batch):
    """One batch of the file's own size after the other; the last filled up with the samples again, which are cut off."""
    s = onnxruntime.InferenceSession(m.SerializeToString())
    full = -(-len(x) // batch) * batch
    x = x[np.arange(full) % len(x)]
    y = np.concatenate([s.run(None, {'x': x[i:i + batch]})[0] for i in range(0, full, batch)])
    return y


def one(program, name, samples, folder, verbose):
    m, (batch, sample, out, _, _) = model(name), graphs[name]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((samples, *sample)).astype(np.float32)
    want = apart(m, x, batch)
    if samples % batch:
        want = want[:samples * out[0] // batch]
    path, data, y, g = (os.path.join(folder, f) for f in ('m.onnx', 'x.npz', 'y.npz', 'g.npz'))
    onnx.save(m, path)
    np.savez(data, x=x)
    call(program, 'run', path, '--data', data, '-o', y)
    got = np.load(y)['y']
    assert got.shape == want.shape, f'{got.shape}, wants {want.shape}'
    off = np.abs(got - want).max()
    assert off < 1e-5, f'forward off by {off:.2g}'
    said = call(program, 'check', path, '--batch-size', str(samples))
    assert ("of a batch: the fixed batch size" in said) == (name in mixing), 'mixes samples, unsaid' if name in mixing else 'is said to mix samples'
    if want.shape[0] != samples:
        return # no target per sample
    target = rng.standard_normal(want.shape).astype(np.float32)
    np.savez(data, x=x, target=target)
    said = call(program, 'grad', path, '--data', data, '--loss', 'mse', '-o', g)
    assert ('once for each' in said) == (name in repeated), 'has a rule now' if name in repeated else 'now runs once per batch'
    if verbose:
        print('   ', *[line for line in said.splitlines() if 'fixed batch' in line or 'once for each' in line], sep='\n    ')
    grads = np.load(g)
    loss = lambda w: np.mean((apart(w, x, batch)[:samples].astype(np.float64) - target) ** 2)
    assert abs(grads['loss'] - loss(m)) < 1e-5 * max(1, loss(m)), f"loss {grads['loss']}, wants {loss(m)}"
    way = rng.standard_normal(grads['w'].shape)
    ends = []
    for h in (1e-2, -1e-2):
        w = onnx.ModelProto.FromString(m.SerializeToString())
        for t in w.graph.initializer:
            if t.name == 'w':
                t.CopyFrom(numpy_helper.from_array((numpy_helper.to_array(t) + h * way).astype(np.float32), 'w'))
        ends.append(loss(w))
    wants, gives = (ends[0] - ends[1]) / 2e-2, float((grads['w'] * way).sum())
    assert abs(wants - gives) < 2e-3 * max(1, abs(wants)), f'gradient {gives}, wants {wants}'


def loss_in_graph(program, name, folder):
    """With the batch baked in, and open: the same loss and the same gradient."""
    rng = np.random.default_rng(3)
    _, _, target, kind = losses[name]
    t = rng.integers(0, 3, (8, *target)) if kind == TensorProto.INT64 else rng.standard_normal((8, *target)).astype(np.float32)
    found = []
    for batch in (1, 'n') if name != 'loss_kept' else (1,):
        path, data, g = (os.path.join(folder, f) for f in ('m.onnx', 'x.npz', 'g.npz'))
        onnx.save(loss_model(name, batch), path)
        np.savez(data, x=np.random.default_rng(4).standard_normal((8, 6)).astype(np.float32), t=t)
        call(program, 'grad', path, '--data', data, '--loss', 'output', '-o', g)
        found.append(dict(np.load(g)))
    if name == 'loss_kept':
        m = onnxruntime.InferenceSession(loss_model(name, 1).SerializeToString())
        x = np.load(data)['x']
        found.append({'loss': np.mean([m.run(None, {'x': x[i:i + 1], 't': t[i:i + 1]})[0] for i in range(8)])})
    for k in found[1]:
        off = np.abs(found[0][k] - found[1][k]).max()
        assert off < 1e-5, f'{k} off by {off:.2g}'


def main():
    p = argparse.ArgumentParser()
    p.add_argument('program')
    p.add_argument('--only', default='')
    p.add_argument('-v', action='store_true')
    a = p.parse_args()
    wrong = done = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in graphs:
            batch = graphs[name][0]
            for samples in (4 * batch, 3 * batch - 1) if batch > 1 and graphs[name][2][0] == batch else (4 * batch,):
                if a.only not in name:
                    continue
                if opset(name) > 20 and tuple(map(int, onnxruntime.__version__.split('.')[:2])) < (1, 23):
                    print('skip', name, 'ONNX Runtime', onnxruntime.__version__)
                    continue
                done += 1
                try:
                    one(a.program, name, samples, folder, a.v)
                    print('ok  ', name, samples)
                except AssertionError as e:
                    wrong += 1
                    print('OFF ', name, samples, e)
        for name in losses:
            if a.only in name:
                done += 1
                try:
                    loss_in_graph(a.program, name, folder)
                    print('ok  ', name)
                except AssertionError as e:
                    wrong += 1
                    print('OFF ', name, e)
    print(f'{done - wrong} of {done}')
    return wrong != 0 or not done


if __name__ == '__main__':
    sys.exit(main())
