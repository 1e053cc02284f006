"""Which tensors of a file train: networks as PyTorch's exporters write them, against what their parameters are.

usage: test_trained.py PROGRAM

graphs.tar.xz holds the files and, in trained.json, the tensors that come from parameters (make.py). `inspect` has to say
the same for each tensor, but for those in `known` below, each with the reason.
"""
import json
import os
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    from onnx import helper, numpy_helper, save
except ImportError as e:
    print(f'skipped: {e}')
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
known = {  # what the exporter computed from parameters and no longer shows
    ('attention_biases-dynamo.onnx', 'index'): 'a table gathered by constant indices: its copies would part',
    ('class_token-dynamo.onnx', 'expand'): 'a token of zeros looks like padding',
    ('gem-dynamo.onnx', 'mul'): 'the reciprocal of an exponent',
    ('temperature-dynamo.onnx', 'clamp'): 'a scalar, the exponential of a parameter',
    ('temperature-script.onnx', 'onnx::Clip_31'): 'the norms of a parameter',
}
failed = 0
with tempfile.TemporaryDirectory() as d:
    with tarfile.open(here + '/graphs.tar.xz') as t:
        t.extractall(d)
    truth = json.load(open(d + '/trained.json'))
    # By hand: a scale that two layers share is the author's constant; one that a single node reads, a parameter.
    w = [numpy_helper.from_array(np.eye(4, dtype='f4') + .1, n) for n in ('a.weight', 'b.weight')]
    w += [numpy_helper.from_array(np.float32(.5), n) for n in ('shared', 'temperature')]
    ops = (('MatMul', 'x', 'a.weight'), ('Mul', 'h0', 'shared'), ('MatMul', 'h1', 'b.weight'), ('Mul', 'h2', 'shared'), ('Mul', 'h3', 'temperature'))
    nodes = [helper.make_node(op, [a, b], [f'h{i}']) for i, (op, a, b) in enumerate(ops)]
    ends = [helper.make_tensor_value_info(n, 1, ['n', 4]) for n in ('x', 'h4')]
    save(helper.make_model(helper.make_graph(nodes, 'g', ends[:1], ends[1:], w), opset_imports=[helper.make_opsetid('', 17)]), d + '/shared.onnx')
    truth['shared.onnx'] = ['a.weight', 'b.weight', 'temperature']
    left = dict(known)
    for name, parameters in sorted(truth.items()):
        r = subprocess.run([program, 'inspect', '--json', f'{d}/{name}'], capture_output=True, text=True)
        if r.returncode:
            print(f'FAILED {name}: exit {r.returncode}: {r.stderr.strip()}')
            failed += 1
            continue
        for t in json.loads(r.stdout)['initializers']:
            trains, should = t['role'] == 'trains', t['name'] in parameters
            if trains == should or t['type'] != 'float32' or left.pop((name, t['name']), None):
                continue
            print(f"FAILED {name}: {t['name']} {t['shape']} {'is a constant, and trains' if trains else 'is a parameter, and does not train'}: {t['why']}")
            failed += 1
for name, tensor in left:
    print(f'FAILED {name}: {tensor} is judged rightly now: take it off the list')
    failed += 1
print(f'{len(truth)} graphs, {failed} tensors judged wrongly, {len(known)} known')
sys.exit(1 if failed or len(truth) < 60 else 0)
