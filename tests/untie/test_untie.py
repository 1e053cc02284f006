"""Initializers that an exporter stored once for several layers: said, and parted by --untie.

usage: test_untie.py PROGRAM

Every network is made twice: with merged tensors, and with one for each layer. The first trained with --untie gives the losses
and weights of the second, bit for bit; what is written differs from the file by new initializers and names of inputs alone.
"""
import json
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

def save(path, nodes, init, outputs, ir=8, external=False, dims=('n', 6)):
    tensors = [numpy_helper.from_array(np.asarray(v, 'f4'), n) for n, v in init.items()]
    ends = [h.make_tensor_value_info(n, T.FLOAT, dims if n == 'x' else ['n', 6]) for n in ('x', *outputs)]
    listed = [h.make_tensor_value_info(n, T.FLOAT, np.shape(v)) for n, v in init.items()] if ir < 4 else []
    m = h.make_model(h.make_graph(nodes, 'g', ends[:1] + listed, ends[1:], tensors), opset_imports=[h.make_opsetid('', 8 if ir < 4 else 17)], ir_version=ir)
    onnx.save(m, path, save_as_external_data=external, location=path.split('/')[-1] + '.data', size_threshold=0)


def layers(path, merged, named=lambda i: f'fc{i}', cloned=False, norms=False, tied=False, **options):
    """Layers of 6 x 6, each with a bias; norms: LayerNormalization behind each; cloned: equal weights, too; tied: the last is the first."""
    made = np.random.default_rng(2)
    init, nodes, x, first = {}, [], 'x', {}

    def tensor(name, value, mergeable=True):
        key = np.asarray(value, 'f4').tobytes()
        if merged and mergeable and key in first:
            return first[key]
        first.setdefault(key, name)
        init[name] = value
        return name

    same = made.standard_normal((6, 6)) / 2
    for i in range(3):
        w = tensor(f'{named(i)}.weight', same if cloned else made.standard_normal((6, 6)) / 2)
        if tied and i == 2:
            init.pop(w)
            w = 'fc0.weight'
        b = tensor(f'{named(i)}.bias', np.zeros(6))
        nodes.append(h.make_node('Gemm', [x, w, b], [f'g{i}'], f'/{named(i)}/Gemm', transB=1))
        x = f'g{i}'
        if norms:
            s, c = tensor(f'norm{i}.weight', np.ones(6)), tensor(f'norm{i}.bias', np.zeros(6))
            nodes.append(h.make_node('LayerNormalization', [x, s, c], [f'l{i}'], f'/norm{i}/LayerNormalization'))
            x = f'l{i}'
        nodes.append(h.make_node('Tanh', [x], [f't{i}']))
        x = f't{i}'
    save(path, nodes, init, [x], **options)
    return x


def recurrent(path, merged, twice=False):
    """Two LSTMs whose biases are equal, with the ones of a forget gate, as Keras makes them; twice: one layer, called twice."""
    made = np.random.default_rng(2)
    one = np.concatenate([np.zeros(12), np.ones(6), np.zeros(30)])[None]
    init, nodes = {}, [h.make_node('Unsqueeze', ['x', 'first'], ['s0']), h.make_node('Concat', ['s0', 's0'], ['l0'], axis=0)]
    for i in range(2):
        w, r, b = (n if twice or (n == 'b' and merged) else f'{n}{i}' for n in 'wrb')
        for n, value in ((w, made.standard_normal((1, 24, 6)) / 2), (r, made.standard_normal((1, 24, 6)) / 2), (b, one)):
            init.setdefault(n, value)
        nodes += [h.make_node('LSTM', [f'l{i}', w, r, b], [f'y{i}', f'h{i}'], f'lstm{i}', hidden_size=6), h.make_node('Squeeze', [f'y{i}', 'second'], [f'l{i + 1}'])]
    nodes.append(h.make_node('Squeeze', ['h1', 'first'], ['y']))
    nodes[:0] = [h.make_node('Constant', [], [n], value_ints=[k]) for k, n in enumerate(('first', 'second'))]
    save(path, nodes, init, ['y'])


