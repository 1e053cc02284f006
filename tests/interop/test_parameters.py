"""Which tensors are parameters: single numbers of formulas, what exporters computed from parameters, weights that they wrote
twice, states that recurrent layers start from, and lists of floats.

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


def save(path, nodes, tensors, x=('x', T.FLOAT, ['n', WIDTH]), y=('y', T.FLOAT, None), listed=(), opset=17, by='pytorch'):
    inputs = [h.make_tensor_value_info(*i) for i in ([x] if isinstance(x, tuple) else x)]
    g = h.make_graph([h.make_node(op, a.split(' '), out.split(' '), **more) for op, a, out, more in nodes], 'g', inputs, [h.make_tensor_value_info(*y)],
                     [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()])
    if listed:
        g.metadata_props.add(key=KEY, value='\n'.join(listed))
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', opset)], ir_version=10, producer_name=by), path)


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
    # Keras starts the bias of an LSTM with ones for the gate that forgets; where the exporter decomposes the layer, that is a vector.
    for values, trains in (np.repeat(np.float32([0, 1, 0, 0]), 4), True), (np.repeat(np.float32([0, 1, 0, 1]), 4), False):
        save(f'{d}/m.onnx', [('MatMul', 'x onnx::MatMul_8', 'a', {}), ('Add', 'a onnx::Add_9', 'y', {})], {'onnx::MatMul_8': random(WIDTH, 16), 'onnx::Add_9': values})
        expect(f'{d}/m.onnx', 'onnx::Add_9', trains, f'a vector of {values}')
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
    for name, values, trains in ('onnx::Gather_3', table, False), ('onnx::Gather_3', random(30, WIDTH), True), ('/embed/Constant_3_output_0', random(30, WIDTH), False):
        save(f'{d}/m.onnx', [('Gather', f'{name} x', 'a', {}), ('MatMul', 'a layer.weight', 'y', {})], {'layer.weight': random(WIDTH, 3), name: values},
             x=('x', T.INT64, ['n', LENGTH]))
        expect(f'{d}/m.onnx', name, trains, 'a table of positions')
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
    # The transpose that the exporter computed of a listed parameter is one with it, also under a name that a parameter could have.
    save(f'{d}/t.onnx', [*first, ('MatMul', 'b t', 'y', {})], {'wte.weight': table, 'layer.weight': weight, 't': table.T.copy()}, x=x, y=y,
         listed=["p_wte: PARAMETER target='wte.weight'", "p_layer: PARAMETER target='layer.weight'"])
    _, losses, weights = trained(d, 't')
    _, should, _ = trained(d, 'one')
    alike(losses, should, 'a listed parameter and its transpose t')
    check(np.array_equal(weights['t'], weights['wte.weight'].T), 'the transpose t has other values')
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


def states(d):
    """What recurrent layers start from: learned states train, in the form of each exporter; zeros do not, and neither do the states of Keras's stateful layers."""
    x = ('x', T.FLOAT, [LENGTH, N, WIDTH])
    zeros, each, one = np.zeros((1, N, WIDTH), 'f4'), random(1, N, WIDTH), random(1, 1, WIDTH)
    all_of, sizes = np.repeat(one, N, 1), {'sizes': np.int64([1, N, WIDTH]), 'times': np.int64([1, N, 1])}

    def trains(name, value, should, what, before=(), start=None, x=x, named=True, **more):
        for op, gates in ('LSTM', 4), ('GRU', 3), ('RNN', 1):
            w = {'layer.weight' if named else 'onnx::W_1': random(1, gates * WIDTH, WIDTH), 'onnx::R_2': random(1, gates * WIDTH, WIDTH)}
            states = ' '.join([start or name] * (2 if op == 'LSTM' else 1))
            save(f'{d}/m.onnx', [*before, (op, f'x {" ".join(w)}   {states}', 'y', {'hidden_size': WIDTH})], {**w, name: value, **sizes}, x=x, **more)
            expect(f'{d}/m.onnx', name, should, f'{op}: {what}')

    trains('h0', each, True, 'a state for each sample')
    trains('h0', one, True, 'a state for one sample', x=('x', T.FLOAT, [LENGTH, 1, WIDTH]))
    trains('onnx::LSTM_9', each, True, 'a state that the exporter computed')
    trains('val_9', all_of, True, 'copies of a state')
    trains('h0', one, True, 'a state that is expanded', [('Expand', 'h0 sizes', 'a', {})], 'a')
    trains('h0', 0 * one, True, 'zeros that are expanded', [('Expand', 'h0 sizes', 'a', {})], 'a')
    trains('val_3', one, True, 'a state that is repeated', [('Tile', 'val_3 times', 'a', {})], 'a')
    trains('h0', zeros, True, 'a listed parameter', listed=["p_h0: PARAMETER target='h0'"])
    trains('h0', zeros, False, 'zeros')
    check('does not train: a recurrent layer starts from its zeros' in call('check', f'{d}/m.onnx').stdout, 'zeros of a name are told')
    for named in True, False:
        trains('val_9', zeros, False, 'zeros that the exporter wrote', named=named)
    trains('const_fold_opt__9', each, False, 'the state of a stateful layer', by='tf2onnx')
    trains('const_fold_opt__9', all_of, True, 'copies of a state', by='tf2onnx')
    save(f'{d}/m.onnx', [('MatMul', 'x layer.weight', 'a', {}), ('Add', 'a linear_1', 'y', {})], {'layer.weight': random(WIDTH, WIDTH), 'linear_1': all_of[0]}, x=('x', T.FLOAT, [N, WIDTH]))
    check('copies of one parameter' in roles(f'{d}/m.onnx')['linear_1']['why'], f"a computed first step: {roles(f'{d}/m.onnx')['linear_1']}")
    # One state that the graph expands, and the expanded one, are one parameter.
    w = {'w': random(1, 4 * WIDTH, WIDTH), 'r': random(1, 4 * WIDTH, WIDTH), 'head': random(WIDTH, 3), 'axis': np.int64([0]), **sizes}
    after = [('Squeeze', 'h axis', 'b', {}), ('MatMul', 'b head', 'y', {})]
    turn, run = ('Transpose', 'x', 't', {'perm': [1, 0, 2]}), {'hidden_size': WIDTH}
    ends = {'x': ('x', T.FLOAT, [N, LENGTH, WIDTH]), 'y': ('y', T.FLOAT, [N, 3])}
    save(f'{d}/one.onnx', [turn, ('Expand', 'h0 sizes', 's', {}), ('LSTM', 't w r   s s', ' h', run), *after], {**w, 'h0': one}, **ends)
    save(f'{d}/two.onnx', [turn, ('LSTM', 't w r   val_9 val_9', ' h', run), *after], {**w, 'val_9': all_of}, **ends)
    for count in N, 2 * N:
        np.savez(f'{d}/d.npz', x=random(count, LENGTH, WIDTH), target=rng.integers(0, 3, count))
        _, losses, weights = trained(d, 'two', '--batch-size', str(count))
        _, should, expanded = trained(d, 'one', '--batch-size', str(count))
        alike(losses, should, f'states of {count} samples')
        check(np.allclose(weights['val_9'], expanded['h0'].repeat(N, 1), rtol=2e-5, atol=2e-6), f'states of {count} samples')
        check(not np.allclose(expanded['h0'], one, atol=1e-4), 'a state moves')


