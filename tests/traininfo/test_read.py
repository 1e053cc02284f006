"""TrainingInfoProto is followed: its algorithm and bindings drive the training, as NumPy does the same.

usage: test_read.py PROGRAM
"""
import os
import tempfile

from models import *

f4 = np.float32


def linear(algorithm, outputs, inputs=None, state=None, updates=None, start=None, outer=None):
    """y = xW + b with a training of its own."""
    g = graph([node('MatMul', ['x', 'W'], 'xW'), node('Add', ['xW', 'b'], 'y')], [value('x', ['n', 3])], [value('y', ['n', 1])], outer or {'W': np.zeros((3, 1), f4), 'b': np.zeros(1, f4)})
    a = graph(algorithm, inputs or [value('label', ['n', 1])], outputs, state, 'algorithm')
    m = model(g)
    t = m.training_info.add()
    t.algorithm.CopyFrom(a)
    for key, name in (updates or {}).items():
        t.update_binding.add(key=key, value=name)
    if start:
        t.initialization.CopyFrom(start[0])
        for key, name in start[1].items():
            t.initialization_binding.add(key=key, value=name)
    return m


SHAPES = {'W': [3, 1], 'b': [1]}
LOSS = [node('Sub', ['y', 'label'], 'd'), node('Mul', ['d', 'd'], 'dd'), node('ReduceMean', ['dd'], 'loss', keepdims=0), gradient(['W', 'b'], ['dW', 'db'], ['W', 'b'], 'loss')]


def by_hand(**more):
    """Plain steps, and a count of them."""
    step = [n for w in 'Wb' for n in (node('Mul', ['rate', f'd{w}'], f's{w}'), node('Sub', [w, f's{w}'], f'{w}_new'))] + [node('Add', ['T', 'one'], 'T_new')]
    return linear(LOSS + step, [value('loss', []), value('W_new', [3, 1]), value('b_new', [1]), value('T_new', [], TensorProto.INT64)], state={'rate': f4(.1), 'T': np.int64(0), 'one': np.int64(1)},
                  updates={'W': 'W_new', 'b': 'b_new', 'T': 'T_new'}, **more)


def by_operator(op, states, **attributes):
    """The standard's own optimizers, over both tensors at once."""
    news = [f'{w}_new' for w in 'Wb'] + [f'{w}_{s}_new' for s in states for w in 'Wb']
    step = helper.make_node(op, ['rate', 'T', 'W', 'b', 'dW', 'db'] + [f'{w}_{s}' for s in states for w in 'Wb'], news, domain=TRAINING, **attributes)
    state = {'rate': f4(.1), 'T': np.int64(0), 'one': np.int64(1), **{f'{w}_{s}': np.zeros(SHAPES[w], f4) for s in states for w in 'Wb'}}
    return linear(LOSS + [step, node('Add', ['T', 'one'], 'T_new')], [value('loss', [])] + [value(n, SHAPES[n[0]]) for n in news] + [value('T_new', [], TensorProto.INT64)], state=state,
                  updates={**{n[:-4]: n for n in news}, 'T': 'T_new'})


rng = np.random.default_rng(0)
X = rng.standard_normal((64, 3)).astype(f4)
Y = (X @ [[1.], [-2], [3]] + .7).astype(f4)


def reference(step, steps, batch=32, states=0):
    """Losses and tensors of `steps` updates; step(w, g, s, T) gives the new w and s."""
    w = {'W': np.zeros((3, 1)), 'b': np.zeros(1)}
    s = {k: [np.zeros(v.shape) for _ in range(states)] for k, v in w.items()}
    losses = []
    for T in range(steps):
        at = np.arange(T * batch, (T + 1) * batch) % len(X)
        e = X[at].astype('f8') @ w['W'] + w['b'] - Y[at]
        losses.append((e * e).mean())
        for k, g in (('W', 2 * X[at].T @ e / batch), ('b', 2 * e.mean(0))):
            w[k], s[k] = step(w[k], g, s[k], T)
    return losses, w, s


