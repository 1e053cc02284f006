"""--tensorboard: the event files hold the log's numbers, of one output and of two, in the run folder and in another, and
across a resume.

usage: test_tensorboard.py PROGRAM
"""
import json
import math
import os
import subprocess
import tempfile

import events
from scripts import T, call, check, finish, h, np, numpy_helper, onnx, program


def weight(name, *shape):
    return numpy_helper.from_array((np.random.default_rng(0).standard_normal(shape) / 3).astype(np.float32), name)


def make():
    rng = np.random.default_rng(1)
    x, c, r = rng.standard_normal((50, 4)).astype(np.float32), rng.integers(0, 3, 50), rng.standard_normal((50, 1)).astype(np.float32)
    heads = {'cls': 3, 'reg': 1}
    for name, outputs in ('one', ['cls']), ('two', ['cls', 'reg']):
        g = h.make_graph([h.make_node('Gemm', ['x', 'w' + o, 'b' + o], [o]) for o in outputs], 'g',
                         [h.make_tensor_value_info('x', T.FLOAT, ['N', 4])],
                         [h.make_tensor_value_info(o, T.FLOAT, ['N', heads[o]]) for o in outputs],
                         [w for o in outputs for w in (weight('w' + o, 4, heads[o]), weight('b' + o, heads[o]))])
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name + '.onnx')
    np.savez('one.npz', x=x, target=c)
    np.savez('two.npz', x=x, target_cls=c, target_reg=r)


def log(run):
    with open(run + '/log.jsonl') as f:
        return [json.loads(line) for line in f]


def expected(lines):
    """tag -> [(step, value)] of what the log says."""
    want = {}

    def add(tag, step, v):
        if isinstance(v, dict):
            for k in v:
                add(f'{tag}/{k}', step, v[k])
        elif isinstance(v, (int, float)):
            want.setdefault(tag, []).append((step, v))

    for e in lines:
        if e['event'] == 'step':
            for key in 'loss', 'losses', 'lr', 'grad_norm':
                add('train/' + key, e['step'], e.get(key))
        if e['event'] == 'eval':
            for key in e:
                if key not in ('event', 'step', 'epoch', 'split', 'samples'):
                    add(e['split'] + '/' + key, e['step'], e[key])
    return want


def same(a, b):
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-30)


def compare(what, folder, lines):
    numbers, texts = events.scalars(folder)
    numbers.pop('train/samples_per_second', None)
    want = expected(lines)
    check(set(numbers) == set(want), f'{what}: scalars are {sorted(numbers)}, the log has {sorted(want)}')
    for tag in set(want) & set(numbers):
        check(len(numbers[tag]) == len(want[tag]) and all(s == t and same(v, w) for (s, v), (t, w) in zip(numbers[tag], want[tag])),
              f'{what}: {tag} is {numbers[tag][:3]} ..., the log has {want[tag][:3]} ...')
    return texts


os.chdir(tempfile.mkdtemp())
make()
train = ['--epochs', '3', '--threads', '1', '-q']
for name in 'one', 'two':
    call(f'{name}.onnx', '--data', name + '.npz', '--val', name + '.npz', '--run-dir', name, '-o', f'{name}-out.onnx', '--tensorboard', *train)
    texts = compare(name, name + '/tensorboard', log(name))
    table = events.fields(texts['options'][8][0])[8][0].decode()
    check(f'| --data | {name}.npz |' in table and '| batch_size | 32 |' in table, f'{name}: the options are {table}')
    check({'options', '_hparams_/session_start_info', '_hparams_/session_end_info'} == set(texts), f'{name}: texts {sorted(texts)}')
    hparams = events.fields(events.fields(events.fields(texts['_hparams_/session_start_info'][9][0])[1][0])[2][0])
    pairs = {}
    for p in events.fields(hparams[3][0])[1]:
        p = events.fields(p)
        pairs[p[1][0].decode()] = events.fields(p[2][0])
    check(pairs['epochs'] == {2: [3.0]} and pairs['data'] == {3: [name.encode() + b'.npz']}, f'{name}: hparams {pairs}')

call('one.onnx', '--data', 'one.npz', '--run-dir', 'named', '-o', 'o.onnx', '--tensorboard=here/there', *train)
compare('a named folder', 'here/there', log('named'))
check(not os.path.exists('named/tensorboard'), 'a named folder: the run folder has one too')

call('one.onnx', '--data', 'one.npz', '--run-dir', 'none', '-o', 'o.onnx', '--tensorboard=alone', *train)
check(len(events.scalars('alone')[0]['train/loss']) == 6, 'without a run folder: 6 updates')
r = call('one.onnx', '--data', 'one.npz', '--run-dir', 'none', '-o', 'o.onnx', '--tensorboard', *train, code=2)
check('--tensorboard=DIR' in r.stderr, f'without any folder: {r.stderr}')
open('file', 'w').close()
r = call('one.onnx', '--data', 'one.npz', '--run-dir', 'none', '-o', 'o.onnx', '--tensorboard=file', *train, code=7)
check('file: is a file; --tensorboard needs a folder' in r.stderr, f'a file for a folder: {r.stderr}')

# The graph: every node with its operator and inputs, inputs and initializers by name.
def graph_of(folder):
    found = [e[4][0] for _, _, e in events.read(folder) if 4 in e]
    check(len(found) == 1, f'{folder}: {len(found)} graphs')
    nodes = {}
    for n in events.fields(found[0]).get(1, []):
        n = events.fields(n)
        nodes[n[1][0].decode()] = (n[2][0].decode(), [i.decode() for i in n.get(3, [])])
    return nodes


