"""What is said of data that does not go with the model: what happened, and what to do.

usage: test_messages.py PROGRAM
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import cv2
from scripts import h as helper, np, numpy_helper, onnx

program = os.path.abspath(sys.argv[1])
rng = np.random.default_rng(0)
bad = []


def run(*words, rc=0, says=(), not_says=()):
    p = subprocess.run([program, *words], capture_output=True, text=True)
    text = p.stdout + p.stderr
    missing, extra = [s for s in says if s not in text], [s for s in not_says if s in text]
    if p.returncode != rc or missing or extra:
        bad.append(f'{" ".join(words)}: exit {p.returncode}, missing {missing}, unexpected {extra}:\n{text}')
    return text


def model(path, nodes, x, y, **w):
    graph = helper.make_graph([helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], 'g',
                              [helper.make_tensor_value_info(*x)], [helper.make_tensor_value_info('out', 1, y)],
                              [numpy_helper.from_array(rng.standard_normal(s).astype('f4'), k) for k, s in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)


def test_arrays():
    model('net.onnx', [('MatMul', ['x', 'w'], ['out'])], ('x', 1, ['N', 4]), ['N', 3], w=(4, 3))
    x = rng.standard_normal((10, 4)).astype('f4')
    np.savez('a.npz', x=x)
    np.savez('b.npz', x=x, target=np.zeros(10, int))
    np.savez('z.npz', z=x)
    np.save('x.npy', x)
    np.save('y.npy', x)
    run('predict', 'net.onnx', 'a.npz', 'b.npz', rc=4, says=("two arrays are named 'x'", 'use one file after the other'))
    run('predict', 'net.onnx', 'x.npy', 'y.npy', rc=4, says=('arrays without names', 'use one file after the other'))
    run('predict', 'net.onnx', 'a.npz', 'z.npz', says=("'z' is not used: no input of the model has its name",))
    run('predict', 'net.onnx', 'b.npz', not_says=('not used',))
    run('predict', 'net.onnx', 'x.npy', not_says=('not used',))


def test_empty_words():
    run('', '--data', 'mnist', rc=2, says=('argument 1 of train is empty',))
    run('compare', '/tmp', '', rc=2, says=('argument 2 of compare is empty',))
    run('data', '', rc=2, says=('argument 1 of data is empty',))


def stopped(ready, sig, code, *words, says):
    """Ends as soon as `ready` holds of the process."""
    p = subprocess.Popen([program, *words], stderr=subprocess.PIPE, text=True)
    end = time.time() + 60
    while time.time() < end and p.poll() is None and not ready(p):
        time.sleep(0.001)
    p.send_signal(sig)
    text = p.communicate()[1]
    if p.returncode != code or any(s not in text for s in says):
        bad.append(f'{sig.name} of {" ".join(words)}: exit {p.returncode}, not {code} with {says}:\n{text}')


def test_dates():
    with open('dates.csv', 'w') as f:
        f.write('a;day;y\n' + ''.join(f'{i};{i % 28 + 1:02}.{i % 12 + 1:02}.20{i % 90 + 10};{i % 7}\n' for i in range(90)))
    run('data', 'dates.csv', says=("column 'day' has '01.01.2010'; dates are read in the form 2023-12-31 only",))


def test_small_things():
    model('net.onnx', [('MatMul', ['x', 'w'], ['out'])], ('x', 1, ['N', 4]), ['N', 1], w=(4, 1))
    np.save('words.npy', np.array([['a', 'b', 'c', 'd']]))
    run('predict', 'net.onnx', 'words.npy', rc=4, says=("words.npy: the array is string, but input 'x' is float32",))
    np.savez('values.npz', x=rng.standard_normal((8, 4)).astype('f4'), target=rng.standard_normal((8, 1)).astype('f4'))
    train = 'net.onnx', '--data', 'values.npz', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx'
    run(*train, '--augment', 'noise:std=0', says=('--augment noise: std is 0: nothing is added',))
    run(*train, '--monitor', 'val_loss', rc=2, says=('metrics are named without val_', '--val-split', 'use --monitor loss'))
    run('sweep', 'net.onnx', 'lr=0.1,0.01', *train[1:5], '--monitor', 'val_mae', rc=2, says=('use --monitor mae',))
    # Before the first training, and without a run folder.
    run('sweep', 'net.onnx', 'lr=0.1,0.01', *train[1:5], '--run-dir', 'swept', '--monitor', 'mae', rc=2, says=('--monitor mae needs validation samples',), not_says=('run 1 of 2',))
    if os.path.exists('swept'):
        bad.append('sweep --monitor mae without validation samples made its run folder')
    run(*train, '--loss', 'cross_entropy:weight=balanced', rc=2, says=('weight=balanced; expected a number; see also class_weights: factor on the loss of each class; auto',))
    run(*train, '--loss', 'bce_with_logits:weight=auto', rc=2, says=('see also pos_weight: ',))
    run('--help-all', says=('128+N', '129 SIGHUP', '141 SIGPIPE', '152 SIGXCPU'))


def test_positions():
    """Texts that are longer than the model's table of positions, which an input looks up."""
    with open('texts.csv', 'w') as f:
        f.write('text,label\n' + ''.join(f'{"abcdefghijklmnop"[:8 + i % 8]},{"pn"[i % 2]}\n' for i in range(20)))
    ends = [('Add', ['t', 'p'], ['s']), ('ReduceMean', ['s'], ['r'], {'axes': [1], 'keepdims': 0}), ('MatMul', ['r', 'w'], ['out'])]
    shapes = dict(e=(256, 8), pe=(8, 8), w=(8, 2))
    train = '--data', 'texts.csv', '--text', 'bytes', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx'
    model('fed.onnx', [('Gather', ['pe', 'position_ids'], ['p']), ('Gather', ['e', 'input_ids'], ['t']), *ends], ('input_ids', 7, ['N', 'T']), ['N', 2], **shapes)
    m = onnx.load('fed.onnx')
    m.graph.input.append(helper.make_tensor_value_info('position_ids', 7, ['N', 'T']))
    onnx.save(m, 'fed.onnx')
    run('fed.onnx', *train, '--length', '12', rc=2, says=("samples of 12 tokens are too long: input 'position_ids' of the model is looked up in a table of 8 positions; use --length",))
    run('fed.onnx', *train)
    # Tables of the file itself, of 8 positions: the first ones are added, or looked up by their number.
    def number(name, v):
        return 'Constant', [], [name], {'value': numpy_helper.from_array(np.array(v, np.int64))}
    length = [('Shape', ['input_ids'], ['T1'], {'start': 1, 'end': 2}), ('Gather', ['e', 'input_ids'], ['t'])]
    added = number('zero', [0]), ('Slice', ['pe', 'zero', 'T1', 'zero'], ['p'])
    looked_up = number('zero', 0), number('one', 1), ('Squeeze', ['T1'], ['T']), ('Range', ['zero', 'T', 'one'], ['at']), ('Gather', ['pe', 'at'], ['p'])
    for own in added, looked_up:
        model('own.onnx', [*length, *own, *ends], ('input_ids', 7, ['N', 'T']), ['N', 2], **shapes)
        run('own.onnx', *train, rc=3, says=("input 'input_ids': the longest sample that the model computes has length 8, but those of the data have 15; use --length 8",))
        run('own.onnx', *train, '--length', '8')
    model('own.onnx', [('MatMul', ['input_ids', 'w'], ['out'])], ('input_ids', 1, ['N', 'T']), ['N', 2], w=(3, 2))
    np.savez('rows.npz', input_ids=rng.standard_normal((8, 5)).astype('f4'), target=np.zeros(8, int))
    run('own.onnx', '--data', 'rows.npz', '--steps', '1', '--run-dir', 'none', rc=3, says=('5',), not_says=('--length',))


