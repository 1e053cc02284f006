"""Models that the standard does not allow are refused, and by name; their legal neighbours are answered.

usage: test_refused.py PROGRAM
"""
import subprocess
import tempfile

from scripts import T, finish, h, np, numpy_helper, program, verdict

F, F16, F64, I64, I32, I8, U8, BOOL = T.FLOAT, T.FLOAT16, T.DOUBLE, T.INT64, T.INT32, T.INT8, T.UINT8, T.BOOL


def c(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def i(name, value):
    return c(name, value, np.int64)


def info(name, dtype=F, shape=None):
    return h.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs='y', **attrs):
    return h.make_node(op, inputs.split(), outputs.split(), name='the_node', **attrs)


def model(nodes, inits=(), outputs=(('y', F),), feeds=None, opset=21):
    feeds = feeds or {}
    types = {np.dtype(np.float32): F, np.dtype(np.int64): I64, np.dtype(np.int32): I32, np.dtype(bool): BOOL, np.dtype(np.uint8): U8,
             np.dtype(np.int8): I8, np.dtype(np.float64): F64, np.dtype(np.float16): F16}
    g = h.make_graph(nodes if isinstance(nodes, list) else [nodes], 'g', [info(k, types[v.dtype], v.shape) for k, v in feeds.items()],
                     [info(n, t) for n, t in outputs], list(inits))
    return h.make_model(g, opset_imports=[h.make_opsetid('', opset)], ir_version=10), feeds


def run(what, code, made, text='the_node', want=None, command=('run',), extra=()):
    """text: what stderr must name; want: the first output."""
    m, feeds = made
    with tempfile.TemporaryDirectory() as d:
        open(d + '/m.onnx', 'wb').write(m.SerializeToString())
        np.savez(d + '/x.npz', **feeds)
        r = subprocess.run([program, *command, d + '/m.onnx', '--data', d + '/x.npz', '-o', d + ('/y.npz' if command[0] in ('run', 'grad') else '/y.onnx'), '--device', 'cpu', *extra],
                           capture_output=True, text=True, timeout=120, cwd=d)
        problem = None
        if r.returncode != code:
            problem = f'exit {r.returncode}, {code} is right: {r.stderr.strip()}'
        elif code and text not in r.stderr:
            problem = f'says nothing of {text!r}: {r.stderr.strip()}'
        elif want is not None and not np.allclose(np.load(d + '/y.npz')[m.graph.output[0].name], want):
            problem = f"gives {np.load(d + '/y.npz')[m.graph.output[0].name]}"
        verdict(what, problem)


x = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
image = np.ones((1, 2, 4, 4), np.float32)

# ---- two types in one product ---------------------------------------------------------
for kind, dtype in (('float16', np.float16), ('int8', np.int8), ('uint8', np.uint8), ('bool', bool), ('float64', np.float64)):
    run(f'MatMul by {kind}', 3, model(node('MatMul', 'x w'), [c('w', np.zeros((3, 2)), dtype)], feeds={'x': x}), kind)
    run(f'Gemm by {kind}', 3, model(node('Gemm', 'x w'), [c('w', np.zeros((3, 2)), dtype)], feeds={'x': x}), kind)
    run(f'Gemm and a bias in {kind}', 3, model(node('Gemm', 'x w b'), [c('w', np.zeros((3, 2))), c('b', [0, 0], dtype)], feeds={'x': x}), kind)
    run(f'Conv by {kind}', 3, model(node('Conv', 'x w'), [c('w', np.zeros((2, 2, 3, 3)), dtype)], feeds={'x': image}), kind)
    run(f'Conv and a bias in {kind}', 3, model(node('Conv', 'x w b'), [c('w', np.zeros((2, 2, 3, 3))), c('b', [0, 0], dtype)], feeds={'x': image}), kind)
    run(f'ConvTranspose by {kind}', 3, model(node('ConvTranspose', 'x w'), [c('w', np.zeros((2, 2, 3, 3)), dtype)], feeds={'x': image}), kind)
