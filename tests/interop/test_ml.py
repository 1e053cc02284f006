"""Operators of ai.onnx.ml against the standard's reference evaluator and ONNX Runtime.

usage: test_ml.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

from onnx.reference import ReferenceEvaluator
from scripts import T, h, np, onnx, onnxruntime

program = os.path.abspath(sys.argv[1])
failed = total = 0
TYPES = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int64): T.INT64, np.dtype(np.float64): T.DOUBLE}


def judge(m, op, feeds):
    """Trees and vectors: the reference evaluator does not run all of them."""
    if not op.startswith(('Tree', 'SVM', 'LabelEncoder')):
        return ReferenceEvaluator(m).run(None, feeds)
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(m.SerializeToString(), providers=['CPUExecutionProvider']).run(None, feeds)


def run(what, op, feeds, outputs=1, code=0, want=None, node='the_node', said='the_node', **attrs):
    global failed, total
    total += 1
    names = ['y', 'z'][:outputs]
    made = h.make_node(op, list(feeds), names, name=node, domain='ai.onnx.ml', **attrs)
    g = h.make_graph([made], 'g', [h.make_tensor_value_info(k, TYPES[v.dtype], v.shape) for k, v in feeds.items()], [h.make_tensor_value_info(n, 0, None) for n in names])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('ai.onnx.ml', 3)], ir_version=10)
    with tempfile.TemporaryDirectory() as d:
        for o in m.graph.output:
            o.ClearField('type')
        onnx.save(m, d + '/m.onnx')
        np.savez(d + '/x.npz', **feeds)
        r = subprocess.run([program, 'run', d + '/m.onnx', '--data', d + '/x.npz', '-o', d + '/y.npz'], capture_output=True, text=True, timeout=120)
        problem = None
        if r.returncode != code or (code and said not in r.stderr):
            problem = f'exit {r.returncode}, {code} is right: {r.stderr.strip()}'
        elif not code:
            got = np.load(d + '/y.npz')
            right = [want] if isinstance(want, np.ndarray) else want if want is not None else judge(m, op, feeds)
            for n, w in zip(names, right):
                if w is None:
                    continue
                if got[n].shape != w.shape or got[n].dtype.kind != w.dtype.kind or not (np.array_equal(got[n], w) if w.dtype.kind == 'U' else
                                                                                       got[n].dtype == w.dtype and np.allclose(got[n], w, rtol=1e-5, atol=1e-6, equal_nan=True)):
                    problem = f'{n} is {got[n].dtype} {got[n].tolist()}, {w.dtype} {w.tolist()} is right'
        if problem:
            print(f'FAILED {what}: {problem}')
            failed += 1


x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
gaps = np.where(x > 0.3, np.float32('nan'), x)
k = np.array([[3, 1], [7, 5]], np.int64)
run('scaler', 'Scaler', {'x': x}, offset=[1.0, 2.0, -1.0], scale=[0.5, 2.0, 3.0])
run('scaler of one number', 'Scaler', {'x': x}, offset=[1.0], scale=[0.5])
run('scaler of integers', 'Scaler', {'x': k}, offset=[1.0, 2.0], scale=[0.5, 2.0], want=((k - [1, 2]) * [0.5, 2]).astype(np.float32))
run('binarizer', 'Binarizer', {'x': x}, threshold=0.2)
for norm in ('MAX', 'L1', 'L2'):
    run('normalizer ' + norm, 'Normalizer', {'x': x}, norm=norm)
run('imputer of NaN', 'Imputer', {'x': gaps}, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float('nan'))
run('imputer of a number', 'Imputer', {'x': np.round(x)}, imputed_value_floats=[9.0], replaced_value_float=1.0)
run('imputer of integers', 'Imputer', {'x': k}, code=3, imputed_value_int64s=[9], replaced_value_int64=1)
for shape in ([2], [1, 2]):
    run('extractor', 'ArrayFeatureExtractor', {'x': x, 'i': np.array([2, 0], np.int64).reshape(shape)})
run('extractor of a line', 'ArrayFeatureExtractor', {'x': x[0].copy(), 'i': np.array([2, 0], np.int64)})
run('one hot', 'OneHotEncoder', {'x': k}, cats_int64s=[1, 3, 9])
known = np.array([[3, 1], [9, 1]], np.int64)
run('one hot without unknown categories', 'OneHotEncoder', {'x': known}, cats_int64s=[1, 3, 9], zeros=0)
run('one hot with unknown categories', 'OneHotEncoder', {'x': k}, want=(k[..., None] == [1, 3, 9]).astype(np.float32), cats_int64s=[1, 3, 9], zeros=0)
run('one hot named as its operator', 'OneHotEncoder', {'x': k}, code=3, node='OneHotEncoder', said='onnx: OneHotEncoder: its categories are missing')
run('one hot of strings', 'OneHotEncoder', {'x': k}, code=3, cats_strings=['a'])
run('regressor', 'LinearRegressor', {'x': x}, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5], targets=1)
run('regressor of two', 'LinearRegressor', {'x': x}, coefficients=[0.1, 0.2, 0.3, -1.0, 2.0, 4.0], intercepts=[0.5, -0.5], targets=2)
run('regressor that does not fit', 'LinearRegressor', {'x': x}, code=3, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5], targets=2)
three = dict(coefficients=[0.1, 0.2, 0.3, -1.0, 2.0, 4.0, 0.3, 0.5, -0.7], intercepts=[0.5, -0.5, 0.1], classlabels_ints=[4, 7, 2])
for transform in ('NONE', 'LOGISTIC', 'SOFTMAX'):
    run('classifier ' + transform, 'LinearClassifier', {'x': x}, outputs=2, post_transform=transform, **three)
    run('classifier of two by one row, ' + transform, 'LinearClassifier', {'x': x}, outputs=2, post_transform=transform, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5],
        classlabels_ints=[0, 1])
run('classifier PROBIT', 'LinearClassifier', {'x': x}, code=3, post_transform='PROBIT', **three)
run('classifier of strings', 'LinearClassifier', {'x': x}, outputs=2, want=(np.where(x @ [0.1, 0.2, 0.3] + 0.5 > 0, 'é', 'nobody'), None),
    coefficients=[0.1, 0.2, 0.3], intercepts=[0.5], classlabels_strings=['nobody', 'é'])

# trees: two of depth 2 with every comparison, and NaN where one goes on to the true branch
tree = dict(nodes_treeids=[0] * 5 + [1] * 5, nodes_nodeids=[0, 1, 2, 3, 4] * 2, nodes_featureids=[0, 1, 0, 0, 0, 2, 0, 0, 0, 0],
            nodes_values=[0.1, -0.2, 0.0, 0.0, 0.0, 0.3, 0.5, 0.0, 0.0, 0.0], nodes_truenodeids=[1, 3, 0, 0, 0, 1, 3, 0, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 4, 0, 0, 0])
modes = ['BRANCH_LEQ', 'BRANCH_GT', 'LEAF', 'LEAF', 'LEAF', 'BRANCH_LT', 'BRANCH_GTE', 'LEAF', 'LEAF', 'LEAF']
leaves = dict(treeids=[0] * 6 + [1] * 6, nodeids=[2, 2, 3, 3, 4, 4] * 2, ids=[0, 1] * 6, weights=[1.5, -2.0, 0.25, 4.0, -0.5, 3.0, 0.7, -0.3, 1.1, 2.0, -1.2, 0.9])
thirds = dict(leaves, ids=[0, 1, 2, 1, 2, 0] * 2)
one = dict(treeids=[0, 0, 0, 1, 1, 1], nodeids=[2, 3, 4] * 2, ids=[0] * 6, weights=[1.5, -2.0, 0.25, 4.0, -0.5, 3.0])
gap = np.where(np.arange(12).reshape(4, 3) % 5 == 3, np.float32('nan'), x)
far = (x * 3).astype(np.float32)
for data in (x, gap, far):
    for sums in ('SUM', 'AVERAGE'):
        run('regressor of trees, ' + sums, 'TreeEnsembleRegressor', {'x': data}, n_targets=2, aggregate_function=sums, nodes_modes=modes, **tree, base_values=[0.5, -1.0],
            nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0, 1, 0, 0, 0], **{'target_' + k: v for k, v in leaves.items()})
    for transform in ('NONE', 'SOFTMAX', 'LOGISTIC'):
        run('classifier of trees, ' + transform, 'TreeEnsembleClassifier', {'x': data}, outputs=2, post_transform=transform, nodes_modes=modes, **tree, classlabels_int64s=[4, 9, 2],
            **{'class_' + k: v for k, v in thirds.items()})
    run('classifier of two by trees of one', 'TreeEnsembleClassifier', {'x': data}, outputs=2, post_transform='LOGISTIC', nodes_modes=modes, **tree, classlabels_int64s=[0, 1],
        **{'class_' + k: v for k, v in one.items()})
for aggregate in ('MIN', 'MAX'):
    run('regressor of trees, ' + aggregate, 'TreeEnsembleRegressor', {'x': x}, n_targets=1, aggregate_function=aggregate, nodes_modes=modes, **tree,
        **{'target_' + k: v for k, v in one.items()})
run('a tree that leads round', 'TreeEnsembleRegressor', {'x': x}, code=3, n_targets=1, nodes_treeids=[0, 0], nodes_nodeids=[0, 1], nodes_featureids=[0, 0], nodes_values=[0.0, 0.0],
    nodes_modes=['BRANCH_LEQ', 'LEAF'], nodes_truenodeids=[0, 0], nodes_falsenodeids=[1, 0], target_treeids=[0], target_nodeids=[1], target_ids=[0], target_weights=[1.0])
vectors = dict(n_supports=2, support_vectors=[0.5, -1.0, 2.0, 1.0, 0.0, -0.5], coefficients=[0.7, -1.2], rho=[0.3], kernel_params=[0.4, 0.1, 3.0])
for kernel in ('LINEAR', 'POLY', 'RBF', 'SIGMOID'):
    run('support vectors, ' + kernel, 'SVMRegressor', {'x': x}, kernel_type=kernel, **vectors)
run('side by side', 'FeatureVectorizer', {'x': x, 'k': k.repeat(2, 0)}, inputdimensions=[3, 2], want=np.concatenate([x, k.repeat(2, 0).astype(np.float32)], 1))
run('labels of integers', 'LabelEncoder', {'x': k}, keys_int64s=[3, 7], values_floats=[0.5, 1.5], default_float=9.0)
run('labels that are strings', 'LabelEncoder', {'x': k}, keys_int64s=[3, 7], values_strings=['three', 'seven'], want=np.array([['three', '_Unused'], ['seven', '_Unused']]))
run('labels of floats', 'LabelEncoder', {'x': np.float32([[1, np.nan], [2, 3]])}, keys_floats=[1.0, float('nan'), 3.0], values_int64s=[10, 20, 30], default_int64=-7, want=np.array([[10, 20], [-7, 30]]))
run('maps', 'ZipMap', {'x': x}, classlabels_int64s=[5, 6, 7], want=x)


def check(what, so, said=''):
    global failed, total
    total += 1
    if not so:
        print(f'FAILED {what}: {said}')
        failed += 1


def field(number, raw):
    size = len(raw)
    return bytes([number << 3 | 2] + ([size] if size < 128 else [size & 127 | 128, size >> 7])) + raw


def packed(m):
    """The file of a model of one node, its lists of floats as some writers write them: one field that holds all."""
    rest, node, m2 = onnx.NodeProto(), onnx.NodeProto(), onnx.ModelProto()
    m2.CopyFrom(m)
    node.CopyFrom(m2.graph.node[0])
    rest.CopyFrom(node)
    del rest.attribute[:], m2.graph.node[:]
    raw = rest.SerializeToString()
    for a in node.attribute:
        floats = np.array(a.floats, '<f4').tobytes()
        del a.floats[:]
        raw += field(5, a.SerializeToString() + (field(7, floats) if floats else b''))
    graph = m2.graph.SerializeToString() + field(1, raw)
    m2.ClearField('graph')
    return m2.SerializeToString() + field(7, graph)


def linear_trains():
    """Coefficients and intercepts train; the file keeps all but those floats."""
    w, b = np.float32([[0.1, 0.2, 0.3], [-1.0, 2.0, 4.0], [0.3, 0.5, -0.7]]), np.float32([0.5, -0.5, 0.1])
    t = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    lists = dict(coefficients=w.ravel().tolist(), intercepts=b.tolist())
    for op, outputs, more in (('LinearRegressor', ['y'], dict(targets=3)), ('LinearClassifier', ['label', 'y'], dict(classlabels_ints=[0, 1, 2], post_transform='NONE'))):
        node = h.make_node(op, ['x'], outputs, name='the_node', domain='ai.onnx.ml', **lists, **more)
        types = [h.make_tensor_value_info(n, T.INT64 if n == 'label' else T.FLOAT, None) for n in outputs]
        m = h.make_model(h.make_graph([node], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 3])], types),
                         opset_imports=[h.make_opsetid('', 21), h.make_opsetid('ai.onnx.ml', 3)], ir_version=10)
        with tempfile.TemporaryDirectory() as d:
            np.savez(d + '/d.npz', x=x, target_y=t)
            for form in (False, True):
                open(d + '/m.onnx', 'wb').write(packed(m) if form else m.SerializeToString())
                for rate in (0, 0.5):
                    what = f'{op}, rate {rate}'
                    r = subprocess.run([program, 'train', d + '/m.onnx', '--data', d + '/d.npz', '-o', d + '/t.onnx', '--steps', '1', '--batch-size', '4', '--no-shuffle', '--loss', 'y=mse',
                                        '--optimizer', f'sgd:lr={rate}', '--run-dir', 'none', '--device', 'cpu'], capture_output=True, text=True, timeout=120)
                    check(what, r.returncode == 0, r.stderr)
                    if r.returncode:
                        continue
                    if not rate:
                        check(what, open(d + '/m.onnx', 'rb').read() == open(d + '/t.onnx', 'rb').read(), 'the file differs')
                        continue
                    g = 2 * (x @ w.T + b - t) / t.size
                    after = onnx.load(d + '/t.onnx')
                    got = {a.name: np.array(a.floats, np.float32) for a in after.graph.node[0].attribute}
                    check(what, np.allclose(got['coefficients'], (w - rate * g.T @ x).ravel(), 1e-5, 1e-6), got['coefficients'])
                    check(what, np.allclose(got['intercepts'], b - rate * g.sum(0), 1e-5, 1e-6), got['intercepts'])
                    for a in after.graph.node[0].attribute:
                        if a.name in lists:
                            a.floats[:] = lists[a.name]
                    check(what, m.SerializeToString() == after.SerializeToString(), 'more than the floats differs')
                    check(what, os.path.getsize(d + '/m.onnx') == os.path.getsize(d + '/t.onnx'), 'another size')


def trees_do_not():
    node = h.make_node('TreeEnsembleRegressor', ['x'], ['y'], name='the_node', domain='ai.onnx.ml', n_targets=2, nodes_modes=modes, **tree, **{'target_' + k: v for k, v in leaves.items()})
    m = h.make_model(h.make_graph([node], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 3])], [h.make_tensor_value_info('y', T.FLOAT, ['N', 2])]),
                     opset_imports=[h.make_opsetid('', 21), h.make_opsetid('ai.onnx.ml', 3)], ir_version=10)
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, d + '/m.onnx')
        np.savez(d + '/d.npz', x=x, target=np.zeros((4, 2), np.float32))
        r = subprocess.run([program, 'train', d + '/m.onnx', '--data', d + '/d.npz', '-o', d + '/t.onnx', '--run-dir', 'none'], capture_output=True, text=True, timeout=120)
        check('trees', r.returncode == 3 and 'nothing to train: the_node: TreeEnsembleRegressor: its attributes nodes_values and target_weights' in r.stderr, r.stderr)


def classifier_trains():
    """As scikit-learn's classifiers are exported, labels first and probabilities divided by their sum, from a table: cross-entropy of the probabilities."""
    rng = np.random.default_rng(2)
    data = rng.standard_normal((12, 3)).astype(np.float32).round(3)
    for what, classes, rows, post, norm, names in (('SOFTMAX', 3, 3, 'SOFTMAX', True, False), ('one against the rest', 3, 3, 'LOGISTIC', True, False), ('two', 2, 2, 'LOGISTIC', True, False),
                                                   ('two by one row', 2, 1, 'LOGISTIC', False, False), ('names', 3, 3, 'SOFTMAX', True, True), ('p and 1 - p', 2, 1, 'pair', False, False)):
        w, b, y = rng.standard_normal((rows, 3)).astype(np.float32) * 3, rng.standard_normal(rows).astype(np.float32), rng.integers(0, classes, 12)
        labels = dict(classlabels_strings=list('abc'[:classes])) if names else dict(classlabels_ints=list(range(classes)))
        nodes = [h.make_node('LinearClassifier', ['x'], ['l', 'p'], name='the_node', domain='ai.onnx.ml', coefficients=w.ravel().tolist(), intercepts=b.tolist(), post_transform=post, **labels)]
        if post == 'pair':
            nodes = [h.make_node('LinearRegressor', ['x'], ['z'], name='the_node', domain='ai.onnx.ml', coefficients=w.ravel().tolist(), intercepts=b.tolist(), targets=1),
                     h.make_node('Sigmoid', ['z'], ['s']), h.make_node('Constant', [], ['one'], value_floats=[1.0]), h.make_node('Sub', ['one', 's'], ['o']),
                     h.make_node('Concat', ['o', 's'], ['p'], axis=1), h.make_node('ArgMax', ['p'], ['l'], axis=1, keepdims=0)]
        nodes += [h.make_node('Normalizer', ['p'], ['probabilities'], domain='ai.onnx.ml', norm='L1') if norm else h.make_node('Identity', ['p'], ['probabilities']),
                  h.make_node('Identity', ['l'], ['label'])]
        g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 3])],
                         [h.make_tensor_value_info('label', T.STRING if names else T.INT64, ['N']), h.make_tensor_value_info('probabilities', T.FLOAT, ['N', classes])])
        z = data.astype(np.float64) @ w.T.astype(np.float64) + b
        z = np.concatenate([-z, z], 1) if rows < classes else z
        p = np.exp(z) if post == 'SOFTMAX' else 1 / (1 + np.exp(-z))
        p /= p.sum(1, keepdims=True)
        want = -np.log(p[np.arange(12), y]).mean()
        with tempfile.TemporaryDirectory() as d:
            onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('ai.onnx.ml', 3)], ir_version=10), d + '/m.onnx')
            with open(d + '/d.csv', 'w') as f:
                f.write('a,b,c,y\n' + ''.join(','.join(f'{v:.3f}' for v in r) + f',{t}\n' for r, t in zip(data, y)))
            one = [d + '/m.onnx', '--data', d + '/d.csv', '--device', 'cpu']
            train = ['--run-dir', 'none', '-o', d + '/t.onnx', '--batch-size', '12']

            def call(*words):
                return subprocess.run([program, *words], capture_output=True, text=True, timeout=120)

            for loss in ([], ['--loss', 'cross_entropy'], ['--loss', 'probabilities=cross_entropy']):
                r = call('train', *one, *train, *loss, '--steps', '1', '--optimizer', 'sgd:lr=0', '--log', d + '/l')
                check(f'{what} {loss}', r.returncode == 0 and f"combined with the {'Softmax' if post == 'SOFTMAX' else 'normalised Sigmoid (its probabilities add up to 1)'} of output 'probabilities'" in r.stderr, r.stderr)
                check(f'{what} {loss}', len(loss) and '=' in loss[1] or "the target is used for output 'probabilities', because 'label' is " in r.stderr, r.stderr)
                got = [e['loss'] for e in map(json.loads, open(d + '/l')) if e['event'] == 'step'] if not r.returncode else [np.nan]
                check(f'{what} {loss}', np.isclose(got[0], want, rtol=1e-5), f'loss {got}, {want} is right')
                e = call('eval', *one, *loss, '--json')
                seen = json.loads(e.stdout) if not e.returncode else {}
                check(f'{what} {loss}, eval', seen and np.isclose(seen['loss'], want, rtol=1e-5) and np.isclose(seen['accuracy'], (p.argmax(1) == y).mean()), f'{seen} {e.stderr}')
            r = call('train', *one, *train, '--steps', '60', '--optimizer', 'adam:lr=0.1', '--log', d + '/l')
            losses = [e['loss'] for e in map(json.loads, open(d + '/l')) if e['event'] == 'step']
            check(what, r.returncode == 0 and 0 < losses[-1] < 0.7 * losses[0], f'{losses[0]} to {losses[-1]}: {r.stderr}')
            r = call('train', *one, *train, '--loss', 'probabilities=nll')
            check(what + ', nll', r.returncode == 2 and "--loss 'probabilities=cross_entropy'" in r.stderr, r.stderr)
            r = call('train', *one, *train, '--loss', 'label=mse')
            check(what + ', a loss on labels', r.returncode == 3 and ('probabilities' in r.stderr or post == 'pair'), r.stderr)


