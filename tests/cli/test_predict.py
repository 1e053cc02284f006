"""What `predict` answers, against ONNX Runtime's outputs: classes and probabilities of every kind of tail, values, formats, names.

usage: test_predict.py PROGRAM
"""
import csv
import io
import json
import os
import tempfile
import time

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
    names = [' a cat', 'dog, "large"', '=1+1', 'x\ny']
    expect_classes(d, 'Softmax', lambda y: y, None)
    expect_classes(d, 'LogSoftmax', np.exp, None)
    expect_classes(d, None, softmax, names)
    text = call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--top', '4').stdout
    check('," a cat",' in text and ', a cat,' not in text, 'a name with a blank in front is quoted')
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


def binary_logits(d):
    """One logit per sample, [N,1] or [N]: the sigmoid is the probability of class 1, whatever the column is called."""
    for squeezed in False, True:
        path = f'{d}/m.onnx'
        (y,) = model(path, [('y', 1, None, False)], ['no', 'yes'])
        if squeezed:
            m = onnx.load(path)
            m.graph.initializer.append(numpy_helper.from_array(np.array([-1]), 'flat'))
            m.graph.node[-1].output[0] = 'wide'
            m.graph.node.append(h.make_node('Reshape', ['wide', 'flat'], ['y']))
            del m.graph.output[0].type.tensor_type.shape.dim[1]
            onnx.save(m, path)
        p = 1 / (1 + np.exp(-y[:, 0].astype(float)))
        head, rows = table(call('predict', path, f'{d}/x.npz', '--top', '2').stdout)
        check(head[:4] == ['sample', 'class', 'class_name', 'probability'] and len(head) == 7, f'logit: {head}')
        check([r[2] for r in rows] == ['yes' if v > 0.5 else 'no' for v in p] and near([r[3] for r in rows], np.maximum(p, 1 - p)), 'logit: class')
        head, rows = table(call('predict', path, f'{d}/x.npz', '--task', 'labels').stdout)
        check(head == ['sample', 'yes'] and near([r[1] for r in rows], p), f'logit as a label: {head}')
        got = json.loads(call('predict', path, f'{d}/x.npz', '--task', 'labels', '--json').stdout)
        check(near([s['y']['yes'] for s in got], p), 'logit as a label: JSON')
        head, rows = table(call('predict', path, f'{d}/x.npz', '--task', 'values').stdout)
        check(head == ['sample', 'y'] and near([r[1] for r in rows], y[:, 0]), f'logit as a value: {head}')


def record(path):
    return {p.key: p.value for p in onnx.load(path).metadata_props}.get('onnxtrain.loss')


def learnt(d):
    """The loss is recorded beside names of classes or columns, and eval and predict take it; files without metadata of ours get none."""
    w = np.array([1, -1, 0.5, 0, 2, -1])
    yes = (x @ w > 0).astype(int)
    rows = [','.join(f'{v:.4f}' for v in r) + (',yes' if b else ',no') for r, b in zip(x, yes)]
    open(f'{d}/two.csv', 'w').write('a,b,c,d,e,f,target\n' + '\n'.join(rows) + '\n')
    model(f'{d}/m.onnx', [('y', 1, None, False)])
    to = ['--epochs', '3', '--run-dir', 'none', '-o', f'{d}/l.onnx']
    loss = 'bce_with_logits:pos_weight=auto'
    call('train', f'{d}/m.onnx', '--data', f'{d}/two.csv', '--loss', loss, *to)
    weight = (N - yes.sum()) / yes.sum()
    check(np.isclose(float(json.loads(record(f'{d}/l.onnx'))[0].split('[')[1][:-1]), weight), f'loss: {record(f"{d}/l.onnx")}')
    e = json.loads(call('eval', f'{d}/l.onnx', '--data', f'{d}/two.csv', '--json').stdout)
    y = onnxruntime.InferenceSession(f'{d}/l.onnx').run(None, {'x': np.round(x, 4)})[0][:, 0].astype(float)
    p = 1 / (1 + np.exp(-y))
    check(near(e['loss'], -(weight * yes * np.log(p) + (1 - yes) * np.log(1 - p)).mean(), 1e-5), f'eval takes the loss: {e}')
    want = [[int(((yes == r) & ((y > 0) == c)).sum()) for c in (0, 1)] for r in (0, 1)]
    check(e['confusion'] == want, f'confusion of a logit: {e["confusion"]}, {want}')
    text = call('eval', f'{d}/l.onnx', '--data', f'{d}/two.csv').stdout
    check('of class 1 (yes)' in text and '0 no' in text and '1 yes' in text, text)
    open(f'{d}/new.csv', 'w').write('a,b,c,d,e,f\n' + '\n'.join(r.rsplit(',', 1)[0] for r in rows) + '\n')
    head, got = table(call('predict', f'{d}/l.onnx', f'{d}/new.csv').stdout)
    check(head[1:3] == ['class', 'class_name'] and [r[2] for r in got] == ['yes' if v > 0 else 'no' for v in y], f'predict: {head}')

    call('train', f'{d}/m.onnx', '--data', f'{d}/two.csv', '--epochs', '1', '--run-dir', 'none', '-o', f'{d}/d.onnx')
    check(record(f'{d}/d.onnx') == '["bce_with_logits"]', f'one logit and a target of texts: {record(f"{d}/d.onnx")}')

    # Without names it is the loss that tells labels from values; another training replaces it.
    m = onnx.load(f'{d}/l.onnx')
    for k in reversed(range(len(m.metadata_props))):
        if m.metadata_props[k].key == 'onnxtrain.classes':
            del m.metadata_props[k]
    onnx.save(m, f'{d}/nameless.onnx')
    head, got = table(call('predict', f'{d}/nameless.onnx', f'{d}/new.csv').stdout)
    check(head == ['sample', 'class', 'probability'] and [int(r[1]) for r in got] == list((y > 0).astype(int)), f'by the loss: {head}')
    np.savez(f'{d}/r.npz', x=x, target=(x @ w)[:, None].astype('f4'))
    call('train', f'{d}/nameless.onnx', '--data', f'{d}/r.npz', *to)
    check(record(f'{d}/l.onnx') == '["mse"]', f'another loss: {record(f"{d}/l.onnx")}')
    call('train', f'{d}/nameless.onnx', '--data', f'{d}/r.npz', '--loss', 'l1', *to)
    check(record(f'{d}/l.onnx') == '["l1"]', f'another loss: {record(f"{d}/l.onnx")}')
    call('train', f'{d}/m.onnx', '--data', f'{d}/r.npz', '--loss', 'l1', *to)
    check(record(f'{d}/l.onnx') is None, 'arrays leave no metadata')
    numbers = [r.replace('yes', '1').replace('no', '0') for r in rows]  # classes without names, default losses
    open(f'{d}/numbers.csv', 'w').write('a,b,c,d,e,f,target\n' + '\n'.join(numbers) + '\n')
    for outputs, texts in ([('y', 2, None, False)], ['cross_entropy']), ([('y', 2, 'Sigmoid', False)], ['bce']):
        model(f'{d}/two.onnx', outputs)
        call('train', f'{d}/two.onnx', '--data', f'{d}/numbers.csv', *to)
        check(json.loads(record(f'{d}/l.onnx')) == texts, f'default loss: {record(f"{d}/l.onnx")}')
        y = onnxruntime.InferenceSession(f'{d}/l.onnx').run(None, {'x': np.round(x, 4)})[0].astype(float)
        head, got = table(call('predict', f'{d}/l.onnx', f'{d}/new.csv').stdout)
        if texts == ['bce']:
            check(head == ['sample', 'y_0', 'y_1'] and near([r[1:] for r in got], y), f'labels: {head}')
        else:
            check(head == ['sample', 'class', 'probability'] and [int(r[1]) for r in got] == list(y.argmax(1)), f'classes: {head}')
    np.savez(f'{d}/c.npz', x=x, target=rng.integers(0, 3, N))
    model(f'{d}/second.onnx', [('u', 2, None, False), ('y', 3, 'Identity', False)])
    e = json.loads(call('eval', f'{d}/second.onnx', '--data', f'{d}/c.npz', '--loss', 'y=cross_entropy', '--json').stdout)
    check(e.get('f1', -1) >= 0 and 'log_loss' in e, f'metrics of the second output: {e}')
    for scale in {'mean': [0], 'std': [0]}, {'mean': [1, 2], 'std': [1]}, 1, {'mean': [0], 'std': [None]}:  # else the unit is another
        model(f'{d}/scaled.onnx', [('y', 1, None, False)])
        s = onnx.load(f'{d}/scaled.onnx')
        s.metadata_props.add(key='onnxtrain.preprocess', value=json.dumps({'inputs': {}, 'targets': {'y': scale}}))
        onnx.save(s, f'{d}/scaled.onnx')
        for command in (['predict', f'{d}/scaled.onnx', f'{d}/x.npz'], ['eval', f'{d}/scaled.onnx', '--data', f'{d}/r.npz'],
                        ['export', f'{d}/scaled.onnx', '-o', f'{d}/e.onnx']):
            r = call(*command, code=3)
            check("scaling of the target of output 'y' is invalid" in r.stderr, r.stderr)
    for bad in '{', '["guess"]', '[1]', '{"y": 1}', '["z=mse"]', '["mse","mse"]', '["y=mse","y=mse"]':  # of others: ignored
        del m.metadata_props[:]
        m.metadata_props.add(key='onnxtrain.loss', value=bad)
        onnx.save(m, f'{d}/bad.onnx')
        check('onnxtrain.loss) is ignored' in call('predict', f'{d}/bad.onnx', f'{d}/new.csv').stderr, f'{bad}: not said')
        call('eval', f'{d}/bad.onnx', '--data', f'{d}/r.npz')


