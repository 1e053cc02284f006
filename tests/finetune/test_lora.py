"""--lora: low-rank adapters train, the weights beside them are frozen, and the written file has both merged.

usage: test_lora.py PROGRAM

Losses and merged weights of eight steps are those of PyTorch (lora.json, by make_lora.py); the written file has the nodes of the input
and other payloads of the adapted weights alone.
"""
import json
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

import lora_network as net

right = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lora.json')))


def model(kind='f8', opset=17, external=None):
    """A Gemm with transB, one without and with alpha, a convolution, MatMul and Add."""
    node, t = h.make_node, {'f8': T.DOUBLE, 'f4': T.FLOAT, 'f2': T.FLOAT16}[kind]
    w = net.weights()
    nodes = [node('Gemm', ['x', 'fc1.weight', 'fc1.bias'], ['a'], 'fc1', transB=1), node('Relu', ['a'], ['b'], 'relu'),
             node('Gemm', ['b', 'fc2.weight'], ['c'], 'fc2', alpha=2.0), node('Tanh', ['c'], ['d'], 'tanh'),
             node('Reshape', ['d', 's'], ['e'], 'split'), node('Shape', ['conv.weight'], ['unused']), node('Conv', ['e', 'conv.weight', 'conv.bias'], ['f'], 'conv', kernel_shape=[3]),
             node('Relu', ['f'], ['g'], 'relu2'), node('Flatten', ['g'], ['i'], 'flat'),
             node('MatMul', ['i', 'fc3.weight'], ['j'], 'fc3'), node('Add', ['j', 'fc3.bias'], ['y'], 'add')]
    init = [numpy_helper.from_array(v.astype(kind), n) for n, v in w.items()] + [numpy_helper.from_array(np.array([-1, 1, 8]), 's')]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', t, ('n', 6))], [h.make_tensor_value_info('y', t, ('n', 4))], init)
    return h.make_model(g, opset_imports=[h.make_opsetid('', opset)], ir_version=8)


def tensors(path):
    return {t.name: numpy_helper.to_array(t, os.path.dirname(path)) for t in onnx.load(path, load_external_data=False).graph.initializer}


def losses(d):
    return [json.loads(line)['loss'] for line in open(f'{d}/log') if '"step"' in line.split(',')[0]]


def train(d, path, *options, lora='rank=2,alpha=6,targets=*.weight', code=0, steps='8', out='out.onnx', run='none'):
    return call('train', path, '--data', f'{d}/data.npz', '--device', 'cpu', '--run-dir', run, '-o', f'{d}/{out}', '--batch-size', '16', '--no-shuffle', '--steps', steps,
                '--lr', str(net.LR), '--seed', str(net.SEED), '--threads', '1', '--log', f'{d}/log', *(['--lora', lora] if lora else []), *options, code=code)


def write(d, kind='f8'):
    x, y = net.data()
    np.savez(f'{d}/data.npz', x=x.astype(kind), target=y)


def same_file(what, before, after, moved):
    a, b = onnx.load(before, load_external_data=False), onnx.load(after, load_external_data=False)
    check(a.graph.node == b.graph.node and [t.name for t in a.graph.initializer] == [t.name for t in b.graph.initializer], f'{what}: the graph changed')
    x, y = tensors(before), tensors(after)
    for n in x:
        check(np.array_equal(x[n], y[n]) != (n in moved), f'{what}: {n} {"did not train" if n in moved else "changed"}')
    onnx.checker.check_model(after)


