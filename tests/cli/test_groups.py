"""Several time series in one table: --group, and autoencoders of tables.

The windows of each series, cut with NumPy and fed as arrays, are the reference: the same losses.

usage: test_groups.py PROGRAM
"""
import csv
import io
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(8)
LENGTH = 4
SIZES = {'north': 17, 'south': 4, 'east': 11, 'west': 23}           # south: too short for a window and its target
SERIES = {k: rng.standard_normal((n, 2)).round(3) + 3 * i for i, (k, n) in enumerate(SIZES.items())}
LONG = [k for k in SIZES if SIZES[k] > LENGTH]
PLAIN = ['--run-dir', 'none', '-o', 'o.onnx', '--optimizer', 'sgd:lr=0.01', '--no-shuffle', '--batch-size', '8', '--epochs', '3', '--loss', 'mse', '--normalize-target', 'none']
WINDOWS = ['--length', str(LENGTH), '--group', 'store']


def model(path, columns=2):
    w = {'w': (columns, 5), 'fc': (5, 1)}
    w = [numpy_helper.from_array(np.random.default_rng(1).standard_normal(s).astype('f4'), n) for n, s in w.items()]
    nodes = [h.make_node('MatMul', ['x', 'w'], ['a']), h.make_node('Relu', ['a'], ['r']), h.make_node('ReduceMean', ['r'], ['m'], axes=[1], keepdims=0),
             h.make_node('MatMul', ['m', 'fc'], ['y'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', LENGTH, columns])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 1])], w)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def rows():
    """One series below the other: store, step, a, b, part"""
    return [(k, t, *map(float, v), 'train' if t < SIZES[k] * .7 else 'val') for k, s in SERIES.items() for t, v in enumerate(s)]


def write(path, some, head='store,step,a,b,part', without=(1, 4)):
    keep = [i for i in range(len(head.split(','))) if i not in without]
    open(path, 'w').write('\n'.join(','.join(str(r[i]) for i in keep) for r in [head.split(','), *some]) + '\n')


def mixed(some):
    """As a table that is sorted by date: the rows of a series are between those of others."""
    return sorted(some, key=lambda r: (r[1], list(SIZES).index(r[0])))


def cut(of, ahead=1, stride=1, scale=lambda v: v):
    """Windows and targets of each series: lists of arrays."""
    all_x, all_y = [], []
    for s in of:
        first = range(0, len(s) - LENGTH - ahead + 1, stride)
        all_x.append(np.float32([scale(s)[i:i + LENGTH] for i in first]).reshape(-1, LENGTH, 2))
        all_y.append(np.float32([s[i + LENGTH - 1 + ahead, 1] for i in first]).reshape(-1, 1))
    return all_x, all_y


def losses(*args):
    return [line.split('loss ')[1].split()[0] for line in call(*args, '--log-every', '1').stderr.splitlines() if line.startswith('epoch ') and 'loss' in line]


def predicted(*args):
    return list(csv.DictReader(io.StringIO(call('predict', *args).stdout)))


def as_arrays():
    model('m.onnx')
    write('t.csv', rows())
    write('mixed.csv', mixed(rows()))
    for ahead, stride in (1, 1), (2, 3):
        x, y = cut(SERIES.values(), ahead, stride)
        np.savez('t.npz', x=np.concatenate(x), target=np.concatenate(y))
        want = losses('m.onnx', '--data', 't.npz', *PLAIN)
        for name in 't.csv', 'mixed.csv':
            got = losses('m.onnx', '--data', name, *PLAIN, *WINDOWS, '--normalize', 'none', '--ahead', str(ahead), '--stride', str(stride))
            check(want and want == got, f'{name}, ahead {ahead}, stride {stride}: {want}, {got}')
    said = call('m.onnx', '--data', 't.csv', *PLAIN, *WINDOWS).stderr
    check("4 series in column 'store'" in said and "1 of them, 'south', has fewer than 5 rows" in said, said)


def validated():
    """--val-split: the last windows of each series; means are of the rows of the others."""
    x, y = cut([SERIES[k] for k in LONG])
    keep = [round(.25 * len(v)) for v in x]
    used = np.concatenate([SERIES[k][:len(v) - n + LENGTH - 1] for k, v, n in zip(LONG, x, keep)])
    x, y = cut([SERIES[k] for k in LONG], scale=lambda v: (v - used.mean(0)) / used.std(0))
    parts = [np.concatenate([v[:-n] for v, n in zip(z, keep)]) for z in (x, y)] + [np.concatenate([v[-n:] for v, n in zip(z, keep)]) for z in (x, y)]
    np.savez('t.npz', x=parts[0], target=parts[1])
    np.savez('v.npz', x=parts[2], target=parts[3])
    want = losses('m.onnx', '--data', 't.npz', '--val', 'v.npz', *PLAIN)
    for name in 't.csv', 'mixed.csv':
        got = losses('m.onnx', '--data', name, '--val-split', '0.25', *WINDOWS, '--normalize', 'mean,std', *PLAIN)
        check(want and len(want) == len(got) and np.allclose(np.float64(want), np.float64(got), rtol=1e-4), f'{name}, --val-split: {want}, {got}')
    # The model records the column.
    one = predicted('o.onnx', 't.csv', '--copy', 'store,b')
    check([r['store'] for r in one] == [k for k in SIZES for _ in range(SIZES[k] - LENGTH + 1)], f'a forecast for each window of each series: {len(one)}')
    check([float(r['b']) for r in one] == [v for s in SERIES.values() for v in s[LENGTH - 1:, 1]], '--copy: the last row of each window')
    other = predicted('o.onnx', 'mixed.csv', '--copy', 'store,b')
    check([(r['store'], r['y']) for r in one] == [(r['store'], r['y']) for r in other], 'the same of a table sorted by date')
    lines = open('mixed.csv').read().splitlines()
    check(all(lines[int(r['line']) - 1].startswith(r['store']) and lines[int(r['line']) - 1].endswith(',' + r['b']) for r in other), 'the column line')
    check('loss' in call('eval', 'o.onnx', '--data', 'mixed.csv').stdout, 'eval')
    write('alone.csv', [r for r in rows() if r[0] == 'west'], without=(0, 1, 4))
    r = call('predict', 'o.onnx', 'alone.csv')
    check([v['y'] for v in csv.DictReader(io.StringIO(r.stdout))] == [v['y'] for v in one if v['store'] == 'west'], 'a table of one series needs no column')
    check("no column 'store'" in r.stderr, r.stderr)


def resumed():
    args = ['m.onnx', '--data', 'mixed.csv', '--val-split', '0.25', *WINDOWS, '--loss', 'mse', '--seed', '2']
    call(*args, '--epochs', '4', '--run-dir', 'whole', '-o', 'whole.onnx')
    call(*args, '--epochs', '2', '--run-dir', 'half', '-o', 'half.onnx')
    call('resume', 'half', '--epochs', '4')
    check(open('whole.onnx', 'rb').read() == open('half.onnx', 'rb').read(), 'resume: the same file')
    check('loss' in call('eval', 'half').stdout, 'eval of the run')


def parts():
    """--split: the rows of a part follow each other in each series."""
    for name, some in ('parts.csv', rows()), ('mixed-parts.csv', mixed(rows())):
        write(name, some, without=(1,))
        got = losses('m.onnx', '--data', name, '--split', 'part', *WINDOWS, '--normalize', 'none', *PLAIN)
        for part in 'train', 'val':
            x, y = cut([s[[r[4] == part for r in rows() if r[0] == k]] for k, s in SERIES.items()])
            np.savez(f'{part}.npz', x=np.concatenate(x), target=np.concatenate(y))
        want = losses('m.onnx', '--data', 'train.npz', '--val', 'val.npz', *PLAIN)
        check(want and want == got, f'{name}: {want}, {got}')
    some = rows()
    some[3] = (*some[3][:4], 'val')
    write('bad.csv', some, without=(1,))
    said = call('m.onnx', '--data', 'bad.csv', '--split', 'part', *WINDOWS, *PLAIN, code=4).stderr
    check('not one below the other in each series' in said, said)
    write('parts.csv', rows(), without=(1,))
    said = call('m.onnx', '--data', 'parts.csv', '--split', 'part', '--target', 'part', *PLAIN, code=2).stderr
    check("column 'part' is the target and that of --split" in said, said)


def as_input():
    """The column is an input where --inputs names it."""
    model('three.onnx', 6)
    said = call('three.onnx', '--data', 't.csv', *WINDOWS, '--inputs', 'a,b,store', *PLAIN).stderr
    check('store                category, 4 values, one-hot' in said, said)
    check(len(predicted('o.onnx', 'mixed.csv')) == sum(n - LENGTH + 1 for n in SIZES.values()), 'predictions with the column as an input')
    write('last.csv', [(*r[2:4], r[0]) for r in rows()], 'a,b,store', ())
    want = losses('m.onnx', '--data', 't.csv', *WINDOWS, *PLAIN)
    check(want == losses('m.onnx', '--data', 'last.csv', *WINDOWS, *PLAIN), 'the last column names the series: the one before it is the target')


def refused():
    for args, code, text in ([['--group', 'shop', '--length', '4'], 4, "--group: it has no column 'shop'"],
                             [['--group', 'store'], 2, '--group: each sample of t.csv is one row'],
                             [[*WINDOWS, '--target', 'store'], 2, "column 'store' is the target and that of --group"]):
        said = call('m.onnx', '--data', 't.csv', *args, *PLAIN, code=code).stderr
        check(text in said, f'{args}: {said}')
    write('short.csv', [r for r in rows() if r[1] < 4])
    said = call('m.onnx', '--data', 'short.csv', *WINDOWS, *PLAIN, code=4).stderr
    check("the longest of the 4 series in column 'store' (--group) has 4 rows" in said, said)
    write('empty.csv', [('', *r[1:]) if i == 5 else r for i, r in enumerate(rows())])
    said = call('m.onnx', '--data', 'empty.csv', *WINDOWS, *PLAIN, code=4).stderr
    check("line 7: column 'store' (--group) is empty" in said, said)
    np.savez('t.npz', x=np.zeros((9, LENGTH, 2), 'f4'), target=np.zeros((9, 1), 'f4'))
    said = call('m.onnx', '--data', 't.npz', '--group', 'store', *PLAIN, code=2).stderr
    check('--group: t.npz is not a table' in said, said)


def autoencoder():
    w = [numpy_helper.from_array(np.eye(2, dtype='f4'), 'w')]
    g = h.make_graph([h.make_node('MatMul', ['x', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 2])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 2])], w)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'same.onnx')
    write('two.csv', rows(), without=(0, 1, 4))
    got = losses('same.onnx', '--data', 'two.csv', '--inputs', 'a,b', '--target', 'a,b', '--normalize', 'mean,std', '--run-dir', 'none', '-o', 'o.onnx', '--epochs', '1')
    check(got and all(float(v) < 1e-3 for v in got), f'the identity gives its input back, in its own scale: {got}')
    values = predicted('o.onnx', 'two.csv')
    check('--task classes' not in call('predict', 'o.onnx', 'two.csv').stderr, 'values of columns that the model records are no scores')
    check(np.allclose([float(r['a']) for r in values], [r[2] for r in rows()], atol=.1), 'predictions are in the unit of the table')
    said = call('same.onnx', '--data', 'two.csv', '--target', 'x', *PLAIN, code=4).stderr
    check('--inputs a,b --target a,b' in said, said)
    said = call('same.onnx', '--data', 'two.csv', '--target', 'a,b', *PLAIN, code=4).stderr
    check('for an autoencoder, name its columns in both' in said, said)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    as_arrays()
    validated()
    resumed()
    parts()
    as_input()
    refused()
    autoencoder()
    os.chdir('/')
finish('groups')