def labelled(path, labels, kind):
    """A classifier as skl2onnx writes it: its labels in attributes, in a constant that its ArgMax selects from, or only in its ZipMap.  ONNX Runtime's labels."""
    n = len(labels)
    w, b = rng.standard_normal((n, FEATURES)).astype('f4'), rng.standard_normal(n).astype('f4')
    texts = isinstance(labels[0], str)
    named, weights = {'classlabels_strings' if texts else 'classlabels_ints': labels}, []
    if kind == 'linear':
        nodes = [h.make_node('LinearClassifier', ['x'], ['label', 'scores'], domain='ai.onnx.ml', coefficients=w.ravel(), intercepts=b,
                             post_transform='SOFTMAX', multi_class=1, **named), h.make_node('Identity', ['scores'], ['p'])]
    elif kind == 'sigmoids':  # one row for two classes: the first scores the opposite
        nodes = [h.make_node('LinearClassifier', ['x'], ['label', 'p'], domain='ai.onnx.ml', coefficients=np.ravel([-w[0], w[0]]), intercepts=[-b[0], b[0]],
                             post_transform='LOGISTIC', multi_class=0, **named)]
    elif kind == 'map':
        weights = [numpy_helper.from_array(w.T.copy(), 'w'), numpy_helper.from_array(b, 'b')]
        nodes = [h.make_node('Gemm', ['x', 'w', 'b'], ['z']), h.make_node('Softmax', ['z'], ['q'], axis=1), h.make_node('ArgMax', ['q'], ['label'], axis=1, keepdims=0),
                 h.make_node('ZipMap', ['q'], ['p'], domain='ai.onnx.ml', **{k.replace('_ints', '_int64s'): v for k, v in named.items()})]
    else:
        weights = [numpy_helper.from_array(w.T.copy(), 'w'), numpy_helper.from_array(b, 'b'), numpy_helper.from_array(np.array([-1]), 'flat'),
                   h.make_tensor('classes', T.STRING if texts else T.INT32, [n], labels)]
        nodes = [h.make_node('Gemm', ['x', 'w', 'b'], ['z']), h.make_node('Softmax', ['z'], ['p'], axis=1), h.make_node('ArgMax', ['p'], ['best'], axis=1),
                 h.make_node('ArrayFeatureExtractor', ['classes', 'best'], ['one'], domain='ai.onnx.ml')]
        nodes += [h.make_node('Reshape', ['one', 'flat'], ['label'])] if texts else \
            [h.make_node('Reshape', ['one', 'flat'], ['flat_one']), h.make_node('Cast', ['flat_one'], ['label'], to=T.INT64)]
    maps = h.make_sequence_type_proto(h.make_map_type_proto(T.STRING if texts else T.INT64, h.make_tensor_type_proto(T.FLOAT, [])))
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', FEATURES])],
                     [h.make_tensor_value_info('label', T.STRING if texts and kind != 'map' else T.INT64, ['n']),
                      h.make_value_info('p', maps) if kind == 'map' else h.make_tensor_value_info('p', T.FLOAT, ['n', n])], weights)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17), h.make_opsetid('ai.onnx.ml', 1)], ir_version=8), path)
    label, p = onnxruntime.InferenceSession(path).run(None, {'x': np.round(x, 4)})
    if kind == 'map':
        label, p = [max(q, key=q.get) for q in p], np.array([[q[v] for v in labels] for q in p])
    return [str(v) for v in label], p


