"""Techniques of training followed step by step: the losses, the evaluation and the written weights are PyTorch's (cases.json).

usage: test_follow.py PROGRAM [TEXT]      TEXT: only cases whose name has it
"""
import json
import os
import re
import struct
import sys
import tempfile
import xml.dom.minidom

from scripts import call, check, finish, np, onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from net import SHAPES, STATISTICS, onnx_model, read  # noqa: E402

ALL = json.load(open(HERE + '/cases.json'))
X = np.array(ALL['x'], np.float32).reshape(-1, 2, 4, 4)
START = {n: np.array(ALL['start'][n], np.float32).reshape(s) for n, s in SHAPES.items()}


def far(got, want, start):
    """How much of the way from start to want is missing."""
    got, want, start = (np.asarray(v, np.float64).ravel() for v in (got, want, start))
    return np.linalg.norm(got - want) / max(np.linalg.norm(want - start), 1e-3)


def follow(case, d):
    for name, content in case.get('files', {}).items():
        onnx.save(onnx_model(content.pop('tensors'), **content), f'{d}/{name}')
    if 'target' in case:
        np.savez(d + '/values.npz', x=X, target=np.array(case['target'], np.float32).reshape(len(X), -1))
    data = d + ('/values.npz' if 'target' in case else '/data.npz')
    options = [o.replace('DIR', d) for o in case['options']]
    r = call('train', d + '/net.onnx', '--data', data, '--val', data, '--no-shuffle', '--batch-size', str(ALL['batch']), '--steps',
             str(case['steps']), '--run-dir', d + '/run', '--log', d + '/log.jsonl', '-o', d + '/out.onnx', '--threads', '1', *options)
    if r.returncode:
        return
    log = [json.loads(line) for line in open(d + '/log.jsonl')]
    losses = [e['loss'] for e in log if e['event'] == 'step']
    off = np.abs(np.array(losses) / np.array(case['losses']) - 1)
    check(len(losses) == case['steps'] and off.max() < 2e-4, f"{case['name']}: losses are off by {off}")
    last = [e['loss'] for e in log if e['event'] == 'eval'][-1]
    check(abs(last / case['evaluated'] - 1) < 2e-4, f"{case['name']}: evaluated {last}, expected {case['evaluated']}")
    end = read(d + '/out.onnx')
    for n in SHAPES:
        off = far(end[n], case['end'][n], START[n])
        check(off < 2e-3, f"{case['name']}: '{n}' is off by {off:.2g} of its way")


