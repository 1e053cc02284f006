"""Steps per second against PyTorch: the same network, weights, data and optimizer on both sides, interleaved.

usage: bench.py PROGRAM [--rounds N] [--seconds N] [--threads N] [workloads]
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional as F

import peers


# name: arguments of `new`, network, batch, shape of a sample
WORKLOADS = {
    'lenet': (['lenet'], peers.LeNet, 64, (1, 28, 28)),
    'mlp': (['mlp', '--hidden', '512,512'], peers.mlp, 128, (784,)),
    'resnet18': (['resnet18'], peers.resnet18, 64, (3, 32, 32)),
}
RATE = 0.01


def call(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stderr[-2000:]}")


def weights_of(model):
    tensors = [numpy_helper.to_array(t) for t in model.graph.initializer]
    return [a for a in tensors if a.dtype == np.float32 and a.ndim]


def ours(program, folder, batch, steps, threads):
    call(program, 'train', f'{folder}/m.onnx', '--data', f'{folder}/d.npz', '--loss', 'cross_entropy', '--optimizer',
         f'sgd:lr={RATE},momentum=0.9', '--batch-size', str(batch), '--steps', str(steps), '--no-shuffle', '--bn', 'train',
         '--device', 'cpu', '--threads', str(threads), '-o', f'{folder}/o.onnx', '--run-dir', f'{folder}/run', '--log', f'{folder}/log.jsonl')
    log = [json.loads(line) for line in open(f'{folder}/log.jsonl')]
    steps = [e for e in log if e['event'] == 'step']
    times = [b['seconds'] - a['seconds'] for a, b in zip(steps[2:], steps[3:])]
    return statistics.median(times), [e['loss'] for e in steps[:3]]


def theirs(net, x, y, seconds, channels_last):
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), RATE, momentum=0.9, foreach=True)
    times, losses, end = [], [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 6:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(float(loss.detach()))
    return statistics.median(times[3:]), losses[:3]


def compare(program, name, a):
    new, make, batch, shape = WORKLOADS[name]
    with tempfile.TemporaryDirectory() as folder:
        call(program, 'new', *new, '-o', f'{folder}/m.onnx')
        model = onnx.load(f'{folder}/m.onnx')
        rng = np.random.default_rng(0)
        x = rng.standard_normal((batch, *shape)).astype(np.float32)
        y = rng.integers(0, 10, batch)
        np.savez(f'{folder}/d.npz', target=y, **{model.graph.input[0].name: x})
        x, y = torch.from_numpy(x), torch.from_numpy(y)
        t, _ = ours(program, folder, batch, 6, a.threads)
        steps = max(6, min(5000, int(a.seconds / t)))
        rows = {}
        for _ in range(a.rounds):
            for side in ('ours', 'eager', 'channels_last'):
                if side == 'ours':
                    t, losses = ours(program, folder, batch, steps, a.threads)
                    first = losses
                elif side == 'channels_last' and x.dim() != 4:
                    continue
                else:
                    net = make()
                    peers.load_weights(net, weights_of(model))
                    t, losses = theirs(net, x, y, a.seconds, side == 'channels_last')
                    if not np.allclose(losses, first, rtol=1e-3):
                        sys.exit(f'{name}: the losses differ: ours {first}, PyTorch {losses}')
                rows.setdefault(side, []).append(t)
        return batch, rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('workloads', nargs='*', default=[])
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if line.startswith('model name')), platform.machine())
    print(f'{cpu}, {a.threads} threads, PyTorch {torch.__version__}, median step of {a.rounds} interleaved rounds\n')
    print('| network | batch | onnxtrain, steps/s | PyTorch eager | PyTorch channels_last | against the best |')
    print('|---|---|---|---|---|---|')
    for name in a.workloads or WORKLOADS:
        batch, rows = compare(a.program, name, a)
        rate = {k: 1 / statistics.median(v) for k, v in rows.items()}
        best = max(v for k, v in rate.items() if k != 'ours')
        other = f"{rate['channels_last']:.1f}" if 'channels_last' in rate else ''
        print(f"| {name} | {batch} | {rate['ours']:.1f} | {rate['eager']:.1f} | {other} | {rate['ours'] / best:.2f} |", flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
