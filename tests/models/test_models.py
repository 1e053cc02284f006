"""Real models the whole way: forward, gradient, training, export, with ONNX Runtime as judge.

usage: test_models.py PROGRAM [--only TEXT] [-v]     (every .onnx beside this file)
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
onnxruntime.set_default_logger_severity(4)


class Off(Exception):
    """The model fails; the text says where."""


def need(ok, text):
    if not ok:
        raise Off(text)


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)
    need(r.returncode == 0, f"{arguments[0]}: exit {r.returncode}: {' / '.join(r.stderr.strip().splitlines()[-3:])}")


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), options)


def tensors(model):
    found = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == 'Constant':
            found.update({node.output[0]: a.t for a in node.attribute if a.name == 'value'})
    return found


def make_samples(s, rng):
    """Two samples, apart: a baked batch of 1 takes one at a time, and is re-batched by us."""
    i = s.get_inputs()[0]
    shape = [d if isinstance(d, int) and d > 0 else 1 for d in i.shape]
    return i.name, [(0.1 * rng.standard_normal(shape)).astype(np.float32) for _ in range(2)]


class Judge:
    """The mean squared error of ONNX Runtime's output over the samples, in float64."""

    def __init__(self, name, samples, target):
        self.name, self.samples, self.target = name, samples, target

    def loss(self, model):
        s = session(model)
        out = np.concatenate([s.run(None, {self.name: x})[0] for x in self.samples])
        return float(np.mean((out.astype(np.float64) - self.target) ** 2))


def check_gradient(judge, model, gradients, loss):
    base = judge.loss(model)
    need(abs(loss - base) <= 1e-3 * max(base, 1e-6), f'loss {loss:.7g}, wants {base:.7g}')
    own, tested = tensors(model), 0
    for name, g in gradients.items():
        need(name in own, f'{name} is no initializer')
        size = np.linalg.norm(g.astype(np.float64))
        if size < 1e-6 * max(base, 1):
            continue
        w, best = numpy_helper.to_array(own[name]), np.inf
        # A step that is too long bends, one that is too short drowns in float32: the best of several counts.
        for h in (1e-3, 1e-2, 1e-4, 1e-1, 1e-5):
            side = []
            for sign in (1, -1):
                moved = onnx.ModelProto()
                moved.CopyFrom(model)
                value = (w + sign * h * (g.astype(np.float64) / size)).astype(w.dtype)
                tensors(moved)[name].CopyFrom(numpy_helper.from_array(value, tensors(moved)[name].name))
                side.append(judge.loss(moved))
            best = min(best, abs((side[0] - side[1]) / (2 * h) - size) / size)
            if best < 0.01:
                break
        need(best < 0.03, f'gradient of {name} off by {best:.2g}')
        tested += 1
    need(tested, 'no gradient to test')


def check_export(before, after, moving):
    need(any(tensors(after)[n] != tensors(before)[n] for n in moving), 'no weight moved')
    back = onnx.ModelProto()
    back.CopyFrom(after)
    for n in moving:
        tensors(back)[n].CopyFrom(tensors(before)[n])
    need(back.SerializeToString(deterministic=True) == before.SerializeToString(deterministic=True),
         'the exported file differs in more than trained payloads')


def check_outputs(program, path, name, samples, tmp):
    theirs = np.concatenate([session(path).run(None, {name: x})[0] for x in samples])
    np.savez(f'{tmp}/one.npz', **{name: samples[0]})
    call(program, 'run', path, '--data', f'{tmp}/one.npz', '-o', f'{tmp}/y.npz')
    with np.load(f'{tmp}/y.npz') as y:
        ours = y[session(path).get_outputs()[0].name]
    room = 1e-4 * max(1.0, float(np.abs(theirs).max()))
    need(np.allclose(ours, theirs[:len(ours)], rtol=1e-3, atol=room), f'{path}: output differs from ONNX Runtime')
    return theirs


def whole_way(program, path, tmp):
    rng = np.random.default_rng(11)
    model = onnx.load(path)
    name, samples = make_samples(session(path), rng)
    out = check_outputs(program, path, name, samples, tmp)
    target = rng.standard_normal(out.shape).astype(np.float32)
    np.savez(f'{tmp}/data.npz', target=target, **{name: np.concatenate(samples)})
    common = ['--data', f'{tmp}/data.npz', '--loss', 'mse', '--batch-size', '2', '--bn', 'frozen']
    call(program, 'grad', path, '-o', f'{tmp}/g.npz', *common)
    with np.load(f'{tmp}/g.npz') as g:
        gradients = {n: g[n] for n in g.files if n != 'loss'}
        loss = float(g['loss'])
    check_gradient(Judge(name, samples, target), model, gradients, loss)
    total = sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())
    call(program, 'train', path, '-o', f'{tmp}/out.onnx', '--log', f'{tmp}/log.jsonl', '--run-dir', f'{tmp}/run', '--steps', '3',
         '--no-shuffle', '--optimizer', f'sgd:lr={0.01 * loss / total:.8g}', *common)
    steps = [e['loss'] for e in map(json.loads, open(f'{tmp}/log.jsonl')) if e['event'] == 'step']
    need(len(steps) == 3 and steps[0] > steps[1] > steps[2], f'the loss does not fall: {steps}')
    check_export(model, onnx.load(f'{tmp}/out.onnx'), list(gradients))
    check_outputs(program, f'{tmp}/out.onnx', name, samples, tmp)
    return f'loss {steps[0]:.5g} -> {steps[-1]:.5g}, {len(gradients)} tensors'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('--only', default='')
    parser.add_argument('-v', action='store_true')
    a = parser.parse_args()
    good = total = 0
    for path in sorted(p for p in glob.glob(f'{HERE}/*.onnx') if a.only in p):
        total += 1
        with tempfile.TemporaryDirectory() as tmp:
            try:
                said = whole_way(a.program, path, tmp)
                good += 1
                if a.v:
                    print(f'{os.path.basename(path):28} {said}', flush=True)
            except (Off, subprocess.TimeoutExpired) as e:
                print(f'{os.path.basename(path):28} FAILED {e}', flush=True)
    print(f'models: {good} of {total}')
    return 0 if good == total and total else 1


if __name__ == '__main__':
    sys.exit(main())
