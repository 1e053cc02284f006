"""Samples that are windows of the rows of a table: a time series (--length, --stride, --ahead).

The same windows, cut here, are the reference: arrays of them give the same losses and predictions.

usage: test_windows.py PROGRAM
"""
import csv
import io
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(3)
ROWS, LENGTH = 60, 5
series = rng.standard_normal((ROWS, 2)).round(3).astype('f4')
PLAIN = ['--run-dir', 'none', '-o', 'o.onnx', '--optimizer', 'sgd:lr=0.01', '--no-shuffle', '--epochs', '3', '--loss', 'mse', '--normalize-target', 'none']


def model(path, length=LENGTH, columns=2):
    """A convolution over the steps, their mean, and a linear layer."""
    w = {'conv': (3, columns, 2), 'fc.weight': (3, 1)}
    w = [numpy_helper.from_array(np.random.default_rng(1).standard_normal(s).astype('f4'), n) for n, s in w.items()]
    nodes = [h.make_node('Transpose', ['x'], ['t'], perm=[0, 2, 1]), h.make_node('Conv', ['t', 'conv'], ['c']), h.make_node('Relu', ['c'], ['r']),
             h.make_node('ReduceMean', ['r'], ['m'], axes=[2], keepdims=0), h.make_node('MatMul', ['m', 'fc.weight'], ['y'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', length, columns])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 1])], w)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def write(path, rows, head='a,b'):
    open(path, 'w').write('\n'.join([head] + [','.join(map(str, r)) for r in rows]) + '\n')


def cut(x, y, ahead=1, stride=1, length=LENGTH):
    first = range(0, len(x) - length - ahead + 1, stride)
    return np.float32([x[i:i + length] for i in first]), np.float32([y[i + length - 1 + ahead] for i in first])[:, None]


def losses(*args):
    return [line.split('loss ')[1].split()[0] for line in call(*args, '--log-every', '1').stderr.splitlines() if line.startswith('epoch ') and 'loss' in line]


def predicted(*args):
    return [float(r[-1]) for r in list(csv.reader(io.StringIO(call('predict', *args).stdout)))[1:]]


def as_arrays():
    model('m.onnx')
    write('t.csv', series.tolist())
    for ahead, stride in (1, 1), (3, 2):
        x, y = cut(series, series[:, 1], ahead, stride)
        np.savez('t.npz', x=x, target=y)
        want = losses('m.onnx', '--data', 't.npz', *PLAIN)
        got = losses('m.onnx', '--data', 't.csv', *PLAIN, '--normalize', 'none', '--length', str(LENGTH), '--ahead', str(ahead), '--stride', str(stride))
        check(want and want == got, f'ahead {ahead}, stride {stride}: {want}, {got}')
    # The target of the last row is no input.
    model('one.onnx', columns=1)
    x, y = cut(series[:, :1], series[:, 1], 0)
    np.savez('t.npz', x=x, target=y)
    want = losses('one.onnx', '--data', 't.npz', *PLAIN)
    got = losses('one.onnx', '--data', 't.csv', *PLAIN, '--normalize', 'none', '--length', str(LENGTH), '--ahead', '0')
    check(want and want == got, f'ahead 0: {want}, {got}')


def standardised():
    """Means are of the rows of training windows; the last windows are the validation samples."""
    model('m.onnx')
    write('t.csv', series.tolist())
    keep = round(.25 * (ROWS - LENGTH))
    rows = series[:ROWS - 1 - keep].astype('f8')
    x, y = cut((series - rows.mean(0)) / rows.std(0), series[:, 1])
    np.savez('t.npz', x=x[:-keep], target=y[:-keep])
    np.savez('v.npz', x=x[-keep:], target=y[-keep:])
    want = losses('m.onnx', '--data', 't.npz', '--val', 'v.npz', *PLAIN)
    got = losses('m.onnx', '--data', 't.csv', '--val-split', '0.25', '--length', str(LENGTH), '--normalize', 'mean,std', *PLAIN)
    check(len(want) == len(got) and np.allclose(np.float64(want), np.float64(got), rtol=1e-4), f'standardised: {want}, {got}')
    # The model records its windows: a prediction needs no options, and is also of the row that is not there yet.
    all_rows = predicted('o.onnx', 't.csv')
    check(len(all_rows) == ROWS - LENGTH + 1, f'{len(all_rows)} predictions')
    write('end.csv', series[-LENGTH:].tolist())
    check(np.allclose(predicted('o.onnx', 'end.csv'), all_rows[-1:]), 'the last window alone')
    copied = list(csv.DictReader(io.StringIO(call('predict', 'o.onnx', 't.csv', '--copy', 'a').stdout)))
    check([float(r['a']) for r in copied] == [float(v) for v in series[LENGTH - 1:, 0]], f'--copy: the last row of each window: {copied[:2]}')
    check('loss' in call('eval', 'o.onnx', '--data', 't.csv').stdout, 'eval')


def recorded():
    """A distance that is given replaces the recorded one; a length that is given leaves it as it is."""
    model('m.onnx')
    write('t.csv', series.tolist())
    call('m.onnx', '--data', 't.csv', *PLAIN, '--normalize', 'none', '--length', str(LENGTH), '--ahead', '3')
    for given, ahead, stride in ([], 3, 1), (['--length', '5'], 3, 1), (['--ahead', '1'], 1, 1), (['--stride', '4'], 3, 4), (['--ahead', '1', '--stride', '2'], 1, 2):
        x, y = cut(series, series[:, 1], ahead, stride)
        np.savez('t.npz', x=x, target=y)
        want = call('eval', 'o.onnx', '--data', 't.npz').stdout
        got = call('eval', 'o.onnx', '--data', 't.csv', *given).stdout
        check(want == got, f'eval {given}: {got}, expected {want}')


def refused():
    model('m.onnx')
    write('t.csv', series.tolist())
    said = call('m.onnx', '--data', 't.csv', *PLAIN, '--target', 'b', '--inputs', 'a', code=4).stderr
    check('use --length 5' in said, said)
    said = call('m.onnx', '--data', 't.csv', *PLAIN, '--length', '7', code=2).stderr
    check("--length 7: input 'x' is [?,5,2]; expected 7" in said, said)
    said = call('m.onnx', '--data', 't.csv', '--epochs', '1', '--run-dir', 'f', '--length', '5', '--folds', '3', code=2).stderr
    check('--val-split' in said, said)
    write('few.csv', series[:5].tolist())
    said = call('m.onnx', '--data', 'few.csv', *PLAIN, '--length', '5', code=4).stderr
    check('has 5 rows, but a sample of 5 rows and its target needs 6' in said, said)
    said = call('m.onnx', '--data', 't.csv', *PLAIN, '--ahead', '3', code=2).stderr
    check('--ahead: each sample of t.csv is one row' in said, said)
    rows = series.tolist()
    rows[7][0] = 'inf'
    write('bad.csv', rows)
    said = call('m.onnx', '--data', 'bad.csv', *PLAIN, '--length', '5', code=4).stderr
    check("line 9, column 'a': contains infinity or a number that is too large for float32" in said, said)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    as_arrays()
    standardised()
    recorded()
    refused()
    os.chdir('/')
finish('windows')
