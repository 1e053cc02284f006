"""Training steps and predictions against PyTorch and ONNX Runtime: the same network, weights and data, interleaved.

usage: bench.py PROGRAM [--predict] [--rounds N] [--seconds N] [--threads N] [workloads]
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from torch.nn import functional as F

import peers

RATE = {'sgd': 0.01, 'adamw': 1e-3}


def images(*shape):
    return lambda rng, batch: {'input': rng.standard_normal((batch, *shape)).astype(np.float32)}


def tokens(words, length, mask=False):
    def make(rng, batch):
        ids = {'input': rng.integers(0, words, (batch, length))}
        return {**ids, 'mask': np.ones((batch, length), np.int64)} if mask else ids
    return make


# name: network, batch, inputs, classes, optimizer
WORKLOADS = {
    'lenet': (peers.LeNet, 64, images(1, 28, 28), 10, 'sgd'),
    'mlp': (peers.mlp, 128, images(784), 10, 'sgd'),
    'cnn': (peers.small_cnn, 64, images(3, 32, 32), 10, 'sgd'),
    'vgg11': (peers.vgg11, 64, images(3, 32, 32), 10, 'sgd'),
    'resnet18': (peers.resnet18, 128, images(3, 32, 32), 10, 'sgd'),
    'mobilenetv2': (peers.MobileNetV2, 64, images(3, 32, 32), 10, 'sgd'),
    'alexnet': (peers.AlexNet, 32, images(3, 224, 224), 1000, 'sgd'),
    'resnet50': (peers.resnet50, 16, images(3, 224, 224), 1000, 'sgd'),
    'unet': (peers.UNet, 8, images(3, 128, 128), 2, 'sgd'),
    'gpt': (lambda: peers.Gpt2(384, 6, 256, 256), 8, tokens(256, 256), 256, 'adamw'),
    'bert': (lambda: peers.Bert(384, 6, 128, 8192), 16, tokens(8192, 128, mask=True), 2, 'adamw'),
    'lstm': (lambda: peers.Recurrent(torch.nn.LSTM, 1), 64, tokens(256, 64), 10, 'adamw'),
    'gpt2': (lambda: peers.Gpt2(768, 12, 1024, 50257), 1, tokens(50257, 1024), 50257, 'adamw'),
    'gru3': (lambda: peers.Recurrent(torch.nn.GRU, 3), 64, tokens(256, 64), 10, 'adamw'),
}

LONG = {'gpt2'}  # by name only: seconds per step


def call(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stderr[-2000:]}")
    return r.stdout


def network(name):
    torch.manual_seed(0)
    return WORKLOADS[name][0]()


def is_sequence(y):
    return y.ndim == 2  # (N, T), of logits (N, T, V)


def prepare(name, folder):
    """m.onnx to train, p.onnx to predict with, and d.npz: the same weights and data in both programs."""
    net, (_, batch, make, classes, _) = network(name), WORKLOADS[name]
    rng = np.random.default_rng(0)
    x = make(rng, batch)
    args = tuple(torch.from_numpy(a) for a in x.values())
    shape = net(*args).shape
    y = rng.integers(0, classes, shape[:2] if len(shape) == 3 else (shape[0], *shape[2:]))
    np.savez(f'{folder}/d.npz', target=y, **x)
    axes = {k: {0: 'N'} for k in [*x, 'output']}
    for file, training in ('m', True), ('p', False):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            torch.onnx.export(net.train(training), args, f'{folder}/{file}.onnx', opset_version=17, dynamo=False,
                              training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=not training,
                              input_names=list(x), output_names=['output'], dynamic_axes=axes)
    return y


def options(name, folder, y, threads):
    loss = 'cross_entropy' + (':class_axis=-1' if is_sequence(y) else '')
    return ['--data', f'{folder}/d.npz', '--loss', loss, '--device', 'cpu', '--threads', str(threads)]


def median_of(step, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 6:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


# ---- training ----------------------------------------------------------------------------------


def train_ours(program, name, folder, y, steps, threads):
    _, batch, _, _, optimizer = WORKLOADS[name]
    momentum = ',momentum=0.9' if optimizer == 'sgd' else ''
    start = time.time()
    call(program, 'train', f'{folder}/m.onnx', *options(name, folder, y, threads), '--optimizer',
         f'{optimizer}:lr={RATE[optimizer]}{momentum}', '--batch-size', str(batch), '--steps', str(steps), '--no-shuffle', '--bn', 'train',
         '-o', f'{folder}/o.onnx', '--run-dir', f'{folder}/run', '--log', f'{folder}/log.jsonl')
    log = [json.loads(line) for line in open(f'{folder}/log.jsonl')]
    steps, end = [e for e in log if e['event'] == 'step'], [e for e in log if e['event'] == 'end'][-1]
    times = [b['seconds'] - a['seconds'] for a, b in zip(steps[2:], steps[3:])]
    return {'time': statistics.median(times) if times else 0, 'losses': [e['loss'] for e in steps[:3]],
            'memory': end['rss_peak'], 'first': time.time() - start}


def winograd_share(row):
    """Products of Winograd's algorithm with tiles of 6 x 6 per product of a direct convolution with K x K weights."""
    k = int(re.search(r'\[\d+,\d+,([35]),\1\]', row['values'].replace(' ', ''))[1]) if row['how'] == 'Winograd' else 0
    return 36 / ((7 - k) * k) ** 2 if k else 1


