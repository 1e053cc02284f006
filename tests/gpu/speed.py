"""How fast the device does it: the networks of `onnxtrain new`, kernel by kernel, and beside PyTorch."""
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import sys
import tempfile
import time

from record import Late, pieces, summary

HERE = os.path.dirname(os.path.abspath(__file__))
JOINED = re.compile(r'^Map\+|\+Map$')  # an operator that is computed with the Map before or behind it
LIBRARY_FLOPS = 7e7  # a product of more operations is cuBLASLt's, smaller ones may be ours


def workloads(small):
    """kind: arguments of `new`, class of peers.py, batch, shape of a sample (tokens: a number), classes, optimizer, precisions: the
    first of `networks`, all others of `precisions`.  small: the same kinds for a device that is only emulated."""
    sgd, adamw = 'sgd:lr=0.01,momentum=0.9', 'adamw:lr=1e-4,weight_decay=0.01'
    all_four = ['bf16', 'fp16', 'tf32', 'fp32']
    full = {
        'lenet': (['lenet'], 'LeNet', 64, (1, 28, 28), 10, sgd, ['fp32', 'bf16']),
        'mlp': (['mlp', '--hidden', '512,512'], 'mlp', 128, (784,), 10, sgd, ['fp32', 'bf16']),
        'resnet18': (['resnet18'], 'resnet18', 512, (3, 32, 32), 10, sgd, all_four),
        'resnet50': (['resnet50'], 'resnet50', 256, (3, 224, 224), 1000, sgd, all_four),
        'gpt2': (['gpt2'], 'Gpt2', 8, 1024, 50257, adamw, all_four),
        'bert': (['bert'], 'Bert', 32, 512, 2, adamw, all_four),
    }
    less = {
        'lenet': (['lenet'], 'LeNet', 4, (1, 28, 28), 10, sgd, ['fp32', 'bf16']),
        'mlp': (['mlp', '--hidden', '64,64'], 'mlp', 16, (784,), 10, sgd, ['fp32', 'bf16']),
        'resnet18': (['resnet18', '--scale', '0.125', '--input', '3x8x8'], 'resnet18', 2, (3, 8, 8), 10, sgd, ['bf16', 'fp32']),
        'resnet50': (['resnet50', '--scale', '0.125', '--input', '3x32x32'], 'resnet50', 2, (3, 32, 32), 1000, sgd, ['bf16', 'fp32']),
        'gpt2': (['gpt2', '--layers', '1', '--scale', '0.125', '--input', '16', '--classes', '64'], 'Gpt2', 2, 16, 64, adamw, ['bf16', 'fp32']),
        'bert': (['bert', '--layers', '1', '--scale', '0.125', '--input', '16'], 'Bert', 2, 16, 2, adamw, ['bf16', 'fp32']),
    }
    names = ('new', 'peer', 'batch', 'sample', 'classes', 'optimizer', 'precisions')
    return {k: dict(zip(names, v), kind=k) for k, v in (less if small else full).items()}


def batch_of(w):
    import numpy as np
    rng, batch, classes = np.random.default_rng(0), w['batch'], w['classes']
    if isinstance(w['sample'], tuple):
        return {'input': rng.standard_normal((batch, *w['sample']), np.float32), 'target': rng.integers(0, classes, batch)}
    x = rng.integers(0, min(30000, classes) if w['kind'] == 'gpt2' else 30000, (batch, w['sample']))
    if w['kind'] == 'gpt2':
        return {'input': x, 'target': np.roll(x, -1, 1)}
    return {'input': x, 'attention_mask': np.ones_like(x), 'target': rng.integers(0, classes, batch)}


def prepare(m, folder, w):
    import numpy as np
    code, text = m.call(m.program, 'new', *w['new'], '-o', f'{folder}/m.onnx', '-q')
    if code:
        raise RuntimeError(f"new {w['kind']}: exit {code}: {text[-300:]}")
    np.savez(f'{folder}/d.npz', **batch_of(w))


def options(w, precision):
    loss = 'cross_entropy:class_axis=-1' if w['kind'] == 'gpt2' else 'cross_entropy'
    batch = [] if precision is None else ['--precision', precision]
    return ['--loss', loss, '--optimizer', w['optimizer'], '--bn', 'train', '--batch-size', str(w['batch']), *batch]


# ---- environment -------------------------------------------------------------------

