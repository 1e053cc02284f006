"""Tables as pandas writes them: which line is a header, which numbers are whole, and what is said of columns.

usage: test_tables.py PROGRAM
"""
import csv
import gzip
import json
import os
import re
import shlex
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

DOCS = os.path.abspath(os.path.dirname(__file__) + '/../../docs/training.md')

rng = np.random.default_rng(7)
ROWS = 40
x = rng.standard_normal((ROWS, 4)).round(3).astype('f4')
OUT = ['--run-dir', 'none', '-o', 'o.onnx']
HEADER = 'line 1 is taken as column names'


def model(path, columns=4, classes=2):
    w = rng.standard_normal((columns, classes)).astype('f4')
    g = h.make_graph([h.make_node('Gemm', ['x', 'fc.weight', 'fc.bias'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', columns])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['n', classes])], [numpy_helper.from_array(w, 'fc.weight'), numpy_helper.from_array(np.zeros(classes, 'f4'), 'fc.bias')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def write(path, head, rows):
    open(path, 'w').write('\n'.join(([head] if head else []) + [','.join(map(str, r)) for r in rows]) + '\n')


def headers():
    """Names that are numbers, beside a target of strings."""
    model('m.onnx')
    words = [['no', 'yes'][i % 2] for i in range(ROWS)]
    labelled = [[*r, w] for r, w in zip(x.tolist(), words)]
    for head, rows, some in ('0,1,2,3,target', labelled, True), ('0,1,2,3,kind', labelled, True), ('5,7,8,9,Target', labelled, True), ('0,1,2,3,no', labelled, False), \
            ('0,1,2,4,kind', labelled, False):
        write('t.csv', head, rows)
        said = call('m.onnx', '--data', 't.csv', '--epochs', '1', *OUT, '--classes', 'auto').stderr
        check(f't.csv: {ROWS + (not some)} samples' in said and (HEADER in said) == some, f'{head}: {said}')
    # Columns are found by names that are numbers, whatever their order.
    write('t.csv', '0,1,2,3,target', labelled)
    call('m.onnx', '--data', 't.csv', '--epochs', '1', *OUT)
    write('same.csv', '0,1,2,3', x.tolist())
    write('turned.csv', '3,2,1,0', x[:, ::-1].tolist())
    want, got = (call('predict', 'o.onnx', name).stdout for name in ('same.csv', 'turned.csv'))
    check(want == got and want.count('\n') == ROWS + 1, f'columns in another order: {got}')
    write('none.csv', None, x.tolist())
    check(call('predict', 'o.onnx', 'none.csv').stdout == want, 'without a header')
    # Of two columns: values that are the names, too.
    model('m.onnx', 2)
    few = (rng.random((ROWS, 2)) < .5).astype(int).tolist()
    write('t.csv', '1,0,target', [[*r, w] for r, w in zip(few, words)])
    call('m.onnx', '--data', 't.csv', '--epochs', '1', *OUT)
    write('none.csv', None, [[1, 0], [0, 1], *few])
    check(call('predict', 'o.onnx', 'none.csv').stdout.count('\n') == ROWS + 3, 'values of two columns')
    write('some.csv', '0,1', x[:, :2].tolist())
    check(call('predict', 'o.onnx', 'some.csv').stdout.count('\n') == ROWS + 1, 'names of two columns')
    # Columns without names are 1 to N in the record; a row of these values is a sample.
    for columns, first in ((2, [1, 2, .5]), (4, [5, 1, 2, 4, 3])):
        model('m.onnx', columns, 1)
        write('t.csv', None, [first, *(rng.random((ROWS, columns + 1)) + 6).tolist()])
        call('m.onnx', '--data', 't.csv', '--loss', 'mse', '--normalize', 'mean,std', '--epochs', '1', *OUT)
        check(json.loads(onnx.load('o.onnx').metadata_props[0].value)['header'] is False, 'header')
        r = call('predict', 'o.onnx', 't.csv')
        check(r.stdout.count('\n') == ROWS + 2 and HEADER not in r.stderr, f'{columns} columns without names: {r.stderr}')
        said = call('o.onnx', '--data', 't.csv', '--loss', 'mse', '--epochs', '1', '--run-dir', 'none', '-o', 'p.onnx').stderr
        check(f't.csv: {ROWS + 1} samples' in said, said)
        check(call('predict', 'p.onnx', 't.csv').stdout.count('\n') == ROWS + 2, 'trained twice')


def unbalanced():
    """Weights of classes are recommended unless they are given."""
    model('m.onnx')
    write('t.csv', 'a,b,c,d,target', [[*r, 'rare' if i < 2 else 'usual'] for i, r in enumerate(x.tolist())])
    for loss, some in ('cross_entropy', True), ('cross_entropy:class_weights=auto', False):
        said = call('m.onnx', '--data', 't.csv', '--loss', loss, '--epochs', '1', *OUT).stderr
        check('from 2 (rare) to 38 (usual)' in said and ('gives small classes more weight' in said) == some, f'{loss}: {said}')


def whole_numbers():
    """Ids as pandas writes integers of a column that once had a missing value: 4.0."""
    g = h.make_graph([h.make_node('Gather', ['e', 'kind'], ['r']), h.make_node('Concat', ['x', 'r'], ['c'], axis=1), h.make_node('Gemm', ['c', 'fc.weight', 'fc.bias'], ['y'])], 'g',
                     [h.make_tensor_value_info('x', T.FLOAT, ['n', 4]), h.make_tensor_value_info('kind', T.INT64, ['n'])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 2])],
                     [numpy_helper.from_array(rng.standard_normal(s).astype('f4'), n) for n, s in (('e', (5, 3)), ('fc.weight', (7, 2)), ('fc.bias', (2,)))])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9), 'e.onnx')
    kinds = rng.integers(0, 5, ROWS)
    y = [i % 2 for i in range(ROWS)]
    losses = []
    for as_written in int, float, '{}e0'.format:
        write('e.csv', 'a,b,c,d,kind,target', [[*r, as_written(k), c] for r, k, c in zip(x.tolist(), kinds.tolist(), y)])
        losses.append(json.loads(call('eval', 'e.onnx', '--data', 'e.csv', '--json').stdout)['loss'])
        call('e.onnx', '--data', 'e.csv', '--epochs', '1', *OUT)
        losses.append(json.loads(call('eval', 'o.onnx', '--data', 'e.csv', '--json').stdout)['loss'])
    check(losses[:2] == losses[2:4] == losses[4:], f'ids with a point: {losses}')
    write('half.csv', 'a,b,c,d,kind,target', [[*r, 2.5 if i == 5 else k, c] for i, (r, k, c) in enumerate(zip(x.tolist(), kinds.tolist(), y))])
    said = call('e.onnx', '--data', 'half.csv', *OUT, code=4).stderr
    check("column 'kind' for input 'kind' (int64) has other values than whole numbers" in said, said)
    said = call('eval', 'o.onnx', '--data', 'half.csv', code=4).stderr
    check("half.csv: line 7, column 'kind': contains '2.5'; expected a whole number" in said, said)
    # Ids of another range: an error that names the option, with which they are categories, recorded for eval.
    for first in 0, 1000:
        write('e.csv', 'a,b,c,d,kind,target', [[*r, first + k, c] for r, k, c in zip(x.tolist(), kinds.tolist(), y)])
        if first:
            said = call('e.onnx', '--data', 'e.csv', *OUT, code=4).stderr
            check(' (--categories kind numbers the values of the column from 0)' in said, said)
        call('e.onnx', '--data', 'e.csv', '--epochs', '1', *OUT, *(['--categories', 'kind', '--normalize', 'none'] if first else []))
        losses.append(json.loads(call('eval', 'o.onnx', '--data', 'e.csv', '--json').stdout)['loss'])
    check(losses[-1] == losses[-2], f'ids from 1000: {losses[-2:]}')
    np.savez('e.npz', x=x, kind=kinds, target=np.array(y))
    check('--categories: e.npz is not a table' in call('e.onnx', '--data', 'e.npz', '--categories', 'kind', *OUT, code=2).stderr, 'categories of arrays')