run('MatMul of int64 by float32', 3, model(node('MatMul', 'x w'), [c('w', np.zeros((3, 2)))], feeds={'x': x.astype(np.int64)}), 'int64')
run('training by a float16 weight', 3, model([node('MatMul', 'x w')], [c('w', np.zeros((3, 2)), np.float16)], feeds={'x': x, 'target': np.zeros((2, 2), np.float32)}),
    'float16', command=('train',), extra=('--loss', 'mse', '--steps', '1', '--run-dir', 'none'))

# ---- types that the standard does not list --------------------------------------------
run('AveragePool of bool', 3, model(node('AveragePool', 'x', kernel_shape=[2, 2]), feeds={'x': image.astype(bool)}, outputs=[('y', BOOL)]))
run('BatchNormalization of int8', 3, model(node('BatchNormalization', 'x s s s s'), [c('s', [1, 1], np.int8)], feeds={'x': image.astype(np.int8)}, outputs=[('y', I8)]))
run('Relu of bool', 3, model(node('Relu', 'x'), feeds={'x': x > 2}, outputs=[('y', BOOL)]))
run('Gather by float', 3, model(node('Gather', 'x k'), [c('k', [1])], feeds={'x': x}))

# ---- indices -----------------------------------------------------------------------------
for op, shape in (('Gather', [2]), ('GatherElements', [2, 2]), ('GatherND', [2, 1])):
    k = np.full(shape, 9)
    run(f'{op} beyond the end, constant', 3, model(node(op, 'x k'), [i('k', k)], feeds={'x': x}))
    run(f'{op} beyond the end, all constant', 3, model(node(op, 'c k'), [i('k', k), c('c', x)], feeds={'x': x}))
    run(f'{op} beyond the end, fed', 4, model(node(op, 'x k'), feeds={'x': x, 'k': k.astype(np.int64)}), 'the_node: index 9')
run('GatherND by tuples, the second beyond the end', 3, model(node('GatherND', 'x k'), [i('k', [[1, 3]])], feeds={'x': x}))
run('GatherND by tuples', 0, model(node('GatherND', 'x k'), [i('k', [[1, 2], [-1, -3]])], feeds={'x': x}), want=[6, 4])
for op, k, u in (('ScatterElements', [[5]], [[1]]), ('ScatterND', [[5]], [[1, 1, 1]])):
    run(f'{op} beyond the end, constant', 3, model(node(op, 'x k u'), [i('k', k), c('u', u)], feeds={'x': x}))
    run(f'{op} beyond the end, fed', 4, model(node(op, 'x k u'), [c('u', u)], feeds={'x': x, 'k': np.array(k, np.int64)}), 'the_node: index 5')
for what, lens in (('beyond the end', [3, 2, 1]), ('negative', [1, -1, 2])):
    run(f'ReverseSequence {what}, constant', 3, model(node('ReverseSequence', 'x l'), [i('l', lens)], feeds={'x': x}))
    run(f'ReverseSequence {what}, fed', 4, model(node('ReverseSequence', 'x l'), feeds={'x': x, 'l': np.array(lens, np.int64)}))
for time, batch in ((2**63 - 1, 2), (2, 2**63 - 1), (-2**63, -1), (0, 0), (-1, 2)):
    run(f'ReverseSequence of axes {time} and {batch}', 3, model(node('ReverseSequence', 'x l', time_axis=time, batch_axis=batch), [i('l', [1, 1])], feeds={'x': x}), 'axes')
run('ReverseSequence', 0, model(node('ReverseSequence', 'x l'), feeds={'x': x, 'l': np.array([2, 1, 0], np.int64)}), want=[[4, 2, 3], [1, 5, 6]])
words = {'max_gram_length': 2, 'min_gram_length': 1, 'mode': 'TF', 'ngram_counts': [0, 2], 'ngram_indexes': [0, 1, 2], 'pool_int64s': [1, 2, 1, 2]}
for n in (2, 2**63 - 1):
    run(f'TfIdfVectorizer with max_skip_count {n}', 0, model(node('TfIdfVectorizer', 'x', max_skip_count=n, **words), feeds={'x': np.array([1, 3, 2, 1])}), want=[2, 1, 1])