def test_one_length():
    """A layer takes all places of a sample: one length is computed, shorter or longer than that of the data, in each command."""
    ends = [('Conv', ['x', 'k'], ['c']), ('Flatten', ['c'], ['f']), ('MatMul', ['f', 'w'], ['out'])]
    model('places.onnx', ends, ('x', 1, ['N', 2, 'T']), ['N', 3], k=(4, 2, 5), w=(4 * 16, 3))
    for length in 11, 33:
        np.savez('places.npz', x=rng.standard_normal((8, 2, length)).astype('f4'), target=np.arange(8) % 3)
        said = f"input 'x': the model does not compute samples of length {length}, as those of the data; the nearest length that it computes is 20"
        for words in (), ('check',), ('eval',), ('predict',):
            data = ('places.npz',) if 'predict' in words else ('--data', 'places.npz')
            run(*words, 'places.onnx', *data, rc=3, says=(said,), not_says=(said + '\n' + "input 'x'",))
    np.savez('places.npz', x=rng.standard_normal((8, 2, 20)).astype('f4'), target=np.arange(8) % 3)
    run('eval', 'places.onnx', '--data', 'places.npz')
    # An image has two open axes, neither of which is a length.
    model('image.onnx', ends, ('x', 1, ['N', 2, 'H', 'W']), ['N', 3], k=(4, 2, 5, 5), w=(4 * 16, 3))
    np.savez('image.npz', x=rng.standard_normal((8, 2, 9, 9)).astype('f4'), target=np.arange(8) % 3)
    run('eval', 'image.onnx', '--data', 'image.npz', rc=3, not_says=('length',))


