"""New models of every kind and opset, with onnx.checker and ONNX Runtime as judges.

usage: test_new.py PROGRAM [-v]
"""
import re
import subprocess
import sys
import tempfile

from scripts import np, onnx, onnxruntime

onnxruntime.set_default_logger_severity(3)
KINDS = {  # input, output, parameters at full width with 10 classes
    'lenet': ((1, 28, 28), (10,), 431080),
    'mlp': ((784,), (10,), 109386),
    'vgg': ((3, 32, 32), (10,), None),
    'resnet18': ((3, 32, 32), (10,), 11173962),
    'mobilenet': ((3, 32, 32), (10,), 2236682),
    'autoencoder': ((1, 28, 28), (1, 28, 28), None),
}
LARGE = {  # the same with the classes of each; only some opsets, a quarter as wide
    'alexnet': ((3, 224, 224), (1000,)),
    'resnet50': ((3, 224, 224), (1000,)),
}
SEQUENCES = {'gpt2': (['input'], (16, 50)), 'bert': (['input', 'attention_mask'], (50,))}  # inputs, output
TRAINED = ('.weight', '.bias')


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()}')


def judge(path, opset, shape, out):
    """The model after the checker and a run; its batch is symbolic."""
    m = onnx.load(path)
    onnx.checker.check_model(m, full_check=True)
    assert [(o.domain, o.version) for o in m.opset_import] == [('', opset)]
    assert m.ir_version == next(r[1] for r in onnx.helper.VERSION_TABLE if r[2] == opset), m.ir_version
    s = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    inputs = [i for i in s.get_inputs()]
    assert [i.name for i in inputs] == ['input'] and [o.name for o in s.get_outputs()] == ['output']
    assert inputs[0].shape == ['N', *shape], inputs[0].shape
    x = np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    y = s.run(None, {'input': x})[0]
    assert y.shape == (3, *out) and np.isfinite(y).all() and y.std() > 0
    return m


def judge_sequence(path, opset, names, out):
    m = onnx.load(path)
    onnx.checker.check_model(m, full_check=True)
    assert m.opset_import[0].version == opset
    s = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    assert [i.name for i in s.get_inputs()] == names and s.get_inputs()[0].shape == ['N', 16]
    x = {n: np.random.default_rng(0).integers(0, 50, (3, 16)) for n in names}
    if 'attention_mask' in x:
        x['attention_mask'] = np.ones((3, 16), np.int64)
    y = s.run(None, x)[0]
    assert y.shape == (3, *out) and np.isfinite(y).all() and y.std() > 0
    if names == ['input']:  # a token sees itself and what came before
        x['input'] = x['input'].copy()
        x['input'][:, 9] += 1
        z = s.run(None, x)[0]
        assert np.array_equal(y[:, :9], z[:, :9]) and not np.allclose(y[:, 9:], z[:, 9:])
    else:  # what the mask hides is not seen
        x['attention_mask'][:, 9] = 0
        y = s.run(None, x)[0]
        x['input'][:, 9] += 1
        assert np.allclose(y, s.run(None, x)[0], atol=1e-6)


def main():
    program, verbose = sys.argv[1], '-v' in sys.argv
    newest = min(25, onnx.defs.onnx_opset_version())
    done = 0
    listed = subprocess.run([program, 'help', '--markdown', 'new'], capture_output=True, text=True).stdout
    named = {*re.findall(r'^\| `(\w+)` \|', listed, re.M)}
    assert named == {*KINDS, *LARGE, *SEQUENCES}, f'help new and this test differ in {named ^ {*KINDS, *LARGE, *SEQUENCES}}'
    with tempfile.TemporaryDirectory() as folder:
        path = f'{folder}/m.onnx'
        for kind, (shape, out, parameters) in KINDS.items():
            for opset in range(7, newest + 1):
                call(program, 'new', kind, '-o', path, '--opset', str(opset), '--scale', '0.25')
                judge(path, opset, shape, out)
                done += 1
            call(program, 'new', kind, '-o', path)
            m = judge(path, 17, shape, out)
            count = sum(int(np.prod(t.dims)) for t in m.graph.initializer if t.name.endswith(TRAINED))
            assert parameters in (None, count), f'{kind}: {count} parameters'
            done += 1
            if verbose:
                print(f'{kind}: {count} parameters')
        for kind, (shape, out) in LARGE.items():
            for opset in (7, 13, newest):
                call(program, 'new', kind, '-o', path, '--opset', str(opset), '--scale', '0.25')
                judge(path, opset, shape, out)
                done += 1
        for kind, (names, out) in SEQUENCES.items():
            for opset in range(20, newest + 1):
                call(program, 'new', kind, '-o', path, '--opset', str(opset), '--scale', '0.25', '--layers', '2',
                     '--input', '16', '--classes', '50')
                judge_sequence(path, opset, names, out)
                done += 1
        call(program, 'new', 'vgg', '-o', path, '--input', '1x40x24', '--classes', '5', '--seed', '3')
        judge(path, 17, (1, 40, 24), (5,))
        done += 1
    print(f'{done} of {done} new models pass')


main()