def ensemble_trains():
    """As scikit-learn's ensembles of two classes are exported: the weighted sum of members whose probabilities add up to 1, of a linear model with two opposite rows and of trees."""
    w, b, y = np.float32([[0.7, -1.2, 0.4]]), np.float32([0.3]), np.array([0, 1, 1, 0])
    part = np.float32([0.25, 0.75, 0.5, 0.5, 0.875, 0.125] * 2) / 2
    members = [h.make_node('LinearClassifier', ['x'], ['l0', 'p0'], name='linear', domain='ai.onnx.ml', coefficients=np.concatenate([w, -w]).ravel().tolist(), intercepts=[b[0], -b[0]],
                           post_transform='LOGISTIC', classlabels_ints=[0, 1]),
               h.make_node('TreeEnsembleClassifier', ['x'], ['l1', 'p1'], name='trees', domain='ai.onnx.ml', post_transform='NONE', nodes_modes=modes, **tree, classlabels_int64s=[0, 1],
                           **{'class_' + k: v for k, v in dict(leaves, weights=part.tolist()).items()})]
    for count in 1, 2:
        shares = [2 / 7, 5 / 7] if count == 2 else [1]
        nodes = members[:count] + [h.make_node('Mul', [f'p{i}', f'w{i}'], [f'q{i}']) for i in range(count)] + [h.make_node('Sum', [f'q{i}' for i in range(count)], ['probabilities'])]
        g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 3])], [h.make_tensor_value_info('probabilities', T.FLOAT, ['N', 2])],
                         [h.make_tensor(f'w{i}', T.FLOAT, [1], [s]) for i, s in enumerate(shares)])
        m = h.make_model(g, opset_imports=[h.make_opsetid('', 17), h.make_opsetid('ai.onnx.ml', 1)], ir_version=8, producer_name='skl2onnx')
        p = onnxruntime.InferenceSession(m.SerializeToString(), providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
        want = -np.log(p[np.arange(4), y]).mean()
        with tempfile.TemporaryDirectory() as d:
            onnx.save(m, d + '/m.onnx')
            np.savez(d + '/d.npz', x=x, target=y)
            r = subprocess.run([program, 'train', d + '/m.onnx', '--data', d + '/d.npz', '-o', d + '/t.onnx', '--steps', '9', '--batch-size', '4', '--optimizer', 'adamw:lr=0.1,weight_decay=0.1', '--log', d + '/l',
                                '--run-dir', 'none', '--device', 'cpu'], capture_output=True, text=True, timeout=120)
            check(f'ensemble of {count}', r.returncode == 0 and 'combined with the ' in r.stderr, r.stderr)
            losses = [e['loss'] for e in map(json.loads, open(d + '/l')) if e['event'] == 'step']
            check(f'ensemble of {count}', np.isclose(losses[0], want, rtol=1e-5) and losses[-1] < losses[0], f'losses {losses}, {want} is right at first')
            after = onnx.load(d + '/t.onnx')
            lists = {a.name: np.float32(a.floats).reshape(2, -1) for a in after.graph.node[0].attribute if a.name in ('coefficients', 'intercepts')}
            check(f'ensemble of {count}', all((v[0] == -v[1]).all() for v in lists.values()) and (lists['coefficients'][0] != w[0]).all(), f'rows are opposite: {lists}')
            check(f'ensemble of {count}', after.graph.initializer == m.graph.initializer, 'the weights of the members are given')


linear_trains()
classifier_trains()
ensemble_trains()
trees_do_not()
print(f'{total} nodes, {failed} failed')
sys.exit(failed != 0)