nodes = graph_of('two/tensorboard')
want = {o: ('Gemm', ['x', 'w' + o, 'b' + o]) for o in ('cls', 'reg')}
want |= {n: ('Initializer', []) for o in ('cls', 'reg') for n in ('w' + o, 'b' + o)} | {'x': ('Input', [])}
check(nodes == want, f'the graph is {nodes}')

# Histograms of weights and gradients: those of the written weights, and of the gradients that `grad` computes; of the last
# batch where several make an update; the run is the same with them.
sgd = ['--data', 'one.npz', '--optimizer', 'sgd:lr=0.1', '--batch-size', '10', '--no-shuffle', '--threads', '1', '-q', '--run-dir', 'none']
call('one.onnx', *sgd, '-o', 'plain.onnx', '--epochs', '2')
call('one.onnx', *sgd, '-o', 'h.onnx', '--epochs', '2', '--tensorboard=h', '--tensorboard-histograms', '1steps')
with open('plain.onnx', 'rb') as a, open('h.onnx', 'rb') as b:
    check(a.read() == b.read(), 'the model is another with histograms')
call('grad', 'one.onnx', '--data', 'one.npz', '--batch-size', '10', '--threads', '1', '-q', '-o', 'g.npz')
start, end, grads = ({i.name: numpy_helper.to_array(i) for i in onnx.load(m).graph.initializer} for m in ('one.onnx', 'h.onnx', 'one.onnx'))
grads = dict(np.load('g.npz'))


def compare_histogram(what, found, values):
    v = values.astype(np.float64).ravel()
    least, most = v.min(), v.max()
    numbers = [found[k][0] for k in range(1, 6)]
    check(np.allclose(numbers, [least, most, v.size, v.sum(), (v ** 2).sum()], rtol=1e-4, atol=1e-6), f'{what}: {numbers}')
    limits, counts = np.frombuffer(found[6][0]), np.frombuffer(found[7][0])
    check(counts.sum() == v.size and np.isclose(limits[-1], most, rtol=1e-5), f'{what}: {counts} to {limits}')
    inner = np.array([(v <= limit + 1e-6).sum() for limit in limits])
    check(np.all(np.cumsum(counts) <= inner) and np.all(np.cumsum(counts)[:-1] >= np.array([(v < limit - 1e-6).sum() for limit in limits])[:-1]), f'{what}: {counts} to {limits}')


def histograms(folder):
    found = {}
    for step, _, e in events.read(folder):
        for summary in e.get(5, []):
            for v in map(events.fields, events.fields(summary).get(1, [])):
                if 5 in v:
                    found[v[1][0].decode(), step] = events.fields(v[5][0])
    return found


found = histograms('h')
check(set(found) == {(f'{k}/{n}', s) for k in ('weights', 'gradients') for n in ('wcls', 'bcls') for s in range(1, 11)}, f'histograms: {sorted(found)}')
for n in 'wcls', 'bcls':
    compare_histogram(f'gradient of {n}', found[f'gradients/{n}', 1], grads[n])
    compare_histogram(f'{n} after step 1', found[f'weights/{n}', 1], start[n] - np.float32(.1) * grads[n])
    compare_histogram(f'{n} at the end', found[f'weights/{n}', 10], end[n])
call('one.onnx', *sgd, '-o', 'h.onnx', '--epochs', '5', '--accumulate', '5', '--tensorboard=ha', '--tensorboard-histograms', '2epochs')
check({s for _, s in histograms('ha')} == {2, 4}, f"every second epoch: {sorted(histograms('ha'))}")
for options in (['--tensorboard-histograms', '1epoch'], ['--tensorboard=x', '--tensorboard-histograms', 'often']):
    check('--tensorboard-histograms' in call('one.onnx', *sgd, '-o', 'h.onnx', *options, code=2).stderr, f'{options}')

# A resume writes a second file, which begins by dropping later steps of the first.
call('one.onnx', '--data', 'one.npz', '--run-dir', 'again', '-o', 'o.onnx', '--tensorboard', *train)
before = [f for f in os.listdir('again/tensorboard')]
later = before[0].replace('tfevents.' + before[0].split('.')[3], f"tfevents.{int(before[0].split('.')[3]) + 100}").replace(before[0].split('.')[-2], '99999')
os.rename('again/tensorboard/' + before[0], 'again/tensorboard/' + later)  # by a clock that was ahead, of a process with a high number
call('resume', 'again', '--epochs', '5', '-q')
check(sorted(os.listdir('again/tensorboard'))[0] == later, f"resumed: {os.listdir('again/tensorboard')}, which begins with {later}")
compare('resumed', 'again/tensorboard', log('again'))
starts = [(step, e[7]) for step, _, e in events.read('again/tensorboard') if 7 in e]
check(starts == [(7, [b'\x08\x01'])], f'resumed: {starts}')

# No room for the files: the training goes on to its end, and says so there.
os.mkdir('full')
limited = subprocess.run(['sh', '-c', 'ulimit -f 1; exec "$@"', 'sh', program, 'one.onnx', '--data', 'one.npz', '--run-dir', 'none',
                          '--tensorboard=full', '-o', 'o2.onnx', '--epochs', '40', '--threads', '1', '-q'], capture_output=True, text=True)
check(limited.returncode == 7 and 'tfevents' in limited.stderr and 'cannot be written' in limited.stderr,
      f'no room: exit {limited.returncode}, {limited.stderr}')
finish('checks')
