"""Names of classes in a model with several outputs belong to the output whose target they are of: in the metadata, in `predict`, `eval` and messages.

usage: test_class_names.py PROGRAM
"""
import csv
import io
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

N = 60
rng = np.random.default_rng(5)
OPTIONS = ['--device', 'cpu', '--run-dir', 'none', '--epochs', '20', '--lr', '0.05', '--batch-size', '20']
BOTH = ['--inputs', 'a,b', '--target', 'animal=animal;year=year']


def model(path, heads, classes=None):
    """heads: (name, classes, operator at the end or None, name of the weight)."""
    nodes, weights, shapes = [], {}, []
    for name, width, tail, weight in heads:
        weights[weight] = numpy_helper.from_array(rng.standard_normal((2, width)).astype('f4'), weight)
        if tail:
            nodes += [h.make_node(tail, ['z' + weight], [name])]
        else:
            nodes += [h.make_node('MatMul', ['x', weight], ['z' + weight]), h.make_node('Identity', ['z' + weight], [name])]
        shapes.append(h.make_tensor_value_info(name, T.FLOAT, ['n', width]))
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 2])], shapes, list(weights.values()))
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)
    if classes:
        m.metadata_props.add(key='onnxtrain.classes', value=json.dumps(classes))
    onnx.save(m, path)


def classes(path):
    return json.loads({p.key: p.value for p in onnx.load(path).metadata_props}.get('onnxtrain.classes', 'null'))


def columns(path, data):
    return list(csv.DictReader(io.StringIO(call('predict', path, data, '--device', 'cpu').stdout)))


