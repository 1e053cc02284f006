"""Operators of com.microsoft that work on floats (test_qlinear.py: the quantised ones): values as ONNX Runtime's, and a gradient through each.
MultiHeadAttention with q, k and v in one input, or k and v, is compared with that of three inputs: ONNX Runtime's CPU kernel takes no packed ones.

usage: test_microsoft.py PROGRAM
"""
import tempfile

import onnxruntime
from scripts import T, arrays, finish, h, np, numpy_helper, verdict
rng = np.random.default_rng(9)
B, N, H = 2, 3, 4


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model(nodes, feeds, weights):
    """Weights make the inputs of the attention: a product with `w`, so that gradients go through it."""
    nodes = nodes + [h.make_node('ReduceSumSquare', ['y'], ['loss'], keepdims=0)]
    types = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int32): T.INT32}
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info(k, types[v.dtype], v.shape) for k, v in feeds.items()],
                     [h.make_tensor_value_info('y', T.FLOAT, None), h.make_tensor_value_info('loss', T.FLOAT, [])], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('com.microsoft', 1)], ir_version=10)


def node(op, inputs, outputs, **attrs):
    return h.make_node(op, inputs.split(), outputs.split(), **attrs)


def same(what, parts, bias, mask, **attrs):
    """parts: 3, q, k and v in one; 2: k and v.  Tokens of (B, T, N, parts, H)."""
    T_q, T_k = (5, 5) if parts == 3 else (3, 5)
    feeds = {'x': normal(B, T_k, N, parts, H)} | ({'q_in': normal(B, T_q, N * H)} if parts == 2 else {}) | ({'mask': np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)} if mask else {})
    weights = {'w': normal(H, H)} | ({'bias': normal(3 * N * H)} if bias else {})
    rest = ['bias' if bias else '', 'mask' if mask else '']
    make = [node('MatMul', 'x w', 'all')]
    names = ['all', '', ''] if parts == 3 else ['q_in', 'all', '']
    packed = make + [h.make_node('MultiHeadAttention', names + rest, ['y'], name='the_node', domain='com.microsoft', num_heads=N, **attrs)]
    make += [node('Split', 'all', ' '.join(f's{i}' for i in range(parts)), axis=3, num_outputs=parts)] + [node('Reshape', f's{i} flat', f'r{i}') for i in range(parts)]
    names = ['r0', 'r1', 'r2'] if parts == 3 else ['q_in', 'r0', 'r1']
    three = model(make + [h.make_node('MultiHeadAttention', names + rest, ['y'], domain='com.microsoft', num_heads=N, **attrs)], feeds,
                  weights | {'flat': np.array([0, 0, -1], np.int64)})
    packed = model(packed, feeds, weights)
    want = onnxruntime.InferenceSession(three.SerializeToString(), providers=['CPUExecutionProvider']).run(['y'], feeds)[0]
    with tempfile.TemporaryDirectory() as d:
        r, got = arrays(d, 'run', packed, feeds)
        (p, grads), (q, right) = (arrays(d, 'grad', m, feeds, '--loss', 'loss=output') for m in (packed, three))
        problem = r.stderr.strip() + p.stderr.strip() + q.stderr.strip() if r.returncode or p.returncode or q.returncode else None
        if not problem and (got['y'].shape != want.shape or not np.allclose(got['y'], want, rtol=1e-3, atol=1e-4)):
            problem = f"off by {np.abs(got['y'] - want).max() if got['y'].shape == want.shape else got['y'].shape}"
        if not problem and (set(grads) != set(right) or 'w' not in grads or any(not np.allclose(grads[k], right[k], rtol=1e-4, atol=1e-4) for k in right)):
            problem = f'gradients of {sorted(grads)}; {sorted(right)} are right'
    verdict(what, problem)


for parts in (3, 2):
    for bias in (False, True):
        for mask in (False, True):
            same(f'{parts} in one, bias {bias}, mask {mask}', parts, bias, mask)
same('with a scale of its own', 3, True, False, scale=0.7)
same('looking back only', 3, False, False, unidirectional=1)


def as_runtime(what, nodes, feeds, weights):
    """Values as ONNX Runtime's, and a gradient of w."""
    m = model(nodes, feeds, weights)
    want = onnxruntime.InferenceSession(m.SerializeToString(), providers=['CPUExecutionProvider']).run(['y'], feeds)[0]
    with tempfile.TemporaryDirectory() as d:
        r, got = arrays(d, 'run', m, feeds)
        p, grads = arrays(d, 'grad', m, feeds, '--loss', 'loss=output')
        problem = r.stderr.strip() + p.stderr.strip() if r.returncode or p.returncode else None
        if not problem and (got['y'].shape != want.shape or not np.allclose(got['y'], want, rtol=1e-3, atol=1e-4)):
            problem = f"off by {np.abs(got['y'] - want).max() if got['y'].shape == want.shape else got['y'].shape}"
        if not problem and not np.abs(grads['w']).max() > 0:
            problem = 'no gradient'
    verdict(what, problem)


