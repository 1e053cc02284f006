"""What `predict` answers, against ONNX Runtime's outputs: classes and probabilities of every kind of tail, values, formats, names.

usage: test_predict.py PROGRAM
"""
import csv
import io
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

N, FEATURES = 53, 6
rng = np.random.default_rng(3)
x = rng.standard_normal((N, FEATURES)).astype('f4')


def model(path, outputs, classes=None):
    """outputs: (name, columns, operator at the end or None, whether samples lie along the second axis)."""
    nodes, weights, shapes = [], [], []
    for name, columns, tail, turned in outputs:
        w = rng.standard_normal((FEATURES, columns)).astype('f4')
        weights.append(numpy_helper.from_array(w, 'w' + name))
        nodes.append(h.make_node('MatMul', ['x', 'w' + name], ['m' + name]))
        nodes.append(h.make_node(tail or 'Identity', ['m' + name], ['t' + name if turned else name]))
        if turned:
            nodes.append(h.make_node('Transpose', ['t' + name], [name], perm=[1, 0]))
        shapes.append(h.make_tensor_value_info(name, T.FLOAT, [columns, 'n'] if turned else ['n', columns]))
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', FEATURES])], shapes, weights)
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)
    if classes:
        m.metadata_props.add(key='onnxtrain.classes', value=json.dumps(classes))
    onnx.save(m, path)
    return onnxruntime.InferenceSession(path).run(None, {'x': x})


def table(text):
    rows = list(csv.reader(io.StringIO(text)))
    return rows[0], rows[1:]


def softmax(v):
    e = np.exp(v - v.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def near(a, b, by=2e-6):
    return np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=by, atol=by)


def expect_classes(d, tail, probabilities, names, *options):
    (y,) = model(f'{d}/m.onnx', [('y', 4, tail, False)], names)
    head, rows = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--top', '3', *options).stdout)
    p = probabilities(y)
    order = np.argsort(-p, axis=1, kind='stable')[:, :3]
    each = ['class', 'class_name', 'probability'] if names else ['class', 'probability']
    check(head == ['sample'] + each + [f'{c}_{k}' for k in (2, 3) for c in each], f'{tail}: {head}')
    check([int(r[0]) for r in rows] == list(range(N)), f'{tail}: samples {[r[0] for r in rows]}')
    for k in range(3):
        at = 1 + k * len(each)
        check([int(r[at]) for r in rows] == list(order[:, k]), f'{tail}: class {k + 1}')
        check(near([r[at + len(each) - 1] for r in rows], p[np.arange(N), order[:, k]]), f'{tail}: probability {k + 1}')
        if names:
            check([r[at + 1] for r in rows] == [names[c].replace('\n', '\\n') for c in order[:, k]], f'{tail}: names')


def kinds(d):
    names = ['a cat', 'dog, "large"', '=1+1', 'x\ny']
    expect_classes(d, 'Softmax', lambda y: y, None)
    expect_classes(d, 'LogSoftmax', np.exp, None)
    expect_classes(d, None, softmax, names)
    expect_classes(d, None, softmax, None, '--task', 'classes')

    (y,) = model(f'{d}/m.onnx', [('y', 4, None, False)])
    head, rows = table(call('predict', f'{d}/m.onnx', '--data', f'{d}/x.npz').stdout)
    check(head == ['sample'] + [f'y_{k}' for k in range(4)] and near([r[1:] for r in rows], y), f'values: {head}')

    (y,) = model(f'{d}/m.onnx', [('y', 3, 'Sigmoid', False)], ['red', 'green', 'blue'])
    head, rows = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz').stdout)
    check(head == ['sample', 'red', 'green', 'blue'] and near([r[1:] for r in rows], y), f'labels: {head}')

    (y,) = model(f'{d}/m.onnx', [('y', 1, 'Sigmoid', False)], ['no', 'yes'])
    head, rows = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz').stdout)
    yes = y[:, 0] > 0.5
    check(head == ['sample', 'class', 'class_name', 'probability'], f'binary: {head}')
    check([r[2] for r in rows] == ['yes' if b else 'no' for b in yes], 'binary: names')
    check(near([r[3] for r in rows], np.maximum(y[:, 0], 1 - y[:, 0])), 'binary: probabilities')