def numbers_as_classes():
    """--categories of the target: its numbers are names, in their order; the model records that for eval, --val and another training."""
    model('c.onnx', classes=3)
    kind = np.array([[-5, 2, 10][i] for i in np.argmax(x[:, :3], 1)])
    write('c.csv', 'a,b,c,d,kind', [[*r, k] for r, k in zip(x.tolist(), kind)])
    write('v.csv', 'a,b,c,d,kind', [[*r, k] for r, k in zip(x.tolist(), kind) if k > 0])
    said = call('c.onnx', '--data', 'c.csv', *OUT, code=4).stderr
    check('has class' in said, said)
    call('c.onnx', '--data', 'c.csv', '--val', 'v.csv', '--categories', 'kind', '--epochs', '20', *OUT)
    record = {p.key: json.loads(p.value) for p in onnx.load('o.onnx').metadata_props if p.key in ('onnxtrain.classes', 'onnxtrain.preprocess')}
    check(record['onnxtrain.classes'] == ['-5', '2', '10'] and record['onnxtrain.preprocess']['target_category'] == 'kind', record)
    y = onnxruntime.InferenceSession('o.onnx').run(None, {'x': x})[0].argmax(1)
    for file, rows in ('c.csv', kind == kind), ('v.csv', kind > 0):
        accuracy = json.loads(call('eval', 'o.onnx', '--data', file, '--json').stdout)['accuracy']
        right = np.mean(np.array([-5, 2, 10])[y][rows] == kind[rows])
        check(abs(accuracy - right) < 1e-6, f'{file}: accuracy {accuracy}, with ONNX Runtime {right}')
    again = call('o.onnx', '--data', 'c.csv', '--categories', 'kind', '--epochs', '1', '--run-dir', 'none', '-o', 'p.onnx').stderr
    check('no effect' not in again, again)
    call('o.onnx', '--data', 'c.csv', '--epochs', '1', '--run-dir', 'none', '-o', 'q.onnx')
    check(open('p.onnx', 'rb').read() == open('q.onnx', 'rb').read(), 'the record stands for the option')
    write('two.csv', 'a,b,c,d,kind,other', [[*r, k, k] for r, k in zip(x.tolist(), kind)])
    said = call('c.onnx', '--data', 'two.csv', '--target', 'kind,other', '--categories', 'kind', *OUT, code=4).stderr
    check("--categories: column 'kind' is one of several targets" in said, said)


