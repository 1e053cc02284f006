"""Large products whose rows are no multiple of 16 bytes, and images of few channels: they are padded (pass pad), and losses, gradients
and outputs are those of the network in float64; labels beyond the classes are still refused.

usage: test_padding.py PROGRAM
"""
import re
import tempfile

from scripts import T, arrays, call, check, finish, h, np, numpy_helper, onnx, program

rng = np.random.default_rng(8)
ROWS, INSIDE, CLASSES = 64, 128, 2051  # a product that is padded on a device of two multiprocessors, and a length that is odd
IMAGES = 48
precisions = ('bf16', .06), ('tf32', 1e-3)
if b'__asan_init' in open(program, 'rb').read():  # the library's own code is that of one of them, and emulated products are slow
    precisions = precisions[:1]


def model(form, t='f4'):
    """form: how the weight of the classifier is stored and used."""
    tied = form == 'transposed'
    w = (rng.standard_normal((CLASSES, INSIDE) if tied else (INSIDE, CLASSES)) * .05).astype(t)
    weights = {'w0': (rng.standard_normal((32, INSIDE)) * .2).astype(t), 'w': w}
    nodes = [h.make_node('MatMul', ['x', 'w0'], ['a']), h.make_node('Relu', ['a'], ['r'])]
    if form == 'bias':
        weights['b'] = (rng.standard_normal(CLASSES) * .1).astype(t)
        nodes += [h.make_node('Gemm', ['r', 'w', 'b'], ['y'])]
    elif tied:
        nodes += [h.make_node('Transpose', ['w'], ['wt'], perm=[1, 0]), h.make_node('MatMul', ['r', 'wt'], ['y'])]
    elif form == 'softmax':  # another reader of the logits
        nodes += [h.make_node('MatMul', ['r', 'w'], ['l']), h.make_node('Softmax', ['l'], ['y'])]
    else:
        nodes += [h.make_node('MatMul', ['r', 'w'], ['y'])]
    kind = T.FLOAT if t == 'f4' else T.DOUBLE
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', kind, ['n', 32])], [h.make_tensor_value_info('y', kind, ['n', CLASSES])],
                     [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)


def images(groups=1, before=False):
    """A first convolution of three channels, and one behind it; before: one in front, so that the channels have a gradient."""
    rng = np.random.default_rng(9)
    weights = {'k0': rng.standard_normal((32, 3, 3, 3)) * .2, 'b0': rng.standard_normal(32) * .1, 'k1': rng.standard_normal((8, 32 // groups, 1, 1)) * .2}
    nodes = [h.make_node('Conv', ['a' if before else 'x', 'k0', 'b0'], ['c'], pads=[1] * 4), h.make_node('Relu', ['c'], ['r']),
             h.make_node('Conv', ['r', 'k1'], ['y'], group=groups)]
    if before:
        weights['k'] = rng.standard_normal((3, 3, 1, 1))
        nodes.insert(0, h.make_node('Conv', ['x', 'k'], ['a']))
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 3, 16, 15])], [h.make_tensor_value_info('y', T.FLOAT, None)],
                     [numpy_helper.from_array(v.astype('f4'), k) for k, v in weights.items()])
    return h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)


def wide(m):
    """The same model in float64."""
    g = onnx.ModelProto.FromString(m.SerializeToString())
    for i, t in enumerate(g.graph.initializer):
        if t.data_type == T.FLOAT:
            g.graph.initializer[i].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype('f8'), t.name))
    for v in (*g.graph.input, *g.graph.output):
        v.type.tensor_type.elem_type = T.DOUBLE
    return g


def far(a, b):
    return np.linalg.norm(a.astype('f8') - b) / np.linalg.norm(b)


def square(d):
    """A padded copy of the transposed weight is not that of the weight."""
    n = 515
    w = (rng.standard_normal((n, n)) * .05).astype('f4')
    ints = {'pads': [0, 0, 0, 61], 'start': [0], 'end': [n], 'last': [1]}
    nodes = [h.make_node('Transpose', ['w'], ['t'], perm=[1, 0]), h.make_node('Pad', ['t', 'pads'], ['p']), h.make_node('MatMul', ['x', 'p'], ['a']),
             h.make_node('MatMul', ['x', 'w'], ['b']), h.make_node('Slice', ['a', 'start', 'end', 'last'], ['c']), h.make_node('Add', ['c', 'b'], ['y'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', n])], [h.make_tensor_value_info('y', T.FLOAT, ['n', n])],
                     [numpy_helper.from_array(w, 'w')] + [numpy_helper.from_array(np.array(v), k) for k, v in ints.items()])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)
    feeds = {'x': rng.standard_normal((ROWS, n)).astype('f4'), 'target': rng.standard_normal((ROWS, n)).astype('f4')}
    got = arrays(d, 'grad', m, feeds, '--loss', 'mse', '--device', 'cuda', '--precision', 'tf32')[1]
    want = arrays(d, 'grad', wide(m), {k: v.astype('f8') for k, v in feeds.items()}, '--loss', 'mse', '--device', 'cpu')[1]
    check(sorted(got) == sorted(want) and 'w' in want, f'a square weight and its transpose: {sorted(got)}, {sorted(want)}')
    for k, v in want.items():
        check(far(got[k], v) < 2e-3, f'a square weight and its transpose: {k} is off by {far(got[k], v):.2g}')


def infinite(d):
    """Padding makes no NaN of what is infinite."""
    n = 515
    weights = {'w': np.abs(rng.standard_normal((n, n))).astype('f4'), 'v': np.abs(rng.standard_normal((n, 8))).astype('f4')}
    weights['ten'] = np.array(10, 'f4')
    g = h.make_graph([h.make_node('Mul', ['x', 'ten'], ['s']), h.make_node('MatMul', ['s', 'w'], ['a']), h.make_node('MatMul', ['a', 'v'], ['y'])], 'g',
                     [h.make_tensor_value_info('x', T.FLOAT, ['n', n])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 8])],
                     [numpy_helper.from_array(v, k) for k, v in weights.items()])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)
    x = np.abs(rng.standard_normal((ROWS, n))).astype('f4')
    x[3, 5] = 3e38
    y = arrays(d, 'predict', m, {'x': x}, '--device', 'cuda', '--precision', 'tf32')[1]['y']
    check(np.isposinf(y[3]).all() and np.isfinite(np.delete(y, 3, 0)).all(), f'an infinite input: {y[3]}')


