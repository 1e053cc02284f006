"""Convolutions of many shapes with --precision bf16: their gradients are those of float32, but for rounding.

usage: test_bf16.py PROGRAM
"""
import os
import tempfile
from itertools import product

from scripts import call, check, finish, h, np, numpy_helper, onnx, T

os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
FILTERS = 32


def tensor(shape, scale, name):
    return numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(np.float32), name)


# One network of all of them side by side: pictures narrower than the stride, channels that are no multiple of a tile, groups, dilation.
inputs, tensors, nodes, parts, cases = {}, [], [], [], []
for channels, high, wide, kernel, stride, group, dilation in product((16, 40), (1, 4, 7), (1, 2, 3, 6), (3, 5), (1, 2, 3), (1, 2), (1, 2)):
    if high < wide or (dilation > 1 and kernel > 3):
        continue
    pad, x, w, y = dilation * (kernel // 2), f'x{channels}_{high}_{wide}', f'w{len(cases)}', f'y{len(cases)}'
    inputs[x] = (channels, high, wide)
    tensors.append(tensor((FILTERS, channels // group, kernel, kernel), (channels * kernel**2)**-0.5, w))
    nodes += [h.make_node('Conv', [x, w], [y], pads=[pad] * 4, strides=[stride] * 2, group=group, dilations=[dilation] * 2),
              h.make_node('Flatten', [y], [y + 'f'])]
    parts.append(y + 'f')
    cases.append(f'x {channels}x{high}x{wide}, kernel {kernel}, stride {stride}, group {group}, dilation {dilation}')
nodes.append(h.make_node('Concat', parts, ['y'], axis=1))
N = 2
g = h.make_graph(nodes, 'g', [h.make_tensor_value_info(x, T.FLOAT, [N, *s]) for x, s in inputs.items()],
                 [h.make_tensor_value_info('y', T.FLOAT, [N, None])], tensors)
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
feeds = {x: rng.standard_normal((N, *s)).astype(np.float32) for x, s in inputs.items()}
np.savez('x.npz', **feeds)
call('run', 'm.onnx', '--data', 'x.npz', '-o', 'y.npz')
target = np.load('y.npz')['y'] + rng.standard_normal(np.load('y.npz')['y'].shape).astype(np.float32)
np.savez('d.npz', target=target, **feeds)
found = {}
for precision in ('fp32', 'bf16'):
    for threads in ('1', '2'):
        call('grad', 'm.onnx', '--data', 'd.npz', '--loss', 'mse', '-o', 'g.npz', '--precision', precision, '--threads', threads, '--device', 'cpu')
        with np.load('g.npz') as z:
            found[precision, threads] = {k: z[k] for k in z}
for i, what in enumerate(cases):
    f32 = found['fp32', '1'][f'w{i}']
    for threads in ('1', '2'):
        off = np.abs(found['bf16', threads][f'w{i}'] - f32).max()
        check(off <= 0.03 * np.abs(f32).max(), f'{what}, {threads} threads: off by {off:.2g} of {np.abs(f32).max():.2g}')
finish('checks')
