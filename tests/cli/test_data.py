"""Data, targets and options from outside: what is refused, what is said, what is done.

usage: test_data.py PROGRAM

Nothing may be silently wrong: a target that nothing learns, a scaling that is not applied, a parameter that is no number.
"""
import gzip
import json
import os
import subprocess
import zipfile

from scripts import onnxruntime
from small_models import T, helper, call, expect, model, moved, need, np, numpy_helper, onnx, program, rng, run, train, value, weight, weights


# ---- parameters ------------------------------------------------------------------------


def parameters():
    for option, text, wants in (
            ('loss', 'mse:reduction=median', 'mean or sum'), ('loss', 'huber:delta=0', 'above 0'),
            ('loss', 'smooth_l1:beta=-1', 'at least 0'), ('loss', 'cross_entropy:label_smoothing=2', 'from 0 to 1'),
            ('loss', 'cross_entropy:label_smoothing=-1', 'from 0 to 1'), ('loss', 'cross_entropy:class_axis=x', 'whole number'),
            ('loss', 'cross_entropy:ignore_index=x', 'whole number'), ('loss', 'mse:weight=[1,2]', 'a number'),
            ('loss', 'cross_entropy:class_weights=[nan,1,1]', "'nan' is not a number"),
            ('loss', 'cross_entropy:class_weights=[1,2]', 'class_weights has 2 values'),
            ('loss', 'cross_entropy:tail=softmax', 'does not end in'),
            ('loss', 'cross_entropy:weight=0', 'all losses have weight 0'),
            ('schedule', 'multistep:milestones=[-1]', 'ascending'), ('schedule', 'multistep:milestones=[5,3]', 'ascending'),
            ('optimizer', 'sgd:', "expected key=value after ':'"), ('batch-size', '0x10', 'not a whole number'), ('lr', '0x1p-3', 'not a number'),
            ('clip-norm', 'nan', 'not a number')):
        train(2, wants, 'one', 'one.npz', '--' + option, text)
    train(0, 'warning: the warmup takes 9 updates but the run has 2: the learning rate never reaches 0.001', 'one', 'one.npz', '--schedule', 'cosine:warmup=9')
    train(0, '', 'one', 'one.npz', '--schedule', 'cosine:warmup=1', never=['warmup takes'])


# ---- heads and targets -----------------------------------------------------------------


def heads():
    both = ["loss cross_entropy on output 'cls'", "loss mse on output 'reg'"]
    train(0, both, 'two', 'two.npz')
    need('a head with a target does not train', moved('two.onnx') == {'w', 'b', 'w1', 'b1', 'w2', 'b2'})
    expect(0, both, 'eval', 'two.onnx', '--data', 'two.npz')
    out = [subprocess.run([program, 'eval', 'two.onnx', '--data', 'two.npz', *o], capture_output=True, text=True).stdout
           for o in ([], ['--loss', 'cls=cross_entropy', '--loss', 'reg=mse'])]
    need(f'eval without --loss is not what training takes: {out}', out[0] == out[1] and 'loss' in out[0])

    train(0, ["loss mse on output 'reg'", "output 'cls': no target"], 'two', 'reg.npz')
    need('a head without a target moves', moved('two.onnx') == {'w', 'b', 'w2', 'b2'})
    train(0, "loss mse is applied to output 'reg'", 'two', 'reg.npz', '--loss', 'mse')
    need('--loss mse acts on an output without a target', moved('two.onnx') == {'w', 'b', 'w2', 'b2'})
    train(0, "output 'reg': no target", 'two', 'one.npz')
    train(4, "two.npz: array 'target_reg' is not used", 'two', 'two.npz', '--loss', 'cls=cross_entropy')
    train(4, "array 'target_reg' is not used", 'two', 'two.npz', '--loss', 'cross_entropy')
    train(0, "output 'reg': no target", 'two', 'two.npz', '--loss', 'cls=cross_entropy', '--loss', 'reg=mse:weight=0')
    need('a head with weight 0 decays', moved('two.onnx') == {'w', 'b', 'w1', 'b1'})

    train(4, "nope.npz: array 'target_nope': the model has no output 'nope'; its outputs are 'out'", 'one', 'nope.npz')
    train(4, "nope.npz: no target", 'one', 'nope.npz', '--loss', 'cross_entropy')
    expect(4, "'target_nope'", 'eval', 'one.onnx', '--data', 'nope.npz')
    train(0, "extra.npz: 'z', 'zz' are not used", 'one', 'extra.npz')
    expect(0, "'z', 'zz' are not used", 'run', 'one.onnx', '--data', 'extra.npz', '-o', 'y.npz')
    train(4, ['floats.npz: ', 'expected integer class numbers', '--loss cross_entropy'], 'one', 'floats.npz')
    train(0, '', 'one', 'floats.npz', '--loss', 'cross_entropy')
    train(4, ["names.npz: input 'x' is float32 [?,4]: the data has no array of this name; its arrays are 'X' float32 [40,4], 'y' int64 [40]",
              "--inputs 'x=X'", '--target ARRAY'], 'one', 'names.npz')
    train(4, ['xy.npz: no target', '--target'], 'one', 'xy.npz')
    train(4, "high.npz: target 'target': sample 7 has class 3", 'one', 'high.npz')
    train(3, 'a loss needs floats', 'largest', 'one.npz', never=['--loss cross'])
    train(0, "loss cross_entropy on output 'out'", 'one', 'one.npz')
    train(0, "loss cross_entropy on output 'out'", 'one', 'one.npz', '--loss', 'cross_entropy', never=['(default'])

    # Each loss by itself, before its weight: on the screen, in the log, by eval.
    given = '--loss', 'cls=cross_entropy:weight=0.5', '--loss', 'reg=mse:weight=2'
    for options, parts in ((), lambda q: q['cls'] + q['reg']), (given, lambda q: q['cls'] / 2 + 2 * q['reg']), \
            (given + ('--accumulate', '2'), lambda q: q['cls'] / 2 + 2 * q['reg']):
        train(0, ['(cls ', ', reg ', 'val: loss '], 'two', 'two.npz', '--log', 'two.jsonl', '--val', 'two.npz', *options)
        lines = [q for q in map(json.loads, open('two.jsonl')) if q['event'] in ('step', 'eval')]
        off = [abs(q['loss'] - parts(q['losses'])) / q['loss'] for q in lines]
        need(f'{options}: losses {lines} do not give the loss', len(lines) >= 3 and max(off) < 1e-6)
        line = [q for q in options if q != '--accumulate' and q != '2']
        out = json.loads(subprocess.run([program, 'eval', 'out.onnx', '--data', 'two.npz', '--json', *line], capture_output=True, text=True).stdout)
        need(f'eval: {out} instead of {lines[-1]}', all(abs(out['losses'][n] - v) < 1e-6 for n, v in lines[-1]['losses'].items()))
        text = subprocess.run([program, 'eval', 'out.onnx', '--data', 'two.npz', *line], capture_output=True, text=True).stdout
        need(f'eval does not name the losses: {text}', all('  ' + n + '\n' in text for n in out['losses']))
    train(0, '', 'one', 'one.npz', '--log', 'two.jsonl')
    need('one loss is told as several', 'losses' not in open('two.jsonl').read())

    # A model with a loss of its own, and an input that is called target.
    model('own.onnx', [('Gemm', ['x', 'w', 'b'], ['h'], {}), ('Sub', ['h', 'target'], ['d'], {}), ('Mul', ['d', 'd'], ['q'], {}),
                       ('ReduceMean', ['q'], ['loss'], {'keepdims': 0})],
          [value('x', T.FLOAT, ['N', 4]), value('target', T.FLOAT, ['N', 1])], [value('loss', T.FLOAT, [])],
          [weight('w', 4, 1), weight('b', 1)])
    with np.load('reg.npz') as d:
        np.savez('own.npz', x=d['x'], target=d['target_reg'])
    train(0, "loss output on output 'loss'", 'own', 'own.npz')

    # --target wins over an array that is called target.
    train(0, "'target' is not used", 'one', 'both.npz', '--target', 'y')
    y = [open('out.onnx', 'rb').read()]
    with np.load('both.npz') as d:
        np.savez('only.npz', x=d['x'], target=d['y'])
    train(0, '', 'one', 'only.npz')
    y.append(open('out.onnx', 'rb').read())
    need('--target y learns another array', y[0] == y[1])