def own_labels(d):
    """Labels in the graph are the names of its classes, whichever of them the data have."""
    def save(name, targets):
        rows = [','.join(f'{v:.4f}' for v in r) + f',{t}' for r, t in targets]
        open(f'{d}/{name}', 'w').write('a,b,c,d,e,f,target\n' + '\n'.join(rows) + '\n')

    many = [(1, 2, 3), (7, -5), ('bird', 'cat', 'dog'), ('2', '10', '1')]
    for kind, each in ('linear', many), ('extractor', many), ('map', many), ('sigmoids', [(5, 7), ('no', 'yes')]):
        for labels in each:
            path, first = f'{d}/o.onnx', str(labels[0])
            says, p = labelled(path, list(labels), kind)
            some = [k for k in range(N) if says[k] != first]  # a table without the first class
            check(0 < len(some) < N, f'{labels}: {says}')
            save('some.csv', [(x[k], says[k]) for k in some])
            e = json.loads(call('eval', path, '--data', f'{d}/some.csv', '--json').stdout)
            check(e['accuracy'] == 1 and (kind == 'sigmoids' or near(e['loss'], -np.log(p[some].max(1)).mean(), 1e-4)), f'{kind} {labels}: {e}')
            head, rows = table(call('predict', path, f'{d}/some.csv').stdout)
            at = [c.split('.')[-1] for c in head].index('class_name')
            check([r[at] for r in rows] == [says[k] for k in some], f'{kind} {labels}: {head} {rows[:2]}')
            save('train.csv', [(r, says[k]) for k, r in enumerate(x)])
            to = ['--run-dir', 'none', '--epochs', '2', '--lr', '1e-3', '-o', f'{d}/ot.onnx']
            said = call('train', path, '--data', f'{d}/some.csv', '--test', f'{d}/train.csv', *to).stderr
            keys = [m.key for m in onnx.load(f'{d}/ot.onnx').metadata_props]
            check('onnxtrain.classes' not in keys, f'{kind} {labels}: {keys}')
            head, rows = table(call('predict', f'{d}/ot.onnx', f'{d}/some.csv').stdout)
            check('class_name' in [c.split('.')[-1] for c in head], f'{kind} {labels} trained: {head}')
            for split in ['--val-split', '0.3'], []:
                e = json.loads(call('eval', f'{d}/ot.onnx', '--data', f'{d}/some.csv', *split, '--json').stdout)
                check(e['accuracy'] > 0.9, f'{kind} {labels} trained: {e} {said}')
            if not isinstance(labels[0], str):  # arrays have the labels too
                np.savez(f'{d}/some.npz', x=np.round(x[some], 4), target=np.array([int(says[k]) for k in some], 'i4'))
                e = json.loads(call('eval', path, '--data', f'{d}/some.npz', '--json').stdout)
                check(e['accuracy'] == 1, f'{kind} {labels} as an array: {e}')
            odd = 'fish' if labels[0] == 'bird' else '4'
            save('odd.csv', [(x[0], odd), (x[1], first)])
            for run in ['eval', path], ['train', path, *to]:
                said = call(*run, '--data', f'{d}/odd.csv', code=4).stderr
                check(f"class '{odd}', which is not in" in said, f'{kind} {labels}: {said}')
    for kind in 'linear', 'extractor':
        says, p = labelled(f'{d}/o.onnx', [0, 1, 2], kind)  # no more than numbers
        save('some.csv', [(r, says[k]) for k, r in enumerate(x)])
        check(json.loads(call('eval', f'{d}/o.onnx', '--data', f'{d}/some.csv', '--json').stdout)['accuracy'] == 1, 'labels 0, 1, 2')
        check('class_name' not in call('predict', f'{d}/o.onnx', f'{d}/some.csv').stdout, 'labels 0, 1, 2 have no names')


def other_targets(d):
    """A model with names of classes that is trained further on another kind of target: the names go, or are those of the columns."""
    def save(name, head, rows):
        open(f'{d}/{name}', 'w').write(f'a,b,c,d,e,f,{head}\n' + '\n'.join(','.join(f'{v:.4f}' for v in x[k]) + f',{r}' for k, r in enumerate(rows)) + '\n')
        return f'{d}/{name}'

    def train(m, data, *options):
        said = call('train', m, '--data', data, '--epochs', '2', '--run-dir', 'none', '-o', f'{d}/ot.onnx', *options).stderr
        props = {p.key: p.value for p in onnx.load(f'{d}/ot.onnx').metadata_props}
        check('class sizes' not in said, f'{options}: {said}')
        return json.loads(props.get('onnxtrain.classes', 'null')), *table(call('predict', f'{d}/ot.onnx', data).stdout)

    two, three = f'{d}/two.onnx', f'{d}/three.onnx'
    model(two, [('y', 1, None, False)], ['no', 'yes'])
    model(three, [('y', 3, None, False)], ['red', 'green', 'blue'])
    zeros = save('zeros.csv', 'target', [int(r[0] > 0) for r in x])
    numbers = save('numbers.csv', 'target', [f'{r[0] * 3:.3f}' for r in x])
    columns = save('columns.csv', 'red_hot,old,big', [','.join(str(int(v > 0)) for v in r[:3]) for r in x])
    values = save('values.csv', 'u,v,w', [','.join(f'{v:.3f}' for v in r[:3]) for r in x])
    onehot = save('onehot.csv', 'u,v,w', [','.join(str(int(r[:3].argmax() == k)) for k in range(3)) for r in x])

    for loss in [], ['--loss', 'mse'], ['--loss', 'l1']:
        names, head, rows = train(two, numbers, *loss)
        check(names is None and head == ['sample', 'y'], f'values: {names} {head}')
    names, head, rows = train(three, values, '--target', 'u,v,w')
    check(names is None and head == ['sample', 'u', 'v', 'w'], f'several values: {names} {head}')
    names, head, rows = train(two, zeros, '--loss', 'bce_with_logits')
    check(names == ['no', 'yes'] and {r[2] for r in rows} <= {'no', 'yes'}, f'0 and 1 keep the names: {names} {head}')
    model(f'{d}/new.onnx', [('y', 3, None, False)])
    for m in three, f'{d}/new.onnx':
        names, head, rows = train(m, columns, '--target', 'red_hot,old,big', '--loss', 'bce_with_logits')
        check(names == ['red_hot', 'old', 'big'] and head == ['sample'] + names, f'labels: {names} {head}')
        e = json.loads(call('eval', f'{d}/ot.onnx', '--data', columns, '--target', 'red_hot,old,big', '--json').stdout)
        check(0 <= e['accuracy'] <= 1, f'labels: {e}')
        os.replace(f'{d}/ot.onnx', f'{d}/before.onnx')
        again = train(f'{d}/before.onnx', columns, '--target', 'red_hot,old,big', '--loss', 'bce_with_logits', '--test', columns)
        check(again[0] == names, f'labels again: {again[:2]}')
        names, head, rows = train(m, onehot, '--target', 'u,v,w', '--loss', 'cross_entropy')
        check(names == ['u', 'v', 'w'] and {r[2] for r in rows} <= set(names), f'one-hot: {names} {head}')
    said = call('train', two, '--data', numbers, '--test', numbers, '--run-dir', 'none', '--epochs', '1', '-o', f'{d}/ot.onnx')
    check('test: loss' in said.stderr + said.stdout, 'a test set of numbers for a model with names')
    call('train', two, '--data', numbers, '--lr', '0', '--epochs', '1', '--run-dir', 'none', '-o', f'{d}/same.onnx')
    check(open(f'{d}/same.onnx', 'rb').read() == open(two, 'rb').read(), 'equal weights, equal file')