def floor(program, name, folder, y, threads):
    """Seconds of a step whose every kernel ran at the ceilings measured beside it: a matrix product's FLOP/s, or bytes/s at its size.

    FLOPs count products with padding too; a kernel that omits those is at its floor.
    """
    kind, batch = WORKLOADS[name][4], WORKLOADS[name][1]
    text = call(program, 'bench', f'{folder}/m.onnx', *options(name, folder, y, threads), '--optimizer',
                f'{kind}:lr=0{",momentum=0.9" if kind == "sgd" else ""}', '--batch-sizes', str(batch), '--bn', 'train', '--steps', '3',
                '--kernels', '--json')
    kernels = next(m['kernels'] for m in json.loads(text)['measurements'] if m['what'] == 'training')
    return sum(min(r['us'], r['floor_us'] * winograd_share(r)) for r in kernels['rows']) / 1e6


def peak_memory():
    """Bytes; not by getrusage, which counts the parent's until the process is started."""
    return next(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM'))


def train_theirs(name, folder, channels_last, seconds, threads, begun):
    """In a process of its own, whose start and memory count."""
    torch.set_num_threads(threads)
    net, data, (_, _, _, _, kind) = network(name).train(), np.load(f'{folder}/d.npz'), WORKLOADS[name]
    y = torch.from_numpy(data['target'])
    x = [torch.from_numpy(data[k]) for k in data.files if k != 'target']
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), [x[0].to(memory_format=torch.channels_last)]
    optimizer = (torch.optim.SGD(net.parameters(), RATE[kind], momentum=0.9, foreach=True) if kind == 'sgd' else
                 torch.optim.AdamW(net.parameters(), RATE[kind], foreach=True))
    losses, first = [], []

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = net(*x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) if is_sequence(y) else F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        first.append(time.time() - begun)
    t = median_of(step, seconds)
    return {'time': t, 'losses': losses[:3], 'memory': peak_memory(), 'first': first[0]}


def apart(function, *arguments):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
        return pool.submit(function, *arguments).result()


def train_row(program, name, folder, y, a):
    few = train_ours(program, name, folder, y, 6, a.threads)
    steps = max(6, min(5000, int(a.seconds / few['time'])))
    first = train_ours(program, name, folder, y, 1, a.threads)['first']
    rounds = {'ours': [], 'eager': []}
    if np.load(f'{folder}/d.npz')['input'].ndim == 4:
        rounds['channels_last'] = []
    for _ in range(a.rounds):
        for side, results in rounds.items():
            r = (train_ours(program, name, folder, y, steps, a.threads) if side == 'ours' else
                 apart(train_theirs, name, folder, side == 'channels_last', a.seconds, a.threads, time.time()))
            # The loss after one update. Later ones say little: MobileNetV2's third moves by 1 % when its input moves by 1e-7.
            if not np.allclose(r['losses'][:2], few['losses'][:2], rtol=1e-2):
                sys.exit(f"{name}: the losses differ: ours {few['losses']}, PyTorch {r['losses']}")
            results.append(r)
    get = lambda what: {side: statistics.median(r[what] for r in results) for side, results in rounds.items()}  # noqa: E731
    times, memory, start = get('time'), get('memory'), get('first')
    above = times['ours'] / floor(program, name, folder, y, a.threads)
    best = min((side for side in times if side != 'ours'), key=times.get)
    return [f'{above:.2f}', f'{memory["ours"] / 2**20:.0f} / {memory[best] / 2**20:.0f}', f'{first:.2f} / {start[best]:.2f}'], times