def test_standard_input():
    """It is no data set, and no named one is advised."""
    model('in.onnx', [('MatMul', ['x', 'w'], ['out'])], ('x', 1, ['N', 4]), ['N', 3], w=(4, 3))
    said = '-: standard input cannot be read as data; write it into a file first'
    for words in ('data', '-'), ('in.onnx', '--data', '-'), ('predict', 'in.onnx', '-'):
        run(*words, rc=4, says=(said,), not_says=('mnist',))
    run('eval', 'in.onnx', '--data', 'in.npz', '--metrics', 'all', rc=2, says=('--metrics does not apply to this command; eval measures all metrics that fit the outputs',))


def catches(p):
    """SIGTERM has a handler: the program has begun to read the model and the data."""
    try:
        lines = pathlib.Path(f'/proc/{p.pid}/status').read_text().splitlines()
    except OSError:
        return False
    return any(int(s.split()[1], 16) >> (signal.SIGTERM - 1) & 1 for s in lines if s.startswith('SigCgt'))


def test_stopped_early():
    """Before the training and within its first step: nothing that could be continued, which is said."""
    model('deep.onnx', [('MatMul', ['x', 'w'], ['h'])] + [('MatMul', ['h', 'v'], ['h2']), ('MatMul', ['h2', 'u'], ['out'])],
          ('x', 1, ['N', 1000]), ['N', 3], w=(1000, 2000), v=(2000, 2000), u=(2000, 3))
    n = 20000
    with open('long.csv', 'w') as f:
        f.writelines(','.join(['0.5'] * 60) + '\n' for _ in range(60000))
    np.savez('wide.npz', x=np.zeros((n, 1000), 'f4'), target=np.zeros(n, int))
    model('thin.onnx', [('MatMul', ['x', 'w'], ['out'])], ('x', 1, ['N', 59]), ['N', 1], w=(59, 1))
    stopped(catches, signal.SIGTERM, -signal.SIGTERM, 'thin.onnx', '--data', 'long.csv', '-o', 'early.onnx', '--run-dir', 'early',
            says=('stopped before the training began; nothing was written',))
    if os.path.exists('early.onnx') or os.path.exists('early'):
        bad.append('stopped before the training began: something was written')
    started = lambda _: os.path.exists('first/log.jsonl') and '"start"' in pathlib.Path('first/log.jsonl').read_text()
    stopped(started, signal.SIGINT, 130, 'deep.onnx', '--data', 'wide.npz', '-o', 'first.onnx', '--run-dir', 'first', '--batch-size', str(n), '--threads', '1', '--device', 'cpu',
            says=('cancelled after 0 steps', 'stopped before the first step was complete: no weight changed, and no checkpoint was written; run the command again'))
    run('resume', 'first', rc=7, says=('has no checkpoint; start the training again',))


