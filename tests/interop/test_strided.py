"""1x1 convolutions with a stride: both gradients are those of the sums, for few channels too, with any number of threads.

usage: test_strided.py PROGRAM
"""
import os
import tempfile
from itertools import product

from scripts import call, check, finish, h, np, numpy_helper, onnx, T

os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
N = 12
inputs, tensors, nodes, parts, cases = {}, [], [], [], []


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# Side by side: p is a factor on the pixels, whose gradient comes from that of the convolution's input.
for C, M, size, stride in product((1, 3, 6, 7, 8, 12, 24), (4, 6, 12, 20), (5, 8, 20), (2, 3)):
    i, x = len(cases), f'x{C}_{size}'
    inputs[x] = (N, C, size, size)
    w, p = draw(M, C, 1, 1) / np.float32(np.sqrt(C)), draw(1, C, size, size)
    tensors += [numpy_helper.from_array(w, f'w{i}'), numpy_helper.from_array(p, f'p{i}')]
    nodes += [h.make_node('Mul', [x, f'p{i}'], [f'm{i}']), h.make_node('Conv', [f'm{i}', f'w{i}'], [f'y{i}'], strides=[stride] * 2),
              h.make_node('Flatten', [f'y{i}'], [f'f{i}'])]
    parts.append(f'f{i}')
    cases.append((x, w, p, stride))
nodes.append(h.make_node('Concat', parts, ['y'], axis=1))
g = h.make_graph(nodes, 'g', [h.make_tensor_value_info(x, T.FLOAT, s) for x, s in inputs.items()],
                 [h.make_tensor_value_info('y', T.FLOAT, [N, None])], tensors)
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
feeds = {x: draw(*s) for x, s in inputs.items()}
results = [np.einsum('nchw,mc->nmhw', (feeds[x] * p)[:, :, ::s, ::s], w[:, :, 0, 0]) for x, w, p, s in cases]
width = sum(y[0].size for y in results)
target = draw(N, width)
np.savez('d.npz', target=target, **feeds)
for threads in ('1', '2', '3'):
    call('grad', 'm.onnx', '--data', 'd.npz', '--loss', 'mse', '--train', 'p*', '-o', 'g.npz', '--threads', threads, '--device', 'cpu')
    with np.load('g.npz') as z:
        at = 0
        for i, ((x, w, p, s), y) in enumerate(zip(cases, results)):
            dy = (y - target[:, at:at + y[0].size].reshape(y.shape)) * (2 / target.size)
            at += y[0].size
            dw = np.einsum('nmhw,nchw->mc', dy, (feeds[x] * p)[:, :, ::s, ::s])
            dp = np.zeros(p.shape)
            dp[0, :, ::s, ::s] = np.einsum('nmhw,mc,nchw->chw', dy, w[:, :, 0, 0], feeds[x][:, :, ::s, ::s])
            for name, got, want in ('w', z[f'w{i}'][:, :, 0, 0], dw), ('p', z[f'p{i}'], dp):
                off = np.abs(got - want).max() / np.abs(want).max()
                check(off < 1e-4, f'd{name} of {w.shape} over {x}, stride {s}, {threads} threads: relative error {off:.1e}')
finish('gradients')