def lists(d):
    """A Constant with a list of floats, or one, is as one with a tensor: what trains, and what is written."""
    w, b = random(WIDTH * 3), random(3)
    np.savez(f'{d}/d.npz', x=random(N, WIDTH), target=rng.integers(0, 3, N))
    nodes = [('Reshape', 'w sizes', 'm', {}), ('MatMul', 'x m', 'a', {}), ('Add', 'a b', 'y', {})]
    seen = {}
    for form in 'value', 'value_floats':
        constants = [h.make_node('Constant', [], [k], **{form: numpy_helper.from_array(v) if form == 'value' else v.tolist()}) for k, v in (('w', w), ('b', b))]
        for other in {}, {'layer.weight': random(WIDTH, WIDTH)}:
            first = [('MatMul', 'x layer.weight', 't', {}), ('Reshape', 'w sizes', 'm', {}), ('MatMul', 't m', 'a', {}), nodes[-1]] if other else nodes
            save(f'{d}/m.onnx', first, {**other, 'sizes': np.int64([WIDTH, 3])})
            m = onnx.load(f'{d}/m.onnx')
            m.graph.node.extend(constants)
            onnx.save(m, f'{d}/m.onnx')
            for name in 'wb':
                expect(f'{d}/m.onnx', name, not other, f'{form}{" beside initializers" if other else ""}')
            if other:
                continue
            _, steps, _ = trained(d, 'm')
            after = {n.output[0]: n.attribute[0] for n in onnx.load(f'{d}/o.onnx').graph.node if n.op_type == 'Constant'}
            seen[form] = steps, {k: numpy_helper.to_array(a.t) if form == 'value' else np.float32(a.floats) for k, a in after.items()}
            trained(d, 'm', '--lr', '0')
            check(open(f'{d}/m.onnx', 'rb').read() == open(f'{d}/o.onnx', 'rb').read(), f'{form}: the same file at rate 0')
    # A single float, as a slope; numbers of formulas stay.
    for form in 'value', 'value_float':
        constants = [h.make_node('Constant', [], [k], **{form: h.make_tensor('', T.FLOAT, [], [v]) if form == 'value' else v}) for k, v in (('slope', 0.25), ('half', 0.5))]
        save(f'{d}/m.onnx', [('MatMul', 'x w', 'a', {}), ('PRelu', 'a slope', 'c', {}), ('Mul', 'c half', 'y', {})], {})
        constants.append(h.make_node('Constant', [], ['w'], value=numpy_helper.from_array(w.reshape(WIDTH, 3))))
        m = onnx.load(f'{d}/m.onnx')
        m.graph.node.extend(constants)
        onnx.save(m, f'{d}/m.onnx')
        for name in 'slope', 'half':
            expect(f'{d}/m.onnx', name, name == 'slope', f'{name} as {form}')
        trained(d, 'm', '--lr', '0')
        check(open(f'{d}/m.onnx', 'rb').read() == open(f'{d}/o.onnx', 'rb').read(), f'{form}: the same file at rate 0')
        _, steps, _ = trained(d, 'm')
        after = {n.output[0]: n.attribute[0] for n in onnx.load(f'{d}/o.onnx').graph.node if n.op_type == 'Constant'}
        seen['one ' + form] = steps, {k: a.f if form == 'value_float' else float(numpy_helper.to_array(a.t)) for k, a in after.items() if k != 'w'}
        check(seen['one ' + form][1]['slope'] != 0.25 and seen['one ' + form][1]['half'] == 0.5, f'{form}: {seen}')
    check(seen['one value'][1] == seen['one value_float'][1], f'floats: {seen}')
    (steps, weights), (should, others) = seen['value'], seen['value_floats']
    alike(steps, should, 'lists of floats')
    check(all(np.array_equal(weights[k], others[k]) and not np.array_equal(weights[k], v) for k, v in (('w', w), ('b', b))), 'lists of floats: weights')