def classes():
    """A table's texts have the numbers that the model was trained with, whichever of them another table holds."""
    def write(name, last):
        with open(name, 'w') as f:
            f.write('p,q,r,s,kind\n' + ''.join(f'{i},{i % 7},1,{-i},{last(i)}\n' for i in range(12)))

    def names(path='out.onnx'):
        return {q.key: q.value for q in onnx.load(path).metadata_props}.get('onnxtrain.classes')

    def results(data, path='kept.onnx'):
        return subprocess.run([program, 'eval', path, '--data', data], capture_output=True, text=True).stdout.split('\n\n')

    write('k.csv', lambda i: ('ant', 'bee', 'cäsar, "C"')[i % 3].replace('"', '').replace(',', ' '))
    write('two_kinds.csv', lambda i: ('bee', 'cäsar  C')[i % 2])
    write('numbers_too.csv', lambda i: 1 + i % 2)
    write('other.csv', lambda i: ('bee', 'dog')[i % 2])
    write('whole.csv', lambda i: i % 3)
    train(0, '', 'one', 'k.csv', '--run-dir', 'kinds', '--val', 'k.csv')
    os.rename('out.onnx', 'kept.onnx')
    need(f'classes in the file: {names("kept.onnx")}', json.loads(names('kept.onnx') or '0') == ['ant', 'bee', 'cäsar  C'])
    need('classes in the best model', names('kinds/best.onnx') == names('kept.onnx'))
    texts, numbers = results('two_kinds.csv'), results('numbers_too.csv')
    need(f'classes of another table have other numbers: {texts} {numbers}', texts == numbers and ' 1 bee' in texts[1] and ' 0 ant' in texts[1])
    expect(4, "other.csv: column 'kind' has class 'dog', which is not in kept.onnx", 'eval', 'kept.onnx', '--data', 'other.csv')
    with np.load('one.npz') as d:
        need('names are not shown for class numbers', ' 2 c' in results('one.npz')[1])
    # Trained on: the same numbers, the same bytes; another task has its own.
    train(0, '', 'kept', 'two_kinds.csv', '--optimizer', 'sgd:lr=0', never=['are remapped'])
    need('training on changes the file', open('out.onnx', 'rb').read() == open('kept.onnx', 'rb').read())
    train(4, "target 'kind' has 2 classes, but output 'out' has 3; --classes auto replaces the last layer by a new one for the classes of the data; "
          '--classes 3 keeps it', 'kept', 'other.csv')
    train(0, "has class 'dog', which is not in kept.onnx (classes ", 'kept', 'other.csv', '--classes', '3')
    need(f'classes of another task: {names()}', names() == '["bee","dog"]')
    train(0, "k.csv: strings in column 'kind' are 3 classes: ant 0, bee 1, cäsar  C 2", 'one', 'k.csv')
    # Their numbers are no values.
    graph = helper.make_graph([helper.make_node('MatMul', ['x', 'w'], ['y'])], 'g', [value('x', T.FLOAT, ['N', 4])], [value('y', T.FLOAT, ['N', 1])], [weight('w', 4, 1)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'single.onnx')
    for loss in 'mse', 'l1', 'huber', 'kl', 'bce_with_logits':
        train(4, f"column 'kind' contains strings, 3 classes ('ant', 'bee' ...), but loss {loss} needs numbers: use cross_entropy", 'single', 'k.csv', '--loss', loss)
    train(4, "3 classes ('ant', 'bee' ...), but output 'y' has one value per sample: use cross_entropy", 'single', 'k.csv')
    train(4, "2 classes ('bee', 'cäsar  C'), but loss mse needs numbers", 'single', 'two_kinds.csv', '--loss', 'mse')
    train(0, "2 classes: bee 0, cäsar  C 1", 'single', 'two_kinds.csv', '--loss', 'bce_with_logits')
    # No texts, no change.
    train(0, '', 'one', 'whole.csv', '--optimizer', 'sgd:lr=0')
    need('class numbers change the file', open('out.onnx', 'rb').read() == open('one.onnx', 'rb').read())


def names_that_meet():
    """A tensor inside a function whose name is taken: patterns reach it, and not the other, by its number."""
    f = helper.make_function('own', 'F', ['a'], ['c'], [helper.make_node('Constant', [], ['k'], value=weight('', 4, 3)),
                                                        helper.make_node('MatMul', ['a', 'k'], ['c'])], [helper.make_opsetid('', 17)])
    nodes = [helper.make_node('MatMul', ['x', 'one/k'], ['p']), helper.make_node('F', ['x'], ['q'], name='one', domain='own'),
             helper.make_node('Add', ['p', 'q'], ['out'])]
    graph = helper.make_graph(nodes, 'g', [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])], [weight('one/k', 4, 3)])
    onnx.save(helper.make_model(graph, functions=[f], opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid('own', 1)], ir_version=8), 'meet.onnx')

    def both(path):
        m = onnx.load(path)
        return [m.graph.initializer[0], m.functions[0].node[0].attribute[0].t]

    for options, moves in (((), [True, True]), (('--lr-scale', 'one/k=0'), [False, True]), (('--lr-scale', 'one/k#2=0'), [True, False]),
                           (('--lr-scale', 'one/*=0'), [False, False]), (('--lr-scale', 'one/*=0', '--lr-scale', 'one/k#2=1'), [False, True]),
                           (('--freeze', 'one/k#2'), [True, False]), (('--freeze', 'one/k'), [False, True])):
        train(0, '', 'meet', 'one.npz', '--optimizer', 'sgd:lr=0.1', *options)
        got = [a != b for a, b in zip(both('meet.onnx'), both('out.onnx'))]
        need(f'{options}: moved {got}, {moves} is right', got == moves)
    train(2, 'one/k#3', 'meet', 'one.npz', '--lr-scale', 'one/k#3=0')


