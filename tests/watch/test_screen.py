"""What a run shows: on terminals of 60 and 200 columns a bar within the width and a row per epoch, elsewhere lines without
control characters; and epochs.csv, which has the log's numbers, across a resume too.

usage: test_screen.py PROGRAM
"""
import csv
import fcntl
import json
import math
import os
import pty
import re
import struct
import tempfile
import termios

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, program


def make():
    rng = np.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / 3).astype(np.float32), name)

    def save(path, nodes, x, weights):
        g = h.make_graph(nodes, 'g', [x], [h.make_tensor_value_info('y', T.FLOAT, ['N', 3])], weights)
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)

    save('m.onnx', [h.make_node('Gemm', ['x', 'w', 'b'], ['y'])], h.make_tensor_value_info('x', T.FLOAT, ['N', 4]), [weight('w', 4, 3), weight('b', 3)])
    save('tokens.onnx', [h.make_node('Gather', ['e', 'x'], ['r']), h.make_node('ReduceMean', ['r'], ['m'], axes=[1], keepdims=0), h.make_node('Gemm', ['m', 'w', 'b'], ['y'])],
         h.make_tensor_value_info('x', T.INT64, ['N', 7]), [weight('e', 20, 4), weight('w', 4, 3), weight('b', 3)])
    np.savez('d.npz', x=rng.standard_normal((2000, 4)).astype(np.float32), target=rng.integers(0, 3, 2000))
    np.savez('tokens.npz', x=rng.integers(0, 20, (500, 7)), target=rng.integers(0, 3, 500))
    save('columns.onnx', [h.make_node('Gather', ['x', 'first'], ['c'], axis=1), h.make_node('Gather', ['e', 'c'], ['r']), h.make_node('Gemm', ['r', 'w', 'b'], ['y'])],
         h.make_tensor_value_info('x', T.INT64, ['N', 7]), [numpy_helper.from_array(np.int64(0), 'first'), weight('e', 20, 4), weight('w', 4, 3), weight('b', 3)])


