"""--classes: the last layer becomes one for other classes; --freeze-backbone: it trains alone.

usage: test_classes.py PROGRAM

Networks end in every form that a last layer has. Each is trained on data of other classes; the written file has new shapes where
the classes are and nowhere else, ONNX's checker and ONNX Runtime accept it, and with a learning rate of 0 the new values are those
of PyTorch's Linear: uniform in 1/sqrt(fan_in), the same for the same seed.
"""
import json
import os
import shutil
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

OLD, NEW, WIDE = 7, 3, 12
made = np.random.default_rng(5)


def tensor(name, *shape, dtype='f4'):
    return numpy_helper.from_array((made.standard_normal(shape) / 3).astype(dtype), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, 'i8'), name)


def model(nodes, init, out=('n', OLD), opset=17, infos=(), x=('n', 6), outputs=None, dtype=T.FLOAT, ir=8):
    listed = [h.make_tensor_value_info(t.name, t.data_type, t.dims) for t in init] if ir < 4 else []
    ends = outputs or [h.make_tensor_value_info('y', dtype, out)]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', dtype, x)] + listed, ends, init,
                     value_info=[h.make_tensor_value_info(n, dtype, s) for n, s in infos])
    return h.make_model(g, opset_imports=[h.make_opsetid('', opset)], ir_version=ir)


def body(dtype='f4'):
    """Two nodes to 12 features, with names that the backbone has."""
    return [h.make_node('Gemm', ['x', 'body.weight', 'body.bias'], ['b'], 'body', transB=1), h.make_node('Relu', ['b'], ['f'], 'relu')], \
        [tensor('body.weight', WIDE, 6, dtype=dtype), tensor('body.bias', WIDE, dtype=dtype)]


def dense(trans=1, tail=(), more=(), bias=True, last='y', **options):
    nodes, init = body(options.pop('np', 'f4'))
    dtype = {T.FLOAT16: 'f2', T.DOUBLE: 'f8'}.get(options.get('dtype'), 'f4')
    if dtype != 'f4':
        init = [tensor(t.name, *t.dims, dtype=dtype) for t in init]
    out = 'z' if tail else last
    nodes.append(h.make_node('Gemm', ['f', 'fc.weight'] + ['fc.bias'] * bias, [out], 'fc', **({'transB': 1} if trans else {})))
    init.append(tensor('fc.weight', *((OLD, WIDE) if trans else (WIDE, OLD)), dtype=dtype))
    return model(nodes + list(tail), init + [tensor('fc.bias', OLD, dtype=dtype)] * bias + list(more), **options)


def product(bias=True, turned=False, **options):
    nodes, init = body()
    w = 'fc.weight'
    if turned:
        nodes.append(h.make_node('Transpose', [w], ['w2'], perm=[1, 0]))
        w = 'w2'
    nodes.append(h.make_node('MatMul', ['f', w], ['z' if bias else 'y'], 'fc'))
    init.append(tensor('fc.weight', *((OLD, WIDE) if turned else (WIDE, OLD))))
    if bias:
        nodes.append(h.make_node('Add', ['fc.bias', 'z'], ['y']))
        init.append(tensor('fc.bias', OLD))
    return model(nodes, init, infos=[('z', ('n', OLD))] if bias else [], **options)


def squeeze(reshape=None, kernel=1, relu=True, opset=17):
    """A convolution over classes, averaged: as SqueezeNet ends."""
    nodes = [h.make_node('Conv', ['x', 'body.weight', 'body.bias'], ['b'], 'body'), h.make_node('Relu', ['b'], ['f']),
             h.make_node('Conv', ['f', 'fc.weight', 'fc.bias'], ['c'], 'fc', kernel_shape=[kernel, kernel])]
    init = [tensor('body.weight', WIDE, 2, 1, 1), tensor('body.bias', WIDE), tensor('fc.weight', OLD, WIDE, kernel, kernel), tensor('fc.bias', OLD)]
    if relu:
        nodes.append(h.make_node('Relu', ['c'], ['r']))
    nodes.append(h.make_node('GlobalAveragePool', ['r' if relu else 'c'], ['p']))
    if reshape:
        nodes.append(h.make_node('Reshape', ['p', 'shape'], ['y']))
        init.append(ints('shape', *reshape))
    else:
        nodes.append(h.make_node('Flatten', ['p'], ['y']))
    side = 8 - kernel + 1
    return model(nodes, init, x=('n', 2, 8, 8), opset=opset, infos=[('c', ('n', OLD, side, side)), ('p', ('n', OLD, 1, 1))])