def odd(d):
    """Scores that are not finite have no probabilities; whole numbers keep their digits; JSON loses no output."""
    v = h.make_tensor_value_info
    opset = {'opset_imports': [h.make_opsetid('', 17)], 'ir_version': 9}
    g = h.make_graph([h.make_node('Div', ['x', 'z'], ['y'])], 'g', [v(n, T.FLOAT, ['n', 3]) for n in 'xz'], [v('y', T.FLOAT, ['n', 3])])
    onnx.save(h.make_model(g, **opset), f'{d}/i.onnx')
    by = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], 'f4')
    np.savez(f'{d}/odd.npz', x=np.array([[3, 0, 0], [1, -1, 2], [1, 0, 0], [0, 1, 0]], 'f4'), z=by)
    rows = np.array([[3, np.nan, 0], [1, -np.inf, 2], [np.inf, 0, 0], [0, 1, 0]], 'f4')
    r = call('predict', f'{d}/i.onnx', f'{d}/odd.npz', '--task', 'classes', '--top', '3')
    got = table(r.stdout)[1]
    check('2 samples have no probabilities' in r.stderr and 'sample 0' in r.stderr, r.stderr)
    check([g[2].strip('-') for g in got[::2]] == ['nan', 'nan'], f'NaN: {got}')
    check(got[1][1] == '2' and near([got[1][2], got[1][4]], softmax(rows[1:2, [0, 2]])[0][::-1]) and float(got[1][6]) == 0, f'minus infinity: {got}')
    js = json.loads(call('predict', f'{d}/i.onnx', f'{d}/odd.npz', '--task', 'classes', '--json').stdout)
    check(js[0]['y'][0]['probability'] is None and js[3]['y'][0]['class'] == 1, f'JSON of NaN: {js}')

    names, types = ['sample', 'b', 'c', 'd'], [T.INT64, T.UINT64, T.DOUBLE, T.BOOL]
    nodes = [h.make_node('Identity', ['x' + n], [n]) for n in names]
    onnx.save(h.make_model(h.make_graph(nodes, 'g', [v('x' + n, t, ['n', 1]) for n, t in zip(names, types)], [v(n, t, ['n', 1]) for n, t in zip(names, types)]),
                           **opset), f'{d}/w.onnx')
    large = 2**53 + 1
    np.savez(f'{d}/w.npz', xsample=np.array([[large], [-large]]), xb=np.array([[2**64 - 1], [7]], 'u8'), xc=np.array([[0.1], [1 / 3]]), xd=np.array([[True], [False]]))
    got = table(call('predict', f'{d}/w.onnx', f'{d}/w.npz').stdout)[1]
    check([g[1:3] + g[4:] for g in got] == [[str(large), str(2**64 - 1), '1'], [str(-large), '7', '0']], f'whole numbers: {got}')
    js = json.loads(call('predict', f'{d}/w.onnx', f'{d}/w.npz', '--json').stdout)
    check([j['sample'] for j in js] == [0, 1] and [j['output.sample'] for j in js] == [[large], [-large]], f'JSON: {js}')
    check([j['c'] for j in js] == [[0.1], [1 / 3]] and [j['d'] for j in js] == [[1], [0]], f'JSON: {js}')

    (y,) = model(f'{d}/m.onnx', [('y', 3, 'Sigmoid', False)], ['a', 'b', 'a'])
    js = json.loads(call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--json').stdout)
    check(near([j['y'] for j in js], y), 'JSON of classes with equal names')


def no_samples(d):
    """An output that has as many rows as the batch by chance has no value for each sample, at any batch size; weights that are NaN are told."""
    v, flat = h.make_tensor_value_info, numpy_helper.from_array(np.array([0]), 'flat')
    w = numpy_helper.from_array(rng.standard_normal((FEATURES, 3)).astype('f4'), 'w')
    opset = {'opset_imports': [h.make_opsetid('', 17)], 'ir_version': 9}

    def save(name, nodes, shape, *weights):
        g = h.make_graph(nodes, 'g', [v('x', T.FLOAT, ['n', FEATURES])], [v('y', T.INT64 if name == 'z' else T.FLOAT, shape)], weights)
        onnx.save(h.make_model(g, **opset), f'{d}/{name}.onnx')

    save('s', [h.make_node('MatMul', ['x', 'w'], ['h']), h.make_node('ReduceSum', ['h', 'flat'], ['y'], keepdims=0)], None, w, flat)
    save('z', [h.make_node('NonZero', ['x'], ['y'])], [2, None])
    np.savez(f'{d}/five.npz', x=x[:5])
    for name in 's', 'z':
        for batch in range(1 + (name == 'z'), 6):  # a batch of one cannot be planned larger: all is the sample's
            r = call('predict', f'{d}/{name}.onnx', f'{d}/five.npz', '--batch-size', str(batch), code=3)
            check('no value for each sample' in r.stderr or 'has a value for each sample' in r.stderr, r.stderr)

    save('c', [h.make_node('MatMul', ['x', 'w'], ['h']), h.make_node('Transpose', ['h'], ['y'])], [3, None], w)
    np.savez(f'{d}/t.npz', x=x[:5], target=np.array([0, 1, 2, 0, 1]))
    check('confusion' not in call('eval', f'{d}/c.onnx', '--data', f'{d}/t.npz').stdout, 'a confusion matrix of classes by samples')
    save('n', [h.make_node('MatMul', ['x', 'w'], ['h']), h.make_node('Sqrt', ['h'], ['y'])], [None, 3], w)
    odd = (x[:5] @ numpy_helper.to_array(w) < 0).any(1)
    r = call('eval', f'{d}/n.onnx', '--data', f'{d}/t.npz', '--loss', 'cross_entropy:tail=none')
    check(f'{odd.sum()} of 5 answers have outputs that are NaN' in r.stderr and 'loss      nan' in r.stdout, r.stderr + r.stdout)
    e = json.loads(call('eval', f'{d}/n.onnx', '--data', f'{d}/t.npz', '--json').stdout)
    check(np.sum(e['confusion']) == 5 - odd.sum(), f'confusion of NaN: {e}')

    open(f'{d}/long.csv', 'w').write('a,b,target\n' + 'x' * 3000000 + ',1,2\nq,2,1\n')
    began = time.monotonic()
    call('data', f'{d}/long.csv')
    check(time.monotonic() - began < 20, 'a long cell takes long')


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


def several_columns(d):
    """Several values are named as the columns that they were trained on."""
    rows = [f'{k % 4},{k % 5},{k % 7},{k % 3}' for k in range(70)]
    open(f'{d}/v.csv', 'w').write('a,size,"tall er",b\n' + '\n'.join(rows) + '\n')
    call('new', 'mlp', '--input', '2x1x1', '--hidden', '4', '--classes', '2', '-o', f'{d}/v.onnx')
    to = ['--epochs', '1', '--run-dir', 'none', '-o', f'{d}/vt.onnx', '--data', f'{d}/v.csv', '--loss', 'mse']
    for target in 'size,tall er', 'output=size,tall er':
        call('train', f'{d}/v.onnx', *to, '--target', target)
        head, rows = table(call('predict', f'{d}/vt.onnx', f'{d}/v.csv').stdout)
        check(head[-2:] == ['size', 'tall er'], f'{target}: {head}')
        one = json.loads(call('predict', f'{d}/vt.onnx', f'{d}/v.csv', '--json').stdout)[3]['output']
        check(near([one['size'], one['tall er']], np.array(rows[3][-2:], float)), f'{target}: {one} {rows[3]}')


def measured_table(d):
    """A table whose training measured categories: run, --val, bench and predict read it as recorded."""
    rows = [f'{("red", "green", "blue")[k % 3]},{k % 5 if k % 11 else ""},{k % 4},{"no" if k % 3 else "yes"}' for k in range(90)]
    for name, some in ('m.csv', rows), ('part.csv', rows[3:5]):
        open(f'{d}/{name}', 'w').write('colour,size,other,target\n' + '\n'.join(some) + '\n')
    open(f'{d}/twice.csv', 'w').write('colour,size,size,other\nred,1,2,3\n')
    call('new', 'mlp', '--input', '5x1x1', '--hidden', '4', '--classes', '2', '-o', f'{d}/n.onnx')
    to = ['--epochs', '1', '--run-dir', 'none', '-o', f'{d}/mt.onnx']
    call('train', f'{d}/n.onnx', '--data', f'{d}/m.csv', *to)
    for name, n in ('m.csv', 90), ('part.csv', 2):
        call('run', f'{d}/mt.onnx', '--data', f'{d}/{name}', '-o', f'{d}/r.npz')
        call('predict', f'{d}/mt.onnx', f'{d}/{name}', '-o', f'{d}/p.npz')
        with np.load(f'{d}/r.npz') as r, np.load(f'{d}/p.npz') as p:
            check(len(r['output']) == n and (r['output'] == p['output']).all(), f'{name}: run and predict differ')
    call('train', f'{d}/mt.onnx', '--data', f'{d}/m.csv', '--val', f'{d}/part.csv', *to[:4], '-o', f'{d}/again.onnx')
    for m in 'n.onnx', 'mt.onnx':
        call('bench', f'{d}/{m}', '--data', f'{d}/m.csv', '--steps', '1', '--batch-sizes', '4', '--device', 'cpu')
    check("two columns are named 'size'" in call('predict', f'{d}/mt.onnx', f'{d}/twice.csv', code=4).stderr, 'a column twice')
    np.savez(f'{d}/arrays.npz', input=np.zeros((3, 5), 'f4'))
    check('arrays are fed as they are' in call('run', f'{d}/mt.onnx', '--data', f'{d}/arrays.npz', '-o', f'{d}/r.npz').stderr, 'a note on arrays')
    call('run', f'{d}/mt.onnx', '--data', f'{d}/none.csv', '-o', f'{d}/r.npz', code=7)


def names_of_columns(d):
    """A model records the names of its columns: two of one name could not be told apart later.  The target as an input is noted."""
    letters = 'abcdefghijklmnopqrstuvwxyz'[:FEATURES]
    header, rows = ','.join([*letters, 'target']) + '\n', ''.join(','.join(str((i * k) % 7) for k in range(FEATURES)) + f',{i % 4}\n' for i in range(20))
    open(f'{d}/same.csv', 'w').write(header.replace('b', 'a') + rows)
    model(f'{d}/l4.onnx', [('y', 4, None, False)])
    for more in [], ['--val-split', '.2']:
        r = call('train', f'{d}/l4.onnx', '--data', f'{d}/same.csv', '--normalize', 'mean,std', *more, '--epochs', '1', '--run-dir', 'none', '-o', f'{d}/q.onnx', code=4)
        check("two columns are named 'a'" in r.stderr and not os.path.exists(f'{d}/q.onnx'), f'{more}: trained on two columns of one name')
    open(f'{d}/own.csv', 'w').write(header + rows)
    r = call('train', f'{d}/l4.onnx', '--data', f'{d}/own.csv', '--inputs', ','.join([*letters[:-1], 'target']), '--epochs', '1', '--run-dir', 'none', '-o', f'{d}/q.onnx')
    check("column 'target' is an input and the target" in r.stderr, 'the target as an input')


def fixed_batch(d):
    """A file with a fixed batch and a constant for each place of it: samples keep their places."""
    for size, n in (5, 143), (67, 67), (67, 150), (100, 30):
        r = np.random.default_rng(size)
        k, w, many = (r.standard_normal(s).astype('f4') for s in ((size, FEATURES), (FEATURES, 2), (n, FEATURES)))
        g = h.make_graph([h.make_node('Add', ['x', 'k'], ['t']), h.make_node('MatMul', ['t', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, [size, FEATURES])],
                         [h.make_tensor_value_info('y', T.FLOAT, [size, 2])], [numpy_helper.from_array(k, 'k'), numpy_helper.from_array(w, 'w')])
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9), f'{d}/f.onnx')
        np.savez(f'{d}/many.npz', x=many, target=np.zeros((n, 2), 'f4'))
        want = (many + k[np.arange(n) % size]) @ w
        call('predict', f'{d}/f.onnx', f'{d}/many.npz', '-o', f'{d}/p.npz')
        with np.load(f'{d}/p.npz') as p:
            check(near(p['y'], want, 1e-5), f'fixed batch of {size}, {n} samples: {abs(p["y"] - want).max()}')
        e = json.loads(call('eval', f'{d}/f.onnx', '--data', f'{d}/many.npz', '--loss', 'mse', '--json').stdout)
        check(near(e['loss'], (want ** 2).mean(), 1e-4), f'fixed batch of {size}, {n} samples: loss {e["loss"]}')
    check('not a multiple of 100' in call('predict', f'{d}/f.onnx', f'{d}/many.npz', '--batch-size', '4').stderr, 'a warning of another batch size')


