#!/usr/bin/env python3
"""test_train.py PROGRAM: trainings with --augment. Every sample mirrored gives the bytes of a training on mirrored data, with masks too and in any
layout; evaluations are not augmented; the file depends on the seed, and is the same after a resume; what cannot be augmented is refused.
"""
import json
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, program

rng = np.random.default_rng(1)
N, H, W = 24, 10, 12
# Like the program itself: elsewhere a training is the same bytes only with the same number of threads.
COMMON = ['--epochs', '2', '--batch-size', '7', '--threads', '2', '--optimizer', 'sgd', '--lr', '0.1', '--device', os.environ.get('TEST_DEVICE', 'cpu')]


def classifier(path, shape, flat):
    """A dense layer on all pixels."""
    nodes = [h.make_node('Flatten', ['x'], ['f']), h.make_node('MatMul', ['f', 'w'], ['y'])]
    w = numpy_helper.from_array(rng.normal(0, 0.1, (flat, 3)).astype('f4'), 'w')
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', *shape])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 3])], [w])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def segmenter(path):
    """A 3 x 3 convolution to two classes for each pixel."""
    w = numpy_helper.from_array(rng.normal(0, 0.1, (2, 3, 3, 3)).astype('f4'), 'w')
    g = h.make_graph([h.make_node('Conv', ['x', 'w'], ['y'], pads=[1, 1, 1, 1])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 3, H, W])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['n', 2, H, W])], [w])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def trained(d, name, data, *options, code=0):
    out = f'{d}/{name}.onnx'
    r = call(f'{d}/m.onnx', '--data', data, '-o', out, '--run-dir', f'{d}/{name}', *COMMON, *options, code=code)
    return (read(out) if not code else b''), r.stderr


def mirrored(d, what, x, target, axis, target_axis, *extra):
    """--augment flip:p=1 is the training on mirrored data."""
    np.savez(f'{d}/a.npz', x=x, target=target)
    np.savez(f'{d}/b.npz', x=np.flip(x, axis), target=target if target_axis is None else np.flip(target, target_axis))
    plain, _ = trained(d, 'plain', f'{d}/a.npz', *extra)
    flipped, said = trained(d, 'flipped', f'{d}/a.npz', '--augment', 'flip:p=1', *extra)
    by_hand, _ = trained(d, 'by_hand', f'{d}/b.npz', *extra)
    check(flipped == by_hand, f'{what}: --augment flip:p=1 is not the training on mirrored data')
    check(flipped != plain, f'{what}: --augment flip:p=1 changes nothing')
    check('augmented: flip:p=1' in said, f'{what}: says {said}')
    return said


def events(path, kind):
    with open(path) as f:
        return [e for e in map(json.loads, f) if e['event'] == kind]


with tempfile.TemporaryDirectory() as d:
    labels = rng.integers(0, 3, N)
    for what, shape, axis in (('planes', (3, H, W), 3), ('channels last', (H, W, 3), 2), ('one plane', (1, H, W), 3)):
        classifier(f'{d}/m.onnx', shape, int(np.prod(shape)))
        x = rng.integers(0, 256, (N, *shape), dtype=np.uint8)
        mirrored(d, what, x, labels, axis, None, '--normalize', '1/255')
        mirrored(d, what + ', in order', x, labels, axis, None, '--normalize', '1/255', '--no-shuffle', '--accumulate', '2')

    segmenter(f'{d}/m.onnx')
    x = rng.integers(0, 256, (N, 3, H, W), dtype=np.uint8)
    said = mirrored(d, 'masks', x, rng.integers(0, 2, (N, H, W)), 3, 2, '--normalize', '1/255')
    check("target 'target' follows the geometry of the images of 'x'" in said, f'masks: says {said}')

    # evaluations see the samples as they are
    np.savez(f'{d}/a.npz', x=x, target=rng.integers(0, 2, (N, H, W)))
    same = ['--normalize', '1/255', '--lr', '0', '--val', f'{d}/a.npz']
    frozen, _ = trained(d, 'frozen', f'{d}/a.npz', *same, '--augment', 'invert:p=1')
    trained(d, 'still', f'{d}/a.npz', *same)
    check(frozen == read(f'{d}/m.onnx'), 'a training with learning rate 0 changes the file')
    losses = [[e['loss'] for e in events(f'{d}/{n}/log.jsonl', 'eval')] for n in ('frozen', 'still')]
    steps = [[e['loss'] for e in events(f'{d}/{n}/log.jsonl', 'step')] for n in ('frozen', 'still')]
    check(losses[0] and losses[0] == losses[1], f'evaluations are augmented: {losses}')
    check(steps[0] != steps[1], 'steps are not augmented')

    # the seed decides; so many threads, so many pictures; a run that was stopped goes on as if it had not been
    several = ['--normalize', '1/255', '--augment', 'flip', '--augment', 'crop:padding=3', '--augment', 'jitter:brightness=0.5', '--augment', 'erase']
    one, _ = trained(d, 'one', f'{d}/a.npz', *several)
    again, _ = trained(d, 'again', f'{d}/a.npz', *several)
    other, _ = trained(d, 'other', f'{d}/a.npz', *several, '--augment', 'trivial_augment')
    check(one == again, 'two trainings of one seed differ')
    check(one != other, 'one more step changes nothing')
    for steps in ('2', '5'):
        call(f'{d}/m.onnx', '--data', f'{d}/a.npz', '-o', f'{d}/cut.onnx', '--run-dir', f'{d}/cut{steps}', *COMMON, *several, '--steps', steps)
        call('resume', f'{d}/cut{steps}', '--epochs', '2', '--steps', '1000')
        check(read(f'{d}/cut.onnx') == one, f'a run resumed after {steps} steps differs from one that was not stopped')

    # what cannot be
    np.savez(f'{d}/f.npz', x=x.astype('f4'), target=rng.integers(0, 2, (N, H, W)))
    _, said = trained(d, 'floats', f'{d}/f.npz', '--augment', 'flip', code=2)
    check('--augment flip: needs images of bytes' in said, f'floats: {said}')
    _, said = trained(d, 'automatic', f'{d}/f.npz', '--augment', 'auto')
    check('nothing is augmented' in said, f'floats with auto: {said}')
    _, said = trained(d, 'unknown', f'{d}/a.npz', '--augment', 'flop', code=2)
    check("unknown augment 'flop'" in said, f'unknown: {said}')
finish('checks')