def test_threads():
    np.savez('t.npz', x=rng.standard_normal((8, 4)).astype('f4'), target=rng.standard_normal((8, 3)).astype('f4'))
    model('net.onnx', [('MatMul', ['x', 'w'], ['out'])], ('x', 1, ['N', 4]), ['N', 3], w=(4, 3))
    train = 'net.onnx', '--data', 't.npz', '--loss', 'mse', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx', '--threads'
    many = 4 * len(os.sched_getaffinity(0)) + 1
    run(*train, str(many), says=(f'warning: --threads {many}: ', 'available'))
    run(*train, '1', not_says=('available',))


def test_texts():
    model('tokens.onnx', [('Gather', ['e', 'ids'], ['h']), ('ReduceMean', ['h'], ['m'], dict(axes=[1], keepdims=0)), ('MatMul', ['m', 'v'], ['out'])],
          ('ids', 7, ['N', 'T']), ['N', 2], e=(300, 8), v=(8, 2))
    for name, head, row in (('t', 'words,label', 'number {0} of them,{1}'), ('same', 'words', 'number {0} of them'), ('other', 'phrase', 'number {0} of them'),
                            ('two', 'phrase,id', 'number {0} of them,{0}'), ('more', 'id,words', '{0},number {0} of them')):
        with open(f'{name}.csv', 'w') as f:
            f.write(head + '\n' + ''.join(row.format(i, 'ab'[i % 2]) + '\n' for i in range(20)))
    with open('lines.txt', 'w') as f:
        f.writelines(f'number {i} of them\n' for i in range(20))
    train = ('tokens.onnx', '--data', 't.csv', '--epochs', '1', '--run-dir', 'none', '-o', 'out.onnx')
    run(*train, rc=4, says=('--tokenizer PATH or --text bytes',))
    run(*train, '--text', 'bytes')
    for data in ('same.csv', 'more.csv', 'lines.txt'):
        run('predict', 'out.onnx', data, not_says=("no column 'words'",))
    run('predict', 'out.onnx', 'other.csv', says=("no column 'words', which the model was trained with: column 'phrase' is taken",))
    run('predict', 'out.onnx', 'two.csv', rc=4, says=("no column 'words', which the model was trained with", '--inputs COLUMN'))
    run('predict', 'out.onnx', 'two.csv', '--inputs', 'phrase', not_says=("no column 'words'",))


def test_classes():
    model('image.onnx', [('Flatten', ['x'], ['f']), ('MatMul', ['f', 'w'], ['out'])], ('x', 1, ['N', 3, 8, 8]), ['N', 2], w=(192, 2))
    for part, classes in (('train', ('cat', 'dog')), ('val', ('cat', 'cow', 'dog'))):
        for name in classes:
            os.makedirs(f'{part}/{name}')
            for i in range(2):
                cv2.imwrite(f'{part}/{name}/{i}.png', rng.integers(0, 255, (8, 8, 3), dtype=np.uint8))
    run('image.onnx', '--data', 'train', '--val', 'val', '--run-dir', 'none', '-o', 'x.onnx', rc=4,
        says=("val: has class 'cow', which is not in train (classes 'cat', 'dog'): rename or remove it, or use a model that was trained with it",))