def messages():
    """The target in another case, names that end in digits, many columns, infinite cells."""
    model('m.onnx')
    rows = [[i % 2, *r] for i, r in enumerate(x.tolist())]
    for head, chosen in ('Target,e0,e1,e2,e3', 'Target'), ('TARGET,e0,e1,e2,e3', 'TARGET'), ('target,e0,e1,e2,Target', 'target'):
        write('t.csv', head, rows)
        said = call('m.onnx', '--data', 't.csv', '--steps', '1', *OUT).stderr
        check(f"t.csv: the target is column '{chosen}' (change with --target)" in said and HEADER not in said, f'{head}: {said}')
    write('t.csv', 'Target,e0,e1,e2,TARGET', rows)
    check("2 columns are named 'target'" in call('m.onnx', '--data', 't.csv', *OUT, code=4).stderr, 'Target and TARGET')
    # A wide table lists a few of its columns.
    names = [f'c{i}' for i in range(300)]
    model('wide.onnx', 300)
    wide = [[*r, i % 2] for i, r in enumerate(rng.standard_normal((ROWS, 300)).round(2).tolist())]
    write('wide.csv', ','.join([*names, 'target']), wide)
    call('wide.onnx', '--data', 'wide.csv', '--steps', '1', *OUT)
    write('less.csv', ','.join([*names[:7], 'd7', *names[8:], 'target']), wide)
    for command in ['eval', 'o.onnx', '--data', 'less.csv'], ['wide.onnx', '--data', 'less.csv', '--target', 'y', *OUT], ['wide.onnx', '--data', 'less.csv', '--inputs', 'y', *OUT]:
        said = call(*command, code=4).stderr
        check('less.csv: no column ' in said and said.count('\n') < 30 and '(281 more)' in said, f'{command}: {said}')
    # An infinite cell is named by its place, also of a target and behind an empty line.
    values = [[*r, v] for r, v in zip(x.tolist(), rng.standard_normal(ROWS).round(3))]
    model('v.onnx', 4, 1)
    for column, bad, what in (2, 'inf', 'infinity'), (0, '-inf', 'negative infinity'), (4, 'inf', 'infinity'):
        cells = [list(r) for r in values]
        cells[9][column] = bad
        for blank in 0, 1:
            text = ['a,b,c,d,price'] + [''] * blank + [','.join(map(str, r)) for r in cells]
            open('inf.csv', 'w').write('\n'.join(text) + '\n')
            said = call('v.onnx', '--data', 'inf.csv', '--normalize', 'mean,std', *OUT, code=4).stderr
            check(f"inf.csv: line {11 + blank}, column '{'a,b,c,d,price'.split(',')[column]}': contains {what}" in said, f'{column} {bad}: {said}')