# ---- the loss that is chosen -----------------------------------------------------------------


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def bce(z, t):
    return (np.maximum(z, 0) - z * t + np.log1p(np.exp(-np.abs(z)))).mean()


def chosen():
    """What each tail takes for each kind of target: the line that says it, and the number, against the formula."""
    with np.load('one.npz') as d:
        x, c = d['x'], d['target']
    hot, several = np.eye(3, dtype=np.float32)[c], (x[:, :3] > 0).astype(np.float32)
    shares = np.exp(log_softmax(x[:, :3])).astype(np.float32)
    yes = (c > 0).astype(np.int64)
    targets = {'classes': c, 'hot': hot, 'hot integers': hot.astype(np.int64), 'shares': shares, 'several': several, 'values': x[:, 1:],
               'yes': yes, 'yes column': yes[:, None].astype(np.float32), 'whole': c * 7 - 3,
               'ones': np.ones((len(c), 1), np.float32)}

    def mse(y, t):
        return ((y - t) ** 2).mean()

    def ce(z, t):
        return -(t * log_softmax(z)).sum(-1).mean()

    tails = {'LogSoftmax': log_softmax, 'Softmax': lambda z: np.exp(log_softmax(z)), 'Sigmoid': lambda z: 1 / (1 + np.exp(-z)), 'HardSigmoid': lambda z: np.clip(.2 * z + .5, 0, 1),
             'Identity': lambda z: z, 'Tanh': np.tanh}
    rows = [(3, tail, t, f'loss {loss} combined with the {tail}', lambda z, y, t=t: ce(z, hot if t != 'shares' else shares))
            for tail, loss in (('LogSoftmax', 'nll'), ('Softmax', 'cross_entropy')) for t in ('classes', 'hot', 'hot integers', 'shares')]
    rows += [(3, 'Sigmoid', t, 'loss bce combined', lambda z, y, t=t: bce(z, targets[t])) for t in ('hot', 'hot integers', 'several')]
    rows += [(3, tail, 'values', 'loss mse', lambda z, y: mse(y, x[:, 1:])) for tail in tails]
    rows += [(3, 'Identity', t, 'loss cross_entropy on', lambda z, y: ce(z, hot)) for t in ('classes', 'hot integers', 'hot')]
    rows += [(3, 'Tanh', 'hot', 'loss mse on output \'out\' (default; change with --loss; use --loss cross_entropy for one-hot targets', lambda z, y: mse(y, hot)),
             (1, 'Identity', 'ones', 'loss mse', lambda z, y: mse(y, 1)), (3, 'Tanh', 'several', 'loss mse', lambda z, y: mse(y, targets['several'])),
             (3, 'Identity', 'several', None, 'use --loss bce_with_logits for logits, or mse for values'),
             (1, 'Identity', 'yes column', None, 'use --loss bce_with_logits for logits, or mse for values'),
             (1, 'Sigmoid', 'yes', 'loss bce combined', lambda z, y: bce(z, yes[:, None])),
             (1, 'Sigmoid', 'yes column', 'loss bce combined', lambda z, y: bce(z, yes[:, None])),
             (1, 'HardSigmoid', 'yes column', "loss bce on output 'out'", lambda z, y: -np.mean(np.where(yes[:, None], np.maximum(np.log(np.maximum(y, 1e-99)), -100), np.maximum(np.log(np.maximum(1 - y, 1e-99)), -100)))),
             (1, 'Identity', 'whole', 'loss mse', lambda z, y: mse(y, targets['whole'][:, None])),
             (3, 'LogSoftmax', 'several', None, 'it contains log-probabilities (LogSoftmax)'), (3, 'Sigmoid', 'classes', 'loss bce combined', lambda z, y: bce(z, hot)),
             (1, 'Identity', 'yes', None, 'does not end in Sigmoid'), (1, 'Sigmoid', 'whole', None, 'mse for values')]
    for n, tail, t, line, loss in rows:
        w, b = weight('w', 4, n), weight('b', n)
        model('tail.onnx', [('Gemm', ['x', 'w', 'b'], ['z'], {}), (tail, ['z'], ['out'], {'axis': -1} if 'max' in tail else {})],
              [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', n])], [w, b])
        np.savez('tail.npz', x=x, target=targets[t])
        if not line:
            train(2, ["no default loss for output 'out'", loss], 'tail', 'tail.npz')
            continue
        train(0, line, 'tail', 'tail.npz', '--batch-size', '40', '--no-shuffle', '--log', 'tail.jsonl', '--optimizer', 'sgd:lr=0')
        z = x.astype(np.float64) @ numpy_helper.to_array(w) + numpy_helper.to_array(b)
        want = loss(z, tails[tail](z))
        got = [json.loads(q).get('loss') for q in open('tail.jsonl')][1]
        need(f'{tail} {n}, {t}: loss {got}, {want} is right', abs(got - want) <= 1e-5 * (1 + abs(want)))


def followed():
    """A validation set with no other values than 0 and 1 has the loss of a training set with others."""
    model('of.onnx', [('Gemm', ['x', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 1])], [weight('w', 4, 1), weight('b', 1)])
    x = np.random.default_rng(7).standard_normal((60, 4)).astype(np.float32)
    for type in np.float32, np.int64:
        for kinds in 3, 2:
            np.savez(f'of{kinds}.npz', x=x, target=(np.arange(60) % kinds).astype(type)[:, None])
        train(0, 'loss mse', 'of', 'of3.npz', '--val', 'of2.npz')


def from_one():
    """Class numbers that begin with 1: the message says so, and names no layer with a class that has no samples."""
    model('three.onnx', [('Gemm', ['x', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])], [weight('w', 4, 3), weight('b', 3)])
    x = np.random.default_rng(7).standard_normal((60, 4)).astype(np.float32)
    for most, texts in (3, ['those of the target are 1 to 3: subtract 1']), (4, ['those of the target are 1 to 4', '--classes auto']):
        np.savez('from.npz', x=x, target=np.arange(60) % most + 1)
        expect(4, texts, 'three.onnx', '--data', 'from.npz', '--run-dir', 'none', '-o', 'out.onnx', never=['--classes auto'] if most == 3 else [])
    train(0, 'class 0 has no samples', 'three', 'from.npz', '--classes', 'auto')


def twins():
    """A tied weight that an exporter has stored twice is told, for nothing in the file says whether it is tied."""
    table = rng.standard_normal((50, 8)).astype(np.float32)
    for name, first, copy, equal in (('tied', 'embed.weight', 'onnx::MatMul_9', True), ('apart', 'embed.weight', 'onnx::MatMul_9', False),
                                     ('made', 'onnx::Gather_3', 'onnx::MatMul_9', True), ('keras', 'embed/ReadVariableOp:0', 'head/transpose:0', True),
                                     ('other', 'embed/ReadVariableOp:0', 'head/kernel:0', False)):
        e, told = numpy_helper.from_array(table, first), equal
        second = numpy_helper.from_array(np.ascontiguousarray(table.T), copy) if equal else weight(copy, 8, 50)
        model(name + '.onnx', [('Gather', [first, 'ids'], ['h'], {}), ('MatMul', ['h', copy], ['out'], {})],
              [value('ids', T.INT64, ['N', 6])], [value('out', T.FLOAT, ['N', 6, 50])], [e, second])
        np.savez('next.npz', ids=rng.integers(0, 50, (8, 6)), target=rng.integers(0, 50, (8, 6)))
        text = 'warning: tensors are copies of another weight, transposed'
        train(0, [text, f'{copy} of {first}'] if told else '', name, 'next.npz', never=[] if told else [text])


def undecided():
    """A constant by its place alone, under a name of the program's, is told: nothing in the file says whether it is a parameter."""
    text = 'does not train: it normalises an input, as constants often are (shift)'
    for name, first in ('shifted', 'shift'), ('literal', '/Constant_output_0'):
        model(name + '.onnx', [('Sub', ['x', first], ['h'], {}), ('Gemm', ['h', 'fc.weight', 'fc.bias'], ['out'], {})], [value('x', T.FLOAT, ['N', 4])],
              [value('out', T.FLOAT, ['N', 3])], [weight(first, 4), weight('fc.weight', 4, 3), weight('fc.bias', 3)])
        train(0, [text] if first == 'shift' else '', name, 'one.npz', '--verbose', never=[] if first == 'shift' else ['does not train'])
    train(0, '', 'shifted', 'one.npz', '--verbose', '--train', 'shift', never=[text])


def zeros():
    """One tensor of zeros among trained ones may be a buffer; two are biases as they are before training."""
    text = 'trains from zeros, as no other tensor does (offset): if it is a buffer and no parameter'
    for more in ([], ['late']):
        named = [f'w{i}' for i in range(8)] + ['offset'] + more
        nodes = [('MatMul' if i < 8 else 'Add', ['x' if not i else f'h{i - 1}', n], ['out' if n == named[-1] else f'h{i}'], {}) for i, n in enumerate(named)]
        tensors = [weight(n, 4, 4) for n in named[:8]] + [numpy_helper.from_array(np.zeros((1, 4), np.float32), n) for n in named[8:]]
        model('zeros.onnx', nodes, [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 4])], tensors)
        out = subprocess.run([program, 'check', 'zeros.onnx'], capture_output=True, text=True)
        need(f'what is told of zeros: {out.stdout}{out.stderr}', out.returncode == 0 and (text in out.stdout) == (not more))


