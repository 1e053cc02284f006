"""Every loss by PyTorch's figures: its value and the gradient of the outputs it acts on.

usage: test_figures.py PROGRAM [--cuda]      --cuda: some of them, on the device

figures.json is made by make_figures.py.  An output is a weight, added to zeros: its gradient is the output's.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from scripts import T, h as helper, np, numpy_helper, onnx

program = os.path.abspath(sys.argv[1])
rows = json.load(open(os.path.dirname(os.path.abspath(__file__)) + '/figures.json'))
bad = []
device = 'cuda' if '--cuda' in sys.argv else 'cpu'
SOME = ('cross_entropy, -100', 'focal')


def model(row):
    nodes, inputs, outputs, weights, feeds = [], [], [], [], {}
    for name, z in row['z'].items():
        z = np.asarray(z, np.float32)
        perm = [1, 0, 2] if row.get('turned') else list(range(z.ndim))
        nodes += [helper.make_node('Add', ['x_' + name, 'w_' + name], ['s_' + name]), helper.make_node('Transpose', ['s_' + name], [name], perm=perm)]
        inputs.append(helper.make_tensor_value_info('x_' + name, T.FLOAT, ['N', *z.shape[1:]]))
        outputs.append(helper.make_tensor_value_info(name, T.FLOAT, None))
        weights.append(numpy_helper.from_array(z, 'w_' + name))
        feeds['x_' + name] = np.zeros_like(z)
    if row['target'] is not None:
        feeds['target'] = np.asarray(row['target'], np.int64 if row['integers'] else np.float32)
    feeds.update({n: np.asarray(v) for n, v in row.get('arrays', {}).items()})
    onnx.save(helper.make_model(helper.make_graph(nodes, 'g', inputs, outputs, weights), opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'm.onnx')
    np.savez('d.npz', **feeds)


def call(*arguments):
    r = subprocess.run([program, *arguments, '--device', device], capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def near(row, what, got, want):
    got, want = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
    off = np.abs(got - want).max() if got.shape == want.shape else np.inf
    if not off <= 2e-5 * (1e-3 + np.abs(want).max()):
        bad.append(f"{row['name']}: {what} is off by {off:.2g} of {np.abs(want).max():.2g}")


def look(row):
    model(row)
    loss = next(iter(row['z'])) + '=' + row['loss'] if len(row['z']) > 1 else row['loss']
    options = ['m.onnx', '--data', 'd.npz', '--loss', loss, '--train', 'w_*']
    code, _, said = call('grad', *options, '-o', 'g.npz')
    if code:
        bad.append(f"{row['name']}: grad: exit {code}: {said}")
        return
    g = np.load('g.npz')
    near(row, 'the loss', g['loss'], row['value'])
    for name, want in row['grad'].items():
        near(row, f'the gradient of {name}', g['w_' + name], want)
    code, out, said = call('eval', *options, '--json')
    if code:
        bad.append(f"{row['name']}: eval: exit {code}: {said}")
    else:
        near(row, "eval's loss", json.loads(out)['loss'], row['value'])


def refused():
    """What cannot be meant, by the figures' first model."""
    model(rows[0])
    row = {r['name']: r for r in rows}
    for name, loss, code, says in (('hinge', 'hinge:p=3', 2, 'invalid value p=3'), ('triplet', 'a=triplet:positive=p', 2, 'needs negative='),
                                   ('triplet', 'a=triplet:positive=p,negative=q', 2, 'negative=q: the model has no output'),
                                   ('ctc', 'ctc:blank=9', 2, 'blank must be a class'), ('ctc', 'ctc:blank=3', 4, 'after its padding'),
                                   ('focal of classes', 'focal:alpha=0.5', 2, 'use class_weights for classes'), ('cosine', 'a=contrastive', 2, 'needs other=')):
        model(row[name])
        got, _, said = call('grad', 'm.onnx', '--data', 'd.npz', '--loss', loss, '-o', 'g.npz', '--train', 'w_*')
        if got != code or says not in said:
            bad.append(f'--loss {loss}: exit {got}, {code} is right, with {says}: {said}')
    model({**row['ctc'], 'target': [[9, 1]] * 6})
    got, _, said = call('grad', 'm.onnx', '--data', 'd.npz', '--loss', 'ctc', '-o', 'g.npz', '--train', 'w_*')
    if got != 4 or 'has class 9' not in said:
        bad.append(f'ctc with a class out of range: exit {got}: {said}')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        looked = [r for r in rows if device == 'cpu' or r['name'] in SOME]
        for r in looked:
            look(r)
        if device == 'cpu':
            refused()
            listed = subprocess.run([program, 'help', '--markdown', 'loss'], capture_output=True, text=True).stdout
            names = {*re.findall(r'^\| `(\w+)` \|', listed, re.M)}
            known = {'output', *(r['loss'].split(':')[0] for r in rows)}  # output: the graph's own
            bad.extend(f'figures.json has no row of loss {n}: add a row at the end of make_figures.py and run it with PyTorch' for n in sorted(names - known))
            bad.extend(f'figures.json has a row of loss {n}, which onnxtrain help loss does not list' for n in sorted(known - names))
        os.chdir('/')
    for line in bad:
        print(line)
    print(f'{len(bad)} faults' if bad else f"{len(looked)} rows as PyTorch's")
    sys.exit(bool(bad))
