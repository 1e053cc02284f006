"""QLinearConv and QLinearMatMul: every form against integer arithmetic in numpy; missing inputs are refused by name.

usage: test_qlinear.py PROGRAM
"""
import subprocess
import tempfile

from scripts import T, finish, h, np, numpy_helper, onnx, program, verdict

rng = np.random.default_rng(3)
KIND = {np.dtype(np.int8): T.INT8, np.dtype(np.uint8): T.UINT8}


def run(what, op, inputs, want, code=0, **attrs):
    """inputs: arrays, the first of them fed.  want: in steps; one step off is right only where rounding is close."""
    names = [f'i{k}' for k in range(len(inputs))]
    node = h.make_node(op, names, ['y'], name='the_node', **attrs)
    out = KIND[inputs[7].dtype] if len(inputs) > 7 else T.UINT8
    g = h.make_graph([node], 'g', [h.make_tensor_value_info('i0', KIND[inputs[0].dtype], inputs[0].shape)], [h.make_tensor_value_info('y', out, None)],
                     [numpy_helper.from_array(np.asarray(v), n) for n, v in zip(names[1:], inputs[1:])])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 21)], ir_version=10)
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, d + '/m.onnx')
        np.savez(d + '/x.npz', i0=inputs[0])
        r = subprocess.run([program, 'run', d + '/m.onnx', '--data', d + '/x.npz', '-o', d + '/y.npz'], capture_output=True, text=True, timeout=120)
        problem = None
        if r.returncode != code or (code and 'the_node' not in r.stderr):
            problem = f'exit {r.returncode}, {code} is right: {r.stderr.strip()}'
        elif not code:
            lo, hi = np.iinfo(inputs[7].dtype).min, np.iinfo(inputs[7].dtype).max
            exact = np.clip(want / inputs[6] + int(inputs[7]), lo, hi)
            got = np.load(d + '/y.npz')['y']
            if got.dtype != inputs[7].dtype or got.shape != exact.shape or np.abs(got - exact).max() > 0.501:
                problem = f'{got.dtype} {got.shape}, off by {np.abs(got - exact).max() if got.shape == exact.shape else "its shape"}'
        verdict(what, problem)


def ints(dtype, *shape):
    i = np.iinfo(dtype)
    return rng.integers(i.min, i.max, shape, dtype=dtype)


def matmul(a, sa, za, b, sb, zb):
    column = lambda v: np.asarray(v, np.float64).reshape(-1, 1) if np.ndim(v) else float(v)
    return ((a - column(za)) * column(sa)) @ ((b - np.asarray(zb, np.float64)) * sb)


def conv(x, sx, zx, w, sw, zw, bias, stride, pad, group):
    each = lambda v: np.asarray(v, np.float64).reshape(-1, 1, 1, 1) if np.ndim(v) else float(v)
    x, w = np.pad((x - float(zx)) * sx, ((0, 0), (0, 0), (pad, pad), (pad, pad))), (w - each(zw)) * each(sw)
    n, c, height, width = x.shape
    m, per, k, _ = w.shape
    y = np.zeros((n, m, (height - k) // stride + 1, (width - k) // stride + 1))
    for o in range(m):
        first = o // (m // group) * per
        for i in range(y.shape[2]):
            for j in range(y.shape[3]):
                y[:, o, i, j] = (x[:, first:first + per, i * stride:i * stride + k, j * stride:j * stride + k] * w[o]).sum((1, 2, 3))
    return y + (0 if bias is None else (bias * (np.float64(sx) * sw)).reshape(1, -1, 1, 1))


f = np.float32
for dtype in (np.uint8, np.int8):
    z = lambda v: np.array(v, dtype)
    a, b = ints(dtype, 5, 7), ints(dtype, 7, 4)
    run(f'matmul, {dtype.__name__}', 'QLinearMatMul', [a, f(.02), z(3), b, f(.01), z(5), f(.05), z(9)], matmul(a, f(.02), 3, b, f(.01), 5))
    rows, columns = rng.random(5).astype(f) / 50 + f(.001), rng.random(4).astype(f) / 50 + f(.001)
    za, zb = ints(dtype, 5), ints(dtype, 4)
    run(f'matmul by rows and columns, {dtype.__name__}', 'QLinearMatMul', [a, rows, za, b, columns, zb, f(.2), z(9)], matmul(a, rows, za, b, columns, zb))
    x, w, bias = ints(dtype, 2, 4, 6, 6), ints(dtype, 6, 2, 3, 3), rng.integers(-9000, 9000, 6, dtype=np.int32)
    per = rng.random(6).astype(f) / 100 + f(.001)
    run(f'conv, {dtype.__name__}', 'QLinearConv', [x, f(.02), z(7), w, f(.01), z(2), f(.3), z(11)], conv(x, f(.02), 7, w, f(.01), 2, None, 1, 0, 2), group=2)
    run(f'conv by filters with a bias, {dtype.__name__}', 'QLinearConv', [x, f(.02), z(7), w, per, np.zeros(6, dtype), f(.3), z(11), bias],
        conv(x, f(.02), 7, w, per, np.zeros(6), bias, 2, 1, 2), group=2, strides=[2, 2], pads=[1, 1, 1, 1])
run('matmul without its last inputs', 'QLinearMatMul', [a, f(.02), z(3), b, f(.01), z(5)], None, code=3)
run('conv without its last inputs', 'QLinearConv', [x, f(.02), z(7), w, f(.01), z(5)], None, code=3)
finish('nodes')
