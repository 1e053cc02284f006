"""`bench`: rows for every batch size, number of threads and kind; percentiles in order; with and without data; CSV and JSON have the same
fields.  `plan`: operations and memory by node.

usage: test_bench.py PROGRAM
"""
import csv
import io
import json
import os
import re
import tempfile
import time

from scripts import call, check, finish, h, np, numpy_helper, onnx

models = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'models')
lenet, mlp = models + '/lenet.onnx', models + '/mlp.onnx'
os.chdir(tempfile.mkdtemp())


def rows(*arguments):
    return json.loads(call('bench', *arguments, '--device', 'cpu', '--steps', '6', '--json').stdout)['measurements']


def look(table, sizes, threads):
    check([(r['batch_size'], r['threads'], r['what']) for r in table] == [(b, n, w) for b in sizes for n in threads for w in ('training', 'prediction')], table)
    for r in table:
        check(r['runs'] == 6 and 0 < r['p50_ms'] <= r['p90_ms'] <= r['p99_ms'] and r['samples_per_second'] > 0, r)
        check(r['device'] == 'cpu' and r['ratio_to_cpu'] is None, r)


def bounded(model, size):
    """What no load of the machine changes: the runs end within the call, and one thread computes less than 10^12 operations in a second."""
    began = time.monotonic()
    table = rows(model, '--batch-sizes', str(size), '--threads', '1')
    took = time.monotonic() - began
    nodes = json.loads(call('plan', model, '--device', 'cpu', '--threads', '1', '--batch-size', str(size), '--json').stdout)['nodes']
    forward, backward = (sum(n[f'{way}_flops'] for n in nodes) / 1e12 for way in ('forward', 'backward'))
    for r in table:
        least = forward + (backward if r['what'] == 'training' else 0)
        check(least < r['p50_ms'] / 1e3 and least < size / r['samples_per_second'], f'faster than any processor, {least} s: {r}')
    # half of the runs take the median or more; the samples per second are of as many runs again
    spent = sum(r['runs'] * (r['p50_ms'] / 2e3 + size / r['samples_per_second']) for r in table)
    check(spent < took, f'{spent} s in a call of {took} s: {table}')


bounded(lenet, 16)
look(rows(mlp, '--batch-sizes', '1,8', '--threads-list', '1,2'), (1, 8), (1, 2))
look(rows(lenet, '--batch-sizes', '4', '--threads', '1'), (4,), (1,))
look(rows(lenet, '--data', 'mnist', '--batch-sizes', '4', '--threads', '1', '--optimizer', 'sgd', '--loss', 'cross_entropy'), (4,), (1,))
for what in 'training', 'prediction':
    for data in (), ('--data', 'mnist', '--loss', 'cross_entropy'):
        table = rows(lenet, *data, '--batch-sizes', '4,2', '--threads', '1', '--measure', what)
        check([(r['batch_size'], r['what']) for r in table] == [(4, what), (2, what)], table)
np.savez('d.npz', input=np.zeros((3, 1, 28, 28), 'f4'), target=np.arange(3))
table = rows(lenet, '--data', 'd.npz', '--batch-sizes', '2', '--threads', '1')
look(table, (2,), (1,))
text = call('bench', mlp, '--batch-sizes', '2', '--threads', '1', '--steps', '5', '--device', 'cpu', '--csv').stdout
table = list(csv.DictReader(io.StringIO(text)))
check([t['what'] for t in table] == ['training', 'prediction'] and all(float(t['p50_ms']) > 0 and t['runs'] == '5' for t in table), text)
text = call('bench', mlp, '--batch-sizes', '2', '--threads', '1', '--steps', '5', '--device', 'cpu').stdout
check('p99 ms' in text and len(text.splitlines()) == 3, text)

# --kernels: every kernel once, of all that the plan has; the floor is what the ceilings allow
table = json.loads(call('bench', lenet, '--batch-sizes', '32', '--threads', '1', '--device', 'cpu', '--steps', '2', '--kernels', '--json').stdout)['measurements']
prediction = table[1]['kernels']
check({r['stage'] for r in prediction['rows']} == {'forward', 'loss'} or {r['stage'] for r in prediction['rows']} == {'forward'}, prediction)
check({r['node'] for r in prediction['rows']} >= {'conv1', 'conv2', 'fc1', 'fc2'} and prediction['kernels_ms'] < table[0]['kernels']['kernels_ms'], prediction)
kernels = table[0]['kernels']
steps = [s for s in json.loads(call('plan', lenet, '--device', 'cpu', '--threads', '1', '--json').stdout)['steps'] if s['operator'] != 'View']
check(sum(r['count'] for r in kernels['rows']) == len(steps), f"{sum(r['count'] for r in kernels['rows'])} kernels, {len(steps)} steps")
for r in kernels['rows']:
    floor = max(r['flops'] / kernels['ceiling_flops_per_second'], r['bytes'] / kernels['ceiling_cached_bytes_per_second']) * 1e6
    check(r['us'] >= 0 and r['floor_us'] >= 0.99 * floor and abs(r['share_of_ceiling'] * r['us'] - r['floor_us']) <= 1e-3 * r['floor_us'], r)
