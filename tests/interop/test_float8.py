"""Weights and activations that a file quantises to floats of 8 or 4 bits: gradients pass the rounding in float32, and the trained weights are rounded
to the type of the file, with its scales.

usage: test_float8.py PROGRAM
"""
import tempfile

import ml_dtypes
from scripts import T, arrays, call, check, finish, h, np, onnx, program, verdict

rng = np.random.default_rng(5)
f = np.float32
KINDS = {'float8_e4m3fn': T.FLOAT8E4M3FN, 'float8_e4m3fnuz': T.FLOAT8E4M3FNUZ, 'float8_e5m2': T.FLOAT8E5M2, 'float8_e5m2fnuz': T.FLOAT8E5M2FNUZ,
         'float4_e2m1fn': T.FLOAT4E2M1}


def rounded(v, kind):
    """To the small float and back; a value out of range becomes the largest one."""
    most = f(ml_dtypes.finfo(kind).max)
    return np.clip(v, -most, most).astype(kind).astype(f)


def network(kind, weight, scale, first, bias):
    """x V -> quantised -> product with quantised weights (a scale for each column) -> + bias"""
    small = KINDS[kind]
    nodes = [h.make_node('MatMul', ['x', 'first'], ['a']),
             h.make_node('QuantizeLinear', ['a', 'sa', 'za'], ['q']), h.make_node('DequantizeLinear', ['q', 'sa', 'za'], ['b']),
             h.make_node('DequantizeLinear', ['weight', 'sw', 'zw'], ['w'], axis=1),
             h.make_node('MatMul', ['b', 'w'], ['c']), h.make_node('Add', ['c', 'bias'], ['y'])]
    tensor = lambda name, t, v: h.make_tensor(name, t, np.shape(v), np.ravel(v).tolist())
    init = [tensor('first', T.FLOAT, first), tensor('sa', T.FLOAT, f(.02)), tensor('za', small, f(0)), tensor('weight', small, weight),
            tensor('sw', T.FLOAT, scale), tensor('zw', small, np.zeros_like(scale)), tensor('bias', T.FLOAT, bias)]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 4])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 3])], init)
    return h.make_model(g, opset_imports=[h.make_opsetid('', 23)], ir_version=11)


def stored(path, name):
    t = next(i for i in onnx.load(path).graph.initializer if i.name == name)
    return t, onnx.numpy_helper.to_array(t).astype(f)


for kind in KINDS:
    x, first, bias, target = (rng.standard_normal(s).astype(f) for s in ((8, 4), (4, 5), 3, (8, 3)))
    first /= 16                                             # quantised activations stay far below the largest number
    scale = np.array([.01, .02, .03], f) * (6 if kind == 'float4_e2m1fn' else 1)
    weight = rounded(rng.standard_normal((5, 3)).astype(f) / scale / 4, kind)
    model = network(kind, weight, scale, first, bias)
    a = x @ first
    sa = f(.02)
    b, w = rounded(a / sa, kind) * sa, weight * scale
    dy = 2 * (b @ w + bias - target) / target.size
    inside = np.abs(a / sa) <= f(ml_dtypes.finfo(kind).max) if kind == 'float4_e2m1fn' else True
    want = {'bias': dy.sum(0), 'weight': b.T @ dy, 'first': x.T @ (dy @ w.T * inside)}
    with tempfile.TemporaryDirectory() as d:
        r, got = arrays(d, 'grad', model, dict(x=x, target=target), '--loss', 'mse', '--batch-size', '8')
        verdict(f'{kind}: grad', r.stderr.strip() if r.returncode else None)
        for name in want if got else ():
            off = np.abs(got[name].astype(f) - want[name]).max() / np.abs(want[name]).max()
            check(got[name].dtype == f and off < 1e-5, f'{kind}: gradient of {name} ({got[name].dtype}) is off by {off:.1e} of the largest element')
        train = ['train', d + '/m.onnx', '--data', d + '/x.npz', '--loss', 'mse', '--batch-size', '8', '--steps', '1', '--no-shuffle', '--run-dir', 'none',
                 '--optimizer', 'sgd', '-o', d + '/t.onnx', '--lr']
        call(*train, '0')
        check(stored(d + '/t.onnx', 'weight')[0] == stored(d + '/m.onnx', 'weight')[0], f'{kind}: a learning rate of 0 changes the weights')
        rate = f(4)
        call(*train, str(rate))
        t, now = stored(d + '/t.onnx', 'weight')
        exact = (w - rate * want['weight']) / scale
        step = np.spacing(rounded(exact, kind).astype(kind)).astype(f) if kind != 'float4_e2m1fn' else f(2)
        check(t.data_type == KINDS[kind] and np.abs(now - rounded(exact, kind)).max() <= np.max(step) and (now != weight).any() and
              (now == rounded(exact, kind)).mean() > .8, f'{kind}: weights after one update are not the rounded ones:\n{now}\n{rounded(exact, kind)}')
finish('cases')
