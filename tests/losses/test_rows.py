"""Logits of all steps of all samples in one long axis, as view(-1, V) leaves them, against the same network that keeps (N, T, V).

usage: test_rows.py PROGRAM
"""
import json
import os
import subprocess
import tempfile

from scripts import T, finish, h as helper, np, numpy_helper, onnx, program, verdict

N = 12


def model(path, t, v, tail=(), batch='N', flat=True, time_major=False):
    """(batch, t) tokens; the rows go through the last layer and the tail."""
    rng = np.random.default_rng(5)
    n = helper.make_node
    nodes = [n('Gather', ['emb', 'x'], ['e']), n('MatMul', ['e', 'w1'], ['a']), n('Tanh', ['a'], ['b'])]
    last = 'b'
    if time_major:
        nodes.append(n('Transpose', [last], ['p'], perm=[1, 0, 2]))
        last = 'p'
    if flat:
        nodes.append(n('Reshape', [last, 'shape'], ['r']))
        last = 'r'
    nodes += [n('MatMul', [last, 'w2'], ['m']), n('Add', ['bias', 'm'], ['z'])]
    last = 'z'
    for op in tail:
        nodes.append(n(op, [last], ['q'], axis=-1))
        last = 'q'
    nodes.append(n('Identity', [last], ['y']))
    w = {'emb': (9, 6), 'w1': (6, 6), 'w2': (6, v), 'bias': (v,)}
    weights = [numpy_helper.from_array((rng.standard_normal(s) * 0.4).astype(np.float32), k) for k, s in w.items()]
    g = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info('x', T.INT64, [batch, t])], [helper.make_tensor_value_info('y', T.FLOAT, None)],
                          weights + [numpy_helper.from_array(np.array([-1, 6], np.int64), 'shape')])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid('', 13)], ir_version=8), path)


def call(*arguments):
    r = subprocess.run([program, *arguments, '--device', 'cpu'], capture_output=True, text=True, timeout=120)
    return r.returncode, r.stdout, r.stderr


def figures(path, data, batch, loss):
    """Losses of two epochs, and what eval says."""
    how = ['--loss', loss] if loss else []
    code, _, said = call('train', path, '--data', data, *how, '--batch-size', str(batch), '--epochs', '2', '--no-shuffle', '--run-dir', 'none', '-o', 'o.onnx',
                         '--log', 'l.jsonl', '--optimizer', 'sgd:lr=0.1')
    if code:
        return code, said, None, None
    losses = [q['loss'] for q in map(json.loads, open('l.jsonl')) if q['event'] == 'step']
    code, out, err = call('eval', 'o.onnx', '--data', data, *how, '--batch-size', str(batch), '--json')
    return code, said + err, losses, json.loads(out) if not code else None


def same(what, t, v, data, batch, loss, tail=(), fixed='N', line=None):
    model('flat.onnx', t, v, tail, fixed)
    model('seq.onnx', t, v, tail, fixed, flat=False)
    code, said, got, seen = figures('flat.onnx', data, batch, loss)
    code2, said2, want, seen2 = figures('seq.onnx', data, batch, (loss + (',' if ':' in loss else ':') + 'class_axis=-1') if loss else loss)
    rows, why = f"{t} rows for each of {batch} samples", None
    if code or code2:
        why = f'exit {code}, {code2}: {said} {said2}'
    elif not np.allclose(got, want, rtol=1e-5) or any(abs(seen[k] - seen2[k]) > 1e-5 for k in ('loss', 'accuracy')):
        why = f'{got}, {seen}; {want}, {seen2} are right'
    elif seen.keys() != seen2.keys() or 'f1' not in seen or seen['confusion'] != seen2['confusion'] or any(not np.isclose(seen[k], v) for k, v in seen2.items() if isinstance(v, float)):
        why = f'metrics {seen}; {seen2} are right'
    elif rows not in said or line and line not in said:
        why = f'does not say {rows!r} {line}: {said}'
    verdict(what, why)