with tempfile.TemporaryDirectory() as d:
    for years in 2, 3:
        with open(f'{d}/t{years}.csv', 'w') as f:
            f.write('a,b,animal,year\n' + ''.join(f'{a:.3f},{b:.3f},{"dog" if a > 0 else "cat"},{int(b > 0) + int(b > 0.7 and years > 2)}\n' for a, b in rng.standard_normal((N, 2))))
        model(f'{d}/m{years}.onnx', [('animal', 2, None, 'w'), ('year', years, None, 'v')])

    # Of two outputs with as many classes only one has names.
    call('train', f'{d}/m2.onnx', '--data', f'{d}/t2.csv', '-o', f'{d}/o2.onnx', *BOTH, *OPTIONS)
    check(classes(f'{d}/o2.onnx') == {'animal': ['cat', 'dog']}, f'record {classes(f"{d}/o2.onnx")}')
    rows = columns(f'{d}/o2.onnx', f'{d}/t2.csv')
    check(rows[0].get('animal.class_name') in ('cat', 'dog') and 'year.class_name' not in rows[0], f'predict: {rows[0]}')
    told = call('eval', f'{d}/o2.onnx', '--data', f'{d}/t2.csv', '--device', 'cpu').stdout
    animal, year = told.split("output 'year'")
    check('  0 cat' in animal.split("output 'animal'")[1] and 'cat' not in year and 'dog' not in year, told)

    # A new last layer of one output leaves the names of the other.
    model(f'{d}/named.onnx', [('animal', 2, None, 'w'), ('year', 2, None, 'v')], {'animal': ['cat', 'dog'], 'year': ['one', 'two']})
    np.savez(f'{d}/t.npz', x=rng.standard_normal((N, 2)).astype('f4'), target_animal=rng.integers(0, 2, N), target_year=rng.integers(0, 5, N))
    call('train', f'{d}/named.onnx', '--data', f'{d}/t.npz', '--classes', 'year=5', '-o', f'{d}/o5.onnx', *OPTIONS)
    check(classes(f'{d}/o5.onnx') == {'animal': ['cat', 'dog']}, f'--classes of one output: {classes(f"{d}/o5.onnx")}')

    # Rows of one class alone keep its number.
    with open(f'{d}/t2.csv') as f, open(f'{d}/dogs.csv', 'w') as g:
        g.writelines(line for line in f if 'cat' not in line)
    scores = json.loads(call('eval', f'{d}/o2.onnx', '--data', f'{d}/dogs.csv', '--device', 'cpu', '--json').stdout)
    check(scores['accuracies']['animal'] > 0.9, f'dogs: {scores}')

    # Training the other output keeps the names; new strings of it are added; values remove their own.
    call('train', f'{d}/o2.onnx', '--data', f'{d}/t2.csv', '-o', f'{d}/y.onnx', '--target', 'year=year', *OPTIONS)
    check(classes(f'{d}/y.onnx') == {'animal': ['cat', 'dog']}, f'numbers: {classes(f"{d}/y.onnx")}')
    call('train', f'{d}/o2.onnx', '--data', f'{d}/t2.csv', '-o', f'{d}/both.onnx', '--target', 'year=animal', *OPTIONS)
    check(classes(f'{d}/both.onnx') == {'animal': ['cat', 'dog'], 'year': ['cat', 'dog']}, f'strings: {classes(f"{d}/both.onnx")}')
    call('train', f'{d}/both.onnx', '--data', f'{d}/t2.csv', '-o', f'{d}/values.onnx', '--target', 'animal=a,b', '--loss', 'animal=mse', *OPTIONS)
    check(classes(f'{d}/values.onnx') == {'year': ['cat', 'dog']}, f'values: {classes(f"{d}/values.onnx")}')

    # Another number of classes is another output's.
    call('train', f'{d}/m3.onnx', '--data', f'{d}/t3.csv', '-o', f'{d}/o3.onnx', *BOTH, *OPTIONS)
    rows = columns(f'{d}/o3.onnx', f'{d}/t3.csv')
    check('animal.class_name' in rows[0] and 'year.class_name' not in rows[0], f'predict of three: {rows[0]}')
    model(f'{d}/wide.onnx', [('animal', 5, None, 'w'), ('year', 3, None, 'v')])
    told = call('train', f'{d}/wide.onnx', '--data', f'{d}/t3.csv', '-o', f'{d}/no.onnx', *BOTH, *OPTIONS, code=4).stderr
    check("'animal' has 2 classes" in told and '--classes animal=5 keeps it' in told, told)
    told = json.loads(call('data', f'{d}/t3.csv', '--target', 'animal=animal;year=year', '--json').stdout)['training']['arrays']
    check([[c.get('name') for c in a.get('classes', ())] for a in told[1:]] == [['cat', 'dog'], [None] * 3], f'data: {told}')

    # Probabilities have the names of their logits; a list, of one output or of an older version, is of every output that fits.
    model(f'{d}/same.onnx', [('logits', 2, None, 'w'), ('p', 2, 'Softmax', 'w')])
    call('train', f'{d}/same.onnx', '--data', f'{d}/t2.csv', '-o', f'{d}/p.onnx', '--inputs', 'a,b', '--target', 'logits=animal', *OPTIONS)
    rows = columns(f'{d}/p.onnx', f'{d}/t2.csv')
    check(rows[0]['logits.class_name'] == rows[0]['p.class_name'], f'the same scores: {rows[0]}')
    model(f'{d}/old.onnx', [('animal', 2, None, 'w'), ('year', 3, None, 'v')], ['no', 'yes'])
    np.savez(f'{d}/x.npz', x=rng.standard_normal((4, 2)).astype('f4'))
    rows = columns(f'{d}/old.onnx', f'{d}/x.npz')
    check('animal.class_name' in rows[0] and 'year.class_name' not in rows[0], f'a list: {rows[0]}')
    model(f'{d}/one.onnx', [('y', 2, None, 'w')])
    call('train', f'{d}/one.onnx', '--data', f'{d}/t2.csv', '-o', f'{d}/o1.onnx', '--inputs', 'a,b', '--target', 'animal', *OPTIONS)
    check(classes(f'{d}/o1.onnx') == ['cat', 'dog'], f'one output: {classes(f"{d}/o1.onnx")}')

finish('checks')
