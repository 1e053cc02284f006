"""Forms that one exporting program writes: tensors, or parts of one, that are no parameters of the exported model stay constant.

usage: test_exporters.py PROGRAM
"""
import json
import tempfile

from scripts import T, arrays, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(0)
some = lambda *shape: rng.standard_normal(shape).astype('f4')


def model(nodes, tensors, inputs, outputs, producer, **opsets):
    v = lambda n, s: h.make_tensor_value_info(n, T.FLOAT, s)
    return h.make_model(h.make_graph(nodes, 'g', [v(*i) for i in inputs.items()], [v(*o) for o in outputs.items()],
                                     [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()]),
                        opset_imports=[h.make_opsetid(d.replace('_', '.') if d != 'onnx' else '', n) for d, n in ({'onnx': 17} | opsets).items()],
                        ir_version=8, producer_name=producer)


def listed(d, m, *options):
    onnx.save(m, d + '/m.onnx')
    r = call('inspect', d + '/m.onnx', '--json', *options)
    return {t['name']: t for t in json.loads(r.stdout)['initializers']}, r.stdout


def trained(d, m, feeds, *options):
    onnx.save(m, d + '/m.onnx')
    np.savez(d + '/x.npz', **feeds)
    call('train', d + '/m.onnx', '--data', d + '/x.npz', '-o', d + '/t.onnx', '--steps', '3', '--epochs', '9', '--batch-size', '4', '--no-shuffle', '--loss',
         'mse', '--run-dir', 'none', '--threads', '1', *options)
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(d + '/t.onnx').graph.initializer}


H, I = 3, 2


def recurrent(op, b, producer, spelled=False, **attrs):
    """spelled: the bias is a tensor of its own, joined with zeros."""
    G = {'LSTM': 4, 'GRU': 3, 'RNN': 1}[op]
    tensors = {'W': some(1, G * H, I), 'R': some(1, G * H, H), 'D': some(H, 1), 'axis': np.array([0])}
    nodes = [h.make_node(op, ['x', 'W', 'R', 'B'], ['', 'h'], hidden_size=H, **attrs), h.make_node('Squeeze', ['h', 'axis'], ['s']), h.make_node('MatMul', ['s', 'D'], ['y'])]
    if spelled:
        nodes.insert(0, h.make_node('Concat', ['bias', 'zeros'], ['B'], axis=1))
        tensors |= {'bias': b[:, :G * H], 'zeros': np.zeros((1, G * H), 'f4')}
    else:
        tensors['B'] = b
    return model(nodes, tensors, {'x': [5, 'N', I]}, {'y': ['N', 1]}, producer)