above = [r['us'] - r['floor_us'] for r in kernels['rows']]
check(above == sorted(above, reverse=True), 'not by the time above the floor')
check(abs(sum(r['us'] for r in kernels['rows']) / 1e3 / kernels['kernels_ms'] - 1) < 1e-6 and kernels['kernels_ms'] <= kernels['eager_ms'], kernels['eager_ms'])
check(abs(sum(r['floor_us'] for r in kernels['rows']) / 1e3 / kernels['floor_ms'] - 1) < 1e-6, kernels['floor_ms'])
check(kernels['graph_ms'] is None, 'no graphs on the CPU')
product = [r for r in kernels['rows'] if r['node'] == 'conv2' and r['operator'] == 'ConvolveDx']
check(len(product) == 1 and abs(product[0]['flops'] / (2 * 32 * 50 * 8 * 8 * 20 * 25) - 1) < 0.01 and '[32,50,8,8]' in product[0]['values'], product)
text = call('bench', lenet, '--batch-sizes', '2', '--threads', '1', '--steps', '2', '--device', 'cpu', '--kernels').stdout
# one at its floor is among those that are not listed
check('kernels of an update' in text and 'kernels of a prediction' in text and re.search(r'Convolve\w* \w+, conv[12]: float32\[', text), text)
check(not os.listdir('.') or os.listdir('.') == ['d.npz'], os.listdir('.'))

# with data a prediction is that of `predict`: no loss, no metrics, and the convolution by the algorithm that trainings use
rng = np.random.default_rng(0)
weights = {k: numpy_helper.from_array((rng.standard_normal(s) / 20).astype('f4'), k) for k, s in {'u': (32, 32, 3, 3), 'v': (32, 32, 3, 3), 'w': (32, 10)}.items()}
nodes = [h.make_node('Conv', ['x', 'u'], ['a'], pads=[1] * 4), h.make_node('Relu', ['a'], ['b']), h.make_node('Conv', ['b', 'v'], ['c'], name='second', pads=[1] * 4),
         h.make_node('GlobalAveragePool', ['c'], ['p']), h.make_node('Flatten', ['p'], ['f']), h.make_node('MatMul', ['f', 'w'], ['y'])]
g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', 1, ['N', 32, 16, 16])], [h.make_tensor_value_info('y', 1, ['N', 10])], list(weights.values()))
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'c.onnx')
np.savez('c.npz', x=rng.standard_normal((32, 32, 16, 16)).astype('f4'), target=np.arange(32) % 10)
table = json.loads(call('bench', 'c.onnx', '--data', 'c.npz', '--loss', 'cross_entropy', '--batch-sizes', '32', '--threads', '1', '--device', 'cpu', '--steps', '2', '--kernels', '--json').stdout)
training, prediction = (m['kernels']['rows'] for m in table['measurements'])
check({r['stage'] for r in prediction} == {'forward'}, prediction)
how = [{r['how'] for r in rows if r['node'] == 'second' and r['stage'] == 'forward'} for rows in (training, prediction)]
check(how[0] == how[1] and len(how[0]) == 1, how)
for option in ('--batch-sizes', '--threads-list'):
    for wrong in ('0', 'x', '1,,2', '1.5', ''):
        check(option in call('bench', mlp, option, wrong, code=2).stderr, f'{option} {wrong}')

# plan: three products of 2 x 32 x 50 x 8 x 8 x 20 x 25 operations, two of them backward; who holds the peak
plan = json.loads(call('plan', lenet, '--device', 'cpu', '--json').stdout)
nodes = {n['node']: n for n in plan['nodes']}
product = 2 * 32 * 50 * 8 * 8 * 20 * 25
check(abs(nodes['conv2']['forward_flops'] / product - 1) < 0.01 and abs(nodes['conv2']['backward_flops'] / product - 2) < 0.01, nodes['conv2'])
check(nodes['conv2']['operator'] == 'Conv' and nodes['conv2']['update_flops'] > 0 and 'Convolve' in nodes['conv2']['kernels'], nodes['conv2'])
check(sum(n['steps'] for n in plan['nodes']) == len(plan['steps']), 'the nodes have other steps')
check(sum(n['peak_bytes'] for n in plan['nodes']) == plan['peak_live_bytes'], 'the nodes hold another peak')
check(0.5 * plan['scratch_bytes'] < plan['peak_live_bytes'] <= plan['scratch_bytes'], f"{plan['peak_live_bytes']} of {plan['scratch_bytes']}")
double = json.loads(call('plan', lenet, '--device', 'cpu', '--json', '--batch-size', '64').stdout)
twice = {n['node']: n for n in double['nodes']}['conv2']
check(abs(twice['forward_flops'] / nodes['conv2']['forward_flops'] - 2) < 0.01, twice)
text = call('plan', lenet, '--device', 'cpu').stdout
check('peak of the activations' in text and 'GFLOP' in text, text)
check('not onednn' not in text and 'Convolve' in call('plan', lenet, '--device', 'cpu', '--why').stdout, text)
finish('checks of bench and plan')
