"""report.html and compare: the page is well-formed, needs nothing from outside, and has the log's numbers; a run in progress
reloads itself; names of files and outputs cannot break it.

usage: test_report.py PROGRAM
"""
import base64
import csv
import html
import json
import os
import re
import struct
import tempfile
import xml.dom.minidom

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime

import cv2

EVIL = '<b>&"x'


def make(path, output):
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array((rng.standard_normal(s) / 3).astype(np.float32), n) for n, s in (('w', (4, 3)), ('b', (3,)))]
    g = h.make_graph([h.make_node('Gemm', ['x', 'w', 'b'], [output])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 4])],
                     [h.make_tensor_value_info(output, T.FLOAT, ['N', 3])], weights)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)
    np.savez('d.npz', x=rng.standard_normal((200, 4)).astype(np.float32), target=rng.integers(0, 3, 200))


def page(run):
    with open(run + '/report.html') as f:
        text = f.read()
    try:
        xml.dom.minidom.parseString(text.replace('<!DOCTYPE html>', ''))
    except Exception as e:
        check(False, f'{run}: the page is not well-formed: {e}')
    check(not re.search(r'(src|href)=(?!"data:image/png;base64,[A-Za-z0-9+/=]+"/>)|url\(|https?://', text), f'{run}: the page needs something from outside')
    check(not re.search(r'<script|<[^<>]*onerror', text), f'{run}: a script')
    return text


def path_points(svg):
    return [len(re.findall(r'[ML]', d)) for d in re.findall(r'stroke="#1971c2"[^>]* d="([^"]*)"', svg)]


os.chdir(tempfile.mkdtemp())
make(EVIL + '.onnx', 'y')
train = [EVIL + '.onnx', '--data', 'd.npz', '--val', 'd.npz', '--batch-size', '10', '--threads', '1', '-o', 'o.onnx', '-q']
call(*train, '--epochs', '3', '--run-dir', 'a', '--plots')
call(*train, '--epochs', '70', '--run-dir', 'b', '--lr', '0.01')
text = page('a')
with open('a/log.jsonl') as f:
    lines = [json.loads(line) for line in f]
evals = [e for e in lines if e['event'] == 'eval']
check('http-equiv="refresh"' not in text, 'a finished run reloads itself')
check(all(f'<td>{e["loss"]:.5g}</td><td>{e["accuracy"]:.5g}</td>' in text for e in evals), 'the evaluations are not those of the log')
check('<td>finished</td>' in text and '60 of 60' in text and '&lt;b&gt;&amp;&quot;x.onnx' in text, 'the summary')
check(path_points(text) == [60, 60, 60], f'60 updates: curves of {path_points(text)} points')
for name in 'loss.svg', 'lr.svg', 'grad_norm.svg', 'metric-1.svg':
    xml.dom.minidom.parse('a/plots/' + name)
check(all(500 <= n <= 1000 for n in path_points(page('b'))), f'1400 updates: curves of {path_points(page("b"))} points')

# The same page again from the log; without its end the run is in progress, and a log may end within a line.
os.remove('a/report.html')
call('report', 'a')
check(page('a') == text, 'report writes another page than the run')
with open('a/log.jsonl') as f:
    whole = f.read()
with open('a/log.jsonl', 'w') as f:
    f.write(whole[:whole.index('{"event":"end"') + 20])
call('report', 'a')
check('http-equiv="refresh"' in page('a'), 'a run in progress does not reload itself')
with open('a/log.jsonl', 'w') as f:
    f.write(whole)

# Classes by name, hostile ones too, of a table: the matrix, the table and the worst samples are those of the written model.
names = [EVIL, '</title><script>alert(1)</script>', "x' onerror=a", '\u00e4' * 30]
rng = np.random.default_rng(2)
rows = rng.standard_normal((300, 4)).astype(np.float32)
labels = [names[i % 4] for i in range(300)]
with open('classes.csv', 'w', newline='') as f:
    table = csv.writer(f)
    table.writerow(['a', 'b', 'c', 'd', 'target'])
    table.writerows([*(f'{v:.6f}' for v in row), label] for row, label in zip(rows, labels))
