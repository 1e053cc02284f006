"""Convolutions of many shapes with norms, functions and residuals behind them: predict and eval agree with ONNX Runtime.

In predictions the scale and shift of norms are part of the weights, weights are packed once, and functions are computed with the
convolution; a last batch that is smaller is computed without these.

usage: test_predictions.py PROGRAM
"""
import json
import os
import tempfile
from itertools import cycle, product

import onnxruntime as ort
from scripts import call, check, finish, h, np, numpy_helper, onnx, T

os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
tensors, nodes, parts, cases, inputs = [], [], [], [], {}


def tensor(shape, scale=1., shift=0.):
    name = f't{len(tensors)}'
    tensors.append(numpy_helper.from_array((rng.standard_normal(shape) * scale + shift).astype(np.float32), name))
    return name


def node(kind, *reads, **attrs):
    nodes.append(h.make_node(kind, reads, [f'v{len(nodes)}'], **attrs))
    return nodes[-1].output[0]


def norm(x, channels):
    positive = f't{len(tensors)}'
    tensors.append(numpy_helper.from_array(rng.uniform(0.5, 2, channels).astype(np.float32), positive))
    return node('BatchNormalization', x, tensor(channels), tensor(channels), tensor(channels), positive)


BEHIND = {'nothing': lambda x, c: x,
          'norm': norm,
          'norm, Relu': lambda x, c: node('Relu', norm(x, c)),
          'Relu': lambda x, c: node('Relu', x),
          'norm, Relu6': lambda x, c: node('Clip', norm(x, c), 'zero', 'six'),
          'norm, residual, Relu': lambda x, c: node('Relu', node('Add', norm(x, c), node('Tanh', x))),
          'scale': lambda x, c: node('Mul', x, tensor((c, 1, 1))),
          'shift, SiLU': lambda x, c: (lambda y: node('Mul', y, node('Sigmoid', y)))(node('Add', x, tensor((1, c, 1, 1)))),
          'norm, HardSwish': lambda x, c: node('HardSwish', norm(x, c)),
          'pixels, Abs': lambda x, c: node('Abs', node('Mul', x, node('ReduceMean', x, axes=[1]))),
          'a number': lambda x, c: node('Add', node('Mul', x, 'six'), 'six')}
tensors += [numpy_helper.from_array(np.float32(0), 'zero'), numpy_helper.from_array(np.float32(6), 'six')]
behind = cycle(BEHIND)