def constants():
    """Weights in Constants, as Paddle writes them."""
    m = product()
    g = m.graph
    for t in list(g.initializer):
        g.node.insert(0, h.make_node('Constant', [], [t.name], value=t))
    del g.initializer[:]
    return m


def two_outputs():
    nodes, init = body()
    nodes += [h.make_node('Gemm', ['f', 'a.weight'], ['a'], 'a', transB=1), h.make_node('Gemm', ['f', 'b.weight'], ['c'], 'b', transB=1)]
    return model(nodes, init + [tensor('a.weight', OLD, WIDE), tensor('b.weight', 4, WIDE)],
                 outputs=[h.make_tensor_value_info('a', T.FLOAT, ['n', OLD]), h.make_tensor_value_info('c', T.FLOAT, ['n', 4])])


def softmax(opset=17):
    return [h.make_node('Softmax', ['z'], ['y'], axis=1 if opset < 13 else -1)]


CASES = {
    'Gemm, transB 1': dense(),
    'Gemm, transB 0': dense(trans=0),
    'Gemm without a bias': dense(bias=False),
    'Gemm whose weight is an output too': dense(outputs=[h.make_tensor_value_info('y', T.FLOAT, ['n', OLD]),
                                                         h.make_tensor_value_info('fc.weight', T.FLOAT, [OLD, WIDE])]),
    'a label before the scores': dense(tail=[h.make_node('Identity', ['z'], ['y']), h.make_node('ArgMax', ['z'], ['label'], axis=1, keepdims=0)],
                                       outputs=[h.make_tensor_value_info('label', T.INT64, ['n']), h.make_tensor_value_info('y', T.FLOAT, ['n', OLD])]),
    'Gemm, Softmax, opset 9': dense(tail=softmax(9), opset=9),
    'Gemm, Softmax, opset 21': dense(tail=softmax(), opset=21, ir=10),
    'Gemm, initializers listed as inputs': dense(opset=8, ir=3),
    'Gemm, Reshape to a number': dense(tail=[h.make_node('Reshape', ['z', 's'], ['y'])], more=[ints('s', -1, OLD)]),
    'Gemm, logits and probabilities': dense(tail=[h.make_node('Softmax', ['z'], ['y'])],
                                            outputs=[h.make_tensor_value_info(n, T.FLOAT, ['n', OLD]) for n in ('y', 'z')]),
    'Gemm, a temperature': dense(tail=[h.make_node('Div', ['z', 't'], ['y'])], more=[numpy_helper.from_array(np.float32(2), 't')]),
    'Gemm, a Shape of the weight': dense(tail=[h.make_node('Shape', ['fc.weight'], ['unused']), h.make_node('Identity', ['z'], ['y'])]),
    'Gemm, float16': dense(dtype=T.FLOAT16),
    'Gemm, float64': dense(dtype=T.DOUBLE),
    'MatMul and Add': product(),
    'MatMul without a bias': product(bias=False),
    'MatMul, Transpose of the weight': product(turned=True),
    'Constants': constants(),
    'Conv 1x1, GlobalAveragePool': squeeze(),
    'Conv 1x1, Reshape to numbers': squeeze(reshape=(-1, OLD)),
    'Conv 1x1, Reshape to numbers, opset 9': squeeze(reshape=(-1, OLD), relu=False, opset=9),
    'Conv 3x3': squeeze(kernel=3),
}