with tempfile.TemporaryDirectory() as d:
    for op, attrs in (('LSTM', {}), ('GRU', {}), ('RNN', {})):
        half = {'LSTM': 4, 'GRU': 3, 'RNN': 1}[op] * H
        b = np.concatenate([some(1, half), np.zeros((1, half), 'f4')], 1)
        feeds = {'x': some(4, 5, I), 'target': some(4, 1)}
        m = recurrent(op, b, 'tf2onnx')
        feeds['x'] = feeds['x'].transpose(1, 0, 2)
        spelled = recurrent(op, b, 'tf2onnx', True)
        for i in spelled.graph.initializer:
            for k in m.graph.initializer:
                if k.name == i.name:
                    i.CopyFrom(k)
        tensors, _ = listed(d, m)
        check('second half' in tensors['B']['why'], f"{op}: {tensors['B']}")
        options = '--optimizer', 'adamw:lr=0.1', '--seed', '1'
        got = arrays(d, 'grad', m, feeds, '--loss', 'mse', '--batch-size', '4')[1]
        want = arrays(d, 'grad', spelled, feeds, '--loss', 'mse', '--freeze', 'zeros', '--batch-size', '4')[1]
        check(got and not got['B'][:, half:].any(), f'{op}: gradient of the zeros')
        check(got and np.allclose(got['B'][:, :half], want['bias'], atol=1e-6), f'{op}: gradient of the bias')
        check('second half' not in listed(d, m, '--train', 'B')[0]['B']['why'], f'{op} --train')
        for other in (recurrent(op, b, 'pytorch'), recurrent(op, some(1, 2 * half), 'tf2onnx')):
            check('second half' not in listed(d, other)[0]['B']['why'], f'{op}: two biases')
        t = listed(d, recurrent(op, 0 * b, 'tf2onnx'))[0]['B']
        check((t['role'] == 'trains') == (op != 'LSTM'), f'{op}: zeros alone: {t}')
    t = listed(d, recurrent('GRU', np.concatenate([some(1, 9), np.zeros((1, 9), 'f4')], 1), 'tf2onnx', linear_before_reset=1))[0]['B']
    check('second half' not in t['why'], f'reset_after: {t}')

    # The layout of a batch that comes first: samples are on axis 0 of the data.
    b = np.concatenate([some(1, 12), np.zeros((1, 12), 'f4')], 1)
    m = recurrent('LSTM', b, 'tf2onnx')
    m.graph.node.insert(0, h.make_node('Transpose', ['z'], ['x'], perm=[1, 0, 2]))
    m.graph.input[0].CopyFrom(h.make_tensor_value_info('z', T.FLOAT, ['N', 5, I]))
    got = trained(d, m, {'z': some(8, 5, I), 'target': some(8, 1)}, '--optimizer', 'adamw:lr=0.1')
    check(not got['B'][:, 12:].any() and (got['B'][:, :12] != b[:, :12]).all(), 'LSTM: the zeros stay, the bias trains')

    # A BatchNormalization of Keras that PyTorch's exporter folded.
    def normed(mean='onnx::Sub_9', shift_shape=(1, 4), reader=False):
        nodes = [h.make_node('MatMul', ['x', 'onnx::MatMul_1'], ['a']), h.make_node('Sub', ['a', mean], ['b']), h.make_node('Mul', ['b', 'onnx::Mul_8'], ['c']),
                 h.make_node('Add', ['c', 'onnx::Add_7'], ['e']), h.make_node('MatMul', ['e' if not reader else 'f', 'onnx::MatMul_2'], ['y'])]
        if reader:
            nodes.insert(4, h.make_node('Mul', ['e', 'b'], ['f']))
        return model(nodes, {'onnx::MatMul_1': some(3, 4), mean: some(1, 4), 'onnx::Mul_8': some(1, 4), 'onnx::Add_7': some(*shift_shape), 'onnx::MatMul_2': some(4, 2)},
                     {'x': ['N', 3]}, {'y': ['N', 2]}, 'pytorch')

    tensors, _ = listed(d, normed())
    check('mean of a BatchNormalization' in tensors['onnx::Sub_9']['why'] and sum(t['role'] == 'trains' for t in tensors.values()) == 4, f'folded norm: {tensors}')
    got = trained(d, normed(), {'x': some(8, 3), 'target': some(8, 2)})
    check(listed(d, normed(), '--train', 'onnx::Sub_9')[0]['onnx::Sub_9']['role'] == 'trains', 'folded norm, --train')
    for what, m, mean in (('a name of its own', normed('norm.offset'), 'norm.offset'), ('another shape', normed(shift_shape=(1,)), 'onnx::Sub_9'), ('another reader', normed(reader=True), 'onnx::Sub_9')):
        check(listed(d, m)[0][mean]['role'] == 'trains', f'no folded norm, {what}')

    # BatchNormalizations of Keras that tf2onnx folded: the name shows which of them have no gamma and no beta.
    for scale, shift, parameters in (('mul:0', 'sub:0', 2), ('mul:0', 'mul_2:0', 2), ('Rsqrt:0', 'sub:0', 1), ('Rsqrt:0', 'mul_1:0', 0)):
        for producer, scope in (('tf2onnx', 'net/norm/batchnorm/'), ('tf2onnx', 'net/norm_1/batchnorm_4/'), ('tf2onnx', 'net/custom/'), ('', 'net/norm/batchnorm/')):
            for first in (False, True): # after a layer, or at the input
                norm = [h.make_node('Mul', ['x' if first else 'a', scope + scale], ['b']), h.make_node('Add', ['b', scope + shift], ['c' if first else 'y'])]
                layer = [h.make_node('MatMul', ['c' if first else 'x', 'kernel'], ['y' if first else 'a'])]
                m = model(norm + layer if first else layer + norm, {'kernel': some(4, 4), scope + scale: abs(some(4)), scope + shift: some(4)}, {'x': ['N', 4]}, {'y': ['N', 4]}, producer)
                roles = {n.split('/')[-1]: t['role'] == 'trains' for n, t in listed(d, m)[0].items()}
                known = producer and 'batchnorm' in scope
                right = {'kernel': True, scale: parameters > 1 if known else not first, shift: parameters > 0 if known else not first}
                check(roles == right, f'norm of tf2onnx, {scope}, by {producer}, first {first}: {roles}, not {right}')

    # Preprocessing of scikit-learn, before the first layer.
    node = h.make_node
    steps = {'selected': ([node('Gather', ['X', 'columns'], ['s'], axis=1), node('Mul', ['s', 'scale'], ['m']), node('Add', ['m', 'shift'], ['p'])], {'columns': np.array([0, 2, 1]), 'scale': some(3), 'shift': some(3)}),
             'power': ([node('Abs', ['X'], ['b']), node('Pow', ['b', 'power'], ['p'])], {'power': some(3)}),
             'table': ([node('Relu', ['X'], ['b']), node('Cast', ['b'], ['i'], to=T.INT64), node('Gather', ['quantiles', 'i'], ['p'])], {'quantiles': some(50)}),
             'components': ([node('MatMul', ['X', 'transform_matrix'], ['p'])], {'transform_matrix': some(3, 3)})}
    layers = [node('MatMul', ['p', 'coefficient'], ['a']), node('Add', ['a', 'intercepts'], ['b1']), node('Relu', ['b1'], ['c']), node('MatMul', ['c', 'coefficient1'], ['y'])]
    weights = {'coefficient': some(3, 4), 'intercepts': some(1, 4), 'coefficient1': some(4, 2)}
    for name, (before, constants) in steps.items():
        for producer in 'skl2onnx', '':
            tensors, _ = listed(d, model(before + layers, constants | weights, {'X': ['N', 3]}, {'y': ['N', 2]}, producer))
            check(all(tensors[w]['role'] == 'trains' for w in weights), f'{name}, by {producer}: layers: {tensors}')
            if producer:
                check(not any(tensors[c]['role'] == 'trains' for c in constants), f'{name}: {tensors}')
        onnx.save(model(before + layers, constants | weights, {'X': ['N', 3]}, {'y': ['N', 2]}, 'skl2onnx'), d + '/m.onnx')
        last = list(constants)[-1]
        t = {q['name']: q for q in json.loads(call('inspect', d + '/m.onnx', '--json', '--train', last).stdout)['initializers']}[last]
        check(t['role'] == 'trains', f'{name}: --train {last}: {t}')
    # Without a layer, it is the model: a naive Bayes.
    bayes = [node('Sub', ['X', 'theta'], ['s']), node('Pow', ['s', 'two'], ['q']), node('Div', ['q', 'sigma'], ['v']), node('ReduceSum', ['v', 'last'], ['r'], keepdims=0), node('Add', ['r', 'jointi'], ['y'])]
    tensors, _ = listed(d, model(bayes, {'theta': some(1, 2, 3), 'sigma': abs(some(1, 2, 3)) + 1, 'jointi': some(1, 2), 'last': np.array([2]), 'two': np.float32(2)}, {'X': ['N', 1, 3]}, {'y': ['N', 2]}, 'skl2onnx'))
    check(tensors['sigma']['role'] == 'trains' and tensors['jointi']['role'] == 'trains', f'naive Bayes: {tensors}')

    # Norms of old opsets, as CNTK and MXNet write them: a mean and a variance for each element of a sample; axes by a flag.
    def old(op, tensors, opset, **attrs):
        m = model([h.make_node(op, ['x', *tensors], ['y'], **attrs)], tensors, {'x': ['N', 3, 4, 2]}, {'y': ['N', 3, 4, 2]}, '', onnx=opset)
        m.ir_version = 3
        return m

    x = some(8, 3, 4, 2)
    norm = old('BatchNormalization', {'scale': some(3, 4, 2), 'shift': some(3, 4, 2), 'mean': some(3, 4, 2), 'var': abs(some(3, 4, 2)) + 1}, 7, spatial=0, momentum=0.8)
    tensors, _ = listed(d, norm)
    check([tensors[k]['role'] for k in ('scale', 'shift', 'mean', 'var')] == ['trains', 'trains', 'statistic', 'statistic'], f'spatial=0: {tensors}')
    before = {i.name: numpy_helper.to_array(i) for i in norm.graph.initializer}
    r, got = arrays(d, 'run', norm, {'x': x})
    right = (x - before['mean']) / np.sqrt(before['var'] + 1e-5) * before['scale'] + before['shift']
    check(not r.returncode and np.allclose(got['y'], right, atol=1e-5), f'spatial=0: outputs: {r.stderr}')
    feeds = {'x': x[:4], 'target': some(4, 3, 4, 2)}
    got = trained(d, norm, feeds, '--lr', '0')
    mean, var = before['mean'], before['var']
    for _ in range(3):
        mean, var = 0.8 * mean + 0.2 * x[:4].mean(0), 0.8 * var + 0.2 * x[:4].var(0)
    check(np.allclose(got['mean'], mean, atol=1e-5) and np.allclose(got['var'], var, atol=1e-5), 'spatial=0: running statistics')
    got = trained(d, norm, feeds, '--bn', 'frozen')
    check((got['mean'] == before['mean']).all() and (got['var'] == before['var']).all() and (got['scale'] != before['scale']).any(), 'spatial=0, --bn frozen')
    for across in (0, 1):
        for divides in (0, 1):
            axes = (0, 1, 2, 3) if across else (0, 2, 3)
            right = x - x.mean(axes, keepdims=True)
            r, got = arrays(d, 'run', old('MeanVarianceNormalization', {}, 8, across_channels=across, normalize_variance=divides), {'x': x})
            check(not r.returncode and np.allclose(got['y'], right / x.std(axes, keepdims=True) if divides else right, atol=1e-5), f'MeanVarianceNormalization {across} {divides}: {r.stderr}')


