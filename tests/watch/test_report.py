"""report.html and compare: the page is well-formed, needs nothing from outside, and has the log's numbers; a run in progress
reloads itself; names of files and outputs cannot break it.

usage: test_report.py PROGRAM
"""
import json
import os
import re
import tempfile
import xml.dom.minidom

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

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
    check(not re.search(r'(src|href)=|url\(|https?://', text), f'{run}: the page needs something from outside')
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

# A confusion matrix where the log has one.
os.makedirs('c')
with open('c/log.jsonl', 'w') as f:
    f.write(whole.replace('"event":"eval",', '"event":"eval","confusion":[[7,1],[2,3]],'))
call('report', 'c')
check(re.search(r'<th>0</th><td style="background:rgba\(47,158,68,87%\)">7</td>', page('c')), 'the confusion matrix')

out = call('compare', 'a', 'b').stdout
rows = {r[:22].strip(): r[22:].split() for r in out.splitlines()}
best = [e for e in evals if 'best' in e][-1]
check(best['accuracy'] == max(e['accuracy'] for e in evals) and best['best'] == 'val accuracy', f'the best in the log: {best}')
check(f'(by val accuracy: ' in page('a'), 'the best epoch in the report')
check(rows[''] == ['a', 'b'] and rows['steps'] == ['60', '1400'], f'compare: {out}')
check(rows['best accuracy'][0] == f'{best["accuracy"]:.5g}' and rows['best epoch'][0] == str(best['epoch']), f'compare: {out}')
check(rows['--lr'] == ['-', '0.01'] and rows['--epochs'] == ['3', '70'] and '--batch-size' not in rows, f'compare: {out}')
for words in (['a'], [], ['a', 'nothing'], ['a', 'd.npz']):
    call('compare', *words, code=2)
os.mkdir('empty')
check('no log.jsonl' in call('report', 'empty', code=2).stderr, 'a folder without a log')
finish('checks')
