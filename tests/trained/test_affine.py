"""BatchNormalization without scale and bias of its own (PyTorch's affine=False): the constants 1 and 0 stay, the statistics move.

usage: test_affine.py PROGRAM

As the exporters write it, in training mode and not, the constants in Constant nodes, initializers, and expanded from one element.
Five steps of rate 0: running statistics are what PyTorch's formulas give. Then with a rate: what `--bn train` gives, bit for bit.
"""
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(0)
x, w = rng.standard_normal((40, 6)).astype('f4'), rng.standard_normal((6, 5)).astype('f4')
mean, var = rng.standard_normal(5).astype('f4'), rng.random(5).astype('f4') + .5


def file(form, training, scale=1., bias=0.):
    tensors = [numpy_helper.from_array(a, n) for n, a in (('fc.weight', w), ('bn.running_mean', mean), ('bn.running_var', var), ('head.weight', w[:5, :3].copy()))]
    nodes, values = [], {'val_2': np.full(5, scale, 'f4'), 'val_3': np.full(5, bias, 'f4')}
    for name, a in values.items():
        if form == 'initializers':
            tensors.append(numpy_helper.from_array(a, name))
        elif form == 'constants':
            nodes.append(h.make_node('Constant', [], [name], value=numpy_helper.from_array(a)))
        else:
            nodes += [h.make_node('Constant', [], [name + '_one'], value=numpy_helper.from_array(a[:1])), h.make_node('Shape', ['h'], [name + '_shape'], start=1),
                      h.make_node('Expand', [name + '_one', name + '_shape'], [name])]
    nodes.insert(0, h.make_node('MatMul', ['x', 'fc.weight'], ['h']))
    outputs = ['b', 'm', 'v'] if training else ['b']
    nodes += [h.make_node('BatchNormalization', ['h', 'val_2', 'val_3', 'bn.running_mean', 'bn.running_var'], outputs, name='bn', training_mode=training),
              h.make_node('Relu', ['b'], ['r']), h.make_node('MatMul', ['r', 'head.weight'], ['y'])]
    ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', k]) for n, k in (('x', 6), ('y', 3))]
    return h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], tensors), opset_imports=[h.make_opsetid('', 17)])


def trained(d, model, *options):
    onnx.save(model, f'{d}/m.onnx')
    r = call('train', f'{d}/m.onnx', '--data', f'{d}/data.npz', '-o', f'{d}/t.onnx', '--run-dir', 'none', '--batch-size', '8', '--steps', '5', '--no-shuffle', '--loss', 'cross_entropy',
             '--device', 'cpu', *options)
    g = onnx.load(f'{d}/t.onnx').graph
    return {t.name: numpy_helper.to_array(t) for t in g.initializer}, r.stderr


with tempfile.TemporaryDirectory() as d:
    np.savez(f'{d}/data.npz', x=x, target=rng.integers(0, 3, 40))
    for variance, ddof in (('population', 0), ('unbiased', 1)):
        m, v = mean.astype('f8'), var.astype('f8')
        for k in range(5):
            a = x[8 * k:8 * k + 8].astype('f8') @ w
            m, v = .9 * m + .1 * a.mean(0), .9 * v + .1 * a.var(0, ddof=ddof)
        for form in ('constants', 'initializers', 'expanded'):
            for mode in (1, 0):
                what = f'{form}, training_mode={mode}, {variance}'
                got, said = trained(d, file(form, mode), '--lr', '0', '--bn-variance', variance)
                check(np.allclose(got['bn.running_mean'], m, rtol=1e-5) and np.allclose(got['bn.running_var'], v, rtol=1e-5), f'{what}: statistics {got["bn.running_mean"]}, not {m}')
                check('uses running statistics' not in said and '1 of 1 use and update batch statistics' in said, f'{what}: {said}')
                got, said = trained(d, file(form, mode), '--optimizer', 'sgd:lr=0.1')
                asked, said = trained(d, file(form, mode), '--optimizer', 'sgd:lr=0.1', '--bn', 'train')
                check(all((got[n] == asked[n]).all() for n in got) and not (got['fc.weight'] == w).all(), f'{what}: other weights than with --bn train')
                check(form != 'initializers' or ((got['val_2'] == 1).all() and (got['val_3'] == 0).all()), f'{what}: the constants moved')
    # Constants that are anything else: frozen in a file for inference, as is said; in one in training mode the statistics move.
    for mode in (1, 0):
        got, said = trained(d, file('constants', mode, 2., .5), '--lr', '0')
        moved = not (got['bn.running_mean'] == mean).all()
        check(moved == mode and ('is not trained: its scale and bias are constants' in said) != moved, f'2 and 0.5, training_mode={mode}: {said}')
    # what is frozen stays, and says so
    got, said = trained(d, file('initializers', 1), '--lr', '0', '--freeze', 'val_*')
    check((got['bn.running_mean'] == mean).all() and 'its scale and bias are frozen by --freeze' in said, said)
    # PyTorch's frozen norm is written in pieces: nothing of it moves, whatever its scale is, and that it does not is said once
    for scale in (1, 2):
        names = ('fc.weight', 'bn.weight', 'bn.bias', 'bn.running_mean', 'bn.running_var', 'head.weight', 'eps')
        tensors = [numpy_helper.from_array(a, n) for n, a in zip(names, (w, np.full(5, scale, 'f4'), np.zeros(5, 'f4'), mean, var, w[:5, :3].copy(), np.float32(1e-5)))]
        pieces = (('MatMul', 'x fc.weight', 'h'), ('Add', 'bn.running_var eps', 'v'), ('Sqrt', 'v', 'd'), ('Reciprocal', 'd', 'i'), ('Mul', 'bn.weight i', 's'), ('Mul', 'bn.running_mean s', 'ms'),
                  ('Sub', 'bn.bias ms', 't'), ('Mul', 'h s', 'hs'), ('Add', 'hs t', 'b'), ('Relu', 'b', 'r'), ('MatMul', 'r head.weight', 'y'))
        ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', k]) for n, k in (('x', 6), ('y', 3))]
        g = h.make_graph([h.make_node(op, i.split(), [o]) for op, i, o in pieces], 'g', ends[:1], ends[1:], tensors)
        got, said = trained(d, h.make_model(g, opset_imports=[h.make_opsetid('', 17)]), '--optimizer', 'sgd:lr=0.1')
        moved = [n for n, t in zip(names, tensors) if not (got[n] == numpy_helper.to_array(t)).all()]
        check(moved == ['fc.weight', 'head.weight'] and said.count('exported by PyTorch when frozen') == 1 and 'uses running statistics' not in said, f'frozen in pieces, scale {scale}: {moved} moved; {said}')
finish('cases of norms without scale and bias')