def statistics():
    model('norm.onnx', [('Gemm', ['x', 'w', 'b'], ['h'], {}), ('BatchNormalization', ['h', 's', 'o', 'm', 'v'], ['out'], {})],
          [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])],
          [weight('w', 4, 3), weight('b', 3)] + [numpy_helper.from_array(np.full(3, k, np.float32), n) for n, k in (('s', 1), ('o', 0), ('m', 0), ('v', 1))])
    train(2, "--train m: 'm' is a running statistic", 'norm', 'one.npz', '--train', 'm')
    train(0, '', 'norm', 'one.npz', '--train', '?')


def by_data():
    """Where sizes depend on data a batch of the file's is all that is computed: more would be mixed."""
    for name, node in ('unique', ('Unique', ['h'], ['out'], {'axis': 0})), ('some', ('NonZero', ['h'], ['out'], {})):
        t = T.INT64 if name == 'some' else T.FLOAT
        model('sizes.onnx', [('Abs', ['x'], ['h'], {}), node], [value('x', T.FLOAT, [1, 3])], [value('out', t, [None, None])], [])
        np.savez('two.npz', x=np.array([[3, 2, 1], [1, 2, 3]], np.float32))
        np.savez('one_row.npz', x=np.array([[3, 2, 1]], np.float32))
        expect(4, 'sizes in this model depend on the data, so its fixed batch size 1 cannot become 2: use batches of 1', 'run', 'sizes.onnx', '--data', 'two.npz', '-o', 'y.npz')
        expect(0, '', 'run', 'sizes.onnx', '--data', 'one_row.npz', '-o', 'y.npz')


