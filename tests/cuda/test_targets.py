"""Targets that lie over images, on the emulated GPU: an input as it is fed, channels last, half the size; the losses are the CPU's.

usage: test_targets.py PROGRAM
"""
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(5)
N = 24


def model(path, last, half):
    """A convolution that a flip changes; channels last, or pooled to half the size."""
    shape = [8, 8, 3] if last else [3, 8, 8]
    nodes = [h.make_node('Transpose', ['x'], ['t'], perm=[0, 3, 1, 2])] if last else []
    nodes += [h.make_node('Conv', ['t' if last else 'x', 'w'], ['c' if last or half else 'y'], pads=[1] * 4)]
    nodes += [h.make_node('Transpose', ['c'], ['y'], perm=[0, 2, 3, 1])] if last else []
    nodes += [h.make_node('AveragePool', ['c'], ['y'], kernel_shape=[2, 2], strides=[2, 2])] if half else []
    w = numpy_helper.from_array((rng.standard_normal((3, 3, 3, 3)) * .3).astype('f4'), 'w')
    ends = [h.make_tensor_value_info(name, T.FLOAT, ['n', *s]) for name, s in (('x', shape), ('y', [3, 4, 4] if half else shape))]
    onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], [w]), opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def losses(d, device, *options):
    call('train', f'{d}/m.onnx', '--data', f'{d}/d.npz', *options, '--loss', 'mse', '--optimizer', 'sgd:lr=0.01', '--steps', '6', '--batch-size', '8', '--precision',
         'fp32', '--run-dir', 'none', '-o', f'{d}/o.onnx', '--log', f'{d}/l.jsonl', '--device', device)
    with open(f'{d}/l.jsonl') as f:
        return [e['loss'] for e in map(json.loads, f) if e['event'] == 'step']


with tempfile.TemporaryDirectory() as d:
    for last in (False, True):
        images = rng.integers(0, 256, (N, 8, 8, 3) if last else (N, 3, 8, 8)).astype('u1')
        for target in ('input', 'array', 'half'):
            if last and target == 'half':
                continue
            model(f'{d}/m.onnx', last, target == 'half')
            own = {} if target == 'input' else {'target': rng.random((N, 3, 4, 4) if target == 'half' else images.shape).astype('f4')}
            np.savez(f'{d}/d.npz', x=images, **own)
            seen = []
            for augment in ([], ['--augment', 'flip'], ['--augment', 'flip,jitter:brightness=0.5']):
                options = ['--normalize', '1/255', *(['--target', 'x'] if target == 'input' else []), *augment]
                got, want = (losses(d, device, *options) for device in ('cuda', 'cpu'))
                check(len(want) == 6 and np.allclose(got, want, rtol=1e-5), f'{images.shape}, {target}, {augment}: {got}, on the CPU {want}')
                seen.append(want)
            check(seen[0] != seen[1] != seen[2], f'{images.shape}, {target}: augmentation changes nothing')
finish('checks')