def convolution(channels, high, wide, filters, kernel, stride, pads, group, dilation, bias):
    x, what = f'x{channels}_{high}_{wide}', next(behind)
    inputs[x] = (channels, high, wide)
    reads = [x, tensor((filters, channels // group, *kernel), (channels // group * kernel[0] * kernel[1])**-0.5)]
    y = node('Conv', *reads, *([tensor(filters)] if bias else []), pads=pads, strides=stride, group=group, dilations=[dilation] * 2)
    parts.append(node('Flatten', BEHIND[what](y, filters)))
    cases.append(f'{x}, filters {filters}, kernel {kernel}, stride {stride}, pads {pads}, group {group}, dilation {dilation}, '
                 f'bias {bias}: {what}')


for (channels, filters), size in product(((3, 5), (16, 64), (24, 130), (70, 17), (300, 33)), ((1, 1), (5, 3), (8, 8))):
    for bias in (False, True):
        convolution(channels, *size, filters, (1, 1), [1, 1], [0] * 4, 1, 1, bias)
for channels, size in product((1, 3, 8, 20, 67), ((1, 1), (2, 2), (3, 9), (7, 5))):
    for (kernel, pad), stride, dilation in product((((3, 3), 1), ((5, 5), 2), ((3, 5), 2), ((7, 7), 3)), (1, 2), (1, 2)):
        extent = [dilation * (k - 1) + 1 for k in kernel]
        if any(s + 2 * pad - 1 < e for s, e in zip(size, extent)):
            continue
        convolution(channels, *size, channels, kernel, [stride, stride], [pad, pad, pad, max(0, pad - 1)], channels, dilation, stride > 1)
for (channels, filters), size in product(((16, 16), (33, 40), (64, 128)), ((4, 4), (9, 13), (16, 16))):
    for bias in (False, True):
        convolution(channels, *size, filters, (3, 3), [1, 1], [1] * 4, 1, 1, bias)
        convolution(channels, *size, filters, (3, 3), [1, 1], [0, 0, 1, 1], 1, 1, bias)
        convolution(channels, *size, filters * 2, (3, 3), [2, 2], [1] * 4, 2 if channels % 2 == 0 else 1, 1, bias)
features = node('Concat', *parts, axis=1)

N, BATCH = 77, 30  # two whole batches and 17
graph = h.make_graph(nodes, 'g', [h.make_tensor_value_info(x, T.FLOAT, ['N', *s]) for x, s in inputs.items()],
                     [h.make_tensor_value_info(features, T.FLOAT, ['N', None])], tensors)
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
feeds = {x: rng.standard_normal((N, *s)).astype(np.float32) for x, s in inputs.items()}
np.savez('x.npz', **feeds)
session = ort.InferenceSession('m.onnx', providers=['CPUExecutionProvider'])
want = session.run(None, feeds)[0]
sizes = [s[1] for s in (np.asarray(v).shape for v in ort.InferenceSession(
    h.make_model(h.make_graph(nodes, 'g', graph.input, [h.make_tensor_value_info(p, T.FLOAT, ['N', None]) for p in parts], tensors),
                 opset_imports=[h.make_opsetid('', 17)], ir_version=8).SerializeToString(),
    providers=['CPUExecutionProvider']).run(None, feeds))]


def compare(got, what):
    at = 0
    for case, size in zip(cases, sizes):
        a, b = got[:, at:at + size], want[:, at:at + size]
        at += size
        error = np.abs(a - b).max() / max(1, np.abs(b).max())
        check(error < 2e-5, f'{what}: {case}: relative error {error:.2e}')


for threads in ('1', '2', '3'):
    call('predict', 'm.onnx', 'x.npz', '-o', 'y.npz', '--batch-size', str(BATCH), '--threads', threads, '--device', 'cpu')
    with np.load('y.npz') as z:
        compare(z[features].reshape(N, -1), f'predict, {threads} threads')

np.savez('d.npz', target=want, **feeds)
for threads in ('1', '2'):
    text = call('eval', 'm.onnx', '--data', 'd.npz', '--loss', 'mse', '--batch-size', str(BATCH), '--threads', threads, '--device', 'cpu',
                '--json').stdout
    loss, scale = json.loads(text)['loss'], float(np.mean(want.astype(np.float64)**2))
    check(loss < 1e-11 * scale, f'eval, {threads} threads: mean squared error {loss}, of squares {scale}')


# ---- large values computed from weights only, by kernels that share the work among threads --------------

def small_model(file, made, weights, outputs):
    g = h.make_graph(made, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 300])],
                     [h.make_tensor_value_info(o, T.FLOAT, None) for o in outputs], weights)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), file)


# A norm that gives the output itself, which evaluations read too.
one = h.make_graph([h.make_node('Conv', ['x', 'w'], ['c']), h.make_node('Mul', ['c', 's'], ['y'])], 'g',
                   [h.make_tensor_value_info('x', T.FLOAT, ['N', 8, 4, 4])], [h.make_tensor_value_info('y', T.FLOAT, None)],
                   [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in (('w', (8, 8, 1, 1)), ('s', (8, 1, 1)))])
