"""Attention whose mask hides all keys of some rows: what exporters write gives such rows zeros, and they get no gradient.

usage: test_masked.py PROGRAM
"""
import os
import subprocess
import sys
import tempfile

from scripts import T, h, np, numpy_helper, onnx

program, failed = os.path.abspath(sys.argv[1]), 0
rng = np.random.default_rng(0)
wq, wk, wv = (rng.standard_normal((3, 3)).astype(np.float32) for _ in range(3))


def data(heads, tokens):
    x, target = (rng.standard_normal((2, *heads, tokens, 3)).astype(np.float32) for _ in range(2))
    mask = np.zeros((2, *heads, tokens, tokens), np.float32)
    mask[0, ..., 1, 2:], mask[0, ..., 3, :], mask[1, ..., 0, :] = -np.inf, -np.inf, -np.inf  # two rows see nothing
    return x, mask, target


def graph(heads, tokens):
    n = 2 + len(heads)
    choose = [h.make_node('IsNaN', ['p'], ['n']), h.make_node('Where', ['n', 'zero', 'p'], ['a'])]
    nodes = [h.make_node('MatMul', ['x', 'wq'], ['q']), h.make_node('MatMul', ['x', 'wk'], ['k']), h.make_node('MatMul', ['x', 'wv'], ['v']),
             h.make_node('Transpose', ['k'], ['kt'], perm=[*range(n - 1), n, n - 1]), h.make_node('MatMul', ['q', 'kt'], ['s']), h.make_node('Add', ['s', 'mask'], ['m']),
             h.make_node('Softmax', ['m'], ['p'], axis=-1)] + choose + [h.make_node('MatMul', ['a', 'v'], ['y'])]
    weights = [numpy_helper.from_array(v, n) for n, v in (('wq', wq), ('wk', wk), ('wv', wv), ('zero', np.float32(0)))]
    v = lambda n: h.make_tensor_value_info(n, T.FLOAT, ['N', *heads, tokens, tokens if n == 'mask' else 3])
    return h.make_model(h.make_graph(nodes, 'g', [v('x'), v('mask')], [v('y')], weights), opset_imports=[h.make_opsetid('', 17)], ir_version=8)


def right(x, mask, target):
    """The same by hand, in doubles."""
    q, k, v = (x.astype('f8') @ w for w in (wq, wk, wv))
    s = q @ k.swapaxes(-1, -2) + mask
    dead = np.isneginf(s).all(-1, keepdims=True)
    e = np.where(dead, 0, np.exp(s - np.where(dead, 0, s.max(-1, keepdims=True))))
    a = e / np.where(dead, 1, e.sum(-1, keepdims=True))
    dy = 2 * (a @ v - target) / target.size
    da = dy @ v.swapaxes(-1, -2)
    ds = a * (da - (da * a).sum(-1, keepdims=True))
    t = lambda d: x.reshape(-1, 3).T @ d.reshape(-1, 3)
    return {'wq': t(ds @ k), 'wk': t(ds.swapaxes(-1, -2) @ q), 'wv': t(a.swapaxes(-1, -2) @ dy)}


with tempfile.TemporaryDirectory() as d:
    for heads, tokens in ((), 4), ((3,), 4), ((3,), 70):  # the last is one operator here
        x, mask, target = data(heads, tokens)
        np.savez(d + '/d.npz', x=x, mask=mask, target=target)
        onnx.save(graph(heads, tokens), d + '/m.onnx')
        r = subprocess.run([program, 'grad', d + '/m.onnx', '--data', d + '/d.npz', '-o', d + '/g.npz', '--loss', 'mse', '--device', 'cpu'], capture_output=True, text=True, timeout=120)
        got = dict(np.load(d + '/g.npz')) if not r.returncode else {}
        for n, want in right(x, mask, target).items():
            if n not in got or not np.allclose(got[n], want, 1e-4, 1e-6):
                print(f'FAILED {heads}, {tokens} tokens, {n}: {got.get(n, r.stderr)}, {want} is right')
                failed += 1
    # One head of scores, and a mask that makes three of it: that is no FusedAttention.
    mask, x, target = rng.random((1, 3, 64, 64)) > 0.4, *(rng.standard_normal((2, n, 64, 3)).astype(np.float32) for n in (1, 3))
    nodes = [h.make_node('MatMul', ['x', 'wq'], ['q']), h.make_node('MatMul', ['x', 'wk'], ['k']), h.make_node('Transpose', ['k'], ['kt'], perm=[0, 1, 3, 2]),
             h.make_node('MatMul', ['q', 'kt'], ['s']), h.make_node('Where', ['mask', 's', 'low'], ['w']), h.make_node('Softmax', ['w'], ['p'], axis=-1),
             h.make_node('MatMul', ['p', 'x'], ['y'])]
    value = lambda n, heads: h.make_tensor_value_info(n, T.FLOAT, ['N', heads, 64, 3])
    onnx.save(h.make_model(h.make_graph(nodes, 'g', [value('x', 1)], [value('y', 3)],
                                        [numpy_helper.from_array(a, n) for a, n in ((mask, 'mask'), (np.float32(-1e9), 'low'), (wq, 'wq'), (wk, 'wk'))]),
                           opset_imports=[h.make_opsetid('', 17)], ir_version=8), d + '/w.onnx')
    np.savez(d + '/w.npz', x=x, target=target)
    r = subprocess.run([program, 'grad', d + '/w.onnx', '--data', d + '/w.npz', '-o', d + '/g.npz', '--loss', 'mse', '--device', 'cpu'], capture_output=True, text=True, timeout=120)
    e = np.exp(np.where(mask, (x.astype('f8') @ wq) @ (x @ wk).swapaxes(-1, -2), -1e9))
    loss = ((e / e.sum(-1, keepdims=True) @ x - target) ** 2).mean()
    if r.returncode or not np.allclose(np.load(d + '/g.npz')['loss'], loss, 1e-5):
        print('FAILED a mask of more heads than the scores have:', r.stderr)
        failed += 1
    # What is NaN in the result of an attention becomes 0: that is no second attention.
    after = graph((3,), 70)
    after.graph.node.extend([h.make_node('IsNaN', ['y'], ['ny']), h.make_node('Where', ['ny', 'zero', 'y'], ['z']), h.make_node('MatMul', ['z', 'wv'], ['o'])])
    after.graph.output[0].name = 'o'
    onnx.save(after, d + '/m.onnx')
    x, mask, target = data((3,), 70)
    np.savez(d + '/d.npz', x=x, mask=mask, target=target)
    r = subprocess.run([program, 'grad', d + '/m.onnx', '--data', d + '/d.npz', '-o', d + '/g.npz', '--loss', 'mse', '--device', 'cpu'], capture_output=True, text=True, timeout=120)
    if r.returncode or not np.isfinite(np.load(d + '/g.npz')['wq']).all():
        print('FAILED zeros in place of NaN behind an attention:', r.stderr)
        failed += 1
print('attention with rows that see nothing' if not failed else f'{failed} failed')
sys.exit(failed != 0)
