"""Weights that a Loop carries as states: exporters of TensorFlow write recurrent cells so.

usage: test_states.py PROGRAM

The same cell is written twice, its weights as states that no iteration changes (one of them split in the body), and read from
outside. Both must train the same tensors and give the same gradients.
"""
import json
import os
import subprocess
import sys
import tempfile

from scripts import T, h, np, numpy_helper, onnx

program, failed = os.path.abspath(sys.argv[1]), 0
rng = np.random.default_rng(0)
WEIGHTS = {'w': (3, 4), 'u': (4, 4), 'b': (2, 4)}
values = {n: rng.standard_normal(s).astype(np.float32) / 3 for n, s in WEIGHTS.items()}


def value(name, shape, t=T.FLOAT):
    return h.make_tensor_value_info(name, t, shape)


def constant(name, v):
    return numpy_helper.from_array(np.array(v), name)


def cell(states):
    """state = tanh(x[i] w + state u + b[0] + b[1]); the weights are states of the loop, or the names outside."""
    inner = {n: n + '_state' if states else n for n in WEIGHTS}
    nodes = [h.make_node('Gather', ['xs', 'i'], ['x_i'], axis=0), h.make_node('MatMul', ['x_i', inner['w']], ['xw']), h.make_node('MatMul', ['s', inner['u']], ['su']),
             h.make_node('Split', [inner['b']], ['b0', 'b1'], axis=0, num_outputs=2), h.make_node('Squeeze', ['b0', 'axes'], ['b0_']), h.make_node('Squeeze', ['b1', 'axes'], ['b1_']),
             h.make_node('Add', ['xw', 'b0_'], ['p']), h.make_node('Add', ['su', 'b1_'], ['q']), h.make_node('Add', ['p', 'q'], ['r']), h.make_node('Tanh', ['r'], ['s_new']),
             h.make_node('Identity', ['c'], ['c_new']), h.make_node('Identity', [inner['u']], ['u_same'])]
    carried = [('s', 's_new', [None, 4])] + [(inner[n], 'u_same' if n == 'u' else inner[n], list(s)) for n, s in WEIGHTS.items() if states]
    body = h.make_graph(nodes, 'body', [value('i', [], T.INT64), value('c', [], T.BOOL)] + [value(a, s) for a, _, s in carried],
                        [value('c_new', [], T.BOOL)] + [value(o, s) for _, o, s in carried], [constant('axes', [0])])
    outs = ['last'] + [n + '_after' for n in WEIGHTS if states]
    graph = h.make_graph([h.make_node('Transpose', ['x'], ['xs'], perm=[1, 0, 2]), h.make_node('MatMul', ['x', 'zero'], ['z']), h.make_node('ReduceSum', ['z', 'one'], ['first'], keepdims=0),
                          h.make_node('Loop', ['trips', '', 'first'] + [n for n in WEIGHTS if states], outs, body=body), h.make_node('MatMul', ['last', 'u_after' if states else 'u'], ['y'])],
                         'g', [value('x', ['N', 5, 3])], [value('y', ['N', 4])],
                         [constant(n, v) for n, v in values.items()] + [constant('zero', np.zeros((3, 4), np.float32)), constant('one', [1]), constant('trips', 5)])
    return h.make_model(graph, opset_imports=[h.make_opsetid('', 18)], ir_version=9)


def check(what, so, said=''):
    global failed
    if not so:
        print(f'FAILED {what}: {said}')
        failed += 1


with tempfile.TemporaryDirectory() as d:
    np.savez(d + '/d.npz', x=rng.standard_normal((4, 5, 3)).astype(np.float32), target=rng.standard_normal((4, 4)).astype(np.float32))
    grads = []
    for states in (False, True):
        path, what = f'{d}/{states}.onnx', 'weights as states' if states else 'weights from outside'
        onnx.checker.check_model(cell(states))
        onnx.save(cell(states), path)
        r = subprocess.run([program, 'inspect', '--json', path], capture_output=True, text=True, timeout=120)
        check(what, r.returncode == 0, r.stderr)
        roles = {t['name']: t['role'] for t in json.loads(r.stdout)['initializers']} if not r.returncode else {}
        check(what, all(roles.get(n) == 'trains' for n in WEIGHTS), roles)
        r = subprocess.run([program, 'grad', path, '--data', d + '/d.npz', '-o', d + '/g.npz', '--loss', 'mse', '--freeze', 'zero'], capture_output=True, text=True, timeout=120)
        check(what, r.returncode == 0, r.stderr)
        grads.append(dict(np.load(d + '/g.npz')) if not r.returncode else {})
    for n in WEIGHTS:
        check(n, n in grads[0] and n in grads[1] and np.abs(grads[0][n]).max() > 1e-3 and np.allclose(grads[0][n], grads[1][n], 1e-5, 1e-7), 'other gradients')
print('3 weights, both ways' if not failed else f'{failed} failed')
sys.exit(failed != 0)
