"""Operators of com.microsoft that keep channels last, NhwcConv, NhwcFusedConv, GroupNorm, SkipGroupNorm, BiasAdd and BiasSplitGelu: values against NumPy, written from
their schemas (ONNX Runtime has no kernels for most of them on a CPU), gradients against the same network in operators of ai.onnx.

usage: test_channels_last.py PROGRAM
"""
import math
import tempfile

from scripts import T, arrays, finish, h, np, numpy_helper, verdict
rng = np.random.default_rng(8)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def call(d, command, nodes, feeds, weights, *extra):
    """The loss is the sum of the squares of y, and of s where there is one."""
    outs = ['y'] + ['s'] * any('s' in n.output for n in nodes)
    nodes = nodes + [h.make_node('ReduceSumSquare', [o], ['q_' + o], keepdims=0) for o in outs] + [h.make_node('Sum', ['q_' + o for o in outs], ['loss'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info(k, T.FLOAT, v.shape) for k, v in feeds.items()],
                     [h.make_tensor_value_info(o, T.FLOAT, None) for o in outs + ['loss']], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('com.microsoft', 1)], ir_version=10)
    return arrays(d, command, m, feeds, '--device', 'cpu', *extra)


def same(what, node, plain, feeds, weights, want):
    """node and the plain nodes are one function of feeds and weights; want: its outputs."""
    problem = None
    with tempfile.TemporaryDirectory() as d:
        r, got = call(d, 'run', [node], feeds, weights)
        if r.returncode:
            problem = r.stderr.strip()
        for k, v in want.items():
            if not problem and (got[k].shape != v.shape or not np.allclose(got[k], v, rtol=2e-4, atol=2e-5)):
                problem = f'{k}: other numbers or another shape, {got[k].shape}'
        train = ['--train', 'bias'] if 'bias' in weights else []  # right at an input it would be a normaliser
        (r, grads), (p, right) = (call(d, 'grad', n, feeds, weights, '--loss', 'loss=output', *train) for n in ([node], plain))
        if not problem and (r.returncode or p.returncode):
            problem = r.stderr.strip() + p.stderr.strip()
        elif not problem and (set(grads) != set(right) or set(weights) - {k for k in weights if k[0] == '_'} - set(grads)):
            problem = f'gradients of {sorted(grads)}; {sorted(right)} are right'
        elif not problem:
            problem = ', '.join(f'gradient of {k}' for k in right if not np.allclose(grads[k], right[k], rtol=1e-4, atol=1e-4)) or None
    verdict(what, problem)


def refused(what, node, feeds, weights, text):
    with tempfile.TemporaryDirectory() as d:
        r, _ = call(d, 'run', [node], feeds, weights)
    verdict(what, f'exit {r.returncode}, 3 is right, with {text!r}: {r.stderr.strip()}' if r.returncode != 3 or text not in r.stderr else None)


def ms(op, inputs, outputs='y', **attrs):
    return h.make_node(op, [i if i != '-' else '' for i in inputs.split()], outputs.split(), name='the_node', domain='com.microsoft', **attrs)


def node(op, inputs, outputs, **attrs):
    return h.make_node(op, inputs.split(), outputs.split(), **attrs)


