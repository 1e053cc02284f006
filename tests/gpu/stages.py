"""What must be right on the device: operators, bytes, trajectories, memory accesses, failures."""
import concurrent.futures
import hashlib
import json
import os
import re
import signal
import sys
import tarfile
import tempfile

import speed
from record import Late, pieces, summary

# The operators whose rows reach the kernels of libraries, and the largest of our own, come first.
FIRST = ['MatMul', 'Conv', 'BatchNormalization', 'Attention', 'Gemm', 'ConvTranspose', 'LayerNormalization', 'RMSNormalization',
         'SoftmaxCrossEntropyLoss', 'Softmax', 'MaxPool', 'AveragePool', 'Gather', 'ScatterND', 'ReduceSum', 'Transpose', 'Concat', 'Add',
         'Gelu', 'Relu', 'Cast', 'Einsum', 'LSTM', 'GRU', 'TopK', 'CumSum', 'Resize']
# Operators whose rows take minutes are run in so many parts at once.
PARTS = {'Conv': 8, 'ConvTranspose': 4, 'LSTM': 4, 'GRU': 4, 'RNN': 3, 'MatMul': 3, 'BatchNormalization': 3, 'Gemm': 2, 'Attention': 2,
         'MaxPool': 2, 'AveragePool': 2}
NO_ROWS = {'Optional', 'Gradient'}  # neither has a type and shape of its own: tests/sequences and tests/technique have models
LIBRARY_OF = {'MatMul': 'cublaslt', 'Conv': 'cudnn', 'BatchNormalization': 'cudnn'}  # whose rows it must have run

SANITIZED = ['Attention', 'MatMul', 'Conv', 'ConvTranspose', 'BatchNormalization', 'LayerNormalization', 'SoftmaxCrossEntropyLoss', 'Gather',
             'ScatterND', 'ReduceSum', 'TopK', 'CumSum']


def ended(code):
    return f'ended by {signal.Signals(-code).name}' if code < 0 else f'exit {code}'


def parallel(r, names, one, workers):
    """pieces() with several at a time; one(name) is (piece, how it is made)."""
    def run(name):
        try:
            return name, r.get(*one(name))
        except Late:
            return name, None
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        all_found = dict(pool.map(run, names))
    found = {k: v for k, v in all_found.items() if v is not None}
    return found, [k for k, v in all_found.items() if v is None]


def cases(m, r, stage, names, command, said, env=None):
    """Cases of a test in Python, a process each, several at a time: command(name) is the script with its arguments, which says `said`
    if the case passed."""
    def one(name):
        def run():
            m.need(5)
            code, text = m.call(sys.executable, *command(name), env=env)
            good = not code and said in text
            return {'ok': good, 'text': text[-600:], **({} if good else {'why': f"{ended(code)}: {(text.strip().splitlines() or ['no word'])[0]}"})}
        return f'{stage}/{name}', run

    found, late = parallel(r, names, one, m.workers)
    return summary(found, late, len(names))


# ---- operators ----------------------------------------------------------------------

def expected_operators(m):
    code, text = m.call(m.program, 'ops', '--json')
    if code:
        raise RuntimeError(f"'onnxtrain ops': {ended(code)}: {text[-300:]}")
    listed = [o for o in json.loads(text)['operators'] if not o['internal'] and o['gradient'] != 'rewritten']  # those are others, when read
    names = {o['name'] for o in listed} - NO_ROWS  # one that several domains have counts once
    return sorted(names, key=lambda n: (FIRST.index(n) if n in FIRST else len(FIRST), n))


def read_rows(code, text):
    """What a run of test_ops says; one that says nothing has failed."""
    counts = re.search(r'^(\d+) rows, (\d+) failed; (\d+) kernel runs', text, re.M)
    rows, failed, kernels = map(int, counts.groups()) if counts else (0, 0, 0)
    whose = re.search(r'^kernels:((?: \S+ \d+)*)$', text, re.M)
    words = whose[1].split() if whose else []
    libraries = {k: int(n) for k, n in zip(words[::2], words[1::2])}
    bad = [line for line in text.splitlines() if line and not re.match(r'\d+ rows,|kernels:', line)]
    bad = bad[:8] + [line for line in bad[8:] if line.startswith('stack:')]
    why = ended(code) if code else 'no summary' if not counts else 'no rows' if not rows else f'{failed} rows failed' if failed else ''
    found = {'ok': not why, 'code': code, 'rows': rows, 'kernels': kernels, 'libraries': libraries}
    return found if not why else {**found, 'why': f"{why}{': ' + bad[0] if bad else ''}", 'bad': bad}


def add_up(found):
    libraries = {}
    for v in found.values():
        for k, n in v.get('libraries', {}).items():
            libraries[k] = libraries.get(k, 0) + n
    return {'rows': sum(v.get('rows', 0) for v in found.values()), 'kernels': sum(v.get('kernels', 0) for v in found.values()),
            'libraries': libraries}


