"""Outputs that are probabilities, or their logarithms, by the way they are computed: loss, metrics and predictions apply no second Softmax.

usage: test_probabilities.py PROGRAM
"""
import json
import subprocess
import tempfile

import onnx.parser
from scripts import call, check, finish, h, np, numpy_helper, onnx, onnxruntime

rng = np.random.default_rng(4)
N, C = 9, 3
TENSORS = {'W': rng.standard_normal((4, C)) * 0.3, 'V': rng.standard_normal((4, C)) * 0.3, 'U': rng.standard_normal((4, 1)), 'half': np.float64(0.5), 'one': np.float64(1), 'two': np.float64(2),
           'third': np.float64(1 / 3), 'six': np.float64(C), 'lo': np.float64(-1), 'eps': np.float64(1e-12), 'P': np.eye(C)[::-1]}
INTS = {'ax': np.array([1]), 'ax0': np.array([0]), 'all': np.array([N, C])}
# A guard of sklearn's classifiers: a row of zeros gets equal parts.
GUARD = 'b=Cast<to=9>(r) nb=Not(b) z=Cast<to=1>(nb) q=Add(p,z) mk=Mul(z,six) d=Add(r,mk) y=Div(q,d)'
SCORES = 'a=MatMul(x,W) c=MatMul(x,V)'
CASES = {  # the graph, whether the output has logarithms
    'exp of LogSoftmax': ('e=LogSoftmax(a) y=Exp(e)', False),
    'exp of the difference from the sum': ('l=ReduceLogSumExp<axes=[1]>(a) d=Sub(a,l) y=Exp(d)', False),
    'exp of the difference, reshaped': ('l=ReduceLogSumExp<axes=[1],keepdims=0>(a) u=Unsqueeze(l,ax) d=Sub(a,u) y=Exp(d)', False),
    'difference from the sum': ('l=ReduceLogSumExp<axes=[1]>(a) y=Sub(a,l)', True),
    'L1 norm': ('e=Sigmoid(a) y=LpNormalization<axis=1,p=1>(e)', False),
    'L1 norm as functional.normalize': ('e=Softplus(a) r=ReduceL1<axes=[1]>(e) k=Clip(r,eps) g=Shape(e) x1=Expand(k,g) y=Div(e,x1)', False),
    'mean': ('e=Softmax(a) f=Softmax(c) y=Mean(e,f)', False),
    'sum, halved': ('e=Softmax(a) f=Softmax(c) g=Add(e,f) y=Mul(g,half)', False),
    'sum, divided': ('e=Softmax(a) f=Softmax(c) g=Sum(e,f) y=Div(g,two)', False),
    'parts': ('e=Softmax(a) f=Softmax(c) g=Mul(e,half) h=Div(f,two) y=Add(g,h)', False),
    'mean of a stack': ('e=Softmax(a) f=Softmax(c) g=Unsqueeze(e,ax0) h=Unsqueeze(f,ax0) k=Concat<axis=0>(g,h) y=ReduceMean<axes=[0],keepdims=0>(k)', False),
    'log of a mean': ('e=Softmax(a) f=Softmax(c) g=Mean(e,f) y=Log(g)', True),
    'selection': ('e=Softmax(a) f=Softmax(c) u=MatMul(x,U) k=Less(u,half) y=Where(k,e,f)', False),
    'guarded sigmoids': ('p=Sigmoid(a) r=ReduceSum(p,ax) ' + GUARD, False),
    'guarded pieces': ('k=Clip(a,lo,one) j=Add(k,one) p=Div(j,two) r=ReduceSum(p,ax) ' + GUARD, False),
    'product with an inverse': ('e=Softplus(a) r=ReduceSum(e,ax) i=Reciprocal(r) y=Mul(e,i)', False),
}
NOT = {  # looks like one, and is not
    'sum': 'e=Softmax(a) f=Softmax(c) y=Add(e,f)',
    'third': 'e=Softmax(a) f=Softmax(c) g=Add(e,f) y=Mul(g,third)',
    'divided by the sum of another': 'e=Softplus(a) f=Softplus(c) r=ReduceSum(f,ax) y=Div(e,r)',
    'negative': 'r=ReduceSum(a,ax) y=Div(a,r)',
    'negative L1 norm': 'y=LpNormalization<axis=1,p=1>(a)',
    'L2 norm': 'e=Sigmoid(a) y=LpNormalization<axis=1,p=2>(e)',
    'selection of elements': 'e=Softmax(a) f=Softmax(c) k=Less(a,half) y=Where(k,e,f)',
    'difference': 'e=Softmax(a) f=Softmax(c) g=Add(e,e) y=Sub(g,f)',
}


