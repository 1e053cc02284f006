"""Files with a batch of one baked in, as networks.py and graphs.py make them: every sample gets what the file gives it, and
training in batches of four follows PyTorch.

usage: test_rebatch.py PROGRAM [--only TEXT] [-v]
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH = 5, 4


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise AssertionError(f"{arguments[0]}: exit {r.returncode}: {' / '.join(r.stderr.strip().splitlines()[-3:])}")
    return r.stderr


def near(got, want, tolerance, what):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, f'{what}: {got.shape}, wants {want.shape}'
    off = np.max(np.abs(got - want) / np.maximum(np.abs(want), 1), initial=0)
    assert off <= tolerance, f'{what}: off by {off:.2g}'


def forward(program, model, data, folder):
    out = os.path.join(folder, 'y.npz')
    np.savez(os.path.join(folder, 'x.npz'), **{k: v for k, v in data.items() if not k.startswith(('expected', 'target'))})
    call(program, 'run', model, '--mode', 'eval', '--data', os.path.join(folder, 'x.npz'), '-o', out)
    near(np.load(out)['y'], data['expected_y'], 2e-5, 'forward')


def losses(program, model, data, folder, *options):
    """Losses of the updates, and what was said."""
    np.savez(os.path.join(folder, 'd.npz'), **{k: v for k, v in data.items() if not k.startswith('expected')})
    log = os.path.join(folder, 'log.jsonl')
    said = call(program, 'train', model, '--data', os.path.join(folder, 'd.npz'), '-o', os.path.join(folder, 'out.onnx'), '--batch-size', str(BATCH),
                '--steps', str(STEPS), '--no-shuffle', '--loss', 'cross_entropy', '--optimizer', 'sgd:lr=0.1,momentum=0.9', '--run-dir', 'none',
                '--log', log, '--device', 'cpu', '--threads', '1', *options)
    return [e['loss'] for e in map(json.loads, open(log)) if e['event'] == 'step'], said


def one(program, stem, verbose):
    data = dict(np.load(stem + '.npz'))
    with tempfile.TemporaryDirectory() as folder:
        forward(program, stem + '.onnx', data, folder)
        fixed = [o for name in data['expected_fixed'] for o in ('--freeze', name.decode())]
        got, said = losses(program, stem + '.onnx', data, folder, *fixed)
        if verbose:
            print('   ', *[line for line in said.splitlines() if 'fixed batch' in line or 'once for each' in line], sep='\n    ')
        near(got, data['expected_losses'], 1e-5, 'losses')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('program')
    p.add_argument('--only', default='')
    p.add_argument('-v', action='store_true')
    a = p.parse_args()
    stems = sorted(f[:-5] for f in glob.glob(os.path.join(HERE, 'cases', '*.onnx')) if a.only in f)
    wrong = 0
    for stem in stems:
        try:
            one(a.program, stem, a.v)
            print('ok  ', os.path.basename(stem))
        except AssertionError as e:
            wrong += 1
            print('OFF ', os.path.basename(stem), e)
    print(f'{len(stems) - wrong} of {len(stems)}')
    return wrong != 0 or not stems


if __name__ == '__main__':
    sys.exit(main())
