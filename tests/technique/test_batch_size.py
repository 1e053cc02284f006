"""--batch-size auto and --memory-limit: the batch size that planning says, and a run that keeps it.

usage: test_batch_size.py PROGRAM
"""
import json
import os
import sys
import tempfile

from scripts import call, check, finish, np, onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from net import SHAPES, onnx_model  # noqa: E402

SAMPLES = 300
rng = np.random.default_rng(2)


def train(d, *options, code=0):
    """What a run said, and what its log began with."""
    r = call('train', d + '/net.onnx', '--data', d + '/data.npz', '--val', d + '/val.npz', '--steps', '1', '--run-dir', 'none', '--threads', '1', '-o', d + '/o.onnx', '--log',
             d + '/log.jsonl', *options, code=code)
    return r.stderr, None if code else json.loads(open(d + '/log.jsonl').readline())


with tempfile.TemporaryDirectory() as d:
    tensors = {n: np.abs(rng.normal(0, .3, s)) + .5 if n.startswith('norm') else rng.normal(0, .3, s) for n, s in SHAPES.items()}
    onnx.save(onnx_model(tensors), d + '/net.onnx')
    for name, n in ('data', SAMPLES), ('val', 50):
        np.savez(f'{d}/{name}.npz', x=rng.normal(0, 1, (n, 2, 4, 4)).astype(np.float32), target=rng.integers(0, 5, n))

    for more in [], ['--accumulate', '2', '--ema', '0.9'], ['--no-shuffle', '--optimizer', 'sgd']:
        planned = {1 << k: train(d, '--batch-size', str(1 << k), *more)[1]['planned_bytes'] for k in range(9)}
        for limit in [planned[b] - k for b in (8, 32, 64, 256) for k in (0, 1)]:
            batch = max(b for b in planned if planned[b] <= limit)
            said, start = train(d, '--batch-size', 'auto', '--memory-limit', str(limit), *more)
            check(start['batch_size'] == batch and start['planned_bytes'] == planned[batch], f"{more}: batch size {start['batch_size']}, expected {batch} of {planned}")
            check(f'--batch-size auto: {batch} needs' in said and (f'; {2 * batch} would need' in said) == (batch < 256), said)
    said, start = train(d, '--batch-size', 'auto')
    check(start['batch_size'] == 256 and 'of the available memory' in said and f'has {SAMPLES} samples' in said, said)

    said = train(d, '--batch-size', '32', '--no-shuffle')[0]
    check('the last batch of an epoch has 12 samples; it is filled with the first 20 of the set' in said, said)
    for more in ['--batch-size', '32'], ['--batch-size', '30', '--no-shuffle']:
        check('it is filled' not in train(d, *more)[0], f'{more}: no batch is filled')

    # beyond the limit
    planned = train(d, '--batch-size', '64')[1]['planned_bytes']
    train(d, '--batch-size', '64', '--memory-limit', str(planned))
    check('--memory-limit' in train(d, '--batch-size', '64', '--memory-limit', '10KiB', code=5)[0], 'a limit is said')
    check('batch size 1 needs' in train(d, '--batch-size', 'auto', '--memory-limit', '10KiB', code=5)[0], 'a limit is said')
    for limit in 'many', '1XB', '0', 'MiB', '-1':
        train(d, '--memory-limit', limit, code=2)
    for size in 'automatic', '0', '1.5':
        train(d, '--batch-size', size, code=2)
    call('eval', d + '/net.onnx', '--data', d + '/data.npz', '--batch-size', 'auto', code=2)
    check('--training-info' in train(d, '--batch-size', 'auto', '--training-info', code=2)[0], '--training-info')

    # the size that was found stays, whatever fits later
    common = ['train', d + '/net.onnx', '--data', d + '/data.npz', '--threads', '1']
    call(*common, '--batch-size', '32', '--steps', '12', '--run-dir', d + '/whole', '-o', d + '/whole.onnx')
    limit = json.loads(open(d + '/whole/log.jsonl').readline())['planned_bytes']
    call(*common, '--batch-size', 'auto', '--memory-limit', str(limit), '--steps', '5', '--run-dir', d + '/run', '-o', d + '/part.onnx')
    r = call('resume', d + '/run', '--steps', '12', '--memory-limit', '1GiB')
    check(json.loads(open(d + '/run/log.jsonl').readline())['batch_size'] == 32, 'another batch size')
    check(open(d + '/whole.onnx', 'rb').read() == open(d + '/part.onnx', 'rb').read(), 'a continued run differs')
finish('figures')
