"""Which tensors are parameters: single numbers of formulas, what exporters computed from parameters, and weights that they wrote twice.

usage: test_parameters.py PROGRAM
"""
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(0)
N, WIDTH, WORDS, LENGTH = 12, 8, 20, 5
KEY = 'pkg.torch.export.ExportedProgram.graph_signature'


def random(*shape):
    return rng.standard_normal(shape).astype('f4')


def save(path, nodes, tensors, x=('x', T.FLOAT, ['n', WIDTH]), y=('y', T.FLOAT, None), listed=(), opset=17):
    inputs = [h.make_tensor_value_info(*i) for i in ([x] if isinstance(x, tuple) else x)]
    g = h.make_graph([h.make_node(op, a.split(), [out], **more) for op, a, out, more in nodes], 'g', inputs, [h.make_tensor_value_info(*y)],
                     [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()])
    if listed:
        g.metadata_props.add(key=KEY, value='\n'.join(listed))
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', opset)], ir_version=10, producer_name='pytorch'), path)


def roles(path):
    r = call('inspect', path, '--json')
    return {t['name']: t for t in json.loads(r.stdout)['initializers']}


def expect(path, name, trains, what):
    got = roles(path)[name]
    check((got['role'] == 'trains') == trains, f'{what}: {got}')


def singles(d):
    """Of shape [1]: numbers that formulas have are constants, unless names of PyTorch's modules tell what is a parameter."""
    for op, value, trains in (('Mul', 0.5, False), ('Add', 1e-5, False), ('Mul', 2 ** 0.5, False), ('Mul', 24 ** -0.5, False), ('Mul', 1 / 6, False), ('Mul', 0.044715, False),
                              ('Mul', (2 / np.pi) ** 0.5, False), ('Add', -1, False), ('Mul', 0.37128412, True), ('Add', 0.91726345, True)):
        for weight, path in (('W', False), ('layer.weight', True)):
            save(f'{d}/m.onnx', [('MatMul', f'x {weight}', 'a', {}), (op, 'a c', 'y', {})], {weight: random(WIDTH, 3), 'c': np.float32([value])})
            expect(f'{d}/m.onnx', 'c', trains or path, f'{op} by {value} beside {weight}')
    save(f'{d}/m.onnx', [('Tanh', 'x', 'r', {}), ('Mul', 'r w', 'a', {}), ('Add', 'a b', 'y', {})], {'w': np.float32([1]), 'b': np.float32([0])})
    for name in 'wb':
        expect(f'{d}/m.onnx', name, True, 'all that there is to train')
    save(f'{d}/m.onnx', [('MatMul', 'x W', 'a', {}), ('Add', 'a c', 'y', {})], {'W': random(WIDTH, 1), 'c': np.float32([1])})
    expect(f'{d}/m.onnx', 'c', True, 'the bias of a layer with one output')
    save(f'{d}/m.onnx', [('MatMul', 'x W', 'a', {}), ('PRelu', 'a c', 'y', {})], {'W': random(WIDTH, 3), 'c': np.float32(0.25)})
    expect(f'{d}/m.onnx', 'c', True, 'the slope of a PRelu')
    for name, trains in ('layer.parametrizations.weight.original0', True), ('onnx::Mul_9', False):  # the length in weight_norm(dim=None)
        save(f'{d}/m.onnx', [('Mul', f'layer.v {name}', 'w', {}), ('MatMul', 'x w', 'y', {})], {'layer.v': random(WIDTH, 3), name: np.float32(1.3)})
        expect(f'{d}/m.onnx', name, trains, f'{name}, a scalar that multiplies a weight')
    save(f'{d}/m.onnx', [('MatMul', 'x W', 'a', {}), ('Mul', 'a net/scale/ReadVariableOp:0', 'y', {})], {'W': random(WIDTH, 3), 'net/scale/ReadVariableOp:0': np.float32(1)})
    expect(f'{d}/m.onnx', 'net/scale/ReadVariableOp:0', True, 'a variable of Keras')


