"""Constants that a graph computes: equal ones, as the masks of a Transformer's layers, are kept once; others stay apart.

usage: test_folded.py PROGRAM
"""
import json
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

SIDE = 160  # of a mask: larger than what is compared by its bytes
KINDS = ['lower', 'upper', 'shifted', 'other fill', 'of x', 'cast', 'noise', 'power']


def layer(i, kind, rng):
    """Nodes of the shape's Expand, Trilu and Where, and what they need; the result is added to v{i}."""
    name = lambda n: f'{n}{i}'
    const = lambda n, v: h.make_node('Constant', [], [name(n)], value=numpy_helper.from_array(np.asarray(v), name(n)))
    nodes = [const('one', np.float32(1)), const('size', np.array([SIDE, SIDE], np.int64)), const('shift', np.int64(kind == 'shifted')),
             const('zero', np.float32(0)), const('low', np.float32(-3 if kind == 'other fill' else -2)), const('high', np.float32(0.5)),
             h.make_node('Expand', [name('one'), name('size')], [name('full')]),
             h.make_node('Trilu', [name('full'), name('shift')], [name('triangle')], upper=int(kind == 'upper')),
             h.make_node('Equal', [name('triangle'), name('zero')], [name('is')]),
             h.make_node('Where', [name('is'), name('low'), name('high')], [name('mask')])]
    last = name('mask')
    if kind == 'of x':  # from the shape of a value that is not constant
        nodes[1] = h.make_node('Shape', [f'v{i}'], [name('size')])
    if kind == 'cast':
        nodes += [h.make_node('Cast', [last], [name('whole')], to=T.INT32), h.make_node('Cast', [name('whole')], [name('cast')], to=T.FLOAT)]
        last = name('cast')
    if kind == 'noise':  # constants of equal size and different content
        nodes += [const('noise', rng.standard_normal((SIDE, SIDE)).astype(np.float32)), h.make_node('Neg', [name('noise')], [name('turned')]),
                  h.make_node('Add', [last, name('turned')], [name('noisy')])]
        last = name('noisy')
    if kind == 'power':
        nodes += [h.make_node('Exp', [last], [name('exp')]), h.make_node('Sqrt', [name('exp')], [name('root')])]
        last = name('root')
    return [*nodes, h.make_node('Add', [f'v{i}', last], [f'v{i + 1}'])]


def model(kinds):
    rng = np.random.default_rng(0)
    nodes = [h.make_node('MatMul', ['x', 'w'], ['v0'])] + [n for i, kind in enumerate(kinds) for n in layer(i, kind, rng)]
    v = lambda n: h.make_tensor_value_info(n, T.FLOAT, [SIDE, SIDE])
    w = numpy_helper.from_array(rng.standard_normal((SIDE, SIDE)).astype(np.float32), 'w')
    return h.make_model(h.make_graph(nodes, 'g', [v('x')], [v(f'v{len(kinds)}')], [w]), opset_imports=[h.make_opsetid('', 17)], ir_version=8)


def constants(file):
    return json.loads(call('plan', file, '--batch-size', str(SIDE), '--loss', 'mse', '--json').stdout)['const_bytes']


with tempfile.TemporaryDirectory() as d:
    os.chdir(d)
    kinds = [KINDS[k] for k in np.random.default_rng(1).integers(0, len(KINDS), 40)] + KINDS
    onnx.save(model(kinds), 'all.onnx')
    x = np.random.default_rng(2).standard_normal((SIDE, SIDE)).astype(np.float32)
    np.savez('x.npz', x=x)
    call('run', 'all.onnx', '--data', 'x.npz', '-o', 'y.npz', '--device', 'cpu')
    got = np.load('y.npz')[f'v{len(kinds)}']
    want = onnxruntime.InferenceSession('all.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
    check(np.allclose(got, want, rtol=1e-6, atol=1e-5), f'the results differ by up to {np.abs(got - want).max()}')

    for kind in KINDS:
        onnx.save(model([kind]), 'one.onnx')
        onnx.save(model([kind] * 9), 'nine.onnx')
        one, nine = constants('one.onnx'), constants('nine.onnx')
        if kind == 'noise':  # the file's constants, and the sums of each
            check(nine >= one + 8 * 3 * 4 * SIDE * SIDE, f'{kind}: {one} bytes of constants, nine times {nine}')
        else:
            check(nine < one + SIDE * SIDE, f'{kind}: {one} bytes of constants, nine times {nine}')

finish('checks')
