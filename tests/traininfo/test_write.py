"""--training-info: what was trained is in the file, valid, and a run goes on from it alone, bit for bit.

usage: test_write.py PROGRAM
"""
import re
import tempfile

from models import *

rng = np.random.default_rng(2)
WEIGHTS = {'a.weight': rng.standard_normal((5, 8)) / 2, 'a.bias': np.zeros(8), 'b.weight': rng.standard_normal((8, 3)) / 2, 'b.bias': np.zeros(3)}
X = rng.standard_normal((48, 5)).astype('f4')


def network(d, name, end=None, batch='n'):
    """Two layers, and what they end in."""
    nodes = [node('Gemm', ['x', 'a.weight', 'a.bias'], 'h'), node('Relu', ['h'], 'r'), node('Gemm', ['r', 'b.weight', 'b.bias'], 'y' if not end else 'z')]
    if end:
        nodes.append(node(end, ['z'], 'y'))
    onnx.save(model(graph(nodes, [value('x', [batch, 5])], [value('y', [batch, 3])], {k: v.astype('f4') for k, v in WEIGHTS.items()})), f'{d}/{name}.onnx')


def combined(m):
    """The graph that a training step is, by onnx.proto: the file's and the algorithm's behind it."""
    a, g = m.training_info[0].algorithm, onnx.GraphProto()
    g.CopyFrom(m.graph)
    for field in ('node', 'initializer', 'input', 'output'):
        getattr(g, field).extend(getattr(a, field))
    c = onnx.ModelProto()
    c.CopyFrom(m)
    del c.training_info[:]
    c.graph.CopyFrom(g)
    return c


def goes_on(d, name, data, *options, exact=True):
    """12 updates in one go are 6 and 6 more from the file; and what a training without the option does."""
    whole, losses, _ = train(d, name, data, *options, '--steps', '12', '--training-info', out='whole')
    train(d, name, data, *options, '--steps', '6', '--training-info', out='half')
    rest, after, said = train(d, 'half', data, '--steps', '6', out='rest') # the size of its batches it has from the file
    what = f'{name} {" ".join(options)}'
    check(after == losses[6:] and whole.keys() == rest.keys() and all(np.array_equal(whole[k], rest[k]) for k in whole), f'{what}: 6 and 6 updates are not 12')
    check(open(f'{d}/whole.onnx', 'rb').read() == open(f'{d}/rest.onnx', 'rb').read(), f'{what}: the files differ')
    check("training uses the algorithm in the file (TrainingInfoProto)" in said, said)
    plain, others, _ = train(d, name, data, *options, '--steps', '12', out='plain')
    check(np.allclose(others, losses, rtol=1e-5, atol=1e-6), f'{what}: losses {losses}, without the option {others}')
    same = all(np.array_equal(plain[k], whole[k]) if exact else np.allclose(plain[k], whole[k], atol=1e-5) for k in WEIGHTS)
    check(same and not np.array_equal(plain['a.weight'], WEIGHTS['a.weight'].astype('f4')), f'{what}: other weights than without the option')
    m = onnx.load(f'{d}/whole.onnx')
    onnx.checker.check_model(m)
    onnx.checker.check_model(combined(m))
    outputs = {o.name for o in m.training_info[0].algorithm.output} | {o.name for o in m.graph.output}
    keys = {i.name for i in m.graph.initializer} | {i.name for i in m.training_info[0].algorithm.initializer}
    check(all(b.key in keys and b.value in outputs for b in m.training_info[0].update_binding), f'{what}: bindings')
    return m


