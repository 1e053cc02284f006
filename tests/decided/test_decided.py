"""Graphs whose sizes, iterations and branches depend on data: run, gradients and steps against PyTorch's (make.py).

usage: test_decided.py PROGRAM [TEXT]

TEXT: the graphs alone that have it in their name.
"""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

from scripts import h, np, numpy_helper, onnx

program = os.path.abspath(sys.argv[1])
only = sys.argv[2] if len(sys.argv) > 2 else ''
here = os.path.dirname(os.path.abspath(__file__))
failed = total = 0


def call(d, *args):
    return subprocess.run([program, *args], capture_output=True, text=True, timeout=300, cwd=d)


def close(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=2e-4, atol=1e-5)


def part(numbers, prefix):
    return {k[len(prefix):]: v for k, v in numbers.items() if k.startswith(prefix)}


def check(what, m, numbers):
    global failed, total
    total += 1
    problems = []
    n = sum(k[0] == 'y' for k in numbers)
    batches = [part(numbers, f'x{i}.') for i in range(n)]
    first = [(numbers[f'y{i}'], part(numbers, f'g{i}.')) for i in range(n)]
    losses, after, rate = numbers['losses'], part(numbers, 'after.'), float(numbers['rate'])
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, d + '/m.onnx')
        for i, x in enumerate(batches):
            np.savez(d + '/x.npz', **x)
            r = call(d, 'run', 'm.onnx', '--data', 'x.npz', '-o', 'y.npz')
            if r.returncode:
                problems.append(f'run {i}: {r.stderr.strip()}')
            elif not close(np.load(d + '/y.npz')['y'], first[i][0]):
                problems.append(f'run {i}: {np.load(d + "/y.npz")["y"]}, {first[i][0]} is right')
            r = call(d, 'grad', 'm.onnx', '--data', 'x.npz', '-o', 'g.npz', '--loss', 'loss=output')
            if r.returncode:
                problems.append(f'grad {i}: {r.stderr.strip()}')
                continue
            got = np.load(d + '/g.npz')
            for k, v in first[i][1].items():
                if k not in got and not v.any():
                    continue  # it only decides
                if k not in got or not close(got[k], v):
                    problems.append(f'grad {i}: {k} is {got[k] if k in got else None}, {v} is right')
        shapes = {k: {x[k].shape for x in batches} for k in batches[0]}
        if all(len(s) == 1 for s in shapes.values()):
            problems += trained(d, m, batches, losses, after, rate)
    if problems:
        print(f'FAILED {what}:\n    ' + '\n    '.join(problems[:4]))
        failed += 1
    else:
        print(f'{what}: as PyTorch')


def trained(d, m, batches, losses, after, rate):
    """One sample per batch: inputs get an axis of samples, which the graph drops again."""
    m = onnx.ModelProto.FromString(m.SerializeToString())
    g = m.graph
    rename = {i.name: i.name + '_all' for i in g.input}
    drop = [h.make_node('Squeeze', [rename[i.name], 'drop_axis'], [i.name], name='drop_' + i.name) for i in g.input]
    g.initializer.append(numpy_helper.from_array(np.array([0], np.int64), 'drop_axis'))
    for i in g.input:
        shape = [1] + list(batches[0][i.name].shape)
        i.CopyFrom(h.make_tensor_value_info(rename[i.name], i.type.tensor_type.elem_type, shape))
    nodes = list(g.node)
    del g.node[:]
    g.node.extend(drop + nodes)
    onnx.save(m, d + '/t.onnx')
    np.savez(d + '/t.npz', **{rename[k]: np.stack([b[k] for b in batches]) for k in batches[0]})
    r = call(d, 'train', 't.onnx', '--data', 't.npz', '-o', 'o.onnx', '--loss', 'loss=output', '--batch-size', '1', '--epochs', '1', '--no-shuffle',
             '--optimizer', f'sgd:lr={rate}', '--log', 'l.jsonl', '--run-dir', 'none')
    if r.returncode:
        return ['train: ' + r.stderr.strip()]
    steps = [json.loads(line) for line in open(d + '/l.jsonl')]
    got = [s['loss'] for s in steps if s['event'] == 'step']
    out = []
    if not np.allclose(got, losses, rtol=1e-3, atol=1e-5):
        out.append(f'train: losses {got}, {losses} are right')
    trained_to = {t.name: numpy_helper.to_array(t) for t in onnx.load(d + '/o.onnx').graph.initializer}
    for k, v in after.items():
        if not close(trained_to[k], v):
            out.append(f'train: {k} is {trained_to[k]}, {v} is right')
    return out


with tarfile.open(here + '/graphs.tar.xz') as tar:
    files = {i.name: tar.extractfile(i).read() for i in tar if i.isfile()}
for name in files:
    if name.endswith('/m.onnx') and only in name:
        what = name[:-len('/m.onnx')]
        with np.load(io.BytesIO(files[what + '/numbers.npz'])) as z:
            check(what, onnx.ModelProto.FromString(files[name]), dict(z))
print(f'{total} graphs, {failed} failed')
sys.exit(failed != 0 or not total)
