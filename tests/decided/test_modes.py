"""Decisions are made by values in the mode that the run has: batch statistics while training, running ones in eval.

usage: test_modes.py PROGRAM

n = BatchNormalization(x) or Dropout(x); rows of n with n[:, 0] > 0.5 reach the loss, the sum of (n * w)^2.  The running
statistics are 0 and 1, and x is about 10: they let every row pass, those of the batch let some.
"""
import json
import os
import subprocess
import sys
import tempfile

from scripts import T, h, np, numpy_helper, onnx

program, failed = os.path.abspath(sys.argv[1]), 0
rng = np.random.default_rng(0)
x = (rng.standard_normal((32, 3)) + 10).astype(np.float32)
w = np.float32([1, 2, -1])


def check(what, so, said=''):
    global failed
    if not so:
        print(f'FAILED {what}: {said}')
        failed += 1


def model(first, more=()):
    nodes = first + [h.make_node('Gather', ['n', 'zero'], ['c'], axis=1), h.make_node('Greater', ['c', 'half'], ['m']), h.make_node('NonZero', ['m'], ['at']),
                     h.make_node('Squeeze', ['at', 'axes'], ['rows']), h.make_node('Mul', ['n', 'w'], ['nw']), h.make_node('Gather', ['nw', 'rows'], ['y'], axis=0),
                     h.make_node('ReduceSumSquare', ['y'], ['loss'], keepdims=0)]
    consts = {'zero': np.int64(0), 'half': np.float32(0.5), 'axes': np.int64([0]), 'w': w, **dict(more)}
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 3])], [h.make_tensor_value_info('loss', T.FLOAT, [])],
                     [numpy_helper.from_array(np.array(v), k) for k, v in consts.items()])
    return h.make_model(g, opset_imports=[h.make_opsetid('', 18)], ir_version=9)


def gradient(n):
    """Of w: 2 w times the squares of the chosen rows."""
    return 2 * w * (n[n[:, 0] > 0.5] ** 2).sum(0)


def call(d, m, command, *options):
    onnx.save(m, d + '/m.onnx')
    return subprocess.run([program, command, 'm.onnx', '--data', 'x.npz', '--loss', 'loss=output', '--batch-size', '32', *options], capture_output=True, text=True, cwd=d, timeout=120)


def grad(d, what, m, n, *options):
    r = call(d, m, 'grad', '-o', 'g.npz', *options)
    if r.returncode:
        check(what, False, r.stderr)
        return
    g = np.load(d + '/g.npz')['w']
    check(what, np.allclose(g, gradient(n), rtol=1e-4), f'{g}, {gradient(n)} is right')


def evaluated(d, what, m, n):
    r = call(d, m, 'eval', '--json')
    right = float(((n * w)[n[:, 0] > 0.5] ** 2).sum())
    check(what, r.returncode == 0 and np.isclose(json.loads(r.stdout)['loss'], right, rtol=1e-4), f'{r.stdout} {r.stderr}: {right} is right')


with tempfile.TemporaryDirectory() as d:
    np.savez(d + '/x.npz', x=x)
    running, batch = x / np.sqrt(1 + np.float32(1e-5)), (x - x.mean(0)) / np.sqrt(x.var(0) + np.float32(1e-5))
    weights = {'s': np.ones(3, np.float32), 'b': np.zeros(3, np.float32), 'mean': np.zeros(3, np.float32), 'var': np.ones(3, np.float32)}
    for mode in (0, 1):
        outs = ['n', 'mean_new', 'var_new'][:1 + 2 * mode]
        m = model([h.make_node('BatchNormalization', ['x', *weights], outs, name='bn', training_mode=mode)], weights)
        grad(d, f'norm of mode {mode}, gradient', m, batch)
        grad(d, f'norm of mode {mode}, --bn frozen', m, running, '--bn', 'frozen')
        evaluated(d, f'norm of mode {mode}, eval', m, running)
        m = model([h.make_node('Dropout', ['x', 'ratio', 'mode'], ['n'], name='drop')], {'ratio': np.float32(0.5), 'mode': np.bool_(mode)})
        evaluated(d, f'dropout of mode {mode}, eval', m, x)
        grad(d, f'dropout of mode {mode}, off', m, x, '--dropout', 'off')
        r = call(d, m, 'grad', '-o', 'g.npz', '--dropout', 'file')
        check(f'dropout of mode {mode} acts', r.returncode == 3 and '--dropout off' in r.stderr and 'drop' in r.stderr, f'{r.returncode} {r.stderr}')
print('FAILED' if failed else 'decisions have the mode of the run')
sys.exit(failed > 0)