# ---- prediction --------------------------------------------------------------------------------


def predict_ours(program, name, folder, y, threads):
    batch = WORKLOADS[name][1]
    text = call(program, 'bench', f'{folder}/p.onnx', *options(name, folder, y, threads), '--batch-sizes', str(batch), '--measure', 'prediction', '--json')
    return json.loads(text)['measurements'][0]['p50_ms'] / 1e3


def predict_row(program, name, folder, y, a):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = a.threads
    session = onnxruntime.InferenceSession(f'{folder}/p.onnx', settings, providers=['CPUExecutionProvider'])
    data = np.load(f'{folder}/d.npz')
    arrays = {k: data[k] for k in data.files if k != 'target'}
    net, x = network(name).eval(), [torch.from_numpy(v) for v in arrays.values()]
    np.savez(f'{folder}/x.npz', **arrays)
    call(program, 'run', f'{folder}/p.onnx', '--data', f'{folder}/x.npz', '-o', f'{folder}/y.npz', '--device', 'cpu')
    got, want = np.load(f'{folder}/y.npz')['output'], session.run(None, arrays)[0]
    if not np.allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max()):
        sys.exit(f'{name}: the outputs differ from those of ONNX Runtime by up to {np.abs(got - want).max()}')
    sides = {'ours': lambda: predict_ours(program, name, folder, y, a.threads),
             'ONNX Runtime': lambda: median_of(lambda: session.run(None, arrays), a.seconds),
             'eager': lambda: median_of(lambda: net(*x), a.seconds)}
    if x[0].ndim == 4:
        last, z = network(name).eval().to(memory_format=torch.channels_last), x[0].to(memory_format=torch.channels_last)
        sides['channels_last'] = lambda: median_of(lambda: last(z), a.seconds)
    rounds = {side: [] for side in sides}
    with torch.inference_mode():
        for _ in range(a.rounds):
            for side, results in rounds.items():
                results.append(sides[side]())
    return [], {side: statistics.median(results) for side, results in rounds.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('workloads', nargs='*', default=[])
    parser.add_argument('--predict', action='store_true')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    a = parser.parse_intermixed_args()
    torch.set_num_threads(a.threads)
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if line.startswith('model name')), platform.machine())
    print(f"{cpu}, {a.threads} threads, PyTorch {torch.__version__}, median of {a.rounds} interleaved rounds, ms per "
          f"{'batch' if a.predict else 'step'}\n")
    sides = ['ours', *(['ONNX Runtime'] if a.predict else []), 'eager', 'channels_last']
    more = [] if a.predict else ['onnxtrain / floor', 'memory, MiB', 'start to first step, s']
    print(f"| network | batch | {' | '.join(sides).replace('ours', 'onnxtrain')} | best / onnxtrain |{''.join(f' {m} |' for m in more)}")
    print('|---' * (len(sides) + len(more) + 3) + '|')
    for name in a.workloads or [n for n in WORKLOADS if n not in LONG]:
        with tempfile.TemporaryDirectory() as folder:
            y = prepare(name, folder)
            beside, times = (predict_row if a.predict else train_row)(a.program, name, folder, y, a)
        best = min(t for side, t in times.items() if side != 'ours')
        cells = [f'{1e3 * times[s]:.2f}' if s in times else '' for s in sides]
        print('|', ' | '.join([name, str(WORKLOADS[name][1]), *cells, f"{best / times['ours']:.2f}", *beside]), '|', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