def environment(m, r):
    """Never an old finding: who the record is about."""
    code, text = m.call(m.program, 'env')
    gpu = re.search(r'cuda:0 +([^,\n]+)', text)
    smi = ''
    if shutil.which('nvidia-smi'):
        smi = m.call('nvidia-smi', '--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.sm,power.limit', '--format=csv,noheader')[1]
    found = {'ok': code == 0 and bool(gpu), 'gpu': gpu[1].strip() if gpu else None, 'date': datetime.date.today().isoformat(), 'env': text,
             'smi': smi.strip(), 'build': m.key, 'run': 1, 'expected': 1}
    if m.small:
        return found

    def yard():
        m.need(20)
        code, text = m.call(sys.executable, f'{HERE}/yardsticks.py', timeout=120)
        lines = text.strip().splitlines()
        seen = json.loads(lines[-1]) if not code and lines and lines[-1].startswith('{') else {'error': text[-600:]}
        return {'ok': 'measured' in seen and 'description' in seen, **seen}
    try:
        y = r.get('yardsticks', yard, key='yardsticks')
    except Late:
        return {**found, 'ok': False, 'not_run': ['yardsticks'], 'expected': 2}
    t = y.get('measured', {})
    return {**found, 'ok': found['ok'] and y['ok'], 'run': 2, 'expected': 2, 'peer': f"PyTorch {t.get('torch')}, cuDNN {t.get('cudnn')}",
            'yardsticks': t, 'description': y.get('description'), 'failed': {} if y['ok'] else {'yardsticks': y}}


# ---- networks ----------------------------------------------------------------------------

def expected_shares(m, kind, precision):
    """operator: the share of it that cuDNN computes, by what the real cuDNN planned for a described device."""
    text = open(f'{m.root}/tests/cuda/plans/expected.txt').read()
    line = re.search(rf'^{kind} {precision}:(.*)$', text, re.M)
    return {op: int(a) / int(b) for op, a, b in re.findall(r'(\w+) (\d+)/(\d+)', line[1])} if line else {}


def library_faults(m, w, precision, rows):
    """Where a library that should compute does not: the time would say it, but not why."""
    faults = []
    if m.small and w['kind'] != 'lenet':  # too small for libraries
        return faults
    for op, share in expected_shares(m, w['kind'], precision).items():
        all_of = sum(r['count'] for r in rows if JOINED.sub('', r['operator']) == op)
        taken = sum(r['count'] for r in rows if JOINED.sub('', r['operator']) == op and r['kernel'] == 'cudnn')
        if not all_of or taken / all_of < 0.9 * share:  # single ones that it refuses show in the table
            faults.append(f'cuDNN computes {taken} of {all_of} {op}, expected are {share:.0%}')
    products = [r for r in rows if JOINED.sub('', r['operator']) == 'Dot' and r['flops'] / r['count'] >= LIBRARY_FLOPS]
    others = sum(r['count'] for r in products if r['kernel'] != 'cublaslt')
    if others:
        faults.append(f"cuBLASLt does not compute {others} of {sum(r['count'] for r in products)} large products")
    return faults


def network(m, kind, precision, *more):
    w = workloads(m.small)[kind]
    m.need(8)
    with tempfile.TemporaryDirectory() as folder:
        prepare(m, folder, w)
        given = [o for o in options(w, precision)]
        at = given.index('--batch-size')
        del given[at:at + 2]
        code, text = m.call(m.program, 'bench', f'{folder}/m.onnx', '--data', f'{folder}/d.npz', '--device', m.device, *given, '--batch-sizes',
                            str(w['batch']), '--kernels', '--json', '-q', *(['--steps', '2'] if m.small else []), *more, timeout=300)
    if code:
        return {'ok': False, 'why': f'bench: exit {code}: {text.strip()[-400:]}'}
    b = json.loads(text[text.index('{'):])['measurements'][0]
    k = b['kernels']
    libraries = {}
    for row in k['rows']:
        libraries[row['kernel']] = libraries.get(row['kernel'], 0) + row['count']
    faults = [] if more else library_faults(m, w, precision, k['rows'])
    if not k['graph_ms']:
        faults.append('the step was not captured as a graph')
    return {'ok': not faults, 'why': '; '.join(faults), 'precision': precision, 'batch': b['batch_size'],
            'step_ms': 1e3 * b['batch_size'] / b['samples_per_second'], 'p50_ms': b['p50_ms'], 'p99_ms': b['p99_ms'],
            'samples_per_second': b['samples_per_second'], 'floor_ms': sum(row['floor_us'] for row in k['rows']) / 1e3,
            'libraries': libraries, 'kernels': k}


def with_table(r, stage, names, found, key=None):
    """The kernels stay in the record, by piece."""
    table = {n: r.done[(f'{stage}/{n}', key or r.key)] for n in names if (f'{stage}/{n}', key or r.key) in r.done}
    return {**found, 'table': {n: f for n, f in table.items() if 'kernels' in f}}