def evaluation_line():
    """The command that a training prints gives the loss that the training measured, whatever its options say of the columns."""
    g = h.make_graph([h.make_node('Gemm', ['x', 'w', 'b'], ['f']), h.make_node('Mul', ['f', 'time'], ['p']), h.make_node('ReduceMean', ['p'], ['loss'], keepdims=0)], 'g',
                     [h.make_tensor_value_info('x', T.FLOAT, ['n', 2]), h.make_tensor_value_info('time', T.FLOAT, ['n', 1])], [h.make_tensor_value_info('loss', T.FLOAT, [])],
                     [numpy_helper.from_array(rng.standard_normal(s).astype('f4'), n) for n, s in (('w', (2, 1)), ('b', (1,)))])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 18)], ir_version=8), 'time.onnx')
    g = h.make_graph([h.make_node('Gather', ['e', 'user'], ['y'])], 'g', [h.make_tensor_value_info('user', T.INT64, ['n'])], [h.make_tensor_value_info('y', T.FLOAT, ['n', 1])],
                     [numpy_helper.from_array(rng.standard_normal((5, 1)).astype('f4'), 'e')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9), 'user.onnx')
    write('t.csv', 'a,b,time,user,score', [[*r[:3], 1000 + 7 * (i % 5), i % 3] for i, r in enumerate(x.tolist())])
    ways = [('time.onnx', ['--inputs', 'x=a,b;time=time', '--passthrough', 'time', '--loss', 'loss=output']), ('time.onnx', ['--inputs', 'x=a,b;time=time', '--normalize', 'mean,std', '--loss', 'loss=output']),
            ('user.onnx', ['--inputs', 'user', '--categories', 'user', '--target', 'score'])]
    for name, options in ways:
        for part in [], ['--val-split', '0.25'], ['--val', 't.csv']:
            said = call(name, '--data', 't.csv', *options, *part, '--epochs', '2', *OUT).stderr
            line = shlex.split(re.search('to evaluate: +onnxtrain (.*)', said)[1])
            told = float(re.search('trained model: o.onnx .*loss ([-0-9.e]+)', said)[1])
            got = json.loads(call(*line, '--json').stdout)['loss']
            check(not part or abs(got - told) < 1e-3 * (1 + abs(told)), f'{line}: {got}, not {told}')
    # Columns that are named again have another meaning in a further training only, and that is said.
    call('time.onnx', '--data', 't.csv', *ways[0][1], '--epochs', '1', *OUT)
    losses = [json.loads(call('eval', 'o.onnx', '--data', 't.csv', '--val-split', '0.25', *o, '--json').stdout)['loss'] for o in ([], ways[0][1][:2])]
    check(losses[0] == losses[1], f'--inputs of an evaluation: {losses}')
    said = call('o.onnx', '--data', 't.csv', *ways[0][1], '--epochs', '1', '--run-dir', 'none', '-o', 'p.onnx').stderr
    check('t.csv: --inputs chooses the columns again' in said, said)


