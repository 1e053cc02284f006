"""--unfold-bn: convolutions that took a BatchNormalization in train with one, and the file stays what it is.

usage: test_unfold.py PROGRAM

For names as each exporter gives them, and for a graph whose names tell nothing: nothing moves at a learning rate of 0 with
frozen statistics; without, outputs move by what the statistics do; trained with it a network whose norms were folded learns
what it does not without; the written file's nodes are the user's, and ONNX Runtime answers as the training's evaluation does.
"""
import json
import os
import tempfile

import onnxruntime
from scripts import T, call, check, finish, h, np, numpy_helper, onnx

tree = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
rng = np.random.default_rng(5)


names = {  # producer, weight, bias
    'torch': ('pytorch', 'onnx::Conv_{0}1', 'onnx::Conv_{0}2'),
    'dynamo': ('pytorch', 'features.{0}.weight', 'features.{0}.weight_bias'),
    'tf2onnx': ('tf2onnx', 'conv{0}/kernel', 'conv{0}/conv_fused_bn'),
    'plain': ('', 'w{0}', 'b{0}'),
}


def network(path, kind, shared=False, dims='n'):
    """Four convolutions as after folding: each channel at a scale and an offset of its own."""
    producer, weight, bias = names[kind]
    init, nodes, x, c = [], [], 'input', 3
    made = np.random.default_rng(7)
    for i, m in enumerate((8, 16, 16, 16)):
        w = made.standard_normal((m, c, 3, 3)) / np.sqrt(9 * c) * 10.0 ** made.uniform(-1.6, .4, (m, 1, 1, 1))
        b = made.standard_normal(m) * .5 - .4
        bn = bias.format(1 if shared and i == 3 else i)
        init.append(numpy_helper.from_array(w.astype('f4'), weight.format(i)))
        if bn not in [t.name for t in init]:
            init.append(numpy_helper.from_array(b.astype('f4'), bn))
        nodes.append(h.make_node('Conv', [x, weight.format(i), bn], [f'c{i}'], f'conv{i}', pads=[1] * 4, strides=[1 + i % 2] * 2))
        nodes.append(h.make_node('Relu', [f'c{i}'], [f'r{i}'], f'relu{i}'))
        x, c = f'r{i}', m
    nodes += [h.make_node('GlobalAveragePool', [x], ['p']), h.make_node('Flatten', ['p'], ['f']),
              h.make_node('Gemm', ['f', 'fc.weight', 'fc.bias'], ['output'], 'fc', transB=1)]
    init += [numpy_helper.from_array(made.standard_normal((4, c)).astype('f4') / 4, 'fc.weight'),
             numpy_helper.from_array(np.zeros(4, 'f4'), 'fc.bias')]
    ends = [h.make_tensor_value_info('input', T.FLOAT, [dims, 3, 16, 16]),
            h.make_tensor_value_info('output', T.FLOAT, [dims, 4])]
    m = h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], init), opset_imports=[h.make_opsetid('', 17)],
                          producer_name=producer, ir_version=8)
    onnx.save(m, path)


def data(path, n):
    """Pictures whose class is the direction of a wave."""
    y = rng.integers(0, 4, n)
    u, v = np.meshgrid(np.arange(16), np.arange(16))
    f = np.array([[1, 0], [0, 1], [.7, .7], [.7, -.7]])[y]
    wave = np.sin((f[:, :1, None] * u.ravel()[None, None] + f[:, 1:, None] * v.ravel()[None, None]) * .9 + rng.uniform(0, 6, (n, 1, 1)))
    x = wave.reshape(n, 1, 16, 16) * np.ones((1, 3, 1, 1)) + rng.standard_normal((n, 3, 16, 16)) * .5
    np.savez(path, input=x.astype('f4'), target=y)
    return x.astype('f4'), y


def answers(path, x):
    return onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider']).run(None, {'input': x})[0]


def log_of(path):
    return [json.loads(line) for line in open(path)]


def without_payloads(path):
    m = onnx.load(path)
    for t in m.graph.initializer:
        t.ClearField('raw_data')
    return m.SerializeToString()


def one(d, kind):
    m, t = f'{d}/{kind}.onnx', f'{d}/{kind}-t.onnx'
    network(m, kind)
    base = ['train', m, '--data', f'{d}/train.npz', '--device', 'cpu', '--run-dir', 'none', '-o', t, '--batch-size', '32']

    r = call(*base, '--unfold-bn', '--lr', '0', '--bn', 'frozen', '--steps', '3')
    check(open(m, 'rb').read() == open(t, 'rb').read(), f'{kind}: nothing trained and the file is another')
    check('--unfold-bn' in r.stderr and '(4: conv0' in r.stderr, f'{kind}: which convolutions is not said: {r.stderr}')
    check('folded BatchNormalization' not in r.stderr, f'{kind}: a warning of what was mended')
    call(*base, '--unfold-bn', '--lr', '0', '--steps', '3')
    far = np.abs(answers(m, x) - answers(t, x)).max() / np.abs(answers(m, x)).max()
    check(0 < far < .1, f'{kind}: at rate 0 the outputs moved by {far}')

    if kind in ('dynamo', 'tf2onnx'):
        return  # the names alone are others
    loss = {}
    for option in ((), ('--unfold-bn',)):
        call(*base, *option, '--optimizer', 'sgd:momentum=0.9', '--lr', '0.1', '--seed', '1', '--val', f'{d}/val.npz', '--epochs', '6', '--log', f'{d}/log')
        loss[option] = [e for e in log_of(f'{d}/log') if e['event'] == 'eval'][-1]
    plain, unfolded = loss[()], loss['--unfold-bn',]
    check(unfolded['accuracy'] > .9 and unfolded['loss'] < .5 * plain['loss'],
          f"{kind}: loss {unfolded['loss']}, accuracy {unfolded['accuracy']}; without --unfold-bn {plain['loss']}, {plain['accuracy']}")
    check(without_payloads(m) == without_payloads(t), f'{kind}: more than payloads changed')
    onnx.checker.check_model(t, full_check=True)
    z = answers(t, xv).astype('f8')
    z -= z.max(1, keepdims=True)
    theirs = float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(yv)), yv]))
    check(abs(theirs - unfolded['loss']) < 1e-4 * (1 + theirs), f"{kind}: ONNX Runtime's loss on the file is {theirs}, the training's {unfolded['loss']}")
    print(f"{kind}: loss {plain['loss']:.3f}, with --unfold-bn {unfolded['loss']:.4f}; ONNX Runtime {theirs:.4f}")