S = 6
for ends in ([6, 4], [6, 4, 0, 1], [5, 5, 2, 4]):  # where the keys of each sample end; and where they start
    as_runtime(f'keys that end and start at {ends}', [node('Attention', 'x w bias mask', 'y', domain='com.microsoft', num_heads=2)],
               {'x': normal(2, S, 8), 'mask': np.array(ends, np.int32)}, {'w': normal(8, 24), 'bias': normal(24)})
for place in (0, 3):  # of the first token, in an operand whose rank the file does not say
    tables = {'cos': np.cos(normal(12, 4)), 'sin': np.sin(normal(12, 4)), 'w': normal(8, 8), 'place': np.array([place], np.int64)}
    as_runtime(f'rotation of heads, from place {place}', [node('MatMul', 'x w', 'q'), node('RotaryEmbedding', 'q place cos sin', 'y', domain='com.microsoft')],
               {'x': normal(2, 2, S, 8)}, tables)
for turns in range(16):
    transA, transB, transBatchA, transBatchB = (turns >> i & 1 for i in range(4))
    operands = []
    for a, trans, batch in ((normal(2, 3, 4, 5), transA, transBatchA), (normal(2, 3, 5, 6), transB, transBatchB)):
        a = np.swapaxes(a, -1, -2) if trans else a
        operands.append(np.ascontiguousarray(np.moveaxis(a, -2, 0) if batch else a))
    attrs = dict(transA=transA, transB=transB, transBatchA=transBatchA, transBatchB=transBatchB)
    as_runtime(f'FusedMatMul {attrs}', [node('FusedMatMul', 'x w', 'y', domain='com.microsoft', alpha=0.5, **attrs)], {'x': operands[0]}, {'w': operands[1]})
as_runtime('FusedMatMul of an operand whose rank follows from a Reshape',  # value_info, which says it else, is not in the file
           [node('MatMul', 'x u', 'm'), node('Reshape', 'm shape', 'r'), node('Transpose', 'r', 't', perm=[1, 0, 2]),
            node('FusedMatMul', 't w', 'y', domain='com.microsoft', transBatchA=1)],
           {'x': normal(3, 6)}, {'u': normal(6, 8), 'shape': np.array([3, 2, 4]), 'w': normal(3, 4, 5)})
as_runtime('ExpandDims', [node('MatMul', 'x w', 'm'), node('ExpandDims', 'm axis', 'y', domain='com.microsoft')], {'x': normal(2, 3)},
           {'w': normal(3, 4), 'axis': np.array(-1, np.int32)})
for metric in 'euclidean', 'sqeuclidean':
    as_runtime(f'CDist, {metric}', [node('MatMul', 'x w', 'm'), node('CDist', 'm others', 'y', domain='com.microsoft', metric=metric)], {'x': normal(5, 3)}, {'w': normal(3, 4), 'others': normal(7, 4)})
for mode in 'bilinear', 'nearest', 'bicubic':
    as_runtime(f'GridSample, {mode}', [node('MatMul', 'x w', 'm'), node('GridSample', 'm grid', 'y', domain='com.microsoft', mode=mode, align_corners=1, padding_mode='border')],
               {'x': normal(1, 2, 5, 6), 'grid': normal(1, 3, 4, 2)}, {'w': normal(6, 6)})
as_runtime('Pad', [node('MatMul', 'x w', 'm'), node('Pad', 'm pads value', 'y', domain='com.microsoft', mode='constant')], {'x': normal(2, 3)},
           {'w': normal(3, 3), 'pads': np.array([0, 1, 2, 0]), 'value': np.float32([0.5])})
as_runtime('GatherND', [node('MatMul', 'x w', 'm'), node('GatherND', 'm at', 'y', domain='com.microsoft')], {'x': normal(3, 4)}, {'w': normal(4, 4), 'at': np.array([[0, 1], [2, 3]])})
as_runtime('MatMulNBits without zero points', [node('MatMulNBits', 'x w s', 'y', domain='com.microsoft', K=32, N=6, bits=4, block_size=16)], {'x': normal(5, 32)},
           {'w': rng.integers(0, 256, (6, 2, 8), np.uint8), 's': normal(12)})  # ONNX Runtime's scales have the sign of a block's largest weight
for step in '', ' step':
    as_runtime(f'Range{step}', [node('Range', 'from to' + step, 'r', domain='com.microsoft'), node('Mul', 'r w', 'm'), node('Add', 'x m', 'y')], {'x': normal(6 if not step else 3)},
               {'w': normal(1), 'from': np.float32(1), 'to': np.float32(7), 'step': np.float32(2)})
finish('models')
