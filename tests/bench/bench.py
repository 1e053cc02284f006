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
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Block(nn.Module):
    def __init__(self, c, m, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m)
        self.conv2, self.bn2 = nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m)
        self.short = nn.Identity()
        if stride != 1 or c != m:
            self.short = nn.Sequential(nn.Conv2d(c, m, 1, stride, bias=False), nn.BatchNorm2d(m))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.short(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        blocks, c = [], 64
        for k, m in enumerate((64, 128, 256, 512)):
            blocks += [Block(c, m, 2 if k else 1), Block(m, m, 1)]
            c = m
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


# name: arguments of `new`, network, batch, shape of a sample
WORKLOADS = {
    'lenet': (['lenet'], LeNet, 64, (1, 28, 28)),
    'mlp': (['mlp', '--hidden', '512,512'], mlp, 128, (784,)),
    'resnet18': (['resnet18'], ResNet18, 64, (3, 32, 32)),
}
RATE = 0.01


def call(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stderr[-2000:]}")


def load_weights(net, model):
    """Both sides list their tensors in the order of the layers; shapes must agree one by one."""
    ours = [numpy_helper.to_array(t) for t in model.graph.initializer]
    ours = [a for a in ours if a.dtype == np.float32]
    theirs = [t for k, t in net.state_dict().items() if not k.endswith('num_batches_tracked')]
    shapes = [tuple(t.shape) for t in theirs]
    if [a.shape for a in ours] != shapes:
        sys.exit(f'the networks differ:\n{[a.shape for a in ours]}\n{shapes}')
    with torch.no_grad():
        for t, a in zip(theirs, ours):
            t.copy_(torch.from_numpy(a.copy()))


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
                    load_weights(net, model)
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