def train(d, model, out, *options):
    r = call('train', model, '--data', f'{d}/data.npz', '--device', 'cpu', '--run-dir', 'none', '-o', out, '--batch-size', '16', '--lr', '0.02', '--steps', '5',
             '--log', f'{d}/log', *options)
    return [json.loads(line)['loss'] for line in open(f'{d}/log') if '"step"' in line.split(',')[0]], r.stderr


def tensors_by_node(path):
    """What each input of each node is, by value."""
    m = onnx.load(path)
    t = {i.name: numpy_helper.to_array(i) for i in m.graph.initializer}
    return [[t[n].tobytes() if n in t else None for n in node.input] for node in m.graph.node], len(t)


def only_edited(a, b, what):
    """b is a with initializers more and other names of inputs."""
    m, n = onnx.load(a, load_external_data=False), onnx.load(b, load_external_data=False)
    old = {i.name for i in m.graph.initializer}
    for graph in (m.graph, n.graph):
        kept = [i for i in graph.initializer if i.name in old]
        listed = [i for i in graph.input if '_untied_' not in i.name]
        del graph.initializer[:], graph.input[:]
        graph.initializer.extend(onnx.TensorProto(name=i.name, dims=i.dims) for i in kept)
        graph.input.extend(listed)
    for p, q in zip(m.graph.node, n.graph.node):
        for k, name in enumerate(q.input):
            if '_untied_' in name:
                check(name.startswith(p.input[k] + '_untied_'), f'{what}: {name} for {p.input[k]}')
                q.input[k] = p.input[k]
    check(m.SerializeToString() == n.SerializeToString(), f'{what}: more than initializers and inputs changed')


def pair(d, what, untie='auto', more=2, make=layers, **options):
    a, b, out, ref = (f'{d}/{n}.onnx' for n in ('merged', 'apart', 'merged-t', 'apart-t'))
    make(a, True, **options)
    make(b, False, **options)
    r = call('check', a)
    check('--untie auto' in r.stdout and 'stored equal tensors once' in r.stdout, f'{what}: not said: {r.stdout}')
    check('--untie auto' not in call('check', b).stdout, f'{what}: said of a file without ties')
    losses, said = train(d, a, out, '--untie', untie)
    right, _ = train(d, b, ref)
    check(losses == right, f'{what}: {losses}; with tensors of their own {right}')
    (x, n), (y, k) = tensors_by_node(out), tensors_by_node(ref)
    check(x == y and n == k, f'{what}: {n} tensors, {k} are right')
    check(n == len(onnx.load(a, load_external_data=False).graph.initializer) + more, f'{what}: {n} tensors')
    check('--untie: shared initializers are copied' in said, f'{what}: {said}')
    only_edited(a, out, what)
    onnx.checker.check_model(out)
    together, _ = train(d, a, out)
    check(together != right, f'{what}: parted without the option')
    train(d, a, out, '--lr', '0')
    check(open(a, 'rb').read() == open(out, 'rb').read() or options.get('external'), f'{what}: rate 0 without the option: another file')
    train(d, a, out, '--lr', '0', '--untie', untie)
    (x, n), (y, k) = tensors_by_node(out), tensors_by_node(a)
    check(x == y, f'{what}: rate 0 changed a value')