def operators(m, r):
    names = expected_operators(m)

    def parts(name):
        return 1 if m.small else PARTS.get(name, 1)

    def one(part):
        name, k = part
        count = parts(name)

        def run():
            m.need(5)
            some = ['--every=8'] if m.small else [f'--every={count}+{k}'] if count > 1 else []  # CTests run all of them on the emulated GPU
            return read_rows(*m.call(m.ops, *some, '--cuda', f'{name}.'))
        return f'operators/{name}' + (f'/{k}' if count > 1 else ''), run

    pieces_found, late = parallel(r, [(name, k) for name in names for k in range(parts(name))], one, m.workers)
    late = sorted({name for name, _ in late})
    found = {name: whole([pieces_found[name, k] for k in range(parts(name))], LIBRARY_OF.get(name)) for name in names if name not in late}
    return {**summary(found, late, len(names)), **add_up(found)}


def whole(parts, library):
    """An operator's parts as one; `library` must have run some of its kernels."""
    bad = next((p for p in parts if not p['ok']), {})
    found = {**add_up(dict(enumerate(parts))), 'ok': not bad, **{k: bad[k] for k in ('why', 'bad', 'code') if k in bad}}
    if found['ok'] and library and not found['libraries'].get(library):
        found.update(ok=False, why=f'no kernel of {library} ran')
    return found


# ---- joined operators ----------------------------------------------------------------------

def joined(m, r):
    """Operators that libraries compute with the Map before or after them: each case of tests/cuda/test_epilogues.py, a process each."""
    script, env = f'{m.root}/tests/cuda/test_epilogues.py', {'PYTHONPATH': f'{m.root}/tests'}
    code, text = m.call(sys.executable, script, m.program, 'cuda', '--list', env=env)
    if code or not text.split():
        raise RuntimeError(f'the list of cases: {ended(code)}: {text[-300:]}')
    names = text.split()

    return cases(m, r, 'joined', names, lambda name: (script, m.program, 'cuda', '--real', f'--only={name}'), ', 0 failed', env)


# ---- the same bytes twice ----------------------------------------------------------------

def same_bytes(m, r):
    """Training with the same seed gives the same bytes, whatever the order in which blocks ended."""
    def one(name):
        m.need(10)
        w = speed.workloads(m.small)[name]
        precision, steps = ('fp32', 50) if name == 'lenet' else ('bf16', 20)
        with tempfile.TemporaryDirectory() as folder:
            speed.prepare(m, folder, w)
            hashes = []
            for _ in range(2):
                code, text, log, out = m.train(folder, f'{folder}/m.onnx', f'{folder}/d.npz', *speed.options(w, precision),
                                               '--steps', str(3 if m.small else steps), '--no-shuffle', timeout=240)
                if code:
                    return {'ok': False, 'why': f'train: {ended(code)}', 'text': text[-1500:]}
                hashes.append(hashlib.sha256(open(out, 'rb').read()).hexdigest())
            memory = {k: log[-1].get(k) for k in ('planned_bytes', 'peak_bytes', 'seconds')}
        same = hashes[0] == hashes[1]
        return {'ok': same, 'why': '' if same else 'two runs with one seed give different weights', 'steps': steps, **memory}

    return pieces(r, 'same_bytes', ['resnet18', 'gpt2', 'lenet'], one)


# ---- trajectories -------------------------------------------------------------------

def trajectories(m, r):
    """Each case of tests/trajectories, a process each, several at a time."""
    folder = f'{m.work}/cases'
    if not os.path.isdir(folder):
        with tarfile.open(f'{m.root}/tests/trajectories/cases.tar.xz') as archive:
            archive.extractall(folder, filter='data')
    names = sorted(os.listdir(folder))

    script = f'{m.root}/tests/trajectories/test_follow.py'
    return cases(m, r, 'trajectories', names,
                 lambda name: (script, m.program, '--device', m.device, '-v', '--cases', folder, '--only', f'={name}'), 'trajectories: 1 of 1')


# ---- MNIST ---------------------------------------------------------------------------

def mnist(m, r):
    def one(_):
        m.need(10)
        with tempfile.TemporaryDirectory() as folder:
            code, text, log, _ = m.train(folder, f'{m.root}/models/lenet.onnx', 'mnist', *(['--steps', '3'] if m.small else []))
        if code or not log or log[-1]['event'] != 'end':
            return {'ok': False, 'why': f'train: {ended(code)}', 'text': text[-1500:]}
        end, accuracy = log[-1], [e['accuracy'] for e in log if e['event'] == 'eval']
        found = {k: end[k] for k in ('seconds', 'samples_per_second', 'planned_bytes', 'peak_bytes')}
        why = f'accuracy {accuracy}' if not m.small and not (accuracy and accuracy[-1] >= 0.99) else \
            'more memory than planned' if found['peak_bytes'] > found['planned_bytes'] * 1.05 else ''
        return {'ok': not why, 'why': why, 'accuracy': accuracy, **found}
    return pieces(r, 'mnist', ['lenet'], one)


