"""The stages of tests/gpu/check (its --help says what they are for).

Every finished piece is a line of state.jsonl in the record's folder; a piece that is there is not done again.
"""
import argparse
import concurrent.futures
import datetime
import glob
import json
import os
import re
import site
import subprocess
import sys
import sysconfig
import tempfile
import time

STAGES = ['environment', 'operators', 'trajectories', 'mnist', 'failures', 'benchmark']


class Late(Exception):
    """No time is left for what comes next."""


class Record:
    """What was found, by piece; kept after each."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.path = folder, f'{folder}/state.jsonl'
        self.done = {}
        if os.path.exists(self.path):
            for line in open(self.path):
                try:
                    piece = json.loads(line)
                except ValueError:  # the line that was being written when the machine went
                    continue
                self.done[piece['piece']] = piece['found']

    def get(self, piece, make):
        if piece not in self.done:
            self.done[piece] = make()
            with open(self.path, 'a') as f:
                f.write(json.dumps({'piece': piece, 'found': self.done[piece]}) + '\n')
        return self.done[piece]


def library_folders(own):
    """Ours, and NVIDIA's where they came as wheels."""
    roots = set(site.getsitepackages() + [sysconfig.get_paths()['purelib']])
    found = [d for r in roots for d in glob.glob(f'{r}/nvidia/*/lib')]
    return ([own] if own else []) + sorted(found) + glob.glob('/usr/local/cuda/lib64')


class Machine:
    def __init__(self, a):
        self.program, self.ops, self.device, self.full = f'{a.bin}/onnxtrain', a.ops or f'{a.bin}/test_ops', a.device, a.full
        self.root, self.end = a.root, None if a.full else time.monotonic() + a.budget
        self.env = dict(os.environ, ONNXTRAIN_CUDA_MODULE=f'{a.bin}/libonnxtrain-cuda.so', ONNXTRAIN_DATA=f'{a.root}/models/data',
                        LD_LIBRARY_PATH=':'.join(library_folders(a.lib) + [os.environ.get('LD_LIBRARY_PATH', '')]).strip(':'))

    def left(self):
        return float('inf') if self.end is None else self.end - time.monotonic()

    def need(self, seconds):
        if self.left() < seconds:
            raise Late()

    def call(self, *command, timeout=300, env=None):
        """(exit code, output); a timeout is code 124."""
        try:
            r = subprocess.run(command, capture_output=True, text=True, errors='replace', env={**self.env, **(env or {})},
                               timeout=min(timeout, max(5, self.left())))
            return r.returncode, r.stdout + r.stderr
        except subprocess.TimeoutExpired as e:
            return 124, (e.stdout or b'').decode(errors='replace')

    def train(self, folder, model, data, *options, device=None, timeout=300):
        """Trains; (code, output, log, path of the model)."""
        out, log = f'{folder}/out.onnx', f'{folder}/log.jsonl'
        for old in (out, log):
            if os.path.exists(old):
                os.remove(old)
        code, text = self.call(self.program, 'train', model, '--data', data, '--device', device or self.device, '-o', out,
                               '--run-dir', f'{folder}/run', '--log', log, *options, timeout=timeout)
        events = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
        return code, text, events, out


# ---- environment -------------------------------------------------------------------

def environment(m, r):
    def find():
        code, text = m.call(m.program, 'env')
        smi = m.call('nvidia-smi', '--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit', '--format=csv,noheader')[1] \
            if any(os.access(f'{p}/nvidia-smi', os.X_OK) for p in os.environ['PATH'].split(':')) else ''
        try:
            import torch
            peer = f'PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}'
        except ImportError:
            peer = None
        return {'code': code, 'env': text, 'gpu': smi.strip(), 'peer': peer, 'date': datetime.date.today().isoformat()}
    found = r.get('environment', find)
    return {'ok': found['code'] == 0 and 'cuda' in found['env'], **found}


# ---- operators ----------------------------------------------------------------------

