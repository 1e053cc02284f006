"""ResNet-18 as PyTorch exports it in four ways: trained, delivered, exported; ONNX Runtime and OpenCV beside us.

usage: test_export_torch.py PROGRAM

For each way: the accuracy that the training says is the accuracy of the delivered file in ONNX Runtime at batch 1 and 32,
or a line of the training says why not and names `onnxtrain export`; the exported file always has it. Where OpenCV
reads the exported file, its answers are ours; where it does not, its reason is printed.
"""
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout

try:
    import numpy as np
    import onnx
    import onnxruntime
    import onnxscript  # PyTorch's newer exporter needs it
    import torch
    from torch import nn
except ImportError as e:
    print(f'skipped: {e}')
    sys.exit(77)
try:
    import cv2
except ImportError:
    cv2 = None

warnings.filterwarnings('ignore')
onnxruntime.set_default_logger_severity(4)
program, folder = sys.argv[1], tempfile.mkdtemp()
CLASSES, SIZE = 4, 32
failed = []


# ---- the network --------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, c, m, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m)
        self.conv2, self.bn2 = nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m)
        self.down = nn.Sequential(nn.Conv2d(c, m, 1, stride, bias=False), nn.BatchNorm2d(m)) if stride > 1 or c != m else None

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.down(x) if self.down else x))


class ResNet18(nn.Module):
    """The usual one, a quarter as wide."""
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.pool = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.MaxPool2d(3, 2, 1)
        blocks, c = [], 16
        for m, stride in ((16, 1), (32, 2), (64, 2), (128, 2)):
            blocks += [Block(c, m, stride), Block(m, m, 1)]
            c = m
        self.layers, self.mean, self.fc = nn.Sequential(*blocks), nn.AdaptiveAvgPool2d(1), nn.Linear(c, CLASSES)

    def forward(self, x):
        return self.fc(torch.flatten(self.mean(self.layers(self.pool(torch.relu(self.bn1(self.conv1(x)))))), 1))


def write(name, path):
    torch.manual_seed(0)
    m, x = ResNet18(), torch.rand(2, 3, SIZE, SIZE)
    with torch.no_grad():  # statistics that are not those of a fresh network
        m.train()(torch.rand(64, 3, SIZE, SIZE))
    old = dict(dynamo=False, input_names=['input'], output_names=['output'], dynamic_axes={'input': {0: 'N'}, 'output': {0: 'N'}})
    new = dict(dynamo=True, input_names=['input'], output_names=['output'], dynamic_shapes=({0: torch.export.Dim('N')},))
    mode = torch.onnx.TrainingMode
    ways = {'training': (m.train(), dict(training=mode.TRAINING, **old)),
            'dynamo': (m, new),
            'preserve': (m, dict(training=mode.PRESERVE, do_constant_folding=False, **old)),
            'plain dynamo': (m, dict(optimize=False, external_data=False, **new))}
    m, options = ways[name]
    m.train() if name == 'training' else m.eval()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        torch.onnx.export(m, (x,), path, **options)


# ---- data: four kinds of stripes, with noise ---------------------------------------------------

def pictures(n, seed):
    r = np.random.default_rng(seed)
    t = r.integers(0, CLASSES, n)
    i, j = np.mgrid[0:SIZE, 0:SIZE]
    wave = np.stack([i, j, i + j, i - j])[t] * 0.6 + r.uniform(0, 6.28, (n, 1, 1))
    x = 0.5 + 0.2 * np.sin(wave)[:, None] * r.uniform(0.2, 1, (n, 3, 1, 1)) + r.normal(0, 0.1, (n, 3, SIZE, SIZE))
    return x.astype(np.float32), t


# ---- the judges ------------------------------------------------------------------------------------

def call(*arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=folder)
    if r.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()}')
    return r.stdout, r.stderr


def in_ort(path, x, batch):
    s = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    name = s.get_inputs()[0].name
    return np.concatenate([s.run(None, {name: x[k:k + batch]})[0] for k in range(0, len(x), batch)])