def look_for_rate(case, d):
    """find-lr: its losses, and what it suggests of them by a second computation; it writes nothing."""
    before = sorted(os.listdir(d))
    options = ['find-lr', d + '/net.onnx', '--data', d + '/data.npz', '--no-shuffle', '--batch-size', str(ALL['batch']), '--steps', str(case['steps']),
               '--threads', '1', *case['options']]
    r = call(*options, '--json')
    if r.returncode:
        return
    found = json.loads(r.stdout)
    points = found['points']
    n = len(points)
    off = np.abs(np.array([p['loss'] for p in points]) / np.array(case['losses'])[:n] - 1)
    check(off.max() < 1e-2 and off[:n // 2].max() < 2e-4, f'find-lr: losses are off by {off}')
    check(np.allclose([p['lr'] for p in points], case['rates'][:n], rtol=1e-7), 'find-lr: rates')
    smoothed, average, centres = [], 0, []
    for k, p in enumerate(points):
        average = .9 * average + .1 * p['loss']
        smoothed.append(average / (1 - .9 ** (k + 1)))
        weights = .9 ** np.arange(k, -1, -1)
        centres.append(np.arange(k + 1) @ weights / weights.sum())
    check(np.allclose([p['smoothed'] for p in points], smoothed, rtol=1e-9), 'find-lr: smoothed losses')
    ends = [k for k in range(n) if k >= 10 and smoothed[k] > 4 * min(smoothed[:k + 1])]
    check(found['diverged'] == bool(ends) and (not ends or ends == [n - 1]), f'find-lr: ends after {n} of {case["steps"]}')
    lowest = int(np.argmin(smoothed))
    first = n // 10 + 1
    level = np.mean(smoothed[first:first + (lowest - first) // 3 + 1])  # before the loss falls for good, a fifth of the way down
    begun = [k for k in range(first, lowest) if smoothed[k] >= level - (level - smoothed[lowest]) / 5]
    falls = {k: smoothed[k + 1] - smoothed[k - 1] for k in range(begun[-1] if begun else first, lowest)}
    steepest = int(np.floor(centres[min(falls, key=falls.get)] + .5))  # a smoothed loss falls later than the loss
    check(np.isclose(found['steepest'], points[steepest]['lr']), f"find-lr: steepest {found['steepest']}")
    check(np.isclose(found['tenth_of_lowest'], points[lowest]['lr'] / 10), f"find-lr: a tenth of {found['tenth_of_lowest']}")
    table, csv = call(*options).stdout, call(*options, '--csv').stdout.splitlines()
    check('suggestion: --lr' in table and csv[0] == 'step,lr,loss,smoothed' and len(csv) == n + 1, 'find-lr: table and CSV')
    check(sorted(os.listdir(d)) == before and not os.path.exists('runs'), f'find-lr: wrote {os.listdir(d)}')
    svg = d + '/rates.svg'
    call(*options, '-o', svg)
    with open(svg) as f:
        text = f.read()
    xml.dom.minidom.parseString(text)
    ticks = [float(v) for v in re.findall(r'text-anchor="middle">([^<]*)</text>', text)]
    check(ticks == sorted(ticks) and len(ticks) > 1 and all(np.isclose(np.log10(v) % 1, 0) for v in ticks), f'find-lr: ticks {ticks} of its picture')
    marks = [float(v) for v in re.findall(r'>--lr ([^,]*), ', text)]
    check(np.allclose(marks, [found['steepest'], found['tenth_of_lowest']], rtol=.05), f'find-lr: marks {marks} of its picture')
    at = [float(v) for v in re.findall(r'stroke="#[^8][^>]* d="M([0-9.]+) 46L\1 260"', text)]
    along = [(np.log10(v) - np.log10(points[0]['lr'])) / (np.log10(points[-1]['lr']) - np.log10(points[0]['lr'])) * 556 + 64 for v in (found['steepest'], found['tenth_of_lowest'])]
    check(np.allclose(at, along, atol=.2), f'find-lr: the marks are at {at}, expected {along}')
    call(*options, '-o', d + '/data.npz', code=2)
    os.remove(svg)
    png = d + '/rates.png'
    if 'png' in json.loads(call('env', '--json').stdout)['charts']:
        call(*options, '-o', png)
        with open(png, 'rb') as f:
            head = f.read(24)
        check(head[:8] == b'\x89PNG\r\n\x1a\n' and struct.unpack('>2I', head[16:]) == (1280, 600), f'find-lr: the PNG begins with {head}')
        os.remove(png)
    else:
        check('libcairo2-dev' in call(*options, '-o', png, code=2).stderr, 'find-lr: no PNG, and no word of the package')
    refused = call(*options[:4], '--lr-range', '1,0.1', code=2)
    check('--lr-range' in refused.stderr, refused.stderr)
    call(*options[:4], '--lr', '0.1', code=2)


def options_refused(d):
    for options in ['--swa', '0'], ['--swa', '1.5'], ['--swa', '2:per=step'], ['--swa', '2:'], ['--swa', '5', '--epochs', '4'], ['--swa', '2', '--ema', '0.9'], \
            ['--lookahead', '0'], ['--lookahead', '5:alpha=2'], ['--lookahead', '5:k=2'], ['--lookahead', '5:']:
        r = call('train', d + '/net.onnx', '--data', d + '/data.npz', '--run-dir', 'none', '-o', d + '/never.onnx', *options, code=2)
        check(options[0] in r.stderr and not os.path.exists(d + '/never.onnx'), r.stderr)


def skipped(d):
    """A skipped update leaves no trace in weights, optimizer states, averages and running statistics: the others alone give the same file."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((12, 2, 4, 4)).astype(np.float32), rng.standard_normal((12, 5)).astype(np.float32)
    good = np.r_[0:4, 8:12]
    np.savez(d + '/good.npz', x=x[good], target=y[good])
    far_x, far_y = x.copy(), y.copy()
    far_x[5], far_y[5] = np.where(rng.random((2, 4, 4)) < .5, -3e38, 3e38), 3e38
    for name, arrays in ('inputs', (far_x, y)), ('targets', (x, far_y)):
        np.savez(d + '/bad.npz', x=arrays[0], target=arrays[1])
        for options in [], ['--ema', '0.5']:
            ends = []
            for data, steps in ('good', 4), ('bad', 6):
                call('train', d + '/net.onnx', '--data', f'{d}/{data}.npz', '--loss', 'mse', '--no-shuffle', '--batch-size', '4', '--steps', str(steps), '--on-nonfinite', 'skip',
                     '--optimizer', 'adam:lr=0.01', '--run-dir', 'none', '--threads', '1', '-o', f'{d}/{data}.onnx', *options)
                ends.append(read(f'{d}/{data}.onnx'))
            differ = [n for n in SHAPES if not np.array_equal(ends[0][n], ends[1][n])]
            check(not differ, f'skipped updates, very large {name}, {options}: {differ} differ')
    np.savez(d + '/bad.npz', x=far_x, target=y)
    call('train', d + '/net.onnx', '--data', d + '/bad.npz', '--loss', 'mse', '--no-shuffle', '--batch-size', '4', '--steps', '3', '--accumulate', '2', '--on-nonfinite', 'skip',
         '--run-dir', 'none', '-o', d + '/some.onnx')
    end = read(d + '/some.onnx')
    check(all(np.isfinite(end[n]).all() and not np.array_equal(end[n], START[n]) for n in STATISTICS), f'several batches for an update: {[end[n] for n in STATISTICS]}')


with tempfile.TemporaryDirectory() as d:
    onnx.save(onnx_model(START), d + '/net.onnx')
    np.savez(d + '/data.npz', x=X, target=np.array(ALL['y'], np.int64))
    for case in ALL['cases']:
        if len(sys.argv) < 3 or sys.argv[2] in case['name']:
            (look_for_rate if 'rates' in case else follow)(case, d)
    options_refused(d)
    skipped(d)
finish('figures')
