"""--profile: the times of the nodes add up to the update's, operations are those of the shapes, every file can be read, and the
weights are those of a run without it.

usage: test_profile.py PROGRAM
"""
import csv
import json
import os
import tempfile

from scripts import call, check, finish, np, program

lenet = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'models', 'lenet.onnx')
os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
np.savez('d.npz', input=rng.standard_normal((200, 1, 28, 28)).astype('f4'), target=rng.integers(0, 10, 200))
train = ['train', lenet, '--data', 'd.npz', '--batch-size', '32', '--threads', '1', '--device', 'cpu', '--seed', '3']
B = 32


# sanitizers slow some loops and not others: the sum of two arrays is no ceiling there
most = 1.5 if b'__asan_init' not in open(program, 'rb').read() else 15


def load(run):
    with open(run + '/profile.json') as f:
        return json.load(f)


def untimely(p, folder):
    """What is wrong with the times, if anything: the nodes are most of an update and never more; caches move bytes faster than memory does, but
    not faster than what was measured there; the trace is as long as an update."""
    total = sum(n['ms'] for n in p['nodes'])
    if not 0.75 * p['update_ms'] < total <= 1.001 * p['update_ms']:
        return f"nodes {total:.3f} ms of {p['update_ms']:.3f} per update"
    beyond = [(n['node'], n['share_of_ceiling']) for n in p['nodes'] if not 0 <= n['share_of_ceiling'] < most]
    if beyond:
        return f'beyond the ceilings: {beyond}'
    with open(folder + '/trace.json') as f:
        end = max(e['ts'] + e['dur'] for e in json.load(f)['traceEvents']) / 1e3
    if not 0.2 * p['update_ms'] < end < 5 * p['update_ms']:
        return f"the trace is {end} ms long, an update {p['update_ms']}"
    return None


def in_time(p, folder, *options):
    """The times are right; a busy machine is measured again."""
    problem = untimely(p, folder)
    for again in range(20):
        if not problem:
            break
        call(*train, *options, '--run-dir', 'again', '-o', 'again.onnx')
        problem = untimely(load('again'), 'again')
    check(not problem, problem)


# two epochs of 7 updates, the last of each with a short batch, which is not measured
r = call(*train, '--epochs', '2', '--profile=6', '--run-dir', 'a', '-o', 'a.onnx')
call(*train, '--epochs', '2', '--run-dir', 'b', '-o', 'b.onnx')
check(open('a.onnx', 'rb').read() == open('b.onnx', 'rb').read(), 'a profile changes the weights')
check(not os.path.exists('b/profile.json'), 'a profile without --profile')
check('profile of 6 updates:' in r.stderr and 'measured ceilings' in r.stderr, r.stderr)
p = load('a')
rows = {n['node']: n for n in p['nodes']}
check(p['updates'] == 6 and p['batch_size'] == B and p['device'] == 'cpu', p)
total = sum(n['ms'] for n in p['nodes'])
check(abs(total - p['kernels_ms']) < 1e-6 * total, f"{total} {p['kernels_ms']}")
for n in p['nodes']:
    check(abs(n['ms'] - n['forward_ms'] - n['backward_ms'] - n['update_ms']) < 1e-6, n)
check([n['ms'] for n in p['nodes']] == sorted((n['ms'] for n in p['nodes']), reverse=True), 'not by time')
check(p['ceiling_flops_per_second'] > 1e8 and p['ceiling_bytes_per_second'] > 1e8, p)
check(p['ceiling_cached_bytes_per_second'] >= p['ceiling_bytes_per_second'], p)
in_time(p, 'a', '--epochs', '2', '--profile=6')
for name, parts in (('conv1', ('forward', 'backward', 'update')), ('conv2', ('forward', 'backward', 'update')), ('pool1', ('forward', 'backward')),
                    ('fc1', ('forward', 'backward', 'update')), ('(loss)', ('backward',))):
    for part in parts:
        check(rows[name][part + '_ms'] > 0, f'{name} {part}: {rows[name]}')
check(rows['conv2']['operator'] == 'Conv' and 'Convolve' in rows['conv2']['kernels'] and rows['fc1']['operator'] == 'Gemm', rows)

# conv2: 20 -> 50 channels of 5 x 5 on 8 x 8, three products of the same size; a little for bias and update
product = 2 * B * 50 * 8 * 8 * 20 * 25
check(3 * product < rows['conv2']['flops'] < 3.1 * product, f"{rows['conv2']['flops']} of {3 * product}")
product = 2 * B * 800 * 500
check(3 * product < rows['fc1']['flops'] < 3.8 * product, f"{rows['fc1']['flops']} of {3 * product}")

with open('a/profile.csv') as f:
    table = list(csv.DictReader(f))
check([t['node'] for t in table] == [n['node'] for n in p['nodes']], 'the CSV has other nodes')
check(all(abs(float(t['ms']) - n['ms']) < 1e-4 * (1 + n['ms']) for t, n in zip(table, p['nodes'])), 'the CSV has other times')
with open('a/trace.json') as f:
    events = json.load(f)['traceEvents']
check({e['cat'] for e in events} == {'forward', 'backward', 'update'} and {e['name'] for e in events} <= set(rows), 'the trace has other names')
check(all(e['ph'] == 'X' and e['dur'] >= 0 for e in events), 'a trace event without a duration')
check([e['ts'] for e in events] == sorted(e['ts'] for e in events), 'the trace is not in order')

call('report', 'a')
page = open('a/report.html').read()
check('<h2>Profile</h2>' in page and '<td style="text-align:left">conv2</td>' in page, 'the report has no profile')
call('report', 'b')
check('<h2>Profile</h2>' not in open('b/report.html').read(), 'a profile in the report of a run without one')

# several batches per update: operations of all of them
call(*train, '--epochs', '1', '--accumulate', '2', '--profile=2', '--run-dir', 'c', '-o', 'c.onnx')
q = load('c')
conv2 = {n['node']: n for n in q['nodes']}['conv2']
check(1.9 < conv2['flops'] / rows['conv2']['flops'] < 2.1 and q['accumulate'] == 2, conv2)
in_time(q, 'c', '--epochs', '1', '--accumulate', '2', '--profile=2')

# fewer updates than asked for; no folder; none that could be measured; values that are no number
r = call(*train, '--steps', '2', '--profile', '--run-dir', 'none', '-o', 'd.onnx')
check('profile of 2 updates:' in r.stderr and 'trace.json' not in r.stderr, r.stderr)
r = call(*train, '--epochs', '1', '--batch-size', '300', '--profile', '--run-dir', 'none', '-o', 'd.onnx')
check('profile of 1 update:' in r.stderr, r.stderr)
for wrong in ('0', 'x', '1.5', '-1'):
    r = call(*train, '--steps', '2', '--profile=' + wrong, '--run-dir', 'none', '-o', 'd.onnx', code=2)
    check('--profile' in r.stderr, r.stderr)
finish('checks of profiles')