def skipped():
    """Updates that were skipped are counted, their losses are in no mean, and where all were nothing is written."""
    def lines():
        return [json.loads(s) for s in open("l.jsonl")] if os.path.exists("l.jsonl") else []

    model('root.onnx', [('MatMul', ['x', 'w'], ['h'], {}), ('Sqrt', ['h'], ['out'], {})],
          [value('x', T.FLOAT, ['N', 1])], [value('out', T.FLOAT, ['N', 1])], [numpy_helper.from_array(np.ones((1, 1), np.float32), 'w')])
    few = np.ones((8, 1), np.float32)
    few[:4] = -1  # the first of two batches has no root
    np.savez('few.npz', x=few, target=2 * np.ones((8, 1), np.float32))
    np.savez('none.npz', x=-np.ones((8, 1), np.float32), target=np.ones((8, 1), np.float32))
    options = ['--batch-size', '4', '--no-shuffle', '--optimizer', 'sgd:lr=0', '--loss', 'mse', '--log', 'l.jsonl', '--on-nonfinite', 'skip']
    train(0, ['warning: 1 of 2 updates were skipped', 'train: loss 1,'], 'root', 'few.npz', *options)
    if os.path.exists('out.onnx'):
        os.remove('out.onnx')
    train(6, 'all updates were skipped', 'root', 'none.npz', *options)
    need('a model that no update reached is written', not os.path.exists('out.onnx'))
    need('a skipped update is not marked', all(e.get('nonfinite') for e in lines() if e['event'] == 'step'))
    expect(0, ['warning: the loss is NaN', "warning: 1 of 1 gradients contain NaN or infinity (first: 'w')"],
           'grad', 'root.onnx', '--data', 'none.npz', '-o', 'g.npz', '--loss', 'mse')


def empty():
    """No samples are run as they are, whatever batch the file has."""
    for n in 1, 99:
        model('fixed.onnx', [('MatMul', ['x', 'w'], ['out'], {})], [value('x', T.FLOAT, [n, 3])], [value('out', T.FLOAT, [n, 2])], [weight('w', 3, 2)])
        np.savez('zero.npz', x=np.zeros((0, 3), np.float32))
        expect(0, '', 'run', 'fixed.onnx', '--data', 'zero.npz', '-o', 'y.npz')
        need('an output of no samples', np.load('y.npz')['out'].shape == (0, 2))


def finite():
    for name, says in ('nan', 'NaN'), ('inf', 'infinity'), ('low', 'negative infinity'):
        train(4, f'{name}.npz: x: sample 17 contains {says}', 'one', name + '.npz')
        train(4, f'{name}_y.npz: target: sample 5 contains {says}', 'value', name + '_y.npz')
        expect(4, 'sample 17', 'eval', 'one.onnx', '--data', name + '.npz')
    model('masked.onnx', [('Add', ['x', 'mask'], ['m'], {}), ('Softmax', ['m'], ['s'], {}), ('Gemm', ['s', 'w', 'b'], ['out'], {})],
          [value('x', T.FLOAT, ['N', 4]), value('mask', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])],
          [weight('w', 4, 3), weight('b', 3)])
    with np.load('one.npz') as d:
        mask = np.where(np.arange(4) < 2, 0, -np.inf).astype(np.float32) + np.zeros((40, 4), np.float32)
        np.savez('masked.npz', x=d['x'], mask=mask, target=d['target'])
    train(0, '', 'masked', 'masked.npz')
    model('imputed.onnx', [('Slice', ['x', 'from', 'to', 'axis'], ['part'], {}), ('IsNaN', ['part'], ['gap'], {}), ('Where', ['gap', 'fill', 'part'], ['full'], {}),
                           ('Gemm', ['full', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])],
          [weight('w', 2, 3), weight('b', 3), weight('fill', 2)] + [numpy_helper.from_array(np.array([v]), n) for n, v in (('from', 0), ('to', 2), ('axis', 1))])
    train(0, '', 'imputed', 'nan.npz') # the model asks what is missing, and fills it in
    train(4, 'inf.npz: x: sample 17 contains infinity', 'imputed', 'inf.npz')


def pairs():
    """Scores of a batch of one: each sample with itself, which is said."""
    model('pairs.onnx', [('MatMul', ['x', 'w'], ['a'], {}), ('MatMul', ['x', 'v'], ['b'], {}), ('Transpose', ['b'], ['t'], {'perm': [1, 0]}), ('MatMul', ['a', 't'], ['out'], {'name': 'scores'})],
          [value('x', T.FLOAT, [1, 4])], [value('out', T.FLOAT, [1, 1])], [weight('w', 4, 3), weight('v', 4, 3)])
    np.savez('pairs.npz', x=rng.standard_normal((8, 4)).astype(np.float32), target=np.ones((8, 1), np.float32))
    train(0, 'scores: multiplies each sample with itself', 'pairs', 'pairs.npz', '--batch-size', '4', '--loss', 'mse')
    train(0, '', 'pairs', 'pairs.npz', '--batch-size', '1', '--loss', 'mse', never=['with itself; with a dynamic batch'])


def lookups():
    train(0, '', 'tokens', 'ids.npz')
    train(4, ["wrong.npz: array 'ids': sample 33 has index 50", '/e/Gather', '0 to 49'], 'tokens', 'wrong.npz')
    expect(4, 'sample 33 has index 50', 'eval', 'tokens.onnx', '--data', 'wrong.npz')