def in_opencv(path, x, batch):
    n = cv2.dnn.readNetFromONNX(path)
    y = []
    for k in range(0, len(x), batch):
        n.setInput(np.ascontiguousarray(x[k:k + batch]))
        y.append(n.forward().copy())
    return np.concatenate(y)


def ours(path, x):
    np.savez(f'{folder}/x.npz', input=x)
    call('run', path, '--data', 'x.npz', '-o', 'y.npz', '--mode', 'eval', '--device', 'cpu')
    return next(iter(np.load(f'{folder}/y.npz').values()))


def tried(judge, path, x, t, batch, right):
    """Accuracy, and how far the answers are from ours; or the reason why there are none."""
    try:
        y = judge(path, x, batch)
    except Exception as e:
        return None, None, str(e).strip().split('\n')[-1][:160]
    return float((y.argmax(1) == t).mean()), float(np.abs(y - right).max() / np.abs(right).max()), None


def text(result):
    accuracy, off, why = result
    return f'{100 * accuracy:.2f} % (off {off:.0e})' if why is None else 'refused'


def exported(name, m, said, x, t):
    right = ours(f'{folder}/{m}.onnx', x)
    for flags in ([], ['--fold'], ['--fold', '--fp16']):
        out, what = f'{folder}/{m}-out{"".join(flags)}.onnx', ' '.join(['export', *flags])
        lines = call('export', f'{m}.onnx', '-o', out, *flags)[1]
        onnx.checker.check_model(out, full_check=True)
        limit = 1e-2 if '--fp16' in flags else 1e-5
        results = [tried(in_ort, out, x, t, b, right) for b in (1, 32)]
        cv = [tried(in_opencv, out, x, t, b, right) for b in (1, 32)] if cv2 else []
        print(f'  {what:20} ONNX Runtime {text(results[0])}, {text(results[1])}; OpenCV {", ".join(map(text, cv)) or "missing"}')
        for line in lines.strip().split('\n')[:-1]:
            print(f'      {line}')
        for why in {why for _, _, why in cv if why}:
            print(f'      OpenCV: {why}')
        for accuracy, off, why in results + [r for r in cv if r[2] is None]:
            if why or off > limit or (limit < 1e-3 and abs(accuracy - said) > 1e-9):
                failed.append(f'{name}, {what}: {why or off}')


def one(name, x, t):
    m = name.replace(' ', '-')
    write(name, f'{folder}/{m}-in.onnx')
    err = call('train', f'{m}-in.onnx', '--data', 'train.npz', '--val', 'val.npz', '--epochs', '4', '--batch-size', '16', '--lr', '1e-3',
               '-o', f'{m}.onnx', '--run-dir', 'run', '--log', f'{m}.jsonl', '--device', 'cpu')[1]
    said = [e for e in map(json.loads, open(f'{folder}/{m}.jsonl')) if e['event'] == 'eval'][-1]['accuracy']
    right = ours(f'{folder}/{m}.onnx', x)
    delivered = [tried(in_ort, f'{folder}/{m}.onnx', x, t, b, right) for b in (1, 32)]
    print(f'{name}: {100 * said:.2f} % said; delivered file in ONNX Runtime: {text(delivered[0])}, {text(delivered[1])}')
    told = [line for line in err.split('\n') if 'onnxtrain export' in line]
    for line in told:
        print(f'      {line}')
    if any(r[2] or abs(r[0] - said) > 1e-9 for r in delivered) and not told:
        failed.append(f'{name}: the delivered file is other than said, and no line tells')
    if abs((right.argmax(1) == t).mean() - said) > 1e-9:
        failed.append(f'{name}: said {said}')
    exported(name, m, said, x, t)


for part, n in (('train', 512), ('val', 153)):
    x, t = pictures(n, n)
    np.savez(f'{folder}/{part}.npz', input=x, target=t)
for name in ('training', 'dynamo', 'preserve', 'plain dynamo'):
    try:
        one(name, x, t)
    except Exception as e:  # the others are judged too
        failed.append(name)
        print(f'{name}: FAILED: {e}')
for f in failed:
    print('failed:', f)
sys.exit(bool(failed))