with tempfile.TemporaryDirectory() as d:
    np.savez(f'{d}/classes.npz', x=X, target=rng.integers(0, 3, 48))
    np.savez(f'{d}/values.npz', x=X, target=np.tanh(X[:, :3]).astype('f4'))
    np.savez(f'{d}/shares.npz', x=X, target=(lambda e: e / e.sum(1, keepdims=True))(rng.random((48, 3))).astype('f4'))
    network(d, 'net')
    network(d, 'probabilities', 'Sigmoid')
    network(d, 'logs', 'LogSoftmax')
    optimizers = ('sgd:lr=0.05', 'sgd:lr=0.05,momentum=0.9,dampening=0.1', 'sgd:lr=0.05,momentum=0.9,nesterov=true,weight_decay=0.1', 'adam', 'adam:amsgrad=true', 'adamw:lr=0.01', 'adagrad:lr_decay=0.1', 'adadelta',
              'rmsprop:centered=true,momentum=0.5', 'adamax', 'nadam', 'radam', 'lion', 'lamb', 'lars')
    for o in optimizers:
        goes_on(d, 'net', 'classes', '--optimizer', o)
    for o in (['--clip-norm', '0.5'], ['--clip-value', '0.05'], ['--lr-scale', 'a.*=0.1'], ['--no-decay', 'biases', '--weight-decay', '0.1']):
        goes_on(d, 'net', 'classes', *o)
    of_losses = (('net', 'values', 'mse'), ('net', 'values', 'l1'), ('net', 'values', 'smooth_l1'), ('net', 'values', 'huber:delta=0.3'), ('net', 'shares', 'bce_with_logits'),
                             ('probabilities', 'shares', 'bce:tail=none'), ('probabilities', 'shares', 'bce'), ('net', 'classes', 'cross_entropy:class_weights=[1,2,3]'), ('net', 'classes', 'cross_entropy:ignore_index=1'),
                             ('net', 'classes', 'cross_entropy:label_smoothing=0.1'), ('net', 'classes', 'cross_entropy:reduction=sum'), ('logs', 'classes', 'nll'), ('logs', 'shares', 'kl'),
                             ('net', 'classes', 'hinge'), ('net', 'classes', 'focal'), ('net', 'values', 'poisson_nll'), ('net', 'values', 'cosine'))
    for name, data, loss in of_losses:
        goes_on(d, name, data, '--loss', loss, exact=False)
    # another batch than the one that it was written with; the last of an epoch is short; a batch that the file has baked in
    goes_on(d, 'net', 'classes', '--batch-size', '24')
    call('train', f'{d}/net.onnx', '--data', f'{d}/classes.npz', '--batch-size', '20', '--epochs', '2', '--run-dir', 'none', '-o', f'{d}/t.onnx', '--training-info', '-q')
    train(d, 'net', 'classes', '--steps', '6', '--batch-size', '8', '--training-info', out='small')
    said = train(d, 'small', 'classes', '--steps', '1', out='t')[2]
    check('batch size 8, as in the training algorithm of the file' in said and said.count('batch size 8, as') == 1, said)
    sizes = [p.value for p in onnx.load(f'{d}/small.onnx').metadata_props if p.key == 'onnxtrain.training.batch_size']
    check(sizes == ['8'], f'batch sizes in the file: {sizes}')
    for text in '', '0', '-3', '8 ', '1e3', '9' * 30: # nonsense is passed over
        m = onnx.load(f'{d}/small.onnx')
        m.metadata_props[0].value = text
        onnx.save(m, f'{d}/odd.onnx')
        check('as the training in the file' not in train(d, 'odd', 'classes', '--steps', '1', out='t')[2], text)
    got, losses, _ = train(d, 'small', 'classes', '--steps', '3', '--batch-size', '24')
    once, _, _ = train(d, 'net', 'classes', '--steps', '6', '--batch-size', '8', out='plain')
    x, y = X[:24], np.load(f'{d}/classes.npz')['target'][:24]
    z = np.maximum(x @ once['a.weight'] + once['a.bias'], 0) @ once['b.weight'] + once['b.bias']
    check(np.isclose(losses[0], np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(24), y]), rtol=1e-5), 'the mean over another batch')
    network(d, 'baked', batch=16)
    goes_on(d, 'baked', 'classes', '--batch-size', '16')
    for size in 1, 3:
        network(d, 'baked', batch=size)
        said = train(d, 'baked', 'classes', '--steps', '2', '--training-info', out='first')[2]
        check(f'batch size {size}: the fixed batch size of the model' in said, said)
        said = train(d, 'first', 'classes', '--steps', '2', out='second')[2]
        check(f'batch size {size}: the fixed batch size of the model' in said, said)
        for other in 4, 6:
            said = train(d, 'baked', 'classes', '--batch-size', str(other), '--steps', '2', '--training-info', code=3)[2]
            check(f'--batch-size is {other}: use --batch-size {size}' in said, said)
            said = train(d, 'first', 'classes', '--batch-size', str(other), '--steps', '2', code=3)[2]
            check(f'--batch-size {size}, or --optimizer' in said, said)
    network(d, 'baked', batch=16)
    # it takes the place of one that is there
    train(d, 'net', 'classes', '--steps', '1', '--training-info', out='first')
    train(d, 'first', 'classes', '--steps', '1', '--optimizer', 'sgd', '--training-info', out='second')
    m = onnx.load(f'{d}/second.onnx')
    check(len(m.training_info) == 1 and not any('_m_' in i.name for i in m.training_info[0].algorithm.initializer), 'the first training is still there')
    onnx.checker.check_model(m)
    check(sum(o.domain == TRAINING for o in m.opset_import) == 1, 'the domain is there once')
    # inference is what it was, here and elsewhere
    a, b = onnx.load(f'{d}/whole.onnx'), onnx.load(f'{d}/baked.onnx')
    check(a.graph.node == b.graph.node and a.graph.input == b.graph.input and a.graph.output == b.graph.output, 'the graph has changed')
    want = dict(np.load(f'{d}/y.npz')) if call('run', f'{d}/whole.onnx', '--data', f'{d}/classes.npz', '-o', f'{d}/y.npz', '-q').returncode == 0 else {}
    try:
        import onnxruntime
        got = onnxruntime.InferenceSession(f'{d}/whole.onnx', providers=['CPUExecutionProvider']).run(None, {'x': X[:16]})[0]
        check(np.allclose(got, want['y'][:16], atol=1e-5), 'ONNX Runtime')
    except ImportError:
        print('no onnxruntime: its answer is not compared')
    try:
        import cv2
        net = cv2.dnn.readNetFromONNX(f'{d}/whole.onnx')
        net.setInput(X[:16])
        check(np.allclose(net.forward(), want['y'][:16], atol=1e-5), 'OpenCV')
    except ImportError:
        print('no OpenCV: its answer is not compared')
    # what cannot be written
    for option in (['--schedule', 'cosine'], ['--accumulate', '2'], ['--precision', 'bf16'], ['--on-nonfinite', 'skip'], ['--add-dropout', '0.1'],
                   ['--bn', 'frozen'], ['--bn-variance', 'unbiased'], ['--dropout', 'off'], ['--dropout', '0.2']):
        said = train(d, 'net', 'classes', '--steps', '1', '--training-info', *option, code=2)[2]
        check('--training-info' in said and option[0].split('-')[-1] in said and "or train without --training-info and continue with 'onnxtrain resume RUN'" in said, said)
    train(d, 'net', 'classes', '--steps', '1', '--training-info', '--bn', 'auto', '--dropout', 'file')  # the defaults
    linear = helper.make_node('LinearRegressor', ['x'], ['y'], name='fc', domain='ai.onnx.ml', coefficients=[0.1] * 15, intercepts=[0.0] * 3, targets=3)
    m = model(graph([linear], [value('x', ['n', 5])], [value('y', ['n', 3])]))
    m.opset_import.append(helper.make_opsetid('ai.onnx.ml', 3))
    onnx.save(m, f'{d}/attributes.onnx')
    said = train(d, 'attributes', 'values', '--steps', '1', '--training-info', code=3)[2]
    check("'fc/coefficients' is a node attribute" in said, said)
    integers = {'one': np.float32(0.1), 'zero': np.int8(0), 'first': rng.integers(-9, 9, (5, 3)).astype(np.int8), 'second': rng.integers(-9, 9, (3, 3)).astype(np.int8)}
    onnx.save(model(graph([node('DequantizeLinear', ['first', 'one', 'zero'], 'a'), node('DequantizeLinear', ['second', 'one', 'zero'], 'b'), node('MatMul', ['x', 'a'], 'h'),
                           node('MatMul', ['h', 'b'], 'y')], [value('x', ['n', 5])], [value('y', ['n', 3])], integers)), f'{d}/integers.onnx')
    said = train(d, 'integers', 'values', '--steps', '1', '--training-info', code=3)[2]
    check("2 weights are quantised (first: 'first')" in said and said.count('quantised') == 1, said)
    check('is not supported' in train(d, 'net', 'shares', '--steps', '1', '--training-info', '--loss', 'cross_entropy', code=3)[2], 'probabilities as targets')
    said = train(d, 'net', 'classes', '--steps', '1', '--training-info', '--optimizer', 'muon', '--freeze', '*bias', code=3)[2]
    check('is not supported; use another loss or optimizer' in said and "continue with 'onnxtrain resume RUN'" in said, said)
    # every optimizer and loss is tried above, or needs other data
    known = {w for kind in ('optimizer', 'loss') for w in re.findall(r'^  ([a-z]\w*)', call('help', kind).stdout, re.M)}
    tried = {t.split(':')[0] for t in [*optimizers, *(loss for _, _, loss in of_losses), 'muon']} | {'dice', 'ctc', 'triplet', 'contrastive', 'gaussian_nll', 'output'}
    check(known == tried, f'not tried: {known - tried}; unknown: {tried - known}')
end()