run('TfIdfVectorizer with max_skip_count -1', 3, model(node('TfIdfVectorizer', 'x', max_skip_count=-1, **words), feeds={'x': np.array([1, 3, 2, 1])}))
for op in ('SoftmaxCrossEntropyLoss', 'NegativeLogLikelihoodLoss'):
    run(f'{op} by labels out of range in the file', 3, model(node(op, 'x l'), [i('l', [0, 3])], feeds={'x': x}))
    run(f'{op} by an ignored label in the file', 0, model(node(op, 'x l', ignore_index=-1), [i('l', [0, -1])], feeds={'x': x}))
    run(f'{op} by fed labels out of range', 4, model(node(op, 'x l'), feeds={'x': x, 'l': np.array([0, -1], np.int64)}))

# ---- sequence_lens ------------------------------------------------------------------------
for op, gates in (('LSTM', 4), ('GRU', 3), ('RNN', 1)):
    seq = np.ones((5, 2, 3), np.float32)
    by_length = h.make_node(op, ['x', 'w', 'r', '', 'l'], ['y'], name='the_node', hidden_size=2)
    w = [c('w', np.ones((1, gates * 2, 3)) / 9), c('r', np.ones((1, gates * 2, 2)) / 9)]
    for what, lens in (('negative', [-1, 3]), ('too long', [6, 3])):
        run(f'{op} with a {what} sequence, constant', 3, model(by_length, w + [c('l', lens, np.int32)], feeds={'x': seq}))
        run(f'{op} with a {what} sequence, fed', 4, model(by_length, w, feeds={'x': seq, 'l': np.array(lens, np.int32)}))
    run(f'{op} with sequences of 0 and 5', 0, model(by_length, w, feeds={'x': seq, 'l': np.array([0, 5], np.int32)}))

# ---- attributes and inputs ------------------------------------------------------------------
run('Concat without axis', 3, model(node('Concat', 'x x'), feeds={'x': x}), "'axis'")
run('Concat below opset 4 without axis', 0, model(node('Concat', 'x x'), feeds={'x': x}, opset=3))
run('BitShift without direction', 3, model(node('BitShift', 'x x'), feeds={'x': x.astype(np.uint8)}, outputs=[('y', U8)]), "'direction'")
run('Cast without to', 3, model(node('Cast', 'x'), feeds={'x': x}), "'to'")
run('Constant with an input', 3, model([node('Constant', 'x', 'k', value_float=1.0), node('Add', 'x k')], feeds={'x': x}), "'k'")
norm = [c(n, [1, 1]) for n in 'sbmv']
run('BatchNormalization with three outputs', 3, model(node('BatchNormalization', 'x s b m v', 'y m2 v2'), norm, feeds={'x': image}, outputs=[('y', F), ('m2', F), ('v2', F)]))
run('BatchNormalization with three outputs in training', 0, model(node('BatchNormalization', 'x s b m v', 'y m2 v2', training_mode=1), norm, feeds={'x': image},
                                                                outputs=[('y', F), ('m2', F), ('v2', F)]))
run('Dropout with a float as training_mode', 3, model(node('Dropout', 'x r t'), [c('r', 0.5), c('t', 1.0)], feeds={'x': x}))
for op, inputs in ('SplitToSequence', 'x'), ('Hardmax', 'x'), ('Dropout', 'x'), ('SequenceAt', 'q k'):
    before = [h.make_node('SequenceConstruct', ['x'], ['q'])] if op == 'SequenceAt' else []
    for opset in 12, 21:
        run(f'{op} of four outputs, opset {opset}', 3, model([*before, node(op, inputs, 'y z a b')], [i('k', 0)], feeds={'x': x}, outputs=[('y', F), ('b', F)], opset=opset), '4 outputs; at most')