def documented_encoder():
    """The Python code of docs/training.md encodes each kind of column as the program does."""
    code = next(c for c in re.findall(r'```python\n(.*?)```', open(DOCS).read(), re.S) if 'def encode(column' in c)
    named = {}
    exec(code[:code.index('\nmeta = ')], named)
    zone = ['', '+05:30', '-11:00', '+00:00']
    rows = [[x[i, 0], ['p', 'na', 'q', 'None'][i % 4], f'2024-02-{i % 29 + 1:02}', f'2023-12-{i % 3 + 29}T{7 * i % 24:02}:{13 * i % 60:02}:{17 * i % 60:02}.25{zone[i % 4]}',
             ['true', 'false', 'NA'][i % 3], i % 2] for i in range(ROWS)]
    rows[5][0], rows[7][2], rows[9][3] = 'n/a', 'NaN', 'null'
    # number 1, category 4, date 4, time 5, boolean 1; then one element for each column
    for columns, head in (15, 'num,kind,day,at,ok,target'), (5, 'num,kind,day,at,ok,target'):
        write('all.csv', head, rows)
        model('m.onnx', columns)
        call('m.onnx', '--data', 'all.csv', '--epochs', '1', *OUT)
        call('predict', 'o.onnx', 'all.csv', '-o', 'p.npz')
        record = json.loads(next(p.value for p in onnx.load('o.onnx').metadata_props if p.key == 'onnxtrain.preprocess'))
        feed = {name: np.stack([np.concatenate([named['encode'](c, r[c['name']].strip()) for c in of['columns']]) for r in csv.DictReader(open('all.csv'))])
                for name, of in record['inputs'].items()}
        want, got = onnxruntime.InferenceSession('o.onnx').run(None, feed)[0], np.load('p.npz')['y']
        check(want.shape == got.shape and abs(want - got).max() < 1e-4, f'{columns} elements: {abs(want - got).max()}')


def endings():
    """The ends of names are the same in capitals; files without samples, and texts for a model of tables."""
    model('m.onnx')
    write('t.csv', 'a,b,c,d,target', [[*r, i % 2] for i, r in enumerate(x.tolist())])
    text = open('t.csv').read()
    open('T.CSV', 'w').write(text)
    open('T.TSV', 'w').write(text.replace(',', '\t'))
    gzip.open('T.Csv.GZ', 'wt').write(text)
    open('T.JSONL', 'w').write(''.join(json.dumps(dict(zip('abcd', r), target=i % 2)) + '\n' for i, r in enumerate(x.tolist())))
    for name in 'T.CSV', 'T.TSV', 'T.Csv.GZ', 'T.JSONL':
        check(f'{name}: {ROWS} samples' in call('m.onnx', '--data', name, '--epochs', '1', *OUT).stderr, name)
    call('predict', 'o.onnx', 'T.CSV', '-o', 'P.NPZ')
    check(np.load('P.NPZ')['y'].shape == (ROWS, 2), 'P.NPZ')
    call('predict', 'o.onnx', 'T.CSV', '-o', 'P.Json')
    check(len(json.load(open('P.Json'))) == ROWS, 'P.Json')
    call('m.onnx', '--data', 'T.CSV', '--run-dir', 'none', '-o', 'O.CSV', code=2)
    open('t.txt', 'w').write(text)
    check('t.txt: is a text, but the model was trained on a table' in call('predict', 'o.onnx', 't.txt', code=4).stderr, 'a text for a model of tables')
    for name, content, said in ('empty.csv', '', 'is empty'), ('names.csv', 'a,b,c,d,target\n', 'has no samples, only the names of its columns'), \
            ('bars.csv', text.replace(',', '|'), 'columns are separated by commas, semicolons or tabs'), ('wide.csv', text.encode('utf-16'), 'iconv -f UTF-16'):
        open(name, 'wb').write(content if isinstance(content, bytes) else content.encode())
        for command in ['m.onnx', '--data', name, *OUT], ['predict', 'o.onnx', name]:
            if 'bars' not in name or command[0] == 'm.onnx':
                check(said in call(*command, code=4).stderr, f'{command}: {said}')
    write('one.csv', 'a,b,c,d,target', [[*x[0].tolist(), 1]])
    check('one.csv: 1 sample\n' in call('m.onnx', '--data', 'one.csv', '--epochs', '1', *OUT).stderr, 'one sample')


