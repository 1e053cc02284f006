"""Dropout while training: --dropout for those of the file, --add-dropout for one before the classifier.

usage: test_dropout.py PROGRAM

What a training step computes is compared with what the same network says whose file has that Dropout: the same seed drops
the same elements, for the place in the graph is the same. Evaluation drops nothing, and the file gets no node.
"""
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

def network(path, ratio=None, tied=False):
    """x - Gemm - Relu [- Dropout] - MatMul - Add; its second weight is a table that is transposed, where tied."""
    made = np.random.default_rng(3)
    init = {'a.weight': made.standard_normal((32, 64)) / 6, 'a.bias': np.zeros(64), 'b.weight': made.standard_normal((8, 64) if tied else (64, 8)) / 8, 'b.bias': np.zeros(8)}
    nodes = [h.make_node('Gemm', ['x', 'a.weight', 'a.bias'], ['h'], 'a'), h.make_node('Relu', ['h'], ['r'], 'relu')]
    last = 'r'
    if ratio is not None:
        init['ratio'], last = np.array(ratio), 'd'
        nodes.append(h.make_node('Dropout', ['r', 'ratio'], ['d'], 'drop'))
    if tied:
        nodes.append(h.make_node('Transpose', ['b.weight'], ['bt'], 'turn', perm=[1, 0]))
    nodes += [h.make_node('MatMul', [last, 'bt' if tied else 'b.weight'], ['m'], 'b'), h.make_node('Add', ['m', 'b.bias'], ['y'], 'bias')]
    ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', c]) for n, c in (('x', 32), ('y', 8))]
    tensors = [numpy_helper.from_array(np.asarray(v, 'f4'), n) for n, v in init.items()]
    onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def train(d, model, *options):
    """Losses of the steps, the evaluation's last, and what was said."""
    r = call('train', model, '--data', f'{d}/data.npz', '--val', f'{d}/data.npz', '--device', 'cpu', '--run-dir', 'none', '-o', f'{d}/t.onnx', '--batch-size', '256', '--lr', '0.01',
             '--steps', '6', '--log', f'{d}/log', *options)
    events = [json.loads(line) for line in open(f'{d}/log')]
    return [e['loss'] for e in events if e['event'] == 'step'], [e['loss'] for e in events if e['event'] == 'eval'][-1], r.stderr


def nodes_of(path):
    return [n.op_type for n in onnx.load(path).graph.node]


with tempfile.TemporaryDirectory() as d:
    rng = np.random.default_rng(1)
    np.savez(f'{d}/data.npz', x=rng.standard_normal((256, 32)).astype('f4'), target=rng.integers(0, 8, 256))
    for tied in (False, True):
        network(f'{d}/m.onnx', tied=tied)
        network(f'{d}/half.onnx', .5, tied)
        network(f'{d}/none.onnx', 0, tied)
        plain, plain_eval, _ = train(d, f'{d}/m.onnx')
        off, off_eval, said = train(d, f'{d}/half.onnx', '--dropout', 'off')
        check(off == plain and off_eval == plain_eval, f'--dropout off: {off}, {plain}')
        zero, _, _ = train(d, f'{d}/none.onnx')
        check(zero == plain, f'a ratio of 0: {zero}, {plain}')
        half, half_eval, said = train(d, f'{d}/half.onnx')
        check(half != plain and 'Dropout: 1 of 1 active' in said, f'the Dropout of the file does nothing: {said}')
        other, _, _ = train(d, f'{d}/none.onnx', '--dropout', '0.5')
        check(other == half, f'--dropout 0.5 is not a ratio of 0.5: {other}, {half}')
        added, added_eval, said = train(d, f'{d}/m.onnx', '--add-dropout', '0.5')
        check('--add-dropout 0.5: Dropout is added before the classifier' in said and 'has none (b)' in said, said)
        check(added[0] != plain[0] and abs(np.mean(added) - np.mean(half)) < .3 * abs(np.mean(half)), f'--add-dropout 0.5: {added}; a Dropout in the file: {half}')
        check(nodes_of(f'{d}/t.onnx') == nodes_of(f'{d}/m.onnx'), '--add-dropout changed the file')
        slight, _, _ = train(d, f'{d}/m.onnx', '--add-dropout', '0.001')
        check(abs(slight[0] - plain[0]) < .02 * plain[0], f'what is kept is not scaled up: {slight[0]}, {plain[0]}')
        # evaluation sees all of it: the losses of evaluation follow from the written file alone
        call('eval', f'{d}/t.onnx', '--data', f'{d}/data.npz')
    # grad computes without Dropout unless --dropout is given, as a training step does.
    def grad(model, *options):
        said = call('grad', model, '--data', f'{d}/data.npz', '-o', f'{d}/g.npz', '--device', 'cpu', '--batch-size', '256', *options).stderr
        return float(np.load(f'{d}/g.npz')['loss']), said

    half, _, _ = train(d, f'{d}/half.onnx', '--no-shuffle')
    check(grad(f'{d}/half.onnx')[0] == grad(f'{d}/m.onnx')[0] == grad(f'{d}/half.onnx', '--dropout', 'off')[0], 'grad without --dropout')
    for model, how in ('half', 'file'), ('none', '0.5'):
        loss, said = grad(f'{d}/{model}.onnx', '--dropout', how)
        check(abs(loss - half[0]) < 1e-5 * loss and 'Dropout: 1 of 1 active' in said, f'grad --dropout {how}: {loss}, {half[0]}: {said}')
    r = call('check', f'{d}/half.onnx', '--add-dropout', '0.3')
    check('already has Dropout' in r.stdout, f'a Dropout that is there: {r.stdout}')
    r = call('check', f'{d}/m.onnx', '--add-dropout', '0.3', '--freeze', 'b.*')
    check('has none (b)' in r.stdout, f'a frozen classifier: {r.stdout}')
    ends = [h.make_tensor_value_info(n, T.FLOAT, ['n', 8]) for n in ('x', 'y')]
    scale = [numpy_helper.from_array(np.arange(8, dtype='f4') * .3 + .1, 'scale')]
    onnx.save(h.make_model(h.make_graph([h.make_node('Tanh', ['x'], ['t']), h.make_node('Mul', ['t', 'scale'], ['y'])], 'g', ends[:1], ends[1:], scale),
                                opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/scale.onnx')
    r = call('check', f'{d}/scale.onnx', '--add-dropout', '0.3')
    check('no effect' in r.stdout, f'no layer: {r.stdout}')
    call('check', f'{d}/m.onnx', '--add-dropout', '1', code=2)
    call('check', f'{d}/m.onnx', '--add-dropout', '-1', code=2)
    call('check', f'{d}/m.onnx', '--dropout', '1', code=2)
finish('checks')
