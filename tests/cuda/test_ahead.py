"""A data set that does not fit on the emulated GPU: its batches are sent while the one before is computed, and the model is the one that a
device with the whole set gives. A call that fails is an error.

usage: test_ahead.py PROGRAM
"""
import os
import subprocess
import tempfile

from scripts import call, check, finish, np, program


def train(**settings):
    """The exit code, what it said, the written model and the device's calls."""
    for name in ('out.onnx', 'log'):
        if os.path.exists(name):
            os.remove(name)
    r = subprocess.run([program, 'wide.onnx', '--data', 'wide.npz', '--loss', 'mse', '--device', 'cuda', '-o', 'out.onnx', '--run-dir', 'run',
                        '-q', '--batch-size', '520', '--steps', '12'], stderr=subprocess.PIPE, text=True,
                       env=dict(os.environ, ONNXTRAIN_EMULATOR_LOG='log', **settings))
    model = open('out.onnx', 'rb').read() if os.path.exists('out.onnx') else None
    return r.returncode, r.stderr, model, [line.split(None, 2) for line in open('log')]


def waits(log):
    return [int(line[0]) for line in log if line[1] == 'cudaStreamWaitEvent']


with tempfile.TemporaryDirectory() as d:
    os.chdir(d)
    rng = np.random.default_rng(5)
    call('new', 'mlp', '--input', '2x16x16', '--hidden', '4', '--classes', '1', '-o', 'wide.onnx', '-q')
    np.savez('wide.npz', input=rng.standard_normal((1040, 512)).astype('f4'), target=rng.standard_normal((1040, 1)).astype('f4'))

    code, said, resident, log = train()
    others = len(waits(log))  # the written model is compared with arrays of the host
    check(code == 0 and others == 2, f'the whole set on the device: exit {code}, {others} waits: {said}')
    small = {'ONNXTRAIN_EMULATOR_MEMORY': '12'}
    code, said, model, log = train(**small)
    check(code == 0 and len(waits(log)) >= 24 + others, f'a small device: exit {code}, {len(waits(log))} waits for 12 batches: {said}')
    check(model == resident, 'another model, when batches are sent ahead')

    # The calls that make the second stream and its events, and some of the first batches'.
    first = waits(log)[:4]
    fail = {int(line[0]) for line in log if line[1].startswith(('cudaStreamCreate', 'cudaEventCreate')) and int(line[0]) < first[0]}
    fail |= {k for n in first for k in (n, n + 1)}
    for n in sorted(fail):
        code, said, model, _ = train(ONNXTRAIN_EMULATOR_FAIL=str(n), **small)
        check(code in (5, 9) and model is None and 'emulator:' not in said, f'call {n} fails: exit {code}: {said}')
    os.chdir('/')
finish('checks')