def refused(what, path, data, text, batch=4, *extra):
    code, _, said = call('train', path, '--data', data, '--loss', 'cross_entropy', '--batch-size', str(batch), '--run-dir', 'none', '-o', 'o.onnx', '--steps', '1', *extra)
    verdict(what, f'exit {code}, 4 is right, with {text!r}: {said}' if code != 4 or text not in said else None)


with tempfile.TemporaryDirectory() as d:
    os.chdir(d)
    rng = np.random.default_rng(6)
    x, t = rng.integers(0, 9, (N, 5)), rng.integers(0, 7, (N, 5))
    np.savez('d.npz', x=x, target=t)
    holes = t.copy()
    holes[3, 2] = holes[7] = -100
    np.savez('holes.npz', x=x, target=holes)
    np.savez('six.npz', x=rng.integers(0, 9, (N, 6)), target=rng.integers(0, 7, (N, 6)))
    np.savez('square.npz', x=x, target=rng.integers(0, 5, (N, 5)))
    np.savez('plain.npz', x=x, target=t.reshape(-1))
    np.savez('one.npz', x=x, target=t[:, 0])
    same('view(-1, V)', 5, 7, 'd.npz', 4, 'cross_entropy', line='[20,7]')
    same('no --loss', 5, 7, 'd.npz', 4, None, line='(default')
    same('labels of -100', 5, 7, 'holes.npz', 4, 'cross_entropy')
    same('weights and smoothing', 5, 7, 'holes.npz', 4, 'cross_entropy:label_smoothing=0.1,class_weights=[1,2,3,1,2,3,1]')
    same('as many classes as steps', 5, 5, 'square.npz', 4, 'cross_entropy')
    same('as many classes as samples', 5, 7, 'd.npz', 3, 'cross_entropy')
    same('one sample more than steps', 5, 7, 'd.npz', 6, 'cross_entropy')
    same('one sample at a time', 5, 7, 'd.npz', 1, 'cross_entropy')
    same('a batch of one in the file', 5, 7, 'd.npz', 4, 'cross_entropy', fixed=1, line='fixed batch size of 1')
    same('a batch of two in the file', 5, 7, 'd.npz', 4, 'cross_entropy', fixed=2, line='fixed batch size of 2')
    same('a batch of two, as the file has it', 5, 7, 'd.npz', 2, 'cross_entropy', fixed=2)
    same('a batch of two, six of them more than steps', 5, 7, 'd.npz', 3, 'cross_entropy', fixed=2)
    same('a batch of three, one more as many as steps', 6, 7, 'six.npz', 3, 'cross_entropy', fixed=3)
    same('behind a Softmax', 5, 7, 'd.npz', 4, 'cross_entropy', tail=['Softmax'], line='combined with the Softmax')
    same('behind a LogSoftmax', 5, 7, 'd.npz', 4, 'nll', tail=['LogSoftmax'], line='combined with the LogSoftmax')
    same('focal', 5, 7, 'd.npz', 4, 'focal')
    model('flat.onnx', 5, 7)
    model('fixed.onnx', 5, 7, batch=1)
    refused('a target without the samples', 'flat.onnx', 'plain.npz', "the target 'target' has 60 samples, but array 'x' for input 'x' has 12; 'target' has 5 for each of 12 samples: save as [12,5]")
    refused('the same for a file of batch 1', 'fixed.onnx', 'plain.npz', "'target' has 5 for each of 12 samples: save as [12,5]")
    refused('one class for each sample', 'flat.onnx', 'one.npz', "output 'y' is [20,7], 5 rows for each of 4 samples; class numbers must be [samples,5]")
    for batch in (4, 5):
        model('time.onnx', 5, 7, time_major=True)
        refused(f'step by step, {batch} samples', 'time.onnx', 'd.npz', "in 'p', from which it is reshaped, the batch is another axis; export logits of shape [samples,5,classes]", batch)
finish('cases')
