"""Tables for models that begin with a scaler or an imputer, as pipelines of scikit-learn do: they get the numbers as they are.

usage: test_pipelines.py PROGRAM
"""
import json
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

rng = np.random.default_rng(5)
ROWS = 60
x = np.stack([rng.normal(40, 9, ROWS), rng.normal(50000, 9000, ROWS)], 1).round(2).astype('f4')
mean, std = np.float32([40, 50000]), np.float32([9, 9000])
y = (((x - mean) / std).sum(1) > 0).astype(int)
SCALER, IMPUTER, ALONE = 'the model itself scales them', 'the model itself replaces its missing values', 'numbers are standardised'


def numbers(name, v):
    return numpy_helper.from_array(np.float32(v), name)


def ml(kind, given, result, **more):
    return h.make_node(kind, given, result, domain='ai.onnx.ml', **more)


def scaler(given, result):
    return [ml('Scaler', [given], [result], offset=mean.tolist(), scale=(1 / std).tolist())]


def imputer(given, result):
    return [ml('Imputer', [given], [result], imputed_value_floats=mean.tolist(), replaced_value_float=float('nan'))]


def model(path, begin, inputs=(('x', 2),), tensors=()):
    """begin: the nodes from the inputs to 'z'."""
    nodes = begin + [h.make_node('Gemm', ['z', 'fc.weight', 'fc.bias'], ['out'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info(n, T.FLOAT, ['n', w]) for n, w in inputs], [h.make_tensor_value_info('out', T.FLOAT, ['n', 2])],
                     [numbers('fc.weight', [[-1, 1], [-1, 1]]), numbers('fc.bias', [0, 0]), *tensors])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17), h.make_opsetid('ai.onnx.ml', 3)], ir_version=8), path)


def table(path, rows, blank=(), head='age,income,bought'):
    """blank: rows whose first cell is missing."""
    text = [head] + [f"{'' if i in blank else rows[i, 0]},{rows[i, 1]},{y[i]}" for i in range(len(rows))]
    open(path, 'w').write('\n'.join(text) + '\n')


def accuracy(path, data, *options):
    r = call('eval', path, '--data', data, '--json', *options)
    return json.loads(r.stdout)['accuracy'], r.stderr


def scalers():
    """A column with a missing value makes the others standardised, except for a model that scales them itself."""
    table('gap.csv', x, [3])
    shift, divide = [numbers('m', mean)], [numbers('s', std)]
    both = shift + divide
    written = [h.make_node('Sub', ['x', 'm'], ['c']), h.make_node('Div', ['c', 's'], ['z'])]
    split = [h.make_node('Split', ['x'], ['a', 'b'], axis=1), h.make_node('Sub', ['a', 'm0'], ['a1']), h.make_node('Div', ['a1', 's0'], ['a2']), h.make_node('Sub', ['b', 'm1'], ['b1']),
             h.make_node('Mul', ['b1', 's1'], ['b2']), h.make_node('Concat', ['a2', 'b2'], ['z'], axis=1)]
    pick = [h.make_node('Cast', ['x'], ['k'], to=T.FLOAT), ml('ArrayFeatureExtractor', ['k', 'both'], ['e'])]
    parts = [numbers('m0', mean[:1]), numbers('s0', std[:1]), numbers('m1', mean[1:]), numbers('s1', 1 / std[1:])]
    for name, begin, tensors in (('op', scaler('x', 'z'), []), ('written', written, both), ('split', split, parts), ('pick', pick + scaler('e', 'z'), [numpy_helper.from_array(np.arange(2), 'both')]),
                                 ('range', [h.make_node('Mul', ['x', 's'], ['c']), h.make_node('Add', ['c', 'm'], ['z'])], [numbers('s', 1 / std), numbers('m', -mean / std)])):
        model('s.onnx', begin, tensors=tensors)
        got, said = accuracy('s.onnx', 'gap.csv', '--inputs', 'auto')
        check(got > .98 and SCALER in said and ALONE not in said, f'{name}: {got} {said}')
        got, said = accuracy('s.onnx', 'gap.csv', '--inputs', 'auto', '--normalize', 'none')
        check(got > .98 and SCALER not in said, f'{name}, none: {got} {said}')
        said = call('s.onnx', '--data', 'gap.csv', '--normalize', 'mean,std', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx').stderr
        check(SCALER not in said and ALONE in said, f'{name}, mean,std: {said}')
    # Another path, without a scaler; a weight that trains; a scaler of something else.
    skip = scaler('x', 'c') + [h.make_node('Add', ['c', 'x'], ['z'])]
    late = [h.make_node('Relu', ['x'], ['r'])] + scaler('r', 'z')
    for name, begin in ('skip', skip), ('late', late), ('none', [h.make_node('Identity', ['x'], ['z'])]):
        model('s.onnx', begin)
        said = call('s.onnx', '--data', 'gap.csv', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx').stderr
        check(SCALER not in said and ALONE in said, f'{name}: {said}')
    # Two inputs that meet before the scaler; training keeps what the model can do, and its record what it was trained on.
    model('two.onnx', [h.make_node('Concat', ['age', 'income'], ['c'], axis=1)] + scaler('c', 'z'), [('age', 1), ('income', 1)])
    got, said = accuracy('two.onnx', 'gap.csv', '--inputs', 'auto')
    check(got > .98 and said.count(SCALER) == 2, f'two inputs: {got} {said}')
    call('two.onnx', '--data', 'gap.csv', '--epochs', '2', '--run-dir', 'none', '-o', 'o.onnx')
    got, said = accuracy('o.onnx', 'gap.csv')
    check(got > .9, f'two inputs, trained: {got} {said}')
    (answer,) = onnxruntime.InferenceSession('o.onnx').run(['out'], {'age': x[4:, :1], 'income': x[4:, 1:]})
    check((answer.argmax(1) == y[4:]).mean() > .9, 'two inputs, in ONNX Runtime')


def targets():
    """A fitted model's output is in the unit of its target: values are not standardised beside numbers that it scales."""
    for name, begin, some in ('scaled', scaler('x', 'z'), False), ('plain', [h.make_node('Identity', ['x'], ['z'])], True):
        nodes = begin + [h.make_node('Concat', ['z', 'k'], ['c'], axis=1), h.make_node('Gemm', ['c', 'fc.weight', 'fc.bias'], ['out'])]
        g = h.make_graph([ml('OneHotEncoder', ['kind'], ['o'], cats_strings=['u', 'v']), h.make_node('Reshape', ['o', 'two'], ['k'])] + nodes, 'g',
                         [h.make_tensor_value_info('x', T.FLOAT, ['n', 2]), h.make_tensor_value_info('kind', T.STRING, ['n', 1])], [h.make_tensor_value_info('out', T.FLOAT, ['n', 1])],
                         [numbers('fc.weight', [[30], [20], [5], [-5]]), numbers('fc.bias', [100]), numpy_helper.from_array(np.array([-1, 2]), 'two')])
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17), h.make_opsetid('ai.onnx.ml', 3)], ir_version=8), 'price.onnx')
        prices = 100 + ((x - mean) / std) @ [30, 20]
        open('price.csv', 'w').write('age,income,kind,price\n' + ''.join(f"{a},{b},{'uv'[i % 2]},{p + 5 - 10 * (i % 2):.3f}\n" for i, ((a, b), p) in enumerate(zip(x, prices))))
        said = call('price.onnx', '--data', 'price.csv', '--epochs', '1', '--run-dir', 'none', '-o', 'o.onnx').stderr
        check(('values are standardised' in said) == some and (SCALER in said) != some, f'target, {name}: {said}')
        if not some:
            loss = json.loads(call('eval', 'o.onnx', '--data', 'price.csv', '--json').stdout)['loss']
            check(loss < .1, f'target: {loss} after training')