def folded(d):
    """A codebook whose transpose the exporter folded, where only an index depends on it: the lookup keeps the old values, which is said."""
    book, weight = random(WORDS, WIDTH), random(WIDTH, 3)
    nodes = [('MatMul', 'x book_t', 'a', {}), ('ArgMax', 'a', 'i', {'axis': 1, 'keepdims': 0}), ('Gather', 'vq.book i', 'z', {}), ('Add', 'z x', 'b', {}),
             ('MatMul', 'b fc.weight', 'y', {})]
    np.savez(f'{d}/d.npz', x=random(N, WIDTH), target=rng.integers(0, 3, N))
    for name, first in (('val_3', []), ('book_t', [('Transpose', 'vq.book', 'book_t', {'perm': [1, 0]})])):
        all_nodes = first + [(op, a.replace('book_t', name), out, more) for op, a, out, more in nodes]
        save(f'{d}/m.onnx', all_nodes, {'vq.book': book, 'fc.weight': weight, **({} if first else {name: book.T.copy()})})
        expect(f'{d}/m.onnx', 'vq.book', True, 'a codebook')
        said = trained(d, 'm')[0]
        told = "a copy of weight 'vq.book', transposed" in said and 'without constant folding' in said
        check(told == (not first), f'a folded codebook: {said}')