def adam(w, g, s, T):
    a, b, eps, decay = .8, .95, 1e-3, .01
    g = g + decay * w
    v, h = a * s[0] + (1 - a) * g, b * s[1] + (1 - b) * g * g
    rate = .1 * np.sqrt(1 - b ** T) / (1 - a ** T) if T else .1
    return w - rate * v / (np.sqrt(h) + eps), [v, h]


def momentum(w, g, s, T):
    v = .9 * s[0] + (.5 if T else 1) * g
    return w - .1 * v, [v]


def adagrad(w, g, s, T):
    h = s[0] + g * g
    return w - .1 / (1 + T * .1) * g / (np.sqrt(h) + 1e-3), [h]


def write(folder, m, name):
    onnx.checker.check_model(m)
    onnx.save(m, f'{folder}/{name}.onnx')


def cannot(folder, m, *texts):
    """Exit 3 where the file is left to say how it trains; a warning where options say it."""
    onnx.save(m, f'{folder}/bad.onnx')
    said = train(folder, 'bad', 'data', '--steps', '2', code=3)[2]
    warned = train(folder, 'bad', 'target', '--steps', '2', '--optimizer', 'sgd')[2]
    for text in texts:
        check(text in said, f'"{text}" is not in: {said}')
        check(text in warned and 'warning' in warned, f'"{text}" is not in: {warned}')
    run(folder, m, {'x': X[:2]})  # inference is none of its business


