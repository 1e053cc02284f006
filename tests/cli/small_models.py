"""Small models with data for them, and calls of the program with them: what test_data.py and test_columns.py share."""
import os
import subprocess
import tempfile

from scripts import T, check, finish, np, numpy_helper, onnx, program, verdict
from scripts import h as helper

root = os.path.abspath(os.path.dirname(__file__) + '/../..')
rng = np.random.default_rng(0)


def weight(name, *shape):
    return numpy_helper.from_array((rng.standard_normal(shape) / 3).astype(np.float32), name)


def value(name, t, shape):
    return helper.make_tensor_value_info(name, t, shape)


def model(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph([helper.make_node(*n[:3], **n[3]) for n in nodes], 'g', inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)


def make():
    model('two.onnx', [('Gemm', ['x', 'w', 'b'], ['h'], {}), ('Relu', ['h'], ['r'], {}),
                       ('Gemm', ['r', 'w1', 'b1'], ['cls'], {}), ('Gemm', ['r', 'w2', 'b2'], ['reg'], {})],
          [value('x', T.FLOAT, ['N', 4])], [value('cls', T.FLOAT, ['N', 3]), value('reg', T.FLOAT, ['N', 1])],
          [weight('w', 4, 8), weight('b', 8), weight('w1', 8, 3), weight('b1', 3), weight('w2', 8, 1), weight('b2', 1)])
    for name, n in ('one', 3), ('value', 1):
        model(f'{name}.onnx', [('Gemm', ['x', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, ['N', 4])],
              [value('out', T.FLOAT, ['N', n])], [weight('w', 4, n), weight('b', n)])
    model('conv.onnx', [('Conv', ['x', 'w', 'b'], ['h'], {}), ('Relu', ['h'], ['r'], {}), ('GlobalAveragePool', ['r'], ['p'], {}),
                        ('Flatten', ['p'], ['f'], {}), ('Gemm', ['f', 'v', 'u'], ['out'], {})],
          [value('x', T.FLOAT, ['N', 3, 8, 8])], [value('out', T.FLOAT, ['N', 2])],
          [weight('w', 4, 3, 3, 3), weight('b', 4), weight('v', 4, 2), weight('u', 2)])
    model('flat.onnx', [('Gemm', ['x', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, ['N', 12])],
          [value('out', T.FLOAT, ['N', 2])], [weight('w', 12, 2), weight('b', 2)])
    model('tokens.onnx', [('Gather', ['e', 'ids'], ['h'], {'name': '/e/Gather'}),
                          ('ReduceMean', ['h'], ['m'], {'axes': [1], 'keepdims': 0}), ('Gemm', ['m', 'v', 'u'], ['out'], {})],
          [value('ids', T.INT64, ['N', 6])], [value('out', T.FLOAT, ['N', 2])], [weight('e', 50, 8), weight('v', 8, 2), weight('u', 2)])
    model('reg3.onnx', [('Gemm', ['x', 'w', 'b'], ['out'], {})], [value('x', T.FLOAT, ['N', 3])], [value('out', T.FLOAT, ['N', 1])], [weight('w', 3, 1), weight('b', 1)])
    model('largest.onnx', [('Gemm', ['x', 'w', 'b'], ['h'], {}), ('ArgMax', ['h'], ['out'], {'axis': 1, 'keepdims': 0})],
          [value('x', T.FLOAT, ['N', 4])], [value('out', T.INT64, ['N'])], [weight('w', 4, 3), weight('b', 3)])

    x = rng.standard_normal((40, 4)).astype(np.float32)
    c, r = rng.integers(0, 3, 40), rng.standard_normal((40, 1)).astype(np.float32)
    pictures, label = rng.integers(0, 256, (40, 3, 8, 8)).astype(np.uint8), rng.integers(0, 2, 40)
    ids = rng.integers(0, 50, (40, 6))
    wrong = ids.copy()
    wrong[33, 2] = 50
    sets = {
        'two': dict(x=x, target_cls=c, target_reg=r), 'cls': dict(x=x, target_cls=c), 'reg': dict(x=x, target_reg=r),
        'one': dict(x=x, target=c), 'nope': dict(x=x, target_nope=c), 'extra': dict(x=x, target=c, z=x, zz=r),
        'both': dict(x=x, target=c, y=(c + 1) % 3), 'floats': dict(x=x, target=c.astype(np.float32)), 'xy': dict(x=x, y=c),
        'names': dict(X=x, y=c), 'high': dict(x=x, target=np.where(np.arange(40) == 7, 3, c)),
        'bytes': dict(x=pictures, target=label), 'last': dict(x=pictures.transpose(0, 2, 3, 1), target=label),
        'unit': dict(x=pictures.astype(np.float32) / 255, target=label),
        'flat': dict(x=pictures[:, 0, :3, :4].reshape(40, 12), target=label),
        'ids': dict(ids=ids, target=label), 'wrong': dict(ids=wrong, target=label),
        'small': dict(ids=ids.astype(np.uint8), target=label), 'zeros': dict(x=x, target=c * 0),
    }
    for name, v in ('nan', np.nan), ('inf', np.inf), ('low', -np.inf):
        sets[name] = dict(x=x.copy(), target=c)
        sets[name]['x'][17, 1] = v
        sets[name + '_y'] = dict(x=x, target=r.copy())
        sets[name + '_y']['target'][5] = v
    for name, arrays in sets.items():
        np.savez(name + '.npz', **arrays)
    np.savez('y_bytes.npz', x=pictures[:8])
    rows = [[f'{v:.4f}' for v in a] + [f'{b[0]:.3f}'] for a, b in zip(x, r)]
    open('t.csv', 'w').write('a,b,c,d,price\n' + ''.join(','.join(q) + '\n' for q in rows))
    open('named.csv', 'w').write('a,b,target,c,d\n' + ''.join(','.join(q) + '\n' for q in rows))
    return sets


def call(*arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    return r.returncode, r.stderr


def printed(*arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    return r.stdout, r.stderr


def expect(code, texts, *arguments, never=()):
    """The exit code, texts that stderr holds, and others that it must not."""
    got, said = call(*arguments)
    line = ' '.join(arguments)
    verdict(line, f'exit {got}, {code} is right\n{said}' if got != code else None)
    for t in [texts] if isinstance(texts, str) else texts:
        verdict(line, f"does not say '{t}':\n{said}" if t not in said else None)
    for t in never:
        verdict(line, f"says '{t}':\n{said}" if t in said else None)


def train(code, texts, name, data, *options, **more):
    expect(code, texts, name + '.onnx', '--data', data, '--steps', '2', '--run-dir', 'run', '-o', 'out.onnx', *options, **more)


def weights(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def moved(before, after='out.onnx'):
    a, b = weights(before), weights(after)
    return {n for n in a if not np.array_equal(a[n], b[n])}


def need(what, so):
    check(so, what)


def run(groups, noun):
    """Calls the groups in a folder with the models and the data, and ends the script."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ['ONNXTRAIN_DATA'] = root + '/models/data'
        os.chdir(folder)
        make()
        for group in groups:
            group()
        os.chdir('/')
    finish(noun)