for made, inits in ((node('Hardmax', 'x', axis=-3), []), (node('CumSum', 'x k'), [i('k', -3)]), (node('CenterCropPad', 'x k', axes=[-3]), [i('k', [2])])):
    run(f'{made.op_type} along axis -3', 3, model(made, inits, feeds={'x': x}), 'axis -3 is out of range for rank 2')
deep = np.zeros((1, 1, 1, 1, 1, 1, 1, 1), np.int64)
run('OneHot of rank 8', 3, model(node('OneHot', 'x k v'), [i('k', 2), c('v', [0, 1])], feeds={'x': deep}), 'more than 8 axes')
run('Split into no outputs', 3, model(node('Split', 'x', 'y z', num_outputs=0, axis=0), feeds={'x': x}, outputs=[('y', F), ('z', F)]))
run('Mod of floats', 3, model(node('Mod', 'x x'), feeds={'x': x}), 'fmod')
run('Mod of floats with fmod', 0, model(node('Mod', 'x x', fmod=1), feeds={'x': x}), want=x * 0)
run('QuantizeLinear with a zero point of another shape', 3, model(node('QuantizeLinear', 'x s z'), [c('s', [1, 1, 1]), c('z', [0], np.uint8)], feeds={'x': x}, outputs=[('y', U8)]))
run('Upsample that shrinks', 3, model(node('Upsample', 'x s'), [c('s', [1, 1, 0.5, 0.5])], feeds={'x': image}, opset=9), '0.5')
run('Upsample', 0, model(node('Upsample', 'x s'), [c('s', [1, 1, 2, 2])], feeds={'x': image}, opset=9))
run('an output that is declared int64', 3, model(node('Relu', 'x'), feeds={'x': x}, outputs=[('y', I64)]), "'y'")
run('an input that is declared int64 as output', 3, model(node('Relu', 'x', 'z'), feeds={'x': x}, outputs=[('z', F), ('x', I64)]), "'x'")
for what, at in (('doubled', [1, 1]), ('unordered', [4, 1])):
    sparse = h.make_sparse_tensor(c('w', [1, 2]), i('w_indices', at), [6])
    made = model(node('Add', 'x w'), feeds={'x': x.reshape(-1)})
    made[0].graph.sparse_initializer.append(sparse)
    run(f'a sparse tensor with {what} indices', 3, made, "'w'")
for what, scale in (('infinite', np.inf), ('no number', np.nan), ('denormal', 1e-40), ('zero', 0)):
    run(f'Resize by a scale that is {what}', 3, model(h.make_node('Resize', ['x', '', 's'], ['y'], name='the_node'), [c('s', [1, 1, scale, 1])], feeds={'x': image}))
run('Resize to a region that is infinite', 3, model(h.make_node('Resize', ['x', 'r', 's'], ['y'], name='the_node', coordinate_transformation_mode='tf_crop_and_resize'),
                                                   [c('s', [1, 1, 1, 1]), c('r', [0, 0, 0, 0, 1, 1, np.inf, 1])], feeds={'x': image}))

# ---- If --------------------------------------------------------------------------------------


def branch(name, *outputs):
    values = [c(f'{name}{k}', [k + 1.0], o) for k, o in enumerate(outputs)]
    kinds = {np.float32: F, np.int64: I64}
    return h.make_graph([h.make_node('Identity', [v.name], [v.name + 'o']) for v in values], name,
                        [], [info(v.name + 'o', kinds[o]) for v, o in zip(values, outputs)], values)


def if_node(then, other, outputs='y'):
    return node('If', 'k', outputs, then_branch=then, else_branch=other)