# ---- --normalize --------------------------------------------------------------------------


def normalized():
    """What the scaled bytes come to, against the same numbers made here."""
    x = np.load('y_bytes.npz')['x'].astype(np.float32)
    mean, std = np.array([.485, .456, .406]).reshape(3, 1, 1), np.array([.229, .224, .225]).reshape(3, 1, 1)
    session = onnxruntime.InferenceSession('conv.onnx', providers=['CPUExecutionProvider'])
    for option, by in (None, x), ('none', x), ('1/255', x / 255), ('imagenet', (x / 255 - mean) / std), \
            ('0.5,0.25', (x / 255 - 0.5) / 0.25):
        extra = ['--normalize', option] if option else []
        says = 'fed as 0..255; use --normalize 1/255' if not option else 'pixels'
        expect(0, says, 'run', 'conv.onnx', '--data', 'y_bytes.npz', '-o', 'y.npz', *extra)
        want = session.run(None, {'x': by.astype(np.float32)})[0]
        off = np.abs(np.load('y.npz')['out'] - want).max()
        need(f'run --normalize {option}: off by {off}', off <= 1e-5 * np.abs(want).max())
    expect(2, 'needs the training set', 'run', 'conv.onnx', '--data', 'y_bytes.npz', '-o', 'y.npz', '--normalize', 'mean,std')

    # Training: bytes with --normalize are the floats that they stand for.
    def trained(data, *extra):
        train(0, '', 'conv', data, '--seed', '1', *extra)
        return weights('out.onnx')

    with np.load('bytes.npz') as d:
        p, label = d['x'].astype(np.float64) / 255, d['target']
    m, s = p.mean((0, 2, 3), keepdims=True), p.std((0, 2, 3), keepdims=True)
    np.savez('measured.npz', x=((p - m) / s).astype(np.float32), target=label)
    for option, data in ('1/255', 'unit.npz'), ('mean,std', 'measured.npz'):
        a, b = trained('bytes.npz', '--normalize', option), trained(data)
        start = weights('conv.onnx')
        for n in a:
            off, step = np.abs(a[n] - b[n]).max(), np.abs(b[n] - start[n]).max()
            need(f'training with --normalize {option}: {n} off by {off} of {step}', off <= 1e-2 * step)
        train(0, 'pixels', 'conv', 'bytes.npz', '--normalize', option)
        # One set alone has no numbers of a training set.
        expect(2 if option == 'mean,std' else 0, 'instead of the training set' if option == 'mean,std' else 'pixels', 'eval', 'conv.onnx', '--data', 'bytes.npz',
               '--normalize', option)
        expect(0, 'pixels', 'eval', 'conv.onnx', '--data', 'bytes.npz', '--test', 'bytes.npz', '--normalize', option)
        expect(0, 'pixels', 'grad', 'conv.onnx', '--data', 'bytes.npz', '--normalize', option, '-o', 'g.npz')
    train(0, "uint8 array 'x' is fed as 0..255; use --normalize 1/255", 'conv', 'bytes.npz')
    train(0, "uint8 array 'x' is fed as 0..255", 'flat', 'flat.npz')
    train(0, 'pixels', 'flat', 'flat.npz', '--normalize', 'mean,std')
    train(2, 'does not apply to flat.npz', 'flat', 'flat.npz', '--normalize', 'imagenet')
    train(2, 'does not apply to unit.npz', 'conv', 'unit.npz', '--normalize', '1/255')
    train(0, '', 'conv', 'unit.npz', '--normalize', 'none')
    train(2, 'does not apply to small.npz', 'tokens', 'small.npz', '--normalize', '1/255')
    expect(2, 'does not apply to xy.npz', 'run', 'one.onnx', '--data', 'xy.npz', '-o', 'y.npz', '--normalize', '1/255')
    expect(2, 'does not apply to unit.npz', 'eval', 'conv.onnx', '--data', 'unit.npz', '--normalize', 'imagenet')
    # A set to evaluate on may be floats already; bytes that are not scaled beside others that are stand out.
    train(0, 'bytes.npz are scaled, but unit.npz is fed unchanged (float32)', 'conv', 'bytes.npz', '--normalize', '1/255', '--val', 'unit.npz')
    train(0, "array 'x': channels are moved first for input 'x', each sample is [3,8,8]", 'conv', 'last.npz')
    expect(4, "input 'x' is", 'run', 'conv.onnx', '--data', 'last.npz', '-o', 'y.npz')


# ---- options that do little ------------------------------------------------------------------