# ---- convolutions ----------------------------------------------------------------------------------
def conv(x, w, b, pad, stride, dilation, group):
    """(N, H, W, C) and (M, C/group, kH, kW)."""
    x = np.pad(x.astype(np.float64), [(0, 0), (pad, pad), (pad, pad), (0, 0)])
    m, each, kh, kw = w.shape
    rows, columns = ((x.shape[a] - dilation * (k - 1) - 1) // stride + 1 for a, k in ((1, kh), (2, kw)))
    y = np.zeros((x.shape[0], rows, columns, m))
    for o in range(m):
        first = o // (m // group) * each
        for i in range(kh):
            for j in range(kw):
                part = x[:, i * dilation:, j * dilation:, first:first + each][:, :stride * rows:stride, :stride * columns:stride]
                y[..., o] += part[:, :rows, :columns] @ w[o, :, i, j].astype(np.float64)
    return y + (0 if b is None else b)


TO, BACK = dict(perm=[0, 3, 1, 2]), dict(perm=[0, 2, 3, 1])
image = normal(2, 6, 5, 4)
for what, group, pad, stride, dilation, bias in (('plain', 1, 0, 1, 1, False), ('padded, with a bias', 1, 1, 1, 1, True), ('strided, grouped', 2, 1, 2, 1, True), ('by channel, dilated', 4, 2, 1, 2, True)):
    w, b = normal(8, 4 // group, 3, 3), normal(8)
    weights = {'w': w} | ({'b': b} if bias else {})
    attrs = dict(group=group, pads=[pad] * 4, strides=[stride] * 2, dilations=[dilation] * 2, kernel_shape=[3, 3])
    names = 'w b' if bias else 'w'
    plain = [node('Transpose', 'x', 'p', **TO), node('Conv', 'p ' + names, 'c', **attrs), node('Transpose', 'c', 'y', **BACK)]
    want = conv(image, w, b if bias else None, pad, stride, dilation, group)
    same('NhwcConv ' + what, ms('NhwcConv', 'x ' + names, **attrs), plain, {'x': image}, weights, {'y': want})
    z = normal(*want.shape)
    plain[-1:] = [node('Transpose', 'c', 't', **BACK), node('Add', 't z', 'u'), node('Relu', 'u', 'y')]
    same('NhwcFusedConv ' + what, ms('NhwcFusedConv', f'x {names if bias else "w -"} z', activation='Relu', **attrs), plain, {'x': image}, weights | {'z': z}, {'y': np.maximum(want + z, 0)})


# ---- norms -----------------------------------------------------------------------------------------
def group_norm(x, gamma, beta, groups, epsilon):
    """(N, H, W, C)."""
    n, rows, columns, c = x.shape
    g = x.astype(np.float64).reshape(n, rows * columns, groups, c // groups)
    g = (g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + epsilon)
    return g.reshape(x.shape) * gamma + beta


def silu(x):
    return x / (1 + np.exp(-x))


gamma, beta = normal(4), normal(4)
affine = {'gamma': gamma, 'beta': beta}
for groups in (1, 2, 4):
    for act in (0, 1):
        for last in (1, 0):
            attrs = dict(groups=groups, activation=act, channels_last=last, epsilon=1e-3)
            want = group_norm(image, gamma, beta, groups, 1e-3)
            want = silu(want) if act else want
            inner = [node('GroupNormalization', 'p gamma beta', 'g', num_groups=groups, epsilon=1e-3)] + ([node('Sigmoid', 'g', 'k'), node('Mul', 'g k', 'r')] if act else [node('Identity', 'g', 'r')])
            if last:
                plain = [node('Transpose', 'x', 'p', **TO), *inner, node('Transpose', 'r', 'y', **BACK)]
            else:
                plain = [node('Identity', 'x', 'p'), *inner, node('Identity', 'r', 'y')]
            x, want = (image, want) if last else (np.ascontiguousarray(image.transpose(0, 3, 1, 2)), want.transpose(0, 3, 1, 2))
            same(f'GroupNorm {groups} groups, activation {act}, channels_last {last}', ms('GroupNorm', 'x gamma beta', **attrs), plain, {'x': x}, affine, {'y': want})
for what, shape in (('of the same shape', (2, 6, 5, 4)), ('for all pixels', (2, 1, 1, 4)), ('of two axes', (2, 4))):
    for bias in (False, True):
        for second in (False, True):
            skip, b = normal(*shape), normal(4)
            s = image + (skip if len(shape) == 4 else skip[:, None, None]) + (b if bias else 0)
            want = {'y': silu(group_norm(s, gamma, beta, 2, 1e-5))} | ({'s': s} if second else {})
            weights = affine | ({'bias': b} if bias else {})
            plain = [node('Reshape', 'skip _shape', 'k'), node('Add', 'x k', 's0'), node('Add', 's0 bias', 's') if bias else node('Identity', 's0', 's'), node('Transpose', 's', 'p', **TO),
                     node('GroupNormalization', 'p gamma beta', 'g', num_groups=2), node('Sigmoid', 'g', 'q'), node('Mul', 'g q', 'r'), node('Transpose', 'r', 'y', **BACK)]
            if not second:
                for n in plain:
                    for names in (n.input, n.output):
                        for i, name in enumerate(names):
                            if name == 's':
                                names[i] = 'sum'
            weights['_shape'] = np.array(shape if len(shape) == 4 else (2, 1, 1, 4), np.int64)
            same(f'SkipGroupNorm, a skip {what}, {"a" if bias else "no"} bias, {1 + second} outputs', ms('SkipGroupNorm', 'x gamma beta skip' + bias * ' bias', 'y s' if second else 'y', groups=2, activation=1),
                 plain, {'x': image, 'skip': skip}, weights, want)
skip, b = normal(2, 6, 5, 4), normal(4)
same('BiasAdd', ms('BiasAdd', 'x bias skip'), [node('Add', 'x bias', 'a'), node('Add', 'a skip', 'y')], {'x': image, 'skip': skip}, {'bias': b}, {'y': image + b + skip})
first, second = np.split((image + b).astype(np.float64), 2, -1)
gelu = second * (1 + np.vectorize(math.erf)(second / np.sqrt(2))) / 2
same('BiasSplitGelu', ms('BiasSplitGelu', 'x bias'), [node('Add', 'x bias', 'a'), node('Split', 'a', 'p q', axis=-1, num_outputs=2), node('Gelu', 'q', 'g'), node('Mul', 'p g', 'y')], {'x': image},
     {'bias': b}, {'y': first * gelu})
refused('an activation of 2', ms('GroupNorm', 'x gamma beta', groups=2, activation=2), {'x': image}, affine, 'activation 2 is not supported; supported: 0 (none), 1 (SiLU)')
refused('a skip with channels first', ms('SkipGroupNorm', 'x gamma beta skip', groups=2, activation=0, channels_last=0), {'x': image}, affine | {'skip': image}, 'channels_last=0 is not supported')
refused('groups that do not divide', ms('GroupNorm', 'x gamma beta', groups=3, activation=0), {'x': image}, affine, 'the_node')
finish('models')
