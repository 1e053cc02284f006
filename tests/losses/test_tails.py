"""Networks that end in a Softmax or Sigmoid with operators behind it, and outputs whose class axis is not plain.

usage: test_tails.py PROGRAM

Each row: the line that train, eval, grad and check say, and the loss of all of them, against the formula in float64.
"""
import json
import os
import subprocess
import sys
import tempfile

from scripts import T, h as helper, np, numpy_helper, onnx, program

rng = np.random.default_rng(3)
bad = []
N = 12


def const(name, v, t=np.int64):
    return numpy_helper.from_array(np.asarray(v, t), name)


CONSTANTS = [const('one', [1]), const('minus', [-1]), const('two', [2]), const('three', [3]), const('zero', [0]), const('first', 0),
             const('lo', 1e-7, np.float32), const('hi', 1 - 1e-7, np.float32), const('half', 0.5, np.float32), const('hi1', 1, np.float32), const('step', 1 / 255, np.float32), const('low', 0, np.uint8), const('four', 4, np.float32), const('nct', [0, 4, 5]),
             const('ntc', [0, 5, 4]), const('square', [0, 4, 4]), const('pixels', [0, 4, 1, 1])]


def model(path, nodes, features, shape, opset=17, type=None):
    """x (N, 6) -> z = x w + b, then the nodes -> out."""
    w, b = rng.standard_normal((6, features)).astype(np.float32) * 12, rng.standard_normal(features).astype(np.float32)
    used = {i for n in nodes for i in n.input}
    graph = helper.make_graph([helper.make_node('Gemm', ['x', 'w', 'b'], ['z'], name='fc')] + nodes, 'g',
                              [helper.make_tensor_value_info('x', T.FLOAT, ['N', 6])],
                              [helper.make_tensor_value_info('out', type or (T.DOUBLE if any(n.op_type == 'Cast' for n in nodes) else T.FLOAT), shape)],
                              [numpy_helper.from_array(w, 'w'), numpy_helper.from_array(b, 'b')] + [c for c in CONSTANTS if c.name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)], ir_version=8), path)
    return w.astype(np.float64), b.astype(np.float64)


def chain(*ops):
    """'Softmax', ('Clip', 'lo', 'hi'), ('Transpose', dict(perm=...)) ... one behind the other, from z to out."""
    nodes, at = [], 'z'
    for i, op in enumerate(ops):
        op = (op,) if isinstance(op, str) else op
        attrs = op[-1] if isinstance(op[-1], dict) else {}
        inputs = [q for q in op[1:] if isinstance(q, str)]
        to = 'out' if i == len(ops) - 1 else f't{i}'
        nodes.append(helper.make_node(op[0], [at] + inputs, [to], name=f'n{i}', **attrs))
        at = to
    return nodes


def log_softmax(z, axis=-1):
    z = z - z.max(axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis, keepdims=True))


def ce(z, t, axis=-1):
    """Scores, class numbers without that axis."""
    return -np.take_along_axis(log_softmax(z, axis), np.expand_dims(t, axis), axis).mean()


def bce(z, t):
    return (np.maximum(z, 0) - z * t + np.log1p(np.exp(-np.abs(z)))).mean()