def after(path):
    """The weights after three updates."""
    rows = np.random.default_rng(3)
    np.savez(path + '.npz', x=rows.standard_normal((N, WIDTH)).astype('f4'), target=rows.standard_normal((N, WIDTH)).astype('f4'))
    r = call('train', path, '--data', path + '.npz', '--loss', 'mse', '--optimizer', 'sgd:lr=0.5', '--batch-size', str(N), '--steps', '3', '--no-shuffle', '--run-dir', 'none',
             '--threads', '1', '-o', path + '.t.onnx')
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path + '.t.onnx').graph.initializer} if not r.returncode else r.stderr


def bodies(d):
    """What bodies of If, Loop and Scan read through nodes that move elements, and what a Scan reads in parts, trains as it does outside."""
    value, node = h.make_tensor_value_info, h.make_node
    body = lambda nodes, ins, outs: h.make_graph(nodes, 'body', [value(n, t, None) for n, t in ins], [value(n, t, None) for n, t in outs])
    real = lambda *names: [(n, T.FLOAT) for n in names]
    W, U, b = random(WIDTH, WIDTH), random(WIDTH, WIDTH), random(WIDTH)
    layers = [('Transpose', 'W', 't', {}), ('MatMul', 'x t', 'm', {}), ('Add', 'm b', 'a', {}), ('Tanh', 'a', 'c', {}), ('MatMul', 'c U', 'e', {}), ('Tanh', 'e', 'y', {})]
    save(f'{d}/flat.onnx', layers, {'W': W, 'U': U, 'b': b})
    right = after(f'{d}/flat.onnx')
    check(isinstance(right, dict) and (right['W'] != W).all(), f'without a body: {right}')

    first = [node('Transpose', ['W'], ['t']), node('MatMul', ['x', 't'], ['m']), node('Reshape', ['b', 'row'], ['r']), node('Add', ['m', 'r'], ['a']), node('Tanh', ['a'], ['c1'])]
    other = body([node('MatMul', ['x', 'U'], ['c2'])], [], real('c2'))
    branch = {'then_branch': body(first, [], real('c1')), 'else_branch': other}
    test = [('Mul', 'x x', 's', {}), ('ReduceSum', 's', 'q', {'keepdims': 0}), ('Greater', 'q zero', 'k', {})]
    rest = [('MatMul', 'c U', 'e', {}), ('Tanh', 'e', 'y', {})]
    small = {'row': np.int64([1, WIDTH]), 'zero': np.float32(0), 'once': np.int64(1), 'true': np.array(True)}
    state = [('i', T.INT64), ('go', T.BOOL), ('h', T.FLOAT)], [('go2', T.BOOL), ('h2', T.FLOAT)]
    inside = body([node('If', ['k'], ['h2'], **branch), node('Identity', ['go'], ['go2'])], *state)
    step = body([*first[:2], *first[2:], node('Add', ['c1', 'part'], ['o'])], real('part'), real('o'))
    forms = {'If': test + [('If', 'k', 'c', branch), *rest], 'Loop with an If': test + [('Loop', 'once true x', 'c', {'body': inside}), *rest],
             'Scan': [('Unsqueeze', 'zero axis', 'z', {}), ('Scan', 'z', 'o', {'body': step, 'num_scan_inputs': 1}), ('Squeeze', 'o axis', 'c', {}), *rest]}
    for name, nodes in forms.items():
        save(f'{d}/m.onnx', nodes, small | {'axis': np.int64([0]), 'W': W, 'U': U, 'b': b})
        got = after(f'{d}/m.onnx')
        check(isinstance(got, dict) and all(np.allclose(got[k], right[k], atol=1e-5) for k in 'WUb'), f'{name}: {got if isinstance(got, str) else roles(f"{d}/m.onnx")}')

    layer = body([node('MatMul', ['h', 'w'], ['m']), node('Add', ['m', 'v'], ['a']), node('Tanh', ['a'], ['h2'])], real('h', 'w', 'v'), real('h2'))
    stacked, shifts = np.stack([W, U]), random(2, WIDTH)
    save(f'{d}/m.onnx', [('Scan', 'x Ws bs', 'y', {'body': layer, 'num_scan_inputs': 2})], {'Ws': stacked, 'bs': shifts})
    save(f'{d}/flat.onnx', [('MatMul', 'x W', 'm', {}), ('Add', 'm b', 'a', {}), ('Tanh', 'a', 'c', {}), ('MatMul', 'c U', 'e', {}), ('Add', 'e v', 'f', {}), ('Tanh', 'f', 'y', {})],
         {'W': W, 'U': U, 'b': shifts[0], 'v': shifts[1]})
    got, right = after(f'{d}/m.onnx'), after(f'{d}/flat.onnx')
    check(isinstance(got, dict) and np.allclose(got['Ws'], np.stack([right['W'], right['U']]), atol=1e-5) and np.allclose(got['bs'], np.stack([right['b'], right['v']]), atol=1e-5),
          f'weights of layers that a Scan reads in turn: {got if isinstance(got, str) else roles(f"{d}/m.onnx")}')