onnx.save(h.make_model(one, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'w.onnx')
x = rng.standard_normal((50, 8, 4, 4)).astype(np.float32)
exact = ort.InferenceSession('w.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
np.savez('w.npz', x=x, target=exact)
text = call('eval', 'w.onnx', '--data', 'w.npz', '--loss', 'mse', '--device', 'cpu', '--batch-size', '16', '--json').stdout
check(json.loads(text)['loss'] < 1e-10 * np.mean(exact**2), f'eval of a scaled output: {text}')
call('predict', 'w.onnx', 'w.npz', '-o', 'y.npz', '--device', 'cpu', '--batch-size', '16', '--task', 'values')
with np.load('y.npz') as z:
    check(np.abs(z['y'] - exact).max() < 1e-5 * np.abs(exact).max(), 'predict of a scaled output')

square = numpy_helper.from_array(rng.standard_normal((300, 300)).astype(np.float32), 'w')
order = numpy_helper.from_array(rng.permutation(300), 'order')
ends = [numpy_helper.from_array(np.array(v), n) for n, v in (('from', [0, 0]), ('to', [300, 200]))]
WEIGHTS = {'Gather': [h.make_node('Gather', ['w', 'order'], ['v'])],
           'Concat': [h.make_node('Concat', ['w', 'w'], ['v'], axis=1)],
           'Slice': [h.make_node('Slice', ['w', 'from', 'to'], ['v'])],
           'Transpose': [h.make_node('Transpose', ['w'], ['t']), h.make_node('Tanh', ['t'], ['v'])],
           'Reshape': [h.make_node('Transpose', ['w'], ['t']), h.make_node('Add', ['t', 'w'], ['v'])]}
x = rng.standard_normal((40, 300)).astype(np.float32)
for what, made in WEIGHTS.items():
    small_model('w.onnx', [*made, h.make_node('MatMul', ['x', 'v'], ['y'])], [square, order, *ends], ['y'])
    exact = ort.InferenceSession('w.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
    np.savez('w.npz', x=x, target=exact)
    text = call('eval', 'w.onnx', '--data', 'w.npz', '--loss', 'mse', '--device', 'cpu', '--threads', '2', '--batch-size', '16', '--json').stdout
    check(json.loads(text)['loss'] < 1e-10 * np.mean(exact**2), f'eval of weights by {what}: {text}')

# ---- products of many rows, and what follows them row by row: an activation, a residual -------------------------

weights = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in (
    ('w1', rng.standard_normal((300, 1130)) / 17), ('b1', rng.standard_normal(1130)), ('w2', rng.standard_normal((1130, 300)) / 34), ('b2', rng.standard_normal(300)),
    ('root', np.array(2 ** .5)), ('one', np.array(1.)), ('half', np.array(.5)))]
gelu = [h.make_node('Div', ['a', 'root'], ['a1']), h.make_node('Erf', ['a1'], ['a2']), h.make_node('Add', ['a2', 'one'], ['a3']),
        h.make_node('Mul', ['a', 'a3'], ['a4']), h.make_node('Mul', ['a4', 'half'], ['g'])]
small_model('w.onnx', [h.make_node('MatMul', ['x', 'w1'], ['a0']), h.make_node('Add', ['a0', 'b1'], ['a']), *gelu,
                       h.make_node('MatMul', ['g', 'w2'], ['p']), h.make_node('Add', ['p', 'b2'], ['q']), h.make_node('Add', ['q', 'x'], ['y'])], weights, ['y'])
x = rng.standard_normal((1400, 300)).astype(np.float32)
exact = ort.InferenceSession('w.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
np.savez('w.npz', x=x, target=exact)
for threads in ('1', '3'):
    call('predict', 'w.onnx', 'w.npz', '-o', 'y.npz', '--device', 'cpu', '--batch-size', '1100', '--task', 'values', '--threads', threads)
    with np.load('y.npz') as z:
        check(np.abs(z['y'] - exact).max() < 1e-5 * np.abs(exact).max(), f'products of 1100 and of 300 rows, {threads} threads: {np.abs(z["y"] - exact).max()}')
    text = call('eval', 'w.onnx', '--data', 'w.npz', '--loss', 'mse', '--device', 'cpu', '--batch-size', '1400', '--threads', threads, '--json').stdout
    check(json.loads(text)['loss'] < 1e-10 * np.mean(exact**2), f'eval of 1400 rows, {threads} threads: {text}')

# ---- outputs that are the same for all samples, and all that a batch of one sample gives -------------------

x = x[:40]
both = [h.make_node('Relu', ['x'], ['y']), h.make_node('Add', ['w', 'w'], ['v'])]
rows = [h.make_node('Relu', ['x'], ['r']), h.make_node('Reshape', ['r', 'shape'], ['y'])]
for batch, samples in ('1', 3), ('4', 1), ('20', 40):
    small_model('w.onnx', both, [square], ['y', 'v', 'w'])
    np.savez('w.npz', x=x[:samples])
    r = call('predict', 'w.onnx', 'w.npz', '-o', 'y.npz', '--device', 'cpu', '--batch-size', batch, '--task', 'values')
    with np.load('y.npz') as z:
        check(z.files == ['y'] and np.array_equal(z['y'], np.maximum(x[:samples], 0)), f'{samples} samples by {batch}: {z.files}')
    check("'v' is omitted" in r.stderr and "'w' is omitted" in r.stderr, r.stderr)
small_model('w.onnx', rows, [numpy_helper.from_array(np.array([60, 5]), 'shape')], ['y'])
np.savez('w.npz', x=x[:3])
call('predict', 'w.onnx', 'w.npz', '-o', 'y.npz', '--device', 'cpu', '--batch-size', '1', '--task', 'values')
with np.load('y.npz') as z:
    check(np.array_equal(z['y'], np.maximum(x[:3], 0).reshape(180, 5)), f'rows of samples: {z["y"].shape}')
finish('cases')