def lists():
    """Lists of numbers in JSON lines are columns; other lists are no target."""
    words = [['no', 'yes'][i % 2] for i in range(ROWS)]
    put = lambda path, rows: open(path, 'w').write(''.join(json.dumps(r) + '\n' for r in rows))
    model('m.onnx')
    put('list.jsonl', [dict(v=r, label=w) for r, w in zip(x.astype(float).round(3).tolist(), words)])
    write('list.csv', 'v.0,v.1,v.2,v.3,label', [[*r, w] for r, w in zip(x.astype(float).round(3).tolist(), words)])
    for name in 'csv', 'jsonl':
        call('m.onnx', '--data', f'list.{name}', '--epochs', '2', '--run-dir', 'none', '-o', f'{name}.onnx')
    check([numpy_helper.to_array(t).tobytes() for t in onnx.load('csv.onnx').graph.initializer] ==
          [numpy_helper.to_array(t).tobytes() for t in onnx.load('jsonl.onnx').graph.initializer], 'a list trains as its columns do')
    check(call('predict', 'csv.onnx', 'list.csv').stdout == call('predict', 'jsonl.onnx', 'list.jsonl').stdout, 'and predicts so')
    # as a target: the last member, by its name, or called `target`
    model('m.onnx', 4, 3)
    for name, more in ('y', ()), ('target', ()), ('a', ('--target', 'a')):
        rows = [dict(v=r, **{name: [float(r[0]), 2.5, -r[1]]}) for r in x.astype(float).tolist()]
        put('y.jsonl', rows if not more else [dict(a=r[name], v=r['v']) for r in rows])
        said = call('m.onnx', '--data', 'y.jsonl', '--loss', 'mse', '--epochs', '1', *OUT, *more).stderr
        check(f'{ROWS} samples' in said, said)
        rows = json.loads(call('predict', 'o.onnx', 'y.jsonl', '--json').stdout)
        check(len(rows) == ROWS and len(rows[0]['y']) == 3, f'three values: {rows[0]}')
        said = call('eval', 'o.onnx', '--data', 'y.jsonl').stdout
        check('rmse' in said and f'  2 {name}.2 ' in said, f'the list is found again: {said}')
    call('m.onnx', '--data', 'y.jsonl', '--target', 'a', '--inputs=-a', '--loss', 'mse', '--epochs', '1', *OUT)
    for row, what in (dict(v=[1, 2], label='no'), 'line 41: '), (dict(v='x', label='no'), 'not a list of 4 numbers'):
        put('bad.jsonl', [*(dict(v=r, label=w) for r, w in zip(x.astype(float).tolist(), words)), row])
        said = call('m.onnx', '--data', 'bad.jsonl', '--epochs', '1', *OUT, code=4).stderr
        check(what in said and "'v'" in said, said)
    put('lost.jsonl', [*(dict(v=r, label=w) for r, w in zip(x.astype(float).tolist(), words)), dict(label='no')])
    said = call('data', 'lost.jsonl').stdout
    check('missing' in said, f'a list that is missing: {said}')
    model('m.onnx')
    write('pipe.csv', 'a,b,c,d,genres', [[*r, ['drama', 'comedy', 'comedy|drama', 'horror'][i % 4]] for i, r in enumerate(x.tolist())])
    said = call('m.onnx', '--data', 'pipe.csv', '--epochs', '1', *OUT, code=4).stderr
    check("'comedy|drama' looks like several labels" in said and '--classes' not in said, said)
    put('tags.jsonl', [dict(v=r, tags=['B', 'O']) for r in x.astype(float).tolist()])
    said = call('m.onnx', '--data', 'tags.jsonl', '--epochs', '1', *OUT, code=4).stderr
    check('0 and 1 for each label' in said and '--classes' not in said, said)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    headers()
    unbalanced()
    whole_numbers()
    numbers_as_classes()
    messages()
    evaluation_line()
    endings()
    lists()
    documented_encoder()
    os.chdir('/')
finish('tables')