def scripted(d):
    """The exporter of scripted modules writes weights of recurrent layers as Constant nodes and orders their gates in the graph."""
    hidden, four = 6, 24
    ends = [('zero', [0]), ('one', [hidden]), ('last', [four])]
    weights = {'W': random(four, WIDTH), 'R': random(four, hidden), 'B': random(four)}
    constant = lambda name, v: h.make_node('Constant', [], [name], value=numpy_helper.from_array(np.asarray(v), name))
    nodes = [constant(n, v) for n, v in ends] + [constant(f'onnx::Slice_{n}', v) for n, v in weights.items()] + [constant('rest', np.zeros(four, 'f4'))]
    for n in weights:
        w = f'onnx::Slice_{n}'
        nodes += [h.make_node('Slice', [w, 'zero', 'one', 'zero'], [n + '1']), h.make_node('Slice', [w, 'one', 'last', 'zero'], [n + '2']),
                  h.make_node('Concat', [n + '2', n + '1', *(['rest'] if n == 'B' else [])], [n + '3'], axis=0), h.make_node('Unsqueeze', [n + '3', 'zero'], [n])]
    nodes += [h.make_node('LSTM', ['x', 'W', 'R', 'B'], ['', 'a'], hidden_size=hidden), h.make_node('Squeeze', ['a', 'zero'], ['b']), h.make_node('Gemm', ['b', 'fc.weight'], ['y'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, [LENGTH, 'n', WIDTH])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 3])],
                     [numpy_helper.from_array(random(hidden, 3), 'fc.weight')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch'), f'{d}/m.onnx')
    for name, trains in dict.fromkeys(['fc.weight', *(f'onnx::Slice_{n}' for n in weights)], True).items():
        expect(f'{d}/m.onnx', name, trains, 'weights of a scripted LSTM')
    expect(f'{d}/m.onnx', 'rest', False, 'the zeros beside the bias of a scripted LSTM')


def opened_gates(d):
    """Ones for the gate that forgets in the operand of an LSTM, in the order of ONNX and with zeros beside them: no warning takes them for a table."""
    for open_gate, warns in (2, False), (3, True):
        bias = np.repeat(np.float32([[gate == open_gate for gate in range(8)]]), 8, axis=1)
        save(f'{d}/m.onnx', [('LSTM', 'x W0__30 R0__31 B0__32', 'y', {'hidden_size': 8})], {'W0__30': random(1, 32, WIDTH), 'R0__31': random(1, 32, 8), 'B0__32': bias},
             x=('x', T.FLOAT, [LENGTH, 'n', WIDTH]), by='tf2onnx')
        expect(f'{d}/m.onnx', 'B0__32', True, f'a bias with ones for gate {open_gate}')
        check(('few distinct values' in call('inspect', f'{d}/m.onnx').stdout) == warns, f'a warning of a bias with ones for gate {open_gate}')


with tempfile.TemporaryDirectory() as folder:
    singles(folder)
    computed(folder)
    added(folder)
    tied(folder)
    repeated(folder)
    states(folder)
    lists(folder)
    folded(folder)
    bodies(folder)
    scripted(folder)
    opened_gates(folder)
finish('parameters')