def terminal(columns, *arguments, **environment):
    """What the program writes to a terminal of that width."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    pid = os.fork()
    if not pid:
        os.close(own)
        for fd in 0, 1, 2:
            os.dup2(its, fd)
        os.execvpe(program, [program, *arguments], {**os.environ, 'TERM': 'xterm', 'OMP_WAIT_POLICY': 'passive', **environment})
    os.close(its)
    out = b''
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:
            part = b''
        if not part:
            break
        out += part
    os.close(own)
    check(os.waitpid(pid, 0)[1] == 0, f'{columns} columns: {out[-300:]}')
    return out.decode().replace('\r\n', '\n')


def log(run):
    with open(run + '/log.jsonl') as f:
        return [json.loads(line) for line in f]


def compare_csv(run, epochs):
    """epochs.csv against the log."""
    with open(run + '/epochs.csv', newline='') as f:
        rows = list(csv.DictReader(f))
    lines = log(run)
    check([r['epoch'] for r in rows] == [str(i + 1) for i in range(epochs)], f'{run}: epochs {[r["epoch"] for r in rows]}')
    for r in rows:
        steps = [e for e in lines if e['event'] == 'step' and str(e['epoch']) == r['epoch']]
        evals = [e for e in lines if e['event'] == 'eval' and str(e['epoch']) == r['epoch']]
        mean = sum(e['loss'] for e in steps) / len(steps)
        check(math.isclose(float(r['train_loss']), mean, rel_tol=1e-6), f'{run}: train_loss {r["train_loss"]}, the log has {mean}')
        check(r['step'] == str(steps[-1]['step']) and float(r['lr']) == steps[-1]['lr'], f'{run}: {r}')
        check(math.isclose(float(r['seconds']), steps[-1]['seconds'], rel_tol=1e-6), f'{run}: seconds {r["seconds"]}')
        for e in evals:
            for key in 'loss', 'accuracy':
                check(math.isclose(float(r[f'{e["split"]}_{key}']), e[key], rel_tol=1e-6), f'{run}: {key} is {r}, the log has {e}')
    return rows


os.chdir(tempfile.mkdtemp())
make()
data = ['m.onnx', '--data', 'd.npz', '--val', 'd.npz', '--epochs', '3', '--batch-size', '4', '--threads', '1', '-o', 'o.onnx']
for columns in 60, 200:
    run = f'run{columns}'
    out = terminal(columns, *data, '--run-dir', run)
    shown = [re.sub(r'\x1b\[[0-9;]*m', '', part) for line in out.split('\n') for part in line.split('\r\x1b[K')]
    bars = [s for s in shown if re.match(r'(epoch \d/3|evaluating)  \[', s)]
    check(bars and all(len(s) < columns for s in bars), f'{columns} columns: bars {bars[:3]}')
    check(all(re.search(r'\[[=> ]+\] +\d+ %', s) for s in bars), f'{columns} columns: bars {bars[:3]}')
    if columns == 200:
        check(all(re.search(r'loss \S+  .*left  .*samples/s  \d+ MB$', s) for s in bars if s.startswith('epoch') and 'left' in s), f'200 columns: {bars[:3]}')
    rows = [re.match(r' +(\d)/3 +0\.001 +([\d.]+) +([\d.]+) +([\d.]+) % +[\d.]+s( \*)?$', s) for s in shown]
    rows = [r for r in rows if r]
    evals = [e for e in log(run) if e['event'] == 'eval']
    check([float(f'{e["loss"]:.4g}') for e in evals] == [float(r[3]) for r in rows], f'{columns} columns: rows {[r[0] for r in rows]}')
    best = [e['accuracy'] > max([-1] + [f['accuracy'] for f in evals[:i]]) for i, e in enumerate(evals)]
    check([bool(r[5]) for r in rows] == best, f'{columns} columns: best {[r[0] for r in rows]}, the log has {best}')
    check(sum('train loss' in s for s in shown) == 1 and 'val loss' in out, f'{columns} columns: the head of the table')
    check('\x1b[32m' in out, f'{columns} columns: the best is not marked in colour')
compare_csv('run60', 3)

out = terminal(80, *data, '--run-dir', 'none', NO_COLOR='1')
check(' *' in out and not re.search(r'\x1b\[[0-9;]*m', out), 'NO_COLOR: there is colour')
out = terminal(80, *data, '--run-dir', 'none', TERM='dumb')
check('\x1b' not in out and 'epoch 3: val: loss' in out, 'a terminal without control characters gets some')

# the metric of --monitor
out = terminal(80, *data, '--run-dir', 'f1', '--monitor', 'f1', NO_COLOR='1')
shown = [line.split('\r')[-1].replace('\x1b[K', '') for line in out.split('\n')]
f1 = [e['f1'] for e in log('f1') if e['event'] == 'eval']
rows = [re.match(r' +\d/3 +0\.001 +[\d.]+ +[\d.]+ +[\d.]+ % +([\d.]+) +[\d.]+s( \*)?$', s) for s in shown]
check(any('accuracy         f1    time' in s for s in shown) and [r[1] for r in rows if r] == [f'{v:.4g}' for v in f1], f'--monitor f1: {out[-600:]}')
r = call(*data, '--run-dir', 'none', '--monitor', 'f1')
check(re.findall(r'^epoch \d: val: loss .* %, f1 (\S+) \(', r.stderr, re.M) == [f'{v:.5g}' for v in f1], f'piped, --monitor f1: {r.stderr}')

r = call(*data, '--run-dir', 'none', '--log-every', '100')
check('\x1b' not in r.stderr and '\r' not in r.stderr, 'piped: control characters')
said = re.findall(r'^epoch \d/3  step (\d+)/1500', r.stderr, re.M)
check([s for s in said if int(s) % 100 == 0] == [str(100 * i + 100) for i in range(15)], f'--log-every 100: {said}')

r = call('tokens.onnx', '--data', 'tokens.npz', '--epochs', '1', '--threads', '1', '--run-dir', 'none', '-o', 'o.onnx', '--log-every', '8')
check(re.search(r'\d tokens/s', r.stderr), f'tokens: {r.stderr}')
r = call('columns.onnx', '--data', 'tokens.npz', '--epochs', '1', '--threads', '1', '--run-dir', 'none', '-o', 'o.onnx', '--log-every', '8')
check('tokens/s' not in r.stderr and 'samples/s' in r.stderr, f'categories that have a table each are no tokens: {r.stderr}')

call(*data[:3], '--epochs', '2', '--batch-size', '4', '--threads', '1', '-o', 'o.onnx', '--run-dir', 'again', '-q')
compare_csv('again', 2)
with open('again/epochs.csv', 'a') as f:
    f.write('3,1,2\n4,')  # of a run that went on after its checkpoint and was killed
call('resume', 'again', '--epochs', '4', '-q')
compare_csv('again', 4)
finish('checks')
