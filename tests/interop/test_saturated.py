"""A binary cross entropy written as operators, whose Sigmoid saturates: log(0) is replaced by -100, and no gradient comes back through it.

usage: test_saturated.py PROGRAM
"""
import os
import subprocess
import sys
import tempfile

from scripts import T, h, np, numpy_helper, onnx

program, failed = os.path.abspath(sys.argv[1]), 0
rng = np.random.default_rng(0)
w = rng.standard_normal((3, 2)).astype(np.float32)
x, t = (60 * rng.standard_normal((64, 3))).astype(np.float32), rng.integers(0, 2, (64, 2)).astype(np.float32)


def graph(floor):
    """floor: how the exporter writes max(log(p), -100)."""
    least = lambda a, y: h.make_node('Max', [a, 'least'], [y]) if floor == 'Max' else h.make_node('Clip', [a, 'least', ''], [y])
    nodes = [h.make_node('MatMul', ['x', 'w'], ['z']), h.make_node('Sigmoid', ['z'], ['p']), h.make_node('Log', ['p'], ['l']), least('l', 'a'),
             h.make_node('Sub', ['one', 'p'], ['q']), h.make_node('Log', ['q'], ['m']), least('m', 'b'), h.make_node('Sub', ['one', 't'], ['s']),
             h.make_node('Mul', ['t', 'a'], ['ta']), h.make_node('Mul', ['s', 'b'], ['sb']), h.make_node('Add', ['ta', 'sb'], ['both']),
             h.make_node('ReduceMean', ['both'], ['mean'], keepdims=0), h.make_node('Neg', ['mean'], ['loss'])]
    weights = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (('w', w), ('one', 1), ('least', -100))]
    v = lambda n, *dims: h.make_tensor_value_info(n, T.FLOAT, dims)
    return h.make_model(h.make_graph(nodes, 'g', [v('x', 'N', 3), v('t', 'N', 2)], [v('loss')], weights), opset_imports=[h.make_opsetid('', 17)], ir_version=8)


z = (x @ w).astype('f4')
p = 1 / (1 + np.exp(-z.astype('f8')))
p = p.astype('f4')  # saturated as in the graph
with np.errstate(divide='ignore'):
    inside, outside = np.log(p) > -100, np.log(1 - p) > -100
assert not inside.all() and not outside.all() and (inside & outside).any()
right = x.T.astype('f8') @ (-(t * inside * (1.0 - p) - (1 - t) * outside * p) / t.size)

with tempfile.TemporaryDirectory() as d:
    np.savez(d + '/d.npz', x=x, t=t)
    for floor in 'Max', 'Clip':
        onnx.save(graph(floor), d + '/m.onnx')
        r = subprocess.run([program, 'grad', d + '/m.onnx', '--data', d + '/d.npz', '--loss', 'output', '--device', 'cpu', '-o', d + '/g.npz'], capture_output=True, text=True)
        got = np.load(d + '/g.npz')['w'] if not r.returncode else np.full_like(w, np.nan)
        if not np.allclose(got, right, rtol=1e-5, atol=1e-6):
            failed += 1
            print(f'{floor}: gradient {got.ravel()}, should be {right.ravel()}: {r.stderr[-300:]}')
print('saturated:', 'ok' if not failed else f'{failed} failed')
sys.exit(failed > 0)