def test_averages():
    """What precision, recall and F1 are means of."""
    x = rng.standard_normal((40, 4)).astype('f4')
    for n, tail, target, text in ((3, 'Identity', np.arange(40) % 3, 'means over the classes'), (3, 'Sigmoid', (x[:, :3] > 0).astype('f4'), 'means over the labels'),
                                  (1, 'Sigmoid', (x[:, :1] > 0).astype('f4'), 'those of class 1')):
        model('average.onnx', [('MatMul', ['x', 'w'], ['z']), (tail, ['z'], ['out'])], ('x', 1, ['N', 4]), ['N', n], w=(4, n))
        np.savez('average.npz', x=x, target=target)
        of_accuracy = 'accuracy is that of single labels, not of samples with all labels correct'
        run('eval', 'average.onnx', '--data', 'average.npz', says=(f'precision, recall and f1 are {text}', of_accuracy if 'labels' in text else ''))


def test_masks():
    """Which epoch is the best is decided by the accuracy, of pixels; a line names the metric that counts classes alike."""
    model('masks.onnx', [('Conv', ['x', 'w'], ['out'])], ('x', 1, ['N', 1, 4, 4]), ['N', 3, 4, 4], w=(3, 1, 1, 1))
    x = rng.standard_normal((20, 1, 4, 4)).astype('f4')
    np.savez('masks.npz', x=x, target=np.digitize(x[:, 0], [-1, 1]))
    train = 'masks.onnx', '--data', 'masks.npz', '--steps', '2', '--run-dir', 'none'
    hint = 'the accuracy of pixels decides which epoch is the best; --monitor iou'
    run(*train, '--val-split', '0.5', says=(hint,))
    for options in ('--val-split', '0.5', '--monitor', 'iou'), ('--val-split', '0.5', '--monitor', 'accuracy'), ():
        run(*train, *options, not_says=(hint,))
    # the last line has the monitored metric as the line of the epoch does, and a resumed run that computes no update has it, too
    train = 'masks.onnx', '--data', 'masks.npz', '--epochs', '2', '--val-split', '0.5', '--monitor', 'iou', '--run-dir', 'watched', '-o', 'o.onnx'
    for words in train, ('resume', 'watched'):
        said = run(*words, says=('trained model: ',))
        lines = {start: line for line in said.splitlines() for start in ('epoch 2: val: ', 'trained model: ') if line.startswith(start)}
        if ', iou ' not in lines['trained model: '] or lines.get('epoch 2: val: ', 'iou ').split('iou ')[1].split(' (')[0] not in lines['trained model: ']:
            bad.append(f'{words}: {lines}')


def test_losses():
    """The same loss twice on the one output; a number that JSON has no place for; an output of class numbers, whose targets look like those of a Sigmoid."""
    model('loss.onnx', [('MatMul', ['x', 'w'], ['out'])], ('x', 1, ['N', 4]), ['N', 3], w=(4, 3))
    np.savez('loss.npz', x=rng.standard_normal((10, 4)).astype('f4'), target=np.arange(10) % 3)
    for pair in (('mse', 'out=mse'), ('out=mse', 'mse')):
        run('loss.onnx', '--data', 'loss.npz', '--loss', pair[0], '--loss', pair[1], rc=2, says=("output 'out' has loss mse twice",))
    open('big.jsonl', 'w').write('{"a": 1e400, "target": 0}\n')
    run('loss.onnx', '--data', 'big.jsonl', rc=4, says=('line 1 is not a JSON object', '(real number overflow'))
    g = helper.make_graph([helper.make_node('MatMul', ['x', 'w'], ['z']), helper.make_node('ArgMax', ['z'], ['out'], axis=-1, keepdims=0)], 'g',
                          [helper.make_tensor_value_info('x', 1, ['N', 5, 4])], [helper.make_tensor_value_info('out', 7, ['N', 5])],
                          [numpy_helper.from_array(rng.standard_normal((4, 3)).astype('f4'), 'w')])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'number.onnx')
    np.savez('number.npz', x=rng.standard_normal((10, 5, 4)).astype('f4'), target=np.arange(50).reshape(10, 5) % 2)
    run('number.onnx', '--data', 'number.npz', rc=3, says=("produced by ArgMax", "use --output 'z'", "--loss 'z=cross_entropy'"), not_says=('bce_with_logits',))


