"""Attention of wide heads on the emulated GPU: by a kernel that takes them, else as separate operators; the gradients of both are the CPU's.

usage: test_heads.py PROGRAM
"""
import tempfile

from scripts import T, arrays, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(3)


def model(channels):
    """One head over 5 tokens: Softmax(x Wq (x Wk)^T / sqrt(channels)) x Wv, and the mean of it."""
    w = {n: (rng.standard_normal((8, channels)) * .3).astype('f4') for n in ('q', 'k', 'v')}
    nodes = [h.make_node('MatMul', ['x', n], [f'{n}y']) for n in w]
    nodes += [h.make_node('Transpose', ['ky'], ['kt'], perm=[0, 1, 3, 2]), h.make_node('MatMul', ['qy', 'kt'], ['s']),
              h.make_node('Mul', ['s', 'scale'], ['t']), h.make_node('Softmax', ['t'], ['p'], axis=-1),
              h.make_node('MatMul', ['p', 'vy'], ['a']), h.make_node('ReduceMean', ['a', 'axes'], ['y'], keepdims=0)]
    weights = [numpy_helper.from_array(v, n) for n, v in w.items()]
    weights += [numpy_helper.from_array(np.array(channels ** -.5, 'f4'), 'scale'),
                numpy_helper.from_array(np.array([1, 2], 'i8'), 'axes')]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 1, 5, 8])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['n', channels])], weights)
    return h.make_model(g, opset_imports=[h.make_opsetid('', 18)], ir_version=9)


with tempfile.TemporaryDirectory() as d:
    for channels, fused in ((64, True), (192, True), (256, True), (400, False)):
        m = model(channels)
        feeds = {'x': rng.standard_normal((2, 1, 5, 8)).astype('f4'),
                 'target': rng.standard_normal((2, channels)).astype('f4')}
        got, want = (arrays(d, 'grad', m, feeds, '--loss', 'mse', '--device', device)[1] for device in ('cuda', 'cpu'))
        check(sorted(got) == sorted(want) and len(want) >= 3, f'{channels}: {sorted(got)}')
        for name, v in want.items():
            check(np.allclose(got.get(name), v, rtol=1e-4, atol=1e-6), f'{channels}: {name} differs')
        onnx.save(m, f'{d}/m.onnx')
        for precision in ('fp32', 'tf32'):
            said = call('plan', f'{d}/m.onnx', '--data', f'{d}/x.npz', '--loss', 'mse', '--device', 'cuda', '--precision',
                        precision).stdout
            check(('FusedAttentionDx' in said) == fused, f'{channels}, {precision}: {said}')
finish('gradients of wide heads are those of the CPU')
