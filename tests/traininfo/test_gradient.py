"""The operator Gradient: by inputs, initializers and inner tensors, at other values, of gradients, in functions.

usage: test_gradient.py PROGRAM
"""
import tempfile

from models import *

f4 = np.float32
x, w = np.array([1, 2, -3], f4), np.array([1, 2, 3], f4)


def near(got, **want):
    for k, v in want.items():
        check(k in got and got[k].shape == np.shape(v) and np.allclose(got[k], v, rtol=1e-5, atol=1e-6), f'{k}: {got.get(k)}, not {v}')


with tempfile.TemporaryDirectory() as d:
    # the standard's own two cases
    a, b = f4(1.25), f4(-3)
    m = model(graph([node('Add', ['a', 'b'], 'c'), gradient(['a', 'b'], ['dca', 'dcb'], ['a', 'b'], 'c')], [value('a', []), value('b', [])],
                    [value('c', []), value('dca', []), value('dcb', [])]))
    near(run(d, m, {'a': a, 'b': b}), c=a + b, dca=1, dcb=1)
    m = model(graph([node('Add', ['a', 'b'], 'c'), node('Mul', ['c', 'a'], 'd'), gradient(['a', 'b'], ['dda', 'ddb'], ['a', 'b'], 'd')],
                    [value('a', []), value('b', [])], [value('d', []), value('dda', []), value('ddb', [])]))
    near(run(d, m, {'a': a, 'b': b}), d=(a + b) * a, dda=2 * a + b, ddb=a)

    # by an initializer and a Constant, which would be folded away; nodes out of order; an output that nobody asks for
    m = model(graph([gradient(['w', 'k', 'x'], ['dw', 'dk'], ['w', 'k', 'x'], 'y'), helper.make_node('Constant', [], ['k'], value_floats=[2., 3., 4.]),
                     node('Mul', ['w', 'k'], 'wk'), node('Mul', ['wk', 'x'], 'y')],
                    [value('x', [3])], [value('dw', [3]), value('dk', [3]), value('y', [3])], {'w': w}))
    near(run(d, m, {'x': x}), dw=x * [2, 3, 4], dk=w * x, y=w * x * [2, 3, 4])
    m = model(graph([node('Mul', ['w', 'x'], 'y'), gradient(['w', 'x'], ['', 'dx'], ['w', 'x'], 'y')], [value('x', [3])], [value('dx', [3])], {'w': w}))
    near(run(d, m, {'x': x}), dx=w)

    # by an inner tensor; by one that y does not depend on; by y itself; x is listed twice
    m = model(graph([node('Relu', ['x'], 'h'), node('Mul', ['h', 'h'], 'y'), gradient(['h', 'z', 'y', 'h'], ['dh', 'dz', 'dy', 'again'], ['h', 'z', 'y', 'h'], 'y')],
                    [value('x', [3]), value('z', [2])], [value('dh', [3]), value('dz', [2]), value('dy', [3]), value('again', [3])]))
    near(run(d, m, {'x': x, 'z': x[:2]}), dh=2 * np.maximum(x, 0), dz=[0, 0], dy=[1, 1, 1], again=2 * np.maximum(x, 0))

    # a layer: a product, a sum that is broadcast, a mean
    rng = np.random.default_rng(1)
    X, W, B = rng.standard_normal((5, 4)).astype(f4), rng.standard_normal((4, 2)).astype(f4), rng.standard_normal(2).astype(f4)
    m = model(graph([node('Gemm', ['X', 'W', 'B'], 'g'), node('Tanh', ['g'], 't'), node('ReduceMean', ['t'], 'y', keepdims=0), gradient(['X', 'W', 'B'], ['dX', 'dW', 'dB'], ['X', 'W', 'B'], 'y')],
                    [value('X', ['n', 4])], [value('dX', ['n', 4]), value('dW', [4, 2]), value('dB', [2])], {'W': W, 'B': B}))
    s = (1 - np.tanh(X @ W + B) ** 2) / 10
    near(run(d, m, {'X': X}), dX=s @ W.T, dW=X.T @ s, dB=s.sum(0))

    # at other values than the graph's own: the nodes between are there once more
    m = model(graph([node('Relu', ['x'], 'h'), node('Mul', ['h', 'h'], 'q'), node('Mul', ['q', 'z'], 'y'), gradient(['h1', 'z'], ['dh', 'dz'], ['h', 'z'], 'y'),
                     gradient(['h1', 'z'], ['dh0'], ['h'], 'y', zs=['z'])],
                    [value('x', [3]), value('z', [3]), value('h1', [3])], [value('dh', [3]), value('dz', [3]), value('dh0', [3]), value('y', [3])]))
    h1 = np.array([10, 20, 30], f4)
    near(run(d, m, {'x': x, 'z': w, 'h1': h1}), dh=2 * h1 * w, dz=h1 * h1, dh0=2 * h1 * w, y=np.maximum(x, 0) ** 2 * w)

    # the second and third derivative
    m = model(graph([node('Mul', ['x', 'x'], 'xx'), node('Mul', ['xx', 'x'], 'x3'), node('Mul', ['x3', 'w'], 'y'), gradient(['x', 'w'], ['dx', 'dw'], ['x', 'w'], 'y'),
                     gradient(['x', 'w'], ['dxx', 'dxw'], ['x', 'w'], 'dx'), gradient(['x'], ['dxxx'], ['x'], 'dxx')],
                    [value('x', [3])], [value(n, [3]) for n in ('dx', 'dw', 'dxx', 'dxw', 'dxxx')], {'w': w}))
    near(run(d, m, {'x': x}), dx=3 * x * x * w, dw=x ** 3, dxx=6 * x * w, dxw=3 * x * x, dxxx=6 * w)
    smooth = {'Tanh': lambda v: (np.tanh(v), -2 * np.tanh(v) * (1 - np.tanh(v) ** 2)), 'Exp': lambda v: (np.exp(v), np.exp(v)), 'Sin': lambda v: (np.sin(v), -np.sin(v)),
              'Cos': lambda v: (np.cos(v), -np.cos(v)), 'Sigmoid': lambda v: ((s := 1 / (1 + np.exp(-v))), s * (1 - s) * (1 - 2 * s)),
              'Softplus': lambda v: (np.log1p(np.exp(v)), (s := 1 / (1 + np.exp(-v))) * (1 - s)), 'Log': lambda v: (np.log(v), -1 / v ** 2), 'Sqrt': lambda v: (np.sqrt(v), -.25 * v ** -1.5),
              'Reciprocal': lambda v: (1 / v, 2 / v ** 3), 'Relu': lambda v: (np.maximum(v, 0), 0 * v), 'Abs': lambda v: (np.abs(v), 0 * v), 'Neg': lambda v: (-v, 0 * v)}
    for op, of in smooth.items():
        v = np.array([.3, 1.1, 2.5], f4)
        m = model(graph([node(op, ['x'], 'y'), gradient(['x'], ['dx'], ['x'], 'y'), gradient(['x'], ['dxx'], ['x'], 'dx')], [value('x', [3])], [value('y', [3]), value('dxx', [3])]))
        near(run(d, m, {'x': v}), y=of(v)[0], dxx=of(v)[1])

    # in a function, called twice
    f = helper.make_function('local', 'slope', ['p'], ['dp'], [node('Mul', ['p', 'p'], 'q'), gradient(['p'], ['dp'], ['p'], 'q')], [helper.make_opsetid('', 17), helper.make_opsetid(TRAINING, 1)])
    m = model(graph([helper.make_node('slope', ['x'], ['u'], domain='local'), helper.make_node('slope', ['u'], ['v'], domain='local')], [value('x', [3])], [value('u', [3]), value('v', [3])]), [f])
    near(run(d, m, {'x': x}), u=2 * x, v=4 * x)

    # a penalty on a gradient trains: the loss has one in it
    X, W = X[:, :3], W[:3]
    m = model(graph([node('MatMul', ['X', 'W'], 'h'), node('Tanh', ['h'], 't'), node('ReduceSum', ['t'], 's', keepdims=0),
                     gradient(['X', 'W'], ['dX'], ['X', 'W'], 's'), node('Mul', ['dX', 'dX'], 'sq'), node('ReduceSum', ['sq'], 'loss', keepdims=0)],
                    [value('X', ['n', 3])], [value('loss', [])], {'W': W}))
    onnx.save(m, f'{d}/p.onnx')
    np.savez(f'{d}/p.npz', X=X)
    call('grad', f'{d}/p.onnx', '--data', f'{d}/p.npz', '-o', f'{d}/g.npz', '--loss', 'output', '--train', 'W', '-q')

    def penalty(u):
        return (((1 - np.tanh(X @ u) ** 2) @ u.T) ** 2).sum()
    W8, numeric = W.astype('f8'), np.zeros(W.shape)
    for i in np.ndindex(W.shape):
        e = np.zeros(W.shape)
        e[i] = 1e-5
        numeric[i] = (penalty(W8 + e) - penalty(W8 - e)) / 2e-5
    got = np.load(f'{d}/g.npz')['W']
    check(np.allclose(got, numeric, rtol=1e-3, atol=1e-4), f'gradient of a penalty: {got}, not {numeric}')

    # what is no gradient
    ends = [value('x', [3])], [value('y', [3]), value('dx', [3])]
    for bad, text in ((gradient(['x'], ['dx'], ['nowhere'], 'y'), 'nowhere'), (gradient(['x'], ['dx'], ['x'], 'nowhere'), 'nowhere'), (gradient(['x', 'x'], ['dx'], ['x'], 'y'), '2 inputs'),
                      (gradient(['x'], ['dx', 'more'], ['x'], 'y'), '2 outputs'), (helper.make_node('Gradient', ['x'], ['dx'], domain=TRAINING, y='y'), "'xs'"),
                      (gradient(['x'], ['dx'], ['x'], 'dx'), "'dx'")):
        refused(d, model(graph([node('Relu', ['x'], 'y'), bad], *ends)), {'x': x}, text)
    refused(d, model(graph([node('ArgMax', ['x'], 'i'), node('Cast', ['i'], 'y', to=1), gradient(['i'], ['dx'], ['i'], 'y')], [value('x', [3])], [value('dx', [3])])), {'x': x}, 'floats')
    refused(d, model(graph([node('NonZero', ['x'], 'i'), gradient(['x'], ['dx'], ['x'], 'i')], [value('x', [3])], [value('dx', [3])])), {'x': x})
end()
