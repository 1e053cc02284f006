"""Functions of the file: weights inside and outside them train, and the file keeps its functions.

usage: test_functions.py PROGRAM

The same network is written with functions (one holds its weights in Constants, one gets them from its callers and is called
twice, one calls the other) and without: both train alike, bit for bit, and the written file is the user's but for payloads.
"""
import json
import subprocess
import sys
import tempfile

from scripts import T as TensorProto, h as helper, np, numpy_helper, onnx, onnxruntime

onnxruntime.set_default_logger_severity(3)
program = sys.argv[1]
made = np.random.default_rng(4)
node, opsets = helper.make_node, [helper.make_opsetid('', 17), helper.make_opsetid('own', 1)]
weights = {n: (made.standard_normal(s) / 2).astype('f4') for n, s in (('a', (6, 6)), ('b', (6, 6)), ('inner', (6, 6)), ('bias', (6,)))}


def constant(name):
    return node('Constant', [], [name], f'make_{name}', value=numpy_helper.from_array(weights[name], name))


def body(x, w, y):
    return [node('MatMul', [x, w], [y + '0']), node('Tanh', [y + '0'], [y])]


def functions():
    """Layer(x, w): a layer. Holder(x): one whose weight and bias are its own, and calls Layer."""
    layer = helper.make_function('own', 'Layer', ['x', 'w'], ['y'], body('x', 'w', 'y'), opsets[:1])
    holder = helper.make_function('own', 'Holder', ['x'], ['y'], [constant('inner'), constant('bias'), node('Layer', ['x', 'inner'], ['h'], domain='own'),
                                                                  node('Add', ['h', 'bias'], ['y'])], opsets)
    return [layer, holder]


def network(path, with_functions, twice=False):
    if with_functions:
        nodes = [node('Layer', ['x', 'a'], ['p'], 'first', domain='own'), node('Holder', ['p'], ['q'], 'held', domain='own'), node('Layer', ['q', 'b'], ['y'], 'last', domain='own')]
        if twice:
            nodes[2:] = [node('Holder', ['q'], ['r'], 'again', domain='own'), node('Layer', ['r', 'b'], ['y'], 'last', domain='own')]
        init = ['a', 'b']
    else:
        nodes = [*body('x', 'a', 'p'), *body('p', 'inner', 'h'), node('Add', ['h', 'bias'], ['q']), *body('q', 'b', 'y')]
        if twice:
            nodes[5:] = [*body('q', 'inner', 'i'), node('Add', ['i', 'bias'], ['r']), *body('r', 'b', 'y')]
        init = list(weights)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ['n', 6]) for n in ('x', 'y')]
    g = helper.make_graph(nodes, 'g', ends[:1], ends[1:], [numpy_helper.from_array(weights[n], n) for n in init])
    onnx.save(helper.make_model(g, opset_imports=opsets, functions=functions() if with_functions else [], ir_version=8), path)


def train(d, model, out):
    r = subprocess.run([program, 'train', model, '--data', f'{d}/data.npz', '--device', 'cpu', '--run-dir', 'none', '-o', out, '--batch-size', '16', '--lr', '0.02',
                        '--steps', '5', '--log', f'{d}/log', '--train', '*inner*', '--train', '*bias*'], capture_output=True, text=True)
    assert not r.returncode, r.stderr
    return [json.loads(line)['loss'] for line in open(f'{d}/log') if '"step"' in line.split(',')[0]]


def payloads(m):
    """Every tensor, and the model without them."""
    found = {t.name: t for t in m.graph.initializer}
    for f in m.functions:
        found |= {n.output[0]: n.attribute[0].t for n in f.node if n.op_type == 'Constant'}
    values = {n: numpy_helper.to_array(t) for n, t in found.items()}
    for t in found.values():
        t.ClearField('raw_data')
    return values, m.SerializeToString()


with tempfile.TemporaryDirectory() as d:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 6)).astype('f4')
    np.savez(f'{d}/data.npz', x=x, target=rng.standard_normal((64, 6)).astype('f4'))
    for twice in (False, True):
        network(f'{d}/f.onnx', True, twice)
        network(f'{d}/plain.onnx', False, twice)
        losses, right = train(d, f'{d}/f.onnx', f'{d}/f-t.onnx'), train(d, f'{d}/plain.onnx', f'{d}/plain-t.onnx')
        assert losses == right and len(right) == 5, (twice, losses, right)
        onnx.checker.check_model(f'{d}/f-t.onnx', full_check=True)
        (before, rest), (after, kept) = payloads(onnx.load(f'{d}/f.onnx')), payloads(onnx.load(f'{d}/f-t.onnx'))
        plain, _ = payloads(onnx.load(f'{d}/plain-t.onnx'))
        assert rest == kept, 'more than payloads changed: functions, nodes or names'
        assert set(after) == set(weights) and all(np.array_equal(after[n], plain[n]) and not np.array_equal(after[n], before[n]) for n in weights), 'other weights'
        y = [onnxruntime.InferenceSession(f'{d}/{n}.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0] for n in ('f-t', 'plain-t')]
        assert np.allclose(*y, atol=1e-6), np.abs(y[0] - y[1]).max()
        print(f"Holder called {'twice' if twice else 'once'}: {len(after)} tensors trained, functions kept")