def plan_ahead(m, names):
    """Kernels and libraries' plans of several networks at once, into the caches; nothing is measured meanwhile."""
    def one(name):
        kind, precision = name.split('/')
        w = workloads(m.small)[kind]
        try:
            with tempfile.TemporaryDirectory() as folder:
                prepare(m, folder, w)
                m.call(m.program, 'plan', f'{folder}/m.onnx', '--data', f'{folder}/d.npz', '--device', m.device, *options(w, precision), '-q',
                       timeout=240)
        except (Late, RuntimeError):
            pass
    if not m.small:
        with concurrent.futures.ThreadPoolExecutor(m.workers) as pool:
            list(pool.map(one, names))


def measure(m, r, stage, names, *more):
    missing = [n for n in names if (f'{stage}/{n}', r.key) not in r.done]
    if missing and m.left() > 30:
        plan_ahead(m, missing)
    return with_table(r, stage, names, pieces(r, stage, names, lambda name: network(m, *name.split('/'), *more)))


def networks(m, r):
    """One precision of each; the large ones first."""
    w = workloads(m.small)
    return measure(m, r, 'networks', [f"{k}/{w[k]['precisions'][0]}" for k in ('gpt2', 'resnet50', 'lenet', 'resnet18', 'bert', 'mlp')])


def precisions(m, r):
    w = workloads(m.small)
    return measure(m, r, 'precisions', [f'{k}/{p}' for k in ('gpt2', 'resnet50', 'resnet18', 'bert', 'lenet', 'mlp') for p in w[k]['precisions'][1:]])


def tuned(m, r):
    w = workloads(m.small)
    return measure(m, r, 'tuned', [f"{k}/{w[k]['precisions'][0]}" for k in ('gpt2', 'resnet50', 'resnet18', 'lenet')], '--tune')


# ---- peers -----------------------------------------------------------------------------------

PEERS_READY = 200  # seconds for all of them to compile, at once
WAYS = ('eager', 'graphs')


def peer(m, kind, folder):
    """Of one network: {way: times}, once `folder`/go is there."""
    w = workloads(m.small)[kind]
    code, text = m.call(sys.executable, f'{HERE}/peer.py', folder, w['peer'], w['optimizer'], w['precisions'][0], f'{m.root}/tests/bench',
                        timeout=280)
    lines = text.strip().splitlines()
    if code or not lines or not lines[-1].startswith('{'):
        return {'ok': False, 'why': f'exit {code}: {text.strip()[-400:]}'}
    return {'ok': True, **json.loads(lines[-1])}


def peers(m, r):
    """PyTorch's times depend on nothing of ours: measured once, remembered whatever the build.  torch.compile takes a minute of the
    CPU for each network: all get ready at once, and then are timed one at a time."""
    w = workloads(m.small)
    order = ('gpt2', 'resnet50', 'resnet18', 'bert', 'lenet', 'mlp')
    missing = [kind for kind in order if (f'peers/{kind}', 'peers') not in r.done]
    folders = {kind: tempfile.mkdtemp(dir=m.work) for kind in missing}
    late = []
    with concurrent.futures.ThreadPoolExecutor(max(1, len(missing))) as pool:
        def one(kind):
            m.need(30)
            prepare(m, folders[kind], w[kind])
            return peer(m, kind, folders[kind])
        runs = {kind: pool.submit(one, kind) for kind in missing}
        until = time.monotonic() + PEERS_READY
        while time.monotonic() < until and not all(os.path.exists(f'{folders[k]}/ready') or run.done() for k, run in runs.items()):
            time.sleep(0.1)
        for kind, run in runs.items():
            open(f'{folders[kind]}/go', 'w').close()
            try:
                r.get(f'peers/{kind}', run.result, key='peers')
            except Late:
                late.append(kind)
    table, found = {}, {}
    for kind in order:
        precision = w[kind]['precisions'][0]
        ours = r.done.get((f'networks/{kind}/{precision}', r.key), {})
        theirs = r.done.get((f'peers/{kind}', 'peers'), {})
        row = table[kind] = {'precision': precision, 'ours': ours.get('step_ms'), **{how: theirs.get(how, {}).get('step_ms') for how in WAYS}}
        times = [row[how] for how in WAYS if row[how]]
        row['ratio'] = min(times) / row['ours'] if times and row['ours'] else None
        if theirs:
            found[kind] = theirs
    return {**summary(found, late, len(order)), 'table': table}