one = [c('k', True, bool)]
run('If', 0, model(if_node(branch('a', np.float32), branch('b', np.float32)), one), want=[1])
run('If with branches of two types', 3, model(if_node(branch('a', np.float32), branch('b', np.int64)), one), 'float32 and int64')
run('If with branches of two counts', 3, model(if_node(branch('a', np.float32), branch('b', np.float32, np.float32)), one))
run('If by a float', 3, model(if_node(branch('a', np.float32), branch('b', np.float32)), [c('k', 1.0)]), 'bool')
run('If by nothing', 3, model(if_node(branch('a', np.float32), branch('b', np.float32)), [c('k', [], bool)]))
run('If by two values', 3, model(if_node(branch('a', np.float32), branch('b', np.float32)), [c('k', [True, False], bool)]))
run('If without else', 3, model(node('If', 'k', then_branch=branch('a', np.float32)), one), "'else_branch'")

# ---- Loop -------------------------------------------------------------------------------------


def loop(inputs, inits=(), feeds=None, body=None, outputs=(('y', F),), **attrs):
    return model(h.make_node('Loop', inputs, [o[0] for o in outputs], name='the_node', body=body or count_body(), **attrs), inits, outputs, feeds)


def count_body(limit=7.0, out=F):
    """v + 1, while it is below the limit."""
    nodes = [h.make_node('Add', ['v', 'one'], ['w']), h.make_node('Less', ['w', 'limit'], ['go'])]
    nodes += [h.make_node('Identity' if out == F else 'Cast', ['w'], ['vo'], **({} if out == F else {'to': out}))]
    return h.make_graph(nodes, 'body', [info('n', I64, []), info('k', BOOL, []), info('v', F)], [info('go', BOOL, []), info('vo', out)],
                        [c('one', 1.0), c('limit', limit)])


start = c('v0', 0.0)
trips, go = i('trips', 3), c('go0', True, bool)
run('Loop of three', 0, loop(['trips', 'go0', 'v0'], [trips, go, start]), want=3)
run('Loop without a trip count', 0, loop(['', 'go0', 'v0'], [go, start]), want=7)
run('Loop without a condition', 0, loop(['trips', '', 'v0'], [trips, start]), want=3)
run('Loop without either', 3, loop(['', '', 'v0'], [start], body=count_body(1e9)))
run('Loop without either, until its body says so', 0, loop(['', '', 'v0'], [start]), want=7)
run('Loop without either by one input', 3, loop([''], [start], body=count_body(1e9)))
run('Loop by a float', 3, loop(['trips', 'go0', 'v0'], [c('trips', 3.0), go, start]), 'int64')
run('Loop by no trip count', 3, loop(['trips', 'go0', 'v0'], [i('trips', []), go, start]))
run('Loop by two trip counts', 3, loop(['trips', 'go0', 'v0'], [i('trips', [3, 4]), go, start]))
run('Loop by no condition', 3, loop(['trips', 'go0', 'v0'], [trips, c('go0', [], bool), start]))
run('Loop by a condition in float', 3, loop(['trips', 'go0', 'v0'], [trips, c('go0', 1.0), start]), 'bool')
run('Loop whose value changes its type', 3, loop(['trips', 'go0', 'v0'], [trips, go, start], body=count_body(out=I64), outputs=[('y', I64)]))
run('Loop of no iterations whose body does not fit', 3, loop(['trips', 'go0', 'v0', 'v0'], [i('trips', 0), go, start]))
run('Loop without a body', 3, model(node('Loop', 'trips go0 v0'), [trips, go, start]), "'body'")

# ---- Scan --------------------------------------------------------------------------------------


def scan(n_in, feeds, out=F, **attrs):
    """Running sum of the scanned inputs' rows."""
    rows = [info(f'r{k}') for k in range(n_in)]
    nodes = [h.make_node('Sum', ['s'] + [r.name for r in rows], ['t']), h.make_node('Cast', ['t'], ['so'], to=out), h.make_node('Identity', ['t'], ['z'])]
    body = h.make_graph(nodes, 'body', [info('s')] + rows, [info('so', out), info('z')])
    attrs = {'num_scan_inputs': n_in, **attrs}
    return model(h.make_node('Scan', ['s0'] + list(feeds), ['y', 'all'], name='the_node', body=body, **attrs), [c('s0', np.zeros(3))], [('y', F), ('all', F)], feeds)