def operators(m, r):
    names = re.findall(r'^([A-Z]\w*) ', m.call(m.program, 'ops')[1], re.M)
    late = []

    def one(name):
        def run():
            m.need(20)
            code, text = m.call(m.ops, '--cuda', f'{name}.', timeout=120)
            counts = re.search(r'(\d+) rows, (\d+) failed; (\d+) kernel runs', text)
            rows, failed, kernels = map(int, counts.groups()) if counts else (0, 0, 0)
            bad = [line for line in text.splitlines() if line and not line.startswith(f'{rows} rows')][:8]
            return {'code': code, 'rows': rows, 'failed': failed, 'kernels': kernels, 'bad': bad if code else []}
        try:
            return r.get(f'operators/{name}', run)
        except Late:
            late.append(name)
            return None

    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        found = dict(zip(names, pool.map(one, names)))
    found = {k: v for k, v in found.items() if v and v['rows']}
    bad = {k: v['bad'] for k, v in found.items() if v['code']}
    return {'ok': bool(found) and not bad and not late, 'late': late, 'operators': len(found), 'failed': bad,
            'rows': sum(v['rows'] for v in found.values()), 'kernels': sum(v['kernels'] for v in found.values())}


# ---- trajectories -------------------------------------------------------------------

def trajectories(m, r):
    def run():
        m.need(60)
        code, text = m.call(sys.executable, f'{m.root}/tests/trajectories/test_follow.py', m.program, '--device', m.device, '-v', timeout=400)
        return {'code': code, 'text': text[-6000:]}
    found = r.get('trajectories', run)
    return {'ok': found['code'] == 0, 'text': found['text'].strip().splitlines()[-12:]}


# ---- MNIST ---------------------------------------------------------------------------

def mnist(m, r):
    def run():
        m.need(60)
        with tempfile.TemporaryDirectory() as folder:
            code, text, log, _ = m.train(folder, f'{m.root}/models/lenet.onnx', 'mnist')
            if code:
                return {'code': code, 'text': text[-2000:]}
            end = log[-1]
            evals = [e['accuracy'] for e in log if e['event'] == 'eval']
            weights = []
            for _ in range(2):  # the same seed gives the same bytes
                code, text, _, out = m.train(folder, f'{m.root}/models/lenet.onnx', 'mnist', '--steps', '200')
                weights.append(open(out, 'rb').read() if not code else None)
            return {'code': code, 'accuracy': evals, 'seconds': end['seconds'], 'samples_per_second': end['samples_per_second'],
                    'planned_bytes': end['planned_bytes'], 'peak_bytes': end['peak_bytes'], 'same_bytes': weights[0] == weights[1]}
    found = r.get('mnist', run)
    ok = found['code'] == 0 and found['accuracy'][-1] >= 0.99 and found['same_bytes'] and found['peak_bytes'] <= found['planned_bytes'] * 1.05
    return {'ok': ok, **found}


# ---- what must fail cleanly ------------------------------------------------------------

