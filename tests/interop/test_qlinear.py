"""QLinearConv and QLinearMatMul: every form against integer arithmetic in numpy; missing inputs are refused by name.  Quantised operators of
com.microsoft against ONNX Runtime.

usage: test_qlinear.py PROGRAM
"""
import json
import subprocess
import tempfile

import onnxruntime
from scripts import T, arrays, call, finish, h, np, numpy_helper, onnx, program, verdict

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


def as_runtime(what, op, inputs, tolerance=1, outputs=1, trains=(), domain='com.microsoft', **attrs):
    """Values as ONNX Runtime's.  inputs: arrays by name, the first of them fed, None: left out; trains: what of them does.  tolerance: 1 step for integers, whose halves are rounded otherwise."""
    names = [k if v is not None else '' for k, v in inputs.items()]
    fed, outs = names[0], [f'y{i}' for i in range(outputs)]
    g = h.make_graph([h.make_node(op, names, outs, name='the_node', domain=domain, **attrs)], 'g', [h.make_tensor_value_info(fed, h.np_dtype_to_tensor_dtype(inputs[fed].dtype), inputs[fed].shape)],
                     [h.make_tensor_value_info(o, 0, None) for o in outs], [numpy_helper.from_array(np.asarray(v), k) for k, v in inputs.items() if v is not None and k != fed])
    for o in g.output:
        o.ClearField('type')
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('com.microsoft', 1)], ir_version=10)
    want = onnxruntime.InferenceSession(m.SerializeToString(), providers=['CPUExecutionProvider']).run(None, {fed: inputs[fed]})
    with tempfile.TemporaryDirectory() as d:
        r, got = arrays(d, 'run', m, {fed: inputs[fed]})
        listed = json.loads(call('inspect', d + '/m.onnx', '--json').stdout)['initializers'] if trains else []
    problem = r.stderr.strip() if r.returncode else None
    if set(trains) != {t['name'] for t in listed if t['role'] == 'trains'}:
        problem = f'what trains: {listed}'
    for o, w in zip(outs, want):
        if not problem and (got[o].shape != w.shape or got[o].dtype != w.dtype or np.abs(got[o].astype(np.float64) - w).max() > tolerance or np.ptp(w) <= tolerance):
            problem = f'{got[o].dtype} {got[o].shape}, off by {np.abs(got[o].astype(np.float64) - w).max() if got[o].shape == w.shape else "its shape"}'
    verdict(what, problem)


# ONNX Runtime rounds inputs and states to 8 bits.  Where the processor adds products of 8 bits in 16, it saturates for weights of 8 bits with a sign: these have 7.
for dtype, low, high, middle in (np.uint8, 0, 256, 131), (np.int8, -64, 64, 0):
    for two in False, True:
        for columns in False, True:
            I, H, D = 6, 8, 1 + two
            scale = lambda: (rng.random((D, 4 * H) if columns else D) / 500 + 0.001).astype(f)
            zero = np.full((D, 4 * H) if columns else D, middle, dtype)
            w, r = (rng.integers(low, high, (D, rows, 4 * H)).astype(dtype) for rows in (I, H))
            b, start = rng.standard_normal((D, 8 * H)).astype(f) / 10, rng.standard_normal((D, 3, H)).astype(f) / 10
            as_runtime(f'LSTM, {dtype.__name__}, {D} directions{", scales of columns" * columns}', 'DynamicQuantizeLSTM',
                       dict(x=rng.standard_normal((5, 3, I)).astype(f), w=w, r=r, b=b, lens=None, h=start, c=0 * start, p=None, ws=scale(), wz=zero, rs=scale(), rz=zero), 0.02, 3, 'wrbh',
                       hidden_size=H, direction='bidirectional' if two else 'forward')
x, w, bias = ints(np.uint8, 2, 6, 6, 4), rng.integers(-64, 64, (6, 4, 3, 3)).astype(np.int8), rng.integers(-9000, 9000, 6, dtype=np.int32)
scaled = lambda name, s, zero: {name + 's': f(s), name + 'z': np.uint8(zero)}
as_runtime('conv with channels last', 'QLinearConv', dict(x=x, **scaled('x', .02, 7), w=w, ws=per, wz=np.zeros(6, np.int8), **scaled('y', .05, 128), b=bias), channels_last=1, strides=[2, 2], pads=[1, 1, 1, 1])
as_runtime('largest elements with channels last', 'NhwcMaxPool', dict(x=x), kernel_shape=[2, 2], strides=[2, 2])
for last in 0, 1:
    as_runtime(f'means, channels_last {last}', 'QLinearAveragePool', dict(x=x, **scaled('x', .02, 7), **scaled('y', .01, 9)), channels_last=last, kernel_shape=[2, 2])
    as_runtime(f'means of all, channels_last {last}', 'QLinearGlobalAveragePool', dict(x=x, **scaled('x', .02, 7), **scaled('y', .02, 9)), channels_last=last)
as_runtime('selection', 'QLinearWhere', dict(c=rng.random((2, 6, 6, 4)) > 0.5, x=x, **scaled('x', .02, 7), v=ints(np.uint8, 4), **scaled('v', .03, 9), **scaled('y', .04, 5)))
finish('nodes')
