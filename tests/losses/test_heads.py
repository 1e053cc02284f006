"""Several outputs, inner tensors, and losses that stand in the graph.

usage: test_heads.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

from scripts import T, h as helper, np, numpy_helper, onnx, program

rng = np.random.default_rng(4)
bad = []
N = 12
x = rng.standard_normal((N, 6)).astype(np.float32)


def need(what, so):
    if not so:
        bad.append(what)


def model(path, nodes, inputs, outputs, weights, opset=17):
    """nodes: (op, inputs, outputs, attributes); inputs, outputs: (name, type, shape)."""
    graph = helper.make_graph([helper.make_node(n[0], n[1], n[2], name=f'n{i}', **(n[3] if len(n) > 3 else {})) for i, n in enumerate(nodes)], 'g',
                              [helper.make_tensor_value_info(*i) for i in inputs], [helper.make_tensor_value_info(*o) for o in outputs],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)], ir_version=8), path)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def call(*arguments):
    r = subprocess.run([program, *arguments, '--device', 'cpu'], capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def losses(name, options, want, line, batch=N, samples=N):
    """The mean loss of an epoch's batches by train, and that of eval and grad; all of them, and check, say the line."""
    one = ['m.onnx', '--data', 'd.npz', *options]
    code, _, said = call('train', *one, '--batch-size', str(batch), '--epochs', '1', '--no-shuffle', '--run-dir', 'none', '-o', 'o.onnx', '--log', 'l.jsonl', '--optimizer', 'sgd:lr=0')
    got = {'train': np.mean([q['loss'] for q in map(json.loads, open('l.jsonl')) if q['event'] == 'step'])} if not code else {}
    texts, codes = {'train': said}, [code]
    code, out, texts['eval'] = call('eval', *one, '--batch-size', str(batch), '--json')
    codes.append(code)
    if not code:
        got['eval'] = json.loads(out)['loss']
    code, _, texts['grad'] = call('grad', *one, '--batch-size', str(batch), '--accumulate', str(samples // batch), '-o', 'g.npz')
    codes.append(code)
    if not code:
        got['grad'] = float(np.load('g.npz')['loss'])
    code, texts['check'], _ = call('check', *one, '--batch-size', str(batch))
    codes.append(code)
    need(f'{name}: exits {codes}: {said}', not any(codes))
    for command, v in got.items():
        need(f'{name}: loss of {command} is {v}, {want} is right', abs(v - want) <= 1e-5 * (1 + abs(want)))
    for command, text in texts.items():
        need(f"{name}: {command} does not say '{line}': {text}", line in text or any(codes))


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def ce(z, t):
    return -np.take_along_axis(log_softmax(z), t[..., None], -1).mean()


def accuracies():
    """Each head's share of right answers: by name in eval's JSON and text, in the log, on the screen."""
    w = {n: normal(6, k) for n, k in (('a', 3), ('b', 5), ('c', 2), ('d', 1))}
    model('m.onnx', [('MatMul', ['x', 'w' + n], [n if n != 'd' else 'z']) for n in w] + [('Sigmoid', ['z'], ['d'])], [('x', T.FLOAT, ['N', 6])],
          [(n, T.FLOAT, ['N', v.shape[1]]) for n, v in w.items()], {'w' + n: v for n, v in w.items()})
    t = {'a': rng.integers(0, 3, N), 'b': rng.integers(0, 5, N), 'c': normal(N, 2), 'd': rng.integers(0, 2, (N, 1))}
    np.savez('d.npz', x=x, **{'target_' + n: v for n, v in t.items()})
    want = {n: float(((x @ w[n]).argmax(1) == t[n]).mean()) for n in 'ab'}
    want['d'] = float((((x @ w['d']) > 0) == t['d']).mean())
    _, out, _ = call('eval', 'm.onnx', '--data', 'd.npz', '--json', '--batch-size', '5')
    got = json.loads(out)
    need(f'eval: {got} for {want}', got.get('accuracies', {}).keys() == want.keys() and all(abs(got['accuracies'][n] - v) < 1e-6 for n, v in want.items()))
    need(f"eval: 'accuracy' {got.get('accuracy')} is not the first head's", abs(got['accuracy'] - want['a']) < 1e-6)
    _, out, _ = call('eval', 'm.onnx', '--data', 'd.npz')
    need(f'eval does not show them: {out}', all(f'{100 * v:.4f} %  {n}\n' in out for n, v in want.items()))
    _, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--val', 'd.npz', '--epochs', '1', '--run-dir', 'none', '-o', 'o.onnx', '--log', 'l.jsonl', '--optimizer', 'sgd:lr=0')
    need(f'train does not show them: {said}', f"accuracy a {100 * want['a']:.2f} %, b {100 * want['b']:.2f} %, d {100 * want['d']:.2f} %" in said)
    line = [q for q in map(json.loads, open('l.jsonl')) if q['event'] == 'eval'][0]
    auc = got['metrics']['d']['auc']
    for metric, v in ('d.auc', auc), ('b.accuracy', want['b']), ('c.loss', got['losses']['c']), ('auc', got['metrics']['a']['auc']):
        code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--val', 'd.npz', '--epochs', '1', '--run-dir', 'none', '-o', 'o.onnx', '--log', 'm.jsonl',
                             '--optimizer', 'sgd:lr=0', '--monitor', metric)
        end = list(map(json.loads, open('m.jsonl')))[-1]
        need(f'--monitor {metric}: exit {code}: {end} {said}', code == 0 and end['best_metric'] == 'val ' + metric and abs(end['best'] - v) < 1e-6)
        need(f'--monitor {metric}: the log has no such value', end['monitor'] == metric and any(abs(q.get(metric, -1) - v) < 1e-6 for q in map(json.loads, open('m.jsonl'))))
    for metric, says in ('c.accuracy', 'this output does not have this metric; it has loss, mae, rmse, r2'), ('z.auc', "the model has no output 'z'"), ('a.beauty', "unknown metric 'beauty'"):
        code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--val', 'd.npz', '--run-dir', 'none', '-o', 'o.onnx', '--monitor', metric)
        need(f'--monitor {metric}: exit {code}: {said}', code == 2 and says in said)
    need(f'the log: {line}', line.get('accuracies', {}).keys() == want.keys() and abs(line['accuracy'] - want['a']) < 1e-6)
    # One head: as it was.
    np.savez('d.npz', x=x, target_b=t['b'])
    _, out, _ = call('eval', 'm.onnx', '--data', 'd.npz', '--json')
    got = json.loads(out)
    need(f'eval of one head: {got}', 'accuracies' not in got and abs(got['accuracy'] - want['b']) < 1e-6)


def states():
    """The last states of a recurrent network are (layers, N, H) beside outputs (N, T, H); its targets have the samples first."""
    w, v = normal(6, 15), normal(6, 8)
    model('m.onnx', [('MatMul', ['x', 'w'], ['p']), ('Reshape', ['p', 'ty'], ['y']), ('MatMul', ['x', 'v'], ['q']), ('Reshape', ['q', 'th'], ['r']),
                     ('Transpose', ['r'], ['h'], {'perm': [1, 0, 2]})], [('x', T.FLOAT, ['N', 6])],
          [('y', T.FLOAT, ['N', 5, 3]), ('h', T.FLOAT, [2, 'N', 4])], {'w': w, 'v': v, 'ty': np.array([0, 5, 3]), 'th': np.array([0, 2, 4])})
    y, h = (x @ w).reshape(N, 5, 3), (x @ v).reshape(N, 2, 4)
    classes, states_, numbers = rng.integers(0, 3, (N, 5)), normal(N, 2, 4), rng.integers(0, 4, (N, 2))
    for name, th, lh in ('values', states_, ((h - states_) ** 2).mean()), ('classes', numbers, ce(h, numbers)):
        np.savez('d.npz', x=x, target_y=classes, target_h=th)
        for batch in (12, 6, 2):  # 2: as many as layers
            losses(f'states, {name}, batch {batch}', [], ce(y, classes) + lh, "on output 'h'", batch)
    np.savez('d.npz', x=x, target_h=normal(N, 3, 4))
    code, _, said = call('eval', 'm.onnx', '--data', 'd.npz')
    need(f'states of a wrong shape: exit {code}: {said}', code == 4 and "output 'h' is [2,4] per sample" in said)


def inner():
    """--output trains a tensor inside: behind it something has no gradient, and the file keeps it."""
    w, v = normal(6, 4), normal(4, 4)
    model('m.onnx', [('MatMul', ['x', 'w'], ['z']), ('Softmax', ['z'], ['p'], {'axis': -1}), ('ArgMax', ['p'], ['class'], {'axis': 1, 'keepdims': 0}),
                     ('MatMul', ['p', 'v'], ['other'])], [('x', T.FLOAT, ['N', 6])], [('class', T.INT64, ['N']), ('other', T.FLOAT, ['N', 4])], {'w': w, 'v': v})
    t = rng.integers(0, 4, N)
    np.savez('d.npz', x=x, target=t)
    losses('--output p', ['--output', 'p'], ce(x @ w, t), "loss cross_entropy combined with the Softmax of output 'p'")
    losses('--output z', ['--output', 'z', '--loss', 'z=cross_entropy'], ce(x @ w, t), "loss cross_entropy on output 'z'")
    np.savez('two.npz', x=x, target_p=t, target_other=normal(N, 4))
    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--output', 'p', '--steps', '3', '--run-dir', 'none', '-o', 'o.onnx', '--deploy', 'deployed.onnx')
    need(f'--output p: exit {code}: {said}', code == 0 and os.path.exists('deployed.onnx'))
    command = said.split('to evaluate:   onnxtrain ')[-1].split('\n')[0].split(' ')
    code, _, said = call(*command)
    need(f'what is said to evaluate it, {command}: exit {code}: {said}', code == 0 and '--output' in command)
    a, b = onnx.load('m.onnx'), onnx.load('o.onnx')
    moved = [i.name for i, k in zip(a.graph.initializer, b.graph.initializer) if i != k]
    need(f'--output p: {moved} moved, and only w is on the way to it', moved == ['w'])
    for m in a, b:
        del m.graph.initializer[:]
    need('--output p: the written file has another graph', a == b)
    code, _, said = call('train', 'm.onnx', '--data', 'two.npz', '--output', 'p', '--output', 'other', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx')
    need(f'two outputs: exit {code}: {said}', code == 0 and "of output 'p'" in said and "loss mse on output 'other'" in said)
    for name in 'nothing', 'w', 'x':
        code, _, said = call('check', 'm.onnx', '--output', name)
        need(f'--output {name}: exit {code}: {said}', code == 2 and f'--output {name}: the graph has no tensor' in said)
    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx')
    need(f'class numbers beside floats: exit {code}: {said}', code == 0 and "the target is used for output 'other', because 'class' is int64" in said and "cross_entropy on output 'other'" in said)
    model('m.onnx', [('MatMul', ['x', 'w'], ['z']), ('Softmax', ['z'], ['p'], {'axis': -1}), ('ArgMax', ['p'], ['class'], {'axis': 1, 'keepdims': 0})],
          [('x', T.FLOAT, ['N', 6])], [('class', T.INT64, ['N'])], {'w': w})
    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx')
    need(f'a class number has a loss: exit {code}: {said}', code == 3 and "--output 'p'" in said)
    code, out, said = call('check', 'm.onnx', '--output', 'p')
    need(f'check without data: exit {code}: {out} {said}', code == 0 and "on output 'p'" in out)


def in_graph():
    """A loss among the outputs, its labels among the inputs, wherever it stands."""
    w = normal(6, 4)
    t = rng.integers(0, 4, N)
    t[3] = -100
    keep = t >= 0
    z = x @ w
    for outputs in ('loss', 'logits'), ('logits', 'loss'), ('logits', 'mean', 'loss'):
        shapes = {'loss': ('loss', T.FLOAT, []), 'logits': ('logits', T.FLOAT, ['N', 4]), 'mean': ('mean', T.FLOAT, [])}
        model('m.onnx', [('MatMul', ['x', 'w'], ['logits']), ('ReduceMean', ['logits'], ['mean'], {'keepdims': 0}),
                         ('SoftmaxCrossEntropyLoss', ['logits', 'labels'], ['loss'], {'ignore_index': -100})],
              [('x', T.FLOAT, ['N', 6]), ('labels', T.INT64, ['N'])], [shapes[o] for o in outputs], {'w': w})
        np.savez('d.npz', x=x, labels=t)
        for options in [], ['--loss', 'output'], ['--loss', 'loss=output']:
            losses(f'loss in the graph, {outputs}, {options}', options, ce(z[keep], t[keep]), "loss output on output 'loss'")


def losses_of_samples():
    """A loss in the graph with one number for each sample, or more where its output is named; reduced by the mean, or their sum."""
    w = normal(6, 4)
    z = x @ w
    model('m.onnx', [('MatMul', ['x', 'w'], ['z']), ('Mul', ['z', 'z'], ['each']), ('ReduceSum', ['each', 'one'], ['loss'], {'keepdims': 0})], [('x', T.FLOAT, ['N', 6])],
          [('each', T.FLOAT, ['N', 4]), ('loss', T.FLOAT, ['N'])], {'w': w, 'one': np.array([1])})
    np.savez('d.npz', x=x)
    sums = (z * z).sum(1)
    for batch in N, 2:
        losses(f'one for each sample, batch {batch}', ['--loss', 'output'], sums.mean(), "loss output on output 'loss'", batch)
        losses(f'more for each, batch {batch}', ['--loss', 'each=output'], (z * z).mean(), "loss output on output 'each'", batch)
    losses('the sum', ['--loss', 'loss=output:reduction=sum'], sums.sum(), "loss output on output 'loss'")
    code, _, said = call('eval', 'm.onnx', '--data', 'd.npz', '--output', 'each', '--loss', 'output')
    need(f'more for each without a name: exit {code}: {said}', code == 2 and "name it: --loss 'each=output'" in said)
    # Metrics have the names of the outputs, whatever computes them.
    model('m.onnx', [('MatMul', ['x', 'w'], ['inner']), ('Identity', ['inner'], ['y']), ('Add', ['inner', 'inner'], ['v'])], [('x', T.FLOAT, ['N', 6])],
          [('y', T.FLOAT, ['N', 4]), ('v', T.FLOAT, ['N', 4])], {'w': w})
    np.savez('d.npz', x=x, target_y=rng.integers(0, 4, N), target_v=normal(N, 4))
    _, out, _ = call('eval', 'm.onnx', '--data', 'd.npz')
    labels = {line.split()[-1] for line in out.splitlines() if line.startswith(('f1 ', 'auc', 'mae', 'rmse'))}
    need(f'labels of metrics: {out}', labels == {'y', 'v'})


def together():
    """Several losses on one output: their weighted sum, its gradient, what names them, the record, a resumed run."""
    w, t = normal(6, 4), normal(N, 4)
    model('m.onnx', [('MatMul', ['x', 'w'], ['y'])], [('x', T.FLOAT, ['N', 6])], [('y', T.FLOAT, ['N', 4])], {'w': w})
    np.savez('d.npz', x=x, target=t)
    d = x @ w - t
    both = ['--loss', 'mse:weight=2', '--loss', 'l1']
    losses('mse and l1', both, 2 * (d * d).mean() + np.abs(d).mean(), "loss l1 on output 'y'", 4)
    with np.load('g.npz') as g:
        want = x.T @ (4 * d + np.sign(d)) / d.size
        need(f"gradient of mse and l1: {np.abs(g['w'] - want).max()} off", np.allclose(g['w'], want, rtol=1e-4, atol=1e-6))
    e = json.loads(call('eval', 'm.onnx', '--data', 'd.npz', *both, '--json')[1])
    need(f"names: {e.get('losses')}", e['losses'].keys() == {'y/mse', 'y/l1'} and abs(e['losses']['y/l1'] - np.abs(d).mean()) < 1e-5)

    c = rng.integers(0, 4, N)
    np.savez('d.npz', x=x, target_y=c)
    p, hot = np.exp(log_softmax(x @ w)), np.eye(4)[c]
    dice = (1 - (2 * (p * hot).sum(0) + 1) / ((p + hot).sum(0) + 1))[hot.sum(0) > 0].sum() / 4
    both, k = ['--loss', 'y=cross_entropy:class_weights=[1,2,3,4]', '--loss', 'y=dice:smooth=1'], np.arange(1, 5)
    weighted = -(k[c] * log_softmax(x @ w)[np.arange(N), c]).sum() / k[c].sum()
    losses('cross_entropy and dice', both, weighted + dice, "loss dice on output 'y'")
    e = json.loads(call('eval', 'm.onnx', '--data', 'd.npz', *both, '--json')[1])
    need(f'accuracy once: {e}', e['accuracies'] == {'y': e['accuracy']} and abs(e['accuracy'] - (p.argmax(1) == c).mean()) < 1e-6)

    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--loss', 'dice', '--loss', 'cross_entropy:class_weights=auto', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx')
    need(f'weights of the second loss: exit {code}: {said}', code == 0 and 'class_weights=auto: [' in said)

    # Ignored labels: each loss leaves them out, whichever is first and whichever has ignore_index.
    for label, key in (-100, ''), (7, ':ignore_index=7'):
        some = c.copy()
        some[[1, 6, 7]] = label
        np.savez('d.npz', x=x, target_y=some)
        keep = some != label
        hot = np.eye(4)[c] * keep[:, None]
        dice = (1 - (2 * (p * hot).sum(0) + 1) / ((p * keep[:, None] + hot).sum(0) + 1))[hot.sum(0) > 0].sum() / 4
        z = x @ w
        margins = np.maximum(0, 1 - z[np.arange(N), c][:, None] + z) * (1 - np.eye(4)[c])
        hinge = margins[keep].sum(1).mean() / 4
        for other, want in ('dice:smooth=1', dice), ('hinge', hinge), ('focal:gamma=0', ce(z[keep], c[keep])):
            for first, second in ('y=cross_entropy' + key, 'y=' + other), ('y=' + other, 'y=cross_entropy' + key):
                losses(f'{first}, {second}, {label} ignored', ['--loss', first, '--loss', second], ce(z[keep], c[keep]) + want, f"loss {other.split(':')[0]} on output 'y'")
                e = json.loads(call('eval', 'm.onnx', '--data', 'd.npz', '--loss', first, '--loss', second, '--json')[1])
                need(f'{first}, {second}, {label} ignored: accuracy {e}', abs(e['accuracy'] - (p.argmax(1) == c)[keep].mean()) < 1e-6)
    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--loss', 'cross_entropy:ignore_index=7', '--loss', 'dice:ignore_index=0', '--run-dir', 'none', '-o', 'o.onnx')
    need(f'two numbers that are ignored: exit {code}: {said}', code == 2 and 'have ignore_index=7 and ignore_index=0' in said)
    np.savez('d.npz', x=x, target_y=np.eye(4, dtype=np.float32)[c] * 2)
    for first, second in ('mse', 'bce_with_logits'), ('bce_with_logits', 'mse'):
        code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--loss', first, '--loss', second, '--run-dir', 'none', '-o', 'o.onnx')
        need(f'{first}, {second} of a target of 2: exit {code}: {said}', code == 4 and 'loss bce_with_logits needs targets from 0 to 1' in said)
    np.savez('d.npz', x=x, target_y=np.eye(4, dtype=np.float32)[c])
    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', '--loss', 'dice:ignore_index=3', '--run-dir', 'none', '-o', 'o.onnx')
    need(f'ignore_index of values: exit {code}: {said}', code == 2 and 'ignore_index is for class numbers' in said)

    # in the metadata of a model with others, and in a checkpoint
    np.savez('d.npz', x=x, target=100 * t)
    both = ['--loss', 'mse:weight=2', '--loss', 'l1', '--normalize-target', 'mean,std', '--batch-size', '4']
    code, _, said = call('train', 'm.onnx', '--data', 'd.npz', *both, '--steps', '6', '--run-dir', 'whole', '-o', 'whole.onnx')
    need(f'with a record: exit {code}: {said}', code == 0)
    code, out, said = call('eval', 'whole.onnx', '--data', 'd.npz', '--json')
    need(f'the record: exit {code}: {out} {said}', code == 0 and json.loads(out)['losses'].keys() == {'y/mse', 'y/l1'})
    call('train', 'm.onnx', '--data', 'd.npz', *both, '--steps', '2', '--run-dir', 'half', '-o', 'half.onnx')
    code, _, said = call('resume', 'half', '--steps', '6')
    a, b = (numpy_helper.to_array(onnx.load(f).graph.initializer[0]) for f in ('whole.onnx', 'half.onnx'))
    need(f'resumed: exit {code}, {np.abs(a - b).max()} off: {said}', code == 0 and (a == b).all())
    code, _, said = call('eval', 'm.onnx', '--data', 'd.npz', '--loss', 'mse', '--loss', 'y=mse')
    need(f"a loss twice: exit {code}: {said}", code == 2 and "output 'y' has loss mse twice" in said)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in accuracies, states, inner, in_graph, losses_of_samples, together:
            group()
        os.chdir('/')
    for line in bad:
        print(line)
    print(f'{len(bad)} faults' if bad else 'heads, inner tensors and losses in the graph are as they should be')
    sys.exit(bool(bad))