order = sorted(names, key=lambda n: n.encode())
weights = [numpy_helper.from_array((rng.standard_normal(s) / 3).astype(np.float32), n) for n, s in (('w', (4, 4)), ('b', (4,)))]
g = h.make_graph([h.make_node('Gemm', ['x', 'w', 'b'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 4])],
                 [h.make_tensor_value_info('y', T.FLOAT, ['N', 4])], weights)
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'classes.onnx')
for metrics in 'auto', 'all':
    call('classes.onnx', '--data', 'classes.csv', '--val', 'classes.csv', '--epochs', '2', '--batch-size', '7', '--threads', '1', '-o', 'co.onnx', '--run-dir', 'c',
         '--metrics', metrics, '--plots', '-q')
    text = page('c')
    with open('c/evaluation.json') as f:
        last = json.load(f)
    x = np.array([[float(f'{v:.6f}') for v in row] for row in rows], np.float32)
    scores = onnxruntime.InferenceSession('co.onnx').run(None, {'x': x})[0].astype(np.float64)
    y = np.array([order.index(n) for n in labels])
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    loss, said = -np.log(shares[np.arange(300), y]), scores.argmax(1)
    matrix = np.zeros((4, 4), int)
    np.add.at(matrix, (y, said), 1)
    check(last['classes'] == order and last['confusion'] == matrix.tolist(), f'classes: {last["classes"]} {last["confusion"]}, expected {order} {matrix.tolist()}')
    worst = np.argsort(-loss, kind='stable')[:12]
    check([w['sample'] for w in last['worst']] == worst.tolist(), f"worst samples: {[w['sample'] for w in last['worst']]}, expected {worst}")
    check(np.allclose([w['loss'] for w in last['worst']], loss[worst], rtol=1e-4) and [w['answer'] for w in last['worst']] == said[worst].tolist()
          and np.allclose([w['probability'] for w in last['worst']], shares.max(1)[worst], rtol=1e-4), f"worst samples: {last['worst']}")
    check(np.allclose([w['values'] for w in last['worst']], x[worst], rtol=1e-5), 'values of the worst samples')
    precision, recall = matrix.diagonal() / np.maximum(matrix.sum(0), 1), matrix.diagonal() / matrix.sum(1)
    for i, name in enumerate(order):
        shown = html.escape(name, quote=False).replace('"', '&quot;')
        row = f'<tr><td>{shown}</td><td>{matrix[i].sum()}</td><td>{precision[i]:.4f}</td><td>{recall[i]:.4f}</td>'
        check(row in text, f'the table of classes lacks {row}')
    check(sorted(re.findall(r'<title>true .*?: (\d+) of', text), key=int) == sorted(map(str, matrix[matrix > 0].tolist()), key=int), 'the cells of the matrix')
    xml.dom.minidom.parse('c/plots/confusion.svg')
    with open('c/log.jsonl') as f:
        e = [e for e in map(json.loads, f) if e['event'] == 'eval'][-1]
    check(metrics == 'auto' or all(f'<td>{e[k]:.5g}</td>' in text and f'>{k}</text>' in text for k in ('precision', 'recall', 'f1', 'auc', 'log_loss')), '--metrics all in the page')
    start = json.loads(open('c/log.jsonl').readline())
    check(start['memory']['weights'] == 80 and start['memory']['optimizer states'] >= 160 and '<th>optimizer states</th>' in text, f"memory: {start['memory']}")
    check('<th>waiting for data</th>' in text, 'the share of time waiting for data')

# What is live at the peak, by node of the file: as plan has it.
peak = start['memory_at_peak']
rows_of_plan = json.loads(call('plan', 'classes.onnx', '--data', 'classes.csv', '--val', 'classes.csv', '--batch-size', '7', '--threads', '1', '--json').stdout)
held = {n['node']: n['peak_bytes'] for n in rows_of_plan['nodes'] if n['peak_bytes']}
check({n['node']: n['bytes'] for n in peak['nodes']} == held and peak['bytes'] == rows_of_plan['peak_live_bytes'] == sum(held.values()) and peak['count'] == len(held),
      f'the peak: {peak}, {held}')
check([n['bytes'] for n in peak['nodes']] == sorted(held.values(), reverse=True), f'the peak is not by size: {peak}')
shown = text.split('<h2>Memory at the peak</h2>')[1].split('</table>')[0]
check(f"<p>{peak['bytes'] / 1e6:.3g} MB of" in shown and f"in {peak['stage']} of" in shown and shown.count('<tr>') == len(held), f'the page: {shown}')

# PNG beside SVG: the same picture in more pixels, with the curve where the SVG has it.
charts = json.loads(call('env', '--json').stdout)['charts']
if 'png' not in charts:
    check('libcairo2-dev' in call('report', 'a', '--plots=png', code=2).stderr, 'no PNG, and no word of the package')