def wrong_targets(d):
    """Losses of two classes fall without end where a target is not from 0 to 1."""
    model(f'{d}/m.onnx', [('y', 1, None, False)])
    for low, high in (1, 2), (-1, 1), (0, 255):
        np.savez(f'{d}/w.npz', x=x, target=np.where(np.arange(N) % 2, high, low).astype('f4')[:, None])
        for loss in 'bce_with_logits', 'bce', 'focal', 'dice':
            said = call('train', f'{d}/m.onnx', '--data', f'{d}/w.npz', '--loss', loss, '--run-dir', 'none', '-o', f'{d}/l.onnx', code=4).stderr
            check('from 0 to 1' in said and 'sample' in said, f'{loss}: {said}')
    # A target so large that it is mapped is checked batch by batch.
    rows, columns = 4100, 1 << 14  # 256 MiB and more, of which the file has a page
    g = h.make_graph([h.make_node('MatMul', ['x', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', 1])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['n', columns])], [numpy_helper.from_array(np.zeros((1, columns), 'f4'), 'w')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9), f'{d}/m.onnx')
    np.save(f'{d}/x.npy', np.ones((rows, 1), 'f4'))
    for bad in 1.5, -0.25:
        target = np.lib.format.open_memmap(f'{d}/target.npy', 'w+', 'f4', (rows, columns))
        target[7, 3] = bad
        del target
        data = ['--data', f'x={d}/x.npy', '--data', f'target={d}/target.npy']
        said = call('train', f'{d}/m.onnx', *data, '--loss', 'bce_with_logits', '--steps', '1', '--no-shuffle', '--run-dir', 'none', '-o', f'{d}/l.onnx', code=4).stderr
        check(f'sample 7 contains {bad}' in said, f'mapped targets: {said}')


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
    for name in 'a.xlsx', 'a.PARQUET', 'a.npy', 'a.png', 'a.tsv', 'a.csv.gz':
        check('use a name with .csv' in call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/{name}', code=2).stderr, f'{name}: a format that is not written')
        check(not os.path.exists(f'{d}/{name}'), f'{name} is written')
    for name in 'plain', 'a.txt', 'a.v2':
        call('predict', f'{d}/m.onnx', f'{d}/x.npz', '-o', f'{d}/{name}')
        check(open(f'{d}/{name}').readline().startswith('sample,'), f'{name} is CSV')
    check('--data is missing' in call('predict', f'{d}/m.onnx', code=2).stderr, 'no data')
    check('add --task classes' in call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--top', '2', code=2).stderr, '--top of values')
    check('use --task classes' in call('predict', f'{d}/m.onnx', f'{d}/x.npz').stderr, 'a hint at classes')
    model(f'{d}/one.onnx', [('y', 1, None, False)])
    said = call('predict', f'{d}/one.onnx', f'{d}/x.npz').stderr
    check('the score of class 1' in said and 'use --task classes' in said, f'a hint at one score: {said}')
    check('--task' not in call('predict', f'{d}/one.onnx', f'{d}/x.npz', '--loss', 'mse').stderr, 'no hint where the loss says that it is a value')
    onnx.save(h.make_model(h.make_graph([h.make_node('Cast', ['x'], ['y'], to=T.INT64)], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', FEATURES])],
                                        [h.make_tensor_value_info('y', T.INT64, ['n', FEATURES])]), opset_imports=[h.make_opsetid('', 17)], ir_version=9), f'{d}/whole.onnx')
    check('no output has scores' in call('predict', f'{d}/whole.onnx', f'{d}/x.npz', '--task', 'classes', code=2).stderr, '--task of values')
    call('predict', f'{d}/m.onnx', f'{d}/none.npz', code=7)


def copied(d):
    """--copy: columns of the table beside the predictions, of each row its own, also where rows do not follow each other."""
    rows = [(f'K-{i:02d}', i / 40, (i * 7 % 40) / 40, ('a "b", c', 'd\ne')[i % 2], ('no', 'yes')[i % 3 == 0]) for i in range(40)]
    with open(f'{d}/ids.csv', 'w', newline='') as f:
        w = csv.writer(f)
        w.writerow(['id', 'u', 'v', 'one, two', 'y'])
        w.writerows(rows)
    call('new', 'mlp', '--input', '1x1x2', '--hidden', '4', '--classes', '2', '-o', f'{d}/ids.onnx')
    call('train', f'{d}/ids.onnx', '--data', f'{d}/ids.csv', '--inputs', 'u,v', '--target', 'y', '--steps', '3', '--run-dir', 'none', '-o', f'{d}/idst.onnx')
    plain = call('predict', f'{d}/idst.onnx', f'{d}/ids.csv', '-o', f'{d}/plain.csv')
    r = call('predict', f'{d}/idst.onnx', f'{d}/ids.csv', '--copy', 'one, two,id', '-o', f'{d}/ids_out.csv')
    check(r.returncode == 0 and plain.returncode == 0, f'--copy: {r.stderr}')
    head, got = table(open(f'{d}/ids_out.csv', newline='').read())
    before, others = table(open(f'{d}/plain.csv', newline='').read())
    at = head.index('one, two')
    check(head[at:at + 2] == ['one, two', 'id'] and head[:at] + head[at + 2:] == before, f'--copy: {head}')
    check([g[at:at + 2] for g in got] == [[t, i] for i, _, _, t, _ in rows], f'--copy: {got[:3]}')
    check([g[:at] + g[at + 2:] for g in got] == others, '--copy changes predictions')
    said = json.loads(call('predict', f'{d}/idst.onnx', f'{d}/ids.csv', '--copy', 'id', '--json').stdout)
    check([s['columns'] for s in said] == [{'id': i} for i, *_ in rows], f'--copy as JSON: {said[:2]}')
    # Names of copied columns that the predictions have too: none is lost.
    with open(f'{d}/ids.csv', newline='') as f:
        renamed = f.read().replace('id,', 'class,', 1).replace('"one, two"', 'sample', 1)
    open(f'{d}/same.csv', 'w', newline='').write(renamed)
    call('predict', f'{d}/idst.onnx', f'{d}/same.csv', '--copy', 'class,sample,u', '-o', f'{d}/same_out.csv')
    head, got = table(open(f'{d}/same_out.csv', newline='').read())
    check(head[at:at + 3] == ['copied.class', 'copied.sample', 'u'] and head[:at] + head[at + 3:] == before, f'--copy, equal names: {head}')
    check([g[at:at + 2] for g in got] == [[i, t] for i, _, _, t, _ in rows], f'--copy, equal names: {got[:3]}')
    for code, words, *options in ((4, "no column 'none'", '--copy', 'none'), (2, "column 'id' is named twice", '--copy', 'id,u,id'), (2, '.csv, .json and .jsonl', '--copy', 'id', '-o', f'{d}/p.npz')):
        check(words in call('predict', f'{d}/idst.onnx', f'{d}/ids.csv', *options, code=code).stderr, f'{options}: not said')
    model(f'{d}/m.onnx', [('y', 2, None, False)])
    check('not a table' in call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--copy', 'id', code=2).stderr, '--copy of arrays: not said')


CLASSES, PLACES = 3, 4


def at_places(path, last, flat=False, names=None):
    """Scores of 3 classes at 4 places of a sample: along the last axis, the second, or (flat) in rows of their own."""
    w = rng.standard_normal((FEATURES, PLACES * CLASSES)).astype('f4')
    shape = [-1, CLASSES] if flat else [-1, PLACES, CLASSES] if last else [-1, CLASSES, PLACES]
    nodes = [h.make_node('MatMul', ['x', 'w'], ['m']), h.make_node('Reshape', ['m', 'shape'], ['y'])]
    weights = [numpy_helper.from_array(w, 'w'), numpy_helper.from_array(np.array(shape, 'i8'), 'shape')]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', FEATURES])], [h.make_tensor_value_info('y', T.FLOAT, ['k', *shape[1:]])], weights)
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)
    for k, v in {'onnxtrain.classes': json.dumps(names), 'onnxtrain.loss': '["cross_entropy"]'}.items() if names else ():
        m.metadata_props.add(key=k, value=v)
    onnx.save(m, path)
    y = onnxruntime.InferenceSession(path).run(None, {'x': x})[0].astype(float)
    y = y if last or flat else y.transpose(0, 2, 1)
    p = np.exp(y.reshape(N, PLACES, CLASSES))
    return p / p.sum(-1, keepdims=True)


def expect_places(d, p, names, *options):
    """CSV has columns for each place, JSON a list for each."""
    best = p.argmax(-1)
    head, rows = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz', *options).stdout)
    each = ['class', 'class_name', 'probability'] if names else ['class', 'probability']
    check(head == ['sample'] + [f'{c}[{k}]' for k in range(PLACES) for c in each], f'places: {head}')
    for k in range(PLACES):
        at = 1 + k * len(each)
        check([int(r[at]) for r in rows] == list(best[:, k]), f'{options}: classes at place {k}')
        check(near([r[at + len(each) - 1] for r in rows], p[:, k].max(-1)), f'{options}: probabilities at place {k}')
        check(not names or [r[at + 1] for r in rows] == [names[c] for c in best[:, k]], f'{options}: names at place {k}')
    got = json.loads(call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--top', '2', '--json', *options).stdout)
    order = np.argsort(-p, -1, kind='stable')
    check([[[o['class'] for o in place] for place in s['y']] for s in got] == order[..., :2].tolist(), f'{options}: JSON')
    head, _ = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz', '--top', '2', *options).stdout)
    check(len(head) == 1 + PLACES * 2 * len(each) and f'class[{PLACES - 1}]_2' in head, f'--top 2: {head}')


def places(d):
    """A class at each place of a sample: wherever the axis of the classes is, as names, the trained loss or the option say."""
    for last, flat in (True, False), (False, False), (True, True):
        p = at_places(f'{d}/m.onnx', last, flat)
        axis = [] if flat or last else ['--loss', 'cross_entropy:class_axis=1']
        expect_places(d, p, None, '--task', 'classes', *axis)
        head, _ = table(call('predict', f'{d}/m.onnx', f'{d}/x.npz').stdout)
        check(head == ['sample'] + [f'y_{k}' for k in range(PLACES * CLASSES)], f'without classes: {head}')
        expect_places(d, at_places(f'{d}/m.onnx', last, flat, ['o', 'per', 'loc']), ['o', 'per', 'loc'])
    # The target shows the axis that training takes, and the model records it.
    for last in True, False:
        at_places(f'{d}/m.onnx', last, names=['o', 'per', 'loc'])
        np.savez(f'{d}/tags.npz', x=x, target=rng.integers(0, CLASSES, (N, PLACES)))
        call('train', f'{d}/m.onnx', '--data', f'{d}/tags.npz', '--epochs', '1', '--run-dir', 'none', '-o', f'{d}/l.onnx')
        check(json.loads(record(f'{d}/l.onnx')) == [f'cross_entropy:class_axis={2 if last else 1}'], f'recorded: {record(f"{d}/l.onnx")}')
        call('train', f'{d}/m.onnx', '--data', f'{d}/tags.npz', '--loss', 'cross_entropy:label_smoothing=0.1', '--epochs', '1', '--run-dir', 'none', '-o', f'{d}/l.onnx')
        check(json.loads(record(f'{d}/l.onnx')) == [f'cross_entropy:label_smoothing=0.1,class_axis={2 if last else 1}'], f'recorded: {record(f"{d}/l.onnx")}')
        y = onnxruntime.InferenceSession(f'{d}/l.onnx').run(None, {'x': x})[0]
        best = y.argmax(2 if last else 1)
        got = json.loads(call('predict', f'{d}/l.onnx', f'{d}/x.npz', '--json').stdout)
        check([[place[0]['class_name'] for place in s['y']] for s in got] == [[('o', 'per', 'loc')[c] for c in r] for r in best], 'trained: classes')


def tags_of_words(d):
    """A model that is trained on tags of words, lists in JSON lines, has a class for each word: of lists and of lines."""
    lexicon = {'Rome': 'B-LOC', 'is': 'O', 'king': 'B-PER', 'of': 'O', 'late': 'I-PER', 'x': 'B-ORG'}
    names = sorted(set(lexicon.values()))
    weights = [numpy_helper.from_array(rng.normal(0, .3, s).astype('f4'), k) for k, s in (('e', (256, 8)), ('w', (8, 5)))]
    nodes = [h.make_node('Gather', ['e', 'input_ids'], ['x']), h.make_node('MatMul', ['x', 'w'], ['logits'])]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('input_ids', T.INT64, ['n', 't'])], [h.make_tensor_value_info('logits', T.FLOAT, ['n', 't', 5])], weights)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9), f'{d}/tagger.onnx')
    rows = [[str(w) for w in rng.choice(list(lexicon), size=rng.integers(1, 7))] for _ in range(120)]
    for name, tag in ('names', lexicon.get), ('numbers', lambda w: names.index(lexicon[w])):
        with open(f'{d}/{name}.jsonl', 'w') as f:
            f.writelines(json.dumps({'id': str(i), 'tokens': r, 'ner_tags': [tag(w) for w in r]}) + '\n' for i, r in enumerate(rows))
    options = ['--epochs', '20', '--lr', '0.02', '--length', '20', '--seed', '1', '--run-dir', 'none']
    with open(f'{d}/names.conll', 'w') as f:
        f.writelines('-DOCSTART- -X- O\n\n' * (i % 50 == 0) + ''.join(f'{w} NN {lexicon[w]}\n' for w in r) + '\n' for i, r in enumerate(rows))
    for name in 'names', 'numbers':
        call('train', f'{d}/tagger.onnx', '--data', f'{d}/{name}.jsonl', '--text', 'bytes', '--val-split', '0.1', *options, '-o', f'{d}/tagged-{name}.onnx')
    trained = [onnx.load(f'{d}/tagged-{name}.onnx') for name in ('names', 'numbers')]
    check(all(a.raw_data == b.raw_data for a, b in zip(trained[0].graph.initializer, trained[1].graph.initializer)), 'tags as names and as numbers: weights')
    meta = {p.key: p.value for p in trained[0].metadata_props}
    check(json.loads(meta['onnxtrain.classes']) == names, f'tags: classes {meta["onnxtrain.classes"]}')
    e = json.loads(call('eval', f'{d}/tagged-names.onnx', '--data', f'{d}/names.jsonl', '--json').stdout)
    check(e['accuracy'] == 1, f'tags: {e}')
    said = call('train', f'{d}/tagger.onnx', '--data', f'{d}/names.conll', '--text', 'bytes', '--val-split', '0.1', *options, '-o', f'{d}/tagged-conll.onnx').stderr
    check('column names' not in said, f'names that the format gives to columns: {said}')
    a, b = (onnx.load(f'{d}/tagged-{name}.onnx').graph.initializer for name in ('names', 'conll'))
    check(all(p.raw_data == q.raw_data for p, q in zip(a, b)), 'sentences of CoNLL: weights')
    for model, data, *more in ('conll', 'names.jsonl', '--target', 'ner_tags'), ('names', 'names.conll'):
        e = json.loads(call('eval', f'{d}/tagged-{model}.onnx', '--data', f'{d}/{data}', *more, '--json').stdout)
        check(e['accuracy'] == 1, f'trained on another format, {data}: {e}')

    for name, last, order in ('id', 'id', ('tokens', 'tags', 'id')), ('words', 'sentence', ('tags', 'sentence')):  # the tags are not last
        with open(f'{d}/{name}.jsonl', 'w') as f:
            f.writelines(json.dumps({k: {'id': str(i), 'tags': [lexicon[w] for w in r]}.get(k, r) for k in order}) + '\n' for i, r in enumerate(rows))
        said = call('train', f'{d}/tagger.onnx', '--data', f'{d}/{name}.jsonl', '--text', 'bytes', *options, code=4).stderr
        check(f"the target is column '{last}', the last one (change with --target)" in said, f'tags that are not last: {said}')
        call('train', f'{d}/tagger.onnx', '--data', f'{d}/{name}.jsonl', '--text', 'bytes', '--target', 'tags', *options, '-o', f'{d}/o.onnx')

    rows = [['king', 'of', 'Rome'], ['x'], ['is'] * 9]  # the last one's seventh word begins at byte 18, the eighth is truncated
    with open(f'{d}/new.jsonl', 'w') as f:
        f.writelines(json.dumps({'tokens': r}) + '\n' for r in rows)
    with open(f'{d}/new.txt', 'w') as f:
        f.writelines(' '.join(r) + '\n' for r in rows)
    with open(f'{d}/new.iob2', 'w') as f:
        f.writelines(''.join(f'{w}\tO\n' for w in r) + '\n' for r in rows)
    with open(f'{d}/new.bio', 'w') as f:
        f.writelines(''.join(f'{w}\n' for w in r) + '\n' for r in rows)
    ids = np.array([list(' '.join(r).encode()[:20].ljust(20, b'\0')) for r in rows], 'i8')
    p = np.exp(onnxruntime.InferenceSession(f'{d}/tagged-names.onnx').run(None, {'input_ids': ids})[0].astype(float))
    p /= p.sum(-1, keepdims=True)
    at = [[len(' '.join(r[:k] + [''])) for k in range(len(r))] for r in rows]
    want = [[names[p[i, a].argmax()] if a < 20 else None for a in r] for i, r in enumerate(at)]
    check([[lexicon[w] if k < 7 else None for k, w in enumerate(r)] for r in rows] == want, f'tags: learnt {want}')
    for data in 'new.jsonl', 'new.txt', 'new.iob2', 'new.bio':
        got = json.loads(call('predict', f'{d}/tagged-names.onnx', f'{d}/{data}', '--json').stdout)
        check([[w and w[0]['class_name'] for w in s['logits']] for s in got] == want, f'{data}: {got}')
        check(near([w[0]['probability'] for w in got[0]['logits']], p[0, at[0]].max(-1)), f'{data}: probabilities')
        head, lines = table(call('predict', f'{d}/tagged-names.onnx', f'{d}/{data}').stdout)
        first = 1 + ('line' in head)  # sentences are on several lines
        check(head[-3:] == ['class[8]', 'class_name[8]', 'probability[8]'] and len(head) == 27 + first, f'{data}: {head}')
        check([[v or None for v in r[first + 1::3]] for r in lines] == [(w + 9 * [None])[:9] for w in want], f'{data}: {lines}')
    call('predict', f'{d}/tagged-names.onnx', f'{d}/new.jsonl', '-o', f'{d}/p.npz')
    with np.load(f'{d}/p.npz') as got:
        check(got['logits'].shape == (3, 20, 5), f'tags: arrays {got["logits"].shape}')


with tempfile.TemporaryDirectory() as folder:
    np.savez(f'{folder}/x.npz', x=x)
    kinds(folder)
    binary_logits(folder)
    learnt(folder)
    own_labels(folder)
    other_targets(folder)
    odd(folder)
    no_samples(folder)
    several(folder)
    table_of_strings(folder)
    several_columns(folder)
    measured_table(folder)
    names_of_columns(folder)
    fixed_batch(folder)
    wrong_targets(folder)
    lines(folder)
    copied(folder)
    places(folder)
    tags_of_words(folder)
    refused(folder)
finish('predictions')