# ---- memory accesses -------------------------------------------------------------------

def sanitizer_program():
    for folder in os.environ.get('PATH', '').split(':') + ['/usr/local/cuda/bin', '/usr/local/cuda/compute-sanitizer']:
        if os.access(f'{folder}/compute-sanitizer', os.X_OK):
            return f'{folder}/compute-sanitizer'
    return None


def sanitizer(m, r):
    program = sanitizer_program()
    if not program:
        return {'ok': False, 'error': 'compute-sanitizer is not on the PATH', 'run': 0, 'expected': 2 * len(SANITIZED)}

    def one(name):
        tool, operator = name.split('/')

        def run():
            m.need(10)
            code, text = m.call(program, '--tool', tool, '--error-exitcode', '86', '--target-processes', 'all', m.ops, '--every=8', '--cuda', f'{operator}.')
            lines = [line.strip('= ') for line in text.splitlines() if line.startswith('=====')]
            last = re.search(r'(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)', text)
            found = read_rows(code, '\n'.join(line for line in text.splitlines() if not line.startswith('=====')))
            if found['ok'] and not last:
                found.update(ok=False, why='no summary of the tool')
            return {**found, **({} if found['ok'] else {'bad': lines[:12] or found.get('bad', [])})}
        return f'sanitizer/{name}', run

    names = [f'{tool}/{operator}' for operator in SANITIZED for tool in ('memcheck', 'racecheck')]
    found, late = parallel(r, names, one, min(4, m.workers))
    return summary(found, late, len(names))


# ---- what must fail cleanly ------------------------------------------------------------

def failures(m, r):
    def large(folder, model):
        return m.train(folder, model, 'mnist', '--batch-size', '64' if m.small else '60000', '--steps', '1')[:2]

    def out_of_memory(folder, model):
        import numpy as np
        m.call(m.program, 'new', 'resnet50', '-o', f'{folder}/r.onnx', '-q')
        np.savez(f'{folder}/d.npz', input=np.zeros((8, 3, 224, 224), np.uint8), target=np.zeros(8, np.int64))
        return m.train(folder, f'{folder}/r.onnx', f'{folder}/d.npz', '--batch-size', '20000', '--no-shuffle', '--steps', '1')[:2]

    def no_device(folder, model):
        return m.train(folder, model, 'mnist', '--device', 'cuda:99', '--steps', '1')[:2]

    def no_module(folder, model):
        return m.train(folder, model, 'mnist', '--steps', '1', env={'OTHER_ONNXTRAIN_CUDA_MODULE': f'{folder}/none.so'})[:2]

    def no_module_auto(folder, model):
        return m.train(folder, model, 'mnist', '--device', 'auto', '--steps', '2',
                       env={'OTHER_ONNXTRAIN_CUDA_MODULE': f'{folder}/none.so'})[:2]

    # An index out of range is found by the device: exit 4 that names the node, and the device works on.
    def bad_index(folder, model):
        import numpy as np
        m.call(m.program, 'new', 'gpt2', '--layers', '1', '--input', '8', '--classes', '50', '-o', f'{folder}/g.onnx', '-q')
        x = np.full((4, 8), 7)
        x[2, 3] = 50
        np.savez(f'{folder}/d.npz', input=x, target=np.ones((4, 8), np.int64))
        return m.train(folder, f'{folder}/g.onnx', f'{folder}/d.npz', '--loss', 'cross_entropy:class_axis=-1', '--steps', '2',
                       '--batch-size', '4', '--no-shuffle')[:2]

    # A rate at which nothing converges: the non-finite loss ends the run.
    def diverges(folder, model):
        return m.train(folder, model, 'mnist', '--optimizer', 'sgd', '--lr', '1e30', '--steps', '20')[:2]

    want = {'large batch': (large, 0), 'out of memory': (out_of_memory, 5), 'no such device': (no_device, 9), 'no module': (no_module, 9),
            'no module, auto': (no_module_auto, 0), 'index out of range': (bad_index, 4), 'diverges': (diverges, 6)}

    def one(name):
        m.need(5)
        run, code = want[name]
        with tempfile.TemporaryDirectory() as folder:
            got, text = run(folder, f'{m.root}/models/lenet.onnx')
        return {'ok': got == code, 'why': '' if got == code else f'{ended(got)}, should be exit {code}: {text.strip()[-300:]}'}

    return pieces(r, 'failures', list(want), one)