# BatchNorm(momentum=None) of PyTorch, whose running statistics are means of all batches, has momentum 1 in the file: they keep their values
with tempfile.TemporaryDirectory() as d:
    for momentum in 1.0, 0.9:
        tensors = {'fc.weight': some(I, H), 'bn.weight': 1 + some(H), 'bn.bias': some(H), 'bn.running_mean': some(H), 'bn.running_var': abs(some(H)) + 1}
        nodes = [h.make_node('MatMul', ['x', 'fc.weight'], ['a']), h.make_node('BatchNormalization', ['a', *list(tensors)[1:]], ['y'], 'bn', momentum=momentum)]
        onnx.save(model(nodes, tensors, {'x': ['N', I]}, {'y': ['N', H]}, 'pytorch'), d + '/m.onnx')
        np.savez(d + '/x.npz', x=some(8, I), target=some(8, H))
        r = call('train', d + '/m.onnx', '--data', d + '/x.npz', '-o', d + '/t.onnx', '--steps', '1', '--loss', 'mse', '--run-dir', 'none')
        kept = {i.name: numpy_helper.to_array(i) for i in onnx.load(d + '/t.onnx').graph.initializer}
        check(('momentum of 1' in r.stderr) == (momentum == 1) and np.array_equal(kept['bn.running_mean'], tensors['bn.running_mean']) == (momentum == 1),
              f'momentum {momentum}: {r.stderr}')
finish('checks')