def imputers():
    """Missing values reach a model that replaces them: in training, eval, predict and a test set, whatever is recorded."""
    model('i.onnx', imputer('x', 'k') + scaler('k', 'z'))
    blank = [3, 8, 20]
    table('gaps.csv', x, blank)
    table('full.csv', x)
    holes = x.copy()
    holes[blank, 0] = np.nan
    want = (onnxruntime.InferenceSession('i.onnx').run(None, {'x': holes})[0].argmax(1) == y).mean()
    out = ['--epochs', '1', '--optimizer', 'sgd:lr=0', '--freeze', 'fc.bias', '--run-dir', 'none', '-o', 'o.onnx']
    for normalize in [], ['--normalize', 'none'], ['--normalize', 'mean,std']:
        for train in 'gaps.csv', 'full.csv':
            said = call('i.onnx', '--data', train, '--test', 'gaps.csv', *out, *normalize).stderr
            check(f'accuracy {want * 100:.2f} %' in said and ALONE not in said, f'--test, {train} {normalize}: {said}')
            check(normalize[1:] == ['none'] or (not normalize and train == 'full.csv') or IMPUTER in said, f'{train} {normalize}: {said}')
            got, said = accuracy('o.onnx', 'gaps.csv')
            check(abs(got - want) < 1e-6, f'eval, {train} {normalize}: {got} {want} {said}')
            rows = call('predict', 'o.onnx', 'gaps.csv', '--task', 'classes').stdout.splitlines()[1:]
            right = np.mean([int(r.split(',')[1]) == k for r, k in zip(rows, y)])
            check(len(rows) == ROWS and abs(right - want) < 1e-6, f'predict, {train} {normalize}: {right}')
    said = call('i.onnx', '--data', 'gaps.csv', '--val-split', '.2', *out).stderr
    check('left to the model' in said, f'--val-split: {said}')
    got, said = accuracy('i.onnx', 'gaps.csv')
    check(abs(got - want) < 1e-6, f'eval without a record: {got} {said}')
    model('s.onnx', scaler('x', 'z'))
    check('has missing values' in call('eval', 's.onnx', '--data', 'gaps.csv', code=4).stderr, 'a model without an imputer')


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    scalers()
    targets()
    imputers()
    os.chdir('/')
finish('pipelines')