with tempfile.TemporaryDirectory() as d:
    rng = np.random.default_rng(1)
    np.savez(f'{d}/data.npz', x=rng.standard_normal((64, 6)).astype('f4'), target=rng.standard_normal((64, 6)).astype('f4'))
    pair(d, 'biases')
    pair(d, 'norms', norms=True, more=7)
    pair(d, 'cloned layers', cloned=True, named=lambda i: f'layers.{i}', more=4)
    pair(d, 'initializers among the inputs', ir=3)
    pair(d, 'external data', external=True)
    pair(d, 'by name', untie='fc0.bias')
    pair(d, 'biases of recurrent layers', make=recurrent, more=1)
    recurrent(f'{d}/called.onnx', True, twice=True)
    check('stored equal' not in call('check', f'{d}/called.onnx').stdout, 'a recurrent layer that is called twice taken for two')

    # a weight that two layers share stays, and parts when it is named
    layers(f'{d}/tied.onnx', False, tied=True)
    layers(f'{d}/free.onnx', False)
    r = call('check', f'{d}/tied.onnx')
    check('stored equal' not in r.stdout, f'a tied weight taken for a merged one: {r.stdout}')
    alone, said = train(d, f'{d}/tied.onnx', f'{d}/t.onnx', '--untie', 'auto')
    plain, _ = train(d, f'{d}/tied.onnx', f'{d}/u.onnx')
    check(alone == plain and 'nothing to untie' in said, f'auto parted a weight that two layers share: {said}')
    train(d, f'{d}/tied.onnx', f'{d}/t.onnx', '--untie', 'fc0.*')
    names = [i.name for i in onnx.load(f'{d}/t.onnx').graph.initializer]
    check('fc0.weight_untied_2' in names and len(names) == 6, f'--untie fc0.*: {names}')
    r = call('check', f'{d}/tied.onnx', '--untie', 'nothing*', code=2)
    check('--untie nothing*: no initializer' in r.stderr, r.stderr)
    call('check', f'{d}/merged.onnx', '--untie', 'auto')

    # the traced program reads one parameter: a module that is registered under two names
    layers(f'{d}/merged.onnx', True, named=lambda i: f'layers.{i}', cloned=True)
    for kind, weight, bias in ('shared', lambda i: 0, lambda i: 0), ('tied', lambda i: 0, lambda i: i), ('cloned', lambda i: i, lambda i: i):
        m = onnx.load(f'{d}/merged.onnx')
        for i, n in enumerate(n for n in m.graph.node if n.op_type == 'Gemm'):
            p = n.metadata_props.add()
            p.key, p.value = 'pkg.torch.onnx.fx_node', (f'%linear_{i} : [num_users=1] = call_function[target=torch.ops.aten.linear.default]'
                                                        f'(args = (%x{i}, %p_layers_{weight(i)}_weight, %p_layers_{bias(i)}_bias), kwargs = {{}})')
        onnx.save(m, f'{d}/{kind}.onnx')
        said, auto = call('check', f'{d}/{kind}.onnx').stdout, train(d, f'{d}/{kind}.onnx', f'{d}/t.onnx', '--untie', 'auto')[1]
        merged = {n for n in ('weight', 'bias') if f'layers.0.{n}: 3 of Gemm' in said}
        check(merged == {'shared': set(), 'tied': {'bias'}, 'cloned': {'weight', 'bias'}}[kind], f'{kind} layers: {said}')
        check(('nothing to untie' in auto) == (kind == 'shared'), f'{kind} layers, --untie auto: {auto}')

    # a layer that reads the tensor itself keeps its name, though an Identity before it leads to another layer
    layers(f'{d}/merged.onnx', True)
    m = onnx.load(f'{d}/merged.onnx')
    gemms = [n for n in m.graph.node if n.op_type == 'Gemm']
    for i, n in enumerate(gemms[1:]):
        n.input[2] = f'fc{i + 1}.bias'
        m.graph.node.insert(0, h.make_node('Identity', ['fc0.bias'], [n.input[2]], f'Identity_{i}'))
    onnx.save(m, f'{d}/carried.onnx')
    train(d, f'{d}/carried.onnx', f'{d}/t.onnx', '--untie', 'auto')
    readers = [n.input[2] for n in onnx.load(f'{d}/t.onnx').graph.node if n.op_type == 'Gemm']
    check(readers[0] == 'fc0.bias' and len(set(readers)) == 3, f'the biases are now {readers}')

    # what PyTorch's exporter makes of layers that were cloned, and of one that is called twice: the module has 1713 parameters
    encoder = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'encoder.onnx')
    for options, trained in (((), 625), (('--untie', 'auto'), 1713)):
        r = json.loads(call('check', encoder, '--json', *options).stdout)
        check(r['trained'] == trained, f"encoder.onnx {options}: {r['trained']} parameters train, {trained} are right")

    # the copies are no tied weights, though the exporter made the name of the original: neither said nor tied again
    for i, names in enumerate((['val_2'] * 3, ['val_2', 'val_5', 'val_7'])):
        nodes = [n for k, name in enumerate(names) for n in (h.make_node('MatMul', ['xyz'[k], name], [f'm{k}'], f'/layers.{k}/MatMul'),
                                                           h.make_node('Add', [f'm{k}', f'layers.{k}.bias'], ['yzu'[k]], f'/layers.{k}/Add'))]
        init = {f'layers.{k}.bias': np.linspace(-1, k, 6) for k in range(3)}
        save(f'{d}/{i}.onnx', nodes, init | dict.fromkeys(names, np.random.default_rng(8).standard_normal((6, 6)) / 2), ['u'])
    for option in (), ('--tie',):
        losses, said = train(d, f'{d}/0.onnx', f'{d}/t.onnx', '--untie', 'val_2', *option)
        right, _ = train(d, f'{d}/1.onnx', f'{d}/u.onnx')
        check(losses == right and 'copies of another' not in said, f'untied, {option}: {losses}; apart {right}: {said}')

    # a run of them continues
    np.savez(f'{d}/e.npz', x=np.linspace(-1, 1, 16 * 24, dtype='f4').reshape(16, 3, 8), target=np.zeros((16, 3, 5), 'f4'))
    call('train', encoder, '--untie', 'auto', '--data', f'{d}/e.npz', '--device', 'cpu', '--loss', 'mse', '--steps', '2', '--run-dir', f'{d}/run', '-o', f'{d}/e.onnx')
    call('resume', f'{d}/run', '--steps', '3')

    # a scale that is also the running variance: what --bn train would write is neither
    for kind, (s, c) in ('merged', ('var', 'mean')), ('apart', ('scale', 'shift')):
        names = {'var': np.ones(6), 'mean': np.zeros(6), s: np.ones(6), c: np.zeros(6), 'w': np.random.default_rng(5).standard_normal((6, 6))}
        save(f'{d}/{kind}.onnx', [h.make_node('MatMul', ['x', 'w'], ['m']), h.make_node('BatchNormalization', ['m', s, c, 'mean', 'var'], ['n'], 'norm'),
                                  h.make_node('Tanh', ['n'], ['z'])], names, ['z'])
    r = call('train', f'{d}/merged.onnx', '--data', f'{d}/data.npz', '--bn', 'train', '--run-dir', 'none', '-o', f'{d}/no.onnx', code=2)
    check('norm: --bn train: the exporter stored equal tensors once' in r.stderr and '--untie auto' in r.stderr, f'--bn train: {r.stderr}')
    losses, _ = train(d, f'{d}/merged.onnx', f'{d}/t.onnx', '--bn', 'train', '--untie', 'auto')
    right, _ = train(d, f'{d}/apart.onnx', f'{d}/u.onnx', '--bn', 'train')
    check(losses == right, f'--bn train --untie auto: {losses}; apart {right}')

    # peepholes of an LSTM are weights, and so are initial states that are not the zeros exporters write
    rng = np.random.default_rng(6)
    sizes = {'W': (1, 12, 6), 'R': (1, 12, 3), 'B': (1, 24), 'h0': (1, 4, 3), 'c0': (1, 4, 3), 'P': (1, 9)}
    tensors = [numpy_helper.from_array((rng.standard_normal(s) / 2 * (n != 'c0')).astype('f4'), n) for n, s in sizes.items()]
    g = h.make_graph([h.make_node('LSTM', ['x', 'W', 'R', 'B', '', 'h0', 'c0', 'P'], ['y'], 'lstm', hidden_size=3)], 'g',
                     [h.make_tensor_value_info('x', T.FLOAT, [5, 4, 6])], [h.make_tensor_value_info('y', T.FLOAT, [5, 1, 4, 3])], tensors)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/lstm.onnx')
    roles = {line.split()[0]: line.split()[3] for line in call('inspect', f'{d}/lstm.onnx').stdout.splitlines() if line.split()[:1] and line.split()[0] in sizes}
    check(roles == {n: 'constant' if n == 'c0' else 'trains' for n in sizes}, f'of an LSTM: {roles}')

    # a scalar that scales a weight trains by the name of a parameter; another one does not, which is said
    for weight, gain, bias in ('fc.weight', 'fc.gain', 'fc.bias'), ('weight', 'gain', 'bias'):
        save(f'{d}/scaled.onnx', [h.make_node('Mul', [weight, gain], ['w']), h.make_node('Gemm', ['x', 'w', bias], ['z'])],
             {weight: rng.standard_normal((6, 6)), gain: np.float32(1.5), bias: np.zeros(6)}, ['z'])
        said, path = call('check', f'{d}/scaled.onnx').stdout, '.' in gain
        check(('trainable: 43 parameters' in said) == path and ('a single number' in said and gain in said) != path, f'of a scalar: {said}')

    # what ConstantOfShape fills
    fill = [h.make_node('ConstantOfShape', ['shape'], ['w'], 'fill', value=h.make_tensor('v', 1, [1], [.25])),
            h.make_node('Gemm', ['x', 'w', 'b'], ['y'], 'fc'), h.make_node('Tanh', ['y'], ['z'], 'tanh')]
    shape = numpy_helper.from_array(np.array([6, 6]), 'shape')
    for kind in ('filled', 'written'):
        save(f'{d}/{kind}.onnx', fill if kind == 'filled' else fill[1:], {'b': np.linspace(-1, 1, 6), **({} if kind == 'filled' else {'w': np.full((6, 6), .25)})}, ['z'])
    m = onnx.load(f'{d}/filled.onnx')
    m.graph.initializer.append(shape)
    onnx.save(m, f'{d}/filled.onnx')
    r = call('check', f'{d}/filled.onnx')
    check('ConstantOfShape fills them' in r.stdout and '(w)' in r.stdout and '--train NAME' in r.stdout, f'not said: {r.stdout}')
    train(d, f'{d}/filled.onnx', f'{d}/t.onnx', '--lr', '0')
    check(open(f'{d}/filled.onnx', 'rb').read() == open(f'{d}/t.onnx', 'rb').read(), 'ConstantOfShape: another file without the option')
    losses, said = train(d, f'{d}/filled.onnx', f'{d}/t.onnx', '--train', 'w')
    right, _ = train(d, f'{d}/written.onnx', f'{d}/u.onnx', '--train', 'w')
    check(losses == right, f'ConstantOfShape: {losses}; as an initializer {right}')
    n = onnx.load(f'{d}/t.onnx')
    u = {i.name: numpy_helper.to_array(i) for i in onnx.load(f'{d}/u.onnx').graph.initializer}
    check(n.graph.node[0].op_type == 'Constant' and list(n.graph.node[0].output) == ['w'] and n.graph.node[0].name == 'fill', 'ConstantOfShape: no Constant of its name')
    check(np.array_equal(numpy_helper.to_array(n.graph.node[0].attribute[0].t), u['w']), 'ConstantOfShape: other weights')
    check(n.graph.node[1:] == m.graph.node[1:] and [i.name for i in n.graph.initializer] == [i.name for i in m.graph.initializer], 'ConstantOfShape: more changed')
    onnx.checker.check_model(n, full_check=True)
finish('checks')
