"""--normalize auto on series: each feature has a mean and deviation of its own, along the axis that the first layer takes for it.

usage: test_series.py PROGRAM
"""
import tempfile

from scripts import call, check, finish, np, onnx, onnxruntime

N, T, F = 64, 6, 3
MEANS, SCALES = np.array([1000, -5, .1]), np.array([30, 2, .01])

GRAPHS = {
    'a recurrent layer': ('x[n,6,3]', 'xt = Transpose<perm = [1,0,2]>(x) a, h, c = LSTM<hidden_size = 4>(xt, W, R) h2 = Squeeze(h, zero) y = MatMul(h2, P)',
                          dict(W=(1, 16, 3), R=(1, 16, 4), P=(4, 1)), 2),
    'a dense layer': ('x[n,6,3]', 'a = MatMul(x, W) b = Tanh(a) c = Flatten(b) y = MatMul(c, P)', dict(W=(3, 4), P=(24, 1)), 2),
    'a convolution': ('x[n,3,6]', 'a = Conv(x, W) b = Tanh(a) c = Flatten(b) y = MatMul(c, P)', dict(W=(4, 3, 3), P=(16, 1)), 1),
    'a convolution after a transpose': ('x[n,6,3]', 't = Transpose<perm = [0,2,1]>(x) a = Conv(t, W) b = Tanh(a) c = Flatten(b) y = MatMul(c, P)',
                                        dict(W=(4, 3, 3), P=(16, 1)), 2),
    'a causal convolution': ('x[n,6,3]', 't = Transpose<perm = [0,2,1]>(x) p = Pad(t, left) a = Conv(p, W) b = Tanh(a) c = Flatten(b) y = MatMul(c, P)',
                             dict(W=(4, 3, 3), P=(24, 1)), 2),
    'a dense layer after a slice': ('x[n,6,3]', 's = Slice(x, two, six, one) a = MatMul(s, W) b = Tanh(a) c = Flatten(b) y = MatMul(c, P)',
                                    dict(W=(3, 4), P=(16, 1)), 2),
}


def series(axis, seed):
    r = np.random.default_rng(seed)
    z = r.normal(size=(N, T, F))
    x = z * SCALES + MEANS
    y = z[:, -1, :1] - z[:, 0, 1:2] + .5 * z[:, 2, 2:3]
    return (x if axis == 2 else x.transpose(0, 2, 1)).astype(np.float32), y.astype(np.float32)


with tempfile.TemporaryDirectory() as d:
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[n,6,3] x) => (float[n,1] y) '
                                      f'<float[18,1] P = {{{", ".join(["0.1"] * 18)}}}> {{ c = Flatten(x) y = MatMul(c, P) }}'), f'{d}/flat.onnx')
    for what, (declared, body, weights, axis) in GRAPHS.items():
        m = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g (float[{declared[2:-1]}] x) => (float[n,1] y) '
                                    f'<int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] six = {{6}}, '
                                    f'int64[6] left = {{0, 0, 2, 0, 0, 0}}> {{ {body} }}')
        r = np.random.default_rng(1)
        for name, shape in weights.items():
            m.graph.initializer.append(onnx.numpy_helper.from_array((r.normal(size=shape) * .4).astype(np.float32), name))
        onnx.save(m, f'{d}/m.onnx')
        x, y = series(axis, 2)
        other = 1 if axis == 2 else 2
        mean, std = x.astype(np.float64).mean((0, other), keepdims=True), x.astype(np.float64).std((0, other), keepdims=True)
        scaled = ((x - mean) / std).astype(np.float32)
        np.savez(f'{d}/raw.npz', x=x, target=y)
        np.savez(f'{d}/scaled.npz', x=scaled, target=y)
        train = ['--epochs', '3', '--optimizer', 'sgd:lr=0.05', '--normalize-target', 'none', '--no-shuffle', '--threads', '1', '--run-dir', 'none']
        told = call(f'{d}/m.onnx', '--data', f'{d}/raw.npz', '--normalize', 'auto', *train, '-o', f'{d}/raw.onnx', '--log', f'{d}/raw.jsonl')
        call(f'{d}/m.onnx', '--data', f'{d}/scaled.npz', *train, '-o', f'{d}/scaled.onnx', '--log', f'{d}/scaled.jsonl')
        a, b = (onnx.numpy_helper.to_array(next(i for i in onnx.load(f'{d}/{n}.onnx').graph.initializer if i.name == 'P')) for n in ('raw', 'scaled'))
        check(np.abs(a - b).max() < 1e-4, f'{what}: weights of the scaled series are {np.abs(a - b).max():.2g} off; {told.stderr[-300:]}')

        # eval and predict scale as the training did
        x2, y2 = series(axis, 3)
        np.savez(f'{d}/new.npz', x=x2, target=y2)
        call('predict', f'{d}/raw.onnx', f'{d}/new.npz', '-o', f'{d}/p.npz')
        want = onnxruntime.InferenceSession(f'{d}/raw.onnx').run(None, {'x': ((x2 - mean) / std).astype(np.float32)})[0]
        off = np.abs(np.load(f'{d}/p.npz')['y'] - want).max()
        check(off < 1e-3, f'{what}: predictions are {off:.2g} off')
    said = call(f'{d}/flat.onnx', '--data', f'{d}/raw.npz', '--normalize', 'auto', '--steps', '1', '--run-dir', 'none', '-o', f'{d}/o.onnx').stderr
    check('all values have the same mean and deviation' in said, f'a flattened series: {said}')
finish('checks of series')