def write(d, text):
    m = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,%d] y) { %s %s }' % (C, SCORES, text))
    used = {i for n in m.graph.node for i in n.input}
    for k, v in (TENSORS | INTS).items():
        if k in used:
            m.graph.initializer.append(numpy_helper.from_array(v if k in INTS else np.asarray(v, 'f4'), k))
    onnx.save(m, d + '/m.onnx')


def numbers_in(v):
    """All floats of a JSON value."""
    if isinstance(v, (dict, list)):
        return [q for w in (v.values() if isinstance(v, dict) else v) for q in numbers_in(w)]
    return [v] if isinstance(v, float) else []


def targets_of_probabilities(d):
    """Scores and a probability for each class: cross_entropy by default, and no errors of the scores; others are values."""
    x = rng.standard_normal((N, 4)).astype('f4')
    p = rng.random((N, C)).astype('f4')
    p /= p.sum(1, keepdims=True)
    one_hot = np.eye(C, dtype='f4')[p.argmax(1)]
    write(d, 'y=MatMul(x,W)')
    scores = x @ TENSORS['W'].astype('f4')
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    for target, loss in (p, 'cross_entropy'), (one_hot, 'cross_entropy'), (2 * p, 'mse'), (p - 1, 'mse'):
        np.savez(d + '/p.npz', x=x, target=target)
        r = call('eval', d + '/m.onnx', '--data', d + '/p.npz', '--json')
        got = json.loads(r.stdout)
        check(f'loss {loss} on output' in r.stderr, r.stderr)
        if loss == 'mse':
            check('rmse' in got and 'accuracy' not in got, got)
            continue
        check(abs(got['loss'] + (target * logs).sum(1).mean()) < 1e-5 and not {'mae', 'rmse', 'r2', 'precision'} & set(got), got)
        check(abs(got['accuracy'] - (scores.argmax(1) == target.argmax(1)).mean()) < 1e-6, got)
    for given in 'mse', 'kl':
        np.savez(d + '/p.npz', x=x, target=p)
        r = call('eval', d + '/m.onnx', '--data', d + '/p.npz', '--loss', given)
        check(('needs log-probabilities, but output' in r.stderr) == (given == 'kl'), r.stderr)
    # kl over log-probabilities is told nothing, unless the target is no distribution; its errors are of the probabilities.
    write(d, 'y=LogSoftmax(a)')
    for target, more, told in (p, '', False), (2 * p, '', True), (np.log(p), ':log_target=true', False):
        np.savez(d + '/p.npz', x=x, target=target)
        r = call('eval', d + '/m.onnx', '--data', d + '/p.npz', '--json', '--loss', 'kl' + more)
        check(('needs a target of probabilities' in r.stderr) == told and 'log-probabilities, but' not in r.stderr, r.stderr)
        if not told and not more:
            check(abs(json.loads(r.stdout)['mae'] - abs(np.exp(logs) - p).mean()) < 1e-6, r.stdout)