def test_column_of_images():
    for name, column in (('a', 'photo'), ('b', 'file')):
        with open(f'{name}.csv', 'w') as f:
            f.write(f'{column},label\n' + ''.join(f'train/{c}/{i}.png,{c}\n' for c in ('cat', 'dog') for i in range(2)))
    run('image.onnx', '--data', 'a.csv', '--epochs', '1', '--run-dir', 'none', '-o', 'i.onnx')
    run('predict', 'i.onnx', 'a.csv', not_says=('is taken',))
    run('predict', 'i.onnx', 'b.csv', says=("b.csv: no column 'photo' of files, which the model was trained with: column 'file' is taken",))


def test_ignored_inputs():
    """An input whose data no output depends on is named, also if its shape is read, but not one that only an output without a loss reads."""
    names = 'x', 'idle', 'dead', 'sized', 'other'
    inputs = [helper.make_tensor_value_info(n, 1, ['N', 4]) for n in names]
    outputs = [helper.make_tensor_value_info(n, 1, ['N', 4]) for n in ('y', 'z')]
    nodes = [helper.make_node('MatMul', ['x', 'w'], ['p']), helper.make_node('Shape', ['sized'], ['s']), helper.make_node('Reshape', ['p', 's'], ['y']),
             helper.make_node('Relu', ['dead'], ['r']), helper.make_node('Relu', ['other'], ['z'])]
    w = numpy_helper.from_array(rng.standard_normal((4, 4)).astype('f4'), 'w')
    onnx.save(helper.make_model(helper.make_graph(nodes, 'g', inputs, outputs, [w]), opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'idle.onnx')
    np.savez('idle.npz', target_y=np.ones((6, 4), 'f4'), **{n: rng.standard_normal((6, 4)).astype('f4') for n in names})
    line = 'warning: inputs whose data no output depends on (3: idle, dead, sized)'
    for words in ['inspect', 'idle.onnx'], ['check', 'idle.onnx', '--data', 'idle.npz'], ['idle.onnx', '--data', 'idle.npz', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx']:
        run(*words, says=(line if words[0] != 'check' else line.removeprefix('warning: '),))
    run('idle.onnx', '--data', 'idle.npz', '--steps', '1', '--run-dir', 'none', '-o', 'o.onnx', '--output', 'y', not_says=('no output depends on',))


def test_tables_without_targets():
    """A loss that needs no target: a table of images alone is enough."""
    names = 'anchor', 'near', 'far'
    nodes = [helper.make_node('ReduceMean', [n], [n + '_m'], axes=[2, 3], keepdims=0) for n in names] + [helper.make_node('MatMul', [n + '_m', 'w'], ['e' + n]) for n in names]
    w = numpy_helper.from_array(rng.standard_normal((3, 5)).astype('f4'), 'w')
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info(n, 1, ['N', 3, 8, 8]) for n in names],
                              [helper.make_tensor_value_info('e' + n, 1, ['N', 5]) for n in names], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'three.onnx')
    for i in range(6):
        cv2.imwrite(f'three{i}.png', rng.integers(0, 256, (8, 8, 3)).astype('u1'))
    with open('three.csv', 'w') as f:
        f.write('anchor,near,far\n' + ''.join(f'three{i}.png,three{(i + 1) % 6}.png,three{(i + 3) % 6}.png\n' for i in range(6)))
    loss = ['--loss', 'eanchor=triplet:positive=enear,negative=efar']
    run('three.onnx', '--data', 'three.csv', *loss, '--val-split', '0.3', '--epochs', '1', '--run-dir', 'none', '-o', 't.onnx', says=('loss triplet on output',))
    run('eval', 't.onnx', '--data', 'three.csv', *loss, says=('samples   6',))
    run('three.onnx', '--data', 'three.csv', '--steps', '1', '--run-dir', 'none', '-o', 't.onnx', rc=4, says=('a column for the target is missing',))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, test in list(globals().items()):
        if name.startswith('test_'):
            test()
    os.chdir('/')
print('\n'.join(bad) or 'messages say what to do')
sys.exit(bool(bad))
