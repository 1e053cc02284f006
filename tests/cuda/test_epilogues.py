"""Operators with the Map before or behind them, joined where a kernel computes both: gradients are those of the network in float64,
in which nothing is joined.

usage: test_epilogues.py PROGRAM DEVICE [--real] [--only=CASE]     --real: how many are joined is printed, not checked; --list: the cases
"""
import os
import re
import sys
import tempfile

from scripts import T, arrays, call, check, finish, h, np, numpy_helper, onnx

device, real = sys.argv[2], '--real' in sys.argv
only = [a[len('--only='):] for a in sys.argv if a.startswith('--only=')]
rng = np.random.default_rng(5)
BATCH, TOKENS, WIDE, NARROW = 4, 64, 128, 64  # products of more than a million multiply-adds: cuBLASLt's


class Net:
    """Nodes in order, and weights by name."""

    def __init__(self, shape, opset=20):
        self.nodes, self.weights, self.opset, self.n = [], {}, opset, 0
        self.shape = shape

    def weight(self, *shape, scale=.2, shift=0):
        name = f'w{len(self.weights)}'
        self.weights[name] = (rng.standard_normal(shape) * scale + shift).astype('f4')
        return name

    def add(self, op, *ins, **attributes):
        self.n += 1
        self.nodes.append(h.make_node(op, list(ins), [f'v{self.n}'], **attributes))
        return f'v{self.n}'

    def norm(self, x, channels, scale=1, **attributes):
        mean, var = self.weight(channels, scale=.1), self.weight(channels, scale=.1, shift=1)
        return self.add('BatchNormalization', x, self.weight(channels, shift=scale), self.weight(channels), mean, var, **attributes)

    def conv(self, x, channels, out, k=3):
        return self.add('Conv', x, self.weight(out, channels, k, k), pads=[k // 2] * 4)

    def linear(self, x, n_in, n_out, bias=True):
        y = self.add('MatMul', x, self.weight(n_in, n_out))
        return self.add('Add', y, self.weight(n_out)) if bias else y

    def model(self, t='f4'):
        kind = T.FLOAT if t == 'f4' else T.DOUBLE
        self.nodes[-1].output[0] = 'y'
        g = h.make_graph(self.nodes, 'g', [h.make_tensor_value_info('x', kind, ['n', *self.shape])],
                         [h.make_tensor_value_info('y', kind, None)],
                         [numpy_helper.from_array(v.astype(t), k) for k, v in self.weights.items()])
        return h.make_model(g, opset_imports=[h.make_opsetid('', self.opset)], ir_version=9)

    def rounded(self):
        """The model with every value and weight of a product rounded to bfloat16, and its gradient, operator by operator."""
        m = self.model()
        nodes = []
        wide = {k for k, v in self.weights.items() if v.ndim < 2}

        def cast(x):
            nodes.extend((h.make_node('Cast', [x], [f'{x}.16'], to=T.BFLOAT16), h.make_node('Cast', [f'{x}.16'], [f'{x}.r'], to=T.FLOAT)))

        for x in ['x', *self.weights]:
            if x not in wide:
                cast(x)
        for n in m.graph.node:
            n.input[:] = [x if x in wide else f'{x}.r' for x in n.input]
            nodes.append(n)
            if n.output[0] == 'y':
                n.output[0] = 'before_y'
            cast(n.output[0])
        nodes.append(h.make_node('Identity', ['before_y.r'], ['y']))
        del m.graph.node[:]
        m.graph.node.extend(nodes)
        return m


def norm_relu(n):
    return n.conv(n.add('Relu', n.norm(n.conv('x', 3, 16), 16)), 16, 8)


def relu6(n):
    n.weights.update(low=np.float32(0), high=np.float32(6))
    x = n.conv('x', 3, 16)
    for _ in range(2):
        x = n.add('Clip', n.norm(x, 16, scale=4), 'low', 'high')
        x = n.conv(x, 16, 16)
    return x


def residual(c):
    def make(n):
        a = n.add('Relu', n.norm(n.conv('x', 3, c), c))
        b = n.norm(n.conv(n.add('Relu', n.norm(n.conv(a, c, c), c)), c, c), c)
        s = n.add('Relu', n.add('Add', b, a))
        d = n.norm(n.conv(s, c, c), c)
        return n.conv(n.add('Relu', n.add('Add', n.norm(n.conv(s, c, c, 1), c), d)), c, 8)
    return make


def read_twice(n):  # the norm's result is read by something else: it is stored, and nothing is joined behind it
    a = n.norm(n.conv('x', 3, 16), 16)
    return n.conv(n.add('Mul', n.add('Relu', a), n.add('Sigmoid', a)), 16, 8)


def leaky(n):
    return n.conv(n.add('LeakyRelu', n.norm(n.conv('x', 3, 16), 16), alpha=.1), 16, 8)


def broadcast(n):  # what is added has another shape
    a = n.norm(n.conv('x', 3, 16), 16)
    return n.conv(n.add('Relu', n.add('Add', a, n.add('GlobalAveragePool', a))), 16, 8)


def activated(n):  # without norms: a bias, a sum, ReLU; and its gradient behind that of a convolution and a sum
    a = n.add('Relu', n.conv('x', 3, 32))
    b = n.add('Conv', a, n.weight(32, 32, 3, 3), n.weight(32), pads=[1] * 4)
    c = n.add('Relu', n.add('Add', b, a))
    d = n.add('ConvTranspose', c, n.weight(32, 32, 3, 3), n.weight(32), pads=[1] * 4)
    return n.conv(n.add('Relu', d), 32, 8)


def pooled(n):  # ReLU after the pooling, where exporters or we move it
    a = n.add('Relu', n.add('MaxPool', n.conv('x', 3, 16), kernel_shape=[2, 2], strides=[2, 2]))
    b = n.add('MaxPool', n.add('Relu', n.conv(a, 16, 16)), kernel_shape=[3, 3], pads=[1] * 4)
    return n.conv(b, 16, 8)


def gelu(form):
    def make(n):
        a = n.add('Gelu', n.linear('x', NARROW, WIDE), approximate=form)
        return n.linear(a, WIDE, NARROW)
    return make


def transformer(n):
    x = n.linear('x', NARROW, NARROW)
    x = n.add('Add', n.linear(n.add('Gelu', n.linear(x, NARROW, WIDE), approximate='tanh'), WIDE, NARROW), x)
    x = n.add('Add', x, n.linear(n.add('Gelu', n.linear(x, NARROW, WIDE, bias=False), approximate='tanh'), WIDE, NARROW, bias=False))
    return n.linear(x, NARROW, NARROW)


def before_norm(n):  # the gradient of a norm's input gets that of the residual added
    x = n.linear('x', NARROW, NARROW)
    for _ in range(2):
        y = n.add('LayerNormalization', x, n.weight(NARROW, shift=1), n.weight(NARROW))
        x = n.add('Add', x, n.linear(y, NARROW, NARROW))
    return n.linear(x, NARROW, NARROW)


def odd(n):  # rows of GELU's operand that cuBLASLt cannot store
    return n.linear(n.add('Gelu', n.linear('x', NARROW, WIDE + 3), approximate='tanh'), WIDE + 3, NARROW)


def small(function):  # products that are no library's: their terms are summed by several blocks, the first one's
    def make(n):
        a = n.add(function, n.linear('x', LONG, NARROW))
        return n.linear(n.add('Mul', n.add(function, n.linear(a, NARROW, NARROW)), a), NARROW, 32)
    return make


def same_weight_twice(n):  # the operand of the product is the residual too
    w = n.weight(NARROW, NARROW)
    return n.add('Add', n.add('MatMul', n.add('MatMul', 'x', w), w), 'x')


def itself(n):  # a result added to itself: the sum has one operand, which is in no memory
    a = n.norm(n.conv('x', 3, 16), 16)
    return n.conv(n.add('Relu', n.add('Add', a, a)), 16, 8)


def product_itself(n):
    a = n.linear('x', NARROW, WIDE, bias=False)
    a = n.add('Gelu', n.add('Add', a, a), approximate='tanh')
    b = n.linear(a, WIDE, NARROW, bias=False)
    return n.add('Add', b, b)


def norm_first(n):  # nothing reads the gradient of the norm's input
    return n.linear(n.add('Relu', n.norm('x', NARROW)), NARROW, WIDE)


def rows_of_images(n):  # the gradient of the norm is plain, what is added has channels last
    a = n.conv('x', 3, 32)
    b = n.conv(n.add('LayerNormalization', a, n.weight(8, shift=1), n.weight(8)), 32, 32)
    return n.conv(n.add('Relu', n.add('Add', b, a)), 32, 8)


def rounded(n):  # the model's own rounding is not omitted: libraries take no such functions, our own product computes them
    y = n.add('Cast', n.linear('x', NARROW, NARROW, bias=False), to=T.FLOAT16)
    return n.linear(n.add('Add', n.add('CastLike', y, 'x'), 'x'), NARROW, NARROW)


LONG = 2048
IMAGE, ROWS = (3, 9, 7), (TOKENS, NARROW)
CASES = {  # how many nodes are joined in a training step on the CPU, on CUDA in f32, and there in bf16
    'norm_relu': (norm_relu, IMAGE, 2, 2, 2),
    'relu6': (relu6, IMAGE, 4, 0, 0),
    'residual': (residual(16), IMAGE, 8, 6, 8),  # the sum of gradients goes behind a convolution: cuDNN plans it before that of a norm, but does not run it
    'bits': (residual(32), IMAGE, 8, 6, 8),  # cuDNN keeps a bit of each result of ReLU for the gradient, in layouts that have channels last
    'read_twice': (read_twice, IMAGE, 0, 0, 0),
    'leaky': (leaky, IMAGE, 0, 0, 0),
    'broadcast': (broadcast, IMAGE, 0, 0, 0),
    'pooled': (pooled, IMAGE, 0, 4, 4),
    'gelu_tanh': (gelu('tanh'), ROWS, 0, 2, 2),
    'gelu_erf': (gelu('none'), ROWS, 0, 2, 0),  # by our own product
    'transformer': (transformer, ROWS, 4, 8, 8),
    'before_norm': (before_norm, ROWS, 4, 4, 4),
    'odd': (odd, ROWS, 0, 2, 0),
    'small_relu': (small('Relu'), (LONG,), 0, 3, 3),
    'small_tanh': (small('Tanh'), (LONG,), 0, 3, 3),
    'small_mish': (small('Mish'), (LONG,), 0, 3, 3),
    'same_weight_twice': (same_weight_twice, ROWS, 1, 1, 1),
    'itself': (itself, IMAGE, 0, 0, 0),
    'product_itself': (product_itself, ROWS, 0, 1, 0),
    'norm_first': (norm_first, (NARROW,), 2, 2, 0),
    'rows_of_images': (rows_of_images, (3, 8, 8), 0, 1, 2),
    'rounded': (rounded, ROWS, 0, 2, 0),
    'activated': (activated, IMAGE, 0, 0, 5),
}


def gradients(d, m, feeds, *options):
    return arrays(d, 'grad', m, feeds, '--loss', 'mse', *options)[1]


def far(a, b):
    return np.linalg.norm(a.astype('f8') - b) / (np.linalg.norm(b) + 1e-6)


def main(d):
    global rng
    for name in only or CASES:
        make, shape, cpu, f32, bf16 = CASES[name]
        rng = np.random.default_rng(list(name.encode()))
        n = Net(shape)
        make(n)
        m, exact = n.model(), n.model('f8')
        x = rng.standard_normal((BATCH, *shape)).astype('f4')
        y = arrays(d, 'run', m, {'x': x}, '--device', device)[1]['y']
        off = far(y, arrays(d, 'run', exact, {'x': x.astype('f8')}, '--device', 'cpu')[1]['y'])
        check(off <= 1e-4, f'{name}: run is off by {off:.2g}')
        feeds = {'x': x, 'target': rng.standard_normal(y.shape).astype('f4')}
        want = gradients(d, exact, {k: v.astype('f8') for k, v in feeds.items()}, '--device', 'cpu')
        for precision, expected in (('fp32', cpu if device == 'cpu' else f32), ('bf16', bf16)):
            if precision != 'fp32' and device == 'cpu':
                continue
            options = '--device', device, '--precision', precision
            alone = gradients(d, n.rounded(), feeds, '--device', 'cpu') if precision == 'bf16' else {}
            got = gradients(d, m, feeds, *options)
            check(sorted(got) == sorted(want) and len(want) >= 2, f'{name}: {sorted(got)}')
            for k, v in want.items():
                off, most = far(got[k], v), min(1.5 * far(alone[k], v) + 1e-3, .2) if alone else 1e-4
                check(off <= most, f'{name}, {precision}: {k} is off by {off:.2g}, more than {most:.2g}')
            onnx.save(m, f'{d}/m.onnx')
            said = call('plan', f'{d}/m.onnx', '--data', f'{d}/x.npz', '--loss', 'mse', '--batch-size', str(BATCH), '--why', *options).stdout
            joined = len(re.findall(r'^ +\d+ +batch +\S*(?:\+Map|Map\+)', said, re.M))
            bits = said.count('ReLU as bits')
            check(real or bits == (4 if name == 'bits' and precision == 'bf16' else 0), f'{name}, {precision}: {bits} with bits: {said}')
            if real:
                print(f'{name}, {precision}: {joined} of {expected} joined')
            else:
                check(joined == expected, f'{name}, {precision}: {joined} joined, expected {expected}: {said}')
    if not only:
        nan(d)
    if device == 'cuda' and not only:
        refused(d)


def refused(d):
    """A library that refuses: bits are not used, nothing is joined, and the gradients are the same."""
    n = Net(IMAGE)
    residual(32)(n)
    m = n.model()
    feeds = {'x': rng.standard_normal((BATCH, *IMAGE)).astype('f4'), 'target': rng.standard_normal((BATCH, 8, 9, 7)).astype('f4')}
    options = '--device', 'cuda', '--precision', 'bf16'
    exact = gradients(d, n.model('f8'), {k: v.astype('f8') for k, v in feeds.items()}, '--device', 'cpu')
    want = gradients(d, m, feeds, *options)
    for lacking, joined, bits in (('bits', 8, 0), ('functions', 0, 0), ('none', 0, 0), ('unrunnable', 8, 4)):
        with tempfile.TemporaryDirectory() as cache:  # plans on disk were made where nothing was lacking
            os.environ.update(ONNXTRAIN_EMULATOR_CUDNN=lacking, XDG_CACHE_HOME=cache)
            got = gradients(d, m, feeds, *options)
            said = call('plan', f'{d}/m.onnx', '--data', f'{d}/x.npz', '--loss', 'mse', '--batch-size', str(BATCH), '--why', *options).stdout
        found = len(re.findall(r'^ +\d+ +batch +\S*(?:\+Map|Map\+)', said, re.M)), said.count('ReLU as bits')
        check(found == (joined, bits), f'without {lacking}: {found}: {said}')
        for k, v in exact.items():
            off, most = far(got[k], v), 1.5 * far(want[k], v) + 1e-3
            check(off <= most, f'without {lacking}: {k} is off by {off:.2g}, more than {most:.2g}')
    del os.environ['ONNXTRAIN_EMULATOR_CUDNN']


def nan(d):
    """ReLU behind a norm or a product keeps NaN: 0 would hide that a network has diverged."""
    for make, shape, out in ((norm_relu, IMAGE, (8, 9, 7)), (small('Relu'), (LONG,), (32,))):
        n = Net(shape)
        make(n)
        m = n.model()
        x = rng.standard_normal((BATCH, *shape)).astype('f4')
        x[1, 1] = np.nan
        got = arrays(d, 'grad', m, {'x': x, 'target': np.zeros((BATCH, *out), 'f4')}, '--loss', 'mse', '--device', device)
        check(not got[1] or not np.isfinite(got[1]['loss']), f'NaN becomes {got}')


if '--list' in sys.argv:
    print(*CASES)
    sys.exit()
with tempfile.TemporaryDirectory() as folder:
    main(folder)
finish(f'gradients of joined operators are those of the reference ({device})')