def several(d):
    a, b = model(f'{d}/m.onnx', [('a', 3, 'Softmax', False), ('b', 2, None, True)])
    head, rows = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--batch-size', '7').stdout)
    check(head == ['sample', 'a.class', 'a.probability', 'b.value_0', 'b.value_1'], f'two outputs: {head}')
    check([int(r[1]) for r in rows] == list(a.argmax(1)) and near([r[3:] for r in rows], b.T), 'two outputs: values')

    call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/p.npz')
    with np.load(f'{d}/p.npz') as z:
        check(near(z['a'], a) and near(z['b'], b.T), 'npz')
    for name in 'p.json', 'p.jsonl':
        for again in range(2):  # the second replaces the first
            call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/{name}')
        text = open(f'{d}/{name}').read()
        got = json.loads(text) if name == 'p.json' else [json.loads(line) for line in text.splitlines()]
        check([s['sample'] for s in got] == list(range(N)), f'{name}: samples')
        check(near([s['a'][0]['probability'] for s in got], a.max(1)) and near([s['b'] for s in got], b.T), name)
    check(json.loads(call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--json').stdout)[0]['sample'] == 0, '--json')


def table_of_strings(d):
    """What a table says its target is does not matter, not even whether it has one."""
    rows = [f'{k % 7},{k % 3},{"no" if k % 7 < 3 else "yes"}' for k in range(70)]
    open(f'{d}/t.csv', 'w').write('a,b,target\n' + '\n'.join(rows) + '\n')
    call('new', 'mlp', '--input', '2x1x1', '--hidden', '4', '--classes', '2', '-o', f'{d}/n.onnx')
    call('train', f'{d}/n.onnx', '--data', f'{d}/t.csv', '--epochs', '2', '--run-dir', 'none', '-o', f'{d}/nt.onnx')
    want = call('predict', f'{d}/nt.onnx', f'{d}/t.csv').stdout
    check({r[2] for r in table(want)[1]} <= {'no', 'yes'}, want[:200])
    open(f'{d}/other.csv', 'w').write('a,b,target\n' + '\n'.join(r.replace('yes', 'perhaps') for r in rows) + '\n')
    check(call('predict', f'{d}/nt.onnx', f'{d}/other.csv').stdout == want, 'other targets')


def lines(d):
    """A sample of a table with empty lines is found by its line."""
    open(f'{d}/gaps.csv', 'w').write('a,b\n1,2\n\n2,0\n\n\n"3",1\n')
    open(f'{d}/whole.csv', 'w').write('a,b\n1,2\n2,0\n3,1\n')
    head, rows = table(call('predict', f'{d}/nt.onnx', f'{d}/gaps.csv').stdout)
    check(head[:2] == ['sample', 'line'] and [r[:2] for r in rows] == [['0', '2'], ['1', '4'], ['2', '7']], f'lines: {head} {rows}')
    head, same = table(call('predict', f'{d}/nt.onnx', f'{d}/whole.csv').stdout)
    check(head[1] != 'line' and [r[:1] + r[2:] for r in rows] == same, f'lines: {head}')
    got = json.loads(call('predict', f'{d}/nt.onnx', f'{d}/gaps.csv', '--json').stdout)
    check([s['line'] for s in got] == [2, 4, 7], 'lines: JSON')


def refused(d):
    model(f'{d}/m.onnx', [('y', 2, None, False)])
    before = open(f'{d}/x.npz', 'rb').read()
    check('is being read' in call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/x.npz', code=2).stderr, 'its own data')
    check(open(f'{d}/x.npz', 'rb').read() == before, 'its own data is overwritten')
    open(f'{d}/other.csv', 'w').write('a,b\n1,2\n')
    check('is not a file of predictions' in call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/other.csv', code=2).stderr, 'a table of others')
    call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/p.onnx', code=2)
    call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--task', 'guess', code=2)
    check('--data is missing' in call('predict', f'{d}/m.onnx', code=2).stderr, 'no data')
    call('predict', f'{d}/m.onnx', f'{d}/none.npz', code=7)


with tempfile.TemporaryDirectory() as folder:
    np.savez(f'{folder}/x.npz', x=x)
    kinds(folder)
    several(folder)
    table_of_strings(folder)
    lines(folder)
    refused(folder)
finish('predictions')