with tempfile.TemporaryDirectory() as d:
    np.savez(f'{d}/data.npz', x=X, label=Y)
    np.savez(f'{d}/target.npz', x=X, target=Y)
    np.savez(f'{d}/flat.npz', x=X, target=Y[:, 0].astype('f8'))

    # arithmetic, and the standard's operators
    cases = {'sgd': (by_hand(), lambda w, g, s, T: (w - .1 * g, s), []), 'momentum': (by_operator('Momentum', 'v', alpha=.9, beta=.5, norm_coefficient=0., mode='standard'), momentum, 'v'),
             'adagrad': (by_operator('Adagrad', 'h', decay_factor=.1, epsilon=1e-3), adagrad, 'h'), 'adam': (by_operator('Adam', 'vh', alpha=.8, beta=.95, epsilon=1e-3, norm_coefficient=.01), adam, 'vh')}
    for name, (m, step, states) in cases.items():
        write(d, m, name)
        got, losses, _ = train(d, name, 'data', '--steps', '30')
        want, w, s = reference(step, 30, states=len(states))
        check(np.allclose(losses, want, rtol=1e-4, atol=1e-6), f'{name}: losses {losses[:3]} ..., not {want[:3]} ...')
        for k in 'Wb':
            check(np.allclose(got[k], w[k], rtol=1e-4, atol=1e-5), f'{name}: {k} {got[k]}, not {w[k]}')
            for i, n in enumerate(states):
                check(np.allclose(got[f'{k}_{n}'], s[k][i], rtol=1e-3, atol=1e-5), f'{name}: state {k}_{n}')
        check(got['T'] == 30 and got['one'] == 1 and got['rate'] == f4(.1), f'{name}: {got["T"]} updates')
        # the run goes on from the file: 20 and 10 more are 30, bit for bit; the rest of the file is what it was
        train(d, name, 'data', '--steps', '20', out='first')
        more, rest, said = train(d, 'first', 'data', '--steps', '10')
        check(rest == losses[:10] or len(set(rest)) == 10, name)
        check(all(np.array_equal(more[k], got[k]) for k in got), f'{name}: 20 updates and 10 are not 30')
        a, b = onnx.load(f'{d}/{name}.onnx'), onnx.load(f'{d}/first.onnx')
        for m in (a, b):
            for g in (m.graph, m.training_info[0].algorithm):
                for i in g.initializer:
                    i.ClearField('raw_data')
        check(a == b, f'{name}: more than tensors has changed')
        onnx.checker.check_model(f'{d}/first.onnx')

    # data without the label's name: the target is it, in other types and shapes of the same elements
    want = train(d, 'sgd', 'data', '--steps', '8')[0]
    for data in ('target', 'flat'):
        got, _, said = train(d, 'sgd', data, '--steps', '8')
        check(all(np.array_equal(got[k], want[k]) for k in want) and "the target is used as input 'label' of the file's training algorithm" in said, f'{data}: {said}')
    np.savez(f'{d}/none.npz', x=X)
    check("'label'" in train(d, 'sgd', 'none', '--steps', '1', code=4)[2], 'a missing label')
    # batches that do not fill the epoch, shuffled; an evaluation beside the training
    call('train', f'{d}/sgd.onnx', '--data', f'{d}/data.npz', '--val', f'{d}/target.npz', '--batch-size', '24', '--epochs', '30', '--run-dir', 'none', '-o', f'{d}/t.onnx', '-q')
    check(np.allclose(tensors(f'{d}/t.onnx')['W'].ravel(), [1, -2, 3], atol=1e-2), 'shuffled')

    # who says how it trains; what an option cannot say here
    said = train(d, 'sgd', 'target', '--steps', '1')[2]
    check("training uses the algorithm in the file (TrainingInfoProto): reads 'label', updates 'W', 'b', 'T'" in said, said)
    got, losses, said = train(d, 'sgd', 'target', '--steps', '8', '--optimizer', 'sgd', '--lr', '0.1')
    check('training uses the options' in said and np.allclose(got['W'], want['W'], atol=1e-5) and got['T'] == 0, f'options: {said}')
    for option in (['--lr', '1'], ['--schedule', 'cosine'], ['--freeze', 'W'], ['--accumulate', '2'], ['--precision', 'bf16'], ['--on-nonfinite', 'skip']):
        check(option[0] in train(d, 'sgd', 'target', '--steps', '1', *option, code=2)[2], option)
    call('train', os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../models/lenet.onnx'), '--data', f'{d}/data.npz', '--initialize', 'always', '--run-dir', 'none', code=2)

    # what describes it
    for command in (['check', f'{d}/adam.onnx'], ['check', f'{d}/adam.onnx', '--data', f'{d}/data.npz']):
        said = call(*command).stdout
        check('trainable: 4 parameters in 2 initializers' in said and "updates 'W', 'b', 'W_v', 'b_v', 'W_h', 'b_h' and 1 more" in said and 'tested: one training step' in said, said)
    said = call('inspect', f'{d}/adam.onnx').stdout
    check("reads 'label', updates" in said and "state: of the training algorithm in the file" in said, said)
    check(json.loads(call('inspect', f'{d}/adam.onnx', '--json').stdout)['training_info']['followed'] is True, 'inspect --json')
    call('plan', f'{d}/adam.onnx')

    # initialization: where nothing has been trained, and where it is asked for
    start = (graph([node('RandomNormal', [], 'W0', shape=[3, 1]), helper.make_node('Constant', [], ['b0'], value_floats=[.5]), helper.make_node('Constant', [], ['T0'], value_int=0)],
                   [], [value('W0', [3, 1]), value('b0', [1]), value('T0', [], TensorProto.INT64)]), {'W': 'W0', 'b': 'b0', 'T': 'T0'})
    write(d, by_hand(start=start), 'fresh')
    first, losses, said = train(d, 'fresh', 'data', '--steps', '2')
    check("the initialization in the file is run first" in said and losses[0] != train(d, 'sgd', 'data', '--steps', '1')[1][0], said)
    check(losses != train(d, 'fresh', 'data', '--steps', '2', '--seed', '7')[1] and losses == train(d, 'fresh', 'data', '--steps', '2')[1], 'drawn by the seed')
    check(train(d, 'fresh', 'data', '--steps', '8', '--initialize', 'never')[1] == train(d, 'sgd', 'data', '--steps', '8')[1], 'never')
    train(d, 'fresh', 'data', '--steps', '2', out='again')
    got, more, said = train(d, 'again', 'data', '--steps', '2')
    check('has been trained before' in said and got['T'] == 4, said)
    got, more, said = train(d, 'again', 'data', '--steps', '2', '--initialize', 'always')
    check(more == losses and got['T'] == 2 and np.array_equal(got['W'], first['W']), 'always')

    # what the initialization sets and no update changes: the file that is written has it
    start = (graph([helper.make_node('Constant', [], ['rate0'], value_float=.5)], [], [value('rate0', [])]), {'rate': 'rate0'})
    write(d, by_hand(start=start), 'rate')
    got = train(d, 'rate', 'data', '--steps', '4', '--initialize', 'always')[0]
    train(d, 'rate', 'data', '--steps', '2', '--initialize', 'always', out='half')
    more = train(d, 'half', 'data', '--steps', '2')[0]
    check(got['rate'] == f4(.5) and all(np.array_equal(more[k], got[k]) for k in got), f'a rate of the initialization: {got}, {more}')

    # what cannot be followed
    names = {'W': 'W_new', 'b': 'b_new', 'T': 'T_new'}

    def altered(change, **more):
        m = by_hand(**more)
        change(m.training_info[0])
        return m
    cannot(d, altered(lambda t: t.update_binding.add(key='nothing', value='W_new')), "unknown initializer 'nothing'")
    cannot(d, altered(lambda t: t.update_binding.add(key='xW', value='W_new')), "unknown initializer 'xW'")
    cannot(d, altered(lambda t: t.update_binding.add(key='label', value='W_new')), "unknown initializer 'label'")
    cannot(d, altered(lambda t: t.update_binding.add(key='rate', value='nowhere')), "unknown tensor 'nowhere'")
    cannot(d, altered(lambda t: t.update_binding.add(key='W', value='b_new')), "'W' is bound twice")
    cannot(d, altered(lambda t: t.algorithm.node.append(node('Relu', ['unknown'], 'u'))), "'unknown'")
    cannot(d, altered(lambda t: t.algorithm.node.append(node('Relu', ['y'], 'xW'))), "'xW'", 'duplicate name')
    cannot(d, altered(lambda t: t.algorithm.node.extend([node('Relu', ['c2'], 'c1'), node('Relu', ['c1'], 'c2')])), 'cycle')
    cannot(d, altered(lambda t: t.algorithm.node.append(helper.make_node('Odd', ['y'], ['odd'], domain='local'))), 'local.Odd')
    cannot(d, altered(lambda t: t.initialization_binding.add(key='W', value='W0')), 'no initialization graph')
    cannot(d, altered(lambda t: t.initialization_binding.add(key='W', value='Z'), start=start), "no tensor 'Z'")
    m = by_hand()
    m.training_info.append(m.training_info[0])
    cannot(d, m, 'only one is supported')
    m = by_hand(outer={'W': np.zeros((3, 1), f4), 'b': np.zeros(1, f4), 'S': np.array(['a'], object)})
    m.training_info[0].update_binding.add(key='S', value='S')
    cannot(d, m, "'S' contains strings")
    for key, name, text in (('rate', 'W_new', "'rate' is float32[]"), ('T', 'rate', "'T' is int64[]")):
        m = by_hand()
        for b in m.training_info[0].update_binding:
            if b.key == key:
                b.value = name
        if key == 'rate':
            m.training_info[0].update_binding.add(key=key, value=name)
        onnx.save(m, f'{d}/bad.onnx')
        check(text in train(d, 'bad', 'data', '--steps', '1', code=3)[2], text)
    m = by_hand(start=(graph([node('RandomNormal', [], 'W0', shape=[2, 1])], [], [value('W0', [2, 1])]), {'W': 'W0'}))
    onnx.save(m, f'{d}/bad.onnx')
    check('initialization_binding' in train(d, 'bad', 'data', '--steps', '1', code=3)[2], 'an initialization of another shape')
    # one that updates nothing says nothing
    m = by_hand()
    del m.training_info[0].update_binding[:]
    onnx.save(m, f'{d}/bad.onnx')
    check('updates nothing' in train(d, 'bad', 'target', '--steps', '1')[2], 'nothing is updated')
end()