def others(d):
    # a batch of one baked in: the same statistics, the same training
    network(f'{d}/one.onnx', 'torch', dims=1)
    network(f'{d}/any.onnx', 'torch')
    for k in ('one', 'any'):
        call('train', f'{d}/{k}.onnx', '--data', f'{d}/train.npz', '--device', 'cpu', '--run-dir', 'none', '-o', f'{d}/{k}-t.onnx', '--unfold-bn', '--steps', '8', '--log', f'{d}/{k}.log')
    a, b = ([e['loss'] for e in log_of(f'{d}/{k}.log') if e['event'] == 'step'] for k in ('one', 'any'))
    check(np.allclose(a, b, rtol=1e-5), f'a baked batch: {a} and {b}')

    # a bias that two convolutions share: these two stay as they are, which is said
    network(f'{d}/shared.onnx', 'plain', shared=True)
    r = call('check', f'{d}/shared.onnx', '--unfold-bn')
    check('(2: conv0, conv2)' in r.stdout and '2 convolutions share' in r.stdout, f'a shared bias: {r.stdout}')

    # parted first, they all get one, and the file has one bias more
    t = f'{d}/shared-t.onnx'
    r = call('train', f'{d}/shared.onnx', '--data', f'{d}/train.npz', '--device', 'cpu', '--run-dir', 'none', '-o', t, '--unfold-bn', '--untie', 'b1', '--steps', '4')
    check('(4: conv0' in r.stderr and 'b1: 2 of Conv' in r.stderr, f'--untie with --unfold-bn: {r.stderr}')
    check(len(onnx.load(t).graph.initializer) == 10 and len(onnx.load(f'{d}/shared.onnx').graph.initializer) == 9, '--untie with --unfold-bn: tensors')

    # without data; what the option is for is said without it
    r = call('check', f'{d}/torch.onnx', '--unfold-bn')
    check('BatchNormalization: 4 of 4 use' in r.stdout and '(4: conv0' in r.stdout, f'check: {r.stdout}')
    r = call('check', f'{d}/torch.onnx')
    check('--unfold-bn' in r.stdout and '(4: conv0' in r.stdout, f'check does not name the option: {r.stdout}')
    r = call('check', f'{d}/torch.onnx', '--unfold-bn', '--freeze', 'onnx::Conv_01', '--data', f'{d}/train.npz')
    check('(3: conv1' in r.stdout, f'a frozen convolution: {r.stdout}')

    # nothing to put one behind
    call('new', 'mlp', '-o', f'{d}/mlp.onnx')
    r = call('check', f'{d}/mlp.onnx', '--unfold-bn', code=2)
    check('--unfold-bn: no convolution' in r.stderr, f'no convolution: {r.stderr}')


def exports(d):
    """What PyTorch's exporters leave of a fresh network: zero biases left out (dynamo), or stored once (TorchScript)."""
    x = rng.standard_normal((64, 1, 28, 28)).astype('f4')
    np.savez(f'{d}/digits.npz', input=x, target=rng.integers(0, 10, 64))
    np.savez(f'{d}/x.npz', input=x)
    for name, norms, more in (('folded-dynamo', 5, 5), ('folded-torchscript', 5, 4), ('folded-dynamo-biases', 8, 0), ('plain-dynamo', 8, 0)):
        m, t = f'{tree}/tests/exports/{name}.onnx', f'{d}/{name}.onnx'
        r = call('train', m, '--data', f'{d}/digits.npz', '--device', 'cpu', '--run-dir', 'none', '-o', t, '--unfold-bn', '--steps', '6', '--batch-size', '32', '--lr', '0.01')
        check(f'BatchNormalization: {norms} of {norms} use' in r.stderr, f'{name}: {r.stderr}')
        a, b = onnx.load(m).graph, onnx.load(t).graph
        check([n.op_type for n in a.node] == [n.op_type for n in b.node], f'{name}: other nodes')
        check(len(b.initializer) - len(a.initializer) == more, f'{name}: {len(b.initializer)} initializers, {len(a.initializer)} in the file')
        onnx.checker.check_model(t, full_check=True)
        call('run', t, '--data', f'{d}/x.npz', '-o', f'{d}/y.npz', '--device', 'cpu')
        far = np.abs(np.load(f'{d}/y.npz')['output'] - answers(t, x)).max()
        check(far < 1e-4, f'{name}: {far} between ours and ONNX Runtime')
    r = call('check', f'{tree}/tests/exports/norms-shared.onnx', '--untie', 'auto')
    check('BatchNormalization: 5 of 5 use' in r.stdout, f'--untie auto leaves norms that keep their statistics: {r.stdout}')


with tempfile.TemporaryDirectory() as d:
    x, y = data(f'{d}/train.npz', 512)
    xv, yv = data(f'{d}/val.npz', 256)
    for kind in names:
        one(d, kind)
    others(d)
    exports(d)
finish('checks')
