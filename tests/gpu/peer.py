"""One network of tests/bench/peers.py in PyTorch with the weights and data of a folder: m.onnx, d.npz; a line of JSON.

usage: peer.py FOLDER CLASS OPTIMIZER PRECISION BENCH

Each way (torch.compile with CUDA graphs, then eager) takes its first steps, which compile and choose; then FOLDER/ready is
written, and FOLDER/go has to appear before anything is timed: several networks get ready at once, one is timed at a time.
"""
import json
import os
import re
import sys
import time

import numpy as np
import onnx
import torch
from torch.nn import functional as F


def between(step, count):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(count):
        step()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) * 1e-3


def timed(step, seconds):
    """Seconds of a step between two events around many, on a device that is warm; nothing waits in between."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1:
        between(step, 5)
    count = max(1, int(seconds / 5 / (between(step, 5) / 5)))
    return sum(between(step, count) for _ in range(5)) / 5 / count


def main():
    folder, name, optimizer, precision, bench = sys.argv[1:6]
    sys.path.insert(0, bench)
    import peers
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != 'fp32'
    torch.backends.cudnn.benchmark = True
    net = getattr(peers, name)()
    tensors = [onnx.numpy_helper.to_array(t) for t in onnx.load(f'{folder}/m.onnx').graph.initializer]
    peers.load_weights(net, [t for t in tensors if t.dtype == np.float32 and t.ndim])
    net.cuda().train()
    data = dict(np.load(f'{folder}/d.npz'))
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

    ways = {'graphs': torch.compile(forward, mode='reduce-overhead'), 'eager': forward}

    def step(run):
        o.zero_grad(set_to_none=True)
        loss = run()
        scaler.scale(loss).backward()
        scaler.step(o)
        scaler.update()
        return loss.detach().clone()

    found = {}
    for how, run in ways.items():
        begin = time.perf_counter()
        found[how] = {'losses': [float(step(run)) for _ in range(4)], 'first_seconds': time.perf_counter() - begin}
        torch.cuda.empty_cache()
    open(f'{folder}/ready', 'w').close()
    while not os.path.exists(f'{folder}/go'):
        time.sleep(0.02)
    for how, run in ways.items():
        torch.cuda.reset_peak_memory_stats()
        found[how]['step_ms'] = 1e3 * timed(lambda: step(run), 1.5)
        found[how]['peak_bytes'] = torch.cuda.max_memory_allocated()
    print(json.dumps(found))


if __name__ == '__main__':
    main()