def computed(d):
    """Names that torch.onnx gives to what it computed: functions of weights train, tables and windows do not."""
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WIDTH * 2) / (WIDTH * 2 - 1))).astype('f4')
    for op, name, value, trains in (('Exp', 'onnx::Exp_9', random(1, 16), True), ('Sigmoid', 'onnx::Sigmoid_9', random(1, 16), True), ('Relu', 'onnx::Relu_9', random(16), True),
                                    ('Exp', 'onnx::Exp_9', np.linspace(-2, 1, 16, dtype='f4'), False), ('Sqrt', 'onnx::Sqrt_9', window, False), ('Exp', 'onnx::Exp_9', np.float32([0.3]), False)):
        save(f'{d}/m.onnx', [('MatMul', 'x layer.weight', 'a', {}), (op, name, 'g', {}), ('Mul', 'a g', 'y', {})], {'layer.weight': random(WIDTH, 16), name: value})
        expect(f'{d}/m.onnx', name, trains, f'{op} of {value.shape}')
    save(f'{d}/m.onnx', [('Gemm', 'x layer.weight onnx::Gemm_9', 'y', {'transB': 1})], {'layer.weight': random(3, WIDTH), 'onnx::Gemm_9': random(3)})
    expect(f'{d}/m.onnx', 'onnx::Gemm_9', True, 'the bias of a Gemm')
    # The listed parameter is not in the file by name: its softplus is.
    for name, trains in ('softplus', False), ('softplus_1', False), ('unsqueeze', True):
        save(f'{d}/m.onnx', [('MatMul', 'x layer.weight', 'a', {}), ('Mul', f'a {name}', 'y', {})], {'layer.weight': random(WIDTH, 3), name: abs(random(3))},
             listed=["p_layer_weight: PARAMETER target='layer.weight'", "p_gate: PARAMETER target='gate'"])
        expect(f'{d}/m.onnx', name, trains, f'{name} in a file that lists its parameters')
    # Slopes from the module's code, beside two parameters that are in the file as transposes; one of them has two names.
    table, weight = random(WORDS, WIDTH), random(WIDTH, WIDTH)
    save(f'{d}/m.onnx', [('Gather', 'head.weight x', 'a', {}), ('MatMul', 'a val_1', 'b', {}), ('Mul', 'b unsqueeze_1', 'c', {}), ('MatMul', 'c val_2', 'y', {})],
         {'head.weight': table, 'val_1': weight, 'val_2': table.T.copy(), 'unsqueeze_1': np.float32([[0.0625], [0.00390625]])}, x=('x', T.INT64, ['n', 2]),
         listed=["p_embed: PARAMETER target='embed.weight'", "p_head: PARAMETER target='head.weight'", "p_layer: PARAMETER target='layer.weight'"])
    expect(f'{d}/m.onnx', 'unsqueeze_1', False, 'numbers from the code')
    # A table of sines and cosines with zeros for padding.
    angles = np.arange(30)[:, None] * 10000.0 ** (-np.arange(WIDTH // 2) / 4)
    table = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype('f4')
    table[1] = 0
    nodes = [('Gather', '/embed/Constant_3_output_0 x', 'a', {}), ('MatMul', 'a layer.weight', 'y', {})]
    for values, trains in (table, False), (random(30, WIDTH), True):
        save(f'{d}/m.onnx', nodes, {'layer.weight': random(WIDTH, 3), '/embed/Constant_3_output_0': values}, x=('x', T.INT64, ['n', LENGTH]))
        expect(f'{d}/m.onnx', '/embed/Constant_3_output_0', trains, 'a table of positions')
    save(f'{d}/m.onnx', [('MatMul', 'x layer.weight', 'a', {}), ('Add', 'a final_logits_bias', 'y', {})], {'layer.weight': random(WIDTH, 3), 'final_logits_bias': np.zeros((1, 3), 'f4')})
    expect(f'{d}/m.onnx', 'final_logits_bias', False, 'zeros that are a buffer by name')


def added(d):
    """What is added to an attention's scores trains unless it is a mask; so do the terms of a mean."""
    causal = np.triu(np.full((LENGTH, LENGTH), -1e9, 'f4'), 1)
    for values, trains in (random(LENGTH, LENGTH), True), (causal, False):
        nodes = [('MatMul', 'x layer.weight', 'a', {}), ('Attention', 'a a a bias', 'y', {'q_num_heads': 2, 'kv_num_heads': 2})]
        save(f'{d}/m.onnx', nodes, {'layer.weight': random(WIDTH, WIDTH), 'bias': values}, x=('x', T.FLOAT, ['n', LENGTH, WIDTH]), opset=23)
        expect(f'{d}/m.onnx', 'bias', trains, 'a term of attention scores')
    save(f'{d}/m.onnx', [('MatMul', 'x layer.weight', 'a', {}), ('Mean', 'a layer.shift', 'y', {})], {'layer.weight': random(WIDTH, 3), 'layer.shift': random(3)})
    expect(f'{d}/m.onnx', 'layer.shift', True, 'a term of a mean')


def trained(d, file, *more):
    r = call('train', f'{d}/{file}.onnx', '--data', f'{d}/d.npz', '--loss', 'cross_entropy:class_axis=-1', '--batch-size', str(N), '--no-shuffle', '--steps', '4', '--optimizer',
             'sgd:momentum=0.9', '--lr', '0.1', '--run-dir', 'none', '--log', f'{d}/log.jsonl', '-o', f'{d}/o.onnx', *more)
    steps = [e for e in map(json.loads, open(f'{d}/log.jsonl')) if e['event'] == 'step']
    return r.stderr, steps, {t.name: numpy_helper.to_array(t) for t in onnx.load(f'{d}/o.onnx').graph.initializer}


def alike(a, b, what):
    """The same losses and norms of gradients."""
    for key in 'loss', 'grad_norm':
        u, v = ([s[key] for s in steps] for steps in (a, b))
        check(np.allclose(u, v, rtol=2e-5), f'{what}: {key} {u} and {v}')


def tied(d):
    """--tie: the transpose of an embedding's table trains with it, as in a file where both are one tensor; the gradient's norm counts it once."""
    table, weight = random(WORDS, WIDTH), random(WIDTH, WIDTH)
    x, y = ('x', T.INT64, ['n', LENGTH]), ('y', T.FLOAT, ['n', LENGTH, WORDS])
    first = [('Gather', 'wte.weight x', 'a', {}), ('MatMul', 'a layer.weight', 'b', {})]
    save(f'{d}/one.onnx', [*first, ('Transpose', 'wte.weight', 't', {'perm': [1, 0]}), ('MatMul', 'b t', 'y', {})], {'wte.weight': table, 'layer.weight': weight}, x=x, y=y)
    save(f'{d}/two.onnx', [*first, ('MatMul', 'b onnx::MatMul_9', 'y', {})], {'wte.weight': table, 'layer.weight': weight, 'onnx::MatMul_9': table.T.copy()}, x=x, y=y)
    np.savez(f'{d}/d.npz', x=rng.integers(0, WORDS, (N, LENGTH)), target=rng.integers(0, WORDS, (N, LENGTH)))
    for more in (), ('--clip-norm', '0.3'), ('--accumulate', '2', '--batch-size', str(N // 2), '--clip-norm', '0.3'):
        said, losses, weights = trained(d, 'two', '--tie', *more)
        _, should, one = trained(d, 'one', *more)
        alike(losses, should, f'tied {more}')
        check(np.array_equal(weights['wte.weight'], weights['onnx::MatMul_9'].T), 'the copies agree')
        check(np.allclose(weights['wte.weight'], one['wte.weight'], rtol=2e-5, atol=2e-6), f'tied {more}: weights')
        check('transposed' not in said, f'warned of ties: {said}')
    said, _, weights = trained(d, 'two')
    check(not np.allclose(weights['wte.weight'], weights['onnx::MatMul_9'].T, atol=1e-4), 'two tensors are two weights')
    check('onnx::MatMul_9 of wte.weight' in said and 'use --tie' in said, f'not told: {said}')
    chain = {'a.weight': weight, 'onnx::MatMul_7': weight.T.copy(), 'onnx::MatMul_8': weight}
    layers = [('MatMul', f'{i} {w}', o, {}) for i, w, o in (('a', 'a.weight', 'b'), ('b', 'onnx::MatMul_7', 'c'), ('c', 'onnx::MatMul_8', 'e'), ('e', 'head.weight', 'y'))]
    save(f'{d}/three.onnx', [('Gather', 'wte.weight x', 'a', {}), *layers],
         {**chain, 'wte.weight': table, 'head.weight': random(WIDTH, WORDS)}, x=x, y=y)
    _, _, got = trained(d, 'three', '--tie')
    check(np.array_equal(got['a.weight'], got['onnx::MatMul_7'].T) and np.array_equal(got['a.weight'], got['onnx::MatMul_8']), 'three copies agree')


def repeated(d):
    """Rows that an exporter selected from a table: one gradient for the copies of an element, counted once in the norm."""
    learnt, at = random(9), (np.arange(LENGTH)[:, None] - np.arange(LENGTH) + 4)
    first, x = [('MatMul', 'x layer.weight', 'a', {})], ('x', T.FLOAT, ['n', LENGTH, WIDTH])
    tensors = {'layer.weight': random(WIDTH, LENGTH)}
    y = ('y', T.FLOAT, ['n', LENGTH, LENGTH])
    save(f'{d}/one.onnx', [*first, ('Gather', 'layer.table at', 'b', {}), ('Add', 'a b', 'y', {})], {**tensors, 'layer.table': learnt, 'at': at}, x=x, y=y)
    save(f'{d}/two.onnx', [*first, ('Add', 'a onnx::Add_9', 'y', {})], {**tensors, 'onnx::Add_9': learnt[at]}, x=x, y=y)
    np.savez(f'{d}/d.npz', x=random(N, LENGTH, WIDTH), target=rng.integers(0, LENGTH, (N, LENGTH)))
    for more in (), ('--clip-norm', '0.3'):
        _, losses, weights = trained(d, 'two', *more)
        _, should, one = trained(d, 'one', *more)
        alike(losses, should, f'repeated {more}')
        check(np.allclose(weights['onnx::Add_9'], one['layer.table'][at], rtol=2e-5, atol=2e-6), f'repeated {more}: weights')


with tempfile.TemporaryDirectory() as folder:
    singles(folder)
    computed(folder)
    added(folder)
    tied(folder)
    repeated(folder)
finish('parameters')
