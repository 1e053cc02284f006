"""Data of several files of arrays, and arrays that are larger than memory should hold.

usage: test_arrays.py PROGRAM
"""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

from scripts import T, h as helper, np, numpy_helper, onnx

program = os.path.abspath(sys.argv[1])
root = os.path.abspath(os.path.dirname(__file__) + '/../..')
rng = np.random.default_rng(0)
bad = []


def run(*words, rc=0, says=(), folder=None):
    p = subprocess.run([program, *words], capture_output=True, text=True, cwd=folder,
                       env=dict(os.environ, OMP_NUM_THREADS='1', NO_COLOR='1'))
    text = p.stdout + p.stderr
    if p.returncode != rc:
        bad.append(f'{" ".join(words)}: status {p.returncode}, expected {rc}: {text[-900:]}')
    for s in says:
        if s not in text:
            bad.append(f'{" ".join(words)}: no {s!r} in {text[-1500:]}')
    return text


def check(what, good):
    if not good:
        bad.append(what)


def value(name, t, shape):
    return helper.make_tensor_value_info(name, t, shape)


def weight(name, *shape):
    return numpy_helper.from_array((rng.standard_normal(shape) / 3).astype(np.float32), name)


def make_model(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph([helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], 'g', inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)


def net(path, elements=4):
    make_model(path, [('Gemm', ['x', 'w', 'b'], ['out'])], [value('x', T.FLOAT, ['N', elements])],
               [value('out', T.FLOAT, ['N', 3])], [weight('w', elements, 3), weight('b', 3)])


def weights(path):
    return [numpy_helper.to_array(w).tobytes() for w in onnx.load(path).graph.initializer]


def test_several():
    x, y = rng.standard_normal((40, 4)).astype(np.float32), rng.integers(0, 3, 40)
    net('net.onnx')
    os.makedirs('d', exist_ok=True)
    np.savez('all.npz', x=x, target=y)
    np.savez('x.npz', x=x)
    np.save('d/x.npy', x)
    np.save('d/y.npy', y)
    train = ['net.onnx', '--epochs', '3', '--lr', '0.1', '--device', 'cpu', '--seed', '4', '--metrics', 'all']
    run(*train, '--data', 'all.npz', '--val-split', '0.2', '-o', 'a.onnx', '--run-dir', 'ra')
    for i, data in enumerate((['x=d/x.npy', 'target=d/y.npy'], ['x.npz', 'target=d/y.npy'], ['d/x.npy', 'target=d/y.npy'])):
        words = [w for p in data for w in ('--data', p)]
        run(*train, *words, '--val-split', '0.2', '-o', 'b.onnx', '--run-dir', f'r{i}')
        check(f'{data}: other weights than from one file', weights('a.onnx') == weights('b.onnx'))
    run(*train, '--data', 'all.npz', '--val', 'x=d/x.npy', '--val', 'target=d/y.npy', '--test', 'x.npz', '--test', 'target=d/y.npy',
        '-o', 'c.onnx', says=('x.npy + d/y.npy', 'x.npz + d/y.npy'))
    # The run knows its files, from another folder too.
    here = run('eval', 'r0')
    there = run('eval', '../r0', folder='d')
    check('eval RUN from another folder', here.split('weights:')[0] == there.split('weights:')[0] and 'accuracy' in here)
    run('eval', 'r0', '--data', 'x=d/x.npy', '--data', 'target=d/y.npy', says=('accuracy',))
    run('resume', '../r0', '--epochs', '5', folder='d', says=('5',))
    one = run('predict', 'a.onnx', 'all.npz')
    check('predict of two files', one == run('predict', 'a.onnx', 'x=d/x.npy', 'target=d/y.npy') == run('predict', 'a.onnx', 'd/x.npy'))
    run('run', 'a.onnx', '--data', 'x=d/x.npy', '-o', 'one.npz')
    run('run', 'a.onnx', '--data', 'x.npz', '-o', 'two.npz')
    check('run of a named array', open('one.npz', 'rb').read() == open('two.npz', 'rb').read())
    run('grad', 'a.onnx', '--data', 'x=d/x.npy', '--data', 'target=d/y.npy', '-o', 'g.npz')
    run('data', 'x=d/x.npy', 'target=d/y.npy', says=('3 classes', '40 samples'))
    run(*train, '--data', 'x=d/x.npy', '--data', 'target=d/y.npy', '-o', 'd/x.npy', rc=2, says=('d/x.npy',))
    run(*train, '--data', 'd/x.npy', '--data', 'd/y.npy', rc=4, says=('--data INPUT=FILE --data target=FILE',))
    run(*train, '--data', 'x=d/x.npy', '--data', 'target=nowhere.npy', rc=7, says=('nowhere.npy',))
    with open('conf', 'w') as f:
        f.write('data = x=d/x.npy\ndata = target=d/y.npy\n')
    run(*train, '--config', 'conf', '-o', 'e.onnx', '--val-split', '0.2')
    check('a config file with two files', weights('a.onnx') == weights('e.onnx'))


def test_sample_counts():
    """An input whose first axis is the batch has as many rows as the other arrays; an axis of its own has its own size."""
    def sums(path, first, other):
        make_model(path, [('Shape', ['x'], ['s'], {'start': 0, 'end': 1}), ('Slice', ['m', 'zero', 's'], ['head']), ('Add', ['x', 'head'], ['h']),
                          ('Gemm', ['h', 'w', 'b'], ['out'])], [value('x', T.FLOAT, [first, 4]), value('m', T.FLOAT, [other, 4])],
                   [value('out', T.FLOAT, [first, 3])], [weight('w', 4, 3), weight('b', 3), numpy_helper.from_array(np.zeros(1, np.int64), 'zero')])

    x, m, y = rng.standard_normal((8, 4)).astype(np.float32), rng.standard_normal((16, 4)).astype(np.float32), rng.integers(0, 3, 8)
    sums('named.onnx', 'N', 'N')
    sums('open.onnx', None, None)
    sums('edges.onnx', 'N', 'E')
    sums('one.onnx', 'N', 4)
    train = ['--batch-size', '4', '--epochs', '1', '--run-dir', 'none', '-o', 'counts.onnx', '--device', 'cpu']
    np.savez('right.npz', x=x, m=m[:8], target=y)
    run('named.onnx', '--data', 'right.npz', *train)
    for rows in (16, 5, 4, 1):
        np.savez('rows.npz', x=x, m=m[:rows], target=y)
        says = (f"the target 'target' has 8 samples, but array 'm' for input 'm' has {rows}\n",)
        for model in ('named.onnx', 'open.onnx'):
            run(model, '--data', 'rows.npz', *train, rc=4, says=says)
        run('eval', 'named.onnx', '--data', 'rows.npz', rc=4, says=says)
        run('check', 'named.onnx', '--data', 'rows.npz', rc=4, says=says)
        run('grad', 'named.onnx', '--data', 'rows.npz', '-o', 'g.npz', rc=4, says=says)
        run('predict', 'named.onnx', 'rows.npz', rc=4, says=says)
    np.savez('rows.npz', x=x, m=m, target=y)
    run('edges.onnx', '--data', 'rows.npz', *train, says=("array 'm' has 16 rows, not 8 as the samples", "first axis 'E'"))
    np.savez('four.npz', x=x, m=m[:4], target=y)
    run('one.onnx', '--data', 'four.npz', *train)
    np.savez('first.npz', x=x[:5], m=m[:8], target=y)
    run('named.onnx', '--data', 'first.npz', *train, rc=4, says=("the target 'target' has 8 samples, but array 'x' for input 'x' has 5",))
    np.savez('first.npz', x=x[:5], m=m[:8])
    run('predict', 'named.onnx', 'first.npz', rc=4, says=("array 'x' has 5 samples, but array 'm' for input 'm' has 8",))


def test_gradient_types():
    """NumPy has no bfloat16: gradients of such weights are bits, which is said."""
    w = weight('w', 4, 3)
    half = helper.make_tensor('w', T.BFLOAT16, [4, 3], numpy_helper.to_array(w).ravel())
    x, y = rng.standard_normal((8, 4)).astype(np.float32), rng.standard_normal((8, 3)).astype(np.float32)
    np.savez('half.npz', x=x, target=y)
    make_model('half.onnx', [('Cast', ['w'], ['v'], {'to': T.FLOAT}), ('MatMul', ['x', 'v'], ['out'])], [value('x', T.FLOAT, ['N', 4])], [value('out', T.FLOAT, ['N', 3])], [half])
    run('grad', 'half.onnx', '--data', 'half.npz', '-o', 'half-g.npz', '--loss', 'mse', says=('1 gradients are bfloat16',))
    bits = np.load('half-g.npz')['w']
    got = (bits.astype('uint32') << 16).view('float32')
    right = 2 * x.T @ (x @ numpy_helper.to_array(w) - y) / y.size
    check(f'gradients of bfloat16: {got}, {right} is right', bits.dtype == np.uint16 and np.allclose(got, right, rtol=2e-2, atol=5e-3))


def test_foreign():
    with open('x.h5', 'wb') as f:
        f.write(b'\x89HDF\r\n\x1a\n' + bytes(100))
    net('net.onnx')
    run('net.onnx', '--data', 'x.h5', rc=4, says=('x.h5: is an HDF5 file', 'numpy.savez'))
    for name, member, said in ('t.xlsx', '[Content_Types].xml', 'save the table as .csv'), ('t.pt', 't/data.pkl', 'a file of torch.save'):
        with zipfile.ZipFile(name, 'w') as z:
            z.writestr(member, 'x')
        both_tails(name)
        run('net.onnx', '--data', name, rc=4, says=(f"member '{member}' is not an .npy array", said))
    open('x.pkl', 'wb').write(b'\x80\4\x95' + bytes(20))
    open('x.json', 'w').write('[{"a": 1}]')
    run('net.onnx', '--data', 'x.pkl', rc=4, says=('x.pkl: is a pickle', 'numpy.savez'))
    run('net.onnx', '--data', 'x.json', rc=4, says=('an object in each line', '.jsonl'))


def both_tails(path):
    """Adds the 64-bit end record to a small archive, as some programs write it always."""
    b = open(path, 'rb').read()
    at = len(b) - 22
    count, size, offset = struct.unpack('<HII', b[at + 10:at + 20])
    record = struct.pack('<4sQHHIIQQQQ', b'PK\6\6', 44, 45, 45, 0, 0, count, count, size, offset) + struct.pack('<4sIQI', b'PK\6\7', 0, at, 1)
    open(path, 'wb').write(b[:at] + record + b[at:])


def test_two_tails():
    net('net.onnx')
    np.savez('a.npz', x=rng.standard_normal((20, 3)).astype('f4'), target=np.arange(20) % 3)
    both_tails('a.npz')
    run('data', 'a.npz', says=('20 samples',))


def sparse(path, shape, dtype='<f4'):
    """An array of zeros that takes no room."""
    with open(path, 'wb') as f:
        np.lib.format.write_array_header_1_0(f, {'descr': dtype, 'fortran_order': False, 'shape': shape})
        f.truncate(f.tell() + int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return np.lib.format.open_memmap(path, 'r+')


def test_mapped():
    n, each = 3000, 30000 # 343 MiB
    net('wide.onnx', each)
    x = sparse('wide.npy', (n, each))
    y = np.arange(n) % 3
    for c in range(3):
        x[y == c, c] = 1
    x.flush()
    np.save('wide-y.npy', y)
    words = ['wide.onnx', '--data', 'x=wide.npy', '--data', 'target=wide-y.npy', '--val-split', '0.1', '--device', 'cpu',
             '--batch-size', '100', '--epochs', '2', '--lr', '1', '--optimizer', 'sgd']
    text = run(*words, '-o', 'w.onnx', says=('wide.npy: is mapped', 'accuracy'))
    check(f'a mapped array trains: {text[-800:]}', 'accuracy 100' in text or 'accuracy 1.0' in text or '100.00 %' in text)
    x[1234, 17] = np.nan
    x.flush()
    run(*words, rc=4, says=('wide.npy', "x: sample 1234 contains NaN"))


def conv(path, shape, **kw):
    make_model(path, [('Conv', ['image', 'w', 'b'], ['h']), ('GlobalAveragePool', ['h'], ['p']), ('Flatten', ['p'], ['f']),
                      ('Gemm', ['f', 'v', 'u'], ['out'])] if shape[0] == 3 else
               [('Transpose', ['image'], ['t'], dict(perm=[0, 3, 1, 2])), ('Conv', ['t', 'w', 'b'], ['h']), ('GlobalAveragePool', ['h'], ['p']),
                ('Flatten', ['p'], ['f']), ('Gemm', ['f', 'v', 'u'], ['out'])],
               [value('image', T.FLOAT, ['N', *shape])], [value('out', T.FLOAT, ['N', 2])],
               [weight('w', 4, 3, 3, 3), weight('b', 4), weight('v', 4, 2), weight('u', 2)])


def test_names_and_axes():
    images, label = rng.integers(0, 256, (40, 3, 6, 8)).astype(np.uint8), rng.integers(0, 2, 40)
    last = images.transpose(0, 2, 3, 1)
    state = rng.bit_generator.state
    conv('first.onnx', (3, 6, 8))
    rng.bit_generator.state = state
    conv('last.onnx', (6, 8, 3))
    np.savez('right.npz', image=images, target=label)
    np.savez('turned.npz', image=last, target=label)
    np.savez('others.npz', x=last, labels=label)
    np.savez('three.npz', x=last, z=label[:, None], target=label)
    common = ['--epochs', '2', '--lr', '0.1', '--device', 'cpu', '--seed', '1', '--quiet', '-o', 'out.onnx']

    def trained(model, data, *more, says=()):
        run(model, '--data', data, *common, *more, says=says)
        return weights('out.onnx')
    for more in ([], ['--normalize', 'mean,std'], ['--normalize', '[0.1,0.2,0.3],[1,2,3]', '--augment', 'flip', '--augment', 'crop:padding=1']):
        right = trained('first.onnx', 'right.npz', *more)
        check(f'{more}: channels last', right == trained('first.onnx', 'turned.npz', *more))
        check(f'{more}: --permute', right == trained('first.onnx', 'turned.npz', *more, '--permute', 'image=0,3,1,2'))
        check(f'{more}: other names', right == trained('first.onnx', 'others.npz', *more, '--target', 'labels'))
        check(f'{more}: --inputs', right == trained('first.onnx', 'three.npz', *more, '--inputs', 'image=x'))
        right = trained('last.onnx', 'turned.npz', *more)
        check(f'{more}: channels first', right == trained('last.onnx', 'right.npz', *more))
    steps = ('flip:p=0.3', 'crop:padding=1', 'erase:p=1,scale=[0.02,0.1]', 'grey')
    one_by_one = trained('first.onnx', 'right.npz', *(word for step in steps for word in ('--augment', step)))
    check('steps of --augment with commas', one_by_one == trained('first.onnx', 'right.npz', '--augment', ','.join(steps)))
    check('steps of --augment in another order', one_by_one != trained('first.onnx', 'right.npz', '--augment', ','.join(reversed(steps))))
    for steps, says in ('flip,', "''"), ('flip,,grey', "''"), ('flip,pad-crop', "'pad-crop'"), ('flip:p=0.5,q=1', "'q'"):
        run('first.onnx', '--data', 'right.npz', *common, '--augment', steps, rc=2, says=(says,))
    run('first.onnx', '--data', 'turned.npz', *common[:-3], '-o', 'out.onnx', says=("channels are moved first for input 'image', each sample is [3,6,8]",))
    run('first.onnx', '--data', 'others.npz', *common, rc=4,
        says=("'x' uint8 [40,6,8,3], 'labels' int64 [40]", '--inputs', '--target'))
    run('first.onnx', '--data', 'three.npz', *common, '--inputs', 'image=q', rc=2, says=('--inputs image=q: for arrays expected INPUT=ARRAY',))
    run('first.onnx', '--data', 'turned.npz', *common, '--permute', 'q=0,3,1,2', rc=2, says=('--permute q=0,3,1,2: expected NAME=AXES',))
    for axes in '0,3,1', '1,0,2,3', '0,1,1,2', '0,3,1,x', '0,4,1,2', '', '0,3,1,2,':
        run('first.onnx', '--data', 'turned.npz', *common, '--permute', f'image={axes}', rc=2, says=('--permute image=',))
    run('first.onnx', '--data', 'turned.npz', *common, '--permute', 'image=0,2,1,3', rc=2, says=('numpy.transpose',))
    run('first.onnx', '--data', 'turned.npz', *common, '--permute', 'image=0,2,3,1', rc=4, says=('with the axes of --permute is [40,8,3,6]',))
    run('first.onnx', '--data', 'mnist', *common, '--permute', 'image=0,3,1,2', rc=2, says=('images of mnist are arranged',))
    # eval, predict and run of the same files.
    run('first.onnx', '--data', 'right.npz', *common)
    answers = []
    for words in (['right.npz'], ['turned.npz'], ['turned.npz', '--permute', '0,3,1,2']):
        run('predict', 'out.onnx', *words, '-o', 'p.csv')
        answers.append(open('p.csv').read())
    check('predict with other axes', len(answers[0]) > 40 and len(set(answers)) == 1)
    run('eval', 'out.onnx', '--data', 'others.npz', '--target', 'labels', says=('accuracy',))
    np.savez('named.npz', x=images.astype(np.float32), image=images.astype(np.float32)[:, :, :2])
    run('run', 'out.onnx', '--data', 'named.npz', '--inputs', 'image=x', '-o', 'y.npz')
    check('run --inputs', np.load('y.npz')['out'].shape == (40, 2))
    # Sequences, and volumes of five axes.
    make_model('seq.onnx', [('Conv', ['s', 'w'], ['h']), ('GlobalAveragePool', ['h'], ['p']), ('Flatten', ['p'], ['out'])],
               [value('s', T.FLOAT, ['N', 5, 'T'])], [value('out', T.FLOAT, ['N', 2])], [weight('w', 2, 5, 3)])
    s = rng.standard_normal((40, 5, 9)).astype(np.float32)
    np.savez('seq.npz', s=s, target=label)
    np.savez('seq-last.npz', s=s.transpose(0, 2, 1), target=label)
    run('seq.onnx', '--data', 'seq-last.npz', *common, rc=4, says=("--permute 's=0,2,1'",))
    check('sequences', trained('seq.onnx', 'seq.npz') == trained('seq.onnx', 'seq-last.npz', '--permute', 's=0,2,1'))
    run('seq.onnx', '--data', 'seq-last.npz', *common, rc=4, says=("input 's' is [?,5,?], but array 's' is [40,9,5]",))
    recorded_axes(label, common)


def recorded_axes(label, common):
    """The order of --permute is recorded beside the scaling, and applies where the input takes the result."""
    square = rng.standard_normal((40, 5, 5)).astype(np.float32)
    np.savez('first.npz', s=square, target=label)
    np.savez('last.npz', s=square.transpose(0, 2, 1), target=label)
    np.savez('long.npz', s=np.concatenate([square, square], 2), target=label)

    def loss(*words, model='out.onnx'):
        text = run('eval', model, *words, '--json', '--quiet')
        return json.loads(text[text.index('{'):])['loss']
    for more in ([], ['--normalize', 'auto']):
        run('seq.onnx', '--data', 'last.npz', *common, *more, '--permute', 's=0,2,1')
        record = json.loads({p.key: p.value for p in onnx.load('out.onnx').metadata_props}['onnxtrain.preprocess'])['inputs']['s']
        check(f'{more}: recorded axes', record['permute'] == [0, 2, 1] and ('mean' in record) == bool(more))
        right = loss('--data', 'first.npz', '--permute', 's=0,1,2')
        check(f'{more}: axes of the record', right == loss('--data', 'last.npz') == loss('--data', 'last.npz', '--permute', '0,2,1') != loss('--data', 'first.npz'))
        loss('--data', 'long.npz')  # has the input's shape as it is alone
        run('predict', 'out.onnx', 'last.npz', '-o', 'p.csv', says=('as the model', 'change with --permute'))
        run('out.onnx', '--data', 'last.npz', *common[:-1], 'again.onnx')
        check(f'{more}: trained again', loss('--data', 'last.npz', model='again.onnx') == loss('--data', 'first.npz', '--permute', 's=0,1,2', model='again.onnx'))
        run('out.onnx', '--data', 'first.npz', *common[:-1], 'again.onnx', '--permute', 's=0,1,2')
        check(f'{more}: changed', loss('--data', 'first.npz', model='again.onnx') == loss('--data', 'last.npz', '--permute', 's=0,2,1', model='again.onnx'))


def makers():
    source = open(os.path.join(root, 'tests/data/make_fixtures.py')).read()
    part = source[source.index('def crc32c'):source.index('def numbers')]
    made = {'struct': __import__('struct'), 'zlib': __import__('zlib')}
    exec(part, made)
    return made['record'], made['example'], made['png']


def test_tfrecord():
    """Images in records train as the same images in class folders; numbers as an .npz."""
    record, example, png = makers()
    pixels = [(i * 9 % 256, i * 37 % 256, i * 101 % 256) for i in range(30)]
    for i, rgb in enumerate(pixels):
        os.makedirs(f'classes/{i % 2}', exist_ok=True)
        with open(f'classes/{i % 2}/{i:02}.png', 'wb') as f:
            f.write(png(6, 8, rgb))
    order = [i for c in range(2) for i in range(c, 30, 2)] # as the folder has them
    with open('flowers.tfrecord', 'wb') as f:
        for i in order:
            f.write(record(example(image__encoded=png(6, 8, pixels[i]), image__format=b'png', image__width=8, label=i % 2)))
    rng2 = np.random.default_rng(5)
    x, y = rng2.standard_normal((30, 12)).astype(np.float32), rng2.integers(0, 3, 30)
    with open('numbers.tfrecord', 'wb') as f:
        for i in range(30):
            f.write(record(example(x=[float(v) for v in x[i]], target=int(y[i]))))
    np.savez('numbers.npz', x=x.reshape(30, 3, 4), target=y)
    conv('first.onnx', (3, 6, 8))
    make_model('shaped.onnx', [('Flatten', ['x'], ['f']), ('Gemm', ['f', 'w', 'b'], ['out'])], [value('x', T.FLOAT, ['N', 3, 4])],
               [value('out', T.FLOAT, ['N', 3])], [weight('w', 12, 3), weight('b', 3)])
    common = ['--epochs', '2', '--lr', '0.1', '--device', 'cpu', '--seed', '1', '--batch-size', '8', '-o', 'out.onnx']
    for model, one, other, says in (('first.onnx', 'classes', 'flowers.tfrecord', ("the target is feature 'label'", '30 records')),
                                    ('shaped.onnx', 'numbers.npz', 'numbers.tfrecord', ('30 records',))):
        run(model, '--data', one, *common, '--val-split', '0.2')
        right = weights('out.onnx')
        run(model, '--data', other, *common, '--val-split', '0.2', says=says)
        check(f'{other}: other weights than from {one}', right == weights('out.onnx'))
        run('predict', 'out.onnx', other, '-o', 'p.csv')
        check(f'{other}: predict', len(open('p.csv').read().splitlines()) == 31)
    run('data', 'flowers.tfrecord', says=('image/encoded', 'images in files', '2 classes'))
    with open('flowers.tfrecord', 'r+b') as f:
        f.seek(40)
        f.write(b'?')
    run('first.onnx', '--data', 'flowers.tfrecord', *common, rc=4, says=('flowers.tfrecord: record 0: its checksum is wrong',))


def test_models_that_scale():
    """Images are not scaled twice; metadata say what a model expects."""
    idx = np.arange(16 * 28 * 28, dtype=np.int64)
    with open('train-images-idx3-ubyte', 'wb') as f:
        f.write(bytes([0, 0, 8, 3, 0, 0, 0, 16, 0, 0, 0, 28, 0, 0, 0, 28]) + (idx * idx % 251).astype(np.uint8).tobytes())
    with open('train-labels-idx1-ubyte', 'wb') as f:
        f.write(bytes([0, 0, 8, 1, 0, 0, 0, 16]) + bytes(i % 3 for i in range(16)))
    data = 'train-images-idx3-ubyte'

    def scaled(path, before, constants, metadata=None):
        state = np.random.default_rng(7)
        tail = [('Flatten', ['n', ], ['f']), ('Gemm', ['f', 'w', 'b'], ['out'])]
        more = [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in constants.items()]
        w = [numpy_helper.from_array((state.standard_normal(s) / 30).astype(np.float32), n) for n, s in (('w', (784, 3)), ('b', (3,)))]
        make_model(path, before + tail, [value('x', T.FLOAT, ['N', 1, 28, 28])], [value('out', T.FLOAT, ['N', 3])], w + more)
        if metadata:
            m = onnx.load(path)
            helper.set_model_props(m, metadata)
            onnx.save(m, path)
    rescale = [('Div', ['x', 'c'], ['d']), ('Sub', ['d', 'o'], ['n'])]
    said = 'the model itself normalizes pixels of 0..255'
    norm = ('BatchNormalization', ['x', 's', 'z', 'm', 'v'], ['n'])
    ones = dict(s=[1.], z=[0.])
    none = [('Identity', ['x'], ['n'])]
    common = ['--data', data, '--epochs', '1', '--lr', '0.01', '--device', 'cpu', '--seed', '1', '--batch-size', '4', '-o', 'out.onnx']
    for i, (before, constants, metadata, option, says) in enumerate((
            (rescale, dict(c=127.5, o=1.), None, 'none', f'{said}, by (x - 127.5) / 127.5'),
            ([('Sub', ['x', 'c'], ['n'])], dict(c=[[[103.]]]), None, 'none', said),
            ([('Transpose', ['x'], ['t'], dict(perm=[0, 2, 3, 1])), ('Mul', ['c', 't'], ['n'])], dict(c=1 / 255), None, 'none', f'{said}, by (x - 0) / 255'),
            ([norm], dict(m=[33.3], v=[6200.], **ones), None, 'none', said),
            ([norm], dict(m=[0.13], v=[0.095], **ones), None, '1/255', 'scaled to 0..1'),
            ([('Sub', ['x', 'c'], ['d']), ('Div', ['d', 'o'], ['n'])], dict(c=0.485, o=0.229), None, '1/255', 'scaled to 0..1'),
            (none, {}, {'Image.NominalPixelRange': 'NominalRange_0_255'}, 'none', 'Image.NominalPixelRange NominalRange_0_255'),
            (none, {}, {'Image.NominalPixelRange': 'Normalized_1_1'}, '0.5,0.5', 'with mean 0.5, std 0.5'),
            (none, {}, {'Image.NominalPixelRange': 'Normalized_0_1'}, '1/255', 'Image.NominalPixelRange Normalized_0_1'),
            (none, {}, None, '1/255', 'scaled to 0..1'))):
        scaled('s.onnx', before, constants, metadata)
        text = run('s.onnx', *common, says=(says,))
        mine = weights('out.onnx')
        run('s.onnx', *common, '--normalize', option)
        check(f'{i}: not as --normalize {option}', mine == weights('out.onnx'))
        run('s.onnx', *common, '--normalize', 'none' if option != 'none' else '1/255')
        check(f'{i}: --normalize is not used', mine != weights('out.onnx'))
        check(f'{i}: {text}', (said in text) == (said in says))
    scaled('s.onnx', rescale, dict(c=127.5, o=1.))
    run('s.onnx', *common)
    a, b = run('eval', 'out.onnx', '--data', data), run('eval', 'out.onnx', '--data', data, '--normalize', 'none')
    check('eval scales as the training did', a.split('confusion')[0] == b.split('confusion')[0] and said in a)


def test_normalize_auto():
    """Floats are standardised by the samples that train; the record in the model makes eval and predict the same."""
    g = np.random.default_rng(3)
    label = g.integers(0, 3, 60)
    x = (g.standard_normal((60, 4)) * [1, 100, 0.01, 5] + [0, 1000, 3, -7]).astype(np.float32)
    x[:, 3] = 2 # a constant column
    pictures = (g.standard_normal((60, 3, 6, 8)) * np.array([3, 30, 300])[:, None, None] + 50).astype(np.float32)
    conv('first.onnx', (3, 6, 8))
    net('net.onnx')
    common = ['--epochs', '2', '--lr', '0.05', '--device', 'cpu', '--seed', '1', '--batch-size', '8', '--optimizer', 'sgd', '-o', 'out.onnx']
    for model, name, a, axes, classes in (('net.onnx', 'x', x, 0, 3), ('first.onnx', 'image', pictures, (0, 2, 3), 2)):
        def scaled(by):
            d = a.astype(np.float64)
            m, s = d[by].mean(axes, keepdims=True), d[by].std(axes, keepdims=True)
            return ((d - m) / np.where(s > 0, s, 1)).astype(np.float32)
        y = label % classes
        np.savez('raw.npz', **{name: a, 'target': y})
        np.savez('part.npz', **{name: a[:40], 'target': y[:40]})
        np.savez('rest.npz', **{name: a[40:], 'target': y[40:]})
        by_hand = scaled(np.arange(60) < 40)
        np.savez('part-by-hand.npz', **{name: by_hand[:40], 'target': y[:40]})
        np.savez('rest-by-hand.npz', **{name: by_hand[40:], 'target': y[40:]})
        values = []
        for data, val, more in (('part.npz', 'rest.npz', ['--normalize', 'auto']), ('part-by-hand.npz', 'rest-by-hand.npz', [])):
            run(model, '--data', data, '--val', val, *common, *more, '--run-dir', 'run-' + data,
                says=("measured on the training set",) if more else ())
            values.append([numpy_helper.to_array(w) for w in onnx.load('out.onnx').graph.initializer])
            if more:
                os.rename('out.onnx', 'auto.onnx')
        off = max(np.abs(p - q).max() for p, q in zip(*values))
        check(f'{name}: weights as by hand, off by {off}', off < 2e-4)
        import json
        record = json.loads({p.key: p.value for p in onnx.load('auto.onnx').metadata_props}['onnxtrain.preprocess'])['inputs'][name]
        check(f'{name}: {record}', np.allclose(record['mean'], a[:40].astype(np.float64).mean(axes)) and record['kind'] == 'array')
        run('predict', 'auto.onnx', 'rest.npz', '-o', 'p.npz', says=("as the model's metadata say",))
        run('predict', 'out.onnx', 'rest-by-hand.npz', '-o', 'q.npz')
        check(f'{name}: predict', np.abs(np.load('p.npz')['out'] - np.load('q.npz')['out']).max() < 2e-3)
        one, two = run('eval', 'auto.onnx', '--data', 'rest.npz'), run('eval', 'run-part.npz')
        said = [[l.split(' (default')[0] for l in text.splitlines() if l.startswith('loss ')] for text in (one, two)]
        check(f'{name}: eval', said[0] == said[1] != [])
        run('eval', 'auto.onnx', '--data', 'rest.npz', '--normalize', 'auto')
        run('eval', model, '--data', 'rest.npz', '--normalize', 'auto', rc=2, says=('has no record of how',))
        run('auto.onnx', '--data', 'part.npz', *common, says=("as the model's metadata say",)) # trained further
        run('eval', 'out.onnx', '--data', 'rest.npz', says=("as the model's metadata say",))
    with open('t.csv', 'w') as f:
        f.write('a,b,target\n' + ''.join(f'{i},{i * 100},{i % 2}\n' for i in range(20)))
    make_model('csv.onnx', [('Gemm', ['x', 'w', 'b'], ['out'])], [value('x', T.FLOAT, ['N', 2])], [value('out', T.FLOAT, ['N', 2])],
               [weight('w', 2, 2), weight('b', 2)])
    run('csv.onnx', '--data', 't.csv', *common, '--normalize', 'auto')
    a = weights('out.onnx')
    run('csv.onnx', '--data', 't.csv', *common, '--normalize', 'mean,std')
    check('a table', a == weights('out.onnx'))
    np.savez('ints.npz', x=x.astype(np.int32), target=label)
    run('net.onnx', '--data', 'ints.npz', *common, '--normalize', 'auto', rc=2, says=('does not apply to ints.npz',))


def test_rows_of_bytes():
    """Bytes of an image in a row are planes or pixels: what was assumed is said, --permute says otherwise."""
    record, example, _ = makers()
    images, label = rng.integers(0, 256, (30, 3, 6, 8)).astype(np.uint8), rng.integers(0, 2, 30)
    state = rng.bit_generator.state
    conv('first.onnx', (3, 6, 8))
    rng.bit_generator.state = state
    conv('last.onnx', (6, 8, 3))
    np.savez('images.npz', image=images, target=label)
    for name, data in (('planes', images), ('pixels', images.transpose(0, 2, 3, 1))):
        with open(f'{name}.tfrecord', 'wb') as f:
            for x, y in zip(data, label):
                f.write(record(example(image=x.tobytes(), label=int(y))))
    common = ['--steps', '3', '--run-dir', 'none', '--device', 'cpu', '--no-shuffle', '-o', 'r.onnx']
    run('first.onnx', '--data', 'images.npz', *common)
    want = weights('r.onnx')
    for model, data, more, says in (
            ('first.onnx', 'planes', (), "channel after channel; if each pixel has its channels together: --permute 'image=0,3,1,2'"),
            ('first.onnx', 'pixels', ('--permute', 'image=0,3,1,2'), 'loss'),
            ('last.onnx', 'pixels', (), "pixel after pixel; if each channel is a plane: --permute 'image=0,2,3,1'"),
            ('last.onnx', 'planes', ('--permute', 'image=0,2,3,1'), 'loss')):
        run(model, '--data', f'{data}.tfrecord', *common, *more, says=(says,))
        check(f'{model} {data} {more}: other weights than from an array', weights('r.onnx') == want)
    run('first.onnx', '--data', 'pixels.tfrecord', *common)
    check('pixels taken as planes', weights('r.onnx') != want)
    run('first.onnx', '--data', 'pixels.tfrecord', *common, '--permute', 'image=1,0,2,3', rc=2, says=('axis 0', 'counts the samples'))


def few_of_mnist(folder, n):
    """The first n samples of both parts."""
    os.makedirs(folder, exist_ok=True)
    for part in 'train', 't10k':
        for name, head, each in (f'{part}-images-idx3-ubyte', 16, 784), (f'{part}-labels-idx1-ubyte', 8, 1):
            with gzip.open(f'{root}/models/data/mnist/{name}.gz') as f, open(f'{folder}/{name}', 'wb') as to:
                first = f.read(head + n * each)
                to.write(first[:4] + struct.pack('>I', n) + first[8:])


def test_recorded_bytes():
    """--normalize of bytes is recorded: predict and eval need no option."""
    net('net.onnx')
    make_model('conv.onnx', [('Conv', ['x', 'w', 'b'], ['h']), ('GlobalAveragePool', ['h'], ['p']), ('Flatten', ['p'], ['out'])],
               [value('x', T.FLOAT, ['N', 3, 8, 8])], [value('out', T.FLOAT, ['N', 3])], [weight('w', 3, 3, 3, 3), weight('b', 3)])
    common = ['--epochs', '2', '--run-dir', 'none', '--device', 'cpu']
    for model, shape in (('net.onnx', (40, 4)), ('conv.onnx', (40, 3, 8, 8))):
        np.savez('u.npz', x=rng.integers(0, 256, shape, dtype=np.uint8), target=rng.integers(0, 3, 40))
        plain = None
        for option in ('1/255', '0.4,0.25', 'mean,std', 'none'):
            run(model, '--data', 'u.npz', *common, '--normalize', option, '-o', 'u.onnx')
            text = run('predict', 'u.onnx', 'u.npz', says=("as the model's metadata say",))
            if option != 'mean,std':
                check(f'{model} {option}: predict', text.splitlines()[:41] == run('predict', 'u.onnx', 'u.npz', '--normalize', option).splitlines()[:41])
            check(f'{model} {option}: another scaling', text.splitlines()[:41] != plain)
            plain = text.splitlines()[:41]
        run('u.onnx', '--data', 'u.npz', *common, '-o', 'v.onnx', says=("as the model's metadata say",))
        run('eval', 'v.onnx', '--data', 'u.npz', says=("as the model's metadata say",))
    few_of_mnist('mnist', 300)
    lenet = f'{root}/models/lenet.onnx'
    run(lenet, '--data', 'mnist/', '--steps', '3', *common[2:], '--normalize', 'none', '-o', 'l.onnx')
    loss = [[l for l in run('eval', 'l.onnx', '--data', 'mnist/', *more).splitlines() if l.startswith('loss ')]
            for more in ((), ('--normalize', 'none'), ('--normalize', '1/255'))]
    check(f'MNIST without scaling: {loss}', loss[0] and loss[0] == loss[1] != loss[2])
    run(model, '--data', 'u.npz', *common, '--normalize', '0,1e-45', rc=2, says=("--normalize: invalid value '0,1e-45'",))


def test_cut():
    """A mapped file that is cut while it is read: an error that names it, never a signal."""
    net('wide.onnx', 1024)
    np.save('y.npy', np.arange(70000) % 3)
    for i in range(6):
        sparse('cut.npy', (70000, 1024))
        p = subprocess.Popen([program, 'wide.onnx', '--data', 'x=cut.npy', '--data', 'target=y.npy', '--batch-size', '20000', '--epochs', '100',
                              '--run-dir', 'none', '--device', 'cpu', '-o', 'cut.onnx'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in p.stdout:
            if line.startswith('memory:'):
                break
        time.sleep(0.05 * i + 0.1)
        os.truncate('cut.npy', 1 << 20)
        text = p.communicate(timeout=60)[0]
        check(f'cut while it is mapped: status {p.returncode}: {text[-300:]}', p.returncode == 7 and 'cut.npy: ' in text and 'start again' in text)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, test in list(globals().items()):
        if name.startswith('test_'):
            test()
    os.chdir('/')
for line in bad:
    print(line)
sys.exit(bool(bad))
