"""Run folders that others have changed: logs, evaluations and checkpoints with what no training writes.  Each is refused with its
name, or shown without what is wrong; nothing hangs, and nothing of a file controls a terminal.

usage: test_forged.py PROGRAM
"""
import io
import json
import os
import shutil
import subprocess
import tempfile
import zipfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, program

STEP = 'checkpoint-%09d.npz'


def make():
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.standard_normal((4, 3)).astype(np.float32), 'w')]
    g = h.make_graph([h.make_node('MatMul', ['x', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 4])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['N', 3])], weights)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
    np.savez('d.npz', x=rng.standard_normal((40, 4)).astype(np.float32), target=rng.integers(0, 3, 40))


def copy(of='run', to='f'):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(of, to)


def read(path):
    with np.load(path) as z:
        return dict(z)


def write(path, arrays):
    with zipfile.ZipFile(path, 'w') as z:
        for name, a in arrays.items():
            b = io.BytesIO()
            np.lib.format.write_array(b, np.asarray(a))
            z.writestr(name + '.npy', b.getvalue())


def ends(code, text, *arguments, seconds=20):
    """The call ends in time, with the code, and says the text."""
    what = ' '.join(arguments)
    try:
        r = subprocess.run([program, *arguments], capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        check(False, f'{what}: not over after {seconds} s')
        return b''
    check(r.returncode == code, f'{what}: exit {r.returncode}, not {code}: {r.stderr[-400:]}')
    check(text.encode() in r.stderr + r.stdout, f'{what}: does not say {text}: {r.stderr[-400:]}')
    check(b'\x1b' not in r.stderr + r.stdout, f'{what}: an escape sequence')
    return r.stdout


def append(name, *lines):
    with open('f/' + name, 'a') as f:
        f.writelines(line if isinstance(line, str) else json.dumps(line) + '\n' for line in lines)


os.chdir(tempfile.mkdtemp())
make()
train = ['m.onnx', '--data', 'd.npz', '--val', 'd.npz', '--batch-size', '10', '--threads', '1', '-o', 'o.onnx', '--quiet']
call(*train, '--epochs', '2', '--run-dir', 'run', '--select', 'best')

# ---- log.jsonl that is none
for kind in 'fifo', 'urandom', 'zero', 'other', 'line':
    copy()
    os.remove('f/log.jsonl')
    if kind == 'fifo':
        os.mkfifo('f/log.jsonl')
    elif kind in ('urandom', 'zero'):
        os.symlink('/dev/' + kind, 'f/log.jsonl')
    else:
        append('log.jsonl', 'a' * (1 << 21) if kind == 'line' else '{"a":1}\nnotes\n')
    ends(7, 'f/log.jsonl: is not', 'report', 'f')
    ends(7, 'f/log.jsonl: is not', 'compare', 'run', 'f')
    ends(7 if kind == 'fifo' else 2, 'f/log.jsonl', 'resume', 'f', '--epochs', '3')

# ---- lines of it
copy()
append('log.jsonl', {'event': 'end', 'reason': '\x1b[31mred', 'steps': '\x1b]0;t\x07', 'best': 'a\nb', 'seconds': {'\x1b': 1}})
ends(0, '\\x1b[31mred', 'compare', 'run', 'f')
ends(0, 'report.html', 'report', 'f')
with open('f/report.html', 'rb') as f:
    check(b'\x1b' not in f.read(), 'an escape sequence in the report')
copy()
append('log.jsonl', *({'event': 'eval', 'epoch': 200000 - i, 'step': i, 'split': 'val', 'loss': 1} for i in range(60000)))
ends(0, 'report.html', 'report', 'f')
copy()
append('log.jsonl', {'event': 'eval', 'epoch': 3, 'step': 9, 'split': 'val', **{f'n{i}': i for i in range(60000)}})
ends(0, 'report.html', 'report', 'f')

# ---- evaluation.json
for n, matrix in (60000, [0] * 60000), (3, [[1 << 62] * 3] * 3), (2, [[-1, 5], [1, 2]]), (2, [[1, 2], [1]]):
    copy()
    with open('run/evaluation.json') as f:
        e = json.load(f)
    with open('f/evaluation.json', 'w') as f:
        json.dump({**e, 'confusion': matrix, 'classes': ['\x1b[31m"<&'] * n}, f)
    ends(0, 'report.html', 'report', 'f', '--plots')
for step, loss in ((1 << 63) - 1, 5e-324), (-(1 << 63), 1e308), (1 << 52, -1e308):
    copy()
    append('log.jsonl', *({'event': kind, 'step': step, 'epoch': step, 'split': 'val', 'loss': loss, 'lr': loss} for kind in ('step', 'eval')))
    ends(0, 'report.html', 'report', 'f', '--plots')
for text in '[' * 100000, '{"a":' * 100000, '{"step":1e400}', '{"step":1,"step":2}', '':
    copy()
    with open('f/evaluation.json', 'w') as f:
        f.write(text)
    ends(0, 'report.html', 'report', 'f')

# ---- checkpoints
good = read('run/' + STEP % 8)
for key, value in [(k, v) for k in ('step', 'epoch', 'samples', 'overflows', 'epoch_counted', 'skipped', 'uncounted', 'schedule_bad',
                                    'schedule_cooldown', 'best_epoch', 'best_stale') for v in (-1, -1 << 63, (1 << 63) - 1)]:
    copy()
    write('f/' + STEP % 8, {**good, key: np.int64(value)})
    ends(7, 'counters that do not fit', 'resume', 'f', '--epochs', '3', '--quiet')
pairs = bytes(good['run']).split(b'\0')[:-1]


def forge(key, value=None):
    """The newest checkpoint with another text, or without it."""
    changed = [(k, v if k != key else value) for k, v in zip(pairs[::2], pairs[1::2]) if k != key or value is not None]
    copy()
    write('f/' + STEP % 8, {**good, 'run': np.frombuffer(b''.join(k + b'\0' + v + b'\0' for k, v in changed), np.uint8)})


for key in b'model', b'out', b'--data', b'format':
    forge(key)
    ends(7, 'f/' + STEP % 8, 'resume', 'f', '--epochs', '3', '--quiet')
    ends(7, 'f/' + STEP % 8, 'eval', 'f', '--select', 'last')
forge(b'best metric')
ends(7, 'f/' + STEP % 8, 'resume', 'f', '--epochs', '3', '--quiet')
forge(b'best metric', b'\x1b[31mval accuracy')
ends(0, '', 'resume', 'f', '--epochs', '3')
copy()
os.remove('f/' + STEP % 8)
with open('f/options.conf') as f:
    text = f.read()
with open('f/options.conf', 'w') as f:
    f.writelines(line + '\n' for line in text.split('\n') if not line.startswith('data'))
ends(2, '--data is missing', 'eval', 'f')

# More of them than are listed: the newest are.
copy()
for i in range(5000):
    open('f/' + STEP % (100 + i), 'w').close()
os.rename('f/' + STEP % 8, 'f/' + STEP % 900000000)
ends(0, 'of 12 updates done', 'resume', 'f', '--epochs', '3')

# ---- a series that begins says nothing of earlier trainings; one whose training was killed before its first checkpoint does
sweep = ['sweep', *train[:-3], '--epochs', '1', '--grid', 'lr=0.1,0.2', '--run-dir', 's', '--quiet']
r = call(*sweep)
check('starts from its beginning' not in r.stderr, f'a new sweep: {r.stderr}')
os.remove('s/run-2/' + STEP % 4)
with open('s/run-2/log.jsonl') as f:
    lines = f.readlines()
with open('s/run-2/log.jsonl', 'w') as f:
    f.writelines(lines[:2])
r = call('resume', 's')
check('starts from its beginning: s/run-2: has no checkpoint' in r.stderr, f'a sweep that goes on: {r.stderr}')

# ---- a folder without a run: its files are somebody's
for name in 'options.conf', 'log.jsonl', 'best.onnx', 'epochs.csv', 'report.html', 'evaluation.json', 'profile.csv', 'trace.json', 'folds.csv', 'sweep.csv':
    for command in train, ['sweep', *train, '--grid', 'lr=0.1,0.2'], [*train, '--folds', '2']:
        shutil.rmtree('own', ignore_errors=True)
        os.mkdir('own')
        with open('own/' + name, 'w') as f:
            f.write('precious')
        command = [c for c in command if command is train or c not in ('-o', 'o.onnx')]
        if '--folds' in command:
            at = command.index('--val')
            command = command[:at] + command[at + 2:]
        ends(2, name, *command, '--epochs', '1', '--run-dir', 'own')
        check(os.listdir('own') == [name] and open('own/' + name).read() == 'precious', f'own/{name} is lost: {os.listdir("own")}')

finish('cases')