def advice():
    train(0, 'warning: --batch-size 100000: the training set has 40 samples', 'one', 'one.npz', '--batch-size', '100000')
    train(0, 'repeat within a batch', 'one', 'one.npz', '--batch-size', '64', '--no-shuffle')
    train(0, 'warning: --accumulate 1000: an epoch has 2 batches', 'one', 'one.npz', '--accumulate', '1000')
    train(0, '', 'one', 'one.npz', '--batch-size', '40', '--accumulate', '1', never=['warning'])
    train(0, '--train adds to the initializers that train by default', 'one', 'one.npz', '--train', 'w*')
    train(0, '', 'one', 'one.npz', '--train', 'w*', '--freeze', '*', never=['--train adds'])
    need('--freeze * --train w* trains others', moved('one.onnx') == {'w'})
    train(0, '--dropout 0.5: no effect: the model has no Dropout', 'one', 'one.npz', '--dropout', '0.5')
    train(0, '--bn frozen: no effect: the model has no BatchNormalization', 'one', 'one.npz', '--bn', 'frozen')
    train(0, '--bn-variance unbiased: no effect: the model has no BatchNormalization', 'one', 'one.npz', '--bn-variance', 'unbiased')
    train(0, 'warning: --min-delta: no effect without --patience', 'one', 'one.npz', '--min-delta', '0.1', '--val-split', '0.2', '--select', 'best')
    train(0, '', 'one', 'one.npz', '--min-delta', '0.1', '--patience', '3', never=['--min-delta'])
    train(0, 'warning: --unfreeze w@9: the run has 1 epoch: these initializers never train', 'one', 'one.npz', '--unfreeze', 'w@9')
    train(0, '', 'one', 'one.npz', '--unfreeze', 'w@1', never=['never train'])
    train(2, 'cycle_momentum needs an optimizer with momentum', 'one', 'one.npz', '--optimizer', 'adagrad', '--schedule', 'onecycle:cycle_momentum=true')
    train(0, 'all updates have 4 batches, which continue with the first sample after the last: an epoch of 2 updates takes 72 samples of 40', 'one', 'one.npz', '--no-shuffle',
          '--accumulate', '4', '--batch-size', '9')
    train(0, '', 'one', 'one.npz', '--no-shuffle', '--accumulate', '2', '--batch-size', '7', never=['all updates have'])
    train(0, 'schedule plateau uses the loss of each update', 'one', 'one.npz', '--schedule', 'plateau')
    train(0, 'schedule plateau uses the mean training loss of each epoch', 'one', 'one.npz', '--schedule', 'plateau:per=epoch,patience=0,factor=0.5,threshold=0.9',
          '--optimizer', 'sgd:lr=0.001', '--batch-size', '10', '--steps', '16', '--log', 'plateau.jsonl')
    rates = [e['lr'] for e in map(json.loads, open('plateau.jsonl')) if e['event'] == 'step']
    need(f'rates of a plateau of epochs: {rates}', np.allclose(rates, np.repeat([1e-3, 1e-3, 5e-4, 2.5e-4], 4)))
    train(0, '--drop-last: no effect with --no-shuffle', 'one', 'one.npz', '--drop-last', '--no-shuffle')
    train(0, ['schedule plateau uses the loss of each evaluation', 'the same 40 samples'], 'one', 'one.npz', '--schedule', 'plateau',
          '--val', 'one.npz', never=['others'])
    # mode=max needs something that rises: a loss is refused, and the rate follows the metric of --monitor
    most = ['--schedule', 'plateau:mode=max,patience=0,factor=0.5', '--epochs', '4', '--batch-size', '40']
    train(2, ['plateau:mode=max: no metric to maximise: no validation set', '--val-split'], 'one', 'one.npz', *most)
    train(0, 'schedule plateau uses the accuracy of each evaluation', 'one', 'one.npz', '--val', 'one.npz', *most)
    np.savez('reg_one.npz', x=np.load('reg.npz')['x'], target=np.repeat(np.load('reg.npz')['target_reg'], 3, 1))
    values = ['one', 'reg_one.npz', '--val', 'reg_one.npz', '--loss', 'mse', '--optimizer', 'sgd:lr=0.01', *most]
    train(2, ['no output has an accuracy', '--monitor'], *values)
    train(0, 'schedule plateau uses the monitored metric of each evaluation', *values, '--monitor', 'r2', '--steps', '4', '--log', 'rises.jsonl')
    rates = [e['lr'] for e in map(json.loads, open('rises.jsonl')) if e['event'] == 'step']
    need(f'r2 rises, and the rate falls: {rates}', rates == [0.01] * 4)


    # A batch size of the file's own, and what `run` does not look at.
    model('baked.onnx', [('Gemm', ['x', 'w', 'b'], ['z'], {}), ('Reshape', ['z', 's'], ['out'], {})], [value('x', T.FLOAT, [2, 4])],
          [value('out', T.FLOAT, [2, 3])], [weight('w', 4, 3), weight('b', 3), numpy_helper.from_array(np.array([2, 3]), 's')])
    train(0, 'the model has a fixed batch size of 2 and is adapted to batch size 32 (1 operator changed); the written file keeps its own',
          'baked', 'one.npz')
    shape = onnx.load('out.onnx').graph.input[0].type.tensor_type.shape.dim[0].dim_value
    need(f'the written file has a batch size of {shape}', shape == 2)
    np.savez('x.npz', x=np.load('one.npz')['x'])
    expect(0, 'warning: --batch-size is ignored', 'run', 'one.onnx', '--data', 'x.npz', '-o', 'y.npz', '--batch-size', '4')
    model('modes.onnx', [('Gemm', ['x', 'w', 'b'], ['h'], {}), ('BatchNormalization', ['h', 's', 'o', 'm', 'v'], ['out', 'm2', 'v2'], {'training_mode': 1})],
          [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3]), value('m2', T.FLOAT, [3]), value('v2', T.FLOAT, [3])],
          [weight('w', 4, 3), weight('b', 3)] + [numpy_helper.from_array(np.full(3, k, np.float32), n) for n, k in (('s', 1), ('o', 0), ('m', 0), ('v', 1))])
    run = 'run', 'modes.onnx', '--data', 'x.npz', '-o', 'y.npz'
    expect(0, 'warning: BatchNormalization has training_mode=1 in the file', *run)
    expect(0, '', *run, '--mode', 'eval', never=['warning'])


def files():
    open('section.conf', 'w').write('seed = 1\n[training]\n')
    train(2, 'section.conf:2: sections such as [training] are not supported', 'one', 'one.npz', '--config', 'section.conf')
    expect(3, ['one.npz: is not an ONNX file', 'swapped'], 'one.npz', '--data', 'one.onnx')
    open('text.onnx', 'w').write('this is no model\n')
    expect(3, 'text.onnx: is not an ONNX file: it looks like text', 'text.onnx', '--data', 'one.npz')
    with zipfile.ZipFile('torch.pt', 'w') as z:
        z.writestr('torch/data.pkl', b'x')
    with zipfile.ZipFile('net.keras', 'w') as z:
        z.writestr('metadata.json', b'{}')
    for name, start in ('old.pt', b'\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'), ('net.tflite', b'\x1c\0\0\0TFL3' + bytes(40)), ('net.safetensors', b'\x08' + bytes(7) + b'{"a":{}}'), \
            ('lfs.onnx', b'version https://git-lfs.github.com/spec/v1\n'):
        open(name, 'wb').write(start)
    for name, said in ('torch.pt', 'PyTorch'), ('old.pt', 'PyTorch'), ('net.keras', 'a file of Keras'), ('net.tflite', 'TensorFlow Lite'), ('net.safetensors', 'no graph'), \
            ('lfs.onnx', 'git lfs pull'):
        expect(3, [f'{name}: is not an ONNX file', said], name, '--data', 'one.npz', never=['swapped'])
    call('new', 'autoencoder', '-o', 'auto.onnx')
    expect(4, ['mnist: ', 'or values (the whole shape)'], 'auto.onnx', '--data', 'mnist', '--run-dir', 'run', '-o', 'out.onnx')
    expect(4, '(an unnamed one', 'auto.onnx', '--data', 'mnist', '--target', 'images', '--run-dir', 'run', '-o', 'out.onnx')
    for target in 'image', 'input':
        expect(0, "target of output 'output': input 'input' as it is fed, scaled alike", 'auto.onnx', '--data', 'mnist', '--target', target, '--steps', '2',
               '--run-dir', 'none', '-o', 'out.onnx')
        expect(0, 'as it is fed', 'eval', 'out.onnx', '--data', 'mnist', '--target', target)
    open('one.npz.gz', 'wb').write(gzip.compress(open('one.npz', 'rb').read()))
    train(4, 'one.npz.gz: is compressed with gzip as a whole', 'one', 'one.npz.gz')