def call(*arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def look(name, line, want, options, never):
    """All four commands say the line, and three of them the loss."""
    one = ['m.onnx', '--data', 'd.npz', '--device', 'cpu', *options]
    said, losses = {}, {}
    code, _, said['train'] = call('train', *one, '--batch-size', str(N), '--steps', '1', '--no-shuffle', '--run-dir', 'none', '-o', 'o.onnx', '--log', 'l.jsonl',
                                  '--optimizer', 'sgd:lr=0')
    if not code:
        losses['train'] = [json.loads(q)['loss'] for q in open('l.jsonl') if '"step"' in q.split(',')[0]][0]
    codes = [code]
    code, out, said['eval'] = call('eval', *one, '--batch-size', str(N), '--json')
    codes.append(code)
    if not code:
        losses['eval'] = json.loads(out)['loss']
    code, _, said['grad'] = call('grad', *one, '-o', 'g.npz')
    codes.append(code)
    if not code:
        losses['grad'] = float(np.load('g.npz')['loss'])
    code, said['check'], _ = call('check', *one, '--batch-size', str(N))
    codes.append(code)
    if any(codes):
        bad.append(f'{name}: exits {codes}\n{said["train"]}')
        return
    for command, text in said.items():
        if line not in text:
            bad.append(f"{name}: {command} does not say '{line}':\n{text}")
        for n in never:
            if n in text:
                bad.append(f"{name}: {command} says '{n}':\n{text}")
    for command, got in losses.items():
        if not abs(got - want) <= 2e-5 * (1 + abs(want)):
            bad.append(f'{name}: loss of {command} is {got}, {want} is right')


def row(name, ops, features, shape, target, line, want, *options, opset=17, never=()):
    """target(N) makes it; want(z, target)."""
    w, b = model('m.onnx', chain(*ops), features, shape, opset)
    x = rng.standard_normal((N, 6)).astype(np.float32)
    np.savez('d.npz', x=x, target=target)
    look(name, line, want(x @ w + b, target), options, never)


def tails():
    yes = rng.integers(0, 2, N)
    c4, c45 = rng.integers(0, 4, N), rng.integers(0, 4, (N, 5))
    softmax = ('Softmax', {'axis': -1})
    clip = ('Clip', 'lo', 'hi')

    def flat_bce(z, t):
        return bce(z[:, 0], t.reshape(-1))

    for name, behind in (('Squeeze', [('Squeeze', 'one')]), ('Reshape', [('Reshape', 'minus')]), ('Clip, Squeeze', [clip, ('Squeeze', 'one')]),
                         ('Identity, Squeeze', ['Identity', ('Squeeze', 'one')]), ('Gather', [('Gather', 'first', {'axis': 1})]),
                         ('Cast, Squeeze', [('Cast', {'to': T.DOUBLE}), ('Squeeze', 'one')])):
        row('Sigmoid, ' + name, ['Sigmoid', *behind], 1, ['N'], yes, 'loss bce combined with the Sigmoid', flat_bce)
    row('Sigmoid, Clip', ['Sigmoid', clip], 1, ['N', 1], yes[:, None].astype(np.float32), 'followed by: Clip; the loss is computed without the Clip', flat_bce)
    rounded = [('QuantizeLinear', 'step', 'low'), ('DequantizeLinear', 'step', 'low')]
    row('Sigmoid, rounded', ['Sigmoid', *rounded], 1, ['N', 1], yes[:, None].astype(np.float32), 'followed by: DequantizeLinear; the loss is computed without the rounding', flat_bce)
    row('Sigmoid, rounded, Clip', ['Sigmoid', *rounded, clip], 1, ['N', 1], yes[:, None].astype(np.float32), 'computed without the Clip and the rounding', flat_bce)
    row('Softmax, rounded', [softmax, *rounded], 4, ['N', 4], c4, 'loss cross_entropy combined with the Softmax', ce)
    row('Softmax, Clip', [softmax, clip], 4, ['N', 4], c4, 'loss cross_entropy combined with the Softmax', ce)
    row('Softmax, Unsqueeze, Squeeze', [softmax, ('Unsqueeze', 'two'), ('Squeeze', 'two')], 4, ['N', 4], c4, 'loss cross_entropy combined with the Softmax', ce)
    row('LogSoftmax, Cast', [('LogSoftmax', {'axis': 1}), ('Cast', {'to': T.DOUBLE})], 4, ['N', 4], c4, 'loss nll combined with the LogSoftmax', ce)
    row('Softmax, Clip, Log', [softmax, clip, 'Log'], 4, ['N', 4], c4, 'loss nll combined with the LogSoftmax', ce)
    row('old Softmax, Flatten', [('Reshape', 'pixels'), ('Softmax', {'axis': 1}), 'Flatten'], 4, ['N', 4], c4, 'loss cross_entropy combined with the Softmax', ce, opset=11)
    node = helper.make_node
    sums = [node('ReduceSum', ['s', 'one'], ['r']), node('Div', ['s', 'r'], ['q']), node('Identity', ['q'], ['out'])]
    beside = [node('Squeeze', ['s', 'one'], ['p1']), node('Unsqueeze', ['p1', 'one'], ['p']), node('Sub', ['hi1', 'p'], ['no']), node('Concat', ['no', 'p'], ['out'], axis=1)]
    for name, features, t, first, last, p in (
            ('Softplus divided by its sum', 4, c4, node('Softplus', ['z'], ['s']), sums, lambda z: np.logaddexp(0, z) / np.logaddexp(0, z).sum(1, keepdims=True)),
            ('1 - p beside p', 1, yes, node('HardSigmoid', ['z'], ['s']), beside, lambda z: np.concatenate([1 - np.clip(0.2 * z + 0.5, 0, 1), np.clip(0.2 * z + 0.5, 0, 1)], 1))):
        w, b = model('m.onnx', [first, *last], features, ['N', max(features, 2)])
        x = rng.standard_normal((N, 6)).astype(np.float32)
        np.savez('d.npz', x=x, target=t)
        look(name, 'loss cross_entropy combined with the probabilities that add up to 1', ce(np.log(np.maximum(p(x @ w + b), np.finfo(np.float32).tiny)), t), (), ())
    # As scikit-learn's converter writes one network against the rest: a guard keeps the sum from 0, and small probabilities have their gradient.
    spelled = [node('Neg', ['z'], ['m']), node('Exp', ['m'], ['e']), node('Add', ['e', 'hi1'], ['a']), node('Reciprocal', ['a'], ['p'])]
    guard = [node('ReduceSum', ['p', 'one'], ['r']), node('Cast', ['r'], ['some'], to=T.BOOL), node('Not', ['some'], ['none']), node('Cast', ['none'], ['c'], to=T.FLOAT),
             node('Add', ['p', 'c'], ['above']), node('Mul', ['c', 'four'], ['more']), node('Add', ['r', 'more'], ['below']), node('Div', ['above', 'below'], ['q']), node('Identity', ['q'], ['out'])]
    w, b = model('m.onnx', [*spelled, *guard], 4, ['N', 4], type=T.FLOAT)
    x = rng.standard_normal((N, 6)).astype(np.float32)
    np.savez('d.npz', x=x, target=c4)
    z = x @ w + b
    look('guarded sum of Sigmoids', 'loss cross_entropy combined with the normalised Sigmoid', ce(-np.logaddexp(0, -z), c4), (), ())
    far = np.log(np.exp(log_softmax(z)).min(1)).argmin()
    np.savez('d.npz', x=x[far:far + 1], target=z[far:far + 1].argmin(1))
    code, _, err = call('grad', 'm.onnx', '--data', 'd.npz', '-o', 'g.npz', '--device', 'cpu')
    if code or not np.abs(np.load('g.npz')['b']).max() > 0.5:
        bad.append(f'guarded sum of Sigmoids: no gradient of the smallest probability: {err}')
    # Another origin: the smallest probability of a mean of two networks.
    mean = [node('Mul', ['z', 'four'], ['z4']), node('Softmax', ['z'], ['s1'], axis=-1), node('Softmax', ['z4'], ['s4'], axis=-1), node('Mean', ['s1', 's4'], ['out'])]
    w, b = model('m.onnx', mean, 4, ['N', 4])
    z = x @ w + b
    far = z.max(1) - z.min(1)
    far = np.where((far > 20) & (far < 80), far, 0).argmax()
    np.savez('d.npz', x=x[far:far + 1], target=z[far:far + 1].argmin(1))
    want = -np.log((np.exp(log_softmax(z)) + np.exp(log_softmax(4 * z)))[far].min() / 2)
    look('a small probability of a mean', 'loss cross_entropy combined with the probabilities that add up to 1', want, (), ())
    call('grad', 'm.onnx', '--data', 'd.npz', '-o', 'g.npz', '--device', 'cpu')
    if not np.abs(np.load('g.npz')['b']).max() > 0.5:
        bad.append('a small probability of a mean: no gradient')
    row('Softmax along axis 1, Transpose', [('Reshape', 'nct'), ('Softmax', {'axis': 1}), ('Transpose', {'perm': [0, 2, 1]})], 20, ['N', 5, 4], c45,
        'combined with the Softmax', lambda z, t: ce(z.reshape(N, 4, 5), t, 1))
    row('Softmax along the last axis, Transpose', [('Reshape', 'ntc'), softmax, ('Transpose', {'perm': [0, 2, 1]})], 20, ['N', 4, 5], c45,
        'combined with the Softmax', lambda z, t: ce(z.reshape(N, 5, 4), t))
    row('Softmax, Slice of the time', [('Reshape', 'ntc'), softmax, ('Slice', 'one', 'three', 'one')], 20, ['N', 2, 4], c45[:, 1:3],
        'combined with the Softmax', lambda z, t: ce(z.reshape(N, 5, 4)[:, 1:3], t))
    row('Softmax, Gather of the time', [('Reshape', 'ntc'), softmax, ('Gather', 'first', {'axis': 1})], 20, ['N', 4], c4,
        'combined with the Softmax', lambda z, t: ce(z.reshape(N, 5, 4)[:, 0], t))
    # No such tail: a part of the classes, a Clip that is no Clip of probabilities, another axis.
    row('Softmax, Slice of the classes', [softmax, ('Slice', 'one', 'three', 'one')], 4, ['N', 2], c4 % 2, "loss cross_entropy on output 'out'",
        lambda z, t: ce(np.exp(log_softmax(z))[:, 1:3], t), '--loss', 'cross_entropy', never=['joined'])
    row('Softmax, hard Clip', [softmax, ('Clip', 'lo', 'half')], 4, ['N', 4], c4, "loss cross_entropy on output 'out'",
        lambda z, t: ce(np.clip(np.exp(log_softmax(z)), 1e-7, .5), t), '--loss', 'cross_entropy', never=['joined'])


def doubts():
    """A loss that contradicts the tail is taken as it is named, with a warning; tail=none is an answer."""
    c4 = rng.integers(0, 4, N)

    def warned(loss, tail, says, want, *more):
        row(f'{loss} on {tail}', [(tail, {'axis': -1}) if 'max' in tail else tail], 4, ['N', 4], c4 if loss != 'bce_with_logits' else np.eye(4, dtype=np.float32)[c4],
            says, want, '--loss', loss, *more)

    softmax, sigmoid = lambda z: np.exp(log_softmax(z)), lambda z: 1 / (1 + np.exp(-z))
    warned('cross_entropy', 'Sigmoid', "warning: loss cross_entropy needs logits", lambda z, t: ce(sigmoid(z), t))
    row('nll:tail=none on Softmax', [('Softmax', {'axis': -1})], 4, ['N', 4], c4, "loss nll on output 'out'", lambda z, t: -softmax(z)[np.arange(N), t].mean(),
        '--loss', 'nll:tail=none', never=['needs log-probabilities'])
    for tail, better in ('Softmax', 'cross_entropy'), ('Sigmoid', 'bce'):
        for command in ('train', 'check'):
            model('m.onnx', chain(tail), 4, ['N', 4])
            np.savez('d.npz', x=np.ones((N, 6), np.float32), target=c4)
            code, out, err = call(command, 'm.onnx', '--data', 'd.npz', '--loss', 'nll', '--device', 'cpu', *(['--run-dir', 'none', '-o', 'o.onnx'] if command == 'train' else []))
            if code not in (2, 3) or f"output 'out' ends in {tail}: use --loss 'out={better}', or nll:tail=none" not in out + err:
                bad.append(f'{command}, nll on {tail}: exit {code}: {out + err}')
    for command in 'train', 'check', 'eval':
        model('m.onnx', chain('Identity'), 4, ['N', 4])
        np.savez('d.npz', x=np.ones((N, 6), np.float32), target=np.eye(4, dtype=np.float32)[c4])
        code, out, err = call(command, 'm.onnx', '--data', 'd.npz', '--loss', 'bce', '--device', 'cpu', *(['--run-dir', 'none', '-o', 'o.onnx'] if command == 'train' else []))
        if code not in (2, 3) or "output 'out' has no Sigmoid: use --loss 'out=bce_with_logits', or bce:tail=none" not in out + err:
            bad.append(f'{command}, bce on scores: exit {code}: {out + err}')
    warned('bce_with_logits', 'Softmax', "loss bce_with_logits needs logits", lambda z, t: bce(softmax(z), t))
    row('tail=none', ['Sigmoid'], 4, ['N', 4], c4, "loss cross_entropy on output 'out'", lambda z, t: ce(sigmoid(z), t), '--loss', 'cross_entropy:tail=none',
        never=['needs logits'])


def axes():
    """Both axes of a square could hold the classes: what made it says which, and it is said."""
    t = rng.integers(0, 4, (N, 4))
    line = "axis 1 or axis 2 could be the classes; axis {} is used ({}"
    square = ('Reshape', 'square')

    def last(z, t):
        return ce(z.reshape(N, 4, 4), t)

    def one(z, t):
        return ce(z.reshape(N, 4, 4), t, 1)

    row('square, Softmax -1', [square, ('Softmax', {'axis': -1})], 16, ['N', 4, 4], t, line.format(2, 'normalised by the Softmax'), last)
    row('square, Softmax 1', [square, ('Softmax', {'axis': 1})], 16, ['N', 4, 4], t, line.format(1, 'normalised by the Softmax'), one)
    row('square, nothing', [square], 16, ['N', 4, 4], t, line.format(2, 'the default for sequences'), last)
    row('square, given', [square], 16, ['N', 4, 4], t, 'loss cross_entropy', one, '--loss', 'cross_entropy:class_axis=1', never=['could be the classes'])
    # A layer of its own: MatMul has the classes last, Conv along axis 1, and Transpose takes them elsewhere.
    for name, ops, axis in (('MatMul', [square, ('MatMul', 'v')], 2), ('MatMul, Transpose', [square, ('MatMul', 'v'), ('Transpose', {'perm': [0, 2, 1]})], 1),
                            ('Conv', [square, ('Conv', 'k')], 1), ('Conv, Transpose', [square, ('Conv', 'k'), ('Transpose', {'perm': [0, 2, 1]})], 2)):
        layer = np.eye(4, dtype=np.float32)
        CONSTANTS.extend([numpy_helper.from_array(layer, 'v'), numpy_helper.from_array(layer[:, :, None], 'k')])
        turned = 'Transpose' in name
        row('square, ' + name, ops, 16, ['N', 4, 4], t, line.format(axis, 'produced by ' + name.split(',')[0]),
            lambda z, t: ce(z.reshape(N, 4, 4).transpose(0, 2, 1) if turned else z.reshape(N, 4, 4), t, axis))
        del CONSTANTS[-2:]
    # Shares of the classes, one-hot: along the axis that they add up along.
    hot = np.eye(4, dtype=np.float32)[t]
    row('one-hot at the end', [('Reshape', 'ntc')], 20, ['N', 5, 4], np.eye(4, dtype=np.float32)[rng.integers(0, 4, (N, 5))], 'loss cross_entropy',
        lambda z, q: -(q * log_softmax(z.reshape(N, 5, 4))).sum(-1).mean(), '--loss', 'cross_entropy')


def ignored():
    """Class -100 counts nowhere, as in PyTorch; another ignore_index leaves it an error."""
    c = rng.integers(0, 4, N)
    c[[2, 5]] = -100
    keep = c >= 0
    for tail, loss in ('Identity', 'cross_entropy'), ('LogSoftmax', 'nll'), ('Softmax', 'cross_entropy'):
        for options in (), ('--loss', loss):
            row(f'-100, {tail}', [tail], 4, ['N', 4], c, f"target 'target': 2 of {N} class numbers are -100 and are ignored", lambda z, t: ce(z[keep], t[keep]), *options)
    for loss in 'cross_entropy:ignore_index=0', 'hinge:ignore_index=0':
        code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx', '--loss', loss)
        if code != 4 or 'has class -100' not in said:
            bad.append(f'--loss {loss}: exit {code}: {said}')


def uncounted():
    """A batch of nothing but ignored classes leaves its update out, with a warning, and is counted; the others are as without it."""
    c = rng.integers(0, 4, N)
    row('a batch without classes', ['Identity'], 4, ['N', 4], c, '', ce, '--loss', 'cross_entropy')
    data = dict(np.load('d.npz'))
    half = N // 2
    order = ['--no-shuffle', '--batch-size', str(half), '--epochs', '2', '--optimizer', 'sgd:lr=0.1,momentum=0.9', '--run-dir', 'none', '--device', 'cpu']
    ends = {}
    for name, target, loss in (('-100', [-100] * half, 'cross_entropy'), ('index 3', [3] * half, 'cross_entropy:ignore_index=3'), ('none', None, 'cross_entropy')):
        classes = np.minimum(c[half:2 * half], 2)
        d = {k: v[half:2 * half] if target is None else v[:2 * half] for k, v in data.items()} | {'target': classes if target is None else np.concatenate([target, classes])}
        np.savez('u.npz', **d)
        code, _, said = call('train', 'm.onnx', '--data', 'u.npz', '-o', 'u.onnx', '--log', 'u.jsonl', *order, '--loss', loss)
        ends[name] = [t.raw_data or list(t.float_data) for t in onnx.load('u.onnx').graph.initializer if t.data_type == T.FLOAT] if not code else said
        lines = [json.loads(line) for line in open('u.jsonl')]
        steps = [e['loss'] for e in lines if e['event'] == 'step']
        if target and (code or f"step 1: all class numbers of target 'target' in a batch are {target[0]}" not in said or said.count('all class numbers') != 1
                       or '2 of 4 updates were skipped' not in said or steps[0] is not None or steps[2] is not None or None in (steps[1], steps[3])):
            bad.append(f'a batch without classes, {name}: exit {code}, losses {steps}: {said}')
    if ends['-100'] != ends['none'] or ends['index 3'] != ends['none']:
        bad.append(f'a batch without classes changed the weights: {ends}')
    # among the batches of an update it adds 0: half of the other one's loss and gradient
    classes = np.minimum(c[half:2 * half], 2)
    ends = {}
    for name, parts, options in (('alone', [classes], ('lr=0.05',)), ('first', [[-100] * half, classes], ('lr=0.1', '--accumulate', '2')),
                                 ('last', [classes, [-100] * half], ('lr=0.1', '--accumulate', '2'))):
        np.savez('u.npz', **{k: np.concatenate([v[half:2 * half]] * len(parts)) for k, v in data.items()} | {'target': np.concatenate(parts)})
        code, _, said = call('train', 'm.onnx', '--data', 'u.npz', '-o', 'u.onnx', '--log', 'u.jsonl', '--no-shuffle', '--batch-size', str(half), '--epochs', '3', '--run-dir', 'none',
                             '--device', 'cpu', '--loss', 'cross_entropy', '--optimizer', 'sgd:momentum=0.9,' + options[0], *options[1:])
        steps = [e['loss'] for e in map(json.loads, open('u.jsonl')) if e['event'] == 'step'] if not code else []
        ends[name] = [t.raw_data or list(t.float_data) for t in onnx.load('u.onnx').graph.initializer if t.data_type == T.FLOAT] if not code else said
        share = len(parts)
        if name == 'alone':
            alone = steps
        if code or len(steps) != 3 or not np.allclose(np.multiply(steps, share), alone) or said.count('adds 0 to loss and gradient') != (share > 1) or 'were skipped' in said:
            bad.append(f'an update with a batch without classes, {name}: exit {code}, losses {steps}: {said}')
    if ends['first'] != ends['alone'] or ends['last'] != ends['alone']:
        bad.append('an update with a batch without classes: other weights than those of half of the gradient')
    # a sum over nothing is 0, and no fault; where no batch has a class that counts, there is nothing to train on
    np.savez('u.npz', **{k: v[:2 * half] for k, v in data.items()} | {'target': np.full(2 * half, -100)})
    for loss, wanted in ('cross_entropy:reduction=sum', 0), ('cross_entropy', 4):
        code, _, said = call('train', 'm.onnx', '--data', 'u.npz', '-o', 'u.onnx', *order, '--loss', loss)
        if code != wanted or ('all updates were skipped' in said) != (code == 4):
            bad.append(f'nothing but -100, {loss}: exit {code}: {said}')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in tails, doubts, axes, ignored, uncounted:
            group()
        os.chdir('/')
    for line in bad:
        print(line)
    print(f'{len(bad)} faults' if bad else 'tails and class axes are as they should be')
    sys.exit(bool(bad))