with tempfile.TemporaryDirectory() as d:
    x, t = rng.standard_normal((N, 4)).astype('f4'), np.arange(N) % C
    np.savez(d + '/x.npz', x=x, target=t)
    for name, (text, logs) in CASES.items():
        write(d, text)
        y = onnxruntime.InferenceSession(d + '/m.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0].astype('f8')
        p = np.exp(y) if logs else y
        want = -np.log(np.maximum(p[np.arange(N), t], np.finfo(np.float32).tiny)).mean()
        r = call('eval', d + '/m.onnx', '--data', d + '/x.npz', '--json')
        got = json.loads(r.stdout) if not r.returncode else {}
        for k in ('loss', 'log_loss'):
            v = got.get(k, got.get('metrics', {}).get(k))
            check(v is not None and abs(v - want) < 1e-4 * (1 + want), f'{name}: {k} is {v}, {want} is right: {r.stderr}')
        r = call('predict', d + '/m.onnx', d + '/x.npz')
        lines = [q.split(',') for q in r.stdout.split()[1:]]
        best = p.max(1)
        check(len(lines) == N and all(len(q) == 3 and abs(float(q[2]) - b) < 1e-4 for q, b in zip(lines, best)), f'{name}: predictions {lines[:2]}, {best[:2]} is right')
    for name, text in NOT.items():
        write(d, text)
        r = call('eval', d + '/m.onnx', '--data', d + '/x.npz')
        check('add up to 1' not in r.stderr and "on output 'y'" in r.stderr, f'not probabilities, {name}: {r.stderr}')

    # What the nodes do not show is told by the values, unless a loss is given.
    for text, told, *options in (('e=Softmax(a) y=MatMul(e,P)', True), ('e=Softmax(a) y=MatMul(e,P)', False, '--loss', 'cross_entropy'), ('y=MatMul(a,P)', False), ('y=Softmax(a)', False)):
        write(d, text)
        r = call('eval', d + '/m.onnx', '--data', d + '/x.npz', *options)
        check(('adds up to 1, as probabilities do' in r.stderr) == told, f'{text} {options}: {r.stderr}')

    # Sigmoids in pieces are probabilities, too.
    for text in ('n=Neg(a) e=Exp(n) o=Add(e,one) y=Reciprocal(o)', 'h=Mul(a,half) t=Tanh(h) u=Add(t,one) y=Mul(u,half)'):
        write(d, text)
        y = onnxruntime.InferenceSession(d + '/m.onnx', providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
        r = call('predict', d + '/m.onnx', d + '/x.npz', '--task', 'labels', '-o', d + '/p.json')
        first = json.load(open(d + '/p.json'))[0] if not r.returncode else {}
        check(all(any(abs(v - q) < 1e-4 for q in numbers_in(first)) for v in y[0]), f'{text}: {first}, {y[0]}')

    # The sums of other lines, in as many elements.
    g = h.make_graph([h.make_node('Exp', ['x'], ['e']), h.make_node('ReduceSum', ['e', 'two'], ['s'], keepdims=0), h.make_node('Reshape', ['s', 'row'], ['r']),
                      h.make_node('MatMul', ['e', 'w'], ['f']), h.make_node('Div', ['e', 'r'], ['y'])], 'g',
                     [h.make_tensor_value_info('x', onnx.TensorProto.FLOAT, ['n', 5, 5])], [h.make_tensor_value_info('y', onnx.TensorProto.FLOAT, ['n', 5, 5])],
                     [numpy_helper.from_array(np.array([2]), 'two'), numpy_helper.from_array(np.array([-1, 1, 5]), 'row'),
                      numpy_helper.from_array(np.eye(5, dtype='f4'), 'w')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), d + '/m.onnx')
    np.savez(d + '/cube.npz', x=rng.standard_normal((N, 5, 5)).astype('f4'), target=np.zeros((N, 5), 'i8'))
    r = call('eval', d + '/m.onnx', '--data', d + '/cube.npz', '--loss', 'cross_entropy:class_axis=2')
    check(r.returncode == 0 and 'add up to 1' not in r.stderr, f'sums of other lines: {r.stderr}')

    targets_of_probabilities(d)

    # Inputs and constants count too, when the analysis ends.
    levels = ''.join(f'q{i + 1}=Max({",".join([f"q{i}"] * 10 + ["big"] * 400)}) ' for i in range(6))
    m = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[N,4096] x) => (float[N,4096] y) { q0=Add(x,big) %s u=ReduceSum(q6,last) y=Div(q6,u) }' % levels)
    m.graph.initializer.extend([numpy_helper.from_array(np.ones(4096, 'f4'), 'big'), numpy_helper.from_array(np.array([1]), 'last')])
    onnx.save(m, d + '/m.onnx')
    try:
        call('plan', d + '/m.onnx', timeout=15)
        check(True, '')
    except subprocess.TimeoutExpired:
        check(False, 'maxima of many constants: no end after 15 s')

    # A value that is read very often is not looked at again each time.
    levels = ''.join(f'p{i + 1}=Mean({",".join([f"p{i}"] * 40)}) ' for i in range(9))
    write(d, f'p0=Softmax(a) {levels} y=Identity(p9)')
    try:
        call('eval', d + '/m.onnx', '--data', d + '/x.npz', timeout=60)
        check(True, '')
    except subprocess.TimeoutExpired:
        check(False, 'nested means of one value: no end after 60 s')
finish('checks')