with tempfile.TemporaryDirectory() as d:
    path = f'{d}/m.onnx'
    onnx.save(model(), path)
    write(d)
    r = train(d, path)
    far = np.abs(np.array(losses(d)) / right['losses'] - 1).max()
    check(far < 1e-8, f'losses differ from PyTorch by {far}: {losses(d)}')
    same_file('float64', path, f'{d}/out.onnx', net.NAMES)
    for n, v in right['merged'].items():
        far = np.abs(tensors(f'{d}/out.onnx')[n] - np.array(v)).max()
        check(far < 1e-8, f'{n}: {far} from PyTorch')
    r = call('eval', f'{d}/out.onnx', '--data', f'{d}/data.npz', '--device', 'cpu')
    # lr 0: the identical file
    train(d, path, '--lr', '0', out='same.onnx')
    check(open(path, 'rb').read() == open(f'{d}/same.onnx', 'rb').read(), 'lr 0 gives another file')
    # any number of threads; a run that was stopped
    train(d, path, '--threads', '2', out='two.onnx')
    check(open(f'{d}/out.onnx', 'rb').read() == open(f'{d}/two.onnx', 'rb').read(), 'two threads give other bytes')
    train(d, path, out='part.onnx', steps='5', run=f'{d}/run')
    call('resume', f'{d}/run', '--steps', '8')
    check(open(f'{d}/out.onnx', 'rb').read() == open(f'{d}/part.onnx', 'rb').read(), 'resume gives other bytes')
    call('eval', f'{d}/run', '--device', 'cpu')
    # Dropout before the adapters: another training, the same graph in the file; evaluations have none
    train(d, path, lora='rank=2,alpha=6,targets=*.weight,dropout=0.5', out='drop.onnx')
    same_file('dropout', path, f'{d}/drop.onnx', net.NAMES)
    check(abs(losses(d)[1] / right['losses'][1] - 1) > 1e-4, 'dropout has no effect')
    # the default: Gemm and MatMul
    r = train(d, path, lora='rank=2', out='all.onnx')
    same_file('default', path, f'{d}/all.onnx', [n for n in net.NAMES if n != 'conv.weight'])
    # fewer states: of the optimizer's memory that of the adapters
    def state(*options):
        return json.loads(call('plan', path, '--data', f'{d}/data.npz', '--device', 'cpu', '--json', *options).stdout)['state_bytes']
    check(state('--lora', 'rank=1,targets=fc1') < state(), 'the optimizer has as many states with --lora')
    # a new last layer trains beside them
    x, y = net.data()
    np.savez(f'{d}/data.npz', x=x, target=y % 3)
    r = train(d, path, '--classes', 'auto', lora='rank=2', out='classes.onnx')
    a, b = tensors(path), tensors(f'{d}/classes.onnx')
    check(b['fc3.weight'].shape == (18, 3) and np.array_equal(a['fc1.bias'], b['fc1.bias']) and not np.array_equal(a['fc1.weight'], b['fc1.weight']), '--classes beside --lora')
    train(d, path, '--classes', 'auto', '--lr', '0', out='start.onnx', lora='rank=2')
    check(not np.array_equal(b['fc3.weight'], tensors(f'{d}/start.onnx')['fc3.weight']) and not np.array_equal(b['fc3.bias'], tensors(f'{d}/start.onnx')['fc3.bias']), 'the new layer did not train')
    write(d)
    train(d, path, '--train', 'fc1.bias', lora='rank=2', out='bias.onnx')
    check(not np.array_equal(a['fc1.bias'], tensors(f'{d}/bias.onnx')['fc1.bias']), '--train beside --lora')
    r = train(d, path, '--layer-decay', '0.5', lora='rank=2,targets=fc*.weight')
    lines = [line for line in r.stderr.splitlines() if line.startswith('--layer-decay')]
    factors = [line.split('rate x ')[1].split(':')[0] for line in lines if 'lora' in line]
    check(factors == ['1', '0.5', '0.25'][:len(factors)] and all(line.count('lora_A') == line.count('lora_B') for line in lines) and len(factors) > 1,
          f'the matrices of an adapter are one layer: {lines}')
    call('check', path, '--lora', 'rank=4', '--device', 'cpu')
    call('find-lr', path, '--lora', 'rank=4', '--device', 'cpu', '--data', f'{d}/data.npz', '--steps', '4')
    for options, text, code in ((['--lora', 'rank=0'], 'rank', 2), (['--lora', 'ranks=3'], 'ranks', 2), (['--lora', 'rank=2,dropout=1'], 'dropout', 2),
                                (['--lora', 'rank=2,targets=nothing*'], "'nothing*'", 2), (['--lora', 'rank=2', '--unfold-bn'], '--unfold-bn', 2)):
        r = train(d, path, *options, lora=None, code=code)
        check(text in r.stderr, f'{options}: {r.stderr}')

for kind in 'f4', 'f2':
    with tempfile.TemporaryDirectory() as d:
        path = f'{d}/m.onnx'
        onnx.save(model(kind), path, save_as_external_data=kind == 'f4', location='m.data', size_threshold=100)
        write(d, kind)
        before = open(f'{d}/m.data', 'rb').read() if kind == 'f4' else None
        train(d, path)
        far = np.abs(np.array(losses(d)) / right['losses'] - 1).max()
        check(far < (1e-4 if kind == 'f4' else 0.05), f'{kind}: losses differ from PyTorch by {far}')
        same_file(kind, path, f'{d}/out.onnx', net.NAMES)
        check(kind != 'f4' or open(f'{d}/m.data', 'rb').read() == before, 'the data file of the input changed')
        y = onnxruntime.InferenceSession(f'{d}/out.onnx').run(None, {'x': net.data()[0].astype(kind)})[0]
        check(y.shape == (48, 4) and np.isfinite(y).all(), f'{kind}: ONNX Runtime')

with tempfile.TemporaryDirectory() as d:
    # a weight that two layers read as (out, in) and (in, out), or an embedding too: no adapter
    node = h.make_node
    w = {'emb': np.random.default_rng(1).standard_normal((7, 5)), 'w': np.random.default_rng(2).standard_normal((5, 5)), 'v': np.random.default_rng(3).standard_normal((5, 5))}
    nodes = [node('Gather', ['emb', 'x'], ['e']), node('MatMul', ['e', 'w'], ['f']), node('Tanh', ['f'], ['t']), node('MatMul', ['t', 'w'], ['g']),
             node('Transpose', ['v'], ['vt']), node('MatMul', ['g', 'vt'], ['k'], 'turned'), node('Transpose', ['emb'], ['et']), node('MatMul', ['k', 'et'], ['y'], 'tied')]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.INT64, ('n', 3))], [h.make_tensor_value_info('y', T.FLOAT, ('n', 3, 7))],
                     [numpy_helper.from_array(v.astype('f4'), n) for n, v in w.items()])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/m.onnx')
    np.savez(f'{d}/data.npz', x=np.arange(48).reshape(16, 3) % 7, target=np.arange(48).reshape(16, 3) % 7)
    r = train(d, f'{d}/m.onnx', '--loss', 'cross_entropy:class_axis=-1', lora='rank=2')
    check('1 weight has other readers, too, and gets no adapter' in r.stderr and ', 2 weights: ' in r.stderr, r.stderr)
    same_file('tied', f'{d}/m.onnx', f'{d}/out.onnx', ['w', 'v'])

finish('checks')
