"""Large products whose rows are no multiple of 16 bytes: rows are padded (pass pad), and losses, gradients and outputs are those of the
network in float64; labels beyond the classes are still refused.

usage: test_padding.py PROGRAM
"""
import re
import tempfile

from scripts import T, arrays, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(8)
ROWS, INSIDE, CLASSES = 64, 128, 2051  # a product that is padded on a device of two multiprocessors, and a length that is odd


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


def wide(m):
    """The same model in float64."""
    g = onnx.ModelProto.FromString(m.SerializeToString())
    for i, t in enumerate(g.graph.initializer):
        g.graph.initializer[i].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype('f8'), t.name))
    for v in (*g.graph.input, *g.graph.output):
        v.type.tensor_type.elem_type = T.DOUBLE
    return g


def far(a, b):
    return np.linalg.norm(a.astype('f8') - b) / np.linalg.norm(b)


def main(d):
    x, target = rng.standard_normal((ROWS, 32)).astype('f4'), rng.integers(0, CLASSES, ROWS)
    target[:4] = CLASSES - 1, 0, CLASSES - 2, CLASSES - 1
    for form in ('plain', 'bias', 'transposed', 'softmax'):
        m = model(form)
        for precision, most in (('bf16', .06), ('tf32', 1e-3)):
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
    target[9] = CLASSES  # a padded column is no class
    r = arrays(d, 'grad', model('plain'), {'x': x, 'target': target}, '--loss', 'cross_entropy', '--device', 'cuda', '--precision', 'bf16')[0]
    check(r.returncode == 4 and f'0 to {CLASSES - 1}' in r.stderr, f'a label beyond the classes: exit {r.returncode}: {r.stderr}')


with tempfile.TemporaryDirectory() as folder:
    main(folder)
finish('results of products with padded rows are those of the network in float64')
