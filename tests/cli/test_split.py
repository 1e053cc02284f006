"""A column of a table that names the part of each row: --split.

The same parts as files of their own are the reference: the same losses and the same weights.

usage: test_split.py PROGRAM
"""
import json
import os
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(5)
NAMES = {'train': ('train', 'Training'), 'val': ('val', 'valid', 'Validation', 'dev'), 'test': ('test', 'TESTING')}
PLAIN = ['--run-dir', 'none', '--epochs', '2', '--optimizer', 'sgd:lr=0.1', '--seed', '4']


def model(path, columns):
    w = [numpy_helper.from_array(np.random.default_rng(1).standard_normal(s).astype('f4'), n) for n, s in (('w', (columns, 2)), ('b', (2,)))]
    g = h.make_graph([h.make_node('Gemm', ['x', 'w', 'b'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['n', columns])],
                     [h.make_tensor_value_info('y', T.FLOAT, ['n', 2])], w)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)


def write(path, rows, head):
    open(path, 'w').write('\n'.join([head] + [','.join(map(str, r)) for r in rows]) + '\n')


def rows_of(n):
    """a, b, colour, class, name of the part, part"""
    rows = []
    for i in range(n):
        a, b = rng.standard_normal(2).round(3)
        part = ['train', 'train', 'val', 'test'][i % 4] if i < 8 else rng.choice(['train'] * 6 + ['val'] * 2 + ['test'] * 2)
        rows.append((a, b, rng.choice(['red', 'blue']), 'yes' if a + b > 0 else 'no', rng.choice(NAMES[part]), part))
    return rows


def evaluations(log):
    return [(e['split'], e['samples'], e['loss']) for e in map(json.loads, open(log)) if e['event'] == 'eval']


def as_files(rows):
    """The column in the middle, and as the last one, which is then no target."""
    for part in NAMES:
        write(f'{part}.csv', [r[:4] for r in rows if r[5] == part], 'a,b,colour,class')
    write('middle.csv', [(*r[:2], r[4], *r[2:4]) for r in rows], 'a,b,part,colour,class')
    write('last.csv', [r[:5] for r in rows], 'a,b,colour,class,part')
    call('train', 'm.onnx', '--data', 'train.csv', '--val', 'val.csv', '--test', 'test.csv', *PLAIN, '-o', 'want.onnx', '--log', 'want.jsonl')
    want = evaluations('want.jsonl')
    check([w[0] for w in want] == ['val', 'val', 'test'], f'{len(want)} evaluations of files: of val after each epoch, of test at the end')
    for name in 'middle', 'last':
        r = call('train', 'm.onnx', '--data', f'{name}.csv', '--split', 'part', *PLAIN, '-o', 'o.onnx', '--log', 'o.jsonl')
        check(evaluations('o.jsonl') == want, f'{name}: the losses of parts as files {r.stderr}')
        check(open('o.onnx', 'rb').read() == open('want.onnx', 'rb').read(), f'{name}: the same file')
        check("rows are 'train' in column 'part'" in r.stderr, f'{name}: says how many rows are of the part {r.stderr}')
        r = call('eval', 'o.onnx', '--data', f'{name}.csv', '--split', 'part', '--json')
        check(abs(json.loads(r.stdout)['loss'] - want[-1][2]) < 1e-9, f'{name}: eval takes the rows of the test {r.stdout}')
    r = call('data', 'middle.csv', '--split', 'part')
    check(f'{sum(r[5] == "train" for r in rows)} samples' in r.stdout, f'data shows the training rows {r.stdout}')
    r = call('data', 'middle.csv')
    check("column 'part' seems to name the part of each row; --split part uses it" in r.stdout + r.stderr, f'without the option, a note names it {r.stdout}')


def fewer_parts(rows):
    write('two.csv', [r[:5] for r in rows if r[5] != 'val'], 'a,b,colour,class,part')
    call('train', 'm.onnx', '--data', 'two.csv', '--split', 'part', *PLAIN, '-o', 'o.onnx', '--log', 'o.jsonl')
    check({e[0] for e in evaluations('o.jsonl')} == {'test'}, 'without rows for validation, the test is evaluated')
    r = call('sweep', 'm.onnx', '--data', 'last.csv', '--split', 'part', '--grid', 'lr=0.1,0.2', '--epochs', '1', '--run-dir', 's', '--monitor', 'accuracy')
    check(r.returncode == 0, f'a sweep validates on the rows of the part {r.stderr}')


def series(rows):
    """Windows of the rows of each part: as those of files."""
    model('w.onnx', 8)
    m = onnx.load('w.onnx')
    m.graph.node.insert(0, h.make_node('Flatten', ['s'], ['x']))
    m.graph.input[0].CopyFrom(h.make_tensor_value_info('s', T.FLOAT, ['n', 4, 2]))
    onnx.save(m, 'w.onnx')
    ordered = [(*r[:2], r[3], part) for i, part in enumerate(NAMES) for r in rows[40 * i:40 * i + 40]]
    write('series.csv', ordered, 'a,b,class,part')
    for part in NAMES:
        write(f'{part}.csv', [r[:3] for r in ordered if r[3] == part], 'a,b,class')
    options = ['--inputs', 'a,b', '--length', '4', '--ahead', '0', *PLAIN, '-o', 'o.onnx', '--log', 'o.jsonl']
    call('train', 'w.onnx', '--data', 'train.csv', '--val', 'val.csv', '--test', 'test.csv', *options)
    want = evaluations('o.jsonl')
    call('train', 'w.onnx', '--data', 'series.csv', '--split', 'part', *options)
    check([w[1] for w in want] == [37, 37, 37] and evaluations('o.jsonl') == want, f'windows of each part {want}')
    r = call('train', 'w.onnx', '--data', 'last.csv', '--split', 'part', *options, code=4)
    check('rows of a part (--split) are not one below the other' in r.stderr, f'windows of scattered rows are refused {r.stderr}')


def refused(rows):
    write('odd.csv', [(*r[:4], 'holdout' if i == 3 else r[5]) for i, r in enumerate(rows)], 'a,b,colour,class,part')
    write('none.csv', [(*r[:4], 'test') for r in rows], 'a,b,colour,class,part')
    write('narrow.csv', [(r[0], r[5]) for r in rows], 'a,part')
    np.savez('x.npz', x=np.zeros((4, 4), 'f4'), target=np.zeros(4, 'i8'))
    for args, code, text in ((['last.csv', '--split', 'prt'], 4, "--split: it has no column 'prt'"),
                             (['odd.csv', '--split', 'part'], 4, "line 5: column 'part' (--split) has 'holdout'; expected train, val or test"),
                             (['narrow.csv', '--split', 'part'], 4, 'has 1 column beside that of --split'),
                             (['none.csv', '--split', 'part'], 4, "no row of column 'part' (--split) is 'train'"),
                             (['last.csv', '--split', 'part', '--val-split', '0.2'], 2, '--split and --val-split: use one of them'),
                             (['last.csv', '--split', 'part', '--test', 'test.csv'], 2, '--split and --test: use one of them'),
                             (['x.npz', '--split', 'part'], 2, '--split: x.npz is not a table')):
        r = call('train', 'm.onnx', '--data', *args, *PLAIN, '-o', 'o.onnx', code=code)
        check(text in r.stderr, f'{args}: exit {code}, {text}: {r.stderr}')


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    model('m.onnx', 4)
    table = rows_of(120)
    as_files(table)
    fewer_parts(table)
    series(table)
    refused(table)
    os.chdir('/')
finish('parts')