def main(d):
    x, target = rng.standard_normal((ROWS, 32)).astype('f4'), rng.integers(0, CLASSES, ROWS)
    target[:4] = CLASSES - 1, 0, CLASSES - 2, CLASSES - 1
    for form in ('plain', 'bias', 'transposed', 'softmax'):
        m = model(form)
        for precision, most in precisions:
            options = '--device', 'cuda', '--precision', precision
            feeds = {'x': x, 'target': target}
            got = arrays(d, 'grad', m, feeds, '--loss', 'cross_entropy', *options)[1]
            want = arrays(d, 'grad', wide(m), {'x': x.astype('f8'), 'target': target}, '--loss', 'cross_entropy', '--device', 'cpu')[1]
            check(sorted(got) == sorted(want) and len(want) >= 3, f'{form}, {precision}: {sorted(got)}')
            for k, v in want.items():
                check(k in got and got[k].shape == v.shape and far(got[k], v) < most, f'{form}, {precision}: {k} is off by {far(got[k], v):.2g}')
            onnx.save(m, f'{d}/m.onnx')
            said = call('plan', f'{d}/m.onnx', '--data', f'{d}/x.npz', '--loss', 'cross_entropy', '--batch-size', str(ROWS), '--why', *options).stdout
            check(re.search(rf'Dot\S* +\S+ +\[{ROWS},2112\]', said), f'{form}, {precision}: no padded rows: {said}')
            check(not re.search(rf'Copy +\S+ +\[{ROWS},{CLASSES}\]', said), f'{form}, {precision}: logits are copied: {said}')
        y = arrays(d, 'predict', m, {'x': x}, '--device', 'cuda', '--precision', 'bf16')[1]['y']
        exact = arrays(d, 'run', wide(m), {'x': x.astype('f8')}, '--device', 'cpu')[1]['y']
        check(y.shape == exact.shape and far(y, exact) < .02, f'{form}: a prediction is off by {far(y, exact):.2g}')
    square(d)
    infinite(d)
    x = rng.standard_normal((IMAGES, 3, 16, 15)).astype('f4')
    for name, m, padded in (('images', images(), 1), ('grouped', images(2), 1), ('channels with a gradient', images(before=True), 0)):
        feeds = {'x': x, 'target': rng.standard_normal((IMAGES, 8, 16, 15)).astype('f4')}
        got = arrays(d, 'grad', m, feeds, '--loss', 'mse', '--device', 'cuda', '--precision', 'bf16')[1]
        want = arrays(d, 'grad', wide(m), {k: v.astype('f8') for k, v in feeds.items()}, '--loss', 'mse', '--device', 'cpu')[1]
        check(sorted(got) == sorted(want), f'{name}: {sorted(got)}')
        for k, v in want.items():
            check(k in got and got[k].shape == v.shape and far(got[k], v) < .03, f'{name}: {k} is off by {far(got[k], v):.2g}')
        onnx.save(m, f'{d}/m.onnx')
        np.savez(f'{d}/x.npz', **feeds)
        said = call('plan', f'{d}/m.onnx', '--data', f'{d}/x.npz', '--loss', 'mse', '--batch-size', str(IMAGES), '--why', '--device', 'cuda',
                    '--precision', 'bf16').stdout
        check(len(re.findall(r'ConvolveDw +\S+ +\[32,8,3,3\]', said)) == padded, f'{name}: {said}')
    x, m = rng.standard_normal((ROWS, 32)).astype('f4'), model('plain')
    target[9] = CLASSES  # a padded column is no class
    r = arrays(d, 'grad', m, {'x': x, 'target': target}, '--loss', 'cross_entropy', '--device', 'cuda', '--precision', 'bf16')[0]
    check(r.returncode == 4 and f'0 to {CLASSES - 1}' in r.stderr, f'a label beyond the classes: exit {r.returncode}: {r.stderr}')


with tempfile.TemporaryDirectory() as folder:
    main(folder)
finish('results of products with padded rows are those of the network in float64')