def data(d, m, classes=NEW, samples=48, name='data.npz', **more):
    t = m.graph.input[0].type.tensor_type
    shape = [samples] + [k.dim_value for k in t.shape.dim[1:]]
    values = np.random.default_rng(1).standard_normal(shape)
    target = {'target': np.arange(samples) % classes} if not more else more
    np.savez(f'{d}/{name}', x=values.astype({T.FLOAT16: 'f2', T.DOUBLE: 'f8'}.get(t.elem_type, 'f4')), **target)
    return f'{d}/{name}'


def train(d, path, *options, code=0, steps='3', out='out.onnx', run='none'):
    return call('train', path, '--data', f'{d}/data.npz', '--device', 'cpu', '--run-dir', run, '-o', f'{d}/{out}', '--batch-size', '16',
                '--steps', steps, '--lr', '0.01', '--threads', '1', '--log', f'{d}/log', *options, code=code)


def losses(d):
    return [json.loads(line)['loss'] for line in open(f'{d}/log') if '"step"' in line.split(',')[0]]


def tensors(path):
    m = onnx.load(path)
    out = {t.name: numpy_helper.to_array(t, os.path.dirname(path)) for t in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type == 'Constant':
            out[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
    return out


def dims(v):
    return [k.dim_param or k.dim_value for k in v.type.tensor_type.shape.dim]


def swapped(shape, was=OLD, now=NEW):
    return [now if k == was else k for k in shape]


def same_but_classes(what, before, after):
    """Nodes, names and shapes are those of the file, with NEW where OLD was."""
    a, b = onnx.load(before), onnx.load(after)
    for x, y in zip(a.graph.node, b.graph.node):
        if x.op_type != 'Constant':
            check(x == y, f'{what}: node {x.name} is another')
    for kind in ('input', 'output', 'value_info'):
        x, y = getattr(a.graph, kind), getattr(b.graph, kind)
        check([v.name for v in x] == [v.name for v in y] and [swapped(dims(v)) for v in x] == [dims(v) for v in y], f'{what}: {kind}: {y}')
    x, y = tensors(before), tensors(after)
    check(list(x) == list(y) and all(swapped(x[n].shape) == list(y[n].shape) for n in x), f'{what}: tensors {[(n, y[n].shape) for n in y]}')


def each(what, m):
    with tempfile.TemporaryDirectory() as d:
        path = f'{d}/m.onnx'
        onnx.save(m, path)
        data(d, m)
        r = train(d, path, '--classes', 'auto')
        check(f'had {OLD} classes and is replaced by a new one with {NEW}' in r.stderr, f'{what}: {r.stderr}')
        if r.returncode:
            return
        same_but_classes(what, path, f'{d}/out.onnx')
        onnx.checker.check_model(f'{d}/out.onnx', full_check=True)
        x = dict(np.load(f'{d}/data.npz'))['x']
        y = onnxruntime.InferenceSession(f'{d}/out.onnx').run(['y'], {'x': x})[0]
        check(y.shape == (48, NEW), f'{what}: ONNX Runtime gives {y.shape}')
        # lr 0: the new values, and the backbone as it was
        train(d, path, '--classes', str(NEW), '--lr', '0', '--seed', '4', out='fresh.onnx')
        train(d, path, '--classes', str(NEW), '--lr', '0', '--seed', '4', '--threads', '2', out='again.onnx')
        check(open(f'{d}/fresh.onnx', 'rb').read() == open(f'{d}/again.onnx', 'rb').read(), f'{what}: the same seed gives another file')
        was, now, other = tensors(path), tensors(f'{d}/fresh.onnx'), tensors(f'{d}/out.onnx')
        check(all(np.array_equal(was[n], now[n]) for n in was if n.startswith('body')), f'{what}: the backbone moved at lr 0')
        check(any(not np.array_equal(was[n], other[n]) for n in was if n.startswith('body')), f'{what}: the backbone did not train')
        w = now['fc.weight'].astype('f8')
        bound = 1 / np.sqrt(w.size / NEW)
        check(np.abs(w).max() <= bound * 1.001 and np.abs(w).max() > 0.8 * bound and abs(w.mean()) < 0.4 * bound, f'{what}: fan_in: {np.abs(w).max()} of {bound}')
        if 'fc.bias' in now:
            check(0 < np.abs(now['fc.bias']).max() <= bound * 1.001, f'{what}: bias {now["fc.bias"]}')
        train(d, path, '--classes', 'auto', '--freeze-backbone', out='frozen.onnx')
        fixed = tensors(f'{d}/frozen.onnx')
        check(all(np.array_equal(was[n], fixed[n]) for n in was if n.startswith('body')), f'{what}: --freeze-backbone moved the backbone')
        check(not np.array_equal(other['fc.weight'], fixed['fc.weight']) or 'fc.weight' not in fixed, f'{what}: the last layer did not train')


for name, network in CASES.items():
    each(name, network)

with tempfile.TemporaryDirectory() as d:
    m, path = dense(), f'{d}/m.onnx'
    onnx.save(m, path)
    data(d, m)
    # the classes are those of the file already: the same as without the option, but for a line
    data(d, m, OLD)
    train(d, path, '--classes', 'auto', out='a.onnx')
    train(d, path, out='b.onnx')
    check(open(f'{d}/a.onnx', 'rb').read() == open(f'{d}/b.onnx', 'rb').read(), 'a last layer with these classes was changed')
    # more classes than the file has, and no option
    data(d, m, OLD + 2)
    r = train(d, path, code=4)
    check('--classes auto' in r.stderr, r.stderr)
    train(d, path, '--classes', 'auto', out='more.onnx')
    check(tensors(f'{d}/more.onnx')['fc.weight'].shape == (OLD + 2, WIDE), 'more classes')
    # ignored labels are no class
    data(d, m, target=np.where(np.arange(48) % 5 == 0, 255, np.arange(48) % 4))
    train(d, path, '--classes', 'auto', '--loss', 'cross_entropy:ignore_index=255', out='ignored.onnx')
    check(tensors(f'{d}/ignored.onnx')['fc.weight'].shape == (4, WIDE), 'ignore_index counted as a class')
    # values of each class: a regression, several labels
    data(d, m, target=np.zeros((48, 5), 'f4'))
    train(d, path, '--classes', 'auto', '--loss', 'mse', out='values.onnx')
    check(tensors(f'{d}/values.onnx')['fc.weight'].shape == (5, WIDE), 'a target of 5 values')
    data(d, m, target=np.arange(48 * 5).reshape(48, 5) % 2)
    train(d, path, '--classes', 'auto', '--loss', 'bce_with_logits', out='labels.onnx')
    check(tensors(f'{d}/labels.onnx')['fc.weight'].shape == (5, WIDE), '5 labels of 0 and 1')
    data(d, m, target=np.linspace(0, 1, 48).astype('f4'))
    check('--classes N' in train(d, path, '--classes', 'auto', code=4).stderr, 'values were counted as classes')
    data(d, m)
    # patterns: some of the backbone trains too, from an epoch on
    r = train(d, path, '--classes', 'auto', '--freeze-backbone', '--unfreeze', 'body.bias@2', '--epochs', '1', out='first.onnx')
    train(d, path, '--classes', 'auto', '--freeze-backbone', '--unfreeze', 'body.bias@2', steps='6', out='second.onnx')
    was, one, two = tensors(path), tensors(f'{d}/first.onnx'), tensors(f'{d}/second.onnx')
    check(np.array_equal(was['body.bias'], one['body.bias']) and not np.array_equal(was['body.bias'], two['body.bias']), '--unfreeze beside --freeze-backbone')
    check(np.array_equal(was['body.weight'], two['body.weight']), '--unfreeze of a bias moved a weight')
    train(d, path, '--freeze-backbone', '--train', 'body.w*', '--classes', '3', out='third.onnx')
    check(not np.array_equal(was['body.weight'], tensors(f'{d}/third.onnx')['body.weight']), '--train beside --freeze-backbone')
    # the second epoch begins in a run that was stopped: the same bits as one that was not
    train(d, path, '--classes', 'auto', '--seed', '3', '--checkpoint-every', '2steps', steps='6', out='whole.onnx', run=f'{d}/whole')
    train(d, path, '--classes', 'auto', '--seed', '3', steps='4', out='part.onnx', run=f'{d}/part')
    call('resume', f'{d}/part', '--steps', '6')
    check(tensors(f'{d}/part.onnx')['fc.weight'].tobytes() == tensors(f'{d}/whole.onnx')['fc.weight'].tobytes(), 'resume: other bits')
    r = call('eval', f'{d}/part', '--data', f'{d}/data.npz', '--device', 'cpu')
    call('eval', f'{d}/out.onnx' if os.path.exists(f'{d}/out.onnx') else f'{d}/part.onnx', '--data', f'{d}/data.npz', '--device', 'cpu')
    # other commands
    check(f'with {NEW}' in call('check', path, '--classes', 'auto', '--data', f'{d}/data.npz', '--device', 'cpu').stdout, 'check')
    check('with 5' in call('check', path, '--classes', '5', '--device', 'cpu').stdout, 'check without data')
    call('find-lr', path, '--classes', 'auto', '--data', f'{d}/data.npz', '--device', 'cpu', '--steps', '5', '-o', f'{d}/lr.svg')
    call('grad', path, '--classes', 'auto', '--data', f'{d}/data.npz', '--device', 'cpu', '-o', f'{d}/g.npz')
    with np.load(f'{d}/g.npz') as g:
        check(g['fc.weight'].shape == (NEW, WIDE), 'grad')
    # --output: the tensor before the tail
    onnx.save(dense(tail=softmax()), f'{d}/tail.onnx')
    train(d, f'{d}/tail.onnx', '--classes', 'auto', '--output', 'z', out='cut.onnx')
    check(dims(onnx.load(f'{d}/cut.onnx').graph.output[0]) == ['n', NEW], '--output z: the output that was cut off keeps its shape')

with tempfile.TemporaryDirectory() as d:
    # external data: the backbone stays in its file
    m, path = dense(), f'{d}/m.onnx'
    onnx.save(m, path, save_as_external_data=True, location='m.data', size_threshold=0)
    data(d, m)
    before = open(f'{d}/m.data', 'rb').read()
    train(d, path, '--classes', 'auto')
    check(open(f'{d}/m.data', 'rb').read() == before, 'the data file of the input changed')
    os.mkdir(f'{d}/elsewhere')
    for f in os.listdir(d):
        if f.startswith('out'):
            shutil.copy(f'{d}/{f}', f'{d}/elsewhere')
    y = onnxruntime.InferenceSession(f'{d}/elsewhere/out.onnx').run(None, {'x': np.zeros((2, 6), 'f4')})[0]
    check(y.shape == (2, NEW), f'external data: {y.shape}')

with tempfile.TemporaryDirectory() as d:
    # two outputs
    m, path = two_outputs(), f'{d}/m.onnx'
    onnx.save(m, path)
    data(d, m, target_a=np.arange(48) % 3, target_c=np.arange(48) % 5)
    for options in (['--classes', 'auto'], ['--classes', 'a=3', '--classes', 'c=auto']):
        train(d, path, *options)
        t = tensors(f'{d}/out.onnx')
        check((t['a.weight'].shape, t['b.weight'].shape) == ((3, WIDE), (5, WIDE)), f'{options}: {t["a.weight"].shape} {t["b.weight"].shape}')
    check("no output 'b'" in train(d, path, '--classes', 'b=3', code=2).stderr, 'an output that is none')

with tempfile.TemporaryDirectory() as d:
    # names of classes: of a table, and in place of those of the file
    m, path = dense(x=('n', 2)), f'{d}/m.onnx'
    m.graph.initializer[0].CopyFrom(tensor('body.weight', WIDE, 2))
    h.set_model_props(m, {'onnxtrain.classes': json.dumps([f'old {i}' for i in range(OLD)]), 'other': 'stays'})
    onnx.save(m, path)
    with open(f'{d}/t.csv', 'w') as f:
        f.write('a,b,kind\n' + ''.join(f'{i % 7},{i % 5},{["cat", "dog", "cow"][i % 3]}\n' for i in range(30)))
    for options, code in (([], 4), (['--classes', 'auto'], 0)):
        r = call('train', path, '--data', f'{d}/t.csv', '--device', 'cpu', '--run-dir', 'none', '-o', f'{d}/out.onnx', '--steps', '2', *options, code=code)
        check(bool(options) or '--classes auto' in r.stderr, r.stderr)
    props = {p.key: p.value for p in onnx.load(f'{d}/out.onnx').metadata_props}
    check(props == {'onnxtrain.classes': '["cat","cow","dog"]', 'onnxtrain.preprocess': '{"columns":["a","b"],"target":"kind"}', 'onnxtrain.loss': '["cross_entropy"]', 'other': 'stays'}, f'metadata {props}')
    call('eval', f'{d}/out.onnx', '--data', f'{d}/t.csv', '--device', 'cpu')

with tempfile.TemporaryDirectory() as d:
    def refused(what, m, text, *options, code=3):
        onnx.save(m, f'{d}/m.onnx')
        data(d, dense())
        r = train(d, f'{d}/m.onnx', *(options or ('--classes', '3')), code=code)
        check(text in r.stderr, f'{what}: {r.stderr}')

    q = [numpy_helper.from_array(np.float32(.1), 's'), numpy_helper.from_array(np.int8(0), 'z0')]
    quantised = dense(tail=[h.make_node('QuantizeLinear', ['z', 's', 'z0'], ['q'], 'quant'), h.make_node('DequantizeLinear', ['q', 's', 'z0'], ['y'], 'dequant')], more=q)
    refused('quantised', quantised, 'the model is quantised')
    nodes, init = body()
    w8 = numpy_helper.from_array(made.integers(-99, 99, (WIDE, OLD)).astype('i1'), 'w8')
    nodes += [h.make_node('DequantizeLinear', ['w8', 's', 'z0'], ['w']), h.make_node('MatMul', ['f', 'w'], ['y'], 'fc')]
    refused('a quantised weight', model(nodes, init + [w8] + q), "the weight of node 'fc' (MatMul) is quantised")
    refused('a constant per class', dense(tail=[h.make_node('Mul', ['z', 'm'], ['y'], 'scale')], more=[tensor('m', OLD)]), "node 'scale' (Mul)")
    refused('a constant per class beside the output', dense(tail=[h.make_node('Identity', ['z'], ['y']), h.make_node('ArgMax', ['z'], ['i'], 'top', axis=1),
                                                                    h.make_node('Gather', ['names', 'i'], ['label'], 'look')], more=[ints('names', *range(OLD))]),
            "node 'look' (Gather) after it has a constant with a value for each class")
    refused('a Concat', dense(tail=[h.make_node('Concat', ['z', 'z'], ['y'], 'cat', axis=1)]), "node 'cat' (Concat)")
    refused('no layer', model([h.make_node('Relu', ['x'], ['y'])], [], out=('n', 6)), 'not computed by a Gemm, MatMul or Conv', '--freeze-backbone')
    tied = dense(bias=False)
    tied.graph.node.insert(0, h.make_node('MatMul', ['fc.weight', 'other'], ['unused']))
    tied.graph.initializer.append(tensor('other', WIDE, 2))
    refused('a tied weight', tied, 'also used by other nodes (see --untie)')
    refused('a Sigmoid', model(*[a + b for a, b in zip(body(), ([h.make_node('Gemm', ['f', 'w'], ['z'], 'fc'), h.make_node('Sigmoid', ['z'], ['y'])], [tensor('w', WIDE, 1)]))],
                               out=('n', 1)), 'the Sigmoid of one value per sample')
    for value, code in (('0', 2), ('x', 2), ('y=', 2), ('-3', 2), ('2.5', 2), ('1e12', 2), ('900000000', 3)):
        refused(f'--classes {value}', dense(), '--classes', '--classes', value, code=code)
    refused('twice', dense(), 'given twice', '--classes', '3', '--classes', '4', code=2)
    call('check', f'{d}/m.onnx', '--classes', 'auto', code=2)

finish('checks')
