"""Networks with BatchNormalization, trained and written: ONNX Runtime gives the outputs we give.

usage: test_trained.py PROGRAM

For every kind with running statistics, at an old and a new opset: what the file changed in is its
weights and statistics, all of them; node by node it is the file that went in.
"""
import subprocess
import sys
import tempfile

from scripts import np, numpy_helper, onnx, onnxruntime

onnxruntime.set_default_logger_severity(3)
CASES = [('vgg', 17), ('resnet18', 9), ('mobilenet', 10), ('mobilenet', 22)]


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()}')


def load(path):
    """The tensors by name, and all the rest of the file."""
    m = onnx.load(path)
    tensors = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    for t in m.graph.initializer:
        t.ClearField('raw_data')
    return tensors, m.SerializeToString()


def one(program, d, kind, opset):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 3, 32, 32)).astype(np.float32)
    np.savez(f'{d}/x.npz', input=x, target=rng.integers(0, 10, 16))
    np.savez(f'{d}/run.npz', input=x)
    call(program, 'new', kind, '-o', f'{d}/m.onnx', '--opset', str(opset), '--scale', '0.25')
    call(program, 'train', f'{d}/m.onnx', '--data', f'{d}/x.npz', '--batch-size', '8', '--steps', '6', '--device', 'cpu',
         '-o', f'{d}/t.onnx', '--run-dir', f'{d}/r-{kind}-{opset}')
    (before, rest), (after, rest_after) = load(f'{d}/m.onnx'), load(f'{d}/t.onnx')
    assert rest == rest_after, 'more than payloads changed'
    same = [n for n in before if np.array_equal(before[n], after[n])]
    bounds = [n for n in before if n.endswith(('.min', '.max'))]
    assert sorted(same) == sorted(bounds), f'unchanged: {same}'
    onnx.checker.check_model(f'{d}/t.onnx', full_check=True)
    call(program, 'run', f'{d}/t.onnx', '--data', f'{d}/run.npz', '-o', f'{d}/y.npz', '--device', 'cpu')
    ours = np.load(f'{d}/y.npz')['output']
    s = onnxruntime.InferenceSession(f'{d}/t.onnx', providers=['CPUExecutionProvider'])
    theirs = s.run(None, {'input': x})[0]
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max()), np.abs(ours - theirs).max()
    print(f'{kind} opset {opset}: {len(before)} tensors, outputs within {np.abs(ours - theirs).max():.1e} of ONNX Runtime')


def main():
    with tempfile.TemporaryDirectory() as d:
        for case in CASES:
            one(sys.argv[1], d, *case)
    print(f'{len(CASES)} of {len(CASES)} trained networks agree')


main()