def named():
    os.makedirs('cifar100/other')
    train(4, 'the folder cifar100 here has other files: to open it as it is, write ./cifar100', 'one', 'cifar100')
    train(4, 'cifar10: the data set was not found', 'one', 'cifar10', never=['write ./cifar10'])
    """Messages name the arrays and numbers that they are about."""
    x, wide = np.zeros((300, 4), np.float32), np.zeros((300, 5), np.float32)
    np.savez('short.npz', x=x, target=np.zeros(299, np.int64))
    train(4, ["array 'x'", '300', "target 'target'", '299'], 'one', 'short.npz')
    model('two-at-once.onnx', [('Gemm', ['x', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, [2, 4])], [value('out', T.FLOAT, [2, 3])], [weight('w', 4, 3), weight('b', 3)])
    train(4, ["input 'x' is [2,4], but array 'x' is [300,4], 300 samples (target 'target' has 299)"], 'two-at-once', 'short.npz')
    np.savez('wide.npz', x=wide, target=np.zeros(300, np.int64))
    train(4, "array 'x' is [300,5]: 5 elements per sample, expected 4", 'one', 'wide.npz')
    np.savez('called.npz', x=x, out=np.zeros(300, np.int64))
    train(4, "'out' has the name of an output: save it as 'target_out'", 'one', 'called.npz')
    train(0, "loss cross_entropy on output 'out'", 'one', 'called.npz', '--target', 'out')
    # of two losses each names the array of its own output, not the first array with the name of any
    model('heads.onnx', [('Gemm', ['x', 'w', 'b'], ['first'], {}), ('Tanh', ['first'], ['second'], {})], [value('x', T.FLOAT, ['N', 4])],
          [value('first', T.FLOAT, ['N', 3]), value('second', T.FLOAT, ['N', 3])], [weight('w', 4, 3), weight('b', 3)])
    np.savez('heads.npz', x=x, first=np.zeros((300, 3), np.float32), second=np.zeros((300, 3), np.float32))
    train(4, ["'first' has the name of an output: save it as 'target_first'", "'second' has the name of an output: save it as 'target_second'"], 'heads', 'heads.npz',
          '--loss', 'first=mse', '--loss', 'second=mse')
    # what is no number before the first update is no matter of the rate
    model('log.onnx', [('Gemm', ['x', 'w', 'b'], ['h'], {}), ('Relu', ['h'], ['r'], {}), ('Log', ['r'], ['l'], {}), ('Sub', ['l', 'l'], ['out'], {})],
          [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])],
          [numpy_helper.from_array(np.zeros((4, 3), np.float32), 'w'), numpy_helper.from_array(np.zeros(3, np.float32), 'b')])
    np.savez('zeros.npz', x=x, target=np.zeros((300, 3), np.float32))
    train(6, 'step 1: the loss is NaN before the first update', 'log', 'zeros.npz', never=['smaller --lr'])
    np.savez('wild.npz', x=rng.standard_normal((40, 4)).astype(np.float32), target=rng.standard_normal((40, 3)).astype(np.float32))
    train(6, 'Try a smaller --lr', 'one', 'wild.npz', '--optimizer', 'sgd:lr=1e30', '--steps', '9', '--loss', 'mse')
    # A quantiser names its integers after the tensor: nothing is said of the exporter then.
    for name, kept in ('transposed', False), ('quantised', True):
        q = ('w_quantized', 's', 'z') if kept else ('val_1', 's', 'z')
        graph = helper.make_graph([helper.make_node('DequantizeLinear', list(q), ['d']), helper.make_node('MatMul', ['x', 'd'], ['out'])], 'g', [value('x', T.FLOAT, ['N', 4])],
                                  [value('out', T.FLOAT, ['N', 3])], [numpy_helper.from_array(np.ones((4, 3), np.int8), q[0]), numpy_helper.from_array(np.float32(0.1), 's'),
                                                                      numpy_helper.from_array(np.int8(0), 'z')])
        graph.metadata_props.add(key='pkg.torch.export.ExportedProgram.graph_signature', value="p_w: PARAMETER target='w'")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=10), name + '.onnx')
        said = "1 parameter of the PyTorch model is not in the file by name (first: 'w'): the exporter transposed, folded or merged it"
        train(0, '' if kept else said, name, 'one.npz', never=[said] if kept else [])
    # sequences
    graph = helper.make_graph([helper.make_node('ConcatFromSequence', ['xs'], ['x'], axis=0), helper.make_node('MatMul', ['x', 'w'], ['out'])], 'g',
                              [helper.make_tensor_sequence_value_info('xs', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, None)], [weight('w', 4, 2)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'sequence.onnx')
    np.savez('sequence.npz', **{'xs/0': x[:2], 'target': np.zeros((2, 2), np.float32)})
    train(3, "input 'xs' is a sequence; only 'onnxtrain run' accepts sequences", 'sequence', 'sequence.npz')


run((parameters, heads, classes, names_that_meet, chosen, followed, from_one, skipped, empty, twins, undecided, zeros, statistics, by_data, finite, pairs, lookups,
     normalized, advice, files, named), 'data, targets and options')