def failures(m, r):
    def run():
        m.need(30)
        with tempfile.TemporaryDirectory() as folder:
            model = f'{m.root}/models/lenet.onnx'
            large = m.train(folder, model, 'mnist', '--batch-size', '60000', '--steps', '1', '--accumulate', '1')
            m.call(m.program, 'new', 'resnet50', '-o', f'{folder}/r.onnx')
            import numpy as np
            np.savez(f'{folder}/d.npz', input=np.zeros((8, 3, 224, 224), np.uint8), target=np.zeros(8, np.int64))
            huge = m.train(folder, f'{folder}/r.onnx', f'{folder}/d.npz', '--batch-size', '20000', '--no-shuffle', '--steps', '1')
            none = m.call(m.program, 'train', model, '--data', 'mnist', '--device', 'cuda:99', '-o', f'{folder}/x.onnx')
            bare = m.call(m.program, 'train', model, '--data', 'mnist', '--device', 'cuda', '-o', f'{folder}/x.onnx',
                          env={'ONNXTRAIN_CUDA_MODULE': f'{folder}/none.so'})
            auto = m.call(m.program, 'train', model, '--data', 'mnist', '--device', 'auto', '--steps', '2', '-o', f'{folder}/x.onnx',
                          '--run-dir', f'{folder}/auto', env={'ONNXTRAIN_CUDA_MODULE': f'{folder}/none.so'})
        return {'large batch': [large[0], large[1][-300:]], 'out of memory': [huge[0], huge[1][-300:]], 'no such device': [none[0], none[1][-300:]],
                'no module': [bare[0], bare[1][-300:]], 'no module, auto': [auto[0], auto[1][:300]]}
    found = r.get('failures', run)
    want = {'large batch': (0,), 'out of memory': (5,), 'no such device': (9,), 'no module': (9,), 'no module, auto': (0,)}
    return {'ok': all(found[k][0] in v for k, v in want.items()), **found}


# ---- benchmark ---------------------------------------------------------------------------

# name: arguments of `new`, class of peers.py, batch, shape of a sample, classes, optimizer; precisions of the short and the full form
def workloads():
    import peers
    sgd, adamw = 'sgd:lr=0.01,momentum=0.9', 'adamw:lr=1e-4,weight_decay=0.01'
    return {
        'lenet': (['lenet'], peers.LeNet, 64, (1, 28, 28), 10, sgd, ['fp32'], ['fp32', 'tf32', 'bf16']),
        'resnet18': (['resnet18'], peers.resnet18, 512, (3, 32, 32), 10, sgd, ['tf32', 'bf16'], ['fp32', 'tf32', 'bf16', 'fp16']),
        'resnet50': (['resnet50'], peers.resnet50, 256, (3, 224, 224), 1000, sgd, ['bf16'], ['fp32', 'tf32', 'bf16', 'fp16']),
        'alexnet': (['alexnet'], peers.AlexNet, 256, (3, 224, 224), 1000, sgd, ['bf16'], ['fp32', 'tf32', 'bf16']),
        'gpt2': (['gpt2'], peers.Gpt2, 8, 1024, 50257, adamw, ['bf16'], ['fp32', 'tf32', 'bf16']),
        'bert': (['bert'], peers.Bert, 32, 512, 2, adamw, ['bf16'], ['fp32', 'tf32', 'bf16']),
    }


def batch_of(name, batch, shape, classes):
    import numpy as np
    rng = np.random.default_rng(0)
    if isinstance(shape, tuple):
        return {'input': rng.standard_normal((batch, *shape), np.float32), 'target': rng.integers(0, classes, batch)}
    x = rng.integers(0, 30000, (batch, shape))
    if name == 'gpt2':
        return {'input': x, 'target': np.roll(x, -1, 1)}
    return {'input': x, 'attention_mask': np.ones_like(x), 'target': rng.integers(0, classes, batch)}


def ours(m, folder, batch, precision, optimizer, steps, device=None):
    sequence = ['--loss', 'cross_entropy:class_axis=-1'] if os.path.exists(f'{folder}/tokens') else ['--loss', 'cross_entropy']
    code, text, log, _ = m.train(folder, f'{folder}/m.onnx', f'{folder}/d.npz', *sequence, '--optimizer', optimizer, '--batch-size', str(batch),
                                 '--steps', str(steps), '--no-shuffle', '--bn', 'train', '--precision', precision, device=device)
    if code:
        return {'error': f'exit {code}: {text[-400:]}'}
    at = [e['seconds'] for e in log if e['event'] == 'step']
    first = len(at) // 3
    return {'step': (at[-1] - at[first]) / (len(at) - 1 - first), 'peak': log[-1]['peak_bytes'],
            'losses': [e['loss'] for e in log if e['event'] == 'step'][:3]}