else:
    for scale, option in (1, 'png:scale=1'), (2, 'png'), (3.5, 'png:scale=3.5'):
        for run in 'a', 'c':
            call('report', run, '--plots=' + option)
        picture = cv2.imread('a/plots/loss.png')
        check(picture.shape == (int(np.ceil(300 * scale)), int(np.ceil(640 * scale)), 3), f'{option}: {picture.shape}')
        with open('a/plots/loss.svg') as f:
            curve = re.search(r'stroke="#1971c2"[^>]* d="M([^"]*)"', f.read())[1]
        points = np.array([[float(v) for v in p.split()] for p in curve.split('L')])
        near = [np.abs(picture[int(scale * y) - 1:int(scale * y) + 2, int(scale * x) - 1:int(scale * x) + 2].astype(int) - (0xc2, 0x71, 0x19)).sum(-1).min() for x, y in points]
        check(max(near) < 120, f'{option}: the curve is not where the SVG has it: {near}')
        check((picture[0] == 255).all() and (picture[:, 0] == 255).all(), f'{option}: the background')
        picture = cv2.imread('c/plots/confusion.png')
        with open('c/plots/confusion.svg') as f:
            svg = f.read()
        width, height = (int(v) for v in re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
        check(picture.shape == (int(np.ceil(height * scale)), int(np.ceil(width * scale)), 3), f'{option}: {picture.shape}, {width} x {height}')
        cells = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="[\d.]+" fill="#(..)(..)(..)"(?: fill-opacity="([\d.]+)")?><title>', svg)
        for x, y, red, green, blue, opacity in cells:
            want = 255 + (np.array([int(blue, 16), int(green, 16), int(red, 16)]) - 255) * float(opacity or 1)
            check(np.abs(picture[int(scale * (float(y) + 4)), int(scale * (float(x) + 4))] - want).max() <= 2, f'{option}: the cell at {x}, {y}')
        check(len(cells) == (matrix > 0).sum(), f'{option}: {len(cells)} cells')
    os.remove('a/plots/loss.svg')
    call('report', 'a', '--plots=png', '--plots')
    check(os.path.exists('a/plots/loss.svg'), 'both forms at once')
    for bad in 'jpeg', 'png:scale=0', 'png:scale=9', 'svg:scale=2', 'png:size=2':
        check('plots' in call('report', 'a', '--plots=' + bad, code=2).stderr, f'--plots={bad}')

# Pictures: grey and in colours, of bytes, flat, and of numbers; each PNG has the sample's pixels.
def pixels(uri):
    """Of an unfiltered PNG or of one with any filter: (height, width, channels)."""
    data = base64.b64decode(uri.split(',', 1)[1])
    check(data[:8] == b'\x89PNG\r\n\x1a\n', 'a PNG')
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


for what, shape, sample in ('grey', (1, 28, 28), (1, 28, 28)), ('flat', (28, 28), (784,)), ('colours', (3, 32, 24), (3, 32, 24)), ('numbers', (3, 200, 100), (3, 200, 100)):
    images = rng.integers(0, 256, (20, *shape)).astype(np.uint8)
    if what == 'numbers':
        images = (images / 51 - 2).astype(np.float32)
    np.savez('i.npz', x=images, target=rng.integers(0, 2, 20))
    data = ['--data', 'i.npz', '--val', 'i.npz']
    if what == 'flat':  # a set of pictures, which a model that takes vectors gets as such
        os.mkdir('idx')
        for part in 'train', 't10k':
            with open(f'idx/{part}-images-idx3-ubyte', 'wb') as f:
                f.write(struct.pack('>4i', 0x803, 20, 28, 28) + images.tobytes())
            with open(f'idx/{part}-labels-idx1-ubyte', 'wb') as f:
                f.write(struct.pack('>2i', 0x801, 20) + bytes(i % 2 for i in range(20)))
        data = ['--data', 'idx']
    n = int(np.prod(sample))
    g = h.make_graph([h.make_node('Flatten', ['x'], ['f']), h.make_node('Gemm', ['f', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', *sample])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['N', 2])], [numpy_helper.from_array((rng.standard_normal((n, 2)) / n).astype(np.float32), 'w')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'i.onnx')
    call('i.onnx', *data, '--epochs', '1', '--threads', '1', '-o', 'io.onnx', '--run-dir', what, '-q')
    text = page(what)
    check(text.count('<img ') == 12, f'{what}: {text.count("<img ")} pictures')
    with open(what + '/evaluation.json') as f:
        worst = json.load(f)['worst']
    for w in worst:
        own, want = pixels(w['picture']), images[w['sample']]
        if what == 'grey':
            want = want[0]
        if what == 'colours':
            want = want.transpose(1, 2, 0)[..., ::-1]
        if what == 'numbers':
            want = want.transpose(1, 2, 0)[..., ::-1].astype(np.float64)
            want = (want - want.min()) / (want.max() - want.min()) * 255
            want = np.pad(want, ((0, 1), (0, 2), (0, 0)), constant_values=np.nan)
            want = np.nanmean(want.reshape(67, 3, 34, 3, 3), axis=(1, 3))
        check(own.shape == want.shape and np.abs(own - want.astype(np.float64)).max() <= 1, f"{what}: sample {w['sample']} is {own.shape}, expected {want.shape}")
    check(any(k in text for k in (f'sample {worst[0]["sample"]}</figcaption>',)), f'{what}: its number')

# Values: the squared error orders the samples.  A file that was tampered with shows nothing of it.
np.savez('v.npz', x=rows, target=(rows @ np.array([[1], [2], [-1], [.5]], np.float32)))
g = h.make_graph([h.make_node('Gemm', ['x', 'w'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', 4])],
                 [h.make_tensor_value_info('y', T.FLOAT, ['N', 1])], [numpy_helper.from_array((rng.standard_normal((4, 1)) / 3).astype(np.float32), 'w')])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'v.onnx')
call('v.onnx', '--data', 'v.npz', '--val', 'v.npz', '--epochs', '1', '--threads', '1', '-o', 'vo.onnx', '--run-dir', 'v', '-q')
with open('v/evaluation.json') as f:
    last = json.load(f)
off = (onnxruntime.InferenceSession('vo.onnx').run(None, {'x': rows})[0] - np.load('v.npz')['target'])[:, 0].astype(np.float64) ** 2
check([w['sample'] for w in last['worst']] == np.argsort(-off, kind='stable')[:12].tolist() and 'confusion' not in last, f"values: {last['worst']}")
check('squared error' in page('v') and 'Confusion' not in page('v'), 'the page of values')
last['worst'] = [{'sample': 1, 'loss': '<script>', 'target': [], 'picture': 'data:image/png;base64,AA" onerror="alert(1)'}, 7, {'values': ['<b>']}]
last['split'], last['confusion'] = '<script>', [[1, '<b>'], 3]
with open('v/evaluation.json', 'w') as f:
    json.dump(last, f)
call('report', 'v')
page('v')
for bad in 'null', '[', '[]', '{"worst": {}}', '':
    with open('v/evaluation.json', 'w') as f:
        f.write(bad)
    call('report', 'v')
    page('v')

# The last row has the numbers of both evaluations of its step.
call('classes.onnx', '--data', 'classes.csv', '--val', 'classes.csv', '--test', 'classes.csv', '--epochs', '2', '--threads', '1', '-o', 'co.onnx', '--run-dir', 't', '-q')
evals_of = re.findall(r'<tr><td>(\d+)</td><td>(\d+)</td>(.*?)</tr>', page('t').split('<h2>Evaluations')[1].split('<h2>')[0])
check([e[0] for e in evals_of] == ['1', '2'] and [e[2].count('<td></td>') for e in evals_of] == [2, 0], f'rows of evaluations: {evals_of}')

# With --select best the test set is looked at with the weights of an earlier epoch: it stands in that epoch's row.
call('classes.onnx', '--data', 'classes.csv', '--val', 'classes.csv', '--test', 'classes.csv', '--epochs', '4', '--threads', '1', '-o', 'co.onnx', '--run-dir', 's',
     '--select', 'best', '--optimizer', 'sgd:lr=2,momentum=0.9', '--monitor', 'loss', '-q')
with open('s/log.jsonl') as f:
    events = [json.loads(line) for line in f]
chosen = events[-1]['best_epoch']
evals_of = re.findall(r'<tr><td>(\d+)</td><td>(\d+)</td>(.*?)</tr>', page('s').split('<h2>Evaluations')[1].split('<h2>')[0])
check(chosen < 4 and [e[0] for e in evals_of] == ['1', '2', '3', '4'], f'the best epoch is {chosen}; rows: {evals_of}')
check([e[2].count('<td></td>') for e in evals_of] == [0 if k + 1 == chosen else 2 for k in range(4)], f'the row of epoch {chosen}: {evals_of}')
tested = [e for e in events if e['event'] == 'eval' and e['split'] == 'test'][0]
check(f'<td>{tested["loss"]:.5g}</td>' in evals_of[chosen - 1][2] and evals_of[chosen - 1][1] == str(10 * chosen), f'{tested}: {evals_of}')

out = call('compare', 'a', 'b').stdout
lines = {r[:22].strip(): r[22:].split() for r in out.splitlines()}
best = [e for e in evals if 'best' in e][-1]
check(best['accuracy'] == max(e['accuracy'] for e in evals) and best['best'] == 'val accuracy', f'the best in the log: {best}')
check(f'(by val accuracy: ' in page('a'), 'the best epoch in the report')
check(lines[''] == ['a', 'b'] and lines['steps'] == ['60', '1400'], f'compare: {out}')
check(lines['best accuracy'][0] == f'{best["accuracy"]:.5g}' and lines['best epoch'][0] == str(best['epoch']), f'compare: {out}')
check(lines['--lr'] == ['-', '0.01'] and lines['--epochs'] == ['3', '70'] and '--batch-size' not in lines, f'compare: {out}')
for words in (['a'], [], ['a', 'nothing'], ['a', 'd.npz']):
    call('compare', *words, code=2)
os.mkdir('empty')
check('no log.jsonl' in call('report', 'empty', code=2).stderr, 'a folder without a log')
finish('checks')