two = {'p': x, 'q': x}
run('Scan', 0, scan(1, {'p': x}), want=[5, 7, 9])
run('Scan of two', 0, scan(2, two, scan_input_directions=[0, 1]), want=[10, 14, 18])
run('Scan of 2 and 3 rows', 3, scan(2, {'p': x, 'q': np.ones((3, 3), np.float32)}))
run('Scan with four axes', 3, scan(1, {'p': x}, scan_input_axes=[0, 0, 0, 0]), 'scan_input_axes')
run('Scan along axis 5', 3, scan(1, {'p': x}, scan_input_axes=[5]))
run('Scan of the second input along axis 5', 3, scan(2, two, scan_input_axes=[0, 5]))
run('Scan in direction 5', 3, scan(1, {'p': x}, scan_input_directions=[5]), 'scan_input_directions')
run('Scan with output direction 5', 3, scan(1, {'p': x}, scan_output_directions=[5]), 'scan_output_directions')
run('Scan with two output axes', 3, scan(1, {'p': x}, scan_output_axes=[0, 0]), 'scan_output_axes')
run('Scan with output axis 9', 3, scan(1, {'p': x}, scan_output_axes=[9]))
for n in (0, -1, 3, 2**32 + 1, 2**63 - 1, -2**63):
    run(f'Scan with num_scan_inputs {n}', 3, scan(1, {'p': x}, num_scan_inputs=n), 'num_scan_inputs')
run('Scan whose value changes its type', 3, scan(1, {'p': x}, out=I64))
run('Scan without num_scan_inputs', 3, model(node('Scan', 'x', body=count_body()), feeds={'x': x}), "'num_scan_inputs'")

# ---- initializers that are listed as graph inputs too -------------------------------------
def listed(*inputs):
    m, feeds = model(node('MatMul', 'x w'), [c('w', np.ones((3, 2)))], feeds={'x': x})
    m.graph.input.extend(inputs)
    return m, feeds


for what, shape, text in (('another size', [4, 2], '[4,2]'), ('another rank', [6], '[6]'), ('no axis', [], '[]')):
    run(f'an initializer whose input says {what}', 3, listed(info('w', F, shape)), f"initializer 'w' is [3,2], but the graph input of that name is {text}")
run('an initializer whose input says another type', 3, listed(info('w', I64, [3, 2])), "initializer 'w' is float32, but the graph input of that name is int64")
for what, shape in (('the same', [3, 2]), ('an open size', ['n', 2]), ('no shape', None), ('sizes of 0', [0, 2])):
    run(f'an initializer whose input says {what}', 0, listed(info('w', F, shape)), want=x @ np.ones((3, 2)))
said = model(node('MatMul', 'x w'), [c('w', np.ones((3, 2)))], feeds={'x': x})
said[0].graph.value_info.extend([info('w', F, [4, 2]), info('y', F, [9])])
run('value_info that is wrong: what follows from the operators counts', 0, said, want=x @ np.ones((3, 2)))

# ---- operators of other domains: omitted inputs, numbers that are too large, lists of another type or length ----------


def other(domain, version, n, inits=(), outputs=(('y', F),), feeds=None, opset=21):
    n.domain = domain
    m, feeds = model(n, inits, outputs, feeds, opset)
    m.opset_import.append(h.make_opsetid(domain, version))
    return m, feeds


def microsoft(n, inits=(), feeds=None):
    return other('com.microsoft', 1, n, inits, feeds=feeds)


def ml(n, outputs=(('y', F),), feeds=None):
    return other('ai.onnx.ml', 4, n, (), outputs, feeds)