def theirs(make, tensors, data, precision, optimizer, how, seconds):
    """Steps of PyTorch with everything on the device and no synchronisation between steps."""
    import torch
    from torch.nn import functional as F
    import peers
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != 'fp32'
    torch.backends.cudnn.benchmark = True
    torch.cuda.reset_peak_memory_stats()
    net = make()
    peers.load_weights(net, tensors)
    net.cuda().train()
    inputs = [torch.from_numpy(v).cuda() for k, v in data.items() if k != 'target']
    target = torch.from_numpy(data['target']).cuda()
    if inputs[0].dim() == 4:
        net, inputs = net.to(memory_format=torch.channels_last), [x.to(memory_format=torch.channels_last) for x in inputs]
    rate = float(re.search('lr=([0-9.e-]+)', optimizer)[1])
    o = torch.optim.SGD(net.parameters(), rate, momentum=0.9, fused=True) if optimizer.startswith('sgd') else \
        torch.optim.AdamW(net.parameters(), rate, weight_decay=0.01, fused=True)
    low = {'bf16': torch.bfloat16, 'fp16': torch.float16}.get(precision)
    scaler = torch.amp.GradScaler('cuda', enabled=precision == 'fp16')

    def forward():
        with torch.autocast('cuda', dtype=low or torch.bfloat16, enabled=low is not None):
            y = net(*inputs)
            return F.cross_entropy(y.flatten(0, -2).float(), target.flatten())

    run = torch.compile(forward, mode='reduce-overhead' if how == 'compile+graphs' else None) if how != 'eager' else forward

    def step():
        o.zero_grad(set_to_none=True)
        loss = run()
        scaler.scale(loss).backward()
        scaler.step(o)
        scaler.update()
        return loss.detach().clone()

    begin = time.perf_counter()
    losses = [float(step()) for _ in range(3)]
    first = time.perf_counter() - begin
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        count += 10
    spent = time.perf_counter() - start
    return {'step': spent / count, 'peak': torch.cuda.max_memory_allocated(), 'losses': losses, 'first': first}


def bench_one(m, r, name, precision):
    import numpy as np
    import onnx
    new, make, batch, shape, classes, optimizer, _, _ = workloads()[name]
    hows = ['eager', 'compile', 'compile+graphs']
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        m.call(m.program, 'new', *new, '-o', f'{folder}/m.onnx', '-q')
        data = batch_of(name, batch, shape, classes)
        np.savez(f'{folder}/d.npz', **data)
        if data['target'].ndim > 1:
            open(f'{folder}/tokens', 'w').close()
        tensors = [onnx.numpy_helper.to_array(t) for t in onnx.load(f'{folder}/m.onnx').graph.initializer]
        tensors = [t for t in tensors if t.dtype == np.float32 and t.ndim]
        seconds = 6 if m.full else 2
        for side in ['ours', *hows]:
            def run():
                m.need(30)
                try:
                    if side != 'ours':
                        return theirs(make, tensors, data, precision, optimizer, side, seconds)
                    short = ours(m, folder, batch, precision, optimizer, 12)
                    if 'error' in short:
                        return short
                    return ours(m, folder, batch, precision, optimizer, max(30, min(4000, int(seconds / short['step']))))
                except Late:
                    raise
                except Exception as e:  # a peer that cannot run is a finding, not the end
                    return {'error': f'{type(e).__name__}: {e}'[:400]}
            rows[side] = r.get(f'benchmark/{name}/{precision}/{side}', run)
    return rows


def benchmark(m, r):
    sys.path.insert(0, f'{m.root}/tests/bench')
    table, late = [], []
    for name, w in workloads().items():
        for precision in w[7] if m.full else w[6]:
            try:
                rows = bench_one(m, r, name, precision)
            except Late:
                late.append(f'{name} {precision}')
                continue
            peers = {k: v['step'] for k, v in rows.items() if k != 'ours' and 'step' in v}
            ratio = min(peers.values()) / rows['ours']['step'] if peers and 'step' in rows['ours'] else None
            table.append({'network': name, 'batch': w[2], 'precision': precision, 'ratio': ratio, **rows})
    return {'ok': bool(table) and not late and all(t['ratio'] for t in table), 'late': late, 'table': table}


