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


def pool(path, shape, height, by, size=None):
    """The means of squares of by x by pixels, times a weight of 1; of the size given, without their values."""
    out = [n // by if n in (H, W) else n for n in shape]
    split = [0] + [k for i, n in enumerate(shape) for k in ([n // by, by] if i in (height, height + 1) else [n])]
    c = h.make_node('Reshape', ['x', 'split'], ['s'])
    m = h.make_node('ReduceMean', ['s'], ['m'], axes=[height + 2, height + 4], keepdims=0)
    tensors = [numpy_helper.from_array(np.array(split), 'split'), numpy_helper.from_array(np.ones(1, 'f4'), 'w')]
    nodes = [c, m, h.make_node('Mul', ['m', 'w'], ['y' if not size else 'all'])]
    if size:
        out[height:height + 2] = size
        tensors += [numpy_helper.from_array(np.array(v), n) for n, v in (('from', [0, 0]), ('to', size), ('axes', [height + 1, height + 2]))]
        nodes.append(h.make_node('Slice', ['all', 'from', 'to', 'axes'], ['y']))
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', *shape])], [h.make_tensor_value_info('y', T.FLOAT, ['n', *out])], tensors)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def weights(model):
    return [(t.name, t.raw_data) for t in onnx.load_from_string(model).graph.initializer]


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

    # few rows, which may be channels by the shape alone: the order of axes in which the images are fed decides
    classifier(f'{d}/m.onnx', (3, 4, 16), 3 * 4 * 16)
    x = rng.integers(0, 256, (N, 3, 4, 16), dtype=np.uint8)
    np.savez(f'{d}/p.npz', x=x, target=labels)
    np.savez(f'{d}/l.npz', x=np.moveaxis(x, 1, 3), target=labels)
    for how in ('none', 'flip:p=1', 'vertical_flip:p=1', 'noise:std=0.1'):
        planes, last = (trained(d, 'rows', f'{d}/{n}.npz', '--augment', how)[0] for n in 'pl')
        moved, _ = trained(d, 'rows', f'{d}/l.npz', '--augment', how, '--permute', 'x=0,3,1,2')
        check(weights(planes) == weights(last) == weights(moved), f'four rows, {how}: other weights with channels last')

    segmenter(f'{d}/m.onnx')
    x = rng.integers(0, 256, (N, 3, H, W), dtype=np.uint8)
    said = mirrored(d, 'masks', x, rng.integers(0, 2, (N, H, W)), 3, 2, '--normalize', '1/255')
    check("target 'target' follows the geometry of the images of 'x'" in said, f'masks: says {said}')

    # values in other layouts, and for squares of pixels, follow; the model is the identity, so that the right loss is 0
    still = ['--normalize', '1/255', '--lr', '0', '--loss', 'mse']
    for what, shape, by in (('planes', (3, H, W), 1), ('channels last', (H, W, 3), 1), ('squares', (3, H, W), 2), ('squares, channels last', (H, W, 3), 2)):
        height = shape.index(H)
        pool(f'{d}/m.onnx', shape, height, by)
        x = rng.integers(0, 256, (N, *(n // by if n in (H, W) else n for n in shape)), dtype=np.uint8)
        np.savez(f'{d}/a.npz', x=x.repeat(by, height + 1).repeat(by, height + 2), target=(x / np.float32(255)).astype('f4'))
        for how in ('flip:p=1', 'flip,vertical_flip') + (('crop:padding=3', 'rotate:degrees=40') if by == 1 else ()):
            _, said = trained(d, 'follows', f'{d}/a.npz', '--augment', how, *still)
            losses = [e['loss'] for e in events(f'{d}/follows/log.jsonl', 'step')]
            check(max(losses) < 1e-12 and 'follows the geometry' in said, f'{what}, {how}: losses {losses}, says {said}')

    # an autoencoder: the target is the input as it is fed, and moves with it; what changes values is of the input alone
    for what, shape in (('planes', (3, H, W)), ('channels last', (H, W, 3))):
        pool(f'{d}/m.onnx', shape, shape.index(H), 1)
        x = rng.integers(0, 256, (N, *shape), dtype=np.uint8)
        np.savez(f'{d}/a.npz', x=x)
        for how in ('none', 'flip', 'rotate:degrees=40,interpolation=bilinear', 'resized_crop', 'mixup', 'erase:p=1', 'rand_augment:magnitude=15', 'jitter:brightness=0.5'):
            _, said = trained(d, 'itself', f'{d}/a.npz', '--target', 'x', '--augment', how, *still, '--val', f'{d}/a.npz')
            losses = [e['loss'] for e in events(f'{d}/itself/log.jsonl', 'step')]
            after = [e['loss'] for e in events(f'{d}/itself/log.jsonl', 'eval')]
            check("input 'x' as it is fed" in said and max(after) < 1e-12, f'itself, {what}, {how}: losses {after}, says {said}')
            check((max(losses) > 1e-3) == (how.split(':')[0] in ('erase', 'rand_augment', 'jitter')), f'itself, {what}, {how}: losses {losses}')
        r = call('eval', f'{d}/m.onnx', '--data', f'{d}/a.npz', '--target', 'x', '--normalize', 'imagenet', '--loss', 'mse')
        check('loss      0\n' in r.stdout, f'itself, {what}: eval says {r.stdout}')

    # a loss of shares needs bytes from 0 to 1
    for how, code in (('1/255', 0), ('none', 4), ('imagenet', 4)):
        _, said = trained(d, 'shares', f'{d}/a.npz', '--target', 'x', '--loss', 'bce_with_logits', '--normalize', how, code=code)
        check(not code or 'from 0 to 1' in said, f'itself, bce, --normalize {how}: {said}')

    # a target that cannot follow is refused, unless no pixel moves
    pool(f'{d}/m.onnx', (3, H, W), 1, 1, (4, 5))
    np.savez(f'{d}/a.npz', x=rng.integers(0, 256, (N, 3, H, W), dtype=np.uint8), target=np.zeros((N, 3, 4, 5), 'f4'))
    _, said = trained(d, 'behind', f'{d}/a.npz', '--augment', 'flip', *still, code=2)
    check("target 'target' of shape [24,3,4,5] cannot follow" in said, f'a target of another size: {said}')
    trained(d, 'behind', f'{d}/a.npz', '--augment', 'jitter:brightness=0.5', *still)
    segmenter(f'{d}/m.onnx')
    x = rng.integers(0, 256, (N, 3, H, W), dtype=np.uint8)

    # evaluations see the samples as they are
    np.savez(f'{d}/a.npz', x=x, target=rng.integers(0, 2, (N, H, W)))
    same = ['--normalize', '1/255', '--lr', '0', '--val', f'{d}/a.npz']
    frozen, _ = trained(d, 'frozen', f'{d}/a.npz', *same, '--augment', 'invert:p=1')
    trained(d, 'still', f'{d}/a.npz', *same)
    check(weights(frozen) == weights(read(f'{d}/m.onnx')), 'a training with learning rate 0 changes the weights')
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

    # mixup, cutmix: images of 0 and of 1; their mean says how they were mixed, and the targets must be mixed by the same parts
    w = np.array([[1.5, -2.0]], 'f4')
    nodes = [h.make_node('ReduceMean', ['x'], ['m'], axes=[1, 2, 3], keepdims=0), h.make_node('Reshape', ['m', 'column'], ['c']),
             h.make_node('MatMul', ['c', 'w'], ['y1']), h.make_node('Mul', ['c', 'one'], ['y2'])]
    tensors = [numpy_helper.from_array(w, 'w'), numpy_helper.from_array(np.ones((1, 1), 'f4'), 'one'), numpy_helper.from_array(np.array([-1, 1]), 'column')]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 1, H, W])],
                     [h.make_tensor_value_info('y1', T.FLOAT, ['n', 2]), h.make_tensor_value_info('y2', T.FLOAT, ['n', 1])], tensors)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/m.onnx')
    for dtype, scale, names in (('u1', ['--normalize', '1/255'], ('mixup', 'cutmix', 'both')), ('f4', [], ('mixup',))):
        images = np.zeros((2, 1, H, W), dtype)
        images[1] = 255 if dtype == 'u1' else 1
        np.savez(f'{d}/mix.npz', x=images, target_y1=np.array([0, 1]), target_y2=np.zeros((2, 1), 'f4'))
        for name in names:
            how = sum([['--augment', f'{n}:alpha=0.8'] for n in ('mixup', 'cutmix') if name in (n, 'both')], [])
            call(f'{d}/m.onnx', '--data', f'{d}/mix.npz', '-o', f'{d}/mixed.onnx', '--run-dir', f'{d}/{name}{dtype}', *scale, *how, '--lr', '0', '--batch-size', '2',
                 '--steps', '40', '--threads', '2', '--optimizer', 'sgd', '--no-shuffle', '--device', os.environ.get('TEST_DEVICE', 'cpu'))
            parts = []
            for e in events(f'{d}/{name}{dtype}/log.jsonl', 'step'):
                a = (1 + np.sqrt(max(0, 4 * e['losses']['y2'] - 1))) / 2  # (a^2 + (1 - a)^2) / 2 is the mean square of the means
                z = np.array([[a], [1 - a]]) * w
                p = np.array([[1 - a, a], [a, 1 - a]])  # the part of class 1 is the mean
                expected = -(p * (z - np.log(np.exp(z).sum(1, keepdims=True)))).sum() / 2
                parts.append(a)
                check(abs(e['losses']['y1'] - expected) < 4e-3, f"{name}, {dtype}: loss {e['losses']['y1']}, expected {expected} for {a}")
            check(len(parts) == 40 and min(parts) < 0.7 and max(parts) > 0.9, f'{name}, {dtype}: parts {parts}')

    # noise: the mean square of what is added
    np.savez(f'{d}/noise.npz', x=np.zeros((200, 1, H, W), 'f4'), target_y1=np.arange(200) % 2, target_y2=np.zeros((200, 1), 'f4'))
    call(f'{d}/m.onnx', '--data', f'{d}/noise.npz', '-o', f'{d}/n.onnx', '--run-dir', f'{d}/noise', '--augment', 'noise:std=2', '--lr', '0', '--batch-size', '200', '--epochs', '3')
    squares = [e['losses']['y2'] * H * W for e in events(f'{d}/noise/log.jsonl', 'step')]
    check(all(abs(s - 4) < 1.6 for s in squares) and len(set(squares)) == 3, f'noise of 2: variances {squares}')
    # of images the mean of many, which are clipped at neither end: a variance of 0.04
    np.savez(f'{d}/grey.npz', x=np.full((200, 1, H, W), 128, 'u1'), target_y1=np.arange(200) % 2, target_y2=np.full((200, 1), 128 / 255, 'f4'))
    call(f'{d}/m.onnx', '--data', f'{d}/grey.npz', '-o', f'{d}/n.onnx', '--run-dir', f'{d}/grey', '--augment', 'noise:std=0.2', '--normalize', '1/255', '--lr', '0', '--batch-size', '200', '--epochs', '3')
    squares = [e['losses']['y2'] * H * W for e in events(f'{d}/grey/log.jsonl', 'step')]
    check(all(abs(s - 0.04) < 0.016 for s in squares) and len(set(squares)) == 3, f'noise of 0.2 on images: variances {squares}')
    _, said = trained(d, 'cut', f'{d}/noise.npz', '--augment', 'cutmix', code=2)
    check('cutmix is for images' in said, f'cutmix of floats: {said}')
    segmenter(f'{d}/m.onnx')
    _, said = trained(d, 'pixels', f'{d}/a.npz', '--augment', 'mixup', code=2)
    check('has values for each pixel' in said, f'mixup of masks: {said}')

    # several values may be places in the image, which do not follow it: that is said; classes, labels and shares cannot be
    for values, options, warned in ((rng.random((N, 3)), ['flip'], True), (rng.random((N, 3)), ['crop'], True), (rng.random((N, 3)), ['jitter:brightness=0.2'], False),
                                    (rng.integers(0, 2, (N, 3)), ['flip'], False), (np.eye(3)[rng.integers(0, 3, N)], ['flip'], False)):
        np.savez(f'{d}/v.npz', x=x, target=values.astype('f4') if values.dtype != np.int64 else values)
        classifier(f'{d}/m.onnx', [3, H, W], 3 * H * W)
        _, said = trained(d, 'values', f'{d}/v.npz', '--augment', *options, '--loss', 'mse', '--lr', '0')
        check(('moves the pixels of an image, but not the values of target' in said) == warned, f'{options}: {said}')

    # what cannot be
    segmenter(f'{d}/m.onnx')
    np.savez(f'{d}/f.npz', x=x.astype('f4'), target=rng.integers(0, 2, (N, H, W)))
    _, said = trained(d, 'floats', f'{d}/f.npz', '--augment', 'flip', code=2)
    check('--augment flip: needs images of bytes' in said, f'floats: {said}')
    _, said = trained(d, 'automatic', f'{d}/f.npz', '--augment', 'auto')
    check('nothing is augmented' in said, f'floats with auto: {said}')
    _, said = trained(d, 'unknown', f'{d}/a.npz', '--augment', 'flop', code=2)
    check("unknown augment 'flop'" in said, f'unknown: {said}')
    # the contact sheet
    call('data', f'{d}/a.npz', '--augment', 'auto', '--preview', f'{d}/p.png')
    check(read(f'{d}/p.png')[:8] == b'\x89PNG\r\n\x1a\n', 'a preview is no PNG')
    np.savez(f'{d}/s.npz', x=rng.integers(0, 256, (N, 3, H, W), dtype=np.uint8), target=rng.integers(0, 2, (N, H, W)))
    said = call('data', f'{d}/s.npz', '--augment', 'flip', '--preview', f'{d}/p.png').stdout
    check("flip\ntarget 'target' follows the geometry" in said, f'notes of a preview: {said}')
    for arguments, code, says in (((f'{d}/a.npz', '--augment', 'auto'), 2, 'needs --preview'), ((f'{d}/f.npz', '--preview', f'{d}/q.png'), 2, 'has no images'),
                                  ((f'{d}/a.npz', '--preview', f'{d}/a.npz'), 2, 'a.npz'),
                                  ((f'{d}/a.npz', '--preview', f'{d}/p.jpg'), 2, 'must end in .png'), ((f'{d}/none.npz',), 7, 'none.npz')):
        check(says in call('data', *arguments, code=code).stderr, f'data {arguments}: does not say {says}')
    check('[24,3,10,12]' in call('data', f'{d}/a.npz').stdout, 'data does not list the arrays')
finish('checks')
