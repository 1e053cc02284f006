"""Initializers that train, and those that do not, by their names and values as PyTorch's exporters write them.

usage: test_constants.py PROGRAM
"""
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(0)
SIDE, HEADS = 24, 3
distance = np.arange(SIDE) - np.arange(SIDE)[:, None]
hidden = np.where(distance > 0, -1e9, 0)


def penalties(slope):
    """ALiBi: a penalty that grows with the distance, by head, and a causal mask."""
    return (slope ** np.arange(1, HEADS + 1)[:, None, None] * distance + hidden).astype('f4')


def model(name, value, op):
    shape = [SIDE, SIDE] if value.ndim < 3 else [HEADS, SIDE, SIDE]
    nodes = [h.make_node('MatMul', ['x', 'layer.weight'], ['a']), h.make_node(op, ['a', name], ['b']), h.make_node('Softmax', ['b'], ['c'], axis=-1),
             h.make_node('MatMul', ['c', 'layer.weight'], ['y'])]
    tensors = [numpy_helper.from_array(rng.standard_normal((SIDE, SIDE)).astype('f4'), 'layer.weight'), numpy_helper.from_array(value, name)]
    v = lambda n: h.make_tensor_value_info(n, T.FLOAT, shape)
    return h.make_model(h.make_graph(nodes, 'g', [v('x')], [v('y')], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch')


some = rng.standard_normal(SIDE).astype('f4')
relative = rng.standard_normal((HEADS, 2 * SIDE))[:, SIDE - distance]  # a learnt bias of each distance
grid = np.arange(-3, SIDE + 1, dtype='f4') * np.float32(0.4) - 1
widths = np.sort(np.tile((grid[1:] - grid[:-1])[:SIDE], (SIDE, 1)))  # equal up to rounding; the first two are equal
CASES = [
    # name, values, operator, does it train?
    ('lifted_tensor_0', np.float32(2), 'Mul', False),
    ('encoder.lifted_tensor_0', np.float32(2), 'Mul', False),
    ('encoder.layers.0.lifted_tensor_3', some, 'Mul', False),
    ('encoder.lifted_tensor_1', some, 'Add', False),
    ('encoder._tensor_constant0', some, 'Add', False),
    ('encoder.lifted', some, 'Add', True),
    ('encoder.bias', some, 'Add', True),
    ('add_1', penalties(0.5), 'Add', False),
    ('add_1', penalties(2 ** (-8 / 3)), 'Add', False),
    ('add_1', (hidden + np.zeros((HEADS, 1, 1))).astype('f4'), 'Add', False),
    ('unsqueeze_1', np.float32([0.5, 0.7, 0.9])[:, None, None], 'Mul', False),
    ('unsqueeze_1', np.float32([0.5, 0.7, 0.9001])[:, None, None], 'Mul', True),  # weights are nearly even by chance
    ('sub_3', widths, 'Div', False),
    ('onnx::Div_483', widths, 'Div', False),
    ('expand_3', np.repeat(abs(some[:, None]) + 1, SIDE, 1), 'Div', True),
    ('encoder.relative', relative.astype('f4'), 'Add', True),
    ('encoder.keep', np.float32(np.arange(SIDE) % 3 > 0), 'Mul', False),  # zeros and ones: a mask, where it multiplies
    ('encoder.keep', np.float32(np.arange(SIDE) % 3 > 0), 'Add', True),
    ('encoder.keep', np.ones(SIDE, 'f4'), 'Mul', True),  # how a scale starts
    ('encoder.keep', np.zeros(SIDE, 'f4'), 'Mul', True),
    ('encoder.keep_mask', np.ones(SIDE, 'f4'), 'Mul', False),
    ('encoder.keep', np.float32(np.arange(SIDE) % 3), 'Mul', True),
    ('encoder.grid', np.linspace(-1, 1, SIDE, dtype='f4'), 'Sub', False),
    ('encoder.adj', np.float32(rng.random((SIDE, SIDE)) < 0.2), 'MatMul', False),
    ('encoder.adj', rng.standard_normal((SIDE, SIDE)).astype('f4'), 'MatMul', True),
    ('encoder.links', np.float32(rng.random((SIDE, SIDE)) < 0.2), 'MatMul', True),
    ('mel.fb', np.maximum(0, 1 - abs(distance) / 3).astype('f4'), 'MatMul', False),
    ('mel.fb', rng.standard_normal((SIDE, SIDE)).astype('f4'), 'MatMul', True),
    ('stft.forward_basis', rng.standard_normal((SIDE, SIDE)).astype('f4'), 'MatMul', False),
    ('encoder.shift', np.linspace(-1, 1, SIDE, dtype='f4'), 'Sub', True),
]

with tempfile.TemporaryDirectory() as d:
    for name, value, op, trains in CASES:
        onnx.save(model(name, np.asarray(value), op), f'{d}/m.onnx')
        tensors = {t['name']: t for t in json.loads(call('inspect', f'{d}/m.onnx', '--json').stdout)['initializers']}
        check((tensors[name]['role'] == 'trains') == trains, f'{name} {np.shape(value)} {op}: {tensors[name]}')
        check(tensors['layer.weight']['role'] == 'trains', f"beside {name}: {tensors['layer.weight']}")

    # The vectors of spectral_norm (sigma = u' W v) are buffers beside the weight; without one of that name and size, they are as any other.
    for weight, u, v, trains in (('n.weight_orig', 'n.weight_u', 'n.weight_v', False), ('n.parametrizations.weight.original', 'n.parametrizations.weight.0._u', 'n.parametrizations.weight.0._v', False),
                                 ('n.weight', 'n.weight_u', 'n.weight_v', True), ('other.weight_orig', 'n.weight_u', 'n.weight_v', True), ('n.parametrizations.weight.original', 'n.parametrizations.weight._u', 'n.parametrizations.weight._v', True)):
        for rows in (5, 1):
            nodes = [h.make_node(op, [a, b], [out]) for op, a, b, out in (('MatMul', weight, v, 'wv'), ('MatMul', u, 'wv', 'sigma'), ('Div', weight, 'sigma', 'w'))] + [h.make_node('Gemm', ['x', 'w'], ['y'], transB=1)]
            tensors = [numpy_helper.from_array(rng.standard_normal(shape).astype('f4'), n) for n, shape in ((weight, (rows, 4)), (u, (rows,)), (v, (4,)))]
            ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', k]) for n, k in (('x', 4), ('y', rows))]
            onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch'), f'{d}/m.onnx')
            got = {t['name']: t for t in json.loads(call('inspect', f'{d}/m.onnx', '--json').stdout)['initializers']}
            for n, should in ((weight, True), (u, trains), (v, trains)):
                check((got[n]['role'] == 'trains') == should, f'spectral_norm of {weight} of {rows} rows, {n}: {got[n]}')
    # Masks of weights: PyTorch's prune keeps `weight_mask` beside `weight_orig`; other modules multiply with zeros and ones, or with what is left of one.
    some = np.float32(rng.standard_normal((6, 4)) > 0)
    for weight, mask, values, minus, trains in (('n.weight_orig', 'n.weight_mask', some, False, False), ('n.weight_orig', 'n.weight_mask', np.ones_like(some), False, False),
                                                ('n.weight', 'n.keep', some, False, False), ('n.weight', 'n.keep', some[:, :1], False, False), ('n.weight', 'n.keep', some, True, False),
                                                ('n.weight', 'n.keep', np.ones_like(some), False, True), ('n.weight', 'n.keep', some * 0.5, False, True)):
        nodes = ([h.make_node('Sub', ['one', mask], ['gate'])] if minus else []) + [h.make_node('Mul', [weight, 'gate' if minus else mask], ['w']), h.make_node('Gemm', ['x', 'w'], ['y'], transB=1)]
        tensors = [numpy_helper.from_array(value, n) for n, value in ((weight, rng.standard_normal((6, 4)).astype('f4')), (mask, values), ('one', np.float32(1)))]
        ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', k]) for n, k in (('x', 4), ('y', 6))]
        onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch'), f'{d}/m.onnx')
        got = {t['name']: t for t in json.loads(call('inspect', f'{d}/m.onnx', '--json').stdout)['initializers']}
        for n, should in ((weight, True), (mask, trains)):
            check((got[n]['role'] == 'trains') == should, f'{mask} {values.shape} of {weight}, {n}: {got[n]}')
    # Few numbers in a matrix are told, because a layer's weights are none; an identity, from which layers start, is not.
    for values, told in ((np.float32(rng.standard_normal((6, 6)) > 0), True), (np.eye(6, dtype='f4'), False), (rng.standard_normal((6, 6)).astype('f4'), False), (np.ones((6, 6), 'f4'), False)):
        nodes = [h.make_node('MatMul', ['x', 'links'], ['t']), h.make_node('MatMul', ['t', 'w'], ['y'])]
        tensors = [numpy_helper.from_array(values, 'links'), numpy_helper.from_array(rng.standard_normal((6, 3)).astype('f4'), 'w')]
        ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', k]) for n, k in (('x', 6), ('y', 3))]
        onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch'), f'{d}/m.onnx')
        r = call('inspect', f'{d}/m.onnx')
        check(('look like' in r.stderr + r.stdout) == told, f'a matrix of {values[0]}...: {r.stderr}')
    # There are 8^23 ways from the initializer to the product.
    nodes = [h.make_node('Sum', [f's{i}'] * 8, [f's{i + 1}']) for i in range(23)] + [h.make_node('Mul', ['x', 's23'], ['m']), h.make_node('MatMul', ['m', 'w'], ['y'])]
    tensors = [numpy_helper.from_array(np.float32([0, 1, 1, 0]), 's0'), numpy_helper.from_array(rng.standard_normal((4, 2)).astype('f4'), 'w')]
    ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', k]) for n, k in (('x', 4), ('y', 2))]
    onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/m.onnx')
    r = call('inspect', f'{d}/m.onnx')
    check(r.returncode == 0, f'many ways: exit {r.returncode}: {r.stderr}')
    # A join of thousands of slices that are each read once needs no more memory than they have.
    count = 3000
    nodes = [h.make_node('Slice', ['x', f's{i}', f'e{i}', 'one'], [f'p{i}']) for i in range(count)] + [h.make_node('Concat', [f'p{i}' for i in range(count)], ['j'], axis=1), h.make_node('MatMul', ['j', 'w'], ['y'])]
    tensors = [numpy_helper.from_array(np.array([i + k]), f'{n}{i}') for i in range(count) for k, n in enumerate('se')] + [numpy_helper.from_array(np.array([1]), 'one'), numpy_helper.from_array(rng.standard_normal((count, 2)).astype('f4'), 'w')]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', count])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 2])], tensors)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/m.onnx')
    r = call('plan', f'{d}/m.onnx')
    check(r.returncode == 0, f'a join of {count} slices: exit {r.returncode}: {r.stderr}')
    # A sparse initializer is a constant, which is said.
    entries = h.make_sparse_tensor(h.make_tensor('S', T.FLOAT, [2], [1., 2.]), h.make_tensor('places', T.INT64, [2], [0, 5]), [4, 3])
    g = h.make_graph([h.make_node('MatMul', ['x', 'S'], ['a']), h.make_node('MatMul', ['a', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 4])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['n', 2])], [numpy_helper.from_array(rng.standard_normal((3, 2)).astype('f4'), 'w')], sparse_initializer=[entries])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/m.onnx')
    r = call('inspect', f'{d}/m.onnx')
    check("sparse initializers do not train (1, first: 'S')" in r.stdout, f'sparse: {r.stdout}')
finish('checks')