pixels = np.ones((1, 4, 4, 2), np.float32)
ones2 = c('s', [1, 1])
for what, inputs in ('the scale', 'x  s x'), ('the bias', 'x s  x'):
    n = node('SkipGroupNorm', 'x', groups=1)
    n.input[:] = inputs.split(' ')
    run(f'SkipGroupNorm without {what}', 3, microsoft(n, [ones2], {'x': pixels}), 'is missing')
run('SkipGroupNorm', 0, microsoft(node('SkipGroupNorm', 'x s s x', groups=1), [ones2], {'x': pixels}), want=np.ones((1, 4, 4, 2)))
run('NhwcMaxPool without its input', 3, microsoft(h.make_node('NhwcMaxPool', [''], ['y'], name='the_node', kernel_shape=[2, 2])))

q = np.ones((1, 2, 8), np.float32)
n = node('GroupQueryAttention', 'q q', num_heads=2, kv_num_heads=2)
n.input[:] = ['q', 'q', '']
run('GroupQueryAttention with a key and no value', 3, microsoft(n, feeds={'q': q}), 'input 2 is missing')
for heads in 2**63 - 1, 2**31:
    run(f'GroupQueryAttention of {heads} heads', 3, microsoft(node('GroupQueryAttention', 'q', num_heads=1, kv_num_heads=heads), feeds={'q': q}), 'kv_num_heads')
run('GroupQueryAttention in a window of INT64_MIN', 0, microsoft(node('GroupQueryAttention', 'q q q', num_heads=2, kv_num_heads=2, local_window_size=-2**63), feeds={'q': q}), want=q)
packed = c('w', np.full((2, 8), 0x99), np.uint8)
gathered = {k: node('GatherBlockQuantized', 'w at s', bits=4, block_size=k, quantize_axis=1) for k in (16, 2**63 - 1)}
at, scale = {'at': np.array([1], np.int64)}, c('s', np.ones((2, 1)))
for k in gathered:
    run(f'GatherBlockQuantized in blocks of {k}', 0, microsoft(gathered[k], [packed, scale], at), want=np.ones((1, 16)))
run('a broadcast from axis INT64_MAX on', 3, model(node('Add', 'x b', broadcast=1, axis=2**63 - 1), [c('b', np.ones((1, 1, 3)))], feeds={'x': x}, opset=6))

encoded = dict(keys_int64s=[1, 2], values_int64s=[10, 20])
keys = {'k': np.array([2, 1, 7], np.int64)}
for what, default, code in (('one', i('d', [5]), 0), ('no', i('d', []), 3), ('two', i('d', [5, 6]), 3)):
    run(f'LabelEncoder with a default of {what} element', code, ml(node('LabelEncoder', 'k', default_tensor=default, **encoded), [('y', I64)], keys),
        want=None if code else [20, 10, 5])
n = node('LabelEncoder', 'k')
n.attribute.add(name='classes_strings', type=8)
run('LabelEncoder of no classes', 3, other('ai.onnx.ml', 1, n, (), [('y', T.STRING)], keys))
n = node('LinearRegressor', 'x', targets=2, coefficients=[1.0] * 6, intercepts=[1.0])
next(a for a in n.attribute if a.name == 'intercepts').ints.append(1)  # a second list, of integers, in an attribute of floats
run('LinearRegressor with one intercept for two targets', 3, ml(n, feeds={'x': x}))
for function, code in (1, 0), (4, 3), (2**32, 3):
    trees = dict(n_targets=1, aggregate_function=function, tree_roots=[0], nodes_featureids=[0], nodes_truenodeids=[0], nodes_falsenodeids=[1], nodes_trueleafs=[1], nodes_falseleafs=[1],
                 nodes_modes=c('m', [0], np.uint8), nodes_splits=c('s', [2]), leaf_weights=c('l', [3, 4]), leaf_targetids=[0, 0])
    run(f'TreeEnsemble with aggregate_function {function}', code, other('ai.onnx.ml', 5, node('TreeEnsemble', 'x', **trees), (), feeds={'x': x}), want=None if code else [[3], [4]])

finish('models')