# ---- the record ---------------------------------------------------------------------------

def milliseconds(row):
    return f"{row['step'] * 1e3:.3f}" if 'step' in row else 'failed'


def markdown(found):
    e = found.get('environment', {})
    lines = [f"# {e.get('gpu', '?')}, {e.get('date', '?')}", '', '```', e.get('env', '').strip(), '```', '', f"Beside it: {e.get('peer')}.", '']
    lines += ['| stage | result |', '|---|---|']
    for stage, f in found.items():
        words = {k: v for k, v in f.items() if k in ('rows', 'kernels', 'operators', 'accuracy', 'seconds', 'samples_per_second', 'planned_bytes', 'peak_bytes', 'late')}
        lines.append(f"| {stage} | {'ok' if f['ok'] else '**not ok**'} {json.dumps(words) if words else ''} |")
    if found.get('operators', {}).get('failed'):
        lines += ['', 'Operators that fail:', ''] + [f'- {k}: {v[0] if v else ""}' for k, v in found['operators']['failed'].items()]
    if found.get('benchmark', {}).get('table'):
        lines += ['', 'Milliseconds per training step; ratio to the fastest PyTorch.', '',
                  '| network | batch | precision | onnxtrain | eager | compile | compile + graphs | ratio |', '|---|---|---|---|---|---|---|---|']
        for t in found['benchmark']['table']:
            ratio = f"{t['ratio']:.2f}" if t['ratio'] else ''
            lines.append(f"| {t['network']} | {t['batch']} | {t['precision']} | {milliseconds(t['ours'])} | {milliseconds(t['eager'])} | "
                         f"{milliseconds(t['compile'])} | {milliseconds(t['compile+graphs'])} | {ratio} |")
    return '\n'.join(lines) + '\n'


def main():
    p = argparse.ArgumentParser()
    for name in ('bin', 'root'):
        p.add_argument(f'--{name}', required=True)
    for name in ('lib', 'ops', 'out'):
        p.add_argument(f'--{name}')
    p.add_argument('--device', default='cuda')
    p.add_argument('--budget', type=float, default=570)
    p.add_argument('--full', action='store_true')
    p.add_argument('--only', nargs='*', choices=STAGES, default=STAGES)
    a = p.parse_args()
    m = Machine(a)
    code, text = m.call(m.program, 'env')
    gpu = re.search(r'cuda:0 +([^,\n]+)', text)
    if code or not gpu:
        print(f'skipped: no GPU:\n{text.strip()}')
        return 77
    word = re.sub(r'[^a-z0-9]+', '-', gpu[1].strip().lower()).strip('-')
    r = Record(a.out or f'{a.root}/tests/gpu/records/{datetime.date.today()}-{word}')
    found, ok = {}, True
    if 'environment' in r.done and 'environment' not in a.only:
        found['environment'] = environment(m, r)  # who the record is about
    for stage in a.only:
        start = time.monotonic()
        try:
            found[stage] = globals()[stage](m, r)
        except Late:
            found[stage] = {'ok': False, 'late': [stage]}
        except Exception as e:
            found[stage] = {'ok': False, 'error': f'{type(e).__name__}: {e}'}
        ok &= found[stage]['ok']
        print(f"{stage}: {'ok' if found[stage]['ok'] else 'NOT OK'} ({time.monotonic() - start:.0f} s)", flush=True)
    with open(f'{r.folder}/record.json', 'w') as f:
        json.dump(found, f, indent=1)
    text = markdown(found)
    with open(f'{r.folder}/record.md', 'w') as f:
        f.write(text)
    print(text)
    return 0 if ok else 1


if __name__ == '__main__':
    sys.exit(main())
